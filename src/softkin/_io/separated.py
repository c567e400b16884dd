"""Tables of separated values: delimiter, encoding, header and decimal mark are found out from the first lines."""

import ast
import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from softkin import SoftkinError
from softkin._io import escape, roles
from softkin._io.arrow import ArrowRows
from softkin._io.numpy_files import size_of
from softkin._io.tables import (
    EMPTY,
    HEAD,
    LINE,
    SPOOLED,
    ColumnKind,
    Table,
    delimiter_of,
    encoding_of,
    named_once,
    summaries_below,
    summary_word,
)

BLOCK = 2**22  # bytes parsed at a time
TOP = 30  # lines in which titles above a header are looked for
UNIT = 20  # letters of a unit at most
SAMPLED = 2**20  # letters that are looked at to tell numbers from texts
ORANGE_TYPES = frozenset(("", "continuous", "c", "discrete", "d", "string", "s", "time", "t"))
ORANGE_ROLES = frozenset(("", "class", "meta", "ignore", "i", "m"))
SUMMARY = 2**16  # bytes in which the last row ends

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+|inf|infinity)([eE][+-]?\d+)?\s*", re.IGNORECASE)
_COMMA = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*%?\s*")
_THOUSANDS = {
    ".": re.compile(r"\s*[+-]?\d{1,3}([, '\u00a0\u202f]\d{3})+(\.\d+)?\s*"),
    ",": re.compile(r"\s*[+-]?\d{1,3}([. '\u00a0\u202f]\d{3})+(,\d+)?\s*"),
}
"""Numbers whose thousands are marked, by the decimal mark"""
_LIST = re.compile(r"\s*(?:(?:np\.)?array|tensor)?\(?\s*\[([^][]*)\]\s*(?:,[^][]*\))?\)?\s*")
_MAPPING = re.compile(r"\s*\{[^{}]*\}\s*")
_SCALAR = re.compile(r"np\.float\d+\(([^()]*)\)")
"""Lists and numbers by name as Python, numpy and torch print them, and so pandas writes them into cells"""


class _Separated(ArrowRows):
    """Rows of CSV, whose texts lose the quote that stops spreadsheets from reading them as formulas.

    Columns with decimal commas, ``commas``, get points.
    """

    commas: Collection[str] = ()

    def texts(self, column: str) -> list[Any]:
        """The texts of a column."""
        cells = [escape.from_csv_cell(cell) for cell in super().texts(column)]
        if column not in self.commas:
            return cells
        return [cell.replace(",", ".") if _COMMA.fullmatch(str(cell)) else cell for cell in cells]

    def cells(self, column: str) -> list[Any]:
        """The cells of a column; an empty text is None."""
        return [None if cell == "" else cell for cell in super().cells(column)]

    def written(self, column: str) -> list[str]:
        """The cells of a column as they stand in the file."""
        return ["" if cell is None else cell for cell in self.batch.column(column).to_pylist()]

    def vectors(self, column: str, names: Sequence[str] | None, width: int) -> NDArray[Any]:
        """(n, width) numbers of a column of printed lists, or of numbers by name."""
        rows = [printed(str(cell), f"{self.name}: `{column}`") for cell in self.texts(column)]
        if names is not None:
            rows = [[row[name] for name in names] if isinstance(row, dict) and set(row) == set(names) else []
                    for row in rows]  # fmt: skip
        if any(not isinstance(row, list) or len(row) != width for row in rows):
            raise SoftkinError(f"{self.name}: `{column}` must hold {width} numbers in every row, but some rows differ.")
        return np.array(rows, dtype=np.float64)


def open_csv(file: IO[bytes], name: str) -> Table:
    """Values separated by commas, semicolons, tabs or bars, usually below a header."""
    return _opened(file, name, ",")


def open_tsv(file: IO[bytes], name: str) -> Table:
    """Values separated by tabs, usually below a header."""
    return _opened(file, name, "\t")


