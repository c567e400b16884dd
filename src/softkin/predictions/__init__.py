"""Predictions: a network's outputs for some samples, which training hands to calibration and evaluation.

Logits and labels stay together with the names of the classes and of the samples, in memory and in files.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softkin.predictions import formats
    from softkin.predictions.collecting import collect
    from softkin.predictions.formats import load
    from softkin.predictions.predictions import Predictions, save
    from softkin.predictions.reading import Reading

__all__ = ["Predictions", "Reading", "collect", "formats", "load", "save"]

_HOMES = {
    "Predictions": "predictions",
    "Reading": "reading",
    "collect": "collecting",
    "load": "formats",
    "save": "predictions",
}


def __getattr__(name: str) -> Any:
    """Load a module on first use, because the command line needs the names of the formats but not torch."""
    from importlib import import_module

    if name == "formats":
        return import_module(f"{__name__}.formats")
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
