"""What the maps of single scores share: when two scores count as equal, and the line between two knots."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float64]

TIE_BREAK = 1e-9  # of the raw score, added where one step of a shared map holds several classes of a row
BITS = 12  # the last ones of float64's 52, which the order of a sum decides


def comparable(scores: Tensor) -> Tensor:
    """Scores to 40 bits, about 1e-12 of themselves.

    A softmax sums the classes in some order, and so equal scores differ in their last bits. A step of a map lies at a
    score that was seen, and would tell them apart.
    """
    bits = scores.contiguous().view(torch.int64)
    return ((bits + (1 << (BITS - 1))) & ~((1 << BITS) - 1)).view(torch.float64)


def comparable_log_odds(scores: Tensor) -> Tensor:
    """Log-odds to 2^−36, about 1e-11: near 0, the difference of two logarithms, their last bits are absolute ones."""
    fine = 2.0**36
    return torch.where(scores.abs() < 2.0**16, torch.round(scores.clamp(-(2.0**16), 2.0**16) * fine) / fine, scores)


def interpolated(x: Floats, knots: Floats, levels: Floats) -> Floats:
    """``levels`` between ``knots``, constant beyond the ends: numpy's interp, whose slopes overflow near 1e-308."""
    right = np.clip(np.searchsorted(knots, x, side="right"), 1, max(len(knots) - 1, 1))
    if len(knots) == 1:
        return np.full(x.shape, levels[0])
    left = right - 1
    share = np.clip((x - knots[left]) / (knots[right] - knots[left]), 0, 1)
    return np.asarray(levels[left] + share * (levels[right] - levels[left]), dtype=np.float64)
