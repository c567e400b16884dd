"""Rows without a label, or without any score: left out, and one line says how many and the first of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from softkin import SoftkinError
from softkin._core import checks
from softkin._core.names import spelling
from softkin._io import files
from softkin._io.tables import BLOCK, EMPTY, Rows, Table
from softkin.predictions import inference
from softkin.predictions.blocks import Block, PredictionFile

NOTHING = ("", "nan", "NaN", "#N/A", "<NA>")
"""What no class is called; the other words of ``EMPTY`` may be, unless the classes are known"""


class Gaps:
    """The rows that the last reading of a file left out, and the sentence about them.

    Args:
        name: The file.
        place: A function from a row of the file to its place, for messages.
        lacks: What such a row lacks, and where.
        option: What to do if more than half of the rows lack it.
    """

    def __init__(self, name: str, place: Callable[[int], str], lacks: str, option: str = "") -> None:
        self.name, self.place, self.lacks, self.option = name, place, lacks, option
        self.rows: list[int] = []
        self.was_said = False

    def row_of(self, row: Any) -> Any:
        """The row of the file that a row of the reading was, or those of an array of rows."""
        return row + np.searchsorted(np.array(self.rows, int) - np.arange(len(self.rows)), row, side="right")

    def end(self, count: int) -> None:
        """Say at the end of a reading of so many rows how many were left out.

        Raises:
            SoftkinError: They are more than half.
        """
        if not self.rows:
            return
        n, first = len(self.rows), self.place(self.rows[0])
        if 2 * n > count:
            raise SoftkinError(
                f"{self.name}: {n:,} of {count:,} rows have no {self.lacks}, the first is {first}; "
                f"{self.option or 'leave them out if that is meant.'}"
            )
        if not self.was_said:
            have, are, then = ("have", "are", ", the first is") if n > 1 else ("has", "is", ":")
            said = f"{have} no {self.lacks} and {are} left out{then} {first}"
            inference.say([f"{self.name}: {n:,} of {count:,} rows {said}."], stacklevel=4)
            self.was_said = True


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
    gaps = Gaps(table.name, table.place, f"{what} in {where}", option)

    def row_of(row: Any) -> Any:
        row = gaps.row_of(row)
        return row if table.row_of is None else table.row_of(row)

    def read(count: int, numbers: Sequence[str], beside: Sequence[str]) -> Iterator[Rows]:
        wanted = [*beside, *(column for column in columns if column not in (*numbers, *beside))]
        start = 0
        gaps.rows.clear()
        for rows in table.read(count, numbers, wanted):
            empty = _empty(rows, columns, words)
            gaps.rows.extend(start + row for row in empty)
            start += len(rows)
            if not empty:
                yield rows
            elif len(empty) < len(rows):
                yield rows.some(_others(empty, len(rows)))
        gaps.end(start)

    return replace(table, read=read, row_of=row_of)


def of_labelled(source: PredictionFile, *, keep: bool = False) -> PredictionFile:
    """The file without the rows that have no label: NaN, nothing, a word for nothing, or a number that no class has.

    The numbers are −100, which PyTorch's losses leave out, and −1 unless that may be a class.

    Args:
        source: The file, with labels in its own spelling.
        keep: Whether all rows are kept, and the labels are left out instead.

    Raises:
        SoftkinError: At the end of a reading, if more than half of the rows have none, or −1 may be a class.
    """
    with files.reading(source.name, "predictions"):
        if source.class_names and source.num_classes > 1:
            kinds = _kinds(source, ())
        else:
            first = next(source.blocks_of(FIRST), None)
            if first is None or first.labels is None:
                return source
            kinds = _kinds(source, first.labels)
        if keep and not any(_missing(block.labels, kinds) for block in source.blocks_of(SCANNED)):
            return source
    if keep:
        why = f"{source.name}: some rows have no label; all rows are kept, and nothing is measured."
        return replace(source, blocks_of=_without_labels(source), assumed=(*source.assumed, why))
    gaps = Gaps(source.name, source.place, "label", LABELS_ELSEWHERE)

    def blocks(count: int) -> Iterator[Block]:
        start, found, seen = 0, "", set[int]()
        gaps.rows.clear()
        for block in source.blocks_of(count):
            empty = _missing(block.labels, kinds)
            if MINUS_ONE in kinds and block.labels is not None:
                seen |= _numbers_in(block.labels, source.num_classes)
            if empty and not gaps.rows:
                found = _shown(_listed(block.labels)[empty[0]])
            gaps.rows.extend(start + row for row in empty)
            start += len(block.values)
            if len(empty) < len(block.values):
                yield block.some(_others(empty, len(block.values))) if empty else block
        if -1 in seen and _may_be_class(seen, source.num_classes):
            raise _two_readings(source, seen)
        gaps.lacks = f"label ({found}{', which no class is called' if found.startswith('−') else ''})"
        gaps.end(start)

    return replace(source, blocks_of=blocks, row_of=gaps.row_of)


FIRST, SCANNED = 1000, 65536  # rows read to see what labels are, and at a time to read all
MINUS_ONE = "-1"
LABELS_ELSEWHERE = "are these the labels (--label-column), or are they in a file of their own (--labels)?"


def _without_labels(source: PredictionFile) -> Callable[[int], Iterator[Block]]:
    def blocks(count: int) -> Iterator[Block]:
        for block in source.blocks_of(count):
            yield replace(block, labels=None)

    return blocks


def _kinds(source: PredictionFile, first: Any) -> frozenset[str]:
    """The forms of labels that stand for none in a file."""
    names = source.class_names or []
    words = _words(names)
    numbers = {number for number in (MINUS_ONE, "-100") if number not in names}
    texts = not names and any(isinstance(label, str) for label in _listed(first)[:1])
    if not texts and source.num_classes > 1:
        return words | numbers
    there = {_form(label) for block in source.blocks_of(SCANNED) for label in set(_listed(block.labels))}
    if source.num_classes == 1 and not there - words - {"-100"} >= {"0", "1", MINUS_ONE}:
        numbers.discard(MINUS_ONE)  # −1 and 1 are the two classes
    others = there - set(EMPTY) - words - numbers
    known = len(others) == max(2, source.num_classes) or (bool(others) and all(map(checks.is_number, others)))
    return words | numbers | (set(EMPTY) if texts and known else set())


def _form(label: Any) -> str:
    """A label as the forms of none are written."""
    text = "" if label is None else str(label).strip()
    return text.removesuffix(".0") if text.removesuffix(".0").removeprefix("-").isdigit() else text


def _shown(label: Any) -> str:
    form = _form(label)
    return form.replace("-", "−") if form.startswith("-") else form or "empty"


def _listed(labels: Any) -> list[Any]:
    return labels.tolist() if hasattr(labels, "tolist") else list(labels)


def _missing(labels: Any, kinds: frozenset[str]) -> list[int]:
    """The rows whose label is none; none of them if there are no labels at all."""
    if labels is None:
        return []
    array = labels.numpy() if isinstance(labels, Tensor) else labels
    if isinstance(array, np.ndarray) and not np.ma.isMaskedArray(array) and array.dtype.kind in "biuf":
        numbers = [int(kind) for kind in kinds if kind.startswith("-")]
        empty = np.isnan(array) if array.dtype.kind == "f" else np.zeros(array.shape, bool)
        if array.ndim == 2 and array.shape[1] > 1:
            return np.flatnonzero(empty.all(axis=1)).tolist()
        return np.flatnonzero((empty | np.isin(array, numbers)).reshape(-1)).tolist()
    listed = _listed(array)
    if any(isinstance(label, list) for label in listed[:1]):  # votes
        return []
    none = {label for label in set(listed) if _form(label) in kinds}  # few are different: forms are made of those alone
    return [row for row, label in enumerate(listed) if label in none] if none else []


def _numbers_in(labels: Any, num_classes: int) -> set[int]:
    """The labels that are whole numbers from −1 to K."""
    array = labels.numpy() if isinstance(labels, Tensor) else labels
    if isinstance(array, np.ndarray) and array.dtype.kind in "iuf" and array.ndim == 1:
        found = np.unique(array[(array >= -1) & (array <= num_classes)])
        return {int(label) for label in found if label == int(label)}
    listed = _listed(array)
    forms = set() if any(isinstance(label, list) for label in listed[:1]) else set(map(_form, set(listed)))
    return {int(form) for form in forms if form.removeprefix("-").isdigit() and -1 <= int(form) <= num_classes}


def _may_be_class(seen: set[int], num_classes: int) -> bool:
    """Whether −1 may be a class: of −1 and 1, of −1, 0 and 1, or as the first of all K."""
    if num_classes <= 2:
        return not seen & {0, 2}
    return max(seen) < num_classes - 1 and (num_classes == 3 or len(seen) == num_classes)


def _two_readings(source: PredictionFile, seen: set[int]) -> SoftkinError:
    numbers = ", ".join(str(number).replace("-", "−") for number in sorted(seen)[:4])
    return SoftkinError(
        f"{source.name}: labels are {numbers}{' …' if len(seen) > 4 else ''} beside {source.num_classes} classes: if "
        f"−1 is a class, number the classes from 0 to {source.num_classes - 1}; if it means that there is no label, "
        "leave those rows out."
    )


def _others(rows: Sequence[int], count: int) -> list[int]:
    return sorted(set(range(count)).difference(rows))


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
