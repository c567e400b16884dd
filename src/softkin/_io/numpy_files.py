"""Numpy arrays in .npy and .npz files: never unpickled, with sizes checked before anything is unpacked.

``read`` takes one array of such a file, or of a .safetensors file.
"""

import math
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softkin import SoftkinError
from softkin._io import bundles, files

ENTRIES = 1000  # maximum number of arrays in an archive; softkin's have a handful
TEXT_SHARE = 16  # divisor of the byte limit for texts: 128 MiB


class ArrayStream:
    """A numpy array in a stream: its shape is known at once, and its rows are read in order.

    Args:
        stream: A stream positioned at the array's header.
        size: Bytes from there to the array's end, including the header; the header must declare as many.
        name: The array's name in messages.
    """

    def __init__(self, stream: IO[bytes], size: int, name: str) -> None:
        self.stream, self.name = stream, name
        self.whole: NDArray[Any] | None = None
        with files.reading(name, "a numpy array"):
            version = np.lib.format.read_magic(stream)
            header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
            self.shape, self.by_column, self.dtype = header(stream)
            there = size - stream.tell()
        if self.dtype.hasobject:
            raise SoftkinError(f"{name} holds Python objects, which are never unpickled; save numbers or texts.")
        if any(length < 0 for length in self.shape):
            raise SoftkinError(f"{name} is damaged: its shape is {self.shape}.")
        self.nbytes = math.prod(self.shape) * self.dtype.itemsize
        if there < self.nbytes:
            raise SoftkinError(f"{name} was cut off: {there:,} of {self.nbytes:,} bytes are there.")
        if there > self.nbytes:
            raise SoftkinError(f"{name} is damaged: its header says {self.nbytes:,} bytes, but {there:,} are there.")

    def take(self, rows: int) -> NDArray[Any]:
        """The next rows; fewer at the end."""
        if self.by_column and len(self.shape) > 1:  # column order: read everything at once
            if self.whole is None:
                self.whole = self._numbers(math.prod(self.shape)).reshape(self.shape, order="F")
            taken, self.whole = np.ascontiguousarray(self.whole[:rows]), self.whole[rows:]
            return taken
        return self._numbers(rows * math.prod(self.shape[1:])).reshape(rows, *self.shape[1:])

    def _numbers(self, count: int) -> NDArray[Any]:
        size = count * self.dtype.itemsize
        files.within("bytes", size, self.name)
        with files.reading(self.name, "a numpy array"):
            content = self.stream.read(size)
            if len(content) != size:
                raise SoftkinError(f"{self.name} was cut off: {len(content):,} of {size:,} bytes are there.")
            return np.frombuffer(content, dtype=self.dtype)

    def all(self) -> NDArray[Any]:
        """All rows."""
        return self.take(self.shape[0]) if self.shape else self._numbers(1).reshape(())


class Archive:
    """An .npz file: declared sizes are checked before anything is unpacked, and checksums during unpacking."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self.name = name
        size = size_of(file)
        try:
            self._archive = files.open_zip(file, name)
            infos = self._archive.infolist()
            for info in infos[:ENTRIES]:
                self._archive.open(info).close()  # the name is stored in two places, which must agree
        except SoftkinError:
            raise
        except Exception as error:  # a damaged directory can raise nearly anything
            raise SoftkinError(f"{name} could not be read as .npz: it is another format, or it was cut off.") from error
        if len(infos) > ENTRIES:
            raise SoftkinError(f"{name} must hold at most {ENTRIES} arrays, it holds {len(infos):,}.")
        self._infos: dict[str, zipfile.ZipInfo] = {}
        for info in infos:
            key = info.filename.removesuffix(".npy")
            if key in self._infos:
                raise SoftkinError(f"{name} must hold each array once, but `{key}` is there twice.")
            if info.compress_size > size:
                raise SoftkinError(f"{name}: `{key}` is damaged: it is said to be larger than the whole file.")
            files.unpacked_within(info.compress_size, info.file_size, f"{name}: `{key}`")
            self._infos[key] = info
        self.keys = list(self._infos)

    def array(self, key: str) -> ArrayStream:
        """One of the arrays, as a stream from its beginning."""
        info = self._infos[key]
        if not info.filename.endswith(".npy"):
            raise SoftkinError(f"{self.name} is not an .npz file of arrays: it holds `{key}`.")
        with files.reading(f"{self.name}: `{key}`", "a numpy array"):
            return ArrayStream(self._archive.open(info), info.file_size, f"{self.name}: `{key}`")

    def text(self, key: str) -> Any:
        """A text, or a list of texts."""
        files.within("bytes", self._infos[key].file_size, f"{self.name}: `{key}`", share=TEXT_SHARE)
        array = self.array(key).all()
        with files.reading(f"{self.name}: `{key}`", "text"):
            if array.dtype.kind not in "US":
                raise SoftkinError(f"{self.name}: `{key}` must hold text, got {array.dtype}.")
            return array.astype(str).tolist()


def size_of(file: IO[bytes]) -> int:
    """The size of an open file in bytes; the file is rewound to its beginning."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return size


