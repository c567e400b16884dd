"""Calibration errors: brute force, hand-made cases, properties, and what is refused."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import metrics_twins as twins
from softkin import metrics

ERRORS = [
    metrics.ece_hist,
    metrics.ece_kde,
    metrics.classwise_ece,
    metrics.mce,
    metrics.debiased_ece,
    metrics.smooth_ece,
    metrics.signed_gap,
    metrics.nll,
    metrics.brier,
    metrics.accuracy,
    metrics.aurc,
]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(2, 6))
def test_order_of_samples_and_names_of_classes_do_not_matter(seed, n, k):
    p, y = twins.random_case(seed, n=n, k=k)
    rng = np.random.default_rng(seed)
    rows, names = rng.permutation(n), rng.permutation(k)
    renamed, relabelled = p[:, names], np.argsort(names)[y]
    for metric, scope in itertools.product((metrics.ece_hist, metrics.ece_kde), ("prediction", "output")):
        value = metric(p, y, scope=scope)
        assert metric(p[rows], y[rows], scope=scope) == pytest.approx(value, abs=1e-9)
        assert metric(renamed, relabelled, scope=scope) == pytest.approx(value, abs=1e-9)
    assert metrics.classwise_ece(renamed, relabelled) == pytest.approx(metrics.classwise_ece(p, y), abs=1e-12)
    assert metrics.aurc(p[rows], y[rows]) == pytest.approx(metrics.aurc(p, y), abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 60))
def test_errors_are_ordered_and_bounded(seed, n):
    p, y = twins.random_case(seed, n=n, k=3)
    first, two, largest = (metrics.ece_hist(p, y, norm=norm) for norm in (1, 2, "max"))
    assert 0 <= first <= two + 1e-12
    assert two <= largest + 1e-12
    assert largest <= 1
    assert first >= abs(metrics.signed_gap(p, y)) - 1e-12
    assert 0 <= metrics.ece_hist(p, y, scope="output") <= 2


@pytest.mark.parametrize("metric", ERRORS, ids=lambda metric: metric.__name__)
def test_kinds_of_arrays_agree(metric):
    p, y = twins.random_case(9, n=300)
    exact = metric(p, y)
    assert metric(torch.from_numpy(p), torch.from_numpy(y)) == exact
    assert metric(np.asfortranarray(p), y.astype(np.uint8)) == exact
    assert metric(p[::-1][::-1], y.tolist()) == exact
    for kind, tolerance in ((np.float32, 1e-5), (np.float16, 2e-2)):
        assert metric(p.astype(kind), y) == pytest.approx(metric(p.astype(kind).astype(np.float64), y), rel=1e-6)
        # A score may cross an edge when it is rounded, and then moves its bin.
        assert metric(p.astype(kind), y) == pytest.approx(exact, abs=tolerance)
    # bfloat16 rows sum to 1 only within 1e-2, which is allowed in that type alone.
    assert metric(torch.from_numpy(p).to(torch.bfloat16), y) == pytest.approx(exact, abs=5e-2)


@pytest.mark.parametrize("metric", ERRORS, ids=lambda metric: metric.__name__)
def test_inputs_stay_as_they_are(metric):
    p, y = twins.random_case(10, n=50)
    p.setflags(write=False)
    y.setflags(write=False)
    metric(p, y)
    required = torch.from_numpy(p.copy()).requires_grad_()
    assert metric(required, y) == metric(p, y)


@pytest.mark.parametrize("metric", ERRORS, ids=lambda metric: metric.__name__)
def test_one_sample(metric):
    assert np.isfinite(metric(np.array([[0.3, 0.7]]), np.array([1])))


def test_bad_options_get_one_sentence():
    p, y = twins.random_case(0, n=10)
    for options, words in (
        ({"scope": "all"}, "`scope` must be 'prediction' or 'output', got 'all'"),
        ({"per": "class"}, "`per` must be 'sample' or 'score', got 'class'"),
        ({"norm": 3}, "`norm` must be 1, 2 or 'max', got 3"),
        ({"norm": True}, "`norm` must be 1, 2 or 'max', got True"),
        ({"binning": "equal"}, "`binning` must be 'width' or 'mass', got 'equal'"),
        ({"n_bins": 0}, "`n_bins` must be at least 1, got 0"),
    ):
        with pytest.raises(ValueError, match=words):
            metrics.ece_hist(p, y, **options)
    with pytest.raises(TypeError, match=r"`n_bins` must be a whole number, got 1\.5"):
        metrics.ece_hist(p, y, n_bins=1.5)
    with pytest.raises(ValueError, match="`boundary` must be 'reflect' or 'none', got 'mirror'"):
        metrics.ece_kde(p, y, boundary="mirror")
    with pytest.raises(ValueError, match="`reduction` must be 'mean' or 'sum'"):
        metrics.classwise_ece(p, y, reduction="max")
    with pytest.raises(ValueError, match="`part` must be 'net', 'over' or 'under'"):
        metrics.signed_gap(p, y, part="both")


def test_options_of_the_wrong_kind():
    p, y = torch.full((4, 2), 0.5), [0, 1, 0, 1]
    with pytest.raises(TypeError, match="`confidence` must be a number, got '0.95'"):
        metrics.ece_hist(p, y, confidence="0.95")
    with pytest.raises(TypeError, match=r"`bandwidth` must be a number, got \[0.1\]"):
        metrics.ece_kde(p, y, bandwidth=[0.1])


def test_over_confidence_that_nobody_has_seen_may_be_there():
    """All 50 answers are right, but up to 7.1 % wrong ones may be too rare to have occurred."""
    p = np.stack([np.full(50, 0.99), np.full(50, 0.01)], axis=1)
    p[:5] = [0.6, 0.4]
    interval = metrics.signed_gap(p, np.zeros(50, int), part="over", confidence=0.95)
    rare = 1 - 0.025 ** (1 / 50)
    assert (interval.value, interval.low) == (0, 0)
    assert interval.high == pytest.approx(rare - 0.9 * 0.01)
    wrong = metrics.signed_gap(p, np.ones(50, int), part="under", confidence=0.95)
    assert wrong.high == pytest.approx(max(0, 0.9 * 0 + max(min(rare, 0.9) - 0.9 * 0.99, min(rare, 0.1) - 0.1 * 0.6)))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 60), st.sampled_from([1, 2, 10, 15]))
def test_ece_of_class_1_is_that_of_its_score(seed, n, n_bins):
    """Against counting by hand, whatever the form of the input; the winning score would be another number."""
    rng = np.random.default_rng(seed)
    p, y = rng.random(n).round(2), rng.integers(0, 2, n)
    place = np.clip(np.ceil(np.round(p * n_bins, 9)).astype(int) - 1, 0, None)
    expected = sum(abs(p[place == m].sum() - y[place == m].sum()) for m in range(n_bins)) / n
    pair, order = np.stack([1 - p, p], axis=1), rng.permutation(n)
    for got in (
        metrics.ece_positive(p, y, n_bins=n_bins),
        metrics.ece_positive(pair, y, n_bins=n_bins),
        metrics.ece_positive(pair[order], y[order], n_bins=n_bins),
        metrics.ece_positive(p, y, n_bins=n_bins, sample_weight=np.full(n, 3.0)),
        metrics.ece_hist(p, y == 1, n_bins=n_bins),
    ):
        assert got == pytest.approx(expected, abs=1e-9)


def test_ece_of_class_1_needs_two_classes_and_takes_votes():
    with pytest.raises(ValueError, match="`ece_positive` has no meaning here: it needs two classes, and there are 3"):
        metrics.ece_positive(np.full((2, 3), 1 / 3), [0, 1])
    with pytest.raises(ValueError, match="it needs two classes, and these are pairs of a confidence and an outcome"):
        metrics.ece_positive([0.5, 0.6], np.array([True, False]))
    votes = np.array([[0.25, 0.75], [0.5, 0.5]])
    assert metrics.ece_positive(np.array([[0.2, 0.8], [0.2, 0.8]]), votes) == pytest.approx(0.8 - 0.625)
