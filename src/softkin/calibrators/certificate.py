"""How a fit ended, and its effect on held-out samples."""

from dataclasses import dataclass


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
        end = (
            "exact"
            if self.gradient_norm is None
            else f"gradient {self.gradient_norm:.1e} after {self.iterations} iterations"
        )
        parts = [
            f"{self.method} on {self.num_samples:,} samples of {self.num_classes} classes",
            end if self.converged else f"not converged ({end})",
            f"NLL {self.nll_before:.4f} → {self.nll_after:.4f}",
            f"winning class changed for {self.argmax_changed:.2%}",
            *(["at a bound"] if self.bound_hit else []),
            *self.notes,
            *([str(self.held_out)] if self.held_out is not None else []),
        ]
        return "; ".join(parts)
