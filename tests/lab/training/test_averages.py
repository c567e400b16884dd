"""Training methods that average over networks, measure distances or hold confidence back: formulas, resuming, columns."""

import math
import multiprocessing
import os
import random
import signal
import time

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from softkin import bayes, metrics, report, smoothing
from softkin.lab import data, models, study, training
from softkin.lab.study import advice
from softkin.lab.training import Method, Recipe
from softkin.lab.training.fitting import cost
from softkin.lab.training.objectives import objective
from softkin.lab.training.objectives.penalties import lagrangian_penalty, lagrangian_slope
from softkin.lab.training.session import Session
from softkin.lab.training.validation import refined_nll
from study_parts import quick, without_pictures  # noqa: F401  a fixture

K = 4


@pytest.fixture(scope="module")
def split():
    return data.split("digits", max_per_class=6, test=120, validation=80)


def some(n=7, seed=0, scale=3.0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, K, generator=generator).double() * scale, torch.randint(0, K, (n,), generator=generator)


def build(seed, **options):
    return models.build_for("small(width=2, hidden=8, norm=True)", 10, (1, 8, 8), seed, **options)


def fit(split, method, *, epochs=8, make=build, **options):
    changes = {name: options.pop(name) for name in ("stop_by",) if name in options}
    return training.fit_method(
        make,
        split.train,
        split.validation,
        method=method if isinstance(method, Method) else Method(method),
        recipe=Recipe.named("small", epochs=epochs, **changes),
        device="cpu",
        seed=1,
        **{"checkpoint_every": 0, "progress": False} | options,
    )


# Losses, by hand


def test_mmce_is_its_formula():
    logits, labels = some(scale=1.0)
    p = logits.softmax(1).numpy()
    r, c = p.max(1), (p.argmax(1) == labels.numpy()).astype(float)
    n = len(r)
    squared = sum((c[i] - r[i]) * (c[j] - r[j]) * math.exp(-abs(r[i] - r[j]) / 0.4) for i in range(n) for j in range(n))
    plain = F.cross_entropy(logits, labels, reduction="sum").item()
    loss = objective(Method("mmce", penalty=1.5), K)(logits, labels).item()
    assert loss == pytest.approx(plain + 1.5 * n * math.sqrt(squared / n**2), rel=1e-8)
    first = torch.tensor([[math.log(3), 0.0]], dtype=torch.float64)  # confidence 0.75, and right: the error is 0.25
    assert objective(Method("mmce", penalty=1.0), 2)(first, torch.tensor([0])).item() == pytest.approx(
        -math.log(0.75) + 0.25, rel=1e-6
    )


def test_the_dual_focal_loss_is_its_formula():
    logits, labels = some()
    p = logits.softmax(1).numpy()
    brute = 0.0
    for i, y in enumerate(labels.tolist()):
        below = max([q for q in p[i] if q < p[i, y]], default=0.0)
        brute -= (1 - p[i, y] + below) ** 5 * math.log(p[i, y])
    loss = objective(Method("dual-focal"), K)
    assert loss(logits, labels).item() == pytest.approx(brute, rel=1e-9)
    rows = F.one_hot(labels, K).double()
    assert loss(logits, rows).item() == pytest.approx(brute, rel=1e-9)
    thirds = torch.tensor([[math.log(3), math.log(2), 0.0]], dtype=torch.float64)  # 1/2, 1/3, 1/6
    assert objective(Method("dual-focal", gamma=2.0), 3)(thirds, torch.tensor([0])).item() == pytest.approx(
        (1 - 1 / 2 + 1 / 3) ** 2 * math.log(2), rel=1e-9
    )


