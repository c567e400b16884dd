"""What it takes to add something: one file that declares it, and every command, table and page knows it."""

import importlib
import json
import re
import sys

import pytest
import torch

import command_line
import study_parts
from places import ROOT
from softkin import calibrators, decisions, distances, evaluation, metrics, report
from softkin.evaluation import from_files
from softkin.lab import data, training
from softkin.lab.study import StudySpec, perform, tabulation
from softkin.lab.study.plan import Plan
from softkin.metrics.catalogue import METRICS
from softkin.predictions import reading as prediction_files
from softkin.predictions.formats import FORMATS, Format
from study_parts import without_pictures  # noqa: F401  a fixture

pytestmark = pytest.mark.slow

VALIDATION, TEST = (ROOT / "examples" / f"digits-{name}.npz" for name in ("validation", "test"))

CALIBRATOR = '''
"""Half of the way to the uniform distribution."""

import torch

from softkin.calibrators import Calibrator, Solution


class Halfway(Calibrator, name="halfway", title="Half", aliases=("hw",), candidates=({},)):
    """Mixes each row with 1/K; the share is fitted by a count."""

    kept = ("share_",)

    def fit_rows(self, z, y):
        self.share_ = float((z.argmax(dim=1) != y).double().mean())
        return Solution()

    def answer(self, z):
        return (1 - self.share_) * torch.softmax(z, dim=1) + self.share_ / z.shape[1]
'''


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a temporary module and imports it."""
    names = []

    def imported(name, source):
        (tmp_path / f"{name}.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        names.append(name)
        return importlib.import_module(name)

    yield imported
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def toy_calibrator(module):
    yield module("toy_calibrator", CALIBRATOR).Halfway
    calibrators.REGISTRY.remove("halfway")


def test_a_calibrator_is_one_class(toy_calibrator, capsys, tmp_path):
    def run(*arguments):
        code, output, _ = command_line.run(capsys, "calibrate", *arguments)
        assert code == 0
        return output

    assert "halfway" in run("fit", "--help")
    for spelling in ("halfway", "hw", "HALF", "Halfway"):
        output = run("fit", VALIDATION, "--method", spelling, "--output", tmp_path / "cal", "--force")
        assert output.startswith("halfway\nFitted on 700 samples")
    assert type(calibrators.load(tmp_path / "cal")) is toy_calibrator
    result = json.loads(run("compare", VALIDATION, TEST, "--methods", "hw,ts", "--resamples", 100, "--json"))
    assert {line["method"] for line in result["methods"]} == {"uncalibrated", "halfway", "temperature"}
    assert "\nhalfway " in run("compare", VALIDATION, TEST, "--methods", "hw", "--resamples", 100)
    assert toy_calibrator in {type(candidate) for candidate in calibrators.default_candidates()}
    assert toy_calibrator not in {type(candidate) for candidate in calibrators.default_candidates(quick=True)}
    held_out = prediction_files.read(VALIDATION)
    best = calibrators.fit_best(held_out.logits, held_out.known_labels, folds=2, resamples=100)
    assert toy_calibrator in {type(candidate.calibrator) for candidate in best.candidates}


def test_a_cell_that_is_run_twice_replaces_its_calibrator(module):
    for number in range(2):
        first = module("toy_calibrator", CALIBRATOR)
        importlib.reload(first) if number else None
        assert calibrators.REGISTRY["halfway"] is first.Halfway
    calibrators.REGISTRY.remove("halfway")
    with pytest.raises(ValueError, match="there is already a calibrator called 'temperature'"):
        type("Other", (calibrators.Calibrator,), {}, name="temperature")


DISTANCE = '''
"""How far apart the lengths of two classes' names are."""

import torch

from softkin import distances
from softkin.distances import Option


@distances.source(
    "spelling",
    title="SP",
    needs=("names",),
    aliases=("sp",),
    options=[Option("power", "exponent of the difference", "int")],
)
def spelling(data, *, power: float = 1.0):
    lengths = torch.tensor([float(len(name)) for name in data.class_names])
    return distances.ClassDistances((lengths[:, None] - lengths).abs() ** power, "lengths of the names")
