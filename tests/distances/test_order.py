"""Distances of ordered classes, from their definition, and what follows from them."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from command_line import run
from softkin import decisions, distances, similarity, smoothing
from softkin.distances import ClassNames
from softkin.distances.order import values_of


@given(values=st.lists(st.floats(-100, 100), min_size=2, max_size=6, unique=True), power=st.floats(0.5, 3))
def test_distances_are_differences(values, power):
    D = distances.from_order(values, power=power)
    for j, a in enumerate(values):
        for k, b in enumerate(values):
            assert float(D[j, k]) == pytest.approx(abs(a - b) ** power)


def test_smooth_labels_fall_off_on_both_sides():
    S = similarity.from_distances(distances.from_order(5), beta=2)
    label = smoothing.similarity_labels(S, 0.2)[2]
    assert label[2] == label.max()
    assert label[1] == pytest.approx(float(label[3]))
    assert label[1] > label[0]


def test_costs_of_distances_answer_the_median_and_of_squares_the_mean():
    p = torch.tensor([[0.35, 0.05, 0.2, 0.05, 0.35], [0.05, 0.1, 0.15, 0.2, 0.5]], dtype=torch.float64)
    rule = decisions.Costs(distances.from_order(5)).fit(p, [2, 4], from_probabilities=True)
    assert rule.predict(p, from_probabilities=True).tolist() == [2, 3]
    squares = decisions.Costs(distances.from_order(5, power=2)).fit(p, [2, 4], from_probabilities=True)
    mean = (p * torch.arange(5)).sum(1).round().long()
    assert squares.predict(p, from_probabilities=True).tolist() == mean.tolist()


@pytest.mark.parametrize(
    ("values", "words"),
    [(1, "at least 2"), ([1, 1], "must differ"), ([[1, 2]], "shape"), ([1, float("inf")], "finite")],
)
def test_what_has_no_order_is_refused(values, words):
    with pytest.raises(ValueError, match=words):
        distances.from_order(values)
    with pytest.raises(ValueError, match="`power`"):
        distances.from_order(3, power=0)


def test_values_come_from_numbers_from_a_stated_order_or_from_the_order_given():
    assert values_of(["1", "5", "2"])[0] == [1, 5, 2]
    assert values_of(["low", "high"])[0] == [0, 1]
    assert values_of(["bad", "good", "fair"], ["bad", "fair", "good"])[0] == [0, 2, 1]
    with pytest.raises(ValueError, match="'good' is not in it"):
        values_of(["bad", "good"], ["bad", "fair"])


def test_source_and_command(capsys, tmp_path):
    names = ["bad", "good", "fair"]
    measured = distances.measure("order", ClassNames(names, names), order="bad,fair,good")
    np.testing.assert_array_equal(measured.matrix, [[0, 2, 1], [2, 0, 1], [1, 1, 0]])
    (tmp_path / "names.txt").write_text("bad\ngood\nfair\nbest\nworst\n")
    order = "worst,bad,fair,good,best"
    code, output, errors = run(capsys, "similarity", tmp_path / "names.txt", "--distance", "order", "--order", order)
    assert code == 0, errors
    assert "worst < bad < fair < good < best" in output
