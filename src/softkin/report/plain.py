"""Numbers that JSON can hold: no NaN, no infinity."""

import torch
from torch import Tensor

from softkin._io.files import Plain, number

VERSION = 4
"""Version of the data format; it rises when a field is removed or changes its meaning"""


def numbers(values: Tensor, digits: int | None = None) -> list[Plain]:
    """A one-dimensional tensor as a list: integers stay integers, floats become what ``number`` returns."""
    if not values.is_floating_point():
        return list(values.tolist())
    return [number(value, digits) for value in values.tolist()]


def floats(values: Tensor, digits: int | None = None) -> list[float]:
    """A one-dimensional tensor of finite numbers as a list."""
    return [value if digits is None else round(value, digits) for value in values.to(torch.float64).tolist()]


def whole(values: Tensor) -> list[int]:
    """Counts that are stored as floats, as integers."""
    return [round(value) for value in values.tolist()]
