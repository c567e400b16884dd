"""A calibrator for each of several labels per sample, which do not exclude each other."""

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor

from softkin._core import checks
from softkin._core.checks import Array
from softkin.calibrators.calibrator import REGISTRY, Calibrator


class PerLabel:
    """One calibrator of a single score for each label.

    Args:
        method: An unfitted calibrator, or its name: "platt", "beta", "isotonic", "temperature" …

    Attributes:
        calibrators_: The fitted calibrator of each label.
        label_names_: The names of the labels, or None.

    Example:
        >>> logits = torch.tensor([[2.0, -1.0], [0.5, 1.0], [-1.0, 2.0], [1.0, -2.0]]).repeat(25, 1)
        >>> labels = torch.tensor([[1, 0], [0, 1], [0, 1], [1, 1]]).repeat(25, 1)
        >>> PerLabel("temperature").fit(logits, labels).predict_proba(logits[:1])
        tensor([[0.9709, 0.3966]])
    """

    calibrators_: list[Calibrator]
    label_names_: list[str] | None

    def __init__(self, method: Calibrator | str = "platt") -> None:
        if isinstance(method, str):
            method = REGISTRY[REGISTRY.canonical(method, "method")]()
        elif not isinstance(method, Calibrator):
            raise TypeError(f"`method` must be a calibrator or its name, got {type(method).__name__}.")
        self.method = method

    def fit(
        self,
        logits: Array,
        labels: Array,
        *,
        from_probabilities: bool = False,
        sample_weight: Array | None = None,
        label_names: Sequence[str] | None = None,
    ) -> Self:
        """Fit on held-out samples.

        Args:
            logits: (N, L) logits of sigmoids, or probabilities with ``from_probabilities=True``.
            labels: (N, L) zeros and ones. Each label must have both.
            from_probabilities: Whether ``logits`` are probabilities.
            sample_weight: (N,) weights of the samples, for calibrators that take weights.
            label_names: The names of the labels.
        """
        z, y = checks.as_tensor(logits, "logits"), checks.as_tensor(labels, "labels")
        if z.ndim != 2 or z.shape != y.shape:
            raise ValueError(
                f"`logits` and `labels` must both have shape (N, L), got {tuple(z.shape)} and {tuple(y.shape)}."
            )
        if not bool(((y == 0) | (y == 1)).all()):
            raise ValueError("`labels` must be zeros and ones, one for each label.")
        names = None if label_names is None else checks.class_names(label_names, num_classes=z.shape[1])
        constant = (y == y[:1]).all(dim=0).nonzero()[:, 0].tolist()
        if constant:
            place = constant[0]
            called = f"label {place}" if names is None else repr(names[place])
            raise ValueError(f"`labels` must have zeros and ones for each label, but {called} has only one of them.")
        options: dict[str, Any] = {"from_probabilities": from_probabilities, "sample_weight": sample_weight}
        self.calibrators_ = [
            self.method.unfitted().fit(z[:, place].contiguous(), y[:, place].to(torch.int64), **options)
            for place in range(z.shape[1])
        ]
        self.label_names_ = names
        return self

    def predict_proba(self, logits: Array, *, from_probabilities: bool = False) -> Any:
        """Calibrated probabilities (N, L): numpy for numpy, torch for torch."""
        if not hasattr(self, "calibrators_"):
            raise ValueError("this PerLabel is not fitted yet: call fit(logits, labels) first.")
        z = checks.as_tensor(logits, "logits")
        if z.ndim != 2 or z.shape[1] != len(self.calibrators_):
            raise ValueError(f"`logits` must have shape (N, {len(self.calibrators_)}), got {tuple(z.shape)}.")
        columns: list[Tensor] = [
            own.predict_proba(z[:, place].contiguous(), from_probabilities=from_probabilities)
            for place, own in enumerate(self.calibrators_)
        ]
        return checks.like(torch.stack(columns, dim=1).cpu(), logits)

    def __repr__(self) -> str:
        return f"PerLabel({self.method!r})"
