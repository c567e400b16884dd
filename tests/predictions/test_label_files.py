"""Labels in a file of their own: rows are matched by their ids, classes by their names."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from softkin import SoftkinError
from softkin.predictions import label_files, reading

RNG = np.random.default_rng(0)
K, N = 4, 60
NAMES = ["ant", "bee", "cat", "dog"]
IDS = [f"s{row}" for row in range(N)]
PROBS = RNG.dirichlet(np.full(K, 0.5), N)
LABELS = np.array([RNG.choice(K, p=row) for row in PROBS])
VOTES = np.array([RNG.multinomial(5, row) for row in PROBS])
TURNED = [2, 0, 3, 1]
BACK = np.argsort(TURNED)
SHUFFLED = RNG.permutation(N)


def predictions(folder, suffix, *, ids=True):
    """A file of predictions without labels."""
    path = folder / f"p{suffix}"
    if suffix == ".npz":
        np.savez(path, probs=PROBS, class_names=NAMES, **({"sample_ids": IDS} if ids else {}))
    else:
        frame = pd.DataFrame(PROBS, columns=NAMES)
        if ids:
            frame.insert(0, "id", IDS)
        frame.to_csv(path, index=False)
    return path


def read(path, labels, **options):
    """The predictions with these labels, and what was said about the files."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        return reading.read(path, labels=labels, **options), " ".join(str(one.message) for one in said)


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
@pytest.mark.parametrize("form", [".npz", ".csv", ".pt"])
def test_rows_are_matched_by_their_ids(tmp_path, suffix, form):
    path, beside = predictions(tmp_path, suffix), tmp_path / f"y{form}"
    ids = [IDS[row] for row in SHUFFLED]
    if form == ".npz":
        np.savez(beside, labels=LABELS[SHUFFLED], sample_ids=ids)
    elif form == ".pt":
        torch.save({"labels": torch.tensor(LABELS[SHUFFLED]), "sample_ids": ids}, beside)
    else:
        pd.DataFrame({"id": ids, "label": [NAMES[k] for k in LABELS[SHUFFLED]]}).to_csv(beside, index=False)
    found, said = read(path, beside)
    assert found.known_labels.tolist() == LABELS.tolist()
    assert f"{beside}: its rows are matched with those of {path} by their ids." in said


def test_more_labels_than_rows_are_well_where_ids_tell_which(tmp_path):
    path, beside = predictions(tmp_path, ".csv"), tmp_path / "y.csv"
    labels = [NAMES[k] for k in LABELS[::-1]]
    pd.DataFrame({"id": ["other", *IDS[::-1]], "label": ["ant", *labels]}).to_csv(beside, index=False)
    assert read(path, beside)[0].known_labels.tolist() == LABELS.tolist()


def test_whole_numbers_are_the_same_ids_in_any_spelling(tmp_path):
    path, beside = tmp_path / "p.csv", tmp_path / "y.csv"
    pd.DataFrame(PROBS, columns=NAMES, index=pd.Index(np.arange(N) * 1.0, name="id")).to_csv(path)  # 0.0, 1.0 …
    pd.DataFrame({"id": SHUFFLED, "label": LABELS[SHUFFLED]}).to_csv(beside, index=False)
    assert read(path, beside)[0].known_labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (IDS[:-1] + ["s99"], r"y.csv has no row with the id 's59' of .*p.csv .line 61"),
        (IDS[:1] + IDS[:-1], "y.csv must have each id once, but 's0' stands in 2 rows"),
    ],
)
def test_ids_that_do_not_tell_are_refused(tmp_path, ids, words):
    path, beside = predictions(tmp_path, ".csv"), tmp_path / "y.csv"
    pd.DataFrame({"id": ids, "label": LABELS}).to_csv(beside, index=False)
    with pytest.raises(SoftkinError, match=words):
        read(path, beside)


def test_without_ids_in_both_files_rows_keep_their_places(tmp_path):
    path, beside = predictions(tmp_path, ".csv", ids=False), tmp_path / "y.csv"
    pd.DataFrame({"id": IDS, "label": LABELS}).to_csv(beside, index=False)
    found, said = read(path, beside)
    assert found.known_labels.tolist() == LABELS.tolist()
    assert "by their ids" not in said
    both, twice = predictions(tmp_path, ".npz"), tmp_path / "twice.csv"
    np.savez(both, probs=PROBS, class_names=NAMES, sample_ids=["same"] * N)
    pd.DataFrame({"id": ["same"] * N, "label": LABELS}).to_csv(twice, index=False)  # of the same places
    assert read(both, twice)[0].known_labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
