"""The action with the least expected cost."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from softkin._core import checks
from softkin._core.checks import Array
from softkin.calibrators.fitted import Formula
from softkin.decisions import bounds
from softkin.decisions.rule import Outcome, Rows, Rule
from softkin.metrics import Interval


class Costs(Rule, name="costs", title="Costs", aliases=("least-cost",)):
    r"""The action a with the least expected cost :math:`\sum_k p_k C_{ka}`; ties go to the first.

    This is the best decision if p is calibrated, and promises nothing otherwise. Therefore ``fit`` measures, on the
    given rows, the cost of the decisions, the cost that the model expected, and the cost of answering with the winning
    class (``cost_``, ``believed_``, ``plain_cost_``), each with a 95 % interval.

    Args:
        matrix: (K, A) cost of action a where the truth is class k, in row k. The first K actions are the classes; more
            may follow, such as asking a person.
        actions: The names of the actions.

    Example:
        >>> rule = Costs(torch.tensor([[0.0, 1, 0.3], [20, 0, 0.3]]), actions=["benign", "malignant", "ask"])
        >>> rule = rule.fit(torch.tensor([[4.0, 0], [0, 4]]), torch.tensor([0, 1]))
        >>> rule.predict(torch.tensor([[9.0, 0], [2, 0], [0, 4]]))
        tensor([0, 2, 1])
    """

    kept = ("believed_", "cost_", "plain_cost_")
    matrix: Tensor
    believed_: list[float]
    """Mean expected cost by the model's own probabilities, with its interval"""
    cost_: list[float]
    """Mean actual cost of the decisions"""
    plain_cost_: list[float]
    """Mean cost of answering with the winning class"""

    def __init__(self, matrix: Array, *, actions: Sequence[str] | None = None) -> None:
        self.matrix = checks.as_tensor(matrix, "matrix")
        self.actions = None if actions is None else list(actions)
        self.check_options()

    @classmethod
    def from_distances(cls, distances: Array, *, power: float = 1.0, ask: float | None = None) -> "Costs":
        """Costs of a mistake by the distance of the two classes, in units of the mean distance, raised to a power.

        Args:
            distances: (K, K), such as those of ``softkin.distances``.
            power: 0 makes all mistakes equally costly; 1 makes the cost the distance.
            ask: The cost of an additional last action that is never wrong.
        """
        d = checks.square(distances, "distances", without_diagonal=True)
        k = len(d)
        mean = float(d.sum()) / (k * (k - 1))
        if mean <= 0:
            raise ValueError("`distances` must not all be 0.")
        matrix = (d / mean).pow(checks.at_least_zero(power, "power"))
        matrix.fill_diagonal_(0)
        if ask is not None:
            matrix = torch.cat([matrix, torch.full((k, 1), checks.at_least_zero(ask, "ask"), dtype=matrix.dtype)], 1)
        return cls(matrix)

    def check_options(self) -> None:
        c = self.matrix.to("cpu", torch.float64)
        if c.ndim != 2 or c.shape[0] < 2 or c.shape[1] < 2:
            raise ValueError(
                f"`matrix` must have shape (K, A), a row for each class and a column for each action, "
                f"got {tuple(c.shape)}."
            )
        checks.finite(c, "matrix")
        if self.actions is not None and len(self.actions) != c.shape[1]:
            raise ValueError(f"`actions` must name each of the {c.shape[1]} actions, got {len(self.actions)}.")
        self.matrix = c

    def fit_rows(self, rows: Rows, labels: Tensor) -> None:
        if len(self.matrix) != self.num_classes_:
            raise ValueError(
                f"`matrix` has rows for {len(self.matrix)} classes but the logits have {self.num_classes_}; is it for "
                "another data set?"
            )
        measures = self._counted(self.answer(rows), rows, labels, 0.95, self.matrix)
        self.believed_, self.cost_, self.plain_cost_ = (
            [measures[name].value, measures[name].low, measures[name].high]
            for name in ("believed", "cost", "plain_cost")
        )

    def answer(self, rows: Rows) -> Tensor:
        actions = torch.empty(len(rows), dtype=torch.int64)
        for place, p in rows.blocks():
            actions[place] = (p @ self.matrix).argmin(dim=1)
        return actions

    def _counted(
        self, actions: Tensor, rows: Rows, labels: Tensor, level: float, matrix: Tensor
    ) -> dict[str, Interval]:
        believed = torch.empty(len(rows), dtype=torch.float64)
        winners = torch.empty(len(rows), dtype=torch.int64)
        for place, p in rows.blocks():
            believed[place] = (p * matrix.T[actions[place]]).sum(dim=1)
            winners[place] = p.argmax(dim=1)
        is_class = actions < self.num_classes_
        count = int(is_class.sum())
        least, most = float(matrix.min()), float(matrix.max())
        measures = {
            "cost": bounds.of_mean(matrix[labels, actions], level, least, most),
            "believed": bounds.of_mean(believed, level, least, most),
            "answered": bounds.of_share(count, len(rows), level),
            "error": bounds.of_share(int((is_class & (actions != labels)).sum()), count, level),
        }
        if matrix.shape[1] >= self.num_classes_:
            plain = matrix[labels, winners]
            measures["plain_cost"] = bounds.of_mean(plain, level, least, most)
            measures["saving"] = bounds.of_mean(plain - matrix[labels, actions], level, least - most, most - least)
        else:
            measures["plain_cost"] = Interval(math.nan, math.nan, math.nan, level)
        return measures

    def measure(self, answers: Tensor, rows: Rows, labels: Tensor, level: float, options: Mapping[str, Any]) -> Outcome:
        taken = torch.bincount(answers, minlength=self.matrix.shape[1])
        matrix = self.matrix
        if "costs" in options:  # actions that are not classes keep their own costs
            matrix = torch.cat([options["costs"].to(matrix.dtype), matrix[:, self.num_classes_ :]], dim=1)
        return Outcome(len(rows), self._counted(answers, rows, labels, level, matrix), {"actions": taken.tolist()})

    def guarantee(self) -> str:
        """The promise of the decisions."""
        self.check_fitted()
        return (
            "No other decision has a lower expected cost if the probabilities are calibrated; nothing is promised if "
            f"they are not. On the {self.num_samples_:,} rows of the fit the model expected a mean cost of "
            f"{self.believed_[0]:.4g}, and it was {self.cost_[0]:.4g} ({self.cost_[1]:.4g} to {self.cost_[2]:.4g})."
        )

    def formula(self) -> Formula:
        return (lambda p, matrix: (p @ matrix).argmin(dim=1)), [self.matrix]
