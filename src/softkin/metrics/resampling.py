"""Uncertainty of metrics: intervals by resampling rows, paired comparisons, and errors under perfect calibration."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from softkin._core import checks, notebooks, randomness
from softkin.metrics import binning, roots
from softkin.metrics.binned import Binned, RootGap
from softkin.metrics.intervals import score_minus_share, sizes
from softkin.metrics.scopes import Claims, blocks, multiplicities
from softkin.metrics.statistics import CalibrationError, RowSums, Statistic

Test = Literal["equal metric", "exchangeable"]
TESTS = ("equal metric", "exchangeable")
FEW = 10  # right or wrong answers, below which resampling does not show how many there might be
NONE_SEEN = 1e-4  # a departure per row that rounding, in sums of float32, may have made of 0
SOME = 200  # resamples that show how far chance moves an error of 0
MOST_SURE = 1e6  # deviations from calibration; more are those of bins in which resamples are all alike
DRAWS = 200  # sets of labels behind a value under calibration
MOST_NOISE = 2**26  # numbers that ``all_compared`` keeps of all resamples: half a gigabyte of float64


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
        """The float is the value; the other numbers are attributes."""
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

    def _repr_html_(self) -> str:
        ends = f"{self.low:.4g} to {self.high:.4g} ({100 * self.level:g} %)"
        return f"<b>{float(self):.4g}</b> {notebooks.whisker(self, self.low, self.high)} {ends}"


@dataclass(frozen=True)
class Comparison:
    """Two models on the same samples."""

    difference: float
    """The metric of a minus that of b"""
    low: float
    high: float
    p_value: float
    """The p-value of the test that ``compare`` was called with; its hypothesis is that there is no difference"""

    def _repr_html_(self) -> str:
        picture = notebooks.whisker(self.difference, self.low, self.high)
        row = [f"{self.difference:+.4g}", picture, f"{self.low:+.4g} to {self.high:+.4g}", f"{self.p_value:.3g}"]
        return notebooks.table([row], head=["a − b", "", "interval", "p-value"])


def resampled_sums(statistic: Statistic, times: int, generator: np.random.Generator) -> Tensor:
    """The sums of the statistic, (times, F), over whole rows resampled with replacement."""
    drawn = multiplicities(statistic.num_units, times, generator)
    return torch.cat([statistic.drawn(counts.to(statistic.device)) for counts in drawn])


def answer(statistic: Statistic, confidence: float | None, resamples: int, seed: int) -> float:
    """The value, or its ``Interval`` if ``confidence`` is given."""
    if confidence is None:
        return statistic.value()
    return interval(statistic, confidence, resamples, seed)


def interval(statistic: Statistic, confidence: float, resamples: int, seed: int) -> Interval:
    r"""The confidence interval of a statistic, by its kind.

    - A share: Wilson's interval, which is valid also for shares of 0 and 1.
    - A mean score minus a share: Newcombe's combination of the intervals of both.
    - A mean loss: Wilson's interval for losses (``shares.MeanLoss``). Other means: percentiles of the resampled values.
    - A calibration error θ: its estimate θ̂ is biased upwards, and a resample's is biased again, so plain percentiles
      lie above the truth. Instead the interval holds every size of error that could well have shown θ̂: with S the
      sums of θ̂, and S* those of a resample, τ·S + (S* − S) is a resample of data whose departure from calibration
      is τ times the one seen. The ends are the θ(τ) for which θ̂ is the upper or lower (1 − level)/2 quantile of such
      resamples. S itself holds chance, most in bins that are calibrated; so the same is done with each bin's S shrunk
      by what chance explains, and the interval reaches as far as either. Its upper end also reaches as far as with
      all bins off by about as much, if chance may have made them differ (``evened``). The interval is cut at 0, and
      its lower end is 0 unless labels redrawn from the scores show an error as large as θ̂ in fewer than 1 − level of
      the draws.

    Every interval contains the value itself.
    """
    return intervals([statistic], confidence, resamples, seed)[0].interval


class Drawn(NamedTuple):
    """A statistic's interval, and the redrawn values that were computed for it."""

    interval: Interval
    redrawn: Tensor | None
    """The values with redrawn labels that decided the lower end, ``DRAWS`` or more; None if none were needed"""


