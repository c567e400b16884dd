"""The root of a non-decreasing function: our one safeguarded search, on many lines at once.

Functions of a single number, which cost little, are left to scipy's ``brentq``.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

MOST_STEPS = 200  # every third step halves the bracket, and 64 halvings suffice


def bracket(
    excess: Callable[[Tensor], Tensor],
    low: Tensor,
    high: Tensor,
    *,
    tolerance: float,
    most: float = -math.inf,
    strict: bool = False,
    steep: bool = False,
) -> tuple[Tensor, Tensor]:
    """A bracket (low, high), about ``tolerance`` wide, of the smallest x ≥ ``low`` where the excess is 0 or more.

    The excess must be non-decreasing. Two of three steps go to the zero of the line through both ends, and a little
    further towards the middle, so that the next step can close the bracket from the other side; the third halves it.

    Args:
        excess: A function of a tensor (…) of points; each line is searched by itself.
        low: The start; both ends stay there if the excess is already 0 or more.
        high: A point where the excess is expected to be 0 or more.
        tolerance: The final width of the bracket, relative to the initial one.
        most: While the excess at ``high`` is below 0, the search doubles ``high``, up to this limit.
        strict: Look for the smallest x where the excess is above 0.
        steep: The excess rises at least as fast as x, so an excess within the tolerance ends the search: no root is
            further away. Both ends are then that point.

    Example:
        >>> start, end = torch.tensor([0.0, 1.0], dtype=torch.float64)
        >>> low, high = bracket(lambda x: x**3 - 2, start, end, tolerance=1e-9, most=4)
        >>> round(float(low), 6), float(high - low) <= 1e-9
        (1.259921, True)
    """

    def reached(values: Tensor) -> Tensor:
        return values > 0 if strict else values >= 0

    at_low = excess(low)
    high = torch.where(reached(at_low), low, high)
    if bool((high == low).all()):
        return low, high
    at_high = excess(high)
    while bool((further := ~reached(at_high) & (high < most)).any()):
        low, at_low = torch.where(further, high, low), torch.where(further, at_high, at_low)
        high = torch.where(further, 2 * high, high)
        at_high = excess(high)
    enough = tolerance * (high - low)
    for step in range(MOST_STEPS):
        width = high - low
        if not bool((width > enough).any()):
            break
        rise = at_high - at_low
        share = torch.where(rise > 0, -at_low / rise.clamp(min=1e-300), 0.5)
        # Not so close to an end that the next step could not cross the root.
        margin = (0.4 * enough / width.clamp(min=1e-300)).clamp(1e-3 if step < 4 else 0.0, 0.5)
        share = (share + torch.where(share < 0.5, margin, -margin)).clamp(margin, 1 - margin)
        middle = low + (share if step % 3 < 2 else 0.5) * width
        at_middle = excess(middle)
        above = reached(at_middle)
        low, at_low = torch.where(above, low, middle), torch.where(above, at_low, at_middle)
        high, at_high = torch.where(above, middle, high), torch.where(above, at_middle, at_high)
        if steep:
            is_close = at_middle.abs() <= enough
            low, high = torch.where(is_close, middle, low), torch.where(is_close, middle, high)
    return low, high
