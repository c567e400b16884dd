"""The intervals of measures: those of means are Student's, and hold as often as they say."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from softkin.decisions import PredictionSets, bounds


@pytest.mark.parametrize("n", [2, 5, 40, 1000])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_interval_of_a_mean_is_scipys(n, level):
    values = np.random.default_rng(n).gamma(2.0, size=n)
    interval = bounds.of_mean(torch.from_numpy(values), level, -1e9, 1e9)
    low, high = stats.t.interval(level, n - 1, loc=values.mean(), scale=stats.sem(values))
    assert (interval.value, interval.low, interval.high) == pytest.approx((values.mean(), low, high), rel=1e-9)
    assert interval.level == level
    within = bounds.of_mean(torch.from_numpy(values), level, float(values.mean()), float(values.mean()))
    assert within.low == within.high == pytest.approx(values.mean())


def test_no_rows_have_no_mean():
    assert math.isnan(bounds.of_mean(torch.zeros(0), 0.95, 0.0, 1.0).value)


@pytest.mark.slow
def test_the_interval_of_the_mean_size_covers():
    """Of 300 test sets of 60 rows, the intervals of about 95 % hold the mean size of 40,000 rows."""
    generator = torch.Generator().manual_seed(0)

    def drawn(n):
        z = 2 * torch.randn(n, 6, generator=generator, dtype=torch.float64)
        return z, torch.multinomial(z.softmax(1), 1, generator=generator)[:, 0]

    rule = PredictionSets(0.9).fit(*drawn(2000))
    size = rule.evaluate(*drawn(40_000))["size"]
    inside = 0
    for _ in range(300):
        interval = rule.evaluate(*drawn(60))["size"]
        inside += interval.low <= size.value <= interval.high
    assert stats.binomtest(inside, 300, 0.95).pvalue > 0.001


def test_the_limit_is_the_rank_that_the_theorem_names():
    scores = torch.arange(1.0, 100.0, dtype=torch.float64)  # 99 of them: ⌈100 · 0.9⌉ = 90
    assert bounds.conformal_limit(scores, 0.9) == 90
    assert bounds.conformal_limit(scores[:98], 0.9) == 90  # ⌈99 · 0.9⌉ = ⌈89.1⌉
    assert bounds.rank(99, 0.07) == 7  # and not 8, which 100 · 0.07 = 7.000000000000001 would give
    assert [bounds.fewest_rows(c) for c in (0.5, 0.9, 0.95, 0.99)] == [1, 9, 19, 99]
    for coverage in (0.5, 0.8, 0.9, 0.95, 0.99):
        n = bounds.fewest_rows(coverage)
        assert bounds.rank(n, coverage) <= n
        assert bounds.rank(n - 1, coverage) > n - 1
