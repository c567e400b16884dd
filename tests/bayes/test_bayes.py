"""Bayesian networks and ensembles: each formula against brute force, Laplace against laplace-torch's own numbers."""

import importlib.util
import json
import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from places import TESTS
from softkin import SoftkinError, bayes, predictions, smoothing
from softkin._core.randomness import key
from softkin.bayes.posterior import normal
from softkin.bayes.prototypes import distance_loss, distances
from softkin.lab import models
from softkin.predictions import Predictions

GOLDEN = json.loads((TESTS / "golden" / "laplace.json").read_text())


def rows(n=40, d=5, k=3, seed=0, batch=16):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=generator)
    y = torch.randint(0, k, (n,), generator=generator)
    return [(x[start : start + batch], y[start : start + batch]) for start in range(0, n, batch)]


def network(*, norm=False, dropout=0.3, seed=0):
    torch.manual_seed(seed)
    parts = [nn.Linear(5, 8), *([nn.BatchNorm1d(8)] if norm else []), nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, 3)]
    return nn.Sequential(*parts)


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


# Means over members


@given(st.integers(1, 6), st.integers(1, 5), st.integers(2, 4), st.integers(0, 10**6))
def test_the_mean_and_the_mutual_information_are_their_formulas(m, n, k, seed):
    p = np.random.default_rng(seed).dirichlet(np.ones(k), size=(m, n))
    averaged = bayes.Averaged.over(iter(torch.from_numpy(p)), keep=True)
    for i in range(n):
        mean = [sum(p[a, i, c] for a in range(m)) / m for c in range(k)]
        entropy = -sum(q * math.log(q) for q in mean)
        own = -sum(p[a, i, c] * math.log(p[a, i, c]) for a in range(m) for c in range(k)) / m
        assert averaged.probabilities[i].tolist() == pytest.approx(mean)
        assert float(averaged.mutual_information[i]) == pytest.approx(entropy - own, abs=1e-12)
    assert torch.equal(averaged.members, torch.from_numpy(p))
    again = Predictions.from_probabilities(averaged.probabilities, members=averaged.members)
    torch.testing.assert_close(again.mutual_information, averaged.mutual_information)


def test_members_go_through_files(tmp_path):
    preds = bayes.mc_dropout(network(), rows(), passes=4, members=True, class_names=["a", "b", "c"])
    torch.testing.assert_close(preds.members.mean(0), preds.probabilities)
    for name in ("p.npz", "p.safetensors"):
        preds.save(tmp_path / name)
        again = predictions.load(tmp_path / name)
        assert torch.equal(again.members, preds.members)
        assert torch.equal(again.mutual_information, preds.mutual_information)
    few = preds.take(torch.tensor([3, 1]))
    assert torch.equal(few.members, preds.members[:, [3, 1]])
    assert torch.equal(few.mutual_information, preds.mutual_information[[3, 1]])
    np.savez(tmp_path / "bad.npz", probs=preds.probabilities.numpy(), members=np.zeros((3, 4, 5)))
    with pytest.raises(SoftkinError, match=r"`members` must have shape \(40, M, 3\), got \(3, 4, 5\)"):
        predictions.load(tmp_path / "bad.npz")


# MC dropout


def test_mc_dropout_is_the_mean_of_passes_with_dropout_on():
    model, loader = network().eval(), rows()
    preds = bayes.mc_dropout(model, loader, passes=3, seed=7, members=True)
    for place in range(3):
        torch.manual_seed(key(7, "dropout", place))
        model[2].train()
        with torch.no_grad():
            expected = torch.cat([model(x) for x, _ in loader]).double().softmax(1)
        model.eval()
        assert torch.equal(preds.members[place], expected)
    assert not torch.equal(preds.members[0], preds.members[1])
    assert not any(module.training for module in model.modules())


def test_mc_dropout_leaves_the_generator_and_the_modes_alone():
    model = network()
    model[0].eval()
    modes = [module.training for module in model.modules()]
    state = torch.get_rng_state()
    first = bayes.mc_dropout(model, rows(), passes=2)
    assert torch.equal(torch.get_rng_state(), state)
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(first.logits, bayes.mc_dropout(model, rows(), passes=2).logits)


