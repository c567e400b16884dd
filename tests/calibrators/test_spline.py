"""Spline calibration: scipy's natural splines, and what the map must keep."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import CubicSpline

from calibration_data import drawn
from softkin.calibrators import (
    SplineCalibration,
)
from softkin.calibrators.one_vs_rest import comparable
from softkin.calibrators.spline import natural_basis


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
