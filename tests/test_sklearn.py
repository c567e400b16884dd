"""softkin inside scikit-learn, tested with scikit-learn's own checks."""

import os
import warnings

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.metrics import log_loss, make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    StratifiedShuffleSplit,
    cross_val_score,
    cross_validate,
    train_test_split,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

from softkin import calibrators, metrics
from softkin import sklearn as softkin_sklearn
from softkin.calibrators import REGISTRY
from softkin.sklearn import CalibratedClassifier, ReliabilityDisplay, ScoreCalibrator, scorers

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])
LOGITS = np.random.default_rng(0).normal(size=(120, 3)) * 2
LABELS = np.where(np.random.default_rng(1).random(120) < 0.7, LOGITS.argmax(1), 1)


# SOFTKIN_ALL_CHECKS=1 takes every calibrator: those that search their penalties take minutes together.
QUICK = ["temperature", "vector", "platt", "isotonic", "histogram", "spline"]
CHECKED = list(REGISTRY) if os.environ.get("SOFTKIN_ALL_CHECKS") else QUICK


@pytest.mark.parametrize("name", CHECKED)
def test_every_calibrator_is_a_classifier_to_scikit_learn(name):
    calibrator = REGISTRY[name](**({"lam": 0.1, "mu": 0.1} if name in ("matrix", "dirichlet") else {}))
    assert is_classifier(calibrator)
    accuracy = cross_val_score(calibrator, LOGITS, LABELS, cv=3)
    losses = cross_val_score(calibrator, LOGITS, LABELS, cv=3, scoring="neg_log_loss")
    assert accuracy.mean() > 0.5
    assert np.isfinite(losses).all()
    assert type(clone(calibrator)) is type(calibrator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CHECKED)
def test_scikit_learns_own_checks(name):
    # Matrix and Dirichlet search their penalties, some fifty times here: they get them.
    fixed = {"matrix": {"lam": 0.1, "mu": 0.1}, "dirichlet": {"lam": 0.1, "mu": 0.1}}
    calibrator = REGISTRY[name](**fixed.get(name, {}))
    # A spline's knots are places of rows, whatever they weigh; a vector's optimum is so flat that both agree to 1e-7.
    alike = calibrator.takes_weights and name not in ("spline", "vector")
    check_estimator(CalibratedClassifier(method=calibrator, cv=2), expected_failed_checks={} if alike else UNWEIGHTED)


UNWEIGHTED = dict.fromkeys(
    ["check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"],
    "the calibrator, or the choice of one, does not know weights",
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks_of_the_default():
    check_estimator(CalibratedClassifier(), expected_failed_checks=UNWEIGHTED)


DIGITS, DIGIT = load_digits(return_X_y=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "theirs"), [("temperature", "temperature"), ("platt", "sigmoid"), ("isotonic", "isotonic")]
)
def test_naive_bayes_is_calibrated_as_well_as_by_scikit_learn(method, theirs):
    """Its probabilities go down to 1e-308 and to exactly 0, which are no claims that anybody means."""
    train, test = slice(0, 1100), slice(1100, None)
    ours = CalibratedClassifier(GaussianNB(), method=method).fit(DIGITS[train], DIGIT[train])
    peer = CalibratedClassifierCV(GaussianNB(), method=theirs).fit(DIGITS[train], DIGIT[train])
    losses = [log_loss(DIGIT[test], model.predict_proba(DIGITS[test])) for model in (ours, peer)]
    assert losses[0] <= 1.05 * losses[1]


def test_weights_count_as_repetitions_and_reach_classifier_and_calibrator():
    weights = np.random.default_rng(0).integers(0, 3, len(Y))
    folds = [(np.arange(0, len(Y), 2), np.arange(1, len(Y), 2)), (np.arange(1, len(Y), 2), np.arange(0, len(Y), 2))]
    repeated = np.repeat(np.arange(len(Y)), weights)
    again = [tuple(np.flatnonzero(np.isin(repeated, part)) for part in fold) for fold in folds]
    model = LogisticRegression(max_iter=10_000, tol=1e-10)
    weighted = CalibratedClassifier(model, method="temperature", cv=folds).fit(X, Y, sample_weight=weights)
    whole = CalibratedClassifier(model, method="temperature", cv=again).fit(X[repeated], Y[repeated])
    np.testing.assert_allclose(weighted.predict_proba(X), whole.predict_proba(X), atol=1e-5)
    with pytest.warns(UserWarning, match="BayesianBinning takes no weights"):
        CalibratedClassifier(model, method="bayesian-binning", cv=folds).fit(X, Y, sample_weight=weights)


