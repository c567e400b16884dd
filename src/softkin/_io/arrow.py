"""Rows that pyarrow holds: of CSV, of parquet, of any other format that it reads; and files of its own format.

The declared size of a parquet file is checked before anything is unpacked, and equal texts are held once. The number of
values that each column declares is read from the file's footer here: pyarrow has these numbers too, but aborts the
process where a column's part of the footer is damaged. The footer is in Thrift's compact protocol, of which this reads
what footers use.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from softkin import SoftkinError
from softkin._io import files
from softkin._io.numpy_files import size_of
from softkin._io.tables import ColumnKind, Table, cell_text, counted, is_empty, named_once


class ArrowRows:
    """Consecutive rows of a table in a pyarrow ``RecordBatch``, from the row ``start`` on; ``name`` is the file's."""

    def __init__(self, batch: Any, name: str, start: int = 0, place: Callable[[int], str] = counted) -> None:
        self.batch, self.name, self.start, self.place = _without_decimals(batch), name, start, place
        self._texts: dict[str, tuple[list[Any], int]] = {}

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def numbers(self, columns: Sequence[str]) -> NDArray[Any]:
        """(n, columns) numbers, in float32 if all columns are."""
        kinds = {str(self.batch.schema.field(column).type) for column in columns}
        narrow = kinds <= {"float", "halffloat"}
        values = np.empty((len(self), len(columns)), dtype=np.float32 if narrow else np.float64)
        for k, name in enumerate(columns):
            column = self.batch.column(name)
            if column.null_count:
                raise SoftkinError(f"{self.name}: `{name}` must hold a number in every row, but {_empty(column)}.")
            try:
                values[:, k] = column.to_numpy(zero_copy_only=False)
            except (TypeError, ValueError) as error:
                raise SoftkinError(f"{self.name}: `{name}` must hold numbers, got {column.type}.") from error
        return values

    def vectors(self, column: str, names: Sequence[str] | None, width: int) -> NDArray[Any]:
        """(n, width) numbers of a column of lists."""
        import pyarrow.compute as pc

        cells = self.batch.column(column)
        if cells.null_count or pc.min_max(pc.list_value_length(cells)).as_py() != {"min": width, "max": width}:
            raise SoftkinError(f"{self.name}: `{column}` must hold {width} numbers in every row, but some rows differ.")
        flat = cells.flatten()
        if flat.null_count:
            raise SoftkinError(f"{self.name}: `{column}` must hold numbers only, but {flat.null_count} are missing.")
        values: NDArray[Any] = flat.to_numpy(zero_copy_only=False)
        if values.dtype.kind not in "iuf":
            raise SoftkinError(f"{self.name}: `{column}` must hold numbers, got {cells.type}.")
        return values.reshape(-1, width)

    def filled(self, column: str) -> NDArray[Any] | list[Any]:
        """A column of numbers as an array, one of texts as a list."""
        cells = self.batch.column(column)
        if cells.null_count:
            raise SoftkinError(f"{self.name}: `{column}` must be filled in every row, but {_empty(cells)}.")
        if is_text(cells.type):
            return self.texts(column)
        values: NDArray[Any] = cells.to_numpy(zero_copy_only=False)
        return values.tolist() if values.dtype.kind == "O" else values

    def texts(self, column: str) -> list[Any]:
        """The texts of a column, read once."""
        if column not in self._texts:
            self._texts[column] = cells_of(self.batch.column(column))
        return self._texts[column][0]

    def cells(self, column: str) -> list[Any]:
        """The cells of a column as plain Python."""
        return self.texts(column)

    def where(self, row: int) -> str:
        """The file and the place of a row of this block, for messages."""
        return f"{self.name}, {self.place(self.start + row)}"

    def written(self, column: str) -> list[str]:
        """The cells of a column as the text of a CSV file."""
        return [cell_text(cell) for cell in self.cells(column)]

    def empty(self, column: str, words: Collection[str]) -> list[int]:
        """The rows whose cell holds nothing."""
        cells = self.batch.column(column)
        if kind_of(cells.type) == "number":
            return [int(row) for row in np.flatnonzero(cells.is_null(nan_is_null=True))]
        return [row for row, cell in enumerate(self.cells(column)) if is_empty(cell, words)]

    def some(self, rows: Sequence[int]) -> Self:
        """Some of the rows."""
        return type(self)(self.batch.take(list(rows)), self.name, place=lambda row: self.place(self.start + rows[row]))

    def unpacked(self, column: str) -> int:
        """The bytes that the cells of a column would take if equal texts were not shared."""
        ArrowRows.texts(self, column)
        return self._texts[column][1]


