import csv
import io
import itertools
import json
import math

import numpy as np
import pytest
import torch

from softkin import SoftkinError, evaluation, metrics
from softkin.lab.study import measure, significance
from softkin.lab.study.significance import Resamples, verdict
from softkin.lab.study.tabulation import Cell, Column, Row, Table, build
from softkin.metrics.statistics import Mean, Share
from softkin.predictions import Predictions
from study_parts import kept, made


def results(folder, methods, seeds, **options):
    return [
        made(folder, name, seed, shift, sample_seed=seed, noise=noise, **options)
        for name, (shift, noise) in methods.items()
        for seed in seeds
    ]


SHARP = {"one-hot": (2.5, 0.0), "ts": (1.0, 0.0), "ets": (1.0, 0.05)}


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
    assert text.splitlines()[0] == "| method | accuracy ↑ | NLL ↓ | Hist P ↓ | Hist O ↓ | KDE P ↓ | KDE O | gap |"
    assert len([line for line in text.splitlines() if line.startswith("|")]) == 5
    assert all(line.count("**") <= 10 for line in text.splitlines())
    assert text.count("**") == 2 * 5  # one winner in each of five columns
    assert "≈" in text
    assert "samples resampled, Student's t over 5 seeds, all pairs of methods counted, 5 %" in text
    assert "one seed" not in text
    assert "above 0 is over-confident" in text


def test_latex(five):
    text = five.to_latex()
    assert text.count("\\mathbf{") == 5
    assert "accuracy $\\uparrow$" in text
    assert text.count("\\\\") == 4
    assert "^{\\approx}" in text


def test_csv_and_json_are_exact(five):
    lines = list(csv.DictReader(io.StringIO(five.to_csv())))
    assert len(lines) == 3 * 7
    line = next(item for item in lines if (item["method"], item["metric"]) == ("ts", "ece_hist"))
    cell = five.row("ts").cells["ece_hist"]
    assert float(line["value"]) == cell.value
    assert [float(value) for value in line["values"].split()] == list(cell.values)
    plain = json.loads(json.dumps(five.to_dict()))
    assert plain["rows"][1]["cells"]["ece_hist"]["value"] == cell.value


def test_two_seeds_hardly_call_a_method_worse(tmp_path):
    spec = kept(methods=tuple(SHARP), seeds=(0, 1)).spec
    table = build(spec, results(tmp_path, SHARP, range(2)), resamples=200)
    assert "Student's t over 2 seeds" in table.to_markdown()
    cells = {row.method: row.cells["nll"] for row in table.rows}
    assert not cells["one-hot"].best
    assert cells["one-hot"].tie
    assert 0.05 < cells["one-hot"].p_value <= 1


def test_with_one_seed_no_method_is_called_worse(tmp_path):
    spec = kept(methods=tuple(SHARP), seeds=(0,)).spec
    table = build(spec, results(tmp_path, SHARP, range(1)), resamples=200)
    assert (
        "one seed: no method can be called worse than another; intervals are over samples alone" in table.to_markdown()
    )
    for key in ("accuracy", "nll", "ece_hist", "ece_hist_output", "ece_kde"):
        cells = [row.cells[key] for row in table.rows]
        assert sum(cell.best for cell in cells) == 1
        assert all(cell.best or cell.tie for cell in cells), key
        assert all(cell.p_value is None for cell in cells)
        assert all(cell.low < cell.value < cell.high for cell in cells if key in ("accuracy", "nll"))


def test_the_verdict_of_one_seed_gives_the_interval_of_the_samples():
    a, b = torch.linspace(0, 1, 200), torch.linspace(0, 1, 200).flip(0) + 0.3
    outcome = verdict({"a": [Mean(a)], "b": [Mean(b)]}, Resamples([list(range(200))], times=400))
    assert (outcome.best, outcome.p_values, outcome.ties) == ("a", {}, {"b"})
    low, high = outcome.differences["b"]
    half = 1.96 * float((b - a).std()) / 200**0.5
    assert (low, high) == pytest.approx((0.3 - half, 0.3 + half), abs=0.02)
    said = outcome.against_the_best("b")
    assert said.startswith("one seed: no method can be called worse than another; the samples' interval alone is +0.2")
    five = verdict({"a": [Mean(a)] * 5, "b": [Mean(b)] * 5}, Resamples([list(range(200))] * 5, times=400))
    assert five.against_the_best("b").startswith("b is worse than a: +0.2")


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


