r"""Three questions to a study's numbers, each with its own family of comparisons.

1. Is this method better than the baseline? Every method against one control, with Holm's rule.
2. Which methods cannot be told from the best, which the same data chose? All pairs of methods count, step by step.
3. Does a calibrator change this network? Both on the same network, with Holm's rule over the calibrated methods.

For two methods, :math:`D_s` is the difference of a metric on seed s, S the number of seeds, d = S − 1. Its mean strays
from its expectation for two reasons:

- Training, and the samples of each seed: the variance of D over seeds, :math:`s^2`. Few seeds hardly determine it, so
  the comparisons of a family lend each other strength: ``pooled`` is the mean of their m variances, where a variance
  above ``WILD`` medians counts as so many (with three seeds the mean of the larger half, with two of the largest
  quarter), and :math:`v = \max(s^2, \text{pooled})` has
  :math:`\nu = d\,(1 + c \min(1, \text{pooled}/s^2)^e)` degrees of freedom, with c = m/2 − 1 from 0 to 3 and e = 2 for a
  control (``CONTROL``), to 6.5 and e = 1 for the best (``ALL_PAIRS``). All differences share the other method's noise,
  of which they say the same thing m times over; with two seeds that part may be all there is, so c is multiplied by
  twice the share of the variance that is the methods' own, if it is below one half. A spread below a hundredth of the
  difference counts as a hundredth: it is rounding, or luck.
- The samples that seeds share, whose noise no variance over seeds shows. Samples are resampled, the same for both
  methods and all seeds. With V the variance of the resampled mean of D, the shared part is
  :math:`C = \max(0, (V - \overline{\mathrm{Var}\,D^*_s} / S)/(1 - 1/S))`; the rest is in :math:`s^2` already.

The p-value is the chance that :math:`\sqrt{v/S}\,t_\nu + \sqrt C\,z` is at least as large as the difference. A
calibration error is biased upwards, by other amounts for other methods: there the difference is the least of the value
seen, the value less the bias of its resamples, and the value less the difference of what perfect calibration would
show. With a single seed the samples alone decide. The third question is about these very networks, so with up to
``FEW`` seeds, which hardly determine a variance, the samples decide there too, if all seeds agree in the direction.
Methods with identical numbers count once.

benchmarks/verdicts.py measures how often equal methods are told apart, and how often different ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr, stdtrit
from torch import Tensor

from softkin._core import randomness
from softkin.metrics.kernels import Kernel
from softkin.metrics.scopes import blocks
from softkin.metrics.statistics import Mean, Statistic

LEVEL = 0.05
RESAMPLES = 400
"""How often a table resamples the test samples; only means and variances are taken of them"""
SMOOTH = 4  # errors over a kernel density are resampled so many times less often, as each costs more than all others
CONTROL, ALL_PAIRS = (3.0, 2), (6.5, 1)
"""How many times their own degrees of freedom methods borrow at most, compared with a control or with the best, and how
fast that falls where their own variance is larger than the others'"""
WILD = 16.0
"""A training that failed on one seed must not hide what the others show"""
FEW = 3
"""Up to so many seeds, the samples alone say whether a calibrator changes its networks"""
LEAST_SPREAD = 0.01
POWER = 0.8
"""How often a study like this one would have seen the difference that it says it would have seen"""
ONE_SEED = "one seed: the samples alone decide, and the chance of training is not in it"
KEEP = 2**26  # the most weights of a seed that are kept: 256 MB
NODES = np.linspace(-8, 8, 161)
WEIGHTS = np.exp(-(NODES**2) / 2) / np.exp(-(NODES**2) / 2).sum()

Floats = NDArray[np.float64]


def in_words(seeds: int) -> str:
    """How a table of so many seeds decides."""
    how = ONE_SEED if seeds == 1 else f"Student's t over {seeds} seeds, variances pooled, shared samples resampled"
    return f"{how}; {100 * LEVEL:g} % of a family of comparisons"


