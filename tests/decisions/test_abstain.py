"""Abstaining: what it answers, and what the rows cannot support."""

import math

import numpy as np
import pytest
import torch

from decision_twins import calibrated_rows
from softkin import decisions


@pytest.mark.parametrize("score", ["entropy", "logit-norm", "margin", "probability"])
def test_a_rule_that_may_answer_everything_answers_rows_of_any_score(score):
    """Its binomial limit is that of all rows, so it must not leave out those below the lowest score of the fit."""
    z = torch.eye(6, dtype=torch.float64).repeat(100, 1) * 9
    rule = decisions.Abstain(0.1, score=score, **({"norm": 3} if score == "logit-norm" else {}))
    rule.fit(z, z.argmax(1))
    doubtful = torch.zeros(3, 6).fill_diagonal_(1e-3)
    assert rule.predict(doubtful).tolist() == [0, 1, 2]


def test_normalised_logits_fall_back_where_they_do_not_help():
    rng = np.random.default_rng(3)
    z, y = calibrated_rows(rng, 4000, 10, 3.0)
    assert decisions.Abstain(0.1, score="logit-norm").fit(z, y).norm_ is None
    with pytest.raises(ValueError, match="this Abstain needs logits, but from_probabilities=True was given"):
        decisions.Abstain(0.1, score="logit-norm").fit(z.softmax(1), y, from_probabilities=True)
    assert decisions.Abstain(0.3, score="logit-norm", norm=4).fit(z, y).norm_ == 4


def test_what_the_rows_cannot_support_is_said_and_what_the_model_cannot_is_warned_of():
    z, y = calibrated_rows(np.random.default_rng(0), 20, 4)
    with pytest.raises(
        ValueError,
        match="`error` 0.01 with confidence 0.95 needs at least 299 calibration rows even if no answer is wrong, got 20",
    ):
        decisions.Abstain(0.01).fit(z, y)
    assert decisions.thresholds.fewest_rows(0.01, 0.05) == 299
    assert (1 - 0.01) ** 757 <= 0.05 / 100 < (1 - 0.01) ** 756
    z, y = calibrated_rows(np.random.default_rng(0), 2000, 4, 0.1)
    with pytest.warns(
        UserWarning,
        match="No threshold keeps an error rate of at most 5 % .*; so the rule answers nothing: allow more errors",
    ):
        rule = decisions.Abstain(0.05).fit(z, y)
    assert (rule.predict(z) == -1).all()
    assert math.isnan(rule.evaluate(z, y)["error"])


def test_confidences_that_were_right_or_wrong(tmp_path):
    """The rule of pairs is the threshold of ``select``; confidences below one half stay what they are."""
    rng = np.random.default_rng(0)
    s = rng.random(3000)
    right = rng.random(3000) < s
    rule = decisions.Abstain(error=0.1).fit(s, right, from_probabilities=True)
    chosen = decisions.select(s, right, risk=0.1).chosen
    assert rule.threshold_ == chosen.threshold
    answers = rule.predict(s, from_probabilities=True)
    np.testing.assert_array_equal(answers, np.where(s > chosen.threshold, 1, -1))
    outcome = rule.evaluate(s, right, from_probabilities=True)
    assert outcome["error"] == pytest.approx(chosen.risk)
    assert outcome["answered"] == pytest.approx(chosen.coverage)
    rule.save(tmp_path)
    np.testing.assert_array_equal(decisions.load(tmp_path).predict(s, from_probabilities=True), answers)
    np.testing.assert_array_equal(rule.predict(np.log(s / (1 - s))), answers)
    with pytest.raises(ValueError, match="`score` must be 'probability' for confidences"):
        decisions.Abstain(score="margin").fit(s, right, from_probabilities=True)
    with pytest.raises(ValueError, match="needs scores of all classes, got confidences with booleans; Abstain takes"):
        decisions.Costs([[0, 1], [1, 0]]).fit(s, right, from_probabilities=True)


def test_the_score_of_a_binary_model_is_two_columns():
    rng = np.random.default_rng(1)
    s = rng.random(2000)
    y = (rng.random(2000) < s).astype(int)
    two = np.stack([1 - s, s], axis=1)
    one, both = (decisions.Abstain(error=0.1).fit(p, y, from_probabilities=True) for p in (s, two))
    np.testing.assert_array_equal(one.predict(s, from_probabilities=True), both.predict(two, from_probabilities=True))
