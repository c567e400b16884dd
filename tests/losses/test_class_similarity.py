"""The ways to make a loss with class-similarity labels, each against its parts."""

from types import SimpleNamespace

import pytest
import torch

from softkin import distances, losses, similarity, smoothing
from softkin.distances import tree_files
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


def test_a_class_without_a_vector_is_smoothed_uniformly():
    names = ["cat", "dog", "car", "sea_lion", "qzx", "truck", "lion"]
    with pytest.warns(UserWarning, match=r"1 of 7 classes has a name without a vector \('qzx'\) and is smoothed"):
        loss_fn = ClassSimilarityLoss.from_names(names, alpha=0.3, beta=3.0)
    Q = loss_fn.soft_labels
    expected = torch.full((7,), 0.05, dtype=torch.float64)
    expected[4] = 0.7
    torch.testing.assert_close(Q[4], expected)
    torch.testing.assert_close(Q.sum(dim=1), torch.ones(7, dtype=torch.float64))
    rest = [0, 1, 2, 3, 5, 6]
    D = distances.from_words([names[k] for k in rest])
    for row, k in enumerate(rest):  # the class without a vector is at the mean distance
        d = D[row][torch.arange(6) != row]
        d = torch.cat([d, d.mean()[None]])
        expected = torch.softmax(-3.0 * (d - d.mean()) / d.std(correction=0), dim=0)
        others = [j for j in rest if j != k] + [4]
        torch.testing.assert_close(Q[k, others], 0.3 * expected)
    with pytest.raises(ValueError, match="1 word has no vector: 'qzx'"):
        ClassSimilarityLoss.from_names(names, strict=True)
    with pytest.raises(ValueError, match="are these names in another language"):
        ClassSimilarityLoss.from_names(["Hund", "Katze", "Vogel", "car"])


def test_identifiers_of_wordnet_are_looked_up(monkeypatch):
    lemmas = {"n00000001": ["dog", "domestic_dog"], "n00000002": ["cat"], "n00000003": ["sports_car"]}
    fake = SimpleNamespace(lemmas=lemmas.__getitem__)
    monkeypatch.setattr(tree_files, "WordNet", lambda: fake)
    found = ClassSimilarityLoss.from_names(list(lemmas), beta=1.0).soft_labels
    plain = ClassSimilarityLoss.from_names(["dog", "cat", "sports car"], beta=1.0).soft_labels
    torch.testing.assert_close(found, plain)
