"""Fashion-MNIST and its relatives: idx files, plain or .gz, which hold a header of sizes and then bytes."""

import gzip
import math
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from softkin import SoftkinError
from softkin._io import files
from softkin.lab.data.labelled import DataSource, numbered
from softkin.lab.data.store import Content

TOGETHER = 4096  # images per chunk
PREFIXES = {"train": "train", "test": "t10k"}
FASHION = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
# SHA-256 of Fashion-MNIST's labels (train, test): idx files carry no class names, and MNIST uses the same file names.
FASHION_LABELS = (
    "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
    "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
)


def source(path: Path) -> DataSource | None:
    """The source for a folder of idx files; None if ``path`` is not one."""
    parts = {}
    for part, prefix in PREFIXES.items():
        images, labels = _file(path, f"{prefix}-images-idx3-ubyte"), _file(path, f"{prefix}-labels-idx1-ubyte")
        if images is not None and labels is not None:
            parts[part] = (images, labels)
        elif images is not None or labels is not None:
            raise SoftkinError(f"{path} must hold images and labels of {part}, but one of the two files is missing.")
    if not parts:
        return None

    def read(part: str, _size: int | None, _progress: bool | None) -> Content:
        images, labels = parts[part]
        return _read(images, labels)

    return DataSource(
        f"idx files in {path.name}", path, [file for pair in parts.values() for file in pair], list(parts), read
    )


def _file(path: Path, name: str) -> Path | None:
    # torchvision and others keep both versions; some file names have a dot in place of the dash before idx
    for candidate in (name, f"{name}.gz", name.replace("-idx", ".idx"), f"{name.replace('-idx', '.idx')}.gz"):
        if (path / candidate).is_file():
            return path / candidate
    return None


def _read(images: Path, labels: Path) -> Content:
    values = np.concatenate([np.zeros(0, np.uint8), *_pieces(labels, dimensions=1, together=None)]).astype(np.int64)
    names = numbered(int(values.max(initial=-1)) + 1, str(labels))
    if files.sha256(values.astype(np.uint8).tobytes()) in FASHION_LABELS:
        names = list(FASHION)
    chunks = (piece[..., None] for piece in _pieces(images, dimensions=3, together=TOGETHER))
    return Content(values, names, "images", chunks)


def _pieces(path: Path, *, dimensions: int, together: int | None) -> Iterator[NDArray[np.uint8]]:
    size = files.require_regular(path)
    with files.reading(path, "idx"), gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        yield from _rows(file, path, size, dimensions, together)


def _rows(
    file: gzip.GzipFile | BinaryIO, path: Path, size: int, dimensions: int, together: int | None
) -> Iterator[NDArray[np.uint8]]:
    header = file.read(4 + 4 * dimensions)
    if header[:4] != bytes([0, 0, 8, dimensions]) or len(header) != 4 + 4 * dimensions:
        raise SoftkinError(f"{path} must begin as an idx file of bytes with {dimensions} dimensions, it does not.")
    rows, *shape = (int(length) for length in np.frombuffer(header, ">u4", offset=4))
    row = math.prod(shape)
    if row == 0:  # four billion empty rows fit into any file
        raise SoftkinError(f"{path} must hold images of at least one pixel, got {shape[0]}×{shape[1]}.")
    files.within("pixels", row, f"{path}: an image")
    files.unpacked_within(size, rows * row, str(path))
    step = together or max(1, rows)
    for start in range(0, rows, step):
        count = min(step, rows - start)
        content = file.read(count * row)
        if len(content) != count * row:
            raise SoftkinError(f"{path} was cut off: it must hold {rows} rows, but ends within row {start + count}.")
        yield np.frombuffer(content, np.uint8).reshape(count, *shape)
    if file.read(1):  # gzip verifies its checksum only when a file is read to the end
        raise SoftkinError(f"{path} is damaged: it must hold {rows} rows, but more data follows them.")
