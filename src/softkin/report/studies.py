"""A study's folder, or equivalent plain data → everything that the page of a comparison shows."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from softkin import SoftkinError, __version__, distances
from softkin._core import checks
from softkin._core.names import did_you_mean
from softkin._io import files, matrices
from softkin._io.files import number
from softkin.lab import study
from softkin.lab.study import Result, StudyFolder, Table
from softkin.lab.study.advice import values_in_words
from softkin.lab.study.methods import title
from softkin.lab.training.methods import letters
from softkin.metrics import catalogue, scopes
from softkin.metrics.catalogue import Metric
from softkin.metrics.scopes import Scope
from softkin.predictions import Predictions
from softkin.report import curves, matrix, mistakes, plain, render

PARTS = ("curves", "sweep", "ood", "histories", "similarity", "verdicts", "pairs", "classes", "agreement")
"""The optional parts of the comparison's data; without a part its section of the page is left out"""
NEEDED = ("name", "methods", "table", "num_samples", "num_classes")
ALLOWED = (*NEEDED, *PARTS, "source", "notes", "recommendation", "seeds", "class_names", "subject")
SCOPES: tuple[Scope, ...] = ("prediction", "output")
SHORT = 24  # letters of a name on a chart
LONGEST_HISTORY = 400  # points of a training curve; more than it has pixels


def build_comparison(
    content: str | Path | StudyFolder | Mapping[str, Any], *, table: Table | None = None
) -> dict[str, Any]:
    """Everything that the page of a comparison shows; docs/report.md describes each field.

    Args:
        content: The folder of a study (``softkin compare``), finished or not; or, for results from elsewhere, plain
            data of the form that ``from_study`` returns.
        table: The study's table if the caller has it already: computing it costs a bootstrap. By default
            ``table.json`` is read if it matches the results in the folder, else the table is computed.

    Returns:
        Plain data for ``report.write``.
    """
    shown = dict(content) if isinstance(content, Mapping) else from_study(content, table=table)
    _check(shown)
    parts = {part: shown.get(part) for part in PARTS}
    names = mistakes.display_names(shown.get("class_names"), shown["num_classes"])
    return {
        "format": "softkin report",
        "version": plain.VERSION,
        "kind": "comparison",
        "softkin": __version__,
        "name": shown["name"],
        "subject": shown.get("subject") or "methods",
        "source": shown.get("source"),
        "notes": list(shown.get("notes") or ()),
        "recommendation": list(shown.get("recommendation") or ()),
        "seeds": list(shown.get("seeds") or ()),
        "num_samples": shown["num_samples"],
        "num_classes": shown["num_classes"],
        "class_names": names,
        "bins": list(curves.BINS),
        "metrics": [metric.described() for metric in _swept()],
        "methods": _with_short_names(shown["methods"]),
        "table": shown["table"],
        **parts,
    }


def _swept() -> list[Metric]:
    """The metrics by which values are judged. The error of the output comes first, because the page opens with it."""
    return sorted(catalogue.shown("select"), key=lambda metric: metric.key != "ece_hist_output")


def write_comparison(
    path: str | Path,
    content: str | Path | StudyFolder | Mapping[str, Any],
    *,
    table: Table | None = None,
    force: bool = True,
) -> tuple[Path, Path]:
    """Write the page of a comparison, and beside it its data as JSON.

    Args:
        path: The page's path, which ends in .html.
        content: A study's folder, or plain data, as for ``build_comparison``.
        table: The study's table, as for ``build_comparison``.
        force: Whether to overwrite; True by default, because a study that continues writes its page again.
    """
    return render.write(path, build_comparison(content, table=table), force=force)


