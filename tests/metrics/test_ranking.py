"""AURC, AUROC and FPR by brute force."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import digamma

import metrics_twins as twins
from softkin import metrics
from softkin.metrics import ranking
from softkin.metrics.catalogue import METRICS
from softkin.metrics.scopes import Claims, Pool


def test_aurc_equals_brute_force():
    p, y = twins.random_case(3, n=250)
    assert metrics.aurc(p, y) == pytest.approx(twins.aurc(p.max(1), p.argmax(1) != y), rel=1e-12)


def test_aurc_of_ties_is_the_mean_over_their_orders():
    p = np.array([[0.9, 0.1], [0.7, 0.3], [0.7, 0.3], [0.7, 0.3], [0.6, 0.4]])
    wrong = np.array([0, 1, 0, 0, 1])
    values = []
    for order in itertools.permutations([1, 2, 3]):
        errors = np.cumsum(wrong[[0, *order, 4]])
        values.append(np.mean(errors / np.arange(1, 6)))
    assert metrics.aurc(p, wrong) == pytest.approx(np.mean(values), rel=1e-12)


def test_aurc_counts_rows_by_their_weights():
    rng = np.random.default_rng(8)
    s, w = rng.random(400), rng.exponential(size=400)
    right = rng.random(400) < s
    reached = errors = area = 0.0
    for row in np.argsort(-s):  # a row of weight t spreads over ranks reached + 1 … reached + t
        t, wrong = w[row] / w.mean(), not right[row]
        grown = digamma(reached + t + 1) - digamma(reached + 1)
        area += errors * grown + wrong * (t - reached * grown)
        reached, errors = reached + t, errors + t * wrong
    assert metrics.aurc(s, right, sample_weight=w) == pytest.approx(area / 400, rel=1e-9)
    assert metrics.aurc(s, right, sample_weight=np.full(400, 3.0)) == pytest.approx(metrics.aurc(s, right), rel=1e-9)
    times = rng.integers(0, 4, 400)
    repeated = metrics.aurc(s.repeat(times), right.repeat(times))
    assert metrics.aurc(s, right, sample_weight=times) == pytest.approx(repeated, rel=5e-3)  # ranks are of mean 1
    interval = metrics.aurc(s, right, sample_weight=w, confidence=0.95)
    drawn = []
    for seed in range(300):
        rows = np.random.default_rng(seed).integers(0, 400, 400)
        drawn.append(metrics.aurc(s[rows], right[rows], sample_weight=w[rows]))
    assert interval.high - interval.low == pytest.approx(3.92 * np.std(drawn), rel=0.15)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from([0.1, 0.2, 0.5, 0.5, 0.9]), min_size=1, max_size=25),
    st.lists(st.sampled_from([0.1, 0.3, 0.5, 0.8]), min_size=1, max_size=25),
)
def test_auroc_and_fpr_equal_brute_force(known, unknown):
    pairs = [(a > b) + (a == b) / 2 for a in known for b in unknown]
    assert metrics.auroc(np.array(known), np.array(unknown)) == pytest.approx(np.mean(pairs), rel=1e-12)
    threshold = max(t for t in known if np.mean(np.array(known) >= t) >= 0.95 - 1e-12)
    expected = np.mean(np.array(unknown) >= threshold)
    assert metrics.fpr_at_95(torch.tensor(known), torch.tensor(unknown)) == pytest.approx(expected, abs=1e-12)


def test_two_sets_have_intervals():
    rng = np.random.default_rng(0)
    known, unknown = rng.normal(1, 1, 400), rng.normal(0, 1, 300)
    area = metrics.auroc(known, unknown, confidence=0.95, resamples=300)
    assert area.low < area < area.high
    truth = 0.7602  # Φ(1/√2)
    assert area.low < truth < area.high
    share = metrics.fpr_at_95(known, unknown, confidence=0.95, resamples=300)
    assert share.low < share < share.high


def test_scores_of_two_sets_are_checked():
    good = np.array([0.1, 0.2])
    for bad, words in (
        (np.ones((2, 2)), r"`unknown` must have shape \(N,\).*P.max\(1\)"),
        (np.array([]), "`unknown` must hold at least 1 sample"),
        (np.array([np.nan]), "`unknown` must be finite"),
    ):
        with pytest.raises(ValueError, match=words):
            metrics.auroc(good, bad)


def test_fpr_counts_the_known_at_exactly_95_percent():
    known = np.arange(20) / 20  # 95 % are at or above 0.05
    assert metrics.fpr_at_95(known, np.array([0.0, 0.05, 0.04, 0.2])) == 0.5


def test_the_linear_rows_vary_as_the_area_does():
    generator = torch.Generator().manual_seed(0)
    winning = torch.rand(2000, generator=generator, dtype=torch.float64)
    right = torch.rand(2000, generator=generator) < winning
    statistic = ranking.RiskCoverage(Pool(winning, right.nonzero()[:, 0], 2000, 1))
    area, rows = statistic.value(), statistic.influence()
    assert float(rows.mean()) == pytest.approx(area)
    # Double one sample's weight a little: the area moves by that row's share.
    for j in (0, 7, 1234):

        def weighted(extra, j=j):
            order = winning.argsort(descending=True)
            w = torch.ones(2000, dtype=torch.float64)
            w[j] += extra
            w = w[order]
            return float((w / w.sum() * ((~right[order]) * w).cumsum(0) / w.cumsum(0)).sum())

        slope = (weighted(1e-4) - weighted(-1e-4)) / 2e-4
        assert float(rows[j] - area) / 2000 == pytest.approx(slope, abs=2e-6)


def test_equal_confidences_share_their_influence_on_the_risk_coverage_area():
    """All rows tie: the area is the error rate, and its rows are the errors."""
    p, y = np.tile([0.9, 0.1], (50, 1)), (np.arange(50) % 10 == 3).astype(int)
    statistic = METRICS["aurc"].statistic(Claims(torch.from_numpy(p), torch.from_numpy(y)))
    assert statistic.influence().numpy() == pytest.approx(y)


def test_macro_auroc_is_that_of_scikit_learn_and_its_interval_holds():
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(12)
    z = rng.normal(size=(300, 4)) + rng.normal(size=(300, 1))
    y = (rng.random(z.shape) < 1 / (1 + np.exp(-z))).astype(int)
    s = (1 / (1 + np.exp(-2 * z))).round(2)  # with ties
    w = rng.exponential(size=300)
    assert metrics.macro_auroc(s, y) == pytest.approx(roc_auc_score(y, s, average="macro"), rel=1e-12)
    weighted = roc_auc_score(y, s, average="macro", sample_weight=w)
    assert metrics.macro_auroc(s, y, sample_weight=w) == pytest.approx(weighted, rel=1e-12)
    interval = metrics.macro_auroc(s, y, confidence=0.95)
    drawn = []
    for _ in range(400):
        rows = rng.integers(0, 300, 300)
        drawn.append(roc_auc_score(y[rows], s[rows], average="macro"))
    assert interval.high - interval.low == pytest.approx(3.92 * np.std(drawn), rel=0.15)
    never = np.concatenate([y, np.zeros((300, 1), int)], axis=1)
    more = np.concatenate([s, rng.random((300, 1))], axis=1)
    assert metrics.macro_auroc(more, never) == pytest.approx(float(interval))
    with pytest.raises(ValueError, match="several labels per sample"):
        metrics.macro_auroc(np.full((3, 3), 1 / 3), [0, 1, 2])


@pytest.mark.parametrize("turned", [False, True])
def test_a_perfect_ranking_is_as_certain_as_its_rarer_kind(turned):
    """Five against fifty: Clopper and Pearson's bound of 5 cases, not of 50."""
    s, right = np.linspace(0.1, 0.9, 55), np.arange(55) >= (50 if turned else 5)
    found = metrics.confidence_auroc(s, right, confidence=0.95)
    assert (found.value, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(0.025 ** (1 / 5))
