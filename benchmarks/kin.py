"""What kin adds on frozen features with few rows: learned labels, and a second head whose class means lean on kin.

``python benchmarks/kin.py [SEEDS] [table | heads | prior | sharpen]`` prints the tables of docs/measurements/kin.md:
kin against one-hot training; of that the heads alone; learned labels with a prior of several weights; labels that are
one-hot in the last 30 % of epochs.

Data: the features of CIFAR-100 that come with softkin, standardised; so many rows per class of the training part, all
validation and test rows. Heads: one hidden layer of 256 units, Adam, 30 epochs, weight decay by validation NLL after a
temperature, from the same five values for every column.
All numbers are after a temperature, and are differences to the first column of the same seed, with Student's 95 %
interval over seeds. A seed draws the training rows and the initial weights.
"""

import sys
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from scipy.stats import t as student
from torch import Tensor, nn

from softkin import calibrators, distances, metrics, similarity
from softkin.lab import data
from softkin.losses import ClassSimilarityLoss

EPOCHS, BATCH, DECAYS = 30, 100, (1e-4, 1e-3, 3e-3, 1e-2, 3e-2)
ROWS = {"table": (10, 20, 50, 100), "heads": (10, 20, 50, 100), "prior": (5, 10, 20, 50), "sharpen": (10, 20, 50, 100)}
PSEUDO_ROWS = (0.3, 1, 3, 10, 30, 100)
SHARP = 0.3  # the share of epochs, the last, with one-hot labels

Make = Callable[[], nn.Module]
Parts = dict[str, tuple[Tensor, Tensor, list[str]]]


def part(name: str) -> tuple[Tensor, Tensor, list[str]]:
    """Features, labels and class names of a part."""
    held = data.load("cifar100-features", split=name)
    return torch.as_tensor(np.asarray(held.values)).float(), torch.as_tensor(np.asarray(held.labels)), held.class_names


