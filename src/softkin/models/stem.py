"""The first layers of a convolutional network, by the size of its images."""

from typing import Literal

from torch import nn


def stem(channels: int, width: int, size: int, *, activated: bool = True) -> nn.Sequential:
    """From images of ``size`` pixels to ``width`` feature maps.

    Up to 32 pixels a 3×3 convolution with stride 1; up to 64 pixels one with stride 2, so that the blocks behind it
    see 32 pixels again; beyond, ImageNet's 7×7 with stride 2 and 3×3 max-pooling with stride 2.

    Args:
        channels: Of the images.
        width: Feature maps.
        size: Pixels of the longer side.
        activated: BatchNorm and ReLU follow the convolution; pre-activation networks bring their own.
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
    """A dropout layer, or none if the rate is 0, so that weights keep their names and initial values."""
    return [nn.Dropout(share)] if share else []


def kaiming(network: nn.Module, fan: Literal["fan_out", "fan_in"] = "fan_out") -> None:
    """He et al.'s initial weights (arXiv:1502.01852): N(0, 2/fan) for convolutions, 1 and 0 for BatchNorm.

    Linear layers keep PyTorch's default, their biases become 0. Draws from the default generator.

    Args:
        network: To be initialised.
        fan: "fan_out" keeps the size of gradients, "fan_in" that of the maps, which matters where maps of layers of
            very different width are joined.
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode=fan, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
