"""Class similarity from the confusions of a trained model or of people."""

import math
from collections.abc import Callable, Iterator
from typing import Literal

import torch
from torch import Tensor

from softkin._core import checks
from softkin._core.checks import Array
from softkin._core.named_labels import numbered

ELEMENTS = 2**22  # maximum size of the rows used to fit a temperature or a shrinkage: one number needs no more
FRACTION = 0.05  # share of a row's mass: the shrinkage of confusions that are not counts


@torch.no_grad()
def from_outputs(
    probabilities: Array,
    labels: Array,
    *,
    calibrated: bool = False,
    folds: int | None = None,
    shrinkage: float | Literal["auto"] = "auto",
    seed: int = 0,
) -> Tensor:
    r"""Similarity from the probability that a model gives to wrong classes on held-out rows, averaged per class.

    With :math:`p_i` the calibrated output of sample i, :math:`W_k(j)` its sum over the samples of class k,
    :math:`M_k = \sum_{j \ne k} W_k(j)` and a the ``shrinkage``,

    .. math:: s_k(j) = \frac{W_k(j) + a/(K-1)}{M_k + a}, \quad s_k(k) = 0

    The outputs are first calibrated by one temperature, because an over-confident network spreads its probability over
    too few classes. The shrinkage pulls rows of rarely seen classes towards uniform; a class without samples is
    uniform.

    Args:
        probabilities: (N, K) outputs of a model on rows that it was not trained on.
        labels: (N,).
        calibrated: Use the outputs unchanged, because they are calibrated already.
        folds: Cross-fit the calibration: the temperature of each of this many folds comes from the other folds.
        shrinkage: a, in samples' worth of wrong probability; "auto" uses the value with which the other samples of a
            class predict each sample best (leave-one-out cross-entropy).
        seed: Seed for the folds.

    Returns:
        S, (K, K) float64, possibly asymmetric: a wolf may be taken for a dog more often than a dog for a wolf.

    Example:
        >>> P = torch.tensor([[0.6, 0.3, 0.1], [0.3, 0.6, 0.1], [0.1, 0.1, 0.8]])
        >>> S = from_outputs(P, torch.arange(3), calibrated=True, shrinkage=0)
        >>> [round(x, 2) for x in S[0].tolist()]
        [0.0, 0.75, 0.25]
    """
    labels, _ = numbered(labels, probabilities)
    p = checks.probabilities(probabilities).to("cpu", torch.float64)
    y = checks.class_labels(labels, num_samples=len(p), num_classes=p.shape[1]).cpu()
    k = p.shape[1]
    if k < 3:
        raise ValueError(f"`probabilities` must cover at least 3 classes, got {k}: of two, all mass is on the other.")
    if not calibrated:
        p = _calibrated(p, y, folds, seed)
    elif folds is not None:
        raise ValueError("`folds` are for calibrating, and calibrated=True leaves that out.")
    wrong = p.scatter(1, y[:, None], 0)
    sums = torch.zeros(k, k, dtype=torch.float64).index_add_(0, y, wrong)
    if shrinkage == "auto":
        shrinkage = _best_shrinkage(lambda: _left_out(wrong, sums, y), k)
    return _shrunk(sums, shrinkage)


@torch.no_grad()
def from_confusion(counts: Array, *, shrinkage: float | Literal["auto"] = "auto") -> Tensor:
    """Similarity from a confusion matrix: how often class k (row) is taken for class j (column).

    The formula is that of ``from_outputs``, with counts in place of summed outputs; correct answers are ignored.

    Args:
        counts: (K, K), non-negative; the diagonal is ignored.
        shrinkage: a, in mistakes; "auto" uses the value with which the other mistakes of a class predict each mistake
            best. For a matrix of shares, whose counts are unknown, "auto" is 5 % of the mean row.

    Example:
        >>> S = from_confusion(torch.tensor([[90, 9, 1], [5, 90, 5], [0, 0, 100]]), shrinkage=2)
        >>> [round(x, 3) for x in S[0].tolist()]
        [0.0, 0.833, 0.167]
    """
    c = checks.square(counts, "counts", without_diagonal=True)
    k = len(c)
    if k < 3:
        raise ValueError(f"`counts` must cover at least 3 classes, got {k}: of two, all mass is on the other.")
    if not bool((c > 0).any()):
        raise ValueError("`counts` must hold mistakes, got none beside the diagonal: there is nothing to learn from.")
    if shrinkage == "auto":
        whole = bool((c == c.round()).all())
        mean = float(c.sum() / (c.sum(dim=1) > 0).sum())
        shrinkage = _best_shrinkage(lambda: _left_out_counts(c), k) if whole else FRACTION * mean
    return _shrunk(c, shrinkage)


