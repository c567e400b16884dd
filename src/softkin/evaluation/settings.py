"""The options of an evaluation, and the conversion of numbers to plain data."""

from dataclasses import dataclass
from typing import Any

from softkin._io.files import number
from softkin.metrics.resampling import Interval


@dataclass(frozen=True)
class Settings:
    """Options that change the numbers or their intervals."""

    n_bins: int = 15
    confidence: float = 0.95
    resamples: int = 1000
    seed: int = 0
    kde_interval: bool = False
    """Whether the KDE ECE of the output gets an interval, which takes longer than all others together"""


def plain(value: float) -> dict[str, Any]:
    """A metric as plain data: ``value``, and ``low`` and ``high`` if it has an interval."""
    if not isinstance(value, Interval):
        return {"value": number(value)}
    return {"value": number(value), "low": number(value.low), "high": number(value.high)}