def _without_decimals(batch: Any) -> Any:
    """The rows with decimal numbers as floats; whole ones as integers, or as texts if they are larger than those."""
    import pyarrow as pa

    for place, column in enumerate(batch.schema):
        if pa.types.is_decimal(column.type):
            cells = batch.column(place)
            try:
                cells = cells.cast(pa.float64() if column.type.scale > 0 else pa.int64())
            except pa.ArrowInvalid:
                cells = cells.cast(pa.string())
            batch = batch.set_column(place, column.name, cells)
    return batch


def _empty(column: Any) -> str:
    """How many cells are empty, for messages."""
    many = column.null_count
    return f"{many:,} of {len(column):,} are empty; leave {'this row' if many == 1 else 'these rows'} out"


def table_of(frame: Any, name: str = "the data frame") -> Table:
    """A data frame of pandas, polars, pyarrow or any other library that speaks Arrow, as a table.

    The row numbers of pandas are left out.
    """
    import pyarrow as pa

    try:
        if hasattr(frame, "iloc"):
            columns = [str(column) for column in frame.columns]
            named_once(columns, name)
            held = pa.Table.from_pandas(frame.set_axis(columns, axis=1), preserve_index=False)
        else:
            held = frame if isinstance(frame, pa.Table) else pa.table(frame)
    except (TypeError, ValueError, pa.ArrowInvalid) as error:
        raise SoftkinError(f"{name} must be a table of numbers and texts: {str(error).splitlines()[0]}.") from None
    named_once(held.schema.names, name)
    if held.num_rows == 0:
        raise SoftkinError(f"{name} must hold at least one row, it holds none.")

    def read(rows: int, numbers: Sequence[str], beside: Sequence[str]) -> Iterator[ArrowRows]:
        start = 0
        for batch in held.select([*numbers, *beside]).to_batches(max_chunksize=rows):
            yield ArrowRows(batch, name, start)
            start += batch.num_rows

    return Table(name, {column.name: kind_of(column.type) for column in held.schema}, read, held.num_rows)


def kind_of(arrow_type: Any) -> ColumnKind:
    """The kind of a column of this type."""
    import pyarrow as pa

    types = pa.types
    if is_text(arrow_type):
        return "text"
    is_number = types.is_integer(arrow_type) or types.is_floating(arrow_type) or types.is_decimal(arrow_type)
    if is_number or types.is_boolean(arrow_type):
        return "number"
    lists = types.is_list(arrow_type) or types.is_large_list(arrow_type) or types.is_fixed_size_list(arrow_type)
    return "list" if lists else "other"


def is_text(arrow_type: Any) -> bool:
    """Whether a column of this type holds texts."""
    import pyarrow as pa

    kind = arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def cells_of(column: Any) -> tuple[list[Any], int]:
    """The cells of a column, with equal texts as one object, and the bytes they would take without that sharing."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        return column.to_pylist(), column.nbytes
    texts, places = column.dictionary.to_pylist(), column.indices.to_pylist()
    lengths = [0 if text is None else len(text) for text in texts]
    values = [None if place is None else texts[place] for place in places]
    return values, sum(lengths[place] for place in places if place is not None)


def open_arrow(file: IO[bytes], name: str) -> Table:
    """A file of Arrow's own format, which Feather is too, or a stream of it."""
    import pyarrow as pa

    size = size_of(file)
    is_file = file.read(6) == b"ARROW1"

    def batches() -> Iterator[Any]:
        file.seek(0)
        if not is_file:
            yield from pa.ipc.open_stream(file)
            return
        reader = pa.ipc.open_file(file)
        for place in range(reader.num_record_batches):
            yield reader.get_batch(place)

    file.seek(0)
    schema = (pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)).schema
    named_once(schema.names, name)

    def read(rows: int, numbers: Sequence[str], beside: Sequence[str]) -> Iterator[ArrowRows]:
        total, above = 0, 0
        for batch in batches():
            batch.validate(full=True)  # a damaged offset would read outside the file
            total += batch.nbytes
            files.unpacked_within(size, total, name)
            chosen = batch.select([*numbers, *beside])
            for start in range(0, chosen.num_rows, rows):
                yield ArrowRows(chosen.slice(start, rows), name, above + start)
            above += chosen.num_rows

    return Table(name, {column.name: kind_of(column.type) for column in schema}, read, size=size)


_ROW_GROUPS, _COLUMNS, _ABOUT, _PATH, _VALUES = 4, 1, 3, 3, 5  # the numbers of fields in parquet.thrift
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12


def values_of(file: IO[bytes]) -> Counter[str]:
    """The number of values of each column, those inside its cells counted one by one; the file is rewound."""
    file.seek(-8, 2)
    size = int.from_bytes(file.read(4), "little")
    file.seek(-8 - size, 2)
    footer = _Compact(file.read(size)).struct()
    file.seek(0)
    values: Counter[str] = Counter()
    for group in footer[_ROW_GROUPS]:
        for chunk in group[_COLUMNS]:
            about = chunk[_ABOUT]
            values[about[_PATH][0].decode("utf-8", "replace")] += about[_VALUES]
    return values


