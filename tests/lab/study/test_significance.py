"""Which methods are worse than the best: brute-force twins, and simulations of their level."""

import itertools

import numpy as np
import pytest
import torch

from softkin import SoftkinError
from softkin.lab.study import significance
from softkin.lab.study.significance import Resamples, verdict
from softkin.lab.study.tabulation import build
from softkin.metrics.statistics import Mean, Share
from study_parts import SHARP, kept, made, results


def test_two_seeds_hardly_call_a_method_worse(tmp_path):
    spec = kept(methods=tuple(SHARP), seeds=(0, 1)).spec
    table = build(spec, results(tmp_path, SHARP, range(2)), resamples=200)
    assert "Student's t over 2 seeds" in table.to_markdown()
    cells = {row.method: row.cells["nll"] for row in table.rows}
    assert not cells["one-hot"].best
    assert cells["one-hot"].tie
    assert 0.05 < cells["one-hot"].p_value <= 1


def test_with_one_seed_no_method_is_called_worse(tmp_path):
    spec = kept(methods=tuple(SHARP), seeds=(0,)).spec
    table = build(spec, results(tmp_path, SHARP, range(1)), resamples=200)
    assert (
        "one seed: no method can be called worse than another; intervals are over samples alone" in table.to_markdown()
    )
    for key in ("accuracy", "nll", "ece_hist", "ece_hist_output", "ece_kde"):
        cells = [row.cells[key] for row in table.rows]
        assert sum(cell.best for cell in cells) == 1
        assert all(cell.best or cell.tie for cell in cells), key
        assert all(cell.p_value is None for cell in cells)
        assert all(cell.low < cell.value < cell.high for cell in cells if key in ("accuracy", "nll"))


def test_other_samples_cannot_be_compared(tmp_path):
    records = [made(tmp_path, "one-hot", 0, 1.0), made(tmp_path, "ts", 0, 1.0, ids=list(range(1, 251)))]
    with pytest.raises(SoftkinError, match="TS on seed 0 was tested on other samples"):
        build(kept(methods=("one-hot", "ts"), seeds=(0,)).spec, records)


def test_resamples_draw_a_shared_sample_for_all_seeds_or_none():
    """A brute-force twin: the accuracy of seeds whose test rows overlap, with rows drawn by id."""
    ids = [[10, 11, 12, 13], [12, 13, 14, 15]]
    right = torch.tensor([[1.0, 0, 1, 0], [1, 0, 0, 1]])
    drawn = Resamples(ids, times=50, seed=3)
    values = drawn.values([Share(row) for row in right])
    generator = np.random.default_rng(drawn._seed)
    for line in values:
        picks = generator.integers(0, 6, 6)
        for s in (0, 1):
            hits = [float(right[s, ids[s].index(10 + item)]) for item in picks if 10 + item in ids[s]]
            assert line[s] == pytest.approx(sum(hits) / len(hits), abs=1e-6)


def test_noise_of_few_seeds_has_the_tails_of_students_t():
    """Seeds that differ, samples that do not: the 95 % of the noise must be that of t with S − 1 degrees."""
    from scipy.stats import t

    generator = np.random.default_rng(0)
    covered = 0
    drawn = Resamples([[0, 1]] * 6, times=1000)
    for _ in range(200):
        seen = generator.normal(size=6)
        noise = drawn.noise(seen, np.repeat(seen[None], 1000, axis=0))[:, 0]
        low, high = np.quantile(noise, [0.025, 0.975])
        covered += low <= seen.mean() <= high
    assert covered / 200 >= 0.92
    spread = np.quantile(np.abs(noise), 0.95) / (seen.std(ddof=1) / 6**0.5)
    assert spread == pytest.approx(t.ppf(0.975, 5), rel=0.15)


class DrawnOnce(Resamples):
    """Resamples of rows that all seeds test on, drawn once for all trials."""

    def __init__(self, num_rows, num_seeds):
        super().__init__([list(range(num_rows))] * num_seeds, times=1000)
        self.counts = np.random.default_rng(0).multinomial(num_rows, [1 / num_rows] * num_rows, self.times)

    def values(self, statistics):
        return np.stack([self.counts @ item.rows.numpy() / len(item.rows) for item in statistics], axis=1)


