"""A cluster, or several cores: many files as one set. ``python examples/cluster.py [FOLDER] [--ray]``.

``softkin evaluate 'shards/*.npz' --jobs 4``, or ``--engine ray``, gives the same numbers to the bit. Studies share
their runs the same way: ``softkin compare --engine ray``.
"""

import sys
from pathlib import Path

import torch

from softkin import diagrams, evaluation, predictions

arguments = [argument for argument in sys.argv[1:] if argument != "--ray"]
folder, here = Path(arguments[0] if arguments else "."), Path(__file__).parent
test = predictions.load(here / "digits-test.npz")
(folder / "shards").mkdir(parents=True, exist_ok=True)
for number, rows in enumerate(torch.arange(len(test)).chunk(4)):
    predictions.save(folder / "shards" / f"part-{number}.npz", test.take(rows), overwrite=True)
options = {"engine": "ray"} if "--ray" in sys.argv else {"jobs": 2}
whole = evaluation.evaluate_file(folder / "shards", resamples=100, **options)
print({key: whole.data["metrics"][key]["value"] for key in ("nll", "ece_hist")})
print(f"Verdict: {whole.data['verdict']['headline']}, the same number from any number of processes.")
diagrams.reliability(test.probabilities, test.known_labels).savefig(folder / "cluster.png")
