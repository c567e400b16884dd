"""How a fit ended, and its effect on held-out samples."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from torch import Tensor


@dataclass(frozen=True)
class Solution:
    """How ``fit_rows`` ended; the rest of the certificate comes from the predictions."""

    gradient_norm: float | None = None
    """None for a fit by counting, sorting or a closed form, which has nothing to converge"""
    iterations: int = 0
    bound_hit: bool = False
    converged: bool = True
    notes: tuple[str, ...] = ()
    nll: tuple[float, float] | None = None
    """NLL before and after, if the fit has computed them"""
    argmax_kept: bool = False
    """Whether the map cannot change which class wins"""
    probabilities: Tensor | None = None
    """Calibrated probabilities of the fitting samples, if the fit has computed them"""


@dataclass(frozen=True)
class HeldOut:
    """NLL and prediction ECE (15 bins) on samples that the calibrator was not fitted on, by cross-fitting."""

    folds: int
    nll_before: float
    nll_after: float
    ece_before: float
    ece_after: float

    @property
    def worse(self) -> tuple[str, ...]:
        """The metrics that calibration made worse."""
        pairs = (("NLL", self.nll_before, self.nll_after), ("ECE", self.ece_before, self.ece_after))
        return tuple(name for name, before, after in pairs if after > before)

    def __str__(self) -> str:
        return (
            f"held-out NLL {self.nll_before:.4f} → {self.nll_after:.4f}, "
            f"ECE {self.ece_before:.4f} → {self.ece_after:.4f} ({self.folds} folds)"
        )


@dataclass(frozen=True)
class Certificate:
    """How a fit ended; ``print`` shows it as one line."""

    method: str
    num_samples: int
    num_classes: int
    converged: bool
    gradient_norm: float | None
    """The largest entry of the gradient at the solution, over parameters that are not at a bound; None for fits with
    nothing to converge (counting, sorting, closed forms)"""
    iterations: int
    bound_hit: bool
    """Whether the solution is at a limit of its range, because the optimum lies beyond"""
    nll_before: float
    """The NLL of the uncalibrated probabilities on the fitting data"""
    nll_after: float
    argmax_changed: float
    """The share of fitting samples whose winning class changed"""
    notes: tuple[str, ...] = ()
    held_out: HeldOut | None = None
    """Held-out results, if ``certify`` was called"""

    def __str__(self) -> str:
        return f"{self.method} on {self.outcome}"

    @property
    def outcome(self) -> str:
        """The line without the method's name."""
        end = (
            "exact"
            if self.gradient_norm is None
            else f"gradient {self.gradient_norm:.1e} after {self.iterations} iterations"
        )
        parts = [
            f"{self.num_samples:,} samples of {self.num_classes} classes",
            end if self.converged else f"not converged ({end})",
            f"NLL {self.nll_before:.4f} → {self.nll_after:.4f}",
            f"winning class changed for {100 * self.argmax_changed:.2f} %",
            *(["at a bound"] if self.bound_hit else []),
            *self.notes,
            *([str(self.held_out)] if self.held_out is not None else []),
        ]
        return "; ".join(parts)

    @classmethod
    def from_dict(cls, about: Mapping[str, Any]) -> Self:
        """The certificate that ``dataclasses.asdict`` made plain data of."""
        held_out = about["held_out"]
        values = {field.name: about[field.name] for field in fields(cls)}
        values |= {"notes": tuple(about["notes"]), "held_out": None if held_out is None else HeldOut(**held_out)}
        return cls(**values)
