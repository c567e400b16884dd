"""Data sets from ``.npz`` files, those that come with softkin among them, and scikit-learn's digits."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softkin import SoftkinError
from softkin._core.names import DIGITS
from softkin._io import files, roles
from softkin._io.numpy_files import Archive
from softkin.lab.data import decoding
from softkin.lab.data.labelled import WHOLE, DataSource, Labelled, Samples, canonical, is_part, numbered
from softkin.lab.data.store import Content

CHUNK = 2**24  # bytes read at a time
VALUES = ("images", "features", "X", "x", "data", "inputs")
"""What samples are called; other names than the first two hold images if they have more than two dimensions"""
FEATURES = Path(__file__).parent / "cifar100-features"
"""Frozen features of CIFAR-100's images that come with softkin; NOTICE.txt there says how they were made"""


def ready(samples: Samples) -> DataSource:
    """A source with one part, from samples that are already in memory."""

    def read(_part: str, _size: int | None, _progress: bool | None) -> Content:
        if samples.labels is None:
            raise ValueError(f"`source` must have labels, but {samples.source} belongs to no class.")
        return Content(samples.labels, samples.class_names, samples.kind, [samples.values], samples.texts, samples.peak)

    return DataSource(samples.source, Path(samples.source), [], [WHOLE], read, ready=samples)


def digits() -> Labelled:
    """scikit-learn's 1,797 handwritten digits, 8×8 pixels from 0 to 16."""
    from sklearn.datasets import load_digits

    loaded = load_digits()
    values, labels = loaded.images.astype(np.uint8)[..., None], loaded.target.astype(np.int64)
    digest = files.sha256(values.tobytes() + labels.astype("<i8").tobytes())
    ids = np.arange(len(labels), dtype=np.int64)
    return Labelled(values, labels, list(DIGITS), "scikit-learn's digits", "images", ids, digest, peak=16)


def _features() -> DataSource:
    source = folder_source(FEATURES)
    assert source is not None
    return replace(source, words="CIFAR-100, frozen features of EfficientNet-lite0")


SHIPPED: dict[str, Callable[[], DataSource]] = {"digits": lambda: ready(digits()), "cifar100-features": _features}
"""Data sets that softkin or a dependency carries, by name"""


def npz_source(path: Path) -> DataSource:
    """A source from an .npz file with ``images`` or ``features``, ``labels`` and perhaps ``class_names``."""
    with files.open_file(path) as file:
        Archive(file, str(path))

    def read(_part: str, _size: int | None, _progress: bool | None) -> Content:
        return _read(path)

    return DataSource(path.name, path, [path], [WHOLE], read)


def folder_source(path: Path) -> DataSource | None:
    """The source for a folder with train.npz, test.npz and perhaps validation.npz; None without a train.npz."""
    parts = {canonical(file.stem): file for file in sorted(path.glob("*.npz")) if is_part(file.stem)}
    if "train" not in parts:
        return None

    def read(part: str, _size: int | None, _progress: bool | None) -> Content:
        content = _read(parts[part])
        if part == "train":
            return content
        training = _read(parts["train"]).class_names
        # A file without names may lack the last classes.
        if content.class_names != training[: len(content.class_names)]:
            raise SoftkinError(f"{parts[part]} must have the class names of {parts['train'].name}, in the same order.")
        return replace(content, class_names=training)

    return DataSource(path.name, path, list(parts.values()), list(parts), read)


def _read(path: Path) -> Content:
    with files.open_file(path) as file:
        archive = Archive(file, str(path))
        names = archive.keys
        value = next((name for name in VALUES if name in names), None)
        called = roles.find(names, "label")
        if value is None or called is None:
            raise SoftkinError(
                f"{path} must hold `images` or `features`, and `labels`; it holds {', '.join(names) or 'nothing'}."
            )
        labels = _labels(archive.array(called), called, path)
        class_names = archive.text("class_names") if "class_names" in names else None
        shape = archive.array(value).shape
    if not len(labels) or labels.min() < 0:
        raise SoftkinError(
            f"{path}: `labels` must be classes from 0 on, got {labels.min() if len(labels) else 'none'}."
        )
    if not shape or shape[0] != len(labels):
        raise SoftkinError(f"{path}: `{value}` must have a row for each of the {len(labels):,} labels, got {shape}.")
    if class_names is None:
        class_names = numbered(int(labels.max()) + 1, f"{path}, by its `labels`,")
    if not isinstance(class_names, list):
        raise SoftkinError(f"{path}: `class_names` must be a list of texts, got the single text {class_names[:50]!r}.")
    if labels.max() >= len(class_names):
        raise SoftkinError(
            f"{path}: `labels` must be below {len(class_names)}, for which there are class names, got {labels.max()}."
        )
    chunks = _chunks(path, value)
    return Content(labels.astype(np.int64), class_names, "images" if _are_images(value, shape) else "features", chunks)


def _are_images(name: str, shape: tuple[int, ...]) -> bool:
    return name == "images" or (name != "features" and len(shape) > 2)


def _labels(stream: Any, name: str, path: Path) -> NDArray[Any]:
    """(N,) labels; whole numbers may be floats, and a column (N, 1)."""
    shape = stream.shape[:1] if len(stream.shape) == 2 and stream.shape[1] == 1 else stream.shape
    if stream.dtype.kind in "biuf" and len(shape) == 1:
        labels: NDArray[Any] = stream.all().reshape(shape)
        if bool((labels == np.floor(labels)).all()):
            return labels.astype(np.int64)
    raise SoftkinError(f"{path}: `{name}` must be integers of shape (N,), got {stream.dtype} {stream.shape}.")


def _chunks(path: Path, name: str) -> Iterator[NDArray[Any]]:
    """One array of an .npz file in chunks, because it may be larger than memory."""
    with files.open_file(path) as file:
        stream = Archive(file, str(path)).array(name)
        row = math.prod(stream.shape[1:]) * stream.dtype.itemsize
        step = max(1, CHUNK // max(1, row))
        for start in range(0, stream.shape[0], step):
            yield _as_values(stream.take(min(step, stream.shape[0] - start)), name, path)


def _as_values(values: NDArray[Any], name: str, path: Path) -> NDArray[Any]:
    called = f"{path}: `{name}`"
    if _are_images(name, values.shape):
        return decoding.pixels(decoding.with_channels(values, called), called)
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        raise SoftkinError(f"{called} must be numbers of shape (N, D), got {values.dtype} {values.shape}.")
    return values.astype(np.float32)
