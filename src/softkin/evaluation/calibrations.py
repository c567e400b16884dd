"""Calibrators by name, applied to predictions; and a comparison of all of them."""

import math
import re
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch

from softkin import SoftkinError, calibrators
from softkin import metrics as measures
from softkin._core.names import did_you_mean
from softkin._core.progress import track
from softkin._io.files import from_number
from softkin.calibrators import REGISTRY, Calibrator, zeros
from softkin.calibrators.selection import BestFit, fit_best
from softkin.evaluation import comparison, doubts
from softkin.evaluation.results import CalibratorLine, Compared, ComparedCalibrators
from softkin.metrics import catalogue
from softkin.metrics.measurement import MeasuredData, Settings, measure
from softkin.predictions import Predictions

UNCALIBRATED = "uncalibrated"
SHOWN = 0.0005
"""A smaller difference does not show in three digits: nobody should fit a larger calibrator for it"""

NAMED = 4  # calibrators to list in a sentence


def orders() -> list[str]:
    """The metrics that can order methods: those of a comparison that have a better direction."""
    return [metric.key for metric in catalogue.shown("compare") if metric.larger_is_better is not None]


def order(name: str) -> str:
    """The key of a metric by which methods can be ordered."""
    metric = catalogue.METRICS.canonical(name) if name in catalogue.METRICS else name
    if metric not in orders():
        guess = did_you_mean(str(name), orders())
        raise ValueError(f"`metric` must be one of {', '.join(orders())}, got {name!r}{guess}")
    return metric


def method(name: str) -> Calibrator:
    """An unfitted calibrator by one of its names, perhaps with options as ``in_words`` writes them.

    Example:
        >>> method("Ensemble-temperature (objective nll)")
        EnsembleTemperatureScaling(objective='nll')
    """
    plain, _, said = name.strip().removesuffix(")").partition("(")
    kind = REGISTRY[REGISTRY.canonical(plain.strip(), "method")]
    return kind(**dict(_option(kind, text.strip()) for text in said.split(",") if text.strip()))


def _option(kind: type[Calibrator], text: str) -> tuple[str, Any]:
    """An option and its value, of a text such as "strength 0.1"."""
    spelled = {option.replace("_", " "): option for option in kind.option_names()}
    name = next((words for words in spelled if text.startswith(f"{words} ")), None)
    if name is None:
        allowed = ", ".join(spelled) or "none"
        raise ValueError(f"{kind.name} has no option {text.partition(' ')[0]!r}; it has: {allowed}.")
    value = text.removeprefix(name).strip()
    for kind_of_number in (int, float):
        with suppress(ValueError):
            return spelled[name], kind_of_number(value)
    return spelled[name], value


def methods_in(text: str) -> list[str]:
    """The names in a list with commas; those between parentheses belong to options."""
    return [name.strip() for name in re.split(r",(?![^(]*\))", text) if name.strip()]


def fit(calibrator: Calibrator, predictions: Predictions, *, floor: float | None = None, **beside: Any) -> Calibrator:
    """Fit on predictions, and remember their rows by content and ids; ``floor`` as for ``Calibrator.fit``.

    Args:
        calibrator: The calibrator.
        predictions: The rows.
        floor: The value that replaces a probability of 0.
        beside: What this calibrator takes besides.
    """
    scores, labels, weights = predictions.arrays()
    calibrator.fit(
        scores,
        labels,
        from_probabilities=predictions.are_probabilities,
        floor=floor,
        sample_weight=weights,
        class_names=predictions.class_names,
        **beside,
    )
    calibrator.sample_digests_ = doubts.known_by(predictions)
    return calibrator


def zeros_as(predictions: Predictions, floor: float | None) -> tuple[float | None, str | None]:
    """(the value that replaces probabilities of 0, a sentence about it), for fits of several calibrators.

    A stated ``floor`` is returned as it is, and so is None for logits.
    """
    if floor is not None or not predictions.are_probabilities:
        return floor, None
    estimate = calibrators.floor_of(predictions.scores, predictions.known_labels)
    return estimate.value, f"{estimate}." if estimate.zeros else None


def without_zeros(predictions: Predictions) -> tuple[float, float]:
    """The NLL with probabilities of exactly 0 as a fit on these rows takes them, and the value that replaces them."""
    floor = calibrators.floor_of(predictions.probabilities, predictions.known_labels).value
    p = zeros.logarithms(predictions.probabilities.double(), floor).softmax(dim=1)
    of, labels, weights = predictions.arrays(p)
    return measures.nll(of, labels, sample_weight=weights), floor


