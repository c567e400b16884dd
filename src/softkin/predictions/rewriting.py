"""A table with columns of calibrated probabilities, or others, beside its own, which stay as they are.

Behind the last column of scores comes one for each class, ``calibrated_cat``, or ``calibrated_confidence`` for pairs;
those of an earlier calibration are replaced. Readers take them before the scores. Cells keep their text, and a CSV
keeps what separates its cells, its decimal mark, its percent, and what spreadsheets know its encoding by.
"""

import csv
import io
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from softkin import SoftkinError
from softkin._io import escape, roles
from softkin._io.tables import BLOCK, Table, opened_as
from softkin.predictions.blocks import PredictionFile
from softkin.predictions.columns import matrix
from softkin.predictions.container import Predictions
from softkin.predictions.inference import are_percent, shown, sum_to_100
from softkin.predictions.reading import from_table

_SIGN = re.compile(r"\s*%$")
LABELS = ("labels", "y_true")
"""What a column of labels may be called that is added where the table's own would not be found again"""
DIGITS = 6
"""Significant digits of p and of 1 − p where a file was rounded: its metrics then agree in all digits that are shown"""
TINY = 1e-12
"""Below this, numbers have an exponent"""
ROUNDED = 4
"""Digits after the mark, of shares, up to which the numbers of a file count as rounded"""


@dataclass(frozen=True)
class Rewritten:
    """The text of a CSV file, and what became of the columns."""

    text: str
    scores: list[str]
    """The table's own, from which the probabilities were calibrated"""
    written: list[str]
    replaced: list[str]
    """The columns of an earlier calibration"""
    kept: list[str]
    added: str | None = None
    """The column of labels that was added"""

    @property
    def summary(self) -> str:
        """What was added and replaced, in a sentence."""
        labels = "" if self.added is None else f"; `{self.added}` has the labels under a usual name"
        one = len(self.written) == 1
        if self.replaced:
            done = f"{'replaces' if one else 'replace'} {'that' if one else 'those'} of an earlier calibration"
        else:
            done = f"{'was' if one else 'were'} added behind {shown(self.scores)}"
        return f"{shown(self.written)} {done}; all other columns are as they were{labels}"


@dataclass(frozen=True)
class NumberForm:
    """How the cells of a table write probabilities."""

    sign: str
    """The percent sign, perhaps with a blank before it, or nothing"""
    times: int
    """100 where 1 is written as 100"""
    is_exact: bool
    """Whether reading a cell must give the same number again"""
    point: str
    """The decimal mark"""

    @classmethod
    def of(cls, table: Table, columns: Sequence[str]) -> "NumberForm":
        """The form of the first cells of some columns of scores; exact where the file has more than a few digits."""
        columns = [column for column in columns if table.columns.get(column) == "number"]
        cells = [cell.strip() for column in columns for cell in table.as_written.get(column, ()) if cell.strip()]
        signs = {match[0] for cell in cells if (match := _SIGN.search(cell))}
        numbers = matrix(table.head(columns), columns) if cells else torch.zeros(0, 1)
        whole = sum_to_100(numbers) if len(columns) > 1 else bool(len(numbers)) and are_percent(numbers)
        times = 100 if signs or whole else 1
        decimals = max((len(_SIGN.sub("", cell).partition(table.point)[2]) for cell in cells), default=99)
        is_exact = decimals + (2 if times > 1 else 0) > ROUNDED
        return cls(min(signs, key=len) if signs else "", times, is_exact, table.point)

    def cells(self, numbers: Sequence[float | None]) -> list[str]:
        """The cells of some numbers; None is an empty one."""
        return ["" if number is None else f"{self._digits(number)}{self.sign}" for number in numbers]

    def _digits(self, number: float) -> str:
        least = min(number, 1 - number)
        if self.is_exact:
            text = repr(number * self.times)
        elif 0 < number < TINY:
            text = f"{number * self.times:.{DIGITS - 1}e}"
        else:
            least = max(least, TINY) if least > 0 else 0.5
            decimals = DIGITS - 1 - math.floor(math.log10(least)) - (2 if self.times > 1 else 0)
            text = f"{number * self.times:.{decimals}f}"
        return text.replace(".", self.point)


