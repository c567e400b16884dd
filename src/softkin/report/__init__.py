"""Predictions, or a study, → one HTML page that opens anywhere, and its data as JSON.

``build`` returns a dictionary of numbers and texts (docs/report.md lists its fields). ``write`` turns that dictionary
into a page that needs no network and no server, and saves the dictionary as JSON beside the page.

- ``build``, ``write``: one model
- ``build_models``: several models on the same samples
- ``build_comparison``, ``write_comparison``: the methods of a study side by side
- ``attach``: images and texts from files
- ``log``: hand a written page to TensorBoard, MLflow or Weights & Biases
- ``build_inspection``: a similarity of classes
"""

from typing import TYPE_CHECKING, Any

from softkin.report import attach
from softkin.report.inspector import build_inspection
from softkin.report.labels import build_labels
from softkin.report.model import build
from softkin.report.render import write
from softkin.report.several import build_models
from softkin.trackers import log_page as log

if TYPE_CHECKING:
    from softkin.report.studies import build_comparison, write_comparison

__all__ = [
    "attach",
    "build",
    "build_comparison",
    "build_inspection",
    "build_labels",
    "build_models",
    "log",
    "write",
    "write_comparison",
]


def __getattr__(name: str) -> Any:
    if name in ("build_comparison", "write_comparison"):
        from softkin.report import studies  # loads the laboratory, which other pages do not need

        return getattr(studies, name)
    raise AttributeError(f"module 'softkin.report' has no attribute {name!r}")
