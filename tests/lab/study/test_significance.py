"""The three questions to a study's numbers: brute-force twins, and simulations of their level and power."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from softkin import SoftkinError
from softkin.lab.study import significance
from softkin.lab.study.significance import Resamples, Sampled, compared, verdict
from softkin.lab.study.tabulation import build
from softkin.metrics.statistics import Share
from study_parts import SHARP, kept, made, results


def sampled(values, drawn=None, calibrated=None):
    return Sampled(np.array(values, dtype=float), drawn, calibrated)


def against_zero(*lines, **options):
    """Methods with these numbers on each seed, against one that has 0 on all."""
    zero = sampled(np.zeros(len(lines[0])))
    return list(compared({str(i): (sampled(line), zero) for i, line in enumerate(lines)}, **options).values())


def test_two_seeds_seldom_call_a_method_worse(tmp_path):
    spec = kept(methods=tuple(SHARP), seeds=(0, 1)).spec
    table = build(spec, results(tmp_path, SHARP, range(2)), resamples=200)
    assert "Student's t over 2 seeds" in table.to_markdown()
    cells = {row.method: row.cells["nll"] for row in table.rows}
    assert not cells["one-hot"].best
    assert cells["one-hot"].tie == (cells["one-hot"].p_value > 0.05)


def test_with_one_seed_the_samples_decide_and_the_table_says_so(tmp_path):
    spec = kept(methods=tuple(SHARP), seeds=(0,)).spec
    table = build(spec, results(tmp_path, SHARP, range(1)), resamples=200)
    assert "one seed: the samples alone decide, and the chance of training is not in it" in table.to_markdown()
    for key in ("nll", "ece_hist"):
        cells = {row.method: row.cells[key] for row in table.rows}
        assert sum(cell.best for cell in cells.values()) == 1
        assert cells["one-hot"].p_value < 0.05  # far too sure
        assert not cells["one-hot"].tie
        assert cells["ts"].best or cells["ts"].tie
        assert all(cell.low < cell.value < cell.high for cell in cells.values())


def test_other_samples_cannot_be_compared(tmp_path):
    records = [made(tmp_path, "one-hot", 0, 1.0), made(tmp_path, "ts", 0, 1.0, ids=list(range(1, 251)))]
    with pytest.raises(SoftkinError, match="TS on seed 0 was tested on other samples"):
        build(kept(methods=("one-hot", "ts"), seeds=(0,)).spec, records)


def test_resamples_draw_a_shared_sample_for_all_seeds_or_none():
    """A brute-force twin: the accuracy of seeds whose test rows overlap, with rows drawn by id."""
    ids = [[10, 11, 12, 13], [12, 13, 14, 15]]
    right = torch.tensor([[1.0, 0, 1, 0], [1, 0, 0, 1]])
    drawn = Resamples(ids, times=50, seed=3)
    values = np.stack([drawn.values(s, [Share(right[s])])[0] for s in (0, 1)], axis=1)
    assert np.array_equal(values[:, 1], drawn.values(1, [Share(right[1])])[0])  # from the kept weights
    generator = np.random.default_rng(drawn._seed)
    for line in values:
        picks = generator.integers(0, 6, 6)
        for s in (0, 1):
            hits = [float(right[s, ids[s].index(10 + item)]) for item in picks if 10 + item in ids[s]]
            assert line[s] == pytest.approx(sum(hits) / len(hits), abs=1e-6)


def test_one_comparison_without_shared_samples_is_students_paired_t():
    generator = np.random.default_rng(0)
    for seeds in (2, 3, 5, 10):
        a, b = generator.normal(size=(2, seeds))
        (found,) = compared({"a": (sampled(a), sampled(b))}).values()
        reference = stats.ttest_rel(a, b)
        assert found.p_value == pytest.approx(reference.pvalue, rel=1e-6)
        low, high = reference.confidence_interval(0.95)
        assert (found.low, found.high) == pytest.approx((low, high), rel=1e-6)


def brute(lines, all_pairs):
    """The rule for pooled variances, word for word, without samples: p-values before the adjustment."""
    m, seeds = len(lines), len(lines[0])
    variances = [np.var(line, ddof=1) for line in lines]
    ordered = sorted(variances)
    if seeds == 2:
        pooled = np.mean(ordered[(3 * m) // 4 :])
    elif seeds == 3:
        pooled = np.mean(ordered[m // 2 :])
    else:
        pooled = np.mean([min(v, 16 * np.median(variances)) for v in variances])
    p_values = []
    for line, own in zip(lines, variances, strict=True):
        borrowed = min(max(0, m / 2 - 1), 6.5 if all_pairs else 3)
        if seeds == 2 and m > 2:
            halves = [(line[0] - line[1]) / 2**0.5 for line in lines]  # their squares are the variances
            apart = np.var(halves, ddof=1)
            common = max(0, np.mean(halves) ** 2 - apart / m)
            borrowed *= min(1, 2 * apart / (apart + common))
        freedom = (seeds - 1) * (1 + borrowed * min(1, pooled / own) ** (1 if all_pairs else 2))
        t = np.mean(line) / np.sqrt(max(own, pooled) / seeds)
        p_values.append(2 * stats.t.sf(abs(t), freedom))
    return p_values


@pytest.mark.parametrize("seeds", [2, 3, 5, 10])
@pytest.mark.parametrize("all_pairs", [False, True])
def test_variances_are_pooled(seeds, all_pairs):
    generator = np.random.default_rng([seeds, all_pairs])
    for m in (1, 3, 8, 20):
        lines = generator.normal(size=(m, seeds)) * generator.gamma(1, size=(m, 1)) + 1
        lines[0] *= 20  # a wild one
        lines += 3 * generator.normal(size=seeds)  # the noise of the other method, common to all
        raw = {str(i): p for i, p in enumerate(brute(lines, all_pairs))}
        found = against_zero(*lines, all_pairs=all_pairs)
        expected = significance.adjusted(raw, all_pairs=all_pairs)
        assert [one.p_value for one in found] == pytest.approx(list(expected.values()), rel=1e-6)


def test_samples_that_seeds_share_are_not_counted_twice():
    """Rows' noise that differs from seed to seed is in the spread over seeds already; what is common is added."""
    generator = np.random.default_rng(0)
    seen, zero = generator.normal(1, 0.3, size=5), np.zeros((4000, 5))
    apart = seen + 0.3 * generator.normal(size=(4000, 5))
    common = seen + 0.3 * generator.normal(size=(4000, 1))
    plain, own, shared = (
        compared({"a": (sampled(seen, drawn), sampled(np.zeros(5), None if drawn is None else zero))})["a"]
        for drawn in (None, apart, common)
    )
    assert own.p_value == pytest.approx(plain.p_value, rel=0.3)
    assert own.by_rows < 0.1
    assert shared.p_value > 3 * plain.p_value
    assert 0.5 < shared.by_rows < 1
    spread = np.std(seen, ddof=1) / 5**0.5
    draws = spread * generator.standard_t(4, 400_000) + 0.3 * generator.normal(size=400_000)
    assert shared.p_value == pytest.approx(np.mean(np.abs(draws) >= seen.mean()), rel=0.1)
    assert shared.high - seen.mean() == pytest.approx(np.quantile(draws, 0.975), rel=0.03)


