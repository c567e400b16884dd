"""What softkin keeps: a description and tensors in one safetensors file, and plain data in JSON, both with checksums.

A bundle is one file, so that one rename replaces it: a reader sees the old bundle or the new one, whole, however many
processes write it. Its description is JSON in the file's metadata. Loading one executes nothing.
"""

import json
import zlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from softkin import SoftkinError
from softkin._io import files

ENTRY = "softkin"  # one entry of the metadata: safetensors writes several in random order
CHECKSUMS = "crc32"  # safetensors itself has none
CHECKSUM = "checksum"


def write(path: str | Path, about: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write a bundle atomically; ``about`` is plain data by name."""
    files.write(path, encoded(about, tensors))


def read(path: str | Path, what: str, *, bounded: bool = True) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The description and the tensors of a bundle, verified.

    Args:
        path: The file.
        what: The expected content, for errors, such as "a calibrator".
        bounded: Whether a file larger than ``files.limit("bytes")`` is refused.

    Raises:
        SoftkinError: There is no such file, it is damaged, or softkin did not write it.
    """
    return decoded(files.read_bytes(path, what, bounded=bounded), path, what)


def decoded(content: bytes, name: str | Path, what: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """As ``read``, of the content of a file that errors call ``name``."""
    from safetensors.torch import load

    with files.reading(name, what):
        tensors: dict[str, Tensor] = load(content)  # which checks the header before anything else
        header = files.parse_json(content[8 : 8 + int.from_bytes(content[:8], "little")], name, what)
        metadata = header.get("__metadata__") or {}
    if ENTRY not in metadata:
        raise SoftkinError(f"{name} could not be read as {what}: it has no description by softkin.")
    about, checksums = _described(metadata[ENTRY], tensors, name, what)
    for key, tensor in tensors.items():
        _verify(key, checksums[key], _update(_start(tensor), tensor), name)
    return about, tensors


def encoded(about: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bytes:
    """The content of a bundle; equal content gives equal bytes."""
    from safetensors.torch import save

    contiguous = {key: tensor.contiguous() for key, tensor in tensors.items()}
    checksums = {key: _update(_start(tensor), tensor) for key, tensor in contiguous.items()}
    text = {**about, CHECKSUMS: {"tensors": checksums, "texts": zlib.crc32(files.canonical_json(about))}}
    return save(contiguous, {ENTRY: json.dumps(text, ensure_ascii=False)})


def _start(tensor: Tensor) -> int:
    """The checksum of a tensor's dtype and shape, which starts the checksum of its values."""
    return zlib.crc32(f"{tensor.dtype} {tuple(tensor.shape)}".encode())


def _update(checksum: int, tensor: Tensor) -> int:
    return zlib.crc32(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data, checksum)


def _described(text: str, keys: Collection[str], name: str | Path, what: str) -> tuple[dict[str, Any], dict[str, int]]:
    """The description in the metadata, verified, and the checksums of the tensors ``keys``."""
    about = files.parse_json(text, name, what)
    with files.reading(name, what):
        checksums = about.pop(CHECKSUMS)
        if zlib.crc32(files.canonical_json(about)) != checksums["texts"]:
            raise SoftkinError(f"{name} is damaged: the checksum of its description does not fit.")
        of_tensors = dict(checksums["tensors"])
    if of_tensors.keys() != set(keys):
        raise SoftkinError(f"{name} is damaged: it must hold {', '.join(of_tensors) or 'no tensors'}.")
    return about, of_tensors


def _verify(key: str, expected: int, checksum: int, name: str | Path) -> None:
    if checksum != expected:
        raise SoftkinError(f"{name} is damaged: the checksum of its `{key}` does not fit.")


class Bundle:
    """An open safetensors file: shapes and description are read at once, numbers on demand.

    Files of other programs have neither description nor checksums, and are read without. Do not open a file so that
    somebody may replace meanwhile: safetensors opens it twice. ``read`` reads it in one go.

    Raises:
        SoftkinError: There is no such file, it is damaged, or it is another kind of file.
    """

    def __init__(self, path: str | Path, what: str, *, name: str | None = None) -> None:
        from safetensors import safe_open

        self.name, self.what = name or str(path), what
        files.require_regular(path)
        with files.reading(self.name, what):
            self._file = safe_open(path, framework="pt")
            metadata = self._file.metadata() or {}
            self._slices = {key: self._file.get_slice(key) for key in self._file.keys()}  # noqa: SIM118  no mapping
            self.shapes = {key: tuple(part.get_shape()) for key, part in self._slices.items()}
        if ENTRY not in metadata and any(f'"{CHECKSUMS}": ' in text for text in metadata.values()):
            raise SoftkinError(f"{self.name} is damaged: its description must be called {ENTRY!r}.")
        self.about: dict[str, Any] = {}
        self._checksums: dict[str, int] = {}
        if ENTRY in metadata:
            self.about, self._checksums = _described(metadata[ENTRY], self.shapes, self.name, what)

    def rows(self, key: str, count: int) -> Iterator[Tensor]:
        """A tensor of at least one dimension, ``count`` rows at a time; verified after the last rows."""
        shape, checksum = self.shapes[key], 0
        for start in range(0, shape[0], count):
            with files.reading(self.name, self.what):
                part: Tensor = self._slices[key][start : start + count]
                if start == 0:
                    checksum = zlib.crc32(f"{part.dtype} {shape}".encode())
                if self._checksums:
                    checksum = _update(checksum, part)
            if start + count >= shape[0]:
                _verify(key, self._checksums.get(key, checksum), checksum, self.name)
            yield part

    def whole(self, key: str) -> Tensor:
        """A verified tensor."""
        if key not in self.shapes:
            raise SoftkinError(f"{self.name} could not be read as {self.what}: it lacks `{key}`.")
        with files.reading(self.name, self.what):
            tensor: Tensor = self._file.get_tensor(key)
            checksum = _update(_start(tensor), tensor)
        _verify(key, self._checksums.get(key, checksum), checksum, self.name)
        return tensor


# Plain data


def sealed(data: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data with its own checksum as the last entry, for a JSON file; ``read_sealed`` verifies it."""
    return {**data, CHECKSUM: files.sha256_of_json(data)}


def read_sealed(path: str | Path, what: str) -> dict[str, Any]:
    """The plain data of a JSON file that holds what ``sealed`` returned, without the checksum.

    Raises:
        SoftkinError: There is no such file, it is damaged, or somebody has changed it.
    """
    data = files.read_json(path, what)
    with files.reading(path, what):
        if data.pop(CHECKSUM) != files.sha256_of_json(data):
            raise SoftkinError(f"{path} is not what was written: it is damaged, or was changed by hand.")
    return dict(data)
