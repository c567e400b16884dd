"""Similarity and smooth labels: the formulas against brute force, their limits, and their refusals."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from similarity_twins import brute_force, random_distances
from softkin import losses, similarity, smoothing
from softkin.similarity.formula import smallest


@given(st.integers(2, 12), st.floats(0, 20), st.integers(0, 1000), st.sampled_from([1e-30, 1e-3, 1.0, 1e6, 1e30]))
def test_similarity_is_its_definition(k, beta, seed, scale):
    D = random_distances(k, seed, scale)
    S = similarity.from_distances(D, beta=beta)
    np.testing.assert_allclose(S, brute_force(D, beta), rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(S.sum(1), 1, rtol=1e-12)
    assert float(S.diagonal().abs().max()) == 0
    rename = np.random.default_rng(seed).permutation(k)
    np.testing.assert_allclose(
        similarity.from_distances(D[rename][:, rename], beta=beta), S[rename][:, rename], rtol=1e-9
    )
    shifted = similarity.from_distances(D * 7, beta=beta)  # units cancel
    np.testing.assert_allclose(shifted, S, rtol=1e-8)


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1.0, 1e200, 1e300])
@pytest.mark.parametrize("beta", [0.0, 2.0, 1e6])
def test_no_overflow_at_any_scale(scale, beta):
    S = similarity.from_distances(random_distances(6, 1) * scale, beta=beta)
    assert S.isfinite().all()
    np.testing.assert_allclose(S, similarity.from_distances(random_distances(6, 1), beta=beta), rtol=1e-6, atol=1e-12)
    if beta == 0:
        np.testing.assert_allclose(S, (1 - np.eye(6)) / 5)
    if beta == 1e6:
        assert (S.amax(1) == 1).all()  # all on the nearest


def test_edges():
    assert torch.equal(
        similarity.from_distances(torch.tensor([[0.0, 3.0], [3.0, 0.0]]), beta=5.0),
        torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64),
    )
    constant = torch.full((4, 4), 7.0)
    np.testing.assert_allclose(similarity.from_distances(constant, beta=9.0), (1 - np.eye(4)) / 3)
    np.testing.assert_allclose(similarity.from_distances(torch.zeros(4, 4), beta=9.0), (1 - np.eye(4)) / 3)
    nearly = constant.double()
    nearly[0, 1] = nearly[1, 0] = 7 * (1 + 1e-10)  # rounding, not a difference
    np.testing.assert_allclose(similarity.from_distances(nearly, beta=9.0), (1 - np.eye(4)) / 3)
    D = torch.from_numpy(random_distances(5, 0))
    with_other_diagonal = D.clone()
    with_other_diagonal.diagonal().fill_(123.0)
    assert torch.equal(similarity.from_distances(D), similarity.from_distances(with_other_diagonal))
    with_other_diagonal.diagonal().fill_(float("nan"))
    assert torch.equal(similarity.from_distances(D), similarity.from_distances(with_other_diagonal))
    nearly[0, 1] = nearly[1, 0] = 7 * (1 + 1e-7)  # a difference
    assert float(similarity.from_distances(nearly, beta=9.0)[0, 1]) < 0.01
    assert similarity.from_distances(D, beta=1e308).isfinite().all()
    before = D.clone()
    similarity.from_distances(D)
    assert torch.equal(D, before)  # not written to


def test_asymmetric_only_on_request():
    D = random_distances(4, 0)
    D[1, 2] += 0.5
    with pytest.raises(ValueError, match=r"must be symmetric, but \[1, 2\] is .* and \[2, 1\] is .* asymmetric=True"):
        similarity.from_distances(D)
    np.testing.assert_allclose(similarity.from_distances(D, 2.0, asymmetric=True), brute_force(D, 2.0), rtol=1e-9)
    D = random_distances(4, 0)
    D[1, 2] *= 1.001
    D[0, 0] = 1e9  # the diagonal is ignored: it must not hide the difference
    with pytest.raises(ValueError, match="must be symmetric"):
        similarity.from_distances(D)
    almost = torch.from_numpy(random_distances(4, 0)).float()
    almost[0, 1] *= 1 + 1e-6  # float32 rounding
    similarity.from_distances(almost)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: similarity.from_distances(np.zeros((2, 3))), ValueError, r"square \(K, K\) matrix, got shape \(2, 3\)"),
        (lambda: similarity.from_distances(np.zeros((1, 1))), ValueError, "at least 2 classes, got 1"),
        (lambda: similarity.from_distances([[0, -1], [-1, 0]]), ValueError, "not be negative, got -1 at row 0, column 1"),
        (lambda: similarity.from_distances([[0, np.nan], [1, 0]]), ValueError, "must be finite"),
        (lambda: similarity.from_distances(np.ones((3, 3)), beta=-1), ValueError, "`beta` must be finite and at least 0, got -1"),
        (lambda: similarity.from_distances(np.ones((3, 3)), beta=np.nan), ValueError, "`beta` must be finite"),
        (lambda: similarity.from_distances("near"), TypeError, "`distances` must hold numbers"),
        (lambda: similarity.from_vectors(np.ones(3)), ValueError, r"shape \(K, d\) with at least 2 classes, got \(3,\)"),
        (lambda: similarity.from_vectors(np.full((3, 2), np.inf)), ValueError, "`vectors` must be finite"),
        (lambda: similarity.from_vectors(np.ones((3, 2)), top_m=0), ValueError, "`top_m` must be at least 1, got 0"),
        (lambda: smoothing.similarity_labels(np.ones((2, 2)) / 2, 0.1), ValueError, "must have a zero diagonal"),
        (lambda: smoothing.similarity_labels([[0.01, 0.99], [1, 0]], 0.1), ValueError, "class 0 is 0.01 like itself"),
        (lambda: smoothing.uniform_labels(3, None), TypeError, "`alpha` must be a number, got None"),
        (lambda: similarity.from_distances(np.ones((3, 3)), beta="2"), TypeError, "`beta` must be a number, got '2'"),
        (lambda: smoothing.similarity_labels(np.eye(2)[::-1], 1.0), ValueError, "at least 0 and below 1, got 1"),
        (lambda: smoothing.similarity_labels(np.eye(2)[::-1], -0.1), ValueError, "`alpha` must be .*, got -0.1"),
        (lambda: smoothing.similarity_labels(np.zeros((2, 2)), 0.1), ValueError, "rows that sum to 1, but row 0 sums to 0"),
        (lambda: smoothing.uniform_labels(1, 0.1), ValueError, "`num_classes` must be at least 2, got 1"),
        (lambda: smoothing.uniform_labels(2, np.nan), ValueError, "`alpha` must be"),
        (lambda: losses.ClassSimilarityLoss.from_names(["cat", "cat"]), ValueError, "must differ"),
    ],
)  # fmt: skip
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call()


def confusions(n=200, k=5, seed=0, sharpness=3.0):
    """Distances, and probabilities whose wrong mass falls with them."""
    rng = np.random.default_rng(seed)
    D = rng.random((k, k)) + 0.1
    D = D + D.T
    y = rng.integers(0, k, n)
    wrong = np.exp(-sharpness * D[y] + rng.normal(size=(n, k)))
    wrong[np.arange(n), y] = 0
    P = 0.3 * wrong / wrong.sum(axis=1, keepdims=True)
    P[np.arange(n), y] = 0.7
    return D, P, y


def row_cross_entropy(D, P, y, beta):
    """Brute force: class by class, the cross-entropy of the similarities to the wrong mass of the class's rows."""
    S, total = similarity.from_distances(D, beta).numpy(), 0.0
    for k in range(len(D)):
        c = P[y == k].sum(axis=0)
        c[k] = 0
        if c.sum() > 0:
            total -= sum(c[j] / c.sum() * np.log(S[k, j]) for j in range(len(D)) if c[j] > 0)
    return total