def intervals(statistics: Sequence[Statistic], confidence: float, resamples: int, seed: int) -> list[Drawn]:
    """Like ``interval`` for several statistics of the same rows, which are resampled once for all."""
    level = checks.level(confidence)
    checks.count(resamples, "resamples", least=100)
    checks.count(seed, "seed", least=0)
    generator = randomness.generator(seed)
    ends = [statistic.formula_ends(level) for statistic in statistics]
    drawn = [statistic for statistic, known in zip(statistics, ends, strict=True) if known is None]
    totals: list[Tensor | None] = [None for _ in drawn]
    done = 0
    for counts in multiplicities(drawn[0].num_units, resamples, generator) if drawn else ():
        moved = counts.to(drawn[0].device)
        for place, statistic in enumerate(drawn):
            block = statistic.drawn(moved)
            total = totals[place]
            if total is None:  # allocated once: concatenating blocks at the end would take twice the memory
                total = totals[place] = block.new_empty(resamples, block.shape[1])
            total[done : done + len(block)] = block
        done += len(moved)
    sums = iter([total for total in totals if total is not None])
    del totals
    return [
        _from_resamples(statistic, next(sums), level, resamples, seed)
        if known is None
        else Drawn(around(statistic.value(), *known, level), None)
        for statistic, known in zip(statistics, ends, strict=True)
    ]


def around(value: float, low: float, high: float, level: float) -> Interval:
    """The interval from low to high, extended if necessary to contain the value."""
    return Interval(value, min(low, value), max(high, value), level)


def _from_resamples(statistic: Statistic, sums: Tensor, level: float, resamples: int, seed: int) -> Drawn:
    """The interval of a mean or an error from its sums over resampled rows, which are overwritten."""
    value, tail = statistic.value(), (1 - level) / 2
    if not isinstance(statistic, CalibrationError):
        return Drawn(around(value, *quantiles(statistic.of(sums), tail), level), None)
    base = statistic.once()
    centre = float(statistic.of(base))  # θ̂ as the resampling computes it, perhaps on a coarser grid
    noise = sums.sub_(base)
    if not bool(noise.any()):
        # All resamples are equal: equal scores, all right or all wrong. Another kind may exist, but must be rare
        # enough not to occur in N samples, which bounds its effect.
        n = statistic.num_units
        rare = n * statistic.of_one_row * (1 - tail ** (1 / n))
        high = min(value + rare, max(value, n * statistic.of_one_row))
        return Drawn(around(value, max(0.0, value - rare), high, level), None)
    low, high = _sizes(statistic, base, noise, 1.0, centre, tail)
    size = size_by_chance(statistic, base, noise)
    low_shrunk, high_shrunk = _sizes(statistic, base, noise, shrunk(size), centre, tail)
    _, high_evened = _sizes(statistic, base, noise, evened(size), centre, tail)
    low, high = min(value + low - centre, low_shrunk), max(value + max(high, high_evened) - centre, high_shrunk)
    if float(statistic.departures(base).abs().max()) < NONE_SEEN * statistic.num_samples:
        # No multiple of no departure is large, but the truth may be as far off as chance moves it.
        truths = statistic.scaled(base, 0.0) + noise[:SOME]
        high = max(high, float(torch.quantile(statistic.size(truths), 1 - tail)))
    low, high = _with_gap(statistic, value, low, high, level)
    rejected, redrawn = rejects_calibration(statistic, centre, level, resamples, seed)
    # Resampled rows have no hits in bins that have none, redrawn labels have: by so much chance adds more to the error.
    shown = statistic.of(statistic.scaled(base, 0.0) + noise[:SOME])
    low -= max(0.0, float(redrawn.mean() - shown.mean()))
    less, more = statistic.unseen(tail)
    low, high = min(low, value - less), min(max(0.0, high, value + more), statistic.at_most)
    return Drawn(around(value, max(0.0, low) if rejected else 0.0, high, level), redrawn)


