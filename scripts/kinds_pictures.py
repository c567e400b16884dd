"""Draw the pictures of docs/kinds.md from the answers of language models and the forecasts in a folder of data.

python scripts/kinds_pictures.py ../shared/data
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from softkin import metrics

FIGURES = Path(__file__).parent.parent / "docs" / "figures"


def intervals(axes, names: list[str], claims: list[tuple[np.ndarray, np.ndarray]]) -> None:
    """What each group claims and what came true, with its interval."""
    for place, (scores, right) in enumerate(claims):
        share = metrics.accuracy(scores, right, confidence=0.95)
        axes.plot([share.low, share.high], [place, place], color="C0", lw=2)
        axes.plot(float(share), place, "o", color="C0", label="right, 95 % interval" if place == 0 else None)
        axes.plot(scores.mean(), place, "D", color="C1", label="claimed" if place == 0 else None)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("share")
    axes.legend(frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))


def drawn(name: str, names: list[str], claims: list[tuple[np.ndarray, np.ndarray]]) -> None:
    """One picture, written to the documentation."""
    figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    intervals(axes, names, claims)
    figure.savefig(FIGURES / f"kinds_{name}.png", dpi=110, metadata={"Software": None})


def main(data: Path) -> None:
    """Both pictures."""
    answers = np.load(data / "llm" / "mcq_confidence.npz")
    models = sorted({key.split("|")[2] for key in answers.files})
    pairs = [(answers[f"conf|arc|{model}"], answers[f"grade|arc|{model}"] == 1) for model in models]
    drawn("pairs", models, pairs)
    games = np.load(data / "forecasts" / "fivethirtyeight.npz")
    year = np.array([date[:4] for date in games["nba_games|date"].tolist()])
    years = sorted(set(year.tolist()))
    scores, right = games["nba_games|prob"], games["nba_games|outcome"] == 1
    drawn("monitor", years, [(scores[year == one], right[year == one]) for one in years])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
