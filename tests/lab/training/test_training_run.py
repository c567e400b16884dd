"""Training methods that average over networks, measure distances or hold confidence back: formulas, resuming, columns."""

import multiprocessing
import os
import random
import signal
import time

import numpy as np
import pytest
import torch
from torch import nn

from softkin import bayes, report
from softkin.lab import data, models, study, training
from softkin.lab.study import advice
from softkin.lab.training import Method, Recipe
from softkin.lab.training.session import Session
from softkin.lab.training.training_run import cost
from study_parts import quick, without_pictures  # noqa: F401  a fixture
from training_parts import FEW, build, fit


@pytest.fixture(scope="module")
def split():
    return data.split("digits", max_per_class=6, test=120, validation=80)


@pytest.mark.parametrize("name", ["mmce", "dual-focal", "acls", "class-adaptive", "distance"])
def test_the_loss_falls_on_real_digits(split, name):
    def plain(seed, **options):
        return models.build_for("small", 10, (1, 8, 8), seed, **options)

    method = Method("mmce", penalty=0.2) if name == "mmce" else Method(name)
    trained = fit(split, method, epochs=12, make=plain)
    losses = [entry["loss"] for entry in trained.history]
    assert np.mean(losses[-3:]) < losses[0] - 0.05
    assert trained.history[-1]["validation_accuracy"] > 0.2
    assert trained.effective_target == method.effective_target(10)


def test_refusals_of_methods():
    with pytest.raises(ValueError, match="the method distance needs samples of one class each, and mixup mixes them"):
        Method("distance+mixup")
    with pytest.raises(ValueError, match="`dropout` must be below 1, got 1"):
        Method("mc-dropout", dropout=1.0)
    with pytest.raises(ValueError, match="`passes` is for mc-dropout and swag and laplace and distance"):
        Method("one-hot", passes=3)


def test_refusals_of_trainings(split):
    with pytest.raises(ValueError, match="the method ensemble trains several networks: call training.fit_method"):
        training.fit(build(0), split.train, method=Method("ensemble"), recipe=Recipe.named("small"))
    with pytest.raises(ValueError, match="stop_by='nll' chooses on validation rows, but there are none"):
        training.fit(build(0), split.train, method=Method("one-hot"), recipe=Recipe.named("small", stop_by="nll"))
    with pytest.raises(ValueError, match="class-adaptive learns from validation rows, but there are none"):
        training.fit(build(0), split.train, method=Method("class-adaptive"), recipe=Recipe.named("small"))
    with pytest.raises(ValueError, match="`stop_by` chooses one epoch, and swag averages over many"):
        fit(split, "swag", stop_by="nll")
    with pytest.raises(ValueError, match="`stop_by` must be 'refined-nll', 'nll'"):
        Recipe(stop_by="luck")
    with pytest.raises(ValueError, match="must have dropout layers with p above 0, but has none"):
        fit(split, "mc-dropout", make=lambda seed, **_: build(seed))


class Cut(Exception):
    """Stands for a crash."""


@pytest.mark.slow
@pytest.mark.parametrize("name", FEW)
def test_a_run_that_was_cut_off_predicts_the_same_to_the_bit(split, tmp_path, name):
    options = {"stop_by": "ece_hist"} if name.startswith("stop") else {}
    whole = fit(split, FEW[name], **options)
    steps = 8 * 2 * {"ensemble": 2, "distilled": 3}.get(name, 1)
    for last in (3, steps // 2 + 1, steps - 1):
        left = iter(range(last))

        def crash(event, left=left):
            if event["event"] == "step" and next(left, None) is None:
                raise Cut

        try:
            fit(split, FEW[name], folder=tmp_path / "run", progress=crash, **options)
        except Cut:
            continue
    rest = fit(split, FEW[name], folder=tmp_path / "run", **options)
    assert rest.resumed
    first, second = (training.predict(trained, split.test) for trained in (whole, rest))
    assert torch.equal(first.logits, second.logits)
    if first.mutual_information is not None:
        assert torch.equal(first.mutual_information, second.mutual_information)
    a, b = whole.model.state_dict(), rest.model.state_dict()
    assert all(torch.equal(a[key], b[key]) for key in a)
    assert rest.record.get("chosen_epoch") == whole.record.get("chosen_epoch")
    assert not name.startswith("stop") or rest.record["chosen_epoch"] < 6  # or no checkpoint had to hold it


def test_costs_are_counted():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.2), nn.Linear(4, 2))
    plain = 3 * 4 + 4 + 4 * 2 + 2

    def of(model, **record):
        return cost(training.Trained(model, [], 0.0, "", False, training.Standardisation((0.0,), (1.0,)), [], record))

    assert of(net) is None
    assert of(bayes.McDropout(net, passes=7)) == {"passes": 7, "memory": 1.0, "networks": 1}
    assert of(bayes.Ensemble([net, net, net]), networks=3) == {"passes": 3, "memory": 3.0, "networks": 3}
    held = plain * (1 + 2 + 5) + 1  # weights, two moments, five deviations, and how many were collected
    assert of(bayes.Swag(net, rank=5, samples=9)) == {"passes": 9, "memory": held / plain, "networks": 1}
    factors = 2 + 4 + 4 + 16 + 2  # of G and A, δ and the likelihood
    assert of(bayes.Laplace(net)) == {"passes": 1, "memory": (plain + factors) / plain, "networks": 1}


