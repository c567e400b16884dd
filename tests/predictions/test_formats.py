"""Every form in which people keep predictions gives the same Predictions; what is unclear is refused."""

import io
import json
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.numpy import save_file

from softkin import SoftkinError
from softkin.predictions import Assumption, Predictions, blocks
from softkin.predictions import reading as prediction_files

NAMES = ["cat", "dog", "<b>owl</b>"]
LOGITS = torch.randn(7, 3, generator=torch.Generator().manual_seed(1)).numpy()
PROBS = torch.softmax(torch.from_numpy(LOGITS).double(), 1).numpy()
LABELS = np.array([0, 2, 1, 1, 0, 2, 2])
IDS = [f"s{i}" for i in range(7)]


def table(folder, suffix, scores, header, *, labels=LABELS, ids=None):
    """A table with a column for each class."""
    path = folder / f"t{suffix}"
    if suffix == ".parquet":
        columns = {name: scores[:, k] for k, name in enumerate(header)} | {"labels": labels}
        pq.write_table(pa.table(columns | ({"id": ids} if ids else {})), path, row_group_size=3)
        return path
    separator = "\t" if suffix == ".tsv" else ","
    lines = [separator.join([*(["id"] if ids else []), *(f'"{name}"' for name in header), "labels"])]
    for i, row in enumerate(scores):
        lines.append(
            separator.join([*([ids[i]] if ids else []), *(repr(float(score)) for score in row), str(labels[i])])
        )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8-sig")
    return path


def written(folder, form, kind):
    """The samples in a file of this form."""
    scores = LOGITS if kind == "logits" else PROBS
    path = folder / f"p.{form.split('-')[0]}"
    if form.startswith("npz"):
        save = np.savez_compressed if form == "npz-small" else np.savez
        order = "F" if form == "npz-columns" else "C"
        save(
            path,
            **{kind: np.asarray(scores, order=order)},
            labels=LABELS.astype(np.uint8),
            class_names=NAMES,
            sample_ids=IDS,
        )
    elif form == "safetensors":
        known = (
            Predictions.from_probabilities(scores, LABELS)
            if kind == "probs"
            else Predictions(torch.from_numpy(scores), torch.from_numpy(LABELS))
        )
        Predictions(known.logits, known.labels, NAMES, IDS, exact_probabilities=known.exact_probabilities).save(path)
    elif form == "npy":
        path = folder / f"test_{kind}.npy"
        np.save(path, scores)
        np.save(folder / "test_labels.npy", LABELS)
    elif form == "parquet":
        cells = {kind: list(scores), "labels": LABELS, "sample_ids": IDS}
        features = {"info": {"features": {"labels": {"names": NAMES}}}}
        pq.write_table(
            pa.table(cells).replace_schema_metadata({"huggingface": json.dumps(features)}), path, row_group_size=2
        )
    elif form in ("parquet-wide", "csv", "tsv"):
        path = table(folder, f".{form.split('-')[0]}", scores, [f"{kind}_{name}" for name in NAMES], ids=IDS)
    elif form == "csv-names":
        path = table(
            folder, ".csv", scores, [f"{kind}_{name}" for name in NAMES], labels=[NAMES[k] for k in LABELS], ids=IDS
        )
    elif form == "jsonl":
        lines = [
            {kind: dict(zip(NAMES, map(float, row), strict=True)), "label": int(k), "id": i}
            for row, k, i in zip(scores, LABELS, IDS, strict=True)
        ]
        path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    return path


FORMS = [
    "npz",
    "npz-small",
    "npz-columns",
    "safetensors",
    "npy",
    "parquet",
    "parquet-wide",
    "csv",
    "csv-names",
    "tsv",
    "jsonl",
]


