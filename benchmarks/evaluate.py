"""``softkin evaluate`` as people run it: a real process, its seconds from start to end and its largest memory.

    python benchmarks/evaluate.py                          # 10,000 × 100, and what other files of it cost
    python benchmarks/evaluate.py --large                  # also 1,000,000 × 100 in float32
    python benchmarks/evaluate.py --file logits.npz --repeats 3

Run it alone on the machine. Each line is the median of its repeats: wall-clock seconds, seconds of the processors (more
than the former where threads share the work), and the peak of resident memory.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


def synthetic(path: Path, num_samples: int, num_classes: int) -> Path:
    """Over-confident float32 logits and labels as a pair of .npy files, written a part at a time."""
    generator = np.random.default_rng(0)
    shape = (num_samples, num_classes)
    logits = np.lib.format.open_memmap(path / "logits.npy", "w+", np.float32, shape)
    labels = generator.integers(0, num_classes, num_samples)
    for start in range(0, num_samples, 50_000):
        own = labels[start : start + 50_000]
        part = generator.standard_normal((len(own), num_classes), dtype=np.float32)
        part[np.arange(len(own)), own] += 2.5
        logits[start : start + len(own)] = 3 * part
    logits.flush()
    np.save(path / "labels.npy", labels)
    return path / "logits.npy"


def once(arguments: list[str]) -> tuple[float, float, float]:
    """(wall-clock seconds, processor seconds, peak MB) of one run."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "softkin", *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"softkin {' '.join(arguments)} failed with {process.returncode}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def line(words: str, arguments: list[str], repeats: int) -> None:
    """Measure and print."""
    wall, processors, memory = (
        statistics.median(item) for item in zip(*(once(arguments) for _ in range(repeats)), strict=True)
    )
    print(f"{words:52} {wall:7.2f} s   {processors:7.2f} s   {memory:7.0f} MB", flush=True)


def main() -> None:
    """All lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, help="predictions to use instead of 10,000 × 100 synthetic ones")
    parser.add_argument("--large", action="store_true", help="also 1,000,000 × 100")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(f"{'':52} {'wall':>9}   {'CPU':>9}   {'peak':>10}")
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder, "small"), Path(folder, "large")
        small.mkdir()
        large.mkdir()
        file = str(options.file or synthetic(small, 10_000, 100))
        start = [sys.executable, "-c", "import torch"]
        seconds = []
        for _ in range(options.repeats):
            begin = time.perf_counter()
            subprocess.run(start, check=True)
            seconds.append(time.perf_counter() - begin)
        print(f"{'python -c import torch':52} {statistics.median(seconds):7.2f} s")
        line("evaluate, 1,000 resamples", ["evaluate", file], options.repeats)
        line("evaluate --abstain 0.05", ["evaluate", file, "--abstain", "0.05"], options.repeats)
        line("evaluate of two files, compared", ["evaluate", file, file], 1)
        line("evaluate --kde-interval", ["evaluate", file, "--kde-interval"], 1)
        if options.large:
            line("evaluate 1,000,000 × 100", ["evaluate", str(synthetic(large, 1_000_000, 100))], 1)


if __name__ == "__main__":
    main()