'''


@pytest.fixture
def toy_distance(module):
    yield module("toy_distance", DISTANCE)
    distances.SOURCES.remove("spelling")


def test_a_distance_is_one_function(toy_distance, capsys, tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("a\nbb\ndddd\n", encoding="utf-8")
    code, output, _ = command_line.run(
        capsys, "similarity", names, "--distance", "sp", "--beta", 1, "--json", "--top", 1
    )
    assert code == 0
    report = json.loads(output)
    assert report["source"] == "lengths of the names"
    assert [row["nearest"][0]["name"] for row in report["classes"]] == ["bb", "a", "bb"]
    train = data.split("digits", max_per_class=3).train
    for power, far in ((1, 3), (2, 9)):  # its option is one of every command that measures
        arguments = (
            "similarity",
            names,
            "--distance",
            "sp",
            "--power",
            power,
            "--beta",
            1,
            "--output",
            tmp_path / f"m{power}",
        )
        assert command_line.run(capsys, *arguments)[0] == 0
        assert distances.read(tmp_path / f"m{power}" / "distances.safetensors").values[0, 2] == far
    for command in (("similarity", "measure"), ("similarity", "show"), ("train",), ("compare",)):
        _, output, _ = command_line.run(capsys, *command, "--help")
        assert "exponent of the difference" in " ".join(output.split()), command
    small = ("--max-per-class", 3, "--model", "mlp(hidden=4)", "--epochs", 1, "--power", 2)
    code, output, errors = command_line.run(
        capsys, "train", "digits", *small, "--method", "similarity", "--distance", "sp", "--json"
    )
    assert code == 0, errors
    assert json.loads(output)["spec"]["distances"] == {"distance": "sp", "power": 2}
    code, _, errors = command_line.run(
        capsys,
        "compare",
        *small,
        "--data",
        "digits",
        "--methods",
        "sp",
        "--seeds",
        1,
        "--alpha",
        0.1,
        "--beta",
        1,
        "--workers",
        1,
        "--output",
        tmp_path / "study",
    )
    assert code == 0, errors
    assert json.loads((tmp_path / "study" / "study.json").read_text())["spec"]["sources"] == {"power": 2}
    matrix = training.class_distances(train, "spelling", power=2.0)
    assert matrix[0, 3] == 1  # zero, three
    torch.testing.assert_close(matrix.sqrt(), training.class_distances(train, "sp"))
    code, _, errors = command_line.run(capsys, "similarity", names, "--distance", "speling")
    assert code == 2
    assert "did you mean 'spelling'?" in errors
    with pytest.raises(
        TypeError, match="`power` must be left out for the distance 'words': it is an option of spelling"
    ):
        training.class_distances(train, "words", power=2.0)


def test_a_calibrator_and_a_distance_are_columns_of_compare(
    toy_calibrator,
    toy_distance,
    capsys,
    tmp_path,
    without_pictures,  # noqa: F811
):
    small = (
        "--data",
        "digits",
        "--tune",
        "none",
        "--max-per-class",
        3,
        "--validation",
        60,
        "--test",
        80,
        "--model",
        "mlp(hidden=16)",
        "--epochs",
        3,
    )
    arguments = (*small, "--methods", "one-hot,hw,sp,spelling+halfway", "--seeds", 1, "--alpha", 0.1, "--beta", 1)
    code, _, errors = command_line.run(
        capsys, "compare", *arguments, "--workers", 1, "--output", tmp_path / "s", "--json"
    )
    assert code == 0, errors
    rows = json.loads((tmp_path / "s" / "table.json").read_text())["rows"]
    assert [row["method"] for row in rows] == ["one-hot", "half", "sp", "sp+half"]
    table = (tmp_path / "s" / "table.md").read_text()
    for title in ("| Half ", "| SP ", "| SP+Half "):
        assert title in table, title
    page = report.build_comparison(tmp_path / "s")
    assert {"key": "sp+half", "name": "SP+Half"} in page["methods"]


TRAINING = '''
"""Cross-entropy with the entropy of the answers as a reward."""

