"""One reader of tables: the same rows from every format, in blocks, and one vocabulary of columns."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from data_files import xlsx
from softkin import SoftkinError, distances, predictions
from softkin._io import roles, tables
from softkin._io.tables import FORMATS, Format, Table
from softkin.lab import data
from softkin.report import attach

ROWS = [{"id": f"s{k}", "text": f"row {k}, said\n=so", "n": k / 8, "label": "ab"[k % 2]} for k in range(250)]
ROWS[3]["text"] = None


def written(folder, form):
    """The rows in a file of this format."""
    path = folder / f"t.{form}"
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path, row_group_size=70)
    elif form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    elif form == "json":
        path.write_text(json.dumps(ROWS))
    elif form == "arrow":
        feather.write_feather(pa.Table.from_pylist(ROWS), path, chunksize=70)
    elif form == "xlsx":
        path.write_bytes(xlsx({key: [row[key] for row in ROWS] for key in ROWS[0]}))
    else:
        mark = "\t" if form == "tsv" else ","
        quoted = [[f'"{row["text"] or ""}"', row["id"], repr(row["n"]), row["label"]] for row in ROWS]
        path.write_text("\n".join(mark.join(row) for row in [["text", "id", "n", "label"], *quoted]))
    return path


@pytest.mark.parametrize("form", list(FORMATS))
def test_every_format_gives_the_same_rows(tmp_path, form):
    table = tables.open_table(written(tmp_path, form))
    assert dict(table.columns) == {"id": "text", "text": "text", "n": "number", "label": "text"}
    assert table.num_rows in (None, 250)
    expected = [(row["id"], row["text"], row["label"]) for row in ROWS]
    assert list(table.cells("id", "text", "label")) == expected
    assert list(table.cells("id", "text", "label")) == expected  # as often as needed
    blocks = list(table.read(100, ["n"], ["label"]))
    assert max(map(len, blocks)) <= 100
    np.testing.assert_array_equal(np.concatenate([rows.numbers(["n"]) for rows in blocks])[:, 0], np.arange(250) / 8)
    assert [label for rows in blocks for label in rows.filled("label")] == [row["label"] for row in ROWS]
    head = table.head(["n", "text"])
    assert 50 <= len(head["n"]) <= 100  # whole row groups of parquet, at most
    assert head["n"] == [k / 8 for k in range(len(head["n"]))]
    assert head["text"] == [row["text"] for row in ROWS[: len(head["text"])]]


def test_a_packed_table_is_read_by_its_inner_suffix(tmp_path):
    content = written(tmp_path, "csv").read_bytes()
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(content))
    assert len(list(tables.open_table(tmp_path / "t.csv.gz").cells("id"))) == 250
    assert len(data.load(tmp_path / "t.csv.gz")) == 250
    assert attach.texts(tmp_path / "t.csv.gz", None, 250)[4] == ROWS[4]["text"]
    (tmp_path / "bad.csv.gz").write_bytes(gzip.compress(content)[:-20])
    with pytest.raises(SoftkinError, match="bad.csv.gz could not be read"):
        tables.open_table(tmp_path / "bad.csv.gz")


def test_a_word_among_numbers_is_an_error_and_no_text(tmp_path):
    """Otherwise a damaged class would silently be left out."""
    (tmp_path / "probs.csv").write_text("a,b,label\n" + "0.25,0.75,a\n" * 5 + "0.5,0.x5,b\n")
    assert tables.open_table(tmp_path / "probs.csv").columns["b"] == "number"
    with pytest.raises(SoftkinError, match="probs.csv, line 7: `b` must hold numbers, got '0.x5'"):
        predictions.load(tmp_path / "probs.csv")


def open_toy(file, name):
    """Cells separated by blanks, below a header."""
    header, *rows = (line.split() for line in file.read().decode().splitlines())

    class Rows:
        def __len__(self):
            return len(rows)

        def numbers(self, columns):
            return np.array([[float(row[header.index(column)]) for column in columns] for row in rows])

        def filled(self, column):
            return self.cells(column)

        def cells(self, column):
            return [row[header.index(column)] for row in rows]

        def empty(self, column, words):
            return []

    kinds = {column: "number" if rows[0][k][0].isdigit() else "text" for k, column in enumerate(header)}
    return Table(name, kinds, lambda count, numbers, beside: iter([Rows()]), len(rows))


def test_a_format_is_one_registration_for_everything_that_reads_tables(tmp_path):
    FORMATS.add("toy", Format((".toy",), f"{__name__}:open_toy"))
    try:
        (tmp_path / "p.toy").write_text("text probs_a probs_b label\nx 0.25 0.75 a\ny 0.5 0.5 b\n")
        loaded = predictions.load(tmp_path / "p.toy")
        assert (loaded.texts, loaded.class_names, loaded.known_labels.tolist()) == (["x", "y"], ["a", "b"], [0, 1])
        samples = data.load(tmp_path / "p.toy")
        assert (samples.texts, samples.class_names) == (["x", "y"], ["a", "b"])
        assert attach.texts(tmp_path / "p.toy", None, 2) == ["x", "y"]
        (tmp_path / "t.toy").write_text("parent child\nab a\nab b\n")
        assert distances.read_tree(tmp_path / "t.toy").leaves == ["a", "b"]
    finally:
        FORMATS.remove("toy")


# Roles


@pytest.mark.parametrize("name", roles.NAMES["text"])
def test_a_text_column_is_one_everywhere(tmp_path, name):
    (tmp_path / "t.csv").write_text(f"{name},label,probs_a,probs_b\nhello,a,0.25,0.75\nbye,b,0.5,0.5\n")
    assert predictions.load(tmp_path / "t.csv").texts == ["hello", "bye"]
    assert data.load(tmp_path / "t.csv").texts == ["hello", "bye"]
    assert attach.texts(tmp_path / "t.csv", None, 2) == ["hello", "bye"]


@pytest.mark.parametrize("name", roles.NAMES["label"])
def test_a_label_column_is_one_everywhere(tmp_path, name):
    (tmp_path / "t.csv").write_text(f"text,{name},probs_a,probs_b\nhello,b,0.25,0.75\nbye,a,0.5,0.5\n")
    assert predictions.load(tmp_path / "t.csv").known_labels.tolist() == [1, 0]
    assert data.load(tmp_path / "t.csv").labels.tolist() == [1, 0]


def test_the_vocabulary_is_written_as_names_are_compared():
    for role, names in roles.NAMES.items():
        assert [roles.plain(name) for name in names] == list(names), role
    assert roles.role_of("Customer-ID") == "id"
    assert roles.role_of("cat") is None
    assert roles.find(["Y_True", "other"], "label") == "Y_True"
