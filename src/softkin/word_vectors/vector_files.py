"""Read files of word vectors in blocks: GloVe, word2vec text and binary, fastText, Wikipedia2Vec.

Text is cut into blocks of whole lines, which pyarrow parses at once. A block that pyarrow refuses (a word with spaces,
a damaged number) is read line by line, so that errors have a line number.
"""

import bz2
import gzip
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from softkin import SoftkinError
from softkin._core import checks
from softkin._core.progress import track
from softkin._io import files

BLOCK = 2**24  # bytes of text, or of vectors, at a time
FASTTEXT = b"\xba\x16\x4f\x2f"  # the signature of fastText's own models, which hold more than words
LONGEST_WORD = 2**16
_NUMBERS = frozenset(b"0123456789.eE+-naifNAIF \t\r\n")

Block = tuple[list[str], NDArray[np.float32]]


def read_blocks(path: Path, *, progress: bool | None = None) -> Iterator[Block]:
    """Words and their vectors in blocks of some thousands.

    Raises:
        SoftkinError: The file is truncated or of no known format; for text the message has the line number.
    """
    position = _Position()
    try:
        with _opened(path) as file:
            blocks = _parsed(path, _Bounded(file, path), position)
            yield from track(blocks, f"reading {path.name}", show=progress)
    except EOFError as error:
        raise SoftkinError(f"{path} was cut off after line {position.line}: get the file again.") from error
    except (OSError, zlib.error) as error:  # gzip, bz2 and zstd report damage this way
        raise SoftkinError(f"{path} could not be read: {files.cause(error)}.") from error


class _Position:
    line = 0
    """Number of complete lines read"""


