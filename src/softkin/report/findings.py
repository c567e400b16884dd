"""Pages of what commands find: calibrators, decision rules, sources of similarity, limits, and a log that is watched.

Each takes the plain data that the command's ``--json`` prints, and has one form: a sentence, a picture of one measure
with intervals, and the table of all.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from softkin import __version__
from softkin._io.files import from_number, number
from softkin.evaluation import calibrations, deciding, monitoring
from softkin.evaluation.results import CalibratorLine, ComparedCalibrators, ComparedRules, HeldOut, RuleLine
from softkin.metrics.catalogue import METRICS
from softkin.metrics.catalogue import shown as shown_metrics
from softkin.metrics.measurement import MeasuredData
from softkin.report import data
from softkin.report.data import (
    Column,
    MonitorPage,
    Page,
    ReferenceLine,
    ResultCell,
    ResultRow,
    ResultsPage,
    WindowShown,
)
from softkin.report.side_by_side import column_data

RULES = {
    "coverage": ("Covered", True, True),
    "worst_class": ("Worst class covered", True, True),
    "worst_group": ("Worst group covered", True, True),
    "size": ("Classes in a set", False, False),
    "superclasses": ("Superclasses in a set", False, False),
    "answered": ("Answered", True, True),
    "error": ("Wrong", True, False),
    "information": ("Information, bits", False, True),
    "cost": ("Cost", False, False),
}
"""The measures of a rule: title, whether a share, whether more is better"""


def of_calibrators(result: ComparedCalibrators) -> ResultsPage:
    """The page of ``softkin calibrate compare``."""
    lines = [line for line in result["methods"] if "metrics" in line]
    metric = METRICS[result["metric"]]
    columns = [each for each in shown_metrics("compare") if any(each.key in line["metrics"] for line in lines)]
    rows = [_row(line["method"], line["metrics"], line["code"] or "as it is") for line in lines]
    alike = {result["winner"], *result["level"]}
    for row in rows:
        name = row["name"]
        row["mark"] = "best" if name == result["recommended"] else None if name in alike else "worse"
    before = next((line for line in lines if line["method"] == calibrations.UNCALIBRATED), None)
    first = next(line for line in lines if line["method"] == result["recommended"])
    headline, detail = calibrations.headline(result), ""
    if first is not before and before is not None:
        nll, ece = (
            [from_number(line["metrics"][key]["value"]) for line in (before, first)] for key in ("nll", "ece_hist")
        )
        says = [f"Calibration error {100 * ece[0]:.1f} → {100 * ece[1]:.1f} %"]
        if not (headline.startswith("Use ") and metric.key == "nll"):
            says.append("NLL " + " → ".join("∞" if math.isinf(value) else f"{value:.3f}" for value in nll))
        reason = calibrations.why(result)
        detail = f"{', '.join(says)}. {f'{reason} ' if reason else ''}"
        detail += "Chosen on the test samples, so expect a little less. "
    charted = [
        key for key in dict.fromkeys((result["metric"], "ece_hist")) if any(key in line["metrics"] for line in lines)
    ]
    return _page(
        result,
        name="Calibrators compared",
        subject="calibrators",
        headline=headline,
        detail=detail + _fitted(result),
        columns=[column_data(each) for each in columns],
        rows=rows,
        chart=charted,
        lines={key: _as_it_is(before, key) for key in charted if before is not None and _is_finite(before, key)},
        failed=[(line["method"], line["failed"]) for line in result["methods"] if "failed" in line],
    )


def _is_finite(line: CalibratorLine, key: str) -> bool:
    return key in line["metrics"] and math.isfinite(from_number(line["metrics"][key]["value"]))


def _as_it_is(before: CalibratorLine, key: str) -> ReferenceLine:
    """A line at the value without a calibrator: beyond it, a calibrator makes things worse."""
    return {"value": from_number(before["metrics"][key]["value"]), "title": "uncalibrated"}


PROMISES = {"error": "abstaining: at most", "coverage": "sets: at least"}


def of_rules(result: ComparedRules) -> ResultsPage:
    """The page of ``softkin decide compare``."""
    lines = [line for line in result["rules"] if "measures" in line]
    keys = [key for key in RULES if any(key in line["measures"] for line in lines)]
    keys += sorted({key for line in lines for key in line["measures"] if key.startswith("cost ")})
    columns: list[Column] = []
    for key in keys:
        title, percent, larger = RULES.get(key, (key, False, False))
        columns.append({"key": key, "title": title, "percent": percent, "larger_is_better": larger})
    rows = [_row(line["rule"], line["measures"], line["guarantee"]) for line in lines]
    headline, says = deciding.in_words(result)
    answers, sets = (deciding.of_kind(result, kind) for kind in ("abstain", "sets"))
    for row in rows:
        row["mark"] = "best" if answers and row["name"] == deciding.most_answers(answers)["rule"] else None
    promised = {
        "error": next((line["promised"] for line in answers if "promised" in line), None),
        "coverage": next((line["promised"] for line in sets if "promised" in line), None),
    }
    lines_drawn: dict[str, ReferenceLine] = {
        key: {
            "value": share,
            "title": f"{'abstaining: at most' if key == 'error' else 'sets: at least'} {100 * share:g} %",
        }
        for key, share in promised.items()
        if share is not None and key in keys
    }
    return _page(
        result,
        lines=lines_drawn,
        name="Decision rules compared",
        subject="rules",
        headline=headline,
        detail=" ".join(says) + " " + _fitted(result),
        columns=columns,
        rows=rows,
        chart=[key for key in ("answered", "error", "coverage", "size") if key in keys],
        failed=[(line["rule"], line["failed"]) for line in result["rules"] if "failed" in line],
    )


def of_audition(result: Mapping[str, Any]) -> ResultsPage:
    """The page of ``softkin similarity audition``."""
    columns: list[Column] = [
        {"key": "cross_entropy", "title": "Nats per row", "percent": False, "larger_is_better": False,
         "explained": "Cross-entropy of the confusions under the similarity, on classes that β was not chosen on. "
         "Upright line of a row: the mean over random renamings of the classes."},
        {"key": "rank_correlation", "title": "Rank correlation", "percent": False, "larger_is_better": True,
         "explained": "Of similarity and confusions within the rows."},
        {"key": "overlap", "title": "Top-5 overlap", "percent": True, "larger_is_better": True,
         "explained": "The share of the five most confused classes among the five most similar ones."},
    ]  # fmt: skip
    rows = []
    for one in result["candidates"]:
        row = _row(one["name"], {column["key"]: one[column["key"]] for column in columns}, f"β = {one['beta']:.2f}")
        row["mark"] = "best" if one["name"] == result["chosen"] else None
        row["reference"] = {"cross_entropy": one["cross_entropy"]["control"]}
        rows.append(row)
    suggestion = list(result["suggestion"])
    clear = not any(line.startswith("No source") for line in suggestion)
    headline = (
        f"{result['chosen']} explains the confusions best" if clear else "No source explains the confusions clearly"
    )
    return {
        **_common("Sources of class similarity", result["against"], result["classes"]),
        "kind": "results",
        "subject": "sources",
        "headline": headline,
        "tone": "good" if clear else "plain",
        "detail": " ".join(suggestion),
        "columns": columns,
        "rows": rows,
        "chart": ["cross_entropy", "rank_correlation"],
        "lines": {"cross_entropy": {"value": result["uniform"], "title": "uniform labels"}},
        "notes": [f"Against {result['against']}: {result['rows']} of {result['classes']} classes.",
                  *(f"{name}: {how}" for name, how in (result.get("sources") or {}).items()),
                  *(f"{name} was left out: {why}" for name, why in (result.get("left_out") or {}).items())],
    }  # fmt: skip


def of_limits(result: Mapping[str, Any]) -> ResultsPage:
    """The page of ``softkin check``: a row for each limit, ✓ where it is kept, ✗ where it is broken, else ?."""
    rows: list[ResultRow] = []
    for limit in result["limits"]:
        metric = METRICS[limit["metric"]]
        cell: ResultCell = {key: limit[key] for key in ("value", "low", "high") if key in limit}  # type: ignore[assignment]
        rows.append(
            {
                "name": limit["title"] + (f" in {limit['group']}" if "group" in limit else ""),
                "cells": {"value": cell},
                "mark": limit["mark"],
                "note": limit["text"],
                "limit": {
                    "kind": limit["kind"],
                    "metric": metric.key,
                    "value": limit["limit"],
                    "percent": metric.percent,
                },
            }
        )
    broken = sum(not limit["kept"] for limit in result["limits"])
    many = f"{broken} of {len(rows)} limits {'is' if broken == 1 else 'are'} broken"
    beyond = sum(limit["mark"] == "open" for limit in result["limits"])
    fine = "Every limit is kept"
    if beyond:
        lie = f"value{'s' * (len(rows) > 1)} {'lies' if beyond == 1 else 'lie'}"
        fine = f"No limit is shown to be broken, but {beyond} of {len(rows)} {lie} beyond"
    rule = (
        "A limit is kept only if the whole interval lies within it."
        if result["strict"]
        else "A limit is broken only if the whole interval lies beyond it."
    )
    return {
        **_common(result["name"], None, 0),
        "kind": "results",
        "subject": "limits",
        "headline": many if broken else fine,
        "tone": "bad" if broken else "plain" if beyond else "good",
        "detail": f"{result['num_samples']:,} samples, {100 * result['confidence']:g} % intervals. {rule}",
        "columns": [{"key": "value", "title": "measured"}],
        "rows": rows,
        "chart": [],
        "lines": {},
        "notes": [],
    }


def of_monitor(result: Mapping[str, Any]) -> MonitorPage:
    """The page of ``softkin monitor``: the state of the alarm, the gap of each window, and the evidence over time."""
    alarm, needed = result["alarm"], result["needed"]
    count, claimed, right = result["since"]
    windows: list[WindowShown] = []
    first = 1
    for window in result["windows"]:
        windows.append({**window, "first": first, "last": first + window["rows"] - 1})  # type: ignore[typeddict-item]
        first += window["rows"]
    if alarm is None:
        headline = "No alarm"
        differ = f" {result['differing']}" if result["differing"] else ""
        detail = (
            f"Over the whole log there is {monitoring.no_sign(result['tolerance'])}.{differ} "
            f"{_came_true(count, claimed, right)}"
        )
    else:
        headline = f"Alarm: the claims are {alarm['direction']}"
        when = "" if alarm["time"] is None else f" ({alarm['time']})"
        detail = f"Raised at row {alarm['row']:,} of {result['rows']:,}{when}."
        detail += f" {result['unseen']}" if result["unseen"] else ""
        if count:
            detail += f" Since then {_came_true(count, claimed, right)}"
        detail += " Find out what changed, and fit the calibrator again on rows since then."
    return {
        **_common(result["name"], None, 0),
        "kind": "monitor",
        "headline": headline,
        "tone": "bad" if alarm is not None else "plain" if result["differing"] else "good",
        "detail": detail,
        "rows": result["rows"],
        "alarm": alarm,
        "needed": needed,
        "tolerance": result["tolerance"],
        "windows": windows,
        "course": result["course"],
        "notes": [
            f"While {_right(result['tolerance'])}, the probability of ever raising an alarm is at most "
            f"{100 * result['false_alarm']:g} %, however often one looks."
        ],
    }


def _right(tolerance: float) -> str:
    return f"claims and outcomes differ by at most {100 * tolerance:g} points" if tolerance else "the claims are right"


def _came_true(count: int, claimed: float, right: float) -> str:
    return f"{count:,} rows claimed {100 * claimed / count:.1f} % and were right in {100 * right / count:.1f} %."


def _page(
    result: HeldOut,
    *,
    name: str,
    subject: Literal["calibrators", "rules"],
    headline: str,
    detail: str,
    columns: list[Column],
    rows: list[ResultRow],
    chart: list[str],
    failed: Sequence[tuple[str, str]],
    lines: Mapping[str, ReferenceLine] | None = None,
) -> ResultsPage:
    notes = [f"{who} failed: {why}" for who, why in failed]
    notes += [f"Intervals: {100 * result['confidence']:g} %.", *result["warnings"]]
    return {
        **_common(name, result["measured_on"]["name"], 0),
        "kind": "results",
        "subject": subject,
        "headline": headline,
        "tone": "plain",
        "detail": detail,
        "columns": columns,
        "rows": rows,
        "chart": chart,
        "lines": dict(lines or {}),
        "notes": notes,
    }


def _common(name: str, source: str | None, num_classes: int) -> Page:
    return {
        "format": "softkin report",
        "version": data.VERSION,
        "softkin": __version__,
        "name": name,
        "source": source,
        "num_classes": num_classes,
        "class_names": [],
    }


def _row(name: str, measured: Mapping[str, MeasuredData], note: str) -> ResultRow:
    cells: dict[str, ResultCell] = {}
    for key, one in measured.items():
        cell: ResultCell = {"value": one["value"]}
        if one.get("low") is not None:
            cell |= {"low": one["low"], "high": one["high"]}
        if one.get("when_calibrated"):
            cell["chance"] = one["when_calibrated"]["value"]
        cells[key] = cell
    return {"name": name, "cells": cells, "mark": None, "note": note}


def _value(line: RuleLine, key: str) -> float:
    return from_number(line["measures"].get(key, {"value": number(float("nan"))})["value"])


def _fitted(result: HeldOut) -> str:
    fitted, measured = result["fitted_on"], result["measured_on"]
    return (
        f"Fitted on {fitted['name']} ({fitted['num_samples']:,} samples), measured on {measured['name']} "
        f"({measured['num_samples']:,})."
    )
