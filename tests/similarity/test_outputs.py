"""Similarity from confusions: shrinkage and calibration, by brute force. Similarity from nearest neighbours against its definition, and what it finds in real features."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softkin import distances, similarity
from softkin.lab import data
from softkin.similarity import outputs


def shrunk_by_hand(sums, a):
    k = len(sums)
    S = np.zeros((k, k))
    for i in range(k):
        mass = sum(sums[i][j] for j in range(k) if j != i)
        for j in range(k):
            if i != j:
                S[i, j] = (sums[i][j] + a / (k - 1)) / (mass + a) if mass + a > 0 else 1 / (k - 1)
    return torch.from_numpy(S)


@given(st.integers(3, 6), st.floats(0, 5), st.integers(0, 10**6))
def test_outputs_agree_with_brute_force(k, a, seed):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(k, 0.5), size=20)
    y = rng.integers(0, k, size=20)
    sums = [[sum(P[i, j] for i in range(20) if y[i] == row) for j in range(k)] for row in range(k)]
    S = similarity.from_outputs(P, y, calibrated=True, shrinkage=a)
    torch.testing.assert_close(S, shrunk_by_hand(sums, a))
    torch.testing.assert_close(S.sum(dim=1), torch.ones(k, dtype=torch.float64))
    counts = rng.integers(0, 9, size=(k, k))
    counts[0, 1] += 1
    torch.testing.assert_close(similarity.from_confusion(counts, shrinkage=a), shrunk_by_hand(counts.astype(float), a))


def test_the_shrinkage_predicts_left_out_samples_best():
    rng = np.random.default_rng(1)
    k, true = 6, rng.dirichlet(np.full(5, 0.7), size=6)
    for samples in (3, 300):
        counts = np.zeros((k, k))
        for i in range(k):
            counts[i, [j for j in range(k) if j != i]] = rng.multinomial(samples, true[i])

        def left_out(a, counts=counts):
            return -sum(
                c * math.log((c - 1 + a / (k - 1)) / (counts[i].sum() - 1 + a))
                for i in range(k)
                for c in counts[i]
                if c
            )

        S = similarity.from_confusion(counts)
        losses = {a: left_out(a) for a in np.exp(np.linspace(-8, 8, 400))}
        best = min(losses, key=losses.get)
        torch.testing.assert_close(S, shrunk_by_hand(counts, best), atol=2e-3, rtol=0)
    # outputs of one class alone: its samples predict each other, the other classes know nothing and stay uniform
    P = torch.tensor([[0.5, 0.4, 0.1]] * 50)
    S = similarity.from_outputs(P, torch.zeros(50, dtype=torch.int64), calibrated=True)
    assert float(S[0, 1]) == pytest.approx(0.8, abs=0.01)
    assert S[1].tolist() == [0.5, 0, 0.5]


def test_the_shrinkage_of_counts_predicts_each_mistake_by_the_others_best():
    """One mistake at a time, over a grid; rows of very different sizes, so that each row's own mass matters."""
    counts = np.array([[0, 40, 6, 2], [1, 0, 2, 0], [300, 90, 0, 60], [0, 1, 1, 0]])

    def loss(a):
        total = 0.0
        for row, column in zip(*np.nonzero(counts), strict=True):
            others = counts[row].copy()
            others[column] -= 1
            total -= counts[row, column] * math.log((others[column] + a / 3) / (others.sum() + a))
        return total

    best = min(np.exp(np.linspace(-6, 8, 1401)), key=loss)
    expected = similarity.from_confusion(torch.from_numpy(counts), shrinkage=float(best))
    torch.testing.assert_close(similarity.from_confusion(torch.from_numpy(counts)), expected, atol=2e-3, rtol=0)


def test_outputs_are_calibrated_by_one_temperature(network_logits):
    logits, labels = network_logits["resnet32-cifar100"]
    sharp = torch.softmax(3 * logits.double(), dim=1)
    S = similarity.from_outputs(torch.softmax(logits.double(), dim=1), labels)
    torch.testing.assert_close(similarity.from_outputs(sharp, labels), S, atol=2e-3, rtol=0)
    crossed = similarity.from_outputs(sharp, labels, folds=5)
    torch.testing.assert_close(crossed, S, atol=5e-3, rtol=0)
    assert not torch.equal(crossed, S)
    assert not torch.allclose(S, S.T)
    assert float(similarity.from_outputs(torch.eye(3), torch.arange(3)).diagonal().sum()) == 0  # no mistakes at all


@pytest.mark.parametrize("right", [True, False])
def test_the_temperature_ends_at_its_bounds(right):
    """All right: no temperature is low enough, and 20 is the end; never right: 0.05 is."""
    P = np.random.default_rng(0).dirichlet(np.full(4, 2.0), size=40)
    y = P.argmax(1) if right else P.argmin(1)
    powers = P ** (20.0 if right else 0.05)
    powers /= powers.sum(1, keepdims=True)
    sums = [[sum(powers[i, j] for i in range(40) if y[i] == row) for j in range(4)] for row in range(4)]
    S = similarity.from_outputs(P, y, shrinkage=0.5, folds=None)
    torch.testing.assert_close(S, shrunk_by_hand(sums, 0.5))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: similarity.from_outputs(torch.full((4, 2), 0.5), [0, 1, 0, 1]),
            "`probabilities` must cover at least 3",
        ),
        (lambda: similarity.from_outputs(torch.full((9, 3), 1 / 3), [0, 1, 2, 3, 4, 5, 6, 7, 8]), "`labels`"),
        (lambda: similarity.from_confusion(torch.ones(2, 2)), "`counts` must cover at least 3 classes, got 2"),
        (lambda: similarity.from_confusion(torch.eye(3)), "`counts` must hold mistakes, got none"),
    ],
)
def test_what_teaches_nothing_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_shares_of_mistakes_are_counts_too():
    """Three classes, and less than one mistake: 5 % of the mean row are added."""
    shares = torch.tensor([[0.0, 0.3, 0.1], [0.2, 0.0, 0.0], [0.0, 0.0, 0.0]])
    torch.testing.assert_close(
        similarity.from_confusion(shares), shrunk_by_hand(shares.tolist(), 0.05 * 0.3), rtol=1e-6, atol=1e-6
    )


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
    monkeypatch.setattr(outputs, "EXACT", 100)
    monkeypatch.setattr(outputs, "BLOCK", 64)
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
