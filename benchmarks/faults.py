"""Every command that writes, with bad luck: killed, on a full disk, and beside its own twin.

    python benchmarks/faults.py kills 300                     # SIGKILL at random moments, then again to the end
    python benchmarks/faults.py disk 100 --folder /mnt/small  # a small file system of your own, filled to random points
    python benchmarks/faults.py races 40                      # the same command twice at once

After each fault every file that has its final name must be one that undisturbed work leaves, and the command, given
again, must leave the same files as undisturbed work. A small file system is made by ``mount -t tmpfs -o size=16m
tmpfs /mnt/small``. ``tests/faults/kills.py`` does the same within longer work. Children are forked from this process,
which has all modules loaded and computes with one thread.
"""

import argparse
import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from softkin.cli import main as softkin

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
VALIDATION, TEST = EXAMPLES / "digits-validation.npz", EXAMPLES / "digits-test.npz"
SMALL = ("--max-per-class", "3", "--model", "mlp(hidden=32)", "--validation", "60", "--test", "80", "--epochs", "4")

Outcome = dict[str, str]


def prepared(place: Path) -> dict[str, list[str]]:
    """The commands by name, with inputs made in ``place``; OUT stands for the folder to write to."""
    names = place / "names.txt"
    names.write_text("cat\ndog\ncar\ntruck\nship\n")
    log = place / "log.csv"
    log.write_text("confidence,correct\n" + "".join(f"{(i % 10) / 10 + 0.05},{int(i % 3 > 0)}\n" for i in range(400)))
    assert run(["calibrate", "fit", str(VALIDATION), "--method", "temperature", "--output", str(place / "cal")]) == 0
    assert run(["decide", "fit", str(VALIDATION), "--rule", "sets", "--output", str(place / "rule")]) == 0
    return {
        "evaluate --report": ["evaluate", str(TEST), "--report", "OUT/page.html", "--resamples", "100"],
        "calibrate fit": ["calibrate", "fit", str(VALIDATION), "--method", "vector", "--output", "OUT/cal"],
        "calibrate apply": ["calibrate", "apply", str(place / "cal"), str(TEST), "--output", "OUT/p.npz"],
        "calibrate apply to CSV": ["calibrate", "apply", str(place / "cal"), str(TEST), "--output", "OUT/p.csv"],
        "decide fit": ["decide", "fit", str(VALIDATION), "--rule", "abstain", "--error", "0.1", "--output", "OUT/rule"],
        "decide apply": ["decide", "apply", str(place / "rule"), str(TEST), "--output", "OUT/sets.csv"],
        "similarity": ["similarity", str(names), "--output", "OUT/similarity"],
        "check --junit": ["check", str(TEST), "--max", "ece_hist=20%", "--junit", "OUT/check.xml"],
        "monitor --state": ["monitor", str(log), "--state", "OUT/state.jsonl"],
        "train": ["train", "digits", *SMALL, "--output", "OUT/run"],
        "compare": [
            *("compare", "--data", "digits", "--methods", "one-hot,ts,uniform", "--seeds", "2", "--tune", "none"),
            *(*SMALL, "--workers", "1", "--output", "OUT/study"),
        ],
    }


def run(argv: list[str], errors: Path | None = None) -> int:
    """The command in this process, silent."""
    with (
        open(os.devnull, "w") as nowhere,
        open(errors or os.devnull, "w") as said,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(said),
    ):
        try:
            return int(softkin(argv) or 0)
        except SystemExit as stop:
            return int(stop.code or 0)


def forked(argv: list[str], folder: Path, errors: Path) -> int:
    """A child that runs the command into ``folder``; its process id."""
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)
        try:
            os._exit(run([part.replace("OUT", str(folder)) for part in argv], errors))
        except BaseException as error:  # what no command may let through
            errors.write_text(f"Traceback: {type(error).__name__}: {error}")
            os._exit(70)
    return child


def ended(child: int, seconds: float) -> int | None:
    """The exit code of a child, if it ends within so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    return None


def outcome(folder: Path) -> Outcome:
    """Digests of what the command left: times and places, which differ from run to run, do not count."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not path.is_file() or any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue
        if name.startswith(("run/", "study/")) and not name.endswith((".safetensors", "table.csv", "table.md")):
            continue  # records and logs hold times
        if "checkpoints" in name or "/claims/" in name or "/work-" in name:
            continue  # of work under way
        found[name] = hashlib.sha256(_without_times(path)).hexdigest()
    return found


