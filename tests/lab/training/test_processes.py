"""Training in real processes that are killed, terminated, or several at once."""

import json
import os
import subprocess
import sys

import pytest
import torch

import training_process
from places import TESTS

pytestmark = pytest.mark.slow

SCRIPT = TESTS / "training_process.py"
METHOD = (
    "learned+mixup"  # which keeps the most state: a table of labels, a mixing of its own, dropout, batch statistics
)


def run(*arguments, launcher=()):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *launcher, str(SCRIPT), *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the processes: sums of several threads differ in the last bit
    yield training_process.outcome(training_process.train(tmp_path_factory.mktemp("whole"), METHOD))
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def disturbed(tmp_path_factory):
    return run("killed", "terminated", tmp_path_factory.mktemp("disturbed"), METHOD)


def test_killed_at_any_moment_the_weights_are_the_same_to_the_bit(undisturbed, disturbed):
    actual = disturbed["killed"]
    assert actual["kills"] >= 3
    assert len(set(actual["places"])) >= 2  # some of them came after other checkpoints than others
    assert actual["weights"] == undisturbed["weights"]
    assert actual["history"] == undisturbed["history"]


def test_terminated_in_the_middle_of_an_epoch_it_writes_a_checkpoint_and_goes_on_from_there(undisturbed, disturbed):
    actual = disturbed["terminated"]
    assert actual["signal"] == 15  # died of it, as whoever sent it meant
    assert actual["step"] == "step-00000008"  # the step after the signal, of 5 in an epoch
    assert actual["resumed"]
    assert actual["weights"] == undisturbed["weights"]
    assert actual["history"] == undisturbed["history"]


def test_what_was_said_of_rows_survives_a_signal_within_an_epoch(tmp_path):
    done = run("terminated", "killed", tmp_path, "ps-kd")
    assert done["terminated"]["step"] == "step-00000008"
    assert done["terminated"]["weights"] == done["killed"]["weights"]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    launcher = ("-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone")
    return run("shared", tmp_path_factory.mktemp("two"), "cutmix", launcher=launcher)["shared"]


def test_a_signal_to_one_process_stops_all_and_all_go_on_together(two):
    assert two["message"].startswith("training was stopped by signal 15 in epoch ")
    assert two["message"].endswith("; the same call resumes it.")
    assert two["resumed_there"]
    assert two["same"]
    assert two["same_history"]


def test_two_processes_have_the_loss_curve_of_one(two):
    single = training_process.shared(None, "cutmix")
    assert len(single["steps"]) == 20
    assert two["steps"] == pytest.approx(single["steps"], abs=1e-4)
    assert [entry["loss"] for entry in two["history"]] == pytest.approx(
        [entry["loss"] for entry in single["history"]], abs=1e-4
    )
    assert two["history"][-1]["validation_nll"] == pytest.approx(single["history"][-1]["validation_nll"], abs=1e-4)
    first, second = two["alphas"]
    assert first == second  # to the bit
    assert first == pytest.approx(single["alphas"][0], abs=1e-4)
    assert len(set(first)) > 1
    assert two["moments"][0] == two["moments"][1]  # of SWAG, to the bit
    assert two["moments"][0] == pytest.approx(single["moments"][0], rel=1e-3)
    assert two["distance"] > 0
    assert two["own outputs"] == pytest.approx(single["own outputs"], abs=1e-4)
    assert two["record"]["processes"] == 2
    assert "batch_statistics" not in two["record"]  # the network has none
    assert two["with_norm"]["batch_statistics"] == "per process"
    assert single["with_norm"]["batch_statistics"] == "whole batches"
