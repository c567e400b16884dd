"""Whether a calibrator was fitted on the rows it is measured on: found by the rows' content, whatever the file names.

A key of each row is kept with the calibrator: a digest of its scores, as float32, and its label. Rows of different
samples can be equal, though: saturated ones, and those of coarse scores such as a forest's. So a row is identified by
its content only if it occurs once in its file and does not consist of zeros and a one. Other rows are identified by
their sample ids, unless these only number the rows. As many equal rows as chance explains do not count as a leak. Where
both files are at hand, equal ids with equal labels count too, whatever the scores.
"""

import json
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softkin import SoftkinError
from softkin._io import files
from softkin.calibrators.fitted import Fitted, digests
from softkin.predictions import Predictions

SHARE = 0.01  # of the samples: fewer common samples are not reported
LEAST = 5  # samples: fewer are not reported, unless all samples are common
SATURATED = 1 - 1e-6


def row_digests(predictions: Predictions) -> NDArray[np.int64]:
    """A 64-bit digest of each row's scores and label, (N,); equal rows of different files have equal digests."""
    bits = predictions.scores.to(torch.float32).contiguous().numpy().view(np.uint32).astype(np.uint64)
    # A sum of products with fixed odd numbers, folded: linear time, and two rows collide about once in 2^63.
    generator = np.random.Generator(np.random.PCG64(0x50F7))
    factors = generator.integers(0, 2**63, bits.shape[1] + 1, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    with np.errstate(over="ignore"):
        total = (bits * factors[:-1]).sum(axis=1, dtype=np.uint64)
        total += predictions.known_labels.numpy().astype(np.uint64) * factors[-1]
        total ^= total >> np.uint64(32)
        total *= factors[0]
    digests: NDArray[np.int64] = total.view(np.int64)
    return digests


def row_keys(predictions: Predictions) -> NDArray[np.int64]:
    """The keys of the samples, (N,): content, or content and sample id, or the position in this very file."""
    content = row_digests(predictions)
    _, place, count = np.unique(content, return_inverse=True, return_counts=True)
    is_alike = count[place] > 1
    if predictions.are_probabilities:
        is_alike |= (predictions.probabilities.amax(dim=1) > SATURATED).numpy()
    ids = _ids(predictions)
    if ids is None:
        ids = [f"{predictions.digest} {row}" for row in range(len(content))]
    named = [
        int.from_bytes(sha256(f"{key} {name}".encode()).digest()[:8], "little", signed=True) if alike else key
        for key, name, alike in zip(content.tolist(), ids, is_alike.tolist(), strict=True)
    ]
    return np.array(named, dtype=np.int64)


def _ids(predictions: Predictions) -> list[Any] | None:
    """The samples' ids, or None if there are none, or only row numbers, which do not identify samples."""
    ids = predictions.sample_ids
    if ids is None or (isinstance(ids, Tensor) and bool((ids.diff() == 1).all()) and int(ids[0]) in (0, 1)):
        return None
    return ids.tolist() if isinstance(ids, Tensor) else list(ids)


def _same_ids(fitted: Predictions, measured: Predictions) -> int:
    """The number of samples with an id that both have; 0 if one has another label, as other samples then share ids."""
    first, second = _ids(fitted), _ids(measured)
    if first is None or second is None:
        return 0
    labels = dict(zip(first, fitted.known_labels.tolist(), strict=True))
    pairs = [
        (labels[id_], label) for id_, label in zip(second, measured.known_labels.tolist(), strict=True) if id_ in labels
    ]
    return len(pairs) if all(one == other for one, other in pairs) else 0


def require_same_classes(fitted: Predictions, measured: Predictions) -> None:
    """Refuse to measure on one file what is fitted on another if their classes differ; their order may."""
    if fitted.num_classes != measured.num_classes:
        raise SoftkinError(
            f"{fitted.name} has {fitted.num_classes} classes and {measured.name} has {measured.num_classes}; "
            "what is fitted on one must fit the other."
        )
    measured.in_order(fitted.class_names, str(fitted.name))


def reordered(fitted: Fitted[Any], predictions: Predictions) -> str | None:
    """The line about predictions whose classes are in another order than those of the fit, or None."""
    if fitted.aligned(predictions.class_names) is None:
        return None
    return f"{predictions.name} has its classes in another order than the {fitted.what}; they were matched by name."


def overlap(fitted: Tensor | None, measured: Predictions) -> int:
    """The number of samples that a calibrator was fitted on, beyond what chance explains.

    Args:
        fitted: The calibrator's ``sample_digests_``, which come from ``row_keys``.
        measured: Predictions with labels.
    """
    if fitted is None:
        return 0
    n = len(measured)
    common = int(torch.isin(digests(row_keys(measured), num_samples=n), fitted).sum())
    # Of contents that occur twice in two files, as many are split between the files as the sizes say: those that occur
    # twice in one tell how many occur once in each by chance.
    twice = int((np.unique(row_digests(measured), return_counts=True)[1] == 2).sum())
    chance = 2 * twice * len(fitted) / n
    return common if common == n or common > chance + 4 * chance**0.5 else 0


def notice(common: int, num_samples: int, method: str | None, name: str) -> str | None:
    """The warning about common samples, or None; ``method`` is None if there are several methods."""
    if common < max(1, SHARE * num_samples) or LEAST > common != num_samples:
        return None
    fitted, flattered = (
        (f"the {method} was", "it look better than it is")
        if method
        else ("the calibrators were", "them look better than they are")
    )
    return (
        f"{common:,} of the {num_samples:,} samples of {name} are among those that {fitted} fitted on; "
        f"metrics measured on these make {flattered}: fit on other samples."
    )


def between(fitted: Predictions, measured: Predictions) -> str | None:
    """The warning about samples that are in both sets, or None."""
    measured = measured.in_order(fitted.class_names, str(fitted.name))
    keys = digests(row_keys(fitted), num_samples=len(fitted))
    common = max(overlap(keys, measured), _same_ids(fitted, measured))
    return notice(common, len(measured), None, str(measured.name))


def note(common: int, num_samples: int, method: str) -> dict[str, Any]:
    """The note that a calibrated file carries about its calibration."""
    return {"calibration": json.dumps({"method": method, "common": common, "num_samples": num_samples})}


def warning(notes: dict[str, Any], name: str) -> str | None:
    """The warning that follows from a calibrated file's record of its calibration, or None."""
    try:
        kept = files.parse_json(notes["calibration"], name, "a note of its calibration")
        return notice(int(kept["common"]), int(kept["num_samples"]), str(kept["method"]), name)
    except (SoftkinError, KeyError, TypeError, ValueError, AttributeError):
        return None
