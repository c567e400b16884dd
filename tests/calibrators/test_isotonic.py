"""Isotonic regression against scikit-learn's."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from calibration_data import drawn
from softkin.calibrators import (
    IsotonicCalibration,
)
from softkin.calibrators.isotonic import steps


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
