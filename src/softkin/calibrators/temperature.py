r"""Temperature scaling: one number that makes all logits milder or sharper.

.. math:: p = \mathrm{softmax}(z / T) = \mathrm{softmax}(\beta z), \qquad \beta = 1/T

The mean NLL is convex in β, so it is solved in β: Halley's steps, which three derivatives make cubic, kept inside a
bracket that each slope shrinks, from the solution on a few rows, so that the whole data are passed over twice.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from softkin import checks
from softkin.calibrators.base import Parametric, Solution

Objective = Literal["nll", "mse"]

REACH = 1e3  # T stays within this factor of the logits' range: beyond, softmax is one-hot or uniform to 1e-3 and better
STEP = 1e-7  # relative: where Newton would go by less, it has arrived
SURE = 1e-5  # relative: what a step of Halley's of this size leaves is about its third power, 1e-15
FLAT = 1e-14
SCAN_ROWS = 64
# Rows to start from, and the relative step that is the last one there: they are further off than its square.
STARTS = ((SCAN_ROWS, 0.2), (1024, 0.05))
APART = 1.5  # starts that differ by less lie in one valley
LARGE = 1e60  # ranges of logits beyond it, or below its inverse, are scaled first
BLOCK = 2**17  # numbers at a time: one megabyte, so that the passes over a block stay in the cache
CELLS = 24  # places where the squared error, which has no single valley, is looked at first

Derivatives = Callable[[float], tuple[float, float, float, float]]
"""β → the objective and its first three derivatives; a third of 0 makes Halley's steps Newton's"""


@dataclass(frozen=True)
class Root:
    """Where the derivative of an objective vanishes, or the bound that it drives towards."""

    beta: float
    value: float
    slope: float
    iterations: int
    at_bound: bool
    converged: bool


def row_dots(a: Tensor, b: Tensor) -> Tensor:
    """Σ_k a_k b_k of each row in one pass, by numpy: torch writes the products down first."""
    return torch.from_numpy(np.einsum("ij,ij->i", a.numpy(), b.numpy()))


def below_top(z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """(u, own): logits less the largest of their row, so that exp cannot overflow, and those of the true classes."""
    u = z - z.amax(dim=1, keepdim=True)
    return u, u.gather(1, y[:, None])[:, 0]


def _nll_derivatives(u: Tensor, own: Tensor) -> Derivatives:
    """Mean NLL of softmax(βu), and its first three derivatives in β: mean, variance, third cumulant of u under it."""
    m = -float(own.mean())
    n, step = len(u), max(1, BLOCK // u.shape[1])
    e, eu = torch.empty_like(u[:step]), torch.empty_like(u[:step])

    def at(beta: float) -> tuple[float, float, float, float]:
        value = slope = curvature = third = 0.0
        for start in range(0, n, step):
            block = u[start : start + step]
            size = len(block)
            torch.mul(block, beta, out=e[:size]).exp_()
            torch.mul(e[:size], block, out=eu[:size])
            total = e[:size].sum(dim=1)
            mean = eu[:size].sum(dim=1).div_(total)
            euu = torch.mul(eu[:size], block, out=e[:size])
            square = euu.sum(dim=1).div_(total)
            cube = row_dots(euu, block).div_(total)
            variance = square - mean * mean
            value += float(total.log_().sum())
            slope += float(mean.sum())
            curvature += float(variance.sum())
            third += float((cube - mean * (square + 2 * variance)).sum())
        return value / n + beta * m, slope / n + m, curvature / n, third / n

    return at


def _mse_derivatives(u: Tensor, own: Tensor) -> Derivatives:
    r"""Mean over samples of Σ_k (p_k − [k = y])² for p = softmax(βz), and its first two derivatives in β.

    With z̄ and V the mean and variance of z under p: p_k' = p_k(z_k − z̄), p_k'' = p_k((z_k − z̄)² − V). All that the
    three need of a row are the sums of p, pz, pz², p², p²z, p²z².
    """
    n, step = len(u), max(1, BLOCK // u.shape[1])
    e, eu = torch.empty_like(u[:step]), torch.empty_like(u[:step])

    def at(beta: float) -> tuple[float, float, float, float]:
        value = slope = curvature = 0.0
        for start in range(0, n, step):
            block = u[start : start + step]
            rows = slice(0, len(block))
            torch.mul(block, beta, out=e[rows]).exp_()
            torch.mul(e[rows], block, out=eu[rows])
            total = e[rows].sum(dim=1)
            mean = eu[rows].sum(dim=1) / total
            variance = row_dots(eu[rows], block) / total - mean * mean
            total.mul_(total)
            pp = row_dots(e[rows], e[rows]) / total
            ppz = row_dots(e[rows], eu[rows]) / total
            ppzz = row_dots(eu[rows], eu[rows]) / total
            z_own = own[start : start + step]
            p_own = torch.exp(beta * z_own) / total.sqrt()
            d_own = z_own - mean
            value += float((pp - 2 * p_own + 1).sum())
            slope += 2 * float((ppz - mean * pp - p_own * d_own).sum())
            spread = ppzz - 2 * mean * ppz + mean * mean * pp
            curvature += 2 * float((2 * spread - variance * pp - p_own * (d_own * d_own - variance)).sum())
        return value / n, slope / n, curvature / n, 0.0

    return at


def _descend(
    at: Derivatives, start: float, low: float, high: float, *, last_step: float = 0.0, limit: int = 100
) -> Root:
    """A root of the slope in [low, high] by Halley's method, where a step that leaves the bracket halves it instead.

    A relative step of at most ``last_step`` is taken and not looked at again: its error is about its square, or its
    third power where the third derivative is known. Value and slope are then those before it, or, after steps that
    leave Taylor's series no error that float64 could hold, what that series says of the end.
    """
    lowest, highest = low, high
    beta = min(max(start, low), high)
    for iteration in range(1, limit + 1):
        value, slope, curvature, third = at(beta)
        bound = highest if slope < 0 else lowest  # where the slope points to
        if beta == bound:
            return Root(beta, value, slope, iteration, True, True)
        step = -slope / curvature if curvature > 0 else bound - beta
        # Done if Newton would hardly move, or if doubling β could not change the objective's fifteenth digit.
        if abs(step) <= STEP * beta or abs(slope) * beta <= FLAT:
            return Root(beta, value, slope, iteration, False, True)
        bend = curvature + 0.5 * third * step
        # Near a root the bend is slight. Where scores saturate it is all there is, and Halley would crawl.
        if curvature > 0 and 0.5 * curvature < bend < 2 * curvature:
            step = -slope / bend
        low, high = (beta, high) if slope < 0 else (low, beta)
        new = beta + step
        if abs(step) <= SURE * beta and third and low < new < high:
            value += step * (slope + step * (curvature / 2 + step * third / 6))
            slope += step * (curvature + step * third / 2)
            return Root(new, value, slope, iteration, False, True)
        if abs(step) <= last_step * beta and low < new < high:
            return Root(new, value, slope, iteration, False, True)
        if not low < new < high:
            unexplored = high == highest if slope < 0 else low == lowest
            new = bound if unexplored else (low * high) ** 0.5
        beta = new
    return Root(beta, value, slope, limit, False, False)


def bracket(u: Tensor, own: Tensor) -> tuple[float, float] | None:
    """The range of β, from the rows' ranges of logits; None where every row is constant and β does nothing.

    The least NLL is at most that of β = 0, ln K, and at least −β·mean(own): no solution lies above ln K / −mean(own).
    """
    spread = -u.amin(dim=1)
    spread = spread[spread > 0]
    if not len(spread):
        return None
    high = REACH / float(spread.median())
    if bool(own.any()):
        high = max(high, math.log(u.shape[1]) / -float(own.mean()))
    return 1 / (REACH * float(spread.max())), high


def _scan(u: Tensor, own: Tensor, low: float, high: float) -> float:
    """Where a few rows have their least squared error, among β spread over the bracket."""
    few = slice(None, None, -(-len(u) // SCAN_ROWS))
    betas = torch.logspace(0, 1, CELLS + 1, base=high / low, dtype=torch.float64)[:, None] * low
    scores = (betas[:, :, None] * u[few]).exp_()
    total = scores.sum(dim=2)
    error = scores.square_().sum(dim=2) / total.square() - 2 * (betas * own[few]).exp_() / total
    return float(betas[error.mean(dim=1).argmin(), 0])


def best_temperature(u: Tensor, own: Tensor, objective: Objective, *, last_step: float = 0.0) -> Root:
    """β = 1/T that minimises the objective, for logits as ``below_top`` has them; ``last_step`` as for ``_descend``."""
    scale = float(-u.amin())
    if scale and not 1 / LARGE < scale < LARGE:  # powers of such logits leave float64: solved for those of range 1
        root = best_temperature(u / scale, own / scale, objective, last_step=last_step)
        return replace(root, beta=root.beta / scale)
    limits = bracket(u, own)
    derivatives = _nll_derivatives if objective == "nll" else _mse_derivatives
    at = derivatives(u, own)
    if limits is None:
        return Root(1.0, at(1.0)[0], 0.0, 1, False, True)
    low, high = limits
    if not bool(own.any()):  # no class is above the true one: the sharper the better, without end
        return Root(high, *at(high)[:2], 1, True, True)
    start = _scan(u, own, low, high) if objective == "mse" else 1.0
    for rows, last in STARTS:
        if len(u) > 2 * rows:
            few = slice(None, None, -(-len(u) // rows))
            root = _descend(derivatives(u[few].contiguous(), own[few]), start, low, high, last_step=last)
            start = start if root.at_bound else root.beta
    if objective == "mse":  # which has several valleys, and few rows may show another: the NLL has one
        few = slice(None, None, -(-len(u) // STARTS[-1][0]))
        other = best_temperature(u[few].contiguous(), own[few], "nll", last_step=STARTS[-1][1]).beta
        other = min(max(other, low), high)
        if max(start, other) > APART * min(start, other):
            start = min(start, other, key=lambda beta: at(beta)[0])
    return _descend(at, start, low, high, last_step=last_step)


def starting_factor(z: Tensor, y: Tensor) -> float:
    """The best temperature's β, to start other methods from: where all scores are 0 and 1, they see no curvature."""
    root = best_temperature(*below_top(z, y), "nll")
    return min(root.beta, 1.0) if root.at_bound else root.beta


