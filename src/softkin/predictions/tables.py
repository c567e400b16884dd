"""Predictions in tables: parquet, CSV, TSV, JSON lines. A column for each class, or one of lists."""

import csv
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from softkin import SoftkinError, checks, files
from softkin.predictions import formats
from softkin.predictions.formats import Block, PredictionFile, ScoreKind

LINE = 2**26  # bytes that one line of text may have: the limit of classes, and 500 letters for each
INDEX = ("", "Unnamed: 0", "__index_level_0__")  # what pandas leaves of a row's number
NO_CLASSES = (  # what stands beside the scores in people's tables, and would be taken for one more class
    *formats.LABELS, *formats.IDS, "index", "y", "y_pred", "pred", "preds", "prediction", "predictions", "predicted",
    "predicted_label", "pred_label", "true_label", "confidence", "correct", "split", "fold",
)  # fmt: skip


@dataclass(frozen=True)
class _Columns:
    """What the columns of a table with one for each class are."""

    scores: list[str]
    class_names: list[str]
    kind: ScoreKind
    labels: str | None
    ids: str | None


def _columns(header: Sequence[str], kind: ScoreKind | None, name: str) -> _Columns:
    """Labels and ids by name, all others classes; ``probs_cat`` and the like say what they hold."""
    files.within("classes", len(header), f"{name}, with a column for each class,")
    seen: set[str] = set()
    for column in header:
        if column in seen:
            raise SoftkinError(f"{name} must name each column once, but `{column}` stands there twice.")
        seen.add(column)
    labels, ids = formats.named(header, formats.LABELS), formats.named(header, formats.IDS)
    scores = [column for column in header if column not in (labels, ids, *INDEX)]
    words = "|".join(word for names in formats.NAMES.values() for word in names)
    pattern = re.compile(rf"({words})[ _.:/\[-]+(.+?)\]?", re.IGNORECASE)
    prefixed: dict[ScoreKind, list[tuple[str, str]]] = {"logits": [], "probs": []}
    for column in scores:
        match = pattern.fullmatch(column)
        own = None if match is None else formats.kind_in_words(match[1])
        if match is not None and own is not None:
            prefixed[own].append((column, match[2]))
    if all(prefixed.values()) and kind is None:
        raise SoftkinError(f"{name} holds columns of logits and of probs; type --logits or --probs to say which.")
    said: ScoreKind | None = kind if kind and prefixed[kind] else next((own for own in prefixed if prefixed[own]), None)
    if said is not None:  # the columns with a prefix are the scores, whatever else the table holds
        if kind not in (None, said):
            raise SoftkinError(f"{name} is said to hold {kind} (--{kind}), but its columns' names say {said}.")
        chosen = prefixed[said]
        return _Columns([column for column, _ in chosen], [rest for _, rest in chosen], said, labels, ids)
    in_name = formats.kind_in_words(Path(name).stem)
    if kind is not None and in_name not in (None, kind):
        raise SoftkinError(f"{name} is said to hold {kind} (--{kind}), but its name says {in_name}.")
    kind = kind or in_name
    if len(scores) < 2:
        raise SoftkinError(
            f"{name} must have a column for each class, or one of lists named `logits` or `probs`; "
            f"it has {', '.join(header[:10])}."
        )
    stray = next((column for column in scores if column.lower() in NO_CLASSES), None)
    if stray is not None:
        example = f"`{kind or 'logits'}_{scores[0]}`"
        raise SoftkinError(
            f"{name} has a column `{stray}`, which does not look like a class; leave it out, or name the columns of "
            f"classes as {example}: then all others are passed over."
        )
    if kind is None:
        raise formats.unknown_kind(name, f"its columns {', '.join(scores[:3])}{' …' if len(scores) > 3 else ''}")
    return _Columns(scores, scores, kind, labels, ids)


def open_csv(file: IO[bytes], name: str, kind: ScoreKind | None) -> PredictionFile:
    """Comma-separated values with a header."""
    return _separated(file, name, kind, ",")


def open_tsv(file: IO[bytes], name: str, kind: ScoreKind | None) -> PredictionFile:
    """Tab-separated values with a header."""
    return _separated(file, name, kind, "\t")