def test_one_seed_has_the_interval_and_the_p_value_of_its_samples():
    generator = np.random.default_rng(0)
    drawn = 0.1 * generator.normal(size=(5000, 1))
    found = compared({"a": (sampled([0.25], 0.25 + drawn), sampled([0.0], np.zeros((5000, 1))))})["a"]
    assert found.p_value == pytest.approx(2 * stats.norm.sf(2.5), rel=0.15)
    assert (found.low, found.high) == pytest.approx((0.25 - 0.196, 0.25 + 0.196), abs=0.01)


def test_equal_differences_on_two_seeds_prove_little():
    (equal,), (apart,) = against_zero([0.15, 0.15]), against_zero([0.15, 0.16])
    assert 1e-3 < equal.p_value < apart.p_value < 0.05
    (rounding,) = against_zero([0.15, 0.15 + 1e-17])
    assert rounding.p_value == pytest.approx(equal.p_value)


def test_methods_with_the_same_numbers_count_once():
    a, b = [1.0, 1.2, 0.9, 1.1, 1.0], [0.3, 0.1, 0.2, 0.4, 0.2]
    twice = against_zero(a, b, a, a, b)
    once = against_zero(a, b)
    assert [one.p_value for one in twice] == [once[i].p_value for i in (0, 1, 0, 0, 1)]
    (same,) = against_zero([0.0] * 5)
    assert (same.same, same.p_value, same.proved) == (True, 1.0, False)


