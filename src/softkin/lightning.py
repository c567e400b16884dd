"""Calibration in PyTorch Lightning: a callback that measures, draws, adjusts ``alpha="auto"`` and fits a temperature.

    from softkin.lightning import CalibrationCallback

    calibration = CalibrationCallback()
    Trainer(callbacks=[calibration], …).fit(module, train_loader, validation_loader)
    calibration.calibrator_.predict_proba(test_logits)

Needs lightning (``pip install 'softkin[lightning]'``) or ``pytorch_lightning``.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softkin import calibrators, diagrams, trackers
from softkin._core import checks, ranks
from softkin.losses import LearnedSimilarityLoss, SoftLabelCrossEntropy
from softkin.metrics.measurement import VALUES, measure
from softkin.metrics.scopes import Claims

try:
    from lightning.pytorch import Callback
except ImportError:  # the older package, with the same classes
    from pytorch_lightning import Callback

__all__ = ["CalibrationCallback"]

MEASURED = ("accuracy", "nll", "ece_hist", "ece_hist_output")


class CalibrationCallback(Callback):  # type: ignore[misc]
    """Log calibration after each validation, exactly even if several processes share the rows.

    After each validation it logs ``accuracy``, ``nll``, ``ece_hist`` (of the prediction) and ``ece_hist_output`` below
    ``prefix``, passes the reliability diagram to every logger that accepts figures, and adjusts each loss of the module
    that has ``alpha="auto"``. After each training epoch it calls ``end_epoch`` of each loss that learns its labels
    (``ClassSimilarityLoss.learned``), and passes a picture of what the network finds similar to the loggers. After the
    training it fits a temperature on the logits of the last validation.

    Logits are those that ``validation_step`` returns as ``{"logits": …}``; if it returns none, the module is called
    once more on the batch's inputs. Labels are ``{"labels": …}`` of its result, or the second element of the batch.

    A ``DistributedSampler`` repeats rows so that every process has equally many; those are left out here, so that the
    metrics are those of the data set. Rows of all processes are gathered: every process holds N·K numbers meanwhile.

    Args:
        prefix: The prefix of the metrics' names.
        n_bins: The number of bins of the errors and of the diagram.
        figure: Whether to draw the reliability diagram, and what a network learns to find similar.
        temperature: Whether to fit a temperature after the training.
        folder: The folder for the fitted calibrator (``calibrators.load`` reads it).

    Attributes:
        history: The metrics of each validation, as Python floats.
        similar: For each training epoch, the pairs of classes that the network finds most similar, if labels are
            learned: (a, b, share) as from ``LearnedSimilarityLoss.pairs``.
        calibrator_: The fitted ``TemperatureScaling``.
    """

    def __init__(
        self,
        *,
        prefix: str = "val/",
        n_bins: int = 15,
        figure: bool = True,
        temperature: bool = True,
        folder: str | Path | None = None,
    ) -> None:
        super().__init__()
        self.prefix, self.figure, self.temperature = prefix, figure, temperature
        self.n_bins = checks.count(n_bins, "n_bins")
        self.folder = folder
        self.history: list[dict[str, float]] = []
        self.similar: list[list[tuple[int, int, float]]] = []
        self.calibrator_: calibrators.TemperatureScaling | None = None
        self._rows: dict[int, list[tuple[Any, Any]]] = {}
        self._last: tuple[Tensor, Tensor] | None = None

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Turn over labels that are learned. Collective: Lightning calls it on every rank."""
        learning = [module for module in pl_module.modules() if isinstance(module, LearnedSimilarityLoss)]
        for loss in learning:
            if loss.steps is None:
                loss.end_epoch()
        if learning:
            self.similar.append(learning[0].pairs())
        if learning and self.figure and trainer.is_global_zero:
            drawn = diagrams.learned_similarity(self.similar)
            for logger in trainer.loggers:
                trackers.log_figure(drawn, logger, f"{self.prefix}similar", step=trainer.global_step)

    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Forget the last validation."""
        self._rows = {}

    def on_validation_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Keep a batch's logits and labels as numpy: tensors of inference mode cannot be used in training."""
        logits, labels = _answers(pl_module, outputs, batch)
        rows = self._rows.setdefault(dataloader_idx, [])
        rows.append((logits.detach().float().cpu().numpy().copy(), labels.detach().cpu().numpy().copy()))

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Measure, log, draw, adjust α. Collective: Lightning calls it on every rank."""
        if trainer.sanity_checking:
            self._rows = {}
            return
        loaders = trainer.val_dataloaders
        loaders = list(loaders) if isinstance(loaders, list | tuple) else [loaders]
        with torch.inference_mode(False), torch.no_grad():
            sets = {place: _of_all_ranks(rows, _sampler(loaders, place)) for place, rows in self._rows.items()}
        self._rows = {}
        for place, (logits, labels) in sets.items():
            name = self.prefix if len(sets) == 1 else f"{self.prefix}{place}/"
            self._measure(trainer, pl_module, logits, labels, name)
        if not sets:
            return
        self._last = sets[min(sets)]
        if trainer.state.fn == "fit":
            with torch.inference_mode(False), torch.no_grad():
                for module in pl_module.modules():
                    if isinstance(module, SoftLabelCrossEntropy) and module.moves_alpha:
                        self.history[-1]["alpha"] = module.adjust(*self._last)

    def _measure(self, trainer: Any, pl_module: Any, logits: Tensor, labels: Tensor, prefix: str) -> None:
        p = logits.double().softmax(dim=1)
        measured = measure(Claims.of(p, labels), MEASURED, replace(VALUES, n_bins=self.n_bins))
        values = {key: one.value for key, one in measured.items()}
        self.history.append(dict(values))
        # Every rank has the same value, so averaging over ranks changes nothing.
        pl_module.log_dict({f"{prefix}{key}": value for key, value in values.items()}, sync_dist=True)
        if self.figure and trainer.is_global_zero:
            drawn = diagrams.reliability(p, labels, n_bins=self.n_bins)
            for logger in trainer.loggers:
                trackers.log_figure(drawn, logger, f"{prefix}reliability", step=trainer.global_step)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Fit the temperature on the last validation; every rank gets the same one."""
        if not self.temperature or self._last is None:
            return
        with torch.inference_mode(False), torch.no_grad():
            self.calibrator_ = calibrators.TemperatureScaling().fit(*self._last)
        if trainer.is_global_zero:
            for logger in trainer.loggers:
                logger.log_metrics(
                    {f"{self.prefix}temperature": self.calibrator_.temperature_}, step=trainer.global_step
                )
            if self.folder is not None:
                self.calibrator_.save(self.folder)


