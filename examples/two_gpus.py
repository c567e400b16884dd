"""Two GPUs, or two processes: ``torchrun --nproc_per_node 2 examples/two_gpus.py [FOLDER]``.

With plain ``python`` it is one process. Each process feeds its share of the rows; ``compute`` sums over the processes,
and each of them gets the metric of all rows. ``softkin train`` under ``accelerate launch`` does the same.
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from softkin import diagrams, metrics, predictions
from softkin.lab.training import ranks

folder, here = Path(sys.argv[1] if len(sys.argv) > 1 else "."), Path(__file__).parent
folder.mkdir(parents=True, exist_ok=True)
if "RANK" in os.environ:
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
rank, size = ranks.world()
test = predictions.load(here / "digits-test.npz")
total = metrics.Accumulator({"ece": "ece_hist", "nll": "nll"})
for rows in torch.arange(rank, len(test), size).split(100):  # this process's share
    total.update(test.probabilities[rows], test.known_labels[rows])
values = total.compute()  # collective: every process calls it
if rank == 0:
    print(f"{size} process(es):", {name: round(value, 6) for name, value in values.items()})
    alone = metrics.ece_hist(test.probabilities, test.known_labels)
    print(f"Verdict: one process alone gets the same ECE, to {abs(alone - values['ece']):.1e}.")
    diagrams.reliability(test.probabilities, test.known_labels).savefig(folder / "two_gpus.png")
ranks.leave()
