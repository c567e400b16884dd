"""Nearest vectors by brute force."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

from softkin import distances, similarity


@given(
    st.integers(2, 40),
    st.integers(1, 8),
    st.integers(1, 5),
    st.integers(0, 10**6),
    st.sampled_from([2.0**-66, 1.0, 2.0**66]),
)
def test_nearest_agree_with_brute_force(k, m, d, seed, scale):
    rng = np.random.default_rng(seed)
    x = rng.integers(-2, 3, size=(k, d)) * scale  # many ties
    indices, gaps = similarity.nearest(x, m)
    for i in range(k):
        far = np.linalg.norm(x - x[i], axis=1)
        order = sorted((j for j in range(k) if j != i), key=lambda j: (round(far[j] / scale, 9), j))[:m]
        assert indices[i].tolist() == order
        assert gaps[i].tolist() == pytest.approx(far[order].tolist(), rel=1e-12)


@pytest.mark.parametrize("columns", [1, 2, 20])  # chunks in a tile: fewer than the neighbours, or more
def test_nearest_in_tiles_agree_with_scikit_learn(monkeypatch, columns):
    monkeypatch.setattr(similarity.vectors, "TILE", (64 * columns, 50))
    x = np.random.default_rng(0).normal(size=(1500, 16)) + 100  # far from 0: cancellation
    gaps, places = NearestNeighbors(n_neighbors=9, algorithm="brute").fit(x).kneighbors(x)
    indices, ours = similarity.nearest(x, 8)
    assert np.array_equal(indices.numpy(), places[:, 1:])
    np.testing.assert_allclose(ours.numpy(), gaps[:, 1:], rtol=1e-6)


def test_close_vectors_far_from_the_origin(monkeypatch):
    """Nearest neighbours are where ‖x‖² + ‖y‖² − 2xy cancels."""
    monkeypatch.setattr(similarity.vectors, "BLOCK", 64)  # several blocks of rows
    rng = np.random.default_rng(0)
    V = 1e5 * np.repeat(rng.normal(size=(10, 6)), 3, axis=0)
    V += 1e-4 * rng.normal(size=V.shape)
    V[1] = V[0]
    with pytest.warns(UserWarning, match="2 of 30 class names share a vector"):
        D = distances.from_words([f"w{i}" for i in range(30)], {f"w{i}": v for i, v in enumerate(V)})
    sparse = similarity.from_vectors(V, 2.0, top_m=4)
    full = similarity.from_distances(D, 2.0)
    np.testing.assert_allclose(sparse.values, full.gather(1, sparse.indices), rtol=1e-11)


def test_top_m_of_distances_is_that_of_vectors():
    V = np.random.default_rng(0).normal(size=(9, 4))
    D = np.linalg.norm(V[:, None] - V[None], axis=2)
    for m in (1, 3, 8, 20):
        sparse = similarity.from_distances(D, 1.5, top_m=m)
        torch.testing.assert_close(sparse.dense(), similarity.from_vectors(V, 1.5, top_m=m).dense())
    full = similarity.from_distances(D, 1.5)
    torch.testing.assert_close(similarity.from_distances(D, 1.5, top_m=8).dense(), full)
    sharp = similarity.from_distances(D, 1e6, top_m=3)  # all but the nearest class are 0, and so is the own
    assert not (sharp.indices == torch.arange(9)[:, None]).any()
    y = np.random.default_rng(1).integers(0, 9, 30)
    P = np.random.default_rng(2).dirichlet(np.ones(9), 30)
    dense = similarity.from_vectors(V, "auto", outputs=(P, y))
    torch.testing.assert_close(similarity.from_vectors(V, "auto", top_m=8, outputs=(P, y)).dense(), dense)
