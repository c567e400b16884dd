"""Training: images, features or word counts, a network, a method and a recipe → a network and its predictions.

    trained = training.fit(model, split.train, split.validation,
                           method=training.Method("uniform"), recipe=training.Recipe.named("small"), folder="run")
    test = training.predict(trained, split.test, name="test")

``fit`` is one plain loop (``loop.py``). Each other file decides one thing: ``recipe.py`` the optimizer and its
learning rate, ``catalogue.py`` and ``objectives.py`` the target and the loss, ``batches.py`` which rows come when and
how they look, ``checkpoints.py`` what survives a crash, ``launch.py`` devices and processes, ``live.py`` what is shown.

The names below are imported when they are first used: the command line reads ``methods.py`` without loading torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softkin._core import ranks
    from softkin.lab.training.batches import Standardisation
    from softkin.lab.training.distances import class_distances, measured_distances
    from softkin.lab.training.loop import Trained, fit
    from softkin.lab.training.methods import METHODS, Method
    from softkin.lab.training.recipe import Recipe
    from softkin.lab.training.training_run import fit_method, predict

CHECKPOINT_EVERY = 5.0
"""The default of ``checkpoint_every``: minimum seconds between two checkpoints, so the most that a crash loses"""
SCHEDULES = ("step", "cosine", "one-cycle", "constant")
AUGMENTATIONS = ("none", "flip", "crop-flip")
PRECISIONS = ("no", "bf16", "fp16")
STOPS = ("refined-nll", "nll", "accuracy", "brier", "ece_hist")
"""The values that fields of a ``Recipe`` may have; here, so that the command line can list them without torch"""

__all__ = [
    "AUGMENTATIONS",
    "CHECKPOINT_EVERY",
    "METHODS",
    "PRECISIONS",
    "SCHEDULES",
    "STOPS",
    "Method",
    "Recipe",
    "Standardisation",
    "Trained",
    "class_distances",
    "fit",
    "fit_method",
    "measured_distances",
    "predict",
    "ranks",
]

_MODULES = {
    "METHODS": "methods",
    "Method": "methods",
    "Recipe": "recipe",
    "Standardisation": "batches",
    "Trained": "loop",
    "class_distances": "distances",
    "fit": "loop",
    "fit_method": "training_run",
    "measured_distances": "distances",
    "predict": "training_run",
}


def __getattr__(name: str) -> Any:
    if name == "ranks":
        return importlib.import_module("softkin._core.ranks")
    if name not in _MODULES:
        raise AttributeError(f"module 'softkin.lab.training' has no attribute {name!r}")
    return getattr(importlib.import_module(f"softkin.lab.training.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
