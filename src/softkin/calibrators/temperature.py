r"""Temperature scaling: one number that softens or sharpens all logits.

.. math:: p = \mathrm{softmax}(z / T) = \mathrm{softmax}(\beta z), \qquad \beta = 1/T

The mean NLL is convex in β and has one minimum. The squared error can have several: a grid with bounds between its
points finds every valley that may hold the global minimum. Newton's method does the rest, from the solution on a few
rows, so that large data are read only two or three times.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from softkin._core import checks
from softkin.calibrators.calibrator import Parametric
from softkin.calibrators.fitted import Solution

Objective = Literal["nll", "mse"]

REACH = 1e3  # T stays within this factor of the logits' range: beyond, softmax is one-hot or uniform to 1e-3 and better
SURE_ALONE = 1e-4  # of ln β: after a step of this size the error is about its square, 1e-8
NEARBY = 0.1  # of ln β: two second derivatives this near give the third derivative
SURE = 1e-3  # of ln β: with the third derivative, the error after a step of this size is about 1e-8 too
FLAT = 1e-14
LIMIT = 100
START_ROWS = 1024  # rows of large data that give the start: their temperature is off by a few per cent
PER_OCTAVE = 2  # points of the grid on which the squared error, which may have several minima, is evaluated
SATURATED = 40.0  # β times a row's lead at which the other classes have less than 1e-17 of the winner's score
WORTH = 1e-3  # of squared error, for which a temperature below the usual range is taken
UNIFORM = 0.05  # β times the largest range of logits at the start of the grid
SMALLEST = 2.3e-308  # the smallest normal float64
LARGE = 1e60  # logits with a range above it, or below its inverse, are scaled first
BLOCK = 2**17  # numbers at a time: one megabyte, so that the passes over a block stay in the cache

Derivatives = Callable[[float], tuple[float, float, float]]
"""β → the objective and its first two derivatives"""


@dataclass(frozen=True)
class Minimum:
    """The minimum of an objective in the range of β, or the bound that it decreases towards."""

    beta: float
    value: float
    slope: float
    iterations: int
    at_bound: bool
    converged: bool
    valleys: int = 1
    """The number of local minima that were compared"""
    searched: tuple[float, float] = (0.0, math.inf)
    """The range of β"""


def row_dots(a: Tensor, b: Tensor) -> Tensor:
    """Σ_k a_k b_k of each row in one pass, by numpy: torch would store the products first."""
    return torch.from_numpy(np.einsum("ij,ij->i", a.numpy(), b.numpy()))


def below_top(z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """(u, own): logits minus the largest of their row, so that exp cannot overflow, and those of the true classes."""
    u = z - z.amax(dim=1, keepdim=True)
    return u, u.gather(1, y[:, None])[:, 0]


class Moments(NamedTuple):
    """A block of rows under softmax(βu), its numbers not yet divided by their sums."""

    rows: slice
    e: Tensor
    """exp(βu)"""
    eu: Tensor
    total: Tensor
    """(n,) Σ e"""
    mean: Tensor
    """(n,) the mean of u"""
    variance: Tensor
    """(n,) the variance of u"""


def moments(u: Tensor) -> Callable[[float], Iterator[Moments]]:
    """A function of β that goes through the rows in blocks; each block overwrites the one before."""
    step = max(1, BLOCK // u.shape[1])
    all_e, all_eu = torch.empty_like(u[:step]), torch.empty_like(u[:step])

    def at(beta: float) -> Iterator[Moments]:
        for start in range(0, len(u), step):
            block = u[start : start + step]
            e, eu = all_e[: len(block)], all_eu[: len(block)]
            torch.mul(block, beta, out=e).exp_()
            torch.mul(e, block, out=eu)
            total = e.sum(dim=1)
            mean = eu.sum(dim=1) / total
            variance = row_dots(eu, block) / total - mean * mean
            yield Moments(slice(start, start + step), e, eu, total, mean, variance)

    return at


def weighted_sum(values: Tensor, weights: Tensor | None, rows: slice = slice(None)) -> float:
    """Σ of (n,) values, times the weights of these rows where there are some."""
    return float(values.sum()) if weights is None else float(values @ weights[rows])


def mean_loss(log_p: Tensor, y: Tensor, weights: Tensor | None) -> float:
    """The mean NLL of (N, K) logarithms, by the rows' weights."""
    own = -log_p.gather(1, y[:, None])[:, 0]
    return float(own.mean()) if weights is None else float((own * weights).sum() / weights.sum().clamp(min=1e-300))


