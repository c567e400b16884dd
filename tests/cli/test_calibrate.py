"""``softkin calibrate``: fit, apply, compare, and the notice when samples served for both."""

import json
import re
import shlex

import numpy as np
import pytest
import torch

import command_line
from places import ROOT
from softkin import calibrators, cli, distances, metrics, predictions, similarity
from softkin.calibrators.held_out import cross_fit
from softkin.predictions import Predictions, reading

VALIDATION, TEST = (ROOT / "examples" / f"digits-{name}.npz" for name in ("validation", "test"))
pytestmark = pytest.mark.filterwarnings("default")


def messy(num_rows=60):
    """A table as people export it: an id, a feature, rounded probabilities, labels and answers."""
    rng = np.random.default_rng(0)
    names = ["cat", "dog", "horse", "ship", "plane"]
    lines = ["customer_id,age,cat,dog,horse,ship,plane,label,prediction"]
    for row in range(num_rows):
        p = rng.dirichlet(np.ones(5)).round(2) + 0.01
        scores = ",".join(f"{share:.2f}" for share in p / p.sum())
        label = names[rng.choice(5, p=p / p.sum())]
        lines.append(f"C{1000 + row},{rng.integers(18, 80)},{scores},{label},{names[int(p.argmax())]}")
    return "\n".join(lines) + "\n"


def run(capsys, *arguments):
    return command_line.run(capsys, "calibrate", *arguments)


@pytest.mark.slow
def test_every_action_has_help_and_an_example_that_works(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for action, example in cli.calibrate.EXAMPLES.items():
        code, output, _ = run(capsys, action, "--help")
        assert code == 0
        assert all(line in output.replace(" \\\n     ", "") for line in example.splitlines())
        code, output, errors = run(capsys, *shlex.split(example.splitlines()[0])[2:])
        assert (code, errors) == (0, ""), example
        assert "Wrote" in output or action == "compare"


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_fit_and_apply_are_the_librarys(capsys, tmp_path, suffix):
    code, output, errors = run(capsys, "fit", VALIDATION, "--method", "temperature", "--output", tmp_path / "cal")
    assert (code, errors) == (0, "")
    assert output.splitlines()[-1] == f"Wrote {tmp_path / 'cal' / 'calibrator.safetensors'}"
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


def test_a_table_says_that_it_was_calibrated_on_its_own_rows(capsys, tmp_path):
    """As an .npz does: in a column, which survives spreadsheets and pandas, and is no class, text or label."""
    table = tmp_path / "messy.csv"
    table.write_text(messy())
    run(capsys, "fit", str(table), "--method", "temperature", "--output", str(tmp_path / "cal"))
    repaired = tmp_path / "repaired.csv"
    run(capsys, "apply", str(tmp_path / "cal"), str(table), "--output", str(repaired))
    cli.main(["evaluate", str(repaired), "--json", "--resamples", "100"])
    captured = capsys.readouterr()
    words = "60 of the 60 samples of repaired.csv are among those that the temperature calibrator was fitted on"
    assert words in captured.err
    assert words in json.loads(captured.out)["models"][0]["warnings"][0]
    assert "calibration_note" not in captured.err


def test_a_page_says_before_its_verdict_that_it_measures_the_rows_of_the_fit(capsys, tmp_path):
    run(capsys, "fit", VALIDATION, "--method", "temperature", "--output", tmp_path / "cal")
    run(capsys, "apply", tmp_path / "cal", VALIDATION, "--output", tmp_path / "own.npz")
    words = "700 of the 700 samples of own.npz are among those that the temperature calibrator was fitted on"
    own = tmp_path / "own.npz"
    for files, key in (([own], "variants"), ([own, VALIDATION], "verdicts")):
        page = tmp_path / f"{key}.html"
        arguments = [*map(str, files), "--resamples", "100", "--report", str(page)]
        assert cli.main(["evaluate", *arguments]) == 0
        assert capsys.readouterr().err.count(words) == 1
        first = page.read_text().partition("<script")[0]
        assert first.index(words) < first.index('id="headline"')
        shown = json.loads(page.with_suffix(".json").read_text())[key]
        verdict = shown[0]["verdict"] if key == "variants" else next(iter(shown.values()))
        assert words in verdict["doubts"][0]


def test_what_was_fitted_on_is_noticed_where_some_labels_are_missing(capsys, tmp_path):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 200)
    labels = [rng.choice(["cat", "dog", "eel"], p=row) if place % 5 else "" for place, row in enumerate(p)]
    lines = [",".join([*(f"{value:.6f}" for value in row), str(label)]) for row, label in zip(p, labels, strict=True)]
    (tmp_path / "some.csv").write_text("\n".join(["cat,dog,eel,label", *lines]))
    run(capsys, "fit", tmp_path / "some.csv", "--method", "temperature", "--output", tmp_path / "cal")
    code, _, errors = run(capsys, "apply", tmp_path / "cal", tmp_path / "some.csv", "--output", tmp_path / "o.csv")
    assert code == 0, errors
    assert "160 of the 200 samples of some.csv are among those that the temperature calibrator was fitted on" in errors
    assert "calibration_note" in (tmp_path / "o.csv").read_text().partition("\n")[0]
    # Too few labels to believe them are no reason to refuse.
    few = [line if place < 20 else line.rpartition(",")[0] + "," for place, line in enumerate(lines)]
    (tmp_path / "few.csv").write_text("\n".join(["cat,dog,eel,label", *few]))
    code, _, errors = run(capsys, "apply", tmp_path / "cal", tmp_path / "few.csv", "--output", tmp_path / "f.csv")
    assert code == 0, errors


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
            "700 of the 700 samples of digits-validation.npz are among those that the temperature calibrator was fitted on",
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
        assert "are among those that the temperature calibrator was fitted on" in captured.err
        assert "fitted on" in json.loads(captured.out)["models"][0]["warnings"][0]
    code, _, errors = run(capsys, "compare", VALIDATION, VALIDATION, "--methods", "temperature", "--resamples", 100)
    assert code == 0
    assert "700 of the 700 samples" in errors
    code, _, errors = run(capsys, "compare", VALIDATION, TEST, "--methods", "temperature", "--resamples", 100)
    assert errors == ""


