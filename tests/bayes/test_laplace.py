"""Laplace's approximation against full matrices and laplace-torch's own numbers."""

import importlib.util
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from bayes_parts import network, rows
from places import TESTS
from softkin import SoftkinError, bayes

GOLDEN = json.loads((TESTS / "golden" / "laplace.json").read_text())


def exact(values):
    return torch.tensor(values, dtype=torch.float64)


def golden(case, **options):
    model = nn.Sequential(nn.Linear(len(case["x"][0]), len(case["weights"]["0.bias"])), nn.Tanh())
    bias = "2.bias" in case["weights"]
    model.append(nn.Linear(model[0].out_features, len(case["weights"]["2.weight"]), bias=bias)).double()
    model.load_state_dict({name: exact(value) for name, value in case["weights"].items()})
    x, y = exact(case["x"]), torch.tensor(case["y"])
    loader = [(x[start : start + 10], y[start : start + 10]) for start in range(0, len(x), 10)]
    return bayes.Laplace(model, **options).fit(loader)


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=range(len(GOLDEN["cases"])))
def test_laplace_agrees_with_laplace_torch(case):
    laplace = golden(case, prior_precision=2.0)
    test = exact(case["test"])
    assert laplace.log_marginal_likelihood() == pytest.approx(case["log_marginal_likelihood"], rel=1e-9)
    with torch.no_grad():
        features = laplace.network[1](laplace.network[0](test))
    torch.testing.assert_close(laplace.variances(features), exact(case["variances"]), rtol=1e-6, atol=0)
    preds = laplace.predict([(test, torch.zeros(len(test), dtype=torch.long))])
    torch.testing.assert_close(preds.probabilities, exact(case["probit"]), rtol=1e-6, atol=1e-9)
    best = golden(case)
    assert float(best.precision) == pytest.approx(case["prior_precision"], rel=1e-4)
    assert best.log_marginal_likelihood() >= case["best_log_marginal_likelihood"] - 1e-9


def test_the_prior_has_the_highest_marginal_likelihood_there_is():
    laplace = golden(GOLDEN["cases"][1])
    best = float(laplace.precision)
    grid = [laplace.log_marginal_likelihood(best * factor) for factor in np.geomspace(0.01, 100, 81)]
    assert max(grid) <= laplace.log_marginal_likelihood() + 1e-12


def test_held_out_rows_choose_the_prior_with_their_lowest_nll():
    """A network that is certain of its few training rows: the marginal likelihood makes it far too unsure."""
    model, train, held = network(dropout=0.0), rows(12, batch=6), rows(40, seed=5)
    with torch.no_grad():
        model[-1].weight *= 30
    labelled = [(x, model(x).argmax(1)) for x, _ in train]  # all of them right
    held = [(x, torch.where(torch.arange(len(y)) % 8 == 0, y, model(x).argmax(1))) for x, y in held]
    laplace = bayes.Laplace(model).fit(labelled)
    y = torch.cat([labels for _, labels in held])

    def nll(delta):
        laplace.precision.fill_(delta)
        return F.nll_loss(laplace.predict(held).probabilities.log(), y).item()

    before = nll(float(laplace.precision))
    tuned = nll(float(laplace.tune(held).precision))
    assert tuned <= min(nll(delta) for delta in np.geomspace(1e-8, 1e8, 97)) + 1e-6
    assert tuned < before
    with pytest.raises(ValueError, match="`validation_loader` must give at least one batch"):
        laplace.tune([])
    with pytest.raises(ValueError, match="call `fit` with the training rows"):
        bayes.Laplace(model).tune(held)


