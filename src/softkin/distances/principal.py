"""Principal axes of many rows, read in batches.

scikit-learn's ``PCA`` needs all rows in memory at once; its ``IncrementalPCA`` does not, but is approximate.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

EXACT = 4096  # values per row up to which the covariance is decomposed exactly; beyond, D³ is too slow
SAMPLE = 20_000  # rows that the iteration reads for wider data
ITERATIONS = 4
EXTRA = 32  # extra axes that the iteration computes and drops


def principal_axes(
    batches: Callable[[int | None], Iterable[Tensor]], size: int, count: int, *, seed: int
) -> tuple[Tensor, Tensor]:
    """The ``count`` axes of largest variance, and the mean, of rows with ``size`` values.

    The result is exact for at most 4,096 values per row: the eigenvectors of the covariance, summed in float64. Wider
    rows take four rounds of subspace iteration over at most 20,000 rows.

    Args:
        batches: Takes a number of rows, or None for all, and yields (B, ``size``) float32, the same rows each time.
        size: D.
        count: Number of axes; fewer are returned if there are fewer rows.
        seed: Seed for the start of the iteration.

    Returns:
        Orthonormal axes (≤ count, D), the largest variance first, and the mean (D,); float64 on the CPU.
    """
    rows = None if size <= EXACT else SAMPLE
    total, seen = torch.zeros(size, dtype=torch.float64), 0
    for batch in batches(rows):
        total += batch.cpu().sum(dim=0, dtype=torch.float64)
        seen += len(batch)
    mean = total / seen
    count = min(count, seen - 1, size)
    axes = _exact(batches, mean, count) if rows is None else _iterated(batches, mean, min(count, seen), seed)
    return axes, mean


def _exact(batches: Callable[[int | None], Iterable[Tensor]], mean: Tensor, count: int) -> Tensor:
    from scipy.linalg import eigh

    size = len(mean)
    covariance = torch.zeros((size, size), dtype=torch.float64)
    for batch in batches(None):
        centred = batch - mean.to(batch)
        covariance += (centred.T @ centred).cpu()
    vectors = eigh(covariance.numpy(), subset_by_index=[size - count, size - 1], overwrite_a=True)[1]
    return torch.from_numpy(vectors).flip(1).T.contiguous()


def _iterated(batches: Callable[[int | None], Iterable[Tensor]], mean: Tensor, count: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    basis = torch.randn((len(mean), count + EXTRA), generator=generator)
    for _ in range(ITERATIONS):
        basis = torch.linalg.qr(basis)[0]
        image = torch.zeros_like(basis)
        for batch in batches(SAMPLE):
            centred = batch - mean.to(batch)
            image += (centred.T @ (centred @ basis.to(batch.device))).cpu()
        basis, previous = image, basis
    # Within the last subspace the covariance is small enough for an exact decomposition (Rayleigh–Ritz).
    ritz = (previous.T @ basis).to(torch.float64)
    vectors = torch.linalg.eigh((ritz + ritz.T) / 2)[1].flip(1)[:, :count]
    axes: Tensor = (previous.to(torch.float64) @ vectors).T.contiguous()
    return axes
