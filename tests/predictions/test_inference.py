"""What a person finds obvious is read and said in one line; what has two readings is refused; ages are no classes."""

import gzip
import io
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from command_line import run
from softkin import SoftkinError, predictions
from softkin._core import checks
from softkin.predictions import Assumption

P = torch.softmax(2 * torch.randn(60, 4, generator=torch.Generator().manual_seed(4), dtype=torch.float64), 1)
Z = 3 * torch.randn(60, 4, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
NAMES = ["billing", "delivery", "other", "returns"]
LABELS = [k % 4 for k in range(60)]
AGES = [20 + (7 * k) % 50 for k in range(60)]
WORDS = [f"text {k}, please" for k in range(60)]


def written(path, header, columns, *, separator=",", encoding="utf-8", quote=True):
    """A table of these columns."""
    lines = [separator.join(header)]
    for row in zip(*columns, strict=True):
        cells = [f'"{cell}"' if quote and isinstance(cell, str) else str(cell) for cell in row]
        lines.append(separator.join(cells))
    path.write_text("\n".join(lines) + "\n", encoding=encoding)
    return path


def columns(scores, decimals=None):
    return [[repr(value) if decimals is None else f"{value:.{decimals}f}" for value in column] for column in scores.T.tolist()]  # fmt: skip


def names_of(labels=LABELS):
    return [NAMES[k] for k in labels]


def loaded(path, words, **options):
    """The predictions, with exactly one assumption for each of the words."""
    if not words:
        return predictions.load(path, **options)
    with pytest.warns(Assumption) as said:
        read = predictions.load(path, **options)
    sentences = [str(warning.message) for warning in said]
    assert len(sentences) == len(words), sentences
    for sentence, expected in zip(sentences, words, strict=True):
        assert expected in sentence
        assert "\n" not in sentence
    return read


# Which columns are classes


def test_the_columns_of_a_data_set_beside_scores(tmp_path):
    """What ``train`` takes for text and labels, ``evaluate`` does too."""
    path = written(tmp_path / "a.csv", ["utterance", "intent", "probs_a", "probs_b"], [WORDS, ["a", "b"] * 30, [0.25, 0.5] * 30, [0.75, 0.5] * 30])  # fmt: skip
    read = loaded(path, [])
    assert read.texts == WORDS
    assert read.known_labels.tolist() == [0, 1] * 30
    path = written(tmp_path / "probs.csv", ["review", "label", *NAMES], [WORDS, names_of(), *columns(P)])
    read = loaded(path, [])
    assert read.texts == WORDS
    assert read.class_names == NAMES
    noted = written(tmp_path / "b-probs.csv", ["note", "label", *NAMES], [WORDS, names_of(), *columns(P)])
    assert loaded(noted, ["4 columns are read as classes, billing, delivery, other …; left out: note"]).texts is None


@pytest.mark.parametrize("labels", ["names", "numbers"])
def test_ages_are_no_classes(tmp_path, labels):
    header = ["customer_id", "age", *NAMES, "label"]
    truth = names_of() if labels == "names" else LABELS
    ids = [1000 + k for k in range(60)]
    path = written(tmp_path / "a.csv", header, [ids, AGES, *columns(P, 2), truth])
    taken = "`customer_id` is taken for the ids of the rows"
    said = [taken, "4 columns are read as classes, billing, delivery, other …; left out: age", "are read as probabilities, since rows sum to 1", "rows that were rounded"]  # fmt: skip
    read = loaded(path, said)
    assert read.class_names == NAMES
    assert read.known_labels.tolist() == LABELS
    assert torch.allclose(read.probabilities, P, atol=0.02)
    by_name = [{"ignore_columns": ["age", "customer_id"]}, {"class_columns": NAMES}]
    for options in (*by_name, {"ignore_columns": "age, customer_id"}, {"class_columns": ",".join(NAMES)}):
        own = said[2:] if "ignore_columns" in options else [taken, *said[2:]]
        assert torch.equal(loaded(path, own, **options).probabilities, read.probabilities)
    # Also if somebody follows an advice that was meant for other files.
    assert loaded(path, said[:3], renormalise=True).class_names == NAMES
    path = written(tmp_path / "b.csv", header, [ids, AGES, *columns(Z), truth])
    said = [taken, "left out: age", "are read as logits, since some are negative"]
    assert torch.equal(loaded(path, said).logits, Z)
    if labels == "names":
        return
    header[1] = "visits"
    lacking = written(tmp_path / "c.csv", header, [ids, AGES, *columns(Z), [k % 2 for k in LABELS]])
    with pytest.raises(SoftkinError, match="has columns that may be no classes, visits, beside billing, .* --ignore-columns visits"):  # fmt: skip
        predictions.load(lacking)
    with pytest.raises(SoftkinError, match=r"has no `aje` \(--ignore-columns\); .* did you mean 'age'"):
        predictions.load(path, ignore_columns=["aje"])
    read = loaded(path, [taken, "logits"], ignore_columns=["age"])
    assert torch.equal(read.logits, Z)


def test_large_numbers_beside_scores_that_labels_name(tmp_path):
    income = [1234.56 + k for k in range(60)]
    path = written(tmp_path / "a.csv", ["income", *NAMES, "y"], [income, *columns(Z), names_of()])
    assert torch.equal(loaded(path, ["left out: income", "logits"]).logits, Z)


def test_a_class_that_is_called_like_something_else(tmp_path):
    """Labels or sums show that ``date`` and ``time`` are intents."""
    names = ["date", "time", "weight", "id"]
    truth = [names[k] for k in LABELS]
    path = written(tmp_path / "a.csv", [*names, "intent"], [*columns(P), truth])
    assert loaded(path, ["are read as probabilities"]).class_names == names
    path = written(tmp_path / "b.csv", [*names, "intent"], [*columns(Z), truth])
    assert loaded(path, ["are read as logits"]).class_names == names
    late = ["date", "time"] * 80 + ["weight", "id"] * 20  # where the first rows do not show it
    many = Z.repeat(4, 1)[:200]
    path = written(tmp_path / "c.csv", [*names, "intent"], [*columns(many), late])
    assert loaded(path, ["are read as logits"]).class_names == names


@pytest.mark.parametrize("prefix", ["prob_", "probs_", "p_", "proba_", "logit_", "score_", "scores.", "P["])
def test_prefixes(tmp_path, prefix):
    scores = Z if "logit" in prefix or "score" in prefix else P
    ending = "]" if prefix.endswith("[") else ""
    header = [*(f"{prefix}{name}{ending}" for name in NAMES), "age", "label"]
    path = written(tmp_path / "a.csv", header, [*columns(scores), AGES, names_of()])
    read = loaded(path, ["left out: age", *(["are read as logits"] if "score" in prefix else [])])
    assert read.class_names == NAMES
    assert torch.equal(read.scores, scores)


def test_a_weak_prefix_beside_other_scores_counts_only_if_labels_confirm_it(tmp_path):
    exams = [[0.5 + k / 7 for k in range(60)], [0.25 + k / 9 for k in range(60)]]
    header = ["score_maths", "score_reading", *NAMES, "label"]
    path = written(tmp_path / "a.csv", header, [*exams, *columns(P), names_of()])
    said = ["left out: score_maths, score_reading", "its 4 columns billing, delivery, other … are read as prob"]
    assert torch.equal(loaded(path, said).probabilities, P)


def test_a_parquet_file_without_scores_is_refused(tmp_path):
    pq.write_table(pa.table({"text": WORDS, "label": names_of()}), tmp_path / "a.parquet")
    with pytest.raises(SoftkinError, match="must have a column for each class, or one of lists .* it has text, label"):
        predictions.load(tmp_path / "a.parquet")


def test_labels_are_those_whose_values_fit(tmp_path):
    header = ["category", "sentiment", *(f"probs_{name}" for name in NAMES)]
    path = written(tmp_path / "a.csv", header, [["shoes"] * 60, names_of(), *columns(P)])
    read = loaded(path, ["`sentiment` is read as the labels, since it holds names of columns", "left out: category"])
    assert read.known_labels.tolist() == LABELS


@pytest.mark.parametrize(
    ("name", "cells"),
    [("age", AGES), ("score", [round(30 * p) for p in P[:, 0].tolist()])],
)
def test_not_every_number_beside_labels_0_and_1_is_a_score_of_class_1(tmp_path, name, cells):
    path = written(tmp_path / "a.csv", ["id", name, "label"], [list(range(60)), cells, [k % 2 for k in range(60)]])
    with pytest.raises(SoftkinError, match="must have a column for each class|the numbers could be either"):
        predictions.load(path)


def test_classes_that_differ_by_a_mark_are_not_confused(tmp_path):
    path = written(tmp_path / "probs.csv", ["C++", "Java", "label"], [[0.25] * 2, [0.75] * 2, ["Java", "C"]])
    with pytest.raises(SoftkinError, match="line 3: the label must be a number or one of the classes C.., Java"):
        predictions.load(path)


# What the numbers are


@pytest.mark.parametrize(
    ("scores", "words", "expected"),
    [
        (P, "are read as probabilities, since rows sum to 1", P),
        (Z, "are read as logits, since some are negative", Z.softmax(1)),
        (P.log(), "are read as log-probabilities, since their exponentials sum to 1", P),
        (100 * P, "are read as percent, since rows sum to 100", P),
        (Z - Z.min(), "are read as logits, since rows sum to anything from", Z.softmax(1)),
    ],
)
@pytest.mark.parametrize("form", ["csv", "npz", "npy", "json"])
def test_logits_or_probabilities(tmp_path, scores, words, expected, form):
    path = tmp_path / f"a.{form}"
    if form == "csv":
        written(path, [*NAMES, "label"], [*columns(scores), LABELS])
    elif form == "npz":
        np.savez(path, predictions=scores.numpy(), labels=LABELS)
    elif form == "npy":
        np.save(path, scores.numpy())
        np.save(tmp_path / "labels.npy", LABELS)
    else:
        path.write_text(str([{"outputs": row, "label": k} for row, k in zip(scores.tolist(), LABELS, strict=True)]).replace("'", '"'))  # fmt: skip
    torch.testing.assert_close(loaded(path, [words]).probabilities, expected)


@pytest.mark.parametrize(
    "scores",
    [
        [[0.2, 0.3], [0.9, 0.8]],  # scores of independent classes
        [[3, 2], [1, 4]],  # votes
        [[3, 2], [1, 9]],  # votes of more people
        [[-1e-7, 1 + 1e-7], [0.5, 0.5]],  # probabilities that some arithmetic has left
        [[float("nan"), 1.0]],
    ],
)
def test_numbers_that_could_be_either_are_asked_about(tmp_path, scores):
    np.savez(tmp_path / "a.npz", predictions=np.array(scores), labels=[0] * len(scores))
    with pytest.raises(SoftkinError, match=r"the numbers could be either; type --logits .* or --probs"):
        predictions.load(tmp_path / "a.npz")


def test_rounding_is_half_a_unit_of_the_last_decimal_for_each_class():
    assert checks.rounding(torch.tensor([[0.333, 0.333, 0.333]])) == pytest.approx(0.0015, abs=2e-6)
    assert checks.rounding(torch.rand(9, 3, dtype=torch.float64)) == 0
    assert checks.rounding(torch.eye(3)) == 0


# Labels


@pytest.mark.parametrize(
    ("truth", "words"),
    [
        ([k + 1 for k in LABELS], ["labels are counted from 1, since they go from 1 to 4"]),
        ([float(k) for k in LABELS], []),
        ([name.upper() + " " for name in names_of()], ["labels are read in any spelling; 'BILLING ' is 'billing'"]),
    ],
)
def test_labels_of_other_spelling(tmp_path, truth, words):
    path = written(tmp_path / "probs.csv", [*NAMES, "y_true"], [*columns(P), truth])
    assert loaded(path, words).known_labels.tolist() == LABELS


def test_labels_in_another_table(tmp_path):
    path = written(tmp_path / "probs.csv", NAMES, columns(P))
    truth = written(tmp_path / "truth.csv", ["row", "truth"], [list(range(60)), names_of()])
    with pytest.warns(predictions.Assumption, match="its rows are matched with those of .* by position"):
        assert predictions.load(path, labels=truth).known_labels.tolist() == LABELS
    other = written(tmp_path / "other.csv", ["a", "b"], [LABELS, LABELS])
    with pytest.raises(SoftkinError, match="other.csv must have a column of labels, called .*`label`, .*; it has a, b"):
        predictions.load(path, labels=other)


# Shapes


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"separator": ";"},
        {"separator": "\t"},
        {"separator": "|"},
        {"encoding": "utf-8-sig"},
        {"encoding": "utf-16"},
    ],
)
def test_shapes_of_csv(tmp_path, how):
    path = written(tmp_path / "probs.csv", ["", *NAMES, "label"], [list(range(60)), *columns(P), names_of()], **how)
    read = loaded(path, [])
    assert torch.equal(read.probabilities, P)
    assert read.known_labels.tolist() == LABELS


