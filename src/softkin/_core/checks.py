"""Checks of arguments, made once before any work starts.

Every error is one sentence: the wrong argument, the allowed values, the given value, and the likely cause.
"""

import warnings
from collections.abc import Sequence
from numbers import Number
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softkin._core.assumption import Assumption
from softkin._core.named_labels import in_order, texts_of
from softkin._core.names import spelling, within

Array: TypeAlias = Tensor | NDArray[Any]
"""The types that public functions accept as arrays of numbers."""

UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)  # torch supports few operations on these dtypes
MANY_CLASSES = 10**7  # a larger label is an id, not a class
MOST_ROUNDING = 0.1  # that the sum of a row may be off because its numbers were rounded
UNIT_ROUNDING = 1e-4  # how far a score may lie beyond 0 or 1: sums in float32 end at 1.00001
LACKING = 1e6  # how far the logit of an option that a row lacks lies below the row's largest
SYMMETRY_TOLERANCE = 1e-5  # relative to the largest entry: float32 distances differ by 1e-7, a wrong entry by far more


def as_tensor(values: Any, name: str) -> Tensor:
    """``values`` as a numeric tensor, sharing memory if possible."""
    if isinstance(values, Tensor):
        if values.is_complex():
            raise TypeError(f"`{name}` must hold real numbers, got {values.dtype}.")
        return values.detach().to(torch.int64) if values.dtype in UNSIGNED else values.detach()
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(
            f"`{name}` must hold a number everywhere, but {int(np.ma.count_masked(values)):,} entries are masked; "
            "leave those rows out first."
        )
    try:
        array = np.asarray(values)
    except ValueError as error:
        made = _of_different_lengths(values, name)
        if made is None:
            raise ValueError(f"`{name}` must be one array, but its parts differ in shape.") from error
        array = made
    if array.dtype.kind == "O" and array.size and all(isinstance(value, Number) for value in array.flat):
        array = array.astype(np.float64)  # as a table of mixed columns holds its numbers
    if array.dtype.kind not in "biuf":
        raise TypeError(f"`{name}` must hold numbers, got an array of {array.dtype}.")
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        array = array.astype(np.int64)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if any(stride < 0 for stride in array.strides):
        array = array.copy()  # torch does not support negative strides
    if array.flags.writeable:
        return torch.from_numpy(array)
    with warnings.catch_warnings():
        # A memory-mapped array is read-only, and torch warns about that; softkin never writes to its arguments.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writ")
        return torch.from_numpy(array)


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


def _of_different_lengths(rows: Any, name: str) -> "np.ndarray[Any, Any] | None":
    """Rows of options of different lengths as one matrix; None if they are no scores, or no rows of numbers."""
    kind = {"probabilities": "probs", "logits": "logits"}.get(name)
    try:
        lines = [np.asarray(row, dtype=np.float64) for row in rows]
    except (TypeError, ValueError):
        return None
    if kind is None or any(line.ndim != 1 or len(line) < 2 for line in lines):
        return None
    return padded([line.tolist() for line in lines], max(map(len, lines)), kind)


def first_line(error: Exception) -> str:
    """The first line of a library's message, without the full stop, for use in our own sentence."""
    return (str(error).splitlines() or [type(error).__name__])[0].strip().removesuffix(".")


def on_device(tensor: Tensor, device: str | torch.device | None) -> Tensor:
    """``tensor`` on the caller's device, or unchanged if ``device`` is None."""
    if device is None:
        return tensor
    try:
        return tensor.to(device)
    except (RuntimeError, AssertionError) as error:  # torch asserts if it was built without CUDA
        raise ValueError(f"the device {device} cannot be used: {first_line(error)}.") from error


