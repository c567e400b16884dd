"""Tensors and texts in one safetensors file, with the checksums that safetensors itself lacks."""

import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from softkin import SoftkinError
from softkin._io import files

ENTRY = "softkin"  # one entry of the metadata: safetensors writes several in random order
CHECKSUMS = "crc32"


def encoded(tensors: Mapping[str, Tensor], texts: Mapping[str, Any]) -> bytes:
    """The file's content; equal content gives equal bytes.

    Args:
        tensors: Tensors by name.
        texts: Plain data by name.
    """
    from safetensors.torch import save

    contiguous = {key: tensor.contiguous() for key, tensor in tensors.items()}
    checksums = {key: _update(_start(tensor), tensor) for key, tensor in contiguous.items()}
    about = {**texts, CHECKSUMS: {"tensors": checksums, "texts": zlib.crc32(files.canonical_json(texts))}}
    return save(contiguous, {ENTRY: json.dumps(about, ensure_ascii=False)})


def _start(tensor: Tensor) -> int:
    """The checksum of a tensor's dtype and shape, which starts the checksum of its values."""
    return zlib.crc32(f"{tensor.dtype} {tuple(tensor.shape)}".encode())


def _update(checksum: int, tensor: Tensor) -> int:
    return zlib.crc32(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data, checksum)


def write_described(path: Path, about: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write JSON that ends with its own checksum, beside tensors in a file that the JSON names by their digest.

    Both are on the disk before either gets its name, the JSON last: a crash at any moment leaves the old pair or the
    new one. Tensors of an earlier pair are removed.
    """
    from safetensors.torch import save

    content = save({key: tensor.contiguous() for key, tensor in tensors.items()})
    about["tensors"] = f"tensors-{files.sha256(content)[:16]}.safetensors"
    about["checksum"] = files.sha256_of_json(about)
    kept = path.parent / about["tensors"]
    files.write_together({kept: content, path: files.json_bytes(about)})
    for old in path.parent.glob("tensors-*.safetensors"):
        if old != kept:
            old.unlink(missing_ok=True)


def described(path: Path, about: Mapping[str, Any], what: str) -> dict[str, Tensor]:
    """The tensors that the JSON at ``path`` names, verified against the digest in their file's name."""
    from safetensors.torch import load

    name = str(about["tensors"])
    if Path(name).name != name:
        raise ValueError(f"the tensors' file must lie beside it, got {name!r}")
    beside = path.parent / name
    content = files.read_bytes(beside, what)
    if files.sha256(content)[:16] not in name:
        raise SoftkinError(f"{beside} is damaged: it is not what was written.")
    with files.reading(beside, what):
        tensors: dict[str, Tensor] = load(content)
    return tensors


class TensorFile:
    """An open safetensors file: shapes and texts are read at once, numbers on demand.

    Files without checksums (from other programs, or softkin before 0.2) are read without that check.

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
            raise SoftkinError(f"{self.name} is damaged: its texts must be called {ENTRY!r}.")
        about = files.parse_json(metadata.get(ENTRY, "{}"), self.name, what)
        if not isinstance(about, dict):
            raise SoftkinError(f"{self.name} could not be read as {what}: its texts must have names.")
        self._checksums: dict[str, int] = {}
        with files.reading(self.name, what):
            if CHECKSUMS in about:
                checksums = about.pop(CHECKSUMS)
                if zlib.crc32(files.canonical_json(about)) != checksums["texts"]:
                    raise SoftkinError(f"{self.name} is damaged: the checksum of its texts does not fit.")
                self._checksums = dict(checksums["tensors"])
                if self._checksums.keys() != self.shapes.keys():
                    raise SoftkinError(f"{self.name} is damaged: it must hold {', '.join(self._checksums)}.")
        self.texts: dict[str, Any] = about

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
                self._verify(key, checksum)
            yield part

    def whole(self, key: str) -> Tensor:
        """A verified tensor."""
        if key not in self.shapes:
            raise SoftkinError(f"{self.name} could not be read as {self.what}: it lacks `{key}`.")
        with files.reading(self.name, self.what):
            tensor: Tensor = self._file.get_tensor(key)
            self._verify(key, _update(_start(tensor), tensor))
        return tensor

    def _verify(self, key: str, checksum: int) -> None:
        if self._checksums.get(key, checksum) != checksum:
            raise SoftkinError(f"{self.name} is damaged: the checksum of its `{key}` does not fit.")
