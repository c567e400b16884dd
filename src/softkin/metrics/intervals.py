"""Intervals by formula: of a share, of a mean loss, of a mean score minus a share, and of its size."""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Self

import torch
from torch import Tensor


def wilson(share: float, count: float, level: float) -> tuple[float, float]:
    """Wilson's score interval of a share of ``count`` rows, which is valid also for shares of 0 and 1."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * (share * (1 - share) / count + z * z / (4 * count * count)) ** 0.5
    return max(0.0, centre - half), min(1.0, centre + half)


def none_or_all(share: float, count: int, level: float) -> tuple[float, float]:
    """Clopper and Pearson's interval of a share of exactly 0 or 1 of ``count`` independent cases; else the share.

    In such data all resamples are equal, although cases of the other kind may only be too rare to occur.
    """
    rare = 1 - ((1 - level) / 2) ** (1 / count)
    return (0.0, rare) if share == 0 else (1 - rare, 1.0) if share == 1 else (share, share)


@dataclass(frozen=True)
class MeanLoss:
    r"""A mean loss of n rows and what its interval needs: Wilson's interval for losses that differ from row to row.

    Let the loss be what a right answer costs plus, for a wrong answer, an excess x. More wrong answers raise the mean
    μ of the losses and their variance together. With L̄ and s² the mean and variance of the rows and D their mean
    excess (0 for right answers), populations with more or fewer wrong answers of the same kind have

    .. math:: V(\mu) = s^2 + \kappa (\mu - \bar L) - \big[(D + \mu - \bar L)^2 - D^2\big],
              \qquad \kappa = \mathrm{E}\,x^2 / \mathrm{E}\,x

    and the interval holds every μ with :math:`(\bar L - \mu)^2 \le t^2 V(\mu) / n`, t Student's quantile. With x = 1
    and nothing else this is Wilson's interval of the share of wrong answers (t for its z). Where no answer is wrong the
    rows alone would show no spread; κ still does.
    """

    value: float
    excess: float
    variance: float
    ratio: float
    count: float

    @classmethod
    def of_rows(
        cls, losses: Tensor, excess: Tensor, possible: Tensor, winning: Tensor, weights: Tensor | None = None
    ) -> Self:
        """From (N,) losses, excesses (0 for right answers), what each row's would be if wrong, and the winning scores.

        κ is that of the wrong answers seen and of one more, which each row gives with the model's own doubt, 1 − score,
        and 1/N on top: models that are never in doubt are wrong too. Weights, with the mean 1, make n the number of
        rows of equal weight that say as much.
        """
        n = len(excess)
        w = torch.ones_like(excess) if weights is None else weights
        value = float((w * losses).mean())
        variance = float((w * (losses - value).square()).mean())
        return cls.of(value, variance, excess, possible, winning, w, float(n * n / w.square().sum()))

    @classmethod
    def of(
        cls,
        value: float,
        variance: float,
        excess: Tensor,
        possible: Tensor,
        winning: Tensor,
        weights: Tensor | None = None,
        count: float | None = None,
    ) -> Self:
        """Like ``of_rows``, for a loss whose mean and variance are known."""
        w, n = torch.ones_like(excess) if weights is None else weights, len(excess)
        count = float(n) if count is None else count
        mean_excess = float((w * excess).mean())
        doubt = w * torch.where(possible.isfinite(), 1 - winning.double() + 1 / n, 0.0)
        if not bool(doubt.any()):
            return cls(value, mean_excess, variance, math.inf, count)
        believed = torch.where(doubt > 0, possible, 0.0)
        seen = torch.where(excess > 0, excess, 0.0)
        first = float((w * seen).sum()) + float((doubt * believed).sum() / doubt.sum())
        second = float((w * seen.square()).sum()) + float((doubt * believed.square()).sum() / doubt.sum())
        return cls(value, mean_excess, variance, second / first if first > 0 else 0.0, count)

    def ends(self, level: float) -> tuple[float, float]:
        """Both ends, not below 0."""
        factor = student(max(1.0, self.count - 1), level) ** 2 / self.count
        if math.isinf(self.ratio):
            return max(0.0, self.value - (factor * self.variance) ** 0.5), math.inf
        slope = factor * (self.ratio - 2 * self.excess)
        root = (slope**2 + 4 * (1 + factor) * factor * self.variance) ** 0.5
        low, high = (self.value + (slope + sign * root) / (2 * (1 + factor)) for sign in (-1, 1))
        return max(0.0, low), high


def student(degrees: float, level: float) -> float:
    """The quantile of Student's t that bounds a two-sided interval of this level."""
    from scipy.special import stdtrit  # scipy.stats takes most of a second to import

    return float(stdtrit(degrees, (1 + level) / 2))


