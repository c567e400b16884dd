r"""Multinomial logistic regression with a diagonal penalty: the solver of vector, matrix and Dirichlet calibration.

.. math:: f(A) = \frac1n \sum_i -\log \mathrm{softmax}(\ell_i(A))_{y_i} + \sum_{jk} R_{jk} (A_{jk} - C_{jk})^2

with logits ℓ that are linear in the parameters A. f is convex, and its Hessian times a matrix costs what a gradient
costs, so the method is Newton's with the steps found by preconditioned conjugate gradients. Three things make that
fast. The preconditioner is the Hessian's block of each class, built from the few samples that are unsure of that
class, together with the direction that softmax cannot see (the same row added to every class), where only the penalty
has curvature and its inverse is known. The inner products are in float32, as a step need not be exact; function,
gradient and end are in float64. And a line search moves along logits that are linear in the step, without products.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

TOLERANCE = 1e-7  # of the gradient's largest entry
UNSURE = 1e-3  # p(1−p) from which a sample counts by itself in a class's block of the Hessian
BLOCKS_UP_TO = 256  # classes; a block for each class takes K³ numbers
INNER_LIMIT = 250
OUTER_LIMIT = 100

Preconditioner = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Minimum:
    """The result of a minimisation."""

    parameters: Tensor
    value: float
    """The objective: mean NLL and penalty"""
    gradient_norm: float
    iterations: int
    """Products with the Hessian or the gradient: the passes over the data"""
    converged: bool
    curvature: object
    """The data of the last preconditioner: a problem with another penalty on the same data can start with it"""
    gap: float = 0.0
    """An upper bound on value − minimum: Σ g²/4R of the gradient g, as f − Σ R·a² is convex too"""


class Problem(ABC):
    """How parameters become logits, and how changes of logits become changes of parameters."""

    y: Tensor
    penalty: Tensor
    """R, of the shape of the parameters"""
    centre: Tensor
    """C"""

    @abstractmethod
    def logits(self, parameters: Tensor) -> Tensor:
        """The logits (N, K), in the dtype of the parameters."""

    @abstractmethod
    def pull(self, changes: Tensor) -> Tensor:
        """The adjoint of ``logits``: Σ_i of changes_i times what multiplies each parameter."""

    @abstractmethod
    def curvature(self, p: Tensor) -> object:
        """The data that ``preconditioner`` needs, at probabilities ``p``."""

    @abstractmethod
    def preconditioner(self, curvature: object) -> Preconditioner:
        """An approximate inverse of the Hessian, in float32."""

    def common(self) -> Tensor:
        """1/Σ_j 2R_j: the inverse curvature of adding the same row to every class, 0 where there is no penalty."""
        total = 2 * self.penalty.sum(dim=0, keepdim=True)
        return torch.where(total > 0, 1 / total, torch.zeros_like(total))


class Affine(Problem):
    """ℓ = W x + b, A = [W | b] of shape (K, K+1).

    ``blocks`` says whether the preconditioner has a block of the Hessian for each class, by default up to 256 classes.
    They save products with the Hessian where the penalty is weak; where it is strong, they cost more than they save.
    """

    def __init__(self, x: Tensor, y: Tensor, penalty: Tensor, centre: Tensor, *, blocks: bool | None = None) -> None:
        self.blocks = x.shape[1] <= BLOCKS_UP_TO if blocks is None else blocks
        self.x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
        self.x32 = self.x.float()
        self.y, self.penalty, self.centre = y, penalty, centre

    @cached_property
    def principal(self) -> tuple[Tensor, Tensor]:
        """The eigenvalues and eigenvectors of the gram matrix that are not 0, at most N."""
        _, s, v = torch.linalg.svd(self.x32 / len(self.x) ** 0.5, full_matrices=False)
        kept = s > 1e-5 * s[0]
        return s[kept].square(), v[kept].T.contiguous()

    def logits(self, parameters: Tensor) -> Tensor:
        return (self.x32 if parameters.dtype == torch.float32 else self.x) @ parameters.T

    def pull(self, changes: Tensor) -> Tensor:
        x = self.x32 if changes.dtype == torch.float32 else self.x
        product: Tensor = changes.T @ x
        return product

    def curvature(self, p: Tensor) -> Tensor:
        """The (K, K+1, K+1) blocks of the Hessian, or the blocks of ``own_blocks``."""
        n, k = p.shape
        if not self.blocks:
            return own_blocks(self.x[:, :-1], p)
        weight = (p * (1 - p)).float()
        sure = torch.where(weight < UNSURE, weight, weight.new_zeros(())).mean(dim=0)
        blocks = sure[:, None, None] * ((self.x32.T @ self.x32) / n)
        counted = weight.T >= UNSURE
        for j in range(k):
            rows = counted[j].nonzero()[:, 0]
            x = self.x32[rows]
            blocks[j].addmm_((x * weight[rows, j, None]).T, x, alpha=1 / n)
        return blocks

    def preconditioner(self, curvature: object) -> Preconditioner:
        assert isinstance(curvature, Tensor)
        penalty, common = 2 * self.penalty.float(), self.common().float()
        if curvature.ndim == 2:
            # One eigenbasis for all classes, which each scales by its own weight and mean penalty. The own weight and
            # the offset of a class are held by other penalties than the rest of its row: they get their own blocks.
            values, basis = self.principal
            level = ((penalty[:, :-1].sum(dim=1) - penalty.diagonal()) / (len(penalty) - 1) + 1e-12)[:, None]
            scale = 1 / (curvature[:, 2, None].float() * values + level) - 1 / level  # beside 1/level everywhere
            own = solve_own(curvature, torch.stack([penalty.diagonal(), penalty[:, -1]], dim=1).double())

            def in_basis(g: Tensor) -> Tensor:
                solved = ((g @ basis) * scale) @ basis.T + g / level + g.sum(dim=0, keepdim=True) * common
                pair = own(torch.stack([g.diagonal(), g[:, -1]], dim=1))
                solved.diagonal().add_(pair[:, 0])
                solved[:, -1] += pair[:, 1]
                return solved

            return in_basis
        blocks = curvature.clone()
        diagonal = blocks.diagonal(dim1=1, dim2=2)
        diagonal += penalty
        # Scaled to a unit diagonal first: entries of the penalty may be 1e6, and float32 has seven digits.
        root = (diagonal + 1e-12).rsqrt()
        scaled = blocks * root[:, :, None] * root[:, None, :]
        scaled.diagonal(dim1=1, dim2=2).add_(1e-6)
        inverse = torch.cholesky_inverse(torch.linalg.cholesky_ex(scaled).L)

        def by_blocks(g: Tensor) -> Tensor:
            solved = torch.bmm(inverse, (g * root)[:, :, None])[:, :, 0] * root
            return solved + g.sum(dim=0, keepdim=True) * common

        return by_blocks


class Diagonal(Problem):
    """ℓ_j = w_j z_j + b_j, A of shape (K, 2)."""

    def __init__(self, x: Tensor, y: Tensor, penalty: Tensor, centre: Tensor) -> None:
        self.x, self.x32 = x, x.float()
        self.y, self.penalty, self.centre = y, penalty, centre

    def logits(self, parameters: Tensor) -> Tensor:
        x = self.x32 if parameters.dtype == torch.float32 else self.x
        return torch.addcmul(parameters[:, 1], x, parameters[:, 0])

    def pull(self, changes: Tensor) -> Tensor:
        x = self.x32 if changes.dtype == torch.float32 else self.x
        return torch.stack([(changes * x).sum(dim=0), changes.sum(dim=0)], dim=1)

    def curvature(self, p: Tensor) -> Tensor:
        return own_blocks(self.x, p)

    def preconditioner(self, curvature: object) -> Preconditioner:
        assert isinstance(curvature, Tensor)
        common = self.common().float()
        common[:, 0] = 0  # a common factor of all logits is a temperature, which softmax does see
        own = solve_own(curvature, 2 * self.penalty)
        return lambda g: own(g) + g.sum(dim=0, keepdim=True) * common


def own_blocks(x: Tensor, p: Tensor) -> Tensor:
    """The Hessian's entries ww, wb, bb, (K, 3), for the own weight and the offset of each class."""
    weight = (p * (1 - p)) / len(p)
    wx = weight * x
    return torch.stack([(wx * x).sum(dim=0), wx.sum(dim=0), weight.sum(dim=0)], dim=1)


