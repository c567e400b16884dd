"""Completion: what the parser knows, asked directly and by real shells."""

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time

import pytest

from command_line import run
from places import ROOT
from softkin import cli
from softkin.cli import choices
from softkin.cli.completion import SCRIPTS, candidates


@pytest.fixture(scope="module")
def parser():
    return cli.parser()


def words(parser, line):
    """What the last word of a line may become."""
    return [word for word, _ in candidates(parser, line.split(" "))]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ev", ["evaluate"]),
        ("evaluate --abs", ["--abstain", "--abstain-confidence"]),
        ("calibrate fi", ["fit"]),
        ("similarity x --distance a", ["autoencoder"]),
        ("similarity --distance a", ["autoencoder"]),
        ("similarity --distance=a", ["--distance=autoencoder"]),
        ("similarity --vec", ["--vectors"]),
        ("similarity x --distance=a", ["--distance=autoencoder"]),
        ("similarity x --distance = a", ["autoencoder"]),  # as bash splits it
        ("similarity x --alpha 0.3 --distance l", ["l1", "l2"]),
        ("calibrate fit f.npz --method mu", ["mutual-information"]),
        ("calibrate compare a b --methods temperature,be", ["temperature,beta"]),
        ("train digits --method similarity+mi", ["similarity+mixup"]),
        ("train digits --model wrn5", ["wrn50_2"]),
        ("compare --methods one-hot,we+beta,cut", ["one-hot,we+beta,cutmix"]),
        ("compare --recipe p", ["paper"]),
        ("compare --search h", ["halving"]),
        ("compare --ood uniform,gau", ["uniform,gaussian", ""]),
        ("compare --engine r", ["ray"]),
        ("evaluate f --engine r", ["ray"]),
        ("train digits --tracker ten", ["tensorboard"]),
        ("decide fit f --tree n", ["names", ""]),
        ("decide fit f --conditional c", ["class", ""]),
        ("decide fit f --costs x", [""]),
        ("evaluate f --format pa", ["parquet"]),
        ("data get cifar100", ["cifar100"]),
        ("paper run table2", ["table2", ""]),
        ("completion z", ["zsh"]),
        ("evaluate ", [""]),
        ("nonsense ", []),
        ("similarity --force x ", []),
        ("similarity x --alpha ", []),
    ],
)
def test_candidates(parser, line, expected):
    assert words(parser, line) == expected


def test_commands_and_options_come_with_their_help(parser):
    assert dict(candidates(parser, [""]))["evaluate"].startswith("measure how far")
    completions = dict(candidates(parser, ["calibrate", "fit", "--me"]))
    assert completions["--method"].startswith("the calibrator: one of temperature, ensemble-temperature")
    assert dict(candidates(parser, ["calibrate", "apply", ""])) == {"": "folders"}
    assert dict(candidates(parser, ["evaluate", ""])) == {"": "files"}
    assert "--words" not in dict(candidates(parser, ["completion", "bash", "--"]))


def test_recorded_choices_are_current():
    recorded = json.loads(choices.RECORDED.read_text(encoding="utf-8"))
    assert recorded == choices.current(), "run python scripts/commands_page.py"


@pytest.mark.slow
def test_completing_and_helping_load_nothing_heavy():
    code = (
        "import sys\nfrom softkin.cli import main\n"
        "main(['completion', 'bash', '--words', 'calibrate', 'fit', 'f', '--method', 't'])\n"
        "for words in (['calibrate', 'fit'], ['train'], ['compare'], ['similarity']):\n"
        "    try:\n        main([*words, '--help'])\n    except SystemExit:\n        pass\n"
        "print([name for name in ('torch', 'numpy', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "temperature\t"
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.fixture
def shell(tmp_path, capsys):
    """The environment of a shell that finds softkin, and the script for it."""
    program = tmp_path / "bin" / "softkin"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m softkin "$@"\n')
    program.chmod(0o755)
    (tmp_path / "some-file.npz").touch()
    environment = {
        **os.environ,
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "HOME": str(tmp_path),
        "TERM": "dumb",
    }

    def prepare(name):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
        code, script, _ = run(capsys, "completion", name)
        assert code == 0
        path = tmp_path / f"softkin.{name}"
        path.write_text(script)
        return path, environment

    return prepare


def typed(command, environment, setup, line, expected, folder):
    """Type a line and Tab into an interactive shell, and wait for what should come."""
    main, other = pty.openpty()
    process = subprocess.Popen(
        command, stdin=other, stdout=other, stderr=other, env=environment, cwd=folder, start_new_session=True
    )
    os.close(other)
    output, deadline = b"", time.monotonic() + 120

    def until(*endings):
        nonlocal output
        while not any(ending in output for ending in endings):
            assert time.monotonic() < deadline, output
            if select.select([main], [], [], 1)[0]:
                output += os.read(main, 65536).replace(b"\a", b"")

    try:
        os.write(main, f"{setup}; echo rea''dy\n".encode())
        until(b"ready")
        output = b""
        os.write(main, f"{line}\t".encode())
        until(expected.encode())
    finally:
        process.kill()
        process.wait()
        os.close(main)


CASES = [
    ("softkin similarity x --distance autoenc", "autoencoder"),
    ("softkin evalu", "evaluate"),
    ("softkin evaluate some-f", "some-file.npz"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("line", "expected"), CASES)
def test_bash(shell, line, expected, tmp_path):
    script, environment = shell("bash")
    typed(["bash", "--norc", "--noprofile", "-i"], environment, f"source {script}", line, expected, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("line", "expected"), CASES)
def test_zsh(shell, line, expected, tmp_path):
    script, environment = shell("zsh")
    setup = f"autoload -Uz compinit && compinit -u -D; source {script}"
    typed(["zsh", "-f", "-i"], environment, setup, line, expected, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("line", "expected"), CASES)
def test_fish(shell, line, expected, tmp_path):
    script, environment = shell("fish")
    command = ["fish", "--no-config", "--command", f'source {script}; complete --do-complete "{line}"']
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert expected in [row.partition("\t")[0] for row in done.stdout.splitlines()], done.stderr


def test_every_shell_has_a_script(capsys):
    for name in SCRIPTS:
        assert "softkin" in run(capsys, "completion", name)[1]
    code, _, errors = run(capsys, "completion", "fsh")
    assert code == 2
    assert errors == "softkin completion: shell must be one of bash, zsh, fish, got 'fsh'; did you mean 'fish'?\n"
