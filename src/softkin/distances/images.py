"""Mean distances over all pairs of samples of two classes, for images, features or any vectors."""

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from softkin._core import checks, ranks
from softkin._core.checks import Array
from softkin._core.progress import track
from softkin.distances import histograms, samples
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


Batches = DataLoader[Any] | Iterable[tuple[Any, Any]]

MAX_LEVELS = 2**16
PAIRS = 16  # multiply-adds of a matrix product that take as long as one |x − x'| (measured: 10 to 25)


@torch.no_grad()
def from_images(
    images: Array | Batches,
    labels: Array | None = None,
    *,
    p: Literal[1, 2] = 1,
    num_classes: int | None = None,
    class_names: Sequence[str] | None = None,
    levels: int | None = None,
    value_range: tuple[float, float] | None = None,
    max_per_class: int | None = None,
    seed: int = 0,
    return_error: bool = False,
    num_samples: int | None = None,
    progress: bool | None = None,
) -> Tensor:
    r"""Exact mean L_p distance over all pairs of images of two classes.

    With :math:`C_k` the :math:`n_k` images of class k,

    .. math:: d(k, k') = \frac{1}{n_k n_{k'}} \sum_{x \in C_k} \sum_{x' \in C_{k'}} \|x - x'\|_p

    in the images' own units. The diagonal is the same mean over all :math:`n_k^2` pairs, in which an image has distance
    0 from itself. Images may have any layout (N, …), as long as all have the same.

    Cost: L1 of bytes, and of floats with at most 4,096 distinct values (bytes divided by 255, or normalised), takes N·D
    + K²·D·levels steps and no pairs (``softkin.distances.histograms``). L2, and L1 of other floats, take N²·D/2 steps,
    in float64 if that is a small number and otherwise in float32 with float64 sums (``softkin.distances.pairs``).
    Float64 images are computed in float64. Memory beside the images stays under 1 GiB. The work runs on the images'
    device (on the CPU for MPS, which has no float64).

    Streams: without ``labels``, ``images`` is a DataLoader or any iterable of (images, labels) batches, which is read
    once. L1 of bytes, of floats with few distinct values, or with ``levels``, keeps only the histograms
    (K·D·levels·4 bytes, at most 4 GiB); L2 and L1 of other floats keep the samples.

    Several processes: under an initialised ``torch.distributed`` group each rank passes its shard, and every rank
    gets the same matrix. Samples that a ``DistributedSampler`` repeats are ignored. A loader that yields more samples
    than its data set has is refused, and so are arrays with more than ``num_samples`` rows, if that is given.

    Args:
        images: (N, …) numbers, or batches that include their labels.
        labels: (N,) integers from 0 to K−1, in any order.
        p: 1 or 2.
        num_classes: K, if it is not the largest label plus one.
        class_names: Names for messages; their number sets K.
        levels: For L1 of floats with at least that many distinct values: round to this many equal steps first. With
            step s = (high − low)/(levels − 1) and D values per image, no entry of the result moves by more than D·s.
        value_range: (low, high) of ``levels``; taken from the images by default, but required for a stream.
        max_per_class: Use a random sample of this many images per class, without replacement.
        seed: Seed for that sample.
        return_error: Also return the standard error of each entry, (K, K); 0 without ``max_per_class``.
        num_samples: The size of the whole data set, used to detect duplicates from several ranks.
        progress: Show a bar; by default only on a terminal, for work longer than a second.

    Returns:
        D, or (D, standard errors). With a sample of m of a class's n images, m' of n', and a, b the row and column
        means of the sampled distances, SE² = (1 − m/n)·s_a²/m + (1 − m'/n')·s_b²/m'. The diagonal uses each pair of
        different images once, which makes it unbiased, and SE² = (1 − m/n)·4·s_a²/m·(m − 1)²/(m − 2)² (the jackknife;
        NaN for m = 2), both times the share (n − 1)/n of pairs that are not self-pairs.

    Example:
        >>> images = torch.tensor([[[0, 0]], [[2, 0]], [[0, 5]]], dtype=torch.uint8)
        >>> from_images(images, torch.tensor([0, 0, 1]))
        tensor([[1., 6.],
                [6., 0.]], dtype=torch.float64)

    References:
        Liu and JaJa, Class-Similarity Based Label Smoothing for Confidence Calibration, 2021, Sec. 5.1.
    """
    if p not in (1, 2):
        raise ValueError(f"`p` must be 1 or 2, got {p!r}.")
    if levels is not None:
        if p != 1:
            raise ValueError("`levels` must be left out for p=2: only L1 distances can be counted by levels.")
        if checks.count(levels, "levels", least=2) > MAX_LEVELS:
            raise ValueError(f"`levels` must be at most {MAX_LEVELS}, got {levels}.")
    if value_range is not None:
        low, high = value_range
        if levels is None:
            raise ValueError("`value_range` must come with `levels`, which it is the range of.")
        if not -math.inf < low < high < math.inf:
            raise ValueError(f"`value_range` must be finite (low, high) with low < high, got {value_range}.")
    source = samples.open_stream(
        images,
        labels,
        name="images",
        num_classes=num_classes,
        class_names=class_names,
        num_samples=num_samples,
        progress=progress,
    )
    if max_per_class is None and p == 1 and (not source.in_memory or ranks.world()[1] > 1):
        source, start = samples.peek(source)
        scale = _scale(start.dtype, levels, value_range)
        values = histograms.few(start) if scale is None else None
        if scale is not None or values is not None:
            sums, counts = histograms.stream_sums(source, scale, values)
            return _means(sums, counts, counts, None, return_error)
    return _from_samples(source, p, levels, value_range, max_per_class, seed, return_error, progress)


