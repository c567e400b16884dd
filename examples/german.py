"""Class names in German, or any language whose vectors we do not ship. ``python examples/german.py [FOLDER]``.

Two ways: ``aliases`` translates each name once, or ``vectors`` brings vectors of that language (a file in word2vec's or
GloVe's text format, or a mapping from words to arrays).
"""

import sys
from pathlib import Path

import numpy as np

from softkin import distances, similarity

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
folder.mkdir(parents=True, exist_ok=True)
names = ["Hund", "Katze", "Pferd", "Lastwagen", "Flugzeug"]
english = {"Hund": "dog", "Katze": "cat", "Pferd": "horse", "Lastwagen": "truck", "Flugzeug": "airplane"}
by_alias = similarity.from_distances(distances.from_words(names, aliases=english), beta=2.0)

generator = np.random.default_rng(0)  # stand-ins for vectors that were trained on German text
animal, machine = generator.normal(size=(2, 20))
own = {name: (animal if k < 3 else machine) + 0.3 * generator.normal(size=20) for k, name in enumerate(names)}
by_vectors = similarity.from_distances(distances.from_words(names, own), beta=2.0)
for k, name in enumerate(names):
    print(f"{name}: {names[int(by_alias[k].argmax())]} (aliases), {names[int(by_vectors[k].argmax())]} (own vectors)")

same = int((by_alias.argmax(1) == by_vectors.argmax(1)).sum())
print(
    f"Verdict: both ways agree on the nearest class of {same} of {len(names)}; nothing is trained, so no gain is shown."
)

from matplotlib.figure import Figure  # noqa: E402

figure = Figure(figsize=(8, 3.6), layout="constrained")
for ax, matrix, title in zip(figure.subplots(1, 2), (by_alias, by_vectors), ("aliases", "own vectors"), strict=True):
    ax.imshow(matrix, cmap="Blues", vmin=0)
    ax.set_xticks(range(5), names, rotation=45, ha="right")
    ax.set_yticks(range(5), names)
    ax.set_title(title)
figure.savefig(folder / "german.png")
