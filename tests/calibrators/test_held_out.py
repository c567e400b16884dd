"""Scores of every shape as rows, folds, and predictions of each row by a fit on the others."""

import numpy as np
import pytest
import torch

from calibration_data import drawn
from softkin import calibrators, decisions, metrics
from softkin.calibrators import TemperatureScaling
from softkin.calibrators.held_out import cross_fit, folds_of


def test_folds_cover_all_samples_once():
    parts = folds_of(13, 5, 0)
    assert sorted(torch.cat(parts).tolist()) == list(range(13))
    assert sorted(len(part) for part in parts) == [2, 2, 3, 3, 3]
    assert len(folds_of(3, 5, 0)) == 3


def test_cross_fitting_by_hand():
    z, y = drawn()
    calibrated = cross_fit(TemperatureScaling(), z, y, folds=3, from_probabilities=False, seed=1)
    held = folds_of(300, 3, 1)[2]
    rest = [i for i in range(300) if i not in set(held.tolist())]
    t = TemperatureScaling().fit(z[rest], y[rest]).temperature_
    torch.testing.assert_close(calibrated[held], torch.softmax(z[held] / t, dim=1))


# Scores of every shape

ONE_SCORE = [
    calibrators.TemperatureScaling(),
    calibrators.TemperatureScaling(objective="mse"),
    calibrators.PlattScaling(),
    calibrators.BetaCalibration(),
    calibrators.IsotonicCalibration(),
    calibrators.IsotonicCalibration(classes="pooled"),
    calibrators.HistogramBinning(n_bins=7),
    calibrators.SplineCalibration(),
]


def pairs_case(seed, n=400):
    rng = np.random.default_rng(seed)
    s = rng.beta(5, 1.5, n)
    return rng, s, rng.random(n) < s**2


@pytest.mark.parametrize("calibrator", ONE_SCORE, ids=repr)
def test_one_score_becomes_one_calibrated_score(calibrator, tmp_path):
    _, s, right = pairs_case(0)
    cal = calibrator.unfitted().fit(s, right, from_probabilities=True)
    p = cal.predict_proba(s, from_probabilities=True)
    assert p.shape == s.shape
    assert metrics.ece_hist(p, right) < 0.6 * metrics.ece_hist(s, right)
    column = cal.predict_proba(s[:, None], from_probabilities=True)
    assert column.shape == (400, 1)
    np.testing.assert_array_equal(column[:, 0], p)
    cal.save(tmp_path)
    np.testing.assert_array_equal(calibrators.load(tmp_path).predict_proba(s, from_probabilities=True), p)
    if not isinstance(calibrator, calibrators.SplineCalibration):  # which maps the winning score of two columns
        two = np.stack([1 - s, s], axis=1)
        same = calibrator.unfitted().fit(two, right.astype(int), from_probabilities=True)
        np.testing.assert_allclose(same.predict_proba(two, from_probabilities=True)[:, 1], p, atol=1e-9)
    logits = np.log(s / (1 - s))
    of_logits = calibrator.unfitted().fit(logits, right).predict_proba(logits)
    np.testing.assert_allclose(
        of_logits, p, atol=2e-3 if isinstance(calibrator, calibrators.HistogramBinning) else 1e-6
    )


def test_a_spline_of_one_score_may_fall_below_one_half():
    rng = np.random.default_rng(1)
    s = rng.uniform(0.7, 1, 2000)
    right = rng.random(2000) < 0.2
    p = calibrators.SplineCalibration().fit(s, right, from_probabilities=True).predict_proba(s, from_probabilities=True)
    assert abs(p.mean() - 0.2) < 0.03


def test_chains_keep_to_one_score():
    _, s, right = pairs_case(2)
    chain = calibrators.TemperatureScaling() | calibrators.SplineCalibration()
    p = chain.fit(s, right, from_probabilities=True).predict_proba(s, from_probabilities=True)
    assert metrics.ece_hist(p, right) < 0.06


MAPS = [
    calibrators.VectorScaling(),
    calibrators.MatrixScaling(lam=0.01, mu=0.02),
    calibrators.DirichletCalibration(lam=0.01),
]


