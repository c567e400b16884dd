"""A binary model by the probability of its positive class: reliability, ROC, precision and recall, thresholds.

The winning class hides half of what a binary model says: 75 % and 37 % of a rare class look like 75 % and 63 % of
confidence. Pairs of a confidence and an outcome are the same, with "right" in the place of the positive class.
"""

import re
from collections.abc import Collection
from typing import Literal, TypedDict

import torch
from torch import Tensor

from softkin.decisions import select
from softkin.metrics.catalogue import METRICS
from softkin.metrics.measurement import Settings, measure
from softkin.metrics.scopes import Claims
from softkin.report import curves, data
from softkin.report.data import Positive

MOST_POINTS = 300  # of ROC and precision–recall: more than they have pixels
FALSE_ALARMS = (0.5, 0.2, 0.1, 0.05)
"""The shares of false alarms whose certified thresholds the page offers"""
STATED_BINS = 10  # for the headline: bins of ten points, as people round
LEAST_IN_BIN = 20  # samples of a bin that the headline may quote; the exact test decides whether they suffice
LEAST_GAP = 0.02
TAIL = 0.05


def name_of(name: str) -> str:
    """A class in a sentence: a number alone would read as one of the counts."""
    return f"class {name}" if re.fullmatch(r"[-+]?\d+(\.\d+)?", name) else name


def claims_of(p: Tensor, y: Tensor) -> Claims:
    """The claims about the positive class, the second one, of (N, 2) probabilities."""
    return Claims(p[:, 1:].contiguous(), (y == 1).to(torch.float64)[:, None], None, exclusive=False)


def build(claims: Claims, settings: Settings, confidence: float) -> Positive:
    """What the page shows of one set of claims about the positive class.

    Args:
        claims: One score per sample, and whether it is positive.
        settings: Bins, level and seed of the intervals.
        confidence: The confidence of the certified thresholds.
    """
    pool = claims.pool("prediction")
    scores, hits = pool.scores.to(torch.float64), pool.is_hit[:, 0] > 0.5
    selections = {rate: select(scores, hits, risk=rate, confidence=confidence) for rate in FALSE_ALARMS}
    keep = {found.chosen.answered for found in selections.values() if found.chosen is not None}
    keep.add(int((scores >= 0.5).sum()))  # the first screen says what a threshold of one half catches
    threshold, alarms, caught = points(scores, hits, keep=keep)
    error = measure(claims, [METRICS["ece_hist"]], settings)["ece_hist"].to_dict()
    total = int(hits.sum())
    return {
        "cells": curves.with_bins(pool, curves.of_pool(pool), settings.n_bins, settings.level, seed=settings.seed),
        "error": error,
        "threshold": data.floats(threshold),
        "alarms": alarms.tolist(),
        "caught": caught.tolist(),
        "auroc": _auroc(scores, hits) if 0 < total < len(hits) else None,
        "average_precision": _average_precision(scores, hits) if total else None,
        "certified": [{"target": rate, "rule": data.rule(found.chosen)} for rate, found in selections.items()],
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


def _p_value(hits: int, count: int, claimed: float) -> float:
    """Of the exact binomial test of a bin, two-sided; the headline chooses among bins, so each has its share of 5 %."""
    from scipy.special import bdtr, bdtrc

    above = bdtrc(hits - 1, count, claimed) if hits else 1.0
    return float(min(1.0, 2 * min(bdtr(hits, count, claimed), above)))


class Said(TypedDict):
    """The first screen's words."""

    kind: Literal["over", "under", "calibrated"]
    headline: str
    detail: str


def in_words(positive: Positive, name: str, num_samples: int) -> Said:
    """Kind, headline and detail: where the probability of the positive class is furthest from what happens.

    If low probabilities are too low and high ones too high, the model is too extreme; the reverse is too cautious.
    """
    curve = curves.of_cells(positive["cells"], STATED_BINS)
    share = float(curve.hit_sum.sum()) / num_samples
    expected = float(curve.score_sum.sum()) / num_samples
    off: dict[int, float] = {}
    for m in range(STATED_BINS):
        count, claimed, true = (float(part[m]) for part in (curve.count, curve.confidence, curve.likelihood))
        if count < LEAST_IN_BIN or abs(claimed - true) < LEAST_GAP:
            continue
        if _p_value(round(count * true), round(count), claimed) > TAIL / STATED_BINS:
            continue
        off[m] = count * (claimed - true)
    auroc = positive["auroc"]
    told = "" if auroc is None else f" It tells {name} from the rest in {100 * auroc:.1f} % of pairs (AUROC)."
    detail = f"It expects {100 * expected:.1f} % {name}, and {100 * share:.1f} % are.{told}"
    if not off:
        fine = f"What it says of {name} comes true, as far as {num_samples:,} samples show"
        return {"kind": "calibrated", "headline": fine, "detail": detail}
    said = {m: f"{100 * curve.confidence[m]:.0f} %, {100 * curve.likelihood[m]:.0f} %" for m in off}
    ends = [[m for m in off if (curve.confidence[m] >= 0.5) == high] for high in (False, True)]
    low, high = (max(end, key=lambda m: abs(off[m]), default=None) for end in ends)
    if low is not None and high is not None and (off[low] < 0) != (off[high] < 0):
        how, kind = ("extreme", "over") if off[low] < 0 else ("cautious", "under")
        headline = f"Too {how}: where it says {said[low]} are {name}, and where it says {said[high]}"
    else:
        worst = max(off, key=lambda m: abs(off[m]))
        kind = "over" if off[worst] > 0 else "under"
        headline = f"Where it says {said[worst]} are {name}"
    return {"kind": kind, "headline": headline, "detail": detail}  # type: ignore[typeddict-item]