class _Compact:
    """Values of Thrift's compact protocol: structs as dictionaries by field number, texts as bytes."""

    def __init__(self, content: bytes) -> None:
        self.content, self.place = content, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        if depth > files.DEPTH:
            raise RecursionError
        fields: dict[int, Any] = {}
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._integer()
            kind = head & 15
            fields[field] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._byte()
        if kind == _DOUBLE:
            return self._bytes(8)
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind in (_LIST, _SET):
            head = self._byte()
            length = head >> 4 if head >> 4 < 15 else self._varint()
            return [self._value(head & 15, depth) for _ in range(length)]
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind == _MAP or kind > _STRUCT or kind == 0:
            raise ValueError(f"its footer has a value of kind {kind}")
        return self._integer()

    def _byte(self) -> int:
        self.place += 1
        return self.content[self.place - 1]

    def _bytes(self, length: int) -> bytes:
        self.place += length
        if self.place > len(self.content):
            raise ValueError("its footer is cut off")
        return self.content[self.place - length : self.place]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


BATCH = 64  # rows of images and the like read at a time, few because each may be large
BATCH_BYTES = 2**30  # and few enough to stay below this, even if each repeats the content of a whole row group


def open_parquet(file: IO[bytes], name: str) -> Table:
    """A parquet file, with the class names that a Hugging Face data set keeps in its metadata."""
    size = size_of(file)
    opened = _opened(file, size, name)
    schema, num_rows = opened.schema_arrow, opened.metadata.num_rows
    named_once(schema.names, name)
    if num_rows == 0:
        raise SoftkinError(f"{name} must hold at least one row, it holds none.")
    kinds = {column.name: kind_of(column.type) for column in schema}
    values = values_of(file) if {"list", "other"} & set(kinds.values()) else Counter(())

    def read(rows: int, numbers: Sequence[str], beside: Sequence[str]) -> Iterator[ArrowRows]:
        columns = [*numbers, *beside]
        totals = {column: 0 for column in columns if kinds[column] in ("text", "other")}
        for column in columns:
            files.unpacked_within(size, max(num_rows, values[column]) * 8, f"{name}: `{column}`")
        if any(kinds[column] == "other" for column in columns):
            rows = max(1, min(rows, BATCH, BATCH_BYTES // max([1, *_group_sizes(opened)])))
        start = 0
        for batch in _batches(opened, rows, columns, name):
            part = ArrowRows(batch, name, start)
            start += len(part)
            for column in totals:
                totals[column] += part.unpacked(column)
                files.unpacked_within(size, totals[column], f"{name}: `{column}`")
            yield part

    return Table(name, kinds, read, num_rows, size, class_names_in(schema.metadata))


def _opened(file: IO[bytes], size: int, name: str) -> Any:
    """A ``ParquetFile`` whose columns of text stay encoded as dictionaries, refused if it declares far more bytes.

    A small file can repeat one text of a gigabyte in every row; decoded, each row would have a copy.
    """
    import pyarrow.parquet as pq

    checked = {"page_checksum_verification": True}  # if the file has checksums
    plain = pq.ParquetFile(file, **checked)
    files.unpacked_within(size, sum(_group_sizes(plain)), name)
    texts = [column.name for column in plain.schema_arrow if is_text(column.type)]
    return pq.ParquetFile(file, read_dictionary=texts, **checked) if texts else plain


def _group_sizes(file: Any) -> list[int]:
    """The bytes that each row group declares; not by column, because pyarrow aborts on a column's damaged metadata."""
    return [int(file.metadata.row_group(place).total_byte_size) for place in range(file.metadata.num_row_groups)]


def _batches(file: Any, rows: int, columns: Sequence[str], name: str) -> Iterator[Any]:
    """All rows of some columns, ``rows`` at a time, refused if they are fewer or more than the file declares.

    pyarrow does not compare that with the columns' own numbers of rows, so that one column of a damaged file could
    end before another.
    """
    declared, read = file.metadata.num_rows, 0
    for batch in file.iter_batches(rows, columns=list(columns), use_threads=False):
        read += batch.num_rows
        yield batch
    if read != declared:
        raise SoftkinError(f"{name} is damaged: it declares {declared:,} rows, but {read:,} could be read.")


def class_names_in(metadata: dict[bytes, bytes] | None) -> dict[str, list[str]]:
    """The class names of each column, from the metadata of a Hugging Face data set; what is damaged is left out."""
    try:
        about = files.parse_json((metadata or {})[b"huggingface"], "the schema", "JSON")["info"]["features"]
        known = {column: feature.get("names") for column, feature in about.items() if isinstance(feature, dict)}
    except (SoftkinError, KeyError, TypeError, AttributeError):
        return {}
    return {
        column: names
        for column, names in known.items()
        if isinstance(names, list) and all(isinstance(name, str) for name in names)
    }