@pytest.mark.parametrize("kind", ["logits", "probs"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rows", [2, 1000])
def test_every_form_gives_the_same(tmp_path, form, kind, rows, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", rows * 3)
    path = written(tmp_path, form, kind)
    source = prediction_files.open_file(path)
    loaded = source.read()
    assert source.kind == kind
    assert source.num_rows in (None, 7)
    assert max(len(block.values) for block in source.blocks()) <= rows
    if kind == "probs":
        np.testing.assert_array_equal(loaded.probabilities.numpy(), PROBS)
    else:
        np.testing.assert_array_equal(loaded.logits.numpy(), LOGITS)
    assert loaded.known_labels.tolist() == LABELS.tolist()
    if form != "npy":
        assert loaded.class_names == NAMES
        assert loaded.sample_ids == IDS


@pytest.mark.parametrize("form", [item for item in FORMS if item != "npy"])
def test_from_standard_input(tmp_path, form, monkeypatch):
    content = io.BytesIO(written(tmp_path, form, "probs").read_bytes())
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=content))
    loaded = prediction_files.read("-")
    assert loaded.name == "standard input"
    assert loaded.known_labels.tolist() == LABELS.tolist()
    np.testing.assert_array_equal(loaded.probabilities.numpy(), PROBS)
    with pytest.raises(SoftkinError, match="standard input must hold predictions, it is empty"):
        prediction_files.read("-")


def test_what_is_unclear_is_inferred_where_the_numbers_show_it_and_else_refused(tmp_path):
    np.savez(tmp_path / "hf.npz", predictions=LOGITS, label_ids=LABELS)
    np.save(tmp_path / "predictions.npy", LOGITS)
    np.save(tmp_path / "label_ids.npy", LABELS)
    plain = table(tmp_path, ".csv", PROBS, NAMES)
    (tmp_path / "u.jsonl").write_text('{"scores": [0.5, 0.5], "label": 0}\n')
    for path, words in (
        (tmp_path / "hf.npz", "its numbers are read as logits, since some are negative"),
        (tmp_path / "predictions.npy", "its numbers are read as logits, since some are negative"),
        (plain, "its 3 columns cat, dog, <b>owl</b> are read as probabilities, since rows sum to 1"),
        (tmp_path / "u.jsonl", "its numbers are read as probabilities, since rows sum to 1"),
    ):
        with pytest.warns(Assumption, match=words):
            assert prediction_files.read(path).are_probabilities == ("probabilities" in words)
    np.savez(tmp_path / "sigmoid.npz", predictions=np.array([[0.2, 0.3], [0.9, 0.8]]), label_ids=[0, 1])
    with pytest.raises(
        SoftkinError, match=r"does not say whether .* are logits or probabilities.*type --logits .* or --probs"
    ):
        prediction_files.read(tmp_path / "sigmoid.npz")
    # Stated, they are read; also what looks like probabilities is taken for logits if that is said.
    for path in (tmp_path / "hf.npz", tmp_path / "predictions.npy"):
        np.testing.assert_array_equal(prediction_files.read(path, kind="logits").logits.numpy(), LOGITS)
    np.testing.assert_array_equal(prediction_files.read(plain, kind="probs").probabilities.numpy(), PROBS)
    np.testing.assert_allclose(prediction_files.read(plain, kind="logits").logits.numpy(), PROBS)
    np.savez(tmp_path / "both.npz", logits=LOGITS, probs=PROBS, labels=LABELS)
    with pytest.raises(SoftkinError, match="holds `logits` and `probs`; type --logits or --probs"):
        prediction_files.read(tmp_path / "both.npz")
    assert prediction_files.read(tmp_path / "both.npz", kind="probs").exact_probabilities is not None
    np.savez(tmp_path / "one.npz", probs=PROBS, labels=LABELS)
    with pytest.raises(SoftkinError, match=r"said to hold logits \(--logits\), but the name of its `probs` says probs"):
        prediction_files.read(tmp_path / "one.npz", kind="logits")


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".jsonl"])
def test_labels_that_are_numbers_mean_the_columns_of_that_name(tmp_path, suffix):
    order = [2, 0, 1]  # as columns come out of a pivot or a sort of texts
    named = [str(k + 8) for k in order]  # 10, 8, 9
    path = tmp_path / f"t{suffix}"
    for shift in (8, 0):
        if suffix == ".jsonl":
            rows = zip(LOGITS[:, order], LABELS + shift, strict=True)
            objects = [{"logits": dict(zip(named, map(float, row), strict=True)), "label": int(k)} for row, k in rows]
            path.write_text("\n".join(map(json.dumps, objects)))
        else:
            table(tmp_path, suffix, LOGITS[:, order], [f"logits_{k}" for k in named], labels=LABELS + shift)
        if shift:
            loaded = prediction_files.read(path)
            assert [loaded.class_names[k] for k in loaded.known_labels] == [str(k + 8) for k in LABELS]
        else:  # places among names that are other numbers
            with pytest.raises(
                SoftkinError, match=r"(row 0 .*|line [12]): the label must be one of the classes 10, 8, 9 …, got '0'"
            ):
                prediction_files.read(path)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("stray", ["pred", "target", "index", "Confidence"])
