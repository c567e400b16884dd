"""Decisions with networks that were trained on smooth labels, against the same with one-hot networks.

python results/after.py FOLDER   the studies that a suite left there; writes FOLDER/decisions.json and curves.json, or,
                                 for the second edition, FOLDER/selective.json

Of each network's validation rows a fifth fits a temperature and the rest a rule; the test rows measure it. So all
networks are calibrated alike, and what differs is how well their scores rank answers and classes. The confidence on
unknown data is that of the network as it was trained.
"""

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from softkin import decisions, metrics
from softkin._io import files
from softkin.calibrators import TemperatureScaling
from softkin.decisions import Tree
from softkin.decisions.abstain import NORMS, area, logit_norm
from softkin.evaluation.deciding import similarity_of, tree_of
from softkin.lab import study
from softkin.metrics import binning
from softkin.predictions import Predictions

STUDIES = (
    "cifar100-features-10",
    "cifar100-features-100",
    "cifar100-features-400",
    "banking77",
    "clinc150",
    "scratch-step-1e-4",
    "scratch-cosine-5e-4",
)
METHODS = (
    "one-hot",
    "uniform",
    "mixup",
    "l2",
    "we",
    "file",
    "tree",
    "out",
    "mc-dropout",
    "swag",
    "laplace",
    "ensemble",
)
CURVES = ("one-hot", "ts", "uniform", "we", "we+ts", "out")
ERROR, SELECTIVE_ERROR, COVERAGE, BINS = 0.1, 0.05, 0.9, 15


def trees(folder: study.StudyFolder, predictions: Predictions) -> dict[str, Tree]:
    """What a rule may climb: a taxonomy if the study has one, and the dendrogram of the names."""
    sources = {"climb_names": "names", "climb_taxonomy": folder.plan.spec.sources.get("tree")}
    return {key: tree_of(source, predictions) for key, source in sources.items() if source}


