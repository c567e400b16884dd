"""The first screen of a study: what plain training does, what repairs it, and what to use under which constraint."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from softkin import calibrators
from softkin._io.files import number
from softkin.lab.study import columns as registry
from softkin.lab.study import story
from softkin.lab.study.columns import HEADS
from softkin.lab.study.tabulation import Row
from softkin.report.data import Choice, Overview, OverviewGroup, OverviewRow
from softkin.report.overview import in_words, joined, kind_of, percent

NEEDED = ("accuracy", "nll", "ece_hist", "signed_gap")
MOST_NAMED = 3
SMALL = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five"}
NOT_CALIBRATED = "Not calibrated"
AFTER = "After training: the network stays as it is"
DIFFERENTLY = "Trained differently"
BOTH = "Both"
SAME_ANSWERS = ("ts", "ets")
"""Calibrators that change no answer"""


def of_rows(
    rows: Sequence[Row],
    *,
    seconds: Mapping[str, float],
    data: str,
    num_samples: int,
    gap_error: float | None = None,
) -> Overview | None:
    """The first screen of a finished study; None if its rows lack a metric that it shows.

    Args:
        rows: The rows of the table.
        seconds: How long each method that trains a network took.
        data: The data set as arguments of ``softkin train``, for lines of code.
        num_samples: The number of test rows.
        gap_error: The standard error of plain training's gap that the test rows alone cause, as the story has it; None
            takes that of its accuracy.
    """
    if not rows or any(key not in row.cells for row in rows for key in NEEDED):
        return None
    plain = next((row for row in rows if row.method == registry.ONE_HOT), None)
    judged = any(row.cells["nll"].best for row in rows)
    chosen = story.choose(rows) if judged and len(rows) > 1 else None
    shown = {row.method: _row(row, seconds, num_samples, gap_error if row is plain else None) for row in rows}
    kind: Literal["over", "under", "fine"] = "fine" if plain is None else shown[plain.method]["kind"]
    if plain is None:
        headline, detail = _without_baseline(rows, chosen)
    else:
        headline, detail = _headline(plain, kind), _detail(rows, plain, chosen, shown, judged)
    return {
        "headline": headline,
        "kind": kind,
        "detail": detail,
        "groups": _groups(rows, plain, shown),
        "choices": [] if chosen is None or plain is None else _choices(rows, plain, chosen, shown, seconds, data),
        "chosen": None if chosen is None else chosen.method,
        "baseline": None if plain is None else plain.method,
    }


def _row(row: Row, seconds: Mapping[str, float], num_samples: int, gap_error: float | None) -> OverviewRow:
    cells = row.cells
    right, gap, error = cells["accuracy"], cells["signed_gap"], cells["ece_hist"]
    by_seeds = (gap.std or 0.0) / math.sqrt(gap.n)
    by_rows = math.sqrt(right.value * (1 - right.value) / num_samples) if gap_error is None else gap_error
    return {
        "method": row.method,
        "right": right.value,
        "sure": right.value + gap.value,
        "kind": kind_of(gap.value, max(by_seeds, by_rows)),
        "error": error.value,
        "dots": list(error.values),
        "chance": error.chance,
        "nll": number(cells["nll"].value),
        "cost": _cost(row, seconds),
    }


def _cost(row: Row, seconds: Mapping[str, float]) -> str | None:
    """The training time relative to plain training, and whether a calibrator is fitted after it."""
    base, calibrator = registry.parts(row.method)
    usual = seconds.get(registry.ONE_HOT, 0.0)
    times = ""
    if base != registry.ONE_HOT and usual > 0 and base in seconds:
        times = f"{seconds[base] / usual:.1f}×"
    if base == registry.ONE_HOT and calibrator is None:
        times = "1×"
    return " ".join(filter(None, (times, "+ s" if calibrator is not None else ""))) or None


def repairs(row: Row) -> bool:
    """Whether its calibration error is below plain training's beyond chance, and by half, or near what chance shows.

    A method whose NLL is infinite, or proved to be worse, trades one wrong for another and repairs nothing.
    """
    error, nll = row.cells["ece_hist"], row.cells["nll"]
    worse = nll.against.get(registry.ONE_HOT)
    if not math.isfinite(nll.value) or (worse is not None and worse.proved and worse.value > 0):
        return False
    difference = error.against.get(registry.ONE_HOT)
    if difference is None or not difference.proved or difference.value >= 0:
        return False
    before = error.value - difference.value
    return error.value <= before / 2 or (error.chance is not None and error.value <= error.chance + story.CLOSE)


def _groups(rows: Sequence[Row], plain: Row | None, shown: Mapping[str, OverviewRow]) -> list[OverviewGroup]:
    """By what one has to do; what is off and no better than plain training stands beside it."""
    groups: dict[str, list[Row]] = {NOT_CALIBRATED: [], AFTER: [], DIFFERENTLY: [], BOTH: []}
    for row in rows:
        base, calibrator = registry.parts(row.method)
        off = plain is not None and shown[row.method]["kind"] != "fine" and not repairs(row)
        if row is plain or (calibrator is None and off):
            groups[NOT_CALIBRATED].append(row)
        elif calibrator is None:
            groups[DIFFERENTLY].append(row)
        else:
            groups[AFTER if base == registry.ONE_HOT else BOTH].append(row)
    return [
        {"title": title, "rows": [shown[row.method] for row in sorted(mine, key=lambda row: _order(row, plain))]}
        for title, mine in groups.items()
        if mine
    ]


def _order(row: Row, plain: Row | None) -> tuple[bool, float]:
    return row is not plain, row.cells["ece_hist"].value


# In words


def _headline(plain: Row, kind: str) -> str:
    gap, error = plain.cells["signed_gap"].value, plain.cells["ece_hist"]
    by = in_words(abs(gap))
    if kind == "over":
        return f"Trained the usual way, it claims {by} more than it delivers"
    if kind == "under":
        return f"Trained the usual way, it delivers {by} more than it claims"
    if error.chance is not None and error.value > error.chance + 2 * story.CLOSE:
        return f"Trained the usual way, its confidence is off by {in_words(error.value)}, up here and down there"
    return "Trained the usual way, it is as right as it is sure"


def _detail(rows: Sequence[Row], plain: Row, chosen: Row | None, shown: Mapping[str, OverviewRow], judged: bool) -> str:
    mean = shown[plain.method]
    says = [f"One-hot is {percent(mean['sure'], 0)} sure and {percent(mean['right'], 0)} right."]
    others = [row for row in rows if row is not plain]
    if not others or not judged:
        return " ".join(says)
    repaired = [row for row in others if repairs(row)]
    seeds = plain.cells["ece_hist"].n
    what = "the other method" if len(others) == 1 else f"any of the {len(others)} other methods"
    if not repaired and mean["kind"] == "fine":
        says.append(f"There is nothing to repair, and no sign that {what} is better calibrated.")
        return " ".join(says)
    if not repaired:
        says.append(f"{_seeds(seeds)} cannot show that {what} repairs it.")
        return " ".join(says)
    each = _in_every_seed(repaired, plain)
    off = _still_off(repaired, shown)
    many = (
        f"The other method {'halves that, or more' if off else 'repairs that'}"
        if len(others) == 1
        else f"{len(repaired)} of the {len(others)} other methods"
    )
    if len(repaired) == len(others) > 1:
        many = f"{'Both' if len(others) == 2 else f'All {len(others)}'} other methods"
    many += "" if len(others) == 1 else " halve that, or more" if off else " repair that"
    says.append(f"{many}{each}{off}{_not_repaired(others, repaired, shown, mean['kind'])}.")
    if len(repaired) > 1:
        level = [row for row in repaired if row.cells["ece_hist"].best or row.cells["ece_hist"].tie]
        if len(level) > 1:
            whom = f"Among the {len(repaired)}" if len(level) == len(repaired) else f"Among {len(level)} of them"
            few = _seeds(seeds, start=False)
            by = "choose by accuracy, NLL and cost"
            if chosen is not None and chosen in level:
                by = f"★ {chosen.title} is chosen by NLL, accuracy and cost"
            says.append(f"{whom}, {few} cannot name a winner in calibration: {by}.")
        elif level:
            says.append(f"{level[0].title} is ahead of the others in calibration.")
    return " ".join(says)


def _in_every_seed(repaired: Sequence[Row], plain: Row) -> str:
    usual = plain.cells["ece_hist"].values
    better = all(
        value < before for row in repaired for value, before in zip(row.cells["ece_hist"].values, usual, strict=True)
    )
    seeds = len(usual)
    return f", {'each ' * (len(repaired) > 1)}in all {seeds} seeds" if better and seeds > 1 else ""


def _still_off(repaired: Sequence[Row], shown: Mapping[str, OverviewRow]) -> str:
    """Those that repair most of it, but are still drawn as too sure or too modest."""
    off = [row for row in repaired if shown[row.method]["kind"] != "fine"]
    if not off:
        return ""
    most = max(abs(shown[row.method]["sure"] - shown[row.method]["right"]) for row in off)
    who = f"{off[0].title} stays" if len(off) == 1 else f"{len(off)} of them stay up to"
    return f", though {who} {100 * most:.1f} points off"


def _not_repaired(others: Sequence[Row], repaired: Sequence[Row], shown: Mapping[str, OverviewRow], kind: str) -> str:
    """All others: those that are off on the other side, and those that are not shown to repair it."""
    opposite = {"over": "under", "under": "over"}.get(kind)
    left = [row for row in others if row not in repaired]
    over = [row.title for row in left if shown[row.method]["kind"] == opposite]
    same = [row.title for row in left if shown[row.method]["kind"] != opposite]
    says = f"; {_named(over)} swing{'s' * (len(over) == 1)} to the other side" if over else ""
    return says + (f"; {_named(same)} {'is' if len(same) == 1 else 'are'} not shown to" if same else "")


def _named(titles: Sequence[str]) -> str:
    if len(titles) <= MOST_NAMED:
        return joined(titles)
    return f"{', '.join(titles[:MOST_NAMED])} and {len(titles) - MOST_NAMED} more"


def _without_baseline(rows: Sequence[Row], chosen: Row | None) -> tuple[str, str]:
    lowest = min(rows, key=lambda row: row.cells["nll"].value)
    named = [lowest] if chosen in (None, lowest) else [chosen, lowest]
    says = f"{lowest.title} has the lowest NLL of {len(rows)} methods" if chosen else f"{len(rows)} methods"
    if chosen is not None and chosen is not lowest:
        says = f"Use {chosen.title}; {lowest.title} has the lowest NLL, but not by enough"
    numbers = ", ".join(f"{row.title}: NLL {row.cells['nll'].value:.3f}" for row in named if row is not None)
    return says, f"{numbers}. Without one-hot training there is no baseline to compare with."


# What to do


def _choices(
    rows: Sequence[Row],
    plain: Row,
    chosen: Row,
    shown: Mapping[str, OverviewRow],
    seconds: Mapping[str, float],
    data: str,
) -> list[Choice]:
    def choice(kind: Literal["recommended", "option"], row: Row, title: str = "", lead: str = "") -> Choice:
        lead = f"{lead}{_action(row)}. " if title else ""
        return {
            "kind": kind,
            "title": title or _action(row),
            "text": lead + _effect(row, plain, seconds),
            "code": _code(row, data),
        }

    made = [choice("recommended", chosen)]
    if chosen is plain and shown[plain.method]["kind"] != "fine":
        repair = "softkin calibrate fit validation.npz --method temperature --output cal/"
        made[0] |= {
            "title": "Keep the network, but do not trust its confidence",
            "text": f"{made[0]['text']} None of these methods is seen to repair it; try a calibrator.",
            "code": repair,
        }
    base, calibrator = registry.parts(chosen.method)
    keeps = base == registry.ONE_HOT
    repaired = story.repair(rows)
    if not keeps and repaired is not None:
        made.append(choice("option", repaired, "Cannot retrain?"))
    elif keeps and chosen is not plain:
        others = [row for row in rows if registry.parts(row.method)[0] != registry.ONE_HOT and repairs(row)]
        if others:
            best = story.control(min(others, key=_by_nll), rows)
            made.append(choice("option", best, "Can retrain?", f"Not shown to be worth it{_doubt(best, rows)}. "))
    if calibrator is not None:
        alone = [row for row in rows if registry.parts(row.method)[1] is None and row is not plain and repairs(row)]
        honest = [row for row in alone if shown[row.method]["kind"] == "fine"] or alone
        if honest:
            best = story.control(min(honest, key=_by_nll), rows)
            made.append(choice("option", best, "No calibrator in production?"))
    return [*made, *_avoid(rows, plain, chosen, shown)]


def _doubt(row: Row, rows: Sequence[Row]) -> str:
    """Why a better NLL than that of the calibrated network is not enough, where chance is the reason."""
    rival = story.rival_of(rows)
    nll = None if rival is None else row.cells["nll"].against.get(rival.method)
    if rival is None or nll is None or nll.proved or nll.same:
        return ""
    change = story.signed(nll.value, "nll")
    return f": NLL {change} against {rival.title}, p = {nll.p_value:.3f} corrected for {len(rows)} methods"


def _by_nll(row: Row) -> float:
    return row.cells["nll"].value


def _avoid(rows: Sequence[Row], plain: Row, chosen: Row, shown: Mapping[str, OverviewRow]) -> list[Choice]:
    """The method that is most off, and not the one that is recommended: first those that no calibrator here repairs."""
    off = [row for row in rows if row is not chosen and shown[row.method]["kind"] != "fine" and not repairs(row)]
    if not off:
        return []
    other = [row for row in off if row is not plain]
    worst = max(other or off, key=lambda row: (_repaired(row, rows) is None, row.cells["ece_hist"].value))
    gap, after = worst.cells["signed_gap"].value, _repaired(worst, rows)
    how = "too sure" if gap > 0 else "too modest"
    text = f"{in_words(abs(gap), capital=True)} {how}: error {percent(worst.cells['ece_hist'].value)}."
    if not math.isfinite(worst.cells["nll"].value):
        text += " Its NLL is infinite: it gives some true classes no chance at all."
    if after is not None:
        text += f" {after.title} brings that to {percent(after.cells['ece_hist'].value)}."
    without = "" if after is None else " without a calibrator"
    return [{"kind": "avoid", "title": f"Do not use {worst.title}{without}", "text": text, "code": None}]


def _repaired(row: Row, rows: Sequence[Row]) -> Row | None:
    """The row of the same network with the calibrator that repairs it best; None if none does."""
    base, calibrator = registry.parts(row.method)
    same = [other for other in rows if registry.parts(other.method)[0] == base and other is not row]
    return min(filter(repairs, same), key=_by_nll, default=None) if calibrator is None else None


CALIBRATORS = {
    "ts": "a temperature",
    "ets": "an ensemble of temperatures",
    "dir-odir": "a Dirichlet calibrator (Dir-ODIR)",
}


def _action(row: Row) -> str:
    base, calibrator = registry.parts(row.method)
    fit = "" if calibrator is None else f"fit {CALIBRATORS.get(calibrator, registry.title(calibrator))}"
    if base == registry.ONE_HOT:
        return f"Keep the network, {fit}" if fit else "Use one-hot training as it is"
    method = registry.named(base)
    kind = "learned labels" if method.learned or base == registry.LEARNED else "class-similarity labels"
    smooth = method.kind == "similarity" or base == registry.LEARNED
    train = f"Train with {kind} ({registry.title(base)})" if smooth else f"Train with {registry.title(base)}"
    return f"{train}, then {fit}" if fit else train


def _effect(row: Row, plain: Row, seconds: Mapping[str, float]) -> str:
    """Error and accuracy before and after, and what it costs."""
    base, calibrator = registry.parts(row.method)
    before, after = plain.cells["ece_hist"].value, row.cells["ece_hist"].value
    if row is plain:
        return f"Error {percent(after)}, accuracy {percent(row.cells['accuracy'].value)}."
    nll = f"NLL {plain.cells['nll'].value:.3f} → {row.cells['nll'].value:.3f}, "  # by which methods are chosen
    says = [f"Error {100 * before:.1f} → {percent(after)}, {nll}{_accuracy(row, plain)}."]
    usual = seconds.get(registry.ONE_HOT, 0.0)
    if base != registry.ONE_HOT:
        timed = usual > 0 and base in seconds
        says.append(
            f"Training takes {seconds[base] / usual:.1f}\u00a0× as long." if timed else "It needs a new training."
        )
        networks, passes = (1.0, 1.0) if row.cost is None else (row.cost["networks"], row.cost["passes"])
        if max(networks, passes) > 1:
            says.append(f"A prediction takes {passes:g} passes.")
        elif calibrator is None:
            says.append("Nothing to ship but the network.")
    elif calibrator is not None:
        says.append("No training; seconds, on held-out rows.")
    if calibrator in HEADS:
        says.append("It reads features at prediction too.")
    return " ".join(says)


def _accuracy(row: Row, plain: Row) -> str:
    before, after = plain.cells["accuracy"], row.cells["accuracy"]
    base, calibrator = registry.parts(row.method)
    if base == registry.ONE_HOT and calibrator in SAME_ANSWERS:
        return "answers unchanged"
    difference = after.against.get(registry.ONE_HOT)
    change = after.value - before.value
    seeds = sum(new > old for new, old in zip(after.values, before.values, strict=True))
    proved = difference is not None and difference.proved
    if not proved and abs(change) < 0.0005:
        return "accuracy unchanged"
    sign = "+" if change >= 0 else "−"
    beyond = f", {seeds} of {after.n} seeds" if proved else ", may be sampling noise"
    return f"accuracy {100 * before.value:.1f} → {percent(after.value)} ({sign}{abs(100 * change):.1f}{beyond})"


def _code(row: Row, data: str) -> str | None:
    """The command that does it; None where there is none."""
    base, calibrator = registry.parts(row.method)
    lines = []
    if base != registry.ONE_HOT:
        method = registry.named(base)
        how = f"--method {base}"
        if method.kind == "similarity":
            source = base.removeprefix(f"{registry.LEARNED}-") if method.learned else base
            how = f"--method similarity --distance {source}{' --prior-rows 1 --alpha 0.5' if method.learned else ''}"
        lines.append(f"softkin train {data} {how} --output run/")
    if calibrator is not None and calibrator not in HEADS:
        name = calibrators.REGISTRY.canonical(calibrator)
        file = "run/validation.safetensors" if lines else "validation.npz"
        lines.append(f"softkin calibrate fit {file} --method {name} --output cal/")
    return "\n".join(lines) or None


def _seeds(count: int, *, start: bool = True) -> str:
    words = f"{SMALL.get(count, str(count))} seed{'' if count == 1 else 's'}"
    return words.capitalize() if start else words
