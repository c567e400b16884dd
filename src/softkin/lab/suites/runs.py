"""Run the studies behind a table or a figure, and compare the results with the paper's."""

import csv
import io
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from softkin import SoftkinError
from softkin._core.names import counted
from softkin._io import escape
from softkin.lab import study
from softkin.lab.study import Result, columns
from softkin.lab.study.perform import recipe_of
from softkin.lab.suites.printed import METRICS, RECORDED, PaperSpec, Part
from softkin.lab.training.methods import in_words

UNREFLECTED = {"ece_kde": "ece_kde_unreflected", "ece_kde_output": "ece_kde_output_unreflected"}


@dataclass(frozen=True)
class Line:
    """One number of the paper and ours, in %, with deviations over seeds."""

    row: str
    """The paper's row: DN, RN or WRN"""
    metric: str
    method: str
    paper: float | None
    """None if the paper prints no number"""
    ours: float | None
    """None if it was not run"""
    std: float | None
    n: int
    """The number of seeds"""
    calibrated: float | None
    """The value under perfect calibration with as many samples"""
    unreflected: float | None
    """The KDE ECE without mirroring at 0 and 1: the paper's formula as written"""
    floor: float | None
    """The part of KDE O that smoothing alone adds"""
    parameter: str
    """The values that were chosen or fixed, such as α = 0.1, β = 2"""
    network: str
    """The network that was trained"""
    recipe: str
    data: str


@dataclass(frozen=True)
class Block:
    """What is printed of one network of the paper."""

    row: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    about: str
    """What was trained instead, with its recipe"""


@dataclass(frozen=True)
class PaperTable:
    """The paper's values and ours."""

    spec: PaperSpec
    scale: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...]

    @property
    def blocks(self) -> list["Block"]:
        """The paper's matrix for each of its networks: methods down, errors across, "paper → here" in each cell."""
        found = []
        for row in dict.fromkeys(line.row for line in self.lines):
            own = [line for line in self.lines if line.row == row]
            metrics = tuple(dict.fromkeys(line.metric for line in own))
            cells: dict[str, dict[str, str]] = {}
            for line in own:  # of a figure, the same method stands once for each value
                value = f", {line.parameter}" if line.parameter and self.spec.kind != "table" else ""
                cells.setdefault(columns.title(line.method) + value, {})[line.metric] = _pair(line)
            methods = [(title, *(shown.get(metric, "") for metric in metrics)) for title, shown in cells.items()]
            heads = ("method", *(METRICS.get(metric, metric) for metric in metrics))
            about = "; ".join(dict.fromkeys(_about(line) for line in own if line.ours is not None or line.recipe))
            found.append(Block(row, heads, tuple(methods), about))
        return found

    def to_markdown(self) -> str:
        """The blocks as Markdown tables."""
        parts = [f"{self.spec.title} (scale {self.scale})", ""]
        for block in self.blocks:
            parts += [
                f"**{_cell(block.row)}**" if block.row else "",
                "",
                "| " + " | ".join(map(_cell, block.headings)) + " |",
                "| " + " | ".join(["---"] + ["---:"] * (len(block.headings) - 1)) + " |",
                *("| " + " | ".join(map(_cell, row)) + " |" for row in block.rows),
                "",
                *([_cell(block.about), ""] if block.about else []),
            ]
        return "\n".join([*parts, *(f"- {n}" for n in self.notes), ""])

    def to_csv(self) -> str:
        """CSV with all columns in full precision."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        names = [field.name for field in fields(Line)]
        writer.writerow(["table", "scale", *names])
        for line in self.lines:
            values = [getattr(line, name) for name in names]
            writer.writerow([self.spec.name, self.scale, *("" if value is None else value for value in values)])
        return text.getvalue()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        about = {"name": self.spec.name, "title": self.spec.title, "reference": self.spec.reference}
        return {
            **about,
            "scale": self.scale,
            "lines": [asdict(line) for line in self.lines],
            "claims": list(self.spec.claims),
            "notes": list(self.notes),
        }


def _cell(text: str) -> str:
    """Text that cannot end the cell of a Markdown table, or its line."""
    return escape.terminal(text).replace("|", "\\|")


def _pair(line: Line) -> str:
    """The paper's value and ours."""
    ours = "–" if line.ours is None else f"{line.ours:.2f}" + (f" ± {line.std:.2f}" if line.std is not None else "")
    if line.floor is not None:
        ours += f" (floor {line.floor:.1f})"
    return ours if line.paper is None else f"{line.paper:.2f} → {ours}"


