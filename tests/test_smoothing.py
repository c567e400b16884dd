"""Smooth labels are their definition."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from similarity_twins import random_distances
from softkin import similarity, smoothing


@given(st.integers(2, 8), st.floats(0, 0.999), st.floats(0, 1e6), st.integers(0, 1000))
def test_labels_are_their_definition(k, alpha, beta, seed):
    S = similarity.from_distances(random_distances(k, seed), beta=beta)
    Q = smoothing.similarity_labels(S, alpha=alpha)
    np.testing.assert_allclose(Q, (1 - alpha) * np.eye(k) + alpha * S.numpy(), rtol=1e-14)
    np.testing.assert_allclose(Q.sum(1), 1, rtol=1e-12)
    np.testing.assert_allclose(1 - Q.diagonal(), alpha, atol=1e-15)


def test_uniform_labels_are_pytorchs():
    Q = smoothing.uniform_labels(5, alpha=0.1)
    logits, targets = torch.randn(7, 5, dtype=torch.float64), torch.arange(7) % 5
    expected = torch.nn.functional.cross_entropy(logits, targets, label_smoothing=0.1)
    torch.testing.assert_close(-(Q[targets] * logits.log_softmax(1)).sum(1).mean(), expected, rtol=1e-13, atol=0)


@given(st.integers(3, 8), st.integers(0, 10**6), st.floats(0, 0.9))
def test_labels_of_sparse_rows_are_those_of_the_whole_matrix(k, seed, alpha):
    sparse = similarity.from_distances(random_distances(k, seed), 2.0, top_m=2)
    whole = smoothing.similarity_labels(sparse.dense(), alpha)
    torch.testing.assert_close(smoothing.similarity_labels(sparse, alpha).dense(), whole)
    own = similarity.SparseRows(sparse.own + 0.3, sparse.indices, 0.7 * sparse.values, 0.7 * sparse.rest)
    expected = (1 - alpha) * torch.eye(k, dtype=torch.float64) + alpha * own.dense()
    torch.testing.assert_close(smoothing.similarity_labels(own, alpha).dense(), expected)


def test_a_tenth_is_smoothed_unless_another_share_is_named():
    S = similarity.from_distances(random_distances(5, 0))
    np.testing.assert_allclose(smoothing.similarity_labels(S).diagonal(), 0.9)
    np.testing.assert_allclose(smoothing.uniform_labels(5).diagonal(), 0.92)
