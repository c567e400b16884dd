"""How sure a metric is: intervals by resampling rows, paired comparisons, and what calibration itself would show."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor

from softkin import checks
from softkin.metrics.scopes import blocks
from softkin.metrics.statistics import Binned, Share, Statistic


class Interval(float):
    """A metric with its confidence interval: a float, the value, with ``low``, ``high`` and ``level`` beside it.

    Example:
        >>> Interval(0.12, 0.10, 0.15, 0.95)
        Interval(value=0.12, low=0.1, high=0.15, level=0.95)
    """

    low: float
    high: float
    level: float

    def __new__(cls, value: float, low: float, high: float, level: float) -> "Interval":
        """The value as the float, the rest beside it."""
        self = super().__new__(cls, value)
        self.low, self.high, self.level = float(low), float(high), float(level)
        return self

    @property
    def value(self) -> float:
        """The metric itself."""
        return float(self)

    def __getnewargs__(self) -> tuple[float, float, float, float]:  # type: ignore[override]
        return float(self), self.low, self.high, self.level

    def __repr__(self) -> str:
        return f"Interval(value={float(self)!r}, low={self.low!r}, high={self.high!r}, level={self.level!r})"


@dataclass(frozen=True)
class Comparison:
    """Two models on the same samples."""

    difference: float
    """The metric of a minus that of b"""
    low: float
    high: float
    p_value: float
    """How often models swapped within samples at random differ at least as much"""


def multiplicities(num_samples: int, times: int, generator: np.random.Generator) -> Iterator[Tensor]:
    """How often each row is drawn in each of ``times`` resamples of N rows: (r, N) blocks, counts as float32."""
    for some in blocks(times, num_samples):
        counts = np.empty((some, num_samples), dtype=np.float32)
        for line in counts:
            line[:] = np.bincount(generator.integers(0, num_samples, num_samples), minlength=num_samples)
        yield torch.from_numpy(counts)


def resampled_sums(statistic: Statistic, times: int, generator: np.random.Generator) -> Tensor:
    """(times, F) the sums behind the statistic for resampled rows: whole rows, with replacement."""
    every = multiplicities(statistic.num_samples, times, generator)
    return torch.cat([statistic.sums(counts.to(statistic.device)) for counts in every])


def answer(statistic: Statistic, confidence: float | None, resamples: int, seed: int) -> float:
    """The value, or the value in its interval where ``confidence`` asks for one."""
    if confidence is None:
        return statistic.value()
    return interval(statistic, confidence, resamples, seed)


def interval(statistic: Statistic, confidence: float, resamples: int, seed: int) -> Interval:
    r"""The confidence interval of a statistic, by its kind.

    - A share: Wilson's interval, which is right also where no row or every row counts.
    - A mean: percentiles of the resampled values.
    - A calibration error θ: its estimate θ̂ is biased upwards, and a resample's is biased again, so plain percentiles
      lie above the truth. Instead the interval holds every size of error that could well have shown θ̂: with S the
      sums behind θ̂, and S* those of a resample, τ·S + (S* − S) is a resample of data whose departure from calibration
      is τ times the one seen. The ends are the θ(τ) for which θ̂ is the upper or lower (1 − level)/2 quantile of such
      resamples. The interval is cut at 0, and its lower end is 0 unless labels redrawn from the scores show an error
      as large as θ̂ in fewer than 1 − level of the draws.
    """
    level = checks.level(confidence)
    checks.count(resamples, "resamples", least=100)
    value = statistic.value()
    if isinstance(statistic, Share):
        return Interval(value, *wilson(value, statistic.num_samples, level), level)
    tail = (1 - level) / 2
    generator = np.random.default_rng(seed)
    sums = resampled_sums(statistic, resamples, generator)
    if statistic.kind == "mean":
        return Interval(value, *quantiles(statistic.of(sums), tail), level)
    base = statistic.sums(torch.ones(1, statistic.num_samples, device=statistic.device))
    centre = float(statistic.of(base))  # θ̂ as the resampling computes it, perhaps on a coarser grid
    noise = sums.sub_(base)

    def excess(factor: float, share: float) -> float:
        """The quantile of resamples at this size of error, minus θ̂."""
        values = statistic.of(statistic.scaled(base, factor) + noise)
        return float(torch.quantile(values, share)) - centre

    def end(share: float) -> float:
        """θ(τ) − θ(1) where the quantile is θ̂."""
        low, high = 0.0, 1.0
        if excess(0.0, share) >= 0:
            return -centre
        while excess(high, share) < 0 and high < 64:
            low, high = high, 2 * high
        for _ in range(12):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle, share) < 0 else (low, middle)
        return float(statistic.of(statistic.scaled(base, (low + high) / 2))) - centre

    rejected = _rejects_calibration(statistic, centre, level, resamples, generator)
    low = value + end(1 - tail) if rejected else 0.0
    return Interval(value, max(0.0, low), max(0.0, value + end(tail)), level)


def _rejects_calibration(
    statistic: Statistic, seen: float, level: float, draws: int, generator: np.random.Generator
) -> bool:
    """Whether fewer than 1 − level of the labels redrawn from the scores show an error as large as the one seen.

    Most decisions need few draws: none as large among enough of them, or already too many.
    """
    as_large = done = 0
    # If 1 − level of all draws were as large, the first ones would all be smaller once in 10^5.
    enough = math.ceil(math.log(1e-5) / math.log(level))
    while done < draws:
        some = min(draws - done, enough)
        as_large += int((statistic.redrawn(generator, some) >= seen - 1e-12).sum())
        done += some
        if as_large == 0 and done >= enough:
            return True
        if 1 + as_large > (1 - level) * (1 + draws):
            return False
    return True


def quantiles(values: Tensor, tail: float) -> tuple[float, float]:
    """Both quantiles, infinities kept."""
    ordered = values.sort().values
    last = len(ordered) - 1
    low, high = ordered[int(tail * last)], ordered[-1 - int(tail * last)]
    return float(low), float(high)


def wilson(share: float, count: int, level: float) -> tuple[float, float]:
    """Wilson's score interval of a share of ``count`` samples."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * (share * (1 - share) / count + z * z / (4 * count * count)) ** 0.5
    return max(0.0, centre - half), min(1.0, centre + half)


