"""Writes that fail at every step, or whose process dies there: nothing half-written ever has a final name."""

import errno
import os
import signal
import subprocess
import sys

import pytest
import torch

from softkin import SoftkinError, distances
from softkin._io import files
from softkin.predictions import Predictions

pytestmark = pytest.mark.slow

OLD, NEW = b"old content", b"new content" * 1000


class Disk:
    """The system calls behind ``files.write``, of which one fails: the ``at``-th call of ``call``."""

    def __init__(self, monkeypatch, call, at, error):
        self.call, self.at, self.error = call, at, error
        self.counts = dict.fromkeys(("open", "write", "fsync", "close", "replace"), 0)
        self.real = {name: getattr(os, name) for name in self.counts}
        for name in self.counts:
            monkeypatch.setattr(os, name, lambda *a, name=name, **k: self._called(name, *a, **k))

    def _called(self, name, *arguments, **options):
        self.counts[name] += 1
        if name == self.call and self.counts[name] == self.at:
            if name == "close":
                self.real[name](*arguments)  # the system frees a handle also where closing it fails
            raise OSError(self.error, os.strerror(self.error))
        if name == "write":  # at most 1,000 bytes at a time: a short write is no error
            return self.real[name](arguments[0], arguments[1][:1000])
        return self.real[name](*arguments, **options)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize(
    ("call", "at"), [("open", 1), ("write", 1), ("write", 5), ("fsync", 1), ("close", 1), ("replace", 1)]
)
def test_a_failing_call_keeps_the_old_file(tmp_path, monkeypatch, call, at, error):
    path = tmp_path / "result.json"
    path.write_bytes(OLD)
    with monkeypatch.context() as patched:
        disk = Disk(patched, call, at, error)
        with pytest.raises(SoftkinError, match=f"result.json could not be written: {os.strerror(error)}.$"):
            files.write(path, NEW)
    assert disk.counts[call] == at
    assert path.read_bytes() == OLD
    assert os.listdir(tmp_path) == ["result.json"]  # and nothing is left beside it


def test_short_writes_are_completed(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        disk = Disk(patched, None, 0, 0)
        files.write(tmp_path / "result", NEW)
    assert disk.counts["write"] == 11
    assert (tmp_path / "result").read_bytes() == NEW


@pytest.mark.parametrize(("call", "at"), [("open", 2), ("write", 13), ("fsync", 2), ("close", 2), ("replace", 1)])
def test_several_files_of_one_result(tmp_path, monkeypatch, call, at):
    with monkeypatch.context() as patched:
        Disk(patched, call, at, errno.ENOSPC)
        with pytest.raises(SoftkinError, match="could not be written: No space left on device.$"):
            files.write_together({tmp_path / "a": NEW, tmp_path / "b": NEW})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("call", ["open", "write", "fsync", "close", "replace"])
@pytest.mark.parametrize("result", ["predictions", "matrix"])
def test_no_result_is_left_half_written(tmp_path, monkeypatch, call, result):
    def write():
        if result == "predictions":
            Predictions(torch.eye(3), torch.arange(3)).save(tmp_path / "p.safetensors", force=True)
        else:
            distances.save(tmp_path / "d.safetensors", torch.ones(3, 3), class_names=["a", "b", "c"], source="toy")

    write()
    (name,) = os.listdir(tmp_path)
    before = (tmp_path / name).read_bytes()
    with monkeypatch.context() as patched:
        Disk(patched, call, 1, errno.ENOSPC)
        with pytest.raises(SoftkinError, match="could not be written"):
            write()
    assert os.listdir(tmp_path) == [name]
    assert (tmp_path / name).read_bytes() == before


KILLED = """
import os, signal, sys
from softkin._io import files

call, at, moment, path, other = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5]
counts = dict.fromkeys(("open", "write", "fsync", "close", "replace"), 0)
real = {name: getattr(os, name) for name in counts}

def called(name, *arguments, **options):
    counts[name] += 1
    due = name == call and counts[name] == at
    if due and moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "write":
        arguments = (arguments[0], arguments[1][:1000])
    result = real[name](*arguments, **options)
    if due:
        os.kill(os.getpid(), signal.SIGKILL)
    return result

from pathlib import Path
for name in counts:
    setattr(os, name, lambda *a, name=name, **k: called(name, *a, **k))
files.write_together({Path(path): b"new content" * 1000, Path(other): b"new content" * 1000})
"""


@pytest.mark.parametrize(
    ("call", "at", "moment", "written"),
    [
        ("write", 3, "after", []),
        ("fsync", 1, "before", []),
        ("close", 2, "after", []),
        ("replace", 1, "before", []),
        ("replace", 1, "after", ["a"]),
        ("replace", 2, "before", ["a"]),
        ("replace", 2, "after", ["a", "b"]),
    ],
)
def test_a_process_killed_at_any_call(tmp_path, call, at, moment, written):
    """For real: another process, SIGKILL, and what it leaves."""
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(OLD)
    command = [sys.executable, "-c", KILLED, call, str(at), moment, tmp_path / "a", tmp_path / "b"]
    assert subprocess.run(command, timeout=300).returncode == -signal.SIGKILL
    for name in ("a", "b"):
        assert (tmp_path / name).read_bytes() == (NEW if name in written else OLD)
    left = [name for name in os.listdir(tmp_path) if name not in ("a", "b")]
    assert all(name.startswith(".") for name in left)
    files.write(tmp_path / "a", OLD)  # what is left behind does not stand in the way
    assert (tmp_path / "a").read_bytes() == OLD