def _about(line: Line) -> str:
    """What was trained here."""
    seeds = f", {counted(line.n, 'seed')}" if line.n else ""
    return f"Here: {line.network}{f', {line.recipe}' if line.recipe else ''}{seeds}."


def run(
    spec: PaperSpec, folder: str | Path, *, scale: str = "small", options: Mapping[str, Any] | None = None, **how: Any
) -> PaperTable:
    """Run or resume all studies of ``spec`` at ``scale``, in folders below ``folder``.

    Args:
        spec: A table or a figure.
        folder: The parent folder; a study that several specs share is run once.
        scale: "full", "small", or "trial" if the spec has one.
        options: Options of ``PaperSpec.parts``: ``data``, ``rows``, ``vectors``, ``seeds``.
        how: Options of ``study.run``: ``device``, ``workers``, ``engine``, ``progress``, ``force``, ``ray_options``.
    """
    for part in spec.parts(scale, **(options or {})):
        study.run(part.study, Path(folder) / part.folder, **how)
    return table(spec, folder, scale=scale, options=options)


def table(
    spec: PaperSpec, folder: str | Path, *, scale: str = "small", options: Mapping[str, Any] | None = None
) -> PaperTable:
    """The paper's values beside those of the finished runs."""
    parts = spec.parts(scale, **(options or {}))
    lines: list[Line] = []
    notes = [f"{spec.reference}. Scale {scale}: {spec.about(scale)}."]
    notes.append(
        "In %: the paper's value → ours, mean ± standard deviation over seeds. P: winning scores, O: all scores, "
        "summed per sample. Floor: what smoothing alone adds to KDE O, from which no winner is derived. The .csv of a "
        "run has every number, also under perfect calibration and with the kernel density as the paper writes it."
    )
    shown = False
    for part in parts:
        results = of_part(part, folder)
        done = {(result.method, result.seed) for result in results}
        left = len(part.study.methods) * len(part.study.seeds) - len(done)
        is_recorded = any(
            spec.recorded(scale, part.row, metric, part.study.methods[0]) is not None for metric in METRICS
        )
        if left and (done or not is_recorded):
            notes.append(f"{part.study.name}: {left} results are missing; {_advice(spec, scale)} resumes.")
        for metric in ("accuracy", *METRICS, *_ood_metrics(part)):
            for method in part.study.methods:
                own = [result for result in results if result.method == method]
                line = _line(spec, part, metric, method, own)
                if not results and (known := spec.recorded(scale, part.row, metric, method)) is not None:
                    line, shown = replace(line, ours=known, n=len(part.study.seeds)), True
                lines.append(line)
    others = [name for name in spec.scales if RECORDED in spec.scales[name] and name != scale]
    if shown:
        notes.append(f"Ours: as we measured them with this recipe, since {folder} holds no run of it.")
    elif others and not any(line.n for line in lines):
        notes.append(f"Nothing is run yet; `softkin paper table {spec.name} --scale {others[0]}` shows values of ours.")
    trained = spec.scales[scale].get("networks", {})
    for row, printed in spec.values.items():  # the paper's values that this scale does not run
        if row not in {part.row for part in parts}:
            lines += [
                Line(row, metric, method, spec.value(row, metric, method), None, None, 0, None, None, None, "",
                     "not requested" if row in trained else f"none at scale {scale}", "", "")
                for metric in printed
                for method in spec.methods
            ]  # fmt: skip
    notes += [*(f"The paper: {claim}" for claim in spec.claims), *_findings(spec, lines), *spec.notes]
    return PaperTable(spec, scale, tuple(lines), tuple(notes))


