r"""Multinomial logistic regression with a diagonal penalty: the solver of vector, matrix and Dirichlet calibration.

.. math:: f(A) = \frac1n \sum_i -w_i \log \mathrm{softmax}(\ell_i(A))_{y_i} + \sum_{jk} R_{jk} (A_{jk} - C_{jk})^2

with logits ℓ that are linear in the parameters A, and weights w of the rows, all 1 if there are none. f is convex,
and its Hessian times a matrix costs what a gradient costs, so the method is Newton's with the steps found by
preconditioned conjugate gradients. Three things make that fast. The preconditioner is the Hessian's block of each
class, built from the few samples that are unsure of that class, together with the direction that softmax cannot see
(the same row added to every class), where only the penalty has curvature and its inverse is known. The inner products
are in float32, as a step need not be exact; function, gradient and end are in float64. And all passes go over blocks
of rows that stay in the cache.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

TOLERANCE = 1e-7  # of the gradient's largest entry
UNSURE = 1e-3  # p(1−p) from which a sample counts by itself in a class's block of the Hessian
BLOCKS_UP_TO = 256  # classes; a block for each class takes K³ numbers
LEAST_ROWS, ROWS_PER_CLASS = 2048, 25  # from which the coupling of classes is computed
COUPLED_UP_TO = 1024  # classes; the matrix that couples them takes 9K² numbers
BLOCK = 2**17  # scores at a time: one megabyte, so that the operations of a pass find them in the cache
MILD = 300.0  # exp(±300) is far from the ends of float64
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

    x: Tensor
    """The features that multiply the parameters, float64"""
    x32: Tensor
    y: Tensor
    penalty: Tensor
    """R, of the shape of the parameters"""
    centre: Tensor
    """C"""
    weights: Tensor | None = None
    """(N,) weights of the rows with the mean 1; preconditioners do without them"""

    def weighed(self, changes: Tensor, rows: slice) -> Tensor:
        """Changes (rows, K) of the logits by the weights of their rows."""
        return changes if self.weights is None else changes * self.weights[rows, None].to(changes.dtype)

    @abstractmethod
    def logits(self, parameters: Tensor, x: Tensor, out: Tensor) -> Tensor:
        """The logits (rows, K) of some rows of ``x``, written into ``out``."""

    @abstractmethod
    def pull(self, changes: Tensor, x: Tensor) -> Tensor:
        """The adjoint of ``logits``: Σ_i of changes_i times what multiplies each parameter."""

    def blocks_of_rows(self) -> Iterator[slice]:
        """All rows, a block at a time."""
        step = max(1, BLOCK // len(self.centre))
        return (slice(start, start + step) for start in range(0, len(self.y), step))

    @property
    @abstractmethod
    def label_sums(self) -> Tensor:
        """``pull`` of the one-hot labels: all that the gradient needs of them."""

    @cached_property
    def reach(self) -> float:
        """The largest |x|."""
        return float(self.x.abs().max())

    @abstractmethod
    def curvature(self, p: Tensor) -> object:
        """The data that ``preconditioner`` needs, at probabilities ``p``."""

    @abstractmethod
    def preconditioner(self, curvature: object) -> Preconditioner:
        """An approximate inverse of the Hessian, in float32."""

    def newton_step(self, p: Tensor, gradient: Tensor) -> Tensor | None:
        """Newton's step itself, where the whole Hessian costs less than products with it."""
        return None

    def own_blocks(self, x: Tensor, p: Tensor) -> Tensor:
        """The Hessian's entries ww, wb, bb, (K, 3), for the own weight and the offset of each class."""
        total = torch.zeros(3, p.shape[1], dtype=torch.float64)
        for rows in self.blocks_of_rows():
            weight = p[rows] * (1 - p[rows])
            total[2] += weight.sum(dim=0)
            weighted = weight.mul_(x[rows])
            total[1] += weighted.sum(dim=0)
            total[0] += weighted.mul_(x[rows]).sum(dim=0)
        return total.T / len(p)

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
        values, vectors = torch.linalg.eigh(self.x.T @ self.x / len(self.x))
        kept = values > 1e-10 * values[-1]
        return values[kept].float(), vectors[:, kept].float()

    def logits(self, parameters: Tensor, x: Tensor, out: Tensor) -> Tensor:
        return torch.mm(x, parameters.T, out=out)

    def pull(self, changes: Tensor, x: Tensor) -> Tensor:
        product: Tensor = changes.T @ x
        return product

    @cached_property
    def label_sums(self) -> Tensor:
        return torch.zeros_like(self.centre).index_add_(0, self.y, self.weighed(self.x, slice(None)))

    def curvature(self, p: Tensor) -> object:
        """The (K, K+1, K+1) blocks of the Hessian, or the blocks of ``own_blocks``."""
        n, k = p.shape
        if not self.blocks:
            return self.own_blocks(self.x[:, :-1], p)
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


