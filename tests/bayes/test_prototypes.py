"""Distance-based learning from errors: its distances, its loss, its predictions."""

import math

import pytest
import torch
from torch import nn

from bayes_parts import network, rows
from softkin import bayes
from softkin.bayes.posterior import normal
from softkin.bayes.prototypes import distance_loss, distances


def test_distances_to_centres_are_exact_far_from_the_origin():
    points = 1000 + torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
    points[0] = points[1]
    wanted = (points.double()[:, None] - points.double()[None]).square().sum(dim=2).sqrt()
    torch.testing.assert_close(distances(points, points).double(), wanted, rtol=1e-4, atol=2e-4)


def test_the_distance_loss_is_its_formula():
    generator = torch.Generator().manual_seed(0)
    h, v, noise = (torch.randn(9, 4, generator=generator, dtype=torch.float64) for _ in range(3))
    labels = torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 0])  # class 2 has one sample, class 3 none
    expected = 0.0
    for i, y in enumerate(labels.tolist()):
        if y == 2:
            continue
        centre = {}
        for k in range(3):
            members = [j for j in range(9) if labels[j] == k and j != i]
            centre[k] = h[members].mean(0)
        away = {k: float(torch.linalg.norm(h[i] - centre[k])) for k in centre}
        expected += away[y] + math.log(sum(math.exp(-d) for d in away.values()))
        if min(away, key=away.get) != y:
            z = h[i] + (0.5 * v[i]).exp() * noise[i]
            away = {k: float(torch.linalg.norm(z - centre[k])) for k in centre}
            expected += away[y] + math.log(sum(math.exp(-d) for d in away.values()))
    outputs = torch.cat([h, v], 1).requires_grad_()
    loss = distance_loss(outputs, labels, 4, noise)
    assert loss.item() == pytest.approx(expected, rel=1e-9)
    loss.backward()
    assert bool(torch.isfinite(outputs.grad).all())
    wrong = outputs.grad[:, 4:].abs().sum(1) > 0
    assert 0 < int(wrong.sum()) < 8  # the confidence model learns from errors alone


def test_prototypes_predict_by_the_distance_from_the_class_means():
    model, loader = network(dropout=0.0), rows()
    body = nn.Sequential(*list(model.children())[:-1])
    prototypes = bayes.Prototypes(model, 3, draws=4, seed=2)
    prototypes.end_epoch(1.0, lambda: loader, looked_at=True)
    prototypes.eval()
    x, y = (torch.cat(parts) for parts in zip(*loader, strict=True))
    with torch.no_grad():
        actual, h = prototypes(x).exp(), body(x)
        spread = (3 * (prototypes.confidence(h) / 6).tanh()).exp()
    centres = torch.stack([h[y == k].mean(0) for k in range(3)])
    expected = torch.zeros(len(x), 3)
    for epsilon in normal(8, 2, "prototypes", rows=4):
        expected += (-torch.cdist(h + spread * epsilon, centres)).softmax(1) / 4
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-4)
    assert prototypes.train()(x).shape == (len(x), prototypes.outputs)


def test_a_confidence_model_that_runs_away_leaves_numbers():
    prototypes = bayes.Prototypes(network(dropout=0.0), 3).train()
    with torch.no_grad():
        prototypes.confidence[-1].bias.fill_(1e4)
    x, y = (torch.cat(parts) for parts in zip(*rows(), strict=True))
    loss = distance_loss(prototypes(x), y, 3, torch.randn(len(x), 8, generator=torch.Generator().manual_seed(0)))
    loss.backward()
    assert math.isfinite(loss.item())
    assert all(bool(torch.isfinite(weights.grad).all()) for weights in prototypes.parameters())
    prototypes.end_epoch(1.0, rows, looked_at=True)
    assert bool(torch.isfinite(prototypes.eval()(x)).all())
