"""Names from outside are shown, never obeyed: in a terminal, LaTeX, Markdown, matplotlib, CSV and HTML."""

import csv
import html
import io
import re
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from command_line import run
from softkin import diagrams, distances
from softkin._io import escape, matrices

HOSTILE = [
    r"\input{/etc/passwd}",
    r"$\frac{1}{0}$",
    r"$\nosuch$",  # matplotlib raises an error for it
    "$x",
    "a|b",
    "|---|",
    "![x](javascript:alert(1))",
    "<script>alert(1)</script>",
    "[click](http://example.org)",
    "`code` *bold* _it_ ~~no~~",
    "# heading",
    "=cmd|' /C calc'!A0",
    "@SUM(1+1)",
    "+1",
    "-2",
    "'=quoted",
    "% comment",
    "a & b # c ^ d ~ e { }",
    "\x1b[31mred\x1b]0;title\x07",
    "\u202egnp.exe",
    "two\nlines",
    "carriage\rreturn",
    "tab\there",
    "&lt;",
    r"\\$",
]
printable = st.text(st.characters(exclude_categories=("C", "Zl", "Zp")), min_size=1)


def text_of_latex(text):
    """What LaTeX would print, or None if a character would do something."""
    words = {"textbackslash": "\\", "textasciitilde": "~", "textasciicircum": "^", "textless": "<", "textgreater": ">",
             "textbar": "|", "textquotedbl": '"'}  # fmt: skip
    out, place = [], 0
    while place < len(text):
        command = re.match(r"\\([a-z]+)\{\}|\\([{}$&#%_])|\$\\(uparrow|downarrow)\$", text[place:])
        if command:
            word, sign, arrow = command.groups()
            if word is not None and word not in words:
                return None
            out.append(words[word] if word else sign or {"uparrow": "↑", "downarrow": "↓"}[arrow])
            place += len(command[0])
        elif text[place] in '\\{}$&#%_~^<>|"' or not text[place].isprintable():
            return None
        else:
            out.append(text[place])
            place += 1
    return "".join(out)


@pytest.mark.parametrize("name", HOSTILE)
def test_latex_prints_the_name(name):
    assert text_of_latex(name) != name or escape.latex(name) == name  # the test itself can tell
    assert text_of_latex(escape.latex(name)) == escape.terminal(name)


@given(printable)
def test_latex_prints_any_name(name):
    assert text_of_latex(escape.latex(name)) == escape.terminal(name)


def cell_of_markdown(text):
    """The HTML inside the one cell that a table with this text has."""
    page = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(f"| a |\n| --- |\n| {text} |\n")
    cells = re.findall(r"<td>(.*?)</td>", page, re.DOTALL)
    assert page.count("<tr>") == 2
    assert len(cells) == 1
    return cells[0]


@pytest.mark.parametrize("name", HOSTILE)
def test_markdown_shows_the_name(name):
    cell = cell_of_markdown(escape.markdown(name))
    assert "<" not in cell
    assert html.unescape(cell) == escape.terminal(name)


@given(printable)
def test_markdown_shows_any_name(name):
    name = " ".join(name.split()) or "x"
    cell = cell_of_markdown(escape.markdown(name))
    assert "<" not in cell
    assert " ".join(html.unescape(cell).split()) == " ".join(escape.terminal(name).split())


@given(st.text())
def test_csv_cells_come_back_and_are_no_formulas(name):
    cell = escape.csv_cell(name)
    assert escape.from_csv_cell(cell) == name
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))


@given(st.text())
def test_a_terminal_gets_printable_text(name):
    shown = escape.terminal(name)
    assert shown.isprintable() or shown == ""
    assert len(shown) == len(name)


def test_a_matrix_with_hostile_names_survives_a_csv(tmp_path):
    names = [name for name in HOSTILE if "\r" not in name]
    matrix = torch.rand(len(names), len(names), dtype=torch.float64)
    path = tmp_path / "d.csv"
    path.write_text(matrices.to_csv(matrix, names, kind="distances"), encoding="utf-8", newline="")
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    cells = [*rows[0], *(row[0] for row in rows)]
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)
    again = distances.read(path)
    assert again.class_names == names
    torch.testing.assert_close(again.values, matrix)


def test_the_similarity_command_writes_no_formula(capsys, tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("=cat\n@dog\n+car\nbus\nrose\n", encoding="utf-8")
    code, _, _ = run(capsys, "similarity", names, "--output", tmp_path / "m")
    assert code == 0
    rows = list(csv.reader((tmp_path / "m" / "labels.csv").read_text(encoding="utf-8").splitlines()))
    assert rows[0][0].startswith("labels ")
    assert rows[0][1:] == ["'=cat", "'@dog", "'+car", "bus", "rose"]


@pytest.mark.slow
def test_diagrams_draw_hostile_names():
    names = [name for name in HOSTILE if name.isascii()]
    k = len(names)
    labels = np.arange(k)
    p = np.full((k, k), 0.5 / (k - 1)) + (0.5 - 0.5 / (k - 1)) * np.eye(k)
    p = p[:, np.roll(labels, 1)]
    similarity = np.full((k, k), 1 / (k - 1)) - np.eye(k) / (k - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of glyphs that the font lacks, and of too little room
        for figure in (
            diagrams.class_calibration(p, labels, class_names=names, most=k),
            diagrams.similarity_heatmap(similarity, class_names=names),
            diagrams.reliability(dict.fromkeys([*names, "_hidden"], p), labels, confidence=None),
            diagrams.confidence_histogram(dict.fromkeys([*names, "_hidden"], p)),
        ):
            figure.savefig(io.BytesIO())  # parses what looks like mathematics
        legend = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert any("_hidden" in text for text in legend)