def best(predictions: Predictions, *, floor: float | None = None) -> BestFit:
    """The choice by five-fold cross-fitting; the one ahead searches its penalty, where that is affordable."""
    return fit_best(
        predictions.scores,
        predictions.known_labels,
        from_probabilities=predictions.are_probabilities,
        floor=floor,
        patient=False,
    )


def compare_methods(
    validation: Predictions,
    test: Predictions,
    methods: Sequence[str] | None = None,
    *,
    floor: float | None = None,
    metric: str = "nll",
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    progress: bool | None = None,
) -> ComparedCalibrators:
    """Fit every method on one set of samples and measure it on another.

    Args:
        validation: The samples that the calibrators are fitted on.
        test: The samples that they are measured on; a warning counts samples that are in both sets.
        methods: Names of calibrators; by default all, without those that search their penalty where that would take
            many minutes (``calibrators.affordable``); a warning names these.
        floor: The value that replaces a probability of 0, as for ``Calibrator.fit``.
        metric: The metric that orders them, one of ``orders()``, such as "nll", "brier" or "accuracy".
        confidence: The level of all intervals.
        resamples: The number of resamples for an interval.
        seed: The seed of the resampling.
        progress: Whether to show a bar; by default on a terminal.

    Returns:
        Plain data: ``methods``, best first, each with ``metrics``, ``seconds``, perhaps ``failed`` or ``warnings``;
        "uncalibrated" is one of them. ``winner`` names the first, ``comparisons`` hold its paired differences to all
        others, with intervals that hold together and p-values that count all of them (Bonferroni). ``level`` names
        those that cannot be told from it, and ``recommended`` the simplest of these that is better than no calibration.
    """
    settings = Settings(confidence=confidence, resamples=resamples, seed=seed)
    metric = order(metric)
    doubts.require_same_classes(validation, test)
    notices = [doubts.between(validation, test)]
    floor, about_zeros = zeros_as(validation, floor)
    notices += [f"{validation.name}: {about_zeros}"] if about_zeros is not None else []
    if methods is None:
        methods, left_out = list(REGISTRY), []
        if not calibrators.affordable(len(validation), validation.num_classes):
            left_out = [name for name in methods if REGISTRY[name].searches]
            methods = [name for name in methods if name not in left_out]
            notices.append(
                f"{', '.join(left_out)} are left out: with {len(validation):,} samples of {validation.num_classes} "
                "classes each would search its penalty for minutes; name them in --methods to include them."
            )
    candidates = [(type(calibrator).name, calibrator) for calibrator in map(method, methods)]
    kept = {UNCALIBRATED: test.probabilities}
    sizes = {UNCALIBRATED: 0}
    untouched = _metrics(test.probabilities, test, settings)
    lines: list[CalibratorLine] = [{"method": UNCALIBRATED, "code": None, "metrics": untouched, "seconds": 0.0}]
    for name, candidate in track(candidates, "calibrating", total=len(candidates), show=progress):
        line: CalibratorLine = {"method": name, "code": repr(candidate)}
        lines.append(line)
        start = time.perf_counter()
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                p = test.calibrated(fit(candidate, validation, floor=floor)).probabilities
        except (ValueError, SoftkinError) as error:
            line["failed"] = str(error)
            continue
        line["seconds"] = time.perf_counter() - start
        line["metrics"] = _metrics(p, test, settings)
        kept[name], sizes[name] = p, candidate.num_fitted
        if said:
            line["warnings"] = sorted({str(warning.message) for warning in said})
    lines.sort(key=lambda line: _order(line, metric))
    names = [line["method"] for line in lines if line["method"] in kept]
    winner = names[0]
    every = settings.simultaneous(len(names) - 1)
    pairs = [_against(kept, winner, rival, test, metric, every, len(names) - 1) for rival in names[1:]]
    level = [pair["b"] for pair in pairs if _is_level(pair)]
    better = [
        name
        for name in level
        if name != UNCALIBRATED and _beats(_against(kept, name, UNCALIBRATED, test, metric, every))
    ]
    recommended = winner
    if UNCALIBRATED not in level and winner != UNCALIBRATED:
        recommended = min([winner, *better], key=lambda name: sizes[name])
    return {
        "fitted_on": {"name": validation.name, "num_samples": len(validation), "digest": validation.digest},
        "measured_on": {"name": test.name, "num_samples": len(test), "digest": test.digest},
        "metric": metric,
        "confidence": confidence,
        "methods": lines,
        "winner": winner,
        "recommended": recommended,
        "level": level,
        "comparisons": pairs,
        "warnings": [notice for notice in notices if notice],
    }


