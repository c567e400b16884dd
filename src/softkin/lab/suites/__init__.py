"""The paper's study: its tables and figures as data, our runs of them, and both values side by side.

- ``names``, ``load``: the specs, TOML files in this folder
- ``run``: run or resume the studies of a spec at a scale
- ``table``: the paper's values and ours, row by row; ``figure``: the paper's figures from our runs

Example:
    >>> spec = load("table1")
    >>> spec.value("WRN", "ece_hist", "we")
    0.72
    >>> [part.study.model for part in spec.parts("full")]
    ['densenet161', 'resnet18', 'wrn(units=5)']
"""

from softkin.lab.suites.figures import figure
from softkin.lab.suites.runs import Line, PaperTable, run, table
from softkin.lab.suites.spec import PaperSpec, Part, load, names

__all__ = ["Line", "PaperSpec", "PaperTable", "Part", "figure", "load", "names", "run", "table"]
