"""The first screen of a study, or of several models: the result in a few words, one picture of all, and what to do."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from softkin._io.files import from_number
from softkin.report.markup import doubts, escaped, metric_text, named, percent, sampling, sentence

NAMED = 4  # methods to list in a sentence


def of_comparison(data: Mapping[str, Any]) -> str:
    if data.get("overview"):
        return _of_overview(data)
    lines = (sentence(line, 600) for line in data["recommendation"])
    advice = "".join(re.sub(r"<p>(Use [^:<]{1,80}):", r"<p><strong>\1</strong>:", f"<p>{line}</p>") for line in lines)
    source = f'<p class="note">{named(data["source"], 300)}</p>' if data.get("source") else ""
    items = "".join(f"<li>{line}</li>" for line in findings(data))
    return (
        f'<section class="hero" id="answers" aria-labelledby="headline">{_all_doubts(data)}'
        + (f'<div class="lead recommendation" id="recommendation">{advice}</div>' if advice else "")
        + f'<h1 id="headline" class="calm-title">{headline(data)}</h1>{source}'
        + (f'<ul class="findings">{items}</ul>' if items else "")
        + f"{_verdicts(data)}{_table(data)}</section>"
    )


def _all_doubts(data: Mapping[str, Any]) -> str:
    verdicts = data.get("verdicts") or {}
    return "".join(
        doubts(verdicts[method["key"]], f"{named(method['name'], 80)}: ")
        for method in data["methods"]
        if method["key"] in verdicts
    )


def _of_overview(data: Mapping[str, Any]) -> str:
    """Headline, one picture of all rows, and what to do; the script draws the picture, and a table stands in for it."""
    seen = data["overview"]
    story = "".join(f"<p>{sentence(line, 600)}</p>" for line in data["recommendation"])
    told = f'<details class="numbers story"><summary>How this was decided</summary>{story}</details>' if story else ""
    source = f'<p class="note">{named(data["source"], 300)}</p>' if data.get("source") else ""
    return (
        f'<section class="hero" id="answers" aria-labelledby="headline">{_all_doubts(data)}'
        f'<h1 id="headline" class="calm-title {seen["kind"]}">{escaped(seen["headline"], 400)}</h1>'
        f'<p class="lead wide">{sentence(seen["detail"], 900)}</p>{sampling(data)}'
        f'<div class="overview"><div id="overview">{_overview_table(data)}</div>'
        f'<div class="choices">{"".join(map(_choice, seen["choices"]))}</div></div>{told}{source}'
        f"{_table(data)}</section>"
    )


def _choice(choice: Mapping[str, Any]) -> str:
    mark = '<p class="mark-recommended">★ Recommended</p>' if choice["kind"] == "recommended" else ""
    code = ""
    if choice["code"]:
        lines = f"<pre><code>{escaped(choice['code'], 2000)}</code></pre>"
        code = f'<details class="code"><summary>In the shell</summary>{lines}</details>'
    return (
        f'<div class="card choice-card {choice["kind"]}">{mark}<h2>{escaped(choice["title"], 200)}</h2>'
        f"<p>{sentence(choice['text'], 500)}</p>{code}</div>"
    )


def _overview_table(data: Mapping[str, Any]) -> str:
    """The numbers of the picture, for browsers without JavaScript."""
    names = {method["key"]: named(method["name"], 60) for method in data["methods"]}
    rows = "".join(
        f'<tr><th scope="row">{names[row["method"]]}</th><td>{percent(row["right"])}</td>'
        f"<td>{percent(row['sure'])}</td>"
        f"<td>{percent(row['error'])}</td><td>{'–' if row['chance'] is None else percent(row['chance'])}</td></tr>"
        for group in data["overview"]["groups"]
        for row in group["rows"]
    )
    heads = "".join(
        f'<th scope="col">{head}</th>' for head in ("method", "right", "sure", "calibration error", "chance alone")
    )
    return f'<div class="scroll no-script"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'


def leader(data: Mapping[str, Any], key: str) -> dict[str, Any] | None:
    """The best method by a metric, the methods not significantly worse, and whether the others are.

    ``proved`` needs a p-value for each of the others: without them, as with a single seed, no method is ahead.
    """
    rows = [row for row in data["table"]["rows"] if key in row["cells"]]
    best = next((row for row in rows if row["cells"][key].get("best")), None)
    if best is None:
        return None
    level = [row["method"] for row in rows if row is not best and row["cells"][key].get("tie")]
    others = [row["cells"][key] for row in rows if row is not best and not row["cells"][key].get("tie")]
    proved = bool(others) and all(cell.get("p_value") is not None for cell in others)
    return {"best": best["method"], "level": level, "proved": proved}


ONE_HOT = "one-hot"


PROVED = 0.05


def against(cell: Mapping[str, Any]) -> dict[str, Any] | None:
    """A method's difference to one-hot training, and whether it is more than chance; None without one."""
    difference = (cell.get("against") or {}).get(ONE_HOT)
    if difference is None:
        return None
    return {"value": from_number(difference["value"]), "proved": difference["p_value"] <= PROVED}


