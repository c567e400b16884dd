"""Rows of a table without a label: they are left out, and one line says how many and which is the first."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from softkin import SoftkinError
from softkin._core.names import spelling
from softkin._io.tables import BLOCK, EMPTY, Rows, Table
from softkin.predictions import inference

NOTHING = ("", "nan", "NaN", "#N/A", "<NA>")
"""What no class is called; the other words of ``EMPTY`` may be, unless the classes are known"""


def left_out(table: Table, column: str | None, class_names: Sequence[str] = ()) -> Table:
    """The table without the rows whose label is empty, which is said at the end of the first reading.

    Args:
        table: A table.
        column: Its column of labels.
        class_names: The names of the classes, if its columns tell: others, such as "NA", are then no label.

    Raises:
        SoftkinError: At the end of a reading, if more than half of the rows have no label.
    """
    if column is None:
        return table
    words = _words(class_names)
    was_said = False
    gone: list[int] = []  # the rows that the last reading left out

    def row_of(row: int) -> int:
        for place in gone:
            row += place <= row
        return row

    def read(count: int, numbers: Sequence[str], beside: Sequence[str]) -> Iterator[Rows]:
        nonlocal was_said
        wanted = beside if column in (*numbers, *beside) else [*beside, column]
        start = 0
        gone.clear()
        for rows in table.read(count, numbers, wanted):
            empty = rows.empty(column, words)
            gone.extend(start + row for row in empty)
            start += len(rows)
            if not empty:
                yield rows
            elif len(empty) < len(rows):
                yield rows.some(sorted(set(range(len(rows))).difference(empty)))
        if gone:
            first = table.place(gone[0])
            if 2 * len(gone) > start:
                raise SoftkinError(
                    f"{table.name}: {len(gone):,} of {start:,} rows have no label in `{column}`, the first is {first}; "
                    "are these the labels (--label-column), or are they in a file of their own (--labels)?"
                )
            if not was_said:
                have, are, where = ("have", "are", ", the first is") if len(gone) > 1 else ("has", "is", ":")
                said = f"{have} no label in `{column}` and {are} left out{where} {first}"
                inference.say([f"{table.name}: {len(gone):,} of {start:,} rows {said}."])
                was_said = True

    return replace(table, read=read, row_of=row_of)


def are_missing(table: Table, column: str | None, class_names: Sequence[str] = ()) -> bool:
    """Whether some row has no label."""
    words = _words(class_names)
    return column is not None and any(rows.empty(column, words) for rows in table.read(BLOCK, (), [column]))


def _words(class_names: Sequence[str]) -> frozenset[str]:
    known = {spelling(name) for name in class_names}
    return frozenset(NOTHING) | {word for word in EMPTY if class_names and spelling(word) not in known}
