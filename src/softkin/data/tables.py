"""Tables with a column of labels and one of images or text: parquet as Hugging Face data sets have it, CSV, JSONL."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softkin import SoftkinError, checks
from softkin.data import cache, images, text
from softkin.data.labelled import Content
from softkin.data.source import OUT_OF_SCOPE, WHOLE, Source, canonical, is_part
from softkin.data.wordnet import named

SUFFIXES = {".parquet", ".csv", ".jsonl"}
LABEL_COLUMNS = ("label", "fine_label", "labels", "target", "intent", "category", "class")
IMAGE_COLUMNS = ("image", "img", "images")
TEXT_COLUMNS = ("text", "sentence", "query", "utterance", "question", "review", "content")
BLOCK = 2**26  # bytes: a row of CSV or JSONL may be as long

_SHARD = re.compile(r"-\d+-of-\d+$")  # train-00003-of-00017.parquet is a piece of train


@dataclass(frozen=True)
class Columns:
    """Which columns are which; where there is no column of parts, the files are the parts."""

    label: str
    value: str
    are_images: bool
    part: str | None


def file_source(path: Path) -> Source:
    """One file; its parts are those of its column ``split``, where it has one."""
    return _source(path, {WHOLE: [path]}, path.name)


def folder_source(path: Path) -> Source | None:
    """Tables called train…, test… and so on, or in folders called so, perhaps one folder deeper; None if it is not."""
    parts = _parts_in(path)
    if not parts:
        below = [(folder.name, found) for folder in _folders(path) if (found := _parts_in(folder))]
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
            if is_part(inner.name) and (found := _tables(inner)):
                parts[canonical(inner.name)] = found
    return parts


def _folders(path: Path) -> list[Path]:
    return sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def _tables(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES and file.is_file())


def _part_of(file: Path) -> str:
    stem = _SHARD.sub("", file.stem)
    first = re.split(r"[-_.]", stem)[0]  # train-subset is of train
    return canonical(first) if canonical(first) in ("train", "validation", "test") else stem.lower()


def _source(root: Path, files: Mapping[str, Sequence[Path]], words: str) -> Source:
    every = [file for several in files.values() for file in several]
    words_file = (root if root.is_dir() else root.parent) / "words.txt"
    beside = [words_file] if words_file.is_file() else []
    digest = cache.content_digest(root, [*every, *beside])
    # Which parts a table has stands in its columns: read once, as its values are.
    parts = cache.remembered(f"parts of {digest}", lambda: _parts(files, every))

    def read(part: str, size: int | None, progress: bool | None) -> Content:
        return _read(files, _columns(every[0]), part, beside, size, progress)

    return Source(words, root, [*every, *beside], parts, read)


def _parts(files: Mapping[str, Sequence[Path]], every: Sequence[Path]) -> list[str]:
    columns, parts = _columns(every[0]), list(files)
    if columns.part is not None and parts == [WHOLE]:
        written = dict.fromkeys(canonical(str(part)) for part in _column(every, columns.part))
        parts = [part for part in written if not part.startswith(OUT_OF_SCOPE)]
    if not columns.are_images and _classes(every, columns).outside is not None:
        parts.append(OUT_OF_SCOPE)
    return parts


def _columns(path: Path) -> Columns:
    names = _schema(path).names
    label = next((name for name in LABEL_COLUMNS if name in names), None)
    if label is None:
        *first, last = (f"`{name}`" for name in LABEL_COLUMNS)
        raise SoftkinError(f"{path} must have a column {', '.join(first)} or {last}, it has {', '.join(names)}.")
    image = next((name for name in IMAGE_COLUMNS if name in names), None)
    value = image or next((name for name in TEXT_COLUMNS if name in names), None)
    if value is None or (image is not None and path.suffix.lower() != ".parquet"):
        raise SoftkinError(
            f"{path} must have a column of images (parquet only; {', '.join(IMAGE_COLUMNS)}) or of text "
            f"({', '.join(TEXT_COLUMNS)}), it has {', '.join(names)}."
        )
    return Columns(label, value, image is not None, "split" if "split" in names else None)


def _schema(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_schema(path) if path.suffix.lower() == ".parquet" else _table(path).schema
    except (pa.ArrowException, OSError) as error:
        raise SoftkinError(f"{path} could not be read as parquet: {error}.") from error


def _table(path: Path, columns: Sequence[str] | None = None) -> Any:
    """A whole table, or some of its columns."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.json
    import pyarrow.parquet as pq

    form = path.suffix.lower().lstrip(".")
    try:
        if form == "parquet":
            return pq.read_table(path, columns=columns)
        if form == "csv":
            table = pa.csv.read_csv(
                path,
                read_options=pa.csv.ReadOptions(block_size=BLOCK),
                parse_options=pa.csv.ParseOptions(newlines_in_values=True),
                convert_options=pa.csv.ConvertOptions(column_types=dict.fromkeys(TEXT_COLUMNS, pa.string())),
            )
        else:
            table = pa.json.read_json(path, read_options=pa.json.ReadOptions(block_size=BLOCK))
        return table if columns is None else table.select(columns)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise SoftkinError(f"{path} could not be read as {form}: {error}") from error


