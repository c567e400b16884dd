"""What must not change, or must change with it, when the input is permuted, renamed, shifted, scaled or stored otherwise."""

import itertools

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softkin import distances, losses, similarity, smoothing

settings.register_profile("metamorphic", max_examples=30, deadline=None)
quick = settings.get_profile("metamorphic")


@st.composite
def labelled(draw):
    """Whole numbers (N, D) from 0 to 255 and labels that cover 2 to 5 classes, with a generator for more."""
    k = draw(st.integers(2, 5))
    n = draw(st.integers(k, 24))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    labels = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    levels = draw(st.sampled_from([2, 7, 256]))
    return rng.integers(0, levels, (n, draw(st.integers(1, 9)))).astype(np.float64), rng.permutation(labels), rng


def symmetric_distances(rng, k):
    D = rng.gamma(2, size=(k, k)) + 0.01
    return D + D.T


def renamed(matrix, order):
    """The matrix of the same classes where class ``order[j]`` is now called j."""
    return matrix[order][:, order]


@quick
@given(labelled(), st.sampled_from([1, 2]))
def test_distances_follow_their_classes_and_units(sample, p):
    x, y, rng = sample
    D = distances.from_images(x, y, p=p)
    n, k = len(x), len(D)
    torch.testing.assert_close(D, D.T, rtol=0, atol=0)
    shuffled = rng.permutation(n)
    torch.testing.assert_close(distances.from_images(x[shuffled], y[shuffled], p=p), D)
    order = rng.permutation(k)
    place = np.argsort(order)
    torch.testing.assert_close(distances.from_images(x, place[y], p=p), renamed(D, torch.tensor(order)))
    torch.testing.assert_close(distances.from_images(x * 8 + 3, y, p=p), 8 * D)
    torch.testing.assert_close(distances.from_images(x[:, ::-1], y, p=p), D)  # the order of the pixels
    twice = distances.from_images(np.concatenate([x, x]), np.concatenate([y, y]), p=p)
    torch.testing.assert_close(twice, D)  # each pair four times, also those of a sample with itself


@quick
@given(labelled(), st.sampled_from([1, 2]))
def test_distances_do_not_depend_on_how_numbers_are_kept(sample, p):
    x, y, _ = sample
    D = distances.from_images(x, y, p=p)
    for kind in (np.uint8, np.int16, np.int32, np.int64, np.float16, np.float32, ">f8"):
        torch.testing.assert_close(distances.from_images(x.astype(kind), y, p=p), D, rtol=1e-6, atol=1e-6)
    for other in (
        distances.from_images(torch.from_numpy(x), torch.from_numpy(y), p=p),
        distances.from_images(x.reshape(len(x), -1, 1), y.astype(np.uint8), p=p),
        distances.from_images([(x[:2], y[:2]), (x[2:], y[2:])] if len(x) > 2 else [(x, y)], p=p),
        distances.from_images(np.asfortranarray(x), y, p=p),
    ):
        torch.testing.assert_close(other, D)
    if p == 2:
        torch.testing.assert_close(distances.from_features(x, y), D)


@quick
@given(st.permutations(["dolphin", "whale", "rose", "tulip", "bicycle", "seal", "lorry"]))
def test_distances_of_words_follow_their_names(names):
    usual = sorted(names)
    order = torch.tensor([usual.index(name) for name in names])
    torch.testing.assert_close(distances.from_words(names), renamed(distances.from_words(usual), order))


