"""Labels and scores as people have them in Python: texts, data frames, lists, single scores."""

from dataclasses import astuple

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from softkin import calibrators, decisions, diagrams, metrics, predictions, similarity
from softkin._core import named_labels
from softkin.predictions import Assumption

RNG = np.random.default_rng(0)
LOGITS = 2 * RNG.normal(size=(120, 3))
P = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
Y = np.array([RNG.choice(3, p=row) for row in P])
NAMES = ["cat", "dog", "owl"]
WORDS = [NAMES[k] for k in Y]
TURNED = [2, 0, 1]
FRAME = pd.DataFrame(P[:, TURNED], columns=[NAMES[k] for k in TURNED])


def measured(p, y):
    """A number of a metric, of a calibrator and of a rule."""
    cal = calibrators.TemperatureScaling().fit(p, y, from_probabilities=True)
    rule = decisions.PredictionSets(coverage=0.9).fit(p, y, from_probabilities=True)
    sizes = np.asarray(rule.predict(p, from_probabilities=True)).sum()
    return metrics.nll(p, y), cal.temperature_, int(sizes)


EXPECTED = measured(P, Y)


@pytest.mark.parametrize(
    ("p", "y"),
    [
        (P.tolist(), Y.tolist()),
        (tuple(map(tuple, P)), tuple(Y)),
        (FRAME, pd.Series(WORDS)),
        (FRAME, pd.Categorical(WORDS)),
        (FRAME, WORDS),
        (pl.DataFrame(P, schema=NAMES), pl.Series(WORDS)),
        (pl.DataFrame(P, schema=NAMES), pl.Series(WORDS).cast(pl.Categorical)),
        (P, Y.astype(float)),
        (P, Y[:, None]),
        (P, pd.Series(Y).astype("Int64")),
    ],
)
def test_the_same_numbers_from_every_form(p, y):
    assert measured(p, y) == pytest.approx(EXPECTED)


@pytest.mark.parametrize("words", [WORDS, np.array(WORDS), np.array(WORDS, dtype=object), tuple(WORDS)])
def test_texts_beside_unnamed_scores_are_in_alphabetical_order(words):
    with pytest.warns(Assumption, match="taken to be of cat, dog, owl, the labels in alphabetical order"):
        assert measured(P, words) == pytest.approx(EXPECTED)


def test_names_are_kept():
    rule = decisions.Abstain(error=0.4).fit(FRAME, WORDS, from_probabilities=True)
    assert rule.class_names_ == ["owl", "cat", "dog"]
    cal = calibrators.TemperatureScaling().fit(FRAME, WORDS, from_probabilities=True)
    assert cal.class_names_ == ["owl", "cat", "dog"]
    known = predictions.Predictions.from_probabilities(FRAME, WORDS)
    assert known.class_names == ["owl", "cat", "dog"]
    assert [known.class_names[k] for k in known.known_labels.tolist()] == WORDS
    assert predictions.Predictions(pd.DataFrame(LOGITS, columns=NAMES)).class_names == NAMES
    assert similarity.from_outputs(FRAME, WORDS).shape == (3, 3)


def test_what_no_name_tells_is_refused():
    with pytest.raises(TypeError, match="`labels` are texts such as 'a', and the scores have 3 columns without names"):
        metrics.nll(P[:2], ["a", "b"])
    with pytest.raises(TypeError, match="the classes owl, cat, dog; number the classes"):
        metrics.nll(FRAME[:2], ["cat", "cow"])
    with pytest.raises(TypeError, match="must be integers from 0 to K−1"):
        metrics.nll(P, Y + 0.5)


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_one_score_for_each_sample_is_of_class_1(shape):
    s = P[:, 1]
    y = (RNG.random(len(s)) < s).astype(int)
    two = np.stack([1 - s, s], axis=1)
    assert measured(s.reshape(shape), y) == pytest.approx(measured(two, y))
    odds = np.log(s) - np.log1p(-s)
    fitted, twin = (calibrators.PlattScaling().fit(z, y) for z in (odds.reshape(shape), np.stack([0 * odds, odds], 1)))
    answer = fitted.predict_proba(odds.reshape(shape))
    assert answer.shape == odds.reshape(shape).shape  # of class 1, as the scores are
    both = twin.predict_proba(np.stack([0 * odds, odds], axis=1))
    np.testing.assert_allclose(answer.reshape(-1), both[:, 1])
    assert diagrams.reliability(s.reshape(shape), y) is not None
    assert (
        predictions.Predictions(torch.tensor(odds).reshape(shape), y.astype(bool)).known_labels.tolist() == y.tolist()
    )
    with pytest.raises(ValueError, match="must be from 0 to 1"):
        calibrators.TemperatureScaling().fit(2 * s.reshape(shape), y, from_probabilities=True)


