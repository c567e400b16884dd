"""Similarity of classes given as vectors or as rows of distances computed in blocks, also for very many classes."""

import math
from collections.abc import Callable
from typing import overload

import torch
from torch import Tensor

from softkin._core import checks
from softkin._core.checks import Array
from softkin._core.progress import track
from softkin.similarity.formula import Beta, Outputs, SparseRows, chosen_beta, from_distances, smallest, softmax_of_rows

BLOCK = 2**21  # distances at a time: 16 MB of float64, which still fit the caches
TILE = 16384, 512  # columns and rows at a time in ``nearest``: 32 MB of float32
CHUNK = 64  # columns whose smallest distance decides whether any of them is looked at


@overload
def from_vectors(
    vectors: Array, beta: Beta = ..., *, top_m: None = ..., outputs: Outputs | None = ..., progress: bool | None = ...
) -> Tensor: ...
@overload
def from_vectors(
    vectors: Array, beta: Beta = ..., *, top_m: int, outputs: Outputs | None = ..., progress: bool | None = ...
) -> SparseRows: ...
@torch.no_grad()
def from_vectors(
    vectors: Array,
    beta: Beta = 2.0,
    *,
    top_m: int | None = None,
    outputs: Outputs | None = None,
    progress: bool | None = None,
) -> Tensor | SparseRows:
    """Similarity of classes given as vectors (words, prototypes, last-layer weights), also for very many classes.

    The result is ``from_distances`` of the vectors' L2 distances. With ``top_m`` no K×K matrix is built; see
    ``from_blocks``.

    Cost: K²·d multiply-adds in blocks of rows, and K·m numbers in memory.

    Args:
        vectors: (K, d), one vector per class.
        beta: Sharpness, at least 0, or "auto"; see ``from_distances``.
        top_m: Number of classes to keep for each class; None for the full matrix.
        outputs: (probabilities, labels) of a baseline on held-out rows, for ``beta="auto"``.
        progress: Show a bar; by default only on a terminal, for work longer than a second.

    Returns:
        (K, K) float64 on the CPU, or ``SparseRows`` with ``top_m``. The losses and ``similarity_labels`` accept both.

    Example:
        >>> rows = from_vectors(torch.eye(5), top_m=2)
        >>> float(rows.rest[0])  # all equally far: each of the four others gets a quarter
        0.25
    """
    v = _checked(vectors)
    if top_m is None:
        return from_distances(_l2(v), beta, outputs=outputs)
    beta = chosen_beta(beta, None if outputs is None else _l2(v), outputs)
    m = min(checks.count(top_m, "top_m"), len(v) - 1)
    v = v - v.mean(dim=0)  # preserves distances and reduces cancellation
    squares = v.square().sum(dim=1)

    def rows(own: Tensor) -> Tensor:
        d = torch.addmm(squares[own, None] + squares, v[own], v.T, alpha=-2).clamp_(min=0)
        line = torch.arange(len(own), device=v.device)
        d[line, own] = float("inf")
        near = d.topk(m, largest=False, sorted=False).indices
        d.sqrt_()
        # Cancellation affects the nearest classes most, which matter most: recompute their distances from differences.
        for part in line.split(max(1, 2**22 // (m * v.shape[1]))):
            d[part[:, None], near[part]] = (v[own[part], None] - v[near[part]]).square().sum(dim=2).sqrt()
        return d

    return from_blocks(len(v), rows, beta, top_m=m, device=v.device, progress=progress)


def from_blocks(
    num_classes: int,
    rows: Callable[[Tensor], Tensor],
    beta: float = 2.0,
    *,
    top_m: int,
    device: torch.device | str = "cpu",
    progress: bool | None = None,
) -> SparseRows:
    """Similarity of very many classes from rows of distances that are computed on demand.

    In each row the m most similar classes keep their similarity, computed with the statistics and the sum of the full
    row. The remaining mass is spread evenly over the K−1−m other classes, so that the row still sums to 1. Among
    classes at equal distance, which are common in a tree, those with the smallest numbers are kept.

    Args:
        num_classes: K.
        rows: Takes class numbers (r,) and returns their distances (r, K), float64; a class's distance to itself is
            ignored. ``distances.taxonomy.rows`` returns such a function.
        beta: Sharpness, at least 0.
        top_m: Number of classes to keep for each class.
        device: Device on which the rows are computed.
        progress: Show a bar; by default only on a terminal, for work longer than a second.
    """
    k = checks.count(num_classes, "num_classes", least=2)
    m, beta = min(checks.count(top_m, "top_m"), k - 1), checks.beta(beta)
    step = max(1, BLOCK // k)
    indices = torch.empty(k, m, dtype=torch.int64)
    values = torch.empty(k, m, dtype=torch.float64)
    rest = torch.empty(k, dtype=torch.float64)
    for start in track(range(0, k, step), "similarities", total=-(-k // step), show=progress):
        own = torch.arange(start, min(start + step, k), device=device)
        d = rows(own)
        line = torch.arange(len(own), device=d.device)
        d[line, own] = float("inf")
        near = smallest(d, m)
        shares = softmax_of_rows(d, own, beta)
        indices[own.cpu()], values[own.cpu()] = near.cpu(), shares.gather(1, near).cpu()
        rest[own.cpu()] = (shares.scatter_(1, near, 0).sum(dim=1) / max(1, k - 1 - m)).cpu()
    return SparseRows(torch.zeros(k, dtype=torch.float64), indices, values, rest)


@torch.no_grad()
def nearest(vectors: Array, m: int, *, progress: bool | None = None) -> tuple[Tensor, Tensor]:
    """The m nearest other vectors of each vector by L2, exactly, without a K×K matrix.

    Products are computed in float32, tile by tile. Every vector that may be among the m nearest, given the rounding of
    such products, is recomputed from float64 differences, so the result is that of float64 throughout.

    Args:
        vectors: (K, d).
        m: Number of neighbours, at most K−1.
        progress: Show a bar; by default only on a terminal, for work longer than a second.

    Returns:
        (K, m) int64 indices, the nearest first and ties by index, and (K, m) float64 distances; both on the CPU.

    Example:
        >>> indices, distances = nearest(torch.tensor([[0.0], [1.0], [3.0]]), 1)
        >>> indices.tolist(), distances.tolist()
        ([[1], [0], [1]], [[1.0], [1.0], [2.0]])
    """
    exact = _checked(vectors)
    k, width = exact.shape
    m = min(checks.count(m, "m"), k - 1)
    centred = exact - exact.mean(dim=0)  # preserves distances and reduces cancellation
    # Squares of large or tiny numbers would overflow or underflow; a power of two changes no digit, so ties are kept.
    scale = 2.0 ** math.frexp(float(centred.abs().max()))[1]
    exact, v = exact / scale, (centred / scale).to(torch.float32)
    squares = v.square().sum(dim=1)
    # |computed − true| ≤ γ·(|a| + |b|)² for a float32 sum of width + 1 products, and also for rounding the inputs
    gamma = (width + 8) * torch.finfo(torch.float32).eps
    slack = 2 * gamma * (squares.sqrt() + float(squares.max()) ** 0.5).square() + 1e-30
    # One product gives |b|² − 2a·b, the squared distance less |a|², which does not change the order in a row of a.
    left = torch.cat([-2 * v, torch.ones_like(v[:, :1])], dim=1)
    right = torch.cat([v, squares[:, None]], dim=1)
    padding = -k % CHUNK
    right = torch.nn.functional.pad(right, (0, 0, 0, padding))
    right[k:, -1] = float("inf")
    right[:k, -1].masked_fill_(_copies(exact) > m, float("inf"))  # ties go to the first, so later copies are nobody's
    indices = torch.empty(k, m, dtype=torch.int64)
    distances = torch.empty(k, m, dtype=torch.float64)
    step = TILE[1]
    for start in track(range(0, k, step), "neighbours", total=-(-k // step), show=progress):
        own = torch.arange(start, min(start + step, k), device=v.device)
        places = _candidates(left, right, own, slack[own], m)
        gaps = torch.empty(places.shape, dtype=torch.float64, device=v.device)
        for part in torch.arange(len(own), device=v.device).split(max(1, 2**21 // (places.shape[1] * width))):
            apart = exact[places[part].clamp(min=0)].sub_(exact[own[part], None])
            gaps[part] = torch.linalg.vector_norm(apart, dim=2)
        gaps[places < 0] = float("inf")
        by_place = torch.where(places < 0, k, places).argsort(dim=1)
        places, gaps = places.gather(1, by_place), gaps.gather(1, by_place)
        order = gaps.argsort(dim=1, stable=True)[:, :m]  # ties go to the first
        indices[own.cpu()] = places.gather(1, order).cpu()
        distances[own.cpu()] = (gaps.gather(1, order) * scale).cpu()
    return indices, distances


def _copies(vectors: Tensor) -> Tensor:
    """(K,) the number of earlier vectors that equal each one."""
    _, group = torch.unique(vectors, dim=0, return_inverse=True)
    order = group.argsort(stable=True)
    size = torch.bincount(group)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=order.device) - (size.cumsum(0) - size)[group[order]]
    return rank


def _candidates(left: Tensor, right: Tensor, own: Tensor, slack: Tensor, m: int) -> Tensor:
    """(r, c) indices of all that may be among the m nearest of ``own``, padded with −1."""
    rows, device = len(own), left.device
    line = torch.arange(rows, device=device)
    places = torch.empty(rows, 0, dtype=torch.int64, device=device)
    values = torch.empty(rows, 0, device=device)
    limit: Tensor | None = None
    mine = left[own]
    tile = torch.empty(rows, min(TILE[0], len(right)), device=device)
    for first in range(0, len(right), TILE[0]):
        width = min(TILE[0], len(right) - first)
        if width < tile.shape[1]:
            tile = torch.empty(rows, width, device=device)
        torch.mm(mine, right[first : first + width].T, out=tile)
        inside = (own >= first) & (own < first + width)
        tile[line[inside], own[inside] - first] = float("inf")
        chunks = tile.view(rows, -1, CHUNK)
        smallest = chunks.amin(dim=2)
        if limit is None:  # m chunks of the first tile hold at least m vectors within the m-th of their smallest
            enough = smallest.shape[1] >= m
            limit = smallest.kthvalue(m, dim=1).values + slack if enough else torch.full_like(slack, float("inf"))
        # Most chunks hold nothing near: only those whose smallest distance is within the limit are searched.
        row, chunk = (smallest <= limit[:, None]).nonzero(as_tuple=True)
        near = chunks[row, chunk]
        hit, offset = ((near <= limit[row, None]) & (near < float("inf"))).nonzero(as_tuple=True)
        if len(hit) == 0:
            continue
        row, column = row[hit], chunk[hit] * CHUNK + offset
        hits = torch.bincount(row, minlength=rows)
        rank = torch.arange(len(row), device=device) - (hits.cumsum(0) - hits)[row]
        more = torch.full((rows, int(hits.max())), -1, dtype=torch.int64, device=device)
        gaps = torch.full(more.shape, float("inf"), device=device)
        more[row, rank], gaps[row, rank] = column + first, near[hit, offset]
        places, values = torch.cat([places, more], dim=1), torch.cat([values, gaps], dim=1)
        if values.shape[1] > m:
            kth = values.kthvalue(m, dim=1).values
            limit = kth + slack
            keep = values <= limit[:, None]
            width = int(keep.sum(dim=1).max())
            order = torch.where(keep, values, float("inf")).argsort(dim=1)[:, :width]
            places = torch.where(keep, places, -1).gather(1, order)
            values = torch.where(keep, values, float("inf")).gather(1, order)
    return places


def _checked(vectors: Array) -> Tensor:
    v = checks.as_tensor(vectors, "vectors")
    if v.ndim != 2 or len(v) < 2:
        raise ValueError(f"`vectors` must have shape (K, d) with at least 2 classes, got {tuple(v.shape)}.")
    if v.device.type == "mps":  # MPS has no float64
        v = v.cpu()
    checks.finite(v, "vectors")
    return v.to(torch.float64)


def _l2(vectors: Tensor) -> Tensor:
    """(K, K) distances, computed from differences."""
    return torch.cdist(vectors, vectors, compute_mode="donot_use_mm_for_euclid_dist")
