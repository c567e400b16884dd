"""The base of all calibrators: probabilities, a certificate of the fit, what scikit-learn asks for, and chains.

How a calibrator is fitted, kept and exported is in ``softkin.calibrators.fitted``, which also says what one of your own
defines.
"""

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from softkin._core import checks, threads
from softkin._core.checks import Array
from softkin._core.named_labels import labelled, numbered
from softkin._core.names import Registry
from softkin.calibrators import zeros
from softkin.calibrators.fitted import Certificate, Fitted, Formula, HeldOut, Solution, is_tracing
from softkin.calibrators.held_out import as_logits, cross_fit, labelled_logits, rows_of, two_columns

REGISTRY: "Registry[type[Calibrator]]" = Registry("calibrator")
"""Every named calibrator class, in the order of their definition"""
UNLISTED: "dict[str, type[Calibrator]]" = {}
"""Those that commands do not try by name, by the name of their class: what they need is not in files of predictions"""


class Calibrator(Fitted[Tensor]):
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
    enough (``selection.affordable``). With ``unlisted`` only files know it, by the name of the class.
    """

    what = "calibrator"
    registry = REGISTRY
    overlap_means = "metrics measured on them look better than they are"
    candidates: ClassVar[tuple[Mapping[str, Any], ...]] = ()
    quick: ClassVar[bool] = False
    searches: ClassVar[tuple[Mapping[str, Any], ...]] = ()
    unused: ClassVar[tuple[str, ...]] = ()
    """Those of ``kept`` that the map has no use for: what a search for a penalty found, and what the fit was given"""
    takes_features: ClassVar[bool] = False
    """Whether ``fit`` and ``predict_proba`` take (N, d) ``features`` beside the logits"""

    certificate_: Certificate
    floor_: float | None
    """The value that replaces a probability of 0; None if the fit had logits"""
    fell_back_: bool
    """Whether ``certify`` replaced the map by the identity"""
    single_: bool = False
    """Whether it was fitted on one score for each sample"""

    def __init_subclass__(
        cls,
        *,
        name: str | None = None,
        title: str | None = None,
        aliases: Sequence[str] = (),
        candidates: Sequence[Mapping[str, Any]] = (),
        quick: bool = False,
        searches: Sequence[Mapping[str, Any]] = (),
        unlisted: bool = False,
    ) -> None:
        super().__init_subclass__()
        if unlisted:
            UNLISTED[cls.__name__] = cls
        if name is not None:
            cls.candidates, cls.quick, cls.searches = tuple(candidates), quick, tuple(searches)
        cls.register(name, title, aliases)

    @property
    def num_fitted(self) -> int:
        """How many numbers the fit chose: 1 for a temperature, K² + K for a matrix and a bias."""
        values = [getattr(self, name) for name in self.kept if name not in self.unused]
        return sum(one.numel() if isinstance(one, Tensor) else isinstance(one, float) for one in values)

    @abstractmethod
    def fit_rows(self, rows: Tensor, labels: Tensor) -> Solution:
        """Fit to (N, K) float64 logits and int64 labels: set the attributes that ``kept`` names."""

    @abstractmethod
    def answer(self, rows: Tensor) -> Tensor:
        """Calibrated probabilities (N, K) of (N, K) float64 logits."""

    def is_shift_invariant(self) -> bool:
        """Whether a constant added to a row of logits changes nothing, so that logits and ln p are interchangeable."""
        return True

    def folded(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """The weight and bias of a layer whose softmax is calibrated, if the logits are those of this layer."""
        raise TypeError(
            f"{type(self).__name__} cannot be folded into a linear layer exactly; put as_module() after it."
        )

    # Fitting and predicting

    @torch.no_grad()
    def fit(
        self,
        logits: Array,
        labels: Array,
        *,
        from_probabilities: bool | None = None,
        floor: float | None = None,
        sample_ids: Sequence[Any] | Array | None = None,
        class_names: Sequence[str] | None = None,
        sample_weight: Array | None = None,
        ignore_index: int | None = None,
    ) -> Self:
        """Fit on held-out samples, and set ``certificate_``.

        Args:
            logits: (N, K), or probabilities with ``from_probabilities=True``. One score for each sample, (N,) or
                (N, 1), is that of a binary model, or the confidence of pairs. (N, K, …) are pixels or tokens.
            labels: (N,) classes 0 … K−1, or texts: the names of a data frame's columns, or all classes in alphabetical
                order. A class may be absent. For one score 0 and 1, or booleans; (N, …) for pixels. (N, K) are votes
                or soft labels: a row counts for each class by its share.
            from_probabilities: Whether ``logits`` are probabilities; None: no, with a warning if they look so.
            floor: The value that replaces a probability of 0. None: estimated, with a warning that counts the zeros.
            sample_ids: Names or numbers of the samples. A digest of each is kept, and later evaluations on any of
                them cause a warning: a calibrator looks too good on samples that it was fitted on.
            class_names: Names of the classes, kept with the calibrator, also in files (``aligned``).
            sample_weight: (N,) weights of the samples, for the calibrators whose ``takes_weights`` is true.
            ignore_index: A label of rows to leave out, such as 255 for pixels of no class.
        """
        with threads.for_work(threads.numbers_in(logits)):
            labels, logits, sample_weight, sample_ids = labelled(labels, logits, sample_weight, sample_ids)
            labels, class_names = numbered(labels, logits, class_names)
            given = rows_of(logits, labels, from_probabilities, sample_weight, ignore_index)
            if given.rows is not None and sample_ids is not None:
                known = list(sample_ids)
                sample_ids = [known[row] for row in given.rows.tolist()]
            z, floor = as_logits(given.values, from_probabilities, floor, given.labels, least=1)
            self.floor_, self.fell_back_, self.single_ = floor, False, given.single
            source: Literal["logits", "probabilities"] = "probabilities" if from_probabilities else "logits"
            self.fit_to(
                z, given.labels, source=source, sample_ids=sample_ids, class_names=class_names, weights=given.weights
            )
        if not self.certificate_.converged:
            warnings.warn(f"{type(self).__name__} did not converge: {self.certificate_}", stacklevel=3)
        return self

    def conclude(self, rows: Tensor, labels: Tensor, end: Solution, weights: Tensor | None = None) -> None:
        """Set the certificate."""
        before, after, changed = self._compare(rows, labels, end, weights)
        self.certificate_ = Certificate(
            method=type(self).__name__,
            num_samples=len(rows),
            num_classes=rows.shape[1],
            converged=end.converged,
            gradient_norm=end.gradient_norm,
            iterations=end.iterations,
            bound_hit=end.bound_hit,
            nll_before=before,
            nll_after=after,
            argmax_changed=changed,
            notes=end.notes,
        )

    def _compare(
        self, z: Tensor, y: Tensor, end: Solution, weights: Tensor | None = None
    ) -> tuple[float, float, float]:
        """NLL before and after, and the share of rows whose winning class changed."""
        if end.nll is not None and end.argmax_kept:
            return *end.nll, 0.0
        p = self.answer(z) if end.probabilities is None else end.probabilities
        w = 1.0 if weights is None else weights
        before = float((w * (z.logsumexp(dim=1) - z.gather(1, y[:, None])[:, 0])).mean())
        after = -float((w * p.gather(1, y[:, None])[:, 0].log()).mean()) + 0.0  # not −0
        # A tie with the winner is no change: rounding may make two scores equal.
        was = torch.from_numpy(z.numpy().argmax(axis=1))[:, None]  # torch's takes ten times as long on the CPU
        changed = float((p.gather(1, was)[:, 0] < p.amax(dim=1)).double().mean())
        return before, after, changed

    @torch.no_grad()
    def predict_proba(
        self,
        logits: Array,
        *,
        from_probabilities: bool | None = None,
        floor: float | None = None,
        sample_ids: Sequence[Any] | Array | None = None,
        class_names: Sequence[str] | None = None,
    ) -> Any:
        """Calibrated probabilities (N, K): numpy for numpy, torch for torch, on the same device.

        One score for each sample, (N,) or (N, 1), becomes one calibrated score, and (N, K, …) keeps its shape. Their
        dtype is that of ``logits``, but at least float32: rows in half precision would not sum to 1.

        Args:
            logits: (N, K), or probabilities with ``from_probabilities=True``.
            from_probabilities: Whether ``logits`` are probabilities; None: no, with a warning if they look so.
            floor: The value that replaces a probability of 0. None: that of the fit; if the fit had logits, half of
                the smallest step between scores, with a warning.
            sample_ids: If the fit had ids too, a warning counts the samples that are in both.
            class_names: The names of the columns, if it is not certain that they are in the order of the fit; those of
                a data frame are known. If the fit had names too, each class gets its own parameters, and the answer
                has the columns as given.
        """
        with threads.for_work(threads.numbers_in(logits)):
            self.check_fitted()
            values = checks.as_tensor(logits, "logits")
            order = self.order_of(logits, class_names)
            if order is not None:
                if values.ndim < 2 or values.shape[1] == 1:
                    raise ValueError(
                        f"`class_names` must be in the order of the fit: one score per sample is that of "
                        f"{(self.class_names_ or [''])[-1]!r}, the second class of the fit."
                    )
                p = self.predict_proba(
                    values[:, order], from_probabilities=from_probabilities, floor=floor, sample_ids=sample_ids
                )
                return checks.like(p[:, order.argsort()], logits)
            if values.ndim != 2 or values.shape[1] == 1:
                return self._of_other_shape(values, logits, from_probabilities, floor, sample_ids)
            z, _ = as_logits(logits, from_probabilities, self.floor_ if floor is None and from_probabilities else floor)
            self.check_rows(z, sample_ids)
            kind = "probabilities" if from_probabilities else "logits"
            if not self.is_shift_invariant() and kind != self.fitted_from_:
                raise ValueError(
                    f"{type(self).__name__} was fitted on {self.fitted_from_} and needs the same, got {kind}: "
                    "a constant in a row of logits, which probabilities lose, matters to it."
                )
            given = checks.as_tensor(logits, "logits")
            as_given = self.fell_back_ and from_probabilities  # unchanged: a zero stays a zero
            p = given.cpu().double() if as_given else self.answers(z)
            return in_kind(p, logits)

    def _of_other_shape(
        self, values: Tensor, given: Array, from_probabilities: bool | None, floor: float | None, sample_ids: Any
    ) -> Any:
        """``predict_proba`` of one score per sample, or of pixels, one image at a time."""
        if values.ndim <= 2:
            two = two_columns(values.reshape(-1), from_probabilities)
            p = self.predict_proba(two, from_probabilities=from_probabilities, floor=floor, sample_ids=sample_ids)
            return checks.like(p[:, 1].reshape(values.shape).cpu(), given)
        if sample_ids is not None:
            raise ValueError("`sample_ids` must be left out with pixels or tokens, which are many rows per sample.")
        k = values.shape[1]
        parts = []
        for image in values:
            rows = image.reshape(k, -1).T
            p = self.predict_proba(rows, from_probabilities=from_probabilities, floor=floor)
            parts.append(p.T.reshape(image.shape).cpu())
        return checks.like(torch.stack(parts), given)

    def answers(self, rows: Tensor) -> Tensor:
        """Probabilities (N, K) of (N, K) float64 logits; uncalibrated if the calibrator fell back to the identity."""
        return torch.softmax(rows, dim=1) if self.fell_back_ else self.answer(rows)

    # Judging

    def certify(
        self,
        logits: Array,
        labels: Array,
        *,
        folds: int = 5,
        from_probabilities: bool | None = None,
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
            from_probabilities: Whether ``logits`` are probabilities; None: no, with a warning if they look so.
            floor: The value that replaces a probability of 0, as for ``fit``.
            seed: The seed that divides the samples into folds.
            fallback: None only warns. With "identity", if the held-out NLL got worse, this calibrator returns
                uncalibrated probabilities from then on; a warning and its ``repr`` say so.
        """
        with threads.for_work(threads.numbers_in(logits)):
            if fallback is not None:
                checks.option(fallback, "fallback", ("identity",))
            if not self.is_fitted:
                self.fit(logits, labels, from_probabilities=from_probabilities, floor=floor)
            if from_probabilities and floor is None:
                floor = self.floor_
            values = checks.as_tensor(logits, "logits")
            if values.ndim == 1 or (values.ndim == 2 and values.shape[1] == 1):
                given = rows_of(logits, labels, from_probabilities)
                logits, labels = given.values, given.labels
            z, y, _ = labelled_logits(logits, labels, from_probabilities, floor, least=2)
            before = torch.softmax(z, dim=1)
            source = before if from_probabilities else z
            after = cross_fit(self, source, y, folds=folds, from_probabilities=from_probabilities, seed=seed)
            held_out = HeldOut.of(min(folds, len(z)), before, after, y)
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

    @classmethod
    def kind(cls, name: str) -> "type[Calibrator]":
        return UNLISTED[name] if name in UNLISTED else super().kind(name)

    def attributes(self) -> dict[str, Any]:
        own = {"certificate_": asdict(self.certificate_), "floor_": self.floor_, "fell_back_": self.fell_back_}
        return super().attributes() | own

    def restore(self, attributes: Mapping[str, Any]) -> None:
        super().restore(attributes)
        floor = attributes["floor_"]
        self.certificate_ = Certificate.from_dict(attributes["certificate_"])
        self.floor_ = None if floor is None else checks.number(floor, "floor")
        self.fell_back_ = attributes["fell_back_"] is True

    def try_out(self) -> None:
        """Map a few rows: the results must be distributions."""
        k = self.num_classes_
        rows = torch.linspace(-5, 5, k, dtype=torch.float64) * torch.tensor([[0.0], [1.0], [-1.0]], dtype=torch.float64)
        p = self.answer(rows)
        if p.shape != rows.shape or not float((p.sum(dim=1) - 1).abs().max()) < 1e-6:  # also refuses NaN
            raise ValueError("its numbers do not fit together")
        _ = repr(self), str(self.certificate_)

    # Chains, and words

    def __or__(self, other: "Calibrator") -> "Composed":
        """``a | b``: b is fitted on, and applied to, the probabilities that a returns."""
        if not isinstance(other, Calibrator):
            return NotImplemented
        return Composed([*self.chain(), *other.chain()])

    def chain(self) -> "list[Calibrator]":
        """The calibrators that are applied one after another: itself, unless it is composed."""
        return [self]

    def __repr__(self) -> str:
        text = super().__repr__()
        if not self.is_fitted:
            return text
        if self.fell_back_:
            return f"<{text}: fell back to the identity, as calibrating made the held-out NLL worse>"
        c = self.certificate_
        parts = [self.summary(), f"NLL {c.nll_before:.4f} → {c.nll_after:.4f} on {c.num_samples:,} samples"]
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

    def score(self, logits: Array, labels: Array, **options: Any) -> float:
        """The accuracy, the default score of scikit-learn's classifiers."""
        hits = np.asarray(self.predict(logits, **options)) == np.asarray(labels)
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

    def as_module(self, *, class_dim: int = 1) -> nn.Module:
        """The fitted map as a module to put after a network: logits in, calibrated probabilities out.

        By default it takes (N, K), and (N, K, d1, …) as from a network for segmentation. Logits (N, T, K) of tokens
        need ``class_dim=-1``. A tensor with another number of classes there is refused.

        It computes in the dtype of its input and exports to ONNX. Where a calibrator fitted on probabilities cannot
        take logits instead (vector, matrix), the module first takes their ln softmax. Only maps with a fixed number of
        parameters become modules: temperature and its ensemble, vector, matrix, Dirichlet, the structured ones, Platt
        and beta, and compositions of these.

        Args:
            class_dim: The dimension of the classes, any but the first.
        """
        self.check_fitted()
        if class_dim == 0:
            raise ValueError("`class_dim` must not be 0, the dimension of the samples; classes are in 1 or -1.")
        return Along(self.row_module(), self.num_classes_, class_dim)

    def row_module(self) -> nn.Module:
        """The fitted map as a module of (N, K) logits, whose shape it does not check."""
        if self.fell_back_:
            return nn.Softmax(dim=1)
        module = self.module()
        if self.fitted_from_ == "probabilities" and not self.is_shift_invariant():
            return nn.Sequential(nn.LogSoftmax(dim=1), module)  # it takes ln p, from which logits differ by a constant
        return module


