"""Logits and labels → the loss of each training method. Every method is declared by its class, beside its formula.

``labels.py``: other labels than one-hot; ``penalties.py``: losses that penalise confidence, and mixed samples;
``networks.py``: predictions that average over networks.
"""

from softkin.lab.training.objectives import labels, networks, penalties
from softkin.lab.training.objectives.objective import Mixing, Objective, objective

__all__ = ["Mixing", "Objective", "labels", "mixing", "networks", "objective", "penalties"]
