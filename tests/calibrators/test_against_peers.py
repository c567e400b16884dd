"""Beside the peers, on a trained network: fitted on one half (seeded), judged on the other; differences by name.

Dirichlet calibration has no peer that runs here: probmetrics wraps dirichletcal, which cannot be built with
Python 3.11. Its minima are held to scipy's and to check values in test_calibrators_linear.py.
"""

import numpy as np
import pytest
import torch

from softkin import metrics
from softkin.calibrators import (
    BayesianBinning,
    BetaCalibration,
    EnsembleTemperatureScaling,
    HistogramBinning,
    IsotonicCalibration,
    MatrixScaling,
    PlattScaling,
    SplineCalibration,
    TemperatureScaling,
    VectorScaling,
)
from softkin.calibrators.one_vs_rest import log_odds

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of the peers' own


@pytest.fixture(scope="module")
def halves(network_logits):
    """Logits and probabilities (float64, numpy), labels, of the half to fit on and the half to judge on."""
    z, y = network_logits["resnet20-cifar10"]
    z = z.double()
    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(0))
    return [
        (z[part].numpy(), torch.softmax(z[part], dim=1).numpy(), y[part].numpy())
        for part in (order[:5000], order[5000:])
    ]


def judged(p, halves):
    """NLL and prediction ECE on the second half; peers whose rows do not sum to 1 are normalised first."""
    p = np.asarray(p, dtype=np.float64)
    p = p / p.sum(axis=1, keepdims=True)
    return metrics.nll(p, halves[1][2]), metrics.ece_hist(p, halves[1][2])


def ours(cal, halves, from_probabilities=False):
    (z, p, y), (z_new, p_new, _) = halves
    held_out, new = (p, p_new) if from_probabilities else (z, z_new)
    cal.fit(held_out, y, from_probabilities=from_probabilities)
    return judged(cal.predict_proba(new, from_probabilities=from_probabilities), halves)


def netcal(cal, halves):
    (_, p, y), (_, p_new, _) = halves
    cal.fit(p, y)
    return judged(cal.transform(p_new), halves)


def probmetrics(cal, halves):
    (_, p, y), (_, p_new, _) = halves
    cal.fit(p, y)
    return judged(cal.predict_proba(p_new), halves)


def test_temperature(halves):
    mine = ours(TemperatureScaling(), halves)
    theirs = {}
    scaling = pytest.importorskip("netcal.scaling")
    theirs["netcal"] = netcal(scaling.TemperatureScaling(), halves)
    peer = pytest.importorskip("probmetrics.calibrators")
    theirs["probmetrics"] = probmetrics(peer.TemperatureScalingCalibrator(), halves)
    from sklearn.calibration import _TemperatureScaling

    twin = _TemperatureScaling().fit(halves[0][0], halves[0][2])
    theirs["scikit-learn"] = judged(twin.predict(halves[1][0]), halves)
    for nll, ece in theirs.values():
        assert nll == pytest.approx(mine[0], abs=2e-6)  # probmetrics computes in float32
        assert ece == pytest.approx(mine[1], abs=2e-5)


def test_netcal_does_nothing_in_float32(halves):
    """Its finite differences vanish in float32; ours computes in float64 whatever comes in."""
    scaling = pytest.importorskip("netcal.scaling")
    (z, p, y), (z_new, p_new, _) = halves
    cal = scaling.TemperatureScaling()
    cal.fit(p.astype(np.float32), y)
    nll, _ = judged(cal.transform(p_new.astype(np.float32)), halves)
    uncalibrated, _ = judged(p_new, halves)
    mine = judged(TemperatureScaling().fit(z.astype(np.float32), y).predict_proba(z_new), halves)[0]
    assert nll == pytest.approx(uncalibrated, abs=1e-3)  # it clips at float32's eps
    assert mine < uncalibrated - 0.05


def test_ensemble(halves):
    peer = pytest.importorskip("probmetrics.calibrators")
    twin = peer.ETSCalibrator()
    theirs = probmetrics(twin, halves)
    cal = EnsembleTemperatureScaling()
    assert ours(cal, halves) == pytest.approx(theirs, abs=1e-6)
    assert cal.temperature_ == pytest.approx(float(twin.t_), abs=1e-5)
    assert cal.weights_.tolist() == pytest.approx(twin.w_.tolist(), abs=1e-5)


def test_vector(halves):
    """Both peers fit factors and offsets of ln p, not of the logits: so does ours if given probabilities."""
    peer = pytest.importorskip("probmetrics.calibrators")
    mine = ours(VectorScaling(), halves, from_probabilities=True)
    assert probmetrics(peer.VectorScalingCalibrator(), halves) == pytest.approx(mine, abs=1e-4)
    scaling = pytest.importorskip("netcal.scaling")
    assert netcal(scaling.LogisticCalibration(), halves)[0] == pytest.approx(mine[0], abs=1e-3)


