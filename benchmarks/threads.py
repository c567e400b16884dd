"""Processor time with the default threads beside another busy process, over that of one thread: at most 1.5.

    python benchmarks/threads.py

Small operations on several threads wait for each other at barriers, and on a machine with other work they wait long.
Each piece of work runs in a process of its own, with torch's default number of threads and with one in turns, so that
both see the same machine. The last column is the processor time that other threads than the caller's used.
"""

import json
import multiprocessing
import subprocess
import sys

WORK = {
    "TemperatureScaling().fit, 5,000 × 100": "calibrators.TemperatureScaling().fit(Z[:5000], y[:5000])",
    "VectorScaling().fit, 5,000 × 100": "calibrators.VectorScaling().fit(Z[:5000], y[:5000])",
    "ece_hist, 10,000 × 100": "metrics.ece_hist(P, y)",
    "ece_hist with its interval, 10,000 × 100": "metrics.ece_hist(P, y, confidence=0.95)",
    "nll, 10,000 × 100": "metrics.nll(P, y)",
    "classwise_ece, 10,000 × 100": "metrics.classwise_ece(P, y)",
}
CODE = """
import json, sys, time
from statistics import median
import torch
from softkin import calibrators, metrics
TURNS = 15
default = torch.get_num_threads()
generator = torch.Generator().manual_seed(0)
Z = 3 * torch.randn(10_000, 100, generator=generator)
y = torch.multinomial((0.7 * Z).softmax(1), 1, generator=generator)[:, 0]
P = Z.softmax(1)
work = compile(sys.argv[1], "work", "eval")
begin = time.process_time()
eval(work)
calls = max(1, min(20, int(0.05 / (time.process_time() - begin))))  # of a turn, so that a turn is not a tick
used = {1: [], default: []}
others = []
for turn in range(2 * TURNS):
    threads = (1, default)[turn % 2]
    torch.set_num_threads(threads)
    time.sleep(0.02)  # threads of the turn before, which may still wait for more work
    whole, own = time.process_time(), time.thread_time()
    for _ in range(calls):
        eval(work)
    whole, own = time.process_time() - whole, time.thread_time() - own
    used[threads].append(whole / calls)
    others.append((whole - own) / calls)
print(json.dumps([median(used[1]), median(used[default]), median(others[1::2])]))
"""


def busy() -> None:
    """Other work, without end."""
    while True:
        sum(range(10_000))


def main() -> None:
    """Print a row for each piece of work."""
    other = multiprocessing.Process(target=busy, daemon=True)
    other.start()
    print("| work beside a busy process | one thread, ms | default threads, ms | ratio | in other threads, ms |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for title, work in WORK.items():
        done = subprocess.run([sys.executable, "-c", CODE, work], capture_output=True, text=True, check=True)
        one, default, others = (1000 * seconds for seconds in json.loads(done.stdout))
        print(f"| {title} | {one:.2f} | {default:.2f} | {default / one:.2f} | {others:.2f} |", flush=True)
    other.terminate()


if __name__ == "__main__":
    main()
