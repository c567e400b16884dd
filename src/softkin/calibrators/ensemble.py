r"""Ensemble temperature scaling: a mixture of the scaled, the raw and the uniform probabilities.

.. math:: p = w_1\, \mathrm{softmax}(z/T) + w_2\, \mathrm{softmax}(z) + w_3 / K, \qquad w \ge 0, \; \sum w = 1

Three weights on a simplex have seven faces: three corners, three edges, the inside. Both objectives are convex in w,
so the best point is found face by face.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from softkin import checks
from softkin.calibrators.base import TINY, Parametric, Solution
from softkin.calibrators.temperature import Objective, best_temperature

# The first member is tried first, and a face replaces another only if it is better by more than rounding: so where
# T = 1 makes the first two columns equal, the mass goes to the first.
FACES = ((0,), (0, 2), (2,), (0, 1), (1,), (1, 2), (0, 1, 2))
BETTER = 1e-15
TOLERANCE = 1e-12
LIMIT = 100

Minimum = Callable[[tuple[int, ...]], Tensor | None]


def mse_weights(scaled: Tensor, raw: Tensor, y: Tensor) -> tuple[Tensor, float, int]:
    """Weights of least squared error to one-hot labels, exactly: a quadratic programme in three unknowns."""
    n, k = scaled.shape
    a, b = scaled.reshape(-1), raw.reshape(-1)
    ab = float(a @ b)
    # Columns sum to n, and so do the labels: the products with the uniform column are all n/K.
    gram = torch.tensor([[float(a @ a), ab, n / k], [ab, float(b @ b), n / k], [n / k] * 3], dtype=torch.float64) / n
    own = y[:, None]
    target = torch.stack(
        [scaled.gather(1, own).mean(), raw.gather(1, own).mean(), torch.tensor(1 / k, dtype=torch.float64)]
    )

    def on_face(face: tuple[int, ...]) -> Tensor | None:
        """The minimum on the plane of a face, None where it is not inside the face or not unique."""
        m = len(face)
        system = torch.zeros(m + 1, m + 1, dtype=torch.float64)  # Lagrange: Gw + ν = t, Σw = 1
        system[:m, :m] = gram[list(face)][:, list(face)]
        system[:m, m] = system[m, :m] = 1
        solution, info = torch.linalg.solve_ex(system, torch.cat([target[list(face)], target.new_ones(1)]))
        if int(info) or not bool(torch.isfinite(solution).all()):
            return None
        w = torch.zeros(3, dtype=torch.float64)
        w[list(face)] = solution[:m]
        return w if bool((w >= 0).all()) else None

    def value(w: Tensor) -> float:
        return float(w @ gram @ w - 2 * (w @ target) + 1)

    w = _best(on_face, value)
    return w, _stationarity(2 * (gram @ w - target), w), len(FACES)


def nll_weights(scaled: Tensor, raw: Tensor, y: Tensor) -> tuple[Tensor, float, int]:
    """Weights of least NLL: only the true class's three scores matter. Newton's method on each face."""
    n, k = scaled.shape
    own = y[:, None]
    columns = torch.cat([scaled.gather(1, own), raw.gather(1, own), scaled.new_full((n, 1), 1 / k)], dim=1)
    columns.clamp_(min=TINY)
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
        root = best_temperature(z, y, self.objective)
        self.temperature_ = 1 / root.beta
        log_raw = torch.log_softmax(z, dim=1)
        raw = log_raw.exp()
        scaled = torch.softmax(z * root.beta, dim=1)
        solve = mse_weights if self.objective == "mse" else nll_weights
        self.weights_, off, iterations = solve(scaled, raw, y)
        own = y[:, None]
        w = self.weights_
        after = w[0] * scaled.gather(1, own) + w[1] * raw.gather(1, own) + w[2] / z.shape[1]
        return Solution(
            gradient_norm=max(off, 0.0 if root.at_bound else abs(root.slope)),
            iterations=root.iterations + iterations,
            bound_hit=root.at_bound,
            converged=root.converged and off < 1e-7,
            nll=(float(-log_raw.gather(1, own).mean()), float(-after.log().mean())),
            argmax_kept=bool(w[:2].sum() > 0),
        )

    @classmethod
    def _map(cls, z: Tensor, *parameters: Tensor) -> Tensor:
        temperature, w = parameters
        return w[0] * torch.softmax(z / temperature, dim=1) + w[1] * torch.softmax(z, dim=1) + w[2] / z.shape[1]

    def _summary(self) -> str:
        w = ", ".join(f"{float(value):.4g}" for value in self.weights_)
        return f"T = {self.temperature_:.6g}, weights (scaled, raw, uniform) = ({w})"
