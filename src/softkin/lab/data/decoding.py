"""Image files and arrays as uint8 pixels (height, width, channels)."""

import contextlib
import io
import itertools
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softkin import SoftkinError
from softkin._core.progress import track
from softkin._io import files

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")  # PIL's names
LARGEST = 4096  # pixels per side: the maximum for `size`
TOGETHER = 64  # maximum number of images decoded by one task
AHEAD = 16  # tasks running or waiting to be written
BUDGET = 2**26  # bytes that all tasks together may hold: this bounds memory for images of any size
LARGE = 2**21  # pixels: larger images are decoded one at a time, since each takes up to 8 bytes per pixel

_ONE_LARGE_IMAGE = threading.Lock()

Encoded = tuple[str, bytes | Path]
"""The image's name in messages, and its file or its bytes."""


def decoded(
    images: Iterable[Encoded], *, total: int, size: int | None, progress: bool | None
) -> Iterator[NDArray[np.uint8]]:
    """Chunks of (N, height, width, 3), decoded in parallel, with only a few chunks in memory at a time."""
    piece: list[NDArray[np.uint8]] = []
    for image in track(_in_order(images, size), f"decoding {total:,} images", total=total, show=progress):
        piece.append(image)
        if len(piece) >= _together(image):
            yield np.stack(piece)
            piece = []
    if piece:
        yield np.stack(piece)


def _together(image: NDArray[np.uint8]) -> int:
    return max(1, min(TOGETHER, BUDGET // (AHEAD * max(1, image.nbytes))))


def _in_order(images: Iterable[Encoded], size: int | None) -> Iterator[NDArray[np.uint8]]:
    """Each image in order; the first is decoded alone, since its size limits how many may be decoded ahead."""
    source, due = iter(images), deque[Future[list[NDArray[np.uint8]]]]()
    expected: tuple[int, int] | None = None
    together, ahead = 1, 1
    with ThreadPoolExecutor() as pool:
        try:
            for first in _decode(list(itertools.islice(source, 1)), size, None):
                expected = None if size is not None else (first.shape[1], first.shape[0])
                together, ahead = _together(first), max(2, min(AHEAD, BUDGET // max(1, first.nbytes)))
                yield first
            while True:
                while len(due) < ahead and (batch := list(itertools.islice(source, together))):
                    due.append(pool.submit(_decode, batch, size, expected))
                if not due:
                    return
                yield from due.popleft().result()
        finally:
            for future in due:
                future.cancel()


def _decode(batch: list[Encoded], size: int | None, expected: tuple[int, int] | None) -> list[NDArray[np.uint8]]:
    """Decode each image of a batch; ``expected`` is the width and height that every image must have."""
    from PIL import Image

    if Image.MAX_IMAGE_PIXELS is not None:  # None means that the user removed the limit
        Image.MAX_IMAGE_PIXELS = max(Image.MAX_IMAGE_PIXELS, files.limit("pixels"))
    results = []
    for name, file in batch:
        content = file if isinstance(file, bytes) else files.read_bytes(file, "an image")
        with files.reading(name, "an image"):
            width, height = _checked_size(name, content)
            if expected is not None and (width, height) != expected:
                raise SoftkinError(
                    f"all images must have one size, but {name} has {width}×{height} pixels and those before it "
                    f"{expected[0]}×{expected[1]}; pass size= to resize them."
                )
            with (
                _ONE_LARGE_IMAGE if width * height > LARGE else contextlib.nullcontext(),
                Image.open(io.BytesIO(content), formats=FORMATS) as opened,
            ):
                image = opened.convert("RGB")
                if size is not None and image.size != (size, size):
                    image = image.resize((size, size), Image.Resampling.BILINEAR)
            results.append(np.asarray(image))
    return results


def _checked_size(name: str, content: bytes) -> tuple[int, int]:
    """The width and height stated by the file, refused if too large; checksums of PNG files are verified.

    Without an explicit list of formats, PIL would start Ghostscript on a PostScript file under any name.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        opened = Image.open(io.BytesIO(content), formats=FORMATS)
    except UnidentifiedImageError as error:
        raise SoftkinError(f"{name} could not be read as an image: it is none of {', '.join(FORMATS)}.") from error
    except Image.DecompressionBombError as error:
        most = files.limit("pixels")
        raise SoftkinError(
            f"{name} would have more than twice the {most:,} pixels allowed; if that is right, set "
            "SOFTKIN_MAX_PIXELS to a larger number and try again."
        ) from error
    with opened:
        files.within("pixels", opened.width * opened.height, name)
        if opened.format == "PNG":
            opened.verify()
        return opened.size


def pixels(values: NDArray[Any], name: str) -> NDArray[np.uint8]:
    """Arrays (…, H, W) or (…, H, W, C) as uint8, from integers in 0 … 255 or from fractions in [0, 1] times 255."""
    if values.dtype == np.uint8:
        return values
    if values.dtype.kind not in "biuf":
        raise SoftkinError(f"{name} must hold numbers, got {values.dtype}.")
    low, high = (values.min(), values.max()) if values.size else (0, 0)
    top = 255 if values.dtype.kind in "iu" else 1
    if not (low >= 0 and high <= top):  # also refuses NaN
        raise SoftkinError(
            f"{name} must hold whole numbers from 0 to 255 or fractions from 0 to 1, got {values.dtype} from "
            f"{low:g} to {high:g}; were they standardised? softkin does that itself."
        )
    return values.astype(np.uint8) if top == 255 else np.rint(values.astype(np.float64) * 255).astype(np.uint8)


CHANNELS = (1, 2, 3, 4)


def with_channels(values: NDArray[Any], name: str) -> NDArray[Any]:
    """Images as (N, H, W, C): a missing channel axis is added, and channels that come first, as in torch, move."""
    if values.ndim == 3:
        return values[..., None]
    if values.ndim == 4 and values.shape[3] not in CHANNELS and values.shape[1] in CHANNELS:
        return np.moveaxis(values, 1, 3)
    if values.ndim != 4 or values.shape[3] not in CHANNELS:
        raise SoftkinError(
            f"{name} must have shape (N, H, W), (N, H, W, C) or (N, C, H, W) with at most 4 channels, got "
            f"{values.shape}."
        )
    return values


def resized(values: NDArray[np.uint8], size: int, *, peak: int) -> NDArray[np.uint8]:
    """The images resized to (N, size, size, C); images of that size are returned unchanged."""
    if values.shape[1:3] == (size, size):
        return values
    return fitted(values, (size, size, values.shape[3]), peak=peak, new_peak=peak)


def fitted(values: NDArray[np.uint8], shape: tuple[int, ...], *, peak: int, new_peak: int) -> NDArray[np.uint8]:
    """Images resized to ``shape`` = (H, W, C) and rescaled from 0 … ``peak`` to 0 … ``new_peak``."""
    from PIL import Image

    height, width, channels = shape
    if channels not in (1, 3):
        raise ValueError(f"images can be fitted to 1 or 3 channels, got {channels}.")
    result = np.empty((len(values), *shape), dtype=np.uint8)
    for place, image in enumerate(values):
        scaled = image if peak == 255 else np.rint(image.astype(np.float64) * (255 / peak)).astype(np.uint8)
        opened = Image.fromarray(scaled[..., 0] if scaled.shape[2] == 1 else scaled[..., :3])
        opened = opened.convert("L" if channels == 1 else "RGB").resize((width, height), Image.Resampling.BILINEAR)
        result[place] = np.asarray(opened).reshape(shape)
    return result if new_peak == 255 else np.rint(result * (new_peak / 255)).astype(np.uint8)
