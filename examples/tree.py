"""Classes form a tree: answer with a broader kind where the class is uncertain. ``python examples/tree.py [FOLDER]``.

``decisions.Climb`` answers with the narrowest node of the tree that keeps the share of wrong answers below the limit.
"""

import sys
from collections import Counter
from pathlib import Path

import torch

from softkin import decisions

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
folder.mkdir(parents=True, exist_ok=True)
names = ["cat", "dog", "horse", "car", "truck", "ship"]
kinds = {"animal": names[:3], "vehicle": names[3:]}
edges = [("thing", kind) for kind in kinds] + [(kind, name) for kind, below in kinds.items() for name in below]
tree = decisions.Tree.from_edges(edges, names)
generator = torch.Generator().manual_seed(0)
labels = torch.randint(6, (2000,), generator=generator)
logits = torch.randn(2000, 6, generator=generator) + 2.0 * torch.nn.functional.one_hot(labels, 6)
logits += 1.5 * (labels[:, None] // 3 == torch.arange(6) // 3)  # classes of one kind are confused most
rule = decisions.Climb(tree, error=0.1).fit(logits[:1000], labels[:1000])
answers = rule.predict(logits[1000:])
counts = Counter("no answer" if node < 0 else tree.names[node] for node in answers.tolist())
print(counts.most_common())
wrong = rule.evaluate(logits[1000:], labels[1000:]).to_dict()["measures"]["error"]["value"]
plain = float((logits[1000:].argmax(1) != labels[1000:]).double().mean())
print(f"Verdict: {wrong:.1%} of the answers are wrong; of answers that always name a class {plain:.1%} would be.")

from matplotlib.figure import Figure  # noqa: E402

figure = Figure(figsize=(5, 3), layout="constrained")
ax = figure.subplots()
ax.barh(list(counts), list(counts.values()))
ax.set_xlabel("answers of 1,000, at most 10 % of them wrong")
figure.savefig(folder / "tree.png")
