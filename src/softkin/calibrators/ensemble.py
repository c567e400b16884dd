r"""Ensemble temperature scaling: a mixture of the scaled, the raw and the uniform probabilities.

.. math:: p = w_1\, \mathrm{softmax}(z/T) + w_2\, \mathrm{softmax}(z) + w_3 / K, \qquad w \ge 0, \; \sum w = 1

Three weights on a simplex have seven faces: three corners, three edges, the inside. Both objectives are convex in w,
so the best point is found face by face.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from softkin import checks
from softkin.calibrators.base import TINY, Parametric, Solution
from softkin.calibrators.temperature import BLOCK, Objective, best_temperature, row_dots

# The first member is tried first, and a face replaces another only if it is better by more than rounding: so where
# T = 1 makes the first two columns equal, the mass goes to the first.
FACES = ((0,), (0, 2), (2,), (0, 1), (1,), (1, 2), (0, 1, 2))
BETTER = 1e-15
TOLERANCE = 1e-12
LIMIT = 100

Minimum = Callable[[tuple[int, ...]], Tensor | None]


@dataclass(frozen=True)
class Members:
    """What the weights depend on: the true class's scores, and the products of the members over all scores."""

    own: Tensor
    """(N, 3) scores of the true class: scaled, raw, uniform"""
    products: tuple[float, float, float]
    """Means over samples of Σ scaled², Σ scaled·raw, Σ raw²"""
    nll: float
    """Of the raw scores"""
    slopes: dict[Objective, float]
    """The derivatives in β = 1/T of the scaled member's objectives: how well T is solved for"""
    num_classes: int

    @classmethod
    def of(cls, z: Tensor, y: Tensor, beta: float) -> "Members":
        """From logits, a block of rows at a time: the members themselves need not be kept."""
        n, k = z.shape
        own = torch.full((n, 3), 1 / k, dtype=torch.float64)
        nll = ss = sr = rr = nll_slope = mse_slope = 0.0
        step = max(1, BLOCK // k)
        for start in range(0, n, step):
            rows = slice(start, start + step)
            mine = y[rows, None]
            u = z[rows] - z[rows].amax(dim=1, keepdim=True)
            u_own = u.gather(1, mine)[:, 0]
            nll -= float(u_own.sum())
            scaled = (u * beta).exp_()
            scaled.div_(scaled.sum(dim=1, keepdim=True))
            p_own, mean = scaled.gather(1, mine)[:, 0], row_dots(scaled, u)
            square = scaled * scaled
            nll_slope += float((mean - u_own).sum())
            mse_slope += 2 * float((row_dots(square, u) - mean * square.sum(dim=1) - p_own * (u_own - mean)).sum())
            raw = u.exp_()
            total = raw.sum(dim=1, keepdim=True)
            raw.div_(total)
            nll += float(total.log_().sum())
            own[rows, 0], own[rows, 1:2] = p_own, raw.gather(1, mine)
            a, b = scaled.view(-1), raw.view(-1)
            ss, sr, rr = ss + float(a @ a), sr + float(a @ b), rr + float(b @ b)
        return cls(own, (ss / n, sr / n, rr / n), nll / n, {"nll": nll_slope / n, "mse": mse_slope / n}, k)


def mse_weights(members: Members) -> tuple[Tensor, float, int]:
    """Weights of least squared error to one-hot labels, exactly: a quadratic programme in three unknowns."""
    ss, sr, rr = members.products
    u = 1 / members.num_classes  # rows sum to 1, so that every product with the uniform member is 1/K
    gram = np.array([[ss, sr, u], [sr, rr, u], [u, u, u]])
    target = members.own.mean(dim=0).numpy()

    def on_face(face: tuple[int, ...]) -> Tensor | None:
        """The minimum on the plane of a face, None where it is not inside the face or not unique."""
        m = len(face)
        system = np.ones((m + 1, m + 1))  # Lagrange: Gw + ν = t, Σw = 1
        system[:m, :m] = gram[np.ix_(face, face)]
        system[m, m] = 0
        try:
            solution = np.linalg.solve(system, np.append(target[list(face)], 1.0))
        except np.linalg.LinAlgError:
            return None
        w = np.zeros(3)
        w[list(face)] = solution[:m]
        return torch.from_numpy(w) if np.isfinite(w).all() and (w >= 0).all() else None

    def value(w: Tensor) -> float:
        v = w.numpy()
        return float(v @ gram @ v - 2 * (v @ target) + 1)

    w = _best(on_face, value)
    return w, _stationarity(torch.from_numpy(2 * (gram @ w.numpy() - target)), w), len(FACES)


def nll_weights(members: Members) -> tuple[Tensor, float, int]:
    """Weights of least NLL: only the true class's three scores matter. Newton's method on each face."""
    columns = members.own.clamp(min=TINY)
    n = len(columns)
    iterations = 0

    def value(w: Tensor) -> float:
        return float(-(columns @ w).log_().mean())

    def on_face(face: tuple[int, ...]) -> Tensor | None:
        nonlocal iterations
        w = torch.zeros(3, dtype=torch.float64)
        w[list(face)] = 1 / len(face)
        if len(face) == 1:
            return w
        # Steps of zero sum: the last member of the face takes what the others give.
        moves = columns[:, list(face[:-1])] - columns[:, [face[-1]]]
        for _ in range(LIMIT):
            iterations += 1
            ratio = moves / (columns @ w)[:, None]
            slope, curvature = -ratio.mean(dim=0), ratio.T @ ratio / n
            free, info = torch.linalg.solve_ex(curvature, -slope)
            if int(info) or not bool(torch.isfinite(free).all()):
                return None
            step = torch.zeros_like(w)
            step[list(face[:-1])] = free
            step[face[-1]] = -free.sum()
            decrement = float(-(slope @ free))
            if decrement <= TOLERANCE**2:
                return w
            inside = 0.9 * min((float(w[i] / -step[i]) for i in face if step[i] < 0), default=2.0)
            length = min(1.0, inside)
            if value(w + length * step) > value(w):
                # −ln of a linear function is self-concordant: this length never overshoots.
                length = min(inside, 1 / (1 + (n * decrement) ** 0.5))
            w = w + length * step
            if float(w[list(face)].min()) < 1e-14:
                return None  # the minimum is on a smaller face
        return w

    w = _best(on_face, value)
    return w, _stationarity(-(columns / (columns @ w)[:, None]).mean(dim=0), w), iterations


def _best(on_face: Minimum, value: Callable[[Tensor], float]) -> Tensor:
    best, least = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64), float("inf")
    for face in FACES:
        w = on_face(face)
        if w is not None and (found := value(w)) < least - BETTER * (1 + abs(found)):
            best, least = w, found
    return best