@torch.no_grad()
def from_features(
    features: Array | Batches,
    labels: Array | None = None,
    *,
    num_classes: int | None = None,
    class_names: Sequence[str] | None = None,
    max_per_class: int | None = None,
    seed: int = 0,
    return_error: bool = False,
    num_samples: int | None = None,
    progress: bool | None = None,
) -> Tensor:
    """Exact mean L2 distance over all pairs of feature vectors of two classes.

    This is ``from_images`` with p = 2 for any vectors: a trained model's penultimate layer, an autoencoder's codes,
    text embeddings. Options, streams and processes work as in ``from_images``.

    Args:
        features: (N, …) numbers, or batches that include their labels.
        labels: (N,) integers from 0 to K−1, in any order.
        num_classes: K, if it is not the largest label plus one.
        class_names: Names for messages; their number sets K.
        max_per_class: Use a random sample of this many rows per class, without replacement.
        seed: Seed for that sample.
        return_error: Also return the standard error of each entry, (K, K).
        num_samples: The size of the whole data set, used to detect duplicates from several ranks.
        progress: Show a bar; by default only on a terminal, for work longer than a second.

    Returns:
        D, or (D, standard errors).

    Example:
        >>> from_features(torch.tensor([[0.0, 0.0], [3.0, 4.0]]), torch.tensor([0, 1]))
        tensor([[0., 5.],
                [5., 0.]], dtype=torch.float64)
    """
    source = samples.open_stream(
        features,
        labels,
        name="features",
        num_classes=num_classes,
        class_names=class_names,
        num_samples=num_samples,
        progress=progress,
    )
    return _from_samples(source, 2, None, None, max_per_class, seed, return_error, progress)


