"""A study from beginning to end: resolve, keep, run on an engine, write the table.

On a Ray cluster runs become tasks, and their files return to the driver, which keeps the folder. Nodes need softkin and
the data, but not the study's folder. If a node does see it (a shared file system), a training that lost its node
resumes from its last checkpoint; otherwise it starts again, with the same result.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softkin import SoftkinError
from softkin._core import checks, threads, workers
from softkin._core.names import require
from softkin._core.progress import bar
from softkin._core.workers import ENGINES, Worker, terminated_in_order
from softkin._io import files
from softkin.lab import models
from softkin.lab.study import perform
from softkin.lab.study.advice import Baseline
from softkin.lab.study.claims import BEAT, Claim
from softkin.lab.study.estimate import default_device, default_workers, estimated
from softkin.lab.study.folder import StudyFolder
from softkin.lab.study.perform import resolve
from softkin.lab.study.plan import Job
from softkin.lab.study.records import Record, keep, kept_in, remove
from softkin.lab.study.spec import TUNABLE, StudySpec
from softkin.lab.study.tabulation import Table, table, times
from softkin.lab.study.worker import LOOK_AGAIN, STOPPED, Standing, ready, standing, work
from softkin.lab.study.writing import WritePage, write

if TYPE_CHECKING:
    from types import ModuleType


Files = dict[str, bytes]
AHEAD = 2  # tasks submitted to Ray for each that can run, so that no worker waits for the driver


def drive(
    folder: StudyFolder,
    *,
    device: str | None = None,
    update: Callable[[Standing], None] | None = None,
    address: str | None = None,
    num_cpus: float = 1,
    num_gpus: float = 0,
    retries: int = 3,
) -> None:
    """Do the remaining runs of the study in ``folder``.

    Args:
        folder: The folder of the study, which this process can write to.
        device: The device to train on; by default "cuda" if ``num_gpus`` is above 0, else the CPU.
        update: Called with the state of the study.
        address: The cluster's address, such as "auto" or "ray://head:10001"; None uses a cluster that is connected,
            or starts one on this machine.
        num_cpus: CPUs reserved for each run.
        num_gpus: GPUs reserved for each run.
        retries: How often a run is retried after its node or process died.
    """
    model = folder.kept.spec.model
    with workers.connected(address, imports_here=model is not None and models.is_code(model)) as ray:
        task = ray.remote(_remote).options(
            num_cpus=num_cpus, num_gpus=num_gpus, max_retries=retries, scheduling_strategy="SPREAD"
        )
        _Driver(ray, task, folder, ("cuda" if num_gpus else "cpu") if device is None else device).drive(
            update, per_run=num_gpus or num_cpus, resource="GPU" if num_gpus else "CPU"
        )


class _Driver:
    """Submits runs to Ray and collects their results."""

    def __init__(self, ray: "ModuleType", task: Any, folder: StudyFolder, device: str) -> None:
        self.ray, self.task, self.folder, self.device = ray, task, folder, device
        self.plan, self.records, self.claims = folder.plan, folder.records, folder.claims
        self.running: dict[Any, tuple[Job, Claim]] = {}
        self.beaten = time.monotonic()

    def drive(self, update: Callable[[Standing], None] | None, *, per_run: float, resource: str) -> None:
        try:
            while True:
                places = self.ray.cluster_resources().get(resource, 1) / max(per_run, 1e-9)
                before = len(self.records.known())
                others = self._hand_out(most=max(2, int(AHEAD * places)))
                if update is not None:
                    update(standing(self.folder))
                if self.running:
                    self._take_in()
                elif others:
                    time.sleep(LOOK_AGAIN)
                elif len(self.records.known()) == before:
                    return
        finally:
            for ref, (_, claim) in self.running.items():
                self.ray.cancel(ref, force=True)
                claim.release()

    def _hand_out(self, most: int) -> bool:
        """Submit runs that are ready and free; return whether other processes hold runs that are ready."""
        newest, others = self.claims.newest(), False
        mine = {job.digest for job, _ in self.running.values()}
        for job in self.plan.jobs(self.records.training):
            if len(self.running) >= most:
                break
            if job.digest in mine or not ready(job, self.records):
                continue
            claim = self.claims.take(job.digest, newest)
            if claim is None:
                others = True
                continue
            if self.records.state(job.digest) == "damaged":
                self.records.set_aside(job.digest)
            needed = {digest: _pack(self.records.path(digest)) for digest in job.needs}
            ref = self.task.remote(job, needed, str(self.folder.path), self.folder.kept.spec.digest, self.device)
            self.running[ref] = job, claim
        return others

    def _take_in(self) -> None:
        finished, _ = self.ray.wait(list(self.running), num_returns=1, timeout=LOOK_AGAIN * 5)
        for ref in finished:
            job, claim = self.running.pop(ref)
            try:
                record, contents = self.ray.get(ref)
            except self.ray.exceptions.RayTaskError as error:
                cause = error.cause if isinstance(error.cause, Exception) else error
                self.records.fail(job.digest, job.title, f"{type(cause).__name__}: {cause}")
            except self.ray.exceptions.RayError as error:
                self.records.fail(job.digest, job.title, f"Ray gave up: {str(error).splitlines()[0]}")
            else:
                where = self.records.path(job.digest)
                for name, content in contents.items():
                    files.write(where / name, content)
                if not claim.lost():
                    self.records.commit(job.digest, record, list(contents))
                remove(where / "work-ray")
            claim.release()
        if time.monotonic() - self.beaten > BEAT:
            self.beaten = time.monotonic()
            for _, claim in self.running.values():
                claim.beat()


def _pack(folder: Path) -> Files:
    """A run's files as data, for a node that cannot see the folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def _remote(job: Job, needed: dict[str, Files], folder: str, study: str, device: str) -> tuple[Record, Files]:
    """Do a run on a node: unpack its inputs, and pack its files."""
    with tempfile.TemporaryDirectory() as scratch, threads.at_most(1):
        for digest, contents in needed.items():
            (Path(scratch) / "needs" / digest).mkdir(parents=True)
            for name, content in contents.items():
                (Path(scratch) / "needs" / digest / name).write_bytes(content)
        work = Path(scratch) / "work"
        if _sees(Path(folder), study):
            work = Path(folder) / "runs" / job.digest / "work-ray"
        out = Path(scratch) / "out"
        record, names = perform.perform(
            job, out, lambda digest: Path(scratch) / "needs" / digest, device=device, work=work
        )
        return record, {name: (out / name).read_bytes() for name in names}


