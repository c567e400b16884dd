"""Held-out rows: scores as float64 logits with their labels, and predictions of each row by a fit on the others."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from softkin._core import checks
from softkin._core.checks import Array
from softkin._core.named_labels import numbered
from softkin.calibrators import zeros

if TYPE_CHECKING:
    from softkin.calibrators.calibrator import Calibrator

LARGEST = 1e304  # larger logits would overflow in differences and sums


def as_logits(
    values: Array, from_probabilities: bool, floor: float | None, labels: Array | None = None, *, least: int = 0
) -> tuple[Tensor, float | None]:
    """The caller's values as contiguous (N, K) float64 logits on the CPU, and the floor if they are probabilities.

    Without a floor it is estimated, from the labels too if there are any, with a warning about the zeros.
    """
    if floor is not None and not from_probabilities:
        raise ValueError("`floor` must be left out with logits: it stands for probabilities of 0.")
    if not from_probabilities:
        z = checks.logits(values, least=least).cpu().to(torch.float64).contiguous()
        if z.numel() and not max(-float(z.min()), float(z.max())) <= LARGEST:
            raise ValueError(f"`logits` must lie between ±{LARGEST:g}: differences of larger ones are infinite.")
        return z, None
    p = checks.probabilities(values, "logits", least=least)
    if p.shape[1] < 2:
        raise ValueError(f"`logits` must cover at least 2 classes, got {p.shape[1]}.")
    p = p.cpu().to(torch.float64).contiguous()
    if floor is None:
        estimate = zeros.floor_of(p, labels)
        floor = estimate.value
        if estimate.zeros:
            warnings.warn(f"{estimate}.", stacklevel=4)
    elif not 0 < checks.number(floor, "floor") < 1:
        raise ValueError(f"`floor` must be above 0 and below 1, got {floor:g}.")
    return zeros.logarithms(p, floor), float(floor)


def labelled_logits(
    values: Array, labels: Array, from_probabilities: bool, floor: float | None, *, least: int = 1
) -> tuple[Tensor, Tensor, float | None]:
    """Logits as from ``as_logits``, int64 labels, and the floor."""
    labels, _ = numbered(labels, values)
    z, floor = as_logits(values, from_probabilities, floor, labels, least=least)
    return z, checks.class_labels(labels, num_samples=len(z), num_classes=z.shape[1]).cpu(), floor


def folds_of(num_samples: int, folds: int, seed: int) -> list[Tensor]:
    """The samples in ``folds`` random parts of nearly equal size; fewer parts if there are fewer samples."""
    order = torch.randperm(num_samples, generator=torch.Generator().manual_seed(seed))
    return [part.sort().values for part in order.tensor_split(min(folds, num_samples))]


def cross_fit(
    calibrator: Calibrator,
    logits: Tensor,
    labels: Tensor,
    *,
    folds: int,
    from_probabilities: bool,
    seed: int,
    floor: float | None = None,
) -> Tensor:
    """Calibrated probabilities of each sample, by a calibrator fitted on the folds it is not in. (N, K) float64.

    ``floor`` replaces a probability of 0 in all folds, as for ``Calibrator.fit``.
    """
    checks.count(folds, "folds", least=2)
    if len(logits) < 2:
        raise ValueError(f"cross-fitting needs at least 2 samples, got {len(logits)}.")
    z, labels, floor = labelled_logits(logits, labels, from_probabilities, floor, least=2)
    source = torch.softmax(z, dim=1) if from_probabilities else z
    calibrated = torch.empty_like(z)
    for held in folds_of(len(logits), folds, seed):
        rest = torch.ones(len(logits), dtype=torch.bool)
        rest[held] = False
        fold = calibrator.unfitted().fit(source[rest], labels[rest], from_probabilities=from_probabilities)
        calibrated[held] = fold.predict_proba(source[held], from_probabilities=from_probabilities)
    return calibrated
