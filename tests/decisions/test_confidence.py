"""Confidence scores by hand, and the area that compares them."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from softkin import decisions, metrics
from softkin.decisions import confidence
from softkin.decisions.rows import Rows


def test_confidence_scores_by_hand():
    p = torch.tensor([[0.7, 0.2, 0.1], [0.5, 0.5, 0.0]], dtype=torch.float64)
    assert confidence.probability(p).tolist() == [0.7, 0.5]
    assert confidence.margin(p).tolist() == pytest.approx([0.5, 0.0])
    entropy = -(0.7 * math.log(0.7) + 0.2 * math.log(0.2) + 0.1 * math.log(0.1))
    assert confidence.entropy(p).tolist() == pytest.approx([-entropy, -math.log(2)])
    z = torch.tensor([[4.0, 1.0, 1.0], [0.0, 0.0, 0.0]], dtype=torch.float64)  # centred: 2, −1, −1
    assert confidence.logit_norm(z, 2.0).tolist() == pytest.approx([2 / math.sqrt(6), 0])
    assert confidence.logit_norm(z, 3.0).tolist() == pytest.approx([2 / 10 ** (1 / 3), 0])
    torch.testing.assert_close(confidence.logit_norm(7 * z + 3, 3.0), confidence.logit_norm(z, 3.0))
    huge = torch.tensor([[1e200, 0.0, 0.0]], dtype=torch.float64)
    assert float(confidence.logit_norm(huge, 6.0)) == pytest.approx(float(confidence.logit_norm(huge / 1e200, 6.0)))


@given(seed=st.integers(0, 10**6), steps=st.sampled_from([3, 10, 10**6]))
def test_the_area_is_that_of_the_metric(seed, steps):
    rng = np.random.default_rng(seed)
    p = np.clip(np.ceil(rng.random(30) * steps) / steps, 0.5, 1)
    y = rng.integers(0, 2, 30)
    P = np.stack([p, 1 - p], 1)
    assert confidence.area(torch.from_numpy(p), torch.from_numpy(y == 1)) == pytest.approx(metrics.aurc(P, y))


@pytest.fixture(scope="module")
def smoothed_and_not(shared_data):
    """Logits of two small networks for CLINC150's intents, trained on one-hot and on smooth labels, and the labels."""
    import pyarrow.parquet as pq
    from sklearn.feature_extraction.text import TfidfVectorizer

    table = pq.read_table(shared_data / "text" / "clinc150.parquet").to_pydict()
    split = np.array(table["split"])
    text, label = np.array(table["text"]), np.array(table["label"])
    training, test = np.nonzero(split == "train")[0][::3], np.nonzero(split == "test")[0]
    number = {name: place for place, name in enumerate(sorted(set(label[training].tolist())))}
    words = TfidfVectorizer(max_features=800).fit(text[training])
    x, inputs = (torch.from_numpy(words.transform(text[rows]).toarray()).float() for rows in (training, test))
    y, labels = (torch.tensor([number[name] for name in label[rows]]) for rows in (training, test))
    logits = {}
    for smoothing in (0.0, 0.3):
        torch.manual_seed(0)
        network = torch.nn.Sequential(torch.nn.Linear(800, 128), torch.nn.ReLU(), torch.nn.Linear(128, 150))
        optimiser = torch.optim.Adam(network.parameters(), lr=6e-3)
        loss = torch.nn.CrossEntropyLoss(label_smoothing=smoothing)
        for _ in range(12):
            for batch in torch.randperm(len(x)).split(512):
                optimiser.zero_grad()
                loss(network(x[batch]), y[batch]).backward()
                optimiser.step()
        with torch.no_grad():
            logits[smoothing] = network(inputs).double()
    return logits, labels


@pytest.mark.slow
def test_normalised_logits_restore_what_smoothing_spoils(smoothed_and_not):
    """Areas under the risk–coverage curve, of nearly equal accuracies: smoothing costs, the norm gives half of it back."""
    logits, y = smoothed_and_not
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    fit, test = order[:2500], order[2500:]
    areas, norms = {}, {}
    for smoothing, z in logits.items():
        wrong = z[test].argmax(1) != y[test]
        for score in ("probability", "logit-norm"):
            rule = decisions.Abstain(0.1, score=score).fit(z[fit], y[fit])
            areas[smoothing, score] = confidence.area(rule._scored(Rows(z[test], False))[0], wrong)
            norms[smoothing, score] = rule.norm_
            assert rule.evaluate(z[test], y[test])["error"].low < 0.1
    assert areas[0.3, "probability"] > 1.15 * areas[0.0, "probability"]  # spoiled
    assert areas[0.3, "logit-norm"] < 0.93 * areas[0.3, "probability"]  # and restored
    assert norms[0.0, "logit-norm"] is None  # nothing to restore: the fallback
    assert norms[0.3, "logit-norm"] >= 2
