"""An opened file of predictions: what it holds, known before its numbers are read, and the numbers in blocks."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softkin import SoftkinError
from softkin._core import checks
from softkin._core.names import spelling
from softkin._core.progress import track
from softkin._io import files, roles
from softkin._io.roles import ScoreKind
from softkin._io.tables import Rows, Table, counted
from softkin.predictions import inference
from softkin.predictions.container import Predictions
from softkin.predictions.request import Reading

NOTES = ("split_digest", "calibrated_by", "calibration")
SPREAD = ("mutual_information", "members")
"""The arrays that ``Predictions.save`` writes for an ensemble, of shapes (N,) and (N, M, K)."""
BLOCK = 2**21  # scores in a block: 16 MB in float64


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a file."""

    values: Tensor
    """(n, K) scores"""
    labels: Any = None
    """(n,) numbers or class names"""
    ids: Any = None
    texts: list[str] | None = None
    mutual_information: Any = None
    """(n,) disagreement among the members of an ensemble"""
    members: Any = None
    """(n, M, K) probabilities of the members"""
    groups: list[str] | None = None
    """(n,) the group of each row"""
    weights: Tensor | None = None
    """(n,) the weight of each row"""
    rows: Any = None
    """(n,) the rows of the file that these are, counted from 0; (n, 2) the files and their rows if there are several"""

    def some(self, rows: Sequence[int]) -> "Block":
        """Some of the rows."""
        return replace(self, **{part.name: _some(getattr(self, part.name), rows) for part in fields(self)})


def _some(part: Any, rows: Sequence[int]) -> Any:
    """Some rows of a part of a block."""
    return [part[row] for row in rows] if isinstance(part, list | tuple) else None if part is None else part[rows]


