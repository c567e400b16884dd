"""The catalogue of metrics: each is declared once, beside its formula; lists, tables and pages are views of it.

``@metric(…)`` decorates a function from ``Claims``, or from checked probabilities and labels, to a ``Statistic``. It
registers the metric under the function's name, and returns the public function, which also checks its input and takes
``sample_weight``, ``ignore_index``, ``confidence``, ``resamples`` and ``seed``. ``declare`` adds the same metric with
fixed options under another key, such as ``ece_hist_output``.

To add a metric of your own to ``softkin evaluate``, to studies and to the page, declare one:

    >>> import torch
    >>> from softkin.metrics.catalogue import METRICS, metric
    >>> from softkin.metrics.statistics import Loss
    >>> @metric(title="spherical loss", short="spherical", percent=False, shown=["evaluate"])
    ... def spherical(probabilities, labels):
    ...     p = probabilities.double()
    ...     return Loss.of_classes(1 - p / p.norm(dim=1, keepdim=True), p, labels, at_most=1.0)
    >>> round(spherical(torch.tensor([[0.6, 0.4], [0.5, 0.5]]), torch.tensor([0, 1])), 4)
    0.2304
    >>> METRICS.remove("spherical")
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, wraps
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypedDict, overload

from torch import Tensor

from softkin._core import threads
from softkin._core.checks import Array
from softkin._core.names import Registry, did_you_mean
from softkin.metrics.resampling import answer
from softkin.metrics.scopes import Claims, NoMeaning
from softkin.metrics.statistics import Averaged, Statistic

P = ParamSpec("P")

Place = Literal["evaluate", "compare", "select", "record", "table", "wide", "paper", "card"]
"""Where a metric is shown: in ``evaluate``; in comparisons of two models; in the choice of a study's values; in a
study's records; in its table; in its wide table; in the paper's tables; as a card of the page, whose
table of more numbers has all others of ``evaluate``"""


class Sureness(TypedDict, total=False):
    """The options of the rows and of an interval, which every metric's function has besides its own."""

    sample_weight: Array | None
    """(N,) weights of the samples; by default all count alike"""
    ignore_index: int | None
    """A label of rows to leave out, such as 255 for pixels of no class"""

    confidence: float | None
    """A level such as 0.95 for an ``Interval``; by default none is computed"""
    resamples: int
    """The number of resamples for the interval; by default 1000"""
    seed: int
    """The seed of the resampling; by default 0"""


OF_ROWS = {"sample_weight": None, "ignore_index": None}
SURENESS = {"confidence": None, "resamples": 1000, "seed": 0}


class MetricData(TypedDict):
    """Plain data for a page that shows a metric."""

    key: str
    name: str
    title: str
    short: str
    about: str
    percent: bool
    larger_is_better: bool | None
    signed: bool
    at_most: float | None
    winner: str
    shown: list[Place]


