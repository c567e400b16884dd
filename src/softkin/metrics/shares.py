"""Intervals by formula: of a share, of a share of exactly 0 or 1, of a mean score minus a share, and of its size."""

import math
from statistics import NormalDist

from torch import Tensor


def wilson(share: float, count: int, level: float) -> tuple[float, float]:
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


def score_minus_share(scores: Tensor, is_hit: Tensor, level: float) -> tuple[float, float]:
    r"""The interval of mean score − share of hits, from an interval of each.

    With c the mean score and t its t-interval's half width, a the share and (l, u) Wilson's interval of it, and ρ the
    correlation of scores and hits (0 where either has no spread), the ends are

    .. math:: c - a \mp \sqrt{t^2 + w^2 - 2 \rho t w}, \quad w = u - a \text{ below and } a - l \text{ above}

    Where every answer is right, or every one wrong, resampled rows show no spread of the share at all; Wilson's
    interval still does.

    References:
        Newcombe, Improved Confidence Intervals for the Difference Between Binomial Proportions Based on Paired Data,
        1998; Zou and Donner, Construction of Confidence Limits About Effect Measures, 2008.
    """
    from scipy.stats import t as student

    n = len(scores)
    score, hit = scores.double(), is_hit.double()
    c, a = float(score.mean()), float(hit.mean())
    low, high = wilson(a, n, level)
    if n == 1:
        return c - high, c - low
    deviation = float(score.var(correction=0)) ** 0.5
    half = float(student.ppf((1 + level) / 2, n - 1)) * deviation / (n - 1) ** 0.5
    spread = deviation * math.sqrt(a * (1 - a))
    correlation = float(((score - c) * (hit - a)).mean()) / spread if spread > 1e-12 else 0.0

    def reach(width: float) -> float:
        return math.sqrt(max(0.0, half**2 + width**2 - 2 * correlation * half * width))

    return c - a - reach(high - a), c - a + reach(a - low)


def size_of_gap(scores: Tensor, is_hit: Tensor, level: float) -> tuple[float, float]:
    """The interval of |mean score − share of hits|, the calibration error of scores that share one bin.

    Resampling a single bin is valid only if it has many right and many wrong answers. The interval of the gap is valid
    with few, too, and the sizes of its values hold the error as often as the interval holds the gap.
    """
    low, high = score_minus_share(scores, is_hit, level)
    return max(low, -high, 0.0), max(-low, high)
