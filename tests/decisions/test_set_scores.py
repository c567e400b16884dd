"""Scores of prediction sets, from their definitions. Penalties for unlike candidates, and groups of kin."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from decision_twins import drawn, softmax, twin_score
from softkin import decisions, distances, similarity
from softkin.decisions import set_scores
from softkin.decisions.rule import Rows
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


def test_unlikeness_by_hand():
    S = torch.tensor([[0, 0.8, 0.2], [0.5, 0, 0.5], [0.01, 0.99, 0]], dtype=torch.float64)
    unlike = set_scores.unlikeness(S)
    top = math.log(99)
    assert unlike.tolist() == [
        [0, 0, pytest.approx(math.log(4) / top)], [0, 0, 0], [pytest.approx(1), 0, 0],
    ]  # fmt: skip
    D = distances.from_words(["cat", "dog", "rose", "oak", "car"])
    sharp, mild = (set_scores.unlikeness(similarity.from_distances(D, beta=beta)) for beta in (1.5, 0.5))
    torch.testing.assert_close(sharp, mild)  # β cancels, as the distances stay
    p = torch.tensor([[0.7, 0.2, 0.1]], dtype=torch.float64)
    expected = [sum(p[0, j] * unlike[j, k] for j in range(3)) for k in range(3)]
    torch.testing.assert_close(set_scores.penalties(p, unlike)[0], torch.stack(expected))


def test_similarity_of_weight_0_equals_plain_sets():
    (z, y), (t, _) = drawn(400, 8, 0), drawn(200, 8, 1)
    S = similarity.from_distances(np.random.default_rng(0).random((8, 8)), asymmetric=True)
    for name in ("lac", "aps", "raps"):
        plain = decisions.PredictionSets(0.9, name).fit(z, y)
        weightless = decisions.PredictionSets(0.9, name, similarity=S, weight=0.0).fit(z, y)
        assert (plain.predict(t) == weightless.predict(t)).all()
        penalised = decisions.PredictionSets(0.9, name, similarity=S, weight=0.5).fit(z, y)
        assert (plain.predict(t) != penalised.predict(t)).any()
        p = torch.from_numpy(softmax(t))
        u = penalised._randomised(Rows.of(t, False), None).uniforms
        total = penalised.scoring.all(p, u) + 0.5 * (p @ set_scores.unlikeness(S))
        assert (torch.from_numpy(penalised.predict(t)) == (total <= penalised.limits_ + 1e-12)).all()


def test_kin_make_adaptive_sets_smaller_and_leave_lac_alone(network_logits, cifar100, shared_data):
    """The trial that the rule came from: ResNet-32 on CIFAR-100, temperature-scaled, distances from the names alone."""
    from softkin.calibrators import TemperatureScaling

    logits, labels = network_logits["resnet32-cifar100"]
    order = torch.randperm(len(logits), generator=torch.Generator().manual_seed(0))
    fit, test = order[:5000], order[5000:]
    p = TemperatureScaling().fit(logits[fit], labels[fit]).predict_proba(logits.double())
    S = similarity.from_distances(distances.from_words(cifar100[2]))
    sizes = {}
    for name in ("lac", "aps"):
        for alike in (None, S):
            rule = decisions.PredictionSets(0.9, name, similarity=alike).fit(
                p[fit], labels[fit], from_probabilities=True
            )
            outcome = rule.evaluate(p[test], labels[test], from_probabilities=True)
            assert outcome["coverage"] > 0.885
            sizes[name, alike is not None] = outcome["size"]
    assert sizes["aps", True].high < 3.5 < 4.2 < sizes["aps", False].low
    assert sizes["lac", True] == pytest.approx(sizes["lac", False], abs=0.1)  # nothing gained
    assert sizes["lac", False].high < sizes["aps", True].low


def test_groups_of_kin_for_rare_classes():
    D = np.abs(np.subtract.outer([0.0, 1, 10, 11, 30], [0.0, 1, 10, 11, 30]))
    assert decisions.kin_groups(D, [5, 5, 50, 3, 40], least=10).tolist() == [0, 0, 1, 1, 2]
    assert decisions.kin_groups(D, [50, 50, 50, 50, 50], least=10).tolist() == [0, 1, 2, 3, 4]
    assert decisions.kin_groups(D, [1, 1, 1, 1, 100], least=90).tolist() == [0, 0, 0, 0, 0]
    with pytest.raises(ValueError, match="`counts` must sum to at least `least`, 10, got 5"):
        decisions.kin_groups(D, [1, 1, 1, 1, 1], least=10)