def test_the_bias_of_a_calibration_error_is_no_difference():
    """A method with more bins in use has a larger error when both are calibrated."""
    a, b = [0.020, 0.021, 0.022, 0.019, 0.020], [0.010, 0.011, 0.009, 0.010, 0.010]
    assert compared({"a": (sampled(a), sampled(b))})["a"].proved
    biased = compared({"a": (sampled(a, calibrated=0.02), sampled(b, calibrated=0.01))})["a"]
    assert not biased.proved
    assert biased.value == pytest.approx(0.0104)


def studies(num_methods, num_seeds, trials, worse=0.0, *, all_pairs=True, seed=0):
    """The share of studies that call any method worse, and the share that call the last one worse."""
    any_of, last = 0, 0
    rng = np.random.default_rng([num_methods, num_seeds, seed])
    for _ in range(trials):
        values = rng.normal(size=(num_methods, num_seeds))
        values[-1] += worse
        methods = {str(i): sampled(line) for i, line in enumerate(values)}
        decided = verdict(methods, baselines=("0",))
        found = decided.to_best if all_pairs else decided.to_baseline["0"]
        any_of += any(one.proved for one in found.values())
        last += str(num_methods - 1) in found and found[str(num_methods - 1)].proved
    return any_of / trials, last / trials


@pytest.mark.slow
@pytest.mark.parametrize("all_pairs", [True, False])
@pytest.mark.parametrize(("num_methods", "num_seeds"), [(2, 2), (2, 5), (4, 3), (16, 3), (16, 5), (30, 5)])
def test_equal_methods_are_seldom_told_apart(num_methods, num_seeds, all_pairs):
    rate, _ = studies(num_methods, num_seeds, 300, all_pairs=all_pairs)
    assert rate <= 0.085  # 5 % and three standard errors


@pytest.mark.slow
def test_a_difference_of_four_deviations_is_seen():
    assert studies(16, 5, 100, worse=4.0)[1] > 0.9
    assert studies(16, 5, 100, worse=4.0, all_pairs=False)[1] > 0.85


def test_what_a_study_says_it_would_have_seen_it_sees_in_four_of_five():
    rng = np.random.default_rng(0)
    least = np.mean([against_zero(rng.normal(size=10))[0].least for _ in range(300)])
    seen = np.mean([against_zero(rng.normal(least, 1, size=10))[0].proved for _ in range(300)])
    assert 0.7 < seen < 0.9


def test_the_three_questions():
    rng = np.random.default_rng(0)
    means = {"one-hot": 0.10, "ts": 0.02, "mixup": 0.07, "mixup+ts": 0.02}
    methods = {name: sampled(mean + 0.003 * rng.normal(size=5)) for name, mean in means.items()}
    decided = verdict(methods, baselines=("one-hot", "ts", "absent"), networks={"ts": "one-hot", "mixup+ts": "mixup"})
    assert decided.ties | {decided.best} == {"ts", "mixup+ts"}
    assert {name for name, one in decided.to_baseline["one-hot"].items() if one.proved} == {"ts", "mixup", "mixup+ts"}
    assert decided.to_baseline["ts"]["mixup"].value > 0
    assert not decided.to_baseline["ts"]["mixup+ts"].proved
    assert all(one.proved and one.value < 0 for one in decided.to_network.values())
    assert set(decided.to_baseline) == {"one-hot", "ts"}


def test_what_the_baseline_has_decided_is_not_left_open():
    """With two seeds all pairs decide little; but if the best is better than one-hot, one-hot is no tie of it."""
    methods = {"one-hot": sampled([0.2263, 0.2137]), "ts": sampled([0.02, 0.02]), "uniform": sampled([0.021, 0.0213])}
    alone, decided = verdict(methods), verdict(methods, baselines=("one-hot",))
    assert "one-hot" in alone.ties
    assert decided.to_baseline["one-hot"][decided.best].proved
    assert decided.ties | {decided.best} == {"ts", "uniform"}
    assert "one-hot" not in verdict(methods, networks={"ts": "one-hot"}).ties


def test_what_is_worse_than_any_method_is_no_tie_of_the_best():
    """TS repairs one-hot's networks, so one-hot is not the best, though it cannot be told from we+ts, which is."""
    methods = two_seeds([0.36, 0.2]) | {"we+ts": sampled([0.055, 0.04], np.full((200, 2), 0.05))}
    found = verdict(methods, baselines=["one-hot"], networks={"ts": "one-hot"})
    assert found.best == "we+ts"
    assert not found.to_baseline["one-hot"]["we+ts"].proved
    assert found.to_network["ts"].proved
    assert found.ties == {"ts"}
    more = {name: replace(one, seen=-one.seen, drawn=-one.drawn) for name, one in methods.items()}
    assert verdict(more, larger_is_better=True, baselines=["one-hot"], networks={"ts": "one-hot"}).ties == {"ts"}


