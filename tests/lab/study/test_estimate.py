"""The estimate of a study adds up its runs."""

import pytest

from softkin.lab.study import estimate as estimating
from softkin.lab.study.estimate import duration, estimate
from study_parts import quick


@pytest.fixture
def two_seconds(monkeypatch):
    """A training that takes two seconds, wherever the tests run."""
    monkeypatch.setattr(estimating, "_seconds_of_training", lambda plan, device: 2.0)


def test_seconds_are_those_of_trainings_and_results(two_seconds, tmp_path):
    study = estimate(quick(methods=["one-hot", "ts"], seeds=[0, 1, 2]), tmp_path, workers=3)
    counts = {kind: sum(job.kind == kind for job in study.jobs) for kind in ("training", "result")}
    assert counts == {"training": 3, "result": 6}
    assert (study.to_come, study.done, study.per_training, study.workers) == (0, set(), 2.0, 3)
    assert study.seconds == pytest.approx(3 * 2.0 + 6 * estimating.RESULT)
    assert f"about 2.0 s per training (measured), {duration(study.seconds / 3)} with 3 at a time" in study.text()
    assert not list(tmp_path.iterdir())


def test_several_networks_take_several_times_as_long(two_seconds, tmp_path):
    def trainings(*methods):
        study = estimate(quick(methods=list(methods), seeds=[0], alpha=[0.1]), tmp_path, workers=1)
        return study.seconds - estimating.RESULT * sum(job.kind == "result" for job in study.jobs)

    assert trainings("one-hot") == pytest.approx(2)
    assert trainings("one-hot", "ensemble") == pytest.approx(2 + 5 * 2)
    assert trainings("one-hot", "distilled") == pytest.approx(2 + 6 * 2)  # its ensemble, and the network it teaches


def test_shorter_trainings_count_by_their_epochs(two_seconds, tmp_path):
    """Halving: three values of β are tried in a few epochs first."""
    spec = quick(methods=["one-hot", "we"], seeds=[0], beta=[1.0, 2.0, 4.0], search="halving")
    study = estimate(spec, tmp_path, workers=1)
    epochs = [job.run.recipe.epochs for job in study.jobs if job.kind == "training"]
    results = estimating.RESULT * sum(job.kind == "result" for job in study.jobs)
    assert min(epochs) < 12
    assert study.seconds == pytest.approx(results + 2 * sum(epochs) / 12 + 2 * study.to_come)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (119.4, "119 s"), (120, "2 min"), (7199, "120 min"), (7200, "2.0 h"), (9000, "2.5 h")],
)
def test_durations_in_words(seconds, words):
    assert duration(seconds) == words