def class_labels(labels: Any, *, num_samples: int, num_classes: int | None) -> Tensor:
    """``labels`` as int64 on their device, one per sample, each in 0 … K−1."""
    tensor = as_tensor(labels, "labels")
    if tensor.ndim == 2 and tensor.shape == (num_samples, 1):
        tensor = tensor[:, 0]
    if (tensor.dtype == torch.bool and num_classes == 2) or _is_whole(tensor):
        tensor = tensor.to(torch.int64)
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise TypeError(
            f"`labels` must be integers from 0 to K−1, got {tensor.dtype}; convert class names or one-hot rows first."
        )
    if tensor.ndim != 1:
        raise ValueError(
            f"`labels` must have shape (N,), one class for each sample, got {tuple(tensor.shape)}; "
            "one-hot rows become classes with argmax(1)."
        )
    if len(tensor) != num_samples:
        raise ValueError(f"`labels` must be as many as the samples: got {len(tensor)} for {num_samples} samples.")
    tensor = tensor.to(torch.int64)
    if num_samples == 0:
        return tensor
    low, high = (int(end) for end in torch.aminmax(tensor))
    if low < 0:
        raise ValueError(f"`labels` must be at least 0, got {low}; drop samples without a class first.")
    if num_classes is None and high >= MANY_CLASSES:
        raise ValueError(
            f"`labels` must number the classes from 0 to K−1, got {high}; renumber ids, or pass num_classes."
        )
    if num_classes is not None and high >= num_classes:
        raise ValueError(
            f"`labels` must be below the number of classes, {num_classes}, got {high}; do the labels start at 1?"
        )
    return tensor


def _is_whole(labels: Tensor) -> bool:
    """Whether floating-point labels are whole numbers, as a table with gaps makes of integers."""
    return labels.is_floating_point() and labels.ndim == 1 and bool((labels == labels.floor()).all())


def finite(values: Tensor, name: str, *, first_row: int = 0) -> None:
    """Refuse NaN and infinity; ``first_row`` is the position of ``values[0]`` in the caller's array."""
    if not values.is_floating_point() or len(values) == 0:
        return
    bad = ~torch.isfinite(values.reshape(len(values), -1)).all(dim=1)
    if bool(bad.any()):
        rows = bad.nonzero().flatten() + first_row
        raise ValueError(
            f"`{name}` must be finite, but {len(rows)} rows hold NaN or infinity, the first is row {int(rows[0])}."
        )


def _one_score(tensor: Tensor) -> Tensor | None:
    """(N,) scores if there is one for each sample, of the positive class of a binary model."""
    return tensor if tensor.ndim == 1 else tensor[:, 0] if tensor.ndim == 2 and tensor.shape[1] == 1 else None


def _rows_and_classes(tensor: Tensor, name: str, least: int) -> None:
    """Refuse shapes other than (N, K) with N ≥ ``least`` and K ≥ 2."""
    if tensor.ndim != 2:
        raise ValueError(f"`{name}` must have shape (N, K), got {tuple(tensor.shape)}; flatten pixels or tokens first.")
    if tensor.shape[1] == 0:
        raise ValueError(f"`{name}` must cover at least 2 classes, got none.")
    if len(tensor) < least:
        raise ValueError(f"`{name}` must hold at least {least} sample{'s' * (least > 1)}, got {len(tensor)}.")


