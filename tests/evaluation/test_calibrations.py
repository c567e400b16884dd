"""All calibrators side by side."""

import json
import re

import numpy as np
import pytest
import torch

import command_line
from places import ROOT
from softkin import calibrators, metrics
from softkin.evaluation import calibrations
from softkin.predictions import Predictions, reading

pytestmark = pytest.mark.filterwarnings("default")
VALIDATION, TEST = (ROOT / "examples" / f"digits-{name}.npz" for name in ("validation", "test"))


def run(capsys, *arguments):
    return command_line.run(capsys, "calibrate", *arguments)


@pytest.mark.slow
def test_what_fit_chooses_is_what_compare_measures_under_that_name(capsys, tmp_path):
    """With 700 rows of 10 classes the published strength 1 has NLL 0.326 on the test rows, a searched one 0.262."""
    code, output, _ = run(capsys, "fit", VALIDATION, "--output", tmp_path / "cal")
    assert code == 0
    assert output.startswith("Use structured-matrix: NLL 0.5167 → ")
    result = calibrations.compare_methods(reading.read(VALIDATION), reading.read(TEST), ["structured-matrix"])
    (line,) = (line for line in result["methods"] if line["method"] == "structured-matrix")
    test = reading.read(TEST)
    written = test.calibrated(calibrators.load(tmp_path / "cal")).probabilities
    assert metrics.nll(written, test.known_labels) == pytest.approx(line["metrics"]["nll"]["value"])
    assert "\nstructured-matrix (strength 1) " in output  # the one without a search has a name of its own


@pytest.mark.slow
def test_compare_is_fit_on_one_and_measured_on_the_other(capsys, tmp_path):
    path = tmp_path / "c.json"
    code, output, errors = run(capsys, "compare", VALIDATION, TEST, "--output", path, "--resamples", 200)
    assert (code, errors) == (0, "")
    result = json.loads(path.read_text())
    assert {line["method"] for line in result["methods"]} == {"uncalibrated", *calibrators.REGISTRY}
    held_out, test = reading.read(VALIDATION), reading.read(TEST)
    values = []
    for line in result["methods"]:
        p = test.probabilities
        if line["method"] != "uncalibrated":
            fitted = calibrators.REGISTRY[line["method"]]().fit(held_out.logits, held_out.known_labels)
            p = fitted.predict_proba(test.logits.double())
        nll = line["metrics"]["nll"]["value"]
        values.append(float(nll))
        assert float(nll) == pytest.approx(metrics.nll(p, test.known_labels), rel=1e-6)
        ece = metrics.ece_hist(p, test.known_labels, confidence=0.95, resamples=200)
        assert line["metrics"]["ece_hist"]["low"] == pytest.approx(ece.low, abs=1e-6)
        assert "when_calibrated" in line["metrics"]["ece_hist"]
    assert values == sorted(values)
    assert result["winner"] == result["methods"][0]["method"]
    assert [(pair["a"], pair["b"]) for pair in result["comparisons"]] == [
        (result["winner"], line["method"]) for line in result["methods"][1:]
    ]  # fmt: skip
    assert (result["winner"], result["recommended"], result["level"]) == (
        "structured-matrix",
        "structured-matrix",
        ["kin-matrix"],
    )
    assert "Use structured-matrix: NLL 0.525 → 0.262" in output
    assert f"{result['winner']} is better than uncalibrated" in output
    assert output.splitlines()[-1] == f"Wrote {path}"
    code, output, _ = run(
        capsys,
        "compare",
        VALIDATION,
        TEST,
        "--json",
        "--methods",
        "ets, PlattScaling",
        "--metric",
        "ece_hist",
        "--resamples",
        100,
    )
    assert code == 0
    assert len(json.loads(output)["methods"]) == 3
    code, output, _ = run(
        capsys, "compare", VALIDATION, TEST, "--json", "--methods", "dirichlet,ts", "--metric", "accuracy"
    )
    accuracies = [line["metrics"]["accuracy"]["value"] for line in json.loads(output)["methods"]]
    assert (code, accuracies) == (0, sorted(accuracies, reverse=True))


def test_compare_leaves_long_searches_out_and_says_so(capsys, monkeypatch):
    from softkin.calibrators import selection

    monkeypatch.setattr(selection, "MOST_WORK", 0)
    _, output, notices = run(capsys, "compare", VALIDATION, TEST, "--resamples", 100, "--json")
    methods = {line["method"] for line in json.loads(output)["methods"]}
    assert "structured-vector" in methods
    assert not methods & {"matrix", "dirichlet", "structured-matrix", "kin-matrix"}
    assert "matrix, dirichlet, structured-matrix, kin-matrix are left out: with" in notices
    assert "name them in --methods to include them" in notices


def test_an_infinite_loss_is_no_difference_to_speak_of(capsys, tmp_path):
    with np.load(TEST) as file:
        logits, labels = torch.from_numpy(file["logits"]).double(), torch.from_numpy(file["labels"])
    p = logits.softmax(1)
    p[:5] = 0
    p[torch.arange(5), (labels[:5] + 1) % 10] = 1
    for name in ("a.npz", "b.npz"):
        Predictions.from_probabilities(p, labels).save(tmp_path / name)
    calls = ["compare", tmp_path / "a.npz", tmp_path / "b.npz", "--methods", "temperature"]
    code, output, errors = run(capsys, *calls, "--resamples", 100)
    assert code == 0
    assert "797 samples of b.npz are among those that the calibrators were fitted on" in errors
    assert "uncalibrated has an infinite nll: it gave a true class the probability 0." in output
    assert "undefined" not in output
    _, output, _ = run(capsys, *calls, "--resamples", 100, "--json")
    (pair,) = json.loads(output)["comparisons"]
    assert (pair["difference"], pair["low"], pair["significant"]) == ("-Infinity", None, False)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("temperature", "TemperatureScaling()"),
        ("Ensemble-temperature (objective nll)", "EnsembleTemperatureScaling(objective='nll')"),
        ("structured-matrix (strength 0.1)", "StructuredMatrixScaling(strength=0.1)"),
        ("histogram (n bins 10, binning mass)", "HistogramBinning(n_bins=10, binning='mass')"),
    ],
)
def test_the_names_of_a_table_are_understood(text, made):
    assert repr(calibrations.method(text)) == made
    assert calibrations.methods_in(f"beta, {text} ,platt") == ["beta", text, "platt"]


