"""What a study leaves for people: the table in four forms, figures, and the report."""

import json
from pathlib import Path

from softkin import matrices
from softkin.study.tables import Table, results

TABLES = {"table.md": "to_markdown", "table.csv": "to_csv", "table.tex": "to_latex"}


def write(folder: Path, table: Table) -> list[Path]:
    """Write them into the study's folder; the files in the order in which people want them."""
    written = []
    for name, form in TABLES.items():
        matrices.write(folder / name, getattr(table, form)().encode())
        written.append(folder / name)
    matrices.write(folder / "table.json", json.dumps(table.to_dict(), indent=1, ensure_ascii=False).encode())
    written.append(folder / "table.json")
    if table.rows:
        written += _figures(folder)
        written += _report(folder)
    return written


def _figures(folder: Path) -> list[Path]:
    """Reliability of all methods on the first seed that has them."""
    import io

    from softkin import diagrams
    from softkin.study import methods as registry

    found = results(folder)
    first = [result for result in found if result.seed == found[0].seed]
    loaded = {registry.title(result.method): result.test() for result in first}
    labels = next(iter(loaded.values())).known_labels
    models = {title: one.probabilities for title, one in loaded.items()}
    written = []
    for scope in ("prediction", "output"):
        figure = diagrams.reliability(models, labels, scope=scope)
        content = io.BytesIO()
        figure.savefig(content, format="svg", bbox_inches="tight")
        path = folder / "figures" / f"reliability-{scope}.svg"
        matrices.write(path, content.getvalue())
        written.append(path)
    return written


def _report(folder: Path) -> list[Path]:
    """The page, where softkin has one."""
    try:
        from softkin import report
    except ImportError:
        return []
    path = folder / "report.html"
    report.write_comparison(folder, path)
    return [path]