@dataclass(frozen=True)
class Beside:
    """The columns beside the scores."""

    labels: str | None
    ids: str | None
    texts: str | None
    scores: str | None = None
    """A column of lists, which is read as the others are"""
    groups: str | None = None
    weights: str | None = None

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        named = (self.labels, self.ids, self.texts, self.scores, self.groups, self.weights)
        return list(dict.fromkeys(column for column in named if column is not None))

    def among(self, columns: Sequence[str], reading: Reading, name: str) -> "Beside":
        """These columns, and those of groups and weights that the caller names."""
        group, weight = reading.group, reading.weight
        return replace(
            self,
            groups=None if group is None else roles.chosen(columns, "group", group, "group", name),
            weights=None if weight is None else roles.chosen(columns, "weight", weight, "weight", name),
        )

    def __contains__(self, column: object) -> bool:
        return column in self.columns

    def with_scores(self, column: str) -> "Beside":
        """These columns and one of lists."""
        return replace(self, scores=column)

    def of(self, rows: Rows) -> tuple[Any, Any, list[str] | None]:
        """The labels, ids and texts of some rows; missing texts become empty."""
        labels, ids = (None if column is None else rows.filled(column) for column in (self.labels, self.ids))
        texts = None if self.texts is None else [str(cell or "") for cell in rows.cells(self.texts)]
        return labels, ids, texts

    def about(self, rows: Rows) -> dict[str, Any]:
        """The groups and weights of some rows, as a block holds them; a missing group is one of its own."""
        groups = None if self.groups is None else group_names(rows.cells(self.groups))
        weights = None if self.weights is None else weight_numbers(rows.cells(self.weights), self.weights, rows.where)
        return {"groups": groups, "weights": weights}

    def of_arrays(self, rows: Callable[[str, int], Iterator[Any]], start: int, count: int) -> dict[str, Any]:
        """The same from the arrays of a file; ``rows`` is a function from (array, rows in a block) to all its rows."""

        def cells(key: str) -> list[Any]:
            block = next(part for place, part in enumerate(rows(key, count)) if place == start // count)
            return list(np.asarray(block).tolist())

        groups = None if self.groups is None else group_names(cells(self.groups))
        named = self.weights
        weights = None if named is None else weight_numbers(cells(named), named, lambda row: counted(start + row))
        return {"groups": groups, "weights": weights}


def group_names(cells: Sequence[Any]) -> list[str]:
    """Groups as texts; whole numbers that became floats lose their point."""
    return ["(none)" if cell is None or cell == "" else roles.unpointed(cell) for cell in cells]


def weight_numbers(cells: Sequence[Any], column: str, where: Callable[[int], str]) -> Tensor:
    """Weights as numbers of at least 0."""
    found = []
    for row, cell in enumerate(cells):
        try:
            value = float(cell)
        except (TypeError, ValueError):
            value = math.nan
        if not 0 <= value < math.inf:
            raise SoftkinError(f"{where(row)}: `{column}` must hold a weight of at least 0, got {cell!r}.")
        found.append(value)
    return torch.tensor(found, dtype=torch.float64)


@dataclass(frozen=True)
class PredictionFile:
    """An opened file: its properties, known before its numbers are read, and the numbers in blocks."""

    name: str
    kind: ScoreKind | None
    """None until ``reading.open_as`` has inferred it from the numbers"""
    num_classes: int
    num_rows: int | None
    """None if it is known only after reading the whole file"""
    blocks_of: Callable[[int], Iterator[Block]]
    class_names: list[str] | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    """Notes that softkin wrote beside the numbers"""
    title: str | None = None
    """The name that the writer of the file gave the samples"""
    columns_named: bool = False
    """Whether every score came with a class name, so that labels refer to those names even if they look like numbers"""
    renormalise: bool = False
    """Whether rows of probabilities are divided by their sums"""
    positive_class: str | None = None
    """The class that the name of the single score of each row says it is of"""
    score_name: str | None = None
    """What the single score of each row is called"""
    is_alone: bool = False
    """Whether the file is one array, whose labels must be in another file"""
    first_label: int = 0
    """The number of the first class among the labels: 1 where they are counted from 1"""
    assumed: tuple[str, ...] = ()
    """What was inferred when the file was opened, a sentence each"""
    are_pairs: bool = False
    """Whether the two columns are those of a pair: the answer is wrong, or right"""
    table: Table | None = None
    """The table that it was read from; None for arrays and for several files"""
    score_columns: tuple[str, ...] = ()
    """The columns of the table that hold the scores"""
    label_column: str | None = None
    """The column of the table that holds the labels"""
    id_column: str | None = None
    """The column of the table that holds the ids of the samples"""
    row_of: Callable[[Any], Any] | None = None
    """A function from a row that is read, or an array of them, to the row of the source, where some are left out"""
    parts: tuple[str, ...] = ()
    """The names of the files of a set"""

    def __post_init__(self) -> None:
        files.within("classes", self.num_classes, self.name)
        try:
            if self.class_names is not None:
                checks.class_names(self.class_names, num_classes=self.num_classes)
        except (TypeError, ValueError) as error:
            raise SoftkinError(f"{self.name}: {error}") from error

    @property
    def claimed_classes(self) -> int:
        """K, or 1 for pairs, which claim one thing per row."""
        return 1 if self.are_pairs else self.num_classes

    def rows_of(self, rows: Any) -> Any:
        """The rows of the file that these rows of the reading are."""
        for row_of in (self.row_of, None if self.table is None else self.table.row_of):
            rows = rows if row_of is None else row_of(rows)
        return rows

    def place(self, row: int) -> str:
        """The place of a row, counted from 0, for messages."""
        row = row if self.row_of is None else self.row_of(row)
        return counted(row) if self.table is None else self.table.place(row)

    def blocks(self, *, progress: bool | None = None) -> Iterator[Block]:
        """All rows, a block at a time, with labels as class numbers; a bar is shown if reading takes long."""
        rows = max(1, BLOCK // self.num_classes)
        total = None if self.num_rows is None else -(-self.num_rows // rows)
        numbers = LabelNumbers(self)
        start, was_said = 0, False
        with files.reading(self.name, "predictions"):
            for block in track(self.blocks_of(rows), f"reading {self.name}", total=total, show=progress):
                values, why = self._rows(block.values, start)
                if why is not None and not was_said:
                    inference.say([why])
                    was_said = True
                labels = None if block.labels is None else numbers(block.labels, start) - self.first_label
                end = start + len(block.values)
                rows_of = self.rows_of(np.arange(start, end)) if block.rows is None else block.rows
                yield replace(block, values=values, labels=labels, rows=rows_of)
                start = end

    def _rows(self, values: Tensor, start: int) -> tuple[Tensor, str | None]:
        """The scores, renormalised if requested or if rounding calls for it, and why."""
        if self.kind != "probs":
            return values, None
        if self.renormalise:
            return inference.renormalised(values, self.name, lambda row: self.place(start + row)), None
        return inference.unrounded(values, self.name, lambda row: self.place(start + row))

    def read(self, *, progress: bool | None = None) -> Predictions:
        """All predictions at once."""
        return assemble(self, list(self.blocks(progress=progress)))


_WHOLE = re.compile(r"\d{1,15}(\.\d*)?(e[+-]\d{2})?", re.IGNORECASE)  # as numpy.savetxt writes them too


class LabelNumbers:
    """Labels as class numbers, from numbers or class names of any spelling.

    Columns ``probs_1``, ``probs_10``, ``probs_2`` are not in numerical order: there, label 2 is the third column.

    Args:
        file: The file, with its class names, if there are any.
    """

    def __init__(self, file: PredictionFile) -> None:
        self.place = {class_name: k for k, class_name in enumerate(file.class_names or ())}
        whole = {int(known): k for known, k in self.place.items() if re.fullmatch(r"[0-9]+", known)}
        self.whole = {} if all(number == k for number, k in whole.items()) else whole  # then places may count from 1
        self.by_number = bool(self.whole) and file.columns_named
        self.name, self.where = file.name, file.place
        alike: dict[str, list[int]] = {}
        for known, k in self.place.items():
            alike.setdefault(spelling(known), []).append(k)
        self.alike = {form: places[0] for form, places in alike.items() if len(places) == 1}
        self.was_said = False

    def __call__(self, labels: Any, start: int) -> Tensor:
        """The numbers of the labels of a block that begins at row ``start``."""
        if isinstance(labels, Tensor):
            return labels
        array = np.asarray(labels)
        if array.ndim == 2 and array.shape[1] == 1:
            array = labels = array[:, 0]
        if array.ndim == 2:  # people's votes for each class
            return checks.as_tensor(array, "labels")
        if array.dtype.kind == "O" and all(isinstance(label, int) and not isinstance(label, bool) for label in labels):
            array = array.astype(np.int64)
        if array.dtype.kind == "b" or (array.dtype.kind == "f" and bool((array == np.floor(array)).all())):
            array = array.astype(np.int64)  # integers that became floats in a table with gaps
        if array.dtype.kind in "iu":
            if not self.by_number:
                return checks.as_tensor(array, "labels")
            array = array.astype(str)
        if array.dtype.kind not in "USO" or not all(isinstance(label, str) for label in array.tolist()):
            raise SoftkinError(f"{self.name}: labels must be class numbers or class names, got {array[:1].tolist()}.")
        numbers = [self.number(text, row) for row, text in enumerate(array.tolist(), start=start)]
        return torch.tensor(numbers, dtype=torch.int64)

    def number(self, text: str, row: int) -> int:
        """The class of a text at a row."""
        k = self.place.get(text)
        if k is None and _WHOLE.fullmatch(text.strip()) and float(text).is_integer():
            number = int(float(text))
            k = self.whole.get(number) if self.whole else number
        if k is None and text.strip():
            bare = text.strip().strip("[]()'\"` ")
            bare = re.sub(r"^\d+:(?=.)", "", bare)  # Weka's 2:dog
            _, called = roles.class_of(bare) or ("", bare)  # Class_1 of the class 1
            k = self.alike.get(spelling(text), self.alike.get(spelling(bare), self.alike.get(spelling(called))))
            if k is not None and not self.was_said:
                self.was_said = True
                inference.say([f"{self.name}: labels are read in any spelling; {text!r} is {list(self.place)[k]!r}."])
        if k is None and not text.strip():
            raise SoftkinError(f"{self.name}, {self.where(row)}: the label is empty; leave rows without a label out.")
        if k is None:
            known = f"one of the classes {', '.join(list(self.place)[:5])} …" if self.place else "a number"
            known = f"a number or {known}" if self.place and not self.whole else known
            hint = "" if self.place else "; name the classes in the order of the scores with --class-names"
            raise SoftkinError(f"{self.name}, {self.where(row)}: the label must be {known}, got {text!r}{hint}.")
        return k


def assemble(source: PredictionFile, blocks: Sequence[Block]) -> Predictions:
    """Predictions from the blocks of a file."""
    if not blocks:
        raise SoftkinError(f"{source.name} must hold at least one row, it holds none.")
    values = torch.cat([block.values for block in blocks])
    labels = None if blocks[0].labels is None else torch.cat([block.labels for block in blocks])
    ids: Any = None
    if all(block.ids is not None for block in blocks):
        with files.reading(source.name, "predictions", hint="ids must be texts or whole numbers"):
            ids = [known_as for block in blocks for known_as in np.asarray(block.ids).tolist()]
    rows = None if any(block.rows is None for block in blocks) else np.concatenate([block.rows for block in blocks])
    texts = None if blocks[0].texts is None else [text for block in blocks for text in block.texts or []]
    about = {
        "class_names": source.class_names,
        "sample_ids": ids,
        "ids_called": None if ids is None else source.id_column,
        "file_rows": None if rows is None else _row_names(source, rows),
        "texts": texts,
        "name": source.name,
        "split_digest": source.notes.get("split_digest"),
        "calibrated_by": source.notes.get("calibrated_by"),
        "are_pairs": source.are_pairs,
        "groups": None if blocks[0].groups is None else [name for block in blocks for name in block.groups or []],
        "weights": None
        if blocks[0].weights is None
        else torch.cat([b.weights for b in blocks if b.weights is not None]),
        **_spread(blocks),
    }
    try:
        _refuse_several(labels, source)
        labels = _from_zero(labels, source)
        if source.kind == "probs":
            return Predictions.from_probabilities(values, labels, **about)
        return Predictions(values, labels, **about)
    except (TypeError, ValueError) as error:
        placed = re.sub(r"\brow (\d+)\b", lambda row: source.place(int(row[1])), str(error))
        raise SoftkinError(f"{source.name}: {placed}") from error


def _row_names(source: PredictionFile, rows: Any) -> Tensor | list[str]:
    """The rows of a file, or those of several with the names of the files."""
    if rows.ndim == 1:
        return torch.from_numpy(rows)
    return [f"{source.parts[place]}, row {row}" for place, row in rows.tolist()]


def _refuse_several(labels: Tensor | None, source: PredictionFile) -> None:
    """Refuse zeros and ones of which rows have different numbers, beside logits: these are no votes."""
    if labels is None or labels.ndim != 2 or source.kind != "logits" or labels.shape[1] < 2:
        return
    ones = (labels == 1).sum(dim=1)
    if bool(((labels == 0) | (labels == 1)).all()) and len(ones.unique()) > 1:
        raise SoftkinError(
            f"{source.name}: labels have {int(ones.min())} to {int(ones.max())} ones in a row, as of several labels "
            "per sample; `softkin evaluate --multi-label` measures such files, and `calibrators.PerLabel` repairs such "
            "scores in Python; votes on classes that exclude each other need `probs`."
        )


def _from_zero(labels: Tensor | None, source: PredictionFile) -> Tensor | None:
    """Labels 1 … K as 0 … K−1; other labels are returned unchanged."""
    if labels is None or labels.is_floating_point() or not len(labels) or source.first_label:
        return labels
    low, high = (int(end) for end in torch.aminmax(labels))
    if low < 1 or high != source.num_classes:
        return labels
    inference.say([f"{source.name}: labels are counted from 1, since they go from {low} to {high}."], stacklevel=5)
    return labels.to(torch.int64) - 1


def _spread(blocks: Sequence[Block]) -> dict[str, Tensor]:
    """The ensemble's fields, joined over all blocks."""
    parts = {name: [getattr(block, name) for block in blocks] for name in SPREAD}
    kept = {
        name: torch.cat([torch.as_tensor(np.asarray(part)) for part in of_blocks])
        for name, of_blocks in parts.items()
        if of_blocks[0] is not None
    }
    if "members" in kept:
        kept["members"] = kept["members"].transpose(0, 1)
    return kept
