import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest

from softkin._io import turns
from softkin.lab.study import claims as claims_module
from softkin.lab.study.claims import Claims, started

pytestmark = pytest.mark.slow

HOLD = """
import sys, time
from pathlib import Path
from softkin.lab.study.claims import Claims
claim = Claims(Path(sys.argv[1])).take("run")
print("taken" if claim else "refused", flush=True)
time.sleep(60)
"""


def _race(folder, together, wins, runs):
    claims = Claims(folder)
    together.wait()
    for digest in runs:
        if claims.take(digest) is not None:
            wins.put(digest)
    together.wait()  # who ends gives up what it holds


def test_each_run_is_taken_by_exactly_one_of_many_processes(tmp_path):
    context = multiprocessing.get_context("fork")
    together, wins, runs = context.Barrier(6), context.Queue(), [f"run{i:02d}" for i in range(40)]
    racers = [context.Process(target=_race, args=(tmp_path, together, wins, runs)) for _ in range(6)]
    for racer in racers:
        racer.start()
    taken = [wins.get(timeout=60) for _ in runs]
    for racer in racers:
        racer.join()
    assert sorted(taken) == runs
    assert wins.empty()


@pytest.fixture
def holder(tmp_path):
    """Another process that holds "run"."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "taken\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_killed_holder_is_noticed_at_once(tmp_path, holder):
    claims = Claims(tmp_path)
    assert claims.take("run") is None
    assert claims.holder("run", 1)["pid"] == holder.pid
    os.kill(holder.pid, signal.SIGKILL)
    while started(holder.pid) is not None:  # a zombie counts as dead, so no wait() is needed
        time.sleep(0.01)
    claim = claims.take("run")
    assert claim is not None
    assert claim.generation == 2
    assert Claims(tmp_path).take("run") is None


def test_takeovers_race_too(tmp_path):
    _leave_dead(tmp_path, [f"run{i:02d}" for i in range(40)])
    test_each_run_is_taken_by_exactly_one_of_many_processes(tmp_path)


def _leave_dead(folder, digests):
    """Claims of a process that is gone."""
    for digest in digests:
        path = Claims(folder).take(digest).path
        path.write_text(json.dumps({**json.loads(path.read_text()), "started": "long ago"}))


def test_another_machine_is_trusted_for_a_lease(tmp_path, monkeypatch):
    path = Claims(tmp_path).take("run").path
    path.write_text(json.dumps({"machine": "elsewhere", "pid": 1, "started": "1", "host": "elsewhere"}))
    clock = [100.0]
    monkeypatch.setattr(claims_module.time, "monotonic", lambda: clock[0])
    claims = Claims(tmp_path, lease=90)
    assert claims.take("run") is None
    clock[0] += 80
    os.utime(path, (1, 1))  # a heartbeat, by a clock that is wrong by decades
    assert claims.take("run") is None
    clock[0] += 80
    assert claims.take("run") is None  # 80 s since the last beat that we saw
    clock[0] += 11
    assert claims.take("run").generation == 2


def test_a_claim_cut_off_by_a_crash_expires(tmp_path, monkeypatch):
    Claims(tmp_path).take("run").path.write_text("")
    clock = [0.0]
    monkeypatch.setattr(claims_module.time, "monotonic", lambda: clock[0])
    claims = Claims(tmp_path, lease=90)
    assert claims.take("run") is None
    clock[0] += 91
    assert claims.take("run") is not None


def test_released_claims_are_free_and_a_sleeper_sees_that_it_lost(tmp_path):
    claims = Claims(tmp_path)
    with claims.take("run") as first:
        assert claims.take("run") is None
        assert not first.lost()
    second = claims.take("run")
    assert second.generation == 2
    assert first.lost()
    assert not second.lost()
    claims.forget({"run"})
    assert os.listdir(tmp_path) == []


def test_the_heartbeat_beats(tmp_path, monkeypatch):
    monkeypatch.setattr(claims_module, "BEAT", 0.01)
    with Claims(tmp_path).take("run") as claim:
        os.utime(claim.path, (1, 1))
        while os.stat(claim.path).st_mtime == 1:
            time.sleep(0.01)


def test_file_systems_without_links(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "no links here")

    monkeypatch.setattr(claims_module.os, "link", refuse)
    claims = Claims(tmp_path)
    assert claims.take("run") is not None
    assert claims.take("run") is None
    assert os.listdir(tmp_path) == ["run.1"]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"3", b'"text"', b"[" * 100_000, b"\xff\x00", b'{"pid": "x"}', b'{"released": [], "pid": {}}'],
)
def test_a_claim_that_says_nothing_counts_until_its_lease_is_over(tmp_path, content):
    ours = json.dumps({"machine": turns.this_machine()}).encode()
    for claim in (content, ours):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        (folder / "run.1").write_bytes(claim)
        claims = Claims(folder, lease=0.05)
        assert claims.take("run") is None
        time.sleep(0.1)
        assert claims.take("run").generation == 2