def called_worse(num_methods, num_seeds, trials, p_value=None):
    """The share of studies of equal methods, told apart by training noise alone, that call any of them worse."""
    wrong = 0
    drawn = DrawnOnce(20, num_seeds)
    if p_value is not None:
        drawn.p_value = p_value
    for trial in range(trials):
        rng = np.random.default_rng([num_methods, num_seeds, trial])
        rows = rng.normal(size=(num_methods, num_seeds, 1)) + 0.01 * rng.normal(size=(num_methods, num_seeds, 20))
        statistics = {str(m): [Mean(torch.from_numpy(row)) for row in rows[m]] for m in range(num_methods)}
        wrong += len(verdict(statistics, drawn).ties) < num_methods - 1
    return wrong / trials


@pytest.mark.slow
@pytest.mark.parametrize(("num_methods", "num_seeds"), [(2, 1), (2, 2), (2, 3), (2, 5), (6, 3), (6, 5)])
def test_equal_methods_are_seldom_called_worse(num_methods, num_seeds):
    rate = called_worse(num_methods, num_seeds, 200)
    assert rate <= (0.0 if num_seeds == 1 else 0.09)  # 5 % and two and a half standard errors


@pytest.mark.slow
def test_many_methods_can_still_be_called_worse():
    """Sixteen methods are 120 pairs: the p-value of one that is far worse must be below 1 in 2,400."""
    rng = np.random.default_rng(0)
    rows = 0.01 * rng.normal(size=(16, 5, 20)) + 0.1 * rng.normal(size=(16, 5, 1))
    rows[3] += 20
    statistics = {str(m): [Mean(torch.from_numpy(row)) for row in rows[m]] for m in range(16)}
    worse = set(statistics) - verdict(statistics, DrawnOnce(20, 5)).ties
    assert "3" in worse
    assert len(worse) == 2  # that one, and the best, which is no tie of itself


@pytest.mark.slow
def test_without_the_training_noise_equal_methods_are_called_worse():
    """The test above can fail: with the samples' noise alone, as few seeds had it once, nearly every study is wrong."""

    def of_samples(seen, resampled):
        mean = resampled.mean(axis=1)
        return float((np.abs(mean - seen.mean()) >= abs(seen.mean())).mean())

    assert called_worse(2, 2, 40, of_samples) > 0.5


def test_verdict_direction():
    right = {"good": [Share(torch.ones(50))] * 5, "bad": [Share(torch.zeros(50))] * 5}
    drawn = Resamples([list(range(50))] * 5, times=200)
    assert verdict(right, drawn, larger_is_better=True).best == "good"
    outcome = verdict(right, drawn)
    assert outcome.best == "bad"
    assert outcome.ties == set()


def test_infinite_losses_do_not_win():
    losses = {"fine": [Mean(torch.ones(50))] * 5, "endless": [Mean(torch.full((50,), torch.inf))] * 5}
    with np.errstate(invalid="ignore"):
        assert verdict(losses, Resamples([list(range(50))] * 5, times=200)).best == "fine"


def test_an_adjusted_p_value_is_the_least_level_that_rejects():
    """Down from the smallest: each counts as the smallest of all pairs of those left with the best."""

    def rejected(p, level):
        left = sorted(p, key=p.get)
        while left and p[left[0]] * len(list(itertools.combinations(["best", *left], 2))) <= level:
            left.pop(0)
        return set(p) - set(left)

    generator = np.random.default_rng(2)
    for m in (1, 2, 3, 5, 8) * 10:
        p = {str(i): float(value) for i, value in enumerate(generator.random(m) ** 4)}
        for name, level in significance.adjusted(p).items():
            if level < 1:
                assert name in rejected(p, level * (1 + 1e-12))
            assert name not in rejected(p, level * (1 - 1e-12))
            assert level <= 1


def test_adjusted_p_values_by_steps():
    """Methods are dropped one by one; those left, with the best, are compared in all their pairs."""
    generator = np.random.default_rng(1)
    for _ in range(50):
        p = {str(i): float(value) for i, value in enumerate(generator.random(6) ** 6)}
        rejected, left = [], sorted(p, key=p.get)
        while left:
            pairs = len(list(itertools.combinations(["best", *left], 2)))
            if p[left[0]] > significance.LEVEL / pairs:
                break
            rejected.append(left.pop(0))
        adjusted = significance.adjusted(p)
        assert {name for name in adjusted if adjusted[name] <= significance.LEVEL} == set(rejected)
