"""From a study to its runs: which runs there are, what each needs, which are shared, which values were chosen.

Three kinds of run, each named by the digest of everything that it depends on:

- ``DistancesRun``: class distances of the training rows of a seed (for class names, of the study), used by every trial;
- ``TrainingRun``: one network, one method, one set of values, one seed; writes validation and test predictions;
- ``ResultRun``: one method, one seed: chooses among the trials, fits the calibrator if the method is one, and measures.

Nothing here reads the clock, draws numbers or trains: the same records give the same plan in every process.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from softkin import word_vectors
from softkin.lab.study import columns as registry
from softkin.lab.study.records import Kept, Record, measured
from softkin.lab.training.methods import Value, in_words
from softkin.lab.training.recipe import Recipe
from softkin.lab.training.training_run import FOLLOWS, Rows, Run, TrainingRun, Unknown
from softkin.metrics import catalogue

Lookup = Callable[[str], Record | None]
"""The record of a run, by its digest, if the run is done"""


@dataclass(frozen=True)
class DistancesRun(Run):
    """Class distances of training rows, or of class names alone."""

    kind = "distances"

    source: str
    """The name of the distance source"""
    options: Mapping[str, Any]
    data: Mapping[str, str]
    """The data's source and digest"""
    digests: Mapping[str, str | None]
    """The digests of the files that the options name"""
    rows: Rows | None
    """The rows that are measured; None if names are enough"""
    named_by: Rows = field(metadata=FOLLOWS)
    """Rows that have the classes"""


@dataclass(frozen=True)
class Choice:
    """The trial that was chosen, and those that it was chosen from."""

    run: str
    values: Mapping[str, Value]
    tried: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class ResultRun(Run):
    """The result of one method on one seed."""

    kind = "result"

    method: str
    seed: int
    calibrator: str | None
    candidates: tuple[str, ...]
    """The digests of the trainings to choose from"""
    chosen_by: Mapping[str, Any]
    """How values are chosen, if there are several"""
    choice: Choice | None = field(default=None, metadata=FOLLOWS)
    """None until all deciding trials are done"""


@dataclass(frozen=True)
class Job:
    """One run of a study."""

    run: DistancesRun | TrainingRun | ResultRun
    title: str
    """Its title for messages and tables"""
    needs: tuple[str, ...] = ()
    """Digests of the runs that must be done first"""

    @cached_property
    def digest(self) -> str:
        """The digest that names the run."""
        return self.run.digest

    @property
    def kind(self) -> str:
        """Whether it measures distances, trains, or makes a result."""
        return self.run.kind

    @property
    def undecided(self) -> bool:
        """Whether it is a result whose values are still to be chosen."""
        return isinstance(self.run, ResultRun) and self.run.choice is None


@dataclass(frozen=True)
class Trial:
    """A set of values that a method tries, and its result."""

    job: Job
    values: Mapping[str, Value]
    epochs: int
    record: Record | None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the record of the choice."""
        metrics = None if self.record is None else self.record["metrics"]
        return {"run": self.job.digest, "values": dict(self.values), "epochs": self.epochs, "validation": metrics}


@dataclass(frozen=True)
class Search:
    """The state of the choice of a method's values."""

    trials: tuple[Trial, ...]
    chosen: Trial | None
    """None until all deciding trials are done"""


