"""The first screen of several models: each as it is and after temperature scaling, sorted by NLL, and which to use.

Of binary models the winning class says little where one class is rare: nearly all answers are "no", and right. Each is
shown by the rows to which it gives the highest probability of the positive class, as many as there are positives: a
perfect model is sure and right of all of them, and all models are measured on as many rows.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from softkin._io.files import from_number, number
from softkin.calibrators import TemperatureScaling, floor_of
from softkin.evaluation.comparison import Scaled
from softkin.evaluation.positive import name_of
from softkin.evaluation.results import Compared, Evaluation, already
from softkin.metrics import ece_hist, nll
from softkin.predictions import Predictions
from softkin.report import mistakes
from softkin.report.data import AfterScaling, Choice, Overview, OverviewRow, OverviewWords

LEAST_GAP = 0.01  # a smaller gap than a point is none that matters, however certain
USELESS = 0.5  # of the best accuracy: a model that is right less often is not recommended, however well calibrated
WORTH = 0.9  # of the error that a temperature must leave at most, to be advised


def kind_of(gap: float, error: float) -> Literal["over", "under", "fine"]:
    """Whether a gap of this standard error is more than chance, and more than a point."""
    if abs(gap) < max(LEAST_GAP, 2 * error):
        return "fine"
    return "over" if gap > 0 else "under"


def of_models(
    keys: Sequence[str],
    titles: Sequence[str],
    models: Sequence[Predictions],
    evaluated: Sequence[Evaluation],
    pairs: Sequence[Compared],
    scaled: Scaled,
    *,
    n_bins: int,
    seed: int,
) -> Overview:
    """The first screen of models that answer the same samples.

    Args:
        keys: The key of each model.
        titles: A name for each that fits into a sentence.
        models: Their predictions.
        evaluated: Their evaluations.
        pairs: Their paired comparisons, with keys.
        scaled: The models after temperature scaling, and their paired comparisons, with keys.
        n_bins: The number of bins of the calibration error.
        seed: The seed of the resampling.
    """
    rows = {
        key: _row(key, model, known, p, n_bins, seed)
        for key, model, known, p in zip(keys, models, evaluated, scaled.probabilities, strict=True)
    }
    names = dict(zip(keys, titles, strict=True))
    order = sorted(rows.values(), key=lambda row: from_number(row["nll"]))
    most = max(row["right"] for row in order)
    useful = [row for row in order if row["right"] >= USELESS * most]
    best = useful[0]
    changed = _ranked_otherwise(best, useful)
    if changed is not None and (_more_accurate(changed, best, pairs) or _differ(changed, best, scaled.pairs, "nll")):
        best = changed  # what one number would repair outweighs neither better answers nor better scores behind it
    words = _words(models[0])
    headline, detail = _said(best, order, useful, names, pairs, words)
    return {
        "headline": headline,
        "kind": best["kind"],
        "detail": detail,
        "groups": [{"title": "Sorted by NLL, the best first", "rows": order}],
        "choices": _choices(best, order, useful, names, pairs, words),
        "chosen": best["method"],
        "baseline": None,
        "words": words,
    }


def _row(key: str, model: Predictions, known: Evaluation, after: Tensor | None, n_bins: int, seed: int) -> OverviewRow:
    measured = known["metrics"]
    gap = measured["signed_gap"]
    error = measured.get("ece_positive", measured["ece_hist"])  # the winning class hides half of a binary model
    right, value = from_number(measured["accuracy"]["value"]), from_number(gap["value"])
    kind = {"over": "over", "under": "under"}.get(known["verdict"]["kind"], "fine")
    surest = _surest(model, model.probabilities)
    if surest is not None:
        right, sure, rows = surest
        value = sure - right
        kind = kind_of(value, math.sqrt(right * (1 - right) / rows))
    chance = error["when_calibrated"]["value"] if "when_calibrated" in error else None
    row: OverviewRow = {
        "method": key,
        "right": right,
        "sure": right + value,
        "kind": kind,  # type: ignore[typeddict-item]
        "error": from_number(error["value"]),
        "dots": [],
        "chance": None if chance is None else from_number(chance),
        "nll": measured["nll"]["value"],
        "cost": None,
    }
    if error.get("low") is not None:
        row |= {"low": error["low"], "high": error["high"]}
    if model.calibrated_by is not None:
        row["calibrated_by"] = model.calibrated_by
    if after is not None:
        row["after"] = _after(model, after, n_bins)
    return row


def _surest(model: Predictions, p: Tensor) -> tuple[float, float, int] | None:
    """Of a binary model's rows with the highest probability of the positive class, as many as there are positives: the
    share of positives, the mean probability, and their number. Equal scores at the limit share what is left. None for
    more classes, and for labels of one class.
    """
    hits = model.known_labels == 1
    count = int(hits.sum())
    if model.are_pairs or model.num_classes != 2 or not 0 < count < len(hits):
        return None
    scores = p[:, 1].to(torch.float64)
    limit = scores.sort(descending=True).values[count - 1]
    above, level = scores > limit, scores == limit
    weight = above.to(torch.float64) + level * ((count - int(above.sum())) / int(level.sum()))
    return float((weight * hits).sum()) / count, float((weight * scores).sum()) / count, count


def _sure(model: Predictions, p: Tensor) -> float:
    """How sure these probabilities of a model are, as its row shows it."""
    if model.are_pairs:
        return float(p[:, 1].mean())
    surest = _surest(model, p)
    return float(p.amax(dim=1).mean()) if surest is None else surest[1]


def _words(model: Predictions) -> OverviewWords:
    """What the picture's dots and ticks are."""
    surest = _surest(model, model.probabilities)
    if surest is None:
        about = "a right answer" if model.are_pairs else None
        return {"right": "right", "sure": "sure", "note": "", "rows": None, "positive": about}
    name = name_of(mistakes.display_names(model.class_names, 2)[1])
    count = surest[2]
    return {
        "right": "true",
        "sure": "said",
        "note": f"Of the {count:,} rows that each model gives the highest probability of {name}, as many as there are: "
        "● the share that is, | the mean probability.",
        "rows": count,
        "positive": name,
    }


