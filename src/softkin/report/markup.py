"""Texts, numbers and notices of the first screen as HTML: everything from outside is cleaned and escaped here."""

import html
import math
import re
from collections.abc import Mapping
from typing import Any

from softkin._io.files import from_number

UNSAFE = re.compile("[\\x00-\\x1f\\x7f-\\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def sampling(data: Mapping[str, Any]) -> str:
    voted = (
        '<p class="note sampling">The labels are votes. Headline and cards count all of them. Charts, classes, '
        "calibrators and thresholds take one vote of each sample, drawn at random: an answer is wrong if that person "
        "gave another.</p>"
    )
    if not data.get("sampled"):
        return voted if data.get("votes") else ""
    rows, of = data["sampled"]["rows"], data["sampled"]["of"]
    whole = "The numbers of the cards are those of all." if data["kind"] == "model" else "So are the numbers."
    some = f"{rows:,} of the {of:,} samples, drawn at random" if rows < of else f"{of:,} samples"
    if "images" in data["sampled"]:
        some = some.replace("samples", f"pixels of {data['sampled']['images']:,} images")
        whole = (
            "The numbers of the cards have intervals over images. Everything else takes pixels as independent, which "
            "those of one image are not: thresholds and sets promise too much."
        )
    return f'<p class="note sampling">Charts, classes, calibrators and thresholds are those of {some}. {whole}</p>'


def doubts(verdict: Mapping[str, Any], name: str = "") -> str:
    """What cannot be right about the file, before anything else is said."""
    return "".join(f'<p class="doubt" role="alert">{name}{sentence(doubt)}</p>' for doubt in verdict["doubts"])


def escaped(text: str, most: int = 300) -> str:
    """Untrusted text as HTML: control and direction characters replaced, shortened, escaped."""
    keeps = "\n" if most > 1000 else ""
    clean = UNSAFE.sub(lambda hit: hit[0] if hit[0] == keeps else "\ufffd", text[: 4 * most])
    return html.escape(clean if len(clean) <= most else clean[: most - 1] + "…")


def sentence(text: str, most: int = 300) -> str:
    """A sentence of ours as HTML; its numbers keep their unit and their minus sign."""
    return re.sub(r"(^|[\s(])-(?=\d)", "\\1−", re.sub(r"(\d) %", "\\1\u202f%", escaped(text, most)))


def named(text: str, most: int) -> str:
    return f'<bdi class="name">{escaped(text, most)}</bdi>'


def address(text: str) -> str:
    from urllib.parse import quote

    return html.escape(quote(text[:400].encode("utf-8", errors="replace"), safe=""))


def counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def percent(value: Any) -> str:
    share = 100 * from_number(value)
    return f"{share:.1f}\u202f%" if abs(share) >= 9.95 else f"{share:.2f}\u202f%" if share else "0\u202f%"


def number_pair(before: Any, then: Any) -> str:
    first, second = (100 * from_number(value) for value in (before, then))
    return f"{first:.1f} → {second:.1f}\u202f%"


def metric_text(metric: Mapping[str, Any], value: Any) -> str:
    if value is None:
        return "–"
    number = from_number(value)
    if math.isinf(number):
        return "∞"
    if not metric["percent"]:
        return f"{number:.3f}".replace("-", "−")
    if metric.get("signed"):
        text = f"{100 * number:+.1f}\u202fpts"
        return text.replace("-0.0", "0.0").replace("+0.0", "0.0").replace("-", "−")
    return percent(number).replace("-", "−")
