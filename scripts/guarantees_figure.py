"""Draw docs/figures/guarantees.svg and print the numbers of docs/guarantees.md.

python scripts/guarantees_figure.py      # needs ../shared/data/logits; about a minute on one core
"""

import math
from pathlib import Path

import matplotlib
import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.stats import beta

from softkin import decisions
from softkin.calibrators import TemperatureScaling
from softkin.decisions.bounds import conformal_limit, rank

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "figures" / "guarantees.svg"
LOGITS = ROOT.parent / "shared" / "data" / "logits" / "resnet32-cifar100-logits.npz"
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#666666"
SPLITS = 2000


def network() -> tuple[torch.Tensor, torch.Tensor]:
    """Calibrated probabilities of 8,000 rows, and their labels."""
    with np.load(LOGITS, allow_pickle=False) as file:
        z, y = torch.from_numpy(file["logits"]).double(), torch.from_numpy(file["labels"]).long()
    return TemperatureScaling().fit(z[:2000], y[:2000]).predict_proba(z[2000:]), y[2000:]


def coverages(scores: torch.Tensor, rows: int) -> np.ndarray:
    """Of 2,000 calibration sets the share of the other rows that are covered."""
    generator = torch.Generator().manual_seed(0)
    shares = []
    for _ in range(SPLITS):
        order = torch.randperm(len(scores), generator=generator)
        limit = conformal_limit(scores[order[:rows]], 0.9)
        shares.append(float((scores[order[rows:]] <= limit).double().mean()))
    return np.array(shares)


def by_class(p: torch.Tensor, y: torch.Tensor, conditional: str | None, splits: int = 30) -> np.ndarray:
    """(100,) the share of covered rows of each class, over random halves."""
    hits, seen = torch.zeros(100), torch.zeros(100)
    for seed in range(splits):
        order = torch.randperm(len(p), generator=torch.Generator().manual_seed(seed))
        fit, rest = order[: len(p) // 2], order[len(p) // 2 :]
        rule = decisions.PredictionSets(0.9, conditional=conditional).fit(p[fit], y[fit], from_probabilities=True)
        covered = rule.predict(p[rest], from_probabilities=True).gather(1, y[rest][:, None])[:, 0]
        hits += torch.bincount(y[rest], weights=covered.float(), minlength=100)
        seen += torch.bincount(y[rest], minlength=100)
    return (hits / seen).numpy()


def under_shift(p: torch.Tensor, y: torch.Tensor) -> tuple[list[float], list[float], list[float]]:
    """(share of the 20 hardest classes among the new rows, coverage of sets, error rate of answers)."""
    order = torch.randperm(len(p), generator=torch.Generator().manual_seed(0))
    fit, rest = order[:4000], order[4000:]
    right = (p[fit].argmax(1) == y[fit]).double()
    accuracy = torch.bincount(y[fit], weights=right, minlength=100) / torch.bincount(y[fit], minlength=100)
    hard = torch.isin(y[rest], accuracy.argsort()[:20])
    sets = decisions.PredictionSets(0.9).fit(p[fit], y[fit], from_probabilities=True)
    abstain = decisions.Abstain(0.1).fit(p[fit], y[fit], from_probabilities=True)
    members = sets.predict(p[rest], from_probabilities=True).gather(1, y[rest][:, None])[:, 0].double()
    answers = abstain.predict(p[rest], from_probabilities=True)
    wrong, answered = (answers != y[rest]).double(), (answers >= 0).double()
    shares, coverage, errors = [], [], []
    for share in np.linspace(0, 1, 11):
        weight = torch.where(hard, share / hard.sum(), (1 - share) / (~hard).sum())
        shares.append(float(share))
        coverage.append(float((weight * members).sum()))
        total = float((weight * answered).sum())
        errors.append(float((weight * answered * wrong).sum()) / total if total > 0 else math.nan)
    print("natural share of the hard classes", float(hard.double().mean()))
    return shares, coverage, errors


def main() -> None:
    p, y = network()
    scores = 1 - p.gather(1, y[:, None])[:, 0]
    with matplotlib.rc_context(
        {"font.size": 9, "svg.hashsalt": "softkin", "axes.spines.top": False, "axes.spines.right": False}
    ):
        figure = Figure(figsize=(10.5, 3.2), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        grid = np.linspace(0.78, 0.98, 400)
        for rows, colour in ((100, ORANGE), (1000, BLUE)):
            shares = coverages(scores, rows)
            k = rank(rows, 0.9)
            left.hist(shares, bins=np.arange(0.78, 0.981, 0.005), density=True, color=colour, alpha=0.45)
            left.plot(grid, beta.pdf(grid, k, rows + 1 - k), color=colour, label=f"n = {rows:,}")
            below = np.mean(shares < 0.9)
            print(
                f"n={rows}: mean {shares.mean():.4f}, sd {shares.std():.4f}, "
                f"below 90 %: {below:.3f}, least {shares.min():.3f}"
            )
        left.axvline(0.9, color=GREY, linewidth=0.8)
        left.set(title="One calibration set, many rows", xlabel="share of rows covered", yticks=[])
        left.legend(frameon=False, title="calibration rows")
        for conditional, colour, name in ((None, ORANGE, "on average"), ("class", BLUE, "per class")):
            shares = np.sort(by_class(p, y, conditional))
            middle.plot(np.arange(1, 101), shares, color=colour, label=name)
            print(f"{name}: worst class {shares[0]:.3f}, best {shares[-1]:.3f}, below 85 %: {(shares < 0.85).sum()}")
        middle.axhline(0.9, color=GREY, linewidth=0.8)
        middle.set(
            title="On average, or for each class", xlabel="classes, worst first", ylabel="share of its rows covered"
        )
        middle.legend(frameon=False)
        shares, coverage, errors = under_shift(p, y)
        print("shift", [f"{s:.1f}: {c:.3f} {e:.3f}" for s, c, e in zip(shares, coverage, errors, strict=True)])
        right.plot(shares, coverage, color=BLUE, label="covered by sets (90 % promised)")
        right.plot(shares, 1 - np.array(errors), color=ORANGE, label="answers right (90 % promised)")
        right.axhline(0.9, color=GREY, linewidth=0.8)
        right.set(title="Other class frequencies", xlabel="share of the 20 hardest classes", ylim=(0.7, 1))
        right.legend(frameon=False, loc="lower left")
        figure.savefig(TARGET, metadata={"Date": None})
    print(f"Wrote {TARGET}")


if __name__ == "__main__":
    main()
