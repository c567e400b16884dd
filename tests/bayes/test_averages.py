"""Deep ensembles, and what they teach. Monte Carlo dropout is a mean of passes."""

import pytest
import torch

from bayes_parts import network, rows
from softkin import bayes, predictions, smoothing
from softkin._core.randomness import key


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