@given(st.integers(0, 10_000), st.floats(0, 6))
def test_the_best_beta_has_the_least_cross_entropy(seed, sharpness):
    D, P, y = confusions(seed=seed, n=40, sharpness=sharpness)
    best = similarity.best_beta(D, P, y)
    least = row_cross_entropy(D, P, y, best)
    for other in (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, best * 0.99, best * 1.01 + 1e-3):
        assert row_cross_entropy(D, P, y, other) >= least - 1e-9


def test_a_beta_that_is_known_is_found_again():
    D, _, _ = confusions(k=8)
    for beta in (0.3, 1.0, 3.7):
        P = 0.8 * np.eye(8) + 0.2 * similarity.from_distances(D, beta).numpy()
        assert similarity.best_beta(D, P, np.arange(8)) == pytest.approx(beta, abs=1e-6)
        S = similarity.from_distances(D, "auto", outputs=(torch.from_numpy(P), torch.arange(8)))
        torch.testing.assert_close(S, similarity.from_distances(D, beta), rtol=1e-6, atol=1e-9)


def test_the_ends_of_beta():
    D, P, y = confusions()
    assert similarity.best_beta(D.max() + 1 - D, P, y) == 0  # what is confused is far: distances that mislead
    nearest = np.zeros((5, 5))
    nearest[np.arange(5), np.where(np.eye(5) == 1, np.inf, D).argmin(axis=1)] = 1
    assert similarity.best_beta(D, 0.8 * np.eye(5) + 0.2 * nearest, np.arange(5)) == 50
    assert torch.equal(similarity.from_distances(D, "auto"), similarity.from_distances(D, 2.0))  # for names alone


