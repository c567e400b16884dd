"""Cost of rules of decision beside TorchCP and MAPIE, in one run (about ten minutes; ``--quick`` on smaller data).

    python benchmarks/decisions.py --torchcp FOLDER --output benchmarks/decisions.md
    python benchmarks/decisions.py --keep rows.json …    # go on where an earlier call was stopped


Both sides of a row run with the same threads, interleaved, and the medians are compared; rows that take longer than
20 s run once. Peers that are not installed
are left out, by name. TorchCP needs torchvision, torch_geometric and torchsort, of which prediction sets use nothing:
``--torchcp`` names a folder with its unpacked wheel, and empty modules stand in for those three. MAPIE's RAPS has no
row: its fit also searches the penalty and the rank, which ours takes as options, so the two do different work. Memory
is the peak of a process of its own, beyond what it takes to hold the data.
"""

import argparse
import functools
import importlib.abc
import importlib.machinery
import json
import os
import platform
import subprocess
import sys
import types
import warnings
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch

from softkin import decisions
from timing import medians

Row = tuple[str, str, str, str, str]
UNUSED = ("torchvision", "torch_geometric", "torchsort")  # that TorchCP imports, and prediction sets do not need
UNUSED_PARTS = ("torchcp.graph", "torchcp.llm", "torchcp.regression")


class Nothing(types.ModuleType):
    """A module whose every attribute is another one."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(name)

    def __call__(self, *_: Any, **__: Any) -> "Nothing":
        return Nothing("nothing")

    def __mro_entries__(self, _: Any) -> tuple[type, ...]:
        return (object,)


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``Nothing`` for what TorchCP imports without need."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        is_unused = name.split(".")[0] in UNUSED or name in UNUSED_PARTS
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if is_unused else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = Nothing(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        return None


def torchcp_sets(folder: str | None) -> dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Any]]:
    """Fit and predict by TorchCP for each score, if it can be imported."""
    if folder is not None:
        sys.path.append(folder)
        sys.meta_path.insert(0, StandIns())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from torchcp.classification.predictor import SplitPredictor
            from torchcp.classification.score import APS, LAC, RAPS
    except ImportError:
        return {}

    def call(score: Any) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Any]:
        def run(z: torch.Tensor, y: torch.Tensor, t: torch.Tensor) -> Any:
            predictor = SplitPredictor(score)
            predictor.calculate_threshold(z, y, 0.1)
            return predictor.predict_with_logits(t)

        return run

    return {
        "lac": call(LAC()),
        "aps": call(APS(randomized=True)),
        "raps": call(RAPS(randomized=True, penalty=0.01, kreg=5)),
    }


def mapie_sets() -> dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Any]]:
    """The same by MAPIE, which takes probabilities: the softmax counts on both sides."""
    try:
        from mapie.classification import SplitConformalClassifier
        from sklearn.base import BaseEstimator, ClassifierMixin
    except ImportError:
        return {}

    class Given(ClassifierMixin, BaseEstimator):
        """A classifier whose inputs are its outputs."""

        def __init__(self, num_classes: int = 2) -> None:
            self.num_classes = num_classes
            self.classes_ = np.arange(num_classes)
            self.fitted_ = True

        def fit(self, X: Any, y: Any) -> "Given":
            return self

        def predict_proba(self, X: Any) -> Any:
            return X

        def predict(self, X: Any) -> Any:
            return X.argmax(1)

    def call(name: str) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Any]:
        def run(z: torch.Tensor, y: torch.Tensor, t: torch.Tensor) -> Any:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rule = SplitConformalClassifier(
                    Given(z.shape[1]), confidence_level=0.9, conformity_score=name, prefit=True, random_state=0
                )
                rule.conformalize(torch.softmax(z, 1).numpy(), y.numpy())
                options = {} if name == "lac" else {"conformity_score_params": {"include_last_label": "randomized"}}
                return rule.predict_set(torch.softmax(t, 1).numpy(), **options)[1]

        return run

    return {name: call(name) for name in ("lac", "aps")}


def drawn(n: int, k: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Float32 logits and labels of a network that is right in about 70 % of the rows, as on ImageNet."""
    generator = torch.Generator().manual_seed(seed)
    z = 2 * torch.randn(n, k, generator=generator)
    y = torch.randint(k, (n,), generator=generator)
    z[torch.arange(n), y] += 9 + 3 * torch.randn(n, generator=generator)
    return z, y


def seconds(value: float) -> str:
    return f"{value * 1e3:.0f} ms" if value < 1 else f"{value:.2f} s"