def _answers(module: Any, outputs: Any, batch: Any) -> tuple[Tensor, Tensor]:
    """Logits and labels of a batch."""
    known = outputs if isinstance(outputs, Mapping) else {}
    labels = next((known[key] for key in ("labels", "targets", "target") if key in known), None)
    if labels is None and isinstance(batch, Mapping):
        labels = batch.get("labels", batch.get("label"))
    elif labels is None and isinstance(batch, list | tuple) and len(batch) > 1:
        labels = batch[1]
    logits = known.get("logits")
    if logits is None and labels is not None:
        inputs = {key: value for key, value in batch.items() if key not in ("labels", "label")} if isinstance(
            batch, Mapping
        ) else batch[0]  # fmt: skip
        with torch.no_grad():
            logits = module(**inputs) if isinstance(inputs, dict) else module(inputs)
        logits = getattr(logits, "logits", logits)
    if not isinstance(logits, Tensor) or not isinstance(labels, Tensor):
        raise TypeError(
            "CalibrationCallback needs logits and labels: return {'logits': …, 'labels': …} from validation_step, or "
            "let batches be (inputs, labels)."
        )
    return logits, labels


def _sampler(loaders: list[Any], place: int) -> Any:
    with contextlib.suppress(IndexError, AttributeError):
        return loaders[place].sampler
    return None


def _of_all_ranks(rows: list[tuple[Any, Any]], sampler: Any) -> tuple[Tensor, Tensor]:
    """The rows of all ranks, each row of the data set once."""
    logits = torch.from_numpy(np.concatenate([part for part, _ in rows]))
    labels = torch.from_numpy(np.concatenate([part for _, part in rows])).long()
    rank, size = ranks.world()
    if size > 1 and hasattr(sampler, "num_replicas") and not getattr(sampler, "drop_last", False):
        # The sampler repeats the first rows until all ranks have equally many, and deals them in turn: rank r
        # has the positions r, r + size, … and its own rows end where the data set ends.
        own = len(range(rank, len(sampler.dataset), size))
        logits, labels = logits[:own], labels[:own]
    return ranks.gather_rows(logits), ranks.gather_rows(labels)
