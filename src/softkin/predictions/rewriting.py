"""A table with its scores replaced by calibrated probabilities; every other column stays as it is.

The columns of scores give way, at the place of the first, to one column for each class, ``calibrated_cat``, or to
``calibrated_confidence`` for pairs. The cells of other columns keep their text, and a CSV keeps what separates its
cells and its decimal mark.
"""

import csv
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from softkin import SoftkinError
from softkin._io import escape, roles
from softkin._io.tables import BLOCK, Table, opened_as
from softkin.predictions.blocks import PredictionFile
from softkin.predictions.container import Predictions
from softkin.predictions.inference import shown
from softkin.predictions.reading import from_table

LABELS = ("labels", "y_true")
"""What a column of labels may be called that is added where the table's own would not be found again"""


@dataclass(frozen=True)
class Rewritten:
    """The text of a CSV file, and what became of the columns."""

    text: str
    kept: list[str]
    replaced: list[str]
    written: list[str]
    added: str | None = None
    """The column of labels that was added"""

    @property
    def summary(self) -> str:
        """What was kept, replaced and added, in a sentence."""
        added = "" if self.added is None else f"; `{self.added}` has the labels under a usual name"
        kept = f"; kept as {'it is' if len(self.kept) == 1 else 'they are'}: {shown(self.kept, 8)}" if self.kept else ""
        verb = "replaces" if len(self.written) == 1 else "replace"
        return f"{shown(self.written)} {verb} {shown(self.replaced)}{kept}{added}"


def rewritten(source: PredictionFile, after: Predictions, note: str | None, *, tabs: bool = False) -> Rewritten | None:
    """The table of a file with the calibrated probabilities of its rows; None if the file is no single table.

    A reader that is told nothing must find the same labels and probabilities again. If the table's own labels would not
    be found, because an option named them, they are written once more under a usual name.

    Args:
        source: The opened file.
        after: Its rows, calibrated.
        note: What each row says about the calibration, if anything.
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
    """The table with the probabilities in place of its scores; ``labels`` names a column of labels to add."""
    names = after.class_names or [str(k) for k in range(after.num_classes)]
    written = [roles.CALIBRATED_PAIR] if after.are_pairs else [f"{roles.CALIBRATED}{name}" for name in names]
    columns = [column for column in table.columns if column in scores or column not in written]
    place = next(n for n, column in enumerate(columns) if column in scores)
    kept = [column for column in columns if column not in scores]
    cells: dict[str, list[str]] = {column: [] for column in kept}
    for block in table.read(BLOCK, (), kept) if kept else ():
        for column, own in cells.items():
            own += block.written(column)
    values = after.probabilities[:, 1:] if after.are_pairs else after.probabilities
    last: dict[str, list[str]] = {}
    if labels is not None:
        last[labels] = [escape.csv_cell(names[k]) for k in after.known_labels.tolist()]
    if note is not None:
        last[roles.CALIBRATION] = [escape.csv_cell(note)] * len(after)
    buffer = io.StringIO()
    separator = "\t" if tabs else table.delimiter if table.delimiter != "\t" else "," if table.point == "." else ";"
    rows = csv.writer(buffer, delimiter=separator, lineterminator="\n")
    rows.writerow([*kept[:place], *written, *kept[place:], *last])
    for n, row in enumerate(values.tolist()):
        beside = [own[n] for own in cells.values()]
        numbers = [repr(value).replace(".", table.point) for value in row]
        rows.writerow([*beside[:place], *numbers, *beside[place:], *(own[n] for own in last.values())])
    return Rewritten(buffer.getvalue(), kept, list(scores), written, labels)


def _is_found_again(text: str, after: Predictions) -> bool:
    """Whether a reader without options finds the labels and probabilities that were written."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            again = from_table(opened_as("csv", io.BytesIO(text.encode()), "the table")).read(progress=False)
        except (SoftkinError, ValueError, TypeError):
            return False
    if (again.labels is None) != (after.labels is None) or not torch.equal(again.probabilities, after.probabilities):
        return False
    return again.labels is None or torch.equal(again.labels, after.known_labels)
