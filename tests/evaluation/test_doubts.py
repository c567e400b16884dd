"""A file that cannot be what it was read as is doubted first, with the likely cause; an ordinary one is not. Rows that a calibrator was fitted on are found by their content."""

import json
import re

import numpy as np
import pytest
import torch

from command_line import run
from places import ROOT
from softkin import calibrators, decisions, predictions
from softkin.evaluation import calibrations, deciding, doubts
from softkin.predictions import Predictions

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


def test_labels_that_equal_every_answer_are_doubted_unless_the_model_is_very_sure():
    answers, sure = P.argmax(1), np.eye(K)[P.argmax(1)] * 0.999 + 0.001 / K
    doubt = "The labels equal the model's answers in every row, though it is .* % sure: are these the predictions"
    assert re.match(doubt, said(answers)[0])
    assert said(answers, sure) == []  # of 600 answers, half a one is expected to be wrong
    assert said(answers[:29], P[:29]) == []
    assert said(np.where(np.arange(N) == 7, (answers + 1) % K, answers)) == []


def test_calibrated_chance_is_not_doubted():
    # A model that knows nothing and says so is as right as chance, and not surer than it.
    flat = np.full((N, K), 1 / K) + GENERATOR.normal(0, 1e-3, (N, K))
    assert said(GENERATOR.integers(K, size=N), flat) == []


@pytest.mark.parametrize(
    ("labels", "p", "words"),
    [
        ((Y + 1) % K, P, "would be if each label were one lower: are labels and columns counted from the same number"),
        (np.array([1, 2, 4, 0, 3])[P.argmax(1)], P, "100.0 % would be with the classes in another order"),
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
    assert printed.index("Doubtful: Only") < printed.index("here it says")  # the headline
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


def test_digests_of_rows():
    logits, labels = torch.randn(1000, 5), torch.randint(5, (1000,))
    first = doubts.row_digests(Predictions(logits, labels))
    assert len(set(first.tolist())) == 1000
    assert np.array_equal(doubts.row_digests(Predictions(logits.double(), labels)), first)
    assert not np.isin(doubts.row_digests(Predictions(logits, (labels + 1) % 5)), first).any()
    assert not np.isin(doubts.row_digests(Predictions(logits.flip(1), labels)), first).any()
    assert doubts.notice(doubts.Overlap(3, 1000), "x", "y") is None  # a few equal rows prove nothing
    assert doubts.warning({}, "y") is None
    assert doubts.warning({"calibration": "nonsense"}, "y") is None


def saturated(n, *, seed, ids=None):
    """Probabilities of which most are 0 and 1, as of a network that has learnt its data by heart."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (n,), generator=generator)
    p = torch.softmax(torch.randn(n, 10, generator=generator), dim=1)
    one_hot = torch.rand(n, generator=generator) < 0.8
    p[one_hot] = torch.nn.functional.one_hot(labels[one_hot], 10).float()
    return Predictions.from_probabilities(p, labels, sample_ids=ids, name=f"file {seed}")


def test_equal_rows_of_other_samples_are_no_leak():
    for ids, other_ids in (
        (None, None),
        (list(range(2000)), list(range(2000))),
        ([f"a{i}" for i in range(2000)], None),
    ):
        fitted, other = saturated(2000, seed=0, ids=ids), saturated(2000, seed=1, ids=other_ids)
        assert doubts.between(fitted, other) is None
        assert "2,000 of the 2,000 samples" in doubts.between(fitted, fitted)
    # A part of it among others is noticed by the rows that speak for themselves, and by ids where there are any.
    fitted = saturated(2000, seed=0, ids=[f"image {i}" for i in range(2000)])
    again = fitted.take(torch.arange(500))
    assert "500 of the 500 samples" in doubts.between(fitted, again)
    from dataclasses import replace

    said = doubts.between(fitted, replace(again, sample_ids=None))
    assert re.match(r"at least (8|9|10|11)\d of the 500 samples", said)  # about 100: a fifth is not saturated


@pytest.mark.parametrize("kept", [2, 3, 4])
def test_the_rows_of_a_fit_are_counted_exactly_by_ids_in_the_file_that_they_came_from(kept):
    """Also those whose rounded scores and label are unique among the rows of the fit, but not in the whole file."""
    generator = torch.Generator().manual_seed(1)
    p = torch.rand(900, generator=generator).round(decimals=2).double()
    y = (torch.rand(900, generator=generator) < p).long()
    ids = [f"R{i}" for i in range(900)]
    whole = Predictions.from_probabilities(torch.stack([1 - p, p], dim=1), y, sample_ids=ids, name="whole")
    part = torch.arange(0, 900, kept)
    fitted = calibrations.fit(calibrators.TemperatureScaling(), whole.take(part), floor=0.005)
    assert doubts.seen(fitted, whole, 900) == doubts.Overlap(len(part), 900)
    assert doubts.seen(fitted, whole.take(part + 1 if kept == 2 else part + 2), len(part)).common == 0
    rule = deciding.fit(decisions.Abstain(error=0.4), whole.take(part))
    assert deciding.notice(rule, whole, 900).startswith(f"{len(part)} of the 900 samples of whole are among")


def test_equal_ids_are_a_leak_whatever_the_scores_unless_labels_differ():
    ids = [f"image {i}" for i in range(300)]
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(300, 5, generator=generator), torch.randint(5, (300,), generator=generator)
    fitted = Predictions(logits, labels, sample_ids=ids, name="fitted")
    for scores in (logits.half().float(), 2 * logits):
        again = Predictions(scores, labels, sample_ids=ids, name="again")
        assert "300 of the 300 samples of again" in doubts.between(fitted, again)
    others = Predictions(2 * logits, labels.flip(0), sample_ids=ids, name="others")
    assert doubts.between(fitted, others) is None
    numbered = [Predictions(scores, labels, sample_ids=torch.arange(300), name="x") for scores in (logits, 2 * logits)]
    assert doubts.between(*numbered) is None


def test_coarse_scores_of_disjoint_samples_are_no_leak():
    """The votes of 20 trees for 3 classes: 231 different rows, and many of them in both files."""
    generator = torch.Generator().manual_seed(0)
    sharp = torch.softmax(2 * torch.randn(1600, 3, generator=generator), dim=1)
    votes = torch.multinomial(sharp, 20, replacement=True, generator=generator)
    p = torch.nn.functional.one_hot(votes, 3).double().mean(dim=1)
    labels = torch.multinomial(sharp, 1, generator=generator)[:, 0]
    for n in (100, 400, 800):
        halves = [
            Predictions.from_probabilities(p[i * n : (i + 1) * n], labels[i * n : (i + 1) * n], name="x")
            for i in (0, 1)
        ]
        common = np.isin(doubts.row_digests(halves[1]), doubts.row_digests(halves[0])).mean()
        assert common > 0.2
        assert doubts.between(*halves) is None
        assert f"{n} of the {n} samples" in doubts.between(halves[0], halves[0])


def test_scores_that_are_decisions_are_doubted():
    labels = torch.arange(60) % 2
    answers = torch.where(torch.arange(60) % 5 == 0, 1 - labels, labels)
    assert doubts.doubts(labels, answers, torch.ones(60), 2, None) == [doubts.DECISIONS]
    assert doubts.doubts(labels, labels, torch.ones(60), 2, None) == []
    assert doubts.doubts(labels, answers, torch.full((60,), 0.99), 2, None) == []
