"""Claims: which process does which run, among processes and machines that share nothing but a folder.

A claim is a file ``<digest>.<generation>``. It is made by linking a finished file to that name, which succeeds for
exactly one process, also over NFS. No process deletes or renames the claim of another. A process that finds the newest
claim's holder dead, or the claim released, makes the next generation, which again succeeds for exactly one. So two
processes never both believe that they hold a run, except for a holder that slept through its lease: it sees the newer
generation before it writes its record, and leaves the record to the newer holder.

A holder is dead if it ran on this machine and its process is gone, or if its heartbeat (the file's time of change) has
not moved for a lease as this process's own clock counts, so that clocks need not agree.
"""

import json
import os
import secrets
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from softkin import SoftkinError
from softkin._io import files, turns

BEAT = 5.0  # seconds between heartbeats
LEASE = 90.0  # seconds without a heartbeat until another machine's holder counts as dead: NFS may lag by 60 s


def started(pid: int) -> str | None:
    """The start time of a process of this machine, as opaque text; "" if it is unknown, None if the process is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        if Path("/proc/self/stat").exists():
            return None
    else:
        state, *rest = stat.rpartition(")")[2].split()
        return None if state in "ZX" else rest[18]  # a zombie has ended
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass
    return ""


@dataclass
class Claim:
    """A run that this process holds; as a context manager, it is released at the end, also after an error."""

    path: Path
    generation: int
    token: str
    start: str = ""
    """The start of the study to which the claim belongs"""
    deaths: int = 0
    """The number of earlier holders, within this start, that died on the run"""

    def lost(self) -> bool:
        """Whether another process considered this one dead and took over the run."""
        stem = self.path.name.rpartition(".")[0]
        return (self.path.parent / f"{stem}.{self.generation + 1}").exists()

    def beat(self) -> None:
        """Renew the lease."""
        with suppress(OSError):  # a short outage is harmless; after a long one the lease has expired anyway
            os.utime(self.path)

    def release(self) -> None:
        """Release the run."""
        with suppress(OSError):  # a full disk must not hide an earlier error
            _write(self.path, {**_holder(self.token, self.start, 0), "released": True})

    def __enter__(self) -> Self:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_beating, daemon=True)
        self._thread.start()
        return self

    def _keep_beating(self) -> None:
        while not self._stop.wait(BEAT):
            self.beat()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self.release()


class Claims:
    """The claims in a folder, as one process sees them."""

    def __init__(self, folder: Path, *, lease: float = LEASE, parent: int | None = None) -> None:
        """``parent`` is the process that started the study, unless it is this one."""
        self.folder, self.lease = folder, lease
        self._machine = turns.this_machine()
        self._parent = parent
        self._seen: dict[Path, tuple[int, float]] = {}

    def newest(self) -> dict[str, int]:
        """The newest generation of each run's claim."""
        generations: dict[str, int] = {}
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return generations
        for name in names:
            digest, _, generation = name.rpartition(".")
            if digest and generation.isdigit():
                generations[digest] = max(generations.get(digest, 0), int(generation))
        return generations

    def take(self, digest: str, newest: dict[str, int] | None = None) -> Claim | None:
        """Claim a run; None if a live process holds it or claimed it first."""
        generation = (self.newest() if newest is None else newest).get(digest, 0)
        if generation and self.holder(digest, generation) is not None:
            return None
        start = self._start()
        deaths = self._deaths(digest, generation, start)
        token = secrets.token_hex(8)
        path = self.folder / f"{digest}.{generation + 1}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            made = create(path, json.dumps(_holder(token, start, deaths)).encode())
        except OSError as error:
            raise SoftkinError(f"{path} could not be written: {error.strerror or error}.") from error
        return Claim(path, generation + 1, token, start, deaths) if made else None

    def _start(self) -> str:
        pid = self._parent or os.getpid()
        return f"{self._machine}|{pid}|{started(pid)}"

    def _deaths(self, digest: str, generation: int, start: str) -> int:
        """The number of holders that died on the run within this start; killing a whole study does not count."""
        try:
            before = _who((self.folder / f"{digest}.{generation}").read_bytes())
            counts = before["start"] == start and not before.get("released")
            return int(before["deaths"]) + 1 if counts else 0
        except (OSError, ValueError, KeyError, TypeError):  # no earlier claim, or one truncated by a crash
            return 0

    def holder(self, digest: str, generation: int) -> dict[str, Any] | None:
        """The holder of a run; None if it released the run or is dead."""
        path = self.folder / f"{digest}.{generation}"
        try:
            with path.open("rb") as file:  # over NFS, opening asks the server, but a stat may not
                changed = os.fstat(file.fileno()).st_mtime_ns
                content = file.read()
        except OSError:
            return None
        who = _who(content)
        if who.get("released"):
            return None
        pid = who.get("pid")
        if who.get("machine") == self._machine and isinstance(pid, int) and started(pid) != who.get("started"):
            return None
        now = time.monotonic()
        last, since = self._seen.get(path, (None, now))
        if last != changed:
            self._seen[path] = changed, now
        elif now - since > self.lease:
            return None
        return who

    def forget(self, digests: set[str]) -> None:
        """Remove the claims of runs that are done."""
        for digest, generation in self.newest().items():
            if digest in digests:
                for number in range(1, generation + 1):
                    (self.folder / f"{digest}.{number}").unlink(missing_ok=True)


def _who(content: bytes) -> dict[str, Any]:
    """The content of a claim; empty if a crash truncated it, and then only its lease counts."""
    try:
        who = files.parse_json(content, "a claim", "a claim")
    except SoftkinError:
        return {}
    return who if isinstance(who, dict) else {}


def _holder(token: str, start: str, deaths: int) -> dict[str, Any]:
    pid = os.getpid()
    return {
        "host": socket.gethostname(),
        "pid": pid,
        "started": started(pid),
        "machine": turns.this_machine(),
        "token": token,
        "start": start,
        "deaths": deaths,
    }


def create(path: Path, content: bytes, *, sync: bool = False) -> bool:
    """Create a file together with its content unless it exists; returns whether this call created it.

    Args:
        path: The file.
        content: The whole content.
        sync: Whether the file must survive a power failure.
    """
    temporary = path.with_name(turns.unfinished_name(path.name))
    try:
        with temporary.open("xb") as file:
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            return temporary.stat().st_nlink == 2  # over NFS a lost reply makes the retried call find our own link
        except OSError:  # a file system without links: create the name first, then write the content
            with path.open("xb") as file:
                file.write(content)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _write(path: Path, content: dict[str, Any]) -> None:
    temporary = path.with_name(turns.unfinished_name(path.name))
    try:
        temporary.write_bytes(json.dumps(content).encode())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
