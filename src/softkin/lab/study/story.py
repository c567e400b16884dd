"""The story of a study in at most five sentences and a warning, from the marks of its table alone.

How wrong is plain training? What repairs it without training again? Is it worth training differently, with which
method, for how much? What does that cost? What would decide more? The warning is about class similarity that was none.
"""

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from softkin.lab.study import columns as registry
from softkin.lab.study.columns import HEADS, USES_KIN
from softkin.lab.study.significance import Difference

if TYPE_CHECKING:
    from softkin.lab.study.tabulation import Row

UNIFORM = "uniform"
"""The control of class-similarity smoothing: the same without similarity"""
CALIBRATION = "ece_hist"  # the gap between confidence and accuracy, which the methods should close
DECIDING = {CALIBRATION: "Hist P", "nll": "NLL", "accuracy": "accuracy"}
NEGLIGIBLE = {CALIBRATION: 0.001, "nll": 0.005, "accuracy": 0.001}
"""Differences too small to justify another training or calibrator, however certain: 0.1 points, 0.005 nats"""
CLOSE = 0.01  # a point of Hist P or accuracy: so little excludes no method, however certain many seeds make it
WORTH = 0.015  # nats of NLL that another training must gain; or a point of accuracy
MOST_SEEDS = 100  # more seeds than these are no advice
IN_NAME_ONLY = "‡"
"""The mark of class similarity in name only: smoothing with β = 0"""


def told(rows: "Sequence[Row]", *, gap_error: float = 0.0) -> tuple[str, ...]:
    """The sentences; none without verdicts, or for a single method.

    Args:
        rows: The rows of methods that have all their results.
        gap_error: The standard error of one-hot training's gap that the test rows alone cause. Seeds share their test
            rows, so that their spread does not show it.
    """
    if len(rows) < 2 or not any(row.cells["nll"].best for row in rows if "nll" in row.cells):
        return ()
    plain = _row(rows, registry.ONE_HOT)
    if plain is None:
        best = next(row for row in rows if row.cells["nll"].best)
        level = [row for row in rows if row.cells["nll"].tie]
        others = f"; {_named(level)} cannot be told from it" if level else ""
        lowest = f"{best.title} has the lowest NLL, {_numbers(best)}{others}."
        return (lowest, *_deciding(rows, best, None), *warned(rows))
    repaired, chosen = repair(rows), choose(rows)
    gap = plain.cells["signed_gap"]
    chance = 2 * max((gap.std or 0.0) / math.sqrt(gap.n), gap_error)
    fine = _is_calibrated(plain, chance)
    return (
        _how_wrong(plain, fine, chance),
        *_repair(rows, plain, repaired, fine),
        *_training(rows, chosen, repaired),
        _use(chosen, plain, fine),
        *_deciding(rows, chosen, repaired or plain),
        *warned(rows),
    )


# Which method


def repair(rows: "Sequence[Row]") -> "Row | None":
    """The calibrator to put after the one-hot network, if one is better than none."""
    after = [
        row for row in rows if registry.parts(row.method)[0] == registry.ONE_HOT and row.method != registry.ONE_HOT
    ]
    helps = [
        row
        for row in after
        if math.isfinite(row.cells["nll"].value)
        and any(_better(row, registry.ONE_HOT, metric) for metric in (CALIBRATION, "nll"))
        and not any(_worse(row, registry.ONE_HOT, metric) for metric in DECIDING)
    ]
    return _simplest_of_the_best(helps) if helps else None


def choose(rows: "Sequence[Row]") -> "Row":
    """The method to use.

    One-hot training, with the calibrator that repairs it if one does, stays unless it is told from the best in NLL,
    which is a proper score and counts accuracy and calibration, and others that lead gain enough. Of those that lead
    in NLL the ones are left that lead in accuracy, and in Hist P or come close to it. Of these the simplest is chosen
    that is not distinguishable from the one of the lowest NLL. From simple to complex: one-hot as it is, one-hot with a
    calibrator, another training, that with a calibrator, several passes or networks.

    Class similarity in name only stands for its control, which is chosen in its place.
    """
    plain = _row(rows, registry.ONE_HOT)
    kept, rival = repair(rows) or plain, rival_of(rows)
    leaders = {control(row, rows).method for row in rows if _leads(row, "nll")}
    leading = [row for row in rows if row.method in leaders]
    if kept is not None and rival is not None:
        leading = [row for row in leading if _worth(row, rival) and _gains(row, kept)]
        if _leads(kept, "nll") or not leading:
            return kept
    for metric in ("accuracy", CALIBRATION):
        smallest = min(row.cells[metric].value for row in leading)
        close = CLOSE if metric == CALIBRATION else -math.inf
        left = [row for row in leading if _leads(row, metric) or row.cells[metric].value <= smallest + close]
        leading = left or leading
    return _simplest_of_the_best(leading)


