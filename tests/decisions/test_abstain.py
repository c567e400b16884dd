"""Abstaining: what it answers, and what the rows cannot support. Confidence scores by hand, and the area that compares them."""

import math
import re
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from decision_twins import calibrated_rows
from softkin import decisions, metrics
from softkin.decisions import abstain
from softkin.decisions.rule import Rows


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
        match="No threshold passes the test of an error rate of at most 5 % .* that one keeps is [0-9]+ %.* So this rule answers nothing",
    ) as caught:
        rule = decisions.Abstain(0.05).fit(z, y)
    assert (rule.predict(z) == -1).all()
    assert rule.guarantee().startswith("It answers nothing: with confidence 95 %,")
    named = int(re.search(r"keeps is (\d+) %", str(caught[0].message))[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [
            math.isfinite(decisions.Abstain(percent / 100).fit(z, y).threshold_) for percent in range(5, named + 1)
        ]
    assert found == [False] * (named - 5) + [True]
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
    two = np.stack([1 - s, s], axis=1)  # as files of binary models are read: a rule of pairs stays one
    np.testing.assert_array_equal(rule.predict(two, from_probabilities=True), answers)
    assert rule.evaluate(two, right.astype(int), from_probabilities=True)["answered"] == outcome["answered"]
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


def test_confidence_scores_by_hand():
    p = torch.tensor([[0.7, 0.2, 0.1], [0.5, 0.5, 0.0]], dtype=torch.float64)
    assert abstain.probability(p).tolist() == [0.7, 0.5]
    assert abstain.margin(p).tolist() == pytest.approx([0.5, 0.0])
    entropy = -(0.7 * math.log(0.7) + 0.2 * math.log(0.2) + 0.1 * math.log(0.1))
    assert abstain.entropy(p).tolist() == pytest.approx([-entropy, -math.log(2)])
    z = torch.tensor([[4.0, 1.0, 1.0], [0.0, 0.0, 0.0]], dtype=torch.float64)  # centred: 2, −1, −1
    assert abstain.logit_norm(z, 2.0).tolist() == pytest.approx([2 / math.sqrt(6), 0])
    assert abstain.logit_norm(z, 3.0).tolist() == pytest.approx([2 / 10 ** (1 / 3), 0])
    torch.testing.assert_close(abstain.logit_norm(7 * z + 3, 3.0), abstain.logit_norm(z, 3.0))
    huge = torch.tensor([[1e200, 0.0, 0.0]], dtype=torch.float64)
    assert float(abstain.logit_norm(huge, 6.0)) == pytest.approx(float(abstain.logit_norm(huge / 1e200, 6.0)))


@given(seed=st.integers(0, 10**6), steps=st.sampled_from([3, 10, 10**6]))
def test_the_area_is_that_of_the_metric(seed, steps):
    rng = np.random.default_rng(seed)
    p = np.clip(np.ceil(rng.random(30) * steps) / steps, 0.5, 1)
    y = rng.integers(0, 2, 30)
    P = np.stack([p, 1 - p], 1)
    assert abstain.area(torch.from_numpy(p), torch.from_numpy(y == 1)) == pytest.approx(metrics.aurc(P, y))


@pytest.fixture(scope="module")
def smoothed_and_not(shared_data):
    """Logits of two small networks for CLINC150's intents, trained on one-hot and on smooth labels, and the labels."""
    import pyarrow.parquet as pq
    from sklearn.feature_extraction.text import TfidfVectorizer

    table = pq.read_table(shared_data / "text" / "clinc150.parquet").to_pydict()
    split = np.array(table["split"])
    text, label = np.array(table["text"]), np.array(table["label"])
    training, test = np.nonzero(split == "train")[0][::3], np.nonzero(split == "test")[0]
    number = {name: place for place, name in enumerate(sorted(set(label[training].tolist())))}
    words = TfidfVectorizer(max_features=800).fit(text[training])
    x, inputs = (torch.from_numpy(words.transform(text[rows]).toarray()).float() for rows in (training, test))
    y, labels = (torch.tensor([number[name] for name in label[rows]]) for rows in (training, test))
    logits = {}
    for smoothing in (0.0, 0.3):
        torch.manual_seed(0)
        network = torch.nn.Sequential(torch.nn.Linear(800, 128), torch.nn.ReLU(), torch.nn.Linear(128, 150))
        optimiser = torch.optim.Adam(network.parameters(), lr=6e-3)
        loss = torch.nn.CrossEntropyLoss(label_smoothing=smoothing)
        for _ in range(12):
            for batch in torch.randperm(len(x)).split(512):
                optimiser.zero_grad()
                loss(network(x[batch]), y[batch]).backward()
                optimiser.step()
        with torch.no_grad():
            logits[smoothing] = network(inputs).double()
    return logits, labels


@pytest.mark.slow
def test_normalised_logits_restore_what_smoothing_spoils(smoothed_and_not):
    """Areas under the risk–coverage curve, of nearly equal accuracies: smoothing costs, the norm gives half of it back."""
    logits, y = smoothed_and_not
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    fit, test = order[:2500], order[2500:]
    areas, norms = {}, {}
    for smoothing, z in logits.items():
        wrong = z[test].argmax(1) != y[test]
        for score in ("probability", "logit-norm"):
            rule = decisions.Abstain(0.1, score=score).fit(z[fit], y[fit])
            areas[smoothing, score] = abstain.area(rule._scored(Rows(z[test], False))[0], wrong)
            norms[smoothing, score] = rule.norm_
            assert rule.evaluate(z[test], y[test])["error"].low < 0.1
    assert areas[0.3, "probability"] > 1.15 * areas[0.0, "probability"]  # spoiled
    assert areas[0.3, "logit-norm"] < 0.93 * areas[0.3, "probability"]  # and restored
    assert norms[0.0, "logit-norm"] is None  # nothing to restore: the fallback
    assert norms[0.3, "logit-norm"] >= 2


def test_a_norm_below_1_is_allowed():
    assert decisions.Abstain(error=0.1, score="logit-norm", norm=0.5).norm == 0.5


def test_the_norms_that_are_tried_and_the_seeds_that_are_taken():
    assert abstain.NORMS == (1, 2, 3, 4, 5, 6, 8, 10)
    assert decisions.Abstain(seed=2**62).seed == 2**62
    with pytest.raises(ValueError, match="`seed` must be at most"):
        decisions.Abstain(seed=2**62 + 1)
