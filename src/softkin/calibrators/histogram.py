"""Calibrators that count hits in bins: histogram binning, its Bayesian average over numbers of bins (BBQ), and
mutual-information binning (I-Max), whose few bins are shared by all classes and keep the most information.
"""

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softkin._core import checks
from softkin.calibrators.fitted import Solution
from softkin.calibrators.one_vs_rest import (
    TIE_BREAK,
    Floats,
    OneVsRest,
    comparable,
    comparable_log_odds,
    log_odds,
    steps,
)
from softkin.metrics import binning
from softkin.metrics.binning import Bins

SUREST = 1e-15  # a prior nearer to 0 or 1 would make the first surprise in a bin decide against the whole histogram


class HistogramBinning(OneVsRest, name="histogram"):
    """One-vs-rest histogram binning: a score becomes the share of hits among the fitting scores of its bin.

    In a bin without any fitting score the score stays as it is. Rows are normalised, and a row whose classes all fall
    into bins without hits stays as it is.

    Args:
        n_bins: The number of bins of each class.
        binning: "width": ((m−1)/M, m/M], as for the histogram ECE. "mass": equally many samples in each, by class.

    Attributes:
        edges_: (M+1,), or (K, M+1) for "mass".
        values_: (K, M) shares of hits, NaN in empty bins.

    References:
        Zadrozny and Elkan, Obtaining calibrated probability estimates from decision trees and naive Bayesian
        classifiers, 2001. Guo et al., 2017, arXiv:1706.04599, Sec. 4.1.
    """

    kept = ("edges_", "values_")
    takes_weights = True
    edges_: Tensor
    values_: Tensor

    def __init__(self, *, n_bins: int = 15, binning: Literal["width", "mass"] = "width") -> None:
        self.n_bins, self.binning = n_bins, binning
        self.check_options()

    def check_options(self) -> None:
        checks.count(self.n_bins, "n_bins")
        checks.option(self.binning, "binning", ("width", "mass"))

    def fit_rows(self, z: Tensor, y: Tensor, weights: Tensor | None = None) -> Solution:
        p = comparable(torch.softmax(z, dim=1))
        k = p.shape[1]
        chosen = binning.equal_width(self.n_bins) if self.binning == "width" else binning.equal_mass(p, self.n_bins)
        self.edges_ = chosen.edges.clone()
        cell = self._cells(p)
        each = None if weights is None else weights[:, None].expand_as(cell).reshape(-1)
        size = torch.bincount(cell.reshape(-1), each, minlength=k * self.n_bins).double()
        hits = torch.bincount(cell.gather(1, y[:, None])[:, 0], weights, minlength=k * self.n_bins).double()
        self.values_ = (hits / size).reshape(k, self.n_bins)
        return Solution()

    def _cells(self, p: Tensor) -> Tensor:
        """The bins of (N, K) scores, bin m of class k as k·M + m."""
        bins = Bins(self.edges_, equal_width=self.edges_.ndim == 1)
        return binning.assign(p, bins).to(torch.int64) + self.n_bins * torch.arange(p.shape[1])

    def scores(self, z: Tensor) -> Tensor:
        p = comparable(torch.softmax(z, dim=1))
        mapped = self.values_.reshape(-1)[self._cells(p)]
        return torch.where(mapped.isnan(), p, mapped)