def _with_gap(statistic: CalibrationError, value: float, low: float, high: float, level: float) -> tuple[float, float]:
    """The ends of an error's interval, extended by those of its gap where resampled rows show too little of it.

    If nearly all answers are right, or nearly all wrong, the few others decide, and most resamples hold even fewer.
    The interval of the gap is valid there. The rest of the error, from bins that err in both directions, is kept.
    """
    gap = statistic.gap()
    if gap is None:
        return low, high
    hits, w = float(gap.is_hit.sum()), statistic.weights
    least, most = score_minus_share(gap.scores, gap.is_hit, level, w)
    if min(hits, statistic.num_samples - hits) >= FEW and value >= gap.factor * (most - least) / 8:
        return low, high
    off = gap.scores.double() - gap.is_hit.double()
    seen = abs(float((off if w is None else off * w).mean()))
    rest = max(0.0, value - gap.factor * seen)
    smallest, largest = (gap.factor * size + rest for size in sizes(least, most))
    return min(low, smallest), max(high, largest)


def _sizes(
    statistic: CalibrationError, base: Tensor, noise: Tensor, factors: float | Tensor, seen: float, tail: float
) -> tuple[float, float]:
    """The smallest and the largest true error, along ``factors`` times the sums, that are compatible with ``seen``."""
    linear, of = statistic.probe(seen)
    moved = linear(noise)
    lines = torch.empty_like(moved)  # allocated once: a new allocation takes longer than filling it

    def sums(size: float) -> Tensor:
        return statistic.scaled(base, size * factors)

    def excess(size: Tensor, share: float) -> Tensor:
        # Of R resamples the truth is as likely at any of R + 1 ranks: quantiles of few lie further out.
        position = min(1.0, max(0.0, (share * (len(lines) + 1) - 1) / max(1, len(lines) - 1)))
        torch.add(moved, linear(sums(float(size))), out=lines)
        return torch.quantile(of(lines), position).cpu() - seen

    start, end = torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64)
    smallest, _ = roots.bracket(lambda size: excess(size, 1 - tail), start, end, tolerance=2.0**-16, most=64)
    _, largest = roots.bracket(lambda size: excess(size, tail), start, end, tolerance=2.0**-16, most=64, strict=True)
    return tuple(float(statistic.size(sums(float(size)))) for size in (smallest, largest))  # type: ignore[return-value]


def size_by_chance(statistic: CalibrationError, base: Tensor, noise: Tensor) -> Tensor:
    """(D,) the size of each departure S from calibration over its deviation by chance, |S| / √Var S; 0 if S is 0."""
    off = statistic.departures(base)
    variance = (statistic.departures(base + noise) - off).square_().mean(dim=0)
    return torch.where(off[0] == 0, 0.0, off[0].abs() / variance.clamp(min=1e-300).sqrt())


def shrunk(size: Tensor) -> Tensor:
    """The factor 1 − 2·Var S / S² for each departure S from calibration, 0 where chance explains S.

    Stein's factor has 1 instead of 2; simulations show that 2 keeps the interval's coverage with calibrated bins.
    """
    return (1 - 2 / size.square().clamp(min=1e-300)).clamp(min=0)


def evened(size: Tensor) -> Tensor:
    """The factors that move each size |z| towards their mean, as far as chance explains that they differ.

    Where all bins are off by about as much, chance brings some close to 0, and there resamples add more to the error
    than the sample did. James and Stein's estimate towards the mean, 1 − (D − 3) / Σ (|z| − mean)² of each difference
    to it, undoes that; a single bin that is off stays as it is.
    """
    some = (size > 0) & (size < MOST_SURE)
    z = size[some]
    kept = (1 - (len(z) - 3) / (z - z.mean()).square().sum().clamp(min=1e-300)).clamp(0, 1)
    factors = torch.ones_like(size)
    factors[some] = (z.mean() + kept * (z - z.mean())) / z
    return factors


