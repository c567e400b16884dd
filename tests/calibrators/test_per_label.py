"""A calibrator for each label: each column alone."""

import numpy as np
import pytest
import torch

from softkin import calibrators, metrics


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
