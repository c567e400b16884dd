"""Out-of-distribution samples: noise, other data sets, out-of-scope queries."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softkin import SoftkinError
from softkin._core import checks
from softkin._io import files
from softkin.lab.data import decoding, loading
from softkin.lab.data.labelled import OUT_OF_SCOPE, Samples, chosen, official

NOISE = ("uniform", "gaussian")


def out_of_distribution(
    name: Any, like: Samples, *, rows: int = 10_000, seed: int = 0, progress: bool | None = None
) -> Samples:
    """Samples on which a network trained on ``like`` should not be confident; their labels are None.

    Args:
        name: "uniform" draws every pixel evenly from all its values, as in the paper, and every feature between its
            smallest and largest value in ``like``. "gaussian" draws from a normal distribution with the mean and
            standard deviation of the channel (or feature) in ``like``; pixels are rounded and clipped to valid values.
            Any other name is a source that ``load`` accepts. Its out-of-scope queries are used if it has any, else its
            test part, else all of it; images are resized to those of ``like``.
        like: The data that the network was trained on.
        rows: Number of samples. A larger data set is subsampled at random.
        seed: Seeds the noise or the subsampling.
        progress: Show a bar; by default only on a terminal.
    """
    checks.count(rows, "rows")
    checks.count(seed, "seed", least=0)
    if isinstance(name, str) and name in NOISE:
        return _noise(name, like, rows, seed)
    other = _other(name, progress)
    if other.kind != like.kind:
        raise SoftkinError(f"{other.source} must hold {like.kind}, as {like.source} does, but holds {other.kind}.")
    if len(other) > rows:
        drawn = np.random.Generator(np.random.PCG64(seed)).random(len(other)).argsort(kind="stable")[:rows]
        other = other.take(np.sort(drawn))
    values = other.values
    if like.kind == "images":
        shape = like.values.shape[1:]
        if values.shape[1:] != shape or other.peak != like.peak:
            values = decoding.fitted(values, shape, peak=other.peak, new_peak=like.peak)
            digest = files.sha256(f"{other.digest} as {shape} to {like.peak}".encode())
            other = replace(other, digest=digest)
    elif values.shape[1:] != like.values.shape[1:]:
        raise SoftkinError(
            f"{other.source} must have {like.values.shape[1]} features, as {like.source} has, got {values.shape[1]}."
        )
    return _unlabelled(other, values, like, other.source)


def check(name: str) -> None:
    """Refuse a name that is neither noise nor a data source, without reading or downloading anything."""
    if name not in NOISE:
        loading.check(name)


def _other(name: Any, progress: bool | None) -> Samples:
    source = loading.recognise(name, progress=progress)
    roles = official(source.parts)
    part = next((part for part in (OUT_OF_SCOPE, "test") if part in roles), None)
    if part is None:
        return loading.read(source, chosen(source, None), None, progress)
    loaded = loading.read(source, roles[part], None, progress)
    return replace(loaded, source=f"{loaded.source}, {'out of scope' if part == OUT_OF_SCOPE else part}")


def _noise(name: str, like: Samples, rows: int, seed: int) -> Samples:
    if like.kind == "text":
        raise ValueError(f"`name` must be a data set of text for {like.source}, got {name!r}: text has no noise.")
    rng = np.random.Generator(np.random.PCG64(seed))
    sample = like.values[:: max(1, len(like) // 10_000)]  # 10,000 rows or so are enough for a mean
    values = np.empty((rows, *like.values.shape[1:]), dtype=like.values.dtype)
    if name == "uniform" and like.kind == "images":
        values[:] = rng.integers(0, like.peak + 1, size=values.shape, dtype=np.uint8)
    elif name == "uniform":
        values[:] = rng.uniform(like.values.min(axis=0), like.values.max(axis=0), size=values.shape)
    else:
        axes = tuple(range(sample.ndim - 1))
        mean, deviation = sample.mean(axis=axes, dtype=np.float64), sample.std(axis=axes, dtype=np.float64)
        for start in range(0, rows, 1000):  # in blocks: a normal draw takes eight bytes where a pixel takes one
            piece = values[start : start + 1000]
            drawn = rng.normal(mean, deviation, size=piece.shape)
            piece[:] = np.rint(drawn).clip(0, like.peak) if like.kind == "images" else drawn
    digest = files.sha256(values.tobytes())
    ids = np.arange(rows, dtype=np.int64)
    noise = Samples(values, None, [], "", like.kind, ids, digest, peak=like.peak)
    return _unlabelled(noise, values, like, f"{name} noise like {like.source}")


def _unlabelled(samples: Samples, values: NDArray[Any], like: Samples, source: str) -> Samples:
    return Samples(
        values, None, like.class_names, source, like.kind, samples.ids, samples.digest, samples.texts, like.peak
    )
