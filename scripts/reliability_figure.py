"""Draw docs/figures/reliability.png: ``python scripts/reliability_figure.py`` (needs ../shared/data/logits).

A ResNet-32 on CIFAR-100: temperature fitted on the first 5,000 test rows by NLL, both models drawn on the other 5,000.
"""

from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from softkin import diagrams

ROOT = Path(__file__).resolve().parents[1]
TEMPERATURE = 1.5574239  # minimises the NLL of the first 5,000 rows

with np.load(ROOT.parent / "shared" / "data" / "logits" / "resnet32-cifar100-logits.npz", allow_pickle=False) as file:
    logits, labels = torch.from_numpy(file["logits"]).double()[5000:], torch.from_numpy(file["labels"])[5000:]
models = {"as trained": logits.softmax(1), f"T = {TEMPERATURE:.3f}": (logits / TEMPERATURE).softmax(1)}
figure = Figure(figsize=(7, 4.1), layout="constrained")
for ax, scope in zip(figure.subplots(1, 2), ("prediction", "output"), strict=True):
    diagrams.reliability(models, labels, scope=scope, ax=ax)
    ax.set_title(scope, fontsize=9)
figure.savefig(ROOT / "docs" / "figures" / "reliability.png", dpi=130)
