"""Processes that share a folder: they write one after another, and what killed ones leave is swept."""

import os
import subprocess
import sys
import time
from threading import Event, Thread, current_thread

from softkin._io import files, turns


def test_what_killed_processes_left_is_swept(tmp_path):
    child = "import os, sys, signal; from softkin._io import files; os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)"
    subprocess.run([sys.executable, "-c", f"{child}; files.write(sys.argv[1], 'half')", tmp_path / "a.csv"])
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".a.csv.")
    ours = tmp_path / turns.unfinished_name("b")  # a process that still works
    ours.mkdir()
    theirs = tmp_path / f".c.00000000-{2**22 + 1}-{'0' * 12}.softkin"  # of another machine: nobody knows
    old = tmp_path / f".d.00000000-1-{'0' * 12}.softkin"
    for path in (theirs, tmp_path / ".e.csv.0123456789ab", old):
        path.write_text("half")
    os.utime(old, (0, 0))
    files.write(tmp_path / "a.csv", "whole")
    assert {path.name for path in tmp_path.iterdir()} == {"a.csv", ours.name, theirs.name, ".e.csv.0123456789ab"}


def test_files_of_one_result_are_not_mixed_with_those_of_another_process(tmp_path, monkeypatch):
    replace, begun = os.replace, Event()

    def slowly_if_first(old, new):
        replace(old, new)
        if current_thread().name == "first":
            begun.set()
            time.sleep(0.1)

    def write(word):
        files.write_together({tmp_path / "new" / name: word for name in "abc"})

    monkeypatch.setattr(os, "replace", slowly_if_first)
    # A lock belongs to an open folder, so it keeps threads apart just as it does processes.
    first, second = Thread(target=write, args=["first"], name="first"), Thread(target=write, args=["second"])
    first.start()
    assert begun.wait(10)
    second.start()
    first.join()
    second.join()
    assert {path.read_text() for path in (tmp_path / "new").iterdir()} == {"second"}
