"""My own training loop: one line changes. ``python examples/own_loop.py [FOLDER]`` draws ``own_loop.png``."""

import sys
from pathlib import Path

import torch
from torch import nn

from softkin import diagrams, metrics
from softkin.lab import data
from softkin.losses import ClassSimilarityLoss

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
folder.mkdir(parents=True, exist_ok=True)
digits = data.load("digits")
images, labels = torch.from_numpy(digits.values).flatten(1) / 16, torch.from_numpy(digits.labels)
order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
train, validation, test = order[:60], order[60:700], order[700:]  # so few images make a network surer than it is right
shown = {}
for name in ("cross-entropy", "similarity"):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loss_fn = nn.CrossEntropyLoss()
    if name == "similarity":
        loss_fn = ClassSimilarityLoss.from_names(digits.class_names, alpha="auto")  # the one line
    for step in range(300):
        optimizer.zero_grad()
        loss_fn(model(images[train]), labels[train]).backward()
        optimizer.step()
        if name == "similarity" and step % 10 == 9:
            with torch.no_grad():
                loss_fn.adjust(model(images[validation]), labels[validation])
    with torch.no_grad():
        shown[name] = model(images[test]).double().softmax(1)
    p = shown[name]
    print(f"{name}: accuracy {metrics.accuracy(p, labels[test]):.3f}, ECE {metrics.ece_hist(p, labels[test]):.3f}")
compared = metrics.compare(shown["similarity"], shown["cross-entropy"], labels[test], "nll")
word = "better" if compared.high < 0 else "worse" if compared.low > 0 else "not significantly different"
interval = f"{compared.low:+.3f} to {compared.high:+.3f}"
print(f"Verdict: the one line changes the NLL by {compared.difference:+.3f} ({interval}): {word}.")
diagrams.reliability(shown, labels[test]).savefig(folder / "own_loop.png")
