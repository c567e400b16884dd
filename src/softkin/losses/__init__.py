"""Smooth labels, logits and targets → the training loss; ``adjust`` moves α by what validation samples show."""

from softkin.losses.auto_alpha import AutoAlpha
from softkin.losses.soft_labels import ClassSimilarityLoss, ModelOutput, SoftLabelCrossEntropy

__all__ = ["AutoAlpha", "ClassSimilarityLoss", "ModelOutput", "SoftLabelCrossEntropy"]
