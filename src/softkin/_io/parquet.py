"""Parquet files: their declared size is checked before anything is unpacked, and equal texts are held once."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import IO, Any

from softkin import SoftkinError
from softkin._io import files, footers
from softkin._io.arrow import ArrowRows, is_text, kind_of
from softkin._io.numpy_files import size_of
from softkin._io.tables import Table, named_once

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
    values = footers.values_of(file) if {"list", "other"} & set(kinds.values()) else Counter(())

    def read(rows: int, numbers: Sequence[str], beside: Sequence[str]) -> Iterator[ArrowRows]:
        columns = [*numbers, *beside]
        totals = {column: 0 for column in columns if kinds[column] in ("text", "other")}
        for column in columns:
            files.unpacked_within(size, max(num_rows, values[column]) * 8, f"{name}: `{column}`")
        if any(kinds[column] == "other" for column in columns):
            rows = max(1, min(rows, BATCH, BATCH_BYTES // max([1, *_group_sizes(opened)])))
        for batch in _batches(opened, rows, columns, name):
            part = ArrowRows(batch, name)
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
