"""All rules side by side."""

import json

import numpy as np
import pytest

from command_line import run
from places import EXAMPLES
from softkin import decisions, distances, predictions, similarity
from softkin.evaluation import deciding

VALIDATION, TEST = EXAMPLES / "digits-validation.npz", EXAMPLES / "digits-test.npz"


@pytest.fixture(scope="module")
def rows():
    return predictions.load(VALIDATION), predictions.load(TEST)


def test_compare_says_what_the_rules_say(capsys, tmp_path, rows):
    validation, test = rows
    names = test.class_names
    distances.save(tmp_path / "d.safetensors", distances.from_words(names), class_names=names, source="words")
    options = ["--tree", "names", "--similarity", "names", "--costs", tmp_path / "d.safetensors", "--error", 0.1]
    code, output, _ = run(capsys, "decide", "compare", VALIDATION, TEST, *options, "--output", tmp_path / "c.json")
    assert code == 0
    for title in (
        "sets, LAC",
        "sets of kin, APS",
        "sets per class, LAC",
        "abstain by logit-norm",
        "climb",
        "least cost",
    ):
        assert f"\n{title} " in output
    for heading in ("coverage %", "size", "superclasses", "answered %", "error %", "cost"):
        assert heading in output.splitlines()[1]
    result = json.loads((tmp_path / "c.json").read_text())
    lines = {line["rule"]: line for line in result["rules"]}
    S = similarity.from_distances(distances.from_words(names))
    outcome = decisions.PredictionSets(0.9, "aps", similarity=S).fit(validation.logits, validation.labels).evaluate(test.logits, test.labels)  # fmt: skip
    assert lines["sets of kin, APS"]["measures"]["size"]["value"] == pytest.approx(outcome["size"])
    assert lines["sets of kin, APS"]["guarantee"].startswith("A set holds the true class")
    outcome = decisions.Abstain(0.1).fit(validation.logits, validation.labels).evaluate(test.logits, test.labels)
    assert lines["abstain by probability"]["measures"]["answered"]["value"] == pytest.approx(outcome["answered"])


def test_compare_goes_on_where_a_rule_cannot_be_fitted(capsys):
    code, output, _ = run(capsys, "decide", "compare", VALIDATION, TEST, "--coverage", 0.99)
    assert code == 0
    assert "sets per class, LAC failed: `coverage` 0.99 needs at least 99 calibration rows for each limit" in output
    assert "\nsets, LAC " in output


def test_several_costs_stand_side_by_side(capsys, tmp_path, rows):
    _, test = rows
    names = test.class_names
    matrices = {"even": 1 - np.eye(10), "steep": np.abs(np.subtract.outer(np.arange(10), np.arange(10))) ** 2.0}
    for name, matrix in matrices.items():
        distances.save(tmp_path / f"{name}.safetensors", matrix, class_names=names, source="made")
    files = [part for name in matrices for part in ("--costs", tmp_path / f"{name}.safetensors")]
    code, output, errors = run(capsys, "decide", "compare", *files, VALIDATION, TEST, "--rules", "costs,abstain,sets", "--json")  # fmt: skip
    assert code == 0, errors
    lines = {line["rule"]: line.get("measures") for line in json.loads(output)["rules"]}
    assert {"least cost, even", "least cost, steep"} <= set(lines)
    labels = test.labels.numpy()
    p = test.probabilities.numpy().astype(float)
    for own, matrix in matrices.items():
        answers = (p @ matrix).argmin(axis=1)
        for name, other in matrices.items():
            assert lines[f"least cost, {own}"][f"cost {name}"]["value"] == pytest.approx(other[labels, answers].mean())
        assert lines[f"least cost, {own}"]["believed"]["value"] == pytest.approx((p @ matrix).min(axis=1).mean())
        assert f"cost {own}" in lines["abstain by probability"]
    assert "cost" not in lines["least cost, even"]
    assert not any(name.startswith("cost") for name in lines["sets, LAC"])
    _, output, _ = run(capsys, "decide", "compare", *files, VALIDATION, TEST, "--rules", "costs")
    assert "cost even" in output.splitlines()[1]
    assert "cost steep" in output.splitlines()[1]
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "even.safetensors").write_bytes((tmp_path / "steep.safetensors").read_bytes())
    twice = [tmp_path / "even.safetensors", tmp_path / "more" / "even.safetensors"]
    _, output, _ = run(capsys, "decide", "compare", VALIDATION, TEST, "--costs", twice[0], "--costs", twice[1], "--rules", "costs", "--json")  # fmt: skip
    assert [line["rule"] for line in json.loads(output)["rules"]] == [f"least cost, {path}" for path in twice]


def test_groups_of_classes_are_matched_in_any_spelling(tmp_path):
    names = ["Hot dog", "cat", "owl"]
    held = predictions.Predictions.from_probabilities(np.full((4, 3), 1 / 3), [0, 1, 2, 0], class_names=names)
    (tmp_path / "g.csv").write_text("hot_dog,food\nCat,animal\nowl,animal\n")
    assert deciding.groups_of(tmp_path / "g.csv", held).tolist() == [0, 1, 1]
