"""Calibration in scikit-learn: a calibrated classifier, calibrators as estimators, scorers, a display.

Needs scikit-learn 1.6 or newer (``pip install 'softkin[sklearn]'``).

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.model_selection import cross_val_score
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = CalibratedClassifier(RandomForestClassifier(20, random_state=0), method="temperature", cv=3)
    >>> bool(cross_val_score(forest, X, y, scoring=scorers()["neg_nll"], cv=3).mean() > -0.3)
    True
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_method_params,
    _check_sample_weight,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
    indexable,
    validate_data,
)

from softkin import calibrators, diagrams
from softkin._core import checks
from softkin.calibrators import REGISTRY, Calibrator
from softkin.metrics import catalogue, scopes
from softkin.metrics.catalogue import METRICS
from softkin.metrics.scopes import Claims

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CalibratedClassifier", "ReliabilityDisplay", "ScoreCalibrator", "Scorer", "scorers"]


class CalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose probabilities are calibrated on rows that it was not trained on.

    The classifier is trained once for each fold, and one calibrator is fitted to the held-out scores of all folds. With
    ``ensemble`` the calibrated probabilities of the folds' classifiers are averaged; without it, a classifier trained
    on all rows predicts. Where ``cv`` holds out a row several times, its last score counts; rows that are never held
    out are only trained on.

    Scores are from ``decision_function`` if there is one, else from ``predict_proba``. A probability of exactly 0, as
    forests give, is taken as a score below their resolution (``calibrators.floor_of``), so no NLL is infinite; one
    below 2.2e-16, as naive Bayes gives, counts as 2.2e-16.

    Args:
        estimator: A classifier or pipeline with ``decision_function`` or ``predict_proba``. None: logistic regression.
        method: "best" chooses by cross-fitting (``calibrators.fit_best``); or a calibrator's name, or a calibrator.
            ``calibrators.KinHead`` gets the rows as its features.
        cv: Number of folds, a splitter, or "prefit": the estimator is fitted already, and ``fit`` takes rows that it
            was not trained on.
        ensemble: Whether the classifiers of the folds predict together.
        n_jobs: The number of folds to train at the same time, as scikit-learn means it.

    Attributes:
        classes_: The classes, in the order of the columns.
        calibrator_: The fitted calibrator.
        estimators_: The classifiers that predict.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        method: str | Calibrator = "best",
        cv: Any = 5,
        ensemble: bool = True,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.ensemble = ensemble
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Train and calibrate on rows ``X`` and classes ``y``: numbers or texts.

        Args:
            X: The rows.
            y: Their classes.
            sample_weight: (N,) weights of the rows, for the classifier if its ``fit`` takes them, and for the
                calibrator if it does (``takes_weights``).
            fit_params: ``groups`` for the splitter of ``cv``; all else goes to the classifier's ``fit``, and what has
                one entry per row is divided with the rows. With scikit-learn's metadata routing enabled, what goes
                where is what was requested.
        """
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        X, y, sample_weight = indexable(X, y, sample_weight)
        y = column_or_1d(y, warn=True)
        if len(y) == 0:
            raise ValueError("`X` must hold at least 1 row, got 0 rows.")
        check_classification_targets(y)
        estimator = self._classifier()
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        given, splitting = self._routed(estimator, weights, fit_params)
        if self.cv == "prefit":
            check_is_fitted(estimator)
            self.classes_, self.estimators_ = np.asarray(estimator.classes_), [estimator]
            codes = _codes(y, self.classes_)
            scores, kind = _scores(estimator, X, self.classes_)
        else:
            self.classes_, codes = np.unique(y, return_inverse=True)
            if len(self.classes_) < 2:
                raise ValueError(f"`y` must hold at least 2 classes, got 1 class: {self.classes_[0]!r}.")
            scores, kind, self.estimators_ = self._left_out(estimator, X, y, codes, given, splitting)
            left_out = ~np.isnan(scores).all(axis=1)
            scores, codes = scores[left_out], codes[left_out]
            weights = None if weights is None else weights[left_out]
            X = _safe_indexing(X, np.flatnonzero(left_out)) if getattr(self.method, "takes_features", False) else X
        self.calibrator_ = _fitted(self.method, scores, codes, kind, weights, X)
        for attribute in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimators_[0], attribute):
                setattr(self, attribute, getattr(self.estimators_[0], attribute))
        return self

    def _classifier(self) -> Any:
        return LogisticRegression() if self.estimator is None else self.estimator

    def _routed(
        self, estimator: Any, weights: NDArray[Any] | None, fit_params: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arguments of the classifier's ``fit``, and those of the splitter."""
        if get_config()["enable_metadata_routing"]:
            given = dict(fit_params) | ({} if weights is None else {"sample_weight": weights})
            routed = process_routing(self, "fit", **given)
            return dict(routed.estimator.fit), dict(routed.splitter.split)
        given = {name: value for name, value in fit_params.items() if name != "groups"}
        if weights is not None and has_fit_parameter(estimator, "sample_weight"):
            given["sample_weight"] = weights
        return given, {"groups": fit_params["groups"]} if "groups" in fit_params else {}

    def get_metadata_routing(self) -> Any:
        """What goes where with metadata routing: arguments of ``fit`` to the classifier, others to the splitter."""
        fits = MethodMapping().add(caller="fit", callee="fit")
        splits = MethodMapping().add(caller="fit", callee="split")
        folds = check_cv(5 if self.cv == "prefit" else self.cv, classifier=True)
        return (
            MetadataRouter(owner=type(self).__name__)
            .add_self_request(self)
            .add(estimator=self._classifier(), method_mapping=fits)
            .add(splitter=folds, method_mapping=splits)
        )

    def _left_out(
        self,
        estimator: Any,
        X: Any,
        y: NDArray[Any],
        codes: NDArray[Any],
        given: Mapping[str, Any],
        splitting: Mapping[str, Any],
    ) -> tuple[NDArray[Any], "_Kind", list[Any]]:
        """The held-out scores of each row (NaN if there are none), their kind, and the classifiers that predict."""
        folds = check_cv(self._folds(codes), y, classifier=True)
        parts = [(train, test) for train, test in folds.split(X, y, **splitting)]
        trained = Parallel(n_jobs=self.n_jobs)(
            delayed(_trained)(clone(estimator), X, y, train, given) for train, _ in parts
        )
        scores, kind = None, None
        for fold, (_, test) in zip(trained, parts, strict=True):
            own, kind = _scores(fold, _safe_indexing(X, test), self.classes_)
            scores = np.full((len(y), own.shape[1]), np.nan) if scores is None else scores
            scores[test] = own
        assert scores is not None
        assert kind is not None
        return scores, kind, trained if self.ensemble else [_trained(clone(estimator), X, y, None, given)]

    def _folds(self, codes: NDArray[Any]) -> Any:
        """``cv``, with fewer folds if the rarest class has fewer rows."""
        rarest = int(np.bincount(codes).argmin())
        rows = int(np.bincount(codes)[rarest])
        if not isinstance(self.cv, int) or rows >= self.cv:
            return self.cv
        if rows < 2:
            raise ValueError(
                f"`y` must hold at least 2 samples of each class for `cv`, class {self.classes_[rarest]!r} has 1."
            )
        warnings.warn(
            f"the rarest class, {self.classes_[rarest]!r}, has {rows} samples, so there are {rows} folds and not "
            f"{self.cv}.",
            stacklevel=4,
        )
        return rows

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Calibrated probabilities (N, K), in the order of ``classes_``."""
        check_is_fitted(self, "calibrator_")
        total: Any = 0
        for estimator in self.estimators_:
            scores, kind = _scores(estimator, X, self.classes_)
            total = total + _applied(self.calibrator_, scores, kind, X)
        return np.asarray(total / len(self.estimators_))

    def predict_log_proba(self, X: Any) -> NDArray[Any]:
        """Logarithms of the calibrated probabilities; −∞ where one is 0."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class of each row."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[likeliest])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(LogisticRegression() if self.estimator is None else self.estimator).input_tags
        tags.input_tags.sparse, tags.input_tags.allow_nan = inner.sparse, inner.allow_nan
        return tags