class _Bounded:
    """A file that refuses to unpack to far more than its size."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._path = file, path
        self._size, self._read = files.require_regular(path), 0

    def read(self, count: int) -> bytes:
        """The next ``count`` bytes, or what is left."""
        content = self._file.read(count)
        self._read += len(content)
        files.unpacked_within(self._size, self._read, str(self._path))
        return content


def _opened(path: Path) -> Any:
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return gzip.open(path, "rb")
    if suffix == ".bz2":
        return bz2.open(path, "rb")
    if suffix in (".zst", ".zstd"):
        import pyarrow as pa

        return pa.CompressedInputStream(pa.OSFile(str(path), "rb"), "zstd")
    return open(path, "rb")


def _parsed(path: Path, file: _Bounded, position: _Position) -> Iterator[Block]:
    start = file.read(BLOCK)
    if start.startswith(FASTTEXT):
        raise SoftkinError(f"{path} is a fastText model; give the .vec file beside it, which holds its words.")
    start = start.removeprefix(b"\xef\xbb\xbf")
    head, newline, rest = start.partition(b"\n")
    parts = head.strip().split(b" ")
    declared = None
    if newline and len(parts) == 2 and all(part.isdigit() and len(part) < 12 for part in parts):
        declared, dimension = int(parts[0]), int(parts[1])
        position.line = 1
        if not 0 < dimension < 10**6:
            raise SoftkinError(f"{path}, line 1: vectors of {dimension} numbers are announced, and none are so long.")
        if _is_binary(rest):
            yield from _binary(path, file, rest, declared, dimension)
            return
        start = rest
    else:
        text = head.decode("utf-8", "replace").rstrip("\r\n ")
        dimension = len(text.split(" ")) - 1
        if start and dimension < 1 and "\ufffd" in text:
            raise SoftkinError(f"{path}, after line 0: not UTF-8 text.")
        if start and dimension < 1:
            raise SoftkinError(
                f"{path}, line 1 must hold a word and its numbers, separated by spaces, got {text[:40]!r}."
            )
    count, ended = 0, True
    for block in _lines(file, start):
        ended = block.endswith(b"\n")
        words, rows = _fast(block, dimension) or _slow(path, block, dimension, position.line)
        position.line += len(words)
        count += len(words)
        yield words, rows
    if declared is not None and count != declared:
        raise SoftkinError(
            f"{path} announces {declared} vectors in its first line and holds {count}: it was cut off, get it again."
        )
    if not ended:
        warnings.warn(
            f"the last line of {path.name} does not end; if the file was cut off, the last vector is wrong.",
            stacklevel=6,
        )


def _is_binary(rest: bytes) -> bool:
    """Whether the first word is followed by binary numbers rather than digits."""
    _, space, numbers = rest[:LONGEST_WORD].partition(b" ")
    return bool(space) and not _NUMBERS.issuperset(numbers.partition(b"\n")[0][:64])


def _lines(file: _Bounded, start: bytes) -> Iterator[bytes]:
    """Blocks of whole lines; the last line may lack its end."""
    rest = start
    while True:
        more = file.read(BLOCK)
        if not more:
            break
        cut = more.rfind(b"\n") + 1
        if cut:
            yield rest + more[:cut]
            rest = more[cut:]
        else:
            rest += more
            files.within("bytes", len(rest), "a line of word vectors", share=8)
    if rest:
        cut = rest.rfind(b"\n") + 1
        if cut:
            yield rest[:cut]
        if rest[cut:]:
            yield rest[cut:]


def _fast(block: bytes, dimension: int) -> Block | None:
    """Parse a block with pyarrow; None unless every line is plainly a word and ``dimension`` finite numbers."""
    import pyarrow as pa
    from pyarrow import csv

    lines = block.count(b"\n") + (not block.endswith(b"\n"))
    if b" \n" in block or b"\r" in block:
        block = block.replace(b"\r\n", b"\n").replace(b" \n", b"\n")
    names = [str(place) for place in range(dimension + 1)]
    try:
        table = csv.read_csv(
            pa.BufferReader(block),
            read_options=csv.ReadOptions(column_names=names, block_size=max(2**20, len(block) // 4)),
            parse_options=csv.ParseOptions(delimiter=" ", quote_char=False, escape_char=False),
            convert_options=csv.ConvertOptions(
                column_types={name: pa.binary() if name == "0" else pa.float32() for name in names},
                null_values=[],
                strings_can_be_null=False,
            ),
        )
        words = [word.decode("utf-8") for word in table.column(0).to_pylist()]
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    if len(words) != lines or not all(words):
        return None
    rows = np.empty((len(words), dimension), dtype=np.float32)
    for place in range(dimension):
        rows[:, place] = table.column(place + 1).to_numpy()
    return (words, rows) if np.isfinite(rows).all() else None


def _slow(path: Path, block: bytes, dimension: int, before: int) -> Block:
    """Parse a block line by line and name any error; ``before`` is the number of lines already read."""
    words, rows = [], []
    for number, raw in enumerate(block.removesuffix(b"\n").split(b"\n"), start=before + 1):
        try:
            text = raw.decode("utf-8").rstrip("\r\n ")
        except UnicodeDecodeError as error:
            raise SoftkinError(f"{path}, line {number}: not UTF-8 text.") from error
        spaces = text.count(" ")
        word = text[: text.find(" ")] if spaces == dimension else text.rsplit(" ", dimension)[0].rstrip()
        # A line with more spaces than numbers: words may contain spaces (GloVe 840B has ". . ."), numbers may not.
        if spaces < dimension or (spaces > dimension and checks.is_number(word.rsplit(" ", 1)[-1])):
            raise SoftkinError(
                f"{path}, line {number} must hold {dimension} numbers, got {spaces}; was the file cut off there?"
            )
        values = text[len(word) + 1 :].split(" ")[-dimension:]
        for value in values:
            if not checks.is_number(value) or not abs(float(value)) <= float(np.finfo(np.float32).max):
                raise SoftkinError(f"{path}, line {number} must hold finite numbers, got {value[:40]!r}.")
        words.append(word)
        rows.append(np.array([float(value) for value in values], dtype=np.float32))
    return words, np.stack(rows)


def _binary(path: Path, file: _Bounded, rest: bytes, declared: int, dimension: int) -> Iterator[Block]:
    """word2vec's binary format: a word, a space, ``dimension`` little-endian float32, and perhaps a line end."""
    size, read = 4 * dimension, 0
    while read < declared:
        words: list[str] = []
        vectors: list[bytes] = []
        place = 0
        while read < declared:
            space = rest.find(b" ", place, place + LONGEST_WORD)
            if space < 0 or space + 1 + size > len(rest):
                break
            try:
                words.append(rest[place:space].lstrip(b"\n").decode("utf-8"))
            except UnicodeDecodeError as error:
                raise SoftkinError(f"{path}, vector {read + 1}: its word is not UTF-8 text: damaged?") from error
            vectors.append(rest[space + 1 : space + 1 + size])
            place, read = space + 1 + size, read + 1
        if words:
            rows = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(words), dimension).astype(np.float32)
            if not np.isfinite(rows).all():
                bad = int((~np.isfinite(rows)).any(axis=1).argmax())
                raise SoftkinError(f"{path}: the vector of {words[bad][:40]!r} must hold finite numbers, and does not.")
            yield words, rows
        if read == declared:
            return
        more = file.read(max(BLOCK, 2 * size))
        if not more:
            raise SoftkinError(
                f"{path} announces {declared} vectors in its first line and holds {read}: it was cut off, get it again."
            )
        rest = rest[place:] + more