from softkin.lab.training.methods import Parameter
from softkin.lab.training.objectives import Objective


class EntropyReward(
    Objective,
    name="entropy",
    title="Entropy",
    aliases=("confidence-penalty",),
    parameters=(Parameter("reward", "ρ", 0.2, "the weight of the entropy"),),
    tuned="reward",
):
    @staticmethod
    def target(method, k):
        return f"one-hot labels, less {method.values['reward']:g}·entropy"

    def forward(self, logits, targets):
        log_p = logits.log_softmax(dim=1)
        return super().forward(logits, targets) + self.method.values["reward"] * (log_p.exp() * log_p).sum()
'''


@pytest.fixture
def toy_training(module):
    yield module("toy_training", TRAINING)
    training.METHODS.remove("entropy")


def test_a_training_method_is_one_declaration_and_one_loss(toy_training, capsys, tmp_path):
    import importlib

    from softkin import report
    from softkin.cli import train
    from softkin.lab import study

    importlib.reload(train)  # its description lists the methods that are known when the command line is built
    assert "entropy" in train.DESCRIPTION
    small = (
        "--max-per-class",
        3,
        "--validation",
        60,
        "--test",
        80,
        "--model",
        "mlp(hidden=16)",
        "--epochs",
        3,
    )
    code, output, errors = command_line.run(capsys, "train", "digits", *small, "--method", "entropy", "--device", "cpu")
    assert (code, errors) == (0, "")
    assert "target: one-hot labels, less 0.2·entropy" in output
    code, _, errors = command_line.run(capsys, "train", "digits", "--method", "entropi")
    assert code == 2
    assert "did you mean 'entropy'?" in errors
    names = "one-hot,confidence-penalty,entropy+ts"
    arguments = (
        "--data",
        "digits",
        "--tune",
        "none",
        *small,
        "--methods",
        names,
        "--seeds",
        1,
        "--beta",
        "1,2",
        "--workers",
        1,
        "--output",
        tmp_path / "s",
    )
    code, output, _ = command_line.run(capsys, "compare", *arguments)
    assert code == 0
    assert "Entropy+TS" in output
    assert study.kept_in(tmp_path / "s").spec.methods == ("one-hot", "entropy", "entropy+ts")
    assert "Values: Entropy ρ = " in (tmp_path / "s" / "table.md").read_text()
    tried = [result["values"]["reward"] for result in study.results(tmp_path / "s")[1].record["tried"]]
    assert tried == [0.2]  # one trial, as no method of this study has a grid
    assert report.build_comparison(tmp_path / "s")["methods"][1] == {"key": "entropy", "name": "Entropy"}


METRIC = '''
"""The spherical score."""

from softkin.metrics.catalogue import metric
from softkin.metrics.statistics import Mean


@metric(
    title="spherical score",
    short="sphere",
    percent=False,
    larger_is_better=True,
    shown=["evaluate", "compare", "select", "record", "table", "card"],
    plain="Spherical score",
    winner="Roundest",
    aliases=["sphere"],
)
def spherical(probabilities, labels, *, power: float = 1.0):
    own = probabilities.gather(1, labels[:, None])[:, 0].double()
    return Mean((own / probabilities.double().norm(dim=1)) ** power)
