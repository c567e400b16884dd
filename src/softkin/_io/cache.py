"""The cache folder, which holds downloads, decoded data and remembered digests of files.

``SOFTKIN_CACHE`` names it; otherwise it is ``softkin`` in the platform's folder for caches of the user.
"""

import contextlib
import functools
import hashlib
import os
import shutil
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from softkin import SoftkinError
from softkin._core.progress import track
from softkin._io import files, turns

SETTLED = 2.0  # seconds: a file changed more recently may change again within one tick of the file system's clock


def folder() -> Path:
    """The path of the cache folder, which need not exist yet."""
    named = os.environ.get("SOFTKIN_CACHE")
    if named:
        return files.expanded(named).absolute()
    try:
        if sys.platform == "win32":
            return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "softkin" / "cache"
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "softkin"
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "softkin"
    except RuntimeError:  # no HOME, and a user that the system does not know, as in many containers
        return without_home()


@functools.cache
def without_home() -> Path:
    """A temporary folder that belongs to this user alone; said once in a process."""
    path = Path(tempfile.gettempdir()) / f"softkin-{os.getuid()}"
    with contextlib.suppress(OSError):
        path.mkdir(mode=0o700)
    try:
        about = path.lstat()
        ours = stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and not about.st_mode & 0o022
    except OSError:
        ours = False
    if not ours:  # somebody else was there before us
        path = Path(tempfile.mkdtemp(prefix="softkin-"))
    warnings.warn(
        files.Assumption(f"there is no home folder, so the cache is {path}; SOFTKIN_CACHE names another."), stacklevel=2
    )
    return path


def made(*parts: str) -> Path:
    """A folder inside the cache, created if necessary."""
    path = folder().joinpath(*parts)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SoftkinError(unwritable(path, error)) from error
    return path


def unwritable(path: Path, error: OSError) -> str:
    """The error for a cache that cannot be written."""
    return (
        f"{path} could not be written: {error.strerror or error}; set SOFTKIN_CACHE to a folder with room that you may "
        "write to."
    )


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """A lock on ``path``: only one process at a time is inside; the lock is released when its process ends.

    On a file system without locks every process is let in. Files are written elsewhere and renamed into place, so the
    worst that can happen is work done twice.
    """
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(turns.locked(path, os.O_RDWR | os.O_CREAT))
        except OSError as error:
            raise SoftkinError(unwritable(path, error)) from error
        yield


def stamp(path: Path) -> list[int]:
    """A file's size, times and identity, which change whenever it is written."""
    about = path.stat()
    return [about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino]


def content_digest(root: Path, members: Sequence[str | Path], *, progress: bool | None = None) -> str:
    """SHA-256 over the names and bytes of ``members`` at or below ``root``; only regular files are read.

    Bytes are read once: the digest is remembered together with every file's size, times and identity, and reused as
    long as none of these changes. Paths are plain texts for speed, as trees may have 100,000 files.
    """
    paths = [os.fspath(member) for member in members]
    base = os.path.join(root, "")
    # The name of a single file says nothing about its content; inside a folder names tell parts and classes apart.
    names = [path[len(base) :] if path.startswith(base) else "" for path in paths]
    before, newest = _state(names, paths)
    memory = folder() / "digests" / f"{files.sha256(os.fsencode(root.resolve()))}.json"
    with contextlib.suppress(SoftkinError, KeyError, TypeError):
        kept = files.read_json(memory, "a digest")
        if kept["state"] == before:
            return str(kept["digest"])
    started = time.time()
    whole = hashlib.sha256()
    for name, path in track(zip(names, paths, strict=True), "reading files", total=len(paths), show=progress):
        whole.update(f"{len(name)} {name} {_file_digest(path)}\n".encode("utf-8", "surrogateescape"))
    if _state(names, paths)[0] != before:
        raise SoftkinError(f"{root} was changed while it was read; try again when it is complete.")
    if started - newest > SETTLED:
        _remember(memory, {"state": before, "digest": whole.hexdigest()})
    return whole.hexdigest()


def _state(names: Sequence[str], paths: Sequence[str]) -> tuple[str, float]:
    """The digest of all names and stamps, and the time of the newest change."""
    stamps, newest = [], 0
    try:
        for path in paths:
            about = os.stat(path)
            stamps += [about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino]
            newest = max(newest, about.st_ctime_ns)  # ctime cannot be reset by a user; mtime can
            if not stat.S_ISREG(about.st_mode):
                files.require_regular(path)
    except OSError as error:
        raise SoftkinError(f"{error.filename} could not be read: {error.strerror}.") from error
    content = "\0".join(names).encode("utf-8", "surrogateescape") + repr(stamps).encode()
    return files.sha256(content), newest / 1e9


def remembered(key: str, make: Callable[[], Any]) -> Any:
    """The plain data that ``make`` returns, computed once for each key."""
    value = recall(key)
    if value is None:
        value = make()
        keep(key, value)
    return value


def recall(key: str) -> Any:
    """The plain data that were kept under a key, or None."""
    with contextlib.suppress(SoftkinError, KeyError, TypeError):
        kept = files.read_json(_memory(key), "a result")
        if kept["key"] == key:
            return kept["value"]
    return None


def keep(key: str, value: Any) -> None:
    """Keep plain data under a key, where the cache can be written."""
    _remember(_memory(key), {"key": key, "value": value})


def _memory(key: str) -> Path:
    return folder() / "digests" / f"{files.sha256(key.encode('utf-8', 'surrogateescape'))}.json"


def _remember(memory: Path, content: Any) -> None:
    with contextlib.suppress(SoftkinError):  # a shared cache may be read-only, which only costs time
        files.write_json(memory, content, indent=None)


def _file_digest(path: str) -> str:
    with files.reading(path, "a file"):
        return files.sha256_of_file(path)


def workplace(target: Path, doing: str) -> Path:
    """A new folder beside ``target`` to write in, with the permissions of the user's umask; leftovers are removed."""
    try:
        turns.sweep(target.parent)
        path = target.with_name(turns.unfinished_name(f"{doing}-{target.name}"))
        path.mkdir()
    except OSError as error:
        raise SoftkinError(unwritable(target.parent, error)) from error
    return path


def remove(path: Path) -> None:
    """Remove a folder: rename it at once, then delete its files."""
    away = path.with_name(turns.unfinished_name(f"gone-{path.name}"))
    try:
        os.rename(path, away)
    except FileNotFoundError:
        return
    shutil.rmtree(away, ignore_errors=True)
