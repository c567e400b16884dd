"""A repeated command goes on; another one with the same output is refused before any work, in every command."""

import pytest

from command_line import run
from places import ROOT
from softkin import cli

HELD, TEST = (ROOT / "examples" / f"digits-{name}.npz" for name in ("validation", "test"))
CHURN = ROOT / "examples" / "churn.csv"
FEW = ("--resamples", 100)

COMMANDS = {  # what is typed, the outputs, and an option that makes it another command
    "evaluate": (["evaluate", TEST, *FEW], {"--output": "e.json", "--report": "p.html"}, ["--n-bins", 9]),
    "fit": (["calibrate", "fit", HELD, "--method", "temperature"], {"--output": "cal"}, ["--certify"]),
    "apply": (["calibrate", "apply", "CAL", TEST], {"--output": "a.npz"}, ["--probs"]),
    "to a table": (["calibrate", "apply", "CAL", TEST], {"--output": "a.csv"}, ["--probs"]),
    "methods": (
        ["calibrate", "compare", HELD, TEST, "--methods", "temperature", *FEW],
        {"--output": "m.json"},
        ["--seed", 1],
    ),
    "rule": (["decide", "fit", HELD, "--rule", "sets"], {"--output": "rule"}, ["--coverage", 0.8]),
    "answers": (["decide", "apply", "RULE", TEST], {"--output": "a.jsonl"}, ["--probs"]),
    "rules": (["decide", "compare", HELD, TEST, "--rules", "sets"], {"--output": "r.json"}, ["--coverage", 0.8]),
    "measure": (["similarity", "NAMES"], {"--output": "m"}, ["--beta", 5]),
    "show": (["similarity", "show", "NAMES"], {"--output": "s.safetensors", "--report": "s.html"}, ["--beta", 5]),
    "audition": (["similarity", "audition", "digits", "--against", HELD], {"--output": "b.safetensors"}, ["--seed", 1]),
    "check": (["check", CHURN, "--max", "ece=30%", *FEW], {"--output": "c.json", "--junit": "c.xml"}, ["--seed", 1]),
    "monitor": (["monitor", CHURN, "--tolerance", "10%"], {"--output": "w.json"}, ["--every", 100]),
}
TIMED = ("methods", "rules")  # their results hold seconds, which differ


def refused_work(*_):
    raise AssertionError("the work was begun")


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", COMMANDS)
def test_another_result_is_refused_before_the_work(name, capsys, tmp_path, monkeypatch):
    words, outputs, another = COMMANDS[name]
    names = tmp_path / "names.txt"
    names.write_text("cat\ndog\ncar\n")
    made = {"CAL": tmp_path / "made", "RULE": tmp_path / "made", "NAMES": names}
    if "CAL" in words:
        run(capsys, "calibrate", "fit", HELD, "--method", "temperature", "--output", made["CAL"])
    if "RULE" in words:
        run(capsys, "decide", "fit", HELD, "--rule", "sets", "--output", made["RULE"])
    typed = [made.get(word, word) for word in words]
    for option, file in outputs.items():
        typed += [option, tmp_path / file]

    assert "Wrote" in run(capsys, *typed)[1]
    code, output, errors = run(capsys, *typed)  # the same goes on
    assert code == 0, errors
    if name not in TIMED:
        assert "was there already, with the same content" in output
        assert "Wrote" not in output

    monkeypatch.setattr(cli.COMMANDS[words[0]], "run", refused_work)
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for more in (another, ["--json", *another]):
        code, output, errors = run(capsys, *typed, *more)
        assert (code, output) == (2, ""), errors
        assert "exists already, from another command or other files; add --force to overwrite it." in errors
    monkeypatch.setenv("SOFTKIN_TRACEBACK", "1")
    with pytest.raises(AssertionError, match="begun"):
        cli.main([str(word) for word in (*typed, *another, "--force")])
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == kept


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("change", ["input", "output", "foreign"])
def test_changed_files_make_another_command(change, capsys, tmp_path, monkeypatch):
    source, output = tmp_path / "s.csv", tmp_path / "e.json"
    source.write_text(CHURN.read_text())
    if change != "foreign":
        assert run(capsys, "evaluate", source, *FEW, "--output", output)[0] == 0
    if change == "input":
        source.write_text(CHURN.read_text() + "0,0.1234\n")
    else:
        output.write_text("{}")
    monkeypatch.setattr(cli.COMMANDS["evaluate"], "run", refused_work)
    code, _, errors = run(capsys, "evaluate", source, *FEW, "--output", output)
    assert code == 2
    assert f"{output} exists already, from another command or other files" in errors


@pytest.mark.filterwarnings("default")
def test_an_output_that_was_added_does_not_stop_the_others(capsys, tmp_path):
    page = ("evaluate", CHURN, *FEW, "--report", tmp_path / "p.html")
    assert run(capsys, *page)[0] == 0
    code, output, _ = run(capsys, *page, "--output", tmp_path / "e.json")
    assert code == 0
    assert f"Wrote {tmp_path / 'e.json'}" in output


@pytest.mark.filterwarnings("default")
def test_trainings_and_studies_refuse_before_the_work(capsys, tmp_path):
    few = ("--epochs", 1, "--max-per-class", 20)
    train = ("train", "digits", *few, "--output", tmp_path / "t")
    study = ("compare", "--data", "digits", "--methods", "one-hot", "--seeds", 1, "--tune", "none", *few)
    study = (*study, "--workers", 1, "--output", tmp_path / "s")
    for command, words in ((train, "already holds a finished run"), (study, "holds another study")):
        code, _, errors = run(capsys, *command)
        assert code == 0, errors
        kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
        code, output, errors = run(capsys, *command, "--batch-size", 16)
        assert code != 0
        assert output == ""
        assert words in errors
        assert "--force" in errors
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == kept


@pytest.mark.parametrize("words", [["digits"], ["--data", "digits"]])
@pytest.mark.parametrize(("command", "field"), [("train", "source"), ("compare", "data")])
def test_the_data_may_come_first_or_after_their_option(command, field, words):
    arguments = cli.parser().parse_args([command, *words, "--epochs", "1"])
    assert getattr(arguments, field) == "digits"


def test_data_are_named_once(capsys):
    for command in ("train", "compare"):
        with pytest.raises(SystemExit, match="2"):
            cli.parser().parse_args([command, "digits", "--data", "other.npz"])
        assert f"softkin {command}: the data are named twice: digits and other.npz" in capsys.readouterr().err
    assert cli.main(["train"]) == 2
    assert "softkin train: SOURCE is missing: name the data to train on" in capsys.readouterr().err