@pytest.mark.slow
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


def test_a_method_that_fails_is_a_line_and_not_the_end(capsys, tmp_path, monkeypatch):
    def refuse(self, *_):
        raise ValueError("there are too few samples.")

    monkeypatch.setattr(calibrators.VectorScaling, "fit_rows", refuse)
    code, output, _ = run(capsys, "compare", VALIDATION, TEST, "--methods", "vector,temperature", "--resamples", 100)
    assert code == 0
    assert "failed: there are too few samples." in output
    assert "Use temperature: NLL " in output


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
    assert output.startswith("temperature, fitted on 700 samples, applied to 797\nWrote")
    written = reading.read(tmp_path / "o.npz")
    assert written.labels is None
    expected = calibrators.TemperatureScaling().fit(held_out.logits, held_out.known_labels).predict_proba(test.logits)
    torch.testing.assert_close(written.probabilities, expected.double(), atol=1e-5, rtol=1e-4)


def test_probabilities_of_zero_are_explained_wherever_an_nll_is_infinite(capsys, tmp_path):
    random = np.random.default_rng(0)
    logits = 2 * random.normal(size=(300, 4))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = [random.choice(4, p=row) for row in np.sqrt(p) / np.sqrt(p).sum(axis=1, keepdims=True)]
    p = p.round(2)
    p /= p.sum(axis=1, keepdims=True)
    np.savez(tmp_path / "v.npz", probs=p, labels=labels)
    code, output, errors = run(capsys, "fit", tmp_path / "v.npz", "--output", tmp_path / "cal")
    assert code == 0
    assert errors.count("are exactly 0, and are taken as") == 1
    before = re.search(r"NLL ([\d.]+) → [\d.]+; winning", output)[1]
    floor = re.search(r"take probabilities of exactly 0 as ([\d.e-]+); as they are, the .* is ∞", output)[1]
    code, output, _ = run(capsys, "apply", tmp_path / "cal", tmp_path / "v.npz", "--output", tmp_path / "o.npz")
    assert code == 0
    assert f"with zeros taken as {floor}, as `fit` takes them, it is {before}." in output
    assert cli.main(["evaluate", str(tmp_path / "v.npz"), "--resamples", "100"]) == 0
    assert "NLL is infinite because a true class has the probability 0" in capsys.readouterr().out


