"""Multiple choice with a varying number of options."""

import json

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from softkin import SoftkinError, calibrators, metrics, predictions


def questions(n=300, seed=0):
    rng = np.random.default_rng(seed)
    logits = [2 * rng.normal(size=rng.integers(2, 6)) for _ in range(n)]
    p = [softmax(z) for z in logits]
    return [2 * z for z in logits], [int(rng.choice(len(row), p=row)) for row in p]


def softmax(z):
    e = np.exp(z - np.max(z))
    return e / e.sum()


def nll(logits, labels, t=1.0):
    return float(-np.mean([np.log(softmax(z / t)[y]) for z, y in zip(logits, labels, strict=True)]))


def test_rows_of_different_lengths_in_python_share_a_temperature():
    z, y = questions()
    p = [softmax(row) for row in z]
    assert metrics.nll(p, y) == pytest.approx(nll(z, y))
    assert metrics.accuracy(p, y) == np.mean([row.argmax() == label for row, label in zip(p, y, strict=True)])
    brier = np.mean([((row - np.eye(len(row))[label]) ** 2).sum() for row, label in zip(p, y, strict=True)])
    assert metrics.brier(p, y) == pytest.approx(brier)
    cal = calibrators.TemperatureScaling().fit(z, y)
    best = minimize_scalar(lambda t: nll(z, y, t), bounds=(0.1, 10), method="bounded", options={"xatol": 1e-9})
    assert cal.temperature_ == pytest.approx(best.x, rel=1e-5)
    q = cal.predict_proba(z)
    assert float(q[0, len(z[0]) :].sum()) == 0


@pytest.mark.filterwarnings("ignore::softkin.predictions.Assumption")
@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_lists_of_different_lengths_in_a_file(tmp_path, kind):
    z, y = questions()
    rows = z if kind == "logits" else [softmax(row) for row in z]
    path = tmp_path / "a.jsonl"
    path.write_text(
        "".join(json.dumps({kind: row.tolist(), "label": k}) + "\n" for row, k in zip(rows, y, strict=True))
    )
    with pytest.warns(predictions.Assumption, match="rows have 2 to 5 options"):
        found = predictions.load(path)
    assert metrics.nll(found.probabilities, y) == pytest.approx(nll(z, y), rel=1e-6)
    fitted = calibrators.TemperatureScaling().fit(found.logits, found.known_labels)
    assert fitted.temperature_ == pytest.approx(calibrators.TemperatureScaling().fit(z, y).temperature_, rel=1e-5)
    path.write_text(path.read_text() + json.dumps({kind: rows[0].tolist(), "label": len(rows[0])}) + "\n")
    with pytest.raises(SoftkinError, match="the label must be the place of one of the"):
        predictions.load(path)
