"""What other libraries' own tests assert about the same definitions, as cases of ours, with known differences named.

The cases are theirs, the words are ours: torchmetrics (test_calibration_error), scikit-learn (test_classification,
test_ranking, test_calibration), verified_calibration (util_test, the package "calibration") and probmetrics
(test_metrics). The numbers stand here, so that a change in a peer cannot move them. Differences:

============================  =======================================================================================
scikit-learn ``log_loss``     clips a score of 0 to the smallest step of its type: 36.04 for a sure error in float64,
                              15.94 in float32; ours is infinite
scikit-learn ``brier_score``  two classes: half of ours by default (the positive class alone, our ``per="score"``)
scikit-learn ``top_k``        of equal scores the *last* classes come first, ours the first: on their case 1/2, ours 3/4
verified_calibration          marginal L2 is the root of the mean square over classes, ours the mean of the classes'
                              roots: 0.1158 and 0.1051 on their case. Equal-mass edges lie between scores, ours at
                              scores: the same bins but for ties. No root of the third power here
rows that do not sum to 1     scikit-learn warns, verified_calibration takes them; refused here
============================  =======================================================================================
"""

import math

import numpy as np
import pytest
import torch

from softkin import metrics
from softkin.metrics import binning

CLASSES = 120


def winners(scores, right):
    """Rows of 120 classes in which class 0 wins with these scores, and labels that make them right or wrong."""
    scores = np.asarray(scores, dtype=float)
    rows = np.repeat((1 - scores)[:, None] / (CLASSES - 1), CLASSES, axis=1)
    rows[:, 0] = scores
    assert (rows[:, 0] > rows[:, 1]).all()
    return rows, np.where(np.asarray(right, dtype=bool), 0, 1)


# verified_calibration


@pytest.mark.parametrize(
    ("scores", "right", "norm", "expected"),
    [
        ([0.3], [1], 1, 0.7),
        ([0.3], [0], 1, 0.3),
        ([0.3], [1], 2, 0.7),
        ([0.3, 0.6], [1, 0], 1, 0.65),
        ([0.3, 0.6, 0.6], [1, 0, 1], 1, 0.3),
        ([0.3, 0.6], [1, 0], 2, 0.6519202405),
    ],
)
def test_a_few_scores_in_bins_of_their_own(scores, right, norm, expected):
    assert metrics.ece_hist(*winners(scores, right), n_bins=10, norm=norm) == pytest.approx(expected)


NINE = (
    np.array([[0.5, 0.5]] * 3 + [[0.4, 0.6]] + [[0.5, 0.5]] + [[0.4, 0.6]] * 4),
    np.array([0, 1, 0, 1, 0, 1, 1, 1, 0]),
)


@pytest.mark.parametrize(("norm", "expected"), [(1, 4 / 9 * 0.25 + 5 / 9 * 0.2), (2, (4 / 144 + 5 / 225) ** 0.5)])
def test_two_labels(norm, expected):
    assert metrics.ece_hist(*NINE, n_bins=10, norm=norm) == pytest.approx(expected)
    assert metrics.classwise_ece(*NINE, n_bins=10, norm=norm) == pytest.approx(expected)  # the same for two classes
    assert metrics.debiased_ece(*NINE, n_bins=10) < metrics.ece_hist(*NINE, n_bins=10, norm=2)


FOURTEEN = (
    np.array([[0.6, 0.3, 0.1]] * 6 + [[0.1, 0.8, 0.1]] * 4 + [[0.1, 0.0, 0.9]] * 4),
    np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2]),
)


def test_three_labels():
    gaps = [(4, 0.1), (6, 5 / 6 - 0.6), (8, 0.1), (4, 0.05), (6, 0.3 - 1 / 6)]
    assert metrics.classwise_ece(*FOURTEEN, n_bins=10) == pytest.approx(sum(n * gap for n, gap in gaps) / 42)
    top = [(6, 5 / 6 - 0.6), (4, 0.05), (4, 0.1)]
    for norm in (1, 2):
        expected = (sum(n * gap**norm for n, gap in top) / 14) ** (1 / norm)
        assert metrics.ece_hist(*FOURTEEN, n_bins=10, norm=norm) == pytest.approx(expected)
    assert metrics.debiased_ece(*FOURTEEN, n_bins=10) < metrics.ece_hist(*FOURTEEN, n_bins=10, norm=2)