def test_a_calibrator_that_changes_answers_says_so(capsys, tmp_path):
    code, output, _ = run(capsys, "fit", VALIDATION, "--method", "isotonic", "--output", tmp_path / "a")
    assert code == 0
    assert re.search(r"It changes [\d.]+ % of the answers on these samples; --method temperature changes none", output)
    code, output, _ = run(capsys, "fit", VALIDATION, "--method", "temperature", "--output", tmp_path / "b")
    assert "It changes" not in output


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["fit", "V", "--method", "temprature", "--output", "OUT"], 2, "got 'temprature'; did you mean 'temperature'?"),
        (["fit", "V", "--method", "ets", "--output", "V"], 2, "--output must be a folder"),
        (["fit", "V", "--method", "ets", "--output", "THERE"], 2, "calibrator.safetensors exists already, from another command or other files; add --force"),
        (["fit", "absent.npz", "--method", "ets", "--output", "OUT"], 1, "there is no such file"),
        (["fit", "U", "--method", "ets", "--output", "OUT"], 1, "must have labels for this"),
        (["apply", "OUT", "T", "--output", "o.npz"], 1, "holds no calibrator"),
        (["apply", "THERE", "T", "--output", "o.txt"], 2, "--output must end in .npz, .safetensors, .csv or .tsv"),
        (["apply", "THERE", "T", "--output", "V"], 2, "exists already, from another command or other files; add --force"),
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


def with_features(folder, *, classes=("a", "b", "c")):
    """Held-out and test predictions of a poor network, with features that know more, and training rows."""
    generator = np.random.default_rng(0)
    centres = 2 * generator.normal(size=(len(classes), 4))
    made = {}
    for part, count in (("train", 30), ("validation", 200), ("test", 300)):
        labels = np.arange(count) % len(classes)
        x = centres[labels] + generator.normal(size=(count, 4))
        z = x[:, :2] @ centres[:, :2].T
        np.savez(folder / f"{part}.npz", logits=z, labels=labels, class_names=classes)
        np.savez(folder / f"{part}-features.npz", features=x, labels=labels)
        made[part] = x, z, labels
    return made


def test_features_and_training_rows_are_matched_by_ids_and_class_names(capsys, tmp_path):
    """A head fitted to files in another order is the same head."""
    made = with_features(tmp_path)
    generator = np.random.default_rng(1)
    for part in ("validation", "test"):
        x, z, y = made[part]
        ids, order = np.array([f"s{row}" for row in range(len(x))]), generator.permutation(len(x))
        np.savez(tmp_path / f"{part}-ids.npz", logits=z, labels=y, class_names=["a", "b", "c"], sample_ids=ids)
        np.savez(tmp_path / f"{part}-shuffled.npz", features=x[order], sample_ids=ids[order])
    x, _, y = made["train"]
    turned, names = np.array([2, 0, 1]), np.array(["c", "a", "b"])
    np.savez(tmp_path / "turned.npz", features=x, labels=np.argsort(turned)[y], class_names=names)
    for fitted, applied, train, cal in (
        (("validation.npz", "validation-features.npz"), ("test.npz", "test-features.npz"), "train-features.npz", "one"),
        (("validation-ids.npz", "validation-shuffled.npz"), ("test-ids.npz", "test-shuffled.npz"), "turned.npz", "two"),
    ):
        arguments = ("--method", "kin-head", "--features", tmp_path / fitted[1], "--train", tmp_path / train)
        assert run(capsys, "fit", tmp_path / fitted[0], *arguments, "--output", tmp_path / cal)[0] == 0
        arguments = ("--features", tmp_path / applied[1], "--output", tmp_path / f"{cal}.npz")
        code, _, errors = run(capsys, "apply", tmp_path / cal, tmp_path / applied[0], *arguments)
        assert code == 0
    assert f"{tmp_path / 'test-shuffled.npz'}: its rows are matched with those of the predictions by" in errors
    one, two = (predictions.load(tmp_path / f"{cal}.npz").probabilities for cal in ("one", "two"))
    np.testing.assert_allclose(two, one)
    np.savez(tmp_path / "lacking.npz", features=made["test"][0], sample_ids=[f"s{row + 1}" for row in range(300)])
    for file, option, words in (
        ("lacking.npz", "--features", "lacking.npz has no row with the id 's0' of the predictions"),
        ("far.npz", "--train", "far.npz must have the classes of .*, in any order, but it lacks 'c'"),
    ):
        np.savez(tmp_path / "far.npz", features=x, labels=y, class_names=["a", "b", "z"])
        given = {"--features": tmp_path / "validation-shuffled.npz", "--train": tmp_path / "turned.npz"}
        given[option] = tmp_path / file
        arguments = [part for pair in given.items() for part in pair]
        code, _, errors = run(
            capsys,
            "fit",
            tmp_path / "validation-ids.npz",
            "--method",
            "kin-head",
            *arguments,
            "--output",
            tmp_path / "x",
        )
        assert code != 0
        assert re.search(words, errors)


