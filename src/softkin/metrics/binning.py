"""Scores → bins: the only code that decides which bin a score falls in.

Two obvious rules, ``ceil(p · M)`` and comparing with the edges m/M, disagree at some edges in floating point. So one
rule, by comparison, in float64, serves every binned metric, every bar of a diagram and the streaming sums.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softkin._core import checks

CHUNK = 2**16  # scores at a time: half a megabyte of float64, so that the passes over it stay in the cache
AT_ONCE = 2**18  # where most scores are only summed: a dozen calls per chunk would cost more than the cache saves
MOST_CELLED = 1024  # bins of 4096 cells, whose number float32, with 24 bits, holds to a quarter

Norm = Literal[1, 2, "max"]
NORMS = (1, 2, "max")


@dataclass(frozen=True)
class Bins:
    """The bins: M+1 edges, or a row of M+1 edges for each class.

    Scores are compared in the type of the edges: float64 except for conventions that compute in float32.
    """

    edges: Tensor
    """(M+1,) or (K, M+1), ascending; only inner edges are compared with scores, so that no score falls outside"""
    closed: Literal["right", "left"] = "right"
    """"right": (lo, hi] and 0 in the first bin; "left": [lo, hi) and 1 in the last"""
    equal_width: bool = False
    """Whether the edges are exactly m/M: bins are then found by arithmetic, and checked by comparison"""
    from_scores: bool = False
    """Whether the edges depend on the scores, so that other scores would have other bins"""

    @property
    def n_bins(self) -> int:
        """M."""
        return self.edges.shape[-1] - 1


@dataclass(frozen=True)
class ReliabilityCurve:
    r"""The sums behind ECE, MCE, the signed gap and every bar: for each bin the number of scores, their sum, the hits.

    A score is a hit if its class is the true one. A leading axis, where there is one, runs over classes or resamples.
    """

    edges: Tensor
    """(M+1,), or (K, M+1) if each class has its own bins"""
    count: Tensor
    """|B_m|, (…, M) float64"""
    score_sum: Tensor
    """Σ p over B_m"""
    hit_sum: Tensor
    """The number of hits in B_m"""

    @property
    def confidence(self) -> Tensor:
        """conf(B_m): the mean score of each bin, NaN in empty bins."""
        return self.score_sum / self.count

    @property
    def likelihood(self) -> Tensor:
        """lik(B_m): the share of hits in each bin, NaN in empty bins."""
        return self.hit_sum / self.count

    @property
    def gap(self) -> Tensor:
        """conf(B_m) − lik(B_m): positive where over-confident, NaN in empty bins."""
        return (self.score_sum - self.hit_sum) / self.count

    def error(self, norm: Norm = 1, *, samples: float | None = None) -> Tensor:
        r"""The calibration error over the bins.

        .. math:: \Big(\sum_m \frac{|B_m|}{n} |\mathrm{conf}(B_m) - \mathrm{lik}(B_m)|^q\Big)^{1/q}

        for q = ``norm``, or the largest gap for "max", with n = ``samples`` (by default the number of scores).
        Empty bins add nothing.
        """
        n = self.count.sum(dim=-1) if samples is None else samples
        difference = (self.score_sum - self.hit_sum).abs()
        if norm == 1:
            return difference.sum(dim=-1) / n
        size = torch.where(self.count > 0, self.count, 1.0)  # an empty bin has difference 0
        if norm == 2:
            return ((difference.square() / size).sum(dim=-1) / n).sqrt()
        return (difference / size).amax(dim=-1)


def equal_width(n_bins: int) -> Bins:
    """M bins ((m−1)/M, m/M], 0 in the first."""
    return Bins(_width_edges(n_bins), equal_width=True)


@lru_cache(maxsize=64)
def _width_edges(n_bins: int) -> Tensor:
    return torch.arange(n_bins + 1, dtype=torch.float64) / n_bins


def equal_mass(scores: Tensor, n_bins: int) -> Bins:
    """M bins of about n/M scores each: edge m is the ⌈m·n/M⌉-th smallest score, and belongs to the bin it closes.

    Equal scores share a bin, whatever their order, so bins can be larger than n/M, and others empty. For (N, K)
    scores each class (column) gets its own bins.
    """
    lines = scores.T if scores.ndim == 2 else scores
    ordered = lines.to(torch.float64).contiguous().sort(dim=-1).values
    n = ordered.shape[-1]
    places = [-(-m * n // n_bins) - 1 for m in range(1, n_bins)]
    inner = ordered[..., torch.tensor(places, dtype=torch.int64, device=ordered.device).clamp_(min=0)]
    ends = inner.new_zeros(*inner.shape[:-1], 1)
    return Bins(torch.cat([ends, inner, ends + 1], dim=-1).cpu(), from_scores=True)


def assign(scores: Tensor, bins: Bins) -> Tensor:
    """The bin, 0 … M−1, of each score. For bins by class, ``scores`` is (n, K), with one column for each class."""
    if _by_arithmetic(scores, bins):
        return torch.from_numpy(_celled(_as_numpy(scores), bins))
    return _compared(scores, bins)


def _by_arithmetic(scores: Tensor, bins: Bins) -> bool:
    return bins.equal_width and bins.n_bins <= MOST_CELLED and scores.device.type == "cpu"


def _as_numpy(scores: Tensor) -> NDArray[Any]:
    """A contiguous float32 or float64 array; on a CPU numpy compares and counts faster than torch."""
    exact = scores if scores.dtype in (torch.float32, torch.float64) else scores.to(torch.float32)
    array: NDArray[Any] = exact.contiguous().numpy()
    return array


def _celled(values: NDArray[Any], bins: Bins) -> NDArray[Any]:
    """The bin of each score for edges m/M.

    4096 cells to a bin. A score next to no edge is in the bin of its cell, whatever the product's rounding; the few in
    the two cells around an inner edge are compared with it.
    """
    m = bins.n_bins
    cell: NDArray[Any] = (values * values.dtype.type(m * 4096)).astype(np.int32)
    # As an unsigned number cell − 1 is huge for the first cell, which like the last touches no inner edge.
    near = np.flatnonzero(((cell + 1) & 4095 <= 1) & ((cell - 1).view(np.uint32) < m * 4096 - 2))
    cell >>= 12
    np.minimum(cell, m - 1, out=cell)  # rows may sum to a little more than 1, and so may a score
    if len(near):
        exact = values.reshape(-1)[near].astype(np.float64)
        cell.reshape(-1)[near] = np.searchsorted(bins.edges[1:-1].numpy(), exact, side="left")
    return cell


def _compared(scores: Tensor, bins: Bins) -> Tensor:
    """The bin of each score by comparison with the edges, in the edges' dtype; this is the definition."""
    edges = bins.edges.to(scores.device)
    s = scores.to(edges.dtype)
    inner, right = edges[..., 1:-1].contiguous(), bins.closed == "left"
    if inner.ndim == 2:
        return torch.searchsorted(inner, s.T.contiguous(), right=right, out_int32=True).T
    return torch.bucketize(s, inner, right=right, out_int32=True)