def test_refusals_say_what_to_do():
    with pytest.raises(ValueError, match="must have dropout layers with p above 0, but has none"):
        bayes.mc_dropout(network(dropout=0.0), rows())
    with pytest.raises(ValueError, match="`passes` must be"):
        bayes.mc_dropout(network(), rows(), passes=0)
    with pytest.raises(ValueError, match="must give its batches again for every member, but it has ended"):
        bayes.mc_dropout(network(), iter(rows()), passes=2)
    with pytest.raises(TypeError, match="`model` must be an nn.Module, got int"):
        bayes.Swag(3)
    with pytest.raises(ValueError, match="no weights were collected yet"):
        bayes.Swag(network()).predict(rows())
    with pytest.raises(ValueError, match="batch statistics, which each member needs of its own"):
        bayes.Swag(network(norm=True)).collect().predict(rows())
    with pytest.raises(ValueError, match="call `fit` with the training rows before predicting"):
        bayes.Laplace(network()).predict(rows())
    with pytest.raises(ValueError, match="must be the output of its last nn.Linear"):
        bayes.Laplace(nn.Sequential(nn.Linear(5, 3), nn.Tanh())).fit(rows())
    with pytest.raises(ValueError, match="must end in an nn.Linear"):
        bayes.Laplace(nn.Flatten())
    shuffled = iter([rows(seed=0), rows(seed=1)])

    class Shuffling:
        def __iter__(self):
            return iter(next(shuffled))

    with pytest.raises(ValueError, match="does it shuffle"):
        bayes.mc_dropout(network(), Shuffling(), passes=2)


# SWAG


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


# Laplace


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


# Ensembles


def test_an_ensemble_is_the_mean_of_its_networks():
    nets, loader = [network(seed=seed).eval() for seed in range(3)], rows()
    preds = bayes.Ensemble(nets).predict(loader, members=True)
    alone = [predictions.collect(net, loader).probabilities for net in nets]
    torch.testing.assert_close(preds.probabilities, sum(alone) / 3)
    assert bayes.Ensemble(nets).passes == 3
    with pytest.raises(ValueError, match="at least one network"):
        bayes.Ensemble([])


def test_what_an_ensemble_teaches_is_the_mean_by_class():
    preds = bayes.Ensemble([network(seed=seed) for seed in range(3)]).predict(rows(60))
    s = bayes.distilled_similarity(preds)
    p, y = preds.probabilities.numpy(), preds.labels.numpy()
    for k in range(3):
        mean = [p[y == k, c].mean() if c != k else 0.0 for c in range(3)]
        assert s[k].tolist() == pytest.approx([value / sum(mean) for value in mean])
    labels = smoothing.similarity_labels(s, alpha=0.1)
    torch.testing.assert_close(labels.sum(1), torch.ones(3, dtype=torch.float64))
    without = bayes.distilled_similarity(preds.take(preds.labels < 2))  # nothing is known of class 2
    assert without[2].tolist() == [0.5, 0.5, 0.0]


# Kinds of data


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("small", (1, 8, 8)),
        ("mlp", (12,)),
        ("bag_of_words", (12,)),
        ("wrn(units=1)", (3, 8, 8)),
        ("resnet18", (3, 8, 8)),
    ],
)
def test_all_of_them_take_every_kind_of_network(name, shape):
    generator = torch.Generator().manual_seed(0)
    loader = [(torch.rand(6, *shape, generator=generator), torch.arange(6) % 3)]
    model = models.build(name, num_classes=3, input_shape=shape, seed=0, dropout=0.2)
    plain = models.build(name, num_classes=3, input_shape=shape, seed=0)
    assert sum(w.numel() for w in model.parameters()) == sum(w.numel() for w in plain.parameters())
    swag = bayes.Swag(model, samples=2, rank=1).collect()
    for preds in (
        bayes.mc_dropout(model, loader, passes=2),
        swag.predict(loader, train_loader=loader),
        bayes.Laplace(model).fit(loader).predict(loader),
        bayes.Ensemble([model, plain]).predict(loader),
    ):
        assert preds.probabilities.shape == (6, 3)


def test_all_of_them_take_mappings_as_hugging_face_has_them():
    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.dropout, self.head = nn.Embedding(20, 6), nn.Dropout(0.3), nn.Linear(6, 3)

        def forward(self, input_ids, attention_mask):
            words = self.embedding(input_ids) * attention_mask[..., None]
            return SimpleNamespace(logits=self.head(self.dropout(words.mean(1))))

    torch.manual_seed(0)
    batch = {
        "input_ids": torch.randint(0, 20, (6, 4)),
        "attention_mask": torch.ones(6, 4),
        "labels": torch.arange(6) % 3,
    }
    model, loader = Classifier(), [batch, batch]
    for preds in (
        bayes.mc_dropout(model, loader, passes=2),
        bayes.Swag(model, samples=2).collect().predict(loader, train_loader=loader),
        bayes.Laplace(model).fit(loader).predict(loader),
        bayes.Ensemble([model, Classifier()]).predict(loader),
    ):
        assert preds.probabilities.shape == (12, 3)
        assert preds.labels.tolist() == [0, 1, 2] * 4


# Distances


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
