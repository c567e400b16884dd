r"""Which methods are not significantly worse than the best: a bootstrap over seeds and samples, Holm over methods.

For a metric and the methods a (the best) and m, with :math:`D_s` = metric of m − metric of a on seed s, the mean of D
over the seeds is resampled at two levels: the seeds, with replacement, and the samples, with replacement, the same for
both methods and for all seeds (a sample that several seeds test on is drawn for all of them or for none). So noise that
both methods share cancels.

- S seeds drawn from S show only (S − 1)/S of their variance, and few seeds do not know their own spread well: the
  seeds' part of each resample is scaled by :math:`\sqrt{S/\chi^2_{S-1}}`, which gives it the tails of Student's t.
- A calibration error is biased upwards, and a resample's is biased again. The deviations are taken both from the
  value seen and from the mean of the resamples, and the larger p-value counts.
- The best is the best of several, chosen by the same data: p-values are two-sided, and Holm's steps make the chance of
  calling any method worse that is not about 5 % at most.

With fewer than 5 seeds only samples are resampled, which says nothing of other seeds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from softkin.metrics.scopes import blocks
from softkin.metrics.statistics import Statistic

LEAST_SEEDS = 5
LEVEL = 0.05
SAMPLES_ONLY = "interval over samples only"


@dataclass(frozen=True)
class Verdict:
    """The best method of a metric, and how far each other is from it."""

    best: str
    p_values: dict[str, float]
    """Of the methods but the best, adjusted by Holm"""
    intervals: dict[str, tuple[float, float]]
    """95 % of each method's mean: over seeds and samples, or samples only"""

    @property
    def ties(self) -> set[str]:
        """Those not significantly worse than the best."""
        return {name for name, p in self.p_values.items() if p > LEVEL}


class Resamples:
    """One set of resamples, used for all metrics and methods of a study."""

    def __init__(self, sample_ids: Sequence[Sequence[object]], *, times: int = 2000, seed: int = 0) -> None:
        """``sample_ids`` are those of the test rows of each seed."""
        generator = np.random.default_rng(seed)
        place: dict[object, int] = {}
        self.rows = [np.array([place.setdefault(one, len(place)) for one in ids]) for ids in sample_ids]
        self.pool, self.times, self.seeds = len(place), times, len(sample_ids)
        self.over_seeds = self.seeds >= LEAST_SEEDS
        self._seed = int(generator.integers(2**31))
        self.drawn = generator.integers(0, self.seeds, (times, self.seeds))
        spread = generator.chisquare(max(1, self.seeds - 1), times)
        self.scale = np.sqrt(self.seeds / spread)

    def values(self, statistics: Sequence[Statistic]) -> np.ndarray:
        """(times, S): the metric on each seed with resampled samples; one statistic a seed."""
        found = np.empty((self.times, self.seeds))
        generator = np.random.default_rng(self._seed)  # the same samples for every metric and method
        start = 0
        for some in blocks(self.times, self.pool):
            counts = np.empty((some, self.pool), dtype=np.float32)
            for line in counts:
                line[:] = np.bincount(generator.integers(0, self.pool, self.pool), minlength=self.pool)
            for s, (statistic, rows) in enumerate(zip(statistics, self.rows, strict=True)):
                weights = counts[:, rows]
                weights *= len(rows) / weights.sum(axis=1, keepdims=True)  # statistics want weights that add up to N
                moved: Tensor = torch.from_numpy(weights).to(statistic.device)
                found[start : start + some, s] = statistic.of(statistic.sums(moved)).cpu().numpy()
            start += some
        return found

    def noise(self, seen: np.ndarray, resampled: np.ndarray) -> np.ndarray:
        """(times, 2): how far the mean over seeds strays, from the value seen and from the resamples' own mean.

        Args:
            seen: (S,) the numbers of the seeds.
            resampled: (times, S) the same with resampled samples.
        """
        mean = resampled.mean(axis=1)
        strays = np.stack([mean - seen.mean(), mean - mean.mean()], axis=1)
        if self.over_seeds:
            of_seeds = np.take_along_axis(resampled, self.drawn, axis=1).mean(axis=1) - mean
            strays += (self.scale * of_seeds)[:, None]
        return strays


@np.errstate(invalid="ignore")  # infinite losses less infinite losses
def verdict(
    statistics: Mapping[str, Sequence[Statistic]], resamples: Resamples, *, higher_is_better: bool = False
) -> Verdict:
    """Compare methods, each with one statistic a seed, on the same seeds and samples."""
    sign = -1 if higher_is_better else 1
    seen = {name: np.array([one.value() for one in every]) for name, every in statistics.items()}
    drawn = {name: resamples.values(every) for name, every in statistics.items()}
    best = min(seen, key=lambda name: sign * float(seen[name].mean()))  # of equals the first
    raw = {}
    for name in seen:
        if name != best:
            difference = seen[name] - seen[best]
            strays = np.abs(resamples.noise(difference, drawn[name] - drawn[best]))
            # What is no number (both losses infinite) speaks for no difference, so it counts as far.
            as_far = (~(strays < abs(float(difference.mean())) - 1e-12)).sum(axis=0)
            if np.isposinf(difference.mean()):  # one of them infinite: no resample without that sample makes up for it
                as_far = np.zeros(1)
            raw[name] = float((1 + as_far.max()) / (1 + resamples.times))
    intervals = {}
    for name in seen:
        low, high = np.quantile(resamples.noise(seen[name], drawn[name])[:, 1], [0.025, 0.975])
        mean = float(seen[name].mean())
        intervals[name] = (mean, mean) if np.isinf(mean) else (mean - float(high), mean - float(low))
    return Verdict(best, holm(raw), intervals)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """P-values adjusted for their number: the i-th smallest times (m − i), and no smaller than the one before.

    Example:
        >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
        {'a': 0.03, 'b': 0.06, 'c': 0.06}
    """
    adjusted: dict[str, float] = {}
    largest = 0.0
    ordered = sorted(p_values, key=lambda name: p_values[name])
    for i, name in enumerate(ordered):
        largest = max(largest, min(1.0, (len(ordered) - i) * p_values[name]))
        adjusted[name] = largest
    return {name: adjusted[name] for name in p_values}