def _sees(folder: Path, study: str) -> bool:
    """Whether this node sees the study's folder itself, and not another folder at that path."""
    try:
        return kept_in(folder).spec.digest == study
    except SoftkinError:
        return False


MOST_RESTARTS = 10  # of dead workers, over a whole study
MOST_WORKERS = 1024
LOOK = 0.5  # seconds between checks of the workers' progress

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
    write_page: WritePage | None = None,
    tell: Callable[[str], None] | None = None,
) -> Table:
    """Run a study in ``folder``, or resume it; finished runs are not repeated.

    Several processes, on one machine or on many that see the folder, may call this with the same study at the same
    time: each run is taken by exactly one of them.

    Args:
        spec: The study.
        folder: The folder for its records.
        device: The device to train on, such as "cpu" or "cuda:1"; by default the accelerator, if there is one.
        workers: The number of runs at a time. None: one for each core, or each GPU with "cuda". 1: in this process.
        progress: Whether to show a progress bar; by default on a terminal.
        engine: "local", or "ray" for a cluster.
        force: Replace another study in the folder; runs that both have are kept.
        ray_options: ``address``, ``num_cpus`` and ``num_gpus`` per run, ``retries``.
        write_page: ``softkin.report.write_comparison``, to write the study's page too, as ``softkin compare`` does.
        tell: Called with what will be tuned and how long the study may take, before anything is trained; and with what
            one-hot training implies for smoothing, one sentence, as soon as it is trained on all seeds and before the
            other methods are.

    Returns:
        The table, which is also in the folder.

    Raises:
        SoftkinError: The folder holds another study or cannot be written, or runs failed. Finished runs are kept.
    """
    require(engine, ENGINES, "engine")
    if workers is not None:
        checks.count(workers, "workers", most=MOST_WORKERS)
    kept = resolve(spec)
    keep(Path(folder), kept, force=force)
    opened = StudyFolder(folder)
    for job in opened.plan.jobs(opened.records.training):
        opened.records.forgive(job.digest)  # a new start retries failed runs
    if tell is not None and (said_first := _first_words(opened, device, workers, engine)):
        tell(said_first)
    baseline = Baseline(opened, tell)
    said = ""
    if engine == "ray":
        with shown(progress) as update:
            drive(opened, device=device, update=_both(update, baseline), **(ray_options or {}))
    else:
        device = device or default_device()
        count = workers or default_workers(device)
        left = sum(opened.records.find(job.digest) is None for job in opened.plan.jobs(opened.records.training))
        with shown(progress) as update:
            if count == 1 or left <= 1:
                work(opened, device=device, update=_both(update, baseline), trust_model=spec.model or ())
            else:
                said = _supervise(opened, device, min(count, left), update, baseline)
    result = finish(opened, write_page=write_page)
    end = standing(opened)
    if end.left and not end.running:  # not failed, but not done either
        last = f" (a worker's last words: {said})" if said else ""
        raise SoftkinError(
            f"{len(end.left)} of {end.total} runs were not done, {end.left[0].title} among them: the workers ended "
            f"without them{last}; all that is done is kept in {folder}, and the same command tries again."
        )
    return replace(result, times=times(opened))


def _first_words(folder: StudyFolder, device: str | None, workers: int | None, engine: str) -> str:
    """What will be tuned, and what is left to train on this machine; empty if nothing is."""
    words = [planned(folder.kept.spec)] if folder.kept.spec.tune else []
    if engine == "local":
        left = estimated(folder.kept, folder.path, device=device, workers=workers).sentence()
        if not left:
            return ""
        words.append(left)
    return " ".join(words)


