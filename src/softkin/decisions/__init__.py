"""Decision rules: answer, answer more coarsely, offer a set, or abstain, with guarantees from held-out rows.

Every rule has ``fit(logits, labels)``, ``predict(logits)``, ``evaluate(logits, labels)`` (measures with intervals),
``guarantee()`` (its promise in a sentence), ``save``, and ``as_module``.

- ``PredictionSets``: a set of classes that contains the true one as often as promised
- ``Climb``: the class, or a wider kind above it in a ``Tree``, or no answer
- ``Abstain``: the class, or no answer
- ``Costs``: the action with the least expected cost
- ``adjust_priors``, ``estimate_priors``, ``expected_accuracy``: changed class frequencies, without labels
"""

# These imports define the order of the registry, and so of every list of rules.
# isort: off
from softkin.decisions.rule import REGISTRY, Outcome, Rule, load
from softkin.decisions.sets import PredictionSets
from softkin.decisions.abstain import Abstain
from softkin.decisions.climb import Climb
from softkin.decisions.costs import Costs
# isort: on

from softkin.decisions.set_scores import kin_groups
from softkin.decisions.shift import adjust_priors, estimate_priors, expected_accuracy
from softkin.decisions.thresholds import Selection, Threshold, select
from softkin.distances.trees import Tree

__all__ = [
    "REGISTRY",
    "Abstain",
    "Climb",
    "Costs",
    "Outcome",
    "PredictionSets",
    "Rule",
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
