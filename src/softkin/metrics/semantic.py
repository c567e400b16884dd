"""Metrics that know which classes are alike: super-classes, neighbourhoods, the severity of mistakes."""

from dataclasses import dataclass
from typing import Any, Literal, Unpack

import torch
from torch import Tensor

from softkin._core import checks, randomness
from softkin._core.checks import Array
from softkin.metrics import binning, scopes
from softkin.metrics.catalogue import METRICS, Sureness, metric
from softkin.metrics.intervals import student
from softkin.metrics.resampling import Interval, quantiles
from softkin.metrics.scopes import Claims, multiplicities
from softkin.metrics.statistics import Mean, Ratio, Statistic
from softkin.similarity import SparseRows


def superclass(probabilities: Array, labels: Array, groups: Array) -> tuple[Tensor, Tensor]:
    """Probabilities and labels of super-classes: the sums of their classes' probabilities.

    Every metric takes the result; ``superclass_ece`` is the common one.

    Args:
        probabilities: (N, K).
        labels: (N,).
        groups: (K,) the super-class 0 … G−1 of each class.

    Returns:
        (N, G) float64 probabilities and (N,) super-class labels.

    Example:
        >>> P, y = superclass(torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([1]), torch.tensor([0, 0, 1]))
        >>> P, y
        (tensor([[0.8000, 0.2000]], dtype=torch.float64), tensor([0]))
    """
    return _grouped(*Claims.of(probabilities, labels).classes(), groups)


def _grouped(p: Tensor, y: Tensor, groups: Array) -> tuple[Tensor, Tensor]:
    g = checks.class_labels(groups, num_samples=p.shape[1], num_classes=None).to(p.device)
    size = int(g.max()) + 1
    missing = sorted(set(range(size)) - set(g.tolist()))
    if missing:
        raise ValueError(f"`groups` must use every super-class from 0 to {size - 1}, but {missing[0]} has no class.")
    if size < 2:
        raise ValueError("`groups` must name at least 2 super-classes, got 1.")
    total = torch.zeros(len(p), size, dtype=torch.float64, device=p.device)
    return total.index_add_(1, g, p.to(torch.float64)), g[y]


@metric(title="ECE of the super-classes", short="super-classes")
def superclass_ece(probabilities: Tensor, labels: Tensor, /, groups: Array, **options: Any) -> Statistic:
    """``ece_hist`` of the super-class probabilities: whether "some kind of fish" is as likely as the model claims.

    A model can be calibrated on super-classes and over-confident on classes. ``options`` are those of
    ``ece_hist``.
    """
    return METRICS["ece_hist"].statistic(Claims(*_grouped(probabilities, labels, groups)), **options)


def _neighbours(similarity: Array | SparseRows, k: int, num_classes: int) -> Tensor:
    """The k classes most similar to each class, (K, k), without itself; of equally similar ones lower classes first."""
    if isinstance(similarity, SparseRows):
        if k > similarity.indices.shape[1]:
            raise ValueError(
                f"`k` must be at most the {similarity.indices.shape[1]} classes that the similarity keeps, got {k}."
            )
        matrix = None
        size = len(similarity)
    else:
        matrix = checks.square(similarity, "similarity")
        size = len(matrix)
    if size != num_classes:
        raise ValueError(
            f"`similarity` covers {size} classes but the probabilities {num_classes}; is it for another data set?"
        )
    if k >= num_classes:
        raise ValueError(f"`k` must be below the number of classes, {num_classes}, got {k}.")
    if matrix is None:
        assert isinstance(similarity, SparseRows)
        order = similarity.values.argsort(dim=1, descending=True, stable=True)[:, :k]
        return similarity.indices.gather(1, order)
    matrix = matrix.clone().fill_diagonal_(-1)
    return matrix.argsort(dim=1, descending=True, stable=True)[:, :k]


