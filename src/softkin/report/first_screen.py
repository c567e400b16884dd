"""The first screen of every kind of page as plain HTML, readable without JavaScript."""

from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from softkin.report import answers, compared
from softkin.report.drawing import share_bar
from softkin.report.markup import counted, escaped, metric_text, named, percent, sentence


def header(data: Mapping[str, Any]) -> str:
    """The line above the headline: the name, and how many samples and classes there are."""
    facts = [f"{data[f'num_{what}']:,} {what}" for what in ("samples", "classes") if data.get(f"num_{what}", 0) > 1]
    if data["kind"] == "model" and data["pairs"]:
        groups = data["num_classes"] - 1
        facts = [
            f"{data['num_samples']:,} pairs of a confidence and an outcome",
            *([counted(groups, "group")] * (groups > 1)),
        ]
    if "images" in (data.get("sampled") or {}):
        facts[0] = f"{data['num_samples']:,} pixels"
    if data["kind"] == "comparison" and data["subject"] == "labels":
        facts = [f"{data['num_samples']:,} samples", f"{data['num_classes']:,} labels each"]
    elif data["kind"] == "comparison":
        seeds, count = len(data["seeds"]), f"{len(data['methods'])} {data['subject']}"
        own = [] if data["name"].startswith(count) else [count]
        facts = [*own, *([counted(seeds, "seed")] if seeds else []), *facts]
    elif data.get("source") and data["source"] != data["name"] and data["kind"] != "similarity":  # said in its lead
        facts.append(named(data["source"], 80))
    if data["kind"] == "monitor":
        facts = [f"{data['rows']:,} rows", counted(len(data["windows"]), "window")]
    if data.get("sampled") and data["sampled"]["rows"] < data["sampled"]["of"]:
        facts.append(f"drawn at random from {data['sampled']['of']:,}")
    return f'<p class="eyebrow">{named(data["name"], 120)}' + "".join(f"<span>{fact}</span>" for fact in facts) + "</p>"


def first_screen(data: Mapping[str, Any]) -> str:
    """The first screen of this kind of page."""
    return FIRST_SCREENS[data["kind"]](data)


EVEN = 0.9  # of the other classes: a label that is spread over more has hardly a preference


def _of_similarity(data: Mapping[str, Any]) -> str:
    odd, names = data["oddities"], data["class_names"]
    pairs = [(named(names[int(a)], 40), named(names[int(b)], 40), share) for a, b, share in data["closest"]]
    others = len(names) - 1
    spread = median(row["effective_classes"] for row in data["rows"]) if data["rows"] else 0.0
    headline = f"A label is spread over about {spread:.2g} of {others:,} other classes"
    if spread > EVEN * others:
        headline = f"Hardly a preference: a label is spread over about all {others:,} other classes"
    headline += f"; {pairs[0][0]} and {pairs[0][1]} are most alike" if pairs else ""
    contradicted = sum(one["kind"] == "disagreement" for one in odd)
    against = f", {counted(contradicted, 'row')} because another source contradicts" if contradicted else ""
    items = "".join(
        f"<li><span>{a} and {b}</span>{share_bar(share)}<span>{percent(share)}</span></li>" for a, b, share in pairs
    )
    look = (
        f'{counted(len(odd), "row")} of {len(names):,} may be worth <a href="#odd">a look</a>{against}. '
        "Most such rows are right."
        if odd
        else "No row looks wrong."
    )
    note = "The share of all its similarity that a class has for the other one, as the mean of both directions."
    return (
        '<section class="hero alike" id="answers" aria-labelledby="headline"><div>'
        f'<h1 id="headline" class="calm-title">{headline}</h1>'
        f'<p class="lead">From {escaped(data["source"] or "a similarity")}. {look}</p></div>'
        f'<div class="card"><h2>Most similar pairs</h2><ol class="alike">{items}</ol>'
        f'<p class="note">{note}</p></div></section>'
    )


def _of_results(data: Mapping[str, Any]) -> str:
    """What was found, in a sentence; the table for browsers without JavaScript."""
    heads = "".join(f'<th scope="col">{escaped(column["title"])}</th>' for column in data["columns"])
    rows = "".join(
        f'<tr><th scope="row">{named(row["name"], 60)}</th>'
        + "".join(f"<td>{_plain_cell(column, row)}</td>" for column in data["columns"])
        + f"<td>{MARKS.get(row['mark'], '')}</td></tr>"
        for row in data["rows"]
    )
    return (
        '<section class="hero" id="answers" aria-labelledby="headline">'
        f'<h1 id="headline" class="calm-title {data["tone"]}">{sentence(data["headline"])}</h1>'
        f'<p class="lead wide">{sentence(data["detail"], 900)}</p>'
        '<div class="scroll no-script"><table><thead><tr><td></td>'
        f"{heads}<td></td></tr></thead><tbody>{rows}</tbody></table></div></section>"
    )


def _of_monitor(data: Mapping[str, Any]) -> str:
    """The state of the alarm; the windows for browsers without JavaScript."""
    points = {"percent": True, "signed": True}
    rows = "".join(
        f'<tr><th scope="row">{named(window["name"], 60)}</th><td>{window["rows"]:,}</td>'
        f"<td>{percent(window['claimed'])}</td><td>{percent(window['right']['value'])}</td>"
        f"<td>{metric_text(points, window['gap']['value'])}</td>"
        f"<td>{metric_text(points, window['gap']['low'])} to {metric_text(points, window['gap']['high'])}</td></tr>"
        for window in data["windows"]
    )
    heads = "".join(
        f'<th scope="col">{head}</th>' for head in ("window", "rows", "claimed", "right", "gap", "interval")
    )
    return (
        '<section class="hero" id="answers" aria-labelledby="headline">'
        f'<h1 id="headline" class="calm-title {data["tone"]}">{sentence(data["headline"])}</h1>'
        f'<p class="lead wide">{sentence(data["detail"], 900)}</p>'
        f'<div class="scroll no-script"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
        "</section>"
    )


MARKS = {"best": "★ best", "worse": "○ worse", "kept": "✓ kept", "open": "? may be chance", "broken": "✗ broken"}


def _plain_cell(column: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    cell = row["cells"].get(column["key"])
    in_percent = row["limit"]["percent"] if "limit" in row else column.get("percent", False)
    return "–" if cell is None else metric_text({**column, "percent": in_percent}, cell["value"])


FIRST_SCREENS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "model": answers.of_model,
    "comparison": compared.of_comparison,
    "similarity": _of_similarity,
    "results": _of_results,
    "monitor": _of_monitor,
}
"""The function that draws the first screen without JavaScript, by kind of page; a new kind adds its own"""