def _from_samples(
    source: samples.SampleStream,
    p: int,
    levels: int | None,
    value_range: tuple[float, float] | None,
    max_per_class: int | None,
    seed: int,
    return_error: bool,
    progress: bool | None,
) -> Tensor:
    """Distances between samples read into memory, all of each class or a sample."""
    if max_per_class is not None:
        checks.count(max_per_class, "max_per_class", least=2)
    chosen = samples.collect(source, max_per_class=max_per_class, seed=seed)
    with_rows = return_error and bool((chosen.drawn < chosen.population).any())
    scale = None
    if p == 1:
        if levels is not None and value_range is None:
            value_range = (float(chosen.rows.min()), float(chosen.rows.max()))
        scale = _scale(chosen.rows.dtype, levels, value_range) or histograms.distinct(chosen.rows)
        # With few samples of many classes, pairs cost less than K² products of histograms. Both are exact.
        if (
            levels is None
            and scale is not None
            and len(chosen.drawn) ** 2 * scale.levels > PAIRS * len(chosen.rows) ** 2
        ):
            scale = None
    if scale is None:
        sums, rows = class_sums(chosen, p=p, with_rows=with_rows, progress=progress)
    else:
        sums, rows = histograms.class_sums(chosen, scale, with_rows=with_rows, progress=progress)
    return _means(sums, chosen.drawn, chosen.population, rows, return_error)


def _scale(dtype: torch.dtype, levels: int | None, value_range: tuple[float, float] | None) -> histograms.Scale | None:
    """The levels that follow from the dtype or the caller's options, without reading samples."""
    if dtype in (torch.uint8, torch.bool):
        if levels is not None:
            raise ValueError("`levels` must be left out for bytes: their 256 levels are counted exactly.")
        return histograms.BYTES
    if levels is None:
        return None
    if value_range is None:
        raise ValueError(
            "`value_range` must be given with `levels` for a stream or several processes, as none sees all values."
        )
    return histograms.steps(levels, *value_range)


def _means(sums: Tensor, drawn: Tensor, population: Tensor, rows: Tensor | None, return_error: bool) -> Tensor:
    """Class distances from sums over the drawn pairs, with standard errors if requested.

    Args:
        sums: Sums over all ordered pairs of drawn samples of two classes, (K, K).
        drawn: m, the number of samples used from each class, (K,).
        population: n, the number of samples in each class, (K,).
        rows: Sums from each drawn sample, in class order, to the drawn samples of each class, (Σm, K).
        return_error: Return (distances, errors) instead of the distances alone.
    """
    m, n = drawn.to(torch.float64), population.to(torch.float64)
    pairs_drawn = m[:, None] * m
    # Within a class: the mean over pairs of different samples, times the share (n−1)/n of such pairs among all n².
    own = (m * (m - 1)).clamp(min=1) * n / (n - 1).clamp(min=1)
    pairs_drawn.diagonal().copy_(own)
    distances = sums / pairs_drawn
    distances = (distances + distances.T) / 2  # symmetric to the last bit, for any order of summation
    if not bool(torch.isfinite(distances).all()):
        raise ValueError(
            "the distances exceed the range of float64; divide the values by a constant, which cancels later."
        )
    if not return_error:
        return distances
    if rows is None:
        return distances, torch.zeros_like(distances)  # type: ignore[return-value]
    variance = torch.zeros_like(distances)  # [k, k']: of a, the mean distances of class k's samples to class k'
    for k, of_class in enumerate(rows.split(drawn.tolist())):
        to_others = m.clone()
        to_others[k] = own[k] / m[k]
        if len(of_class) > 1:
            variance[k] = (of_class / to_others).var(dim=0)
    part = ((1 - m / n) / m)[:, None] * variance
    squared = part + part.T
    # Within a class the same samples are rows and columns: the variance is 4 s²/m where the sum above has 2 s²/m, times
    # the jackknife's (m−1)²/(m−2)², as each a leaves out its own sample. One pair (m = 2) has no spread: NaN if m < n.
    squared.diagonal().mul_(torch.where(m < n, 2 * ((m - 1) / (m - 2)) ** 2, 0.0))
    return distances, squared.sqrt()  # type: ignore[return-value]