def headline(data: Mapping[str, Any]) -> str:
    """The result in a few words: which method is best calibrated, if the data show one."""
    lead = leader(data, "ece_hist")
    names = _short(data)
    if lead is None:
        return named(data["name"], 120)
    compared = [against(row["cells"]["ece_hist"]) for row in data["table"]["rows"] if "ece_hist" in row["cells"]]
    better = sum(one is not None and one["proved"] and one["value"] < 0 for one in compared)
    if better:
        rest = len(data["methods"]) - 1
        many = "the only other method is" if rest == 1 else f"{better} of {rest} other methods are"
        first = "" if rest == 1 or lead["best"] == ONE_HOT else f"; lowest ECE: {names[lead['best']]}"
        return f"{many[0].upper()}{many[1:]} better calibrated than one-hot{first}"
    if len(lead["level"]) + 1 == len(data["methods"]):
        return f"No difference in calibration found between these {data['subject']}"
    if len(lead["level"]) > 2:
        ahead = f"{len(lead['level']) + 1} {data['subject']}"
        return f"{ahead} do not differ significantly in calibration, and are ahead of the others"
    if lead["level"]:
        together = " and ".join(names[key] for key in (lead["best"], *lead["level"]))
        return f"Best calibrated: {together}, without a significant difference"
    if not lead["proved"]:
        return f"Lowest ECE: {names[lead['best']]}, without evidence that it is lower"
    return f"Best calibrated: {names[lead['best']]}"


def findings(data: Mapping[str, Any]) -> list[str]:
    """A sentence for each metric that names a winner."""
    names = _short(data)
    lines = []
    for metric in data["metrics"]:
        lead = leader(data, metric["key"]) if metric["winner"] else None
        if lead is None:
            continue
        tail = (
            ", significantly ahead of all others"
            if lead["proved"]
            else "; whether it is better than others is not known"
        )
        if lead["level"]:
            tail = f", not significantly better than {_listed([names[key] for key in lead['level']], len(names) - 1)}"
        lines.append(f"{escaped(metric['winner'])}: {names[lead['best']]}{tail}.")
    return lines


def _listed(names: Sequence[str], others: int) -> str:
    """A few names, or how many there are."""
    if len(names) > NAMED:
        return f"{len(names)} others" if len(names) < others else f"any of the {others} others"
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def _short(data: Mapping[str, Any]) -> dict[str, str]:
    return {method["key"]: named(method.get("short", method["name"]), 40) for method in data["methods"]}


def _verdicts(data: Mapping[str, Any]) -> str:
    if not data.get("verdicts"):
        return ""
    items = "".join(
        f"<li>{named(method['name'], 80)}: <strong>{escaped(data['verdicts'][method['key']]['headline'])}</strong></li>"
        for method in data["methods"]
    )
    return f'<ul class="findings verdicts">{items}</ul>'


def _table(data: Mapping[str, Any]) -> str:
    """The table for browsers without JavaScript; the script replaces it by one that can be sorted."""
    columns = data["table"]["columns"]
    heads = "".join(f'<th scope="col">{escaped(column["title"])}</th>' for column in columns)
    names = {method["key"]: named(method["name"], 60) for method in data["methods"]}
    rows = []
    for row in data["table"]["rows"]:
        cells = []
        for column in columns:
            cell = row["cells"].get(column["key"])
            text = "–" if cell is None else metric_text(column, cell["value"])
            if cell is not None and cell.get("std") is not None:
                scale = 100 if column.get("percent") else 1
                text += f'<span class="note">± {scale * from_number(cell["std"]):.{1 if scale > 1 else 3}f}</span>'
            elif cell is not None and cell.get("low") is not None:
                low, high = (metric_text(column, cell[end]) for end in ("low", "high"))
                text += f'<span class="note">{low} to {high}</span>'
            if cell is not None and cell.get("best"):
                text = f"<strong>{text}</strong>"
            elif cell is not None and _is_worse(cell):
                text += " ○"
            compared = None if cell is None else against(cell)
            if compared is not None and compared["proved"]:
                text += " ▴" if (compared["value"] > 0) == column.get("larger_is_better") else " ▾"
            cells.append(f"<td>{text}</td>")
        rows.append(f'<tr><th scope="row">{names[row["method"]]}</th>{"".join(cells)}</tr>')
    notes = "".join(f'<li class="note">{sentence(note, 600)}</li>' for note in data["notes"])
    meanings = "".join(
        f"<dt>{escaped(column['title'])}</dt><dd>{escaped(column['explained'])}</dd>"
        for column in columns
        if column.get("explained")
    )
    return (
        '<div class="no-script"><div class="scroll"><table class="results"><thead><tr><th scope="col">'
        f"{data['subject'][:-1].capitalize()}</th>{heads}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        f'<ul class="notes">{notes}</ul><dl class="meanings">{meanings}</dl></div>'
    )


def _is_worse(cell: Mapping[str, Any]) -> bool:
    """Whether a method is worse than the best beyond chance."""
    return not cell.get("tie") and not cell.get("best") and cell.get("p_value") is not None
