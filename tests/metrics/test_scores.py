"""Accuracy and proper scores."""

import math

import numpy as np
import pytest
import torch

import metrics_twins as twins
from softkin import metrics
from softkin.metrics.intervals import MeanLoss
from softkin.metrics.statistics import Loss


def test_nll_and_brier_by_hand():
    p, y = np.array([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]]), np.array([0, 2])
    assert metrics.nll(p, y) == pytest.approx(-(np.log(0.5) + np.log(0.1)) / 2, rel=1e-14)
    squares = (0.25 + 0.0625 * 2 + 0.01 + 0.64 + 0.81) / 2
    assert metrics.brier(p, y) == pytest.approx(squares, rel=1e-14)
    assert metrics.brier(p, y, per="score") == pytest.approx(squares / 3, rel=1e-14)
    assert metrics.brier(p, y, convention="kull2019") == pytest.approx(squares / 3, rel=1e-14)


def test_a_true_class_without_probability_makes_the_nll_infinite():
    assert metrics.nll(np.array([[1.0, 0.0]]), np.array([1])) == float("inf")
    worst = metrics.nll(np.array([[1.0, 0.0]] + [[0.5, 0.5]] * 3), np.array([1, 0, 0, 0]), confidence=0.95)
    assert worst.high == float("inf")
    assert worst.low < float("inf")  # some resamples miss the row


def test_ties_go_to_the_first_class_in_accuracy_and_top_k():
    p = np.full((4, 4), 0.25)
    y = np.arange(4)
    assert metrics.accuracy(p, y) == 0.25
    assert [metrics.top_k_accuracy(p, y, k=k) for k in (1, 2, 3, 4)] == [0.25, 0.5, 0.75, 1]


def test_top_k_equals_sorting():
    p, y = twins.random_case(2, n=300, k=8)
    ranked = np.argsort(-p, axis=1, kind="stable")
    for k in (1, 3, 8):
        assert metrics.top_k_accuracy(p, y, k=k) == pytest.approx((ranked[:, :k] == y[:, None]).any(1).mean())
    assert metrics.top_k_accuracy(p, y, k=1) == metrics.accuracy(p, y)
    with pytest.raises(ValueError, match="`k` must be at most the number of classes, 8, got 9"):
        metrics.top_k_accuracy(p, y, k=9)


@pytest.mark.parametrize("seed", range(4))
def test_intervals_of_losses_know_what_a_wrong_answer_adds(seed):
    """The excess over the loss of a right answer, row by row; at most, the winner's score leaves 1 − c to a class."""
    p, y = twins.random_case(seed, n=25, k=4)

    def square(row, k):
        return sum((q - (j == k)) ** 2 for j, q in enumerate(row))

    c = p.max(1)
    losses = {
        "nll": ([-math.log(row[k]) for row, k in zip(p, y, strict=True)], [-math.log(q) for q in c],
                [max(0.0, math.log(q) - math.log(1 - q)) for q in c], math.inf),
        "brier": ([square(row, k) for row, k in zip(p, y, strict=True)], [square(row, row.argmax()) for row in p],
                  [square([q, 1 - q], 1) - square([q, 1 - q], 0) if q > 0.5 else 0.0 for q in c], 2.0),
    }  # fmt: skip
    for name, (seen, right, possible, most) in losses.items():
        excess = torch.tensor(seen) - torch.tensor(right)
        moments = MeanLoss.of(
            np.mean(seen), np.var(seen), excess.double(), torch.tensor(possible).double(), torch.from_numpy(c)
        )
        low, high = moments.ends(0.9)
        for options, part in (({}, 1), ({"per": "score"}, 4)) if name == "brier" else (({}, 1),):
            interval = getattr(metrics, name)(p, y, confidence=0.9, **options)
            assert (interval.low * part, interval.high * part) == pytest.approx((low, min(high, most)), rel=1e-5)


