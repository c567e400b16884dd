"""From records and saved predictions to the table: means, deviations, values under perfect calibration, ties."""

import csv
import io
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

from softkin import SoftkinError
from softkin._io import escape, files
from softkin.evaluation.results import CellData
from softkin.lab.study import advice, significance
from softkin.lab.study import columns as registry
from softkin.lab.study.advice import NOT_RANKED, TIE, recommend
from softkin.lab.study.folder import Result, StudyFolder
from softkin.lab.study.significance import RESAMPLES, Resamples, Verdict
from softkin.lab.study.spec import StudySpec
from softkin.lab.training.methods import Value
from softkin.metrics import catalogue
from softkin.metrics.intervals import gap_and_error
from softkin.metrics.kernels import Kernel
from softkin.metrics.measurement import NARROW, Measured
from softkin.metrics.scopes import Claims
from softkin.metrics.statistics import Statistic
from softkin.predictions import Predictions


@dataclass(frozen=True)
class Column:
    """A metric in the table."""

    key: str
    title: str
    percent: bool = True
    larger_is_better: bool | None = False
    """None: the metric has no winner"""
    signed: bool = False


def metric_columns() -> list[Column]:
    """A column for each metric that is declared for the table."""
    return [
        Column(metric.key, metric.short, metric.percent, metric.larger_is_better, metric.signed)
        for metric in catalogue.shown("table")
    ]


@dataclass(frozen=True)
class Cell(Measured):
    """A metric of a method over the seeds: value, value under calibration and floor are means over them.

    A metric with a caveat is not ranked.
    """

    std: float | None = None
    """The standard deviation over seeds; None with a single seed"""
    n: int = 1
    values: tuple[float, ...] = ()
    best: bool = False
    tie: bool = False
    """Not significantly worse than the best"""
    p_value: float | None = None

    def to_dict(self) -> CellData:
        """Plain data, as of one set of predictions, and what the seeds add."""
        own = {name: getattr(self, name) for name in ("std", "n", "values", "best", "tie", "p_value")}
        data: CellData = {**super().to_dict(), **files.plain(own)}  # type: ignore[typeddict-item]
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The cell that ``to_dict`` wrote."""
        own = {name: data[name] for name in ("n", "best", "tie", "p_value")}
        std = None if data["std"] is None else files.from_number(data["std"])
        return replace(super().from_dict(data), **own, std=std, values=tuple(map(files.from_number, data["values"])))


@dataclass(frozen=True)
class Row:
    """The row of a method."""

    method: str
    title: str
    cells: Mapping[str, Cell]
    chosen: tuple[Mapping[str, Value], ...] = ()
    """The values that were chosen, seed by seed"""
    settled: tuple[Mapping[str, float], ...] = ()
    """The values that "auto" settled at, seed by seed"""
    effective_target: str | None = None
    cost: Mapping[str, float] | None = None
    """The cost relative to the plain network: ``passes`` per prediction, factor of ``memory``, ``networks`` trained"""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        held = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**held, "cells": {key: cell.to_dict() for key, cell in self.cells.items()}}


@dataclass(frozen=True)
class Table:
    """The table of a study."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    spec: StudySpec
    data: Mapping[str, Any] = field(default_factory=dict)
    finished: bool = True
    recommendation: tuple[str, ...] = ()
    """The recommendation in sentences; empty while results are missing"""
    times: str | None = field(default=None, compare=False)
    """How long methods took relative to one-hot; not part of the files, as times vary from machine to machine"""

    def row(self, method: str) -> Row:
        """The row of a method."""
        for row in self.rows:
            if row.method == method:
                return row
        raise KeyError(method)

    def to_markdown(self) -> str:
        """A Markdown table: the best in bold, ties marked, values under perfect calibration in brackets."""
        lines = [
            "| method | " + " | ".join(escape.markdown(heading(column)) for column in self.columns) + " |",
            "| --- |" + " ---: |" * len(self.columns),
        ]
        for row in self.rows:
            cells = [_markdown(column, row.cells.get(column.key)) for column in self.columns]
            lines.append(f"| {row.title} | " + " | ".join(cells) + " |")
        about, *others = self.notes  # the first holds names of data and network, which may contain anything
        notes = [f"- {escape.markdown(about)}", *(f"- {note}" for note in others)]
        recommended = ["", " ".join(self.recommendation)] if self.recommendation else []
        return "\n".join([*lines, "", *notes, *recommended, ""])

    def to_latex(self) -> str:
        """A LaTeX ``tabular`` for booktabs."""
        lines = [
            *(f"% {escape.terminal(note)}" for note in self.notes),
            "\\begin{tabular}{l" + "r" * len(self.columns) + "}",
            "\\toprule",
            "method & " + " & ".join(escape.latex(heading(column)) for column in self.columns) + " \\\\",
            "\\midrule",
        ]
        for row in self.rows:
            cells = [_latex(column, row.cells.get(column.key)) for column in self.columns]
            lines.append(f"{escape.latex(row.title)} & " + " & ".join(cells) + " \\\\")
        return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])

    def to_csv(self) -> str:
        """CSV with one line for each method and metric, as fractions in full precision."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        names = ("value", "std", "n", "when_calibrated", "floor", "low", "high", "best", "tie", "p_value")
        writer.writerow(["method", "metric", *names, "values"])
        for row in self.rows:
            for key, cell in row.cells.items():
                values = [cell.chance if name == "when_calibrated" else getattr(cell, name) for name in names]
                shown = ["" if value is None else repr(value) for value in values]
                writer.writerow([row.method, key, *shown, " ".join(map(repr, cell.values))])
        return text.getvalue()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, with numbers as from ``files.number``."""
        plain: dict[str, Any] = files.plain(
            {
                "spec": self.spec.to_dict(),
                "data": dict(self.data),
                "finished": self.finished,
                "columns": [asdict(column) for column in self.columns],
                "rows": [row.to_dict() for row in self.rows],
                "notes": list(self.notes),
                "recommendation": list(self.recommendation),
            }
        )
        return plain


