"""Suites of studies: the file behind docs/results.md describes the studies that were recorded, and runs."""

import gzip
import json

import pytest

from places import ROOT
from softkin import SoftkinError
from softkin.cli import main
from softkin.lab import suites
from softkin.lab.study import StudySpec
from softkin.lab.study.perform import recipe_of
from softkin.lab.study.plan import Plan
from softkin.lab.study.records import kept_in
from softkin.lab.suites.listed import load_studies

SUITES = [ROOT / "results" / name for name in ("suite.toml", "fair.toml")]
RESULTS = SUITES[0]
RECORDS = sorted(path.parent.name for path in (ROOT / "results" / "records").glob("*/study.json"))
FREE = ("name", "methods", "model", "max_per_class", "validation", "test", "aliases", "sources")
"""What a study fills in by itself, and what the records of a few studies lack"""


@pytest.mark.parametrize("name", RECORDS)
def test_every_recorded_study_is_that_of_the_suite(name):
    listed = {item.name: item for suite in SUITES for item in load_studies(suite).studies}
    recorded = StudySpec.from_dict(json.loads((ROOT / "results" / "records" / name / "study.json").read_text())["spec"])
    spec = listed[name].study("FOLDER", {"DATA": "DATA"})
    assert recipe_of(spec) == recipe_of(recorded)
    ours, theirs = spec.to_dict(), recorded.to_dict()
    for key in ours:
        alone = key == "select" and spec.trials == 1  # nothing to choose
        if key == "parameters":  # a default that has changed since stands in the suite
            assert theirs[key].items() <= ours[key].items()
        elif key not in (*FREE, "recipe") and not alone:
            assert ours[key] == theirs[key], key
    for key in ("max_per_class", "validation", "test", "model"):
        assert ours[key] in (None, theirs[key]), key
    assert recorded.sources.items() <= {**spec.sources}.items()
    if not name.endswith(("-fixed", "-top5", "-tuned")):
        assert set(recorded.methods) <= set(spec.methods)


@pytest.mark.parametrize("name", ["digits", "banking77", "scratch-step-1e-4", "sweep-beta-2"])
def test_recorded_runs_are_those_that_the_plan_asks_for(name):
    """A study could be taken up again from its records: the digests are those of today."""
    folder = ROOT / "results" / "records" / name
    with gzip.open(folder / "records.jsonl.gz", "rt") as lines:
        records = {record["digest"]: record for record in map(json.loads, lines)}
    jobs = list(Plan(kept_in(folder)).jobs(records.get))
    assert {job.digest for job in jobs} == set(records)


SMALL = """
name = "mine"
kind = "studies"
title = "two studies"
reference = "none"
[shared.small]
data = "digits"
max_per_class = 3
validation = 60
test = 80
seeds = 1
model = "mlp"
model_options = { hidden = 8 }
recipe = { name = "small", epochs = 2 }
[variants.fixed]
alpha = 0.1
methods = ["out"]
[studies.first]
group = "all"
use = ["small"]
before = ["baseline", "glove"]
variants = ["fixed"]
methods = ["one-hot", "out", "file"]
[studies.second]
use = ["small"]
methods = ["one-hot"]
"""


@pytest.mark.slow
def test_a_suite_runs_with_what_its_studies_need(tmp_path, capsys):
    path = tmp_path / "mine.toml"
    path.write_text(SMALL)
    folder = tmp_path / "runs"
    assert main(["paper", "run", str(path), "--output", str(folder), "--rows", "all", "--workers", "1"]) == 0
    assert "first: " in capsys.readouterr().out
    made = {entry.name for entry in folder.iterdir()}
    assert made >= {"first", "first-fixed", "first-baseline", "first-glove"}
    assert "second" not in made
    rows = json.loads((folder / "first" / "table.json").read_text())["rows"]
    assert [row["method"] for row in rows] == ["one-hot", "out", "file"]
    assert main(["paper", "run", str(path), "--output", str(folder), "--dry-run"]) == 0
    assert "second" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('use = ["small"]\nbefore', 'use = ["smal"]\nbefore', "did you mean 'small'"),
        ('before = ["baseline", "glove"]', 'before = ["basline"]', "did you mean 'baseline'"),
        ("seeds = 1", "seed = 1", "did you mean 'seeds'"),
        ('model = "mlp"', 'model = "os:system"', "must name one of softkin's networks"),
        ('kind = "studies"', 'kind = "studies"\ncolour = 3', "key 'colour' is not known"),
    ],
)
def test_faults_are_named(tmp_path, old, new, words):
    path = tmp_path / "mine.toml"
    path.write_text(SMALL.replace(old, new, 1))
    with pytest.raises((SoftkinError, ValueError), match=words):
        suites.load(path)


def test_paths_are_asked_for(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(SMALL.replace('data = "digits"', 'data = "DATA/x.npz"'))
    with pytest.raises(ValueError, match="needs the path DATA: pass --data DATA=PATH"):
        suites.load(path).run(tmp_path)