def ours(name: str, z: torch.Tensor, y: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    members: torch.Tensor = decisions.PredictionSets(0.9, name).fit(z, y).predict(t)
    return members


def speed(n: int, k: int, repeats: int, folder: str | None) -> dict[str, Callable[[], Row]]:
    """The rows of times, by what they measure."""
    data: list[torch.Tensor] = []
    jobs: dict[str, Callable[[], Row]] = {}

    def drawn_once() -> list[torch.Tensor]:
        if not data:
            data.extend([*drawn(n, k), drawn(n, k, 1)[0]])
        return data

    def beside(what: str, peer: str, name: str, call: Any, to_reach: str) -> Row:
        z, y, t = drawn_once()
        calls = {"ours": lambda: ours(name, z, y, t), "theirs": lambda: call(z, y, t)}
        taken = medians(calls, 1, warm_up=0)
        if sum(taken.values()) < 20:
            taken = medians(calls, repeats, warm_up=0)
        ratio = taken["theirs"] / taken["ours"]
        return what, f"{peer} {seconds(taken['theirs'])}", seconds(taken["ours"]), f"{ratio:.1f}×", to_reach

    def alone(what: str, make: Callable[[], decisions.Rule]) -> Row:
        z, y, t = drawn_once()
        taken = medians({"ours": lambda: make().fit(z, y).predict(t)}, 1, warm_up=0)
        return what, "", seconds(taken["ours"]), "", ""

    for peer, calls, to_reach in (("TorchCP", torchcp_sets(folder), "≥ 1×"), ("MAPIE", mapie_sets(), "≥ 3×")):
        if not calls:
            print(f"{peer} is not installed, and left out")
        for name, call in calls.items():
            what = f"{name.upper()} sets, fit and predict, {n:,} × {k:,}"
            jobs[f"{what}, {peer}"] = functools.partial(beside, what, peer, name, call, to_reach)
    for name, make in {
        "abstain": lambda: decisions.Abstain(0.1, of="rows"),
        "climb, dendrogram": lambda: decisions.Climb(dendrogram(k), 0.1, of="rows"),
        "least cost": lambda: decisions.Costs(1 - torch.eye(k)),
        "APS sets per ten classes": lambda: decisions.PredictionSets(0.9, "aps", conditional=torch.arange(k) // 10),
        "APS sets of kin": lambda: decisions.PredictionSets(0.9, "aps", similarity=torch.rand(k, k)),
    }.items():
        what = f"{name}, fit and predict, {n:,} × {k:,}"
        jobs[what] = functools.partial(alone, what, make)
    return jobs


def dendrogram(k: int) -> decisions.Tree:
    """A tree over k classes at random places."""
    places = torch.rand(k, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return decisions.Tree.from_distances(torch.cdist(places, places).fill_diagonal_(0))


def memory(n: int, k: int, name: str) -> Row:
    """Peak memory of fit and predict beyond what holds the data, in a process of its own."""
    size = n * k * 4 / 2**20
    peaks = []
    for work in ("hold", name):
        code = subprocess.run(
            [sys.executable, __file__, "--child", work, str(n), str(k)],
            capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        peaks.append(float(code.stdout))
    beside = peaks[1] - peaks[0]
    what = f"{name.upper()} sets, memory beside {size:,.0f} MB of logits"
    return what, "", f"{beside:,.0f} MB", f"{beside / size:.2f} ×", "≤ 1 ×"


def child(work: str, n: int, k: int) -> None:
    import resource

    z = torch.empty(n, k).normal_(0, 2.5, generator=torch.Generator().manual_seed(0))
    y = torch.arange(n) % k
    decisions.PredictionSets(0.5, "aps").fit(z[:100], y[:100]).predict(z[:100])  # what is loaded late
    if work != "hold":
        ours(work, z, y, z)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="1,000 × 100 logits")
    parser.add_argument("--torchcp", metavar="FOLDER", help="with TorchCP's unpacked wheel")
    parser.add_argument("--output", type=Path, help="write the table as Markdown")
    parser.add_argument("--keep", type=Path, metavar="FILE.json", help="keep each row there, and do not repeat it")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], int(options.child[1]), int(options.child[2]))
        return
    n, k = (1000, 100) if options.quick else (50_000, 1000)
    jobs = {f"{name}, memory": functools.partial(memory, n, k, name) for name in ("lac", "aps", "raps")}
    jobs |= speed(n, k, options.repeats, options.torchcp)
    kept = json.loads(options.keep.read_text()) if options.keep is not None and options.keep.exists() else {}
    for what, job in jobs.items():
        if what not in kept:
            kept[what] = job()
            print(" | ".join(kept[what]), flush=True)
            if options.keep is not None:
                options.keep.write_text(json.dumps(kept))
    rows = [kept[what] for what in jobs]
    if options.output is not None:
        known = {name: _version(name) for name in ("torch", "numpy", "mapie", "torchcp")}
        head = ", ".join(f"{name} {version}" for name, version in known.items() if version)
        lines = [
            "# Decisions: measured\n",
            f"By `benchmarks/decisions.py`; {head}, Python {platform.python_version()}, ",
            f"{torch.get_num_threads()} threads, {platform.machine()}; drawn float32 logits, "
            "medians of one interleaved run. MAPIE's RAPS also searches its penalty and rank, and has no row.\n",
            "| what | against | ours | ratio | to reach |",
            "| --- | --- | --- | --- | --- |",
            *("| " + " | ".join(row) + " |" for row in rows),
        ]
        options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
