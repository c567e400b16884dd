"""Tables with a column of labels and a column of images or text: Hugging Face's parquet files, CSV and JSONL."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softkin import SoftkinError
from softkin._io import cache, files, parquet
from softkin.lab.data import images, text
from softkin.lab.data.labelled import Content, numbered
from softkin.lab.data.source import OUT_OF_SCOPE, WHOLE, DataSource, canonical, is_part
from softkin.lab.data.wordnet import named

SUFFIXES = {".parquet", ".csv", ".jsonl"}
LABEL_COLUMNS = ("label", "fine_label", "labels", "target", "intent", "category", "class")
IMAGE_COLUMNS = ("image", "img", "images")
TEXT_COLUMNS = ("text", "sentence", "query", "utterance", "question", "review", "content")
MOST_COLUMNS = 10_000  # of a CSV
BLOCK = 2**26  # bytes: the maximum length of a CSV or JSONL row

_SHARD = re.compile(r"-\d+-of-\d+$")  # train-00003-of-00017.parquet is a shard of train


@dataclass(frozen=True)
class Columns:
    """The role of each column; without a column of parts, each file is a part."""

    label: str
    value: str
    are_images: bool
    part: str | None


def file_source(path: Path) -> DataSource:
    """The source for one file; its parts come from the column ``split`` if it has one."""
    return _source(path, {WHOLE: [path]}, path.name)


def folder_source(path: Path) -> DataSource | None:
    """The source for tables named train…, test… and so on, or in folders so named, one level down or two; else None."""
    parts = _parts_in(path)
    if not parts:
        below = [(folder.name, inner) for folder in _folders(path) if (inner := _parts_in(folder))]
        if len(below) > 1:
            names = ", ".join(name for name, _ in below)
            raise SoftkinError(f"{path} holds several data sets: {names}; give one of these folders.")
        if not below:
            return None
        parts = below[0][1]
    if len(parts) == 1 and not set(parts) & {"train", "test", "validation"}:
        parts = {WHOLE: next(iter(parts.values()))}
    return _source(path, parts, path.name)


def _parts_in(folder: Path) -> dict[str, list[Path]]:
    parts: dict[str, list[Path]] = {}
    for file in _tables(folder):
        parts.setdefault(_part_of(file), []).append(file)
    if not parts:
        for inner in _folders(folder):
            if is_part(inner.name) and (tables := _tables(inner)):
                parts[canonical(inner.name)] = tables
    return parts


def _folders(path: Path) -> list[Path]:
    return sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def _tables(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES and file.is_file())


def _part_of(file: Path) -> str:
    stem = _SHARD.sub("", file.stem)
    first = re.split(r"[-_.]", stem)[0]  # train-subset belongs to train
    return canonical(first) if canonical(first) in ("train", "validation", "test") else stem.lower()


def _source(root: Path, tables: Mapping[str, Sequence[Path]], words: str) -> DataSource:
    paths = [path for several in tables.values() for path in several]
    words_file = (root if root.is_dir() else root.parent) / "words.txt"
    beside = [words_file] if words_file.is_file() else []
    digest = cache.content_digest(root, [*paths, *beside])
    # The parts of a table are listed in its column, which is read once, as its values are.
    parts = cache.remembered(f"parts of {digest}", lambda: _parts(tables, paths))

    def read(part: str, size: int | None, progress: bool | None) -> Content:
        return _read(tables, _columns(paths[0]), part, beside, size, progress)

    return DataSource(words, root, [*paths, *beside], parts, read)


def _parts(tables: Mapping[str, Sequence[Path]], paths: Sequence[Path]) -> list[str]:
    columns, parts = _columns(paths[0]), list(tables)
    if columns.part is not None and parts == [WHOLE]:
        written = dict.fromkeys(canonical(str(part)) for part in _column(paths, columns.part))
        parts = [part for part in written if not part.startswith(OUT_OF_SCOPE)]
    if not columns.are_images and _classes(paths, columns).outside is not None:
        parts.append(OUT_OF_SCOPE)
    return parts


def _columns(path: Path) -> Columns:
    names = _column_names(path)
    label = next((name for name in LABEL_COLUMNS if name in names), None)
    if label is None:
        *first, last = (f"`{name}`" for name in LABEL_COLUMNS)
        raise SoftkinError(f"{path} must have a column {', '.join(first)} or {last}, it has {', '.join(names[:20])}.")
    image = next((name for name in IMAGE_COLUMNS if name in names), None)
    value = image or next((name for name in TEXT_COLUMNS if name in names), None)
    if value is None or (image is not None and path.suffix.lower() != ".parquet"):
        raise SoftkinError(
            f"{path} must have a column of images (parquet only; {', '.join(IMAGE_COLUMNS)}) or of text "
            f"({', '.join(TEXT_COLUMNS)}), it has {', '.join(names[:20])}."
        )
    return Columns(label, value, image is not None, "split" if "split" in names else None)


def _column_names(path: Path) -> list[str]:
    form = path.suffix.lower().lstrip(".")
    with files.reading(path, form):
        if form == "parquet":
            return list(_parquet(path).schema_arrow.names)
        return list(_text_columns(path, *cache.stamp(path)))


def _parquet(path: Path) -> Any:
    return parquet.opened(path, files.require_regular(path), str(path))


@lru_cache(maxsize=4)
def _text_columns(path: Path, *_stamp: int) -> dict[str, list[Any]]:
    """All columns of a CSV or JSONL file, cached briefly because several are requested one after another."""
    if path.suffix.lower() == ".jsonl":
        return _jsonl(path)
    import pyarrow as pa
    from pyarrow import csv

    files.within("bytes", files.require_regular(path), str(path))
    with files.open_file(path) as file:  # all columns are parsed, also those that nobody uses
        columns = 1 + file.readline(BLOCK).count(b",")
    if columns > MOST_COLUMNS:
        raise SoftkinError(f"{path} must have at most {MOST_COLUMNS:,} columns, its first line has {columns:,}.")
    table = csv.read_csv(
        path,
        read_options=csv.ReadOptions(block_size=BLOCK),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(column_types=dict.fromkeys(TEXT_COLUMNS, pa.string())),
    )
    twice = next((name for name, count in Counter(table.column_names).items() if count > 1), None)
    if twice is not None:
        raise SoftkinError(f"{path} must name each column once, but `{twice}` appears twice.")
    return {name: table[name].to_pylist() if name in _USED else [] for name in table.column_names}


_USED = frozenset((*LABEL_COLUMNS, *IMAGE_COLUMNS, *TEXT_COLUMNS, "split"))


def _jsonl(path: Path) -> dict[str, list[Any]]:
    """Columns of a file with one object per line; missing keys are None. Recursive C parsers crash on deep nesting."""
    columns: dict[str, list[Any]] = {}
    rows = 0
    with files.open_file(path) as file:
        files.within("bytes", files.require_regular(path), str(path))
        for number, line in enumerate(iter(lambda: file.readline(BLOCK), b""), start=1):
            if len(line) == BLOCK:
                raise SoftkinError(f"{path}, line {number} must be shorter than {BLOCK:,} bytes.")
            if not line.strip():
                continue
            content = files.parse_json(line, f"{path}, line {number}", "jsonl")
            if not isinstance(content, dict):
                raise SoftkinError(f"{path}, line {number} must be a JSON object, got {type(content).__name__}.")
            for name in content:
                if name not in columns and len(columns) < 1000:
                    columns[name] = [None] * rows if name in _USED else []
            for name in _USED.intersection(columns):
                columns[name].append(content.get(name))
            rows += 1
    if not rows:
        raise SoftkinError(f"{path} must hold at least one line, it holds none.")
    return columns


def _column(paths: Sequence[Path], name: str) -> list[Any]:
    return [cell for path in paths for cell in _cells(path, name)]


def _cells(path: Path, name: str) -> Iterator[Any]:
    """The cells of a column in order."""
    form = path.suffix.lower().lstrip(".")
    with files.reading(path, form):
        if form != "parquet":
            yield from _text_columns(path, *cache.stamp(path))[name]
            return
        yield from parquet.column(_parquet(path), files.require_regular(path), name, f"{path}: `{name}`")


def _known_names(path: Path, label: str) -> list[str] | None:
    """The class names stored in the file's metadata by Hugging Face."""
    if path.suffix.lower() != ".parquet":
        return None
    try:
        with files.reading(path, "parquet"):
            metadata = _parquet(path).schema_arrow.metadata or {}
        names = files.parse_json(metadata[b"huggingface"], path, "JSON")["info"]["features"][label]["names"]
    except (SoftkinError, KeyError, TypeError):
        return None
    return [str(name) for name in names] if isinstance(names, list) else None


