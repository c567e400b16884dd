"""Limits on a model's numbers: when they count as broken, how they are written, and what pytest and build servers see."""

import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import softkin
from command_line import run
from places import EXAMPLES
from softkin import evaluation, metrics, predictions
from softkin.evaluation.limits import Limit, limits_of
from softkin.metrics.catalogue import METRICS
from softkin.metrics.measurement import Measured

TEST = EXAMPLES / "digits-test.npz"
NUMBERS = st.floats(-1, 1, allow_nan=False)


@given(low=NUMBERS, width=st.floats(0, 1), bound=st.floats(0, 1))
def test_a_limit_is_broken_if_no_number_of_the_interval_keeps_it(low, width, bound):
    measured = Measured(low + width / 2, low, low + width, 0.95)
    inside = {
        "max": (-np.inf, bound),
        "min": (bound, np.inf),
        "within": (-bound, bound),
    }
    for kind, (least, most) in inside.items():
        limit = Limit(METRICS["signed_gap"], kind, bound)
        meets = low <= most and low + width >= least
        lies_within = low >= least and low + width <= most
        assert limit.broken(measured) is (not meets)
        assert limit.broken(measured, strict=True) is (not lies_within)


def test_numbers_are_those_of_evaluate():
    checked = softkin.check(TEST, max={"ece_hist": 0.1, "gap": "8%", "nll": 1}, min={"accuracy": "80%"})
    expected = evaluation.evaluate(predictions.load(TEST))["metrics"]
    assert [outcome.limit.metric.key for outcome in checked.outcomes] == ["ece_hist", "signed_gap", "nll", "accuracy"]
    for outcome in checked.outcomes:
        assert outcome.measured.to_dict() == expected[outcome.limit.metric.key]
    loaded = predictions.load(TEST)
    again = softkin.check(loaded, max={"ece_hist": 0.1})
    assert again.outcomes[0].measured.to_dict() == expected["ece_hist"]
    arrays = softkin.check(loaded.probabilities, loaded.labels, max={"ece_hist": 0.1})
    assert arrays.outcomes[0].measured.interval == metrics.ece_hist(
        loaded.probabilities, loaded.labels, confidence=0.95
    )


def test_a_check_is_true_in_pytest_and_says_why_it_is_false():
    p, y = torch.tensor([[0.9, 0.1]]).expand(1000, 2), torch.tensor([0] * 900 + [1] * 100)
    assert softkin.check(p, y, max={"gap": "1%"})
    broken = softkin.check(p, 1 - y, max={"gap": "1%"}, min={"accuracy": "5%"})
    assert not broken
    assert "1 of 2 limits is broken" in repr(broken)
    assert "✗ confidence − accuracy: 80 %" in repr(broken)
    assert "✓ accuracy: 10 %" in repr(broken)
    assert not softkin.check(p, y, min={"accuracy": "89.9%"}, strict=True)
    assert softkin.check(p, y, min={"accuracy": "85%"}, strict=True)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("5%", 0.05), (0.05, 0.05), ("0.05", 0.05), (5, 0.05), ("5 %", 0.05), ("100%", 1.0), (0, 0.0)],
)
def test_shares_may_be_written_in_percent(written, meant):
    assert limits_of({"ece": written}, {})[0].bound == pytest.approx(meant)


@pytest.mark.parametrize(
    ("most", "least", "words"),
    [
        ({"ece": 1}, {}, "can be read as 1% or 100%"),
        ({"ece": "five"}, {}, "must be a number such as 5%"),
        ({"nll": "5%"}, {}, "must be a plain number"),
        ({"gap": -0.03}, {}, "must not be negative"),
        ({"acuracy": 0.5}, {}, "did you mean 'accuracy'"),
        ({}, {}, "at least one limit"),
    ],
)
def test_limits_that_cannot_be_meant(most, least, words):
    with pytest.raises(ValueError, match=words):
        limits_of(most, least)


