r"""L1 class distances without computing pairs, for values with few levels (such as the 256 of a byte).

For one pixel, let :math:`C_k(v)` be the number of class k's :math:`n_k` values that are at most level v, and
:math:`g_v` the gap from level v to the next. Two values differ by the sum of the gaps between them, so

.. math:: \sum_{x \in k} \sum_{x' \in k'} |x - x'|
          = \sum_v g_v \, [C_k(v)(n_{k'} - C_{k'}(v)) + C_{k'}(v)(n_k - C_k(v))]

Summed over the pixels, this is one matrix product of cumulative histograms plus its transpose: N·D + K²·D·L
operations instead of N²·D. No term is negative, so that one far value (1e12, or the "no data" of a raster) takes no
digit from the others. With unit gaps every number is an integer, and exact in float64 below 2⁵³.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from softkin._core import ranks
from softkin._core.progress import track
from softkin.distances.samples import SampleStream, Sorted, add_counts, settle

CHUNK_BYTES = 256 * 2**20  # int32 histograms of one chunk of pixels
STREAM_BYTES = 4 * 2**30  # histograms of a stream, which cannot be split into chunks
ROWS = 256  # rows counted at a time: their indices (256 × 3072 × 8 bytes for CIFAR) stay near the caches
FEW = 4096  # distinct values; with more, computing pairs is as cheap


@dataclass(frozen=True)
class Scale:
    """The discrete levels of the values."""

    levels: int
    gaps: Tensor | None
    """Gaps between consecutive levels, (L−1,) float64; None for gaps of 1."""
    codes: Callable[[Tensor], Tensor]
    """A function from values to level numbers 0 … L−1, of any integer type."""


BYTES = Scale(256, None, lambda values: values)


def few(values: Tensor) -> Tensor | None:
    """The distinct ``values``, ascending, or None if there are many."""
    distinct = torch.unique(values)
    return distinct if len(distinct) <= FEW else None


def scale_of(values: Tensor) -> Scale:
    """The scale whose levels are these distinct values, ascending."""
    if len(values) == 1:  # constant images; a second level costs nothing and avoids a special case
        values = torch.cat([values, values + 1])
    return Scale(len(values), values.to(torch.float64).diff(), lambda raw: torch.searchsorted(values, raw.contiguous()))


def strangers(rows: Tensor, values: Tensor) -> Tensor:
    """The entries of ``rows`` that are not among ``values``, flat."""
    place = torch.searchsorted(values, rows.contiguous()).clamp_(max=len(values) - 1)
    return rows[values[place] != rows]


def distinct(rows: Tensor) -> Scale | None:
    """The scale of ``rows`` (N, D) if they take few distinct values, else None.

    A sample of the rows proposes the values; then all rows are looked up, and missing values are added.
    """
    values = few(rows[:: max(1, len(rows) // 64)][:64].reshape(-1))
    for part in rows.split(max(1, 2**22 // rows.shape[1])):
        if values is None:
            return None
        new = strangers(part, values)
        if len(new):
            values = few(torch.cat([values, new]))
    return None if values is None else scale_of(values)


def steps(levels: int, low: float, high: float) -> Scale:
    """A scale of ``levels`` equal steps from ``low`` to ``high``; values are rounded to the nearest level."""
    step = (high - low) / (levels - 1) or 1.0  # any step will do if all values are equal

    def codes(values: Tensor) -> Tensor:
        if float(values.min()) < low or float(values.max()) > high:
            raise ValueError(
                f"`value_range` must cover all images, but they run from {float(values.min()):g} to "
                f"{float(values.max()):g} and the range from {low:g} to {high:g}."
            )
        return ((values.to(torch.float64) - low) / step).round_().to(torch.int32)

    return Scale(levels, torch.full((levels - 1,), step, dtype=torch.float64), codes)


def count(state: Tensor, codes: Tensor, labels: Tensor) -> None:
    """Add rows of level ``codes`` (B, D) with ``labels`` (B,) to the histograms ``state`` (K, D, L), in place."""
    _, width, levels = state.shape
    unit = torch.ones((), dtype=state.dtype, device=state.device)
    pixel = torch.arange(width, device=state.device) * levels
    for start in range(0, len(codes), ROWS):
        place = codes[start : start + ROWS].to(torch.int64, copy=True)  # a copy: the next lines write to it
        place += pixel
        place += (labels[start : start + ROWS] * (width * levels))[:, None]
        state.view(-1).scatter_add_(0, place.view(-1), unit.expand(place.numel()))


def pair_sums(state: Tensor, counts: Tensor, gaps: Tensor | None) -> Tensor:
    """The (K, K) sums of distances over all pairs of samples of two classes, by the module's formula.

    Args:
        state: Histograms (K, D, L).
        counts: Number of samples of each class, (K,).
        gaps: Gaps between consecutive levels, (L−1,); None for gaps of 1.
    """
    classes, width, levels = state.shape
    n = counts.to(device=state.device, dtype=torch.float64)
    products = torch.zeros(classes, classes, dtype=torch.float64, device=state.device)
    step = max(1, 2**21 // (classes * levels))  # 16 MB of float64 at a time
    for start in range(0, width, step):
        # The last level is omitted: there C_k = n_k, and both terms vanish.
        below = state[:, start : start + step].to(torch.float64).cumsum(dim=2)[:, :, :-1]
        weighted = (below if gaps is None else below * gaps).reshape(classes, -1)
        products += weighted @ (n[:, None] - below.reshape(classes, -1)).T
    return products + products.T


def row_sums(state: Tensor, counts: Tensor, gaps: Tensor | None, codes: Tensor) -> Tensor:
    r"""The (n, K) sums of distances from each row of level ``codes`` (n, D) to all samples of each class.

    In one pixel, the sum of distances from a value at level v to the samples of a class is
    :math:`\sum_{u} |v - u| h(u) = \sum_{w<v} g_w C(w) + \sum_{w \ge v} g_w (n - C(w))`, without a negative term.
    The sums are tabulated, and each row looks them up pixel by pixel.
    """
    classes, width, levels = state.shape
    n = counts.to(device=state.device, dtype=torch.float64)[:, None, None]
    result = torch.zeros(len(codes), classes, dtype=torch.float64, device=state.device)
    step = max(1, 2**22 // (classes * levels))
    for start in range(0, width, step):
        below = state[:, start : start + step].to(torch.float64).cumsum(dim=2)[:, :, :-1]
        gap = 1.0 if gaps is None else gaps
        to_lower = F.pad((gap * below).cumsum(dim=2), (1, 0))
        to_higher = F.pad((gap * (n - below)).flip(2).cumsum(dim=2).flip(2), (0, 1))
        table = to_lower + to_higher
        lines = table.flatten(1).T.contiguous()  # (chunk·L, K): one line of K sums for each pixel and level
        place = codes[:, start : start + step].to(torch.int64)
        place = place + torch.arange(place.shape[1], device=place.device) * levels
        result += F.embedding_bag(place, lines, mode="sum")
    return result


def class_sums(
    samples: Sorted, scale: Scale, *, with_rows: bool, progress: bool | None
) -> tuple[Tensor, Tensor | None]:
    """Pair sums (K, K) of samples in memory and, if ``with_rows``, row sums (n, K) in class order.

    Pixels are processed in chunks, so that the histograms take at most 256 MB for images of any size.
    """
    classes, width = len(samples.drawn), samples.rows.shape[1]
    labels = samples.labels
    device = samples.rows.device
    gaps = None if scale.gaps is None else scale.gaps.to(device)
    sums = torch.zeros(classes, classes, dtype=torch.float64, device=device)
    rows = torch.zeros(len(labels), classes, dtype=torch.float64, device=device) if with_rows else None
    step = min(width, max(1, CHUNK_BYTES // (4 * classes * scale.levels)))
    # Class order keeps the part of the histograms that a block touches in the CPU caches (2× faster here).
    blocks = [slice(at, at + ROWS) for at in range(0, len(labels), ROWS)]
    for start in track(range(0, width, step), "L1 distances", total=-(-width // step), show=progress):
        columns = samples.rows[:, start : start + step]
        state = torch.zeros(classes, columns.shape[1], scale.levels, dtype=torch.int32, device=device)
        for block in blocks:
            count(state, scale.codes(columns.index_select(0, samples.order[block])), labels[block])
        sums += pair_sums(state, samples.drawn, gaps)
        if rows is not None:
            for block in blocks:
                codes = scale.codes(columns.index_select(0, samples.order[block]))
                rows[block] += row_sums(state, samples.drawn, gaps, codes)
    return sums.cpu(), None if rows is None else rows.cpu()


def stream_sums(source: SampleStream, scale: Scale | None, values: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Pair sums (K, K) of batches read once, over all ranks, and the number of samples of each class.

    Only the histograms are kept. They grow, because the number of classes may be unknown until the last batch and,
    without a ``scale``, so may the distinct values; ``values`` are those that the stream began with.
    """
    counts, failure = torch.zeros(0, dtype=torch.int64), None
    state: Tensor | None = None
    like: Tensor | None = None
    try:
        for rows, labels in source:
            like = rows[:1]
            if values is not None:
                values = values.to(rows.device)
                new = strangers(rows, values)
                if len(new):
                    state, values = _joined(state, values, new)
                scale = scale_of(values)
            assert scale is not None
            counts = add_counts(counts, labels)
            if state is None:
                state = torch.zeros(0, rows.shape[1], scale.levels, dtype=torch.int32, device=rows.device)
            if len(counts) > len(state):
                state = _grown(state, source.num_classes or max(len(counts), 2 * len(state)))
            count(state, scale.codes(rows), labels)
    except Exception as error:
        failure = error
    counts = settle(source, counts, like=like, failure=failure)
    if values is not None:
        for others in ranks.gather(values.cpu()):
            state, values = _joined(state, values, others.to(values.device))
        scale = scale_of(values)
    assert scale is not None
    assert state is not None
    state = ranks.total(_grown(state, len(counts)))
    gaps = None if scale.gaps is None else scale.gaps.to(state.device)
    return pair_sums(state, counts, gaps).cpu(), counts