def rejects_calibration(
    statistic: CalibrationError, seen: float, level: float, draws: int, seed: int
) -> tuple[bool, Tensor]:
    """Whether fewer than 1 − level of the sets of redrawn labels have an error as large as the observed one.

    Most decisions need few draws: either none of many is as large, or too many are. The draws are returned too; the
    first of them are those of ``when_calibrated``.
    """
    generator = redrawing(seed)
    values: list[Tensor] = []
    as_large = done = 0
    draws = max(draws, 2 * DRAWS)  # fewer would leave the decision to chance
    # If 1 − level of all draws were as large, the first ones would all be smaller once in 10^4.
    enough = math.ceil(math.log(1e-4) / math.log(level))
    rejected = True
    while done < draws:
        count = min(draws - done, max(enough - done, DRAWS))
        values.append(statistic.values_if_calibrated(generator, count).cpu())
        as_large += int((values[-1] >= seen - 1e-12).sum())
        done += count
        rejected = 1 + as_large <= (1 - level) * (1 + draws)
        if not rejected or (as_large == 0 and done >= enough):
            break
    return rejected, torch.cat(values)


def quantiles(values: Tensor, tail: float) -> tuple[float, float]:
    """Both quantiles; infinities are kept, and resamples with nothing to average (NaN) are left out."""
    ordered = values[~values.isnan()].sort().values
    if len(ordered) == 0:
        return math.nan, math.nan
    rank = max(1, int(tail * (1 + len(ordered)) + 1e-9))  # as far out as few resamples need for the level
    return float(ordered[rank - 1]), float(ordered[-rank])


def when_calibrated(statistic: CalibrationError, level: float, draws: int, seed: int) -> Interval:
    """Mean and central range of the statistic with labels drawn from the scores."""
    return chance(statistic.values_if_calibrated(redrawing(seed), draws).cpu(), level)


def redrawing(seed: int) -> np.random.Generator:
    """The generator of redrawn labels; that of resampled rows is ``default_rng(seed)``."""
    return np.random.default_rng(checks.count(seed, "seed", least=0) + 1)


def chance(redrawn: Tensor, level: float) -> Interval:
    """Mean and central range of values with redrawn labels."""
    return Interval(float(redrawn.mean()), *quantiles(redrawn, (1 - level) / 2), level)


def compared(
    a: Statistic, b: Statistic, level: float, resamples: int, seed: int, test: Test = "equal metric"
) -> Comparison:
    """Compare two statistics of the same rows; the test of exchangeable rows needs sums that add up row by row."""
    n, device = a.num_units, a.device
    generator = randomness.generator(seed)
    difference = a.value() - b.value()
    of_a, of_b = _resampled([a, b], resamples, generator)
    errors = _errors_of_difference(a, b, of_a, of_b)
    if test == "equal metric":
        return _comparison(difference, errors, level)
    swapped = []
    for count in blocks(resamples, n):
        swap = torch.from_numpy(generator.integers(0, 2, (count, n), dtype=np.uint8)).to(device, torch.float32)
        shift_a, shift_b = a.sums(a.weighted(swap)), b.sums(b.weighted(swap))
        swapped.append((a.of(of_a.total - shift_a + shift_b) - b.of(of_b.total - shift_b + shift_a)).cpu())
    centre = float(a.of(of_a.total) - b.of(of_b.total))
    # Long rows are summed in float32; where swaps leave the difference as it is, rounding must not decide.
    tolerance = 2e-6 if isinstance(a, RowSums) else 1e-12
    return _comparison(difference, errors, level, _exchanged(torch.cat(swapped), centre, tolerance))


