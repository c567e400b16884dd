"""Real work killed with SIGKILL at random moments and started again: studies, trainings, conversions and pages.

``python kills.py FOLDER COUNT [SEED]`` kills COUNT times, a quarter of them for each kind of work, and prints a line of
JSON for each kind. After each kill every file that has its final name must be whole; when the work is at last left to
finish, what it leaves must be the same, to the bit, as what undisturbed work left.

Children are forked from this process, which has all modules loaded and computes with one thread: a kill costs what it
interrupts, and no more.
"""

import hashlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
import torch

from softkin import report
from softkin.lab import data, study
from softkin.lab.study.records import Records
from softkin.lab.training import loop
from softkin.lab.training.session import Session

AT_MOST = 5  # kills of one piece of work, before it is left to finish


class Study:
    """A study with its table and figures."""

    spec = study.StudySpec.from_dict(
        {
            "methods": ["one-hot", "ts", "we", "mc-dropout", "swag", "laplace", "ensemble", "distance"],
            "seeds": [0],
            "beta": 2.0,
            "max_per_class": 3,
            "validation": 60,
            "test": 80,
            "model": "mlp",
            "model_options": {"hidden": 32},
            "recipe": {"name": "small", "epochs": 12},
        }
    )

    def work(self, folder):
        loop.fit.__kwdefaults__["checkpoint_every"] = 0.0  # of every training of the study
        study.run(self.spec, folder / "s", workers=1, progress=False)

    def outcome(self, folder):
        names = ("table.md", "table.csv", "table.tex", "table.json")
        actual = {name: (folder / "s" / name).read_bytes() for name in names}
        for result in study.results(folder / "s"):
            actual[f"{result.method} {result.seed}"] = result.test().digest.encode()
        return _hashes(actual)

    def check(self, folder):
        if (folder / "s" / "study.json").exists():
            opened = study.StudyFolder(folder / "s")
            assert not study.standing(opened).damaged
            for path in (folder / "s" / "runs").glob("*/record.json"):
                assert Records(folder / "s").find(path.parent.name) is not None, path


class Training:
    """A training with a checkpoint after every epoch, and its predictions."""

    def session(self, folder):
        return Session(
            "digits",
            model="mlp(hidden=32)",
            method="learned+mixup",
            max_per_class=8,
            validation=100,
            test=200,
            recipe_changes={"epochs": 60},
            device="cpu",
            output=folder / "run",
            checkpoint_every=0,
        )

    def work(self, folder):
        self.session(folder).run()

    def outcome(self, folder):
        record = json.loads((folder / "run" / "record.json").read_text())
        kept = ("epoch", "loss", "learning_rate", "validation_accuracy", "validation_ece", "validation_nll")
        history = [{name: entry[name] for name in kept if name in entry} for entry in record["history"]]
        files = {path.name: path.read_bytes() for path in (folder / "run").glob("*.safetensors")}
        files["history"] = json.dumps([history, record["results"]]).encode()
        return _hashes(files)

    def check(self, folder):
        from safetensors.torch import load_file

        from softkin.lab.training import checkpoints

        for path in (folder / "run").glob("checkpoints/step-*.safetensors"):
            assert checkpoints.read(path).tensors
        for path in (folder / "run").glob("*.safetensors"):
            assert load_file(path)


class Conversion:
    """A folder of images decoded into the cache."""

    def __init__(self, place):
        from PIL import Image

        self.images = place / "images"
        pixels = np.random.default_rng(0).integers(0, 256, (300, 24, 24, 3), dtype=np.uint8)
        for number, image in enumerate(pixels):
            path = self.images / f"class {number % 6}" / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(path)

    def work(self, folder):
        os.environ["SOFTKIN_CACHE"] = str(folder / "cache")
        loaded = data.load(self.images, progress=False)
        content = loaded.values.tobytes() + loaded.labels.tobytes() + repr(loaded.class_names).encode()
        (folder / ".mine").write_text(hashlib.sha256(content).hexdigest())
        os.replace(folder / ".mine", folder / "loaded")

    def outcome(self, folder):
        return {"loaded": (folder / "loaded").read_text()}

    def check(self, folder):
        for path in (folder / "cache").rglob("*.json"):
            json.loads(path.read_text())


class Page:
    """The page of a study."""

    def __init__(self, place):
        Study().work(place)
        self.study = place / "s"

    def work(self, folder):
        report.write_comparison(folder / "page.html", self.study)

    def outcome(self, folder):
        return _hashes({name: (folder / name).read_bytes() for name in ("page.html", "page.json")})

    def check(self, folder):
        if (folder / "page.json").exists():
            json.loads((folder / "page.json").read_text())
        if (folder / "page.html").exists():
            assert (folder / "page.html").read_text().rstrip().endswith("</html>")


def _hashes(contents):
    return {name: hashlib.sha256(content).hexdigest() for name, content in sorted(contents.items())}


def _forked(work, folder):
    """A child that does ``work``; its process id."""
    child = os.fork()
    if child == 0:
        try:
            work(folder)
            os._exit(0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
    return child


def _ended(child, seconds):
    """The exit status of a child, if it ends within so many seconds."""
    end = time.monotonic() + seconds
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        if time.monotonic() >= end:
            return None
        time.sleep(0.001)


def kill(kind, place, times, moments):
    """Kill work of one kind ``times`` times; what came of it."""
    reference = place / "reference"
    reference.mkdir(parents=True)
    began = time.monotonic()
    assert _ended(_forked(kind.work, reference), 600) == 0, f"{type(kind).__name__} fails undisturbed"
    whole = time.monotonic() - began
    expected, kills, pieces = kind.outcome(reference), 0, 0
    while kills < times:
        folder, mine = place / str(pieces), 0
        folder.mkdir()
        while True:
            child = _forked(kind.work, folder)
            left = mine < AT_MOST and kills < times
            status = _ended(child, moments.uniform(0, whole / 2) if left else 600)
            if status is not None:
                break
            assert left, f"{type(kind).__name__} does not end after {mine} kills"
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            mine, kills = mine + 1, kills + 1
            kind.check(folder)
        assert status == 0, f"{type(kind).__name__} fails after {mine} kills"
        assert kind.outcome(folder) == expected, f"{type(kind).__name__} came to something else after {mine} kills"
        pieces += 1
    return {"kind": type(kind).__name__, "kills": kills, "pieces": pieces, "seconds": round(whole, 2)}


def main(place, count, seed=0):
    """Kill each kind of work, in turn."""
    torch.set_num_threads(1)
    moments = random.Random(seed)
    for name in ("pages", "conversions"):
        (place / name).mkdir(parents=True)
    os.environ["SOFTKIN_CACHE"] = str(place / "cache")
    kinds = [Page(place / "pages"), Study(), Training(), Conversion(place / "conversions")]
    for kind in kinds:
        folder = place / "warm" / type(kind).__name__
        folder.mkdir(parents=True)
        kind.work(folder)  # loads what the first step of its kind loads
    for number, kind in enumerate(kinds):
        share = count // len(kinds) + (number < count % len(kinds))
        print(json.dumps(kill(kind, place / type(kind).__name__, share, moments)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
