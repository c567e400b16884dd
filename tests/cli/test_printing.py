"""Tables of the terminal: what fits, what is wrapped, and what is escaped."""

import ast
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import softkin.cli
from softkin.cli import printing

TEXT = st.text("ab ,猫é", max_size=40)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(TEXT, st.just("1.234"), TEXT), min_size=1, max_size=5), st.integers(50, 120))
def test_a_table_with_wrapped_columns_fits_any_terminal_and_loses_no_letter(rows, columns):
    text, dropped = printing.rows_that_fit(
        ["class", "value", "nearest"], rows, [], left=(0, 2), wrapped=(0, 2), columns=columns
    )
    assert max(map(printing.columns_of, text.splitlines())) <= columns
    assert not dropped
    for letter in "猫é":
        assert text.count(letter) == sum(cell.count(letter) for row in rows for cell in row)


def test_columns_are_dropped_in_their_order_until_the_rest_fits():
    headings, rows = ["method", "first", "second", "third"], [["one-hot", "1" * 10, "2" * 10, "3" * 10]]
    text, dropped = printing.rows_that_fit(headings, rows, [2, 1], columns=31)
    assert dropped == ["second"]
    assert text.splitlines() == ["method        first       third", "one-hot  1111111111  3333333333"]


def test_names_are_escaped_and_an_empty_row_is_an_empty_line():
    text, _ = printing.rows_that_fit(["class", "n"], [["cat\x1b[31m", "1"], [], ["猫", "22"]], [])
    assert text.splitlines() == ["class      n", "cat�[31m   1", "", "猫        22"]


def test_a_cell_breaks_between_its_parts():
    rows = [["a", "seal 0.0500, rose 0.0400, tulip 0.0100"]]
    text, _ = printing.rows_that_fit(["class", "nearest"], rows, [], left=(0, 1), wrapped=(1,), columns=32)
    assert text.splitlines()[1:] == ["a      seal 0.0500, rose 0.0400,", "       tulip 0.0100"]


def test_every_command_prints_its_tables_by_the_same_function():
    for path in Path(softkin.cli.__file__).parent.glob("*.py"):
        imported = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ImportFrom)]
        assert not [node.module for node in imported if (node.module or "").startswith("rich")], path.name


def test_prose_breaks_at_words_on_a_terminal_only(monkeypatch, capsys):
    text = (
        "of the answers given at about ninety per cent only seventy are right, said /a/path/without/any/space/"
        + "x" * 60
    )
    printing.say(text)
    assert capsys.readouterr().out == text + "\n"  # other programs read whole lines
    monkeypatch.setenv("COLUMNS", "40")
    printing.say(text, "  indented " + "word " * 12)
    lines = capsys.readouterr().out.splitlines()
    assert " ".join(line.strip() for line in lines).split() == f"{text} indented {'word ' * 12}".split()
    assert all(len(line) <= 40 for line in lines if "/" not in line)
    assert all(line.startswith("  ") for line in lines[lines.index(next(x for x in lines if "indented" in x)) :])