def test_a_column_that_is_no_class_is_not_taken_for_one(tmp_path, suffix, stray):
    scores = np.column_stack([LOGITS, LABELS])
    path = table(tmp_path, suffix, scores, [*NAMES, stray])
    if stray == "index":  # pandas writes it, and nobody means it
        assert prediction_files.read(path, kind="logits").class_names == NAMES
    else:
        with pytest.warns(Assumption, match=f"3 columns are read as classes, .*; left out: {stray} "):
            assert prediction_files.read(path, kind="logits").class_names == NAMES
    prefixed = table(tmp_path, suffix, scores, [*(f"logits_{name}" for name in NAMES), stray])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert prediction_files.read(prefixed).class_names == NAMES
    assert [f"left out: {stray} " in str(warning.message) for warning in said] == ([] if stray == "index" else [True])


def test_trainer_output():
    output = SimpleNamespace(predictions=(LOGITS, np.zeros((7, 9))), label_ids=LABELS, metrics={})
    actual = prediction_files.from_trainer(output, kind="logits", class_names=NAMES)
    np.testing.assert_array_equal(actual.logits.numpy(), LOGITS)
    assert (
        prediction_files.from_trainer(
            SimpleNamespace(predictions=PROBS, label_ids=LABELS), kind="probs"
        ).exact_probabilities
        is not None
    )
    with pytest.raises(ValueError, match="`kind` must be 'logits' or 'probs', got 'scores'"):
        prediction_files.from_trainer(output, kind="scores")


def test_labels_from_another_file(tmp_path):
    np.savez(tmp_path / "l.npz", logits=LOGITS)
    np.save(tmp_path / "y.npy", LABELS)
    np.savez(tmp_path / "y.npz", label_ids=LABELS)
    (tmp_path / "y.txt").write_text("\n".join(map(str, LABELS)))
    for name in ("y.npy", "y.npz", "y.txt"):
        assert (
            prediction_files.read(tmp_path / "l.npz", labels=tmp_path / name).known_labels.tolist() == LABELS.tolist()
        )
    np.savez(tmp_path / "both.npz", logits=LOGITS, labels=LABELS)
    np.save(tmp_path / "y.npy", (LABELS + 1) % 3)
    with pytest.warns(UserWarning, match="both.npz holds labels of its own; the given ones are taken instead"):
        loaded = prediction_files.read(tmp_path / "both.npz", labels=tmp_path / "y.npy")
    assert loaded.known_labels.tolist() == ((LABELS + 1) % 3).tolist()
    np.save(tmp_path / "y.npy", LABELS[:-1])
    with pytest.raises(SoftkinError, match="has 7 rows, and there are 6 labels"):
        prediction_files.read(tmp_path / "l.npz", labels=tmp_path / "y.npy")
    np.save(tmp_path / "logits.npy", LOGITS)
    (tmp_path / "y.npy").unlink()
    with pytest.raises(
        SoftkinError, match="needs its labels, and beside it there is none of labels.npy, label_ids.npy.*--labels"
    ):
        prediction_files.read(tmp_path / "logits.npy")
    lines = table(tmp_path, ".csv", LOGITS, [f"logits_{name}" for name in NAMES]).read_text("utf-8-sig").splitlines()
    (tmp_path / "n.csv").write_text("\n".join(line.rpartition(",")[0] for line in lines))
    assert prediction_files.read(tmp_path / "n.csv", labels=tmp_path / "y.txt").known_labels.tolist() == LABELS.tolist()
    assert prediction_files.read(tmp_path / "n.csv").labels is None


class Evil:
    def __reduce__(self):
        return (print, ("unpickled",))


