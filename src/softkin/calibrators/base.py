"""The base of all calibrators: fit, predict, a certificate of the fit, files, scikit-learn's parameters, composition.

A calibrator is a final class that defines how it is fitted to float64 logits (``_fit``), how it maps them
(``_predict``), and which attributes the fit sets (``_fitted``). Its class statement names it, which registers it.
Everything else is here, once.
"""

import inspect
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from softkin._core import checks
from softkin._core.checks import Array
from softkin._core.names import Registry, did_you_mean
from softkin.calibrators.certificate import Certificate, HeldOut
from softkin.calibrators.inputs import as_logits, digests, labelled_logits, like

if TYPE_CHECKING:
    from softkin.calibrators.composition import Composed


@dataclass(frozen=True)
class Solution:
    """How ``_fit`` ended; the rest of the certificate comes from the predictions."""

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


class Calibrator(ABC):
    """A map from logits to calibrated probabilities, fitted on labelled samples that the network was not trained on.

    ``fit`` and ``predict_proba`` take torch tensors and numpy arrays of shape (N, K). All computing is in float64 on
    the CPU. Callers that have only probabilities pass ``from_probabilities=True``: the logits are then ln p. A
    probability of exactly 0, which has no logarithm, is a score below the file's resolution: ``fit`` estimates what it
    stands for (``zeros``) and warns about it, or takes ``floor``, and ``floor_`` keeps the value.

    A class of your own is known everywhere (commands, ``fit_best``, studies, files) once its class statement names it:

    ``class Sharper(Calibrator, name="sharper", title="sharp", aliases=("s",), candidates=({}, {"strength": 2.0})): …``

    ``name`` is what people type and JSON holds, ``title`` what tables show; title and class name are aliases.
    ``candidates`` are the options with which ``fit_best`` tries the method by default: none, if left out. ``quick``
    says that these fits stay quick with many classes. ``searches`` are options with which a fit is a search of many
    fits: these are tried, and ``softkin calibrate compare`` has a method with searches, only where n·K² is small
    enough (``selection.affordable``).
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    candidates: ClassVar[tuple[Mapping[str, Any], ...]] = ()
    quick: ClassVar[bool] = False
    searches: ClassVar[tuple[Mapping[str, Any], ...]] = ()

    certificate_: Certificate
    num_classes_: int
    fitted_from_: Literal["logits", "probabilities"]
    floor_: float | None
    """The value that replaces a probability of 0; None if the fit had logits"""

    _fitted: ClassVar[tuple[str, ...]]
    """The attributes that the fit sets and ``save`` writes: tensors, numbers, texts, None"""

    def __init_subclass__(
        cls,
        *,
        name: str | None = None,
        title: str | None = None,
        aliases: Sequence[str] = (),
        candidates: Sequence[Mapping[str, Any]] = (),
        quick: bool = False,
        searches: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init_subclass__()
        if name is None:
            return
        cls.name, cls.title, cls.candidates, cls.quick = name, title or name, tuple(candidates), quick
        cls.searches = tuple(searches)
        REGISTRY.add_class(cls, name, cls.title, aliases)

    @abstractmethod
    def _fit(self, z: Tensor, y: Tensor) -> Solution:
        """Fit to (N, K) float64 logits and int64 labels."""

    @abstractmethod
    def _predict(self, z: Tensor) -> Tensor:
        """Calibrated probabilities (N, K) of (N, K) float64 logits."""

    def _is_shift_invariant(self) -> bool:
        """Whether a constant added to a row of logits changes nothing, so that logits and ln p are interchangeable."""
        return True

    def _check_options(self) -> None:  # noqa: B027  a method without options has none to check
        """Refuse options that make no sense."""

    def _summary(self) -> str:
        """The fitted parameters in a few words, for ``repr``."""
        return ""

    # Fitting and predicting

    @torch.no_grad()
    def fit(
        self,
        logits: Array,
        labels: Array,
        *,
        from_probabilities: bool = False,
        floor: float | None = None,
        sample_ids: Sequence[Any] | Array | None = None,
    ) -> Self:
        """Fit on held-out samples, and set ``certificate_``.

        Args:
            logits: (N, K), or probabilities with ``from_probabilities=True``.
            labels: (N,) classes 0 … K−1. A class may be absent.
            from_probabilities: Whether ``logits`` are probabilities.
            floor: The value that replaces a probability of 0. None: estimated, with a warning that counts the zeros.
            sample_ids: Names or numbers of the samples. A digest of each is kept, and later evaluations on any of
                them cause a warning: a calibrator looks too good on samples that it was fitted on.
        """
        self._check_options()
        z, y, floor = labelled_logits(logits, labels, from_probabilities, floor)
        ids = None if sample_ids is None else digests(sample_ids, num_samples=len(z))
        self.__dict__.pop("certificate_", None)  # a failed refit must not keep half of the old fit
        self.num_classes_ = z.shape[1]
        self.fitted_from_ = "probabilities" if from_probabilities else "logits"
        self.floor_ = floor
        self.fell_back_ = False
        self.sample_digests_ = ids
        end = self._fit(z, y)
        before, after, changed = self._compare(z, y, end)
        self.certificate_ = Certificate(
            method=type(self).__name__,
            num_samples=len(z),
            num_classes=z.shape[1],
            converged=end.converged,
            gradient_norm=end.gradient_norm,
            iterations=end.iterations,
            bound_hit=end.bound_hit,
            nll_before=before,
            nll_after=after,
            argmax_changed=changed,
            notes=end.notes,
        )
        if not end.converged:
            warnings.warn(f"{type(self).__name__} did not converge: {self.certificate_}", stacklevel=3)
        return self

    def _compare(self, z: Tensor, y: Tensor, end: Solution) -> tuple[float, float, float]:
        """NLL before and after, and the share of rows whose winning class changed."""
        if end.nll is not None and end.argmax_kept:
            return *end.nll, 0.0
        p = self._predict(z) if end.probabilities is None else end.probabilities
        before = float((z.logsumexp(dim=1) - z.gather(1, y[:, None])[:, 0]).mean())
        after = -float(p.gather(1, y[:, None]).log().mean()) + 0.0  # not −0
        # A tie with the winner is no change: rounding may make two scores equal.
        was = torch.from_numpy(z.numpy().argmax(axis=1))[:, None]  # torch's takes ten times as long on the CPU
        changed = float((p.gather(1, was)[:, 0] < p.amax(dim=1)).double().mean())
        return before, after, changed

    @torch.no_grad()
    def predict_proba(
        self,
        logits: Array,
        *,
        from_probabilities: bool = False,
        floor: float | None = None,
        sample_ids: Sequence[Any] | Array | None = None,
    ) -> Any:
        """Calibrated probabilities (N, K): numpy for numpy, torch for torch, on the same device.

        Their dtype is that of ``logits``, but at least float32: rows in half precision would not sum to 1.

        Args:
            logits: (N, K), or probabilities with ``from_probabilities=True``.
            from_probabilities: Whether ``logits`` are probabilities.
            floor: The value that replaces a probability of 0. None: that of the fit; if the fit had logits, half of
                the smallest step between scores, with a warning.
            sample_ids: If the fit had ids too, a warning counts the samples that are in both.
        """
        self._check_fitted()
        z, _ = as_logits(logits, from_probabilities, self.floor_ if floor is None and from_probabilities else floor)
        if z.shape[1] != self.num_classes_:
            raise ValueError(
                f"`logits` must have the {self.num_classes_} classes that the calibrator was fitted on, "
                f"got {z.shape[1]}."
            )
        kind = "probabilities" if from_probabilities else "logits"
        if not self._is_shift_invariant() and kind != self.fitted_from_:
            raise ValueError(
                f"{type(self).__name__} was fitted on {self.fitted_from_} and needs the same, got {kind}: "
                "a constant in a row of logits, which probabilities lose, matters to it."
            )
        if sample_ids is not None:
            self._warn_of_overlap(digests(sample_ids, num_samples=len(z)))
        if self.fell_back_ and from_probabilities:
            p = checks.as_tensor(logits, "logits").cpu().double()  # unchanged: a zero stays a zero
        else:
            p = self._apply(z)
        return like(p, logits)

    def _apply(self, z: Tensor) -> Tensor:
        """Probabilities (N, K) of (N, K) float64 logits; uncalibrated if the calibrator fell back to the identity."""
        return torch.softmax(z, dim=1) if self.fell_back_ else self._predict(z)

    def _warn_of_overlap(self, ids: Tensor) -> None:
        if self.sample_digests_ is None:
            return
        overlap = int(torch.isin(ids, self.sample_digests_).sum())
        if overlap:
            warnings.warn(
                f"{overlap} of {len(ids)} samples are among those that the {type(self).__name__} was fitted on; "
                "metrics measured on them look better than they are.",
                stacklevel=4,
            )

    def _check_fitted(self) -> None:
        if not hasattr(self, "certificate_"):
            raise ValueError(f"this {type(self).__name__} is not fitted yet: call fit(logits, labels) first.")

    # Judging

    def certify(
        self,
        logits: Array,
        labels: Array,
        *,
        folds: int = 5,
        from_probabilities: bool = False,
        floor: float | None = None,
        seed: int = 0,
        fallback: Literal["identity"] | None = None,
    ) -> Certificate:
        """The certificate with the held-out NLL and ECE from cross-fitting.

        Each fold is predicted by a calibrator fitted on the others. If calibrating makes the held-out NLL or the
        prediction ECE (15 bins) worse, a warning says so. An unfitted calibrator is first fitted on all the data.

        Args:
            logits: (N, K), the calibration data, N ≥ 2.
            labels: (N,).
            folds: The number of folds.
            from_probabilities: Whether ``logits`` are probabilities.
            floor: The value that replaces a probability of 0, as for ``fit``.
            seed: The seed that divides the samples into folds.
            fallback: None only warns. With "identity", if the held-out NLL got worse, this calibrator returns
                uncalibrated probabilities from then on; a warning and its ``repr`` say so.
        """
        from softkin import metrics
        from softkin.calibrators.selection import cross_fit

        if fallback is not None:
            checks.option(fallback, "fallback", ("identity",))
        if not hasattr(self, "certificate_"):
            self.fit(logits, labels, from_probabilities=from_probabilities, floor=floor)
        if from_probabilities and floor is None:
            floor = self.floor_
        z, y, _ = labelled_logits(logits, labels, from_probabilities, floor, least=2)
        before = torch.softmax(z, dim=1)
        source = before if from_probabilities else z
        after = cross_fit(self, source, y, folds=folds, from_probabilities=from_probabilities, seed=seed)
        held_out = HeldOut(
            folds=min(folds, len(z)),
            nll_before=metrics.nll(before, y),
            nll_after=metrics.nll(after, y),
            ece_before=metrics.ece_hist(before, y, scope="prediction"),
            ece_after=metrics.ece_hist(after, y, scope="prediction"),
        )
        self.certificate_ = replace(self.certificate_, held_out=held_out)
        if held_out.worse:
            if fallback == "identity" and "NLL" in held_out.worse:
                self.fell_back_ = True
            warnings.warn(
                f"{type(self).__name__} makes the held-out {' and '.join(held_out.worse)} worse: {held_out}."
                + (" It now returns the uncalibrated probabilities." if self.fell_back_ else ""),
                stacklevel=2,
            )
        return self.certificate_

    # Files

    def save(self, folder: str | Path) -> None:
        """Write ``calibrator.json`` and a safetensors file into ``folder``; a crash leaves the old or the new one.

        Read it with ``softkin.calibrators.load``.
        """
        from softkin.calibrators import files

        self._check_fitted()
        files.save(self, Path(folder))

    # Parameters in the form that scikit-learn's clone and grid search need

    @classmethod
    def _option_names(cls) -> list[str]:
        return list(inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options by name."""
        return {name: getattr(self, name) for name in self._option_names()}

    def set_params(self, **options: Any) -> Self:
        """Change options; the next ``fit`` uses them."""
        for name, value in options.items():
            if name not in self._option_names():
                guess, known = did_you_mean(name, self._option_names()), ", ".join(self._option_names()) or "none"
                raise ValueError(f"{type(self).__name__} has no option {name!r}; it has: {known}{guess}")
            setattr(self, name, value)
        self._check_options()
        return self

    def unfitted(self) -> Self:
        """A new calibrator with the same options."""
        return type(self)(**self.get_params(deep=False))

    def __or__(self, other: "Calibrator") -> "Composed":
        """``a | b``: b is fitted on, and applied to, the probabilities that a returns."""
        from softkin.calibrators.composition import Composed

        if not isinstance(other, Calibrator):
            return NotImplemented
        return Composed([*self._steps(), *other._steps()])

    def _steps(self) -> list["Calibrator"]:
        return [self]

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        changed = [
            f"{name}={_shown(value)}"
            for name, value in self.get_params(deep=False).items()
            if value is not defaults[name].default and (hasattr(value, "shape") or value != defaults[name].default)
        ]
        text = f"{type(self).__name__}({', '.join(changed)})"
        if not hasattr(self, "certificate_"):
            return text
        if self.fell_back_:
            return f"<{text}: fell back to the identity, as calibrating made the held-out NLL worse>"
        c = self.certificate_
        parts = [self._summary(), f"NLL {c.nll_before:.4f} → {c.nll_after:.4f} on {c.num_samples:,} samples"]
        return f"<{text}: {'; '.join(part for part in parts if part)}>"

    # The parts of a classifier that scikit-learn's cross-validation and searches need; ``softkin.sklearn`` has the rest

    @property
    def classes_(self) -> Any:
        """The class numbers (K,), in the order of the columns."""
        if not hasattr(self, "num_classes_"):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet, and has no classes.")
        return np.arange(self.num_classes_)

    def predict(self, logits: Array, **options: Any) -> Any:
        """The likeliest classes (N,); ``options`` are those of ``predict_proba``."""
        return self.predict_proba(logits, **options).argmax(1)

    def score(self, logits: Array, labels: Array) -> float:
        """The accuracy, the default score of scikit-learn's classifiers."""
        hits = np.asarray(self.predict(logits)) == np.asarray(labels)
        return float(hits.mean())

    def __sklearn_tags__(self) -> Any:
        """Tags that mark this as a classifier; scikit-learn 1.6 and newer read them."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(),
        )

    # Leaving Python

    def as_module(self) -> nn.Module:
        """The fitted map as a module to put after a network: logits in, calibrated probabilities out.

        It computes in the dtype of its input and exports to ONNX. Where a calibrator fitted on probabilities cannot
        take logits instead (vector, matrix), the module first takes their ln softmax. Only maps with a fixed number of
        parameters become modules: temperature and its ensemble, vector, matrix, Dirichlet, the structured ones, Platt
        and beta, and compositions of these.
        """
        from softkin.calibrators.export import as_module

        self._check_fitted()
        return as_module(self)


REGISTRY: Registry[type[Calibrator]] = Registry("calibrator")
"""Every named calibrator class, in the order of their definition"""


class Parametric(Calibrator):
    """A calibrator whose map is a formula with a fixed set of parameters, so that it can become a module."""

    _parameters: ClassVar[tuple[str, ...]]
    """The fitted attributes that the formula needs, in its order"""

    @classmethod
    @abstractmethod
    def _map(cls, z: Tensor, *parameters: Tensor) -> Tensor:
        """Probabilities (N, K) of (N, K) logits, in the dtype of the logits."""

    def _parameter_tensors(self) -> list[Tensor]:
        return [torch.as_tensor(getattr(self, name), dtype=torch.float64) for name in self._parameters]

    def _predict(self, z: Tensor) -> Tensor:
        return self._map(z, *(parameter.to(z) for parameter in self._parameter_tensors()))


class Ridged(Parametric):
    """A parametric calibrator whose only option is a ridge towards the identity."""

    _fitted = _parameters = ("weight_", "bias_")
    weight_: Tensor
    bias_: Tensor

    def __init__(self, *, l2: float = 1e-6) -> None:
        self.l2 = l2
        self._check_options()

    def _check_options(self) -> None:
        checks.at_least_zero(self.l2, "l2")


def _shown(option: Any) -> str:
    """An option as a calibrator's repr shows it; an array is shown by its shape."""
    return f"<{' × '.join(map(str, option.shape))}>" if hasattr(option, "shape") else repr(option)
