"""Labelled data from what people have on disk: class folders of images, .npz, parquet, scikit-learn's digits."""

import io
import json
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softkin import SoftkinError
from softkin.progress import track

IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
SPLITS = {"train", "training", "val", "valid", "validation", "test", "testing", "dev"}
LARGEST = 2**34  # bytes of decoded images
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@dataclass(frozen=True)
class Labelled:
    """Samples with their classes."""

    values: NDArray[Any] | None
    """(N, …) images or features; None for text, which has no pixels to compare."""
    labels: NDArray[np.int64]
    class_names: list[str]
    source: str
    are_images: bool = True


def load(source: str | Path, *, size: int | None = None, progress: bool | None = None) -> Labelled:
    """Images (or features), labels and class names.

    Args:
        source: "digits"; a folder with one folder of images for each class; an .npz with ``images`` or ``features``,
            ``labels`` and perhaps ``class_names``; a parquet file as Hugging Face data sets have them, with a column of
            images or text and a column of labels.
        size: Resize images to this many pixels, square; needed where they differ in size.
        progress: Show a bar; by default on a terminal.

    Raises:
        SoftkinError: It is none of these, or damaged; with the file and what is wrong.
    """
    path = Path(source)
    if path.is_dir():
        return _folder(path, size, progress)
    if path.suffix.lower() == ".npz" and path.is_file():
        return _npz(path)
    if path.suffix.lower() == ".parquet" and path.is_file():
        return _parquet(path, size, progress)
    if str(source) == "digits":
        return _digits()
    if not path.exists():
        raise SoftkinError(
            f"{source} could not be read: there is no such file or folder, and no data set of that name."
        )
    raise SoftkinError(f"{source} is of no known form; a folder of class folders, .npz, .parquet or digits is.")


def _digits() -> Labelled:
    from sklearn.datasets import load_digits

    digits = load_digits()
    return Labelled(
        digits.images.astype(np.uint8), digits.target.astype(np.int64), list(DIGITS), "scikit-learn's digits"
    )


def _folder(path: Path, size: int | None, progress: bool | None) -> Labelled:
    folders = sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if folders and {folder.name.lower() for folder in folders} <= SPLITS:
        raise SoftkinError(f"{path} holds splits, not classes; give one of them, such as {folders[-1]}.")
    files = [
        (file, k)
        for k, folder in enumerate(folders)
        for file in sorted(folder.rglob("*"))
        if file.suffix.lower() in IMAGE_SUFFIXES
    ]
    if not files:
        raise SoftkinError(f"{path} must hold one folder of images for each class, but no image was found there.")
    images = _decode([file for file, _ in files], size, progress)
    return Labelled(
        images, np.array([k for _, k in files]), [folder.name for folder in folders], f"image folder {path.name}"
    )


def _decode(files: Sequence[Path | bytes], size: int | None, progress: bool | None) -> NDArray[np.uint8]:
    """(N, height, width, 3) from image files or their bytes."""
    from PIL import Image, UnidentifiedImageError

    def one(file: Path | bytes) -> NDArray[np.uint8]:
        with Image.open(io.BytesIO(file) if isinstance(file, bytes) else file) as opened:
            image = opened.convert("RGB")
            if size is not None and image.size != (size, size):
                image = image.resize((size, size), Image.Resampling.BILINEAR)
            return np.asarray(image)

    if size is not None and 3 * size * size * len(files) > LARGEST:
        raise SoftkinError(
            f"{len(files)} images of {size}×{size} pixels exceed {LARGEST / 2**30:.0f} GiB; pass a smaller --size."
        )
    images: NDArray[np.uint8] | None = None
    with ThreadPoolExecutor() as pool:
        results = pool.map(one, files)
        for place, file in enumerate(track(files, "reading images", total=len(files), show=progress)):
            name = f"image {place}" if isinstance(file, bytes) else str(file)
            try:
                image = next(results)
            except (OSError, UnidentifiedImageError, Image.DecompressionBombError, SyntaxError, ValueError) as error:
                raise SoftkinError(f"{name} could not be read as an image: {error}.") from error
            if images is None:
                images = np.empty((len(files), *image.shape), dtype=np.uint8)
            if image.shape != images.shape[1:]:
                raise SoftkinError(
                    f"all images must have one size, but {name} has {image.shape[1]}×{image.shape[0]} pixels and those "
                    f"before it {images.shape[2]}×{images.shape[1]}; pass size= (--size) to resize them."
                )
            images[place] = image
    if images is None:
        raise SoftkinError("there must be images, got none.")
    return images


def _npz(path: Path) -> Labelled:
    if not zipfile.is_zipfile(path):
        raise SoftkinError(f"{path} could not be read as .npz: it is no such file, or it was cut off.")
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise SoftkinError(f"{path} could not be read as .npz without pickles: {error}") from error
    values = next((arrays[name] for name in ("images", "features") if name in arrays), None)
    if values is None or "labels" not in arrays:
        raise SoftkinError(
            f"{path} must hold `images` or `features`, and `labels`; it holds {', '.join(arrays) or 'nothing'}."
        )
    labels = arrays["labels"]
    if labels.dtype.kind not in "iu" or labels.ndim != 1:
        raise SoftkinError(f"{path}: `labels` must be integers of shape (N,), got {labels.dtype} {labels.shape}.")
    names = arrays["class_names"].astype(str).tolist() if "class_names" in arrays else None
    if names is None:
        names = [f"class {k}" for k in range(int(labels.max(initial=-1)) + 1)]
    return Labelled(values, labels.astype(np.int64), names, path.name, "images" in arrays)


def _parquet(path: Path, size: int | None, progress: bool | None) -> Labelled:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise SoftkinError(f"{path} could not be read as parquet: {error}") from error
    columns = table.column_names
    label = next((name for name in ("label", "fine_label", "labels", "target") if name in columns), None)
    if label is None:
        raise SoftkinError(f"{path} must have a column `label`, `fine_label`, `labels` or `target`, it has {columns}.")
    kind = table.schema.field(label).type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        written = np.array(table[label].to_pylist())
        names, labels = np.unique(written, return_inverse=True)
        class_names = names.tolist()
    else:
        labels = table[label].to_numpy().astype(np.int64)
        known = _features(table.schema.metadata).get(label, {}).get("names")
        class_names = known or [f"class {k}" for k in range(int(labels.max(initial=-1)) + 1)]
    image = next((name for name in ("image", "img", "images") if name in columns), None)
    values = None
    if image is not None:
        cells = table[image].to_pylist()
        values = _decode([cell["bytes"] if isinstance(cell, dict) else cell for cell in cells], size, progress)
    return Labelled(values, labels.astype(np.int64), class_names, path.name)


def _features(metadata: dict[bytes, bytes] | None) -> dict[str, Any]:
    """What a Hugging Face data set says of its columns."""
    try:
        features: dict[str, Any] = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
    except (KeyError, TypeError, ValueError):
        return {}
    return features
