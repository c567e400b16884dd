"""Files of pairs: a confidence, and whether it was right."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from softkin import SoftkinError, evaluation, metrics, predictions
from softkin.predictions import Predictions

SCORES = [0.9, 0.8, 0.35, 0.6, 0.2]
RIGHT = [1, 1, 0, 0, 1]


def table(columns):
    rows = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    return "\n".join(rows) + "\n"


READ = [
    {"confidence": SCORES, "correct": RIGHT},
    {"score": SCORES, "is_correct": ["True" if right else "False" for right in RIGHT]},
    {"prob": SCORES, "outcome": RIGHT},
    {"p": SCORES, "correct": ["yes" if right else "no" for right in RIGHT]},
    {"id": range(5), "question": list("abcde"), "confidence": SCORES, "correct": RIGHT},
    {"confidence": [f"{round(100 * score)}%" for score in SCORES], "correct": RIGHT},
    {"confidence": [round(100 * score) for score in SCORES], "correct": RIGHT},
    {"logprob": np.log(SCORES).tolist(), "correct": RIGHT},
    {"confidence": SCORES, "label": RIGHT},
    {"prediction": list("AABCD"), "label": list("AACAD"), "confidence": SCORES},
    {"gold": list("AACAD"), "answer": list("AABCD"), "confidence": SCORES},
    {"verbalized_confidence": SCORES, "correct": RIGHT},
    {"question": list("abcde"), "answer_prob": SCORES, "is_correct": RIGHT},
    {"iou": [0.9, 0.7, 0.1, 0.3, 0.6], "score": SCORES, "tp": RIGHT},
    {"probability": SCORES, "resolved": ["YES" if right else "NO" for right in RIGHT]},
    {"age": [30, 41, 52, 63, 74], "bmi": [20.5, 21.5, 30.1, 24.4, 25.5], "outcome": RIGHT, "risk": SCORES},
    {"confidence": SCORES, "grade": ["C" if right else "I" for right in RIGHT]},
]


@pytest.mark.filterwarnings("ignore:.*is read as (percent|logarithms)")
@pytest.mark.parametrize("columns", READ, ids=lambda columns: " ".join(columns))
def test_pairs_are_recognised_and_said(tmp_path, columns):
    path = tmp_path / "judge.csv"
    path.write_text(table(columns))
    with pytest.warns(predictions.Assumption, match="is read as the confidence of pairs"):
        read = predictions.load(path)
    assert read.are_pairs
    torch.testing.assert_close(read.probabilities[:, 1], torch.tensor(SCORES, dtype=torch.float64))
    assert read.known_labels.tolist() == RIGHT


def test_stated_columns_are_taken(tmp_path):
    path = tmp_path / "judge.csv"
    path.write_text(table({"judge": SCORES, "human": RIGHT, "confidence": [0.5] * 5}))
    read = predictions.load(path, score="judge", outcome="human")
    assert read.are_pairs
    assert read.probabilities[:, 1].tolist() == SCORES
    with pytest.raises(SoftkinError, match=r"has no `jugde` \(--score\); it has judge, human"):
        predictions.load(path, score="jugde", outcome="human")
    with pytest.raises(SoftkinError, match="must have a column of outcomes, named by --outcome"):
        predictions.load(path, score="judge")


def test_the_score_of_an_outcome_that_is_named_alone_is_found(tmp_path):
    """The only score of class 1; or, of a table that was calibrated, the calibrated one rather than the first."""
    path = tmp_path / "scored.csv"
    rest = {"words": [11, 12, 13, 14, 15], "positive": RIGHT}
    off = [0.5] * 5
    for columns, score, expected in (
        ({"model_score": SCORES}, "model_score", SCORES),
        ({"y_prob": SCORES}, "y_prob", SCORES),
        (
            {"model_score": off, "calibrated_0": [1 - p for p in SCORES], "calibrated_1": SCORES},
            "calibrated_1", SCORES,
        ),
        (
            {"prob": off, "calibrated_no": [1 - p for p in SCORES], "calibrated_yes": SCORES},
            "calibrated_yes", SCORES,
        ),
    ):  # fmt: skip
        path.write_text(table(rest | columns))
        with pytest.warns(
            predictions.Assumption, match=f"`{score}` is taken for the confidence .--score names another"
        ):
            read = predictions.load(path, outcome="positive")
        assert read.are_pairs
        assert read.probabilities[:, 1].tolist() == expected
        assert read.known_labels.tolist() == RIGHT
    path.write_text(table(rest | {"calibrated_neg": [1 - p for p in SCORES], "calibrated_pos": SCORES}))
    with pytest.raises(SoftkinError, match="must have a column of confidences, named by --score"):
        predictions.load(path, outcome="positive")
    path.write_text(table(rest | {"a": SCORES, "b": off}))
    with pytest.raises(SoftkinError, match="must have a column of confidences, named by --score"):
        predictions.load(path, outcome="positive")


def test_the_score_of_a_class_is_no_confidence(tmp_path):
    path = tmp_path / "binary.csv"
    path.write_text(table({"y_true": RIGHT, "y_prob": SCORES}))
    with pytest.warns(predictions.Assumption, match="is read as the score of class 1"):
        read = predictions.load(path)
    assert not read.are_pairs
    assert read.num_classes == 2
    path.write_text(table({"confidence": SCORES, "correct": RIGHT}))
    with pytest.warns(predictions.Assumption, match="are read as probabilities"):
        assert not predictions.load(path, label_column="correct", positive_class="1").are_pairs


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"confidence": [0.9, "high"], "correct": [1, 0]}, "line 3: `confidence` must hold a confidence in each row"),
        ({"confidence": [0.9, -0.1], "correct": [1, 0]}, "line 3: `confidence` must be from 0 to 1, got -0.1"),
        ({"confidence": [90, 101], "correct": [1, 0]}, "must be from 0 to 1"),
    ],
)
def test_bad_pairs_get_one_sentence(tmp_path, columns, words):
    path = tmp_path / "judge.csv"
    path.write_text(table(columns))
    with pytest.warns(predictions.Assumption), pytest.raises(SoftkinError, match=words):
        predictions.load(path)


def test_a_bad_outcome_far_down_is_found(tmp_path):
    path = tmp_path / "judge.csv"
    path.write_text(table({"confidence": [0.5] * 2000, "correct": [1] * 1999 + [7]}))
    with (
        pytest.warns(predictions.Assumption),
        pytest.raises(SoftkinError, match="line 2001: `correct` must say whether"),
    ):
        predictions.load(path)


def test_arrays_of_pairs(tmp_path):
    np.savez(
        tmp_path / "a.npz", confidence=SCORES, correct=np.array(RIGHT, bool), model=list("xxyyy"), w=[1, 2, 3, 4, 5]
    )
    with pytest.warns(predictions.Assumption, match="whether it was right"):
        read = predictions.load(tmp_path / "a.npz", group="model", weight="w")
    assert read.are_pairs
    assert read.groups == list("xxyyy")
    assert read.weights.tolist() == [1, 2, 3, 4, 5]
    (tmp_path / "a.jsonl").write_text(
        "\n".join(json.dumps({"confidence": s, "correct": bool(r)}) for s, r in zip(SCORES, RIGHT, strict=True))
    )
    with pytest.warns(predictions.Assumption):
        again = predictions.load(tmp_path / "a.jsonl")
    assert torch.equal(again.probabilities, read.probabilities)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".csv"])
@pytest.mark.filterwarnings("ignore::softkin._io.files.Assumption")
def test_pairs_survive_a_file(tmp_path, suffix):
    right = torch.tensor(RIGHT)
    s = torch.tensor(SCORES, dtype=torch.float64)
    pairs = Predictions.from_probabilities(torch.stack([1 - s, s], 1), right, are_pairs=True, weights=1 + s)
    pairs.save(tmp_path / f"pairs{suffix}")
    named = "weight" if suffix == ".csv" else "weights"
    read = predictions.load(tmp_path / f"pairs{suffix}", weight=named)
    assert read.are_pairs
    assert torch.equal(read.probabilities, pairs.probabilities)
    assert torch.equal(read.known_labels, right)
    assert torch.equal(read.weights, 1 + s)


@pytest.mark.filterwarnings("ignore::softkin._io.files.Assumption")
@pytest.mark.parametrize("n", [300, 60_000])
def test_an_evaluation_of_pairs_has_the_numbers_of_the_metrics(tmp_path, n):
    rng = np.random.default_rng(0)
    s = rng.random(n).round(4)
    right = rng.random(n) < s**1.4
    np.savez(tmp_path / "pairs.npz", confidence=s, correct=right)
    data = evaluation.evaluate_file(tmp_path / "pairs.npz", resamples=200).data
    assert data["kind"] == "pairs"
    assert data["num_classes"] == 1
    assert data["num_samples"] == n
    for key in ("accuracy", "brier", "ece_hist", "signed_gap", "smooth_ece", "aurc", "confidence_auroc", "ece_kde"):
        expected = getattr(metrics, key)(s, right)
        assert data["metrics"][key]["value"] == pytest.approx(expected, rel=1e-6), key
        assert data["metrics"][key]["low"] <= expected <= data["metrics"][key]["high"]
    assert "pairs have one score per row" in data["metrics"]["ece_hist_output"]["absent"]
    assert data["verdict"]["kind"] == "over"


def test_what_people_write_for_right_and_wrong(tmp_path):
    right = ["1", "true", "yes", "y", "t", "right", "correct", "pass", "passed", "TRUE", "1.0"]
    wrong = ["0", "false", "no", "n", "f", "wrong", "incorrect", "fail", "failed", "False", "0.0"]
    path = tmp_path / "judge.csv"
    path.write_text(table({"confidence": [0.5] * 22, "outcome": right + wrong}))
    with pytest.warns(predictions.Assumption):
        assert predictions.load(path).known_labels.tolist() == [1] * 11 + [0] * 11


def test_a_confidence_beside_names_of_classes_is_no_pair(tmp_path):
    path = tmp_path / "judge.csv"
    path.write_text(table({"confidence": SCORES, "label": list("ABABA")}))
    with pytest.raises(SoftkinError):
        predictions.load(path)


def test_arrays_of_one_column_are_pairs_and_wide_ones_are_classes(tmp_path):
    column = np.array(SCORES)[:, None]
    np.savez(tmp_path / "a.npz", confidence=column, correct=np.array(RIGHT)[:, None])
    with pytest.warns(predictions.Assumption, match="whether it was right"):
        assert predictions.load(tmp_path / "a.npz").probabilities[:, 1].tolist() == SCORES
    two = np.concatenate([1 - column, column], axis=1)
    np.savez(tmp_path / "b.npz", probs=two, labels=RIGHT, confidence=SCORES, correct=RIGHT)
    read = predictions.load(tmp_path / "b.npz")
    assert not read.are_pairs
    np.testing.assert_array_equal(read.probabilities, two)


@pytest.mark.parametrize(
    ("rows", "right"),
    [
        ("cat,cat,0.6 dog,cat,0.8 owl,owl,0.45 dog,dog,0.9", [1, 0, 1, 1]),
        ("cat,cat,0.6 dog,cat,0.8 dog,dog,0.9", [1, 0, 1]),
    ],
    ids=["three classes", "two classes, never below half"],
)
@pytest.mark.parametrize("header", ["truth,pred,score", "gold,label,score", "true,top1,top1_prob"])
def test_a_score_beside_an_answer_and_the_truth_is_the_answers(tmp_path, rows, right, header):
    path = tmp_path / "a.csv"
    path.write_text(f"{header}\n" + rows.replace(" ", "\n"))
    truth, answer, _ = header.split(",")
    with pytest.warns(predictions.Assumption, match=f"right where `{answer}` is `{truth}`"):
        found = predictions.load(path)
    assert found.are_pairs
    assert found.known_labels.tolist() == right


@pytest.mark.slow
def test_a_row_that_was_cut_ends_in_a_sentence_and_not_in_an_abort(tmp_path):
    """A thread of Arrow held a Python object while Python ended, and aborted about every second process."""
    (tmp_path / "a.csv").write_text("question,confidence,correct\na,0.9,1\nb,0.8\n")
    command = [sys.executable, "-m", "softkin", "evaluate", str(tmp_path / "a.csv")]
    for _ in range(6):
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, "terminate" in done.stderr) == (1, False)
        assert "line 3 has 2 cells, the first 'b', and its header has 3" in " ".join(done.stderr.split())


@pytest.mark.filterwarnings("ignore::softkin.predictions.Assumption")
@pytest.mark.parametrize("columns", ["confidence,correct", "y_prob,y_true"])
def test_scores_beyond_1_by_a_rounding_are_1(tmp_path, columns):
    """Sums in float32 end at 1.000001; this was refused for a binary model, and read as percent for pairs."""
    path = tmp_path / "a.csv"
    path.write_text(f"{columns}\n0.9,1\n1.0000012,1\n0.3,0\n-0.0000002,0\n0.6,1\n")
    found = predictions.load(path)
    torch.testing.assert_close(found.probabilities[:, 1].double(), torch.tensor([0.9, 1, 0.3, 0, 0.6]).double())
    scores = np.array([0.9, 1.0000012, 0.3, 0.6])
    assert metrics.brier(scores, np.array([1, 1, 0, 1]), per="score") == pytest.approx((0.01 + 0.09 + 0.16) / 4)
    with pytest.raises(ValueError, match="must be from 0 to 1"):
        metrics.brier(scores + 0.001, np.array([1, 1, 0, 1]))
