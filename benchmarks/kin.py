"""What kin adds on frozen features with few rows: learned labels, and a second head whose class means lean on kin.

``python benchmarks/kin.py [SEEDS]`` prints the table of docs/kin.md. Data: the features of CIFAR-100 that come with
softkin, standardised; rows a class of the training part, all validation and test rows. Heads: one hidden layer of 256
units, Adam, 30 epochs, weight decay by validation NLL after a temperature, from the same five values for every column.
All numbers are after a temperature, and are differences to one-hot + temperature of the same seed, with Student's 95 %
interval over seeds. A seed draws the training rows and the initial weights.
"""

import sys
from collections.abc import Callable

import numpy as np
import torch
from scipy.stats import t as student
from torch import Tensor, nn

from softkin import calibrators, distances, metrics, similarity
from softkin.lab import data
from softkin.losses import ClassSimilarityLoss

ROWS, EPOCHS, BATCH, DECAYS = (10, 20, 50, 100), 30, 100, (1e-4, 1e-3, 3e-3, 1e-2, 3e-2)
PSEUDO_ROWS = 10


def part(name: str) -> tuple[Tensor, Tensor, list[str]]:
    """Features, labels and class names of a part."""
    held = data.load("cifar100-features", split=name)
    return torch.as_tensor(np.asarray(held.values)).float(), torch.as_tensor(np.asarray(held.labels)), held.class_names


def trained(x: Tensor, y: Tensor, make: Callable[[], nn.Module], decay: float, seed: int) -> nn.Module:
    """A head."""
    torch.manual_seed(seed)
    head = nn.Sequential(nn.Linear(x.shape[1], 256), nn.ReLU(), nn.Linear(256, 100))
    loss_fn = make()
    steps = EPOCHS * -(-len(x) // BATCH)
    optimizer = torch.optim.AdamW(head.parameters(), 2e-3, weight_decay=100 * decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    for _ in range(EPOCHS):
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


def one_seed(rows: int, seed: int, parts: dict[str, tuple[Tensor, Tensor, list[str]]]) -> dict[str, list[float]]:
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
    losses = {
        "one-hot": nn.CrossEntropyLoss,
        "uniform .1": lambda: nn.CrossEntropyLoss(label_smoothing=0.1),
        "names .1": lambda: ClassSimilarityLoss(by_names, 0.1),
        "learned": lambda: ClassSimilarityLoss.learned(100, 0.5),
        "learned, names as prior": lambda: ClassSimilarityLoss.learned(
            100, 0.5, prior=by_names, prior_rows=PSEUDO_ROWS
        ),
    }
    found, logits = {}, {}
    for name, make in losses.items():
        tried = []
        for decay in DECAYS:
            zv, zt = outputs(trained(x, y, make, decay, seed), xv, xt)
            tried.append((calibrators.TemperatureScaling().fit(zv, yv).certificate_.nll_after, decay, zv, zt))
        _, decay, zv, zt = min(tried, key=lambda one: one[0])
        found[name], logits[name] = numbers(scaled(zv, yv, zt), yt), (zv, zt, decay)
    zv, zt, decay = logits["one-hot"]
    other = outputs(trained(x, y, nn.CrossEntropyLoss, decay, 1000 + seed), xv, xt)
    mean = [((a.softmax(1) + b.softmax(1)) / 2).log() for a, b in zip((zv, zt), other, strict=True)]
    found["two one-hot heads"] = numbers(scaled(mean[0], yv, mean[1]), yt)
    means = torch.stack([x[y == k].mean(0) for k in range(100)]).double()
    kin = {"second head, no kin": None, "kin head, names": by_names}
    kin["kin head, class means"] = similarity.from_distances(torch.cdist(means, means), 2.0)
    for name, s in kin.items():
        head = calibrators.KinHead(s).fit(zv, yv, features=xv, training=(x, y))
        found[name] = numbers(head.predict_proba(zt, features=xt), yt)
    return found


def main() -> None:
    """Print a table for each number of rows."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    torch.set_num_threads(1)
    parts = {name: part(name) for name in ("train", "validation", "test")}
    mean, spread = parts["train"][0].mean(0), parts["train"][0].std(0)
    parts = {name: ((x - mean) / spread, y, names) for name, (x, y, names) in parts.items()}
    for rows in ROWS:
        results = [one_seed(rows, seed, parts) for seed in range(seeds)]
        base = np.array([result["one-hot"] for result in results])
        reach = student.ppf(0.975, seeds - 1) / seeds**0.5
        print(f"\n{rows} rows a class; one-hot + TS: NLL {base[:, 0].mean():.3f}, {base[:, 1].mean():.1f} % right")
        print("| | NLL | accuracy | Hist P | AURC |\n| --- | --- | --- | --- | --- |")
        for name in list(results[0])[1:]:
            d = np.array([result[name] for result in results]) - base
            cells = [f"{m:+.3f} ± {reach * s:.3f}" for m, s in zip(d.mean(0), d.std(0, ddof=1), strict=True)]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