def test_their_marginal_l2_error_is_the_root_of_the_mean_square_over_classes():
    gaps = [(4, 0.1), (6, 5 / 6 - 0.6), (8, 0.1), (4, 0.05), (6, 0.3 - 1 / 6)]
    theirs = (sum(n * gap**2 for n, gap in gaps) / 42) ** 0.5
    assert theirs == pytest.approx(0.1158, abs=1e-4)
    assert (metrics.brier_decomposition(*FOURTEEN, n_bins=10).reliability / 3) ** 0.5 == pytest.approx(theirs)
    assert metrics.classwise_ece(*FOURTEEN, n_bins=10, norm=2) == pytest.approx(0.1051, abs=1e-4)


def test_wide_bins():
    p = np.array([[0.8, 0.1, 0.1], [0.6, 0.2, 0.2], [0, 0.9, 0.1], [0, 1, 0], [0.3, 0.3, 0.4], [0.15, 0, 0.85]])
    y = np.array([0, 0, 1, 1, 0, 2])
    assert metrics.ece_hist(p, y, n_bins=3) == pytest.approx(4 / 6 * (1 - (0.8 + 0.85 + 0.9 + 1) / 4))
    of_class_1 = np.array([0.6, 0.7, 0.8, 0.9])
    assert metrics.ece_hist(np.stack([1 - of_class_1, of_class_1], axis=1), [0, 0, 1, 1], n_bins=2) == pytest.approx(
        0.25
    )
    assert metrics.ece_hist(np.array([[0.9, 0.1], [0.8, 0.2]]), [0, 0]) == pytest.approx(0.15)  # class 1 is missing


@pytest.mark.parametrize(
    ("scores", "right", "n_bins", "expected"),
    [
        ([0.1], [1], 1, 0.9),
        ([0.1], [0], 1, 0.1),
        ([0.1, 0.7], [0, 1], 1, 0.1),
        ([0.7, 0.1], [1, 0], 1, 0.1),
        ([0.1, 0.7, 0.4], [0, 0, 0], 1, 0.4),
        ([0.1, 0.9], [0, 1], 1, 0.0),
        ([0.1, 0.7], [0, 1], 2, 0.2),
        ([0.1, 0.1, 0.7], [0, 1, 1], 2, 0.4 * 2 / 3 + 0.3 / 3),
        ([0.1, 0.1, 0.1, 0.1, 0.7], [0, 1, 0, 0, 1], 2, 0.15 * 4 / 5 + 0.3 / 5),
        ([0.1, 0.7, 0.5, 0.9], [0, 1, 0, 1], 2, 0.25),
        ([0.1, 0.7, 0.5, 0.9], [0, 1, 0, 1], 4, 0.25),
        ([0.6, 0.7, 0.8, 0.9], [0, 0, 1, 1], 2, 0.4),
        ([0.1, 0.7, 0.5, 0.9], [0, 1, 1, 1], 2, 0.2),
        ([0.1, 0.7, 0.5, 0.9], [0, 1, 1, 1], 4, 0.25),
    ],
)
def test_bins_of_equal_mass(scores, right, n_bins, expected):
    p, y = winners(scores, right)
    assert metrics.ece_hist(p, y, n_bins=n_bins, binning="mass") == pytest.approx(expected)
    if n_bins == 1:
        assert metrics.ece_hist(p, y, n_bins=1) == pytest.approx(expected)


HARMONIC = sum(1 / i for i in range(1, 13)) / 12


