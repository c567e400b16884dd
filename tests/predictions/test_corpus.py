"""Small files as people have them, each with the reading that a person expects: these tables are the tests.

A file of three classes holds ``PROBS`` or ``LOGITS`` of cat, dog and owl beside ``TRUTH``; one of two classes holds
``POSITIVE``, the probability that ``YES`` is true. What a reading assumed is said in words that the table names.
"""

import bz2
import gzip
import io
import json
import lzma
import re
import sys
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from pyarrow import feather
from pyarrow import parquet as pq

from data_files import sheet, xlsx
from places import ROOT
from softkin import SoftkinError, predictions
from softkin.predictions import Assumption, inference

N = 24
NAMES = ["cat", "dog", "owl"]
LOGITS = np.random.default_rng(5).normal(size=(N, 3)).round(4) * 2
PROBS = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
TRUTH = [int(k) if j % 4 else int((k + 1) % 3) for j, k in enumerate(PROBS.argmax(axis=1))]
CALLED = [NAMES[k] for k in TRUTH]
POSITIVE = (1 / (1 + np.exp(-LOGITS[:, 0]))).round(4)
YES = [int(p > 0.5) if j % 4 else int(p <= 0.5) for j, p in enumerate(POSITIVE)]
AGE = [20 + 7 * j % 41 for j in range(N)]
GUESSED = [NAMES[k] for k in PROBS.argmax(axis=1)]
Columns = dict[str, list[Any]]


def text(columns: Columns, separator: str = ",", *, header: bool = True, quote: bool = False, line: str = "\n") -> str:
    """A table of separated values."""
    rows = [list(map(str, row)) for row in zip(*columns.values(), strict=True)]
    rows = [list(columns), *rows] if header else rows
    rows = [[f'"{cell}"' if quote else cell for cell in row] for row in rows]
    return line.join(separator.join(row) for row in rows) + line


def scores(values: Any = PROBS, name: str = "{}", form: str = "{:.6f}", names: list[Any] = NAMES) -> Columns:
    """A column for each class, as text."""
    return {name.format(known): [form.format(value) for value in values[:, k]] for k, known in enumerate(names)}


def bits(name: str, no: Any = 0, yes: Any = 1, names: list[Any] = NAMES) -> Columns:
    """A column of truth for each class."""
    return {name.format(known): [yes if t == k else no for t in TRUTH] for k, known in enumerate(names)}


def comma(columns: Columns) -> Columns:
    return {name: [str(cell).replace(".", ",") for cell in cells] for name, cells in columns.items()}


def frame(columns: Columns) -> pd.DataFrame:
    return pd.DataFrame(columns)


def numbers(values: Any = PROBS, name: str = "{}") -> Columns:
    """A column for each class, as numbers."""
    return {name.format(known): values[:, k].tolist() for k, known in enumerate(NAMES)}