def test_texts_are_told_from_numbers():
    assert named_labels.texts_of(np.arange(3)) is None
    assert named_labels.texts_of([0, 1]) is None
    assert named_labels.texts_of(pd.Series(["a", None])) is None
    assert named_labels.columns_of(pd.DataFrame(P)) == ["0", "1", "2"]
    assert named_labels.columns_of(pd.DataFrame(P, columns=[1, 2, 3])) is None


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("kind", [calibrators.VectorScaling, calibrators.DirichletCalibration])
@pytest.mark.parametrize("labels", [WORDS, Y])
def test_new_scores_are_matched_with_the_fit_by_name(frame, kind, labels):
    """Columns in another order are answered in that order, by the parameters of their own classes."""
    cal = kind().fit(pd.DataFrame(LOGITS, columns=NAMES), labels)
    expected = cal.predict_proba(LOGITS)
    turned = [NAMES[k] for k in TURNED]
    new = LOGITS[:, TURNED]
    named = frame(dict(zip(turned, new.T, strict=True)))
    assert cal.predict_proba(named) == pytest.approx(expected[:, TURNED])
    assert cal.predict_proba(new, class_names=turned) == pytest.approx(expected[:, TURNED])
    assert torch.is_tensor(cal.predict_proba(torch.from_numpy(new), class_names=turned))
    assert cal.predict(new, class_names=turned).tolist() == expected[:, TURNED].argmax(1).tolist()
    assert cal.predict_proba(new[..., None], class_names=turned)[..., 0] == pytest.approx(expected[:, TURNED])
    assert cal.predict_proba(LOGITS, class_names=NAMES) == pytest.approx(expected)
    plain = dict(zip("abc", LOGITS.T, strict=True))  # such columns are no names of classes
    assert cal.predict_proba(frame(plain)) == pytest.approx(expected)
    for other in ({"class_names": ["cat", "dog", "eel"]}, {"class_names": ["cat", "dog"]}):
        with pytest.raises(ValueError, match="in any order, but it lacks 'owl'"):
            cal.predict_proba(new, **other)
    with pytest.raises(ValueError, match="but it lacks 'owl'; it also has 'eel'"):
        cal.predict_proba(frame(dict(zip(["cat", "dog", "eel"], LOGITS.T, strict=True))))


@pytest.mark.parametrize(("scores", "names"), [(LOGITS, NAMES), (pd.DataFrame(LOGITS, columns=NAMES), None)])
def test_a_kin_head_matches_names_too(scores, names):
    features = 0.7 * np.random.default_rng(3).normal(size=(120, 3)) + np.eye(3)[Y]
    cal = calibrators.KinHead().fit(scores, Y, features=features, class_names=names)
    expected = cal.predict_proba(LOGITS, features=features)
    turned = [NAMES[k] for k in TURNED]
    assert cal.predict_proba(LOGITS[:, TURNED], features=features, class_names=turned) == pytest.approx(
        expected[:, TURNED]
    )


def test_the_column_of_one_score_is_no_class():
    cal = calibrators.PlattScaling().fit(
        pd.DataFrame({"score": P[:, 1]}), (Y == 1).astype(int), from_probabilities=True
    )
    assert cal.class_names_ is None


def test_one_score_of_the_other_class_is_refused():
    s, hit = P[:, 0], (Y == 0).astype(int)
    cal = calibrators.PlattScaling().fit(s, hit, from_probabilities=True, class_names=["no", "yes"])
    cal.predict_proba(s, from_probabilities=True, class_names=["no", "yes"])
    with pytest.raises(ValueError, match="one score per sample is that of 'yes', the second class of the fit"):
        cal.predict_proba(s, from_probabilities=True, class_names=["yes", "no"])