def trained(x: Tensor, y: Tensor, make: Make, decay: float, seed: int, sharp: float = 0.0) -> nn.Module:
    """A head, with one-hot labels in the last ``sharp`` of all epochs."""
    torch.manual_seed(seed)
    head = nn.Sequential(nn.Linear(x.shape[1], 256), nn.ReLU(), nn.Linear(256, 100))
    loss_fn = make()
    steps = EPOCHS * -(-len(x) // BATCH)
    optimizer = torch.optim.AdamW(head.parameters(), 2e-3, weight_decay=100 * decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    for epoch in range(EPOCHS):
        if epoch >= round((1 - sharp) * EPOCHS):
            loss_fn = nn.CrossEntropyLoss()
        for rows in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            loss_fn(head(x[rows]), y[rows]).backward()
            optimizer.step()
            schedule.step()
        if hasattr(loss_fn, "end_epoch"):
            loss_fn.end_epoch()
    return head.eval()


def scaled(z: Tensor, y: Tensor, test: Tensor) -> Tensor:
    """Test probabilities after a temperature from validation rows."""
    return calibrators.TemperatureScaling().fit(z, y).predict_proba(test)


def numbers(p: Tensor, y: Tensor) -> list[float]:
    """NLL, and accuracy, Hist P and AURC in points."""
    return [metrics.nll(p, y), 100 * metrics.accuracy(p, y), 100 * metrics.ece_hist(p, y), 100 * metrics.aurc(p, y)]


@torch.no_grad()
def outputs(head: nn.Module, *parts: Tensor) -> list[Tensor]:
    """Logits."""
    return [head(x).double() for x in parts]


def losses_of(kind: str, by_names: Tensor, by_means: Tensor) -> dict[str, tuple[Make, float]]:
    """The loss of each column, and the share of epochs in which it is one-hot instead."""
    learned: Make = lambda: ClassSimilarityLoss.learned(100, 0.5)  # noqa: E731
    if kind == "prior":
        made: dict[str, tuple[Make, float]] = {"learned": (learned, 0.0)}
        for name, s in (("names", by_names), ("class means", by_means)):
            for weight in PSEUDO_ROWS:
                leaning = partial(ClassSimilarityLoss.learned, 100, 0.5, prior=s, prior_rows=weight)
                made[f"{name} as {weight:g} rows"] = leaning, 0.0
        return made
    smooth: dict[str, Make] = {
        "uniform .1": lambda: nn.CrossEntropyLoss(label_smoothing=0.1),
        "names .1": lambda: ClassSimilarityLoss(by_names, 0.1),
        "learned": learned,
    }
    columns: dict[str, tuple[Make, float]] = {"one-hot": (nn.CrossEntropyLoss, 0.0)}
    if kind == "heads":
        return columns
    columns |= {name: (make, 0.0) for name, make in smooth.items()}
    if kind == "sharpen":
        columns |= {f"{name}, then one-hot": (make, SHARP) for name, make in smooth.items()}
    return columns


def one_seed(kind: str, rows: int, seed: int, parts: Parts) -> dict[str, list[float]]:
    """The numbers of every column."""
    (x_all, y_all, names), (xv, yv, _), (xt, yt, _) = (parts[name] for name in ("train", "validation", "test"))
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.cat(
        [
            where[torch.randperm(len(where), generator=generator)[:rows]]
            for where in ((y_all == k).nonzero()[:, 0] for k in range(100))
        ]
    )
    x, y = x_all[chosen], y_all[chosen]
    by_names = similarity.from_distances(distances.from_words([name.replace("_", " ") for name in names]), 2.0)
    means = torch.stack([x[y == k].mean(0) for k in range(100)]).double()
    by_means = similarity.from_distances(torch.cdist(means, means), 2.0)
    found, best = {}, {}
    for name, (make, sharp) in losses_of(kind, by_names, by_means).items():
        tried = []
        for decay in DECAYS:
            zv, zt = outputs(trained(x, y, make, decay, seed, sharp), xv, xt)
            tried.append((calibrators.TemperatureScaling().fit(zv, yv).certificate_.nll_after, decay, zv, zt))
        best[name] = min(tried, key=lambda one: one[0])
        *_, zv, zt = best[name]
        found[name] = numbers(scaled(zv, yv, zt), yt)
    for prior in ("names", "class means") if kind == "prior" else ():
        chosen = min((name for name in best if name.startswith(f"{prior} as ")), key=lambda name: best[name][0])
        found[f"{prior}, weight by validation NLL"] = found[chosen]
        least = min((chosen, "learned"), key=lambda name: best[name][0])
        found[f"{prior}, weight or none by validation NLL"] = found[least]
        print(f"seed {seed}, {rows} rows per class, {prior}: {chosen}", file=sys.stderr, flush=True)
    if kind not in ("table", "heads"):
        return found
    _, decay, zv, zt = best["one-hot"]
    other = outputs(trained(x, y, nn.CrossEntropyLoss, decay, 1000 + seed), xv, xt)
    mean = [((a.softmax(1) + b.softmax(1)) / 2).log() for a, b in zip((zv, zt), other, strict=True)]
    found["two one-hot heads"] = numbers(scaled(mean[0], yv, mean[1]), yt)
    kin = {"second head, no kin": None, "kin head, names": by_names, "kin head, class means": by_means}
    for name, s in kin.items():
        head = calibrators.KinHead(s).fit(zv, yv, features=xv, train_features=x, train_labels=y)
        found[name] = numbers(head.predict_proba(zt, features=xt), yt)
    return found


def main() -> None:
    """Print a table for each number of rows."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    kind = sys.argv[2] if len(sys.argv) > 2 else "table"
    torch.set_num_threads(1)
    parts = {name: part(name) for name in ("train", "validation", "test")}
    mean, spread = parts["train"][0].mean(0), parts["train"][0].std(0)
    parts = {name: ((x - mean) / spread, y, names) for name, (x, y, names) in parts.items()}
    for rows in ROWS[kind]:
        results = [one_seed(kind, rows, seed, parts) for seed in range(seeds)]
        first = next(iter(results[0]))
        base = np.array([result[first] for result in results])
        reach = student.ppf(0.975, seeds - 1) / seeds**0.5
        print(f"\n{rows} rows per class; {first} + TS: NLL {base[:, 0].mean():.3f}, {base[:, 1].mean():.1f} % right")
        print("| | NLL | accuracy | Hist P | AURC |\n| --- | --- | --- | --- | --- |")
        for name in list(results[0])[1:]:
            d = np.array([result[name] for result in results]) - base
            cells = [f"{m:+.3f} ± {reach * s:.3f}" for m, s in zip(d.mean(0), d.std(0, ddof=1), strict=True)]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
