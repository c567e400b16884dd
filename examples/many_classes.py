"""Twenty thousand classes: for each, keep the most similar ones. ``python examples/many_classes.py [FOLDER] [K]``.

A (K, K) matrix of 20,000 classes takes 3.2 GB; ``top_m`` keeps m numbers per row. Metrics are streamed: an
``Accumulator`` takes batches and keeps a few sums.
"""

import sys
from pathlib import Path

import torch

from softkin import metrics, similarity
from softkin.losses import ClassSimilarityLoss

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
folder.mkdir(parents=True, exist_ok=True)
num_classes = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
generator = torch.Generator().manual_seed(0)
vectors = torch.randn(num_classes, 64, generator=generator, dtype=torch.float64)  # of the names, or of class means
S = similarity.from_vectors(vectors, 2.0, top_m=16)
loss_fn = ClassSimilarityLoss(S, alpha=0.1)
total = metrics.Accumulator({"ece": "ece_hist", "nll": "nll", "accuracy": "accuracy"})
sizes = []
for _ in range(4):
    labels = torch.randint(num_classes, (32,), generator=generator)
    logits = torch.randn(32, num_classes, generator=generator)
    logits[torch.arange(32), labels] += 9
    sizes.append(float(loss_fn(logits, labels)))
    total.update(logits.double().softmax(1), labels)
print({name: round(value, 4) for name, value in total.compute().items()})

kept, whole = 16 * num_classes * 16 / 1e6, 8 * num_classes**2 / 1e6
print(f"Verdict: {kept:,.1f} MB of similarity instead of {whole:,.1f} MB; the logits are drawn, so nothing is gained.")

from matplotlib.figure import Figure  # noqa: E402

figure = Figure(figsize=(4, 3), layout="constrained")
ax = figure.subplots()
ax.plot(range(1, 5), sizes, "o-")
ax.set_xlabel("batch")
ax.set_ylabel(f"loss, {num_classes:,} classes")
figure.savefig(folder / "many_classes.png")