def test_matrix_without_penalty_is_multinomial_regression(halves):
    from sklearn.linear_model import LogisticRegression

    z, y, z_new = halves[0][0][:2000], halves[0][2][:2000], halves[1][0]
    z, z_new = (logits - logits.mean(axis=1, keepdims=True) for logits in (z, z_new))
    twin = LogisticRegression(C=np.inf, max_iter=1000, tol=1e-9).fit(z, y)
    cal = MatrixScaling(lam=0.0, mu=0.0).fit(z, y)
    mine = judged(cal.predict_proba(z_new), halves)
    assert judged(twin.predict_proba(z_new), halves)[0] == pytest.approx(mine[0], abs=3e-3)
    # The difference is convergence: theirs ends at its 1,000 iterations, .0002 above our minimum on the fitting data.
    assert cal.certificate_.nll_after <= metrics.nll(twin.predict_proba(z), y) + 1e-9
    assert cal.certificate_.gradient_norm <= 1e-7


def test_platt_is_logistic_regression_on_the_log_odds(halves):
    from sklearn.linear_model import LogisticRegression

    (z, _, y), (z_new, _, _) = halves
    cal = PlattScaling().fit(z, y)
    scores, new = (log_odds(torch.from_numpy(logits)).numpy() for logits in (z, z_new))
    theirs = np.empty((len(new), 10))
    for j in range(10):
        twin = LogisticRegression(C=np.inf, max_iter=1000, tol=1e-10).fit(scores[:, [j]], y == j)
        assert float(cal.weight_[j]) == pytest.approx(float(twin.coef_[0, 0]), abs=1e-3)  # ours has a ridge of 1e-6
        assert float(cal.bias_[j]) == pytest.approx(float(twin.intercept_[0]), abs=1e-3)
        theirs[:, j] = twin.predict_proba(new[:, [j]])[:, 1]
    assert judged(cal.predict_proba(z_new), halves) == pytest.approx(judged(theirs, halves), abs=1e-6)


def test_isotonic_and_histogram(halves):
    """The same maps; netcal's rows are normalised too. Both give some true class no chance: an infinite NLL."""
    binned = pytest.importorskip("netcal.binning")
    for cal, peer in (
        (IsotonicCalibration(), binned.IsotonicRegression()),
        (HistogramBinning(n_bins=15), binned.HistogramBinning(bins=15)),
    ):
        assert ours(cal, halves) == pytest.approx(netcal(peer, halves), abs=1e-6)


def test_spline(halves):
    """The peer's is for two classes: the winning score, right or wrong. It does not stop at 1, and ours does."""
    peer = pytest.importorskip("probmetrics.calibrators").CDFSplineCalibrator()
    (z, p, y), (z_new, p_new, _) = halves
    winning, new = p.max(axis=1), p_new.max(axis=1)
    peer.fit(np.stack([1 - winning, winning], axis=1), (p.argmax(axis=1) == y).astype(int))
    theirs = peer.predict_proba(np.stack([1 - new, new], axis=1))[:, 1]
    mine = SplineCalibration().fit(z, y).predict_proba(z_new)[np.arange(len(new)), p_new.argmax(axis=1)]
    # Here equal scores share their hits, the curve begins at 0, and a winner has at least 1/K.
    assert np.abs(mine - np.maximum(theirs, 0.1)).max() < 0.003
    assert theirs.max() > 1 > mine.max()


def test_bbq(halves):
    """Netcal weighs by an information criterion (BIC) by default, ours by the marginal likelihood, as published."""
    binned = pytest.importorskip("netcal.binning")
    mine, theirs = ours(BayesianBinning(), halves), netcal(binned.BBQ(), halves)
    assert mine[0] < theirs[0]
    assert mine[1] < theirs[1] + 0.005


def test_beta(halves):
    """Netcal fits all classes of the beta model jointly, ours each against the rest: close, not equal."""
    scaling = pytest.importorskip("netcal.scaling")
    mine, theirs = ours(BetaCalibration(), halves), netcal(scaling.BetaCalibration(), halves)
    assert mine[0] == pytest.approx(theirs[0], abs=0.005)
    assert mine[1] == pytest.approx(theirs[1], abs=0.005)


def test_as_the_committed_tables_say(network_logits):
    """On CIFAR-100 Dirichlet calibration is no better than a temperature in NLL: as its authors' own tables have it."""
    from softkin.calibrators import DirichletCalibration

    z, y = network_logits["resnet32-cifar100"]
    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(0))
    fit, judge = order[:5000], order[5000:]
    nll = {}
    for cal in (TemperatureScaling(), DirichletCalibration(lam=100.0)):
        nll[type(cal)] = metrics.nll(cal.fit(z[fit], y[fit]).predict_proba(z[judge].double()), y[judge])
    assert nll[DirichletCalibration] == pytest.approx(nll[TemperatureScaling], abs=0.03)
