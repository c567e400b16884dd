"""Rows that pyarrow holds: of CSV, of parquet, of any other format that it reads; and files of its own format."""

from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from softkin import SoftkinError
from softkin._io import files
from softkin._io.numpy_files import size_of
from softkin._io.tables import ColumnKind, Table, named_once


class ArrowRows:
    """Consecutive rows of a table in a pyarrow ``RecordBatch``; ``name`` is the file's, for messages."""

    def __init__(self, batch: Any, name: str) -> None:
        self.batch, self.name = batch, name
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
        """The position of a row, for messages; the first of the block has number 0."""
        return f"{self.name}, row {row} of a block"

    def unpacked(self, column: str) -> int:
        """The bytes that the cells of a column would take if equal texts were not shared."""
        ArrowRows.texts(self, column)
        return self._texts[column][1]


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
        for batch in held.select([*numbers, *beside]).to_batches(max_chunksize=rows):
            yield ArrowRows(batch, name)

    return Table(name, {column.name: kind_of(column.type) for column in held.schema}, read, held.num_rows)


def kind_of(arrow_type: Any) -> ColumnKind:
    """The kind of a column of this type."""
    import pyarrow as pa

    types = pa.types
    if is_text(arrow_type):
        return "text"
    if types.is_integer(arrow_type) or types.is_floating(arrow_type) or types.is_boolean(arrow_type):
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
        total = 0
        for batch in batches():
            batch.validate(full=True)  # a damaged offset would read outside the file
            total += batch.nbytes
            files.unpacked_within(size, total, name)
            chosen = batch.select([*numbers, *beside])
            for start in range(0, chosen.num_rows, rows):
                yield ArrowRows(chosen.slice(start, rows), name)

    return Table(name, {column.name: kind_of(column.type) for column in schema}, read, size=size)
