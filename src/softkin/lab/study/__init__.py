"""Studies: methods trained side by side under the same conditions, runs that survive crashes, and the resulting table.

- ``StudySpec``: a study as data; ``methods.known()``: the methods that it can compare
- ``run``: run or resume a study; ``table``: its table, from the folder; ``results``: the records and predictions behind
  the table; ``standing``: which runs are done, running, failed and left

Example:
    >>> spec = StudySpec(methods=("one-hot", "ts", "we"), seeds=(0, 1, 2))
    >>> table = run(spec, "my-study")  # doctest: +SKIP
    >>> print(table.to_markdown())  # doctest: +SKIP
"""

from softkin.lab.study.folder import Result, StudyFolder, results
from softkin.lab.study.records import Kept, Records, keep, kept_in
from softkin.lab.study.run import finish, run
from softkin.lab.study.spec import StudySpec
from softkin.lab.study.tabulation import Cell, Column, Row, Table, table
from softkin.lab.study.worker import Standing, standing, work

__all__ = [
    "Cell",
    "Column",
    "Kept",
    "Records",
    "Result",
    "Row",
    "Standing",
    "StudyFolder",
    "StudySpec",
    "Table",
    "finish",
    "keep",
    "kept_in",
    "results",
    "run",
    "standing",
    "table",
    "work",
]