def probabilities(values: Any, name: str = "probabilities", *, least: int = 1) -> Tensor:
    """``values`` as (N, K) floating-point probabilities with N ≥ ``least`` and K ≥ 2, on a device with float64.

    (N,) or (N, 1) scores are those of class 1 of a binary model, and become two columns, 1 − s and s.
    Each row must be non-negative and sum to 1, to within 1e-3, or 1e-2 in half precision, which is the effect of
    rounding (float16 keeps 11 bits, bfloat16 only 8). Rows that were rounded to a few decimals are divided by their
    sums, with a warning. Other values are not changed; invalid ones are refused with the likely cause.
    """
    tensor = as_tensor(values, name)
    single = _one_score(tensor)
    if single is not None and len(single):
        single = unit_scores(single, "the probability of class 1 for each sample")
        tensor = torch.stack([1 - single, single], dim=1)
    _rows_and_classes(tensor, name, least)
    if tensor.device.type == "mps":  # MPS has no float64
        tensor = tensor.cpu()
    if not tensor.is_floating_point():
        tensor = tensor.to(torch.float64)
    if len(tensor) == 0:
        return tensor
    half = tensor.dtype in (torch.float16, torch.bfloat16)
    # Two passes settle the usual case: NaN and infinity propagate to the sum of their row.
    sums = tensor.sum(dim=1, dtype=torch.float32 if half else None)
    low, high = (float(end) for end in torch.aminmax(sums))
    tolerance = 1e-2 if half else 1e-3
    if abs(low - 1) <= tolerance and abs(high - 1) <= tolerance and float(tensor.min()) >= 0:
        return tensor
    finite(tensor, name)
    if bool((tensor < 0).any()):
        row, column = (tensor < 0).nonzero()[0].tolist()
        raise ValueError(
            f"`{name}` must not be negative, got {float(tensor[row, column]):g} at row {row}, column {column}; "
            "if these are logits, apply softmax first."
        )
    row = int((sums - 1).abs().argmax())
    total = float(tensor[row].sum(dtype=torch.float64))
    if abs(total - 1) <= rounding(tensor):
        warnings.warn(
            f"`{name}` were rounded: rows are divided by their sums, such as row {row}, which sums to {total:g}.",
            Assumption,
            stacklevel=4,
        )
        return tensor.to(torch.float64) / tensor.sum(dim=1, keepdim=True, dtype=torch.float64)
    raise ValueError(
        f"`{name}` must have rows that sum to 1, but row {row} sums to {total:g}; if these are logits, apply softmax "
        "first, if each class is a yes or no of its own (multi-label), pass labels of the same shape, zeros and ones."
    )


def rounding(values: Tensor) -> float:
    """How far from 1 rows may sum because their numbers were rounded: half a unit of the last decimal for each class.

    It is 0 for numbers that were not rounded to five decimals or fewer.
    """
    v = values.double()
    for decimals in range(6):
        scaled = v * 10**decimals
        if float((scaled - scaled.round()).abs().max()) < 0.02:
            return min(0.5 * v.shape[1] * 10.0**-decimals, MOST_ROUNDING) + 1e-6 if decimals else 0.0
    return 0.0


def logits(values: Any, name: str = "logits", *, least: int = 1) -> Tensor:
    """``values`` as (N, K) finite floating-point logits with N ≥ ``least`` and K ≥ 2.

    (N,) or (N, 1) logits are those of class 1 of a binary model, its log-odds, and become two columns, 0 and z.
    """
    tensor = as_tensor(values, name)
    if tensor.dtype == torch.bool:
        raise TypeError(f"`{name}` must hold real numbers, got {tensor.dtype}.")
    single = _one_score(tensor)
    if single is not None and len(single):
        tensor = torch.stack([torch.zeros_like(single), single], dim=1)
    _rows_and_classes(tensor, name, least)
    if not tensor.is_floating_point():
        tensor = tensor.to(torch.float64 if tensor.device.type != "mps" else torch.float32)
    is_half = tensor.dtype in (torch.float16, torch.bfloat16)
    wide = torch.float64 if is_half and tensor.device.type == "cpu" else None  # a float32 sum is five times as fast
    if not bool(torch.isfinite(tensor.sum(dtype=wide))):  # settles the usual case in one pass; it may also overflow
        finite(tensor, name)
    return tensor


def unit_scores(values: Tensor, what: str = "a probability for each sample") -> Tensor:
    """(N,) or (N, 1) scores from 0 to 1 as (N,) floating-point numbers on a device with float64, N ≥ 1.

    Scores beyond 0 or 1 by a rounding are 0 or 1.
    """
    s = values[:, 0] if values.ndim == 2 else values
    s = s.cpu() if s.device.type == "mps" else s
    s = s if s.is_floating_point() else s.to(torch.float64)
    if len(s) == 0:
        raise ValueError("`probabilities` must hold at least 1 sample, got 0.")
    finite(s, "probabilities")
    low, high = (float(end) for end in torch.aminmax(s))
    if low >= 0 and high <= 1:
        return s
    if low < -UNIT_ROUNDING or high > 1 + UNIT_ROUNDING:
        off = low if low < -UNIT_ROUNDING else high
        raise ValueError(
            f"`probabilities` must be from 0 to 1, {what}, got {off:g}; if these are logits, apply sigmoid first."
        )
    return s.clamp(0, 1)