@dataclass(frozen=True)
class Classes:
    """The meaning of the cells in the label column."""

    names: list[str]
    place: Mapping[Any, int]
    """The class number of each cell."""
    outside: Any
    """The cell that marks out-of-scope samples, which are no class; None if there is none."""


def _classes(paths: Sequence[Path], columns: Columns) -> Classes:
    known = _known_names(paths[0], columns.label)
    if known is None:
        cells = {cell for cell in _column(paths, columns.label) if cell is not None}
        if all(isinstance(cell, int) and not isinstance(cell, bool) for cell in cells):
            most = max(cells, default=-1)
            pairs: list[tuple[Any, str]] = list(enumerate(numbered(most + 1, f"{paths[0]}, by its `{columns.label}`,")))
        else:
            # The number 1 in one file and the text "1" in another, whose column also has words, are the same class.
            pairs = sorted(((cell, str(cell)) for cell in cells), key=lambda pair: pair[1])
    else:
        pairs = list(enumerate(known))
    outside = None
    if not columns.are_images:
        outside = next((cell for cell, name in pairs if name == OUT_OF_SCOPE), None)
        pairs = [(cell, name) for cell, name in pairs if name != OUT_OF_SCOPE]
    if known is not None:  # the numbers are the classes, whatever the names
        return Classes([name for _, name in pairs], {cell: k for k, (cell, _) in enumerate(pairs)}, outside)
    place = {name: k for k, name in enumerate(dict.fromkeys(name for _, name in pairs))}
    return Classes(list(place), {cell: place[name] for cell, name in pairs}, outside)


