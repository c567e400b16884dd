"""Tables of any format, read once: columns with their kinds, and rows in bounded blocks.

``open_table`` is the only way from a file of rows to Python. Predictions, data sets, attached texts and images, trees
and matrices are functions of a ``Table``, so a format that is registered here works in all of them. What the columns
mean is decided by their names in ``roles``. This module imports nothing heavy: the command line lists its formats.
"""

import codecs
import csv
import gzip
import io
import json
import re
import sys
import tempfile
import warnings
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from softkin import SoftkinError
from softkin._core.names import Registry
from softkin._io import escape, files

if TYPE_CHECKING:
    from numpy.typing import NDArray

ColumnKind: TypeAlias = Literal["number", "text", "list", "mapping", "other"]
"""Numbers, texts, lists, numbers by name, or anything else, such as the bytes of an image"""

HEAD = 100  # rows that show what a column holds
BLOCK = 2**14  # rows read at a time where nobody says how many
LINE = 2**26  # maximum bytes per line of text: the maximum number of classes at 500 letters each
SPOOLED = 2**26  # bytes of standard input and unpacked files that are kept in memory; more go to disk
EMPTY = ("", "#N/A", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null", "None")  # cells that hold nothing
SUMMARIES = frozenset((
    "mean", "means", "average", "averages", "avg", "total", "totals", "grand total", "sum", "sums", "median", "std",
    "stdev", "std dev", "sd", "min", "max", "count", "n", "mittelwert", "durchschnitt", "ø", "summe", "gesamt",
    "gesamtsumme", "ergebnis", "moyenne", "somme", "media", "promedio", "suma", "gemiddelde", "totaal", "合计", "总计",
    "平均", "平均值",
))  # fmt: skip
"""What the row is called that a spreadsheet adds below its others"""
DELIMITERS = (",", "\t", ";", "|")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")  # bytes that no text holds


class Rows(Protocol):
    """Consecutive rows of some columns."""

    def __len__(self) -> int: ...

    def numbers(self, columns: Sequence[str]) -> "NDArray[Any]":
        """(n, columns) numbers; every cell must hold one."""

    def vectors(self, column: str, names: Sequence[str] | None, width: int) -> "NDArray[Any]":
        """(n, width) numbers of a column of lists, or of numbers by name in the order of ``names``."""

    def filled(self, column: str) -> "NDArray[Any] | list[Any]":
        """(n,) numbers or texts; every cell must hold one."""

    def cells(self, column: str) -> list[Any]:
        """(n,) cells as plain Python; an empty one is None."""

    def where(self, row: int) -> str:
        """The file and the place of a row of this block, for messages."""

    def written(self, column: str) -> list[str]:
        """(n,) cells as the text of a CSV file; an empty one is empty."""

    def empty(self, column: str, words: Collection[str]) -> list[int]:
        """The rows whose cell holds nothing, or one of the words that stand for nothing."""

    def some(self, rows: Sequence[int]) -> "Rows":
        """Some of the rows, which keep their places."""


@dataclass(frozen=True, eq=False)
class Table:
    """An opened table. Its columns are known at once; its rows are read in blocks, as often as needed."""

    name: str
    columns: Mapping[str, ColumnKind]
    read: Callable[[int, Sequence[str], Sequence[str]], Iterator[Rows]]
    """A function from (rows in a block, columns of numbers, columns beside them) to all rows, from the first on.

    Where a format writes all cells as text, the columns beside the numbers stay text.
    """
    num_rows: int | None = None
    """None if it is known only after reading the whole table"""
    size: int | None = None
    """Bytes of a packed file, to compare with what it claims to hold; None if it is not packed"""
    class_names: Mapping[str, list[str]] = field(default_factory=dict)
    """The names of the classes by the column that numbers them, as Hugging Face keeps them; "" is any column"""
    sample: Callable[[Sequence[str]], dict[str, list[Any]]] | None = None
    """The cells of the first rows, where opening the table has read them already"""
    has_header: bool = True
    """Whether the file names its columns; if not, they are called "column 1" and so on"""
    assumed: tuple[str, ...] = ()
    """What was inferred about the file itself, a sentence each"""
    line_of: Callable[[int], int] | None = None
    """A function from a row, counted from 0, to the line of the file that an editor shows; None for other formats"""
    row_of: Callable[[Any], Any] | None = None
    """A function from a row that is read, or an array of them, to the row of the file, where some are left out"""
    delimiter: str = ","
    """What separates cells, where the file is text"""
    point: str = "."
    """The decimal mark"""
    begins: str = ""
    """What stands before the header for a spreadsheet: the mark of an encoding, and a line such as ``sep=;``"""
    as_written: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The cells of the first rows as they stand in the file, where it is text"""

    def place(self, row: int) -> str:
        """The place of a row, counted from 0, for messages: the line that an editor shows, if the format has lines."""
        row = row if self.row_of is None else self.row_of(row)
        return counted(row) if self.line_of is None else f"line {self.line_of(row)}"

    def of_kind(self, *kinds: ColumnKind) -> list[str]:
        """The columns of these kinds, in order."""
        return [column for column, kind in self.columns.items() if kind in kinds]

    def head(self, columns: Sequence[str]) -> dict[str, list[Any]]:
        """The cells of the first rows."""
        if self.sample is not None or not columns:
            return self.sample(columns) if self.sample is not None else {}
        numbers = [column for column in columns if self.columns[column] == "number"]
        with files.reading(self.name, "a table"):
            rows = next(self.read(HEAD, numbers, [column for column in columns if column not in numbers]), None)
            return {column: [] if rows is None else rows.cells(column)[:HEAD] for column in columns}

    def cells(self, *columns: str) -> Iterator[tuple[Any, ...]]:
        """The cells of some columns, row after row."""
        with files.reading(self.name, "a table"):
            for rows in self.read(BLOCK, (), columns):
                yield from zip(*(rows.cells(column) for column in columns), strict=True)

    def names_of(self, column: str | None) -> list[str] | None:
        """The class names that the file keeps for a column of labels."""
        return self.class_names.get(column or "", self.class_names.get(""))

    def claim(self, numbers: int) -> None:
        """Refuse a packed file that claims far more numbers per row than its size can hold."""
        if self.num_rows is not None and self.size is not None:
            files.unpacked_within(self.size, self.num_rows * numbers * 8, self.name)


def is_empty(cell: Any, words: Collection[str]) -> bool:
    """Whether a cell holds nothing, or one of the words that stand for nothing.

    Example:
        >>> is_empty(None, ()), is_empty(float("nan"), ()), is_empty(" NA ", ("NA",)), is_empty(0, ("",))
        (True, True, True, False)
    """
    return cell is None or cell != cell or (isinstance(cell, str) and cell.strip() in words)


def summary_word(cells: Sequence[Any]) -> bool:
    """Whether the first cell that is filled is a word such as "Mean" or "Total"."""
    first = next((cell for cell in cells if not is_empty(cell, EMPTY)), None)
    return isinstance(first, str) and first.strip().rstrip(":.").casefold() in SUMMARIES


def summaries_below(rows: Sequence[Sequence[Any]], are_numbers: Sequence[bool]) -> int:
    """How many of the last rows sum up those above: they begin with such a word, which cannot be a sample's.

    It cannot if it stands in a column of numbers, if the row lacks a cell that all the first rows have, or if the
    numbers beside it are the means or sums of their columns.

    Args:
        rows: The cells of all rows.
        are_numbers: Whether each column is one of numbers.
    """
    count = 0
    while count < min(len(rows) - 1, HEAD) and summary_word(rows[-1 - count]):
        count += 1
    above = rows[: len(rows) - count]
    filled = [
        k for k in range(len(are_numbers)) if all(len(row) > k and row[k] not in (None, "") for row in above[:HEAD])
    ]
    while count:
        row = rows[len(rows) - count]
        place = next(k for k, cell in enumerate(row) if not is_empty(cell, EMPTY))
        lacking = any(k >= len(row) or is_empty(row[k], EMPTY) for k in filled)
        numbers = [k for k in filled if are_numbers[k] and k < len(row)]
        if place >= len(are_numbers):
            return 0
        if are_numbers[place] or lacking or (numbers and all(_sums_up(row[k], [r[k] for r in above]) for k in numbers)):
            return count
        count -= 1
    return 0


def _sums_up(cell: Any, column: Sequence[Any]) -> bool:
    """Whether a number is the sum or the mean of a column, up to rounding."""
    try:
        value, total = (sum(float(str(one).replace(",", ".")) for one in part) for part in ([cell], column))
    except ValueError:
        return False
    return any(abs(value - one) <= 0.01 * max(abs(one), 0.1) for one in (total, total / len(column)))


def counted(row: int) -> str:
    """The place of a row in what has no lines, for messages."""
    return f"row {row} (counted from 0)"


def cell_text(cell: Any) -> str:
    """A cell of any format as the text of a CSV file; lists and objects as JSON.

    Example:
        >>> cell_text(None), cell_text(0.5), cell_text([1, 2]), cell_text("=1+1")
        ('', '0.5', '[1, 2]', "'=1+1")
    """
    if cell is None or isinstance(cell, str):
        return escape.csv_cell(cell or "")
    return json.dumps(cell, ensure_ascii=False, default=str) if isinstance(cell, list | dict) else str(cell)


# Formats


@dataclass(frozen=True)
class Format:
    """How one format of tables is recognised and opened."""

    suffixes: tuple[str, ...]
    opener: str
    """module:function; it takes an open file and its name for messages, and returns a ``Table``"""
    signature: bytes | None = None
    """The bytes at the beginning of such files, if they have any in common"""

    def open(self, file: IO[bytes], name: str) -> Table:
        """The table in a file."""
        module, _, function = self.opener.partition(":")
        opened: Table = getattr(import_module(module), function)(file, name)
        return opened


FORMATS: Registry[Format] = Registry("format of tables")
FORMATS.add("parquet", Format((".parquet", ".pq"), "softkin._io.arrow:open_parquet", b"PAR1"))
FORMATS.add("csv", Format((".csv",), "softkin._io.separated:open_csv"))
FORMATS.add("tsv", Format((".tsv", ".tab"), "softkin._io.separated:open_tsv"))
FORMATS.add("jsonl", Format((".jsonl", ".ndjson"), "softkin._io.objects:open_jsonl"))
FORMATS.add("json", Format((".json",), "softkin._io.objects:open_json"))
FORMATS.add("arrow", Format((".feather", ".arrow", ".ipc"), "softkin._io.arrow:open_arrow", b"ARROW1"))
FORMATS.add("xlsx", Format((".xlsx", ".xlsm"), "softkin._io.workbooks:open_xlsx"))


def suffix_of(path: str | Path) -> str:
    """The suffix that names a file's format, in lower case and without one such as ``.gz``."""
    path = Path(path)
    return (Path(path.stem) if path.suffix.lower() in PACKED else path).suffix.lower()


def form_of(path: str | Path) -> str | None:
    """The format of tables that a file's suffix names."""
    suffix = suffix_of(path)
    return next((name for name, known in FORMATS.items() if suffix in known.suffixes), None)


def recognised(start: bytes) -> str | None:
    """The format of tables that a file's first bytes show."""
    for name, known in FORMATS.items():
        if known.signature is not None and start.startswith(known.signature):
            return name
    with suppress(UnicodeDecodeError):
        text = start.decode(encoding_of(start), "ignore" if len(start) >= 4096 else "strict").lstrip("\ufeff")
        line = text.partition("\n")[0]
        if line.lstrip().startswith("{"):
            return "jsonl"
        if text.lstrip().startswith("["):
            return "json"
        if "\t" in line:
            return "tsv"
        if any(mark in line for mark in DELIMITERS) or are_blank_separated(line):
            return "csv"
    return None


def open_table(path: str | Path, *, what: str = "a table") -> Table:
    """Open a table of any known format; "-" is standard input, and the file may be packed, as ``.csv.gz``.

    Raises:
        SoftkinError: There is no such file, it is damaged, or it has no known format.
    """
    file, name = open_stream(path, what)
    try:
        form = form_of(path) or recognised(start_of(file))
        if form is None:
            raise SoftkinError(f"{name} has no known format; those of tables are {', '.join(FORMATS)}.")
        opened = opened_as(form, file, name)
    except BaseException:
        file.close()
        raise
    weakref.finalize(opened, file.close)
    for sentence in opened.assumed:
        warnings.warn(sentence, files.Assumption, stacklevel=2)
    return opened


def opened_as(form: str, file: IO[bytes], name: str) -> Table:
    """The table of a known format in an open file, which must name each column once."""
    with files.reading(name, form):
        return FORMATS[form].open(file, name)


def named_once(columns: Sequence[str], name: str) -> None:
    """Refuse a header that is too wide or names a column twice."""
    files.within("classes", len(columns), f"{name}, with a column for each class,")
    seen: set[str] = set()
    for column in columns:
        if column in seen:
            raise SoftkinError(f"{name} must name each column once, but `{column}` appears twice.")
        seen.add(column)


# Streams


def open_stream(path: str | Path, what: str) -> tuple[IO[bytes], str]:
    """A file, or standard input for "-", that can be read from any place, and its name in messages.

    What is packed by gzip, bzip2 or xz, or alone in a zip archive, is unpacked within the limits.
    """
    if str(path) == "-":
        file, name = _spooled(sys.stdin.buffer, "standard input", what), "standard input"
    else:
        file, name = files.open_file(path), str(path)
    start = start_of(file)
    packing = next((known for known, (mark, _) in PACKINGS.items() if start.startswith(mark)), None)
    may_be_zip = str(path) == "-" or Path(path).suffix.lower() == ".zip"
    if packing is None and not (may_be_zip and start.startswith(ZIP)):
        return file, name
    try:
        with files.reading(name, packing or "zip"):
            size = file.seek(0, io.SEEK_END)
            file.seek(0)
            unpacked = _member(file, name) if packing is None else PACKINGS[packing][1](file)
            if unpacked is None:
                return file, name
            whole = _spooled(unpacked, name, what, size)
    except BaseException:
        file.close()
        raise
    file.close()
    return whole, name


PACKINGS: dict[str, tuple[bytes, Callable[[Any], Any]]] = {
    "gzip": (b"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file, mode="rb")),
    "bzip2": (b"BZh", lambda file: import_module("bz2").BZ2File(file)),
    "xz": (b"\xfd7zXZ\0", lambda file: _Xz(file)),
}
"""The bytes at the beginning of what is packed, and what unpacks it, by the packing"""
PACKED = (".gz", ".bz2", ".xz", ".zip")
ZIP = b"PK\x03\x04"


def _member(file: IO[bytes], name: str) -> IO[bytes] | None:
    """The only file in a zip archive, if it is a table; None if this is the archive of a format, such as .npz."""
    archive = files.open_zip(file, name)
    members = [
        one for one in archive.namelist() if not one.endswith("/") and not one.startswith(("__MACOSX/", ".", "xl/"))
    ]
    tables = [one for one in members if form_of(one) is not None]
    if len(tables) == len(members) > 1:
        raise SoftkinError(
            f"{name} must hold one table, it holds {len(tables)}, {', '.join(tables[:3])}; unpack one of them."
        )
    file.seek(0)
    if not len(tables) == 1 == len(members):
        return None
    if archive.getinfo(tables[0]).compress_type == 14:  # LZMA, whose memory has no limit here
        raise SoftkinError(
            f"{name} is packed by LZMA inside a zip archive; unpack it, or pack it again as .zip or .xz."
        )
    return archive.open(tables[0])


class _Xz:
    """The content of an .xz file, which may ask for no more memory than is usual."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.part = file, self._part()

    def _part(self) -> Any:
        return import_module("lzma").LZMADecompressor(memlimit=2**27)  # twice what `xz -9` takes

    def read(self, count: int) -> bytes:
        """At most so many bytes; none at the end."""
        content = b""
        while not content:
            more = b""
            if self.part.eof:
                more = self.part.unused_data or self.file.read(2**16)
                if not more.strip(b"\0"):
                    return b""
                self.part = self._part()
            elif self.part.needs_input and not (more := self.file.read(2**16)):
                raise EOFError("it ends too early")
            content = self.part.decompress(more, count)
        return content


def start_of(file: IO[bytes]) -> bytes:
    """The first bytes of a file, which is rewound."""
    start = file.read(4096)
    file.seek(0)
    return start


def _spooled(stream: Any, name: str, what: str, packed: int | None = None) -> IO[bytes]:
    """A seekable copy of a stream, as most formats need; it is on disk if it is large."""
    file = tempfile.SpooledTemporaryFile(max_size=SPOOLED)  # noqa: SIM115  closed when its reader is forgotten
    try:
        with files.reading(name, what):
            while chunk := stream.read(2**20):
                file.write(chunk)
                if packed is None:
                    files.within("bytes", file.tell(), name)
                else:
                    files.unpacked_within(packed, file.tell(), name)
        if file.tell() == 0:
            raise SoftkinError(f"{name} must hold {what}, it is empty.")
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file


# Text


def encoding_of(start: bytes) -> str:
    """UTF-16 by its mark or the NULs of its letters; else UTF-8, with or without a mark; where impossible cp1252."""
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    first, second = start[::2].count(0), start[1::2].count(0)
    if max(first, second) > len(start) / 8 and not min(first, second):
        return "utf-16-le" if second else "utf-16-be"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)  # the last letter may be cut
    except UnicodeDecodeError:
        return "utf-8-sig" if _CONTROL.search(start) else "cp1252"
    return "utf-8-sig"


def delimiter_of(line: str, usual: str = ",") -> str:
    """What separates the cells of a line: the mark that occurs most outside quotes, or the usual one."""
    outside = "".join(line.split('"')[::2])
    counts = {mark: outside.count(mark) for mark in (usual, *DELIMITERS)}
    if not any(counts.values()):
        return " " if are_blank_separated(line) else usual
    return max(counts, key=counts.__getitem__)


def are_blank_separated(line: str) -> bool:
    """Whether a line is numbers, or names in quotes, with single blanks between them, as numpy and R write them.

    Example:
        >>> are_blank_separated("0.25 7.5e-01 1"), are_blank_separated("hot dog"), are_blank_separated("0.25")
        (True, False, False)
        >>> are_blank_separated('"hot dog" "owl"')
        True
    """
    if re.fullmatch(r'"[^"]*"( "[^"]*")+', line.strip()):
        return True
    cells = line.strip().split(" ")
    return len(cells) > 1 and all(_NUMBER.fullmatch(cell) for cell in cells)


def read_text(path: str | Path, what: str) -> str:
    """The text of a small file in UTF-8 or UTF-16."""
    with files.reading(path, "UTF-8 text", hint="save it in that encoding"):
        content = files.read_bytes(path, what)
        encoding = encoding_of(content)
        return content.decode("utf-8" if encoding == "cp1252" else encoding)  # refused: nobody could be told


def read_lines(path: str | Path, what: str) -> list[tuple[int, str]]:
    """(number, content) of the lines of a small text file that are not empty."""
    return [(place, line) for place, line in enumerate(read_text(path, what).splitlines(), 1) if line.strip()]


def split_lines(lines: Sequence[str]) -> list[list[str]]:
    """The cells of some lines of text, separated by what separates the first."""
    return list(csv.reader(lines, delimiter=delimiter_of(lines[0]))) if lines else []


def read_cells(path: str | Path, what: str) -> list[tuple[int, list[str]]]:
    """(line number, cells as texts) of a small table, its header included if it has one; empty lines are left out.

    A .txt file may separate cells by spaces. The header of a format with named columns is its first line.
    """
    form = form_of(path)
    if form not in (None, "csv", "tsv"):
        table = open_table(path, what=what)
        columns = list(table.columns)
        rows = enumerate(table.cells(*columns), start=2)
        return [(1, columns), *((place, ["" if cell is None else str(cell) for cell in row]) for place, row in rows)]
    files.require_regular(path)
    text = read_text(path, what)
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = delimiter_of(first, "\t" if form == "tsv" else ",")
    if form is None and delimiter not in first:
        delimiter = " "
    with files.reading(path, what):
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        return [(reader.line_num, [escape.from_csv_cell(cell) for cell in line]) for line in reader if any(line)]
