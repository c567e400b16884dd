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


@pytest.mark.parametrize("delta", [0.01, 0.2])
def test_the_binomial_limit_is_the_largest_rate_at_which_so_few_errors_are_likely(delta):
    wrong, answered = torch.tensor([0, 0, 1, 3, 9, 10]), torch.tensor([1, 40, 40, 10, 10, 10])
    limits = bounds.binomial_limit(wrong, answered, delta)
    for w, n, limit in zip(wrong.tolist(), answered.tolist(), limits.tolist(), strict=True):
        assert limit == 1 if w == n else stats.binom.cdf(w, n, limit) == pytest.approx(delta)


@pytest.mark.parametrize(("hits", "count"), [(0, 7), (3, 7), (7, 7), (38, 40)])
@pytest.mark.parametrize("level", [0.8, 0.99])
def test_intervals_of_shares_are_scipys(hits, count, level):
    for ours, method in ((bounds.of_share, "wilson"), (bounds.exactly_of_share, "exact")):
        interval = ours(hits, count, level)
        ends = stats.binomtest(hits, count).proportion_ci(level, method=method)
        assert (interval.value, interval.low, interval.high) == pytest.approx((hits / count, ends.low, ends.high))
    empty = bounds.of_share(0, 0, level)
    assert math.isnan(empty.value)
    assert (empty.low, empty.high) == (0, 1)


@pytest.mark.parametrize("n", [1, 2, 40])
def test_equal_numbers_are_not_sure_to_be_all_there_is(n):
    """A share 1 − ((1 − level)/2)^(1/n) of numbers at the other end may only not have shown."""
    interval = bounds.of_mean(torch.full((n,), 2.0), 0.9, -1.0, 7.0)
    rare = stats.binomtest(0, n).proportion_ci(0.9, method="exact").high
    assert (interval.value, interval.low, interval.high) == pytest.approx((2, 2 - 3 * rare, 2 + 5 * rare))
    assert bounds.of_mean(torch.full((n,), 2.0), 0.9, 2.5, 7.0).low == 2


@pytest.mark.parametrize("value", [0, 1, -0.1, 1.5])
def test_shares_lie_strictly_between_0_and_1(value):
    assert bounds.share(0.999, "risk") == 0.999
    with pytest.raises(ValueError, match="`risk` must be between 0 and 1, such as 0.05, got"):
        bounds.share(value, "risk")


def test_limits_of_several_rows_of_scores():
    """(…, n): each row has a limit of its own, the ⌈(n + 1)(1 − α)⌉-th smallest."""
    scores = torch.rand(3, 25, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    limits = bounds.conformal_limit(scores, 0.9)
    assert limits.tolist() == [sorted(row)[math.ceil(26 * 0.9) - 1] for row in scores.tolist()]


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9])
def test_weighted_limits_equal_their_formula(coverage):
    rng = np.random.default_rng(3)
    scores, weights, own = np.sort(rng.random(30)), rng.exponential(size=30), rng.exponential(size=12) * 4
    found = bounds.weighted_limits(*(torch.from_numpy(part) for part in (scores, weights, own)), coverage)
    for limit, w in zip(found.tolist(), own, strict=True):
        needed = coverage * (weights.sum() + w)
        enough = [q for q in scores if weights[scores <= q].sum() >= needed]
        assert limit == (min(enough) if enough else math.inf)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.01, 0.05, 0.2])
def test_mapie_controls_the_same_risks(delta):
    """A rate of errors is below α with confidence 1 − δ where MAPIE's p-value of its risk control is at most δ."""
    methods = pytest.importorskip("mapie.risk_control.methods")
    wrong, answered = (grid.reshape(-1) for grid in np.meshgrid(np.arange(0, 40, 3), np.array([50, 200, 999])))
    alphas = np.array([0.02, 0.1, 0.3])
    p = methods.compute_hoeffding_bentkus_p_value(wrong / answered, answered.astype(float), alphas, binary=True)
    limits = bounds.binomial_limit(torch.tensor(wrong), torch.tensor(answered), delta).numpy()
    assert ((limits[:, None] <= alphas) == (p <= delta)).all()
    assert 0 < (p <= delta).mean() < 1