def test_acls_is_its_formula():
    logits, labels = some()
    z = logits.numpy()
    penalty = 0.0
    for row in z:
        top = row.argmax()
        penalty += max(0.0, row[top] - 1.0) ** 2
        penalty += 0.1 * sum(max(0.0, row[top] - row[j] - 1.0) ** 2 for j in range(K) if j != top) / (K - 1)
    plain = F.cross_entropy(logits, labels, reduction="sum").item()
    value = objective(Method("acls", margin=1.0, penalty=0.2), K)(logits, labels).item()
    assert value == pytest.approx(plain + 0.2 * penalty, rel=1e-9)
    leaf = torch.tensor([[0.5, -4.0]]).double().requires_grad_()  # below the margin, and one far below
    loss = objective(Method("acls", margin=1.0, penalty=1.0), 2)(leaf, torch.tensor([0]))
    (gradient,) = torch.autograd.grad(loss - F.cross_entropy(leaf, torch.tensor([0]), reduction="sum"), leaf)
    assert gradient[0].tolist() == pytest.approx([0.0, -0.1 * 2 * 3.5])  # the highest logit is left alone


def test_the_class_adaptive_penalty_is_its_formula_and_learns_from_validation():
    logits, labels = some(scale=8.0)
    h, lam = torch.linspace(-3, 3, 41).double().requires_grad_(), torch.tensor(0.7).double()
    p = lagrangian_penalty(h, lam, 1.3)
    for x, value in zip(h.tolist(), p.tolist(), strict=True):
        above = 0.7 * x + 0.7 * 1.3 * x**2 + 1.3**2 * x**3 / 6
        assert value == pytest.approx(above if x >= 0 else 0.7 * x / (1 - 1.3 * x))
    (slope,) = torch.autograd.grad(p.sum(), h)
    torch.testing.assert_close(lagrangian_slope(h.detach(), lam, 1.3), slope)
    loss = objective(Method("class-adaptive", margin=2.0), K)
    before = loss.table.clone()
    loss.validated(logits.float())
    excess = (logits.max(1, keepdim=True).values - logits - 2.0) / 2.0
    expected = [
        np.mean([(l0 + 2 * l0 * x + x**2 / 2 if x >= 0 else max(1e-6, l0 / (1 - x) ** 2)) for x in column])
        for column, l0 in zip(excess.T.tolist(), before.tolist(), strict=True)
    ]
    assert loss.table.tolist() == pytest.approx(expected, rel=1e-5)
    plain = F.cross_entropy(logits, labels, reduction="sum").item()
    extra = lagrangian_penalty(excess, loss.table.double(), 1.0).sum().item()
    assert loss(logits, labels).item() == pytest.approx(plain + extra, rel=1e-6)


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


# Training them, and resuming


FEW = {
    "mc-dropout": Method("mc-dropout", passes=3),
    "swag": Method("swag", passes=3, swa_share=0.5, rank=3),
    "laplace": Method("laplace"),
    "laplace, sampled": Method("laplace", passes=4),
    "ensemble": Method("ensemble", members=2),
    "distilled": Method("distilled", members=2),
    "distance": Method("distance", passes=2),
    "class-adaptive": Method("class-adaptive"),
    "stop by ECE": Method("one-hot"),
}


class Cut(Exception):
    """Stands for a crash."""


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


def test_swag_collects_at_a_constant_rate_after_its_start(split):
    rates = []
    trained = fit(split, Method("swag", passes=2, swa_share=0.5, swa_lr=0.02),
                  progress=lambda event: rates.append(event["learning_rate"]) if event["event"] == "step" else None)  # fmt: skip
    usual = Recipe.named("small", epochs=8)
    assert rates[:8] == [usual.learning_rate(step, 2) for step in range(8)]
    assert rates[8:] == [0.02] * 8
    assert int(trained.model.collected) == 4


def test_the_first_member_is_the_network_of_one_hot(split):
    ensemble, alone = fit(split, FEW["ensemble"]), fit(split, "one-hot")
    assert all(
        torch.equal(a, b)
        for a, b in zip(
            ensemble.model.networks[0].state_dict().values(), alone.model.state_dict().values(), strict=True
        )
    )
    members = [
        training.predict(net, split.test, standardisation=alone.standardisation) for net in ensemble.model.networks
    ]
    mean = sum(member.probabilities for member in members) / 2
    torch.testing.assert_close(training.predict(ensemble, split.test).probabilities, mean)
    assert not torch.equal(members[0].logits, members[1].logits)