def test_classes_without_rows_or_confusions_add_nothing():
    D, P, y = confusions()
    chosen = y != 2
    assert similarity.best_beta(D, P[chosen], y[chosen]) > 0
    sure = P.copy()
    sure[y == 2] = np.eye(5)[2]
    assert similarity.best_beta(D, sure, y) == pytest.approx(similarity.best_beta(D, P[chosen], y[chosen]), abs=1e-9)


def test_bad_outputs_are_refused():
    D, P, y = confusions()
    with pytest.raises(ValueError, match="`outputs` are for beta='auto', and beta is 2.0"):
        similarity.from_distances(D, 2.0, outputs=(P, y))
    with pytest.raises(ValueError, match="must cover the 5 classes of `distances`, got 4"):
        similarity.best_beta(D, P[:, :4] / P[:, :4].sum(axis=1, keepdims=True), y % 4)
    with pytest.raises(ValueError, match="there are no confusions to predict"):
        similarity.best_beta(D, np.eye(5), np.arange(5))
    with pytest.raises(TypeError, match="`beta` must be a number, got 'best'"):
        similarity.from_distances(D, "best")


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


@pytest.mark.parametrize("beta", [0.0, 2.0, 400.0])  # all equal, as usual, and most of them underflow to 0
def test_ties_of_the_most_similar_go_to_the_smallest_numbers(beta):
    generator = torch.Generator().manual_seed(0)
    d = torch.randint(1, 4, (40, 40), generator=generator).double()
    d = (d + d.T).fill_diagonal_(0)
    sparse = similarity.from_distances(d, beta, top_m=5)
    blocks = similarity.from_blocks(40, lambda own: d[own].clone(), beta, top_m=5)
    assert (sparse.indices == blocks.indices).all()
    torch.testing.assert_close(sparse.values, blocks.values)
    torch.testing.assert_close(sparse.rest, blocks.rest)
    for k in range(40):
        others = sorted((float(d[k, j]), j) for j in range(40) if j != k)[:5]
        assert sparse.indices[k].tolist() == sorted(j for _, j in others)


def test_a_mixture_is_the_softmax_of_the_weighted_normalised_sum():
    a, b = (torch.from_numpy(random_distances(6, seed)) for seed in (1, 2))
    S = similarity.mixture([a, b], [0.7, 1.9])
    for k in range(6):
        others = [j for j in range(6) if j != k]
        z = sum(
            w * (d[k, others] - d[k, others].mean()) / d[k, others].std(correction=0) for w, d in ((0.7, a), (1.9, b))
        )
        torch.testing.assert_close(S[k, others], torch.softmax(-z, dim=0))
    assert not S.diagonal().any()
    with pytest.raises(ValueError, match="`weights` must be one for each of 2 distances, got 1"):
        similarity.mixture([a, b], [1.0])
    with pytest.raises(ValueError, match="`distances` must cover the same classes, got 6, 5"):
        similarity.mixture([a, a[:5, :5]], [1.0, 1.0])


@pytest.mark.parametrize("m", range(1, 7))
def test_classes_beyond_the_m_nearest_share_the_rest_evenly(m):
    full = similarity.from_distances(random_distances(6, 3), 2.0)
    sparse = similarity.from_distances(random_distances(6, 3), 2.0, top_m=m).dense()
    for k in range(6):
        order = sorted((j for j in range(6) if j != k), key=lambda j: -float(full[k, j]))
        for j in order[:m]:
            assert float(sparse[k, j]) == float(full[k, j])
        for j in order[m:]:
            assert float(sparse[k, j]) == pytest.approx(sum(float(full[k, i]) for i in order[m:]) / len(order[m:]))


def test_the_first_of_equal_entries_are_taken_row_by_row():
    """Against a stable sort; a square of rows whose columns have other ties."""
    for d in (
        torch.tensor([[9, 1, 1, 1, 1], [0, 1, 2, 3, 4]]),
        torch.randint(3, (40, 40), generator=torch.Generator()),
    ):
        expected = [sorted(sorted(range(len(row)), key=lambda k, row=row: (row[k], k))[:3]) for row in d.tolist()]
        assert smallest(d.double(), 3).tolist() == expected
