"""Labels in a file of their own, and how its rows and classes are matched with those of the predictions."""

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from softkin import SoftkinError
from softkin._core import checks
from softkin._io import files, roles
from softkin._io import tables as table_files
from softkin.predictions import arrays, columns, formats, inference, label_columns, torch_files
from softkin.predictions.blocks import Block, PredictionFile
from softkin.predictions.request import Reading

FIRST = 1000  # rows that are read at once


@dataclass(frozen=True)
class LabelFile:
    """What such a file holds."""

    name: str
    labels: Any
    """(N,) class numbers or names, or (N, K) votes"""
    class_names: list[str] | None = None
    """The names of the classes in the order of its numbers, or of the columns of votes"""
    ids: Sequence[Any] | None = None
    """(N,) the ids of its rows"""
    called: str | None = None
    """The column of ids, if it is a table"""
    assumed: tuple[str, ...] = ()
    """Sentences about what was assumed of it"""


def read(path: str | Path) -> LabelFile:
    """The labels in an .npy file, a text file with one label per line, or a table, .npz or .pt with ``labels``."""
    path = Path(path)
    suffix = path.suffix.lower()
    names = ids = None
    if suffix == ".npy":
        labels = arrays.whole_array(files.open_file(path), str(path))
    elif suffix in formats.FORMATS["pt"].suffixes:
        labels, names, ids = torch_files.labels_in(path)
    elif suffix == ".npz":
        labels, names, ids = arrays.labels_in(files.open_file(path), str(path))
    elif suffix == ".txt":
        lines = table_files.read_text(path, "labels").rstrip().splitlines()
        return LabelFile(str(path), [line.strip() for line in lines])  # may be empty
    else:
        return _in_table(path)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim not in (1, 2):
        raise SoftkinError(
            f"{path} must hold labels of shape (N,), one for each row, or votes of shape (N, K), got {labels.shape}."
        )
    if ids is not None and len(ids) != len(labels):
        raise SoftkinError(f"{path} must have an id for each of its {len(labels):,} labels, it has {len(ids):,}.")
    return LabelFile(str(path), labels, names, ids)


def _in_table(path: Path) -> LabelFile:
    """The labels in a table: its column of labels, or its only column; ids beside them."""
    if table_files.form_of(path) is None:
        forms = ", ".join(table_files.FORMATS)
        raise SoftkinError(f"{path} must hold labels as .npy, .npz, {forms} or as .txt with one per line.")
    table = table_files.open_table(path, what="labels")
    rest = [column for column in table.columns if roles.role_of(column) not in ("id", "index")] or list(table.columns)
    column, said = roles.find(table.columns, "label") or (rest[0] if len(rest) == 1 else None), list[str]()
    if column is None:  # as in a file of predictions with labels
        column, said = label_columns.find_labels(table, list(table.columns), Reading())
    if column is None:
        raise SoftkinError(
            f"{path} must have a column of labels, called {roles.listed('label')}; "
            f"it has {inference.shown(list(table.columns), 10)}."
        )
    cells = [cell for (cell,) in table.cells(column)]
    id_column = columns.ids_of(table, list(table.columns))
    ids = None if id_column in (None, column) else [cell for (cell,) in table.cells(id_column)]
    labels = [cell[0] if isinstance(cell, list) and len(cell) == 1 else cell for cell in cells]  # without names
    return LabelFile(str(path), labels, ids=ids, called=id_column, assumed=tuple(said))


def beside(source: PredictionFile, given: LabelFile) -> PredictionFile:
    """The file with labels from elsewhere: rows matched by ids and classes by names, where both have them."""
    given, said = _in_its_classes(source, given)
    said = (*given.assumed, *said)
    if given.ids is not None:
        first = next(source.blocks_of(FIRST), None)
        if first is not None and first.ids is not None and _number_rows(source, given, first.ids):
            said = (*said, f"{given.name}: its ids number its rows, which are taken in the order of {source.name}.")
        elif first is not None and first.ids is not None:
            why = f"{given.name}: its rows are matched with those of {source.name} by their ids."
            return replace(source, blocks_of=_by_ids(source, given), assumed=(*source.assumed, *said, why))
    return replace(source, blocks_of=_by_place(source, given.labels), assumed=(*source.assumed, *said))


def _number_rows(source: PredictionFile, given: LabelFile, ids: Any) -> bool:
    """Whether the ids of the labels only count their rows, under another name than those of the predictions, which
    are others.
    """
    own = None if source.table is None else columns.ids_of(source.table, list(source.table.columns))
    if own is None or given.called is None or roles.plain(own) == roles.plain(given.called):
        return False
    there = [_text(known_as) for known_as in given.ids or ()]
    counting = any(there == [str(row) for row in range(first, first + len(there))] for first in (0, 1))
    return counting and not {_text(known_as) for known_as in np.asarray(ids).tolist()} <= set(there)


