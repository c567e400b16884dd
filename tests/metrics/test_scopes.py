"""Which scores count, and what is refused."""

import numpy as np
import pytest
import torch

import metrics_twins as twins
from softkin import metrics
from softkin.predictions import Assumption

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


REFUSALS = [
    (np.array([[2.0, -1.0]]), [0], ValueError, "must not be negative, got -1 at row 0, column 1; if these are logits"),
    (np.array([[3.0, 1.0]]), [0], ValueError, "rows that sum to 1, but row 0 sums to 4; if these are logits"),
    (np.array([[0.5, 0.5], [np.nan, 1.0]]), [0, 1], ValueError, "must be finite, but 1 rows .* the first is row 1"),
    (np.array([[0.5, np.inf]]), [0], ValueError, "must be finite"),
    (np.array([0.2, 1.8]), [0, 1], ValueError, "from 0 to 1, a probability for each sample, got 1.8; if .* sigmoid"),
    (np.array([0.2, 0.8]), [0.0, 1.0], TypeError, "booleans for pairs .* or integers for a binary model"),
    (np.array([0.2, 0.8]), [0.3, 1.5], ValueError, "booleans, integers 0 and 1, or shares from 0 to 1"),
    (np.array([0.2, 0.8]), [0, 1, 1], ValueError, r"one for each, got shape \(3,\) for \(2,\) scores"),
    (np.array([0, 1]), [0.3, 0.8], ValueError, "must come first and `labels` second, got them the other way round"),
    (np.ones((2, 2, 2)) / 2, [0, 1], ValueError, r"`labels` must have shape \(2, 2\) .* second dimension, got \(2,\)"),
    (np.ones((0, 3)), np.zeros(0, int), ValueError, "must hold at least 1 sample, got 0"),
    (np.ones((2, 2)) / 2, [0], ValueError, "as many as the samples: got 1 for 2 samples"),
    (np.ones((2, 2)) / 2, [0, 2], ValueError, "below the number of classes, 2, got 2; do the labels start at 1"),
    (np.ones((2, 2)) / 2, [0, -1], ValueError, "must be at least 0, got -1"),
    (np.ones((2, 2)) / 2, [0.5, 1.0], TypeError, "must be integers"),
    (np.ones((2, 2)) / 2, [[1, 0], [0, 0]], ValueError, "at least one vote in each row, but row 1 has none"),
    (np.ones((2, 2)) / 2, [[1, 0], [0, -1]], ValueError, "vote shares or counts, at least 0"),
    (np.ones((2, 2)), [[1, 0], [0, 3]], ValueError, "several labels per sample must be from 0 to 1"),
    (np.ones((2, 2)) / 2, [[1, 0, 0], [0, 1, 0]], ValueError, r"one-hot rows become classes with argmax\(1\)"),
    (np.array([["a", "b"]]), [0], TypeError, "must hold numbers"),
]


@pytest.mark.parametrize(("p", "y", "error", "words"), REFUSALS)
def test_bad_input_gets_one_sentence(p, y, error, words):
    for metric in ERRORS:
        with pytest.raises(error, match=words) as caught:
            metric(p, y)
        assert "\n" not in str(caught.value)


def test_rows_may_miss_1_by_rounding_only():
    p = torch.tensor([[0.9, 0.1005], [0.5, 0.5]])
    metrics.ece_hist(p, [0, 1])
    with pytest.warns(Assumption, match="were rounded: .* row 0, which sums to 1.01"):
        metrics.ece_hist(torch.tensor([[0.9, 0.11], [0.5, 0.5]]), [0, 1])
    with pytest.raises(ValueError, match="row 0 sums to 1.0123"):
        metrics.ece_hist(torch.tensor([[0.912345, 0.1], [0.5, 0.5]]), [0, 1])


# Claims of every shape, against sums over claims one by one