def nll_derivatives(u: Tensor, own: Tensor, weights: Tensor | None = None) -> Derivatives:
    """Mean NLL of softmax(βu), and its first two derivatives in β: by the mean and the variance of u under it."""
    n, blocks = len(u), moments(u)
    m = -weighted_sum(own, weights) / n

    def at(beta: float) -> tuple[float, float, float]:
        value = slope = curvature = 0.0
        for block in blocks(beta):
            curvature += weighted_sum(block.variance, weights, block.rows)
            slope += weighted_sum(block.mean, weights, block.rows)
            value += weighted_sum(block.total.log_(), weights, block.rows)
        return value / n + beta * m, slope / n + m, curvature / n

    return at


def mse_derivatives(u: Tensor, own: Tensor, weights: Tensor | None = None) -> Derivatives:
    r"""Mean over samples of Σ_k (p_k − [k = y])² for p = softmax(βz), and its first two derivatives in β.

    With z̄ and V the mean and variance of z under p: p_k' = p_k(z_k − z̄), p_k'' = p_k((z_k − z̄)² − V). All that the
    three need of a row are the sums of p, pz, pz², p², p²z, p²z².
    """
    n, blocks = len(u), moments(u)

    def at(beta: float) -> tuple[float, float, float]:
        value = slope = curvature = 0.0
        for block in blocks(beta):
            e, eu, mean, variance = block.e, block.eu, block.mean, block.variance
            squared = block.total.mul_(block.total)
            pp = row_dots(e, e) / squared
            ppz = row_dots(e, eu) / squared
            ppzz = row_dots(eu, eu) / squared
            z_own = own[block.rows]
            p_own = torch.exp(beta * z_own) / squared.sqrt()
            d_own = z_own - mean
            value += weighted_sum(pp - 2 * p_own + 1, weights, block.rows)
            slope += 2 * weighted_sum(ppz - mean * pp - p_own * d_own, weights, block.rows)
            spread = ppzz - 2 * mean * ppz + mean * mean * pp
            bend = 2 * spread - variance * pp - p_own * (d_own * d_own - variance)
            curvature += 2 * weighted_sum(bend, weights, block.rows)
        return value / n, slope / n, curvature / n

    return at


def descend(at: Derivatives, start: float, low: float, high: float, *, last_step: float = 0.0) -> Minimum:
    """Find a minimum in [low, high] by Newton's method in t = ln β, between points where the objective is higher.

    A step that leaves this interval goes to the end of the range, the first time, or half way to the nearest end.
    The last step is not evaluated again: with the third derivative, estimated from two second ones, its error is about
    its third power, and the Taylor series gives value and slope at its end. A larger ``last_step`` lets a longer step
    be the last.
    """
    left, right, tried = low, high, {low: False, high: False}
    beta = min(max(start, low), high)
    value, slope, curvature = _in_logarithm(at, beta)
    third, last_step = 0.0, max(last_step, SURE_ALONE)
    for iteration in range(1, LIMIT + 1):
        side = right if slope < 0 else left  # the side on which the objective decreases
        if beta == side:
            return Minimum(beta, value, slope / beta, iteration, True, True)
        if abs(slope) <= FLAT:  # doubling β could not change the objective's fifteenth digit
            return Minimum(beta, value, slope / beta, iteration, False, True)
        step = -slope / curvature if curvature > abs(slope) / 50 else math.copysign(math.inf, -slope)
        if abs(step) <= last_step:
            step = -slope / (curvature + third * step / 2)
            value += step * (slope + step * (curvature / 2 + step * third / 6))
            slope += step * (curvature + step * third / 2)
            beta *= math.exp(step)
            return Minimum(beta, value, slope / beta, iteration, False, True)
        new = beta * math.exp(step) if abs(step) < math.inf else step
        if not left < new < right:
            new = (beta * side) ** 0.5 if tried.get(side, True) else side
            tried[side] = True
        there = _in_logarithm(at, new)
        if there[0] <= value + FLAT * abs(value):
            left, right = (beta, right) if slope < 0 else (left, beta)
            moved = math.log(new / beta)
            third = (there[2] - curvature) / moved
            last_step = max(last_step, SURE) if abs(moved) < NEARBY else last_step
            beta, (value, slope, curvature) = new, there
        else:
            left, right = (left, new) if slope < 0 else (new, right)
    return Minimum(beta, value, slope / beta, LIMIT, False, False)


