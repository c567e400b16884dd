"""Rows without a label: left out and said, kept where all rows are wanted, refused where most have none."""

import gzip
import json
import warnings

import numpy as np
import pytest
import safetensors.numpy
import torch

from command_line import run
from softkin import SoftkinError, predictions
from softkin.evaluation import monitoring

HEAD = ["id", "cat", "dog", "owl", "label"]


def rows(missing=(), word="", n=40):
    """A table of three classes whose labels are missing in some rows."""
    names = ["cat", "dog", "owl"]
    table = []
    for k in range(n):
        scores = [0.7 if j == k % 3 else 0.15 for j in range(3)]
        table.append([k, *scores, word if k in missing else names[(k + (k % 5 == 0)) % 3]])
    return table


def text(table, head=HEAD, separator=","):
    return "".join(separator.join(map(str, row)) + "\n" for row in [head, *table])


def read(path, **options):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = predictions.load(path, **options)
    return found, [str(one.message) for one in said if " rows ha" in str(one.message)]


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "jsonl", "parquet", "tsv"])
@pytest.mark.parametrize("missing", [{7}, {0, 7, 39}])
def test_rows_without_a_label_are_left_out_and_said(tmp_path, kind, missing):
    path, table = tmp_path / f"a.{kind}", rows(missing)
    if kind == "jsonl":
        objects = [dict(zip(HEAD, row, strict=True)) | ({"label": None} if not row[-1] else {}) for row in table]
        path.write_text("".join(json.dumps(one) + "\n" for one in objects))
    elif kind == "parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        columns = dict(zip(HEAD, zip(*table, strict=True), strict=True))
        columns["label"] = [label or None for label in columns["label"]]
        pq.write_table(pa.table(columns), path)
    else:
        content = text(table, separator="\t" if kind == "tsv" else ",").encode()
        path.write_bytes(gzip.compress(content) if kind.endswith("gz") else content)
    found, said = read(path)
    expected = [row for k, row in enumerate(table) if k not in missing]
    assert found.labels.tolist() == [["cat", "dog", "owl"].index(row[-1]) for row in expected]
    assert [int(known_as) for known_as in found.sample_ids] == [row[0] for row in expected]
    first = "row 0 (counted from 0)" if kind == "parquet" else f"line {min(missing) + (1 if kind == 'jsonl' else 2)}"
    first = first.replace("row 0", f"row {min(missing)}")
    words = "has no label in `label` and is left out: " if len(missing) == 1 else "are left out, the first is "
    assert [sentence for sentence in said if f"{words}{first}." in sentence and f"{len(missing)} of 40" in sentence]


@pytest.mark.parametrize("word", ["NA", "null", "nan", "None"])
def test_words_for_nothing_are_no_label_unless_a_class_is_called_so(tmp_path, word):
    (tmp_path / "a.csv").write_text(text(rows({4}, word)))
    assert len(read(tmp_path / "a.csv")[0]) == 39
    (tmp_path / "b.csv").write_text(
        text(rows({4}, word), head=["id", "cat", "dog", word, "label"]).replace("owl", word)
    )
    if word != "nan":
        assert len(read(tmp_path / "b.csv")[0]) == 40


def test_a_binary_score_may_have_a_class_called_none(tmp_path):
    lines = [f"{'fraud' if k % 3 else 'None'},{0.9 if k % 3 else 0.2}" for k in range(30)]
    (tmp_path / "a.csv").write_text("label,score\n" + "\n".join(lines) + "\n")
    found, _ = read(tmp_path / "a.csv", positive_class="fraud")
    assert len(found) == 30
    assert found.class_names == ["None", "fraud"]


@pytest.mark.parametrize(("head", "right"), [("y_true,y_prob", "1,0.8"), ("correct,confidence", "1,0.8")])
def test_binary_scores_and_pairs_without_an_outcome(tmp_path, head, right):
    (tmp_path / "a.csv").write_text(head + "\n" + f"{right}\n0,0.3\n,0.9\n" * 10)
    found, said = read(tmp_path / "a.csv")
    assert len(found) == 20
    what = "label" if head.startswith("y_true") else "outcome"
    assert (
        f"10 of 30 rows have no {what} in `{head.partition(',')[0]}` and are left out, the first is line 4." in said[0]
    )


def test_a_missing_truth_does_not_count_as_a_wrong_answer(tmp_path):
    (tmp_path / "a.csv").write_text("answer,truth,confidence\n" + "A,A,0.9\nB,B,0.8\nC,,0.7\n" * 10)
    found, _ = read(tmp_path / "a.csv")
    assert found.labels.tolist() == [1] * 20


def test_most_rows_without_a_label_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text(text(rows(set(range(21)))))
    with pytest.raises(SoftkinError, match=r"21 of 40 rows have no label in `label`, the first is line 2; are these"):
        read(tmp_path / "a.csv")


