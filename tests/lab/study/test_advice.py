"""What a table recommends: by its own marks, with what it costs, and never on the strength of chance."""

from dataclasses import replace
from statistics import fmean

import pytest
import torch

from softkin import metrics
from softkin.lab.study import advice, columns
from softkin.lab.study.advice import failed_trainings, recommend, values_in_words
from softkin.lab.study.tabulation import Cell, Row
from softkin.losses.auto_alpha import what_a_gap_implies
from softkin.metrics.intervals import gap_and_error
from softkin.predictions import Predictions


def row(method, hist, nll, accuracy, *, marks="", gap=0.0, n=5, std=(0.0, 0.0, 0.0), shift=0):
    """Marks: H, N, A where the method is the best in Hist P, NLL or accuracy; h, n, a where it is level with the best.

    ``std`` are the deviations of the three over seeds, in a pattern that ``shift`` moves from seed to seed.
    """

    def cell(mean, letter, deviation=0.0):
        values = tuple(mean + deviation * PATTERN[(seed + shift) % 5] for seed in range(n))
        return Cell(
            mean,
            std=deviation if n > 1 else None,
            n=n,
            values=values,
            best=letter.upper() in marks,
            tie=letter in marks,
        )

    cells = {
        key: cell(mean, letter, deviation)
        for key, mean, letter, deviation in zip(
            ("ece_hist", "nll", "accuracy"), (hist, nll, accuracy), "hna", std, strict=True
        )
    }
    return Row(method, columns.title(method), {**cells, "signed_gap": cell(gap, "-", 0.01)})


PATTERN = [value / 10**0.5 * 2 for value in (-2, -1, 0, 1, 2)]  # mean 0, standard deviation 1


def test_the_simplest_of_those_that_are_level_is_recommended():
    said = recommend(
        [
            row("one-hot", 0.116, 1.700, 0.577, marks="A", gap=0.11),
            row("ts", 0.034, 1.637, 0.577, marks="hNa"),
            row("ets", 0.033, 1.640, 0.577, marks="hna"),
            row("uniform", 0.134, 1.948, 0.564, gap=-0.1),
            row("we", 0.030, 1.645, 0.574, marks="Hna"),
            row("we+ts", 0.031, 1.643, 0.574, marks="hna"),
        ]
    )
    assert said == (
        "One-hot training is over-confident by 11.0 points: fit a temperature, or smooth with alpha='auto' (or from "
        "α ≈ 0.07).",
        "Use TS: Hist P 3.4 %, accuracy 57.7 %, NLL 1.637. Against one-hot that is Hist P −8.2 points, accuracy +0.0 points "
        "and NLL −0.063 nats; accuracy may be chance.",
        "5 seeds show no significant difference in Hist P, NLL or accuracy between the best and ETS, WE and WE+TS.",
        "Significantly worse than the best, or not ranked: one-hot (Hist P, NLL) and uniform (Hist P, NLL, accuracy).",
        "Where no calibrator can follow the network, take WE (Hist P 3.0 %). Against TS that is Hist P −0.4 points, accuracy "
        "−0.3 points and NLL +0.008 nats; all three may be chance.",
    )


DEMO = {  # Hist P, NLL, accuracy, with their deviations over five seeds: what `softkin compare` shows without options
    "one-hot": ((10.43, 0.998, 85.7), (1.58, 0.054, 1.7), "a"),
    "ts": ((3.25, 0.517, 85.7), (1.07, 0.021, 1.7), "hna"),
    "uniform": ((2.99, 0.389, 88.1), (0.93, 0.061, 2.3), "hna"),
    "mixup": ((7.48, 0.350, 90.7), (1.34, 0.042, 1.2), "hnA"),
    "mixup+ts": ((2.15, 0.310, 90.7), (0.45, 0.058, 1.2), "HNa"),
    "dir-odir": ((2.73, 0.366, 89.8), (1.01, 0.074, 2.3), "hna"),
    "ets": ((2.53, 0.505, 85.7), (0.48, 0.019, 1.7), "hna"),
    "ae": ((2.44, 0.369, 88.9), (0.17, 0.046, 1.5), "hna"),
}


def demo(*, without=(), **changed):
    return [
        row(name, hist / 100, nll, accuracy / 100, marks=marks, std=(h / 100, n, a / 100), shift=i, gap=0.1)
        for i, (name, ((hist, nll, accuracy), (h, n, a), marks)) in enumerate({**DEMO, **changed}.items())
        if name not in without
    ]


