"""Similarity from nearest neighbours against its definition, and what it finds in real features."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softkin import distances, similarity
from softkin.lab import data
from softkin.similarity import neighbours


def twin(x, y, k, classes):
    """W of the definition, row by row."""
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    cosines = u @ u.T
    sums = np.zeros((classes, classes))
    for i in range(len(x)):
        near = sorted((j for j in range(len(x)) if j != i), key=lambda j: -cosines[i, j])[:k]
        weights = np.exp([cosines[i, j] / 0.1 for j in near])
        for j, weight in zip(near, weights / weights.sum(), strict=True):
            if y[j] != y[i]:
                sums[y[i], y[j]] += weight
    return sums


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 12))
def test_similarity_is_what_a_neighbour_classifier_confuses(seed, k):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(40, 3)), np.concatenate([np.arange(4), rng.integers(0, 4, 36)])
    sums = twin(x, y, k, 4)
    if not sums.any():
        return
    expected = similarity.from_confusion(sums)
    torch.testing.assert_close(similarity.from_neighbours(x, y, k=k), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("copies", [0, 30])
def test_faiss_finds_the_same_neighbours_of_many_rows(monkeypatch, copies):
    pytest.importorskip("faiss")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(400, 8)), rng.integers(0, 5, 400)
    x[:copies], y[:copies] = x[0], 0  # more copies of one row than it has neighbours
    exact = similarity.from_neighbours(x, y, k=7)
    monkeypatch.setattr(neighbours, "EXACT", 100)
    monkeypatch.setattr(neighbours, "BLOCK", 64)
    torch.testing.assert_close(similarity.from_neighbours(x, y, k=7), exact, rtol=1e-4, atol=1e-5)
    few = similarity.from_neighbours(x[50:53], np.arange(3), k=20)  # fewer rows than neighbours
    assert few.shape == (3, 3)


def test_the_source_needs_samples_and_gives_the_similarity_itself():
    digits = data.load("digits")
    measured = distances.measure("neighbours", digits)
    torch.testing.assert_close(measured.matrix, distances.from_similarity(measured.similarity))
    assert measured.asymmetric
    names = digits.class_names
    nearest = {names[c]: names[int(measured.similarity[c].argmax())] for c in range(10)}
    assert nearest["nine"] in ("three", "five", "seven", "eight")


@pytest.mark.parametrize(
    ("features", "labels", "words"),
    [
        (torch.zeros(3, 2, 2), [0, 1, 2], "flatten them"),
        (torch.zeros(3, 2), [0, 1, 2], "no cosine"),
        (torch.ones(1, 2), [0], "at least 2 samples"),
        (torch.eye(3) * float("nan"), [0, 1, 2], "finite"),
    ],
)
def test_what_has_no_neighbours_is_refused(features, labels, words):
    with pytest.raises(ValueError, match=words):
        similarity.from_neighbours(features, labels)


def test_separated_classes_have_nothing_to_confuse():
    x = torch.eye(3).repeat_interleave(5, 0) + 0.01 * torch.rand(15, 3)
    with pytest.raises(ValueError, match="larger `k`"):
        similarity.from_neighbours(x, torch.arange(3).repeat_interleave(5), k=4)
