"""The first screen of several models: each as it is and after temperature scaling, sorted by NLL, and which to use."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from softkin._io.files import from_number, number
from softkin.calibrators import TemperatureScaling, floor_of
from softkin.calibrators.held_out import cross_fit
from softkin.evaluation.results import Compared, Evaluation
from softkin.metrics import ece_hist, nll
from softkin.metrics.catalogue import METRICS
from softkin.metrics.measurement import Settings, measure
from softkin.predictions import Predictions
from softkin.report import positive
from softkin.report.data import AfterScaling, Choice, Overview, OverviewRow

LEAST_GAP = 0.01  # a smaller gap than a point is none that matters, however certain
LEAST_TO_SCALE = 50  # samples
USELESS = 0.5  # of the best accuracy: a model that is right less often is not recommended, however well calibrated


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
        n_bins: The number of bins of the calibration error.
        seed: The seed of the two folds in which temperatures are fitted.
    """
    rows = {
        key: _row(key, model, known, n_bins, seed) for key, model, known in zip(keys, models, evaluated, strict=True)
    }
    names = dict(zip(keys, titles, strict=True))
    order = sorted(rows.values(), key=lambda row: from_number(row["nll"]))
    most = max(row["right"] for row in order)
    useful = [row for row in order if row["right"] >= USELESS * most]
    best = useful[0]
    headline, detail = _said(best, order, useful, names, pairs)
    return {
        "headline": headline,
        "kind": best["kind"],
        "detail": detail,
        "groups": [{"title": "Sorted by NLL, the best first", "rows": order}],
        "choices": _choices(best, order, useful, names, pairs),
        "chosen": best["method"],
        "baseline": None,
    }


def _row(key: str, model: Predictions, known: Evaluation, n_bins: int, seed: int) -> OverviewRow:
    measured = known["metrics"]
    gap, error = measured["signed_gap"], measured["ece_hist"]
    if model.num_classes == 2:  # of the probability of the positive class: the winning one hides half of it
        settings = Settings(n_bins, known["settings"]["confidence"], known["settings"]["resamples"], seed)
        of = positive.claims_of(model.probabilities, model.known_labels)
        error = measure(of, [METRICS["ece_hist"]], settings)["ece_hist"].to_dict()
    right, value = from_number(measured["accuracy"]["value"]), from_number(gap["value"])
    chance = error["when_calibrated"]["value"] if "when_calibrated" in error else None
    row: OverviewRow = {
        "method": key,
        "right": right,
        "sure": right + value,
        "kind": {"over": "over", "under": "under"}.get(known["verdict"]["kind"], "fine"),  # type: ignore[typeddict-item]
        "error": from_number(error["value"]),
        "dots": [],
        "chance": None if chance is None else from_number(chance),
        "nll": measured["nll"]["value"],
        "cost": None,
    }
    if error.get("low") is not None:
        row |= {"low": error["low"], "high": error["high"]}
    after = scaled(model, n_bins=n_bins, seed=seed)
    if after is not None:
        row["after"] = after
    return row


def scaled(model: Predictions, *, n_bins: int, seed: int) -> AfterScaling | None:
    """The model after temperature scaling, cross-fitted in two folds; None for too few samples."""
    if len(model) < LEAST_TO_SCALE:
        return None
    y, given = model.known_labels, model.are_probabilities
    z = model.probabilities if given else model.logits
    floor = floor_of(z, y).value if given else None
    try:
        p = cross_fit(TemperatureScaling(), z, y, folds=2, from_probabilities=given, floor=floor, seed=seed)
        fitted = TemperatureScaling().fit(z, y, from_probabilities=given, floor=floor)
    except ValueError:  # such as a fold with a single class
        return None
    return {
        "sure": float(p.amax(dim=1).mean()),
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
) -> tuple[str, str]:
    """Headline and lead, from accuracy and verdicts together."""
    count = len(order)
    off = [row for row in order if row["kind"] != "fine"]
    name = names[best["method"]]
    level = [row for row in useful if row is not best and not _differ(best, row, pairs, "nll")]
    ahead = "" if level else ", significantly ahead of all others"
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
        says.append(f"None of the {count} claims too much or too little, as far as these samples show.")
    says.append(
        f"{name} is right in {percent(best['right'])}, with the lowest NLL ({from_number(best['nll']):.3f}){ahead}."
    )
    after = best.get("after")
    if after is not None and best["kind"] != "fine":
        says.append(f"A temperature brings its error from {100 * best['error']:.1f} to {percent(after['error'])}.")
    changed = _ranked_otherwise(best, useful)
    if changed is not None:
        says.append(f"After temperature scaling {names[changed['method']]} has the lowest NLL.")
    return headline, " ".join(says)


