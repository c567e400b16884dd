"""How near ``alpha="auto"`` comes to a validation gap of 0, beside other rules and on other recipes.

python benchmarks/frozen_features.py --data ../shared/data --output features/   once, for CLINC150, banking77, CIFAR-100
python benchmarks/auto_alpha.py --features features/ --output results/ [--only main,sizes] [--data digits,fashion]

A multi-layer perceptron is trained on frozen features. The trainings of all seeds and rules of one setting run as one
batched model. Each training leaves one JSON file in the output folder, and the same command skips those that are there:
with ``--batches 1`` it trains one batched model and stops, with exit status 3 while trainings are missing.
docs/auto_alpha.md has what was measured with it.
"""

import argparse
import gzip
import hashlib
import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from softkin import calibrators, distances, metrics, similarity
from softkin.losses.soft_labels import AutoAlpha

FASHION = Path("/usr/share/datasets/fashion-mnist")  # Debian's dataset-fashion-mnist
NAMES = {
    "digits": ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"],
    "fashion": ["top", "trousers", "sweater", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"],
}
DATA = ("digits", "fashion", "clinc150", "banking77", "cifar100")
HIDDEN, LR, MOMENTUM, WEIGHT_DECAY, COMPONENTS = 128, 0.1, 0.9, 5e-4, 128
TOGETHER = 20  # trainings in one batched model


# The data


@dataclass(frozen=True)
class Rows:
    x: Tensor
    y: Tensor


@dataclass(frozen=True)
class Data:
    train: Rows
    validation: Rows
    test: Rows
    names: list[str]
    name_vectors: Tensor | None


def load(name: str, features: Path | None) -> Data:
    """Standardised features, on at most 128 principal components of the training rows."""
    x, y, parts, names, vectors = _read(name, features)
    train = parts[0]
    x = x - x[train].mean(axis=0)
    x = x / (x[train].std() if name in NAMES else np.where(x[train].std(axis=0) > 0, x[train].std(axis=0), 1))
    z = torch.from_numpy(x.astype(np.float32))
    if z.shape[1] > COMPONENTS:
        axes = torch.linalg.eigh(z[train].double().T @ z[train].double()).eigenvectors[:, -COMPONENTS:]
        z = z @ axes.float()
        z = z / z[train].std()
    labels = torch.from_numpy(y.astype(np.int64))
    return Data(*(Rows(z[part].contiguous(), labels[part]) for part in parts), names, vectors)


def _read(name: str, features: Path | None) -> Any:
    rng = np.random.default_rng(0)
    if name == "digits":
        from sklearn.datasets import load_digits

        digits = load_digits()
        order = rng.permutation(len(digits.data))
        return digits.data, digits.target, (order[:800], order[800:1300], order[1300:]), NAMES[name], None
    if name == "fashion":
        x, y = (
            np.concatenate([_idx(f"{part}-{what}.gz", header) for part in ("train", "t10k")])
            for what, header in (("images-idx3-ubyte", 16), ("labels-idx1-ubyte", 8))
        )
        order = rng.permutation(60_000)
        return x.reshape(-1, 784), y, (order[:5000], order[10_000:15_000], np.arange(60_000, 70_000)), NAMES[name], None
    if features is None:
        raise SystemExit(f"{name} needs --features: see benchmarks/frozen_features.py.")
    kept = np.load(features / f"{name}.npz", allow_pickle=False)
    split = kept["split"]
    if name == "banking77":  # has no validation part
        order = rng.permutation(np.flatnonzero(split == "train"))
        parts = (order[:7000], order[7000:], np.flatnonzero(split == "test"))
    else:
        parts = tuple(np.flatnonzero(split == part) for part in ("train", "val", "test"))
    vectors = torch.from_numpy(kept["C"]) if "C" in kept else None
    return kept["X"], kept["y"], parts, [str(name).replace("_", " ") for name in kept["names"]], vectors


def _idx(name: str, header: int) -> Any:
    with gzip.open(FASHION / name) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def similarities(data: Data, labels: str) -> Tensor | None:
    """What α is spread by; None for all classes alike, the true one included."""
    if labels == "uniform":
        return None
    vectors = data.name_vectors if data.name_vectors is not None else distances.name_vectors(data.names)
    return similarity.from_vectors(vectors, 2.0).float()


# The rules: each sees the validation gap of the epoch behind it


class Fixed:
    """The same α throughout."""

    def __init__(self, alpha: float = 0.0) -> None:
        self.alpha: Any = alpha

    def update(self, confidence: Tensor, correct: Tensor, labels: Tensor) -> None:
        """Nothing moves."""


class Auto(Fixed):
    """The library's."""

    def __init__(self, **settings: float) -> None:
        self.rule = AutoAlpha(**settings)
        super().__init__(self.rule.start)

    def update(self, confidence: Tensor, correct: Tensor, labels: Tensor) -> None:
        self.alpha = self.rule.moved(self.alpha, float((confidence - correct).mean()))


class Window(Auto):
    """Moves by the mean of the last three gaps."""

    def __init__(self) -> None:
        super().__init__()
        self.gaps: list[float] = []

    def update(self, confidence: Tensor, correct: Tensor, labels: Tensor) -> None:
        self.gaps = [*self.gaps[-2:], float((confidence - correct).mean())]
        self.alpha = self.rule.moved(self.alpha, sum(self.gaps) / len(self.gaps))


class Trend(Auto):
    """Adds half of how much the gap grew, as a proportional-integral controller does."""

    def __init__(self) -> None:
        super().__init__()
        self.last: float | None = None

    def update(self, confidence: Tensor, correct: Tensor, labels: Tensor) -> None:
        gap = float((confidence - correct).mean())
        grown = 0.0 if self.last is None else gap - self.last
        self.last, self.alpha = gap, self.rule.moved(self.alpha, gap + grown)


class Lagrangian(Auto):
    """The multiplier update of class-adaptive calibration (CVPR 2023), with one multiplier: α ← max(0, α + ρ·gap).

    ρ grows by a fifth after an epoch that did not shrink the gap by a tenth.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rho, self.last = self.rule.rate, float("inf")

    def update(self, confidence: Tensor, correct: Tensor, labels: Tensor) -> None:
        gap = float((confidence - correct).mean())
        self.alpha = min(0.5, max(0.0, self.alpha + self.rho * gap))
        self.rho, self.last = self.rho * (1.2 if abs(gap) > 0.9 * self.last else 1), abs(gap)


class ClassLagrangian(Fixed):
    """The same with a multiplier for each class, as that paper has it: the gap over the rows of a class moves its α."""

    def __init__(self) -> None:
        super().__init__(0.02)
        self.rho: Any = 0.5
        self.last: Any = float("inf")

    def update(self, confidence: Tensor, correct: Tensor, labels: Tensor) -> None:
        k = int(labels.max()) + 1
        counts = torch.bincount(labels, minlength=k).clamp(min=1)
        gap = torch.bincount(labels, weights=confidence - correct, minlength=k) / counts
        self.alpha = (self.alpha + self.rho * gap).clamp(0, 0.5)
        self.rho = self.rho * torch.where(gap.abs() > 0.9 * self.last, 1.2, 1.0)
        self.last = gap.abs()


RULES: dict[str, Callable[..., Fixed]] = {
    "fixed": Fixed,
    "auto": Auto,
    "window": Window,
    "trend": Trend,
    "lagrangian": Lagrangian,
    "class lagrangian": ClassLagrangian,
}


# The trainings


@dataclass(frozen=True)
class Setting:
    """What the trainings of one batched model share."""

    data: str
    labels: str = "uniform"
    schedule: str = "one-cycle"
    epochs: int = 20
    batch: int = 128
    network: str = "batch norm"


@dataclass(frozen=True)
class Training:
    """What tells them apart."""

    seed: int
    rule: str
    settings: dict[str, float] = field(default_factory=dict)
    validation_rows: int | None = None


def lr_share(schedule: str, progress: float) -> float:
    """The share of the peak learning rate after ``progress`` of the training."""
    if schedule == "one-cycle":
        return progress / 0.3 if progress < 0.3 else (1 - progress) / 0.7
    if schedule == "cosine":
        return (1 + math.cos(math.pi * progress)) / 2
    return 1.0 if progress < 0.5 else 0.1 if progress < 0.75 else 0.01  # steps


class Networks:
    """R perceptrons with a hidden layer, as one batched model."""

    def __init__(self, seeds: Sequence[int], inputs: int, classes: int, kind: str) -> None:
        self.kind, self.count = kind, len(seeds)
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.first = torch.stack([_uniform(generator, inputs, HIDDEN) for generator in generators])
        self.second = torch.stack([_uniform(generator, HIDDEN, classes) for generator in generators])
        self.biases = torch.zeros(self.count, 1, HIDDEN), torch.zeros(self.count, 1, classes)
        self.scale, self.shift = torch.ones(self.count * HIDDEN), torch.zeros(self.count * HIDDEN)
        self.mean, self.variance = torch.zeros(self.count * HIDDEN), torch.ones(self.count * HIDDEN)
        self.parameters = [self.first, self.second, *self.biases, self.scale, self.shift]
        for parameter in self.parameters:
            parameter.requires_grad_()

    def __call__(self, x: Tensor, *, training: bool = False) -> Tensor:
        """(R, n, K) logits of (n, D) rows for all, or (R, n, D) rows for each."""
        hidden = torch.baddbmm(self.biases[0], x.expand(self.count, *x.shape[-2:]), self.first)
        if self.kind == "batch norm":
            flat = hidden.transpose(0, 1).reshape(hidden.shape[1], -1)
            flat = F.batch_norm(flat, self.mean, self.variance, self.scale, self.shift, training)
            hidden = flat.view(hidden.shape[1], self.count, HIDDEN).transpose(0, 1)
        hidden = F.relu(hidden)
        if self.kind == "dropout":
            hidden = F.dropout(hidden, 0.5, training)
        return torch.baddbmm(self.biases[1], hidden, self.second)


def _uniform(generator: torch.Generator, inputs: int, outputs: int) -> Tensor:
    return (torch.rand(inputs, outputs, generator=generator) * 2 - 1) / inputs**0.5


def train(
    data: Data, setting: Setting, trainings: Sequence[Training], spread: Tensor | None
) -> tuple[Networks, list[dict[str, Any]]]:
    """The networks, and each training's path of α and of the validation gap; α is spread by ``spread``."""
    torch.manual_seed(0)  # of dropout
    x, y = data.train.x, data.train.y
    classes, n = len(data.names), len(y)
    networks = Networks([training.seed for training in trainings], x.shape[1], classes, setting.network)
    sgd = torch.optim.SGD(networks.parameters, LR, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY, nesterov=True)
    rules = [RULES[training.rule](**training.settings) for training in trainings]
    seen = [_subset(len(data.validation.y), training) for training in trainings]
    paths: list[dict[str, Any]] = [{"alpha": [], "gap": []} for _ in trainings]
    steps = n // setting.batch
    for epoch in range(setting.epochs):
        order = torch.stack([_order(n, training.seed, epoch) for training in trainings])
        alphas = torch.stack([torch.as_tensor(rule.alpha, dtype=torch.float32).expand(classes) for rule in rules])
        for step in range(steps):
            sgd.param_groups[0]["lr"] = LR * lr_share(
                setting.schedule, epoch / setting.epochs + step / steps / setting.epochs
            )
            rows = order[:, step * setting.batch : (step + 1) * setting.batch]
            z = networks(x[rows], training=True)
            with torch.no_grad():
                alpha = alphas.gather(1, y[rows])[:, :, None]
                q = alpha / classes * torch.ones(classes) if spread is None else alpha * spread[y[rows]]
                q.scatter_add_(2, y[rows][:, :, None], 1 - alpha)
                slope = (z.softmax(dim=2) - q) / rows.shape[1]
            sgd.zero_grad()
            z.backward(slope)
            sgd.step()
        with torch.no_grad():
            confidence, predicted = networks(data.validation.x).double().softmax(dim=2).max(dim=2)
        correct = (predicted == data.validation.y).double()
        for place, (rule, path) in enumerate(zip(rules, paths, strict=True)):
            rows = seen[place]
            path["alpha"].append(round(float(torch.as_tensor(rule.alpha).mean()), 6))
            path["gap"].append(round(float((confidence[place, rows] - correct[place, rows]).mean()), 6))
            rule.update(confidence[place, rows], correct[place, rows], data.validation.y[rows])
    return networks, paths


def scored(data: Data, trainings: Sequence[Training], networks: Networks) -> list[dict[str, Any]]:
    """The scores of each network on the test rows, as they are and after temperature scaling."""
    with torch.no_grad():
        held_out, test = networks(data.validation.x).double(), networks(data.test.x).double()
    scores = []
    for place, training in enumerate(trainings):
        seen = _subset(len(data.validation.y), training)
        scaled = _scaled(held_out[place, seen], data.validation.y[seen], test[place])
        scores.append(_scores(test[place], data.test.y) | {"after TS": _scores(scaled, data.test.y)})
    return scores


def _subset(n: int, training: Training) -> Tensor:
    generator = torch.Generator().manual_seed(7 + training.seed)
    return torch.randperm(n, generator=generator)[: training.validation_rows or n]


def _order(n: int, seed: int, epoch: int) -> Tensor:
    return torch.randperm(n, generator=torch.Generator().manual_seed(10**6 * (epoch + 1) + seed))


def _scaled(logits: Tensor, labels: Tensor, test: Tensor) -> Tensor:
    """Test logits after temperature scaling on the validation rows."""
    return test / calibrators.TemperatureScaling().fit(logits, labels).temperature_


def _scores(logits: Tensor, labels: Tensor) -> dict[str, float]:
    p = logits.softmax(dim=1)
    return {
        "accuracy": metrics.accuracy(p, labels),
        "test gap": metrics.signed_gap(p, labels),
        "nll": metrics.nll(p, labels),
        "hist p": metrics.ece_hist(p, labels),
        "hist o": metrics.ece_hist(p, labels, scope="output"),
    }


class Unfinished(Exception):
    """The batched models that this call may train are trained, and more are missing."""


class Results:
    """The trainings in the folder ``path``, and those that are added now.

    Args:
        path: One JSON file for each training, named by a digest of what was trained.
        features: What frozen_features.py wrote.
        batches: How many batched models to train before ``Unfinished`` is raised; None trains all.
    """

    def __init__(self, path: Path, features: Path | None, batches: int | None = None) -> None:
        self.path, self.features, self.batches = path, features, batches
        self.loaded: tuple[str, Data] | None = None
        path.mkdir(parents=True, exist_ok=True)
        runs = [json.loads(file.read_text()) for file in path.glob("*.json")]
        self.known: dict[str, dict[str, Any]] = {run["key"]: run for run in runs}

    def of(self, setting: Setting, trainings: Sequence[Training]) -> list[dict[str, Any]]:
        keys = {json.dumps([vars(setting), vars(training)], sort_keys=True): training for training in trainings}
        missing = [key for key in keys if key not in self.known]
        for start in range(0, len(missing), TOGETHER):
            if self.batches == 0:
                raise Unfinished
            part = missing[start : start + TOGETHER]
            if self.loaded is None or self.loaded[0] != setting.data:
                self.loaded = setting.data, load(setting.data, self.features)
            data, together = self.loaded[1], [keys[key] for key in part]
            networks, paths = train(data, setting, together, similarities(data, setting.labels))
            for key, path, scores in zip(part, paths, scored(data, together, networks), strict=True):
                self.known[key] = {"key": key, "torch": torch.__version__, **path, **scores}
                self._write(self.known[key])
            self.batches = None if self.batches is None else self.batches - 1
        return [self.known[key] for key in keys]

    def _write(self, run: dict[str, Any]) -> None:
        path = self.path / f"{hashlib.sha256(run['key'].encode()).hexdigest()[:24]}.json"
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(run) + "\n")
        os.replace(partial, path)

    def seeds(self, setting: Setting, rule: str, seeds: int = 5, rows: int | None = None, **settings: float) -> Any:
        return self.of(setting, [Training(seed, rule, settings, rows) for seed in range(seeds)])

    def prepare(self, setting: Setting, rules: Sequence[tuple[str, dict[str, float]]], seeds: int = 5) -> None:
        """Train several rules in one go, for ``seeds`` to read."""
        self.of(setting, [Training(seed, rule, settings) for rule, settings in rules for seed in range(seeds)])


