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


@pytest.mark.parametrize("scope", ["prediction", "output"])
@pytest.mark.parametrize("boundary", ["reflect", "none"])
def test_ece_kde_equals_brute_force_per_sample(scope, boundary):
    p, y = twins.random_case(2, n=60)
    pairs = twins.pooled(p, y, scope)
    h = 1.06 * np.std([score for score, _ in pairs]) * len(pairs) ** -0.2
    ours = metrics.ece_kde(p, y, scope=scope, boundary=boundary)
    assert ours == pytest.approx(twins.kde_ece(pairs, len(p), h, boundary), abs=1e-6)
    if scope == "output":
        assert metrics.ece_kde(p, y, scope=scope, boundary=boundary, per="score") == pytest.approx(ours / 5, rel=1e-12)


def test_ece_kde_of_equal_scores_is_exact():
    p = np.full((4, 2), [0.75, 0.25])
    assert metrics.ece_kde(p, np.array([0, 0, 0, 1])) == pytest.approx(0, abs=1e-15)
    assert metrics.ece_kde(p, np.array([0, 1, 1, 1])) == pytest.approx(0.5, abs=1e-15)
    assert metrics.ece_kde(np.eye(3), np.array([0, 1, 0])) == pytest.approx(1 / 3, abs=1e-15)


def test_kde_floor_is_the_kde_of_scores_that_are_their_own_likelihood():
    p, _ = twins.random_case(3, n=50, k=4)
    pairs = [(score, score) for score in p.flatten()]
    h = 1.06 * p.std() * p.size**-0.2
    assert metrics.kde_floor(p) == pytest.approx(twins.kde_ece(pairs, 50, h, "reflect"), abs=1e-6)
    # Saturated: K−1 of K scores at 0, one at 1, each pile adding h·35/128 of its share.
    eye = np.eye(10)[np.arange(100) % 10]
    h = 1.06 * eye.std() * 1000**-0.2
    assert metrics.kde_floor(eye) == pytest.approx(10 * h * 35 / 128, rel=1e-6)
    with pytest.raises(ValueError, match="depends on labels"):
        metrics.kde_floor(p, bandwidth="mix-n-match")


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


def test_smooth_ece_is_its_own_bandwidth_and_equals_brute_force():
    p, y = twins.random_case(6, n=150)
    sigma = metrics.smooth_ece(p, y)
    assert twins.smooth_ece(twins.pooled(p, y, "prediction"), sigma) == pytest.approx(sigma, rel=1e-4)


def test_smooth_ece_weighs_confidence_one_fully():
    # 5,000 at 1, all right, and 5,000 at ½, all wrong: 0.25 exactly. relplot drops half the mass at 1 and says 0.333.
    p = np.array([[1.0, 0.0]] * 5000 + [[0.5, 0.5]] * 5000)
    y = np.array([0] * 5000 + [1] * 5000)
    assert metrics.smooth_ece(p, y) == pytest.approx(0.25, abs=1e-3)
    # A residual at the very end falls back on itself: none of it leaves [0, 1], whatever the bandwidth.
    for one_hot in ([1.0, 0.0], [0.0, 1.0]):
        certain = np.array([one_hot] * 10)
        assert metrics.smooth_ece(certain, np.array([0, 1] * 5)) == pytest.approx(0.5, abs=1e-6)


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


def test_output_calibration_class_by_class_does_not_imply_prediction_calibration():
    # The table of docs/mathematics.md, each kind of input 20 times.
    kinds = [
        ([0.4, 0.3, 0.3], [0.5, 0.3, 0.2]),
        ([0.4, 0.45, 0.15], [0.3, 0.45, 0.25]),
        ([0.1, 0.6, 0.3], [0.0, 0.6, 0.4]),
        ([0.1, 0.75, 0.15], [0.2, 0.75, 0.05]),
    ]
    p = np.repeat([scores for scores, _ in kinds], 20, axis=0)
    y = np.concatenate([np.repeat([0, 1, 2], np.round(20 * np.array(true)).astype(int)) for _, true in kinds])
    assert metrics.classwise_ece(p, y, n_bins=100) == pytest.approx(0, abs=1e-12)
    assert metrics.ece_hist(p, y, n_bins=100) == pytest.approx(0.025, abs=1e-12)