def test_damaged_and_hostile_files(tmp_path, capsys):
    np.save(tmp_path / "logits.npy", np.array([[Evil()]], dtype=object), allow_pickle=True)
    with pytest.raises(SoftkinError, match="holds Python objects, which are never unpickled"):
        prediction_files.read(tmp_path / "logits.npy")
    np.savez(tmp_path / "o.npz", logits=np.array([[Evil(), 1]], dtype=object), labels=[0])
    with pytest.raises(SoftkinError, match="never unpickled"):
        prediction_files.read(tmp_path / "o.npz")
    assert "unpickled" not in capsys.readouterr().out
    for form, mark in (
        ("npz", "another format, or it was cut off"),
        ("safetensors", "damaged"),
        ("parquet", "could not be read as parquet"),
    ):
        path = written(tmp_path, form, "logits")
        path.write_bytes(path.read_bytes()[:-40])
        with pytest.raises(SoftkinError, match=mark):
            prediction_files.read(path)
    path = written(tmp_path, "npy", "logits")
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(SoftkinError, match="was cut off: 76 of 84 bytes are there"):
        prediction_files.read(path)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, logits=np.random.default_rng(0).normal(size=(500, 3)), labels=np.zeros(500, int))
    content = bytearray(buffer.getvalue())
    content[3000:3040] = b"\xff" * 40
    (tmp_path / "z.npz").write_bytes(content)
    with pytest.raises(
        SoftkinError, match="`logits` could not be read as a numpy array, or it is damaged: (Error -3|Bad CRC)"
    ):
        prediction_files.read(tmp_path / "z.npz")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", "1,2,3\n4,5,6\n", "does not say whether its numbers are logits or probabilities"),
        ("a.csv", "probs_a,probs_a,labels\n1,0,0\n", "must name each column once, but `probs_a` appears twice"),
        ("a.csv", "probs_a,probs_b,labels\n1,0,0\n1,x,0\n", "a.csv, line 3: `probs_b` must hold numbers, got 'x'"),
        ("a.csv", "probs_a,probs_b,labels\n1,0,0\n1,,0\n", "`probs_b` must hold a number in every row, but 1 of 2 are empty; leave this row out"),
        ("a.csv", "probs_a,probs_b,labels\n1,0,0\n1,0,\n1,0,\n", "2 of 3 rows have no label in `labels`, the first is line 3; are these the labels"),
        ("a.csv", "probs_a,probs_b,labels\n1,0,0\n1,0\n", "a.csv, line 3 has 2 cells, the first '1', and its header has 3"),
        ("a.csv", "probs_a,probs_b,labels\n1,0,0\n0,1,c\n", "line 3: the label must be a number or one of the classes a, b …, got 'c'"),
        ("a.csv", "probs_a,probs_b,labels\n1,0,0\n0,1,2\n", "must be below the number of classes, 2, got 2; do the labels start at 1"),
        ("a.csv", "probs_a,probs_b,labels\n1,0,0\n3,-1,0\n", "must not be negative, got -1 at line 3, column 1; if these are logits"),
        ("a.csv", "probs_a,logits_a,probs_b,logits_b,labels\n0.2,9,0.8,1,0\n", "holds columns of logits and of probs; type --logits or --probs"),
        ("a.csv", "score,labels\n1,a\n", "say with --positive-class which class"),
        ("a.csv", "", "must hold a table, it is empty"),
        ("a.csv", "probs_a,probs_b,labels\n", "must hold at least one row"),
        ("a.jsonl", '{"probs": [1, 0], "label": 0}\n{"probs": [1], "label": 0}\n', "line 2: `probs` must have the 2 classes of the first line"),
        ("a.jsonl", '{"probs": [1, 0], "label": 0}\n{"probs": [1, 0]}\n{"probs": [1, 0]}\n', "2 of 3 rows have no label in `label`, the first is line 2"),
        ("a.jsonl", '{"probs": [1, 0], "label": 0}\nx\n', "line 2 could not be read as JSON"),
        ("a.jsonl", "[1]\n", "line 1 must be a JSON object, got list"),
        ("a.jsonl", '{"probs": [1, "x"], "label": 0}\n', "`probs` must hold numbers only"),
        ("a.jsonl", '{"answer": 1}\n', "must have a column for each class, or one of lists named `logits` or `probs`; it has answer"),
        ("a.bin", "what is this", "has no known format; those are npz, eval, npy, safetensors, pt, parquet, csv, tsv, jsonl"),
    ],
)  # fmt: skip
def test_errors_say_what_is_wrong(tmp_path, name, content, words):
    (tmp_path / name).write_text(content)
    with pytest.raises(SoftkinError, match=words):
        prediction_files.read(tmp_path / name)


