"""Tables with a column of labels and a column of images or text, of any format that is read as a table.

Texts become hashed word counts. Word w is counted at index crc32(w) mod 4096, so that no vocabulary has to be learnt,
stored or shipped. Words with the same index share a count. scikit-learn's ``HashingVectorizer`` has another hash, so
that cached data and trained networks would change, and gives sparse matrices of floats, which would have to be made
dense here.
"""

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softkin import SoftkinError
from softkin._io import cache, files, roles
from softkin._io import tables as table_files
from softkin._io.tables import Table, counted
from softkin.lab.data import decoding
from softkin.lab.data.folders import named
from softkin.lab.data.labelled import OUT_OF_SCOPE, SUPERCLASSES, WHOLE, DataSource, canonical, is_part, numbered
from softkin.lab.data.store import Content

PLACES = 4096
TOGETHER = 1024  # texts per chunk: 4 MiB

_WORD = re.compile(r"\w+(?:['’]\w+)?")


def words(text: str) -> list[str]:
    """The words of a text, lower-cased.

    >>> words("What's my balance, please?")
    ["what's", 'my', 'balance', 'please']
    """
    return _WORD.findall(text.lower().replace("’", "'"))


def counts(texts: Sequence[str]) -> NDArray[np.uint8]:
    """Word counts (N, 4096); a count above 255 is stored as 255."""
    result = np.zeros((len(texts), PLACES), dtype=np.uint8)
    for row, text in zip(result, texts, strict=True):
        for word in words(text):
            place = zlib.crc32(word.encode("utf-8", "surrogatepass")) % PLACES
            row[place] += row[place] < 255
    return result


def pieces(texts: Sequence[str]) -> Iterator[NDArray[np.uint8]]:
    """``counts`` in chunks."""
    for start in range(0, len(texts), TOGETHER):
        yield counts(texts[start : start + TOGETHER])


TEXT_FORMS = ("csv", "tsv", "jsonl", "json")  # which hold no images

_WHOLE = re.compile(r"\s*[+-]?\d+(\.0*)?\s*")
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
    found = (file for file in folder.iterdir() if table_files.form_of(file) not in (None, "json") and file.is_file())
    # A .json beside tables describes them, and a file of super-classes describes their classes.
    return sorted(file for file in found if file.name != SUPERCLASSES)


def _part_of(file: Path) -> str:
    stem = _SHARD.sub("", file.name.partition(".")[0])
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
        written = dict.fromkeys(canonical(str(part)) for part in _cells(paths, columns.part)[0])
        parts = [part for part in written if not part.startswith(OUT_OF_SCOPE)]
    if not columns.are_images and _classes(paths, columns).outside is not None:
        parts.append(OUT_OF_SCOPE)
    return parts


def _columns(path: Path) -> Columns:
    names = list(_opened(path).columns)
    label = roles.find(names, "label")
    if label is None:
        raise SoftkinError(f"{path} must have a column {roles.listed('label', 20)}, it has {', '.join(names[:20])}.")
    rest = [name for name in names if name != label]
    image = roles.find(rest, "image")
    value = image or roles.find(rest, "text")
    if value is None or (image is not None and table_files.form_of(path) in TEXT_FORMS):
        raise SoftkinError(
            f"{path} must have a column of images (parquet only; {roles.listed('image')}) or of text "
            f"({roles.listed('text')}), it has {', '.join(names[:20])}."
        )
    return Columns(label, value, image is not None, "split" if "split" in names else None)


def _opened(path: Path) -> Table:
    """The table, refused if it is a text that would not fit in memory."""
    if table_files.form_of(path) in TEXT_FORMS:
        files.within("bytes", files.require_regular(path), str(path))
    return table_files.open_table(path)


def _cells(paths: Sequence[Path], *names: str) -> list[list[Any]]:
    """All cells of some columns of several files; numbers that a file writes as text are numbers again."""
    columns: list[list[Any]] = [[] for _ in names]
    for path in paths:
        rows = list(_opened(path).cells(*names))
        for place, column in enumerate(columns):
            own = [row[place] for row in rows]
            column += own if names[place] in roles.NAMES["text"] else _numbers(own)
    return columns


def _numbers(cells: list[Any]) -> list[Any]:
    """Whole numbers, if all texts are written ones; empty cells are None."""
    missing = [cell is None or cell in table_files.EMPTY for cell in cells]
    there = [cell for cell, is_missing in zip(cells, missing, strict=True) if not is_missing]
    if not there or not all(isinstance(cell, str) and _WHOLE.fullmatch(cell) for cell in there):
        return cells
    return [None if is_missing else int(float(cell)) for cell, is_missing in zip(cells, missing, strict=True)]


@dataclass(frozen=True)
class Classes:
    """The meaning of the cells in the label column."""

    names: list[str]
    place: Mapping[Any, int]
    """The class number of each cell."""
    outside: Any
    """The cell that marks out-of-scope samples, which are no class; None if there is none."""


def _classes(paths: Sequence[Path], columns: Columns) -> Classes:
    known = _opened(paths[0]).names_of(columns.label)
    if known is None:
        (labels,) = _cells(paths, columns.label)
        cells = {cell for cell in labels if cell is not None}
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
    by_part = part not in tables and part != OUT_OF_SCOPE and columns.part is not None
    wanted = [
        columns.label,
        *([] if columns.are_images else [columns.value]),
        *([columns.part or ""] if by_part else []),
    ]
    cells, *others = _cells(own, *wanted)
    rows = np.array([(classes.outside is not None and cell == classes.outside) for cell in cells], dtype=bool)
    rows = rows if part == OUT_OF_SCOPE else ~rows
    if by_part:
        rows &= np.array([canonical(str(cell)) == part for cell in others[-1]], dtype=bool)
    where = np.flatnonzero(rows).tolist()
    if not where:
        raise SoftkinError(f"{own[0]} must hold samples, got none.")
    labels = np.zeros(len(where), dtype=np.int64)
    if part != OUT_OF_SCOPE:
        labels = _labels([cells[row] for row in where], classes, own[0], columns.label)
    if columns.are_images:
        encoded = _encoded(own, columns.value, rows)
        return Content(
            labels, names, "images", decoding.decoded(encoded, total=len(where), size=size, progress=progress)
        )
    texts = [str(others[0][row]) if others[0][row] is not None else "" for row in where]
    return Content(labels, names, "text", pieces(texts), texts)


def _labels(cells: Sequence[Any], classes: Classes, path: Path, column: str) -> NDArray[np.int64]:
    try:
        return np.array([classes.place[cell] for cell in cells], dtype=np.int64)
    except KeyError as error:
        raise SoftkinError(
            f"{path}: `{column}` must hold a class in every row, got {error.args[0]!r}; labels of −1 or nothing "
            "usually mean that the labels of a test set are hidden."
        ) from error


def _encoded(paths: Sequence[Path], column: str, rows: NDArray[np.bool_]) -> Iterator[decoding.Encoded]:
    """The bytes of each image, read a few at a time."""
    row = 0
    for path in paths:
        for place, (cell,) in enumerate(_opened(path).cells(column)):
            content = cell.get("bytes") if isinstance(cell, dict) else cell
            if not isinstance(content, bytes):
                raise SoftkinError(f"{path}, {counted(place)}: `{column}` holds no bytes of an image.")
            if rows[row]:
                yield f"{path}: image {row}", content
            row += 1