class Plan:
    """The runs of a study."""

    def __init__(self, kept: Kept) -> None:
        self.spec, self.recipe = kept.spec, dict(kept.spec.recipe)
        self._data = {"source": kept.spec.data, "digest": str(kept.data["digest"])}
        self._contents = kept.contents
        self._methods = registry.known()
        self._trainings: dict[Any, Job] = {}

    # The three kinds

    def distances(self, method: str, seed: int) -> Job:
        """The class distances that a similarity method needs."""
        spec = self.spec
        source = self._methods[method].source
        assert source is not None
        options: dict[str, Any] = {name: value for name, value in spec.sources.items() if name in source.options}
        digests = {name: self._contents.get(f"source {name}") for name in options}
        if "vectors" in source.options:
            options["vectors"] = spec.vectors or word_vectors.DEFAULT
            digests["vectors"] = self._contents.get("vectors")
        if "aliases" in source.options:
            options["aliases"] = dict(spec.aliases)
        rows = self._rows(seed) if source.uses_samples else None
        where = self._rows(seed if source.uses_samples else spec.seeds[0])
        title = f"{source.title} distances" + (f", seed {seed}" if source.uses_samples else "")
        return Job(DistancesRun(source.name, options, self._data, digests, rows, where), title)

    def training(self, base: str, values: Mapping[str, Value], seed: int, *, epochs: int | None = None) -> Job:
        """The training of one network."""
        key = base, tuple(values.items()), seed, epochs
        if key not in self._trainings:  # cached, as each pass over the plan needs all of them
            self._trainings[key] = self._training(base, values, seed, epochs)
        return self._trainings[key]

    def _training(self, base: str, values: Mapping[str, Value], seed: int, epochs: int | None) -> Job:
        spec = self.spec
        recipe = self.recipe if epochs is None else shortened(self.recipe, epochs)
        assert spec.model is not None
        run = TrainingRun(
            base,
            dict(values),
            seed,
            self._rows(seed),
            spec.model,
            spec.model_options,
            Recipe.from_dict(recipe),
            self._ood(),
        )
        needs: tuple[str, ...] = ()
        if self._methods[base].source is not None:
            needs = (self.distances(base, seed).digest,)
            if values["beta"] == "auto" and registry.ONE_HOT in spec.bases():
                needs += (self.training(registry.ONE_HOT, {}, seed).digest,)
            run = dataclasses.replace(run, distances=needs[0], outputs=needs[1] if len(needs) > 1 else None)
        return Job(run, f"{described(base, values, recipe, self.recipe)}, seed {seed}", needs)

    def result(self, method: str, seed: int, lookup: Lookup) -> Job:
        """The result of a method on a seed."""
        spec = self.spec
        base, calibrator = registry.parts(method)
        search = self.search(base, seed, lookup)
        seeds = {seed, spec.seeds[0]} if spec.tuning == "first seed" else {seed}
        candidates = sorted(
            self.training(base, values, tuned_on).digest for values in spec.candidates(base) for tuned_on in seeds
        )
        chosen_by: dict[str, Any] = {}
        if len(spec.candidates(base)) > 1:
            chosen_by = {key: getattr(spec, key) for key in ("select", "search", "tuning", "accuracy_budget")}
            if self._measured_against_one_hot:
                one_hot = (self.training(registry.ONE_HOT, {}, tuned_on) for tuned_on in seeds)
                chosen_by["budget_of"] = sorted(job.digest for job in one_hot)
        choice = None
        needs: tuple[str, ...] = tuple(trial.job.digest for trial in search.trials)
        if search.chosen is not None:
            tried = tuple(trial.to_dict() for trial in search.trials)
            choice = Choice(search.chosen.job.digest, dict(search.chosen.values), tried)
            needs = (choice.run,)
        run = ResultRun(method, seed, calibrator, tuple(candidates), chosen_by, choice)
        return Job(run, f"result of {registry.title(method)}, seed {seed}", needs)

    # What is tried and chosen

    def search(self, base: str, seed: int, lookup: Lookup) -> Search:
        """The trials of a method on a seed that are due or done so far, and the choice if it can be made."""
        spec = self.spec
        candidates = spec.candidates(base)
        first = spec.seeds[0]
        if spec.tuning == "first seed" and seed != first and len(candidates) > 1:
            decided = self.search(base, first, lookup).chosen
            if decided is None:
                return Search((), None)
            trial = self._trial(base, decided.values, seed, self.recipe["epochs"], lookup)
            return Search((trial,), trial if trial.record else None)
        if spec.search == "grid" or len(candidates) == 1:
            trials = [self._trial(base, values, seed, self.recipe["epochs"], lookup) for values in candidates]
            return Search(tuple(trials), self._choice(trials, base, seed, lookup))
        return self._halving(base, seed, candidates, lookup)

    def _halving(self, base: str, seed: int, candidates: list[dict[str, Value]], lookup: Lookup) -> Search:
        """Successive halving: all values train briefly, the better half twice as long, until one is left."""
        trials_so_far: list[Trial] = []
        left: list[Mapping[str, Value]] = list(candidates)
        rungs = math.ceil(math.log2(len(candidates)))
        for rung in range(rungs, -1, -1):
            epochs = max(1, round(self.recipe["epochs"] / 2**rung))
            trials = [self._trial(base, values, seed, epochs, lookup) for values in left]
            trials_so_far += trials
            if any(trial.record is None for trial in trials):
                return Search(tuple(trials_so_far), None)
            if rung == 0:
                return Search(tuple(trials_so_far), trials[0])
            ranked = self._ranked(trials, None)  # not against one-hot, which trained longer
            left = [trial.values for trial in ranked[: -(-len(trials) // 2)]]
        raise AssertionError("the last rung returns")

    def _trial(self, base: str, values: Mapping[str, Value], seed: int, epochs: int, lookup: Lookup) -> Trial:
        job = self.training(base, values, seed, epochs=None if epochs == self.recipe["epochs"] else epochs)
        return Trial(job, values, epochs, lookup(job.digest))

    def _choice(self, trials: list[Trial], base: str, seed: int, lookup: Lookup) -> Trial | None:
        if any(trial.record is None for trial in trials):
            return None
        if len(trials) == 1:
            return trials[0]
        reference = self._one_hot(seed, lookup)
        if reference is None and self._measured_against_one_hot:
            return None  # not trained yet
        return self._ranked(trials, reference)[0]

    @property
    def _measured_against_one_hot(self) -> bool:
        return self.spec.accuracy_budget is not None and registry.ONE_HOT in self.spec.bases()

    def _one_hot(self, seed: int, lookup: Lookup) -> Record | None:
        if not self._measured_against_one_hot:
            return None
        return lookup(self.training(registry.ONE_HOT, {}, seed).digest)

    def _ranked(self, trials: list[Trial], reference: Record | None) -> list[Trial]:
        """The trials ordered by validation metric, the best first; ties keep the order of the grid."""
        spec = self.spec
        tried = [(trial, _metrics(trial.record)) for trial in trials]
        if spec.accuracy_budget is None:
            cost = catalogue.METRICS[spec.select].cost
            return [trial for trial, _ in sorted(tried, key=lambda pair: cost(pair[1][spec.select]))]
        best = max(metrics["accuracy"] for _, metrics in tried)
        least = (best if reference is None else _metrics(reference)["accuracy"]) - spec.accuracy_budget / 100

        def order(pair: tuple[Trial, Mapping[str, float]]) -> tuple[int, float]:
            metrics = pair[1]
            if metrics["accuracy"] >= least - 1e-12:
                return 0, metrics["ece_hist_output"]
            return 1, -metrics["accuracy"]  # none is within the budget: take the one that loses least

        return [trial for trial, _ in sorted(tried, key=order)]

    # All of them

    def jobs(self, lookup: Lookup) -> Iterator[Job]:
        """Every run that is known so far, in the order in which to take them.

        One-hot trainings of all seeds come first: what they show says whether to wait for the others. Then seed by
        seed, what others need first; results that wait for a choice are among them.
        """
        seen: set[str] = set()
        if registry.ONE_HOT in self.spec.bases():
            for seed in self.spec.seeds:
                yield from _once(self.training(registry.ONE_HOT, {}, seed), seen)
        for seed in self.spec.seeds:
            for base in self.spec.bases():
                if self._methods[base].source is not None:
                    yield from _once(self.distances(base, seed), seen)
                for trial in self.search(base, seed, lookup).trials:
                    yield from _once(trial.job, seen)
            for method in self.spec.methods:
                yield from _once(self.result(method, seed, lookup), seen)

    def results(self, lookup: Lookup) -> list[tuple[str, int, Job]]:
        """All results as (method, seed, run); the table averages them over seeds."""
        return [(name, seed, self.result(name, seed, lookup)) for name in self.spec.methods for seed in self.spec.seeds]

    def _rows(self, seed: int) -> Rows:
        spec = self.spec
        return Rows(
            spec.data, seed, spec.max_per_class, spec.validation, spec.test, spec.size, digest=self._data["digest"]
        )

    def _ood(self) -> Unknown:
        sets = self.spec.ood
        if not sets:
            return Unknown()
        return Unknown(sets, self.spec.ood_rows, tuple(self._contents.get(f"ood {name}") for name in sets))


def _metrics(record: Record | None) -> Mapping[str, float]:
    assert record is not None
    return {key: one.value for key, one in measured(record).items()}


def _once(job: Job, seen: set[str]) -> Iterator[Job]:
    if job.digest not in seen:
        seen.add(job.digest)
        yield job


def shortened(recipe: Mapping[str, Any], epochs: int) -> dict[str, Any]:
    """A recipe shortened to fewer epochs, with milestones and warm-up scaled accordingly."""
    share = epochs / recipe["epochs"]
    short = {**recipe, "epochs": epochs}
    if recipe.get("milestones"):
        short["milestones"] = [max(1, round(share * milestone)) for milestone in recipe["milestones"]]
    if recipe.get("warmup_epochs"):
        short["warmup_epochs"] = round(share * recipe["warmup_epochs"])
    return short


def described(base: str, values: Mapping[str, Value], recipe: Mapping[str, Any], full: Mapping[str, Any]) -> str:
    """A training in a few words."""
    parts = [in_words(values)] if values else []
    if recipe["epochs"] != full["epochs"]:
        parts.append(f"{recipe['epochs']} epochs")
    return " ".join([registry.title(base), *([f"({', '.join(parts)})"] if parts else [])])
