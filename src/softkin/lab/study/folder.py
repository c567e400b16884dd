"""A study's folder: its spec, its runs and its results; each record is read only once."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from softkin import predictions
from softkin.lab.study.claims import Claims
from softkin.lab.study.plan import Plan
from softkin.lab.study.records import Records, ResultRecord, kept_in, measured
from softkin.lab.training.training_run import Unknown
from softkin.metrics.measurement import Measured
from softkin.predictions import Predictions


@dataclass(frozen=True)
class Result:
    """One method on one seed: its record, and its predictions."""

    method: str
    seed: int
    record: ResultRecord
    folder: Path
    """The folder of the study"""

    @cached_property
    def metrics(self) -> dict[str, Measured]:
        """The metrics on the test rows, by key."""
        return measured(self.record)

    def test(self) -> Predictions:
        """The test predictions, calibrated if the method calibrates."""
        return predictions.load(self._file("test"))

    def validation(self) -> Predictions:
        """The validation predictions of the trained network, on which values were chosen and calibrators fitted."""
        return predictions.load(self.folder / "runs" / self.record["chosen"] / "validation.safetensors")

    def ood(self, name: str) -> Predictions:
        """The predictions for an out-of-distribution set of the study."""
        sets = tuple(self.record["ood"])
        return predictions.load(self._file(Unknown(sets).file_names()[sets.index(name)]))

    def _file(self, name: str) -> Path:
        return self.folder / "runs" / str(self.record["predictions"]) / f"{name}.safetensors"


class StudyFolder:
    """The folder of a study, as one process sees it.

    Reading a record means hashing all files of its run. This object does so once for each run, so consecutive steps
    (work, table, figures, page) share one object.
    """

    def __init__(self, path: str | Path, *, parent: int | None = None) -> None:
        """``parent`` is the process that started the study, unless it is this one."""
        self.path = Path(path)
        self.kept = kept_in(self.path)
        self.plan, self.records = Plan(self.kept), Records(self.path)
        self.claims = Claims(self.path / "claims", parent=parent)

    @staticmethod
    def of(folder: "str | Path | StudyFolder") -> "StudyFolder":
        """``folder`` as a ``StudyFolder``."""
        return folder if isinstance(folder, StudyFolder) else StudyFolder(folder)

    def results(self) -> list[Result]:
        """The finished results of every method on every seed, in the order of the study."""
        planned = self.plan.results(self.records.training)
        done = [(name, seed, self.records.result(job.digest)) for name, seed, job in planned]
        return [Result(name, seed, record, self.path) for name, seed, record in done if record is not None]


def results(folder: str | Path | StudyFolder) -> list[Result]:
    """The finished results of every method on every seed, in the order of the study."""
    return StudyFolder.of(folder).results()
