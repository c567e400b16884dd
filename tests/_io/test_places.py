"""Where a message says a row is: the line that an editor shows, or a place that says how it is counted."""

import json

import numpy as np
import pytest

from data_files import xlsx
from softkin import SoftkinError
from softkin._io.tables import Table, open_table
from softkin.predictions import load

HEAD = "id,cat,dog,note,label\n"


def test_lines_of_csv_are_those_of_an_editor(tmp_path):
    """The header, remarks above it, empty lines and cells of several lines count, as in an editor."""
    path = tmp_path / "scores.csv"
    path.write_text(f'# made by us\n{HEAD}1,.5,.5,"a\nb",cat\n\n2,.1,.9,c,dog\n3,.4,.6,d,emu\n')
    table = open_table(path)
    assert [table.place(row) for row in range(3)] == ["line 3", "line 6", "line 7"]
    with pytest.raises(SoftkinError, match=r"scores.csv, line 7: the label must be a number or one of the classes"):
        load(path, class_columns=["cat", "dog"], kind="probs")


def test_lines_without_a_header(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("0.25,0.75,dog\n0.5,0.5,cat\n")
    with pytest.warns(UserWarning, match="has no header"):
        assert open_table(path).place(0) == "line 1"


def test_rounded_rows_are_named_by_their_line(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("cat,dog,label\n.5,.5,cat\n.52,.49,dog\n.3,.7,dog\n")
    with pytest.warns(UserWarning, match="such as line 3, which sums to 1.01"):
        load(path, kind="probs")


def test_lines_of_json_lines(tmp_path):
    path = tmp_path / "scores.jsonl"
    path.write_text("\n".join(["", json.dumps({"probs": [0.5, 0.5], "label": "cat"}),
                               json.dumps({"probs": [0.5, 0.7], "label": "cat"})]))  # fmt: skip
    assert open_table(path).place(1) == "line 3"
    with pytest.raises(SoftkinError, match="line 3 sums to 1.2"):
        load(path)


def test_rows_of_a_workbook_are_those_of_the_sheet(tmp_path):
    path = tmp_path / "scores.xlsx"
    path.write_bytes(xlsx({"confidence": [None, 0.5, 0.75], "correct": [None, 1, "perhaps"]}))
    with pytest.raises(SoftkinError, match=r"scores.xlsx, line 4: `correct` must say whether the answer was right"):
        load(path, score="confidence", outcome="correct")


def test_other_formats_say_how_they_count(tmp_path):
    np.savez(tmp_path / "pairs.npz", confidence=np.array([0.5, 0.25]), correct=np.array(["1", "perhaps"]))
    with pytest.raises(SoftkinError, match=r"pairs.npz, row 1 \(counted from 0\): `correct` must say"):
        load(tmp_path / "pairs.npz", score="confidence", outcome="correct")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_every_line_is_found(tmp_path, delimiter):
    """A brute-force twin: the n-th record of Python's own reader of the text begins on the line that is said."""
    cells = [["a", "b"], *([f"x{n}", "two\nlines" if n % 3 == 0 else str(n)] for n in range(20))]
    text = "".join(f"{delimiter.join(chr(34) + cell + chr(34) for cell in row)}\n" for row in cells)
    path = tmp_path / "table.csv"
    path.write_text(text)
    table: Table = open_table(path)
    lines = text.split("\n")
    for n in range(20):
        assert f'"x{n}"' in lines[int(table.place(n).removeprefix("line ")) - 1]
