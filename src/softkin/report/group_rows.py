"""Groups of rows, as the page of one model shows them: how right and how sure each is, and where it may answer."""

from typing import Any

import torch

from softkin._io.files import from_number
from softkin.decisions.thresholds import Threshold
from softkin.evaluation.results import GroupsData
from softkin.metrics import binning
from softkin.metrics.scopes import Claims
from softkin.predictions import Predictions
from softkin.report.data import GroupShown, GroupsShown, Rule, rule

BINS = 15


def shown(measured: GroupsData, predictions: Predictions) -> GroupsShown | None:
    """The groups with their numbers, the largest gap first; None where a group has no accuracy, as of votes."""
    assert predictions.groups is not None
    member: dict[str, list[int]] = {}
    for place, name in enumerate(predictions.groups):
        member.setdefault(name, []).append(place)
    claims = predictions.claims
    if claims.exclusive and claims.num_classes == 2:  # the winning class hides half of what a binary model says
        claims = claims.of_class_1()
    rows: list[GroupShown] = []
    for group in measured["groups"]:
        known = group["metrics"]
        if any("absent" in known[key] for key in ("accuracy", "signed_gap", "ece_hist")):
            return None
        right, gap = (from_number(known[key]["value"]) for key in ("accuracy", "signed_gap"))
        auroc = known.get("confidence_auroc")
        row: GroupShown = {
            "name": group["name"],
            "num_samples": group["num_samples"],
            "right": right,
            "sure": right + gap,
            "gap": known["signed_gap"],
            "error": known["ece_hist"],
            "auroc": None if auroc is None or "absent" in auroc else auroc,
            "bins": bins_of(claims.take(torch.tensor(member[group["name"]]))),
        }
        if "threshold" in group:
            found = group["threshold"]
            row["threshold"] = {
                "risk": found["risk"],
                "confidence": found["confidence"],
                "chosen": _rule(found["chosen"]),
                "observed": _rule(found["observed"]),
            }
        rows.append(row)
    return {
        "column": measured["column"],
        "level": measured["level"],
        "rows": sorted(rows, key=lambda row: -abs(row["sure"] - row["right"])),
        "gaps_differ": measured["differ"].get("signed_gap"),
        "curves_differ": measured["curves_differ"],
    }


def bins_of(claims: Claims) -> list[list[float]]:
    """The reliability of the answers, or of the positive class, in 15 bins; empty ones are left out."""
    pool = claims.pool("prediction")
    curve = binning.curve(pool.scores, pool.hits, binning.equal_width(BINS))
    sums = zip(curve.count.tolist(), curve.score_sum.tolist(), curve.hit_sum.tolist(), strict=True)
    return [[m, round(count), round(score, 6), round(hit)] for m, (count, score, hit) in enumerate(sums) if count]


def _rule(found: dict[str, Any] | None) -> Rule | None:
    return None if found is None else rule(Threshold(**found))
