"""Predictions in parquet, CSV and TSV tables, with one column per class or one column of lists."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from softkin import SoftkinError
from softkin._core import checks
from softkin._io import arrays, escape, files, parquet
from softkin.predictions import formats
from softkin.predictions.formats import Block, PredictionFile, Reading, ScoreKind

LINE = 2**26  # maximum bytes per line of text: the maximum number of classes at 500 letters each
INDEX = ("", "Unnamed: 0", "__index_level_0__")  # names that pandas gives to a column of row numbers
NO_CLASSES = (  # columns that often stand beside the scores and would be mistaken for classes
    *formats.LABELS, *formats.IDS, "index", "y", "y_pred", "pred", "preds", "prediction", "predictions", "predicted",
    "predicted_label", "pred_label", "true_label", "confidence", "correct", "split", "fold",
)  # fmt: skip


ONE_SCORE = ("score", "scores", "y_score", "y_prob", "y_proba")  # usual names of a binary model's single column


@dataclass(frozen=True)
class Columns:
    """The roles of the columns in a table with one column per class."""

    scores: list[str]
    class_names: list[str]
    kind: ScoreKind
    labels: str | None
    ids: str | None
    texts: str | None

    @property
    def beside(self) -> list[str]:
        """The columns that are read in addition to the scores."""
        return [column for column in (self.labels, self.ids, self.texts) if column is not None]


def columns_of(header: Sequence[str], reading: Reading, name: str, *, textual: Sequence[str] = ()) -> Columns:
    """Find labels, ids and texts by name; all other columns are classes. Prefixes as in ``probs_cat`` state the kind.

    Args:
        header: The names of the columns.
        reading: Options that the caller states.
        name: The file's name, for errors.
        textual: The columns that do not hold numbers; a numeric column called "text" is a class.
    """
    files.within("classes", len(header), f"{name}, with a column for each class,")
    seen: set[str] = set()
    for column in header:
        if column in seen:
            raise SoftkinError(f"{name} must name each column once, but `{column}` appears twice.")
        seen.add(column)
    labels, ids = reading.label_part(header, name), formats.named(header, formats.IDS)
    texts = reading.text_part(header if reading.text_column else textual, name)
    scores = [column for column in header if column not in (labels, ids, texts, *INDEX)]
    if reading.positive_class is not None:
        score, of_score = _one_score(scores, reading, name)
        return Columns([score], [reading.positive_class], of_score, labels, ids, texts)
    kind = reading.kind
    words = "|".join(word for names in formats.NAMES.values() for word in names)
    pattern = re.compile(rf"({words})[ _.:/\[-]+(.+?)\]?", re.IGNORECASE | re.DOTALL)
    prefixed: dict[ScoreKind, list[tuple[str, str]]] = {"logits": [], "probs": []}
    for column in scores:
        match = pattern.fullmatch(column)
        own = None if match is None else formats.kind_in_words(match[1])
        if match is not None and own is not None:
            prefixed[own].append((column, match[2]))
    if all(prefixed.values()) and kind is None:
        raise SoftkinError(f"{name} holds columns of logits and of probs; type --logits or --probs to say which.")
    said: ScoreKind | None = kind if kind and prefixed[kind] else next((own for own in prefixed if prefixed[own]), None)
    if said is not None:  # columns with a prefix are the scores; other columns are ignored
        if kind not in (None, said):
            raise SoftkinError(f"{name} is said to hold {kind} (--{kind}), but its columns' names say {said}.")
        chosen = prefixed[said]
        return Columns([column for column, _ in chosen], [rest for _, rest in chosen], said, labels, ids, texts)
    in_name = formats.kind_in_words(Path(name).stem)
    if kind is not None and in_name not in (None, kind):
        raise SoftkinError(f"{name} is said to hold {kind} (--{kind}), but its name says {in_name}.")
    kind = kind or in_name
    if len(scores) < 2:
        hint = "; one score for each sample of a binary model needs --positive-class" if scores else ""
        raise SoftkinError(
            f"{name} must have a column for each class, or one of lists named `logits` or `probs`; "
            f"it has {', '.join(header[:10])}{hint}."
        )
    stray = next((column for column in scores if column.lower() in NO_CLASSES or column in textual), None)
    if stray is not None:
        classes = [column for column in scores if column.lower() not in NO_CLASSES and column not in textual]
        example = f"`{kind or 'logits'}_{(classes or scores)[0]}`"
        option = f"texts, say --text-column {stray!r}"
        if labels is None:
            option = f"the labels, say --label-column {stray!r}; if texts, --text-column {stray!r}"
        raise SoftkinError(
            f"{name} has a column `{stray}`, which does not look like a class; leave it out, or name the columns of "
            f"classes as {example}: then all others are ignored; if it holds {option}."
        )
    if kind is None:
        raise formats.unknown_kind(name, f"its columns {', '.join(scores[:3])}{' …' if len(scores) > 3 else ''}")
    return Columns(scores, scores, kind, labels, ids, texts)


def _one_score(columns: Sequence[str], reading: Reading, name: str) -> tuple[str, ScoreKind]:
    """The single column of a binary model's scores, and the kind of scores."""
    by_kind: list[tuple[str, ScoreKind | None]] = [(column, formats.kind_in_words(column)) for column in columns]
    named = [(column, said) for column, said in by_kind if said is not None or column.lower() in ONE_SCORE]
    candidates = named if len(named) == 1 else by_kind
    if len(candidates) != 1:
        held = ", ".join(columns[:10]) or "none"
        raise SoftkinError(f"{name} must have one column of scores beside its labels for --positive-class, got {held}.")
    column, said = candidates[0]
    if reading.kind is not None and said not in (None, reading.kind):
        raise SoftkinError(f"{name} is said to hold {reading.kind} (--{reading.kind}), but `{column}` says {said}.")
    kind = reading.kind or said or formats.kind_in_words(Path(name).stem)
    if kind is None:
        raise formats.unknown_kind(name, f"its `{column}`")
    return column, kind