def test_other_samples_cannot_be_compared(tmp_path):
    records = [made(tmp_path, "one-hot", 0, 1.0), made(tmp_path, "ts", 0, 1.0, ids=list(range(1, 251)))]
    with pytest.raises(SoftkinError, match="TS on seed 0 was tested on other samples"):
        build(kept(methods=("one-hot", "ts"), seeds=(0,)).spec, records)


def test_resamples_draw_a_shared_sample_for_all_seeds_or_none():
    """A brute-force twin: the accuracy of seeds whose test rows overlap, with rows drawn by id."""
    ids = [[10, 11, 12, 13], [12, 13, 14, 15]]
    right = torch.tensor([[1.0, 0, 1, 0], [1, 0, 0, 1]])
    drawn = Resamples(ids, times=50, seed=3)
    values = drawn.values([Share(row) for row in right])
    generator = np.random.default_rng(drawn._seed)
    for line in values:
        picks = generator.integers(0, 6, 6)
        for s in (0, 1):
            hits = [float(right[s, ids[s].index(10 + item)]) for item in picks if 10 + item in ids[s]]
            assert line[s] == pytest.approx(sum(hits) / len(hits), abs=1e-6)


def test_noise_of_few_seeds_has_the_tails_of_students_t():
    """Seeds that differ, samples that do not: the 95 % of the noise must be that of t with S − 1 degrees."""
    from scipy.stats import t

    generator = np.random.default_rng(0)
    covered = 0
    drawn = Resamples([[0, 1]] * 6, times=1000)
    for _ in range(200):
        seen = generator.normal(size=6)
        noise = drawn.noise(seen, np.repeat(seen[None], 1000, axis=0))[:, 0]
        low, high = np.quantile(noise, [0.025, 0.975])
        covered += low <= seen.mean() <= high
    assert covered / 200 >= 0.92
    spread = np.quantile(np.abs(noise), 0.95) / (seen.std(ddof=1) / 6**0.5)
    assert spread == pytest.approx(t.ppf(0.975, 5), rel=0.15)


class DrawnOnce(Resamples):
    """Resamples of rows that all seeds test on, drawn once for all trials."""

    def __init__(self, num_rows, num_seeds):
        super().__init__([list(range(num_rows))] * num_seeds, times=1000)
        self.counts = np.random.default_rng(0).multinomial(num_rows, [1 / num_rows] * num_rows, self.times)

    def values(self, statistics):
        return np.stack([self.counts @ item.rows.numpy() / len(item.rows) for item in statistics], axis=1)


def called_worse(num_methods, num_seeds, trials, p_value=None):
    """The share of studies of equal methods, told apart by training noise alone, that call any of them worse."""
    wrong = 0
    drawn = DrawnOnce(20, num_seeds)
    if p_value is not None:
        drawn.p_value = p_value
    for trial in range(trials):
        rng = np.random.default_rng([num_methods, num_seeds, trial])
        rows = rng.normal(size=(num_methods, num_seeds, 1)) + 0.01 * rng.normal(size=(num_methods, num_seeds, 20))
        statistics = {str(m): [Mean(torch.from_numpy(row)) for row in rows[m]] for m in range(num_methods)}
        wrong += len(verdict(statistics, drawn).ties) < num_methods - 1
    return wrong / trials


@pytest.mark.parametrize(("num_methods", "num_seeds"), [(2, 1), (2, 2), (2, 3), (2, 5), (6, 3), (6, 5)])
def test_equal_methods_are_seldom_called_worse(num_methods, num_seeds):
    rate = called_worse(num_methods, num_seeds, 200)
    assert rate <= (0.0 if num_seeds == 1 else 0.09)  # 5 % and two and a half standard errors


def test_many_methods_can_still_be_called_worse():
    """Sixteen methods are 120 pairs: the p-value of one that is far worse must be below 1 in 2,400."""
    rng = np.random.default_rng(0)
    rows = 0.01 * rng.normal(size=(16, 5, 20)) + 0.1 * rng.normal(size=(16, 5, 1))
    rows[3] += 20
    statistics = {str(m): [Mean(torch.from_numpy(row)) for row in rows[m]] for m in range(16)}
    worse = set(statistics) - verdict(statistics, DrawnOnce(20, 5)).ties
    assert "3" in worse
    assert len(worse) == 2  # that one, and the best, which is no tie of itself


def test_without_the_training_noise_equal_methods_are_called_worse():
    """The test above can fail: with the samples' noise alone, as few seeds had it once, nearly every study is wrong."""

    def of_samples(seen, resampled):
        mean = resampled.mean(axis=1)
        return float((np.abs(mean - seen.mean()) >= abs(seen.mean())).mean())

    assert called_worse(2, 2, 40, of_samples) > 0.5