def table(folder: str | Path | StudyFolder, *, resamples: int = RESAMPLES) -> Table:
    """The table of a study, finished or not, from its records and saved predictions alone."""
    folder = StudyFolder.of(folder)
    return build(folder.kept.spec, folder.results(), data=folder.kept.data, resamples=resamples)


def build(
    spec: StudySpec, results: Sequence[Result], *, data: Mapping[str, Any] | None = None, resamples: int = RESAMPLES
) -> Table:
    """The table of these results."""
    by_method: dict[str, list[Result]] = {name: [] for name in spec.methods}
    for result in results:
        by_method[result.method].append(result)
    complete = [name for name, per_seed in by_method.items() if len(per_seed) == len(spec.seeds)]
    loaded = {name: [result.test() for result in by_method[name]] for name in complete}
    verdicts = _verdicts(by_method, loaded, resamples)
    shown = columns(spec)
    rows = tuple(
        _row(name, per_seed, shown, verdicts if name in complete else {})
        for name, per_seed in by_method.items()
        if per_seed
    )
    finished = len(complete) == len(spec.methods)
    sentences = (
        *advice.about(spec, results, data or {}, finished),
        *advice.caveats(shown, by_method),
        *advice.failed_trainings([row for row in rows if row.method in complete], spec.seeds),
        *advice.of_one_seed(spec, shown, verdicts),
        *advice.values(rows),
        *advice.costs(rows),
        *advice.too_wide(rows),
    )
    recommended = recommend(rows, gap_error=_gap_error(loaded.get(registry.ONE_HOT, []))) if finished else ()
    return Table(tuple(shown), rows, sentences, spec, data or {}, finished, recommended)


def _gap_error(tests: Sequence[Predictions]) -> float:
    """The standard error of a gap that the test rows alone cause, averaged over seeds."""
    return statistics.fmean(gap_and_error(test.probabilities, test.known_labels)[1] for test in tests) if tests else 0.0


def columns(spec: StudySpec) -> list[Column]:
    """The columns of a study's table."""
    titles = {"auroc": "AUROC", "fpr_at_95": "FPR@95"}
    unknown = [
        Column(f"{key} {name}", f"{title} {name}", larger_is_better=None)
        for name in spec.ood
        for key, title in titles.items()
    ]
    return [*metric_columns(), *unknown]


def _verdicts(
    by_method: Mapping[str, list[Result]], loaded: Mapping[str, list[Predictions]], times: int
) -> dict[str, Verdict]:
    """The verdict on each metric that has a winner, among the methods whose test predictions are ``loaded``."""
    if not loaded:
        return {}
    first = next(iter(loaded.values()))
    ids = [_ids(predicted) for predicted in first]
    for name, per_seed in loaded.items():
        for predicted, expected, result in zip(per_seed, ids, by_method[name], strict=True):
            if _ids(predicted) != expected:
                raise SoftkinError(
                    f"{registry.title(name)} on seed {result.seed} was tested on other samples than the other methods; "
                    "its predictions cannot be compared with theirs."
                )
    drawn = Resamples(ids, times=times)
    verdicts = {}
    for column in metric_columns():
        metric = catalogue.METRICS[column.key]
        if column.larger_is_better is None:
            continue
        statistics_of = {
            name: [metric.statistic(Claims(predicted.probabilities, predicted.known_labels)) for predicted in per_seed]
            for name, per_seed in loaded.items()
        }
        # An uninformative error, such as that of scores that share one bin, cannot win.
        statistics_of = {
            name: per_seed
            for name, per_seed in statistics_of.items()
            if all(statistic.caveat() is None for statistic in per_seed)
        }
        if not statistics_of or any(
            _too_narrow(statistic) for per_seed in statistics_of.values() for statistic in per_seed
        ):
            continue
        verdicts[column.key] = significance.verdict(statistics_of, drawn, larger_is_better=column.larger_is_better)
    return verdicts


def _too_narrow(statistic: Statistic) -> bool:
    """Whether scores are so nearly equal that their KDE error cannot be resampled, which needs nodes every h/8."""
    return isinstance(statistic, Kernel) and 0 < statistic.radius < NARROW


