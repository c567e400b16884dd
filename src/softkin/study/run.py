"""A study from beginning to end: resolve, keep, run on an engine, write the table."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from softkin import SoftkinError, checks
from softkin.study import methods as registry
from softkin.study.claims import Claims
from softkin.study.outputs import write
from softkin.study.perform import resolve
from softkin.study.plan import Plan
from softkin.study.records import Records, keep, kept_in
from softkin.study.spec import StudySpec
from softkin.study.tables import Table, table
from softkin.study.worker import STOPPED, Standing, look, work

ENGINES = ("local", "ray")
MOST_RESTARTS = 10  # of workers that died, over a whole study
LOOK = 0.5  # seconds between looks at how far the workers are

Update = Callable[[Standing], None]


def run(
    spec: StudySpec,
    folder: str | Path,
    *,
    device: str | None = None,
    workers: int | None = None,
    progress: bool | None = None,
    engine: str = "local",
    force: bool = False,
    ray_options: dict[str, Any] | None = None,
) -> Table:
    """Do a study in ``folder``, or go on with it; what is done is not done again.

    Several processes, on one machine or on many that see the folder, may call this with the same study at the same
    time: each run is taken by exactly one of them.

    Args:
        spec: The study.
        folder: Where its records are, or will be.
        device: Where to train, such as "cpu" or "cuda:1"; by default the accelerator, if there is one.
        workers: How many runs at a time. None: one for each core, or for each GPU with "cuda". 1 works in this process.
        progress: Show how far it is; by default on a terminal.
        engine: "local", or "ray" for a cluster.
        force: Put this study in the place of another one in the folder; runs that both have are kept.
        ray_options: ``address``, ``num_cpus`` and ``num_gpus`` a run, ``retries``.

    Returns:
        The table, which is also in the folder.

    Raises:
        SoftkinError: The folder holds another study or cannot be written, or runs failed. What is done stays.
    """
    registry.known(engine, ENGINES, "engine")
    if workers is not None:
        checks.count(workers, "workers")
    folder = Path(folder)
    kept = resolve(spec)
    keep(folder, kept, force=force)
    plan, records = Plan(kept), Records(folder)
    for job in plan.jobs(records.find):
        records.forgive(job.digest)  # a new start tries again what failed
    if engine == "ray":
        from softkin.study import ray_engine

        with shown(progress) as update:
            ray_engine.drive(kept, folder, device=device, update=update, **(ray_options or {}))
    else:
        device = device or default_device()
        count = workers or default_workers(device)
        left = sum(records.find(job.digest) is None for job in plan.jobs(records.find))
        with shown(progress) as update:
            if count == 1 or left <= 1:
                work(folder, device=device, update=update)
            else:
                _supervise(folder, device, min(count, left), update)
    return finish(folder)


def finish(folder: str | Path) -> Table:
    """Write the table and what goes with it from what the folder holds, and complain of runs that failed."""
    folder = Path(folder)
    found = table(folder)
    write(folder, found)
    plan, records, claims = Plan(kept_in(folder)), Records(folder), Claims(folder / "claims")
    end = look(plan, records, claims)
    if end.failed:
        job, reason = end.failed[0]
        more = f" and {len(end.failed) - 1} more" if len(end.failed) > 1 else ""
        raise SoftkinError(
            f"{job.title}{more} failed: {reason.rstrip('.')}; all that is done is kept in {folder}, "
            "and the same command tries again."
        )
    claims.forget({job.digest for job in end.done})
    return found


def default_device() -> str:
    """The accelerator, if there is one."""
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def default_workers(device: str | None) -> int:
    """One for each GPU, else one for each core that we may use."""
    import torch

    if device == "cuda":
        return max(1, torch.cuda.device_count())
    if device is not None and device != "cpu":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _devices(device: str | None, count: int) -> list[str | None]:
    """The device of each worker: with "cuda" they spread over the GPUs."""
    import torch

    if device == "cuda" and torch.cuda.device_count() > 1:
        return [f"cuda:{i % torch.cuda.device_count()}" for i in range(count)]
    return [device] * count


def _supervise(folder: Path, device: str | None, count: int, update: Update | None) -> None:
    """Start workers, see them to the end, start another where one died."""
    plan, records, claims = Plan(kept_in(folder)), Records(folder), Claims(folder / "claims")
    every = [_Worker(folder, one) for one in _devices(device, count)]
    workers, restarts = list(every), 0
    try:
        while workers:
            time.sleep(LOOK)
            if update is not None:
                update(look(plan, records, claims))
            for worker in list(workers):
                code = worker.process.poll()
                if code is None:
                    continue
                workers.remove(worker)
                sys.stderr.write(worker.warnings())
                if code == STOPPED:
                    raise SoftkinError(worker.words())
                if code != 0:
                    restarts += 1
                    if restarts > MOST_RESTARTS:
                        raise SoftkinError(f"workers keep dying (exit code {code}): {worker.words()}")
                    every.append(_Worker(folder, worker.device))
                    workers.append(every[-1])
    finally:
        for worker in every:
            worker.close()


class _Worker:
    """A process that works on the study."""

    def __init__(self, folder: Path, device: str | None) -> None:
        self.device = device
        self._errors: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  see close
        command = [sys.executable, "-m", "softkin.study", str(folder), "--parent", str(os.getpid())]
        command += ["--device", device] if device else []
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(command, stderr=self._errors, stdin=subprocess.DEVNULL, env=environment)

    def _lines(self) -> list[str]:
        self._errors.seek(0)
        return self._errors.read().splitlines()

    def warnings(self) -> str:
        """What it warned of."""
        return "".join(f"{line}\n" for line in self._lines() if line.startswith("softkin: warning:"))

    def words(self) -> str:
        """Its last words."""
        return next((line for line in reversed(self._lines()) if line.strip()), "it said nothing")

    def close(self) -> None:
        """End it if it is not, and forget what it said."""
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait()
        self._errors.close()


@contextmanager
def shown(show: bool | None) -> Iterator[Update | None]:
    """A bar of runs done, with what runs now; a function to tell it, None where nobody looks."""
    if not (sys.stderr.isatty() if show is None else show):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def update(standing: Standing) -> None:
            running = "; ".join(job.title for job, _ in standing.running[:4])
            bar.update(task, completed=len(standing.done), total=standing.total, description=running)

        yield update
