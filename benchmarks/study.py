"""What a study costs beyond its trainings, and whether it survives.

python benchmarks/study.py overhead     the runner beside the same trainings without it
python benchmarks/study.py kills 200    kill -9 at random moments, each time resumed: the same results, bit for bit?
python benchmarks/study.py default      softkin compare without options, as a user starts it
python benchmarks/study.py bayes        the same with the columns that average over networks or measure distances
python benchmarks/study.py table        verdict and table of 30 methods × 10 seeds × 10,000 rows, 10 and 100 classes
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from softkin import report
from softkin.lab import data, models, study, training
from softkin.lab.study import perform, tabulation
from softkin.lab.study.plan import Plan
from softkin.predictions import Predictions

HERE = Path(__file__).parent
BAYES = ("--methods", "one-hot,ts,mc-dropout,swag,laplace,ensemble,distance,we")


def spec(**changes: Any) -> study.StudySpec:
    """The default study with fewer methods and seeds."""
    values = {"methods": ["one-hot", "ts", "uniform", "we"], "seeds": [0, 1], "beta": [1.0, 4.0], **changes}
    return study.StudySpec.from_dict(values)


def overhead() -> None:
    """Bare trainings and their predictions against ``softkin.lab.study.run`` in one process.

    Both by processor time, which other work on the machine disturbs less, and by the clock. The bare trainings run
    before and after the study, and their mean counts: whatever runs first is slower here.
    """
    torch.set_num_threads(1)
    kept = perform.resolve(spec())
    plan = Plan(kept)
    jobs = [job for job in plan.jobs(lambda _: None) if job.kind == "training"]
    _bare(plan, jobs[:1])  # imports
    begin, clock = time.process_time(), time.perf_counter()
    _bare(plan, jobs)
    bare, bare_clock = time.process_time() - begin, time.perf_counter() - clock
    inside = {"distances": 0.0, "training": 0.0, "result": 0.0}
    real = perform.perform

    def timed(job: Any, *arguments: Any, **options: Any) -> Any:
        begin = time.process_time()
        try:
            return real(job, *arguments, **options)
        finally:
            inside[job.kind] += time.process_time() - begin

    with tempfile.TemporaryDirectory() as place:
        perform.perform = timed  # type: ignore[assignment]
        begin, clock = time.process_time(), time.perf_counter()
        study.keep(Path(place) / "s", kept)
        study.work(Path(place) / "s")
        whole, whole_clock = time.process_time() - begin, time.perf_counter() - clock
        perform.perform = real  # type: ignore[assignment]
        begin, clock = time.process_time(), time.perf_counter()
        study.finish(Path(place) / "s", write_page=report.write_comparison)
        table = time.process_time() - begin
    begin, clock = time.process_time(), time.perf_counter()
    _bare(plan, jobs)
    bare = (bare + time.process_time() - begin) / 2
    bare_clock = (bare_clock + time.perf_counter() - clock) / 2
    runner = whole - sum(inside.values())
    around = inside["training"] - bare
    print(f"{len(jobs)} trainings of digits, {torch.__version__}, one thread")
    print(f"bare trainings and predictions        {bare:7.2f} s   {bare_clock:7.2f} s by the clock")
    print(f"the study, without its table          {whole:7.2f} s   {whole_clock:7.2f} s by the clock")
    print(f"  planning, claiming, recording       {runner:7.2f} s   {100 * runner / bare:5.1f} % of the bare trainings")
    print(f"  around the trainings: checkpoints, files, choosing {around:.2f} s   {100 * around / bare:5.1f} %")
    print(f"  distances {inside['distances']:.2f} s, calibrating and measuring {inside['result']:.2f} s")
    print(f"table, figures, report                {table:7.2f} s")


def _bare(plan: Plan, jobs: list[Any]) -> None:
    """The same trainings, without a study."""
    from softkin import distances

    for job in jobs:
        options = dict(job.spec["split"])
        parts = data.split("digits", max_per_class=options.pop("per_class"), **options)
        network = models.build("small", num_classes=10, input_shape=(1, 8, 8), seed=job.spec["seed"])
        values = dict(job.spec["values"])
        if job.spec["method"] == "we":
            method = training.Method.from_distances(distances.from_words(parts.train.class_names), **values)
        else:
            method = training.Method(job.spec["method"], **values)
        recipe = training.Recipe.from_dict(job.spec["recipe"])
        trained = training.fit(
            network,
            parts.train,
            parts.validation,
            method=method,
            recipe=recipe,
            seed=job.spec["seed"],
            device="cpu",
            progress=False,
        )
        for rows in (parts.validation, parts.test):
            training.predict(trained, rows)


def kills(times: int, seed: int) -> int:
    """``tests/faults/kills.py`` with more kills; 1 if some work came to another end."""
    harness = Path(__file__).resolve().parents[1] / "tests" / "faults" / "kills.py"
    with tempfile.TemporaryDirectory() as place:
        done = subprocess.run([sys.executable, str(harness), f"{place}/kills", str(times), str(seed)], check=False)
    print("all ended the same, to the bit" if done.returncode == 0 else "NOT all ended the same")
    return done.returncode


def default(*options: str) -> None:
    """Seconds of the whole command, imports included."""
    with tempfile.TemporaryDirectory() as place:
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-m", "softkin", "compare", *options, "--output", f"{place}/s"], check=True)
        seconds = time.perf_counter() - begin
        print(f"{' '.join(('softkin compare', *options))}: {seconds:.1f} s on {os.cpu_count()} cores")


def table(num_methods: int = 30, seeds: int = 10, rows: int = 10_000) -> None:
    """Seconds and memory of the verdict and the table alone, from predictions on disk, in a process of its own."""
    for classes in (10, 100):
        with tempfile.TemporaryDirectory() as place:
            code = f"import sys; sys.path[:0] = {sys.path!r}; import study as b; "
            arguments = f"{place!r}, {num_methods}, {seeds}, {rows}, {classes}"
            for step in ("made", "built"):
                subprocess.run([sys.executable, "-c", f"{code}b.{step}({arguments})"], check=True, cwd=HERE)


def made(place: str, num_methods: int, seeds: int, rows: int, classes: int) -> None:
    """Predictions of methods of different sharpness, and their records, in a folder."""
    from softkin.lab.study import perform

    for seed in range(seeds):
        rng = torch.Generator().manual_seed(seed)
        logits = 2 * torch.randn(rows, classes, generator=rng)
        labels = torch.multinomial(logits.softmax(dim=1), 1, generator=rng)[:, 0]
        for i, method in enumerate(_methods(num_methods)):
            noise = torch.randn(rows, classes, generator=rng)
            predicted = Predictions((1 + 0.05 * i) * (logits + 0.3 * noise), labels)
            folder = Path(place) / "runs" / f"{method}-{seed}"
            folder.mkdir(parents=True)
            predicted.save(folder / "test.safetensors")
            if i == 0:
                metrics = perform.on_test(predicted)
            (folder / "metrics.json").write_text(json.dumps(metrics))


def built(place: str, num_methods: int, seeds: int, rows: int, classes: int) -> None:
    """The table from that folder."""
    import resource

    methods = _methods(num_methods)
    results = []
    for method in methods:
        for seed in range(seeds):
            name = f"{method}-{seed}"
            metrics = json.loads((Path(place) / "runs" / name / "metrics.json").read_text())
            record = {"predictions": name, "chosen": name, "values": {}, "effective_target": "", "metrics": metrics}
            results.append(study.Result(method, seed, {**record, "ood": []}, Path(place)))
    wanted = study.StudySpec(methods=tuple(methods), seeds=tuple(range(seeds)), model="mlp")
    begin = time.perf_counter()
    tabulation.build(wanted, results)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    busy, size = time.process_time(), f"{num_methods} methods × {seeds} seeds × {rows:,} rows × {classes} classes"
    print(f"{size}: {seconds:.1f} s, {peak:.2f} GiB; {busy:.0f} s of processor time")


def _methods(count: int) -> list[str]:
    trained = ["uniform", "mixup", "l1", "l2", "ae", "we", "focal", "tree", "out", "file"]
    names = [
        "one-hot",
        "ts",
        "ets",
        "dir-odir",
        *(f"{name}{after}" for name in trained for after in ("", "+ts", "+ets")),
    ]
    return names[:count]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["overhead", "kills", "default", "bayes", "table"])
    parser.add_argument("times", type=int, nargs="?", default=200)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    if chosen.what == "kills":
        sys.exit(1 if kills(chosen.times, chosen.seed) else 0)
    if chosen.what == "overhead":
        overhead()
    elif chosen.what == "table":
        table()
    else:
        default(*(BAYES if chosen.what == "bayes" else ()))
