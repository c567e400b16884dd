"""softkin: classifiers whose probabilities can be trusted.

The modules, in the order in which data flows through them:

- ``softkin.distances``: class images, features or names → how far apart the classes are, (K, K)
- ``softkin.similarity``: distances → how alike the classes are, rows that sum to 1
- ``softkin.smoothing``: similarity + α → the smooth label of each class
- ``softkin.losses``: logits, targets and smooth labels → the training loss
- ``softkin.data``: images, features and texts from files on disk, split and cached
- ``softkin.models``, ``softkin.training``: networks, and one loop that trains them by every method and resumes
- ``softkin.predictions``: a network and its samples → logits and labels that stay together, in files too
- ``softkin.bayes``: dropout, SWAG, Laplace and ensembles → predictions that average over networks
- ``softkin.calibrators``: logits and labels of held-out samples → calibrated probabilities
- ``softkin.metrics``: probabilities and labels → calibration errors and scores, with intervals and comparisons
- ``softkin.decisions``: logits and labels of held-out samples → sets, coarser answers or none, with guarantees
- ``softkin.diagrams``: probabilities and labels → reliability diagrams and related figures
- ``softkin.evaluation``, ``softkin.report``: files of predictions → all metrics, and an interactive page
- ``softkin.study``, ``softkin.paper``: methods side by side, and the paper's own tables

Importing ``softkin`` imports none of them, so it is fast; ``softkin.losses`` and the others are loaded when they are
first used.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

__version__ = "0.1.0.dev0"

_MODULES = (
    "abstention",
    "bayes",
    "calibrators",
    "data",
    "decisions",
    "diagrams",
    "distances",
    "evaluation",
    "losses",
    "metrics",
    "models",
    "paper",
    "predictions",
    "report",
    "similarity",
    "smoothing",
    "study",
    "training",
    "word_vectors",
)


class SoftkinError(Exception):
    """Something outside the code is wrong: a file, a folder, classes that do not fit each other.

    Its message is one line of printable text, whatever names the file contains.
    """

    def __str__(self) -> str:
        text = super().__str__()
        return text if text.isprintable() else "".join(letter if letter.isprintable() else "�" for letter in text)


def __getattr__(name: str) -> "ModuleType":
    if name in _MODULES:
        return importlib.import_module(f"softkin.{name}")
    raise AttributeError(f"module 'softkin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
