"""The output files of a study: the table in four formats, figures, and the page if the caller passes its writer."""

from pathlib import Path
from typing import Protocol

from softkin import diagrams
from softkin._io import files
from softkin.lab.study import columns as registry
from softkin.lab.study.folder import StudyFolder
from softkin.lab.study.tabulation import Table

FIGURES = ("figures/reliability-prediction.svg", "figures/reliability-output.svg")
TABLES = {"table.md": "to_markdown", "table.csv": "to_csv", "table.tex": "to_latex"}
PAGE = "report.html"


class WritePage(Protocol):
    """The type of ``softkin.report.write_comparison``, which is passed in because reports import studies."""

    def __call__(self, path: Path, content: StudyFolder, /, *, table: Table) -> object:
        """Write the page of a study to ``path``."""


def write(folder: StudyFolder, table: Table, write_page: WritePage | None = None) -> None:
    """Write the table, figures and page into the study's folder.

    Tables and figures stay if they are there for this very table. The page is always written again: another version
    may show the same numbers in other words.
    """
    content = files.json_bytes(table.to_dict())
    last = folder.path / "table.json"  # written last, so that it marks the others as complete
    due = [folder.path / name for name in (*TABLES, *(FIGURES if table.rows else ()))]
    complete = last.exists() and last.read_bytes() == content and all(path.exists() for path in due)
    if not complete:
        for name, form in TABLES.items():
            files.write(folder.path / name, getattr(table, form)())
        if table.rows:
            draw(folder)
    if table.rows and write_page is not None:
        write_page(folder.path / PAGE, folder, table=table)
    if not complete:
        files.write(last, content)


def written(folder: Path) -> list[Path]:
    """The files of ``write`` that exist in a folder."""
    figures = sorted((folder / "figures").glob("*.svg"))
    paths = [folder / name for name in (*TABLES, "table.json")] + figures + [folder / PAGE]
    return [path for path in paths if path.exists()]


def draw(folder: StudyFolder) -> None:
    """Draw the reliability of all methods on the first seed that has them, and confidence out of distribution."""
    from softkin._core.figures import rendered

    results = folder.results()
    first = [result for result in results if result.seed == results[0].seed]
    loaded = {registry.title(result.method): result.test() for result in first}
    labels = next(iter(loaded.values())).known_labels
    models = {title: predictions.probabilities for title, predictions in loaded.items()}
    drawn = {f"reliability-{s}": diagrams.reliability(models, labels, scope=s) for s in ("prediction", "output")}
    for number, name in enumerate(first[0].record["ood"]):
        unknown = {registry.title(result.method): result.ood(name).probabilities for result in first}
        drawn[f"ood-{number}"] = diagrams.confidence_histogram(unknown, title=f"out of distribution: {name}")
    for name, figure in drawn.items():
        files.write(folder.path / "figures" / f"{name}.svg", rendered(figure, "svg", bbox_inches="tight"))