def all_compared(
    statistics: Sequence[Statistic], level: float, resamples: int, seed: int
) -> dict[tuple[int, int], Comparison]:
    """Compare every two statistics of the same rows, by index; equal to ``compared``, but resampled once."""
    pairs = list(combinations(range(len(statistics)), 2))
    width = statistics[0].once().shape[1]
    if len(statistics) * resamples * width > MOST_NOISE:
        return {(a, b): compared(statistics[a], statistics[b], level, resamples, seed) for a, b in pairs}
    generator = randomness.generator(seed)
    resampled = _resampled(statistics, resamples, generator)
    values = [statistic.value() for statistic in statistics]
    comparisons = {}
    for a, b in pairs:
        errors = _errors_of_difference(statistics[a], statistics[b], resampled[a], resampled[b])
        comparisons[a, b] = _comparison(values[a] - values[b], errors, level)
    return comparisons


class _Estimate(NamedTuple):
    """A possible truth, and the values (r,) that resamples around it have."""

    truth: Tensor
    values: Tensor


class _Resampled(NamedTuple):
    """A statistic's sums, by how much those of each resample differ from them, and what follows for each truth."""

    total: Tensor
    noise: Tensor
    estimates: list[_Estimate]


class _Errors(NamedTuple):
    """The errors (r,) that an estimated difference may have, of all pairs of truths and of those that may be equal."""

    possible: list[Tensor]
    if_equal: list[Tensor]


def _estimate(statistic: Statistic, truth: Tensor, noise: Tensor) -> _Estimate:
    size = statistic.size(truth) if isinstance(statistic, CalibrationError) else statistic.of(truth)
    return _Estimate(size, statistic.of(truth + noise))


def _resampled(statistics: Sequence[Statistic], resamples: int, generator: np.random.Generator) -> list[_Resampled]:
    """All statistics with the same draws."""
    n, device = statistics[0].num_units, statistics[0].device
    totals = [statistic.once() for statistic in statistics]
    blocks_of_noise: list[list[Tensor]] = [[] for _ in statistics]
    for counts in multiplicities(n, resamples, generator):
        moved = counts.to(device)
        for statistic, total, own in zip(statistics, totals, blocks_of_noise, strict=True):
            own.append(statistic.drawn(moved) - total)
    results = []
    for statistic, total, own in zip(statistics, totals, blocks_of_noise, strict=True):
        noise = torch.cat(own)
        estimates = [_estimate(statistic, truth, noise) for truth in _truths(statistic, total, noise)]
        results.append(_Resampled(total, noise, estimates))
    return results


def _errors_of_difference(a: Statistic, b: Statistic, of_a: "_Resampled", of_b: "_Resampled") -> "_Errors":
    """The errors of resampled differences around the difference of two known truths, (r,) for each pair of truths.

    An average has one possible truth, the observed sums. The spread and bias of an error depend on its truth, so every
    pair of both models' possible truths is used, and, to test equality, also pairs of equal truths. Of errors that are
    mostly chance, which both models share, only pairs of like truths can be equal.
    """

    def errors(pairs: Iterable[tuple[_Estimate, _Estimate]]) -> list[Tensor]:
        return [(one.values - one.truth - other.values + other.truth).cpu() for one, other in pairs]

    possible = errors(product(of_a.estimates, of_b.estimates))
    if not isinstance(a, CalibrationError) or not isinstance(b, CalibrationError):
        return _Errors(possible, possible)
    equal = errors(
        (_estimate(a, truth_a, of_a.noise), _estimate(b, truth_b, of_b.noise))
        for truth_a, truth_b in _equal_truths(a, b, of_a.total, of_b.total)
    )
    if not (a.mostly_chance and b.mostly_chance):
        return _Errors([*possible, *equal], [*possible, *equal])
    like = [*errors(zip(of_a.estimates, of_b.estimates, strict=False)), *equal]
    like += [error - error.mean() for error in like]  # as if chance added the same to both
    return _Errors([*possible, *like], like)