def rows_are_distributions(values: Tensor) -> bool:
    """Whether every row of (N, K) numbers sums to 1, to within what ``probabilities`` takes for rounding."""
    half = values.dtype in (torch.float16, torch.bfloat16)
    off = (values.sum(dim=1, dtype=torch.float32 if half else torch.float64) - 1).abs()
    return bool((off <= (1e-2 if half else 1e-3)).all()) or bool((off <= rounding(values)).all())


def weights(values: Any, num_samples: int, name: str = "sample_weight") -> Tensor:
    """``values`` as (N,) float64 numbers of at least 0, not all 0."""
    tensor = as_tensor(values, name)
    if tensor.shape != (num_samples,):
        raise ValueError(
            f"`{name}` must have shape ({num_samples},), one weight for each sample, got {tuple(tensor.shape)}."
        )
    tensor = (tensor.cpu() if tensor.device.type == "mps" else tensor).to(torch.float64)
    finite(tensor, name)
    if bool((tensor < 0).any()):
        row = int((tensor < 0).nonzero()[0])
        raise ValueError(f"`{name}` must not be negative, got {float(tensor[row]):g} at row {row}.")
    if not bool((tensor > 0).any()):
        raise ValueError(f"`{name}` must be above 0 somewhere, but every weight is 0.")
    return tensor


def scores(values: Any, name: str) -> Tensor:
    """``values`` as (N,) finite float64 scores, N ≥ 1."""
    tensor = as_tensor(values, name)
    if tensor.ndim != 1:
        raise ValueError(
            f"`{name}` must have shape (N,), one score for each sample, got {tuple(tensor.shape)}; "
            "the winning probability of each row is P.max(1)."
        )
    if len(tensor) == 0:
        raise ValueError(f"`{name}` must hold at least 1 sample, got none.")
    tensor = (tensor.cpu() if tensor.device.type == "mps" else tensor).to(torch.float64)
    finite(tensor, name)
    return tensor


def option(value: Any, name: str, allowed: Sequence[Any]) -> None:
    """Refuse a value that is not one of the allowed ones."""
    if value not in allowed or isinstance(value, bool):
        *first, last = (repr(value) for value in allowed)
        from softkin._core.names import did_you_mean  # only here: `import softkin.losses` loads few modules

        words = [word for word in allowed if isinstance(word, str)]
        guess = did_you_mean(value, words) if isinstance(value, str) else "."
        raise ValueError(f"`{name}` must be {', '.join(first)}{' or ' if first else ''}{last}, got {value!r}{guess}")


def level(value: float) -> float:
    """The confidence level of an interval, 0 < level < 1."""
    if not 0 < number(value, "confidence") < 1:
        raise ValueError(f"`confidence` must be between 0 and 1, such as 0.95, got {value:g}.")
    return float(value)


def square(matrix: Any, name: str, *, without_diagonal: bool = False) -> Tensor:
    """``matrix`` as a finite, non-negative (K, K) float64 tensor on the CPU with K ≥ 2; a copy.

    ``without_diagonal`` sets the diagonal to 0.
    """
    tensor = as_tensor(matrix, name)
    if tensor.ndim != 2 or tensor.shape[0] != tensor.shape[1]:
        raise ValueError(f"`{name}` must be a square (K, K) matrix, got shape {tuple(tensor.shape)}.")
    if len(tensor) < 2:
        raise ValueError(f"`{name}` must cover at least 2 classes, got {len(tensor)}.")
    tensor = tensor.to("cpu", torch.float64, copy=True)
    if without_diagonal:
        tensor.fill_diagonal_(0)
    finite(tensor, name)
    if bool((tensor < 0).any()):
        row, column = (tensor < 0).nonzero()[0].tolist()
        raise ValueError(
            f"`{name}` must not be negative, got {float(tensor[row, column]):g} at row {row}, column {column}."
        )
    return tensor


