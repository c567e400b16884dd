import csv
import io
import json
import math

import numpy as np
import pytest
import torch

from softkin import evaluation, metrics
from softkin.lab.study import perform, tabulation
from softkin.lab.study.tabulation import Cell, Column, Row, Table, build
from softkin.predictions import Predictions
from study_parts import SHARP, kept, made, results


@pytest.fixture(scope="module")
def five(tmp_path_factory):
    spec = kept(methods=tuple(SHARP), seeds=(0, 1, 2, 3, 4)).spec
    return build(spec, results(tmp_path_factory.mktemp("five"), SHARP, range(5)), resamples=500)


def test_means_and_deviations(five, tmp_path):
    first = [
        metrics.nll(made(tmp_path, "one-hot", s, 2.5, sample_seed=s).test().probabilities, _labels(s)) for s in range(5)
    ]
    cell = five.row("one-hot").cells["nll"]
    assert cell.values == pytest.approx(first)
    assert cell.value == pytest.approx(np.mean(first))
    assert cell.std == pytest.approx(np.std(first, ddof=1))
    assert cell.n == 5


def _labels(seed, n=250, k=4):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, k, generator=generator, dtype=torch.float64)
    return torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]


def test_the_best_and_its_ties(five):
    for key in ("nll", "ece_hist", "ece_hist_output", "ece_kde"):
        cells = {row.method: row.cells[key] for row in five.rows}
        assert sum(cell.best for cell in cells.values()) == 1, key
        assert not cells["one-hot"].best
        assert not cells["one-hot"].tie, key  # far too sure
        assert cells["ts"].best or cells["ts"].tie, key
        assert cells["one-hot"].p_value < 0.05
    for method in SHARP:  # the order of a row's scores is the same for one-hot and ts
        cell = five.row(method).cells["accuracy"]
        assert cell.best or cell.tie
    assert five.finished


def test_no_winner_by_kde_output_nor_by_the_gap(five):
    for row in five.rows:
        for key in ("ece_kde_output", "signed_gap"):
            assert not row.cells[key].best
            assert not row.cells[key].tie
            assert row.cells[key].p_value is None
    assert five.row("one-hot").cells["signed_gap"].value > 0.05


def test_perfect_calibration_stands_beside_every_ece(five, tmp_path):
    p = made(tmp_path, "one-hot", 0, 2.5).test().probabilities
    for key in ("ece_hist", "ece_hist_output", "ece_kde", "ece_kde_output"):
        cell = five.row("one-hot").cells[key]
        assert cell.chance == pytest.approx(metrics.when_calibrated(p, key), rel=0.2)
    assert five.row("one-hot").cells["nll"].when_calibrated is None


def test_markdown(five):
    text = five.to_markdown()
    assert (
        text.splitlines()[0] == "| method | accuracy ↑ | NLL ↓ | Hist P ↓ | Hist O ↓ | gap | AURC ↓ | KDE P ↓ | KDE O |"
    )
    assert len([line for line in text.splitlines() if line.startswith("|")]) == 5
    assert all(line.count("**") <= 12 for line in text.splitlines())
    assert text.count("**") == 2 * 6  # one winner in each of six columns
    assert "≈" in text
    assert "Student's t over 5 seeds, variances pooled, shared samples resampled; 5 % of a family" in text
    assert "▴" in text
    assert "one seed" not in text
    assert "above 0 is over-confident" in text


def test_latex(five):
    text = five.to_latex()
    assert text.count("\\mathbf{") == 6
    assert "accuracy $\\uparrow$" in text
    assert text.count("\\\\") == 4
    assert "^{\\approx}" in text


def test_csv_and_json_are_exact(five):
    lines = list(csv.DictReader(io.StringIO(five.to_csv())))
    assert len(lines) == 3 * 8
    line = next(item for item in lines if (item["method"], item["metric"]) == ("ts", "ece_hist"))
    cell = five.row("ts").cells["ece_hist"]
    assert float(line["value"]) == cell.value
    assert [float(value) for value in line["values"].split()] == list(cell.values)
    plain = json.loads(json.dumps(five.to_dict()))
    assert plain["rows"][1]["cells"]["ece_hist"]["value"] == cell.value


