"""Metrics that know which classes are alike."""

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import metrics_twins as twins
from softkin import metrics, similarity


def test_superclass_sums_probabilities():
    p, y = twins.random_case(0, n=100, k=6)
    groups = np.array([0, 1, 0, 2, 1, 2])
    grouped, labels = metrics.superclass(p, y, groups)
    expected = np.stack([p[:, groups == g].sum(1) for g in range(3)], axis=1)
    np.testing.assert_allclose(grouped.numpy(), expected, rtol=1e-14)
    assert labels.tolist() == groups[y].tolist()
    assert metrics.superclass_ece(p, y, groups, scope="output", n_bins=10) == metrics.ece_hist(
        expected, groups[y], scope="output", n_bins=10
    )
    assert metrics.superclass_ece(p, y, groups, confidence=0.9, resamples=100).level == 0.9


def test_bad_groups_are_refused():
    p, y = twins.random_case(0, n=10, k=3)
    with pytest.raises(ValueError, match="as many as the samples: got 2 for 3"):
        metrics.superclass(p, y, np.array([0, 1]))
    with pytest.raises(ValueError, match="every super-class from 0 to 2, but 1 has no class"):
        metrics.superclass(p, y, np.array([0, 2, 2]))
    with pytest.raises(ValueError, match="at least 2 super-classes"):
        metrics.superclass(p, y, np.array([0, 0, 0]))


def test_neighbourhood_mass_equals_brute_force():
    p, y = twins.random_case(1, n=80, k=7)
    vectors = torch.randn(7, 3, generator=torch.Generator().manual_seed(0))
    s = similarity.from_vectors(vectors)
    own, around = [], []
    for row, label in zip(p, y, strict=True):
        near = [k for k in torch.argsort(s[label], descending=True).tolist() if k != label][:2]
        own.append(row[label])
        around.append(row[near].sum())
    own, around = np.array(own), np.array(around)
    assert metrics.neighbourhood_mass(p, y, s, k=2) == pytest.approx((own + around).mean(), rel=1e-12)
    rest = metrics.neighbourhood_mass(p, y, s, k=2, of="rest")
    assert rest == pytest.approx(around.sum() / (1 - own).sum(), rel=1e-9)
    sparse = similarity.from_vectors(vectors, top_m=4)
    assert metrics.neighbourhood_mass(p, y, sparse, k=2) == pytest.approx((own + around).mean(), rel=1e-12)
    assert metrics.neighbourhood_mass(p, y, s, k=6) == pytest.approx(1, rel=1e-12)
    with_itself = s + 2 * torch.eye(7)  # a class is no neighbour of its own, however similar
    assert metrics.neighbourhood_mass(p, y, with_itself, k=2) == pytest.approx((own + around).mean(), rel=1e-12)
    interval = metrics.neighbourhood_mass(p, y, s, k=2, of="rest", confidence=0.95, resamples=200)
    assert interval.low < rest < interval.high


def test_neighbourhoods_must_fit():
    p, y = twins.random_case(1, n=10, k=4)
    s = similarity.from_vectors(torch.eye(4))
    with pytest.raises(ValueError, match="`k` must be below the number of classes, 4, got 4"):
        metrics.neighbourhood_mass(p, y, s, k=4)
    with pytest.raises(ValueError, match="covers 5 classes but the probabilities 4"):
        metrics.neighbourhood_mass(p, y, torch.ones(5, 5), k=2)
    with pytest.raises(ValueError, match="at most the 1 classes that the similarity keeps"):
        metrics.neighbourhood_mass(p, y, similarity.from_vectors(torch.eye(4), top_m=1), k=2)
    with pytest.raises(ValueError, match="`of` must be 'all' or 'rest'"):
        metrics.neighbourhood_mass(p, y, s, k=2, of="others")


def test_severity_of_mistakes():
    p, y = twins.random_case(2, n=200, k=5)
    d = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))
    winner = p.argmax(1)
    wrong = winner != y
    distance = d[y, winner]
    assert metrics.mistake_severity(p, y, d) == pytest.approx(distance[wrong].mean(), rel=1e-12)
    curve = metrics.severity_curve(p, y, d, n_bins=10)
    assert float(curve.count.sum()) == wrong.sum()
    assert float(curve.distance_sum.sum()) == pytest.approx(distance[wrong].sum())
    index = np.array([twins.bin_of(s, 10) for s in p.max(1)])
    for m in range(10):
        here = wrong & (index == m)
        expected = distance[here].mean() if here.any() else np.nan
        assert float(curve.severity[m]) == pytest.approx(expected, nan_ok=True)
    assert curve.correlation == pytest.approx(spearmanr(p.max(1)[wrong], distance[wrong]).statistic, rel=1e-9)


