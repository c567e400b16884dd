"""The recommendation below a finished table: what to use, what it costs, and which differences may be chance."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from softkin.lab.study import methods as registry
from softkin.losses import auto_alpha

if TYPE_CHECKING:
    from softkin.lab.study.tables import Cell, Row

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
