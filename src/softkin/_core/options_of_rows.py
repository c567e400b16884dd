"""Rows with different numbers of options, as multiple choice has them, in one matrix."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

LACKING = 1e6  # how far the logit of an option that a row lacks lies below the row's largest


def padded(rows: Sequence[Sequence[float]], width: int, kind: str) -> NDArray[Any]:
    """(n, width) numbers: an option that a row lacks has the probability 0.

    Its logit is so low that this holds at any temperature that a calibrator would find.
    """
    values = np.zeros((len(rows), width))
    for line, row in zip(values, rows, strict=True):
        line[: len(row)] = row
        if kind == "logits":
            line[len(row) :] = max(row) - LACKING
    return values
