"""β and weights of sources, against a general solver."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from softkin import audition, similarity


def asymmetric(k, seed):
    return torch.rand(k, k, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).fill_diagonal_(0)


def test_a_mixture_finds_its_weights():
    a, b, c = asymmetric(30, 0), asymmetric(30, 1), asymmetric(30, 2)
    C = similarity.mixture([a, b], [0.8, 0.5])
    result = audition.audition({"a": a, "b": b, "c": c}, audition.Confusions(C, "a toy"))
    assert result.chosen.name == "mixture"
    assert [result.chosen.weights[name] for name in "abc"] == pytest.approx([0.8, 0.5, 0.0], abs=5e-3)
    torch.testing.assert_close(result.similarity, C, atol=1e-3, rtol=0)
    assert "The mixture is" in " ".join(result.words)
    assert result.candidates[0].rows.mean() < min(candidate.rows.mean() for candidate in result.candidates[1:])


def test_weights_are_those_of_a_general_solver():
    """Also where sources are constant, twice the same, or useless, and where the bound of 50 is reached."""
    k = 16
    a, b = asymmetric(k, 0), asymmetric(k, 1)
    C = 0.7 * similarity.mixture([a, b], [1.5, 0.4]) + 0.3 * similarity.from_distances(
        asymmetric(k, 2), asymmetric=True
    )
    constant = torch.ones(k, k, dtype=torch.float64)
    sources = {"a": a, "b": b, "c": asymmetric(k, 3), "constant": constant, "twin": a.clone()}
    result = audition.audition(sources, audition.Confusions(C, "a toy"), folds=2, permutations=19, resamples=100)
    mixed = next(candidate for candidate in result.candidates if candidate.name == "mixture")
    weights = np.array([mixed.weights[name] for name in sources])

    def loss(w):
        S = similarity.mixture(list(sources.values()), np.maximum(w, 0).tolist())
        return -float(torch.where(C > 0, C * S.clamp(min=1e-300).log(), 0.0).sum()) / k

    best = minimize(loss, np.full(5, 0.2), bounds=[(0, 50)] * 5, method="L-BFGS-B").fun
    assert loss(weights) <= best + 1e-9
    assert weights.min() >= 0
    assert weights[0] == pytest.approx(weights[4], abs=1e-4)
    nearest = similarity.from_distances(a, 1e6, asymmetric=True)  # no finite weight is best
    result = audition.audition({"a": a}, audition.Confusions(nearest, "a toy"), folds=2, permutations=19, resamples=100)
    assert result.chosen.beta == pytest.approx(50)
