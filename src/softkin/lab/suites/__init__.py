"""Suites: several studies from one file, beside the values that a paper prints, or as the source of our own results.

- ``names``, ``load``: the specs of the paper's tables and figures, TOML files in this folder, or any suite in a file
- ``run``: run or resume the studies of a spec at a scale
- ``table``: the paper's values and ours, row by row; ``figure``: the paper's figures from our runs

Example:
    >>> spec = load_paper("table1")
    >>> spec.value("WRN", "ece_hist", "we")
    0.72
    >>> [part.study.model for part in spec.parts("full")]
    ['densenet161', 'resnet18', 'wrn(units=5)']
"""

from softkin.lab.suites.figures import figure
from softkin.lab.suites.listed import Listed, StudySuite
from softkin.lab.suites.printed import PaperSpec, Part, load, load_paper, names
from softkin.lab.suites.runs import Line, PaperTable, run, table

__all__ = [
    "Line",
    "Listed",
    "PaperSpec",
    "PaperTable",
    "Part",
    "StudySuite",
    "figure",
    "load",
    "load_paper",
    "names",
    "run",
    "table",
]
