"""Multiple choice with a varying number of options: a column of lists of different lengths."""

import math
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch

from softkin import SoftkinError
from softkin._core import checks
from softkin._io import files
from softkin._io.roles import ScoreKind
from softkin._io.tables import Table
from softkin.predictions import inference
from softkin.predictions.blocks import Beside, Block, PredictionFile
from softkin.predictions.request import Reading

JSON = (".json", ".jsonl", ".ndjson")
LEAST_LOG = 5e-324  # the least positive number, for an option whose probability is exactly 0


def widths(table: Table, part: str) -> tuple[int, int]:
    """The fewest and the most numbers of a row; cells that are no lists have their own error where they are read."""
    head = {len(cell) if isinstance(cell, list) else 0 for cell in table.head([part])[part]}
    if len(head) == 1 and Path(table.name).suffix.lower() not in JSON:
        return 0, 0  # a format of vectors: to look at every cell would take longer than to read them
    fewest, most = 2**31, 0
    for (cell,) in table.cells(part):
        if not isinstance(cell, list) or len(cell) < 2:
            return 0, 0
        fewest, most = min(fewest, len(cell)), max(most, len(cell))
        files.within("classes", most, table.name)
    return fewest, most


def from_table(
    table: Table, part: str, kind: ScoreKind | None, beside: Beside, reading: Reading, ends: tuple[int, int]
) -> PredictionFile:
    """Multiple choice with a varying number of options: lists of different lengths; labels are places among them.

    Probabilities become their logarithms, so that a temperature leaves an option that a row lacks at 0.
    """
    fewest, most = ends
    with files.reading(table.name, "lists of numbers"):
        head = torch.from_numpy(checks.padded(table.head([part])[part], most, "probs"))
        kind = kind or inference.kind_of(head, table.name, f"its `{part}`")[0]

    def blocks(count: int) -> Iterator[Block]:
        start, zeros = 0, 0
        for rows in table.read(count, (), beside.with_scores(part).columns):
            cells = rows.cells(part)
            with files.reading(table.name, "lists of numbers"):
                values = checks.padded(cells, most, kind)
            if kind == "probs":
                p = torch.from_numpy(values)
                place = partial(_place, table, start)
                p = inference.renormalised(p, table.name, place) if reading.renormalise else (
                    inference.unrounded(p, table.name, place)[0]
                )  # fmt: skip
                if not bool((p >= 0).all()):
                    raise SoftkinError(f"{table.name}: `{part}` must hold probabilities, at least 0.")
                logs = [[math.log(max(value, LEAST_LOG)) for value in row[: len(cell)].tolist()]
                        for row, cell in zip(p, cells, strict=True)]  # fmt: skip
                zeros += sum(value == 0 for cell in cells for value in cell)
                values = checks.padded(logs, most, "logits")
            labels, ids, texts = beside.of(rows)
            for row, (cell, label) in enumerate(zip(cells, [] if labels is None else labels, strict=False)):
                if isinstance(label, int | np.integer) and not 0 <= label < len(cell):
                    raise SoftkinError(
                        f"{rows.where(row)}: the label must be the place of one of the {len(cell)} options, counted "
                        f"from 0, got {label}."
                    )
            yield Block(checks.as_tensor(values, part), labels, ids, texts, **beside.about(rows))
            start += len(rows)
        if zeros:
            warnings.warn(
                f"{table.name}: {zeros:,} probabilities are exactly 0, and are taken as {LEAST_LOG:.2g}.", stacklevel=2
            )

    read_as = "logits" if kind == "logits" else "probabilities"
    why = (
        f"{table.name}: rows have {fewest} to {most} options in `{part}`, which are read as {read_as}; "
        "one that is lacking has probability 0, and --method temperature keeps it there."
    )
    names = reading.names or [f"option {k}" for k in range(1, most + 1)]
    if len(names) < most:
        raise SoftkinError(f"{table.name} has rows with {most} options, and --class-names names {len(names)}.")
    return PredictionFile(
        table.name, "logits", most, table.num_rows, blocks, names,
        assumed=(*table.assumed, why), table=table, score_columns=(part,),
    )  # fmt: skip


def _place(table: Table, start: int, row: int) -> str:
    return table.place(start + row)
