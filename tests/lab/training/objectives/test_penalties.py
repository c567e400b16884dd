"""Losses that penalise confidence, each from its formula."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from softkin.lab.training import Method
from softkin.lab.training.objectives import objective
from softkin.lab.training.objectives.penalties import focal_loss, lagrangian_penalty, lagrangian_slope

K = 4


def some(n=7, seed=0, scale=3.0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, K, generator=generator).double() * scale, torch.randint(0, K, (n,), generator=generator)


def test_the_focal_loss_is_its_formula():
    logits, labels = some()
    p = logits.double().softmax(1).numpy()
    brute = sum(-((1 - p[i, y]) ** 2.5) * np.log(p[i, y]) for i, y in enumerate(labels.tolist()))
    assert float(objective(Method("focal", gamma=2.5), K)(logits, labels)) == pytest.approx(brute, rel=1e-5)
    plain = F.cross_entropy(logits, labels, reduction="sum")
    torch.testing.assert_close(objective(Method("focal", gamma=0), K)(logits, labels), plain)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 3.0])
def test_the_focal_loss_of_a_certain_sample_has_a_gradient(gamma):
    z = torch.tensor([[200.0, 0.0, 0.0]], requires_grad=True)
    for targets in (torch.tensor([0]), torch.tensor([[1.0, 0.0, 0.0]])):
        loss = focal_loss(z, targets, gamma=gamma)
        (gradient,) = torch.autograd.grad(loss, z)
        assert torch.equal(gradient, torch.zeros(1, 3))
        assert loss.item() == 0


def test_the_margin_loss_is_its_formula():
    logits, labels = some()
    z = logits.double().numpy()
    excess = sum(np.mean([max(0.0, row.max() - value - 2.0) for value in row]) for row in z)
    plain = float(F.cross_entropy(logits.double(), labels, reduction="sum"))
    loss = objective(Method("margin", margin=2.0, penalty=0.3), K)(logits, labels)
    assert float(loss) == pytest.approx(plain + 0.3 * excess, rel=1e-5)
    wide = objective(Method("margin", margin=1e6), K)(logits, labels)
    assert float(wide) == pytest.approx(plain, rel=1e-5)


def test_mmce_is_its_formula():
    logits, labels = some(scale=1.0)
    p = logits.softmax(1).numpy()
    r, c = p.max(1), (p.argmax(1) == labels.numpy()).astype(float)
    n = len(r)
    squared = sum((c[i] - r[i]) * (c[j] - r[j]) * math.exp(-abs(r[i] - r[j]) / 0.4) for i in range(n) for j in range(n))
    plain = F.cross_entropy(logits, labels, reduction="sum").item()
    loss = objective(Method("mmce", penalty=1.5), K)(logits, labels).item()
    assert loss == pytest.approx(plain + 1.5 * n * math.sqrt(squared / n**2), rel=1e-8)
    first = torch.tensor([[math.log(3), 0.0]], dtype=torch.float64)  # confidence 0.75, and right: the error is 0.25
    assert objective(Method("mmce", penalty=1.0), 2)(first, torch.tensor([0])).item() == pytest.approx(
        -math.log(0.75) + 0.25, rel=1e-6
    )


def test_the_dual_focal_loss_is_its_formula():
    logits, labels = some()
    p = logits.softmax(1).numpy()
    brute = 0.0
    for i, y in enumerate(labels.tolist()):
        below = max([q for q in p[i] if q < p[i, y]], default=0.0)
        brute -= (1 - p[i, y] + below) ** 5 * math.log(p[i, y])
    loss = objective(Method("dual-focal"), K)
    assert loss(logits, labels).item() == pytest.approx(brute, rel=1e-9)
    rows = F.one_hot(labels, K).double()
    assert loss(logits, rows).item() == pytest.approx(brute, rel=1e-9)
    thirds = torch.tensor([[math.log(3), math.log(2), 0.0]], dtype=torch.float64)  # 1/2, 1/3, 1/6
    assert objective(Method("dual-focal", gamma=2.0), 3)(thirds, torch.tensor([0])).item() == pytest.approx(
        (1 - 1 / 2 + 1 / 3) ** 2 * math.log(2), rel=1e-9
    )


def test_acls_is_its_formula():
    logits, labels = some()
    z = logits.numpy()
    penalty = 0.0
    for row in z:
        top = row.argmax()
        penalty += max(0.0, row[top] - 1.0) ** 2
        penalty += 0.1 * sum(max(0.0, row[top] - row[j] - 1.0) ** 2 for j in range(K) if j != top) / (K - 1)
    plain = F.cross_entropy(logits, labels, reduction="sum").item()
    value = objective(Method("acls", margin=1.0, penalty=0.2), K)(logits, labels).item()
    assert value == pytest.approx(plain + 0.2 * penalty, rel=1e-9)
    leaf = torch.tensor([[0.5, -4.0]]).double().requires_grad_()  # below the margin, and one far below
    loss = objective(Method("acls", margin=1.0, penalty=1.0), 2)(leaf, torch.tensor([0]))
    (gradient,) = torch.autograd.grad(loss - F.cross_entropy(leaf, torch.tensor([0]), reduction="sum"), leaf)
    assert gradient[0].tolist() == pytest.approx([0.0, -0.1 * 2 * 3.5])  # the highest logit is left alone


def test_the_class_adaptive_penalty_is_its_formula_and_learns_from_validation():
    logits, labels = some(scale=8.0)
    h, lam = torch.linspace(-3, 3, 41).double().requires_grad_(), torch.tensor(0.7).double()
    p = lagrangian_penalty(h, lam, 1.3)
    for x, value in zip(h.tolist(), p.tolist(), strict=True):
        above = 0.7 * x + 0.7 * 1.3 * x**2 + 1.3**2 * x**3 / 6
        assert value == pytest.approx(above if x >= 0 else 0.7 * x / (1 - 1.3 * x))
    (slope,) = torch.autograd.grad(p.sum(), h)
    torch.testing.assert_close(lagrangian_slope(h.detach(), lam, 1.3), slope)
    loss = objective(Method("class-adaptive", margin=2.0), K)
    before = loss.table.clone()
    loss.validated(logits.float())
    excess = (logits.max(1, keepdim=True).values - logits - 2.0) / 2.0
    expected = [
        np.mean([(l0 + 2 * l0 * x + x**2 / 2 if x >= 0 else max(1e-6, l0 / (1 - x) ** 2)) for x in column])
        for column, l0 in zip(excess.T.tolist(), before.tolist(), strict=True)
    ]
    assert loss.table.tolist() == pytest.approx(expected, rel=1e-5)
    plain = F.cross_entropy(logits, labels, reduction="sum").item()
    extra = lagrangian_penalty(excess, loss.table.double(), 1.0).sum().item()
    assert loss(logits, labels).item() == pytest.approx(plain + extra, rel=1e-6)
