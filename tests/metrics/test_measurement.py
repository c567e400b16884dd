"""One set of numbers for all who show them."""

import json
import math
from dataclasses import replace

import pytest
import torch

from softkin import evaluation, metrics
from softkin.metrics import catalogue, measurement
from softkin.metrics.measurement import VALUES, Measured, Settings, measure
from softkin.metrics.scopes import Claims

SHOWN = ("accuracy", "nll", "ece_hist", "ece_hist_output", "classwise_ece", "ece_kde", "smooth_ece", "debiased_ece")


@pytest.fixture(scope="module")
def claims():
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(300, 4, generator=generator, dtype=torch.float64)
    labels = torch.multinomial((logits / 2).softmax(dim=1), 1, generator=generator)[:, 0]
    return Claims.of(logits.softmax(dim=1), labels)


@pytest.mark.parametrize(
    "measured",
    [
        Measured(0.5),
        Measured(math.inf, 0.2, math.inf, 0.95),
        Measured(0.1, 0.05, 0.2, 0.9, Measured(0.02, 0.01, 0.03, 0.9), 0.01, "a caveat"),
        Measured(0.1, no_interval="it is slow"),
    ],
)
def test_plain_data_hold_everything(measured):
    plain = json.loads(json.dumps(measured.to_dict(), allow_nan=False))
    assert Measured.from_dict(plain) == measured
    assert None not in plain.values()


def test_an_absent_metric_has_no_value_and_a_reason():
    plain = measurement.absent("it needs all rows").to_dict()
    assert plain == {"value": None, "absent": "it needs all rows"}
    read = Measured.from_dict(plain)
    assert math.isnan(read.value)
    with pytest.raises(ValueError, match="this metric has no interval: it needs all rows"):
        read.interval  # noqa: B018


def test_numbers_do_not_depend_on_what_else_is_measured(claims):
    settings = Settings(resamples=150, seed=3)
    together = measure(claims, SHOWN, settings)
    assert list(together) == list(SHOWN)
    for key in SHOWN:
        alone = measure(claims, [key], settings)[key]
        assert _ends(alone.interval) == pytest.approx(_ends(together[key].interval), rel=1e-9)
        assert (alone.chance or 0) == pytest.approx(together[key].chance or 0, rel=1e-9)


def test_each_number_is_that_of_the_public_function(claims):
    """With an interval and without one: all draws come from the one seed."""
    p, y = claims.probabilities, claims.labels
    whole, values = (measure(claims, SHOWN, Settings(confidence=level, resamples=150)) for level in (0.9, None))
    for key in SHOWN:
        known = metrics.interval(p, y, key, confidence=0.9, resamples=150)
        # Another number of threads adds in another order.
        assert _ends(whole[key].interval) == pytest.approx(_ends(known), rel=1e-5)
        assert (values[key].low, values[key].no_interval) == (None, None)
        assert values[key].value == pytest.approx(known.value, rel=1e-12)
        if catalogue.METRICS[key].chance:
            chance = metrics.when_calibrated(p, key, confidence=0.9)
            assert _ends(whole[key].when_calibrated.interval) == pytest.approx(_ends(chance), rel=1e-9)
            assert values[key].chance == pytest.approx(chance.value, rel=1e-9)
        else:
            assert whole[key].when_calibrated is None


def _ends(interval):
    return interval.value, interval.low, interval.high


def test_values_alone_cost_no_draws(claims, monkeypatch):
    monkeypatch.setattr(measurement.resampling, "multiplicities", pytest.fail)
    monkeypatch.setattr(measurement.resampling, "redrawing", pytest.fail)
    assert measure(claims, ["ece_hist"]) == {
        "ece_hist": Measured(metrics.ece_hist(claims.probabilities, claims.labels))
    }


def test_a_slow_metric_is_measured_on_request(claims):
    quick, slow = (
        measure(claims, ["ece_kde_output"], Settings(resamples=100, slow=asked))["ece_kde_output"]
        for asked in (False, True)
    )
    assert "--kde-interval" in quick.no_interval
    assert (quick.low, quick.when_calibrated) == (None, None)
    assert quick.floor == slow.floor > 0
    assert slow.low <= slow.value <= slow.high
    assert slow.floor < slow.chance


def test_settings_reach_the_metrics(claims):
    fewer = measure(claims, ["ece_hist"], replace(VALUES, n_bins=5))["ece_hist"].value
    assert fewer == metrics.ece_hist(claims.probabilities, claims.labels, n_bins=5)
    with pytest.raises(ValueError, match="`confidence` must be a number such as 0.95 where intervals are needed"):
        VALUES.level  # noqa: B018


def test_claims_are_checked():
    with pytest.raises(ValueError, match="`probabilities` must come first and `labels` second"):
        Claims.of(torch.tensor([0, 1]), torch.eye(2))
    claims = Claims.of([[0.5, 0.5], [0.1, 0.9]], [0, 1])
    assert (claims.num_samples, claims.num_classes) == (2, 2)
    assert claims.pool("output").columns == 2


def test_an_evaluation_is_plain_and_complete(claims):
    from softkin.predictions import Predictions

    data = evaluation.evaluate(Predictions.from_probabilities(claims.probabilities, claims.labels), resamples=100)
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert set(data["metrics"]) == {metric.key for metric in catalogue.shown("evaluate", 4)}
    for plain in data["metrics"].values():
        assert set(plain) <= set(measurement.MeasuredData.__annotations__)
