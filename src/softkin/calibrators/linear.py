r"""Vector, matrix and Dirichlet calibration: softmax of a linear map, fitted by one converged solver (``newton``).

.. math:: p = \mathrm{softmax}(W x + b)

with x the logits and W diagonal (vector), x the logits less their mean in each row (matrix), or x = ln p of the
uncalibrated p (Dirichlet).
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from softkin._core import checks
from softkin.calibrators.calibrator import Calibrator, Parametric, Ridged
from softkin.calibrators.fitted import Solution
from softkin.calibrators.held_out import folds_of
from softkin.calibrators.newton import Affine, Diagonal, Minimum, minimise
from softkin.calibrators.temperature import mean_loss, starting_factor

EQUAL_GRID = tuple(10.0**e for e in range(-3, 3))
KULL_LAMBDAS = tuple(factor * 10.0**e for e in range(-2, 7) for factor in (0.25, 0.5, 1.0))
KULL_MUS = tuple(10.0**e for e in range(-2, 7))
SEARCH_TOLERANCE = 1e-6  # of the gradient: changes a fold's NLL by far less than 1e-6


class VectorScaling(Ridged, name="vector", candidates=({},)):
    r"""A factor and an offset for each class: softmax(w ∘ z + b).

    The minimum of the mean NLL + l2·(Σ (w_j − 1)² + Σ b_j²). The ridge towards the identity keeps the optimum finite
    where the data alone do not: a class absent from the labels, separable data, a single sample; elsewhere its
    default changes the fit by about 1e-6.

    Args:
        l2: The ridge, at least 0. With 0, data without a finite optimum end where the gradient is below 1e-7.

    Attributes:
        weight_: (K,) w.
        bias_: (K,) b.

    References:
        Guo et al., On Calibration of Modern Neural Networks, 2017, arXiv:1706.04599, Sec. 4.2.
    """

    takes_weights = True

    def fit_rows(self, z: Tensor, y: Tensor, weights: Tensor | None = None) -> Solution:
        k = z.shape[1]
        identity = torch.tensor([1.0, 0.0], dtype=torch.float64).repeat(k, 1)
        problem = Diagonal(z, y, torch.full_like(identity, self.l2), identity)
        problem.weights = weights
        end = minimise(problem, starting_factor(z, y, weights) * identity)
        self.weight_, self.bias_ = end.parameters[:, 0].clone(), end.parameters[:, 1].clone()
        return _solution(end)

    def is_shift_invariant(self) -> bool:
        return False

    @classmethod
    def mapped(cls, z: Tensor, *parameters: Tensor) -> Tensor:
        weight, bias = parameters
        return torch.softmax(z * weight + bias, dim=1)

    def folded(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        return self.weight_[:, None] * weight, self.weight_ * bias + self.bias_

    def summary(self) -> str:
        return f"weights {float(self.weight_.min()):.4g} to {float(self.weight_.max()):.4g}"


@dataclass(frozen=True)
class SearchRow:
    """A grid point of the search and its mean NLL over the folds."""

    lam: float
    mu: float
    nll: float


class _Affine(Parametric):
    """The base of matrix scaling and Dirichlet calibration, which differ only in x."""

    kept = ("weight_", "bias_", "lam_", "mu_", "sweep_")
    unused = ("lam_", "mu_", "sweep_")
    parameters = ("weight_", "bias_")
    takes_weights = True
    _features: ClassVar[Literal["logits", "log_probabilities"]]
    weight_: Tensor
    bias_: Tensor
    lam_: float
    mu_: float
    sweep_: Tensor | None

    def __init__(
        self,
        *,
        lam: float | None = None,
        mu: float | None = None,
        penalty: Literal["odir", "l2"] = "odir",
        scaling: Literal["sum", "mean"] = "sum",
        search: Literal["equal", "kull2019"] = "equal",
        combine: Literal["refit", "average"] = "refit",
        folds: int = 5,
        seed: int = 0,
        l2: float = 1e-6,
    ) -> None:
        self.lam, self.mu, self.penalty, self.scaling = lam, mu, penalty, scaling
        self.search, self.combine, self.folds, self.seed, self.l2 = search, combine, folds, seed, l2
        self.check_options()

    def check_options(self) -> None:
        checks.option(self.penalty, "penalty", ("odir", "l2"))
        checks.option(self.scaling, "scaling", ("sum", "mean"))
        checks.option(self.search, "search", ("equal", "kull2019"))
        checks.option(self.combine, "combine", ("refit", "average"))
        checks.count(self.folds, "folds", least=2)
        for name in ("lam", "mu", "l2"):
            if (value := getattr(self, name)) is not None:
                checks.at_least_zero(value, name)

    def _grid(self) -> list[list[tuple[float, float]]]:
        """The grid of the search as paths on which neighbouring points have similar solutions."""
        if self.lam is not None:
            return [[(self.lam, self.lam if self.mu is None else self.mu)]]
        if self.search == "equal":
            return [[(lam, lam if self.mu is None else self.mu) for lam in reversed(EQUAL_GRID)]]
        mus = KULL_MUS if self.mu is None else (self.mu,)
        return [[(lam, mu) for lam in KULL_LAMBDAS] for mu in mus]

    @classmethod
    def _x(cls, z: Tensor) -> Tensor:
        return centred(z) if cls._features == "logits" else torch.log_softmax(z, dim=1)

    def _problem(self, x: Tensor, y: Tensor, weights: Tensor | None) -> Affine:
        k = x.shape[1]
        centre = torch.eye(k, k + 1, dtype=torch.float64)
        made = Affine(x, y, torch.zeros_like(centre), torch.zeros_like(centre) if self.penalty == "l2" else centre)
        made.weights = None if weights is None else weights / weights.mean()
        return made

    def _penalties(self, lam: float, mu: float, problem: Affine) -> Tensor:
        """The penalties R of ``newton``."""
        loose = _loose(problem.x[:, :-1], problem.y)
        k = len(loose)
        if self.scaling == "mean":
            lam, mu = lam / (k * (k - 1) if self.penalty == "odir" else k * k), mu / k
        r = torch.full((k, k + 1), lam, dtype=torch.float64)
        r[:, -1] = mu
        if self.penalty == "odir":
            r.diagonal().zero_()
        return torch.where((r == 0) & loose[:, None], self.l2, r)  # the rows of a class, its own weight among them

    def fit_rows(self, z: Tensor, y: Tensor, weights: Tensor | None = None) -> Solution:
        if weights is not None:  # a class whose rows count nothing is absent
            z, y, weights = z[weights > 0], y[weights > 0], weights[weights > 0]
        x = self._x(z)
        n, k = x.shape
        notes: list[str] = []
        if loose := int(_loose(x, y).sum()):
            notes.append(f"a ridge of {self.l2:g} bounds the free weights of {loose} classes")
        walks = self._grid()
        fold_ends: list[Minimum] = []
        self.sweep_ = None
        self.lam_, self.mu_ = walks[0][0]
        if len(walks) * len(walks[0]) > 1 or self.combine == "average":
            if n >= 2:
                fold_ends, unfinished = self._cross_validate(x, y, weights, walks)
                if unfinished:
                    notes.append(f"{unfinished} fits of the search did not converge")
            else:
                notes.append(f"one sample allows no search: the grid's largest λ, {self.lam_:g}, is used")
        if fold_ends and self.combine == "average":
            stacked = torch.stack([end.parameters for end in fold_ends])
            self.weight_, self.bias_ = stacked[:, :, :-1].contiguous(), stacked[:, :, -1].contiguous()
            return Solution(
                gradient_norm=max(end.gradient_norm for end in fold_ends),
                iterations=sum(end.iterations for end in fold_ends),
                converged=all(end.converged for end in fold_ends),
                notes=(*notes, f"the mean of the models of {len(fold_ends)} folds, each to its own gradient"),
            )
        problem = self._problem(x, y, weights)
        problem.penalty = self._penalties(self.lam_, self.mu_, problem)
        end = minimise(problem, starting_factor(x, y, weights) * torch.eye(k, k + 1, dtype=torch.float64))
        self.weight_, self.bias_ = end.parameters[:, :-1].contiguous(), end.parameters[:, -1].contiguous()
        return _solution(end, tuple(notes))

    def _cross_validate(
        self, x: Tensor, y: Tensor, weights: Tensor | None, walks: list[list[tuple[float, float]]]
    ) -> tuple[list[Minimum], int]:
        """Choose λ and μ by the mean NLL of the folds.

        Returns the fold models of the chosen point, if ``combine`` asks for their mean, and how many fits of the search
        did not converge.

        All grid points of a fold share its data and its blocks of the Hessian, and each fit starts where its neighbour
        ended. Paths alternate in direction, so that each begins next to the end of the previous one.
        """
        k = x.shape[1]
        nll: dict[tuple[float, float], float] = {}
        parts = folds_of(len(x), self.folds, self.seed)
        ends: list[Minimum] = []
        unfinished = 0
        fold_problems = []
        for held in parts:
            rest = torch.ones(len(x), dtype=torch.bool)
            rest[held] = False
            problem = self._problem(x[rest], y[rest], None if weights is None else weights[rest])
            fold_problems.append(problem)
            factor = starting_factor(problem.x[:, :-1], problem.y, problem.weights)
            at, curvature = factor * torch.eye(k, k + 1, dtype=torch.float64), None
            for number, walk in enumerate(walks):
                for place in walk if number % 2 == 0 else reversed(walk):
                    problem.penalty = self._penalties(*place, problem)
                    end = minimise(problem, at, tolerance=SEARCH_TOLERANCE, curvature=curvature)
                    at, curvature = end.parameters, end.curvature
                    unfinished += not end.converged
                    log_p = torch.log_softmax(x[held] @ at[:, :-1].T + at[:, -1], dim=1)
                    loss = mean_loss(log_p, y[held], None if weights is None else weights[held])
                    nll[place] = nll.get(place, 0.0) + loss / len(parts)
        self.sweep_ = torch.tensor([(*place, nll[place]) for place in sorted(nll)], dtype=torch.float64)
        self.lam_, self.mu_ = min(sorted(nll), key=lambda place: nll[place])
        if self.combine == "average":
            for problem in fold_problems:
                problem.penalty = self._penalties(self.lam_, self.mu_, problem)
                factor = starting_factor(problem.x[:, :-1], problem.y, problem.weights)
                ends.append(minimise(problem, factor * torch.eye(k, k + 1, dtype=torch.float64)))
        return ends, unfinished

    @classmethod
    def mapped(cls, z: Tensor, *parameters: Tensor) -> Tensor:
        w, b = parameters
        x = cls._x(z)
        if w.ndim == 2:
            return torch.softmax(x @ w.T + b, dim=1)
        return torch.stack([torch.softmax(x @ w[f].T + b[f], dim=1) for f in range(len(w))]).mean(dim=0)

    def sweep(self) -> list[SearchRow]:
        """Every (λ, μ) that the search tried, with its mean NLL over the folds; empty if both were set."""
        self.check_fitted()
        return [] if self.sweep_ is None else [SearchRow(*row) for row in self.sweep_.tolist()]

    def summary(self) -> str:
        return f"λ = {self.lam_:g}, μ = {self.mu_:g}"


def _loose(x: Tensor, y: Tensor) -> Tensor:
    """The classes whose own weights, which have no penalty, would grow without bound.

    These are classes that never occur, or all classes if the winning class is always right.
    """
    if bool((x.argmax(dim=1) == y).all()):
        return torch.ones(x.shape[1], dtype=torch.bool)
    return torch.bincount(y, minlength=x.shape[1]) == 0


def _solution(end: Minimum, notes: tuple[str, ...] = ()) -> Solution:
    return Solution(gradient_norm=end.gradient_norm, iterations=end.iterations, converged=end.converged, notes=notes)


class MatrixScaling(_Affine, name="matrix", searches=({},)):
    r"""A linear map of the logits, softmax(W (z − z̄) + b), with off-diagonal and intercept regularisation (MS-ODIR).

    Fitted, penalised and searched like ``DirichletCalibration``, but on the logits themselves instead of ln p; the
    options and attributes are described there. The mean z̄ of each row, which softmax does not see, is taken off first:
    rows that differ by large constants, such as log-joints, would leave no digits for their differences.

    References:
        Guo et al., 2017, arXiv:1706.04599, Sec. 4.2; Kull et al., 2019, arXiv:1910.12656, Sec. 3.
    """

    _features = "logits"

    def folded(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        if self.weight_.ndim != 2:  # a mean of several
            return super().folded(weight, bias)
        return self.weight_ @ (weight - weight.mean(dim=0)), self.weight_ @ (bias - bias.mean()) + self.bias_


def centred(z: Tensor) -> Tensor:
    """Each row less its mean."""
    return z - z.mean(dim=1, keepdim=True)


class DirichletCalibration(_Affine, name="dirichlet", title="Dir-ODIR", aliases=("dir",), searches=({},)):
    r"""Dirichlet calibration: softmax(W ln p + b), p the uncalibrated probabilities.

    The minimum, in float64 and to a gradient of 1e-7, of

    .. math:: \frac1n \sum_i -\ln q_{i y_i} + \lambda \sum_{i \ne j} w_{ij}^2 + \mu \sum_j b_j^2

    (off-diagonal and intercept regularisation, ODIR), from W = I, b = 0. The diagonal is free; where a class never
    occurs or every sample is predicted right, it would grow without bound, and a ridge ``l2`` towards 1 bounds it.

    Args:
        lam: λ. None: chosen by the folds' mean NLL, from 10^{−3 … 2} with μ = λ, or as ``search`` says.
        mu: μ. None: equal to λ, or chosen as well with ``search="kull2019"``.
        penalty: "odir", or "l2": λ Σ w² over all of W, towards 0, and μ Σ b².
        scaling: "sum" as written above and in the reference code, or "mean": λ/(K(K−1)), μ/K (for "l2" λ/K²).
        search: "equal", or "kull2019": the published 27 × 9 grid, λ ∈ {1/4, 1/2, 1}·10^{−2 … 6}, μ ∈ 10^{−2 … 6}.
        combine: "refit" on all the data at the chosen (λ, μ), or "average": the mean of the fold models'
            probabilities, as published.
        folds: The number of folds of the search.
        seed: The seed that divides the samples into folds.
        l2: The ridge for parameters without a finite optimum.

    Attributes:
        weight_: (K, K) W; with ``combine="average"`` (folds, K, K).
        bias_: (K,) b; with ``combine="average"`` (folds, K).
        lam_: The λ used.
        mu_: The μ used.
        sweep_: (points, 3) λ, μ and mean fold NLL of the search, or None. ``sweep()`` names the columns.

    Example:
        >>> p = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.2, 0.8]], dtype=torch.float64)
        >>> cal = DirichletCalibration(lam=0.1).fit(p, torch.tensor([0, 1, 0, 1]), from_probabilities=True)
        >>> cal.certificate_.converged, cal.certificate_.gradient_norm < 1e-7
        (True, True)

    References:
        Kull et al., Beyond temperature scaling, 2019, arXiv:1910.12656, Sec. 3 and 4.
    """

    _features = "log_probabilities"


@torch.no_grad()
def fold_into_linear(calibrator: Calibrator, linear: nn.Linear) -> nn.Linear:
    r"""The network's last layer with the calibration folded in: the softmax of its outputs is calibrated.

    With z = A x + a of the layer: temperature gives A/T, a/T; vector scaling diag(w) A, w∘a + b; matrix scaling W A,
    W a + b. Others cannot be folded exactly (Dirichlet needs ln p, not z): use ``as_module``.

    Args:
        calibrator: A calibrator fitted on the logits of this layer.
        linear: The layer; it is not changed.

    Returns:
        A new layer of the same type, on the same device, with a bias.
    """
    calibrator.check_fitted()
    if linear.out_features != calibrator.num_classes_:
        raise ValueError(
            f"`linear` must have {calibrator.num_classes_} outputs, one for each class of the calibrator, "
            f"got {linear.out_features}."
        )
    weight = linear.weight.detach().cpu().to(torch.float64)
    bias = weight.new_zeros(len(weight)) if linear.bias is None else linear.bias.detach().cpu().to(torch.float64)
    if not calibrator.fell_back_:
        if calibrator.fitted_from_ != "logits" and not calibrator.is_shift_invariant():
            raise ValueError(
                "the calibrator was fitted on probabilities, and a layer returns logits: fit it on logits."
            )
        weight, bias = calibrator.folded(weight, bias)
    folded = nn.Linear(linear.in_features, linear.out_features, device=linear.weight.device, dtype=linear.weight.dtype)
    folded.weight.copy_(weight)
    folded.bias.copy_(bias)
    return folded