def curve(
    scores: Tensor, hits: Tensor, bins: Bins, *, shares: Tensor | None = None, weights: Tensor | None = None
) -> ReliabilityCurve:
    """The curve of n pooled scores; ``hits`` are the indices of those whose class is the true one.

    With ``shares`` (n,) each score adds that much to the hits instead, and with ``weights`` (n,) it counts that often.
    """
    m = bins.n_bins
    flat = scores.reshape(-1)
    if shares is not None:
        return ReliabilityCurve(bins.edges, *_weighted_sums(_places(flat, bins), flat, shares, weights, m))
    if _by_arithmetic(flat, bins):
        if len(flat) <= CHUNK:
            values = _as_numpy(flat)
            index = _celled(values, bins)
            own = index[hits.numpy()]
            sums = [np.bincount(index, minlength=m).astype(np.float64), np.bincount(index, weights=values, minlength=m)]
        else:
            own = _celled(_as_numpy(flat[hits]), bins)
            sums = [total[0] for total in _equal_width_sums(flat[:, None], bins)]
        sums.append(np.bincount(own, minlength=m).astype(np.float64))
        return ReliabilityCurve(bins.edges, *(torch.from_numpy(total) for total in sums))
    total = torch.zeros(2, m, dtype=torch.float64, device=flat.device)
    for part in _chunks(flat):
        number = _compared(part, bins)
        total[0] += torch.bincount(number, minlength=m)
        total[1] += torch.bincount(number, weights=part.to(torch.float64), minlength=m)
    hit_sum = torch.bincount(_compared(flat[hits], bins), minlength=m)
    return ReliabilityCurve(bins.edges, total[0].cpu(), total[1].cpu(), hit_sum.to("cpu", torch.float64))


