"""Kernels: the fast sums against kernels summed one by one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import metrics_twins as twins
from metrics_twins import case
from softkin.metrics import density


@pytest.mark.parametrize("boundary", ["reflect", "none"])
@pytest.mark.parametrize("h", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("n", [1, 7, 120])
def test_integral_equals_brute_force(n, h, boundary):
    scores, hit, s, hits = case(n, n)
    ours = density.calibration_error(s, hits, h, boundary)
    assert ours == pytest.approx(twins.kde_ece(zip(scores, hit, strict=True), n, h, boundary), abs=1e-7)


def test_fine_grids_go_by_windows_to_the_same_result(monkeypatch):
    _, _, s, hits = case(3, 150)
    for boundary in ("reflect", "none"):
        whole = density.calibration_error(s, hits, 0.004, boundary)
        soft = density.calibration_error(s, hits, 0.004, boundary, shares=s)
        monkeypatch.setattr(density, "DENSE", 2**12)
        assert density.calibration_error(s, hits, 0.004, boundary) == pytest.approx(whole, abs=1e-9)
        assert density.calibration_error(s, hits, 0.004, boundary, shares=s) == pytest.approx(soft, abs=1e-9)
        monkeypatch.undo()


def test_windows_skip_what_is_empty():
    # 5.1 million cells, of which two small neighbourhoods hold scores; the atoms do not touch, so the sum is theirs.
    s = torch.tensor([0.1, 0.1, 0.9], dtype=torch.float64)
    hits = torch.tensor([0])
    assert density.grid_size(5e-5) > density.DENSE
    value = density.calibration_error(s, hits, 5e-5, "reflect")
    assert value == pytest.approx((2 * 0.4 + 0.9) / 3, abs=1e-4)


def test_scores_without_spread_have_no_bandwidth_and_an_exact_error():
    s = torch.full((4,), 0.7, dtype=torch.float64)
    assert density.bandwidth("paper", s, torch.tensor([0])) == 0
    assert density.calibration_error(s, torch.tensor([0]), 0, "reflect") == pytest.approx(0.45, abs=1e-15)


def test_bandwidth_rules():
    scores, _, s, hits = case(0, 500)
    assert density.bandwidth("paper", s, hits) == pytest.approx(1.06 * scores.std() * 500**-0.2, rel=1e-12)
    own = scores[hits.numpy()]
    assert density.bandwidth("mix-n-match", s, hits) == pytest.approx(own.std() * 1000**-0.2, rel=1e-12)
    assert density.bandwidth(0.03, s, hits) == 0.03
    narrow = 0.7 + 1e-9 * s  # where squares would cancel
    assert density.bandwidth("paper", narrow, hits) == pytest.approx(1.06e-9 * scores.std() * 500**-0.2, rel=1e-6)
    for bad in (0.0, -1.0, 0.51, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"a number above 0 and at most 0\.5"):
            density.bandwidth(bad, s, hits)
    with pytest.raises(ValueError, match="`bandwidth` must be 'paper' or 'mix-n-match', got 'silverman'"):
        density.bandwidth("silverman", s, hits)


def test_a_pile_at_zero_has_the_analytic_floor():
    # All scores 0 and never hit: D = x f(x), and 2 ∫ x φ(x/h)/h dx over [0, h] is h·35/128.
    s = torch.zeros(10, dtype=torch.float64)
    for boundary, factor in (("reflect", 1), ("none", 0.5)):
        value = density.calibration_error(s, torch.empty(0, dtype=torch.int64), 0.2, boundary)
        assert value == pytest.approx(factor * 0.2 * 35 / 128, abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=25), st.floats(0.02, 0.5))
def test_any_scores(pairs, h):
    s = torch.tensor([score for score, _ in pairs], dtype=torch.float64)
    hits = torch.tensor([hit for _, hit in pairs]).nonzero()[:, 0]
    ours = density.calibration_error(s, hits, h, "reflect")
    assert ours == pytest.approx(twins.kde_ece(pairs, len(pairs), h, "reflect", nodes=20_001), abs=1e-5)


def test_rows_add_up_to_the_integral():
    _, _, s, hits = case(5, 300)
    is_hit = torch.zeros(300, 1, dtype=torch.float64)
    is_hit[hits] = 1
    for boundary in ("reflect", "none"):
        rows = density.kernel_rows(s[:, None], is_hit, 0.1, boundary, 321)
        d = rows.sum(dim=0).abs() / 300
        integral = float((d.sum() - (d[0] + d[-1]) / 2) / 320)
        assert integral == pytest.approx(density.calibration_error(s, hits, 0.1, boundary), rel=2e-3)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=90), st.floats(0.01, 0.5), st.sampled_from(["reflect", "none"]))
def test_kernels_near_their_scores_are_those_at_all_nodes(scores, h, boundary):
    """In blocks of neighbours nothing is lost: the weighted sums are those over every row and node."""
    s = torch.tensor(scores, dtype=torch.float64)
    n, nodes = len(s), 161
    hits, weights = torch.arange(n) % 3 == 0, (torch.arange(2 * n) % 4).view(2, n).to(torch.float32)
    x = torch.linspace(0, 1, nodes, dtype=torch.float64)
    at_nodes = density.triweight((x - s[:, None]) / h)[0] / h
    if boundary == "reflect":
        at_nodes += density.triweight((x + s[:, None]) / h)[0] / h + density.triweight((x - 2 + s[:, None]) / h)[0] / h
    near = density.NearNodes.of(s, h, boundary, nodes)
    assert near.summed(weights) == pytest.approx((weights.double() @ at_nodes).numpy(), rel=1e-4, abs=1e-4 / h)
    departing = weights.double() @ ((x - hits[:, None].double()) * at_nodes)
    assert near.departing(hits).summed(weights) == pytest.approx(departing.numpy(), rel=1e-4, abs=1e-4 / h)


def test_smooth_curve_integrates_to_one_and_knows_its_likelihood():
    _, _, s, hits = case(6, 2000)
    curve = density.smooth_curve(s, hits, 0.05, "reflect")
    assert float(torch.trapezoid(curve.density, curve.nodes)) == pytest.approx(1, abs=1e-4)
    assert float(torch.trapezoid(curve.hit_density, curve.nodes)) == pytest.approx(len(hits) / 2000, abs=1e-4)
    error = torch.trapezoid((curve.gap * curve.density).abs(), curve.nodes)
    assert float(error) == pytest.approx(density.calibration_error(s, hits, 0.05, "reflect"), rel=1e-2)
    assert torch.equal(curve.confidence, curve.nodes)


@pytest.mark.parametrize("least", [1, 2, 7, 97, 1025, 75_001])
def test_fast_lengths_have_small_factors(least):
    length = density._fast_length(least)
    assert least <= length <= max(32, 1 << (least - 1).bit_length())
    assert length % 32 == 0
    for factor in (2, 3, 5):
        while length % factor == 0:
            length //= factor
    assert length == 1


def test_no_scores_have_no_spread():
    assert density._deviation(torch.empty(0)) == 0


def test_a_score_on_the_edge_of_a_window_has_its_mirror_image():
    """Cells of 1/8 from −1/4 to 1/4: −0.25 on the left edge, −0.1 beside 0, and 0.1 itself."""
    ordered = density._Ordered.of(torch.tensor([0.25, 0.1, 0.3], dtype=torch.float64), None)
    count, offset, _ = ordered.cells(8, -2, 4, "reflect").tolist()
    assert count == [1, 1, 1, 0]
    assert offset == pytest.approx([-0.5, 0.2 - 0.5, 0.8 - 0.5, 0])


@pytest.mark.parametrize("score", [0.3, 0.9])
def test_sums_of_scores_without_spread_have_the_exact_error_too(score):
    sums = density.Sums.zeros(2**10)
    sums.add(torch.full((40,), score, dtype=torch.float64), torch.arange(10))
    assert sums.error("paper", "reflect", 1.0) == pytest.approx(abs(score - 0.25))
