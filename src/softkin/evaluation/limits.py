"""Limits that a model's numbers must keep: a gate for continuous integration, in a shell and in pytest.

A number measured on a test set is uncertain, and so is the answer to "is it within its limit?". A limit counts as
broken only if the whole interval lies beyond it: the measured number alone breaks a limit in half of all runs of a
model that just keeps it. ``strict`` turns the burden of proof round: a limit counts as kept only if the whole interval
lies within it.
"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypedDict
from xml.sax.saxutils import escape, quoteattr

from softkin._core import checks, notebooks
from softkin._core.named_labels import labelled
from softkin._core.names import did_you_mean
from softkin._io.files import Plain, number
from softkin.evaluation.from_files import evaluate_file
from softkin.evaluation.groups import of_claims as groups_of
from softkin.evaluation.results import GroupsData
from softkin.metrics import catalogue, measurement
from softkin.metrics.catalogue import METRICS, Metric
from softkin.metrics.measurement import Measured, Settings
from softkin.metrics.scopes import Claims
from softkin.predictions import Predictions

Kind = Literal["max", "min", "within"]
Mark = Literal["kept", "open", "broken"]
MARKS: dict[Mark, str] = {"kept": "✓", "open": "?", "broken": "✗"}
"""✓ the value lies within its limit, ? beyond it but the interval does not, ✗ broken"""
SHORT = {"gap": "signed_gap", "ece": "ece_hist"}
"""What people call a metric besides its own names"""


class LimitData(TypedDict, total=False):
    """One limit and what was measured, as plain data."""

    metric: str
    title: str
    kind: Kind
    limit: float
    group: str
    value: Plain
    low: Plain
    high: Plain
    kept: bool
    mark: "Mark"
    text: str


@dataclass(frozen=True)
class Limit:
    """The most or the least that a metric may be."""

    metric: Metric
    kind: Kind
    """"within": at most that far from 0 on either side, for a signed metric"""
    bound: float

    def broken(self, measured: Measured, *, strict: bool = False) -> bool:
        """Whether the interval lies beyond the limit; with ``strict``, whether it does not lie within.

        An infinite value breaks any maximum: what was infinite once has an infinite mean.
        """
        low = measured.value if measured.low is None else measured.low
        high = measured.value if measured.high is None else measured.high
        if self.kind == "within":
            beyond, outside = low > self.bound or high < -self.bound, high > self.bound or low < -self.bound
        elif self.kind == "max":
            beyond, outside = low > self.bound, high > self.bound
        else:
            beyond, outside = high < self.bound, low < self.bound
        endless = math.isinf(measured.value) and self.kind != "min"
        return math.isnan(measured.value) or endless or (outside if strict else beyond)

    @property
    def words(self) -> str:
        """The limit in words."""
        bound = _shown(self.bound, self.metric)
        return {"within": f"within ±{bound}", "max": f"at most {bound}", "min": f"at least {bound}"}[self.kind]


@dataclass(frozen=True)
class Outcome:
    """A limit, what was measured, and whether the limit is kept."""

    limit: Limit
    measured: Measured
    kept: bool
    group: str | None = None
    """The group of rows, if not all rows were measured"""

    @property
    def mark(self) -> Mark:
        """Kept; broken; or open, if the value lies beyond the limit and chance may be the reason."""
        if not self.kept:
            return "broken"
        alone = replace(self.measured, low=None, high=None)
        return "open" if self.limit.broken(alone) else "kept"

    def __str__(self) -> str:
        one, metric = self.measured, self.limit.metric
        ends = "" if one.low is None or one.high is None else f" ({_ends(one.low, one.high, metric)})"
        note = f"; {one.absent}" if one.absent else "" if ends else "; it has no interval, so the value alone decides"
        if metric.key == "nll" and math.isinf(one.value):
            note = "; a true class had the probability 0"
        value = "undefined" if math.isnan(one.value) else _shown(one.value, metric)
        return f"{MARKS[self.mark]} {metric.title}{self.where}: {value}{ends}, must be {self.limit.words}{note}"

    @property
    def where(self) -> str:
        """The group in words."""
        return "" if self.group is None else f" in {self.group}"

    def to_dict(self) -> LimitData:
        """Plain data."""
        one, limit = self.measured, self.limit
        ends: LimitData = (
            {} if one.low is None or one.high is None else {"low": number(one.low), "high": number(one.high)}
        )
        return {
            "metric": limit.metric.key,
            "title": limit.metric.title,
            "kind": limit.kind,
            "limit": limit.bound,
            **({} if self.group is None else {"group": self.group}),
            "value": number(one.value),
            **ends,
            "kept": self.kept,
            "mark": self.mark,
            "text": str(self),
        }


@dataclass(frozen=True)
class Checked:
    """The outcome of each limit; true if all are kept, so that ``assert softkin.check(…)`` reads well in a test."""

    name: str
    outcomes: tuple[Outcome, ...]
    confidence: float
    strict: bool
    num_samples: int

    @property
    def passed(self) -> bool:
        """Whether every limit is kept."""
        return all(outcome.kept for outcome in self.outcomes)

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        broken = sum(not outcome.kept for outcome in self.outcomes)
        undecided = sum(outcome.mark == "open" for outcome in self.outcomes)
        count = len(self.outcomes)
        if self.passed and self.strict:
            end = "every limit is kept"
        elif self.passed:
            end = f"no limit is broken{f', {undecided} undecided (a strict check fails these)' if undecided else ''}"
        else:
            which = f"{broken} of {count} limits {'is' if broken == 1 else 'are'}" if count > 1 else "the limit is"
            end = f"{which} {'not shown to be kept (strict)' if self.strict else 'broken'}"
        head = f"{self.name}: {self.num_samples:,} samples, {100 * self.confidence:g} % intervals: {end}"
        return "\n".join([head, *map(str, self.outcomes)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [_row(outcome) for outcome in self.outcomes]
        return notebooks.table(
            rows, head=["", "metric", "value", "", "interval", "limit"], title=str(self).splitlines()[0]
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "name": self.name,
            "num_samples": self.num_samples,
            "confidence": self.confidence,
            "strict": self.strict,
            "passed": self.passed,
            "limits": [outcome.to_dict() for outcome in self.outcomes],
        }

    def to_junit(self) -> str:
        """A JUnit file, which most build servers show: a test case for each limit."""
        cases = [_case(outcome, self.name) for outcome in self.outcomes]
        failures = sum(not outcome.kept for outcome in self.outcomes)
        name = quoteattr(_printable(f"softkin check {self.name}"))
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f'<testsuites>\n<testsuite name={name} tests="{len(cases)}" failures="{failures}" errors="0">\n'
            f"{''.join(cases)}</testsuite>\n</testsuites>\n"
        )


def check(
    predictions: str | os.PathLike[str] | Predictions | Any,
    labels: Any = None,
    *,
    max: Mapping[str, float | str] | None = None,
    min: Mapping[str, float | str] | None = None,
    confidence: float = 0.95,
    strict: bool = False,
    resamples: int = 1000,
    seed: int = 0,
    n_bins: int = 15,
    groups: Sequence[Any] | None = None,
    **options: Any,
) -> Checked:
    """Check that a model's numbers keep their limits, as ``softkin check`` does.

    Args:
        predictions: A file of predictions, ``Predictions``, or probabilities (N, K).
        labels: The labels (N,), with probabilities; with a file, a file of labels.
        max: The most that each metric may be, such as ``{"ece_hist": "5%", "gap": "3%"}``. "5%" and 0.05 are the
            same. The gap is signed: a maximum alone holds for both sides.
        min: The least that each metric may be.
        confidence: The level of the intervals.
        strict: Pass only if the whole interval lies within the limit. By default a check fails only if the whole
            interval lies beyond it.
        resamples: The number of resamples for an interval.
        seed: The seed of the resampling.
        n_bins: The number of bins of the histograms.
        groups: (N,) the group of each row, with arrays: every limit must also hold in each group, whose intervals hold
            together. With a file, ``group`` names their column.
        options: With a file, how to read it: ``kind``, ``label_column`` … of ``predictions.Reading``.

    Returns:
        A result that is true if no limit is broken, and prints one line for each limit.

    Example:
        >>> import torch, softkin
        >>> probabilities = torch.tensor([[0.9, 0.1]]).expand(100, 2)
        >>> labels = torch.tensor([0] * 88 + [1] * 12)
        >>> print(softkin.check(probabilities, labels, max={"gap": "5%"}, min={"accuracy": "95%"}))
        predictions: 100 samples, 95 % intervals: 1 of 2 limits is broken
        ✓ confidence − accuracy: 2 % (-3 to 9.81 %), must be within ±5 %
        ✗ accuracy: 88 % (80.2 to 93 %), must be at least 95 %
    """
    limits = limits_of(max or {}, min or {})
    settings = Settings(n_bins, checks.level(confidence), resamples, seed, slow=any(one.metric.slow for one in limits))
    settings = replace(settings, ordered=any(one.metric.ordered for one in limits))
    if isinstance(predictions, str | os.PathLike):
        if groups is not None:
            raise TypeError("`groups` are of arrays; `group` names a column of a file.")
        measured = _of_file(predictions, labels, settings, options)
    else:
        if options:
            raise TypeError(f"`{next(iter(options))}` says how to read a file, and `predictions` is none.")
        measured = _of_arrays(predictions, labels, limits, settings, groups)
    return judged(measured, limits, confidence=confidence, strict=strict)


@dataclass(frozen=True)
class _Numbers:
    """What was measured: of all rows, and of each group."""

    name: str
    num_samples: int
    every: Mapping[str, Measured]
    groups: Mapping[str, Mapping[str, Measured]] = field(default_factory=dict)


def _measured(metrics: Mapping[str, Any]) -> dict[str, Measured]:
    return {key: Measured.from_dict(plain) for key, plain in metrics.items()}


def _in_groups(data: GroupsData) -> dict[str, dict[str, Measured]]:
    return {group["name"]: _measured(group["metrics"]) for group in data["groups"]}


def _of_file(path: Any, labels: Any, settings: Settings, options: dict[str, Any]) -> _Numbers:
    values = {name: getattr(settings, name) for name in ("n_bins", "confidence", "resamples", "seed", "ordered")}
    model = evaluate_file(path, labels=labels, kde_interval=settings.slow, **values, **options)
    own = _in_groups(model.data["groups"]) if options.get("group") is not None else {}
    return _Numbers(model.name, model.data["num_samples"], _measured(model.data["metrics"]), own)


def _of_arrays(
    predictions: Any, labels: Any, limits: Sequence[Limit], settings: Settings, groups: Sequence[Any] | None
) -> _Numbers:
    name = "predictions"
    if isinstance(predictions, Predictions):
        name = predictions.name or name
        claims = predictions.claims if labels is None else Claims.of(predictions.probabilities, labels)
    elif labels is None:
        raise ValueError("`labels` must be given with probabilities.")
    else:
        labels, predictions, groups = labelled(labels, predictions, groups)
        claims = Claims.of(predictions, labels)
    keys = dict.fromkeys(limit.metric.key for limit in limits)
    every = measurement.measure(claims, keys, settings)
    own = {} if groups is None else _in_groups(groups_of(claims, list(map(str, groups)), "group", settings))
    return _Numbers(name, claims.num_samples, every, own)


def judged(numbers: _Numbers, limits: Sequence[Limit], *, confidence: float, strict: bool = False) -> Checked:
    """Each limit against what was measured, of all rows and of each group."""
    outcomes = []
    parts: list[tuple[str | None, Mapping[str, Measured]]] = [(None, numbers.every), *numbers.groups.items()]
    for limit in limits:
        for group, measured in parts:
            one = measured.get(limit.metric.key)
            if one is None:
                where = "here" if group is None else "in groups"
                raise ValueError(f"`{limit.metric.key}` is not measured {where}; there are {', '.join(measured)}.")
            outcomes.append(Outcome(limit, one, not limit.broken(one, strict=strict), group))
    return Checked(numbers.name, tuple(outcomes), confidence, strict, numbers.num_samples)


def limits_of(most: Mapping[str, float | str], least: Mapping[str, float | str]) -> list[Limit]:
    """The limits that a caller gave, checked."""
    both = {_metric(name).key for name in most} & {_metric(name).key for name in least}
    limits = [_limit(name, value, "max", both) for name, value in most.items()]
    limits += [_limit(name, value, "min", both) for name, value in least.items()]
    if not limits:
        raise ValueError("a check needs at least one limit, such as max={'ece_hist': '5%'} (--max ece_hist=5%).")
    return limits


def _limit(name: str, value: float | str, kind: Kind, both: set[str]) -> Limit:
    metric = _metric(name)
    bound = _bound(value, metric, name)
    if metric.signed and kind == "max" and metric.key not in both:
        if bound < 0:
            raise ValueError(f"the limit of {name} must not be negative, as it holds for both sides; got {value}.")
        kind = "within"
    return Limit(metric, kind, bound)


def _metric(name: str) -> Metric:
    spelt = SHORT.get(name.lower(), name)
    known = {metric.key for metric in catalogue.shown("evaluate", ordered=True)}
    by_title = {metric.short.lower(): metric.key for metric in catalogue.shown("evaluate", ordered=True)}
    spelt = spelt if spelt in METRICS else by_title.get(spelt.lower(), spelt)
    if spelt not in METRICS or METRICS[spelt].key not in known:
        guess = did_you_mean(name, [*known, *SHORT])
        raise ValueError(f"a limit must name one of {', '.join(sorted(known))}, got {name!r}{guess}")
    return METRICS[spelt]


def _bound(value: float | str, metric: Metric, name: str) -> float:
    text = str(value).strip()
    in_percent = text.endswith("%")
    try:
        bound = float(text.rstrip("%").strip())
    except ValueError:
        bound = math.nan
    if not math.isfinite(bound):
        raise ValueError(
            f"the limit of {name} must be a number such as {'5%' if metric.percent else '1.5'}, got {value!r}."
        )
    if in_percent and not metric.percent:
        raise ValueError(f"the limit of {name} must be a plain number, as it is no share; got {value!r}.")
    if not metric.percent:
        return bound
    if not in_percent and abs(bound) == 1:
        raise ValueError(f"the limit of {name} can be read as 1% or 100%; write one of these instead of {value!r}.")
    return bound / 100 if in_percent or abs(bound) > 1 else bound


def _row(outcome: Outcome) -> list[object]:
    one, metric = outcome.measured, outcome.limit.metric
    known = one.low is not None and one.high is not None
    picture = notebooks.whisker(one.value, one.low, one.high) if known else ""  # type: ignore[arg-type]
    ends = _ends(one.low, one.high, metric) if known else ""  # type: ignore[arg-type]
    return [
        MARKS[outcome.mark],
        f"{metric.title}{outcome.where}",
        _shown(one.value, metric),
        picture,
        ends,
        outcome.limit.words,
    ]


def _shown(value: float, metric: Metric) -> str:
    return f"{_digits(100 * value)} %" if metric.percent else _digits(value)


def _ends(low: float, high: float, metric: Metric) -> str:
    return (
        f"{_digits(100 * low)} to {_digits(100 * high)} %" if metric.percent else f"{_digits(low)} to {_digits(high)}"
    )


def _digits(value: float) -> str:
    return f"{value:.3g}".replace("e+02", "00") if abs(value) < 1000 else f"{value:,.0f}"


def _case(outcome: Outcome, name: str) -> str:
    title = quoteattr(_printable(f"{outcome.limit.metric.key} {outcome.limit.words}{outcome.where}"))
    text = _printable(str(outcome))
    inside = f"<system-out>{escape(text)}</system-out>"
    if not outcome.kept:
        inside = f"<failure message={quoteattr(text)}/>{inside}"
    return f"<testcase classname={quoteattr(_printable(name))} name={title}>{inside}</testcase>\n"


def _printable(text: str) -> str:
    """Text without the characters that XML 1.0 forbids."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)