def claimed(scores, outcomes, weights=None):
    """(score, outcome, weight) of every claim."""
    s, o = np.asarray(scores, float), np.asarray(outcomes, float)
    w = np.ones(len(s)) if weights is None else np.asarray(weights, float)
    return list(zip(s.ravel(), o.ravel(), np.repeat(w, s.size // len(s)), strict=True))


def twin_ece(claims, n_bins=15, divide_by=None):
    """Σ_m |Σ_{claims in bin m} w (s − o)| / Σw."""
    bins = {}
    for s, o, w in claims:
        m = next(m for m in range(1, n_bins + 1) if s <= m / n_bins or m == n_bins)
        bins[m] = bins.get(m, 0.0) + w * (s - o)
    return sum(map(abs, bins.values())) / (divide_by or sum(w for _, _, w in claims))


def pairs_case(seed, n=200):
    rng = np.random.default_rng(seed)
    s = rng.random(n).round(3)
    return rng, s, rng.random(n) < s**2


def binary_log_loss(s, o):
    with np.errstate(divide="ignore", invalid="ignore"):
        return -(np.where(o > 0, o * np.log(s), 0) + np.where(o < 1, (1 - o) * np.log(1 - s), 0))


def test_pairs_are_claims_one_by_one():
    rng, s, right = pairs_case(0)
    s = s.clip(0.01, 0.99)
    claims = claimed(s, right)
    assert metrics.ece_hist(s, right) == pytest.approx(twin_ece(claims), abs=1e-12)
    assert metrics.accuracy(s, right) == pytest.approx(right.mean(), abs=1e-12)
    assert metrics.signed_gap(s, right) == pytest.approx(s.mean() - right.mean(), abs=1e-12)
    assert metrics.brier(s, right) == pytest.approx(((s - right) ** 2).mean(), abs=1e-12)
    assert metrics.nll(s, right) == pytest.approx(binary_log_loss(s, right).mean(), abs=1e-12)
    area = np.mean([(a > b) + (a == b) / 2 for a in s[right] for b in s[~right]])
    assert metrics.confidence_auroc(s, right) == pytest.approx(area, abs=1e-12)
    order = [rng.permutation(200) for _ in range(20)]
    for rows in order[:2]:
        assert metrics.aurc(s[rows], right[rows]) == pytest.approx(metrics.aurc(s, right), abs=1e-12)


def test_pairs_are_the_winning_scores_of_classes():
    p, y = twins.random_case(3, n=300)
    s, right = p.max(1), p.argmax(1) == y
    for name in ("ece_hist", "ece_kde", "smooth_ece", "mce", "debiased_ece", "signed_gap", "accuracy", "aurc"):
        ours, theirs = (getattr(metrics, name)(*data, confidence=0.9, resamples=200) for data in ((s, right), (p, y)))
        for part in ("value", "low", "high"):
            assert getattr(ours, part) == pytest.approx(getattr(theirs, part), abs=1e-9), (name, part)


@pytest.mark.parametrize("name", ["classwise_ece", "top_k_accuracy", "auc"])
def test_what_pairs_cannot_tell_is_said(name):
    _, s, right = pairs_case(1)
    with pytest.raises(ValueError, match=f"`{name}` has no meaning here: it needs .*pairs"):
        getattr(metrics, name)(s, right)
    with pytest.raises(ValueError, match="pairs have one score per row"):
        metrics.ece_hist(s, right, scope="output")


@pytest.mark.parametrize("shape", [(200,), (200, 1)])
def test_a_binary_model_is_two_columns(shape):
    _, s, right = pairs_case(2)
    y = right.astype(int)
    two = np.stack([1 - s, s], axis=1)
    for name in ("ece_hist", "ece_kde", "nll", "brier", "accuracy", "classwise_ece", "aurc", "auc", "debiased_ece"):
        function = getattr(metrics, name)
        assert function(s.reshape(shape), y.reshape(shape)) == function(two, y), name
    area = np.mean([(a > b) + (a == b) / 2 for a in s[right] for b in s[~right]])
    assert metrics.auc(s, y) == pytest.approx(area, abs=1e-12)


def soft_case(seed, n=150, k=4):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(k), n)
    return rng, p, rng.multinomial(5, rng.dirichlet(np.ones(k))[None].repeat(n, 0) * 0.5 + p * 0.5)


def test_soft_labels_are_shares_of_votes():
    _, p, votes = soft_case(4)
    q = votes / votes.sum(1, keepdims=True)
    top = p.argmax(1)
    rows = np.arange(len(p))
    for labels in (votes, q):
        assert metrics.nll(p, labels) == pytest.approx(-(q * np.log(p)).sum(1).mean(), abs=1e-12)
        assert metrics.brier(p, labels) == pytest.approx(((p - q) ** 2).sum(1).mean(), abs=1e-12)
        assert metrics.accuracy(p, labels) == pytest.approx(q[rows, top].mean(), abs=1e-12)
        assert metrics.ece_hist(p, labels) == pytest.approx(twin_ece(claimed(p[rows, top], q[rows, top])), abs=1e-12)
        output = twin_ece(claimed(p, q), divide_by=len(p))
        assert metrics.ece_hist(p, labels, scope="output") == pytest.approx(output, abs=1e-12)
        classwise = np.mean([twin_ece(claimed(p[:, k], q[:, k])) for k in range(4)])
        assert metrics.classwise_ece(p, labels) == pytest.approx(classwise, abs=1e-12)
        among = np.take_along_axis(q, np.argsort(-p, axis=1)[:, :2], axis=1).sum(1).mean()
        assert metrics.top_k_accuracy(p, labels, k=2) == pytest.approx(among, abs=1e-12)


@pytest.mark.parametrize("name", ["ece_hist", "ece_kde", "smooth_ece", "classwise_ece", "nll", "brier", "aurc", "mce"])
def test_one_hot_labels_are_classes(name):
    p, y = twins.random_case(5, n=80)
    function = getattr(metrics, name)
    assert function(p, np.eye(5)[y]) == function(p, y)


@pytest.mark.parametrize("name", ["ece_hist", "ece_kde", "smooth_ece", "nll", "accuracy", "classwise_ece"])
def test_soft_labels_are_weighted_rows_of_each_class(name):
    """Every metric that is linear in the labels, or a function of such sums, splits a row into one for each class."""
    _, p, votes = soft_case(6)
    rows, y = votes.nonzero()
    weights = (votes / votes.sum(1, keepdims=True))[rows, y]
    options = {"bandwidth": 0.1} if name == "ece_kde" else {}
    function = getattr(metrics, name)
    split = function(p[rows], y, sample_weight=weights, **options)
    assert function(p, votes, **options) == pytest.approx(split, rel=1e-6)


def many_case(seed, n=120, columns=6):
    rng = np.random.default_rng(seed)
    s = rng.random((n, columns))
    return rng, s, (rng.random((n, columns)) < s**1.5).astype(int)


def test_several_labels_are_claims_each_for_itself():
    _, s, o = many_case(7)
    assert metrics.ece_hist(s, o) == pytest.approx(twin_ece(claimed(s, o)), abs=1e-12)  # micro
    macro = np.mean([twin_ece(claimed(s[:, k], o[:, k])) for k in range(6)])
    assert metrics.classwise_ece(s, o) == pytest.approx(macro, abs=1e-12)
    assert metrics.brier(s, o) == pytest.approx(((s - o) ** 2).mean(), abs=1e-12)
    assert metrics.nll(s, o) == pytest.approx(binary_log_loss(s, o).mean(), abs=1e-12)
    assert metrics.signed_gap(s, o) == pytest.approx((s - o).mean(), abs=1e-12)
    with pytest.raises(ValueError, match="no label of several wins"):
        metrics.accuracy(s, o)


def test_rounded_rows_with_votes_are_no_labels_each_for_itself():
    rng, p, votes = soft_case(18)
    rounded = p.round(2)
    with pytest.warns(Assumption, match="were rounded"):
        assert metrics.nll(rounded.clip(0.01), votes) == pytest.approx(metrics.nll(p, votes), rel=0.05)
    scores = rng.random((20, 4))
    with pytest.raises(ValueError, match="every row of `labels` has one class, but rows of `probabilities` do not sum"):
        metrics.ece_hist(scores, np.eye(4)[rng.integers(0, 4, 20)])


def test_pixels_are_rows():
    rng = np.random.default_rng(8)
    p = rng.dirichlet(np.ones(5), (3, 4, 6)).transpose(0, 3, 1, 2).astype(np.float32)
    y = rng.integers(0, 5, (3, 4, 6))
    flat, labels = p.transpose(0, 2, 3, 1).reshape(-1, 5), y.reshape(-1)
    y[0, :2] = 255
    kept = labels != 255
    for name in ("ece_hist", "nll", "accuracy", "classwise_ece", "ece_kde", "aurc", "top_k_accuracy"):
        function = getattr(metrics, name)
        assert function(p, y, ignore_index=255) == function(flat[kept], labels[kept]), name
    assert metrics.accuracy(p[1:], y[1:]) == metrics.accuracy(flat[24:], labels[24:])
    with pytest.raises(ValueError, match="every label is 255"):
        metrics.nll(p, np.full_like(y, 255), ignore_index=255)


def test_intervals_of_pixels_resample_images():
    """Pixels of one image are all right or all wrong here: 40 images say no more than 40 rows."""
    rng = np.random.default_rng(9)
    right = rng.random(40) < 0.7
    y = np.where(right, 0, 1)[:, None].repeat(100, 1)
    p = np.zeros((40, 2, 100)) + np.array([0.8, 0.2])[:, None]
    whole, one = (metrics.accuracy(p[..., :m], y[:, :m], confidence=0.95) for m in (100, 1))
    assert whole.high - whole.low == pytest.approx(one.high - one.low, rel=0.3)
    rows = metrics.accuracy(p.transpose(0, 2, 1).reshape(-1, 2), y.reshape(-1), confidence=0.95)
    assert rows.high - rows.low < 0.2 * (whole.high - whole.low)
    assert metrics.ece_hist(p, y, confidence=0.95).low < whole.value < 1


WEIGHTED = ("ece_hist", "ece_kde", "smooth_ece", "mce", "classwise_ece", "signed_gap", "nll", "brier", "accuracy")


@pytest.mark.parametrize("name", WEIGHTED)
def test_a_weight_of_two_is_a_row_twice(name):
    p, y = twins.random_case(10, n=90)
    rng = np.random.default_rng(10)
    w = rng.integers(0, 4, 90)
    function, options = getattr(metrics, name), {"bandwidth": 0.1} if name == "ece_kde" else {}
    twice = function(p.repeat(w, axis=0), y.repeat(w), **options)
    assert function(p, y, sample_weight=w, **options) == pytest.approx(twice, rel=1e-9)
    assert function(p, y, sample_weight=7.5 * w, **options) == pytest.approx(twice, rel=1e-9)
    s, right = p.max(1), p.argmax(1) == y
    if name != "classwise_ece":
        of_pairs = function(s.repeat(w), right.repeat(w), **options)
        assert function(s, right, sample_weight=w, **options) == pytest.approx(of_pairs, rel=1e-9)


@pytest.mark.parametrize("name", [*WEIGHTED, "confidence_auroc"])
def test_equal_weights_change_nothing(name):
    p, y = twins.random_case(11, n=150)
    function = getattr(metrics, name)
    plain = function(p, y, confidence=0.9, resamples=200)
    weighted = function(p, y, confidence=0.9, resamples=200, sample_weight=np.full(150, 3.0))
    for part in ("value", "low", "high"):
        assert getattr(weighted, part) == pytest.approx(getattr(plain, part), rel=1e-4, abs=1e-6), part


def test_weights_agree_with_scikit_learn():
    from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, roc_auc_score

    rng, s, right = pairs_case(12, n=400)
    s, w, y = s.clip(0.01, 0.99), rng.exponential(size=400), right.astype(int)
    assert metrics.auc(s, y, sample_weight=w) == pytest.approx(roc_auc_score(y, s, sample_weight=w), abs=1e-12)
    assert metrics.confidence_auroc(s, right, sample_weight=w) == metrics.auc(s, y, sample_weight=w)
    assert metrics.nll(s, y, sample_weight=w) == pytest.approx(log_loss(y, s, sample_weight=w), abs=1e-12)
    theirs = brier_score_loss(y, s, sample_weight=w)
    assert metrics.brier(s, y, sample_weight=w) == pytest.approx(2 * theirs, abs=1e-12)
    assert metrics.brier(s, right, sample_weight=w) == pytest.approx(theirs, abs=1e-12)
    expected = accuracy_score(y, s > 0.5, sample_weight=w)
    assert metrics.accuracy(s, y, sample_weight=w) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("weights", [np.ones(3), -np.ones(200), np.zeros(200), np.full(200, np.nan)])
def test_bad_weights_get_one_sentence(weights):
    _, s, right = pairs_case(13)
    with pytest.raises(ValueError, match=r"`sample_weight` must .*\.$"):
        metrics.ece_hist(s, right, sample_weight=weights)


def test_weights_that_say_nothing_change_nothing():
    p, y = twins.random_case(14, n=50)
    assert metrics.debiased_ece(p, y, sample_weight=np.full(50, 3.0)) == pytest.approx(metrics.debiased_ece(p, y))
    w = np.arange(50)
    severity = metrics.mistake_severity(p, y, 1 - np.eye(5), sample_weight=w)
    assert severity == pytest.approx(1)


@pytest.mark.slow
def test_intervals_of_weights_and_votes_hold_the_truth():
    """100 draws each: 400 pairs weighted to uniform confidences, and 300 rows with five votes."""
    rng = np.random.default_rng(15)
    grid = np.linspace(0, 1, 100_001)
    off = grid - grid**1.3
    pieces = [off[(grid > m / 15) & (grid <= (m + 1) / 15)].mean() for m in range(15)]
    p = rng.dirichlet(np.ones(4), 200_000)
    q = p**0.6 / (p**0.6).sum(1, keepdims=True)
    rows, top = np.arange(len(p)), p.argmax(1)
    truths = {"gap": off.mean(), "ece": np.abs(pieces).mean(), "votes": (p[rows, top] - q[rows, top]).mean()}
    held = dict.fromkeys(truths, 0)
    for _ in range(100):
        s = rng.beta(2, 1, 400)
        pairs = s, rng.random(400) < s**1.3
        few = rng.dirichlet(np.ones(4), 300)
        votes = np.array([rng.multinomial(5, row) for row in few**0.6 / (few**0.6).sum(1, keepdims=True)])
        found = {
            "gap": metrics.signed_gap(*pairs, sample_weight=1 / s, confidence=0.95),
            "ece": metrics.ece_hist(*pairs, sample_weight=1 / s, confidence=0.95, resamples=200),
            "votes": metrics.ece_hist(few, votes, confidence=0.95, resamples=200),
        }
        for name, interval in found.items():
            held[name] += interval.low <= truths[name] <= interval.high
    assert min(held.values()) >= 87, held


def test_weights_of_pixels_and_of_images():
    rng = np.random.default_rng(16)
    p = rng.dirichlet(np.ones(3), (4, 5)).transpose(0, 2, 1)
    y, w = rng.integers(0, 3, (4, 5)), rng.random((4, 5))
    flat = p.transpose(0, 2, 1).reshape(-1, 3)
    by_pixel = metrics.nll(flat, y.reshape(-1), sample_weight=w.reshape(-1))
    assert metrics.nll(p, y, sample_weight=w) == pytest.approx(by_pixel)
    by_image = metrics.nll(flat, y.reshape(-1), sample_weight=w[:, 0].repeat(5))
    assert metrics.nll(p, y, sample_weight=w[:, 0]) == pytest.approx(by_image)
    y[0, :2] = 9
    kept = y.reshape(-1) != 9
    some = metrics.nll(flat[kept], y.reshape(-1)[kept], sample_weight=w.reshape(-1)[kept])
    assert metrics.nll(p, y, sample_weight=w, ignore_index=9) == pytest.approx(some)
    with pytest.raises(ValueError, match=r"`sample_weight` must have shape \(4,\) or \(4, 5\), got \(5,\)"):
        metrics.nll(p, y, sample_weight=np.ones(5), ignore_index=9)


def test_a_stream_sums_weights_pixels_and_pairs():
    """The totals of batches give the metric of all rows, on one scale of weights."""
    rng, s, right = pairs_case(17)
    w = rng.exponential(size=200)
    names = ["accuracy", "nll", "brier", "ece_hist", "smooth_ece", "signed_gap", "ece_kde"]
    total = metrics.Accumulator(names)
    s = s.clip(0.01, 0.99)
    for rows in np.array_split(np.arange(200), 7):
        total.update(s[rows], right[rows], sample_weight=w[rows])
    for name, value in total.compute().items():
        assert value == pytest.approx(getattr(metrics, name)(s, right, sample_weight=w), rel=1e-5), name
    p = rng.dirichlet(np.ones(4), (6, 8)).transpose(0, 2, 1)
    y = rng.integers(0, 4, (6, 8))
    y[2:4] = 255
    total = metrics.Accumulator(["nll", "ece_hist", "classwise_ece"])
    for rows in (slice(0, 2), slice(2, 4), slice(4, 6)):
        total.update(p[rows], y[rows], ignore_index=255)
    for name, value in total.compute().items():
        assert value == pytest.approx(getattr(metrics, name)(p, y, ignore_index=255), rel=1e-9), name
    with pytest.raises(ValueError, match="all batches must"):
        total.update(s, right)
