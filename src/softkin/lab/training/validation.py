"""Logits of rows without gradients, and the numbers by which an epoch is reported and chosen."""

import warnings

import torch
from torch import Tensor, nn

from softkin import metrics
from softkin._core.modes import evaluating
from softkin.calibrators import TemperatureScaling
from softkin.lab.training.batches import Inputs
from softkin.metrics.measurement import measure
from softkin.metrics.scopes import Claims

HISTORY = {"accuracy": "accuracy", "ece_hist": "ece", "signed_gap": "gap", "nll": "nll"}
"""The metrics of every epoch, and what its history calls them"""
EVALUATED = 512  # rows at a time without gradients


def validation_numbers(logits: Tensor, labels: Tensor, stop_by: str | None = None) -> dict[str, float]:
    """The validation metrics of an epoch for its history, including the one of ``stop_by`` (``training.STOPS``)."""
    names = HISTORY | ({"brier": "brier"} if stop_by == "brier" else {})
    claims = Claims.of(logits.double().softmax(dim=1), labels)
    measured = measure(claims, names)
    numbers = {f"validation_{name}": measured[key].value for key, name in names.items()}
    if stop_by == "refined-nll":
        numbers["validation_refined_nll"] = refined_nll(logits, labels)
    return numbers


def cost_of(numbers: dict[str, float], stop_by: str) -> float:
    """The metric of ``stop_by``, with a sign that makes the smallest value the best."""
    key = HISTORY.get(stop_by, stop_by.replace("-", "_"))
    value = numbers[f"validation_{key}"]
    return -value if stop_by == "accuracy" else value


def refined_nll(logits: Tensor, labels: Tensor) -> float:
    """The NLL after temperature scaling on the same rows, the part that calibration cannot repair.

    References:
        Berta et al., Rethinking Early Stopping: Refine, Then Calibrate, 2025, arXiv:2501.19195, sec. 4 (TS-refinement).
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fitting warns where all rows are right: then no temperature is best
        scaled = TemperatureScaling().fit(logits.double(), labels).predict_proba(logits.double())
    return metrics.nll(scaled, labels)


@torch.no_grad()
def evaluate(model: nn.Module, inputs: Inputs, rows: range, num_classes: int) -> Tensor:
    """Logits (n, K) of the rows, float32 on the CPU; the model's mode (train or eval) is restored."""
    with evaluating(model):
        logits = [torch.empty(0, num_classes)]
        for start in range(rows.start, rows.stop, EVALUATED):
            output = model(inputs.rows(slice(start, min(start + EVALUATED, rows.stop))))
            logits.append(getattr(output, "logits", output).float().cpu())
        return torch.cat(logits)
