"""The least expected cost, by brute force."""

import numpy as np
import pytest
import torch

from decision_twins import rows_of_softmax as drawn
from softkin import decisions
from softkin.decisions import Costs


def test_least_costs_by_brute_force():
    z, y = drawn()
    generator = torch.Generator().manual_seed(2)
    matrix = torch.rand(6, 8, generator=generator, dtype=torch.float64)
    rule = Costs(matrix, actions=list("abcdefgh")).fit(z, y)
    p = z.softmax(1)
    expected = [min(range(8), key=lambda a: sum(float(row[k] * matrix[k, a]) for k in range(6))) for row in p]
    actions = rule.predict(z)
    assert actions.tolist() == expected
    outcome = rule.evaluate(z, y)
    assert outcome["cost"] == pytest.approx(float(matrix[y, actions].mean()))
    assert outcome["believed"] == pytest.approx(float((p * matrix.T[actions]).sum(1).mean()))
    assert outcome["plain_cost"] == pytest.approx(float(matrix[y, z.argmax(1)].mean()))
    assert outcome["saving"] == pytest.approx(outcome["plain_cost"] - outcome["cost"])
    assert outcome["saving"].low > 0
    assert outcome["believed"] == pytest.approx(outcome["cost"], abs=0.03)  # labels were drawn from p
    assert "the model expected a mean cost of" in rule.guarantee()


def test_equal_costs_answer_with_the_winner_and_distances_become_costs():
    z, y = drawn()
    assert (Costs(1 - torch.eye(6)).fit(z, y).predict(z) == z.argmax(1)).all()
    D = torch.tensor([[0.0, 1, 3], [1, 0, 2], [3, 2, 0]])
    costs = Costs.from_distances(D, power=2, ask=0.1).matrix
    assert costs.tolist() == [[0, 0.25, 2.25, 0.1], [0.25, 0, 1, 0.1], [2.25, 1, 0, 0.1]]
    for bad, words in (
        (lambda: Costs([1.0, 2.0]), "`matrix` must have shape \\(K, A\\)"),
        (lambda: Costs(np.full((2, 2), np.nan)), "`matrix` must be finite"),
        (lambda: Costs(np.eye(2), actions=["a"]), "`actions` must name each of the 2 actions, got 1"),
        (lambda: Costs(np.eye(3)).fit(z, y), "`matrix` has rows for 3 classes but the logits have 6"),
        (lambda: Costs.from_distances(np.zeros((3, 3))), "`distances` must not all be 0"),
    ):
        with pytest.raises(ValueError, match=words):
            bad()


def test_forty_free_decisions_are_not_known_to_be_free():
    """All answers are right, so no cost shows; a share of 1 − 0.025^(1/40) of dear mistakes would often not show."""
    logits, labels = torch.tensor([[6.0, 0.0, 0.0]]).repeat(40, 1), torch.zeros(40, dtype=torch.int64)
    costs = torch.tensor([[0.0, 5.0, 1.0], [2.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    rare = 1 - 0.025 ** (1 / 40)
    outcome = decisions.Costs(costs).fit(logits, labels).evaluate(logits, labels)
    assert (outcome["cost"].low, outcome["cost"]) == (0, 0)
    assert outcome["cost"].high == pytest.approx(5 * rare)
    sets = decisions.PredictionSets(0.9).fit(logits, labels).evaluate(logits, labels)
    assert (sets["size"], sets["size"].high) == pytest.approx((1, 1 + 2 * rare))
    answered = decisions.Abstain(0.5, candidates=1).fit(logits, labels).evaluate(logits, labels, costs=costs)
    assert answered["cost"].high == pytest.approx(5 * rare)
    assert answered["information"].low == pytest.approx((1 - rare) * np.log2(3))


def test_what_plain_answers_would_have_cost():
    """Known where every class can be answered, also with no further action; a saving may be the whole range."""
    z, y = drawn()
    square = Costs(1 - torch.eye(6, dtype=torch.float64)).fit(z, y).evaluate(z, y)
    assert square["plain_cost"] == square["cost"]
    assert square["saving"] == 0
    rare = 1 - 0.025 ** (1 / len(z))  # no row saved anything, but rare ones could save or lose all of it
    assert (square["saving"].low, square["saving"].high) == pytest.approx((-rare, rare))
    few = Costs(torch.rand(6, 2, dtype=torch.float64)).fit(z, y).evaluate(z, y)
    assert np.isnan(few["plain_cost"])
    assert "saving" not in few


def test_a_saving_is_at_most_what_the_dearest_answer_costs_more_than_the_cheapest():
    rule = Costs(torch.tensor([[1.0, 3.0], [3.0, 1.0]]))
    logits, y = torch.tensor([[4.0, 0.0], [0.0, 4.0], [4.0, 0.0]]), torch.tensor([0, 1, 1])
    saved = rule.fit(logits, y).evaluate(logits, y, costs=torch.tensor([[3.0, 1.0], [1.0, 3.0]]))["saving"]
    assert -2.0 <= saved.low <= saved.value <= saved.high <= 2.0
