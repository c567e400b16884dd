"""Similarity of vectors, and nearest vectors, by brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

from similarity_twins import brute_force
from softkin import distances, similarity, smoothing
from softkin.similarity import SparseRows


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


def test_copies_beyond_those_that_can_be_nearest_are_not_searched(monkeypatch):
    """Thousands of equal rows would all be candidates of one another, though ties go to the first."""
    looked_at, search = [], similarity.vectors._candidates

    def counted(*arguments):
        places = search(*arguments)
        looked_at.append(places.shape[1])
        return places

    monkeypatch.setattr(similarity.vectors, "_candidates", counted)
    x = np.random.default_rng(0).normal(size=(3, 5))[np.arange(900) % 3]
    indices, gaps = similarity.nearest(x, 4)
    assert max(looked_at) <= 3 * 5
    for i in range(900):
        assert indices[i].tolist() == [j for j in range(900) if j % 3 == i % 3 and j != i][:4]
    assert gaps.max() == 0


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


@given(st.integers(2, 40), st.integers(1, 45), st.floats(0, 10), st.integers(0, 100))
def test_top_m_accounts_for_all_mass(k, m, beta, seed):
    V = np.random.default_rng(seed).normal(size=(k, 5))
    full = similarity.from_vectors(V, beta)
    expected = brute_force(np.sqrt(((V[:, None] - V) ** 2).sum(2)), beta)
    np.testing.assert_allclose(full, expected, rtol=1e-7, atol=1e-12)
    sparse = similarity.from_vectors(V, beta, top_m=m)
    dense = sparse.dense()
    m = min(m, k - 1)
    assert sparse.indices.shape == (k, m)
    np.testing.assert_allclose(dense.sum(1), 1, rtol=1e-12)
    assert float(dense.diagonal().abs().max()) == 0
    for i in range(k):
        kept = sparse.indices[i]
        assert i not in kept
        np.testing.assert_allclose(dense[i, kept], full[i, kept], rtol=1e-7, atol=1e-12)
        others = [j for j in range(k) if j != i and j not in kept]
        if others:
            assert float(full[i, kept].min()) >= float(full[i, others].max()) - 1e-12
            np.testing.assert_allclose(dense[i, others], float(full[i, others].mean()), rtol=1e-7, atol=1e-12)
    Q = smoothing.similarity_labels(sparse, 0.1)
    assert isinstance(Q, SparseRows)
    np.testing.assert_allclose(Q.dense(), smoothing.similarity_labels(dense, 0.1), rtol=1e-12)