def control(row: "Row", rows: "Sequence[Row]") -> "Row":
    """The row of the same labels without class similarity, if a row has it in name only; otherwise that row itself."""
    if not row.in_name_only:
        return row
    base, plus, calibrator = row.method.partition("+")
    without = registry.LEARNED if registry.named(base).learned else UNIFORM
    return _row(rows, f"{without}{plus}{calibrator}") or row


def rival_of(rows: "Sequence[Row]") -> "Row | None":
    """What another training has to beat: the one-hot network with a temperature, or as it is."""
    return _row(rows, registry.BASELINES[1]) or _row(rows, registry.ONE_HOT)


def _worth(row: "Row", rival: "Row") -> bool:
    """Whether a method gains enough NLL or accuracy on a baseline, beyond chance, without losing the other."""
    nll, accuracy = (row.cells[metric].against.get(rival.method) for metric in ("nll", "accuracy"))
    if nll is None or accuracy is None or (accuracy.proved and accuracy.value < -CLOSE):
        return False
    more_accurate = accuracy.proved and accuracy.value >= CLOSE
    return nll.proved and nll.value < 0 and (nll.value <= -WORTH or more_accurate)


def _gains(row: "Row", kept: "Row") -> bool:
    """Whether a method's means are better by enough than those of the method that would stay.

    That one is told from the best already, so another training of one network need only be better by what matters.
    """
    nll, accuracy = (row.cells[metric].value - kept.cells[metric].value for metric in ("nll", "accuracy"))
    return nll <= -(WORTH if _several(row) else NEGLIGIBLE["nll"]) or accuracy >= CLOSE


def _after_one_hot(rows: "Sequence[Row]") -> "list[Row]":
    """The calibrators of the one-hot network."""
    return [row for row in rows if registry.parts(row.method)[0] == registry.ONE_HOT != row.method]


def _row(rows: "Sequence[Row]", method: str) -> "Row | None":
    return next((row for row in rows if row.method == method), None)


def _simplest_of_the_best(candidates: "Sequence[Row]") -> "Row":
    leader = min(candidates, key=lambda row: (row.cells["nll"].value, _effort(row)))
    level = [row for row in candidates if all(_level(row, leader, metric) for metric in DECIDING)]
    return min(level, key=lambda row: (_effort(row), row.method != registry.BASELINES[1], _measures(row), _nll(row)))


def _level(row: "Row", leader: "Row", metric: str) -> bool:
    """Whether ``row`` is worse than ``leader`` by at most one standard error, or by a negligible difference.

    Of methods of one effort, Hist P may be as much worse as ``choose`` allows: what first measures a similarity, and
    with it trains a first network, must gain more than that.
    """
    sign = -1 if metric == "accuracy" else 1
    pairs = zip(row.cells[metric].values, leader.cells[metric].values, strict=True)
    worse_by = [sign * (value - leading) if value != leading else 0.0 for value, leading in pairs]
    if not all(map(math.isfinite, worse_by)):
        return not fmean(worse_by) > 0
    error = stdev(worse_by) / math.sqrt(len(worse_by)) if len(worse_by) > 1 else 0.0
    alike = metric == CALIBRATION and _effort(row) == _effort(leader)
    return fmean(worse_by) <= max(error, CLOSE if alike else NEGLIGIBLE[metric])


def _leads(row: "Row", metric: str) -> bool:
    """Whether the row is the best, or cannot be told from it."""
    return row.cells[metric].best or row.cells[metric].tie


