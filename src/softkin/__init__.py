"""softkin: classifiers whose probabilities can be trusted.

The method, from classes to a loss:

- ``softkin.distances``: class images, features, names or a taxonomy → how far apart the classes are, (K, K)
- ``softkin.word_vectors``: the vectors of words that are shipped, and files of others
- ``softkin.similarity``: distances → how alike the classes are, rows that sum to 1
- ``softkin.smoothing``: similarity + α → the smooth label of each class
- ``softkin.losses``: logits, targets and smooth labels → the training loss
- ``softkin.audition``: which similarity best predicts real confusions, and what looks odd in one

After training, from logits to numbers, answers and pictures:

- ``softkin.predictions``: a network and its samples → logits and labels that stay together, in files too
- ``softkin.metrics``: probabilities and labels → calibration errors and scores, with intervals and comparisons
- ``softkin.calibrators``: logits and labels of held-out samples → calibrated probabilities
- ``softkin.decisions``: logits and labels of held-out samples → sets, coarser answers or none, with guarantees
- ``softkin.bayes``: dropout, SWAG, Laplace and ensembles → predictions that average over networks
- ``softkin.diagrams``: probabilities and labels → reliability diagrams and related figures
- ``softkin.evaluation``, ``softkin.report``: files of predictions → all metrics, and an interactive page
- ``softkin.check(…)``: limits that the numbers must keep, in pytest and in continuous integration

Where people already work: ``softkin.sklearn``, ``softkin.lightning``, ``softkin.torchmetrics``,
``softkin.transformers``, ``softkin.trackers``.

The laboratory, ``softkin.lab``: ``lab.data``, ``models``, one ``training`` loop, ``study`` (methods side by side) and
``suites`` (several studies, among them the paper's own tables).

Importing ``softkin`` imports none of them, so it is fast; ``softkin.losses`` and the others are loaded when they are
first used. What begins with an underscore is internal.
"""

import importlib
from typing import Any

__version__ = "0.1.0.dev0"

_MODULES = (
    "audition",
    "bayes",
    "calibrators",
    "decisions",
    "diagrams",
    "distances",
    "evaluation",
    "lab",
    "losses",
    "metrics",
    "predictions",
    "report",
    "similarity",
    "smoothing",
    "word_vectors",
)


class SoftkinError(Exception):
    """Something outside the code is wrong: a file, a folder, classes that do not fit each other.

    Its message is one line of printable text, whatever names the file contains.
    """

    def __str__(self) -> str:
        text = super().__str__()
        return text if text.isprintable() else "".join(letter if letter.isprintable() else "�" for letter in text)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"softkin.{name}")
    if name == "check":
        return importlib.import_module("softkin.evaluation").check
    raise AttributeError(f"module 'softkin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES, "check"])