METHODS = ["one-hot", "ts", "mc-dropout", "swag", "laplace", "ensemble", "distance", "swag+ts"]


def test_a_laplace_column_that_is_far_too_unsure_is_explained():
    cells = [{"signed_gap": study.tabulation.Cell(mean, values=(mean,))} for mean in (-0.62, -0.03)]
    rows = [study.tabulation.Row("laplace", "Laplace", each) for each in cells]
    (note,) = advice.too_wide(rows)
    assert note.startswith(
        "Laplace is under-confident by 62 points. The network is nearly certain of its training rows"
    )
    assert note.endswith("laplace+ts corrects the scale.")


@pytest.mark.slow
@pytest.mark.usefixtures("without_pictures")
def test_a_study_has_a_column_for_each_and_says_what_it_costs(tmp_path):
    spec = quick(methods=METHODS, seeds=[0], ood=["uniform"], ood_rows=40)
    table = study.run(spec, tmp_path / "s", workers=1, progress=False)
    assert [row.method for row in table.rows] == METHODS
    costs = next(note for note in table.notes if note.startswith("Cost relative to one-hot"))
    assert "MC-dropout 30 passes, 1 × memory; SWAG 30 passes, 23 × memory; Laplace 1 pass" in costs
    assert "ensemble 5 passes, 5 × memory, 5 trainings" in costs
    gap = 100 * table.row("laplace").cells["signed_gap"].value
    explained = [note for note in table.notes if note.startswith("Laplace is under-confident by")]
    assert bool(explained) == (gap < -10)
    assert "\nTime relative to one-hot's " in study.tabulation.times(tmp_path / "s")
    by_method = {result.method: result for result in study.results(tmp_path / "s")}
    for name in ("mc-dropout", "swag", "ensemble"):
        result = by_method[name]
        assert result.test().mutual_information is not None
        assert 0 <= result.metrics["auroc_mutual_information uniform"].value <= 1
    assert by_method["laplace"].test().mutual_information is None
    (unknown,) = report.build_comparison(tmp_path / "s")["ood"]
    shown = unknown["auroc_mutual_information"]
    assert set(shown) == {"mc-dropout", "swag", "ensemble", "swag+ts"}
    assert shown["swag"] == pytest.approx(by_method["swag"].metrics["auroc_mutual_information uniform"].value)


@pytest.mark.slow
@pytest.mark.usefixtures("without_pictures")
def test_killed_at_random_moments_all_columns_end_in_the_same_table(tmp_path, monkeypatch):
    monkeypatch.setitem(training.loop.fit.__kwdefaults__, "checkpoint_every", 0)
    methods = ["mc-dropout", "swag", "laplace", "laplace+ts", "ensemble", "distilled", "distance", "cals"]
    spec = quick(methods=methods, seeds=[0], ood=["uniform"], ood_rows=40)

    def alone(folder):
        torch.set_num_threads(1)  # a forked process has lost its parent's threads
        study.run(spec, folder, workers=1, progress=False)

    def child(folder):
        process = multiprocessing.get_context("fork").Process(target=alone, args=(folder,))
        process.start()
        return process

    started = time.monotonic()
    undisturbed = child(tmp_path / "whole")
    undisturbed.join()
    assert undisturbed.exitcode == 0
    whole, moments, kills = time.monotonic() - started, random.Random(0), 0
    while True:
        process = child(tmp_path / "killed")
        process.join(timeout=moments.uniform(0.05, 0.3) * whole if kills < 4 else None)
        if process.exitcode is not None:
            break
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        kills += 1
    assert process.exitcode == 0
    assert kills >= 2
    for name in ("table.md", "table.csv", "table.json"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.usefixtures("without_pictures")
def test_a_study_can_stop_by_the_refined_nll(tmp_path):
    spec = quick(methods=["one-hot"], seeds=[0], recipe={"name": "small", "epochs": 6, "stop_by": "refined-nll"})
    study.run(spec, tmp_path / "s", workers=1, progress=False)
    (result,) = study.results(tmp_path / "s")
    record = study.StudyFolder(tmp_path / "s").records.find(result.record["chosen"])
    assert all("validation_refined_nll" in entry for entry in record["history"])


def test_a_session_trains_an_ensemble_and_writes_all_weights(tmp_path):
    session = Session(
        "digits",
        model="mlp(hidden=8)",
        method="ensemble",
        values={"members": 2},
        max_per_class=4,
        validation=50,
        test=60,
        recipe_changes={"epochs": 2},
        device="cpu",
        output=tmp_path / "run",
    )
    session.check()
    finished = session.run()
    assert finished.record["method"] == {"name": "ensemble", "members": 2}
    from safetensors.torch import load_file

    names = load_file(tmp_path / "run" / "weights.safetensors")
    assert any(name.startswith("others.0.") for name in names)
