"""Histogram binning and BBQ, from their definitions. I-Max: the groups that keep the most information."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calibration_data import drawn
from softkin.calibrators import (
    BayesianBinning,
    HistogramBinning,
    MutualInformationBinning,
)
from softkin.calibrators.histogram import best_groups
from softkin.calibrators.one_vs_rest import comparable


@pytest.mark.parametrize("bins", ["width", "mass"])
def test_histogram_by_hand(bins):
    z, y = drawn(n=60, k=3)
    m = 4
    cal = HistogramBinning(n_bins=m, binning=bins).fit(z, y)
    p = torch.softmax(z, dim=1).numpy()
    mapped = np.empty_like(p)
    for j in range(3):
        ordered = np.sort(p[:, j])
        edges = (
            [i / m for i in range(1, m)]
            if bins == "width"
            else [ordered[math.ceil(i * 60 / m) - 1] for i in range(1, m)]
        )
        cell = np.array([sum(score > edge for edge in edges) for score in p[:, j]])
        for i in range(60):
            mapped[i, j] = np.mean(y.numpy()[cell == cell[i]] == j)
    np.testing.assert_allclose(cal.scores(z).numpy(), mapped, atol=1e-12)


def test_empty_bins_leave_the_score():
    z = torch.tensor([[5.0, 0.0], [5.0, 0.0]], dtype=torch.float64)
    cal = HistogramBinning().fit(z, torch.tensor([0, 0]))
    new = torch.tensor([[0.3, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(cal.predict_proba(new), torch.softmax(new, dim=1))


def bbq_twin(scores, hit, at):
    """Naeini's average written from its definition: a loop over numbers of bins, bins and samples."""
    n = len(scores)
    ordered = sorted(scores)
    low = max(1, int(n ** (1 / 3) / 10))
    high = min(n, max(1, int(10 * n ** (1 / 3))))
    logs, predictions = [], []
    for b in range(low, high + 1):
        edges = [0.0, *(ordered[math.ceil(m * n / b) - 1] for m in range(1, b)), 1.0]

        def cell(s, edges=edges, b=b):
            return sum(s > edge for edge in edges[1:b])

        inside = [[h for s, h in zip(scores, hit, strict=True) if cell(s) == m] for m in range(b)]
        log, theta = 0.0, []
        for m in range(b):
            middle = (edges[m] + edges[m + 1]) / 2
            alpha, beta = 2 / b * middle, 2 / b * (1 - middle)
            count, hits = len(inside[m]), sum(inside[m])
            log += math.lgamma(2 / b) - math.lgamma(count + 2 / b)
            log += math.lgamma(hits + alpha) - math.lgamma(alpha)
            log += math.lgamma(count - hits + beta) - math.lgamma(beta)
            theta.append((hits + alpha) / (count + 2 / b))
        logs.append(log)
        predictions.append([theta[cell(s)] for s in at])
    weights = np.exp(np.array(logs) - max(logs))
    return (weights / weights.sum()) @ np.array(predictions)


@pytest.mark.parametrize("ties", [False, True])
def test_bbq_from_its_definition(ties):
    z, y = drawn(n=40, k=3)
    z = z.round() if ties else z
    other = drawn(seed=1, n=30, k=3)[0]
    cal = BayesianBinning().fit(z, y)
    p, q = comparable(torch.softmax(z, dim=1)), comparable(torch.softmax(other, dim=1))
    calibrated = cal.scores(other)
    for j in range(3):
        expected = bbq_twin(p[:, j].tolist(), (y == j).double().tolist(), q[:, j].tolist())
        np.testing.assert_allclose(calibrated[:, j].numpy(), expected, atol=1e-10)


def test_bayesian_binning_keeps_the_classes_of_saturated_scores():
    """Scores of exactly 0 and 1: a prior that a bin of zeros holds no hit made one bin of all scores the likeliest."""
    rng = np.random.default_rng(4)
    logits = 2 * rng.normal(size=(300, 4))
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (chances.cumsum(axis=1) < rng.random((300, 1))).sum(axis=1)
    p = BayesianBinning().fit(1e30 * logits, labels).predict_proba(1e30 * logits)
    right = (logits.argmax(axis=1) == labels).mean()
    assert (p.argmax(axis=1) == labels).mean() == pytest.approx(right, abs=0.01)
    assert p.max(axis=1).mean() == pytest.approx(right, abs=0.05)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=8), st.integers(2, 4))
def test_groups_keep_the_most_information(pairs, n_bins):
    pairs = [(h, max(h + miss, 1)) for h, miss in pairs]
    hits, sizes = np.array([h for h, _ in pairs], float), np.array([s for _, s in pairs], float)

    def cost(cuts):
        total = 0.0
        for a, b in itertools.pairwise([0, *cuts, len(hits)]):
            h, n = hits[a:b].sum(), sizes[a:b].sum()
            total -= sum(v * math.log(v / n) for v in (h, n - h) if v > 0)
        return total

    choices = [cuts for g in range(n_bins) for cuts in itertools.combinations(range(1, len(hits)), g)]
    groups = best_groups(hits, sizes, n_bins)
    assert len(groups) < n_bins
    assert cost(groups) == pytest.approx(min(cost(cuts) for cuts in choices), abs=1e-9)


def test_i_max_bins_and_values():
    z, y = drawn(n=500)
    cal = MutualInformationBinning(n_bins=5).fit(z, y)
    assert len(cal.values_) == 5
    assert bool((cal.values_.diff() > 0).all())
    assert bool((cal.edges_.diff() > 0).all())
    assert float(cal.values_.min()) > 0
    assert cal.certificate_.argmax_changed == 0


def test_i_max_values_by_hand():
    z = torch.tensor([[3.0, 0.0], [3.0, 0.0], [0.0, 3.0], [0.0, 0.0]], dtype=torch.float64)
    cal = MutualInformationBinning().fit(z, torch.tensor([0, 0, 1, 0]))
    p = 1 / (1 + math.exp(-3))
    # Log-odds −3 (three, no hit), 0 (two, one hit), 3 (three, all hits): each a bin, with its mean score as one more.
    assert cal.values_.tolist() == pytest.approx([(1 - p) / 4, (1 + 0.5) / 3, (3 + p) / 4])
    assert cal.edges_.tolist() == pytest.approx([0, 3])


def test_more_bins_keep_more_information(network_logits):
    z, y = (part[:3000] for part in network_logits["resnet32-cifar100"])
    after = [MutualInformationBinning(n_bins=m).fit(z, y).certificate_.nll_after for m in (2, 5, 15)]
    assert after[0] > after[1] > after[2]
