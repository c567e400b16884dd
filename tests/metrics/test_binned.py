"""Binned errors by brute force."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import metrics_twins as twins
from softkin import metrics
from softkin.metrics.catalogue import METRICS
from softkin.metrics.scopes import Claims


@pytest.mark.parametrize("scope", ["prediction", "output"])
@pytest.mark.parametrize("per", ["sample", "score"])
@pytest.mark.parametrize("norm", [1, 2, "max"])
@pytest.mark.parametrize("n_bins", [1, 10, 15])
def test_ece_hist_equals_brute_force(scope, per, norm, n_bins):
    p, y = twins.random_case(0)
    n = len(p) * (p.shape[1] if scope == "output" and per == "score" else 1)
    expected = twins.ece(twins.pooled(p, y, scope), n, n_bins, norm)
    ours = metrics.ece_hist(p, y, scope=scope, per=per, norm=norm, n_bins=n_bins)
    assert ours == pytest.approx(expected, rel=1e-12)
    assert isinstance(ours, float)


@pytest.mark.parametrize("scope", ["prediction", "output"])
def test_equal_mass_equals_brute_force(scope):
    p, y = twins.random_case(1)
    pairs = twins.pooled(p, y, scope)
    ordered = sorted(score for score, _ in pairs)
    uppers = [ordered[-(-m * len(ordered) // 15) - 1] for m in range(1, 15)]
    expected = twins.ece(pairs, len(p), bins=lambda score: sum(score > edge for edge in uppers))
    assert metrics.ece_hist(p, y, scope=scope, binning="mass") == pytest.approx(expected, rel=1e-12)


def test_both_samples_in_the_last_bin():
    # torchmetrics puts the confidence of exactly 1 in a bin of its own and says 0.525.
    p = torch.tensor([[0.95, 0.05], [1.0, 0.0]])
    assert metrics.ece_hist(p, torch.tensor([0, 1]), n_bins=10) == pytest.approx(0.475, abs=1e-7)


def test_classwise_equals_the_mean_of_the_columns():
    p, y = twins.random_case(4)
    each = [
        twins.ece([(float(row[k]), int(label == k)) for row, label in zip(p, y, strict=True)], len(p)) for k in range(5)
    ]
    assert metrics.classwise_ece(p, y) == pytest.approx(np.mean(each), rel=1e-12)
    assert metrics.classwise_ece(p, y, reduction="sum") == pytest.approx(np.sum(each), rel=1e-12)
    mass = [metrics.classwise_ece(p, y, binning="mass", norm=norm) for norm in (1, 2, "max")]
    assert mass[0] <= mass[1] <= mass[2]


def test_a_class_that_no_label_names_counts():
    p = np.tile([0.5, 0.3, 0.2], (10, 1))
    y = np.array([0] * 6 + [1] * 4)
    assert metrics.classwise_ece(p, y, reduction="sum") == pytest.approx(0.1 + 0.1 + 0.2, rel=1e-12)


def test_debiased_with_weights_equals_its_formula_and_is_unbiased():
    p, y = twins.random_case(5, n=400)
    w = np.random.default_rng(0).exponential(size=400)
    w /= w.mean()
    pairs = twins.pooled(p, y, "prediction")
    total = 0.0
    for m in range(15):
        rows = [i for i, (s, _) in enumerate(pairs) if twins.bin_of(s, 15) == m]
        if len(rows) > 1:
            own = w[rows]
            conf, lik = (np.average([pairs[i][part] for i in rows], weights=own) for part in (0, 1))
            one = (own**2).sum() / own.sum() ** 2  # 1 over the effective number of rows
            total += own.sum() / 400 * ((lik - conf) ** 2 - lik * (1 - lik) * one / (1 - one))
    assert metrics.debiased_ece(p, y, sample_weight=w) == pytest.approx(max(0, total) ** 0.5, rel=1e-10)
    # One bin, all scores .7, right with probability .5: the square is .04, whatever the weights.
    rng = np.random.default_rng(1)
    few = rng.exponential(size=(300, 30)) ** 2
    right = rng.random((300, 30)) < 0.5
    squares = [
        metrics.debiased_ece(np.full(30, 0.7), hit, sample_weight=own, n_bins=1) ** 2
        for hit, own in zip(right, few, strict=True)
    ]
    plain = [metrics.ece_hist(np.full(30, 0.7), hit, sample_weight=own, n_bins=1, norm=2) ** 2
             for hit, own in zip(right, few, strict=True)]  # fmt: skip
    assert abs(np.mean(squares) - 0.04) < 0.7 * abs(np.mean(plain) - 0.04)  # what is left is the cut at 0
    interval = metrics.debiased_ece(p, y, sample_weight=w, confidence=0.95, resamples=200)
    assert interval.low <= interval.high


def test_debiased_equals_its_formula():
    p, y = twins.random_case(5, n=400)
    pairs = twins.pooled(p, y, "prediction")
    total = 0.0
    for m in range(15):
        group = [(s, h) for s, h in pairs if twins.bin_of(s, 15) == m]
        if len(group) > 1:
            lik, conf = np.mean([h for _, h in group]), np.mean([s for s, _ in group])
            total += len(group) / 400 * ((lik - conf) ** 2 - lik * (1 - lik) / (len(group) - 1))
    assert metrics.debiased_ece(p, y) == pytest.approx(max(0, total) ** 0.5, rel=1e-10)


@pytest.mark.parametrize("scope", ["prediction", "output"])
def test_signed_gap_splits_the_ece(scope):
    p, y = twins.random_case(7)
    parts = {part: metrics.signed_gap(p, y, part=part, scope=scope) for part in ("net", "over", "under")}
    assert parts["over"] + parts["under"] == pytest.approx(metrics.ece_hist(p, y, scope=scope), rel=1e-12)
    assert parts["over"] - parts["under"] == pytest.approx(parts["net"], abs=1e-12)
    net = p.max(1).mean() - (p.argmax(1) == y).mean() if scope == "prediction" else 0.0
    assert parts["net"] == pytest.approx(net, abs=1e-12)


def test_mce_is_the_largest_gap():
    p, y = twins.random_case(8)
    assert metrics.mce(p, y) == metrics.ece_hist(p, y, norm="max")


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["prediction", "output"]), st.sampled_from(["width", "mass"]))
def test_doubling_the_data_leaves_the_histogram_alone(seed, scope, binning):
    p, y = twins.random_case(seed, n=45, k=4)
    once = metrics.ece_hist(p, y, scope=scope, binning=binning)
    twice = metrics.ece_hist(np.tile(p, (2, 1)), np.tile(y, 2), scope=scope, binning=binning)
    assert twice == pytest.approx(once, abs=1e-12)


def test_the_interval_of_the_largest_gap_ends_at_1():
    """Without that bound it would reach 1.18."""
    p = np.array([[0.99, 0.01]] * 6 + [[0.6, 0.4]] * 4)
    y = np.array([1, 1, 1, 1, 1, 0, 0, 1, 0, 0])
    assert metrics.mce(p, y, confidence=0.95).high == 1


def test_over_and_under_confidence_of_one_bin_have_the_gaps_interval():
    p, labels = np.tile([0.9, 0.1], (50, 1)), (np.arange(50) >= 35).astype(int)
    gap = metrics.signed_gap(p, labels, confidence=0.95)
    over = metrics.signed_gap(p, labels, part="over", confidence=0.95)
    under = metrics.signed_gap(p, labels, part="under", confidence=0.95)
    assert (over.low, over.high) == (max(0, gap.low), gap.high)
    assert (under.low, under.high) == (0, max(0, -gap.low))


def test_a_stream_takes_no_weights_for_the_debiased_error():
    p, y = twins.random_case(5, n=40)
    with pytest.raises(ValueError, match="needs the weights of all rows"):
        metrics.Accumulator(["debiased_ece"]).update(p, y, sample_weight=np.arange(40))


def test_over_confidence_that_did_not_occur_is_bounded_bin_by_bin():
    """All answers right in two bins: wrong ones have a share of at most 1 − tail^(1/N), in the bin with most room."""
    s = np.r_[np.full(20, 0.75), np.full(20, 0.97)]
    p = np.stack([s, 1 - s], axis=1)
    found = metrics.signed_gap(p, np.zeros(40, int), part="over", confidence=0.95)
    rare = 1 - 0.025 ** (1 / 40)
    room = max(min(0.5, rare) - 0.5 * 0.25, min(0.5, rare) - 0.5 * 0.03)
    assert (found.low, found.high) == (0.0, pytest.approx(room))
    few = metrics.signed_gap(p[18:], np.zeros(22, int), part="over", confidence=0.95)  # two rows in the lower bin
    rare = 1 - 0.025 ** (1 / 22)
    assert few.high == pytest.approx(max(min(2 / 22, rare) - 2 / 22 * 0.25, min(20 / 22, rare) - 20 / 22 * 0.03))


def test_under_confidence_that_did_not_occur_is_bounded_too():
    """All answers wrong in two bins: the same with right ones, of which the scores promise some."""
    s = np.r_[np.full(2, 0.14), np.full(20, 0.9)]
    p = np.concatenate([s[:, None], np.repeat((1 - s)[:, None] / 9, 9, axis=1)], axis=1)
    found = metrics.signed_gap(p, np.ones(22, int), part="under", confidence=0.95)
    rare = 1 - 0.025 ** (1 / 22)
    assert (found.low, found.high) == (0.0, pytest.approx(min(2 / 22, rare) - 2 / 22 * 0.14))


@pytest.mark.parametrize("part", ["over", "under"])
def test_the_gaps_interval_is_only_that_of_one_bin_and_one_score(part):
    """Two bins, or two scores of a row in one bin, have no closed form."""
    statistic = METRICS["signed_gap"].statistic
    s = torch.tensor([0.95, 0.95, 0.6, 0.6], dtype=torch.float64)
    two_bins = Claims(torch.stack([s, 1 - s], dim=1), torch.tensor([0, 1, 0, 1]))
    assert statistic(two_bins, part=part).ends(0.95) is None
    one_bin = Claims(torch.full((4, 2), 0.5, dtype=torch.float64), torch.tensor([0, 1, 0, 1]))
    assert statistic(one_bin, part=part).ends(0.95) is not None
    assert statistic(one_bin, part=part, scope="output").ends(0.95) is None


def test_only_class_wise_errors_of_one_formula_and_one_set_of_bins_add_up():
    claims = Claims.of(torch.full((6, 3), 1 / 3), torch.arange(6) % 3)
    make = METRICS["classwise_ece"].statistic
    mean = make(claims)
    assert mean.adds_up_with(make(claims))
    for options in ({"norm": 2}, {"norm": "max"}, {"n_bins": 7}):
        assert not mean.adds_up_with(make(claims, **options))
        assert not make(claims, **options).adds_up_with(mean)
    assert not mean.adds_up_with(METRICS["ece_hist"].statistic(claims))