def test_verdict_direction():
    right = {"good": [Share(torch.ones(50))] * 5, "bad": [Share(torch.zeros(50))] * 5}
    drawn = Resamples([list(range(50))] * 5, times=200)
    assert verdict(right, drawn, larger_is_better=True).best == "good"
    outcome = verdict(right, drawn)
    assert outcome.best == "bad"
    assert outcome.ties == set()


def test_infinite_losses_do_not_win():
    losses = {"fine": [Mean(torch.ones(50))] * 5, "endless": [Mean(torch.full((50,), torch.inf))] * 5}
    with np.errstate(invalid="ignore"):
        assert verdict(losses, Resamples([list(range(50))] * 5, times=200)).best == "fine"


def test_adjusted_p_values_by_steps():
    """Methods are dropped one by one; those left, with the best, are compared in all their pairs."""
    generator = np.random.default_rng(1)
    for _ in range(50):
        p = {str(i): float(value) for i, value in enumerate(generator.random(6) ** 6)}
        rejected, left = [], sorted(p, key=p.get)
        while left:
            pairs = len(list(itertools.combinations(["best", *left], 2)))
            if p[left[0]] > significance.LEVEL / pairs:
                break
            rejected.append(left.pop(0))
        adjusted = significance.adjusted(p)
        assert {name for name in adjusted if adjusted[name] <= significance.LEVEL} == set(rejected)


def test_an_infinite_loss_is_shown_as_such_and_is_no_tie(tmp_path):
    """A calibrator that gives a true class no chance at all: its log loss has no mean."""
    records = results(tmp_path, {"one-hot": (1.0, 0.0), "histogram": (1.0, 0.0)}, range(5))
    endless = records[-1]
    good = endless.test()
    p = good.probabilities.clone()
    p[0] = torch.nn.functional.one_hot((good.known_labels[0] + 1) % 4, 4)
    bad = Predictions.from_probabilities(p, good.known_labels, sample_ids=good.sample_ids)
    bad.save(tmp_path / "runs" / "histogram-4" / "test.safetensors", force=True)
    endless.record["metrics"] = json.loads(json.dumps(measure.on_test(bad)))
    table = build(kept(methods=("one-hot", "histogram"), seeds=5).spec, records, resamples=200)
    cell = table.row("histogram").cells["nll"]
    assert (cell.value, cell.std, cell.best, cell.tie) == (math.inf, None, False, False)
    assert table.row("one-hot").cells["nll"].best
    assert "| ∞ |" in table.to_markdown()
    assert "\\infty" in table.to_latex()
    plain = json.loads(json.dumps(table.to_dict(), allow_nan=False))
    assert plain["rows"][1]["cells"]["nll"]["value"] == "Infinity"


def test_the_floor_stands_beside_kde_output(five):
    cell = five.row("ts").cells["ece_kde_output"]
    assert 0 < cell.floor < cell.chance
    assert f"({100 * cell.chance:.2f}, floor {100 * cell.floor:.2f})" in five.to_markdown()


def test_a_record_has_the_numbers_of_an_evaluation_of_the_same_predictions(tmp_path):
    test = made(tmp_path, "one-hot", 0, 1.0).test()
    recorded, evaluated = measure.on_test(test), evaluation.evaluate(test, kde_interval=True)["metrics"]
    common = recorded.keys() & evaluated.keys()
    assert {"accuracy", "nll", "ece_hist", "ece_hist_output", "ece_kde", "ece_kde_output"} <= common
    for key in common:
        own = {name: recorded[key].get(name) for name in ("value", "when_calibrated", "floor", "caveat")}
        assert own == {name: evaluated[key].get(name) for name in own}, key


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
        result.record["metrics"] = json.loads(json.dumps(measure.on_test(flat)))
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


def test_one_seed_calls_no_method_worse_and_says_so(tmp_path):
    records = results(tmp_path, {"one-hot": (4.0, 0.0), "ts": (1.0, 0.0)}, [0])
    table = build(kept(methods=("one-hot", "ts"), seeds=1).spec, records, resamples=200)
    assert all(row.cells["nll"].best or row.cells["nll"].tie for row in table.rows)
    note = next(note for note in table.notes if "NLL minus that of TS" in note)
    assert note.startswith("One seed: no method can be called worse than another; the samples' interval alone is, ")
    low, high = (float(number) for number in note.removesuffix(".").rpartition("one-hot ")[2].split(" to "))
    difference = table.row("one-hot").cells["nll"].value - table.row("ts").cells["nll"].value
    assert low < difference < high
