"""Intervals by formula: from their definitions, and by simulation."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, t

from softkin import metrics
from softkin.metrics import intervals


def test_wilson():
    assert intervals.wilson(0.5, 100, 0.95) == pytest.approx((0.4038, 0.5962), abs=1e-4)
    assert metrics.accuracy(np.array([[0.9, 0.1]] * 20), np.zeros(20, int), confidence=0.95).low == pytest.approx(
        0.8389, abs=1e-4
    )


LEVELS = st.sampled_from([0.5, 0.9, 0.95, 0.99])


@given(st.integers(1, 300), st.floats(0, 1), LEVELS)
def test_wilson_is_scipys(n, part, level):
    k = round(part * n)
    ends = binomtest(k, n).proportion_ci(level, method="wilson")
    assert intervals.wilson(k / n, n, level) == pytest.approx((ends.low, ends.high), abs=1e-12)


@given(st.integers(1, 300), LEVELS)
def test_none_or_all_is_clopper_and_pearsons(n, level):
    for k in (0, n):
        ends = binomtest(k, n).proportion_ci(level, method="exact")
        assert intervals.none_or_all(k / n, n, level) == pytest.approx((ends.low, ends.high), abs=1e-12)
    assert intervals.none_or_all(0.25, n, level) == (0.25, 0.25)


@given(st.integers(1, 300), LEVELS)
def test_students_quantile_is_scipys(degrees, level):
    assert intervals.student(degrees, level) == pytest.approx(t.ppf(0.5 + level / 2, degrees))


def twin_of_the_gap(scores, hits, level):
    """Newcombe's ends as the docstring writes them, by scipy and numpy."""
    n, c, a = len(scores), np.mean(scores), np.mean(hits)
    below, above = binomtest(int(sum(hits)), n).proportion_ci(level, method="wilson")
    reach_of_c = t.ppf(0.5 + level / 2, n - 1) * np.std(scores, ddof=1) / math.sqrt(n)
    varied = np.std(scores) > 1e-9 and np.std(hits) > 0
    rho = np.corrcoef(scores, hits)[0, 1] if varied else 0.0
    low, high = (math.sqrt(max(0, reach_of_c**2 + w**2 - 2 * rho * reach_of_c * w)) for w in (above - a, a - below))
    return c - a - low, c - a + high


@given(st.integers(2, 60), st.integers(0, 10**6), LEVELS)
def test_the_interval_of_the_gap_is_newcombes(n, seed, level):
    rng = np.random.default_rng(seed)
    scores = rng.uniform(0.3, 1, n) if seed % 5 else np.full(n, 0.8)
    hits = rng.random(n) < scores - 0.2 * (seed % 3)
    low, high = twin_of_the_gap(scores, hits, level)
    ours = torch.from_numpy(scores), torch.from_numpy(hits)
    assert intervals.score_minus_share(*ours, level) == pytest.approx((max(-1, low), min(1, high)), abs=1e-9)
    # The sizes of all values between the ends.
    between = np.abs(np.linspace(max(-1, low), min(1, high), 20_001))
    assert intervals.size_of_gap(*ours, level) == pytest.approx((between.min(), between.max()), abs=1e-4)


@pytest.mark.parametrize("right", [0, 3, 7, 10])
def test_the_standard_error_of_a_gap_is_half_of_the_way_to_0(right):
    scores = np.linspace(0.55, 0.85, 10)
    p, y = np.stack([scores, 1 - scores], axis=1), (np.arange(10) >= right).astype(int)
    gap, error = intervals.gap_and_error(torch.from_numpy(p), torch.from_numpy(y))
    low, high = twin_of_the_gap(scores, y == 0, 0.95)
    assert gap == pytest.approx(scores.mean() - right / 10)
    assert error == pytest.approx(((gap - low) if gap > 0 else (high - gap)) / 2)