def _without_times(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".safetensors":  # metadata of a checkpoint may hold a time; its tensors do not
        from safetensors.torch import load

        tensors = load(content)
        return b"".join(name.encode() + tensors[name].numpy().tobytes() for name in sorted(tensors))
    text = content.decode(errors="replace")
    if path.name == "check.xml" or path.suffix in (".jsonl", ".md"):
        kept = (line for line in text.splitlines() if "core-minutes" not in line and "time" not in line)
        return "\n".join(kept).encode()
    return content


class Fault:
    """A command, what it leaves undisturbed, and how long that takes."""

    def __init__(self, name: str, argv: list[str], place: Path, errors: Path) -> None:
        self.name, self.argv, self.place, self.errors = name, argv, place, errors
        place.mkdir(parents=True)
        reference = place / "reference"
        reference.mkdir()
        began = time.monotonic()
        code = ended(forked(argv, reference, self.errors), 600)
        self.seconds, self.code = time.monotonic() - began, code
        self.expected = outcome(reference)
        assert code in (0, 3), f"{name} fails undisturbed: {self.errors.read_text()}"  # 3: the alarm of monitor
        assert self.expected, f"{name} leaves nothing"
        self.size = sum(path.stat().st_size for path in reference.rglob("*") if path.is_file())

    def whole(self, folder: Path) -> None:
        """No file under its final name that undisturbed work would not leave."""
        for name, digest in outcome(folder).items():
            appended = name.endswith(".jsonl")  # a log grows line by line
            assert appended or self.expected.get(name) == digest, f"{self.name} left {name} in part"

    def again(self, folder: Path, after: str, *, had_failed: bool = False) -> None:
        """Run to the end, which must be the undisturbed one; what ``had_failed`` must not be called finished."""
        code = ended(forked(self.argv, folder, self.errors), 600)
        said = self.errors.read_text()
        if code == 2 and "--force" in said and not had_failed:  # it had finished before the fault
            code = self.code
        assert code == self.code, f"{self.name} ends with {code} after {after}: {said}"
        found = outcome(folder)
        other = sorted({name for name, _ in set(found.items()) ^ set(self.expected.items())})
        if other and os.environ.get("KEEP"):
            shutil.copytree(folder, os.environ["KEEP"])
            shutil.copytree(self.place / "reference", os.environ["KEEP"] + "-reference")
        assert not other, f"{self.name} came to something else after {after}: {', '.join(other)}"


def kills(fault: Fault, times: int, chance: random.Random) -> dict[str, float]:
    """Kill the command at random moments."""
    killed = late = 0
    while killed < times:
        folder = fault.place / f"{killed}-{late}"
        folder.mkdir()
        child = forked(fault.argv, folder, fault.errors)
        if ended(child, chance.uniform(0, fault.seconds)) is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            killed += 1
        else:
            late += 1
        fault.whole(folder)
        fault.again(folder, "a kill")
        shutil.rmtree(folder)
    return {"kills": killed, "ended before": late}


def disk(fault: Fault, times: int, chance: random.Random) -> dict[str, float]:
    """Fill the file system so far that the command runs out of space at a random point."""
    full = enough = 0
    for number in range(times):
        folder = fault.place / str(number)
        folder.mkdir()
        left = chance.randrange(0, max(4096, int(1.2 * fault.size)))
        ballast = fault.place / "ballast"
        free = os.statvfs(fault.place)
        with contextlib.suppress(OSError), open(ballast, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, free.f_bavail * free.f_frsize - left))
        code = ended(forked(fault.argv, folder, fault.errors), 600)
        said = fault.errors.read_text()
        assert code in (0, 1, 3), f"{fault.name} ends with {code} on a full disk: {said}"
        assert "Traceback" not in said, f"{fault.name} on a full disk: {said}"
        assert "bug in softkin" not in said, f"{fault.name} on a full disk: {said}"
        assert code != 1 or said.strip(), f"{fault.name} fails without a word"
        full, enough = full + (code == 1), enough + (code != 1)
        ballast.unlink()
        fault.whole(folder)
        fault.again(folder, f"a disk with {left} bytes left", had_failed=code == 1)
        shutil.rmtree(folder)
    return {"full": full, "enough": enough}


def races(fault: Fault, times: int, chance: random.Random) -> dict[str, float]:
    """The same command twice, the second a little later."""
    refused = 0
    for number in range(times):
        folder = fault.place / str(number)
        folder.mkdir()
        other = fault.errors.with_suffix(".other")
        first = forked(fault.argv, folder, fault.errors)
        time.sleep(chance.uniform(0, fault.seconds / 2))
        second = forked(fault.argv, folder, other)
        codes = [ended(first, 600), ended(second, 600)]
        for code, said in zip(codes, (fault.errors.read_text(), other.read_text()), strict=True):
            assert code in (0, 3) or said.strip(), f"{fault.name} ends with {code} in a race without a word"
            assert "Traceback" not in said, f"{fault.name} in a race: {said}"
            assert "bug in softkin" not in said, f"{fault.name} in a race: {said}"
            refused += code not in (0, 3)
        assert fault.code in codes, f"neither of two {fault.name} succeeds: {fault.errors.read_text()}"
        fault.whole(folder)
        shutil.rmtree(folder)
    return {"races": times, "refused": refused}


KINDS: dict[str, Callable[[Fault, int, random.Random], dict[str, float]]] = {
    "kills": kills,
    "disk": disk,
    "races": races,
}


def main() -> int:
    """Count faults of one kind over all commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=tuple(KINDS))
    parser.add_argument("times", type=int, help="faults in all")
    parser.add_argument("--folder", type=Path, help="where to work (a temporary folder)")
    parser.add_argument("--only", metavar="COMMAND", help="one of the commands")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    chance, failed = random.Random(arguments.seed), 0
    with tempfile.TemporaryDirectory() as inputs, tempfile.TemporaryDirectory(dir=arguments.folder) as place:
        os.environ["SOFTKIN_CACHE"] = f"{inputs}/cache"
        commands = prepared(Path(inputs))
        if arguments.only:
            commands = {arguments.only: commands[arguments.only]}
        for number, (name, argv) in enumerate(commands.items()):
            share = arguments.times // len(commands) + (number < arguments.times % len(commands))
            counted: dict[str, object] = {"command": name}
            try:
                fault = Fault(name, argv, Path(place) / str(number), Path(inputs) / "errors")
                counted |= KINDS[arguments.kind](fault, share, chance)
            except AssertionError as error:
                counted["failed"], failed = str(error), failed + 1
            shutil.rmtree(Path(place) / str(number), ignore_errors=True)
            print(json.dumps(counted), flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