@dataclass(frozen=True)
class Sampled:
    """A metric of one method."""

    seen: Floats
    """(S,) its value on each seed"""
    drawn: Floats | None = None
    """(R, S) the same with resampled samples; None: the samples' noise is not known"""
    calibrated: float | None = None
    """The mean over seeds of the value that perfect calibration would have, for a calibration error"""


@dataclass(frozen=True)
class Difference:
    """A method minus another one, in one metric."""

    value: float
    low: float
    high: float
    """The ends of the 95 % interval of this difference alone"""
    p_value: float
    """Adjusted for the other comparisons of its family"""
    least: float
    """The difference that such a study would have seen in four of five cases"""
    by_rows: float = 0.0
    """The share of the variance that is due to the test samples which all seeds share"""
    same: bool = False
    """Whether both have the same numbers on every seed"""

    @property
    def proved(self) -> bool:
        """Whether the difference is more than chance."""
        return self.p_value <= LEVEL


@dataclass(frozen=True)
class Verdict:
    """The answers to the three questions, for one metric."""

    best: str
    intervals: dict[str, tuple[float, float]]
    """95 % intervals of each method's mean: over seeds and samples, or over samples alone with a single seed"""
    to_best: dict[str, Difference]
    """Each other method minus the best"""
    to_baseline: dict[str, dict[str, Difference]] = field(default_factory=dict)
    """By baseline: each other method minus the baseline"""
    to_network: dict[str, Difference] = field(default_factory=dict)
    """Each method with a calibrator, minus the same network without it"""

    @property
    def ties(self) -> set[str]:
        """The methods that cannot be told from the best."""
        return {name for name, difference in self.to_best.items() if not difference.proved}


