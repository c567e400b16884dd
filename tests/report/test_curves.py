"""Cells that add up to the bins of every number of bins."""

import pytest
import torch

from softkin import metrics
from softkin.metrics import scopes
from softkin.metrics.binned import MeanGap
from softkin.metrics.binning import equal_width
from softkin.metrics.resampling import likelihood_band
from softkin.report import curves


@pytest.mark.parametrize("m", curves.BINS)
@pytest.mark.parametrize("scope", ["prediction", "output"])
def test_cells_added_up_are_the_bins_of_every_number_on_the_slider(network_logits, scope, m):
    logits, labels = network_logits["resnet20-cifar10"]
    p = logits.double().softmax(1)
    cells = curves.of_pool(scopes.pool(p, labels, scope))
    error = float(curves.of_cells(cells, m).error(samples=len(p)))
    assert error == pytest.approx(metrics.ece_hist(p, labels, scope=scope, n_bins=m), abs=1e-12)


def test_scores_on_the_edges_fall_into_the_same_bins_as_in_the_library():
    # k/300 is an edge of cells, and of bins where M divides: the case in which rounding could differ.
    scores = torch.tensor([k / 300 for k in range(151, 301)] * 2, dtype=torch.float64)
    p = torch.stack([scores, 1 - scores], dim=1)
    labels = torch.arange(len(p)) % 2
    for m in curves.BINS:
        for scope in ("prediction", "output"):
            cells = curves.of_pool(scopes.pool(p, labels, scope))
            bins = MeanGap(scopes.pool(p, labels, scope), equal_width(m)).curve()
            assert torch.equal(curves.of_cells(cells, m).count, bins.count)


def test_bands_are_those_of_the_diagrams(network_logits):
    logits, labels = (part[:400] for part in network_logits["resnet20-cifar10"])
    p = logits.double().softmax(1)
    for scope in ("prediction", "output"):
        pool = scopes.pool(p, labels, scope)
        expected = likelihood_band(MeanGap(pool, equal_width(15)), 0.95, curves.RESAMPLES, 3)
        for ours, theirs in zip(curves.bands(pool, 0.95, seed=3)["15"], expected, strict=True):
            actual = torch.tensor([float("nan") if v is None else v for v in ours], dtype=torch.float64)
            torch.testing.assert_close(actual, theirs.double(), atol=2e-6, rtol=0, equal_nan=True)
