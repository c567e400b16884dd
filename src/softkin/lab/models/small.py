"""A small network for digits and other small images, and a plain one for vectors."""

import math

from torch import nn

from softkin.lab.models.stem import dropped, kaiming


def small(
    num_classes: int,
    input_shape: tuple[int, int, int],
    width: int = 16,
    hidden: int = 64,
    norm: bool = False,
    dropout: float = 0.0,
) -> nn.Module:
    """Two pairs of 3×3 convolutions, max-pooling after each, and one hidden layer.

    This suits images from scikit-learn's digits (8 pixels) to Fashion-MNIST (28 pixels), and trains in seconds on a
    CPU. Without ``norm`` there are no batch statistics, so a batch split over processes gives the same gradients.

    Args:
        num_classes: K.
        input_shape: (channels, height, width).
        width: Filters in each convolution of the first pair; the second pair has twice as many.
        hidden: Units in the hidden layer.
        norm: Apply BatchNorm after each convolution.
        dropout: Dropout rate of the fully connected layers' inputs, as in Gal and Ghahramani's networks (2016).
    """
    channels, height, across = input_shape
    layers: list[nn.Module] = []
    for before, after in ((channels, width), (width, 2 * width)):
        for into in (before, after):
            layers.append(nn.Conv2d(into, after, 3, padding=1, bias=not norm))
            if norm:
                layers.append(nn.BatchNorm2d(after))
            layers.append(nn.ReLU(inplace=True))
        layers.append(nn.MaxPool2d(2))
    flat = 2 * width * (height // 4) * (across // 4)
    network = nn.Sequential(
        *layers,
        nn.Flatten(),
        *dropped(dropout),
        nn.Linear(flat, hidden),
        nn.ReLU(inplace=True),
        *dropped(dropout),
        nn.Linear(hidden, num_classes),
    )
    kaiming(network)
    return network


def mlp(
    num_classes: int, input_shape: tuple[int, ...], hidden: int = 256, layers: int = 2, dropout: float = 0.0
) -> nn.Module:
    """``layers`` fully connected layers of ``hidden`` units with ReLU, for features or for images taken as vectors.

    Dropout follows each layer, as in Gal and Ghahramani's networks (2016).
    """
    parts: list[nn.Module] = [nn.Flatten()]
    before = math.prod(input_shape)
    for _ in range(layers):
        parts += [nn.Linear(before, hidden), nn.ReLU(inplace=True), *dropped(dropout)]
        before = hidden
    network = nn.Sequential(*parts, nn.Linear(before, num_classes))
    kaiming(network)
    return network
