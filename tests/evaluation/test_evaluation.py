"""``softkin evaluate`` and the library behind it: numbers, streams, comparisons, files, words."""

import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from command_line import run
from places import EXAMPLES, ROOT
from softkin import SoftkinError, cli, evaluation, metrics, predictions
from softkin.evaluation import from_files, streams
from softkin.evaluation.comparison import resamples_for
from softkin.metrics import catalogue, measurement, ranking
from softkin.metrics.measurement import Settings
from softkin.metrics.scopes import Pool
from softkin.predictions import Predictions

EXAMPLE = ROOT / "examples" / "digits-test.npz"


@pytest.fixture(scope="module")
def over_confident():
    """400 samples of 7 classes."""
    generator = torch.Generator().manual_seed(3)
    labels = torch.randint(7, (400,), generator=generator)
    logits = torch.randn(400, 7, generator=generator)
    logits[torch.arange(400), labels] += 1.5
    return Predictions(3 * logits, labels, name="over")


def test_scores_that_are_all_but_equal_only_lose_the_interval_of_the_kernel(monkeypatch):
    scores = 1 - 1e-9 * torch.rand(100, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    sure = Predictions.from_probabilities(torch.stack([1 - scores, scores], 1), torch.ones(100, dtype=torch.int64))
    evaluated = evaluation.evaluate(sure, resamples=100)["metrics"]
    assert evaluated["ece_kde"].keys() == {"value", "no_interval"}
    assert "a bandwidth of at least" in evaluated["ece_kde"]["no_interval"]
    assert evaluated["ece_kde"]["value"] == pytest.approx(0, abs=1e-8)
    assert evaluated["ece_hist"]["high"] < 0.05


CALLS = {
    "accuracy": ("accuracy", {}),
    "top_5_accuracy": ("top_k_accuracy", {"k": 5}),
    "nll": ("nll", {}),
    "brier": ("brier", {}),
    "signed_gap": ("signed_gap", {"n_bins": 12}),
    "ece_hist": ("ece_hist", {"n_bins": 12}),
    "ece_hist_output": ("ece_hist", {"scope": "output", "n_bins": 12}),
    "ece_kde": ("ece_kde", {}),
    "ece_kde_output": ("ece_kde", {"scope": "output"}),
    "classwise_ece": ("classwise_ece", {"n_bins": 12}),
    "smooth_ece": ("smooth_ece", {}),
    "debiased_ece": ("debiased_ece", {"n_bins": 12}),
    "mce": ("mce", {"n_bins": 12}),
    "aurc": ("aurc", {}),
}


def test_the_numbers_are_those_of_the_metrics(over_confident):
    evaluated = evaluation.evaluate(over_confident, n_bins=12, confidence=0.9, resamples=200, seed=5, kde_interval=True)
    assert list(evaluated["metrics"]) == [metric.key for metric in catalogue.shown("evaluate")]
    assert set(evaluated["metrics"]) == set(CALLS)
    p, y = over_confident.probabilities, over_confident.known_labels
    for key, (name, options) in CALLS.items():
        expected = getattr(metrics, name)(p, y, confidence=0.9, resamples=200, seed=5, **options)
        shown = evaluated["metrics"][key]
        assert shown["value"] == pytest.approx(expected.value, abs=1e-12), key
        assert (shown["low"], shown["high"]) == (expected.low, expected.high)
        if ("ece" in key and key != "ece_kde_output") or key == "mce":
            chance = metrics.when_calibrated(p, name, confidence=0.9, draws=400, **options)
            assert shown["when_calibrated"]["value"] == pytest.approx(chance, rel=0.1, abs=0.006), key
    assert evaluated["metrics"]["ece_kde_output"]["floor"] == pytest.approx(metrics.kde_floor(p))
    measured = evaluation.evaluate(over_confident.take(torch.arange(1)), resamples=100)["metrics"]
    assert measured["ece_hist"]["high"] == measured["mce"]["high"] <= 1
    assert evaluated["verdict"]["kind"] == "over"
    assert evaluated["num_samples"] == sum(evaluated["reliability"]["count"]) == 400
    json.dumps(evaluated, allow_nan=False)


def test_blocks_that_halve_the_threads_halve_them_once():
    before = torch.get_num_threads()
    torch.set_num_threads(8)
    try:
        with measurement.halved_threads():
            assert torch.get_num_threads() == 4
            with ThreadPoolExecutor(2) as pool:  # as several evaluations at once would
                inside = pool.map(lambda _: _threads_inside(), range(2))
            assert list(inside) == [4, 4]
            assert torch.get_num_threads() == 4
        assert torch.get_num_threads() == 8
        with pytest.raises(ZeroDivisionError), measurement.halved_threads():
            1 / 0  # noqa: B018
        assert torch.get_num_threads() == 8
        torch.set_num_threads(1)
        with measurement.halved_threads():
            assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def _threads_inside():
    with measurement.halved_threads():
        return torch.get_num_threads()


def test_every_ece_has_what_calibration_would_show_beside_it(over_confident):
    evaluated = evaluation.evaluate(over_confident, resamples=100)["metrics"]
    for key, first in evaluated.items():
        if "ece" in key or "kde" in key or key == "mce":
            assert "when_calibrated" in first or "floor" in first, key
    assert "low" not in evaluated["ece_kde_output"]
    assert evaluated["signed_gap"]["value"] > 0


def test_a_probability_of_zero_that_came_true_is_infinite_and_still_json():
    data = Predictions.from_probabilities(np.array([[1.0, 0.0], [0.5, 0.5], [0.2, 0.8]]), np.array([1, 0, 1]))
    evaluated = evaluation.evaluate(data, resamples=100)
    assert evaluated["metrics"]["nll"]["value"] == "Infinity"
    json.dumps(evaluated, allow_nan=False)


def test_streams_show_the_same(tmp_path, network_logits, monkeypatch):
    logits, labels = network_logits["resnet20-cifar10"]
    np.savez(tmp_path / "p.npz", logits=logits.numpy(), labels=labels.numpy())
    whole = evaluation.evaluate_file(tmp_path / "p.npz", resamples=400)
    assert whole.predictions is not None
    monkeypatch.setattr(from_files, "ROWS", 3000)
    monkeypatch.setattr("softkin.predictions.blocks.BLOCK", 10 * 1300)
    streamed = evaluation.evaluate_file(tmp_path / "p.npz", resamples=400)
    assert streamed.predictions is None
    assert streamed.data["settings"]["resampled"] == "1000 groups of rows"
    assert streamed.data["verdict"] == whole.data["verdict"]
    assert streamed.data["reliability"] == whole.data["reliability"]
    for key, measured in whole.data["metrics"].items():
        other = streamed.data["metrics"][key]
        assert other["value"] == pytest.approx(measured["value"], rel=1e-6), key
        if key in ("accuracy", "signed_gap"):  # by formula from the winning scores, which a stream keeps
            assert (other["low"], other["high"]) == pytest.approx((measured["low"], measured["high"]), abs=1e-12), key
        if "low" in measured and key != "mce":
            width, other_width = measured["high"] - measured["low"], other["high"] - other["low"]
            assert other_width == pytest.approx(width, rel=0.35), key
            assert abs(other["low"] - measured["low"]) < 0.3 * width, key
            assert abs(other["high"] - measured["high"]) < 0.3 * width, key
        if "when_calibrated" in measured and key not in ("mce", "debiased_ece"):
            assert other["when_calibrated"]["value"] == pytest.approx(measured["when_calibrated"]["value"], rel=0.15), (
                key
            )
        if "floor" in measured:
            assert other["floor"] == pytest.approx(measured["floor"], rel=1e-5)
    assert torch.equal(streamed.answers[0], whole.answers[0])


def test_the_linear_rows_vary_as_the_area_does():
    generator = torch.Generator().manual_seed(0)
    winning = torch.rand(2000, generator=generator, dtype=torch.float64)
    right = torch.rand(2000, generator=generator) < winning
    statistic = ranking.RiskCoverage(Pool(winning, right.nonzero()[:, 0], 2000, 1))
    area, rows = statistic.value(), statistic.influence()
    assert float(rows.mean()) == pytest.approx(area)
    # Double one sample's weight a little: the area moves by that row's share.
    for j in (0, 7, 1234):

        def weighted(extra, j=j):
            order = winning.argsort(descending=True)
            w = torch.ones(2000, dtype=torch.float64)
            w[j] += extra
            w = w[order]
            return float((w / w.sum() * ((~right[order]) * w).cumsum(0) / w.cumsum(0)).sum())

        slope = (weighted(1e-4) - weighted(-1e-4)) / 2e-4
        assert float(rows[j] - area) / 2000 == pytest.approx(slope, abs=2e-6)


def test_more_rows_than_can_be_held_are_refused_before_they_are_read(tmp_path, capsys):
    """10 million rows of 10 classes are meant to work; a hundred million leave more than 2 GiB."""
    streams.require_room(10_000_000, streams.readers(10, Settings()).values())
    with open(tmp_path / "logits.npy", "wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (100_000_000, 10)}
        np.lib.format.write_array_header_2_0(file, header)
        file.truncate(file.tell() + 4 * 10**9)  # zeros, which take no room
    with open(tmp_path / "labels.npy", "wb") as file:
        np.lib.format.write_array_header_2_0(file, {**header, "descr": "|u1", "shape": (100_000_000,)})
        file.truncate(file.tell() + 10**8)
    code, output, errors = run(capsys, "evaluate", tmp_path / "logits.npy")
    assert (code, output) == (1, "")
    assert "the data kept of 100,000,000 rows would have 4,500,000,000 bytes, more than the 2,147,483,648" in errors
    assert "set SOFTKIN_MAX_BYTES=" in errors
    stream = streams.Stream(2, Settings(), start=10**8)
    with pytest.raises(SoftkinError, match="the data kept of 100,000,003 rows"):
        stream.add(torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64), "logits")


def test_a_million_scores_need_little_memory(tmp_path):
    """120,000 × 100 in a process of its own: what stays is a small part of the file."""
    generator = np.random.default_rng(0)
    logits = generator.standard_normal((120_000, 100), dtype=np.float32)
    np.save(tmp_path / "logits.npy", logits)
    np.save(tmp_path / "labels.npy", logits.argmax(1))
    code = (
        "import sys\nfrom pathlib import Path\nfrom softkin.cli import main\nimport softkin.evaluation, softkin.report\n"
        "def peak():  # of this program alone, in kB; getrusage begins with the peak of the process that started it\n"
        "    return int(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])\n"
        "before = peak()\n"
        f"main(['evaluate', {str(tmp_path / 'logits.npy')!r}, '--json', '--resamples', '100'])\n"
        "print(peak() - before, peak(), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["models"][0]["num_samples"] == 120_000
    grown, whole = (int(text) for text in done.stderr.split())
    assert grown < 700 * 1024  # kB; all of it in float64, twice, would be 200 MB more than this
    assert whole < 1.5 * 2**20


@pytest.fixture
def two(tmp_path, over_confident):
    """Two models on the same samples, the second better calibrated; with ids."""
    ids = [f"s{i}" for i in range(400)]
    first = Predictions(over_confident.logits, over_confident.labels, sample_ids=ids)
    second = Predictions(over_confident.logits / 2.5, over_confident.labels, sample_ids=ids)
    first.save(tmp_path / "a.npz")
    second.save(tmp_path / "b.npz")
    return first, second


def test_paired_comparisons(tmp_path, two, capsys):
    first, second = two
    code, output, errors = run(capsys, "evaluate", tmp_path / "a.npz", tmp_path / "b.npz", "--json", "--resamples", 200)
    assert (code, errors) == (0, "")
    lines = {line["metric"]: line for line in json.loads(output)["comparisons"]}
    assert list(lines) == ["accuracy", "nll", "brier", "ece_hist", "ece_hist_output"]
    expected = metrics.compare(first.probabilities, second.probabilities, first.known_labels, "ece_hist", resamples=200)
    actual = lines["ece_hist"]
    assert (actual["a"], actual["b"]) == ("a.npz", "b.npz")
    assert actual["difference"] == pytest.approx(expected.difference)
    assert (actual["low"], actual["high"], actual["p_value"]) == (expected.low, expected.high, expected.p_value)
    assert actual["significant"] is True
    assert lines["accuracy"]["difference"] == 0
    assert lines["accuracy"]["significant"] is False
    _, output, _ = run(capsys, "evaluate", tmp_path / "a.npz", tmp_path / "b.npz", "--resamples", 200)
    line = next(line for line in output.splitlines() if line.startswith("ECE of the prediction") and "a.npz" in line)
    assert line.rstrip().endswith("b.npz")
    assert "not significant" in next(
        line for line in output.splitlines() if line.startswith("accuracy") and "a.npz" in line
    )


@pytest.mark.parametrize(
    ("p_values", "significant"),
    [
        ([0.03, 0.04, 0.2], [False, False, False]),  # 3 · 0.03 is more than 0.05
        ([0.02, 0.5, 0.01], [True, False, True]),  # 3 · 0.01 and 2 · 0.02 are not
        ([0.02, 0.001, 0.03], [True, True, True]),
    ],
)
def test_many_comparisons_ask_for_more(monkeypatch, two, p_values, significant):
    answers = iter(p_values * 5)
    pairs = [(0, 1), (0, 2), (1, 2)]
    monkeypatch.setattr(
        "softkin.metrics.resampling.all_compared",
        lambda *_: {pair: metrics.Comparison(1.0, 0.5, 1.5, next(answers)) for pair in pairs},
    )
    lines = evaluation.compare([*two, two[0]], resamples=100)
    assert [line["significant"] for line in lines] == significant * 5


def test_a_clear_difference_among_many_models_is_significant(two):
    """Holm's rule over 45 pairs asks for p ≤ 0.0011, less than 1,000 resamples can show."""
    first, second = two
    models = [first, *(Predictions(second.logits * (1 + i / 100), second.labels) for i in range(9))]
    lines = [line for line in evaluation.compare(models) if line["metric"] == "nll"]
    assert len(lines) == 45
    assert all(line["significant"] for line in lines[:9])  # the first is far more over-confident
    settings = Settings(resamples=1000)
    assert [resamples_for(count, settings) for count in (2, 5, 10, 20)] == [1000, 1000, 3600, 15_200]
    assert resamples_for(20, Settings(confidence=0.9999)) == 100_000
    assert resamples_for(20, Settings(resamples=200_000)) == 200_000


def test_comparing_all_at_once_equals_comparing_two(two, monkeypatch):
    models = [*two, Predictions(two[0].logits * 0.8, two[0].labels)]
    settings = {"resamples": 300, "seed": 3}
    lines = evaluation.compare(models, **settings)
    monkeypatch.setattr("softkin.metrics.resampling.MOST_NOISE", 0)  # as for very many bins: two at a time
    assert lines == evaluation.compare(models, **settings)
    pairs = [(0, 1), (0, 2), (1, 2)] * 5
    for line, (a, b) in zip(lines, pairs, strict=True):
        p, q = models[a].probabilities, models[b].probabilities
        expected = metrics.compare(p, q, models[0].known_labels, line["metric"], **settings)
        assert [line[part] for part in ("difference", "low", "high", "p_value")] == [
            expected.difference, expected.low, expected.high, expected.p_value,
        ]  # fmt: skip


def test_samples_are_brought_into_one_order_or_refused(tmp_path, two, capsys, monkeypatch):
    first, second = two
    straight = evaluation.compare([first, second], resamples=100)
    order = torch.randperm(400, generator=torch.Generator().manual_seed(0))
    assert evaluation.compare([first, second.take(order)], resamples=100) == straight
    nameless = Predictions(second.logits[order], second.known_labels[order])
    with pytest.raises(SoftkinError, match=r"must be of the same samples in the same order, but \d+ labels differ"):
        evaluation.compare([first, nameless])
    other = Predictions(second.logits, second.labels, sample_ids=[f"t{i}" for i in range(400)])
    with pytest.raises(SoftkinError, match="must be of the same samples: 400 and 400 sample_ids, 's0' is not in"):
        evaluation.compare([first, other])
    twice = Predictions(second.logits, second.labels, sample_ids=["s1", *(f"s{i}" for i in range(1, 400))])
    with pytest.raises(SoftkinError, match="must name each sample once"):
        evaluation.compare([first, twice])
    with pytest.raises(SoftkinError, match="400 and 399 sample_ids, 's399' is not in"):
        evaluation.compare([first, second.take(torch.arange(399))])
    with pytest.raises(SoftkinError, match="has 7 classes and .* has 3"):
        evaluation.compare([first, Predictions(torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64))])
    wrong = second.known_labels.clone()
    wrong[17] = (wrong[17] + 1) % 7
    Predictions(second.logits, wrong, sample_ids=second.sample_ids).save(tmp_path / "w.npz")
    second.take(order).save(tmp_path / "shuffled.npz")
    for limit in (10**6, 100):  # in memory, and as a stream
        monkeypatch.setattr(from_files, "ROWS", limit)
        code, _, errors = run(capsys, "evaluate", tmp_path / "a.npz", tmp_path / "w.npz", "--resamples", 100)
        assert code == 1
        assert (
            "a.npz and w.npz must be of the same samples in the same order, but 1 labels differ, the first at row 17"
            in errors
        )
    code, _, errors = run(capsys, "evaluate", tmp_path / "a.npz", tmp_path / "shuffled.npz", "--resamples", 100)
    assert code == 1
    assert "must have the same sample_ids in the same order" in errors
    code, output, _ = run(capsys, "evaluate", tmp_path / "a.npz", tmp_path / "b.npz", "--resamples", 200, "--json")
    streamed = {line["metric"]: line for line in json.loads(output)["comparisons"]}
    for line in straight:
        assert streamed[line["metric"]]["difference"] == pytest.approx(line["difference"], abs=1e-9)
        assert streamed[line["metric"]]["significant"] == line["significant"]


def test_help_and_examples(capsys, tmp_path, monkeypatch):
    code, output, _ = run(capsys, "evaluate", "--help")
    assert code == 0
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    code, output, errors = run(capsys, *shlex.split(cli.evaluate.EXAMPLE)[1:])
    assert (code, errors) == (0, "")
    assert output.startswith("digits-test.npz: 797 samples, 10 classes\nOver-confident by ")
    lines = {line[:34].strip(): line[34:].split() for line in output.splitlines()}
    assert lines["ECE of the prediction"][1:3] == ["%", lines["ECE of the prediction"][2]]
    assert "if calibrated" in output
    assert "(floor)" in output
    assert "Answer where the confidence is above 0.9" in output
    assert "→ 0.9" in output


def test_output_report_and_force(capsys, tmp_path):
    table, page = tmp_path / "e.json", tmp_path / "p.html"
    options = ["--resamples", 100, "--output", table, "--report", page]
    code, output, _ = run(capsys, "evaluate", EXAMPLE, *options)
    assert code == 0
    assert f"Wrote {table}" in output
    assert f"Wrote {page}" in output
    assert "digits-test.npz" in page.read_text(encoding="utf-8")
    assert json.loads(table.read_text())["models"][0]["metrics"]["accuracy"]["value"] > 0.5
    before = page.read_bytes()
    code, output, errors = run(capsys, "evaluate", EXAMPLE, *options)
    assert (code, output) == (2, "")
    assert f"{table} exists already; pass force=True (--force) to overwrite it" in errors
    assert page.read_bytes() == before
    assert run(capsys, "evaluate", EXAMPLE, *options, "--force")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["absent.npz"], 1, "absent.npz could not be read: there is no such file"),
        (["UNCLEAR"], 1, "does not say whether its numbers are logits or probabilities, and the numbers could be either; type --logits"),
        (["UNCLEAR", "--probs"], 1, "must have rows that sum to 1, but row 0 sums to 1.4"),
        (["NOLABELS"], 1, "must have labels, one for each row; name a file of them with --labels"),
        (["GOOD", "--confidence", "1.5"], 2, "--confidence must be between 0 and 1, got 1.5"),
        (["GOOD", "--abstain", "5"], 2, "--abstain must be between 0 and 1, got 5"),
        (["GOOD", "--resamples", "10"], 2, "--resamples must be at least 100, got 10"),
        (["GOOD", "--n-bins", "0"], 2, "--n-bins must be at least 1, got 0"),
        (["GOOD", "--logits", "--probs"], 2, "not allowed with argument"),
        (["GOOD"] * 21 + ["--report", "x.html"], 2, "--report shows at most 20 files on one page, got 21"),
        (["GOOD", "--report", "x.pdf"], 2, "--report must end in .html"),
        (["-", "-"], 2, "standard input (-) can be read only once"),
        ([], 2, "the following arguments are required: FILE"),
    ],
)  # fmt: skip
def test_errors_are_one_sentence(capsys, tmp_path, arguments, code, words):
    np.savez(tmp_path / "u.npz", predictions=0.5 * np.eye(3) + 0.3, label_ids=np.arange(3))
    np.savez(tmp_path / "n.npz", logits=np.eye(3))
    replaced = {"UNCLEAR": tmp_path / "u.npz", "NOLABELS": tmp_path / "n.npz", "GOOD": EXAMPLE}
    status, output, errors = run(capsys, "evaluate", *(replaced.get(argument, argument) for argument in arguments))
    assert (status, output) == (code, "")
    assert words in errors
    assert "Traceback" not in errors
    if code == 1:
        assert errors.count("\n") == 1


