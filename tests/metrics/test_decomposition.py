"""The parts of the Brier score, and their intervals."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import metrics_twins as twins
from softkin import metrics
from softkin.metrics import binning, decomposition, resampling


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 50), st.integers(1, 20))
def test_brier_parts_add_up(seed, n, n_bins):
    p, y = twins.random_case(seed, n=n, k=3)
    parts = metrics.brier_decomposition(p, y, n_bins=n_bins)
    assert parts.brier == pytest.approx(metrics.brier(p, y), rel=1e-12)
    total = parts.reliability - parts.resolution + parts.uncertainty + parts.within
    assert total == pytest.approx(parts.brier, abs=1e-12)


def test_brier_parts_by_brute_force():
    p, y = twins.random_case(1, n=300, k=3)
    reliability = resolution = uncertainty = within = 0.0
    for k in range(3):
        score, hit = p[:, k], (y == k).astype(float)
        base = hit.mean()
        uncertainty += base * (1 - base)
        index = np.array([twins.bin_of(s, 15) for s in score])
        for m in set(index):
            s, h = score[index == m], hit[index == m]
            share = len(s) / 300
            reliability += share * (s.mean() - h.mean()) ** 2
            resolution += share * (h.mean() - base) ** 2
            # Stephenson's two extra terms: variance of the scores within the bin less twice their covariance.
            within += share * (s.var() - 2 * ((s - s.mean()) * (h - h.mean())).mean())
    parts = metrics.brier_decomposition(p, y)
    assert parts.reliability == pytest.approx(reliability, rel=1e-10)
    assert parts.resolution == pytest.approx(resolution, rel=1e-10)
    assert parts.uncertainty == pytest.approx(uncertainty, rel=1e-10)
    assert parts.within == pytest.approx(within, rel=1e-8)


BINS = binning.equal_width(15)


def three_classes(rng, n):
    """Over-confident probabilities, and labels drawn from what they should have been."""
    logits = rng.normal(size=(n, 3)) * 2
    true = np.exp(0.6 * logits) / np.exp(0.6 * logits).sum(1, keepdims=True)
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return p, (true.cumsum(1) < rng.random((n, 1))).sum(1).clip(max=2)


@pytest.mark.slow
def test_the_parts_of_the_brier_score_have_intervals_that_hold_the_truth():
    truth = metrics.brier_decomposition(*three_classes(np.random.default_rng(1), 1_000_000))
    names = ("brier", "reliability", "resolution", "uncertainty", "within")
    held = dict.fromkeys(names, 0)
    for r in range(40):
        p, y = three_classes(np.random.default_rng(100 + r), 800)
        parts = metrics.brier_decomposition(p, y, confidence=0.95, resamples=200, seed=r)
        plain = metrics.brier_decomposition(p, y)
        for name in names:
            interval = getattr(parts, name)
            assert interval == getattr(plain, name)
            held[name] += interval.low <= getattr(truth, name) <= interval.high
    assert min(held.values()) >= 35, held


@pytest.mark.parametrize("num_classes", [2, 10, 100])
def test_balanced_classes_have_an_uncertainty_that_its_interval_holds(num_classes):
    """1 − 1/K is the most that there is: every sample shows less, and resamples of it less again."""
    held = 0
    for r in range(40):
        rng = np.random.default_rng(r)
        y = rng.integers(0, num_classes, 500)
        imbalance = resampling.interval(decomposition.Imbalance(torch.from_numpy(y), num_classes), 0.95, 200, r)
        held += imbalance.low <= 0 <= imbalance.high
        assert imbalance.low <= imbalance <= imbalance.high
    assert held >= 35


def test_imbalance_by_hand():
    y = torch.tensor([0, 0, 0, 1])
    statistic = decomposition.Imbalance(y, 2)
    assert statistic.value() == pytest.approx(2 * 0.25**2)
    parts = metrics.brier_decomposition(np.full((4, 2), 0.5), y.numpy())
    assert parts.uncertainty == pytest.approx(0.5 - statistic.value())
    one_class = metrics.brier_decomposition(np.tile([0.9, 0.1], (30, 1)), np.zeros(30, int), confidence=0.95)
    assert one_class.uncertainty.low == 0
    assert one_class.uncertainty.high == pytest.approx(2 * (1 - 0.025 ** (1 / 30)))


def test_variance_of_hits_by_hand():
    count = torch.tensor([[2.0, 1, 0], [4, 1, 0]])
    hits = torch.tensor([[1.0, 1, 0], [1, 0, 0]])
    curves = binning.ReliabilityCurve(BINS.edges, count, count / 2, hits)
    expected = [[0.5, 0.25, 0], [0.25, 0.25, 0]]  # 1·1/(2·1), 1·3/(4·3); the single ones: one hit of two, pooled
    np.testing.assert_allclose(decomposition._variance_of_hits(curves), expected)


def test_the_part_within_bins_of_a_model_that_is_always_right_is_uncertain():
    c = np.linspace(0.95, 0.995, 40)
    parts = metrics.brier_decomposition(np.stack([c, 1 - c], 1), np.zeros(40, int), confidence=0.95)
    # One bin for each class: of 40 hits, 41/42 as their share, and −2 Σ d y over both columns is −4 Σ d y.
    d = c - c.mean()
    error = 4 * np.sqrt((d**2).sum() * 41 / 42 * 1 / 42) / 40
    assert parts.within.high == pytest.approx(parts.within + 1.959964 * error, rel=1e-6)
    assert parts.within.low == pytest.approx(parts.within - 1.959964 * error, rel=1e-6)