@given(st.integers(2, 40), st.integers(0, 10**6), LEVELS)
def test_the_interval_of_a_mean_loss_ends_where_its_equation_holds(n, seed, level):
    """(L̄ − μ)² = t² V(μ) / n at both ends, with κ of the wrong answers seen and of one more."""
    rng = np.random.default_rng(seed)
    possible, winning, base = rng.uniform(0.1, 3, n), rng.uniform(0.3, 1, n), rng.uniform(0, 0.5, n)
    wrong = rng.random(n) < 0.3
    excess = np.where(wrong, possible, 0.0)
    losses = base + excess
    doubt = 1 - winning + 1 / n
    x = [*excess[wrong], *possible]
    w = [*np.ones(wrong.sum()), *(doubt / doubt.sum())]
    kappa = sum(a * b * b for a, b in zip(w, x, strict=True)) / sum(a * b for a, b in zip(w, x, strict=True))
    mean, variance, D = losses.mean(), losses.var(), excess.mean()
    moments = intervals.MeanLoss.of(mean, variance, *map(torch.from_numpy, (excess, possible, winning)))
    assert moments.ratio == pytest.approx(kappa)
    low, high = moments.ends(level)
    assert low <= mean <= high
    for mu in (low, high):
        if mu > 0:
            v = variance + kappa * (mu - mean) - ((D + mu - mean) ** 2 - D**2)
            assert (mean - mu) ** 2 == pytest.approx(t.ppf(0.5 + level / 2, n - 1) ** 2 * v / n)


def two_classes(c, likelihood, rng):
    return np.stack([c, 1 - c], axis=1), (rng.random(len(c)) >= likelihood).astype(int)


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("n", [1, 5, 40])
def test_the_gap_is_not_known_from_answers_that_are_all_alike(right, n):
    """40 answers, 97.3 % sure and all right: nothing speaks against 97.3 %, and resampled rows show no chance."""
    sure = 0.973 if right else 0.6
    p, y = np.tile([sure, 1 - sure], (n, 1)), np.full(n, 0 if right else 1)
    gap = metrics.signed_gap(p, y, confidence=0.95)
    low, high = intervals.wilson(float(right), n, 0.95)
    assert (gap.low, gap.high) == pytest.approx((sure - high, sure - low))
    assert gap.low <= gap <= gap.high
    assert (gap.low <= 0 <= gap.high) == (right or n < 5)


def test_the_gap_has_its_textbook_interval_where_both_outcomes_are_frequent():
    rng = np.random.default_rng(0)
    c = rng.uniform(0.5, 1, 4000)
    p, y = np.stack([c, 1 - c], axis=1), (rng.random(4000) > c - 0.05).astype(int)
    rows = c - (y == 0)
    gap = metrics.signed_gap(p, y, confidence=0.9)
    half = 1.645 * rows.std(ddof=1) / 4000**0.5
    assert (gap.value, gap.low, gap.high) == pytest.approx(
        (rows.mean(), rows.mean() - half, rows.mean() + half), abs=2e-4
    )


@pytest.mark.slow
def test_the_gap_of_small_samples_is_held():
    """Calibrated between 95 and 99.5 %, 40 answers: percentiles of resampled rows hold the truth in 68 %."""
    held = 0
    for r in range(400):
        rng = np.random.default_rng(r)
        c = rng.uniform(0.95, 0.995, 40)
        p, y = two_classes(c, c, rng)
        interval = metrics.signed_gap(p, y, confidence=0.95)
        held += interval.low <= 0 <= interval.high
    assert held >= 368  # 92 %


LOSSES = {
    "nll": lambda sure, truth: -truth * np.log(sure) - (1 - truth) * np.log(1 - sure),
    "brier": lambda sure, truth: 2 * (truth * (1 - sure) ** 2 + (1 - truth) * sure**2),
    "aurc": lambda sure, truth: 1 - truth,  # all rows tie
}


@pytest.mark.parametrize("metric", LOSSES)
@pytest.mark.parametrize(
    ("sure", "truth", "n"), [(0.97, 0.97, 40), (0.99, 0.98, 40), (0.97, 0.97, 200), (0.999, 0.97, 100), (0.7, 0.6, 40)]
)
def test_losses_that_few_wrong_answers_make_up_are_held(metric, sure, truth, n):
    """Exactly, over all numbers of wrong answers; percentiles of resampled rows held 70 % in the first case."""
    p, expected, held = np.tile([sure, 1 - sure], (n, 1)), LOSSES[metric](sure, truth), 0.0
    for hits in range(n + 1):
        chance = binom.pmf(hits, n, truth)
        if chance > 1e-6:
            interval = getattr(metrics, metric)(p, (np.arange(n) >= hits).astype(int), confidence=0.95)
            held += chance * (interval.low - 1e-9 <= expected <= interval.high + 1e-9)
    assert held > 0.93


