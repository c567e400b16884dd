"""The same numbers from other libraries, and from the files' own descriptions; differences are named and explained."""

import numpy as np
import pytest
import torch
from scipy.integrate import trapezoid
from sklearn import metrics as sk
from sklearn.calibration import calibration_curve

import metrics_twins as twins
from places import SHARED
from softkin import metrics
from softkin.metrics import binning, density

pytestmark = pytest.mark.slow

LOGITS = SHARED / "logits"
shared = pytest.mark.skipif(not LOGITS.exists(), reason="needs ../shared/data/logits, real networks' outputs")


def binary(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.beta(0.7, 0.7, n)
    return np.stack([1 - s, s], axis=1), (rng.random(n) < s**1.4).astype(int)


def test_scikit_learn_scores():
    p, y = twins.random_case(0, n=500)
    assert metrics.nll(p, y) == pytest.approx(sk.log_loss(y, p), rel=1e-12)
    assert metrics.accuracy(p, y) == sk.accuracy_score(y, p.argmax(1))
    assert metrics.top_k_accuracy(p, y, k=2) == pytest.approx(sk.top_k_accuracy_score(y, p, k=2))
    p2, y2 = binary()
    assert metrics.brier(p2, y2, per="score") == pytest.approx(sk.brier_score_loss(y2, p2[:, 1]), rel=1e-12)
    known, unknown = p2[y2 == 1, 1], p2[y2 == 0, 1]
    assert metrics.auroc(known, unknown) == pytest.approx(sk.roc_auc_score(y2, p2[:, 1]), rel=1e-12)
    fpr, tpr, _ = sk.roc_curve(y2, p2[:, 1], drop_intermediate=False)
    assert metrics.fpr_at_95(known, unknown) == pytest.approx(fpr[np.argmax(tpr >= 0.95)], rel=1e-12)


@pytest.mark.parametrize("n_bins", [5, 15])
def test_scikit_learn_calibration_curve(n_bins):
    p, y = binary()
    share, mean = calibration_curve(y, p[:, 1], n_bins=n_bins)
    curve = binning.curve(
        torch.from_numpy(p[:, 1].copy()), torch.from_numpy(y).nonzero()[:, 0], binning.equal_width(n_bins)
    )
    full = curve.count > 0
    np.testing.assert_allclose(curve.likelihood[full].numpy(), share, rtol=1e-12)
    np.testing.assert_allclose(curve.confidence[full].numpy(), mean, rtol=1e-12)


@pytest.mark.parametrize(("ours", "theirs"), [(1, "l1"), (2, "l2"), ("max", "max")])
@pytest.mark.parametrize("n_bins", [10, 15])
def test_torchmetrics(ours, theirs, n_bins):
    classification = pytest.importorskip("torchmetrics.functional.classification")
    p, y = twins.random_case(1, n=3000)
    p[:50] = np.eye(5)[np.arange(50) % 5]  # exactly 1: a bin of its own there
    p32, labels = torch.from_numpy(p).float(), torch.from_numpy(y)
    expected = classification.multiclass_calibration_error(p32, labels, num_classes=5, n_bins=n_bins, norm=theirs)
    value = metrics.ece_hist(p32, labels, convention="torchmetrics", n_bins=n_bins, norm=ours)
    assert value == pytest.approx(float(expected), abs=1e-5)  # it sums in float32


def test_torchmetrics_differs_where_confidence_is_one():
    classification = pytest.importorskip("torchmetrics.functional.classification")
    p, y = torch.tensor([[0.95, 0.05], [1.0, 0.0]]), torch.tensor([0, 1])
    theirs = classification.multiclass_calibration_error(p, y, num_classes=2, n_bins=10)
    assert float(theirs) == pytest.approx(0.525, abs=1e-6)
    assert metrics.ece_hist(p, y, n_bins=10, convention="torchmetrics") == pytest.approx(0.525, abs=1e-6)
    assert metrics.ece_hist(p, y, n_bins=10) == pytest.approx(0.475, abs=1e-6)


@pytest.mark.parametrize("n_bins", [10, 15])
def test_netcal(n_bins):
    netcal = pytest.importorskip("netcal.metrics")
    p, y = twins.random_case(2, n=3000)
    p[:50] = np.eye(5)[np.arange(50) % 5]
    assert metrics.ece_hist(p, y, convention="netcal", n_bins=n_bins) == pytest.approx(
        netcal.ECE(n_bins).measure(p, y), rel=1e-9
    )
    assert metrics.mce(p, y, convention="netcal", n_bins=n_bins) == pytest.approx(
        netcal.MCE(n_bins).measure(p, y), rel=1e-9
    )


def test_kdepy_density():
    kdepy = pytest.importorskip("KDEpy")
    p, y = twins.random_case(3, n=1000)
    score = p.max(1)
    hit = p.argmax(1) == y
    h = 0.1
    x = np.linspace(-0.5, 1.5, 2**14)
    # Its bandwidth is a standard deviation, a third of the triweight's radius.
    f = kdepy.FFTKDE(bw=h / 3, kernel="triweight").fit(score).evaluate(x)
    g = kdepy.FFTKDE(bw=h / 3, kernel="triweight").fit(score[hit]).evaluate(x) * hit.mean()
    inside = (x >= 0) & (x <= 1)
    expected = trapezoid(np.abs(x * f - g)[inside], x[inside])
    assert metrics.ece_kde(p, y, bandwidth=h, boundary="none") == pytest.approx(expected, abs=2e-5)
    curve = density.smooth_curve(torch.from_numpy(score), torch.from_numpy(hit).nonzero()[:, 0], h, "none")
    np.testing.assert_allclose(curve.density.numpy(), np.interp(curve.nodes, x, f), atol=2e-3)


def test_uncertainty_calibration_debiased():
    calibration = pytest.importorskip("calibration")
    p, y = twins.random_case(4, n=2000)
    score, hit = p.max(1), (p.argmax(1) == y).astype(float)
    edges = [(m + 1) / 15 for m in range(15)]
    groups = calibration.utils.bin(list(zip(score, hit, strict=True)), edges)
    theirs = calibration.utils.unbiased_square_ce([group for group in groups if len(group)])
    assert metrics.debiased_ece(p, y) == pytest.approx(max(0, theirs) ** 0.5, rel=1e-9)


def test_relplot_smooth_ece():
    relplot = pytest.importorskip("relplot")
    p, y = twins.random_case(5, n=1000, sharpness=1.0)
    assert p.max() < 0.995  # it halves what lies at 1
    theirs = relplot.smECE(p.max(1), (p.argmax(1) == y).astype(float))
    assert metrics.smooth_ece(p, y) == pytest.approx(theirs, abs=2e-3)  # its search stops at 2^-10


@shared
@pytest.mark.parametrize(
    ("file", "accuracy", "ece", "nll"),
    [
        ("densenet-bc-100-cifar100-probs.npz", 0.7541, 0.1422, None),
        ("resnet32-cifar100-logits.npz", 0.7169, 0.1085, 1.1441),
        ("resnet20-cifar10-logits.npz", 0.9173, 0.0532, 0.3727),
    ],
)
def test_real_networks(file, accuracy, ece, nll):
    with np.load(LOGITS / file, allow_pickle=False) as arrays:
        labels = arrays["labels"]
        if "probs" in arrays:
            p = torch.from_numpy(arrays["probs"])
        else:
            p = torch.softmax(torch.from_numpy(arrays["logits"]).double(), dim=1)
    assert metrics.accuracy(p, labels) == pytest.approx(accuracy, abs=5e-5)
    assert metrics.ece_hist(p, labels) == pytest.approx(ece, abs=5e-5)
    assert metrics.ece_hist(p, labels, convention="guo2017") == pytest.approx(ece, abs=5e-5)
    if nll is not None:
        assert metrics.nll(p, labels) == pytest.approx(nll, abs=5e-5)
    # The pattern of the paper's tables: output about twice prediction where a network is over-confident.
    assert 1.8 <= metrics.ece_hist(p, labels, scope="output") / metrics.ece_hist(p, labels) <= 2.5
    assert metrics.kde_floor(p) < metrics.ece_kde(p, labels, scope="output")


def test_netcal_with_two_classes():
    """Netcal bins the score of class 1 there, not the winning one."""
    netcal = pytest.importorskip("netcal.metrics")
    rng = np.random.default_rng(0)
    p = rng.dirichlet([2, 1], 400)
    y = (rng.random(400) < p[:, 1]).astype(int)
    for labels in (y, np.ones(400, dtype=int)):
        theirs = netcal.ECE(10).measure(p[:, 1], labels)
        assert metrics.ece_hist(p, labels, convention="netcal") == pytest.approx(theirs, abs=1e-9)


@pytest.mark.slow
def test_torchmetrics_of_several_labels_per_sample():
    """The mean over labels of the area under the curve, and of the calibration error of each label."""
    classification = pytest.importorskip("torchmetrics.functional.classification")
    rng = np.random.default_rng(0)
    p = rng.uniform(size=(500, 4)).astype(np.float32)
    y = (rng.uniform(size=p.shape) < p**1.5).astype(int)
    score, truth = torch.from_numpy(p), torch.from_numpy(y)
    theirs = classification.multilabel_auroc(score, truth, num_labels=4, average="macro")
    assert metrics.macro_auroc(p, y) == pytest.approx(float(theirs), abs=1e-6)
    columns = zip(score.T.contiguous(), truth.T.contiguous(), strict=True)
    errors = [float(classification.binary_calibration_error(*column, n_bins=15)) for column in columns]
    assert metrics.classwise_ece(p, y, n_bins=15) == pytest.approx(np.mean(errors), abs=1e-6)
