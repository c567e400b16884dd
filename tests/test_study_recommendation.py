"""What a table recommends: by its own marks, with what it costs, and never on the strength of chance."""

import pytest

from softkin.auto_alpha import what_a_gap_implies
from softkin.study import methods
from softkin.study.recommendation import recommend
from softkin.study.tables import Cell, Row, values_in_words


def row(method, hist, nll, accuracy, *, marks="", gap=0.0, n=5):
    """Marks: H, N, A where the method is the best in Hist P, NLL or accuracy; h, n, a where it is level with the best."""

    def cell(mean, letter):
        values = (mean,) * n
        return Cell(mean, 0.01 if n > 1 else None, n, values, best=letter.upper() in marks, tie=letter in marks)

    cells = {"ece_hist": cell(hist, "h"), "nll": cell(nll, "n"), "accuracy": cell(accuracy, "a")}
    return Row(method, methods.title(method), {**cells, "signed_gap": cell(gap, "-")})


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
        "One-hot training is over-confident by 11.0 points: smooth with alpha='auto', or begin at α ≈ 0.07.",
        "Use TS: Hist P 3.4 %, accuracy 57.7 %, NLL 1.637; against one-hot 11.6 %, +0.0 points and -0.063 nats.",
        "ETS, WE, WE+TS are not told apart from the best in Hist P: that difference is within chance.",
        "Where no calibrator can follow the network, take WE: Hist P 3.0 %, against TS 3.4 %, -0.3 points and +0.008 nats.",
    )


def test_nll_and_accuracy_decide_between_those_level_in_calibration():
    rows = [
        row("one-hot", 0.10, 1.0, 0.8, gap=0.09),
        row("ts", 0.02, 0.9, 0.8, marks="H"),
        row("l2", 0.021, 0.7, 0.85, marks="hNA"),
    ]
    assert recommend(rows)[1].startswith("Use L2: Hist P 2.1 %, accuracy 85.0 %, NLL 0.700; against one-hot 10.0 %")
    assert "TS is not told apart from the best in Hist P" in recommend(rows)[2]


def test_a_calibrated_baseline_stays_as_it_is():
    said = recommend(
        [row("one-hot", 0.012, 0.2, 0.95, marks="hNA", gap=-0.001), row("ts", 0.011, 0.2, 0.95, marks="Hna")]
    )
    assert said[0] == (
        "One-hot training is as confident as it is right (gap -0.1 points, within chance): smoothing has nothing to mend."
    )
    assert said[1] == (
        "Use one-hot training as it is (Hist P 1.2 %, accuracy 95.0 %, NLL 0.200): no method is calibrated better beyond "
        "chance."
    )


def test_an_under_confident_baseline_is_not_smoothed():
    said = recommend([row("one-hot", 0.04, 0.2, 0.95, marks="NA", gap=-0.04), row("ts", 0.01, 0.2, 0.95, marks="Hna")])
    assert "under-confident by 4.0 points: smoothing will make it worse" in said[0]
    assert said[1].startswith("Use TS: ")


@pytest.mark.parametrize("n", [1, 2])
def test_too_few_seeds_recommend_nothing(n):
    said = recommend(
        [row("one-hot", 0.10, 1.0, 0.8, marks="hna", gap=0.1, n=n), row("ts", 0.02, 0.9, 0.8, marks="HNA", n=n)]
    )
    assert said[-1] == (
        f"{n} seed{'s' * (n > 1)} cannot tell the methods apart: TS has the smallest Hist P, 2.0 %, but even one-hot with "
        "10.0 % may be level by chance. Train more seeds before you choose."
    )


def test_nothing_is_said_of_a_single_method_or_without_a_verdict():
    assert recommend([]) == ()
    assert recommend([row("one-hot", 0.1, 1.0, 0.8, marks="HNA")]) == ()
    assert recommend([row("one-hot", 0.1, 1.0, 0.8), row("ts", 0.1, 1.0, 0.8)]) == ()


def test_a_gap_within_two_deviations_is_chance():
    assert "nothing to mend" in what_a_gap_implies(0.019, 0.01)
    assert "over-confident by 2.1 points" in what_a_gap_implies(0.021, 0.01)
    assert "under-confident by 2.1 points" in what_a_gap_implies(-0.021, 0.01)


def test_values_that_were_found_stand_beside_auto():
    chosen = [{"alpha": "auto", "beta": "auto"}] * 3
    found = [{"alpha": 0.01, "beta": 1.234}, {"alpha": 0.02, "beta": 1.5}, {"alpha": 0.0, "beta": 1.3}]
    assert values_in_words(chosen, found) == "α = auto (0 to 0.02), β = auto (1.23 to 1.5)"
    assert values_in_words([{"mixing": 0.2}, {"mixing": 0.4}]) == "a = 0.2 or a = 0.4"
