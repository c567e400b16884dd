"""Labelled samples from arrays, a DataLoader, any iterable of batches, or several processes.

Code that uses this module sees rows (N, D) and labels (N,), in batches or sorted by class.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from softkin._core import checks, ranks
from softkin._core.progress import track


@dataclass(frozen=True)
class SampleStream:
    """A source of samples, before any is read."""

    name: str
    """The name of the caller's argument, for messages: images or features."""
    batches: Iterable[Any]
    """(rows, labels) pairs; a single pair with everything if ``in_memory``."""
    in_memory: bool
    num_classes: int | None
    class_names: Sequence[str] | None
    limit: int | None
    """Number of this rank's samples that are its own; the others are a distributed sampler's padding."""
    num_samples: int | None
    """The size of the whole data set, if known: any further samples are duplicates."""
    show: bool | None

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Checked batches: rows (B, D) and labels (B,) as int64, on one device."""
        seen, width, dtype = 0, None, None
        for batch in track(self.batches, f"reading {self.name}", show=False if self.in_memory else self.show):
            rows = self.rows(batch)
            if rows.device.type == "mps":  # MPS has no float64
                rows = rows.cpu()
            if rows.ndim < 2:
                raise ValueError(
                    f"`{self.name}` must have shape (N, …) with at least two dimensions, got {tuple(rows.shape)}."
                )
            labels = checks.class_labels(batch[1], num_samples=len(rows), num_classes=self.num_classes)
            if self.limit is not None:
                rows, labels = rows[: self.limit - seen], labels[: self.limit - seen]
            if len(rows) == 0:
                continue
            rows, labels = rows.reshape(len(rows), -1), labels.to(rows.device)
            if rows.dtype == torch.bool:
                rows = rows.to(torch.uint8)
            if width is not None and rows.shape[1] != width:
                raise ValueError(
                    f"`{self.name}` must all have the same number of values, got {width} and then {rows.shape[1]}; "
                    "resize the images first."
                )
            if dtype is not None and rows.dtype != dtype:
                raise ValueError(
                    f"`{self.name}` must all hold one type of number, got {dtype} and then {rows.dtype}; "
                    "bytes and fractions of 255 would be taken for the same."
                )
            width, dtype = rows.shape[1], rows.dtype
            if width == 0:
                raise ValueError(f"`{self.name}` must hold values, got rows of length 0.")
            step = max(1, 2**24 // width)  # checking the whole array at once would copy it
            for start in range(0, len(rows), step):
                checks.finite(rows[start : start + step], self.name, first_row=seen + start)
            seen += len(rows)
            yield rows, labels

    def rows(self, batch: Any) -> Tensor:
        """The samples of a batch as a tensor."""
        if not isinstance(batch, Sequence) or isinstance(batch, str) or len(batch) < 2:
            raise TypeError(
                f"`{self.name}` must yield ({self.name}, labels) batches, got {type(batch).__name__}; "
                "turn dictionaries into pairs first."
            )
        return checks.as_tensor(batch[0], self.name)


def open_stream(
    samples: Any,
    labels: Any,
    *,
    name: str,
    num_classes: int | None,
    class_names: Sequence[str] | None,
    num_samples: int | None,
    progress: bool | None,
) -> SampleStream:
    """The caller's samples as a stream. Arrays need labels; anything else must yield batches that include labels."""
    if class_names is not None:
        class_names = checks.class_names(class_names, num_classes=num_classes)
        num_classes = len(class_names)
    if num_classes is not None:
        num_classes = checks.count(num_classes, "num_classes", least=2)
    limit = None
    if labels is not None:
        if isinstance(samples, DataLoader):
            raise TypeError(f"`labels` must be left out with a DataLoader of {name}: its batches carry their own.")
        if isinstance(samples, Sequence) and len(samples) > 0 and isinstance(samples[0], Tensor):
            if len({sample.shape for sample in samples}) > 1:
                raise ValueError(f"`{name}` must be one array, but its parts differ in shape.")
            samples = torch.stack(list(samples))
        batches: Iterable[Any] = [(samples, labels)]
    elif isinstance(samples, Tensor | np.ndarray):
        raise TypeError(f"`labels` must be given with an array of {name}; only batches carry their own labels.")
    elif isinstance(samples, Iterable):
        batches = samples
        if isinstance(samples, DataLoader):
            limit, known = _share(samples)
            num_samples = num_samples if num_samples is not None else known
    else:
        raise TypeError(
            f"`{name}` must be an array with `labels`, a DataLoader or an iterable of batches, "
            f"got {type(samples).__name__}."
        )
    return SampleStream(name, batches, labels is not None, num_classes, class_names, limit, num_samples, progress)