def _ids(predicted: Predictions) -> list[Any]:
    """The ids of the samples, or their positions if they have no ids."""
    ids = predicted.sample_ids
    return list(range(len(predicted))) if ids is None else ids if isinstance(ids, list) else ids.tolist()


def _row(
    method: str,
    results: list[Result],
    columns: Sequence[Column],
    verdicts: Mapping[str, Verdict],
) -> Row:
    cells = {}
    for column in columns:
        if any(column.key not in result.metrics for result in results):  # declared after they were measured
            continue
        seeds = [result.metrics[column.key] for result in results]
        values = tuple(measured.value for measured in seeds)
        endless = math.inf in values
        chance = _mean([measured.chance for measured in seeds])
        verdict = verdicts.get(column.key)
        marks: dict[str, Any] = {}
        if verdict is not None and method in verdict.intervals:
            low, high = verdict.intervals[method]
            marks = {
                "best": method == verdict.best,
                "tie": method in verdict.ties,
                "p_value": verdict.p_values.get(method),
                "low": low,
                "high": high,
                "level": 1 - significance.LEVEL,
            }
        cells[column.key] = Cell(
            math.inf if endless else statistics.fmean(values),
            std=statistics.stdev(values) if len(values) > 1 and not endless else None,
            n=len(values),
            values=values,
            when_calibrated=None if chance is None else Measured(chance),
            floor=_mean([measured.floor for measured in seeds]),
            caveat=next((measured.caveat for measured in seeds if measured.caveat), None),
            **marks,
        )
    record = results[0].record
    chosen = tuple(dict(result.record["values"]) for result in results)
    settled = tuple(dict(result.record.get("found", {})) for result in results)
    target, cost = record.get("effective_target"), record.get("cost")
    return Row(method, registry.title(method), cells, chosen, settled, target, cost)


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean over seeds of what every seed has."""
    there = [value for value in values if value is not None]
    return statistics.fmean(there) if len(there) == len(values) else None


def times(folder: str | Path | StudyFolder) -> str | None:
    """How long methods took relative to one-hot, training and predicting, in one sentence; None without one-hot.

    Times vary, so they are not part of the table, which is the same however often a study was interrupted.
    """
    opened = StudyFolder.of(folder)
    seconds: dict[str, list[float]] = {}
    for result in opened.results():
        record = opened.records.find(result.record["chosen"])
        if record is not None and registry.parts(result.method)[1] is None:
            took = max(files.from_number(record["seconds"]), files.from_number(record["training_seconds"]))
            seconds.setdefault(result.method, []).append(took)
    usual = statistics.fmean(seconds.get(registry.ONE_HOT, [0.0]))
    if usual <= 0 or len(seconds) < 2:
        return None
    ratios = (
        f"{registry.title(name)} {statistics.fmean(values) / usual:.1f} ×"
        for name, values in seconds.items()
        if name != registry.ONE_HOT
    )
    return f"Time relative to one-hot's {usual:.2g} s, training and predicting (measured): {', '.join(ratios)}."


# Texts


def heading(column: Column) -> str:
    """A column's title, with an arrow in the better direction."""
    arrow = {True: " ↑", False: " ↓", None: ""}[column.larger_is_better]
    return f"{column.title}{arrow}"


def shown(column: Column, cell: Cell) -> tuple[str, str]:
    """A cell as two texts: mean ± deviation; the value under perfect calibration, and the floor if there is one."""
    if math.isinf(cell.value):
        return "∞", ""
    scale, digits = (100.0, 1) if column.percent else (1.0, 3)
    if column.percent and column.key.startswith("ece"):
        digits = 2
    sign = "+" if column.signed else ""
    text = f"{cell.value * scale:{sign}.{digits}f}"
    if cell.std is not None:
        text += f" ± {cell.std * scale:.{digits}f}"
    beside = [] if cell.chance is None else [f"{cell.chance * scale:.{digits}f}"]
    beside += [] if cell.floor is None else [f"floor {cell.floor * scale:.{digits}f}"]
    return text, ", ".join(beside)


def mark(cell: Cell) -> str:
    """The mark after a number in plain text: * the best, ≈ not significantly worse, † not ranked."""
    return "*" if cell.best else TIE if cell.tie else NOT_RANKED if cell.caveat else " "


def _markdown(column: Column, cell: Cell | None) -> str:
    if cell is None:
        return "–"
    value, chance = shown(column, cell)
    value = f"**{value}**" if cell.best else f"{value} {mark(cell)}".rstrip()
    return f"{value} ({chance})" if chance else value


def _latex(column: Column, cell: Cell | None) -> str:
    if cell is None:
        return "--"
    value, chance = shown(column, cell)
    body = value.replace("±", "\\pm").replace("∞", "\\infty").replace(" ", "")
    above = {TIE: "^{\\approx}", NOT_RANKED: "^{\\dagger}"}
    body = f"\\mathbf{{{body}}}" if cell.best else body + above.get(mark(cell), "")
    return f"${body}$" + (f" \\small({chance})" if chance else "")
