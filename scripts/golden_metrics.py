"""Write tests/golden/*.json: every metric and every number of ``evaluate`` on real predictions, and on every shape.

The files hold what the code gave before a change, so that the test beside them notices a number that moved.
metrics.json is of the data beside the project, examples.json of the predictions in examples/, which every clone has,
and shapes.json of drawn claims of every shape, with intervals and comparisons:

    PYTHONPATH=src .venv/bin/python scripts/golden_metrics.py ../shared/data tests/golden

Write them again only where a number was wrong, and say so under "Changed numbers".
"""

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softkin import evaluation, metrics
from softkin.evaluation import from_files
from softkin.metrics import catalogue
from softkin.metrics.scopes import NoMeaning
from softkin.predictions import Predictions, load

Case = tuple[Tensor, Tensor]
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def cases(data: Path) -> dict[str, Case]:
    """Probabilities and labels of three trained networks: whole, few rows, and two classes."""

    def read(name: str, part: str) -> Case:
        with np.load(data / "logits" / f"{name}-{part}.npz", allow_pickle=False) as file:
            values = torch.from_numpy(file[part])
            labels = torch.from_numpy(file["labels"]).long()
        return (values.double().softmax(1) if part == "logits" else values), labels

    resnet32, resnet20 = read("resnet32-cifar100", "logits"), read("resnet20-cifar10", "logits")
    densenet = read("densenet-bc-100-cifar100", "probs")
    cats_and_dogs = (resnet20[1] == 3) | (resnet20[1] == 5)
    two = resnet20[0][cats_and_dogs][:, [3, 5]]
    return {
        "resnet32": (resnet32[0][:2000], resnet32[1][:2000]),
        "resnet32 few": (resnet32[0][:40], resnet32[1][:40]),
        "densenet": (densenet[0][:1500], densenet[1][:1500]),
        "resnet20": (resnet20[0][:3000], resnet20[1][:3000]),
        "cat or dog": ((two / two.sum(1, keepdim=True)), (resnet20[1][cats_and_dogs] == 5).long()),
    }


def examples() -> dict[str, Case]:
    """The predictions that come with the project: all, and few rows."""
    test, validation = (load(EXAMPLES / f"digits-{name}.npz") for name in ("test", "validation"))
    return {
        "digits": (test.probabilities, test.known_labels),
        "digits few": (validation.probabilities[:60], validation.known_labels[:60]),
    }


def distances(num_classes: int) -> Tensor:
    """Some distances between classes, for the metrics that know which classes are alike."""
    place = torch.arange(num_classes, dtype=torch.float64)
    return (place[:, None] - place).abs().sqrt() + 0.1 * (place[:, None] * place % 7 - 3).abs() * (
        1 - torch.eye(num_classes, dtype=torch.float64)
    )


def calls(num_classes: int) -> dict[str, tuple[str, dict[str, Any]]]:
    """Each metric with each option that changes its number."""
    several: dict[str, list[dict[str, Any]]] = {
        "accuracy": [{}],
        "nll": [{}],
        "brier": [{}, {"per": "score"}, {"convention": "kull2019"}],
        "top_k_accuracy": [{"k": 2}],
        "aurc": [{}],
        "mce": [{}, {"scope": "output", "n_bins": 10}, {"binning": "mass"}]
        + [{"convention": name} for name in ("guo2017", "mix-n-match", "torchmetrics", "netcal")],
        "ece_hist": [
            {},
            {"n_bins": 7},
            {"norm": 2},
            {"norm": "max"},
            {"binning": "mass"},
            {"scope": "output"},
            {"scope": "output", "per": "score", "norm": 2},
            {"scope": "output", "binning": "mass"},
            {"scope": "output", "convention": "paper"},
            {"scope": "output", "convention": "kull2019"},
        ]
        + [{"convention": name} for name in ("paper", "guo2017", "mix-n-match", "torchmetrics", "netcal")],
        "classwise_ece": [
            {},
            {"reduction": "sum"},
            {"binning": "mass"},
            {"norm": 2},
            {"norm": "max", "n_bins": 5},
            {"convention": "kull2019"},
        ],
        "debiased_ece": [
            {},
            {"binning": "mass"},
            {"scope": "output", "n_bins": 20},
            {"scope": "output", "per": "score"},
        ],
        "signed_gap": [{}, {"part": "over"}, {"part": "under", "scope": "output"}, {"part": "over", "binning": "mass"}],
        "smooth_ece": [{}, {"scope": "output"}, {"scope": "output", "per": "score"}],
        "ece_kde": [
            {},
            {"scope": "output"},
            {"scope": "output", "per": "score", "boundary": "none"},
            {"bandwidth": 0.05},
            {"bandwidth": "mix-n-match"},
            {"convention": "paper"},
            {"convention": "mix-n-match"},
        ],
        "superclass_ece": [{"groups": "halves"}, {"groups": "halves", "scope": "output", "n_bins": 10}],
        "mistake_severity": [{"distances": "some"}],
    }
    if num_classes > 2:
        several["top_k_accuracy"].append({"k": 5})
        several["neighbourhood_mass"] = [{"similarity": "some", "k": 3}, {"similarity": "some", "k": 3, "of": "rest"}]
    return {
        f"{metric} {json.dumps(options, sort_keys=True)}": (metric, options)
        for metric, all_options in several.items()
        for options in all_options
    }


