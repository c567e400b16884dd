import sys
import types

import pytest
import torch
from torch import nn

from softkin import SoftkinError
from softkin.lab import models


def count(network):
    return sum(weights.numel() for weights in network.parameters())


def weights(network):
    return torch.cat([part.detach().flatten() for part in network.parameters()])


def test_options_in_the_name():
    network = models.build("wrn(units=2)", num_classes=100, input_shape=(3, 32, 32))
    assert count(network) == 180_916
    wide = models.build("wrn(units=2, widen=2)", num_classes=100, input_shape=(3, 32, 32), widen=1)
    assert count(wide) == 180_916, "a keyword argument counts more than the name"


def test_shape_of_what_the_groups_see():
    """At 64 px the blocks of a network see as many pixels as at 32."""
    for size, pixels in ((32, 32), (64, 32), (224, 56)):
        network = models.build("resnet18", num_classes=10, input_shape=(3, size, size), seed=0)
        assert network[0](torch.zeros(1, 3, size, size)).shape == (1, 64, pixels, pixels)


def test_seed_decides_the_weights_and_leaves_the_generator_alone():
    before = torch.get_rng_state()
    first, same, other = (models.build("small", num_classes=10, input_shape=(1, 8, 8), seed=seed) for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(weights(first), weights(same))
    assert not torch.equal(weights(first), weights(other))
    drawn = [weights(models.build("small", num_classes=10, input_shape=(1, 8, 8))) for _ in range(2)]
    assert not torch.equal(*drawn)
    assert not torch.equal(torch.get_rng_state(), before)


class Tiny(nn.Module):
    def __init__(self, columns, input_shape=None):
        super().__init__()
        self.input_shape = input_shape
        self.body = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, columns))

    def forward(self, x):
        return self.body(x)


class WithLogits(Tiny):
    def forward(self, x):
        return types.SimpleNamespace(logits=self.body(x), loss=None)


@pytest.fixture
def elsewhere(monkeypatch):
    """A module of makers, as an installed package would be."""
    module = types.ModuleType("elsewhere")
    module.named = lambda num_classes, input_shape, depth=1: Tiny(num_classes * depth, input_shape)
    module.anything = lambda **options: Tiny(options["num_classes"])
    module.labels = lambda **options: Tiny(**{"columns": options.pop("num_labels"), **options})
    module.Tiny = Tiny
    module.nothing = lambda: 3
    module.number = 3
    monkeypatch.setitem(sys.modules, "elsewhere", module)
    return module


def test_maker_by_name_gets_what_it_names(elsewhere):
    network = models.build("elsewhere:named", num_classes=5, input_shape=(1, 8, 8), seed=1)
    assert network.input_shape == (1, 8, 8)
    assert network.training
    again = models.build(elsewhere.named, num_classes=5, input_shape=(1, 8, 8), seed=1)
    assert torch.equal(weights(network), weights(again))
    assert count(models.build("elsewhere:anything", num_classes=5, input_shape=(1, 8, 8))) == count(network)
    assert count(models.build("elsewhere:labels", num_classes=5, input_shape=(1, 8, 8), num_labels=5)) == count(network)
    assert count(models.build("elsewhere:Tiny(columns=5)", num_classes=5, input_shape=(1, 8, 8))) == count(network)


def test_wrong_makers_get_one_sentence(elsewhere):
    def build(name, **options):
        return models.build(name, num_classes=5, input_shape=(1, 8, 8), **options)

    with pytest.raises(
        ValueError, match=r"elsewhere:named must return logits of shape \(N, 5\).*got \(N, 10\); was it made"
    ):
        build("elsewhere:named", depth=2)
    with pytest.raises(
        TypeError, match=r"elsewhere:Tiny cannot be called with input_shape=\(1, 8, 8\): .*missing .*columns"
    ):
        build("elsewhere:Tiny")
    with pytest.raises(TypeError, match="elsewhere:nothing must return an nn.Module, got int"):
        build("elsewhere:nothing")
    with pytest.raises(TypeError, match="elsewhere:number must be a callable"):
        build("elsewhere:number")
    with pytest.raises(SoftkinError, match="elsewhere has no 'namd'; did you mean 'named'"):
        build("elsewhere:namd")
    with pytest.raises(
        SoftkinError, match=r"absent_package.models:x could not be imported: .*is the package installed\?"
    ):
        build("absent_package.models:x")
    with pytest.raises(TypeError, match="must be a network's name, an nn.Module or a callable, got 3"):
        build(3)


