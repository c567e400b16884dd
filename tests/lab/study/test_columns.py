"""Heads on features as columns of a study, against the same heads made by hand."""

import numpy as np
import pytest
import torch

from softkin import distances, predictions, similarity
from softkin.calibrators import KinHead
from softkin.distances.sources import ClassNames
from softkin.lab import data
from softkin.lab.study import StudySpec, columns, run, table
from softkin.lab.study.folder import StudyFolder
from softkin.lab.study.perform import resolve
from softkin.lab.study.plan import Plan
from study_parts import kept, quick, without_pictures  # noqa: F401  a fixture

NAMES = ["wolf", "fox", "tulip", "rose"]


def features(folder, names=NAMES):
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(len(names), 6))
    for part, each in (("train", 8), ("validation", 30), ("test", 25)):
        labels = np.repeat(np.arange(len(names)), each)
        values = centres[labels] + generator.normal(size=(len(labels), 6))
        np.savez(folder / f"{part}.npz", features=values.astype(np.float32), labels=labels, class_names=names)
    return str(folder)


def spec_of(source, methods=("one-hot", "kin-head", "head"), **changes):
    own = {"max_per_class": None, "validation": None, "test": None, "beta": ["auto"], "seeds": [0], **changes}
    return quick(data=source, methods=list(methods), **own)


@pytest.mark.usefixtures("without_pictures")
def test_heads_are_those_made_by_hand_and_are_kept(tmp_path):
    source = tmp_path / "data"
    source.mkdir()
    spec = spec_of(features(source), ood=["gaussian"], ood_rows=20)
    shown = run(spec, tmp_path / "study", workers=1, progress=False)
    assert [row.title for row in shown.rows] == ["one-hot", "Kin-head", "Head"]
    assert any("by class names" in note for note in shown.notes)
    opened = StudyFolder(tmp_path / "study")
    results = {result.method: result for result in opened.results()}
    trained = opened.records.path(results["one-hot"].record["chosen"])
    validation = predictions.load(trained / "validation.safetensors")
    test = predictions.load(trained / "test.safetensors")
    parts = data.split(str(source), seed=0, progress=False)
    words = distances.measure("words", ClassNames(NAMES, [[name] for name in NAMES])).matrix
    beta = similarity.best_beta(words, validation.probabilities, validation.known_labels)
    for name, kin in (("kin-head", similarity.from_distances(words, beta)), ("head", None)):
        head = KinHead(kin).fit(
            validation.logits,
            validation.known_labels,
            features=parts.validation.values,
            train_features=parts.train.values,
            train_labels=parts.train.labels,
        )
        by_hand = head.predict_proba(test.logits.double(), features=parts.test.values)
        torch.testing.assert_close(results[name].test().probabilities, by_hand, rtol=0, atol=1e-12)
        folder = opened.records.path(results[name].record["predictions"])
        assert KinHead.load(folder / "calibrator").ridge_ == head.ridge_
        assert len(predictions.load(folder / "ood-gaussian.safetensors")) == 20
    record = opened.records.path(results["head"].record["predictions"]) / "record.json"
    before = record.stat().st_mtime_ns
    assert run(spec, tmp_path / "study", workers=1, progress=False).to_dict() == table(tmp_path / "study").to_dict()
    assert record.stat().st_mtime_ns == before


def test_a_head_may_follow_any_training(tmp_path):
    spec = spec_of(features(tmp_path), ("one-hot", "uniform", "uniform+kin-head"))
    jobs = list(Plan(resolve(spec)).jobs(lambda _: None))
    assert [job.title for job in jobs if job.kind == "distances"] == ["WE distances"]
    head = next(job for job in jobs if job.kind == "result" and job.run.method == "uniform+kin-head")
    kin = next(job for job in jobs if job.kind == "distances")
    assert kin.digest in head.needs
    assert jobs.index(kin) < jobs.index(head)


@pytest.mark.parametrize(
    ("names", "why"),
    [(["class 0", "class 1", "class 2"], "differ only by numbers"), (["wolf", "xqzt", "rose"], "1 word has no vector")],
)
def test_where_names_say_nothing_class_means_do(tmp_path, names, why):
    with pytest.warns(UserWarning, match=rf"{why}.*class means"):
        found = resolve(spec_of(features(tmp_path, names)))
    assert found.data["kin"] == "cm"
    titles = [job.title for job in Plan(found).jobs(lambda _: None)]
    assert "CM distances, seed 0" in titles


def test_data_without_features_have_no_head():
    with pytest.raises(ValueError, match="second head on frozen features, and digits holds images"):
        resolve(quick(methods=["one-hot", "head"]))


def test_what_is_compared_without_being_asked_for_ends_with_learned_labels():
    # Their α is for what a temperature follows, so that they have no column without one.
    assert columns.by_default(["one-hot", "dir-odir", "we"]) == ("one-hot", "dir-odir", "we", "we+ts", "learned+ts")
    assert resolve(StudySpec(data="cifar100-features")).spec.methods[-1] == "learned+ts"


def test_other_results_are_named_as_before():
    jobs = {job.run.method: job.run for job in Plan(kept()).jobs(lambda _: None) if job.kind == "result"}
    assert "head" not in jobs["ts"].spec()
    assert StudySpec(methods=("one-hot", "kin-head")).uses_kin