@quick
@given(st.integers(0, 2**32), st.integers(2, 8), st.floats(0, 8), st.integers(-300, 300))
def test_similarity_follows_its_classes_and_no_units(seed, k, beta, exponent):
    rng = np.random.default_rng(seed)
    D = symmetric_distances(rng, k)
    S = similarity.from_distances(D, beta)
    torch.testing.assert_close(S.sum(dim=1), torch.ones(k, dtype=torch.float64))
    assert float(S.diagonal().abs().max()) == 0
    order = rng.permutation(k)
    torch.testing.assert_close(similarity.from_distances(D[order][:, order], beta), renamed(S, torch.tensor(order)))
    torch.testing.assert_close(similarity.from_distances(D * 10.0**exponent, beta), S)
    torch.testing.assert_close(similarity.from_distances(D + 5, beta), S, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(similarity.from_distances(D.astype(np.float32), beta), S, rtol=1e-4, atol=1e-6)
    for i in range(k):  # the nearer, the more alike
        others = [j for j in range(k) if j != i]
        by_distance = sorted(others, key=lambda j: D[i, j])
        alike = [float(S[i, j]) for j in by_distance]
        assert all(first >= second - 1e-12 for first, second in itertools.pairwise(alike))


@quick
@given(st.integers(0, 2**32), st.integers(2, 8), st.floats(0, 0.99), st.floats(0, 0.99))
def test_labels_follow_their_classes_and_grow_with_alpha(seed, k, alpha, other):
    rng = np.random.default_rng(seed)
    S = similarity.from_distances(symmetric_distances(rng, k))
    Q = smoothing.similarity_labels(S, alpha)
    eye = torch.eye(k, dtype=torch.float64)
    order = torch.tensor(rng.permutation(k))
    torch.testing.assert_close(smoothing.similarity_labels(renamed(S, order), alpha), renamed(Q, order))
    torch.testing.assert_close(1 - Q.diagonal(), torch.full((k,), alpha, dtype=torch.float64))
    half = smoothing.similarity_labels(S, (alpha + other) / 2)
    torch.testing.assert_close(half, (Q + smoothing.similarity_labels(S, other)) / 2)
    torch.testing.assert_close(smoothing.similarity_labels(S, 0.0), eye)
    equal = (1 - eye) / (k - 1)
    torch.testing.assert_close(
        smoothing.similarity_labels(equal, alpha * (k - 1) / k), smoothing.uniform_labels(k, alpha)
    )


@quick
@given(st.integers(0, 2**32), st.integers(2, 8), st.integers(1, 12), st.booleans(), st.floats(-50, 50))
def test_losses_follow_their_classes_and_samples(seed, k, n, sparse, shift):
    rng = np.random.default_rng(seed)
    S = similarity.from_distances(symmetric_distances(rng, k))
    Q = smoothing.similarity_labels(S, 0.2)
    logits = torch.tensor(rng.normal(0, 3, (n, k)))
    targets = torch.tensor(rng.integers(0, k, n))
    order = torch.tensor(rng.permutation(k))
    place = torch.argsort(order)
    loss_fn = losses.SoftLabelCrossEntropy(Q)
    loss = loss_fn(logits, targets)
    torch.testing.assert_close(loss_fn(logits + shift, targets), loss)
    torch.testing.assert_close(losses.SoftLabelCrossEntropy(renamed(Q, order))(logits[:, order], place[targets]), loss)
    shuffled = torch.tensor(rng.permutation(n))
    torch.testing.assert_close(loss_fn(logits[shuffled], targets[shuffled]), loss)
    torch.testing.assert_close(loss_fn(logits, torch.eye(k, dtype=torch.float64)[targets]), loss)
    torch.testing.assert_close(losses.SoftLabelCrossEntropy(Q, reduction="none")(logits, targets).mean(), loss)
    torch.testing.assert_close(loss_fn(logits.float(), targets).double(), loss, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(losses.ClassSimilarityLoss(S, 0.2)(logits, targets), loss)
    if sparse:
        rows = similarity.from_vectors(rng.normal(size=(k, 3)), top_m=max(1, k - 2))
        by_rows = losses.ClassSimilarityLoss(rows, 0.2)(logits, targets)
        torch.testing.assert_close(by_rows, losses.ClassSimilarityLoss(rows.dense(), 0.2)(logits, targets))
    z = logits.clone().requires_grad_()
    loss_fn(z, targets).backward()
    torch.testing.assert_close(z.grad.sum(dim=1), torch.zeros(n, dtype=torch.float64))  # shifting changes nothing
