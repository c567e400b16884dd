"""Several models on the same samples → the data of one page: a table, paired differences, classes, agreement."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import bdtr
from torch import Tensor

from softkin import evaluation
from softkin._core import checks
from softkin._core.names import short_names
from softkin._io.files import from_number
from softkin.evaluation import in_memory
from softkin.evaluation.comparison import Scaled, after_temperature, aligned, resamples_for
from softkin.evaluation.results import Compared, Evaluation, doubted
from softkin.metrics import catalogue
from softkin.metrics.measurement import MeasuredData, Settings
from softkin.predictions import Predictions
from softkin.report.data import Agreement, CellData, ClassesOfModels, ComparisonPage, Curves, TableRow
from softkin.report.model import check_evaluated
from softkin.report.overview import of_models
from softkin.report.side_by_side import column_data, page, pooled, pooled_claims

MOST = 20
"""The maximum number of models on one page, limited by distinguishable colours, dashes and markers"""


def build_models(
    models: Sequence[Predictions],
    *,
    name: str | None = None,
    n_bins: int = 15,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    comparisons: Sequence[Compared] | None = None,
    evaluated: Sequence[Evaluation] | None = None,
    scaled: Scaled | None = None,
    population: int | None = None,
) -> ComparisonPage:
    """Everything that the page of several models shows; docs/report.md describes each field.

    Args:
        models: 2 to 20 predictions with labels, of the same samples. Their ids bring them into one order.
        name: The page's title.
        n_bins: The number of bins of the histograms.
        confidence: The level of all intervals.
        resamples: The number of resamples for an interval.
        seed: The seed of the resampling.
        comparisons: The result of ``evaluation.compare`` for these models, if the caller has it already.
        evaluated: The result of ``evaluation.evaluate`` for each of them, with the same settings, if the caller has
            them already. The page shows their numbers.
        scaled: The result of ``evaluation.comparison.after_temperature`` for them, if the caller has it already.
        population: How many samples there are, if these are some of them, drawn at random.

    Returns:
        Plain data for ``report.write``, of the same form as ``build_comparison``'s.
    """
    if not 2 <= len(models) <= MOST:
        raise ValueError(f"`models` must be 2 to {MOST} for one page, got {len(models)}.")
    if any(model.votes is not None or model.weights is not None for model in models):
        raise ValueError("a page of several files shows no votes and weights yet; --details prints each.")
    pairs_alone = models[0].are_pairs
    if any(model.are_pairs != pairs_alone for model in models):
        raise ValueError("a page shows pairs of a confidence and an outcome, or models with classes, not both.")
    level = checks.level(confidence)
    first, *others = models
    in_order = [first, *(aligned(first, other) for other in others)]
    titles = _titles(models)
    settings = Settings(n_bins, level, resamples, seed)
    if comparisons is None:
        comparisons = evaluation.compare(models, n_bins=n_bins, confidence=level, resamples=resamples, seed=seed)
    if scaled is None:
        scaled = after_temperature(models, n_bins=n_bins, confidence=level, resamples=resamples, seed=seed)
    if evaluated is None:
        evaluated = [in_memory.evaluated(model, settings) for model in models]
    for model, known in zip(models, evaluated, strict=True):
        check_evaluated(known, model, settings)
    keys = [f"m{place}" for place in range(len(models))]
    pairs = _pairs(comparisons, keys)
    columns = [
        metric
        for metric in catalogue.shown("evaluate", evaluated[0]["num_classes"])
        if {"compare", "table", "wide"} & metric.shown
        and all("absent" not in known["metrics"][metric.key] for known in evaluated)
    ]
    rows: list[TableRow] = [{"method": key, "cells": {}, "chosen": None, "target": None} for key in keys]
    for metric in columns:
        measured = [row["metrics"][metric.key] for row in evaluated]
        for row, cell in zip(rows, _marked(metric, measured, pairs, keys), strict=True):
            row["cells"][metric.key] = cell
    shorts = short_names(titles)
    handed_on = Scaled(scaled.probabilities, _pairs(scaled.pairs, keys))
    overview = of_models(keys, shorts, in_order, evaluated, pairs, handed_on, n_bins=n_bins, seed=seed)
    y = first.known_labels
    answers = torch.stack([model.probabilities.argmax(dim=1) for model in in_order])
    content: dict[str, Any] = {
        "name": name or f"{len(models)} models compared",
        "subject": "models",
        "sampled": None if population is None else {"rows": len(first), "of": population},
        "notes": _notes(settings, len(models)),
        "num_samples": len(first),
        "num_classes": evaluated[0]["num_classes"],
        "class_names": next((model.class_names for model in models if model.class_names and not pairs_alone), None),
        "methods": [{"key": key, "name": title} for key, title in zip(keys, titles, strict=True)],
        "overview": overview,
        "table": {
            "columns": [column_data(metric, single=pairs_alone) for metric in columns],
            "rows": sorted(rows, key=lambda row: from_number(row["cells"]["nll"]["value"])),
        },
        "curves": {key: _curves(model) for key, model in zip(keys, in_order, strict=True)},
        "verdicts": {key: doubted(row) for key, row in zip(keys, evaluated, strict=True)},
        "pairs": pairs,
    }
    if not pairs_alone:
        content |= {
            "classes": _classes(answers, y, first.num_classes, keys, 1 - level),
            "agreement": _agreement(answers, y),
        }
    return page(content)


def _curves(model: Predictions) -> Curves:
    """The reliability of answers and output; of a binary model, that of the probability of the positive class."""
    if model.are_pairs:
        return pooled_claims([model.claims])
    if model.num_classes != 2:
        return pooled([model])
    return pooled_claims([model.claims.of_class_1()])


def _titles(models: Sequence[Predictions]) -> list[str]:
    names = [model.name or f"model {place}" for place, model in enumerate(models, start=1)]
    return [name if names.count(name) == 1 else f"{name} ({place})" for place, name in enumerate(names, start=1)]


def _pairs(comparisons: Sequence[Compared], keys: Sequence[str]) -> list[Compared]:
    """The comparisons with keys instead of names, in the order in which ``evaluation.compare`` makes them."""
    places = [(a, b) for place, a in enumerate(keys) for b in keys[place + 1 :]]
    pairs: list[Compared] = []
    for place, line in enumerate(comparisons):
        a, b = places[place % len(places)]
        pairs.append({**line, "a": a, "b": b})
    return pairs


def _marked(
    metric: catalogue.Metric,
    measured: Sequence[MeasuredData],
    pairs: Sequence[Compared],
    keys: Sequence[str],
) -> list[CellData]:
    """The cells of a column, with the best marked, and those that are not significantly worse."""
    cells: list[CellData] = [
        {
            **cell,
            "std": None,
            "n": 1,
            "values": [cell["value"]],
            "best": False,
            "tie": False,
            "p_value": None,
            "against": {},
        }
        for cell in measured
    ]
    own = {frozenset((pair["a"], pair["b"])): pair for pair in pairs if pair["metric"] == metric.key}
    ranked = [
        place for place, cell in enumerate(measured) if isinstance(cell["value"], int | float) and "caveat" not in cell
    ]
    if metric.larger_is_better is None or not own or len(ranked) < 2:
        return cells
    best = min(ranked, key=lambda place: metric.cost(from_number(measured[place]["value"])))
    cells[best]["best"] = True
    for place in ranked:
        if place != best:
            pair = own[frozenset((keys[place], keys[best]))]
            cells[place].update({"p_value": pair["p_value"], "tie": not pair["significant"]})
    return cells


def _classes(answers: Tensor, y: Tensor, num_classes: int, keys: Sequence[str], tail: float) -> ClassesOfModels:
    """For each class, how many samples each model gets right, which model leads, and whether that is beyond chance.

    McNemar's exact test compares the best model with each other one on the samples of the class. The largest of these
    p-values must be significant after Holm's correction for the number of classes.
    """
    hits = answers == y
    size = torch.bincount(y, minlength=num_classes)
    right = torch.stack([torch.bincount(y[hit], minlength=num_classes) for hit in hits])  # (M, K)
    best = right.argmax(dim=0)
    ahead = hits[best[y], torch.arange(len(y))]  # whether the best model of a sample's class gets the sample right
    p_values = np.zeros(num_classes)
    for model, hit in enumerate(hits):
        gains = torch.bincount(y[ahead & ~hit], minlength=num_classes).numpy()
        losses = torch.bincount(y[~ahead & hit], minlength=num_classes).numpy()
        p = np.minimum(1.0, 2 * bdtr(np.minimum(gains, losses), gains + losses, 0.5))
        p_values = np.where(best.numpy() == model, p_values, np.maximum(p_values, p))
    level = (right == right.max(dim=0).values).sum(dim=0) > 1
    return {
        "size": size.tolist(),
        "right": {key: line.tolist() for key, line in zip(keys, right, strict=True)},
        "best": [None if tied or not n else int(place) for place, tied, n in
                 zip(best.tolist(), level.tolist(), size.tolist(), strict=True)],
        "beyond_chance": [bool(holds) and not tied for holds, tied in
                          zip(_holm(p_values, tail), level.tolist(), strict=True)],
    }  # fmt: skip


def _holm(p_values: NDArray[np.float64], tail: float) -> list[bool]:
    holds, results = True, [False] * len(p_values)
    for rank, place in enumerate(np.argsort(p_values, kind="stable")):
        holds = holds and bool(p_values[place] * (len(p_values) - rank) <= tail)
        results[int(place)] = holds
    return results


def _agreement(answers: Tensor, y: Tensor) -> Agreement:
    """For every two models, the share of samples with the same answer, and with the same wrong answer."""
    n = len(y)
    wrong = answers != y
    same = [[float((a == b).sum()) / n for b in answers] for a in answers]
    together = [[float(((a == b) & lost).sum()) / n for b in answers] for a, lost in zip(answers, wrong, strict=True)]
    return {"same": same, "same_mistake": together, "all_right": float((~wrong).all(dim=0).sum()) / n,
            "all_wrong": float(wrong.all(dim=0).sum()) / n}  # fmt: skip


def _notes(settings: Settings, count: int) -> list[str]:
    pairs = f"{count * (count - 1) // 2} paired comparison{'s' if count > 2 else ''} per metric"
    return [
        f"Below each value is its {100 * settings.level:g} % interval from {settings.resamples:,} resamples "
        "of whole samples, and in brackets the value that a perfectly calibrated model would have with as many "
        "samples.",
        f"Bold: best. ○: worse than the best by more than sampling noise explains, on the same samples ({pairs}, from "
        f"{resamples_for(count, settings):,} resamples; Holm's rule). After T: cross-fitted temperature scaling.",
    ]