@metric(title="mass near the true class", short="neighbourhood", larger_is_better=True)
def neighbourhood_mass(
    probabilities: Tensor,
    labels: Tensor,
    similarity: Array | SparseRows,
    *,
    k: int = 5,
    of: Literal["all", "rest"] = "all",
    **_: Unpack[Sureness],
) -> Mean | Ratio:
    """The probability mass in the true class's neighbourhood, where similarity smoothing should put it.

    Args:
        probabilities: (N, K).
        labels: (N,).
        similarity: (K, K) or ``SparseRows``, as ``softkin.similarity`` makes it; row y ranks the classes near y.
        k: The number of most similar classes in the neighbourhood, besides the class itself.
        of: "all" for the mean mass of the true class and its k neighbours; "rest" for the neighbours' share of what
            is not on the true class, Σ_i mass / Σ_i (1 − p_true), which does not reward confidence. Chance is then
            k/(K−1).
        confidence: A level such as 0.95 for an ``Interval``.
        resamples: The number of resamples for the interval.
        seed: The seed of the resampling.
    """
    p, y = probabilities, labels
    checks.option(of, "of", ("all", "rest"))
    near = _neighbours(similarity, checks.count(k, "k"), p.shape[1]).to(p.device)
    own = p.gather(1, y[:, None])[:, 0].to(torch.float64)
    around = p.gather(1, near[y]).sum(dim=1, dtype=torch.float64)
    if of == "all":
        return Mean(own + around)
    return Ratio(around, p.sum(dim=1, dtype=torch.float64) - own)


@dataclass(frozen=True)
class SeverityCurve:
    """The severity of mistakes as a function of confidence."""

    edges: Tensor
    """(M+1,) edges of the confidence bins"""
    count: Tensor
    """(M,) mistakes in each bin"""
    distance_sum: Tensor
    """(M,) the sum of their distances from the true class"""
    correlation: float
    """Spearman's rank correlation of confidence and distance over the mistakes; NaN with fewer than 2, or no spread.
    Positive is bad: confident mistakes are worse ones"""
    low: Tensor | None = None
    """(M,) ends of the confidence band of ``severity``, NaN in empty bins"""
    high: Tensor | None = None

    @property
    def severity(self) -> Tensor:
        """The mean distance of each bin's mistakes, NaN in empty bins."""
        return self.distance_sum / self.count


def _mistakes(p: Tensor, y: Tensor, distances: Array) -> tuple[Tensor, Tensor, Tensor]:
    """For each row: whether it is wrong, the winning score, and the distance from the true to the winning class."""
    d = checks.square(distances, "distances")
    if len(d) != p.shape[1]:
        raise ValueError(
            f"`distances` cover {len(d)} classes but the probabilities {p.shape[1]}; are they for another data set?"
        )
    predicted = scopes.winners(p)
    winning = p.gather(1, predicted[:, None])[:, 0].to(torch.float64)
    return predicted != y, winning, d.to(p.device)[y, predicted]


@metric(title="severity of mistakes", short="severity", percent=False)
def mistake_severity(probabilities: Tensor, labels: Tensor, distances: Array, **_: Unpack[Sureness]) -> Ratio:
    """The mean distance between the true and the predicted class over the mistakes; NaN if there are none.

    ``distances`` is (K, K), as ``softkin.distances`` makes it or tree heights of a taxonomy; row = true class.
    """
    wrong, _winning, distance = _mistakes(probabilities, labels, distances)
    d = checks.square(distances, "distances")
    others = d[~torch.eye(len(d), dtype=torch.bool)]
    return Severity(distance * wrong, wrong, float(others.min()), float(others.max()))


class Severity(Ratio):
    """The mean over mistakes of numbers between ``least`` and ``most``."""

    def __init__(self, above: Tensor, below: Tensor, least: float, most: float) -> None:
        super().__init__(above, below)
        self._limits = least, most

    def ends(self, level: float) -> tuple[float, float] | None:
        """Student's interval over the mistakes, which allows for distances too rare to have occurred.

        Of n mistakes it reaches at least 1 − ((1 − level)/2)^(1/n) of the way to the smallest and the largest distance
        between two classes, as the bands of ``severity_curve`` do.
        """
        values = self.rows[self.rows[:, 1] > 0, 0].double()
        n, (least, most) = len(values), self._limits
        if n == 0:
            return None
        mean = float(values.mean())
        half = student(n - 1, level) * float(values.std()) / n**0.5 if n > 1 else 0.0
        rare = 1 - ((1 - level) / 2) ** (1 / n)
        low = min(mean - half, mean - rare * max(0.0, mean - least))
        high = max(mean + half, mean + rare * max(0.0, most - mean))
        return max(least, low), min(most, high)


