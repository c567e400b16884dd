"""Methods or models side by side, as plain data → everything that the page of a comparison shows."""

from collections.abc import Mapping, Sequence
from typing import Any

from softkin import __version__
from softkin._core.names import did_you_mean, short_names
from softkin.metrics import catalogue
from softkin.metrics.catalogue import Metric
from softkin.metrics.scopes import Claims, Scope
from softkin.predictions import Predictions
from softkin.report import curves, data, mistakes
from softkin.report.data import Column, ComparisonPage, Curves, Method, PooledCells

PARTS = ("overview", "curves", "sweep", "ood", "histories", "similarity", "verdicts", "pairs", "classes", "agreement")
"""The optional parts of the comparison's data; without a part its section of the page is left out"""
NEEDED = ("name", "methods", "table", "num_samples", "num_classes")
ALLOWED = (*NEEDED, *PARTS, "source", "notes", "recommendation", "seeds", "class_names", "subject", "sampled")


def page(shown: Mapping[str, Any]) -> ComparisonPage:
    """The page's data from plain data, which are checked; ``studies.build_comparison`` describes them."""
    _check(shown)
    names = mistakes.display_names(shown.get("class_names"), shown["num_classes"])
    return {
        "format": "softkin report",
        "version": data.VERSION,
        "kind": "comparison",
        "softkin": __version__,
        "name": shown["name"],
        "sampled": shown.get("sampled"),
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
        "overview": shown.get("overview"),
        "table": shown["table"],
        "curves": shown.get("curves"),
        "sweep": shown.get("sweep"),
        "ood": shown.get("ood"),
        "histories": shown.get("histories"),
        "similarity": shown.get("similarity"),
        "verdicts": shown.get("verdicts"),
        "pairs": shown.get("pairs"),
        "classes": shown.get("classes"),
        "agreement": shown.get("agreement"),
    }


def _swept() -> list[Metric]:
    """The metrics by which values are judged. The error of the output comes first, because the page opens with it."""
    return sorted(catalogue.shown("select"), key=lambda metric: metric.key != "ece_hist_output")


def _with_short_names(methods: Sequence[Method]) -> list[Method]:
    names = [method["name"] for method in methods]
    shown: list[Method] = []
    for method, short in zip(methods, short_names(names), strict=True):
        shown.append({**method, "short": short} if short != method["name"] else {**method})
    return shown


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


def column_data(metric: Metric, *, single: bool = False) -> Column:
    """A column of the models' table, named as ``softkin evaluate`` names it, with what it means in words.

    The Brier score of a ``single`` score per sample has one term, so that its worst value is 1.
    """
    return {
        "key": metric.key,
        "title": metric.title,
        "percent": metric.percent,
        "larger_is_better": metric.larger_is_better,
        "signed": metric.signed,
        "explained": "0 is best, 1 is worst"
        if single and metric.key == "brier"
        else explained_by(metric, metric.title),
    }


def explained_by(metric: Metric, column: str) -> str:
    """The meaning of a column: the metric's title, unless that is the column's name, and the metric's explanation."""
    parts = [part for part in (metric.title, metric.about) if part and part != column]
    return "; ".join(parts)


def pooled(runs: Sequence[Predictions]) -> Curves:
    """Sums in cells over all seeds, and each seed's ECE, from one method's predictions on each seed."""
    return pooled_claims([Claims.of(run.probabilities, run.known_labels) for run in runs])


def pooled_claims(claims: Sequence[Claims]) -> Curves:
    """The same of claims; those that stand for themselves have no output besides."""
    answers = _pooled(claims, "prediction")
    return {
        "num_samples": sum(each.num_samples for each in claims),
        "prediction": answers,
        "output": _pooled(claims, "output") if all(each.exclusive for each in claims) else answers,
    }


def _pooled(claims: Sequence[Claims], scope: Scope) -> PooledCells:
    cells = [curves.of_pool(each.pool(scope)) for each in claims]
    # A sum per sample, except where each score stands for itself
    samples = [each.num_samples * (1 if each.exclusive else each.num_classes) for each in claims]
    ece = {
        str(m): [
            float(curves.of_cells(cell, m).error(samples=count)) for cell, count in zip(cells, samples, strict=True)
        ]
        for m in curves.BINS
    }
    return {
        "count": [sum(counts) for counts in zip(*(cell["count"] for cell in cells), strict=True)],
        "score_sum": [sum(sums) for sums in zip(*(cell["score_sum"] for cell in cells), strict=True)],
        "hit_sum": [sum(hits) for hits in zip(*(cell["hit_sum"] for cell in cells), strict=True)],
        "ece": ece,
    }
