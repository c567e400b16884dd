"""Scores of prediction sets, from their definitions."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from decision_twins import softmax, twin_score
from softkin import decisions
from softkin.decisions.set_scores import SCORES, Scoring


@given(
    seed=st.integers(0, 10**6),
    name=st.sampled_from(list(SCORES)),
    rounded=st.booleans(),
    k=st.sampled_from([2, 5, 40]),
    random=st.booleans(),
)
def test_scores_and_members_are_those_of_the_definition(seed, name, rounded, k, random):
    rng = np.random.default_rng(seed)
    p = softmax(3 * rng.normal(size=(7, k)))
    if rounded:  # ties, and many zeros
        p = np.round(p, 1) + 1e-300
        p /= p.sum(1, keepdims=True)
    u = rng.random(7) if random else np.zeros(7)
    scoring = Scoring(SCORES[name], 0.03, 2)
    expected = np.array([[twin_score(name, row, j, v, 0.03, 2) for j in range(k)] for row, v in zip(p, u, strict=True)])
    t, v = torch.from_numpy(p), torch.from_numpy(u) if random else None
    np.testing.assert_allclose(scoring.all(t, v), expected, atol=1e-12)
    y = torch.from_numpy(rng.integers(0, k, 7))
    np.testing.assert_allclose(scoring.own(t, y, v), expected[np.arange(7), y], atol=1e-12)
    limits = torch.from_numpy(rng.uniform(0, 1.2, k))
    extra = torch.from_numpy(rng.uniform(0, 0.3, (7, k)))
    clear = np.abs(expected + extra.numpy() - limits.numpy()) > 1e-9
    members = scoring.within(t, v, limits, extra).numpy()
    assert (members == (expected + extra.numpy() <= limits.numpy()))[clear].all()
    clear = np.abs(expected - limits.numpy()) > 1e-9
    assert (scoring.within(t, v, limits, None).numpy() == (expected <= limits.numpy()))[clear].all()
    alike = torch.full((k,), float(rng.choice([rng.uniform(0, 1.2), expected.min(), expected.max(), 0])))
    clear = np.abs(expected - alike.numpy()) > 1e-9
    assert (scoring.within(t, v, alike, None).numpy() == (expected <= alike.numpy()))[clear].all()
    assert (scoring.within(t, v, alike, 0 * extra) == scoring.within(t, v, alike, None)).all()


@pytest.mark.parametrize("penalty", [0.01, 0.7])
def test_exported_sets_with_a_penalty_are_those_of_predict_where_rows_tie(penalty):
    """A penalty times whole numbers is float32 in torch: scores that tie at the limit would fall on both sides of it."""
    rng = np.random.default_rng(0)
    z = np.array([[3.0, 2, 1, 0, 0], [0, 1, 2, 3, 4]])[rng.integers(2, size=2000)]
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (rng.random((2000, 1)) > p.cumsum(axis=1)).sum(axis=1)
    rule = decisions.PredictionSets(0.9, "raps", randomised=False, penalty=penalty, k_reg=2).fit(z[:1000], y[:1000])
    exported = rule.as_module()(torch.from_numpy(z[1000:])).numpy()
    assert np.array_equal(rule.predict(z[1000:]), exported)