def solve_own(blocks: Tensor, penalty: Tensor) -> Preconditioner:
    """The inverse of the 2×2 blocks of ``own_blocks``, with the penalty's (K, 2) curvature added."""
    a, b, d = blocks[:, 0] + penalty[:, 0], blocks[:, 1], blocks[:, 2] + penalty[:, 1]
    determinant = (a * d - b * b).clamp(min=1e-300)
    determinant = torch.maximum(determinant, 1e-14 * a * d)

    def solve(g: Tensor) -> Tensor:
        v = g.double()
        solved = torch.stack([d * v[:, 0] - b * v[:, 1], a * v[:, 1] - b * v[:, 0]], dim=1) / determinant[:, None]
        return solved.to(g.dtype)

    return solve


def minimise(
    problem: Problem,
    start: Tensor,
    *,
    tolerance: float = TOLERANCE,
    limit: int = OUTER_LIMIT,
    curvature: object = None,
) -> Minimum:
    """Minimise f from ``start``; ``curvature`` may be that of a neighbouring problem."""
    a = start.clone()
    logits = problem.logits(a)
    value, p = _objective(problem, a, logits)
    passes = 1
    norm = gap = float("inf")
    precondition = None if curvature is None else problem.preconditioner(curvature)
    inner, inner_before = 0, 1
    exact = False  # whether products are in float64, which is needed only where float32 fails
    for _ in range(limit):
        gradient = _gradient(problem, a, p)
        passes += 1
        norm = float(gradient.abs().max())
        gap = float((gradient.square() / (4 * problem.penalty)).nan_to_num(0.0, torch.inf).sum())
        if norm <= tolerance:
            return Minimum(a, value, norm, passes, True, curvature, gap)
        if precondition is None or inner > inner_before + 5:
            curvature = problem.curvature(p)
            precondition = problem.preconditioner(curvature)
        inner_before = max(inner, 1)
        # Superlinear convergence, but never more exact than the tolerance needs or float32 allows.
        forcing = max(min(0.1, norm**0.5), 0.3 * tolerance / norm, 1e-8 if exact else 1e-4)
        step, inner = _conjugate_gradients(problem, p, gradient, precondition, forcing, exact)
        passes += inner
        moved = _line_search(problem, a, logits, value, gradient, step)
        if moved is None:
            if exact:
                break
            exact = True
            precondition = None
            continue
        a, value, p, logits = moved
        passes += 1
    return Minimum(a, value, norm, passes, norm <= tolerance, curvature, gap)


