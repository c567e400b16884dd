"""Load labelled data of any known format: recognise the format and call its reader."""

import re
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softkin import SoftkinError
from softkin._core import checks
from softkin._core.assumption import Assumption
from softkin._core.names import did_you_mean
from softkin._io import cache, files
from softkin._io import tables as table_files
from softkin.lab.data import archives, cifar, decoding, folders, given, idx, labelled_tables, npz, published, store
from softkin.lab.data.labelled import OUT_OF_SCOPE, DataSource, Labelled, Samples, canonical, chosen, stored
from softkin.lab.data.store import Content

CONVERTED = "refs/convert/parquet"  # where the hub keeps a parquet copy of data sets in other forms
WANTED = ["*.parquet", "*.csv", "*.jsonl", "words.txt"]

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def is_name(text: str) -> bool:
    """Whether ``text`` can be the name of a data set on the hub: owner/name."""
    return _NAME.fullmatch(text) is not None and Path(text).suffix.lower() not in {".parquet", ".csv", ".jsonl", ".npz"}


def get(name: str) -> Path:
    """The folder of a data set's files, downloaded by huggingface_hub into its own cache."""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError
    except ImportError as error:
        raise SoftkinError(
            f"{name} could not be read: there is no such file or folder, and for a data set of the Hugging Face hub "
            "huggingface_hub is needed: pip install huggingface_hub."
        ) from error
    tried = f"{name} could not be read: there is no such file or folder, and"
    try:
        path = Path(snapshot_download(name, repo_type="dataset", allow_patterns=WANTED))
        if not any(path.rglob("*.parquet")) and not any(path.rglob("*.csv")) and not any(path.rglob("*.jsonl")):
            path = Path(snapshot_download(name, repo_type="dataset", revision=CONVERTED, allow_patterns=WANTED))
    except RepositoryNotFoundError as error:
        raise SoftkinError(f"{tried} the Hugging Face hub knows no public data set of that name.") from error
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise SoftkinError(f"{tried} the Hugging Face hub could not be reached: {first}") from error
    return path


UNPACKED = ("cifar-100-python", "cifar-10-batches-py", "tiny-imagenet-200")  # archives that people often keep unpacked


def load(source: Any, *, split: str | None = None, size: int | None = None, progress: bool | None = None) -> Labelled:
    """Load images, features or text with their labels and class names.

    Files are decoded once into the cache and memory-mapped from then on.

    Args:
        source: A path, a name or a data set object. A path is one of: a folder with one folder of images per class,
            perhaps inside train/, val/ and test/; a parquet, CSV or JSONL file with a column of images (parquet) or
            text and a column of labels, or a folder of such files for train and test; an .npz with ``images`` or
            ``features``, ``labels`` and perhaps ``class_names``, or a folder with train.npz and test.npz; the folder
            cifar-100-python, cifar-10-batches-py or tiny-imagenet-200, or its archive; a folder of idx files such as
            Fashion-MNIST's. A name is "digits" (scikit-learn's), "cifar100-features" (which come with softkin), one of
            ``catalogue.names()`` (downloaded on first use), or owner/name on the Hugging Face hub. A data set object
            has a length and returns pairs of value and label by index.
        split: The part to load: "train", "test" and so on; by default the training part, or everything if undivided.
        size: Resize images to squares of this many pixels; required if their sizes differ.
        progress: Show a bar; by default only on a terminal.

    Raises:
        SoftkinError: The source has no known format or is damaged; the message names the file and the problem.
    """
    known = recognise(source, progress=progress)
    if split is not None and canonical(split) == OUT_OF_SCOPE:
        raise ValueError(f"`split` must be a part with classes, got {split!r}; data.out_of_distribution gives those.")
    return labelled(read(known, chosen(known, split), size, progress))


def labelled(samples: Samples) -> Labelled:
    """Return ``samples`` if they have labels, and refuse them otherwise."""
    if not isinstance(samples, Labelled):
        raise ValueError(f"`source` must have labels, but {samples.source} belongs to no class.")
    return samples


def read(source: DataSource, part: str, size: int | None, progress: bool | None) -> Samples:
    """One part of a recognised source, read from the cache if it is there."""
    if size is not None:
        checks.count(size, "size")
        if size > decoding.LARGEST:
            raise ValueError(f"`size` must be at most {decoding.LARGEST} pixels, got {size}.")
    if source.ready is not None:
        return _resized_at_once(source.ready, size)

    def make() -> Content:
        content = source.read(part, size, progress)
        check_names(content.class_names, source.root)
        return _resized(content, size)

    if not source.files:
        return stored(store.keep(make()), source.words)
    digest = cache.content_digest(source.root, source.files, progress=progress)
    try:
        return stored(store.open_or_build(f"{digest} {part} {size}", make), source.words)
    except SoftkinError as error:
        if source.archive is None:
            raise
        raise SoftkinError(f"{source.archive}: {error}") from error  # the user knows the archive


