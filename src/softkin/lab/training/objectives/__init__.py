"""Logits and labels → the loss of each training method. Every method is declared by its class, beside its formula.

``smooth_labels.py``: other labels than one-hot; ``penalties.py``: losses that penalise confidence, and mixed samples;
``averaging.py``: predictions that average over networks.
"""

from softkin.lab.training.objectives import averaging, penalties, smooth_labels
from softkin.lab.training.objectives.objective import Mixing, Objective, objective

__all__ = ["Mixing", "Objective", "averaging", "objective", "penalties", "smooth_labels"]
