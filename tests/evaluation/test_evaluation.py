"""``softkin evaluate`` and the library behind it: numbers, streams, comparisons, files, words."""

import json
import os
import shlex
import subprocess
import sys

import numpy as np
import pytest

from command_line import run
from places import ROOT
from softkin import cli

EXAMPLE = ROOT / "examples" / "digits-test.npz"


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
    assert "→ 97.6981 %" in output


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
    assert (code, errors) == (0, "")
    assert f"{table} was there already, with the same content" in output
    code, output, errors = run(capsys, "evaluate", EXAMPLE, "--n-bins", 9, *options)
    assert code == 2
    assert f"{table} exists already, from another command or other files; add --force to overwrite it" in errors
    assert page.read_bytes() == before
    assert run(capsys, "evaluate", EXAMPLE, *options, "--force")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["absent.npz"], 1, "absent.npz could not be read: there is no such file"),
        (["UNCLEAR"], 1, "does not say whether its numbers are logits or probabilities, and the numbers could be either; type --logits"),
        (["UNCLEAR", "--probs"], 1, "must have rows that sum to 1, but row 0 (counted from 0) sums to 1.4"),
        (["NOLABELS"], 1, "must have labels, one for each row; name their column with --label-column, or a file"),
        (["GOOD", "--confidence", "1.5"], 2, "--confidence must be between 0 and 1, or between 0% and 100%, got 1.5"),
        (["GOOD", "--abstain", "2"], 2, "--abstain must be between 0 and 1, or between 0% and 100%, got 2"),
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


@pytest.mark.slow
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


@pytest.mark.slow
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
    assert f"{beside} exists already, from another command or other files; add --force to overwrite it" in errors
    assert beside.read_text() == "mine"


def ordered_rows(n=400, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, n)
    z = -1.5 * np.abs(np.arange(4) - (y + rng.normal(0, 0.8, n))[:, None])
    p = np.exp(z)
    return p / p.sum(1, keepdims=True), y


@pytest.mark.filterwarnings("always::softkin.predictions.Assumption")
def test_ordered_classes_have_a_ranked_probability_score(capsys, tmp_path, monkeypatch):
    p, y = ordered_rows()
    np.savez(tmp_path / "a.npz", probs=p, labels=y, class_names=["poor", "fair", "good", "great"])
    twin = np.mean(
        [sum((sum(row[: k + 1]) - (label <= k)) ** 2 for k in range(3)) / 3 for row, label in zip(p, y, strict=True)]
    )
    _, output, _ = run(capsys, "evaluate", tmp_path / "a.npz", "--json")
    assert "rps" not in json.loads(output)["models"][0]["metrics"]
    code, output, errors = run(capsys, "evaluate", tmp_path / "a.npz", "--ordered", "--json")
    assert code == 0
    assert "ordered as they are given: poor < fair < good < great." in errors
    whole = json.loads(output)["models"][0]["metrics"]["rps"]
    assert whole["value"] == pytest.approx(twin, abs=1e-12)
    assert whole["low"] < twin < whole["high"]
    monkeypatch.setattr("softkin.evaluation.from_files.ROWS", 100)
    _, output, _ = run(capsys, "evaluate", tmp_path / "a.npz", "--ordered", "--json")
    assert json.loads(output)["models"][0]["metrics"]["rps"]["value"] == pytest.approx(twin, abs=1e-12)


def test_ordered_classes_must_be_in_order(capsys, tmp_path):
    p, y = ordered_rows()
    np.savez(tmp_path / "a.npz", probs=p, labels=y, class_names=["1", "10", "2", "3"])
    code, _, errors = run(capsys, "evaluate", tmp_path / "a.npz", "--ordered")
    assert code == 1
    assert "the classes must be in their order for --ordered, but are 1, 10, 2, 3" in errors


def test_sets_of_ordered_classes_have_no_gaps(capsys, tmp_path):
    for name, seed in {"a": 0, "b": 1}.items():
        p, y = ordered_rows(seed=seed)
        np.savez(tmp_path / f"{name}.npz", probs=p, labels=y)
    fit = ("decide", "fit", tmp_path / "a.npz", "--rule", "sets", "--score", "ordinal", "--output", tmp_path / "rule")
    assert run(capsys, *fit)[0] == 0
    assert run(capsys, "decide", "apply", tmp_path / "rule", tmp_path / "b.npz", "--output", tmp_path / "s.npz")[0] == 0
    with np.load(tmp_path / "s.npz") as file:
        for row in file["answers"]:
            places = np.flatnonzero(row)
            assert len(places) == 0 or len(places) == places[-1] - places[0] + 1


@pytest.mark.filterwarnings("default")
def test_pairs_of_several_models_are_compared_on_one_page(capsys, tmp_path):
    """Not pooled: what holds for all answers together holds for no model."""
    random = np.random.default_rng(0)
    for name, gap in (("first", 0.05), ("second", 0.3)):
        confidence = random.uniform(0.5, 1, 300)
        right = random.random(300) < confidence - gap
        rows = [f"{c:.3f},{int(r)}" for c, r in zip(confidence, right, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["confidence,correct", *rows]))
    files = [tmp_path / "first.csv", tmp_path / "second.csv"]
    code, output, _ = run(capsys, "evaluate", *files, "--resamples", 100, "--report", tmp_path / "page.html")
    assert code == 0
    page = json.loads((tmp_path / "page.json").read_text())
    assert output.startswith("2 models, 300 pairs each")
    assert (page["kind"], page["num_samples"]) == ("comparison", 300)
    assert page["overview"]["headline"].startswith("Use first.csv")


@pytest.mark.filterwarnings("ignore:.*is read as the confidence of pairs")
def test_bounds_below_the_rate_that_do_not_count_are_explained(capsys, tmp_path):
    """The surest tenth is often wrong and the rest is right: the tests end at once, though later bounds are low."""
    lines = [f"{1 - row / 2000},{int(row % 3 > 0 or row > 100)}" for row in range(1000)]
    (tmp_path / "pairs.csv").write_text("\n".join(["confidence,correct", *lines]) + "\n")
    options = ("--resamples", 100, "--abstain")
    code, output, errors = run(capsys, "evaluate", tmp_path / "pairs.csv", *options, 0.1)
    assert code == 0, errors
    assert (
        "No threshold passes the test of an error rate of at most 10 % with confidence 95 %. The least whole percent"
        in " ".join(output.split())
    )
    assert "A bound below the rate is not enough" in output
    assert "\n         60.45 %" in output  # in full: above 60.4 % is one row more
    code, output, _ = run(capsys, "evaluate", tmp_path / "pairs.csv", *options, 0.6)
    assert code == 0
    assert "A bound below the rate" not in output
