"""What is fitted on held-out rows, kept, and applied to others: the base of calibrators and of decision rules.

``Fitted`` has what both do alike: options, registration, fitting, the comparison of new rows with those of the fit,
files, modules and ``repr``. ``calibrators.Calibrator`` adds probabilities and certificates, ``decisions.Rule``
guarantees and outcomes. ``Certificate`` says how a fit ended, and its effect on held-out samples.
"""

import hashlib
import inspect
import json
import math
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from softkin import SoftkinError, __version__
from softkin._core import checks, notebooks, threads
from softkin._core.checks import Array
from softkin._core.named_labels import in_order, names_of
from softkin._core.names import Registry, did_you_mean
from softkin._io import bundles, files

FORMAT = 1
Source = Literal["logits", "probabilities"]
Formula = tuple[Callable[..., Tensor], list[Tensor]]


class Shaped(Protocol):
    """(N, K) scores."""

    @property
    def shape(self) -> Any:
        """(N, K)."""

    def __len__(self) -> int: ...


R = TypeVar("R", bound=Shaped)


class Fitted(ABC, Generic[R]):
    """Something that is fitted on labelled (N, K) scores and then answers for others.

    To write one of your own, derive from ``Calibrator`` or ``Rule``, give the class a name (``class Mine(Calibrator,
    name="mine")``), which registers it, and define:

    - ``__init__``: keyword options, each kept as an attribute of its name; call ``check_options`` at its end
    - ``check_options``: refuse options that make no sense
    - ``kept``: the names of the attributes that the fit sets: tensors, numbers, texts, None. ``save`` writes them
    - ``fit_rows(rows, labels)``: set them. A calibrator gets float64 logits, and returns a ``Solution``; a rule gets
      ``Rows``
    - ``answer(rows)``: probabilities, or decisions
    - ``formula()``, if it can be computed by a module: a function of scores and tensors in ONNX operations, and the
      tensors. ``Parametric`` makes both from one formula
    - ``summary``: the fitted numbers in a few words

    Options that are neither plain data nor tensors nor fitted things need ``plain_options`` and ``from_plain`` as well.
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    what: ClassVar[str]
    """The word for its kind, which is also the name of its file"""
    registry: ClassVar[Registry[Any]]
    """All named classes of its kind, in the order of their definition"""
    overlap_means: ClassVar[str]
    """The consequence of rows that it was fitted on being among new ones, for the warning"""
    takes_weights: ClassVar[bool] = False
    """Whether ``fit_rows`` takes (N,) weights of the rows, with the mean 1, as its third argument"""
    kept: ClassVar[tuple[str, ...]] = ()
    """The attributes that the fit sets and ``save`` writes: tensors, numbers, texts, None"""

    num_samples_: int
    num_classes_: int
    class_names_: list[str] | None
    fitted_from_: Source
    sample_digests_: Tensor | None

    @classmethod
    def register(cls, name: str | None, title: str | None, aliases: Sequence[str]) -> None:
        """Make a class known by its name, title and aliases; for the class statement of each kind."""
        if name is not None:
            cls.name, cls.title = name, title or name
            cls.registry.add_class(cls, name, cls.title, aliases)

    # What a class of its own defines

    @abstractmethod
    def fit_rows(self, rows: R, labels: Tensor) -> Any:
        """Fit to checked rows and int64 labels: set the attributes that ``kept`` names."""

    @abstractmethod
    def answer(self, rows: R) -> Tensor:
        """The answers for checked rows."""

    def formula(self) -> Formula:
        """A function of (n, K) scores and these float64 tensors, in ONNX operations, that returns the answers."""
        raise TypeError(
            f"{type(self).__name__} has no fixed number of parameters and cannot become a module; "
            "use it on the network's logits."
        )

    def check_options(self) -> None:
        """Refuse options that make no sense."""

    def summary(self) -> str:
        """The fitted numbers in a few words."""
        return ""

    # What each kind defines

    def answers(self, rows: R) -> Tensor:
        """What ``predict`` answers for checked rows, if that differs from ``answer``."""
        return self.answer(rows)

    def conclude(self, rows: R, labels: Tensor, end: Any, weights: Tensor | None = None) -> None:
        """Finish a fit; ``end`` is what ``fit_rows`` returned."""

    @abstractmethod
    def try_out(self) -> None:
        """Answer a few rows, to see whether numbers from a file fit together; raise an error if not."""

    # Fitting

    def fit_to(
        self,
        rows: R,
        labels: Array,
        *,
        source: Source,
        sample_ids: Sequence[Any] | Array | None,
        class_names: Sequence[str] | None,
        weights: Tensor | None = None,
    ) -> Self:
        """Fit to checked rows: what all fits take and keep is checked and kept here."""
        self.check_options()
        num_samples, num_classes = rows.shape
        if weights is not None and not self.takes_weights:
            able = ", ".join(kind.__name__ for kind in self.registry.values() if kind.takes_weights)
            raise ValueError(
                f"{type(self).__name__} takes neither weights nor soft labels; these do: {able or 'none of its kind'}."
            )
        y = checks.class_labels(labels, num_samples=num_samples, num_classes=num_classes).cpu()
        ids = None if sample_ids is None else digests(sample_ids, num_samples=num_samples)
        names = None if class_names is None else checks.class_names(class_names, num_classes=num_classes)
        self.__dict__.pop("num_samples_", None)  # a failed refit must not leave half of the old fit
        self.num_classes_, self.fitted_from_ = num_classes, source
        self.class_names_, self.sample_digests_ = names, ids
        with threads.for_work(num_samples * num_classes):
            end = self.fit_rows(rows, y) if weights is None else self.fit_rows(rows, y, weights)  # type: ignore[call-arg]
            self.conclude(rows, y, end, *(() if weights is None else (weights,)))
        self.num_samples_ = num_samples
        return self

    @property
    def is_fitted(self) -> bool:
        """Whether a fit has succeeded."""
        return hasattr(self, "num_samples_")

    def check_fitted(self) -> None:
        """Refuse to go on without a fit."""
        if not self.is_fitted:
            raise ValueError(f"this {type(self).__name__} is not fitted yet: call fit(logits, labels) first.")

    # New rows

    def check_rows(self, rows: R, sample_ids: Sequence[Any] | Array | None = None, *, stacklevel: int = 4) -> None:
        """Refuse rows of another number of classes, and warn about those that the fit had seen."""
        if rows.shape[1] != self.num_classes_:
            raise ValueError(
                f"`logits` must have the {self.num_classes_} classes that the {self.what} was fitted on, "
                f"got {rows.shape[1]}."
            )
        if sample_ids is None:
            return
        ids = digests(sample_ids, num_samples=len(rows))
        common = 0 if self.sample_digests_ is None else int(torch.isin(ids, self.sample_digests_).sum())
        if common:
            warnings.warn(
                f"{common} of {len(rows)} samples are among those that the {type(self).__name__} was fitted on; "
                f"{self.overlap_means}.",
                stacklevel=stacklevel,
            )

    def aligned(self, class_names: Sequence[str] | None) -> Tensor | None:
        """The columns of new scores in the order of the fit, (K,): ``scores[:, fitted.aligned(names)]``.

        None if the order is the same, or if the fit or the new scores have no class names.

        Args:
            class_names: The names of the new scores' columns.

        Raises:
            ValueError: They are other classes than those of the fit.
        """
        self.check_fitted()
        refused = f"`class_names` must be the list that the {self.what} was fitted on, in any order, but"
        names = None if class_names is None else in_order(class_names)
        return checks.class_order(names, self.class_names_, refused)

    def order_of(self, scores: Any, class_names: Sequence[str] | None) -> Tensor | None:
        """Like ``aligned``, for scores whose names may be the columns of a data frame."""
        self.check_fitted()
        return self.aligned(names_of(scores, self.class_names_) if class_names is None else class_names)

    # Options, in the form that scikit-learn's clone and searches need

    @classmethod
    def option_names(cls) -> list[str]:
        """The names of the constructor's options."""
        return list(inspect.signature(cls).parameters)

    @classmethod
    def required_options(cls) -> set[str]:
        """The names of the options without a default."""
        parameters = inspect.signature(cls).parameters
        return {name for name in parameters if parameters[name].default is inspect.Parameter.empty}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options by name."""
        return {name: getattr(self, name) for name in self.option_names()}

    def set_params(self, **options: Any) -> Self:
        """Change options; the next ``fit`` uses them."""
        known = self.option_names()
        for name, value in options.items():
            if name not in known:
                raise ValueError(
                    f"{type(self).__name__} has no option {name!r}; it has: {', '.join(known) or 'none'}"
                    f"{did_you_mean(name, known)}"
                )
            setattr(self, name, value)
        self.check_options()
        return self

    def unfitted(self) -> Self:
        """A new one with the same options."""
        return type(self)(**self.get_params(deep=False))

    def _changed(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        defaults = inspect.signature(type(self)).parameters
        return {
            name: value
            for name, value in self.get_params(deep=False).items()
            if value is not defaults[name].default and (hasattr(value, "shape") or value != defaults[name].default)
        }

    def in_words(self) -> str:
        """The name that commands take, and the options that differ from their defaults.

        Example:
            >>> from softkin.calibrators import StructuredMatrixScaling
            >>> StructuredMatrixScaling(strength=1.0).in_words()
            'structured-matrix (strength 1)'
        """
        said = {key.replace("_", " "): _said(value) for key, value in self._changed().items()}
        options = [f"{key} {value}" for key, value in said.items() if value]
        name = self.name or re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(self).__name__).lower()
        return f"{name} ({', '.join(options)})" if options else name

    def __repr__(self) -> str:
        changed = [f"{name}={_shown(value)}" for name, value in self._changed().items()]
        return f"{type(self).__name__}({', '.join(changed)})"

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [(self.what, repr(self))]
        if not hasattr(self, "num_classes_"):
            return notebooks.table([*rows, ("", "not fitted yet")])
        rows.append(("fitted on", f"{self.num_samples_:,} rows, {self.num_classes_} classes"))
        for name in self.kept:
            value = getattr(self, name, None)
            if isinstance(value, Tensor):
                value = f"{value.flatten()[0]:.4g}" if value.numel() == 1 else f"tensor of shape {tuple(value.shape)}"
            if value is not None:
                rows.append((name, f"{value:.4g}" if isinstance(value, float) else str(value)))
        promise = getattr(self, "guarantee", None)
        return notebooks.table([*rows, *([("promise", promise())] if promise is not None else [])])

    # Files

    def save(self, folder: str | Path) -> None:
        """Write one file into ``folder``, atomically: whoever reads meanwhile gets the old one or the new one, whole.

        Nothing in the file is ever executed; the ``load`` of its kind reads it.
        """
        self.check_fitted()
        tensors: dict[str, Tensor] = {}
        about = {"format": FORMAT, "softkin": __version__, self.what: _packed(self, "", tensors)}
        bundles.write(self.file_in(folder), about, tensors)

    @property
    def fingerprint(self) -> str:
        """Eight hexadecimal digits that tell this fit from others: a digest of all that ``save`` writes."""
        self.check_fitted()
        tensors: dict[str, Tensor] = {}
        digest = hashlib.sha256(json.dumps(_packed(self, "", tensors), sort_keys=True).encode())
        for name in sorted(tensors):
            digest.update(f"{name} {tuple(tensors[name].shape)} ".encode())
            digest.update(tensors[name].contiguous().numpy().tobytes())
        return digest.hexdigest()[:8]

    @classmethod
    def file_in(cls, folder: str | Path) -> Path:
        """The file that ``save`` writes."""
        return Path(folder) / f"{cls.what}.safetensors"

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read what ``save`` wrote.

        Raises:
            SoftkinError: The folder holds no such thing, or it is damaged.
        """
        path, what = cls.file_in(folder), f"a {cls.what}"
        if Path(folder).name == path.name and Path(folder).is_file():
            path = Path(folder)  # the file itself was named
        if not path.exists():
            raise SoftkinError(f"{folder} holds no {cls.what}: there is no {path.name}.")
        about, tensors = bundles.read(path, what)
        with files.reading(path, what):
            if about["format"] != FORMAT:
                raise SoftkinError(
                    f"{path} has format {about['format']}, and this softkin reads {FORMAT}; update softkin."
                )
            loaded = cls.built(about[cls.what][FITTED], tensors)
            if not isinstance(loaded, cls):
                raise SoftkinError(f"{path} holds a {type(loaded).__name__}, not a {cls.__name__}.")
            files.within("classes", loaded.num_classes_, f"{path}: {what}")
            with torch.no_grad():
                loaded.try_out()
        return loaded

    @classmethod
    def kind(cls, name: str) -> type[Self]:
        """The class that a file calls ``name``."""
        found: type[Self] = cls.registry[cls.registry.canonical(name, "name")]
        return found

    @classmethod
    def built(cls, about: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """The thing that a file describes, with its tensors; only classes of this kind are made."""
        made = cls.kind(about["name"]).from_plain(_unpacked(cls, about["options"], tensors))
        made.restore(_unpacked(cls, about["attributes"], tensors))
        return made

    def plain_options(self) -> dict[str, Any]:
        """The options as plain data, tensors and fitted things."""
        return self.get_params(deep=False)

    @classmethod
    def from_plain(cls, options: Mapping[str, Any]) -> Self:
        """A new one, with the options that ``plain_options`` returned."""
        return cls(**options)

    def attributes(self) -> dict[str, Any]:
        """What the fit has set, as plain data and tensors."""
        return {name: getattr(self, name) for name in (*COMMON, *self.kept)}

    def restore(self, attributes: Mapping[str, Any]) -> None:
        """Take what ``attributes`` returned, which may come from a file that somebody has made up."""
        for name in self.kept:
            setattr(self, name, attributes[name])
        self.num_samples_ = checks.count(attributes["num_samples_"], "num_samples", least=0)
        self.num_classes_ = checks.count(attributes["num_classes_"], "num_classes", least=2)
        checks.option(attributes["fitted_from_"], "fitted_from", ("logits", "probabilities"))
        self.fitted_from_ = attributes["fitted_from_"]
        names, ids = attributes["class_names_"], attributes["sample_digests_"]
        self.class_names_ = None if names is None else checks.class_names(names, num_classes=self.num_classes_)
        if ids is not None and (not isinstance(ids, Tensor) or ids.dtype != torch.int64):
            raise TypeError("its digests of sample ids must be whole numbers")
        self.sample_digests_ = ids

    # Modules

    def module(self) -> nn.Module:
        """The formula as a module of the scores that it takes."""
        return FittedModule(type(self).__name__, *self.formula())


COMMON = ("num_samples_", "num_classes_", "class_names_", "fitted_from_", "sample_digests_")


def is_tracing() -> bool:
    """Whether a module is being traced, when shapes must not be compared."""
    return bool(torch.jit.is_tracing())  # type: ignore[attr-defined]


class FittedModule(nn.Module):
    """A formula with fitted numbers: scores (N, K) in, answers out.

    The numbers are buffers: they move with the module, and optimisers ignore them.

    Args:
        name: The name that ``repr`` shows.
        formula: A function of scores and of the numbers.
        parameters: The numbers.
        before: A module that makes the scores from logits.
        num_classes: K, if logits of another shape than (N, K) are to be refused.
        dtype: The dtype of the computation; None for that of the logits.
    """

    def __init__(
        self,
        name: str,
        formula: Callable[..., Tensor],
        parameters: Sequence[Tensor],
        *,
        before: nn.Module | None = None,
        num_classes: int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.name, self.formula, self.dtype = name, formula, dtype
        self.before = nn.Identity() if before is None else before
        self.count = len(parameters)
        for place, parameter in enumerate(parameters):
            exact = dtype is None or not parameter.is_floating_point()
            self.register_buffer(f"parameter_{place}", (parameter if exact else parameter.to(dtype)).clone())

    def forward(self, logits: Tensor, uniforms: Tensor | None = None) -> Tensor:
        """The answers; ``uniforms`` (N,) are the numbers that a randomised formula takes last."""
        k = self.num_classes
        if k is not None and not is_tracing() and (logits.ndim != 2 or logits.shape[1] != k):
            raise ValueError(
                f"logits must have shape (N, {k}), got {tuple(logits.shape)}; flatten pixels or tokens first."
            )
        scores = self.before(logits if self.dtype is None else logits.to(self.dtype))
        numbers = [self.get_buffer(f"parameter_{place}") for place in range(self.count)]
        if self.dtype is None:
            numbers = [number.to(logits) for number in numbers]
        beside = () if uniforms is None else (uniforms.to(scores.dtype)[:, None],)
        return self.formula(scores, *numbers, *beside)

    def extra_repr(self) -> str:
        return self.name


def digests(sample_ids: Any, *, num_samples: int) -> Tensor:
    """``digests_in_order``, sorted, as a fit keeps them."""
    return digests_in_order(sample_ids, num_samples=num_samples).sort().values


def digests_in_order(sample_ids: Any, *, num_samples: int) -> Tensor:
    """A 64-bit digest of each id: the names themselves are not kept. 1, "1" and "#1" are different ids."""
    values = sample_ids.tolist() if isinstance(sample_ids, Tensor | np.ndarray) else list(sample_ids)
    if len(values) != num_samples:
        raise ValueError(f"`sample_ids` must be as many as the samples: got {len(values)} for {num_samples} samples.")
    for place, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, str | int | np.integer):
            raise TypeError(f"`sample_ids` must be texts or whole numbers, got {value!r} at index {place}.")
    raw = b"".join(
        hashlib.blake2b(
            (f"text {value}" if isinstance(value, str) else f"#{int(value)}").encode(), digest_size=8
        ).digest()
        for value in values
    )
    return torch.from_numpy(np.frombuffer(raw, dtype="<i8").astype(np.int64))


# Values as plain data: what JSON cannot hold is a mapping with one of these keys

TENSOR, NUMBER, FITTED = "a tensor", "a number", "fitted"


def _packed(value: Any, place: str, tensors: dict[str, Tensor]) -> Any:
    """A value as plain data; its tensors are collected under names that begin with ``place``."""
    if isinstance(value, Fitted):
        about = {
            "options": _packed(value.plain_options(), f"{place}option ", tensors),
            "attributes": _packed(value.attributes(), place, tensors),
        }
        return {FITTED: {"name": value.name or type(value).__name__, **about}}
    if isinstance(value, Mapping):
        return {name: _packed(entry, f"{place}{name}", tensors) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_packed(entry, f"{place}.{index}.", tensors) for index, entry in enumerate(value)]
    if getattr(value, "shape", ()):
        tensors[place] = torch.as_tensor(value).cpu()
        return {TENSOR: place}
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {NUMBER: str(value)}
    return value


def _unpacked(kind: type[Fitted[Any]], value: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The value that ``_packed`` returned."""
    if isinstance(value, list):
        return [_unpacked(kind, entry, tensors) for entry in value]
    if not isinstance(value, dict):
        return value
    if TENSOR in value:
        return tensors[value[TENSOR]]
    if NUMBER in value:
        return float(value[NUMBER])
    if FITTED in value:
        return kind.built(value[FITTED], tensors)
    return {name: _unpacked(kind, entry, tensors) for name, entry in value.items()}


def _shown(option: Any) -> str:
    """An option as ``repr`` shows it; an array is shown by its shape."""
    return f"<{' × '.join(map(str, option.shape))}>" if hasattr(option, "shape") else repr(option)


def _said(option: Any) -> str:
    """An option in words: "1", "pooled", "yes"; an array by its shape; nothing for a tree or the like."""
    if isinstance(option, bool) or option is None:
        return {True: "yes", False: "no", None: "none"}[option]
    if isinstance(option, str | int | float):
        return f"{option:g}" if isinstance(option, float) else str(option)
    return " × ".join(map(str, option.shape)) if hasattr(option, "shape") else ""


@dataclass(frozen=True)
class Solution:
    """How ``fit_rows`` ended; the rest of the certificate comes from the predictions."""

    gradient_norm: float | None = None
    """None for a fit by counting, sorting or a closed form, which has nothing to converge"""
    iterations: int = 0
    bound_hit: bool = False
    converged: bool = True
    notes: tuple[str, ...] = ()
    nll: tuple[float, float] | None = None
    """NLL before and after, if the fit has computed them"""
    argmax_kept: bool = False
    """Whether the map cannot change which class wins"""
    probabilities: Tensor | None = None
    """Calibrated probabilities of the fitting samples, if the fit has computed them"""


@dataclass(frozen=True)
class HeldOut:
    """NLL and prediction ECE (15 bins) on samples that the calibrator was not fitted on, by cross-fitting."""

    folds: int
    nll_before: float
    nll_after: float
    ece_before: float
    ece_after: float
    positive_before: float | None = None
    """With two classes, the ECE of the probability of class 1, of which the winning class hides half"""
    positive_after: float | None = None

    @classmethod
    def of(cls, folds: int, before: Tensor, after: Tensor, labels: Tensor) -> Self:
        """Measured on (N, K) probabilities before and after calibration."""
        from softkin import metrics

        measured = {"nll": metrics.nll, "ece": metrics.ece_hist}
        if before.shape[1] == 2:
            measured["positive"] = metrics.ece_positive
        sides = {"before": before, "after": after}
        values = {f"{name}_{side}": f(p, labels) for name, f in measured.items() for side, p in sides.items()}
        return cls(folds=folds, **values)

    @property
    def worse(self) -> tuple[str, ...]:
        """The metrics that calibration made worse."""
        pairs = (("NLL", self.nll_before, self.nll_after), ("ECE", self.ece_before, self.ece_after))
        return tuple(name for name, before, after in pairs if after > before)

    def __str__(self) -> str:
        errors = [("ECE of P(class 1)", self.positive_before, self.positive_after)]
        errors.append(("ECE of the prediction", self.ece_before, self.ece_after))
        told = [
            f"{name} {100 * before:.2f} % → {100 * after:.2f} %"
            for name, before, after in errors
            if before is not None and after is not None
        ]
        return f"held-out NLL {self.nll_before:.4f} → {self.nll_after:.4f}, {', '.join(told)} ({self.folds} folds)"


@dataclass(frozen=True)
class Certificate:
    """How a fit ended; ``print`` shows it as one line."""

    method: str
    num_samples: int
    num_classes: int
    converged: bool
    gradient_norm: float | None
    """The largest entry of the gradient at the solution, over parameters that are not at a bound; None for fits with
    nothing to converge (counting, sorting, closed forms)"""
    iterations: int
    bound_hit: bool
    """Whether the solution is at a limit of its range, because the optimum lies beyond"""
    nll_before: float
    """The NLL of the uncalibrated probabilities on the fitting data"""
    nll_after: float
    argmax_changed: float
    """The share of fitting samples whose winning class changed"""
    notes: tuple[str, ...] = ()
    held_out: HeldOut | None = None
    """Held-out results, if ``certify`` was called"""

    def __str__(self) -> str:
        return f"{self.method} on {self.outcome}"

    @property
    def outcome(self) -> str:
        """The line without the method's name."""
        end = (
            "exact"
            if self.gradient_norm is None
            else f"gradient {self.gradient_norm:.1e} after {self.iterations} iterations"
        )
        parts = [
            f"{self.num_samples:,} samples of {self.num_classes} classes",
            end if self.converged else f"not converged ({end})",
            f"NLL {self.nll_before:.4f} → {self.nll_after:.4f}",
            f"winning class changed for {100 * self.argmax_changed:.2f} %",
            *(["at a bound"] if self.bound_hit else []),
            *self.notes,
            *([str(self.held_out)] if self.held_out is not None else []),
        ]
        return "; ".join(parts)

    @classmethod
    def from_dict(cls, about: Mapping[str, Any]) -> Self:
        """The certificate that ``dataclasses.asdict`` made plain data of."""
        held_out = about["held_out"]
        values = {field.name: about[field.name] for field in fields(cls)}
        values |= {"notes": tuple(about["notes"]), "held_out": None if held_out is None else HeldOut(**held_out)}
        return cls(**values)
