"""A study's folder, opened: what it is, its runs and its results, each record read once however many ask."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softkin import predictions
from softkin.predictions import Predictions
from softkin.study.claims import Claims
from softkin.study.plan import Plan
from softkin.study.records import Record, Records, kept_in


@dataclass(frozen=True)
class Result:
    """One method on one seed: its record, and the predictions behind it."""

    method: str
    seed: int
    record: Record
    folder: Path
    """Of the study"""

    @property
    def metrics(self) -> dict[str, Any]:
        """All that was measured on the test rows."""
        measured: dict[str, Any] = self.record["metrics"]
        return measured

    def test(self) -> Predictions:
        """The test predictions, calibrated if the method calibrates."""
        return predictions.load(self._file("test"))

    def validation(self) -> Predictions:
        """The validation predictions of the trained network, which choices and calibrators saw."""
        return predictions.load(self.folder / "runs" / self.record["chosen"] / "validation.safetensors")

    def ood(self, name: str) -> Predictions:
        """The predictions for an out-of-distribution set of the study."""
        number = self.record["ood"].index(name)
        return predictions.load(self._file(f"ood-{number}"))

    def _file(self, name: str) -> Path:
        return self.folder / "runs" / str(self.record["predictions"]) / f"{name}.safetensors"


class StudyFolder:
    """The folder of a study, as one process sees it.

    Reading a record means hashing all files of its run. This object does it once for each run, so functions that follow
    each other (work, table, figures, page) share one.
    """

    def __init__(self, path: str | Path, *, parent: int | None = None) -> None:
        """``parent`` is the process that started the study, if it is not this one."""
        self.path = Path(path)
        self.kept = kept_in(self.path)
        self.plan, self.records = Plan(self.kept), Records(self.path)
        self.claims = Claims(self.path / "claims", parent=parent)

    @staticmethod
    def of(folder: "str | Path | StudyFolder") -> "StudyFolder":
        """``folder``, opened if it is not yet."""
        return folder if isinstance(folder, StudyFolder) else StudyFolder(folder)

    def results(self) -> list[Result]:
        """Every method on every seed that is done, in the order of the study."""
        done = [(name, seed, self.records.find(job.digest)) for name, seed, job in self.plan.results(self.records.find)]
        return [Result(name, seed, record, self.path) for name, seed, record in done if record is not None]


def results(folder: str | Path | StudyFolder) -> list[Result]:
    """Every method on every seed that is done, in the order of the study."""
    return StudyFolder.of(folder).results()