class ScoreCalibrator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A calibrator as an estimator: its rows are a model's scores, its classes numbers or texts.

    Args:
        method: "best", a calibrator's name, or a calibrator.
        from_probabilities: Whether the rows are probabilities rather than logits.

    Example:
        >>> scores = np.array([[2.0, 0.0], [1.0, 0.0], [0.0, 3.0], [1.0, 0.0]])
        >>> fitted = ScoreCalibrator("temperature").fit(scores, ["cat", "cat", "dog", "dog"])
        >>> fitted.predict(scores).tolist()
        ['cat', 'cat', 'dog', 'cat']
    """

    def __init__(self, method: str | Calibrator = "temperature", *, from_probabilities: bool = False) -> None:
        self.method = method
        self.from_probabilities = from_probabilities

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to (N, K) scores; column k is for the k-th class in sorted order, or for the class number k."""
        X, y = validate_data(self, X, y, dtype="numeric")
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) != X.shape[1] and self.classes_.dtype.kind in "iu":
            self.classes_ = np.arange(X.shape[1])
        if len(self.classes_) != X.shape[1]:
            raise ValueError(f"`X` must have a column for each of the {len(self.classes_)} classes, got {X.shape[1]}.")
        kind: _Kind = "probabilities" if self.from_probabilities else "logits"
        self.calibrator_ = _fitted(self.method, X, _codes(y, self.classes_), kind, weights)
        return self

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Calibrated probabilities (N, K) of (N, K) scores."""
        check_is_fitted(self, "calibrator_")
        X = validate_data(self, X, dtype="numeric", reset=False)
        return _applied(self.calibrator_, X, "probabilities" if self.from_probabilities else "logits")

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class of each row."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[likeliest])


_Kind = Literal["logits", "probabilities"]
ROUNDING = float(np.finfo(np.float64).eps)
"""The least probability above 0 that is taken literally: 1e-300, as naive Bayes says, would be a logit of −690"""


def _trained(estimator: Any, X: Any, y: Any, rows: Any, given: Mapping[str, Any]) -> Any:
    """The classifier, fitted to some rows, or to all; what has one entry per row is divided with them."""
    if rows is None:
        return estimator.fit(X, y, **given)
    own = _check_method_params(X, dict(given), indices=rows)
    return estimator.fit(_safe_indexing(X, rows), _safe_indexing(y, rows), **own)


def _fitted(
    method: str | Calibrator,
    scores: NDArray[Any],
    codes: NDArray[Any],
    kind: _Kind,
    weights: NDArray[Any] | None = None,
    X: Any = None,
) -> Calibrator:
    """A fitted copy of the calibrator; its ``floor_`` replaces probabilities of 0, and ``X`` are the features."""
    from_probabilities = kind == "probabilities"
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*probabilities are exactly 0")  # normal for forests
        if isinstance(method, Calibrator):
            chosen = method.unfitted()
        elif method == "best":
            able = None if weights is None else [one for one in calibrators.default_candidates() if one.takes_weights]
            best = calibrators.fit_best(
                scores, codes, able, from_probabilities=from_probabilities, resamples=100, patient=False
            ).calibrator
            if weights is None:
                return best
            chosen = best.unfitted()
        else:
            chosen = REGISTRY[REGISTRY.canonical(method, "method", also="best")]()
        if weights is not None and not chosen.takes_weights:
            warnings.warn(f"{type(chosen).__name__} takes no weights: it is fitted to all rows alike.", stacklevel=3)
            counted = np.flatnonzero(weights > 0)
            X = _safe_indexing(X, counted) if chosen.takes_features else X
            scores, codes, weights = scores[counted], codes[counted], None
        beside = _features(chosen, X)
        return chosen.fit(scores, codes, from_probabilities=from_probabilities, sample_weight=weights, **beside)


def _features(calibrator: Calibrator, X: Any) -> dict[str, Any]:
    """The rows as features, for a calibrator that takes features."""
    if not calibrator.takes_features:
        return {}
    if X is None:
        raise ValueError(f"{type(calibrator).__name__} takes features; use it in CalibratedClassifier, which has them.")
    return {"features": np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)}


def _applied(calibrator: Calibrator, scores: NDArray[Any], kind: _Kind, X: Any = None) -> NDArray[Any]:
    beside = _features(calibrator, X)
    p = calibrator.predict_proba(scores.astype(np.float64), from_probabilities=kind == "probabilities", **beside)
    return np.asarray(p)


def _scores(estimator: Any, X: Any, classes: NDArray[Any]) -> tuple[NDArray[Any], _Kind]:
    """The scores (N, K) of a classifier in the order of ``classes``, and whether they are logits or probabilities."""
    kind: _Kind
    if hasattr(estimator, "decision_function"):
        scores, kind = np.asarray(estimator.decision_function(X), dtype=np.float64), "logits"
        if scores.ndim == 1:
            scores = np.stack([np.zeros_like(scores), scores], axis=1)
    elif hasattr(estimator, "predict_proba"):
        p, kind = np.asarray(estimator.predict_proba(X), dtype=np.float64), "probabilities"
        scores = np.where((p > 0) & (p < ROUNDING), ROUNDING, p)
    else:
        raise TypeError(
            f"`estimator` must have `decision_function` or `predict_proba`, got {type(estimator).__name__} without."
        )
    own = np.asarray(estimator.classes_)
    if scores.shape != (len(scores), len(own)):
        raise ValueError(
            f"`estimator` must give one score for each of its {len(own)} classes, got shape {scores.shape} from "
            f"{type(estimator).__name__}; SVC does so with decision_function_shape='ovr'."
        )
    if len(own) == len(classes):
        return scores, kind
    # A classifier whose fold lacks a class cannot predict that class: it scores below all others of its row.
    least = 0.0 if kind == "probabilities" else scores.min(axis=1, keepdims=True) - 10.0
    whole = np.broadcast_to(least, (len(scores), len(classes))).copy()
    whole[:, np.searchsorted(classes, own)] = scores
    return whole, kind


def _codes(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """The index of each label among the classes."""
    order = np.argsort(classes)
    places = np.searchsorted(classes, y, sorter=order).clip(max=len(classes) - 1)
    codes: NDArray[Any] = order[places]
    if not bool((classes[codes] == y).all()):
        unknown = y[classes[codes] != y][0]
        raise ValueError(f"`y` must hold classes that the estimator knows, got {unknown!r}.")
    return codes


# Scorers


class Scorer:
    """A metric of ``predict_proba`` for scikit-learn's ``scoring``, where larger is better, so most are negated.

    Args:
        metric: A metric's name, such as "ece_hist".
        options: Options of the metric, such as ``scope="output"``.
    """

    def __init__(self, metric: str, **options: Any) -> None:
        self.metric = catalogue.named(metric)
        self.options = options

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """The score of a fitted classifier with ``predict_proba``."""
        p = np.asarray(estimator.predict_proba(X), dtype=np.float64)
        classes = np.asarray(getattr(estimator, "classes_", np.arange(p.shape[1])))
        checked = scopes.checked(p, _codes(np.asarray(y), classes))
        if "k" not in self.options and self._default_k > p.shape[1]:
            return 1.0  # the five likeliest of three classes are all three
        return -self.metric.cost(self.metric.statistic(Claims(*checked), **self.options).value())

    @property
    def _default_k(self) -> int:
        """How many classes a metric of the likeliest classes takes by default; 0 for other metrics."""
        own = self.metric.parameters.get("k")
        return int(self.metric.options.get("k", 0 if own is None else own.default))

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"Scorer({self.metric.key!r}{options})"


def scorers() -> dict[str, Scorer]:
    """All metrics of probabilities and labels alone, by name, with the prefix "neg_" where smaller is better.

    Metrics of two classes only are left out.

    Example:
        >>> {"accuracy", "neg_nll", "neg_ece_hist", "neg_ece_hist_output", "neg_brier"} <= set(scorers())
        True
    """
    plain = {
        key: metric
        for key, metric in METRICS.items()
        if (metric.signed or metric.larger_is_better is not None)
        and metric.most_classes is None
        and not metric.several_labels
        and not any(parameter.default is parameter.empty for parameter in metric.parameters.values())
    }
    return {key if metric.larger_is_better else f"neg_{key}": Scorer(key) for key, metric in plain.items()}


# A display


class ReliabilityDisplay:
    """Reliability diagram of a classifier with any number of classes, like scikit-learn's ``CalibrationDisplay``.

    Make one with ``from_estimator`` or ``from_predictions``; ``figure_`` and ``ax_`` hold what was drawn.
    """

    def __init__(
        self, probabilities: Mapping[str, Any] | Any, labels: NDArray[Any], options: Mapping[str, Any]
    ) -> None:
        self.probabilities, self.labels, self.options = probabilities, labels, dict(options)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, ax: "Axes | None" = None, **options: Any) -> Self:
        """The display of a fitted classifier; ``options`` are those of ``diagrams.reliability``."""
        check_is_fitted(estimator)
        p = np.asarray(estimator.predict_proba(X), dtype=np.float64)
        return cls(p, _codes(np.asarray(y), np.asarray(estimator.classes_)), options).plot(ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any,
        *,
        classes: Sequence[Any] | None = None,
        ax: "Axes | None" = None,
        **options: Any,
    ) -> Self:
        """The display of (N, K) probabilities, or of (N,) of class 1.

        ``classes`` names the columns, by default sorted labels or 0 … K−1.
        """
        p, y = checks.probabilities(np.asarray(y_prob, dtype=np.float64), "y_prob").numpy(), np.asarray(y_true)
        num_classes = p.shape[1]
        if classes is not None:
            names = np.asarray(classes)
            if len(names) != num_classes:
                raise ValueError(f"`classes` must name the {num_classes} columns of `y_prob`, got {len(names)}.")
        elif y.dtype.kind in "iu":
            names = np.arange(num_classes)
        else:
            names = np.unique(y)
            if len(names) != num_classes:
                raise ValueError(
                    f"`y_true` holds {len(names)} classes but `y_prob` has {num_classes} columns; name the columns "
                    "with `classes`."
                )
        return cls(p, _codes(y, names), options).plot(ax=ax)

    def _repr_png_(self) -> bytes:
        """What a notebook shows."""
        from softkin._core.figures import rendered

        return rendered(self.figure_, bbox_inches="tight")

    def plot(self, *, ax: "Axes | None" = None) -> Self:
        """Draw, on ``ax`` or on a new figure."""
        self.figure_ = diagrams.reliability(self.probabilities, self.labels, ax=ax, **self.options)
        self.ax_ = self.figure_.axes[0] if ax is None else ax
        return self