def _after(model: Predictions, p: Tensor, n_bins: int) -> AfterScaling:
    """The model with these probabilities, which temperatures of two folds gave, and the temperature of all rows."""
    y, given = model.known_labels, model.are_probabilities
    z = model.probabilities if given else model.logits
    fitted = TemperatureScaling().fit(z, y, from_probabilities=given, floor=floor_of(z, y).value if given else None)
    return {
        "sure": _sure(model, p),
        "error": float(ece_hist(p[:, 1], y == 1, n_bins=n_bins) if p.shape[1] == 2 else ece_hist(p, y, n_bins=n_bins)),
        "nll": number(float(nll(p, y))),
        "temperature": number(float(fitted.temperature_)),
    }


def _said(
    best: OverviewRow,
    order: Sequence[OverviewRow],
    useful: Sequence[OverviewRow],
    names: Mapping[str, str],
    pairs: Sequence[Compared],
    words: OverviewWords,
) -> tuple[str, str]:
    """Headline and lead, from accuracy and verdicts together."""
    count = len(order)
    off = [row for row in order if row["kind"] != "fine"]
    name = names[best["method"]]
    level = [row for row in useful if row is not best and best is useful[0] and _is_level(best, row, pairs)]
    others = "the other" if count == 2 else "all others"
    ahead = "" if level or best is not useful[0] else f", significantly ahead of {others}"
    endless = [names[row["method"]] for row in useful if row is not best and from_number(row["nll"]) == math.inf]
    if ahead and endless:
        ahead = f"; that of {joined(endless)} is infinite, as a true class got the probability 0"
    lowest = f"the lowest NLL ({from_number(best['nll']):.3f})"
    if best is not useful[0]:
        lowest = f"the lowest NLL after a temperature ({_nlls(best).removeprefix('NLL ')})"
    headline = f"Use {name}" if not level else f"Use {name}, or {joined([names[row['method']] for row in level])}"
    if len(level) > 2:
        headline = f"{len(level) + 1} of {count} models are level in NLL; {name} has the lowest"
    over = [row for row in off if row["kind"] == "over"]
    if best["kind"] != "fine":
        how = "too sure" if best["kind"] == "over" else "too modest"
        headline += f"; it is {in_words(abs(best['sure'] - best['right']))} {how}"
    says = []
    if len(off) == count:
        what = (
            "claim too much"
            if len(over) == count
            else "claim too little"
            if not over
            else "claim too much or too little"
        )
        says.append(f"{_all(count)} {what}.")
    elif off:
        says.append(f"{len(off)} of {count} claim too much or too little.")
    else:
        unsteady = [names[row["method"]] for row in order if from_number(row.get("low", 0.0)) > 0]
        mixed = f" on the whole, but the calibration error of {joined(unsteady)} is more than chance."
        says.append(
            f"None of the {count} claims too much or too little"
            f"{mixed if unsteady else ', as far as these samples show.'}"
        )
    says.append(f"{name} {_is_right(best, words)}, with {lowest}{ahead}.")
    if "calibrated_by" in best:
        if best["kind"] in ("over", "under"):  # else there is nothing to repair
            says.append(already(best["calibrated_by"], best["kind"]))
    elif best["kind"] != "fine" and "after" in best:
        error = f"its error {'from' if _helps(best) else 'of'} {100 * best['error']:.1f}"
        to = f"{error} to {percent(best['after']['error'])}"
        says.append(f"A temperature brings {to}." if _helps(best) else f"A temperature does not repair {error} %.")
    changed = _ranked_otherwise(best, useful)
    if changed is not None and best is useful[0]:
        says.append(f"After temperature scaling {names[changed['method']]} has the lowest NLL, but not significantly.")
    return headline, " ".join(says)


