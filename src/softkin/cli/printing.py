"""Text and tables for the terminal."""

import argparse
import itertools
import json
import os
import re
import shutil
import sys
import unicodedata
import warnings
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from softkin._io import files
from softkin._io.escape import terminal

if TYPE_CHECKING:
    from softkin.evaluation.results import HeldOut

Result = TypeVar("Result", bound="HeldOut")

shown = terminal  # for names that are printed


WIDE = 200  # columns where the output is not a terminal


def width() -> int:
    """The number of columns to print: that of the terminal or of COLUMNS, else ``WIDE``."""
    return shutil.get_terminal_size((WIDE, 24)).columns if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDE


def say(*lines: str, to: TextIO | None = None) -> None:
    """Print prose: lines longer than the terminal are broken at words. Elsewhere each stays whole, for other programs.

    Lines that go on are indented as their first line is.
    """
    stream = sys.stdout if to is None else to
    known = stream.isatty() or "COLUMNS" in os.environ
    room = max(20, shutil.get_terminal_size((WIDE, 24)).columns) if known else None
    for line in "\n".join(lines).split("\n"):
        print("\n".join([line] if room is None else at_words(line, room)), file=stream)


def at_words(line: str, room: int) -> list[str]:
    """A line as lines of at most this many columns, broken at spaces; a longer word, such as a path, stays whole.

    Example:
        >>> at_words("two words", 5)
        ['two', 'words']
        >>> at_words("it is 63.7 % of all", 10)
        ['it is', '63.7 % of', 'all']
    """
    if columns_of(line) <= room:
        return [line]
    indent = re.match(" *", line)[0]  # type: ignore[index]
    made = [indent]
    for word in re.sub(r"(?<=\d) (?=%)", "\u00a0", line).split(" "):
        if not word:
            continue
        longer = f"{made[-1]} {word}" if made[-1].strip() else f"{made[-1]}{word}"
        if made[-1].strip() and columns_of(longer) > room:
            made.append(indent + word)
        else:
            made[-1] = longer
    return [line.replace("\u00a0", " ") for line in made]


def signed(text: str) -> str:
    """A text with true minus signs before its numbers.

    Example:
        >>> signed("-0.5 to 1.2, p-value")
        '−0.5 to 1.2, p-value'
    """
    return re.sub(r"(?<![\w-])-(?=[\d.∞])", "−", text)


def json_text(data: Any) -> str:
    """Plain data as the text of ``--json``; NaN and infinity are written as in all of softkin's JSON."""
    return json.dumps(files.plain(data), ensure_ascii=False, indent=1, allow_nan=False)


def columns_of(text: str) -> int:
    """How many columns of a terminal a text takes: two for each Chinese, Japanese or Korean letter, none for an accent.

    Example:
        >>> columns_of("cat"), columns_of("猫"), columns_of("e\u0301")
        (3, 2, 1)
    """
    wide = {"W": 2, "F": 2}
    return sum(0 if unicodedata.combining(a) else wide.get(unicodedata.east_asian_width(a), 1) for a in text)


