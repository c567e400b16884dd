r"""Probabilities that are exactly 0: scores below the resolution of their file.

A score of 0 has no logarithm, and no classifier that ends in a softmax produces one. It comes from rounding: to three
decimals, to one vote in a hundred trees, to float16. So a zero is some score below half of the smallest step s that the
file can show. Calibrators replace it by the *floor* f ≤ s/2.

The labels show how far below s/2 it is. Temperature scaling with one more parameter, the score of a zero,

.. math:: q_k \propto p_k^\beta \text{ where } p_k > 0, \qquad q_k \propto f^\beta \text{ where } p_k = 0,

is a convex problem in β and θ = β ln f, and the f of its least NLL is the floor, or s/2 where that is less. The zeros
of a forest are often the true class, and f = s/2. Those of a network rounded to three decimals hardly ever are: there
s/2 would give a ResNet-20 on CIFAR-10 T = 1.38 instead of the 2.39 of its full precision, and this floor gives 2.41.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from softkin._core import checks, threads
from softkin._core.checks import Array

TINY = torch.finfo(torch.float64).tiny
SAME = 1e-4  # relative: nearer scores differ by the rounding of a computation; those of float16 by 5e-4
LOOKED_AT = 2**17  # scores: enough to find the step, and quick to sort
FITTED_TO = 2**20  # scores: enough to measure how often a zero is the true class
LEAST = math.log(1e-8)  # ln f is at most this far below ln(s/2)
LIMIT = 100
TOLERANCE = 1e-10
RIDGE = 1e-9  # towards β = 1 and f = s/2: where all scores are 0 and 1, the data determine only their ratio


@dataclass(frozen=True)
class Floor:
    """The value that replaces probabilities of 0."""

    value: float
    step: float
    """The smallest step between scores that it was derived from"""
    zeros: int
    """The number of scores that are 0"""
    scores: int
    """The number of all scores"""
    classes: int = 0
    """The number of classes"""

    def __str__(self) -> str:
        found = f"{self.zeros:,} of {self.scores:,} probabilities are exactly 0, and are"
        if self.classes == 2:  # perhaps from a column of scores of one class
            found = f"{self.zeros:,} of {self.scores // 2:,} scores are exactly 0 or 1; probabilities of 0 are"
        half = f"half of the smallest step between scores, {self.step:.4g}"
        if self.value < self.step / 2:
            why = f"rounding leaves 0 of whatever is below {half}, and there this value suits the labels best"
        else:
            why = f"{half}, below which rounding leaves 0"
        return f"{found} taken as {self.value:.3g}: {why}; pass floor= to say otherwise"


def floor_of(probabilities: Array, labels: Array | None = None) -> Floor:
    """The value that replaces a probability of 0 in (N, K) probabilities; without labels, half of the smallest step."""
    with threads.for_work(threads.numbers_in(probabilities)):
        p = checks.as_tensor(probabilities, "probabilities").cpu().to(torch.float64)
        y = None if labels is None else checks.class_labels(labels, num_samples=len(p), num_classes=p.shape[1]).cpu()
        positive = p[p > 0]
        if not len(positive):
            return Floor(TINY, TINY, 0, 0)
        step = smallest_step(positive)
        zeros = p.numel() - len(positive)
        half = max(step / 2, TINY)  # half of the smallest float64 is 0
        ratio = math.exp(_typical(p, y, math.log(half))) if zeros and y is not None else 1.0
        return Floor(max(half * ratio, TINY), step, zeros, p.numel(), p.shape[1])


def smallest_step(positive: Tensor) -> float:
    """The step of the grid that positive scores lie on, or the smallest score if they lie on no grid.

    The step is the smallest difference between scores, if all scores are multiples of it. Rounded scores that were
    normalised again are not: the smallest of them is about a step.
    """
    least = float(positive.min())
    sample = positive[:: -(-len(positive) // LOOKED_AT)]
    values = torch.cat([sample.new_zeros(1), sample.new_tensor([least]), sample]).unique()
    gaps = values.diff()
    gap = min(float(gaps[gaps > SAME * values[1:]].min()), least)
    gap = 1 / max(1, round(1 / gap)) if gap > TINY else gap  # rows sum to 1, and so 1 is a multiple of the step
    multiples = values / gap
    epsilon = 1e-7 if bool((values.float().double() == values).all()) else 1e-15  # of float32 or float64, rounded up
    on_grid = bool(((multiples - multiples.round()).abs() <= 0.02 + epsilon * multiples).all())
    return gap if on_grid else least


def _typical(p: Tensor, y: Tensor, most: float) -> float:
    """How far ln f lies below ``most`` = ln(s/2), at most 0: by Newton's method in β and θ = β (ln f − most)."""
    rows = slice(None, None, -(-p.numel() // FITTED_TO))
    p, y = p[rows], y[rows, None]
    zero = p == 0
    x = torch.where(zero, 1.0, p).log() - most  # for zeros θ is added instead
    x.masked_fill_(zero, 0.0)
    n, own_zero = len(p), zero.gather(1, y)
    # Half a hit is added for zeros, so that zeros that are never the true class keep a positive probability.
    hits = torch.stack([x.gather(1, y).sum(), own_zero.sum() + 0.5]) / n

    def at(beta: float, theta: float) -> tuple[float, Tensor]:
        logits = (beta * x).masked_fill_(zero, theta)
        nll = float(logits.logsumexp(dim=1).mean()) - beta * float(hits[0]) - theta * float(hits[1])
        return nll + RIDGE * ((beta - 1) ** 2 + theta**2), logits

    beta, theta = 1.0, 0.0
    value, logits = at(beta, theta)
    for _ in range(LIMIT):
        q = torch.softmax(logits, dim=1)
        qx, mass = q * x, torch.where(zero, q, 0.0).sum(dim=1)
        mean = qx.sum(dim=1)
        gradient = torch.stack([mean.mean() + 2 * RIDGE * (beta - 1), mass.mean() + 2 * RIDGE * theta]) - hits
        xx, xm, mm = (qx * x).sum(dim=1) - mean**2, -(mean * mass), mass - mass**2
        hessian = torch.stack([xx.mean(), xm.mean(), xm.mean(), mm.mean()]).reshape(2, 2)
        hessian.diagonal().add_(2 * RIDGE)
        step, info = torch.linalg.solve_ex(hessian, -gradient)
        fall = float(gradient @ step)
        if int(info) or not fall < -TOLERANCE:
            break
        length = 1.0
        while (moved := at(beta + length * float(step[0]), theta + length * float(step[1])))[0] > value + 1e-4 * (
            length * fall
        ) and length > 1e-9:
            length /= 2
        beta, theta = beta + length * float(step[0]), theta + length * float(step[1])
        value, logits = moved
    return min(max(theta / beta, LEAST), 0.0) if beta > 0 else 0.0


def logarithms(p: Tensor, floor: float) -> Tensor:
    """The logarithms of (N, K) probabilities; a zero counts as the floor, or as half of the row's smallest score."""
    least = torch.where(p > 0, p, torch.inf).amin(dim=1, keepdim=True)
    below = (0.5 * least).clamp(max=floor).clamp(min=torch.finfo(p.dtype).tiny)
    return torch.where(p > 0, p, below).log()