'''


@pytest.fixture
def toy_metric(module):
    yield module("toy_metric", METRIC).spherical
    METRICS.remove("spherical")


def test_a_metric_is_one_function(toy_metric, capsys):
    test = prediction_files.read(TEST)
    p, y = test.probabilities, test.known_labels
    expected = float((p.gather(1, y[:, None])[:, 0] / p.norm(dim=1)).mean())
    assert toy_metric(p, y) == pytest.approx(expected)
    assert toy_metric(p, y, power=2.0, confidence=0.9).level == 0.9
    assert metrics.interval(p, y, "sphere", resamples=100).value == pytest.approx(expected)
    total = metrics.Accumulator({"toy": ("spherical", {"power": 1.0})})
    total.update(p[:100], y[:100])
    total.update(p[100:], y[100:])
    assert total.compute()["toy"] == pytest.approx(expected)
    assert calibrators.fit_best(test.logits, y, metric="spherical", folds=2, resamples=100).metric == "spherical"
    code, output, _ = command_line.run(capsys, "evaluate", TEST, "--resamples", 100)
    assert code == 0
    assert any(line.split()[:3] == ["spherical", "score", f"{expected:.4f}"] for line in output.splitlines())
    assert StudySpec(select="sphere").select == "spherical"
    assert perform.on_validation(test)["spherical"]["value"] == pytest.approx(expected)
    importlib.reload(sys.modules["toy_metric"])  # a notebook's cell that is run twice
    assert METRICS["spherical"].function is sys.modules["toy_metric"].spherical


def test_a_study_chooses_by_a_metrics_own_direction(toy_metric):
    plan = Plan(study_parts.kept(methods=("we",), select="sphere"))
    records = {}
    for beta, score in ((1.0, 0.5), (2.0, 0.9), (4.0, 0.7)):
        job = plan.training("we", {"alpha": 0.1, "beta": beta}, 0)
        records[job.digest] = {"metrics": {"spherical": {"value": score}, "accuracy": {"value": 0.9}}}
    assert plan.search("we", 0, records.get).chosen.values["beta"] == 2.0


def test_a_metric_is_in_evaluate_of_any_size(toy_metric, monkeypatch):
    test = prediction_files.read(TEST)
    expected = toy_metric(test.probabilities, test.known_labels)
    for limit in (10**6, 100):  # in memory, and as a stream
        monkeypatch.setattr(from_files, "ROWS", limit)
        evaluated = evaluation.evaluate_file(TEST, resamples=100).data["metrics"]["spherical"]
        assert evaluated["value"] == pytest.approx(expected)
        assert evaluated["low"] < evaluated["value"] < evaluated["high"]


def test_a_metric_is_a_column_of_calibrate_compare(toy_metric, capsys):
    arguments = ("calibrate", "compare", VALIDATION, TEST, "--methods", "ts", "--resamples", 100)
    _, output, _ = command_line.run(capsys, *arguments)
    expected = toy_metric(*(getattr(prediction_files.read(TEST), name) for name in ("probabilities", "known_labels")))
    heading, *lines = (line.split() for line in output.splitlines()[1:4])
    place = heading.index("sphere") - len(heading)
    assert f"{expected:.4f}" in {line[place] for line in lines}
    _, output, _ = command_line.run(capsys, *arguments, "--json")
    assert all("spherical" in line["metrics"] for line in json.loads(output)["methods"])


def test_a_calibrator_is_on_the_page_of_a_model(toy_calibrator, browser, tmp_path):
    test = prediction_files.read(TEST).take(torch.arange(60))
    browser.media()
    browser.resize(1280, 900)
    data = report.build(test, resamples=100, candidates=[toy_calibrator()])
    page = browser.open(report.write(tmp_path / "toy.html", data)[0])
    assert "Half" in page.run("return document.getElementById('calibrators').textContent")
    assert page.console() == []


def test_a_metric_is_on_the_page(toy_metric, browser, tmp_path):
    test = prediction_files.read(TEST).take(torch.arange(60))
    data = report.build(test, resamples=100, candidates=[calibrators.TemperatureScaling()])
    assert "spherical" in data["variants"][1]["against_raw"]
    browser.media()
    browser.resize(1280, 900)
    page = browser.open(report.write(tmp_path / "toy.html", data)[0])
    names = page.run("return Array.from(document.querySelectorAll('.metric-name'), (n) => n.textContent)")
    assert "Spherical score" in names
    assert "spherical score" in page.run("return document.getElementById('calibrators').textContent")
    assert page.console() == []


def test_a_metric_is_a_column_of_a_studys_table(toy_metric, tmp_path):
    results = [study_parts.made(tmp_path, name, 0, shift) for name, shift in (("one-hot", 3.0), ("ts", 1.0))]
    table = tabulation.build(study_parts.kept(methods=("one-hot", "ts"), seeds=1).spec, results, resamples=50)
    assert "| sphere ↑ |" in table.to_markdown()
    assert table.row("ts").cells["spherical"].best


TOY_ERROR = '''
"""A toy: Σ |B|/n · conf · max(conf − lik, 0)."""

