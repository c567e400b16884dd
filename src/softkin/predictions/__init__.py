"""Predictions: a network's outputs for some samples, which training hands to calibration and evaluation.

Logits and labels stay together with the names of the classes and of the samples, in memory and in files.
"""

from typing import TYPE_CHECKING, Any

from softkin._io.files import Assumption

if TYPE_CHECKING:
    from softkin.predictions.collecting import collect
    from softkin.predictions.container import Predictions, save
    from softkin.predictions.file_sets import load
    from softkin.predictions.reading import from_dataframe, from_trainer
    from softkin.predictions.request import Reading

__all__ = ["Assumption", "Predictions", "Reading", "collect", "from_dataframe", "from_trainer", "load", "save"]

_HOMES = {
    "Predictions": "container",
    "Reading": "request",
    "collect": "collecting",
    "from_dataframe": "reading",
    "from_trainer": "reading",
    "load": "file_sets",
    "save": "container",
}


def __getattr__(name: str) -> Any:
    """Load a module on first use, because the command line needs the names of the formats but not torch."""
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
