"""Numbers that JSON can hold: no NaN, no infinity."""

from typing import Any

from torch import Tensor

from softkin._io.files import number

VERSION = 3
"""Version of the data format; it rises when a field is removed or changes its meaning"""


def numbers(values: Tensor, digits: int | None = None) -> list[Any]:
    """A one-dimensional tensor as a list: integers stay integers, floats become what ``number`` returns."""
    if not values.is_floating_point():
        return list(values.tolist())
    return [number(value, digits) for value in values.tolist()]


def whole(values: Tensor) -> list[int]:
    """Counts that are stored as floats, as integers."""
    return [round(value) for value in values.tolist()]
