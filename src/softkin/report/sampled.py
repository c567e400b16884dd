"""A random sample of the rows of a file that is too large for a page: decided before anything is measured."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from softkin import SoftkinError
from softkin._core import randomness
from softkin.evaluation.from_files import ROWS, SCORES
from softkin.predictions import Predictions, file_sets
from softkin.predictions.blocks import Block, PredictionFile, assemble

MOST_ROWS = 20_000
MOST_SCORES = 6 * 10**6
"""More than ``model.MANY_SCORES``, so that only quick calibrators are tried: a page takes a minute or two"""


def size_for(num_rows: int, num_classes: int) -> int | None:
    """The number of rows that a page of so many is made from; None for all of them."""
    if num_rows <= ROWS and num_rows * num_classes <= SCORES:
        return None
    return min(num_rows, MOST_ROWS, max(1000, MOST_SCORES // num_classes))


def announced(path: str, **options: Any) -> str | None:
    """The sentence about sampling, from the file's head alone; None for all rows, or if their number is unknown."""
    if path == "-":
        return None
    file = file_sets.open_any(path, **options)
    rows = None if file.num_rows is None else size_for(file.num_rows, file.num_classes)
    if rows is None or file.num_rows is None:
        return None
    return (
        f"{file.name}: the page's charts are made from {rows:,} of the {file.num_rows:,} rows, drawn at random; "
        "the numbers are those of all."
    )


def drawn(path: str, num_rows: int, *, seed: int = 0, **options: Any) -> Predictions:
    """So many random rows of a file as a page takes, in their order.

    Args:
        path: The file, or a folder or pattern, as for ``predictions.load``.
        num_rows: How many rows it has.
        seed: The seed of the draw: equal for files of as many rows, so that models are compared on the same samples.
        options: Options of ``predictions.Reading``.
    """
    if path == "-":
        raise SoftkinError(
            f"--report draws from the {num_rows:,} rows in a second pass, but standard input can be read only once; "
            "save it to a file first."
        )
    file = file_sets.open_any(path, **options)
    size = size_for(num_rows, file.num_classes) or num_rows
    chosen = np.sort(randomness.generator(seed).permutation(num_rows)[:size])
    return assemble(file, list(_picked(file, chosen)))


def _picked(file: PredictionFile, chosen: np.ndarray[Any, np.dtype[np.int64]]) -> Iterator[Block]:
    start = 0
    for block in file.blocks(progress=False):
        end = start + len(block.values)
        mine = chosen[(chosen >= start) & (chosen < end)] - start
        if len(mine):
            yield block.some(mine.tolist())
        start = end
