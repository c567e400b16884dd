"""CIFAR-10 and CIFAR-100 as published: pickles with rows of 3,072 bytes, ordered red, green, blue."""

import io
import pickle
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softkin import SoftkinError
from softkin._io import files
from softkin.lab.data.labelled import DataSource
from softkin.lab.data.store import Content

_NUMBERS = re.compile(r"[<>|]?[biuf][1248]")


class _Dtype:
    """Stands for a dtype while the pickle is read."""

    __slots__ = ("order", "text")

    def __init__(self, text: str) -> None:
        self.text, self.order = text, "|"

    def __setstate__(self, state: Any) -> None:
        if not (isinstance(state, tuple) and len(state) >= 2 and state[1] in ("<", ">", "|")):
            raise pickle.UnpicklingError("an invalid dtype")
        self.order = state[1]

    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.text).newbyteorder("<" if self.order in "<|" else ">")


class _Array:
    """Stands for an array while the pickle is read."""

    __slots__ = ("values",)

    def __setstate__(self, state: Any) -> None:
        if not (isinstance(state, tuple) and len(state) == 5):
            raise pickle.UnpicklingError("an invalid array")
        _, shape, dtype, fortran, content = state
        if isinstance(content, str):  # Python 2 wrote bytes as text
            content = content.encode("latin1")
        sizes = isinstance(shape, tuple) and all(type(size) is int and 0 <= size < 2**48 for size in shape)
        if not (sizes and isinstance(dtype, _Dtype) and isinstance(content, bytes)):
            raise pickle.UnpicklingError("an array of something other than numbers")
        values = np.frombuffer(content, dtype.dtype())
        self.values: NDArray[Any] = values.reshape(shape, order="F" if fortran else "C")


class _Named:
    """The object that stands for a permitted name in a pickle: either a callable or a mere marker."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("it would change what a name stands for")

    def __call__(self, *arguments: Any) -> Any:
        if self._name == "array" and arguments and isinstance(arguments[0], _Named):
            return _Array()
        if self._name == "dtype" and arguments and isinstance(arguments[0], str) and _NUMBERS.fullmatch(arguments[0]):
            return _Dtype(arguments[0])
        if self._name == "bytes" and isinstance(arguments[0], str) and arguments[1:] in (("latin1",), ("latin-1",)):
            return arguments[0].encode("latin1")
        raise pickle.UnpicklingError(f"a call of {self._name} with unusual arguments")


_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): _Named("array"),
    ("numpy._core.multiarray", "_reconstruct"): _Named("array"),
    ("numpy", "ndarray"): _Named("ndarray"),
    ("numpy", "dtype"): _Named("dtype"),
    ("_codecs", "encode"): _Named("bytes"),
}


class _Reader(pickle._Unpickler):
    """Based on the pure-Python unpickler, since five bytes make the C version allocate a memo table of 64 GiB."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no data set needs") from None


def read(path: Path) -> dict[str, Any]:
    """The pickled dictionary of numbers, text, lists and arrays."""
    content = files.read_bytes(path, "a pickle of arrays")
    try:
        unpickled = _Reader(io.BytesIO(content), encoding="latin1").load()
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise SoftkinError(f"{path} was refused as a pickle of arrays: {files.cause(error)}.") from error
    if not isinstance(unpickled, dict):
        raise SoftkinError(f"{path} must hold a dictionary, as CIFAR's files do, got {type(unpickled).__name__}.")
    return {
        key.decode("latin1") if isinstance(key, bytes) else str(key): value.values
        if isinstance(value, _Array)
        else value
        for key, value in unpickled.items()
        if isinstance(key, str | bytes)
    }


SIDE = 32
TOGETHER = 4096  # images per chunk

_LAYOUTS: dict[str, dict[str, Any]] = {
    "CIFAR-100": {
        "meta": ("meta", "fine_label_names"),
        "labels": "fine_labels",
        "parts": {"train": ["train"], "test": ["test"]},
    },
    "CIFAR-10": {
        "meta": ("batches.meta", "label_names"),
        "labels": "labels",
        "parts": {"train": [f"data_batch_{k}" for k in range(1, 6)], "test": ["test_batch"]},
    },
}


def source(path: Path) -> DataSource | None:
    """The source for an official CIFAR folder; None if ``path`` is not one."""
    for words, layout in _LAYOUTS.items():
        parts = {part: [path / name for name in names] for part, names in layout["parts"].items()}
        meta = path / layout["meta"][0]
        files = [meta, *(file for several in parts.values() for file in several)]
        if not meta.is_file() or not parts["test"][0].is_file():
            continue
        missing = [file.name for file in files if not file.is_file()]
        if missing:
            raise SoftkinError(f"{path} must hold all files of {words}, but {', '.join(missing)} is missing.")

        def read(part: str, _size: int | None, _progress: bool | None) -> Content:
            return _read(meta, layout["meta"][1], parts[part], layout["labels"])  # noqa: B023  returned at once

        return DataSource(words, path, files, list(parts), read)
    return None


def _read(meta: Path, names_key: str, files: Sequence[Path], labels_key: str) -> Content:
    names = read(meta).get(names_key)
    if not isinstance(names, list) or not all(isinstance(name, str | bytes) for name in names):
        raise SoftkinError(f"{meta} must hold class names as `{names_key}`.")
    class_names = [name.decode("latin1") if isinstance(name, bytes) else name for name in names]
    labels: list[int] = []
    pixels: list[NDArray[np.uint8]] = []
    for file in files:
        content = read(file)
        values, own = content.get("data"), content.get(labels_key)
        if not isinstance(values, np.ndarray) or values.dtype != np.uint8 or values.shape[1:] != (3 * SIDE * SIDE,):
            raise SoftkinError(f"{file} must hold `data` as rows of {3 * SIDE * SIDE} bytes.")
        if not isinstance(own, list) or len(own) != len(values):
            raise SoftkinError(f"{file} must hold one label for each of its {len(values)} images as `{labels_key}`.")
        if not all(type(label) is int and 0 <= label < len(class_names) for label in own):
            raise SoftkinError(f"{file}: `{labels_key}` must be whole numbers from 0 to {len(class_names) - 1}.")
        labels += own
        pixels.append(values)
    return Content(np.array(labels, dtype=np.int64), class_names, "images", _chunks(pixels))


def _chunks(pixels: Sequence[NDArray[np.uint8]]) -> Iterator[NDArray[np.uint8]]:
    for rows in pixels:
        for start in range(0, len(rows), TOGETHER):
            yield rows[start : start + TOGETHER].reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)
