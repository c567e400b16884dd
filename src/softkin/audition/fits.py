"""β of a source, or the weights of a mixture, fitted to the confusions and cross-validated over classes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softkin import similarity

LARGEST_WEIGHT = 50.0

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Fit:
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


class Problem:
    """The normalised distances of all sources, the confusions to predict, and the folds."""

    def __init__(
        self, matrices: Mapping[str, Tensor], shares: Tensor, kept: Tensor, fold: NDArray[np.int64], folds: int
    ) -> None:
        self.kept, self.target = kept, shares[kept]
        self.line = torch.arange(len(kept))
        self.z = torch.stack([similarity.normalised_rows(d[kept], kept) for d in matrices.values()])
        self.energy = torch.einsum("nk,mnk->mn", self.target, self.z)  # Σ_j c_k(j) z_k(j)
        self.fold, self.folds = torch.from_numpy(fold), folds

    def fit(self, places: list[int]) -> Fit:
        """Fit the weights of the sources at ``places``, with all others 0, on all classes and cross-validated."""
        z, energy = self.z[places], self.energy[places]
        start = np.full(len(places), 1.0 / len(places))
        whole = self._weights(z, energy, torch.ones(len(self.kept), dtype=torch.float64), start)
        rows = np.empty(len(self.kept))
        for fold in range(self.folds):
            inside = self.fold == fold
            w = torch.from_numpy(self._weights(z, energy, (~inside).to(torch.float64), whole))
            part = mixed_distances(w, z[:, inside])
            rows[inside.numpy()] = (w @ energy[:, inside] + self._log_sum(part, self.kept[inside])).numpy()
        weights = np.zeros(len(self.z))
        weights[places] = whole
        direction = weights.copy()
        if whole.sum() <= 0:
            direction[places] = 1.0
        mixed = mixed_distances(torch.from_numpy(whole), z)
        return Fit(weights, direction, rows, lambda t: float(self._log_sum(t * mixed, self.kept).mean()))

    @staticmethod
    def _log_sum(mixed: Tensor, own: Tensor) -> Tensor:
        """(n,) ln Σ_{j≠k} exp(−mixed)."""
        mixed = mixed.clone()
        mixed[torch.arange(len(own)), own] = float("inf")
        return torch.logsumexp(-mixed, dim=1)

    def _weights(self, z: Tensor, energy: Tensor, counted: Tensor, start: Floats) -> Floats:
        """The non-negative weights that minimise the mean cross-entropy of the counted rows."""
        from scipy.optimize import minimize

        total, chosen = float(counted.sum()), counted > 0
        z, energy, own = z[:, chosen], energy[:, chosen].sum(dim=1), self.kept[chosen]
        line = torch.arange(len(own))

        def loss(w: Floats) -> tuple[float, Floats]:
            weights = torch.from_numpy(w)
            mixed = mixed_distances(weights, z)
            mixed[line, own] = float("inf")
            log_sum = torch.logsumexp(-mixed, dim=1, keepdim=True)
            predicted = torch.exp(-mixed - log_sum)
            gradient = energy - z.reshape(len(z), -1) @ predicted.view(-1)
            value = float(weights @ energy + log_sum.sum())
            return value / total, (gradient / total).numpy()

        bounds = [(0.0, LARGEST_WEIGHT)] * len(start)
        result = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-10})
        solution: Floats = result.x
        return solution


def mixed_distances(weights: Tensor, z: Tensor) -> Tensor:
    """(n, K) weighted sum of the distances (M, n, K)."""
    return (weights @ z.reshape(len(z), -1)).view(z.shape[1:])
