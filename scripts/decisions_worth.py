"""Print the tables of docs/guarantees.md, "What it is worth": real networks, many splits.

python scripts/decisions_worth.py      # needs ../shared/data; a few minutes on one core
"""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch

from softkin import decisions, distances, similarity
from softkin.calibrators import TemperatureScaling
from softkin.decisions.abstain import Selective
from softkin.decisions.rule import Rows
from softkin.metrics import aurc

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
SPLITS = 30
SEEDS = 5
SMOOTHING = (0.0, 0.1, 0.3)


def cifar100() -> tuple[torch.Tensor, torch.Tensor, list[str], torch.Tensor]:
    """ResNet-32's logits on the 10,000 test images, the labels, the class names and the super-class of each class."""
    with np.load(DATA / "logits" / "resnet32-cifar100-logits.npz", allow_pickle=False) as file:
        z, y = torch.from_numpy(file["logits"]).double(), torch.from_numpy(file["labels"]).long()
    file = pq.ParquetFile(DATA / "cifar100" / "test-00000-of-00001.parquet")
    names = json.loads(file.schema_arrow.metadata[b"huggingface"])["info"]["features"]["fine_label"]["names"]
    table = file.read(columns=["fine_label", "coarse_label"])
    groups = torch.empty(100, dtype=torch.int64)
    groups[torch.tensor(table["fine_label"].to_pylist())] = torch.tensor(table["coarse_label"].to_pylist())
    return z, y, names, groups


def without_guarantee(rule: Selective) -> Selective:
    """The same rule with the most lenient threshold whose error rate on the calibration rows is within the limit."""
    assert rule.selection_ is not None
    within = [candidate for candidate in rule.selection_.candidates if candidate.risk <= rule.error]
    rule.threshold_ = max(within, key=lambda candidate: candidate.answered).threshold
    return rule


def on_resnet() -> None:
    z, y, names, groups = cifar100()
    words = distances.from_words(names)
    trees = {
        "climb to the 20 super-classes": decisions.Tree.from_superclasses(groups, class_names=names),
        "climb the dendrogram of the names": decisions.Tree.from_distances(words, class_names=names),
    }
    alike = similarity.from_distances(words)
    measured: dict[tuple[str, str], list[float]] = defaultdict(list)
    for seed in range(SPLITS):
        order = torch.randperm(10_000, generator=torch.Generator().manual_seed(seed))
        scaling, fit, test = order.split([1000, 4000, 5000])
        p = TemperatureScaling().fit(z[scaling], y[scaling]).predict_proba(z)
        calibration, new = (p[fit], y[fit]), (p[test], y[test])
        for error in (0.1, 0.05):
            makers = {"abstain": lambda error=error: decisions.Abstain(error)}
            for title, tree in trees.items():
                makers[title] = lambda tree=tree, error=error: decisions.Climb(tree, error)
            for title, make in makers.items():
                rule = make().fit(*calibration, from_probabilities=True)
                for kind in ("with", "without"):
                    outcome = rule.evaluate(*new, from_probabilities=True)
                    row = f"{title}, {100 * error:g} % errors, {kind} the guarantee"
                    for name in ("answered", "error", "information"):
                        measured[row, name].append(float(outcome[name]))
                    rule = without_guarantee(rule)
        for score in ("lac", "aps", "raps"):
            for similar in (None, alike):
                sets = decisions.PredictionSets(0.9, score, similarity=similar, seed=seed)
                sets.fit(*calibration, from_probabilities=True)
                outcome = sets.evaluate(*new, from_probabilities=True, superclasses=groups)
                row = f"{score.upper()} sets{'' if similar is None else ' of kin'}, 90 %"
                for name in ("coverage", "size", "superclasses"):
                    measured[row, name].append(float(outcome[name]))
    shown(measured)


def shown(measured: dict[tuple[str, str], list[float]]) -> None:
    """Print the mean and the range of each measure over the splits."""
    for (row, name), values in measured.items():
        scale = 1 if name in ("size", "superclasses", "information", "norm") else 100
        low, mean, high = (scale * float(f(values)) for f in (np.min, np.mean, np.max))
        print(f"{row} | {name} | {mean:.2f} ({low:.2f} to {high:.2f})", flush=True)


def on_smoothed() -> None:
    """Abstaining by the winning probability and by normalised logits, of networks trained on smooth labels."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    table = pq.read_table(DATA / "text" / "clinc150.parquet").to_pydict()
    split, text, label = (np.array(table[name]) for name in ("split", "text", "label"))
    training, test = np.nonzero(split == "train")[0][::3], np.nonzero(split == "test")[0]
    number = {name: place for place, name in enumerate(sorted(set(label[training].tolist())))}
    words = TfidfVectorizer(max_features=800).fit(text[training])
    x, inputs = (torch.from_numpy(words.transform(text[rows]).toarray()).float() for rows in (training, test))
    y, labels = (torch.tensor([number[name] for name in label[rows]]) for rows in (training, test))
    measured: dict[tuple[str, str], list[float]] = defaultdict(list)
    for seed in range(SEEDS):
        fit, rest = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed)).split(
            [2500, len(labels) - 2500]
        )
        for smoothing in SMOOTHING:
            torch.manual_seed(seed)
            network = torch.nn.Sequential(torch.nn.Linear(800, 128), torch.nn.ReLU(), torch.nn.Linear(128, 150))
            optimiser = torch.optim.Adam(network.parameters(), lr=6e-3)
            loss = torch.nn.CrossEntropyLoss(label_smoothing=smoothing)
            for _ in range(12):
                for batch in torch.randperm(len(x)).split(512):
                    optimiser.zero_grad()
                    loss(network(x[batch]), y[batch]).backward()
                    optimiser.step()
            with torch.no_grad():
                z = network(inputs).double()
            row = f"smoothing {smoothing:g}"
            measured[row, "accuracy"].append(float((z[rest].argmax(1) == labels[rest]).double().mean()))
            for score in ("probability", "logit-norm"):
                rule = decisions.Abstain(0.1, score=score).fit(z[fit], labels[fit])
                scores, winners = rule._scored(Rows(z[rest], False))
                # the area of these scores: of two classes, right or wrong, with the score's rank as probability
                ranks = scores.argsort().argsort().double() / (2 * len(scores)) + 0.5
                right = winners == labels[rest]
                area = aurc(torch.stack([ranks, 1 - ranks], dim=1), (~right).long())
                measured[f"{row}, {score}", "area"].append(float(area))
                measured[f"{row}, {score}", "answered"].append(float(rule.evaluate(z[rest], labels[rest])["answered"]))
                measured[f"{row}, {score}", "error"].append(float(rule.evaluate(z[rest], labels[rest])["error"]))
                measured[f"{row}, {score}", "norm"].append(rule.norm_ or 0.0)
    shown(measured)


if __name__ == "__main__":
    on_smoothed()
    on_resnet()
