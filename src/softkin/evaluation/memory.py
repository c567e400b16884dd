"""One model whose predictions fit in memory."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softkin import binning, checks, density
from softkin.evaluation import sentence
from softkin.evaluation.catalogue import ENTRIES, TOP, Settings, number, plain, within_one
from softkin.metrics import scopes, uncertainty
from softkin.metrics.statistics import Statistic
from softkin.metrics.uncertainty import Measured
from softkin.predictions import Predictions


def evaluate(
    predictions: Predictions,
    *,
    n_bins: int = 15,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    kde_interval: bool = False,
) -> dict[str, Any]:
    """All metrics of one model, each with its interval, and beside errors what a calibrated model would show.

    Args:
        predictions: With labels.
        n_bins: Of the histograms.
        confidence: The level of the intervals.
        resamples: How many resamples of the rows make an interval; the same rows for all metrics.
        seed: Of the resampling.
        kde_interval: Also an interval for the KDE ECE of the output, which takes longer than all others together.

    Returns:
        Plain data: ``metrics`` maps each name to ``value``, ``low``, ``high`` and, for errors, ``when_calibrated`` with
        the same three; ``kde_output`` has its ``floor``. ``verdict`` says it in words, ``reliability`` holds the bins.
    """
    settings = Settings(n_bins=n_bins, confidence=confidence, resamples=resamples, seed=seed, kde_interval=kde_interval)
    return measured(predictions, settings)


def measured(predictions: Predictions, settings: Settings) -> dict[str, Any]:
    """The same with its settings in one."""
    with half_of_the_threads():
        return _measured(predictions, settings)


@contextmanager
def half_of_the_threads() -> Iterator[None]:
    """Leave torch half of its threads for the while: ``measure`` has two threads of its own, which share them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(max(1, threads // 2))
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _measured(predictions: Predictions, settings: Settings) -> dict[str, Any]:
    checks.level(settings.confidence)
    p, y = scopes.checked(predictions.probabilities, predictions.known_labels)
    found = statistics(p, y, settings)
    ends = measure(found, settings)
    data = summary(ends, found, settings)
    data["kde_output"] |= {"floor": number(_floor(p, found["kde_output"]))}
    about = {
        "name": predictions.name,
        "num_samples": len(p),
        "num_classes": p.shape[1],
        "class_names": predictions.class_names,
        "digest": predictions.digest,
        "settings": asdict(settings) | {"resampled": "rows"},
    }
    return about | described(scopes.pool(p, y, "prediction"), ends, settings) | {"metrics": data}


def statistics(p: Tensor, y: Tensor, settings: Settings) -> dict[str, Statistic]:
    """Every metric that these predictions allow, ready to be resampled."""
    return {
        entry.key: entry.make(p, y, settings) for entry in ENTRIES if entry.key != "top_5_accuracy" or p.shape[1] > TOP
    }


def measure(found: dict[str, Statistic], settings: Settings) -> dict[str, Measured]:
    """Each metric with its interval, the KDE ECE of the output only if the settings ask for it.

    Two threads share them out: nearly all of the work is done outside of Python.
    """
    chosen = [key for key in found if settings.kde_interval or key != "kde_output"]
    # Scores that are all but equal have a kernel too narrow to resample: its value stays, without an interval.
    chosen = [key for key in chosen if getattr(getattr(found[key], "groups", found[key]), "resolvable", True)]
    parts = [[key for key in chosen if key in DEAR], [key for key in chosen if key not in DEAR]]

    def one(keys: list[str]) -> list[Measured]:
        statistics = [found[key] for key in keys]
        return uncertainty.measured(statistics, settings.confidence, settings.resamples, settings.seed)

    with ThreadPoolExecutor(len(parts)) as pool:
        results = list(pool.map(one, parts))
    return {key: ends for keys, own in zip(parts, results, strict=True) for key, ends in zip(keys, own, strict=True)}


DEAR = ("classwise_ece", "ece_output")


def summary(measured: dict[str, Measured], found: dict[str, Statistic], settings: Settings) -> dict[str, Any]:
    """The metrics as plain data, errors with what a calibrated model would show."""
    data = {}
    for entry in ENTRIES:
        if entry.key not in found:
            continue
        if entry.key not in measured:
            data[entry.key] = plain(found[entry.key].value())
            continue
        interval, redrawn = measured[entry.key]
        data[entry.key] = plain(within_one(entry.key, interval))
        if entry.error:
            if redrawn is None:
                redrawn = found[entry.key].redrawn(np.random.default_rng(settings.seed), DRAWS)
            data[entry.key]["when_calibrated"] = plain(uncertainty.chance(redrawn.cpu(), settings.confidence))
    return data


DRAWS = 200  # sets of labels where the interval needed none


def described(pool: scopes.Pool, measured: dict[str, Measured], settings: Settings) -> dict[str, Any]:
    """The winning scores' reliability in bins, and what it says in words."""
    cells = binning.curve(pool.scores, pool.hits, binning.equal_width(sentence.CELLS))
    bins = binning.curve(pool.scores, pool.hits, binning.equal_width(settings.n_bins))
    gap, ece = measured["signed_gap"].interval, measured["ece_prediction"].interval
    sums = {part: getattr(cells, part).tolist() for part in ("count", "score_sum", "hit_sum")}
    return {
        "verdict": sentence.verdict(gap, ece, sums),
        "reliability": {
            "edges": bins.edges.tolist(),
            "count": [round(count) for count in bins.count.tolist()],
            "mean_confidence": [number(value) for value in bins.confidence.tolist()],
            "share_right": [number(value) for value in bins.likelihood.tolist()],
        },
    }


def _floor(p: Tensor, kernel: Any) -> float:
    pool = kernel.pool
    floor = density.calibration_error(pool.scores, torch.empty(0), kernel.radius, kernel.boundary, weights=pool.scores)
    return floor * float(kernel.scale)