@pytest.mark.parametrize("rule", [decisions.PredictionSets(conditional="class"), decisions.Abstain(error=0.4)])
@pytest.mark.parametrize("labels", [WORDS, Y])
def test_a_rule_refuses_columns_in_another_order(rule, labels):
    """Its answers name classes by their number, which would be that of the fit or that of the columns."""
    rule.fit(pd.DataFrame(LOGITS, columns=NAMES), labels)
    expected = rule.predict(LOGITS)
    assert (rule.predict(LOGITS, class_names=NAMES) == expected).all()
    turned = pd.DataFrame(LOGITS, columns=NAMES)[["owl", "cat", "dog"]]
    for act in (
        lambda: rule.predict(turned),
        lambda: rule.predict(LOGITS, class_names=["owl", "cat", "dog"]),
        lambda: rule.evaluate(turned, WORDS),
        lambda: rule.evaluate(LOGITS, Y, class_names=["owl", "cat", "dog"]),
    ):
        with pytest.raises(ValueError, match="the classes of the rule in another order.*`aligned`"):
            act()
    with pytest.raises(ValueError, match="it lacks 'owl'; it also has 'eel'"):
        rule.predict(LOGITS, class_names=["cat", "dog", "eel"])


def test_two_models_are_compared_class_by_class():
    """The columns of the second are brought into the order of the first."""
    first = pd.DataFrame(P, columns=NAMES)
    second = pd.DataFrame(P, columns=NAMES) ** 0.9
    second = second.div(second.sum(axis=1), axis=0)
    for metric in ("nll", "classwise_ece", lambda p, y: metrics.brier(p, y)):
        expected = metrics.compare(P, second.to_numpy(), Y, metric, resamples=100)
        for labels in (Y, WORDS):
            found = metrics.compare(first, second[["owl", "cat", "dog"]], labels, metric, resamples=100)
            assert astuple(found) == pytest.approx(astuple(expected))
    plain = second.set_axis(["a", "b", "c"], axis=1)
    assert metrics.compare(first, plain, WORDS, "nll", resamples=100) == metrics.compare(
        P, second.to_numpy(), Y, "nll", resamples=100
    )
    with pytest.raises(ValueError, match="`probabilities_b` must have the classes of `probabilities_a`.*lacks 'owl'"):
        metrics.compare(first, second.rename(columns={"owl": "eel"}), Y, "nll")


def test_other_spellings_are_understood_and_said():
    frame = pd.DataFrame([[0.9, 0.1], [0.2, 0.8]], columns=["Big cat", "dog"])
    with pytest.warns(Assumption, match="labels are read in any spelling; 'BIG_CAT ' is 'Big cat'"):
        assert metrics.nll(frame, ["BIG_CAT ", "dog"]) == metrics.nll(frame, ["Big cat", "dog"])
    with pytest.raises(TypeError, match="`labels` are texts such as 'cow'"):
        metrics.nll(frame, ["cow", "DOG"])
    twice = pd.DataFrame([[0.9, 0.1], [0.2, 0.8]], columns=["Dog", "dog"])
    with pytest.raises(TypeError, match="`labels` are texts such as 'DOG'"):
        metrics.nll(twice, ["DOG", "dog"])


# Missing labels

GONE = [3, 9]
KEPT = np.delete(np.arange(120), GONE)


def gaps():
    """Labels of every kind with two missing."""
    numbers = pd.Series(Y).astype("Int64")
    numbers[GONE] = pd.NA
    words = np.array(WORDS, dtype=object)
    words[GONE] = None
    nan = Y.astype(float)
    nan[GONE] = np.nan
    return {
        "NaN": nan,
        "a column": nan[:, None],
        "tensor": torch.tensor(nan),
        "pandas": numbers,
        "pandas of floats": pd.Series(nan),
        "polars": pl.Series([None if row in GONE else int(k) for row, k in enumerate(Y)]),
        "list": [None if row in GONE else int(k) for row, k in enumerate(Y)],
        "masked": np.ma.array(Y, mask=np.isin(np.arange(120), GONE)),
        "words": words,
        "words of pandas": pd.Series(words),
        "words and NaN": [float("nan") if row in GONE else word for row, word in enumerate(WORDS)],
    }