def _column(files: Sequence[Path], name: str) -> list[Any]:
    return [cell for file in files for cell in _table(file, [name])[name].to_pylist()]


def _known_names(path: Path, label: str) -> list[str] | None:
    """The class names that a Hugging Face data set carries along."""
    try:
        about = json.loads((_schema(path).metadata or {})[b"huggingface"])
        names = about["info"]["features"][label]["names"]
    except (KeyError, TypeError, ValueError):
        return None
    return [str(name) for name in names]


@dataclass(frozen=True)
class Classes:
    """What the cells of the label column mean."""

    names: list[str]
    place: Mapping[Any, int]
    """The class of each cell."""
    outside: Any
    """The cell that says out of scope, which is no class; None if there is none."""


def _classes(files: Sequence[Path], columns: Columns) -> Classes:
    known = _known_names(files[0], columns.label)
    if known is None:
        cells = {cell for cell in _column(files, columns.label) if cell is not None}
        if all(isinstance(cell, int) and not isinstance(cell, bool) for cell in cells):
            most = max(cells, default=-1)
            if most >= checks.MANY_CLASSES:
                raise SoftkinError(f"{files[0]}: `{columns.label}` must number the classes from 0 to K−1, got {most}.")
            pairs: list[tuple[Any, str]] = [(k, f"class {k}") for k in range(most + 1)]
        else:
            # The number 1 of one file and the text "1" of another, whose column has words too, are one class.
            pairs = sorted(((cell, str(cell)) for cell in cells), key=lambda pair: pair[1])
    else:
        pairs = list(enumerate(known))
    outside = None
    if not columns.are_images:
        outside = next((cell for cell, name in pairs if name == OUT_OF_SCOPE), None)
        pairs = [(cell, name) for cell, name in pairs if name != OUT_OF_SCOPE]
    if known is not None:  # whose numbers are the classes, whatever their names
        return Classes([name for _, name in pairs], {cell: k for k, (cell, _) in enumerate(pairs)}, outside)
    names = list(dict.fromkeys(name for _, name in pairs))
    return Classes(names, {cell: names.index(name) for cell, name in pairs}, outside)


def _read(
    files: Mapping[str, Sequence[Path]],
    columns: Columns,
    part: str,
    beside: Sequence[Path],
    size: int | None,
    progress: bool | None,
) -> Content:
    every = [file for several in files.values() for file in several]
    classes = _classes(every, columns)
    names = named(classes.names, beside[0]) if beside else classes.names
    own = files.get(part, every)
    cells = _column(own, columns.label)
    rows = np.array([(classes.outside is not None and cell == classes.outside) for cell in cells], dtype=bool)
    rows = rows if part == OUT_OF_SCOPE else ~rows
    if part not in files and part != OUT_OF_SCOPE and columns.part is not None:
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
    texts = [str(written[row]) if written[row] is not None else "" for row in where]
    return Content(labels, names, "text", text.pieces(texts), texts)


def _labels(cells: Sequence[Any], classes: Classes, path: Path, column: str) -> NDArray[np.int64]:
    try:
        return np.array([classes.place[cell] for cell in cells], dtype=np.int64)
    except KeyError as error:
        raise SoftkinError(
            f"{path}: `{column}` must hold a class in every row, got {error.args[0]!r}; labels of −1 or nothing are "
            "how data sets hide the labels of a test set."
        ) from error


def _encoded(files: Sequence[Path], column: str, rows: NDArray[np.bool_]) -> Iterator[images.Encoded]:
    """The bytes of each image, a few at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    row = 0
    for path in files:
        try:
            for batch in pq.ParquetFile(path).iter_batches(images.TOGETHER, columns=[column]):
                for cell in batch[column].to_pylist():
                    content = cell.get("bytes") if isinstance(cell, dict) else cell
                    if not isinstance(content, bytes):
                        raise SoftkinError(f"{path}: row {row} of `{column}` holds no bytes of an image.")
                    if rows[row]:
                        yield f"{path}: image {row}", content
                    row += 1
        except (pa.ArrowException, OSError) as error:
            raise SoftkinError(f"{path} could not be read as parquet: {error}") from error