class Resamples:
    """One set of resamples, used for all metrics and methods of a study."""

    def __init__(self, sample_ids: Sequence[Sequence[object]], *, times: int = RESAMPLES, seed: int = 0) -> None:
        """``sample_ids`` are those of the test rows of each seed."""
        place: dict[object, int] = {}
        self.rows = [np.array([place.setdefault(sample_id, len(place)) for sample_id in ids]) for ids in sample_ids]
        self.pool, self.times, self.seeds = len(place), times, len(sample_ids)
        self._seed = int(randomness.generator(seed).integers(2**31))
        self._kept: tuple[int, list[Tensor]] = (-1, [])

    def values(self, s: int, statistics: Sequence[Statistic]) -> list[Floats]:
        """Statistics of the test rows of seed number s, each with resampled rows, (times,).

        A sample that several seeds test on is drawn for all of them or for none.
        """
        values: list[list[Floats]] = [[] for _ in statistics]
        start = 0
        for weights in self._weights(s):
            exact = weights.to(torch.float64)  # once for all means, which need it
            for parts, statistic in zip(values, statistics, strict=True):
                lines = exact if isinstance(statistic, Mean) else weights
                due = lines[: max(0, self.times_of(statistic) - start)].to(statistic.device)
                if len(due):
                    parts.append(statistic.of(statistic.sums(due)).cpu().numpy())
            start += len(weights)
        return [np.concatenate(parts) for parts in values]

    def times_of(self, statistic: Statistic) -> int:
        """How often a statistic is resampled."""
        return -(-self.times // SMOOTH) if isinstance(statistic, Kernel) else self.times

    def keep(self, s: int) -> None:
        """Draw for a seed what threads may then share."""
        for _ in self._weights(s):
            if self.times * len(self.rows[s]) > KEEP:
                return

    def _weights(self, s: int) -> Iterator[Tensor]:
        """How often each row of a seed is drawn, in blocks of (r, N); kept until another seed is asked for."""
        if self._kept[0] == s:
            yield from self._kept[1]
            return
        rows, generator = self.rows[s], np.random.default_rng(self._seed)  # the same samples for every seed
        parts = []
        for block in blocks(self.times, self.pool):
            weights = np.empty((block, len(rows)), dtype=np.float32)
            for line in weights:
                line[:] = np.bincount(generator.integers(0, self.pool, self.pool), minlength=self.pool)[rows]
            weights *= len(rows) / weights.sum(axis=1, keepdims=True)  # statistics need weights that add up to N
            part = torch.from_numpy(weights)
            if self.times * len(rows) <= KEEP:
                parts.append(part)
            yield part
        if parts:
            self._kept = s, parts


def verdict(
    methods: Mapping[str, Sampled],
    *,
    larger_is_better: bool = False,
    baselines: Sequence[str] = (),
    networks: Mapping[str, str] | None = None,
) -> Verdict:
    """Answer the three questions for a metric.

    Args:
        methods: The numbers of each method, on the same seeds and samples.
        larger_is_better: Whether the largest value is the best.
        baselines: The methods that others are to beat.
        networks: For each method with a calibrator, the method that has the same network without it.
    """
    sign = -1 if larger_is_better else 1
    best = min(methods, key=lambda name: sign * float(methods[name].seen.mean()))  # of equals, the first

    def minus(name: str) -> dict[str, tuple[Sampled, Sampled]]:
        return {other: (mine, methods[name]) for other, mine in methods.items() if other != name}

    networks = networks or {}
    pairs = {name: (methods[name], methods[base]) for name, base in networks.items()}
    to_best, to_network = compared(minus(best), all_pairs=True), compared(pairs, same_network=True)
    to_baseline = {name: compared(minus(name)) for name in baselines if name in methods}
    # What another question has answered is not left open here: a calibrator changes the baseline's own network, and
    # what is worse than any other method is not the best.
    for baseline, others in to_baseline.items():
        for name in (name for name, network in networks.items() if network == baseline and name in others):
            p_value = min(others[name].p_value, to_network[name].p_value)
            others[name] = replace(others[name], p_value=p_value)
    answers = [(name, base, found) for base, others in to_baseline.items() for name, found in others.items()]
    answers += [(name, networks[name], found) for name, found in to_network.items()]
    for name, base, found in answers:
        worse = name if sign * found.value > 0 else base
        if found.proved and worse in to_best:
            to_best[worse] = replace(to_best[worse], p_value=min(to_best[worse].p_value, found.p_value))
    return Verdict(best, {name: interval(mine) for name, mine in methods.items()}, to_best, to_baseline, to_network)


def interval(mine: Sampled) -> tuple[float, float]:
    """The 95 % interval of a method's mean over seeds and samples."""
    mean = float(mine.seen.mean())
    if not np.isfinite(mean):
        return mean, mean
    drawn = None if mine.drawn is None else mine.drawn[None]
    noise = _noise(mine.seen[None], drawn)
    half = float(noise.quantile(1 - LEVEL / 2)[0])
    return mean - half, mean + half


@np.errstate(invalid="ignore")  # infinite losses minus infinite losses
def compared(
    pairs: Mapping[str, tuple[Sampled, Sampled]], *, all_pairs: bool = False, same_network: bool = False
) -> dict[str, Difference]:
    """The differences of a family of pairs of methods, first minus second.

    Args:
        pairs: The two methods of each comparison.
        all_pairs: Whether the second is the best of all, chosen by the same data; else it was chosen before.
        same_network: Whether both are the same network, so that the question is about these networks.
    """
    seen = {name: a.seen - b.seen for name, (a, b) in pairs.items()}
    means = {name: float(difference.mean()) for name, difference in seen.items()}
    finite = [name for name in seen if np.isfinite(seen[name]).all()]
    scale = max((float(np.abs(side.seen).max()) for name in finite for side in pairs[name]), default=0.0) or 1.0
    digits = {name: tuple(np.round(seen[name] / scale, 10)) for name in finite}
    same = [name for name in finite if not any(digits[name])]
    owners: dict[tuple[float, ...], str] = {}  # of methods with the same numbers, the first
    first = {name: owners.setdefault(digits[name], name) for name in finite if name not in same}
    distinct = list(dict.fromkeys(first.values()))
    raw: dict[str, float] = {}
    endless = [name for name in seen if name not in finite]
    for name in endless:  # an infinite loss, which no resample without that sample undoes; two of them show nothing
        drawn = pairs[name][0].drawn
        times = RESAMPLES if drawn is None else len(drawn)
        raw[name] = 1 / (1 + times) if np.isinf(means[name]) else 1.0
    noise, halves = None, np.zeros(0)
    if distinct:
        there = all(side.drawn is not None for name in distinct for side in pairs[name])
        drawn = np.stack([_drawn(pairs[name]) for name in distinct]) if there else None
        noise = _noise(np.stack([seen[name] for name in distinct]), drawn, ALL_PAIRS if all_pairs else CONTROL)
        sizes = np.array(
            [_size(means[name], pairs[name], None if drawn is None else drawn[i]) for i, name in enumerate(distinct)]
        )
        if same_network and drawn is not None and 1 < drawn.shape[2] <= FEW:
            noise = _of_samples(drawn)
            agree = [len(set(np.sign(seen[name]))) == 1 for name in distinct]
            sizes = np.where(agree, sizes, 0.0)
        raw |= dict(zip(distinct, noise.beyond(sizes).tolist(), strict=True))
        halves = noise.quantile(1 - LEVEL / 2)
    final = adjusted(raw, all_pairs=all_pairs)
    left = max(1, sum(value > LEVEL for value in final.values()))
    least = noise.least(_tests(left, all_pairs)) if noise is not None else np.zeros(0)
    found: dict[str, Difference] = {}
    for name in pairs:
        mean = means[name]
        if name in same:
            found[name] = Difference(0.0, 0.0, 0.0, 1.0, 0.0, same=True)
        elif name in endless:
            found[name] = Difference(mean, mean, mean, final[name], np.inf)
        else:
            assert noise is not None
            place = distinct.index(first[name])
            half = float(halves[place])
            ends = mean - half, mean + half
            p_value, rows = final[first[name]], float(noise.by_rows[place])
            found[name] = Difference(mean, *ends, p_value, float(least[place]), rows)
    return found


def _drawn(pair: tuple[Sampled, Sampled]) -> Floats:
    a, b = pair
    assert a.drawn is not None
    assert b.drawn is not None
    return a.drawn - b.drawn


def _size(mean: float, pair: tuple[Sampled, Sampled], drawn: Floats | None) -> float:
    """The size of a difference, less what the bias of calibration errors may explain of it."""
    a, b = pair
    if a.calibrated is None or b.calibrated is None:
        return abs(mean)
    sign = np.sign(mean)
    sizes = [mean, mean - (a.calibrated - b.calibrated)]
    if drawn is not None:
        sizes.append(2 * mean - float(drawn.mean()))
    return max(0.0, min(float(sign * size) for size in sizes))


@dataclass(frozen=True)
class _Noise:
    """The chance part of m mean differences: ``spread``·t with ``freedom`` + ``shared``·z."""

    spread: Floats
    freedom: Floats
    shared: Floats

    @property
    def by_rows(self) -> Floats:
        """The share of the variance that is the samples'."""
        whole = self.spread**2 + self.shared**2
        share: Floats = np.divide(self.shared**2, whole, out=np.zeros_like(whole), where=whole > 0)
        return share

    def beyond(self, sizes: Floats) -> Floats:
        """The chance that the noise is at least as large as each size, in either direction."""
        chances: Floats = np.where(sizes > 0, 2 * self._below(-sizes), 1.0)
        return chances

    def _below(self, x: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            if not self.spread.any():
                chances = ndtr(x / self.shared)
            elif not self.shared.any():
                chances = stdtr(self.freedom, x / self.spread)
            else:
                apart = x[:, None] - self.shared[:, None] * NODES
                chances = stdtr(self.freedom[:, None], apart / self.spread[:, None]) @ WEIGHTS
        known: Floats = np.nan_to_num(chances, nan=0.5)
        return known

    def quantile(self, share: float) -> Floats:
        """The number below which this share of the noise lies, above one half."""
        own, shared = self.spread * stdtrit(self.freedom, share), self.shared * ndtri(share)
        low, high = np.maximum(own, shared), own + shared
        if not own.any() or not shared.any():
            ready: Floats = high
            return ready
        for _ in range(20):
            middle = (low + high) / 2
            enough = self._below(-middle) <= 1 - share
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        found: Floats = high
        return found

    def least(self, tests: int) -> Floats:
        """The difference that would be called one in ``POWER`` of studies, as one of so many tests."""
        return self.quantile(1 - LEVEL / 2 / tests) + self.quantile(POWER)


def _noise(seen: Floats, drawn: Floats | None, lending: tuple[float, int] | None = None) -> _Noise:
    """The noise of the means over seeds of (m, S) differences, from (m, R, S) resampled ones if there are any.

    ``lending`` is what they borrow of each other; None: nothing.
    """
    m, seeds = seen.shape
    alone, apart = np.zeros(m), np.zeros(m)
    if drawn is not None:
        alone, apart = drawn.mean(axis=2).var(axis=1), drawn.var(axis=1).mean(axis=1) / seeds
    if seeds == 1:
        return _Noise(np.zeros(m), np.ones(m), np.sqrt(alone)) if drawn is None else _of_samples(drawn)
    shared = np.sqrt(np.maximum(0.0, (alone - apart) / (1 - 1 / seeds)))
    own = seen.var(axis=1, ddof=1)
    if lending is None:
        return _Noise(np.sqrt(own / seeds), np.full(m, seeds - 1.0), shared)
    most, falls = lending
    own = np.maximum(own, (LEAST_SPREAD * seen.mean(axis=1)) ** 2)
    larger = {2: (3 * m) // 4, 3: m // 2}.get(seeds, 0)
    tame = np.minimum(own, WILD * np.median(own)) if seeds > 3 else np.sort(own)[larger:]
    pooled = float(tame.mean())
    lent = np.minimum(1.0, pooled / own) ** falls
    borrowed = min(max(0.0, m / 2 - 1), most) * (min(1.0, 2 * _own_share(seen)) if seeds == 2 else 1.0)
    freedom = (seeds - 1) * (1 + borrowed * lent)
    return _Noise(np.sqrt(np.maximum(own, pooled) / seeds), freedom, shared)


def _own_share(seen: Floats) -> float:
    """The share of the variance over seeds of (m, S) differences that is not common to all of them."""
    m, seeds = seen.shape
    noise = seen - seen.mean(axis=1, keepdims=True)
    common = noise.mean(axis=0)
    own = float(np.square(noise - common).sum()) / (max(1, m - 1) * (seeds - 1))
    shared = max(0.0, float(np.square(common).sum()) / (seeds - 1) - own / m)
    return own / (own + shared) if own + shared > 0 else 1.0


def _of_samples(drawn: Floats) -> _Noise:
    """The noise of the means over seeds of (m, R, S) resampled differences that is due to the samples alone."""
    m = len(drawn)
    return _Noise(np.zeros(m), np.ones(m), np.sqrt(drawn.mean(axis=2).var(axis=1)))


def _tests(left: int, all_pairs: bool) -> int:
    """The comparisons among which the smallest p-value of ``left`` methods counts as the smallest."""
    return left * (left + 1) // 2 if all_pairs else left


def adjusted(p_values: Mapping[str, float], *, all_pairs: bool = True) -> dict[str, float]:
    """P-values of m methods against one other, adjusted step by step for a choice among several.

    The i-th smallest, i from 0, counts as the smallest of the m − i that are left (Holm), or, if the other is the best
    of all m + 1, of the (m + 1 − i)(m − i)/2 pairs that are left; and is no smaller than the one before.

    Example:
        >>> adjusted({"a": 0.01, "b": 0.04, "c": 0.015})
        {'a': 0.06, 'b': 0.06, 'c': 0.06}
        >>> adjusted({"a": 0.01, "b": 0.04, "c": 0.015}, all_pairs=False)
        {'a': 0.03, 'b': 0.04, 'c': 0.03}
    """
    steps: dict[str, float] = {}
    largest = 0.0
    ordered = sorted(p_values, key=lambda name: p_values[name])
    for i, name in enumerate(ordered):
        largest = max(largest, min(1.0, _tests(len(ordered) - i, all_pairs) * p_values[name]))
        steps[name] = largest
    return {name: steps[name] for name in p_values}
