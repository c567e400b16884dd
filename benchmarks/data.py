"""What the decode cache saves, in one run: ``python benchmarks/data.py`` (needs ../shared/data for CIFAR-100).

The first start decodes CIFAR-100's 60,000 images into an empty cache, the second maps what is there; each in a process
of its own, with the imports outside the clock. ``--output`` also writes the table as Markdown.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow

CIFAR = Path(__file__).resolve().parents[2] / "shared" / "data" / "cifar100"

START = """
import sys, time
import numpy, pyarrow.parquet, PIL.Image, torch
from softkin.lab import data
source, what = sys.argv[1:]
started = time.perf_counter()
if what == "load":
    data.load(source, split="train", progress=False), data.load(source, split="test", progress=False)
else:
    data.split(source, progress=False)
print(time.perf_counter() - started)
"""


def start(cache: str, what: str) -> float:
    """Seconds of one start in a fresh process."""
    environment = {**os.environ, "SOFTKIN_CACHE": cache, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", START, str(CIFAR), what]
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def row(what: str, words: str, due: str, repeats: int) -> str:
    first, second = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            first.append(start(cache, what))
            second.append(start(cache, what))
    cold, warm = statistics.median(first), statistics.median(second)
    return f"| {words} | {cold:.2f} s | {warm * 1000:.0f} ms | {cold / warm:,.0f}× faster | {due} |"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--output", type=Path)
    arguments.add_argument("--repeats", type=int, default=3)
    chosen = arguments.parse_args()
    lines = [
        f"CIFAR-100, 60,000 PNG images in parquet, median of {chosen.repeats}; {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, numpy {np.__version__}, pyarrow {pyarrow.__version__}.",
        "",
        "| what | first start | second start | ratio | due |",
        "| --- | --- | --- | --- | --- |",
        row("load", "`data.load`, both parts", "≥ 20×", chosen.repeats),
        row("split", "`data.split`: the same, and the rows of the three sets gathered in memory", "", chosen.repeats),
    ]
    print("\n".join(lines))
    if chosen.output:
        chosen.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