SUFFIXES = (".npy", ".npz", ".safetensors")


def read(path: str | Path, what: str, names: tuple[str, ...], fits: Callable[[tuple[int, ...]], bool]) -> Tensor:
    """The array of one of these names, or the only one of a fitting shape.

    Args:
        path: The file.
        what: What it should hold, for messages: "features (N, d)".
        names: Names that the array may have.
        fits: Whether a shape is right.

    Raises:
        SoftkinError: No array fits, several do, or the file is damaged.
    """
    path = Path(path)
    files.require_regular(path)
    suffix = path.suffix.lower()
    if suffix == ".safetensors":
        bundle = bundles.Bundle(path, what)
        return bundle.whole(_chosen(bundle.shapes, path, what, names, fits))
    if suffix not in SUFFIXES:
        raise SoftkinError(f"{path} has no known format for {what}; those are .npy, .npz and .safetensors.")
    with files.open_file(path) as stream:
        if suffix == ".npz":
            archive = Archive(stream, str(path))
            shapes = {key: tuple(archive.array(key).shape) for key in archive.keys}
            array = archive.array(_chosen(shapes, path, what, names, fits)).all()
        else:
            whole = ArrayStream(stream, size_of(stream), str(path))
            _chosen({path.stem: tuple(whole.shape)}, path, what, names, fits)
            array = whole.all()
    if array.dtype.kind not in "biuf":
        raise SoftkinError(f"{path} must hold numbers as {what}, got {array.dtype}.")
    return torch.from_numpy(np.array(array))


def listed(path: str | Path, what: str, names: tuple[str, ...]) -> list[str] | None:
    """The ids or class names beside the arrays of an .npz or .safetensors file, as texts; None if it has none.

    Args:
        path: The file.
        what: What it should hold, for messages.
        names: What the list may be called.
    """
    path = Path(path)
    if path.suffix.lower() == ".safetensors":
        bundle = bundles.Bundle(path, what)
        found = next((bundle.about[name] for name in names if isinstance(bundle.about.get(name), list)), None)
        key = next((name for name in names if name in bundle.shapes), None)
        found = bundle.whole(key).tolist() if found is None and key is not None else found
    elif path.suffix.lower() == ".npz":
        with files.open_file(path) as stream:
            archive = Archive(stream, str(path))
            key = next((name for name in names if name in archive.keys), None)
            if key is None:
                return None
            is_text = archive.array(key).dtype.kind in "US"
            found = archive.text(key) if is_text else archive.array(key).all().tolist()
    else:
        return None
    return None if found is None else [str(one) for one in found]


def _chosen(
    shapes: dict[str, tuple[int, ...]],
    path: Path,
    what: str,
    names: tuple[str, ...],
    fits: Callable[[tuple[int, ...]], bool],
) -> str:
    called = [key for key in names if key in shapes][:1]
    fitting = [key for key in called or shapes if fits(shapes[key])]
    if len(fitting) != 1:
        there = ", ".join(f"`{key}` {shape}" for key, shape in shapes.items()) or "nothing"
        raise SoftkinError(f"{path} must hold {what}, one array called {' or '.join(names)}, and holds {there}.")
    return fitting[0]
