r"""One-vs-rest calibrators: each class's score mapped by itself, then the row made to sum to 1.

This file has what maps of single scores share: when two scores count as equal, interpolation between knots, the
normalisation, and the rule for rows without any mass. Platt scaling and beta calibration are below; the counting ones
are in ``isotonic``, ``histogram`` and ``mutual_information``.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from softkin.calibrators.calibrator import Calibrator, Ridged
from softkin.calibrators.certificate import Solution
from softkin.calibrators.temperature import starting_factor

TOLERANCE = 1e-8
LIMIT = 200
HALVINGS = 60


@dataclass
class LogisticFit:
    """The solutions of the K regressions."""

    theta: Tensor
    """(K, d) parameters"""
    losses: Tensor
    """(K,)"""
    norms: Tensor
    """(K,) the largest entry of each gradient"""
    iterations: int

    def solution(self, **more: Any) -> Solution:
        """The solution as the certificate needs it."""
        norm = float(self.norms.max())
        return Solution(gradient_norm=norm, iterations=self.iterations, converged=norm <= 10 * TOLERANCE, **more)


class Regressions:
    """The objectives f_k of all classes, with their derivatives.

    Args:
        features: d tensors (N, K), one for each parameter, which multiplies it.
        y: (N,) labels.
        centre: (d,) the point c that the ridge shrinks towards.
        l2: The ridge.
        free: Which parameters are fitted; the others are 0.
        classes: The classes of the K columns; None: all.
        weights: (N,) weights of the rows with the mean 1; None: all count alike.
    """

    def __init__(
        self,
        features: list[Tensor],
        y: Tensor,
        *,
        centre: Tensor,
        l2: float,
        free: list[bool] | None = None,
        classes: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> None:
        self.n, self.k = features[0].shape
        self.weights = None if weights is None else weights[:, None]
        self.features, self.centre, self.l2 = features, centre, l2
        self.moving = [j for j in range(len(features)) if free is None or free[j]]
        rows, columns = _own_places(y, classes)
        # Σ over a class's own samples of each feature: all that the labels contribute to loss and gradient.
        own = [f[rows, columns] if weights is None else f[rows, columns] * weights[rows] for f in features]
        self.own = torch.stack(
            [torch.zeros(self.k, dtype=torch.float64).index_add_(0, columns, term) for term in own], dim=1
        )

    def _total(self, terms: Tensor) -> Tensor:
        """Σ over the rows of (N, K) terms, by their weights."""
        return terms.sum(dim=0) if self.weights is None else (terms * self.weights).sum(dim=0)

    def scores(self, theta: Tensor) -> Tensor:
        """The scores s, (N, K)."""
        first, *rest = self.moving
        s = self.features[first] * theta[:, first]
        for j in rest:
            s.addcmul_(self.features[j], theta[:, j])
        return s

    def losses(self, theta: Tensor, s: Tensor) -> Tensor:
        """The objectives f, (K,)."""
        ridge = self.l2 * (theta - self.centre)[:, self.moving].square().sum(dim=1)
        return (self._total(F.softplus(s, threshold=40)) - (self.own * theta).sum(dim=1)) / self.n + ridge

    def gradient(self, theta: Tensor, p: Tensor) -> Tensor:
        """First derivatives (K, free parameters), at p = σ(s)."""
        sums = [self._total(p * self.features[j]) - self.own[:, j] for j in self.moving]
        return torch.stack(sums, dim=1) / self.n + 2 * self.l2 * (theta - self.centre)[:, self.moving]

    def hessian(self, p: Tensor) -> Tensor:
        """Second derivatives (K, free, free), with a tiny ridge where the data have no curvature."""
        weight, m = p * (1 - p), len(self.moving)
        blocks = torch.zeros(self.k, m, m, dtype=torch.float64)
        for a, i in enumerate(self.moving):
            weighted = weight * self.features[i]
            for b, j in enumerate(self.moving[: a + 1]):
                blocks[:, a, b] = blocks[:, b, a] = self._total(weighted * self.features[j]) / self.n
        diagonal = blocks.diagonal(dim1=1, dim2=2)
        diagonal += 2 * self.l2 + 1e-13 * diagonal + 1e-300
        return blocks


def _own_places(y: Tensor, classes: Tensor | None) -> tuple[Tensor, Tensor]:
    """Rows and columns of the samples' own classes, where these are among ``classes``."""
    if classes is None:
        return torch.arange(len(y)), y
    place = torch.full((max(int(y.max()), int(classes.max())) + 1,), -1, dtype=torch.int64)
    place[classes] = torch.arange(len(classes))
    rows = (place[y] >= 0).nonzero()[:, 0]
    return rows, place[y[rows]]


