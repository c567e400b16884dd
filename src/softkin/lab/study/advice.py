"""What a study says in sentences: notes below its table, and what one-hot training implies."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from softkin import predictions
from softkin._io import files
from softkin.lab.study import columns, significance
from softkin.lab.study import columns as registry
from softkin.lab.study.folder import Result, StudyFolder
from softkin.lab.study.spec import TREE, TUNABLE, StudySpec
from softkin.lab.study.story import DECIDING, would
from softkin.lab.training.methods import Value, in_words
from softkin.lab.training.recipe import RECIPES, Recipe
from softkin.losses import soft_labels
from softkin.metrics.intervals import gap_and_error
from softkin.predictions import Predictions

if TYPE_CHECKING:
    from softkin.lab.study.tabulation import Column, Row


TIE = "≈"
BETTER, WORSE = "▴", "▾"
NOT_RANKED = "†"
WIDE = 0.1  # gap of confidence and accuracy from which a note explains Laplace's


def about(spec: StudySpec, results: Sequence[Result], data: Mapping[str, Any], finished: bool) -> list[str]:
    """The notes that explain the numbers of the table."""
    seeds = len(spec.seeds)
    network = f"network {spec.model}{_options(spec.model_options)}"
    notes = [f"{data.get('source', spec.data)}, {data.get('rows', '')}; {network}; {_seeds(seeds)}; {_recipe(spec)}."]
    notes += [
        "In % (NLL: nats)" + (", mean ± standard deviation over seeds." if seeds > 1 else "."),
        "Hist P: how far confidence is from accuracy, over 15 bins of the winning scores; 0 is calibrated.",
        "Hist O: the same over the scores of all classes, summed per sample; two to three times Hist P where a "
        "network is over-confident.",
        "AURC: the share of wrong answers among the most confident, averaged over how many are answered; 0 is best.",
        "KDE P, KDE O: Hist P, Hist O with smooth curves instead of bins. KDE O has no winner: its floor is what "
        "smoothing alone adds.",
        "Gap: mean confidence − accuracy; above 0 is over-confident, below 0 under-confident.",
        "In brackets: the value that perfect calibration would have with as many samples.",
    ]
    one_hot = f" {BETTER}, {WORSE}: better, worse than one-hot." if registry.ONE_HOT in spec.methods else ""
    notes.append(f"Bold: best. {TIE}: cannot be told from the best.{one_hot} ({significance.in_words(seeds)}.)")
    if "auto" in spec.alpha:
        notes.append(
            "α of auto: adjusted after each epoch by half of the validation gap, within one training per method."
        )
    if f"own {TREE}" in data.get("contents", {}):
        notes.append("Tree: the super-classes that come with the data.")
    if spec.heads:
        kin = {columns.NAMES: "by class names", columns.MEANS: "by class means"}.get(data.get("kin", ""), "")
        with_kin = f"Kin-head adds similar classes ({kin}) to it. " if kin else ""
        notes.append(
            f"Head: a linear discriminant on the features, blended with the network's scores. {with_kin}"
            "Both read features at prediction too."
        )
    if spec.trials > 1:
        by = spec.select or "NLL (for methods followed by a calibrator, NLL after a temperature)"
        if spec.accuracy_budget is not None:
            against = "one-hot" if spec.search == "grid" and registry.ONE_HOT in spec.bases() else "the best trial"
            by = f"lowest output ECE that loses at most {spec.accuracy_budget:g} points of accuracy to {against}"
        where = "on each seed" if spec.tuning == "each seed" else "on the first seed"
        trials = f"{spec.trials} trials for each method with values to try"
        notes.append(f"Values chosen by {by} of validation rows {where}, {trials}.")
    if not finished:
        due = len(spec.methods) * seeds
        notes.append(f"Unfinished: {len(results)} of {due} results are in; winners only among methods that have all.")
    return notes


def _options(options: Mapping[str, Any]) -> str:
    return f" ({', '.join(f'{name} {value}' for name, value in options.items())})" if options else ""


def _recipe(spec: StudySpec) -> str:
    """The named recipe that a study's is nearest to, and what differs from it."""
    known = {name: Recipe.named(name).to_dict() for name in RECIPES}

    def others(name: str) -> list[str]:
        return [key for key, value in spec.recipe.items() if key in known[name] and known[name][key] != value]

    nearest = min(known, key=lambda name: len(others(name)))
    changed = ", ".join(f"{key.replace('_', ' ')} {spec.recipe[key]}" for key in others(nearest))
    return f"recipe {nearest}" + (f" with {changed}" if changed else "")


