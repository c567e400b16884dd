"""A study on a Ray cluster: runs become tasks, and their files return to the driver, which keeps the folder.

Nodes need softkin and the data, but not the study's folder. If a node does see it (a shared file system), a training
that lost its node resumes from its last checkpoint; otherwise it starts again, with the same result.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softkin import SoftkinError
from softkin._core import threads, workers
from softkin._io import files
from softkin.lab import models
from softkin.lab.study import perform
from softkin.lab.study.claims import BEAT, Claim
from softkin.lab.study.folder import StudyFolder
from softkin.lab.study.plan import Job
from softkin.lab.study.records import Record, kept_in, remove
from softkin.lab.study.worker import LOOK_AGAIN, Standing, ready, standing

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
        for job in self.plan.jobs(self.records.find):
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