def _shrunk(sums: Tensor, shrinkage: float) -> Tensor:
    a, k = checks.at_least_zero(shrinkage, "shrinkage"), len(sums)
    mass = sums.sum(dim=1, keepdim=True)
    uniform = mass + a <= 0
    s = torch.where(uniform, 1 / (k - 1), (sums + a / (k - 1)) / torch.where(uniform, 1.0, mass + a))
    return s.fill_diagonal_(0)


Parts = Callable[[], Iterator[tuple[Tensor, Tensor, Tensor]]]
"""Chunks of (values to predict, sums of the others, mass of the others)"""


def _left_out(wrong: Tensor, sums: Tensor, y: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Each sample's wrong probabilities, and the sums of the other samples of its class."""
    step = max(1, 2**20 // wrong.shape[1])
    rows = torch.arange(0, len(wrong), max(1, wrong.numel() // ELEMENTS))
    for part in rows.split(step):
        others = (sums[y[part]] - wrong[part]).clamp_(min=0)
        yield wrong[part], others, others.sum(dim=1, keepdim=True)


def _left_out_counts(counts: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """All mistakes of one kind at once; each is predicted by the counts without itself."""
    others = (counts - 1).clamp(min=0)
    yield counts, others, (counts.sum(dim=1, keepdim=True) - 1).clamp(min=0)


def _best_shrinkage(parts: Parts, k: int) -> float:
    from scipy.optimize import minimize_scalar

    def loss(log_a: float) -> float:
        a, total = math.exp(log_a), 0.0
        for target, others, mass in parts():
            total -= float((target * ((others + a / (k - 1)) / (mass + a)).log()).sum())
        return total

    return math.exp(float(minimize_scalar(loss, bounds=(-12, 12), method="bounded", options={"xatol": 0.01}).x))


def _calibrated(p: Tensor, y: Tensor, folds: int | None, seed: int) -> Tensor:
    """The outputs at the temperature that fits the labels best."""
    positive = p[p > 0]
    z = p.clamp(min=float(positive.min()) / 2).log()  # a 0 stands for less than the smallest positive number
    if folds is None:
        return torch.softmax(z * _inverse_temperature(z, y), dim=1)
    folds = checks.count(folds, "folds", least=2, most=len(p))
    fold = torch.arange(len(p)) % folds
    fold = fold[torch.randperm(len(p), generator=torch.Generator().manual_seed(seed))]
    result = torch.empty_like(z)
    for number in range(folds):
        inside = fold == number
        result[inside] = torch.softmax(z[inside] * _inverse_temperature(z[~inside], y[~inside]), dim=1)
    return result


def _inverse_temperature(z: Tensor, y: Tensor) -> float:
    """The b that minimises the mean NLL of softmax(b·z), which is convex in b; from 0.05 to 20."""
    from scipy.optimize import brentq

    rows = torch.arange(0, len(z), max(1, z.numel() // ELEMENTS))
    z, y = z[rows], y[rows]
    target = float(z.gather(1, y[:, None]).mean())

    def slope(b: float) -> float:
        return float((torch.softmax(b * z, dim=1) * z).sum(dim=1).mean()) - target

    low, high = 0.05, 20.0
    if slope(low) >= 0:
        return low
    return float(brentq(slope, low, high, xtol=1e-4)) if slope(high) > 0 else high
