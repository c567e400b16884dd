"""Smooth labels, logits and targets → the training loss; ``adjust`` moves α by what validation samples show."""

from softkin.losses.class_similarity import ClassSimilarityLoss
from softkin.losses.learned import LearnedSimilarityLoss
from softkin.losses.multi_label import MultiLabelSimilarityLoss
from softkin.losses.soft_labels import AutoAlpha, ModelOutput, SoftLabelCrossEntropy

__all__ = [
    "AutoAlpha",
    "ClassSimilarityLoss",
    "LearnedSimilarityLoss",
    "ModelOutput",
    "MultiLabelSimilarityLoss",
    "SoftLabelCrossEntropy",
]
