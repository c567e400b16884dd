"""The first layers of a convolutional network, chosen by image size."""

from typing import Literal

from torch import nn


def stem(channels: int, width: int, size: int, *, activated: bool = True) -> nn.Sequential:
    """Layers from images of ``size`` pixels to ``width`` feature maps.

    Images of up to 32 pixels get a 3×3 convolution with stride 1. Images of up to 64 pixels get one with stride 2, so
    that the following blocks also see 32 pixels. Larger images get ImageNet's 7×7 convolution with stride 2 and 3×3
    max-pooling with stride 2.

    Args:
        channels: Number of image channels.
        width: Number of feature maps.
        size: Longer image side in pixels.
        activated: Add BatchNorm and ReLU after the convolution; pre-activation networks have their own.
    """
    if size <= 32:
        layers: list[nn.Module] = [nn.Conv2d(channels, width, 3, padding=1, bias=False)]
    elif size <= 64:
        layers = [nn.Conv2d(channels, width, 3, stride=2, padding=1, bias=False)]
    else:
        layers = [nn.Conv2d(channels, width, 7, stride=2, padding=3, bias=False)]
    if activated:
        layers += [nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
    if size > 64:
        layers.append(nn.MaxPool2d(3, stride=2, padding=1))
    return nn.Sequential(*layers)


def dropped(share: float) -> list[nn.Module]:
    """A dropout layer, or no layer if the rate is 0, so that weights keep their names and initial values."""
    return [nn.Dropout(share)] if share else []


def kaiming(network: nn.Module, fan: Literal["fan_out", "fan_in"] = "fan_out") -> None:
    """He et al.'s initial weights (arXiv:1502.01852): N(0, 2/fan) for convolutions, 1 and 0 for BatchNorm.

    Linear layers keep PyTorch's default weights, and their biases become 0. Draws use the default generator.

    Args:
        network: The network to initialise.
        fan: "fan_out" preserves the scale of gradients; "fan_in" preserves that of feature maps, which matters where
            maps of layers of very different width are concatenated.
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode=fan, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