def severity_curve(
    probabilities: Array,
    labels: Array,
    distances: Array,
    *,
    n_bins: int = 15,
    confidence: float | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> SeverityCurve:
    """Severity of mistakes against confidence: mean distance in equal-width bins, and their rank correlation.

    With ``confidence`` the correlation is an ``Interval``, and ``low`` and ``high`` are the band of each bin:
    percentiles over resampled rows. A band also allows for mistakes of other distances that were too rare to occur: of
    n mistakes, it reaches at least 1 − tail^(1/n) of the way to the smallest and to the largest distance between two
    classes. So a single mistake determines nearly nothing.
    """
    p, y = Claims.of(probabilities, labels).classes()
    wrong, winning, distance = _mistakes(p, y, distances)
    winning, distance = winning[wrong].cpu(), distance[wrong].cpu()
    bins = binning.equal_width(checks.count(n_bins, "n_bins"))
    index = binning.assign(winning, bins).to(torch.int64)
    everything = torch.ones(1, len(winning), dtype=torch.float64)
    count, total = _in_bins(index, distance, n_bins, everything)[:, 0]
    correlation = float(_spearman(winning, distance, everything))
    if confidence is None:
        return SeverityCurve(bins.edges, count, total, correlation)
    level = checks.level(confidence)
    checks.count(resamples, "resamples", least=100)
    tail = (1 - level) / 2
    places = wrong.cpu()
    severities, correlations = [], []
    for weights in multiplicities(len(p), resamples, randomness.generator(seed)):
        drawn = weights[:, places].to(torch.float64)
        counts, totals = _in_bins(index, distance, n_bins, drawn)
        severities.append(totals / counts)
        correlations.append(_spearman(winning, distance, drawn))
    ends = torch.tensor([tail, 1 - tail], dtype=torch.float64)
    low, high = torch.nanquantile(torch.cat(severities), ends, dim=0)
    off_diagonal = checks.square(distances, "distances")[~torch.eye(p.shape[1], dtype=torch.bool)]
    rare, severity = 1 - tail ** (1 / count), total / count
    return SeverityCurve(
        bins.edges,
        count,
        total,
        Interval(correlation, *quantiles(torch.cat(correlations), tail), level),
        torch.minimum(low, severity - rare * (severity - off_diagonal.min())),
        torch.maximum(high, severity + rare * (off_diagonal.max() - severity)),
    )


def _in_bins(index: Tensor, distance: Tensor, n_bins: int, weights: Tensor) -> Tensor:
    """The number of mistakes in each bin, and the sum of their distances, for each line of weights, (2, r, M)."""
    sums = torch.zeros(2, len(weights), n_bins, dtype=torch.float64)
    place = index.expand(len(weights), -1)
    sums[0].scatter_add_(1, place, weights)
    sums[1].scatter_add_(1, place, weights * distance)
    return sums


def _spearman(a: Tensor, b: Tensor, weights: Tensor) -> Tensor:
    """Spearman's correlation, (r,), with pairs weighted by each line of ``weights``; NaN without spread."""
    count = weights.sum(dim=1, keepdim=True)
    ranks = []
    for values in (a, b):
        values_, group = torch.unique(values, return_inverse=True)
        lines = group.expand(len(weights), -1)
        size = torch.zeros(len(weights), len(values_), dtype=torch.float64).scatter_add_(1, lines, weights)
        middle = size.cumsum(dim=1) - (size - 1) / 2  # equal values share the mean of their ranks
        ranks.append(middle.gather(1, lines) - (count + 1) / 2)
    spread = (weights * ranks[0].square()).sum(dim=1).sqrt() * (weights * ranks[1].square()).sum(dim=1).sqrt()
    return torch.where(spread > 0, (weights * ranks[0] * ranks[1]).sum(dim=1) / spread, torch.nan)
