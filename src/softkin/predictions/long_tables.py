"""Tables with a row for each sample and class: the rows of a sample are brought together."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from softkin import SoftkinError
from softkin._core.names import spelling
from softkin._io import roles
from softkin._io.arrow import table_of
from softkin._io.tables import Table
from softkin.predictions import inference
from softkin.predictions.request import Reading

CLASSES = ("class", "class_name", "label", "category", "candidate", "option", "name", "variable")
TRUTH = ("is_true", "is_correct", "correct", "is_label", "truth", "y", "y_true", "target", "actual", "label", "true")


def widened(table: Table, reading: Reading) -> Table | None:
    """The table with a column for each class; None if it does not have a row for each sample and class.

    It has if there is a column of ids, one of class names and one of scores, and nearly all of the first ids stand in
    as many consecutive rows as there are classes, once beside each of them.

    Raises:
        SoftkinError: Some later id has other classes.
    """
    stated = (reading.class_columns, reading.positive_class, reading.score, reading.outcome, reading.label_column)
    ids = roles.find([column for column in table.columns if table.columns[column] in ("number", "text")], "id")
    if ids is None or not table.has_header or any(option is not None for option in stated):
        return None
    head = table.head([column for column, kind in table.columns.items() if kind in ("number", "text")])
    names = next((c for c in head if table.columns[c] == "text" and roles.plain(c) in CLASSES and c != ids), None)
    numbers = [c for c in head if table.columns[c] == "number" and c != ids]
    scores = [c for c in numbers if not all(cell is None or float(cell).is_integer() for cell in head[c])]
    if names is None or len(scores) != 1:
        return None
    groups = _groups(head[ids])[:-1]  # the last may be cut off
    if len(groups) < 2 or len(groups[0]) < 2:
        return None
    classes = [spelling(head[names][row]) for row in groups[0]]
    if len(set(classes)) != len(classes):
        return None
    whole = [rows for rows in groups if sorted(spelling(head[names][row]) for row in rows) == sorted(classes)]
    if len(groups) - len(whole) > len(groups) / 10:
        return None  # a few are an error
    groups = whole
    called = roles.kind_in_words(scores[0]) or roles.role_of(scores[0]) in ("score", "confidence", "prediction")
    if not called and not inference.sums_to_one(_matrix(head[scores[0]], groups)):
        return None  # distances, ranks
    truth = _truth(head, [c for c in head if c not in (ids, names, scores[0])], names, groups)
    return _brought_together(table, ids, names, scores[0], truth)


def _matrix(cells: Sequence[Any], groups: list[list[int]]) -> Tensor:
    rows = [[math.nan if cells[row] is None else float(cells[row]) for row in own] for own in groups]
    return torch.tensor(rows, dtype=torch.float64)


def _groups(cells: Sequence[Any]) -> list[list[int]]:
    """The rows of each run of equal cells."""
    return [[row for row, _ in run] for _, run in groupby(enumerate(cells), key=lambda pair: pair[1])]


def _truth(head: dict[str, list[Any]], columns: Sequence[str], names: str, groups: list[list[int]]) -> str | None:
    """The column that names the true class in each row of a sample, or has its 1 beside it."""
    known = {spelling(cell) for cell in head[names]}
    found = []
    for column in columns:
        cells = [[head[column][row] for row in rows] for rows in groups]
        named = all(len({spelling(cell) for cell in own}) == 1 and spelling(own[0]) in known for own in cells)
        marked = all(sorted(map(_flag, own)) == [0] * (len(own) - 1) + [1] for own in cells)
        if (named or marked) and roles.leaning(column) != "prediction" and roles.role_of(column) != "prediction":
            found.append(column)
    called = [column for column in found if roles.plain(column) in TRUTH or roles.role_of(column) == "label"]
    return found[0] if len(found) == 1 else called[0] if len(called) == 1 else None


def _flag(cell: Any) -> int:
    return {"1": 1, "true": 1, "yes": 1, "0": 0, "false": 0, "no": 0}.get(spelling(cell), 2)


def _brought_together(table: Table, ids: str, names: str, score: str, truth: str | None) -> Table:
    """A row for each sample, in memory."""
    import pyarrow as pa

    wanted = [ids, names, score, *([] if truth is None else [truth])]
    rows = list(table.cells(*wanted))
    groups = _groups([row[0] for row in rows])
    classes = [str(rows[row][1]) for row in groups[0]]
    columns: dict[str, list[Any]] = {name: [] for name in classes}
    known, labels = [], []
    for own in groups:
        by_name = {str(rows[row][1]): rows[row] for row in own}
        if by_name.keys() != columns.keys() or len(own) != len(classes):
            raise SoftkinError(
                f"{table.name} has a row for each sample and class, but {table.place(own[0])} begins a sample, "
                f"{rows[own[0]][0]}, that does not have each of the {len(classes)} classes {inference.shown(classes)} "
                "once."
            )
        for name, row in by_name.items():
            columns[name].append(None if row[2] is None else float(row[2]))
        known.append(str(rows[own[0]][0]))
        if truth is not None:
            marked = [name for name, row in by_name.items() if _flag(row[3]) == 1]
            labels.append(
                str(rows[own[0]][3]) if _flag(rows[own[0]][3]) == 2 else marked[0] if len(marked) == 1 else None
            )
    word = roles.kind_in_words(score) or "score"
    held = {"id": known} | {f"{word}_{name}": cells for name, cells in columns.items()}
    wide = table_of(pa.table(held if truth is None else held | {"label": labels}), table.name)
    why = f"{table.name} has a row for each sample and class; the {len(classes)} rows of each `{ids}` are joined"
    lost = "" if truth is not None else ", and none of its columns is read as the labels"
    return replace(wide, assumed=(*table.assumed, f"{why}{lost}."))