def open_cells(rows: Sequence[tuple[int, Sequence[Any]]], name: str) -> Table:
    """The cells of a sheet, each row with its number there, read as the file that a spreadsheet exports would be.

    Where texts are numbers with decimal commas, all numbers are written so, since a file has one decimal mark.
    """
    texts = [cell for _, row in rows for cell in row if isinstance(cell, str) and _COMMA.fullmatch(cell)]
    point = "," if any(not _is_grouped(cell) for cell in texts) else "."
    width = max(len(row) for _, row in rows)
    text, lines = io.StringIO(newline=""), list[int]()
    writer = csv.writer(text, lineterminator="\n")
    for number, row in rows:
        cells = [_exported(cell, point) for cell in row]
        writer.writerow([*cells, *[""] * (width - len(row))])
        lines += [number] * (1 + sum(cell.count("\n") for cell in cells))
    return _opened(io.BytesIO(text.getvalue().encode()), name, ",", lines)


def _exported(cell: Any, point: str) -> str:
    if isinstance(cell, str):
        return cell.replace("\r\n", "\n").replace("\r", "\n")
    return "" if cell is None else str(cell).replace(".", point)


@dataclass(frozen=True)
class Opening:
    """What the first lines of a file show."""

    encoding: str
    delimiter: str
    header: list[str]
    skipped: int
    """Lines above the first row: remarks and the header"""
    sample: list[list[str]]
    """The cells of the first rows"""
    has_header: bool
    begins: str
    """What stands before the header for a spreadsheet"""
    assumed: tuple[str, ...] = ()
    """What is unusual about the header, in words"""


def _opened(file: IO[bytes], name: str, usual: str, lines: Sequence[int] = ()) -> Table:
    """The table in a file; ``lines`` are the numbers of its lines where they are not those of an editor."""
    size = size_of(file)
    found = _sampled(file, usual, name, "," if lines else None)
    sample, encoding = found.sample, found.encoding
    if not found.header:
        raise SoftkinError(f"{name} must hold a table, it is empty.")
    header, unused = _without_unused(found.header, sample, name)
    named_once(header, name)
    if any(len(line) != len(header) for line in sample) and (why := _wrong(file, found, header, (), "", lines)):
        raise SoftkinError(f"{name}, {why}.")
    point = _decimal_mark([cell for line in sample for cell in line])
    below, columns = _below(header, sample, point, name)
    repeated = _repeated(file, found) if found.has_header and size <= SPOOLED else []
    last = _summaries(file, found, [columns[column] == "number" for column in header]) if size <= SPOOLED else []
    again, repeated = len(repeated), [*repeated, *last]
    if last and (rows := last[0] - again) < len(sample):
        below, columns = _below(header, sample[:rows], point, name)
    below = {column: cells for column, cells in below.items() if column not in unused}
    columns = {column: kind for column, kind in columns.items() if column not in unused}

    marked = [c for c in columns if columns[c] == "number" and any(_is_marked(cell, point) for cell in below[c])]

    def read(rows: int, numbers: Sequence[str], beside: Sequence[str]) -> Iterator[ArrowRows]:
        import pyarrow as pa

        try:
            yield from parts(rows, numbers, beside)
        except pa.ArrowInvalid as error:
            why = _wrong(file, found, header, numbers, point, lines) if size <= SPOOLED else None
            if why is None:
                raise
            raise SoftkinError(f"{name}, {why}.") from error

    def parts(rows: int, numbers: Sequence[str], beside: Sequence[str]) -> Iterator[ArrowRows]:
        import pyarrow as pa
        from pyarrow import csv as pa_csv

        has_texts = set(columns.values()) != {"number"}
        loose = [column for column in numbers if column in marked or repeated]
        types = dict.fromkeys(numbers, pa.float64()) | dict.fromkeys([*loose, *beside], pa.string())
        file.seek(0)
        # A thread of Arrow that lets go of a Python object while Python ends, after an error, aborts the process. So
        # the bytes are Arrow's own, unless there are too many.
        held = file.read(SPOOLED + 1)
        file.seek(0)
        own = pa.BufferOutputStream()
        if is_small := len(held) <= SPOOLED:
            own.write(held)
        del held
        reader = pa_csv.open_csv(
            pa.BufferReader(own.getvalue()) if is_small else file,
            pa_csv.ReadOptions(
                column_names=header,
                skip_rows=found.skipped,
                block_size=LINE if has_texts else BLOCK,
                use_threads=False,
                encoding="utf8" if encoding == "utf-8-sig" else encoding,
            ),
            pa_csv.ParseOptions(delimiter=found.delimiter, newlines_in_values=has_texts),
            pa_csv.ConvertOptions(column_types=types, include_columns=list(types), decimal_point=point),
        )
        above = 0
        for batch in reader:
            first = above
            above += batch.num_rows
            if repeated:
                batch = batch.take(pa.array([row - first for row in range(first, above) if row not in repeated]))
                first -= sum(row < first for row in repeated)
            for column in loose:
                where = batch.schema.get_field_index(column)
                batch = batch.set_column(where, column, _unmarked(batch.column(where), point))
            for start in range(0, batch.num_rows, rows):
                part = _Separated(batch.slice(start, rows), name, first + start, lambda row: place(row_of(row)))
                part.commas = [column for column in beside if point == "," and columns[column] == "number"]
                yield part

    def row_of(row: Any) -> Any:
        for place in repeated:
            row = row + (place <= row)
        return row

    def line_of(row: int) -> int:
        # Arrow may be reading a large file just now; if that has cells of several lines, its line is counted too low.
        line = _line_of(file, found, row) if size <= SPOOLED else found.skipped + row + 1
        return lines[min(line, len(lines)) - 1] if lines else line

    def place(row: int) -> str:
        return f"line {line_of(row)}"

    def sampled(wanted: Sequence[str]) -> dict[str, list[Any]]:
        return {column: [_cell(cell, columns[column], point, name) for cell in below[column]] for column in wanted}

    assumed = []
    if not found.has_header:
        assumed.append(f"{name} has no header; its columns are called by their places, {header[0]} to {header[-1]}.")
    if encoding == "cp1252":
        assumed.append(f"{name} is not UTF-8 and is read as Windows-1252.")
    assumed += [f"{name}: {words}." for words in found.assumed]
    starred = [c for c in columns if columns[c] == "number" and any(cell.strip()[:1] == "*" for cell in below[c])]
    if starred:
        assumed.append(f"{name}: stars before the numbers of {', '.join(starred[:3])} are left out.")
    if again:
        often = f"{again} more times" if again > 1 else "once more"
        where = f"the first is {place(repeated[0])}" if again > 1 else place(repeated[0])
        assumed.append(
            f"{name} has its header {often} among its rows, as joined files have, which is left out: {where}."
        )
    if last:
        where = f"{place(last[0])} sums" if len(last) == 1 else f"{place(last[0])} and those below it sum"
        assumed.append(f"{name}: {where} up the rows above, and {'is' if len(last) == 1 else 'are'} left out.")
    return Table(
        name, columns, read, sample=sampled, has_header=found.has_header, assumed=tuple(assumed), line_of=line_of,
        delimiter=found.delimiter, point=point, row_of=row_of if repeated else None, begins=found.begins,
        as_written=below,
    )  # fmt: skip


