"""From a study to its runs: which runs there are, what each needs, which are shared, which values were chosen.

Three kinds of run, each named by the digest of everything that it depends on:

- ``DistancesRun``: class distances of the training rows of a seed (for class names, of the study), used by every trial;
- ``TrainingRun``: one network, one method, one set of values, one seed; writes validation and test predictions;
- ``ResultRun``: one method, one seed: chooses among the trials, fits the calibrator if the method is one, and measures.

Nothing here reads the clock, draws numbers or trains: the same records give the same plan in every process.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from softkin import word_vectors
from softkin._io import files
from softkin.lab.study import columns
from softkin.lab.study import columns as registry
from softkin.lab.study.records import Kept, TrainingRecord, measured
from softkin.lab.study.spec import REFINED, TREE, TUNABLE
from softkin.lab.training.methods import Value, in_words
from softkin.lab.training.recipe import Recipe
from softkin.lab.training.training_run import FOLLOWS, Rows, Run, TrainingRun, Unknown
from softkin.metrics import catalogue

FACTOR = 3.0
"""Between neighbouring values of a recipe's field that is searched"""
MOST_STEPS = 5  # factors from the recipe's value: 243
LEAST_DECAY = 1e-4  # the first weight decay that is tried beside 0

Lookup = Callable[[str], TrainingRecord | None]
"""The record of a training, by its digest, if it is done"""


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
    """The digests of the files that the options name; without a file, for "outputs" of the training that has them, and
    for "tree" of the file that comes with the data"""
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
    tuning: "Tuning | None" = None
    """The search of the recipe, if there was one"""


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
    head: columns.Head | None = None
    """What the calibrator reads besides predictions, if it is a head"""

    def spec(self) -> dict[str, Any]:
        """Everything that the outcome depends on; only a head adds a field."""
        return {key: value for key, value in super().spec().items() if key != "head" or value is not None}


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
    record: TrainingRecord | None

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


@dataclass(frozen=True)
class RecipeTrial:
    """A recipe that a method tries on the first seed."""

    job: Job
    field: str
    """The field of the recipe that is being searched"""
    recipe: Mapping[str, Any]
    record: TrainingRecord | None

    @property
    def loss(self) -> float:
        """The validation NLL after a temperature."""
        return _refined(self.record)


@dataclass(frozen=True)
class Tuning:
    """The search of a method's recipe on the first seed."""

    trials: tuple[RecipeTrial, ...]
    """Those that are due or done so far, without repetitions"""
    recipe: Mapping[str, Any] | None
    """None until it is decided"""

    def to_dict(self, names: Sequence[str]) -> dict[str, Any]:
        """Plain data for the record of a result: the fields that were searched, what was tried, and what it gained."""
        assert self.recipe is not None
        tried = [
            {
                "run": trial.job.digest,
                "field": trial.field,
                "value": trial.recipe[trial.field],
                "refined_nll": trial.loss,
            }
            for trial in self.trials
        ]
        best = min(trial.loss for trial in self.trials)
        gain = self.trials[0].loss - best if math.isfinite(self.trials[0].loss) else math.inf
        return {"chosen": {name: self.recipe[name] for name in names}, "tried": tried, "gain": files.number(gain)}


