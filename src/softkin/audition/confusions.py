"""Observed confusions between classes: which classes each one is taken for, by a model or by people."""

from dataclasses import dataclass

import torch
from torch import Tensor

from softkin import similarity
from softkin._core import checks
from softkin._core.checks import Array


@dataclass(frozen=True)
class Confusions:
    """Observed confusions between classes, and their origin.

    They are made by ``confusions_of_outputs``, ``confusions_of_labels``, ``confusions_of_votes`` or
    ``confusions_of_counts``.
    """

    shares: Tensor
    """(K, K) float64: row k sums to 1 over the classes that k is taken for, or is 0 if nothing is known of class k"""
    source: str
    """A description of their origin"""
    gap: float | None = None
    """Mean confidence − accuracy, for a model's outputs"""
    gap_deviation: float | None = None


def confusions_of_outputs(probabilities: Array, labels: Array, *, source: str = "a model's outputs") -> Confusions:
    """Confusions from a baseline's outputs (N, K) on held-out rows with labels (N,)."""
    p = checks.probabilities(probabilities).to("cpu", torch.float64)
    y = checks.class_labels(labels, num_samples=len(p), num_classes=p.shape[1]).cpu()
    confidence, predicted = p.max(dim=1)
    excess = confidence - (predicted == y).to(p.dtype)
    return Confusions(
        _shares(similarity.wrong_mass(p, y)),
        source,
        float(excess.mean()),
        float(excess.std() / len(y) ** 0.5) if len(y) > 1 else None,
    )


def confusions_of_labels(true: Array, assigned: Array, *, num_classes: int, source: str = "human labels") -> Confusions:
    """Confusions of people who labelled samples of known classes; both arguments are (N,)."""
    first = checks.class_labels(true, num_samples=len(true), num_classes=num_classes).cpu()
    second = checks.class_labels(assigned, num_samples=len(first), num_classes=num_classes).cpu()
    counts = torch.bincount(first * num_classes + second, minlength=num_classes**2).view(num_classes, num_classes)
    return confusions_of_counts(counts, source=source)


def confusions_of_votes(votes: Array, *, labels: Array | None = None, source: str = "human votes") -> Confusions:
    """Confusions from the votes of several people on each sample, as in CIFAR-10H.

    Args:
        votes: (N, K) number, or share, of the people who chose each class.
        labels: (N,) true classes; by default the class that most people chose.
        source: A description of their origin.
    """
    chosen = checks.as_tensor(votes, "votes").to("cpu", torch.float64)
    if chosen.ndim != 2 or chosen.shape[1] < 2 or not bool((chosen >= 0).all() & torch.isfinite(chosen).all()):
        raise ValueError(f"`votes` must have shape (N, K) and hold numbers of people, got shape {tuple(chosen.shape)}.")
    k = chosen.shape[1]
    true = chosen.argmax(dim=1) if labels is None else labels
    first = checks.class_labels(true, num_samples=len(chosen), num_classes=k).cpu()
    return confusions_of_counts(torch.zeros(k, k, dtype=torch.float64).index_add_(0, first, chosen), source=source)


def confusions_of_counts(counts: Array, *, source: str = "a confusion matrix") -> Confusions:
    """Confusions from a confusion matrix (K, K): rows are true classes, columns the classes they were taken for."""
    return Confusions(_shares(checks.square(counts, "counts", without_diagonal=True)), source)


def _shares(wrong: Tensor) -> Tensor:
    mass = wrong.fill_diagonal_(0).sum(dim=1, keepdim=True)
    return wrong / torch.where(mass > 0, mass, 1.0)