def rows_that_fit(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    order: Sequence[int],
    *,
    left: Collection[int] = (0,),
    wrapped: Collection[int] = (),
    gap: int = 2,
    columns: int | None = None,
) -> tuple[str, list[str]]:
    """A table as text without the columns that do not fit, and the headings of the dropped columns.

    Args:
        headings: Headings of the columns.
        rows: The cells of each row; an empty row is an empty line. What is not safe on a terminal is escaped.
        order: Indices of the columns that may be dropped, in the order in which they are dropped.
        left: Indices of the columns that are left-aligned; the others are right-aligned.
        wrapped: Indices of the columns that may take several lines; only the others have to fit.
        gap: The number of spaces between columns.
        columns: The width; None: ``width()``.
    """
    lines = [[shown(cell) for cell in line] for line in (headings, *rows)]
    widths = [max(columns_of(line[place]) for line in lines if line) for place in range(len(headings))]
    kept, dropped = list(range(len(headings))), []
    room = width() if columns is None else columns

    def free() -> int:
        """What is left for the wrapped columns."""
        fixed = sum(widths[column] for column in kept if column not in wrapped)
        return room - fixed - gap * (len(kept) - 1)

    for place in order:
        if free() >= min(WRAPPED * sum(column in wrapped for column in kept), sum(widths[w] for w in wrapped)):
            break
        kept.remove(place)
        dropped.append(headings[place])
    rest, narrow = free(), sorted((column for column in kept if column in wrapped), key=lambda column: widths[column])
    for number, column in enumerate(narrow):
        widths[column] = min(widths[column], max(WRAPPED, rest // (len(narrow) - number)))
        rest -= widths[column]

    def padded(text: str, column: int) -> str:
        space = " " * (widths[column] - columns_of(text))
        return text + space if column in left else space + text

    printed = []
    for line in lines:
        if not line:
            printed.append("")
            continue
        cells = [_wrapped(line[column], widths[column]) if column in wrapped else [line[column]] for column in kept]
        for parts in itertools.zip_longest(*cells, fillvalue=""):
            texts = [padded(part, column) for part, column in zip(parts, kept, strict=True)]
            printed.append((" " * gap).join(texts).rstrip())
    return "\n".join(printed), dropped


WRAPPED = 16  # columns that a wrapped column has at least


def _wrapped(text: str, room: int) -> list[str]:
    """The lines of a cell, broken after ", " where that is possible, else at a space."""
    lines = [""]
    parts = re.split(r"(?<=, )", text)
    words = [word for part in parts for word in ([part] if columns_of(part) <= room else re.split("(?<= )", part))]
    for part in words:
        if lines[-1] and columns_of(lines[-1] + part.rstrip()) > room:
            lines.append("")
        for letter in part:
            if columns_of((lines[-1] + letter).rstrip()) > room:
                lines.append("")
            lines[-1] += letter
    return [line.rstrip() for line in lines]


def wrote(path: Any, holds: str = "") -> None:
    """Say that a file was written, or that the same content was there already, and perhaps what it holds."""
    same = " was there already, with the same content"
    about = f": {holds}" if holds else ""
    print(f"{shown(str(path))}{same}{about}" if files.was_same(path) else f"Wrote {shown(str(path))}{about}")


def too_wide(headings: Sequence[str], rows: Sequence[Sequence[str]], order: Sequence[int]) -> bool:
    """Whether a table is too wide even without the columns that may be dropped."""
    text, _ = rows_that_fit(headings, rows, order)
    return max(map(columns_of, text.splitlines())) > width()


def present(arguments: argparse.Namespace, result: "Result", in_words: "Callable[[Result], None]") -> None:
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


def add_report(command: Any) -> None:
    """Add --report to a command that compares."""
    command.add_argument("--report", type=Path, metavar="PAGE.html", help="write a page of the result")


def page_path(path: Path) -> Path:
    """The file of a page, whose suffix may be left out."""
    if not path.suffix:
        return path.with_suffix(".html")
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"--report must end in .html, got {path}.")
    return path


def check_report(arguments: argparse.Namespace) -> None:
    """Refuse a page that could not be written, before any work is done."""
    page = arguments.report
    if page is None:
        return
    page = arguments.report = page_path(page)
    beside = page.with_suffix(".json")
    if arguments.output is not None and beside.resolve() == arguments.output.resolve():
        raise ValueError(f"--output must be another file than {beside}, which --report writes beside its page.")
    files.guard(page, beside, force=arguments.force)


def write_report(arguments: argparse.Namespace, build: str, result: Any) -> None:
    """Write the page of a result, if one was asked for; ``build`` names the function of ``report.findings``."""
    if arguments.report is None:
        return
    from softkin import report
    from softkin.report import findings

    page = getattr(findings, build)(json.loads(json_text(result)))
    for path in report.write(arguments.report, page, force=arguments.force):
        if not arguments.json:
            wrote(path)


def print_data_sets(result: "HeldOut") -> None:
    """Print which samples a comparison fitted on and measured on."""
    fitted, measured = result["fitted_on"], result["measured_on"]
    say(
        f"Fitted on {shown(str(fitted['name']))} ({fitted['num_samples']:,} samples), measured on "
        f"{shown(str(measured['name']))} ({measured['num_samples']:,}), {100 * result['confidence']:g} % intervals"
    )


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], order: Sequence[int], **how: Any) -> None:
    """Print the columns that fit, as ``rows_that_fit`` chooses them, and the names of the others."""
    table, dropped = rows_that_fit(headings, rows, order, **how)
    print(table)
    if dropped:
        say(f"No room for these columns: {', '.join(dropped)}; a wider terminal or --json shows them.")