def _stationarity(gradient: Tensor, w: Tensor) -> float:
    """How far the gradient is from holding w in place: equal over what has weight, not smaller elsewhere."""
    level = float(w @ gradient)
    off = torch.where(w > 0, (gradient - level).abs(), (level - gradient).clamp(min=0))
    return float(off.max())


class EnsembleTemperatureScaling(Parametric):
    r"""Ensemble temperature scaling (ETS): w₁·softmax(z/T) + w₂·softmax(z) + w₃/K.

    First T, as ``TemperatureScaling`` finds it, then the weights, both for the same objective. With the squared error
    ("mse", as published) the weights are a quadratic programme, solved exactly. Where T = 1 makes the first two members
    equal, the mass goes to the first. The winning class never changes.

    Args:
        objective: "mse" or "nll", for T and for the weights.

    Attributes:
        temperature_: T.
        weights_: (3,) of the scaled, the raw and the uniform probabilities.

    References:
        Zhang et al., Mix-n-Match, 2020, arXiv:2003.07329, Sec. 3.3.
    """

    _fitted = _parameters = ("temperature_", "weights_")
    temperature_: float
    weights_: Tensor

    def __init__(self, *, objective: Objective = "mse") -> None:
        self.objective = objective
        self._check_options()

    def _check_options(self) -> None:
        checks.option(self.objective, "objective", ("mse", "nll"))

    def _fit(self, z: Tensor, y: Tensor) -> Solution:
        # Newton's last step need not be looked at here: the pass over the members measures the slope where it led.
        root = best_temperature(z, y, self.objective, last_step=1e-4)
        self.temperature_ = 1 / root.beta
        members = Members.of(z, y, root.beta)
        self.weights_, off, iterations = (mse_weights if self.objective == "mse" else nll_weights)(members)
        return Solution(
            gradient_norm=max(off, 0.0 if root.at_bound else abs(members.slopes[self.objective])),
            iterations=root.iterations + iterations,
            bound_hit=root.at_bound,
            converged=root.converged and off < 1e-7,
            nll=(members.nll, -float((members.own @ self.weights_).log().mean())),
            argmax_kept=bool(self.weights_[:2].sum() > 0),
        )

    @classmethod
    def _map(cls, z: Tensor, *parameters: Tensor) -> Tensor:
        temperature, w = parameters
        return w[0] * torch.softmax(z / temperature, dim=1) + w[1] * torch.softmax(z, dim=1) + w[2] / z.shape[1]

    def _summary(self) -> str:
        w = ", ".join(f"{float(value):.4g}" for value in self.weights_)
        return f"T = {self.temperature_:.6g}, weights (scaled, raw, uniform) = ({w})"