def test_what_is_said_counts(capsys, tmp_path):
    np.savez(tmp_path / "u.npz", predictions=4 * np.eye(3) - 0.5, label_ids=np.arange(3))
    code, output, _ = run(capsys, "evaluate", tmp_path / "u.npz", "--logits", "--json", "--resamples", 100)
    assert code == 0
    assert json.loads(output)["models"][0]["metrics"]["accuracy"]["value"] == 1
    np.save(tmp_path / "y.npy", np.arange(3))
    np.savez(tmp_path / "l.npz", logits=np.eye(3))
    assert run(capsys, "evaluate", tmp_path / "l.npz", "--labels", tmp_path / "y.npy", "--resamples", 100)[0] == 0


def test_hostile_names_stay_text(capsys, tmp_path):
    path = tmp_path / "[bold]x\x1b[31m.npz"
    path.write_bytes(EXAMPLE.read_bytes())
    code, output, _ = run(capsys, "evaluate", path, EXAMPLE, "--resamples", 100)
    assert code == 0
    assert "[bold]x�[31m.npz" in output
    assert "\x1b" not in output


def test_standard_input_as_a_process(tmp_path):
    rows = ["probs_cat,probs_dog,labels", *["0.9,0.1,cat", "0.2,0.8,dog", "0.7,0.3,dog"] * 20]
    done = subprocess.run(
        [sys.executable, "-m", "softkin", "evaluate", "-", "--json", "--resamples", "100"],
        input="\n".join(rows), capture_output=True, text=True, env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert done.stderr == ""
    model = json.loads(done.stdout)["models"][0]
    assert model["name"] == "standard input"
    assert model["class_names"] == ["cat", "dog"]
    assert model["metrics"]["accuracy"]["value"] == pytest.approx(2 / 3)


def test_help_is_light():
    code = (
        "import sys\nfrom softkin.cli import main\n"
        "for words in (['evaluate'], ['calibrate'], ['calibrate', 'compare'], ['completion']):\n"
        "    try:\n        main([*words, '--help'])\n    except SystemExit:\n        pass\n"
        "print([name for name in ('torch', 'numpy', 'rich', 'pyarrow', 'safetensors') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_page_of_commands_is_current():
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import commands_page
    finally:
        sys.path.pop(0)
    assert commands_page.PAGE.read_text(encoding="utf-8") == commands_page.page(), "run python scripts/commands_page.py"
    for name in cli.COMMANDS:
        assert f"## softkin {name}\n" in commands_page.page()


def test_what_stands_beside_the_page_is_seen_to_before_the_work(capsys, tmp_path):
    page, beside = tmp_path / "page.html", tmp_path / "page.json"
    call = ["evaluate", EXAMPLE, "--report", page, "--force"]
    assert run(capsys, *call, "--output", beside) == (
        2,
        "",
        f"softkin evaluate: --output must be another file than {beside}, which --report writes beside its page.\n",
    )
    beside.write_text("mine")
    code, output, errors = run(capsys, *call[:-1])
    assert (code, output) == (2, "")
    assert f"{beside} exists already; pass force=True (--force) to overwrite it" in errors
    assert beside.read_text() == "mine"


def test_scores_tell_samples_of_no_class_apart(tmp_path, capsys):
    """Members that agree about known samples and not about unknown ones: by hand, in the JSON and in words."""
    generator = torch.Generator().manual_seed(0)
    p = torch.rand(3, 40, 4, generator=generator).softmax(2).double()
    labels = p.mean(0).argmax(1)
    labels[:10] = (labels[:10] + 1) % 4
    agreeing = p[:1].expand(3, -1, -1) * torch.tensor([0.99, 1.0, 1.01])[:, None, None]
    known = Predictions(p[0].log(), labels, members=agreeing / agreeing.sum(2, keepdim=True))
    unknown = Predictions(p.mean(0).log(), members=p)
    known.save(tmp_path / "test.npz")
    unknown.save(tmp_path / "ood.npz")
    command = ("evaluate", tmp_path / "test.npz", "--ood", tmp_path / "ood.npz")
    (evaluated,) = json.loads(run(capsys, *command, "--json")[1])["models"]
    (messages,) = evaluated["out_of_distribution"]
    information = known.mutual_information, unknown.mutual_information
    pairs = [(a, b) for a in information[0].tolist() for b in information[1].tolist()]
    expected = sum((a < b) + 0.5 * (a == b) for a, b in pairs) / len(pairs)
    assert messages["num_samples"] == 40
    assert messages["scores"]["mutual_information"]["auroc"] == pytest.approx(expected)
    assert messages["scores"]["mutual_information"]["auroc"] > 0.9 > messages["scores"]["confidence"]["auroc"]
    assert evaluated["mutual_information"]["mean"] == pytest.approx(float(information[0].mean()))
    assert set(evaluated["mutual_information"]["auroc_of_errors"]) == {"confidence", "mutual_information"}
    assert "by the members' mutual information AUROC" in run(capsys, *command)[1]
    run(capsys, *command, "--report", tmp_path / "page.html")
    page = json.loads((tmp_path / "page.json").read_text())
    assert page["out_of_distribution"] == evaluated["out_of_distribution"]
    assert page["mutual_information"] == evaluated["mutual_information"]


def test_samples_of_no_class_go_with_one_model(tmp_path, capsys):
    Predictions(torch.zeros(3, 2), torch.tensor([0, 1, 0])).save(tmp_path / "a.npz")
    Predictions(torch.zeros(3, 4)).save(tmp_path / "b.npz")
    a, b = tmp_path / "a.npz", tmp_path / "b.npz"
    assert "--ood needs a single FILE, got 2" in run(capsys, "evaluate", a, a, "--ood", b)[2]
    words = "b.npz has 4 classes and a.npz has 2; they must be from the same model"
    assert words in run(capsys, "evaluate", a, "--ood", b)[2]


def test_threads_are_halved_once_however_many_blocks_are_open():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(4)
        with measurement.halved_threads(), measurement.halved_threads():
            assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)


@pytest.mark.filterwarnings("default")
def test_models_whose_classes_are_in_another_order_are_matched_by_name(tmp_path, capsys):
    first = predictions.load(EXAMPLES / "digits-test.npz")
    order = torch.randperm(10, generator=torch.Generator().manual_seed(0))
    names = [first.class_names[k] for k in order.tolist()]
    turned = Predictions(
        1.5 * first.logits[:, order], order.argsort()[first.labels], class_names=names, sample_ids=first.sample_ids
    )
    turned.save(tmp_path / "turned.npz")
    plain = Predictions(1.5 * first.logits, first.labels, class_names=first.class_names, sample_ids=first.sample_ids)
    plain.save(tmp_path / "plain.npz")
    shown = {}
    for name in ("plain", "turned"):
        files_of = (EXAMPLES / "digits-test.npz", tmp_path / f"{name}.npz")
        code, output, errors = run(capsys, "evaluate", *files_of, "--resamples", 100, "--json")
        assert code == 0, errors
        assert ("has the classes of digits-test.npz in another order: matched by name" in errors) == (name == "turned")
        shown[name] = {**json.loads(output)["comparisons"][0], "b": None}
    assert shown["turned"] == shown["plain"]
    other = Predictions(first.logits, first.labels, class_names=[f"x{k}" for k in range(10)])
    with pytest.raises(SoftkinError, match="must have the classes of digits, test, in any order, but it lacks .zero."):
        evaluation.compare([first, other], resamples=100)