def _separated(file: IO[bytes], name: str, kind: ScoreKind | None, delimiter: str) -> PredictionFile:
    import pyarrow as pa
    from pyarrow import csv as pa_csv

    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        lines = csv.reader(iter(lambda: text.readline(LINE), ""), delimiter=delimiter)
        header = [column.strip() for column in next(lines, [])]
        header_lines = lines.line_num
    finally:
        text.detach()  # which would close the file with it
    if not header or all(checks.is_number(column) for column in header):
        raise SoftkinError(f"{name} must begin with a header that names its columns, got {', '.join(header[:5])!r}.")
    columns = _columns(header, kind, name)
    types = dict.fromkeys(columns.scores, pa.float64())
    types |= {column: pa.string() for column in (columns.labels, columns.ids) if column is not None}

    def blocks(rows: int) -> Iterator[Block]:
        file.seek(0)
        reader = pa_csv.open_csv(
            file,
            pa_csv.ReadOptions(column_names=header, skip_rows=header_lines, block_size=2**22, use_threads=False),
            pa_csv.ParseOptions(delimiter=delimiter),
            pa_csv.ConvertOptions(column_types=types, include_columns=list(types)),
        )
        for batch in reader:
            for start in range(0, batch.num_rows, rows):
                yield _block(batch.slice(start, rows), columns, name)

    return PredictionFile(
        name, columns.kind, len(columns.scores), None, blocks, columns.class_names, columns_named=True
    )


def _block(batch: Any, columns: _Columns, name: str) -> Block:
    """Rows of a table with a column for each class."""
    values = np.empty((batch.num_rows, len(columns.scores)), dtype=_common(batch, columns.scores))
    for k, score in enumerate(columns.scores):
        column = batch.column(score)
        if column.null_count:
            raise SoftkinError(f"{name}: `{score}` must hold a number in every row, but {column.null_count} are empty.")
        try:
            values[:, k] = column.to_numpy(zero_copy_only=False)
        except (TypeError, ValueError) as error:
            raise SoftkinError(f"{name}: `{score}` must hold numbers, got {column.type}.") from error
    return Block(
        checks.as_tensor(values, "scores"), *(_plain(batch, key, name) for key in (columns.labels, columns.ids))
    )


def _common(batch: Any, columns: Sequence[str]) -> Any:
    kinds = {str(batch.schema.field(column).type) for column in columns}
    return np.float32 if kinds <= {"float", "halffloat"} else np.float64


def _plain(batch: Any, column: str | None, name: str) -> NDArray[Any] | list[Any] | None:
    """A column of numbers as an array, of texts as a list."""
    if column is None:
        return None
    cells = batch.column(column)
    if cells.null_count:
        raise SoftkinError(f"{name}: `{column}` must be filled in every row, but {cells.null_count} are empty.")
    values: NDArray[Any] = cells.to_numpy(zero_copy_only=False)
    return values.tolist() if values.dtype.kind == "O" else values


def open_parquet(file: IO[bytes], name: str, kind: ScoreKind | None) -> PredictionFile:
    """A parquet file, with a column of lists or one for each class; read a row group at a time."""
    import pyarrow.parquet as pq

    opened = pq.ParquetFile(file, page_checksum_verification=True)  # where the file has checksums
    schema, num_rows = opened.schema_arrow, opened.metadata.num_rows
    if num_rows == 0:
        raise SoftkinError(f"{name} must hold at least one row, it holds none.")
    header = schema.names
    lists = [column for column in header if _is_list(schema.field(column).type)]
    labels, ids = formats.named(header, formats.LABELS), formats.named(header, formats.IDS)
    part: str | None = None
    if lists:
        part, kind = formats.choose(lists, [column for column in lists if column not in (labels, ids)], kind, name)
        wanted, class_names = [part, *(key for key in (labels, ids) if key)], _label_names(schema.metadata, labels)
        num_classes = len(next(opened.iter_batches(1, columns=[part])).column(0)[0])
        if num_classes == 0:
            raise SoftkinError(f"{name}: `{part}` must hold at least one number in every row, the first holds none.")
    else:
        columns = _columns(header, kind, name)
        kind, wanted = columns.kind, [*columns.scores, *(key for key in (columns.labels, columns.ids) if key)]
        class_names, num_classes = columns.class_names, len(columns.scores)
    size = file.seek(0, os.SEEK_END)  # equal numbers take next to no room, and rows without end would take for ever
    files.unpacked_within(size, num_rows * num_classes * 8, name)

    def blocks(rows: int) -> Iterator[Block]:
        for batch in opened.iter_batches(rows, columns=wanted, use_threads=False):
            if part is None:
                yield _block(batch, columns, name)
                continue
            values = _from_lists(batch.column(part), num_classes, part, name)
            yield Block(checks.as_tensor(values, part), *(_plain(batch, key, name) for key in (labels, ids)))

    return PredictionFile(name, kind, num_classes, num_rows, blocks, class_names, columns_named=part is None)


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _from_lists(column: Any, num_classes: int, part: str, name: str) -> NDArray[Any]:
    import pyarrow.compute as pc

    lengths = pc.list_value_length(column)
    if column.null_count or pc.min_max(lengths).as_py() != {"min": num_classes, "max": num_classes}:
        raise SoftkinError(f"{name}: `{part}` must hold {num_classes} numbers in every row, but some rows differ.")
    flat = column.flatten()
    if flat.null_count:
        raise SoftkinError(f"{name}: `{part}` must hold numbers only, but {flat.null_count} are missing.")
    values: NDArray[Any] = flat.to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "iuf":
        raise SoftkinError(f"{name}: `{part}` must hold numbers, got {column.type}.")
    return values.reshape(-1, num_classes)