import torch

from softkin.metrics import binning, scopes
from softkin.metrics.binned import BinnedError
from softkin.metrics.catalogue import metric


class ToyError(BinnedError):
    def of_curve(self, curve, n):
        confidence = curve.score_sum / torch.where(curve.count > 0, curve.count, 1.0)
        return (confidence * (curve.score_sum - curve.hit_sum).clamp(min=0)).sum(dim=-1) / n


@metric(
    title="toy error",
    short="TE",
    chance=True,
    shown=["evaluate", "compare", "select", "record", "table", "card"],
)
def toy_error(probabilities, labels, *, n_bins: int = 15, scope="prediction"):
    return ToyError(scopes.pool(probabilities, labels, scope), binning.equal_width(n_bins))
'''


@pytest.fixture
def toy_error(module):
    yield module("toy_error", TOY_ERROR).toy_error
    METRICS.remove("toy_error")


@pytest.mark.parametrize("wrong", [400, 399, 133, 40, 1, 0])
def test_an_error_over_bins_is_one_formula_and_its_interval_is_its_own(toy_error, wrong):
    """All scores are 0.9 and share one bin: the error is 0.9 times the over-confidence, and so is its interval."""
    p = torch.tensor([[0.9, 0.1]], dtype=torch.float64).expand(400, 2)
    y = (torch.arange(400) < wrong).long()
    ours = toy_error(p, y, confidence=0.95)
    over = metrics.signed_gap(p, y, part="over", confidence=0.95)
    assert ours.value == pytest.approx(0.9 * over.value, abs=1e-12)
    assert ours.low <= ours.value <= ours.high
    assert (ours.low, ours.high) == pytest.approx((0.9 * over.low, 0.9 * over.high), abs=0.006)
    redrawn = metrics.when_calibrated(p, "toy_error")
    assert redrawn.value == pytest.approx(0.9 * metrics.when_calibrated(p, "over").value, abs=1e-9)


def test_an_error_over_bins_allows_for_wrong_answers_that_are_too_rare_to_have_occurred(toy_error):
    """All right, in two bins: at most 1 − tail^(1/N) of the answers are wrong, and all of them may lie in one bin."""
    s = torch.tensor([0.99] * 45 + [0.6] * 5, dtype=torch.float64)
    found = toy_error(torch.stack([s, 1 - s], dim=1), torch.zeros(50, dtype=torch.int64), confidence=0.95)
    rare = 1 - 0.025 ** (1 / 50)
    assert (found.value, found.low) == (0, 0)
    assert found.high == pytest.approx(max(0.99 * (rare - 0.9 * 0.01), 0.6 * (min(rare, 0.1) - 0.1 * 0.4)))


def test_an_error_over_bins_allows_for_right_answers_that_are_too_rare_to_have_occurred(toy_error):
    """All wrong, in two bins: a few right ones would make the error of over-confidence smaller."""
    s = torch.tensor([0.99] * 45 + [0.6] * 5, dtype=torch.float64)
    found = toy_error(torch.stack([s, 1 - s], dim=1), torch.ones(50, dtype=torch.int64), confidence=0.95)
    rare = 1 - 0.025 ** (1 / 50)
    assert found.value == pytest.approx(0.9 * 0.99**2 + 0.1 * 0.6**2)
    assert found.low <= found.value - max(0.99 * rare, 0.6 * min(rare, 0.1)) + 1e-12
    ten = torch.tensor([[0.99, 0.01]] * 10, dtype=torch.float64)
    assert toy_error(ten, torch.ones(10, dtype=torch.int64), confidence=0.95).low < 0.99 * (0.99 - 0.1)


def test_an_error_over_bins_is_everywhere(toy_error, capsys, monkeypatch, tmp_path):
    test = prediction_files.read(TEST)
    p, y = test.probabilities, test.known_labels
    expected = by_hand(p, y)
    assert toy_error(p, y) == pytest.approx(expected)
    total = metrics.Accumulator(["toy_error"])
    for part in (slice(0, 300), slice(300, None)):
        total.update(p[part], y[part])
    assert total.compute()["toy_error"] == pytest.approx(expected)
    for limit in (10**6, 100):  # in memory, and as a stream
        monkeypatch.setattr(from_files, "ROWS", limit)
        shown = evaluation.evaluate_file(TEST, resamples=100).data["metrics"]["toy_error"]
        assert shown["value"] == pytest.approx(expected)
        assert 0 < shown["when_calibrated"]["value"] < shown["low"] < shown["value"] < shown["high"]
    monkeypatch.setattr(from_files, "ROWS", 10**6)
    code, output, _ = command_line.run(capsys, "evaluate", TEST, "--resamples", 100)
    assert code == 0
    assert re.search(rf"toy error +{100 * expected:.2f} %", output)
    compared = metrics.compare(p, p.sqrt() / p.sqrt().sum(1, keepdim=True), y, "toy_error", resamples=100)
    assert 0 < compared.low < compared.difference < compared.high
    assert perform.on_test(test)["toy_error"].keys() == {"value", "when_calibrated"}
    page = report.build(test.take(torch.arange(100)), resamples=100, candidates=[])
    assert page["variants"][0]["metrics"]["toy_error"].keys() >= {"value", "low", "when_calibrated"}
    results = [study_parts.made(tmp_path, name, 0, shift) for name, shift in (("one-hot", 3.0), ("ts", 1.0))]
    table = tabulation.build(study_parts.kept(methods=("one-hot", "ts"), seeds=1).spec, results, resamples=50)
    assert "| TE ↓ |" in table.to_markdown()


def by_hand(p, y, n_bins=15):
    """The formula bin by bin."""
    winning, answer = p.max(dim=1)
    total = 0.0
    for m in range(n_bins):
        inside = (winning > m / n_bins) & (winning <= (m + 1) / n_bins)
        if inside.any():
            confidence, right = winning[inside].mean(), (answer == y)[inside].double().mean()
            total += float(inside.double().mean() * confidence * max(confidence - right, 0))
    return total


RANKED = '''
"""A metric that needs all rows at once, and has no form that streams."""

