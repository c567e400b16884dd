"""A study's folder → the plain data of its comparison, and its page."""

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch

from softkin import SoftkinError, distances
from softkin._core import checks
from softkin._io import files, matrices
from softkin._io.files import number
from softkin.lab import study
from softkin.lab.study import Result, StudyFolder, Table
from softkin.lab.study import columns as registry
from softkin.lab.study.advice import values_in_words
from softkin.lab.study.columns import title
from softkin.lab.study.tabulation import Row, gap_error, seconds_of_networks
from softkin.lab.training.methods import letters
from softkin.metrics import catalogue, scopes
from softkin.predictions import Predictions
from softkin.report import curves, matrix, render, study_overview
from softkin.report.data import (
    Column,
    ComparisonPage,
    History,
    Overview,
    Similarity,
    Sweep,
    SweepPoint,
    TableRow,
    UnknownOfMethods,
)
from softkin.report.side_by_side import explained_by, page, pooled

LONGEST_HISTORY = 400  # points of a training curve; more than it has pixels


def build_comparison(
    content: str | Path | StudyFolder | Mapping[str, Any], *, table: Table | None = None
) -> ComparisonPage:
    """Everything that the page of a comparison shows; docs/report.md describes each field.

    Args:
        content: The folder of a study (``softkin compare``), finished or not; or, for results from elsewhere, plain
            data of the form that ``from_study`` returns.
        table: The study's table if the caller has it already: computing it costs a bootstrap. By default
            ``table.json`` is read if it matches the results in the folder, else the table is computed.

    Returns:
        Plain data for ``report.write``.
    """
    return page(content if isinstance(content, Mapping) else from_study(content, table=table))


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
        "overview": _overview(folder, shown, len(first), tests.get(registry.ONE_HOT, ())),
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


def _overview(
    folder: StudyFolder, shown: Mapping[str, Any], num_samples: int, plain: Sequence[Predictions]
) -> Overview | None:
    """The first screen; while a study runs, that of the methods that have all their seeds."""
    spec = folder.kept.spec
    rows = [Row.from_dict(row) for row in shown["rows"]]
    done = [row for row in rows if "nll" in row.cells and row.cells["nll"].n == len(spec.seeds)]
    if not shown["finished"] and len(done) < 2:
        return None
    made = study_overview.of_rows(
        rows if shown["finished"] else done,
        seconds=seconds_of_networks(folder),
        data=_as_typed(spec),
        num_samples=num_samples,
        gap_error=gap_error(plain) if plain else None,
    )
    if made is not None and not shown["finished"]:
        made["detail"] = f"The study is not finished; these {len(done)} methods are. {made['detail']}"
    return made


def _as_typed(spec: study.StudySpec) -> str:
    """The data of a study as arguments of ``softkin train``."""
    options = {"--size": spec.size, "--max-per-class": spec.max_per_class}
    stated = [f"{option} {value}" for option, value in options.items() if value is not None]
    return " ".join([shlex.quote(spec.data), *stated])


