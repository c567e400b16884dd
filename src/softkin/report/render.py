"""Plain data → one HTML file that carries everything it needs, and the same data as JSON beside it."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from softkin._io import files
from softkin.report import first_screen

SCRIPTS = (
    "page.js",
    "address.js",
    "save.js",
    "charts.js",
    "samples.js",
    "reliability.js",
    "similarity.js",
    "classes.js",
    "abstain.js",
    "model.js",
    "unknown.js",
    "groups.js",
    "decisions.js",
    "lines.js",
    "positive.js",
    "table.js",
    "sweep.js",
    "models.js",
    "overview.js",
    "comparison.js",
    "results.js",
    "monitor.js",
    "inspector.js",
    "start.js",
)
"""The page's own code, joined into one closure; it uses no library"""


def page(data: Mapping[str, Any]) -> str:
    """The HTML of a report.

    The first screen is plain HTML (``report.first_screen``), readable without the script. The data are JSON in a block
    that browsers do not run. ``<`` is escaped, so that no text can end that block, and the script inserts texts as text
    nodes only. The page's content security policy allows this script, this style and images from data URIs, and forbids
    every request.
    """
    script = '"use strict";\n(() => {\n' + "".join(_file(name) for name in SCRIPTS) + "})();\n"
    style = _file("page.css")
    parts = {
        "policy": f"default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"script-src 'sha256-{_digest(script)}'; style-src 'sha256-{_digest(style)}'",
        "title": html.escape(f"{data['name'][:200]} · softkin"),
        "style": style,
        "header": first_screen.header(data),
        "main": first_screen.first_screen(data),
        "script": script,
        "data": embedded(data),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _file("template.html"))


def embedded(data: Mapping[str, Any]) -> str:
    """JSON that is safe inside a script element: ASCII, without ``<``, ``>`` and ``&``."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def write(path: str | Path, data: Mapping[str, Any], *, force: bool = False) -> tuple[Path, Path]:
    """Write the page, and its data as JSON beside it; each file is written atomically.

    Args:
        path: The page's path, which ends in .html; the data go to the same path with .json.
        data: The result of ``report.build`` or ``report.build_comparison``.
        force: Whether to overwrite existing files.

    Returns:
        Both paths.

    Raises:
        SoftkinError: A file exists and ``force`` is not set, or a file cannot be written.
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"`path` must end in .html, got {path.name!r}.")
    if data.get("format") != "softkin report":
        raise ValueError("`data` must come from report.build or report.build_comparison.")
    beside = path.with_suffix(".json")
    files.refuse_to_overwrite(path, beside, force=force)
    content = json.dumps(data, allow_nan=False, indent=None)
    files.write_together({beside: content, path: page(data).encode("utf-8", errors="replace")})
    return path, beside


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