import torch

from softkin.metrics.catalogue import metric
from softkin.metrics.statistics import Statistic


class Median(Statistic):
    def __init__(self, rows):
        self.rows, self.num_samples, self.device = rows, len(rows), rows.device

    def value(self):
        return float(self.rows.median())

    def sums(self, weights):
        return torch.stack([self.rows.repeat_interleave(line.long()).median() for line in weights])[:, None]

    def of(self, sums):
        return sums[:, 0]


@metric(title="median confidence", short="median", shown=["evaluate"])
def median_confidence(probabilities, labels):
    return Median(probabilities.double().amax(dim=1))
'''


def test_a_metric_that_cannot_stream_says_so_and_does_not_vanish(module, monkeypatch, capsys):
    module("toy_median", RANKED)
    try:
        assert evaluation.evaluate_file(TEST, resamples=100).data["metrics"]["median_confidence"]["low"] > 0
        monkeypatch.setattr(from_files, "ROWS", 100)
        evaluated = evaluation.evaluate_file(TEST, resamples=100).data["metrics"]["median_confidence"]
        assert evaluated == {
            "value": None,
            "absent": "it needs all samples at once, and there are too many rows to hold",
        }
        _, output, _ = command_line.run(capsys, "evaluate", TEST, "--resamples", 100)
        assert "No median confidence: it needs all samples at once" in output
        with pytest.raises(ValueError, match="`median_confidence` cannot stream: it needs all samples at once"):
            metrics.Accumulator(["median_confidence"])
    finally:
        METRICS.remove("median_confidence")


FORMAT = '''
"""Rows of numbers, the label last, parted by spaces."""

import numpy as np
import torch

from softkin.predictions.blocks import Block, PredictionFile


