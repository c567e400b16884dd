"""When the process that started a study ends, however it ends, its workers end too."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from softkin.lab.study.claims import started

COMMAND = [
    "compare",
    "--data",
    "digits",
    "--tune",
    "none",
    "--max-per-class",
    "50",
    "--epochs",
    "100000",  # without an end of its own, the work would go on for hours
    "--methods",
    "one-hot,ts",
    "--seeds",
    "3",
    "--workers",
    "2",
    "--device",
    "cpu",
    "--output",
]
SOON = 60.0  # seconds, of a machine that may have much other work
pytestmark = pytest.mark.slow


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's list of child processes")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_process_that_started_them(tmp_path, number):
    parent = subprocess.Popen(
        [sys.executable, "-m", "softkin", *COMMAND, str(tmp_path / "s")], stderr=subprocess.DEVNULL
    )
    children, workers = Path(f"/proc/{parent.pid}/task/{parent.pid}/children"), []
    try:
        while len(workers) < 2 and parent.poll() is None:  # they have just begun to import
            workers = [int(pid) for pid in children.read_text().split()]
            time.sleep(0.05)
        time.sleep(0.3)
        assert len(workers) == 2
        parent.send_signal(number)
        assert parent.wait(SOON) == (143 if number == signal.SIGTERM else -number)
        deadline = time.monotonic() + SOON
        while any(started(pid) for pid in workers) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert [pid for pid in workers if started(pid)] == []
    finally:
        parent.kill()
        for pid in workers:
            if started(pid):
                os.kill(pid, signal.SIGKILL)