@pytest.mark.slow
@pytest.mark.parametrize("metric", LOSSES)
def test_losses_of_a_sure_and_right_model_are_held(metric):
    """Scores of 95 to 99.5 %, 40 of them: percentiles held the Brier score in 68 %, the AURC in 59 %."""
    rng = np.random.default_rng(99)
    c = rng.uniform(0.95, 0.995, 200_000)
    truth = {
        "nll": -(c * np.log(c) + (1 - c) * np.log(1 - c)).mean(),
        "brier": 2 * (c * (1 - c)).mean(),
        "aurc": ((1 - np.sort(c)[::-1]).cumsum() / np.arange(1, len(c) + 1)).mean(),
    }[metric]
    held = 0
    for r in range(300):
        rng = np.random.default_rng(r)
        c = rng.uniform(0.95, 0.995, 40)
        interval = getattr(metrics, metric)(*two_classes(c, c, rng), confidence=0.95)
        held += interval.low <= truth <= interval.high
    assert held >= 280


def test_the_interval_of_a_loss_of_0_and_1_is_wilsons():
    wrong = torch.zeros(400)
    wrong[:7] = 1
    moments = intervals.MeanLoss.of(7 / 400, float(wrong.var(correction=0)), wrong, torch.ones(400), torch.ones(400))
    assert moments.ends(0.95) == pytest.approx(intervals.wilson(7 / 400, 400, 0.95), rel=5e-3)  # Student's t for z


def test_a_loss_that_no_label_changes_is_known():
    p = np.full((30, 2), 0.5)
    brier = metrics.brier(p, np.zeros(30, dtype=int), confidence=0.95)
    assert (brier.low, brier.high) == pytest.approx((0.5, 0.5))


def test_a_wrong_answer_of_score_1_would_make_the_log_loss_infinite():
    p = np.tile([1.0, 0.0], (30, 1))
    assert metrics.nll(p, np.zeros(30, dtype=int), confidence=0.95).high == np.inf
    assert metrics.brier(p, np.zeros(30, dtype=int), confidence=0.95).high == pytest.approx(2 * 0.12, abs=0.02)
    assert metrics.aurc(p, np.zeros(30, dtype=int), confidence=0.95).high == pytest.approx(0.12, abs=0.02)


@pytest.mark.slow
def test_sure_scores_that_miss_have_wide_enough_intervals():
    """Few wrong answers decide, and resamples of them show too little: 95 % intervals held the truth in 70 %."""
    rng, n, k = np.random.default_rng(0), 40, 10
    held = 0
    for _ in range(100):
        p, winners = np.full((n, k), 0.027 / 9), rng.integers(k, size=n)
        p[np.arange(n), winners] = 0.973
        y = np.where(rng.random(n) < 0.94, winners, (winners + 1 + rng.integers(k - 1, size=n)) % k)
        ends = metrics.ece_hist(p, y, scope="output", confidence=0.95, resamples=100)
        held += ends.low <= 2 * 0.033 <= ends.high
    assert held >= 90


@pytest.mark.slow
def test_a_small_share_of_wrong_answers_below_varied_scores():
    rng, n = np.random.default_rng(0), 100
    held = {"prediction": 0, "output": 0}
    for _ in range(60):
        score = rng.beta(20, 1, size=n).clip(0.5, 1)
        p = np.stack([score, 1 - score], axis=1)
        y = (rng.random(n) > 1 - 0.27 * (1 - score)).astype(int)
        for scope in held:
            ends = metrics.ece_hist(p, y, scope=scope, confidence=0.95, resamples=100)
            truth = 0.73 / 21 * (2 if scope == "output" else 1)  # 1 − E score = 1/21; all bins err to the same side
            held[scope] += ends.low <= truth <= ends.high
    assert min(held.values()) >= 53


def test_an_exact_zero_is_not_sure():
    p, y = np.tile([0.6, 0.4], (1000, 1)), (np.arange(1000) >= 600).astype(int)
    for metric in (metrics.ece_hist, metrics.classwise_ece, metrics.mce):
        assert 0.02 < metric(p, y, confidence=0.95).high < 0.1
    assert 0.04 < metrics.ece_hist(p, y, scope="output", confidence=0.95).high < 0.1
    balanced = metrics.brier_decomposition(np.full((200, 4), 0.25), np.arange(200) % 4, confidence=0.95)
    assert balanced.uncertainty.low < 0.745
    assert balanced.uncertainty.high == pytest.approx(0.75)


def test_a_gap_stays_within_one():
    ends = metrics.signed_gap(np.array([[0.7, 0.3], [0.2, 0.8]]), np.array([0, 0]), confidence=0.95)
    assert -1 <= ends.low <= ends.high <= 1