@pytest.mark.parametrize(
    ("scores", "right", "accuracy"),
    [
        ([0.1], [1], 1.0),
        ([0.6], [0], 0.0),
        ([0.3, 0.9], [0, 1], 0.75),
        ([0.9, 0.3], [1, 0], 0.75),
        ([0.3, 0.9], [1, 0], 0.25),
        ([0.6, 0.2, 0.8], [1, 0, 1], 8 / 9),
        ([0.6, 0.2, 0.8], [1, 1, 1], 1.0),
        ([0.6, 0.2, 0.8], [0, 0, 0], 0.0),
        ([0.6, 0.2, 0.8], [0, 0, 1], 11 / 18),
        ([0.6, 0.2, 0.8], [0, 1, 0], 1 / 9),
        ([0.1] * 10 + [0.6, 0.7], [0] * 12, 0.0),
        ([0.1] * 10 + [0.6, 0.7], [0] * 11 + [1], HARMONIC),
        ([0.1] * 10 + [0.6, 0.7], [0] * 10 + [1, 0], HARMONIC - 1 / 12),
        ([0.1] * 9 + [0.5, 0.6, 0.7], [0] * 9 + [1, 0, 0], HARMONIC - 1.5 / 12),
    ],
)
def test_the_mean_accuracy_among_the_most_confident(scores, right, accuracy):
    assert metrics.aurc(*winners(scores, right)) == pytest.approx(1 - accuracy)


def test_rows_that_do_not_sum_to_1_are_refused():
    with pytest.raises(ValueError, match="sum to 1"):
        metrics.ece_hist(np.array([[0.8, 0.1, 0.1], [0.2, 0.0, 0.85]]), [0, 2])


# torchmetrics


def test_a_bin_whose_scores_are_0():
    of_class_1 = np.array([1.0, 1, 1, 1, 0])
    p, y = np.stack([1 - of_class_1, of_class_1], axis=1), [0, 0, 1, 1, 1]
    assert metrics.ece_hist(p, y, convention="netcal", n_bins=2) == pytest.approx(0.6)  # the score of class 1
    assert metrics.ece_hist(p, y, n_bins=2) == pytest.approx(0.6)  # the winning score


TWELVE = np.array([0.9] * 5 + [0.8] * 2 + [0.01, 0.33, 0.34, 0.99, 0.61])
TWELVE_LABELS = np.array([1, 1, 1, 0, 0, 1, 0, 1, 0, 1, 0, 0])


@pytest.mark.parametrize(("n_bins", "expected"), [(99, 5.68 / 12), (100, 5.68 / 12)])
def test_scores_on_the_edges_of_many_bins(n_bins, expected):
    """One hundred bins and scores with two digits: each lies on an edge, where float32 and float64 disagree."""
    p = np.stack([1 - TWELVE, TWELVE], axis=1)
    by_score = sum(abs((TWELVE[score == TWELVE] - TWELVE_LABELS[score == TWELVE]).sum()) for score in np.unique(TWELVE))
    assert by_score / 12 == pytest.approx(expected)  # all scores that differ lie in different bins
    assert metrics.ece_hist(p, TWELVE_LABELS, convention="netcal", n_bins=n_bins) == pytest.approx(expected)
    torchmetrics = pytest.importorskip("torchmetrics.functional.classification")
    theirs = torchmetrics.binary_calibration_error(
        torch.from_numpy(TWELVE), torch.from_numpy(TWELVE_LABELS), n_bins=n_bins
    )
    assert float(theirs) == pytest.approx(expected)


@pytest.mark.parametrize("n_bins", [10, 15, 20])
@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_many_classes_in_half_and_double_precision(n_bins, norm):
    """Their inputs: random softmaxes of five classes, in every precision; theirs runs in float32."""
    torchmetrics = pytest.importorskip("torchmetrics.functional.classification")
    generator = torch.Generator().manual_seed(42)
    logits, y = torch.randn(320, 5, generator=generator), torch.randint(5, (320,), generator=generator)
    p = logits.double().softmax(1)
    theirs = torchmetrics.multiclass_calibration_error(p.float(), y, num_classes=5, n_bins=n_bins, norm=norm)
    ours = {
        "l1": lambda q: metrics.ece_hist(q, y, convention="torchmetrics", n_bins=n_bins),
        "l2": lambda q: metrics.ece_hist(q, y, convention="torchmetrics", n_bins=n_bins, norm=2),
        "max": lambda q: metrics.mce(q, y, convention="torchmetrics", n_bins=n_bins),
    }[norm]
    assert ours(p.float()) == pytest.approx(float(theirs), abs=1e-5)
    assert ours(p) == pytest.approx(float(theirs), abs=1e-5)


# scikit-learn


