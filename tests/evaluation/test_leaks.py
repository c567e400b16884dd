"""Rows that a calibrator was fitted on are found by their content."""

import numpy as np
import torch

from softkin.evaluation import leaks
from softkin.predictions import Predictions


def test_digests_of_rows():
    logits, labels = torch.randn(1000, 5), torch.randint(5, (1000,))
    first = leaks.row_digests(Predictions(logits, labels))
    assert len(set(first.tolist())) == 1000
    assert np.array_equal(leaks.row_digests(Predictions(logits.double(), labels)), first)
    assert not np.isin(leaks.row_digests(Predictions(logits, (labels + 1) % 5)), first).any()
    assert not np.isin(leaks.row_digests(Predictions(logits.flip(1), labels)), first).any()
    assert leaks.notice(3, 1000, "x", "y") is None  # a few equal rows prove nothing
    assert leaks.warning({}, "y") is None
    assert leaks.warning({"calibration": "nonsense"}, "y") is None


def saturated(n, *, seed, ids=None):
    """Probabilities of which most are 0 and 1, as of a network that has learnt its data by heart."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (n,), generator=generator)
    p = torch.softmax(torch.randn(n, 10, generator=generator), dim=1)
    one_hot = torch.rand(n, generator=generator) < 0.8
    p[one_hot] = torch.nn.functional.one_hot(labels[one_hot], 10).float()
    return Predictions.from_probabilities(p, labels, sample_ids=ids, name=f"file {seed}")


def test_equal_rows_of_other_samples_are_no_leak():
    for ids, other_ids in (
        (None, None),
        (list(range(2000)), list(range(2000))),
        ([f"a{i}" for i in range(2000)], None),
    ):
        fitted, other = saturated(2000, seed=0, ids=ids), saturated(2000, seed=1, ids=other_ids)
        assert leaks.between(fitted, other) is None
        assert "2,000 of the 2,000 samples" in leaks.between(fitted, fitted)
    # A part of it among others is noticed by the rows that speak for themselves, and by ids where there are any.
    fitted = saturated(2000, seed=0, ids=[f"image {i}" for i in range(2000)])
    again = fitted.take(torch.arange(500))
    assert "500 of the 500 samples" in leaks.between(fitted, again)
    from dataclasses import replace

    assert " of the 500 samples" in leaks.between(fitted, replace(again, sample_ids=None))
    assert leaks.between(fitted, replace(again, sample_ids=None)) < "2"  # about 100: a fifth is not saturated


def test_equal_ids_are_a_leak_whatever_the_scores_unless_labels_differ():
    ids = [f"image {i}" for i in range(300)]
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(300, 5, generator=generator), torch.randint(5, (300,), generator=generator)
    fitted = Predictions(logits, labels, sample_ids=ids, name="fitted")
    for scores in (logits.half().float(), 2 * logits):
        again = Predictions(scores, labels, sample_ids=ids, name="again")
        assert "300 of the 300 samples of again" in leaks.between(fitted, again)
    others = Predictions(2 * logits, labels.flip(0), sample_ids=ids, name="others")
    assert leaks.between(fitted, others) is None
    numbered = [Predictions(scores, labels, sample_ids=torch.arange(300), name="x") for scores in (logits, 2 * logits)]
    assert leaks.between(*numbered) is None


def test_coarse_scores_of_disjoint_samples_are_no_leak():
    """The votes of 20 trees for 3 classes: 231 different rows, and many of them in both files."""
    generator = torch.Generator().manual_seed(0)
    sharp = torch.softmax(2 * torch.randn(1600, 3, generator=generator), dim=1)
    votes = torch.multinomial(sharp, 20, replacement=True, generator=generator)
    p = torch.nn.functional.one_hot(votes, 3).double().mean(dim=1)
    labels = torch.multinomial(sharp, 1, generator=generator)[:, 0]
    for n in (100, 400, 800):
        halves = [
            Predictions.from_probabilities(p[i * n : (i + 1) * n], labels[i * n : (i + 1) * n], name="x")
            for i in (0, 1)
        ]
        common = np.isin(leaks.row_digests(halves[1]), leaks.row_digests(halves[0])).mean()
        assert common > 0.2
        assert leaks.between(*halves) is None
        assert f"{n} of the {n} samples" in leaks.between(halves[0], halves[0])
