r"""K logistic regressions at once, each class against the rest: the solver of Platt scaling and beta calibration.

.. math:: f_k(\theta) = \frac1n \sum_i \mathrm{softplus}(s_{ik}) - [y_i = k]\, s_{ik} + l_2 |\theta - c|^2,
          \qquad s_{ik} = \sum_j \theta_j x_{ikj}

Each f_k is convex. ``minimise`` takes damped Newton steps on all classes together, each with its own step length.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from softkin.calibrators.certificate import Solution

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
    ) -> None:
        self.n, self.k = features[0].shape
        self.features, self.centre, self.l2 = features, centre, l2
        self.moving = [j for j in range(len(features)) if free is None or free[j]]
        rows, columns = _own_places(y, classes)
        # Σ over a class's own samples of each feature: all that the labels contribute to loss and gradient.
        self.own = torch.stack(
            [torch.zeros(self.k, dtype=torch.float64).index_add_(0, columns, f[rows, columns]) for f in features], dim=1
        )

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
        return (F.softplus(s, threshold=40).sum(dim=0) - (self.own * theta).sum(dim=1)) / self.n + ridge

    def gradient(self, theta: Tensor, p: Tensor) -> Tensor:
        """First derivatives (K, free parameters), at p = σ(s)."""
        sums = [(p * self.features[j]).sum(dim=0) - self.own[:, j] for j in self.moving]
        return torch.stack(sums, dim=1) / self.n + 2 * self.l2 * (theta - self.centre)[:, self.moving]

    def hessian(self, p: Tensor) -> Tensor:
        """Second derivatives (K, free, free), with a tiny ridge where the data have no curvature."""
        weight, m = p * (1 - p), len(self.moving)
        blocks = torch.zeros(self.k, m, m, dtype=torch.float64)
        for a, i in enumerate(self.moving):
            weighted = weight * self.features[i]
            for b, j in enumerate(self.moving[: a + 1]):
                blocks[:, a, b] = blocks[:, b, a] = (weighted * self.features[j]).sum(dim=0) / self.n
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
