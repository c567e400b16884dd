"""``softkin split``: parts that calibrate and evaluate read, and what the command says."""

import json
import warnings
from pathlib import Path

import pytest

from command_line import run
from places import ROOT

TICKETS = ROOT / "examples" / "tickets.csv"


def run_named(capsys, printed):
    """Run the commands that an output names; their first words."""
    named = [line.split()[1:] for line in printed.splitlines() if line.startswith("  softkin")]
    for words in named:
        assert run(capsys, *words)[0] == 0, words
    return [words[0] for words in named]


@pytest.mark.filterwarnings("ignore")
def test_the_commands_that_it_names_run(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, printed, _ = run(capsys, "split", TICKETS, "--output", "parts/")
    assert code == 0
    assert "Wrote parts/fit.csv: 300 rows" in printed
    assert run_named(capsys, printed) == ["calibrate", "calibrate", "evaluate"]
    code, printed, _ = run(capsys, "split", TICKETS, "--output", "parts/")
    assert code == 0
    assert "parts/fit.csv was there already, with the same content: 300 rows" in printed
    assert run(capsys, "split", TICKETS, "--output", "parts/", "--seed", "1")[0] == 2
    assert run(capsys, "split", TICKETS, "--output", "parts/", "--seed", "1", "--force")[0] == 0


@pytest.mark.filterwarnings("ignore")
def test_a_part_between_is_for_a_rule(tmp_path, capsys, monkeypatch):
    """The rule is fitted on rows that its calibrator has not seen, calibrated as those that it is applied to."""
    monkeypatch.chdir(tmp_path)
    _, printed, _ = run(capsys, "split", TICKETS, "--into", "fit,rule,test", "--output", "parts/")
    assert "  softkin decide fit for-rule.csv --rule abstain" in printed
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*the rule's promise")
        assert run_named(capsys, printed) == ["calibrate", "calibrate", "evaluate", "calibrate", "decide", "decide"]


@pytest.mark.filterwarnings("ignore")
def test_it_names_the_column_of_times_and_what_a_rule_of_one_score_takes(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{n},{1 + n % 28}.{1 + n % 12}.2026 09:30,{n % 7}-{n},{n % 2},{(n * 37 % 100) / 100}" for n in range(120)]
    Path("a b.csv").write_text("\n".join(["customer_id,came in,code,y_true,y_prob", *rows]))
    _, printed, _ = run(capsys, "split", "a b.csv", "--into", "fit,rule,test", "--output", "parts/")
    assert "To test on the latest, as new rows will be: --by 'came in'" in printed
    assert "For those above a threshold of the score alone: --outcome y_true" in printed
    code, printed, _ = run(capsys, "split", "a b.csv", "--by", "came in", "--output", "by/")
    assert code == 0
    assert "at random" not in printed
    assert "For a rule, too, which needs rows of its own: --into fit,rule,test" in printed
    _, printed, _ = run(capsys, "split", TICKETS, "--into", "fit,rule,test", "--output", "tickets/")
    assert "--outcome" not in printed


@pytest.mark.filterwarnings("ignore")
def test_shares_are_typed_in_any_measure(tmp_path, capsys):
    for typed in ("a=50%,b=50%", "a=1,b=1", "a,b"):
        code, printed, _ = run(capsys, "split", TICKETS, "--into", typed, "--output", tmp_path, "--json", "--force")
        assert code == 0
        assert {name: part["rows"] for name, part in json.loads(printed).items()} == {"a": 300, "b": 300}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--into", "a"], "at least two parts"),
        (["--into", "a,a"], "different names"),
        (["--into", "a=50,b"], "all parts a share, or none"),
        (["--into", "a=x,b=1"], "a share above 0"),
        (["--into", "../a,b"], "different names such as fit,test"),
        (["--by", "date", "--together", "date"], "exclude each other"),
    ],
)
def test_wrong_usage(options, words, tmp_path, capsys):
    code, _, error = run(capsys, "split", TICKETS, "--output", tmp_path, *options)
    assert code == 2
    assert words in error
