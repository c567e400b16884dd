"""The paper's figures from our runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from softkin import diagrams
from softkin.lab.study import Result, columns
from softkin.lab.suites.printed import METRICS, PaperSpec, Part
from softkin.lab.suites.runs import done_parts, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as PlainFigure

SCOPES: dict[Literal["prediction", "output"], str] = {"prediction": "ece_hist", "output": "ece_hist_output"}


def figure(
    spec: PaperSpec, folder: str | Path, *, scale: str = "small", options: Mapping[str, Any] | None = None
) -> "dict[str, PlainFigure]":
    """The figures of ``spec`` by file name, drawn from the finished runs in ``folder``.

    A sweep gives ECE over the parameter, a figure for prediction and one for output; an out-of-distribution figure one
    for each set; reliability one for each part, scope and group of methods. Samples of all seeds are pooled.
    """
    if spec.kind == "table":
        raise ValueError(f"{spec.name} is a table; `softkin paper table {spec.name}` prints it.")
    from softkin._core.figures import own_settings

    parts = done_parts(spec, folder, scale, options)
    with own_settings():
        if spec.kind == "sweep":
            return _sweep(spec, folder, scale, options)
        return _ood(spec, parts) if spec.kind == "ood" else _reliability(spec, parts)


def _sweep(
    spec: PaperSpec, folder: str | Path, scale: str, options: Mapping[str, Any] | None
) -> "dict[str, PlainFigure]":
    from softkin._core.figures import Figure

    measured = table(spec, folder, scale=scale, options=options)
    values = [part.value for part in spec.parts(scale, **(options or {}))]
    drawn: dict[str, PlainFigure] = {}
    for scope, metric in SCOPES.items():
        drawing = Figure(figsize=(3.4, 2.6), layout="constrained")
        ax = drawing.add_subplot()
        for place, method in enumerate(spec.methods):
            lines = [line for line in measured.lines if (line.metric, line.method) == (metric, method)]
            done = [
                (value, line.ours, line.std or 0.0)
                for value, line in zip(values, lines, strict=True)
                if value is not None and line.ours is not None
            ]
            ax.errorbar(
                [value for value, _, _ in done],
                [ours for _, ours, _ in done],
                [std for _, _, std in done],
                label=columns.title(method),
                color=diagrams.COLOURS[place],
                marker=diagrams.MARKERS[place],
                markersize=3,
                linewidth=1.2,
                capsize=2,
            )
        letter = {"alpha": "α", "beta": "β"}[str(spec.parameter)]
        ax.set_ylim(bottom=0)
        ax.set_xlabel(letter)
        ax.set_ylabel(f"{METRICS[metric]} (%)")
        ax.set_title(spec.about(scale).partition(";")[0], fontsize=diagrams.SMALL)
        ax.legend(fontsize=diagrams.SMALL, frameon=False)
        drawn[f"{spec.name}-{scope}"] = drawing
    return drawn


def _ood(spec: PaperSpec, parts: list[tuple[Part, list[Result]]]) -> "dict[str, PlainFigure]":
    drawn = {}
    for part, results in parts:
        for name, source in zip(spec.sets, part.study.ood, strict=True):
            models = {
                columns.title(method): torch.cat(
                    [result.ood(source).probabilities for result in results if result.method == method]
                )
                for method in _in_order(spec, results)
            }
            drawn[f"{spec.name}-{name}"] = diagrams.confidence_histogram(models, title=f"{part.study.model} on {name}")
    return drawn


def _reliability(spec: PaperSpec, parts: list[tuple[Part, list[Result]]]) -> "dict[str, PlainFigure]":
    drawn = {}
    for part, results in parts:
        there = _in_order(spec, results)
        seeds = [{result.seed for result in results if result.method == method} for method in there]
        common = set.intersection(*seeds)  # all methods are drawn over the same samples
        loaded = {
            method: [result.test() for result in results if result.method == method and result.seed in common]
            for method in there
        }
        for number, group in enumerate(spec.groups, 1):
            in_group = {columns.title(method): loaded[method] for method in group if method in loaded}
            if not in_group or not common:
                continue
            labels = torch.cat([result.known_labels for result in next(iter(in_group.values()))])
            models = {
                title: torch.cat([result.probabilities for result in per_seed]) for title, per_seed in in_group.items()
            }
            for scope in SCOPES:
                name = f"{spec.name}-{part.study.name}-{scope}-{number}"
                drawn[name] = diagrams.reliability(models, labels, scope=scope, confidence=None)
    return drawn


def _in_order(spec: PaperSpec, results: list[Result]) -> list[str]:
    done = {result.method for result in results}
    return [method for method in spec.columns if method in done]
