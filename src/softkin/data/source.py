"""A source: files on disk of one form, and how to read each of its parts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from softkin import SoftkinError
from softkin.data.labelled import Content, Samples
from softkin.names import did_you_mean

WHOLE = "all"  # the one part of a source that is not divided
OUT_OF_SCOPE = "oos"  # what CLINC calls queries that belong to no class: a part, never a class

_CANONICAL = {
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "dev": "validation",
    "testing": "test",
}

Reader = Callable[[str, int | None, bool | None], Content]
"""(part, size, progress) → what that part holds."""


@dataclass(frozen=True)
class DataSource:
    """What ``recognise`` found."""

    words: str
    """What it is, for people."""
    root: Path
    files: Sequence[str | Path]
    """All files whose bytes decide what is read."""
    parts: Sequence[str]
    read: Reader
    archive: Path | None = None
    """The archive that the files were unpacked from"""
    ready: Samples | None = None
    """What needs no reading: digits, or what the caller has in hand."""


def canonical(part: str) -> str:
    """One name for each of the usual parts, whatever a file or folder calls it."""
    return _CANONICAL.get(part.lower(), part.lower())


def is_part(name: str) -> bool:
    """Whether a folder of this name holds a part rather than a class."""
    return canonical(name) in ("train", "validation", "test")


def official(parts: Sequence[str]) -> dict[str, str]:
    """What each part serves as → its own name.

    A validation set without a test set is the test set: Tiny-ImageNet's test labels, and those of many others, are
    not public, so that everybody reports results on the validation set.
    """
    usual = ("train", "validation", "test")
    roles = {part: part for part in (*usual, *parts) if part in parts}
    if "train" in roles and "validation" in roles and "test" not in roles:
        roles["test"] = roles.pop("validation")
    return roles


def chosen(source: DataSource, split: str | None) -> str:
    """The part to read: as asked, otherwise the training part, otherwise the only one."""
    roles = official(source.parts)
    if split is None:
        known = [part for part in roles if part != OUT_OF_SCOPE]
        if len(known) != 1 and "train" not in known:
            raise SoftkinError(
                f"{source.root} has the parts {', '.join(known)}; pass split= (--split) with one of them."
            )
        return roles["train"] if "train" in roles else roles[known[0]]
    wanted = canonical(split)
    if wanted in roles:
        return roles[wanted]
    if wanted == "validation" and "test" in roles and roles["test"] == "validation":
        raise SoftkinError(f"{source.root}: its validation set serves as its test set; pass split='test'.")
    if list(roles) == [WHOLE]:
        raise SoftkinError(f"{source.root} is not divided into parts, but split={split!r} was asked for; leave it out.")
    raise SoftkinError(f"{source.root} has the parts {', '.join(roles)}, not {split!r}{did_you_mean(wanted, roles)}")