def _in_logarithm(at: Derivatives, beta: float) -> tuple[float, float, float]:
    """The objective and its first two derivatives in ln β."""
    value, slope, curvature = at(beta)
    return value, beta * slope, beta * (beta * curvature + slope)


def bracket(u: Tensor, own: Tensor, weights: Tensor | None = None) -> tuple[float, float]:
    """The range of β, from the ranges of the rows' logits, not all of which are 0.

    The least NLL is at most that of β = 0, ln K, and at least −β·mean(own): no solution lies above ln K / −mean(own).
    """
    spread = -u.amin(dim=1)
    spread = spread[spread > 0]
    high = REACH / float(spread.median())
    if bool(own.any()):
        mean = weighted_sum(own, weights) / len(own)
        high = max(high, math.log(u.shape[1]) / -mean) if mean < 0 else high
    return 1 / (REACH * float(spread.max())), high


def valleys(
    u: Tensor, own: Tensor, low: float, high: float, margin: float, weights: Tensor | None = None
) -> list[tuple[float, float, float]]:
    r"""The local minima on a grid that may hold the global minimum of the squared error, as (left, β, right).

    With Z(β) = Σ_k e^{βu_k} a row's error is Z(2β)/Z(β)² − 2e^{βu_y}/Z(β) + 1. Z falls with β, Σp² = Z(2β)/Z(β)² rises,
    so between neighbours β < β' of the grid the error is at least Z(2β)/Z(β)² − 2e^{βu_y}/Z(β') + 1: an interval whose
    bound lies above the least error on the grid does not hold the minimum. Squaring e^{βu} gives the next octave.

    ``margin`` is the number of standard errors of the mean over rows by which the bound must lie above.
    """
    first = low * UNIFORM * REACH  # for smaller β all scores are nearly equal
    points = math.ceil(math.log2(high / first) * PER_OCTAVE) + 1
    betas = first * 2 ** (torch.arange(points + PER_OCTAVE, dtype=torch.float64) / PER_OCTAVE)
    z = torch.empty(len(betas), len(u), dtype=torch.float64)
    for offset in range(PER_OCTAVE):
        e = (u * betas[offset]).exp_()
        for place in range(offset, len(betas), PER_OCTAVE):
            torch.sum(e, dim=1, out=z[place])
            e.mul_(e)
    p_own = torch.exp(betas[:points, None] * own)
    square = z[PER_OCTAVE:] / z[:points].square()
    errors = square - 2 * p_own / z[:points]
    error = (errors if weights is None else errors * weights).mean(dim=1)
    above = square[:-1] - 2 * p_own[:-1] / z[1:points] - errors[error.argmin()]
    above = above if weights is None else above * weights
    possible = above.mean(dim=1) <= (margin * above.std(dim=1) / len(u) ** 0.5 if margin else 0.0)
    minima = []
    for place in range(points):
        left, right = max(place - 1, 0), min(place + 1, points - 1)
        if error[place] <= error[left] and error[place] <= error[right] and bool(possible[left:right].any()):
            minima.append((float(betas[left]) if place else low, float(betas[place]), min(float(betas[right]), high)))
    return minima


