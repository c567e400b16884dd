"""One file of predictions as several: rows to fit on and others to measure on, each file in the form of the first.

A calibrator or a rule is measured on rows that it was not fitted on, and people often have one file. Rows are dealt so
that each class has the same share of each part; or rows of a group stay together; or the earliest rows come first.
"""

import datetime
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from softkin import SoftkinError
from softkin._core import checks
from softkin._core.names import spelling
from softkin._io import escape, files, roles
from softkin._io.files import Assumption
from softkin._io.tables import Table
from softkin.evaluation.monitoring import written_out
from softkin.predictions import Predictions, file_sets, inference, rewriting
from softkin.predictions.blocks import PredictionFile
from softkin.predictions.inference import shown
from softkin.predictions.reading import read_all

UNLABELLED = "unlabelled"
"""The part of the rows without a label"""
EQUAL = {"fit": 0.5, "test": 0.5}
TRAINING = frozenset(("train", "training", "fit", "fitting", "learn", "trn"))
TESTING = frozenset(("test", "testing", "tst", "val", "valid", "validation", "dev", "eval", "holdout", "hold out"))
"""What the cells of a column of parts say of a row"""
TABLES = {".tsv": ".tsv", ".tab": ".tsv"}
"""The suffixes of tables that are not written as .csv"""


@dataclass(frozen=True)
class Part:
    """One part of a file."""

    name: str
    content: str | Predictions
    """The text of a table, or predictions"""
    suffix: str
    num_samples: int

    def save(self, folder: Path) -> Path:
        """Write the part into a folder, and return its path."""
        path = self.path_in(folder)
        if isinstance(self.content, str):
            files.write(path, self.content)
        else:
            self.content.save(path, overwrite=True)
        return path

    def path_in(self, folder: Path) -> Path:
        """The path of the part in a folder."""
        return folder / f"{self.name}{self.suffix}"


