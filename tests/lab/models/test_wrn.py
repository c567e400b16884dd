"""Wide residual networks against their formula."""

import pytest
import torch

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
    from softkin.lab.models.wrn import Unit

    x = torch.randn(4, 16, 8, 8)
    for unit in (Unit(16, 16, 1), Unit(16, 32, 2)):
        bn1, conv1, bn2, conv2 = unit.first[0], unit.body[0], unit.body[1], unit.body[3]
        active = torch.relu(bn1(x))
        beside = x if unit.shortcut is None else unit.shortcut(active)
        torch.testing.assert_close(unit(x), beside + conv2(torch.relu(bn2(conv1(active)))))