def _equal_truths(
    a: CalibrationError, b: CalibrationError, total_a: Tensor, total_b: Tensor
) -> list[tuple[Tensor, Tensor]]:
    """Sums of two populations with the same error: both scaled to the mean of their sizes.

    They are returned as observed and, if there are bins, also with a departure that is a straight line in the score:
    chance flips the sign of some bins, which then seem to err in the wrong direction.
    """
    shapes = [(total_a, total_b), (a.straightened(total_a), b.straightened(total_b))]
    pairs = []
    for shape_a, shape_b in shapes:
        if shape_a is not None and shape_b is not None:
            size_a, size_b = float(a.size(shape_a)), float(b.size(shape_b))
            if size_a > 0 and size_b > 0:
                middle = (size_a + size_b) / 2
                pairs.append((a.scaled(shape_a, middle / size_a), b.scaled(shape_b, middle / size_b)))
    return pairs


def _truths(statistic: Statistic, base: Tensor, noise: Tensor) -> list[Tensor]:
    """Sums that the population may have: the observed ones, and for calibration errors also the shrunk ones.

    A calibration error is biased upwards, by an amount that depends on which bins are truly off. The two are extremes:
    either all of the observed departure is real, or all that chance can explain is chance. A third possibility is no
    error at all, if resamples of calibrated sums are as large.
    """
    if not isinstance(statistic, CalibrationError):
        return [base]
    calibrated = statistic.scaled(base, 0.0)
    truths = [base, statistic.scaled(base, shrunk(size_by_chance(statistic, base, noise)))]
    if bool(torch.quantile(statistic.of(calibrated + noise), 0.975) >= statistic.of(base)):
        truths.append(calibrated)
    return truths


def compared_by_calls(
    metric: Callable[[Claims], float],
    a: Claims,
    b: Claims,
    level: float,
    resamples: int,
    seed: int,
    test: Test = "equal metric",
) -> Comparison:
    """Like ``compared``, for any function of claims: one call for each resample and model."""
    n, device = a.num_samples, a.labels.device
    generator = randomness.generator(seed)
    difference = metric(a) - metric(b)
    paired, swapped = torch.empty(resamples, dtype=torch.float64), torch.empty(resamples, dtype=torch.float64)
    for r in range(resamples):
        rows = torch.from_numpy(generator.integers(0, n, n)).to(device)
        paired[r] = metric(a.take(rows)) - metric(b.take(rows))
        if test == "exchangeable":
            swap = torch.from_numpy(generator.integers(0, 2, (n, 1), dtype=np.uint8)).to(device, torch.bool)
            swapped[r] = metric(a.mixed_with(b, swap)) - metric(b.mixed_with(a, swap))
    errors = _Errors([paired - difference], [paired - difference])
    if test == "equal metric":
        return _comparison(difference, errors, level)
    return _comparison(difference, errors, level, _exchanged(swapped, difference, 1e-12))


def _exchanged(swapped: Tensor, seen: float, tolerance: float) -> float:
    """The share of swaps whose difference is at least as large as the observed one.

    The observed data count as one of the swaps, which makes the test exact. A swap without a defined difference (NaN,
    from infinities) counts as evidence for no difference.
    """
    smaller = int((swapped.abs() < abs(seen) - tolerance).sum())
    return (1 + len(swapped) - smaller) / (1 + len(swapped))


def _comparison(difference: float, errors: _Errors, level: float, p_value: float | None = None) -> Comparison:
    """The interval that allows for any of the ``errors`` of estimation; the p-value is its inversion.

    Both count the same order statistics, so that 0 is outside the interval exactly if p ≤ 1 − level. If 0 is outside
    by the errors of truths that may be equal, the end towards 0 is theirs.
    """
    times = len(errors.possible[0])
    if p_value is None:
        # NaN, from a difference of infinities, counts on both sides, as evidence for no difference.
        above = max(int((~(error < difference)).sum()) for error in errors.if_equal)
        below = max(int((~(error > difference)).sum()) for error in errors.if_equal)
        p_value = min(1.0, 2 * (1 + min(above, below)) / (1 + times))
    rank = max(1, int((1 - level) / 2 * (1 + times) + 1e-9))  # of the smallest or largest error that may be passed
    low, high = _ends(difference, errors.possible, rank)
    least, most = _ends(difference, errors.if_equal, rank)
    if least > 0 or most < 0:
        low, high = (least, high) if least > 0 else (low, most)
    return Comparison(difference, low, high, p_value)


