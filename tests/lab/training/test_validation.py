"""The numbers that choose an epoch."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from softkin import metrics
from softkin.lab import data, models, training
from softkin.lab.training import loop
from softkin.lab.training.loop import refined_nll
from training_parts import fit

K = 4


@pytest.fixture(scope="module")
def split():
    return data.split("digits", max_per_class=6, test=120, validation=80)


def some(n=7, seed=0, scale=3.0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, K, generator=generator).double() * scale, torch.randint(0, K, (n,), generator=generator)


@pytest.mark.parametrize("by", ["refined-nll", "nll", "accuracy", "brier", "ece_hist"])
def test_the_epoch_is_the_best_by_what_was_asked(split, by):
    trained = fit(split, "one-hot", stop_by=by, epochs=10, make=lambda seed, **_: models.build("small", num_classes=10, input_shape=(1, 8, 8), seed=seed))  # fmt: skip
    key = {"ece_hist": "validation_ece"}.get(by, f"validation_{by.replace('-', '_')}")
    values = [entry[key] for entry in trained.history]
    best = max(values) if by == "accuracy" else min(values)
    assert trained.record["chosen_epoch"] == 1 + values.index(best)
    preds = training.predict(trained, split.validation)
    p, y = preds.probabilities, preds.labels
    measured = {
        "refined-nll": lambda: refined_nll(preds.logits, y),
        "nll": lambda: metrics.nll(p, y),
        "accuracy": lambda: metrics.accuracy(p, y),
        "brier": lambda: metrics.brier(p, y),
        "ece_hist": lambda: metrics.ece_hist(p, y),
    }[by]()
    assert measured == pytest.approx(best, rel=1e-6)


def test_the_refined_nll_is_the_least_over_temperatures():
    logits, labels = some(60, scale=2.0)
    least = min(F.cross_entropy(logits / t, labels).item() for t in np.geomspace(0.05, 50, 4000))
    assert refined_nll(logits, labels) == pytest.approx(least, rel=1e-5)
    assert refined_nll(7 * logits, labels) == pytest.approx(refined_nll(logits, labels), rel=1e-7)


@pytest.mark.parametrize("rows", [range(11), range(2, 9), range(5, 5)])
def test_logits_of_rows_do_not_depend_on_how_many_are_taken_at_a_time(monkeypatch, rows):
    class Plain:
        def rows(self, places):
            return torch.arange(11.0)[places, None] * torch.ones(3)

    monkeypatch.setattr(loop, "EVALUATED", 3)
    model = torch.nn.Dropout(0.9).train()
    logits = loop.evaluate(model, Plain(), rows, 3)
    torch.testing.assert_close(logits, torch.tensor(list(rows), dtype=torch.float32)[:, None] * torch.ones(3))
    assert model.training
