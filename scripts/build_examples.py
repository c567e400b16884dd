"""Make the predictions in examples/: digits-validation.npz, digits-test.npz, churn.csv and tickets.csv.

    python scripts/build_examples.py [FOLDER]

digits: logits of a classifier that is too sure of itself. A linear classifier is fitted to 300 of scikit-learn's
handwritten digits, of which one in twenty has a wrong label; of the others 700 are for validation and the rest for
testing.

churn, tickets: simulated models whose logits are too large by a known factor, so that dividing by it calibrates them.
Their outcomes are drawn from the probabilities of the true logits. They have the form of files as people have them: a
binary score, rounded; class columns among columns that are no classes, rounded, so that not every row sums to 1.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from softkin.lab.data import DIGITS
from softkin.predictions import Predictions

FOLDER = Path(__file__).resolve().parents[1] / "examples"


CHURN, TICKETS = 1.8, 1.7  # by what the logits are too large
CLASSES = ("billing", "delivery", "other", "returns")


def main(folder: Path = FOLDER) -> None:
    """Write all of them."""
    digits(folder)
    (folder / "churn.csv").write_text(churn(np.random.default_rng(1)))
    (folder / "tickets.csv").write_text(tickets(np.random.default_rng(2)))


def churn(generator: np.random.Generator, n: int = 500) -> str:
    """A binary model: the true class and the score of class 1."""
    logits = generator.normal(-0.8, 1.3, n)
    truth = generator.random(n) < 1 / (1 + np.exp(-logits))
    scores = 1 / (1 + np.exp(-CHURN * logits))
    return "\n".join(["y_true,y_prob", *(f"{y:d},{p:.4f}" for y, p in zip(truth, scores, strict=True)), ""])


def tickets(generator: np.random.Generator, n: int = 600) -> str:
    """Four classes of messages to a shop, after the number and the age of the customer."""
    logits = generator.normal(0, 1.3, (n, len(CLASSES)))
    ages = generator.integers(18, 80, n)
    p, claimed = (shares / shares.sum(1, keepdims=True) for shares in (np.exp(logits), np.exp(TICKETS * logits)))
    truth = (p.cumsum(1) < generator.random((n, 1))).sum(1)
    rows = (
        ",".join([str(10_000 + 7 * row), str(ages[row]), *(f"{share:.3f}" for share in claimed[row]), CLASSES[y]])
        for row, y in enumerate(truth)
    )
    return "\n".join([",".join(["customer_id", "age", *CLASSES, "label"]), *rows, ""])


def digits(folder: Path) -> None:
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
        known.save(folder / f"digits-{name}.npz", force=True)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
