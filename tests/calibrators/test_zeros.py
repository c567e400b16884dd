"""Probabilities of exactly 0: what they stand for, and that calibrators come out as from full precision."""

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calibration_data import drawn
from softkin import calibrators, metrics
from softkin.calibrators import EnsembleTemperatureScaling, IsotonicCalibration, TemperatureScaling, VectorScaling
from softkin.calibrators.zeros import TINY, floor_of, logarithms, smallest_step

OPTIONS = {"matrix": {"lam": 0.01}, "dirichlet": {"lam": 0.01}}


def rounded(p, decimals=3):
    """Rounded, and normalised again, as rows must sum to 1."""
    p = p.mul(10**decimals).round()
    return p / p.sum(dim=1, keepdim=True)


def coarse(z, decimals=3):
    return rounded(torch.softmax(z, dim=1), decimals)


# The step and the floor


@pytest.mark.parametrize(
    ("make", "step"),
    [
        (lambda p: p.mul(1000).round().div(1000), 1e-3),
        (lambda p: p.mul(1000).round().div(1000).float(), 1e-3),
        (lambda p: p.mul(100).round().div(100)[:15, :2], 1e-2),  # where no score is one step
        (lambda p: p.mul(37).round().div(37), 1 / 37),
        (lambda p: (p * 1e-4).half(), 2.0**-24),  # float16's subnormal numbers
        (lambda p: torch.where(p < 1e-3, 0.0, p), None),  # cut off, and on no grid: the least
        (lambda p: torch.where(p.float() < 1e-40, 0.0, p.float()), None),
        (lambda p: torch.eye(3)[[0, 1, 2]], 1.0),
        (lambda p: torch.tensor([[0.3, 0.7, 0.0], [0.0, 0.4, 0.6]]), 0.1),
    ],
)
def test_the_smallest_step(make, step):
    p = make(torch.softmax(drawn(n=1500, k=5)[0], dim=1)).double()
    positive = p[p > 0]
    assert smallest_step(positive) == pytest.approx(float(positive.min()) if step is None else step, rel=1e-6)


def test_rounded_and_normalised_again_has_about_the_same_step():
    p = coarse(drawn(n=1500, k=5)[0])
    assert smallest_step(p[p > 0]) == pytest.approx(1e-3, rel=0.01)


def test_the_floor_is_the_best_by_brute_force():
    """Of all scores up to half a step the one that, with the best temperature, has the least NLL."""
    z, y = drawn(n=400, k=5)
    p = coarse(z, 2)
    estimate = floor_of(p, y)

    def least_nll(floor):
        u = logarithms(p, floor)
        # Half of a hit among the zeros counts as well.
        betas = torch.linspace(0.3, 0.8, 60, dtype=torch.float64)[:, None, None]
        logits = betas * u
        own = logits.gather(2, y[None, :, None].expand(60, -1, 1))[:, :, 0]
        nll = (logits.logsumexp(dim=2) - own).sum(dim=1)
        return float((nll - 0.5 * betas[:, 0, 0] * (math.log(floor) - math.log(estimate.step / 2))).min()) / len(y)

    grid = np.geomspace(estimate.step / 2 * 1e-2, estimate.step / 2, 50)
    best = grid[int(np.argmin([least_nll(f) for f in grid]))]
    assert estimate.value == pytest.approx(best, rel=0.1)
    assert estimate.zeros == int((p == 0).sum())
    assert estimate.scores == p.numel()