def test_errors_still_name_the_line_of_the_file(tmp_path):
    table = rows({0, 1, 5})
    table[9][1] = 0.9
    (tmp_path / "a.csv").write_text(text(table))
    with pytest.raises(SoftkinError, match="line 11"):
        read(tmp_path / "a.csv", kind="probs")


@pytest.mark.filterwarnings("default")
def test_applying_keeps_every_row(tmp_path, capsys):
    (tmp_path / "a.csv").write_text(text(rows({3, 8})))
    cal, out = tmp_path / "cal", tmp_path / "out.tsv"
    assert run(capsys, "calibrate", "fit", tmp_path / "a.csv", "--method", "temperature", "--output", cal)[0] == 0
    code, _, said = run(capsys, "calibrate", "apply", cal, tmp_path / "a.csv", "-o", out)
    assert code == 0
    assert "all rows are kept" in said
    lines = out.read_text().splitlines()
    assert len(lines) == 41
    label = lines[0].split("\t").index("label")
    assert [line.split("\t")[label] for line in lines[3:6]] == ["owl", "", "dog"]
    assert len(read(out)[0]) == 38
    code, _, said = run(capsys, "evaluate", out, "--resamples", "100", "--out", tmp_path / "e.json")
    assert code == 0
    assert (tmp_path / "e.json").exists()


@pytest.mark.filterwarnings("ignore::softkin.predictions.Assumption")
@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_samples_keep_the_rows_of_the_file_that_they_came_from(tmp_path, kind):
    missing, path = {0, 3, 4, 20, 39}, tmp_path / f"a.{kind}"
    table = [row[1:] for row in rows(missing)]
    if kind == "csv":
        table[10][:3] = ["", "", ""]  # no scores, and the header again below
        lines = text(table, head=HEAD[1:]).splitlines(keepends=True)
        path.write_text("".join([*lines[:31], lines[0], *lines[31:]]))
        there = [row + (row >= 30) for row in range(40) if row not in missing | {10}]
    else:
        labels = [-100 if row in missing else row % 3 for row in range(40)]
        np.savez(path, probs=np.array([row[:3] for row in table], float), labels=labels)
        there = [row for row in range(40) if row not in missing]
    found = predictions.load(path)
    assert found.sample_ids is None
    assert found.file_rows.tolist() == found.known_as.tolist() == there
    some = found.take(torch.tensor([1, 5]))
    assert some.file_rows.tolist() == [there[1], there[5]]
    whole = predictions.load(path, keep_unlabelled=True) if kind == "npz" else None
    assert whole is None or whole.known_as is None


@pytest.mark.filterwarnings("ignore::softkin.predictions.Assumption")
def test_samples_of_several_files_are_named_by_file_and_row(tmp_path):
    for name, missing in (("a.csv", {1, 2}), ("b.csv", {0})):
        (tmp_path / name).write_text(text([row[1:] for row in rows(missing)], head=HEAD[1:]))
    found = predictions.load(tmp_path)
    assert found.known_as[:3] == ["a.csv, row 0", "a.csv, row 3", "a.csv, row 4"]
    assert found.known_as[38:40] == ["b.csv, row 1", "b.csv, row 2"]
    assert len(found.known_as) == len(found) == 77
    assert found.sample_ids is None
    assert found.numbered_as is None
    assert found.take(torch.tensor([38, 1])).known_as == ["b.csv, row 1", "a.csv, row 3"]


@pytest.mark.filterwarnings("ignore::softkin.predictions.Assumption")
def test_the_page_names_samples_by_the_rows_of_the_file(tmp_path, capsys):
    missing = {2, 7, 8}
    (tmp_path / "a.csv").write_text(text([row[1:] for row in rows(missing, n=120)], head=HEAD[1:]))
    page = tmp_path / "page.html"
    code, _, errors = run(capsys, "evaluate", tmp_path / "a.csv", "--resamples", "100", "--report", page)
    assert code == 0, errors
    shown, there = json.loads(page.with_suffix(".json").read_text()), sorted(set(range(120)) - missing)
    assert shown["rows"]["ids"] == there
    assert shown["samples"]
    assert all(about["id"] == there[int(place)] for place, about in shown["samples"].items())


def test_the_rows_of_several_files_are_not_taken_for_those_of_one(tmp_path):
    for name, missing in (("a", {1}), ("b", {30})):
        (tmp_path / f"{name}.csv").write_text(text([row[1:] for row in rows(missing)], head=HEAD[1:]))
    found, _ = read(tmp_path / "*.csv")
    assert (len(found), found.numbered_as) == (78, None)