@pytest.mark.parametrize(
    ("p", "y", "expected"),
    [
        ([[0.2, 0.7, 0.1], [0.6, 0.2, 0.2], [0.6, 0.1, 0.3]], [1, 0, 2], 0.6904911),
        ([[0.3, 0.7], [0.6, 0.4], [0.4, 0.6], [0.7, 0.3]], [0, 1, 1, 0], 0.7469410),
        ([[0.7, 0.1, 0.2], [0.2, 0.7, 0.1], [0.1, 0.7, 0.2]], [0, 1, 1], -math.log(0.7)),
        ([[0.5, 0.5], [0.1, 0.9], [0.01, 0.99], [0.9, 0.1], [0.75, 0.25], [0.001, 0.999]], [0, 0, 0, 1, 1, 1],
         (math.log(2) + math.log(10) + math.log(100) + math.log(10) + math.log(4) - math.log(0.999)) / 6),
        ([[1, 0], [0, 1], [1, 0]], [0, 1, 0], 0.0),
        ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [0, 1, 2], 0.0),
    ],
)  # fmt: skip
def test_log_loss(p, y, expected):
    p, y = np.array(p, dtype=float), np.array(y)
    assert metrics.nll(p, y) == pytest.approx(expected, abs=1e-7)
    assert metrics.nll(np.tile(p, (2, 1)), np.tile(y, 2)) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(("dtype", "clipped"), [(np.float64, 36.0437), (np.float32, 15.9424)])
def test_log_loss_of_a_sure_error_is_infinite_here_and_clipped_there(dtype, clipped):
    p, y = np.array([[0, 1], [1, 0]], dtype=dtype), np.array([0, 1])
    assert metrics.nll(p, y) == math.inf
    sklearn = pytest.importorskip("sklearn.metrics")
    assert sklearn.log_loss(y, p) == pytest.approx(clipped, abs=1e-3)
    assert -math.log(np.finfo(dtype).eps) == pytest.approx(clipped, abs=1e-3)


def test_brier_score_of_two_classes():
    y, score = np.array([0, 1, 1, 0, 1, 1]), np.array([0.1, 0.8, 0.9, 0.3, 1.0, 0.95])
    p = np.stack([1 - score, score], axis=1)
    expected = ((y - score) ** 2).mean()
    assert metrics.brier(p, y, per="score") == pytest.approx(expected)  # theirs, of the positive class
    assert metrics.brier(p, y) == pytest.approx(2 * expected)  # theirs with scale_by_half=False
    assert metrics.brier(np.eye(2)[y], y) == 0
    assert metrics.brier(np.array([[0.6, 0.4]]), [1], per="score") == pytest.approx(0.36)
    assert metrics.brier(np.array([[0.6, 0.4]]), [0], per="score") == pytest.approx(0.16)


@pytest.mark.parametrize(
    ("p", "y", "expected"),
    [
        ([[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0]], [0, 2, 1], 2 / 3),
        ([[0.2, 0.7, 0.1], [0.6, 0.2, 0.2], [0.6, 0.1, 0.3]], [1, 0, 2], 0.41333333),
        (np.eye(3), [0, 1, 2], 0),
        ([[0, 1, 0], [1, 0, 0], [1, 0, 0]], [0, 1, 2], 2),
    ],
)
def test_brier_score_of_many_classes(p, y, expected):
    assert metrics.brier(np.array(p, dtype=float), np.array(y)) == pytest.approx(expected)


@pytest.mark.parametrize("shift", [1.0, -1.0])
def test_scores_outside_0_and_1_and_other_lengths_are_refused(shift):
    p, y = np.array([[0.2, 0.7, 0.1], [0.6, 0.2, 0.2], [0.6, 0.1, 0.3]]), np.array([1, 0, 2])
    for metric in (metrics.brier, metrics.nll, metrics.ece_hist):
        with pytest.raises(ValueError, match="probabilities"):
            metric(p + shift, y)
        with pytest.raises(ValueError, match="labels"):
            metric(p[1:], y)
        with pytest.raises(ValueError, match="labels"):
            metric(p[:, :2] / p[:, :2].sum(1, keepdims=True), y)  # three classes, two columns


