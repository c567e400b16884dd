"""Presets against the behaviour of their sources, restated from their description."""

import itertools

import numpy as np
import pytest
import torch
from scipy.integrate import trapezoid

import metrics_twins as twins
from softkin import metrics
from softkin.metrics import conventions


def edge_case(n=600, k=4):
    """Confidences on edges of 10 and 15 bins, exactly 1 among them."""
    rng = np.random.default_rng(0)
    values = np.array([0.4, 0.5, 0.6, 2 / 3, 0.7, 0.8, 14 / 15, 0.9, 1.0, 0.55])
    place = rng.integers(0, len(values), n)
    confidence = values[place]
    p = np.repeat((1 - confidence)[:, None] / (k - 1), k, axis=1)
    winner = rng.integers(0, k, n)
    p[np.arange(n), winner] = confidence
    hit = rng.random(n) < np.where(place % 2, 0.95, 0.2)  # neighbours err in opposite ways, so their bin matters
    labels = np.where(hit, winner, (winner + 1) % k)
    return p, labels


def test_guo_compares_in_float32():
    p, y = edge_case()
    confidence = torch.from_numpy(p).float().max(1).values
    right = torch.from_numpy(p.argmax(1) == y)
    edges = torch.linspace(0, 1, 16)
    expected = 0.0
    for low, high in itertools.pairwise(edges):
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            gap = confidence[inside].double().mean() - right[inside].double().mean()
            expected += float(gap.abs() * inside.double().mean())
    ours = metrics.ece_hist(p.astype(np.float32), y, convention="guo2017")
    assert ours == pytest.approx(expected, abs=1e-9)
    assert ours != pytest.approx(metrics.ece_hist(p.astype(np.float32), y), abs=1e-4)  # edges are where they part


def test_kull_pools_all_scores_and_sums_over_classes():
    p, y = edge_case()
    pairs = twins.pooled(p, y, "output")
    assert metrics.ece_hist(p, y, scope="output", convention="kull2019") == pytest.approx(
        twins.ece(pairs, len(pairs)), rel=1e-12
    )
    total = 0.0
    for k in range(p.shape[1]):
        index = np.digitize(p[:, k], np.linspace(0, 1, 15))
        for m in set(index):
            here = index == m
            total += here.mean() * abs(p[here, k].mean() - (y[here] == k).mean())
    assert metrics.classwise_ece(p, y, convention="kull2019") == pytest.approx(total, rel=1e-12)


def mix_n_match_hist(p, y):
    """Equal mass: edges at every ⌊N/15⌋-th score, in float32, (lo, hi], the last forced to 1."""
    if p.shape[1] == 2:
        score, hit = p[:, 1].astype(np.float32), y == 1
    else:
        score, hit = p.max(1).astype(np.float32), p.argmax(1) == y
    ordered = np.sort(score)
    step = len(score) // 15
    edges = [np.float32(0)] + [ordered[min((i + 1) * step, len(score) - 1)] for i in range(14)] + [np.float32(1)]
    total = 0.0
    for low, high in itertools.pairwise(edges):
        inside = (score > low) & (score <= high)
        if inside.any():
            total += inside.mean() * abs(score[inside].astype(float).mean() - hit[inside].mean())
    return total


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("n", [200, 1003])
def test_mix_n_match_histogram(n, k):
    p, y = twins.random_case(n, n=n, k=k)
    assert metrics.ece_hist(p, y, convention="mix-n-match") == pytest.approx(mix_n_match_hist(p, y), abs=1e-6)


def mix_n_match_kde(p, y):
    """The published estimator on its own grid; kernel sums written out, radius three times the bandwidth."""
    if p.shape[1] == 2:
        score, hit = p[:, 1], y == 1
    else:
        score, hit = p.max(1), p.argmax(1) == y
    h = np.std(score[hit]) * (2 * len(score)) ** -0.2
    x = np.linspace(-0.6, 1.6, 2**14)

    def density(points):
        mirrored = np.concatenate([-points[points < 0.5], points, 2 - points[points >= 0.5]])
        total = np.zeros_like(x)
        for point in mirrored:
            total += twins.triweight((x - point) / (3 * h)) / (3 * h)
        total *= 2 / len(mirrored)
        total[(x <= 0) | (x >= 1)] = 0
        return total

    of_hits, of_all = density(score[hit]), density(score)
    integrand = np.zeros_like(x)
    for i in range(len(x)):
        if max(of_hits[i], of_all[i]) > 1e-6:
            integrand[i] = abs(x[i] - min(hit.mean() * of_hits[i] / of_all[i], 1)) * of_all[i]
        elif i > 1:
            integrand[i] = integrand[i - 1]
    inside = (x >= 0) & (x <= 1)
    return trapezoid(integrand[inside], x[inside]) / trapezoid(of_all[inside], x[inside])