class Plan:
    """The runs of a study."""

    def __init__(self, kept: Kept) -> None:
        self.spec, self.recipe = kept.spec, dict(kept.spec.recipe)
        self._data = {"source": kept.spec.data, "digest": str(kept.data["digest"])}
        self._contents = kept.contents
        self._kin = str(kept.data.get("kin", columns.NAMES))
        self._methods = registry.known()
        self._trainings: dict[Any, Job] = {}
        self._tuned: dict[Any, Tuning] = {}

    # The three kinds

    def distances(self, method: str, seed: int, *, one_hot: Mapping[str, Any] | None = None) -> Job:
        """The class distances that a similarity method needs; ``one_hot`` as for ``training``."""
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
        if TREE in source.options and TREE not in options:
            digests[TREE] = self._contents.get(f"own {TREE}")
        needs: tuple[str, ...] = ()
        if spec.learns_from_one_hot(method):
            needs = (self.training(registry.ONE_HOT, {}, seed, recipe=one_hot).digest,)
            digests["outputs"] = needs[0]
        each_seed = source.uses_samples or bool(needs)
        rows = self._rows(seed) if source.uses_samples else None
        where = self._rows(seed if each_seed else spec.seeds[0])
        title = f"{source.title} distances" + (f", seed {seed}" if each_seed else "")
        return Job(DistancesRun(source.name, options, self._data, digests, rows, where), title, needs)

    def training(
        self,
        base: str,
        values: Mapping[str, Value],
        seed: int,
        *,
        recipe: Mapping[str, Any] | None = None,
        one_hot: Mapping[str, Any] | None = None,
    ) -> Job:
        """The training of one network.

        Args:
            base: The training method.
            values: Its values.
            seed: The seed.
            recipe: The recipe; by default the study's.
            one_hot: The recipe of the one-hot training that β of "auto" is fitted to; by default the study's.
        """
        mine = recipe or self.recipe
        key = base, tuple(values.items()), seed, _key(mine), _key(one_hot or self.recipe)
        if key not in self._trainings:  # cached, as each pass over the plan needs all of them
            self._trainings[key] = self._training(base, values, seed, mine, one_hot)
        return self._trainings[key]

    def _training(
        self,
        base: str,
        values: Mapping[str, Value],
        seed: int,
        recipe: Mapping[str, Any],
        one_hot: Mapping[str, Any] | None,
    ) -> Job:
        spec = self.spec
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
            needs = (self.distances(base, seed, one_hot=one_hot).digest,)
            if values["beta"] == "auto" and registry.ONE_HOT in spec.bases():
                needs += (self.training(registry.ONE_HOT, {}, seed, recipe=one_hot).digest,)
            run = dataclasses.replace(run, distances=needs[0], outputs=needs[1] if len(needs) > 1 else None)
        return Job(run, f"{described(base, values, recipe, self.recipe)}, seed {seed}", needs)

    def _follows_one_hot(self, base: str, values: Mapping[str, Value]) -> bool:
        """Whether a training is fitted to what the one-hot network of its seed confuses."""
        if self._methods[base].source is None or registry.ONE_HOT not in self.spec.bases():
            return False
        return values["beta"] == "auto" or self.spec.learns_from_one_hot(base)

    def result(self, method: str, seed: int, lookup: Lookup) -> Job:
        """The result of a method on a seed."""
        spec = self.spec
        base, calibrator = registry.parts(method)
        search = self.search(base, seed, lookup, spec.selects(method))
        seeds = {seed, spec.seeds[0]} if spec.tuning == "first seed" else {seed}
        candidates = sorted(
            self.training(base, values, tuned_on).digest for values in spec.candidates(base) for tuned_on in seeds
        )
        chosen_by: dict[str, Any] = {}
        if len(spec.candidates(base)) > 1:
            chosen_by = {key: getattr(spec, key) for key in ("search", "tuning", "accuracy_budget")}
            chosen_by["select"] = spec.selects(method)
            if self._measured_against_one_hot:
                one_hot = (self.training(registry.ONE_HOT, {}, tuned_on) for tuned_on in seeds)
                chosen_by["budget_of"] = sorted(job.digest for job in one_hot)
        if spec.tune:  # from the recipes of the candidates, on the first seed
            first = self.training(base, self._middle(base), spec.seeds[0])
            finer = {"half_steps": True} if spec.half_steps else {}
            finer |= {"each": True} if len(self.tuned_with(base)) > 1 else {}
            chosen_by["tune"] = {"fields": list(spec.tune), "from": first.digest, **finer}
        choice = None
        needs: tuple[str, ...] = tuple(trial.job.digest for trial in search.trials)
        if search.chosen is not None:
            tried = tuple(trial.to_dict() for trial in search.trials)
            tuning = self.tuning(base, lookup, search.chosen.values) if spec.tune else None
            choice = Choice(search.chosen.job.digest, dict(search.chosen.values), tried, tuning)
            needs = (choice.run,)
        head = None
        if calibrator in columns.HEADS:
            kin = self.kin(method, seed)
            beta = spec.beta[0] if len(spec.beta) == 1 else "auto"
            head = columns.Head(self._rows(seed), None if kin is None else kin.digest, beta, self._ood())
            needs += () if kin is None else (kin.digest,)
        run = ResultRun(method, seed, calibrator, tuple(candidates), chosen_by, choice, head)
        return Job(run, f"result of {registry.title(method)}, seed {seed}", needs)

    def kin(self, method: str, seed: int) -> Job | None:
        """The class distances that a head leans on; None for a method that has no such head."""
        return self.distances(self._kin, seed) if registry.parts(method)[1] == columns.USES_KIN else None

    # What is tried and chosen

    def tuning(self, base: str, lookup: Lookup, values: Mapping[str, Value] | None = None) -> Tuning:
        """The search of a method's recipe on the first seed: one field after the other, by validation NLL after a
        temperature.

        The method has these values, if the study searches for each of them; by default, and otherwise, the middle one.

        A field's values are a third of the recipe's, the recipe's, and three times that. If the best is at an end, the
        next value there is tried. With ``half_steps``, half a step to either side of the best comes last.
        """
        values = self._middle(base) if values is None or not self.spec.tune_each else values
        key = base, tuple(values.items())
        if key in self._tuned:
            return self._tuned[key]
        recipe, trials = dict(self.recipe), dict[str, RecipeTrial]()
        one_hot = None
        if self._follows_one_hot(base, values):
            one_hot = self.recipe_of(registry.ONE_HOT, lookup)
            if one_hot is None:
                return Tuning((), None)
        for name in self.spec.tune:
            steps: list[float] = [0, -1, 1]
            while True:
                tried = {step: _stepped(recipe, name, step) for step in steps}
                found = {}
                for step, changed in tried.items():
                    job = self.training(base, values, self.spec.seeds[0], recipe=changed, one_hot=one_hot)
                    found[step] = RecipeTrial(job, name, changed, lookup(job.digest))
                    trials.setdefault(job.digest, found[step])
                if any(trial.record is None for trial in found.values()):
                    return Tuning(tuple(trials.values()), None)
                best = min(steps, key=lambda step: (found[step].loss, abs(step)))
                more = self._steps_to_try(steps, best)
                known = list(tried.values())
                more = [step for step in more if _stepped(recipe, name, step) not in known]
                if not more:
                    break
                steps += more
            recipe = dict(tried[best])
        self._tuned[key] = Tuning(tuple(trials.values()), recipe)
        return self._tuned[key]

    def _steps_to_try(self, steps: Sequence[float], best: float) -> list[float]:
        """The next step if the best is at an end, else half a step to either side of it, if asked for."""
        if any(step % 1 for step in steps):
            return []
        ends = [end for end in (min(steps) - 1, max(steps) + 1) if abs(end - best) == 1 and abs(end) <= MOST_STEPS]
        halves = (best - 0.5, best + 0.5) if self.spec.half_steps else ()
        return ends or [step for step in halves if abs(step) <= MOST_STEPS]

    def _middle(self, base: str) -> dict[str, Value]:
        candidates = self.spec.candidates(base)
        return candidates[len(candidates) // 2]

    def tuned_with(self, base: str) -> list[dict[str, Value]]:
        """The values of a method that a recipe is searched for."""
        return self.spec.candidates(base) if self.spec.tune_each else [self._middle(base)]

    def tried(self, base: str, lookup: Lookup) -> tuple[RecipeTrial, ...]:
        """The recipes of a method that are due or done so far; none if the study searches none."""
        if not self.spec.tune:
            return ()
        return tuple(trial for values in self.tuned_with(base) for trial in self.tuning(base, lookup, values).trials)

    def recipe_of(
        self, base: str, lookup: Lookup, values: Mapping[str, Value] | None = None
    ) -> Mapping[str, Any] | None:
        """The recipe of a method with these values, by default the middle one; None until it is decided."""
        return self.tuning(base, lookup, values).recipe if self.spec.tune else self.recipe

    def _recipes(self, base: str, lookup: Lookup) -> list[Mapping[str, Any]] | None:
        """The recipe of each of a method's values; None until all are decided."""
        found = [self.recipe_of(base, lookup, values) for values in self.spec.candidates(base)]
        decided = [recipe for recipe in found if recipe is not None]
        return decided if len(decided) == len(found) else None

    def one_hot(self, seed: int, lookup: Lookup) -> Job | None:
        """The one-hot training of a seed; None until its recipe is decided."""
        recipe = self.recipe_of(registry.ONE_HOT, lookup)
        return None if recipe is None else self.training(registry.ONE_HOT, {}, seed, recipe=recipe)

    def search(self, base: str, seed: int, lookup: Lookup, by: str | None = None) -> Search:
        """The trials of a method on a seed that are due or done so far, and the choice if it can be made.

        Args:
            base: The training method.
            seed: The seed.
            lookup: The records of finished trainings.
            by: The number that chooses; by default that of the method without a calibrator.
        """
        by = by or self.spec.selects(base)
        spec = self.spec
        candidates = spec.candidates(base)
        first = spec.seeds[0]
        recipes = self._recipes(base, lookup)
        if recipes is None:
            return Search((), None)
        if spec.tuning == "first seed" and seed != first and len(candidates) > 1:
            decided = self.search(base, first, lookup, by).chosen
            if decided is None:
                return Search((), None)
            trial = self._trial(base, decided.values, seed, recipes[candidates.index(dict(decided.values))], lookup)
            return Search((trial,), trial if trial.record else None)
        pairs = list(zip(candidates, recipes, strict=True))
        if spec.search == "grid" or len(candidates) == 1:
            trials = [self._trial(base, values, seed, recipe, lookup) for values, recipe in pairs]
            return Search(tuple(trials), self._choice(trials, seed, lookup, by))
        return self._halving(base, seed, pairs, lookup, by)

    def _halving(
        self,
        base: str,
        seed: int,
        left: list[tuple[dict[str, Value], Mapping[str, Any]]],
        lookup: Lookup,
        by: str,
    ) -> Search:
        """Successive halving: all values train briefly, the better half twice as long, until one is left."""
        trials_so_far: list[Trial] = []
        rungs = math.ceil(math.log2(len(left)))
        for rung in range(rungs, -1, -1):
            trials = [self._trial(base, values, seed, _halved(recipe, rung), lookup) for values, recipe in left]
            trials_so_far += trials
            if any(trial.record is None for trial in trials):
                return Search(tuple(trials_so_far), None)
            if rung == 0:
                return Search(tuple(trials_so_far), trials[0])
            ranked = self._ranked(trials, None, by)  # not against one-hot, which trained longer
            left = [left[trials.index(trial)] for trial in ranked[: -(-len(trials) // 2)]]
        raise AssertionError("the last rung returns")

    def _trial(
        self, base: str, values: Mapping[str, Value], seed: int, recipe: Mapping[str, Any], lookup: Lookup
    ) -> Trial:
        one_hot = self.recipe_of(registry.ONE_HOT, lookup) if self._follows_one_hot(base, values) else None
        job = self.training(base, values, seed, recipe=recipe, one_hot=one_hot)
        return Trial(job, values, recipe["epochs"], lookup(job.digest))

    def _choice(self, trials: list[Trial], seed: int, lookup: Lookup, by: str) -> Trial | None:
        if any(trial.record is None for trial in trials):
            return None
        if len(trials) == 1:
            return trials[0]
        reference = self._one_hot(seed, lookup)
        if reference is None and self._measured_against_one_hot:
            return None  # not trained yet
        return self._ranked(trials, reference, by)[0]

    @property
    def _measured_against_one_hot(self) -> bool:
        return self.spec.accuracy_budget is not None and registry.ONE_HOT in self.spec.bases()

    def _one_hot(self, seed: int, lookup: Lookup) -> TrainingRecord | None:
        job = self.one_hot(seed, lookup) if self._measured_against_one_hot else None
        return None if job is None else lookup(job.digest)

    def _ranked(self, trials: list[Trial], reference: TrainingRecord | None, by: str) -> list[Trial]:
        """The trials ordered by a number on validation rows, the best first; ties keep the order of the grid."""
        spec = self.spec
        tried = [(trial, _metrics(trial.record)) for trial in trials]
        if spec.accuracy_budget is None:
            if by == REFINED:
                return sorted(trials, key=lambda trial: _refined(trial.record))
            cost = catalogue.METRICS[by].cost
            return [trial for trial, _ in sorted(tried, key=lambda pair: cost(pair[1][by]))]
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
            for tried in self.tried(registry.ONE_HOT, lookup):
                yield from _once(tried.job, seen)
            for seed in self.spec.seeds:
                if (job := self.one_hot(seed, lookup)) is not None:
                    yield from _once(job, seen)
        for seed in self.spec.seeds:
            for base in self.spec.bases():
                if self._methods[base].source is not None:
                    learns = self.spec.learns_from_one_hot(base)
                    recipe = self.recipe_of(registry.ONE_HOT, lookup) if learns else None
                    if recipe is not None or not learns:
                        yield from _once(self.distances(base, seed, one_hot=recipe), seen)
                for tried in self.tried(base, lookup):
                    yield from _once(tried.job, seen)
                for by in self.spec.selections(base):
                    for trial in self.search(base, seed, lookup, by).trials:
                        yield from _once(trial.job, seen)
            for method in self.spec.methods:
                if (kin := self.kin(method, seed)) is not None:
                    yield from _once(kin, seen)
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


def _metrics(record: TrainingRecord | None) -> Mapping[str, float]:
    assert record is not None
    return {key: one.value for key, one in measured(record).items()}


def _refined(record: TrainingRecord | None) -> float:
    """The validation NLL after a temperature; a training that failed has none, and loses."""
    assert record is not None
    loss = files.from_number(record.get("refined_nll", math.inf))
    return math.inf if math.isnan(loss) else loss


def _once(job: Job, seen: set[str]) -> Iterator[Job]:
    if job.digest not in seen:
        seen.add(job.digest)
        yield job


def _key(recipe: Mapping[str, Any]) -> str:
    return repr(sorted(recipe.items(), key=lambda item: item[0]))


def _stepped(recipe: Mapping[str, Any], name: str, step: float) -> Mapping[str, Any]:
    """A recipe with one field that many factors of three larger; a weight decay of 0 has only larger neighbours."""
    value = recipe[name]
    if step == 0:
        return recipe
    if name == "epochs":
        return shortened(recipe, max(1, round(value * FACTOR**step)))
    if value == 0:
        return recipe if step < 0 else {**recipe, name: float(f"{LEAST_DECAY * FACTOR ** (step - 1):.6g}")}
    return {**recipe, name: float(f"{value * FACTOR**step:.6g}")}


def _halved(recipe: Mapping[str, Any], times: int) -> Mapping[str, Any]:
    epochs = max(1, round(recipe["epochs"] / 2**times))
    return recipe if epochs == recipe["epochs"] else shortened(recipe, epochs)


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
        parts.append("1 epoch" if recipe["epochs"] == 1 else f"{recipe['epochs']} epochs")
    for name in ("weight_decay", "lr"):
        if recipe.get(name) != full.get(name):
            parts.append(f"{TUNABLE[name]} {recipe[name]:.3g}")
    return " ".join([registry.title(base), *([f"({', '.join(parts)})"] if parts else [])])