def best_temperature(u: Tensor, own: Tensor, objective: Objective, weights: Tensor | None = None) -> Minimum:
    """The β = 1/T that minimises the objective, for logits from ``below_top``; ``weights`` have the mean 1."""
    derivatives = nll_derivatives if objective == "nll" else mse_derivatives
    scale = float(-u.amin())
    if scale < SMALLEST:  # all rows are constant, or nearly: β has no effect
        return Minimum(1.0, derivatives(u, own, weights)(1.0)[0], 0.0, 1, False, True)
    if not 1 / LARGE < scale < LARGE:  # powers of such logits overflow: solve for logits of range 1
        least = best_temperature(u / scale, own / scale, objective, weights)
        low, high = least.searched
        return replace(least, beta=min(least.beta / scale, 0.1 / SMALLEST), searched=(low / scale, high / scale))
    at = derivatives(u, own, weights)
    low, high = bracket(u, own, weights)
    if not bool(own.any()):  # the true class always wins: the larger β, the better
        return Minimum(high, *at(high)[:2], 1, True, True, searched=(low, high))
    is_large = len(u) > 2 * START_ROWS
    if is_large:  # a random part gives the start
        few = torch.randperm(len(u), generator=torch.Generator().manual_seed(0))[:START_ROWS]
        part = u[few], own[few]
        part_weights = None if weights is None else weights[few]
    else:
        part, part_weights = (u, own), weights
    places = [(low, 1.0, high)]
    if objective == "mse":
        places = valleys(*part, low, high, margin=6.0 if is_large else 0.0, weights=part_weights)
    if is_large:
        of_part = derivatives(*part, part_weights)
        ends = [descend(of_part, beta, left, right, last_step=0.05) for left, beta, right in places]
        places = [(low, 1.0 if end.at_bound and objective == "nll" else end.beta, high) for end in ends]
    ends = [descend(at, beta, left, right) for left, beta, right in places]
    best = min(ends, key=lambda end: end.value)
    if objective == "mse" and weights is None:
        beyond, end = _beyond(u, own, high, best.value)
        further = [descend(at, beta, left, right) for left, beta, right in beyond]
        if further and (least := min(further, key=lambda end: end.value)).value < best.value - WORTH:
            best, ends, high = least, ends + further, end
    return replace(best, valleys=len(ends), searched=(low, high))


def _beyond(u: Tensor, own: Tensor, high: float, least: float) -> tuple[list[tuple[float, float, float]], float]:
    """The local minima of the squared error above the usual range, as ``valleys``, and the end of that range.

    Most rows are saturated there: all mass is on their winners. The others, whose winners are hardly ahead, can at best
    have no error at all; only if that would be well below the ``least`` error so far is it worth a search.
    """
    wrong = own < 0
    # The winner's score p only rises with β. Where another class is the true one, the error is at least p² for it and
    # another p² for the true class, which has at most 1 − p.
    winning = 1 / (u[wrong] * high).exp_().sum(dim=1)
    if 2 * float(winning.square().sum()) / len(u) >= least - WORTH:
        return [], high
    ahead = torch.where(u < 0, -u, torch.inf).amin(dim=1)
    left = ahead * high < SATURATED
    saturated = 1 + (1 - 2 * (~wrong).double()) / (u == 0).sum(dim=1)
    if not bool(left.any()) or float(saturated[~left].sum()) / len(u) >= least - WORTH:
        return [], high
    end = min(SATURATED / float(ahead[left].min()), 1e300 / LARGE)
    return valleys(u[left], own[left], high / (UNIFORM * REACH), end, margin=0.0), end


TOLD = 1.92  # half the 95 % quantile of χ² with one degree of freedom: a likelihood-ratio test of T = 1