RANKED = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.3, 0.4, 0.2], [0.4, 0.1, 0.2, 0.3], [0.3, 0.2, 0.4, 0.1]])


@pytest.mark.parametrize(
    ("y", "k", "expected"),
    [
        ([0, 1, 2, 3], 1, 0.25),
        ([0, 1, 2, 3], 2, 0.5),
        ([0, 1, 2, 3], 3, 0.75),
        ([0, 1, 1, 2], 2, 0.75),
        ([0, 1, 1, 1], 2, 0.5),
        ([1, 1, 1, 1], 2, 0.5),
    ],
)
def test_top_k(y, k, expected):
    assert metrics.top_k_accuracy(RANKED, np.array(y), k=k) == pytest.approx(expected)


def test_of_equal_scores_the_first_classes_come_first_here_and_the_last_there():
    tied = np.array([[5, 5, 7, 0], [1, 5, 5, 5], [0, 0, 3, 3], [1, 1, 1, 1]], dtype=float)
    p, y = tied / tied.sum(1, keepdims=True), np.arange(4)
    theirs = [0.25, 0.5, 1.0]
    ours = [metrics.top_k_accuracy(p, y, k=k) for k in (1, 2, 3)]
    assert ours == [0.5, 0.75, 0.75]
    mirrored = [metrics.top_k_accuracy(p[:, ::-1].copy(), 3 - y, k=k) for k in (1, 2, 3)]
    assert mirrored == theirs


def test_top_k_grows_with_k():
    rng = np.random.default_rng(0)
    p, y = rng.dirichlet(np.ones(10), 1000), rng.integers(0, 10, 1000)
    shares = [metrics.top_k_accuracy(p, y, k=k) for k in range(1, 11)]
    assert (np.diff(shares) > 0).all()
    assert shares[-1] == 1


@pytest.mark.parametrize(
    ("known", "unknown", "expected"), [([1], [0], 1.0), ([0], [1], 0.0), ([1], [1], 0.5), ([0.5], [0.5], 0.5)]
)
def test_area_under_the_curve_of_two_scores(known, unknown, expected):
    assert metrics.auroc(np.array(known, dtype=float), np.array(unknown, dtype=float)) == expected


def test_calibration_curve():
    score, hit = torch.tensor([0.0, 0.1, 0.2, 0.8, 0.9, 1.0]).double(), torch.tensor([3, 4, 5])
    curve = binning.curve(score, hit, binning.equal_width(2))
    assert curve.likelihood.tolist() == [0, 1]
    assert curve.confidence.tolist() == pytest.approx([0.1, 0.9])
    score, hit = torch.tensor([0.0, 0.1, 0.2, 0.5, 0.9, 1.0]).double(), torch.tensor([4, 5])
    curve = binning.curve(score, hit, binning.equal_mass(score, 2))
    assert curve.likelihood.tolist() == pytest.approx([0, 2 / 3])
    assert curve.confidence.tolist() == pytest.approx([0.1, 0.8])


# probmetrics


@pytest.mark.slow
def test_probmetrics_agrees():
    theirs = pytest.importorskip("probmetrics.metrics")
    distributions = pytest.importorskip("probmetrics.distributions")
    generator = torch.Generator().manual_seed(0)
    p = (2 * torch.randn(400, 4, generator=generator)).double().softmax(1)
    y = torch.multinomial(p, 1, generator=generator)[:, 0]
    names = ["logloss", "brier", "accuracy", "class-error", "ece-15", "rmsce-15", "mce-15"]
    results = theirs.Metrics.from_names(names).compute_all(
        distributions.CategoricalDirac(y, n_classes=4), distributions.CategoricalProbs(p)
    )
    expected = {
        "logloss": metrics.nll(p, y),
        "brier": metrics.brier(p, y),
        "accuracy": metrics.accuracy(p, y),
        "class-error": 1 - metrics.accuracy(p, y),
        "ece-15": metrics.ece_hist(p, y, convention="torchmetrics"),
        "rmsce-15": metrics.ece_hist(p, y, convention="torchmetrics", norm=2),
        "mce-15": metrics.mce(p, y, convention="torchmetrics"),
    }
    for name in names:
        assert float(results[name]) == pytest.approx(expected[name], abs=1e-5), name
