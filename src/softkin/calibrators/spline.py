r"""Spline calibration: the winning score corrected by the slope of a smooth cumulative curve, without bins."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softkin._core import checks
from softkin.calibrators.calibrator import Calibrator
from softkin.calibrators.certificate import Solution
from softkin.calibrators.one_vs_rest import TIE_BREAK, Floats, comparable, interpolated


def natural_basis(t: Floats, knots: Floats) -> tuple[Floats, Floats]:
    """Values and first derivatives at ``t`` of the natural cubic splines that are 1 at one knot and 0 at the others."""
    m, h = len(knots), np.diff(knots)
    # Second derivatives at the knots are linear in the values: A s = B v, 0 at both ends.
    a, b = np.eye(m), np.zeros((m, m))
    for i in range(1, m - 1):
        a[i, i - 1 : i + 2] = h[i - 1] / 6, (h[i - 1] + h[i]) / 3, h[i] / 6
        b[i, i - 1 : i + 2] = 1 / h[i - 1], -1 / h[i - 1] - 1 / h[i], 1 / h[i]
    second = np.linalg.solve(a, b)
    piece = np.clip(np.searchsorted(knots, t, side="right") - 1, 0, m - 2)
    left, width = knots[piece], h[piece]
    u = ((t - left) / width)[:, None]
    eye = np.eye(m)
    low, high, s_low, s_high = eye[piece], eye[piece + 1], second[piece], second[piece + 1]
    w = width[:, None]
    values = (1 - u) * low + u * high + w**2 / 6 * (((1 - u) ** 3 - (1 - u)) * s_low + (u**3 - u) * s_high)
    slopes = (high - low) / w + w / 6 * ((1 - 3 * (1 - u) ** 2) * s_low + (3 * u**2 - 1) * s_high)
    return values, slopes


class SplineCalibration(Calibrator, name="spline"):
    r"""Spline calibration: the winning score mapped by a spline, the other classes scaled to what remains.

    Only the winning score is calibrated, and the winning class stays the same. Where the calibrated score is below what
    another class would get of the rest, the rest is levelled just enough; the winning score is never below 1/K.

    The samples in the order of their winning score, t the share of samples up to a score: the cumulative difference
    between hits and scores, (1/n) Σ_{j ≤ i} (hit_j − s_j), is fitted by least squares with a natural cubic spline over
    t. The slope is the correction: the calibrated score is s plus the slope at its t, linear between the fitting
    scores, kept half a sample away from 0 and 1 (1/2n), as n samples cannot say that something is impossible. Equal
    scores get the mean over their t. With weights t is the share of their sum.

    Fitted on one score for each sample, of a binary model or of pairs, it maps that score, which may become anything.

    Args:
        n_knots: The number of knots, evenly over t. The paper uses 6.

    Attributes:
        scores_: (M,) distinct winning scores of the fitting samples.
        values_: (M,) their calibrated values.

    References:
        Gupta et al., Calibration of Neural Networks using Splines, 2021, arXiv:2006.12800, Sec. 4.
    """

    kept = ("scores_", "values_", "single_")
    takes_weights = True
    scores_: Tensor
    values_: Tensor

    def __init__(self, *, n_knots: int = 6) -> None:
        self.n_knots = n_knots
        self.check_options()

    def check_options(self) -> None:
        checks.count(self.n_knots, "n_knots", least=3)

    def fit_rows(self, z: Tensor, y: Tensor, weights: Tensor | None = None) -> Solution:
        score, hits = self._scored(z, y)
        order = score.argsort(stable=True)
        order = order if weights is None else order[weights[order] > 0]
        s, hit = score[order].numpy(), hits[order].double().numpy()
        n = len(s)
        w = np.ones(n) if weights is None else weights[order].numpy()
        distinct, which = np.unique(s, return_inverse=True)
        counts = np.bincount(which, w)
        # Equal scores share their hits, so that the order of the samples does not matter.
        gap = w * ((np.bincount(which, w * hit) / counts)[which] - s)
        t = np.cumsum(w) / w.sum()
        knots = np.linspace(0, 1, min(self.n_knots, max(3, n)))
        values, slopes = natural_basis(np.concatenate([[0.0], t]), knots)
        curve = np.concatenate([[0.0], np.cumsum(gap) / w.sum()])
        root = np.sqrt(np.concatenate([[1.0], w]))
        at_knots = np.linalg.lstsq(root[:, None] * values, root * curve, rcond=None)[0]
        calibrated = np.bincount(which, w * (s + slopes[1:] @ at_knots)) / counts
        self.scores_ = torch.from_numpy(distinct)
        half = 0.5 / n
        self.values_ = torch.from_numpy(np.clip(calibrated, half, 1 - half))
        return Solution()

    def _scored(self, z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """(N,) the score that is mapped, and whether it hits."""
        p = comparable(torch.softmax(z, dim=1))
        if self.single_:
            return p[:, 1].contiguous(), y == 1
        score, winner = p.max(dim=1)
        return score, winner == y

    def restore(self, attributes: Mapping[str, Any]) -> None:
        super().restore({"single_": False, **attributes})

    def answer(self, z: Tensor) -> Tensor:
        if self.single_:
            own = comparable(torch.softmax(z, dim=1)[:, 1].contiguous())
            one = torch.from_numpy(interpolated(own.numpy(), self.scores_.numpy(), self.values_.numpy()))
            return torch.stack([1 - one, one], dim=1)
        top = z.argmax(dim=1, keepdim=True)
        score = comparable(torch.softmax(z, dim=1).gather(1, top))
        new = torch.from_numpy(interpolated(score.numpy(), self.scores_.numpy(), self.values_.numpy()))
        others = z.shape[1] - 1
        most = 1 - TIE_BREAK  # no other class gets more than this share of the winner's score
        new = new.clamp(min=1 / (1 + most * others))
        # The others' shares of the rest, from the logits: a winner of 1 − 1e-20 leaves no rest to divide by.
        share = torch.softmax(z.scatter(1, top, float("-inf")), dim=1)
        largest, allowed = share.amax(dim=1, keepdim=True), most * new / (1 - new)
        level = ((largest - allowed) / (largest - 1 / others).clamp(min=1e-300)).clamp(0, 1)
        share = share + level * (1 / others - share)
        return (share * (1 - new)).scatter(1, top, new)

    def summary(self) -> str:
        return f"{self.n_knots} knots"