@dataclass(frozen=True)
class Metric:
    """One metric: how it is computed, and everything that lists, tables and pages show about it."""

    key: str
    make: Callable[..., Statistic]
    """A function from ``Claims`` and options to the statistic. One that needs classes may take checked probabilities
    (N, K) and labels (N,) instead"""
    title: str
    """The title in lists, such as "ECE of the prediction" """
    short: str
    """The title of a column, such as "Hist P" """
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options that this key fixes"""
    function: Callable[..., float] | None = None
    """The public function, if this key has one"""
    percent: bool = True
    """Whether it is shown in percent"""
    larger_is_better: bool | None = False
    """None: the metric has no winner"""
    signed: bool = False
    """Whether it can be negative, and is best near 0"""
    chance: bool = False
    """Whether the value that a calibrated model would have is shown beside it"""
    floor: bool = False
    """Whether its statistic has a ``floor``, the value from smoothing alone, which is shown beside it"""
    at_most: float | None = None
    """The end of its axis on the page"""
    slow: bool = False
    """Whether its interval takes longer than all others together, and is computed only on request"""
    least_classes: int = 1
    """The least number of classes for which it is shown"""
    ordered: bool = False
    """Whether it is shown only where classes are stated to be ordered"""
    several_labels: bool = False
    """Whether it is for several labels per sample alone"""
    most_classes: int | None = None
    """The largest number of classes for which it is shown; None for any"""
    shown: frozenset[Place] = frozenset()
    plain: str = ""
    """Its title on the page; by default ``title``, as in the terminal"""
    about: str = ""
    """A few words below the page's title"""
    winner: str = ""
    """The words before the best method on the page of a study, such as "Most accurate" """

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The metric's own options, without those that the key fixes."""
        others = list(inspect.signature(self.make).parameters.values())[1 if self.takes_claims else 2 :]
        own = (parameter for parameter in others if parameter.kind is not inspect.Parameter.VAR_KEYWORD)
        return {parameter.name: parameter for parameter in own if parameter.name not in self.options}

    @property
    def takes_claims(self) -> bool:
        """Whether ``make`` takes claims of every shape, rather than probabilities and labels."""
        return _takes_claims(self.make)

    def statistic(self, claims: Claims, *args: Any, **options: Any) -> Statistic:
        """The statistic of claims.

        Raises:
            NoMeaning: The metric says nothing about claims of this shape.
        """
        self.check_options(options)
        return statistic_of(self.make, claims, *args, **self.options, **options)

    def check_options(self, names: Iterable[str], *, others: Iterable[str] = ()) -> None:
        """Refuse options that are neither the metric's own nor among ``others``."""
        known = [*self.parameters, *others]
        unknown = [] if self._takes_any else [name for name in names if name not in known]
        if unknown:
            guess, listed = did_you_mean(unknown[0], known), ", ".join(known) or "none"
            raise TypeError(f"`{self.key}` takes no option `{unknown[0]}`; its options: {listed}{guess}")

    @property
    def _takes_any(self) -> bool:
        """Whether other options are passed to another metric, which checks them."""
        *_, last = inspect.signature(self.make).parameters.values()
        return last.kind is inspect.Parameter.VAR_KEYWORD and last.annotation is Any

    def cost(self, value: float) -> float:
        """A number that is the smaller, the better the value is."""
        return abs(value) if self.signed else -value if self.larger_is_better else value

    def with_bins(self, n_bins: int) -> dict[str, int]:
        """The option that sets the number of bins, if the metric has bins."""
        return {"n_bins": n_bins} if "n_bins" in self.parameters else {}

    def described(self) -> "MetricData":
        """Plain data for a page that shows the metric."""
        return {
            "key": self.key,
            "name": self.plain or f"{self.title[0].upper()}{self.title[1:]}",
            "title": self.title,
            "short": self.short,
            "about": self.about,
            "percent": self.percent,
            "larger_is_better": self.larger_is_better,
            "signed": self.signed,
            "at_most": self.at_most,
            "winner": self.winner,
            "shown": sorted(self.shown),
        }


METRICS: Registry[Metric] = Registry("metric")
TWO_SETS = ("auroc", "fpr_at_95")
"""Metrics that compare the scores of known and unknown samples, and so are not statistics of labelled rows"""


class MetricFunction(Protocol[P]):
    """The type of a metric's public function."""

    __name__: str

    def __call__(self, probabilities: Array, labels: Array, *args: P.args, **kwargs: P.kwargs) -> float:
        """The metric as a float; with ``confidence`` an ``Interval``."""
        ...


class Declare(Protocol):
    """The decorator that ``metric`` makes."""

    @overload
    def __call__(self, make: Callable[Concatenate[Claims, P], Statistic]) -> MetricFunction[P]: ...
    @overload
    def __call__(self, make: Callable[Concatenate[Tensor, Tensor, P], Statistic]) -> MetricFunction[P]: ...


def metric(*, shown: Iterable[Place] = (), aliases: Iterable[str] = (), **about: Any) -> Declare:
    """Declare the decorated function as a metric and return its public function; ``about`` are fields of ``Metric``."""

    def declared(make: Callable[..., Statistic]) -> Any:
        @wraps(make)
        def measured(probabilities: Array, labels: Array, *args: Any, **kwargs: Any) -> float:
            declaration.check_options(kwargs, others=(*OF_ROWS, *SURENESS))
            options = dict(kwargs)
            of_rows = {name: options.pop(name, default) for name, default in OF_ROWS.items()}
            confidence, resamples, seed = (options.pop(name, default) for name, default in SURENESS.items())
            with threads.for_work(threads.numbers_in(probabilities)):
                claims = Claims.of(probabilities, labels, **of_rows)
                try:
                    statistic = statistic_of(make, claims, *args, **options)
                except NoMeaning as reason:
                    raise ValueError(f"`{make.__name__}` has no meaning here: {reason}") from None
                return answer(statistic, confidence, resamples, seed)

        measured.__signature__ = _public_signature(make)  # type: ignore[attr-defined]
        key = make.__name__
        declaration = Metric(key, make, function=measured, shown=frozenset(shown), **about)
        METRICS.add(key, declaration, aliases=aliases, origin=make)
        return measured

    return declared


