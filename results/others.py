"""What needs no training: language models, calibrators on other people's networks, climbing after calibrating.

python results/others.py DATA [STUDY …]   DATA is a folder with llm/, logits/ and taxonomy/; STUDY a finished study of
                                          CIFAR-100, whose one-hot networks climb as well
python results/others.py DATA pairs.csv   the language models' answers, for softkin evaluate pairs.csv --group model

The first writes results/records/others.json, from which results/collect.py makes the tables of
docs/measurements/others.md; what is there already is kept. Every calibrator is fitted on one random half and measured
on the other; 20 halves, the same for all.
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
from softkin.evaluation.deciding import tree_of
from softkin.lab import study
from softkin.lab.data.loading import recognise

HALVES = 20
TARGET = 0.1
RECORDS = Path(__file__).parent / "records"


def halves(n: int, count: int = HALVES) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Random halves of n rows."""
    for seed in range(count):
        order = np.random.default_rng(seed).permutation(n)
        yield order[: n // 2], order[n // 2 :]


def answers(folder: Path) -> Iterator[tuple[str, NDArray[Any], NDArray[Any]]]:
    """Each model with its confidences and what was right, over all its sets."""
    held = np.load(folder / "mcq_confidence.npz", allow_pickle=False)
    for model in dict.fromkeys(name.split("|")[2] for name in held.files):
        sets = [name.split("|")[1] for name in held.files if name.startswith("conf|") and name.endswith(f"|{model}")]
        confidence = np.concatenate([held[f"conf|{one}|{model}"] for one in sets]).astype(np.float64)
        correct = np.concatenate([held[f"grade|{one}|{model}"] for one in sets]) == 1
        yield model, confidence.clip(1e-6, 1 - 1e-6), correct


def pairs(folder: Path, path: Path) -> None:
    """All answers as one file that ``softkin evaluate --group model`` reads."""
    lines = ["confidence,correct,model"]
    for model, confidence, correct in answers(folder):
        lines += [f"{c:.6g},{int(hit)},{model}" for c, hit in zip(confidence, correct, strict=True)]
    files.write(path, "\n".join(lines) + "\n")


def language_models(folder: Path) -> list[dict[str, Any]]:
    """Each model over all its sets: what it claims, what a temperature repairs, what a certified threshold answers."""
    rows = []
    for model, confidence, correct in answers(folder):
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


NETWORKS = (
    "densenet-bc-100-cifar100-probs",
    "resnet32-cifar100-logits",
    "resnet20-cifar10-logits",
    "20news-probs",
    "imdb-probs",
)
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
    """NLL of every calibrator on every network, and its difference to a temperature, paired by half and by row.

    A row's difference is its mean over the halves that tested it; their standard error over rows gives the interval.
    """
    rows = []
    for name in NETWORKS:
        held = np.load(folder / f"{name}.npz", allow_pickle=False)
        given = "logits" if "logits" in held.files else "probs"
        scores, labels = held[given].astype(np.float64), held["labels"].astype(np.int64)
        found: dict[str, list[float]] = {title: [] for title in COMPARED}
        losses = {title: np.zeros(len(labels)) for title in COMPARED}
        tested = np.zeros(len(labels))
        for fit, test in halves(len(labels), 5 if scores.shape[1] == 100 else HALVES):
            tested[test] += 1
            for title, make in COMPARED.items():
                if make is None:
                    p = scores[test] if given == "probs" else torch.as_tensor(scores[test]).softmax(1).numpy()
                else:
                    how = {"from_probabilities": given == "probs"}
                    p = np.asarray(make().fit(scores[fit], labels[fit], **how).predict_proba(scores[test], **how))
                with np.errstate(divide="ignore"):
                    own = -np.log(p[np.arange(len(test)), labels[test]])
                found[title].append(float(own.mean()))
                losses[title][test] += own
        seen = tested > 0
        against = {}
        for title, total in losses.items():
            with np.errstate(invalid="ignore"):
                less = (total[seen] - losses["TS"][seen]) / tested[seen]
            if title != "TS" and np.isfinite(less).all():
                against[title] = [float(less.mean()), float(1.96 * less.std(ddof=1) / np.sqrt(len(less)))]
        kept = {title: [value if np.isfinite(value) else None for value in values] for title, values in found.items()}
        rows.append({"network": name, "nll": kept, "against_ts": against})
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
    taxonomy = decisions.Tree.from_edges(read_tree(tree_file), names)
    rows = []
    for name in NETWORKS[:2]:
        held = np.load(folder / "logits" / f"{name}.npz", allow_pickle=False)
        given = "logits" if "logits" in held.files else "probs"
        scores = torch.as_tensor(held[given].astype(np.float64))
        logits = scores if given == "logits" else scores.clamp_min(1e-30).log()
        labels = torch.as_tensor(held["labels"].astype(np.int64))
        drawn = [((logits[fit], labels[fit]), (logits[test], labels[test])) for fit, test in halves(len(labels), 10)]
        rows.append({"network": name, "tree": "WordNet", "gain": gains(drawn, taxonomy)})
    return rows


def own_climbing(folder: Path) -> list[dict[str, Any]]:
    """The same for the one-hot networks of a study: validation rows fit the temperature, test rows measure."""
    content = study.StudyFolder(folder)
    results = [result for result in content.results() if result.method == "one-hot"]
    first = results[0].test()
    spec = content.plan.spec
    own = recognise(spec.data, progress=False).tree
    sources = {"WordNet": spec.sources.get("tree"), "super-classes": own, "dendrogram of the names": "names"}
    drawn = []
    for result in results:
        held, test = result.validation(), result.test()
        drawn.append(
            ((held.logits.double(), held.known_labels), (test.logits.double(), test.known_labels)),
        )
    return [
        {"network": folder.name, "tree": title, "gain": gains(drawn, tree_of(source, first))}
        for title, source in sources.items()
        if source
    ]


Labelled = tuple[torch.Tensor, torch.Tensor]


def gains(drawn: list[tuple[Labelled, Labelled]], tree: decisions.Tree) -> dict[str, list[float]]:
    """By how much climbing makes the area smaller, as given and after a temperature, for each pair of parts."""
    found: dict[str, list[float]] = {"as given": [], "after a temperature": []}
    members, above = shape(tree, drawn[0][0][0].shape[1])
    for fit, (logits, labels) in drawn:
        t = calibrators.TemperatureScaling().fit(*fit).temperature_
        for title, z in (("as given", logits), ("after a temperature", logits / t)):
            areas = [area(z.softmax(1), labels, members, above, climb=climb) for climb in (False, True)]
            found[title].append(1 - areas[1] / areas[0])
    return found


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
    if sys.argv[2:] and sys.argv[2].endswith(".csv"):
        pairs(data / "llm", Path(sys.argv[2]))
        return
    found = files.read_json(path, "records") if path.exists() else {}
    for key, work, where in (
        ("language_models", language_models, data / "llm"),
        ("networks", networks, data / "logits"),
        ("climbing", climbing, data),
    ):
        if key not in found:
            found[key] = work(where)
            files.write_json(path, found)
    for folder in map(Path, sys.argv[2:]):
        found["climbing"] = [row for row in found["climbing"] if row["network"] != folder.name] + own_climbing(folder)
        files.write_json(path, found)


if __name__ == "__main__":
    main()
