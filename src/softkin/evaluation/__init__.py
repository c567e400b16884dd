"""Predictions → all results of ``softkin evaluate`` as plain data: every metric with its interval, and comparisons.

- ``evaluate``: one model in memory
- ``evaluate_groups``: the same for groups of rows, with intervals that hold together
- ``evaluate_file``: one file of any size; ``Evaluated.data`` is the same plain data, an ``Evaluation``
- ``compare``: several models on the same samples
- ``check``: limits that a model's numbers must keep, for continuous integration
- ``out_of_distribution``: how well a model's scores detect out-of-distribution samples
"""

from softkin.evaluation.comparison import compare
from softkin.evaluation.from_files import Evaluated, evaluate_file
from softkin.evaluation.groups import evaluate_groups
from softkin.evaluation.in_memory import evaluate, out_of_distribution
from softkin.evaluation.limits import Checked, check
from softkin.evaluation.results import Compared, Evaluation

__all__ = [
    "Checked",
    "Compared",
    "Evaluated",
    "Evaluation",
    "check",
    "compare",
    "evaluate",
    "evaluate_file",
    "evaluate_groups",
    "out_of_distribution",
]