@pytest.mark.parametrize("calibrator", [*ONE_SCORE, *MAPS], ids=repr)
def test_a_weight_of_two_is_a_row_twice(calibrator):
    rng = np.random.default_rng(3)
    n = 3000 if isinstance(calibrator, calibrators.SplineCalibration) else 120  # the spline's t is a share of rows
    z = 2 * rng.normal(size=(n, 3))
    y = rng.integers(0, 3, n)
    w = rng.integers(0, 4, n)
    weighted = calibrator.unfitted().fit(z, y, sample_weight=w)
    repeated = calibrator.unfitted().fit(z.repeat(w, axis=0), y.repeat(w))
    tolerance = 5e-3 if n == 3000 else 1e-6
    np.testing.assert_allclose(weighted.predict_proba(z), repeated.predict_proba(z), atol=tolerance)
    assert weighted.certificate_.nll_after == pytest.approx(repeated.certificate_.nll_after, abs=tolerance)
    same = calibrator.unfitted().fit(z, y, sample_weight=np.full(n, 2.5))
    np.testing.assert_allclose(same.predict_proba(z), calibrator.unfitted().fit(z, y).predict_proba(z), atol=1e-8)


def test_weights_agree_with_scikit_learn():
    from sklearn.isotonic import IsotonicRegression
    from sklearn.linear_model import LogisticRegression

    rng, s, right = pairs_case(4)
    w = rng.exponential(size=len(s))
    ours = calibrators.IsotonicCalibration().fit(s, right, from_probabilities=True, sample_weight=w)
    theirs = IsotonicRegression(out_of_bounds="clip").fit(s, right, sample_weight=w)
    np.testing.assert_allclose(ours.predict_proba(s, from_probabilities=True), theirs.predict(s), atol=1e-9)
    z = np.log(s / (1 - s))
    platt = calibrators.PlattScaling(l2=0).fit(z, right, sample_weight=w)
    peer = LogisticRegression(C=1e12, tol=1e-10).fit(z[:, None], right, sample_weight=w)
    np.testing.assert_allclose(platt.predict_proba(z), peer.predict_proba(z[:, None])[:, 1], atol=1e-4)


def test_weights_of_a_matrix_agree_with_scikit_learn():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(9)
    z, y, w = 2 * rng.normal(size=(300, 4)), rng.integers(0, 4, 300), rng.exponential(size=300)
    w /= w.mean()
    z -= z.mean(axis=1, keepdims=True)  # which a matrix does by itself
    ours = calibrators.MatrixScaling(penalty="l2", lam=0.01, mu=0.0).fit(z, y, sample_weight=w)
    peer = LogisticRegression(C=1 / (2 * 0.01 * 300), tol=1e-10, max_iter=1000).fit(z, y, sample_weight=w)
    np.testing.assert_allclose(ours.predict_proba(z), peer.predict_proba(z), atol=1e-5)


@pytest.mark.parametrize("kind", [calibrators.StructuredVectorScaling, calibrators.StructuredMatrixScaling])
def test_weights_of_a_structured_map(kind):
    rng = np.random.default_rng(10)
    z, y, w = 2 * rng.normal(size=(400, 3)), rng.integers(0, 3, 400), rng.integers(0, 4, 400)
    count = w.sum() ** 2 / (w**2).sum()  # the prior weighs as much beside so many rows of equal weight
    weighted = kind(strength=1.0).fit(z, y, sample_weight=w)
    repeated = kind(strength=w.sum() / count).fit(z.repeat(w, axis=0), y.repeat(w))
    np.testing.assert_allclose(weighted.predict_proba(z), repeated.predict_proba(z), atol=1e-3)
    same = kind().fit(z, y, sample_weight=np.full(400, 2.5))
    np.testing.assert_allclose(same.predict_proba(z), kind().fit(z, y).predict_proba(z), atol=1e-5)
    plain = kind(strength=1.0).fit(z, y)
    assert np.abs(plain.predict_proba(z) - weighted.predict_proba(z)).max() > 0.01


