"""All samples in a compact form."""

import numpy as np
import torch

from softkin.metrics.binning import equal_width
from softkin.report import sample_rows


def test_codes_fall_into_the_cells_that_count_them():
    scores = torch.tensor([0.0, 1 / 300, 1 / 300 + 1e-12, 0.5, 1.0, 2 / 3, 1e-9, 299 / 300], dtype=torch.float64)
    edges = equal_width(300).edges
    for score, code in zip(scores.tolist(), sample_rows.codes(scores).tolist(), strict=True):
        cell = code // sample_rows.STEPS
        assert (edges[cell] < score <= edges[cell + 1]) or (score == 0 and cell == 0)
        assert abs((code + 0.5) / (300 * sample_rows.STEPS) - score) < 2e-5


def test_rows_hold_labels_answers_and_scores(answered):
    first, data = answered
    import base64

    def words(text):
        return np.frombuffer(base64.b64decode(text), dtype="<u2")

    held = data["rows"]
    assert np.array_equal(words(held["label"]), first.known_labels.numpy())
    top = first.probabilities.topk(4)
    assert np.array_equal(words(held["variants"][0]["best"]).reshape(-1, 4), top.indices.numpy())
    assert np.allclose(
        words(held["variants"][0]["score"]).reshape(-1, 4) / (300 * sample_rows.STEPS), top.values.numpy(), atol=2e-5
    )
    assert held["variants"][1]["best"] is None  # temperature scaling keeps the order
    assert held["ids"] is None