def _ranked_otherwise(best: OverviewRow, useful: Sequence[OverviewRow]) -> OverviewRow | None:
    """The model that leads once every one has its temperature, if it is another one."""
    if any("after" not in row for row in useful):
        return None
    first = min(useful, key=lambda row: from_number(row["after"]["nll"]))
    return None if first is best else first


def _more_accurate(a: OverviewRow, b: OverviewRow, pairs: Sequence[Compared]) -> bool:
    """Whether ``a`` is right more often than ``b``, beyond chance."""
    for pair in pairs:
        if (
            pair["metric"] == "accuracy"
            and pair["significant"]
            and {pair["a"], pair["b"]} == {a["method"], b["method"]}
        ):
            return (from_number(pair["difference"]) > 0) == (pair["a"] == a["method"])
    return False


def _nlls(row: OverviewRow) -> str:
    """The NLL as given and after a temperature."""
    values = [from_number(row["nll"]), from_number(row["after"]["nll"])]
    return "NLL " + " → ".join("∞" if value == math.inf else f"{value:.3f}" for value in values)


def _is_level(a: OverviewRow, b: OverviewRow, pairs: Sequence[Compared]) -> bool:
    """Whether their NLL cannot be told apart; an infinite one can, from any."""
    return from_number(b["nll"]) < math.inf and not _differ(a, b, pairs, "nll")


def _helps(row: OverviewRow) -> bool:
    """Whether a temperature lowers calibration error and NLL by enough to fit one: the digits shown must tell."""
    if "after" not in row or row["after"]["error"] > WORTH * row["error"]:
        return False
    before, after = (from_number(value) for value in (row["nll"], row["after"]["nll"]))
    return round(after, 3) < round(before, 3) if math.isfinite(before) else math.isfinite(after)


def _needs_one(row: OverviewRow) -> bool:
    """Whether a model should not be used as it is: its confidence is off, or it called impossible what came true."""
    return row["kind"] != "fine" or from_number(row["nll"]) == math.inf


def _is_right(row: OverviewRow, words: OverviewWords) -> str:
    """How often a model is right, in a sentence; of a binary one, its surest alarms."""
    if words["rows"] is None:
        return f"is right in {percent(row['right'])}"
    return f"is right in {percent(row['right'])} of its {words['rows']:,} surest alarms ({words['positive']})"


def _differ(a: OverviewRow, b: OverviewRow, pairs: Sequence[Compared], metric: str) -> bool:
    both = {a["method"], b["method"]}
    return any(pair["significant"] for pair in pairs if pair["metric"] == metric and {pair["a"], pair["b"]} == both)


