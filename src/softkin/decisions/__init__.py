"""Logits of held-out samples → what to do with a probability: answer, answer more coarsely, offer a set, or abstain.

Every rule has ``fit(logits, labels)``, ``predict(logits)``, ``evaluate(logits, labels)`` (what it did, with intervals),
``guarantee()`` (what it promises, in a sentence), ``save``, and ``as_module``.

- ``PredictionSets``: a set of classes that holds the true one as often as promised
- ``Climb``: the class, or a kind of classes above it in a ``Tree``, or nothing
- ``Abstain``: the class, or nothing
- ``Costs``: the action with the least expected cost
- ``adjust_priors``, ``estimate_priors``, ``expected_accuracy``: other class frequencies, and no labels
"""

# The order of these imports is that of the registry, and so of every list of rules.
# isort: off
from softkin.decisions.base import REGISTRY, Outcome, Rule
from softkin.decisions.sets import PredictionSets
from softkin.decisions.abstain import Abstain
from softkin.decisions.climb import Climb
from softkin.decisions.costs import Costs
# isort: on

from softkin.decisions.export import RuleModule
from softkin.decisions.files import load
from softkin.decisions.kin import kin_groups
from softkin.decisions.shift import adjust_priors, estimate_priors, expected_accuracy
from softkin.decisions.thresholds import Selection, Threshold, select
from softkin.decisions.trees import Tree

__all__ = [
    "REGISTRY",
    "Abstain",
    "Climb",
    "Costs",
    "Outcome",
    "PredictionSets",
    "Rule",
    "RuleModule",
    "Selection",
    "Threshold",
    "Tree",
    "adjust_priors",
    "estimate_priors",
    "expected_accuracy",
    "kin_groups",
    "load",
    "select",
]