def test_a_head_is_fitted_and_applied_with_features(capsys, tmp_path):
    made = with_features(tmp_path)
    D = distances.from_order(3)
    distances.save(tmp_path / "order.safetensors", D, class_names=list("abc"), source="order")
    code, output, errors = run(
        capsys, "fit", tmp_path / "validation.npz", "--method", "kin-head", "--features",
        tmp_path / "validation-features.npz", "--train", tmp_path / "train-features.npz", "--similarity",
        tmp_path / "order.safetensors", "--output", tmp_path / "cal",
    )  # fmt: skip
    assert (code, errors) == (0, "")
    assert "Fitted on 200 samples of 3 classes" in output
    (x, z, y), (own, _, own_y), (xt, zt, _) = made["validation"], made["train"], made["test"]
    head = calibrators.KinHead(similarity.from_distances(D)).fit(
        z, y, features=x, train_features=own, train_labels=own_y
    )
    code, output, errors = run(
        capsys, "apply", tmp_path / "cal", tmp_path / "test.npz", "--features", tmp_path / "test-features.npz",
        "--output", tmp_path / "out.npz",
    )  # fmt: skip
    assert (code, errors) == (0, "")
    assert "kin-head (similarity 3 × 3), fitted on 200 samples, applied to 300" in output
    np.testing.assert_allclose(
        predictions.load(tmp_path / "out.npz").probabilities, head.predict_proba(zt, features=xt)
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit", "validation.npz", "--method", "kin-head", "--output", "x"], "needs --features"),
        (["fit", "validation.npz", "--features", "test-features.npz", "--output", "x"], "it is for kin-head"),
        (["apply", "cal", "test.npz", "--output", "y.npz"], "holds the calibrator kin-head, which needs --features"),
        (
            ["apply", "ts", "test.npz", "--features", "test-features.npz", "--output", "y.npz"],
            "the calibrator temperature, which takes no --features",
        ),
        (
            ["apply", "cal", "test.npz", "--features", "train-features.npz", "--output", "y.npz"],
            "--features must have 300 rows",
        ),
    ],
)
def test_features_where_they_belong(capsys, tmp_path, monkeypatch, arguments, words):
    made = with_features(tmp_path)
    monkeypatch.chdir(tmp_path)
    x, z, y = made["validation"]
    calibrators.KinHead().fit(z, y, features=x).save(tmp_path / "cal")
    calibrators.TemperatureScaling().fit(z, y).save(tmp_path / "ts")
    code, _, errors = run(capsys, *arguments)
    assert code in (1, 2)
    assert words in errors


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".csv"])
def test_a_calibrated_file_is_not_advised_to_be_calibrated_again(capsys, tmp_path, suffix):
    """The terminal, the JSON and the page say what calibrated it; neither command nor code fits one on top."""
    run(capsys, "fit", VALIDATION, "--method", "platt", "--output", tmp_path / "cal")
    after, page = tmp_path / f"after{suffix}", tmp_path / "page.html"
    run(capsys, "apply", tmp_path / "cal", TEST, "--output", after)
    assert cli.main(["evaluate", str(after), "--resamples", "100", "--report", str(page)]) == 0
    by = "the platt calibrator"
    assert f"calibrated already, by {by}" in " ".join(capsys.readouterr().out.split())
    text = page.read_text().partition("<script")[0]
    assert f"Calibrated already, by {by}" in text
    assert "softkin calibrate fit" not in text
    assert "Fit a temperature" not in text
    cli.main(["evaluate", str(after), "--resamples", "100", "--json"])
    assert json.loads(capsys.readouterr().out)["models"][0]["calibrated_by"] == by.removeprefix("the ")
    code, _, said = run(capsys, "fit", after, "--method", "temperature", "--output", tmp_path / "again")
    assert code == 0
    assert f"calibrated already, by {by}" in " ".join(said.split())