def test_module_comes_back_as_it_is():
    network = Tiny(5)
    network.body[1].eval()
    before = {name: part.clone() for name, part in network.state_dict().items()}
    state = torch.get_rng_state()
    assert models.build(network, num_classes=5, input_shape=(1, 8, 8)) is network
    assert torch.equal(torch.get_rng_state(), state)
    assert network.training
    assert not network.body[1].training
    assert all(torch.equal(part, before[name]) for name, part in network.state_dict().items())
    with pytest.raises(ValueError, match=r"Tiny must return logits of shape \(N, 6\)"):
        models.build(network, num_classes=6, input_shape=(1, 8, 8))
    with pytest.raises(ValueError, match=r"Tiny does not take inputs of shape \(3, 8, 8\)"):
        models.build(network, num_classes=5, input_shape=(3, 8, 8))
    with pytest.raises(TypeError, match="`options` must be left out with a network that is built already, got units"):
        models.build(network, num_classes=5, input_shape=(1, 8, 8), units=2)
    with pytest.raises(TypeError, match="must return a tensor of logits, got tuple"):
        models.build(nn.MaxPool1d(2, return_indices=True), num_classes=5, input_shape=(8,))


def test_logits_are_taken_out_of_richer_outputs():
    inner = WithLogits(5)
    network = models.build(inner, num_classes=5, input_shape=(1, 8, 8))
    x = torch.randn(3, 1, 8, 8)
    assert torch.equal(network.eval()(x), inner(x).logits)


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        (
            "resnet-18",
            (3, 32, 32),
            "network 'resnet-18' is not known; there are bag_of_words, densenet161, .*; did you mean 'resnet18'?",
        ),
        ("zzz", (3, 32, 32), "network 'zzz' is not known; there are .*, and package.module:callable."),
        ("wrn(units=2", (3, 32, 32), r"must write its options as in wrn\(units=2\)"),
        ("wrn(2)", (3, 32, 32), "must write its options as in"),
        ("wrn(units=__import__('os'))", (3, 32, 32), "must write its options as in"),
        ("densenet161", (3, 7, 7), "densenet161 needs images of at least 8 pixels per side, got 7×7."),
        ("small", (1, 3, 8), "small needs images of at least 4 pixels per side, got 3×8."),
        ("resnet18", (64,), r"resnet18 takes images, .*got \(64,\); for features there is mlp"),
        ("bag_of_words", (3, 32, 32), "bag_of_words takes word counts"),
        ("small", (8, 8), r"`input_shape` must be \(channels, height, width\) or \(D,\), got \(8, 8\)"),
        ("small", 8, "`input_shape` must be"),
        ("wrn(units=0)", (3, 32, 32), "`units` must be at least 1, got 0"),
    ],
)
def test_bad_names_and_shapes(name, shape, words):
    with pytest.raises(ValueError, match=words):
        models.build(name, num_classes=10, input_shape=shape)


def test_bad_options():
    with pytest.raises(
        TypeError, match="wrn has no option 'unit'; it has units, widen, dropout; did you mean 'units'?"
    ):
        models.build("wrn", num_classes=10, input_shape=(3, 32, 32), unit=2)
    with pytest.raises(TypeError, match="resnet18 has no option 'units'; it has dropout."):
        models.build("resnet18", num_classes=10, input_shape=(3, 32, 32), units=2)
    with pytest.raises(TypeError, match="`norm` must be True or False, got 1"):
        models.build("small", num_classes=10, input_shape=(1, 8, 8), norm=1)
    with pytest.raises(ValueError, match="`num_classes` must be at least 2, got 1"):
        models.build("small", num_classes=1, input_shape=(1, 8, 8))
    for wrong in (1.0, -0.1, float("nan")):
        with pytest.raises(ValueError, match="`dropout` must be"):
            models.build("mlp", num_classes=2, input_shape=(3,), dropout=wrong)


def test_names():
    assert models.names() == ["bag_of_words", "densenet161", "mlp", "resnet18", "resnet34", "small", "wrn", "wrn50_2"]