def _difference(row: "Row", other: str, metric: str) -> Difference | None:
    """The proved difference of a row to a baseline or a role, if there is one that matters."""
    difference = row.cells[metric].against.get(other)
    if difference is None or not difference.proved or abs(difference.value) <= NEGLIGIBLE[metric]:
        return None
    return difference


def _better(row: "Row", other: str, metric: str) -> bool:
    difference = _difference(row, other, metric)
    return difference is not None and (difference.value > 0) == (metric == "accuracy")


def _worse(row: "Row", other: str, metric: str) -> bool:
    difference = _difference(row, other, metric)
    return difference is not None and (difference.value > 0) != (metric == "accuracy")


def _measures(row: "Row") -> bool:
    """Whether a method needs a similarity that is measured before training, or before its head is fitted."""
    base, calibrator = registry.parts(row.method)
    return registry.named(base).source is not None or calibrator == USES_KIN


def _nll(row: "Row") -> float:
    return row.cells["nll"].value


def _several(row: "Row") -> bool:
    """Whether a prediction takes several passes or networks."""
    return row.cost is not None and max(row.cost["passes"], row.cost["networks"]) > 1


def _effort(row: "Row") -> int:
    """The complexity of a method: 0 one-hot, 1 with a calibrator, 2 another training, 3 that with a calibrator.

    It is 4 or 5 if a prediction takes several passes or networks.
    """
    base, calibrator = registry.parts(row.method)
    return (4 if _several(row) else 2 * (base != registry.ONE_HOT)) + (calibrator is not None)


# In words


def _how_wrong(plain: "Row", fine: bool, chance: float) -> str:
    gap, accuracy, error = (plain.cells[key] for key in ("signed_gap", "accuracy", CALIBRATION))
    says = f"One-hot training claims {_percent(accuracy.value + gap.value)} and is right in {_percent(accuracy.value)}"
    usual = "" if error.chance is None else f", where perfect calibration would show {_percent(error.chance)}"
    hist = f"Hist P is {_percent(error.value)}{usual}"
    if fine:
        return f"{says}, as it should; {hist}."
    if abs(gap.value) <= chance:
        return f"{says}, a gap no larger than sampling noise explains; {hist}."
    kind = "over-confident" if gap.value > 0 else "under-confident"
    return f"{says}, so it is {kind} by {100 * abs(gap.value):.1f} points; {hist}."


def _is_calibrated(plain: "Row", chance: float) -> bool:
    """Whether there is nothing to repair: the error is about that of perfect calibration, and there is no gap."""
    error = plain.cells[CALIBRATION]
    near = error.chance is not None and error.value <= error.chance + CLOSE
    return near and abs(plain.cells["signed_gap"].value) <= max(CLOSE, chance)


def _repair(rows: "Sequence[Row]", plain: "Row", repaired: "Row | None", fine: bool) -> list[str]:
    """What a calibrator does to the one-hot network."""
    after = _after_one_hot(rows)
    if not after:
        return [] if fine else ["A calibrator may repair it without training again: add ts to the methods."]
    if repaired is not None:
        changes = [f"{title} {_from_to(plain, repaired, metric)}" for metric, title in DECIDING.items()]
        says = f"Without training again, {repaired.title} repairs it"
        if fine:
            says = f"There is no gap to repair, but without training again {repaired.title} gains"
        return [f"{says}: {', '.join(changes)}."]
    best = min(after, key=lambda row: row.cells[CALIBRATION].value)
    harmed = [row for row in after if any(_worse(row, registry.ONE_HOT, metric) for metric in DECIDING)]
    seen = best.cells[CALIBRATION].against.get(registry.ONE_HOT)
    change = signed(best.cells[CALIBRATION].value - plain.cells[CALIBRATION].value, CALIBRATION)
    why = "There is nothing for a calibrator to repair" if fine else "No calibrator is seen to repair it"
    text = f"{why}: {best.title} changes Hist P by {change}"
    if best in harmed:
        return [f"{text}, at the cost of {_costs(best)}."]
    return [f"{text}, no difference found{_would(seen, CALIBRATION)}."]


def _costs(row: "Row") -> str:
    worse = [title for metric, title in DECIDING.items() if _worse(row, registry.ONE_HOT, metric)]
    return " and ".join(worse)