def test_rows_without_any_score_are_left_out_and_one_missing_score_is_refused(tmp_path):
    table = rows()
    table[2][1:4] = table[9][1:4] = ["", "", ""]
    (tmp_path / "a.csv").write_text(text(table))
    found, said = read(tmp_path / "a.csv")
    assert len(found) == 38
    assert "2 of 40 rows have no score in its 3 columns cat, dog, owl and are left out, the first is line 4" in said[0]
    table[20][2] = ""
    (tmp_path / "a.csv").write_text(text(table))
    with pytest.raises(SoftkinError, match="`dog` must hold a number in every row"):
        read(tmp_path / "a.csv")


def test_pairs_without_a_confidence_are_left_out(tmp_path):
    (tmp_path / "a.csv").write_text("correct,confidence\n" + "1,0.8\n0,0.3\n1,\n" * 10)
    found, said = read(tmp_path / "a.csv")
    assert len(found) == 20
    assert "10 of 30 rows have no confidence in `confidence` and are left out, the first is line 4." in said[0]


def test_windows_of_a_log_belong_to_the_rows_that_are_left(tmp_path):
    lines = [f"2026-01-{1 + k // 10:02d},{'' if k % 10 == 3 else k % 2},0.6" for k in range(100)]
    (tmp_path / "a.csv").write_text("date,correct,confidence\n" + "\n".join(lines) + "\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log = monitoring.read_log(tmp_path / "a.csv")
    assert len(log) == len(log.times) == 90
    assert [log.times.count(f"2026-01-{day:02d}") for day in range(1, 11)] == [9] * 10


# Arrays, and labels in a file of their own

NAMES = np.array(["cat", "dog", "owl", "rat"])
GONE = [3, 9]


def arrays(n=60, k=4):
    """Logits, and labels that mostly agree with them."""
    logits = np.random.default_rng(0).normal(size=(n, k)) * 2
    labels = logits.argmax(axis=1)
    labels[::4] = (labels[::4] + 1) % k
    return logits, labels


def without(labels, none):
    """Labels as an array in which some are missing."""
    if none in ("", "None"):
        labels = NAMES[labels].astype("U5")
    elif np.isnan(none):
        labels = labels.astype(float)
    else:
        labels = labels.copy()
    labels[GONE] = none
    return labels


def written(folder, form, logits, labels):
    """The file of some arrays, and options for reading it."""
    if form == "npz":
        np.savez(folder / "a.npz", logits=logits, labels=labels)
    elif form == "pt":
        torch.save({"logits": torch.tensor(logits), "labels": torch.tensor(labels)}, folder / "a.pt")
    elif form == "safetensors":
        safetensors.numpy.save_file({"logits": logits, "labels": labels}, folder / "a.safetensors")
    else:
        np.save(folder / "logits.npy", logits)
        if form == "npy":
            np.save(folder / "labels.npy", labels)
            return folder / "logits.npy", {}
        head = "id,label\n" if form == "labels.csv" else ""
        lines = [f"{row},{label}\n" if head else f"{label}\n" for row, label in enumerate(labels)]
        (folder / form).write_text(head + "".join(lines))
        return folder / "logits.npy", {"labels": folder / form}
    return folder / f"a.{form}", {}


@pytest.mark.parametrize("none", [np.nan, -1, -100, "", "None"])
@pytest.mark.parametrize("form", ["npz", "npy", "pt", "safetensors", "labels.txt", "labels.csv"])
def test_rows_of_arrays_without_a_label_are_left_out_and_said(tmp_path, form, none):
    if isinstance(none, str) and form in ("pt", "safetensors"):
        pytest.skip("tensors hold no texts")
    logits, labels = arrays()
    path, options = written(tmp_path, form, logits, without(labels, none))
    found, said = read(path, **options)
    assert found.labels.tolist() == np.delete(labels, GONE).tolist()
    assert np.allclose(found.logits.numpy(), np.delete(logits, GONE, axis=0))
    shown = {"": "empty", "None": "None"}.get(none) or ("nan" if none != none else f"{none}".replace("-", "−"))
    shown += ", which no class is called" if shown.startswith("−") else ""
    words = f"2 of 60 rows have no label ({shown}) and are left out, the first is row 3 (counted from 0)."
    assert [sentence for sentence in said if sentence.endswith(words)]


def test_what_stands_beside_the_rows_of_arrays_stays_with_them(tmp_path):
    logits, labels = arrays()
    about = {"sample_ids": np.arange(60), "texts": np.array([f"text {row}" for row in range(60)])}
    np.savez(tmp_path / "a.npz", logits=logits, labels=without(labels, -1), part=np.arange(60) % 3, **about)
    found, _ = read(tmp_path / "a.npz", group="part")
    kept = np.delete(np.arange(60), GONE)
    assert [int(known_as) for known_as in found.sample_ids] == kept.tolist()
    assert found.texts == [f"text {row}" for row in kept]
    assert found.groups == [str(row % 3) for row in kept]


def test_errors_name_the_row_of_the_array(tmp_path):
    logits, labels = arrays()
    labels[40] = 7
    logits[20, 1] = np.nan
    np.savez(tmp_path / "a.npz", logits=logits, labels=without(labels, -1))
    with pytest.raises(SoftkinError, match="row 20"):
        read(tmp_path / "a.npz")


@pytest.mark.parametrize(("num_classes", "classes"), [(2, [-1, 1]), (3, [-1, 0, 1]), (3, [-1, 1]), (4, [-1, 0, 1, 2])])
def test_minus_one_that_may_be_a_class_is_refused_with_both_readings(tmp_path, num_classes, classes):
    logits, _ = arrays(k=num_classes)
    np.savez(tmp_path / "a.npz", logits=logits, labels=np.resize([classes[-1], *classes], 60))
    with pytest.raises(SoftkinError, match=r"if −1 is a class, number .* if it means that there is no label"):
        read(tmp_path / "a.npz")


def test_minus_one_of_two_classes(tmp_path):
    score = np.linspace(0.02, 0.98, 60)
    two = (score > 0.4).astype(int)
    np.savez(tmp_path / "a.npz", probs=score, labels=2 * two - 1)
    assert read(tmp_path / "a.npz")[0].labels.tolist() == two.tolist()
    for form in (score, np.stack([1 - score, score], axis=1)):
        np.savez(tmp_path / "a.npz", probs=form, labels=without(two, -1))
        assert read(tmp_path / "a.npz")[0].labels.tolist() == np.delete(two, GONE).tolist()


def test_minus_one_is_not_the_spelling_of_one(tmp_path):
    lines = [f"0.7,0.2,0.1,{label}\n" for label in [-1, 0, 1, 2] * 10]
    (tmp_path / "a.csv").write_text("p_0,p_1,p_2,label\n" + "".join(lines))
    found, said = read(tmp_path / "a.csv")
    assert found.labels.tolist() == [0, 1, 2] * 10
    assert "10 of 40 rows have no label (−1, which no class is called) and are left out, the first is line 2" in said[0]
    lines = [f"0.7,0.2,0.1,{label}\n" for label in [-1, 0, 1] * 10]
    (tmp_path / "b.csv").write_text("p_-1,p_0,p_1,label\n" + "".join(lines))
    found, said = read(tmp_path / "b.csv")
    assert (found.class_names, found.labels.tolist(), said) == (["-1", "0", "1"], [0, 1, 2] * 10, [])


def test_pairs_of_arrays_without_an_outcome(tmp_path):
    score = np.linspace(0.02, 0.98, 60)
    right = without((score > 0.4).astype(int), np.nan)
    np.savez(tmp_path / "a.npz", confidence=score, correct=right)
    found, said = read(tmp_path / "a.npz")
    assert found.labels.tolist() == (np.delete(score, GONE) > 0.4).astype(int).tolist()
    assert "2 of 60 rows have no label (nan)" in said[0]
    np.savez(tmp_path / "a.npz", confidence=score, correct=np.where(score > 0.4, 1, -1))
    with pytest.raises(SoftkinError):
        read(tmp_path / "a.npz")


def test_most_rows_of_arrays_without_a_label_are_refused(tmp_path):
    logits, labels = arrays()
    np.savez(tmp_path / "a.npz", logits=logits, labels=np.where(np.arange(60) < 31, -1, labels))
    with pytest.raises(SoftkinError, match=r"31 of 60 rows have no label \(−1, which no class is called\), the first"):
        read(tmp_path / "a.npz")


def test_an_empty_column_of_labels_gives_way_to_a_file_of_labels(tmp_path):
    table = rows(set(range(40)))
    (tmp_path / "a.csv").write_text(text(table))
    (tmp_path / "labels.txt").write_text("\n\n".join(row[-1] for row in rows()))  # a line between the labels
    found, _ = read(tmp_path / "a.csv", labels=tmp_path / "labels.txt")
    assert found.labels.tolist() == [["cat", "dog", "owl"].index(row[-1]) for row in rows()]


@pytest.mark.filterwarnings("default")
def test_applying_keeps_every_row_of_arrays(tmp_path, capsys):
    logits, labels = arrays()
    np.savez(tmp_path / "a.npz", logits=logits, labels=without(labels, -1))
    cal, out = tmp_path / "cal", tmp_path / "out.npz"
    assert run(capsys, "calibrate", "fit", tmp_path / "a.npz", "--method", "temperature", "--output", cal)[0] == 0
    code, _, said = run(capsys, "calibrate", "apply", cal, tmp_path / "a.npz", "-o", out)
    assert code == 0
    assert "all rows are kept" in said
    assert len(np.load(out)["probs"]) == 60
