"""Several labels per sample, each a yes or no of its own → the page of a comparison, with labels instead of models."""

import math
from collections.abc import Mapping
from typing import Any

from softkin._io.files import from_number, number
from softkin.evaluation.results import VISIBLE, Evaluation, GroupData
from softkin.metrics.catalogue import METRICS
from softkin.metrics.measurement import MeasuredData
from softkin.metrics.scopes import Claims
from softkin.report.data import CellData, Choice, ComparisonPage, Overview, OverviewRow, TableRow
from softkin.report.overview import in_words, percent
from softkin.report.side_by_side import column_data, page, pooled_claims

TOGETHER, MEAN = "together", "mean"
COLUMNS = ("nll", "brier", "ece_hist", "signed_gap", "confidence_auroc")


def build_labels(evaluated: Evaluation, claims: Claims) -> ComparisonPage:
    """Everything that the page of several labels per sample shows.

    Args:
        evaluated: The evaluation of the claims, which has each label as a group.
        claims: (N, L) scores, and whether each label holds.

    Returns:
        Plain data for ``report.write``, of the same form as ``build_comparison``'s.
    """
    groups = evaluated["groups"]["groups"]
    keys = [f"l{place}" for place in range(len(groups))]
    each = [
        Claims(claims.probabilities[:, [k]], claims.labels[:, [k]], claims.weights, exclusive=False)
        for k in range(len(groups))
    ]
    rows = {key: _row(key, group, own) for key, group, own in zip(keys, groups, each, strict=True)}
    names = {key: _display(group["name"]) for key, group in zip(keys, groups, strict=True)}
    order = sorted(rows.values(), key=lambda row: -row["error"])
    columns = [METRICS[key] for key in COLUMNS if "absent" not in groups[0]["metrics"].get(key, {"absent": ""})]
    table: list[TableRow] = [
        _line(TOGETHER, {one.key: evaluated["metrics"][one.key] for one in columns}),
        _line(MEAN, {one.key: {"value": _mean(groups, one.key)} for one in columns}),
    ]
    table += [
        _line(key, {one.key: group["metrics"][one.key] for one in columns})
        for key, group in sorted(zip(keys, groups, strict=True), key=lambda pair: order.index(rows[pair[0]]))
    ]
    level = 100 * evaluated["groups"]["level"]
    return page(
        {
            "name": evaluated["name"] or "Several labels",
            "subject": "labels",
            "notes": [
                f"Below each value is its {level:g} % interval; those of the labels hold together. In brackets: the "
                "value that a perfectly calibrated model would have with as many samples.",
                "All together counts every label of every sample alike (micro), the mean every label (macro).",
            ],
            "num_samples": evaluated["num_samples"],
            "num_classes": len(groups),
            "class_names": list(names.values()),
            "methods": [
                {"key": TOGETHER, "name": "all together (micro)"},
                {"key": MEAN, "name": "mean of the labels (macro)"},
                *({"key": key, "name": name} for key, name in names.items()),
            ],
            "overview": _overview(evaluated, order, names),
            "table": {"columns": [column_data(one, single=True) for one in columns], "rows": table},
            "curves": {
                TOGETHER: pooled_claims([claims]),
                **{key: pooled_claims([own]) for key, own in zip(keys, each, strict=True)},
            },
        }
    )


def _display(name: str) -> str:
    """A label's name; a bare number reads as a count."""
    return f"label {name}" if name.isdecimal() else name


def _row(key: str, group: GroupData, claims: Claims) -> OverviewRow:
    """How often a label holds, and how sure the model is of it on average."""
    known = group["metrics"]
    error, gap = known["ece_hist"], known["signed_gap"]
    low, high = (from_number(gap[end]) for end in ("low", "high"))
    pool = claims.pool("prediction")
    auroc = known.get("confidence_auroc", {"value": None})
    return {
        "method": key,
        "right": float(pool.is_hit.double().mean()),
        "sure": float(pool.scores.double().mean()),
        "kind": "over" if low > 0 else "under" if high < 0 else "fine",
        "error": from_number(error["value"]),
        "dots": [],
        "low": error.get("low"),
        "high": error.get("high"),
        "chance": from_number(error["when_calibrated"]["value"]) if "when_calibrated" in error else None,
        "nll": known["nll"]["value"],
        "cost": "–" if auroc["value"] is None else f"{from_number(auroc['value']):.3f}",
    }


def _line(key: str, measured: Mapping[str, Any]) -> TableRow:
    cells: dict[str, CellData] = {}
    for metric, one in measured.items():
        own: MeasuredData = one
        cells[metric] = {
            **own, "std": None, "n": 1, "values": [own["value"]], "best": False, "tie": False, "p_value": None,
            "against": {},
        }  # fmt: skip
    return {"method": key, "cells": cells, "chosen": None, "target": None}


def _mean(groups: list[GroupData], key: str) -> Any:
    values = [from_number(group["metrics"][key]["value"]) for group in groups]
    known = [value for value in values if not math.isnan(value)]
    return number(sum(known) / len(known)) if known else None


def _overview(evaluated: Evaluation, order: list[OverviewRow], names: Mapping[str, str]) -> Overview:
    """The label that is furthest off, and how many are off beyond chance."""
    worst, count = order[0], len(order)
    off = [row for row in order if row["chance"] is not None and from_number(row.get("low", 0.0)) > 0]
    whole = evaluated["metrics"]["ece_hist"]
    name = names[worst["method"]]
    both = f"{percent(worst['error'])} (chance alone: {percent(worst['chance'] or 0.0)})"
    macro = evaluated["metrics"].get("macro_auroc")
    told = "" if macro is None or "absent" in macro else f", mean AUROC {from_number(macro['value']):.3f}"
    mean = percent(sum(row["error"] for row in order) / count)
    detail = (
        f"Its calibration error is {both}. All labels together: {percent(from_number(whole['value']))}; mean of the "
        f"labels {mean}{told}. "
    )
    if off:
        many = f"all {count} labels" if len(off) == count > 1 else f"{len(off)} of {count} labels"
        headline = f"The probabilities of {many} are off, most of all {name}"
        detail += f"{name} is said with {percent(worst['sure'])} on average, and true in {percent(worst['right'])}."
    else:
        headline = f"No sign that any of the {count} labels is wrong about its probability"
    choices: list[Choice] = []
    if off:
        gap = worst["sure"] - worst["right"]
        how = "They are right on average, but not score by score"
        if abs(gap) >= VISIBLE:
            how = f"They are {in_words(abs(gap))} too {'high' if gap > 0 else 'low'} on average"
        choices = [
            {"kind": "recommended", "title": "Calibrate each label on its own",
             "text": "calibrators.PerLabel(\"platt\") fits one calibrator to each label, on other samples.",
             "code": None},
            {"kind": "avoid", "title": f"Furthest off: {name}", "text": f"{how}: error {both}.",
             "code": None},
        ]  # fmt: skip
    kind = order[0]["kind"] if off else "fine"
    return {
        "headline": headline,
        "kind": kind,
        "detail": detail.strip(),
        "groups": [{"title": "The largest error first", "rows": order}],
        "choices": choices,
        "chosen": None,
        "baseline": TOGETHER,
        "words": {
            "right": "true",
            "sure": "said",
            "note": "For each label: ● the share of samples for which it is true, | the mean score.",
            "rows": None,
            "positive": "the label",
        },
    }