def headline(result: ComparedCalibrators) -> str:
    """What a comparison of calibrators says, in one line: which to use, or that none is seen to help."""
    metric = catalogue.METRICS[result["metric"]]
    values = {
        line["method"]: from_number(line["metrics"][metric.key]["value"])
        for line in result["methods"]
        if "metrics" in line
    }
    if result["winner"] == UNCALIBRATED:
        return "No calibrator improves it"
    if UNCALIBRATED in result["level"]:
        best = "highest" if metric.larger_is_better else "lowest"
        return f"{result['winner']} has the {best} {metric.short}, but that may be sampling noise"
    old, new = (values[name] for name in (UNCALIBRATED, result["recommended"]))
    if metric.percent:
        change = f"{100 * old:.1f} → {100 * new:.1f} %"
    else:
        change = " → ".join("∞" if math.isinf(value) else f"{value:.3f}" for value in (old, new))
    return f"Use {result['recommended']}: {metric.short} {change}"


def why(result: ComparedCalibrators) -> str:
    """Why the recommended calibrator is not the one with the best value, and which others do as well."""
    metric, winner, chosen = catalogue.METRICS[result["metric"]], result["winner"], result["recommended"]
    others = [name for name in result["level"] if name not in (chosen, UNCALIBRATED)]
    if winner == chosen:
        alike = ", ".join(others) if len(others) <= NAMED else f"{len(others)} others"
        return f"It cannot be told from {alike}." if others else ""
    pair = next(pair for pair in result["comparisons"] if pair["b"] == chosen)
    gap = abs(from_number(pair["difference"]))
    shown = f"{100 * gap:.2f} points" if metric.percent else f"{gap:.4f}"
    small = "too little to show in three digits" if gap < SHOWN else "which may be sampling noise"
    seconds = {line["method"]: line.get("seconds", 0.0) for line in result["methods"]}
    slower = (
        f" and takes {seconds[winner] - seconds[chosen]:.0f} s more" if seconds[winner] > seconds[chosen] + 1 else ""
    )
    return f"{winner} is better by {shown} only, {small}; it fits more numbers{slower}."


def _metrics(p: torch.Tensor, test: Predictions, settings: Settings) -> dict[str, MeasuredData]:
    claims = test.claims_of(p)
    measured = measure(claims, catalogue.shown("compare", claims.num_classes), settings)
    return {key: one.to_dict() for key, one in measured.items() if one.absent is None}


def _order(line: CalibratorLine, metric: str) -> float:
    if "metrics" not in line:
        return float("inf")
    return catalogue.METRICS[metric].cost(from_number(line["metrics"][metric]["value"]))


def _is_level(pair: Compared) -> bool:
    """Whether the second cannot be told from the first, by the test or in the digits printed."""
    difference = from_number(pair["difference"])
    return math.isfinite(difference) and (not pair["significant"] or abs(difference) < SHOWN)


def _beats(pair: Compared) -> bool:
    """Whether the first is better than the second, which may be infinitely bad."""
    larger, difference = catalogue.METRICS[pair["metric"]].larger_is_better, from_number(pair["difference"])
    return (difference > 0) == bool(larger) and (pair["significant"] or math.isinf(difference))


def _against(
    kept: dict[str, torch.Tensor],
    winner: str,
    rival: str,
    test: Predictions,
    metric: str,
    settings: Settings,
    count: int = 1,
) -> Compared:
    """The difference of two, as one of ``count`` comparisons whose level the settings have."""
    (first, labels, weights), (second, *_) = (test.arrays(kept[name]) for name in (winner, rival))
    compared = measures.compare(
        first,
        second,
        labels,
        metric,
        sample_weight=weights,
        confidence=settings.level,
        resamples=settings.resamples,
        seed=settings.seed,
    )
    return {
        "a": winner,
        "b": rival,
        "metric": metric,
        **comparison.difference(compared),
        "p_value": min(1.0, count * compared.p_value),
        "significant": compared.low > 0 or compared.high < 0,  # False if infinities leave no interval
    }