def test_a_signed_metric_with_both_limits_has_two_sides_of_its_own():
    most, least = limits_of({"gap": 0.05}, {"gap": -0.01})
    assert (most.kind, least.kind) == ("max", "min")
    assert limits_of({"signed_gap": 0.05}, {})[0].kind == "within"


def test_an_undefined_number_keeps_no_limit():
    assert Limit(METRICS["aurc"], "max", 1.0).broken(Measured(float("nan")))


def test_command_exit_codes_and_files(capsys, tmp_path):
    code, output, _ = run(capsys, "check", TEST, "--max", "ece=10%", "--min", "accuracy=80%")
    assert code == 0
    assert output.splitlines()[0] == "digits-test.npz: 797 samples, 95 % intervals: no limit is broken"
    junit, plain = tmp_path / "j.xml", tmp_path / "o.json"
    code, output, _ = run(
        capsys, "check", TEST, "--max", "ece=10%", "--max", "gap=2", "--junit", junit, "--output", plain
    )
    assert code == 1
    suite = ET.parse(junit).getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert suite[1][0].get("message").startswith("✗ confidence − accuracy: 7.54 %")
    limits = json.loads(plain.read_text())["limits"]
    assert [limit["kept"] for limit in limits] == [True, False]
    code, output, _ = run(capsys, "check", TEST, "--max", "ece=8%", "--strict", "--confidence", "90%", "--json")
    assert (code, json.loads(output)["confidence"]) == (1, 0.9)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "at least one limit is needed"),
        (("--max", "ece"), "METRIC=NUMBER"),
        (("--max", "ece=5%", "--max", "ece=6%"), "twice"),
        (("--max", "ece=5%", "--confidence", "1.95"), "--confidence must be between"),
    ],
)
def test_wrong_usage(capsys, options, words):
    code, _, errors = run(capsys, "check", TEST, *options)
    assert code == 2
    assert words in errors


def test_hostile_names_stay_text(tmp_path):
    loaded = predictions.load(TEST)
    from dataclasses import replace

    checked = softkin.check(replace(loaded, name='<b>"\x1b[31m&'), max={"ece": "1%"})
    root = ET.fromstring(checked.to_junit())
    assert root[0][0].get("classname") == '<b>"�[31m&'


def test_limits_of_pairs():
    rng = np.random.default_rng(0)
    s = rng.random(500)
    right = rng.random(500) < s
    read = predictions.Predictions.from_probabilities(np.stack([1 - s, s], 1), right.astype(int), are_pairs=True)
    for checked in (softkin.check(read, max={"ece_hist": 0.2}), softkin.check(s, right, max={"ece_hist": 0.2})):
        assert checked.passed
        assert checked.outcomes[0].measured.value == pytest.approx(metrics.ece_hist(s, right))


def test_a_value_beyond_its_limit_is_no_tick():
    p, y = torch.tensor([[0.9, 0.1]]).expand(100, 2), torch.tensor([0] * 83 + [1] * 17)
    checked = softkin.check(p, y, max={"gap": "5%"}, min={"accuracy": "80%"})
    assert checked  # chance may be the reason
    assert [outcome.mark for outcome in checked.outcomes] == ["open", "kept"]
    assert str(checked).splitlines()[1].startswith("? confidence − accuracy: 7 %")
    assert softkin.check(p, y, max={"gap": "1%"}, confidence=0.5).outcomes[0].mark == "broken"


def test_an_infinite_loss_keeps_no_maximum_however_wide_its_interval():
    p, y = torch.tensor([[1.0, 0.0]]).expand(200, 2), torch.tensor([1] + [0] * 199)
    checked = softkin.check(p, y, max={"nll": 1.0})
    assert not checked
    assert [outcome.mark for outcome in checked.outcomes] == ["broken"]
    assert str(checked).splitlines()[1].endswith("a true class had the probability 0")


