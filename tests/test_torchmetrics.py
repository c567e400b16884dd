"""softkin's metrics as torchmetrics: equal to the functions, also in collections; two processes are in test_lightning.py."""

import copy
import pickle

import matplotlib.pyplot as plt
import pytest
import torch
from torchmetrics import MetricCollection

from softkin import metrics
from softkin.torchmetrics import (
    BrierScore,
    CalibrationError,
    ClasswiseCalibrationError,
    KernelCalibrationError,
    NegativeLogLikelihood,
    SignedGap,
    StreamedMetric,
)

LOGITS = 2 * torch.randn(300, 5, generator=torch.Generator().manual_seed(0))
LABELS = torch.where(torch.rand(300, generator=torch.Generator().manual_seed(1)) < 0.6, LOGITS.argmax(1), torch.arange(300) % 5)  # fmt: skip
P = LOGITS.double().softmax(1)


@pytest.mark.parametrize(
    ("metric", "expected", "tolerance"),
    [
        (CalibrationError(num_classes=5), metrics.ece_hist(P, LABELS), 1e-12),
        (CalibrationError(num_classes=5, scope="output", n_bins=10), metrics.ece_hist(P, LABELS, scope="output", n_bins=10), 1e-12),
        (CalibrationError(num_classes=5, scope="output", per="score"), metrics.ece_hist(P, LABELS, scope="output", per="score"), 1e-12),
        (KernelCalibrationError(num_classes=5), metrics.ece_kde(P, LABELS), 1e-6),
        (ClasswiseCalibrationError(num_classes=5), metrics.classwise_ece(P, LABELS), 1e-12),
        (NegativeLogLikelihood(num_classes=5), metrics.nll(P, LABELS), 1e-12),
        (BrierScore(num_classes=5), metrics.brier(P, LABELS), 1e-12),
        (SignedGap(num_classes=5), metrics.signed_gap(P, LABELS), 1e-12),
        (StreamedMetric("debiased_ece", num_classes=5), metrics.debiased_ece(P, LABELS), 1e-12),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_values_are_those_of_the_functions(metric, expected, tolerance):
    for rows in torch.arange(300).split(37):
        metric.update(P[rows], LABELS[rows])
    assert float(metric.compute()) == pytest.approx(expected, abs=tolerance)
    metric.reset()
    assert float(metric(P, LABELS)) == pytest.approx(expected, abs=tolerance)  # forward: the batch, and all
    assert float(metric.compute()) == pytest.approx(expected, abs=tolerance)
    size = sum(state.numel() for name, state in metric.metric_state.items() if name != "num_samples")
    assert size <= 8 * 2**18 if isinstance(metric, KernelCalibrationError) else size <= 5 * 15 * 4


def test_a_collection_shares_no_state_by_chance():
    together = MetricCollection(
        {
            "top 1": StreamedMetric("accuracy", num_classes=5),
            "top 2": StreamedMetric("top_k_accuracy", k=2, num_classes=5),
        }
    )
    together.update(P[:1], P[:1].argmax(1))  # both are 1 after this batch
    together.update(P[1:], LABELS[1:])
    values = together.compute()
    labels = torch.cat([P[:1].argmax(1), LABELS[1:]])
    assert float(values["top 1"]) == pytest.approx(metrics.accuracy(P, labels))
    assert float(values["top 2"]) == pytest.approx(metrics.top_k_accuracy(P, labels, k=2))


@pytest.mark.parametrize("again", [copy.deepcopy, lambda metric: pickle.loads(pickle.dumps(metric))])
def test_copies_go_on_where_the_metric_stood(again):
    metric = ClasswiseCalibrationError(num_classes=5, n_bins=7)
    metric.update(P[:100], LABELS[:100])
    other = again(metric)
    other.update(P[100:], LABELS[100:])
    assert float(other.compute()) == pytest.approx(metrics.classwise_ece(P, LABELS, n_bins=7), abs=1e-12)
    assert float(metric.compute()) == pytest.approx(metrics.classwise_ece(P[:100], LABELS[:100], n_bins=7), abs=1e-12)


def test_the_value_is_drawn():
    metric = CalibrationError(num_classes=5)
    metric.update(P, LABELS)
    _, axes = metric.plot()
    assert axes.lines
    plt.close("all")


def test_what_is_refused():
    with pytest.raises(ValueError, match="`preds` must have 5 classes, got 3"):
        CalibrationError(num_classes=5).update(torch.full((2, 3), 1 / 3), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="if these are logits"):
        CalibrationError(num_classes=5).update(LOGITS, LABELS)
    with pytest.raises(ValueError, match="`aurc` cannot stream"):
        StreamedMetric("aurc", num_classes=5)
    metric = CalibrationError(num_classes=5)
    with pytest.raises(ValueError, match="`update` has seen no samples"), pytest.warns(UserWarning, match="compute"):
        metric.compute()