def _label_names(metadata: dict[bytes, bytes] | None, labels: str | None) -> list[str] | None:
    """The class names that a Hugging Face data set keeps with its column of labels."""
    try:
        features = files.parse_json((metadata or {})[b"huggingface"], "the schema", "JSON")["info"]["features"]
        names: list[str] = features[labels]["names"]
    except (SoftkinError, KeyError, TypeError):
        return None
    return names


def open_jsonl(file: IO[bytes], name: str, kind: ScoreKind | None) -> PredictionFile:
    """One JSON object a line, with the scores as a list or by class name."""
    _, first = next(_objects(file, name), (0, None))
    if first is None:
        raise SoftkinError(f"{name} must hold at least one line, it holds none.")
    keys = list(first)
    labels, ids = formats.named(keys, formats.LABELS), formats.named(keys, formats.IDS)
    others = [key for key in keys if isinstance(first[key], list | dict) and key not in (labels, ids)]
    part, kind = formats.choose(keys, others, kind, name)
    scores = first[part]
    if not isinstance(scores, list | dict) or not scores:
        raise SoftkinError(f"{name}: `{part}` must be a list of numbers, or numbers by class name, got {scores!r:.50}.")
    names = list(scores) if isinstance(scores, dict) else None
    known = set(scores) if isinstance(scores, dict) else set()

    def row(number: int, content: Mapping[str, Any]) -> list[Any]:
        values = content.get(part)
        if names is not None and isinstance(values, dict) and values.keys() == known:
            return [values[class_name] for class_name in names]
        if names is None and isinstance(values, list) and len(values) == len(scores):
            return values
        raise SoftkinError(f"{name}, line {number}: `{part}` must have the {len(scores)} classes of the first line.")

    def blocks(rows: int) -> Iterator[Block]:
        lines = _objects(file, name)
        while chunk := list(islice(lines, rows)):
            try:
                values = np.array([row(number, content) for number, content in chunk], dtype=np.float64)
                picked = [None if key is None else [content[key] for _, content in chunk] for key in (labels, ids)]
            except KeyError as error:
                raise SoftkinError(f"{name}: every line must have {error}, as the first has.") from None
            except (TypeError, ValueError, OverflowError) as error:
                raise SoftkinError(f"{name}: `{part}` must hold numbers only: {files.cause(error)}.") from error
            yield Block(checks.as_tensor(values, part), *picked)

    return PredictionFile(name, kind, len(scores), None, blocks, names, columns_named=names is not None)


def _objects(file: IO[bytes], name: str) -> Iterator[tuple[int, Any]]:
    """(line number, object) of each line that is not empty."""
    file.seek(0)
    for number, line in enumerate(iter(lambda: file.readline(LINE), b""), start=1):
        if not line.strip():
            continue
        if len(line) == LINE:
            raise SoftkinError(f"{name}, line {number} must be shorter than {LINE:,} bytes.")
        content = files.parse_json(line, f"{name}, line {number}", "JSON")
        if not isinstance(content, dict):
            raise SoftkinError(f"{name}, line {number} must be a JSON object, got {type(content).__name__}.")
        yield number, content
