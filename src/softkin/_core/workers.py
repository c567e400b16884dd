"""Processes and nodes that work for us: none imports anything from the current folder unless the caller allows it."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from softkin import SoftkinError

if TYPE_CHECKING:
    from types import ModuleType

ENGINES = ("local", "ray")
"""Where work can be done: in processes of this machine, or on a cluster"""


START = """
import sys
from softkin._core.workers import end_with
end_with(int(sys.argv.pop(1)))  # before anything heavy is imported
module = sys.argv.pop(1)
import runpy
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


def end_with(parent: int) -> None:
    """End this process when its parent is gone, even if the parent was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def terminated_in_order() -> Iterator[None]:
    """Let SIGTERM raise SystemExit, so that what is open is closed and workers are ended; for the main thread."""
    usual = signal.getsignal(signal.SIGTERM)
    if usual is not signal.SIG_DFL or threading.current_thread() is not threading.main_thread():
        yield  # somebody else handles it
        return

    def end(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, usual)


class Worker:
    """``python -P -m MODULE``: a process whose last words are kept, and which ends with us.

    Args:
        module: The module to run.
        arguments: Its arguments.
        threads: The number of threads of its numerical libraries.
        talks: Whether we write to its standard input and read its output.
    """

    def __init__(self, module: str, arguments: Sequence[str] = (), *, threads: int = 1, talks: bool = False) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  closed by ``close``
        # -P, and a variable for its child processes: no file in the current folder may replace one of our modules.
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONSAFEPATH": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", START, str(os.getpid()), module, *arguments],
            stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
            stdout=subprocess.PIPE if talks else None,
            stderr=self._errors,
            env=environment,
        )

    def lines(self) -> list[str]:
        """The lines that it wrote to stderr."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace").splitlines()

    def words(self) -> str:
        """The last line that it wrote to stderr, if any."""
        return next((line.strip() for line in reversed(self.lines()) if line.strip()), "")

    def end(self, *, at_once: bool = False) -> None:
        """Ask the process to end if it still runs, or kill it."""
        if self.process.poll() is None:
            (self.process.kill if at_once else self.process.terminate)()

    def close(self, *, at_once: bool = False) -> None:
        """End the process if it still runs, and discard its output."""
        self.end(at_once=at_once)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self._errors):
            if stream is not None:
                stream.close()


@contextmanager
def connected(address: str | None = None, *, imports_here: bool = False) -> "Iterator[ModuleType]":
    """The module ``ray``, connected to the cluster at ``address``; an existing connection is used and left open.

    Args:
        address: An address such as "auto" or "ray://head:10001"; None starts a cluster on this machine.
        imports_here: Let workers import from the driver's current folder, where anything may lie; for code that the
            user named.

    Raises:
        SoftkinError: Ray is not installed, or the cluster cannot be reached.
    """
    try:
        import ray
    except ImportError:
        raise SoftkinError("the engine ray needs Ray: pip install 'softkin[ray]'.") from None
    ours = not ray.is_initialized()
    if ours:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        local: dict[str, Any] = {"include_dashboard": False} if address is None else {}
        try:
            ray.init(
                address=address, log_to_driver=False, configure_logging=False, job_config=_job(imports_here), **local
            )
        except (ConnectionError, OSError, ValueError, RuntimeError) as error:
            raise SoftkinError(f"the Ray cluster {address or 'here'} cannot be reached: {error}") from error
    try:
        yield ray
    finally:
        if ours:
            ray.shutdown()


def _job(imports_here: bool) -> Any:
    """Settings of a job; unless ``imports_here``, its workers do not import from the driver's current folder.

    By default Ray puts that folder first on the workers' path.
    """
    from ray.job_config import JobConfig

    class WithoutCurrentFolder(JobConfig):  # type: ignore[misc]
        def _runtime_env_has_working_dir(self) -> bool:
            return True  # Ray asks this before it adds the current folder and the script's

    return JobConfig() if imports_here else WithoutCurrentFolder()
