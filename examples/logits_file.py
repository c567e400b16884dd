"""A file of logits and labels: how wrong the confidences are, and how to repair them.

``python examples/logits_file.py [FOLDER]`` draws ``logits_file.png`` and writes the page ``logits_file.html``. The same
on the command line: ``softkin evaluate examples/digits-test.npz --report page.html``.
"""

import sys
from pathlib import Path

from softkin import calibrators, diagrams, metrics, predictions, report

folder, here = Path(sys.argv[1] if len(sys.argv) > 1 else "."), Path(__file__).parent
folder.mkdir(parents=True, exist_ok=True)
validation, test = (predictions.load(here / f"digits-{name}.npz") for name in ("validation", "test"))
candidates = [calibrators.TemperatureScaling(), calibrators.VectorScaling(), calibrators.PlattScaling()]  # None: all
best = calibrators.fit_best(validation.logits, validation.known_labels, candidates, resamples=100)
print(best)
after = test.calibrated(best.calibrator)
for name, model in (("before", test), ("after", after)):
    print(name, metrics.ece_hist(model.probabilities, model.known_labels, confidence=0.95))
errors = [100 * metrics.ece_hist(model.probabilities, test.known_labels) for model in (test, after)]
print(f"Verdict: {type(best.calibrator).__name__} takes the ECE from {errors[0]:.1f} to {errors[1]:.1f} %.")
models = {"before": test.probabilities, "after": after.probabilities}
diagrams.reliability(models, test.known_labels).savefig(folder / "logits_file.png")
report.write(folder / "logits_file.html", report.build(test, source="digits", resamples=100), force=True)
