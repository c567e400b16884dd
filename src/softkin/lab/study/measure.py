"""The metrics of one set of predictions, under the names that records and tables use."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from softkin import metrics
from softkin.metrics import catalogue
from softkin.metrics.catalogue import Metric
from softkin.metrics.kernels import Kernel
from softkin.metrics.statistics import Statistic
from softkin.predictions import Predictions

DRAWS, DRAWS_OF_KERNELS = 100, 40
"""The number of sets of labels drawn for "if calibrated", which gives its mean to about 5 %; fewer for a KDE"""
NARROW = 1e-3  # the smallest bandwidth that is resampled
FEW_DRAWS = 8  # sets of labels for a narrower bandwidth, each of which takes half a second


def floor_key(metric: Metric) -> str:
    """The name of a metric's floor in a record; that of KDE O is older than the rule."""
    return "kde_output_floor" if metric.key == "ece_kde_output" else f"{metric.key}_floor"


def too_narrow(statistic: Statistic) -> bool:
    """Whether scores are so nearly equal that their KDE error cannot be resampled, which needs nodes every h/8."""
    return isinstance(statistic, Kernel) and 0 < statistic.radius < NARROW


def _when_calibrated(metric: Metric, statistic: Statistic, p: Tensor) -> dict[str, float]:
    """The value under perfect calibration with as many samples."""
    if too_narrow(statistic):
        return _drawn_one_by_one(metric, p)
    draws = DRAWS_OF_KERNELS if isinstance(statistic, Kernel) else DRAWS
    chance = metrics.when_calibrated(p, metric.key, draws=draws)
    return {"mean": float(chance), "low": chance.low, "high": chance.high}


def _drawn_one_by_one(metric: Metric, p: Tensor) -> dict[str, float]:
    """Like ``_when_calibrated``, with each set of labels measured by itself: slower, but for any bandwidth."""
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.multinomial(p, 1, generator=generator)[:, 0] for _ in range(FEW_DRAWS)]
    errors = torch.tensor([metric.statistic(p, y).value() for y in drawn], dtype=torch.float64)
    low, high = torch.quantile(errors, torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return {"mean": float(errors.mean()), "low": low, "high": high}


def on_validation(predictions: Predictions) -> dict[str, float]:
    """The validation metrics by which values are chosen."""
    p, y = predictions.probabilities, predictions.known_labels
    return {metric.key: metric.statistic(p, y).value() for metric in catalogue.shown("select")}


def on_test(predictions: Predictions, ood: Mapping[str, Predictions] | None = None) -> dict[str, Any]:
    """The metrics of a result's test predictions and of out-of-distribution sets, for its record."""
    p, y = predictions.probabilities, predictions.known_labels
    numbers: dict[str, Any] = {}
    calibrated: dict[str, dict[str, float]] = {}
    caveats: dict[str, str] = {}
    for metric in catalogue.shown("record", p.shape[1]):
        statistic = metric.statistic(p, y)
        numbers[metric.key] = statistic.value()
        if "table" in metric.shown and statistic.kind == "error":
            calibrated[metric.key] = _when_calibrated(metric, statistic, p)
        if metric.floor:
            numbers[floor_key(metric)] = statistic.floor()
        caveat = statistic.caveat()
        if caveat is not None:
            caveats[metric.key] = caveat
    numbers["when_calibrated"] = calibrated
    if caveats:
        numbers["caveats"] = caveats
    for name, unknown in (ood or {}).items():
        known, other = p.amax(dim=1), unknown.probabilities.amax(dim=1)
        numbers[f"auroc {name}"] = metrics.auroc(known, other)
        numbers[f"fpr_at_95 {name}"] = metrics.fpr_at_95(known, other)
        if predictions.mutual_information is not None and unknown.mutual_information is not None:
            agreement = -predictions.mutual_information, -unknown.mutual_information
            numbers[f"auroc_mutual_information {name}"] = metrics.auroc(*agreement)
    return numbers
