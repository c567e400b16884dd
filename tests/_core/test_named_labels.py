"""Labels and scores as people have them in Python: texts, data frames, lists, single scores."""

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
    assert named_labels.columns_of(pd.DataFrame(P)) is None
