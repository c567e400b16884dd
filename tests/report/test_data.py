"""The data of pages: their types, and that they are the numbers of the evaluation."""

import json
import sys
from typing import is_typeddict

import pytest

import command_line
from places import ROOT
from softkin import evaluation, report
from softkin.predictions import reading
from softkin.report import data as types
from softkin.report.model import shown_metrics

TEST, VALIDATION = (ROOT / "examples" / f"digits-{name}.npz" for name in ("test", "validation"))


def test_the_types_of_the_script_are_those_of_the_data():
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import page_types
    finally:
        sys.path.pop(0)
    assert page_types.FILE.read_text() == page_types.written(), "run `python scripts/page_types.py`"


def test_the_page_of_a_model_shows_the_numbers_of_the_terminal(capsys, tmp_path):
    code, output, errors = command_line.run(
        capsys, "evaluate", TEST, "--json", "--report", tmp_path / "p.html", "--resamples", 200, "--seed", 4
    )
    assert (code, errors) == (0, "")
    printed = json.loads(output)["models"][0]
    page = json.loads((tmp_path / "p.json").read_text())
    raw = page["variants"][0]
    assert raw["verdict"] == printed["verdict"]
    assert list(raw["metrics"]) == [metric.key for metric in shown_metrics(10)]
    for key, measured in raw["metrics"].items():
        assert measured == printed["metrics"][key], key
    assert raw["metrics"]["aurc"].keys() >= {"value", "low", "high"}
    assert raw["metrics"]["classwise_ece"].keys() >= {"value", "low", "high", "when_calibrated"}
    html = (tmp_path / "p.html").read_text()
    assert f"{100 * printed['metrics']['ece_hist']['when_calibrated']['value']:.2f}\u202f%" in html
    for variant in page["variants"][1:]:  # the numbers after a calibrator have the same form
        assert {key: set(one) for key, one in variant["metrics"].items()} == {
            key: set(one) for key, one in raw["metrics"].items()
        }


def test_the_page_of_several_models_shows_the_numbers_of_the_terminal(capsys, tmp_path):
    first = reading.read(TEST)
    first.take(slice(None)).save(tmp_path / "a.npz")
    softer = report_of(first, tmp_path)
    code, output, errors = command_line.run(
        capsys, "evaluate", tmp_path / "a.npz", softer, "--json", "--report", tmp_path / "p.html", "--resamples", 200
    )
    assert (code, errors) == (0, "")
    printed = json.loads(output)
    page = json.loads((tmp_path / "p.json").read_text())
    for row in page["table"]["rows"]:
        model = printed["models"][int(row["method"][1:])]
        assert row["cells"].keys() >= {"accuracy", "ece_hist", "ece_kde_output"}
        for key, cell in row["cells"].items():
            assert model["metrics"][key].items() <= cell.items(), key
            assert cell["values"] == [cell["value"]]
    assert [pair["p_value"] for pair in page["pairs"]] == [line["p_value"] for line in printed["comparisons"]]


def report_of(predictions, folder):
    from softkin.predictions import Predictions

    softer = Predictions(predictions.logits / 2, predictions.known_labels, class_names=predictions.class_names)
    softer.save(folder / "softer.npz")
    return folder / "softer.npz"


def test_a_page_refuses_numbers_that_are_not_its_own():
    test, other = reading.read(TEST), reading.read(VALIDATION)
    known = evaluation.evaluate(test, resamples=100)
    with pytest.raises(ValueError, match="`evaluated` must be the result of evaluation.evaluate for these predictions"):
        report.build(other, evaluated=known, resamples=100)
    with pytest.raises(ValueError, match="`evaluated` must have the page's resamples, 200, got 100."):
        report.build(test, evaluated=known, resamples=200)


@pytest.fixture(scope="module")
def page():
    return report.build(reading.read(TEST), resamples=100, candidates=[])


def test_every_field_of_a_page_is_declared(page):
    assert set(page) == set(types.ModelPage.__annotations__) | set(types.Page.__annotations__)
    variant = page["variants"][0]
    assert set(variant) <= set(types.Variant.__annotations__) | set(types.About.__annotations__)
    for kind in types.PAGES:
        assert is_typeddict(kind)
