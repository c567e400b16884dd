"""First layers by the size of images."""

import pytest
import torch
from torch import nn

from softkin.lab import models


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
