import os
import subprocess
import sys
import threading

import pytest

from softkin import SoftkinError
from softkin.cli import main
from softkin.lab import study
from softkin.lab.study.run import drive
from study_parts import quick, sweep_of, without_pictures  # noqa: F401  a fixture

pytestmark = pytest.mark.slow

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
# Ray's workers are polite (15): beside other tests they would stand still. Ray spells the name like this.
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
LONG = {"name": "small", "epochs": 1000}  # seconds of training: time for the killer to see both nodes at it


@pytest.fixture
def cluster():
    """Two nodes on this machine, one run at a time on each."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = made.add_node(num_cpus=1)
    ray.init(address=made.address, log_to_driver=False)
    # Both nodes begin with torch in memory, so that neither does all the work while the other one imports it.
    ray.get([_warm(ray, node["NodeID"]) for node in ray.nodes()])
    yield made, second
    ray.shutdown()
    made.shutdown()


def _warm(ray, node):
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def load():  # a function of a function goes to the node as it is: nodes do not see the tests
        import softkin.lab.study.perform
        import softkin.lab.training

        return bool(softkin.lab.study.perform and softkin.lab.training.fit)

    there = NodeAffinitySchedulingStrategy(node, soft=False)
    return ray.remote(load).options(num_cpus=1, scheduling_strategy=there).remote()


def _kill_in_training(nodes, second, folder, killed, over):
    """When both nodes train, each having room for one run: the second is gone, in the middle of its training."""
    while not over.wait(0.01):
        if len(list(folder.rglob("work-ray/run.json"))) >= 2:
            killed.set()
            nodes.remove_node(second, allow_graceful=False)  # which then waits until the cluster has noticed
            return


@pytest.mark.filterwarnings("ignore")  # Ray's own: files that it leaves open
def test_a_node_dies_while_it_trains_and_the_table_is_the_same(cluster, tmp_path, capsys, without_pictures):  # noqa: F811
    nodes, second = cluster
    spec = quick(methods=["one-hot", "ts"], seeds=[0, 1, 2], recipe=LONG)
    kept = study.perform.resolve(spec)
    study.records.keep(tmp_path / "cluster", kept)
    killed, over = threading.Event(), threading.Event()
    killer = threading.Thread(target=_kill_in_training, args=(nodes, second, tmp_path / "cluster", killed, over))
    killer.start()
    try:
        drive(study.StudyFolder(tmp_path / "cluster"))
    finally:
        in_time = killed.is_set()
        over.set()
        killer.join()
    assert in_time
    table = study.finish(tmp_path / "cluster")
    assert table.finished
    study.run(spec, tmp_path / "alone", workers=1, progress=False)
    for name in ("table.md", "table.csv", "table.tex", "table.json"):
        assert (tmp_path / "cluster" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()
    standing = study.standing(tmp_path / "cluster")
    assert len(standing.done) == standing.total == 3 * 3
    assert not list((tmp_path / "cluster").rglob("work-*"))
    # A failing run says why, and the others go on: on the same cluster, as starting one takes a while.
    bad = quick(methods=["one-hot"], seeds=[0, 1], recipe={"name": "small", "epochs": 2, "lr": 1e30})
    with pytest.raises(SoftkinError, match="one-hot, seed 0 and 1 more failed: SoftkinError: the loss became"):
        study.run(bad, tmp_path / "bad", engine="ray", progress=False)
    # And the studies behind the paper's tables run there too.
    (tmp_path / "own.toml").write_text(sweep_of("small"))
    command = ["paper", "run", str(tmp_path / "own.toml"), "--engine", "ray", "--output", str(tmp_path / "paper")]
    assert main(command) == 0
    assert "Ours: Hist P of uniform is lowest" in capsys.readouterr().out


def test_processes_of_ray_take_no_module_from_the_current_folder(tmp_path):
    pytest.importorskip("ray")
    here, mark = tmp_path / "here", tmp_path / "mark"
    here.mkdir()
    (here / "safetensors.py").write_text(f"import pathlib, sys\npathlib.Path({str(mark)!r}).write_text('ran')\n")
    subprocess.run([sys.executable, "-c", "import safetensors"], cwd=here, check=True)
    assert mark.exists()  # the canary works
    mark.unlink()
    command = [
        sys.executable,
        "-P",
        "-m",
        "softkin",
        "compare",
        "--data",
        "digits",
        "--methods",
        "one-hot",
        "--seeds",
        "1",
        "--epochs",
        "2",
    ]
    command += ["--engine", "ray", "--output", "s"]
    done = subprocess.run(command, cwd=here, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not mark.exists()
    assert study.table(here / "s").finished


def test_without_ray(tmp_path, monkeypatch, capsys):
    import sys

    monkeypatch.setitem(sys.modules, "ray", None)
    command = ["compare", "--methods", "one-hot", "--seeds", "1", "--engine", "ray", "--output", str(tmp_path / "s")]
    assert main(command) == 1
    assert "the engine ray needs Ray: pip install 'softkin[ray]'." in capsys.readouterr().err