def _with_short_names(methods: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    names = [method["name"] for method in methods]
    short = ({"short": short} if short != name else {} for name, short in zip(names, short_names(names), strict=True))
    return [{**method, **own} for method, own in zip(methods, short, strict=True)]


def short_names(names: Sequence[str], most: int = SHORT) -> list[str]:
    """Names for charts, of at most ``most`` letters, that still differ where the names do.

    If a name is too long, the common prefix and suffix of all names are left out, then the middle of those that are
    still too long. Names that would then be equal get their number.

    Example:
        >>> short_names(["runs/resnet-50-seed-1.npz", "runs/resnet-50-seed-2.npz"])
        ['…seed-1', '…seed-2']
    """
    if all(len(name) <= most for name in names):
        return list(names)
    parts = [re.findall(r"[-_./ ]|[^-_./ ]+", name) or [name] for name in names]
    fewest = min(len(part) for part in parts) - 1 if len(parts) > 1 else 0
    first = next((i for i in range(fewest) if len({part[i] for part in parts}) > 1), fewest)
    first = max(0, first - 2)  # the last word that they share says what differs
    left = max(0, fewest - first - 1)
    last = next((i for i in range(left) if len({part[-1 - i] for part in parts}) > 1), left)
    short = ["…" * bool(first) + "".join(part[first : len(part) - last]) for part in parts]
    half = most // 2
    short = [name if len(name) <= most else f"{name[: half - 1]}…{name[half - most :]}" for name in short]
    return [
        name if short.count(name) == 1 else f"{place} {name[: most - 3]}" for place, name in enumerate(short, start=1)
    ]


def _check(content: Mapping[str, Any]) -> None:
    for key in content:
        if key not in ALLOWED:
            raise ValueError(f"comparison data have no part {key!r}{did_you_mean(key, ALLOWED)}")
    for key in NEEDED:
        if key not in content:
            raise ValueError(f"comparison data must have {key!r}; it is missing.")
    known = [method["key"] for method in content["methods"]]
    used = {
        "table": [row["method"] for row in content["table"]["rows"]],
        "curves": list(content.get("curves") or ()),
        "sweep": [point["method"] for point in (content.get("sweep") or {"points": ()})["points"]],
        "ood": [method for unknown in content.get("ood") or () for method in unknown["count"]],
        "histories": [line["method"] for line in content.get("histories") or ()],
    }
    for part, methods in used.items():
        for method in methods:
            if method not in known:
                raise ValueError(f"{part!r} of the comparison data must use known methods, got {method!r}.")


# From a study's folder


def from_study(folder: str | Path | StudyFolder, *, table: Table | None = None) -> dict[str, Any]:
    """A study's records and predictions as comparison data.

    Curves pool the test samples of all seeds; the calibration errors beside them are per seed. Each tried value has its
    validation metrics, averaged over the seeds that tried it.
    """
    folder = StudyFolder.of(folder)
    kept, results = folder.kept, folder.results()
    if not results:
        raise SoftkinError(f"{folder.path} holds no results yet; the page can be made once a method is done.")
    shown = table.to_dict() if table is not None else _saved_table(folder, results) or study.table(folder).to_dict()
    methods = [{"key": row["method"], "name": row["title"]} for row in shown["rows"]]
    known = {method["key"] for method in methods}
    by_method: dict[str, list[Result]] = {}
    for result in results:
        if result.method in known:
            by_method.setdefault(result.method, []).append(result)
    tests = {name: [result.test() for result in mine] for name, mine in by_method.items()}
    first = next(iter(tests.values()))[0]
    return {
        "name": kept.spec.name if kept.spec.name != "compare" else f"Methods compared on {kept.spec.data}",
        "source": f"{kept.data.get('source', kept.spec.data)}, {kept.data.get('rows', '')}; network {kept.spec.model}",
        "notes": _without_meanings(shown["notes"], shown["columns"]),
        "recommendation": list(shown.get("recommendation") or ()),
        "seeds": list(kept.spec.seeds),
        "num_samples": len(first),
        "num_classes": first.num_classes,
        "class_names": first.class_names,
        "methods": methods,
        "table": {
            "columns": [_column(column) for column in shown["columns"]],
            "rows": [_row(row) for row in shown["rows"]],
        },
        "curves": {name: pooled(runs) for name, runs in tests.items()},
        "sweep": _sweep(by_method),
        "ood": _ood(kept.spec.ood, by_method),
        "histories": _histories(folder, by_method),
        "similarity": _similarity(folder, by_method, first),
    }


def _saved_table(folder: StudyFolder, results: Sequence[Result]) -> dict[str, Any] | None:
    """The content of ``table.json`` if its numbers are those of exactly these results, seed by seed; else None."""
    wanted: dict[str, list[Any]] = {}
    for result in results:
        wanted.setdefault(result.method, []).append(files.number(result.metrics["nll"]))
    try:
        saved: dict[str, Any] = files.read_json(folder.path / "table.json", "a study's table")
        held = {row["method"]: list(row["cells"]["nll"]["values"]) for row in saved["rows"]}
    except (SoftkinError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return saved if held == wanted else None


def _without_meanings(notes: Sequence[str], columns: Sequence[Mapping[str, Any]]) -> list[str]:
    """The notes below a study's table without those that say what a column is: the page has a list of these."""
    titles = "|".join(re.escape(column["title"]) for column in columns)
    return [note for note in notes if not re.match(rf"({titles})[,:]", note, flags=re.IGNORECASE)]


def column_data(metric: Metric) -> dict[str, Any]:
    """A column of the models' table, named as ``softkin evaluate`` names it, with what it means in words."""
    return {
        "key": metric.key,
        "title": metric.title,
        "percent": metric.percent,
        "larger_is_better": metric.larger_is_better,
        "signed": metric.signed,
        "explained": _explained(metric, metric.title),
    }


def _explained(metric: Metric, column: str) -> str:
    """The meaning of a column: the metric's title, unless that is the column's name, and the metric's explanation."""
    parts = [part for part in (metric.title, metric.about) if part and part != column]
    return "; ".join(parts)


def _column(saved: Mapping[str, Any]) -> dict[str, Any]:
    """A column of a study's table; if a metric declares the column, the metric explains it."""
    metric = catalogue.METRICS.get(saved["key"])
    larger = saved["larger_is_better"] if "larger_is_better" in saved else saved.get("higher_is_better")
    explained = (
        UNKNOWN_DATA.get(saved["key"].partition(" ")[0], "") if metric is None else _explained(metric, saved["title"])
    )
    kept = {part: saved[part] for part in ("key", "title", "percent", "signed") if part in saved}
    return {**kept, "larger_is_better": larger, "explained": explained}


UNKNOWN_DATA = {
    "auroc": "How often a known sample scores above an out-of-distribution sample.",
    "fpr_at_95": "The share of out-of-distribution samples that are accepted where 95 % of the known ones are.",
}


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    chosen = values_in_words(row["chosen"], row.get("found") or ())
    return {"method": row["method"], "cells": row["cells"], "chosen": chosen or None, "target": row["effective_target"]}


def pooled(runs: Sequence[Predictions]) -> dict[str, Any]:
    """Sums in cells over all seeds, and each seed's ECE, from one method's predictions on each seed."""
    pool: dict[str, Any] = {"num_samples": sum(len(run) for run in runs)}
    for scope in SCOPES:
        cells = []
        for run in runs:
            p, y = scopes.checked(run.probabilities, run.known_labels)
            cells.append(curves.of_pool(scopes.pool(p, y, scope)))
        pool[scope] = {part: [sum(values) for values in zip(*(cell[part] for cell in cells), strict=True)]
                        for part in ("count", "score_sum", "hit_sum")}  # fmt: skip
        pool[scope]["ece"] = {
            str(m): [
                float(curves.of_cells(cell, m).error(samples=len(run))) for cell, run in zip(cells, runs, strict=True)
            ]
            for m in curves.BINS
        }
    return pool


def _sweep(by_method: Mapping[str, Sequence[Result]]) -> dict[str, Any] | None:
    """Every set of values that a method tried, with the mean of its validation metrics over seeds."""
    points: dict[tuple[Any, ...], dict[str, Any]] = {}
    for method, results in by_method.items():
        for result in results:
            if result.record["predictions"] != result.record["chosen"] or len(result.record["tried"]) < 2:
                continue  # a calibrator tries what its network tried; one value is no sweep
            for trial in result.record["tried"]:
                if trial["validation"] is None or "auto" in trial["values"].values():
                    continue  # not a point on an axis
                key = (method, *sorted(trial["values"].items()), trial["epochs"])
                point = points.setdefault(
                    key,
                    {"method": method, "values": trial["values"], "epochs": trial["epochs"], "chosen": 0, "all": []},
                )
                point["all"].append(trial["validation"])
                point["chosen"] += trial["run"] == result.record["chosen"]
    if not points:
        return None
    for point in points.values():
        trials = point.pop("all")
        point["seeds"] = len(trials)
        point["validation"] = {
            key: number(sum(files.from_number(trial[key]) for trial in trials) / len(trials)) for key in trials[0]
        }
    known, tried = letters(), {name for point in points.values() for name in point["values"]}
    return {"letters": {name: known.get(name, name) for name in sorted(tried)}, "points": list(points.values())}


def _ood(sets: Sequence[str], by_method: Mapping[str, Sequence[Result]]) -> list[dict[str, Any]] | None:
    """For each out-of-distribution set: the winning scores in each cell, and how well they are detected."""
    sections = []
    for name in sets:
        about: dict[str, Any] = {"name": name, "count": {}, "auroc": {}, "fpr_at_95": {}, "mean": {}}
        for method, results in by_method.items():
            have = [result for result in results if name in result.record["ood"]]
            if not have:
                continue
            winning = torch.cat([result.ood(name).probabilities.amax(dim=1) for result in have])
            pool = scopes.Pool(winning, torch.empty(0, dtype=torch.int64), len(winning), 1)
            about["count"][method] = curves.of_pool(pool)["count"]
            about["mean"][method] = float(winning.mean())
            for metric in ("auroc", "fpr_at_95", "auroc_mutual_information"):
                key = f"{metric} {name}"
                if all(key in result.metrics for result in have):  # only members disagree
                    values = [float(result.metrics[key]) for result in have]
                    about.setdefault(metric, {})[method] = sum(values) / len(values)
        sections.append(about)
    return sections or None


def _histories(folder: StudyFolder, by_method: Mapping[str, Sequence[Result]]) -> list[dict[str, Any]]:
    """The training curves of the networks behind the results; a calibrator has none of its own."""
    lines = []
    for method, results in by_method.items():
        for result in results:
            record = folder.records.find(result.record["chosen"])
            if record is None or result.record["predictions"] != result.record["chosen"]:
                continue
            history = record["history"]
            step = -(-len(history) // LONGEST_HISTORY)
            entries = history[step - 1 :: step]
            keys = [key for key in ("loss", "validation_nll", "validation_accuracy", "validation_ece", "alpha")
                    if any(key in entry for entry in entries)]  # fmt: skip
            values = {key: [_point(entry.get(key)) for entry in entries] for key in keys}
            epochs = [entry["epoch"] for entry in entries]
            lines.append({"method": method, "seed": result.seed, "epochs": epochs, "values": values})
    return lines


def _point(value: float | str | None) -> float | None:
    """A point of a curve; None leaves a gap where there is no finite number."""
    number = files.from_number(value)
    return round(number, 6) if math.isfinite(number) else None


def _similarity(
    folder: StudyFolder, by_method: Mapping[str, Sequence[Result]], first: Predictions
) -> list[dict[str, Any]] | None:
    """The class distances of each similarity method, those of its first seed, with the values that were chosen."""
    if first.num_classes > matrix.MOST_CLASSES:
        return None
    records, sections = folder.records, []
    for method, results in by_method.items():
        result = results[0]
        record = records.find(result.record["chosen"])
        digest = None if record is None else record["spec"].get("distances")
        if digest is None or result.record["predictions"] != result.record["chosen"]:
            continue
        path = records.path(digest) / "distances.safetensors"
        read = matrices.read_any(path)
        d = read.values if first.class_names is None else matrices.in_order_of(read, first.class_names, path)
        as_it_is = read.kind == "similarity"  # from a file, with its β in it
        d = distances.from_similarity(d) if as_it_is else d
        values = {**result.record["values"], **result.record.get("found", {})}
        content = matrix.encoded(
            d,
            num_classes=first.num_classes,
            source=read.source,
            alpha=checks.alpha(values.get("alpha", 0.1)),
            beta=1.0 if as_it_is else checks.beta(values.get("beta", 2.0)),
            asymmetric=True,
        )
        sections.append({"name": title(method), "as_it_is": as_it_is} | content)
    return sections or None
