"""All numbers about one set of claims, measured once: terminal, JSON, pages, records, tables and frameworks show them.

``measure`` takes claims and metrics, and returns a ``Measured`` for each metric: its value, its interval, the value
that a calibrated model would have, the floor of its smoothing, and in words what is missing or doubtful. ``to_dict`` is
the one plain form of it.

One seed determines all draws, and none depends on which other metrics are measured: rows are resampled by
``default_rng(seed)``, and labels are drawn from the scores by ``default_rng(seed + 1)``, as in ``when_calibrated``.
"""

import math
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Required, Self, TypedDict

import torch

from softkin._core import checks, threads
from softkin._io.files import Plain, from_number, number
from softkin.metrics import catalogue, resampling
from softkin.metrics.catalogue import METRICS, Metric
from softkin.metrics.kernels import Kernel
from softkin.metrics.resampling import DRAWS, Drawn, Interval
from softkin.metrics.scopes import Claims, NoMeaning
from softkin.metrics.statistics import CalibrationError, Statistic

NARROW = 1e-3  # the bandwidth below which a set of drawn labels takes up to half a second
FEW_DRAWS = 8  # sets of labels for such a bandwidth
MOST_RESAMPLED = 2**27
"""The maximum of numbers in all resamples of one metric: 1 GB of float64, and up to three times that at the peak"""
NUMBERS = ("value", "low", "high", "level", "floor")
WORDS = ("caveat", "no_interval", "absent")


class MeasuredData(TypedDict, total=False):
    """``Measured`` as plain data; what there is none of is left out."""

    value: Required[Plain]
    low: Plain
    high: Plain
    level: float
    when_calibrated: "MeasuredData"
    floor: Plain
    caveat: str
    no_interval: str
    absent: str


@dataclass(frozen=True)
class Measured:
    """One metric of one set of claims."""

    value: float
    """NaN where there is none: ``absent`` says why, or the metric has nothing to average"""
    low: float | None = None
    high: float | None = None
    level: float | None = None
    """The confidence level of the interval from ``low`` to ``high``"""
    when_calibrated: "Measured | None" = None
    """The mean of the metric over labels drawn from the scores, and the range that holds ``level`` of them"""
    floor: float | None = None
    """The error that smoothing alone causes"""
    caveat: str | None = None
    """A warning about the meaning of the value"""
    no_interval: str | None = None
    """Why there is no interval although one was requested"""
    absent: str | None = None
    """Why there is no value"""

    @classmethod
    def of(cls, interval: float) -> Self:
        """A value, with its interval if it has one."""
        if isinstance(interval, Interval):
            return cls(float(interval), interval.low, interval.high, interval.level)
        return cls(float(interval))

    @property
    def interval(self) -> Interval:
        """The value with its interval."""
        if self.low is None or self.high is None or self.level is None:
            raise ValueError(f"this metric has no interval: {self.absent or self.no_interval or 'none was requested'}.")
        return Interval(self.value, self.low, self.high, self.level)

    @property
    def chance(self) -> float | None:
        """The value that a calibrated model would have, which is due to chance and to smoothing."""
        return None if self.when_calibrated is None else self.when_calibrated.value

    def to_dict(self) -> MeasuredData:
        """Plain data, with numbers as from ``number``."""
        data: dict[str, Any] = {}
        for name in NUMBERS:
            held = getattr(self, name)
            if held is not None:
                data[name] = number(held)
        if self.when_calibrated is not None:
            data["when_calibrated"] = self.when_calibrated.to_dict()
        data |= {name: getattr(self, name) for name in WORDS if getattr(self, name) is not None}
        return data  # type: ignore[return-value]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The metric that ``to_dict`` wrote; fields that it does not know are left out."""
        held: dict[str, Any] = {name: from_number(data[name]) for name in NUMBERS if name in data}
        held |= {name: str(data[name]) for name in WORDS if name in data}
        if "when_calibrated" in data:
            held["when_calibrated"] = Measured.from_dict(data["when_calibrated"])
        return cls(**held)


@dataclass(frozen=True)
class Settings:
    """Options that change the numbers or their intervals."""

    n_bins: int = 15
    confidence: float | None = 0.95
    """The level of the intervals; None leaves them out"""
    resamples: int = 1000
    seed: int = 0
    draws: int = DRAWS
    """The number of sets of labels drawn for a value under calibration; 0 leaves these values out"""
    slow: bool = False
    """Whether metrics that declare themselves slow get an interval and a value under calibration, too"""
    ordered: bool = False
    """Whether the classes are ordered, so that metrics of ordered classes are shown, too"""

    @property
    def level(self) -> float:
        """The level of the intervals, where there must be some."""
        if self.confidence is None:
            raise ValueError("`confidence` must be a number such as 0.95 where intervals are needed, got None.")
        return checks.level(self.confidence)

    def simultaneous(self, count: int) -> "Settings":
        """The settings of one of ``count`` intervals that hold together at this level, with enough resamples for it.

        Each has the level 1 − (1 − level) / count (Bonferroni).

        Example:
            >>> round(Settings().simultaneous(5).level, 6)
            0.99
        """
        tail = (1 - self.level) / max(1, count)
        return replace(self, confidence=1 - tail, resamples=max(self.resamples, math.ceil(4 / tail)))