def symmetric(matrix: Tensor, name: str) -> None:
    """Refuse an asymmetric matrix."""
    difference = (matrix - matrix.T).abs()
    if float(difference.max()) > SYMMETRY_TOLERANCE * float(matrix.max()):
        row, column = divmod(int(difference.argmax()), len(matrix))
        raise ValueError(
            f"`{name}` must be symmetric, but [{row}, {column}] is {float(matrix[row, column]):g} and "
            f"[{column}, {row}] is {float(matrix[column, row]):g}; pass asymmetric=True if that is meant."
        )


def rows_sum_to_one(matrix: Tensor, name: str) -> None:
    """Refuse rows that are not probability distributions."""
    off = (matrix.sum(dim=1) - 1).abs()
    if float(off.max()) > 1e-5:
        row = int(off.argmax())
        raise ValueError(f"`{name}` must have rows that sum to 1, but row {row} sums to {float(matrix[row].sum()):g}.")


def is_number(text: str) -> bool:
    """Whether ``text`` can be parsed as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def number(value: Any, name: str) -> float:
    """A number; text and None are refused."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating | Tensor):
        raise TypeError(f"`{name}` must be a number, got {value!r}.")
    return float(value)


def alpha(value: float) -> float:
    """The smoothing factor, 0 ≤ α < 1."""
    if not 0 <= number(value, "alpha") < 1:  # also refuses NaN
        raise ValueError(f"`alpha` must be at least 0 and below 1, got {value:g}; it is the mass off the true class.")
    return float(value)


def beta(value: float) -> float:
    """The sharpness of the similarity, 0 ≤ β < ∞."""
    if not 0 <= number(value, "beta") < float("inf"):
        raise ValueError(
            f"`beta` must be finite and at least 0, got {value:g}; 0 makes all other classes equally alike."
        )
    return float(value)


def at_least_zero(value: float, name: str) -> float:
    """A finite number that is not negative."""
    if not 0 <= number(value, name) < float("inf"):
        raise ValueError(f"`{name}` must be finite and at least 0, got {value:g}.")
    return float(value)