def test_decimal_commas_in_quotes(tmp_path):
    cells = [[value.replace(".", ",") for value in column] for column in columns(P)]
    path = written(tmp_path / "probs.csv", [*NAMES, "label"], [*cells, LABELS], quote=True)
    assert torch.equal(loaded(path, []).probabilities, P)


def test_a_packed_table_and_standard_input(tmp_path, monkeypatch):
    content = written(tmp_path / "probs.csv", [*NAMES, "label"], [*columns(P), LABELS]).read_bytes()
    (tmp_path / "probs.csv.gz").write_bytes(gzip.compress(content))
    assert torch.equal(loaded(tmp_path / "probs.csv.gz", []).probabilities, P)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    assert torch.equal(loaded("-", ["read as probabilities"]).probabilities, P)


def test_a_table_that_unpacks_without_end(tmp_path, monkeypatch):
    monkeypatch.setenv("SOFTKIN_MAX_BYTES", str(2**20))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a,b,label\n" + b"0,1,1\n" * 2**20))
    with pytest.raises(SoftkinError, match=r"a.csv.gz would have .* bytes, more than the 1,048,576 allowed"):
        predictions.load(tmp_path / "a.csv.gz")


# The command


@pytest.mark.filterwarnings("always::softkin.predictions.Assumption")
def test_the_command_says_each_assumption_in_one_line(tmp_path, capsys):
    path = written(tmp_path / "a.csv", ["id", "age", *NAMES, "label"], [list(range(60)), AGES, *columns(P), LABELS])
    code, printed, said = run(capsys, "evaluate", path, "--json", "--resamples", 100)
    assert code == 0
    lines = said.splitlines()
    assert [line.startswith("softkin: note: ") for line in lines] == [True, True]
    assert '"num_samples": 60' in printed
    arguments = ("--class-columns", ",".join(NAMES), "--probs")
    assert run(capsys, "evaluate", path, *arguments, "--json", "--resamples", 100) == (0, printed, "")
    y = written(tmp_path / "b.csv", ["y_true", "y_prob"], [[k % 2 for k in range(60)], columns(P[:, :1])[0]])
    code, _, said = run(capsys, "evaluate", y, "--json", "--resamples", 100)
    assert code == 0, said
    assert "`y_prob` is read as the score of class 1" in said