@pytest.mark.parametrize("n", [50, 100, 1000])
def test_zeros_that_are_never_true_have_half_a_hit(n):
    """All rows are (0.6, 0.4, 0), and 60 % and 40 % of them are of the first two classes: solved by hand.

    The zeros get the mass e = 0.5/n. The mean of ln p is kept, so that the first class gets 0.6 + e·ln 4/ln 1.5 (scores
    count in units of half a step, 0.1), the second the rest; their odds give β, and the odds of the zeros then f.
    """
    p = torch.tensor([[0.6, 0.4, 0.0]], dtype=torch.float64).repeat(n, 1)
    y = (torch.arange(n) % 5 >= 3).long()
    share = 0.5 / n
    first = 0.6 + share * math.log(4) / math.log(1.5)
    second = 1 - share - first
    beta = math.log(first / second) / math.log(1.5)
    assert floor_of(p, y).value == pytest.approx(0.4 * (share / second) ** (1 / beta), rel=1e-4)


def test_labels_decide_how_far_below():
    """Zeros that are true as often as half a step says stay there; zeros that never are go far below."""
    generator = torch.Generator().manual_seed(0)
    votes = torch.multinomial(torch.tensor([0.6, 0.3, 0.05, 0.05]), 20 * 2000, True, generator=generator).reshape(
        2000, 20
    )
    p = torch.nn.functional.one_hot(votes, 4).double().mean(dim=1)
    often = torch.multinomial(torch.tensor([0.6, 0.3, 0.05, 0.05]), 2000, True, generator=generator)
    assert floor_of(p, often).value == pytest.approx(0.025)
    assert floor_of(p, torch.multinomial(p, 1, generator=generator)[:, 0]).value < 0.005
    assert floor_of(p).value == pytest.approx(0.025)


def test_no_zeros_no_matter():
    z, y = drawn(n=1500, k=5)
    p = torch.softmax(z, dim=1)
    assert torch.equal(logarithms(p, 0.5), p.log())
    assert floor_of(p, y).value == pytest.approx(float(p.min()) / 2)


def test_the_smallest_number_there_is_has_no_half():
    p = torch.tensor([[1.0, 0.0], [1.0, 5e-324], [0.4, 0.6]], dtype=torch.float64)
    assert floor_of(p, torch.tensor([0, 0, 1])).value == TINY
    with pytest.warns(UserWarning, match="1 of 3 scores are exactly 0 or 1; probabilities of 0 are taken"):
        cal = IsotonicCalibration().fit(p, torch.tensor([0, 0, 1]), from_probabilities=True)
    assert bool(torch.isfinite(cal.predict_proba(p, from_probabilities=True)).all())


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 4))
def test_the_floor_keeps_the_order(seed, k, decimals):
    z, y = drawn(seed, n=60, k=k)
    p = coarse(z, decimals)
    floor = floor_of(p, y)
    assert TINY <= floor.value <= floor.step / 2
    log_p = logarithms(p, floor.value)
    assert bool(torch.isfinite(log_p).all())
    assert torch.equal(log_p.argsort(dim=1, stable=True), p.argsort(dim=1, stable=True))
    finer = logarithms(torch.tensor([[0.0, 1e-9, 1 - 1e-9]], dtype=torch.float64), floor.value)
    assert finer[0, 0] < finer[0, 1]  # also for scores that are finer than those of the fit


# Calibrators


@pytest.mark.parametrize("name", list(calibrators.REGISTRY))
def test_rounding_hardly_changes_a_calibrator(name):
    """Three decimals: labels that are drawn anew move the predictions by more than the rounding does."""
    make = lambda: calibrators.REGISTRY[name](**OPTIONS.get(name, {}))  # noqa: E731
    z, y = drawn(n=1500, k=5)
    test, test_y = drawn(seed=1, n=1500, k=5)
    whole = make().fit(torch.softmax(z, dim=1), y, from_probabilities=True)
    with pytest.warns(
        UserWarning, match=r"of 7,500 probabilities are exactly 0, and are taken as .*step between scores, 0.0009"
    ) as said:
        cal = make().fit(coarse(z), y, from_probabilities=True)
    assert len(said) == 1
    expected = whole.predict_proba(torch.softmax(test, dim=1), from_probabilities=True)
    calibrated = cal.predict_proba(coarse(test), from_probabilities=True)
    redrawn = torch.multinomial(torch.softmax(z / 2, dim=1), 1)[:, 0]
    other = make().fit(torch.softmax(z, dim=1), redrawn, from_probabilities=True)
    noise = (other.predict_proba(torch.softmax(test, dim=1), from_probabilities=True) - expected).abs().mean()
    assert float((calibrated - expected).abs().mean()) < max(1.2 * float(noise), 2e-3)
    if whole.certificate_.nll_after < 10 and metrics.nll(expected, test_y) < 10:
        assert metrics.nll(calibrated, test_y) == pytest.approx(metrics.nll(expected, test_y), abs=0.03)
    assert metrics.accuracy(calibrated, test_y) == pytest.approx(metrics.accuracy(expected, test_y), abs=0.02)


