"""The laboratory: data from disk, networks, one training loop, studies of many trainings, and suites of studies.

Nothing that measures, calibrates or decides imports it: who has logits and labels never meets it.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

_MODULES = ("data", "models", "study", "suites", "training")


def __getattr__(name: str) -> "ModuleType":
    if name in _MODULES:
        return importlib.import_module(f"softkin.lab.{name}")
    raise AttributeError(f"module 'softkin.lab' has no attribute {name!r}")
