"""Temperature scaling and its ensemble: check values, exact searches, bounds, data whose temperature is known."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from calibration_data import drawn
from softkin.calibrators import EnsembleTemperatureScaling, TemperatureScaling
from softkin.calibrators.temperature import below_top, best_temperature, bracket, mse_derivatives, nll_derivatives


def nll(z, y, t):
    return float(torch.nn.functional.cross_entropy(z.double() / t, y))


def mse(z, y, t):
    p = torch.softmax(z.double() / t, dim=1)
    return float((p - torch.nn.functional.one_hot(y, z.shape[1])).square().sum(dim=1).mean())


@pytest.mark.parametrize(
    ("name", "objective", "expected"),
    [
        ("resnet32-cifar100", "nll", 1.5574239),
        ("resnet32-cifar100", "mse", 1.5402382),
        ("resnet20-cifar10", "nll", 2.3858946),
        ("resnet20-cifar10", "mse", 2.4097355),
    ],
)
def test_check_values(network_logits, name, objective, expected):
    z, y = network_logits[name]
    cal = TemperatureScaling(objective=objective).fit(z[:5000], y[:5000])
    assert cal.temperature_ == pytest.approx(expected, abs=1e-6)
    assert cal.certificate_.gradient_norm < 1e-6
    assert not cal.certificate_.bound_hit
    assert "over-confident" in repr(cal)


@given(
    st.integers(0, 10_000), st.sampled_from([0.3, 1.0, 3.0, 50.0]), st.sampled_from(["nll", "mse"]), st.integers(2, 6)
)
def test_agrees_with_an_exhaustive_search(seed, factor, objective, k):
    z, y = drawn(seed, n=80, k=k, factor=factor)
    cal = TemperatureScaling(objective=objective).fit(z, y)
    if cal.certificate_.bound_hit:
        return
    function = nll if objective == "nll" else mse
    grid = np.geomspace(cal.temperature_ / 30, cal.temperature_ * 30, 121)
    start = grid[int(np.argmin([function(z, y, t) for t in grid]))]
    best = optimize.minimize_scalar(
        lambda b: function(z, y, 1 / b),
        bounds=(1 / start / 1.2, 1 / start * 1.2),
        method="bounded",
        options={"xatol": 1e-12},
    )
    assert function(z, y, cal.temperature_) <= best.fun + 1e-12


@pytest.mark.parametrize("derivatives", [nll_derivatives, mse_derivatives])
def test_derivatives(derivatives):
    z, y = drawn(0)
    at, h = derivatives(*below_top(z, y)), 1e-5
    for beta in (0.2, 0.7, 2.0):
        _, slope, curvature = at(beta)
        assert slope == pytest.approx((at(beta + h)[0] - at(beta - h)[0]) / (2 * h), abs=1e-8)
        assert curvature == pytest.approx((at(beta + h)[1] - at(beta - h)[1]) / (2 * h), abs=1e-7)
    function = nll if derivatives is nll_derivatives else mse
    assert at(0.5)[0] == pytest.approx(function(z, y, 2.0), abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_the_certificate_holds_at_the_end_though_the_last_step_is_not_looked_at(seed):
    """Value and slope after that step come from a series, which must be right to what float64 holds."""
    z, y = drawn(seed, n=5000, k=10, factor=(0.3, 1.0, 3.0)[seed % 3])
    cal = TemperatureScaling().fit(z, y)
    value, slope, *_ = nll_derivatives(*below_top(z, y))(1 / cal.temperature_)
    assert cal.certificate_.nll_after == pytest.approx(value, abs=1e-13)
    assert cal.certificate_.gradient_norm < 1e-8
    assert abs(slope) < 1e-8
    assert cal.certificate_.nll_before == pytest.approx(nll(z, y, 1.0), abs=1e-13)
    assert cal.certificate_.iterations <= 4


@pytest.mark.parametrize("objective", ["nll", "mse"])
def test_scale_of_the_logits_scales_the_temperature(objective):
    z, y = drawn(1)
    calibrator = TemperatureScaling(objective=objective).fit(z, y)
    for scale in (1e-306, 1e-6, 1e4, 1e9, 1e110, 1e300):
        cal = TemperatureScaling(objective=objective).fit(scale * z, y)
        assert cal.temperature_ == pytest.approx(scale * calibrator.temperature_, rel=1e-6)
        assert cal.certificate_.converged
        assert cal.certificate_.nll_after == pytest.approx(calibrator.certificate_.nll_after, rel=1e-9)


@pytest.mark.parametrize("factor", [30.0, 300.0, 3e5])
def test_saturated_scores_converge(factor):
    """Where every softmax is 0 or 1 the third derivative dwarfs the second."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        z = factor * torch.randint(-2, 3, (40, 10), generator=generator).double()
        y = torch.randint(0, 10, (40,), generator=generator)
        cal = TemperatureScaling().fit(z, y)
        assert cal.certificate_.converged
        assert cal.certificate_.iterations < 30
        assert cal.certificate_.nll_after <= math.log(10) + 1e-3  # that of an infinite temperature, or better


