"""What one-hot training implies for smoothing, reported before the other methods are trained."""

import statistics
from collections.abc import Callable

from softkin import predictions
from softkin.lab.study import methods as registry
from softkin.lab.study.folder import StudyFolder
from softkin.losses import auto_alpha
from softkin.metrics.intervals import gap_and_error
from softkin.predictions import Predictions


class Baseline:
    """Waits for the one-hot trainings of all seeds, then calls ``tell`` with one sentence.

    Args:
        folder: The folder of the study. Without a one-hot training, or without other methods, ``tell`` is not called.
        tell: Called at most once; None: report nothing.
    """

    def __init__(self, folder: StudyFolder, tell: Callable[[str], None] | None) -> None:
        self._folder, self._tell = folder, tell
        spec = folder.kept.spec
        bases = spec.bases()
        if registry.ONE_HOT not in bases or len(bases) < 2:
            self._tell = None
        self._digests = [folder.plan.training(registry.ONE_HOT, {}, seed).digest for seed in spec.seeds]

    def look(self) -> None:
        """Call ``tell`` if all one-hot trainings are done and it was not called yet."""
        records = self._folder.records
        if self._tell is None or any(records.find(digest) is None for digest in self._digests):
            return
        paths = [records.path(digest) / "validation.safetensors" for digest in self._digests]
        self._tell(implied([predictions.load(path) for path in paths]))
        self._tell = None


def implied(validation: list[Predictions]) -> str:
    """The sentence, computed from the validation predictions of the one-hot networks of all seeds.

    The gap's standard error is the larger of that over seeds and that over the validation rows of a seed: seeds may
    share their rows, and then their spread does not show the rows' part.
    """
    gaps, errors = [], []
    for seed in validation:
        gap, error = gap_and_error(seed.probabilities, seed.known_labels)
        gaps.append(gap)
        errors.append(error)
    over_seeds = statistics.stdev(gaps) / len(gaps) ** 0.5 if len(gaps) > 1 else 0.0
    words = auto_alpha.what_a_gap_implies(statistics.fmean(gaps), max(over_seeds, statistics.fmean(errors)))
    seeds = f"{len(gaps)} seeds" if len(gaps) > 1 else "1 seed"
    return f"On the validation rows ({seeds}) one-hot training is {words}."
