"""Unpack archives atomically, verify every byte, and never write outside the target folder."""

import bz2
import gzip
import lzma
import os
import shutil
import stat
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any

from softkin import SoftkinError
from softkin._core.progress import track
from softkin._io import cache, files

SUFFIXES = (".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2", ".tar", ".zip")
CHUNK = 2**20  # bytes read at a time
BLOCK = tarfile.BLOCKSIZE  # bytes: an archive ends with blocks of zeros

_PACKED: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}

Member = tuple[str, int, Callable[[], IO[bytes] | None]]
"""A member's name, its size, and a function that opens it."""


def is_archive(path: Path) -> bool:
    """Whether the file name has the suffix of an archive."""
    return path.name.lower().endswith(SUFFIXES)


def unpacked(path: Path, *, progress: bool | None = None) -> Path:
    """The folder in the cache that holds an archive's content, keyed by the archive's bytes."""
    digest = cache.content_digest(path, [path], progress=progress)
    target = cache.made("archives") / digest
    if not target.is_dir():
        with cache.locked(target.with_name(f"{digest}.lock")):
            if not target.is_dir():
                unpack(path, target, progress=progress)
    return only_folder(target)


def only_folder(path: Path) -> Path:
    """``path`` itself, or its only entry if that is a folder."""
    inside = [entry for entry in path.iterdir() if not entry.name.startswith((".", "__MACOSX"))]
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else path


def unpack(
    path: Path, target: Path, *, check: Callable[[Path], None] | None = None, progress: bool | None = None
) -> None:
    """Unpack ``path`` into the folder ``target``: first beside it, then, after ``check``, by renaming.

    Only plain files and folders are accepted. The whole archive is refused if a name leads out of the folder, if a
    member is a link or a device, if any part is damaged, or if it unpacks to far more than its own size.
    """
    size = files.require_regular(path)
    temporary = cache.workplace(target, "unpacking")
    room = _Room(path, size, temporary)
    try:
        with files.reading(path, "an archive", hint="is it complete?"):
            inside = temporary / "inside"
            inside.mkdir()
            members = _zip(path) if path.name.lower().endswith(".zip") else _tar(path, temporary, room)
            for member in track(members, f"unpacking {path.name}", total=None, show=progress):
                _extract(member, inside, path, room)
            if not any(inside.iterdir()):  # a damaged directory may list nothing
                raise SoftkinError(f"{path} must hold files, it holds none; is it complete?")
            if check is not None:
                check(inside)
            if hasattr(os, "sync"):  # one call: syncing 100,000 files one by one would take minutes
                os.sync()
            cache.remove(target)
            os.rename(inside, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


class _Room:
    """How many bytes an archive may still unpack to."""

    def __init__(self, path: Path, packed: int, folder: Path) -> None:
        self.path, self.packed, self.folder = path, packed, folder
        self.free, self.total = shutil.disk_usage(folder).free, 0

    def take(self, size: int) -> None:
        """Count ``size`` more bytes, and refuse them if they exceed the limit."""
        self.total += size
        files.unpacked_within(self.packed, self.total, f"{self.path}, unpacked,")
        if self.total > self.free:
            raise SoftkinError(
                f"{self.path} needs {self.total / 2**30:.1f} GiB unpacked or more, but {self.folder.parent} has "
                f"{self.free / 2**30:.1f}."
            )


def _zip(path: Path) -> Iterator[Member]:
    """The plain files of a .zip archive; reading a file to its end verifies its checksum."""
    with path.open("rb") as file, files.open_zip(file, path) as archive:
        for info in archive.infolist():
            if info.is_dir() and not info.file_size:
                continue
            if stat.S_ISLNK(info.external_attr >> 16):
                raise SoftkinError(f"{path} was refused: {info.filename!r} in it is a link.")
            yield info.filename, info.file_size, lambda info=info: archive.open(info)  # type: ignore[misc]


def _tar(path: Path, temporary: Path, room: _Room) -> Iterator[Member]:
    """The plain files of a .tar archive, compressed or not.

    A compressed archive is decompressed completely first, because its checksums stand at the end. tarfile takes a
    damaged header for the end of the archive, so the last member must be followed by the zeros that end an archive.
    """
    with path.open("rb") as file:
        start = file.read(6)
    opener = next((opener for mark, opener in _PACKED.items() if start.startswith(mark)), None)
    plain = path
    if opener is not None:
        plain = temporary / "archive.tar"
        with opener(path) as packed, plain.open("wb") as file:
            while chunk := packed.read(CHUNK):
                room.take(len(chunk))
                file.write(chunk)
    with tarfile.open(plain, "r:") as tar:
        for entry in tar:
            tar.members = []  # type: ignore[attr-defined]  # this list would grow with the archive
            if entry.isdir():
                continue
            if not entry.isreg() or entry.issparse():
                raise SoftkinError(f"{path} was refused: {entry.name!r} in it is a link or a device.")
            yield entry.name, entry.size, lambda entry=entry: tar.extractfile(entry)  # type: ignore[misc]
        _check_end(plain, tar.offset, path)


def _check_end(plain: Path, end: int, path: Path) -> None:
    with plain.open("rb") as file:
        file.seek(end)
        rest = 0
        while chunk := file.read(CHUNK):
            if chunk.strip(b"\0"):
                raise SoftkinError(f"{path} is damaged: there is no valid member after byte {end:,}.")
            rest += len(chunk)
    if rest < BLOCK:
        raise SoftkinError(f"{path} was cut off: it must end with {BLOCK} zeros, and ends with {rest}.")


def _extract(member: Member, folder: Path, path: Path, room: _Room) -> None:
    name, size, opened = member
    parts = PurePosixPath(name).parts
    inside = not PureWindowsPath(name).is_absolute() and not PureWindowsPath(name).drive and "\\" not in name
    if not parts or not inside or PurePosixPath(name).is_absolute() or ".." in parts or "\0" in name:
        raise SoftkinError(f"{path} was refused: {name!r} in it leads out of its folder.")
    room.take(size)
    target = folder.joinpath(*parts)
    target.parent.mkdir(parents=True, exist_ok=True)
    source = opened()
    if source is None:
        raise SoftkinError(f"{path} was refused: {name!r} in it is not a file.")
    written = 0
    with source, target.open("xb") as file:
        while piece := source.read(CHUNK):
            written += len(piece)
            if written > size:  # the stated size is what was checked against the free disk space
                raise SoftkinError(f"{path} was refused: {name!r} in it is larger than it says.")
            file.write(piece)
    if written != size:
        raise SoftkinError(f"{path} was cut off: {name!r} in it must have {size:,} bytes, got {written:,}.")


def check_members(folder: Path, md5s: Mapping[str, str], name: str) -> None:
    """Refuse unpacked files that are not the official ones."""
    from softkin.lab.data.download import md5_of

    for member, due in md5s.items():
        got = md5_of(folder / member) if (folder / member).is_file() else "no such file"
        if got != due:
            raise SoftkinError(f"{name} does not hold the official {member}: its MD5 must be {due}, got {got}.")