def resolved(options: dict[str, Any], num_classes: int) -> dict[str, Any]:
    """Options whose values are arrays, by their names in ``calls``."""
    arrays: dict[str, Callable[[], Tensor]] = {
        "groups": lambda: torch.arange(num_classes) // -(-num_classes // 2),
        "distances": lambda: distances(num_classes),
        "similarity": lambda: 1 / (1 + distances(num_classes)),
    }
    return {name: arrays[name]() if name in arrays else value for name, value in options.items()}


INTERVALS = (
    "accuracy {}",
    "nll {}",
    "aurc {}",
    "signed_gap {}",
    "ece_hist {}",
    'ece_hist {"scope": "output"}',
    'ece_hist {"norm": 2}',
    "classwise_ece {}",
    "smooth_ece {}",
    "ece_kde {}",
    "mce {}",
    'superclass_ece {"groups": "halves"}',
    'mistake_severity {"distances": "some"}',
)


def numbers(name: str, case: Case) -> Iterator[tuple[str, float]]:
    """All golden numbers of one case, by name."""
    p, y = case
    k = p.shape[1]
    for call, (metric, options) in calls(k).items():
        function = getattr(metrics, metric)
        try:
            yield f"{call}", function(p, y, **resolved(options, k))
        except ValueError as error:
            if "spread" not in str(error):  # a convention has no number for so few samples
                raise
    for call in INTERVALS:
        metric, options = calls(k)[call]
        interval = metrics.interval(p, y, metric, resamples=100, seed=1, **resolved(options, k))
        yield f"{call} low", interval.low
        yield f"{call} high", interval.high
    for options in ({"scope": "output"}, {"scope": "prediction", "boundary": "none", "per": "score"}):
        yield f"kde_floor {json.dumps(options)}", metrics.kde_floor(p, **options)  # type: ignore[arg-type]
    for metric, options in (("ece_hist", {}), ("ece_hist", {"scope": "output"}), ("smooth_ece", {})):
        chance = metrics.when_calibrated(p, metric, draws=20, **options)
        yield f"when_calibrated {metric} {json.dumps(options)}", chance.value
    known, unknown = p.amax(1)[: len(p) // 2], p.amax(1)[len(p) // 2 :] * 0.9
    for metric in ("auroc", "fpr_at_95"):
        yield metric, getattr(metrics, metric)(known, unknown)
    parts = metrics.brier_decomposition(p, y)
    for part in ("brier", "reliability", "resolution", "uncertainty", "within"):
        yield f"brier_decomposition {part}", getattr(parts, part)
    curve = metrics.severity_curve(p, y, distances(k), n_bins=5)
    yield "severity_curve correlation", curve.correlation
    compared = metrics.compare(p, p.double().pow(0.8) / p.double().pow(0.8).sum(1, keepdim=True), y, resamples=100)
    yield "compare difference", compared.difference
    if name in ("resnet20", "resnet32 few", "cat or dog", "digits", "digits few"):
        content = Predictions.from_probabilities(p, y)
        yield from _evaluated("evaluate", evaluation.evaluate(content, resamples=100, kde_interval=name == "resnet20"))
    if name in ("resnet20", "densenet", "digits"):
        yield from _evaluated("stream", streamed(p, y))


Shape = tuple[Any, Any, dict[str, Any]]


def shapes() -> dict[str, Shape]:
    """Claims of every shape, with weights or without: scores, what happened, and options of every metric."""
    rng = np.random.default_rng(7)

    def rows(n: int, k: int, factor: float) -> tuple[Any, Any]:
        logits = 1.5 * rng.normal(size=(n, k))
        p, q = (np.exp(z) / np.exp(z).sum(axis=1, keepdims=True) for z in (factor * logits, logits))
        return p, q

    def drawn(q: Any) -> Any:
        return np.minimum((q.cumsum(axis=1) < rng.random((len(q), 1))).sum(axis=1), q.shape[1] - 1)

    over, under, images = rows(200, 6, 1.5), rows(150, 3, 0.6), rows(6 * 64, 3, 1.3)
    scores = rng.beta(2, 1, 150)
    hits, weights = rng.random(150) < scores**1.5, rng.uniform(0.2, 2, 150)
    sure = np.full((30, 3), 0.01) + 0.96 * np.eye(3)[np.arange(30) % 3] * np.linspace(0.97, 1, 30)[:, None]
    sure[:, 0] += 1 - sure.sum(axis=1)
    claims = 1 / (1 + np.exp(-1.5 * rng.normal(size=(80, 5))))
    return {
        "classes": (over[0], drawn(over[1]), {}),
        "weighted classes": (under[0], drawn(under[1]), {"sample_weight": weights}),
        "all right": (sure, sure.argmax(axis=1), {}),
        "one wrong": (sure, np.r_[(sure[0].argmax() + 1) % 3, sure[1:].argmax(axis=1)], {}),
        "pairs": (scores, hits, {}),
        "weighted pairs": (scores, hits, {"sample_weight": weights}),
        "binary": (scores, hits.astype(np.int64), {}),
        "votes": (under[0], np.stack([rng.multinomial(5, q) for q in under[1]]), {}),
        "several labels": (claims, (rng.random((80, 5)) < claims**1.3).astype(np.int64), {}),
        "pixels": (images[0].reshape(6, 8, 8, 3).transpose(0, 3, 1, 2), drawn(images[1]).reshape(6, 8, 8), {}),
    }


ARGUMENTS = ("superclass_ece", "neighbourhood_mass", "mistake_severity", "top_5_accuracy")
COMPARED = ("nll", "brier", "signed_gap", "ece_hist", "classwise_ece", "debiased_ece", "aurc")


def shape_numbers(shape: Shape) -> Iterator[tuple[str, float]]:
    """Each metric of the claims with its interval, and a comparison with claims that are nearer to the middle."""
    p, y, options = shape
    middle = 1 / p.shape[1] if p.ndim > 1 and np.allclose(p.sum(axis=1), 1) else 0.5
    settings = {**options, "resamples": 100, "seed": 3}
    for metric in catalogue.METRICS:
        if metric in ARGUMENTS:
            continue
        try:
            found = metrics.interval(p, y, metric, **settings)
        except (NoMeaning, ValueError, TypeError):  # it has no meaning for this shape
            continue
        yield metric, found.value
        yield f"{metric} low", found.low
        yield f"{metric} high", found.high
        if metric in COMPARED:
            compared = metrics.compare(p, 0.8 * p + 0.2 * middle, y, metric, **settings)
            yield f"compare {metric} low", compared.low
            yield f"compare {metric} high", compared.high
            yield f"compare {metric} p", compared.p_value
    if np.ndim(p) == 2 and np.ndim(y) == 1 and not options:
        parts = metrics.brier_decomposition(p, y, confidence=0.95, resamples=100, seed=3)
        for part in ("reliability", "resolution", "uncertainty", "within"):
            yield f"{part} low", getattr(parts, part).low
            yield f"{part} high", getattr(parts, part).high
        severity = metrics.mistake_severity(p, y, distances(p.shape[1]), confidence=0.95, resamples=100, seed=3)
        yield "severity low", severity.low  # type: ignore[attr-defined]
        yield "severity high", severity.high  # type: ignore[attr-defined]


def streamed(p: Tensor, y: Tensor, **settings: Any) -> dict[str, Any]:
    """What ``evaluate_file`` gives of a file that it takes for too large to hold."""
    rows = from_files.ROWS
    from_files.ROWS = 500
    try:
        with tempfile.TemporaryDirectory() as folder:
            Predictions.from_probabilities(p, y).save(Path(folder) / "p.npz")
            return evaluation.evaluate_file(Path(folder) / "p.npz", resamples=100, progress=False, **settings).data
    finally:
        from_files.ROWS = rows


def _evaluated(how: str, data: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for key, measured in data["metrics"].items():
        for part in ("value", "low", "high", "floor"):
            changes = key == "debiased_ece" and part in ("low", "high")  # its interval is being corrected
            if part in measured and not changes:
                yield f"{how} {key} {part}", measured[part]
        if "when_calibrated" in measured:
            yield f"{how} {key} when_calibrated", measured["when_calibrated"]["value"]


def main(data: str, folder: str) -> None:
    """Compute all of them and write the files."""
    for file, golden in (
        ("metrics.json", {name: dict(numbers(name, case)) for name, case in cases(Path(data)).items()}),
        ("examples.json", {name: dict(numbers(name, case)) for name, case in examples().items()}),
        ("shapes.json", {name: dict(shape_numbers(shape)) for name, shape in shapes().items()}),
    ):
        (Path(folder) / file).write_text(json.dumps(golden, indent=0, ensure_ascii=False, default=float) + "\n")
        print(f"Wrote {file}: {sum(map(len, golden.values()))} numbers")


if __name__ == "__main__":
    main(*sys.argv[1:])
