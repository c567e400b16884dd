"""Word vectors of any size, converted once into a memory-mapped file of the user's cache.

The file holds a header, the vectors as float32, a checksum for each vector, the positions of the words, the words'
sorted checksums, the rows that they belong to, and the words. A look-up finds a word by its checksum, compares its
letters and verifies the checksum of its row. It touches only a few pages of a file of any size.
"""

import contextlib
import itertools
import json
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from softkin import SoftkinError
from softkin._io import cache, files, turns
from softkin.word_vectors.vector_files import read_blocks

MAGIC = b"softkin word vectors 1\n"
HEADER = 4096  # bytes, so that the vectors begin at a page boundary
PARTS = (("checksums", "<u4"), ("offsets", "<i8"), ("hashes", "<u4"), ("rows", "<i8"))


class VectorStore:
    """Words and vectors in a memory-mapped file, with look-up of rows by number and of numbers by word.

    Args:
        path: A file written by ``convert``.

    Raises:
        SoftkinError: The file is not such a file, or it is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        size = files.require_regular(path)
        with files.reading(path, "converted word vectors", hint="delete it, and it is made again"):
            with files.open_file(path) as file:
                head = file.read(HEADER)
            text = head[len(MAGIC) :].rstrip(b"\0")
            about, _, checksum = text.rpartition(b"\n")
            if not head.startswith(MAGIC) or int(checksum, 16) != zlib.crc32(about):
                raise SoftkinError(f"{path} is damaged: delete it, and it is made again.")
            header = json.loads(about)
            self.count, dimension = int(header["count"]), int(header["dimension"])
            self._index_checksum = int(header["index"])
            if size != int(header["size"]):
                raise SoftkinError(f"{path} was cut off: delete it, and it is made again.")
            whole = np.memmap(path, mode="r", dtype=np.uint8)
            end = HEADER + 4 * self.count * dimension
            self.vectors: NDArray[np.float32] = whole[HEADER:end].view("<f4").reshape(self.count, dimension)
            self._index_start, place = _aligned(end), _aligned(end)
            parts: dict[str, NDArray[Any]] = {}
            for name, dtype in PARTS:
                length = (self.count + (name == "offsets")) * np.dtype(dtype).itemsize
                parts[name] = whole[place : place + length].view(dtype)
                place = _aligned(place + length)
            self._checksums, self._offsets = parts["checksums"], parts["offsets"]
            self._hashes, self._rows = parts["hashes"], parts["rows"]
            self._words, self._whole = whole[place:], whole
        self._verified = False

    def row(self, word: str) -> int | None:
        """The row number of a word; None if the word is not in the file."""
        key = word.encode("utf-8", "surrogatepass")
        hash_of_word = np.uint32(zlib.crc32(key))
        first, last = (int(np.searchsorted(self._hashes, hash_of_word, side=side)) for side in ("left", "right"))
        for place in range(first, last):
            row = int(self._rows[place])
            if 0 <= row < self.count and self._word(row) == key:
                return row
        if not self._verified:  # verify once before calling a word unknown
            if zlib.crc32(self._whole[self._index_start :].data) != self._index_checksum:
                raise SoftkinError(f"{self.path} is damaged: delete it, and it is made again.")
            self._verified = True
        return None

    def take(self, rows: Sequence[int]) -> NDArray[np.float32]:
        """Rows by number, each verified."""
        taken = np.ascontiguousarray(self.vectors[list(rows)])
        for row, vector in zip(rows, taken, strict=True):
            if zlib.crc32(vector) != int(self._checksums[row]):
                raise SoftkinError(f"{self.path} is damaged: delete it, and it is made again.")
        return taken

    def _word(self, row: int) -> bytes:
        return self._words[int(self._offsets[row]) : int(self._offsets[row + 1])].tobytes()

    def words(self) -> Iterator[str]:
        """All words, in the order of the file."""
        content = self._words.tobytes()
        offsets = self._offsets.tolist()
        return (content[start:end].decode("utf-8") for start, end in itertools.pairwise(offsets))


def opened(path: Path, *, progress: bool | None = None) -> VectorStore:
    """The store for a file of word vectors; the first use converts it, in one process while others wait."""
    digest = cache.content_digest(path, [path], progress=progress)
    folder = cache.made("word-vectors")
    target = folder / f"{digest}.vectors"
    with contextlib.suppress(SoftkinError):
        return VectorStore(target)
    with cache.locked(folder / f"{digest}.lock"):
        with contextlib.suppress(SoftkinError):  # another process was faster
            return VectorStore(target)
        turns.sweep(folder)
        convert(path, target, progress=progress)
        return VectorStore(target)


def convert(path: Path, target: Path, *, progress: bool | None = None) -> None:
    """Write the store of ``path`` to ``target`` atomically."""
    temporary = target.with_name(turns.unfinished_name(target.stem))
    try:
        with open(temporary, "xb") as file:
            _write(path, file, progress)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise SoftkinError(cache.unwritable(target, error)) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    files.sync_folder(target.parent)


def _write(path: Path, file: IO[bytes], progress: bool | None) -> None:
    file.write(bytes(HEADER))
    checksums: list[int] = []
    hashes: list[int] = []
    lengths: list[int] = []
    letters: list[bytes] = []
    dimension = 0
    seen: set[str] = set()
    for words, rows in read_blocks(path, progress=progress):
        dimension = rows.shape[1]
        # Of equal words the first is kept: a damaged index can then hide a word, but never give it another's vector.
        first = [place for place, word in enumerate(words) if word not in seen and not seen.add(word)]  # type: ignore[func-returns-value]
        if len(first) < len(words):
            words, rows = [words[place] for place in first], rows[first]
        content = np.ascontiguousarray(rows, dtype="<f4")
        file.write(content.data)
        checksums += [zlib.crc32(row) for row in content]
        encoded = [word.encode("utf-8") for word in words]
        hashes += [zlib.crc32(word) for word in encoded]
        lengths += [len(word) for word in encoded]
        letters.append(b"".join(encoded))
    if not checksums:
        raise SoftkinError(f"{path} holds no word vectors.")
    hash_array = np.array(hashes, dtype="<u4")
    order = np.argsort(hash_array, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype("<i8")
    parts = (np.array(checksums, dtype="<u4"), offsets, hash_array[order], order.astype("<i8"))
    index = 0
    _pad(file)
    for part in parts:
        index = zlib.crc32(part.data, index)
        file.write(part.data)
        padding = bytes(_aligned(file.tell()) - file.tell())
        index = zlib.crc32(padding, index)
        file.write(padding)
    for chunk in letters:
        index = zlib.crc32(chunk, index)
        file.write(chunk)
    about = json.dumps({"count": len(checksums), "dimension": dimension, "index": index, "size": file.tell()}).encode()
    file.seek(0)
    file.write(MAGIC + about + b"\n" + f"{zlib.crc32(about):08x}".encode())


def _pad(file: IO[bytes]) -> None:
    file.write(bytes(_aligned(file.tell()) - file.tell()))


def _aligned(place: int) -> int:
    return -(-place // 64) * 64