def _without_unused(header: list[str], sample: Sequence[Sequence[str]], name: str) -> tuple[list[str], set[str]]:
    """The header with a name for each column without name and content, and these names.

    Raises:
        SoftkinError: Several columns without a name hold something.
    """
    unnamed = [k for k, column in enumerate(header) if not column]
    if len(unnamed) < 2:
        return header, set()
    filled = [k for k in unnamed if any(k < len(line) and line[k].strip() for line in sample)]
    if len(filled) > 1:
        places = ", ".join(str(k + 1) for k in filled[:5])
        raise SoftkinError(f"{name} must name each column, but its header has no name for columns {places}.")
    empty = {k: f"empty column {k + 1}" for k in unnamed if k not in filled}
    return [empty.get(k, column) for k, column in enumerate(header)], set(empty.values())


def _wrong(
    file: IO[bytes],
    opening: "Opening",
    header: Sequence[str],
    numbers: Sequence[str],
    point: str,
    lines: Sequence[int],
) -> str | None:
    """What is wrong with the first row that has too many or too few cells, or a word among numbers, with its line."""
    before = file.tell()
    file.seek(0)
    text = io.TextIOWrapper(file, encoding=opening.encoding, newline="", errors="replace")
    places = [(header.index(column), column) for column in numbers]
    try:
        for _ in range(opening.skipped):
            text.readline(LINE)
        reader = csv.reader(iter(lambda: text.readline(LINE), ""), delimiter=opening.delimiter)
        begin = opening.skipped + 1
        for cells in reader:
            line = lines[min(begin, len(lines)) - 1] if lines else begin
            begin = opening.skipped + reader.line_num + 1
            if [cell.strip() for cell in cells] == opening.header or not cells:
                continue
            if len(cells) != len(header):
                there = f"{len(cells)} cell{'' if len(cells) == 1 else 's'}"
                return f"line {line} has {there}, the first {_brief(cells[0])}, and its header has {len(header)}"
            for place, column in places:
                cell = cells[place]
                if cell.strip() not in EMPTY and not _NUMBER.fullmatch(_plain(cell, point)):
                    hint = ", a bound and no number" if cell.strip()[:1] in "<>≤≥" else ""
                    return f"line {line}: `{column}` must hold numbers, got {_brief(cell)}{hint}"
    except csv.Error:  # a very long cell
        pass
    finally:
        text.detach()
        file.seek(before)
    return None


