"""Ensemble temperature scaling: the best weights of a mixture."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calibration_data import drawn
from softkin.calibrators import EnsembleTemperatureScaling
from softkin.calibrators.ensemble import Members, mse_weights, nll_weights
from softkin.calibrators.temperature import below_top, best_temperature


def nll(z, y, t):
    return float(torch.nn.functional.cross_entropy(z.double() / t, y))


def mse(z, y, t):
    p = torch.softmax(z.double() / t, dim=1)
    return float((p - torch.nn.functional.one_hot(y, z.shape[1])).square().sum(dim=1).mean())


def test_ensemble_check_values(network_logits):
    z, y = network_logits["resnet32-cifar100"]
    cal = EnsembleTemperatureScaling().fit(z[:5000], y[:5000])
    assert cal.weights_.tolist() == pytest.approx([0.983392, 0.012952, 0.003656], abs=1e-6)
    assert cal.temperature_ == pytest.approx(1.5402382, abs=1e-6)
    cal = EnsembleTemperatureScaling(objective="nll").fit(z[:5000], y[:5000])
    assert cal.weights_.tolist() == pytest.approx([0.99172, 0.00828, 0], abs=1e-5)
    assert cal.weights_[2] == 0
    assert cal.certificate_.argmax_changed == 0


@given(st.integers(0, 10_000), st.sampled_from([0.5, 1.0, 3.0, 30.0]), st.sampled_from(["mse", "nll"]))
def test_weights_are_the_best_on_the_simplex(seed, factor, objective):
    z, y = drawn(seed, n=60, k=3, factor=factor)
    raw, scaled = torch.softmax(z, dim=1), torch.softmax(z / 2.5, dim=1)
    w, off, _ = (mse_weights if objective == "mse" else nll_weights)(Members.of(*below_top(z, y), y, 1 / 2.5))
    onehot = torch.nn.functional.one_hot(y, 3)

    def value(v):
        p = v[0] * scaled + v[1] * raw + v[2] / 3
        return float(
            (p - onehot).square().sum(dim=1).mean() if objective == "mse" else -(p * onehot).sum(dim=1).log().mean()
        )

    assert float(w.sum()) == pytest.approx(1, abs=1e-12)
    assert bool((w >= 0).all())
    assert off < 1e-7
    steps = np.linspace(0, 1, 41)
    grid = [(a, b, 1 - a - b) for a in steps for b in steps if a + b <= 1 + 1e-12]
    assert value(w.tolist()) <= min(value((a, b, max(c, 0.0))) for a, b, c in grid) + 1e-12


@pytest.mark.parametrize("solve", [mse_weights, nll_weights])
def test_equal_columns_give_the_mass_to_the_first(solve):
    z, y = drawn(7, factor=1.5)
    w, _, _ = solve(Members.of(*below_top(z, y), y, 1.0))
    assert w[1] == 0
    assert w[0] > 0.5


@pytest.mark.parametrize("solve", [mse_weights, nll_weights])
@pytest.mark.parametrize(
    ("beta", "mixture"),
    [(5.0, (0, 0.8, 0.2)), (0.5, (0.8, 0, 0.2)), (5.0, (0.3, 0.7, 0)), (0.3, (0.3, 0.5, 0.2)), (0.5, (1, 0, 0))],
)
def test_a_mixture_is_found_on_every_face(solve, beta, mixture):
    """Labels drawn from the mixture itself: 40,000 of them leave its weights uncertain by less than .05."""
    generator = torch.Generator().manual_seed(0)
    z = 3 * torch.randn(40_000, 4, generator=generator, dtype=torch.float64)
    p = mixture[0] * torch.softmax(beta * z, dim=1) + mixture[1] * torch.softmax(z, dim=1) + mixture[2] / 4
    y = torch.multinomial(p, 1, generator=generator)[:, 0]
    w, off, _ = solve(Members.of(*below_top(z, y), y, beta))
    assert off < 1e-7
    assert w.tolist() == pytest.approx(mixture, abs=0.1)


@pytest.mark.parametrize("objective", ["mse", "nll"])
def test_whole_weights_are_repeated_rows_and_votes_are_rows_of_shares(objective):
    z, y = drawn(3, n=120, k=4, factor=3.0)
    times = torch.arange(120) % 4
    one = EnsembleTemperatureScaling(objective=objective).fit(z, y, sample_weight=times)
    many = EnsembleTemperatureScaling(objective=objective).fit(
        z.repeat_interleave(times, 0), y.repeat_interleave(times)
    )
    assert one.temperature_ == pytest.approx(many.temperature_, rel=1e-6)
    torch.testing.assert_close(one.weights_, many.weights_, atol=1e-6, rtol=0)
    votes = torch.nn.functional.one_hot(y, 4) * 3 + torch.nn.functional.one_hot((y + 1) % 4, 4)
    voted = EnsembleTemperatureScaling(objective=objective).fit(z, votes)
    rows = torch.cat([z, z, z, z]), torch.cat([y, y, y, (y + 1) % 4])
    each = EnsembleTemperatureScaling(objective=objective).fit(*rows)
    torch.testing.assert_close(voted.predict_proba(z), each.predict_proba(z), atol=1e-5, rtol=0)


@pytest.mark.parametrize("objective", ["mse", "nll"])
def test_the_certificate_counts_the_iterations_of_both_searches(objective):
    z, y = drawn()
    u, own = below_top(z, y)
    least = best_temperature(u, own, objective)
    _, _, iterations = (mse_weights if objective == "mse" else nll_weights)(Members.of(u, own, y, least.beta))
    fitted = EnsembleTemperatureScaling(objective=objective).fit(z, y)
    assert least.iterations > 0
    assert iterations > 0
    assert fitted.certificate_.iterations == least.iterations + iterations