def test_without_mistakes_there_is_no_severity():
    p, y = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 1])
    d = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert np.isnan(metrics.mistake_severity(p, y, d))
    assert np.isnan(metrics.severity_curve(p, y, d).correlation)
    with pytest.raises(ValueError, match="cover 3 classes but the probabilities 2"):
        metrics.mistake_severity(p, y, np.ones((3, 3)))


def test_the_band_of_the_severity_curve_resamples_rows():
    p, y = twins.random_case(3, n=400, k=5)
    d = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))
    curve = metrics.severity_curve(p, y, d, n_bins=5, confidence=0.9, resamples=300, seed=4)
    plain = metrics.severity_curve(p, y, d, n_bins=5)
    assert plain.low is plain.high is None
    assert curve.correlation == plain.correlation
    assert torch.equal(curve.severity.nan_to_num(-1), plain.severity.nan_to_num(-1))
    # The same resamples, one after the other.
    rng = np.random.default_rng(4)
    correlations, severities = [], []
    for _ in range(300):
        rows = rng.integers(0, 400, 400)
        points = metrics.severity_curve(p[rows], y[rows], d, n_bins=5)
        correlations.append(points.correlation)
        severities.append(points.severity.numpy())
    ends = np.nanquantile(correlations, [0.05, 0.95])
    assert (curve.correlation.low, curve.correlation.high) == pytest.approx(tuple(ends), abs=0.01)
    assert (curve.count > 50).any()
    for m in (curve.count > 0).nonzero()[:, 0].tolist():
        low, high = np.nanquantile([line[m] for line in severities], [0.05, 0.95])
        severity, rare = float(curve.severity[m]), 1 - 0.05 ** (1 / float(curve.count[m]))
        assert float(curve.low[m]) == pytest.approx(min(low, severity - rare * (severity - 1)))
        assert float(curve.high[m]) == pytest.approx(max(high, severity + rare * (4 - severity)))
    assert curve.low[0].isnan()


def test_a_single_mistake_says_nearly_nothing_of_its_bin():
    p, y = np.array([[0.9, 0.05, 0.05], [0.9, 0.05, 0.05]]), np.array([0, 1])
    d = np.array([[0.0, 2.0, 5.0], [2.0, 0.0, 1.0], [5.0, 1.0, 0.0]])
    curve = metrics.severity_curve(p, y, d, n_bins=2, confidence=0.95, resamples=100)
    assert float(curve.low[1]) == pytest.approx(2 - 0.975)
    assert float(curve.high[1]) == pytest.approx(2 + 0.975 * 3)
    assert np.isnan(curve.correlation)


def test_one_mistake_determines_nearly_nothing():
    """Of n mistakes the interval reaches 1 − .025^(1/n) of the way to the nearest and the farthest class."""
    distances = np.array([[0, 1.0, 4.0], [1, 0, 2.0], [4, 2, 0]])
    p = np.array([[0.8, 0.1, 0.1]] * 30 + [[0.1, 0.8, 0.1]])
    interval = metrics.mistake_severity(p, [0] * 30 + [2], distances, confidence=0.95)
    assert (interval.value, interval.low) == (2, pytest.approx(2 - 0.975 * 1))
    assert interval.high == pytest.approx(2 + 0.975 * 2)
    values = [1.0, 4.0, 1.0, 2.0, 4.0]
    pairs = {1.0: (0, 1), 4.0: (0, 2), 2.0: (1, 2)}
    rows = np.full((5, 3), 0.1)
    for row, value in zip(rows, values, strict=True):
        row[pairs[value][1]] = 0.8
    labels = [pairs[value][0] for value in values]
    interval = metrics.mistake_severity(rows, labels, distances, confidence=0.95)
    half = 2.776445 * np.std(values, ddof=1) / 5**0.5
    rare = 1 - 0.025 ** (1 / 5)
    assert interval.low == pytest.approx(max(1, min(2.4 - half, 2.4 - rare * 1.4)))
    assert interval.high == pytest.approx(min(4, max(2.4 + half, 2.4 + rare * 1.6)))


def test_what_stands_on_the_diagonal_does_not_count():
    """Three of four rows are right: a distance of a class from itself is no part of a mistake's."""
    p, y = np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.6, 0.4]]), np.array([0, 1, 0, 1])
    assert metrics.mistake_severity(p, y, np.array([[5.0, 2.0], [3.0, 7.0]])) == 3
