"""Residual networks: ResNet-18, ResNet-34 and Wide ResNet-50-2."""

from torch import Tensor, nn

from softkin.lab.models.stem import dropped, kaiming, stem


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
