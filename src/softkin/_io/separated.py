"""Tables of separated values: delimiter, encoding and decimal mark are found out from the first lines."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import IO, Any

from softkin import SoftkinError
from softkin._io import escape, roles
from softkin._io.arrow import ArrowRows
from softkin._io.tables import EMPTY, HEAD, LINE, ColumnKind, Table, delimiter_of, encoding_of, named_once, start_of

BLOCK = 2**22  # bytes parsed at a time
SAMPLED = 2**20  # letters that are looked at to tell numbers from texts

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+|inf|infinity)([eE][+-]?\d+)?\s*", re.IGNORECASE)
_COMMA = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*")


class _Separated(ArrowRows):
    """Rows of CSV, whose texts lose the quote that stops spreadsheets from reading them as formulas."""

    def texts(self, column: str) -> list[Any]:
        """The texts of a column."""
        return [escape.from_csv_cell(cell) for cell in super().texts(column)]

    def cells(self, column: str) -> list[Any]:
        """The cells of a column; an empty text is None."""
        return [None if cell == "" else cell for cell in super().cells(column)]


def open_csv(file: IO[bytes], name: str) -> Table:
    """Values separated by commas, semicolons, tabs or bars, below a header."""
    return _opened(file, name, ",")


def open_tsv(file: IO[bytes], name: str) -> Table:
    """Values separated by tabs, below a header."""
    return _opened(file, name, "\t")


def _opened(file: IO[bytes], name: str, usual: str) -> Table:
    encoding = encoding_of(start_of(file))
    delimiter, header, header_lines, sample = _sampled(file, encoding, usual)
    if not header or all(_NUMBER.fullmatch(column) for column in header):
        raise SoftkinError(f"{name} must begin with a header that names its columns, got {', '.join(header[:5])!r}.")
    named_once(header, name)
    cells = [cell for line in sample for cell in line]
    commas = any(map(_COMMA.fullmatch, cells)) and not any("." in cell and _NUMBER.fullmatch(cell) for cell in cells)
    point = "," if commas else "."
    columns = {
        column: _kind(column, [line[k] for line in sample if k < len(line)], point) for k, column in enumerate(header)
    }

    def read(rows: int, numbers: Sequence[str], beside: Sequence[str]) -> Iterator[ArrowRows]:
        import pyarrow as pa
        from pyarrow import csv as pa_csv

        has_texts = "text" in columns.values()
        types = dict.fromkeys(numbers, pa.float64()) | dict.fromkeys(beside, pa.string())
        file.seek(0)
        reader = pa_csv.open_csv(
            file,
            pa_csv.ReadOptions(
                column_names=header,
                skip_rows=header_lines,
                block_size=LINE if has_texts else BLOCK,
                use_threads=False,
                encoding="utf8" if encoding == "utf-8-sig" else encoding,
            ),
            pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=has_texts),
            pa_csv.ConvertOptions(column_types=types, include_columns=list(types), decimal_point=point),
        )
        for batch in reader:
            for start in range(0, batch.num_rows, rows):
                yield _Separated(batch.slice(start, rows), name)

    def sampled(wanted: Sequence[str]) -> dict[str, list[Any]]:
        place = {column: k for k, column in enumerate(header)}
        return {
            column: [_cell(line[place[column]], columns[column], point) for line in sample if place[column] < len(line)]
            for column in wanted
        }

    return Table(name, columns, read, sample=sampled)


def _sampled(file: IO[bytes], encoding: str, usual: str) -> tuple[str, list[str], int, list[list[str]]]:
    """The delimiter, the header, the number of its lines, and the cells of the first rows."""
    text = io.TextIOWrapper(file, encoding=encoding, newline="")
    sample: list[list[str]] = []
    try:
        first = text.readline(LINE)
        text.seek(0)
        delimiter = delimiter_of(first, usual)
        lines = csv.reader(iter(lambda: text.readline(LINE), ""), delimiter=delimiter)
        header = [column.strip() for column in next(lines, [])]
        header_lines, letters = lines.line_num, 0
        try:
            while len(sample) < HEAD and letters < SAMPLED and (line := next(lines, None)) is not None:
                sample.append(line)
                letters += sum(map(len, line))
        except csv.Error:  # a very long cell; what was read suffices
            pass
    finally:
        text.detach()  # closing the wrapper would close the file
        file.seek(0)
    return delimiter, header, header_lines, sample


def _kind(column: str, cells: Sequence[str], point: str) -> ColumnKind:
    """Numbers, if most cells that are not empty hold one: a word among them is then an error, not a text."""
    there = [cell for cell in cells if cell.strip() not in EMPTY]
    if not there:
        return "text" if roles.role_of(column) == "text" else "number"
    numbers = sum(_NUMBER.fullmatch(cell.replace(point, ".")) is not None for cell in there)
    return "number" if 2 * numbers > len(there) else "text"


def _cell(cell: str, kind: ColumnKind, point: str) -> float | str | None:
    """A cell of the sample as ``ArrowRows.cells`` would give it."""
    if kind == "text":
        return escape.from_csv_cell(cell) or None
    number = cell.replace(point, ".")
    return float(number) if _NUMBER.fullmatch(number) else None