def of_part(part: Part, folder: str | Path) -> list[Result]:
    """The finished results of a part."""
    path = Path(folder) / part.folder
    return study.results(path) if path.is_dir() else []


def done_parts(
    spec: PaperSpec, folder: str | Path, scale: str, options: Mapping[str, Any] | None
) -> list[tuple[Part, list[Result]]]:
    """The parts with their results; an error if no run is finished."""
    done = [(part, of_part(part, folder)) for part in spec.parts(scale, **(options or {}))]
    done = [(part, results) for part, results in done if results]
    if not done:
        raise SoftkinError(
            f"{folder} holds no finished run of {spec.name} at scale {scale}; {_advice(spec, scale)} makes them."
        )
    return done


def _advice(spec: PaperSpec, scale: str) -> str:
    return f"`softkin paper run {spec.name} --scale {scale}`"


def _ood_metrics(part: Part) -> list[str]:
    return [f"{metric} {name}" for name in part.study.ood for metric in ("auroc", "fpr_at_95")]


def _line(spec: PaperSpec, part: Part, metric: str, method: str, results: Sequence[Result]) -> Line:
    def mean(values: Sequence[float | None]) -> float | None:
        there = [value for value in values if value is not None]
        return 100 * statistics.fmean(there) if there else None

    measured = [result.metrics[metric] for result in results]
    values = [each.value for each in measured]
    chance = [each.chance for each in measured]
    other = [result.metrics[key].value for result in results if (key := UNREFLECTED.get(metric)) in result.metrics]
    floor = [each.floor for each in measured]
    return Line(
        row=part.row,
        metric=metric,
        method=method,
        paper=spec.value(part.row, metric, method) if part.value is None else None,
        ours=mean(values),
        std=100 * statistics.stdev(values) if len(values) > 1 else None,
        n=len(values),
        calibrated=mean(chance),
        unreflected=mean(other),
        floor=mean(floor),
        parameter=_values(results) if results or part.value is None else f"{spec.parameter} = {part.value:g}",
        network=str(part.study.model),
        recipe=recipe_in_words(part),
        data=part.study.data,
    )


def _values(results: Sequence[Result]) -> str:
    """The chosen values: one text if all seeds agree, else seed by seed."""
    texts = [in_words(result.record["values"]) for result in results]
    return "; ".join(dict.fromkeys(texts))


def recipe_in_words(part: Part) -> str:
    """The exact recipe of a part in one line."""
    recipe = recipe_of(part.study)
    schedule = {
        "step": f"steps ×{recipe['gamma']:g} at {', '.join(map(str, recipe['milestones']))}",
        "cosine": "cosine",
        "one-cycle": "one-cycle",
        "constant": "constant rate",
    }[recipe["schedule"]]
    words = [
        f"at most {part.study.max_per_class} images per class" if part.study.max_per_class else "all images",
        f"{recipe['epochs']} epochs",
        f"batch {recipe['batch_size']}",
        f"SGD {recipe['lr']:g} {schedule}",
        f"momentum {recipe['momentum']:g}{' Nesterov' if recipe['nesterov'] else ''}",
        f"weight decay {recipe['weight_decay']:g}",
        *([f"warm-up {recipe['warmup_epochs']:g}"] if recipe["warmup_epochs"] else []),
        {"none": "no augmentation", "flip": "flips", "crop-flip": "crops and flips"}[recipe["augmentation"]],
    ]
    return ", ".join(words)


def _findings(spec: PaperSpec, lines: Sequence[Line]) -> list[str]:
    """For a sweep, the sentence about the minimum of our curve."""
    if spec.kind != "sweep":
        return []
    sentences = []
    for metric in ("ece_hist", "ece_hist_output"):
        for method in spec.methods:
            done = [line for line in lines if (line.metric, line.method) == (metric, method) and line.ours is not None]
            if done:
                best = min(done, key=lambda line: line.ours or 0.0)
                what = f"{METRICS[metric]} of {columns.title(method)}"
                sentences.append(f"Ours: {what} is lowest, {best.ours:.2f} %, at {best.parameter}.")
    return sentences
