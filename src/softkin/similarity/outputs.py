"""Class similarity from the confusions of a trained model or of people, or from the nearest neighbours of
samples in a feature space.
"""

import importlib.util
import math
from collections.abc import Callable, Iterator
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from softkin._core import checks
from softkin._core.checks import Array
from softkin._core.named_labels import numbered
from softkin._core.progress import track
from softkin.similarity.vectors import nearest

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


SHARPNESS = 0.1  # of the weights softmax(cos / SHARPNESS)
EXACT = 100_000  # rows up to which neighbours are those of float64; beyond, faiss finds those of float32, if installed
BLOCK = 16_384  # rows that faiss searches at a time


@torch.no_grad()
def from_neighbours(
    features: Array,
    labels: Array,
    *,
    k: int = 20,
    num_classes: int | None = None,
    progress: bool | None = None,
) -> Tensor:
    r"""Similarity from the classes of each sample's nearest neighbours, other than itself.

    The k nearest other samples of sample i by cosine get the weights :math:`w_{ij} \propto \exp(\cos_{ij} / 0.1)`,
    which sum to 1. With :math:`W_c(c')` the weight that samples of class c give to neighbours of class c', summed, S is
    ``from_confusion(W)``: what a nearest-neighbour classifier would confuse.

    Neighbours are exact, without an N×N matrix. Time grows as N²·d; for more than 100,000 rows faiss is faster, and is
    used if it is installed, with cosines in float32.

    Args:
        features: (N, d), such as a frozen network's; the training rows.
        labels: (N,).
        k: The number of neighbours.
        num_classes: K; by default the largest label + 1.
        progress: Show a bar; by default only on a terminal, for work longer than a second.

    Returns:
        S, (K, K) float64 with rows that sum to 1 and a zero diagonal, possibly asymmetric.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.9, 0.2], [0.8, 0.5], [0.7, 0.6], [0.0, 1.0], [0.1, 1.0]])
        >>> S = from_neighbours(x, torch.tensor([0, 0, 1, 1, 2, 2]), k=2)
        >>> S.argmax(1)[:2]  # the first class lies next to the second, and so does the third
        tensor([1, 0])
    """
    x = checks.as_tensor(features, "features")
    x = (x.cpu() if x.device.type == "mps" else x).to(torch.float64)  # MPS has no float64
    if x.ndim != 2:
        raise ValueError(f"`features` must have shape (N, d), got {tuple(x.shape)}; flatten them first.")
    checks.finite(x, "features")
    y = checks.class_labels(labels, num_samples=len(x), num_classes=num_classes).cpu()
    classes = int(y.max()) + 1 if num_classes is None else num_classes
    checks.count(k, "k")
    if len(x) < 2:
        raise ValueError(f"`features` must hold at least 2 samples, got {len(x)}.")
    length = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    if bool((length == 0).any()):
        raise ValueError(f"`features` must not be all 0, as in row {int((length == 0).nonzero()[0, 0])}: no cosine.")
    places, cosines = _nearest(x / length, min(k, len(x) - 1), progress)
    weights = F.softmax(cosines / SHARPNESS, dim=1)
    pairs = (y[:, None] * classes + y[places]).reshape(-1)
    sums = torch.bincount(pairs, weights=weights.reshape(-1), minlength=classes * classes).view(classes, classes)
    sums.fill_diagonal_(0)
    if not bool((sums > 0).any()):
        raise ValueError(f"the {k} nearest neighbours of every sample are of its own class; try a larger `k`.")
    return from_confusion(sums)


def _nearest(unit: Tensor, k: int, progress: bool | None) -> tuple[Tensor, Tensor]:
    """The k nearest other rows of each row of unit length, and their cosines."""
    if len(unit) > EXACT and importlib.util.find_spec("faiss") is not None:
        return _by_faiss(unit.cpu(), k, progress)
    places, gaps = nearest(unit, k, progress=progress)
    return places, 1 - gaps.square() / 2  # |a − b|² = 2 − 2·cos


def _by_faiss(unit: Tensor, k: int, progress: bool | None) -> tuple[Tensor, Tensor]:
    import faiss  # type: ignore[import-not-found,import-untyped,unused-ignore]

    rows = unit.to(torch.float32).contiguous().numpy()
    index = faiss.IndexFlatIP(rows.shape[1])
    index.add(rows)
    places, cosines = [], []
    for start in track(range(0, len(rows), BLOCK), "neighbours", total=-(-len(rows) // BLOCK), show=progress):
        near, found = index.search(rows[start : start + BLOCK], k + 1)
        own = torch.arange(start, start + len(near))
        # Among k + 1 a row finds itself, unless as many copies of it come first: then the last is left out.
        values, columns = torch.from_numpy(near).to(torch.float64), torch.from_numpy(found)
        itself = columns == own[:, None]
        itself[~itself.any(dim=1), -1] = True
        places.append(columns[~itself].view(-1, k))
        cosines.append(values[~itself].view(-1, k))
    return torch.cat(places), torch.cat(cosines)
