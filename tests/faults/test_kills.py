"""Twenty kills of real work; ``benchmarks/study.py kills 200`` is the long form."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_work_killed_twenty_times_ends_the_same(tmp_path):
    command = [sys.executable, str(Path(__file__).with_name("kills.py")), str(tmp_path / "kills"), "20"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    killed = [json.loads(line) for line in done.stdout.splitlines()]
    assert [victim["kind"] for victim in killed] == ["Page", "Study", "Training", "Conversion"]
    assert sum(victim["kills"] for victim in killed) == 20
