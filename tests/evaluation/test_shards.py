"""Several files as one set: the same numbers as of one file, whoever sums them up, and workers that can be trusted."""

import json
import os
import subprocess
import sys
import threading
from dataclasses import asdict

import numpy as np
import pytest
import torch

from command_line import run
from softkin import SoftkinError, evaluation, predictions
from softkin.evaluation import from_files, shards
from softkin.metrics.measurement import Settings
from softkin.predictions import Predictions, file_sets

pytestmark = pytest.mark.slow

ROWS, CLASSES, SHARDS = 1200, 6, 7


@pytest.fixture(scope="module")
def whole():
    generator = torch.Generator().manual_seed(3)
    labels = torch.randint(CLASSES, (ROWS,), generator=generator)
    logits = torch.randn(ROWS, CLASSES, generator=generator)
    logits[torch.arange(ROWS), labels] += 1.2
    return Predictions(2.2 * logits, labels, sample_ids=[f"row {i}" for i in range(ROWS)])


def split(whole, folder, form="npz", shards=SHARDS):
    """The samples in files of unequal size, named so that only numbers put them in order."""
    folder.mkdir(parents=True)
    ends = [ROWS * (k + 1) ** 2 // shards**2 for k in range(shards)]
    for k, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        part = whole.take(torch.arange(start, end))
        if form == "npz":
            part.save(folder / f"part-{k + 5}.npz")
            continue
        names = ",".join(f"logits_{j}" for j in range(CLASSES))
        lines = [
            ",".join(map(repr, row)) + f",{y}"
            for row, y in zip(part.logits.tolist(), part.labels.tolist(), strict=True)
        ]
        (folder / f"part-{k + 5}.csv").write_text("\n".join([f"{names},labels", *lines]) + "\n")
    return folder


@pytest.fixture(scope="module")
def folder(whole, tmp_path_factory):
    return split(whole, tmp_path_factory.mktemp("sets") / "shards")


@pytest.fixture
def streaming(monkeypatch):
    monkeypatch.setattr(from_files, "ROWS", 300)


def numbers(data):
    """All of it but the name."""
    return json.dumps({key: value for key, value in data.items() if key != "name"})


def test_a_folder_or_a_pattern_is_one_set(whole, folder, tmp_path, capsys):
    whole.save(tmp_path / "whole.npz")
    expected = evaluation.evaluate_file(tmp_path / "whole.npz", resamples=100)
    for path in (folder, f"{folder}/part-*.npz"):
        model = evaluation.evaluate_file(path, resamples=100)
        assert numbers(model.data) == numbers(expected.data)
        assert model.predictions.sample_ids == whole.sample_ids
    code, output, _ = run(capsys, "evaluate", f"{folder}/*.npz", "--resamples", 100, "--json")
    model = json.loads(output)["models"][0]
    assert (code, model["num_samples"], model["name"]) == (0, ROWS, f"{folder}/*.npz")
    code, output, _ = run(capsys, "evaluate", folder, "--resamples", 100)
    assert output.startswith("shards: 1,200 samples, 6 classes")
    # Without quotes the shell makes several models of it, which are of different samples: the error says what to type.
    code, _, errors = run(capsys, "evaluate", *sorted(folder.iterdir())[:2], "--resamples", 100)
    assert code == 1
    assert "Files that are parts of one set are named by their folder, or by a pattern in quotes." in errors


def test_the_order_is_that_of_the_numbers_in_the_names(tmp_path):
    for name in ("a10.npz", "a9.npz", ".hidden.npz", "readme.txt", "b1.npz"):
        (tmp_path / name).write_text("")
    assert [path.name for path in file_sets.expand(tmp_path)] == ["a9.npz", "a10.npz", "b1.npz"]
    assert [path.name for path in file_sets.expand(f"{tmp_path}/a*")] == ["a9.npz", "a10.npz"]
    assert file_sets.expand(tmp_path / "a9.npz") is None
    assert file_sets.expand("-") is None
    (tmp_path / "c.csv").write_text("")
    with pytest.raises(SoftkinError, match="must match files of one format, but matches csv and npz"):
        file_sets.expand(tmp_path)
    with pytest.raises(SoftkinError, match="must match files of predictions, but there is none"):
        file_sets.expand(f"{tmp_path}/*.parquet")
    for name in ("x_logits.npy", "x_labels.npy"):
        (tmp_path / "arrays").mkdir(exist_ok=True)
        (tmp_path / "arrays" / name).write_text("")
    assert [path.name for path in file_sets.expand(tmp_path / "arrays")] == ["x_logits.npy"]


def test_files_of_a_set_must_agree(whole, tmp_path):
    whole.take(torch.arange(10)).save(tmp_path / "a.npz")
    Predictions(torch.zeros(4, 3), torch.zeros(4, dtype=torch.int64)).save(tmp_path / "b.npz")
    with pytest.raises(
        SoftkinError, match=r"the same number of classes, but .*a.npz and .*b.npz differ in it: 6 and 3"
    ):
        evaluation.evaluate_file(tmp_path)
    with pytest.raises(SoftkinError, match="--labels needs a single file, but .* stands for 2"):
        evaluation.evaluate_file(tmp_path, labels=tmp_path / "labels.npy")


@pytest.mark.parametrize("form", ["npz", "csv"])  # which say, and do not say, how many rows they have
def test_processes_give_the_same_to_the_bit(whole, streaming, tmp_path, form):
    folder = split(whole, tmp_path / "shards", form)
    alone = evaluation.evaluate_file(folder, resamples=100)
    assert alone.predictions is None
    shared = evaluation.evaluate_file(folder, resamples=100, jobs=2)
    assert numbers(shared.data) == numbers(alone.data)
    assert all(torch.equal(a, b) for a, b in zip(shared.answers, alone.answers, strict=True))
    assert shared.ids_digest == alone.ids_digest
    assert (shared.ids_digest is None) == (form == "csv")
    # One file of all rows has them in the same groups, and adds up in another order.
    whole.save(tmp_path / "whole.npz")
    single = evaluation.evaluate_file(tmp_path / "whole.npz", resamples=100)
    for key, measured in single.data["metrics"].items():
        for part in ("value", "low", "high", "floor"):
            if part in measured:
                assert shared.data["metrics"][key][part] == pytest.approx(measured[part], rel=1e-6, abs=1e-9), key
    assert shared.data["verdict"] == single.data["verdict"]
    if form == "npz":
        assert single.ids_digest == shared.ids_digest
        compared = from_files.compare_files([single, shared], resamples=100)
        assert {line["significant"] for line in compared} == {False}


def test_a_bad_row_in_one_file_is_named(whole, streaming, tmp_path):
    folder = split(whole, tmp_path / "shards")
    p = np.full((400, CLASSES), 1 / CLASSES)
    p[333] = -1
    np.savez(folder / "part-9.npz", probs=p, labels=np.zeros(400, int))
    with pytest.raises(SoftkinError, match="the same kind of scores"):
        evaluation.evaluate_file(folder, jobs=2)
    logits = np.zeros((400, CLASSES))
    logits[333, 2] = np.nan
    np.savez(folder / "part-9.npz", logits=logits, labels=np.zeros(400, int))
    for jobs in (1, 2):
        with pytest.raises(SoftkinError, match=r"part-9.npz, rows 0 to 399, counted from the first of them: "):
            evaluation.evaluate_file(folder, jobs=jobs)


def test_workers_import_nothing_from_the_current_folder(folder, streaming, tmp_path, monkeypatch):
    (tmp_path / "safetensors.py").write_text(f"open({str(tmp_path / 'canary')!r}, 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, "-c", "import safetensors"], check=True)
    assert (tmp_path / "canary").exists()  # it would sing
    (tmp_path / "canary").unlink()
    assert evaluation.evaluate_file(folder, resamples=100, jobs=2).data["num_samples"] == ROWS
    assert not (tmp_path / "canary").exists()


def task(folder, **changes):
    paths = [str(path) for path in file_sets.expand(folder)]
    first = {"num_classes": CLASSES, "kind": "logits", "class_names": None, "first_label": 0}
    values = {"paths": paths, "reading": {}, "start": 0} | first
    return shards.Task(**values | {"settings": asdict(Settings()), "metrics": []} | changes)


def test_a_worker_that_dies_is_a_failure(folder):
    process = shards._Process(1)
    try:
        assert json.loads(process.perform(task(folder, start=-1))) == [24, 73, 123, 171, 221, 269, 319]
        process.process.kill()
        with pytest.raises(
            SoftkinError, match=r"a process that read .*part-5.npz ended before it was done \(signal 9\)"
        ):
            process.perform(task(folder))
    finally:
        process.close(at_once=True)


def test_a_metric_that_only_the_caller_knows(folder):
    with pytest.raises(ValueError, match="the metric 'mine' is declared in the calling process only"):
        task(folder, metrics=["nll", "mine"]).perform()


def test_bad_options(folder, capsys):
    for arguments, words in (
        (["--jobs", 0], "--jobs must be at least 1, got 0"),
        (["--engine", "rey"], "--engine 'rey' is not known; there are local, ray; did you mean 'ray'?"),
        (["--address", "auto"], "--address is for --engine ray, and the engine is local"),
    ):
        code, _, errors = run(capsys, "evaluate", folder, *arguments)
        assert code == 2
        assert words in errors


os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112


@pytest.fixture
def cluster():
    """Two nodes on this machine, one task at a time on each."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = made.add_node(num_cpus=1)
    yield made, second
    ray.shutdown()
    made.shutdown()


def _kill_at_work(nodes, second, killed, over):
    """When the second node performs a task, it is gone."""
    import psutil

    node = psutil.Process(second.all_processes["raylet"][0].process.pid)
    while not over.wait(0.002):
        for child in node.children(recursive=True):
            try:
                at_work = "ray::_on_node" in " ".join(child.cmdline())
            except psutil.Error:
                continue
            if at_work:
                killed.set()
                nodes.remove_node(second, allow_graceful=False)
                return


@pytest.mark.filterwarnings("ignore")  # Ray's own: files that it leaves open
def test_a_node_dies_and_the_numbers_are_the_same(cluster, whole, streaming, tmp_path):
    nodes, second = cluster
    folder = split(whole, tmp_path / "shards", "csv", shards=8)
    alone = evaluation.evaluate_file(folder, resamples=100)
    killed, over = threading.Event(), threading.Event()
    killer = threading.Thread(target=_kill_at_work, args=(nodes, second, killed, over))
    killer.start()
    try:
        shared = evaluation.evaluate_file(folder, resamples=100, engine="ray", address=nodes.address)
    finally:
        in_time = killed.is_set()
        over.set()
        killer.join()
    assert in_time
    assert numbers(shared.data) == numbers(alone.data)


def test_without_ray(folder, streaming, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SoftkinError, match=r"the engine ray needs Ray: pip install 'softkin\[ray\]'."):
        evaluation.evaluate_file(folder, engine="ray")


def of_rows(folder, name, header, p, labels):
    folder.mkdir(exist_ok=True)
    lines = [
        ",".join(header),
        *(",".join([*(f"{q:.6f}" for q in row), str(k)]) for row, k in zip(p, labels, strict=True)),
    ]
    (folder / name).write_text("\n".join(lines))


@pytest.mark.parametrize("jobs", [1, 2])
def test_labels_from_1_and_classes_in_another_order_are_understood_in_streams(tmp_path, monkeypatch, jobs):
    p = np.random.default_rng(2).dirichlet([1, 1, 1], 80)
    labels = [k if j % 3 else (k + 1) % 3 for j, k in enumerate(p.argmax(axis=1).tolist())]
    right = np.mean([k == top for k, top in zip(labels, p.argmax(axis=1), strict=True)])
    of_rows(tmp_path / "one", "1.csv", ["a", "b", "c", "label"], p[:40], [k + 1 for k in labels[:40]])
    of_rows(tmp_path / "one", "2.csv", ["a", "b", "c", "label"], p[40:], [k + 1 for k in labels[40:]])
    words = ["abc"[k] for k in labels]
    of_rows(tmp_path / "two", "1.csv", ["a", "b", "c", "label"], p[:40], words[:40])
    of_rows(tmp_path / "two", "2.csv", ["c", "a", "b", "label"], p[40:][:, [2, 0, 1]], words[40:])
    monkeypatch.setattr(from_files, "ROWS", 30)
    for name, said in (("one", "labels are counted from 1, since they go from 1 to 3"), ("two", "in another order")):
        with pytest.warns(predictions.Assumption, match=said):
            found = evaluation.evaluate_file(tmp_path / name, resamples=100, jobs=jobs, kind="probs")
        assert found.predictions is None
        assert found.data["metrics"]["accuracy"]["value"] == pytest.approx(right)
