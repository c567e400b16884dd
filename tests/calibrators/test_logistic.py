"""K logistic regressions at once reach scipy's minimum."""

import numpy as np
import pytest
import torch
from scipy import optimize

from calibration_data import drawn
from softkin.calibrators import (
    BetaCalibration,
    PlattScaling,
)
from softkin.calibrators.one_vs_rest import log_odds_parts


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
