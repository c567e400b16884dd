r"""One-vs-rest calibrators: each class's score mapped by itself, then the row made to sum to 1.

The loop over classes, the scores, the normalisation and the rule for rows that come out all zero exist here, once.
Platt scaling and beta calibration, the parametric two, are below; the counted ones are in ``isotonic`` and ``binned``.
"""

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from softkin.calibrators.base import Calibrator, Ridged, Solution
from softkin.calibrators.temperature import starting_factor

TOLERANCE = 1e-8
LIMIT = 200


def log_odds_parts(z: Tensor) -> tuple[Tensor, Tensor]:
    """For every class ln p and ln(1−p), both without cancellation."""
    log_p = torch.log_softmax(z, dim=1)
    # At most one class of a row is above 1/2, its winner: there ln(1−p) is the logarithm of the others' sum.
    top = z.argmax(dim=1, keepdim=True)
    others = torch.logsumexp(log_p.scatter(1, top, float("-inf")), dim=1, keepdim=True)
    below = torch.log1p(-log_p.exp().clamp(max=0.75))
    return log_p, below.scatter(1, top, others)


def log_odds(z: Tensor) -> Tensor:
    """For every class ln p − ln(1−p)."""
    log_p, log_rest = log_odds_parts(z)
    return log_p - log_rest


def normalised(scores: Tensor, z: Tensor) -> Tensor:
    """Rows that sum to 1; a row without any mass becomes the uncalibrated one."""
    total = scores.sum(dim=1, keepdim=True)
    return torch.where(total > 0, scores / total.clamp(min=torch.finfo(z.dtype).tiny), torch.softmax(z, dim=1))


class OneVsRest(Calibrator):
    """A map of each class's score, and the row made to sum to 1."""

    @abstractmethod
    def _scores(self, z: Tensor) -> Tensor:
        """(N, K), each class mapped by itself, not negative."""

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
        fit = logistic(features, y, centre=centre, l2=self.l2, start=starting_factor(z, y) * centre)
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

    For each class the minimum of the mean log-loss + l2·((a − 1)² + (b − 1)² + c²) among the maps that do not fall;
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
        fit = logistic(features, y, centre=centre, l2=self.l2, start=start)
        falling = (fit.theta[:, :2] < 0).any(dim=1).nonzero()[:, 0]
        if len(falling):  # the constrained minimum is on a face: try each, keep the best that is allowed
            columns = [feature[:, falling] for feature in features]
            faces = []
            for free in ([True, False, True], [False, True, True], [False, False, True]):
                faces.append(logistic(columns, y, centre=centre, l2=self.l2, start=start, free=free, classes=falling))
            allowed = [torch.where((face.theta[:, :2] >= 0).all(dim=1), face.losses, torch.inf) for face in faces]
            best = torch.stack(allowed).argmin(dim=0)
            for number, face in enumerate(faces):
                chosen = best == number
                fit.theta[falling[chosen]] = face.theta[chosen]
                fit.norms[falling[chosen]] = face.norms[chosen]
            fit.iterations += sum(face.iterations for face in faces)
        self.weight_, self.bias_ = fit.theta[:, :2].contiguous(), fit.theta[:, 2].clone()
        return fit.solution(bound_hit=len(falling) > 0)

    @classmethod
    def _map(cls, z: Tensor, *parameters: Tensor) -> Tensor:
        w, c = parameters
        log_p, log_rest = log_odds_parts(z)
        return normalised(torch.sigmoid(w[:, 0] * log_p - w[:, 1] * log_rest + c), z)


class LogisticFit:
    """K logistic regressions: parameters, losses and gradients of each."""

    def __init__(self, theta: Tensor, losses: Tensor, norms: Tensor, iterations: int) -> None:
        self.theta, self.losses, self.norms, self.iterations = theta, losses, norms, iterations

    def solution(self, **more: Any) -> Solution:
        """For the certificate."""
        norm = float(self.norms.max())
        return Solution(gradient_norm=norm, iterations=self.iterations, converged=norm <= 10 * TOLERANCE, **more)


