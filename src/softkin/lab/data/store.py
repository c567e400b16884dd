"""Decoded data on disk: one folder per entry, with values that are memory-mapped and a bundle of everything else.

An entry is keyed by the content that it was decoded from, and stores the digest of its own content. Values that have
not changed since they were written are trusted. Otherwise the digest is computed again, and an entry that does not
match it is decoded again.
"""

import contextlib
import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray

from softkin import SoftkinError
from softkin._io import bundles, cache, files
from softkin.lab.data.labelled import Content, Labelled

FORMAT = 3  # version of the entries and of everything that affects decoding
IN_MEMORY = 2**30  # bytes: larger selections of rows are written to a file
CHUNK = 2**24  # bytes read or copied at a time

VALUES, ABOUT = "values.npy", "about.safetensors"


def open_or_build(key: str, source: str, make: Callable[[], Content]) -> Labelled:
    """The entry of this key; ``make`` decodes it if there is no intact one."""
    name = files.sha256(f"{FORMAT} {key}".encode())
    path = cache.made("decoded") / name
    entry = _open(path, source)
    if entry is not None:
        return entry
    with cache.locked(path.with_name(f"{name}.lock")):
        entry = _open(path, source)  # another process may have built it while we waited
        if entry is None:
            _build(path, make())
            entry = _open(path, source)
    if entry is None:
        raise SoftkinError(f"{path} was damaged right after it was written; is the disk full or failing?")
    return entry


def keep(content: Content, source: str) -> Labelled:
    """Store content that is known only after reading; the key is the digest of the content itself."""
    decoded = cache.made("decoded")
    with _building(decoded / f"object-{os.getpid()}-{threading.get_ident()}") as temporary:
        path = decoded / _write(temporary, content)
        if _open(path, source) is None:
            _put(temporary, path)
    entry = _open(path, source)
    if entry is None:
        raise SoftkinError(f"{path} was damaged right after it was written; is the disk full or failing?")
    return entry


def rows_of(values: NDArray[Any], rows: NDArray[np.int64], digest: str) -> NDArray[Any]:
    """``values[rows]`` as a view if the rows are consecutive, else as a copy, memory-mapped if it is large."""
    if len(rows) and len(rows) == rows[-1] - rows[0] + 1 and bool((np.diff(rows) == 1).all()):
        return values[rows[0] : rows[-1] + 1]
    row_bytes = int(np.prod(values.shape[1:], dtype=np.int64)) * values.itemsize
    if row_bytes * len(rows) <= IN_MEMORY:
        return np.ascontiguousarray(values[rows])
    step = max(1, CHUNK // max(1, row_bytes))
    chunks = (values[rows[start : start + step]] for start in range(0, len(rows), step))
    kept = open_or_build(f"rows {digest}", "", lambda: Content(np.zeros(len(rows), np.int64), [], "features", chunks))
    return kept.values


def _build(path: Path, content: Content) -> None:
    with _building(path) as temporary:
        _write(temporary, content)
        cache.remove(path)
        _put(temporary, path)


@contextlib.contextmanager
def _building(path: Path) -> Iterator[Path]:
    """A temporary folder to write in, which is always removed afterwards."""
    temporary = cache.workplace(path, "building")
    try:
        yield temporary
    except OSError as error:
        raise SoftkinError(cache.unwritable(path.parent, error)) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _put(temporary: Path, path: Path) -> None:
    try:
        os.rename(temporary, path)
    except OSError:
        if not path.is_dir():  # without locks, another process may have been first
            raise


def _write(folder: Path, content: Content) -> str:
    """Write both files of an entry, sync them to disk, and return the digest of the content."""
    rows, seen, shape, dtype = len(content.labels), 0, None, None
    whole = hashlib.sha256()
    with (folder / VALUES).open("wb") as file:
        for chunk in content.chunks:
            if shape is None:
                shape, dtype = (rows, *chunk.shape[1:]), chunk.dtype
                _room(folder, shape, dtype)
                header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
            if chunk.shape[1:] != shape[1:] or chunk.dtype != dtype:
                raise SoftkinError(f"all samples must have one shape, got {chunk.shape[1:]} after {shape[1:]}.")
            piece = np.ascontiguousarray(chunk).reshape(-1).data.cast("B")
            whole.update(piece)
            file.write(piece)
            seen += len(chunk)
        _flush(file)
    if shape is None or seen != rows:
        raise SoftkinError(f"there must be a sample for each label, got {seen} samples for {rows} labels.")
    _close(whole, content, shape, np.dtype(dtype))
    about = {
        "class_names": content.class_names,
        "kind": content.kind,
        "peak": content.peak,
        "digest": whole.hexdigest(),
        "values": cache.stamp(folder / VALUES),
    }
    tensors = {"labels": torch.from_numpy(np.array(content.labels, dtype=np.int64))}
    if content.texts is not None:  # not in the description, whose size safetensors limits
        texts = json.dumps(content.texts, ensure_ascii=False).encode("utf-8", "surrogatepass")
        tensors["texts"] = torch.frombuffer(bytearray(texts), dtype=torch.uint8)
    bundles.write(folder / ABOUT, about, tensors)
    return whole.hexdigest()


def _room(folder: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    needed = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise SoftkinError(
            f"decoding needs {needed / 2**30:.1f} GiB in {cache.folder()}, where {free / 2**30:.1f} GiB are free; set "
            "SOFTKIN_CACHE to a folder with more room, or pass a smaller size."
        )


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _close(whole: Any, content: Content, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Add everything but the values to the digest, after the values."""
    whole.update(content.labels.astype("<i8").tobytes())
    about = [content.kind, content.class_names, content.peak, content.texts, list(shape), dtype.str]
    whole.update(json.dumps(about).encode())


def _open(path: Path, source: str) -> Labelled | None:
    """The entry, or None if it is missing or damaged."""
    try:
        about, tensors = bundles.read(path / ABOUT, "an entry")
        stamp = cache.stamp(path / VALUES)
        # Copy-on-write avoids torch's warning, but the kernel grants it only if memory could hold the copy.
        mode: Any = "c" if stamp[0] <= IN_MEMORY else "r"
        values = np.load(path / VALUES, mmap_mode=mode, allow_pickle=False)
        labels = tensors["labels"].numpy()
        texts = None
        if "texts" in tensors:
            texts = files.parse_json(tensors["texts"].numpy().tobytes(), path, "texts")
        if stamp != about["values"]:
            content = Content(labels, about["class_names"], about["kind"], _pieces(values), texts, about["peak"])
            whole = hashlib.sha256()
            for piece in content.chunks:
                whole.update(piece.reshape(-1).data.cast("B"))
            _close(whole, content, values.shape, values.dtype)
            if whole.hexdigest() != about["digest"]:
                return None
            with contextlib.suppress(SoftkinError):  # a cache filled by others may be read-only
                bundles.write(path / ABOUT, {**about, "values": stamp}, tensors)
    except (SoftkinError, OSError, ValueError, KeyError, TypeError, AttributeError, EOFError):
        return None
    return Labelled(
        values=values,
        labels=labels.astype(np.int64, copy=False),
        class_names=about["class_names"],
        source=source,
        kind=about["kind"],
        ids=np.arange(len(labels), dtype=np.int64),
        digest=about["digest"],
        texts=texts,
        peak=about["peak"],
    )


def _pieces(values: NDArray[Any]) -> Iterator[NDArray[Any]]:
    step = max(1, CHUNK // max(1, values[:1].nbytes))
    for start in range(0, len(values), step):
        yield np.ascontiguousarray(values[start : start + step])
