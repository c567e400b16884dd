import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from softkin import SoftkinError, distances, predictions, report, similarity
from softkin._io import files
from softkin.cli import main
from softkin.lab import data, study
from softkin.lab.study import perform as perform_module
from softkin.lab.study import writing
from softkin.lab.study.advice import implied
from softkin.lab.study.claims import Claims
from softkin.lab.study.plan import Plan
from softkin.lab.study.records import Records, kept_in
from softkin.lab.study.worker import MOST_DEATHS
from softkin.lab.training import loop
from softkin.predictions import Predictions
from study_parts import quick, without_pictures  # noqa: F401  a fixture

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_pictures")]
DRAW, WRITE_PAGE = writing.draw, report.write_comparison  # before the fixture below replaces them
FORK = multiprocessing.get_context("fork")  # a child begins at once, where a new Python takes seconds to import torch


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A small study on real digits, done by one process without a break."""
    folder = tmp_path_factory.mktemp("done") / "study"
    study.run(quick(), folder, workers=1, progress=False)
    return folder


def start(folder, spec=None, **options):
    """The same study in a process of its own."""
    child = FORK.Process(target=_alone, args=(spec or quick(), folder, {"workers": 1, "progress": False, **options}))
    child.start()
    return child


def _alone(spec, folder, options):
    torch.set_num_threads(1)  # a forked process has lost the threads that its parent computes with, and waits for them
    study.run(spec, folder, **options)


def _work(folder):
    torch.set_num_threads(1)
    study.work(folder)


def tables(folder):
    return {name: (folder / name).read_bytes() for name in ("table.md", "table.csv", "table.tex", "table.json")}


def runs(folder):
    records = Records(folder)
    return {job.title: records.find(job.digest) for job in Plan(kept_in(folder)).jobs(records.find)}


def test_what_a_study_leaves(done):
    table = study.table(done)
    assert table.finished
    assert [row.title for row in table.rows] == ["one-hot", "TS", "WE"]
    assert all(cell.n == 2 for row in table.rows for cell in row.cells.values())
    assert table.to_markdown().encode() == tables(done)["table.md"]
    assert {path.name for path in (done / "figures").iterdir()} == {
        "reliability-prediction.svg",
        "reliability-output.svg",
    }
    assert list((done / "claims").iterdir()) == []
    assert not list(done.rglob("work-*"))  # checkpoints go when a run is done


@pytest.mark.parametrize("workers", [1, 2])
def test_what_one_hot_training_implies_is_told_before_the_other_methods_are_done(tmp_path, workers):
    messages, others = [], []

    def tell(sentence):
        messages.append(sentence)
        others.extend(title for title, record in runs(tmp_path / "s").items() if record and title.startswith("WE ("))

    spec = quick()
    study.run(spec, tmp_path / "s", workers=workers, progress=False, tell=tell)
    assert len(messages) == 2
    assert messages[0].startswith("About 6 trainings, ")
    assert messages[1].startswith("On the validation rows (2 seeds), for now, one-hot training is ")
    assert workers == 2 or others == []  # two workers may have begun, or be done, when the first of us looks
    study.run(spec, tmp_path / "s", workers=workers, progress=False, tell=messages.append)
    assert len(messages) == 2  # nothing was left to train
    study.run(quick(methods=["one-hot", "ts"]), tmp_path / "t", workers=1, progress=False, tell=messages.append)
    assert len(messages) == 3  # nothing else to decide on
    assert messages[2].startswith("About 2 trainings, ")


def test_the_baselines_gap_counts_as_chance_within_the_noise_of_its_rows():
    def network(confidence, right, n):
        p = torch.tensor([[confidence, 1 - confidence]], dtype=torch.float64).repeat(n, 1)
        labels = (torch.arange(n) >= right).long()
        return Predictions(p.log(), labels)

    assert "perhaps over-confident (gap +5.0 ± 5.7 points): too few" in implied([network(0.9, 85, 100)])
    assert implied([network(0.9, 8000, 10_000)]) == (
        "On the validation rows (1 seed), for now, one-hot training is over-confident by 10.0 points: fit a "
        "temperature, or smooth with alpha='auto' (or from α ≈ 0.06). The summary at the end is about the test rows, so "
        "its numbers differ a little."
    )
    apart = implied([network(0.9, 8000, 10_000), network(0.9, 9800, 10_000)])
    assert "perhaps over-confident (gap +1.0 ± 18.0 points): too few seeds" in apart  # +10 and −8
    assert "nothing to repair" in implied([network(0.9, 9000, 10_000)])


def test_figures_of_what_has_no_class(tmp_path):
    spec = quick(methods=["one-hot", "ts"], seeds=[0], ood=["uniform", "gaussian"], ood_rows=50)
    study.run(spec, tmp_path / "s", workers=1, progress=False)
    DRAW(study.StudyFolder(tmp_path / "s"))
    drawn = (tmp_path / "s" / "figures" / "ood-1.svg").read_text()
    assert "out of distribution: gaussian" in drawn
    assert (tmp_path / "s" / "figures" / "ood-0.svg") in writing.written(tmp_path / "s")


def test_records_say_all(done):
    records = runs(done)
    assert len(records) == 1 + 2 * (1 + 2 + 3)
    for title, record in records.items():
        assert {"spec", "softkin", "versions", "device", "seconds", "processor_seconds", "files", "threads"} <= set(
            record
        ), title
    result = records["result of WE, seed 1"]
    assert {"seed", "data_digest", "split_digest", "effective_target", "metrics", "tried", "chosen", "values"} <= set(
        result
    )
    assert [trial["values"]["beta"] for trial in result["tried"]] == [1.0, 4.0]
    best = min(result["tried"], key=lambda trial: trial["validation"]["nll"]["value"])
    assert result["chosen"] == best["run"]
    assert result["values"] == best["values"]
    assert result["effective_target"].startswith("class-similarity smoothing, α = 0.1, β = ")
    assert result["split_digest"] != records["result of WE, seed 0"]["split_digest"]


def test_calibrators_reuse_the_one_hot_run(done):
    records = runs(done)
    assert records["result of TS, seed 0"]["chosen"] == records["result of one-hot, seed 0"]["chosen"]
    results = {(result.method, result.seed): result for result in study.results(done)}
    raw, calibrated = results["one-hot", 0].test(), results["ts", 0].test()
    assert torch.equal(raw.probabilities.argmax(1), calibrated.probabilities.argmax(1))
    assert raw.sample_ids.equal(calibrated.sample_ids)
    assert not torch.equal(raw.probabilities, calibrated.probabilities)
    assert results["ts", 0].validation().digest == results["one-hot", 0].validation().digest


def test_fair_within_a_seed(tmp_path):
    """α = 0 is one-hot: any difference in weights, rows or their order would show in the last bit."""
    spec = quick(methods=["one-hot", "uniform", "l1"], seeds=[4], alpha=0.0, beta=1.0)
    study.run(spec, tmp_path / "s", workers=1, progress=False)
    logits = [result.test().logits for result in study.results(tmp_path / "s")]
    assert torch.equal(logits[0], logits[1])
    assert torch.equal(logits[0], logits[2])
    # Distances see training rows only, and no row is in two sets.
    split = data.split("digits", seed=4, max_per_class=3, validation=60, test=80)
    actual = next(record for title, record in runs(tmp_path / "s").items() if title.startswith("L1 distances"))
    d = distances.load(
        tmp_path / "s" / "runs" / actual["digest"] / "distances.safetensors", class_names=split.train.class_names
    )
    assert torch.equal(d, distances.from_images(split.train.values, split.train.labels, p=1))
    sets = [set(part.ids.tolist()) for part in (split.train, split.validation, split.test)]
    assert len(set.union(*sets)) == sum(map(len, sets)) == 30 + 60 + 80
    assert set(study.results(tmp_path / "s")[0].test().sample_ids.tolist()) == sets[2]
    assert set(study.results(tmp_path / "s")[0].validation().sample_ids.tolist()) == sets[1]


def test_finished_work_is_never_repeated(done, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("nothing is left to do")

    before = tables(done)
    monkeypatch.setattr(perform_module, "perform", refuse)
    study.run(quick(), done, workers=1, progress=False)
    assert tables(done) == before


def test_more_seeds_in_the_same_folder_reuse_the_rest(done, tmp_path):
    shutil.copytree(done, tmp_path / "s")
    old = {record["digest"]: record["seconds"] for record in runs(tmp_path / "s").values()}
    with pytest.raises(SoftkinError, match="holds another study \\(seeds 0, 1 there, 0, 1, 2 here\\)"):
        study.run(quick(seeds=[0, 1, 2]), tmp_path / "s", workers=1, progress=False)
    assert tables(tmp_path / "s") == tables(done)
    study.run(quick(seeds=[0, 1, 2]), tmp_path / "s", workers=1, progress=False, force=True)
    new = {record["digest"]: record["seconds"] for record in runs(tmp_path / "s").values()}
    assert old.items() <= new.items()


def test_killed_at_any_moment_it_ends_in_the_same_table(done, tmp_path):
    folder, moments = tmp_path / "s", random.Random(0)
    kills = 0
    while True:
        child = start(folder)
        child.join(timeout=moments.uniform(0.3, 1.5) if kills < 3 else None)
        if child.exitcode is not None:
            break
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        kills += 1
    assert child.exitcode == 0
    assert kills >= 1
    assert tables(folder) == tables(done)


def test_killed_in_mid_training_it_resumes(tmp_path, done, monkeypatch):
    """A long training is killed after a checkpoint: the next one starts from there, and ends the same."""
    monkeypatch.setitem(loop.fit.__kwdefaults__, "checkpoint_every", 0)
    spec = quick(methods=["one-hot"], seeds=[0], recipe={"name": "small", "epochs": 200})
    child = start(tmp_path / "s", spec)
    while not list((tmp_path / "s").rglob("step-*.safetensors")):
        assert child.is_alive()
        time.sleep(0.02)
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    (claim,) = (tmp_path / "s" / "claims").glob("*.1")
    assert not Records(tmp_path / "s").find(claim.name.removesuffix(".1"))
    study.run(spec, tmp_path / "s", workers=1, progress=False)
    study.run(spec, tmp_path / "t", workers=1, progress=False)
    assert tables(tmp_path / "s") == tables(tmp_path / "t")
    assert runs(tmp_path / "s")["one-hot, seed 0"]["resumed"]
    assert not runs(tmp_path / "t")["one-hot, seed 0"]["resumed"]
    assert not list((tmp_path / "s").rglob("work-*"))


@pytest.mark.parametrize("file", ["test.safetensors", "record.json"])
def test_damaged_runs_are_set_aside_and_done_again(done, tmp_path, file):
    folder = tmp_path / "s"
    shutil.copytree(done, folder)
    digest = runs(folder)["one-hot, seed 0"]["digest"]
    path = folder / "runs" / digest / file
    content = path.read_bytes()
    path.write_bytes(content[:-40] + bytes([content[-40] ^ 64]) + content[-39:])
    assert [job.title for job in study.standing(folder).damaged] == ["one-hot, seed 0"]
    with pytest.warns(UserWarning, match="one-hot, seed 0 was damaged; set aside"):
        study.run(quick(), folder, workers=1, progress=False)
    assert tables(folder) == tables(done)
    assert (folder / "damaged" / f"{digest}-1" / file).exists()


def test_two_processes_share_a_study_and_take_each_run_once(done, tmp_path):
    folder = tmp_path / "s"
    folder.mkdir()
    (folder / "study.json").write_bytes((done / "study.json").read_bytes())
    workers = [FORK.Process(target=_work, args=(folder,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    records = runs(folder)
    assert {record["pid"] for record in records.values()} == {worker.pid for worker in workers}
    assert set(Claims(folder / "claims").newest().values()) == {1}  # no run was taken twice
    study.finish(folder)
    assert tables(folder) == tables(done)


def test_worker_processes_one_of_them_killed(done, tmp_path):
    """The real thing: two workers started by run, one is shot, another takes its place."""
    folder = tmp_path / "s"
    child = start(folder, workers=2)
    victim = None
    while victim is None:
        assert child.is_alive()
        time.sleep(0.05)
        for path in (folder / "claims").glob("*.1") if (folder / "claims").exists() else ():
            who = json.loads(path.read_text())
            victim = None if who.get("released") else who["pid"]
    assert victim != child.pid
    os.kill(victim, signal.SIGKILL)
    child.join()
    assert child.exitcode == 0
    assert tables(folder) == tables(done)


def test_a_failed_run_tells_why_and_does_not_stop_the_others(tmp_path, monkeypatch, capsys):
    real = perform_module.perform

    def fails_once(job, *arguments, **options):
        if job.title == "WE (α = 0.1, β = 4), seed 0":
            raise RuntimeError("out of luck")
        return real(job, *arguments, **options)

    spec = quick(seeds=[0])
    with monkeypatch.context() as patch:
        patch.setattr(perform_module, "perform", fails_once)
        with pytest.raises(
            SoftkinError,
            match="WE \\(α = 0.1, β = 4\\), seed 0 failed: RuntimeError: out of luck; all that is done is kept",
        ):
            study.run(spec, tmp_path / "s", workers=1, progress=False)
    assert main(["status", str(tmp_path / "s")]) == 0
    out = capsys.readouterr().out
    assert "5 done, 0 running, 1 failed, 0 damaged, 1 left" in out
    assert "failed: WE (α = 0.1, β = 4), seed 0: RuntimeError: out of luck" in out
    assert main(["status", str(tmp_path / "s"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["failed"][0]["reason"] == "RuntimeError: out of luck"
    assert not study.table(tmp_path / "s").finished
    study.run(spec, tmp_path / "s", workers=1, progress=False)  # a new start tries again
    assert study.table(tmp_path / "s").finished


def test_a_run_that_kills_its_workers_is_given_up(tmp_path, done):
    folder = tmp_path / "s"
    folder.mkdir()
    (folder / "study.json").write_bytes((done / "study.json").read_bytes())
    job = next(Plan(kept_in(folder)).jobs(lambda _: None))
    for _ in range(MOST_DEATHS):
        path = Claims(folder / "claims").take(job.digest).path
        path.write_text(json.dumps({**json.loads(path.read_text()), "started": "long ago"}))
    study.work(folder)
    assert Records(folder).failure(job.digest) == "its worker died 5 times"
    study.run(kept_in(folder).spec, folder, workers=1, progress=False)  # a new start tries again
    assert tables(folder) == tables(done)


def test_however_often_a_study_is_killed_its_runs_are_not_blamed(tmp_path, done):
    folder = tmp_path / "s"
    folder.mkdir()
    (folder / "study.json").write_bytes((done / "study.json").read_bytes())
    job = next(Plan(kept_in(folder)).jobs(lambda _: None))

    def die():
        Claims(folder / "claims").take(job.digest)
        os.kill(os.getpid(), signal.SIGKILL)

    for _ in range(MOST_DEATHS + 2):
        child = FORK.Process(target=die)
        child.start()
        child.join()
    assert Claims(folder / "claims").newest() == {job.digest: MOST_DEATHS + 2}
    study.work(folder)
    assert Records(folder).failure(job.digest) is None
    assert Records(folder).find(job.digest) is not None


def _limited(folder, most):
    """The command with a disk that is full after ``most`` bytes of any file."""
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    os._exit(main(_command(folder)))


def _command(folder):
    return [
        *(
            "compare",
            "--data",
            "digits",
            "--tune",
            "none",
            "--methods",
            "one-hot,ts,we",
            "--seeds",
            "2",
            "--alpha",
            "0.1",
            "--beta",
            "1,4",
            "--max-per-class",
            "3",
            "--model",
            "mlp(hidden=32)",
        ),
        *("--validation", "60", "--test", "80", "--epochs", "12", "--workers", "1", "--output", str(folder)),
    ]


def test_a_full_disk(tmp_path, capfd):
    """Every file beyond a size is refused, as by a disk that is full: one sentence, and the next start goes on."""
    child = FORK.Process(target=_limited, args=(tmp_path / "s", 2500))
    child.start()
    child.join()
    error = capfd.readouterr().err
    assert child.exitcode == 1
    assert error.count("\n") == 2  # what it may take, and why it stopped
    assert "could not be written: File too large." in error
    assert not study.standing(tmp_path / "s").failed  # it is not the run's fault
    assert main(_command(tmp_path / "s")) == 0
    assert study.table(tmp_path / "s").finished


def _as_nobody(folder):
    torch.set_num_threads(1)
    os.setgid(65534)
    os.setuid(65534)
    os._exit(main(_command(folder)))


def test_a_read_only_folder(tmp_path, capfd, monkeypatch):
    folder = tmp_path / "s"
    study.run(quick(seeds=[0], methods=["one-hot"]), folder, workers=1, progress=False)
    for path in [folder.parent, *folder.parent.parents]:
        if path.owner() == "root" and path != Path("/") and os.geteuid() == 0 and "pytest" in str(path):
            path.chmod(0o755)  # so that nobody gets as far as the folder
    fresh = tmp_path / "fresh"
    fresh.mkdir(mode=0o755)
    if os.geteuid() == 0:
        child = FORK.Process(target=_as_nobody, args=(fresh / "s",))
        child.start()
        child.join()
        code = child.exitcode
    else:
        fresh.chmod(0o555)
        code = main(_command(fresh / "s"))
    error = capfd.readouterr().err
    assert code == 1
    assert error.count("\n") == 1
    assert "could not be written: Permission denied." in error


def test_class_names_without_vectors(tmp_path, capsys):
    generator = np.random.default_rng(0)
    path = tmp_path / "own.npz"
    np.savez(path, features=generator.normal(size=(60, 4)), labels=np.arange(60) % 2, class_names=["dolphin", "qwzxvk"])
    code = main(["compare", "--data", str(path), "--methods", "one-hot,we", "--output", str(tmp_path / "s")])
    error = capsys.readouterr().err
    assert code == 2  # `--alias` and `--vectors` can mend it
    assert "qwzxvk" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "s").exists()


def test_own_features_and_out_of_distribution(tmp_path):
    """Another kind of data, an own network, samples of no class."""
    generator = np.random.default_rng(0)
    labels = np.arange(150) % 3
    path = tmp_path / "own.npz"
    np.savez(
        path,
        features=generator.normal(size=(150, 5)) + labels[:, None],
        labels=labels,
        class_names=["dolphin", "whale", "rose"],
    )
    spec = study.StudySpec.from_dict(
        {
            "data": str(path),
            "seeds": [0],
            "beta": 2.0,
            "ood": ["uniform"],
            "ood_rows": 50,
            "recipe": {"epochs": 2},
            "methods": ["one-hot", "ts", "l2", "l1", "we+ts"],
        }
    )
    with pytest.warns(UserWarning, match="with 3 classes normalised distances are always extreme"):
        table = study.run(spec, tmp_path / "s", workers=1, progress=False)
    assert kept_in(tmp_path / "s").spec.model == "mlp"
    assert [column.title for column in table.columns][-2:] == ["AUROC uniform", "FPR@95 uniform"]
    for result in study.results(tmp_path / "s"):
        assert result.ood("uniform").labels is None
        assert len(result.ood("uniform")) == 50
        assert 0 <= result.metrics["auroc uniform"].value <= 1
    assert "WE+TS" in table.to_markdown()


def test_halving_and_budget_run(tmp_path):
    spec = quick(methods=["one-hot", "we"], seeds=[0], beta=[0.5, 1.0, 2.0, 4.0], search="halving", accuracy_budget=0.3)
    table = study.run(spec, tmp_path / "s", workers=1, progress=False)
    result = next(result for result in study.results(tmp_path / "s") if result.method == "we")
    assert [trial["epochs"] for trial in result.record["tried"]] == [3, 3, 3, 3, 6, 6, 12]
    assert "lowest output ECE that loses at most" in table.to_markdown()


def test_predictions_are_plain_files(done):
    result = study.results(done)[0]
    path = done / "runs" / result.record["predictions"] / "test.safetensors"
    assert predictions.load(path).split_digest == result.record["split_digest"]


def test_each_record_is_read_once(done, tmp_path, monkeypatch):
    """Table, figures, page and the look at what is left share what the first of them has read and hashed."""
    folder = shutil.copytree(done, tmp_path / "s")
    hashed = Counter()
    real = files.sha256_of_file

    def counted(path):
        hashed[path] += 1
        return real(path)

    monkeypatch.setattr(files, "sha256_of_file", counted)
    monkeypatch.setattr(writing, "draw", DRAW)
    (folder / "table.json").unlink()
    study.finish(folder, write_page=WRITE_PAGE)
    assert (folder / "report.html").exists()
    assert len(hashed) >= 2 * 3 * 2
    assert set(hashed.values()) == {1}
    hashed.clear()
    table = study.run(study.StudyFolder(folder).kept.spec, folder, workers=1, progress=False, write_page=WRITE_PAGE)
    assert {path: count for path, count in hashed.items() if count > 1 and "runs" in Path(path).parts} == {}
    assert table.times.splitlines()[1].startswith("Time relative to one-hot's ")


def test_what_a_method_took_leaves_out_what_else_the_machine_did(done):
    """Seconds of the processor: two trainings side by side, or beside other work, take longer by the clock."""
    opened = study.StudyFolder.of(done)
    took: dict[str, list[float]] = {}
    for result in opened.results():
        record = opened.records.training(result.record["chosen"])
        assert not record["resumed"]
        took.setdefault(study.columns.parts(result.method)[0], []).append(record["processor_seconds"])
    found = study.tabulation.seconds_of_networks(opened)
    assert found == {name: pytest.approx(sum(each) / len(each)) for name, each in took.items()}


def test_a_finished_study_writes_its_page_again(done, tmp_path):
    """The table is the same, but another version of softkin may show it in other words."""
    folder = shutil.copytree(done, tmp_path / "s")
    study.finish(folder, write_page=WRITE_PAGE)
    page, table = folder / "report.html", folder / "table.md"
    now, kept = page.read_bytes(), table.stat().st_mtime_ns
    page.write_text("a page of an older version")
    study.finish(folder, write_page=WRITE_PAGE)
    assert page.read_bytes() == now
    assert table.stat().st_mtime_ns == kept


@pytest.mark.usefixtures("without_pictures")
def test_a_calibrated_column_has_the_values_that_are_best_after_a_temperature(tmp_path):
    spec = quick(methods=["one-hot", "uniform", "uniform+ts", "learned-l2+ts"], alpha=[0.01, 0.3, 0.8], seeds=[0])
    table = study.run(spec, tmp_path / "study", workers=1, progress=False)
    records = [record for record in runs(tmp_path / "study").values() if record["kind"] == "training"]
    tried = {record["spec"]["values"]["alpha"]: record for record in records if record["spec"]["method"] == "uniform"}
    assert sorted(tried) == [0.01, 0.3, 0.8]
    refined, plain = ({a: number(tried[a]) for a in tried} for number in (
        lambda record: record["refined_nll"], lambda record: record["metrics"]["nll"]["value"]
    ))  # fmt: skip
    assert table.row("uniform").chosen[0]["alpha"] == min(plain, key=plain.get)
    assert table.row("uniform+ts").chosen[0]["alpha"] == min(refined, key=refined.get)
    leaning = [record for record in records if record["spec"]["method"] == "learned-l2"]
    assert all("as 1 sample" in record["effective_target"] for record in leaning)
    assert len(leaning) == 3  # as many trials as others


@pytest.mark.filterwarnings("ignore:alpha='auto' has stayed at 0")
def test_alpha_and_beta_tune_themselves_and_the_records_say_where_they_ended(tmp_path):
    spec = quick(methods=["one-hot", "uniform", "l2", "l2+ts"], alpha="auto", beta="auto", top_m=3)
    table = study.run(spec, tmp_path / "study", workers=1, progress=False)
    records = runs(tmp_path / "study")
    for seed in (0, 1):
        record = records[f"L2 (α = auto, β = auto, top-m = 3), seed {seed}"]
        assert record["found"]["alpha"] == record["history"][-1]["alpha"]
        baseline = Records(tmp_path / "study").path(record["spec"]["outputs"]) / "validation.safetensors"
        outputs = predictions.load(baseline)
        d = distances.read(Records(tmp_path / "study").path(record["spec"]["distances"]) / "distances.safetensors")
        best = similarity.best_beta(d.values, outputs.probabilities, outputs.known_labels)
        assert record["found"]["beta"] == pytest.approx(best)
        assert set(records[f"uniform (α = auto), seed {seed}"]["found"]) == {"alpha"}
        assert records[f"one-hot, seed {seed}"]["found"] == {}
    assert table.row("l2").settled == table.row("l2+ts").settled
    (note,) = (note for note in table.notes if note.startswith("Values: "))
    assert "uniform α = auto (" in note
    assert note.count("L2") == 1
    assert table.recommendation[0].startswith("One-hot training claims ")
    assert " ".join(table.recommendation) in table.to_markdown()


@pytest.mark.filterwarnings("ignore:alpha='auto' has stayed at 0")
def test_a_tuned_study_says_what_it_chose_and_what_that_took(tmp_path, without_pictures):  # noqa: F811
    spec = quick(methods=["one-hot", "ts", "we"], beta=["auto"], alpha=["auto"], tune=["weight-decay"])
    said = []
    table = study.run(spec, tmp_path / "s", workers=1, progress=False, tell=said.append)
    assert said[0].startswith(
        "Tuning weight decay of 2 trained methods on seed 0 first: at least 6 trainings, more where the best value is at "
        "an end, beside 2 others. About 11 trainings, "
    )
    assert said[0].endswith(" with 1 at a time.")
    assert len(said) == 2
    assert "recipe small with epochs 12" in table.notes[0]
    note = next(note for note in table.notes if note.startswith("Tuned for every trained method alike (weight decay;"))
    assert "one-hot " in note
    assert "WE " in note
    trials = table.row("we").recipe["tried"]
    assert len(trials) >= 3
    assert table.row("ts").recipe == table.row("one-hot").recipe
    assert f"Tuning took {len(trials) + len(table.row('ts').recipe['tried'])} trials" in table.times
    best = min(trials, key=lambda trial: trial["refined_nll"])
    assert table.row("we").recipe["chosen"] == {"weight_decay": best["value"]}
    again = study.run(spec, tmp_path / "s", workers=2, progress=False, tell=said.append)
    assert again == table
    assert not any(sentence.startswith("About") for sentence in said[2:])  # nothing is left


@pytest.mark.filterwarnings("ignore:alpha='auto' has stayed at 0")
def test_a_study_that_tunes_for_each_value_says_so(tmp_path, without_pictures):  # noqa: F811
    own = {"tuning": "first seed", "tune": ["weight-decay"], "tune_each": True, "seeds": [0, 1]}
    spec = quick(methods=["one-hot", "uniform"], uniform_alpha=[0.05, 0.3], **own)
    said = []
    table = study.run(spec, tmp_path / "s", workers=1, progress=False, tell=said.append)
    assert said[0].startswith(
        "Tuning weight decay of 2 trained methods, for each value that they try, on seed 0 first: at least 9 trainings, "
        "more where the best value is at an end, beside 2 others. "
    )
    note = next(note for note in table.notes if note.startswith("Tuned for every trained method alike (weight decay;"))
    assert "for each value that a method tries, " in note
    records = [json.loads(path.read_text()) for path in (tmp_path / "s").glob("runs/*/record.json")]
    tried = {
        (one["spec"]["values"]["alpha"], one["spec"]["recipe"]["weight_decay"])
        for one in records
        if one["kind"] == "training" and (one["spec"]["method"], one["seed"]) == ("uniform", 0)
    }
    assert {alpha for alpha, _ in tried} == {0.05, 0.3}
    row = table.row("uniform")
    assert (row.chosen[0]["alpha"], row.recipe["chosen"]["weight_decay"]) in tried


def test_a_column_that_needs_outputs_takes_those_of_the_one_hot_network(tmp_path, without_pictures):  # noqa: F811
    table = study.run(quick(methods=["one-hot", "out"], beta=[1.0]), tmp_path / "s", workers=1, progress=False)
    assert table.finished
    assert table.row("out").cells["accuracy"].value > 0.1
    with pytest.raises(ValueError, match="method out learns from the outputs of a network; add one-hot"):
        study.run(quick(methods=["out"], beta=[1.0]), tmp_path / "t", workers=1, progress=False)


def test_a_column_that_needs_a_tree_takes_the_super_classes_of_the_data(tmp_path, without_pictures):  # noqa: F811
    source, names = tmp_path / "data", ["wolf", "fox", "tulip", "rose"]
    source.mkdir()
    generator = np.random.default_rng(0)
    for part in ("train", "validation", "test"):
        labels = np.arange(80) % 4
        values = (np.eye(4)[labels] + generator.normal(size=(80, 4))).astype(np.float32)
        np.savez(source / f"{part}.npz", features=values, labels=labels, class_names=names)
    own = {"max_per_class": None, "validation": None, "test": None}
    spec = quick(data=str(source), methods=["one-hot", "tree"], beta=[1.0], seeds=[0], **own)
    with pytest.raises(ValueError, match=r"the distance 'taxonomy' needs `tree` \(--tree\)"):
        study.run(spec, tmp_path / "study", workers=1, progress=False)
    tree = source / "superclasses.csv"
    tree.write_text("class,superclass\nwolf,animal\nfox,animal\ntulip,flower\nrose,flower\n")
    table = study.run(spec, tmp_path / "study", workers=1, progress=False)
    assert "Tree: the super-classes that come with the data." in table.notes
    (found,) = (tmp_path / "study" / "runs").glob("*/distances.safetensors")
    d = distances.load(found, class_names=names)
    assert d[0, 1] < d[0, 2] == d[0, 3]
    tree.write_text(tree.read_text() + "\n")
    with pytest.raises(SoftkinError, match="the tree that comes with data.* has changed since"):
        study.run(spec, tmp_path / "study", workers=1, progress=False)
