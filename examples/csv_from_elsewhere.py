"""A CSV from somebody else's tool: semicolons, decimal commas, rounded rows, its own name for the labels, texts.

``python examples/csv_from_elsewhere.py [FOLDER]`` draws ``csv_from_elsewhere.png``. On the command line,
``softkin evaluate export.csv`` needs no options: it infers what the file means, and says so.
"""

import sys
from pathlib import Path

import numpy as np

from softkin import diagrams, evaluation, metrics, predictions

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
folder.mkdir(parents=True, exist_ok=True)
generator = np.random.default_rng(0)
p = generator.dirichlet([0.4] * 4, 400)
labels = [generator.choice(4, p=row**0.6 / (row**0.6).sum()) for row in p]
names = ["billing", "delivery", "returns", "other"]
lines = ["text;truth;" + ";".join(names)]
for place, (row, label) in enumerate(zip(p, labels, strict=True)):
    scores = ";".join(f"{value:.2f}".replace(".", ",") for value in row)
    lines.append(f'"message {place}; as it came";{names[label]};{scores}')
(folder / "export.csv").write_text("\n".join(lines), encoding="utf-8")

preds = predictions.load(folder / "export.csv")  # warns of what it assumed
print(preds, "first text:", preds.texts[0])
print("ECE of the prediction:", metrics.ece_hist(preds.probabilities, preds.known_labels, confidence=0.95))
verdict = evaluation.evaluate(preds, resamples=100)["verdict"]
print(f"Verdict: {verdict['headline']}. {verdict['detail']}")
diagrams.reliability(preds.probabilities, preds.known_labels).savefig(folder / "csv_from_elsewhere.png")