# The tables


def spread_of(values: Sequence[float], factor: float = 100, digits: int = 1) -> str:
    """Mean ± standard deviation over seeds."""
    array = np.array(values) * factor
    return f"{array.mean():.{digits}f} ± {array.std(ddof=1):.{digits}f}"


def end_gap(runs: Sequence[dict[str, Any]]) -> float:
    """The median of |validation gap| at the end, in points."""
    return 100 * median(abs(run["gap"][-1]) for run in runs)


def bisection(results: Results, setting: Setting, trainings: int = 6) -> list[dict[str, Any]]:
    """The best of ``trainings`` whole trainings with fixed values of α, halved towards a gap of 0, for five seeds."""
    bounds = [(0.0, 0.5)] * 5
    best: list[dict[str, Any]] = []
    for turn in range(trainings):
        alphas = [0.0 if turn == 0 else sum(pair) / 2 for pair in bounds]
        runs = results.of(setting, [Training(seed, "fixed", {"alpha": alpha}) for seed, alpha in enumerate(alphas)])
        best = [min(pair, key=lambda run: abs(run["gap"][-1])) for pair in zip(best or runs, runs, strict=True)]
        bounds = [
            ((alpha, high) if run["gap"][-1] > 0 else (low, alpha))
            for (low, high), alpha, run in zip(bounds, alphas, runs, strict=True)
        ]
    return best


