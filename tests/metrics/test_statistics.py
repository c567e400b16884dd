"""Statistics of rows: weighted sums are the metric of repeated rows."""

import numpy as np
import pytest
import torch

import metrics_twins as twins
from softkin.metrics.catalogue import METRICS


@pytest.mark.parametrize(
    "make",
    [
        METRICS["ece_hist"].statistic,
        lambda p, y: METRICS["ece_hist"].statistic(p, y, scope="output", norm=2),
        lambda p, y: METRICS["ece_hist"].statistic(p, y, norm="max"),
        METRICS["debiased_ece"].statistic,
        METRICS["classwise_ece"].statistic,
        lambda p, y: METRICS["classwise_ece"].statistic(p, y, norm=2),
        lambda p, y: METRICS["ece_kde"].statistic(p, y, bandwidth=0.1),
        lambda p, y: METRICS["ece_kde"].statistic(p, y, bandwidth=0.1, scope="output", boundary="none"),
        METRICS["smooth_ece"].statistic,
        lambda p, y: METRICS["signed_gap"].statistic(p, y, part="under"),
        METRICS["aurc"].statistic,
        lambda p, y: METRICS["aurc"].statistic((p * 8).ceil() / 8, y),
    ],
)
def test_weighted_sums_are_the_metric_of_repeated_rows(make):
    p, y = (torch.from_numpy(a) for a in twins.random_case(1, n=150))
    rows = torch.from_numpy(np.random.default_rng(0).integers(0, 150, 150))
    counts = torch.bincount(rows, minlength=150).to(torch.float32)[None]
    statistic, repeated = make(p, y), make(p[rows], y[rows])
    assert float(statistic.of(statistic.sums(counts))) == pytest.approx(repeated.value(), rel=5e-3, abs=1e-5)
