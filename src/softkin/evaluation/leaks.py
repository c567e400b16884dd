"""Whether a calibrator has seen what it is judged on: by the content of the rows, so that renaming hides nothing.

A digest of each row (its scores as float32, and its label) is kept with the calibrator. Rows that are saturated can be
equal by chance in different data, so a few common ones prove nothing: a notice starts at one in a hundred.
"""

import json
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softkin import SoftkinError, files
from softkin.predictions import Predictions

SHARE = 0.01


def row_digests(predictions: Predictions) -> NDArray[np.int64]:
    """(N,) a 64-bit digest of each row's scores and label; equal rows of different files have equal ones."""
    bits = predictions.scores.to(torch.float32).contiguous().numpy().view(np.uint32).astype(np.uint64)
    # A sum of products with fixed odd numbers, folded: linear time, and two rows collide about once in 2^63.
    generator = np.random.Generator(np.random.PCG64(0x50F7))
    factors = generator.integers(0, 2**63, bits.shape[1] + 1, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    with np.errstate(over="ignore"):
        total = (bits * factors[:-1]).sum(axis=1, dtype=np.uint64)
        total += predictions.known_labels.numpy().astype(np.uint64) * factors[-1]
        total ^= total >> np.uint64(32)
        total *= factors[0]
    found: NDArray[np.int64] = total.view(np.int64)
    return found


def overlap(fitted: Tensor | None, rows: NDArray[np.int64]) -> int:
    """How many of the rows are among those that a calibrator was fitted on (its ``sample_digests_``)."""
    from softkin.calibrators.base import digests

    if fitted is None:
        return 0
    return int(torch.isin(digests(rows, num_samples=len(rows)), fitted).sum())


def notice(common: int, num_samples: int, method: str | None, name: str) -> str | None:
    """The sentence to warn with, or None where there is nothing to say; ``method`` is None for all of several."""
    if common < max(1, SHARE * num_samples):
        return None
    fitted, whom = (f"the {method} was", "it") if method else ("the calibrators were", "them")
    return (
        f"{common:,} of the {num_samples:,} samples of {name} are among those that {fitted} fitted on; "
        f"what is measured on these flatters {whom}: fit on other samples."
    )


def between(fitted: Predictions, measured: Predictions) -> str | None:
    """The notice of samples that are in both, or None."""
    from softkin.calibrators.base import digests

    rows = digests(row_digests(fitted), num_samples=len(fitted))
    return notice(overlap(rows, row_digests(measured)), len(measured), None, str(measured.name))


def note(common: int, num_samples: int, method: str) -> dict[str, Any]:
    """What a calibrated file remembers of its calibration."""
    return {"calibration": json.dumps({"method": method, "common": common, "num_samples": num_samples})}


def told(notes: dict[str, Any], name: str) -> str | None:
    """What a calibrated file says of its own calibration, as a sentence to warn with."""
    try:
        found = files.parse_json(notes["calibration"], name, "a note of its calibration")
        return notice(int(found["common"]), int(found["num_samples"]), str(found["method"]), name)
    except (SoftkinError, KeyError, TypeError, ValueError, AttributeError):
        return None
