"""One call for whatever people have on disk: what it is, and which reader reads it."""

from pathlib import Path
from typing import Any

from softkin import SoftkinError, checks
from softkin.data import arrays, cache, folders, store, tables
from softkin.data.labelled import Labelled
from softkin.data.source import Source, chosen


def load(source: Any, *, split: str | None = None, size: int | None = None, progress: bool | None = None) -> Labelled:
    """Images, features or text, their labels and class names.

    Args:
        source: "digits"; a folder with one folder of images for each class, perhaps inside train/ and test/; an .npz
            with ``images`` or ``features``, ``labels`` and perhaps ``class_names``; a parquet, CSV or JSONL file, or a
            folder of train and test files, with a column of images or text and a column of labels.
        split: Which part: "train", "test" and so on; by default the training part, or all of what has no parts.
        size: Resize images to this many pixels, square; needed where they differ in size.
        progress: Show a bar; by default on a terminal.

    Raises:
        SoftkinError: It is none of these, or damaged; with the file and what is wrong.
    """
    if size is not None:
        checks.count(size, "size")
    if str(source) == "digits" and not Path("digits").exists():
        if split is not None:
            raise SoftkinError(f"digits are not divided into parts, but split={split!r} was asked for; leave it out.")
        return arrays.digits()
    found = recognise(source)
    return read(found, chosen(found, split), size, progress)


def read(found: Source, part: str, size: int | None, progress: bool | None) -> Labelled:
    """One part of a recognised source, from the cache where it is there."""
    digest = cache.content_digest(found.root, found.files, progress=progress)
    return store.open_or_build(f"{digest} {part} {size}", found.words, lambda: found.read(part, size, progress))


def recognise(source: str | Path) -> Source:
    """What ``source`` is."""
    path = Path(source)
    if path.is_dir():
        if folders.is_tiny_imagenet(path):
            return folders.tiny_imagenet(path)
        return tables.folder_source(path) or folders.class_folders(path)
    suffix = path.suffix.lower()
    if path.is_file() and suffix == ".npz":
        return arrays.npz_source(path)
    if path.is_file() and suffix in tables.SUFFIXES:
        return tables.file_source(path)
    if not path.exists():
        raise SoftkinError(
            f"{source} could not be read: there is no such file or folder, and no data set of that name."
        )
    raise SoftkinError(f"{source} is of no known form; a folder of class folders, .npz, .parquet or digits is.")
