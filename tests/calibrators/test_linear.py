"""Vector, matrix and Dirichlet calibration: check values, scipy's minima, the search, maps that are known."""

import math

import numpy as np
import pytest
import torch

from calibration_data import drawn, plain_minimum
from softkin.calibrators import DirichletCalibration, MatrixScaling, VectorScaling
from softkin.calibrators.held_out import folds_of
from softkin.calibrators.linear import KULL_LAMBDAS, KULL_MUS


def odir(k, lam, mu):
    r = np.full((k, k + 1), lam)
    np.fill_diagonal(r, 0)
    r[:, -1] = mu
    return r


def objective_of(cal, z, y):
    w, b = cal.weight_, cal.bias_
    nll = torch.nn.functional.cross_entropy(torch.log_softmax(z.double(), dim=1) @ w.T + b, y)
    off = w.square().sum() - w.diagonal().square().sum()
    return float(nll + cal.lam_ * off + cal.mu_ * b.square().sum())


@pytest.mark.parametrize(("strength", "expected"), [(0.01, 0.245297912), (1.0, 0.253733772)])
def test_check_values(network_logits, strength, expected):
    z, y = (part[:5000] for part in network_logits["resnet20-cifar10"])
    cal = DirichletCalibration(lam=strength).fit(z, y)
    assert cal.mu_ == strength
    assert objective_of(cal, z, y) == pytest.approx(expected, abs=1e-9)
    assert cal.certificate_.gradient_norm <= 1e-7


@pytest.mark.parametrize(("lam", "mu"), [(0.01, 0.01), (0.3, 0.001), (0.0, 0.1), (100.0, 1e-4), (1e-3, 1e5)])
@pytest.mark.parametrize("method", [DirichletCalibration, MatrixScaling])
def test_reaches_scipys_minimum(method, lam, mu):
    z, y = drawn(n=150)
    x = torch.log_softmax(z, dim=1) if method is DirichletCalibration else z - z.mean(dim=1, keepdim=True)
    value, a = plain_minimum(x, y, odir(4, lam, mu), np.eye(4, 5))
    cal = method(lam=lam, mu=mu).fit(z, y)
    r, fitted = odir(4, lam, mu), np.concatenate([cal.weight_.numpy(), cal.bias_.numpy()[:, None]], axis=1)
    ours = cal.certificate_.nll_after + float((r * (fitted - np.eye(4, 5)) ** 2).sum())
    assert ours <= value + 1e-10
    if lam > 0:
        np.testing.assert_allclose(fitted, a, atol=3e-4)


def test_l2_penalty_pulls_to_zero():
    z, y = drawn(n=150)
    penalty = np.full((4, 5), 0.02)
    penalty[:, -1] = 0.3
    _, a = plain_minimum(torch.log_softmax(z, dim=1), y, penalty, np.zeros((4, 5)))
    cal = DirichletCalibration(lam=0.02, mu=0.3, penalty="l2").fit(z, y)
    np.testing.assert_allclose(cal.weight_.numpy(), a[:, :-1], atol=1e-5)


def test_scaling_mean_divides():
    z, y = drawn(n=150)
    a = DirichletCalibration(lam=1.2, mu=0.4, scaling="mean").fit(z, y)
    b = DirichletCalibration(lam=1.2 / 12, mu=0.4 / 4).fit(z, y)
    torch.testing.assert_close(a.weight_, b.weight_, atol=1e-12, rtol=0)


def test_vector_scaling_is_a_matrix_without_off_diagonal():
    z, y = drawn(n=150)
    z = z - z.mean(dim=1, keepdim=True)  # which a matrix does by itself
    vector = VectorScaling(l2=0).fit(z, y)
    matrix = MatrixScaling(lam=1e9, mu=0).fit(z, y)
    torch.testing.assert_close(vector.predict_proba(z), matrix.predict_proba(z), atol=1e-5, rtol=0)
    assert vector.certificate_.nll_after <= matrix.certificate_.nll_after + 1e-9


def test_the_ridge_holds_what_the_data_leave_free():
    z, y = drawn(n=150)
    present = y != 3
    cal = DirichletCalibration(lam=0.1).fit(z[present], y[present])
    assert "a ridge of 1e-06 bounds the free weights of 1 classes" in str(cal.certificate_)
    assert float(cal.weight_.abs().max()) < 1e3
    for method in (VectorScaling(), DirichletCalibration(lam=0.1), MatrixScaling(lam=0.1)):
        cal = method.fit(z, z.argmax(dim=1))  # separable
        assert cal.certificate_.converged
        assert float(cal.weight_.abs().max()) < 1e4


def test_default_search():
    z, y = drawn(n=200)
    cal = DirichletCalibration().fit(z, y)
    rows = cal.sweep()
    assert [row.lam for row in rows] == pytest.approx([10.0**e for e in range(-3, 3)])
    assert all(row.mu == row.lam for row in rows)
    assert (cal.lam_, cal.mu_) == min((row.nll, (row.lam, row.mu)) for row in rows)[1]
    without_search = DirichletCalibration(lam=cal.lam_, mu=cal.mu_).fit(z, y)
    torch.testing.assert_close(cal.weight_, without_search.weight_, atol=1e-6, rtol=0)
    assert without_search.sweep() == []


def fold_nll(z, y, lam, mu, folds=5, seed=0):
    """The mean held-out NLL of converged fits, written plainly."""
    total = 0.0
    parts = folds_of(len(z), folds, seed)
    for held in parts:
        rest = torch.ones(len(z), dtype=torch.bool)
        rest[held] = False
        p = DirichletCalibration(lam=lam, mu=mu).fit(z[rest], y[rest]).predict_proba(z[held])
        total += float(-p.gather(1, y[held][:, None]).log().mean()) / len(parts)
    return total