def test_a_distilled_network_learns_what_the_ensemble_takes_classes_for(split):
    ensemble, distilled = fit(split, FEW["ensemble"]), fit(split, FEW["distilled"])
    s = bayes.distilled_similarity(training.predict(ensemble, split.validation))
    method = Method("similarity", soft_labels=smoothing.similarity_labels(s, 0.1), distance="ensemble")
    twin = training.fit(build(1), split.train, split.validation, method=method, recipe=Recipe.named("small", epochs=8),
                        device="cpu", seed=1, progress=False)  # fmt: skip
    first, second = (training.predict(trained, split.test) for trained in (twin, distilled))
    assert torch.equal(first.logits, second.logits)
    assert cost(distilled) == {"passes": 1, "memory": 1.0, "networks": 3}
    assert distilled.effective_target.startswith("class-similarity smoothing, α = 0.1: 0.9 on the true class")


def test_laplace_of_a_training_is_that_of_its_network(split):
    trained = fit(split, "laplace")
    plain = fit(split, "one-hot")
    inputs = torch.from_numpy(split.train.values).permute(0, 3, 1, 2).float()
    mean, std = (
        torch.tensor(part).view(-1, 1, 1) for part in (trained.standardisation.mean, trained.standardisation.std)
    )
    loader = [((inputs - mean) / std, torch.from_numpy(split.train.labels.astype(np.int64)))]
    twin = bayes.Laplace(plain.model).fit(loader)
    assert float(trained.model.precision) == pytest.approx(float(twin.precision), rel=1e-4)


@pytest.mark.parametrize("by", ["refined-nll", "nll", "accuracy", "brier", "ece_hist"])
def test_the_epoch_is_the_best_by_what_was_asked(split, by):
    trained = fit(split, "one-hot", stop_by=by, epochs=10, make=lambda seed, **_: models.build("small", num_classes=10, input_shape=(1, 8, 8), seed=seed))  # fmt: skip
    key = {"ece_hist": "validation_ece"}.get(by, f"validation_{by.replace('-', '_')}")
    values = [entry[key] for entry in trained.history]
    best = max(values) if by == "accuracy" else min(values)
    assert trained.record["chosen_epoch"] == 1 + values.index(best)
    preds = training.predict(trained, split.validation)
    p, y = preds.probabilities, preds.labels
    measured = {
        "refined-nll": lambda: refined_nll(preds.logits, y),
        "nll": lambda: metrics.nll(p, y),
        "accuracy": lambda: metrics.accuracy(p, y),
        "brier": lambda: metrics.brier(p, y),
        "ece_hist": lambda: metrics.ece_hist(p, y),
    }[by]()
    assert measured == pytest.approx(best, rel=1e-6)


def test_the_refined_nll_is_the_least_over_temperatures():
    logits, labels = some(60, scale=2.0)
    least = min(F.cross_entropy(logits / t, labels).item() for t in np.geomspace(0.05, 50, 4000))
    assert refined_nll(logits, labels) == pytest.approx(least, rel=1e-5)
    assert refined_nll(7 * logits, labels) == pytest.approx(refined_nll(logits, labels), rel=1e-7)


# Costs and columns


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
    cells = [{"signed_gap": study.tables.Cell(mean, values=(mean,))} for mean in (-0.62, -0.03)]
    rows = [study.tables.Row("laplace", "Laplace", each) for each in cells]
    (note,) = advice.too_wide(rows)
    assert note.startswith(
        "Laplace is under-confident by 62 points. The network is nearly certain of its training rows"
    )
    assert note.endswith("laplace+ts corrects the scale.")


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
    assert study.tables.times(tmp_path / "s").startswith("Time relative to one-hot's ")
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
