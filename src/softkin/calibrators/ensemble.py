r"""Ensemble temperature scaling: a mixture of the scaled, the raw and the uniform probabilities.

.. math:: p = w_1\, \mathrm{softmax}(z/T) + w_2\, \mathrm{softmax}(z) + w_3 / K, \qquad w \ge 0, \; \sum w = 1

Three weights on a simplex have seven faces: three corners, three edges, the inside. Both objectives are convex in w,
so the best point is found face by face.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softkin._core import checks
from softkin.calibrators.calibrator import Parametric
from softkin.calibrators.fitted import Solution
from softkin.calibrators.temperature import BLOCK, Objective, below_top, best_temperature, row_dots, weighted_sum
from softkin.calibrators.zeros import TINY

# The first member is tried first, and a face replaces another only if it is better by more than rounding. So if T = 1
# makes the first two members equal, the weight goes to the first.
FACES = ((0,), (0, 2), (2,), (0, 1), (1,), (1, 2), (0, 1, 2))
BETTER = 1e-15
TOLERANCE = 1e-12
LIMIT = 100

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Members:
    """The data that the weights depend on: scores of the true class, and mean products of the members' scores."""

    own: Tensor
    """(N, 3) scores of the true class: scaled, raw, uniform"""
    products: tuple[float, float, float]
    """Means over samples of Σ scaled², Σ scaled·raw, Σ raw²"""
    nll: float
    """The NLL of the raw scores"""
    slopes: dict[Objective, float]
    """The derivative of the scaled member's objectives in β = 1/T, which shows how exactly T was solved"""
    num_classes: int
    weights: Tensor | None = None
    """(N,) weights of the samples, with the mean 1"""

    @classmethod
    def of(cls, below: Tensor, own_below: Tensor, y: Tensor, beta: float, weights: Tensor | None = None) -> "Members":
        """Compute them from logits of ``below_top``, one block of rows at a time, without keeping the members."""
        n, k = below.shape
        own = torch.full((n, 3), 1 / k, dtype=torch.float64)
        nll = ss = sr = rr = nll_slope = mse_slope = 0.0
        step = max(1, BLOCK // k)
        buffers = torch.empty(3, min(n, step), k, dtype=torch.float64)  # reused, as allocating for each block is slower
        for start in range(0, n, step):
            rows = slice(start, start + step)
            mine = y[rows, None]
            u, u_own = below[rows], own_below[rows]
            scaled, square, raw = buffers[:, : len(u)]
            nll -= weighted_sum(u_own, weights, rows)
            torch.mul(u, beta, out=scaled).exp_()
            scaled.div_(scaled.sum(dim=1, keepdim=True))
            p_own, mean = scaled.gather(1, mine)[:, 0], row_dots(scaled, u)
            torch.mul(scaled, scaled, out=square)
            nll_slope += weighted_sum(mean - u_own, weights, rows)
            departed = row_dots(square, u) - mean * square.sum(dim=1) - p_own * (u_own - mean)
            mse_slope += 2 * weighted_sum(departed, weights, rows)
            torch.exp(u, out=raw)
            total = raw.sum(dim=1, keepdim=True)
            raw.div_(total)
            nll += weighted_sum(total.log_()[:, 0], weights, rows)
            own[rows, 0], own[rows, 1:2] = p_own, raw.gather(1, mine)
            ss += weighted_sum(row_dots(scaled, scaled), weights, rows)
            sr += weighted_sum(row_dots(scaled, raw), weights, rows)
            rr += weighted_sum(row_dots(raw, raw), weights, rows)
        return cls(own, (ss / n, sr / n, rr / n), nll / n, {"nll": nll_slope / n, "mse": mse_slope / n}, k, weights)

    def mean(self, values: Floats) -> Floats:
        """The mean over samples, by their weights."""
        return np.average(values, axis=0, weights=None if self.weights is None else self.weights.numpy())


def quadratic_minimum(gram: Floats, target: Floats) -> Floats:
    """The w on the simplex that minimises w·G·w/2 − w·t, found exactly, face by face."""
    best, least = np.array([1.0, 0.0, 0.0]), np.inf
    for face in FACES:
        m = len(face)
        system = np.ones((m + 1, m + 1))  # Lagrange: Gw + ν = t, Σw = 1
        system[:m, :m] = gram[np.ix_(face, face)]
        system[m, m] = 0
        try:
            solution = np.linalg.solve(system, np.append(target[list(face)], 1.0))
        except np.linalg.LinAlgError:
            continue  # the objective is constant on this face, so its edges have the same minimum
        w = np.zeros(3)
        w[list(face)] = solution[:m]
        if np.isfinite(w).all() and (w >= 0).all():
            value = float(w @ gram @ w / 2 - w @ target)
            if value < least - BETTER * (1 + abs(value)):
                best, least = w, value
    return best


def mse_weights(members: Members) -> tuple[Tensor, float, int]:
    """Weights with the least squared error to one-hot labels: a quadratic programme in three unknowns."""
    ss, sr, rr = members.products
    u = 1 / members.num_classes  # rows sum to 1, so that every product with the uniform member is 1/K
    gram = np.array([[ss, sr, u], [sr, rr, u], [u, u, u]])
    target = members.mean(members.own.numpy())
    w = quadratic_minimum(gram, target)
    return torch.from_numpy(w), _stationarity(2 * (gram @ w - target), w), 1


def nll_weights(members: Members) -> tuple[Tensor, float, int]:
    """Weights with the least NLL, which depends only on the three scores of the true class.

    Newton's method on the simplex: each step goes towards the exact minimum of the quadratic model on the simplex.
    """
    columns = members.own.clamp(min=TINY).numpy()

    def value(w: Floats) -> float:
        return float(-members.mean(np.log(columns @ w)))

    w = np.array([0.5, 0.0, 0.5])  # 0 for the second member: where it equals the first, it stays 0
    iterations, off = 0, np.inf
    while iterations < LIMIT:
        iterations += 1
        ratio = columns / (columns @ w)[:, None]
        gradient, hessian = -members.mean(ratio), members.mean(ratio[:, :, None] * ratio[:, None, :])
        off = _stationarity(gradient, w)
        step = quadratic_minimum(hessian, hessian @ w - gradient) - w
        fall = float(gradient @ step)
        if off <= TOLERANCE or fall >= 0:
            break
        length, now = 1.0, value(w)
        while value(w + length * step) > now + 1e-4 * length * fall and length > 1e-10:
            length /= 2
        if length <= 1e-10:
            break  # the decrease is below rounding
        w = w + length * step
        w = np.where(w < 1e-15, 0.0, w)
    return torch.from_numpy(w / w.sum()), off, iterations


def _stationarity(gradient: Floats, w: Floats) -> float:
    """How far w is from the optimality condition: equal gradients where w > 0, none smaller elsewhere."""
    level = float(w @ gradient)
    return float(np.where(w > 0, np.abs(gradient - level), np.maximum(level - gradient, 0)).max())


class EnsembleTemperatureScaling(
    Parametric, name="ensemble-temperature", title="ETS", candidates=({}, {"objective": "nll"}), quick=True
):
    r"""Ensemble temperature scaling (ETS): w₁·softmax(z/T) + w₂·softmax(z) + w₃/K.

    T is fitted first, as in ``TemperatureScaling``, then the weights, for the same objective. With the squared error
    ("mse", as published) the weights are a quadratic programme, solved exactly. Where T = 1 makes the first two members
    equal, the mass goes to the first. The winning class never changes.

    Args:
        objective: "mse" or "nll", for T and for the weights.

    Attributes:
        temperature_: T.
        weights_: (3,) weights of the scaled, the raw and the uniform probabilities.

    References:
        Zhang et al., Mix-n-Match, 2020, arXiv:2003.07329, Sec. 3.3.
    """

    kept = parameters = ("temperature_", "weights_")
    takes_weights = True
    temperature_: float
    weights_: Tensor

    def __init__(self, *, objective: Objective = "mse") -> None:
        self.objective = objective
        self.check_options()

    def check_options(self) -> None:
        checks.option(self.objective, "objective", ("mse", "nll"))

    def fit_rows(self, z: Tensor, y: Tensor, weights: Tensor | None = None) -> Solution:
        u, own = below_top(z, y)
        least = best_temperature(u, own, self.objective, weights)
        self.temperature_ = 1 / least.beta
        members = Members.of(u, own, y, least.beta, weights)
        self.weights_, off, iterations = (mse_weights if self.objective == "mse" else nll_weights)(members)
        return Solution(
            gradient_norm=max(off, 0.0 if least.at_bound else abs(members.slopes[self.objective])),
            iterations=least.iterations + iterations,
            bound_hit=least.at_bound,
            converged=least.converged and off < 1e-7,
            nll=(members.nll, -float(members.mean((members.own @ self.weights_).log().numpy()))),
            argmax_kept=bool(self.weights_[:2].sum() > 0),
        )

    @classmethod
    def mapped(cls, z: Tensor, *parameters: Tensor) -> Tensor:
        temperature, w = parameters
        return w[0] * torch.softmax(z / temperature, dim=1) + w[1] * torch.softmax(z, dim=1) + w[2] / z.shape[1]

    def summary(self) -> str:
        w = ", ".join(f"{float(value):.4g}" for value in self.weights_)
        return f"T = {self.temperature_:.6g}, weights (scaled, raw, uniform) = ({w})"