def test_a_table_of_what_is_there(tmp_path):
    spec = kept(methods=("one-hot", "ts"), seeds=(0, 1)).spec
    records = results(tmp_path, {"one-hot": (1.0, 0.0)}, (0, 1)) + results(tmp_path, {"ts": (1.0, 0.0)}, (0,))
    table = build(spec, records, resamples=200)
    assert not table.finished
    assert "Unfinished: 3 of 4 results" in table.to_markdown()
    assert table.row("ts").cells["nll"].n == 1
    assert table.row("ts").cells["nll"].std is None
    assert not table.row("ts").cells["nll"].tie
    assert build(spec, [], resamples=200).rows == ()


def test_an_infinite_loss_is_shown_as_such_and_is_no_tie(tmp_path):
    """A calibrator that gives a true class no chance at all: its log loss has no mean."""
    records = results(tmp_path, {"one-hot": (1.0, 0.0), "histogram": (1.0, 0.0)}, range(5))
    endless = records[-1]
    good = endless.test()
    p = good.probabilities.clone()
    p[0] = torch.nn.functional.one_hot((good.known_labels[0] + 1) % 4, 4)
    bad = Predictions.from_probabilities(p, good.known_labels, sample_ids=good.sample_ids)
    bad.save(tmp_path / "runs" / "histogram-4" / "test.safetensors", force=True)
    endless.record["metrics"] = json.loads(json.dumps(perform.on_test(bad)))
    table = build(kept(methods=("one-hot", "histogram"), seeds=5).spec, records, resamples=200)
    cell = table.row("histogram").cells["nll"]
    assert (cell.value, cell.std, cell.best, cell.tie) == (math.inf, None, False, False)
    assert table.row("one-hot").cells["nll"].best
    assert "| ∞ ▾ |" in table.to_markdown()
    assert "\\infty" in table.to_latex()
    plain = json.loads(json.dumps(table.to_dict(), allow_nan=False))
    assert plain["rows"][1]["cells"]["nll"]["value"] == "Infinity"


def test_the_floor_stands_beside_kde_output(five):
    cell = five.row("ts").cells["ece_kde_output"]
    assert 0 < cell.floor < cell.chance
    assert f"({100 * cell.chance:.2f}, floor {100 * cell.floor:.2f})" in five.to_markdown()


def test_a_record_has_the_numbers_of_an_evaluation_of_the_same_predictions(tmp_path):
    test = made(tmp_path, "one-hot", 0, 1.0).test()
    recorded, evaluated = perform.on_test(test), evaluation.evaluate(test, kde_interval=True)["metrics"]
    common = recorded.keys() & evaluated.keys()
    assert {"accuracy", "nll", "ece_hist", "ece_hist_output", "ece_kde", "ece_kde_output"} <= common
    for key in common:
        own = {name: recorded[key].get(name) for name in ("value", "when_calibrated", "floor", "caveat")}
        assert own == {name: evaluated[key].get(name) for name in own}, key


@pytest.mark.slow
def test_scores_that_are_nearly_equal_have_no_winner_by_kde(tmp_path):
    """Their bandwidth is too narrow for resampling, and another one would mark another number than is printed."""
    records = results(tmp_path, {"one-hot": (1.0, 0.0), "ts": (1e-3, 0.0)}, (0,))
    table = build(kept(methods=("one-hot", "ts"), seeds=1).spec, records, resamples=50)
    for row in table.rows:
        assert (row.cells["ece_kde"].best, row.cells["ece_kde"].p_value) == (False, None)
    assert 0 < table.row("ts").cells["ece_kde"].chance < 0.1
    assert any(row.cells["nll"].best for row in table.rows)


def test_names_are_text_in_every_form(tmp_path):
    name = r"a|b $x$ \input{secret} _c_ <i> 50% {&#~^"
    spec = kept(methods=("one-hot",), seeds=(0,)).spec
    column = Column(f"auroc {name}", f"AUROC {name}", larger_is_better=None)
    cell = Cell(0.5, values=(0.5,))
    notes = (f"{name}\nand a second line; network {name}.", "Bold: best.")
    table = Table((column,), (Row("one-hot", "one-hot", {column.key: cell}),), notes, spec)
    markdown = table.to_markdown().splitlines()
    assert [line.replace("\\|", "").count("|") for line in markdown[:3]] == [3, 3, 3]
    assert "<i>" not in table.to_markdown()
    assert len(markdown) == 6  # no name ends a line
    latex = table.to_latex()
    assert "\\input{" not in "\n".join(line for line in latex.splitlines() if not line.startswith("%"))
    assert r"\textbackslash{}input\{secret\}" in latex
    assert all(line.startswith(("%", "\\", "method", "one-hot")) for line in latex.splitlines() if line)
    assert next(csv.reader(io.StringIO(table.to_csv().splitlines()[1])))[1] == column.key


