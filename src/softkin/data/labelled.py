"""What every reader returns: samples, their classes, and where they come from."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from softkin import files

SampleKind = Literal["images", "features", "text"]

_NUMBER = re.compile(r" \(n\d{8}\)$")  # what keeps two classes of the same synonyms apart


def numbered(count: int, what: str) -> list[str]:
    """Names for classes that are only numbered; ``what`` has them, for the refusal of ids taken for classes."""
    files.within("classes", count, what)
    return [f"class {k}" for k in range(count)]


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples whose classes may be unknown: out-of-distribution sets are these."""

    values: NDArray[Any]
    """Images (N, H, W, C) uint8, features (N, D) float32, or text as hashed word counts (N, 4096) uint8.

    A memory-mapped file where it came from the cache. Up to 1 GiB it is mapped copy-on-write, so that torch accepts it
    without a warning, and writing to it changes memory but never the file; above that it is read-only.
    """
    labels: NDArray[np.int64] | None
    """(N,), or None where the samples belong to none of the classes."""
    class_names: list[str]
    source: str
    """Where they come from, in words."""
    kind: SampleKind
    ids: NDArray[np.int64]
    """(N,), the row of each sample in its part of the source; in a split, counted over all parts."""
    digest: str
    """Of the content: values, labels, class names."""
    texts: list[str] | None = None
    peak: int = 255
    """The largest value that a pixel can have: 16 in scikit-learn's digits."""

    @property
    def synonyms(self) -> list[list[str]]:
        """The names of each class, as ``distances.from_words`` takes them: WordNet's classes have several."""
        return [_NUMBER.sub("", name).split(", ") for name in self.class_names]

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of one sample, as networks take it: (channels, height, width) or (D,)."""
        shape = self.values.shape[1:]
        return (shape[-1], *shape[:-1]) if self.kind == "images" else shape

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Sequence[int] | NDArray[np.integer[Any]]) -> Self:
        """These rows, in this order. Larger results than memory should hold lie in a file of the cache."""
        from softkin.data import store

        index = np.asarray(rows, dtype=np.int64)
        if index.ndim != 1:
            raise ValueError(f"`rows` must be a list of row numbers, got an array of shape {index.shape}.")
        if len(index) and (index.min() < 0 or index.max() >= len(self)):
            wrong = index[(index < 0) | (index >= len(self))][0]
            raise ValueError(f"`rows` must be from 0 to {len(self) - 1}, got {wrong}.")
        digest = files.sha256(f"{self.digest} rows ".encode() + index.astype("<i8").tobytes())
        return replace(
            self,
            values=store.rows_of(self.values, index, digest),
            labels=None if self.labels is None else self.labels[index],
            ids=self.ids[index],
            digest=digest,
            texts=None if self.texts is None else [self.texts[row] for row in index.tolist()],
        )


@dataclass(frozen=True, eq=False)
class Labelled(Samples):
    """Samples with their classes."""

    labels: NDArray[np.int64]
    """(N,), from 0 to K−1."""


@dataclass(frozen=True)
class Content:
    """What a reader hands over for keeping: values piece by piece, the rest complete when the last piece was drawn."""

    labels: NDArray[np.int64]
    class_names: list[str]
    kind: SampleKind
    chunks: Iterable[NDArray[Any]]
    """Pieces that together are the (N, …) values; each may be dropped once it was seen."""
    texts: list[str] | None = None
    peak: int = 255