def _chunks(values: Tensor) -> Iterator[Tensor]:
    size = CHUNK if values.device.type == "cpu" else 2**24  # on a GPU small chunks gain nothing and launches cost
    return iter(values.split(size))


def sums_of_rows(scores: Tensor, bins: Bins) -> tuple[Tensor, Tensor]:
    """The count and the sum of (n, K) scores by row and bin, each (n, M) float64."""
    if _by_arithmetic(scores, bins):
        return _equal_width_rows(_as_numpy(scores), bins)
    exact = scores.to(torch.float64)
    index = assign(exact.flatten(), bins).view(exact.shape).to(torch.int64)
    count, score_sum = torch.zeros(2, len(scores), bins.n_bins, dtype=torch.float64, device=scores.device)
    return count.scatter_add_(1, index, torch.ones_like(exact)), score_sum.scatter_add_(1, index, exact)


def _equal_width_rows(scores: NDArray[Any], bins: Bins) -> tuple[Tensor, Tensor]:
    """Like ``sums_of_rows``; of many scores most lie in the first bin, as in ``_equal_width_sums``."""
    (n, k), m = scores.shape, bins.n_bins
    values = scores.reshape(-1)
    beyond = values > _below_first_edge(bins, values.dtype)
    dense = 2 * np.count_nonzero(beyond) > len(values)
    places = np.arange(len(values)) if dense else np.flatnonzero(beyond)
    own = values if dense else values[places]
    row = places // k if k > 1 else places
    index = row * m + _celled(own, bins)
    count = np.bincount(index, minlength=n * m).astype(np.float64).reshape(n, m)
    score_sum = np.bincount(index, weights=own, minlength=n * m).astype(np.float64, copy=False).reshape(n, m)
    if not dense:
        count[:, 0] += k - np.bincount(row, minlength=n)
        score_sum[:, 0] += np.where(beyond, 0, values).reshape(n, k).sum(axis=1, dtype=np.float64)
    return torch.from_numpy(count), torch.from_numpy(score_sum)


