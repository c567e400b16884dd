"""Data sets that softkin knows by name: where they are published, their checksums, and where they are stored."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softkin import SoftkinError
from softkin._core.names import Registry
from softkin._io import cache
from softkin.lab.data import archives


@dataclass(frozen=True)
class PublishedFile:
    """One file as its publisher offers it."""

    url: str
    md5: str | None = None
    size: int | None = None

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class DataSet:
    """A published data set and its files."""

    words: str
    files: tuple[PublishedFile, ...]
    folder: str | None = None
    """The name of the unpacked folder, or of the folder for several files; None for a single file kept as it is."""
    members: Mapping[str, str] = field(default_factory=dict)
    """MD5 checksums of the files in the archive."""
    system: str | None = None
    """The folder in which a package of the operating system installs the data set."""
    is_vectors: bool = False
    """Whether it holds word vectors, which are no data to train on"""


_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"

DATA_SETS: Registry[DataSet] = Registry("data set")

DATA_SETS.add(
    "cifar10",
    DataSet(
        "CIFAR-10: 60,000 images of 10 classes, 32×32",
        (
            PublishedFile(
                "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
                "c58f30108f718f92721af3b95e74349a",
                170_498_071,
            ),
        ),
        "cifar-10-batches-py",
        {
            "data_batch_1": "c99cafc152244af753f735de768cd75f",
            "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "634d18415352ddfa80567beed471001a",
            "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            "test_batch": "40351d587109b95175f43aff81a1287e",
            "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
        },
    ),
    aliases=("cifar-10",),
)
DATA_SETS.add(
    "cifar100",
    DataSet(
        "CIFAR-100: 60,000 images of 100 classes, 32×32",
        (
            PublishedFile(
                "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
                "eb9058c3a382ffc7106e4002c42a8d85",
                169_001_437,
            ),
        ),
        "cifar-100-python",
        {
            "train": "16019d7e3df5f24257cddd939b257f8d",
            "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
            "meta": "7973b15100ade9c7d40fb424638fde48",
        },
    ),
    aliases=("cifar-100",),
)
DATA_SETS.add(
    "tiny-imagenet",
    DataSet(
        "Tiny-ImageNet: 110,000 labelled images of 200 classes, 64×64",
        (
            PublishedFile(
                "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
                "90528d7ca1a48142e341f4ef8d21d0de",
                248_100_043,
            ),
        ),
        "tiny-imagenet-200",
    ),
    aliases=("tiny-imagenet-200", "tinyimagenet"),
)
DATA_SETS.add(
    "fashion-mnist",
    DataSet(
        "Fashion-MNIST: 70,000 grey images of 10 kinds of clothes, 28×28",
        (
            PublishedFile(f"{_FASHION}/train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
            PublishedFile(f"{_FASHION}/train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
            PublishedFile(f"{_FASHION}/t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
            PublishedFile(f"{_FASHION}/t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
        ),
        "fashion-mnist",
        system="/usr/share/datasets/fashion-mnist",  # Debian's dataset-fashion-mnist
    ),
    aliases=("fashion_mnist", "fashionmnist"),
)
DATA_SETS.add(
    "wikipedia2vec",
    DataSet(
        "the paper's word vectors, English, 100 dimensions; for --vectors",
        (
            PublishedFile(
                "http://wikipedia2vec.s3.amazonaws.com/models/en/2018-04-20/enwiki_20180420_100d.txt.bz2",
            ),
        ),
        is_vectors=True,
    ),
)


class NotFetched(SoftkinError):
    """A published file could not be downloaded; a copy of the data may lie elsewhere."""


def names() -> list[str]:
    """The names that ``get`` accepts."""
    return list(DATA_SETS)


def entry(name: str) -> DataSet:
    """The data set of this name; the error for an unknown name suggests the nearest known one."""
    return DATA_SETS[DATA_SETS.canonical(name, "name")]


def present(name: str) -> Path | None:
    """The path of the data set if it is on disk, else None."""
    known = entry(name)
    if known.system is not None and Path(known.system).is_dir():
        return Path(known.system)
    path = _path_of(known)
    return path if path.exists() else None


def get(name: str, *, force: bool = False, progress: bool | None = None) -> Path:
    """The folder (for word vectors, the file) of a data set, downloaded, checked and unpacked on first use.

    Args:
        name: One of ``names()``.
        force: Download and unpack it again.
        progress: Show progress bars; by default only on a terminal.

    Raises:
        SoftkinError: The data set cannot be downloaded; the message says where to put the file by hand.
    """
    name = DATA_SETS.canonical(name, "name")
    known = DATA_SETS[name]
    earlier = None if force else present(name)
    if earlier is not None:
        return earlier
    with cache.locked(cache.made("downloads") / f"{name}.lock"):
        path = _path_of(known)
        if path.exists() and not force:  # another process downloaded it while we waited
            return path
        fetched = [_fetched(file, known, force, progress) for file in known.files]
        if known.folder is None:
            return fetched[0]
        if archives.is_archive(fetched[0]):
            _unpack(fetched[0], known, path, progress)
        else:
            _gather(fetched, path)
        return path


def _path_of(known: DataSet) -> Path:
    if known.folder is None:
        return cache.folder() / "downloads" / known.files[0].name
    return cache.folder() / "data" / known.folder


def _fetched(file: PublishedFile, known: DataSet, force: bool, progress: bool | None) -> Path:
    target = cache.made("downloads") / file.name
    if target.exists() and not force:
        if file.md5 is not None and (checksum := archives.md5_of(target)) != file.md5:
            raise SoftkinError(
                f"{target} is not the official file: its MD5 must be {file.md5}, got {checksum}; remove it, or replace "
                f"it with the file at {file.url}."
            )
        return target
    try:
        archives.fetch(file.url, target, md5=file.md5, size=file.size, progress=progress)
    except SoftkinError as error:
        raise NotFetched(
            f"{str(error).rstrip('.')}. Where there is no network, fetch that file elsewhere and put it at {target}, "
            "then try again."
        ) from error
    return target


def _unpack(archive: Path, known: DataSet, target: Path, progress: bool | None) -> None:
    """Unpack in a temporary folder, find the only folder in it, check its files, and rename it to ``target``."""
    holder = cache.made("data") / f".{target.name}.whole"

    def check(folder: Path) -> None:
        archives.check_members(archives.only_folder(folder), known.members, archive.name)

    archives.unpack(archive, holder, check=check, progress=progress)
    cache.remove(target)
    os.rename(archives.only_folder(holder), target)
    shutil.rmtree(holder, ignore_errors=True)


def _gather(files: list[Path], target: Path) -> None:
    temporary = cache.workplace(cache.made("data") / target.name, "gathering")
    try:
        for file in files:
            shutil.move(file, temporary / file.name)
        cache.remove(target)
        os.rename(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def about() -> list[dict[str, Any]]:
    """The rows that ``softkin data list`` shows."""
    return [
        {
            "name": name,
            "what": known.words,
            "bytes": sum(file.size for file in known.files if file.size) or None,
            "url": known.files[0].url,
            "path": None if (path := present(name)) is None else str(path),
        }
        for name, known in DATA_SETS.items()
    ]