def test_a_method_that_is_better_in_all_columns_is_not_passed_over_for_a_simpler_one():
    said = recommend(demo())
    assert said[1] == (
        "Use mixup+TS: Hist P 2.1 %, accuracy 90.7 %, NLL 0.310. Against one-hot that is Hist P −8.3 points, accuracy +5.0 "
        "points and NLL −0.688 nats; accuracy may be chance."
    )
    assert said[2] == (
        "5 seeds show no significant difference in Hist P, NLL or accuracy between the best and TS, uniform, mixup, "
        "Dir-ODIR, ETS and AE, not even for mixup with Hist P 7.5 %: more seeds may."
    )
    assert said[3] == "Significantly worse than the best, or not ranked: one-hot (Hist P, NLL)."
    assert said[4].startswith(
        "To keep the one-hot network as it is, take Dir-ODIR (Hist P 2.7 %). Against mixup+TS that is"
    )
    assert said[4].endswith("accuracy −0.9 points and NLL +0.056 nats; all three may be chance.")
    assert said[5].startswith("Where no calibrator can follow the network, take AE (Hist P 2.4 %).")


def test_a_simpler_method_within_one_standard_error_is_taken():
    noisy = demo(**{"dir-odir": ((2.2, 0.33, 90.6), (1.01, 0.074, 2.3), "hna")})
    assert recommend(noisy)[1].startswith("Use Dir-ODIR: ")
    certain = [
        row("one-hot", 0.1, 1.0, 0.8, gap=0.1),
        row("ts", 0.02, 0.33, 0.9, marks="hna"),
        row("mixup+ts", 0.02, 0.31, 0.9, marks="HNA"),
    ]
    assert recommend(certain)[1].startswith("Use mixup+TS: ")  # 0.02 nats on each seed
    certain[1] = row("ts", 0.02, 0.314, 0.9, marks="hna")
    assert recommend(certain)[1].startswith("Use TS: ")  # 0.004 nats are not worth another training


def test_a_method_that_is_level_in_calibration_only_for_lack_of_seeds_is_not_recommended():
    said = recommend(demo(without=("mixup+ts",), ets=((2.53, 0.505, 85.7), (0.48, 0.019, 1.7), "Hna")))
    assert said[1].startswith("Use Dir-ODIR: ")  # and not mixup, with the lowest NLL and three times the Hist P


def test_several_networks_are_recommended_with_their_price():
    rows = demo()
    ensemble = row("ets", 0.02, 0.25, 0.92, marks="HNA")  # stands for a method of five networks
    rows.append(replace(ensemble, method="ets", title="ensemble", cost={"passes": 5, "memory": 5.0, "networks": 5}))
    said = recommend([other for other in rows if other.title != "ETS"])
    assert said[1].startswith("Use ensemble: Hist P 2.0 %")
    assert said[1].endswith("A prediction takes 5 passes through a network and 5 times the memory, and 5 trainings.")
    assert any(sentence.startswith("For one network and one pass, take mixup+TS (Hist P 2.1 %).") for sentence in said)


def test_infinite_losses_do_not_lead():
    rows = [
        row("one-hot", 0.1, float("inf"), 0.8, marks="ha", gap=0.1),
        row("ts", 0.1, 1.0, 0.8, marks="HNA"),
        row("ets", 0.1, float("inf"), 0.8, marks="ha"),
    ]
    assert recommend(rows)[1] == (
        "Use TS: Hist P 10.0 %, accuracy 80.0 %, NLL 1.000. Against one-hot that is Hist P +0.0 points, accuracy +0.0 points "
        "and NLL 1.000 for ∞; Hist P and accuracy may be chance."
    )


def test_nll_and_accuracy_decide_between_those_level_in_calibration():
    rows = [
        row("one-hot", 0.10, 1.0, 0.8, gap=0.09),
        row("ts", 0.02, 0.9, 0.8, marks="H"),
        row("l2", 0.021, 0.7, 0.85, marks="hNA"),
    ]
    assert recommend(rows)[1].startswith(
        "Use L2: Hist P 2.1 %, accuracy 85.0 %, NLL 0.700. Against one-hot that is Hist P"
    )
    assert recommend(rows)[2] == (
        "Significantly worse than the best, or not ranked: one-hot (Hist P, NLL, accuracy) and TS (NLL, accuracy)."
    )


