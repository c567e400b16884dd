"""Make examples/digits-validation.npz and digits-test.npz: logits of a classifier that is too sure of itself.

    python scripts/build_examples.py

A linear classifier is fitted to 300 of scikit-learn's handwritten digits, of which one in twenty has a wrong label; of
the others 700 are for validation and the rest for testing.
"""

from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from softkin.lab.data import DIGITS
from softkin.predictions import Predictions

FOLDER = Path(__file__).resolve().parents[1] / "examples"


def main() -> None:
    """Fit, predict, write."""
    values, labels = load_digits(return_X_y=True)
    generator = np.random.default_rng(0)
    order = generator.permutation(len(values))
    train, validation, test = np.split(order, [300, 1000])
    answers = labels[train].copy()
    answers[:15] = (answers[:15] + generator.integers(1, 10, 15)) % 10
    model = LogisticRegression(C=100.0, max_iter=5000).fit(values[train] / 16, answers)
    for name, rows in (("validation", validation), ("test", test)):
        logits = torch.from_numpy(model.decision_function(values[rows] / 16)).to(torch.float32)
        known = Predictions(
            logits, torch.from_numpy(labels[rows]), list(DIGITS), torch.from_numpy(rows), name=f"digits, {name}"
        )
        known.save(FOLDER / f"digits-{name}.npz", force=True)


if __name__ == "__main__":
    main()
