"""Class distances → how alike the classes are: the one formula that turns far into unlike."""

from dataclasses import dataclass
from typing import overload

import torch
from torch import Tensor

from softkin import checks
from softkin.checks import Array
from softkin.matrices import MatrixFiles
from softkin.progress import track

BLOCK = 2**21  # distances at a time in from_vectors: 16 MB of float64, which the caches still help with
CONSTANT = 1e-9  # a row whose standard deviation is below this share of its largest distance says nothing

_files = MatrixFiles("similarity")
save, load, read = _files.save, _files.load, _files.read


@dataclass(frozen=True)
class SparseRows:
    """K rows of length K that differ from a constant in few places: what K×K would hold, in K·m.

    Row k is ``own[k]`` at k, ``values[k, j]`` at ``indices[k, j]``, and ``rest[k]`` everywhere else.
    """

    own: Tensor
    """(K,)"""
    indices: Tensor
    """(K, m) int64, none of them k itself"""
    values: Tensor
    """(K, m)"""
    rest: Tensor
    """(K,)"""

    def __len__(self) -> int:
        return len(self.own)

    def dense(self) -> Tensor:
        """The (K, K) matrix."""
        full = self.rest[:, None].repeat(1, len(self))
        full.scatter_(1, self.indices, self.values)
        full.diagonal().copy_(self.own)
        return full


@torch.no_grad()
def from_distances(distances: Array, beta: float = 2.0, *, asymmetric: bool = False) -> Tensor:
    r"""Similarity of each class to the others: a softmax of minus β times the normalised distances.

    With :math:`\mu_k, \sigma_k` the mean and (population) standard deviation of row k over the K−1 other classes,

    .. math:: s_k(k') = \frac{\exp(-\beta (d_k(k') - \mu_k)/\sigma_k)}
                             {\sum_{i \ne k} \exp(-\beta (d_k(i) - \mu_k)/\sigma_k)}, \quad s_k(k) = 0

    The normalisation makes β mean the same for all distances, whatever their units. β = 0 is uniform over the
    others, a large β is all on the nearest. A row whose distances are all equal (σ ≤ 1e-9 of the largest) is uniform.

    Args:
        distances: (K, K), finite and non-negative; the diagonal is ignored.
        beta: How sharp, at least 0. The paper uses 0.5 to 6.
        asymmetric: Allow d(k, k') ≠ d(k', k); without it such a matrix is taken for a mistake.

    Returns:
        S, (K, K) float64 on the CPU; rows sum to 1, the diagonal is 0.

    Example:
        >>> from_distances(torch.tensor([[0., 1., 3.], [1., 0., 2.], [3., 2., 0.]]), beta=1.0)
        tensor([[0.0000, 0.8808, 0.1192],
                [0.8808, 0.0000, 0.1192],
                [0.1192, 0.8808, 0.0000]], dtype=torch.float64)

    References:
        Liu and JaJa, Class-Similarity Based Label Smoothing for Confidence Calibration, 2021, Sec. 5.4. It leaves
        open whether the statistics count the own class; here they do not, as it is discarded right after.
    """
    beta = checks.beta(beta)
    d = checks.square(distances, "distances", without_diagonal=True)
    if not asymmetric:
        checks.symmetric(d, "distances")
    return _softmax_of_rows(d, torch.arange(len(d)), beta)


def _softmax_of_rows(d: Tensor, own: Tensor, beta: float) -> Tensor:
    """The formula of ``from_distances`` for some rows (r, K) of distances, ``own`` (r,) their classes; overwrites d."""
    line, others = torch.arange(len(d), device=d.device), d.shape[1] - 1
    d[line, own] = 0  # adds nothing to the sums below
    # In units of the row's largest distance, as squares of 1e200 would overflow and of 1e-200 vanish.
    d /= d.amax(dim=1, keepdim=True).clamp_(min=torch.finfo(d.dtype).tiny)
    d -= d.sum(dim=1, keepdim=True) / others
    d[line, own] = 0
    sigma = torch.linalg.vector_norm(d, dim=1, keepdim=True) / others**0.5
    d *= torch.where(sigma > CONSTANT, -min(beta, 1e150) / sigma, 0.0)  # beyond 1e150 all is on the nearest already
    d[line, own] = -float("inf")
    return torch.softmax(d, dim=1)


