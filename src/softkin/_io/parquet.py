"""Parquet files: their declared size is checked before anything is unpacked, and equal texts are held once."""

from collections.abc import Iterator, Sequence
from typing import IO, Any

from softkin import SoftkinError
from softkin._io import files

BATCH = 64  # rows of a column read at a time, few because images may be large
BATCH_BYTES = 2**30  # and few enough to stay below this, even if each repeats the content of a whole row group


def opened(file: IO[bytes] | Any, size: int, name: str) -> Any:
    """A ``pyarrow.parquet.ParquetFile`` whose columns of text stay encoded as dictionaries.

    A small file can repeat one text of a gigabyte in every row; decoded, each row would have a copy.

    Args:
        file: The file, or its path.
        size: Its size in bytes.
        name: Its name in messages.

    Raises:
        SoftkinError: It declares far more bytes than it has.
    """
    import pyarrow.parquet as pq

    checked = {"page_checksum_verification": True}  # if the file has checksums
    plain = pq.ParquetFile(file, **checked)
    files.unpacked_within(size, sum(group_sizes(plain)), name)
    texts = [field.name for field in plain.schema_arrow if is_text(field.type)]
    return pq.ParquetFile(file, read_dictionary=texts, **checked) if texts else plain


def group_sizes(file: Any) -> list[int]:
    """The bytes that each row group declares; not by column, because pyarrow aborts on a column's damaged metadata."""
    return [int(file.metadata.row_group(place).total_byte_size) for place in range(file.metadata.num_row_groups)]


def batches(file: Any, rows: int, columns: Sequence[str], name: str) -> Iterator[Any]:
    """All rows of some columns, ``rows`` at a time.

    Raises:
        SoftkinError: There are fewer or more rows than the file declares. pyarrow does not compare that with the
            columns' own numbers of rows, so that one column of a damaged file could end before another.
    """
    declared, read = file.metadata.num_rows, 0
    for batch in file.iter_batches(rows, columns=list(columns), use_threads=False):
        read += batch.num_rows
        yield batch
    if read != declared:
        raise SoftkinError(f"{name} is damaged: it declares {declared:,} rows, but {read:,} could be read.")


def column(file: Any, size: int, column_name: str, name: str) -> Iterator[Any]:
    """The cells of a column in order, as long as they take no far larger space than the file's ``size``."""
    files.unpacked_within(size, file.metadata.num_rows * 8, name)
    rows = max(1, min(BATCH, BATCH_BYTES // max([1, *group_sizes(file)])))
    total = 0
    for batch in batches(file, rows, [column_name], name):
        values, nbytes = cells(batch.column(0))
        total += nbytes
        files.unpacked_within(size, total, name)
        yield from values


def is_text(kind: Any) -> bool:
    """Whether a column of this type holds texts."""
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def cells(column: Any) -> tuple[list[Any], int]:
    """The cells of a column, with equal texts as one object, and the bytes they would take without that sharing."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        return column.to_pylist(), column.nbytes
    texts, places = column.dictionary.to_pylist(), column.indices.to_pylist()
    lengths = [0 if text is None else len(text) for text in texts]
    values = [None if place is None else texts[place] for place in places]
    return values, sum(lengths[place] for place in places if place is not None)
