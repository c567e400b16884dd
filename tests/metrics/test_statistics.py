"""Statistics of rows: weighted sums are the metric of repeated rows."""

import numpy as np
import pytest
import torch

import metrics_twins as twins
from softkin.metrics.catalogue import METRICS
from softkin.metrics.scopes import Claims


@pytest.mark.parametrize(
    "make",
    [
        METRICS["ece_hist"].statistic,
        lambda claims: METRICS["ece_hist"].statistic(claims, scope="output", norm=2),
        lambda claims: METRICS["ece_hist"].statistic(claims, norm="max"),
        METRICS["debiased_ece"].statistic,
        METRICS["classwise_ece"].statistic,
        lambda claims: METRICS["classwise_ece"].statistic(claims, norm=2),
        lambda claims: METRICS["ece_kde"].statistic(claims, bandwidth=0.1),
        lambda claims: METRICS["ece_kde"].statistic(claims, bandwidth=0.1, scope="output", boundary="none"),
        METRICS["smooth_ece"].statistic,
        lambda claims: METRICS["signed_gap"].statistic(claims, part="under"),
        METRICS["aurc"].statistic,
        lambda claims: METRICS["aurc"].statistic(Claims((claims.probabilities * 8).ceil() / 8, claims.labels)),
    ],
)
def test_weighted_sums_are_the_metric_of_repeated_rows(make):
    p, y = (torch.from_numpy(a) for a in twins.random_case(1, n=150))
    rows = torch.from_numpy(np.random.default_rng(0).integers(0, 150, 150))
    counts = torch.bincount(rows, minlength=150).to(torch.float32)[None]
    statistic, repeated = make(Claims(p, y)), make(Claims(p[rows], y[rows]))
    assert float(statistic.of(statistic.sums(counts))) == pytest.approx(repeated.value(), rel=5e-3, abs=1e-5)


@pytest.mark.parametrize(("scope", "changed"), [("prediction", 1), ("output", 2)])
def test_a_label_that_changes_moves_one_winner_or_two_of_all_scores(scope, changed):
    p, y = (torch.from_numpy(a) for a in twins.random_case(1, n=20, k=5))
    statistic = METRICS["ece_hist"].statistic(Claims(p, y), scope=scope)
    assert statistic._hits_in_a_row() == changed
    weights = torch.linspace(0.5, 1.5, 20, dtype=torch.float64)
    weighted = METRICS["ece_hist"].statistic(Claims(p, y, weights), scope=scope)
    assert weighted._hits_in_a_row() == 1.5 * changed