class Coupled(Affine):
    r"""``Affine`` for penalties that outweigh the curvature of the data in nearly all directions.

    The preconditioner is the Hessian of three directions for each class, together with those of all other classes: its
    own weight, its offset, and the direction u in which all samples are alike. In all others it is the penalty with
    the diagonal of the data's curvature, D. With Q the three directions and C the curvature of the data along them,

    .. math:: (D + Q C Q^T)^{-1} = D^{-1} - D^{-1} Q (C^{-1} + G)^{-1} Q^T D^{-1}, \qquad G = Q^T D^{-1} Q

    and G is diagonal.
    """

    def __init__(self, x: Tensor, y: Tensor, penalty: Tensor, centre: Tensor) -> None:
        super().__init__(x, y, penalty, centre, blocks=False)
        x32 = self.x32[:, :-1]
        gram = x32.T @ x32 / len(x32)
        u = gram.sum(dim=0)
        for _ in range(3):  # the power method: one eigenvalue is far above all others
            u = gram @ (u / u.norm())
        self.u = u / u.norm()
        self.length = (1 - self.u.square()).clamp(min=1e-6).sqrt()  # of u without the own weight
        self.along = x32 @ self.u
        self.beside = (gram.diagonal() - self.u.square() * self.along.square().mean()).clamp(min=0)

    def curvature(self, p: Tensor) -> tuple[Tensor, Tensor]:
        """C, with 3K rows, and the mean p(1 − p) of each class."""
        k = p.shape[1]
        sums = torch.zeros(3, 3, k)
        gram = torch.zeros(3 * k, 3 * k)
        stride = max(
            1, len(p) // max(LEAST_ROWS, ROWS_PER_CLASS * k)
        )  # evenly among the rows: a preconditioner need not be exact
        few = torch.arange(0, len(p), stride)
        for rows in few.split(max(1, BLOCK // k)):
            q, x = p[rows].float(), self.x32[rows, :-1]
            third = torch.addcmul(self.along[rows, None], x, self.u, value=-1).div_(self.length)
            weighted = torch.stack([q * x, q, q * third], dim=1)  # (rows, 3, K)
            sums[:, 0] += (weighted * x[:, None]).sum(dim=0)
            sums[:, 1] += weighted.sum(dim=0)
            sums[:, 2] += (weighted * third[:, None]).sum(dim=0)
            flat = weighted.flatten(1)
            gram.addmm_(flat.T, flat)
        coupling = -gram.view(3, k, 3, k)
        weight = sums[1, 1] + coupling[1, :, 1].diagonal()
        coupling.diagonal(dim1=1, dim2=3).add_(sums)
        return coupling.reshape(3 * k, 3 * k) / len(few), weight / len(few)

    def preconditioner(self, curvature: object) -> Preconditioner:
        assert isinstance(curvature, tuple)
        coupling, weight = curvature
        k = len(weight)
        penalty = 2 * self.penalty.float()
        d = penalty.clone()
        d[:, :-1] += weight[:, None] * self.beside
        d.diagonal().copy_(penalty.diagonal())
        inverse = 1 / d
        third = (self.u / self.length[:, None]).fill_diagonal_(0)
        root = torch.cat([inverse.diagonal(), inverse[:, -1], (third.square() * inverse[:, :-1]).sum(dim=1)]).sqrt()
        # (C⁻¹ + G)⁻¹ = G^-½ (I − (I + G^½ C G^½)⁻¹) G^-½: no eigenvalue of what is inverted is below 1.
        system = coupling * root[:, None] * root + torch.eye(3 * k)
        middle = torch.eye(3 * k) - torch.cholesky_inverse(torch.linalg.cholesky_ex(system).L)
        middle = middle / root[:, None] / root
        third *= inverse[:, :-1]

        def solve(g: Tensor) -> Tensor:
            solved = g * inverse
            parts = torch.cat([solved.diagonal(), solved[:, -1], (g[:, :-1] * third).sum(dim=1)])
            own, offset, rest = (middle @ parts).view(3, k)
            solved[:, :-1].addcmul_(third, rest[:, None], value=-1)
            solved.diagonal().addcmul_(own, inverse.diagonal(), value=-1)
            solved[:, -1].addcmul_(offset, inverse[:, -1], value=-1)
            return solved

        return solve


class Diagonal(Problem):
    """ℓ_j = w_j z_j + b_j, A of shape (K, 2)."""

    def __init__(self, x: Tensor, y: Tensor, penalty: Tensor, centre: Tensor) -> None:
        self.x, self.x32 = x, x.float()
        self.y, self.penalty, self.centre = y, penalty, centre

    def logits(self, parameters: Tensor, x: Tensor, out: Tensor) -> Tensor:
        return torch.addcmul(parameters[:, 1], x, parameters[:, 0], out=out)

    def pull(self, changes: Tensor, x: Tensor) -> Tensor:
        return torch.stack([(changes * x).sum(dim=0), changes.sum(dim=0)], dim=1)

    @cached_property
    def label_sums(self) -> Tensor:
        own = self.x.gather(1, self.y[:, None])
        both = torch.cat([own, torch.ones_like(own)], dim=1)
        return torch.zeros_like(self.centre).index_add_(0, self.y, self.weighed(both, slice(None)))

    def curvature(self, p: Tensor) -> Tensor:
        return self.own_blocks(self.x, p)

    def preconditioner(self, curvature: object) -> Preconditioner:
        assert isinstance(curvature, Tensor)
        common = self.common().float()
        common[:, 0] = 0  # a common factor of all logits is a temperature, which softmax does see
        own = solve_own(curvature, 2 * self.penalty)
        return lambda g: own(g) + g.sum(dim=0, keepdim=True) * common


class HeldDiagonal(Diagonal):
    """``Diagonal`` with a penalty on every parameter, solved by its whole Hessian of 2K rows, up to 256 classes."""

    def newton_step(self, p: Tensor, gradient: Tensor) -> Tensor | None:
        n, k = p.shape
        if k > BLOCKS_UP_TO or self.weights is not None:
            return None
        gram, own = torch.zeros(2 * k, 2 * k), torch.zeros(3, k)
        for rows in self.blocks_of_rows():
            q, x = p[rows].float(), self.x32[rows]
            both = torch.cat([q * x, q], dim=1)
            gram.addmm_(both.T, both)
            own[0] += (both[:, :k] * x).sum(dim=0)
            own[1:] += both.sum(dim=0).view(2, k)
        hessian = -gram.double().view(2, k, 2, k)
        for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)):
            hessian[a, :, b].diagonal().add_(own[a + b])
        hessian = hessian.view(2 * k, 2 * k).div_(n)
        hessian.diagonal().add_(2 * self.penalty.T.flatten())
        factor, failed = torch.linalg.cholesky_ex(hessian)
        if bool(failed):
            return None
        return -torch.cholesky_solve(gradient.T.reshape(-1, 1), factor).view(2, k).T.contiguous()


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
    at = _evaluated(problem, start.clone())
    passes = 1
    norm = gap = float("inf")
    precondition = None if curvature is None else problem.preconditioner(curvature)
    inner, inner_before = 0, 1
    exact = False  # whether products are in float64, which is needed only where float32 fails
    for _ in range(limit):
        gradient = at.gradient
        norm = float(gradient.abs().max())
        gap = float((gradient.square() / (4 * problem.penalty)).nan_to_num(0.0, torch.inf).sum())
        if norm <= tolerance:
            return Minimum(at.parameters, at.value, norm, passes, True, curvature, gap)
        step = None if exact else problem.newton_step(at.p, gradient)
        if step is not None:
            passes += 1
        else:
            if precondition is None or inner > inner_before + 5:
                curvature = problem.curvature(at.p)
                precondition = problem.preconditioner(curvature)
            inner_before = max(inner, 1)
            # Superlinear convergence, but never more exact than the tolerance needs or float32 allows.
            forcing = max(min(0.1, norm**0.5), 0.3 * tolerance / norm, 1e-8 if exact else 1e-4)
            step, inner = _conjugate_gradients(problem, at.p, gradient, precondition, forcing, exact)
            passes += inner
        moved, trials = _line_search(problem, at, step)
        passes += trials
        if moved is None:
            if exact:
                break
            exact = True
            precondition = None
            continue
        at = moved
    return Minimum(at.parameters, at.value, norm, passes, norm <= tolerance, curvature, gap)


