"""Which metrics an evaluation holds, in the order in which it shows them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from softkin.files import number as number
from softkin.metrics import calibration, scores
from softkin.metrics.statistics import Statistic
from softkin.metrics.uncertainty import Interval


@dataclass(frozen=True)
class Settings:
    """What changes the numbers, or how sure they are."""

    n_bins: int = 15
    confidence: float = 0.95
    resamples: int = 1000
    seed: int = 0
    kde_interval: bool = False
    """Whether the KDE ECE of the output gets an interval, which takes longer than all others together"""


@dataclass(frozen=True)
class Entry:
    """One metric."""

    key: str
    name: str
    make: Callable[[Tensor, Tensor, Settings], Statistic]
    error: bool = False
    """Whether what a calibrated model would show stands beside it"""
    percent: bool = True
    """Whether people read it in percent"""
    larger_is_better: bool = False


TOP = 5

ENTRIES = (
    Entry("accuracy", "accuracy", lambda p, y, _: scores.right(p, y), larger_is_better=True),
    Entry("top_5_accuracy", "top-5 accuracy", lambda p, y, _: scores.among_top(p, y, k=TOP), larger_is_better=True),
    Entry("nll", "NLL (nats)", lambda p, y, _: scores.log_losses(p, y), percent=False),
    Entry("brier", "Brier score", lambda p, y, _: scores.square_losses(p, y), percent=False),
    Entry("signed_gap", "confidence − accuracy", lambda p, y, s: calibration.signed(p, y, n_bins=s.n_bins)),
    Entry("ece_prediction", "ECE of the prediction", lambda p, y, s: calibration.binned(p, y, n_bins=s.n_bins), True),
    Entry(
        "ece_output",
        "ECE of the output, per sample",
        lambda p, y, s: calibration.binned(p, y, scope="output", n_bins=s.n_bins),
        True,
    ),
    Entry("kde_prediction", "KDE ECE of the prediction", lambda p, y, _: calibration.kernel(p, y), True),
    Entry("kde_output", "KDE ECE of the output, per sample", lambda p, y, _: calibration.kernel(p, y, scope="output")),
    Entry(
        "classwise_ece",
        "class-wise ECE, mean of classes",
        lambda p, y, s: calibration.classwise(p, y, n_bins=s.n_bins),
        True,
    ),
    Entry("smooth_ece", "smooth ECE", lambda p, y, _: calibration.smooth(p, y), True),
    Entry(
        "debiased_ece",
        "root-mean-square error, debiased",
        lambda p, y, s: calibration.debiased(p, y, n_bins=s.n_bins),
        True,
    ),
    Entry("mce", "largest gap of a bin", lambda p, y, s: calibration.binned(p, y, n_bins=s.n_bins, norm="max"), True),
    Entry("aurc", "area under risk–coverage", lambda p, y, _: scores.risk_coverage(p, y)),
)
BY_KEY = {entry.key: entry for entry in ENTRIES}
COMPARED = ("accuracy", "nll", "brier", "ece_prediction", "ece_output")


def plain(found: Interval | float) -> dict[str, Any]:
    """A metric as plain data: ``value``, and ``low`` and ``high`` where it has an interval."""
    if not isinstance(found, Interval):
        return {"value": number(found)}
    return {"value": number(found), "low": number(found.low), "high": number(found.high)}


AT_MOST_ONE = ("ece_prediction", "kde_prediction", "smooth_ece", "debiased_ece", "mce")


def within_one(key: str, found: Interval) -> Interval:
    """The interval without what an error of shares cannot be; the output's, a sum per sample, can pass 1."""
    return Interval(found, found.low, min(found.high, 1.0), found.level) if key in AT_MOST_ONE else found
