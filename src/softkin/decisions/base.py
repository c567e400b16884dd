"""The base class of rules: fit, predict, guarantee, evaluation on labelled rows, files and modules.

A rule is a final class that defines how it is fitted (``_fit``), how it answers (``_predict``), which attributes the
fit sets (``_fitted``), and how its answers are measured (``_measured``). The class statement names the rule, which
registers it. Everything else is defined here once.
"""

import inspect
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from softkin._core import checks
from softkin._core.checks import Array
from softkin._core.names import Registry
from softkin._io.files import number
from softkin.calibrators.base import Calibrator
from softkin.calibrators.inputs import digests
from softkin.decisions.rows import Rows, like
from softkin.distances.trees import Tree
from softkin.metrics import Interval

SUPERCLASSES = "superclasses"  # the option that groups classes more coarsely


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

    def to_dict(self) -> dict[str, Any]:
        """The outcome as plain data."""
        measures = {
            name: {part: number(getattr(value, part)) for part in ("value", "low", "high", "level")}
            for name, value in self.measures.items()
        }
        return {"num_samples": self.num_samples, "measures": measures, "details": self.details}


class Rule(ABC):
    """A decision rule, fitted on held-out rows so that a promise holds on new ones.

    ``fit`` and ``predict`` take torch tensors and numpy arrays of shape (N, K): logits, or probabilities with
    ``from_probabilities=True``. Numbers are compared in float64, in blocks of rows. The rows of ``fit`` must not be
    those that the network, or a calibrator before the rule, was fitted on.

    A rule of your own is known to commands, files and comparisons once its class statement names it:

    ``class Coin(Rule, name="coin", title="Coin"): …``
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""

    num_classes_: int
    num_samples_: int
    fitted_from_: str
    class_names_: list[str] | None
    sample_digests_: Tensor | None

    _fitted: ClassVar[tuple[str, ...]]
    """The attributes that the fit sets: tensors, numbers, texts, None. ``save`` writes them"""

    def __init_subclass__(
        cls, *, name: str | None = None, title: str | None = None, aliases: Sequence[str] = ()
    ) -> None:
        super().__init_subclass__()
        if name is None:
            return
        cls.name, cls.title = name, title or name
        REGISTRY.add_class(cls, name, cls.title, aliases)

    @abstractmethod
    def _fit(self, rows: Rows, labels: Tensor) -> None:
        """Fit to checked rows and int64 labels."""

    @abstractmethod
    def _predict(self, rows: Rows) -> Tensor:
        """The answers for checked rows."""

    @abstractmethod
    def _measured(
        self, answers: Tensor, rows: Rows, labels: Tensor, level: float, options: Mapping[str, Any]
    ) -> Outcome:
        """The measures of the answers."""

    @abstractmethod
    def _formula(self) -> tuple[Callable[..., Tensor], list[Tensor]]:
        """A function from (n, K) probabilities and these float64 tensors to answers, in ONNX operations."""

    @abstractmethod
    def guarantee(self) -> str:
        """The promise of the fitted rule, in one sentence."""

    def _check_options(self) -> None:  # noqa: B027  a rule without options has none to check
        """Refuse invalid options."""

    def _takes_logits(self) -> bool:
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
        from_probabilities: bool = False,
        sample_ids: Sequence[Any] | Array | None = None,
        class_names: Sequence[str] | None = None,
    ) -> Self:
        """Fit on held-out rows.

        Args:
            logits: (N, K), or probabilities with ``from_probabilities=True``.
            labels: (N,) classes 0 … K−1.
            from_probabilities: Whether ``logits`` are probabilities, such as those of a calibrator.
            sample_ids: Names or numbers of the samples. A digest of each is kept, and ``predict`` warns about samples
                that are among them: the promise does not hold for those.
            class_names: Names that are kept with the rule, also in files.
        """
        return self._fit_to(
            Rows.of(logits, from_probabilities, least=1), labels, sample_ids=sample_ids, class_names=class_names
        )

    def _fit_to(
        self, rows: Rows, labels: Array, *, sample_ids: Sequence[Any] | Array | None, class_names: Sequence[str] | None
    ) -> Self:
        self._check_options()
        y = checks.class_labels(labels, num_samples=len(rows), num_classes=rows.num_classes).cpu()
        ids = None if sample_ids is None else digests(sample_ids, num_samples=len(rows))
        names = None if class_names is None else checks.class_names(class_names, num_classes=rows.num_classes)
        if self._takes_logits() and rows.are_probabilities:
            raise ValueError(f"this {type(self).__name__} needs logits, but from_probabilities=True was given.")
        self.__dict__.pop("num_samples_", None)  # a failed refit must not leave half of the old fit
        self.num_classes_ = rows.num_classes
        self.fitted_from_ = "probabilities" if rows.are_probabilities else "logits"
        self.class_names_, self.sample_digests_ = names, ids
        self._fit(rows, y)
        self.num_samples_ = len(rows)
        return self

    @torch.no_grad()
    def predict(
        self,
        logits: Array,
        *,
        from_probabilities: bool = False,
        sample_ids: Sequence[Any] | Array | None = None,
    ) -> Any:
        """The rule's answers, as numpy arrays or torch tensors like the input, on the same device.

        Args:
            logits: (N, K), or probabilities with ``from_probabilities=True``.
            from_probabilities: Whether ``logits`` are probabilities.
            sample_ids: If the fit had sample ids too, samples that occur in both cause a warning.
        """
        return like(self._answers(self._rows(logits, from_probabilities, sample_ids)), logits)

    def _answers(self, rows: Rows) -> Tensor:
        return self._predict(rows)

    def _rows(
        self, logits: Array, from_probabilities: bool, sample_ids: Sequence[Any] | Array | None, *, least: int = 0
    ) -> Rows:
        """Checked rows with the number of classes of the fit."""
        self._check_fitted()
        rows = Rows.of(logits, from_probabilities, least=least)
        if rows.num_classes != self.num_classes_:
            raise ValueError(
                f"`logits` must have the {self.num_classes_} classes that the rule was fitted on, "
                f"got {rows.num_classes}."
            )
        if from_probabilities and self._takes_logits():
            raise ValueError(f"this {type(self).__name__} needs logits, but from_probabilities=True was given.")
        if sample_ids is not None and self.sample_digests_ is not None:
            common = int(torch.isin(digests(sample_ids, num_samples=len(rows)), self.sample_digests_).sum())
            if common:
                warnings.warn(
                    f"{common} of {len(rows)} samples are among those that the {type(self).__name__} was fitted on; "
                    "its guarantee does not hold for them.",
                    stacklevel=3,
                )
        return rows

    def _check_fitted(self) -> None:
        if not hasattr(self, "num_samples_"):
            raise ValueError(f"this {type(self).__name__} is not fitted yet: call fit(logits, labels) first.")

    @torch.no_grad()
    def evaluate(
        self,
        logits: Array,
        labels: Array,
        *,
        from_probabilities: bool = False,
        confidence: float = 0.95,
        superclasses: Array | None = None,
        costs: Array | None = None,
    ) -> Outcome:
        """Measure the rule on labelled rows other than those of the fit; each number has an interval.

        Args:
            logits: (N, K).
            labels: (N,).
            from_probabilities: Whether ``logits`` are probabilities.
            confidence: The level of the intervals, which are Wilson's for shares and Student's for means; that of the
                worst class is Clopper and Pearson's, for all classes at once.
            superclasses: (K,) super-class of each class; sets are then also counted in super-classes.
            costs: (K, K) cost of answer j where the truth is k, in row k. Answers then also have a cost; for ``Costs``
                these replace the rule's own.
        """
        rows = self._rows(logits, from_probabilities, None, least=1)
        y = checks.class_labels(labels, num_samples=len(rows), num_classes=rows.num_classes).cpu()
        options: dict[str, Any] = {}
        if superclasses is not None:
            options[SUPERCLASSES] = checks.group_numbers(superclasses, self.num_classes_, "superclasses")
        if costs is not None:
            options["costs"] = checks.square(costs, "costs")
            if len(options["costs"]) != self.num_classes_:
                raise ValueError(
                    f"`costs` must cover the {self.num_classes_} classes of the rule, got {len(options['costs'])}."
                )
        return self._measured(self._answers(rows), rows, y, checks.level(confidence), options)

    # Files, options, module

    def save(self, folder: str | Path) -> None:
        """Write ``rule.json`` and a safetensors file into ``folder``; a crash leaves the old rule or the new.

        ``softkin.decisions.load`` reads the rule.
        """
        from softkin.decisions import files

        self._check_fitted()
        files.save(self, Path(folder))

    @classmethod
    def option_names(cls) -> list[str]:
        """The names of the constructor's options."""
        return list(inspect.signature(cls).parameters)

    @classmethod
    def required_options(cls) -> set[str]:
        """The names of the options without a default."""
        parameters = inspect.signature(cls).parameters
        return {name for name in cls.option_names() if parameters[name].default is inspect.Parameter.empty}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options by name."""
        return {name: getattr(self, name) for name in self.option_names()}

    def unfitted(self) -> Self:
        """A new unfitted rule with the same options."""
        return type(self)(**self.get_params())

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        changed = []
        for name, value in self.get_params().items():
            if isinstance(value, Tensor):
                changed.append(f"{name}={'×'.join(map(str, value.shape))} numbers")
            elif value is not defaults[name].default and value != defaults[name].default:
                changed.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(changed)})"

    def as_module(self, calibrator: Calibrator | None = None, *, dtype: torch.dtype = torch.float64) -> nn.Module:
        """The rule as a module to append to a network: it maps logits to answers, and exports to ONNX.

        It computes in float64 for logits of any dtype, so that its answers are those of ``predict``: an answer is a
        comparison with a threshold, and float32 would decide a few in a million differently.

        Args:
            calibrator: A fitted calibrator between the network and the rule; the rule must then have been fitted on its
                probabilities.
            dtype: The dtype for the computation, for hardware without float64.
        """
        from softkin.decisions.export import as_module

        self._check_fitted()
        return as_module(self, calibrator, dtype)


REGISTRY: Registry[type[Rule]] = Registry("rule")
"""All rule classes, in the order of their definition"""


def information(right: Tensor, leaves: Tensor, num_classes: int) -> Tensor:
    """Bits of each answer: log₂(K / classes that it leaves open) if it is right, 0 if it is wrong."""
    return torch.where(right, math.log2(num_classes) - leaves.double().log2(), 0.0)


def tree_of(value: Any) -> Tree:
    """``value``, refused unless it is a tree."""
    if not isinstance(value, Tree):
        raise TypeError(
            f"`tree` must be a Tree, such as Tree.from_superclasses(groups) makes, got {type(value).__name__}."
        )
    return value
