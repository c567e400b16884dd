"""The numbers of one set of predictions, under the names that records and tables use."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from softkin import metrics
from softkin.metrics import calibration, scores
from softkin.metrics.scopes import Scope
from softkin.metrics.statistics import Statistic
from softkin.predictions import Predictions

ERRORS: dict[str, tuple[str, dict[str, Any]]] = {
    "ece_hist": ("ece_hist", {"scope": "prediction"}),
    "ece_hist_output": ("ece_hist", {"scope": "output"}),
    "ece_kde": ("ece_kde", {"scope": "prediction"}),
    "ece_kde_output": ("ece_kde", {"scope": "output"}),
}
"""The paper's four calibration errors: sums per sample, densities mirrored at 0 and 1"""
DRAWS = {"ece_hist": 100, "ece_kde": 40}
"""Sets of labels behind "what perfect calibration would show": its mean to about 5 % of itself; a KDE costs more"""

INFINITE = 1.7e308  # stands for an infinite NLL in records, as JSON knows none
NARROW = 1e-3  # the least bandwidth that is resampled
FEW_DRAWS = 8  # of labels for a narrower one, each of which takes half a second

STATISTICS: dict[str, Callable[[Any, Any], Statistic]] = {
    "accuracy": scores.right,
    "nll": scores.log_losses,
    "ece_hist": lambda p, y: calibration.binned(p, y, scope="prediction"),
    "ece_hist_output": lambda p, y: calibration.binned(p, y, scope="output"),
    "ece_kde": lambda p, y: calibration.kernel(p, y, scope="prediction"),
}
"""The metrics that have a winner. Not the KDE output error: it mostly shows its own smoothing"""


def too_narrow(p: Tensor, y: Tensor, scope: Scope = "prediction") -> bool:
    """Whether scores are so nearly equal that their KDE error cannot be resampled, which needs nodes every h/8."""
    return 0 < calibration.kernel(p, y, scope=scope).radius < NARROW


def _drawn_one_by_one(p: Tensor, scope: Scope) -> dict[str, float]:
    """What ``when_calibrated`` shows, each set of labels measured by itself: slower, but for any bandwidth."""
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.multinomial(p, 1, generator=generator)[:, 0] for _ in range(FEW_DRAWS)]
    errors = torch.tensor([metrics.ece_kde(p, y, scope=scope) for y in drawn], dtype=torch.float64)
    low, high = torch.quantile(errors, torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return {"mean": float(errors.mean()), "low": low, "high": high}


def on_validation(predictions: Predictions) -> dict[str, float]:
    """What values are chosen by."""
    p, y = predictions.probabilities, predictions.known_labels
    return {
        "accuracy": metrics.accuracy(p, y),
        "nll": finite(metrics.nll(p, y)),
        "brier": metrics.brier(p, y),
        "ece_hist": metrics.ece_hist(p, y),
        "ece_hist_output": metrics.ece_hist(p, y, scope="output"),
        "ece_kde": metrics.ece_kde(p, y),
    }


def on_test(predictions: Predictions, ood: Mapping[str, Predictions] | None = None) -> dict[str, Any]:
    """All that a result's record says of its test predictions, and of samples of no class."""
    p, y = predictions.probabilities, predictions.known_labels
    found: dict[str, Any] = {
        "accuracy": metrics.accuracy(p, y),
        "nll": finite(metrics.nll(p, y)),
        "brier": metrics.brier(p, y),
        "classwise_ece": metrics.classwise_ece(p, y),
        "debiased_ece": metrics.debiased_ece(p, y),
        "aurc": metrics.aurc(p, y),
        "signed_gap": metrics.signed_gap(p, y),
        "over": metrics.signed_gap(p, y, part="over"),
        "under": metrics.signed_gap(p, y, part="under"),
    }
    if p.shape[1] > 5:
        found["top_5_accuracy"] = metrics.top_k_accuracy(p, y)
    functions: dict[str, Callable[..., float]] = {"ece_hist": metrics.ece_hist, "ece_kde": metrics.ece_kde}
    calibrated: dict[str, dict[str, float]] = {}
    for name, (metric, options) in ERRORS.items():
        found[name] = functions[metric](p, y, **options)
        if metric == "ece_kde" and too_narrow(p, y, options["scope"]):
            calibrated[name] = _drawn_one_by_one(p, options["scope"])
            continue
        chance = metrics.when_calibrated(metric, p, draws=DRAWS[metric], **options)
        calibrated[name] = {"mean": float(chance), "low": chance.low, "high": chance.high}
    for scope in ("prediction", "output"):  # the paper's formula as written, which loses what lies outside [0, 1]
        suffix = "" if scope == "prediction" else "_output"
        found[f"ece_kde{suffix}_unreflected"] = metrics.ece_kde(p, y, scope=scope, boundary="none")
    found["when_calibrated"] = calibrated
    found["kde_output_floor"] = metrics.kde_floor(p)
    for name, unknown in (ood or {}).items():
        known, other = p.amax(dim=1), unknown.probabilities.amax(dim=1)
        found[f"auroc {name}"] = metrics.auroc(known, other)
        found[f"fpr_at_95 {name}"] = metrics.fpr_at_95(known, other)
    return found


def finite(value: float) -> float:
    """JSON knows no infinity: a number that no NLL reaches stands for it."""
    return min(value, INFINITE)