def test_classes_are_matched_by_their_names(tmp_path, suffix):
    path, turned = predictions(tmp_path, suffix), [NAMES[k] for k in TURNED]
    np.savez(tmp_path / "y.npz", labels=BACK[LABELS], class_names=turned)
    np.savez(tmp_path / "v.npz", votes=VOTES[:, TURNED], class_names=turned)
    torch.save({"labels": torch.tensor(BACK[LABELS]), "class_names": turned}, tmp_path / "y.pt")
    for name in ("y.npz", "y.pt"):
        found, said = read(path, tmp_path / name)
        assert found.known_labels.tolist() == LABELS.tolist()
        assert re.search(rf"{name} has the classes of .* in another order; they are matched by name", said)
    np.testing.assert_allclose(read(path, tmp_path / "v.npz")[0].votes, VOTES / 5)
    np.savez(tmp_path / "other.npz", labels=LABELS, class_names=["ant", "bee", "cat", "eel"])
    with pytest.raises(SoftkinError, match="other.npz must have the classes of .*, in any order, but it lacks 'dog'"):
        read(path, tmp_path / "other.npz")
    np.savez(tmp_path / "far.npz", labels=LABELS + 1, class_names=turned)
    with pytest.raises(SoftkinError, match="far.npz: labels must be from 0 to 3, the places of its class names, got 4"):
        read(path, tmp_path / "far.npz")


def test_rows_are_matched_by_ids_of_customers(tmp_path):
    path, beside = tmp_path / "p.csv", tmp_path / "y.csv"
    pd.DataFrame({"customer_id": IDS, "age": range(N)} | dict(zip(NAMES, PROBS.T, strict=True))).to_csv(
        path, index=False
    )
    labels = pd.DataFrame({"customer_id": IDS, "label": [NAMES[k] for k in LABELS]}).iloc[SHUFFLED]
    labels.to_csv(beside, index=False)
    found, said = read(path, beside)
    assert found.known_labels.tolist() == LABELS.tolist()
    assert "`customer_id` is taken for the ids of the rows" in said
    assert f"its rows are matched with those of {path} by their ids" in said
    labels.assign(customer_id=[f"other {k}" for k in range(N)]).to_csv(beside, index=False)
    with pytest.raises(SoftkinError, match="y.csv has no row with the id 's0' of .*p.csv .line 2"):
        read(path, beside)


def test_labels_are_found_among_the_columns_of_the_predictions_themselves(tmp_path):
    """Where no column is called labels, the one that holds the truth is, as in a file that is measured with them."""
    path, whole = tmp_path / "p.csv", tmp_path / "whole.csv"
    frame = pd.DataFrame({"Mail no.": range(900, 900 + N)} | dict(zip(NAMES, PROBS.T, strict=True)))
    frame.to_csv(path, index=False)
    called = {"Suggested": [NAMES[k] for k in PROBS.argmax(1)], "Filed under": [NAMES[k] for k in LABELS]}
    frame.assign(**called).iloc[SHUFFLED].to_csv(whole, index=False)
    found, said = read(path, whole)
    assert found.known_labels.tolist() == LABELS.tolist()
    assert "`Filed under` is read as the labels, since it holds names of columns" in said
    assert "`Mail no.` is taken for the ids of the rows" in said


def test_a_repeated_id_is_found_in_one_pass():
    class Text(str):
        compared = 0

        def __eq__(self, other):
            Text.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    there = label_files.RowsById([*map(str, range(3000)), "2999"], "y.csv")
    there.ids = [Text(known_as) for known_as in there.ids]
    with pytest.raises(SoftkinError, match="'2999' stands in 2 rows"):
        there.of(["5"], str)
    assert Text.compared < 3 * 3000


FILES = {"filename": ["a.png", "b.png", "c.png", "d.png"], "cat": [0.9, 0.2, 0.8, 0.3], "dog": [0.1, 0.8, 0.2, 0.7]}
TRUTH = ["cat", "dog", "cat", "dog"]
OTHER = [2, 1, 3, 0]


def two_files(folder, own, given, order=OTHER):
    """Four predictions, and their labels in another order."""
    pd.DataFrame(own).to_csv(folder / "p.csv", index=False)
    pd.DataFrame(given).iloc[order].to_csv(folder / "l.csv", index=False)
    return folder / "p.csv", folder / "l.csv"