@pytest.mark.parametrize("calibrator", [calibrators.MatrixScaling(), calibrators.StructuredMatrixScaling()], ids=repr)
def test_the_search_counts_weights(calibrator):
    """Rows of weight 0 may say anything."""
    rng = np.random.default_rng(11)
    z, y = 2 * rng.normal(size=(200, 3)), rng.integers(0, 3, 200)
    w = np.repeat([1.0, 0.0], 100)
    one = calibrator.unfitted().fit(z, y, sample_weight=w).predict_proba(z)
    other = calibrator.unfitted().fit(z, np.where(w > 0, y, 0), sample_weight=w).predict_proba(z)
    np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("calibrator", [*ONE_SCORE, *MAPS], ids=repr)
def test_votes_count_by_their_share(calibrator):
    rng = np.random.default_rng(5)
    z = 2 * rng.normal(size=(150, 4))
    votes = rng.multinomial(4, np.full(4, 0.25), 150)
    soft = calibrator.unfitted().fit(z, votes)
    rows, y = votes.nonzero()
    split = calibrator.unfitted().fit(z[rows], y, sample_weight=votes[rows, y])
    np.testing.assert_allclose(soft.predict_proba(z), split.predict_proba(z), atol=1e-9)


def test_what_takes_no_weights_says_so():
    z, y = np.random.default_rng(6).normal(size=(50, 3)), np.arange(50) % 3
    with pytest.raises(ValueError, match="BayesianBinning takes neither weights nor soft labels; these do: Temperat"):
        calibrators.BayesianBinning().fit(z, y, sample_weight=np.ones(50))


def test_pixels_are_rows():
    rng = np.random.default_rng(7)
    z = 3 * rng.normal(size=(4, 5, 6, 7)).astype(np.float32)
    y = rng.integers(0, 5, (4, 6, 7))
    y[0, :2] = 255
    flat, labels = z.transpose(0, 2, 3, 1).reshape(-1, 5), y.reshape(-1)
    cal = calibrators.TemperatureScaling().fit(z, y, ignore_index=255)
    assert (
        cal.temperature_
        == calibrators.TemperatureScaling().fit(flat[labels != 255], labels[labels != 255]).temperature_
    )
    p = cal.predict_proba(z)
    assert p.shape == z.shape
    np.testing.assert_allclose(p.transpose(0, 2, 3, 1).reshape(-1, 5), cal.predict_proba(flat), atol=1e-7)
    np.testing.assert_allclose(cal.as_module()(torch.from_numpy(z)).numpy(), p, atol=1e-6)
    with pytest.raises(ValueError, match=r"`labels` must have shape \(4, 6, 7\)"):
        calibrators.TemperatureScaling().fit(z, y[:, 0])


def test_probabilities_given_as_logits_are_noticed():
    generator = torch.Generator().manual_seed(0)
    p = torch.randn(50, 3, generator=generator).softmax(dim=1)
    y = torch.randint(3, (50,), generator=generator)
    for fitted in (calibrators.TemperatureScaling(), decisions.PredictionSets(0.8)):
        with pytest.warns(UserWarning, match="look like probabilities, since rows sum to 1"):
            fitted.fit(p, y)
        fitted.fit(p, y, from_probabilities=True)
        fitted.fit(p.log(), y)
        fitted.fit(p, y, from_probabilities=False)  # whoever states the kind is not asked


def test_probabilities_of_one_class_given_as_logits_are_noticed():
    generator = torch.Generator().manual_seed(0)
    p = torch.rand(50, generator=generator)
    y = (torch.rand(50, generator=generator) < p).long()
    for fitted in (calibrators.TemperatureScaling(), decisions.PredictionSets(0.8)):
        for scores in (p, p[:, None]):
            with pytest.warns(UserWarning, match="look like probabilities, since all lie between 0 and 1"):
                fitted.fit(scores, y)
        fitted.fit(p, y, from_probabilities=True)
        fitted.fit(p.logit(), y)
    temperature = calibrators.TemperatureScaling().fit(p.logit(), y)
    with pytest.warns(UserWarning, match="look like probabilities, since all lie between 0 and 1"):
        temperature.predict_proba(p)
    temperature.predict_proba(p, from_probabilities=False)
