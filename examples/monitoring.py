"""Monitoring without labels: the accuracy that calibrated confidences predict, week by week.

``python examples/monitoring.py [FOLDER]`` draws ``monitoring.png``. The estimate holds only while calibration does. In
the last weeks images become noisy, and the estimate falls more slowly than the accuracy that labels show.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from softkin import calibrators, decisions, metrics

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
folder.mkdir(parents=True, exist_ok=True)
values, labels = load_digits(return_X_y=True)
values = values / 16
model = LogisticRegression(C=10.0, max_iter=3000).fit(values[:400], labels[:400])
calibrator = calibrators.TemperatureScaling().fit(model.decision_function(values[400:800]), labels[400:800])
generator = np.random.default_rng(0)
weeks = []
for week in range(8):
    rows = generator.choice(np.arange(800, len(values)), 200)
    noisy = values[rows] + max(0, week - 4) * 0.15 * generator.normal(size=(200, 64))
    p = torch.from_numpy(calibrator.predict_proba(model.decision_function(noisy)))
    weeks.append((decisions.expected_accuracy(p), metrics.accuracy(p, labels[rows])))
    print(f"week {week}: expected {weeks[-1][0]}, measured {weeks[-1][1]:.3f}")

held = sum(expected.low <= measured <= expected.high for expected, measured in weeks)
worst = max(float(expected) - measured for expected, measured in weeks)
print(
    f"Verdict: the promise held in {held} of 8 weeks; noise the model never saw broke it by {100 * worst:.1f} points."
)

from matplotlib.figure import Figure  # noqa: E402

figure = Figure(figsize=(5, 3), layout="constrained")
ax = figure.subplots()
ax.fill_between(range(8), [e.low for e, _ in weeks], [e.high for e, _ in weeks], alpha=0.3, label="expected, 95 %")
ax.plot(range(8), [measured for _, measured in weeks], "o-", label="with labels")
ax.set_xlabel("week")
ax.set_ylabel("accuracy")
ax.legend()
figure.savefig(folder / "monitoring.png")
