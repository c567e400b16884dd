"""Rows of a table without a label, or without any score: left out, and one line says how many and the first of them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from softkin import SoftkinError
from softkin._core.names import spelling
from softkin._io.tables import BLOCK, EMPTY, Rows, Table
from softkin.predictions import inference

NOTHING = ("", "nan", "NaN", "#N/A", "<NA>")
"""What no class is called; the other words of ``EMPTY`` may be, unless the classes are known"""


def left_out(
    table: Table, columns: Sequence[str], what: str = "label", class_names: Sequence[str] = (), *, option: str = ""
) -> Table:
    """The table without the rows whose cells of these columns are all empty, which is said at the end of a reading.

    Args:
        table: A table.
        columns: Its column of labels, or those of scores.
        what: What such a row lacks.
        class_names: The names of the classes, if the columns tell: others, such as "NA", are then no label.
        option: The option that names such columns.

    Raises:
        SoftkinError: At the end of a reading, if more than half of the rows lack it.
    """
    words = _words(class_names)
    where = f"`{columns[0]}`" if len(columns) == 1 else f"its {len(columns)} columns {inference.shown(columns)}"
    was_said = False
    gone: list[int] = []  # the rows that the last reading left out

    def row_of(row: int) -> int:
        for place in gone:
            row += place <= row
        return row if table.row_of is None else table.row_of(row)

    def read(count: int, numbers: Sequence[str], beside: Sequence[str]) -> Iterator[Rows]:
        nonlocal was_said
        wanted = [*beside, *(column for column in columns if column not in (*numbers, *beside))]
        start = 0
        gone.clear()
        for rows in table.read(count, numbers, wanted):
            empty = _empty(rows, columns, words)
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
                    f"{table.name}: {len(gone):,} of {start:,} rows have no {what} in {where}, the first is {first}; "
                    f"{option or 'leave them out if that is meant.'}"
                )
            if not was_said:
                have, are, then = ("have", "are", ", the first is") if len(gone) > 1 else ("has", "is", ":")
                said = f"{have} no {what} in {where} and {are} left out{then} {first}"
                inference.say([f"{table.name}: {len(gone):,} of {start:,} rows {said}."])
                was_said = True

    return replace(table, read=read, row_of=row_of)


def _empty(rows: Rows, columns: Sequence[str], words: frozenset[str]) -> list[int]:
    """The rows that hold nothing in any of the columns."""
    found = rows.empty(columns[0], words)
    for column in columns[1:] if found else ():
        found = sorted(set(found).intersection(rows.empty(column, words)))
    return found


def are_missing(table: Table, column: str, class_names: Sequence[str] = ()) -> bool:
    """Whether some row has no label."""
    words = _words(class_names)
    return any(rows.empty(column, words) for rows in table.read(BLOCK, (), [column]))


def _words(class_names: Sequence[str]) -> frozenset[str]:
    known = {spelling(name) for name in class_names}
    return frozenset(NOTHING) | {word for word in EMPTY if class_names and spelling(word) not in known}