class TemperatureScaling(Parametric, name="temperature", title="TS", candidates=({},), quick=True):
    r"""One temperature for all classes: softmax(z / T).

    T is the minimum of the mean NLL (convex in 1/T, found to 1e-7 of itself) or of the squared error ("mse",
    the Brier score). It lies within 1,000 times the logits' range, or wherever the least NLL can lie; data that are
    all predicted right, whose best T is 0, or worse than chance, whose best is infinite, end at that bound, and
    ``certificate_.bound_hit`` says so. The winning class never changes.

    T > 1 says that the model was over-confident, T < 1 that it was under-confident, as one trained on smooth labels
    often is.

    Args:
        objective: "nll" or "mse".

    Attributes:
        temperature_: T.

    Example:
        >>> logits = torch.tensor([[2.0, 0.0], [2.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
        >>> cal = TemperatureScaling().fit(logits, torch.tensor([0, 0, 1, 1]))  # 3 of 4 right: p = 3/4 is calibrated
        >>> round(float(cal.predict_proba(logits)[0, 0]), 6), round(cal.temperature_, 4)
        (0.75, 1.8205)

    References:
        Guo et al., On Calibration of Modern Neural Networks, 2017, arXiv:1706.04599, Sec. 4.2.
    """

    _fitted = _parameters = ("temperature_",)
    temperature_: float

    def __init__(self, *, objective: Objective = "nll") -> None:
        self.objective = objective
        self._check_options()

    def _check_options(self) -> None:
        checks.option(self.objective, "objective", ("nll", "mse"))

    def _fit(self, z: Tensor, y: Tensor) -> Solution:
        u, own = below_top(z, y)
        root = best_temperature(u, own, self.objective)
        self.temperature_ = 1 / root.beta
        before = float((u.exp_().sum(dim=1).log_() - own).mean())  # u is not needed any more
        if self.objective == "nll":
            after = root.value
        else:
            cold = z / self.temperature_
            after = float((cold.logsumexp(dim=1) - cold.gather(1, y[:, None])[:, 0]).mean())
        return Solution(
            gradient_norm=0.0 if root.at_bound else abs(root.slope),  # what a bound holds does not count
            iterations=root.iterations,
            bound_hit=root.at_bound,
            converged=root.converged and math.isfinite(root.value) and math.isfinite(root.slope),
            notes=(f"T = {self.temperature_:.6g}: {self._verdict(root, all_right=not bool(own.any()))}",),
            nll=(before, after),
            argmax_kept=True,
        )

    def _verdict(self, root: Root, *, all_right: bool) -> str:
        if root.at_bound and root.slope <= 0:
            why = "as every sample is predicted right" if all_right else "as the squared error sinks all the way to it"
            return f"the lower bound, {why}"
        if root.at_bound:
            return "the upper bound, as the scores say nothing of the labels"
        if abs(self.temperature_ - 1) < 1e-6:
            return "nothing to change"
        return "the model was over-confident" if self.temperature_ > 1 else "the model was under-confident"

    @classmethod
    def _map(cls, z: Tensor, *parameters: Tensor) -> Tensor:
        (temperature,) = parameters
        return torch.softmax(z / temperature, dim=1)

    def _summary(self) -> str:
        return self.certificate_.notes[0]