def score_minus_share(
    scores: Tensor, is_hit: Tensor, level: float, weights: Tensor | None = None
) -> tuple[float, float]:
    r"""The interval of mean score − share of hits, from an interval of each.

    With c the mean score and t its t-interval's half width, a the share and (l, u) Wilson's interval of it, and ρ the
    correlation of scores and hits (0 where either has no spread), the ends are

    .. math:: c - a \mp \sqrt{t^2 + w^2 - 2 \rho t w}, \quad w = u - a \text{ below and } a - l \text{ above}

    Where every answer is right, or every one wrong, resampled rows show no spread of the share at all; Wilson's
    interval still does. Where hits are shares between 0 and 1, it is the t-interval of the mean difference. With
    ``weights`` of the mean 1 means are weighted, and n is the number of rows of equal weight that say as much.

    References:
        Newcombe, Improved Confidence Intervals for the Difference Between Binomial Proportions Based on Paired Data,
        1998; Zou and Donner, Construction of Confidence Limits About Effect Measures, 2008.
    """
    score, hit = scores.double(), is_hit.double()
    w = torch.ones_like(score) if weights is None else weights
    n = float(len(scores)) if weights is None else float(w.sum().square() / w.square().sum())
    c, a = float((w * score).mean()), float((w * hit).mean())
    low, high = wilson(a, n, level)
    if n <= 1 + 1e-9:
        return c - high, c - low
    if not bool(((hit == 0) | (hit == 1)).all()):
        variance = float((w * (score - hit - (c - a)).square()).mean())
        reach_of_mean = student(n - 1, level) * (variance / (n - 1)) ** 0.5
        return max(-1.0, c - a - reach_of_mean), min(1.0, c - a + reach_of_mean)
    deviation = float((w * (score - c).square()).mean()) ** 0.5
    half = student(n - 1, level) * deviation / (n - 1) ** 0.5
    spread = deviation * math.sqrt(a * (1 - a))
    correlation = float((w * (score - c) * (hit - a)).mean()) / spread if spread > 1e-12 else 0.0

    def reach(width: float) -> float:
        return math.sqrt(max(0.0, half**2 + width**2 - 2 * correlation * half * width))

    return max(-1.0, c - a - reach(high - a)), min(1.0, c - a + reach(a - low))


def gap_and_error(probabilities: Tensor, labels: Tensor) -> tuple[float, float]:
    """The signed gap of (N, K) probabilities, and its standard error towards 0.

    The error is half of the distance from the gap to the end of its 95 % interval on the side of 0: the gap is more
    than two errors away from 0 exactly if that interval excludes 0, also where every answer is right.
    """
    confidence, predicted = probabilities.double().max(dim=1)
    is_hit = predicted == labels
    gap = float((confidence - is_hit.double()).mean())
    low, high = score_minus_share(confidence, is_hit, 0.95)
    return gap, (gap - low if gap > 0 else high - gap) / 2


def size_of_gap(scores: Tensor, is_hit: Tensor, level: float, weights: Tensor | None = None) -> tuple[float, float]:
    """The interval of |mean score − share of hits|, the calibration error of scores that share one bin.

    Resampling a single bin is valid only if it has many right and many wrong answers. The interval of the gap is valid
    with few, too, and the sizes of its values hold the error as often as the interval holds the gap.
    """
    return sizes(*score_minus_share(scores, is_hit, level, weights))


def sizes(low: float, high: float) -> tuple[float, float]:
    """The smallest and the largest absolute value between ``low`` and ``high``."""
    return max(low, -high, 0.0), max(-low, high)
