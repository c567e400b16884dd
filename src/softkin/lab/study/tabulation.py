"""From records and saved predictions to the table: means, deviations, values under perfect calibration, ties."""

import csv
import io
import math
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from softkin import SoftkinError
from softkin._core import threads
from softkin._io import escape, files
from softkin.evaluation.results import CellData
from softkin.lab.study import advice, significance, story
from softkin.lab.study import columns as registry
from softkin.lab.study.advice import BETTER, NOT_RANKED, TIE, WORSE
from softkin.lab.study.folder import Result, StudyFolder
from softkin.lab.study.significance import RESAMPLES, Difference, Floats, Resamples, Sampled, Verdict
from softkin.lab.study.spec import StudySpec
from softkin.lab.training.methods import Value
from softkin.lab.training.training_run import Cost
from softkin.metrics import catalogue
from softkin.metrics.intervals import gap_and_error
from softkin.metrics.kernels import Kernel
from softkin.metrics.measurement import NARROW, Measured
from softkin.metrics.scopes import Claims
from softkin.metrics.statistics import Mean, Statistic, Streamed
from softkin.predictions import Predictions

FINISHED = "matrix"
"""The option of the distance source that may read a finished similarity"""


@dataclass(frozen=True)
class Column:
    """A metric in the table."""

    key: str
    title: str
    percent: bool = True
    larger_is_better: bool | None = False
    """None: the metric has no winner"""
    signed: bool = False
    wide: bool = False
    """Whether a terminal shows it only on request"""


