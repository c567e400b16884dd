"""Augmentation of whole batches in tensor operations, on the device where the batch is.

Which images are moved and flipped is drawn from the generator that is handed in, and from it alone: the same seed,
the same batches. A generator of the CPU serves every device, so that all devices see the same draws.
"""

import torch
from torch import Tensor
from torch.nn import functional as F


def random_flip(images: Tensor, generator: torch.Generator) -> Tensor:
    """Mirror each of (N, C, H, W) images left to right with probability ½."""
    _check(images)
    flips = torch.rand(len(images), generator=generator, device=generator.device) < 0.5
    return _flipped(images, flips.to(images.device))


def random_crop_flip(images: Tensor, generator: torch.Generator, padding: int = 4) -> Tensor:
    """Pad (N, C, H, W) images by ``padding`` zeros on each side, cut each back at a random place, mirror half of them.

    Of the (2·padding + 1)² places all are equally likely. Of images that are already standardised a zero is the
    mean colour, of uint8 ones it is black.
    """
    _check(images)
    if padding < 0:
        raise ValueError(f"`padding` must be at least 0, got {padding}.")
    n, c, h, w = images.shape
    corners = torch.randint(0, 2 * padding + 1, (2, n), generator=generator, device=generator.device)
    flips = torch.rand(n, generator=generator, device=generator.device) < 0.5
    top, left = corners.to(images.device)
    # One gather for both: a mirrored image reads its columns from right to left.
    down = top[:, None] + torch.arange(h, device=images.device)
    across = torch.arange(w, device=images.device).expand(n, w)
    across = left[:, None] + torch.where(flips.to(images.device)[:, None], w - 1 - across, across)
    padded = F.pad(images, (padding,) * 4)
    height, width = h + 2 * padding, w + 2 * padding
    places = (down[:, :, None] * width + across[:, None, :]).reshape(n, h * w)
    if images.is_contiguous(memory_format=torch.channels_last) and not images.is_contiguous():
        places = places + torch.arange(n, device=images.device)[:, None] * (height * width)
        pixels = padded.permute(0, 2, 3, 1).reshape(n * height * width, c).index_select(0, places.flatten())
        return pixels.reshape(n, h, w, c).permute(0, 3, 1, 2)
    places = places[:, None].expand(n, c, h * w)
    return padded.reshape(n, c, height * width).gather(2, places).reshape(n, c, h, w)


def _flipped(images: Tensor, flips: Tensor) -> Tensor:
    return torch.where(flips[:, None, None, None], images.flip(3), images)


def _check(images: Tensor) -> None:
    if images.ndim != 4:
        raise ValueError(f"`images` must have shape (N, C, H, W), got {tuple(images.shape)}.")
