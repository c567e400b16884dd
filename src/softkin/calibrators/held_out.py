"""Held-out rows: scores as float64 logits with their labels, and predictions of each row by a fit on the others."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from softkin._core import checks, threads
from softkin._core.checks import Array
from softkin._core.named_labels import numbered
from softkin.calibrators import zeros

if TYPE_CHECKING:
    from softkin.calibrators.calibrator import Calibrator

FEW = 10  # log-odds of so few rows may all lie between 0 and 1
LARGEST = 1e304  # larger logits would overflow in differences and sums


def doubt_logits(z: Tensor, *, stacklevel: int) -> None:
    """Warn if logits look like probabilities: rows sum to 1, or each row has one score from 0 to 1 (beside a 0)."""
    if len(z) < 2 or float(z.min()) < 0:
        return
    if float((z.sum(dim=1) - 1).abs().max()) < 1e-4:
        why = "rows sum to 1"
    elif len(z) >= FEW and z.shape[1] == 2 and not bool(z[:, 0].any()) and float(z.max()) <= 1:
        why = "all lie between 0 and 1"
    else:
        return
    said = f"`logits` look like probabilities, since {why}; pass from_probabilities=True if they are, else False."
    warnings.warn(said, stacklevel=stacklevel)


def as_logits(
    values: Array, from_probabilities: bool | None, floor: float | None, labels: Array | None = None, *, least: int = 0
) -> tuple[Tensor, float | None]:
    """The caller's values as contiguous (N, K) float64 logits on the CPU, and the floor if they are probabilities.

    ``from_probabilities`` of None takes them for logits, and warns if they look like probabilities; False states that
    they are logits. Without a floor it is estimated, from the labels too if there are any, with a warning about the
    zeros.
    """
    if floor is not None and not from_probabilities:
        raise ValueError("`floor` must be left out with logits: it stands for probabilities of 0.")
    if not from_probabilities:
        z = checks.logits(values, least=least).cpu().to(torch.float64).contiguous()
        if z.numel() and not max(-float(z.min()), float(z.max())) <= LARGEST:
            raise ValueError(f"`logits` must lie between ±{LARGEST:g}: differences of larger ones are infinite.")
        if from_probabilities is None:
            doubt_logits(z, stacklevel=5)
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


class GivenRows(NamedTuple):
    """What a fit was given, in the form of (N, K) scores with one class each."""

    values: Any
    """(N, K) scores"""
    labels: Any
    """(N,) classes"""
    weights: Tensor | None = None
    """(N,) weights with the mean 1"""
    single: bool = False
    """Whether each sample had one score"""
    rows: Tensor | None = None
    """The sample of each row, where a sample has several"""


def two_columns(scores: Tensor, from_probabilities: bool | None) -> Tensor:
    """(N, 2) from the scores (N,) of a binary model: probabilities 1 − s and s, or logits 0 and s."""
    if not from_probabilities:
        s = scores if scores.is_floating_point() else scores.to(torch.float64)
        return torch.stack([torch.zeros_like(s), s], dim=1)
    s = checks.unit_scores(scores)
    return torch.stack([1 - s, s], dim=1)


def rows_of(
    values: Any,
    labels: Any,
    from_probabilities: bool | None,
    sample_weight: Any = None,
    ignore_index: int | None = None,
) -> GivenRows:
    """Scores of every shape as rows of classes: one score per sample, pixels, and soft labels.

    A row of soft labels becomes a row for each class that it has votes for, weighted by their share: every objective
    that is a sum over labels is the same.
    """
    scores, y = checks.as_tensor(values, "logits"), checks.as_tensor(labels, "labels")
    weights = None if sample_weight is None else checks.as_tensor(sample_weight, "sample_weight")
    single = scores.ndim == 1 or (scores.ndim == 2 and scores.shape[1] == 1)
    rows: Tensor | None = None
    if single:
        scores = two_columns(scores.reshape(-1), from_probabilities)
        y = y.reshape(-1) if y.ndim == 2 and y.shape[1] == 1 else y
        y = y.to(torch.int64) if y.dtype == torch.bool else y
    if scores.ndim > 2:
        if y.shape != (len(scores), *scores.shape[2:]):
            raise ValueError(
                f"`labels` must have shape {(len(scores), *scores.shape[2:])} for logits of shape "
                f"{tuple(scores.shape)}, got {tuple(y.shape)}."
            )
        each = y[0].numel()
        rows = torch.arange(len(scores)).repeat_interleave(each)
        if weights is not None and weights.shape == (len(scores),):
            weights = weights.repeat_interleave(each)
        weights = None if weights is None else weights.reshape(-1)
        scores, y = scores.movedim(1, -1).reshape(-1, scores.shape[1]), y.reshape(-1)
    if ignore_index is not None:
        kept = (y != ignore_index).nonzero()[:, 0]
        if not len(kept):
            raise ValueError(f"every label is {ignore_index}, which `ignore_index` leaves out.")
        scores, y = scores[kept.to(scores.device)], y[kept]
        weights = None if weights is None else weights[kept.to(weights.device)]
        rows = None if rows is None else rows[kept.cpu()]
    w = None if weights is None else checks.weights(weights, len(scores)).cpu()
    if y.ndim == 2 and y.shape == scores.shape:
        votes = y.cpu().to(torch.float64)
        total = votes.sum(dim=1, keepdim=True)
        if bool((votes < 0).any()) or not bool((total > 0).all()):
            raise ValueError("`labels` must hold at least one vote in each row, and no negative ones.")
        rows, y = votes.nonzero(as_tuple=True)
        share = (votes / total)[rows, y]
        w = share if w is None else share * w[rows]
        scores = scores[rows.to(scores.device)]
    return GivenRows(scores, y, None if w is None else w * (len(w) / w.sum()), single, rows)


def labelled_logits(
    values: Array, labels: Array, from_probabilities: bool | None, floor: float | None, *, least: int = 1
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
    from_probabilities: bool | None,
    seed: int,
    floor: float | None = None,
) -> Tensor:
    """Calibrated probabilities of each sample, by a calibrator fitted on the folds it is not in. (N, K) float64.

    ``floor`` replaces a probability of 0 in all folds, as for ``Calibrator.fit``.
    """
    with threads.for_work(threads.numbers_in(logits)):
        checks.count(folds, "folds", least=2)
        if len(logits) < 2:
            raise ValueError(f"cross-fitting needs at least 2 samples, got {len(logits)}.")
        z, labels, floor = labelled_logits(logits, labels, from_probabilities, floor, least=2)
        from_probabilities = bool(from_probabilities)  # the folds are not doubted again
        source = torch.softmax(z, dim=1) if from_probabilities else z
        calibrated = torch.empty_like(z)
        for held in folds_of(len(logits), folds, seed):
            rest = torch.ones(len(logits), dtype=torch.bool)
            rest[held] = False
            fold = calibrator.unfitted().fit(source[rest], labels[rest], from_probabilities=from_probabilities)
            calibrated[held] = fold.predict_proba(source[held], from_probabilities=from_probabilities)
        return calibrated
