"""Proper scores, accuracy, ranking."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import metrics_twins as twins
from softkin import metrics
from softkin.metrics.catalogue import METRICS


def test_nll_and_brier_by_hand():
    p, y = np.array([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]]), np.array([0, 2])
    assert metrics.nll(p, y) == pytest.approx(-(np.log(0.5) + np.log(0.1)) / 2, rel=1e-14)
    squares = (0.25 + 0.0625 * 2 + 0.01 + 0.64 + 0.81) / 2
    assert metrics.brier(p, y) == pytest.approx(squares, rel=1e-14)
    assert metrics.brier(p, y, per="score") == pytest.approx(squares / 3, rel=1e-14)
    assert metrics.brier(p, y, convention="kull2019") == pytest.approx(squares / 3, rel=1e-14)


def test_a_true_class_without_probability_makes_the_nll_infinite():
    assert metrics.nll(np.array([[1.0, 0.0]]), np.array([1])) == float("inf")
    worst = metrics.nll(np.array([[1.0, 0.0]] + [[0.5, 0.5]] * 3), np.array([1, 0, 0, 0]), confidence=0.95)
    assert worst.high == float("inf")
    assert worst.low < float("inf")  # some resamples miss the row


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


def test_ties_go_to_the_first_class_in_accuracy_and_top_k():
    p = np.full((4, 4), 0.25)
    y = np.arange(4)
    assert metrics.accuracy(p, y) == 0.25
    assert [metrics.top_k_accuracy(p, y, k=k) for k in (1, 2, 3, 4)] == [0.25, 0.5, 0.75, 1]


def test_top_k_equals_sorting():
    p, y = twins.random_case(2, n=300, k=8)
    ranked = np.argsort(-p, axis=1, kind="stable")
    for k in (1, 3, 8):
        assert metrics.top_k_accuracy(p, y, k=k) == pytest.approx((ranked[:, :k] == y[:, None]).any(1).mean())
    assert metrics.top_k_accuracy(p, y, k=1) == metrics.accuracy(p, y)
    with pytest.raises(ValueError, match="`k` must be at most the number of classes, 8, got 9"):
        metrics.top_k_accuracy(p, y, k=9)


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


@pytest.mark.parametrize("key", [metric.key for metric in METRICS.values() if metric.function is not None])
def test_no_metric_ignores_an_unknown_option(key):
    """A misspelt option would otherwise give the number of its default."""
    needed = {
        "superclass_ece": {"groups": torch.tensor([0, 1])},
        "neighbourhood_mass": {"similarity": 1 - torch.eye(2)},
        "mistake_severity": {"distances": 1 - torch.eye(2)},
    }
    with pytest.raises(TypeError, match="takes no option `confidnce`"):
        METRICS[key].function(torch.tensor([[0.6, 0.4]]), torch.tensor([0]), **needed.get(key, {}), confidnce=0.9)


def test_the_nearest_option_is_named():
    with pytest.raises(TypeError, match=r"`ece_hist` takes no option `n_bin`; its options: .*did you mean 'n_bins'\?"):
        metrics.ece_hist(torch.tensor([[0.6, 0.4]]), torch.tensor([0]), n_bin=3)
    with pytest.raises(ValueError, match=r"got 'outptu'; did you mean 'output'\?"):
        metrics.ece_hist(torch.tensor([[0.6, 0.4]]), torch.tensor([0]), scope="outptu")
