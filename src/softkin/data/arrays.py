"""Arrays: ``.npz`` files, and scikit-learn's digits."""

import hashlib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softkin import SoftkinError
from softkin.data import images
from softkin.data.labelled import Content, Labelled, Samples
from softkin.data.source import WHOLE, Source
from softkin.names import DIGITS

CHUNK = 2**24  # bytes read at a time


def ready(samples: Samples) -> Source:
    """What is in memory already, as a source of one part."""

    def read(_part: str, _size: int | None, _progress: bool | None) -> Content:
        if samples.labels is None:
            raise ValueError(f"`source` must have labels, but {samples.source} belongs to no class.")
        return Content(samples.labels, samples.class_names, samples.kind, [samples.values], samples.texts, samples.peak)

    return Source(samples.source, Path(samples.source), [], [WHOLE], read, ready=samples)


def digits() -> Labelled:
    """scikit-learn's 1,797 handwritten digits, 8×8 pixels from 0 to 16."""
    from sklearn.datasets import load_digits

    loaded = load_digits()
    values, labels = loaded.images.astype(np.uint8)[..., None], loaded.target.astype(np.int64)
    digest = hashlib.sha256(values.tobytes() + labels.astype("<i8").tobytes()).hexdigest()
    ids = np.arange(len(labels), dtype=np.int64)
    return Labelled(values, labels, list(DIGITS), "scikit-learn's digits", "images", ids, digest, peak=16)


def npz_source(path: Path) -> Source:
    """``images`` or ``features``, ``labels`` and perhaps ``class_names``."""
    if not zipfile.is_zipfile(path):
        raise SoftkinError(f"{path} could not be read as .npz: it is no such file, or it was cut off.")

    def read(_part: str, _size: int | None, _progress: bool | None) -> Content:
        return _read(path)

    return Source(path.name, path, [path], [WHOLE], read)


def _read(path: Path) -> Content:
    try:
        with np.load(path, allow_pickle=False) as file:
            names = file.files
            value = next((name for name in ("images", "features") if name in names), None)
            if value is None or "labels" not in names:
                raise SoftkinError(
                    f"{path} must hold `images` or `features`, and `labels`; it holds {', '.join(names) or 'nothing'}."
                )
            labels = file["labels"]
            class_names = file["class_names"].astype(str).tolist() if "class_names" in names else None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise SoftkinError(f"{path} could not be read as .npz without pickles: {error}") from error
    if labels.dtype.kind not in "iu" or labels.ndim != 1:
        raise SoftkinError(f"{path}: `labels` must be integers of shape (N,), got {labels.dtype} {labels.shape}.")
    if not len(labels) or labels.min() < 0:
        raise SoftkinError(
            f"{path}: `labels` must be classes from 0 on, got {labels.min() if len(labels) else 'none'}."
        )
    if class_names is None:
        class_names = [f"class {k}" for k in range(int(labels.max()) + 1)]
    if labels.max() >= len(class_names):
        raise SoftkinError(
            f"{path}: `labels` must be below {len(class_names)}, for which there are class names, got {labels.max()}."
        )
    chunks = _chunks(path, value)
    return Content(labels.astype(np.int64), class_names, "images" if value == "images" else "features", chunks)


def _chunks(path: Path, name: str) -> Iterator[NDArray[Any]]:
    """One array of an .npz piece by piece: it may be larger than memory."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
            version = np.lib.format.read_magic(file)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = header(file)
            if dtype.hasobject:
                raise SoftkinError(f"{path} could not be read as .npz without pickles: `{name}` holds objects.")
            if fortran or len(shape) < 2:
                with np.load(path, allow_pickle=False) as whole:  # columns first: no rows to be had piece by piece
                    yield _as_values(whole[name], name, path)
                return
            row = int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize
            step = max(1, CHUNK // max(1, row))
            for start in range(0, shape[0], step):
                rows = min(step, shape[0] - start)
                content = file.read(rows * row)
                yield _as_values(np.frombuffer(content, dtype).reshape(rows, *shape[1:]), name, path)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise SoftkinError(f"{path} could not be read as .npz without pickles: {error}") from error


def _as_values(values: NDArray[Any], name: str, path: Path) -> NDArray[Any]:
    called = f"{path}: `{name}`"
    if name == "images":
        return images.pixels(images.with_channels(values, called), called)
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        raise SoftkinError(f"{called} must be numbers of shape (N, D), got {values.dtype} {values.shape}.")
    return values.astype(np.float32)