def mixtures(count):
    """Groups of rows that want different temperatures: scales over four decades, right, wrong and random labels."""
    for seed in range(count):
        generator = torch.Generator().manual_seed(seed)

        def uniform(generator=generator):
            return float(torch.rand(1, generator=generator))

        k, parts = 2 + int(6 * uniform()), []
        for _ in range(2 + int(3 * uniform())):
            m = 1 + int(30 * uniform() ** 2)
            z = 10 ** (4 * uniform() - 2) * torch.randn(m, k, generator=generator, dtype=torch.float64)
            wrong = torch.rand(m, generator=generator) > uniform()
            parts.append((z, torch.where(wrong, torch.randint(0, k, (m,), generator=generator), z.argmax(dim=1))))
        yield torch.cat([z for z, _ in parts]), torch.cat([y for _, y in parts])


def squared_errors(z, y, betas):
    p = torch.softmax(betas[:, None, None] * z, dim=2)
    return (p - torch.nn.functional.one_hot(y, z.shape[1])).square().sum(dim=2).mean(dim=1)


@pytest.mark.slow
def test_squared_error_is_least_in_1500_mixtures():
    several = 0
    for z, y in mixtures(1500):
        u, own = below_top(z, y)
        least = best_temperature(u, own, "mse")
        low, high = bracket(u, own)
        grid = torch.logspace(math.log10(low), math.log10(high), 300, dtype=torch.float64)
        assert least.converged
        assert least.searched[0] == low
        assert least.searched[1] >= high
        assert low <= least.beta <= least.searched[1]
        assert least.value <= float(squared_errors(z, y, grid).min()) + 1e-10
        assert least.value == pytest.approx(
            float(squared_errors(z, y, torch.tensor([least.beta], dtype=torch.float64))), abs=1e-10
        )
        several += least.valleys > 1
    assert several > 50  # else these were no trial


def test_squared_error_of_rows_on_very_different_scales():
    """The usual range follows the median row; these need a temperature far below it."""
    z = torch.tensor([[100.0, 0.0]] * 11 + [[0.001, 0.0]] * 10, dtype=torch.float64)
    y = torch.zeros(21, dtype=torch.int64)
    y[0] = 1
    fit = TemperatureScaling(objective="mse").fit(z, y)
    assert mse(z, y, fit.temperature_) == pytest.approx(2 / 21, abs=1e-9)
    assert EnsembleTemperatureScaling().fit(z, y).temperature_ == pytest.approx(fit.temperature_)


