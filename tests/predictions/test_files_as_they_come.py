"""Files that other people's tools write are read as they are, or refused with the option that helps."""

import json
import tracemalloc

import numpy as np
import pytest
import torch

from command_line import run
from softkin import SoftkinError, calibrators, metrics, predictions
from softkin.predictions import Assumption, Predictions, reading, two_classes

NAMES = ["cat", "dog", "owl"]
LOGITS = torch.randn(40, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
PROBS = torch.softmax(LOGITS, 1)
LABELS = [k % 3 for k in range(40)]


def csv_file(path, header, rows, separator=","):
    path.write_text("\n".join(separator.join(map(str, row)) for row in [header, *rows]) + "\n", encoding="utf-8")
    return path


def test_a_label_column_of_another_name(tmp_path):
    rows = [[NAMES[k], *map(repr, p)] for k, p in zip(LABELS, PROBS.tolist(), strict=True)]
    path = csv_file(tmp_path / "probs.csv", ["said by all", *NAMES], rows)
    loaded = predictions.load(path, label_column="said by all")
    assert loaded.known_labels.tolist() == LABELS
    assert loaded.class_names == NAMES
    assert torch.equal(loaded.probabilities, PROBS)
    with pytest.raises(SoftkinError, match=r"has no `said by` \(--label-column\); it has said by all, .* did you mean"):
        predictions.load(path, label_column="said by")
    with pytest.warns(Assumption, match="`said by all` is read as the labels, since it holds names of columns"):
        assert predictions.load(path).known_labels.tolist() == LABELS
    usual = csv_file(tmp_path / "usual-probs.csv", ["Ground Truth", *NAMES], rows)
    assert predictions.load(usual).known_labels.tolist() == LABELS
    np.savez(tmp_path / "a.npz", probs=PROBS.numpy(), gold=np.array(LABELS))
    assert predictions.load(tmp_path / "a.npz", label_column="gold").known_labels.tolist() == LABELS


def test_rounded_rows_are_divided_by_their_sums_and_others_refused(tmp_path, capsys):
    many = torch.softmax(torch.randn(200, 20, generator=torch.Generator().manual_seed(0)), 1).double()
    rows = [[k % 20, *(f"{value:.3f}" for value in p)] for k, p in enumerate(many.tolist())]
    path = csv_file(tmp_path / "probs.csv", ["label", *(f"c{k}" for k in range(20))], rows)
    with pytest.warns(
        Assumption, match=r"rows that were rounded are divided by their sums, such as line \d+, which sums"
    ):
        loaded = predictions.load(path)
    off = (loaded.probabilities.sum(1) - 1).abs()
    assert off.max() <= 1e-3
    assert torch.allclose(loaded.probabilities, many, atol=2e-3)
    far = csv_file(tmp_path / "probs3.csv", ["label", "a", "b"], [[0, 0.123456, 0.5]])
    with pytest.raises(SoftkinError, match="rows that sum to 1, but line 2 sums to 0.623456; .* --renormalise divides"):
        predictions.load(far)
    loaded = predictions.load(path, renormalise=True)
    assert torch.allclose(loaded.probabilities.sum(1), torch.ones(200, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(loaded.probabilities, many, atol=2e-3)
    zeros = csv_file(tmp_path / "probs2.csv", ["label", "a", "b"], [[0, 0, 0]])
    with pytest.raises(SoftkinError, match="line 2: to be renormalised a row must hold numbers of at least 0"):
        predictions.load(zeros, renormalise=True)
    code, printed, _ = run(capsys, "evaluate", path, "--renormalise", "--json", "--resamples", 100)
    assert code == 0
    assert json.loads(printed)["models"][0]["num_samples"] == 200


@pytest.mark.parametrize("point", [".", ","])
def test_semicolons_and_decimal_commas(tmp_path, point):
    rows = [[k, *(repr(value).replace(".", point) for value in p)] for k, p in zip(LABELS, PROBS.tolist(), strict=True)]
    path = csv_file(tmp_path / "probs.csv", ["label", *NAMES], rows, ";")
    loaded = predictions.load(path)
    assert torch.equal(loaded.probabilities, PROBS)
    assert loaded.known_labels.tolist() == LABELS


def test_texts_stay_with_their_samples(tmp_path):
    texts = [f'sentence {k}, with "quotes"; and\na second line' if k % 2 else "" for k in range(40)]
    texts[3] = "=1+1"
    known = Predictions.from_probabilities(PROBS, torch.tensor(LABELS), class_names=NAMES, texts=texts)
    for suffix in (".npz", ".safetensors", ".csv"):
        predictions.save(tmp_path / f"p{suffix}", known)
        loaded = predictions.load(tmp_path / f"p{suffix}")
        assert loaded.texts == texts, suffix
        assert torch.equal(loaded.probabilities, PROBS)
        assert loaded.known_labels.tolist() == LABELS
        assert loaded.class_names == NAMES
    part = known.take(torch.tensor([3, 1]))
    assert part.texts == [texts[3], texts[1]]
    rows = [
        {"probs": p, "label": k, "utterance": text} for p, k, text in zip(PROBS.tolist(), LABELS, texts, strict=True)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert predictions.load(tmp_path / "a.jsonl").texts == texts
    other = csv_file(tmp_path / "probs.csv", ["label", "said", *NAMES], [[0, "hello", 0.2, 0.3, 0.5]])
    assert predictions.load(other, text_column="said").texts == ["hello"]
    with pytest.warns(Assumption, match="3 columns are read as classes, cat, dog, owl; left out: said "):
        assert predictions.load(other).texts is None
    # A class that is called like a column of texts is a class if it holds numbers.
    numbers = csv_file(tmp_path / "probs_n.csv", ["label", "text", "image"], [["text", 0.2, 0.8]])
    assert predictions.load(numbers).class_names == ["text", "image"]
    with pytest.raises(ValueError, match="`texts` must be as many as the samples: got 1 for 40"):
        Predictions(LOGITS, texts=["a"])


def test_labels_and_texts_of_other_usual_names(tmp_path):
    path = csv_file(tmp_path / "a.csv", ["comment", "gold", *NAMES], [["hello", "cat", 0.2, 0.3, 0.5]])
    loaded = predictions.load(path, kind="probs")
    assert (loaded.texts, loaded.known_labels.tolist()) == (["hello"], [0])


@pytest.mark.parametrize("form", ["objects", "columns", "pandas"])
def test_a_json_array(tmp_path, form):
    if form == "objects":
        content = [{"logits": z, "label": k} for z, k in zip(LOGITS.tolist(), LABELS, strict=True)]
    elif form == "columns":
        content = {"logits": LOGITS.tolist(), "labels": LABELS, "class_names": NAMES}
    else:
        content = [
            {"label": NAMES[k]} | {f"logits_{name}": value for name, value in zip(NAMES, z, strict=True)}
            for z, k in zip(LOGITS.tolist(), LABELS, strict=True)
        ]
    (tmp_path / "a.json").write_text(json.dumps(content))
    loaded = predictions.load(tmp_path / "a.json")
    assert torch.equal(loaded.logits, LOGITS)
    assert loaded.known_labels.tolist() == LABELS
    (tmp_path / "b.json").write_text("3")
    with pytest.raises(SoftkinError, match="must hold an array of objects or of rows, or an object of lists, got int"):
        predictions.load(tmp_path / "b.json")


def test_a_json_array_of_rows(tmp_path):
    np.save(tmp_path / "truth.npy", np.array([NAMES[k] for k in LABELS]))
    (tmp_path / "logits.json").write_text(json.dumps(LOGITS.tolist()))
    loaded = predictions.load(tmp_path / "logits.json", labels=tmp_path / "truth.npy", class_names=NAMES)
    assert torch.equal(loaded.logits, LOGITS)
    assert loaded.known_labels.tolist() == LABELS
    (tmp_path / "a.json").write_text(json.dumps(PROBS.tolist()))
    with pytest.warns(Assumption, match="its numbers are read as probabilities, since rows sum to 1"):
        assert torch.equal(predictions.load(tmp_path / "a.json").probabilities, PROBS)
    assert torch.equal(predictions.load(tmp_path / "a.json", kind="probs").probabilities, PROBS)
    with pytest.raises(SoftkinError, match="logits.json is said to hold probs .* but its name says logits"):
        predictions.load(tmp_path / "logits.json", kind="probs")
    for content, words in (
        ([[0.1, 0.9], [0.1]], r"row 1 \(counted from 0\) must be a list of 2 numbers, as the first is"),
        ([[0.1, 0.9], [0.1, "a"]], "must hold numbers only"),
        ([[0.1, 0.9], {"probs": [0.1, 0.9]}], r"row 1 \(counted from 0\) must be a list of 2 numbers"),
        ([[]], r"row 0 \(counted from 0\) must hold at least one number"),
    ):
        (tmp_path / "a.json").write_text(json.dumps(content))
        with pytest.raises(SoftkinError, match=words):
            predictions.load(tmp_path / "a.json", kind="probs")
    for content in ([0.1, 0.9], [[0.1], [0.9]]):
        (tmp_path / "a.json").write_text(json.dumps(content))
        spam = predictions.load(tmp_path / "a.json", kind="probs", positive_class="spam")
        np.testing.assert_allclose(spam.probabilities.numpy(), [[0.9, 0.1], [0.1, 0.9]])


def test_class_names_and_lengths_in_a_json_object_of_lists(tmp_path):
    path = tmp_path / "a.json"
    for rows in (4, 3):  # also where there are as many rows as classes
        named = [NAMES[k] for k in LABELS[:rows]]
        path.write_text(json.dumps({"probs": PROBS[:rows].tolist(), "labels": named, "class_names": NAMES}))
        loaded = predictions.load(path)
        assert loaded.class_names == NAMES
        assert loaded.known_labels.tolist() == LABELS[:rows]
    path.write_text(json.dumps({"probs": PROBS[:4].tolist(), "truth": [0, 1, 2]}))
    with pytest.raises(SoftkinError, match="`truth` must have 4 entries, one for each row, got 3"):
        predictions.load(path, label_column="truth")
    path.write_text(json.dumps({"probs": PROBS[:4].tolist(), "labels": [0, 1, 2]}))
    with pytest.raises(SoftkinError, match="`labels` must have 4 entries, one for each row, got 3"):
        predictions.load(path)


def test_named_labels_beside_an_array(tmp_path, capsys):
    np.save(tmp_path / "logits.npy", LOGITS.numpy())
    np.save(tmp_path / "labels.npy", np.array([NAMES[k] for k in LABELS]))
    (tmp_path / "names.txt").write_text("cat\ndog\nowl\n")
    loaded = predictions.load(tmp_path / "logits.npy", class_names=tmp_path / "names.txt")
    assert loaded.known_labels.tolist() == LABELS
    assert loaded.class_names == NAMES
    with pytest.warns(
        Assumption, match="taken to be of cat, dog, owl, the labels in alphabetical order .--class-names"
    ):
        assert predictions.load(tmp_path / "logits.npy").known_labels.tolist() == LABELS
    np.save(tmp_path / "labels.npy", np.array(["cat", *(["dog"] * 39)]))
    with pytest.raises(SoftkinError, match="row 0 .*: the label must be a number, got 'cat'; .* --class-names"):
        predictions.load(tmp_path / "logits.npy", kind="logits")
    np.save(tmp_path / "labels.npy", np.array([NAMES[k] for k in LABELS]))
    arguments = (
        "evaluate",
        tmp_path / "logits.npy",
        "--class-names",
        tmp_path / "names.txt",
        "--json",
        "--resamples",
        100,
    )
    code, printed, _ = run(capsys, *arguments)
    assert code == 0
    assert json.loads(printed)["models"][0]["metrics"]["accuracy"]["value"] == metrics.accuracy(PROBS, LABELS)
    (tmp_path / "two.txt").write_text("cat\ndog\n")
    with pytest.raises(SoftkinError, match="has 3 classes, and --class-names names 2"):
        predictions.load(tmp_path / "logits.npy", class_names=tmp_path / "two.txt")
    numbered = csv_file(tmp_path / "probs.csv", ["label", "2", "0", "1"], [[2, 0.5, 0.3, 0.2]])
    renamed = predictions.load(numbered, class_names=NAMES)
    assert renamed.class_names == NAMES
    assert renamed.probabilities.tolist() == [[0.3, 0.2, 0.5]]  # the columns in the order of their numbers
    assert renamed.known_labels.tolist() == [2]
    own = csv_file(tmp_path / "probs_own.csv", ["label", "a", "b", "c"], [[2, 0.5, 0.3, 0.2]])
    with pytest.raises(SoftkinError, match="has class names of its own, a, b, c; leave --class-names out"):
        predictions.load(own, class_names=NAMES)


SPAM = torch.sigmoid(torch.linspace(-3, 3, 30, dtype=torch.float64))
IS_SPAM = [int(k % 4 > 1) for k in range(30)]


@pytest.mark.parametrize("labels", ["numbers", "names", "other"])
@pytest.mark.parametrize("form", ["csv", "npy", "npz", "jsonl"])
def test_one_score_of_a_binary_model(tmp_path, form, labels):
    words = {"numbers": ["0", "1"], "names": ["not spam", "spam"], "other": ["ham", "spam"]}[labels]
    truth = [words[k] for k in IS_SPAM] if labels != "numbers" else IS_SPAM
    path = tmp_path / f"probs.{form}"
    if form == "csv":
        csv_file(path, ["id", "y_true", "score"], zip(range(30), truth, map(repr, SPAM.tolist()), strict=True))
    elif form == "npy":
        np.save(path, SPAM.numpy())
        np.save(tmp_path / "labels.npy", np.array(truth))
    elif form == "npz":
        np.savez(path, probs=SPAM.numpy()[:, None], labels=np.array(truth))
    else:
        path.write_text(
            "\n".join(json.dumps({"prob": s, "label": y}) for s, y in zip(SPAM.tolist(), truth, strict=True))
        )
    positive = "1" if labels == "numbers" else "spam"
    loaded = predictions.load(path, positive_class=positive)
    assert loaded.class_names == words
    assert torch.allclose(loaded.probabilities, torch.stack([1 - SPAM, SPAM], 1))
    assert loaded.known_labels.tolist() == IS_SPAM
    turned = predictions.load(path, positive_class=words[0])
    assert torch.allclose(turned.probabilities[:, turned.class_names.index(words[0])], SPAM)
    if labels == "other":
        with pytest.raises(SoftkinError, match="type --positive-class ham or --positive-class spam"):
            predictions.load(path)
        return
    with pytest.warns(Assumption, match=f"is read as the score of class {positive} .--positive-class overrules"):
        one = predictions.load(path)
    assert one.class_names == words
    assert torch.allclose(one.probabilities[:, 1], SPAM)


def test_one_log_odds_and_what_may_be_wrong_with_one_score(tmp_path):
    odds = torch.logit(SPAM)
    path = csv_file(tmp_path / "a.csv", ["logit", "label"], zip(map(repr, odds.tolist()), IS_SPAM, strict=True))
    loaded = predictions.load(path, positive_class="1")
    assert loaded.class_names == ["0", "1"]
    assert torch.allclose(loaded.probabilities[:, 1], SPAM)
    both = predictions.load(path, positive_class="spam", class_names=["spam", "ham"])
    assert torch.allclose(both.probabilities[:, 0], SPAM)
    with pytest.raises(SoftkinError, match="--class-names must hold two names, one of them 'spam'"):
        predictions.load(path, positive_class="spam", class_names=["a", "b"])
    three = csv_file(tmp_path / "b.csv", ["prob", "label"], [[0.1, "a"], [0.2, "b"], [0.3, "c"]])
    with pytest.raises(SoftkinError, match="but labels of more than two kinds, a, b, c"):
        predictions.load(three)
    with pytest.warns(predictions.Assumption, match=r"score of class a; other labels \(b, c\) count as not a"):
        assert predictions.load(three, positive_class="a").class_names == ["not a", "a"]
    wide = csv_file(tmp_path / "probs.csv", ["x", "w", "label"], [[0.1, 0.9, 0]])
    assert predictions.load(wide, positive_class="x").class_names == ["x", "w"]
    with pytest.raises(SoftkinError, match="has 2 scores for each sample; --positive-class is for files with one"):
        predictions.load(wide, positive_class="z")


def test_calibrated_probabilities_as_a_csv(tmp_path, capsys):
    known = Predictions(LOGITS.float(), torch.tensor(LABELS), class_names=["=cat", "dog", "owl"], sample_ids=[f"s{k}" for k in range(40)])  # fmt: skip
    known.save(tmp_path / "a.npz")
    calibrator = calibrators.TemperatureScaling().fit(LOGITS, LABELS)
    calibrator.save(tmp_path / "cal")
    code, _, said = run(
        capsys, "calibrate", "apply", tmp_path / "cal", tmp_path / "a.npz", "--output", tmp_path / "b.csv"
    )
    assert code == 0, said
    text = (tmp_path / "b.csv").read_text()
    assert text.splitlines()[0] == "sample_ids,labels,calibrated_=cat,calibrated_dog,calibrated_owl,calibration_note"
    assert "\ns0,'=cat," in text  # no formula for a spreadsheet
    loaded = predictions.load(tmp_path / "b.csv")
    assert torch.equal(loaded.probabilities, torch.as_tensor(calibrator.predict_proba(LOGITS.float().double())))
    assert loaded.known_labels.tolist() == LABELS
    assert loaded.sample_ids == known.sample_ids


def test_saving_over_a_file_is_asked_for(tmp_path):
    known = Predictions(LOGITS, torch.tensor(LABELS))
    predictions.save(tmp_path / "a.npz", known)
    with pytest.raises(SoftkinError, match="a.npz"):
        predictions.save(tmp_path / "a.npz", known)
    predictions.save(tmp_path / "a.npz", known.take(torch.arange(2)), overwrite=True)
    assert len(predictions.load(tmp_path / "a.npz")) == 2
    known.save(tmp_path / "a.npz", overwrite=True)
    assert len(reading.read(tmp_path / "a.npz")) == 40
    with pytest.raises(ValueError, match=r"`path` must end in .npz, .safetensors, .csv or .tsv, got 'a.txt'"):
        known.save(tmp_path / "a.txt")


def test_labels_as_large_as_article_numbers_take_no_memory(tmp_path):
    rows = [[0.9, 0.1, 2.5, 5_000_000], [0.2, 0.8, 1.5, 5_000_017], [0.6, 0.4, 3.5, 5_000_000]]
    path = csv_file(tmp_path / "a.csv", ["cat", "dog", "a", "target"], rows)
    tracemalloc.start()
    try:
        with pytest.raises(SoftkinError, match="must be below the number of classes, 3, got 5000017"), \
                pytest.warns(Assumption):  # fmt: skip
            predictions.load(path)
        assert tracemalloc.get_traced_memory()[1] < 1e8
    finally:
        tracemalloc.stop()


def test_long_numbers_are_compared_digit_by_digit():
    assert two_classes.plain("007.0") == two_classes.plain(7)
    assert two_classes.plain("12345678901234567") != two_classes.plain("12345678901234568")
    assert two_classes.plain("9" * 400) == "9" * 400