def planned(spec: StudySpec) -> str:
    """What tuning will take, in one sentence."""
    bases, seeds = len(spec.bases()), len(spec.seeds)
    fields = ", ".join(TUNABLE[name] for name in spec.tune)
    searched = sum(len(spec.candidates(base)) if spec.tune_each else 1 for base in spec.bases())
    trials = searched * (1 + 2 * len(spec.tune))  # the recipe itself once, and two neighbours of each field
    rest = sum(max(1, len(spec.candidates(base)) if spec.tuning == "each seed" else 1) for base in spec.bases())
    known = searched if spec.tuning == "each seed" else bases  # the first seed takes them from the trials
    again = f"{trials} trainings, more where the best value is at an end, beside {rest * seeds - known} others"
    each = ", for each value that they try," if spec.tune_each else ""
    return f"Tuning {fields} of {bases} trained methods{each} on seed {spec.seeds[0]} first: at least {again}."


def _both(update: Update | None, baseline: Baseline) -> Update:
    """A function that updates the progress bar and checks whether the baseline's sentence is due."""

    def both(standing: Standing) -> None:
        if update is not None:
            update(standing)
        baseline.look()

    return both


def finish(folder: str | Path | StudyFolder, *, write_page: WritePage | None = None) -> Table:
    """Write the table, figures and page of a study's folder, and raise an error if runs failed.

    Args:
        folder: The folder of the study.
        write_page: ``softkin.report.write_comparison``, to write the study's page too.
    """
    folder = StudyFolder.of(folder)
    result = table(folder)
    write(folder, result, write_page)
    end = standing(folder)
    if end.failed:
        job, reason = end.failed[0]
        more = f" and {len(end.failed) - 1} more" if len(end.failed) > 1 else ""
        raise SoftkinError(
            f"{job.title}{more} failed: {reason.rstrip('.')}; all that is done is kept in {folder.path}, "
            "and the same command tries again."
        )
    folder.claims.forget({job.digest for job in end.done})
    return result


def _devices(device: str | None, count: int) -> list[str | None]:
    """The device of each worker; with "cuda" workers are spread over the GPUs."""
    import torch

    if device == "cuda" and torch.cuda.device_count() > 1:
        return [f"cuda:{i % torch.cuda.device_count()}" for i in range(count)]
    return [device] * count


def _supervise(folder: StudyFolder, device: str | None, count: int, update: Update | None, baseline: Baseline) -> str:
    """Start workers, replace dead ones, wait for all; return the last line that one of them wrote, if any."""
    with terminated_in_order():
        return _watch([_Worker(folder, device_of) for device_of in _devices(device, count)], folder, update, baseline)


def _watch(all_workers: "list[_Worker]", folder: StudyFolder, update: Update | None, baseline: Baseline) -> str:
    workers, restarts, said = list(all_workers), 0, ""
    try:
        while workers:
            time.sleep(LOOK)
            if update is not None:
                update(standing(folder))
            baseline.look()
            for worker in list(workers):
                code = worker.process.poll()
                if code is None:
                    continue
                workers.remove(worker)
                sys.stderr.write(worker.warnings())
                said = worker.words() or said
                if code == STOPPED:
                    raise SoftkinError(worker.words() or "a worker stopped without a message")
                if code != 0:
                    restarts += 1
                    if restarts > MOST_RESTARTS:
                        raise SoftkinError(f"workers keep dying (exit code {code}): {said or 'they said nothing'}")
                    all_workers.append(_Worker(folder, worker.device))
                    workers.append(all_workers[-1])
    finally:
        for worker in all_workers:
            worker.end()
        for worker in all_workers:
            worker.close()
    return said


class _Worker(Worker):
    """A process that works on the study."""

    def __init__(self, folder: StudyFolder, device: str | None) -> None:
        self.device = device
        arguments = [str(folder.path), "--parent", str(os.getpid())]
        arguments += ["--device", device] if device else []
        model = folder.kept.spec.model
        if model is not None and models.is_code(model):  # named by the caller; may be in the current folder
            arguments += ["--trust-model", model]
            arguments += [part for entry in sys.path for part in ("--import-from", os.path.abspath(entry))]
        super().__init__("softkin.lab.study", arguments)

    def warnings(self) -> str:
        """The worker's warnings, one per line."""
        return "".join(f"{line}\n" for line in self.lines() if line.startswith("softkin: warning:"))


@contextmanager
def shown(show: bool | None) -> Iterator[Update | None]:
    """Show a progress bar of runs; yields the function that updates it, or None without a bar."""
    with bar("starting", show=show) as update:
        if update is None:
            yield None
            return

        def tell(standing: Standing) -> None:
            running = "; ".join(job.title for job, _ in standing.running[:4])
            update(completed=len(standing.done), total=standing.total, description=running)

        yield tell
