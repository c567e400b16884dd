"""An estimate of a study before it runs: every run, shared runs, and the time, extrapolated from a few timed steps."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from softkin._core import threads
from softkin.lab import models, training
from softkin.lab.study import columns as registry
from softkin.lab.study.columns import HEADS
from softkin.lab.study.perform import resolve
from softkin.lab.study.plan import FACTOR, Job, Lookup, Plan, ResultRun, shortened
from softkin.lab.study.records import Kept, Records
from softkin.lab.study.spec import StudySpec
from softkin.lab.training.training_run import TrainingRun

STEPS = 12  # optimizer steps that are timed, after as many for warm-up
RESULT, A_SCORE = 0.3, 1.5e-6  # seconds for choosing, calibrating and measuring, and for each score that is measured
A_HEAD = 8e-6  # seconds for each training row and class that a head is fitted to
START = 2.5  # seconds in which a worker loads torch and the data
FURTHER = 1.5
"""Weight decays that a method tries beyond the first three, on average: 0.6 to 3 in six recorded studies"""


@dataclass(frozen=True)
class Estimate:
    """The runs of a study, and how long they may take."""

    kept: Kept
    jobs: list[Job]
    """All runs, in the order in which they would run"""
    done: set[str]
    """Digests of the runs that are already done"""
    seconds: float
    """The time of all trainings one after another"""
    per_training: float
    workers: int
    to_come: int = 0
    """The number of trainings whose values or recipe the first seed has yet to choose; ``seconds`` includes them"""

    @property
    def trainings(self) -> int:
        """The number of trainings that are left."""
        return self.to_come + sum(job.kind == "training" and job.digest not in self.done for job in self.jobs)

    def sentence(self) -> str:
        """What is left to do, in one sentence; empty if nothing is to be trained."""
        if not self.trainings:
            return ""
        few = "1 training" if self.trainings == 1 else f"{self.trainings} trainings"
        more = ", several times that if longer trainings are better" if "epochs" in self.kept.spec.tune else ""
        return (
            f"About {few}, {float(f'{self.per_training:.2g}'):g} s for one-hot (measured on a few steps): "
            f"{self.seconds / 60:.1f} core-minutes, {duration(self.seconds / self.workers)} with {self.workers} "
            f"at a time{more}."
        )

    def text(self) -> str:
        """The estimate as text."""
        spec, data = self.kept.spec, self.kept.data
        lines = [
            f"{data['source']}: {data['rows']}, {data['classes']} classes",
            f"network {spec.model}, {spec.recipe['epochs']} epochs, seeds {', '.join(map(str, spec.seeds))}",
            "",
        ]
        users: dict[str, int] = {}
        for job in self.jobs:
            for digest in job.needs:
                users[digest] = users.get(digest, 0) + 1
        titles = {job.digest: job.title for job in self.jobs}
        for job in self.jobs:
            parts = [job.title]
            if job.kind == "result" and job.needs:
                parts.append(
                    "from " + (titles[job.needs[0]] if len(job.needs) == 1 else f"the best of {len(job.needs)}")
                )
            if users.get(job.digest, 0) > 1:
                parts.append(f"shared by {users[job.digest]} runs")
            parts += ["done already"] if job.digest in self.done else []
            lines.append(f"{job.digest}  {parts[0]}" + (f" ({', '.join(parts[1:])})" if parts[1:] else ""))
        counts = {kind: sum(job.kind == kind for job in self.jobs) for kind in ("distances", "training", "result")}
        later = "; halving adds trainings as it decides" if spec.search == "halving" else ""
        if self.to_come:
            later += f"; {self.to_come} more trainings once the first seed has chosen their values"
        lines += [
            "",
            f"{len(self.jobs)} runs: {counts['distances']} distances, {counts['training']} trainings, "
            f"{counts['result']} results; {len(self.done)} done already{later}",
            f"about {self.per_training:.1f} s per training (measured), "
            f"{duration(self.seconds / self.workers)} with {self.workers} at a time",
            "",
        ]
        return "\n".join(lines)


def estimate(spec: StudySpec, folder: str | Path, *, device: str | None = None, workers: int | None = None) -> Estimate:
    """Plan a study and time a few steps of its training; nothing is written."""
    return estimated(resolve(spec), folder, device=device, workers=workers)


def estimated(kept: Kept, folder: str | Path, *, device: str | None = None, workers: int | None = None) -> Estimate:
    """Like ``estimate``, of a study whose fields are filled in."""
    device = device or default_device()
    plan, records = Plan(kept), Records(folder)
    jobs = list(plan.jobs(records.training))
    done = {job.digest for job in jobs if records.find(job.digest) is not None}
    each = _seconds_of_training(plan, device)
    first = plan.training("one-hot", {}, kept.spec.seeds[0]).run
    assert isinstance(first, TrainingRun)
    parts, classes = first.rows.split(progress=False), int(kept.data["classes"])
    count, total = 0.0, 0.0
    for base in kept.spec.bases():
        few, long = _to_come(plan, base, records.training)
        count, total = count + few, total + each * _networks(plan.spec, base) * long
    for job in (job for job in jobs if job.digest not in done):
        if isinstance(job.run, TrainingRun):
            networks = _networks(plan.spec, job.run.method)
            total += each * networks * job.run.recipe.epochs / kept.spec.recipe["epochs"]
        elif isinstance(job.run, ResultRun):
            total += RESULT + A_SCORE * len(parts.test) * classes
            total += A_HEAD * len(parts.train) * classes if job.run.calibrator in HEADS else 0.0
    at_a_time = workers or default_workers(device)
    total += START * at_a_time if at_a_time > 1 and total else 0.0
    return Estimate(kept, jobs, done, total, each, at_a_time, round(count))


def default_device() -> str:
    """The accelerator, if there is one."""
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def default_workers(device: str | None) -> int:
    """One worker for each GPU, else one for each core that this process may use."""
    import torch

    if device == "cuda":
        return max(1, torch.cuda.device_count())
    if device is not None and device != "cpu":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _to_come(plan: Plan, base: str, lookup: Lookup) -> tuple[float, float]:
    """The number of a method's trainings that will come, but are not yet decided; and by how long they take.

    The second counts a training by its epochs, relative to the recipe's.
    """
    spec, count, longer = plan.spec, 0.0, 0.0
    for chosen in plan.tuned_with(base) if spec.tune else ():
        if plan.recipe_of(base, lookup, chosen) is not None:
            continue
        tried = plan.tuning(base, lookup, chosen).trials
        begun = {trial.field for trial in tried}
        halves = 2 * len(spec.tune) * spec.half_steps
        count += 2 * (len(spec.tune) - len(begun)) + (not tried) + halves  # neighbours, the recipe itself, half steps
        if "weight_decay" in spec.tune and ("weight_decay" not in begun or len(tried) <= 3):
            count += FURTHER
        count -= 1  # the best of them is a training of the first seed
        longer += FACTOR + 1 / FACTOR - 2 if "epochs" in set(spec.tune) - begun else 0.0
    values = len(spec.candidates(base))
    for seed in spec.seeds:
        if not any(plan.search(base, seed, lookup, by).trials for by in spec.selections(base)):
            count += values if spec.tuning == "each seed" or seed == spec.seeds[0] else 1
    return count, count + longer


def _networks(spec: StudySpec, method: str) -> float:
    """The number of networks that one training of a method trains."""
    training = registry.named(method).training
    if training is None or not training.several:
        return 1
    usual = next(parameter.default for parameter in training.parameters if parameter.name == "members")
    return float(spec.parameters.get("members", (usual,))[0]) + training.distils


def _seconds_of_training(plan: Plan, device: str | None) -> float:
    """The time of a full one-hot training and its predictions, extrapolated from ``STEPS`` steps.

    On a CPU it is processor time, which other work on the machine changes little.
    """
    clock = time.process_time if device in (None, "cpu") else time.perf_counter
    spec = plan.spec
    run = plan.training("one-hot", {}, spec.seeds[0]).run
    assert isinstance(run, TrainingRun)
    parts = run.rows.split(progress=False)
    batch, epochs = int(plan.recipe["batch_size"]), int(plan.recipe["epochs"])
    steps = max(1, len(parts.train.labels) // batch)
    rows = parts.train.take(range(min(len(parts.train.labels), batch * min(steps, STEPS))))
    few = max(1, STEPS // max(1, min(steps, STEPS)))
    recipe = training.Recipe.from_dict({**shortened(plan.recipe, few), "stop_by": None})  # no rows to choose by
    seconds = []
    with threads.at_most(1):
        for _ in range(2):
            assert spec.model is not None
            network = models.build(
                spec.model,
                num_classes=len(parts.train.class_names),
                input_shape=parts.train.input_shape,
                seed=0,
                **spec.model_options,
            )
            start = clock()
            trained = training.fit(
                network,
                rows,
                None,
                method=training.Method("one-hot"),
                recipe=recipe,
                device=device,
                progress=False,
            )
            seconds.append(clock() - start)
        start = clock()
        few_rows = parts.test.take(range(min(len(parts.test.labels), 1000)))
        training.predict(trained, few_rows, device=device)
        a_row = (clock() - start) / len(few_rows.labels)
    a_step = seconds[-1] / (few * max(1, min(steps, STEPS)))
    predicted = len(parts.test.labels) + len(parts.validation.labels) + spec.ood_rows * len(spec.ood)
    predicted += epochs * len(parts.validation.labels)  # after each epoch
    return a_step * steps * epochs + a_row * predicted


def duration(seconds: float) -> str:
    """A number of seconds as text, in a suitable unit."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
