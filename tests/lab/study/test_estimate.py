"""The estimate of a study adds up its runs."""

from dataclasses import replace

import pytest

from softkin.lab.study import estimate as estimating
from softkin.lab.study.estimate import duration, estimate
from study_parts import quick


@pytest.fixture
def two_seconds(monkeypatch):
    """A training that takes two seconds, wherever the tests run."""
    monkeypatch.setattr(estimating, "_seconds_of_training", lambda plan, device: 2.0)


A_RESULT = estimating.RESULT + 80 * 10 * estimating.A_SCORE  # 80 test rows of ten classes


def test_seconds_are_those_of_trainings_and_results(two_seconds, tmp_path):
    study = estimate(quick(methods=["one-hot", "ts"], seeds=[0, 1, 2]), tmp_path, workers=3)
    counts = {kind: sum(job.kind == kind for job in study.jobs) for kind in ("training", "result")}
    assert counts == {"training": 3, "result": 6}
    assert (study.to_come, study.done, study.per_training, study.workers) == (0, set(), 2.0, 3)
    assert study.seconds == pytest.approx(3 * 2.0 + 6 * A_RESULT + 3 * estimating.START)
    assert f"about 2.0 s per training (measured), {duration(study.seconds / 3)} with 3 at a time" in study.text()
    assert not list(tmp_path.iterdir())


def test_several_networks_take_several_times_as_long(two_seconds, tmp_path):
    def trainings(*methods, **options):
        study = estimate(quick(methods=list(methods), seeds=[0], alpha=[0.1], **options), tmp_path, workers=1)
        return study.seconds - A_RESULT * sum(job.kind == "result" for job in study.jobs)

    assert trainings("one-hot") == pytest.approx(2)
    assert trainings("one-hot", "ensemble") == pytest.approx(2 + 5 * 2)
    assert trainings("one-hot", "ensemble", parameters={"members": 2}) == pytest.approx(2 + 2 * 2)
    assert trainings("one-hot", "distilled") == pytest.approx(2 + 6 * 2)  # its ensemble, and the network it teaches


def test_a_recipe_that_chooses_an_epoch_is_estimated_too(tmp_path):
    spec = quick(methods=["one-hot", "ts"], seeds=[0])
    chooses = replace(spec, recipe={**spec.recipe, "stop_by": "refined-nll"})
    assert estimate(chooses, tmp_path, workers=1).seconds > 0


def test_shorter_trainings_count_by_their_epochs(two_seconds, tmp_path):
    """Halving: three values of β are tried in a few epochs first."""
    spec = quick(methods=["one-hot", "we"], seeds=[0], beta=[1.0, 2.0, 4.0], search="halving")
    study = estimate(spec, tmp_path, workers=1)
    epochs = [job.run.recipe.epochs for job in study.jobs if job.kind == "training"]
    results = A_RESULT * sum(job.kind == "result" for job in study.jobs)
    assert min(epochs) < 12
    assert study.seconds == pytest.approx(results + 2 * sum(epochs) / 12 + 2 * study.to_come)


def test_trainings_of_recipes_that_are_not_chosen_yet_count(two_seconds, tmp_path):
    """Seed 0: the recipe and two neighbours, the best of which stays; WE, fitted to one-hot, cannot begin before.

    Each tries one or two weight decays more, as the best of three is often at an end.
    """
    spec = quick(methods=["one-hot", "ts", "we"], seeds=[0, 1], beta=["auto"], tune=["weight-decay"])
    study = estimate(spec, tmp_path, workers=2)
    assert study.trainings == (3 + 1) + (3 + 1) + 3
    assert study.seconds == pytest.approx(11 * 2.0 + 6 * A_RESULT + 2 * estimating.START)
    assert study.sentence() == (
        "About 11 trainings, 2 s for one-hot (measured on a few steps): 0.5 core-minutes, 14 s with 2 at a time."
    )
    both = estimate(quick(methods=["one-hot"], seeds=[0, 1, 2], tune=["lr", "weight-decay"]), tmp_path, workers=2)
    assert both.trainings == 3 + 2 + 2 + 2


def test_a_search_for_each_value_counts_as_many(two_seconds, tmp_path):
    """Seed 0: three recipes and 1.5 more for each of three values, which include what the seed needs; seed 1: one."""
    few = {"methods": ["one-hot", "uniform"], "uniform_alpha": [0.1, 0.2, 0.4], "seeds": [0, 1]}
    spec = quick(**few, tuning="first seed", tune=["weight-decay"], tune_each=True)
    study = estimate(spec, tmp_path, workers=1)
    each = 3 + estimating.FURTHER
    assert study.seconds == pytest.approx(2 * (each + 1 + 3 * each + 1) + 4 * A_RESULT)


def test_longer_trainings_of_a_search_count_by_their_epochs(two_seconds, tmp_path):
    """A third and three times the epochs: 3⅓ trainings where other fields have two."""
    spec = quick(methods=["one-hot", "ensemble"], seeds=[0], alpha=[0.1], parameters={"members": 2})
    found = {
        name: estimate(replace(spec, tune=(name,)), tmp_path, workers=1) for name in ("lr", "epochs", "weight_decay")
    }
    assert found["epochs"].seconds - found["lr"].seconds == pytest.approx(2 * (3 + 1 / 3 - 2) * (1 + 2), rel=0.03)
    assert found["weight_decay"].seconds - found["lr"].seconds == pytest.approx(2 * 1.5 * (1 + 2))
    assert "several times that if longer trainings are better" in found["epochs"].sentence()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (119.4, "119 s"), (120, "2 min"), (7199, "120 min"), (7200, "2.0 h"), (9000, "2.5 h")],
)
def test_durations_in_words(seconds, words):
    assert duration(seconds) == words