def caveats(columns: "Sequence[Column]", by_method: Mapping[str, Sequence[Result]]) -> list[str]:
    """Which numbers cannot win, and why."""
    notes = []
    for column in columns:
        caveat_of = {
            registry.title(name): result.metrics[column.key].caveat
            for name, results_of_method in by_method.items()
            for result in results_of_method
            if column.key in result.metrics and result.metrics[column.key].caveat is not None
        }
        for caveat in dict.fromkeys(caveat_of.values()):
            names = ", ".join(name for name, text in caveat_of.items() if text == caveat)
            notes.append(f"{NOT_RANKED} {column.title} of {names} is no winner: {caveat}.")
    return notes


def failed_trainings(rows: "Sequence[Row]", seeds: Sequence[int]) -> list[str]:
    """The seeds whose accuracy is below half of their method's median, said once for each training."""
    notes: dict[str, str] = {}
    for row in rows:
        base, cell = registry.parts(row.method)[0], row.cells["accuracy"]
        usual = statistics.median(cell.values)
        low = [(seed, value) for seed, value in zip(seeds, cell.values, strict=True) if value < usual / 2]
        if low and base not in notes:
            words = " and ".join(f"seed {seed} ({100 * value:.1f} %)" for seed, value in low)
            notes[base] = (
                f"{row.title}: a training failed, of {words}, where the median accuracy over seeds is "
                f"{100 * usual:.1f} %. The means count it; a lower learning rate may help."
            )
    return list(notes.values())


def tuned(spec: StudySpec, rows: "Sequence[Row]") -> list[str]:
    """The recipe that each trained method was given, how many were tried, and what the search was worth."""
    networks: dict[str, Row] = {}
    for row in rows:
        if row.recipe is not None:
            networks.setdefault(registry.parts(row.method)[0], row)
    if not networks:
        return []
    said = []
    for base, row in networks.items():
        assert row.recipe is not None
        values = ", ".join(f"{value:.3g}" for value in row.recipe["chosen"].values())
        gain = files.from_number(row.recipe["gain"])
        worth = f"−{gain:.3f}" if gain >= 0.0005 else "0"
        said.append(f"{registry.title(base)} {values} ({len(row.recipe['tried'])} trials, {worth} nats)")
    fields = ", ".join(TUNABLE[name] for name in spec.tune)
    usual = ", ".join(f"{spec.recipe[name]:g}" for name in spec.tune if name in spec.recipe)
    each = "for each value that a method tries, " if spec.tune_each else ""
    how = (
        f"{each}on seed {spec.seeds[0]}, by validation NLL after a temperature, in factors of three around the recipe's"
    )
    halves = ", then half a step to either side of it" if spec.half_steps else ""
    return [
        f"Tuned for every trained method alike ({fields}; {how} {usual}, further where the best was at an end"
        f"{halves}): {'; '.join(said)}."
    ]


def costs(rows: "Sequence[Row]") -> list[str]:
    """The cost, relative to one-hot, of methods that need more than one plain network."""
    priced = [(row, row.cost) for row in rows if row.cost is not None]
    if not priced:
        return []
    words = []
    for row, cost in priced:
        passes = "1 pass" if cost["passes"] == 1 else f"{cost['passes']:g} passes"
        trained = f", {cost['networks']:g} trainings" if cost["networks"] > 1 else ""
        words.append(f"{row.title} {passes}, {cost['memory']:.3g} × memory{trained}")
    return [f"Cost relative to one-hot (passes through the network for a prediction, memory): {'; '.join(words)}."]


