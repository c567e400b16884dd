"""The ways to make a loss with class-similarity labels, each against its parts."""

import torch

from softkin import distances, losses, similarity, smoothing
from softkin.losses import ClassSimilarityLoss


def test_from_names_is_its_parts():
    names = ["cat", "dog", "car", "sea_lion", "truck", "lion"]
    S = similarity.from_distances(distances.from_words(names), beta=3.0)
    loss_fn = ClassSimilarityLoss.from_names(names, alpha=0.2, beta=3.0)
    torch.testing.assert_close(loss_fn.soft_labels, smoothing.similarity_labels(S, 0.2), rtol=1e-12, atol=0)
    sparse = ClassSimilarityLoss.from_names(names, alpha=0.2, beta=3.0, top_m=5)
    logits, targets = torch.randn(9, 6), torch.arange(9) % 6
    torch.testing.assert_close(sparse(logits, targets), loss_fn(logits, targets))


def test_from_distances_is_its_parts():
    D = distances.from_order(5)
    S = similarity.from_distances(D, beta=1.5)
    loss_fn = ClassSimilarityLoss.from_distances(D, alpha=0.3, beta=1.5)
    torch.testing.assert_close(loss_fn.soft_labels, smoothing.similarity_labels(S, 0.3), rtol=1e-12, atol=0)


def test_learned_is_the_loss_of_its_module():
    S = similarity.from_distances(distances.from_order(5))
    made = ClassSimilarityLoss.learned(5, 0.4, prior=S, prior_rows=3, steps=7, ignore_index=-1)
    assert isinstance(made, losses.LearnedSimilarityLoss)
    assert (made.alpha, made.steps, made.ignore_index) == (0.4, 7, -1)
    assert repr(made) == ("LearnedSimilarityLoss(alpha=0.4, learned, prior_rows=3, num_classes=5, reduction='mean')")