@dataclass(frozen=True)
class _Point:
    """f at some parameters, its gradient, and the probabilities."""

    parameters: Tensor
    value: float
    gradient: Tensor
    p: Tensor


def _evaluated(problem: Problem, a: Tensor) -> _Point:
    """One pass over the data, with one exponential for each score."""
    n, k = len(problem.y), len(problem.centre)
    p = torch.empty(n, k, dtype=torch.float64)
    nll, pulled = 0.0, torch.zeros_like(a)
    # No logit is beyond this: where exp cannot overflow or vanish, the largest of a row need not be taken off first.
    is_mild = float(a.abs().sum(dim=1).max()) * max(problem.reach, 1.0) < MILD
    for rows in problem.blocks_of_rows():
        x = problem.x[rows]
        block = problem.logits(a, x, out=p[rows])
        own = block.gather(1, problem.y[rows, None])
        if not is_mild:
            top = block.amax(dim=1, keepdim=True)
            block.sub_(top)
            own.sub_(top)
        total = block.exp_().sum(dim=1, keepdim=True)
        nll += float(problem.weighed(total.log() - own, rows).sum())
        pulled += problem.pull(problem.weighed(block.div_(total), rows), x)
    away = a - problem.centre
    value = nll / n + float((problem.penalty * away.square()).sum())
    return _Point(a, value, (pulled - problem.label_sums).div_(n) + 2 * problem.penalty * away, p)


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
    x = problem.x if exact else problem.x32
    changes = torch.empty_like(p)
    while count < INNER_LIMIT and rho > 0:
        product = penalty * direction
        for rows in problem.blocks_of_rows():
            block = problem.logits(direction, x[rows], out=changes[rows]).mul_(p[rows])
            block.addcmul_(p[rows], block.sum(dim=1, keepdim=True), value=-1)
            product.add_(problem.pull(problem.weighed(block, rows), x[rows]), alpha=1 / n)
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


def _line_search(problem: Problem, at: _Point, step: Tensor) -> tuple[_Point | None, int]:
    """The point along the step where f has decreased enough, if there is one, and how many were tried."""
    slope = float((at.gradient * step).sum())
    if not slope < 0:
        return None, 0
    length = 1.0
    for trials in range(1, 41):
        new = _evaluated(problem, at.parameters + length * step)
        rise = new.value - at.value
        # Rounding of the sum over samples hides decreases below about 1e-14: such a step is accepted unchecked.
        if rise <= 1e-4 * length * slope or abs(length * slope) < 1e-13 * (1 + abs(at.value)):
            return new, trials
        if new.value < float("inf") and rise > slope * length:
            length = max(0.1 * length, min(0.5 * length, -slope * length**2 / (2 * (rise - slope * length))))
        else:
            length *= 0.5
    return None, trials
