"""Intervals hold the truth about as often as they say: a short form of benchmarks/interval_coverage.py, and that it can fail."""

import importlib.util
import sys

import numpy as np
import pytest

from places import ROOT
from softkin.metrics import intervals, resampling
from softkin.metrics.binned import Debiased
from softkin.metrics.statistics import CalibrationError, Loss, Statistic

pytestmark = pytest.mark.slow

path = ROOT / "benchmarks" / "interval_coverage.py"
spec = importlib.util.spec_from_file_location("coverage_simulation", path)
simulation = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = simulation
spec.loader.exec_module(simulation)

DRAWS = 40
LEAST = 33
"""Of 40 intervals that hold the truth in 95 %, fewer than 33 do in one of 2,000 sets; at 70 % in three of four"""
CHECKS = {
    ("sure and right, K = 2", 40): ("accuracy", "signed_gap", "nll", "brier", "aurc"),
    ("over-confident, K = 10", 200): (
        "accuracy", "nll", "brier", "aurc", "signed_gap", "signed_gap over", "ece_hist", "ece_hist mass",
        "debiased_ece", "mce", "brier reliability", "brier uncertainty", "brier within",
    ),
    ("slightly over, K = 10", 300): ("ece_hist", "ece_hist output", "debiased_ece", "brier uncertainty"),
    ("saturated, K = 2", 300): ("ece_hist", "debiased_ece", "signed_gap", "brier reliability"),
}  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def small_references():
    """A tenth of the reference sample is enough for bounds this wide."""
    whole = simulation.reference

    def small(name):
        population = simulation.POPULATIONS[name]
        return simulation.Reference(*population.draw(np.random.default_rng(99), 200_000 // population.classes))

    simulation.reference = small
    yield
    simulation.reference = whole


def missed(population, n, quantities):
    """The quantities whose intervals hold the truth too seldom."""
    counts = simulation.metrics_chunk(population, n, 0, quantities, DRAWS)
    assert all(entry["own"] == DRAWS for entry in counts.values())
    return {name: entry["held"] for name, entry in counts.items() if entry["held"] < LEAST}


@pytest.mark.parametrize(("population", "n"), CHECKS)
def test_intervals_hold_the_truth(population, n):
    assert missed(population, n, CHECKS[population, n]) == {}


def percentiles(statistic, confidence, resamples, seed):
    sums = resampling.resampled_sums(statistic, resamples, np.random.default_rng(seed))
    low, high = resampling.quantiles(statistic.of(sums), (1 - confidence) / 2)
    return resampling.around(statistic.value(), low, high, confidence)


def wald(share, count, level):
    half = 1.96 * (share * (1 - share) / count) ** 0.5
    return share - half, share + half


def test_an_error_that_is_debiased_twice_is_noticed(monkeypatch):
    def held():
        return simulation.metrics_chunk("mixed, K = 10", 200, 0, ("debiased_ece",), DRAWS)["debiased_ece"]["held"]

    right = held()
    monkeypatch.setattr(Debiased, "size", CalibrationError.size)
    assert held() <= right - 4  # 34 instead of 40, of the same draws


def test_a_gap_by_resampled_rows_is_noticed(monkeypatch):
    monkeypatch.setattr(intervals, "wilson", wald)
    assert "signed_gap" in missed("sure and right, K = 2", 40, ("signed_gap",))


def test_percentiles_of_an_error_are_noticed(monkeypatch):
    monkeypatch.setattr(resampling, "interval", percentiles)
    assert "ece_hist" in missed("slightly over, K = 10", 300, ("ece_hist",))


def test_percentiles_of_a_loss_are_noticed(monkeypatch):
    monkeypatch.setattr(Loss, "ends", Statistic.ends)
    assert set(missed("sure and right, K = 2", 40, ("nll", "brier"))) == {"nll", "brier"}


def test_certificates_and_scores_of_unknown_samples():
    for name in simulation.RISKS:
        assert simulation.abstention_chunk(name, 400, 0, 60)["certificate"]["held"] >= 52
    for name in simulation.SEPARATIONS:
        for quantity, entry in simulation.unknown_chunk(name, 40, 0, 25).items():
            assert entry["held"] >= 20, (name, quantity)


def test_a_run_that_was_stopped_goes_on_to_the_same_numbers(tmp_path, monkeypatch):
    small = {"unknown": simulation.Simulation(simulation.unknown_chunk, ("apart",), (40,))}
    monkeypatch.setattr(simulation, "SIMULATIONS", small)
    monkeypatch.setattr(simulation, "CHUNK", 2)
    whole, parts = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    simulation.run(whole, None, 6)
    simulation.run(parts, None, 2)
    with parts.open("a") as file:
        file.write('{"cell": ["unk')  # cut short by a kill
    simulation.run(parts, None, 6)
    assert simulation.totals(parts) == simulation.totals(whole)