def main_table(results: Results, data: Sequence[str]) -> None:
    print("| data | labels | α | validation gap | test gap | accuracy | NLL | Hist P | Hist O | Hist P, then TS |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in data:
        for labels, rules in (
            ("uniform", [("fixed", {"alpha": 0.0}), ("fixed", {"alpha": 0.1}), ("auto", {})]),
            ("similarity", [("fixed", {"alpha": 0.1}), ("auto", {})]),
        ):
            results.prepare(Setting(name, labels), rules)
        for title, labels, rule, settings in (
            ("one-hot", "uniform", "fixed", {"alpha": 0.0}),
            ("uniform, α = 0.1", "uniform", "fixed", {"alpha": 0.1}),
            ("uniform, auto", "uniform", "auto", {}),
            ("similarity, α = 0.1", "similarity", "fixed", {"alpha": 0.1}),
            ("similarity, auto", "similarity", "auto", {}),
        ):
            runs = results.seeds(Setting(name, labels), rule, **settings)
            cells = [
                spread_of([run["alpha"][-1] for run in runs], 1, 3),
                spread_of([run["gap"][-1] for run in runs]),
                *(spread_of([run[key] for run in runs]) for key in ("test gap", "accuracy")),
                spread_of([run["nll"] for run in runs], 1, 3),
                *(spread_of([run[key] for run in runs]) for key in ("hist p", "hist o")),
                spread_of([run["after TS"]["hist p"] for run in runs]),
            ]
            print(f"| {name} | {title} | {' | '.join(cells)} |", flush=True)


RATES: tuple[tuple[str, str, dict[str, float]], ...] = (
    ("one-hot", "fixed", {"alpha": 0.0}),
    ("rate 0.25", "auto", {"rate": 0.25}),
    ("rate 0.5", "auto", {}),
    ("rate 1", "auto", {"rate": 1.0}),
    ("window of 3", "window", {}),
    ("with trend", "trend", {}),
    ("Lagrangian", "lagrangian", {}),
    ("Lagrangian by class", "class lagrangian", {}),
)


def rules_table(results: Results, data: Sequence[str]) -> None:
    print("| data | schedule | epochs | " + " | ".join(title for title, _, _ in RATES) + " |")
    print("| --- | --- | --- |" + " --- |" * len(RATES))
    for name in data:
        for schedule, epochs in (
            ("one-cycle", 5),
            ("step", 5),
            ("cosine", 5),
            ("one-cycle", 20),
            ("step", 20),
            ("cosine", 20),
            ("step", 100),
        ):
            setting = Setting(name, schedule=schedule, epochs=epochs)
            results.prepare(setting, [(rule, settings) for _, rule, settings in RATES])
            cells = [f"{end_gap(results.seeds(setting, rule, **settings)):.1f}" for _, rule, settings in RATES]
            print(f"| {name} | {schedule} | {epochs} | {' | '.join(cells)} |", flush=True)


def recipes_table(results: Results, data: Sequence[str]) -> None:
    print("| data | network | labels | batch | epochs | one-hot | auto | α | test gap |\n|" + " --- |" * 9)
    for name in data:
        for network, batch, epochs, labels in (
            ("batch norm", 32, 20, "uniform"),
            ("batch norm", 32, 20, "similarity"),
            ("batch norm", 512, 20, "uniform"),
            ("batch norm", 512, 20, "similarity"),
            ("batch norm", 128, 100, "uniform"),
            ("batch norm", 128, 100, "similarity"),
            ("plain", 128, 20, "uniform"),
            ("dropout", 128, 20, "uniform"),
            ("batch norm", 128, 200, "uniform"),
            ("batch norm", 128, 200, "similarity"),
        ):
            setting = Setting(name, labels, batch=batch, network=network, epochs=epochs)
            one_hot = replace(setting, labels="uniform")  # α = 0 is the same for both
            if labels == "uniform":
                results.prepare(setting, [("fixed", {"alpha": 0.0}), ("auto", {})])
            hot, auto = results.seeds(one_hot, "fixed", alpha=0.0), results.seeds(setting, "auto")
            alpha = spread_of([run["alpha"][-1] for run in auto], 1, 3)
            print(
                f"| {name} | {network} | {labels} | {batch} | {epochs} | {end_gap(hot):.1f} | {end_gap(auto):.1f} | "
                f"{alpha} | {spread_of([run['test gap'] for run in auto])} |",
                flush=True,
            )


def bisection_table(results: Results, data: Sequence[str]) -> None:
    print("| data | bisection: gap | α | auto: gap | α |\n| --- | --- | --- | --- | --- |")
    for name in data:
        setting = Setting(name)
        halved, auto = bisection(results, setting), results.seeds(setting, "auto")
        cells = [
            cell
            for runs in (halved, auto)
            for cell in (f"{end_gap(runs):.1f}", spread_of([run["alpha"][-1] for run in runs], 1, 3))
        ]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def sizes_table(results: Results, data: Sequence[str]) -> None:
    print("| data | labels | validation rows | validation gap | test gap: mean ± sd | largest | α |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    sizes = {"digits": (100, 500), "clinc150": (100, 500, 3000), "banking77": (100, 500, 3003)}
    for name in data:
        for labels in ("uniform", "similarity"):
            for rows in sizes.get(name, (100, 500, 5000)):
                runs = results.seeds(Setting(name, labels), "auto", rows=rows)
                gaps = [run["test gap"] for run in runs]
                print(
                    f"| {name} | {labels} | {rows:,} | {end_gap(runs):.1f} | {spread_of(gaps)} | "
                    f"{100 * max(map(abs, gaps)):.1f} | {spread_of([run['alpha'][-1] for run in runs], 1, 3)} |",
                    flush=True,
                )


TABLES: dict[str, Callable[[Results, Sequence[str]], None]] = {
    "main": main_table,
    "rules": rules_table,
    "bisection": bisection_table,
    "sizes": sizes_table,
    "recipes": recipes_table,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, help="what frozen_features.py wrote")
    parser.add_argument(
        "--output", type=Path, required=True, help="a folder of JSON files; trainings in it are not repeated"
    )
    parser.add_argument("--batches", type=int, help="how many batched models to train before stopping (default: all)")
    parser.add_argument("--only", default=",".join(TABLES), help=f"some of {', '.join(TABLES)}")
    parser.add_argument("--data", default=",".join(DATA), help=f"some of {', '.join(DATA)}")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results = Results(arguments.output, arguments.features, arguments.batches)
    for table in arguments.only.split(","):
        print(f"\n{table}\n")
        try:
            TABLES[table](results, arguments.data.split(","))
        except Unfinished:
            raise SystemExit(3) from None


if __name__ == "__main__":
    main()
