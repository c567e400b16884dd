"""Archives, unpacked whole or not at all, and never outside their folder."""

import contextlib
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from softkin import SoftkinError
from softkin.data import cache
from softkin.progress import track

SUFFIXES = (".tar.gz", ".tgz", ".tar", ".zip")

Member = tuple[str, int, Callable[[], IO[bytes] | None]]
"""Its name, its size, and how it is opened."""


def is_archive(path: Path) -> bool:
    """Whether the name says so."""
    return path.name.lower().endswith(SUFFIXES)


def unpacked(path: Path, *, progress: bool | None = None) -> Path:
    """The folder of an archive's content, in the cache, keyed by the archive's bytes."""
    digest = cache.content_digest(path, [path], progress=progress)
    target = cache.made("unpacked") / digest
    if not target.is_dir():
        with cache.locked(target.with_name(f"{digest}.lock")):
            if not target.is_dir():
                unpack(path, target, progress=progress)
    return only_folder(target)


def only_folder(path: Path) -> Path:
    """``path``, or the one folder that is all it holds."""
    inside = [entry for entry in path.iterdir() if not entry.name.startswith((".", "__MACOSX"))]
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else path


def unpack(
    path: Path, target: Path, *, check: Callable[[Path], None] | None = None, progress: bool | None = None
) -> None:
    """Unpack ``path`` as the folder ``target``: beside it first, then, after ``check``, by renaming.

    Only plain files and folders are taken. A name that leads out of the folder, a link or a device is refused, and with
    it the whole archive.
    """
    temporary = cache.workplace(target, "unpacking")
    try:
        with _members(path) as members:
            total = sum(size for _, size, _ in members)
            free = shutil.disk_usage(temporary).free
            if total > free:
                raise SoftkinError(
                    f"{path} needs {total / 2**30:.1f} GiB unpacked, but {temporary.parent} has {free / 2**30:.1f}."
                )
            for member in track(members, f"unpacking {path.name}", total=len(members), show=progress):
                _extract(member, temporary, path)
        if check is not None:
            check(temporary)
        if hasattr(os, "sync"):  # one call: 100,000 files, each brought to the disk alone, would take minutes
            os.sync()
        cache.remove(target)
        os.rename(temporary, target)
    except (OSError, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile, RuntimeError) as error:
        raise SoftkinError(f"{path} could not be unpacked: {error}; is it complete?") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def _members(path: Path) -> Iterator[list[Member]]:
    """The plain files of an archive."""
    if path.name.lower().endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            found: list[Member] = []
            for info in archive.infolist():
                if info.is_dir():
                    continue
                if stat.S_ISLNK(info.external_attr >> 16):
                    raise SoftkinError(f"{path} was refused: {info.filename!r} in it is a link.")
                found.append((info.filename, info.file_size, lambda info=info: archive.open(info)))  # type: ignore[misc]
            yield found
        return
    with tarfile.open(path) as tar:
        found = []
        for entry in tar.getmembers():
            if entry.isdir():
                continue
            if not entry.isreg():
                raise SoftkinError(f"{path} was refused: {entry.name!r} in it is a link or a device.")
            found.append((entry.name, entry.size, lambda entry=entry: tar.extractfile(entry)))  # type: ignore[misc]
        yield found


def _extract(member: Member, folder: Path, path: Path) -> None:
    name, size, opened = member
    parts = PurePosixPath(name).parts
    inside = not PureWindowsPath(name).is_absolute() and not PureWindowsPath(name).drive and "\\" not in name
    if not parts or not inside or PurePosixPath(name).is_absolute() or ".." in parts or "\0" in name:
        raise SoftkinError(f"{path} was refused: {name!r} in it leads out of its folder.")
    target = folder.joinpath(*parts)
    target.parent.mkdir(parents=True, exist_ok=True)
    source = opened()
    if source is None:
        raise SoftkinError(f"{path} was refused: {name!r} in it is no file.")
    written = 0
    with source, target.open("xb") as file:
        while piece := source.read(2**20):
            written += len(piece)
            if written > size:  # the size that it stated is what was checked against the room on the disk
                raise SoftkinError(f"{path} was refused: {name!r} in it is larger than it says.")
            file.write(piece)


def check_members(folder: Path, md5s: Mapping[str, str], name: str) -> None:
    """Refuse unpacked files that are not the official ones."""
    from softkin.data.download import md5_of

    for member, due in md5s.items():
        got = md5_of(folder / member) if (folder / member).is_file() else "no such file"
        if got != due:
            raise SoftkinError(f"{name} holds another {member} than the official one: MD5 {due} is due, got {got}.")