def test_groups_fit_parameters_jobs_and_logarithms():
    groups = np.arange(len(Y)) % 5
    fitted = CalibratedClassifier(method="temperature", cv=GroupKFold(5), n_jobs=2).fit(X, Y, groups=groups)
    alone = CalibratedClassifier(method="temperature", cv=GroupKFold(5)).fit(X, Y, groups=groups)
    np.testing.assert_array_equal(fitted.predict_proba(X), alone.predict_proba(X))
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)), fitted.predict_proba(X))
    seen = []

    class Curious(LogisticRegression):
        def fit(self, X, y, sample_weight=None, note=None):
            seen.append(note)
            return super().fit(X, y, sample_weight)

    CalibratedClassifier(Curious(max_iter=1000), method="temperature", cv=3).fit(X, Y, note="hello")
    assert seen == ["hello"] * 3


def test_metadata_is_routed_where_it_was_requested():
    with config_context(enable_metadata_routing=True):
        model = LogisticRegression(max_iter=1000).set_fit_request(sample_weight=True)
        fitted = CalibratedClassifier(model, method="temperature", cv=GroupKFold(3))
        fitted.fit(X, Y, sample_weight=np.ones(len(Y)), groups=np.arange(len(Y)) % 3)
        with pytest.raises(TypeError, match="unexpected argument"):
            fitted.fit(X, Y, sample_weight=np.ones(len(Y)), nothing=3)


def test_fewer_folds_where_a_class_is_rare():
    few = np.r_[0:10, 50:60, 100:103]
    with pytest.warns(UserWarning, match="has 3 samples, so there are 3 folds and not 5"):
        fitted = CalibratedClassifier(method="temperature").fit(X[few], Y[few])
    assert len(fitted.estimators_) == 3
    with pytest.raises(ValueError, match="at least 2 samples of each class"):
        CalibratedClassifier(method="temperature").fit(X[few[:-2]], Y[few[:-2]])


SCORES = "the check has features of any number; a calibrator of scores has a column for each class"
DOES_NOT_APPLY = dict.fromkeys(
    [
        "check_estimators_overwrite_params",
        "check_estimators_fit_returns_self",
        "check_readonly_memmap_input",
        "check_estimators_nan_inf",
        "check_classifiers_classes",
        "check_classifiers_train",
        "check_fit2d_1feature",
    ],
    SCORES,
)


@pytest.mark.filterwarnings("ignore")
def test_checks_of_a_calibrator_of_scores():
    check_estimator(ScoreCalibrator(), expected_failed_checks=DOES_NOT_APPLY)


@pytest.mark.parametrize("cv", [3, "prefit"])
@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(max_iter=1000),
        LinearSVC(),
        GaussianNB(),
        DecisionTreeClassifier(max_depth=3, random_state=0),
        make_pipeline(StandardScaler(), Perceptron()),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_anything_with_scores_and_string_classes(estimator, cv):
    train, test, y_train, y_test = train_test_split(X, NAMES[Y], random_state=0, stratify=NAMES[Y])
    if cv == "prefit":
        train, held, y_train, y_held = train_test_split(train, y_train, random_state=0, stratify=y_train)
        fitted = CalibratedClassifier(clone(estimator).fit(train, y_train), method="temperature", cv="prefit")
        fitted.fit(held, y_held)
    else:
        fitted = CalibratedClassifier(estimator, method="temperature", cv=cv).fit(train, y_train)
    assert fitted.classes_.tolist() == NAMES.tolist()
    p = fitted.predict_proba(test)
    np.testing.assert_allclose(p.sum(1), 1)
    assert (fitted.predict(test) == NAMES[p.argmax(1)]).all()
    assert fitted.score(test, y_test) > 0.8
    assert log_loss(y_test, p, labels=NAMES) < 0.6


def test_prefit_is_the_calibrator_on_the_classifiers_scores():
    network = LogisticRegression(max_iter=1000).fit(X[::2], Y[::2])
    fitted = CalibratedClassifier(network, method="vector", cv="prefit").fit(X[1::2], Y[1::2])
    scores = network.decision_function(X[1::2])
    expected = calibrators.VectorScaling().fit(scores, Y[1::2]).predict_proba(scores)
    np.testing.assert_allclose(fitted.predict_proba(X[1::2]), expected, atol=1e-12)
    with pytest.raises(ValueError, match="`y` must hold classes that the estimator knows, got np.int64\\(7\\)"):
        CalibratedClassifier(network, cv="prefit").fit(X, np.where(Y == 0, 7, Y))


