r"""Class distances over all pairs, block by block: L2 by matrix products, L1 of arbitrary values by differences.

The rows are in class order. Two blocks of rows give a tile of distances, which is summed by class and discarded, so
that memory does not grow with N. Only tiles on and above the diagonal are computed.

L2 uses :math:`\|x - x'\|^2 = \|x\|^2 + \|x'\|^2 - 2 x \cdot x'` on centred data. Entries that suffer from
cancellation (x close to x') are recomputed from :math:`x - x'` in float64.
"""

import contextlib
import math
from collections.abc import Iterator

import torch
from torch import Tensor

from softkin._core import ranks
from softkin._core.progress import track
from softkin.distances.samples import Sorted

TILE = 4096  # rows and columns: 64 MB of float32
SMALL = 2e10  # multiply-adds: below this float64 takes under a second, above it float32 takes half the time
MANY = 1e-3  # share of a tile's pairs above which recomputing them one by one does not pay
# d² below this share of ‖x‖² + ‖x'‖² has lost too many digits to cancellation: two of 7, six of 16.
CLOSE = {torch.float32: 1e-2, torch.float64: 1e-6}


def class_sums(samples: Sorted, *, p: int, with_rows: bool, progress: bool | None) -> tuple[Tensor, Tensor | None]:
    """Sums of distances over all pairs of two classes (K, K) and, if ``with_rows``, from each row to each class (n, K).

    Under ``torch.distributed`` the tiles are divided among the ranks.
    """
    classes, (n, width) = len(samples.drawn), samples.rows.shape
    device = samples.rows.device
    exact = samples.rows.dtype in (torch.float64, torch.int64, torch.int32) or 0.5 * n * n * width < SMALL
    dtype = torch.float64 if exact else torch.float32
    labels = samples.labels
    centre, reach = _centre_and_reach(samples)
    centre = centre.to(dtype)
    # Squares of very large or very small numbers overflow or underflow; scaling by a power of two does not round.
    scale = 1.0 if 1e-10 < reach < 1e10 or reach == 0 else 2.0 ** -math.frexp(reach)[1]
    edge = min(TILE, max(64, 2**26 // width))  # wide rows: the block itself takes memory too
    starts = list(range(0, n, edge))
    tiles = [(a, b) for a in starts for b in starts if b >= a]
    rank, size = ranks.world()

    def block(start: int) -> Tensor:
        rows = samples.block(start, start + edge).to(dtype).sub_(centre)
        return rows if scale == 1 else rows.mul_(scale)

    squares = torch.cat([block(a).square_().sum(dim=1) for a in starts]) if p == 2 else torch.empty(0)
    sums = torch.zeros(classes, classes, dtype=torch.float64, device=device)
    rows = torch.zeros(n, classes, dtype=torch.float64, device=device) if with_rows else None
    left = (-1, torch.empty(0))
    with _full_precision(device):
        for a, b in track(tiles[rank::size], f"L{p} distances", total=len(tiles[rank::size]), show=progress):
            if left[0] != a:
                left = (a, block(a))
            x = left[1]
            y = x if a == b else block(b)
            if p == 2:
                tile = _euclidean(x, y, squares[a : a + edge], squares[b : b + edge], same=a == b)
            else:
                tile = torch.cdist(x, y, p=1)
            of_x, of_y = labels[a : a + edge], labels[b : b + edge]
            first_x, first_y = int(of_x[0]), int(of_y[0])
            members_x = torch.nn.functional.one_hot(of_x - first_x).to(torch.float64)
            members_y = torch.nn.functional.one_hot(of_y - first_y).to(torch.float64)
            to_classes = _sums(tile, members_y)  # from each x to the classes of y
            part = members_x.T @ to_classes
            in_x = slice(first_x, first_x + part.shape[0])
            in_y = slice(first_y, first_y + part.shape[1])
            sums[in_x, in_y] += part
            if a != b:
                sums[in_y, in_x] += part.T
            if rows is not None:
                rows[a : a + edge, in_y] += to_classes
                if a != b:
                    rows[b : b + edge, in_x] += _sums(tile.T, members_x)
    sums = ranks.total(sums).div_(scale).cpu()
    return sums, None if rows is None else ranks.total(rows).div_(scale).cpu()


def _sums(tile: Tensor, members: Tensor) -> Tensor:
    """Tile @ members in float64, computed in strips of rows."""
    return torch.cat([strip.to(torch.float64) @ members for strip in tile.split(256)])


def _centre_and_reach(samples: Sorted) -> tuple[Tensor, float]:
    """A central vector of the data, in float64, and the range of all values.

    Any vector can be the centre, as long as all rows share it. The median of a sample is near most of the data, whereas
    a single outlier could pull the mean far away.
    """
    rows = samples.rows
    sampled = rows[:: max(1, len(rows) // 257)][:257].to(torch.float64)
    parts = rows.split(max(1, 2**22 // rows.shape[1]))
    reach = max(float(part.max()) for part in parts) - min(float(part.min()) for part in parts)
    return sampled.median(dim=0).values, reach


def _euclidean(x: Tensor, y: Tensor, of_x: Tensor, of_y: Tensor, *, same: bool) -> Tensor:
    """L2 distances of centred rows x (a, D) and y (b, D); ``of_x`` and ``of_y`` are their squared lengths."""
    squares = (of_x[:, None] + of_y).addmm_(x, y.T, alpha=-2)
    if same:
        squares.fill_diagonal_(float("inf"))  # a row against itself must not count as close; its 0 is set below
    # First the rows whose nearest neighbour may suffer from cancellation, then the affected pairs among them.
    limit = CLOSE[x.dtype]
    suspects = (squares.amin(dim=1) < limit * (of_x + of_y.max())).nonzero().flatten()
    redone = 0
    for rows in suspects.split(256):
        i, j = (squares[rows] < limit * (of_x[rows, None] + of_y)).nonzero(as_tuple=True)
        redone += len(i)
        if x.dtype == torch.float32 and redone > MANY * squares.numel():
            # For tight clusters, or an outlier that moves the centre, redoing the whole product in float64 is cheaper.
            x, y = x.to(torch.float64), y.to(torch.float64)
            exact = _euclidean(x, y, x.square().sum(dim=1), y.square().sum(dim=1), same=same)
            return exact.to(torch.float32)
        for chunk in torch.arange(len(i), device=x.device).split(max(1, 2**23 // x.shape[1])):
            apart = x[rows[i[chunk]]].to(torch.float64) - y[j[chunk]].to(torch.float64)
            squares[rows[i[chunk]], j[chunk]] = apart.square().sum(dim=1).to(x.dtype)
    if same:
        squares.fill_diagonal_(0)
    return squares.sqrt_()


@contextlib.contextmanager
def _full_precision(device: torch.device) -> Iterator[None]:
    """Compute matrix products in full precision, overriding the caller's settings."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
