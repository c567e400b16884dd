"""Logs of lm-evaluation-harness, in the forms that its versions write; lines are those of version 0.4.13."""

import json

import numpy as np
import pytest
import torch

from softkin import SoftkinError, calibrators, evaluation, predictions

pytestmark = pytest.mark.filterwarnings("ignore::softkin.predictions.Assumption")


def sample(number, likelihoods, target, *, old=False, choices=None):
    """A line of a log; older versions write numbers as numbers, and arguments as lists."""
    choices = choices or [f" choice {k}" for k in range(len(likelihoods))]
    question = f"Question {number}?"
    arguments = (
        [[question, choice] for choice in choices]
        if old
        else {f"gen_args_{k}": {"arg_0": question, "arg_1": choice} for k, choice in enumerate(choices)}
    )
    responses = [[value if old else str(value), False if old else "False"] for value in likelihoods]
    return {
        "doc_id": number, "doc": {"q": question}, "target": target, "arguments": arguments,
        "resps": [[response] for response in responses], "filtered_resps": responses, "filter": "none", "metrics": ["acc"],
        "acc": float(int(np.argmax(likelihoods)) == target),
    }  # fmt: skip


def write(path, samples):
    path.write_text("".join(json.dumps(line) + "\n" for line in samples))
    return path


@pytest.mark.parametrize("old", [True, False])
def test_options_are_classes_and_likelihoods_logits(tmp_path, old):
    likelihoods = [[-1.5, -0.25, -3.0], [-2.0, -4.0, -1.0]]
    targets = [1, 0] if old else ["1", "0"]
    lines = [sample(n, row, target, old=old) for n, (row, target) in enumerate(zip(likelihoods, targets, strict=True))]
    read = predictions.load(write(tmp_path / "samples_toy.jsonl", lines))
    assert torch.allclose(read.probabilities, torch.tensor(likelihoods, dtype=torch.float64).softmax(1))
    assert read.labels.tolist() == [1, 0]
    assert read.class_names == ["option 1", "option 2", "option 3"]
    assert read.sample_ids.tolist() == [0, 1]
    assert read.texts == ["Question 0?", "Question 1?"]


def test_rows_with_fewer_options_share_a_temperature(tmp_path):
    generator = np.random.default_rng(0)
    rows = [generator.normal(size=3 + n % 3) for n in range(300)]
    targets = [int(generator.choice(len(row), p=np.exp(row) / np.exp(row).sum())) for row in rows]
    lines = [sample(n, (3 * row).tolist(), target) for n, (row, target) in enumerate(zip(rows, targets, strict=True))]
    read = predictions.load(write(tmp_path / "samples_toy.jsonl", lines))
    assert read.num_classes == 5
    for p, row in zip(read.probabilities, rows, strict=True):
        assert torch.allclose(p[: len(row)], torch.from_numpy(3 * row).softmax(0))
        assert (p[len(row) :] == 0).all()
    measured = evaluation.evaluate(read)["metrics"]
    own = [float(torch.from_numpy(3 * row).log_softmax(0)[k]) for row, k in zip(rows, targets, strict=True)]
    assert measured["nll"]["value"] == pytest.approx(-np.mean(own))
    scaling = calibrators.TemperatureScaling().fit(read.logits, read.labels)

    def nll(temperature):
        return -sum(float(torch.from_numpy(3 * row / temperature).log_softmax(0)[k]) for row, k in zip(rows, targets, strict=True))  # fmt: skip

    best = min(np.linspace(2, 4, 201), key=nll)
    assert scaling.temperature_ == pytest.approx(best, abs=0.02)


def test_targets_may_be_texts_of_options(tmp_path):
    lines = [sample(0, [-1.0, -2.0], "no", choices=[" yes", " no"])]
    assert predictions.load(write(tmp_path / "s.jsonl", lines)).labels.tolist() == [1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"filtered_resps": ["some text"]}, "tasks that generate text have none"),
        ({"filtered_resps": [["-1", "False"]]}, "at least 2 options"),
        ({"filtered_resps": [["nan", "False"], ["-1", "False"]]}, "at least 2 options"),
        ({"target": "7"}, "must be one of the 2 options"),
        ({"target": "maybe"}, "must be one of the 2 options"),
    ],
)
def test_what_is_no_multiple_choice_is_refused(tmp_path, change, words):
    with pytest.raises(SoftkinError, match=words):
        predictions.load(write(tmp_path / "s.jsonl", [sample(0, [-1.0, -2.0], "0") | change]))
