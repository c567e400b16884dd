"""The border of the command line: whatever happens is one line on standard error, exit 1 or 2, never a traceback."""

import os
import subprocess
import sys
import zlib

import numpy as np
import pytest

from command_line import run
from softkin import SoftkinError, cli
from softkin.cli import evaluate

pytestmark = pytest.mark.slow

NUMPYS_OWN = getattr(np, "_core", None) or np.core  # numpy 1.26 calls it so
TRY_AGAIN = "this is a bug in softkin, and SOFTKIN_TRACEBACK=1 shows where."


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (SoftkinError("x.npz is damaged."), "x.npz is damaged."),
        (ValueError("two\nlines\x1b[31m"), "two lines�[31m"),
        (MemoryError(), "there is not enough memory; is a size in the input right?"),
        (
            NUMPYS_OWN._exceptions._ArrayMemoryError((10**13,), np.dtype("f8")),
            "there is not enough memory: Unable to allocate 72.8 TiB",
        ),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried\nFrame 1"),
            "there is not enough memory: [enforce fail]",
        ),
        (RecursionError("maximum recursion depth exceeded"), "the input is nested too deeply."),
        (zlib.error("Error -3 while decompressing\nmore"), f"error: Error -3 while decompressing; {TRY_AGAIN}"),
        (KeyError("logits"), f"KeyError: 'logits'; {TRY_AGAIN}"),
        (NotImplementedError("zip 6.3\nsee there"), f"NotImplementedError: zip 6.3; {TRY_AGAIN}"),
        (FileNotFoundError(2, "No such file or directory", "a.npz"), "a.npz: No such file or directory."),
        (AssertionError(), f"AssertionError: ; {TRY_AGAIN}"),
        (ValueError("x" * 10**6), "x" * 1999 + "…"),
    ],
)
def test_whatever_a_command_raises_is_one_line(capsys, monkeypatch, error, line):
    def fail(arguments):
        raise error

    monkeypatch.setattr(evaluate, "run", fail)
    code, output, errors = run(capsys, "evaluate", "f.npz")
    assert code == (2 if isinstance(error, ValueError | TypeError) else 1)
    assert output == ""
    assert errors.startswith(f"softkin evaluate: {line}")
    assert errors.count("\n") == 1
    assert "Traceback" not in errors
    monkeypatch.setenv("SOFTKIN_TRACEBACK", "1")
    with pytest.raises(type(error)):
        cli.main(["evaluate", "f.npz"])


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["evalute", "f"], "softkin: unknown command 'evalute'; did you mean 'evaluate'?"),
        (["similarity", "audtion", "f"], "softkin similarity: unknown command 'audtion'; did you mean 'audition'?"),
        (["similarity", "--qqqqqq"], "softkin similarity"),
        (["similarity", "shwo", "f"], "softkin similarity: unknown command 'shwo'; did you mean 'show'?"),
        (["--verison"], "softkin: unknown option --verison; did you mean --version?"),
        (["evaluate", "--jsson"], "softkin evaluate: unknown option --jsson; did you mean --json?"),
        (["status", "--jsn"], "softkin status: unknown option --jsn; did you mean --json?"),
        (["evaluate", "--seed", "-1"], "softkin evaluate: the following arguments are required: FILE."),
        (["evaluate", "--js"], "softkin evaluate: the following arguments are required: FILE."),
        (["qqq"], "softkin: unknown command 'qqq'; there are evaluate, split, calibrate,"),
        (["evaluate", "f", "--repot", "p.html"], "softkin evaluate: unknown option --repot; did you mean --report?"),
        (["evaluate", "f", "--repot=p.html"], "softkin evaluate: unknown option --repot; did you mean --report?"),
        (["evaluate", "f", "--qqqqqq"], "softkin evaluate: unknown option --qqqqqq."),
        (["calibrate", "ft"], "softkin calibrate: unknown command 'ft'; did you mean 'fit'?"),
        (["calibrate", "fit", "f", "--method", "ts", "--output", "o", "--cretify"], "softkin calibrate fit: unknown option --cretify; did you mean --certify?"),
        (["status", "a", "b"], "softkin status: there is one argument too many: 'b'."),
        (["evaluate", "f", "--format", "parqet"], "softkin evaluate: --format must be one of"),
        (["evaluate", "f", "--seed", "x"], "softkin evaluate: argument --seed: invalid int value: 'x'."),
        (["evaluate", "f", "--resamples", "1" + "0" * 30], "softkin evaluate: --resamples must be at most 1,000,000, got"),
        (["evaluate", "f", "--n-bins", "1" + "0" * 30], "softkin evaluate: --n-bins must be at most 100,000, got"),
        (["similarity", "names.txt", "--top", "1" + "0" * 30], "softkin similarity: `--top` must be at most 1,000,000, got"),
        (["similarity", "names.txt", "--seed", "-1"], "softkin similarity: `--seed` must be at least 0, got -1."),
        (["x" * 10**6], "softkin: unknown command 'xxx"),
        (["evaluate", "f", "--" + "x" * 10**6], "softkin evaluate: unknown option --xxx"),
    ],
)  # fmt: skip
def test_words_that_do_not_exist(capsys, words, line):
    code, output, errors = run(capsys, *words)
    assert (code, output) == (2, "")
    assert errors.startswith(line)
    assert errors.count("\n") == 1
    assert len(errors) < 2200


@pytest.mark.parametrize("module", ["argparse", "softkin.cli.train", "torch", "numpy"])
def test_ctrl_c_while_modules_load(module, tmp_path):
    """An interrupt in the middle of an import, wherever that is."""
    np.savez(tmp_path / "p.npz", logits=np.eye(3), labels=np.arange(3))
    script = f"""
import runpy, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.modules.pop({module!r}, None)
sys.meta_path.insert(0, Interrupt())
sys.argv = ["softkin", "evaluate", {str(tmp_path / "p.npz")!r}]
runpy.run_module("softkin", run_name="__main__", alter_sys=True)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stderr in ("softkin: interrupted\n", "softkin evaluate: interrupted\n")


def test_a_full_disk_behind_standard_output():
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "softkin", "data", "list"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr
