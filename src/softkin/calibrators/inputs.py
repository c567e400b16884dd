"""The inputs of calibrators: scores as float64 logits, labels and digests of sample ids; and outputs of that kind."""

import hashlib
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softkin._core import checks
from softkin._core.checks import Array
from softkin.calibrators import zeros

LARGEST = 1e304  # larger logits would overflow in differences and sums


def as_logits(
    values: Array, from_probabilities: bool, floor: float | None, labels: Array | None = None, *, least: int = 0
) -> tuple[Tensor, float | None]:
    """The caller's values as contiguous (N, K) float64 logits on the CPU, and the floor if they are probabilities.

    Without a floor it is estimated, from the labels too if there are any, with a warning about the zeros.
    """
    if floor is not None and not from_probabilities:
        raise ValueError("`floor` must be left out with logits: it stands for probabilities of 0.")
    if not from_probabilities:
        z = checks.logits(values, least=least).cpu().to(torch.float64).contiguous()
        if z.numel() and not max(-float(z.min()), float(z.max())) <= LARGEST:
            raise ValueError(f"`logits` must lie between ±{LARGEST:g}: differences of larger ones are infinite.")
        return z, None
    p = checks.probabilities(values, "logits", least=least)
    if p.shape[1] < 2:
        raise ValueError(f"`logits` must cover at least 2 classes, got {p.shape[1]}.")
    p = p.cpu().to(torch.float64).contiguous()
    if floor is None:
        estimate = zeros.floor_of(p, labels)
        floor = estimate.value
        if estimate.zeros:
            warnings.warn(f"{estimate}.", stacklevel=4)
    elif not 0 < checks.number(floor, "floor") < 1:
        raise ValueError(f"`floor` must be above 0 and below 1, got {floor:g}.")
    return zeros.logarithms(p, floor), float(floor)


def labelled_logits(
    values: Array, labels: Array, from_probabilities: bool, floor: float | None, *, least: int = 1
) -> tuple[Tensor, Tensor, float | None]:
    """Logits as from ``as_logits``, int64 labels, and the floor."""
    first = next(iter(labels), None) if isinstance(labels, np.ndarray | list | tuple) else None
    if isinstance(first, str):
        raise TypeError(
            f"`labels` must hold numbers, got texts such as {str(first)!r}; number the classes in the order of the "
            "columns, or use `softkin.sklearn.ScoreCalibrator`, which has class names."
        )
    z, floor = as_logits(values, from_probabilities, floor, labels, least=least)
    return z, checks.class_labels(labels, num_samples=len(z), num_classes=z.shape[1]).cpu(), floor


def like(p: Tensor, logits: Any) -> Any:
    """``p`` as the same kind of array as ``logits``, on the same device, in the same dtype but at least float32."""
    dtype = checks.as_tensor(logits, "logits").dtype
    if dtype in (torch.float16, torch.bfloat16, torch.float32):
        p = p.to(torch.float32)
    if isinstance(logits, Tensor):
        return p.to(torch.float32).to(logits.device) if logits.device.type == "mps" else p.to(logits.device)
    return p.numpy()


def digests(sample_ids: Any, *, num_samples: int) -> Tensor:
    """A 64-bit digest of each id, sorted: the names themselves are not kept. 1, "1" and "#1" are different ids."""
    values = sample_ids.tolist() if isinstance(sample_ids, Tensor | np.ndarray) else list(sample_ids)
    if len(values) != num_samples:
        raise ValueError(f"`sample_ids` must be as many as the samples: got {len(values)} for {num_samples} samples.")
    for place, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, str | int | np.integer):
            raise TypeError(f"`sample_ids` must be texts or whole numbers, got {value!r} at index {place}.")
    raw = b"".join(
        hashlib.blake2b(
            (f"text {value}" if isinstance(value, str) else f"#{int(value)}").encode(), digest_size=8
        ).digest()
        for value in values
    )
    return torch.from_numpy(np.sort(np.frombuffer(raw, dtype="<i8").astype(np.int64)))
