"""What a study says in sentences: notes below its table, the recommendation, and what one-hot training implies."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from softkin import predictions
from softkin.lab.study import columns as registry
from softkin.lab.study import significance
from softkin.lab.study.folder import Result, StudyFolder
from softkin.lab.study.significance import Verdict
from softkin.lab.study.spec import StudySpec
from softkin.lab.training.methods import Value, in_words
from softkin.losses import auto_alpha
from softkin.metrics.intervals import gap_and_error
from softkin.predictions import Predictions

if TYPE_CHECKING:
    from softkin.lab.study.tabulation import Cell, Column, Row


TIE = "≈"
NOT_RANKED = "†"
WIDE = 0.1  # gap of confidence and accuracy from which a note explains Laplace's
INTERVALS = ("nll", "ece_hist")
"""The columns whose intervals a table of one seed spells out"""


def about(spec: StudySpec, results: Sequence[Result], data: Mapping[str, Any], finished: bool) -> list[str]:
    """The notes that explain the numbers of the table."""
    seeds = len(spec.seeds)
    notes = [f"{data.get('source', spec.data)}, {data.get('rows', '')}; network {spec.model}; {_seeds(seeds)}."]
    notes += [
        "In % (NLL: nats)" + (", mean ± standard deviation over seeds." if seeds > 1 else "."),
        "Hist P: how far confidence is from accuracy, over 15 bins of the winning scores; 0 is calibrated.",
        "Hist O: the same over the scores of all classes, summed per sample; about twice Hist P where a network is "
        "over-confident.",
        "KDE P, KDE O: the same with smooth curves instead of bins. KDE O has no winner: its floor is what smoothing "
        "alone adds.",
        "Gap: mean confidence − accuracy; above 0 is over-confident, below 0 under-confident.",
        "In brackets: the value that perfect calibration would have with as many samples.",
    ]
    notes.append(f"Bold: best. {TIE}: not significantly worse than the best ({significance.in_words(seeds)}).")
    if "auto" in spec.alpha:
        notes.append(
            "α of auto: adjusted after each epoch by half of the validation gap, within one training per method."
        )
    if spec.trials > 1:
        by = spec.select
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


def of_one_seed(spec: StudySpec, shown: "Sequence[Column]", verdicts: Mapping[str, Verdict]) -> list[str]:
    """The notes of a table with a single seed."""
    if len(spec.seeds) > 1:
        return []
    notes = []
    for column in shown:
        verdict = verdicts.get(column.key)
        if verdict is None or not verdict.differences or column.key not in INTERVALS:
            continue
        scale, digits = (100.0, 2) if column.percent else (1.0, 3)
        intervals = (
            f"{registry.title(name)} {low * scale:+.{digits}f} to {high * scale:+.{digits}f}"
            for name, (low, high) in verdict.differences.items()
        )
        best, sentence = registry.title(verdict.best), significance.ONE_SEED
        notes.append(
            f"{sentence[0].upper()}{sentence[1:]}; the samples' interval alone is, {column.title} minus "
            f"that of {best}: {', '.join(intervals)}."
        )
    return notes


def values(rows: "Sequence[Row]") -> list[str]:
    """The parameter values behind the numbers, once for each network."""
    networks = {registry.parts(row.method)[0]: row for row in reversed(rows)}  # the first row of each network
    texts = {row.title: values_in_words(row.chosen, row.settled) for row in reversed(networks.values())}
    said = [f"{title} {text}" for title, text in texts.items() if text]
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


CALIBRATION = "ece_hist"  # the gap between confidence and accuracy, which the methods should close
DECIDING = {CALIBRATION: "Hist P", "nll": "NLL", "accuracy": "accuracy"}
NEGLIGIBLE = {CALIBRATION: 0.001, "nll": 0.005, "accuracy": 0.001}
"""Differences too small to justify another training or calibrator, however certain: 0.1 points, 0.005 nats"""
CLOSE = 0.01  # Hist P: so little more than the smallest excludes no method, however certain many seeds make it
MUCH = 2  # times the smallest Hist P: a method above this is not recommended, even if too few seeds show it as level
MOST_NAMED = 6  # methods that a sentence lists


def recommend(rows: "Sequence[Row]", *, gap_error: float = 0.0) -> tuple[str, ...]:
    """The sentences: what one-hot training shows, what to use, what it costs, and what may be chance.

    Candidates are the methods that are not significantly worse than the best in Hist P, or by at most a point, and of
    those the ones that are not significantly worse than the best in NLL and in accuracy. The one with the lowest NLL
    leads, because NLL is a proper score: it counts accuracy and calibration. A simpler method is recommended instead
    only if it is worse than the leader by no more than one standard error of the seeds' paired differences in each of
    the three. From simple to complex: one-hot as it is, one-hot with a calibrator, another training, another training
    with a calibrator, several passes or networks.

    Args:
        rows: The rows of methods that have all their results.
        gap_error: The standard error of one-hot training's gap that the test rows alone cause. Seeds share their test
            rows, so that their spread does not show it.
    """
    leading = [row.cells[CALIBRATION].value for row in rows if _in_the_lead(row, CALIBRATION)]
    if len(rows) < 2 or not leading:
        return ()
    ranked = [row for row in rows if _in_the_lead(row, CALIBRATION) or _close(row.cells[CALIBRATION], min(leading))]
    plain = next((row for row in rows if row.method == registry.ONE_HOT), None)
    candidates = _candidates(ranked)
    chosen = _simplest_of_the_best(candidates)
    sentences = [] if plain is None else [f"One-hot training is {_baseline(plain.cells['signed_gap'], gap_error)}."]
    sentences += [_use(chosen, plain), *_chance(rows, chosen)]
    if _effort(chosen) >= 4:
        sentences += _alternative("For one network and one pass", candidates, chosen, efforts=(0, 1, 2, 3))
    if _effort(chosen) in (2, 3):
        sentences += _alternative("To keep the one-hot network as it is", candidates, chosen, efforts=(0, 1))
    if registry.parts(chosen.method)[1] is not None:
        sentences += _alternative("Where no calibrator can follow the network", candidates, chosen, efforts=(0, 2, 4))
    return tuple(sentences)


# Which method


def _candidates(ranked: "Sequence[Row]") -> "list[Row]":
    """The rows that lead in all deciding columns, or in as many of them as any row does."""
    best = min((row.cells[CALIBRATION] for row in ranked), key=lambda cell: cell.value)
    most = MUCH * max(best.value, best.chance or 0.0)
    candidates = [row for row in ranked if row.cells[CALIBRATION].value <= most]
    for metric in ("nll", "accuracy"):
        leading = [row for row in candidates if _in_the_lead(row, metric)]
        candidates = leading or [min(candidates, key=lambda row: _loss(row, metric))]
    return candidates


def _close(cell: "Cell", smallest: float) -> bool:
    return not cell.caveat and cell.value <= smallest + CLOSE


def _simplest_of_the_best(candidates: "Sequence[Row]") -> "Row":
    leader = min(candidates, key=lambda row: (row.cells["nll"].value, _effort(row)))
    level = [row for row in candidates if all(_level(row, leader, metric) for metric in DECIDING)]
    return min(level, key=lambda row: (_effort(row), row.cells["nll"].value))


def _level(row: "Row", leader: "Row", metric: str) -> bool:
    """Whether ``row`` is worse than ``leader`` by at most one standard error, or by a negligible difference."""
    sign = -1 if metric == "accuracy" else 1
    pairs = zip(row.cells[metric].values, leader.cells[metric].values, strict=True)
    worse_by = [sign * (value - leading) if value != leading else 0.0 for value, leading in pairs]
    if not all(map(math.isfinite, worse_by)):
        return not fmean(worse_by) > 0
    error = stdev(worse_by) / math.sqrt(len(worse_by)) if len(worse_by) > 1 else 0.0
    return fmean(worse_by) <= max(error, NEGLIGIBLE[metric])


def _in_the_lead(row: "Row", metric: str) -> bool:
    """Whether the row is the best or not significantly worse."""
    return row.cells[metric].best or row.cells[metric].tie


def _effort(row: "Row") -> int:
    """The complexity of a method: 0 one-hot, 1 with a calibrator, 2 another training, 3 that with a calibrator.

    It is 4 or 5 if a prediction takes several passes or networks.
    """
    base, calibrator = registry.parts(row.method)
    several = row.cost is not None and max(row.cost["passes"], row.cost["networks"]) > 1
    return (4 if several else 2 * (base != registry.ONE_HOT)) + (calibrator is not None)


def _loss(row: "Row", metric: str) -> float:
    return -row.cells[metric].value if metric == "accuracy" else row.cells[metric].value


# In words


def _baseline(gap: "Cell", gap_error: float) -> str:
    over_seeds = gap.std / math.sqrt(gap.n) if gap.std is not None else auto_alpha.ONE_SEED
    return auto_alpha.what_a_gap_implies(gap.value, max(over_seeds, gap_error))


def _use(chosen: "Row", plain: "Row | None") -> str:
    cells = chosen.cells
    numbers = (
        f"Hist P {_percent(cells[CALIBRATION])}, accuracy {_percent(cells['accuracy'])}, NLL {_nats(cells['nll'])}"
    )
    if plain is None:
        return f"Use {chosen.title}: {numbers}.{_price(chosen)}"
    if chosen is plain:
        return f"Use one-hot training as it is ({numbers}): no method is better by more than chance."
    return f"Use {chosen.title}: {numbers}. {_against(chosen, plain)}{_price(chosen)}"


def _price(row: "Row") -> str:
    """The cost of a prediction, if it is higher than one-hot's."""
    if row.cost is None or max(row.cost.values()) <= 1:
        return ""
    passes, memory, networks = (row.cost[key] for key in ("passes", "memory", "networks"))
    trained = f", and {networks:g} trainings" if networks > 1 else ""
    return f" A prediction takes {passes:g} passes through a network and {memory:.3g} times the memory{trained}."


