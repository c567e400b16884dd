"""Processes that share a folder: who writes while others wait, and what killed ones leave behind."""

import contextlib
import functools
import hashlib
import os
import re
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from softkin import SoftkinError


@contextlib.contextmanager
def in_turn(folder: Path) -> Iterator[None]:
    """One process after another writes the files of a result into a folder, which is made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder, os.O_RDONLY):
            yield
    except OSError as error:
        raise SoftkinError(f"{folder} could not be written: {error.strerror or error}.") from error


@contextlib.contextmanager
def unwritten(folder: Path) -> Iterator[None]:
    """Inside, nobody writes several files into a folder, as far as it can be locked."""
    with contextlib.ExitStack() as alone:
        with contextlib.suppress(OSError):
            alone.enter_context(locked(folder, os.O_RDONLY, shared=True))
        yield


@contextlib.contextmanager
def locked(path: Path, flags: int, *, shared: bool = False) -> Iterator[None]:
    """A lock on ``path``, opened with ``flags``: one process at a time is inside; it is released when that ends.

    ``shared``: any number of readers at a time, but no writer. On Windows and on a file system without locks every
    process is let in.

    Raises:
        OSError: The path cannot be opened.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    handle = os.open(path, flags, 0o666)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


# What killed processes leave

ABANDONED = 24 * 3600  # seconds after which an unfinished file or folder of another machine counts as left
_UNFINISHED = re.compile(r"\..*\.([0-9a-f]{8})-([0-9]+)-[0-9a-f]{12}\.softkin")


def unfinished_name(name: str) -> str:
    """A new hidden name for what is not finished yet; it says which process made it, see ``sweep``."""
    return f".{name[:100]}.{_machine()}-{os.getpid()}-{os.urandom(6).hex()}.softkin"


def sweep(folder: Path) -> None:
    """Remove what processes left unfinished in a folder: those of this machine that are gone, any after a day."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            made = _UNFINISHED.fullmatch(entry.name)
            if made is None:
                continue
            with contextlib.suppress(OSError):
                gone = made[1] == _machine() and not _lives(int(made[2]))
                if gone or time.time() - entry.stat(follow_symlinks=False).st_mtime > ABANDONED:
                    shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)


@functools.lru_cache(maxsize=1000)
def sweep_once(folder: Path) -> None:
    """``sweep``, the first time that this process writes to the folder."""
    sweep(folder)


@functools.cache
def _machine() -> str:
    """The scope in which a process id is unique, as eight letters."""
    return hashlib.sha256(this_machine().encode()).hexdigest()[:8]


def this_machine() -> str:
    """The scope in which a process id is unique: the host since it booted, and the container if there is one."""
    parts = [socket.gethostname()]
    for path, read in (("/proc/sys/kernel/random/boot_id", Path.read_text), ("/proc/self/ns/pid", os.readlink)):
        try:
            parts.append(read(Path(path)).strip())
        except OSError:  # not Linux
            parts.append("")
    return "|".join(parts)


def _lives(pid: int) -> bool:
    if os.name == "nt":  # where os.kill would end it
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass
    return True