# ------------------------------------------------------------------------------------------------- properties


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
@given(st.integers(0, 10_000), st.sampled_from(["prediction", "output"]), st.sampled_from(["width", "mass"]))
def test_doubling_the_data_leaves_the_histogram_alone(seed, scope, binning):
    p, y = twins.random_case(seed, n=45, k=4)
    once = metrics.ece_hist(p, y, scope=scope, binning=binning)
    twice = metrics.ece_hist(np.tile(p, (2, 1)), np.tile(y, 2), scope=scope, binning=binning)
    assert twice == pytest.approx(once, abs=1e-12)


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


# --------------------------------------------------------------------------------------------- kinds of input


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


REFUSALS = [
    (np.array([[2.0, -1.0]]), [0], ValueError, "must not be negative, got -1 at row 0, column 1; if these are logits"),
    (np.array([[3.0, 1.0]]), [0], ValueError, "rows that sum to 1, but row 0 sums to 4; if these are logits"),
    (np.array([[0.5, 0.5], [np.nan, 1.0]]), [0, 1], ValueError, "must be finite, but 1 rows .* the first is row 1"),
    (np.array([[0.5, np.inf]]), [0], ValueError, "must be finite"),
    (np.array([0.2, 0.8]), [0, 1], ValueError, r"torch.stack\(\[1 - s, s\], dim=-1\)"),
    (np.array([[0.2], [0.8]]), [0, 1], ValueError, r"torch.stack\(\[1 - s, s\], dim=-1\)"),
    (np.ones((2, 2, 2)) / 2, [0, 1], ValueError, "flatten pixels or tokens first"),
    (np.ones((0, 3)), np.zeros(0, int), ValueError, "must hold at least 1 sample, got 0"),
    (np.ones((2, 2)) / 2, [0], ValueError, "as many as the samples: got 1 for 2 samples"),
    (np.ones((2, 2)) / 2, [0, 2], ValueError, "below the number of classes, 2, got 2; do the labels start at 1"),
    (np.ones((2, 2)) / 2, [0, -1], ValueError, "must be at least 0, got -1"),
    (np.ones((2, 2)) / 2, [0.0, 1.0], TypeError, "must be integers"),
    (np.ones((2, 2)) / 2, np.eye(2, dtype=int), ValueError, r"one-hot rows become classes with argmax\(1\)"),
    (np.array([["a", "b"]]), [0], TypeError, "must hold numbers"),
]


@pytest.mark.parametrize(("p", "y", "error", "words"), REFUSALS)
def test_bad_input_gets_one_sentence(p, y, error, words):
    for metric in ERRORS:
        with pytest.raises(error, match=words) as caught:
            metric(p, y)
        assert "\n" not in str(caught.value)


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


def test_a_bandwidth_from_hits_without_spread_is_refused():
    p = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])
    with pytest.raises(ValueError, match="'mix-n-match' is the spread of the hits' scores, but these have none"):
        metrics.ece_kde(p, [1, 1, 1, 1], bandwidth="mix-n-match")
    total = metrics.Accumulator({"kde": ("ece_kde", {"bandwidth": "mix-n-match"})})
    total.update(p, [1, 1, 1, 1])
    with pytest.raises(ValueError, match="these have none"):
        total.compute()


@pytest.mark.parametrize("k", [2, 3, 7, 1000])
def test_a_stream_of_equal_scores_has_no_bandwidth_to_speak_of(k):
    p, y = torch.full((50, k), 1 / k, dtype=torch.float64), torch.arange(50) % k
    total = metrics.Accumulator(["ece_kde"])
    total.update(p[:20], y[:20])
    total.update(p[20:], y[20:])
    assert total.compute()["ece_kde"] == pytest.approx(metrics.ece_kde(p, y), abs=1e-9)


def test_fpr_counts_the_known_at_exactly_95_percent():
    known = np.arange(20) / 20  # 95 % are at or above 0.05
    assert metrics.fpr_at_95(known, np.array([0.0, 0.05, 0.04, 0.2])) == 0.5


def test_rows_may_miss_1_by_rounding_only():
    p = torch.tensor([[0.9, 0.1005], [0.5, 0.5]])
    metrics.ece_hist(p, [0, 1])
    with pytest.raises(ValueError, match="row 0 sums to 1.01"):
        metrics.ece_hist(torch.tensor([[0.9, 0.11], [0.5, 0.5]]), [0, 1])


def test_options_of_the_wrong_kind():
    p, y = torch.full((4, 2), 0.5), [0, 1, 0, 1]
    with pytest.raises(TypeError, match="`confidence` must be a number, got '0.95'"):
        metrics.ece_hist(p, y, confidence="0.95")
    with pytest.raises(TypeError, match=r"`bandwidth` must be a number, got \[0.1\]"):
        metrics.ece_kde(p, y, bandwidth=[0.1])