def test_binary_texts_a_pipeline_and_a_search():
    texts = ["good film", "bad film", "good cast", "bad cast", "good plot", "bad plot"] * 5
    mood = ["up", "down"] * 15
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression())
    search = GridSearchCV(
        CalibratedClassifier(pipeline, cv=3),
        {"method": ["temperature", "platt"], "estimator__logisticregression__C": [0.1, 10.0]},
        scoring=scorers()["neg_nll"],
        cv=2,
    ).fit(texts, mood)
    assert search.predict(["good film", "bad plot"]).tolist() == ["up", "down"]
    assert -0.5 < search.best_score_ <= 0


@pytest.mark.slow
def test_best_is_chosen_and_what_is_refused():
    fitted = CalibratedClassifier(GaussianNB(), cv=3).fit(X, Y)
    assert isinstance(fitted.calibrator_, tuple(REGISTRY.values()))
    with pytest.raises(
        ValueError, match="`method` must be one of temperature.*or best, got 'temprature'; did you mean"
    ):
        CalibratedClassifier(GaussianNB(), method="temprature", cv=3).fit(X, Y)
    with pytest.raises(ValueError, match="at least 2 classes, got 1 class"):
        CalibratedClassifier(GaussianNB(), cv=3).fit(X, np.zeros(150))


def test_splitters_that_leave_out_some_rows_or_leave_them_out_twice():
    shuffled = CalibratedClassifier(GaussianNB(), method="temperature", cv=StratifiedShuffleSplit(1, random_state=0))
    train, held = next(StratifiedShuffleSplit(1, random_state=0).split(X, Y))
    fold = GaussianNB().fit(X[train], Y[train])
    by_hand = CalibratedClassifier(fold, method="temperature", cv="prefit").fit(X[held], Y[held])
    np.testing.assert_allclose(shuffled.fit(X, Y).predict_proba(X), by_hand.predict_proba(X), atol=1e-12)
    twice = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    assert len(CalibratedClassifier(GaussianNB(), method="temperature", cv=twice).fit(X, Y).estimators_) == 6


def test_scores_of_pairs_of_classes_are_refused():
    digits, labels = load_digits(return_X_y=True)
    pairs = SVC(decision_function_shape="ovo")
    with pytest.raises(ValueError, match=r"one score for each of its 10 classes, got shape \(\d+, 45\) from SVC"):
        CalibratedClassifier(pairs, method="temperature", cv=2).fit(digits[:200], labels[:200])


def test_text_labels_of_a_bare_calibrator():
    with pytest.raises(
        TypeError, match="are texts such as 'setosa', .* number the classes in the order of the columns"
    ):
        calibrators.TemperatureScaling().fit(LOGITS, NAMES[LABELS * 0])
    assert cross_val_score(ScoreCalibrator("temperature"), LOGITS, NAMES[LABELS], cv=3).mean() > 0.5


def test_make_scorer_is_told_what_to_take_instead():
    scorer = make_scorer(metrics.ece_hist, response_method="predict_proba", greater_is_better=False)
    with pytest.raises(ValueError, match=r"the other way round; for scikit-learn's `scoring` take softkin.sklearn"):
        scorer(GaussianNB().fit(X, Y), X, Y)


def test_all_scorers_at_once():
    measured = cross_validate(GaussianNB(), X, NAMES[Y], scoring=scorers(), cv=3, error_score="raise")
    assert {f"test_{name}" for name in scorers()} <= set(measured)
    assert (measured["test_top_k_accuracy"] == 1).all()  # five of three classes
    assert np.isfinite([measured[f"test_{name}"] for name in scorers()]).all()


def test_scorers_are_the_metrics_with_scikit_learns_sign():
    model = GaussianNB().fit(X, NAMES[Y])
    p = model.predict_proba(X)
    known = scorers()
    assert known["accuracy"](model, X, NAMES[Y]) == metrics.accuracy(p, Y)
    assert known["neg_ece_hist"](model, X, NAMES[Y]) == -metrics.ece_hist(p, Y)
    assert known["neg_ece_hist_output"](model, X, NAMES[Y]) == -metrics.ece_hist(p, Y, scope="output")
    assert known["neg_signed_gap"](model, X, NAMES[Y]) == -abs(metrics.signed_gap(p, Y))
    own = softkin_sklearn.Scorer("ece_hist", n_bins=5)
    assert own(model, X, NAMES[Y]) == -metrics.ece_hist(p, Y, n_bins=5)
    assert repr(own) == "Scorer('ece_hist', n_bins=5)"
    assert not [name for name in known if "kde_output" in name]  # no winner is derived from it
    several = cross_val_score(GaussianNB(), X, Y, scoring=known["neg_nll"], cv=3)
    assert (several < 0).all()


