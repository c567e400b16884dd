"""softkin's metrics as torchmetrics metrics, whose state is a few sums that add up over batches and processes.

Needs torchmetrics (``pip install 'softkin[torchmetrics]'``). Values equal those of ``softkin.metrics`` on all the rows,
to 1e-12 for binned errors and averages, to 1e-6 for the KDE.

    >>> from torchmetrics import MetricCollection
    >>> both = MetricCollection({
    ...     "prediction": CalibrationError(num_classes=3),
    ...     "output": CalibrationError(num_classes=3, scope="output"),
    ... })
    >>> both.update(torch.tensor([[0.8, 0.1, 0.1], [0.3, 0.4, 0.3]]), torch.tensor([0, 2]))
    >>> {name: round(float(value), 4) for name, value in both.compute().items()}
    {'output': 0.6, 'prediction': 0.3}
"""

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from softkin._core import checks
from softkin.metrics import catalogue
from softkin.metrics.scopes import Claims
from softkin.metrics.streaming import Running

__all__ = [
    "BrierScore",
    "CalibrationError",
    "ClasswiseCalibrationError",
    "KernelCalibrationError",
    "NegativeLogLikelihood",
    "SignedGap",
    "StreamedMetric",
]

KDE_CELLS = 2**18


class StreamedMetric(Metric):
    """A streaming metric of ``softkin.metrics``, by its name.

    Args:
        metric: A metric's name, such as "ece_hist", "nll", "classwise_ece".
        num_classes: K, which fixes the size of the state.
        from_logits: Whether ``update`` gets logits, to which it applies the softmax. This is never guessed.
        options: Options of the metric, and of torchmetrics (``sync_on_compute``, ``dist_sync_on_step`` …).
    """

    is_differentiable = False
    full_state_update = False
    totals_of: str
    num_samples: Tensor

    def __init__(self, metric: str, *, num_classes: int, from_logits: bool = False, **options: Any) -> None:
        known = catalogue.named(metric)
        own = {name: value for name, value in options.items() if name in known.parameters}
        super().__init__(**{name: value for name, value in options.items() if name not in own})
        self.num_classes = checks.count(num_classes, "num_classes", least=2)
        self.from_logits = from_logits
        self.metric, self.options = known.key, own
        self._prepare()
        self.running.check()
        empty = torch.zeros_like(self.reader.totals(KDE_CELLS))
        # torchmetrics lets metrics share one state if their states have the same names and once were equal: the name
        # says what was summed, so that two metrics that agree by chance do not.
        self.totals_of = f"totals_{known.key}_{'_'.join(f'{name}_{value}' for name, value in sorted(own.items()))}"
        self.add_state(self.totals_of, empty, dist_reduce_fx="sum")
        self.add_state("num_samples", torch.tensor(0, dtype=torch.int64), dist_reduce_fx="sum")

    def _prepare(self) -> None:
        """Set up the objects that sum and read: they follow from the other attributes, and hold functions."""
        self.running = Running(catalogue.named(self.metric), self.options, KDE_CELLS)
        self.reader = self.running.reader(self.num_classes)

    def __getstate__(self) -> dict[str, Any]:
        """The state without the parts of ``_prepare``: functions that a decorator has replaced cannot be pickled."""
        return {name: value for name, value in super().__getstate__().items() if name not in ("running", "reader")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._prepare()

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch: (N, K) probabilities (or logits, see ``from_logits``) and (N,) classes."""
        scores = checks.logits(preds, least=0).double().softmax(dim=1) if self.from_logits else preds
        p = checks.probabilities(scores, least=0)
        if p.shape[1] != self.num_classes:
            raise ValueError(f"`preds` must have {self.num_classes} classes, got {p.shape[1]}.")
        y = checks.class_labels(target, num_samples=len(p), num_classes=self.num_classes).to(p.device)
        if len(p) == 0:
            return
        totals: Tensor = getattr(self, self.totals_of)
        added = self.running.of(Claims(p, y)).totals(KDE_CELLS)
        setattr(self, self.totals_of, totals + added.to(totals.device))
        self.num_samples = self.num_samples + len(p)

    def compute(self) -> Tensor:
        """The metric of all rows so far, of all processes."""
        count = int(self.num_samples)
        if count == 0:
            raise ValueError("there is nothing to compute: `update` has seen no samples.")
        totals: Tensor = getattr(self, self.totals_of)
        value = self.reader.read(totals.cpu(), count)
        return torch.tensor(value, dtype=torch.float64).to(totals.device)

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """The value as torchmetrics draws it, or several values of ``compute`` over time: (figure, axes)."""
        return self._plot(val, ax)


class CalibrationError(StreamedMetric):
    """Histogram ECE, ``metrics.ece_hist``: of the winning scores, or with ``scope="output"`` of all scores."""

    higher_is_better = False

    def __init__(
        self, *, num_classes: int, scope: str = "prediction", n_bins: int = 15, per: str = "sample", **options: Any
    ) -> None:
        super().__init__("ece_hist", num_classes=num_classes, scope=scope, n_bins=n_bins, per=per, **options)


class KernelCalibrationError(StreamedMetric):
    """``metrics.ece_kde``; its state is not a few sums but 2¹⁸ cells of the scores, 12.6 MB."""

    higher_is_better = False

    def __init__(self, *, num_classes: int, scope: str = "prediction", **options: Any) -> None:
        super().__init__("ece_kde", num_classes=num_classes, scope=scope, **options)


class ClasswiseCalibrationError(StreamedMetric):
    """``metrics.classwise_ece``; its state is K × bins."""

    higher_is_better = False

    def __init__(self, *, num_classes: int, **options: Any) -> None:
        super().__init__("classwise_ece", num_classes=num_classes, **options)


class NegativeLogLikelihood(StreamedMetric):
    """``metrics.nll``."""

    higher_is_better = False

    def __init__(self, *, num_classes: int, **options: Any) -> None:
        super().__init__("nll", num_classes=num_classes, **options)


class BrierScore(StreamedMetric):
    """``metrics.brier``."""

    higher_is_better = False

    def __init__(self, *, num_classes: int, **options: Any) -> None:
        super().__init__("brier", num_classes=num_classes, **options)


class SignedGap(StreamedMetric):
    """``metrics.signed_gap``: mean confidence minus accuracy."""

    def __init__(self, *, num_classes: int, **options: Any) -> None:
        super().__init__("signed_gap", num_classes=num_classes, **options)
