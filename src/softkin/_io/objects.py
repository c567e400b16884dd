"""Tables of JSON: one object per line, an array of objects or of rows, or an object of lists.

The objects are parsed by Python, because the recursive parsers of C libraries crash on deep nesting.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from softkin import SoftkinError
from softkin._io import files, roles
from softkin._io.tables import HEAD, LINE, ColumnKind, Table, cell_text, counted, is_empty

NAMED = ("label", "class", "category", "intent", "name", "class_name", "label_name")
SCORED = ("score", "prob", "probability", "confidence", "logit")
"""The keys of one class and its score, as pipelines of transformers, BigQuery and services answer"""
LISTED = (("displayNames", "confidences"), ("classes", "scores"), ("labels", "scores"), ("labels", "probabilities"))
"""The keys of lists of class names and of their scores, as services answer"""
SHARES = ("confidences", "probabilities")
COLUMNS = 1000  # more are not looked for beyond the first object
CHUNK = 2**26  # bytes of objects that are held at a time
Positioned = tuple[str, dict[str, Any], int]
"""(position for messages, object, its bytes)"""
Objects = Callable[[], Iterator[Positioned]]
"""A function that restarts at the first object on each call."""


class ObjectRows:
    """Consecutive objects with their positions; ``name`` is the file's and ``unit`` one object's, for messages."""

    def __init__(self, objects: Sequence[Positioned], name: str, unit: str) -> None:
        self.objects, self.name, self.unit = objects, name, unit

    def __len__(self) -> int:
        return len(self.objects)

    def numbers(self, columns: Sequence[str]) -> NDArray[Any]:
        """(n, columns) numbers."""
        rows = zip(*(self.filled(column) for column in columns), strict=True)
        return self._array(list(rows), ", ".join(columns[:3]))

    def vectors(self, column: str, names: Sequence[str] | None, width: int) -> NDArray[Any]:
        """(n, width) numbers of lists, or of objects in the order of ``names``."""
        known = None if names is None else set(names)
        rows = []
        for where, content, _ in self.objects:
            cell = content.get(column)
            if names is not None and isinstance(cell, dict) and cell.keys() == known:
                rows.append([cell[name] for name in names])
            elif names is None and isinstance(cell, list) and len(cell) == width:
                rows.append(cell)
            else:
                what = f"`{column}` must have" if column else "it must have"
                raise SoftkinError(f"{where}: {what} the {width} classes of the first {self.unit}.")
        return self._array(rows, column)

    def _array(self, rows: Any, column: str) -> NDArray[Any]:
        try:
            return np.array(rows, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            what = f"{self.name}: `{column}`" if column else self.name
            raise SoftkinError(f"{what} must hold numbers only: {files.cause(error)}.") from error

    def filled(self, column: str) -> list[Any]:
        """The cells of a column that every object must have."""
        try:
            return [content[column] for _, content, _ in self.objects]
        except KeyError:
            raise SoftkinError(f"{self.name}: every {self.unit} must have {column!r}, as the first has.") from None

    def cells(self, column: str) -> list[Any]:
        """The cells of a column; one that an object lacks is None."""
        return [content.get(column) for _, content, _ in self.objects]

    def where(self, row: int) -> str:
        """The file and the place of an object, for messages."""
        return self.objects[row][0]

    def written(self, column: str) -> list[str]:
        """The cells of a column as the text of a CSV file."""
        return [cell_text(cell) for cell in self.cells(column)]

    def empty(self, column: str, words: Collection[str]) -> list[int]:
        """The rows whose cell holds nothing."""
        return [row for row, cell in enumerate(self.cells(column)) if is_empty(cell, words)]

    def some(self, rows: Sequence[int]) -> "ObjectRows":
        """Some of the rows."""
        return ObjectRows([self.objects[row] for row in rows], self.name, self.unit)


def open_jsonl(file: IO[bytes], name: str) -> Table:
    """A file with one JSON object per line."""

    def line_of(row: int) -> int:
        before = file.tell()
        number, _ = next(islice(_numbered(file), row, None))
        file.seek(before)
        return number

    return replace(_of_objects(lambda: _lines(file, name), name, "line"), line_of=line_of)


def open_json(file: IO[bytes], name: str) -> Table:
    """An array of objects, an array of rows of numbers, or one object whose keys hold lists of the same length."""
    content = _as_lists(files.parse_json(file.read(), name, "JSON"))
    class_names: dict[str, list[str]] = {}
    if isinstance(content, dict) and (key := _rows_below(content)) is not None:
        named = next((content[other] for other in roles.CLASS_NAMES if other in content), None)
        class_names = {"": named} if isinstance(named, list) and _are_texts(named) else {}
        content = content[key]
    if isinstance(content, dict) and content and all(isinstance(column, list) for column in content.values()):
        class_names = _class_names(content)
        content = _transposed(content, name)
    if not isinstance(content, list):
        raise SoftkinError(
            f"{name} must hold an array of objects or of rows, or an object of lists, got {type(content).__name__}."
        )
    if content and not isinstance(content[0], dict):
        content = _unnamed(content, name)

    def objects() -> Iterator[Positioned]:
        for place, row in enumerate(content):
            if not isinstance(row, dict):
                raise SoftkinError(f"{name}, {counted(place)} must be a JSON object, got {type(row).__name__}.")
            yield f"{name}, {counted(place)}", _by_name(row), 0

    return _of_objects(objects, name, "entry", class_names, len(content))


def _rows_below(content: dict[str, Any]) -> str | None:
    """The only key that holds an array of objects, beside others that describe the file."""
    found = [
        key
        for key, value in content.items()
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value)
    ]
    return found[0] if len(found) == 1 and len(content) > 1 else None


def _as_lists(content: Any) -> Any:
    """An object in which pandas writes a table by column, by index or split, as an array of rows or as lists."""
    if not isinstance(content, dict) or not content:
        return content
    values = list(content.values())
    if set(content) >= {"columns", "data"} and isinstance(content["data"], list):
        columns, rows = content["columns"], content["data"]
        if isinstance(columns, list) and all(isinstance(row, list) and len(row) == len(columns) for row in rows):
            return [dict(zip(map(str, columns), row, strict=True)) for row in rows]
    if all(isinstance(value, dict) and value.keys() == values[0].keys() for value in values) and values[0]:
        by_row = all(key.isdigit() for key in content) and not all(key.isdigit() for key in values[0])
        by_row = by_row or (_says_scores(values[0]) and not _says_scores(content))
        return values if by_row else {key: list(value.values()) for key, value in content.items()}
    return content


def _class_names(content: dict[str, list[Any]]) -> dict[str, list[str]]:
    """The names of the classes beside the lists of an object, which lose them."""
    rows = max(map(len, content.values()))
    for key in roles.CLASS_NAMES:
        if key in content and (key == "class_names" or (len(content[key]) < rows and _are_texts(content[key]))):
            return {"": content.pop(key)}
    return {}


def _are_texts(cells: Sequence[Any]) -> bool:
    return bool(cells) and all(isinstance(cell, str) for cell in cells)


def _transposed(columns: dict[str, list[Any]], name: str) -> list[dict[str, Any]]:
    """The rows of an object of lists; shorter lists describe something else than rows and are left out."""
    num_rows = max(map(len, columns.values()), default=0)
    labels = roles.find(columns, "label")
    if labels is not None and len(columns[labels]) != num_rows:
        raise SoftkinError(
            f"{name}: `{labels}` must have {num_rows:,} entries, one for each row, got {len(columns[labels]):,}."
        )
    whole = {key: column for key, column in columns.items() if len(column) == num_rows}
    return [dict(zip(whole, cells, strict=True)) for cells in zip(*whole.values(), strict=True)]


def _unnamed(content: list[Any], name: str) -> list[dict[str, Any]]:
    """Rows of numbers, or one number for each row, as a column without a name."""
    rows = [entry if isinstance(entry, list) else [entry] for entry in content]
    width = len(rows[0])
    if width == 0:
        raise SoftkinError(f"{name}, {counted(0)} must hold at least one number.")
    for place, (entry, row) in enumerate(zip(content, rows, strict=True)):
        if isinstance(entry, list) != isinstance(content[0], list) or len(row) != width:
            raise SoftkinError(f"{name}, {counted(place)} must be a list of {width} numbers, as the first is.")
    return [{"": row} for row in rows]


def _lines(file: IO[bytes], name: str) -> Iterator[Positioned]:
    """The object on each non-empty line."""
    for number, line in _numbered(file):
        where = f"{name}, line {number}"
        if len(line) == LINE:
            raise SoftkinError(f"{where} must be shorter than {LINE:,} bytes.")
        content = files.parse_json(line, where, "JSON")
        if not isinstance(content, dict):
            raise SoftkinError(f"{where} must be a JSON object, got {type(content).__name__}.")
        yield where, _by_name(content), len(line)


def _numbered(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """(number, content) of each non-empty line."""
    file.seek(0)
    for number, line in enumerate(iter(lambda: file.readline(LINE), b""), start=1):
        if line.strip():
            yield number, line


def _by_name(row: dict[str, Any]) -> dict[str, Any]:
    """The object with each list of labels and scores, as pipelines answer, as scores by label.

    Two lists, of labels and of their scores, are one such list; scores in an object of the object are lifted.
    """
    row = {key: _dense(cell) for key, cell in row.items()}
    if not _says_scores(row):
        row = _lifted(_answered(row))
    answers: dict[str, Any] = {}
    for key, cell in row.items():
        if isinstance(cell, list) and cell and isinstance(cell[0], dict) and len(cell[0]) == 2:
            label, score = (next((part for part in parts if part in cell[0]), None) for parts in (NAMED, SCORED))
            if label and score and all(isinstance(one, dict) and one.keys() == {label, score} for one in cell):
                ordered = sorted(cell, key=lambda answer: str(answer[label]))
                answers[key] = {answer[label]: answer[score] for answer in ordered}
    labels, scores = row.get("labels"), row.get("scores")
    if isinstance(labels, list) and isinstance(scores, list) and len(labels) == len(scores) > 1 and _are_texts(labels):
        if len(set(labels)) == len(labels):
            answers["scores"] = dict(sorted(zip(labels, scores, strict=True)))
        row = {key: cell for key, cell in row.items() if key != "labels"}
    return {**row, **answers} if answers else row


def _dense(cell: Any) -> Any:
    """A vector as Spark writes it, as a list; other cells as they are."""
    if not isinstance(cell, dict) or not {"type", "values"} <= cell.keys() <= {"type", "size", "indices", "values"}:
        return cell
    places, values, size = cell.get("indices"), cell["values"], cell.get("size")
    if not isinstance(places, list):
        return values
    if not isinstance(values, list) or not isinstance(size, int) or not len(places) == len(values) <= size <= COLUMNS:
        return cell
    if any(not isinstance(place, int) or not 0 <= place < size for place in places):
        return cell
    there = dict(zip(places, values, strict=True))
    return [there.get(k, 0.0) for k in range(size)]


def _answered(row: dict[str, Any]) -> dict[str, Any]:
    """The object with the answer and its score, where these are an object of their own, beside its other keys.

    A service's lists of class names and of their scores become scores by name, a language model's answers come from
    below, and the label from the object of the inputs.
    """
    for key, cell in row.items():
        one = cell[0] if isinstance(cell, list) and len(cell) == 1 else cell
        if not isinstance(one, dict):
            continue
        label, score = (next((part for part in parts if part in one), None) for parts in (NAMED, SCORED))
        is_score = score is not None and isinstance(one[score], int | float)
        if label and is_score and one.keys() == {label, score} and "score" not in row:
            answer, truth = one[label], row.get(roles.find([k for k in row if k != key], "label") or "")
            if isinstance(truth, int) and isinstance(answer, str) and answer.startswith("LABEL_"):
                answer = answer.removeprefix("LABEL_")  # of a network without names
            return {**row, key: answer, "score": one[score]}
        for names, scores in LISTED:
            known, values = one.get(names), one.get(scores)
            if not isinstance(known, list) or not isinstance(values, list) or not _are_texts(known):
                continue
            if len(set(known)) == len(known) == len(values) > 1:
                by_name = dict(sorted(zip(known, values, strict=True), key=lambda answer: answer[0]))
                return {**_flat(row), "probs" if scores in SHARES else scores: by_name}
        if (found := _below(one, "top_logprobs")) is not None and "top_logprobs" not in row:
            return {**_flat(row), "top_logprobs": found}
    return row


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """The texts and numbers of an object and of the objects in it, such as the inputs of a model."""
    inner = [cell for cell in row.values() if isinstance(cell, dict)]
    return {key: cell for part in (*inner, row) for key, cell in part.items() if isinstance(cell, str | int | float)}


def _below(content: Any, key: str, depth: int = 8) -> Any:
    """What stands under a key at any depth, through objects and lists of one entry; None if nothing does."""
    if isinstance(content, list):
        content = content[0] if len(content) == 1 else None
    if not isinstance(content, dict) or depth == 0:
        return None
    if isinstance(content.get(key), list | dict):
        return content[key]
    return next((found for part in content.values() if (found := _below(part, key, depth - 1)) is not None), None)


def _says_scores(row: Mapping[str, Any]) -> bool:
    """Whether a key of an object says logits or probabilities, as a list or by name."""
    return any(
        isinstance(cell, list | dict) and any(key.lower() in words for words in roles.KINDS.values())
        for key, cell in row.items()
    )


def _lifted(row: dict[str, Any]) -> dict[str, Any]:
    """The object with the scores of the only object in it that has some."""
    inner = [cell for cell in row.values() if isinstance(cell, dict)]
    deeper = [cell for part in inner for cell in part.values() if isinstance(cell, dict)]
    found = [cell for cell in inner if _says_scores(cell)] or [cell for cell in deeper if _says_scores(cell)]
    if len(found) != 1:
        return row
    words = {word for words in roles.KINDS.values() for word in words}
    return row | {key: cell for key, cell in found[0].items() if key.lower() in words and key not in row}


def _of_objects(
    objects: Objects,
    name: str,
    unit: str,
    class_names: Mapping[str, list[str]] | None = None,
    num_rows: int | None = None,
) -> Table:
    first = [content for _, content, _ in _chunk(objects(), HEAD, 2**20)]
    if not first:
        raise SoftkinError(f"{name} must hold at least one {unit}, it holds none.")
    names = list(dict.fromkeys(key for content in first for key in content))
    names = names[: max(COLUMNS, len(first[0]))]
    files.within("classes", len(names), f"{name}, with a key for each class,")
    columns = {key: _kind([content.get(key) for content in first]) for key in names}

    def read(rows: int, numbers: Sequence[str], beside: Sequence[str]) -> Iterator[ObjectRows]:
        left = objects()
        while chunk := _chunk(left, rows, CHUNK):
            yield ObjectRows(chunk, name, unit)

    def sample(wanted: Sequence[str]) -> dict[str, list[Any]]:
        return {column: [content.get(column) for content in first] for column in wanted}

    return Table(name, columns, read, num_rows, class_names=class_names or {}, sample=sample)


def _chunk(objects: Iterator[Positioned], rows: int, most: int) -> list[Positioned]:
    """The next objects: so many, or fewer that have at least ``most`` bytes together."""
    chunk: list[Positioned] = []
    total = 0
    while len(chunk) < rows and total < most and (entry := next(objects, None)) is not None:
        chunk.append(entry)
        total += entry[2]
    return chunk


def _kind(cells: Sequence[Any]) -> ColumnKind:
    """The kind of the first cell that is there; numbers must be numbers in all."""
    there = [cell for cell in cells if cell is not None]
    first = there[0] if there else None
    if isinstance(first, str):
        return "text"
    if isinstance(first, list):
        return "list"
    if isinstance(first, dict):
        return "mapping"
    return "number" if there and all(isinstance(cell, int | float) for cell in there) else "other"