def open_toy(file, name, reading):
    rows = np.array([line.split() for line in file.read().decode().splitlines()], dtype=float)

    def blocks(count):
        for start in range(0, len(rows), count):
            part = rows[start : start + count]
            yield Block(torch.from_numpy(part[:, :-1]), part[:, -1].astype(int), None, None)

    return PredictionFile(name, "probs", rows.shape[1] - 1, len(rows), blocks)
'''


def test_a_prediction_format_is_a_reader_and_a_declaration(module, monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "softkin.predictions.toy_format", module("toy_format", FORMAT))
    FORMATS.add("toy", Format((".toy",), "toy_format:open_toy"))
    try:
        (tmp_path / "set").mkdir()
        for name in ("p.toy", "set/a.toy", "set/b.toy"):
            (tmp_path / name).write_text("0.9 0.1 0\n0.2 0.8 1\n0.6 0.4 1\n" * 10)
        for path, rows in ((tmp_path / "p.toy", 30), (tmp_path / "set", 60)):
            code, output, errors = command_line.run(capsys, "evaluate", path, "--json", "--resamples", 100)
            assert code == 0, errors
            model = json.loads(output)["models"][0]
            assert model["num_samples"] == rows
            assert model["metrics"]["accuracy"]["value"] == pytest.approx(2 / 3)
        (tmp_path / "p.toi").write_text("")
        code, _, errors = command_line.run(capsys, "evaluate", tmp_path / "p.toi")
        assert code == 1
        assert ".toy" in errors or "toy" in errors
    finally:
        FORMATS.remove("toy")


RULE = '''
"""The winning class where it is ahead of the next one by a margin."""

import torch

from softkin.decisions import Outcome, Rule
from softkin.metrics import Interval


class Ahead(Rule, name="ahead", title="Ahead", aliases=("by-margin",)):
    kept = ("margin_",)

    def __init__(self, error: float = 0.05):
        self.error = error

    def fit_rows(self, rows, labels):
        self.margin_ = float(self.error)

    def answer(self, rows):
        answers = torch.empty(len(rows), dtype=torch.int64)
        for place, p in rows.blocks():
            best = p.topk(2, dim=1)
            is_ahead = best.values[:, 0] - best.values[:, 1] > self.margin_
            answers[place] = torch.where(is_ahead, best.indices[:, 0], -1)
        return answers

    def measure(self, answers, rows, labels, level, options):
        share = float((answers >= 0).double().mean())
        return Outcome(len(rows), {"answered": Interval(share, share, share, level)})

    def formula(self):
        raise NotImplementedError

    def guarantee(self):
        return "Nothing is promised."
'''


def test_a_rule_is_one_class(module, capsys, tmp_path):
    def run(*arguments):
        code, output, errors = command_line.run(capsys, "decide", *arguments)
        assert code == 0, errors
        return output

    toy = module("toy_rule", RULE).Ahead
    try:
        assert "ahead" in run("fit", "--help")
        for spelling in ("ahead", "by-margin", "Ahead"):
            output = run(
                "fit", VALIDATION, "--rule", spelling, "--error", 0.5, "--output", tmp_path / "rule", "--force"
            )
            assert output.startswith("ahead (error 0.5), fitted on 700 samples\nNothing is promised.")
        assert type(decisions.load(tmp_path / "rule")) is toy
        run("apply", tmp_path / "rule", TEST, "--output", tmp_path / "answers.csv")
        best = prediction_files.read(TEST).probabilities.topk(2, dim=1).values
        answered = float((best[:, 0] - best[:, 1] > 0.5).double().mean())
        for names in ([], ["--rules", "by-margin"]):
            result = json.loads(run("compare", VALIDATION, TEST, "--error", 0.5, *names, "--json"))
            line = next(line for line in result["rules"] if line["rule"] == "Ahead")
            assert line["measures"]["answered"]["value"] == pytest.approx(answered)
        assert [line["rule"] for line in result["rules"]] == ["Ahead"]
    finally:
        decisions.REGISTRY.remove("ahead")
