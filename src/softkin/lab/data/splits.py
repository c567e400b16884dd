"""Stratified training, validation and test rows, drawn by seed and identified by a digest."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softkin._core import checks
from softkin._io import cache
from softkin.lab.data import loading
from softkin.lab.data.labelled import Labelled, chosen, official

SMALL = 2**24  # bytes
CIFAR_100 = (50_000, 100)  # rows and classes of CIFAR-100's training set, for which 5,000 validation rows are usual


@dataclass(frozen=True, eq=False)
class Split:
    """Three sets of samples that share no row."""

    train: Labelled
    validation: Labelled
    test: Labelled
    seed: int
    digest: str
    """Digest of the content and of the rows in each set: equal digests mean equal splits."""
    data_digest: str
    """Digest of the content alone, independent of the seed."""
    overlap: int = 0
    """Number of validation and test samples with an exact duplicate in the training set; CIFAR-100 itself has some."""


def split(
    source: Any,
    *,
    seed: int = 0,
    validation: int | None = None,
    test: int | None = None,
    max_per_class: int | None = None,
    size: int | None = None,
    progress: bool | None = None,
) -> Split:
    """Split a source into training, validation and test sets.

    Official test and validation sets are kept if there are any. Missing sets are drawn from the training rows,
    stratified by class. Sample ids count all rows of the source, training part first, so that no two samples of a split
    share an id.

    Args:
        source: A source as for ``load``, or the result of ``load``.
        seed: Seed for drawing rows.
        validation: Rows of the validation set; by default 5,000 for CIFAR-100, else 10 % of the training rows.
        test: Rows of the test set; by default the whole official test set, else 20 % of the training rows.
        max_per_class: Maximum number of training rows per class; further rows are not used.
        size: Resize images as in ``load``.
        progress: Show a bar; by default only on a terminal.
    """
    checks.count(seed, "seed", least=0)
    for name, value in (("validation", validation), ("test", test), ("max_per_class", max_per_class)):
        if value is not None:
            checks.count(value, name)
    parts = _parts(source, size, progress)
    rng = np.random.Generator(np.random.PCG64(seed))
    train = parts["train"]
    rest = np.arange(len(train), dtype=np.int64)
    rows: dict[str, tuple[str, NDArray[np.int64]]] = {}
    usual = 5_000 if (len(train), len(train.class_names)) == CIFAR_100 else max(1, round(len(train) / 10))
    for name, wanted, default in (("test", test, max(1, round(len(train) / 5))), ("validation", validation, usual)):
        if name in parts:
            all_rows = np.arange(len(parts[name]), dtype=np.int64)
            drawn = (
                all_rows
                if wanted is None
                else all_rows[stratified(parts[name].labels, wanted, rng, name, keep_one=False)]
            )
            rows[name] = (name, drawn)
        else:
            drawn = stratified(train.labels[rest], default if wanted is None else wanted, rng, name)
            rows[name] = ("train", rest[drawn])
            rest = np.delete(rest, drawn)
    if max_per_class is not None:
        rest = rest[_shuffled_rank(train.labels[rest], rng) < max_per_class]
    rows["train"] = ("train", rest)
    offsets = dict(zip(parts, np.cumsum([0, *(len(part) for part in parts.values())]).tolist(), strict=False))
    sets = {}
    whole = hashlib.sha256()
    for name in ("train", "validation", "test"):
        part, drawn = rows[name]
        taken = parts[part].take(drawn)
        sets[name] = replace(taken, ids=taken.ids + offsets[part], source=f"{taken.source}, {name}")
        whole.update(f"{name} {parts[part].digest} {len(drawn)} ".encode() + drawn.astype("<i8").tobytes())
    train, digest = sets["train"], whole.hexdigest()
    overlap = _overlap(digest, train, sets["validation"], sets["test"])
    content = hashlib.sha256(" ".join(f"{name} {part.digest}" for name, part in parts.items()).encode()).hexdigest()
    return Split(train, sets["validation"], sets["test"], seed, digest, content, overlap)


def _overlap(digest: str, train: Labelled, *others: Labelled) -> int:
    """The number of duplicates, cached for each split except small ones, where counting is faster."""
    if sum(part.values.nbytes for part in (train, *others)) < SMALL:
        return _twins(train, *others)
    return int(cache.remembered(f"overlap of {digest}", lambda: _twins(train, *others)))


def _twins(train: Labelled, *others: Labelled) -> int:
    seen = set(_fingerprints(train))
    return sum(fingerprint in seen for other in others for fingerprint in _fingerprints(other))


def _fingerprints(samples: Labelled) -> Iterator[bytes]:
    """A fingerprint of each sample; of the text itself if there is one, since texts can share their word counts."""
    contents = (text.encode("utf-8", "surrogatepass") for text in samples.texts or ())
    if samples.texts is None:
        contents = (np.ascontiguousarray(row).tobytes() for row in samples.values)
    return (hashlib.blake2b(content, digest_size=16).digest() for content in contents)


def _parts(source: Any, size: int | None, progress: bool | None) -> dict[str, Labelled]:
    """The official parts, training rows first; all rows of an undivided source are training rows."""
    known = loading.recognise(source, progress=progress)
    roles = official(known.parts)
    if "train" not in roles:
        roles = {"train": chosen(known, None)}
    return {
        name: loading.labelled(loading.read(known, roles[name], size, progress))
        for name in ("train", "validation", "test")
        if name in roles
    }


def stratified(
    labels: NDArray[np.int64], rows: int, rng: np.random.Generator, name: str, *, keep_one: bool = True
) -> NDArray[np.int64]:
    """Indices of ``rows`` rows, ascending, allotted to the classes by their shares (largest remainders first).

    ``keep_one`` leaves at least one row of each class behind.
    """
    counts = np.bincount(labels)
    room = np.maximum(counts - 1, 0) if keep_one else counts
    if rows > room.sum():
        raise ValueError(
            f"`{name}` must be at most {int(room.sum())} rows, got {rows}"
            + ("; each class keeps one row for training." if keep_one else ".")
        )
    share = counts * (rows / max(1, len(labels)))
    quota = np.minimum(np.floor(share).astype(np.int64), room)
    order = np.argsort(quota - share, kind="stable")  # largest remainder first; ties go to the lower class
    while (missing := rows - int(quota.sum())) > 0:
        open_ = [k for k in order.tolist() if quota[k] < room[k]]
        for k in open_[:missing]:
            quota[k] += 1
    return np.flatnonzero(_shuffled_rank(labels, rng) < quota[labels])


def _shuffled_rank(labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """The position of each row among the rows of its class, in random order."""
    order = np.lexsort((rng.random(len(labels)), labels))
    counts = np.bincount(labels)
    first = np.cumsum(counts) - counts
    rank = np.empty(len(labels), dtype=np.int64)
    rank[order] = np.arange(len(labels)) - first[labels[order]]
    return rank