def test_a_square_loss_is_at_most_2():
    p, y = np.array([[1.0, 0.0]] * 3), np.array([1, 1, 1])
    assert metrics.brier(p, y, confidence=0.95).high == 2
    assert metrics.brier(p, y, per="score", confidence=0.95).high == 1


def ranked_loss(row, k):
    """(1/(K−1)) Σ_{j<K} (P(class ≤ j) − [k ≤ j])², from its definition."""
    return sum((sum(row[: j + 1]) - (k <= j)) ** 2 for j in range(len(row) - 1)) / (len(row) - 1)


@pytest.mark.parametrize("k", [2, 3, 7])
def test_ranked_probability_score_equals_its_definition(k):
    p, y = twins.random_case(0, n=40, k=k)
    expected = np.mean([ranked_loss(row, label) for row, label in zip(p, y, strict=True)])
    assert metrics.rps(p, y) == pytest.approx(expected, rel=1e-12)
    interval = metrics.rps(p, y, confidence=0.95)
    assert 0 <= interval.low < interval < interval.high <= 1
    if k == 2:
        assert metrics.rps(p, y) == pytest.approx(metrics.brier(p, y) / 2, rel=1e-12)


def test_ranked_probability_score_knows_the_order():
    row = np.array([[0.1, 0.2, 0.4, 0.2, 0.1]])
    scores = [metrics.rps(row, [k]) for k in range(5)]
    assert scores[2] < scores[1] < scores[0]
    assert scores[1] == pytest.approx(scores[3])


def test_interval_of_the_ranked_probability_score_knows_what_a_wrong_answer_adds():
    from softkin.metrics.catalogue import METRICS
    from softkin.metrics.scopes import Claims

    p, y = twins.random_case(3, n=25, k=4)
    answers = METRICS["rps"].statistic(Claims.of(p, y))._answers()
    right = np.array([ranked_loss(row, row.argmax()) for row in p])
    own = np.array([ranked_loss(row, label) for row, label in zip(p, y, strict=True)])
    most = np.array([max(ranked_loss(row, j) for j in range(4)) for row in p])
    np.testing.assert_allclose(answers.excess, own - right, atol=1e-12)
    np.testing.assert_allclose(answers.possible, np.maximum(0, most - right), atol=1e-12)


@pytest.mark.parametrize("n", [50, 1000])
def test_a_loss_may_be_stated_for_each_class(n):
    """With −ln p it is the NLL: the interval too, but for what a wrong answer that did not occur would cost."""
    generator = torch.Generator().manual_seed(n)
    p = torch.softmax(3 * torch.randn(n, 4, generator=generator, dtype=torch.float64), dim=1)
    y = torch.multinomial(p, 1, generator=generator)[:, 0]
    loss, twin = Loss.of_classes(-p.log(), p, y), metrics.nll(p, y, confidence=0.95)
    assert loss.value() == pytest.approx(twin.value)
    assert loss.ends(0.95) == pytest.approx((twin.low, twin.high), rel=0.02)
    winning, best = p.max(dim=1)
    excess = torch.tensor([float(p[i, best[i]].log() - p[i, y[i]].log()) for i in range(n)], dtype=torch.float64)
    possible = torch.tensor(
        [
            float(sum(p[i, k] * (p[i, best[i]] / p[i, k]).log() for k in range(4) if k != best[i]) / (1 - winning[i]))
            for i in range(n)
        ],
        dtype=torch.float64,
    )
    assert loss.ends(0.95) == pytest.approx(MeanLoss.of_rows(loss.rows, excess, possible, winning).ends(0.95))
    assert Loss.of_classes(1 - p, p, y, at_most=0.01).ends(0.95)[1] == 0.01
    sure = torch.tensor([[1.0, 0.0]], dtype=torch.float64).repeat(20, 1)
    assert Loss.of_classes(1 - sure, sure, torch.zeros(20, dtype=torch.int64)).ends(0.95)[1] >= 0