def zipped(members: dict[str, bytes]) -> bytes:
    """A zip archive of these files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def written(write: Callable[[Any], Any]) -> bytes:
    """What a function writes into a file."""
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def arrow_table() -> pa.Table:
    return pa.table(numbers() | {"label": pa.array(CALLED, pa.string_view())})


def streamed(file: Any) -> None:
    table = arrow_table()
    with pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


@dataclass(frozen=True)
class Case:
    """A file, the options that a person types, and what is expected of the reading."""

    what: str
    name: str
    content: Any
    """Text, bytes, or the contents of several files by name; the reading is of ``name``"""
    options: dict[str, Any] = field(default_factory=dict)
    says: str = ""
    """A part of the sentences about what was assumed"""
    names: list[str] | None = None
    """The class names that are expected if not those of the data"""
    off: float = 1e-5
    """How far the probabilities may be off, because the file was rounded"""


def csv(what: str, columns: Columns, says: str = "", name: str = "a.csv", **more: Any) -> Case:
    about = {key: more.pop(key) for key in ("options", "names", "off") if key in more}
    return Case(what, name, text(columns, **more), says=says, **about)


LABEL = {"label": CALLED}
NUMBER = {"label": TRUTH}
BARE = ["0", "1", "2"]
PLAIN = scores() | LABEL

THREE = [
    # Where the labels are, and how they are written
    csv("labels last", PLAIN, "read as probabilities, since rows sum to 1"),
    csv("labels first", LABEL | scores(), "probabilities"),
    csv("labels as numbers", scores() | NUMBER),
    csv("labels from 1", scores() | {"label": [k + 1 for k in TRUTH]}, "counted from 1"),
    csv("labels as floats", scores() | {"label": [f"{k}.0" for k in TRUTH]}),
    csv("labels in capitals", scores() | {"label": [name.upper() for name in CALLED]}, "in any spelling"),
    csv("labels with blanks", scores() | {"label": [f" {name} " for name in CALLED]}),
    csv("classes with capitals", scores(name="{}", names=["Cat", "Dog", "Owl"]) | LABEL, names=["Cat", "Dog", "Owl"]),
    csv("labels with underscores for blanks", scores(names=["big cat", "dog", "owl"])
        | {"label": [{"cat": "big_cat"}.get(name, name) for name in CALLED]}, names=["big cat", "dog", "owl"]),
    *(csv(f"labels called {name}", scores() | {name: CALLED}) for name in
      ("y", "y_true", "target", "class", "truth", "ground_truth", "Ground Truth", "intent", "category", "gold",
       "actual", "true_label", "Label", "LABEL", "expected", "correct_label", "actual_class", "answer")),
    csv("labels under a word of another language", scores() | {"Klasse": CALLED}, "`Klasse` is read as the labels"),
    csv("labels and predictions in words", scores() | {"y_true": CALLED, "y_pred": CALLED[::-1]}, "left out: y_pred"),
    csv("predictions before labels", {"predicted": CALLED[::-1], "actual": CALLED} | scores(), "left out: predicted"),
    csv("two columns of class names, one called a guess", scores() | {"guess": CALLED[::-1], "truth": CALLED},
        "left out: guess"),
    # What the columns of classes are called
    *(csv(f"classes as {prefix}", scores(name=prefix) | LABEL) for prefix in
      ("prob_{}", "probs_{}", "p_{}", "proba_{}", "probability_{}", "Prob_{}", "prob.{}", "prob {}", "P({})", "p({})",
       "score_{}", "conf_{}", "confidence_{}", "softmax_{}", "pred_{}", "prediction_{}", "y_prob_{}", "y_proba_{}",
       "y_pred_{}", "class_{}", "{}_prob", "{}_proba", "{}_score", "{} (prob)")),
    *(csv(f"logits as {prefix}", scores(LOGITS, prefix, "{:.4f}") | LABEL) for prefix in
      ("logit_{}", "logits_{}", "{}_logit", "score_{}", "output_{}", "z_{}", "{}")),
    *(csv(f"numbered classes as {prefix}", scores(name=prefix, names=[0, 1, 2]) | NUMBER, names=BARE) for prefix in
      ("{}", "prob_{}", "prob{}", "p{}", "proba_{}", "p_{}", "probs[{}]", "y_prob_{}", "class_{}", "Class {}")),
    csv("numbered classes as class{}_prob", scores(name="class{}_prob", names=[0, 1, 2]) | NUMBER,
        names=["class0", "class1", "class2"]),
    *(csv(f"numbered classes with their letter as {prefix}", scores(name=prefix, names=[0, 1, 2]) | NUMBER,
          names=[prefix.format(k) for k in range(3)]) for prefix in ("c{}", "label{}")),
    csv("numbered from 1", scores(name="prob_{}", names=[1, 2, 3]) | {"label": [k + 1 for k in TRUTH]},
        names=["1", "2", "3"]),
    # Other columns
    csv("an id", {"id": [*range(N)]} | PLAIN),
    csv("an id of letters", {"uuid": [f"x{j}" for j in range(N)]} | PLAIN),
    csv("the index that pandas writes", {"": [*range(N)]} | PLAIN),
    csv("the index that pandas writes, beside other words", {"": [*range(N)], "city": [f"city {j % 7}" for j in range(N)]} | PLAIN),
    csv("the index after another reading", {"Unnamed: 0": [*range(N)]} | PLAIN),
    csv("an index called so", {"index": [*range(N)]} | PLAIN),
    csv("a customer and an age", {"customer_id": [*range(700, 700 + N)], "age": AGE} | PLAIN,
        "`customer_id` is taken for the ids of the rows"),
    csv("several rows of a customer", {"customer_id": [j // 2 for j in range(N)], "age": AGE} | PLAIN,
        "left out: customer_id, age"),
    csv("ids of labels", {"intent_id": [*range(N)], "age": AGE} | PLAIN, "left out: intent_id, age"),
    csv("an age beside logits", {"age": AGE} | scores(LOGITS, form="{:.4f}") | LABEL, "left out: age"),
    csv("predictions as numbers", PLAIN | {"prediction": TRUTH[::-1]}),
    csv("a fold", PLAIN | {"fold": [j % 5 for j in range(N)]}),
    csv("an age with fractions beside logits and numbered labels", {"age": [20.5 + j for j in range(N)]}
        | scores(LOGITS, form="{:.4f}") | NUMBER, "left out: age"),
    csv("a constant", PLAIN | {"version": [3] * N}, "left out: version"),
    csv("a date", {"date": ["2026-11-17"] * N} | PLAIN),
    csv("the winning score", PLAIN | {"confidence": [f"{p:.6f}" for p in PROBS.max(axis=1)]}),
    csv("the winning score under another name", PLAIN | {"max_prob": [f"{p:.6f}" for p in PROBS.max(axis=1)]}),
    csv("whether it was right", PLAIN | {"correct": [j % 2 for j in range(N)]}),
    csv("weights", PLAIN | {"weight": [1 + j / 7 for j in range(N)]}),
    csv("an entropy", PLAIN | {"entropy": [f"{p.max() * 1.7:.6f}" for p in PROBS]}, "left out: entropy"),
    csv("a margin before the classes", {"margin": [f"{p.max() / 3:.6f}" for p in PROBS]} | PLAIN, "left out: margin"),
    csv("a text", {"text": [f"hello {j}" for j in range(N)]} | PLAIN),
    csv("a file name", {"file": [f"img/{j}.png" for j in range(N)]} | PLAIN),
    csv("logits and probabilities, asked for", scores(LOGITS, "logit_{}", "{:.4f}") | scores(name="prob_{}") | LABEL,
        options={"kind": "probs"}),
    csv("logits and the probabilities that follow from them", scores(LOGITS, "logit_{}", "{:.4f}") | scores(name="prob_{}") | LABEL,
        "the logits are read, from which the probabilities follow"),
    # Numbers
    csv("two decimals", scores(form="{:.2f}") | LABEL, "probabilities", off=0.02),
    csv("three decimals", scores(form="{:.3f}") | LABEL, "probabilities", off=0.002),
    csv("percent", scores(100 * PROBS, form="{:.4f}") | LABEL, "read as percent"),
    csv("percent signs", scores(100 * PROBS, form="{:.4f}%") | LABEL, "read as probabilities"),
    csv("log-probabilities", scores(np.log(PROBS)) | LABEL, "read as log-probabilities"),
    csv("powers of ten", scores(form="{:.6e}") | LABEL),
    csv("logits that are called so by the file", scores(LOGITS, form="{:.4f}") | LABEL, name="logits.csv"),
    csv("logits without a name", scores(LOGITS, form="{:.4f}") | LABEL, "read as logits, since some are negative"),
    csv("large logits with thousands", scores(LOGITS + 1200, form='"{:,.4f}"') | LABEL, "logits"),
    # Names that people give
    csv("labels and predictions in longer names", {"Predicted species": GUESSED, "Real species": CALLED}
        | scores(name="P({})"), "`Real species` is read as the labels"),
    csv("a column that is the class with the highest score in every row", {"auto tag": GUESSED, "agent tag": CALLED}
        | scores(name="{} score"), "`agent tag` is read as the labels"),
    *(csv(f"predictions called {label} beside the truth called {truth}", {truth: CALLED, label: GUESSED} | scores(),
          f"`{truth}` is read as the labels, since `{label}` is the class with the highest score in every row")
      for truth, label in (("y", "label"), ("actual_species", "class"), ("annotator", "label"), ("gold standard", "label"),
                           ("key", "answer"))),
    csv("predictions called label beside the truth, both numbered", {"key": TRUTH, "label": [NAMES.index(name) for name in GUESSED]} | scores(),
        "`key` is read as the labels, since `label` is the class with the highest score in every row"),
    csv("numbers of classes in another order than their scores, and their names", {"label": [[2, 0, 1][k] for k in TRUTH],
        "label_name": CALLED} | scores(name="prob_{}"), "`label_name` is read as the labels, as its names show the order"),
    csv("years in a column called year", scores(names=[2019, 2020, 2021]) | {"year": [2019 + k for k in TRUTH]},
        "`year` is read as the labels, since it holds names of columns", names=["2019", "2020", "2021"]),
    *(csv(f"codes {what} leading zeros", scores(name="p_{}", names=["010", "020", "100"]) | {"code": [codes[k] for k in TRUTH]},
          "`code` is read as the labels, since it holds names of columns", names=["010", "020", "100"])
      for what, codes in (("with", ["010", "020", "100"]), ("without", ["10", "20", "100"]))),
    csv("a sure truth that the model always knows, and a reader's opinion", {"y_true": CALLED, "reader": [NAMES[k - 1] for k in TRUTH]}
        | scores(np.eye(3)[TRUTH] * 0.7 + 0.1), "left out: reader", off=1),
    csv("labels of readers and their consensus", {"reader 1": GUESSED, "consensus": CALLED} | scores(name="p_{}"),
        "left out: reader 1"),
    csv("classes with a percent sign in their names", {"file": ["x.png"] * N, "true species": CALLED}
        | scores(100 * PROBS, "{} %", "{:.4f}") | {"best guess": GUESSED}, "`true species` is read as the labels"),
    csv("numbered classes between two words", {"answer": [f"class_{k}" for k in TRUTH]}
        | scores(LOGITS, "class_{}_score", "{:.4f}", [0, 1, 2]), names=["class_0", "class_1", "class_2"]),
    csv("labels that are numbers of classes, under any name", {"digit": [3 + 2 * k for k in TRUTH]}
        | scores(name="prob_{}", names=[3, 5, 7]), "`digit` is read as the labels", names=["3", "5", "7"]),
    csv("stars", {"stars": [k + 1 for k in TRUTH]} | scores(name="{} star", names=[1, 2, 3]), "`stars` is read as the labels",
        names=["1 star", "2 star", "3 star"]),
    csv("labels in words beside numbered classes", scores(name="softmax_{}", names=[0, 1, 2]) | {"species": CALLED},
        "`species` is read as the labels"),
    csv("what stands beside classes with a word", {"Age": AGE, "Ward": ["A2", "B1"] * (N // 2)} | scores(name="P({})")
        | {"Dx final": CALLED}, "left out: Age, Ward"),
    csv("features beside probabilities", {"length": AGE, "width": [j / 7 for j in range(N)]} | scores(name="proba_{}")
        | {"species": CALLED}, "left out: length, width"),
    # Truth in as many columns as there are classes
    *(csv(f"a column of truth for each class as {truth} beside {score}", bits(truth) | scores(name=score),
          "are read as the true classes, since each row has one 1") for truth, score in (
        ("true_{}", "prob_{}"), ("y_true_{}", "y_pred_{}"), ("label_{}", "pred_{}"), ("{}", "p_{}"), ("is_{}", "{}"),
        ("{} (actual)", "{} (predicted)"), ("gt_{}", "score_{}"), ("target {}", "{}"), ("{}_true", "{}_prob"))),
    csv("a column of truth for each class beside logits", bits("onehot_{}") | scores(LOGITS, "logit_{}", "{:.4f}")),
    csv("numbered columns of truth", bits("y{}", names=[0, 1, 2]) | scores(name="p{}", names=[0, 1, 2]), names=BARE),
    csv("columns of truth as truth values", bits("true_{}", "False", "True") | scores(name="prob_{}")),
    csv("columns of truth beside predictions, ids and a flag", {"id": [*range(N)], "is_weekend": [j % 2 for j in range(N)]}
        | bits("true_{}", "0.0", "1.0") | scores(name="prob_{}") | {"pred": GUESSED}, "left out: is_weekend, pred"),
    csv("columns of truth beside a class that is never sure in the first rows", bits("true_{}", names=[*NAMES, "yak"])
        | scores(name="prob_{}") | {"prob_yak": ["0.0"] * N}, names=[*NAMES, "yak"]),
    csv("no column of truth for a class that never occurs", bits("true_{}") | scores(name="prob_{}") | {"prob_yak": ["0.0"] * N},
        names=[*NAMES, "yak"]),
    # What is measured beside the classes
    csv("a loss beside logits", scores(LOGITS, form="{:.4f}") | NUMBER | {"loss": [f"{-np.log(p[k]):.4f}" for p, k in zip(PROBS, TRUTH, strict=True)]},
        "left out: loss"),
    csv("a place beside logits", {"lat": [f"{50 + j / 7:.3f}" for j in range(N)], "lon": [f"{j / 7 - 3:.3f}" for j in range(N)]}
        | scores(LOGITS, form="{:.4f}") | LABEL, "left out: lat, lon"),
    csv("whether it was right and how sure, beside classes", PLAIN | {"prediction": GUESSED, "correct": [g == c for g, c in zip(GUESSED, CALLED, strict=True)],
        "confidence": [f"{p:.6f}" for p in PROBS.max(axis=1)]}, "3 columns are read as classes"),
    csv("the same beside seconds, with labels from 1", scores() | {"label": [k + 1 for k in TRUTH], "seconds": [f"{1 + j / 7:.2f}" for j in range(N)],
        "correct": [int(g == c) for g, c in zip(GUESSED, CALLED, strict=True)], "confidence": [f"{p:.6f}" for p in PROBS.max(axis=1)]},
        "3 columns are read as classes"),
    csv("the same beside logits", scores(LOGITS, form="{:.4f}") | NUMBER | {"correct": [int(g == c) for g, c in zip(GUESSED, CALLED, strict=True)],
        "confidence": [f"{p:.6f}" for p in PROBS.max(axis=1)]}, "3 columns are read as classes"),
    csv("an amount beside logits, labels from 1", scores(LOGITS, form="{:.4f}") | {"label": [k + 1 for k in TRUTH],
        "amount": [f"{90 + 13.5 * j:.2f}" for j in range(N)]}, "left out: amount"),
    csv("the same with numbered labels", scores() | NUMBER | {"correct": [int(g == c) for g, c in zip(GUESSED, CALLED, strict=True)],
        "confidence": [f"{p:.6f}" for p in PROBS.max(axis=1)]}, "3 columns are read as classes"),
    *(csv(f"log-probabilities as {form}", scores(np.log(PROBS), form) | LABEL) for form in
      ("logprob_{}", "log_prob_{}", "logp_{}", "{}_logprob")),
    # Lists as pandas writes them
    *(Case(f"lists in cells, {form}", "a.csv", frame({"y_true": TRUTH, "proba": list(map(write, PROBS.round(6)))})
           .to_csv(index=False), names=[], off=1e-4) for form, write in (
        ("of Python", lambda row: str(row.tolist())), ("of numpy", str), ("of numpy scalars", lambda row: str(list(row))),
        ("of torch", lambda row: str(torch.tensor(row, dtype=torch.float32))), ("as repr", repr))),
    Case("numbers by name in cells", "a.csv", frame({"label": CALLED, "scores": [
        str(dict(zip(NAMES, row, strict=True))) for row in PROBS.round(6).tolist()]}).to_csv(index=False)),
    # Separators, marks and encodings
    csv("semicolons", PLAIN, separator=";"),
    csv("tabs in .csv", PLAIN, separator="\t"),
    csv("tabs in .tsv", PLAIN, separator="\t", name="a.tsv"),
    csv("bars", PLAIN, separator="|"),
    csv("blanks after commas", PLAIN, separator=", "),
    csv("a .txt of commas", PLAIN, name="a.txt"),
    csv("a .txt of tabs", PLAIN, separator="\t", name="a.txt"),
    csv("a .dat of semicolons", PLAIN, separator=";", name="a.dat"),
    csv("decimal commas with semicolons", comma(scores()) | LABEL, separator=";"),
    csv("decimal commas with tabs", comma(scores()) | LABEL, separator="\t"),
    csv("decimal commas in quotes", comma(scores()) | LABEL, quote=True),
    csv("everything in quotes", PLAIN, quote=True),
    csv("lines of Windows", PLAIN, line="\r\n"),
    Case("a byte-order mark", "a.csv", text(PLAIN).encode("utf-8-sig")),
    Case("UTF-16", "a.csv", text(PLAIN).encode("utf-16")),
    Case("Latin-1", "a.csv", text(scores(names=["Käse", "dog", "owl"]) | {"label": [
        {"cat": "Käse"}.get(name, name) for name in CALLED]}).encode("latin-1"), names=["Käse", "dog", "owl"],
        says="as Windows-1252"),
    Case("packed", "a.csv.gz", gzip.compress(text(PLAIN).encode())),
    *(Case(f"packed as {name}", name, pack(text(PLAIN).encode())) for name, pack in (
        ("a.csv.bz2", bz2.compress), ("a.csv.xz", lzma.compress), ("a.csv.xz", lambda c: lzma.compress(c[:99]) + lzma.compress(c[99:])),
        ("a.csv.zip", lambda c: zipped({"a.csv": c})), ("a.zip", lambda c: zipped({"__MACOSX/._a.csv": b"x", "a/b.csv": c})),
        ("a.csv", gzip.compress))),
    Case("parquet of decimals", "a.parquet", written(lambda f: pq.write_table(pa.table(
        {name: pa.array([Decimal(f"{p:.6f}") for p in cells], pa.decimal128(10, 6)) for name, cells in numbers().items()}
        | {"label": pa.array([Decimal(k) for k in TRUTH], pa.decimal128(38, 0)),
           "id": pa.array([Decimal(10**30 + j) for j in range(N)], pa.decimal128(38, 0))}), f))),
    Case("packed tabs", "a.tsv.gz", gzip.compress(text(PLAIN, "\t").encode())),
    Case("empty lines at both ends", "a.csv", "\n" + text(PLAIN) + "\n\n"),
    Case("a remark above the header", "a.csv", "# made by train.py\n" + text(PLAIN)),
    Case("the separator of Excel above the header", "a.csv", "sep=;\n" + text(PLAIN, ";")),
    Case("a comma at the end of each line", "a.csv", text(PLAIN).replace("\n", ",\n")),
    Case("blanks around names", "a.csv", text(PLAIN).replace("cat,dog,owl,label", " cat , dog , owl , label ")),
    # No header
    csv("no header, labels last", scores() | NUMBER, "has no header", header=False, names=[]),
    csv("no header, labels first", NUMBER | scores(), "has no header", header=False, names=[]),
    csv("no header, labels from 1", {"label": [k + 1 for k in TRUTH]} | scores(), "counted from 1", header=False, names=[]),
    csv("no header, logits", NUMBER | scores(LOGITS, form="{:.4f}"), "column 1 is read as the labels", header=False, names=[]),
    csv("no header, an index and labels", {"i": [*range(N)]} | scores() | NUMBER, "has no header", header=False, names=[]),
    csv("no header, ids and labels", {"i": [70000 + 37 * j % 911 for j in range(N)]} | scores() | NUMBER, "column 5 is read as the labels",
        header=False, names=[]),
    csv("no header, names of files and labels", {"i": [f"{j}.png" for j in range(N)]} | scores() | LABEL, "column 5 is read as the labels",
        header=False),
    Case("no header, labels elsewhere", "a.csv", {"a.csv": text(scores(), header=False), "y.txt": "\n".join(map(str, TRUTH))},
         {"labels": "y.txt"}, "has no header", names=[]),
    Case("no header, names elsewhere", "a.csv", {"a.csv": text(scores() | LABEL, header=False), "names.txt": "\n".join(NAMES)},
         {"class_names": "names.txt"}, "has no header"),
    # Options
    csv("columns of classes by name", {"a": AGE, "b": AGE} | scores(LOGITS, form="{:.4f}") | LABEL,
        options={"class_columns": NAMES}),
    csv("columns to leave out", {"noise": [j / 7 for j in range(N)]} | scores(LOGITS, form="{:.4f}") | NUMBER,
        options={"ignore_columns": ["noise"]}),
    csv("a column of labels by name", scores() | {"tag": TRUTH}, options={"label_column": "tag"}),
    Case("labels in a text file", "a.csv", {"a.csv": text(scores()), "y.txt": "\n".join(CALLED)}, {"labels": "y.txt"}),
    Case("labels in a table", "a.csv", {"a.csv": text(scores()), "y.csv": text({"id": [*range(N)]} | LABEL)},
         {"labels": "y.csv"}),
    Case("labels in a list of JSON", "a.csv", {"a.csv": text(scores()), "y.json": json.dumps(CALLED)}, {"labels": "y.json"}),
    # Arrays
    Case("npz of logits", "a.npz", written(lambda f: np.savez(f, logits=LOGITS, labels=TRUTH)), names=[]),
    Case("npz of y_prob and y_true", "a.npz", written(lambda f: np.savez(f, y_prob=PROBS, y_true=TRUTH)), names=[]),
    Case("npz of preds and targets", "a.npz", written(lambda f: np.savez(f, preds=PROBS, targets=TRUTH)), names=[]),
    Case("npz without names", "a.npz", written(lambda f: np.savez(f, PROBS, TRUTH)), says="`arr_1` is read as the labels", names=[]),
    Case("npz of labels as a column", "a.npz", written(lambda f: np.savez(f, logits=LOGITS, labels=np.array(TRUTH)[:, None])), names=[]),
    Case("npz of labels as floats", "a.npz", written(lambda f: np.savez(f, logits=LOGITS, labels=np.array(TRUTH, float))), names=[]),
    Case("npz of labels as one 1 in each row", "a.npz", written(lambda f: np.savez(f, logits=LOGITS, labels=np.eye(3, dtype=int)[TRUTH])), names=[]),
    Case("npz of labels as names", "a.npz", written(lambda f: np.savez(f, logits=LOGITS, labels=CALLED, class_names=NAMES))),
    Case("npz of labels as names in the order of letters", "a.npz", written(lambda f: np.savez(f, logits=LOGITS, labels=CALLED)),
         says="in alphabetical order"),
    Case("npz of names called classes", "a.npz", written(lambda f: np.savez(f, probs=PROBS, labels=TRUTH, classes=NAMES))),
    Case("npz of features too", "a.npz", written(lambda f: np.savez(f, logits=LOGITS, y=TRUTH, features=np.ones((N, 9)))), names=[]),
    Case("npz in half precision", "a.npz", written(lambda f: np.savez(f, logits=LOGITS.astype("f2"), y=TRUTH)), names=[], off=0.002),
    Case("npy pair", "logits.npy", {"logits.npy": written(lambda f: np.save(f, LOGITS)), "labels.npy": written(lambda f: np.save(f, TRUTH))}, names=[]),
    Case("npy pair of a test set", "test_probs.npy", {"test_probs.npy": written(lambda f: np.save(f, PROBS)),
         "test_labels.npy": written(lambda f: np.save(f, TRUTH))}, names=[]),
    Case("npy pair called y", "y_prob.npy", {"y_prob.npy": written(lambda f: np.save(f, PROBS)), "y_true.npy": written(lambda f: np.save(f, TRUTH))}, names=[]),
    Case("npy of any name", "out.npy", {"out.npy": written(lambda f: np.save(f, LOGITS)), "truth.npy": written(lambda f: np.save(f, TRUTH))},
         {"labels": "truth.npy"}, "read as logits", names=[]),
    Case("pt of a dictionary", "a.pt", written(lambda f: torch.save({"logits": torch.tensor(LOGITS), "labels": torch.tensor(TRUTH)}, f)), names=[]),
    Case("pth of outputs and targets", "a.pth", written(lambda f: torch.save({"outputs": torch.tensor(LOGITS), "targets": torch.tensor(TRUTH)}, f)), names=[]),
    Case("pt of a pair", "a.pt", written(lambda f: torch.save((torch.tensor(PROBS), torch.tensor(TRUTH)), f)), names=[], says="probabilities"),
    Case("pt with names", "a.pt", written(lambda f: torch.save({"probs": torch.tensor(PROBS), "y": torch.tensor(TRUTH), "class_names": NAMES}, f))),
    Case("pt alone", "logits.pt", {"logits.pt": written(lambda f: torch.save(torch.tensor(LOGITS), f)),
         "labels.pt": written(lambda f: torch.save(torch.tensor(TRUTH), f))}, {"labels": "labels.pt"}, names=[]),
    Case("pt with its labels beside it", "logits.pt", {"logits.pt": written(lambda f: torch.save(torch.tensor(LOGITS), f)),
         "labels.pt": written(lambda f: torch.save(torch.tensor(TRUTH), f))}, names=[]),
    # Objects
    Case("lines of lists", "a.jsonl", "\n".join(json.dumps({"probs": p, "label": k}) for p, k in zip(PROBS.tolist(), TRUTH, strict=True)), names=[]),
    Case("lines of numbers by name", "a.jsonl", "\n".join(json.dumps({"probs": dict(zip(NAMES, p, strict=True)), "label": k}) for p, k in zip(PROBS.tolist(), CALLED, strict=True))),
    Case("lines of columns", "a.jsonl", frame(numbers() | LABEL).to_json(orient="records", lines=True)),
    Case("an array of objects", "a.json", frame(numbers() | LABEL).to_json(orient="records")),
    Case("an object of columns", "a.json", json.dumps(numbers() | LABEL)),
    Case("an object of pandas", "a.json", frame(numbers() | LABEL).to_json()),
    Case("an object of pandas, split", "a.json", frame(numbers() | LABEL).to_json(orient="split")),
    Case("an object of pandas, by index", "a.json", frame(numbers() | LABEL).to_json(orient="index")),
    Case("answers of a pipeline", "a.jsonl", "\n".join(json.dumps({"truth": k, "scores": [
        {"label": name, "score": q} for name, q in sorted(zip(NAMES, p, strict=True), key=lambda pair: -pair[1])]}) for p, k in zip(PROBS.tolist(), CALLED, strict=True))),
    # Tables in binary formats
    Case("parquet", "a.parquet", frame(numbers() | LABEL).to_parquet()),
    Case("parquet with an index", "a.parquet", frame(numbers() | LABEL).set_index(pd.Index(range(5, 5 + N))).to_parquet()),
    Case("parquet of lists", "a.parquet", frame({"probs": PROBS.tolist()} | NUMBER).to_parquet(), names=[]),
    Case("parquet of categories", "a.parquet", frame(numbers()).assign(label=pd.Categorical(CALLED)).to_parquet()),
    Case("parquet in float32", "a.parquet", frame(numbers(PROBS.astype("f4"))).assign(label=TRUTH).to_parquet()),
    Case("feather", "a.feather", written(frame(numbers() | LABEL).to_feather)),
    Case("arrow as polars writes it", "a.arrow", written(lambda f: feather.write_feather(arrow_table(), f))),
    Case("a stream of arrow", "a.arrow", written(streamed)),
    Case("arrow", "a.arrow", written(frame(numbers() | LABEL).to_feather)),
    Case("Excel", "a.xlsx", xlsx(numbers() | LABEL)),
    Case("Excel with texts in place", "a.xlsx", xlsx(LABEL | numbers(), shared=False)),
    Case("Excel with an index and an age", "a.xlsx", xlsx({"id": [*range(N)], "age": AGE} | numbers() | LABEL), says="left out: age"),
    # As tools write them
    Case("CatBoost", "a.tsv", text({"SampleId": [*range(N)]} | scores(name="Probability:Class={}") | {"Label": CALLED}, "\t")),
    Case("R with the names of rows", "a.csv", text({"": [*range(1, N + 1)]} | scores() | {"Species": CALLED}, quote=True),
         says="`Species` is read as the labels"),
    Case("BigQuery", "a.jsonl", "".join(json.dumps({"predicted_label": GUESSED[j], "predicted_label_probs": [
         {"label": NAMES[k], "prob": float(PROBS[j, k])} for k in np.argsort(-PROBS[j])], "label": CALLED[j]}) + "\n"
         for j in range(N))),
    Case("BigQuery with a class of one's own name", "a.jsonl", "".join(json.dumps({"predicted_species": GUESSED[j],
         "predicted_species_probs": [{"label": NAMES[k], "prob": float(PROBS[j, k])} for k in np.argsort(-PROBS[j])],
         "species": CALLED[j]}) + "\n" for j in range(N)), says="`species` is read as the labels, since `predicted_species`"),
    Case("a title and an empty line above the header", "a.csv", "=== Predictions on test data ===\n\n" + text(PLAIN)),
    Case("spaCy", "a.jsonl", "".join(json.dumps({"text": f"t{j}", "cats": dict(zip(NAMES, PROBS[j].tolist(), strict=True)),
         "gold": CALLED[j]}) + "\n" for j in range(N))),
    Case("objects below a key", "a.json", json.dumps({"model": "m", "predictions": [
         {"id": j, "scores": PROBS[j].tolist(), "label": TRUTH[j]} for j in range(N)]}), names=[]),
    Case("objects below a key beside the names", "a.json", json.dumps({"model": "m", "classes": NAMES, "rows": [
         {"scores": PROBS[j].tolist(), "label": TRUTH[j]} for j in range(N)]})),
    Case("numpy.savetxt", "a.txt", "".join(" ".join(f"{x:.18e}" for x in [*PROBS[j], TRUTH[j]]) + "\n" for j in range(N)),
         says="it alone holds whole numbers", names=[]),
    Case("SageMaker", "a.csv", text({"label": TRUTH, "probabilities": [f'"{row.round(6).tolist()}"' for row in PROBS]}), names=[]),
    csv("remarks above", {"img": [f"{j}.png" for j in range(N)]} | scores() | {"gt": CALLED}, "left out: img"),
    csv("caret's columns beside the scores", {"pred": GUESSED, "obs": CALLED} | scores() | {
        "rowIndex": [*range(1, N + 1)], "Resample": [f"Fold{j % 5}" for j in range(N)]}, "`obs` is read as the labels"),
    csv("classes of a word and a number, labels called alike", {"file": [f"{j}.png" for j in range(N)]}
        | scores(name="class_{}", names=[0, 1, 2]) | {"true_class": [f"class_{k}" for k in TRUTH]},
        names=["class_0", "class_1", "class_2"]),
    # Several files
    Case("a folder of shards", "parts", {"parts/1.csv": text({k: v[:9] for k, v in PLAIN.items()}), "parts/2.csv": text({k: v[9:] for k, v in PLAIN.items()})}),
    Case("shards with columns in another order", "parts", {"parts/1.csv": text({k: v[:9] for k, v in PLAIN.items()}),
         "parts/2.csv": text({k: v[9:] for k, v in reversed(PLAIN.items())})}, says="in another order"),
]  # fmt: skip


ROWS = [[*NAMES, "label"], *([*PROBS[j].tolist(), CALLED[j]] for j in range(N))]
LONG = [
    {"id": j, "class": NAMES[k], "prob": round(float(PROBS[j, k]), 6)} for j in range(N) for k in range(3)
]  # a row for each sample and class
LINES: Callable[[Callable[[int], Any]], str] = lambda row: "\n".join(json.dumps(row(j)) for j in range(N))  # noqa: E731


def by_name(j: int) -> dict[str, float]:
    return dict(zip(NAMES, PROBS[j].tolist(), strict=True))


def ranked(j: int) -> list[int]:
    return [int(k) for k in PROBS[j].argsort()[::-1]]


def part(columns: Columns, start: int, end: int | None = None) -> Columns:
    return {name: cells[start:end] for name, cells in columns.items()}


THREE += [
    # Exports of other programs
    csv("Kaggle's Otto beside the truth", {"id": [*range(N)]} | scores(name="Class_{}", names=[1, 2, 3])
        | {"target": [f"Class_{k + 1}" for k in TRUTH]}, "'Class_1' is '1'", names=["1", "2", "3"]),
    csv("R's row names in quotes", {"": [j + 1 for j in range(N)]} | scores() | {"obs": CALLED}, "`obs` is read", quote=True),
    csv("caret", {"pred": GUESSED, "obs": CALLED} | scores() | {"rowIndex": [*range(N)], "mtry": [2] * N,
        "Resample": [f"Fold{j % 5 + 1}" for j in range(N)]}, "left out: pred, rowIndex, mtry, Resample"),
    csv("tidymodels", {".pred_class": GUESSED} | scores(name=".pred_{}") | {".row": [*range(1, N + 1)], "species": CALLED,
        ".config": ["Preprocessor1_Model1"] * N}, "read as scores of the classes in `species`"),
    csv("SQL in capitals", {"CUSTOMER_ID": [1000 + j for j in range(N)], "SCORE_DATE": ["2026-01-01"] * N}
        | scores(name="PROB_{}", names=["CAT", "DOG", "OWL"]) | {"ACTUAL": CALLED}, names=["CAT", "DOG", "OWL"]),
    csv("whole percent with signs", scores(100 * PROBS, form="{:.0f}%") | LABEL, "rows that were rounded", off=0.02),
    csv("percent after a blank", scores(100 * PROBS, form="{:.4f} %") | LABEL),
    csv("percent signs and decimal commas", comma(scores(100 * PROBS, form="{:.4f}%")) | LABEL, separator=";"),
    csv("percent with decimal commas beside thousands with points", {"Chars": [str(300 + 37 * j) if j % 3 else f"{j + 1}.593" for j in range(N)]}
        | comma(scores(100 * PROBS, form="{:.3f}")) | LABEL, "left out: Chars", separator=";"),
    csv("points beside thousands with commas", {"length": [f"{j + 1},593" for j in range(N)]} | scores(form="{:.3f}") | LABEL,
        "left out: length", quote=True, off=1e-3),
    csv("percent called probabilities", scores(100 * PROBS, "prob_{}", "{:.2f}") | LABEL, "read as percent", off=1e-3),
    csv("percent that --probs states", scores(100 * PROBS) | LABEL, "read as percent", options={"kind": "probs"}),
    csv("percent beside a number of their size", {"length": [f"{j + 1}.593" for j in range(N)]} | scores(100 * PROBS) | LABEL,
        "left out: length"),
    csv("Keras", {"filename": [f"{j}.jpg" for j in range(N)]} | scores(names=[0, 1, 2]) | {"true_class": CALLED},
        "the labels in alphabetical order"),
    csv("fastai", {"fname": [f"{j}.jpg" for j in range(N)], "label": CALLED, "pred": GUESSED, "loss": [j / 10 for j in range(N)]}
        | scores(name="prob_{}"), "left out: fname, pred, loss"),
    csv("AutoGluon", scores() | {"class_true": CALLED}, "`class_true` is read as the labels"),
    csv("a function's name before the class", scores(name="predict_proba_{}") | {"y_test": CALLED}, "the classes in `y_test`"),
    csv("columns by their places", scores(name="Column_{}", names=[0, 1, 2]) | {"y": TRUTH}, names=[f"Column_{k}" for k in range(3)]),
    csv("KNIME", {"Row ID": [f"Row{j}" for j in range(N)], "species": CALLED} | scores(name="P (species={})")
        | {"Prediction (species)": GUESSED}, "the classes in `species`"),
    csv("RapidMiner", {"species": CALLED, "prediction(species)": GUESSED} | scores(name="confidence({})"), "`species` is read"),
    csv("SAS", {"F_species": CALLED, "I_species": GUESSED} | scores(name="P_species{}"), "the classes in `F_species`"),
    csv("labels with a word before", {"": [*range(N)]} | scores() | {"species": [f"Pet-{name}" for name in CALLED]}, "the classes in `species`, Pet-cat",
        names=[f"Pet-{name}" for name in NAMES]),
    csv("SPSS", {"species": CALLED, "PRE_1": GUESSED} | scores(name="EST1_{}"), "the classes in `species`"),
    csv("DataRobot", {"row_id": [*range(N)]} | scores(name="Prediction {}") | {"Prediction": GUESSED, "species (actual)": CALLED},
        "`species (actual)` is read as the labels"),
    csv("Vertex AI", {"image": ["x"] * N} | scores(name="species_{}_scores") | {"species": CALLED}, "the classes in `species`"),
    csv("a model's name before logits", {"id": [*range(N)]} | scores(LOGITS, "resnet50_logit_{}", "{:.4f}") | LABEL, "read as logits"),
    csv("classes called by numbers with exponents", scores(names=["1E10", "2E11", "3E12"])
        | {"target": [["1E10", "2E11", "3E12"][k] for k in TRUTH]}, names=["1E10", "2E11", "3E12"]),
    csv("a unit after the class", scores(100 * PROBS, "{} [%]") | LABEL, "read as percent"),
    csv("classes with a path", scores(names=[f"animal/{name}" for name in NAMES]) | {"label": [f"animal/{name}" for name in CALLED]},
        names=[f"animal/{name}" for name in NAMES]),
    csv("WordNet's numbers", scores(names=["n02123045", "n02123159", "n02123394"])
        | {"label": [["n02123045", "n02123159", "n02123394"][k] for k in TRUTH]}, names=["n02123045", "n02123159", "n02123394"]),
    csv("labels in quotes", scores() | {"label": [f"'{name}'" for name in CALLED]}, "in any spelling"),
    csv("labels as lists of one", scores() | {"label": [f"['{name}']" for name in CALLED]}, "in any spelling"),
    csv("classes from −1", scores(name="p_{}", names=[-1, 0, 1]) | {"label": [k - 1 for k in TRUTH]}, names=["-1", "0", "1"]),
    # Joined, titled and long
    Case("two files joined with their headers", "a.csv", text(part(PLAIN, 0, 9)) + text(part(PLAIN, 9)),
         says="has its header once more among its rows, as joined files have, which is left out: line 11"),
    Case("three files joined with ids", "a.csv", "".join(text(part({"id": [*range(N)]} | scores() | NUMBER, k, k + 8)) for k in (0, 8, 16)),
         says="has its header 2 more times"),
    Case("a title above the table", "a.csv", "Results of run 7;;;\n" + text(comma(scores()) | LABEL, ";")),
    Case("a title alone on its line", "a.csv", "Results of run 7\n" + text(PLAIN)),
    *(Case(f"titles above the table: {what}", "a.csv", above + text(PLAIN), says="what stands above its header, 'Results")
      for what, above in (("two lines", "Results of run 7\nmade by X\n"), ("and an empty line", "Results of run 7\nby X\n\n"),
                          ("padded", "Results of run 7,,,\n"), ("two, padded", "Results of run 7,,,\nmade by X,,,\n"),
                          ("and a line of separators", "Results of run 7,,,\n,,,\n"), ("of two cells", "Results,7 May\n"))),
    Case("empty columns at the end", "a.csv", text(PLAIN).replace("\n", ",,,\n")),
    Case("a row of units", "a.csv", text(scores(100 * PROBS) | LABEL).replace("label\n", "label\n%,%,%,\n"), says="units such as '%'"),
    csv("minus signs as printed", {k: [c.replace("-", "\u2212") for c in v] for k, v in scores(LOGITS).items()} | LABEL),
    *(Case(f"{code} without a mark", "a.csv", text(PLAIN).encode(code)) for code in ("utf-16-le", "utf-16-be")),
    Case("a workbook with titles", "a.xlsx", sheet([["Results, of run 7"], ["made\nby X"], [], *ROWS]), says="above its header"),
    Case("a workbook with numbers as texts", "a.xlsx", sheet([[str(cell) for cell in row] for row in ROWS])),
    Case("a workbook with decimal commas", "a.xlsx", sheet([ROWS[0], *([*(f"{x:.6f}".replace(".", ",") for x in row[:3]),
         row[3]] for row in ROWS[1:])])),
    Case("a workbook with some decimal commas", "a.xlsx", sheet([ROWS[0], *([f"{row[0]:.6f}".replace(".", ","), *row[1:]]
         for row in ROWS[1:])])),
    Case("a workbook with percent signs", "a.xlsx", sheet([ROWS[0], *([*(f"{100 * x:.4f} %".replace(".", ",") for x in row[:3]),
         row[3]] for row in ROWS[1:])])),
    Case("a workbook with a row of units", "a.xlsx", sheet([ROWS[0], ["%", "%", "%"], *([*(100 * x for x in row[:3]), row[3]]
         for row in ROWS[1:])]), says="units such as '%'"),
    Case("a row for each sample and class, and the label", "a.csv", frame([row | {"label": CALLED[row["id"]]} for row in LONG]).to_csv(index=False),
         says="the 3 rows of each `id` are joined"),
    Case("a row for each sample and class, and whether it is true", "a.csv",
         frame([row | {"is_true": int(CALLED[row["id"]] == row["class"])} for row in LONG]).to_csv(index=False),
         says="the 3 rows of each `id` are joined"),
    # JSON of services
    Case("a pipeline's scores of all classes", "a.jsonl", LINES(lambda j: {"text": "t", "label": CALLED[j],
         "scores": [{"label": NAMES[k], "score": float(PROBS[j, k])} for k in ranked(j)]})),
    Case("a pipeline's lists", "a.json", {"a.json": json.dumps([[{"label": NAMES[k], "score": float(PROBS[j, k])} for k in ranked(j)]
         for j in range(N)]), "y.txt": "\n".join(CALLED)}, {"labels": "y.txt"}),
    Case("zero-shot answers", "a.jsonl", LINES(lambda j: {"sequence": "t", "labels": [NAMES[k] for k in ranked(j)],
         "scores": [float(PROBS[j, k]) for k in ranked(j)], "gold": CALLED[j]})),
    Case("a service's answer below a key", "a.jsonl", LINES(lambda j: {"id": f"r{j}", "input": {"text": "x"},
         "response": {"probabilities": by_name(j), "model": "m1"}, "expected": CALLED[j]})),
    Case("a service's list of classes", "a.jsonl", LINES(lambda j: {"id": f"r{j}", "ground_truth": CALLED[j],
         "predictions": [{"class": NAMES[k], "probability": float(PROBS[j, k])} for k in ranked(j)]})),
    Case("objects by id", "a.json", json.dumps({f"img{j}": {"probs": by_name(j), "label": CALLED[j]} for j in range(N)})),
    # Arrays
    Case("npz of one-hot labels", "a.npz", written(lambda f: np.savez(f, y_pred=PROBS, y_true=np.eye(3)[TRUTH])), names=[]),
    Case("npz with the inputs", "a.npz", written(lambda f: np.savez(f, y_test=TRUTH, preds=PROBS, x_test=np.zeros((N, 4)))), names=[]),
    Case("npz with features", "a.npz", written(lambda f: np.savez(f, logits=LOGITS, features=np.ones((N, 8)), targets=TRUTH)), names=[]),
    # Rows that a spreadsheet adds, and headers of other programs
    *(Case(f"a row {what}", "a.csv", text(columns) + row, says=f"line {N + 2} sums up the rows above, and is left out")
      for what, columns, row in (
        ("of means without numbers", PLAIN, "Mean,,,\n"),
        ("of means beside ids", {"id": [*range(N)]} | PLAIN, f"Average,{','.join(f'{p:.4f}' for p in PROBS.mean(axis=0))},\n"),
        ("of sums beside names", {"file": [f"{j}.png" for j in range(N)]} | PLAIN,
         f"Summe:,{','.join(f'{p:.4f}' for p in PROBS.sum(axis=0))},\n"))),
    Case("rows of sums and means", "a.csv", text({"": [*range(N)]} | PLAIN) + "Total,12,6,6,\nMean,.5,.25,.25,\n",
         says=f"line {N + 2} and those below it sum up the rows above, and are left out"),
    Case("a row of means in a workbook", "a.xlsx", xlsx({"name": [*(f"{j}.png" for j in range(N)), "Mean"]}
         | {name: [*cells, 0.33] for name, cells in numbers().items()} | {"label": [*CALLED, None]}), says="sums up the rows above"),
    Case("a workbook in which a label is missing", "a.xlsx", xlsx({name: [*cells, 0.25] for name, cells in (numbers() | {
         "yak": [0.0] * N}).items()} | {"label": [*CALLED, None]}), says="has no label in `label`", names=[*NAMES, "yak"]),
    *(Case(f"Weka's distribution, {what}", "a.csv", f"{above}inst#,actual,predicted,error,distribution{more}\n" + "".join(
           f"{j + 1},{TRUTH[j] + 1}:{CALLED[j]},{GUESSED[j]},{'' if GUESSED[j] == CALLED[j] else '+'},"
           + ",".join(f"{'*' if p == max(row) else ''}{p:.3f}" for p in row) + "\n" for j, row in enumerate(PROBS)),
           says="the 3 numbers under `distribution` are read as those of cat, dog, owl", off=2e-3)
      for what, above, more in (("with a cell for each class", "", ",,"), ("below a title", "=== Predictions on test data ===\n\n", ""))),
    *(Case(f"Orange, {what}", "a.tab", "\n".join("\t".join(map(str, row)) for row in [
           ["length", "species", "Tree", *(f"Tree ({name})" for name in NAMES)], types, ["", "class", *["meta"] * 4],
           *zip(AGE, CALLED, GUESSED, *PROBS.round(6).T.tolist(), strict=True)]), says="types and roles of columns as Orange writes them")
      for what, types in (("long words", ["continuous", "cat dog owl", "discrete", *["continuous"] * 3]), ("letters", [*"cddccc"]))),
    Case("R's names of rows without a name", "a.csv", "cat,dog,owl,obs\n" + text({"": [f"r{j}" for j in range(N)]} | scores()
         | {"obs": CALLED}, header=False), says="its header has no name for the first column"),
    Case("R's write.table", "a.txt", '"cat" "dog" "owl" "obs"\n' + text({"": [f'"{j + 1}"' for j in range(N)]} | scores() | {
         "obs": [f'"{name}"' for name in CALLED]}, " ", header=False), says="its header has no name for the first column"),
    Case("a separator at the end of each row alone", "a.csv", text(PLAIN).replace("\n", ",\n").replace(",\n", "\n", 1)),
    csv("MATLAB", {"Ytrue": CALLED, "Ypred": GUESSED} | scores(name="scores_{}", names=[1, 2, 3]), "the labels in alphabetical order"),
    Case("ranked lists", "a.csv", text({"target": TRUTH, "label": [f'"{ranked(j)}"' for j in range(N)],
         "prob": [f'"{sorted(PROBS[j].round(6).tolist(), reverse=True)}"' for j in range(N)]}),
         says="the classes that `label` lists", names=BARE),
    # Services, nested
    Case("Vertex AI's batches", "a.jsonl", LINES(lambda j: {"instance": {"content": "x", "label": CALLED[j]}, "prediction": {
         "ids": ["1", "2", "3"], "displayNames": [NAMES[k] for k in ranked(j)],
         "confidences": [float(PROBS[j, k]) for k in ranked(j)]}})),
    Case("Vertex AI's tables", "a.jsonl", LINES(lambda j: {"instance": {"age": "4", "target": CALLED[j]},
         "prediction": {"classes": NAMES, "scores": PROBS[j].tolist()}}), says="since rows sum to 1"),
    Case("Spark's vectors", "a.jsonl", LINES(lambda j: {"label": float(TRUTH[j]), "probability": {"type": 1, "values": PROBS[j].tolist()},
         "prediction": float(PROBS[j].argmax())}), names=[]),
    Case("a batch of chat completions", "a.jsonl", LINES(lambda j: {"custom_id": f"r{j}", "expected": CALLED[j], "response": {"body": {
         "choices": [{"message": {"content": GUESSED[j]}, "logprobs": {"content": [{"token": GUESSED[j], "top_logprobs": [
             {"token": NAMES[k], "logprob": float(np.log(PROBS[j, k]))} for k in ranked(j)]}]}}]}}})),
]  # fmt: skip


def binary(
    what: str, columns: Columns, says: str = "", names: list[str] | None = None, name: str = "a.csv", **options: Any
) -> Case:
    return Case(what, name, text(columns), options, says, names=names)


def called(no: Any, yes: Any) -> list[Any]:
    return [yes if k else no for k in YES]


P = POSITIVE.tolist()
ODDS = LOGITS[:, 0].tolist()
TWO = [
    *(binary(f"{label},{score}", {label: YES, score: P}, "the score of class 1") for label, score in (
        ("y_true", "y_prob"), ("y_true", "y_score"), ("label", "score"), ("label", "prob"), ("label", "probability"),
        ("target", "prediction"), ("y_true", "y_pred"), ("y", "p"), ("Label", "Prob"), ("actual", "predicted"),
        ("churn", "churn_probability"), ("diagnosis", "risk"), ("y_true", "y_pred_proba"), ("label", "prob_1"),
        ("y", "yhat"))),
    binary("a score before the labels", {"y_prob": P, "y_true": YES}, "the score of class 1"),
    binary("Azure", {"age": AGE, "Income": called("<=50K", ">50K"), "Scored Labels": [">50K" if p > 0.5 else "<=50K" for p in P],
                     "Scored Probabilities": P}, "the words of `Scored Labels`", ["<=50K", ">50K"]),
    binary("errors beside labels and a score", {"y_true": YES, "y_prob": P, "error": [int((p > 0.5) != y) for p, y in zip(P, YES, strict=True)]},
           "the score of class 1"),
    binary("XGBoost's margin", {"margin": ODDS, "label": YES}, "read as log-odds"),
    binary("H2O", {"predict": [int(p > 0.5) for p in P], "p0": [round(1 - p, 4) for p in P], "p1": P, "actual": YES}, "left out: predict"),
    binary("both scores beside the truth", {"mail": [f"m{j}" for j in range(N)], "ham_prob": [round(1 - p, 4) for p in P],
                                            "spam_prob": P, "is_spam": YES}, "`is_spam` is read as the labels", ["ham", "spam"]),
    binary("both scores beside the truth of the first", {"is_fraud": YES, "prob_fraud": P, "prob_legit": [round(1 - p, 4) for p in P]},
           "`is_fraud` is read as the labels, 1 for fraud", ["legit", "fraud"]),
    binary("a predicted risk and its outcome", {"patient_id": [*range(N)], "predicted_risk": P, "outcome": YES},
           "`predicted_risk` is read as the confidence of pairs, `outcome` as whether it was right", ["wrong", "right"]),
    binary("features beside a score", {"Time": [60 * j for j in range(N)], "V1": LOGITS[:, 1].tolist(), "V2": LOGITS[:, 2].tolist(),
                                       "Amount": [12.5 * j for j in range(N)], "score": P, "Class": YES}, "left out: Time, V1, V2, Amount"),
    binary("a rate of default", {"loan_id": [*range(N)], "amount": [1000 * j for j in range(N)], "PD": P, "default_flag": YES},
           "`default_flag` is read as the labels"),
    binary("an id too", {"id": [*range(N)], "target": YES, "pred": P}, "the score of class 1"),
    binary("answers of a threshold too", {"y_true": YES, "y_pred": [int(p > 0.5) for p in P], "y_prob": P}, "`y_prob` is read"),
    binary("an age too", {"age": AGE, "y_true": YES, "y_prob": P}, "`y_prob` is read"),
    binary("log-odds", {"y_true": YES, "y_score": ODDS}, "log-odds"),
    binary("labels as floats", {"y_true": [float(k) for k in YES], "y_prob": P}, "the score of class 1"),
    binary("truth values", {"y_true": called("False", "True"), "y_prob": P}, "the score of class True", ["False", "True"]),
    binary("small truth values", {"y_true": called("false", "true"), "y_prob": P}, "the score of class true", ["false", "true"]),
    binary("minus one", {"y_true": called(-1, 1), "y_prob": P}, "the score of class 1", ["-1", "1"]),
    *(binary(f"{yes} or {no}", {"y_true": called(no, yes), "y_prob": P}, f"the score of class {yes}", [no, yes]) for no, yes in
      (("no", "yes"), ("No", "Yes"), ("negative", "positive"), ("neg", "pos"), ("n", "y"), ("not spam", "spam"), ("good", "not good")[::-1],
       ("F", "T"))),
    binary("a score that names its class", {"label": called("ham", "spam"), "prob_spam": P}, "the score of class spam", ["ham", "spam"]),
    binary("a score called after its class", {"label": called("ham", "spam"), "spam": P}, "the score of class spam", ["ham", "spam"]),
    binary("a score for a stated class", {"label": called("ham", "spam"), "score": P}, names=["ham", "spam"], positive_class="spam"),
    binary("two columns", {"prob_0": [1 - p for p in P], "prob_1": P, "label": YES}, names=["0", "1"]),
    binary("two columns of words", {"P(no)": [1 - p for p in P], "P(yes)": P, "label": called("no", "yes")}, names=["no", "yes"]),
    binary("features beside the score of a model", {"Fare": [7.5 * j for j in range(N)], "Survived": YES, "pred_survived": P},
           "left out: Fare"),
    binary("the words of a bank", {"ID": [f"TX-{j}" for j in range(N)], "Amount (USD)": [f"{9.87 * j:.2f}" for j in range(N)],
           "Model Score": P, "Decision": ["PASS" if p < 0.5 else "REVIEW" for p in P], "Chargeback?": called("No", "Yes")},
           "`Chargeback?` is read as the labels", ["No", "Yes"]),
    binary("an income and the probability of default", {"income": [100.5 * j for j in range(N)], "defaulted": YES, "pd": P}, "`pd` is read"),
    binary("features around 0", {"feature_0": LOGITS[:, 1].tolist(), "feature_1": LOGITS[:, 2].tolist(), "y_test": YES, "y_proba_1": P},
           "left out: feature_0, feature_1"),
    binary("a case, a sex and a body", {"Case #": [*range(1, N + 1)], "Gender": ["M", "F"] * (N // 2), "BMI": [20 + j / 3 for j in range(N)],
           "Recurrence (Y/N)": called("N", "Y"), "Predicted risk": P}, "the score of class Y", ["N", "Y"]),
    binary("labels beside a score that names one", {"credit": called("good", "bad"), "prob_bad": P, "amount": [3.5 * j for j in range(N)]},
           "`credit` is read as the labels", ["good", "bad"]),
    binary("such labels in capitals", {"status": called("STAY", "CHURN"), "churn_prob": P, "tenure": AGE}, "`status` is read as the labels",
           ["STAY", "CHURN"]),
    binary("a score in percent", {"is_spam": YES, "spam_score": [100 * p for p in P], "length": AGE}, "read as percent"),
    csv("columns that only count, beside words", {"LABEL_1": P, "LABEL_0": [round(1 - p, 4) for p in P], "label": called("neg", "pos")},
        "its scores are taken to be of neg, pos", names=["neg", "pos"]),
    *(csv(f"{yes} before {no}, beside 0 and 1", {"y": YES, form.format(yes): P, form.format(no): [round(1 - p, 4) for p in P]},
          f"`{form.format(yes)}` is of the positive class", names=[no, yes])
      for no, yes, form in (("no", "yes", "prob_{}"), ("No", "Yes", "{}"), ("negative", "positive", "{}"), ("false", "true", "p_{}"))),
    csv("yes before no, beside these words", {"obs": called("No", "Yes"), "Yes": P, "No": [round(1 - p, 4) for p in P]},
        "`Yes` is of the positive class", names=["No", "Yes"]),
    binary("dummies beside a score", {"sex_F": [j % 2 for j in range(N)], "sex_M": [1 - j % 2 for j in range(N)], "y": YES, "y_prob": P},
           "left out: sex_F, sex_M"),
    binary("shares that sum to 1 beside a score", {"sand": PROBS[:, 0].tolist(), "silt": PROBS[:, 1].tolist(), "clay": PROBS[:, 2].tolist(),
           "y_true": YES, "y_prob": P}, "left out: sand, silt, clay"),
    binary("a share that is called percent", {"is_fraud": YES, "fraud_pct": P}, "the score of class 1", kind="probs"),
    binary("a probability in percent", {"y_true": YES, "y_prob": [100 * p for p in P]}, "read as percent"),
    binary("words of another language", {"Umsatz": [7.5 * j for j in range(N)], "Gekündigt": called("nein", "ja"),
           "Wahrscheinlichkeit": P}, "`Gekündigt` is read as the labels", ["nein", "ja"]),
    binary("an answer and the score of one class", {"truth": called("cat", "dog"), "pred": ["dog" if p > 0.5 else "cat" for p in P], "prob": P},
           "the score of class dog", ["cat", "dog"]),
    binary("the distance from a border", {"target": YES, "decision_function": ODDS}, "log-odds"),
    binary("a score whose name nobody knows", {"event": YES, "susp": ODDS}, "log-odds"),
    Case("no header", "a.csv", text({"y": YES, "p": P}, header=False), says="has no header"),
    Case("npz of scores", "a.npz", written(lambda f: np.savez(f, y_prob=POSITIVE, y_true=YES)), says="the score of class 1"),
    Case("npz of a column of scores", "a.npz", written(lambda f: np.savez(f, probs=POSITIVE[:, None], labels=YES)), says="the score of class 1"),
    Case("npz of truth values", "a.npz", written(lambda f: np.savez(f, probs=POSITIVE, labels=np.array(YES, bool))), says="the score of class True", names=["False", "True"]),
    Case("npy of scores", "probs.npy", {"probs.npy": written(lambda f: np.save(f, POSITIVE)), "labels.npy": written(lambda f: np.save(f, YES))},
         says="the score of class 1"),
    Case("lines of objects", "a.jsonl", "\n".join(json.dumps({"label": k, "score": p}) for k, p in zip(YES, P, strict=True)), says="the score of class 1"),
    Case("lines of truth values", "a.jsonl", "\n".join(json.dumps({"label": bool(k), "score": p}) for k, p in zip(YES, P, strict=True)), says="the score of class True",
         names=["False", "True"]),
    Case("parquet of truth values", "a.parquet", frame({"label": np.array(YES, bool), "score": P}).to_parquet(), says="the score of class True",
         names=["False", "True"]),
    Case("Excel of truth values", "a.xlsx", xlsx({"label": [bool(k) for k in YES], "score": P}), says="the score of class True",
         names=["False", "True"]),
]  # fmt: skip

GAMES = ["H" if k else "D" if j % 3 else "A" for j, k in enumerate(YES)]
TWO += [
    binary("football", {"home": ["x"] * N, "away": ["y"] * N, "home_win_prob": P, "FTR": GAMES},
           "`home_win_prob` is read as the score of class H; other labels (D, A) count as not H", ["not H", "H"]),
    binary("football results", {"home_win_prob": P, "result": GAMES}, "since it holds H, which `home_win_prob` is called after", ["not H", "H"]),
    binary("one class of three", {"label": ["cat" if k else "dog" if j % 3 else "owl" for j, k in enumerate(YES)], "prob_cat": P},
           "other labels (dog, owl) count as not cat", ["not cat", "cat"]),
    binary("one class of three, by option", {"label": ["cat" if k else "dog" if j % 3 else "owl" for j, k in enumerate(YES)], "score": P},
           "count as not cat", ["not cat", "cat"], positive_class="cat"),
    binary("a submission beside the truth", {"id": [*range(N)], "target_true": YES, "target": P}, "`target` is read as the score of class 1"),
    binary("passengers", {"PassengerId": [*range(N)], "Survived": YES, "Survived_pred": P}, "`Survived` is read as the labels"),
    binary("a score with percent signs", {"y_true": YES, "y_prob": [f"{100 * p:.2f}%" for p in P]}, "the score of class 1"),
    binary("Excel's truth values", {"Churned": called("FALSE", "TRUE"), "Score": P}, "the score of class TRUE", ["FALSE", "TRUE"]),
    binary("chances of rain", {"date": ["2026-01-01"] * N, "pop": [f"{100 * p:.2f}%" for p in P], "rained": called("no", "yes")},
           "`rained` is read as the labels", ["no", "yes"]),
    Case("SageMaker's inputs beside the score", "a.csv", text({"age": AGE, "amount": [3.5 * j for j in range(N)], "y": YES, "p": P}, header=False),
         says="`column 4` is read as the score of class 1"),
    Case("a row of sums beside a score", "a.csv", text({"id": [f"c{j}" for j in range(N)], "y_true": YES, "y_prob": P})
         + f"Sum,{sum(YES)},{sum(P):.4f}\n", says="sums up the rows above"),
    Case("a row of means beside a score", "a.csv", text({"id": [f"c{j}" for j in range(N)], "y_true": YES, "y_prob": P})
         + f"Mean,{sum(YES) / N:.3f},{sum(P) / N:.4f}\n", says="sums up the rows above"),
    Case("Weka's distribution of two classes", "a.csv", "inst#,actual,predicted,error,distribution,\n" + "".join(
         f"{j + 1},{k + 1}:{'ny'[k]},1:n,,{1 - p:.4f},*{p:.4f}\n" for j, (k, p) in enumerate(zip(YES, P, strict=True))), names=["n", "y"]),
    binary("elections", {"candidate": ["c"] * N, "prob_win": P, "won": YES}, "`won` is read as the labels"),
]  # fmt: skip

REFUSED = [
    ("a note below the table", "a.csv", text(PLAIN) + "\nSource: internal\n", {},
     "a.csv, line 27 has 1 cell, the first 'Source: internal', and its header has 4"),
    ("two tables in an archive", "a.zip", zipped({"a.csv": b"a,b", "b.csv": b"a,b"}), {}, "must hold one table, it holds 2, a.csv, b.csv"),
    ("pictures in an archive", "a.zip", zipped({"a.png": b"x"}), {}, "is a zip archive of no known format: it holds a.png"),
    ("half of an xz file", "a.csv.xz", lzma.compress(text(PLAIN).encode())[:-40], {}, "it ends too early"),
    ("an xz file that asks for much memory", "a.csv.xz", lzma.compress(b"a,b", filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 2**28}]), {},
     "Memory usage limit exceeded"),
    *((f"much in a small {name}", name, pack(b"0" * 2**25), {}, "more than the .* allowed") for name, pack in (
        ("a.csv.zip", lambda c: zipped({"a.csv": c})), ("a.csv.xz", lambda c: lzma.compress(c, preset=0)))),
    ("a bound among numbers", "a.csv", text(PLAIN | {"cat": ["<0.01", *PLAIN["cat"][1:]]}), {},
     "a.csv, line 2: `cat` must hold numbers, got '<0.01', a bound and no number"),
    ("a word among the numbers of a workbook", "a.xlsx", sheet([["title"], [], *ROWS, ["oops", 0.5, 0.5, "cat"]]), {},
     f"a.xlsx, line {N + 4}: `cat` must hold numbers, got 'oops'"),
    ("columns without a name", "a.csv", text({"": AGE} | PLAIN | {" ": AGE}), {}, "no name for columns 1, 6"),
    ("NULs in text", "a.csv", text(PLAIN).replace("cat,dog,owl", "c\0at,dog,owl"), {}, "holds NUL characters"),
    ("a price", "a.csv", text({"price": [100 * p for p in P], "sold": YES}), {}, "is `price` a score\\? .* --positive-class"),
    *((f"logarithms to the base {base}", "a.csv", text(scores(np.log(PROBS) / np.log(base)) | LABEL), {},
       f"logarithms of probabilities to the base {base}, .* multiply them by {np.log(base):.6f}") for base in (2, 10)),
    ("an outcome in two words", "a.csv", text({"patient": [f"P{j}" for j in range(N)], "risk_pct": [100 * p for p in P],
     "outcome": called("alive", "dead")}), {}, "--positive-class alive or --positive-class dead"),
    ("three people's labels", "a.csv", text(scores() | {f"ann_{k}": CALLED[k:] + CALLED[:k] for k in (1, 2, 3)}), {},
     '--label-column "ann_1" or --label-column "ann_2"'),
    ("two models", "a.csv", text({"label": YES, "a_prob": P, "b_prob": P[::-1]}), {}, "--class-columns a_prob or --class-columns b_prob"),
    ("distances", "a.csv", text(scores(-np.log(PROBS), name="dist_{}") | LABEL), {}, "the label must be a number or one of the classes"),
    ("a label that is no class", "a.csv", text(scores() | {"label": ["unknown", *CALLED[1:]]}), {}, "line 2: the label must be"),
    ("predictions without scores", "a.csv", text({"id": [*range(N)], "y_true": TRUTH, "y_pred": TRUTH[::-1]}), {},
     "must have a column for each class"),
    ("two readings: ham or spam", "a.csv", text({"label": called("ham", "spam"), "score": P}), {},
     r"--positive-class ham or --positive-class spam"),
    ("a class that no label is", "a.csv", text({"label": called("ham", "spam"), "score": P}), {"positive_class": "nonsense"},
     r"--positive-class must be ham or spam"),
    ("a class that no number is", "a.csv", text({"label": YES, "score": P}), {"positive_class": "nonsense"}, "--positive-class must be"),
    ("whole numbers from 0", "a.csv", text(scores(np.arange(3 * N).reshape(N, 3), form="{:.0f}") | NUMBER), {}, "--logits .* --probs"),
    ("numbers from 0 to 1 that sum to anything", "a.csv", text(scores(PROBS[:, [0, 0, 1]], form="{:.5f}") | NUMBER), {}, "--logits .* --probs"),
    ("years that may be a class", "a.csv", text({"tenure": AGE} | scores(LOGITS, form="{:.4f}") | {"label": [k % 2 for k in TRUTH]}), {},
     "--class-columns, or .*--ignore-columns tenure"),
    ("logits and other probabilities", "a.csv", text(scores(LOGITS, "logit_{}", "{:.4f}") | scores(PROBS[::-1], name="prob_{}") | LABEL), {},
     "holds columns of logits and of probs; type --logits or --probs"),
    ("a column twice", "a.csv", text(PLAIN).replace("cat,dog", "cat,cat"), {}, "`cat` appears twice"),
    ("scores of two models", "a.csv", text({"bounced": YES, "model_v2_prob": P, "model_v3_prob": [p / 2 for p in P]}), {},
     "--class-columns model_v2_prob or --class-columns model_v3_prob"),
    ("yes and no that the score knows nothing of, beside two words", "a.csv", text({"smoker": ["yes", "no"] * (N // 2),
     "status": called("alive", "dead"), "risk": P}), {}, "labels in smoker or status; .* --label-column"),
    ("logarithms of one score", "a.csv", text({"y_true": YES, "logprob": np.log(P).tolist()}), {}, "no number is above 0.*--logits"),
    ("truth that breaks off", "a.csv", text(bits("true_{}") | scores(name="p_{}")) + "1,0,0,0.1,0.2,0.7\n" * 90 + "1,1,0,0.1,0.2,0.7\n", {},
     r"line 116: true_cat, true_dog, true_owl must hold one 1 and else zeros"),
    ("several labels per sample", "a.csv", text({f"true_{name}": [j % k for j in range(N)] for name, k in zip(NAMES, (2, 2, 2), strict=True)} | scores(name="p_{}")), {},
     "several per sample.*--multi-label"),
    ("labels of two readers", "a.csv", text({"reader 1": CALLED, "reader 2": CALLED[::-1]} | scores(name="p_{}")), {},
     '--label-column "reader 1" or --label-column "reader 2"'),
    ("a list cut short", "a.csv", frame({"y_true": TRUTH, "proba": ["[0.1 ... 0.2]"] * N}).to_csv(index=False), {}, "cut short"),
    ("an empty file", "a.csv", "", {}, "empty"),
    ("a header alone", "a.csv", "cat,dog,owl,label\n", {}, "at least one row"),
    ("a pickle", "a.pkl", b"\x80\x04K\x01.", {}, "pickle, which is never read.* numpy.savez"),
    ("a model instead of its output", "a.pt", written(lambda f: torch.save(torch.nn.Linear(2, 2).state_dict(), f)), {}, "weights of a network"),
    ("a missing score", "a.csv", text(PLAIN).replace(PLAIN["cat"][5], "", 1), {}, "`cat`.*empty"),
    ("an unknown label", "a.csv", text(scores() | {"label": ["cow", *CALLED[1:]]}), {}, "line 2: the label must be .*, got 'cow'"),
]  # fmt: skip

REFUSED += [
    ("a row for each sample and class, one lost", "a.csv", frame(LONG[:40] + LONG[41:]).to_csv(index=False), {},
     "line 41 begins a sample, 13, that does not have each of the 3 classes"),
    ("names with numbers in two orders", "a.npz", written(lambda f: np.savez(f, logits=np.tile(LOGITS, (1, 4)), labels=[
     f"c{j % 12}" for j in range(N)])), {}, "order of the alphabet, c0, c1, c10 .* --class-names"),
    ("marks of a judge", "a.csv", text({"expected": CALLED, "output": GUESSED, "score": [
     int(a == b) for a, b in zip(CALLED, GUESSED, strict=True)]}), {}, "there must be a column for each"),
    ("grades", "a.csv", text({"correct": YES, "confidence": [round(10 * p) for p in P]}), {}, "as grades do.* divide it"),
    ("the likeliest classes alone", "a.csv", text({"target": TRUTH, "label": [f'"[{j % 7}, 8, 9]"' for j in range(N)],
     "prob": ['"[0.6, 0.3, 0.1]"'] * N}), {}, "the likeliest classes alone, those in `label`"),
    ("logits of two models", "a.csv", text({"label": YES, "logit_lr": LOGITS[:, 0].tolist(), "logit_xgb": [2 * v + 0.1 for v in LOGITS[:, 0]]}),
     {}, "`logit_lr` and `logit_xgb` rise and fall together, .* --class-columns logit_lr, or both"),
    ("scores before and after", "a.csv", text({"label": YES, "score_before": LOGITS[:, 0].tolist(), "score_after": [v / 2 for v in LOGITS[:, 0]]}),
     {}, "rise and fall together"),
    ("percent that may be shares", "a.csv", text({"is_fraud": YES, "fraud_pct": P}), {}, "type --probs if 0.5 means 50 %"),
    ("a third label beside yes and no", "a.csv", text({"y_true": [*called("no", "yes")[:-2], "unknown", "unknown"], "y_prob": P}), {},
     "labels of more than two kinds, .*unknown"),
]  # fmt: skip


def put(folder: Path, case: Case) -> Path:
    """Write the files of a case."""
    contents = case.content if isinstance(case.content, dict) else {case.name: case.content}
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder / case.name


def loaded(folder: Path, case: Case) -> tuple[Any, str]:
    """The predictions of a case, and the sentences about what was assumed."""
    path = put(folder, case)
    options = {
        key: folder / value if key in ("labels", "class_names") else value for key, value in case.options.items()
    }
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = predictions.load(path, **options)
    assert all(issubclass(warning.category, Assumption) for warning in said), [str(warning.message) for warning in said]
    return found, " ".join(str(warning.message) for warning in said)


def test_of_two_columns_that_agree_with_the_scores_the_prediction_is_told_by_its_name(tmp_path):
    p = np.random.default_rng(2).random(200)
    columns = {
        "predict": (p > 0.4).astype(int),
        "p0": 1 - p,
        "p1": p,
        "response": (np.random.default_rng(3).random(200) < p).astype(int),
    }
    found, said = loaded(tmp_path, Case("H2O", "a.csv", text({name: list(cells) for name, cells in columns.items()})))
    assert "`response` is read as the labels" in said
    assert found.labels.tolist() == columns["response"].tolist()
    columns = {"F_churn": columns["response"], "I_churn": columns["predict"], "P_churn1": p, "P_churn0": 1 - p}
    found, said = loaded(tmp_path, Case("SAS", "b.csv", text({name: list(cells) for name, cells in columns.items()})))
    assert found.labels is None
    assert "`F_churn` or `I_churn` may be the labels: name one with --label-column" in said
    found, _ = loaded(tmp_path, Case("SAS", "b.csv", {}, {"label_column": "F_churn"}))
    assert found.class_names == ["1", "0"]
    assert found.labels.tolist() == (1 - columns["F_churn"]).tolist()


def test_of_two_columns_beside_one_score_its_threshold_is_the_prediction(tmp_path):
    p = np.random.default_rng(2).random(200)
    churn = (np.random.default_rng(3).random(200) < p).astype(int).tolist()
    spss = {"churn": churn, "PRE_1": (p > 0.5).astype(int).tolist(), "PGR_1": p.tolist()}
    found, said = loaded(tmp_path, Case("SPSS", "a.csv", text(spss)))
    assert "`churn` is read as the labels" in said
    assert found.labels.tolist() == churn
    unrelated = {"smoker": [j % 2 for j in range(200)], "sold": spss["PRE_1"], "PGR_1": p.tolist()}
    with pytest.raises(SoftkinError, match="labels in smoker or sold; .* --label-column"):  # is `sold` a prediction?
        loaded(tmp_path, Case("a perfect model", "b.csv", text(unrelated)))


def test_labels_of_two_words_beside_one_score_are_those_that_it_tells_apart(tmp_path):
    p = np.random.default_rng(2).random(200)
    yes = np.random.default_rng(3).random(200) < p
    table = {"team": ["A", "B"] * 100, "p_malignant": list(p), "diagnosis": ["M" if k else "B" for k in yes]}
    found, said = loaded(tmp_path, Case("a diagnosis by its letter", "a.csv", text(table)))
    assert "`diagnosis` is read as the labels, since it holds two values" in said
    assert "`p_malignant` is read as the score of class M" in said
    assert (found.class_names, found.labels.tolist()) == (["B", "M"], yes.astype(int).tolist())
    np.testing.assert_allclose(found.probabilities[:, 1], p, atol=1e-6)
    table = {"team": table["team"], "prob": list(p), "result": ["W" if k else "L" for k in yes]}
    with pytest.raises(SoftkinError, match="type --positive-class L or --positive-class W"):
        loaded(tmp_path, Case("a result", "b.csv", text(table)))


@pytest.mark.parametrize("case", THREE, ids=lambda case: case.what)
def test_three_classes(tmp_path, case):
    found, said = loaded(tmp_path, case)
    expected = NAMES if case.names is None else case.names or None
    assert found.class_names == expected
    assert found.known_labels.tolist() == TRUTH
    assert found.votes is None
    np.testing.assert_allclose(found.probabilities.numpy()[:, :3], PROBS, atol=case.off)
    assert case.says in said


@pytest.mark.parametrize("case", TWO, ids=lambda case: case.what)
def test_two_classes(tmp_path, case):
    found, said = loaded(tmp_path, case)
    assert found.class_names == (case.names or ["0", "1"])
    assert found.known_labels.tolist() == YES
    np.testing.assert_allclose(found.probabilities[:, 1].numpy(), POSITIVE, atol=1e-4)
    assert case.says in said


@pytest.mark.filterwarnings("ignore::softkin.predictions.Assumption")
@pytest.mark.parametrize(
    ("name", "content", "options", "words"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_cannot_be_known_is_refused(tmp_path, monkeypatch, name, content, options, words):
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    monkeypatch.setenv("SOFTKIN_MAX_BYTES", str(2**24))
    with pytest.raises(SoftkinError, match=words):
        predictions.load(tmp_path / name, **options)


STREAMED = {
    "csv": text(PLAIN).encode(),
    "gzip": gzip.compress(text(PLAIN).encode()),
    "zip": zipped({"a.csv": text(PLAIN).encode()}),
    "xlsx": xlsx(numbers() | LABEL),
    "npz": written(lambda f: np.savez(f, probs=PROBS, labels=TRUTH)),
    "pt": written(lambda f: torch.save({"probs": torch.tensor(PROBS), "labels": torch.tensor(TRUTH)}, f)),
    "parquet": frame(numbers() | LABEL).to_parquet(),
    "feather": written(frame(numbers() | LABEL).to_feather),
}


@pytest.mark.filterwarnings("ignore::softkin.predictions.Assumption")
@pytest.mark.parametrize("form", STREAMED)
def test_standard_input_is_recognised_by_its_first_bytes(monkeypatch, form):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(STREAMED[form])))
    found = predictions.load("-")
    assert found.known_labels.tolist() == TRUTH
    np.testing.assert_allclose(found.probabilities.numpy(), PROBS, atol=1e-5)


class Canary:
    """An object whose unpickling would write a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_no_object_in_a_file_of_tensors_is_unpickled(tmp_path):
    canary = tmp_path / "canary"
    torch.save(
        {"logits": torch.tensor(LOGITS), "labels": torch.tensor(TRUTH), "more": Canary(canary)}, tmp_path / "a.pt"
    )
    with pytest.raises(SoftkinError, match="a.pt holds Python objects, which are never unpickled"):
        predictions.load(tmp_path / "a.pt")
    assert not canary.exists()
    expanded = torch.zeros(1, 3).expand(10**9, 3)  # 12 GB of numbers in a file of a few bytes
    torch.save({"logits": expanded, "labels": torch.tensor(TRUTH)}, tmp_path / "b.pt")
    with pytest.raises(SoftkinError, match="b.pt .*SOFTKIN_MAX_BYTES"):
        predictions.load(tmp_path / "b.pt")