def _training(rows: "Sequence[Row]", chosen: "Row", repaired: "Row | None") -> list[str]:
    """Whether another training is worth it."""
    others = [row for row in rows if registry.parts(row.method)[0] != registry.ONE_HOT]
    rival = rival_of(rows)
    if not others or rival is None:
        return []
    best = chosen if chosen in others else min(others, key=lambda row: row.cells["nll"].value)
    nll, accuracy = (best.cells[metric].against.get(rival.method) for metric in ("nll", "accuracy"))
    if nll is None:
        return []
    lone = not nll.proved and (nll.low > 0 or nll.high < 0)  # its interval, which is of this pair, says otherwise
    changes = f"changes NLL against {rival.title} by {_interval(nll, 'nll', lone=lone)}"
    if accuracy is not None and accuracy.proved:
        changes += f" and accuracy by {_interval(accuracy, 'accuracy')}"
    if chosen in others:
        return [f"Training differently is worth it: {best.title} {changes}."]
    text = f"Training differently is not shown to be worth it: {best.title}, the best of those, {changes}"
    if lone:
        least = _would(nll, "nll").strip(" ()")
        noise = f"among {len(rows)} methods that is no more than sampling noise explains"
        return [f"{text}; {noise} (p = {nll.p_value:.3f}, corrected{f'; {least}' if least else ''})."]
    if not nll.proved:
        return [f"{text}, no difference found among {len(rows)} methods{_would(nll, 'nll')}."]
    if nll.value > 0:
        return [f"{text}."]
    if repaired is not None and repaired is not rival and _leads(repaired, "nll"):
        best_of_all = repaired.cells["nll"].best
        says = "without training again is better still" if best_of_all else "cannot be told from the best"
        return [f"{text}, but {repaired.title} {says}."]
    if repaired is not None and repaired is not rival and _worth(best, rival):
        only = signed(best.cells["nll"].value - repaired.cells["nll"].value, "nll")
        return [f"{text}, but only by {only} against {repaired.title}."]
    loses = accuracy is not None and accuracy.proved and accuracy.value < -CLOSE
    return [f"{text}, {'which costs accuracy' if loses else 'which is too little'}."]


def _use(chosen: "Row", plain: "Row", fine: bool) -> str:
    """The method to use, and its cost."""
    base, calibrator = registry.parts(chosen.method)
    if chosen is plain:
        as_it_is = "as it is" if fine else "of these, but do not trust its confidence"
        return f"Use one-hot training {as_it_is}: {_numbers(chosen)}."
    again = base != registry.ONE_HOT
    fitted = ", and validation rows for the calibrator" if again else ", only validation rows to fit it"
    if calibrator in HEADS:
        fitted = f"{', and' if again else ', only'} the features of all rows, also of those to predict"
    fitted = fitted if calibrator is not None else ""
    networks, passes, memory = (
        (1.0, 1.0, 1.0) if chosen.cost is None else (chosen.cost[key] for key in ("networks", "passes", "memory"))
    )
    cost = [("another training" if networks <= 1 else f"{networks:g} trainings") if again else "no training"]
    cost += [f"{passes:g} passes a prediction"] if passes > 1 else []
    cost += [f"{memory:.3g} times the memory"] if memory > 1.005 else []
    name = chosen.title
    if chosen.in_name_only and not registry.named(base).learned:
        name = f"uniform smoothing (trained here as {registry.title(chosen.method)})"
    return f"Use {name}, {_numbers(chosen)}; it costs {', '.join(cost)}{fitted}."


def warned(rows: "Sequence[Row]") -> list[str]:
    """Which methods are called class similarity and were none."""
    said = []
    for learned, where in ((False, ", as in uniform smoothing"), (True, " in their prior")):
        found = [
            row for row in rows if row.in_name_only and registry.named(registry.parts(row.method)[0]).learned == learned
        ]
        if not found:
            continue
        seeds, least = len(found[0].chosen), min(row.in_name_only for row in found)
        most = "at least " * any(row.in_name_only != least for row in found)
        on = (
            ("the only seed" if seeds == 1 else f"all {seeds} seeds")
            if least == seeds
            else f"{most}{least} of {seeds} seeds"
        )
        one, titles = len(found) == 1, [registry.title(row.method) for row in found]
        said.append(
            f"{IN_NAME_ONLY} {_listed(titles)} {'is' if one else 'are'} class similarity in name only: "
            f"{'its' if one else 'their'} β is 0 on {on}, so that all wrong classes get the same share{where}."
        )
    return said


