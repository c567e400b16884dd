"""How often intervals hold the truth and tests reject what is equal, by simulation.

The tables of docs/measurements/coverage.md:

    python benchmarks/interval_coverage.py run                      # every population, resumes where it stopped
    python benchmarks/interval_coverage.py run --only errors --draws 200
    python benchmarks/interval_coverage.py table                    # writes the tables into that page

Each population draws probabilities together with the true chance of every class, so that the truth of a metric follows
from a large reference sample without drawing labels. Results are kept as one line for each chunk of draws in a JSON
lines file; a chunk depends on its number alone, so a run that was stopped goes on to the same numbers.
"""

import argparse
import json
import math
import os
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from scipy.stats import norm

from softkin import decisions, metrics
from softkin.lab.study import significance
from softkin.metrics import binning, density, kernels
from softkin.metrics.catalogue import METRICS
from softkin.metrics.scopes import Claims

torch.set_num_threads(1)

Array = np.ndarray
LEVEL = 0.95
CHUNK = 20
RESAMPLES = 100
M = 15
DOCUMENT = Path(__file__).parents[1] / "docs" / "measurements" / "coverage.md"


# ------------------------------------------------------------------------------------------------- populations


@dataclass(frozen=True)
class Population:
    """Where samples come from: (P, Q), what a model says and the true chance of each class."""

    about: str
    classes: int
    draw: Callable[[np.random.Generator, int], tuple[Array, Array]]


def softmax(logits: Array) -> Array:
    """Of each row."""
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def sharpened(classes: int, factor: float, *, spread: float = 2.0, rarer: float = 1.0) -> Callable[..., Any]:
    """Logits of a normal spread; the model says them ``factor`` times. Class k is ``rarer`` ** k as frequent."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        logits = spread * rng.normal(size=(n, classes)) + np.arange(classes) * math.log(rarer)
        return softmax(factor * logits), softmax(logits)

    return draw


def mixed(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Over-confident where an even class wins, under-confident where an odd one does."""
    logits = 2 * rng.normal(size=(n, 10))
    factor = np.where(logits.argmax(axis=1) % 2 == 0, 1.6, 0.65)
    return softmax(factor[:, None] * logits), softmax(logits)


