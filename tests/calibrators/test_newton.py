"""The solver: its gradient, its preconditioners, its steps."""

import numpy as np
import pytest
import torch

from calibration_data import drawn
from softkin.calibrators import DirichletCalibration, VectorScaling, newton
from softkin.calibrators.newton import Affine, Coupled, Diagonal, HeldDiagonal, _evaluated, minimise


def odir(k, lam, mu):
    r = np.full((k, k + 1), lam)
    np.fill_diagonal(r, 0)
    r[:, -1] = mu
    return r


def problems():
    z, y = drawn(n=60)
    r = torch.from_numpy(odir(4, 0.3, 0.2))
    yield Affine(z, y, r, torch.eye(4, 5, dtype=torch.float64)), torch.randn(4, 5, dtype=torch.float64)
    r = torch.rand(4, 2, dtype=torch.float64)
    yield Diagonal(z, y, r, torch.ones(4, 2, dtype=torch.float64)), torch.randn(4, 2, dtype=torch.float64)


@pytest.mark.parametrize("scale", [1.0, 200.0])  # the second is beyond what needs no shift
@pytest.mark.parametrize("which", [0, 1])
def test_value_and_gradient_are_those_of_the_written_objective(which, scale, monkeypatch):
    monkeypatch.setattr(newton, "BLOCK", 40)  # several blocks of rows
    problem, a = list(problems())[which]
    a = a * scale
    z, y = drawn(n=60)
    logits = z @ a[:, :-1].T + a[:, -1] if which == 0 else z * a[:, 0] + a[:, 1]
    written = torch.nn.functional.cross_entropy(logits, y) + (problem.penalty * (a - problem.centre) ** 2).sum()
    here = _evaluated(problem, a)
    assert here.value == pytest.approx(float(written), rel=1e-12)
    torch.testing.assert_close(here.p, logits.softmax(dim=1))
    h = 1e-6 * scale
    for place in np.ndindex(*a.shape):
        up, down = a.clone(), a.clone()
        up[place] += h
        down[place] -= h
        slope = (_evaluated(problem, up).value - _evaluated(problem, down).value) / (2 * h)
        assert float(here.gradient[place]) == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_the_coupled_preconditioner_is_the_inverse_of_what_it_says():
    z, y = drawn(n=60)
    k, d = 4, 5
    centre = torch.eye(k, d, dtype=torch.float64)
    r = torch.rand(k, d, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.5
    problem = Coupled(z, y, r, centre)
    p = z.softmax(dim=1)
    features = torch.cat([z, torch.ones(60, 1, dtype=torch.float64)], dim=1)
    hessian = sum(
        torch.kron(torch.diag(q) - torch.outer(q, q), torch.outer(x, x)) for q, x in zip(p, features, strict=True)
    ) / len(p)
    u = problem.u.double()
    columns = []
    for part in range(3):
        for j in range(k):
            q = torch.zeros(k, d, dtype=torch.float64)
            if part == 2:
                q[j, :k] = u
                q[j, j] = 0
                q /= q.norm()
            else:
                q[j, j if part == 0 else k] = 1
            columns.append(q.flatten())
    q = torch.stack(columns, dim=1)
    beside = z.square().mean(dim=0) - u**2 * (z @ u).square().mean()
    plain = 2 * r.clone()
    plain[:, :k] += (p * (1 - p)).mean(dim=0)[:, None] * beside.clamp(min=0)
    plain.diagonal().copy_(2 * r.diagonal())
    written = torch.diag(plain.flatten()) + q @ (q.T @ hessian @ q) @ q.T
    g = torch.randn(k, d, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    solved = problem.preconditioner(problem.curvature(p))(g.float()).double()
    torch.testing.assert_close(solved.flatten(), torch.linalg.solve(written, g.flatten()), atol=1e-4, rtol=1e-3)
    ends = [minimise(kind(z, y, r, centre), centre, tolerance=1e-9).parameters for kind in (Affine, Coupled)]
    torch.testing.assert_close(*ends, atol=1e-8, rtol=0)


def test_the_step_by_the_whole_hessian_is_newtons():
    z, y = drawn(n=60)
    centre, r = torch.ones(4, 2, dtype=torch.float64), torch.rand(4, 2, dtype=torch.float64) + 0.1
    problem = HeldDiagonal(z, y, r, centre)

    def value(flat):
        a = flat.view(4, 2)
        return torch.nn.functional.cross_entropy(z * a[:, 0] + a[:, 1], y) + (r * (a - centre) ** 2).sum()

    at = _evaluated(problem, centre + 0.3)
    hessian = torch.autograd.functional.hessian(value, at.parameters.flatten())
    step = problem.newton_step(at.p, at.gradient)
    torch.testing.assert_close(
        step.flatten(), -torch.linalg.solve(hessian, at.gradient.flatten()), rtol=1e-4, atol=1e-6
    )
    ends = [minimise(kind(z, y, r, centre), centre, tolerance=1e-9).parameters for kind in (Diagonal, HeldDiagonal)]
    torch.testing.assert_close(*ends, atol=1e-8, rtol=0)


def test_many_classes_use_the_other_preconditioner(monkeypatch):
    z, y = drawn(n=300, k=12)
    blocks = DirichletCalibration(lam=0.1).fit(z, y)
    monkeypatch.setattr(newton, "BLOCKS_UP_TO", 5)
    basis = DirichletCalibration(lam=0.1).fit(z, y)
    assert basis.certificate_.gradient_norm <= 1e-7
    torch.testing.assert_close(blocks.weight_, basis.weight_, atol=1e-5, rtol=0)


def test_an_unconverged_fit_says_so(monkeypatch):
    from softkin.calibrators import linear

    monkeypatch.setattr(linear, "minimise", lambda problem, start: minimise(problem, start, limit=1))
    with pytest.warns(UserWarning, match=r"VectorScaling did not converge: .*not converged \(gradient"):
        VectorScaling().fit(*drawn(n=150))