def when_calibrated(statistic: Statistic, level: float, draws: int, seed: int) -> Interval:
    """Mean and central range of the statistic with labels drawn from the scores."""
    values = statistic.redrawn(np.random.default_rng(seed), draws).cpu()
    low, high = quantiles(values, (1 - level) / 2)
    return Interval(float(values.mean()), low, high, level)


def compared(a: Statistic, b: Statistic, level: float, resamples: int, seed: int) -> Comparison:
    """Two statistics of the same rows whose sums add up row by row."""
    n, device = a.num_samples, a.device
    generator = np.random.default_rng(seed)
    difference = a.value() - b.value()
    ones = torch.ones(1, n, device=device)
    total_a, total_b = a.sums(ones), b.sums(ones)
    centre = float(a.of(total_a) - b.of(total_b))
    paired = []
    for counts in multiplicities(n, resamples, generator):
        moved = counts.to(device)
        paired.append((a.of(a.sums(moved)) - b.of(b.sums(moved))).cpu())
    swapped = []
    for some in blocks(resamples, n):
        swap = torch.from_numpy(generator.integers(0, 2, (some, n), dtype=np.uint8)).to(device, torch.float32)
        shift_a, shift_b = a.sums(swap), b.sums(swap)
        swapped.append((a.of(total_a - shift_a + shift_b) - b.of(total_b - shift_b + shift_a)).cpu())
    return _comparison(difference, centre, torch.cat(paired), torch.cat(swapped), level)


def compared_by_calls(
    metric: Callable[[Tensor, Tensor], float],
    p_a: Tensor,
    p_b: Tensor,
    labels: Tensor,
    level: float,
    resamples: int,
    seed: int,
) -> Comparison:
    """The same for any function of (probabilities, labels): one call for each resample and model."""
    n = len(labels)
    generator = np.random.default_rng(seed)
    difference = metric(p_a, labels) - metric(p_b, labels)
    paired, swapped = torch.empty(resamples, dtype=torch.float64), torch.empty(resamples, dtype=torch.float64)
    for r in range(resamples):
        rows = torch.from_numpy(generator.integers(0, n, n)).to(labels.device)
        paired[r] = metric(p_a[rows], labels[rows]) - metric(p_b[rows], labels[rows])
        swap = torch.from_numpy(generator.integers(0, 2, (n, 1), dtype=np.uint8)).to(labels.device, torch.bool)
        swapped[r] = metric(torch.where(swap, p_b, p_a), labels) - metric(torch.where(swap, p_a, p_b), labels)
    return _comparison(difference, difference, paired, swapped, level)


def _comparison(difference: float, centre: float, paired: Tensor, swapped: Tensor, level: float) -> Comparison:
    low, high = (difference + centre - end for end in reversed(quantiles(paired, (1 - level) / 2)))
    # The data as they are count as one of the swaps, which makes the test exact; sums round differently, hence 1e-12.
    at_least = 1 + int((swapped.abs() >= abs(centre) - 1e-12).sum())
    return Comparison(difference, low, high, at_least / (1 + len(swapped)))


def likelihood_band(binned: Binned, level: float, resamples: int, seed: int) -> tuple[Tensor, Tensor]:
    """(low, high) of each bin's share of hits, NaN in empty bins.

    Clopper and Pearson's exact interval where scores are independent (one to a row); where a row has many, which
    depend on each other, percentiles over resampled rows.
    """
    curve = binned.curve()
    tail = (1 - level) / 2
    if binned.pool.columns == 1:
        from scipy.stats import beta  # type: ignore[import-untyped]

        count, hit = curve.count.numpy(), curve.hit_sum.numpy()
        with np.errstate(invalid="ignore"):
            low = np.where(hit > 0, beta.ppf(tail, hit, count - hit + 1), 0.0)
            high = np.where(hit < count, beta.ppf(1 - tail, hit + 1, count - hit), 1.0)
        low[count == 0] = high[count == 0] = np.nan
        return torch.from_numpy(low), torch.from_numpy(high)
    parts = Binned(binned.pool, binned.bins, norm=2)  # which needs counts, scores and hits apart
    sums = resampled_sums(parts, resamples, np.random.default_rng(seed)).view(resamples, 3, -1)
    share = (sums[:, 2] / sums[:, 0]).cpu()  # NaN in resamples that leave a bin empty
    ends = torch.nanquantile(share, torch.tensor([tail, 1 - tail], dtype=share.dtype), dim=0)
    return ends[0], ends[1]
