"""Bring finished studies into the repository, and write the tables of docs/results.md from them.

python paper/collect.py FOLDER   what paper/run.sh left there: copies specs, tables and records, without weights
python paper/collect.py          only writes the tables again, from paper/records/

In docs/results.md a table stands between <!-- table NAME … --> and <!-- end -->. NAME is a study, or "pairs" for paired
differences: the mean over seeds of what one method has more than another, with Student's 95 % interval.
"""

import gzip
import json
import math
import re
import shutil
import sys
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from scipy.stats import t as student

HERE = Path(__file__).parent
RECORDS, PAGE = HERE / "records", HERE.parent / "docs" / "results.md"
COLUMNS = {
    "accuracy": ("accuracy", 100, 1),
    "nll": ("NLL", 1, 3),
    "signed_gap": ("gap", 100, 1),
    "ece_hist": ("Hist P", 100, 1),
    "ece_hist_output": ("Hist O", 100, 1),
}


# From a folder of studies


def collect(folder: Path) -> None:
    """Copy what a reader can check: spec, table with the values of every seed, and one line for each run."""
    for table in sorted(folder.glob("*/table.json")):
        kept = RECORDS / table.parent.name
        kept.mkdir(parents=True, exist_ok=True)
        for name in ("study.json", "table.json"):
            shutil.copyfile(table.parent / name, kept / name)
        records = [json.loads(path.read_text()) for path in sorted(table.parent.glob("runs/*/record.json"))]
        lines = "".join(json.dumps(record, sort_keys=True) + "\n" for record in records)
        (kept / "records.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
        print(f"{table.parent.name}: {len(records)} records")


# The tables


def rows_of(study: str) -> dict[str, Any]:
    """The rows of a study's table by method."""
    table = json.loads((RECORDS / study / "table.json").read_text())
    return {row["method"]: row for row in table["rows"]}


def study_table(study: str) -> str:
    """All methods of a study: mean over seeds, and the standard deviation for error and NLL."""
    lines = [
        "| method | " + " | ".join(title for title, _, _ in COLUMNS.values()) + " |",
        "| --- |" + " ---: |" * len(COLUMNS),
    ]
    for row in rows_of(study).values():
        cells = [
            cell(row["cells"][key], factor, digits)
            for key, (_, factor, digits) in COLUMNS.items()
            if key in row["cells"]
        ]
        lines.append(f"| {row['title']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(value: dict[str, Any], factor: float, digits: int) -> str:
    """A mean with its deviation over seeds, bold if it is the best, ≈ if chance may explain the difference to it."""
    if not isinstance(value["mean"], int | float):
        return "∞"
    text = f"{factor * value['mean']:.{digits}f}".replace("-", "−")
    text = f"**{text}**" if value["best"] else f"{text} ≈" if value["tie"] else text
    return f"{text} ± {factor * value['std']:.{digits}f}" if value["std"] is not None else text


def difference(one: dict[str, Any], other: dict[str, Any]) -> tuple[float, float]:
    """Mean over seeds of the paired differences, and half of Student's 95 % interval."""
    pairs = [a - b for a, b in zip(one["values"], other["values"], strict=True)]
    half = student.ppf(0.975, len(pairs) - 1) * stdev(pairs) / math.sqrt(len(pairs)) if len(pairs) > 1 else math.inf
    return fmean(pairs), float(half)


def pairs_table(pairs: str) -> str:
    """For each "study:method-other" of a list, what the method has more than the other."""
    lines = [
        "| study | method | against | " + " | ".join(title for title, _, _ in COLUMNS.values()) + " |",
        "| --- | --- | --- |" + " ---: |" * len(COLUMNS),
    ]
    for pair in pairs.split():
        study, _, methods = pair.partition(":")
        first, _, second = methods.partition("/")
        rows = rows_of(study)
        if first not in rows or second not in rows:
            continue
        cells = []
        for key, (_, factor, digits) in COLUMNS.items():
            mean, half = difference(rows[first]["cells"][key], rows[second]["cells"][key])
            text = f"{factor * mean:+.{digits}f} ± {factor * half:.{digits}f}".replace("-", "−")
            cells.append(f"**{text}**" if abs(mean) > half else text)
        lines.append(f"| {study} | {rows[first]['title']} | {rows[second]['title']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def write_tables() -> None:
    """Every marked table of docs/results.md, from paper/records/."""

    def table(match: re.Match[str]) -> str:
        name, _, rest = match[1].strip().partition(" ")
        text = pairs_table(rest) if name == "pairs" else study_table(name)
        return f"<!-- table {match[1].strip()} -->\n\n{text}\n\n<!-- end -->"

    page = PAGE.read_text()
    PAGE.write_text(re.sub(r"<!-- table (.*?) -->.*?<!-- end -->", table, page, flags=re.DOTALL))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        collect(Path(sys.argv[1]))
    if PAGE.exists():
        write_tables()