def _public_signature(make: Callable[..., Statistic]) -> inspect.Signature:
    """The signature of the public function: any arrays, the metric's options, and the options of its interval."""
    options = list(inspect.signature(make).parameters.values())[1 if _takes_claims(make) else 2 :]
    variable = inspect.Parameter.VAR_KEYWORD
    rest = [parameter for parameter in options if parameter.kind is variable and parameter.annotation is Any]
    own = [parameter for parameter in options if parameter.kind is not variable]
    types = Sureness.__annotations__
    sure = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=types[name])
        for name, default in {**OF_ROWS, **SURENESS}.items()
    ]
    named = inspect.Parameter.POSITIONAL_OR_KEYWORD
    data = [inspect.Parameter(name, named, annotation=Array) for name in ("probabilities", "labels")]
    return inspect.Signature([*data, *own, *sure, *rest], return_annotation=float)


@cache
def _takes_claims(make: Callable[..., Statistic]) -> bool:
    return next(iter(inspect.signature(make).parameters), None) == "claims"


def statistic_of(make: Callable[..., Statistic], claims: Claims, *args: Any, **options: Any) -> Statistic:
    """The statistic that ``make`` computes of claims, with the clusters in which rows depend on each other.

    A function of probabilities and labels gets those of classes; rows that it averages get the weights here.
    """
    if _takes_claims(make):
        made = make(claims, *args, **options)
    else:
        made = make(*claims.classes(), *args, **options)
        if claims.weights is not None and not isinstance(made, Averaged):
            raise NoMeaning("it has no weights")
        made.weights = claims.weights
    made.clusters = claims.clusters
    return made


def declare(
    key: str,
    function: Callable[..., float],
    options: Mapping[str, Any],
    *,
    shown: Iterable[Place] = (),
    aliases: Iterable[str] = (),
    **about: Any,
) -> Metric:
    """Declare a metric with fixed options under another key."""
    base = METRICS[function.__name__]
    own = {"plain": "", "about": "", "winner": "", **about}  # the rest is that of the base
    made = replace(base, key=key, options=dict(options), function=None, shown=frozenset(shown), **own)
    return METRICS.add(key, made, aliases=aliases, origin=made.make)


def shown(place: Place, num_classes: int | None = None, *, ordered: bool = False) -> list[Metric]:
    """The metrics shown in ``place``, in the order of declaration, that ``num_classes`` classes allow.

    Those of ``ordered`` classes are among them only if the classes are.
    """
    return [
        metric
        for metric in METRICS.values()
        if place in metric.shown
        and ordered >= metric.ordered
        and (num_classes is None or metric.least_classes <= num_classes <= (metric.most_classes or num_classes))
    ]


def of(metric: str | Callable[..., float]) -> Metric | None:
    """A metric by its name or its function; None for a function that is not registered."""
    if isinstance(metric, str) and metric in METRICS:
        return METRICS[metric]
    name = metric if isinstance(metric, str) else getattr(metric, "__name__", "")
    if name in TWO_SETS:
        raise ValueError(
            f"`{name}` compares two sets of scores and is not a metric of labelled rows; with confidence=… it has an "
            "interval of its own."
        )
    if isinstance(metric, str):
        guess = did_you_mean(metric, METRICS.spellings)
        raise ValueError(f"`metric` must be one of {', '.join(METRICS)} or a function, got {metric!r}{guess}")
    return next((known for known in METRICS.values() if known.function is metric), None)


def named(metric: str | Callable[..., float]) -> Metric:
    """Like ``of``, but a function that is not registered is refused."""
    known = of(metric)
    if known is None:
        raise ValueError(f"`metric` must be one of {', '.join(METRICS)}, got {metric!r}.")
    return known
