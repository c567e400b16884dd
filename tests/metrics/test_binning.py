"""Bins: which one a score falls in, and the sums."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import metrics_twins as twins
from softkin.metrics import binning


@pytest.mark.parametrize("m", [1, 2, 3, 7, 10, 15, 49, 100, 1000])
def test_every_edge_and_its_neighbours_are_compared_exactly(m):
    edges = torch.arange(m + 1, dtype=torch.float64) / m
    scores = torch.cat([edges, torch.nextafter(edges, edges - 1), torch.nextafter(edges, edges + 1)]).clamp(0, 1)
    expected = torch.searchsorted(edges[1:-1].contiguous(), scores)
    assert torch.equal(binning.assign(scores, binning.equal_width(m)).long(), expected)


def test_the_obvious_rule_is_wrong_at_some_edges():
    # The reason for this module: ⌈p·M⌉ puts 7/25 into bin 8 of 25.
    scores = torch.arange(1, 26, dtype=torch.float64) / 25
    ours = binning.assign(scores, binning.equal_width(25)).long() + 1
    assert torch.equal(ours, torch.arange(1, 26))
    assert not torch.equal((scores * 25).ceil().long(), ours)


def test_zero_one_and_a_rounding_above_one():
    # Rows may sum to 1.001, so that a score may be as large.
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        scores = torch.tensor([0.0, 1.0, 1.0000001, 1.001], dtype=dtype)
        for m in (1, 15, 1000, 5000):
            assert binning.assign(scores, binning.equal_width(m)).tolist() == [0, m - 1, m - 1, m - 1]


@pytest.mark.parametrize("m", [15, 1000, 1024])
def test_float32_scores_at_every_edge(m):
    edges = (torch.arange(m + 1, dtype=torch.float64) / m).to(torch.float32)
    scores = torch.cat([edges, torch.nextafter(edges, edges - 1), torch.nextafter(edges, edges + 1)]).clamp(0, 1)
    exact = (torch.arange(1, m, dtype=torch.float64) / m).contiguous()
    assert torch.equal(
        binning.assign(scores, binning.equal_width(m)).long(), torch.searchsorted(exact, scores.double())
    )


def test_float32_scores_are_compared_in_float64():
    # 0.2 in float32 is 0.200000003: above the edge 1/5.
    assert binning.assign(torch.tensor([0.2], dtype=torch.float32), binning.equal_width(5)).tolist() == [1]
    assert binning.assign(torch.tensor([0.2], dtype=torch.float64), binning.equal_width(5)).tolist() == [0]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.integers(1, 40))
def test_assignment_equals_comparison_with_each_edge(scores, m):
    ours = binning.assign(torch.tensor(scores, dtype=torch.float64), binning.equal_width(m))
    assert ours.tolist() == [twins.bin_of(score, m) for score in scores]


def test_left_closed_bins():
    bins = binning.Bins(torch.arange(6, dtype=torch.float64) / 5, closed="left")
    assert binning.assign(torch.tensor([0.0, 0.2, 0.4, 1.0], dtype=torch.float64), bins).tolist() == [0, 1, 2, 4]


@pytest.mark.parametrize("n", [10, 200_000])  # below and above a chunk
def test_curve_equals_sums_by_hand(n):
    rng = np.random.default_rng(n)
    scores = torch.from_numpy(rng.beta(0.3, 2, n))
    hits = torch.from_numpy(rng.random(n) < 0.3).nonzero()[:, 0]
    curve = binning.curve(scores, hits, binning.equal_width(15))
    index = binning.assign(scores, binning.equal_width(15)).numpy()
    weights = np.zeros(n)
    weights[hits.numpy()] = 1
    np.testing.assert_array_equal(curve.count.numpy(), np.bincount(index, minlength=15))
    np.testing.assert_allclose(curve.score_sum.numpy(), np.bincount(index, scores.numpy(), 15), rtol=1e-12)
    np.testing.assert_array_equal(curve.hit_sum.numpy(), np.bincount(index, weights, 15))
    full = curve.count > 0
    assert torch.allclose(curve.gap[full], (curve.confidence - curve.likelihood)[full])
    assert curve.gap[~full].isnan().all()


def test_class_curves_are_the_curves_of_the_columns():
    p, y = (torch.from_numpy(a) for a in twins.random_case(0, n=500, k=7))
    curves = binning.class_curves(p, y, binning.equal_width(10))
    for k in range(7):
        curve = binning.curve(p[:, k].contiguous(), (y == k).nonzero()[:, 0], binning.equal_width(10))
        assert torch.equal(curves.count[k], curve.count)
        assert torch.allclose(curves.score_sum[k], curve.score_sum, rtol=1e-13)
        assert torch.equal(curves.hit_sum[k], curve.hit_sum)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("m", [1, 2, 15, 1000])
@pytest.mark.parametrize(("n", "k"), [(100_000, 3), (2000, 300)])  # most scores beyond the first bin, and few
def test_curves_by_arithmetic_are_those_by_comparison(dtype, m, n, k, monkeypatch):
    monkeypatch.setattr(binning, "AT_ONCE", 2**16)  # several chunks
    generator = torch.Generator().manual_seed(m)
    y = torch.randint(k, (n,), generator=generator)
    p = torch.softmax(2 * torch.randn(n, k, generator=generator), dim=1).to(dtype)
    # Scores at the edges and beside them, 0 and 1.
    edge = (torch.arange(n) % (m + 1) / m).to(dtype)
    p[:, 0] = edge
    p[: n // 2, 1] = torch.nextafter(edge, torch.ones_like(edge))[: n // 2].clamp(max=1)
    p[n // 2 :, 1] = torch.nextafter(edge, torch.zeros_like(edge))[n // 2 :]
    by_arithmetic = binning.equal_width(m)
    by_comparison = binning.Bins(by_arithmetic.edges)
    hits = torch.arange(n) * k + y
    for ours, plain in (
        (binning.curve(p, hits, by_arithmetic), binning.curve(p, hits, by_comparison)),
        (binning.class_curves(p, y, by_arithmetic), binning.class_curves(p, y, by_comparison)),
    ):
        assert torch.equal(ours.count, plain.count)
        assert torch.equal(ours.hit_sum, plain.hit_sum)
        assert torch.allclose(ours.score_sum, plain.score_sum, rtol=1e-11, atol=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 1.0]) | st.floats(0, 1), min_size=1, max_size=80))
def test_equal_mass_keeps_equal_scores_together_and_is_balanced_otherwise(scores):
    s = torch.tensor(scores, dtype=torch.float64)
    bins = binning.equal_mass(s, 4)
    index = binning.assign(s, bins)
    assert bins.edges.diff().ge(0).all()
    for value in s.unique():
        assert len(index[s == value].unique()) == 1
    if len(s.unique()) == len(s):
        sizes = torch.bincount(index, minlength=4)
        assert int(sizes.max()) <= -(-len(s) // 4)


def test_equal_mass_by_class():
    p, _ = twins.random_case(1, n=90, k=3)
    bins = binning.equal_mass(torch.from_numpy(p), 5)
    for k in range(3):
        assert torch.equal(bins.edges[k], binning.equal_mass(torch.from_numpy(p[:, k].copy()), 5).edges)
    index = binning.assign(torch.from_numpy(p), bins)
    assert torch.bincount(index[:, 1], minlength=5).tolist() == [18] * 5


@pytest.mark.parametrize("norm", [1, 2, "max"])
def test_error_of_a_curve(norm):
    pairs = [(0.1, 0), (0.15, 1), (0.9, 1), (0.95, 1), (0.5, 0)]
    scores = torch.tensor([s for s, _ in pairs], dtype=torch.float64)
    hits = torch.tensor([i for i, (_, h) in enumerate(pairs) if h])
    curve = binning.curve(scores, hits, binning.equal_width(5))
    assert float(curve.error(norm)) == pytest.approx(twins.ece(pairs, 5, m=5, norm=norm), abs=1e-15)


def test_bad_bins_are_refused():
    with pytest.raises(ValueError, match="`n_bins` must be at least 1, got 0"):
        binning.for_scores(torch.zeros(3), 0, "width")
    with pytest.raises(ValueError, match="`binning` must be 'width' or 'mass', got 'quantile'"):
        binning.for_scores(torch.zeros(3), 5, "quantile")


@pytest.mark.parametrize(
    "bins", [binning.equal_width(15), binning.equal_width(2), binning.equal_mass(torch.rand(99), 4)]
)
@pytest.mark.parametrize("k", [1, 3, 40])
def test_sums_of_rows_by_brute_force(bins, k):
    scores = torch.rand(20, k, dtype=torch.float64, generator=torch.Generator().manual_seed(k)) ** 4
    count, score_sum = binning.sums_of_rows(scores, bins)
    place = binning.assign(scores.flatten(), bins).view(20, k).tolist()
    for i in range(20):
        for m in range(bins.n_bins):
            own = [float(scores[i, j]) for j in range(k) if place[i][j] == m]
            assert int(count[i, m]) == len(own)
            assert float(score_sum[i, m]) == pytest.approx(sum(own), abs=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_curves_of_sure_scores_equal_brute_force(k):
    """Half or more of the scores lie in the first bin, where they are only added up."""
    rng = np.random.default_rng(k)
    p = rng.uniform(0, 0.02, (40, k))
    p[np.arange(40), rng.integers(0, k, 40)] = rng.uniform(0.5, 1, 40) if k > 1 else rng.uniform(0, 0.3, 40)
    y = rng.integers(0, k, 40)
    bins = binning.equal_width(10)
    curves = binning.class_curves(torch.from_numpy(p), torch.from_numpy(y), bins)
    place = np.clip(np.ceil(p * 10).astype(int) - 1, 0, 9)
    for j, b in np.ndindex(k, 10):
        inside = place[:, j] == b
        assert curves.count[j, b] == inside.sum()
        assert curves.score_sum[j, b] == pytest.approx(p[inside, j].sum())
        assert curves.hit_sum[j, b] == (y[inside] == j).sum()


def test_a_bin_for_each_answer():
    p = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.1, 0.8]])
    curve = binning.by_answer(p, torch.tensor([0, 1, 2]))
    assert curve.edges.tolist() == [0, 1, 2, 3]
    assert curve.count.tolist() == [2, 0, 1]
    torch.testing.assert_close(curve.score_sum, torch.tensor([1.3, 0, 0.8], dtype=torch.float64))
    assert curve.hit_sum.tolist() == [1, 0, 1]