def _ends(difference: float, errors: list[Tensor], rank: int) -> tuple[float, float]:
    ends = [_order_statistics(error, rank) for error in errors]
    return difference - max(high for _, high in ends), difference - min(low for low, _ in ends)


def _order_statistics(values: Tensor, rank: int) -> tuple[float, float]:
    """The ``rank``-th smallest and largest; NaN (no difference of infinities) at both ends."""
    if bool(values.isnan().any()):
        return math.nan, math.nan
    ordered = values.sort().values
    return float(ordered[rank - 1]), float(ordered[-rank])


def likelihood_band(binned: Binned, level: float, resamples: int, seed: int) -> tuple[Tensor, Tensor]:
    """The band (low, high) of each bin's share of hits, NaN in empty bins.

    Clopper and Pearson's exact interval where scores are independent (one to a row); for weighted rows that of the
    effective number of them, and for outcomes between 0 and 1, which scatter less, a little too wide. Where a row has
    many, which depend on each other, percentiles over resampled rows. If no score of a bin is a hit, or every one, all
    resamples are equal: there the band is the exact one of the R rows with scores in the bin, each of which has at most
    one hit. Without any hit, a row has one with a probability of at most 1 − tail^(1/R), which gives a share of R/count
    times that.
    """
    curve = binned.curve()
    tail = (1 - level) / 2
    if binned.pool.columns == 1:
        from scipy.special import betaincinv

        said = _effective_share(binned)  # of a bin's rows: how many of equal weight say as much
        count, hit = (curve.count * said).numpy(), (curve.hit_sum * said).numpy()
        with np.errstate(invalid="ignore"):
            low = np.where(hit > 0, betaincinv(hit, count - hit + 1, tail), 0.0)
            high = np.where(hit < count, betaincinv(hit + 1, count - hit, 1 - tail), 1.0)
        low[count == 0] = high[count == 0] = np.nan
        return torch.from_numpy(low), torch.from_numpy(high)
    parts = RootGap(binned.pool, binned.bins)  # sums counts, scores and hits separately
    sums = resampled_sums(parts, resamples, randomness.generator(seed)).view(resamples, 3, -1)
    return resampled_band(parts, sums, level)


def _effective_share(binned: Binned) -> Tensor | float:
    """(M,) the effective number of rows of each bin over the sum of their weights; 1 where all rows count alike."""
    w = binned.pool.weights
    if w is None:
        return 1.0
    places = binning.assign(binned.pool.scores, binned.bins).to(torch.int64)
    first, second = (torch.bincount(places, weights=term, minlength=binned.bins.n_bins) for term in (w, w * w))
    return (first / second.clamp(min=1e-300)).cpu()


def resampled_band(parts: Binned, sums: Tensor, level: float) -> tuple[Tensor, Tensor]:
    """The band of bins with many scores to a row, from (R, 3, M) resampled counts, scores and hits."""
    curve, tail = parts.curve(), (1 - level) / 2
    share = (sums[:, 2] / sums[:, 0]).cpu()  # NaN in resamples that leave a bin empty
    low_end, high_end = torch.nanquantile(share, torch.tensor([tail, 1 - tail], dtype=share.dtype), dim=0)
    rows = parts.rows_in_bins().cpu()
    rare = 1 - tail ** (1 / rows)
    high_end = torch.where(curve.hit_sum == 0, (rare * rows / curve.count).clamp(max=1), high_end)
    low_end = torch.where(curve.hit_sum == curve.count, 1 - rare, low_end)
    empty = curve.count == 0
    return low_end.masked_fill(empty, torch.nan), high_end.masked_fill(empty, torch.nan)