def _ranked_otherwise(best: OverviewRow, useful: Sequence[OverviewRow]) -> OverviewRow | None:
    """The model that leads once every one has its temperature, if it is another one."""
    if any("after" not in row for row in useful):
        return None
    first = min(useful, key=lambda row: from_number(row["after"]["nll"]))
    return None if first is best else first


def _differ(a: OverviewRow, b: OverviewRow, pairs: Sequence[Compared], metric: str) -> bool:
    both = {a["method"], b["method"]}
    return any(pair["significant"] for pair in pairs if pair["metric"] == metric and {pair["a"], pair["b"]} == both)


def _choices(
    best: OverviewRow,
    order: Sequence[OverviewRow],
    useful: Sequence[OverviewRow],
    names: Mapping[str, str],
    pairs: Sequence[Compared],
) -> list[Choice]:
    made: list[Choice] = [
        {
            "kind": "recommended",
            "title": f"Use {names[best['method']]}" + (", and fit a temperature" if best["kind"] != "fine" else ""),
            "text": _effect(best),
            "code": "softkin calibrate fit validation.npz --method temperature --output cal/"
            if best["kind"] != "fine" and "after" in best
            else None,
        }
    ]
    accurate = max(order, key=lambda row: row["right"])
    if accurate is not best:
        sure = "" if _differ(accurate, best, pairs, "accuracy") else "; the difference may be sampling noise"
        made.append(_option("Only the answers count?", accurate, f"{percent(accurate['right'])} right{sure}.", names))
    honest = min(useful, key=lambda row: row["error"])
    if honest is not best:
        text = f"Error {percent(honest['error'])} as given, {percent(honest['right'])} right."
        made.append(_option("No calibrator in production?", honest, text, names))
    useless = [row for row in order if row["right"] < USELESS * max(row["right"] for row in order)]
    if useless:
        least = min(useless, key=lambda row: row["right"])
        title = f"Do not use {names[least['method']]}"
        honest_words = "Honest, but right" if least["kind"] == "fine" or least["error"] < 0.05 else "Right"
        text = f"{honest_words} in {percent(least['right'])} of the samples only."
        made.append({"kind": "avoid", "title": title, "text": text, "code": None})
    elif order[-1] is not best and order[-1]["kind"] != "fine":
        last = order[-1]
        how = "too sure" if last["sure"] > last["right"] else "too modest"
        text = f"{in_words(abs(last['sure'] - last['right']), capital=True)} {how}, and the highest NLL."
        made.append({"kind": "avoid", "title": f"Last: {names[last['method']]}", "text": text, "code": None})
    return made


def _option(title: str, row: OverviewRow, text: str, names: Mapping[str, str]) -> Choice:
    return {"kind": "option", "title": title, "text": f"{names[row['method']]}: {text}", "code": None}


def _effect(row: OverviewRow) -> str:
    says = f"{percent(row['right'])} right, NLL {from_number(row['nll']):.3f}."
    after: Any = row.get("after")
    if after is None or row["kind"] == "fine":
        return f"{says} Calibration error {percent(row['error'])}."
    temperature = from_number(after["temperature"])
    return (
        f"{says} With T = {temperature:.2f}: error {100 * row['error']:.1f} → {percent(after['error'])}, "
        f"NLL {from_number(row['nll']):.3f} → {from_number(after['nll']):.3f}, answers unchanged."
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
