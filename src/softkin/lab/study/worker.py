"""A worker: claims a run that is ready and free, does it, and looks for the next, until none is left.

``python -m softkin.lab.study FOLDER`` is what ``softkin.lab.study.run`` starts, and what joins a study by hand from
another machine that sees the folder.
"""

import argparse
import errno
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from softkin import SoftkinError
from softkin._core import threads as thread_settings
from softkin.lab.study import perform
from softkin.lab.study.claims import Claim
from softkin.lab.study.folder import StudyFolder
from softkin.lab.study.plan import Job
from softkin.lab.study.records import Records, remove, require_trusted_model

LOOK_AGAIN = 0.2  # seconds between checks while others hold all runs that are ready
MOST_DEATHS = 5  # of workers on one run within one start; then the run is given up, as it may be the cause
STOPPED = 3  # exit code of a worker that cannot go on
OUTSIDE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EFBIG, errno.EIO, errno.ENODEV}
"""Errors of a file system after which further runs would fail, too"""


@dataclass
class Standing:
    """The state of a study."""

    done: list[Job] = field(default_factory=list)
    running: list[tuple[Job, str]] = field(default_factory=list)
    """Runs, each with its holder"""
    failed: list[tuple[Job, str]] = field(default_factory=list)
    """Runs, each with the reason of its failure"""
    damaged: list[Job] = field(default_factory=list)
    left: list[Job] = field(default_factory=list)

    @property
    def total(self) -> int:
        """The number of runs that are known so far."""
        return len(self.done) + len(self.running) + len(self.failed) + len(self.damaged) + len(self.left)


def standing(folder: str | Path | StudyFolder) -> Standing:
    """The runs that are done, running, failed, damaged and left in a study's folder; nothing is changed."""
    folder = StudyFolder.of(folder)
    standing, newest = Standing(), folder.claims.newest()
    for job in folder.plan.jobs(folder.records.training):
        state = folder.records.state(job.digest)
        if state == "done":
            standing.done.append(job)
            continue
        generation = newest.get(job.digest, 0)
        who = folder.claims.holder(job.digest, generation) if generation else None
        reason = folder.records.failure(job.digest)
        if who is not None:
            standing.running.append((job, f"{who.get('host', '?')}, process {who.get('pid', '?')}"))
        elif reason is not None:
            standing.failed.append((job, reason))
        else:
            (standing.damaged if state == "damaged" else standing.left).append(job)
    return standing


def work(
    folder: str | Path | StudyFolder,
    *,
    device: str | None = None,
    threads: int | None = 1,
    update: Callable[[Standing], None] | None = None,
    parent: int | None = None,
    trust_model: str | Sequence[str] = (),
) -> None:
    """Do runs of the study in ``folder`` until no run is left that can be done.

    A run that fails leaves its reason and does not stop the others.

    Args:
        folder: The folder of a study that was started.
        device: The device to compute on.
        threads: The number of threads.
        update: Called with the state of the study before each run.
        parent: The process that started the study, unless it is this one.
        trust_model: The "package.module:callable" that the study may build its networks with.

    Raises:
        SoftkinError: The study's network is code that ``trust_model`` does not name, or the folder cannot be written
            (full, read-only …). Finished runs are kept.
    """
    folder = folder if isinstance(folder, StudyFolder) else StudyFolder(folder, parent=parent)
    require_trusted_model(folder.path, folder.kept, trust_model)
    records = folder.records
    with thread_settings.exactly(threads):
        while True:
            before = len(records.known())
            taken, others = _take(folder)
            if taken is not None:
                if update is not None:
                    update(standing(folder))
                with warnings.catch_warnings():
                    # The table has each method's α; a line from each of many trainings would bury the rest.
                    warnings.filterwarnings("ignore", "alpha='auto' has stayed at 0")
                    _do(*taken, records, device)
            elif others:
                time.sleep(LOOK_AGAIN)
            elif len(records.known()) == before:  # no new record has made other runs ready
                return


def ready(job: Job, records: Records) -> bool:
    """Whether everything that a run needs is done, and the run itself is neither done nor failed."""
    if job.undecided:
        return False
    if records.find(job.digest) is not None or records.failure(job.digest) is not None:
        return False
    return all(records.find(digest) is not None for digest in job.needs)


def _take(folder: StudyFolder) -> tuple[tuple[Job, Claim] | None, bool]:
    """A run that this process has now claimed, and whether other processes hold runs that are ready."""
    newest, others = folder.claims.newest(), False
    for job in folder.plan.jobs(folder.records.training):
        if not ready(job, folder.records):
            continue
        claim = folder.claims.take(job.digest, newest)
        if claim is None:
            others = True
            continue
        return (job, claim), others
    return None, others


def _do(job: Job, claim: Claim, records: Records, device: str | None) -> None:
    """Do a run that this process has claimed."""
    with claim:
        if records.find(job.digest) is not None:  # the previous holder finished it
            return
        if records.state(job.digest) == "damaged":
            where = records.set_aside(job.digest)
            warnings.warn(f"the record of {job.title} was damaged; set aside as {where}, done again.", stacklevel=2)
        if claim.deaths >= MOST_DEATHS:
            records.fail(job.digest, job.title, f"its worker died {claim.deaths} times")
            return
        folder = records.path(job.digest)
        checkpoints = _adopt(folder, claim)
        try:
            record, files = perform.perform(job, folder, records.path, device=device, work=checkpoints)
            if not claim.lost():
                records.commit(job.digest, record, files)
        except Exception as error:
            if is_outside(error):
                raise
            records.fail(job.digest, job.title, f"{type(error).__name__}: {error}")
        finally:
            if records.find(job.digest) is not None:
                remove(checkpoints)


def _adopt(folder: Path, claim: Claim) -> Path:
    """The folder for checkpoints: a dead holder's is renamed and taken over, so that it cannot write there any more."""
    ours = folder / f"work-{claim.generation}"
    for generation in range(claim.generation - 1, 0, -1):
        old = folder / f"work-{generation}"
        if old.is_dir() and not ours.exists():
            os.rename(old, ours)
        remove(old)
    return ours


def is_outside(error: BaseException | None) -> bool:
    """Whether the file system refused, so that further runs would fail, too."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in OUTSIDE:
            return True
        error = error.__cause__
    return False


def main() -> int:
    """Run a worker as a separate process."""
    parser = argparse.ArgumentParser(prog="python -m softkin.lab.study", description="Join a study.")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder of a study that was started")
    parser.add_argument("--device", help="device to compute on, such as cuda:1 (default: cpu)")
    parser.add_argument("--threads", type=int, default=1, help="number of threads (default: 1)")
    parser.add_argument(
        "--trust-model",
        action="append",
        default=[],
        metavar="NAME",
        help="package.module:callable that the study may run as its network",
    )
    parser.add_argument("--parent", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--import-from", action="append", default=[], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    # Last on the path, so that a file there can be the network's module, but cannot replace one of our modules.
    sys.path += [folder for folder in arguments.import_from if folder not in sys.path]
    warnings.showwarning = lambda message, *_, **__: print(f"softkin: warning: {message}", file=sys.stderr)
    try:
        work(
            arguments.folder,
            device=arguments.device,
            threads=arguments.threads,
            parent=arguments.parent,
            trust_model=arguments.trust_model,
        )
    except KeyboardInterrupt:
        return 130
    except (SoftkinError, OSError) as error:
        print(error, file=sys.stderr)
        return STOPPED
    return 0
