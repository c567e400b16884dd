r"""Which methods are not significantly worse than the best: resampled samples, Student's t over seeds, all pairs.

For a metric and the methods a (the best) and m, with :math:`D_s` = metric of m − metric of a on seed s, the mean of D
over the S seeds strays from its expectation for two reasons, which are drawn together:

- The test samples: they are resampled with replacement, the same for both methods and for all seeds (a sample that
  several seeds test on is drawn for all of them or for none). So noise that both methods share cancels. A calibration
  error is biased upwards, and a resample's is biased again; the deviations are taken both from the value seen and from
  the mean of the resamples, and the larger p-value counts.
- The training: :math:`t \cdot \mathrm{std}(D) / \sqrt S`, with t from Student's distribution with S − 1 degrees of
  freedom. Two seeds hardly determine the spread, so a method counts as worse only if the difference is hundreds of
  times the spread; with five seeds and ten methods it takes about ten times.

A single seed does not show the spread: then no method can be called worse than another, and only the interval over
the samples is given.

The best is the best of M methods, chosen by the same data. So the smallest p-value counts as the smallest of all
M(M − 1)/2 pairs, the next as that of the pairs of the other M − 1 methods, and so on. So the chance of wrongly calling
any method worse is at most 5 %. docs/bias.md has the simulation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import stdtr
from torch import Tensor

from softkin._core import randomness
from softkin.metrics.scopes import blocks
from softkin.metrics.statistics import Statistic

LEVEL = 0.05
RESAMPLES = 2000
"""How often a table resamples the test samples"""
ONE_SEED = "one seed: no method can be called worse than another"


def in_words(seeds: int) -> str:
    """How a table of so many seeds decides what is not significantly worse."""
    if seeds == 1:
        return f"{ONE_SEED}; intervals are over samples alone"
    return f"samples resampled, Student's t over {seeds} seeds, all pairs of methods counted, {100 * LEVEL:g} %"


@dataclass(frozen=True)
class Verdict:
    """The best method of a metric, and the difference of each other method to it."""

    best: str
    p_values: dict[str, float]
    """P-values of all methods but the best, adjusted for the choice among all pairs; empty with a single seed"""
    intervals: dict[str, tuple[float, float]]
    """95 % intervals of each method's mean: over seeds and samples, or over samples alone with a single seed"""
    differences: dict[str, tuple[float, float]]
    """95 % intervals of each other method's mean minus the best's"""

    @property
    def ties(self) -> set[str]:
        """The methods that are not significantly worse than the best; with a single seed all of them."""
        return {name for name in self.differences if self.p_values.get(name, 1.0) > LEVEL}

    def against_the_best(self, name: str) -> str:
        """A sentence that compares a method with the best."""
        low, high = self.differences[name]
        interval = f"{low:+.4g} to {high:+.4g}"
        if not self.p_values:
            return f"{ONE_SEED}; the samples' interval alone is {interval}"
        verb = "is not significantly worse" if name in self.ties else "is worse"
        return f"{name} {verb} than {self.best}: {interval}, p = {self.p_values[name]:.3g}"