def check_names(class_names: list[str], root: Path) -> None:
    """Refuse class names that are empty, repeated or not text, before anything is decoded or trained."""
    files.within("classes", len(class_names), str(root))
    try:
        checks.class_names(class_names)
    except (TypeError, ValueError) as error:
        raise SoftkinError(f"{root}: {error}") from error


def _resized(content: Content, size: int | None) -> Content:
    if size is None:
        return content
    if content.kind != "images":
        raise ValueError(f"`size` must be left out, since the source holds {content.kind}.")

    def chunks() -> Iterator[NDArray[Any]]:
        for chunk in content.chunks:
            yield decoding.resized(chunk, size, peak=content.peak)

    return replace(content, chunks=chunks())


def _resized_at_once(samples: Samples, size: int | None) -> Samples:
    if size is None or samples.values.shape[1:3] == (size, size):
        return samples
    if samples.kind != "images":
        raise ValueError(f"`size` must be left out, since {samples.source} holds {samples.kind}.")
    values: NDArray[np.uint8] = decoding.resized(samples.values, size, peak=samples.peak)
    digest = files.sha256(f"{samples.digest} at {size} pixels".encode())
    return replace(samples, values=values, digest=digest)


def recognise(source: Any, *, progress: bool | None = None) -> DataSource:
    """The source that ``source`` describes; a named data set that is missing is downloaded."""
    if isinstance(source, Samples):
        return npz.ready(source)
    if not isinstance(source, str | Path):
        return given.source(source)
    path = files.expanded(source)
    with files.reading(path, "data"):
        if path.is_dir():
            return _folder(path)
        if path.exists():
            files.require_regular(path)
            return _file(path, progress)
    return _name(str(source), progress)


def _folder(path: Path) -> DataSource:
    inside = [path / name for name in UNPACKED if (path / name).is_dir()]
    if len(inside) == 1:
        return _folder(inside[0])
    if folders.is_tiny_imagenet(path):
        return folders.tiny_imagenet(path)
    if (path / "raw").is_dir() and (source := idx.source(path / "raw")):  # torchvision's folder for idx files
        return source
    source = cifar.source(path) or idx.source(path)
    if source is None and not folders.hold_images(path):  # a table among class folders describes them
        source = labelled_tables.folder_source(path) or npz.folder_source(path)
    return source or folders.class_folders(path)


def _file(path: Path, progress: bool | None) -> DataSource:
    suffix = path.suffix.lower()
    if archives.is_archive(path):
        folder = archives.unpacked(path, progress=progress)
        try:
            return replace(_folder(folder), words=path.name, archive=path)
        except SoftkinError as error:
            raise SoftkinError(f"{path}: {error}") from error
    if suffix == ".npz":
        return npz.npz_source(path)
    if table_files.form_of(path) is not None:
        return labelled_tables.file_source(path)
    if "idx1-ubyte" in path.name or "idx3-ubyte" in path.name:
        said = f"{path} is one file of a data set; its folder is read, {path.parent}."
        warnings.warn(said, Assumption, stacklevel=2)
        return _folder(path.parent)
    raise SoftkinError(
        f"{path} has no known format; a folder of class folders, a table ({', '.join(table_files.FORMATS)}), .npz, the "
        "official archives of CIFAR and Tiny-ImageNet (.tar.gz, .zip), or a folder of idx files can be read."
    )


def is_known_file(path: Path) -> bool:
    """Whether a file of this name can be a data source."""
    return archives.is_archive(path) or path.suffix.lower() == ".npz" or table_files.form_of(path) is not None


def check(name: str) -> None:
    """Refuse a text that is no file, folder or data set name, without reading or downloading anything."""
    if files.expanded(name).exists() or name in npz.SHIPPED or name in published.DATA_SETS or is_name(name):
        return
    hint = did_you_mean(name, [*npz.SHIPPED, *published.DATA_SETS.spellings])
    raise SoftkinError(f"{name} could not be read: there is no such file or folder, and no data set of that name{hint}")


def _name(name: str, progress: bool | None) -> DataSource:
    check(name)
    if name in npz.SHIPPED:
        return npz.SHIPPED[name]()
    if name in published.DATA_SETS:
        if published.entry(name).folder is None:
            raise SoftkinError(f"{name} holds word vectors, not samples; pass its file as vectors (--vectors).")
        return replace(_folder(published.get(name, progress=progress)), words=name)
    return replace(_folder(get(name)), words=name)