def _saved_table(folder: StudyFolder, results: Sequence[Result]) -> dict[str, Any] | None:
    """The content of ``table.json`` if its numbers are those of exactly these results, seed by seed; else None."""
    wanted: dict[str, list[Any]] = {}
    for result in results:
        wanted.setdefault(result.method, []).append(files.number(result.metrics["nll"].value))
    try:
        saved: dict[str, Any] = files.read_json(folder.path / "table.json", "a study's table")
        held = {row["method"]: list(row["cells"]["nll"]["values"]) for row in saved["rows"]}
    except (SoftkinError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return saved if held == wanted else None


def _without_meanings(notes: Sequence[str], columns: Sequence[Mapping[str, Any]]) -> list[str]:
    """The notes below a study's table without those that say what a column is: the page has a list of these."""
    titles = "|".join(re.escape(column["title"]) for column in columns)
    kept = [note for note in notes if not re.match(rf"({titles})[,:]", note, flags=re.IGNORECASE)]
    # On the page only what is worse is marked: where most methods are level, their marks would emphasise nothing.
    worse = "○: worse than the best by more than sampling noise explains."
    return [note.replace("≈: cannot be told from the best.", worse) for note in kept]


def _column(saved: Mapping[str, Any]) -> Column:
    """A column of a study's table; if a metric declares the column, the metric explains it."""
    metric = catalogue.METRICS.get(saved["key"])
    explained = (
        UNKNOWN_DATA.get(saved["key"].partition(" ")[0], "") if metric is None else explained_by(metric, saved["title"])
    )
    return {
        "key": saved["key"],
        "title": saved["title"],
        "percent": saved["percent"],
        "signed": saved["signed"],
        "larger_is_better": saved["larger_is_better"],
        "explained": explained,
    }


UNKNOWN_DATA = {
    "auroc": "How often a known sample scores above an out-of-distribution sample.",
    "fpr_at_95": "The share of out-of-distribution samples that are accepted where 95 % of the known ones are.",
}


def _row(row: Mapping[str, Any]) -> TableRow:
    chosen = values_in_words(row["chosen"], row["settled"])
    return {"method": row["method"], "cells": row["cells"], "chosen": chosen or None, "target": row["effective_target"]}


def _sweep(by_method: Mapping[str, Sequence[Result]]) -> Sweep | None:
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
    known, tried = letters(), {name for point in points.values() for name in point["values"]}
    return {
        "letters": {name: known.get(name, name) for name in sorted(tried)},
        "points": [_swept_point(point) for point in points.values()],
    }


def _swept_point(point: dict[str, Any]) -> SweepPoint:
    trials = point["all"]
    return {
        "method": point["method"],
        "values": point["values"],
        "epochs": point["epochs"],
        "chosen": point["chosen"],
        "seeds": len(trials),
        "validation": {
            key: number(sum(files.from_number(trial[key]["value"]) for trial in trials) / len(trials))
            for key in trials[0]
        },
    }


def _ood(sets: Sequence[str], by_method: Mapping[str, Sequence[Result]]) -> list[UnknownOfMethods] | None:
    """For each out-of-distribution set: the winning scores in each cell, and how well they are detected."""
    sections: list[Any] = []
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
                    values = [result.metrics[key].value for result in have]
                    about.setdefault(metric, {})[method] = sum(values) / len(values)
        sections.append(about)
    return sections or None


def _histories(folder: StudyFolder, by_method: Mapping[str, Sequence[Result]]) -> list[History]:
    """The training curves of the networks behind the results; a calibrator has none of its own."""
    lines: list[History] = []
    for method, results in by_method.items():
        for result in results:
            record = folder.records.training(result.record["chosen"])
            if record is None or result.record["predictions"] != result.record["chosen"]:
                continue
            history = record["history"]
            step = -(-len(history) // LONGEST_HISTORY)
            entries = history[step - 1 :: step]
            keys = [key for key in ("loss", "validation_nll", "validation_accuracy", "validation_ece", "alpha")
                    if any(key in entry for entry in entries)]  # fmt: skip
            values: dict[str, list[files.Plain]] = {
                key: [_point(cast(Mapping[str, files.Plain], entry).get(key)) for entry in entries] for key in keys
            }
            epochs = [entry["epoch"] for entry in entries]
            lines.append({"method": method, "seed": result.seed, "epochs": epochs, "values": values})
    return lines


def _point(value: float | str | None) -> float | None:
    """A point of a curve; None leaves a gap where there is no finite number."""
    number = files.from_number(value)
    return round(number, 6) if math.isfinite(number) else None


def _similarity(
    folder: StudyFolder, by_method: Mapping[str, Sequence[Result]], first: Predictions
) -> list[Similarity] | None:
    """The class distances of each similarity method, those of its first seed, with the values that were chosen."""
    if first.num_classes > matrix.MOST_CLASSES:
        return None
    records = folder.records
    sections: list[Similarity] = []
    for method, results in by_method.items():
        result = results[0]
        record = records.training(result.record["chosen"])
        digest = None if record is None else record["spec"].get("distances")
        if digest is None or result.record["predictions"] != result.record["chosen"]:
            continue
        path = records.path(digest) / "distances.safetensors"
        read = matrices.read_any(path)
        d = read.values if first.class_names is None else matrices.in_order_of(read, first.class_names, path)
        as_it_is = read.kind == "similarity"  # from a file, with its β in it
        d = distances.from_similarity(d) if as_it_is else d
        values: dict[str, Any] = {**result.record["values"], **result.record.get("found", {})}
        content = matrix.encoded(
            d,
            num_classes=first.num_classes,
            source=read.source,
            alpha=checks.alpha(values.get("alpha", 0.1)),
            beta=1.0 if as_it_is else checks.beta(values.get("beta", 2.0)),
            asymmetric=True,
        )
        sections.append({**content, "name": title(method), "as_it_is": as_it_is})
    return sections or None
