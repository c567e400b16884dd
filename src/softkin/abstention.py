"""The earlier home of ``softkin.decisions.select``: the threshold above which answers are right often enough."""

from softkin.decisions.thresholds import CANDIDATES, Selection, select
from softkin.decisions.thresholds import Threshold as Rule

__all__ = ["CANDIDATES", "Rule", "Selection", "select"]
