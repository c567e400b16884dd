"""Wide residual networks for small images."""

from torch import Tensor, nn

from softkin.lab.models.stem import dropped, kaiming, stem


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