def load(folder: str | Path) -> Calibrator:
    """Read a calibrator that ``save`` wrote.

    Raises:
        SoftkinError: The folder holds no calibrator, or it is damaged.
    """
    return Calibrator.load(folder)


def in_kind(p: Tensor, logits: Array) -> Any:
    """Probabilities as numpy or torch, whichever the logits are, in their dtype but at least in float32."""
    is_narrow = checks.as_tensor(logits, "logits").dtype in (torch.float16, torch.bfloat16, torch.float32)
    return checks.like(p.to(torch.float32) if is_narrow else p, logits)


class Parametric(Calibrator):
    """A calibrator whose map is a formula with a fixed set of parameters, so that it can become a module.

    It defines ``mapped`` instead of ``answer`` and ``formula``.
    """

    parameters: ClassVar[tuple[str, ...]]
    """The fitted attributes that the formula needs, in its order"""

    @classmethod
    @abstractmethod
    def mapped(cls, z: Tensor, *parameters: Tensor) -> Tensor:
        """Probabilities (N, K) of (N, K) logits, in the dtype of the logits."""

    def formula(self) -> Formula:
        return self.mapped, [torch.as_tensor(getattr(self, name), dtype=torch.float64) for name in self.parameters]

    def answer(self, rows: Tensor) -> Tensor:
        formula, parameters = self.formula()
        return formula(rows, *(parameter.to(rows) for parameter in parameters))