def metric_columns() -> list[Column]:
    """A column for each metric that is declared for the table, those of the wide table last."""
    return [
        Column(metric.key, metric.short, metric.percent, metric.larger_is_better, metric.signed, wide)
        for wide in (False, True)
        for metric in catalogue.shown("wide" if wide else "table")
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
    """Cannot be told from the best"""
    p_value: float | None = None
    """That of the difference to the best"""
    against: Mapping[str, Difference] = field(default_factory=dict)
    """The method minus others: the "best", the baselines by name, and its own "network" without the calibrator"""

    def to_dict(self) -> CellData:
        """Plain data, as of one set of predictions, and what the seeds add."""
        own = {name: getattr(self, name) for name in ("std", "n", "values", "best", "tie", "p_value")}
        own["against"] = {name: asdict(difference) for name, difference in self.against.items()}
        data: CellData = {**super().to_dict(), **files.plain(own)}  # type: ignore[typeddict-item]
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The cell that ``to_dict`` wrote."""
        own = {name: data[name] for name in ("n", "best", "tie", "p_value")}
        own["std"] = None if data["std"] is None else files.from_number(data["std"])
        own["against"] = {name: _difference(plain) for name, plain in (data.get("against") or {}).items()}
        return replace(super().from_dict(data), **own, values=tuple(map(files.from_number, data["values"])))


def _difference(plain: Mapping[str, Any]) -> Difference:
    numbers = {name: files.from_number(value) for name, value in plain.items() if name != "same"}
    return Difference(**numbers, same=bool(plain["same"]))


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
    recipe: Mapping[str, Any] | None = None
    """The fields of the recipe that were searched: ``chosen``, ``tried``, ``gain`` in validation NLL"""
    cost: Cost | None = None
    """The cost relative to the plain network: ``passes`` per prediction, factor of ``memory``, ``networks`` trained"""

    @property
    def in_name_only(self) -> int:
        """The number of seeds on which the β of class similarity is 0, if that is at least half of them; otherwise 0.

        With β = 0 all wrong classes are equally similar, and the labels are those of uniform smoothing.
        """
        source = registry.named(registry.parts(self.method)[0]).source
        if source is None:
            return 0
        found: list[Value] = [values["beta"] for values in self.settled if "beta" in values]
        if FINISHED not in source.options:  # a finished similarity ignores the β it is given
            found += [values["beta"] for values in self.chosen if "beta" in values]
        count = found.count(0)
        return count if 2 * count >= len(self.chosen) else 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        held = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**held, "cells": {key: cell.to_dict() for key, cell in self.cells.items()}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The row that ``to_dict`` wrote."""
        own = {field.name: data[field.name] for field in fields(cls) if field.name in data}
        return cls(**{**own, "cells": {key: Cell.from_dict(cell) for key, cell in data["cells"].items()}})


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
    """The story of the study in at most five sentences; empty while results are missing"""
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
    complete = {name: per_seed for name, per_seed in by_method.items() if len(per_seed) == len(spec.seeds)}
    networks = _networks({name: [dict(one.record["values"]) for one in own] for name, own in complete.items()})
    sampled = _sampled(complete, resamples).items()
    verdicts = {key: _verdict(key, methods, networks) for key, methods in sampled if methods}
    shown = columns(spec)
    rows = tuple(
        _row(name, per_seed, shown, verdicts if name in complete else {})
        for name, per_seed in by_method.items()
        if per_seed
    )
    finished = len(complete) == len(spec.methods)
    ranked = [row for row in rows if row.method in complete]
    sentences = (
        *advice.about(spec, results, data or {}, finished),
        *advice.caveats(shown, by_method),
        *advice.failed_trainings(ranked, spec.seeds),
        *advice.against_baseline(ranked, shown),
        *advice.tuned(spec, rows),
        *advice.values(rows),
        *advice.costs(rows),
        *advice.too_wide(rows),
    )
    told = (
        story.told(rows, gap_error=gap_error(result.test() for result in complete.get(registry.ONE_HOT, [])))
        if finished
        else ()
    )
    notes = sentences if told else (*sentences, *story.warned(rows))
    return Table(tuple(shown), rows, notes, spec, data or {}, finished, told)


def gap_error(tests: Iterable[Predictions]) -> float:
    """The standard error of a gap that the test rows alone cause, averaged over seeds."""
    errors = [gap_and_error(test.probabilities, test.known_labels)[1] for test in tests]
    return statistics.fmean(errors) if errors else 0.0


def judged(rows: Sequence[Row]) -> list[Row]:
    """These rows with the marks that the values of their seeds give alone, as for a table without predictions."""
    verdicts = {}
    networks = _networks({row.method: [dict(values) for values in row.chosen] for row in rows})
    for column in metric_columns():
        if column.larger_is_better is None:
            continue
        methods = {
            row.method: Sampled(np.array(row.cells[column.key].values), None, row.cells[column.key].chance)
            for row in rows
            if column.key in row.cells and row.cells[column.key].caveat is None
        }
        if methods:
            verdicts[column.key] = _verdict(column.key, methods, networks)
    return [
        replace(
            row,
            cells={key: replace(cell, **_marks(row.method, verdicts.get(key))) for key, cell in row.cells.items()},
        )
        for row in rows
    ]


def columns(spec: StudySpec) -> list[Column]:
    """The columns of a study's table."""
    titles = {"auroc": "AUROC", "fpr_at_95": "FPR@95"}
    unknown = [
        Column(f"{key} {name}", f"{title} {name}", larger_is_better=None)
        for name in spec.ood
        for key, title in titles.items()
    ]
    return [*metric_columns(), *unknown]


def _sampled(complete: Mapping[str, list[Result]], times: int) -> dict[str, dict[str, Sampled]]:
    """By metric with a winner, the numbers of each method, with the test samples resampled.

    The predictions of one method on one seed are in memory at a time.
    """
    if not complete:
        return {}
    seeds = range(len(next(iter(complete.values()))))
    ids = [_ids(next(iter(complete.values()))[s].test()) for s in seeds]
    drawn = Resamples(ids, times=times)
    metrics = {
        column.key: catalogue.METRICS[column.key] for column in metric_columns() if column.larger_is_better is not None
    }
    seen = {key: {name: np.empty(len(seeds)) for name in complete} for key in metrics}
    resampled: dict[str, dict[str, list[Floats]]] = {key: {name: [] for name in complete} for key in metrics}
    out: dict[str, set[str]] = {key: set() for key in metrics}

    def measured(s: int, name: str) -> tuple[dict[str, Statistic], set[str], dict[str, Floats]]:
        """Statistics of one method on one seed, the keys that cannot win, and the resampled values of the others."""
        result = complete[name][s]
        predicted = result.test()
        if _ids(predicted) != ids[s]:
            raise SoftkinError(
                f"{registry.title(name)} on seed {result.seed} was tested on other samples than the other methods; "
                "its predictions cannot be compared with theirs."
            )
        claims = Claims(predicted.probabilities, predicted.known_labels)
        made = {key: metric.statistic(claims) for key, metric in metrics.items()}
        # An uninformative error, as of scores that share one bin, cannot win.
        without = {key for key, statistic in made.items() if statistic.caveat() is not None or _too_narrow(statistic)}
        linear = {key: _linear(statistic) for key, statistic in made.items() if key not in without}
        return made, without, dict(zip(linear, drawn.values(s, list(linear.values())), strict=True))

    # One thread for each method is twice as fast as several for each product, and rounds the same on every machine.
    with threads.at_most(1), ThreadPoolExecutor(os.cpu_count()) as pool:
        for s in seeds:
            drawn.keep(s)
            for name, (made, without, values) in zip(complete, pool.map(partial(measured, s), complete), strict=True):
                for key in without:
                    out[key] |= set(complete) if made[key].caveat() is None else {name}
                for key, resamples in values.items():
                    seen[key][name][s] = made[key].value()
                    resampled[key][name].append(resamples)
    return {
        key: {
            name: Sampled(seen[key][name], np.stack(resampled[key][name], axis=1), _chance(complete[name], key))
            for name in complete
            if name not in out[key]
        }
        for key in metrics
    }


def _linear(statistic: Statistic) -> Statistic:
    """The statistic, or the mean of its influences if it has them, which is far cheaper to resample."""
    rows = statistic.influence() if isinstance(statistic, Streamed) else None
    return statistic if rows is None else Mean(rows)


def _chance(results: Sequence[Result], key: str) -> float | None:
    """The mean over seeds of a metric's value under perfect calibration, where records have it."""
    there = [result.metrics[key].chance if key in result.metrics else None for result in results]
    return _mean(there)


def _networks(chosen: Mapping[str, Sequence[Mapping[str, Value]]]) -> dict[str, str]:
    """The method of the network that a calibrator follows, where both chose the same values on every seed."""
    networks = {name: registry.parts(name)[0] for name in chosen if registry.parts(name)[1] is not None}
    return {name: base for name, base in networks.items() if base in chosen and chosen[base] == chosen[name]}


def _verdict(key: str, methods: Mapping[str, Sampled], networks: Mapping[str, str]) -> Verdict:
    """The answers to the three questions, with the baselines and networks that these methods have."""
    there = {name: base for name, base in networks.items() if name in methods and base in methods}
    larger = bool(catalogue.METRICS[key].larger_is_better)
    return significance.verdict(methods, larger_is_better=larger, baselines=registry.BASELINES, networks=there)


def _marks(method: str, verdict: Verdict | None) -> dict[str, Any]:
    """The fields of a cell that a verdict decides."""
    if verdict is None or method not in verdict.intervals:
        return {"best": False, "tie": False, "p_value": None, "against": {}}
    against = {"best": verdict.to_best[method]} if method in verdict.to_best else {}
    against |= {name: others[method] for name, others in verdict.to_baseline.items() if method in others}
    against |= {"network": verdict.to_network[method]} if method in verdict.to_network else {}
    low, high = verdict.intervals[method]
    return {
        "best": method == verdict.best,
        "tie": method in verdict.ties,
        "p_value": verdict.to_best[method].p_value if method in verdict.to_best else None,
        "against": against,
        "low": low,
        "high": high,
        "level": 1 - significance.LEVEL,
    }


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
        cells[column.key] = Cell(
            math.inf if endless else statistics.fmean(values),
            std=statistics.stdev(values) if len(values) > 1 and not endless else None,
            n=len(values),
            values=values,
            when_calibrated=None if chance is None else Measured(chance),
            floor=_mean([measured.floor for measured in seeds]),
            caveat=next((measured.caveat for measured in seeds if measured.caveat), None),
            **_marks(method, verdicts.get(column.key)),
        )
    record = results[0].record
    chosen = tuple(dict(result.record["values"]) for result in results)
    settled = tuple(dict(result.record.get("found", {})) for result in results)
    target, cost = record.get("effective_target"), record.get("cost")
    row = Row(method, registry.title(method), cells, chosen, settled, target, record.get("recipe"), cost)
    return replace(row, title=f"{row.title}{story.IN_NAME_ONLY}") if row.in_name_only else row


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean over seeds of what every seed has."""
    there = [value for value in values if value is not None]
    return statistics.fmean(there) if len(there) == len(values) else None


def times(folder: str | Path | StudyFolder) -> str | None:
    """What the study took, and how long methods took relative to one-hot, training and predicting.

    Times vary, so they are not part of the table, which is the same however often a study was interrupted.
    """
    opened = StudyFolder.of(folder)
    spent = " ".join(filter(None, (_took(opened), _spent(opened))))
    seconds = seconds_of_networks(opened)
    usual = seconds.get(registry.ONE_HOT, 0.0)
    if usual <= 0 or len(seconds) < 2:
        return spent or None
    ratios = (
        f"{registry.title(name)} {took / usual:.1f} ×" for name, took in seconds.items() if name != registry.ONE_HOT
    )
    unit = f"{float(f'{usual:.2g}'):g} s"
    relative = f"Time relative to one-hot's {unit}, training and predicting (measured): {', '.join(ratios)}."
    return f"{spent}\n{relative}" if spent else relative


def seconds_of_networks(opened: StudyFolder) -> dict[str, float]:
    """How long each method that trains a network took, training and predicting, as a mean over seeds."""
    seconds: dict[str, list[float]] = {}
    for result in opened.results():
        record = opened.records.training(result.record["chosen"])
        if record is not None and "training_seconds" in record:
            whole = max(files.from_number(record["seconds"]), files.from_number(record["training_seconds"]))
            took = whole if record["resumed"] else _busy(record)  # other work on the machine is no cost of a method
            seconds.setdefault(registry.parts(result.method)[0], []).append(took)
    return {name: statistics.fmean(values) for name, values in seconds.items()}


def _busy(record: Mapping[str, Any]) -> float:
    """The seconds that a run kept a core busy; on an accelerator, or where they were not recorded, those it took."""
    key = "processor_seconds" if record["device"] == "cpu" and "processor_seconds" in record else "seconds"
    return files.from_number(record[key])


def _took(opened: StudyFolder) -> str:
    """What all runs took; empty if no network is trained."""
    jobs = opened.plan.jobs(opened.records.training)
    done = [(job, record) for job in jobs if (record := opened.records.find(job.digest)) is not None]
    trainings = sum(job.kind == "training" for job, _ in done)
    minutes = sum(_busy(record) for _, record in done) / 60
    return f"The study took {trainings} trainings, {minutes:.1f} core-minutes." if trainings else ""


def _spent(opened: StudyFolder) -> str | None:
    """What the search of recipes took; None without one."""
    spec = opened.kept.spec
    if not spec.tune:
        return None
    find = opened.records.training
    tried = {trial.job.digest for base in spec.bases() for trial in opened.plan.tried(base, find)}
    used = {result.record["chosen"] for result in opened.results()}
    extra = [record for digest in tried - used if (record := find(digest)) is not None]
    minutes = sum(map(_busy, extra)) / 60
    return f"Tuning took {len(tried)} trials, {len(extra)} of them for nothing else: {minutes:.1f} core-minutes."


# Texts


def heading(column: Column) -> str:
    """A column's title, with an arrow in the better direction."""
    arrow = {True: " ↑", False: " ↓", None: ""}[column.larger_is_better]
    return f"{column.title}{arrow}"


def shown(column: Column, cell: Cell, *, short: bool = False) -> tuple[str, str]:
    """A cell as two texts: mean ± deviation; the value under perfect calibration, and the floor if there is one.

    In the short form errors have one digit, and nothing stands beside them.
    """
    if math.isinf(cell.value):
        return "∞", ""
    scale, digits = (100.0, 1) if column.percent else (1.0, 3)
    if column.percent and column.key.startswith("ece") and not short:
        digits = 2
    sign = "+" if column.signed else ""
    text = f"{cell.value * scale:{sign}.{digits}f}"
    if cell.std is not None:
        text += f"{'±' if short else ' ± '}{cell.std * scale:.{digits}f}"
    beside = [] if cell.chance is None or short else [f"{cell.chance * scale:.{digits}f}"]
    beside += [] if cell.floor is None or short else [f"floor {cell.floor * scale:.{digits}f}"]
    return text, ", ".join(beside)


def mark(column: Column, cell: Cell) -> str:
    """The marks after a number: * the best, ≈ cannot be told from it, ▴ ▾ better, worse than one-hot, † not ranked."""
    if column.larger_is_better is None:
        return ""
    if cell.caveat:
        return NOT_RANKED
    lead = "*" if cell.best else TIE if cell.tie else " "
    difference = cell.against.get(registry.ONE_HOT)
    if difference is None or not difference.proved:
        return f"{lead} "
    return lead + (BETTER if (difference.value > 0) == column.larger_is_better else WORSE)


def _markdown(column: Column, cell: Cell | None) -> str:
    if cell is None:
        return "–"
    value, chance = shown(column, cell)
    marks = mark(column, cell).replace("*", "").strip()
    value = f"**{value}** {marks}".rstrip() if cell.best else f"{value} {marks}".rstrip()
    return f"{value} ({chance})" if chance else value


def _latex(column: Column, cell: Cell | None) -> str:
    if cell is None:
        return "--"
    value, chance = shown(column, cell)
    body = value.replace("±", "\\pm").replace("∞", "\\infty").replace(" ", "")
    above = {TIE: "\\approx", NOT_RANKED: "\\dagger", BETTER: "\\blacktriangle", WORSE: "\\blacktriangledown"}
    marks = "".join(above.get(one, "") for one in mark(column, cell))
    body = (f"\\mathbf{{{body}}}" if cell.best else body) + (f"^{{{marks}}}" if marks else "")
    return f"${body}$" + (f" \\small({chance})" if chance else "")