@pytest.mark.parametrize("k", [2, 10, 100])
@pytest.mark.parametrize("objective", ["nll", "mse"])
def test_temperatures_of_rounded_scores(k, objective):
    z, y = drawn(k=k, n=2000)
    whole = TemperatureScaling(objective=objective).fit(z, y).temperature_
    with pytest.warns(UserWarning, match="exactly 0"):
        cal = TemperatureScaling(objective=objective).fit(coarse(z), y, from_probabilities=True)
    assert cal.temperature_ == pytest.approx(whole, rel=0.06)
    with pytest.warns(UserWarning, match="exactly 0"):
        ensemble = EnsembleTemperatureScaling(objective=objective).fit(coarse(z), y, from_probabilities=True)
    assert ensemble.temperature_ == pytest.approx(whole, rel=0.06)


def test_real_networks_in_few_digits(network_logits, shared_data):
    with np.load(shared_data / "logits" / "densenet-bc-100-cifar100-probs.npz", allow_pickle=False) as file:
        densenet = torch.from_numpy(file["probs"]).double(), torch.from_numpy(file["labels"]).long()
    data = {name: (z.double().softmax(dim=1), y) for name, (z, y) in network_logits.items()} | {"densenet": densenet}
    for p, y in data.values():
        p, y = p[:1500], y[:1500]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            whole = TemperatureScaling().fit(p, y, from_probabilities=True).temperature_
        for changed, tolerance in ((rounded(p), 0.12), (p.half(), 0.02)):
            with pytest.warns(UserWarning, match="exactly 0"):
                cal = TemperatureScaling().fit(changed, y, from_probabilities=True)
            assert cal.temperature_ == pytest.approx(whole, rel=tolerance)


@pytest.fixture(scope="module")
def forest():
    """A real forest of 50 trees for 20 classes: validation and test scores, in steps of 1/50, and labels."""
    from sklearn.datasets import make_classification
    from sklearn.ensemble import RandomForestClassifier

    x, y = make_classification(3600, 20, n_informative=12, n_classes=20, class_sep=1.5, random_state=0)
    model = RandomForestClassifier(50, random_state=0).fit(x[:1200], y[:1200])
    p, labels = torch.from_numpy(model.predict_proba(x[1200:])), torch.from_numpy(y[1200:]).long()
    return p[:1200], labels[:1200], p[1200:], labels[1200:]


@pytest.mark.parametrize("name", ["temperature", "ensemble-temperature", "vector", "dirichlet", "platt", "beta"])
def test_a_forest_is_improved_and_stays_no_more_than_right(forest, name):
    p, y, test, test_y = forest
    with pytest.warns(UserWarning, match=r"smallest step between scores, 0\.02"):
        cal = calibrators.REGISTRY[name](**OPTIONS.get(name, {})).fit(p, y, from_probabilities=True)
    after = cal.predict_proba(test, from_probabilities=True)
    assert metrics.ece_hist(test, test_y) > 0.2  # under-confident, as forests are
    assert metrics.ece_hist(after, test_y) < 0.12
    assert metrics.signed_gap(after, test_y) < 0.05
    assert metrics.accuracy(after, test_y) > metrics.accuracy(test, test_y) - 0.03
    assert metrics.nll(after, test_y) < 2


