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
from softkin._core.named_labels import PAIRS
from softkin._core.names import spelling
from softkin._io import files, roles
from softkin._io import tables as table_files
from softkin.predictions import arrays, columns, formats, inference, label_columns, torch_files
from softkin.predictions.blocks import Block, PredictionFile
from softkin.predictions.request import Reading

FIRST = 1000  # rows that are read at once
NOTHING_STATED = Reading()
NO_KEYS: tuple[roles.Role, ...] = ("index", "label", "prediction", "outcome")
"""Roles of columns that do not say which row is which, or only if nothing else does"""


@dataclass(frozen=True)
class Shared:
    """A column of the predictions and one of the labels that may say which rows are the same."""

    own: str
    given: str
    known: list[str]
    """(N,) its cells in the predictions"""
    there: list[str]
    """(M,) its cells in the file of labels"""

    @property
    def tells_rows_apart(self) -> bool:
        """Whether no cell stands twice."""
        return all(len(set(cells)) == len(cells) for cells in (self.known, self.there))

    @property
    def is_key(self) -> bool:
        """Whether each row of the predictions has its own row of labels."""
        return self.tells_rows_apart and set(self.known) <= set(self.there)

    @property
    def counts(self) -> bool:
        """Whether it numbers the rows of both files as they stand."""
        return self.known == self.there and _are_counted(self.known)


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
    key: Shared | None = None
    """The columns by which its rows and those of the predictions are matched, if these are no ids"""
    num_columns: int = 1
    """How many columns it has, if it is a table"""


def read(path: str | Path, source: PredictionFile | None = None, reading: Reading = NOTHING_STATED) -> LabelFile:
    """The labels in an .npy file, a text file with one label per line, or a table, .npz or .pt with ``labels``.

    Args:
        path: The file.
        source: The predictions that they belong to.
        reading: The options for this file: the column of labels, and columns to leave out.
    """
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
        return _in_table(path, source, reading)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim not in (1, 2):
        raise SoftkinError(
            f"{path} must hold labels of shape (N,), one for each row, or votes of shape (N, K), got {labels.shape}."
        )
    if ids is not None and len(ids) != len(labels):
        raise SoftkinError(f"{path} must have an id for each of its {len(labels):,} labels, it has {len(ids):,}.")
    return LabelFile(str(path), labels, names, ids)


def has_column(path: str | Path, column: str) -> bool:
    """Whether a file of labels is a table with such a column."""
    path = Path(path)
    return table_files.form_of(path) is not None and column in table_files.open_table(path, what="labels").columns


def _in_table(path: Path, source: PredictionFile | None, reading: Reading) -> LabelFile:
    """The labels in a table: its column of labels, or its only column; ids beside them."""
    if table_files.form_of(path) is None:
        forms = ", ".join(table_files.FORMATS)
        raise SoftkinError(f"{path} must hold labels as .npy, .npz, {forms} or as .txt with one per line.")
    table = table_files.open_table(path, what="labels")
    key = None if source is None or source.table is None else _key(source, source.table, table, reading)
    stated = reading.label_column
    column, said = (stated, list[str]()) if stated is not None else _labels_in(table, source, key)
    if column is None:
        raise SoftkinError(
            f"{path} must have a column of labels, called {roles.listed('label')}, or named by --label-column; "
            f"it has {inference.shown(list(table.columns), 10)}."
        )
    cells = [cell for (cell,) in table.cells(column)]
    id_column = columns.ids_of(table, list(table.columns))
    ids = None if id_column in (None, column) else [cell for (cell,) in table.cells(id_column)]
    labels = [cell[0] if isinstance(cell, list) and len(cell) == 1 else cell for cell in cells]  # without names
    return LabelFile(str(path), labels, None, ids, id_column, tuple(said), key, len(table.columns))