def test_a_point_of_calibration_error_excludes_no_method_that_is_far_better():
    """Numbers of CIFAR-100 features with ten images a class: many seeds make a difference of 0.8 points certain."""
    rows = [
        row("one-hot", 0.047, 2.654, 0.383, gap=0.044),
        row("dir-odir", 0.029, 2.155, 0.455, marks="NA"),
        row("uniform+ts", 0.021, 2.631, 0.386, marks="H"),
    ]
    assert recommend(rows)[1].startswith("Use Dir-ODIR: Hist P 2.9 %, accuracy 45.5 %, NLL 2.155.")
    far = [rows[0], row("dir-odir", 0.032, 2.155, 0.455, marks="NA"), rows[2]]
    assert recommend(far)[1].startswith("Use uniform+TS")
    cells = {**rows[1].cells, "ece_hist": replace(rows[1].cells["ece_hist"], caveat="all scores share one bin")}
    assert recommend([rows[0], replace(rows[1], cells=cells), rows[2]])[1].startswith("Use uniform+TS")


def test_a_calibrated_baseline_stays_as_it_is():
    said = recommend(
        [row("one-hot", 0.012, 0.2, 0.95, marks="hNA", gap=-0.001), row("ts", 0.011, 0.2, 0.95, marks="Hna")]
    )
    assert said[0] == (
        "One-hot training is as confident as it is right (gap -0.1 points, within chance): smoothing has nothing to mend."
    )
    assert said[1] == (
        "Use one-hot training as it is (Hist P 1.2 %, accuracy 95.0 %, NLL 0.200): no method is better by more than chance."
    )


def test_a_gap_that_few_test_rows_explain_is_no_under_confidence():
    """Of one seed, or of several on the same rows, the spread over seeds does not show it."""
    for n in (1, 5):
        rows = [
            row("one-hot", 0.03, 2.3, 0.14, marks="hNA", gap=-0.026, n=n),
            row("ts", 0.03, 2.3, 0.14, marks="Hna", n=n),
        ]
        assert recommend(rows)[0].startswith("One-hot training is under-confident by 2.6 points")
        words = "One-hot training is perhaps under-confident (gap -2.6 ± 8.0 points)"
    assert recommend(rows, gap_error=0.04)[0].startswith(words)


def test_all_right_by_chance_is_no_under_confidence():
    sure = Predictions(torch.tensor([[3.6, 0.0]]).repeat(40, 1), torch.zeros(40, dtype=torch.int64))
    assert float(sure.probabilities[0, 0]) == pytest.approx(0.973, abs=0.001)
    gap, error = gap_and_error(sure.probabilities, sure.known_labels)
    assert gap == pytest.approx(-0.027, abs=0.001)
    assert gap + 2 * error == pytest.approx(
        metrics.signed_gap(sure.probabilities, sure.known_labels, confidence=0.95).high
    )
    assert "perhaps under-confident (gap -2.7 ± 8.8 points): too few seeds or rows to tell" in advice.implied([sure])


def test_an_under_confident_baseline_is_not_smoothed():
    said = recommend([row("one-hot", 0.04, 0.2, 0.95, marks="NA", gap=-0.04), row("ts", 0.01, 0.2, 0.95, marks="Hna")])
    assert "under-confident by 4.0 points: smoothing will make it worse" in said[0]
    assert said[1].startswith("Use TS: ")


@pytest.mark.parametrize("n", [1, 2])
def test_too_few_seeds_say_so(n):
    said = recommend(
        [row("one-hot", 0.10, 1.0, 0.8, marks="hna", gap=0.1, n=n), row("ts", 0.02, 0.9, 0.8, marks="HNA", n=n)]
    )
    assert said[1].startswith("Use TS: ")
    assert said[1].endswith("all three may be chance.")
    assert (
        said[2]
        == {
            1: "With one seed no difference is significant: train more seeds before you rely on this.",
            2: "2 seeds show no significant difference in Hist P, NLL or accuracy between the best and one-hot, not even "
            "for one-hot with Hist P 10.0 %: more seeds may.",
        }[n]
    )


def test_nothing_is_said_of_a_single_method_or_without_a_verdict():
    assert recommend([]) == ()
    assert recommend([row("one-hot", 0.1, 1.0, 0.8, marks="HNA")]) == ()
    assert recommend([row("one-hot", 0.1, 1.0, 0.8), row("ts", 0.1, 1.0, 0.8)]) == ()


def test_a_gap_within_two_deviations_is_chance():
    assert "nothing to mend" in what_a_gap_implies(0.019, 0.01)
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