@pytest.mark.parametrize("kind", gaps())
def test_rows_whose_label_is_missing_are_left_out_and_said(kind):
    frame = pd.DataFrame(P, columns=NAMES)
    with pytest.warns(
        Assumption, match=r"2 of 120 rows have no label in `labels` .* and are left out, the first is row 3\."
    ):
        found = measured(frame, gaps()[kind])
    rule = decisions.PredictionSets(coverage=0.9).fit(P[KEPT], Y[KEPT], from_probabilities=True)
    sizes = int(np.asarray(rule.predict(P, from_probabilities=True)).sum())
    assert found == (*measured(P[KEPT], Y[KEPT])[:2], sizes)
    with pytest.raises(ValueError, match=r"2 of 120 rows have no label .*; leave rows without a label out"):
        predictions.Predictions.from_probabilities(frame, gaps()[kind])


def test_what_stands_beside_missing_labels_goes_with_them():
    y, weights, other = gaps()["NaN"], RNG.uniform(0.5, 2, 120), P[:, [1, 2, 0]]
    with pytest.warns(Assumption):
        assert metrics.nll(P, y, sample_weight=weights) == metrics.nll(P[KEPT], Y[KEPT], sample_weight=weights[KEPT])
    with pytest.warns(Assumption):
        assert metrics.compare(P, other, y, resamples=100) == metrics.compare(
            P[KEPT], other[KEPT], Y[KEPT], resamples=100
        )
    with pytest.warns(Assumption):
        cal = calibrators.TemperatureScaling().fit(LOGITS, y, sample_weight=weights, sample_ids=list(range(120)))
    again = calibrators.TemperatureScaling().fit(LOGITS[KEPT], Y[KEPT], sample_weight=weights[KEPT])
    assert cal.temperature_ == again.temperature_
    with pytest.warns(Assumption):
        rule = decisions.PredictionSets(coverage=0.9).fit(LOGITS, y, groups=np.arange(120) % 2)
    assert rule.num_samples_ == 118


def test_pairs_with_a_gap_stay_pairs():
    right = [None if row in GONE else bool(P[row].argmax() == Y[row]) for row in range(120)]
    score = P.max(axis=1)
    expected = metrics.nll(score[KEPT], np.array([right[row] for row in KEPT]))
    for given in (right, np.array(right, dtype=object), pd.Series(right)):
        with pytest.warns(Assumption):
            assert metrics.nll(score, given) == expected


def test_labels_that_are_all_missing_are_refused():
    with pytest.raises(ValueError, match="120 of 120 rows have no label"):
        metrics.nll(P, np.full(120, np.nan))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_labels_in_columns_follow_the_columns_of_the_scores(frame):
    """Votes and several labels whose columns come in another order than the scores'."""
    votes = np.random.default_rng(5).multinomial(4, P)
    marks = (np.random.default_rng(6).random(P.shape) < P).astype(int)
    turned = [NAMES[k] for k in TURNED]
    given = {"from_probabilities": True}
    for p, y, number in (
        (P, votes, metrics.nll),
        (P**0.5, marks, metrics.classwise_ece),
        (P, votes, lambda p, y: calibrators.VectorScaling().fit(p, y, **given).predict_proba(P[:1], **given)),
        (P, votes, lambda p, y: predictions.Predictions.from_probabilities(p, y).known_labels),
        (P, marks, lambda p, y: calibrators.PerLabel().fit(p, y, **given).predict_proba(P[:3], **given)),
    ):
        scores = frame(dict(zip(NAMES, p.T, strict=True)))
        expected = number(scores, y)
        named = frame(dict(zip(turned, y[:, TURNED].T, strict=True)))
        np.testing.assert_allclose(number(scores, named), expected)
        plain = frame(dict(zip("abc", y.T, strict=True)))  # such columns name no class
        np.testing.assert_allclose(number(scores, plain), expected)
        with pytest.raises(ValueError, match="in any order, but it lacks 'owl'; it also has 'eel'"):
            number(scores, frame(dict(zip(["cat", "dog", "eel"], y.T, strict=True))))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_calibrators_of_several_labels_match_names_too(frame):
    marks = (np.random.default_rng(6).random(P.shape) < P).astype(int)
    cal = calibrators.PerLabel().fit(frame(dict(zip(NAMES, LOGITS.T, strict=True))), marks)
    assert cal.label_names_ == NAMES
    expected, turned = cal.predict_proba(LOGITS), [NAMES[k] for k in TURNED]
    named = frame(dict(zip(turned, LOGITS[:, TURNED].T, strict=True)))
    assert cal.predict_proba(named) == pytest.approx(expected[:, TURNED])
    assert cal.predict_proba(LOGITS[:, TURNED], label_names=turned) == pytest.approx(expected[:, TURNED])
    with pytest.raises(ValueError, match="it lacks 'owl'; it also has 'eel'"):
        cal.predict_proba(LOGITS, label_names=["cat", "dog", "eel"])


