"""An autoencoder for small images, and a dense one for vectors."""

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from softkin._core import checks

SMALLEST, LARGEST = 8, 64  # pixels per side
WIDTH = 32  # filters
GRID = 16  # pixels per side that the convolutions see in larger images
HIDDEN = 512  # units of the dense network


class Autoencoder(nn.Module):
    r"""An autoencoder with ``latent_dim`` latent numbers.

    .. math:: r(x) = A\,(x + f(x)) + a, \qquad y = B\,r + b, \qquad \hat x = y + g(y)

    with f and g convolutional for images (3×3 convolutions over blocks of pixels taken as channels, so that few layers
    have a wide receptive field) and dense for vectors. Both start at zero. With A and B set to principal axes
    (``set_axes``), training starts at PCA's reconstruction, and f and g learn what PCA misses. A network of strided
    convolutions alone ended far behind PCA in our trials.
    """

    def __init__(self, latent_dim: int, input_shape: tuple[int, ...]) -> None:
        super().__init__()
        self.latent_dim, self.input_shape = latent_dim, input_shape
        size = math.prod(input_shape)
        self.linear_in = nn.Linear(size, latent_dim)
        self.linear_out = nn.Linear(latent_dim, size)
        images = len(input_shape) == 3
        self.f = Convolutions(input_shape, layers=2) if images else _dense(size)
        self.g = Convolutions(input_shape, layers=3) if images else _dense(size)
        for branch in (self.f, self.g):
            last = [layer for layer in branch.modules() if isinstance(layer, nn.Linear | nn.Conv2d)][-1]
            nn.init.zeros_(last.weight)
            if last.bias is not None:
                nn.init.zeros_(last.bias)

    @torch.no_grad()
    def set_axes(self, axes: Tensor, mean: Tensor) -> None:
        """Set A, a, B and b from the rows of ``axes`` (at most ``latent_dim``, orthonormal) and ``mean`` (D,)."""
        full = torch.zeros_like(self.linear_in.weight)
        full[: len(axes)] = axes
        self.linear_in.weight.copy_(full)
        self.linear_in.bias.copy_(-full @ mean.to(full))
        self.linear_out.weight.copy_(full.T)
        self.linear_out.bias.copy_(mean)

    def encode(self, x: Tensor) -> Tensor:
        """r(x), (N, ``latent_dim``)."""
        codes: Tensor = self.linear_in((x + self.f(x)).flatten(1))
        return codes

    def decode(self, codes: Tensor) -> Tensor:
        """Reconstructed inputs from latent codes."""
        y = self.linear_out(codes).unflatten(1, self.input_shape)
        out: Tensor = y + self.g(y)
        return out

    def forward(self, x: Tensor) -> Tensor:
        return self.decode(self.encode(x))


def _dense(size: int) -> nn.Module:
    return nn.Sequential(nn.Linear(size, HIDDEN), nn.ReLU(inplace=True), nn.Linear(HIDDEN, size))


class Convolutions(nn.Module):
    """Map images to images of the same shape by 3×3 convolutions with ReLU between them, on 2×2 or 4×4 pixel blocks."""

    def __init__(self, shape: tuple[int, ...], layers: int) -> None:
        super().__init__()
        channels, self.height, self.width = shape
        self.block = 2 ** max(1, math.ceil(math.log2(max(self.height, self.width) / GRID)))
        widths = [channels * self.block**2, *[WIDTH] * (layers - 1), channels * self.block**2]
        parts: list[nn.Module] = []
        for before, after in itertools.pairwise(widths):
            parts += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*parts[:-1])

    def forward(self, x: Tensor) -> Tensor:
        right, below = -self.width % self.block, -self.height % self.block
        blocks = nn.functional.pixel_unshuffle(nn.functional.pad(x, (0, right, 0, below)), self.block)
        out = nn.functional.pixel_shuffle(self.body(blocks), self.block)
        return out[..., : self.height, : self.width]


def autoencoder(latent_dim: int, input_shape: Sequence[int]) -> Autoencoder:
    """An untrained autoencoder with ``latent_dim`` latents for inputs of the given shape.

    Its weights come from the default generator. The paper uses 256 latents for CIFAR-100's 32×32 pixels and 1024 for
    Tiny-ImageNet's 64×64. ``distances.from_autoencoder`` trains the network.

    Args:
        latent_dim: Number of latents, less than the number of values of an input.
        input_shape: (channels, height, width) with 8 to 64 pixels per side, or (D,) for vectors.
    """
    latent_dim = checks.count(latent_dim, "latent_dim")
    if len(input_shape) not in (1, 3):
        raise ValueError(f"`input_shape` must be (channels, height, width) or (D,), got {tuple(input_shape)}.")
    shape = tuple(checks.count(side, "input_shape") for side in input_shape)
    if len(shape) == 3 and not SMALLEST <= min(shape[1:]) <= max(shape[1:]) <= LARGEST:
        raise ValueError(
            f"the autoencoder takes images of {SMALLEST} to {LARGEST} pixels per side, got {shape[1]}×{shape[2]}; "
            "resize them first."
        )
    if latent_dim >= math.prod(shape):
        raise ValueError(
            f"`latent_dim` must be below the {math.prod(shape)} values of an input, got {latent_dim}: "
            "an autoencoder that is no narrower than its input need not learn anything."
        )
    return Autoencoder(latent_dim, shape)
