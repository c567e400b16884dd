"""Calibrators applied one after another."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from softkin.calibrators import zeros
from softkin.calibrators.base import Calibrator, Solution


class Composed(Calibrator):
    """A chain of calibrators: each is fitted on, and applied to, the probabilities that the previous one returns.

    Made by ``a | b``; as in scikit-learn's pipelines, the parts themselves are fitted. All parts see the same samples.

    Args:
        steps: The calibrators, first to last.

    Example:
        >>> from softkin.calibrators import IsotonicCalibration, TemperatureScaling
        >>> TemperatureScaling() | IsotonicCalibration()
        TemperatureScaling() | IsotonicCalibration()
    """

    _fitted: ClassVar[tuple[str, ...]] = ("floors_",)
    floors_: Tensor
    """For each step but the last, the value that replaces a probability of 0 that it returns"""

    def __init__(self, steps: Sequence[Calibrator]) -> None:
        self.steps = steps
        self._check_options()

    def _check_options(self) -> None:
        if len(self.steps) == 0 or not all(isinstance(step, Calibrator) for step in self.steps):
            raise TypeError(f"`steps` must be one calibrator or more, got {self.steps!r}.")

    def _fit(self, z: Tensor, y: Tensor) -> Solution:
        floors: list[float] = []
        for step in self.steps:
            step.fit(z, y)
            p = step._predict(z)
            floors.append(zeros.floor_of(p, y).value)
            z = zeros.logarithms(p, floors[-1])
        self.floors_ = torch.tensor(floors[:-1], dtype=torch.float64)
        certificates = [step.certificate_ for step in self.steps]
        norms = [c.gradient_norm for c in certificates if c.gradient_norm is not None]
        return Solution(
            gradient_norm=max(norms) if norms else None,
            iterations=sum(c.iterations for c in certificates),
            bound_hit=any(c.bound_hit for c in certificates),
            converged=all(c.converged for c in certificates),
            notes=tuple(f"{c.method}: {note}" for c in certificates for note in c.notes),
        )

    def _predict(self, z: Tensor) -> Tensor:
        for step, floor in zip(self.steps, self.floors_.tolist(), strict=False):
            z = zeros.logarithms(step._apply(z), floor)
        return self.steps[-1]._apply(z)

    def _is_shift_invariant(self) -> bool:
        return self.steps[0]._is_shift_invariant()

    def _steps(self) -> list[Calibrator]:
        return list(self.steps)

    def unfitted(self) -> Self:
        return type(self)([step.unfitted() for step in self.steps])

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The steps; with ``deep`` also their options, named like ``0__objective``."""
        options: dict[str, Any] = {"steps": self.steps}
        if deep:
            for place, step in enumerate(self.steps):
                options |= {f"{place}__{name}": value for name, value in step.get_params().items()}
        return options

    def set_params(self, **options: Any) -> Self:
        """Change the steps, or options of a step, named like ``0__objective``."""
        for name, value in options.items():
            place, separator, rest = name.partition("__")
            if separator and place.isdigit() and int(place) < len(self.steps):
                self.steps[int(place)].set_params(**{rest: value})
            else:
                super().set_params(**{name: value})
        return self

    def __repr__(self) -> str:
        return " | ".join(repr(step) for step in self.steps)
