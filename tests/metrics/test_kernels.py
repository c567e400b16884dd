"""The KDE ECE and the smooth ECE by brute force. The smooth ECE's kernels against Gaussians summed one by one."""

import numpy as np
import pytest
import torch

import metrics_twins as twins
from metrics_twins import case
from softkin import metrics
from softkin.metrics import kernels
from softkin.metrics.catalogue import METRICS
from softkin.metrics.scopes import Claims


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


def test_a_kde_interval_needs_a_bandwidth_that_can_be_resolved():
    c = np.random.default_rng(0).uniform(0.9, 0.9000001, 200)
    p, y = np.stack([c, 1 - c], axis=1), np.zeros(200, dtype=int)
    metrics.ece_kde(p, y)
    with pytest.raises(ValueError, match="the interval of a KDE needs a bandwidth of at least"):
        metrics.ece_kde(p, y, confidence=0.95)
    with pytest.raises(ValueError, match="the interval of a KDE needs a bandwidth of at least"):
        metrics.when_calibrated(p, "ece_kde")


def test_a_straight_departure_of_a_kernel_is_a_line_times_the_density():
    p, y = twins.random_case(5, n=80)
    statistic = METRICS["ece_kde"].statistic(Claims.of(torch.from_numpy(p), torch.from_numpy(y)))
    h = 1.06 * p.max(1).std() * 80**-0.2
    x = np.linspace(0, 1, statistic.width)
    sums = statistic.once()
    line = statistic.departures(statistic.straightened(sums))[0].numpy()
    low = p.max(1) < 0.5
    mirrored = np.concatenate([p.max(1), np.where(low, -p.max(1), 2 - p.max(1))])
    mass = np.array([(twins.triweight((node - mirrored) / h) / h).sum() for node in x])
    used = mass > 1e-3 * mass.max()
    design = np.stack([np.ones(used.sum()), x[used]], axis=1) * np.sqrt(mass[used, None])
    seen = statistic.departures(sums)[0].numpy()
    fitted = np.linalg.lstsq(design, seen[used] / np.sqrt(mass[used]), rcond=None)[0]
    assert line[used] == pytest.approx(mass[used] * (fitted[0] + fitted[1] * x[used]), abs=2e-3 * np.abs(line).max())


@pytest.mark.parametrize("scope", ["prediction", "output"])
@pytest.mark.parametrize("sharpness", [2, 8])
def test_resampling_computes_nearly_the_same_error(scope, sharpness):
    p, y = twins.random_case(5, n=400, sharpness=sharpness)
    claims = Claims.of(torch.from_numpy(p), torch.from_numpy(y))
    statistic = METRICS["ece_kde"].statistic(claims, scope=scope)
    rel = 2e-3 if scope == "prediction" else 1e-2  # piles of scores near 0, on eight nodes a radius
    assert float(statistic.of(statistic.once())) == pytest.approx(statistic.value(), rel=rel)


@pytest.mark.parametrize("sigma", [0.05, 0.3])
def test_smoothed_error_equals_reflected_gaussians(sigma):
    scores, hit, s, _ = case(7, 40)
    residuals = s - torch.from_numpy(hit.astype(float))
    nodes = kernels.residuals_at_nodes(s, residuals, 2**12)
    ours = kernels.smoothed_error(nodes, 40)(torch.tensor(sigma, dtype=torch.float64))
    assert float(ours) == pytest.approx(twins.smooth_ece(list(zip(scores, hit, strict=True)), sigma), abs=1e-5)


def test_fixed_points_of_many_lines_at_once():
    lines = []
    for seed in range(5):
        _, hit, s, _ = case(seed, 200)
        lines.append(kernels.residuals_at_nodes(s, s - torch.from_numpy(hit.astype(float)), 512))
    together = torch.stack(lines)
    error = kernels.smoothed_error(together, 200)
    sigma = kernels.fixed_point(error, together[:, 0])
    assert torch.allclose(error(sigma), sigma, atol=1e-8)
    for line, value in zip(lines, sigma, strict=True):
        assert float(kernels.fixed_point(kernels.smoothed_error(line, 200), line[0])) == pytest.approx(float(value))