@pytest.mark.slow
@pytest.mark.parametrize("all_pairs", [True, False])
def test_two_seeds_and_a_wild_method_seldom_tell_equal_methods_apart(all_pairs):
    """All differences to a wild best share its noise, of which two seeds know little, however many methods there are."""
    rng, called = np.random.default_rng(0), 0
    for _ in range(400):
        values = rng.gamma(4, size=(16, 2)) / 2 - 2
        values[1] *= 30
        methods = {str(i): sampled(line) for i, line in enumerate(values)}
        first = min(methods, key=lambda name: methods[name].seen.mean()) if all_pairs else "0"
        pairs = {name: (one, methods[first]) for name, one in methods.items() if name != first}
        called += any(one.proved for one in compared(pairs, all_pairs=all_pairs).values())
    assert called <= 24  # 5 % and one standard error


def two_seeds(effects, seed=0, rows=0.006, worth=200):
    """One-hot and its temperature-scaled self on two seeds, whose difference has these values and the samples' noise."""
    rng = np.random.default_rng(seed)
    plain = 0.05 + np.array(effects)
    noise = rng.normal(scale=rows, size=(worth, 2))
    own = sampled(plain, plain + noise), sampled([0.05, 0.05], np.full((worth, 2), 0.05))
    return dict(zip(("one-hot", "ts"), own, strict=True))


def test_two_seeds_show_that_a_calibrator_changes_its_networks():
    methods = two_seeds([0.046, 0.038])
    found = verdict(methods, baselines=["one-hot"], networks={"ts": "one-hot"})
    deviation = (methods["one-hot"].drawn - methods["ts"].drawn).mean(axis=1).std()
    assert found.to_network["ts"].p_value == pytest.approx(2 * stats.norm.sf(0.042 / deviation), rel=1e-6, abs=1e-12)
    assert found.to_network["ts"].p_value < 0.001
    assert found.to_baseline["one-hot"]["ts"].proved
    assert "one-hot" not in found.ties
    assert not verdict(methods, baselines=["one-hot"]).to_baseline["one-hot"]["ts"].proved  # of other networks


def test_seeds_that_disagree_about_a_calibrator_show_nothing():
    found = verdict(two_seeds([0.09, -0.01]), networks={"ts": "one-hot"})
    assert found.to_network["ts"].p_value == 1
    five = {name: sampled([0.05, 0.06, 0.07, 0.08, 0.09 + k]) for k, name in enumerate(("one-hot", "ts"))}
    same = compared({"ts": (five["ts"], five["one-hot"])}, same_network=True)
    assert same == compared({"ts": (five["ts"], five["one-hot"])})  # five seeds: as any other comparison


def test_a_calibrator_that_changes_nothing_is_seldom_said_to():
    called = 0
    for seed in range(400):
        chance = np.random.default_rng([1, seed]).normal(scale=0.006, size=2)
        called += verdict(two_seeds(chance, seed), networks={"ts": "one-hot"}).to_network["ts"].proved
    assert called <= 28


def test_verdict_direction():
    methods = {"good": sampled([1.0] * 5), "bad": sampled([0.0] * 5)}
    assert verdict(methods, larger_is_better=True).best == "good"
    outcome = verdict(methods)
    assert outcome.best == "bad"
    assert outcome.ties == set()


def test_infinite_losses_do_not_win():
    drawn = np.ones((200, 5))
    methods = {
        "fine": sampled([1.0] * 5, drawn),
        "endless": sampled([np.inf] * 5, drawn),
        "other": sampled([np.inf] * 5),
    }
    decided = verdict(methods)
    assert decided.best == "fine"
    assert decided.to_best["endless"].proved
    assert decided.intervals["endless"] == (np.inf, np.inf)
    assert not compared({"a": (methods["endless"], methods["other"])})["a"].proved


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


def test_the_interval_of_a_difference_knows_that_both_have_the_same_samples():
    """A method that is worse by 1 on every sample is so for sure, however much the samples differ."""
    noise = 10 * np.random.default_rng(0).normal(size=(500, 1)) + np.zeros((500, 3))
    better, worse = sampled([50.0, 51.0, 49.0], 50 + noise), sampled([51.0, 52.0, 50.0], 51 + noise)
    decided = verdict({"better": better, "worse": worse})
    assert decided.to_best["worse"].high - decided.to_best["worse"].low < 0.1
    low, high = decided.intervals["worse"]
    assert high - low > 10