@overload
def from_vectors(vectors: Array, beta: float = ..., *, top_m: None = ..., progress: bool | None = ...) -> Tensor: ...
@overload
def from_vectors(vectors: Array, beta: float = ..., *, top_m: int, progress: bool | None = ...) -> SparseRows: ...
@torch.no_grad()
def from_vectors(
    vectors: Array, beta: float = 2.0, *, top_m: int | None = None, progress: bool | None = None
) -> Tensor | SparseRows:
    """Similarity of classes that are vectors (words, prototypes, last-layer weights), also for very many classes.

    The same as ``from_distances`` of the vectors' L2 distances. With ``top_m`` no K×K matrix is built: row by row
    the m most similar classes keep their similarity, computed with the statistics and the sum of the full row, and
    what is left of the row's mass is spread evenly over the K−1−m other classes, so that it still sums to 1.

    Cost: K²·d multiply-adds in blocks of rows, K·m numbers kept.

    Args:
        vectors: (K, d), one for each class.
        beta: How sharp, at least 0.
        top_m: How many classes to keep for each; None for the full matrix.
        progress: Show a bar; by default on a terminal, for work longer than a second.

    Returns:
        (K, K) float64 on the CPU, or ``SparseRows`` with ``top_m``. The losses and ``similarity_labels`` take both.

    Example:
        >>> rows = from_vectors(torch.eye(5), top_m=2)
        >>> float(rows.rest[0])  # all equally far: each of the four others gets a quarter
        0.25
    """
    beta = checks.beta(beta)
    v = checks.as_tensor(vectors, "vectors")
    if v.ndim != 2 or len(v) < 2:
        raise ValueError(f"`vectors` must have shape (K, d) with at least 2 classes, got {tuple(v.shape)}.")
    if v.device.type == "mps":  # has no float64
        v = v.cpu()
    checks.finite(v, "vectors")
    v = v.to(torch.float64)
    if top_m is None:
        return from_distances(torch.cdist(v, v, compute_mode="donot_use_mm_for_euclid_dist"), beta)
    v = v - v.mean(dim=0)  # distances stay, cancellation shrinks
    k = len(v)
    m = min(checks.count(top_m, "top_m"), k - 1)
    squares = v.square().sum(dim=1)
    step = max(1, BLOCK // k)
    indices = torch.empty(k, m, dtype=torch.int64)
    values = torch.empty(k, m, dtype=torch.float64)
    rest = torch.empty(k, dtype=torch.float64)
    for start in track(range(0, k, step), "similarities", total=-(-k // step), show=progress):
        own = torch.arange(start, min(start + step, k), device=v.device)
        line = torch.arange(len(own), device=v.device)
        d = torch.addmm(squares[own, None] + squares, v[own], v.T, alpha=-2).clamp_(min=0)
        d[line, own] = float("inf")
        near = d.topk(m, largest=False, sorted=False).indices.sort(dim=1).values
        d.sqrt_()
        # Cancellation hits the nearest, which matter most: their distances again, from differences.
        for some in line.split(max(1, 2**22 // (m * v.shape[1]))):
            d[some[:, None], near[some]] = (v[own[some], None] - v[near[some]]).square().sum(dim=2).sqrt()
        shares = _softmax_of_rows(d, own, beta)
        indices[own], values[own] = near.cpu(), shares.gather(1, near).cpu()
        rest[own] = (shares.scatter_(1, near, 0).sum(dim=1) / max(1, k - 1 - m)).cpu()
    return SparseRows(torch.zeros(k, dtype=torch.float64), indices, values, rest)
