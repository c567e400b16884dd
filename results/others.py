"""What needs no training: language models, calibrators on other people's networks, climbing after calibrating.

python results/others.py DATA    DATA is a folder with llm/, logits/ and taxonomy/

writes results/records/others.json, from which results/collect.py makes the tables of docs/measurements/others.md. Every
calibrator is fitted on one random half and measured on the other; 20 halves, the same for all.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from softkin import calibrators, decisions, metrics
from softkin._io import files
from softkin.distances.tree_files import read_tree

HALVES = 20
TARGET = 0.1
RECORDS = Path(__file__).parent / "records"


def halves(n: int, count: int = HALVES) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Random halves of n rows."""
    for seed in range(count):
        order = np.random.default_rng(seed).permutation(n)
        yield order[: n // 2], order[n // 2 :]


def language_models(folder: Path) -> list[dict[str, Any]]:
    """Each model over all its sets: what it claims, what a temperature repairs, what a certified threshold answers."""
    held = np.load(folder / "mcq_confidence.npz", allow_pickle=False)
    rows = []
    for model in dict.fromkeys(name.split("|")[2] for name in held.files):
        sets = [name.split("|")[1] for name in held.files if name.startswith("conf|") and name.endswith(f"|{model}")]
        confidence = np.concatenate([held[f"conf|{one}|{model}"] for one in sets]).astype(np.float64)
        correct = np.concatenate([held[f"grade|{one}|{model}"] for one in sets]) == 1
        confidence = confidence.clip(1e-6, 1 - 1e-6)
        gap = metrics.signed_gap(confidence, correct, confidence=0.95)
        drawn: dict[str, list[float]] = {key: [] for key in ("ece", "ece_ts", "ece_platt", "answered", "wrong")}
        for fit, test in halves(len(correct), 10):
            after = {}
            for key, calibrator in (("ts", calibrators.TemperatureScaling()), ("platt", calibrators.PlattScaling())):
                calibrator.fit(confidence[fit], correct[fit], from_probabilities=True)
                after[key] = calibrator.predict_proba(confidence[test], from_probabilities=True)
            drawn["ece"].append(metrics.ece_hist(confidence[test], correct[test]))
            for key, p in after.items():
                drawn[f"ece_{key}"].append(metrics.ece_hist(p, correct[test]))
            rule = decisions.Abstain(error=TARGET)
            try:
                rule.fit(confidence[fit], correct[fit], from_probabilities=True)
                answered = np.asarray(rule.predict(confidence[test], from_probabilities=True)) >= 0
            except UserWarning:
                answered = np.zeros(len(test), dtype=bool)
            drawn["answered"].append(float(answered.mean()))
            if answered.any():
                drawn["wrong"].append(float((~correct[test][answered]).mean()))
        rows.append(
            {
                "model": model,
                "rows": len(correct),
                "accuracy": float(correct.mean()),
                "gap": [gap.value, gap.low, gap.high],
                "auroc": metrics.confidence_auroc(confidence, correct),
                **{key: float(np.mean(values)) if values else None for key, values in drawn.items()},
            }
        )
        print(rows[-1], flush=True)
    return rows


NETWORKS = ("densenet-bc-100-cifar100-probs", "resnet32-cifar100-logits", "resnet20-cifar10-logits", "20news-probs")
COMPARED = {
    "none": None,
    "TS": calibrators.TemperatureScaling,
    "ETS": calibrators.EnsembleTemperatureScaling,
    "vector": calibrators.VectorScaling,
    "SVS": lambda: calibrators.StructuredVectorScaling(strength=1.0),
    "SMS": lambda: calibrators.StructuredMatrixScaling(strength=1.0),
    "Dir-ODIR": lambda: calibrators.DirichletCalibration(lam=1.0, mu=1.0),
}


def networks(folder: Path) -> list[dict[str, Any]]:
    """NLL of every calibrator on every network, and its difference to a temperature, paired by half."""
    rows = []
    for name in NETWORKS:
        held = np.load(folder / f"{name}.npz", allow_pickle=False)
        given = "logits" if "logits" in held.files else "probs"
        scores, labels = held[given].astype(np.float64), held["labels"].astype(np.int64)
        found: dict[str, list[float]] = {title: [] for title in COMPARED}
        for fit, test in halves(len(labels), 5 if scores.shape[1] == 100 else HALVES):
            for title, make in COMPARED.items():
                if make is None:
                    p = scores[test] if given == "probs" else torch.as_tensor(scores[test]).softmax(1).numpy()
                else:
                    how = {"from_probabilities": given == "probs"}
                    p = make().fit(scores[fit], labels[fit], **how).predict_proba(scores[test], **how)
                found[title].append(metrics.nll(p, labels[test]))
        kept = {title: [value if np.isfinite(value) else None for value in values] for title, values in found.items()}
        rows.append({"network": name, "nll": kept})
        print(name, {title: round(float(np.mean(values)), 4) for title, values in found.items()}, flush=True)
    return rows


def climbing(folder: Path) -> list[dict[str, Any]]:
    """The area under risk against coverage of climbing instead of abstaining, before and after a temperature.

    A node's probability is that of the classes below it. For each limit a sample is answered with the lowest ancestor
    of its winning class whose probability reaches the limit. An answer with m of K classes below it covers
    1 − ln m / ln K; the risk is the coverage of wrong answers, divided by that of all answers. Abstaining answers with
    the class or with the root.
    """
    tree_file = folder / "taxonomy" / "cifar100-parent-child.csv"
    names = (RECORDS.parent.parent / "examples" / "cifar100.txt").read_text(encoding="utf-8").split("\n")[:100]
    rows = []
    for name in NETWORKS[:2]:
        held = np.load(folder / "logits" / f"{name}.npz", allow_pickle=False)
        given = "logits" if "logits" in held.files else "probs"
        scores = torch.as_tensor(held[given].astype(np.float64))
        logits = scores if given == "logits" else scores.clamp_min(1e-30).log()
        labels = torch.as_tensor(held["labels"].astype(np.int64))
        tree = decisions.Tree.from_edges(read_tree(tree_file), names)
        members, parents = shape(tree, len(names))
        gains: dict[str, list[float]] = {"as given": [], "after a temperature": []}
        for fit, test in halves(len(labels), 10):
            t = calibrators.TemperatureScaling().fit(logits[fit], labels[fit]).temperature_
            for title, z in (("as given", logits[test]), ("after a temperature", logits[test] / t)):
                areas = [area(z.softmax(1), labels[test], members, parents, climb=climb) for climb in (False, True)]
                gains[title].append(1 - areas[1] / areas[0])
        rows.append({"network": name, "gain": gains})
        print(name, {title: float(np.mean(values)) for title, values in gains.items()}, flush=True)
    return rows


def shape(tree: decisions.Tree, k: int) -> tuple[torch.Tensor, list[list[int]]]:
    """Members of each node, and the nodes above each class, lowest first."""
    members = torch.zeros(len(tree.names), k, dtype=torch.float64)
    above = []
    for leaf in range(k):
        line = [leaf, *tree.ancestors(leaf)]
        above.append(line)
        members[line, leaf] = 1
    return members, above


def area(p: torch.Tensor, labels: torch.Tensor, members: torch.Tensor, above: list[list[int]], *, climb: bool) -> float:
    """Area under risk against coverage over limits from 0 to 1."""
    k = p.shape[1]
    deepest = max(map(len, above))
    line = torch.tensor([nodes + [nodes[-1]] * (deepest - len(nodes)) for nodes in above])
    if not climb:
        line = torch.stack([line[:, 0], line[:, -1]], dim=1)
    nodes = line[p.argmax(1)]  # (n, depth)
    mass = (p @ members.T).gather(1, nodes)
    covers = 1 - members.sum(1).clamp_min(1).log()[nodes] / np.log(k)
    wrong = members[:, labels].T.gather(1, nodes) == 0
    points = []
    for limit in torch.cat(
        [
            torch.linspace(0, 1, 400, dtype=torch.float64),
            mass[:, 0].quantile(torch.linspace(0, 1, 200, dtype=torch.float64)),
        ]
    ):
        reached = mass >= limit - 1e-12
        reached[:, -1] = True  # the root
        first = reached.int().argmax(1, keepdim=True)
        own, bad = covers.gather(1, first)[:, 0], wrong.gather(1, first)[:, 0]
        covered = float(own.mean())
        points.append((covered, float((own * bad).mean()) / covered if covered > 0 else 0.0))
    points.sort()
    x, y = np.array(points).T
    return float(np.trapezoid(y, x) / (x[-1] - x[0]))


def main() -> None:
    """All three, each kept when it is done."""
    import warnings

    warnings.simplefilter("ignore")
    data, path = Path(sys.argv[1]), RECORDS / "others.json"
    found = files.read_json(path, "records") if path.exists() else {}
    for key, work, where in (
        ("language_models", language_models, data / "llm"),
        ("networks", networks, data / "logits"),
        ("climbing", climbing, data),
    ):
        if key not in found:
            found[key] = work(where)
            files.write_json(path, found)


if __name__ == "__main__":
    main()