class Resamples:
    """One set of resamples, used for all metrics and methods of a study."""

    def __init__(self, sample_ids: Sequence[Sequence[object]], *, times: int = RESAMPLES, seed: int = 0) -> None:
        """``sample_ids`` are those of the test rows of each seed."""
        generator = randomness.generator(seed)
        place: dict[object, int] = {}
        self.rows = [np.array([place.setdefault(sample_id, len(place)) for sample_id in ids]) for ids in sample_ids]
        self.pool, self.times, self.seeds = len(place), times, len(sample_ids)
        self._seed = int(generator.integers(2**31))
        self.student = generator.standard_t(self.seeds - 1, times) if self.seeds > 1 else np.zeros(times)

    def values(self, statistics: Sequence[Statistic]) -> np.ndarray:
        """The metric on each seed with resampled samples, (times, S); takes one statistic for each seed."""
        values = np.empty((self.times, self.seeds))
        generator = np.random.default_rng(self._seed)  # the same samples for every metric and method
        start = 0
        for block in blocks(self.times, self.pool):
            counts = np.empty((block, self.pool), dtype=np.float32)
            for line in counts:
                line[:] = np.bincount(generator.integers(0, self.pool, self.pool), minlength=self.pool)
            for s, (statistic, rows) in enumerate(zip(statistics, self.rows, strict=True)):
                weights = counts[:, rows]
                weights *= len(rows) / weights.sum(axis=1, keepdims=True)  # statistics need weights that add up to N
                moved: Tensor = torch.from_numpy(weights).to(statistic.device)
                values[start : start + block, s] = statistic.of(statistic.sums(moved)).cpu().numpy()
            start += block
        return values

    def noise(self, seen: np.ndarray, resampled: np.ndarray) -> np.ndarray:
        """The deviations of the mean over seeds, (times, 2): from the observed value, and from the resamples' mean.

        Args:
            seen: (S,) the numbers of the seeds.
            resampled: (times, S) the same with resampled samples.
        """
        return self._strays(seen, resampled) + (self.student * self._spread(seen))[:, None]

    def _strays(self, seen: np.ndarray, resampled: np.ndarray) -> np.ndarray:
        """The part of ``noise`` that is due to the samples."""
        mean = resampled.mean(axis=1)
        return np.stack([mean - seen.mean(), mean - mean.mean()], axis=1)

    def _spread(self, seen: np.ndarray) -> float:
        """The standard error of the mean over seeds; 0 with a single seed."""
        return float(seen.std(ddof=1)) / self.seeds**0.5 if self.seeds > 1 else 0.0

    def p_value(self, seen: np.ndarray, resampled: np.ndarray) -> float:
        """The two-sided probability that ``noise`` is at least as large as the mean of ``seen``.

        Student's part is integrated for each resample, not drawn: a share of a few thousand draws could not be small
        enough for the many pairs of many methods.
        """
        size = abs(float(seen.mean()))
        if np.isposinf(size):  # one of the losses is infinite, which no resample without that sample undoes
            return 1 / (1 + self.times)
        spread, strays = self._spread(seen), self._strays(seen, resampled)
        if spread > 0:
            above = stdtr(self.seeds - 1, (strays - size) / spread)
            below = stdtr(self.seeds - 1, (-size - strays) / spread)
            # NaN, from two infinite losses, counts as evidence for no difference.
            return float(np.nan_to_num(above + below, nan=1.0).mean(axis=0).max())
        as_far = (~(np.abs(strays) < size - 1e-12)).sum(axis=0)
        return float((1 + as_far.max()) / (1 + self.times))


@np.errstate(invalid="ignore")  # infinite losses minus infinite losses
def verdict(
    statistics: Mapping[str, Sequence[Statistic]], resamples: Resamples, *, larger_is_better: bool = False
) -> Verdict:
    """Compare methods on the same seeds and samples, each with one statistic for each seed."""
    sign = -1 if larger_is_better else 1
    seen = {name: np.array([statistic.value() for statistic in per_seed]) for name, per_seed in statistics.items()}
    drawn = {name: resamples.values(per_seed) for name, per_seed in statistics.items()}
    best = min(seen, key=lambda name: sign * float(seen[name].mean()))  # of equals, the first
    raw, differences = {}, {}
    for name in seen:
        if name != best:
            difference = seen[name] - seen[best]
            noise = resamples.noise(difference, drawn[name] - drawn[best])
            raw[name] = resamples.p_value(difference, drawn[name] - drawn[best])
            differences[name] = _interval(float(difference.mean()), noise[:, 1])
    intervals = {
        name: _interval(float(seen[name].mean()), resamples.noise(seen[name], drawn[name])[:, 1]) for name in seen
    }
    return Verdict(best, adjusted(raw) if resamples.seeds > 1 else {}, intervals, differences)


def _interval(mean: float, noise: np.ndarray) -> tuple[float, float]:
    """The mean minus the central 95 % of its noise."""
    low, high = np.quantile(noise, [LEVEL / 2, 1 - LEVEL / 2])
    return (mean, mean) if np.isinf(mean) else (mean - float(high), mean - float(low))


def adjusted(p_values: Mapping[str, float]) -> dict[str, float]:
    """P-values of m methods against the best of all m + 1, adjusted step by step for a choice among all pairs.

    The i-th smallest, i from 0, counts as the smallest of the (m + 1 − i)(m − i)/2 pairs that are left, and is no
    smaller than the one before.

    Example:
        >>> adjusted({"a": 0.01, "b": 0.04, "c": 0.015})
        {'a': 0.06, 'b': 0.06, 'c': 0.06}
    """
    steps: dict[str, float] = {}
    largest = 0.0
    ordered = sorted(p_values, key=lambda name: p_values[name])
    for i, name in enumerate(ordered):
        left = len(ordered) - i
        largest = max(largest, min(1.0, left * (left + 1) // 2 * p_values[name]))
        steps[name] = largest
    return {name: steps[name] for name in p_values}
