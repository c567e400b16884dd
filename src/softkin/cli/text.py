"""Text and tables for people."""

import os
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from softkin.escape import terminal

if TYPE_CHECKING:
    from rich.table import Table

shown = terminal  # for names that are printed


WIDE = 200  # columns, where the output is no terminal


def width() -> int:
    """The columns to print in: the terminal's, or what COLUMNS says, or many where the output goes elsewhere."""
    return shutil.get_terminal_size((WIDE, 24)).columns if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDE


def show(table: "Table") -> None:
    """Print a table, as wide as the terminal, or wide where the output goes elsewhere."""
    from rich.console import Console

    Console(width=width(), highlight=False).print(table)


def rows_that_fit(
    headings: Sequence[str], rows: Sequence[Sequence[str]], order: Sequence[int]
) -> tuple[str, list[str]]:
    """A table as text, without the columns for which there is no room, and the headings of those.

    Args:
        headings: Of the columns; the first is on the left, the others on the right.
        rows: Their cells.
        order: The columns that may be left out, by place, the first of them first.
    """
    widths = [max(len(line[place]) for line in (headings, *rows)) for place in range(len(headings))]
    kept, dropped = list(range(len(headings))), []
    for place in order:
        if sum(widths[column] + 2 for column in kept) - 2 <= width():
            break
        kept.remove(place)
        dropped.append(headings[place])
    lines = []
    for line in (headings, *rows):
        first, *others = kept
        cells = [line[first].ljust(widths[first]), *(line[column].rjust(widths[column]) for column in others)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines), dropped