def count(value: int, name: str, *, least: int = 1, most: int | None = None) -> int:
    """An integer of at least ``least`` and, if given, at most ``most``."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"`{name}` must be a whole number, got {value!r}.")
    if value < least:
        raise ValueError(f"`{name}` must be at least {least}, got {value}.")
    if most is not None and value > most:
        raise ValueError(f"`{name}` must be at most {most:,}, got {value:,}.")
    return int(value)


def class_names(names: Sequence[str], *, num_classes: int | None = None) -> list[str]:
    """Class names as distinct, non-empty texts, one per class."""
    names = [str(name) if isinstance(name, int | np.integer) else name for name in in_order(names)]
    for place, name in enumerate(names):
        if not isinstance(name, str):
            raise TypeError(f"`class_names` must hold text, got {name!r} at index {place}.")
        if not name.strip():
            raise ValueError(f"`class_names` must not hold an empty name, but the name at index {place} is empty.")
        if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
            raise ValueError(f"`class_names` must be Unicode text, but {name!r} at index {place} cannot be encoded.")
    seen: dict[str, int] = {}
    for place, name in enumerate(names):
        if name in seen:
            raise ValueError(f"`class_names` must differ, but {name!r} appears at indices {seen[name]} and {place}.")
        seen[name] = place
    if num_classes is not None and len(names) != num_classes:
        raise ValueError(
            f"`class_names` must name each class, got {len(names)} names for {num_classes} classes; "
            "was the list made for another data set?"
        )
    return names


def _spelled_alike(names: Sequence[str], wanted: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """Both lists in one spelling, if they are the same classes except for case, blanks, underscores and hyphens."""
    forms, others = [spelling(name) for name in names], [spelling(name) for name in wanted]
    if set(forms) != set(others) or len(set(forms)) < len(forms) or len(forms) != len(others):
        return None
    own, other = next((a, wanted[others.index(form)]) for a, form in zip(names, forms, strict=True) if a not in wanted)
    said = f"classes are matched in any spelling: {own!r} is {other!r}."
    warnings.warn(said, Assumption, stacklevel=5)
    return forms, others


def class_order(
    names: Sequence[str] | None, wanted: Sequence[str] | None, refused: str, *, numbers_are_names: bool = False
) -> Tensor | None:
    """The places (K,) in ``names`` of the wanted classes, which bring columns into the wanted order by indexing.

    None if the order is the same, or if one side has no names.

    Args:
        names: The names of columns.
        wanted: The same names in another order.
        refused: The beginning of the error if they are not the same, up to what is lacking.
        numbers_are_names: Whether 0 … K−1, as columns without names are called, are refused where the others are words.
    """
    if names is None or wanted is None or list(names) == list(wanted):
        return None
    lacking, further = set(wanted) - set(names), set(names) - set(wanted)
    numbers = [str(k) for k in range(len(names))]
    if lacking:
        names, wanted = _spelled_alike(names, wanted) or (within(names, wanted) or names, wanted)
        lacking, further = set(wanted) - set(names), set(names) - set(wanted)
        if list(names) == list(wanted):
            return None
    if lacking and not numbers_are_names and len(names) == len(wanted) and numbers in (list(names), list(wanted)):
        return None
    parts = [
        f"{label} {', '.join(map(repr, found[:5]))}{f' and {len(found) - 5} more' if len(found) > 5 else ''}"
        for label, found in (
            ("it lacks", [name for name in wanted if name in lacking]),
            ("it also has", sorted(further)),
        )
        if found
    ]
    if parts:
        raise ValueError(f"{refused} {'; '.join(parts)}.")
    place = {name: k for k, name in enumerate(names)}
    return torch.tensor([place[name] for name in wanted])


def group_numbers(groups: Array, num_classes: int, name: str) -> Tensor:
    """(K,) group numbers 0 … G−1, or names of groups, which are numbered; every group must have a class."""
    texts = texts_of(groups)
    if texts is not None:
        groups = np.unique(texts, return_inverse=True)[1]
    g = as_tensor(groups, name).cpu()
    if g.ndim != 1 or len(g) != num_classes:
        raise ValueError(f"`{name}` must have shape ({num_classes},), the group of each class, got {tuple(g.shape)}.")
    if g.is_floating_point() or g.dtype == torch.bool:
        raise TypeError(f"`{name}` must be whole numbers from 0, got {g.dtype}.")
    g = g.to(torch.int64)
    if int(g.min()) < 0:
        raise ValueError(f"`{name}` must be at least 0, got {int(g.min())}.")
    missing = sorted(set(range(int(g.max()) + 1)) - set(g.tolist())) if int(g.max()) < num_classes else [0]
    if missing:
        raise ValueError(
            f"`{name}` must use every number from 0 to {int(g.max())}, but group {missing[0]} has no class."
        )
    return g


def like(result: Tensor, original: Any) -> Any:
    """``result`` as the same kind of array as ``original``, on the same device."""
    if not isinstance(original, Tensor):
        return result.numpy()
    is_wide = result.dtype == torch.float64 and original.device.type == "mps"  # which has no float64
    return (result.to(torch.float32) if is_wide else result).to(original.device)


def in_words(classes: Sequence[int], names: Sequence[str] | None) -> str:
    """A few classes for an error message, by name if there are names."""
    shown = [f"{k} ({names[k]})" if names is not None else str(k) for k in classes[:10]]
    more = f" and {len(classes) - 10} more" if len(classes) > 10 else ""
    return ", ".join(shown) + more