def two_classes(confidence: Array, likelihood: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """The winner is class 0 or 1 at random: balanced classes."""
    p, q = (np.stack([chance, 1 - chance], axis=1) for chance in (confidence, likelihood))
    swap = rng.random(len(p)) < 0.5
    p[swap], q[swap] = p[swap, ::-1], q[swap, ::-1]
    return p, q


def one_bin(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Off by 0.3 above 14/15, calibrated elsewhere."""
    c = rng.uniform(0.5, 1, n)
    return two_classes(c, np.where(c > 14 / 15, c - 0.3, c), rng)


def alternating(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Bins off by 3 points, above and below in turn."""
    c = rng.uniform(0.5, 1, n)
    return two_classes(c, np.clip(c + np.where(np.ceil(c * M) % 2 == 0, 0.03, -0.03), 0, 1), rng)


def saturated(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Four scores of five are exactly 1, and right in 97 %; the others are calibrated."""
    full = rng.random(n) < 0.8
    c = np.where(full, 1.0, rng.uniform(0.5, 1, n))
    return two_classes(c, np.where(full, 0.97, c), rng)


def sure_and_right(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Calibrated at 95 to 99.5 %: small samples are often all right."""
    c = rng.uniform(0.95, 0.995, n)
    return two_classes(c, c, rng)


POPULATIONS = {
    "calibrated, K = 2": Population("normal logits, reported as they are", 2, sharpened(2, 1.0)),
    "calibrated, K = 10": Population("the same", 10, sharpened(10, 1.0)),
    "over-confident, K = 10": Population("logits multiplied by 1.6", 10, sharpened(10, 1.6)),
    "over-confident, K = 100": Population("the same, spread 3", 100, sharpened(100, 1.6, spread=3)),
    "slightly over, K = 10": Population("logits multiplied by 1.1", 10, sharpened(10, 1.1)),
    "under-confident, K = 10": Population("logits multiplied by 0.65", 10, sharpened(10, 0.65)),
    "under-confident, K = 3": Population("the same", 3, sharpened(3, 0.65)),
    "under-confident, K = 100": Population("the same, spread 3", 100, sharpened(100, 0.65, spread=3)),
    "imbalanced, K = 10": Population("over-confident, class k 0.5^k as frequent", 10, sharpened(10, 1.6, rarer=0.5)),
    "mixed, K = 10": Population("over where an even class wins, under where an odd one does", 10, mixed),
    "one bin, K = 2": Population("off by 0.3 above 14/15, calibrated elsewhere", 2, one_bin),
    "alternating, K = 2": Population("bins off by 3 points, up and down in turn", 2, alternating),
    "saturated, K = 2": Population("four of five scores are 1, of which 97 % are right", 2, saturated),
    "sure and right, K = 2": Population("calibrated between 95 and 99.5 %", 2, sure_and_right),
}
SIZES = (40, 200, 1000)
ALL_SIZES = (*SIZES, 10_000)


def labels(q: Array, rng: np.random.Generator) -> Array:
    """One drawn label for each row of chances."""
    return (
        (q.cumsum(axis=1) < rng.random((len(q), 1)) * q.sum(axis=1, keepdims=True)).sum(axis=1).clip(0, q.shape[1] - 1)
    )


@dataclass(frozen=True)
class Reference:
    """A large sample with the true chances in place of labels."""

    p: Array
    q: Array

    @property
    def winning(self) -> tuple[Array, Array]:
        """(the winning score, its true chance) of each row."""
        return winning(self.p, self.q)


@lru_cache(maxsize=2)
def reference(name: str) -> Reference:
    """Of a population: 50,000 rows and more."""
    population = POPULATIONS[name]
    return Reference(*population.draw(np.random.default_rng(99), max(50_000, 1_000_000 // population.classes)))


# ------------------------------------------------------------------------------------------- truths of metrics


def in_bins(score: Array, chance: Array, edges: Array) -> tuple[Array, Array, Array]:
    """(count, scores, expected hits) of each bin."""
    place = np.searchsorted(edges[1:-1], score.ravel(), side="left")
    size = len(edges) - 1
    return (
        np.bincount(place, minlength=size).astype(float),
        np.bincount(place, score.ravel(), minlength=size),
        np.bincount(place, chance.ravel(), minlength=size),
    )


def binned_error(score: Array, chance: Array, edges: Array, q: float, divide_by: int) -> float:
    """(Σ |B|/n |conf − lik|^q)^(1/q), or the largest for q = ∞."""
    count, scores, hits = in_bins(score, chance, edges)
    gap = np.abs(scores - hits) / np.maximum(count, 1)
    return float(gap.max()) if q == math.inf else float(((count * gap**q).sum() / divide_by) ** (1 / q))


WIDTH = np.arange(M + 1) / M


def brier_parts(ref: Reference) -> dict[str, float]:
    """Of the population."""
    n = len(ref.p)
    total = float((ref.p**2).sum() / n - 2 * (ref.p * ref.q).sum() / n + 1)
    base = ref.q.mean(axis=0)
    reliability = resolution = 0.0
    for k in range(ref.p.shape[1]):
        count, scores, hits = in_bins(ref.p[:, k], ref.q[:, k], WIDTH)
        size = np.maximum(count, 1)
        reliability += float(((scores - hits) ** 2 / size).sum() / n)
        resolution += float((count * (hits / size - base[k]) ** 2).sum() / n)
    uncertainty = float((base * (1 - base)).sum())
    within = total - reliability + resolution - uncertainty
    return {"reliability": reliability, "resolution": resolution, "uncertainty": uncertainty, "within": within}


def kernel_error(score: Array, chance: Array, radius: float, divide_by: int) -> float:
    """The KDE ECE of the population with this bandwidth."""
    s, none = torch.from_numpy(score.ravel()), torch.empty(0, dtype=torch.int64)
    weights = torch.from_numpy(chance.ravel())
    return density.calibration_error(s, none, radius, "reflect", shares=weights) * len(s) / divide_by


def smooth_error(score: Array, chance: Array, divide_by: int) -> float:
    """The smooth ECE of the population."""
    s = torch.from_numpy(score.ravel())
    at_nodes = kernels.residuals_at_nodes(s, s - torch.from_numpy(chance.ravel()), 2**12)
    return float(kernels.fixed_point(kernels.smoothed_error(at_nodes, divide_by), at_nodes[0]))


def risk_coverage(ref: Reference) -> float:
    """AURC of the population: equal scores share their mean risk."""
    score, chance = ref.winning
    _, group = np.unique(score, return_inverse=True)
    mean = np.bincount(group, 1 - chance) / np.bincount(group)
    risk = mean[group][np.argsort(-score, kind="stable")]
    return float((risk.cumsum() / np.arange(1, len(risk) + 1)).mean())


@lru_cache(maxsize=256)
def fixed_truths(name: str) -> dict[str, float]:
    """The truths that do not depend on the sample's bins or bandwidth."""
    ref = reference(name)
    n, classes = ref.p.shape
    score, chance = ref.winning
    top = min(5, classes // 2)
    own = np.take_along_axis(ref.q, np.argsort(-ref.p, axis=1, kind="stable")[:, :top], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.where(ref.q > 0, ref.q * -np.log(ref.p), 0.0)
    _, scores, hits = in_bins(score, chance, WIDTH)
    return {
        "accuracy": float(chance.mean()),
        "top_k_accuracy": float(own.sum(axis=1).mean()),
        "nll": float(log.sum(axis=1).mean()),
        "brier": float(((ref.p**2).sum() - 2 * (ref.p * ref.q).sum()) / n + 1),
        "aurc": risk_coverage(ref),
        "signed_gap": float((score - chance).mean()),
        "signed_gap over": float((scores - hits).clip(min=0).sum() / n),
        "ece_hist": binned_error(score, chance, WIDTH, 1, n),
        "ece_hist output": binned_error(ref.p, ref.q, WIDTH, 1, n),
        "debiased_ece": binned_error(score, chance, WIDTH, 2, n),
        "mce": binned_error(score, chance, WIDTH, math.inf, n),
        "smooth_ece": smooth_error(score, chance, n),
        "smooth_ece output": smooth_error(ref.p, ref.q, n),
        "classwise_ece": float(np.mean([binned_error(ref.p[:, k], ref.q[:, k], WIDTH, 1, n) for k in range(classes)])),
        **{f"brier {part}": value for part, value in brier_parts(ref).items()},
    }


OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "accuracy": ("accuracy", {}),
    "top_k_accuracy": ("top_k_accuracy", {}),
    "nll": ("nll", {}),
    "brier": ("brier", {}),
    "aurc": ("aurc", {}),
    "signed_gap": ("signed_gap", {}),
    "signed_gap over": ("signed_gap", {"part": "over"}),
    "ece_hist": ("ece_hist", {}),
    "ece_hist mass": ("ece_hist", {"binning": "mass"}),
    "ece_hist output": ("ece_hist", {"scope": "output"}),
    "ece_kde": ("ece_kde", {}),
    "ece_kde output": ("ece_kde", {"scope": "output"}),
    "classwise_ece": ("classwise_ece", {}),
    "smooth_ece": ("smooth_ece", {}),
    "smooth_ece output": ("smooth_ece", {"scope": "output"}),
    "debiased_ece": ("debiased_ece", {}),
    "debiased_ece mass": ("debiased_ece", {"binning": "mass"}),
    "mce": ("mce", {}),
}
DEAR = ("ece_kde output", "smooth_ece", "smooth_ece output")
"""They take longer than all others together: measured for few populations, at one size"""
MEASURED_DEARLY = (
    "calibrated, K = 10",
    "over-confident, K = 10",
    "mixed, K = 10",
    "one bin, K = 2",
    "saturated, K = 2",
)
DEAR_SIZE = 200
PARTS = ("reliability", "resolution", "uncertainty", "within")
QUANTITIES = (*OPTIONS, *(f"brier {part}" for part in PARTS))


def truth_of(quantity: str, name: str, p: Array) -> float:
    """What the interval of a sample ``p`` should hold: over its own bins or bandwidth where those follow the sample."""
    known = fixed_truths(name)
    if quantity in known:
        return known[quantity]
    whole = reference(name)
    ref = Reference(whole.p[:20_000], whole.q[:20_000])
    score, chance = ref.winning
    own = torch.from_numpy(p.max(axis=1))
    if quantity.endswith("mass"):
        edges = binning.equal_mass(own, M).edges.numpy()
        return binned_error(score, chance, edges, 2 if quantity.startswith("debiased") else 1, len(score))
    if quantity == "ece_kde":
        radius = density.bandwidth("paper", own, torch.empty(0, dtype=torch.int64))
        return kernel_error(score, chance, radius, len(score))
    radius = density.bandwidth("paper", torch.from_numpy(p.ravel()), torch.empty(0, dtype=torch.int64))
    return kernel_error(ref.p, ref.q, radius, len(ref.p))


def intervals(
    p: Array, y: Array, seed: int, quantities: tuple[str, ...] = QUANTITIES, resamples: int = RESAMPLES
) -> Iterator[tuple[str, Any]]:
    """(quantity, its interval) of one sample."""
    settings: dict[str, Any] = {"confidence": LEVEL, "resamples": resamples, "seed": seed}
    for quantity in quantities:
        if quantity in OPTIONS:
            metric, options = OPTIONS[quantity]
            if quantity == "top_k_accuracy":
                options = {"k": min(5, p.shape[1] // 2)}
            yield quantity, getattr(metrics, metric)(p, y, **options, **settings)
    parts = [part for part in PARTS if f"brier {part}" in quantities]
    if parts:
        measured = metrics.brier_decomposition(p, y, **settings)
        yield from ((f"brier {part}", getattr(measured, part)) for part in parts)


class Tally:
    """Counts of one chunk."""

    def __init__(self) -> None:
        self.counts: dict[str, dict[str, float]] = defaultdict(
            lambda: dict.fromkeys(("n", "held", "below", "above", "own", "width"), 0)
        )

    def add(self, quantity: str, low: float, high: float, truth: float, value: float) -> None:
        """One interval; ends that are a rounding away from the truth hold it."""
        if math.isinf(truth):  # no interval can be said to hold it
            return
        entry = self.counts[quantity]
        slack = 1e-9 + 1e-6 * abs(truth)
        entry["n"] += 1
        entry["held"] += low - slack <= truth <= high + slack
        entry["below"] += high + slack < truth  # the interval lies below the truth
        entry["above"] += low - slack > truth
        entry["own"] += low <= value <= high
        entry["width"] += high - low


def metrics_chunk(
    name: str, n: int, chunk: int, quantities: tuple[str, ...] = QUANTITIES, draws: int = CHUNK
) -> dict[str, Any]:
    """Intervals of metrics of ``draws`` samples from a population."""
    tally = Tally()
    if name not in MEASURED_DEARLY or n != DEAR_SIZE:
        quantities = tuple(q for q in quantities if q not in DEAR)
    for r in range(draws):
        rng = np.random.default_rng([zlib.crc32(name.encode()), n, chunk, r])
        p, q = POPULATIONS[name].draw(rng, n)
        y = labels(q, rng)
        for quantity, interval in intervals(p, y, r, quantities):
            tally.add(quantity, interval.low, interval.high, truth_of(quantity, name, p), float(interval))
    return dict(tally.counts)


ERRORS = ("ece_hist", "ece_hist output", "ece_kde", "classwise_ece", "signed_gap over", "brier within")
"""What errs most easily, with more draws and sizes"""


def errors_chunk(name: str, n: int, chunk: int, draws: int = CHUNK) -> dict[str, Any]:
    """Intervals of ``ERRORS`` alone."""
    return metrics_chunk(name, n, chunk, ERRORS, draws)


# -------------------------------------------------------------------------------- other shapes than rows of classes


@dataclass(frozen=True)
class Shape:
    """Samples of a shape: ``draw`` gives scores, outcomes, options of metrics, and what ``truth`` needs of them."""

    draw: Callable[[np.random.Generator, int], tuple[Array, Array, dict[str, Any], tuple[Array, ...]]]
    truths: dict[str, Callable[..., float]]


def claims_error(score: Array, chance: Array, weight: Array) -> float:
    """The histogram ECE of weighted claims."""
    place = np.searchsorted(WIDTH[1:-1], score, side="left")
    return float(np.abs(np.bincount(place, weight * (score - chance), minlength=M)).sum() / weight.sum())


def ranking_of(score: Array, chance: Array, weight: Array) -> float:
    """P(the score of a hit > that of a miss), of continuous scores."""
    order = np.argsort(score)
    right, wrong = (weight * chance)[order], (weight * (1 - chance))[order]
    return float((right * (wrong.cumsum() - wrong / 2)).sum() / (right.sum() * wrong.sum()))


def pair_risk(score: Array, chance: Array, weight: Array) -> float:
    """AURC of pairs, with weights."""
    order = np.argsort(-score)
    w, lost = weight[order], (weight * (1 - chance))[order]
    return float((w * lost.cumsum() / w.cumsum()).sum() / w.sum())


PAIR_TRUTHS: dict[str, Callable[..., float]] = {
    "ece_hist": claims_error,
    "brier": lambda s, q, w: float((w * ((s - q) ** 2 + q * (1 - q))).sum() / w.sum()),
    "nll": lambda s, q, w: float((w * -(q * np.log(s) + (1 - q) * np.log(1 - s))).sum() / w.sum()),
    "signed_gap": lambda s, q, w: float((w * (s - q)).sum() / w.sum()),
    "confidence_auroc": ranking_of,
    "aurc": pair_risk,
}


def pairs(rng: np.random.Generator, n: int, *, weighted: bool = False) -> tuple[Array, Array, dict[str, Any], Any]:
    """Confidences that claim too much, and whether they were right; weights fall with the confidence."""
    s = rng.beta(2.0, 1.0, n).clip(1e-6, 1 - 1e-6)
    q = s**1.4
    w = rng.uniform(0.5, 1.5, n) * (1.5 - s) if weighted else np.ones(n)
    return s, rng.random(n) < q, {"sample_weight": w} if weighted else {}, (s, q, w)


def binary(rng: np.random.Generator, n: int) -> tuple[Array, Array, dict[str, Any], Any]:
    """Scores of class 1, half of them too high."""
    z = 1.5 * rng.normal(size=n)
    s, q = 1 / (1 + np.exp(-z)), 1 / (1 + np.exp(-z / 1.5 + 0.3))
    return s, (rng.random(n) < q).astype(int), {}, (s, q, np.ones(n))


VOTES = 5


def votes(rng: np.random.Generator, n: int) -> tuple[Array, Array, dict[str, Any], Any]:
    """Four classes, over-confident, with five votes for each row."""
    p, q = sharpened(4, 1.5, spread=1.5)(rng, n)
    return p, rng.multinomial(VOTES, q), {}, (p, q)


def several(rng: np.random.Generator, n: int) -> tuple[Array, Array, dict[str, Any], Any]:
    """Five labels for each row, claimed with too much confidence, which depend on each other through the row."""
    z = rng.normal(size=(n, 5)) + rng.normal(size=(n, 1)) - 1
    s, q = 1 / (1 + np.exp(-1.5 * z)), 1 / (1 + np.exp(-z))
    return s, (rng.random((n, 5)) < q).astype(int), {}, (s, q)


def ordered(rng: np.random.Generator, n: int) -> tuple[Array, Array, dict[str, Any], Any]:
    """Five classes in an order, over-confident."""
    p, q = sharpened(5, 1.5, spread=1.5)(rng, n)
    return p, labels(q, rng), {}, (p, q)


def weighted_classes(rng: np.random.Generator, n: int) -> tuple[Array, Array, dict[str, Any], Any]:
    """Five classes, over-confident, with weights that fall with the winning score."""
    p, q = sharpened(5, 1.5, spread=1.5)(rng, n)
    w = rng.uniform(0.5, 1.5, n) * (1.5 - p.max(axis=1))
    return p, labels(q, rng), {"sample_weight": w}, (p, q, w)


SIDE = 4


def pixels(rng: np.random.Generator, n: int) -> tuple[Array, Array, dict[str, Any], Any]:
    """Images of 4 × 4 pixels, n / 4 of them, and three classes; those of an image share a factor of over-confidence."""
    images = n // 4
    factor = np.exp(0.3 + 0.3 * rng.normal(size=images)).repeat(SIDE * SIDE)[:, None]
    mood = 0.7 * rng.normal(size=(images, 3)).repeat(SIDE * SIDE, axis=0)
    logits = mood + 1.5 * rng.normal(size=(len(mood), 3))
    p, q = softmax(factor * logits), softmax(logits)
    shape = (images, SIDE, SIDE)
    return p.reshape(*shape, 3).transpose(0, 3, 1, 2), labels(q, rng).reshape(shape), {}, (p, q)


def winning(p: Array, q: Array) -> tuple[Array, Array]:
    """(the winning score, its true chance) of each row."""
    rows, winner = np.arange(len(p)), p.argmax(axis=1)
    return p[rows, winner], q[rows, winner]


def winning_error(p: Array, q: Array) -> float:
    """The histogram ECE of the winners."""
    return binned_error(*winning(p, q), WIDTH, 1, len(p))


def ranked(p: Array, q: Array) -> float:
    """The ranked probability score."""
    said, true = p.cumsum(axis=1)[:, :-1], q.cumsum(axis=1)[:, :-1]
    return float(((said - true) ** 2 + true * (1 - true)).mean())


SHAPES = {
    "pairs": Shape(pairs, PAIR_TRUTHS),
    "weighted pairs": Shape(lambda rng, n: pairs(rng, n, weighted=True), PAIR_TRUTHS),
    "binary scores": Shape(
        binary,
        {
            "auc": ranking_of,
            "ece_hist": lambda s, q, w: winning_error(np.stack([1 - s, s], 1), np.stack([1 - q, q], 1)),
        },
    ),
    "votes": Shape(
        votes,
        {
            "ece_hist": winning_error,
            "nll": lambda p, q: float(-(q * np.log(p)).sum(axis=1).mean()),
            "brier": lambda p, q: float(((p - q) ** 2 + q * (1 - q) / VOTES).sum(axis=1).mean()),
            "accuracy": lambda p, q: float(q[np.arange(len(p)), p.argmax(axis=1)].mean()),
        },
    ),
    "several labels": Shape(
        several,
        {
            "ece_hist output": lambda s, q: binned_error(s, q, WIDTH, 1, s.size),
            "classwise_ece": lambda s, q: float(
                np.mean([binned_error(s[:, k], q[:, k], WIDTH, 1, len(s)) for k in range(s.shape[1])])
            ),
            "brier": lambda s, q: float(((s - q) ** 2 + q * (1 - q)).mean()),
        },
    ),
    "ordered classes": Shape(ordered, {"rps": ranked}),
    "weighted classes": Shape(
        weighted_classes,
        {
            "ece_hist": lambda p, q, w: claims_error(*winning(p, q), w),
            "accuracy": lambda p, q, w: float((w * winning(p, q)[1]).sum() / w.sum()),
            "nll": lambda p, q, w: float((w * -(q * np.log(p)).sum(axis=1)).sum() / w.sum()),
            "brier": lambda p, q, w: float((w * ((p - q) ** 2 + q * (1 - q)).sum(axis=1)).sum() / w.sum()),
        },
    ),
    "pixels of n / 4 images": Shape(
        pixels,
        {
            "ece_hist": winning_error,
            "accuracy": lambda p, q: float(winning(p, q)[1].mean()),
            "nll": lambda p, q: float(-(q * np.log(p)).sum(axis=1).mean()),
            "signed_gap": lambda p, q: float(np.subtract(*winning(p, q)).mean()),
        },
    ),
}


@lru_cache(maxsize=16)
def shape_truths(name: str) -> dict[str, float]:
    """Of 400,000 rows."""
    parts = SHAPES[name].draw(np.random.default_rng(99), 400_000)[3]
    return {quantity: truth(*parts) for quantity, truth in SHAPES[name].truths.items()}


def kinds_chunk(name: str, n: int, chunk: int, draws: int = CHUNK) -> dict[str, Any]:
    """Intervals of metrics of other shapes."""
    tally = Tally()
    for r in range(draws):
        rng = np.random.default_rng([zlib.crc32(name.encode()), n, chunk, r])
        scores, outcomes, options, _ = SHAPES[name].draw(rng, n)
        for quantity, truth in shape_truths(name).items():
            metric, chosen = OPTIONS.get(quantity, (quantity, {}))
            interval: Any = getattr(metrics, metric)(
                scores, outcomes, **options, **chosen, confidence=LEVEL, resamples=RESAMPLES, seed=r
            )
            tally.add(quantity, interval.low, interval.high, truth, float(interval))
    return dict(tally.counts)


# ------------------------------------------------------------------------------------------------------- groups


GROUPS = {"three groups": (0.7, 1.0, 1.5), "eight groups": tuple(np.linspace(0.7, 1.6, 8).tolist())}
"""By what the logits of each group are multiplied"""
GROUPED: dict[str, Callable[[Array, Array], float]] = {
    "accuracy": lambda p, q: float(winning(p, q)[1].mean()),
    "nll": lambda p, q: float(-(q * np.log(p)).sum(axis=1).mean()),
    "ece_hist": winning_error,
    "signed_gap": lambda p, q: float(np.subtract(*winning(p, q)).mean()),
}


@lru_cache(maxsize=16)
def group_truths(name: str) -> dict[str, list[float]]:
    """Of 100,000 rows of each group."""
    drawn = [sharpened(5, factor)(np.random.default_rng(99), 100_000) for factor in GROUPS[name]]
    return {quantity: [truth(*pair) for pair in drawn] for quantity, truth in GROUPED.items()}


def groups_chunk(name: str, n: int, chunk: int, draws: int = CHUNK) -> dict[str, Any]:
    """Intervals of n rows of each group at the level of ``evaluate_groups``: "held" if all hold their truths."""
    tally = Tally()
    tail = (1 - LEVEL) / len(GROUPS[name])
    settings: dict[str, Any] = {"confidence": 1 - tail, "resamples": max(RESAMPLES, math.ceil(4 / tail))}
    for r in range(draws):
        rng = np.random.default_rng([zlib.crc32(name.encode()), n, chunk, r])
        missed = dict.fromkeys(GROUPED, 0)
        for g, factor in enumerate(GROUPS[name]):
            p, q = sharpened(5, factor)(rng, n)
            y = labels(q, rng)
            for quantity in GROUPED:
                found = metrics.interval(p, y, quantity, seed=r, **settings)
                missed[quantity] += not found.low <= group_truths(name)[quantity][g] <= found.high
        for quantity, number in missed.items():
            tally.add(quantity, 0.0, 0.0, float(number), 0.0)
    return dict(tally.counts)


# ---------------------------------------------------------------------------------------------- two models


def over_and_under(rng: np.random.Generator, n: int) -> tuple[Array, Array, Array]:
    """One model 5 points too sure, one 5 points too unsure, of the same answers: the same ECE."""
    q = rng.uniform(0.6, 0.95, n)
    return tuple(np.stack([c, 1 - c], axis=1) for c in (q + 0.05, q - 0.05, q))  # type: ignore[return-value]


def sharp_and_blunt(rng: np.random.Generator, n: int) -> tuple[Array, Array, Array]:
    """Both calibrated: one knows the chance itself, the other its mean given half of what there is to know."""
    known = rng.uniform(0.65, 0.85, n)
    q = known + rng.choice([-0.15, 0.15], n)
    return tuple(np.stack([c, 1 - c], axis=1) for c in (q, known, q))  # type: ignore[return-value]


def noisy_twins(rng: np.random.Generator, n: int) -> tuple[Array, Array, Array]:
    """Two models equally far from the truth, each with noise of its own: rows that can be exchanged."""
    logits = 1.5 * rng.normal(size=(n, 4))
    a, b = (softmax(1.3 * (logits + rng.normal(size=(n, 4)))) for _ in range(2))
    return a, b, softmax(logits)


def off_and_calibrated(rng: np.random.Generator, n: int) -> tuple[Array, Array, Array]:
    """One model 4 points too sure, one calibrated."""
    q = rng.uniform(0.55, 0.95, n)
    return tuple(np.stack([c, 1 - c], axis=1) for c in (q + 0.04, q, q))  # type: ignore[return-value]


PAIRS: dict[str, tuple[str, Callable[..., tuple[Array, Array, Array]], tuple[str, ...]]] = {
    "over and under": (
        "one 5 points overconfident, one 5 points underconfident",
        over_and_under,
        ("ece_hist", "ece_hist mass", "debiased_ece", "ece_kde"),
    ),
    "sharp and blunt": (
        "both calibrated, one knows half of what the other does",
        sharp_and_blunt,
        ("ece_hist", "ece_hist mass", "debiased_ece", "signed_gap"),
    ),
    "noisy twins": (
        "equally far from the truth, each with noise of its own",
        noisy_twins,
        ("ece_hist", "ece_hist output", "nll", "brier", "accuracy", "aurc", "classwise_ece"),
    ),
    "off and calibrated": (
        "one 4 points overconfident, one calibrated",
        off_and_calibrated,
        ("ece_hist", "ece_hist mass", "debiased_ece", "nll", "brier", "signed_gap"),
    ),
}


def truth_of_difference(pair: str, quantity: str) -> float:
    """Metric of a minus metric of b in the population; 0 but for the last pair."""
    return _off_and_calibrated(quantity) if pair == "off and calibrated" else 0.0


@lru_cache(maxsize=16)
def _off_and_calibrated(quantity: str) -> float:
    a, b, q = off_and_calibrated(np.random.default_rng(99), 400_000)
    if quantity == "nll":
        return float((q * (np.log(b) - np.log(a))).sum(axis=1).mean())
    if quantity == "brier":
        return float((a**2 - b**2 - 2 * q * (a - b)).sum(axis=1).mean())
    return 0.04  # the same everywhere, so whatever the bins


def pairs_chunk(pair: str, n: int, chunk: int, draws: int = CHUNK) -> dict[str, Any]:
    """Comparisons of two models; "rejected" counts p ≤ 0.05, "exchangeable" the same by swapped rows."""
    _, draw, quantities = PAIRS[pair]
    tally = Tally()
    for r in range(draws):
        rng = np.random.default_rng([zlib.crc32(pair.encode()), n, chunk, r])
        a, b, q = draw(rng, n)
        y = labels(q, rng)
        for quantity in quantities:
            metric, options = OPTIONS[quantity]
            result = metrics.compare(a, b, y, metric, resamples=RESAMPLES, seed=r, **options)
            tally.add(quantity, result.low, result.high, truth_of_difference(pair, quantity), result.difference)
            entry = tally.counts[quantity]
            entry["rejected"] = entry.get("rejected", 0) + (result.p_value <= 0.05)
            if quantity == "ece_hist":
                swapped = metrics.compare(a, b, y, metric, resamples=RESAMPLES, seed=r, test="exchangeable", **options)
                entry["exchangeable"] = entry.get("exchangeable", 0) + (swapped.p_value <= 0.05)
    return dict(tally.counts)


# ------------------------------------------------------------------------------------ known against unknown


SEPARATIONS = {"overlapping": 1.0, "apart": 2.5, "separable": math.inf}


def unknown_chunk(name: str, n: int, chunk: int, draws: int = CHUNK) -> dict[str, Any]:
    """AUROC and FPR@95 of normal scores of n known and n unknown samples, so many deviations apart."""
    shift, tally = SEPARATIONS[name], Tally()
    truths = {"auroc": float(norm.cdf(shift / 2**0.5)), "fpr_at_95": float(norm.cdf(norm.ppf(0.95) - shift))}
    for r in range(draws):
        rng = np.random.default_rng([zlib.crc32(name.encode()), n, chunk, r])
        known, unknown = rng.normal(size=n) + min(shift, 50), rng.normal(size=n)
        for quantity, truth in truths.items():
            interval: Any = getattr(metrics, quantity)(known, unknown, confidence=LEVEL, resamples=RESAMPLES, seed=r)
            tally.add(quantity, interval.low, interval.high, truth, float(interval))
    return dict(tally.counts)


# ------------------------------------------------------------------------------------- abstention, studies


RISKS: dict[str, tuple[Callable[[Array], Array], Callable[[float], float]]] = {
    "better where sure": (lambda u: 0.3 * (1 - u), lambda t: 0.3 * (1 - t) / 2),
    "same everywhere": (lambda u: 0.1 + 0 * u, lambda t: 0.1),
    "worse where sure": (lambda u: 0.2 * u, lambda t: 0.2 * (1 + t) / 2),
}


def abstention_chunk(name: str, n: int, chunk: int, draws: int = CHUNK) -> dict[str, Any]:
    """Certificates of at most 10 % errors with 95 % confidence: "held" unless the rule chosen errs more often."""
    chance, true_risk = RISKS[name]
    tally = Tally()
    for r in range(draws):
        rng = np.random.default_rng([zlib.crc32(name.encode()), n, chunk, r])
        u = rng.random(n)
        chosen = decisions.select(u, rng.random(n) >= chance(u), risk=0.1, confidence=LEVEL).chosen
        risk = 0.0 if chosen is None else true_risk(max(0.0, chosen.threshold))
        tally.add("certificate", 0.0, 0.1, risk, 0.0 if chosen is None else chosen.risk)
    return dict(tally.counts)


def runs(rng: np.random.Generator, methods: int, seeds: int, n: int) -> tuple[list[list[Array]], Array]:
    """Probabilities of equal methods: each run has sharpness, strength and noise of its own, by training alone."""
    logits = 1.5 * rng.normal(size=(n, 4))
    y = labels(softmax(logits), rng)

    def trained() -> Array:
        strength = 0.7 + 0.1 * rng.normal()
        seen = logits + strength * rng.normal(size=logits.shape)
        return softmax(1.2 * math.exp(0.15 * rng.normal()) * seen)

    return [[trained() for _ in range(seeds)] for _ in range(methods)], y


STUDIES = {
    f"{m} methods, {s} seed{'s' if s > 1 else ''}": (m, s)
    for m, s in ((2, 1), (2, 2), (2, 3), (2, 5), (2, 10), (10, 5))
}
STUDY_METRICS = ("accuracy", "nll", "ece_hist")


def study_chunk(name: str, n: int, chunk: int, draws: int = CHUNK) -> dict[str, Any]:
    """Studies of equal methods: "held" where no method is called worse."""
    methods, seeds = STUDIES[name]
    tally = Tally()
    for r in range(draws):
        rng = np.random.default_rng([zlib.crc32(name.encode()), n, chunk, r])
        trained, y = runs(rng, methods, seeds, n)
        drawn = significance.Resamples([list(range(n))] * seeds, times=1000, seed=r)
        for key in STUDY_METRICS:
            make = METRICS[key].statistic
            everything = {}
            for m, row in enumerate(trained):
                made = [make(Claims.of(torch.from_numpy(p), torch.from_numpy(y))) for p in row]
                seen = np.array([statistic.value() for statistic in made])
                again = np.stack([drawn.values(s, [statistic])[0] for s, statistic in enumerate(made)], axis=1)
                usual = [metrics.when_calibrated(torch.from_numpy(p), key) for p in row] if "ece" in key else None
                chance = None if usual is None else float(np.mean(usual))
                everything[str(m)] = significance.Sampled(seen, again, chance)
            verdict = significance.verdict(everything, larger_is_better=key == "accuracy")
            worse = methods - 1 - len(verdict.ties)
            tally.add(key, 0.0, 0.0, float(worse), 0.0)
    return dict(tally.counts)


# ---------------------------------------------------------------------------------------- running, tables


@dataclass(frozen=True)
class Simulation:
    """One family of populations: how a chunk is drawn, from which of them, at which sizes."""

    chunk: Callable[..., dict[str, Any]]
    names: tuple[str, ...]
    sizes: tuple[int, ...]


SIMULATIONS = {
    "metrics": Simulation(metrics_chunk, tuple(POPULATIONS), SIZES),
    "errors": Simulation(errors_chunk, tuple(POPULATIONS), ALL_SIZES),
    "kinds": Simulation(kinds_chunk, tuple(SHAPES), ALL_SIZES),
    "groups": Simulation(groups_chunk, tuple(GROUPS), ALL_SIZES),
    "pairs": Simulation(pairs_chunk, tuple(PAIRS), SIZES),
    "unknown": Simulation(unknown_chunk, tuple(SEPARATIONS), (40, 200, 1000)),
    "abstention": Simulation(abstention_chunk, tuple(RISKS), (200, 1000, 5000)),
    "studies": Simulation(study_chunk, tuple(STUDIES), (200,)),
}
SMALL = ("calibrated, K = 2", "over-confident, K = 10", "saturated, K = 2", "sure and right, K = 2")
"""The populations of metrics that are drawn at the smallest size"""
LARGE = ("calibrated, K = 10", "over-confident, K = 10", "mixed, K = 10", "one bin, K = 2")
"""Those that are drawn at the largest"""


def is_drawn(family: str, name: str, n: int) -> bool:
    """Whether this cell is part of the grid."""
    if family == "errors" and n == ALL_SIZES[-1]:
        return POPULATIONS[name].classes <= 10
    return family != "metrics" or {SIZES[0]: name in SMALL, SIZES[-1]: name in LARGE}.get(n, True)


def run(results: Path, only: str | None, draws: int, seconds: float = math.inf, backwards: bool = False) -> None:
    """Draw what is not yet in the file of results, round by round: first chunks of everything come first."""
    if results.exists() and not results.read_text().endswith("\n"):  # cut short by a kill
        with results.open("a") as file:
            file.write("\n")
    cells = [
        (family, name, n, number)
        for number in range(-(-draws // CHUNK))
        for family, simulation in SIMULATIONS.items()
        for name in simulation.names
        for n in simulation.sizes
        if only in (None, family) and is_drawn(family, name, n)
    ]
    end = time.monotonic() + seconds
    for cell in reversed(cells) if backwards else cells:
        if time.monotonic() > end:
            return
        if cell not in {tuple(line["cell"]) for line in read(results)}:  # another process may have drawn it
            family, name, n, number = cell
            counts = SIMULATIONS[family].chunk(name, n, number)
            with results.open("a") as file:
                file.write(json.dumps({"cell": cell, "counts": counts}) + "\n")
            print(*cell, flush=True)


def read(results: Path) -> list[dict[str, Any]]:
    """The lines of the file; one that a kill cut short is left out."""
    lines = []
    for line in results.read_text().splitlines() if results.exists() else []:
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue
    return lines


Totals = dict[tuple[str, str, int, str], dict[str, float]]


def totals(results: Path) -> Totals:
    """Counts by (family, population, n, quantity)."""
    summed: Totals = {}
    for line in read(results):
        family, name, n, _ = line["cell"]
        for quantity, counts in line["counts"].items():
            entry = summed.setdefault((family, name, n, quantity), {})
            for key, count in counts.items():
                entry[key] = entry.get(key, 0) + count
    return summed


def _grid(corner: str, heads: list[str], rows: list[tuple[str, list[str]]]) -> list[str]:
    return [
        f"| {corner} | " + " | ".join(heads) + " |",
        "| --- |" + " ---: |" * len(heads),
        *(f"| {title} | " + " | ".join(cells) + " |" for title, cells in rows),
        "",
    ]


def _percent(entry: dict[str, float] | None, key: str = "held") -> str:
    return "–" if not entry or key not in entry else f"{100 * entry[key] / entry['n']:.0f}"


def _draws(summed: Totals, family: str, size: int | None = None) -> str:
    """How many draws each cell of a table has, and what chance leaves of a coverage of 95 %."""
    numbers = [
        int(entry["n"])
        for (kind, name, n, _), entry in summed.items()
        if kind == family and size in (None, n) and is_drawn(family, name, n)
    ]
    if not numbers:
        return "no draws yet"
    few, many = min(numbers), max(numbers)
    error = 100 * (0.95 * 0.05 / few) ** 0.5
    return f"{few if few == many else f'{few} to {many}'} draws (standard error up to {error:.1f} points)"


def tables(summed: Totals) -> str:
    """All tables as Markdown."""
    lines: list[str] = []
    for n in SIZES:
        number = _draws(summed, "metrics", n)
        lines += [f"Metrics, n = {n:,}, {number}: 95 % intervals that contain the true value, in %:", ""]
        names = [name for name in POPULATIONS if is_drawn("metrics", name, n)]
        rows = [(f"`{q}`", [_percent(summed.get(("metrics", name, n, q))) for name in names]) for q in QUANTITIES]
        lines += _grid("interval", names, rows)
    lines += [
        f"Two models, {_draws(summed, 'pairs')}: intervals that contain the true difference, and p ≤ 0.05, in %:",
        "",
    ]
    heads = [f"n = {n:,}{what}" for n in SIZES for what in (", contained", ", p ≤ 0.05")]
    rows = []
    for pair, (_, _, quantities) in PAIRS.items():
        for q in quantities:
            entries = [summed.get(("pairs", pair, n, q)) for n in SIZES]
            rows.append((f"{pair}, `{q}`", [_percent(e, key) for e in entries for key in ("held", "rejected")]))
            if q == "ece_hist":
                cells = [text for e in entries for text in ("–", _percent(e, "exchangeable"))]
                rows.append((f'{pair}, `{q}`, `test="exchangeable"`', cells))
    lines += _grid("pair", heads, rows)
    for family, title in (
        ("unknown", "Known and unknown samples, n each"),
        ("abstention", "Certificates of at most 10 % errors at 95 %"),
        ("studies", "Studies of equal methods that call no method worse"),
    ):
        simulation = SIMULATIONS[family]
        quantities = list(dict.fromkeys(c[3] for c in summed if c[0] == family))
        lines += [f"{title}, {_draws(summed, family)}, share that hold, in %:", ""]
        heads = [f"`{q}`, n = {n:,}" for q in quantities for n in simulation.sizes]
        rows = [
            (name, [_percent(summed.get((family, name, n, q))) for q in quantities for n in simulation.sizes])
            for name in simulation.names
        ]
        lines += _grid("population", heads, rows)
    return "\n".join(lines)


def table_of(summed: Totals, family: str, quantity: str) -> list[str]:
    """One quantity: populations against sizes."""
    simulation = SIMULATIONS[family]
    heads = [f"n = {n:,}" for n in simulation.sizes]
    rows = [
        (name, [_percent(summed.get((family, name, n, quantity))) for n in simulation.sizes])
        for name in simulation.names
        if any((family, name, n, quantity) in summed for n in simulation.sizes)
    ]
    return _grid(f"`{quantity}`", heads, rows)


def newest_tables(summed: Totals) -> str:
    """Those of errors and of other shapes."""
    lines = [f"Errors, {_draws(summed, 'errors')}: 95 % intervals that contain the true value, in %:", ""]
    for quantity in ERRORS:
        lines += table_of(summed, "errors", quantity)
    lines += [f"Other shapes than rows of classes, {_draws(summed, 'kinds')}, in %:", ""]
    rows = [
        (f"{name}, `{q}`", [_percent(summed.get(("kinds", name, n, q))) for n in ALL_SIZES])
        for name, shape in SHAPES.items()
        for q in shape.truths
    ]
    heads = [f"n = {n:,}" for n in ALL_SIZES]
    lines += _grid("shape", heads, rows)
    if not any(family == "groups" for family, *_ in summed):
        return "\n".join(lines)
    lines += [f"Simultaneous intervals of n rows of each group, {_draws(summed, 'groups')}, all hold in %:", ""]
    rows = [
        (f"{name}, `{q}`", [_percent(summed.get(("groups", name, n, q))) for n in ALL_SIZES])
        for name in GROUPS
        for q in GROUPED
    ]
    return "\n".join([*lines, *_grid("groups", heads, rows)])


START, END = "<!-- coverage: written by benchmarks/interval_coverage.py -->", "<!-- end of coverage -->"
NEWEST, NEWEST_END = "<!-- errors and kinds: written by benchmarks/interval_coverage.py -->", "<!-- end of errors -->"


def main() -> None:
    """Run, or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "table"))
    parser.add_argument("--results", type=Path, default=Path("coverage.jsonl"))
    parser.add_argument("--only", choices=tuple(SIMULATIONS))
    parser.add_argument("--draws", type=int, default=200, help="of each population and size")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no chunk after so long")
    parser.add_argument("--backwards", action="store_true", help="begin with the last chunk: for a second process")
    arguments = parser.parse_args()
    if arguments.command == "run":
        run(arguments.results, arguments.only, arguments.draws, arguments.seconds, arguments.backwards)
        return
    text, summed = DOCUMENT.read_text(), totals(arguments.results)
    families = {family for family, *_ in summed}
    for start, end, made, wanted in (
        (START, END, tables, families - {"errors", "kinds", "groups"}),
        (NEWEST, NEWEST_END, newest_tables, families & {"errors", "kinds", "groups"}),
    ):
        if wanted:
            text = f"{text.split(start)[0]}{start}\n{made(summed)}{end}{text.split(end)[1]}"
    DOCUMENT.write_text(text)
    print(f"Wrote {DOCUMENT}")


if __name__ == "__main__":
    main()
