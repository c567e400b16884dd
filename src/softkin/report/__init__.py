"""Predictions, or a study, → one HTML page that opens anywhere, and the same as JSON.

First plain data, then the page: ``build`` makes a dictionary of numbers and texts (docs/report.md lists its fields),
``write`` puts it into a page that needs no network and no server, and beside it as JSON.

- ``build``, ``write``: one model
- ``log``: hand a written page to TensorBoard, MLflow or Weights & Biases
- ``build_comparison``, ``write_comparison``: the methods of a study side by side
"""

from softkin.report.build import build
from softkin.report.comparison import build_comparison, write_comparison
from softkin.report.render import write
from softkin.trackers import log_page as log

__all__ = ["build", "build_comparison", "log", "write", "write_comparison"]
