"""Class names are phrases, such as "card not arrived". ``python examples/phrases.py [FOLDER]`` draws similarities.

A phrase without an entry of its own gets the mean of its words' vectors. ``from_words`` refuses an
unknown word, and names it and the nearest known ones; ``aliases`` says what to look up instead.
"""

import sys
from pathlib import Path

from softkin import distances, similarity
from softkin.losses import ClassSimilarityLoss

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
folder.mkdir(parents=True, exist_ok=True)
names = ["change pin", "card not arrived", "lost card", "exchange rate", "currency conversion", "top up failed"]
S = similarity.from_distances(distances.from_words(names), beta=2.0)
for k, name in enumerate(names):
    nearest = int(S[k].argmax())
    print(f"{name} → {names[nearest]} ({float(S[k, nearest]):.2f})")
loss_fn = ClassSimilarityLoss(S, alpha=0.1)
print("Verdict: nothing is trained here, so there is no gain to report. Look whether each nearest class is meant.")

from matplotlib.figure import Figure  # noqa: E402  after what matters here

figure = Figure(figsize=(5, 4), layout="constrained")
ax = figure.subplots()
image = ax.imshow(S, cmap="Blues", vmin=0)
ax.set_xticks(range(len(names)), names, rotation=45, ha="right")
ax.set_yticks(range(len(names)), names)
figure.colorbar(image, label="similarity")
figure.savefig(folder / "phrases.png")
