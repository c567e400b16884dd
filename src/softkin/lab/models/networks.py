"""The networks: DenseNet-161, ResNets, WRNs, a small one for digits, and plain ones for vectors and word counts."""

import math
from typing import Literal

import torch
from torch import Tensor, nn


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


class Basic(nn.Module):
    """Two 3×3 convolutions with a shortcut."""

    expansion = 1

    def __init__(self, before: int, width: int, stride: int, widen: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, width, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.shortcut = _shortcut(before, width, stride)
        self.last = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.body(x) + self.shortcut(x))
        return out


class Bottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolutions with a shortcut; the middle one is ``widen`` times as wide as in a plain ResNet."""

    expansion = 4

    def __init__(self, before: int, width: int, stride: int, widen: int) -> None:
        super().__init__()
        inner, after = width * widen, width * self.expansion
        self.body = nn.Sequential(
            nn.Conv2d(before, inner, 1, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU(inplace=True),
            nn.Conv2d(inner, inner, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU(inplace=True),
            nn.Conv2d(inner, after, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.shortcut = _shortcut(before, after, stride)
        self.last = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.body(x) + self.shortcut(x))
        return out


def _shortcut(before: int, after: int, stride: int) -> nn.Module:
    if before == after and stride == 1:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))


def _residual(
    block: type[Basic] | type[Bottleneck],
    blocks: tuple[int, int, int, int],
    num_classes: int,
    input_shape: tuple[int, int, int],
    widen: int = 1,
    dropout: float = 0.0,
) -> nn.Module:
    """The stem and four groups of 64, 128, 256 and 512 filters; each group but the first halves the image.

    The authors use no dropout; ``dropout`` applies to the input of the last layer.
    """
    channels, *sides = input_shape
    layers: list[nn.Module] = [stem(channels, 64, max(sides))]
    before = 64
    for group, depth in enumerate(blocks):
        width = 64 * 2**group
        for place in range(depth):
            layers.append(block(before, width, 2 if group > 0 and place == 0 else 1, widen))
            before = width * block.expansion
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), *dropped(dropout), nn.Linear(before, num_classes)]
    network = nn.Sequential(*layers, *head)
    kaiming(network)
    return network


def resnet18(num_classes: int, input_shape: tuple[int, int, int], dropout: float = 0.0) -> nn.Module:
    """ResNet-18: 2, 2, 2, 2 basic blocks. 11,689,512 parameters with ImageNet's stem and 1,000 classes.

    References:
        He et al., Deep Residual Learning for Image Recognition, 2016, arXiv:1512.03385, table 1.
    """
    return _residual(Basic, (2, 2, 2, 2), num_classes, input_shape, dropout=dropout)


def resnet34(num_classes: int, input_shape: tuple[int, int, int], dropout: float = 0.0) -> nn.Module:
    """ResNet-34: 3, 4, 6, 3 basic blocks. 21,797,672 parameters with ImageNet's stem and 1,000 classes.

    References:
        He et al., Deep Residual Learning for Image Recognition, 2016, arXiv:1512.03385, table 1.
    """
    return _residual(Basic, (3, 4, 6, 3), num_classes, input_shape, dropout=dropout)


def wrn50_2(num_classes: int, input_shape: tuple[int, int, int], dropout: float = 0.0) -> nn.Module:
    """Wide ResNet-50-2: 3, 4, 6, 3 bottlenecks with 3×3 convolutions twice as wide as ResNet-50's.

    68,883,240 parameters with ImageNet's stem and 1,000 classes. The stride is on the 3×3 convolution.

    References:
        Zagoruyko and Komodakis, Wide Residual Networks, 2016, arXiv:1605.07146, section 3.4.
    """
    return _residual(Bottleneck, (3, 4, 6, 3), num_classes, input_shape, widen=2, dropout=dropout)


class Weighted(nn.Module):
    """Map counts to ln(1 + count) and scale each text to length √D, so that a repeated word counts less than double.

    With this length, a unit of the next layer has the same variance as if all D inputs were standardised.
    """

    def forward(self, counts: Tensor) -> Tensor:
        length = math.sqrt(counts.shape[1])
        return torch.nn.functional.normalize(counts.log1p(), dim=1) * length


def bag_of_words(num_classes: int, input_shape: tuple[int], hidden: int = 256, dropout: float = 0.0) -> nn.Module:
    """Map word counts (N, D), hashed or not, to logits through one hidden layer of ``hidden`` units with ReLU.

    The order of words is lost; in short queries such as CLINC150's, the words alone carry most of the meaning.
    ``dropout`` follows the hidden layer.
    """
    network = nn.Sequential(
        Weighted(),
        nn.Linear(*input_shape, hidden),
        nn.ReLU(inplace=True),
        *dropped(dropout),
        nn.Linear(hidden, num_classes),
    )
    kaiming(network)
    return network


class Unit(nn.Module):
    """Twice BatchNorm, ReLU and a 3×3 convolution, with a shortcut: the identity or a 1×1 convolution.

    Dropout, if any, precedes the second convolution, as in the authors' code.
    """

    def __init__(self, before: int, width: int, stride: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.BatchNorm2d(before), nn.ReLU(inplace=True))
        self.body = nn.Sequential(
            nn.Conv2d(before, width, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            *dropped(dropout),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
        )
        same = before == width and stride == 1
        self.shortcut = None if same else nn.Conv2d(before, width, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        active = self.first(x)
        # A 1×1 shortcut sees the activated input, as in the original code; the identity sees the raw one.
        beside = x if self.shortcut is None else self.shortcut(active)
        out: Tensor = self.body(active) + beside
        return out


def wrn(
    num_classes: int, input_shape: tuple[int, int, int], units: int = 5, widen: int = 1, dropout: float = 0.0
) -> nn.Module:
    """Wide ResNet with {16, 16k, 32k, 64k} filters and ``units`` pre-activation units in each of three groups.

    The paper gives the filters {16, 16, 32, 64}, that is k = ``widen`` = 1, but no depth. Published code with these
    filters has 5 units, or 34 layers as the authors of wide networks count. ``units=2`` is WRN-16-1. With 100 classes
    and images of 32 pixels the network has 472,564 parameters, or 180,916 with ``units=2``.

    References:
        Zagoruyko and Komodakis, Wide Residual Networks, 2016, arXiv:1605.07146, table 1.
    """
    channels, *sides = input_shape
    layers: list[nn.Module] = [stem(channels, 16, max(sides), activated=False)]
    before = 16
    for group in range(3):
        width = 16 * 2**group * widen
        for place in range(units):
            layers.append(Unit(before, width, 2 if group > 0 and place == 0 else 1, dropout))
            before = width
    layers += [nn.BatchNorm2d(before), nn.ReLU(inplace=True)]
    network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, num_classes))
    kaiming(network)
    return network
