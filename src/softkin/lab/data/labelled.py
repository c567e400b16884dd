"""Samples, their classes, and their source: files on disk of one format, and the function that reads each part."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from softkin import SoftkinError
from softkin._core.names import did_you_mean
from softkin._io import files
from softkin.lab.data import store
from softkin.lab.data.store import Content, SampleKind

_NUMBER = re.compile(r" \(n\d{8}\)$")  # distinguishes two classes with the same synonyms


def numbered(count: int, what: str) -> list[str]:
    """Names for numbered classes; too many are refused, since ids of ``what`` were probably taken for classes."""
    files.within("classes", count, what)
    return [f"class {k}" for k in range(count)]


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples whose classes may be unknown, such as out-of-distribution sets."""

    values: NDArray[Any]
    """Images (N, H, W, C) uint8, features (N, D) float32, or text as hashed word counts (N, 4096) uint8.

    Values from the cache are memory-mapped. Up to 1 GiB they are mapped copy-on-write, so that torch accepts them
    without a warning, and writing to them changes memory but never the file. Larger files are mapped read-only.
    """
    labels: NDArray[np.int64] | None
    """(N,) class numbers, or None where the samples belong to none of the classes."""
    class_names: list[str]
    source: str
    """A description of the origin of the samples."""
    kind: SampleKind
    ids: NDArray[np.int64]
    """(N,) row of each sample in its part of the source; in a split, rows are counted over all parts."""
    digest: str
    """Digest of the content: values, labels and class names."""
    texts: list[str] | None = None
    peak: int = 255
    """The largest possible pixel value; it is 16 in scikit-learn's digits."""

    @property
    def synonyms(self) -> list[list[str]]:
        """The names of each class in the form that ``distances.from_words`` takes; WordNet's classes have several."""
        return [_NUMBER.sub("", name).split(", ") for name in self.class_names]

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one sample as networks take it: (channels, height, width) or (D,)."""
        shape = self.values.shape[1:]
        return (shape[-1], *shape[:-1]) if self.kind == "images" else shape

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Sequence[int] | NDArray[np.integer[Any]]) -> Self:
        """These rows, in this order. A result too large for memory is written to a file in the cache."""
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
    """(N,) class numbers from 0 to K−1."""


def stored(entry: store.Entry, source: str) -> Labelled:
    """The samples of an entry of the cache; ``source`` describes their origin."""
    ids = np.arange(len(entry.labels), dtype=np.int64)
    return Labelled(ids=ids, source=source, **vars(entry))


WHOLE = "all"  # the only part of an undivided source
SUPERCLASSES = "superclasses.csv"  # lines of class,superclass, beside any data
OUT_OF_SCOPE = "oos"  # CLINC's name for queries that belong to no class: a part, never a class

_CANONICAL = {
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "dev": "validation",
    "testing": "test",
}

Reader = Callable[[str, int | None, bool | None], Content]
"""A function from (part, size, progress) to the content of that part."""


@dataclass(frozen=True)
class DataSource:
    """A recognised source of data."""

    words: str
    """A description of the source for people."""
    root: Path
    files: Sequence[str | Path]
    """All files whose bytes determine the content."""
    parts: Sequence[str]
    read: Reader
    archive: Path | None = None
    """The archive that the files were unpacked from."""
    ready: Samples | None = None
    """Data that needs no reading, such as the digits or samples already in memory."""

    @property
    def tree(self) -> Path | None:
        """The file with the super-classes of the classes, if one lies beside the data."""
        path = (self.root if self.root.is_dir() else self.root.parent) / SUPERCLASSES
        return path if self.root.exists() and path.is_file() else None


def canonical(part: str) -> str:
    """The canonical name of a part, for any of the usual spellings in files and folders."""
    return _CANONICAL.get(part.lower(), part.lower())


def is_part(name: str) -> bool:
    """Whether a folder of this name holds a part rather than a class."""
    return canonical(name) in ("train", "validation", "test")


def official(parts: Sequence[str]) -> dict[str, str]:
    """Map each role (train, validation, test) to the name of the part that fills it.

    A validation set without a test set serves as the test set: the test labels of Tiny-ImageNet and many other data
    sets are not public, so results are reported on the validation set.
    """
    usual = ("train", "validation", "test")
    roles = {part: part for part in (*usual, *parts) if part in parts}
    if "train" in roles and "validation" in roles and "test" not in roles:
        roles["test"] = roles.pop("validation")
    return roles


def chosen(source: DataSource, split: str | None) -> str:
    """The part to read: the requested one, else the training part, else the only one."""
    roles = official(source.parts)
    if split is None:
        known = [part for part in roles if part != OUT_OF_SCOPE]
        if len(known) != 1 and "train" not in known:
            raise SoftkinError(f"{source.root} has the parts {', '.join(known)}; pass split= with one of them.")
        return roles["train"] if "train" in roles else roles[known[0]]
    wanted = canonical(split)
    if wanted in roles:
        return roles[wanted]
    if wanted == "validation" and "test" in roles and roles["test"] == "validation":
        raise SoftkinError(f"{source.root}: its validation set serves as its test set; pass split='test'.")
    if list(roles) == [WHOLE]:
        raise SoftkinError(f"{source.root} is not divided into parts, but split={split!r} was requested; leave it out.")
    raise SoftkinError(f"{source.root} has the parts {', '.join(roles)}, not {split!r}{did_you_mean(wanted, roles)}")
