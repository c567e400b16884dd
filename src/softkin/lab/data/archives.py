"""Download and unpack archives: every byte verified, nothing half-written, nothing outside the target folder.

Downloads show a progress bar, resume after a break, and are renamed only when complete.
"""

import bz2
import contextlib
import errno
import gzip
import hashlib
import http.client
import lzma
import os
import re
import shutil
import stat
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any

from softkin import SoftkinError, __version__
from softkin._core.progress import track
from softkin._io import cache, files

MEBIBYTE = 2**20
TIMEOUT = 30.0  # seconds without a byte
ATTEMPTS = 5  # consecutive attempts without a single new byte
PAUSE = 1.0  # seconds before the second attempt; the pause doubles each time

_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


class Broken(Exception):
    """The connection broke; the part received so far is kept."""


def fetch(
    url: str, target: Path, *, md5: str | None = None, size: int | None = None, progress: bool | None = None
) -> None:
    """Download ``url`` to ``target``.

    A partial download is kept as ``target`` + ".part", with a note of the file's version; the next call resumes it by
    an HTTP range request if the server supports that. A file with a wrong checksum is deleted.

    Raises:
        SoftkinError: There is no network, the server refuses, or the file is not the expected one.
    """
    part, note = target.with_name(f"{target.name}.part"), target.with_name(f"{target.name}.part.json")
    if part.is_symlink():  # never written through
        part.unlink()
    resumed = part.exists() and part.stat().st_size > 0
    _complete(url, part, note, size, progress)
    checksum = md5_of(part)
    if md5 is not None and checksum != md5 and resumed:  # the part may be of another file: start again from zero
        _discard(part, note)
        _complete(url, part, note, size, progress)
        checksum = md5_of(part)
    if md5 is not None and checksum != md5:
        _discard(part, note)
        raise SoftkinError(
            f"{url} sent another file: its MD5 must be {md5}, got {checksum}; the site may have changed it, or "
            "a proxy answers in its place."
        )
    try:
        with part.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(part, target)
    except OSError as error:
        raise SoftkinError(cache.unwritable(target, error)) from error
    note.unlink(missing_ok=True)


def md5_of(path: Path) -> str:
    """The MD5 that publishers of data sets state: it detects damage, but does not stop an attacker."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _discard(part: Path, note: Path) -> None:
    part.unlink(missing_ok=True)
    note.unlink(missing_ok=True)


def _complete(url: str, part: Path, note: Path, size: int | None, progress: bool | None) -> None:
    """Retry from the byte where the last attempt stopped, as long as attempts bring new bytes."""
    without = 0
    while True:
        before = part.stat().st_size if part.exists() else 0
        try:
            _attempt(url, part, note, size, progress)
            return
        except Broken as broken:
            after = part.stat().st_size if part.exists() else 0
            without = without + 1 if after <= before else 0
            if without >= ATTEMPTS:
                raise SoftkinError(
                    f"{url} broke off after {after:,} bytes ({broken}), and retrying brought nothing new; the "
                    "part received is kept, and the same command resumes from there."
                ) from broken
            time.sleep(PAUSE * 2**without if without else 0)


def _attempt(url: str, part: Path, note: Path, size: int | None, progress: bool | None) -> None:
    have = part.stat().st_size if part.exists() else 0
    if size is not None and have == size:  # everything was received earlier; the checksum decides
        return
    version = _noted(note)
    headers = {"User-Agent": f"softkin/{__version__}", "Accept-Encoding": "identity"}
    if have and version is not None:
        headers |= {"Range": f"bytes={have}-", "If-Range": version}
    elif have and size is not None and have < size:  # the checksum reveals whether the file changed in between
        headers |= {"Range": f"bytes={have}-"}
    else:
        have = 0
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT) as response:
            start, total = _where(response, have)
            if size is not None and total is not None and total != size:
                raise SoftkinError(f"{url} must have {size:,} bytes, but has {total:,}; the site may have changed it.")
            _remember(note, response)
            _receive(response, part, start, total, progress)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # the server has nothing beyond the bytes we have
            if error.headers.get("Content-Range") == f"bytes */{have}":
                return
            _discard(part, note)
            raise Broken("the file there is now shorter than the part received") from error
        if error.code in (500, 502, 503, 504, 429):
            raise Broken(f"HTTP {error.code} {error.reason}") from error
        raise SoftkinError(f"{url} could not be downloaded: HTTP {error.code} {error.reason}.") from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, ConnectionResetError | TimeoutError | http.client.HTTPException):
            raise Broken(str(error.reason)) from error
        raise SoftkinError(f"{url} could not be reached: {error.reason}.") from error
    except (http.client.HTTPException, ConnectionError, TimeoutError) as error:
        raise Broken(str(error) or type(error).__name__) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT, errno.EPERM):
            raise SoftkinError(cache.unwritable(part, error)) from error
        raise Broken(str(error)) from error


def _where(response: Any, have: int) -> tuple[int, int | None]:
    """The byte at which the response begins, and the size of the whole file."""
    if response.status == 206:
        answer = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if answer is None or int(answer[1]) != have:
            raise Broken("the server sent another range than requested")
        return have, None if answer[2] == "*" else int(answer[2])
    length = response.headers.get("Content-Length")
    return 0, int(length) if length and length.isdigit() else None


def _receive(response: Any, part: Path, start: int, total: int | None, progress: bool | None) -> None:
    with part.open("r+b" if part.exists() else "wb") as file:
        file.seek(start)
        file.truncate()
        steps = None if total is None else -(-(total - start) // MEBIBYTE)
        name = part.name.removesuffix(".part")
        for piece in track(_pieces(response), f"downloading {name} (MiB)", total=steps, show=progress):
            file.write(piece)
        file.flush()
        have = file.tell()
    if total is not None and have != total:
        raise Broken(f"{total - have:,} bytes are missing" if have < total else "it sent more than it said")


def _pieces(response: Any) -> Iterator[bytes]:
    while piece := response.read(MEBIBYTE):
        yield piece


def _noted(note: Path) -> str | None:
    with contextlib.suppress(SoftkinError, KeyError, TypeError):
        return str(files.read_json(note, "a note")["version"])
    return None


def _remember(note: Path, response: Any) -> None:
    """Note the version of the file; weak tags are ignored, since they do not promise the same bytes."""
    tag = response.headers.get("ETag")
    version = tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified")
    if version is None:
        note.unlink(missing_ok=True)
    else:
        files.write_json(note, {"version": version}, indent=None)


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
    for member, due in md5s.items():
        got = md5_of(folder / member) if (folder / member).is_file() else "no such file"
        if got != due:
            raise SoftkinError(f"{name} does not hold the official {member}: its MD5 must be {due}, got {got}.")