def _equal_width_sums(scores: Tensor, bins: Bins) -> tuple[NDArray[Any], NDArray[Any]]:
    """The count and the sum of (n, K) scores by column and bin, each (K, M) float64.

    A row sums to 1, so most of many scores lie in the first bin: these are only added up, the others are counted.
    """
    (n, k), m = scores.shape, bins.n_bins
    count, score_sum = np.zeros((2, k * m))
    first = np.zeros(k)
    rows = max(1, max(AT_ONCE, k * m) // k)  # each chunk costs a pass over the K·M sums as well: no smaller than those
    line = np.empty(min(n, rows) * k)  # reused for all chunks: fresh memory is mapped page by page
    for start in range(0, n, rows):
        values = _as_numpy(scores[start : start + rows]).reshape(-1)
        beyond = values > _below_first_edge(bins, values.dtype)
        if 2 * np.count_nonzero(beyond) > len(values):
            index = _celled(values, bins)
            if k > 1:
                index.reshape(-1, k)[:] += np.arange(k, dtype=np.int32) * m
            own = values
        else:
            places = np.flatnonzero(beyond)
            own = values[places]
            index = _celled(own, bins)
            if k > 1:
                index += (places % k).astype(np.int32) * np.int32(m)
            rest = line[: len(values)]
            rest[:] = values
            rest[places] = 0
            first += rest.reshape(-1, k).sum(axis=0)
            count[::m] += len(values) // k
            count[::m] -= np.bincount(places % k, minlength=k) if k > 1 else len(places)
        count += np.bincount(index, minlength=k * m)
        score_sum += np.bincount(index, weights=own, minlength=k * m)
    score_sum[::m] += first
    return count.reshape(k, m), score_sum.reshape(k, m)


def _below_first_edge(bins: Bins, dtype: np.dtype[Any]) -> Any:
    """The largest number of this dtype that is not above the first inner edge; infinity if there is one bin."""
    if bins.n_bins == 1:
        return np.inf
    edge = np.float64(bins.edges[1])
    rounded = dtype.type(edge)
    return rounded if rounded <= edge else np.nextafter(rounded, dtype.type(0))


def _places(scores: Tensor, bins: Bins) -> Tensor:
    return assign(scores, bins).to(torch.int64)


def _weighted_sums(
    places: Tensor, scores: Tensor, shares: Tensor, weights: Tensor | None, size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The count, scores and hits of each of ``size`` cells, of (n,) scores that hit by ``shares``, on the CPU."""
    exact = scores.to(torch.float64)
    w = torch.ones_like(exact) if weights is None else weights
    terms = (w, w * exact, shares.to(torch.float64))
    count, score, hit = (torch.bincount(places, weights=term, minlength=size).cpu() for term in terms)
    return count, score, hit


def class_curves(
    probabilities: Tensor, labels: Tensor, bins: Bins, *, weights: Tensor | None = None
) -> ReliabilityCurve:
    """One curve for each class k, over the N scores of column k: sums of shape (K, M).

    ``labels`` are (N,) classes or (N, K) outcomes, ``weights`` those of the rows.
    """
    n, k = probabilities.shape
    m = bins.n_bins
    if labels.ndim == 2 or weights is not None:
        outcomes = labels if labels.ndim == 2 else torch.nn.functional.one_hot(labels, k).to(torch.float64)
        places = _places(probabilities, bins) + torch.arange(k, device=probabilities.device) * m
        w = None if weights is None else weights[:, None].expand(n, k).reshape(-1)
        shares = outcomes.reshape(-1) if w is None else outcomes.reshape(-1) * w
        sums = _weighted_sums(places.reshape(-1), probabilities.reshape(-1), shares, w, k * m)
        return ReliabilityCurve(bins.edges, *(total.view(k, m) for total in sums))
    if _by_arithmetic(probabilities, bins):
        own_bin = _celled(_as_numpy(probabilities.gather(1, labels[:, None])[:, 0]), bins)
        hits = np.bincount(labels.numpy() * m + own_bin, minlength=k * m).astype(np.float64).reshape(k, m)
        count, score_sum = _equal_width_sums(probabilities, bins)
        return ReliabilityCurve(bins.edges, *(torch.from_numpy(total) for total in (count, score_sum, hits)))
    column = torch.arange(k, device=probabilities.device, dtype=torch.int32) * m
    total = torch.zeros(3, k * m, dtype=torch.float64, device=probabilities.device)
    rows = max(1, max(CHUNK, k * m) // k)
    for start in range(0, n, rows):
        block = probabilities[start : start + rows]
        index = _compared(block, bins) + column
        flat = index.reshape(-1)
        total[0] += torch.bincount(flat, minlength=k * m)
        total[1].scatter_add_(0, flat.to(torch.int64), block.reshape(-1).to(torch.float64))
        own = index.gather(1, labels[start : start + rows, None]).flatten()
        total[2] += torch.bincount(own, minlength=k * m)
    return ReliabilityCurve(bins.edges, *total.view(3, k, m).cpu())


def for_scores(scores: Tensor, n_bins: int, binning: Literal["width", "mass"]) -> Bins:
    """The bins for ``n_bins`` and ``binning``; (N, K) scores with "mass" give bins by class."""
    checks.option(binning, "binning", ("width", "mass"))
    n_bins = checks.count(n_bins, "n_bins")
    return equal_width(n_bins) if binning == "width" else equal_mass(scores, n_bins)


def by_answer(probabilities: Tensor, labels: Tensor) -> ReliabilityCurve:
    """One bin for each class, which holds the samples predicted as that class, whatever their score."""
    k = probabilities.shape[1]
    score, predicted = probabilities.max(dim=1)
    hit = (predicted == labels).to(torch.float64)
    count = torch.bincount(predicted, minlength=k)
    sums = [torch.bincount(predicted, weights=values, minlength=k) for values in (score.to(torch.float64), hit)]
    return ReliabilityCurve(torch.arange(k + 1), count.to(torch.float64).cpu(), sums[0].cpu(), sums[1].cpu())