def _choices(
    best: OverviewRow,
    order: Sequence[OverviewRow],
    useful: Sequence[OverviewRow],
    names: Mapping[str, str],
    pairs: Sequence[Compared],
    words: OverviewWords,
) -> list[Choice]:
    repair, code = "", None
    needed = _needs_one(best) or best is not useful[0]  # what leads with a temperature is advised with one
    if "calibrated_by" in best:
        needed = False  # a second calibrator on top of the first is no advice
    elif needed and "after" in best and (_helps(best) or from_number(best["nll"]) == math.inf):
        repair, code = (
            ", and fit a temperature",
            "softkin calibrate fit validation.npz --method temperature --output cal/",
        )
    elif best["kind"] != "fine":
        repair, code = ", and look for a calibrator", "softkin calibrate compare validation.npz test.npz"
    title = f"Use {names[best['method']]}{repair}"
    made: list[Choice] = [{"kind": "recommended", "title": title, "text": _effect(best, words, needed), "code": code}]
    changed = _ranked_otherwise(best, useful)
    if changed is not None and best is useful[0]:
        text = f"{_nlls(changed)}, then the lowest; it {_is_right(changed, words)}."
        made.append(_option("Every model gets a temperature?", changed, text, names))
    accurate = max(order, key=lambda row: row["right"])
    if accurate is not best:
        known = words["rows"] is not None or _differ(accurate, best, pairs, "accuracy")
        text = f"it {_is_right(accurate, words)}{'' if known else '; the difference may be sampling noise'}."
        title = "Only the answers count?" if words["rows"] is None else "Only the order counts?"
        made.append(_option(title, accurate, text, names))
    possible = [row for row in useful if from_number(row["nll"]) < math.inf]
    honest = min(possible or useful, key=lambda row: row["error"])
    if honest is not best and (honest["error"] <= WORTH * best["error"] or best not in possible):
        text = f"error {percent(honest['error'])} as given; it {_is_right(honest, words)}."
        made.append(_option("No calibrator in production?", honest, text, names))
    useless = [row for row in order if row["right"] < USELESS * max(row["right"] for row in order)]
    if useless:
        least = min(useless, key=lambda row: row["right"])
        title = f"Do not use {names[least['method']]}"
        honest_words = "Honest, but it" if least["kind"] == "fine" else "It"
        text = f"{honest_words} {_is_right(least, words)} only."
        made.append({"kind": "avoid", "title": title, "text": text, "code": None})
    elif order[-1] is not best and from_number(order[-1]["nll"]) == math.inf:
        text = "It gave a probability of 0 to what came true: NLL ∞. A calibrator repairs that too."
        title = f"Do not use {names[order[-1]['method']]} as it is"
        made.append({"kind": "avoid", "title": title, "text": text, "code": None})
    elif order[-1] is not best and order[-1]["kind"] != "fine" and not _is_level(best, order[-1], pairs):
        last = order[-1]
        how = "too sure" if last["sure"] > last["right"] else "too modest"
        text = f"{in_words(abs(last['sure'] - last['right']), capital=True)} {how}, and the highest NLL."
        made.append({"kind": "avoid", "title": f"Last: {names[last['method']]}", "text": text, "code": None})
    return made


def _option(title: str, row: OverviewRow, text: str, names: Mapping[str, str]) -> Choice:
    return {"kind": "option", "title": title, "text": f"{names[row['method']]}: {text}", "code": None}


def _effect(row: OverviewRow, words: OverviewWords, needed: bool) -> str:
    says = f"It {_is_right(row, words)}."
    after: Any = row.get("after")
    infinite = from_number(row["nll"]) == math.inf
    if after is None or not needed or not (_helps(row) or infinite):
        nll_text = "∞" if infinite else f"{from_number(row['nll']):.3f}"
        return f"{says} NLL {nll_text}, calibration error {percent(row['error'])}."
    temperature = from_number(after["temperature"])
    return (
        f"{says} With T = {temperature:.2f}: error {100 * row['error']:.1f} → {percent(after['error'])}, "
        f"{_nlls(row)}, answers unchanged."
    )


# Texts


def percent(value: float, digits: int = 1) -> str:
    """A share in percent."""
    return f"{100 * value:.{digits}f} %"


def in_words(gap: float, *, capital: bool = False) -> str:
    """A number of points: whole from 3 on."""
    points = 100 * gap
    text = f"{points:.0f}" if points >= 2.95 and not capital else f"{points:.1f}"
    return f"{text} point{'' if text == '1' else 's'}"


def joined(texts: Sequence[str]) -> str:
    """Texts as a list in a sentence."""
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def _all(count: int) -> str:
    return "Both" if count == 2 else f"All {count}"
