"""A file that cannot be what it was read as is doubted first, with the likely cause; an ordinary one is not."""

import json

import numpy as np
import pytest
import torch

from command_line import run
from places import ROOT
from softkin import predictions
from softkin.evaluation import doubts

N, K = 600, 5
GENERATOR = np.random.default_rng(3)
P = GENERATOR.dirichlet(np.full(K, 0.3), N)
Y = np.array([GENERATOR.choice(K, p=row) for row in P])
NAMES = ["ant", "bee", "cow", "dog", "elk"]


def said(labels, p=P, names=NAMES):
    p = torch.as_tensor(p)
    return doubts.doubts(torch.as_tensor(labels), p.argmax(1), p.amax(1), p.shape[1], names)


def test_an_ordinary_file_is_not_doubted():
    assert said(Y) == []
    assert said(Y[:10]) == []
    known = predictions.load(ROOT / "examples" / "digits-test.npz")
    assert doubts.of_predictions(known, known.probabilities.amax(1)) == []


def test_calibrated_chance_is_not_doubted():
    # A model that knows nothing and says so is as right as chance, and not surer than it.
    flat = np.full((N, K), 1 / K) + GENERATOR.normal(0, 1e-3, (N, K))
    assert said(GENERATOR.integers(K, size=N), flat) == []


@pytest.mark.parametrize(
    ("labels", "p", "words"),
    [
        ((Y + 1) % K, P, "would be if each label were one lower: are labels and columns counted from the same number"),
        ((Y - 1) % K, P, "would be if each label were one higher"),
        (np.array([2, 3, 4, 0, 1])[Y], P, "with the classes in another order, such as `.*` for `.*--class-names"),
        (GENERATOR.permutation(Y), P, r"no more than by chance \(.* %\), though the model is .* scores and labels in the same order"),
        (np.full(N, 2), P, "Every label is `cow`: is this the column of labels .--label-column"),
        (np.where(Y == 3, 0, Y), P, "win but are never the label: `dog` .* all labels here"),
        (Y, np.concatenate([P[:, :4], P[:, 4:] * 0], axis=1), "Some labels never win: `elk` .*rows"),
        (Y % 4, np.concatenate([P[:, :4], 30 + P[:, 4:]], axis=1), "`elk` wins 100.0 % of the rows, and 0.0 % .*--ignore-columns elk"),
    ],
)  # fmt: skip
def test_what_cannot_be_right(labels, p, words):
    import re

    assert any(re.search(words, sentence) for sentence in said(labels, p)), said(labels, p)


def test_two_classes_turned_round():
    p = GENERATOR.beta(0.5, 0.5, N)
    truth = (GENERATOR.random(N) < p).astype(int)
    both = np.stack([1 - p, p], axis=1)
    assert said(truth, both, ["ham", "spam"]) == []
    (sentence,) = said(1 - truth, both, ["ham", "spam"])
    assert "the two classes look turned round" in sentence
    assert "--positive-class ham" in sentence


def test_a_class_that_never_occurs_and_never_wins():
    p = np.concatenate([P, np.zeros((N, 1))], axis=1)
    assert said(Y, p, [*NAMES, "fox"]) == ["1 of 6 classes never occur among the labels, such as `fox`."]


def test_probabilities_that_are_called_logits():
    called = predictions.Predictions(torch.tensor(P), torch.tensor(Y))
    (sentence, *_) = doubts.of_predictions(called, called.probabilities.amax(1))
    assert "rows sum to 1: they are probabilities" in sentence


@pytest.mark.filterwarnings("default")
def test_doubts_come_first_on_every_surface(tmp_path, capsys):
    p = np.clip(GENERATOR.beta(0.5, 0.5, N), 1e-3, 1 - 1e-3)
    truth = (GENERATOR.random(N) > p).astype(int)
    path = tmp_path / "a.csv"
    path.write_text("y_true,y_prob\n" + "\n".join(f"{k},{q}" for k, q in zip(truth, p, strict=True)))
    code, printed, _ = run(capsys, "evaluate", path, "--resamples", 100, "--report", tmp_path / "page.html")
    assert code == 0
    assert printed.index("Doubtful: Only") < printed.index("Over-confident")
    page = (tmp_path / "page.html").read_text()
    assert page.index('class="doubt"') < page.index('id="headline"')
    code, printed, _ = run(capsys, "evaluate", path, "--resamples", 100, "--json")
    verdict = json.loads(printed)["models"][0]["verdict"]
    assert list(verdict)[0] == "doubts"
    assert "--positive-class 0" in verdict["doubts"][0]
    code, _, warned = run(capsys, "calibrate", "fit", path, "--method", "temperature", "--output", tmp_path / "cal")
    assert code == 0
    assert "the two classes look turned round" in warned
    code, printed, _ = run(capsys, "evaluate", path, "--resamples", 100, "--positive-class", "0")
    assert "Doubtful" not in printed