def test_an_error_of_scores_that_share_a_bin_is_flagged_and_never_the_best(tmp_path):
    """Every answer with the same probability, right as often as that says: 0.00 %, and no merit."""
    records = results(tmp_path, {"one-hot": (1.0, 0.0), "histogram": (1.0, 0.0)}, range(2))
    for result in records[2:]:
        labels = result.test().known_labels
        counts = torch.bincount(labels, minlength=4).double()
        share = float(counts.max()) / len(labels)
        p = torch.full((len(labels), 4), (1 - share) / 3, dtype=torch.float64)
        p[:, counts.argmax()] = share
        flat = Predictions.from_probabilities(p, labels, sample_ids=result.test().sample_ids)
        flat.save(tmp_path / "runs" / result.record["predictions"] / "test.safetensors", force=True)
        result.record["metrics"] = json.loads(json.dumps(perform.on_test(flat)))
    table = build(kept(methods=("one-hot", "histogram"), seeds=2).spec, records, resamples=200)
    for key in ("ece_hist", "ece_kde"):
        cell = table.row("histogram").cells[key]
        assert cell.value < 1e-6
        assert (cell.caveat is None, cell.best, cell.tie, cell.p_value) == (False, False, False, None)
        assert table.row("one-hot").cells[key].best
        assert table.row("one-hot").cells[key].caveat is None
    assert table.row("histogram").cells["ece_hist_output"].caveat is None  # two values, in two bins
    assert "| 0.00 ± 0.00 † (" in table.to_markdown()
    assert any(note.startswith("† Hist P of histogram is no winner: all scores share one bin") for note in table.notes)
    assert "^{\\dagger}" in table.to_latex()
    assert table.to_dict()["rows"][1]["cells"]["ece_hist"]["caveat"].startswith("all scores share one bin")


def test_a_calibrator_is_compared_with_its_network_where_both_have_the_same_values():
    same, other = [{"alpha": 0.1}, {"alpha": 0.2}], [{"alpha": 0.1}, {"alpha": 0.4}]
    chosen = {"one-hot": [{}, {}], "ts": [{}, {}], "we": same, "we+ts": same, "l2": same, "l2+ts": other, "ae+ts": same}
    assert tabulation._networks(chosen) == {"ts": "one-hot", "we+ts": "we"}


def test_core_minutes_are_those_of_a_core_not_of_the_clock():
    assert tabulation._busy({"device": "cpu", "seconds": 9.0, "processor_seconds": 3.0}) == 3
    assert tabulation._busy({"device": "cuda", "seconds": 9.0, "processor_seconds": 3.0}) == 9
    assert tabulation._busy({"device": "cpu", "seconds": 9.0}) == 9  # recorded by an earlier version


def test_a_table_marks_class_similarity_in_name_only(tmp_path):
    spec = kept(methods=("one-hot", "ts", "uniform", "we"), seeds=(0, 1)).spec
    records = results(tmp_path, {**SHARP, "uniform": (1.0, 0.1), "we": (1.0, 0.1)}, (0, 1))
    for result in records:
        if result.method == "we":
            result.record.update(
                {"values": {"alpha": 0.1, "beta": "auto"}, "found": {"beta": 0.0 if result.seed else 1.0}}
            )
    records = [result for result in records if result.method != "ets"]
    table = build(spec, records, resamples=200)
    assert table.row("we").title == "WE‡"
    assert "\n| WE‡ |" in table.to_markdown()
    assert "\nWE$^\\ddagger$ &" in table.to_latex()
    assert "its β is 0 on 1 of 2 seeds" in table.recommendation[-1]
    unfinished = build(spec, [result for result in records if result.method != "ts"], resamples=200)
    assert unfinished.notes[-1] == table.recommendation[-1]
    assert table.row("uniform").title == "uniform"
