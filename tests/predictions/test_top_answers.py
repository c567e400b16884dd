"""The likeliest answers of a language model."""

import json
import math

import numpy as np
import pytest

from softkin import SoftkinError, predictions


def test_likeliest_answers_of_a_language_model(tmp_path):
    rows = [
        {"prompt": "a", "label": "yes", "top_logprobs": {" yes": math.log(0.7), "no": math.log(0.2)}},
        {"prompt": "b", "label": "no", "top_logprobs": [{"token": "no", "logprob": math.log(0.5)}, {"token": "yes", "logprob": math.log(0.3)}, {"token": "maybe", "logprob": math.log(0.2)}]},
        {"prompt": "c", "label": "maybe", "top_logprobs": {"content": [{"top_logprobs": [{"token": "no", "logprob": math.log(0.9)}, {"token": "yes", "logprob": math.log(0.01)}]}]}},
    ]  # fmt: skip
    path = tmp_path / "answers.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.warns(
        UserWarning, match=r"2 of 3 rows list fewer than the 3 classes; .* share what is left of 1, 9.5 % on"
    ):
        loaded = predictions.load(path)
    assert loaded.class_names == ["maybe", "no", "yes"]
    assert loaded.known_labels.tolist() == [2, 1, 0]
    last = np.array([0.01, 0.9, 0.01])  # no more than the least likely answer, as it would be among them
    expected = np.array([[0.1, 0.2, 0.7], [0.2, 0.5, 0.3], last / last.sum()])
    np.testing.assert_allclose(loaded.probabilities.numpy(), expected, atol=1e-12)
    # Answers that are no class are dropped, and said.
    path.write_text("\n".join(map(json.dumps, rows[:2])))
    with pytest.warns(
        UserWarning, match=r"2 of 2 rows list fewer than the 3 classes.*; 10 % of the probability was for"
    ):
        known = predictions.load(path, class_names=["no", "yes", "perhaps"])
    np.testing.assert_allclose(known.probabilities.numpy(), [[0.2, 0.7, 0.1], [0.5 / 0.8, 0.3 / 0.8, 0]], atol=1e-12)
    with pytest.warns(UserWarning, match=r"answers.jsonl: 10 % of the probability was for answers that are no class"):
        two = predictions.load(path, class_names=["no", "yes"])
    np.testing.assert_allclose(two.probabilities.numpy(), [[2 / 9, 7 / 9], [5 / 8, 3 / 8]], atol=1e-12)
    (tmp_path / "bad.jsonl").write_text(json.dumps({"label": "a", "logprobs": {"a": 3.0, "b": -1}}))
    with pytest.raises(
        SoftkinError, match=r"line 1: `logprobs` must give log-probabilities, at most 0, by answer, got 3.0"
    ):
        predictions.load(tmp_path / "bad.jsonl")