def _objective(problem: Problem, a: Tensor, logits: Tensor) -> tuple[float, Tensor]:
    """The value of f, and the probabilities."""
    log_p = torch.log_softmax(logits, dim=1)
    nll = float(-log_p.gather(1, problem.y[:, None]).mean())
    return nll + _penalty(problem, a), log_p.exp_()


def _penalty(problem: Problem, a: Tensor) -> float:
    return float((problem.penalty * (a - problem.centre).square()).sum())


def _gradient(problem: Problem, a: Tensor, p: Tensor) -> Tensor:
    n = len(p)
    error = p.scatter_add(1, problem.y[:, None], p.new_full((n, 1), -1.0))
    return problem.pull(error).div_(n) + 2 * problem.penalty * (a - problem.centre)


def _conjugate_gradients(
    problem: Problem, p: Tensor, gradient: Tensor, precondition: Preconditioner, forcing: float, exact: bool
) -> tuple[Tensor, int]:
    """A step s with H s ≈ −gradient, to ``forcing`` in the preconditioner's norm, and the number of products."""
    dtype = torch.float64 if exact else torch.float32
    n = len(p)
    p = p.to(dtype)
    penalty = 2 * problem.penalty.to(dtype)
    size = float(gradient.abs().max())  # divided out, because float32 underflows at 1e-38
    residual = (-gradient / size).to(dtype)
    step = torch.zeros_like(residual)
    solved = precondition(residual.float()).to(dtype)
    direction = solved.clone()
    rho = start = float((residual.double() * solved.double()).sum())
    count = 0
    while count < INNER_LIMIT and rho > 0:
        changes = problem.logits(direction).mul_(p)
        changes.addcmul_(p, changes.sum(dim=1, keepdim=True), value=-1)
        product = problem.pull(changes).div_(n).addcmul_(penalty, direction)
        count += 1
        bend = float((direction.double() * product.double()).sum())
        if not bend > 0:
            break
        alpha = rho / bend
        step.add_(direction, alpha=alpha)
        residual.sub_(product, alpha=alpha)
        solved = precondition(residual.float()).to(dtype)
        new = float((residual.double() * solved.double()).sum())
        if not new > forcing**2 * start:
            break
        direction.mul_(new / rho).add_(solved)
        rho = new
    return step.double() * size, count


def _line_search(
    problem: Problem, a: Tensor, logits: Tensor, value: float, gradient: Tensor, step: Tensor
) -> tuple[Tensor, float, Tensor, Tensor] | None:
    """The point along the step where f has decreased enough: parameters, value, probabilities, logits."""
    slope = float((gradient * step).sum())
    if not slope < 0:
        return None
    along = problem.logits(step)
    length = 1.0
    for _ in range(40):
        trial, moved = a + length * step, logits + length * along
        reached, p = _objective(problem, trial, moved)
        # Rounding of the sum over samples hides decreases below about 1e-14: such a step is accepted unchecked.
        if reached <= value + 1e-4 * length * slope or abs(length * slope) < 1e-13 * (1 + abs(value)):
            return trial, reached, p, moved
        if reached < float("inf") and reached - value > slope * length:
            length = max(0.1 * length, min(0.5 * length, -slope * length**2 / (2 * (reached - value - slope * length))))
        else:
            length *= 0.5
    return None