def _joined(state: Tensor | None, values: Tensor, new: Tensor) -> tuple[Tensor | None, Tensor]:
    """The histograms extended by levels for ``new`` values, and all values."""
    joined = few(torch.cat([values, new]))
    if joined is None:
        raise ValueError(
            f"the images began with few distinct values and then brought more than {FEW}; pass levels= and "
            "value_range=, max_per_class=, or arrays."
        )
    if state is None or len(joined) == len(values):
        return state, joined
    _within_limit(len(state), state.shape[1], len(joined))
    wider = torch.zeros(*state.shape[:2], max(2, len(joined)), dtype=state.dtype, device=state.device)
    wider[:, :, torch.searchsorted(joined, values)] = state[:, :, : len(values)]
    return wider, joined


def _within_limit(classes: int, width: int, levels: int) -> None:
    if 4 * classes * width * levels > STREAM_BYTES:
        raise ValueError(
            f"L1 histograms of {classes} classes, {width} values per image and {levels} levels exceed "
            f"{STREAM_BYTES / 2**30:.0f} GiB; make the images smaller, pass max_per_class= for a sample, or arrays."
        )


def _grown(state: Tensor, classes: int) -> Tensor:
    """``state`` extended to this many classes, within the memory limit."""
    _within_limit(classes, state.shape[1], state.shape[2])
    return state[:classes] if classes <= len(state) else F.pad(state, (0, 0, 0, 0, 0, classes - len(state)))