def _read(
    tables: Mapping[str, Sequence[Path]],
    columns: Columns,
    part: str,
    beside: Sequence[Path],
    size: int | None,
    progress: bool | None,
) -> Content:
    paths = [path for several in tables.values() for path in several]
    classes = _classes(paths, columns)
    names = named(classes.names, beside[0]) if beside else classes.names
    own = tables.get(part, paths)
    cells = _column(own, columns.label)
    rows = np.array([(classes.outside is not None and cell == classes.outside) for cell in cells], dtype=bool)
    rows = rows if part == OUT_OF_SCOPE else ~rows
    if part not in tables and part != OUT_OF_SCOPE and columns.part is not None:
        rows &= np.array([canonical(str(cell)) == part for cell in _column(own, columns.part)], dtype=bool)
    where = np.flatnonzero(rows).tolist()
    if not where:
        raise SoftkinError(f"{own[0]} must hold samples, got none.")
    labels = np.zeros(len(where), dtype=np.int64)
    if part != OUT_OF_SCOPE:
        labels = _labels([cells[row] for row in where], classes, own[0], columns.label)
    if columns.are_images:
        encoded = _encoded(own, columns.value, rows)
        return Content(labels, names, "images", images.decoded(encoded, total=len(where), size=size, progress=progress))
    written = _column(own, columns.value)
    _text_columns.cache_clear()
    texts = [str(written[row]) if written[row] is not None else "" for row in where]
    return Content(labels, names, "text", text.pieces(texts), texts)


def _labels(cells: Sequence[Any], classes: Classes, path: Path, column: str) -> NDArray[np.int64]:
    try:
        return np.array([classes.place[cell] for cell in cells], dtype=np.int64)
    except KeyError as error:
        raise SoftkinError(
            f"{path}: `{column}` must hold a class in every row, got {error.args[0]!r}; labels of −1 or nothing "
            "usually mean that the labels of a test set are hidden."
        ) from error


def _encoded(paths: Sequence[Path], column: str, rows: NDArray[np.bool_]) -> Iterator[images.Encoded]:
    """The bytes of each image, read a few at a time."""
    row = 0
    for path in paths:
        for cell in _cells(path, column):
            content = cell.get("bytes") if isinstance(cell, dict) else cell
            if not isinstance(content, bytes):
                raise SoftkinError(f"{path}: row {row} of `{column}` holds no bytes of an image.")
            if rows[row]:
                yield f"{path}: image {row}", content
            row += 1
