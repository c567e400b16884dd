"""Which scores count, and what is refused."""

import numpy as np
import pytest
import torch

from softkin import metrics

ERRORS = [
    metrics.ece_hist,
    metrics.ece_kde,
    metrics.classwise_ece,
    metrics.mce,
    metrics.debiased_ece,
    metrics.smooth_ece,
    metrics.signed_gap,
    metrics.nll,
    metrics.brier,
    metrics.accuracy,
    metrics.aurc,
]


def test_output_calibration_class_by_class_does_not_imply_prediction_calibration():
    # The table of docs/mathematics.md, each kind of input 20 times.
    kinds = [
        ([0.4, 0.3, 0.3], [0.5, 0.3, 0.2]),
        ([0.4, 0.45, 0.15], [0.3, 0.45, 0.25]),
        ([0.1, 0.6, 0.3], [0.0, 0.6, 0.4]),
        ([0.1, 0.75, 0.15], [0.2, 0.75, 0.05]),
    ]
    p = np.repeat([scores for scores, _ in kinds], 20, axis=0)
    y = np.concatenate([np.repeat([0, 1, 2], np.round(20 * np.array(true)).astype(int)) for _, true in kinds])
    assert metrics.classwise_ece(p, y, n_bins=100) == pytest.approx(0, abs=1e-12)
    assert metrics.ece_hist(p, y, n_bins=100) == pytest.approx(0.025, abs=1e-12)


REFUSALS = [
    (np.array([[2.0, -1.0]]), [0], ValueError, "must not be negative, got -1 at row 0, column 1; if these are logits"),
    (np.array([[3.0, 1.0]]), [0], ValueError, "rows that sum to 1, but row 0 sums to 4; if these are logits"),
    (np.array([[0.5, 0.5], [np.nan, 1.0]]), [0, 1], ValueError, "must be finite, but 1 rows .* the first is row 1"),
    (np.array([[0.5, np.inf]]), [0], ValueError, "must be finite"),
    (np.array([0.2, 0.8]), [0, 1], ValueError, r"torch.stack\(\[1 - s, s\], dim=-1\)"),
    (np.array([[0.2], [0.8]]), [0, 1], ValueError, r"torch.stack\(\[1 - s, s\], dim=-1\)"),
    (np.ones((2, 2, 2)) / 2, [0, 1], ValueError, "flatten pixels or tokens first"),
    (np.ones((0, 3)), np.zeros(0, int), ValueError, "must hold at least 1 sample, got 0"),
    (np.ones((2, 2)) / 2, [0], ValueError, "as many as the samples: got 1 for 2 samples"),
    (np.ones((2, 2)) / 2, [0, 2], ValueError, "below the number of classes, 2, got 2; do the labels start at 1"),
    (np.ones((2, 2)) / 2, [0, -1], ValueError, "must be at least 0, got -1"),
    (np.ones((2, 2)) / 2, [0.0, 1.0], TypeError, "must be integers"),
    (np.ones((2, 2)) / 2, np.eye(2, dtype=int), ValueError, r"one-hot rows become classes with argmax\(1\)"),
    (np.array([["a", "b"]]), [0], TypeError, "must hold numbers"),
]


@pytest.mark.parametrize(("p", "y", "error", "words"), REFUSALS)
def test_bad_input_gets_one_sentence(p, y, error, words):
    for metric in ERRORS:
        with pytest.raises(error, match=words) as caught:
            metric(p, y)
        assert "\n" not in str(caught.value)


def test_rows_may_miss_1_by_rounding_only():
    p = torch.tensor([[0.9, 0.1005], [0.5, 0.5]])
    metrics.ece_hist(p, [0, 1])
    with pytest.raises(ValueError, match="row 0 sums to 1.01"):
        metrics.ece_hist(torch.tensor([[0.9, 0.11], [0.5, 0.5]]), [0, 1])