@pytest.mark.slow
def test_the_published_search_is_that_of_converged_fits(network_logits):
    z, y = (part[:600].clone() for part in network_logits["resnet20-cifar10"])
    z = z[:, :4].double()
    y = torch.where(y < 4, y, y % 4)
    cal = DirichletCalibration(search="kull2019").fit(z, y)
    rows = {(row.lam, row.mu): row.nll for row in cal.sweep()}
    assert len(rows) == 27 * 9
    assert {lam for lam, _ in rows} == set(KULL_LAMBDAS)
    assert {mu for _, mu in rows} == set(KULL_MUS)
    places = [*list(rows)[::24], (cal.lam_, cal.mu_)]
    for place in places:
        assert rows[place] == pytest.approx(fold_nll(z, y, *place), abs=1e-6)
    assert rows[cal.lam_, cal.mu_] == min(rows.values())


def test_averaging_the_fold_models():
    z, y = drawn(n=100)
    cal = DirichletCalibration(lam=0.1, mu=0.1, combine="average", folds=4, seed=3).fit(z, y)
    assert cal.weight_.shape == (4, 4, 4)
    by_hand = []
    for held in folds_of(100, 4, 3):
        rest = torch.ones(100, dtype=torch.bool)
        rest[held] = False
        by_hand.append(DirichletCalibration(lam=0.1, mu=0.1).fit(z[rest], y[rest]).predict_proba(z))
    torch.testing.assert_close(cal.predict_proba(z), torch.stack(by_hand).mean(dim=0), atol=1e-6, rtol=0)


def test_options_are_checked():
    for options, message in [
        ({"lam": -1.0}, "`lam` must be finite and at least 0, got -1"),
        ({"mu": math.inf}, "`mu` must be finite and at least 0, got inf"),
        ({"penalty": "l1"}, "`penalty` must be 'odir' or 'l2', got 'l1'"),
        ({"search": "grid"}, "`search` must be 'equal' or 'kull2019', got 'grid'"),
        ({"folds": 1}, "`folds` must be at least 2, got 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            DirichletCalibration(**options)
    with pytest.raises(TypeError, match="`l2` must be a number, got '1'"):
        VectorScaling(l2="1")


def test_known_dirichlet_map():
    """Labels drawn from softmax(W ln p + b): whitened errors have mean square 1 over 20 seeds.

    W and b are identified only up to a row added to all rows of W and a constant in b, so the Hessian has rank
    (K−1)(K+1) = 8, and the errors are measured where it has curvature: 160 in all, the mean square's own deviation .11.
    """
    k, n = 3, 4000
    generator = torch.Generator().manual_seed(0)
    total = rank = 0.0
    for _ in range(20):
        a = torch.eye(k, k + 1, dtype=torch.float64) * 0.7 + 0.2 * torch.randn(
            k, k + 1, generator=generator, dtype=torch.float64
        )
        x = torch.log_softmax(1.5 * torch.randn(n, k, generator=generator, dtype=torch.float64), dim=1)
        x1 = torch.cat([x, torch.ones(n, 1, dtype=torch.float64)], dim=1)
        p = torch.softmax(x1 @ a.T, dim=1)
        y = torch.multinomial(p, 1, generator=generator)[:, 0]
        cal = DirichletCalibration(lam=0.0, mu=0.0).fit(x, y)
        error = (torch.cat([cal.weight_, cal.bias_[:, None]], dim=1) - a).reshape(-1)
        weight = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
        hessian = torch.einsum("nij,na,nb->iajb", weight, x1, x1).reshape(k * (k + 1), -1)
        total += float(error @ hessian @ error)
        rank += float(torch.linalg.matrix_rank(hessian, hermitian=True, rtol=1e-9))
    assert rank == 20 * 8
    assert 0.8 < total / rank < 1.2


def test_a_constant_in_each_row_changes_no_matrix():
    """Log-joints of rows differ by large constants, which left a map to equal probabilities, after minutes."""
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(60, 4, generator=generator, dtype=torch.float64)
    y = torch.multinomial((2 * z).softmax(1), 1, generator=generator)[:, 0]
    shift = torch.randn(60, 1, generator=generator, dtype=torch.float64)
    plain = MatrixScaling().fit(z, y)
    for size, tolerance in ((1.0, 1e-9), (1e9, 1e-6)):
        moved = MatrixScaling().fit(z + size * shift, y)
        torch.testing.assert_close(moved.predict_proba(z), plain.predict_proba(z), atol=tolerance, rtol=0)
        torch.testing.assert_close(moved.predict_proba(z + size * shift), plain.predict_proba(z), atol=1e-6, rtol=0)
    of_probabilities = MatrixScaling().fit(z.softmax(1), y, from_probabilities=True)
    torch.testing.assert_close(of_probabilities.predict_proba(z), plain.predict_proba(z), atol=1e-9, rtol=0)


def test_the_grids_of_kull_et_al():
    """λ of 0.0025 to 10^6 and μ of 0.01 to 10^6, each power of ten."""
    assert pytest.approx([0.01, 0.1, 1, 10, 100, 1e3, 1e4, 1e5, 1e6]) == KULL_MUS
    assert pytest.approx([share * mu for mu in KULL_MUS for share in (0.25, 0.5, 1)]) == KULL_LAMBDAS