class BayesianBinning(OneVsRest, name="bayesian-binning", title="BBQ"):
    r"""Bayesian binning into quantiles (BBQ), one-vs-rest: an average over histograms of many numbers of bins.

    For each class and each B from n^{1/3}/10 to 10·n^{1/3}, B bins of equal mass; a bin with N samples, m of them hits,
    and middle p̄ estimates θ = (m + α)/(N + 2/B) with the prior α = 2p̄/B, β = 2(1−p̄)/B. Histograms are weighted by
    their marginal likelihood

    .. math:: \prod_b \frac{\Gamma(2/B)}{\Gamma(N_b + 2/B)}
              \frac{\Gamma(m_b + \alpha_b)}{\Gamma(\alpha_b)} \frac{\Gamma(N_b - m_b + \beta_b)}{\Gamma(\beta_b)}

    The average of step functions is a step function: it is kept as one, for each class. Equal scores share a bin.

    Attributes:
        edges_: The scores at which the maps step, concatenated over the classes.
        values_: The value up to each edge, and one more at the end of each class.
        offsets_: The index at which the values of each class begin, and their total number.

    References:
        Naeini et al., Obtaining Well Calibrated Probabilities Using Bayesian Binning, 2015.
    """

    kept = ("edges_", "values_", "offsets_")
    edges_: Tensor
    values_: Tensor
    offsets_: Tensor

    def __init__(self) -> None:
        self.check_options()

    def fit_rows(self, z: Tensor, y: Tensor) -> Solution:
        p = comparable(torch.softmax(z, dim=1))
        n, k = p.shape
        ordered, order = p.T.contiguous().sort(dim=1)
        root = n ** (1 / 3)
        models = range(max(1, int(root / 10)), max(1, int(10 * root)) + 1)
        models = range(models.start, min(models.stop, n + 1))  # more bins than samples would be empty ones
        # The ranks of the inner edges are the same for all classes: edge m of B is the ⌈m·n/B⌉-th smallest score.
        places = torch.cat([(torch.arange(1, b) * n + b - 1) // b - 1 for b in models])
        bounds = np.cumsum([0, *(b - 1 for b in models)])
        numbers = torch.tensor(list(models), dtype=torch.float64)
        model_of_bin = torch.repeat_interleave(torch.arange(len(models)), torch.tensor(list(models)))
        is_first = torch.cat([torch.arange(b) == 0 for b in models])
        is_last = torch.cat([torch.arange(b) == b - 1 for b in models])
        prior = 2 / numbers[model_of_bin]
        edges, values, offsets = [], [], [0]
        for j in range(k):
            inner = ordered[j][places]
            until = torch.searchsorted(ordered[j], inner, side="right")  # how many scores up to each edge
            hits = torch.cat([torch.zeros(1), (y[order[j]] == j).double().cumsum(0)])
            low, high = torch.zeros(len(prior), dtype=torch.float64), torch.ones(len(prior), dtype=torch.float64)
            low[~is_first], high[~is_last] = inner, inner
            start = torch.zeros(len(prior), dtype=torch.int64)
            stop = torch.full((len(prior),), n)
            start[~is_first], stop[~is_last] = until, until
            size, hit = (stop - start).double(), hits[stop] - hits[start]
            middle = ((low + high) / 2).clamp(SUREST, 1 - SUREST)
            a, b = prior * middle, prior * (1 - middle)
            terms = torch.lgamma(prior) - torch.lgamma(size + prior) + torch.lgamma(hit + a) - torch.lgamma(a)
            terms += torch.lgamma(size - hit + b) - torch.lgamma(b)
            score = torch.zeros(len(models), dtype=torch.float64).index_add_(0, model_of_bin, terms)
            weight = torch.softmax(score, dim=0)
            theta = (hit + a) / (size + prior)
            used = (weight > 1e-17).nonzero()[:, 0].tolist()  # smaller weights cannot change a float64 sum
            joint = torch.cat([inner[bounds[m] : bounds[m + 1]] for m in used]).unique()
            level = torch.zeros(len(joint) + 1, dtype=torch.float64)
            for m in used:
                own = inner[bounds[m] : bounds[m + 1]]
                first = int(bounds[m]) + m  # each model has one more bin than inner edges
                bins = theta[first : first + len(own) + 1]
                # The interval that ends at joint edge e lies in the bin whose own upper edge is the first ≥ e.
                level[:-1] += weight[m] * bins[torch.searchsorted(own, joint)]
                level[-1] += weight[m] * bins[-1]
            edges.append(joint)
            values.append(level)
            offsets.append(offsets[-1] + len(level))
        self.edges_, self.values_, self.offsets_ = torch.cat(edges), torch.cat(values), torch.tensor(offsets)
        return Solution()

    def scores(self, z: Tensor) -> Tensor:
        p = comparable(torch.softmax(z, dim=1)).T.contiguous()
        offsets = self.offsets_.tolist()
        mapped = torch.empty_like(p)
        for j in range(len(p)):
            a, b = offsets[j], offsets[j + 1]
            mapped[j] = self.values_[a:b][torch.searchsorted(self.edges_[a - j : b - j - 1], p[j])]
        return mapped.T.contiguous()


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
