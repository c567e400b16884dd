"""The evaluation of one model whose predictions fit in memory."""

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softkin._core import checks
from softkin._io.files import number
from softkin.evaluation import ood, sentence
from softkin.evaluation.settings import Settings, plain
from softkin.metrics import binning, catalogue, resampling, scopes
from softkin.metrics.catalogue import METRICS
from softkin.metrics.resampling import Measured
from softkin.metrics.statistics import Statistic
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
    """All metrics of one model, each with its interval, and for errors the value that a calibrated model would have.

    Args:
        predictions: Predictions with labels.
        n_bins: The number of bins of each histogram.
        confidence: The level of the intervals.
        resamples: The number of resamples of the rows for an interval; all metrics share them.
        seed: The seed of the resampling.
        kde_interval: Also compute the interval of the KDE ECE of the output, which takes longer than all others.

    Returns:
        Plain data: ``metrics`` maps each key to ``value``, ``low``, ``high`` and, for errors, ``when_calibrated`` with
        the same three; ``ece_kde_output`` has its ``floor``. Where a number is missing, ``no_interval`` or ``absent``
        says why; ``caveat`` warns about a value's meaning. ``verdict`` puts the result in words, and ``reliability``
        holds the bins.
    """
    settings = Settings(n_bins=n_bins, confidence=confidence, resamples=resamples, seed=seed, kde_interval=kde_interval)
    return measured(predictions, settings)


def measured(predictions: Predictions, settings: Settings) -> dict[str, Any]:
    """Like ``evaluate``, with all options in one ``Settings``."""
    checks.level(settings.confidence)
    p, y = scopes.checked(predictions.probabilities, predictions.known_labels)
    made = statistics(p, y, settings)
    ends = measure(made, settings)
    about = {
        "name": predictions.name,
        "num_samples": len(p),
        "num_classes": p.shape[1],
        "class_names": predictions.class_names,
        "digest": predictions.digest,
        "settings": asdict(settings) | {"resampled": "rows"},
    }
    disagreement = ood.spread(predictions)
    if disagreement is not None:
        about["mutual_information"] = disagreement
    words = described(scopes.pool(p, y, "prediction"), ends, settings)
    return about | words | {"metrics": summary(made, ends, settings)}


_lock, _blocks = threading.Lock(), [0, 0]  # the number of open blocks, and torch's thread count before


@contextmanager
def halved_threads() -> Iterator[None]:
    """Halve torch's thread count inside the block, once, however many such blocks are open."""
    with _lock:
        if _blocks[0] == 0:
            _blocks[1] = torch.get_num_threads()
            torch.set_num_threads(max(1, _blocks[1] // 2))
        _blocks[0] += 1
    try:
        yield
    finally:
        with _lock:
            _blocks[0] -= 1
            if _blocks[0] == 0:
                torch.set_num_threads(_blocks[1])


def statistics(p: Tensor, y: Tensor, settings: Settings) -> dict[str, Statistic]:
    """Every metric that these predictions allow, as a statistic that can be resampled."""
    return {
        metric.key: metric.statistic(p, y, **metric.with_bins(settings.n_bins))
        for metric in catalogue.shown("evaluate", p.shape[1])
    }


def measure(made: Mapping[str, Statistic], settings: Settings) -> dict[str, Measured]:
    """Each metric with its interval; slow ones only if the settings request them.

    Two threads divide the metrics, and torch's threads, between them: nearly all work is done outside of Python.
    """
    chosen = {key: statistic for key, statistic in made.items() if no_interval(key, statistic, settings) is None}
    many = {key for key, statistic in chosen.items() if getattr(statistic, "columns", 1) > 1}
    parts = [[key for key in chosen if key in many], [key for key in chosen if key not in many]]

    def of_part(keys: list[str]) -> list[Measured]:
        own = [chosen[key] for key in keys]
        return resampling.measured(own, settings.confidence, settings.resamples, settings.seed)

    with halved_threads(), ThreadPoolExecutor(len(parts)) as pool:
        results = list(pool.map(of_part, parts))
    return {key: ends for keys, own in zip(parts, results, strict=True) for key, ends in zip(keys, own, strict=True)}


def no_interval(key: str, statistic: Statistic, settings: Settings) -> str | None:
    """Why a metric gets no interval; None if it gets one."""
    if METRICS[key].interval == "asked" and not settings.kde_interval:
        return "it takes longer than all others together; --kde-interval (kde_interval=True) requests it"
    numbers = getattr(statistic, "width", 1) * settings.resamples
    if statistic.no_resampling is None and numbers > MOST_RESAMPLED:
        return f"its resamples would take {8 * numbers / 2**30:.1f} GB, a few times over; fewer --resamples take less"
    return statistic.no_resampling


MOST_RESAMPLED = 2**27
"""The maximum of numbers in all resamples of one metric: 1 GB of float64, and up to three times that at the peak"""


def summary(made: Mapping[str, Statistic], ends: Mapping[str, Measured], settings: Settings) -> dict[str, Any]:
    """The metrics as plain data; errors include the value that a calibrated model would have."""
    data: dict[str, Any] = {}
    for key, statistic in made.items():
        metric = METRICS[key]
        if key in ends:
            interval, redrawn = ends[key]
            data[key] = plain(interval)
            if metric.chance:
                if redrawn is None:
                    redrawn = statistic.redrawn(np.random.default_rng(settings.seed), DRAWS)
                data[key]["when_calibrated"] = plain(resampling.chance(redrawn.cpu(), settings.confidence))
        else:
            data[key] = plain(statistic.value()) | {"no_interval": no_interval(key, statistic, settings)}
        if metric.floor:
            data[key]["floor"] = number(statistic.floor())
        caveat = statistic.caveat()
        if caveat is not None:
            data[key]["caveat"] = caveat
    return data


DRAWS = 200  # sets of redrawn labels, if the interval needed none


def described(pool: scopes.Pool, ends: Mapping[str, Measured], settings: Settings) -> dict[str, Any]:
    """The reliability of the winning scores in bins, and the verdict in words."""
    bins = binning.curve(pool.scores, pool.hits, binning.equal_width(settings.n_bins))
    gap, ece = ends["signed_gap"].interval, ends["ece_hist"].interval
    return {
        "verdict": sentence.verdict(gap, ece, sentence.cells(pool)),
        "reliability": {
            "edges": bins.edges.tolist(),
            "count": [round(count) for count in bins.count.tolist()],
            "mean_confidence": [number(value) for value in bins.confidence.tolist()],
            "share_right": [number(value) for value in bins.likelihood.tolist()],
        },
    }