def _against(row: "Row", other: "Row") -> str:
    """What ``row`` loses or gains against ``other``, and which differences may be chance."""
    changes = [f"{DECIDING[metric]} {_change(row, other, metric)}" for metric in (CALIBRATION, "accuracy", "nll")]
    text = f"Against {other.title} that is {changes[0]}, {changes[1]} and {changes[2]}"
    both = [title for metric, title in DECIDING.items() if _in_the_lead(row, metric) and _in_the_lead(other, metric)]
    if len(both) == len(DECIDING):
        return f"{text}; all three may be chance."
    return f"{text}; {_listed(both)} may be chance." if both else f"{text}."


def _change(row: "Row", other: "Row", metric: str) -> str:
    mean, reference = row.cells[metric].value, other.cells[metric].value
    if math.isinf(mean) or math.isinf(reference):
        return f"{_nats(row.cells[metric])} for {_nats(other.cells[metric])}"
    change = f"{mean - reference:+.3f} nats" if metric == "nll" else f"{100 * (mean - reference):+.1f} points"
    return change.replace("-", "−")


def _chance(rows: "Sequence[Row]", chosen: "Row") -> list[str]:
    """Which methods differ significantly from the best, and which do not."""
    seeds = chosen.cells[CALIBRATION].n
    level = [row for row in rows if row is not chosen and all(_in_the_lead(row, metric) for metric in DECIDING)]
    if seeds == 1:
        return ["With one seed no difference is significant: train more seeds before you rely on this."]
    sentences = []
    if level:
        text = f"{seeds} seeds show no significant difference in Hist P, NLL or accuracy between the best and "
        text += _named(level)
        worst = max(level, key=lambda row: row.cells[CALIBRATION].value)
        if worst.cells[CALIBRATION].value > MUCH * chosen.cells[CALIBRATION].value:
            text += f", not even for {worst.title} with Hist P {_percent(worst.cells[CALIBRATION])}: more seeds may"
        sentences.append(f"{text}.")
    worse = [
        (row, [title for metric, title in DECIDING.items() if not _in_the_lead(row, metric)])
        for row in rows
        if row is not chosen and row not in level
    ]
    if worse:
        texts = [f"{row.title} ({', '.join(titles)})" for row, titles in worse]
        sentences.append(f"Significantly worse than the best, or not ranked: {_shortened(texts)}.")
    return sentences


def _alternative(when: str, rows: "Sequence[Row]", chosen: "Row", efforts: tuple[int, ...]) -> list[str]:
    """The best candidate under a condition that excludes the recommended method, if there is one."""
    others = [row for row in rows if row is not chosen and _effort(row) in efforts]
    if not others:
        return []
    best = _simplest_of_the_best(others)
    return [f"{when}, take {best.title} (Hist P {_percent(best.cells[CALIBRATION])}). {_against(best, chosen)}"]


def _named(rows: "Sequence[Row]") -> str:
    return _shortened([row.title for row in rows])


def _shortened(texts: Sequence[str]) -> str:
    more = len(texts) - MOST_NAMED
    return f"{', '.join(texts[:MOST_NAMED])} and {more} more" if more > 0 else _listed(texts)


def _listed(texts: Sequence[str]) -> str:
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def _percent(cell: "Cell") -> str:
    return f"{100 * cell.value:.1f} %"


def _nats(cell: "Cell") -> str:
    return "∞" if math.isinf(cell.value) else f"{cell.value:.3f}"


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