@pytest.mark.parametrize("names", [{1: "dog", 0: "cat", 2: "owl"}, {"owl": 2, "cat": 0, "dog": 1}, tuple(NAMES)])
@pytest.mark.parametrize("labels", [Y, WORDS])
def test_names_with_their_numbers_are_in_the_order_of_the_numbers(names, labels):
    """``id2label`` and ``label2id`` of a configuration."""
    cal = calibrators.VectorScaling().fit(LOGITS, labels, class_names=names)
    assert cal.class_names_ == NAMES
    expected = calibrators.VectorScaling().fit(LOGITS, Y).predict_proba(LOGITS)
    assert cal.predict_proba(LOGITS) == pytest.approx(expected)
    assert predictions.Predictions(LOGITS, labels, class_names=names).class_names == NAMES
    assert decisions.Abstain(error=0.4).fit(LOGITS, labels, class_names=names).class_names_ == NAMES
    turned = {0: "owl", 1: "cat", 2: "dog"}
    assert cal.predict_proba(LOGITS[:, TURNED], class_names=turned) == pytest.approx(expected[:, TURNED])


def test_names_of_columns_may_hold_more_than_those_of_the_fit():
    """The same letters before and behind each name of a class are no part of it; others are."""
    scores = pd.DataFrame(dict(zip(NAMES, LOGITS.T, strict=True)))
    cal = calibrators.VectorScaling().fit(scores, Y)
    expected = cal.predict_proba(scores)[:, TURNED]
    for before, after in (("est. ", ""), ("", " [v2]"), ("est_", "_q3")):
        longer = pd.DataFrame({f"{before}{NAMES[k]}{after}": LOGITS[:, k] for k in TURNED})
        torch.testing.assert_close(cal.predict_proba(longer), expected)
        torch.testing.assert_close(cal.predict_proba(longer.to_numpy(), class_names=[*longer]), expected)
    with pytest.raises(ValueError, match="in any order, but it lacks"):
        cal.predict_proba(scores.rename(columns={NAMES[0]: f"a{NAMES[0]}", NAMES[1]: f"b{NAMES[1]}"}))


@pytest.mark.filterwarnings("ignore::softkin.predictions.Assumption")
def test_numbered_columns_in_another_order_are_matched_by_their_numbers():
    """Of a data frame the column 2 is class 2, wherever it stands, in metrics and after a fit."""
    y, mixed = P.argmax(axis=1), pd.DataFrame(P[:, [2, 0, 1]], columns=[2, 0, 1])
    assert metrics.accuracy(mixed, y) == 1
    fitted = calibrators.TemperatureScaling().fit(mixed, y, from_probabilities=True)
    plain = calibrators.TemperatureScaling().fit(P, y, from_probabilities=True)
    assert fitted.temperature_ == pytest.approx(plain.temperature_)
    expected = plain.predict_proba(P, from_probabilities=True)
    for order in ([0, 1, 2], [1, 0, 2]):  # answers come in the order of the columns
        found = fitted.predict_proba(pd.DataFrame(P[:, order], columns=order), from_probabilities=True)
        np.testing.assert_allclose(np.asarray(found), expected[:, order], atol=1e-12)
    rule = decisions.Abstain(0.3).fit(mixed, y, from_probabilities=True)
    assert rule.evaluate(mixed, y, from_probabilities=True)["error"].value == 0


@pytest.mark.parametrize(("no", "yes"), [("nein", "ja"), ("no", "yes"), ("Negative", "Positive"), ("cat", "dog")])
def test_a_single_score_is_of_the_positive_word(no, yes):
    labels = [yes, no, yes, no, yes]
    with pytest.warns(UserWarning, match=f"the scores are taken to be of {no}, {yes}"):
        assert metrics.accuracy([0.9, 0.2, 0.7, 0.4, 0.6], labels) == 1