def open_csv(file: IO[bytes], name: str, reading: Reading) -> PredictionFile:
    """Comma-separated values with a header, or semicolon-separated if the header is."""
    head = file.readline(LINE)
    file.seek(0)
    outside_quotes = re.sub(rb'"[^"]*"', b"", head)
    delimiter = ";" if outside_quotes.count(b";") > outside_quotes.count(b",") else ","
    return _separated(file, name, reading, delimiter)


def open_tsv(file: IO[bytes], name: str, reading: Reading) -> PredictionFile:
    """Tab-separated values with a header."""
    return _separated(file, name, reading, "\t")


def _separated(file: IO[bytes], name: str, reading: Reading, delimiter: str) -> PredictionFile:
    import pyarrow as pa
    from pyarrow import csv as pa_csv

    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        lines = csv.reader(iter(lambda: text.readline(LINE), ""), delimiter=delimiter)
        header = [column.strip() for column in next(lines, [])]
        header_lines = lines.line_num
        first = next(lines, [])
    finally:
        text.detach()  # closing the wrapper would close the file
    if not header or all(checks.is_number(column) for column in header):
        raise SoftkinError(f"{name} must begin with a header that names its columns, got {', '.join(header[:5])!r}.")
    # In files separated by semicolons, the decimal mark may be a comma.
    point = "," if delimiter == ";" and any(re.fullmatch(r"-?\d*,\d+([eE]-?\d+)?", cell) for cell in first) else "."
    textual = [
        column
        for column, cell in zip(header, first, strict=False)
        if (cell.strip() or column.lower() in formats.TEXTS) and not checks.is_number(cell.replace(point, "."))
    ]
    columns = columns_of(header, reading, name, textual=textual)
    types = dict.fromkeys(columns.scores, pa.float64())
    types |= dict.fromkeys(columns.beside, pa.string())

    def blocks(rows: int) -> Iterator[Block]:
        file.seek(0)
        reader = pa_csv.open_csv(
            file,
            pa_csv.ReadOptions(column_names=header, skip_rows=header_lines, block_size=2**22, use_threads=False),
            pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=columns.texts is not None),
            pa_csv.ConvertOptions(column_types=types, include_columns=list(types), decimal_point=point),
        )
        for batch in reader:
            for start in range(0, batch.num_rows, rows):
                block = _block(batch.slice(start, rows), columns, name)
                yield Block(block.values, block.labels, _unescaped(block.ids), _unescaped(block.texts))

    return PredictionFile(
        name, columns.kind, len(columns.scores), None, blocks, columns.class_names, columns_named=True
    )


