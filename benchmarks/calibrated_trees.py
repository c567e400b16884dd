"""NLL of `CalibratedClassifier` and of scikit-learn's temperature method, on forests and boosting with 20 classes.

    python benchmarks/calibrated_trees.py --data ../shared/data --records records.jsonl [--seeds 3]

Half of the rows train and calibrate (five folds), half are measured. Each finished row is appended to the records, so
that an interrupted run resumes. Prints differences to `CalibratedClassifierCV(method="temperature")`, mean ± standard
error over seeds; below 0 softkin is better.
"""

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer

from softkin.sklearn import CalibratedClassifier

Rows = tuple[NDArray[np.float64], NDArray[np.int64]]
PEER, METHODS = "scikit-learn", ("temperature", "best")


def made(seed: int, **options: object) -> Rows:
    """2,000 made-up rows of 20 classes."""
    return make_classification(2000, n_classes=20, random_state=seed, **options)  # type: ignore[no-any-return]


def intents(seed: int, folder: Path) -> Rows:
    """Twenty random intents of CLINC150, 150 sentences each, as 40 components of their TF-IDF."""
    table = pq.read_table(folder / "text" / "clinc150.parquet").to_pydict()
    names = sorted(set(table["label"]) - {"oos"})
    chosen = list(np.random.default_rng(seed).choice(names, 20, replace=False))
    rows = [
        (text, chosen.index(label))
        for text, label in zip(table["text"], table["label"], strict=True)
        if label in chosen
    ]
    vectors = TfidfVectorizer().fit_transform([text for text, _ in rows])
    return TruncatedSVD(40, random_state=0).fit_transform(vectors), np.array([number for _, number in rows])


def sets(folder: Path) -> dict[str, Callable[[int], Rows]]:
    """The data sets by name, each a function of a seed."""
    shares = np.geomspace(1, 0.08, 20)
    return {
        "made up": lambda seed: made(seed, n_features=20, n_informative=12, n_clusters_per_class=1, class_sep=1.2),
        "hard": lambda seed: made(seed, n_features=30, n_informative=10, class_sep=0.8, flip_y=0.1),
        "imbalanced": lambda seed: made(
            seed, n_features=25, n_informative=12, n_clusters_per_class=1, weights=list(shares / shares.sum())
        ),
        "CLINC150, 20 intents": lambda seed: intents(seed, folder),
    }


def estimators(seed: int) -> dict[str, object]:
    """The classifiers by name."""
    return {
        "forest": RandomForestClassifier(50, random_state=seed),
        "boosting": GradientBoostingClassifier(n_estimators=6, max_depth=3, random_state=seed),
    }


def measured(estimator: object, method: str, rows: Rows, seed: int) -> float:
    """The NLL of the second half of the rows in random order."""
    order = np.random.default_rng(seed).permutation(len(rows[1]))
    x, y = rows[0][order], rows[1][order]
    half = len(y) // 2
    if method == PEER:
        model = CalibratedClassifierCV(estimator, method="temperature", cv=5)
    else:
        model = CalibratedClassifier(estimator, method=method, cv=5)
    p = model.fit(x[:half], y[:half]).predict_proba(x[half:])
    return float(-np.log(p[np.arange(len(y) - half), y[half:]]).mean())


def main() -> None:
    """Measure what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    lines = arguments.records.read_text().splitlines() if arguments.records.exists() else []
    known = {tuple(key): nll for key, nll in map(json.loads, lines)}
    for seed in range(arguments.seeds):
        for name, make in sets(arguments.data).items():
            rows = make(seed)
            for kind, estimator in estimators(seed).items():
                for method in (PEER, *METHODS):
                    key = (name, kind, method, seed)
                    if key not in known:
                        known[key] = measured(estimator, method, rows, seed)
                        with arguments.records.open("a") as file:
                            file.write(json.dumps([key, known[key]]) + "\n")
    print("| data | classifier | scikit-learn | temperature | best |\n| --- | --- | ---: | ---: | ---: |")
    for name in sets(arguments.data):
        for kind in estimators(0):
            nll = {
                method: np.array([known[name, kind, method, s] for s in range(arguments.seeds)])
                for method in (PEER, *METHODS)
            }
            cells = [f"{nll[PEER].mean():.3f}"]
            for method in METHODS:
                difference = nll[method] - nll[PEER]
                cells.append(f"{difference.mean():+.4f} ± {difference.std(ddof=1) / arguments.seeds**0.5:.4f}")
            print(f"| {name} | {kind} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
