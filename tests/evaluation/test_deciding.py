"""All rules side by side."""

import json
import re

import numpy as np
import pytest

from command_line import run
from places import EXAMPLES
from softkin import decisions, distances, predictions, similarity
from softkin.decisions.rule import Promise
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


@pytest.mark.parametrize(
    ("promise", "value", "low", "high", "said"),
    [
        (Promise("error", 0.03), 0.036, 0.027, 0.047, "3.6 % wrong is more than the promised 3 %, but does not"),
        (Promise("error", 0.03), 0.05, 0.04, 0.06, "5.0 % wrong is more than the promised 3 %, and contradicts it"),
        (Promise("error", 0.03), 0.03, 0.02, 0.04, None),
        (Promise("coverage", 0.9), 0.88, 0.86, 0.91, "88.0 % of the sets with the true class is less than the pro"),
        (Promise("coverage", 0.9), 0.88, 0.86, 0.89, "contradicts it: the 95 % interval is 86.0 to 89.0 %"),
        (Promise("coverage", 0.9), 0.95, 0.93, 0.97, None),
        (None, 0.5, 0.4, 0.6, None),
    ],
)
def test_a_measured_share_is_held_against_its_promise(promise, value, low, high, said):
    cell = {"value": value, "low": low, "high": high, "level": 0.95}
    told = deciding.against_promise(promise, {"error": cell, "coverage": cell})
    assert (told is None) == (said is None)
    assert said is None or said in told


def test_the_promise_of_a_rule_is_the_one_in_its_guarantee():
    """Each rule that states a share of what it measures states the same share in words."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(600, 3)) * 3
    y = z.argmax(axis=1)
    for rule in (
        decisions.Abstain(0.07), decisions.Abstain(0.07, of="rows"), decisions.PredictionSets(0.83),
        decisions.PredictionSets(0.83, conditional="class"), decisions.Costs(1 - np.eye(3)),
    ):  # fmt: skip
        rule.fit(z, y)
        stated = re.search(r"at (most|least) [\d.]+ %", rule.guarantee())
        assert (rule.promised is None) == (stated is None)
        if stated is not None:
            assert rule.promised.words == stated[0]
            assert rule.promised.measure in rule.evaluate(z, y)
