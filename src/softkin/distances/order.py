"""Distances between ordered classes, such as ratings, grades or age groups."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from softkin._core import checks


def from_order(values: int | Sequence[float] | Any, *, power: float = 1.0) -> Tensor:
    r"""Distances between ordered classes: :math:`|v_k - v_{k'}|^{power}`.

    Smooth labels then fall off with the distance from the true class on either side, ``decisions.Costs`` of these
    distances answers with the median class, and of their squares with the class nearest to the mean.

    Args:
        values: The number of classes, K, which are then one apart; or K values, such as [1, 2, 5, 10].
        power: 1 for distances that grow evenly, 2 for squares.

    Returns:
        D, (K, K), symmetric with zeros on the diagonal.

    Example:
        >>> from_order(3)
        tensor([[0., 1., 2.],
                [1., 0., 1.],
                [2., 1., 0.]], dtype=torch.float64)
        >>> from_order([1, 2, 5])[0]
        tensor([0., 1., 4.], dtype=torch.float64)
    """
    if isinstance(values, int) and not isinstance(values, bool):
        checks.count(values, "values", least=2)
        v = torch.arange(values, dtype=torch.float64)
    else:
        v = checks.as_tensor(values, "values").to("cpu", torch.float64)
        if v.ndim != 1 or len(v) < 2:
            raise ValueError(f"`values` must be a number of classes or at least 2 values, got shape {tuple(v.shape)}.")
        checks.finite(v, "values")
        if len(v.unique()) < len(v):
            raise ValueError("`values` must differ: two classes with the same value have no order.")
    if not 0 < checks.number(power, "power") < math.inf:
        raise ValueError(f"`power` must be above 0, got {power}.")
    return (v[:, None] - v).abs() ** power


def values_of(class_names: Sequence[str], order: Sequence[str] | None = None) -> tuple[list[float], str]:
    """The values of named classes, and in words where they come from.

    Args:
        class_names: K names.
        order: The names from the lowest class to the highest. By default names that are numbers are the values, and
            other classes are in the order in which they are given.
    """
    if order is not None:
        place = {name.strip().casefold(): number for number, name in enumerate(order)}
        missing = [name for name in class_names if name.strip().casefold() not in place]
        if missing or len(order) != len(class_names):
            wrong = f"{missing[0]!r} is not in it" if missing else f"it has {len(order)} names"
            raise ValueError(f"`order` must name each of the {len(class_names)} classes once, but {wrong}.")
        return [float(place[name.strip().casefold()]) for name in class_names], " < ".join(order)
    if all(checks.is_number(name) and math.isfinite(float(name)) for name in class_names):
        return [float(name) for name in class_names], "the numbers that name them"
    return [float(k) for k in range(len(class_names))], _listed(class_names)


def _listed(names: Sequence[str]) -> str:
    shown = list(names) if len(names) <= 8 else [*names[:4], "…", names[-1]]
    return " < ".join(shown)
