"""Studies: methods trained side by side, fairly, so that nothing is lost, and the table that comes of it.

- ``StudySpec``: what a study is, as data; ``methods.known()``: what it can compare
- ``run``: do it, or go on with it; ``table``: its answer, from what the folder holds; ``results``: the records and
  predictions behind the table; ``standing``: what is done, running, failed and left

Example:
    >>> spec = StudySpec(methods=("one-hot", "ts", "we"), seeds=(0, 1, 2))
    >>> table = run(spec, "my-study")  # doctest: +SKIP
    >>> print(table.to_markdown())  # doctest: +SKIP
"""

from softkin.study.folder import Result, StudyFolder, results
from softkin.study.records import Kept, Records, keep, kept_in
from softkin.study.run import finish, run
from softkin.study.spec import StudySpec
from softkin.study.tables import Cell, Column, Row, Table, table
from softkin.study.worker import Standing, standing, work

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