def _deciding(rows: "Sequence[Row]", chosen: "Row", kept: "Row | None") -> list[str]:
    """What would show more: seeds, or rows."""
    seeds = chosen.cells["nll"].n
    if seeds == 1:
        return ["One seed shows nothing of the chance of training: train three or more before you rely on this."]
    rivals = [row for row in rows if row is not chosen and row is not kept and row.cells["nll"].tie] or [
        row for row in rows if row is not chosen and row.cells["nll"].tie
    ]
    rivals = [row for row in rivals if "best" in row.cells["nll"].against and not row.cells["nll"].against["best"].same]
    if not rivals:
        return []
    best = next(row for row in rows if row.cells["nll"].best)
    near = min(rivals, key=lambda row: row.cells["nll"].value)
    difference = near.cells["nll"].against["best"]
    if abs(difference.value) <= NEGLIGIBLE["nll"]:
        return [
            f"{_named(rivals)} cannot be told from {best.title} in NLL, and the nearest differs by less than "
            f"{NEGLIGIBLE['nll']:g} nats, too little to matter with any number of seeds."
        ]
    needed = math.ceil(seeds * (difference.least / abs(difference.value)) ** 2)
    which = f"{_named(rivals)} cannot be told from {best.title} in NLL"
    if difference.by_rows > 0.5:
        return [f"{which}: more test rows would decide it, as these cause most of what is uncertain."]
    if seeds == 2:
        return [f"{which}: two seeds hardly show the chance of training, so train three or more."]
    if needed > MOST_SEEDS:
        return [f"{which}; beside methods that vary as much as these it would take more than {MOST_SEEDS} seeds."]
    return [f"{which}: about {needed} seeds would show a difference as large as that of {near.title}."]


def _numbers(row: "Row") -> str:
    cells = row.cells
    shares = f"Hist P {_percent(cells[CALIBRATION].value)}, accuracy {_percent(cells['accuracy'].value)}"
    return f"{shares}, NLL {_nats(cells['nll'].value)}"


def _from_to(before: "Row", after: "Row", metric: str) -> str:
    a, b = before.cells[metric].value, after.cells[metric].value
    if metric == "nll":
        return f"{_nats(a)} → {_nats(b)}"
    if _percent(a) == _percent(b):
        return "unchanged" if a == b else f"still {_percent(b)}"
    return f"{100 * a:.1f} → {_percent(b)}"


def _would(difference: Difference | None, metric: str) -> str:
    return "" if difference is None or difference.same else would(difference.least, metric)


def would(least: float, metric: str) -> str:
    """What a study could have seen, in brackets; no share differs by more than 100 points."""
    if not math.isfinite(least):
        return ""
    if metric != "nll" and least > 1:
        return " (too few seeds to see any)"
    return f" (would have seen ≥ {_size(least, metric)})"


def _interval(difference: Difference, metric: str, *, lone: bool = False) -> str:
    """A difference and its interval; ``lone``: say that this is of one pair, which the verdict is not."""
    if not math.isfinite(difference.value):
        return signed(difference.value, metric)
    low, high = (
        signed(end, metric).removesuffix(" nats").removesuffix(" points") for end in (difference.low, difference.high)
    )
    return f"{signed(difference.value, metric)} ({low} to {high}{' as the only comparison' if lone else ''})"


def signed(value: float, metric: str) -> str:
    """A difference with its sign and unit."""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:+.3f} nats" if metric == "nll" else f"{100 * value:+.1f} points"
    return text.replace("-", "−") if float(text.partition(" ")[0]) else text[1:]


def _size(value: float, metric: str) -> str:
    return f"{value:.3f} nats" if metric == "nll" else f"{100 * value:.1f} points"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _nats(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:.3f}"


MOST_NAMED = 3


def _named(rows: "Sequence[Row]") -> str:
    more = len(rows) - MOST_NAMED
    texts = [row.title for row in rows]
    return f"{', '.join(texts[:MOST_NAMED])} and {more} more" if more > 0 else _listed(texts)


def _listed(texts: Sequence[str]) -> str:
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
