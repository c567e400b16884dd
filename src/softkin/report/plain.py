"""Numbers as JSON has them: no NaN, no infinity."""

import math
from typing import Any

from torch import Tensor

from softkin.metrics import Interval

VERSION = 1
"""Of the data's form: it changes when a field changes its meaning or goes away"""


def number(value: float, digits: int | None = None) -> float | str | None:
    """A float; None for NaN, the texts "Infinity" and "-Infinity", which JavaScript's Number reads."""
    value = float(value)
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value if digits is None else round(value, digits)


def numbers(values: Tensor, digits: int | None = None) -> list[Any]:
    """A tensor of one axis as a list: counts as whole numbers, the rest as ``number``."""
    if not values.is_floating_point():
        return list(values.tolist())
    return [number(value, digits) for value in values.tolist()]


def whole(values: Tensor) -> list[int]:
    """Counts that are kept as floats."""
    return [round(value) for value in values.tolist()]


def measured(value: float) -> dict[str, Any]:
    """A metric: ``value``, and ``low`` and ``high`` where it is an ``Interval``."""
    if isinstance(value, Interval):
        return {"value": number(value), "low": number(value.low), "high": number(value.high)}
    return {"value": number(value)}
