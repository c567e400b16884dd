"""Penalties for unlike candidates, and groups of kin."""

import math

import numpy as np
import pytest
import torch

from decision_twins import drawn, softmax
from softkin import decisions, distances, similarity
from softkin.decisions import kin
from softkin.decisions.rows import Rows


def test_unlikeness_by_hand():
    S = torch.tensor([[0, 0.8, 0.2], [0.5, 0, 0.5], [0.01, 0.99, 0]], dtype=torch.float64)
    unlike = kin.unlikeness(S)
    top = math.log(99)
    assert unlike.tolist() == [
        [0, 0, pytest.approx(math.log(4) / top)], [0, 0, 0], [pytest.approx(1), 0, 0],
    ]  # fmt: skip
    D = distances.from_words(["cat", "dog", "rose", "oak", "car"])
    sharp, mild = (kin.unlikeness(similarity.from_distances(D, beta=beta)) for beta in (1.5, 0.5))
    torch.testing.assert_close(sharp, mild)  # β cancels, as the distances stay
    p = torch.tensor([[0.7, 0.2, 0.1]], dtype=torch.float64)
    expected = [sum(p[0, j] * unlike[j, k] for j in range(3)) for k in range(3)]
    torch.testing.assert_close(kin.penalties(p, unlike)[0], torch.stack(expected))


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
        total = penalised.scoring.all(p, u) + 0.5 * (p @ kin.unlikeness(S))
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