def too_wide(rows: "Sequence[Row]") -> list[str]:
    """Why Laplace's approximation is under-confident, where it is by far."""
    return [
        f"{row.title} is under-confident by {-100 * row.cells['signed_gap'].value:.0f} points. The network is nearly "
        "certain of its training rows, so that the loss has little curvature, and the marginal likelihood chooses a "
        "wide Gaussian: that is the method, and happens with few rows. laplace+ts corrects the scale."
        for row in rows
        if row.method == "laplace" and "signed_gap" in row.cells and row.cells["signed_gap"].value < -WIDE
    ]


def against_baseline(rows: "Sequence[Row]", shown: "Sequence[Column]") -> list[str]:
    """By deciding column: which methods are better or worse than one-hot, and what the others could have shown."""
    notes = []
    for column in (column for column in shown if column.key in DECIDING):
        better: list[str] = []
        worse: list[str] = []
        level: list[str] = []
        least = 0.0
        for row in rows:
            difference = row.cells[column.key].against.get(registry.ONE_HOT) if column.key in row.cells else None
            if difference is None or difference.same:
                continue
            if difference.proved:
                (better if (difference.value > 0) == column.larger_is_better else worse).append(row.title)
            else:
                level.append(row.title)
                least = max(least, difference.least)
        found = [f"{word} {', '.join(titles)}" for word, titles in (("better", better), ("worse", worse)) if titles]
        if level:
            found.append(f"no difference found{would(least, column.key)} {', '.join(level)}")
        if found:
            notes.append(f"{column.title} against one-hot: {'; '.join(found)}.")
    return notes


def values(rows: "Sequence[Row]") -> list[str]:
    """The parameter values behind the numbers, once for each network; a calibrator may follow one with other values."""
    texts: dict[tuple[str, str], str] = {}
    for row in rows:
        text = values_in_words(row.chosen, row.settled)
        texts.setdefault((registry.parts(row.method)[0], text), row.title)  # the first row of each network
    said = [f"{title} {text}" for (_, text), title in texts.items() if text]
    return [f"Values: {'; '.join(said)}."] if said else []


def values_in_words(chosen: Sequence[Mapping[str, Value]], settled: Sequence[Mapping[str, float]] = ()) -> str:
    """The values of all seeds, with the range in which "auto" settled.

    Example:
        >>> values_in_words([{"alpha": "auto", "beta": 2.0}] * 2, [{"alpha": 0.031}, {"alpha": 0.0468}])
        'α = auto (0.031 to 0.0468), β = 2'
    """
    text = " or ".join(dict.fromkeys(map(in_words, chosen)))
    for name in dict.fromkeys(name for values in settled for name in values):
        ends = [f"{end([values[name] for values in settled if name in values]):.3g}" for end in (min, max)]
        auto = in_words({name: "auto"})
        text = text.replace(auto, f"{auto} ({' to '.join(dict.fromkeys(ends))})")
    return text


def _seeds(seeds: int) -> str:
    return f"{seeds} seeds" if seeds > 1 else "1 seed"


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
        self._seeds = spec.seeds

    def look(self) -> None:
        """Call ``tell`` if all one-hot trainings are done and it was not called yet."""
        records = self._folder.records
        if self._tell is None:
            return
        jobs = [self._folder.plan.one_hot(seed, records.training) for seed in self._seeds]
        digests = [job.digest for job in jobs if job is not None and records.find(job.digest) is not None]
        if len(digests) < len(jobs):
            return
        paths = [records.path(digest) / "validation.safetensors" for digest in digests]
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
    words = soft_labels.what_a_gap_implies(statistics.fmean(gaps), max(over_seeds, statistics.fmean(errors)))
    seeds = f"{len(gaps)} seeds" if len(gaps) > 1 else "1 seed"
    later = "The summary at the end is about the test rows, so its numbers differ a little."
    return f"On the validation rows ({seeds}), for now, one-hot training is {words}. {later}"