@pytest.mark.parametrize(
    ("own", "given", "by"),
    [
        ("filename", "filename", "filename"),
        ("Name", "Name", "Name"),
        ("Image file", "image_file", "image_file"),
        ("filename", "picture", "picture"),
        ("", "", "Unnamed: 0"),
    ],
)
def test_rows_are_matched_by_a_column_of_both_that_tells_them_apart(tmp_path, own, given, by):
    columns = {own if name == "filename" else name: cells for name, cells in FILES.items()}
    path, beside = two_files(tmp_path, columns, {given: FILES["filename"], "label": TRUTH})
    found, said = read(path, beside)
    assert [found.class_names[k] for k in found.known_labels] == TRUTH
    assert found.sample_ids == FILES["filename"]
    assert f"l.csv: its rows are matched with those of {path} by `{'' if not given else by}`" in said


def test_ids_that_only_count_rows_give_way_to_a_column_that_tells_them_apart(tmp_path):
    path, beside = two_files(tmp_path, {"id": range(4)} | FILES, {"filename": FILES["filename"], "label": TRUTH})
    pd.read_csv(beside).assign(id=range(4)).to_csv(beside, index=False)
    found, said = read(path, beside)
    assert [found.class_names[k] for k in found.known_labels] == TRUTH
    assert "by `filename`" in said


def test_rows_that_are_taken_by_position_are_told_so(tmp_path):
    scores = {name: FILES[name] for name in ("cat", "dog")}
    path, beside = two_files(tmp_path, scores, {"filename": FILES["filename"], "label": TRUTH}, [0, 1, 2, 3])
    found, said = read(path, beside)
    assert [found.class_names[k] for k in found.known_labels] == TRUTH
    assert f"l.csv: its rows are matched with those of {path} by position, as no column of both" in said
    path, beside = two_files(tmp_path, FILES, {"filename": FILES["filename"], "label": TRUTH})
    found, said = read(path, beside, ignore_columns=["filename"])
    assert [found.class_names[k] for k in found.known_labels] == [TRUTH[row] for row in OTHER]
    assert "by position" in said


@pytest.mark.parametrize(
    ("more", "changed", "words"),
    [
        ({"city": ["Rom", "Rom", "Ulm", "Ulm"]}, {}, "another order than those of .*, as `city` shows"),
        ({"filename": FILES["filename"]}, {"filename": ["a.png", "b.png", "c.png", "x.png"]},
         "no row with the id 'd.png'"),
        ({"filename": FILES["filename"], "city": ["Rom", "Rom", "Ulm", "Ulm"]}, {"city": ["Ulm", "Ulm", "Rom", "Rom"]},
         "rows with the `filename` of .* differ from them in `city`"),
        ({"Unnamed: 0": [0, 1, 2, 3]}, {}, "its index has the row numbers of .* in another order"),
    ],
)  # fmt: skip
def test_rows_that_columns_of_both_show_to_be_others_are_refused(tmp_path, more, changed, words):
    scores = {name: FILES[name] for name in ("cat", "dog")}
    path, beside = two_files(tmp_path, more | scores, more | changed | {"label": TRUTH})
    with pytest.raises(SoftkinError, match=words):
        read(path, beside)


def test_labels_beside_the_column_that_matches_rows_need_no_usual_name(tmp_path):
    columns = {"datei": FILES["filename"], "cat": FILES["cat"], "dog": FILES["dog"]}
    path, beside = two_files(tmp_path, columns, {"datei": FILES["filename"], "klasse": TRUTH})
    found, _ = read(path, beside)
    assert [found.class_names[k] for k in found.known_labels] == TRUTH
    more = {"datei": FILES["filename"], "ort": ["Rom", "Ulm", "Rom", "Rom"], "klasse": TRUTH}
    path, beside = two_files(tmp_path, columns, more)
    found, said = read(path, beside)
    assert [found.class_names[k] for k in found.known_labels] == TRUTH
    assert "`klasse` is read as the labels, since it alone holds classes" in said
    binary = {"customer": ["x", "y", "z", "w"], "score": [0.9, 0.2, 0.8, 0.3]}
    path, beside = two_files(tmp_path, binary, {"customer": binary["customer"], "churned": [1, 0, 1, 0]})
    assert read(path, beside)[0].known_labels.tolist() == [1, 0, 1, 0]


def test_the_option_for_the_column_of_labels_may_name_one_of_the_labels_file(tmp_path):
    given = {"filename": FILES["filename"], "first": TRUTH[::-1], "second": TRUTH}
    path, beside = two_files(tmp_path, FILES, given)
    with pytest.raises(SoftkinError, match="or named by --label-column; it has filename, first, second"):
        read(path, beside)
    found, _ = read(path, beside, label_column="second")
    assert [found.class_names[k] for k in found.known_labels] == TRUTH