def test_of_a_binary_file_the_error_of_its_positive_class_is_printed(capsys, tmp_path):
    """In percent, by `fit` and by `apply`: the winning class hides half of it, and a temperature may not repair it."""
    p = torch.linspace(0.001, 0.999, 600, dtype=torch.float64)
    y = (torch.rand(600, generator=torch.Generator().manual_seed(0)) < p.pow(3)).long()
    rows = Predictions.from_probabilities(torch.stack([1 - p, p], dim=1), y, class_names=["stays", "leaves"])
    rows.save(tmp_path / "b.npz")
    code, output, _ = run(
        capsys, "fit", tmp_path / "b.npz", "--method", "platt", "--certify", "--output", tmp_path / "cal"
    )
    assert code == 0
    calibrator = calibrators.load(tmp_path / "cal")
    held_out = calibrator.certificate_.held_out
    assert held_out.positive_before == pytest.approx(metrics.ece_positive(rows.probabilities, y))
    spread = cross_fit(calibrators.PlattScaling(), rows.probabilities, y, folds=5, from_probabilities=True, seed=0)
    assert held_out.positive_after == pytest.approx(metrics.ece_positive(spread, y))
    for name, before, after in (
        ("P(leaves)", held_out.positive_before, held_out.positive_after),
        ("the prediction", held_out.ece_before, held_out.ece_after),
    ):
        assert f"ECE of {name} {100 * before:.2f} % → {100 * after:.2f} %" in " ".join(output.split())
    assert "--method temperature changes none, but may leave P(leaves) wrong" in " ".join(output.split())
    _, output, _ = run(capsys, "apply", tmp_path / "cal", tmp_path / "b.npz", "--output", tmp_path / "o.npz")
    after = predictions.load(tmp_path / "o.npz").probabilities
    errors = [f"{100 * metrics.ece_positive(each, y):.2f} %" for each in (rows.probabilities, after)]
    assert f"ECE of P(leaves) {' → '.join(errors)}, ECE of the prediction" in " ".join(output.split())


def test_a_calibrated_file_that_is_off_is_fitted_anew_from_its_scores(capsys, tmp_path):
    """A note of the rows of the fit names the calibrator in a CSV too; one that is off gets no second calibrator."""
    p = torch.rand(400, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64).pow(4)
    p /= p.sum(dim=1, keepdim=True)
    labels = torch.randint(3, (400,), generator=torch.Generator().manual_seed(1))
    labels[:200] = p[:200].argmax(dim=1)
    held = Predictions.from_probabilities(p, labels, class_names=["cat", "dog", "owl"])
    held.save(tmp_path / "a.csv", notes={"calibrated_by": "beta calibrator"})
    held.save(tmp_path / "b.npz", notes={"calibrated_by": "beta calibrator"})
    for name, by in (("a.csv", "softkin"), ("b.npz", "the beta calibrator")):
        cli.main(["evaluate", str(tmp_path / name), "--resamples", "100"])
        printed = " ".join(capsys.readouterr().out.split())
        advice = (
            "to remove what is left, fit a new calibrator to more of the model's own scores, not a second one on top."
        )
        assert f"calibrated already, by {by}; {advice}" in printed
        assert "fit a temperature" not in printed
