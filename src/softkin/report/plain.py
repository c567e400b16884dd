"""Numbers as JSON has them: no NaN, no infinity."""

from typing import Any

from torch import Tensor

from softkin.files import number

VERSION = 3
"""Of the data's form: it changes when a field changes its meaning or goes away"""


def numbers(values: Tensor, digits: int | None = None) -> list[Any]:
    """A tensor of one axis as a list: counts as whole numbers, the rest as ``number``."""
    if not values.is_floating_point():
        return list(values.tolist())
    return [number(value, digits) for value in values.tolist()]


def whole(values: Tensor) -> list[int]:
    """Counts that are kept as floats."""
    return [round(value) for value in values.tolist()]
