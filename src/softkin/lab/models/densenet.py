"""Densely connected networks: DenseNet-161."""

import torch
from torch import Tensor, nn

from softkin.lab.models.stem import dropped, kaiming, stem

GROWTH = 48
BLOCKS = (6, 12, 36, 24)
BOTTLENECK = 4  # the 1×1 convolution passes 4 × growth maps to the 3×3


class Layer(nn.Module):
    """Append ``GROWTH`` feature maps to the input.

    Dropout, if any, follows each convolution, as in the authors' code.
    """

    def __init__(self, before: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(before),
            nn.ReLU(inplace=True),
            nn.Conv2d(before, BOTTLENECK * GROWTH, 1, bias=False),
            *dropped(dropout),
            nn.BatchNorm2d(BOTTLENECK * GROWTH),
            nn.ReLU(inplace=True),
            nn.Conv2d(BOTTLENECK * GROWTH, GROWTH, 3, padding=1, bias=False),
            *dropped(dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.body(x)], dim=1)


def densenet161(num_classes: int, input_shape: tuple[int, int, int], dropout: float = 0.0) -> nn.Module:
    """DenseNet-161: growth 48 and blocks of 6, 12, 36 and 24 layers, with width and size halved between blocks.

    The network has 28,681,000 parameters with ImageNet's stem and 1,000 classes.

    References:
        Huang et al., Densely Connected Convolutional Networks, 2017, arXiv:1608.06993, table 1. The variant with 161
        layers and growth 48 is from the authors' code.
    """
    channels, *sides = input_shape
    width = 2 * GROWTH
    layers: list[nn.Module] = [stem(channels, width, max(sides))]
    for place, depth in enumerate(BLOCKS):
        for _ in range(depth):
            layers.append(Layer(width, dropout))
            width += GROWTH
        layers += [nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        if place < len(BLOCKS) - 1:
            layers += [nn.Conv2d(width, width // 2, 1, bias=False), nn.AvgPool2d(2)]
            width //= 2
    network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, num_classes))
    kaiming(network, "fan_in")
    return network