def rewritten(source: PredictionFile, after: Predictions, note: str | None, *, tabs: bool = False) -> Rewritten | None:
    """The table of a file beside the calibrated probabilities of its rows; None if the file is no single table.

    A reader that is told nothing must find the same labels and probabilities again. If the table's own labels would not
    be found, because an option named them, they are written once more under a usual name.

    Args:
        source: The opened file.
        after: Its rows, calibrated.
        note: What the first row says about the calibration, if anything.
        tabs: Separate the cells by tabs.
    """
    table = source.table
    if table is None or not source.score_columns or after.votes is not None:
        return None
    taken = {roles.plain(column) for column in table.columns}
    added = [] if after.labels is None or after.are_pairs else [name for name in LABELS if name not in taken]
    first = _text(table, source.score_columns, after, note, None, tabs=tabs)
    if _is_found_again(first.text, after):
        return first
    others = (_text(table, source.score_columns, after, note, name, tabs=tabs) for name in added)
    return next((other for other in others if _is_found_again(other.text, after)), first)


def _text(
    table: Table, scores: Sequence[str], after: Predictions, note: str | None, labels: str | None, *, tabs: bool
) -> Rewritten:
    """The table with the probabilities beside its scores; ``labels`` names a column of labels to add."""
    names = after.class_names or [str(k) for k in range(after.num_classes)]
    written = [roles.CALIBRATED_PAIR] if after.are_pairs else [f"{roles.CALIBRATED}{name}" for name in names]
    replaced = [column for column in table.columns if column in written]
    place = 1 + max(n for n, column in enumerate(table.columns) if column in scores)
    before, behind = (
        [column for column in part if column not in written]
        for part in ([*table.columns][:place], [*table.columns][place:])
    )
    values = after.probabilities[:, 1:] if after.are_pairs else after.probabilities
    form = NumberForm.of(table, scores)
    added = {column: form.cells(values[:, k].tolist()) for k, column in enumerate(written)}
    last: dict[str, list[str]] = {}
    if labels is not None:
        last[labels] = [escape.csv_cell(names[k]) for k in after.known_labels.tolist()]
    if note is not None:
        last[roles.CALIBRATION] = [escape.csv_cell(note), *[""] * (len(after) - 1)]
    columns = [*before, *written, *behind, *last]
    return Rewritten(
        text_of(table, columns, added | last, tabs=tabs), list(scores), written, replaced, [*before, *behind], labels
    )


def text_of(
    table: Table,
    columns: Sequence[str],
    added: Mapping[str, Sequence[str]],
    *,
    tabs: bool = False,
    rows: Sequence[int] | None = None,
    header: bool = True,
) -> str:
    """The text of a CSV file with columns of a table, and others whose cells are given; what separates cells is kept.

    Args:
        table: The table.
        columns: The columns, in order.
        added: The cells of those that are not the table's.
        tabs: Separate the cells by tabs.
        rows: The rows of the table to write, in order; by default all.
        header: Whether the first line names the columns.
    """
    kept = [column for column in columns if column not in added]
    cells: dict[str, list[str]] = {column: [] for column in kept}
    for block in table.read(BLOCK, (), kept) if kept else ():
        for column, own in cells.items():
            own += block.written(column)
    if rows is not None:
        cells = {column: [own[row] for row in rows] for column, own in cells.items()}
    buffer = io.StringIO()
    separator = "\t" if tabs else table.delimiter if table.delimiter != "\t" else "," if table.point == "." else ";"
    buffer.write("".join(table.begins.partition("sep=")[: 1 if tabs else 3]))
    writer = csv.writer(buffer, delimiter=separator, lineterminator="\n")
    if header:
        writer.writerow(columns)
    every = cells | {column: list(own) for column, own in added.items()}
    writer.writerows(zip(*(every[column] for column in columns), strict=True))
    return buffer.getvalue()


def _is_found_again(text: str, after: Predictions) -> bool:
    """Whether a reader without options finds the labels and probabilities that were written."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            again = from_table(opened_as("csv", io.BytesIO(text.encode()), "the table")).read(progress=False)
        except (SoftkinError, ValueError, TypeError):
            return False
    if (again.labels is None) != (after.labels is None) or again.probabilities.shape != after.probabilities.shape:
        return False
    if not torch.allclose(again.probabilities, after.probabilities, rtol=2 * 10.0 ** (1 - DIGITS), atol=0):
        return False
    return again.labels is None or torch.equal(again.labels, after.known_labels)
