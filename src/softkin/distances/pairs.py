r"""Class distances over all pairs, block by block: L2 by matrix products, L1 of arbitrary values by differences.

The rows are in class order. A block of rows against another gives a tile of distances, which is summed by class
and thrown away, so that memory does not grow with N. Only tiles on and above the diagonal are computed.

For L2, :math:`\|x - x'\|^2 = \|x\|^2 + \|x'\|^2 - 2 x \cdot x'` on centred data. Where the difference cancels
(x close to x') the tile's entry is computed again from :math:`x - x'` in float64.
"""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

from softkin import ranks
from softkin.distances.samples import Sorted
from softkin.progress import track

TILE = 4096  # rows and columns: 64 MB of float32
SMALL = 2e10  # multiply-adds: below this float64 takes under a second, above it float32 takes half the time
CLOSE = 1e-2  # d² below this share of ‖x‖² + ‖x'‖² has lost two digits to cancellation


def class_sums(samples: Sorted, *, p: int, with_rows: bool, progress: bool | None) -> tuple[Tensor, Tensor | None]:
    """Sums of distances over all pairs of two classes (K, K) and, ``with_rows``, from each row to each class (n, K).

    Under ``torch.distributed`` the ranks share out the tiles.
    """
    classes, (n, width) = len(samples.drawn), samples.rows.shape
    device = samples.rows.device
    exact = samples.rows.dtype in (torch.float64, torch.int64, torch.int32) or 0.5 * n * n * width < SMALL
    dtype = torch.float64 if exact else torch.float32
    labels = samples.labels
    # Any point near the data serves as the centre: it only has to be the same for all rows.
    centre = _mean(samples).to(dtype)
    edge = min(TILE, max(64, 2**26 // width))  # wide rows: a block's own memory counts too
    starts = list(range(0, n, edge))
    tiles = [(a, b) for a in starts for b in starts if b >= a]
    rank, size = ranks.world()

    def block(start: int) -> Tensor:
        return samples.block(start, start + edge).to(dtype).sub_(centre)

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
            members_x = torch.nn.functional.one_hot(of_x - first_x).to(dtype)
            members_y = torch.nn.functional.one_hot(of_y - first_y).to(dtype)
            to_classes = (tile @ members_y).to(torch.float64)  # from each x to the classes of y
            part = members_x.to(torch.float64).T @ to_classes
            in_x = slice(first_x, first_x + part.shape[0])
            in_y = slice(first_y, first_y + part.shape[1])
            sums[in_x, in_y] += part
            if a != b:
                sums[in_y, in_x] += part.T
            if rows is not None:
                rows[a : a + edge, in_y] += to_classes
                if a != b:
                    rows[b : b + edge, in_x] += (tile.T @ members_x).to(torch.float64)
    return ranks.total(sums).cpu(), None if rows is None else ranks.total(rows).cpu()


def _mean(samples: Sorted) -> Tensor:
    """The mean row, in float64."""
    total = torch.zeros(samples.rows.shape[1], dtype=torch.float64, device=samples.rows.device)
    step = max(1, 2**24 // samples.rows.shape[1])
    for start in range(0, len(samples.rows), step):
        total += samples.rows[start : start + step].sum(dim=0, dtype=torch.float64)
    return total / len(samples.rows)


def _euclidean(x: Tensor, y: Tensor, of_x: Tensor, of_y: Tensor, *, same: bool) -> Tensor:
    """L2 distances of centred rows x (a, D) and y (b, D), ``of_x`` and ``of_y`` their squared lengths."""
    squares = (of_x[:, None] + of_y).addmm_(x, y.T, alpha=-2)
    if same:
        squares.fill_diagonal_(float("inf"))  # a row against itself: 0, set below; not to be found close
    # Rows whose nearest neighbour may have cancelled; of those, the pairs that have.
    suspects = (squares.amin(dim=1) < CLOSE * (of_x + of_y.max())).nonzero().flatten()
    for rows in suspects.split(256):
        i, j = (squares[rows] < CLOSE * (of_x[rows, None] + of_y)).nonzero(as_tuple=True)
        for some in torch.arange(len(i), device=x.device).split(max(1, 2**23 // x.shape[1])):
            apart = x[rows[i[some]]].to(torch.float64) - y[j[some]].to(torch.float64)
            squares[rows[i[some]], j[some]] = apart.square().sum(dim=1).to(x.dtype)
    if same:
        squares.fill_diagonal_(0)
    return squares.sqrt_()


@contextlib.contextmanager
def _full_precision(device: torch.device) -> Iterator[None]:
    """Matrix products in their own precision, whatever the caller's training loop has switched on."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