def test_what_is_undecided_is_counted_and_what_is_broken_is_named():
    p, y = torch.tensor([[0.9, 0.1]]).expand(100, 2), torch.tensor([0] * 83 + [1] * 17)
    heads = [
        str(softkin.check(p, y, max={"gap": limit}, **options)).splitlines()[0].partition("intervals: ")[2]
        for limit, options in (("5%", {}), ("5%", {"strict": True}), ("1%", {"confidence": 0.5}), ("90%", {}))
    ]
    assert heads == [
        "no limit is broken, 1 undecided (a strict check fails these)",
        "the limit is not shown to be kept (strict)",
        "the limit is broken",
        "no limit is broken",
    ]


def grouped(tmp_path):
    """Pairs of two models, of which one claims 30 points too much, in a file of which the sum breaks no limit."""
    rng = np.random.default_rng(0)
    s = rng.uniform(0.5, 0.7, 600)
    right = rng.random(600) < np.where(np.arange(600) < 60, s - 0.3, s + 0.03)
    lines = [f"{'new' if j < 60 else 'old'},{s[j]:.4f},{int(right[j])}" for j in range(600)]
    path = tmp_path / "pairs.csv"
    path.write_text("\n".join(["model,confidence,correct", *lines]))
    return path


@pytest.mark.filterwarnings("ignore::softkin.predictions.Assumption")
def test_limits_hold_in_each_group(capsys, tmp_path):
    path = grouped(tmp_path)
    assert softkin.check(path, max={"gap": "10%"})
    result = softkin.check(path, max={"gap": "10%"}, group="model")
    assert not result
    assert [(one.group, one.kept) for one in result.outcomes] == [(None, True), ("new", False), ("old", True)]
    data = evaluation.evaluate_file(path, group="model").data["groups"]["groups"]
    for group, outcome in zip(data, result.outcomes[1:], strict=True):
        assert Measured.from_dict(group["metrics"]["signed_gap"]) == outcome.measured
    code, output, _ = run(capsys, "check", path, "--max", "gap=10%", "--group", "model", "--json")
    assert (code, [limit.get("group") for limit in json.loads(output)["limits"]]) == (1, [None, "new", "old"])
    code, output, _ = run(capsys, "check", path, "--max", "gap=10%", "--group", "model")
    assert "✗ confidence − accuracy in new: 2" in output
    assert "1 of 3 limits is broken" in output
    names = [case.get("name") for case in ET.fromstring(result.to_junit()).iter("testcase")]
    assert names == [f"signed_gap within ±10 %{end}" for end in ("", " in new", " in old")]


@pytest.mark.filterwarnings("ignore::softkin.predictions.Assumption")
def test_groups_of_arrays_are_those_of_a_file(tmp_path):
    path = grouped(tmp_path)
    rows = predictions.load(path, group="model")
    expected = softkin.check(path, max={"gap": "10%", "ece": "5%"}, group="model")
    found = softkin.check(rows, max={"gap": "10%", "ece": "5%"}, groups=rows.groups)
    assert [(one.group, one.measured) for one in found.outcomes] == [
        (one.group, one.measured) for one in expected.outcomes
    ]
    with pytest.raises(ValueError, match="`groups` must be as many as the samples"):
        softkin.check(rows, max={"gap": "10%"}, groups=["a"])
    with pytest.raises(ValueError, match="`ece_kde_output` is not measured in groups"):
        softkin.check(rows, max={"ece_kde_output": "10%"}, groups=rows.groups)


def test_groups_of_pixels_and_of_several_labels_are_refused(capsys, tmp_path):
    np.savez(tmp_path / "a.npz", logits=np.zeros((2, 3, 4, 4)), labels=np.zeros((2, 4, 4), int), site=[0, 1])
    code, _, errors = run(capsys, "check", tmp_path / "a.npz", "--max", "gap=10%", "--group", "site")
    assert (code, "pixels take neither --group nor --weight" in " ".join(errors.split())) == (1, True)
    code, _, errors = run(capsys, "check", tmp_path / "a.npz", "--max", "gap=1%", "--group", "site", "--multi-label")
    assert (code, "--group must be left out with --multi-label" in errors) == (2, True)
