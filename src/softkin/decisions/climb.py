"""Answer with the class, more coarsely with a kind of classes, or not at all."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Self

import torch
from torch import Tensor

from softkin._core.assumption import Assumption
from softkin._io.files import number
from softkin.calibrators.fitted import Formula
from softkin.decisions import bounds
from softkin.decisions.abstain import RiskOf, Selective
from softkin.decisions.rule import Outcome, Rows, set_apart
from softkin.decisions.thresholds import CANDIDATES
from softkin.distances.trees import Tree

PLACING = 0.1  # share of the rows that place the thresholds, up to MOST_PLACING
MOST_PLACING = 1000


class Climb(Selective, name="climb", title="Climb"):
    r"""Climb from the winning class up the tree to the first sufficiently probable node: a class, a kind, or no answer.

    The mass of a node is the sum of its classes' probabilities, and grows on the way up. The answer is the lowest node
    at or above the winning class whose mass exceeds the threshold θ. The root means no answer, which is −1. An answer
    is wrong if the true class is not below it.

    θ is chosen by a fixed sequence of tests, as in ``thresholds.select``. A row is answered if the mass of its
    uppermost node exceeds θ, so that mass is the score. As the node that answers depends on θ too, the thresholds must
    not depend on the rows that test them: a tenth of the rows, at most 1,000, places them. With ``Tree.flat`` all rows
    do both, and the rule is ``Abstain``. ``of="rows"`` is conformal risk control: a lower θ only adds answers and
    lowers nodes, so the loss is monotone.

    Args:
        tree: A tree from ``Tree.from_edges``, ``Tree.from_superclasses`` or ``Tree.from_distances``, or a list of the
            super-class 0 … G−1 of each class.
        error: The permitted error rate.
        confidence: Probability, over calibration sets, that the error rate among the answers stays below ``error``.
        of: "answers" bounds the errors among the answers, "rows" the expected share of all rows that are answered
            wrong.
        candidates: Number of thresholds to test.

    Attributes:
        threshold_: θ; infinite if no threshold keeps the promise.
        selection_: All tested thresholds with their bounds; None after ``load``, and with ``of="rows"``.

    Example:
        >>> tree = Tree.from_superclasses([0, 0, 1], class_names=["cat", "dog", "rose"], names=["animal", "flower"])
        >>> rule = Climb(tree, error=0.2, candidates=10)
        >>> logits = torch.tensor([[4.0, 0, 0], [2, 2, -3], [0, 0, 0]]).repeat(100, 1)
        >>> rule = rule.fit(logits, torch.tensor([0, 1, 2]).repeat(100))
        >>> [tree.names[node] if node >= 0 else None for node in rule.predict(logits[:3]).tolist()]
        ['cat', 'animal', None]

    References:
        Deng et al., Hedging Your Bets: Optimizing Accuracy-Specificity Trade-offs in Large Scale Visual Recognition,
        2012; Angelopoulos et al., Learn then Test, 2021, and Conformal Risk Control, 2022.
    """

    kept = ("threshold_",)

    def __init__(
        self,
        tree: Tree | Sequence[int],
        error: float = 0.05,
        *,
        confidence: float = 0.95,
        of: RiskOf = "answers",
        candidates: int = CANDIDATES,
    ) -> None:
        made: Any = Tree.from_superclasses(tree) if isinstance(tree, list | tuple | Tensor) else tree
        self.tree, self.error, self.confidence, self.of, self.candidates = made, error, confidence, of, candidates
        self.check_options()

    def check_options(self) -> None:
        if not isinstance(self.tree, Tree):
            raise TypeError(
                f"`tree` must be a Tree, such as Tree.from_superclasses(groups) makes, got {type(self.tree).__name__}."
            )
        self._check_selective()

    def plain_options(self) -> dict[str, Any]:
        return super().plain_options() | {"tree": asdict(self.tree)}

    @classmethod
    def from_plain(cls, options: Mapping[str, Any]) -> Self:
        tree = options["tree"]
        made = Tree(tuple(tree["parents"]), tuple(tree["names"]), int(tree["num_classes"]))
        return super().from_plain({**options, "tree": made})

    def _on_path(self, p: Tensor) -> tuple[Tensor, Tensor]:
        """Masses (n, H) and nodes (n, H) from the winning class up to the child of the root."""
        order, first, end = self.tree.spans
        winner = p.argmax(dim=1)
        nodes = self.tree.paths[winner]
        before = torch.zeros(len(p), p.shape[1] + 1, dtype=p.dtype)
        torch.cumsum(p[:, order], dim=1, out=before[:, 1:])
        masses = before.gather(1, end[nodes]) - before.gather(1, first[nodes])
        masses[:, 0] = p.gather(1, winner[:, None])[:, 0]
        return masses, nodes

    def fit_rows(self, rows: Rows, labels: Tensor) -> None:
        self._check_classes()
        below = self.tree.members
        top = torch.empty(len(rows), dtype=torch.float64)
        reach = torch.empty(len(rows), dtype=torch.float64)
        for place, p in rows.blocks():
            masses, nodes = self._on_path(p)
            is_right = below[nodes, labels[place][:, None]]
            top[place] = masses.amax(dim=1)
            # Nodes only get wider on the way up, so the answer is wrong exactly while a node below the first right one
            # exceeds θ: while θ is below the largest of their masses.
            step = torch.where(is_right.any(dim=1), is_right.int().argmax(dim=1), is_right.shape[1])
            under = torch.arange(is_right.shape[1]) < step[:, None]
            reach[place] = torch.where(under, masses, -torch.inf).amax(dim=1)
        is_flat = len(self.tree) == self.num_classes_ + 1
        if is_flat or self.of == "rows":
            self._choose(top, reach)
            return
        placing, rest = set_apart(len(rows), min(MOST_PLACING, max(1, int(PLACING * len(rows)))), seed=0)
        masses = torch.cat([self._on_path(p)[0].flatten() for _, p in rows.take(placing).blocks()])
        top, reach = top[rest], reach[rest]
        self._choose(top, reach, placed_by=masses)

    def _check_classes(self) -> None:
        if self.tree.num_classes != self.num_classes_:
            raise ValueError(
                f"`tree` has {self.tree.num_classes} classes but the logits have {self.num_classes_}; is it for "
                "another data set?"
            )
        if self.class_names_ is not None and list(self.tree.names[: self.num_classes_]) != self.class_names_:
            named = any(name != str(k) for k, name in enumerate(self.tree.names[: self.num_classes_]))
            wrong = next(k for k, name in enumerate(self.class_names_) if name != self.tree.names[k])
            if sorted(self.class_names_) == sorted(self.tree.names[: self.num_classes_]):
                self.tree = self.tree.in_order(self.class_names_)
                warnings.warn("the classes of `tree` are matched to the labels by name.", Assumption, stacklevel=4)
            elif named:
                raise ValueError(
                    f"`tree` must have the classes of the data, but class {wrong} is "
                    f"{self.tree.names[wrong]!r} in it and {self.class_names_[wrong]!r} in the data."
                )

    def answer(self, rows: Rows) -> Tensor:
        answers = torch.empty(len(rows), dtype=torch.int64)
        for place, p in rows.blocks():
            answers[place] = _first(*self._on_path(p), torch.tensor(self.threshold_, dtype=torch.float64))
        return answers

    def measure(self, answers: Tensor, rows: Rows, labels: Tensor, level: float, options: Mapping[str, Any]) -> Outcome:
        tree = self.tree
        answered = answers >= 0
        node = torch.where(answered, answers, tree.root)
        right = tree.members[node, labels]
        cost = None
        if "costs" in options:  # a kind costs the mean of its classes' costs
            share = tree.members.double() / tree.leaves[:, None]
            costs = options["costs"] @ share.T
            cost = costs[labels, node][answered], costs
        measures = self._counted(answered, right, tree.leaves[node], level, cost)
        by_height = []
        for height in range(int(tree.heights.max())):
            here = answered & (tree.heights[node] == height)
            count = int(here.sum())
            wrong = bounds.of_share(count - int((here & right).sum()), count, level)
            share_ = bounds.of_share(count, len(rows), level)
            by_height.append(
                {
                    "height": height,
                    "rows": count,
                    "share": share_.value,
                    "share_low": share_.low,
                    "share_high": share_.high,
                    "error": number(wrong.value),
                    "error_low": wrong.low,
                    "error_high": wrong.high,
                    "classes_left": float(tree.leaves[node[here]].double().mean()) if count else None,
                }
            )
        used = torch.bincount(answers[answered], minlength=len(tree))
        hits = torch.bincount(answers[answered & right], minlength=len(tree))
        by_node = [
            {"node": place, "name": tree.names[place], "rows": int(used[place]), "right": int(hits[place])}
            for place in used.nonzero()[:, 0].tolist()
        ]
        details = {"threshold": number(self.threshold_), "by_height": by_height, "by_node": by_node}
        return Outcome(len(rows), measures, details)

    def formula(self) -> Formula:
        order, first, end = self.tree.spans
        paths = self.tree.paths

        def formula(p: Tensor, threshold: Tensor, order: Tensor, paths: Tensor, first: Tensor, end: Tensor) -> Tensor:
            winner = p.argmax(dim=1)
            nodes = paths[winner]
            before = torch.nn.functional.pad(p[:, order].cumsum(dim=1), (1, 0))
            masses = before.gather(1, end[nodes]) - before.gather(1, first[nodes])
            own = p.gather(1, winner[:, None])
            return _first(torch.cat([own, masses[:, 1:]], dim=1), nodes, threshold)

        return formula, [torch.tensor(self.threshold_, dtype=torch.float64), order, paths, first, end]


def _first(masses: Tensor, nodes: Tensor, threshold: Tensor) -> Tensor:
    """(n,) first node of each row whose mass exceeds the threshold, −1 if there is none."""
    is_sure = masses > threshold
    answer = nodes.gather(1, is_sure.to(torch.int64).argmax(dim=1, keepdim=True))[:, 0]
    return torch.where(is_sure.any(dim=1), answer, torch.full_like(answer, -1))
