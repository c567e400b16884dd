"""The smooth ECE's kernels against Gaussians summed one by one."""

import pytest
import torch

import metrics_twins as twins
from metrics_twins import case
from softkin.metrics import gaussians


@pytest.mark.parametrize("sigma", [0.05, 0.3])
def test_smoothed_error_equals_reflected_gaussians(sigma):
    scores, hit, s, _ = case(7, 40)
    residuals = s - torch.from_numpy(hit.astype(float))
    nodes = gaussians.residuals_at_nodes(s, residuals, 2**12)
    ours = gaussians.smoothed_error(nodes, 40)(torch.tensor(sigma, dtype=torch.float64))
    assert float(ours) == pytest.approx(twins.smooth_ece(list(zip(scores, hit, strict=True)), sigma), abs=1e-5)


def test_fixed_points_of_many_lines_at_once():
    lines = []
    for seed in range(5):
        _, hit, s, _ = case(seed, 200)
        lines.append(gaussians.residuals_at_nodes(s, s - torch.from_numpy(hit.astype(float)), 512))
    together = torch.stack(lines)
    error = gaussians.smoothed_error(together, 200)
    sigma = gaussians.fixed_point(error, together[:, 0])
    assert torch.allclose(error(sigma), sigma, atol=1e-8)
    for line, value in zip(lines, sigma, strict=True):
        assert float(gaussians.fixed_point(gaussians.smoothed_error(line, 200), line[0])) == pytest.approx(float(value))
