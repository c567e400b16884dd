"""The finite-sample theorems behind the rules, one function each, and the intervals of measures."""

import math
from fractions import Fraction

import torch
from torch import Tensor

from softkin._core import checks
from softkin.metrics import Interval
from softkin.metrics.intervals import student, wilson

ROUNDING = 1e-12  # relative, of sums of weights: equal weights give the ranks of whole numbers


def share(value: float, name: str, example: float = 0.05) -> float:
    """A number strictly between 0 and 1."""
    if not 0 < checks.number(value, name) < 1:
        raise ValueError(f"`{name}` must be between 0 and 1, such as {example:g}, got {value:g}.")
    return float(value)


def rank(num_samples: int, coverage: float) -> int:
    """⌈(n + 1) · coverage⌉ with ``coverage`` as a decimal: 0.07 · 100 is exactly 7, not slightly more."""
    return math.ceil((num_samples + 1) * Fraction(repr(float(coverage))))


def fewest_rows(coverage: float) -> int:
    """The smallest n for which ``rank`` is at most n."""
    exact = Fraction(repr(float(coverage)))
    return math.ceil(exact / (1 - exact))


def conformal_limit(scores: Tensor, coverage: float) -> Tensor:
    r"""The limit that a new score does not exceed with probability at least ``coverage``.

    Among n scores it is the ⌈(n+1)·coverage⌉-th smallest. If they and the new score are exchangeable, each rank of the
    new score is equally likely, so that

    .. math:: 1 - \alpha \le \Pr[s_{n+1} \le \hat q] \le 1 - \alpha + \frac{1}{n + 1}

    where the second inequality holds if no two scores are equal.

    Args:
        scores: (…, n), with n at least ``fewest_rows(coverage)``.
        coverage: 1 − α.

    References:
        Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World, 2005; Lei et al., Distribution-Free
        Predictive Inference for Regression, 2018, Theorem 2.
    """
    place = rank(scores.shape[-1], coverage)
    return scores.kthvalue(place, dim=-1).values


def weighted_limits(scores: Tensor, weights: Tensor, own: Tensor, coverage: float) -> Tensor:
    r"""The limits that new scores do not exceed with probability at least ``coverage`` under covariate shift.

    With density ratios :math:`w(x) = dQ/dP(x)`, calibration rows from P and a new row from Q, whose labels given x are
    alike, the limit of a new row of weight w is the smallest score q with

    .. math:: \sum_{i : s_i \le q} w_i \ge (1 - \alpha) \Big( \sum_i w_i + w \Big)

    and infinite if there is none. Only ratios of weights count. With equal weights it is ``conformal_limit``.

    Args:
        scores: (n,) in ascending order.
        weights: (n,) of the calibration rows, in the order of the scores.
        own: (m,) of the new rows.
        coverage: 1 − α.

    Returns:
        (m,) limits.

    References:
        Tibshirani, Barber, Candès and Ramdas, Conformal Prediction Under Covariate Shift, 2019, Corollary 1.
    """
    below = weights.cumsum(dim=0)
    needed = coverage * (below[-1] + own) * (1 - ROUNDING)
    places = torch.searchsorted(below, needed)
    return torch.cat([scores, scores.new_full((1,), math.inf)])[places]


def binomial_limit(wrong: Tensor, answered: Tensor, delta: float) -> Tensor:
    r"""Clopper and Pearson's upper limit at level δ: the largest rate at which so few errors are not too unlikely.

    .. math:: b = \max\{b : \Pr[\mathrm{Bin}(n, b) \le w] \ge \delta\}
    """
    from scipy.special import betaincinv

    right = (answered - wrong).clamp(min=1)
    limits = torch.from_numpy(betaincinv((wrong + 1).numpy(), right.numpy(), 1 - delta))
    return torch.where(wrong == answered, 1.0, limits)


def of_share(hits: float, count: int, level: float) -> Interval:
    """A share of rows with Wilson's interval; without rows the value is NaN."""
    if count == 0:
        return Interval(math.nan, 0.0, 1.0, level)
    return Interval(hits / count, *wilson(hits / count, count, level), level)


def exactly_of_share(hits: float, count: int, level: float) -> Interval:
    """A share of rows with Clopper and Pearson's interval, which holds at any level; Wilson's fails near 1."""
    kinds = torch.tensor([count - hits, hits], dtype=torch.float64)
    misses, above = binomial_limit(kinds, torch.full((2,), count), (1 - level) / 2).tolist()
    return Interval(hits / count, 1 - misses, above, level)


def of_mean(values: Tensor, level: float, least: float, most: float) -> Interval:
    """A mean over rows of numbers between ``least`` and ``most``, with Student's interval; NaN without rows.

    Equal numbers show no spread, but another one may only be too rare to have shown: with n rows it has a share of at
    most 1 − ((1 − level)/2)^(1/n), by Clopper and Pearson, and the interval reaches as far as that could move the mean.
    """
    n = len(values)
    if n == 0:
        return Interval(math.nan, math.nan, math.nan, level)
    mean = float(values.double().mean())
    if float(values.min()) == float(values.max()):
        rare = 1 - ((1 - level) / 2) ** (1 / n)
        return Interval(mean, mean - rare * max(0.0, mean - least), mean + rare * max(0.0, most - mean), level)
    half = student(n - 1, level) * float(values.double().std()) / n**0.5
    return Interval(mean, max(least, mean - half), min(most, mean + half), level)
