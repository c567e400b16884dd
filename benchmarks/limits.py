"""How far softkin goes: seconds and peak memory at the largest sizes meant to work, and what it says past them.

    python benchmarks/limits.py                 # the table of docs/limits.md; needs 0.5 GB of disk at a time
    python benchmarks/limits.py --scale 0.01    # every size a hundredth as large, to see that it runs
    python benchmarks/limits.py --only study

Run it alone on the machine. Each row is one fresh process, start and imports included; its memory is the largest
resident set that the kernel saw (VmHWM of that process alone). The output is Markdown.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evaluate import synthetic

PEAK = """
import sys
from pathlib import Path

def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
"""
COMMAND = (
    PEAK
    + """
from softkin.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as end:
    code = end.code
print(f"\\n{peak():.0f}", file=sys.stderr)
sys.exit(code)
"""
)
METRICS = (
    PEAK
    + """
import numpy as np, torch
from softkin.metrics import catalogue, scopes

folder = Path(sys.argv[1])
logits = torch.from_numpy(np.load(folder / "logits.npy"))
p, y = scopes.checked(logits.softmax(dim=1), np.load(folder / "labels.npy"))
for metric in catalogue.shown("evaluate", p.shape[1]):
    metric.statistic(scopes.Claims(p, y)).value()
print(f"\\n{peak():.0f}", file=sys.stderr)
"""
)
TABLE = (
    PEAK
    + """
from softkin.lab import study

table = study.table(sys.argv[1])
assert table.finished
table.to_markdown()
print(f"\\n{peak():.0f}", file=sys.stderr)
"""
)


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    key: str
    title: str
    make: Callable[[Path], list[str]]
    """Writes what is needed into a folder, and returns the arguments of the program"""
    program: str = COMMAND


def predictions(rows: int, num_classes: int, *options: str) -> Callable[[Path], list[str]]:
    """``softkin evaluate`` of float32 logits in a .npy file."""
    return lambda folder: ["evaluate", str(synthetic(folder, rows, num_classes)), "--json", *options]


def arrays(rows: int, num_classes: int) -> Callable[[Path], list[str]]:
    """The folder of the same, for a program that loads the arrays itself."""
    return lambda folder: [str(synthetic(folder, rows, num_classes).parent)]


def study_of(runs: int) -> Callable[[Path], list[str]]:
    """A finished study of one-hot training and temperature scaling: three runs a seed, 200 test rows each."""

    def make(folder: Path) -> list[str]:
        import torch

        from softkin.lab.study import StudyFolder, StudySpec, perform
        from softkin.lab.study.records import Kept, keep
        from softkin.predictions import Predictions

        recipe = {"epochs": 1, "batch_size": 32, "milestones": [], "warmup_epochs": 0}
        about = {"source": "made up", "digest": "d", "kind": "images", "classes": 10, "rows": "rows", "contents": {}}
        seeds = max(2, -(-runs // 3))
        spec = {"methods": ("one-hot", "ts"), "seeds": seeds, "model": "small", "recipe": recipe}
        path = folder / "study"
        keep(path, Kept(StudySpec.from_dict(spec), about))
        opened = StudyFolder(path)
        generator = torch.Generator().manual_seed(0)
        logits = 3 * torch.randn(200, 10, generator=generator)
        labels = (logits / 2).softmax(dim=1).multinomial(1, generator=generator)[:, 0]
        made = Predictions(logits, labels, sample_ids=torch.arange(200))
        validation, test = perform.on_validation(made), perform.on_test(made)
        common: dict[str, Any] = {"effective_target": "made up", "ood": [], "found": {}, "values": {}, "tried": []}
        for kind in ("training", "result"):
            for job in list(opened.plan.jobs(opened.records.find)):
                if job.kind != kind:
                    continue
                where = opened.records.path(job.digest)
                where.mkdir(parents=True)
                names = ["test.safetensors", "validation.safetensors"]
                for name in names:
                    made.save(where / name)
                chosen = {"chosen": job.context.get("chosen"), "predictions": job.digest}
                record = common | chosen | {"metrics": validation if kind == "training" else test}
                opened.records.commit(job.digest, record, names)
        return [str(path)]

    return make


def cases(scale: float) -> Iterator[Case]:
    """All rows."""

    def n(count: int) -> int:
        return max(200, round(count * scale))

    yield Case("rows", f"`evaluate`, {n(10_000_000):,} × 10", predictions(n(10_000_000), 10))
    yield Case("rows-8", f"`evaluate`, {n(8_000_000):,} × 10", predictions(n(8_000_000), 10))
    classes = n(20_000)
    yield Case("classes", f"`evaluate`, 5,000 × {classes:,}", predictions(5_000, classes))
    yield Case("metrics", f"all metrics in Python, 5,000 × {classes:,}", arrays(5_000, classes), METRICS)
    runs = n(1_000)
    yield Case("study", f"the table of a study with {runs:,} runs", study_of(runs), TABLE)


def refusals(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """What is past the limits, without being as large: files that only say that they are."""
    import softkin._io.files

    def zeros(name: str, kind: str, *shape: int) -> str:
        with open(folder / name, "wb") as file:
            np.lib.format.write_array_header_2_0(file, {"descr": kind, "fortran_order": False, "shape": shape})
            file.truncate(file.tell() + np.dtype(kind).itemsize * int(np.prod(shape)))  # takes no room on the disk
        return str(folder / name)

    def claimed(rows: int, columns: int) -> list[str]:
        return ["evaluate", zeros("logits.npy", "<f4", rows, columns), "--labels", zeros("labels.npy", "|u1", rows)]

    most = softkin._io.files.LIMITS["classes"]
    yield f"{most + 1:,} classes", claimed(4, most + 1)
    yield "100,000,000 rows", claimed(100_000_000, 10)
    example = str(Path(__file__).resolve().parents[1] / "examples" / "digits-test.npz")
    yield "10¹² resamples", ["evaluate", example, "--resamples", str(10**12)]
    yield "1,001 seeds", ["compare", "--seeds", "1001", "--output", str(folder / "s")]


def measured(case: Case, folder: Path) -> tuple[float, float]:
    """(wall-clock seconds, peak MB) of a fresh process."""
    arguments = case.make(folder)
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", case.program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{case.title} failed with {done.returncode}: {done.stderr.strip()[-500:]}")
    return seconds, float(done.stderr.split()[-1])


def main() -> None:
    """The table, and the refusals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="every size times this")
    parser.add_argument("--only", help="one row: rows, rows-8, classes, metrics or study")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    options = parser.parse_args()
    numbers: dict[str, dict[str, float]] = {}
    print("| work | seconds | peak memory |\n| --- | ---: | ---: |", flush=True)
    for case in cases(options.scale):
        if options.only in (None, case.key):
            with tempfile.TemporaryDirectory() as folder:
                seconds, peak = measured(case, Path(folder))
            numbers[case.title] = {"seconds": seconds, "peak_mb": peak}
            print(f"| {case.title} | {seconds:.1f} | {peak / 1024:.2f} GB |", flush=True)
    if options.only is None:
        print("\n| past the limit | exit code | what it says |\n| --- | ---: | --- |")
        with tempfile.TemporaryDirectory() as folder:
            for title, arguments in refusals(Path(folder)):
                command = [sys.executable, "-m", "softkin", *arguments]
                done = subprocess.run(command, capture_output=True, text=True)
                said = done.stderr.strip().replace(folder + "/", "").replace("|", "\\|")
                print(f"| {title} | {done.returncode} | {said} |", flush=True)
    if options.json:
        options.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