def split(
    path: str | Path,
    shares: Mapping[str, float] = EQUAL,
    *,
    by: str | None = None,
    together: str | None = None,
    seed: int = 0,
    **options: Any,
) -> list[Part]:
    """A file of predictions in parts, and its rows without a label as one more.

    Args:
        path: A file, or a folder or pattern of files as one set.
        shares: The share of the rows with a label for each part, by name; together 1.
        by: The column of times or numbers in whose order rows are divided: the earliest go to the first part.
        together: The column of groups, such as customers, whose rows stay in one part.
        seed: The seed of the order in which rows or groups are dealt.
        options: Options of ``predictions.Reading``.

    Raises:
        SoftkinError: The file has no labels, or a part would have no rows.
    """
    _check(shares, by, together)
    seed = checks.count(seed, "seed", least=0)
    file = file_sets.open_any(path, **options | ({} if together is None else {"group": together}))
    known = read_all(file)
    if together is None and (there := own_parts([file])) is not None:
        why = "; they are dealt alike, so rows that the model learned from may come to any part"
        inference.say([f"{file.name}: {there}{why}."])
    if known.labels is None:
        raise SoftkinError(f"{file.name} must have labels for this, it has none: parts are for fitting and measuring.")
    rows = torch.from_numpy(np.asarray(file.rows_of(np.arange(len(known)))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Assumption)  # said above
        whole = file_sets.open_any(path, **options, keep_unlabelled=True)
        every = read_all(whole)
    places = torch.searchsorted(torch.from_numpy(np.asarray(whole.rows_of(np.arange(len(every))))), rows)
    if by is not None:
        sizes, of = _in_order(file, by, len(known))
        part = torch.tensor(cut(sizes, list(shares.values())))[of]
    else:
        part = _dealt(known, list(shares.values()), together is not None, seed)
    chosen = {name: places[part == number] for number, name in enumerate(shares)}
    for name, own in chosen.items():
        if not len(own):
            raise SoftkinError(f"{file.name}: the part `{name}` would have none of its {len(known):,} rows.")
    _warn_of_absent(known, part, list(shares), file.name)
    rest = torch.ones(len(every), dtype=torch.bool)
    rest[places] = False
    if bool(rest.any()):
        chosen[UNLABELLED] = rest.nonzero()[:, 0]
    table = whole.table
    if table is not None and not table.of_kind("list", "mapping") and options.get("labels") is None:
        suffix = TABLES.get(Path(path).suffix, ".csv")
        note = whole.notes.get("calibration")
        return [Part(name, _text(table, own, suffix, note), suffix, len(own)) for name, own in chosen.items()]
    suffix = ".safetensors" if Path(path).suffix == ".safetensors" else ".npz"
    labelled = {name: known.take(part == number) for number, name in enumerate(shares)}
    return [Part(name, labelled.get(name) or every.take(own), suffix, len(own)) for name, own in chosen.items()]


def own_parts(files: Sequence[PredictionFile]) -> str | None:
    """What a column says of parts that files have already: "`split` says train in 40 rows, test in 20"."""
    counts, column = Counter[str](), None
    for file in files:
        if file.table is not None:
            column = roles.find(file.table.of_kind("text"), "part")
            first = {spelling(cell) for cell in file.table.head([column])[column]} if column is not None else set()
            if column is not None and first & (TRAINING | TESTING):
                counts.update(str(cell).strip() for (cell,) in file.table.cells(column) if cell is not None)
    words = {spelling(name) for name in counts}
    if not words & TRAINING or not words & TESTING:
        return None
    return f"`{column}` says {', '.join(f'{name} in {count:,} rows' for name, count in counts.most_common(4))}"


@dataclass(frozen=True)
class Columns:
    """Columns of a table that a reader of its parts may want to name."""

    times: str | None
    """The first of the columns besides scores, labels and ids whose cells are days or times"""
    outcome: str | None
    """The labels of a binary model's single score"""


def columns(path: str | Path, **options: Any) -> Columns:
    """What a file has for ``split(by=…)``, and for a rule of the single score alone; ``options`` as for ``split``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = file_sets.open_any(path, **options)
    if file.table is None:
        return Columns(None, None)
    known = {*file.score_columns, file.label_column, file.id_column}
    rest = [name for name, kind in file.table.columns.items() if kind in ("text", "number") and name not in known]
    cells = file.table.head(rest)
    times = next((name for name in rest if len(cells[name]) > 1 and all(map(_is_time, cells[name]))), None)
    return Columns(times, None if file.score_name is None or file.are_pairs else file.label_column)


def _is_time(cell: Any) -> bool:
    """Whether a cell is a day or a time, as people and programs write them; a number alone is not."""
    if not isinstance(cell, str) or re.search(r"\d[-./]\d", cell) is None:
        return False
    try:
        return bool(datetime.datetime.fromisoformat(written_out(cell)))
    except (ValueError, SoftkinError):
        return False


def _check(shares: Mapping[str, float], by: str | None, together: str | None) -> None:
    if len(shares) < 2 or not all(share > 0 for share in shares.values()) or abs(sum(shares.values()) - 1) > 1e-6:
        raise ValueError(f"`shares` must be two or more, above 0 and together 1, got {dict(shares)}.")
    if UNLABELLED in shares:
        raise ValueError(f"`shares` must not name a part `{UNLABELLED}`: it is for rows without a label.")
    if by is not None and together is not None:
        raise ValueError("`by` and `together` must not both be given: an order may divide the rows of a group.")


def dealt(sizes: Sequence[int], shares: Sequence[float]) -> list[int]:
    """The part of each item, given in order to the part that is furthest below its share.

    After n rows each part has its share of n, to about the size of one item; so does any run of items of size 1.

    Example:
        >>> dealt([1, 1, 1, 1, 1, 1], [0.5, 0.5])
        [0, 1, 0, 1, 0, 1]
    """
    have, total, found = [0.0] * len(shares), 0, []
    for size in sizes:
        total += size
        lacks = [share * total - own for share, own in zip(shares, have, strict=True)]
        place = max(range(len(shares)), key=lacks.__getitem__)
        have[place] += size
        found.append(place)
    return found


def cut(sizes: Sequence[int], shares: Sequence[float]) -> list[int]:
    """The part of each item of an order that is cut into runs, none of which divides an item.

    Example:
        >>> cut([2, 1, 1, 4], [0.5, 0.5])
        [0, 0, 0, 1]
    """
    ends = np.cumsum(sizes)
    middles = (ends - np.asarray(sizes) / 2) / ends[-1]
    found: list[int] = np.minimum(np.searchsorted(np.cumsum(shares), middles), len(shares) - 1).tolist()
    return found


def _dealt(known: Predictions, shares: Sequence[float], in_groups: bool, seed: int) -> torch.Tensor:
    """(N,) the part of each row: of each class, or of the groups, the same share of each."""
    order = torch.randperm(len(known), generator=torch.Generator().manual_seed(seed))
    if in_groups:
        assert known.groups is not None
        names = [known.groups[row] for row in order.tolist()]
        count: dict[str, int] = {}
        for name in names:
            count[name] = count.get(name, 0) + 1
        place = dict(zip(count, dealt(list(count.values()), shares), strict=True))
        return torch.tensor([place[name] for name in known.groups])
    order = order[known.known_labels[order].argsort(stable=True)]
    part = torch.empty(len(known), dtype=torch.int64)
    part[order] = torch.tensor(dealt([1] * len(known), shares))
    return part


def _in_order(file: PredictionFile, column: str, count: int) -> tuple[list[int], torch.Tensor]:
    """(the number of rows at each time, the place of each row's time) in the order of a column."""
    if file.table is None:
        raise SoftkinError(f"--by names a column, and {file.name} is not a table.")
    column = str(roles.chosen(list(file.table.columns), "time", column, "by", file.table.name))
    cells = [cell for (cell,) in file.table.cells(column)]
    if len(cells) > count:  # rows that the reading left out are in no part
        kept = np.asarray(file.row_of(np.arange(count)) if file.row_of is not None else np.arange(count))
        cells = [cells[row] for row in kept]
    _, of, sizes = np.unique(_sortable(cells, column), return_inverse=True, return_counts=True)
    return sizes.tolist(), torch.from_numpy(of)


def _sortable(cells: Sequence[Any], column: str) -> list[float]:
    """Numbers or times as numbers that sort as they do."""
    try:
        return [float(cell) for cell in cells]
    except (TypeError, ValueError):
        pass
    try:
        times = [datetime.datetime.fromisoformat(written_out(str(cell))) for cell in cells]
    except ValueError:
        raise SoftkinError(
            f"--by must name a column of times or numbers, and not all cells of `{column}` are."
        ) from None
    aware = (at if at.tzinfo else at.replace(tzinfo=datetime.UTC) for at in times)
    return [at.timestamp() for at in aware]


def _warn_of_absent(known: Predictions, part: torch.Tensor, names: Sequence[str], file: str) -> None:
    """Warn of classes that a part lacks although the file has them."""
    of = known.class_names or [str(k) for k in range(known.num_classes)]
    there = set(known.known_labels.tolist())
    for number, name in enumerate(names):
        lacks = sorted(there - set(known.known_labels[part == number].tolist()))
        if lacks:
            warnings.warn(f"{file}: the part `{name}` has no row of {shown([of[k] for k in lacks])}.", stacklevel=3)


def _text(table: Table, rows: torch.Tensor, suffix: str, said: str | None) -> str:
    """The text of some rows of a table; what a calibrated one says of itself stands in its first row."""
    note = {} if said is None else {roles.CALIBRATION: [escape.csv_cell(said), *[""] * (len(rows) - 1)]}
    return rewriting.text_of(
        table, [*table.columns, *note], note, tabs=suffix == ".tsv", rows=rows.tolist(), header=table.has_header
    )
