"""What a study may run: code only where the caller names it, modules only from where Python keeps them.

A canary is a file of code that leaves a mark when it runs. Each test first or last shows that its canary works.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from softkin import SoftkinError, report
from softkin.cli import main
from softkin.lab import study, suites
from softkin.lab.study.perform import resolve
from study_parts import quick, sweep_of, without_pictures  # noqa: F401  a fixture

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_pictures")]
NETWORK = """
import pathlib
from torch import nn

pathlib.Path({mark!r}).write_text("ran")


def network(num_classes, input_shape):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))
"""
SMALL = [
    "--data",
    "digits",
    "--tune",
    "none",
    "--max-per-class",
    "3",
    "--validation",
    "60",
    "--test",
    "80",
    "--epochs",
    "2",
    "--seeds",
    "2",
    "--beta",
    "2",
]
STUDY = """
model = "canary_network:network"
methods = ["one-hot", "ts"]
max_per_class = 3
validation = 60
test = 80
seeds = 1
recipe = { name = "small", epochs = 2 }
"""


class Canary:
    """A module that leaves a mark when it is imported."""

    def __init__(self, folder):
        self.folder, self.mark = folder, folder / "mark"
        (folder / "canary_network.py").write_text(NETWORK.format(mark=str(self.mark)))

    def sang(self):
        """Whether it ran since the last question."""
        sang = self.mark.exists()
        self.mark.unlink(missing_ok=True)
        sys.modules.pop("canary_network", None)
        return sang


@pytest.fixture
def canary(tmp_path, monkeypatch):
    folder = tmp_path / "modules"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    yield Canary(folder)
    sys.modules.pop("canary_network", None)


REFUSED = "names the network canary_network:network, which is code that would be run here; if you trust it, pass"


def test_a_network_of_the_callers_own_reaches_the_workers(canary, tmp_path):
    command = ["compare", *SMALL, "--methods", "one-hot,ts", "--model", "canary_network:network"]
    assert main([*command, "--workers", "2", "--output", str(tmp_path / "s")]) == 0
    assert canary.sang()
    assert study.table(tmp_path / "s").finished


def test_a_file_does_not_name_code_unless_the_caller_does(canary, tmp_path, capsys):
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    command = ["compare", "--config", str(path), "--workers", "1", "--output", str(tmp_path / "s")]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert REFUSED in error
    assert "--trust-model canary_network:network" in error
    assert error.count("\n") == 1
    assert main([*command, "--trust-model", "canary_network:other"]) == 2
    with pytest.raises(SoftkinError, match="is code that would be run here"):
        study.StudySpec.from_toml(path)
    assert not canary.sang()
    assert not (tmp_path / "s").exists()
    assert study.StudySpec.from_toml(path, trust_model="canary_network:network").model == "canary_network:network"
    assert main([*command, "--trust-model", "canary_network:network"]) == 0
    assert canary.sang()
    path.write_text(STUDY.replace("canary_network:network", "os:system"))
    assert main(command) == 2
    assert "names the network os:system" in capsys.readouterr().err


def test_a_shared_folder_does_not_name_code_unless_the_caller_does(canary, tmp_path, capsys):
    folder = tmp_path / "s"
    spec = quick(methods=["one-hot"], seeds=[0], model="canary_network:network", model_options={})
    study.keep(folder, resolve(spec))
    assert canary.sang()  # Python named it
    with pytest.raises(SoftkinError, match=REFUSED):
        study.work(folder)
    command = [sys.executable, "-P", "-m", "softkin.lab.study", str(folder), "--import-from", str(canary.folder)]
    joined = subprocess.run(command, capture_output=True, text=True)
    assert joined.returncode == 3
    assert REFUSED in joined.stderr
    assert joined.stderr.count("\n") == 1
    assert main(["status", str(folder)]) == 0
    assert not study.table(folder).rows
    with pytest.raises(SoftkinError, match="holds no results yet"):
        report.build_comparison(folder)
    assert not canary.sang()
    trusting = subprocess.run([*command, "--trust-model", "canary_network:network"], capture_output=True, text=True)
    assert trusting.returncode == 0, trusting.stderr
    assert canary.sang()
    assert study.table(folder).finished


def test_a_spec_of_the_papers_form_does_not_name_code_either(canary, tmp_path, capsys):
    path = tmp_path / "own.toml"
    path.write_text(sweep_of("canary_network:network"))
    assert main(["paper", "run", str(path), "--output", str(tmp_path / "p")]) == 2
    assert REFUSED in capsys.readouterr().err
    assert not (tmp_path / "p").exists()
    assert suites.load(path, trust_model="canary_network:network").parts("small")[0].study.model
    assert not canary.sang()


def test_modules_in_the_current_folder_are_not_ours(tmp_path):
    """``softkin compare`` in a folder that holds a safetensors.py: neither it nor its workers take it for the library."""
    here, mark = tmp_path / "here", tmp_path / "mark"
    here.mkdir()
    (here / "safetensors.py").write_text(f"import pathlib, sys\npathlib.Path({str(mark)!r}).write_text('ran')\n")
    environment = {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    subprocess.run([sys.executable, "-c", "import safetensors"], cwd=here, env=environment, check=True)
    assert mark.exists()  # the canary works
    mark.unlink()
    command = [sys.executable, "-P", "-m", "softkin", "compare", *SMALL, "--methods", "one-hot", "--workers", "2"]
    done = subprocess.run([*command, "--output", "s"], cwd=here, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not mark.exists()
    assert study.table(here / "s").finished


def test_workers_that_end_without_their_runs_are_a_failure(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/true")
    command = ["compare", *SMALL, "--methods", "one-hot", "--workers", "2", "--output", str(tmp_path / "s")]
    assert main(command) == 1
    error = capsys.readouterr().err
    assert "4 of 4 runs were not done, one-hot, seed 0 among them: the workers ended without them" in error
    assert error.count("\n") == 2  # what it may take, and why it stopped
    assert Path(tmp_path / "s" / "study.json").exists()