@pytest.mark.parametrize("seed", range(30))
def test_squared_error_is_least_on_all_scales(seed):
    rng = np.random.default_rng(seed)
    k, parts, labels = int(rng.integers(2, 6)), [], []
    for _ in range(int(rng.integers(1, 4))):
        part = rng.normal(size=(int(rng.integers(3, 40)), k)) * 10 ** rng.uniform(-3, 3)
        wrong = rng.random(len(part)) < rng.uniform(0.1, 0.6)
        parts.append(part)
        labels.append(np.where(wrong, rng.integers(k, size=len(part)), part.argmax(axis=1)))
    z, y = torch.from_numpy(np.concatenate(parts)), torch.from_numpy(np.concatenate(labels))
    fit = TemperatureScaling(objective="mse").fit(z, y)
    best = min(mse(z, y, float(t)) for t in np.logspace(-9, 9, 600))
    assert mse(z, y, fit.temperature_) <= best + 1e-3


@pytest.mark.parametrize("n", [500, 6000])
def test_confident_outliers_do_not_hide_the_better_valley(n):
    """4 % of the rows are confident and wrong: one valley is where they do least harm, the better one is elsewhere."""
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(n, 5, generator=generator, dtype=torch.float64)
    y = z.argmax(dim=1)
    z[: n // 25] *= 300
    y[: n // 25] = torch.randint(0, 5, (n // 25,), generator=generator)
    order = torch.randperm(n, generator=generator)
    z, y = z[order], y[order]
    for make in (TemperatureScaling, EnsembleTemperatureScaling):
        cal = make(objective="mse").fit(z, y)
        assert cal.certificate_.converged
        assert cal.temperature_ < 1
        assert mse(z, y, cal.temperature_) < 0.2
    low, high = bracket(*below_top(z, y))
    said = f"no other temperature from {1 / high:.2g} to {1 / low:.2g} has a lower squared error"
    assert said in repr(TemperatureScaling(objective="mse").fit(z, y))


@pytest.mark.parametrize(("n", "k", "scale", "t"), [(300, 2, 3.0, 0.2), (5000, 10, 100.0, 2.0)])
def test_squared_error_is_not_caught_in_a_valley_that_few_rows_show(n, k, scale, t):
    for seed in range(10):
        generator = torch.Generator().manual_seed(seed)
        z = scale * torch.randn(n, k, generator=generator, dtype=torch.float64)
        y = torch.multinomial(torch.softmax(z / t, dim=1), 1, generator=generator)[:, 0]
        calibrator = TemperatureScaling(objective="mse").fit(z, y)
        assert calibrator.certificate_.converged
        assert mse(z, y, calibrator.temperature_) <= mse(z, y, TemperatureScaling().fit(z, y).temperature_) + 1e-12


def test_a_few_rows_of_ordinary_range_among_huge_ones():
    """The bound follows from what the true classes lose."""
    generator = torch.Generator().manual_seed(1)
    z = 2 * torch.randn(1000, 100, generator=generator, dtype=torch.float64)
    y = torch.multinomial(torch.softmax(z / 0.4, dim=1), 1, generator=generator)[:, 0]
    p = torch.softmax(z, dim=1).mul(1000).round().div(1000)
    p = p / p.sum(dim=1, keepdim=True)
    with pytest.warns(UserWarning, match="exactly 0"):
        cal = TemperatureScaling().fit(p, y, from_probabilities=True)
    assert not cal.certificate_.bound_hit
    assert cal.temperature_ == pytest.approx(0.4, abs=0.02)
    z = torch.where(torch.rand(1000, 1, generator=generator) < 0.6, 1e4, 1.0) * torch.tensor([[1.0, 0.0]])
    y = (torch.rand(1000, generator=generator) < 0.25 * (z[:, 0] < 2)).long()
    cal = TemperatureScaling().fit(z.double(), y)
    assert not cal.certificate_.bound_hit
    assert cal.certificate_.nll_after < cal.certificate_.nll_before


def test_all_right_ends_at_the_bound():
    z, _ = drawn(2)
    for objective in ("nll", "mse"):
        cal = TemperatureScaling(objective=objective).fit(z, z.argmax(dim=1))
        spread = float((z.amax(dim=1) - z.amin(dim=1)).median())
        assert cal.certificate_.bound_hit
        assert cal.temperature_ == pytest.approx(spread / 1000)
        assert cal.certificate_.gradient_norm == 0  # what a bound holds does not count
        assert "the lower bound, as every sample is predicted right" in repr(cal)


def test_worse_than_chance_ends_at_the_other_bound():
    z, _ = drawn(3)
    cal = TemperatureScaling().fit(z, z.argmin(dim=1))
    assert cal.certificate_.bound_hit
    assert "the upper bound" in str(cal.certificate_)
    torch.testing.assert_close(cal.predict_proba(z), torch.full_like(z, 1 / 4), atol=1e-3, rtol=0)


def test_an_under_confident_model_is_called_so():
    z, y = drawn(4, factor=0.5)
    cal = TemperatureScaling().fit(z, y)
    assert cal.temperature_ < 1
    assert "the model was under-confident" in repr(cal)


@pytest.mark.parametrize("seed", range(8))
def test_a_temperature_that_is_not_told_from_1_is_no_verdict(seed):
    """The twin is the likelihood-ratio test: twice the fall of the summed NLL against 3.84."""
    z, y = drawn(seed, factor=1.05)
    cal = TemperatureScaling().fit(z, y)
    told = 2 * len(z) * (nll(z, y, 1.0) - nll(z, y, cal.temperature_)) > 3.84
    assert ("confident" in repr(cal)) == told
    assert ("these samples do not tell it from 1" in repr(cal)) == (not told)


def test_one_wild_row_does_not_move_the_bracket():
    z, y = drawn(5)
    z[0] *= 1e5
    cal = TemperatureScaling().fit(z, y)
    assert not cal.certificate_.bound_hit
    assert cal.certificate_.gradient_norm < 1e-6


def test_known_temperature():
    """Data drawn at T = 2: errors in standard errors have mean square 1.

    There is one error a fit, so the mean square of 20 seeds would have a deviation of .32 (the first 20 give .76) and say
    nothing; that of 500 has .06.
    """
    squares = []
    for seed in range(500):
        z, y = drawn(seed, n=400, k=5)
        beta = 1 / TemperatureScaling().fit(z, y).temperature_
        curvature = nll_derivatives(*below_top(z, y))(0.5)[2]
        squares.append((beta - 0.5) ** 2 * len(z) * curvature)
    assert 0.8 < np.mean(squares) < 1.2


def test_options_are_checked():
    with pytest.raises(ValueError, match="`objective` must be 'nll' or 'mse', got 'ece'"):
        TemperatureScaling(objective="ece")
    with pytest.raises(ValueError, match="`objective` must be 'mse' or 'nll', got 'ece'"):
        EnsembleTemperatureScaling(objective="ece")
    with pytest.raises(ValueError, match="`objective` must be 'nll' or 'mse', got 3"):
        TemperatureScaling().set_params(objective=3)


def test_bounds_are_named_by_their_side():
    z, _ = drawn(2)
    assert "the lower bound" in repr(TemperatureScaling().fit(1e4 * z, z.argmax(dim=1)))  # T = 66, and still the lower
    assert "the upper bound" in repr(TemperatureScaling().fit(1e-4 * z, z.argmin(dim=1)))


def test_a_refit_that_fails_leaves_nothing_half_done(monkeypatch):
    z, y = drawn(0)
    cal = TemperatureScaling().fit(z, y)
    monkeypatch.setattr("softkin.calibrators.temperature.best_temperature", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cal.fit(z[:, :3], y % 3)
    with pytest.raises(ValueError, match="is not fitted yet"):
        cal.predict_proba(z)


@pytest.mark.parametrize("objective", ["nll", "mse"])
def test_the_certificate_has_the_nll_of_its_probabilities(objective):
    z, y = drawn(n=120)
    cal = TemperatureScaling(objective=objective).fit(z, y)
    p = cal.predict_proba(z)
    assert cal.certificate_.nll_after == pytest.approx(-float(p.gather(1, y[:, None]).log().mean()))


def test_constant_rows_keep_their_nll():
    cal = TemperatureScaling().fit(torch.ones(20, 4), torch.arange(20) % 4)
    assert cal.certificate_.nll_after == pytest.approx(math.log(4))