def _in_its_classes(source: PredictionFile, given: LabelFile) -> tuple[LabelFile, tuple[str, ...]]:
    """The labels with the classes of the predictions, and a sentence if they came in another order."""
    own, names = source.class_names, given.class_names
    refused = f"{given.name} must have the classes of {source.name}, in any order, but"
    try:
        order = checks.class_order(names, own, refused)
    except ValueError as error:
        raise SoftkinError(str(error)) from error
    if order is None or names is None:
        return given, ()
    said = (f"{given.name} has the classes of {source.name} in another order; they are matched by name.",)
    labels = np.asarray(given.labels)
    if labels.ndim == 2:
        if labels.shape[1] != len(names):
            raise SoftkinError(f"{given.name} names {len(names)} classes, and its votes are of {labels.shape[1]}.")
        return replace(given, labels=labels[:, order.numpy()]), said
    if labels.dtype.kind not in "iuf":
        return given, ()
    known = labels[labels == labels]  # a missing label is NaN
    beyond = known[(known < 0) | (known >= len(names)) | (known != np.floor(known))]
    if len(beyond):
        raise SoftkinError(
            f"{given.name}: labels must be from 0 to {len(names) - 1}, the places of its class names, got "
            f"{beyond[0]:g}."
        )
    return replace(given, labels=["" if k != k else names[int(k)] for k in labels.tolist()]), said


def _by_place(source: PredictionFile, labels: Any) -> Callable[[int], Iterator[Block]]:
    there = [label for label in labels if label != ""] if isinstance(labels, list) else labels
    if len(there) < len(labels) and len(there) == sum(len(block.values) for block in source.blocks_of(FIRST)):
        labels = there  # lines between the labels
    if source.num_rows is not None and source.num_rows != len(labels):
        raise SoftkinError(
            f"{source.name} has {source.num_rows:,} rows, and there are {len(labels):,} labels for them."
        )

    def blocks(rows: int) -> Iterator[Block]:
        start = 0
        for block in source.blocks_of(rows):
            end = start + len(block.values)
            _say_own(source, block, start)
            yield replace(block, labels=labels[start:end])
            start = end
        if start != len(labels):
            raise SoftkinError(f"{source.name} has {start:,} rows, and there are {len(labels):,} labels for them.")

    return blocks


class RowsById:
    """The rows of a file, found by their ids.

    Args:
        ids: The ids of its rows.
        name: The file.
    """

    def __init__(self, ids: Sequence[Any], name: str) -> None:
        self.ids, self.name = [_text(known_as) for known_as in ids], name
        self.place = {known_as: row for row, known_as in enumerate(self.ids)}

    def of(self, wanted: Sequence[Any], whose: Callable[[int], str], start: int = 0) -> list[int]:
        """The rows with these ids; where equal ids stand in the same places, from ``start`` on, those places.

        Args:
            wanted: The ids of rows of another file.
            whose: A function from the place of one of them to the other file in words.
            start: The place of the first of them in the other file.

        Raises:
            SoftkinError: An id is not there, or stands in several rows.
        """
        own = [_text(known_as) for known_as in wanted]
        if own == self.ids[start : start + len(own)]:  # which may be no ids, such as one word in all rows
            return list(range(start, start + len(own)))
        if len(self.place) < len(self.ids):
            counts = Counter(self.ids)  # in the order of the rows
            twice = next(one for one, count in counts.items() if count > 1)
            raise SoftkinError(f"{self.name} must have each id once, but {twice!r} stands in {counts[twice]} rows.")
        for row, known_as in enumerate(own):
            if known_as not in self.place:
                raise SoftkinError(
                    f"{self.name} has no row with the id {known_as!r} of {whose(start + row)}; leave the ids out of "
                    "one of the files to take its rows in the order of the other's."
                )
        return [self.place[known_as] for known_as in own]


def _text(known_as: Any) -> str:
    """An id as a text: 7 and 7.0 are the same."""
    return re.sub(r"(?<=\d)\.0+$", "", str(known_as).strip())


def _by_ids(source: PredictionFile, given: LabelFile) -> Callable[[int], Iterator[Block]]:
    there = RowsById(np.asarray(given.ids).tolist(), given.name)

    def blocks(rows: int) -> Iterator[Block]:
        start = 0
        for block in source.blocks_of(rows):
            _say_own(source, block, start)
            ids, labels = np.asarray(block.ids).tolist(), given.labels
            found = there.of(ids, lambda row: f"{source.name} ({source.place(row)})", start)
            yield replace(block, labels=[labels[row] for row in found] if isinstance(labels, list) else labels[found])
            start += len(block.values)

    return blocks


def _say_own(source: PredictionFile, block: Block, start: int) -> None:
    if start == 0 and block.labels is not None:
        warnings.warn(f"{source.name} holds labels of its own; the given ones are taken instead.", stacklevel=3)