def starting_factor(z: Tensor, y: Tensor, weights: Tensor | None = None) -> float:
    """The β of the best temperature, from which other methods start: saturated scores have no curvature."""
    least = best_temperature(*below_top(z, y), "nll", weights)
    return min(least.beta, 1.0) if least.at_bound else least.beta


class TemperatureScaling(Parametric, name="temperature", title="TS", candidates=({},), quick=True):
    r"""One temperature for all classes: softmax(z / T).

    T is the minimum of the mean NLL (convex in 1/T, found to 1e-7 of itself) or of the squared error ("mse", the Brier
    score), which can have several minima: T is the global one. It lies within 1,000 times the logits' range, or
    wherever the least NLL can lie, or below, if the squared error is lower there by more than 0.001. Data that are all
    predicted right, whose best T is 0, or worse than chance, whose best is infinite, end at that bound, and
    ``certificate_.bound_hit`` says so. The winning class never changes.

    T > 1 says that the model was over-confident, T < 1 that it was under-confident, as one trained on smooth labels
    often is. Where a likelihood-ratio test at 5 % does not tell T from 1, the certificate says neither.

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

    kept = parameters = ("temperature_",)
    takes_weights = True
    temperature_: float

    def __init__(self, *, objective: Objective = "nll") -> None:
        self.objective = objective
        self.check_options()

    def check_options(self) -> None:
        checks.option(self.objective, "objective", ("nll", "mse"))

    def fit_rows(self, z: Tensor, y: Tensor, weights: Tensor | None = None) -> Solution:
        u, own = below_top(z, y)
        least = best_temperature(u, own, self.objective, weights)
        self.temperature_ = 1 / least.beta
        before = weighted_sum(u.exp_().sum(dim=1).log_() - own, weights) / len(u)  # u is not needed any more
        if self.objective == "nll":
            after = least.value
        else:
            cold = z / self.temperature_
            after = weighted_sum(cold.logsumexp(dim=1) - cold.gather(1, y[:, None])[:, 0], weights) / len(z)
        return Solution(
            gradient_norm=0.0 if least.at_bound else abs(least.slope),  # a solution at a bound does not count
            iterations=least.iterations,
            bound_hit=least.at_bound,
            converged=least.converged and math.isfinite(least.value) and math.isfinite(least.slope),
            notes=(self._note(least, len(z) * (before - after), all_right=not bool(own.any())),),
            nll=(before, after),
            argmax_kept=True,
        )

    def _note(self, least: Minimum, gain: float, *, all_right: bool) -> str:
        """What T says; ``gain`` is how far the summed NLL falls, of which T = 1 loses more than TOLD once in 20."""
        verdict = "the model was over-confident" if self.temperature_ > 1 else "the model was under-confident"
        if least.at_bound and least.slope <= 0:
            why = "as every sample is predicted right" if all_right else "as the squared error keeps falling towards it"
            verdict = f"the lower bound, {why}"
        elif least.at_bound:
            verdict = "the upper bound, as the scores say nothing about the labels"
        elif abs(self.temperature_ - 1) < 1e-6:
            verdict = "nothing to change"
        elif gain < TOLD:
            verdict = "these samples do not tell it from 1"
        more = f" ({least.valleys} local minima were compared)" if least.valleys > 1 else ""
        sure = ""
        if self.objective == "mse":
            low, high = least.searched
            reach = f" from {1 / high:.2g} to {1 / low:.2g}" if 0 < low < high < math.inf else ""
            sure = f"; no other temperature{reach} has a lower squared error{more}"
        return f"T = {self.temperature_:.6g}: {verdict}{sure}"

    @classmethod
    def mapped(cls, z: Tensor, *parameters: Tensor) -> Tensor:
        (temperature,) = parameters
        return torch.softmax(z / temperature, dim=1)

    def folded(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        return weight / self.temperature_, bias / self.temperature_

    def summary(self) -> str:
        return self.certificate_.notes[0]
