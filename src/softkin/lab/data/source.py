"""A source: files on disk of one format, and the function that reads each of its parts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from softkin import SoftkinError
from softkin._core.names import did_you_mean
from softkin.lab.data.labelled import Samples
from softkin.lab.data.store import Content

WHOLE = "all"  # the only part of an undivided source
SUPERCLASSES = "superclasses.csv"  # lines of class,superclass, beside any data
OUT_OF_SCOPE = "oos"  # CLINC's name for queries that belong to no class: a part, never a class

_CANONICAL = {
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "dev": "validation",
    "testing": "test",
}

Reader = Callable[[str, int | None, bool | None], Content]
"""A function from (part, size, progress) to the content of that part."""


@dataclass(frozen=True)
class DataSource:
    """A recognised source of data."""

    words: str
    """A description of the source for people."""
    root: Path
    files: Sequence[str | Path]
    """All files whose bytes determine the content."""
    parts: Sequence[str]
    read: Reader
    archive: Path | None = None
    """The archive that the files were unpacked from."""
    ready: Samples | None = None
    """Data that needs no reading, such as the digits or samples already in memory."""

    @property
    def tree(self) -> Path | None:
        """The file with the super-classes of the classes, if one lies beside the data."""
        path = (self.root if self.root.is_dir() else self.root.parent) / SUPERCLASSES
        return path if self.root.exists() and path.is_file() else None


def canonical(part: str) -> str:
    """The canonical name of a part, for any of the usual spellings in files and folders."""
    return _CANONICAL.get(part.lower(), part.lower())


def is_part(name: str) -> bool:
    """Whether a folder of this name holds a part rather than a class."""
    return canonical(name) in ("train", "validation", "test")


def official(parts: Sequence[str]) -> dict[str, str]:
    """Map each role (train, validation, test) to the name of the part that fills it.

    A validation set without a test set serves as the test set: the test labels of Tiny-ImageNet and many other data
    sets are not public, so results are reported on the validation set.
    """
    usual = ("train", "validation", "test")
    roles = {part: part for part in (*usual, *parts) if part in parts}
    if "train" in roles and "validation" in roles and "test" not in roles:
        roles["test"] = roles.pop("validation")
    return roles


def chosen(source: DataSource, split: str | None) -> str:
    """The part to read: the requested one, else the training part, else the only one."""
    roles = official(source.parts)
    if split is None:
        known = [part for part in roles if part != OUT_OF_SCOPE]
        if len(known) != 1 and "train" not in known:
            raise SoftkinError(f"{source.root} has the parts {', '.join(known)}; pass split= with one of them.")
        return roles["train"] if "train" in roles else roles[known[0]]
    wanted = canonical(split)
    if wanted in roles:
        return roles[wanted]
    if wanted == "validation" and "test" in roles and roles["test"] == "validation":
        raise SoftkinError(f"{source.root}: its validation set serves as its test set; pass split='test'.")
    if list(roles) == [WHOLE]:
        raise SoftkinError(f"{source.root} is not divided into parts, but split={split!r} was requested; leave it out.")
    raise SoftkinError(f"{source.root} has the parts {', '.join(roles)}, not {split!r}{did_you_mean(wanted, roles)}")