def _unescaped(cells: Any) -> Any:
    """Texts without the leading quote that stops spreadsheets from reading them as formulas."""
    return [escape.from_csv_cell(cell) for cell in cells] if isinstance(cells, list) else cells


def _block(batch: Any, columns: Columns, name: str) -> Block:
    """Rows of a table with one column per class."""
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
        checks.as_tensor(values, "scores"),
        _plain(batch, columns.labels, name),
        _plain(batch, columns.ids, name),
        _strings(batch, columns.texts),
    )


def _common(batch: Any, columns: Sequence[str]) -> Any:
    kinds = {str(batch.schema.field(column).type) for column in columns}
    return np.float32 if kinds <= {"float", "halffloat"} else np.float64


def _plain(batch: Any, column: str | None, name: str) -> NDArray[Any] | list[Any] | None:
    """A numeric column as an array, a text column as a list."""
    if column is None:
        return None
    cells = batch.column(column)
    if cells.null_count:
        raise SoftkinError(f"{name}: `{column}` must be filled in every row, but {cells.null_count} are empty.")
    if parquet.is_text(cells.type):
        return parquet.cells(cells)[0]
    values: NDArray[Any] = cells.to_numpy(zero_copy_only=False)
    return values.tolist() if values.dtype.kind == "O" else values


def _strings(batch: Any, column: str | None) -> list[str] | None:
    """A column of texts; missing texts become empty."""
    return (
        None
        if column is None
        else ["" if cell is None else str(cell) for cell in parquet.cells(batch.column(column))[0]]
    )


def open_parquet(file: IO[bytes], name: str, reading: Reading) -> PredictionFile:
    """A parquet file with a column of lists or one column per class, read one row group at a time."""
    size = arrays.size_of(file)
    opened = parquet.opened(file, size, name)
    schema, num_rows = opened.schema_arrow, opened.metadata.num_rows
    if num_rows == 0:
        raise SoftkinError(f"{name} must hold at least one row, it holds none.")
    header = schema.names
    lists = [column for column in header if _is_list(schema.field(column).type)]
    textual = [column for column in header if parquet.is_text(schema.field(column).type)]
    labels, ids = reading.label_part(header, name), formats.named(header, formats.IDS)
    texts = reading.text_part(header if reading.text_column else textual, name)
    part: str | None = None
    if lists:
        others = [column for column in lists if column not in (labels, ids)]
        part, kind = formats.choose(lists, others, reading.kind, name)
        wanted = [part, *(key for key in (labels, ids, texts) if key)]
        class_names = _label_names(schema.metadata, labels)
        num_classes = len(next(opened.iter_batches(1, columns=[part])).column(0)[0])
        if num_classes == 0:
            raise SoftkinError(f"{name}: `{part}` must hold at least one number in every row, the first holds none.")
    else:
        columns = columns_of(header, reading, name, textual=[column for column in textual if column != labels])
        kind, wanted = columns.kind, [*columns.scores, *columns.beside]
        class_names, num_classes = columns.class_names, len(columns.scores)
    # Equal numbers compress to almost nothing, so a tiny file could claim endless rows.
    files.unpacked_within(size, num_rows * num_classes * 8, name)

    def blocks(rows: int) -> Iterator[Block]:
        texts_so_far = 0
        for batch in parquet.batches(opened, rows, wanted, name):
            texts_so_far += sum(parquet.cells(batch.column(column))[1] for column in textual if column in wanted)
            files.unpacked_within(size, texts_so_far, f"{name}: its texts")
            if part is None:
                yield _block(batch, columns, name)
                continue
            values = _from_lists(batch.column(part), num_classes, part, name)
            beside = (_plain(batch, labels, name), _plain(batch, ids, name), _strings(batch, texts))
            yield Block(checks.as_tensor(values, part), *beside)

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
    """The class names that a Hugging Face data set stores with its label column."""
    try:
        features = files.parse_json((metadata or {})[b"huggingface"], "the schema", "JSON")["info"]["features"]
        names: list[str] = features[labels]["names"]
    except (SoftkinError, KeyError, TypeError):
        return None
    return names
