"""Processor time with the default threads beside another busy process, over that of one thread: at most 1.5.

    python benchmarks/threads.py

Small operations on several threads wait for each other at barriers, and on a machine with other work they wait long.
Each piece of work runs in a process of its own, with torch's default number of threads and with one, in turns.
"""

import multiprocessing
import subprocess
import sys
from statistics import median

TURNS = 3
WORK = {
    "TemperatureScaling().fit, 5,000 × 100": "calibrators.TemperatureScaling().fit(Z[:5000], y[:5000])",
    "VectorScaling().fit, 5,000 × 100": "calibrators.VectorScaling().fit(Z[:5000], y[:5000])",
    "ece_hist, 10,000 × 100": "metrics.ece_hist(P, y)",
    "ece_hist with its interval, 10,000 × 100": "metrics.ece_hist(P, y, confidence=0.95)",
    "nll, 10,000 × 100": "metrics.nll(P, y)",
    "classwise_ece, 10,000 × 100": "metrics.classwise_ece(P, y)",
}
CODE = """
import os, sys, time
import torch
from softkin import calibrators, metrics
if sys.argv[2] == "one":
    torch.set_num_threads(1)
generator = torch.Generator().manual_seed(0)
Z = 3 * torch.randn(10_000, 100, generator=generator)
y = torch.multinomial((0.7 * Z).softmax(1), 1, generator=generator)[:, 0]
P = Z.softmax(1)
work = compile(sys.argv[1], "work", "eval")
eval(work)
times = []
for _ in range(5):
    begin = time.process_time()
    eval(work)
    times.append(time.process_time() - begin)
print(sorted(times)[2])
"""


def busy() -> None:
    """Other work, without end."""
    while True:
        sum(range(10_000))


def seconds(work: str, threads: str) -> float:
    """Processor seconds of one call, the median of five."""
    done = subprocess.run([sys.executable, "-c", CODE, work, threads], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    """Print a row for each piece of work."""
    other = multiprocessing.Process(target=busy, daemon=True)
    other.start()
    print("| work beside a busy process | one thread, ms | default threads, ms | ratio |")
    print("| --- | ---: | ---: | ---: |")
    for title, work in WORK.items():
        turns = [(seconds(work, "one"), seconds(work, "all")) for _ in range(TURNS)]
        one, default = (1000 * median(part) for part in zip(*turns, strict=True))
        print(f"| {title} | {one:.1f} | {default:.1f} | {default / one:.2f} |", flush=True)
    other.terminate()


if __name__ == "__main__":
    main()
