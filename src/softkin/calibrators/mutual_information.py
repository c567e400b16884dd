r"""Mutual-information binning (I-Max): few bins, shared by all classes, that keep the most information."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softkin._core import checks
from softkin.calibrators.certificate import Solution
from softkin.calibrators.isotonic import steps
from softkin.calibrators.one_vs_rest import TIE_BREAK, Floats, OneVsRest, comparable_log_odds, log_odds


def best_groups(hits: Floats, sizes: Floats, n_bins: int) -> list[int]:
    r"""Where to cut a sequence of steps into at most ``n_bins`` groups so that the mutual information is largest.

    I(label; group) is the label's entropy, which no cut changes, minus Σ_g N_g H(h_g/N_g)/N. The cut of least cost is
    found exactly, by dynamic programming over the steps.
    """
    m = len(hits)
    h, n = np.concatenate([[0.0], np.cumsum(hits)]), np.concatenate([[0.0], np.cumsum(sizes)])

    def entropy_of(start: NDArray[np.int64], stop: int) -> Floats:
        """N·H of the groups of steps start … stop−1."""
        hit, size = h[stop] - h[start], n[stop] - n[start]
        rest = size - hit
        with np.errstate(divide="ignore", invalid="ignore"):
            cost = -np.where(hit > 0, hit * np.log(hit / size), 0) - np.where(rest > 0, rest * np.log(rest / size), 0)
        return np.asarray(cost, dtype=np.float64)

    groups = min(n_bins, m)
    starts = np.arange(m)
    costs = np.full((m + 1, m + 1), np.inf)
    for stop in range(1, m + 1):
        costs[:stop, stop] = entropy_of(starts[:stop], stop)
    least = costs[0].copy()  # least[e]: the best cost of the first e steps in one group
    came = np.zeros((groups + 1, m + 1), dtype=np.int64)
    for g in range(2, groups + 1):
        through = least[:, None] + costs
        came[g] = through.argmin(axis=0)
        least = through.min(axis=0)
    cuts, end = [], m
    for g in range(groups, 1, -1):
        end = int(came[g][end])
        cuts.append(end)
    return sorted(cut for cut in cuts if 0 < cut < m)


class MutualInformationBinning(OneVsRest, name="mutual-information", title="I-Max", aliases=("imax",)):
    r"""I-Max: bins of the log-odds, shared by all classes, of maximal mutual information with the labels.

    All N·K log-odds ln p − ln(1−p) are pooled with their labels (is this the true class?). Bins that keep the most
    information about a label are intervals of the score once P(hit | score) rises with it; so that probability is
    estimated by isotonic regression, and its steps are grouped into ``n_bins`` bins by dynamic programming, which
    finds the largest mutual information exactly, where the published alternating updates find a local one.

    A bin's value is (h + p̄)/(N + 1), the share of hits h among its N scores with the bin's mean raw score p̄ as one
    more, so that a bin without hits does not get the value 0. Where several classes of a row share a bin, the raw score
    decides between them. Rows are normalised.

    Args:
        n_bins: The maximum number of bins.

    Attributes:
        edges_: (M−1,) the inner edges, in log-odds; a score on an edge belongs to the upper bin.
        values_: (M,) the value of each bin.

    References:
        Patel et al., Multi-Class Uncertainty Calibration via Mutual Information Maximization-based Binning, 2021,
        arXiv:2006.13092, Sec. 3.
    """

    kept = ("edges_", "values_")
    edges_: Tensor
    values_: Tensor

    def __init__(self, *, n_bins: int = 15) -> None:
        self.n_bins = n_bins
        self.check_options()

    def check_options(self) -> None:
        checks.count(self.n_bins, "n_bins", least=2)

    def fit_rows(self, z: Tensor, y: Tensor) -> Solution:
        scores = comparable_log_odds(log_odds(z))
        own = scores.gather(1, y[:, None])[:, 0].numpy()
        first, _, level, sizes = steps(np.sort(scores.numpy(), axis=None), np.sort(own))
        cuts = best_groups(level * sizes, sizes, self.n_bins)
        self.edges_ = torch.from_numpy(first[cuts])
        m = len(cuts) + 1
        cell = self._cells(scores)
        size = torch.bincount(cell.reshape(-1), minlength=m).double()
        hits = torch.bincount(cell.gather(1, y[:, None])[:, 0], minlength=m).double()
        mean = torch.bincount(cell.reshape(-1), weights=torch.softmax(z, dim=1).reshape(-1), minlength=m) / size
        self.values_ = (hits + mean) / (size + 1)
        return Solution()

    def _cells(self, scores: Tensor) -> Tensor:
        return torch.bucketize(scores, self.edges_, right=True)

    def scores(self, z: Tensor) -> Tensor:
        return self.values_[self._cells(comparable_log_odds(log_odds(z)))] + TIE_BREAK * torch.softmax(z, dim=1)

    def summary(self) -> str:
        return f"{len(self.values_)} bins"