VALUES = Settings(confidence=None, draws=0)
"""Values alone"""


def measure(claims: Claims, metrics: Iterable[Metric | str], settings: Settings = VALUES) -> dict[str, Measured]:
    """Each metric of the claims, by key; by default values alone.

    Example:
        >>> claims = Claims.of(torch.tensor([[0.8, 0.2], [0.4, 0.6]]), torch.tensor([0, 0]))
        >>> measure(claims, ["accuracy"])["accuracy"].value
        0.5
    """
    return measured(statistics(claims, metrics, settings), settings)


def statistics(claims: Claims, metrics: Iterable[Metric | str], settings: Settings = VALUES) -> dict[str, Statistic]:
    """Each metric of the claims as a statistic, by key."""
    made: dict[str, Statistic] = {}
    for metric in metrics:
        known = catalogue.named(metric) if isinstance(metric, str) else metric
        try:
            made[known.key] = known.statistic(claims, **known.with_bins(settings.n_bins))
        except NoMeaning as reason:
            made[known.key] = Meaningless(str(reason.args[0]), claims.num_samples)
    return made


class Meaningless(Statistic):
    """A metric that says nothing about these claims, and why."""

    def __init__(self, reason: str, num_samples: int) -> None:
        self.reason, self.num_samples = reason, num_samples

    @property
    def no_resampling(self) -> str:
        return self.reason

    def value(self) -> float:
        return math.nan

    def sums(self, weights: torch.Tensor) -> torch.Tensor:
        raise TypeError(self.reason)

    def of(self, sums: torch.Tensor) -> torch.Tensor:
        raise TypeError(self.reason)


def measured(made: Mapping[str, Statistic], settings: Settings) -> dict[str, Measured]:
    """Like ``measure``, from statistics of the same rows that the caller has."""
    reasons = {key: no_interval(METRICS[key], statistic, settings) for key, statistic in made.items()}
    chosen = {key: made[key] for key, reason in reasons.items() if reason is None}
    drawn = _with_intervals(chosen, settings) if settings.confidence is not None else {}
    return {key: _of(METRICS[key], made[key], drawn.get(key), reasons[key], settings) for key in made}


def _of(
    metric: Metric, statistic: Statistic, drawn: Drawn | None, no_interval: str | None, settings: Settings
) -> Measured:
    if isinstance(statistic, Meaningless):
        return absent(statistic.reason)
    result = Measured.of(statistic.value() if drawn is None else drawn.interval)
    return replace(
        result,
        when_calibrated=_when_calibrated(metric, statistic, drawn, settings),
        floor=statistic.floor() if metric.floor else None,
        caveat=statistic.caveat(),
        no_interval=None if settings.confidence is None else no_interval,
    )


def _when_calibrated(metric: Metric, statistic: Statistic, drawn: Drawn | None, settings: Settings) -> Measured | None:
    """The value under calibration, from the labels that the interval drew if it drew enough."""
    wanted = metric.chance and settings.draws > 0 and (settings.slow or not metric.slow)
    if not wanted or not isinstance(statistic, CalibrationError) or statistic.no_resampling is not None:
        return None
    draws = settings.draws
    if isinstance(statistic, Kernel) and 0 < statistic.radius < NARROW:
        draws = min(draws, FEW_DRAWS)
    level = 0.95 if settings.confidence is None else settings.level
    if drawn is not None and drawn.redrawn is not None and settings.draws == DRAWS:
        return Measured.of(resampling.chance(drawn.redrawn[:draws], level))
    return Measured.of(resampling.when_calibrated(statistic, level, draws, settings.seed))


def no_interval(metric: Metric, statistic: Statistic, settings: Settings) -> str | None:
    """Why a metric gets no interval; None if it gets one."""
    if metric.slow and not settings.slow:
        return "it takes longer than all others together; --kde-interval (kde_interval=True) requests it"
    numbers = getattr(statistic, "width", 1) * settings.resamples
    if statistic.no_resampling is None and numbers > MOST_RESAMPLED:
        return f"its resamples would take {8 * numbers / 2**30:.1f} GB, a few times over; fewer --resamples take less"
    return statistic.no_resampling


def absent(reason: str) -> Measured:
    """A metric without a value."""
    return Measured(math.nan, absent=reason)


def _with_intervals(made: Mapping[str, Statistic], settings: Settings) -> dict[str, Drawn]:
    """Each metric with its interval.

    Two threads divide the metrics, and torch's threads, between them: nearly all work is done outside of Python.
    """
    many = {key for key, statistic in made.items() if getattr(statistic, "columns", 1) > 1}
    parts = [[key for key in made if key in many], [key for key in made if key not in many]]

    def of_part(keys: list[str]) -> list[Drawn]:
        return resampling.intervals([made[key] for key in keys], settings.level, settings.resamples, settings.seed)

    with threads.halved(), ThreadPoolExecutor(len(parts)) as pool:
        results = list(pool.map(of_part, parts))
    return {key: ends for keys, own in zip(parts, results, strict=True) for key, ends in zip(keys, own, strict=True)}