def _labels_in(
    table: table_files.Table, source: PredictionFile | None, key: Shared | None
) -> tuple[str | None, list[str]]:
    """The column of labels in a table of them, and a sentence where its name is not a usual one."""
    there = [column for column in table.columns if key is None or column != key.given]
    rest = [column for column in there if roles.role_of(column) not in ("id", "index")] or there
    usual = roles.find(there, "label")
    if usual is not None or len(rest) == 1:
        return usual or rest[0], []
    named = [] if source is None else [column for column in rest if _may_name_classes(table, column, source)]
    if key is not None and len(named) == 1:
        why = f"`{named[0]}` is read as the labels, since it alone holds classes (--label-column overrules)."
        return named[0], [f"{table.name}: {why}"]
    return label_columns.find_labels(table, there, Reading())  # as in a file of predictions with labels


def _may_name_classes(table: table_files.Table, column: str, source: PredictionFile) -> bool:
    """Whether a column holds names of the classes; two of them, if there is a single score."""
    if column in source.score_columns or table.columns[column] not in ("text", "number"):
        return False
    forms = columns.forms_in(table, column) - {spelling(word) for word in table_files.EMPTY}
    if source.num_classes == 1 or source.class_names is None:
        return any(forms == set(pair) for pair in PAIRS)
    return bool(forms) and forms <= {spelling(name) for name in source.class_names}


def _key(source: PredictionFile, own: table_files.Table, table: table_files.Table, reading: Reading) -> Shared | None:
    """The columns by which rows are matched: of one name, or texts, each cell once; None if ids or places match them.

    Raises:
        SoftkinError: Other columns of both show that these rows are not the same, or an index may number them.
    """
    left = (*source.score_columns, source.label_column, reading.label_column, *reading.ignore_columns)

    def usual(of: table_files.Table) -> list[str]:
        return [column for column, kind in of.columns.items() if kind in ("number", "text")
                and column not in left and not columns.has_role(column, *NO_KEYS)]  # fmt: skip

    def shared(a: str, b: str) -> Shared:
        cells = ([_text("" if cell is None else cell) for (cell,) in of.cells(column)]
                 for of, column in ((own, a), (table, b)))  # fmt: skip
        return Shared(a, b, *cells)

    pairs = [(a, b) for a in usual(own) for b in usual(table)]
    same = [shared(a, b) for a, b in pairs if roles.plain(a) == roles.plain(b)]
    ids = (source.id_column, columns.ids_of(table, list(table.columns)))
    by_ids = next((one for one in same if (one.own, one.given) == ids), None)
    keys = [one for one in same if one.is_key]
    keys = [one for one in keys if not one.counts] or keys
    key: Shared | None
    if by_ids is not None and not (by_ids.counts and keys):
        key = by_ids
    elif keys:
        key = next((one for one in keys if one is by_ids), keys[0])
    else:
        texts = [(a, b) for a, b in pairs if own.columns[a] == table.columns[b] == "text"]
        partly = (one for one in same if (one.own, one.given) in texts and one.tells_rows_apart
                  and set(one.known) & set(one.there))  # fmt: skip
        others = (one for a, b in texts if None in ids and _are_apart(own, a) and _are_apart(table, b)
                  and (one := shared(a, b)).is_key)  # fmt: skip
        indices = (shared(a, b) for a in own.columns for b in table.columns
                   if columns.has_role(a, "index") and columns.has_role(b, "index"))  # fmt: skip
        key = (
            next(partly, None)
            or next(others, None)
            or next((one for one in indices if _is_index(one, source.name, table.name)), None)
        )
    by_others = None if key is not None or None in ids else shared(str(ids[0]), str(ids[1]))
    _refuse_others(key or by_others, same, source.name, table.name)
    return None if key is by_ids else key


def _are_apart(table: table_files.Table, column: str) -> bool:
    """Whether the first cells of a column are different ones."""
    cells = table.head([column])[column]
    return len(set(cells)) == len(cells)


def _are_counted(cells: Sequence[str]) -> bool:
    """Whether cells number the rows from 0 or 1 on."""
    return any(list(cells) == [str(row) for row in range(first, first + len(cells))] for first in (0, 1))


