"""Mean distances over all pairs of samples of two classes, for images, features or any vectors."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from softkin._core import checks, ranks
from softkin._core.checks import Array
from softkin.distances import histograms, pairs, samples

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
        sums, rows = pairs.class_sums(chosen, p=p, with_rows=with_rows, progress=progress)
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