def _share(loader: "DataLoader[Any]") -> tuple[int | None, int | None]:
    """The number of this rank's samples that are not padding, and the size of the data set, if the loader tells.

    ``DistributedSampler`` gives rank r the positions r, r+R, r+2R, …, and repeats the first indices at the end until
    all ranks have as many. Positions from len(dataset) on are those repetitions.
    """
    try:
        known = len(loader.dataset)  # type: ignore[arg-type]
    except TypeError:
        return None, None
    sampler = loader.sampler
    if isinstance(sampler, DistributedSampler):
        known = len(sampler.dataset)  # type: ignore[arg-type]
        return max(0, -(-(known - sampler.rank) // sampler.num_replicas)), known
    return None, known


def peek(source: SampleStream) -> tuple[SampleStream, Tensor]:
    """The source after its first values were read, and the first values of rank 0 as one flat tensor.

    Up to 2¹⁸ values are read, which is enough to recognise discrete values.
    """
    failure: Exception | None = None
    rest = iter(source.batches)
    read: list[Any] = []
    values: list[Tensor] = []
    try:
        while sum(part.numel() for part in values) < 2**18:
            batch = next(rest, None)
            if batch is None:
                break
            # Copy the batches, since an iterable may reuse the memory for the next one.
            read.append((source.rows(batch).clone(), checks.as_tensor(batch[1], "labels").clone()))
            values.append(read[-1][0].reshape(-1))
        if not read:
            raise ValueError(f"`{source.name}` must hold samples, got none.")
    except Exception as error:  # the iterable may raise anything
        failure = error
    ranks.agree(failure)
    joined = values[0] if len(values) == 1 else torch.cat([part.to(values[0].dtype) for part in values])
    shown = joined[: 2**18].cpu() if ranks.world()[0] == 0 else None
    return replace(source, batches=itertools.chain(read, rest)), ranks.gather(shown)[0]


def settle(source: SampleStream, counts: Tensor, *, like: Tensor | None, failure: Exception | None) -> Tensor:
    """The number of samples of each class over all ranks; empty classes and padding duplicates are refused.

    Collective: every rank calls it once, with its counts and a row ``like`` its own, or with its failure.
    """
    ranks.agree(failure)
    forms = ranks.gather(None if like is None else (like.shape[1], str(like.dtype)))
    if None in forms:
        raise ValueError(f"rank {forms.index(None)} has no {source.name}; use fewer processes, or give each some.")
    if len(set(forms)) > 1:
        raise ValueError(f"`{source.name}` must have one length and one type of number on all ranks, got {forms}.")
    num_classes = source.num_classes or ranks.largest(len(counts))
    counts = ranks.total(torch.nn.functional.pad(counts, (0, num_classes - len(counts))))
    total = int(counts.sum())
    if total == 0:
        raise ValueError(f"`{source.name}` must hold samples, got none.")
    if num_classes < 2:
        raise ValueError("`labels` must name at least 2 classes, got only class 0.")
    if source.num_samples is not None and total > source.num_samples:
        raise ValueError(
            f"`{source.name}` brought {total} samples, but the data set has {source.num_samples}: "
            "a distributed sampler repeats samples to even out the ranks, or every rank brought the whole set; "
            "give each rank its own samples without repetition."
        )
    empty = (counts == 0).nonzero().flatten().tolist()
    if empty:
        raise ValueError(
            f"every class must have samples, but {len(empty)} of {num_classes} have none: class "
            f"{checks.in_words(empty, source.class_names)}; "
            + ("do the labels start at 1?" if empty == [0] else "add samples, or leave the class out.")
        )
    return counts


def add_counts(counts: Tensor, labels: Tensor) -> Tensor:
    """``counts`` of each class so far, plus those of ``labels``; it grows when a larger class appears."""
    batch = torch.bincount(labels.cpu(), minlength=len(counts))
    return batch + torch.nn.functional.pad(counts, (0, len(batch) - len(counts)))


@dataclass(frozen=True)
class Sorted:
    """Rows in class order; every rank holds all of them."""

    rows: Tensor
    """(n, D) rows as given, unsorted; ``order`` sorts them."""
    order: Tensor
    """(n,) row numbers, class by class."""
    drawn: Tensor
    """(K,) number of rows of each class that are held here."""
    population: Tensor
    """(K,) number of samples of each class."""

    @property
    def labels(self) -> Tensor:
        """(n,) class of each row, in class order."""
        return torch.repeat_interleave(torch.arange(len(self.drawn)), self.drawn).to(self.order.device)

    def block(self, start: int, stop: int) -> Tensor:
        """The rows ``start`` … ``stop``−1 of the class order."""
        return self.rows.index_select(0, self.order[start:stop])


def collect(source: SampleStream, *, max_per_class: int | None, seed: int) -> Sorted:
    """All samples, or with ``max_per_class`` a random sample of that many of each class, without replacement.

    Each sample gets a random key, and each class keeps its m smallest keys. This is a stratified sample for any order
    of arrival, in one pass, with no more than m rows per class and one batch in memory.
    """
    rank = ranks.world()[0]
    generator = torch.Generator().manual_seed(seed + 0x9E3779B9 * rank)  # one stream per rank, else keys repeat
    kept: list[tuple[Tensor, Tensor, Tensor]] = []
    counts, failure = torch.zeros(0, dtype=torch.int64), None
    try:
        for rows, labels in source:
            counts = add_counts(counts, labels)
            keys = torch.rand(len(rows), generator=generator, dtype=torch.float64)
            if not source.in_memory:  # a loader may reuse its buffers
                rows, labels = rows.clone(), labels.clone()
            kept.append((rows, labels, keys))
            if max_per_class is not None:
                kept = [_smallest_keys(kept, max_per_class)]
        if not kept and ranks.world()[1] == 1:
            raise ValueError(f"`{source.name}` must hold samples, got none.")
    except Exception as error:
        failure = error
    population = settle(source, counts, like=kept[0][0] if kept else None, failure=failure)
    rows, labels, keys = _smallest_keys(kept, max_per_class)
    if ranks.world()[1] > 1:
        rows, labels, keys = _smallest_keys(
            [(ranks.gather_rows(rows), ranks.gather_rows(labels), ranks.gather_rows(keys))], max_per_class
        )
    return Sorted(
        rows,
        torch.argsort(labels, stable=True),
        torch.bincount(labels.cpu(), minlength=len(population)),
        population,
    )


def _smallest_keys(parts: list[tuple[Tensor, Tensor, Tensor]], most: int | None) -> tuple[Tensor, Tensor, Tensor]:
    """The parts joined, reduced to the ``most`` smallest keys of each class."""
    rows, labels, keys = parts[0] if len(parts) == 1 else (torch.cat(column) for column in zip(*parts, strict=True))
    if most is None:
        return rows, labels, keys
    by_key = torch.argsort(keys)
    order = by_key[torch.argsort(labels.cpu()[by_key], stable=True)]  # by class, then by key
    counts = torch.bincount(labels.cpu())
    place = torch.arange(len(order)) - torch.repeat_interleave(counts.cumsum(0) - counts, counts)
    chosen = order[place < most].sort().values
    if len(chosen) == len(keys):
        return rows, labels, keys
    return rows[chosen.to(rows.device)], labels[chosen.to(labels.device)], keys[chosen]
