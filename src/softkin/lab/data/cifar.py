"""CIFAR-10 and CIFAR-100 as published: pickles with rows of 3,072 bytes, ordered red, green, blue."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softkin import SoftkinError
from softkin.lab.data import pickles
from softkin.lab.data.source import DataSource
from softkin.lab.data.store import Content

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
    names = pickles.read(meta).get(names_key)
    if not isinstance(names, list) or not all(isinstance(name, str | bytes) for name in names):
        raise SoftkinError(f"{meta} must hold class names as `{names_key}`.")
    class_names = [name.decode("latin1") if isinstance(name, bytes) else name for name in names]
    labels: list[int] = []
    pixels: list[NDArray[np.uint8]] = []
    for file in files:
        content = pickles.read(file)
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
