"""The first screen of several models: accuracy, NLL and verdicts together, before and after a temperature."""

import pytest
import torch

from calibration_data import toy_predictions
from softkin import calibrators, metrics, report
from softkin.calibrators.held_out import cross_fit
from softkin.evaluation.comparison import aligned
from softkin.predictions import Predictions
from softkin.report import overview


@pytest.fixture(scope="module")
def seen(several):
    return report.build_models(several, resamples=100)["overview"]


def test_rows_come_by_nll_with_values_after_scaling(several, seen):
    rows = seen["groups"][0]["rows"]
    assert [row["nll"] for row in rows] == sorted(row["nll"] for row in rows)
    for row in rows:
        model = aligned(several[0], several[int(row["method"][1:])])
        y = model.known_labels
        p = cross_fit(calibrators.TemperatureScaling(), model.logits, y, folds=2, from_probabilities=False, seed=0)
        assert row["after"]["nll"] == pytest.approx(metrics.nll(p, y))
        assert row["after"]["error"] == pytest.approx(metrics.ece_hist(p, y))
        assert row["after"]["sure"] == pytest.approx(float(p.amax(dim=1).mean()))
        assert row["right"] == pytest.approx(float((model.probabilities.argmax(1) == y).double().mean()))
        assert row["sure"] == pytest.approx(float(model.probabilities.amax(1).mean()))


def test_a_model_that_is_honest_but_useless_is_not_recommended():
    good = toy_predictions(n=1500, k=10, name="good")
    uniform = Predictions(torch.zeros(1500, 10), good.labels, name="a coin")  # calibrated, and right in a tenth
    seen = report.build_models([uniform, good], resamples=100)["overview"]
    assert seen["headline"].startswith("Use good")
    assert seen["chosen"] == "m1"
    last = seen["choices"][-1]
    assert (last["kind"], last["title"]) == ("avoid", "Do not use a coin")
    assert last["text"].startswith("Honest, but right in ")


def test_a_gap_counts_if_it_is_more_than_chance_and_more_than_a_point():
    assert overview.kind_of(0.05, 0.01) == "over"
    assert overview.kind_of(-0.05, 0.01) == "under"
    assert overview.kind_of(0.05, 0.03) == "fine"
    assert overview.kind_of(0.009, 0.0) == "fine"


def test_few_samples_have_no_values_after_scaling():
    few = toy_predictions(n=40)
    assert overview.scaled(few, n_bins=15, seed=0) is None
