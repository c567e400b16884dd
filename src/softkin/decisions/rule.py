"""The base class of rules: answers, a guarantee, and measures of the answers on labelled rows.

How a rule is fitted, kept and exported is in ``calibrators.fitted``, which also says what one of your own defines. A
rule defines ``measure`` and ``guarantee`` as well. Rules see logits or probabilities alike as float64 probabilities, in
blocks of rows.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from softkin._core import checks, notebooks
from softkin._core.checks import Array
from softkin._core.named_labels import labelled, numbered
from softkin._core.names import Registry
from softkin._io.files import number
from softkin.calibrators import Calibrator
from softkin.calibrators.fitted import Fitted, FittedModule
from softkin.calibrators.held_out import LARGEST, doubt_logits, two_columns
from softkin.metrics import Interval
from softkin.metrics.measurement import MeasuredData

BLOCK = 2**17  # numbers at a time: one megabyte of float64, so that the passes over a block stay in the cache


@dataclass(frozen=True)
class Rows:
    """(N, K) scores on the CPU, in their original dtype; only ``blocks`` converts them to float64."""

    values: Tensor
    are_probabilities: bool
    uniforms: Tensor | None = None
    """(N,) float64 numbers in [0, 1) that randomise the sets"""
    are_pairs: bool = False
    """Whether the two columns are those of a pair: the answer is wrong, or right"""
    groups: NDArray[np.str_] | None = None
    """(N,) the name of each row's group, where each group has limits of its own"""
    weights: Tensor | None = None
    """(N,) density ratios of the rows, float64"""

    @classmethod
    def of(cls, values: Array, from_probabilities: bool | None, *, least: int = 0, are_pairs: bool = False) -> "Rows":
        """Checked rows; one score for each sample is that of class 1 of two, or the confidence of pairs."""
        given = checks.as_tensor(values, "logits")
        if given.ndim == 1 or (given.ndim == 2 and given.shape[1] == 1):
            two = cls.of(two_columns(given.reshape(-1), from_probabilities), from_probabilities, least=least)
            return replace(two, are_pairs=are_pairs)
        if from_probabilities:
            return cls(checks.probabilities(values, "logits", least=least).cpu(), True)
        z = checks.logits(values, least=least).cpu()
        if z.dtype == torch.float64 and z.numel() and not max(-float(z.min()), float(z.max())) <= LARGEST:
            raise ValueError(f"`logits` must lie between ±{LARGEST:g}: differences of larger ones are infinite.")
        if from_probabilities is None:
            doubt_logits(z, stacklevel=5)
        return cls(z, False)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> torch.Size:
        """(N, K)."""
        return self.values.shape

    @property
    def num_classes(self) -> int:
        """K."""
        return self.values.shape[1]

    @property
    def source(self) -> Literal["logits", "probabilities"]:
        """What the scores are."""
        return "probabilities" if self.are_probabilities else "logits"

    def take(self, places: Tensor) -> "Rows":
        """The rows at ``places``."""
        uniforms, weights = (None if part is None else part[places] for part in (self.uniforms, self.weights))
        groups = None if self.groups is None else self.groups[places.numpy()]
        return Rows(self.values[places], self.are_probabilities, uniforms, self.are_pairs, groups, weights)

    def blocks(self, width: int | None = None) -> Iterator[tuple[slice, Tensor]]:
        """Slices of rows with their (n, K) float64 probabilities; ``width`` is the caller's values per row."""
        step = max(1, BLOCK // (width or self.num_classes))
        for start in range(0, len(self), step):
            rows = slice(start, min(start + step, len(self)))
            block = self.values[rows]
            yield rows, block.double() if self.are_probabilities else torch.softmax(block, dim=1, dtype=torch.float64)

    @property
    def are_float32(self) -> bool:
        """Whether these are float32 logits, whose float32 softmax is accurate to about 1e-6."""
        return not self.are_probabilities and self.values.dtype == torch.float32

    def exact_blocks(self, places: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Parts of ``places`` with the float64 probabilities of those rows."""
        for part in places.split(max(1, BLOCK // self.num_classes)):
            yield part, torch.softmax(self.values[part], dim=1, dtype=torch.float64)

    def rough_blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Slices of rows with their probabilities in float32."""
        step = max(1, 2 * BLOCK // self.num_classes)
        for start in range(0, len(self), step):
            rows = slice(start, min(start + step, len(self)))
            yield rows, torch.softmax(self.values[rows], dim=1)

    def logit_blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Slices of rows with their float64 logits."""
        step = max(1, BLOCK // self.num_classes)
        for start in range(0, len(self), step):
            rows = slice(start, min(start + step, len(self)))
            yield rows, self.values[rows].double()


def pseudo_uniforms(values: Tensor, seed: int) -> Tensor:
    """(N,) numbers in [0, 1) that look random, and depend only on ``seed`` and on each row's values as float32.

    A row gets the same number in any batch and at any position. Numbers drawn by position would repeat: rows that are
    predicted one at a time would all get the first.
    """
    generator = torch.Generator().manual_seed(seed)
    # Wrapping sums of products with random odd factors; int32, as int64 products take ten times as long.
    factors = torch.randint(-(2**30), 2**30, (values.shape[1],), generator=generator, dtype=torch.int32) * 2 + 1
    digests = torch.empty(len(values), dtype=torch.int64)
    step = max(1, 2 * BLOCK // values.shape[1])
    for start in range(0, len(values), step):
        rows = slice(start, min(start + step, len(values)))
        bits = values[rows].float().contiguous().view(torch.int32)
        bits = bits ^ (bits >> 16)  # round numbers have zeros in the lower half, which products do not mix upwards
        digests[rows] = bits.mul_(factors).sum(dim=1, dtype=torch.int32)
    for shift, factor in ((16, 0x45D9F3B45D9F3B), (29, 0x1B03738712FAD5C9), (32, 0x2545F4914F6CDD1D)):
        digests = (digests ^ (digests >> shift)) * factor  # so that nearby sums become unrelated numbers
    return ((digests >> 11) & (2**53 - 1)).double() / 2**53


def set_apart(num_samples: int, wanted: int, seed: int) -> tuple[Tensor, Tensor]:
    """``wanted`` random rows for choosing a rule's parameters, and the other rows, which its guarantee uses."""
    order = torch.randperm(num_samples, generator=torch.Generator().manual_seed(seed))
    return order[:wanted].sort().values, order[wanted:].sort().values


SUPERCLASSES = "superclasses"  # the option that groups classes more coarsely


class OutcomeData(TypedDict):
    """An ``Outcome`` as plain data."""

    num_samples: int
    measures: dict[str, MeasuredData]
    details: dict[str, Any]


class Promise(NamedTuple):
    """A bound that a rule guarantees of one of its measures."""

    measure: Literal["error", "coverage"]
    """The share of wrong answers, of which the bound is the most; or that of sets with the true class, the least"""
    share: float

    @property
    def words(self) -> str:
        """The bound as its guarantee says it."""
        return f"at {'most' if self.measure == 'error' else 'least'} {100 * self.share:g} %"

    def missed(self, value: float, low: float, high: float) -> Literal["no", "perhaps", "yes"]:
        """Whether a measured value misses the bound: "perhaps" if its interval does not exclude that it is kept."""
        beyond = value > self.share if self.measure == "error" else value < self.share
        return "no" if not beyond else "perhaps" if low <= self.share <= high else "yes"


@dataclass(frozen=True)
class Outcome(Mapping[str, Interval]):
    """The results of a rule on labelled rows: measures by name, each with its interval, and ``details`` as plain data.

    ``coverage``, ``worst_class``, ``size`` and ``superclasses`` describe sets; ``answered``, ``error`` and
    ``information`` describe single answers; ``cost`` is present for rules that have one.
    """

    num_samples: int
    measures: dict[str, Interval]
    details: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Interval:
        return self.measures[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.measures)

    def __len__(self) -> int:
        return len(self.measures)

    def _repr_html_(self) -> str:
        rows = [
            [name, f"{one.value:.4g}", notebooks.whisker(one, one.low, one.high), f"{one.low:.4g} to {one.high:.4g}"]
            for name, one in self.measures.items()
        ]
        return notebooks.table(rows, head=["measure", "value", "", "interval"], title=f"{self.num_samples:,} samples")

    def to_dict(self) -> OutcomeData:
        """The outcome as plain data."""
        measures: dict[str, MeasuredData] = {
            name: {
                "value": number(one.value),
                "low": number(one.low),
                "high": number(one.high),
                "level": one.level,
            }
            for name, one in self.measures.items()
        }
        return {"num_samples": self.num_samples, "measures": measures, "details": self.details}


REGISTRY: "Registry[type[Rule]]" = Registry("rule")
"""All rule classes, in the order of their definition"""


class Rule(Fitted[Rows]):
    """A decision rule, fitted on held-out rows so that a promise holds on new ones.

    ``fit`` and ``predict`` take torch tensors and numpy arrays of shape (N, K): logits, or probabilities with
    ``from_probabilities=True``. Numbers are compared in float64, in blocks of rows. The rows of ``fit`` must not be
    those that the network, or a calibrator before the rule, was fitted on.

    A rule of your own is known to commands, files and comparisons once its class statement names it:

    ``class Coin(Rule, name="coin", title="Coin"): …``
    """

    what = "rule"
    registry = REGISTRY
    overlap_means = "its guarantee does not hold for them"

    def __init_subclass__(
        cls, *, name: str | None = None, title: str | None = None, aliases: Sequence[str] = ()
    ) -> None:
        super().__init_subclass__()
        cls.register(name, title, aliases)

    @abstractmethod
    def measure(self, answers: Tensor, rows: Rows, labels: Tensor, level: float, options: Mapping[str, Any]) -> Outcome:
        """The measures of the answers; ``options`` are ``superclasses`` and ``costs`` of ``evaluate``, if given."""

    @abstractmethod
    def guarantee(self) -> str:
        """The promise of the fitted rule, in one sentence."""

    @property
    def promised(self) -> Promise | None:
        """The bound of a measure that the guarantee states; None if it bounds none that ``evaluate`` returns."""
        return None

    takes_pairs: ClassVar[bool] = False
    """Whether the rule can be fitted on confidences and whether they were right"""

    calibration_: str | None = None
    """What had calibrated the rows of the fit, if their file is known: "" if nothing had"""

    def attributes(self) -> dict[str, Any]:
        return super().attributes() | {"calibration_": self.calibration_}

    def restore(self, attributes: Mapping[str, Any]) -> None:
        super().restore(attributes)
        calibration = attributes.get("calibration_")  # rules of an earlier softkin have none
        self.calibration_ = None if calibration is None else str(calibration)[:300]

    def beside(self, rows: Rows, groups: Sequence[Any] | Array | None, weights: Array | None, *, new: bool) -> Rows:
        """The rows with their groups and weights, where a theorem knows them; ``new`` unless they are a fit's."""
        for name, given in {"groups": groups, "weights": weights}.items():
            if given is not None:
                raise ValueError(
                    f"`{name}` must be left out: the guarantee of {type(self).__name__} knows no {name} of rows; that "
                    "of PredictionSets does."
                )
        return rows

    def takes_logits(self) -> bool:
        """Whether the rule can only be fitted on logits."""
        return False

    def reads_logits(self) -> bool:
        """Whether the fitted formula takes logits rather than probabilities."""
        return False

    # Fitting and predicting

    @torch.no_grad()
    def fit(
        self,
        logits: Array,
        labels: Array,
        *,
        from_probabilities: bool | None = None,
        sample_ids: Sequence[Any] | Array | None = None,
        class_names: Sequence[str] | None = None,
        groups: Sequence[Any] | Array | None = None,
        weights: Array | None = None,
    ) -> Self:
        """Fit on held-out rows.

        Args:
            logits: (N, K), or probabilities with ``from_probabilities=True``. One score for each sample, (N,) or
                (N, 1), is that of a binary model with labels 0 and 1, or a confidence with booleans, which say whether
                the answer was right.
            labels: (N,) classes 0 … K−1, or texts: the names of a data frame's columns, or all classes in alphabetical
                order.
            from_probabilities: Whether ``logits`` are probabilities, such as those of a calibrator; None: no, with a
                warning if they look so.
            sample_ids: Names or numbers of the samples. A digest of each is kept, and ``predict`` warns about samples
                that are among them: the promise does not hold for those.
            class_names: Names that are kept with the rule, also in files.
            groups: (N,) the group of each row, such as a site, for a promise to each group. Only ``PredictionSets``
                takes groups and weights; other rules refuse them.
            weights: (N,) density ratios, for a promise about rows of another distribution.
        """
        labels, logits, sample_ids, groups, weights = labelled(labels, logits, sample_ids, groups, weights)
        labels, class_names = numbered(labels, logits, class_names)
        y = checks.as_tensor(labels, "labels")
        pairs = y.dtype == torch.bool
        rows = Rows.of(logits, from_probabilities, least=1, are_pairs=pairs)
        rows = self.beside(rows, groups, weights, new=False)
        if rows.are_pairs and not self.takes_pairs:
            able = ", ".join(kind.__name__ for kind in self.registry.values() if kind.takes_pairs)
            raise ValueError(
                f"{type(self).__name__} needs scores of all classes, got confidences with booleans; {able} takes these."
            )
        return self.fit_checked(
            rows, y.to(torch.int64) if rows.are_pairs else labels, sample_ids=sample_ids, class_names=class_names
        )

    def fit_checked(
        self, rows: Rows, labels: Array, *, sample_ids: Sequence[Any] | Array | None, class_names: Sequence[str] | None
    ) -> Self:
        """``fit`` to checked rows."""
        self._check_source(rows)
        self.calibration_ = None
        return self.fit_to(rows, labels, source=rows.source, sample_ids=sample_ids, class_names=class_names)

    def _check_source(self, rows: Rows) -> None:
        if self.takes_logits() and rows.are_probabilities:
            raise ValueError(f"this {type(self).__name__} needs logits, but from_probabilities=True was given.")

    @torch.no_grad()
    def predict(
        self,
        logits: Array,
        *,
        from_probabilities: bool | None = None,
        sample_ids: Sequence[Any] | Array | None = None,
        class_names: Sequence[str] | None = None,
        groups: Sequence[Any] | Array | None = None,
        weights: Array | None = None,
    ) -> Any:
        """The rule's answers, as numpy arrays or torch tensors like the input, on the same device.

        Args:
            logits: (N, K), or probabilities with ``from_probabilities=True``.
            from_probabilities: Whether ``logits`` are probabilities; None: no, with a warning if they look so.
            sample_ids: If the fit had sample ids too, samples that occur in both cause a warning.
            class_names: The names of the columns; those of a data frame are known. If the fit had names too, they must
                be the same, in the same order.
            groups: (N,) the groups of the rows, if the fit had groups.
            weights: (N,) the density ratios of the rows, if the fit had weights.
        """
        rows = self.new_rows(logits, from_probabilities, sample_ids, class_names)
        rows = self.beside(rows, groups, weights, new=True)
        return checks.like(self.answers(rows), logits)

    def new_rows(
        self,
        logits: Array,
        from_probabilities: bool | None,
        sample_ids: Sequence[Any] | Array | None,
        class_names: Sequence[str] | None = None,
        *,
        least: int = 0,
    ) -> Rows:
        """Checked rows, of the classes and the kind that the rule takes."""
        if self.order_of(logits, class_names) is not None:
            raise ValueError(
                "the scores have the classes of the rule in another order, and its answers number the classes: bring "
                "the columns into the order of `rule.class_names_` first (`aligned` has their places)."
            )
        rows = Rows.of(logits, from_probabilities, least=least)
        self._check_source(rows)
        self.check_rows(rows, sample_ids, stacklevel=5)
        return replace(rows, are_pairs=getattr(self, "of_pairs_", False))  # two columns: that it is wrong, or right

    def try_out(self) -> None:
        self.answers(Rows(torch.eye(3, self.num_classes_, dtype=torch.float64), False))
        _ = repr(self), self.guarantee()

    @torch.no_grad()
    def evaluate(
        self,
        logits: Array,
        labels: Array,
        *,
        from_probabilities: bool | None = None,
        confidence: float = 0.95,
        superclasses: Array | None = None,
        costs: Array | None = None,
        class_names: Sequence[str] | None = None,
        groups: Sequence[Any] | Array | None = None,
        weights: Array | None = None,
    ) -> Outcome:
        """Measure the rule on labelled rows other than those of the fit; each number has an interval.

        Args:
            logits: (N, K).
            labels: (N,).
            from_probabilities: Whether ``logits`` are probabilities; None: no, with a warning if they look so.
            confidence: The level of the intervals, which are Wilson's for shares and Student's for means; that of the
                worst class is Clopper and Pearson's, for all classes at once.
            superclasses: (K,) super-class of each class; sets are then also counted in super-classes.
            costs: (K, K) cost of answer j where the truth is k, in row k. Answers then also have a cost; for ``Costs``
                these replace the rule's own.
            class_names: The names of the columns, as for ``predict``.
            groups: (N,) the groups of the rows, if the fit had groups.
            weights: (N,) the density ratios of the rows, if the fit had weights. They change the answers; measures are
                those of the rows as they are.
        """
        labels, logits, groups, weights = labelled(labels, logits, groups, weights)
        labels, _ = numbered(labels, logits, self.class_names_)
        rows = self.new_rows(logits, from_probabilities, None, class_names, least=1)
        rows = self.beside(rows, groups, weights, new=True)
        given = checks.as_tensor(labels, "labels")
        known = given.to(torch.int64) if rows.are_pairs else labels
        y = checks.class_labels(known, num_samples=len(rows), num_classes=rows.num_classes).cpu()
        options: dict[str, Any] = {}
        if superclasses is not None:
            options[SUPERCLASSES] = checks.group_numbers(superclasses, self.num_classes_, "superclasses")
        if costs is not None:
            options["costs"] = checks.square(costs, "costs")
            if len(options["costs"]) != self.num_classes_:
                raise ValueError(
                    f"`costs` must cover the {self.num_classes_} classes of the rule, got {len(options['costs'])}."
                )
        return self.measure(self.answers(rows), rows, y, checks.level(confidence), options)

    def as_module(self, calibrator: Calibrator | None = None, *, dtype: torch.dtype = torch.float64) -> nn.Module:
        """The rule as a module to append to a network: it maps logits to answers, and exports to ONNX.

        It computes in float64 for logits of any dtype, so that its answers are those of ``predict``: an answer is a
        comparison with a threshold, and float32 would decide a few in a million differently.

        Args:
            calibrator: A fitted calibrator between the network and the rule; the rule must then have been fitted on its
                probabilities.
            dtype: The dtype for the computation, for hardware without float64.
        """
        self.check_fitted()
        before: nn.Module = nn.Identity() if self.reads_logits() else nn.Softmax(dim=1)
        if calibrator is not None:
            if not isinstance(calibrator, Calibrator):
                raise TypeError(f"`calibrator` must be a fitted calibrator, got {type(calibrator).__name__}.")
            before = calibrator.as_module()
            if calibrator.num_classes_ != self.num_classes_:
                raise ValueError(
                    f"`calibrator` must have the {self.num_classes_} classes of the rule, "
                    f"got {calibrator.num_classes_}."
                )
            if self.fitted_from_ != "probabilities":
                raise ValueError(
                    "the rule was fitted on logits, and a calibrator returns probabilities: fit it on those, with "
                    "from_probabilities=True."
                )
        return FittedModule(
            type(self).__name__, *self.formula(), before=before, num_classes=self.num_classes_, dtype=dtype
        )


def load(folder: str | Path) -> Rule:
    """Read a rule that ``save`` wrote.

    Raises:
        SoftkinError: There is no rule in the folder, or it is damaged.
    """
    return Rule.load(folder)


def information(right: Tensor, leaves: Tensor, num_classes: int) -> Tensor:
    """Bits of each answer: log₂(K / classes that it leaves open) if it is right, 0 if it is wrong."""
    return torch.where(right, math.log2(num_classes) - leaves.double().log2(), 0.0)