@pytest.mark.parametrize("name", calibrators.REGISTRY)
def test_every_variant_is_made_again_from_its_name_in_words(name):
    for options in calibrators.REGISTRY[name].candidates:
        made = calibrators.REGISTRY[name](**options)
        said = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in options.items())
        assert repr(calibrations.method(f"{name} ({said})")) == repr(made)


def test_an_option_that_a_calibrator_lacks():
    with pytest.raises(ValueError, match="temperature has no option 'strength'; it has: objective"):
        calibrations.method("temperature (strength 1)")


def test_an_infinite_nll_is_also_computed_without_its_zeros(capsys, tmp_path):
    """By hand: each zero is the floor, and the row is divided by its sum."""
    p = np.array([[0.75, 0.25, 0.0], [0.5, 0.25, 0.25], [0.0, 0.5, 0.5]])
    y = np.array([2, 0, 1])
    value, floor = calibrations.without_zeros(Predictions.from_probabilities(p, y))
    assert 0 < floor <= 0.125
    q = np.where(p > 0, p, floor) / np.where(p > 0, p, floor).sum(axis=1, keepdims=True)
    assert value == pytest.approx(-np.log(q[np.arange(3), y]).mean())
    Predictions.from_probabilities(np.tile(p, (20, 1)), np.tile(y, 20)).save(tmp_path / "a.npz")
    _, output, _ = command_line.run(capsys, "evaluate", tmp_path / "a.npz", "--resamples", 100)
    assert re.search(
        r"NLL is infinite .* it is [0-9.]+ with zeros as 0\.\d+, the value that suits these rows",
        " ".join(output.split()),
    )


def test_of_calibrators_that_are_level_the_simplest_is_recommended(capsys, tmp_path):
    """Logits that are too large by one factor: a temperature repairs all, a matrix can gain chance alone."""
    from softkin.report import findings

    generator = torch.Generator().manual_seed(0)
    z = 1.5 * torch.randn(4000, 4, generator=generator, dtype=torch.float64)
    y = torch.multinomial(z.softmax(1), 1, generator=generator)[:, 0]
    for name, rows in (("a.npz", slice(0, 2000)), ("b.npz", slice(2000, None))):
        Predictions(2 * z[rows], y[rows]).save(tmp_path / name)
    calls = ["compare", tmp_path / "a.npz", tmp_path / "b.npz", "--methods", "temperature,ets,structured-vector"]
    _, output, _ = run(capsys, *calls, "--resamples", 200, "--json")
    result = json.loads(output)
    assert result["recommended"] == "temperature"
    assert {result["winner"], *result["level"]} >= {"temperature"}
    assert "uncalibrated" not in result["level"]
    headline = findings.of_calibrators(result)["headline"]
    assert headline.startswith("Use temperature: NLL ")
    assert headline in run(capsys, *calls, "--resamples", 200)[1]


def test_intervals_of_the_comparisons_hold_for_all_of_them_at_once(capsys):
    """As many comparisons as rivals, each at the level 1 − 0.05 / rivals: the verdict is the interval's."""
    names = "temperature,vector,platt,beta"
    calls = ["compare", VALIDATION, TEST, "--methods", names]
    result = json.loads(run(capsys, *calls, "--json")[1])
    held_out, test = (reading.read(path) for path in (VALIDATION, TEST))
    p = {
        name: calibrators.REGISTRY[name]()
        .fit(held_out.logits, held_out.known_labels)
        .predict_proba(test.logits.double())
        for name in names.split(",")
    }
    p["uncalibrated"] = test.probabilities
    assert len(result["comparisons"]) == 4
    for pair in result["comparisons"]:
        twin = metrics.compare(p[pair["a"]], p[pair["b"]], test.known_labels, "nll", confidence=1 - 0.05 / 4)
        alone = metrics.compare(p[pair["a"]], p[pair["b"]], test.known_labels, "nll")
        assert (pair["low"], pair["high"]) == pytest.approx((twin.low, twin.high), abs=1e-6)
        assert pair["low"] < alone.low
        assert pair["significant"] == (twin.low > 0 or twin.high < 0)
        assert pair["p_value"] == pytest.approx(min(1.0, 4 * alone.p_value), abs=1e-9)
    assert "intervals and p-values count all 4 comparisons" in run(capsys, *calls)[1].replace("\n", " ")


def test_enough_resamples_are_drawn_for_the_level_of_many_comparisons(capsys):
    calls = ["compare", VALIDATION, TEST, "--methods", "temperature,vector,platt,beta", "--resamples", 100]
    result = json.loads(run(capsys, *calls, "--json")[1])
    (pair,) = (pair for pair in result["comparisons"] if pair["b"] == "uncalibrated")
    assert pair["significant"]
    assert pair["p_value"] <= 0.05
