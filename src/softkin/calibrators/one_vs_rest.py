r"""One-vs-rest calibrators: each class's score mapped by itself, then the row made to sum to 1.

This file has what they share: the scores, the normalisation, and the rule for rows without any mass. Platt scaling and
beta calibration are below; the counting ones are in ``isotonic`` and ``binned``.
"""

from abc import abstractmethod

import torch
from torch import Tensor

from softkin.calibrators.base import Calibrator, Ridged, Solution
from softkin.calibrators.logistic import Regressions, minimise
from softkin.calibrators.temperature import starting_factor


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
    def _scores(self, z: Tensor) -> Tensor:
        """Non-negative scores (N, K), each class mapped by itself."""

    def _predict(self, z: Tensor) -> Tensor:
        return normalised(self._scores(z), z)


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

    def _fit(self, z: Tensor, y: Tensor) -> Solution:
        features = [log_odds(z), torch.ones_like(z)]
        centre = torch.tensor([1.0, 0.0], dtype=torch.float64)
        fit = minimise(Regressions(features, y, centre=centre, l2=self.l2), starting_factor(z, y) * centre)
        self.weight_, self.bias_ = fit.theta[:, 0].clone(), fit.theta[:, 1].clone()
        return fit.solution()

    @classmethod
    def _map(cls, z: Tensor, *parameters: Tensor) -> Tensor:
        weight, bias = parameters
        return normalised(torch.sigmoid(log_odds(z) * weight + bias), z)

    def _summary(self) -> str:
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

    def _fit(self, z: Tensor, y: Tensor) -> Solution:
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
    def _map(cls, z: Tensor, *parameters: Tensor) -> Tensor:
        w, c = parameters
        log_p, log_rest = log_odds_parts(z)
        return normalised(torch.sigmoid(w[:, 0] * log_p - w[:, 1] * log_rest + c), z)
