"""``softkin calibrate``: fit, apply, compare, and the notice when samples served for both."""

import json
import re
import shlex

import numpy as np
import pytest
import torch

import command_line
from places import ROOT
from softkin import calibrators, cli, metrics
from softkin.evaluation import leaks
from softkin.predictions import Predictions, reading

VALIDATION, TEST = (ROOT / "examples" / f"digits-{name}.npz" for name in ("validation", "test"))

pytestmark = pytest.mark.filterwarnings("default")


def run(capsys, *arguments):
    return command_line.run(capsys, "calibrate", *arguments)


def test_every_action_has_help_and_an_example_that_works(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for action, example in cli.calibrate.EXAMPLES.items():
        code, output, _ = run(capsys, action, "--help")
        assert code == 0
        assert example in output
        code, output, errors = run(capsys, *shlex.split(example)[2:])
        assert (code, errors) == (0, ""), example
        assert "Wrote" in output or action == "compare"


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_fit_and_apply_are_the_librarys(capsys, tmp_path, suffix):
    code, output, errors = run(capsys, "fit", VALIDATION, "--method", "temperature", "--output", tmp_path / "cal")
    assert (code, errors) == (0, "")
    assert output.splitlines()[-1] == f"Wrote {tmp_path / 'cal'}"
    path = tmp_path / f"calibrated{suffix}"
    code, output, errors = run(capsys, "apply", tmp_path / "cal", TEST, "--output", path)
    assert (code, errors) == (0, "")
    assert "NLL 0.5248 → " in output
    before, after = reading.read(TEST), reading.read(path)
    held_out = reading.read(VALIDATION)
    expected = (
        calibrators.TemperatureScaling()
        .fit(held_out.logits, held_out.known_labels)
        .predict_proba(before.logits.double())
    )
    torch.testing.assert_close(after.probabilities, expected)
    assert torch.equal(after.known_labels, before.known_labels)
    assert after.class_names == before.class_names
    assert torch.equal(after.sample_ids, before.sample_ids)
    assert metrics.nll(after.probabilities, after.known_labels) < metrics.nll(before.probabilities, before.known_labels)
    assert cli.main(["evaluate", str(path), "--resamples", "100"]) == 0
    assert capsys.readouterr().err == ""


def test_json(capsys, tmp_path):
    code, output, _ = run(
        capsys, "fit", VALIDATION, "--method", "ets", "--output", tmp_path / "c", "--json", "--certify"
    )
    about = json.loads(output)
    assert code == 0
    assert about["certificate"]["num_samples"] == 700
    assert about["certificate"]["held_out"]["folds"] == 5
    assert about["digest"] == reading.read(VALIDATION).digest
    code, output, _ = run(capsys, "apply", tmp_path / "c", TEST, "--output", tmp_path / "o.npz", "--json")
    assert json.loads(output)["after"]["nll"] < json.loads(output)["before"]["nll"]
    assert json.loads(output)["warnings"] == []


def test_what_was_fitted_on_is_noticed(capsys, tmp_path):
    run(capsys, "fit", VALIDATION, "--method", "temperature", "--output", tmp_path / "cal")
    held_out, other = reading.read(VALIDATION), reading.read(TEST)
    # The same file under another name, in another form, in another order, and a part of it among others.
    names = [f"logits_{name}" for name in held_out.class_names]
    rows = [
        ",".join([*map(repr, row), str(k)])
        for row, k in zip(held_out.logits.tolist(), held_out.known_labels.tolist(), strict=True)
    ]
    (tmp_path / "other name.csv").write_text("\n".join([",".join([*names, "labels"]), *reversed(rows)]))
    part = Predictions(
        torch.cat([held_out.logits[:50], other.logits]), torch.cat([held_out.known_labels[:50], other.known_labels])
    )
    part.save(tmp_path / "part.npz")
    for path, words in (
        (
            VALIDATION,
            "700 of the 700 samples of digits-validation.npz are among those that the TemperatureScaling was fitted on",
        ),
        (tmp_path / "other name.csv", "700 of the 700 samples"),
        (tmp_path / "part.npz", "50 of the 847 samples of part.npz"),
    ):
        code, _, errors = run(capsys, "apply", tmp_path / "cal", path, "--output", tmp_path / "o.npz", "--force")
        assert code == 0
        assert errors.startswith("softkin: warning: ")
        assert words in errors
        # and whoever measures the calibrated file is told as well
        assert cli.main(["evaluate", str(tmp_path / "o.npz"), "--resamples", "100", "--json"]) == 0
        captured = capsys.readouterr()
        assert "are among those that the TemperatureScaling was fitted on" in captured.err
        assert "fitted on" in json.loads(captured.out)["models"][0]["warnings"][0]
    code, _, errors = run(capsys, "compare", VALIDATION, VALIDATION, "--methods", "temperature", "--resamples", 100)
    assert code == 0
    assert "700 of the 700 samples" in errors
    code, _, errors = run(capsys, "compare", VALIDATION, TEST, "--methods", "temperature", "--resamples", 100)
    assert errors == ""


def test_digests_of_rows():
    logits, labels = torch.randn(1000, 5), torch.randint(5, (1000,))
    first = leaks.row_digests(Predictions(logits, labels))
    assert len(set(first.tolist())) == 1000
    assert np.array_equal(leaks.row_digests(Predictions(logits.double(), labels)), first)
    assert not np.isin(leaks.row_digests(Predictions(logits, (labels + 1) % 5)), first).any()
    assert not np.isin(leaks.row_digests(Predictions(logits.flip(1), labels)), first).any()
    assert leaks.notice(3, 1000, "x", "y") is None  # a few equal rows prove nothing
    assert leaks.warning({}, "y") is None
    assert leaks.warning({"calibration": "nonsense"}, "y") is None


def saturated(n, *, seed, ids=None):
    """Probabilities of which most are 0 and 1, as of a network that has learnt its data by heart."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (n,), generator=generator)
    p = torch.softmax(torch.randn(n, 10, generator=generator), dim=1)
    one_hot = torch.rand(n, generator=generator) < 0.8
    p[one_hot] = torch.nn.functional.one_hot(labels[one_hot], 10).float()
    return Predictions.from_probabilities(p, labels, sample_ids=ids, name=f"file {seed}")


def test_equal_rows_of_other_samples_are_no_leak():
    for ids, other_ids in (
        (None, None),
        (list(range(2000)), list(range(2000))),
        ([f"a{i}" for i in range(2000)], None),
    ):
        fitted, other = saturated(2000, seed=0, ids=ids), saturated(2000, seed=1, ids=other_ids)
        assert leaks.between(fitted, other) is None
        assert "2,000 of the 2,000 samples" in leaks.between(fitted, fitted)
    # A part of it among others is noticed by the rows that speak for themselves, and by ids where there are any.
    fitted = saturated(2000, seed=0, ids=[f"image {i}" for i in range(2000)])
    again = fitted.take(torch.arange(500))
    assert "500 of the 500 samples" in leaks.between(fitted, again)
    from dataclasses import replace

    assert " of the 500 samples" in leaks.between(fitted, replace(again, sample_ids=None))
    assert leaks.between(fitted, replace(again, sample_ids=None)) < "2"  # about 100: a fifth is not saturated


def test_equal_ids_are_a_leak_whatever_the_scores_unless_labels_differ():
    ids = [f"image {i}" for i in range(300)]
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(300, 5, generator=generator), torch.randint(5, (300,), generator=generator)
    fitted = Predictions(logits, labels, sample_ids=ids, name="fitted")
    for scores in (logits.half().float(), 2 * logits):
        again = Predictions(scores, labels, sample_ids=ids, name="again")
        assert "300 of the 300 samples of again" in leaks.between(fitted, again)
    others = Predictions(2 * logits, labels.flip(0), sample_ids=ids, name="others")
    assert leaks.between(fitted, others) is None
    numbered = [Predictions(scores, labels, sample_ids=torch.arange(300), name="x") for scores in (logits, 2 * logits)]
    assert leaks.between(*numbered) is None


def test_coarse_scores_of_disjoint_samples_are_no_leak():
    """The votes of 20 trees for 3 classes: 231 different rows, and many of them in both files."""
    generator = torch.Generator().manual_seed(0)
    sharp = torch.softmax(2 * torch.randn(1600, 3, generator=generator), dim=1)
    votes = torch.multinomial(sharp, 20, replacement=True, generator=generator)
    p = torch.nn.functional.one_hot(votes, 3).double().mean(dim=1)
    labels = torch.multinomial(sharp, 1, generator=generator)[:, 0]
    for n in (100, 400, 800):
        halves = [
            Predictions.from_probabilities(p[i * n : (i + 1) * n], labels[i * n : (i + 1) * n], name="x")
            for i in (0, 1)
        ]
        common = np.isin(leaks.row_digests(halves[1]), leaks.row_digests(halves[0])).mean()
        assert common > 0.2
        assert leaks.between(*halves) is None
        assert f"{n} of the {n} samples" in leaks.between(halves[0], halves[0])


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
        (result["winner"], result["methods"][1]["method"]), (result["winner"], "uncalibrated"),
    ]  # fmt: skip
    assert f"Lowest NLL: {result['winner']}" in output
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


@pytest.mark.parametrize("columns", [60, 80, 160])
def test_the_table_fits_a_real_terminal(columns):
    """In a pseudo-terminal: each method begins a line, with its numbers beside it, and no line of the table wraps."""
    import fcntl
    import os
    import pty
    import struct
    import subprocess
    import sys
    import termios

    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    command = [sys.executable, "-m", "softkin", "calibrate", "compare", VALIDATION, TEST, "--methods", "ts,ets,imax"]
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [*map(str, command), "--resamples", "100"], stdout=follower, stderr=subprocess.DEVNULL, env=environment
    )
    os.close(follower)
    output = b""
    try:
        while part := os.read(leader, 65536):
            output += part
    except OSError:  # how a pseudo-terminal says that nobody writes to it any more
        pass
    assert process.wait() == 0
    os.close(leader)
    lines = output.decode().replace("\r\n", "\n").splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("method"))
    table = lines[start : start + 5]
    assert {line.split()[0] for line in table[1:]} == {
        "temperature", "ensemble-temperature", "mutual-information", "uncalibrated",
    }  # fmt: skip
    assert all(len(line) <= columns for line in table)
    assert all(re.search(r" \d\.\d{4} ", line) for line in table[1:])
    assert ("No room for these columns: seconds" in output.decode()) == (columns < 130)


def test_compare_leaves_long_searches_out_and_says_so(capsys, monkeypatch):
    from softkin.calibrators import selection

    monkeypatch.setattr(selection, "MOST_WORK", 0)
    _, output, notices = run(capsys, "compare", VALIDATION, TEST, "--resamples", 100, "--json")
    methods = {line["method"] for line in json.loads(output)["methods"]}
    assert "structured-vector" in methods
    assert not methods & {"matrix", "dirichlet", "structured-matrix", "kin-matrix"}
    assert "matrix, dirichlet, structured-matrix, kin-matrix are left out: with" in notices
    assert "name them in --methods to include them" in notices


def test_a_method_that_fails_is_a_line_and_not_the_end(capsys, tmp_path, monkeypatch):
    def refuse(self, *_):
        raise ValueError("there are too few samples.")

    monkeypatch.setattr(calibrators.VectorScaling, "fit_rows", refuse)
    code, output, _ = run(capsys, "compare", VALIDATION, TEST, "--methods", "vector,temperature", "--resamples", 100)
    assert code == 0
    assert "failed: there are too few samples." in output
    assert "Lowest NLL: temperature" in output


def test_classes_in_another_order_are_matched_by_name(capsys, tmp_path):
    test = reading.read(TEST)
    order = torch.randperm(10, generator=torch.Generator().manual_seed(1))
    names = [test.class_names[k] for k in order.tolist()]
    Predictions(test.logits[:, order], order.argsort()[test.labels], names).save(tmp_path / "turned.npz")
    run(capsys, "fit", VALIDATION, "--method", "vector", "--output", tmp_path / "cal")
    said = {}
    for path in (TEST, tmp_path / "turned.npz"):
        code, output, errors = run(capsys, "apply", tmp_path / "cal", path, "--output", tmp_path / f"to {path.name}")
        assert (code, errors) == (0, "")
        said[path.name] = output.splitlines()
    line = "turned.npz has its classes in another order than the calibrator; they were matched by name."
    assert said["turned.npz"][0] == line
    assert said["turned.npz"][1:-1] == said[TEST.name][:-1]  # the same NLL and ECE
    straight, turned = (reading.read(tmp_path / f"to {path}") for path in (TEST.name, "turned.npz"))
    assert turned.class_names == names
    assert torch.equal(turned.probabilities, straight.probabilities[:, order])
    for named in (VALIDATION, tmp_path / "turned.npz"):
        code, output, _ = run(capsys, "compare", named, TEST, "--methods", "vector,ts", "--resamples", 100, "--json")
        assert code == 0
    Predictions(test.logits, test.labels, [*"abcdefghij"]).save(tmp_path / "other.npz")
    for action in (("apply", tmp_path / "cal"), ("compare", VALIDATION)):
        to = ("--output", tmp_path / "x.npz") if action[0] == "apply" else ()
        code, _, errors = run(capsys, *action, tmp_path / "other.npz", *to)
        assert code == 1
        assert "other.npz must have the classes of" in errors
        assert "in any order, but it lacks 'zero', 'one'" in errors


def test_probabilities_only(capsys, tmp_path):
    held_out, test = reading.read(VALIDATION), reading.read(TEST)
    for name, first in (("v", held_out), ("t", test)):
        np.savez(tmp_path / f"{name}.npz", probs=first.probabilities.numpy(), labels=first.known_labels.numpy())
    code, _, _ = run(capsys, "fit", tmp_path / "v.npz", "--method", "temperature", "--output", tmp_path / "cal")
    assert code == 0
    assert calibrators.load(tmp_path / "cal").fitted_from_ == "probabilities"
    np.savez(tmp_path / "u.npz", probs=test.probabilities.numpy())  # no labels
    code, output, _ = run(capsys, "apply", tmp_path / "cal", tmp_path / "u.npz", "--output", tmp_path / "o.npz")
    assert code == 0
    assert output.startswith("TemperatureScaling, fitted on 700 samples, applied to 797\nWrote")
    written = reading.read(tmp_path / "o.npz")
    assert written.labels is None
    expected = calibrators.TemperatureScaling().fit(held_out.logits, held_out.known_labels).predict_proba(test.logits)
    torch.testing.assert_close(written.probabilities, expected.double(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["fit", "V", "--method", "temprature", "--output", "OUT"], 2, "got 'temprature'; did you mean 'temperature'?"),
        (["fit", "V", "--output", "OUT"], 2, "required: --method"),
        (["fit", "V", "--method", "ets", "--output", "V"], 2, "--output must be a folder"),
        (["fit", "V", "--method", "ets", "--output", "THERE"], 2, "calibrator.safetensors exists already; pass"),
        (["fit", "absent.npz", "--method", "ets", "--output", "OUT"], 1, "there is no such file"),
        (["fit", "U", "--method", "ets", "--output", "OUT"], 1, "must have labels for this"),
        (["apply", "OUT", "T", "--output", "o.npz"], 1, "holds no calibrator"),
        (["apply", "THERE", "T", "--output", "o.txt"], 2, "--output must end in .npz, .safetensors or .csv"),
        (["apply", "THERE", "T", "--output", "V"], 2, "exists already; pass"),
        (["apply", "THERE", "THREE", "--output", "OUT.npz"], 1, "must have the 10 classes that the calibrator was fitted on, got 3"),
        (["compare", "V", "THREE"], 1, "has 10 classes and three.npz has 3"),
        (["compare", "V", "T", "--methods", "magic"], 2, "`method` must be one of temperature, ensemble-temperature"),
        (["compare", "V", "T", "--resamples", "1"], 2, "--resamples must be at least 100"),
        (["compare", "V", "T", "--confidence", "2"], 2, "--confidence must be between 0 and 1"),
        (["compare", "V", "T", "--labels", "x"], 2, "--labels must be left out"),
        ([], 2, "required: ACTION"),
    ],
)  # fmt: skip
def test_errors_are_one_sentence(capsys, tmp_path, arguments, code, words):
    calibrators.TemperatureScaling().fit(torch.randn(50, 10), torch.randint(10, (50,))).save(tmp_path / "there")
    np.savez(tmp_path / "three.npz", logits=np.eye(3), labels=np.arange(3))
    np.savez(tmp_path / "u.npz", logits=np.eye(3))
    places = {
        "V": VALIDATION, "T": TEST, "OUT": tmp_path / "out", "OUT.npz": tmp_path / "out.npz", "THERE": tmp_path / "there",
        "THREE": tmp_path / "three.npz", "U": tmp_path / "u.npz",
    }  # fmt: skip
    exit_code, output, errors = run(capsys, *(places.get(argument, argument) for argument in arguments))
    assert (exit_code, output) == (code, "")
    assert words in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "out").exists()


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
