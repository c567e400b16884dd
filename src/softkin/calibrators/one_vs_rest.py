r"""One-vs-rest calibrators: each class's score mapped by itself, then the row made to sum to 1.

This file has what maps of single scores share: when two scores count as equal, interpolation between knots, the
normalisation, and the rule for rows without any mass. Platt scaling and beta calibration are below; the counting ones
are in ``isotonic``, ``histogram`` and ``mutual_information``.
"""

from abc import abstractmethod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softkin.calibrators.calibrator import Calibrator, Ridged
from softkin.calibrators.certificate import Solution
from softkin.calibrators.logistic import Regressions, minimise
from softkin.calibrators.temperature import starting_factor

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


def log_odds_parts(z: Tensor) -> tuple[Tensor, Tensor]:
    """Ln p and ln(1−p) of every class, both without cancellation."""
    log_p = torch.log_softmax(z, dim=1)
    # At most one class of a row is above 1/2, its winner: there ln(1−p) is the logarithm of the others' sum.
    top = z.argmax(dim=1, keepdim=True)
    others = torch.logsumexp(log_p.scatter(1, top, float("-inf")), dim=1, keepdim=True)
    below = torch.log1p(-log_p.exp().clamp(max=0.75))
    return log_p, below.scatter(1, top, others)


def log_odds(z: Tensor) -> Tensor:
    """Ln p − ln(1−p) of every class."""
    log_p, log_rest = log_odds_parts(z)
    return log_p - log_rest


def normalised(scores: Tensor, z: Tensor) -> Tensor:
    """The rows normalised to sum to 1; a row of zeros is replaced by the uncalibrated row."""
    total = scores.sum(dim=1, keepdim=True)
    return torch.where(total > 0, scores / total.clamp(min=torch.finfo(z.dtype).tiny), torch.softmax(z, dim=1))


class OneVsRest(Calibrator):
    """A map of each class's score, and the row made to sum to 1."""

    @abstractmethod
    def scores(self, z: Tensor) -> Tensor:
        """Non-negative scores (N, K), each class mapped by itself."""

    def answer(self, z: Tensor) -> Tensor:
        return normalised(self.scores(z), z)


class PlattScaling(Ridged, name="platt", title="Platt", candidates=({},)):
    r"""Platt scaling, one-vs-rest: σ(a_k ℓ_k + b_k) of each class's log-odds ℓ = ln p − ln(1−p), rows normalised.

    For each class the minimum of the mean log-loss + l2·((a − 1)² + b²). The ridge towards the identity keeps it
    finite where the data do not (a class that never occurs, separable data, one sample).

    Args:
        l2: The ridge, at least 0.

    Attributes:
        weight_: (K,) a.
        bias_: (K,) b.

    References:
        Platt, Probabilistic Outputs for Support Vector Machines, 1999. Here labels are not smoothed.
    """

    def fit_rows(self, z: Tensor, y: Tensor) -> Solution:
        features = [log_odds(z), torch.ones_like(z)]
        centre = torch.tensor([1.0, 0.0], dtype=torch.float64)
        fit = minimise(Regressions(features, y, centre=centre, l2=self.l2), starting_factor(z, y) * centre)
        self.weight_, self.bias_ = fit.theta[:, 0].clone(), fit.theta[:, 1].clone()
        return fit.solution()

    @classmethod
    def mapped(cls, z: Tensor, *parameters: Tensor) -> Tensor:
        weight, bias = parameters
        return normalised(torch.sigmoid(log_odds(z) * weight + bias), z)

    def summary(self) -> str:
        return f"slopes {float(self.weight_.min()):.4g} to {float(self.weight_.max()):.4g}"


class BetaCalibration(Ridged, name="beta", candidates=({},)):
    r"""Beta calibration, one-vs-rest: σ(a ln p − b ln(1−p) + c) for each class, a, b ≥ 0, rows normalised.

    For each class the minimum of the mean log-loss + l2·((a − 1)² + (b − 1)² + c²) among non-decreasing maps;
    the ridge is towards the identity a = b = 1, c = 0.

    Args:
        l2: The ridge, at least 0.

    Attributes:
        weight_: (K, 2) a and b.
        bias_: (K,) c.

    References:
        Kull et al., Beta calibration, 2017, Sec. 3.
    """

    def fit_rows(self, z: Tensor, y: Tensor) -> Solution:
        log_p, log_rest = log_odds_parts(z)
        features = [log_p, -log_rest, torch.ones_like(z)]
        centre = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
        start = starting_factor(z, y) * centre
        fit = minimise(Regressions(features, y, centre=centre, l2=self.l2), start)
        falling = (fit.theta[:, :2] < 0).any(dim=1).nonzero()[:, 0]
        if len(falling):  # the constrained minimum is on a face: try each and keep the best feasible one
            columns = [feature[:, falling] for feature in features]
            faces = []
            for free in ([True, False, True], [False, True, True], [False, False, True]):
                face = Regressions(columns, y, centre=centre, l2=self.l2, free=free, classes=falling)
                faces.append(minimise(face, start))
            allowed = [torch.where((end.theta[:, :2] >= 0).all(dim=1), end.losses, torch.inf) for end in faces]
            best = torch.stack(allowed).argmin(dim=0)
            for number, end in enumerate(faces):
                chosen = best == number
                fit.theta[falling[chosen]] = end.theta[chosen]
                fit.norms[falling[chosen]] = end.norms[chosen]
            fit.iterations += sum(end.iterations for end in faces)
        self.weight_, self.bias_ = fit.theta[:, :2].contiguous(), fit.theta[:, 2].clone()
        return fit.solution(bound_hit=len(falling) > 0)

    @classmethod
    def mapped(cls, z: Tensor, *parameters: Tensor) -> Tensor:
        w, c = parameters
        log_p, log_rest = log_odds_parts(z)
        return normalised(torch.sigmoid(w[:, 0] * log_p - w[:, 1] * log_rest + c), z)
