"""Monte Carlo dropout is a mean of passes."""

import torch

from bayes_parts import network, rows
from softkin import bayes
from softkin._core.randomness import key


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