def _brief(cell: str) -> str:
    """A cell for a message."""
    return repr(cell if len(cell) <= 30 else f"{cell[:29]}…")


def _below(
    header: Sequence[str], sample: Sequence[Sequence[str]], point: str, name: str
) -> tuple[dict[str, list[str]], dict[str, ColumnKind]]:
    """The cells of the first rows and the kind of each column."""
    below = {column: [line[k] for line in sample if k < len(line)] for k, column in enumerate(header)}
    return below, {column: _kind(column, below[column], point, name) for column in header}


def _repeated(file: IO[bytes], opening: "Opening") -> list[int]:
    """The rows, counted from 0, that are the header again."""
    file.seek(0)
    content = file.read()
    file.seek(0)
    lines = io.BytesIO(content)
    header = b""
    for _ in range(opening.skipped):
        header = lines.readline().strip()
    if opening.encoding.startswith("utf-16") or not header or content.count(header) < 2:
        return []  # nearly always
    text = io.StringIO(lines.read().decode(opening.encoding, "replace"), newline="")
    rows = filter(None, csv.reader(text, delimiter=opening.delimiter))
    try:
        return [row for row, cells in enumerate(rows) if [cell.strip() for cell in cells] == opening.header]
    except csv.Error:  # a very long cell
        return []


def _summaries(file: IO[bytes], opening: "Opening", are_numbers: Sequence[bool]) -> list[int]:
    """The last rows, counted from 0, that hold sums or means of the rows above."""
    file.seek(max(0, size_of(file) - SUMMARY))
    end = file.read()
    file.seek(0)
    if opening.encoding.startswith("utf-16"):
        return []
    lines = [line for line in end.decode(opening.encoding, "replace").splitlines() if line.strip()]
    if not lines or not summary_word(lines[-1].replace('"', "").split(opening.delimiter)):
        return []  # nearly always
    text = io.TextIOWrapper(file, encoding=opening.encoding, newline="", errors="replace")
    try:
        for _ in range(opening.skipped):
            text.readline(LINE)
        rows = list(filter(None, csv.reader(text, delimiter=opening.delimiter)))
    except csv.Error:  # a very long cell
        return []
    finally:
        text.detach()
        file.seek(0)
    return list(range(len(rows) - summaries_below(rows, are_numbers), len(rows)))


def _line_of(file: IO[bytes], opening: "Opening", row: int) -> int:
    """The line on which a row begins, counted from 1; empty lines are no rows, and a cell may have several lines."""
    before = file.tell()
    file.seek(0)
    text = io.TextIOWrapper(file, encoding=opening.encoding, newline="", errors="replace")
    try:
        for _ in range(opening.skipped):
            text.readline(LINE)
        lines = csv.reader(iter(lambda: text.readline(LINE), ""), delimiter=opening.delimiter)
        begin = 0
        for cells in lines:
            if cells:
                if row == 0:
                    break
                row -= 1
            begin = lines.line_num
        return opening.skipped + begin + 1
    except csv.Error:  # a very long cell
        return opening.skipped + row + 1
    finally:
        text.detach()
        file.seek(before)


