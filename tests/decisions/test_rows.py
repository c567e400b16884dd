"""Numbers that rows draw for themselves."""

import numpy as np
import pytest
import torch

from softkin.decisions.rows import pseudo_uniforms


@pytest.mark.parametrize("rounded", [None, 0.1, 1.0])
def test_numbers_of_rows_are_uniform_and_unrelated(rounded):
    from scipy.stats import kstest

    values = torch.randn(20_000, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 4
    if rounded is not None:
        values = (values / rounded).round() * rounded
    values = values.unique(dim=0)
    u = pseudo_uniforms(values, 3)
    assert kstest(u.numpy(), "uniform").pvalue > 1e-3
    for other in (values[:, 0], values.amax(1), pseudo_uniforms(values, 4), pseudo_uniforms(values + 1, 3), u.roll(1)):
        assert abs(np.corrcoef(u, other)[0, 1]) < 4 / len(u) ** 0.5
    assert u.equal(pseudo_uniforms(values.float(), 3))
    assert u[5:6].equal(pseudo_uniforms(values[5:6], 3))
