"""Download one file with a progress bar, resume after a break, verify it, and rename it only when complete."""

import contextlib
import errno
import hashlib
import http.client
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