def test_the_display_draws_many_classes():
    model = GaussianNB().fit(X, NAMES[Y])
    display = ReliabilityDisplay.from_estimator(model, X, NAMES[Y], n_bins=10)
    assert "ECE" in display.ax_.get_legend_handles_labels()[1][0] or display.ax_.get_legend() is not None
    again = ReliabilityDisplay.from_predictions(NAMES[Y], model.predict_proba(X), ax=display.ax_, counts=False)
    assert again.ax_ is display.ax_


def test_the_display_never_guesses_which_class_a_column_is():
    p = GaussianNB().fit(X, NAMES[Y]).predict_proba(X)
    seen = Y > 0  # no setosa: the sorted labels are not the columns' classes
    with pytest.raises(ValueError, match="`y_true` holds 2 classes but `y_prob` has 3 columns; name .* with `classes`"):
        ReliabilityDisplay.from_predictions(NAMES[Y][seen], p[seen])
    display = ReliabilityDisplay.from_predictions(NAMES[Y][seen], p[seen], classes=NAMES)
    assert display.labels.tolist() == Y[seen].tolist()
    with pytest.raises(ValueError, match="`classes` must name the 3 columns of `y_prob`, got 2"):
        ReliabilityDisplay.from_predictions(NAMES[Y][seen], p[seen], classes=NAMES[1:])
    with pytest.raises(ValueError, match="must hold classes that the estimator knows, got"):
        ReliabilityDisplay.from_predictions(Y, p[:, 0])  # three classes beside the scores of a binary model
    assert ReliabilityDisplay.from_predictions(Y > 0, 1 - p[:, 0]).labels.tolist() == (Y > 0).astype(int).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["forest", "boosting"])
def test_twenty_classes_with_exact_zeros_beside_scikit_learns_temperature(kind):
    samples, labels = make_classification(
        1300, 20, n_informative=12, n_classes=20, n_clusters_per_class=1, class_sep=1.2, random_state=0
    )
    train, test, y_train, y_test = train_test_split(samples, labels, test_size=0.4, random_state=0, stratify=labels)
    make = {
        "forest": RandomForestClassifier(25, random_state=0),
        "boosting": GradientBoostingClassifier(n_estimators=6, max_depth=2, random_state=0),
    }[kind]
    ours = CalibratedClassifier(make, method="temperature", cv=3).fit(train, y_train)
    theirs = CalibratedClassifierCV(make, method="temperature", cv=3).fit(train, y_train)
    loss = log_loss(y_test, ours.predict_proba(test))
    peer = log_loss(y_test, theirs.predict_proba(test))
    assert loss <= peer


def test_a_class_that_a_fold_lacks_gets_the_same_probability_in_any_batch():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    y = np.argmax(X[:, :3] + rng.normal(size=(300, 3)), axis=1)
    fold = np.where(y == 2, 0, rng.integers(3, size=300))  # the training rows of fold 0 lack class 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = CalibratedClassifier(LogisticRegression(), method="vector", cv=PredefinedSplit(fold)).fit(X, y)
    alone = np.concatenate([fitted.predict_proba(X[i : i + 1]) for i in range(20)])
    among_others = fitted.predict_proba(np.concatenate([X[:20], 30 * X[50:60]]))[:20]
    assert np.allclose(alone, among_others, atol=1e-12)


@pytest.mark.parametrize("cv", [3, "prefit"])
def test_a_head_reads_the_rows_as_features(cv):
    X, y = load_digits(return_X_y=True)
    rows, others, rest = slice(0, 200), slice(200, 500), slice(500, None)
    inner = LogisticRegression(max_iter=200, C=1e-5)
    fitted_on = others if cv == "prefit" else rows
    inner = inner.fit(X[rows], y[rows]) if cv == "prefit" else inner
    head = CalibratedClassifier(inner, method=calibrators.KinHead(), cv=cv).fit(X[fitted_on], y[fitted_on])
    scaled = CalibratedClassifier(inner, method="temperature", cv=cv).fit(X[fitted_on], y[fitted_on])
    assert isinstance(head.calibrator_, calibrators.KinHead)
    assert not head.calibrator_.is_temperature
    ours, theirs = (metrics.nll(one.predict_proba(X[rest]), y[rest]) for one in (head, scaled))
    assert ours < theirs - 0.05
    if cv == "prefit":
        by_hand = calibrators.KinHead().fit(inner.decision_function(X[others]), y[others], features=X[others])
        expected = by_hand.predict_proba(inner.decision_function(X[rest]), features=X[rest])
        np.testing.assert_allclose(head.predict_proba(X[rest]), expected)
    with pytest.raises(ValueError, match="takes features; use it in CalibratedClassifier"):
        ScoreCalibrator(calibrators.KinHead()).fit(inner.fit(X[rows], y[rows]).decision_function(X[rows]), y[rows])
