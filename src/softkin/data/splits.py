"""Training, validation and test rows: stratified, drawn by seed, with a digest that says which."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softkin import cache, checks
from softkin.data import loading
from softkin.data.labelled import Labelled
from softkin.data.source import chosen, official

SMALL = 2**24  # bytes
CIFAR_100 = (50_000, 100)  # rows and classes of its training set, for which 5,000 validation rows are usual


@dataclass(frozen=True, eq=False)
class Split:
    """Three sets that share no row."""

    train: Labelled
    validation: Labelled
    test: Labelled
    seed: int
    digest: str
    """Of the content and of the rows of each set: equal digests, equal splits."""
    data_digest: str
    """Of the content alone, whatever the seed."""
    overlap: int = 0
    """How many validation and test samples have an exact twin among the training samples; CIFAR-100 itself has some."""


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
    """Training, validation and test sets of a source.

    Official test and validation sets are kept where there are any; what is missing is drawn from the training rows,
    as many of each class as its share. Sample ids count all rows of the source, its training part first, so that no two
    samples of a split share one.

    Args:
        source: As for ``load``, or the result of ``load``.
        seed: Decides which rows are drawn.
        validation: Rows of the validation set; by default 5,000 of CIFAR-100, else 10 % of the training rows.
        test: Rows of the test set; by default the whole official one, else 20 %.
        max_per_class: Maximum number of training rows of each class; the others are not used.
        size: As for ``load``.
        progress: As for ``load``.
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
    """The number of twins, cached for each split; for a small split counting is faster than the cache."""
    if sum(part.values.nbytes for part in (train, *others)) < SMALL:
        return _twins(train, *others)
    return int(cache.remembered(f"overlap of {digest}", lambda: _twins(train, *others)))


def _twins(train: Labelled, *others: Labelled) -> int:
    seen = set(_fingerprints(train))
    return sum(fingerprint in seen for other in others for fingerprint in _fingerprints(other))


def _fingerprints(samples: Labelled) -> Iterator[bytes]:
    """Of each sample; of the text itself where there is text, since other texts have the same words."""
    contents = (text.encode("utf-8", "surrogatepass") for text in samples.texts or ())
    if samples.texts is None:
        contents = (np.ascontiguousarray(row).tobytes() for row in samples.values)
    return (hashlib.blake2b(content, digest_size=16).digest() for content in contents)


def _parts(source: Any, size: int | None, progress: bool | None) -> dict[str, Labelled]:
    """The official parts, training rows first; whatever has no parts is all training rows."""
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
    """``rows`` places, ascending, as many of each class as its share (largest remainders first).

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
    order = np.argsort(quota - share, kind="stable")  # largest remainder first, the lower class on a tie
    while (missing := rows - int(quota.sum())) > 0:
        open_ = [k for k in order.tolist() if quota[k] < room[k]]
        for k in open_[:missing]:
            quota[k] += 1
    return np.flatnonzero(_shuffled_rank(labels, rng) < quota[labels])


def _shuffled_rank(labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """The place of each row among those of its class, in an order drawn at random."""
    order = np.lexsort((rng.random(len(labels)), labels))
    counts = np.bincount(labels)
    first = np.cumsum(counts) - counts
    rank = np.empty(len(labels), dtype=np.int64)
    rank[order] = np.arange(len(labels)) - first[labels[order]]
    return rank
