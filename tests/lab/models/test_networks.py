"""Networks against their formulas: parameters, shapes, first layers."""

import pytest
import torch
from torch import nn

from softkin.lab import models


def count(network):
    return sum(weights.numel() for weights in network.parameters())


def weights(network):
    return torch.cat([part.detach().flatten() for part in network.parameters()])


@pytest.mark.parametrize(("options", "parameters"), [({}, 472_564), ({"units": 5}, 472_564), ({"units": 2}, 180_916)])
def test_wrn_parameter_counts(options, parameters):
    assert count(models.build("wrn", num_classes=100, input_shape=(3, 32, 32), **options)) == parameters


def test_wrn_unit_against_its_formula():
    """The output is x + conv(relu(bn(conv(relu(bn(x)))))), with a 1×1 of the activated input where the shape changes."""
    from softkin.lab.models.networks import Unit

    x = torch.randn(4, 16, 8, 8)
    for unit in (Unit(16, 16, 1), Unit(16, 32, 2)):
        bn1, conv1, bn2, conv2 = unit.first[0], unit.body[0], unit.body[1], unit.body[3]
        active = torch.relu(bn1(x))
        beside = x if unit.shortcut is None else unit.shortcut(active)
        torch.testing.assert_close(unit(x), beside + conv2(torch.relu(bn2(conv1(active)))))


@pytest.mark.parametrize("name", ["resnet18", "densenet161", "wrn50_2", "wrn"])
def test_stem_by_size(name):
    """Up to 32 px 3×3 stride 1, 64 px 3×3 stride 2, beyond 7×7 stride 2 and pooling."""
    seen = []
    for size in (8, 32, 33, 64, 65, 224):
        with torch.device("meta"):
            first = models.build(name, num_classes=10, input_shape=(3, size, size))[0]
        pools = [layer.stride for layer in first if isinstance(layer, nn.MaxPool2d)]
        seen.append((first[0].kernel_size[0], first[0].stride[0], pools))
    assert seen == [(3, 1, []), (3, 1, []), (3, 2, []), (3, 2, []), (7, 2, [2]), (7, 2, [2])]


def test_kaiming_deviation():
    """N(0, 2/fan-out): the 512→512 3×3 convolutions of ResNet-18 have deviation √(2/4608)."""
    network = models.build("resnet18", num_classes=10, input_shape=(3, 32, 32), seed=0)
    last = [module for module in network.modules() if isinstance(module, nn.Conv2d)][-1]
    assert float(last.weight.detach().std()) == pytest.approx((2 / (512 * 9)) ** 0.5, rel=0.01)


def test_bag_of_words_learns_and_ignores_length():
    network = models.build("bag_of_words", num_classes=3, input_shape=(4096,), seed=0)
    counts = torch.zeros(2, 4096)
    counts[:, [5, 9]] = 1
    counts[1] = 1 - counts[1]
    out = network(counts)
    assert out.shape == (2, 3)
    assert 0.05 < float(out.detach().std()) < 5
    assert torch.isfinite(network(torch.zeros(1, 4096))).all(), "a text without a known word"


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("resnet18", 11_689_512), ("resnet34", 21_797_672), ("wrn50_2", 68_883_240), ("densenet161", 28_681_000)],
)
def test_imagenet_parameter_counts(name, parameters):
    with torch.device("meta"):
        network = models.build(name, num_classes=1000, input_shape=(3, 224, 224))
    assert count(network) == parameters


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "resnet34", "wrn50_2", "wrn", "densenet161", "small", "mlp"])
@pytest.mark.parametrize("size", [8, 28, 32, 64])
def test_forward_at_all_sizes(name, size):
    network = models.build(name, num_classes=7, input_shape=(3, size, size), seed=0).eval()
    with torch.no_grad():
        assert network(torch.zeros(1, 3, size, size)).shape == (1, 7)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "wrn", "densenet161", "small", "mlp"])
def test_signal_neither_vanishes_nor_explodes(name):
    network = models.build(name, num_classes=10, input_shape=(1, 8, 8), seed=0)
    out = network(torch.randn(16, 1, 8, 8))
    assert 0.02 < float(out.detach().std()) < 20
    out.square().mean().backward()
    assert all(float(part.grad.norm()) > 0 for part in network.parameters() if part.ndim > 1)
