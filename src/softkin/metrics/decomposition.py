"""The decomposition of the Brier score, with an interval for each part."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor

from softkin._core import checks, randomness
from softkin._core.checks import Array
from softkin.metrics import binning
from softkin.metrics.binned import Classwise
from softkin.metrics.binning import ReliabilityCurve
from softkin.metrics.resampling import around, interval, quantiles, rejects_calibration
from softkin.metrics.scopes import Claims, multiplicities
from softkin.metrics.scores import square_loss
from softkin.metrics.statistics import CalibrationError


@dataclass(frozen=True)
class BrierParts:
    """``brier`` = reliability − resolution + uncertainty + within, exactly."""

    brier: float
    reliability: float
    """Σ |B|/n (conf − lik)²: what calibration could gain; smaller is better"""
    resolution: float
    """Σ |B|/n (lik − base rate)²: how well the bins separate samples; larger is better"""
    uncertainty: float
    """Σ_k base rate (1 − base rate): a property of the data alone"""
    within: float
    """The contribution of score differences within bins; goes to 0 with many bins"""


class Reliability(Classwise):
    """The reliability part of the Brier score: the sum of squared class-wise L2 errors."""

    def __init__(self, p: Tensor, y: Tensor, n_bins: int) -> None:
        super().__init__(Claims(p, y), binning.equal_width(n_bins), divide_by=1)

    def of_curves(self, curves: ReliabilityCurve, n: float) -> Tensor:
        return curves.error(2, samples=n).square().sum(dim=-1)


class Imbalance(CalibrationError):
    r"""Σ_k (base rate − 1/K)²: by how much the uncertainty falls short of 1 − 1/K, which balanced classes have.

    An error like the others: 0 if all classes are equally frequent, and biased upwards.
    """

    def __init__(self, labels: Tensor, num_classes: int) -> None:
        self.labels, self.num_classes = labels, num_classes
        self.num_samples, self.device = len(labels), labels.device

    @property
    def of_one_row(self) -> float:
        return 2 / self.num_samples  # one class loses a row, another gains it

    def value(self) -> float:
        return float(self.of(torch.bincount(self.labels, minlength=self.num_classes).double()[None]))

    def sums(self, weights: Tensor) -> Tensor:
        total = torch.zeros(len(weights), self.num_classes, dtype=torch.float64, device=self.device)
        return total.index_add_(1, self.labels, weights.double())

    def of(self, sums: Tensor) -> Tensor:
        return (sums / self.num_samples - 1 / self.num_classes).square().sum(dim=1)

    def scaled(self, sums: Tensor, factor: float | Tensor) -> Tensor:
        balanced = self.num_samples / self.num_classes
        return balanced + factor * (sums - balanced)

    def departures(self, sums: Tensor) -> Tensor:
        return sums - self.num_samples / self.num_classes

    def redrawn(self, generator: np.random.Generator, times: int) -> Tensor:
        shares = np.full(self.num_classes, 1 / self.num_classes)
        return self.of(torch.from_numpy(generator.multinomial(self.num_samples, shares, times)).double())


def _other_parts(curves: ReliabilityCurve, n: int) -> tuple[Tensor, Tensor]:
    """Resolution and uncertainty, of shape (…), of curves of shape (…, K, M)."""
    base = curves.hit_sum.sum(dim=-1, keepdim=True) / n
    likelihood = curves.hit_sum / curves.count.clamp(min=1)
    resolution = (curves.count * (likelihood - base).square()).sum(dim=(-1, -2)) / n
    return resolution, (base * (1 - base)).sum(dim=(-1, -2))


def _variance_of_hits(curves: ReliabilityCurve) -> Tensor:
    """lik(1 − lik) of each bin's population, (K, M), estimated without bias; 0 in empty bins.

    A single score does not show the variance of its bin: it gets that of the same bin over all classes.
    """
    count, hits = curves.count, curves.hit_sum
    own = hits * (count - hits) / (count * (count - 1)).clamp(min=1)
    pooled = hits.sum(dim=0) / count.sum(dim=0).clamp(min=1)
    return torch.where(count > 1, own, torch.where(count > 0, pooled * (1 - pooled), 0.0))


def brier_decomposition(
    probabilities: Array,
    labels: Array,
    *,
    n_bins: int = 15,
    confidence: float | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> BrierParts:
    """The Brier score in parts, class by class over equal-width bins and summed over the classes.

    With ``confidence`` each part is an ``Interval``, all from the same resampled rows:

    - the Brier score: as ``interval`` has it;
    - the part within bins: percentiles, and at least what the labels' own variance makes likely: where few answers are
      wrong, resamples show too little of it;
    - the reliability: the value minus what chance adds to it, Σ lik(1 − lik)/n over the bins, plus and minus the spread
      of the resampled values about their mean; the lower end is 0 unless labels redrawn from the scores reject
      calibration;
    - the resolution: the same, on the logarithm of uncertainty − resolution, the variance of the labels that is left
      within bins, which is skewed where little is left;
    - the uncertainty: 1 − 1/K minus the imbalance Σ (base rate − 1/K)², which chance inflates, so that it gets
      the interval of an error (see ``interval``).

    Every interval contains the value itself. docs/measurements/coverage.md shows how often they hold the truth.

    References:
        Murphy, A New Vector Partition of the Probability Score, 1973; Stephenson et al., Two Extra Components in the
        Brier Score Decomposition, 2008.
    """
    p, y = Claims.of(probabilities, labels).classes()
    n, num_classes = p.shape
    statistic = Reliability(p, y, checks.count(n_bins, "n_bins"))
    losses = square_loss(Claims(p, y))
    curves = binning.class_curves(p, y, statistic.bins)
    resolution, uncertainty = (float(part) for part in _other_parts(curves, n))
    total, reliability = losses.value(), float(statistic.of_curves(curves, n))
    within = total - reliability + resolution - uncertainty
    if confidence is None:
        return BrierParts(total, reliability, resolution, uncertainty, within)
    level = checks.level(confidence)
    checks.count(resamples, "resamples", least=100)
    tail = (1 - level) / 2
    drawn: list[list[Tensor]] = []
    for weights in multiplicities(n, resamples, randomness.generator(seed)):
        rows = weights.to(p.device)
        sums = statistic.sums(rows).view(len(rows), 3, num_classes, n_bins)
        resampled = ReliabilityCurve(curves.edges, *sums.unbind(dim=1))
        parts = [statistic.of_curves(resampled, n), *_other_parts(resampled, n)]
        drawn.append([*parts, losses.of(losses.sums(rows)) - parts[0] + parts[1] - parts[2]])
    of_reliability, of_resolution, _, of_within = (torch.cat(part).cpu() for part in zip(*drawn, strict=True))
    chance = _variance_of_hits(curves)
    low, high = _about(of_reliability, reliability - float(chance.sum()) / n, tail)
    if not rejects_calibration(statistic, reliability, level, resamples, seed)[0]:
        low = 0.0
    less = resolution - float((chance * (1 - curves.count / n)).sum()) / n
    imbalance, most = interval(Imbalance(y, num_classes), level, resamples, seed), 1 - 1 / num_classes
    return BrierParts(
        interval(losses, level, resamples, seed),
        around(reliability, low, high, level),
        around(resolution, *_within_uncertainty(of_resolution, less, uncertainty, level), level),
        around(uncertainty, max(0.0, most - imbalance.high), most - imbalance.low, level),
        around(within, *_reaching(quantiles(of_within, tail), within, _error_within(statistic, curves), level), level),
    )


def _error_within(statistic: Reliability, curves: ReliabilityCurve) -> float:
    r"""The standard error that labels cause in the part within bins.

    That part is :math:`\frac{1}{n} \sum_{ik} d_{ik}^2 - 2 d_{ik} y_{ik}`, d a score less the mean of its bin. Of row i
    the labels cause the variance 4 (Σ d² q − (Σ d q)²), q the shares (hits + 1) / (count + 2) of the bins, normalised.
    """
    place = binning.assign(statistic.p, statistic.bins).to(torch.int64).cpu()
    share, mean = (
        part.T.gather(0, place)
        for part in ((curves.hit_sum + 1) / (curves.count + 2), curves.score_sum / curves.count.clamp(min=1))
    )
    q = share / share.sum(dim=1, keepdim=True)
    d = statistic.p.cpu().double() - mean
    variance = (d * d * q).sum(dim=1) - (d * q).sum(dim=1).square()
    return 2 * float(variance.sum().sqrt()) / len(d)


def _reaching(ends: tuple[float, float], value: float, error: float, level: float) -> tuple[float, float]:
    """Ends that are at least as far from the value as the normal ones of this standard error."""
    half = NormalDist().inv_cdf((1 + level) / 2) * error
    return min(ends[0], value - half), max(ends[1], value + half)


def _about(resampled: Tensor, centre: float, tail: float) -> tuple[float, float]:
    """``centre`` with the spread of the resampled values about their own mean, cut at 0."""
    low, high = quantiles(resampled - resampled.mean(), tail)
    return max(0.0, centre - high), max(0.0, centre - low)


def _within_uncertainty(resampled: Tensor, centre: float, uncertainty: float, level: float) -> tuple[float, float]:
    """The interval of a resolution, from the resampled deviation on the logarithm of uncertainty − resolution."""
    deviation = float(resampled.std()) * NormalDist().inv_cdf((1 + level) / 2)
    left = uncertainty - centre
    if left <= 1e-12 or deviation / left > 20:  # nothing is left within bins, or its spread is too large
        return max(0.0, centre - deviation), uncertainty
    factor = math.exp(deviation / left)
    return max(0.0, uncertainty - left * factor), max(0.0, uncertainty - left / factor)