@pytest.mark.filterwarnings("ignore::softkin.predictions.Assumption")
def test_ids_of_something_are_ids_only_where_they_tell_all_rows_apart(tmp_path):
    names, n = ["cat", "dog", "owl"], 300

    def table(ids, head="customer_id"):
        rows = [f"{known_as},{'0.7,0.2,0.1' if j % 3 else '0.1,0.2,0.7'},{names[j % 3]}" for j, known_as in ids]
        return "\n".join([f"{head},cat,dog,owl,label", *rows])

    apart = [(j, 7 * j) for j in range(n)]
    cases = {
        "a": (apart, "customer_id"), "b": ([(j, f"x{j}") for j in range(n)], "orderId"),
        "again": ([*apart[:-1], (n - 1, 0)], "customer_id"), "empty": ([*apart[:-1], (n - 1, "")], "customer_id"),
        "labels": (apart, "intent_id"),
    }  # fmt: skip
    found = {}
    for name, case in cases.items():
        (tmp_path / f"{name}.csv").write_text(table(*case))
        found[name] = predictions.load(tmp_path / f"{name}.csv").sample_ids
    assert [int(known_as) for known_as in found["a"]] == [7 * j for j in range(n)]
    assert found["b"] == [f"x{j}" for j in range(n)]
    assert found["again"] is found["empty"] is found["labels"] is None
    assert predictions.load(tmp_path / "a.csv", ignore_columns=["customer_id"]).sample_ids is None
    (tmp_path / "set").mkdir()
    for name in ("a", "again"):
        (tmp_path / "set" / f"{name}.csv").write_text(table(*cases[name]))
    several = predictions.load(tmp_path / "set")
    assert (len(several), several.sample_ids) == (2 * n, None)
    (tmp_path / "labels.csv").write_text("\n".join(["id,label", *(f"{j},{names[j % 3]}" for j in range(n))]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the file has labels too
        found = predictions.load(tmp_path / "a.csv", labels=tmp_path / "labels.csv")  # whose ids number its rows
    assert found.labels.tolist() == [j % 3 for j in range(n)]