def test_the_variances_are_those_of_the_full_matrices():
    """A brute-force twin: H as a whole matrix, inverted."""
    laplace = golden(GOLDEN["cases"][0], prior_precision=0.7)
    case = GOLDEN["cases"][0]
    x, net = exact(case["x"]), laplace.network
    with torch.no_grad():
        a, p = net[1](net[0](x)), net(x).softmax(1)
    g = sum(torch.diag(row) - torch.outer(row, row) for row in p)
    h = torch.kron(g, a.T @ a / len(x)) + 0.7 * torch.eye(g.numel() // len(g) * a.shape[1])
    inverse, bias = torch.linalg.inv(h), torch.linalg.inv(g + 0.7 * torch.eye(len(g)))
    features = torch.randn(4, a.shape[1], dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    for row, mine in zip(features, laplace.variances(features), strict=True):
        jacobian = torch.kron(torch.eye(len(g), dtype=torch.float64), row[None])
        torch.testing.assert_close(mine, jacobian @ inverse @ jacobian.T + bias)


def test_sampled_predictions_go_to_the_gaussian_of_the_logits():
    laplace = golden(GOLDEN["cases"][0], prior_precision=2.0, prediction="sampled", samples=4000)
    test = exact(GOLDEN["cases"][0]["test"])
    preds = laplace.predict([(test, torch.zeros(len(test), dtype=torch.long))])
    with torch.no_grad():
        features, logits = laplace.network[1](laplace.network[0](test)), laplace.network(test)
    gaussian = torch.distributions.MultivariateNormal(logits, laplace.variances(features))
    torch.manual_seed(0)
    expected = gaussian.sample((20_000,)).softmax(-1).mean(0)
    torch.testing.assert_close(preds.probabilities, expected, atol=0.02, rtol=0)
    assert bool((preds.mutual_information > 0).all())


def test_all_layers_go_through_laplace_torch():
    if importlib.util.find_spec("laplace") is None:
        with pytest.raises(SoftkinError, match=r"layers='all' needs laplace-torch: pip install 'softkin\[laplace\]'"):
            bayes.Laplace(network(), layers="all").fit(rows())
        return
    x, y = (torch.cat(parts) for parts in zip(*rows(), strict=True))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=16)
    for prediction in ("probit", "sampled"):
        laplace = bayes.Laplace(network(), layers="all", prediction=prediction, samples=5).fit(loader)
        preds = laplace.predict(loader, members=True)
        assert torch.allclose(preds.probabilities.sum(1), torch.ones(len(x), dtype=torch.float64))
        assert (preds.members is None) == (prediction == "probit")
        assert torch.equal(laplace.predict(loader).logits, preds.logits)


class Peer:
    """Stands for laplace-torch: weights flattened by a view, and draws of probabilities by torch's own generator."""

    def __init__(self, model=None, *rest, **options):
        self.model = model

    def fit(self, loader):
        nn.utils.parameters_to_vector(self.model.parameters())

    def optimize_prior_precision(self, **options):
        """Leave the prior alone."""

    def predictive_samples(self, x, *, n_samples):
        return torch.randn(n_samples, len(x), 3).softmax(dim=2)


def test_draws_over_all_layers_are_members_and_depend_on_the_seed_alone():
    model, loader = network(), rows()
    laplace = bayes.Laplace(model, layers="all", prediction="sampled", samples=4, seed=3)
    laplace._peer = Peer()
    state = torch.get_rng_state()
    preds = laplace.predict(loader, members=True)
    assert torch.equal(torch.get_rng_state(), state)
    assert preds.members.shape == (4, 40, 3)
    torch.testing.assert_close(preds.probabilities, preds.members.mean(0))
    assert torch.equal(preds.mutual_information, bayes.Averaged.over(preds.members).mutual_information)
    again = laplace.predict(loader)
    assert again.members is None
    assert torch.equal(again.logits, preds.logits)
    laplace.seed = 4
    assert not torch.equal(laplace.predict(loader).logits, preds.logits)
    assert laplace.passes == 1


def test_all_layers_take_a_network_in_channels_last(monkeypatch):
    monkeypatch.setitem(sys.modules, "laplace", SimpleNamespace(Laplace=Peer))
    model = nn.Sequential(nn.Conv2d(2, 3, 2), nn.Flatten(), nn.Linear(3, 3)).to(memory_format=torch.channels_last)
    loader = [(torch.rand(4, 2, 2, 2), torch.tensor([0, 1, 2, 0]))]
    before = model[0].weight.detach().clone()
    preds = bayes.Laplace(model, layers="all", prediction="sampled", samples=2).fit(loader).predict(loader)
    assert preds.probabilities.shape == (4, 3)
    assert torch.equal(model[0].weight, before)
