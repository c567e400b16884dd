"""Text and tables for the terminal."""

import argparse
import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from softkin._io import files
from softkin._io.escape import terminal

shown = terminal  # for names that are printed


WIDE = 200  # columns where the output is not a terminal


def width() -> int:
    """The number of columns to print: that of the terminal or of COLUMNS, else ``WIDE``."""
    return shutil.get_terminal_size((WIDE, 24)).columns if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDE


def json_text(data: Any) -> str:
    """Plain data as the text of ``--json``; NaN and infinity are written as in all of softkin's JSON."""
    return json.dumps(files.plain(data), ensure_ascii=False, indent=1, allow_nan=False)


def rows_that_fit(
    headings: Sequence[str], rows: Sequence[Sequence[str]], order: Sequence[int]
) -> tuple[str, list[str]]:
    """A table as text without the columns that do not fit, and the headings of the dropped columns.

    Args:
        headings: Headings of the columns; the first column is left-aligned, the others are right-aligned.
        rows: The cells of each row.
        order: Indices of the columns that may be dropped, in the order in which they are dropped.
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


def wrote(path: Any) -> None:
    """Say that a file was written, or that the same content was there already."""
    same = " was there already, with the same content"
    print(f"{shown(str(path))}{same}" if files.was_same(path) else f"Wrote {shown(str(path))}")


def too_wide(headings: Sequence[str], rows: Sequence[Sequence[str]], order: Sequence[int]) -> bool:
    """Whether a table is too wide even without the columns that may be dropped."""
    text, _ = rows_that_fit(headings, rows, order)
    return max(map(len, text.splitlines())) > width()


def present(arguments: argparse.Namespace, result: dict[str, Any], in_words: Callable[[dict[str, Any]], None]) -> None:
    """Show a comparison in words or, with ``--json``, as it is; write it to ``--output``; repeat its warnings."""
    for notice in result["warnings"]:
        warnings.warn(notice, stacklevel=3)
    text = json_text(result)
    if arguments.json:
        print(text)
    else:
        in_words(result)
    if arguments.output is not None:
        files.write(arguments.output, text.encode())
        if not arguments.json:
            wrote(arguments.output)


def print_data_sets(result: dict[str, Any]) -> None:
    """Print which samples a comparison fitted on and measured on."""
    fitted, measured = result["fitted_on"], result["measured_on"]
    print(
        f"Fitted on {shown(str(fitted['name']))} ({fitted['num_samples']:,} samples), measured on "
        f"{shown(str(measured['name']))} ({measured['num_samples']:,}), {100 * result['confidence']:g} % intervals"
    )


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], order: Sequence[int]) -> None:
    """Print the columns that fit, as ``rows_that_fit`` chooses them, and the names of the others."""
    table, dropped = rows_that_fit(headings, rows, order)
    print(table)
    if dropped:
        print(f"No room for these columns: {', '.join(dropped)}; a wider terminal or --json shows them.")