def printed(cell: str, what: str) -> list[float] | dict[str, float] | None:
    """The numbers of a cell that holds a list or mapping as Python, numpy or torch print one; None if it holds none.

    Example:
        >>> printed("[0.25 0.75]", "it"), printed("{'cat': 0.25, 'dog': 0.75}", "it"), printed("cat", "it")
        ([0.25, 0.75], {'cat': 0.25, 'dog': 0.75}, None)
    """
    cell = _SCALAR.sub(r"\1", cell)
    match = _LIST.fullmatch(cell)
    if match is None and _MAPPING.fullmatch(cell) is None:
        return None
    if "..." in cell:
        raise SoftkinError(f"{what} holds a list that was cut short when it was printed, {cell!r:.60}.")
    try:
        if match is not None:
            return [float(number) for number in re.split(r"[\s,;]+", match[1].strip())]
        return {str(name): float(number) for name, number in ast.literal_eval(cell.strip()).items()}
    except (AttributeError, TypeError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _sampled(file: IO[bytes], usual: str, name: str, stated: str | None) -> Opening:
    """What separates the cells, unless it is stated, the header, and the first rows."""
    start = file.read(SAMPLED)
    encoding = encoding_of(start)
    if b"\0" in start and not encoding.startswith("utf-16"):
        raise SoftkinError(f"{name} must be text, but it holds NUL characters; save it as UTF-8.")
    begins = "\ufeff" if encoding != "utf-8-sig" or start.startswith(codecs.BOM_UTF8) else ""
    file.seek(0)
    text = io.TextIOWrapper(file, encoding=encoding, newline="")
    sample: list[list[str]] = []
    try:
        above, delimiter, is_remark, titles = _above(text, usual, stated)
        text.seek(0)
        for _ in range(above):
            if (remark := text.readline(LINE)).strip().lower().startswith("sep="):
                begins += f"{remark.strip()}\n"
        lines = csv.reader(iter(lambda: text.readline(LINE), ""), delimiter=delimiter)
        header = [column.strip() for column in next(lines, [])]
        if is_remark:
            header[0] = header[0].lstrip("# ")
        skipped, letters = above + lines.line_num, 0
        try:
            while len(sample) < HEAD and letters < SAMPLED and (line := next(lines, None)) is not None:
                if line:
                    sample.append(line)
                letters += sum(map(len, line))
        except csv.Error:  # a very long cell; what was read suffices
            pass
    finally:
        text.detach()  # closing the wrapper would close the file
        file.seek(0)
    sample = [line for line in sample if [cell.strip() for cell in line] != header]  # of joined files
    has_header = not header or _is_header(header, sample)
    assumed = [titles]
    if has_header:
        header, said = _completed(header, sample, content=lambda: _decoded(file, encoding), delimiter=delimiter)
        assumed.append(said)
        if _are_types(sample[:2]):
            sample, skipped = sample[2:], skipped + 2
            assumed.append(
                "the two lines below its header, types and roles of columns as Orange writes them, are left out"
            )
        elif _are_units(sample):
            assumed.append(
                f"the line below its header, units such as {_brief(next(filter(None, sample[0])))}, is left out"
            )
            sample, skipped = sample[1:], skipped + 1
    else:
        sample, skipped = [header, *sample], above
        header = [f"column {place}" for place in range(1, len(header) + 1)]
    return Opening(encoding, delimiter, header, skipped, sample, has_header, begins, tuple(filter(None, assumed)))


def _decoded(file: IO[bytes], encoding: str) -> str:
    """The text of a file, or of its beginning if it is large."""
    file.seek(0)
    text = file.read(SPOOLED).decode(encoding, "replace")
    file.seek(0)
    return text


def _completed(
    header: list[str], sample: Sequence[Sequence[str]], content: Callable[[], str], delimiter: str
) -> tuple[list[str], str]:
    """The header with names for cells that it does not count, and what was assumed, in words.

    R leaves the names of rows without a name, and Weka calls the probabilities of all classes "distribution".
    """
    widths = {len(line) for line in sample}
    if len(widths) != 1:
        return header, ""
    width, named = widths.pop(), [*header]
    while named and not named[-1]:
        named.pop()
    lower = [name.lower() for name in named]
    if lower[-1:] == ["distribution"] and "predicted" in lower and (k := width - len(named) + 1) > 1:
        # Weka numbers the classes: "2:dog"
        mark = re.escape(delimiter)
        names = {int(n): called for n, called in re.findall(rf"(?<![^{mark}])(\d{{1,6}}):([^{mark}\r\n]+)", content())}
        classes = [names.get(n, str(n)).strip("'\" ") for n in range(1, k + 1)]
        said = f"the {k} numbers under `{named[-1]}` are read as those of {', '.join(classes[:3])}"
        return [*named[:-1], *(f"distribution_{name}" for name in classes)], f"{said}{' …' if k > 3 else ''}"
    if width == len(header) + 1 and "" not in header:
        if not any(line[-1].strip() for line in sample):
            return [*header, ""], ""  # a separator at the end of each row
        if len({line[0] for line in sample}) == len(sample):
            return ["", *header], "its header has no name for the first column, which holds the names of rows"
    return header, ""


def _are_types(lines: Sequence[Sequence[str]]) -> bool:
    """Whether the two lines below a header say what columns hold and which is the class, as Orange writes them."""
    if len(lines) < 2:
        return False
    types, flags = ([cell.strip().lower() for cell in line] for line in lines)
    return (
        all(cell in ORANGE_TYPES or " " in cell for cell in types)
        and any(cell in ORANGE_TYPES - {""} for cell in types)
        and all(cell in ORANGE_ROLES or "=" in cell for cell in flags)
        and any(flags)
    )


def _are_units(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the line below a header has units: no number where all other rows have one, and no word that others have.

    A word for nothing, such as NA, is no unit.
    """
    if len(rows) < 3 or len({len(row) for row in rows}) > 1:
        return False
    first, *others = [[cell.strip() for cell in row] for row in rows]
    units = 0
    for cell, below in zip(first, zip(*others, strict=True), strict=True):
        if all(map(_is_number, below)):
            if _is_number(cell) or (cell in EMPTY and cell):
                return False
            units += bool(cell)
        elif cell and (cell in below or cell in EMPTY or len(cell) > UNIT):
            return False
    return units > 0


def _is_number(cell: str) -> bool:
    """Whether a cell holds a number in any spelling."""
    return any(_NUMBER.fullmatch(_plain(cell, point)) for point in ".,")


def _above(text: IO[str], usual: str, stated: str | None) -> tuple[int, str, bool, str]:
    """(lines above the table, what separates its cells, whether its header begins with "#", what was assumed).

    Empty lines, remarks and the line "sep=;" stand above tables, and titles. A remark with as many cells as the next
    line is the header, as ``numpy.savetxt`` writes it.
    """
    above = 0
    while (line := text.readline(LINE)) and above < HEAD:
        plain = line.strip()
        if plain.lower().startswith("sep=") and len(plain) == 5:
            stated = plain[4]
        elif plain.startswith("#"):
            following = text.readline(LINE)
            delimiter = stated or delimiter_of(following, usual)
            if following.count(delimiter) == line.count(delimiter) > 0 and not following.startswith("#"):
                return above, delimiter, True, ""
            if following and not following.startswith("#") and following.strip():
                return above + 1, delimiter, False, ""
            above += 1  # the following line is empty or a remark too
        elif plain:
            lines = [line]
            while sum(map(len, lines)) < SAMPLED and len(lines) < TOP and (line := text.readline(LINE)):
                lines.append(line)
            titles, delimiter = _titles(lines, usual, stated)
            first = lines[0].strip().strip(delimiter)
            said = f"what stands above its header, {_brief(first)}, is left out" if titles else ""
            return above + titles, delimiter, False, said
        above += 1
    return above, stated or usual, False, ""


def _titles(lines: Sequence[str], usual: str, stated: str | None) -> tuple[int, str]:
    """(how many of the first lines are titles, what separates the cells of the table below).

    Titles fill at most half of the cells that the rows of the table have. If they are no single cells, or if the table
    has two columns only, the line below them must be a header without numbers.
    """
    first = stated or delimiter_of(lines[0], usual)
    for place, line in enumerate(lines):
        delimiter = stated or delimiter_of(line, usual)
        if not line.strip(f"{delimiter} \r\n"):
            continue
        try:
            reader = csv.reader(lines, delimiter=delimiter)
            rows = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader if any(cells)]
        except csv.Error:  # a very long cell
            break
        below = [cells for end, cells in rows if end > place]
        titles = [cells for end, cells in rows if end <= place]
        width = Counter(map(len, below[1:])).most_common(1)[0][0] if below[1:] else 0
        if width < 2 or 2 * sum(map(bool, below[0])) <= width:
            continue
        are_names = not any(map(_is_number, below[0]))
        are_single = width > 2 and all(cells[0] and not any(cells[1:]) for cells in titles)
        is_index = not all(cells[0] for cells in titles)  # a header whose index has no name
        return (place, delimiter) if titles and not is_index and (are_names or are_single) else (0, first)
    return 0, first


def _is_header(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first line names columns: no name is a fraction, and whole numbers count the columns from 0 or 1.

    Beside a name such as "label", any number is a name too, such as 1E10.
    """
    there = [cell for cell in first if cell.strip()]
    if any(roles.role_of(cell) == "label" and all(cell not in row for row in rows) for cell in there):
        return True
    numbers = [cell for cell in there if _NUMBER.fullmatch(cell.replace(",", ".")) or _COMMA.fullmatch(cell)]
    if any(not cell.strip().isdigit() for cell in numbers):
        return False
    if len(numbers) < len(there):
        return True
    counted = [int(cell) for cell in numbers]
    fractions = any("." in cell or "," in cell for row in rows for cell in row)
    return fractions and counted in ([*range(len(there))], [*range(1, len(there) + 1)])


def _decimal_mark(cells: Sequence[str]) -> str:
    """The mark before fractions: a comma if some cell has one, and no point is certain to be such a mark.

    "2.593" beside "0,7" has a mark of thousands; beside "1,593" it is a fraction.
    """
    commas = [cell for cell in cells if _COMMA.fullmatch(cell)]
    points = [cell for cell in cells if "." in cell and _NUMBER.fullmatch(cell)]
    if not points or not commas:
        return "," if commas else "."
    certain = [any(not _is_grouped(cell) for cell in found) for found in (commas, points)]
    return "," if certain == [True, False] else "."


def _is_grouped(cell: str) -> bool:
    """Whether the mark in a number may be one of thousands: three digits follow, and no 0 leads."""
    return re.fullmatch(r"\s*[+-]?[1-9]\d{0,2}([.,]\d{3})+\s*", cell) is not None


def _is_marked(cell: str, point: str) -> bool:
    """Whether a number is written with a percent sign or with marked thousands."""
    return (
        cell.strip()[:1] in ("*", "\u2212")
        or cell.strip().endswith("%")
        or _THOUSANDS[point].fullmatch(cell) is not None
    )


def _plain(cell: str, point: str) -> str:
    """A number as Python writes it; percent become fractions."""
    percent = cell.strip().endswith("%")
    cell = cell.strip().removeprefix("*").removesuffix("%").strip()  # Weka marks the winning class by a star
    cell = cell.replace("\u2212", "-")  # as printed
    if _THOUSANDS[point].fullmatch(cell):
        cell = re.sub(r"[ '\u00a0\u202f]", "", cell).replace("," if point == "." else ".", "")
    cell = cell.replace(point, ".")
    return repr(float(cell) / 100) if percent and _NUMBER.fullmatch(cell) else cell


def _unmarked(column: Any, point: str) -> Any:
    """A column of texts as numbers, without percent signs and marks of thousands."""
    import pyarrow as pa

    cells = [None if cell is None or cell.strip() in EMPTY else _plain(cell, point) for cell in column.to_pylist()]
    return pa.array(cells, pa.string()).cast(pa.float64())


def _kind(column: str, cells: Sequence[str], point: str, name: str) -> ColumnKind:
    """Numbers, if most cells that are not empty hold one: a word among them is then an error, not a text.

    Lists, or numbers by name, if all cells hold them.
    """
    there = [cell for cell in cells if cell.strip() not in EMPTY]
    if not there:
        return "text" if roles.role_of(column) == "text" else "number"
    numbers = sum(_NUMBER.fullmatch(_plain(cell, point)) is not None for cell in there)
    if 2 * numbers > len(there):
        return "number"
    kinds = set()
    for cell in there:
        kinds.add(type(printed(cell, f"{name}: `{column}`")))
        if len(kinds) > 1 or kinds == {type(None)}:
            return "text"
    return "list" if kinds == {list} else "mapping"


def _cell(cell: str, kind: ColumnKind, point: str, name: str) -> Any:
    """A cell of the sample as ``ArrowRows.cells`` would give it; a printed list as a list."""
    if kind in ("list", "mapping"):
        return printed(cell, name)
    if kind == "text":
        return escape.from_csv_cell(cell) or None
    number = _plain(cell, point)
    return float(number) if _NUMBER.fullmatch(number) else None
