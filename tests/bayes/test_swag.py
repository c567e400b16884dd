"""SWAG: the moments of the way, and draws that have them."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from bayes_parts import network, rows
from softkin import bayes
from softkin.bayes.posterior import normal


def walked(swag, model, loader, steps, lr=0.3):
    """Train a little, collect after each step, and note every weight vector."""
    seen = []
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    x, y = (torch.cat(parts) for parts in zip(*loader, strict=True))
    for _ in range(steps):
        model.train()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        swag.collect()
        seen.append(torch.cat([weights.detach().flatten().double() for weights in model.parameters()]))
    return torch.stack(seen)


@pytest.mark.parametrize(("steps", "rank"), [(6, 4), (3, 20), (1, 20), (4, 0)])
def test_swag_keeps_the_moments_of_the_way(steps, rank):
    model, loader = network(), rows()
    swag = bayes.Swag(model, rank=rank, samples=2)
    seen = walked(swag, model, loader, steps)
    torch.testing.assert_close(swag.mean.double(), seen.mean(0), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(swag.variance.double(), seen.var(0, unbiased=False), atol=1e-7, rtol=1e-3)
    deviations = [seen[i] - seen[: i + 1].mean(0) for i in range(steps)][-rank:] if rank else []
    held = [swag.deviations[i % rank].double() for i in range(steps)[-rank:]] if rank else []
    for mine, brute in zip(held, deviations, strict=True):
        torch.testing.assert_close(mine, brute, atol=1e-6, rtol=1e-4)
    # A draw is the paper's equation 1.
    z = normal(len(swag.mean), swag.seed, "swag diagonal", 1).double()
    expected = seen.mean(0) + seen.var(0, unbiased=False).sqrt() * z / math.sqrt(2)
    columns = min(steps, rank)
    if columns > 1:
        low = normal(columns, swag.seed, "swag low rank", 1).double()
        expected = expected + low @ swag.deviations[:columns].double() / math.sqrt(2 * (columns - 1))
    torch.testing.assert_close(swag.draw(1).double(), expected, atol=1e-5, rtol=1e-3)


def test_the_draws_of_swag_have_its_covariance():
    swag = bayes.Swag(nn.Linear(1, 2, bias=False), rank=3, samples=1)
    for values in ((0.0, 0.0), (1.0, 3.0), (2.0, -1.0)):
        with torch.no_grad():
            swag.network.weight[:, 0] = torch.tensor(values)
        swag.collect()
    draws = torch.stack([swag.draw(place) for place in range(8000)]).double()
    d = swag.deviations.double()
    expected = torch.diag(swag.variance.double()) / 2 + d.T @ d / (2 * (3 - 1))
    torch.testing.assert_close(draws.mean(0), swag.mean.double(), atol=0.05, rtol=0)
    torch.testing.assert_close(torch.cov(draws.T), expected, atol=0.15, rtol=0.05)


def test_every_member_of_swag_has_batch_statistics_of_its_own():
    model, loader = network(norm=True), rows()
    swag = bayes.Swag(model, samples=3)
    walked(swag, model, loader, 5)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    preds = swag.predict(rows(seed=5), train_loader=loader, members=True)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    twin = network(norm=True)
    for place in range(3):
        nn.utils.vector_to_parameters(swag.draw(place), twin.parameters())
        with torch.no_grad():
            hidden = [twin[0](x) for x, _ in loader]
            twin[1].running_mean.copy_(torch.stack([layer.mean(0) for layer in hidden]).mean(0))
            twin[1].running_var.copy_(torch.stack([layer.var(0) for layer in hidden]).mean(0))
            twin.eval()
            expected = torch.cat([twin(x) for x, _ in rows(seed=5)]).double().softmax(1)
        torch.testing.assert_close(preds.members[place], expected, atol=1e-6, rtol=1e-5)


def test_the_state_of_swag_is_all_that_it_needs():
    model, loader = network(norm=True), rows()
    swag = bayes.Swag(model, samples=2)
    walked(swag, model, loader, 4)
    swag.settle(loader)
    again = bayes.Swag(network(norm=True, seed=9), samples=2)
    again.load_state_dict(swag.state_dict())
    assert torch.equal(again.predict(loader).logits, swag.predict(loader).logits)
    swag.collect()  # other draws, which need batch statistics of their own
    with pytest.raises(ValueError, match="batch statistics, which each member needs of its own"):
        swag.predict(loader)