def minimise(problem: Regressions, start: Tensor) -> LogisticFit:
    """The θ that minimises the loss of each class, from ``start`` (d,)."""
    theta = torch.zeros(problem.k, len(start), dtype=torch.float64)
    theta[:, problem.moving] = start[problem.moving]
    s = problem.scores(theta)
    losses = problem.losses(theta, s)
    norms = torch.full((problem.k,), torch.inf, dtype=torch.float64)
    done = torch.zeros(problem.k, dtype=torch.bool)
    iterations = 0
    while iterations < LIMIT:
        iterations += 1
        p = torch.sigmoid(s)
        gradient = problem.gradient(theta, p)
        norms = gradient.abs().amax(dim=1)
        done |= norms <= TOLERANCE
        if bool(done.all()):
            break
        step = torch.zeros_like(theta)
        step[:, problem.moving] = _newton_step(problem.hessian(p), gradient)
        slope = (gradient * step[:, problem.moving]).sum(dim=1)
        before = theta
        theta, s, losses = _line_search(problem, theta, losses, step, slope, done)
        stuck = (theta == before).all(dim=1)
        if bool((stuck | done).all()):
            break
    return LogisticFit(theta, losses, norms, iterations)


def _newton_step(hessian: Tensor, gradient: Tensor) -> Tensor:
    """−H⁻¹g of each class; where H has no inverse, that of its diagonal."""
    solved, info = torch.linalg.solve_ex(hessian, gradient)
    usable = (info == 0) & torch.isfinite(solved).all(dim=1)
    return -torch.where(usable[:, None], solved, gradient / hessian.diagonal(dim1=1, dim2=2))


def _line_search(
    problem: Regressions, theta: Tensor, losses: Tensor, step: Tensor, slope: Tensor, done: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Halve each class's step until its loss decreases enough; return parameters, scores and losses there."""
    length = torch.where(done, 0.0, 1.0).double()
    for _ in range(HALVINGS):
        trial = theta + length[:, None] * step
        s = problem.scores(trial)
        values = problem.losses(trial, s)
        fine = done | (values <= losses + 1e-4 * length * slope) | (length * slope.abs() < 1e-14 * (1 + losses))
        if bool(fine.all()):
            break
        length = torch.where(fine, length, 0.5 * length)
    return trial, s, values


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

    takes_weights = True

    def fit_rows(self, z: Tensor, y: Tensor, weights: Tensor | None = None) -> Solution:
        features = [log_odds(z), torch.ones_like(z)]
        centre = torch.tensor([1.0, 0.0], dtype=torch.float64)
        problem = Regressions(features, y, centre=centre, l2=self.l2, weights=weights)
        fit = minimise(problem, starting_factor(z, y, weights) * centre)
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

    takes_weights = True

    def fit_rows(self, z: Tensor, y: Tensor, weights: Tensor | None = None) -> Solution:
        log_p, log_rest = log_odds_parts(z)
        features = [log_p, -log_rest, torch.ones_like(z)]
        centre = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
        start = starting_factor(z, y, weights) * centre
        fit = minimise(Regressions(features, y, centre=centre, l2=self.l2, weights=weights), start)
        falling = (fit.theta[:, :2] < 0).any(dim=1).nonzero()[:, 0]
        if len(falling):  # the constrained minimum is on a face: try each and keep the best feasible one
            columns = [feature[:, falling] for feature in features]
            faces = []
            for free in ([True, False, True], [False, True, True], [False, False, True]):
                face = Regressions(columns, y, centre=centre, l2=self.l2, free=free, classes=falling, weights=weights)
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
