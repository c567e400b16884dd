"""What a study leaves for people: the table in four forms, figures, and the report."""

import io
import json
from pathlib import Path

from softkin import files
from softkin.study.tables import Table, results

PICTURES = ("figures/reliability-prediction.svg", "figures/reliability-output.svg", "report.html")
TABLES = {"table.md": "to_markdown", "table.csv": "to_csv", "table.tex": "to_latex"}


def write(folder: Path, table: Table) -> None:
    """Write them into the study's folder; nothing, if all of them are there for this very table."""
    content = json.dumps(table.to_dict(), indent=1, ensure_ascii=False).encode()
    last = folder / "table.json"  # written last: where it is, the rest is
    due = [folder / name for name in (*TABLES, *(PICTURES if table.rows else ()))]
    if last.exists() and last.read_bytes() == content and all(path.exists() for path in due):
        return
    for name, form in TABLES.items():
        files.write(folder / name, getattr(table, form)().encode())
    if table.rows:
        _figures(folder)
        _report(folder, table)
    files.write(last, content)


def written(folder: Path) -> list[Path]:
    """What ``write`` has left in a folder, as far as it is there."""
    figures = sorted((folder / "figures").glob("*.svg"))
    every = [folder / name for name in (*TABLES, "table.json")] + figures + [folder / "report.html"]
    return [path for path in every if path.exists()]


def _figures(folder: Path) -> None:
    """Reliability of all methods on the first seed that has them, and how sure they are of what has no class."""
    from softkin import diagrams
    from softkin.study import methods as registry

    found = results(folder)
    first = [result for result in found if result.seed == found[0].seed]
    loaded = {registry.title(result.method): result.test() for result in first}
    labels = next(iter(loaded.values())).known_labels
    models = {title: one.probabilities for title, one in loaded.items()}
    drawn = {f"reliability-{s}": diagrams.reliability(models, labels, scope=s) for s in ("prediction", "output")}
    for number, name in enumerate(first[0].record["ood"]):
        unknown = {registry.title(result.method): result.ood(name).probabilities for result in first}
        drawn[f"ood-{number}"] = diagrams.confidence_histogram(unknown, title=f"of no class: {name}")
    for name, figure in drawn.items():
        content = io.BytesIO()
        figure.savefig(content, format="svg", bbox_inches="tight")
        files.write(folder / "figures" / f"{name}.svg", content.getvalue())


def _report(folder: Path, table: Table) -> None:
    from softkin import report

    report.write_comparison(folder, folder / "report.html", table=table)
