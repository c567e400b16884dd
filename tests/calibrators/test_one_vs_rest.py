"""One-vs-rest, binned, spline and mutual-information calibrators against twins written from their definitions. Isotonic regression against scikit-learn's. Spline calibration: scipy's natural splines, and what the map must keep. A calibrator for each label: each column alone."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from scipy.interpolate import CubicSpline
from sklearn.isotonic import IsotonicRegression

from calibration_data import drawn
from softkin import calibrators, metrics
from softkin.calibrators import (
    BayesianBinning,
    BetaCalibration,
    EnsembleTemperatureScaling,
    HistogramBinning,
    IsotonicCalibration,
    MutualInformationBinning,
    PlattScaling,
    SplineCalibration,
    TemperatureScaling,
)
from softkin.calibrators.one_vs_rest import (
    comparable,
    comparable_log_odds,
    interpolated,
    log_odds_parts,
    natural_basis,
    normalised,
    steps,
)


def test_log_odds_keep_their_digits():
    z = torch.tensor([[50.0, 0.0, 1.0], [0.0, 0.0, 0.0], [-800.0, 3.0, 2.0]], dtype=torch.float64)
    log_p, log_rest = log_odds_parts(z)
    for i, row in enumerate(z.tolist()):
        for j in range(3):
            others = [value for place, value in enumerate(row) if place != j]
            total = math.fsum(math.exp(v - max(row)) for v in row)
            rest = math.fsum(math.exp(v - max(others)) for v in others)
            expected = row[j] - max(row) - math.log(total)
            assert float(log_p[i, j]) == pytest.approx(expected, rel=1e-14)
            if row[j] < max(row):
                rest_expected = math.log1p(-math.exp(expected))
            else:
                rest_expected = max(others) + math.log(rest) - max(row) - math.log(total)
            assert float(log_rest[i, j]) == pytest.approx(rest_expected, rel=1e-13, abs=1e-300)


def test_rows_without_mass_stay_as_they_were():
    z = torch.tensor([[1.0, 0.0], [2.0, 0.0]], dtype=torch.float64)
    p = normalised(torch.tensor([[0.0, 0.0], [0.2, 0.2]], dtype=torch.float64), z)
    torch.testing.assert_close(
        p, torch.stack([torch.softmax(z[0], dim=0), torch.tensor([0.5, 0.5], dtype=torch.float64)])
    )


def test_all_zero_row_in_use():
    z = torch.tensor([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 4.0]], dtype=torch.float64)
    cal = IsotonicCalibration().fit(z, torch.tensor([1, 0, 2]))  # class 2 alone ever wins
    low = torch.tensor([[0.0, 0.0, -1.0]], dtype=torch.float64)
    assert float(cal.scores(low)[0, 2]) < 0.5
    p = cal.predict_proba(z)
    assert float(p.sum()) == pytest.approx(3)


def test_absent_class_becomes_unlikely_but_not_impossible():
    z, y = drawn(n=200)
    for cal in (PlattScaling(), BetaCalibration()):
        cal.fit(z[y != 1], y[y != 1])
        p = cal.predict_proba(z)[:, 1]
        assert float(p.mean()) < 0.01
        assert float(p.min()) > 0


def test_near_ties_are_ties():
    """The order of classes changes the last bits of a softmax; steps lie at scores that were seen."""
    generator = torch.Generator().manual_seed(0)
    z = torch.randint(-3, 4, (400, 8), generator=generator).double() / 3
    y = torch.randint(0, 8, (400,), generator=generator)
    order = torch.randperm(8, generator=generator)
    moved, labels = z[:, order], torch.argsort(order)[y]
    assert not torch.equal(torch.softmax(moved, dim=1), torch.softmax(z, dim=1)[:, order])  # in the last bits
    for make in (
        IsotonicCalibration,
        lambda: IsotonicCalibration(classes="pooled"),
        HistogramBinning,
        lambda: HistogramBinning(binning="mass"),
        BayesianBinning,
        MutualInformationBinning,
    ):
        first, other = make().fit(z, y).predict_proba(z), make().fit(moved, labels).predict_proba(moved)
        torch.testing.assert_close(other, first[:, order], atol=1e-9, rtol=0)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=20))
def test_comparable_scores_hardly_move(values):
    scores = torch.tensor(values, dtype=torch.float64)
    torch.testing.assert_close(comparable(scores), scores, rtol=1e-12, atol=1e-315)
    torch.testing.assert_close(comparable_log_odds(scores), scores, rtol=0, atol=1e-11)
    assert bool((comparable(scores).sort().values == comparable(scores.sort().values)).all())  # the order stays


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8, unique=True), st.lists(st.floats(-0.5, 1.5), min_size=1))
def test_interpolation_is_numpys(knots, at):
    knots = np.sort(np.array(knots))
    levels = np.linspace(0, 1, len(knots)) ** 2
    if np.diff(knots).min(initial=1) > 1e-300:
        np.testing.assert_allclose(interpolated(np.array(at), knots, levels), np.interp(at, knots, levels), atol=1e-12)
    actual = interpolated(np.array(at), knots, levels)
    assert ((actual >= 0) & (actual <= 1)).all()


def test_knots_near_the_smallest_number():
    knots, levels = np.array([1e-309, 3e-309, 1.0]), np.array([0.0, 0.5, 1.0])
    assert interpolated(np.array([2e-309, 0.0, 1.0, 2.0]), knots, levels).tolist() == pytest.approx([0.25, 0, 1, 1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "at_most"),
    [  # the share of the uncalibrated ECE of .106 that is left
        (TemperatureScaling, 0.3),
        (EnsembleTemperatureScaling, 0.3),
        (PlattScaling, 0.4),
        (BetaCalibration, 0.5),
        (IsotonicCalibration, 0.6),
        (lambda: IsotonicCalibration(classes="pooled"), 0.5),
        (lambda: TemperatureScaling() | IsotonicCalibration(classes="pooled"), 0.5),
        (HistogramBinning, 0.95),
        (BayesianBinning, 0.4),
        (MutualInformationBinning, 0.5),
        (SplineCalibration, 0.4),
    ],
)
def test_gain_on_a_trained_network(network_logits, make, at_most):
    z, y = network_logits["resnet32-cifar100"]
    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(0))
    fit, judge = order[:5000], order[5000:]
    before = metrics.ece_hist(torch.softmax(z[judge].double(), dim=1), y[judge])
    cal = make().fit(z[fit], y[fit])
    assert metrics.ece_hist(cal.predict_proba(z[judge]), y[judge]) < at_most * before


def test_options_are_checked():
    for make, message in [
        (lambda: HistogramBinning(n_bins=0), "`n_bins` must be at least 1, got 0"),
        (lambda: HistogramBinning(binning="equal"), "`binning` must be 'width' or 'mass', got 'equal'"),
        (lambda: MutualInformationBinning(n_bins=1), "`n_bins` must be at least 2, got 1"),
        (lambda: SplineCalibration(n_knots=2), "`n_knots` must be at least 3, got 2"),
        (lambda: IsotonicCalibration(classes="all"), "`classes` must be 'separate' or 'pooled', got 'all'"),
        (lambda: PlattScaling(l2=-1), "`l2` must be finite and at least 0, got -1"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()


def logistic_minimum(features, hit, centre, l2, bounds=None):
    features, centre = np.stack(features, axis=1), np.array(centre)

    def objective(theta):
        s = features @ theta
        p = 1 / (1 + np.exp(-s))
        value = np.mean(np.logaddexp(0, s) - hit * s) + l2 * ((theta - centre) ** 2).sum()
        return value, features.T @ (p - hit) / len(hit) + 2 * l2 * (theta - centre)

    end = optimize.minimize(
        objective,
        centre,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"gtol": 1e-11, "ftol": 0, "maxiter": 10000},
    )
    return end.x


def test_platt_is_scipys_minimum():
    z, y = drawn(n=200)
    cal = PlattScaling(l2=1e-3).fit(z, y)
    log_p, log_rest = (part.numpy() for part in log_odds_parts(z))
    for j in range(4):
        a, b = logistic_minimum(
            [log_p[:, j] - log_rest[:, j], np.ones(200)], (y == j).double().numpy(), [1.0, 0.0], 1e-3
        )
        assert float(cal.weight_[j]) == pytest.approx(a, abs=1e-5)
        assert float(cal.bias_[j]) == pytest.approx(b, abs=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_beta_is_scipys_constrained_minimum(seed):
    z, y = drawn(seed, n=60, k=3, factor=6.0)  # few and noisy: some slopes end at 0
    cal = BetaCalibration(l2=1e-3).fit(z, y)
    log_p, log_rest = (part.numpy() for part in log_odds_parts(z))
    for j in range(3):
        expected = logistic_minimum(
            [log_p[:, j], -log_rest[:, j], np.ones(60)],
            (y == j).double().numpy(),
            [1.0, 1.0, 0.0],
            1e-3,
            [(0, None), (0, None), (None, None)],
        )
        assert [*cal.weight_[j].tolist(), float(cal.bias_[j])] == pytest.approx(expected.tolist(), abs=1e-4)
    assert bool((cal.weight_ >= 0).all())
    assert cal.certificate_.bound_hit == bool((cal.weight_ == 0).any())


def test_beta_of_scores_that_mislead():
    """Labels against the scores: free slopes would be negative, so the map is constant, at the share of hits."""
    z, _ = drawn(n=100, k=3)
    y = z.argmin(dim=1)
    cal = BetaCalibration(l2=0).fit(z, y)
    share = torch.bincount(y, minlength=3).double() / 100
    torch.testing.assert_close(torch.sigmoid(cal.bias_), share, atol=1e-6, rtol=0)
    assert not bool(cal.weight_.any())
    assert cal.certificate_.bound_hit


@given(
    st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=40),
)
def test_isotonic_steps_are_those_of_scikit_learn(pairs):
    scores = np.array([s for s, _ in pairs], dtype=float) / 6
    hit = np.array([h for _, h in pairs], dtype=float)
    first, last, level, sizes = steps(np.sort(scores), np.sort(scores[hit == 1]))
    assert sizes.sum() == len(scores)
    twin = IsotonicRegression(out_of_bounds="clip").fit(scores, hit)
    knots = np.stack([first, last], axis=1).reshape(-1)
    values = np.repeat(level, 2)
    at = np.linspace(-0.1, 1.1, 50)
    np.testing.assert_allclose(np.interp(at, knots, values), twin.predict(at), atol=1e-12)


@pytest.mark.parametrize("classes", ["separate", "pooled"])
def test_isotonic_against_scikit_learn(classes):
    z, y = drawn(n=500)
    other = drawn(seed=1, n=200)[0]
    p, q, hit = torch.softmax(z, dim=1).numpy(), torch.softmax(other, dim=1).numpy(), np.eye(4)[y.numpy()]
    if classes == "separate":
        mapped = np.stack(
            [IsotonicRegression(out_of_bounds="clip").fit(p[:, j], hit[:, j]).predict(q[:, j]) for j in range(4)],
            axis=1,
        )
    else:
        twin = IsotonicRegression(out_of_bounds="clip").fit(p.reshape(-1), hit.reshape(-1))
        mapped = twin.predict(q.reshape(-1)).reshape(q.shape) + 1e-9 * q
    calibrated = IsotonicCalibration(classes=classes).fit(z, y).predict_proba(other).numpy()
    np.testing.assert_allclose(calibrated, mapped / mapped.sum(axis=1, keepdims=True), atol=1e-12)


def test_pooled_isotonic_keeps_the_winner(network_logits):
    z, y = (part[:2000] for part in network_logits["resnet32-cifar100"])
    assert IsotonicCalibration(classes="pooled").fit(z, y).certificate_.argmax_changed == 0


def test_isotonic_of_float16_probabilities(network_logits):
    z, y = network_logits["resnet32-cifar100"]
    p = z.double().softmax(dim=1)
    with pytest.warns(UserWarning, match="exactly 0"):
        cal = IsotonicCalibration().fit(p[:2000].half(), y[:2000], from_probabilities=True)
    for values in (p[2000:].half(), p[2000:]):
        calibrated = cal.predict_proba(values, from_probabilities=True)
        assert bool(torch.isfinite(calibrated).all())
    cal = IsotonicCalibration().fit(p[:2000].half(), y[:2000], from_probabilities=True, floor=1e-308)
    assert bool(torch.isfinite(cal.predict_proba(p[2000:], from_probabilities=True)).all())


def test_natural_splines_are_scipys():
    knots = np.array([0.0, 0.1, 0.4, 0.7, 1.0])
    t = np.linspace(0, 1, 57)
    values, slopes = natural_basis(t, knots)
    for j in range(5):
        twin = CubicSpline(knots, np.eye(5)[j], bc_type="natural")
        np.testing.assert_allclose(values[:, j], twin(t), atol=1e-12)
        np.testing.assert_allclose(slopes[:, j], twin(t, 1), atol=1e-11)


def test_spline_moves_only_the_winner_and_scales_the_rest():
    z, y = drawn(n=500)
    cal = SplineCalibration().fit(z, y)
    p, q = torch.softmax(z, dim=1), cal.predict_proba(z)
    winner = p.argmax(dim=1)
    others = torch.ones_like(p, dtype=torch.bool).scatter_(1, winner[:, None], False)
    top = q.gather(1, winner[:, None])[:, 0]
    largest = q[others].reshape(500, 3).amax(dim=1)
    assert torch.equal(q.argmax(dim=1), winner)
    levelled = largest > top * (1 - 2e-9)
    assert 0 < int(levelled.sum()) < 250  # what would have become another class
    ratio = (q / p)[others].reshape(500, 3)[~levelled]
    torch.testing.assert_close(ratio, ratio[:, :1].expand(-1, 3), rtol=1e-9, atol=1e-12)
    hit = (winner == y).double()
    assert abs(float(top.mean() - hit.mean())) < 0.02  # before, the gap was
    assert float(p.amax(dim=1).mean() - hit.mean()) > 0.1


@given(st.integers(0, 10_000), st.integers(2, 8), st.sampled_from([0.3, 3.0, 300.0]), st.integers(3, 60))
def test_splines_keep_every_class(seed, k, scale, n):
    """Also where the winner is hardly ever right, and the published score is below 1/K."""
    generator = torch.Generator().manual_seed(seed)
    z = scale * torch.randn(n, k, generator=generator, dtype=torch.float64)
    cal = SplineCalibration().fit(z, torch.randint(0, k, (n,), generator=generator))
    new = scale * torch.randn(50, k, generator=generator, dtype=torch.float64)
    p = cal.predict_proba(new)
    assert torch.equal(p.argmax(dim=1), new.argmax(dim=1))
    assert bool((p >= 0).all())
    torch.testing.assert_close(p.sum(dim=1), torch.ones(50, dtype=torch.float64), atol=1e-12, rtol=0)
    top = comparable(torch.softmax(new, dim=1).amax(dim=1))
    published = np.interp(top.numpy(), cal.scores_.numpy(), cal.values_.numpy())
    np.testing.assert_allclose(p.amax(dim=1).numpy(), np.maximum(published, 1 / k), atol=1e-8)
    assert cal.certificate_.argmax_changed == 0


def test_spline_calls_nothing_impossible():
    z, _ = drawn(n=100)
    cal = SplineCalibration().fit(z, z.argmin(dim=1))  # the winner is never right
    assert float(cal.values_.min()) == pytest.approx(1 / 200)
    assert float(cal.values_.max()) < 0.5
    assert math.isfinite(cal.certificate_.nll_after)


def test_spline_with_a_saturated_winner():
    z = torch.tensor([[100.0, 1.0, 0.0]] * 4, dtype=torch.float64)
    cal = SplineCalibration().fit(z, torch.tensor([0, 0, 1, 0]))
    p = cal.predict_proba(z)[0]
    assert float(p[0]) == pytest.approx(0.75, abs=0.05)
    assert float(p[1] / p[2]) == pytest.approx(math.e)


def rows(n=600, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3)) * [1, 3, 2]
    y = rng.random((n, 3)) < 1 / (1 + np.exp(-z / [1, 3, 1] + [0, 0, 1]))
    return z, y.astype(int)


@pytest.mark.parametrize("method", ["platt", "beta", "isotonic", "temperature", "histogram"])
@pytest.mark.parametrize("from_probabilities", [False, True])
def test_each_label_is_calibrated_alone(method, from_probabilities):
    (z, y), (t, ty) = rows(), rows(seed=1)
    z, t = (1 / (1 + np.exp(-v)) if from_probabilities else v for v in (z, t))
    options = {"from_probabilities": from_probabilities}
    cal = calibrators.PerLabel(method).fit(z, y, **options)
    p = cal.predict_proba(t, **options)
    assert isinstance(p, np.ndarray)
    for k in range(3):
        own = calibrators.REGISTRY[calibrators.REGISTRY.canonical(method, "method")]()
        own.fit(z[:, k], y[:, k], **options)
        np.testing.assert_array_equal(p[:, k], own.predict_proba(t[:, k], **options))
    before = t if from_probabilities else 1 / (1 + np.exp(-t))
    assert metrics.classwise_ece(p, ty) < metrics.classwise_ece(before, ty)


def test_platt_is_scikit_learns_logistic_regression():
    linear_model = pytest.importorskip("sklearn.linear_model")
    z, y = rows()
    p = calibrators.PerLabel("platt").fit(z, y).predict_proba(torch.from_numpy(z))
    for k in range(3):
        theirs = linear_model.LogisticRegression(C=np.inf, tol=1e-10).fit(z[:, [k]], y[:, k])
        np.testing.assert_allclose(p[:, k], theirs.predict_proba(z[:, [k]])[:, 1], atol=2e-4)


def test_bad_input():
    z, y = rows()
    with pytest.raises(ValueError, match="this PerLabel is not fitted yet"):
        calibrators.PerLabel().predict_proba(z)
    with pytest.raises(ValueError, match="but 'b' has only one of them"):
        calibrators.PerLabel().fit(z, y * [1, 0, 1], label_names=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"must both have shape \(N, L\)"):
        calibrators.PerLabel().fit(z, y[:, 0])
    with pytest.raises(ValueError, match="`labels` must be zeros and ones"):
        calibrators.PerLabel().fit(z, y + 1)
    with pytest.raises(ValueError, match=r"`logits` must have shape \(N, 3\)"):
        calibrators.PerLabel().fit(z, y).predict_proba(z[:, :2])
    with pytest.raises(TypeError, match="`method` must be a calibrator or its name"):
        calibrators.PerLabel(3)


@pytest.mark.parametrize("whole", [-70000.0, -1000.0, -40.0, 0.0, 40.0, 1000.0, 70000.0])
def test_log_odds_are_compared_to_36_binary_digits(whole):
    """Between −2^16 and 2^16; larger ones stay as they are."""
    fine = 2.0**-36
    given = whole + torch.tensor([0.0, 0.3 * fine, 0.7 * fine, 5.25 * fine], dtype=torch.float64)
    expected = given if abs(whole) >= 2**16 else whole + torch.tensor([0.0, 0.0, fine, 5 * fine], dtype=torch.float64)
    assert comparable_log_odds(given).tolist() == expected.tolist()