def _is_index(index: Shared, own: str, given: str) -> bool:
    """Whether an index matches rows.

    Raises:
        SoftkinError: It numbers the rows of one file as they stand, and those of the other in another order.
    """
    counted = [_are_counted(cells) for cells in (index.known, index.there)]
    if not index.is_key or (any(counted) and len(index.known) != len(index.there)):
        return False
    if any(counted) and not all(counted):
        raise SoftkinError(
            f"{given}: its index has the row numbers of {own} in another order; to match rows by it, call it `id` in "
            "both files, and to take them as they stand, leave it out of one."
        )
    return not any(counted)


def _refuse_others(key: Shared | None, same: Sequence[Shared], own: str, given: str) -> None:
    """Refuse rows that, once matched, differ in another column of both, although all of its cells are there."""
    if key is not None and not key.is_key:
        return  # refused below, or equal in the same places
    place = {} if key is None else {cell: row for row, cell in enumerate(key.there)}
    for other in same:
        rows = [row if key is None else place[key.known[row]] for row in range(len(other.known))]
        if other.counts or sorted(other.known) != sorted(other.there):
            continue
        if other.known != [other.there[row] for row in rows]:
            if key is None:
                raise SoftkinError(
                    f"{given}: its rows are in another order than those of {own}, as `{other.given}` shows, and no "
                    "column tells which are the same; give both files a column of ids."
                )
            raise SoftkinError(
                f"{given}: rows with the `{key.given}` of {own} differ from them in `{other.given}`; leave one of "
                "these columns out of a file."
            )


def beside(source: PredictionFile, given: LabelFile) -> PredictionFile:
    """The file with labels from elsewhere: rows matched by ids and classes by names, where both have them."""
    given, said = _in_its_classes(source, given)
    said = (*given.assumed, *said)
    by = "their ids"
    if given.key is not None:
        by = f"`{given.key.given}` (--ignore-columns overrules)"
        source = replace(source, blocks_of=_with_ids(source, given.key.known), id_column=given.key.own)
        given = replace(given, ids=given.key.there)
    if given.ids is not None:
        first = next(source.blocks_of(FIRST), None)
        if first is not None and first.ids is not None and not _number_rows(source, given, first.ids):
            why = f"{given.name}: its rows are matched with those of {source.name} by {by}."
            return replace(source, blocks_of=_by_ids(source, given), assumed=(*source.assumed, *said, why))
        if first is not None and first.ids is not None:
            said = (*said, f"{given.name}: its ids number its rows, which are taken in the order of {source.name}.")
            return replace(source, blocks_of=_by_place(source, given.labels), assumed=(*source.assumed, *said))
    if source.table is not None and given.num_columns > 1:
        why = "by position, as no column of both tells which are the same"
        said = (*said, f"{given.name}: its rows are matched with those of {source.name} {why}.")
    return replace(source, blocks_of=_by_place(source, given.labels), assumed=(*source.assumed, *said))


def _with_ids(source: PredictionFile, ids: Sequence[str]) -> Callable[[int], Iterator[Block]]:
    def blocks(rows: int) -> Iterator[Block]:
        start = 0
        for block in source.blocks_of(rows):
            yield replace(block, ids=ids[start : start + len(block.values)])
            start += len(block.values)

    return blocks


def _number_rows(source: PredictionFile, given: LabelFile, ids: Any) -> bool:
    """Whether the ids of the labels only count their rows, under another name than those of the predictions, which
    are others.
    """
    own = None if source.table is None else columns.ids_of(source.table, list(source.table.columns))
    if given.key is not None or own is None or given.called is None or roles.plain(own) == roles.plain(given.called):
        return False
    there = [_text(known_as) for known_as in given.ids or ()]
    return _are_counted(there) and not {_text(known_as) for known_as in np.asarray(ids).tolist()} <= set(there)


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
