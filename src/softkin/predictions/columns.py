"""What the first rows of a table say about its columns, before their roles are known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from softkin._core import checks
from softkin._core.names import spelling
from softkin._io import roles
from softkin._io.roles import Role, ScoreKind
from softkin._io.tables import BLOCK, Table
from softkin.predictions.blocks import Beside
from softkin.predictions.inference import shown
from softkin.predictions.request import Reading
from softkin.predictions.two_classes import plain

NO_CLASSES: tuple[Role, ...] = (
    "index", "id", "label", "prediction", "outcome", "score", "weight", "group", "time", "part", "measure",
)  # fmt: skip
"""Roles of columns that often stand beside the scores; such a column is a class only if labels or sums show it"""
FEW = 5  # rows: so few may sum to 1 by chance
LEAST = 20  # rows that show whether labels agree with scores
MANY = 2000  # columns: in more, no run of columns that sum to 1 is searched for


@dataclass(frozen=True)
class Columns:
    """The roles of the columns in a table with one column per class."""

    scores: list[str]
    class_names: list[str] | None
    kind: ScoreKind | None
    positive_class: str | None = None
    """The class that the name of a single column says it is of"""
    labels: str | None = None
    """The column of labels, where only the choice of the scores shows it"""
    assumed: list[str] = field(default_factory=list)

    def turned(self) -> "Columns":
        """The same with the classes in the opposite order."""
        names = None if self.class_names is None else self.class_names[::-1]
        return replace(self, scores=self.scores[::-1], class_names=names)


def spelled(table: Table, column: str) -> list[str]:
    """The cells of a column's first rows as names of classes are compared."""
    return [spelling(cell) for cell in table.head([column])[column]]


def counts_rows(cells: Sequence[Any]) -> bool:
    """Whether whole numbers count the rows, each one more than the last."""
    there = [float(cell) for cell in cells if cell is not None]
    return len(there) > 2 and all(b - a == 1 for a, b in pairwise(there))


def column_in_role(table: Table, columns: Sequence[str], role: Role) -> str | None:
    """The column that plays a role by its name, unless it holds fractions, as only scores do, or lists."""
    left = list(columns)
    while (column := roles.find(left, role)) is not None:
        kind = table.columns[column]
        if kind == "text" or (kind == "number" and is_whole(table.head([column])[column])):
            return column
        left.remove(column)
    return None


def ids_in(table: Table, columns: Sequence[str], reading: Reading) -> tuple[str | None, list[str]]:
    """The column of ids, and a sentence if its name says only what it identifies."""
    usual = column_in_role(table, columns, "id")
    column = ids_of(table, [name for name in columns if name not in reading.ignore_columns])
    if usual is not None or column is None:
        return usual, []
    return column, [f"{table.name}: `{column}` is taken for the ids of the rows (--ignore-columns overrules)."]


def ids_of(table: Table, columns: Sequence[str]) -> str | None:
    """The column called ids, or one whose name says what it identifies if each of its rows has another."""
    usual = column_in_role(table, columns, "id")
    if usual is not None or not table.has_header:
        return usual
    return next((column for column in columns if roles.may_be_ids(column) and _tells_rows_apart(table, column)), None)


def _tells_rows_apart(table: Table, column: str) -> bool:
    """Whether a column of texts or whole numbers has no empty cell, and no cell twice among thousands of rows."""
    head = table.head([column])[column]
    kind = table.columns[column]
    if len(set(head)) < len(head) or not (kind == "text" or (kind == "number" and is_whole(head))):
        return False
    blocks = (rows.cells(column) for rows in table.read(BLOCK, (), [column]))
    return len(head) > 1 and all(None not in cells and len(set(cells)) == len(cells) for cells in blocks)


def is_whole(cells: Sequence[Any]) -> bool:
    """Whether all numbers are whole."""
    return all(cell is None or float(cell).is_integer() for cell in cells)


def forms_in(table: Table, column: str | None) -> set[str]:
    """The different cells of a column's first rows, in their plain form."""
    return set() if column is None else {plain(cell) for cell in table.head([column])[column] if cell is not None}


def class_name_in(column: str) -> str:
    """The name of the class that a column is called after, with or without more: "cat" of ``prob_cat``, "cat (%)"."""
    return (roles.class_of(column) or ("", roles.without_unit(column)))[1]


def has_role(column: str, *wanted: Role) -> bool:
    """Whether a column's name says one of these roles."""
    return roles.role_of(column) in wanted


def matrix(head: Mapping[str, Sequence[Any]], columns: Sequence[str]) -> Tensor:
    """(n, columns) numbers of the first rows; empty cells are NaN, and rows of such cells alone are left out."""
    cells = [[float("nan") if cell is None else float(cell) for cell in head[column]] for column in columns]
    values = torch.tensor(cells, dtype=torch.float64).T if cells else torch.empty(0, 0)
    return values[~values.isnan().all(dim=1)] if values.numel() else values


def left_out(
    table: Table, columns: Sequence[str], classes: Sequence[str], beside: Beside, *, said: bool = False
) -> list[str]:
    """A sentence about the columns that play no role, if there are any; ``said`` if another names the classes."""
    taken = {*classes, *beside.columns}
    left = [column for column in columns if column not in taken and not has_role(column, "index")]
    if not left:
        return []
    labels = "" if beside.labels else "; a column of labels is named by --label-column"
    read = f"{len(classes)} columns are read as classes, {shown(classes)}; " if len(classes) > 1 and not said else ""
    return [f"{table.name}: {read}left out: {shown(left, 10)} (--class-columns overrules{labels})."]


def are_fractions(cells: Sequence[Any]) -> bool:
    """Whether numbers are from 0 to 1, and not all of them 0 or 1."""
    return not is_whole(cells) and all(
        cell is None or -checks.UNIT_ROUNDING <= float(cell) <= 1 + checks.UNIT_ROUNDING for cell in cells
    )
