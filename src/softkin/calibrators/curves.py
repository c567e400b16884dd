"""Helpers of maps of single scores: when two scores count as equal, and interpolation between knots."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float64]

TIE_BREAK = 1e-9  # times the raw score is added where several classes of a row share a step of a map
BITS = 12  # of float64's 52: the last ones, which depend on the order of a sum


def comparable(scores: Tensor) -> Tensor:
    """Scores to 40 bits, about 1e-12 of themselves.

    A softmax sums the classes in some order, so equal scores may differ in their last bits. A step of a map lies
    exactly at a fitting score, and would separate such scores.
    """
    bits = scores.contiguous().view(torch.int64)
    return ((bits + (1 << (BITS - 1))) & ~((1 << BITS) - 1)).view(torch.float64)


def comparable_log_odds(scores: Tensor) -> Tensor:
    """Log-odds to 2^−36, about 1e-11: a difference of two logarithms near 0 has an absolute rounding error."""
    fine = 2.0**36
    return torch.where(scores.abs() < 2.0**16, torch.round(scores.clamp(-(2.0**16), 2.0**16) * fine) / fine, scores)


def interpolated(x: Floats, knots: Floats, levels: Floats) -> Floats:
    """Linear interpolation of ``levels`` between ``knots``, constant beyond; numpy's interp overflows near 1e-308."""
    right = np.clip(np.searchsorted(knots, x, side="right"), 1, max(len(knots) - 1, 1))
    if len(knots) == 1:
        return np.full(x.shape, levels[0])
    left = right - 1
    share = np.clip((x - knots[left]) / (knots[right] - knots[left]), 0, 1)
    return np.asarray(levels[left] + share * (levels[right] - levels[left]), dtype=np.float64)
