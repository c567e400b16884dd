"""The folder in which softkin keeps what it downloaded and decoded, and digests of files remembered there.

``SOFTKIN_CACHE`` names it; otherwise it is ``softkin`` in the platform's folder for caches of the user.
"""

import contextlib
import hashlib
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from softkin import SoftkinError, files
from softkin.progress import track

SETTLED = 2.0  # seconds: a file changed later than that ago may change again within one tick of the file system's clock


def folder() -> Path:
    """Where the cache lives; not made yet."""
    named = os.environ.get("SOFTKIN_CACHE")
    if named:
        return Path(named).expanduser().absolute()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "softkin" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "softkin"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "softkin"


def made(*parts: str) -> Path:
    """A folder inside the cache, made if need be."""
    path = folder().joinpath(*parts)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SoftkinError(unwritable(path, error)) from error
    return path


def unwritable(path: Path, error: OSError) -> str:
    """The sentence for a cache that cannot be written."""
    return (
        f"{path} could not be written: {error.strerror or error}; set SOFTKIN_CACHE to a folder with room that you may "
        "write to."
    )


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Only one process at a time is inside, for this ``path``; the lock goes when its process does.

    Where the file system has no locks everybody is let in: what is written inside is renamed into its place whole,
    so that the worst is work done twice.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise SoftkinError(unwritable(path, error)) from error
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def stamp(path: Path) -> list[int]:
    """What changes whenever a file is written: size, times and identity."""
    about = path.stat()
    return [about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino]


def content_digest(root: Path, members: Sequence[str | Path], *, progress: bool | None = None) -> str:
    """SHA-256 over the names and bytes of ``members`` at or below ``root``; only regular files are read.

    Bytes are read once: the digest is remembered together with every file's size, times and identity, and taken from
    memory as long as none of these has changed. Trees have 100,000 files, hence plain text in place of paths.
    """
    paths = [os.fspath(member) for member in members]
    base = os.path.join(root, "")
    # What a single file is called says nothing of its content; inside a folder names tell parts and classes apart.
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
    """(digest of all names and stamps, when the newest was changed)."""
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
    """What ``make`` gives, plain data, made once for each key."""
    memory = folder() / "digests" / f"{files.sha256(key.encode())}.json"
    with contextlib.suppress(SoftkinError, KeyError, TypeError):
        kept = files.read_json(memory, "a result")
        if kept["key"] == key:
            return kept["value"]
    value = make()
    _remember(memory, {"key": key, "value": value})
    return value


def _remember(memory: Path, content: Any) -> None:
    with contextlib.suppress(SoftkinError):  # a cache that others filled may be read-only: then it is only slower
        files.write_json(memory, content, indent=None)


def _file_digest(path: str) -> str:
    with files.reading(path, "a file"):
        return files.sha256_of_file(path)


def workplace(target: Path, doing: str) -> Path:
    """A new folder beside ``target`` to write in, open to whom the user's mask says; what was left there goes.

    The caller holds the lock of ``target``, so that nobody else is at work there.
    """
    try:
        for left in target.parent.glob(f".{doing}-{target.name}-*"):  # by a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        path = target.with_name(f".{doing}-{target.name}-{os.getpid()}-{time.time_ns()}")
        path.mkdir()
    except OSError as error:
        raise SoftkinError(unwritable(target.parent, error)) from error
    return path


def remove(path: Path) -> None:
    """Take a folder away: first out of its place at once, then piece by piece."""
    away = path.with_name(f".gone-{path.name}-{os.getpid()}-{time.time_ns()}")
    try:
        os.rename(path, away)
    except FileNotFoundError:
        return
    shutil.rmtree(away, ignore_errors=True)
