"""The notes of a table: failed trainings, values, what one-hot training implies, and which methods differ from it."""

from statistics import fmean

import pytest
import torch

from softkin import metrics
from softkin.lab.study import advice, columns
from softkin.lab.study.advice import against_baseline, failed_trainings, tuned, values_in_words
from softkin.lab.study.significance import Difference
from softkin.lab.study.spec import StudySpec
from softkin.lab.study.tabulation import Cell, Row, metric_columns
from softkin.losses.soft_labels import what_a_gap_implies
from softkin.metrics.intervals import gap_and_error
from softkin.predictions import Predictions


def test_all_right_by_chance_is_no_under_confidence():
    sure = Predictions(torch.tensor([[3.6, 0.0]]).repeat(40, 1), torch.zeros(40, dtype=torch.int64))
    assert float(sure.probabilities[0, 0]) == pytest.approx(0.973, abs=0.001)
    gap, error = gap_and_error(sure.probabilities, sure.known_labels)
    assert gap == pytest.approx(-0.027, abs=0.001)
    assert gap + 2 * error == pytest.approx(
        metrics.signed_gap(sure.probabilities, sure.known_labels, confidence=0.95).high
    )
    assert "perhaps under-confident (gap -2.7 ± 8.8 points): too few seeds or rows to tell" in advice.implied([sure])


def test_a_gap_within_two_deviations_is_chance():
    assert "nothing to repair" in what_a_gap_implies(0.019, 0.01)
    assert "over-confident by 2.1 points" in what_a_gap_implies(0.021, 0.01)
    assert "under-confident by 2.1 points" in what_a_gap_implies(-0.021, 0.01)
    words = "perhaps under-confident (gap -15.2 ± 30.0 points): too few seeds or rows to tell"
    assert what_a_gap_implies(-0.152, 0.15) == words
    assert "too few seeds or rows to tell" in what_a_gap_implies(0.001, 0.15)  # a small gap by luck


def test_a_training_that_failed_is_named_once():
    def of(method, accuracies):
        cells = {"accuracy": Cell(fmean(accuracies), std=0.1, n=len(accuracies), values=tuple(accuracies))}
        return Row(method, columns.title(method), cells)

    rows = [of("one-hot", [0.82, 0.83, 0.81]), of("uniform", [0.83, 0.1, 0.84]), of("uniform+ts", [0.83, 0.1, 0.84])]
    assert failed_trainings(rows, (5, 6, 7)) == [
        "uniform: a training failed, of seed 6 (10.0 %), where the median accuracy over seeds is 83.0 %. The means count it; "
        "a lower learning rate may help."
    ]
    assert failed_trainings([of("one-hot", [0.1])], (0,)) == []
    # Below half of the median, not at half of it.
    assert failed_trainings([of("one-hot", [0.8, 0.8, 0.4])], (0, 1, 2)) == []
    assert "of seed 2 (39.9 %)" in failed_trainings([of("one-hot", [0.8, 0.8, 0.399])], (0, 1, 2))[0]
    assert failed_trainings([of("one-hot", [0.0, 0.0])], (0, 1)) == []


def test_values_that_were_found_stand_beside_auto():
    chosen = [{"alpha": "auto", "beta": "auto"}] * 3
    actual = [{"alpha": 0.01, "beta": 1.234}, {"alpha": 0.02, "beta": 1.5}, {"alpha": 0.0, "beta": 1.3}]
    assert values_in_words(chosen, actual) == "α = auto (0 to 0.02), β = auto (1.23 to 1.5)"
    assert values_in_words([{"mixing": 0.2}, {"mixing": 0.4}]) == "a = 0.2 or a = 0.4"


def test_methods_against_one_hot_in_words():
    def of(method, p_value, value, **other):
        against = {"one-hot": Difference(value, value - 0.01, value + 0.01, p_value, 0.0123, **other)}
        return Row(method, columns.title(method), {"ece_hist": Cell(0.1 + value, against=against)})

    plain = Row("one-hot", "one-hot", {"ece_hist": Cell(0.1)})
    rows = [
        plain,
        of("ts", 0.001, -0.08),
        of("uniform", 0.3, -0.005),
        of("mixup", 0.04, 0.05),
        of("ets", 1, 0.0, same=True),
    ]
    assert against_baseline(rows, metric_columns()) == [
        "Hist P against one-hot: better TS; worse mixup; no difference found (would have seen ≥ 1.2 points) uniform."
    ]
    assert against_baseline([plain], metric_columns()) == []


def test_tuned_recipes_stand_in_the_order_of_the_table():
    """A head after the one-hot network, last in the table, does not move one-hot to the end."""

    def of(method, decay):
        tried = [{"value": value} for value in (decay, 3 * decay, decay / 3)]
        return Row(
            method, columns.title(method), {}, recipe={"chosen": {"weight_decay": decay}, "tried": tried, "gain": 0.01}
        )

    spec = StudySpec(
        methods=("one-hot", "we", "head"), recipe={"weight_decay": 5e-4}, tune=("weight_decay",), seeds=(0,)
    )
    (said,) = tuned(spec, [of("one-hot", 5e-4 / 9), of("we", 0.0015), of("head", 5e-4 / 9)])
    assert said.endswith("one-hot 5.56e-05 (3 trials, −0.010 nats); WE 0.0015 (3 trials, −0.010 nats).")