@pytest.mark.parametrize("k", [2, 5])
def test_mix_n_match_kde(k):
    p, y = twins.random_case(20 + k, n=400, k=k)
    # Its grid of 1.3e-4 and its cut at the ends leave a few 1e-5.
    assert metrics.ece_kde(p, y, convention="mix-n-match") == pytest.approx(mix_n_match_kde(p, y), abs=1e-4)


def test_mix_n_match_mirrors_each_score_once():
    # Three scores: a kernel that reaches across all of [0, 1], where mirroring at both ends would differ.
    p, y = np.array([[0.9, 0.1], [0.1, 0.9], [0.45, 0.55]]), np.array([1, 1, 1])
    assert 3 * np.std(p[:, 1]) * 6**-0.2 > 0.5
    assert metrics.ece_kde(p, y, convention="mix-n-match") == pytest.approx(mix_n_match_kde(p, y), abs=1e-3)


def test_its_bandwidth_alone_changes_only_the_bandwidth():
    p, y = twins.random_case(30, n=300, k=2)
    hit = p.argmax(1) == y
    h = np.std(p.max(1)[hit]) * 600**-0.2
    assert metrics.ece_kde(p, y, bandwidth="mix-n-match") == pytest.approx(metrics.ece_kde(p, y, bandwidth=h), rel=1e-9)


def test_paper_is_the_default_and_leaves_the_boundary_open():
    p, y = twins.random_case(31)
    for scope in ("prediction", "output"):
        assert metrics.ece_hist(p, y, scope=scope, convention="paper") == metrics.ece_hist(p, y, scope=scope)
        for boundary in ("reflect", "none"):
            preset = metrics.ece_kde(p, y, scope=scope, boundary=boundary, convention="paper")
            assert preset == metrics.ece_kde(p, y, scope=scope, boundary=boundary)


def test_the_papers_tables_cannot_be_its_equation():
    # Each row's scores and hits both sum to 1, so Σ |lik − conf| is at most 2 a sample, and 2/K divided by N·K.
    p = np.eye(100)[np.arange(500) % 100]
    y = (np.arange(500) + 1) % 100
    assert metrics.ece_hist(p, y, scope="output", per="sample") == pytest.approx(2)
    assert metrics.ece_hist(p, y, scope="output", per="score") == pytest.approx(2 / 100)


def test_conflicts_are_refused_and_the_number_of_bins_is_free():
    p, y = twins.random_case(32)
    for options, words in (
        ({"convention": "guo2017", "scope": "output"}, "'guo2017' means scope='prediction', got scope='output'"),
        ({"convention": "kull2019", "per": "sample"}, "'kull2019' means per='score', got per='sample'"),
        ({"convention": "mix-n-match", "binning": "width"}, "means binning='mass'"),
        ({"convention": "guo2016"}, "`convention` must be one of 'paper', 'guo2017', .*, got 'guo2016'"),
    ):
        with pytest.raises(ValueError, match=words):
            metrics.ece_hist(p, y, **options)
    with pytest.raises(ValueError, match="'netcal' says nothing about `ece_kde`; it covers ece_hist"):
        metrics.ece_kde(p, y, convention="netcal")
    assert metrics.ece_hist(p, y, convention="netcal", n_bins=15) != metrics.ece_hist(p, y, convention="netcal")


def test_mce_takes_a_conventions_bins():
    p, y = twins.random_case(33, n=1000)
    for name in ("paper", "kull2019"):
        for scope in ("prediction", "output"):
            assert metrics.mce(p, y, scope=scope, convention=name) == metrics.mce(p, y, scope=scope)
    p32 = p.astype(np.float32)
    assert metrics.mce(p32, y, convention="guo2017") == pytest.approx(metrics.mce(p32, y), abs=1e-6)
    assert metrics.mce(p, y, convention="mix-n-match") == pytest.approx(metrics.mce(p, y, binning="mass"), abs=0.02)
    assert metrics.interval(p, y, "mce", convention="guo2017", resamples=100) == metrics.mce(p, y, convention="guo2017")
    with pytest.raises(ValueError, match="'guo2017' means scope='prediction'"):
        metrics.mce(p, y, convention="guo2017", scope="output")
    total = metrics.Accumulator({"x": ("mce", {"convention": "guo2017"})})
    total.update(p, y)
    assert total.compute()["x"] == pytest.approx(metrics.mce(p, y, convention="guo2017"), abs=1e-12)


def test_every_preset_is_described():
    for name in conventions.CONVENTIONS:
        assert f'``"{name}"``' in conventions.__doc__
