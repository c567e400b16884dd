"""My scikit-learn model: wrap it. ``python examples/my_sklearn.py [FOLDER]`` draws ``my_sklearn.png``."""

import sys
from pathlib import Path

from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from softkin import diagrams
from softkin.sklearn import CalibratedClassifier, scorers

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
folder.mkdir(parents=True, exist_ok=True)
train, test, y_train, y_test = train_test_split(*load_digits(return_X_y=True), test_size=0.5, random_state=0)
forest = RandomForestClassifier(30, random_state=0)
before = forest.fit(train, y_train)
after = CalibratedClassifier(forest, method="temperature", cv=3).fit(train, y_train)
for name in ("accuracy", "neg_nll", "neg_ece_hist"):
    print(f"{name}: {scorers()[name](before, test, y_test):.4f} → {scorers()[name](after, test, y_test):.4f}")
gain = 100 * (scorers()["neg_ece_hist"](after, test, y_test) - scorers()["neg_ece_hist"](before, test, y_test))
print(f"Verdict: one temperature takes {gain:.1f} points off the forest's ECE.")
models = {"forest": before.predict_proba(test), "calibrated": after.predict_proba(test)}
diagrams.reliability(models, y_test).savefig(folder / "my_sklearn.png")