@pytest.mark.slow
def test_fit_best_of_a_forest(forest):
    p, y, test, test_y = forest
    with pytest.warns(UserWarning, match="exactly 0") as said:
        best = calibrators.fit_best(p, y, from_probabilities=True, folds=3, resamples=100)
    assert len([warning for warning in said if "exactly 0" in str(warning.message)]) == 1
    assert all(math.isfinite(candidate.score) for candidate in best.candidates)
    assert math.isfinite(best.comparison.p_value)
    assert best.calibrator.floor_ == pytest.approx(0.01)
    assert metrics.nll(best.calibrator.predict_proba(test, from_probabilities=True), test_y) < best.uncalibrated


def test_certify_warns_once(forest):
    p, y, *_ = forest
    with pytest.warns(UserWarning, match="exactly 0") as said:
        certificate = TemperatureScaling().certify(p, y, from_probabilities=True)
    assert len(said) == 1
    assert certificate.held_out.nll_after < certificate.held_out.nll_before


def test_the_floor_is_remembered(tmp_path):
    z, y = drawn(n=1500, k=5)
    with pytest.warns(UserWarning, match="exactly 0"):
        cal = TemperatureScaling().fit(coarse(z), y, from_probabilities=True)
    cal.save(tmp_path)
    back = calibrators.load(tmp_path)
    assert back.floor_ == cal.floor_
    row = torch.tensor([[1.0, 0, 0, 0, 0]], dtype=torch.float64)
    expected = torch.softmax(logarithms(row, cal.floor_) / cal.temperature_, dim=1)
    torch.testing.assert_close(back.predict_proba(row, from_probabilities=True), expected)  # without a warning
    other = torch.softmax(logarithms(row, 1e-9) / cal.temperature_, dim=1)
    torch.testing.assert_close(cal.predict_proba(row, from_probabilities=True, floor=1e-9), other)


def test_the_floor_can_be_said():
    z, y = drawn(n=1500, k=5)
    cal = TemperatureScaling().fit(coarse(z), y, from_probabilities=True, floor=1e-4)
    assert cal.floor_ == 1e-4
    expected = TemperatureScaling().fit(logarithms(coarse(z), 1e-4), y)
    assert cal.temperature_ == expected.temperature_
    assert expected.floor_ is None
    for wrong in (0, 1.0, -1):
        with pytest.raises(ValueError, match="`floor` must be above 0 and below 1"):
            cal.fit(coarse(z), y, from_probabilities=True, floor=wrong)
    with pytest.raises(ValueError, match="`floor` must be left out with logits"):
        cal.fit(z, y, floor=1e-4)


def test_fitted_on_logits_and_given_zeros():
    z, y = drawn(n=1500, k=5)
    cal = TemperatureScaling().fit(z, y)
    with pytest.warns(UserWarning, match="taken as 0.00049.: half of the smallest step"):
        p = cal.predict_proba(coarse(z), from_probabilities=True)
    assert float((p - cal.predict_proba(z)).abs().max()) < 0.1


def test_zeros_between_the_steps_of_a_composition():
    z, y = drawn(n=300, k=5)
    both = (IsotonicCalibration() | VectorScaling()).fit(z, y)
    first = IsotonicCalibration().fit(z, y).predict_proba(z)
    assert bool((first == 0).any())
    floor = floor_of(first, y)
    assert both.floors_.tolist() == [pytest.approx(floor.value)]
    second = VectorScaling().fit(first, y, from_probabilities=True, floor=floor.value)
    torch.testing.assert_close(both.predict_proba(z), second.predict_proba(first, from_probabilities=True))
    assert both.certificate_.nll_after < 1.2 * TemperatureScaling().fit(z, y).certificate_.nll_after