def logistic(
    features: list[Tensor],
    y: Tensor,
    *,
    centre: Tensor,
    l2: float,
    start: Tensor,
    free: list[bool] | None = None,
    classes: Tensor | None = None,
) -> LogisticFit:
    """For each class the θ of least mean log-loss + l2·|θ − centre|², all classes at once by damped Newton steps.

    Args:
        features: d tensors (N, K): what multiplies each parameter.
        y: (N,) labels.
        centre: (d,).
        l2: The ridge.
        start: (d,).
        free: Which parameters may move; the others are 0.
        classes: Which classes the K columns are; all, if None.
    """
    n, k = features[0].shape
    d = len(features)
    moving = [j for j in range(d) if free is None or free[j]]
    if classes is None:
        rows, columns = torch.arange(n), y
    else:
        place = torch.full((int(max(int(y.max()), int(classes.max()))) + 1,), -1, dtype=torch.int64)
        place[classes] = torch.arange(len(classes))
        rows = (place[y] >= 0).nonzero()[:, 0]
        columns = place[y[rows]]
    theta = torch.zeros(k, d, dtype=torch.float64)
    theta[:, moving] = start[moving]
    # Σ over a class's own samples of each feature: all that the labels contribute to loss and gradient.
    own = torch.stack(
        [torch.zeros(k, dtype=torch.float64).index_add_(0, columns, f[rows, columns]) for f in features], dim=1
    )

    def scores_of(t: Tensor) -> Tensor:
        s = features[moving[0]] * t[:, moving[0]]
        for j in moving[1:]:
            s.addcmul_(features[j], t[:, j])
        return s

    def losses_of(t: Tensor, s: Tensor) -> Tensor:
        ridge = l2 * (t - centre)[:, moving].square().sum(dim=1)
        return (F.softplus(s, threshold=40).sum(dim=0) - (own * t).sum(dim=1)) / n + ridge

    s = scores_of(theta)
    losses = losses_of(theta, s)
    norms = torch.full((k,), torch.inf, dtype=torch.float64)
    done = torch.zeros(k, dtype=torch.bool)
    iterations = 0
    while iterations < LIMIT:
        iterations += 1
        p = torch.sigmoid(s)
        weight = p * (1 - p)
        gradient = torch.stack([(p * features[j]).sum(dim=0) - own[:, j] for j in moving], dim=1) / n
        gradient += 2 * l2 * (theta - centre)[:, moving]
        norms = gradient.abs().amax(dim=1)
        done |= norms <= TOLERANCE
        if bool(done.all()):
            break
        hessian = torch.zeros(k, len(moving), len(moving), dtype=torch.float64)
        for a, i in enumerate(moving):
            wf = weight * features[i]
            for b, j in enumerate(moving[: a + 1]):
                hessian[:, a, b] = hessian[:, b, a] = (wf * features[j]).sum(dim=0) / n
        diagonal = hessian.diagonal(dim1=1, dim2=2)
        diagonal += 2 * l2 + 1e-13 * diagonal + 1e-300
        solved, info = torch.linalg.solve_ex(hessian, gradient)
        usable = (info == 0) & torch.isfinite(solved).all(dim=1)
        step = torch.zeros_like(theta)
        step[:, moving] = -torch.where(usable[:, None], solved, gradient / diagonal)
        slope = (gradient * step[:, moving]).sum(dim=1)
        length = torch.where(done, 0.0, 1.0).double()
        for _ in range(60):
            trial = theta + length[:, None] * step
            moved = scores_of(trial)
            found = losses_of(trial, moved)
            fine = done | (found <= losses + 1e-4 * length * slope) | (length * slope.abs() < 1e-14 * (1 + losses))
            if bool(fine.all()):
                break
            length = torch.where(fine, length, 0.5 * length)
        stuck = (trial == theta).all(dim=1)
        theta, s, losses = trial, moved, found
        if bool((stuck | done).all()):
            break
    return LogisticFit(theta, losses, norms, iterations)