def measured(result: study.Result, climbed: dict[str, Tree], alike: Tensor) -> Iterator[tuple[str, float]]:
    """The measures of one network by name."""
    held, test = result.validation(), result.test()
    order = torch.randperm(len(held.known_labels), generator=torch.Generator().manual_seed(result.seed))
    scaling, fit = order.tensor_split([len(order) // 5])
    z, y = held.logits, held.known_labels
    calibrator = TemperatureScaling().fit(z[scaling], y[scaling])
    rows = calibrator.predict_proba(z[fit]), y[fit]
    p, labels = calibrator.predict_proba(test.logits), test.known_labels
    yield "aurc", float(metrics.aurc(p, labels))
    rules = {
        "abstain": decisions.Abstain(ERROR),
        **{key: decisions.Climb(tree, ERROR) for key, tree in climbed.items()},
    }
    for key, rule in rules.items():
        outcome = rule.fit(*rows, from_probabilities=True).evaluate(p, labels, from_probabilities=True)
        yield f"{key}_answered", float(outcome["answered"])
        yield f"{key}_error", float(outcome["error"])
    for score in ("lac", "aps"):
        for key, kin in ((score, None), (f"{score}_kin", alike)):
            sets = decisions.PredictionSets(COVERAGE, score, similarity=kin, seed=result.seed)
            outcome = sets.fit(*rows, from_probabilities=True).evaluate(p, labels, from_probabilities=True)
            yield f"{key}_size", float(outcome["size"])
            yield f"{key}_coverage", float(outcome["coverage"])
    for name in result.record["ood"]:
        winning = result.ood(name).probabilities.amax(dim=1)
        yield f"confidence {Path(name).stem}", float(winning.mean())


def selective(result: study.Result) -> dict[str, float]:
    """How well a network's confidence and its normalised logits rank its answers, the answers at 5 % errors, and sets.

    The test rows of "x+ts" are scaled by the temperature of all validation rows: it is taken back, and the one that a
    fifth of them gives is used, so that the rule's rows did not fit it.
    """
    held, test = result.validation(), result.test()
    order = torch.randperm(len(held.known_labels), generator=torch.Generator().manual_seed(result.seed))
    scaling, fit = order.tensor_split([len(order) // 5])
    z, y = held.logits, held.known_labels
    whole, scale = (TemperatureScaling().fit(z[part], y[part]).temperature_ for part in (order, scaling))
    z, test_z, labels = z / scale, test.logits * (whole / scale), test.known_labels
    held_wrong, wrong = z[fit].argmax(dim=1) != y[fit], test_z.argmax(dim=1) != labels
    norm = min(NORMS, key=lambda p: area(logit_norm(z[fit], p), held_wrong))
    scores = {"": test_z.softmax(dim=1).amax(dim=1), "_norm": logit_norm(test_z, norm)}
    areas = {f"aurc{key}": area(score, wrong) for key, score in scores.items()}
    shares = {f"answered{key}": answered(score, wrong) for key, score in scores.items()}
    return areas | shares | sizes(z[fit], y[fit], test_z, labels, result.seed)


def sizes(z: Tensor, y: Tensor, test_z: Tensor, labels: Tensor, seed: int) -> dict[str, float]:
    """The mean size of prediction sets of 90 %, fitted to held-out rows, and the share of test rows that they hold."""
    found = {}
    for score in ("lac", "aps"):
        outcome = decisions.PredictionSets(COVERAGE, score, seed=seed).fit(z, y).evaluate(test_z, labels)
        found |= {f"{score}_size": float(outcome["size"]), f"{score}_coverage": float(outcome["coverage"])}
    return found


def answered(scores: Tensor, wrong: Tensor) -> float:
    """The largest share of rows, in order of their scores, of which at most 5 % are wrong (with hindsight)."""
    errors = wrong[scores.argsort(descending=True, stable=True)].double().cumsum(0)
    few = errors <= SELECTIVE_ERROR * torch.arange(1, len(errors) + 1)
    return float(few.nonzero().amax() + 1) / len(errors) if few.any() else 0.0


def ranked(folder: Path) -> None:
    """The second edition: every network that a temperature follows."""
    path = folder / "selective.json"
    rows = json.loads(path.read_text()) if path.exists() else []
    done = {row["study"] for row in rows}
    for table in sorted(folder.glob("fair-*/table.json")):
        name = table.parent.name
        if name in done or name.endswith(("-untuned", "-stopped")) or "-0." in name:
            continue
        results = [r for r in study.StudyFolder(table.parent).results() if r.method == "ts" or r.method.endswith("+ts")]
        for result in results:
            values = {key: files.number(value) for key, value in selective(result).items()}
            rows.append({"study": name, "method": result.method, "seed": result.seed, **values})
        files.write_json(path, rows)
        print(f"{name}: {len(results)} networks", flush=True)


def curve(results: list[study.Result]) -> dict[str, list[float]]:
    """The reliability of one method over all its seeds: mean score, share of hits and number in each bin."""
    tests = [result.test() for result in results]
    scores, winners = torch.cat([test.probabilities for test in tests]).max(dim=1)
    hits = winners == torch.cat([test.known_labels for test in tests])
    bins = binning.curve(scores, hits, binning.equal_width(BINS))
    score, share = (values.nan_to_num(0).tolist() for values in (bins.confidence, bins.likelihood))
    return {"score": score, "share": share, "count": bins.count.long().tolist()}


def main(folder: Path) -> None:
    """All studies that are there."""
    warnings.filterwarnings("ignore", "No threshold keeps")  # such a rule answers nothing, which is counted
    ranked(folder)
    rows: list[dict[str, Any]] = []
    curves: dict[str, dict[str, Any]] = {}
    for name in STUDIES:
        if not (folder / name / "table.json").exists():
            continue
        content = study.StudyFolder(folder / name)
        everything = content.results()
        curves[name] = {
            method: curve(seeds) for method in CURVES if (seeds := [r for r in everything if r.method == method])
        }
        results = [result for result in everything if result.method in METHODS]
        first = results[0].test()
        climbed, alike = trees(content, first), similarity_of("names", first)
        for result in results:
            values = {key: files.number(value) for key, value in measured(result, climbed, alike)}
            rows.append({"study": name, "method": result.method, "seed": result.seed, **values})
        print(f"{name}: {len(results)} networks", flush=True)
    if not rows:
        return
    files.write_json(folder / "decisions.json", rows)
    files.write_json(folder / "curves.json", curves)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
