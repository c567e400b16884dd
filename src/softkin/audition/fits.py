"""β of a source, or the weights of a mixture, fitted to the confusions and cross-validated over classes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softkin import similarity

LARGEST_WEIGHT = 50.0
CONVERGED = 1e-11  # nats per row that the next step would still gain
MOST_STEPS = 100
ELEMENTS = 2**17  # numbers in a block of rows: 1 MB stays in a processor's cache

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Fit:
    """The weights of one candidate: a source or the mixture."""

    weights: Floats
    """(M,) weights over all sources, fitted to all classes; 0 for sources that are not included"""
    direction: Floats
    """(M,) the weights, or equal weights of the included sources if all are 0, since ranks need no sharpness"""
    rows: Floats
    """(n,) cross-entropies, each with the weights from the other folds"""
    mean_log_sum: Callable[[float], float]
    """The function t → mean over rows of ln Σ exp(−t·z), with z the mixed distances of ``weights``"""

    @property
    def beta(self) -> float:
        return float(self.weights.sum())

    def control(self, energies: Floats) -> Floats:
        """The cross-entropies of renamed classes at their best sharpness, from their mean distances ``energies``.

        Renaming the classes of a source changes only Σ c·z: the sums of exponentials are those of the same rows in
        another order. So each cross-entropy is the minimum over t of t·energy + mean_log_sum(t).
        """
        grid = np.array([0.0, 0.02, 0.05, 0.1, 0.15, 0.25, 0.4, 0.7, 1.0]) / max(self.beta, 1e-12)
        if self.beta <= 0:
            return np.full(len(energies), self.mean_log_sum(0.0))
        sums = np.array([self.mean_log_sum(float(t)) for t in grid])
        lowest: Floats = (grid[:, None] * energies + sums[:, None]).min(axis=0)
        return lowest


@dataclass(frozen=True)
class Moments:
    """For each of n rows, at some weights: the cross-entropy and its first two derivatives by the weights."""

    values: Floats
    """(n,) w·e + ln Σ exp(−w·z), with e the mean distances of what is confused"""
    slopes: Floats
    """(n, M) e less the mean of z under the prediction"""
    curvatures: Floats
    """(n, M, M) the covariance of z under the prediction"""

    def of(self, rows: NDArray[np.bool_]) -> "Moments":
        return Moments(self.values[rows], self.slopes[rows], self.curvatures[rows])


class Problem:
    """The normalised distances of all sources, the confusions to predict, and the folds."""

    def __init__(
        self, matrices: Mapping[str, Tensor], shares: Tensor, kept: Tensor, fold: NDArray[np.int64], folds: int
    ) -> None:
        self.kept, self.target = kept, shares[kept]
        self.line = torch.arange(len(kept))
        self.z = torch.empty(len(kept), len(matrices), shares.shape[1], dtype=torch.float64)
        for place, d in enumerate(matrices.values()):
            self.z[:, place] = similarity.normalised_rows(d[kept], kept)
        self.energy = torch.bmm(self.z, self.target[:, :, None])[:, :, 0].numpy()  # (n, M) Σ_j c_k(j) z_k(j)
        self.fold, self.folds = fold, folds

    def mixed(self, weights: Floats) -> Tensor:
        """(n, K) weighted sum of the distances."""
        return torch.matmul(torch.from_numpy(weights), self.z)

    def fit(self, places: list[int]) -> Fit:
        """Fit the weights of the sources at ``places``, with all others 0, on all classes and cross-validated."""
        everything = np.ones(len(self.kept), dtype=bool)
        start = np.full(len(places), 1.0 / len(places))
        whole = self._weights(places, everything, start, self._moments(places, everything, start))
        at_whole = self._moments(places, everything, whole)
        rows = np.empty(len(self.kept))
        for fold in range(self.folds):
            inside = self.fold == fold
            w = self._weights(places, ~inside, whole, at_whole.of(~inside))
            rows[inside] = self._moments(places, inside, w).values
        weights = np.zeros(self.z.shape[1])
        weights[places] = whole
        direction = weights.copy()
        if whole.sum() <= 0:
            direction[places] = 1.0
        mixed = self.mixed(weights)
        mixed[self.line, self.kept] = float("inf")

        def mean_log_sum(t: float) -> float:
            # 0 times infinity is not a number: at t = 0 each of the other classes adds 1
            return float(torch.logsumexp(-t * mixed, dim=1).mean()) if t > 0 else float(np.log(mixed.shape[1] - 1))

        return Fit(weights, direction, rows, mean_log_sum)

    def _moments(self, places: list[int], rows: NDArray[np.bool_], w: Floats) -> Moments:
        """The moments of the rows of a mask, for the sources at ``places``, computed in blocks."""
        chosen = np.flatnonzero(rows)
        many, k = len(places), self.z.shape[2]
        energy = self.energy[chosen][:, places]
        values, slopes, curvatures = energy @ w, energy, np.empty((len(chosen), many, many))
        weights = torch.from_numpy(w)
        step = max(1, ELEMENTS // (many * k))
        for start in range(0, len(chosen), step):
            part = slice(start, start + step)
            numbers = torch.from_numpy(chosen[part])
            z = self.z[numbers] if many == self.z.shape[1] else self.z[numbers[:, None], torch.tensor(places)]
            scores = -torch.matmul(weights, z)
            scores[torch.arange(len(numbers)), self.kept[numbers]] = -float("inf")
            values[part] += torch.logsumexp(scores, dim=1).numpy()
            predicted = torch.softmax(scores, dim=1)[:, None]
            weighted = z * predicted
            mean = weighted.sum(dim=2)
            slopes[part] -= mean.numpy()
            second = torch.bmm(weighted, z.transpose(1, 2))
            curvatures[part] = (second - mean[:, :, None] * mean[:, None, :]).numpy()
        return Moments(values, slopes, curvatures)

    def _weights(self, places: list[int], rows: NDArray[np.bool_], w: Floats, at_w: Moments) -> Floats:
        """The weights from 0 to 50 that minimise the mean cross-entropy of the rows of a mask, from ``w`` on.

        The problem is convex. Each step goes to the minimum of the quadratic model within the bounds, or as far towards
        it as the cross-entropy falls.
        """
        for _ in range(MOST_STEPS):
            value, slope = at_w.values.mean(), at_w.slopes.mean(axis=0)
            direction = _bounded_minimum(w, slope, at_w.curvatures.mean(axis=0)) - w
            gain = -float(slope @ direction)
            if gain <= CONVERGED:
                return np.clip(w + direction, 0, LARGEST_WEIGHT)
            length = 1.0
            while True:
                trial = np.clip(w + length * direction, 0, LARGEST_WEIGHT)
                at_trial = self._moments(places, rows, trial)
                if at_trial.values.mean() <= value - 1e-4 * length * gain or length < 1e-6:
                    break
                length /= 2
            w, at_w = trial, at_trial
        return w


def _bounded_minimum(w: Floats, slope: Floats, curvature: Floats) -> Floats:
    """The v within the bounds that minimises slope·(v−w) + ½ (v−w)·curvature·(v−w)."""
    from scipy.optimize import lsq_linear

    ridge = 1e-10 * (float(np.trace(curvature)) / len(w) + 1e-6)  # for sources that are constant or the same
    root = np.linalg.cholesky(curvature + ridge * np.eye(len(w)))
    result = lsq_linear(root.T, root.T @ w - np.linalg.solve(root, slope), (0.0, LARGEST_WEIGHT), method="bvls")
    solution: Floats = result.x
    return solution
