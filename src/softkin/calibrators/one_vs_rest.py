"""One-vs-rest calibrators: each class's score mapped by itself, then the row made to sum to 1.

This file has what maps of single scores share: when two scores count as equal, interpolation between knots, the
normalisation, and the rule for rows without any mass. Platt scaling, beta calibration, isotonic regression, the spline
(of the winning score, by the slope of a smooth cumulative curve) and ``PerLabel`` (several labels per sample, which do
not exclude each other) are below; those that count in bins are in ``histogram``.

Isotonic regression is the non-decreasing map of least squared error. Labels are 0 and 1, and among the scores of a
class only its own samples are 1. So the pool-adjacent-violators pass needs no loop over samples: between two of a
class's own samples there are only zeros, and each own sample is pooled at once with the zeros that follow it. There
remains one segment to merge for each own sample, n over all classes.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from softkin._core import checks
from softkin._core.checks import Array
from softkin._core.named_labels import names_of, numbered
from softkin.calibrators.calibrator import REGISTRY, Calibrator, Ridged
from softkin.calibrators.fitted import Solution
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


def steps(ordered: Floats, own: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """The isotonic fit of 0/1 labels: for each step its first and last score, its level, and its number of scores.

    Args:
        ordered: (N,) all scores, ascending.
        own: The scores of the samples whose label is 1, ascending; each is among ``ordered``.
    """
    values, hits = np.unique(own, return_counts=True)
    starts = np.searchsorted(ordered, values, side="left")
    if not len(starts) or starts[0] > 0:  # the zeros before the first own sample
        starts, hits = np.concatenate([[0], starts]), np.concatenate([[0], hits])
    sizes = np.diff(np.append(starts, len(ordered)))
    kept: list[tuple[int, int]] = []  # (hits, size) of the steps so far
    places: list[int] = []
    for place, hit, size in zip(starts.tolist(), hits.tolist(), sizes.tolist(), strict=True):
        while kept and kept[-1][0] * size >= hit * kept[-1][1]:  # not below the next: merge them
            before_hit, before_size = kept.pop()
            hit, size, place = hit + before_hit, size + before_size, places.pop()
        kept.append((hit, size))
        places.append(place)
    first = np.array(places)
    hit_array, size_array = np.array(kept, dtype=np.float64).T
    last = np.append(first[1:], len(ordered)) - 1
    return ordered[first], ordered[last], hit_array / size_array, size_array


def weighted_steps(scores: Floats, hits: Floats, weights: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """``steps`` of (N,) scores in any order, with (N,) hits from 0 to 1 and weights; those of weight 0 are left out."""
    scores, hits, weights = (part[weights > 0] for part in (scores, hits, weights))
    values, which = np.unique(scores, return_inverse=True)
    sizes, sums = np.bincount(which, weights), np.bincount(which, weights * hits)
    kept: list[tuple[float, float]] = []
    places: list[int] = []
    for place, (hit, size) in enumerate(zip(sums.tolist(), sizes.tolist(), strict=True)):
        start = place
        while kept and kept[-1][0] * size >= hit * kept[-1][1]:
            before_hit, before_size = kept.pop()
            hit, size, start = hit + before_hit, size + before_size, places.pop()
        kept.append((hit, size))
        places.append(start)
    first = np.array(places)
    hit_array, size_array = np.array(kept, dtype=np.float64).T
    return values[first], values[np.append(first[1:], len(values)) - 1], hit_array / size_array, size_array


class IsotonicCalibration(OneVsRest, name="isotonic", candidates=({"classes": "pooled"},), quick=True):
    r"""Isotonic regression of the labels on the scores, with one map for each class or one for all.

    A map is constant on each step of the fit, linear between the last score of a step and the first of the next, and
    constant beyond the ends, as scikit-learn's. Rows are normalised.

    Args:
        classes: "separate": one-vs-rest, a map for each class. "pooled": one map for the scores of all classes, the
            multi-class form of Mix-n-Match; where several classes of a row share a step, the raw score decides
            between them, so that the winning class hardly ever changes.

    Attributes:
        knots_: (M,) scores, concatenated over the maps.
        levels_: (M,) their values.
        offsets_: The index at which each map begins, and M.

    References:
        Zadrozny and Elkan, Transforming Classifier Scores into Accurate Multiclass Probability Estimates, 2002.
        Zhang et al., Mix-n-Match, 2020, arXiv:2003.07329, Sec. 3.2.
    """

    kept = ("knots_", "levels_", "offsets_")
    takes_weights = True
    knots_: Tensor
    levels_: Tensor
    offsets_: Tensor

    def __init__(self, *, classes: Literal["separate", "pooled"] = "separate") -> None:
        self.classes = classes
        self.check_options()

    def check_options(self) -> None:
        checks.option(self.classes, "classes", ("separate", "pooled"))

    def fit_rows(self, z: Tensor, y: Tensor, weights: Tensor | None = None) -> Solution:
        p, labels = comparable(torch.softmax(z, dim=1)).numpy(), y.numpy()
        n, k = p.shape
        if weights is not None:
            return self._keep([weighted_steps(*parts) for parts in self._weighted_maps(p, labels, weights.numpy())])
        mine = p[np.arange(n), labels]
        if self.classes == "pooled":
            maps = [(np.sort(p, axis=None), np.sort(mine))]
        else:
            ordered = np.sort(np.ascontiguousarray(p.T), axis=1)
            order = np.lexsort((mine, labels))
            bounds = np.searchsorted(labels[order], np.arange(k + 1))
            maps = [(ordered[j], mine[order[bounds[j] : bounds[j + 1]]]) for j in range(k)]
        return self._keep([steps(scores, own) for scores, own in maps])

    def _weighted_maps(self, p: Floats, labels: NDArray[Any], weights: Floats) -> list[tuple[Floats, Floats, Floats]]:
        """Scores, hits and weights of each map."""
        n, k = p.shape
        hits = np.zeros_like(p)
        hits[np.arange(n), labels] = 1
        if self.classes == "pooled":
            return [(p.reshape(-1), hits.reshape(-1), weights.repeat(k))]
        return [(p[:, j], hits[:, j], weights) for j in range(k)]

    def _keep(self, fits: list[tuple[Floats, Floats, Floats, Floats]]) -> Solution:
        """Keep the knots of each map."""
        knots, levels, offsets = [], [], [0]
        for first, last, level, _ in fits:
            x, v = np.stack([first, last], axis=1).reshape(-1), np.repeat(level, 2)
            keep = np.append(True, np.diff(x) > 0)  # a step of one score needs one knot
            knots.append(x[keep])
            levels.append(v[keep])
            offsets.append(offsets[-1] + int(keep.sum()))
        self.knots_ = torch.from_numpy(np.concatenate(knots))
        self.levels_ = torch.from_numpy(np.concatenate(levels))
        self.offsets_ = torch.tensor(offsets)
        return Solution()

    def scores(self, z: Tensor) -> Tensor:
        p = comparable(torch.softmax(z, dim=1))
        knots, levels, offsets = self.knots_.numpy(), self.levels_.numpy(), self.offsets_.tolist()
        if len(offsets) == 2:
            shared = torch.from_numpy(interpolated(p.numpy(), knots, levels))
            return shared + TIE_BREAK * p
        columns = np.ascontiguousarray(p.T.numpy())
        mapped = np.empty_like(columns)
        for j, (a, b) in enumerate(pairwise(offsets)):
            mapped[j] = interpolated(columns[j], knots[a:b], levels[a:b])
        return torch.from_numpy(mapped).T.contiguous()

    def summary(self) -> str:
        return f"{len(self.knots_):,} knots in {len(self.offsets_) - 1} maps"


def natural_basis(t: Floats, knots: Floats) -> tuple[Floats, Floats]:
    """Values and first derivatives at ``t`` of the natural cubic splines that are 1 at one knot and 0 at the others."""
    m, h = len(knots), np.diff(knots)
    # Second derivatives at the knots are linear in the values: A s = B v, 0 at both ends.
    a, b = np.eye(m), np.zeros((m, m))
    for i in range(1, m - 1):
        a[i, i - 1 : i + 2] = h[i - 1] / 6, (h[i - 1] + h[i]) / 3, h[i] / 6
        b[i, i - 1 : i + 2] = 1 / h[i - 1], -1 / h[i - 1] - 1 / h[i], 1 / h[i]
    second = np.linalg.solve(a, b)
    piece = np.clip(np.searchsorted(knots, t, side="right") - 1, 0, m - 2)
    left, width = knots[piece], h[piece]
    u = ((t - left) / width)[:, None]
    eye = np.eye(m)
    low, high, s_low, s_high = eye[piece], eye[piece + 1], second[piece], second[piece + 1]
    w = width[:, None]
    values = (1 - u) * low + u * high + w**2 / 6 * (((1 - u) ** 3 - (1 - u)) * s_low + (u**3 - u) * s_high)
    slopes = (high - low) / w + w / 6 * ((1 - 3 * (1 - u) ** 2) * s_low + (3 * u**2 - 1) * s_high)
    return values, slopes


class SplineCalibration(Calibrator, name="spline"):
    r"""Spline calibration: the winning score mapped by a spline, the other classes scaled to what remains.

    Only the winning score is calibrated, and the winning class stays the same. Where the calibrated score is below what
    another class would get of the rest, the rest is levelled just enough; the winning score is never below 1/K.

    The samples in the order of their winning score, t the share of samples up to a score: the cumulative difference
    between hits and scores, (1/n) Σ_{j ≤ i} (hit_j − s_j), is fitted by least squares with a natural cubic spline over
    t. The slope is the correction: the calibrated score is s plus the slope at its t, linear between the fitting
    scores, kept half a sample away from 0 and 1 (1/2n), as n samples cannot say that something is impossible. Equal
    scores get the mean over their t. With weights t is the share of their sum.

    Fitted on one score for each sample, of a binary model or of pairs, it maps that score, which may become anything.

    Args:
        n_knots: The number of knots, evenly over t. The paper uses 6.

    Attributes:
        scores_: (M,) distinct winning scores of the fitting samples.
        values_: (M,) their calibrated values.

    References:
        Gupta et al., Calibration of Neural Networks using Splines, 2021, arXiv:2006.12800, Sec. 4.
    """

    kept = ("scores_", "values_", "single_")
    takes_weights = True
    scores_: Tensor
    values_: Tensor

    def __init__(self, *, n_knots: int = 6) -> None:
        self.n_knots = n_knots
        self.check_options()

    def check_options(self) -> None:
        checks.count(self.n_knots, "n_knots", least=3)

    def fit_rows(self, z: Tensor, y: Tensor, weights: Tensor | None = None) -> Solution:
        score, hits = self._scored(z, y)
        order = score.argsort(stable=True)
        order = order if weights is None else order[weights[order] > 0]
        s, hit = score[order].numpy(), hits[order].double().numpy()
        n = len(s)
        w = np.ones(n) if weights is None else weights[order].numpy()
        distinct, which = np.unique(s, return_inverse=True)
        counts = np.bincount(which, w)
        # Equal scores share their hits, so that the order of the samples does not matter.
        gap = w * ((np.bincount(which, w * hit) / counts)[which] - s)
        t = np.cumsum(w) / w.sum()
        knots = np.linspace(0, 1, min(self.n_knots, max(3, n)))
        values, slopes = natural_basis(np.concatenate([[0.0], t]), knots)
        curve = np.concatenate([[0.0], np.cumsum(gap) / w.sum()])
        root = np.sqrt(np.concatenate([[1.0], w]))
        at_knots = np.linalg.lstsq(root[:, None] * values, root * curve, rcond=None)[0]
        calibrated = np.bincount(which, w * (s + slopes[1:] @ at_knots)) / counts
        self.scores_ = torch.from_numpy(distinct)
        half = 0.5 / n
        self.values_ = torch.from_numpy(np.clip(calibrated, half, 1 - half))
        return Solution()

    def _scored(self, z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """(N,) the score that is mapped, and whether it hits."""
        p = comparable(torch.softmax(z, dim=1))
        if self.single_:
            return p[:, 1].contiguous(), y == 1
        score, winner = p.max(dim=1)
        return score, winner == y

    def restore(self, attributes: Mapping[str, Any]) -> None:
        super().restore({"single_": False, **attributes})

    def answer(self, z: Tensor) -> Tensor:
        if self.single_:
            own = comparable(torch.softmax(z, dim=1)[:, 1].contiguous())
            one = torch.from_numpy(interpolated(own.numpy(), self.scores_.numpy(), self.values_.numpy()))
            return torch.stack([1 - one, one], dim=1)
        top = z.argmax(dim=1, keepdim=True)
        score = comparable(torch.softmax(z, dim=1).gather(1, top))
        new = torch.from_numpy(interpolated(score.numpy(), self.scores_.numpy(), self.values_.numpy()))
        others = z.shape[1] - 1
        most = 1 - TIE_BREAK  # no other class gets more than this share of the winner's score
        new = new.clamp(min=1 / (1 + most * others))
        # The others' shares of the rest, from the logits: a winner of 1 − 1e-20 leaves no rest to divide by.
        share = torch.softmax(z.scatter(1, top, float("-inf")), dim=1)
        largest, allowed = share.amax(dim=1, keepdim=True), most * new / (1 - new)
        level = ((largest - allowed) / (largest - 1 / others).clamp(min=1e-300)).clamp(0, 1)
        share = share + level * (1 / others - share)
        return (share * (1 - new)).scatter(1, top, new)

    def summary(self) -> str:
        return f"{self.n_knots} knots"


class PerLabel:
    """One calibrator of a single score for each label.

    Args:
        method: An unfitted calibrator, or its name: "platt", "beta", "isotonic", "temperature" …

    Attributes:
        calibrators_: The fitted calibrator of each label.
        label_names_: The names of the labels, or None.

    Example:
        >>> logits = torch.tensor([[2.0, -1.0], [0.5, 1.0], [-1.0, 2.0], [1.0, -2.0]]).repeat(25, 1)
        >>> labels = torch.tensor([[1, 0], [0, 1], [0, 1], [1, 1]]).repeat(25, 1)
        >>> PerLabel("temperature").fit(logits, labels).predict_proba(logits[:1])
        tensor([[0.9709, 0.3966]])
    """

    calibrators_: list[Calibrator]
    label_names_: list[str] | None

    def __init__(self, method: Calibrator | str = "platt") -> None:
        if isinstance(method, str):
            method = REGISTRY[REGISTRY.canonical(method, "method")]()
        elif not isinstance(method, Calibrator):
            raise TypeError(f"`method` must be a calibrator or its name, got {type(method).__name__}.")
        self.method = method

    def fit(
        self,
        logits: Array,
        labels: Array,
        *,
        from_probabilities: bool | None = None,
        sample_weight: Array | None = None,
        label_names: Sequence[str] | None = None,
    ) -> Self:
        """Fit on held-out samples.

        Args:
            logits: (N, L) logits of sigmoids, or probabilities with ``from_probabilities=True``.
            labels: (N, L) zeros and ones. Each label must have both.
            from_probabilities: Whether ``logits`` are probabilities; None: no, with a warning if they look so.
            sample_weight: (N,) weights of the samples, for calibrators that take weights.
            label_names: The names of the labels; by default the columns of a data frame.
        """
        labels, label_names = numbered(labels, logits, label_names)
        z, y = checks.as_tensor(logits, "logits"), checks.as_tensor(labels, "labels")
        if z.ndim != 2 or z.shape != y.shape:
            raise ValueError(
                f"`logits` and `labels` must both have shape (N, L), got {tuple(z.shape)} and {tuple(y.shape)}."
            )
        if not bool(((y == 0) | (y == 1)).all()):
            raise ValueError("`labels` must be zeros and ones, one for each label.")
        names = None if label_names is None else checks.class_names(label_names, num_classes=z.shape[1])
        constant = (y == y[:1]).all(dim=0).nonzero()[:, 0].tolist()
        if constant:
            place = constant[0]
            called = f"label {place}" if names is None else repr(names[place])
            raise ValueError(f"`labels` must have zeros and ones for each label, but {called} has only one of them.")
        options: dict[str, Any] = {"from_probabilities": from_probabilities, "sample_weight": sample_weight}
        self.calibrators_ = [
            self.method.unfitted().fit(z[:, place].contiguous(), y[:, place].to(torch.int64), **options)
            for place in range(z.shape[1])
        ]
        self.label_names_ = names
        return self

    def predict_proba(
        self, logits: Array, *, from_probabilities: bool | None = None, label_names: Sequence[str] | None = None
    ) -> Any:
        """Calibrated probabilities (N, L) in the order of the columns given: numpy for numpy, torch for torch.

        Args:
            logits: (N, L), as for ``fit``.
            from_probabilities: Whether ``logits`` are probabilities; None: no, with a warning if they look so.
            label_names: The names of the columns, which may be in another order than those of the fit; those of a data
                frame are known.
        """
        if not hasattr(self, "calibrators_"):
            raise ValueError("this PerLabel is not fitted yet: call fit(logits, labels) first.")
        new = names_of(logits, self.label_names_) if label_names is None else label_names
        refused = "`label_names` must be the list that the calibrators were fitted on, in any order, but"
        order = checks.class_order(new, self.label_names_, refused)
        z = checks.as_tensor(logits, "logits")
        if z.ndim != 2 or z.shape[1] != len(self.calibrators_):
            raise ValueError(f"`logits` must have shape (N, {len(self.calibrators_)}), got {tuple(z.shape)}.")
        places = list(range(z.shape[1])) if order is None else order.tolist()
        columns: dict[int, Tensor] = {
            place: own.predict_proba(z[:, place].contiguous(), from_probabilities=from_probabilities)
            for place, own in zip(places, self.calibrators_, strict=True)
        }
        return checks.like(torch.stack([columns[place] for place in sorted(columns)], dim=1).cpu(), logits)

    def __repr__(self) -> str:
        return f"PerLabel({self.method!r})"