class Ridged(Parametric):
    """A parametric calibrator whose only option is a ridge towards the identity."""

    kept = parameters = ("weight_", "bias_")
    weight_: Tensor
    bias_: Tensor

    def __init__(self, *, l2: float = 1e-6) -> None:
        self.l2 = l2
        self.check_options()

    def check_options(self) -> None:
        checks.at_least_zero(self.l2, "l2")


class Composed(Calibrator, unlisted=True):
    """A chain of calibrators: each is fitted on, and applied to, the probabilities that the previous one returns.

    Made by ``a | b``; as in scikit-learn's pipelines, the parts themselves are fitted. All parts see the same samples.

    Args:
        steps: The calibrators, first to last.

    Example:
        >>> from softkin.calibrators import IsotonicCalibration, TemperatureScaling
        >>> TemperatureScaling() | IsotonicCalibration()
        TemperatureScaling() | IsotonicCalibration()
    """

    kept = ("floors_",)
    floors_: Tensor
    """For each step but the last, the value that replaces a probability of 0 that it returns"""

    def __init__(self, steps: Sequence[Calibrator]) -> None:
        self.steps = steps
        self.check_options()

    def check_options(self) -> None:
        if len(self.steps) == 0 or not all(isinstance(step, Calibrator) for step in self.steps):
            raise TypeError(f"`steps` must be one calibrator or more, got {self.steps!r}.")

    def fit_rows(self, rows: Tensor, labels: Tensor) -> Solution:
        floors: list[float] = []
        for step in self.steps:
            step.fit(rows[:, 1] - rows[:, 0] if self.single_ else rows, labels)
            p = step.answer(rows)
            floors.append(zeros.floor_of(p, labels).value)
            rows = zeros.logarithms(p, floors[-1])
        self.floors_ = torch.tensor(floors[:-1], dtype=torch.float64)
        certificates = [step.certificate_ for step in self.steps]
        norms = [c.gradient_norm for c in certificates if c.gradient_norm is not None]
        return Solution(
            gradient_norm=max(norms) if norms else None,
            iterations=sum(c.iterations for c in certificates),
            bound_hit=any(c.bound_hit for c in certificates),
            converged=all(c.converged for c in certificates),
            notes=tuple(f"{c.method}: {note}" for c in certificates for note in c.notes),
        )

    def answer(self, rows: Tensor) -> Tensor:
        for step, floor in zip(self.steps, self.floors_.tolist(), strict=False):
            rows = zeros.logarithms(step.answers(rows), floor)
        return self.steps[-1].answers(rows)

    def module(self) -> nn.Module:
        first, *others = self.steps
        parts = [first.row_module()]
        for step, floor in zip(others, self.floors_.tolist(), strict=True):
            parts += [_Logarithm(floor), step.row_module()]
        return nn.Sequential(*parts)

    def is_shift_invariant(self) -> bool:
        return self.steps[0].is_shift_invariant()

    def chain(self) -> list[Calibrator]:
        return list(self.steps)

    def unfitted(self) -> Self:
        return type(self)([step.unfitted() for step in self.steps])

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The steps; with ``deep`` also their options, named like ``0__objective``."""
        options: dict[str, Any] = {"steps": self.steps}
        if deep:
            for place, step in enumerate(self.steps):
                options |= {f"{place}__{name}": value for name, value in step.get_params().items()}
        return options

    def set_params(self, **options: Any) -> Self:
        """Change the steps, or options of a step, named like ``0__objective``."""
        for name, value in options.items():
            place, separator, rest = name.partition("__")
            if separator and place.isdigit() and int(place) < len(self.steps):
                self.steps[int(place)].set_params(**{rest: value})
            else:
                super().set_params(**{name: value})
        return self

    def in_words(self) -> str:
        """The names of the steps, first to last."""
        return ", then ".join(step.in_words() for step in self.steps)

    def __repr__(self) -> str:
        return " | ".join(repr(step) for step in self.steps)


class Along(nn.Module):
    """A module of (N, K) rows, applied along one dimension of logits of any shape."""

    def __init__(self, rows: nn.Module, num_classes: int, class_dim: int) -> None:
        super().__init__()
        self.rows, self.num_classes, self.class_dim = rows, num_classes, class_dim

    def forward(self, logits: Tensor) -> Tensor:
        """The calibrated probabilities, in the shape of the logits."""
        k, dim = self.num_classes, self.class_dim
        place = dim if dim >= 0 else logits.ndim + dim
        if not is_tracing() and not (0 < place < logits.ndim and logits.shape[place] == k):
            expected = (
                f"(N, {k}) or (N, {k}, d1, …)" if dim == 1 else f"{k} classes in dimension {dim}, after N samples"
            )
            raise ValueError(
                f"logits must have {'shape ' if dim == 1 else ''}{expected}, got {tuple(logits.shape)}; "
                "as_module(class_dim=-1) takes the classes from the last dimension."
            )
        if logits.ndim == 2:
            p: Tensor = self.rows(logits)
            return p
        moved = logits.movedim(dim, -1)
        flat: Tensor = self.rows(moved.reshape(-1, k))
        return flat.reshape(moved.shape).movedim(-1, dim)


class _Logarithm(nn.Module):
    """The step between two calibrators: turns probabilities of the first into logits for the next."""

    def __init__(self, floor: float) -> None:
        super().__init__()
        self.floor = floor

    def forward(self, probabilities: Tensor) -> Tensor:
        return zeros.logarithms(probabilities, self.floor)