def test_shapes_that_do_not_fit(tmp_path):
    for arrays, words in (
        (
            {"logits": LOGITS, "labels": LABELS[:3]},
            r"`labels` must have shape \(7,\), one for each row of `logits`, got \(3,\)",
        ),
        ({"logits": LOGITS[0], "labels": LABELS}, r"`labels` must have shape \(3,\).*got \(7,\)"),
        ({"logits": LOGITS[None], "labels": LABELS}, r"`logits` must have shape \(N, K\).*got \(1, 7, 3\)"),
        ({"logits": LOGITS[:0], "labels": LABELS[:0]}, "must hold at least one row"),
        ({"logits": LOGITS, "labels": LABELS + 0.5}, "labels must be class numbers or class names"),
        ({"logits": LOGITS, "labels": LABELS - 50}, "must be at least 0, got -50"),
        ({"labels": LABELS}, "must hold `logits` or `probs`, it holds labels"),
    ):
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(SoftkinError, match=words):
            prediction_files.read(tmp_path / "a.npz")
        if all(value.ndim for value in arrays.values()):
            save_file({key: np.ascontiguousarray(value) for key, value in arrays.items()}, tmp_path / "a.safetensors")
            with pytest.raises(SoftkinError):
                prediction_files.read(tmp_path / "a.safetensors")
    with pytest.raises(SoftkinError, match="there is no such file"):
        prediction_files.read(tmp_path / "absent.npz")


def test_real_files(shared_data, network_logits):
    loaded = prediction_files.read(shared_data / "logits" / "resnet32-cifar100-logits.npz")
    logits, labels = network_logits["resnet32-cifar100"]
    assert torch.equal(loaded.logits, logits)
    assert torch.equal(loaded.known_labels, labels)
    assert prediction_files.open_file(shared_data / "logits" / "densenet-bc-100-cifar100-probs.npz").kind == "probs"


def test_long_reading_shows_a_bar(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 6)
    monkeypatch.setattr("softkin._core.progress.PATIENCE", -1.0)
    path = written(tmp_path, "npz", "logits")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert len(list(prediction_files.open_file(path).blocks(progress=True))) == 4
    assert "reading" in capsys.readouterr().err
    list(prediction_files.open_file(path).blocks())
    assert capsys.readouterr().err == ""


def test_a_format_is_one_declaration(tmp_path, monkeypatch):
    """What a new format costs: its reader, and a line in the registry."""
    from softkin.cli import parser
    from softkin.predictions import arrays
    from softkin.predictions.formats import FORMATS, Format

    def open_toy(file, name, reading):
        values = torch.tensor([[float(cell) for cell in line.split()] for line in file.read().decode().splitlines()])
        return blocks.PredictionFile(name, "probs", 2, len(values), lambda rows: iter([blocks.Block(values)]))

    monkeypatch.setattr(arrays, "open_toy", open_toy, raising=False)
    FORMATS.add("toy", Format((".toy",), "arrays:open_toy", b"0."))
    try:
        (tmp_path / "a.toy").write_text("0.5 0.5\n0.25 0.75\n")
        (tmp_path / "b.data").write_text("0.5 0.5\n0.25 0.75\n")
        for path in (tmp_path / "a.toy", tmp_path / "b.data"):
            assert prediction_files.read(path).probabilities.tolist() == [[0.5, 0.5], [0.25, 0.75]]
        assert parser().parse_args(["evaluate", "x", "--format", "toy"]).format == "toy"
    finally:
        FORMATS.remove("toy")
    with pytest.raises(ValueError, match="`format` must be one of npz, .*, got 'parket'; did you mean 'parquet'?"):
        prediction_files.open_file(tmp_path / "a.toy", form="parket")


def test_a_class_name_with_a_line_break_survives_a_csv(tmp_path):
    names = ["cat", "a\nb", "car"]
    written = Predictions(torch.eye(3), torch.arange(3), class_names=names)
    written.save(tmp_path / "p.csv")
    assert prediction_files.read(tmp_path / "p.csv").class_names == names
