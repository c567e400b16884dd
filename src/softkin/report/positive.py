"""What the page draws of a binary model's positive class: reliability, ROC, precision and recall, thresholds.

``evaluation.positive`` has the verdict. Pairs of a confidence and an outcome are the same, with "right" in the place of
the positive class.
"""

from collections.abc import Collection

import torch
from torch import Tensor

from softkin.metrics.measurement import MeasuredData, Settings
from softkin.metrics.scopes import Claims
from softkin.report import curves, data
from softkin.report.data import Positive

MOST_POINTS = 300  # of ROC and precision–recall: more than they have pixels
FALSE_ALARMS = (0.5, 0.2, 0.1, 0.05)
"""The shares of false alarms whose certified thresholds the page offers beside the least that one keeps"""


def build(claims: Claims, error: MeasuredData, settings: Settings, confidence: float) -> Positive:
    """What the page shows of one set of claims about the positive class.

    Args:
        claims: One score per sample, and whether it is positive.
        error: The calibration error of these scores.
        settings: Bins, level and seed of the intervals.
        confidence: The confidence of the certified thresholds.
    """
    pool = claims.pool("prediction")
    scores, hits = pool.scores.to(torch.float64), pool.is_hit[:, 0] > 0.5
    certified = data.certified(scores, hits, FALSE_ALARMS, confidence)
    keep = {one["rule"]["answered"] for one in certified if one["rule"] is not None}
    keep.add(int((scores >= 0.5).sum()))  # the first screen says what a threshold of one half catches
    threshold, alarms, caught = points(scores, hits, keep=keep)
    total = int(hits.sum())
    return {
        "cells": curves.with_bins(pool, curves.of_pool(pool), settings.n_bins, settings.level, seed=settings.seed),
        "error": error,
        "threshold": data.floats(threshold),
        "alarms": alarms.tolist(),
        "caught": caught.tolist(),
        "auroc": _auroc(scores, hits) if 0 < total < len(hits) else None,
        "average_precision": _average_precision(scores, hits) if total else None,
        "certified": certified,
    }


def counted(scores: Tensor, hits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(thresholds, alarms, caught): for each score that occurs, how many have at least it, and how many of them hit."""
    order = scores.argsort(descending=True, stable=True)
    ordered = scores[order]
    last = torch.ones(len(ordered), dtype=torch.bool)
    last[:-1] = ordered[:-1] != ordered[1:]
    caught = hits[order].to(torch.int64).cumsum(0)[last]
    return ordered[last], last.nonzero()[:, 0] + 1, caught


def points(scores: Tensor, hits: Tensor, *, keep: Collection[int] = ()) -> tuple[Tensor, Tensor, Tensor]:
    """At most ``MOST_POINTS`` of ``counted``, spread over the alarms and over the positives; those of ``keep`` stay."""
    thresholds, alarms, caught = counted(scores, hits)
    if len(thresholds) <= MOST_POINTS:
        return thresholds, alarms, caught
    chosen = [torch.tensor([0, len(alarms) - 1])]
    for counts, most in ((alarms, len(scores)), (caught, int(hits.sum())), (alarms - caught, int((~hits).sum()))):
        wanted = torch.linspace(0, most, MOST_POINTS // 3)
        chosen.append(torch.searchsorted(counts.contiguous(), wanted.to(counts.dtype)).clamp_(max=len(counts) - 1))
    chosen.append(torch.isin(alarms, torch.tensor(sorted(keep), dtype=alarms.dtype)).nonzero()[:, 0])
    places = torch.unique(torch.cat(chosen))
    return thresholds[places], alarms[places], caught[places]


def _auroc(scores: Tensor, hits: Tensor) -> float:
    """How often a positive scores above a negative; half for ties."""
    _, alarms, caught = counted(scores, hits)
    true = torch.cat([torch.zeros(1), caught.to(torch.float64)]) / hits.sum()
    false = torch.cat([torch.zeros(1), (alarms - caught).to(torch.float64)]) / (~hits).sum()
    return float(torch.trapezoid(true, false))


def _average_precision(scores: Tensor, hits: Tensor) -> float:
    """The mean precision over the positives, from the highest score to the lowest, as scikit-learn defines it."""
    _, alarms, caught = counted(scores, hits)
    gained = torch.diff(caught, prepend=torch.zeros(1, dtype=caught.dtype)).to(torch.float64)
    return float((gained * caught / alarms).sum() / hits.sum())
