"""Predictions in arrays: .npz, .npy pairs, safetensors. Read in order, never unpickled, a block of rows at a time."""

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from softkin import SoftkinError, checks
from softkin.predictions import formats
from softkin.predictions.formats import Block, Kind, Source

TEXTS = ("class_names", *formats.NOTES, "name")


class _Rows:
    """An array in a stream: its shape at once, its rows in order."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self.stream, self.name = stream, name
        self.whole: NDArray[Any] | None = None
        try:
            version = np.lib.format.read_magic(stream)
            header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
            self.shape, self.by_column, self.dtype = header(stream)
        except (KeyError, ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
            raise SoftkinError(f"{name} could not be read as a numpy array: {error}") from error
        if self.dtype.hasobject:
            raise SoftkinError(f"{name} holds Python objects, which are never unpickled; save numbers or texts.")

    def take(self, rows: int) -> NDArray[Any]:
        """The next rows, fewer at the end."""
        width = int(np.prod(self.shape[1:], dtype=np.int64))
        if self.by_column and len(self.shape) > 1:  # columns lie together: all or nothing
            if self.whole is None:
                self.whole = self._numbers(self.shape[0] * width).reshape(self.shape, order="F")
            taken, self.whole = np.ascontiguousarray(self.whole[:rows]), self.whole[rows:]
            return taken
        return self._numbers(rows * width).reshape(rows, *self.shape[1:])

    def _numbers(self, count: int) -> NDArray[Any]:
        size = count * self.dtype.itemsize
        try:
            content = self.stream.read(size)
        except (OSError, EOFError, zipfile.BadZipFile) as error:
            raise SoftkinError(f"{self.name} is damaged: {error}") from error
        except Exception as error:  # what zlib raises is no subclass of anything
            if type(error).__module__ != "zlib":
                raise
            raise SoftkinError(f"{self.name} is damaged: {error}") from error
        if len(content) != size:
            raise SoftkinError(f"{self.name} was cut off: {len(content):,} of {size:,} bytes are there.")
        return np.frombuffer(content, dtype=self.dtype)

    def all(self) -> NDArray[Any]:
        """Everything."""
        return self.take(self.shape[0]) if self.shape else self._numbers(1).reshape(())


def open_npz(file: IO[bytes], name: str, kind: Kind | None) -> Source:
    """An .npz archive, compressed or not."""
    archive = _archive(file, name)
    keys = [entry.removesuffix(".npy") for entry in archive.namelist()]
    shapes = {key: _entry(archive, key, name).shape for key in keys}
    labels, ids = formats.named(keys, formats.LABELS), formats.named(keys, formats.IDS)
    others = [key for key in keys if key not in (labels, ids, *TEXTS) and len(shapes[key]) > 1]
    part, kind = formats.choose(keys, others, kind, name)
    num_rows, num_classes = _dimensions(shapes[part], part, name)
    for key in (labels, ids):
        _as_many(shapes, key, num_rows, part, name)
    texts = {key: _entry(archive, key, name).all().tolist() for key in TEXTS if key in keys}

    def blocks(rows: int) -> Iterator[Block]:
        streams = [None if key is None else _entry(archive, key, name) for key in (part, labels, ids)]
        for start in range(0, num_rows, rows):
            count = min(rows, num_rows - start)
            values, wanted, known = (None if one is None else one.take(count) for one in streams)
            yield Block(_tensor(values, part, name), wanted, known)

    return Source(name, kind, num_classes, num_rows, blocks, texts.get("class_names"), _notes(texts))


def open_npy(file: IO[bytes], name: str, kind: Kind | None) -> Source:
    """An .npy file, whose own name is all that says what it holds."""
    values = _Rows(file, name)
    said = formats.kind_in_words(Path(name).stem)
    if kind is not None and said not in (None, kind):
        raise SoftkinError(f"{name} is said to hold {kind} (--{kind}), but its name says {said}.")
    kind = kind or said
    if kind is None:
        raise formats.unknown_kind(name, "its numbers")
    num_rows, num_classes = _dimensions(values.shape, "the array", name)

    def blocks(rows: int) -> Iterator[Block]:
        file.seek(0)
        stream = _Rows(file, name)
        for start in range(0, num_rows, rows):
            yield Block(_tensor(stream.take(min(rows, num_rows - start)), "the array", name))

    return Source(name, kind, num_classes, num_rows, blocks)


def open_safetensors(file: IO[bytes], name: str, kind: Kind | None) -> Source:
    """A safetensors file; texts are in its metadata."""
    from safetensors import SafetensorError, safe_open

    path = _on_disk(file)
    try:
        opened = safe_open(path.name, framework="pt")
        keys = list(opened.keys())
        texts: dict[str, Any] = json.loads((opened.metadata() or {}).get("softkin", "{}"))
    except (SafetensorError, ValueError, TypeError, OSError) as error:
        raise SoftkinError(f"{name} could not be read as safetensors, or it is damaged: {error}") from error
    shapes = {key: tuple(opened.get_slice(key).get_shape()) for key in keys}
    labels, ids = formats.named(keys, formats.LABELS), formats.named(keys, formats.IDS)
    others = [key for key in keys if key not in (labels, ids) and len(shapes[key]) > 1]
    part, kind = formats.choose(keys, others, kind, name)
    num_rows, num_classes = _dimensions(shapes[part], part, name)
    for key in (labels, ids):
        _as_many(shapes, key, num_rows, part, name)

    def blocks(rows: int) -> Iterator[Block]:
        assert path is not None  # a temporary file lives as long as it is named
        slices = [None if key is None else opened.get_slice(key) for key in (labels, ids)]
        known = texts.get("sample_ids")
        for start in range(0, num_rows, rows):
            wanted, own = (None if one is None else one[start : start + rows] for one in slices)
            yield Block(
                opened.get_slice(part)[start : start + rows],
                wanted,
                known[start : start + rows] if own is None and known else own,
            )

    return Source(name, kind, num_classes, num_rows, blocks, texts.get("class_names"), _notes(texts))


def partner(path: Path) -> Path:
    """The .npy file of labels that belongs to one of scores: of that name with another word, or just ``labels.npy``."""
    words = "|".join(("predictions", *(name for names in formats.NAMES.values() for name in names)))
    tried = [path.with_name(re.sub(words, word, path.name, count=1)) for word in ("labels", "label_ids", "targets")] + [
        path.with_name(name) for name in ("labels.npy", "label_ids.npy")
    ]
    found = next((one for one in tried if one != path and one.is_file()), None)
    if found is None:
        looked = ", ".join(dict.fromkeys(one.name for one in tried if one != path))
        raise SoftkinError(
            f"{path} needs its labels, and beside it there is none of {looked}; name them with --labels."
        )
    return found


def array(file: IO[bytes], name: str) -> NDArray[Any]:
    """The whole of an .npy file."""
    with file:
        return _Rows(file, name).all()


def array_in(file: IO[bytes], name: str, wanted: tuple[str, ...]) -> NDArray[Any]:
    """The array of an .npz file that has one of the wanted names."""
    with file:
        archive = _archive(file, name)
        keys = [entry.removesuffix(".npy") for entry in archive.namelist()]
        key = formats.named(keys, wanted)
        if key is None:
            raise SoftkinError(f"{name} must hold `{wanted[0]}`, it holds {', '.join(keys) or 'nothing'}.")
        return _entry(archive, key, name).all()


def _archive(file: IO[bytes], name: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except (zipfile.BadZipFile, OSError) as error:
        raise SoftkinError(f"{name} could not be read as .npz: it is no such file, or it was cut off.") from error


def _entry(archive: zipfile.ZipFile, key: str, name: str) -> _Rows:
    try:
        stream = archive.open(f"{key}.npy")
    except KeyError:
        raise SoftkinError(f"{name} is no .npz file of arrays: it holds `{key}`.") from None
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError) as error:
        raise SoftkinError(f"{name}: `{key}` is damaged or locked: {error}") from error
    return _Rows(stream, f"{name}: `{key}`")


def _on_disk(file: IO[bytes]) -> Any:
    """Something with a ``name`` that can be opened: the file itself, or a temporary copy of a stream."""
    import shutil
    import tempfile

    if isinstance(getattr(file, "name", None), str):
        return file
    copy = tempfile.NamedTemporaryFile(suffix=".safetensors")  # noqa: SIM115  gone with the source
    shutil.copyfileobj(file, copy, 2**20)
    copy.flush()
    return copy


def _dimensions(shape: tuple[int, ...], part: str, name: str) -> tuple[int, int]:
    if len(shape) != 2:
        raise SoftkinError(f"{name}: {part} must have shape (N, K), a row for each sample, got {shape}.")
    if 0 in shape:
        raise SoftkinError(f"{name}: {part} must hold at least one row and class, got {shape}.")
    return shape[0], shape[1]


def _as_many(shapes: dict[str, tuple[int, ...]], key: str | None, num_rows: int, part: str, name: str) -> None:
    if key is not None and shapes[key] != (num_rows,):
        raise SoftkinError(
            f"{name}: `{key}` must have shape ({num_rows},), one for each row of `{part}`, got {shapes[key]}."
        )


def _tensor(values: Any, part: str, name: str) -> Any:
    try:
        return checks.as_tensor(values, part)
    except (TypeError, ValueError) as error:
        raise SoftkinError(f"{name}: {error}") from error


def _notes(texts: dict[str, Any]) -> dict[str, Any]:
    return {key: texts[key] for key in formats.NOTES if key in texts}