def test_entities_and_damage_in_a_workbook_are_refused(tmp_path):
    whole = xlsx(numbers() | LABEL)
    (tmp_path / "cut.xlsx").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SoftkinError, match="cut.xlsx could not be read as xlsx"):
        predictions.load(tmp_path / "cut.xlsx")
    evil = tmp_path / "evil.xlsx"
    with zipfile.ZipFile(io.BytesIO(whole)) as source, zipfile.ZipFile(evil, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            target.writestr(name, b'<!DOCTYPE a [<!ENTITY b "c">]>' + content if "sheet1" in name else content)
    with pytest.raises(SoftkinError, match="must not define entities"):
        predictions.load(evil)


def test_of_two_columns_of_zeros_and_ones_the_score_shows_which_it_is_about(tmp_path):
    p = np.random.default_rng(0).uniform(size=90)
    bought = [int(q > 0.5) if j % 4 else int(q <= 0.5) for j, q in enumerate(p)]
    columns = {"opened": [j % 2 for j in range(90)], "bought": bought, "propensity": [f"{q:.4f}" for q in p]}
    found, said = loaded(tmp_path, csv("two", columns))
    assert found.known_labels.tolist() == bought
    assert "`bought` is read as the labels" in said


def test_a_column_that_agrees_with_the_scores_is_the_labels(tmp_path):
    found, said = loaded(tmp_path, csv("labels under any name", scores() | {"tag": TRUTH}))
    assert found.labels.tolist() == TRUTH
    assert (
        "`tag` is read as the labels, since it is the class with the highest score in 18 of the first 24 rows" in said
    )


def test_predictions_are_never_labels(tmp_path):
    found, said = loaded(tmp_path, csv("predictions alone", scores() | {"pred": GUESSED}))
    assert found.labels is None
    assert "left out: pred (--class-columns overrules; a column of labels is named by --label-column)" in said


@pytest.mark.parametrize(
    "tag", [[j % 3 for j in range(N)], PROBS.argmax(axis=1).tolist()], ids=["by chance", "as predictions do"]
)
def test_a_column_that_may_be_the_labels_is_named(tmp_path, tag):
    case = csv("labels under any name", scores() | {"tag": tag})
    found, said = loaded(tmp_path, case)
    assert found.labels is None
    assert "left out: tag (--class-columns overrules; a column of labels is named by --label-column)" in said


def test_the_documentation_has_what_the_code_infers():
    assert len(THREE) + len(TWO) + len(REFUSED) >= 320  # as the page says
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import files_page
    finally:
        sys.path.pop(0)
    text = files_page.PAGE.read_text(encoding="utf-8")
    assert files_page.page(text) == text, "run python scripts/files_page.py"
    known = {f"--{field.name.replace('_', '-')}" for field in fields(predictions.Reading)} | {
        "--logits",
        "--probs",
        "--multi-label",
    }
    for *_, option in inference.INFERRED:
        assert set(re.findall(r"--[a-z-]+", option)) <= known


SURE = [f"{p:.4f}" for p in PROBS.max(axis=1)]
PAIRS = {
    "Weka": {"inst#": [*range(1, N + 1)], "actual": [f"{k}:{NAMES[k]}" for k in TRUTH],
             "predicted": [f"{NAMES.index(name)}:{name}" for name in GUESSED],
             "error": ["" if a == b else "+" for a, b in zip(GUESSED, CALLED, strict=True)], "prediction": SURE},
    "PyCaret": {"age": AGE, "target": CALLED, "prediction_label": GUESSED, "prediction_score": SURE},
    "the first two answers": {"image": [*range(N)], "top1": GUESSED, "top1_prob": SURE, "top2": CALLED[::-1],
                              "top2_prob": [f"{p:.4f}" for p in np.sort(PROBS)[:, 1]], "label": CALLED},
    "KNIME": {"age": AGE, "kind": CALLED, "Prediction (kind)": GUESSED, "Prediction (kind) (Confidence)": SURE},
    "the probability of a mistake": {"id": [*range(N)], "p_wrong": [round(1 - float(p), 4) for p in SURE],
                                     "correct": [int(a == b) for a, b in zip(GUESSED, CALLED, strict=True)]},
    "mistakes in place of hits": {"id": [*range(N)], "confidence": SURE,
                                  "is_wrong": [int(a != b) for a, b in zip(GUESSED, CALLED, strict=True)]},
    "errors beside a score": {"max_prob": SURE, "error": [str(a != b) for a, b in zip(GUESSED, CALLED, strict=True)]},
    "decimal commas": comma({"id": [*range(N)], "correct": [int(a == b) for a, b in zip(GUESSED, CALLED, strict=True)], "confidence": SURE}),
    "decimal commas and percent": comma({"correct": [int(a == b) for a, b in zip(GUESSED, CALLED, strict=True)],
                                         "confidence": [f"{100 * p:.2f}%" for p in PROBS.max(axis=1)]}),
    "a pipeline": {"text": [f"t{j}" for j in range(N)], "label": GUESSED, "score": SURE, "gold": CALLED},
    "Weka's star": {"inst#": [*range(1, N + 1)], "actual": [f"{k + 1}:{NAMES[k]}" for k in TRUTH],
                    "predicted": [f"{NAMES.index(name) + 1}:{name}" for name in GUESSED],
                    "error": ["" if a == b else "+" for a, b in zip(GUESSED, CALLED, strict=True)], "prediction": [f"*{p}" for p in SURE]},
    "Label Studio": {"id": [*range(N)], "sentiment": CALLED, "annotator": [1] * N, "prediction": GUESSED, "prediction-score": SURE},
    "YOLO": {"image": [f"{j}.jpg" for j in range(N)], "top1": GUESSED, "top1conf": SURE, "true": CALLED},
    "a question and its answers": {"question": ["q"] * N, "correct_answer": CALLED, "model_answer": GUESSED, "logprob": [np.log(p) for p in PROBS.max(axis=1)]},
    "a verdict": {"question": ["q"] * N, "answer": GUESSED, "verdict": ["CORRECT" if a == b else "INCORRECT" for a, b in zip(GUESSED, CALLED, strict=True)],
                  "confidence": SURE},
    "a language model": {"prompt": ["t"] * N, "gold": CALLED, "completion": GUESSED, "logprob": [np.log(p) for p in PROBS.max(axis=1)]},
}  # fmt: skip


@pytest.mark.parametrize("what", PAIRS)
def test_an_answer_its_score_and_the_truth_are_pairs(tmp_path, what):
    found, said = loaded(tmp_path, csv(what, PAIRS[what], separator=";" if "commas" in what else ","))
    assert found.are_pairs
    assert found.labels.tolist() == [int(a == b) for a, b in zip(GUESSED, CALLED, strict=True)]
    np.testing.assert_allclose(found.probabilities[:, 1].numpy(), PROBS.max(axis=1), atol=1e-4)
    assert "is read as the confidence of pairs" in said
    assert ("stars before the numbers of prediction are left out" in said) == (what == "Weka's star")


def test_few_percent_beside_a_name_that_says_probability(tmp_path):
    """No probability is 25; without a name, numbers up to 30 may be log-odds."""
    percent = Case("few percent", "a.csv", text({"y_true": [0, 0, 1, 1, 0], "y_prob": [1, 4, 12, 25, 3]}))
    found, said = loaded(tmp_path, percent)
    assert found.probabilities[:, 1].tolist() == [0.01, 0.04, 0.12, 0.25, 0.03]
    assert "`y_prob` is read as percent, going up to 25" in said


SAID: dict[str, Callable[[int], Any]] = {
    "an answer and its score": lambda j: {"label": CALLED[j], "prediction": {"label": GUESSED[j], "score": float(PROBS[j].max())}},
    "the only answer of a list": lambda j: {"text": "t", "label": CALLED[j],
                                            "prediction": [{"label": GUESSED[j], "score": float(PROBS[j].max())}]},
    "an answer without a name": lambda j: {"label": TRUTH[j], "prediction": {"label": f"LABEL_{PROBS[j].argmax()}", "score": float(PROBS[j].max())}},
    "Prodigy": lambda j: {"text": "t", "label": GUESSED[j], "score": float(PROBS[j].max()), "answer": "accept" if CALLED[j] == GUESSED[j] else "reject"},
}  # fmt: skip


@pytest.mark.parametrize("lines", [True, False], ids=["lines", "an array"])
@pytest.mark.parametrize("what", SAID)
def test_an_answer_and_its_score_in_objects_are_pairs(tmp_path, what, lines):
    rows = [SAID[what](j) for j in range(N)]
    content = "\n".join(map(json.dumps, rows)) if lines else json.dumps(rows)
    found, said = loaded(tmp_path, Case(what, "a.jsonl" if lines else "a.json", content))
    assert found.are_pairs
    assert found.labels.tolist() == [int(a == b) for a, b in zip(GUESSED, CALLED, strict=True)]
    np.testing.assert_allclose(found.probabilities[:, 1].numpy(), PROBS.max(axis=1), atol=1e-6)
    assert "`score` is read as the confidence of pairs" in said


def test_labels_with_numbers_are_those_of_columns_with_the_same_numbers(tmp_path):
    p = np.random.default_rng(3).dirichlet(np.ones(12), size=60)
    labels = [f"class_{j % 12}" for j in range(60)]
    columns = {f"p{k}": p[:, k].tolist() for k in range(12)} | {"label": labels}
    found, _ = loaded(tmp_path, csv("twelve", columns))
    assert [found.class_names[k] for k in found.labels.tolist()] == labels
    assert found.labels.tolist() == [j % 12 for j in range(60)]


def test_an_outcome_that_is_named_may_say_what_was_wrong(tmp_path):
    wrong = [int(a != b) for a, b in zip(GUESSED, CALLED, strict=True)]
    case = csv(
        "mistakes", {"sure": SURE, "misclassified": wrong}, options={"score": "sure", "outcome": "misclassified"}
    )
    found, said = loaded(tmp_path, case)
    assert found.labels.tolist() == [1 - k for k in wrong]
    assert "`misclassified` is read as whether the answer was wrong" in said


def test_labels_under_any_name_may_lack_some_in_the_word_of_another_program(tmp_path):
    columns = {name: [*cells, "0.3"] for name, cells in scores().items()} | {"obs": [*CALLED, "NA"]}
    found, said = loaded(tmp_path, csv("R's word for nothing", columns | {"owl": [*scores()["owl"], "0.4"]}))
    assert found.labels.tolist() == TRUTH
    assert "`obs` is read as the labels, since it holds names of columns" in said
    assert "1 of 25 rows has no label in `obs`" in said


def test_of_two_columns_beside_predictions_neither_is_taken_for_the_truth(tmp_path):
    readers = {"label": GUESSED, "reader 1": CALLED, "reader 2": [*CALLED[:20], *GUESSED[20:]]}
    with pytest.raises(SoftkinError, match='reader 1, reader 2 may be the truth; say which: --label-column "label" or'):
        loaded(tmp_path, csv("two readers", readers | scores()))
