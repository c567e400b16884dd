"""Predictions of one model → everything that its page shows, as plain data."""

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, Literal, NotRequired, TypedDict

import torch
from torch import Tensor

from softkin import __version__, calibrators
from softkin._core import checks, randomness
from softkin._core.checks import Array
from softkin._core.progress import track
from softkin._io.files import from_number, number
from softkin.calibrators import Calibrator, TemperatureScaling
from softkin.calibrators.held_out import cross_fit
from softkin.decisions import select
from softkin.evaluation import in_memory
from softkin.evaluation.comparison import difference
from softkin.evaluation.positive import name_of
from softkin.evaluation.results import Difference, Evaluation, Verdict, doubted
from softkin.metrics import binning, catalogue
from softkin.metrics.catalogue import METRICS, Metric, MetricData
from softkin.metrics.measurement import VALUES, MeasuredData, Settings, measure, measured, statistics
from softkin.metrics.resampling import all_compared
from softkin.metrics.scopes import Claims, Pool
from softkin.predictions import Predictions
from softkin.report import curves, data, decisions, group_rows, matrix, mistakes, positive, sample_rows
from softkin.report.data import (
    About,
    Abstention,
    Binary,
    ClassesOfModel,
    ModelPage,
    Positive,
    RiskCoverage,
    SampledRows,
    TriedCalibrator,
    UnknownSeen,
    Variant,
)

CLASS_BINS = 15
MOST_POINTS = 400  # of the risk–coverage curve: more than it has pixels
LEAST_TO_CALIBRATE = 50  # samples; a fit on half of fewer is too noisy to show anything
MANY_SCORES = 5 * 10**6
"""Above this only calibrators that take seconds are tried; those with parameters for each class take minutes"""


def build(
    predictions: Predictions,
    *,
    distances: Array | None = None,
    images: Any = None,
    texts: Sequence[str] | None = None,
    unknown: Sequence[Predictions] = (),
    name: str | None = None,
    source: str | None = None,
    n_bins: int = 15,
    confidence: float = 0.95,
    abstain: float | None = None,
    abstain_confidence: float = 0.95,
    candidates: Sequence[Calibrator] | None = None,
    alpha: float = 0.1,
    beta: float = 2.0,
    asymmetric: bool = False,
    resamples: int = 1000,
    seed: int = 0,
    progress: bool | None = None,
    evaluated: Evaluation | None = None,
    population: int | None = None,
    distances_source: str | None = None,
) -> ModelPage:
    """Everything that the page of one model shows; docs/report.md describes each field.

    What temperature scaling and the best of the ``candidates`` (by NLL) would do is cross-fitted in two folds: each
    half of the samples is calibrated by a fit on the other half. This needs no second file. Only the winner's numbers
    are optimistic, because it was chosen by them.

    Args:
        predictions: Predictions with labels.
        distances: (K, K) class distances, for the heat-map and the smooth labels; without them the page has neither.
        images: (N, H, W) or (N, H, W, C) uint8, or ``report.attach.images``, for thumbnails; by default those that the
            predictions carry.
        texts: The samples' texts; by default those that the predictions carry.
        unknown: The same model's predictions for samples of none of its classes, one for each set.
        name: The model's name; by default that of the predictions.
        source: Where the numbers come from, such as a file's name; shown as text.
        n_bins: The number of bins of the histograms, and the start of the page's slider of bins.
        confidence: The level of all intervals and bands.
        abstain: The error rate that the threshold on the confidence must keep; by default one that suits the model.
        abstain_confidence: The confidence level of that guarantee.
        candidates: Unfitted calibrators to choose from; None for ``calibrators.default_candidates()`` (the quick ones
            of them beyond 5 million scores), an empty list for none at all. Temperature scaling is always among them
            unless the list is empty.
        alpha: The start of the page's slider of α.
        beta: The start of the page's slider of β.
        asymmetric: Allow distances that differ by direction.
        resamples: The number of resamples for an interval.
        seed: The seed of the resampling and of the two folds.
        progress: Whether to show a bar; by default on a terminal, for work longer than a second.
        evaluated: The result of ``evaluation.evaluate`` for these predictions and settings, if the caller has it
            already. The page shows its numbers.
        population: How many samples there are, if these are some of them, drawn at random; ``evaluated`` is then that
            of all.
        distances_source: Where the distances come from, in a few words.

    Returns:
        Plain data (dictionaries, lists, texts, numbers), which ``report.write`` turns into the page.
    """
    if predictions.weights is not None:
        raise ValueError("a page has no room for weights yet; `evaluate` without --report measures them.")
    settings = Settings(checks.count(n_bins, "n_bins"), checks.level(confidence), resamples, seed)
    if evaluated is None:
        evaluated = in_memory.evaluated(predictions, settings)
    if population is None:
        check_evaluated(evaluated, predictions, settings)
    by_votes = predictions.votes is not None
    if by_votes:
        predictions = of_one_person(predictions, seed)
    y = predictions.known_labels
    p, k = predictions.probabilities, predictions.num_classes
    names = mistakes.display_names(predictions.class_names, k)
    parts = None
    if predictions.are_pairs:
        if distances is not None or unknown:
            raise ValueError("pairs have no classes, so a page of them takes no distances and no unknown samples.")
        parts = PairsShown.of(predictions)
        p, y, names = parts.shown(p), parts.labels, [*parts.names, ANOTHER]
        k = len(names)
    images = predictions.images if images is None else images
    texts = predictions.texts if texts is None else texts
    pictures = None if images is None else mistakes.checked_images(images, len(p))
    words = None if texts is None else mistakes.checked_texts(texts, len(p))
    alike = None
    if distances is not None:
        alike = matrix.encoded(
            distances, num_classes=k, source=distances_source, alpha=alpha, beta=beta, asymmetric=asymmetric
        )
        alike["mistakes"] = matrix.near_mistakes(distances, p, y)
    target = suited_target(p, y) if abstain is None else abstain
    tried, calibrated = _calibrated(predictions, candidates, n_bins, seed, progress)
    every = [predictions.probabilities, *(changed for _, changed in calibrated)]
    claims = [predictions.claims_of(each) for each in every]
    shown_rows = every if parts is None else [parts.shown(each) for each in every]
    abouts: list[About] = [{"key": "raw", "name": "As it is", "note": None}, *(about for about, _ in calibrated)]
    measured = _measured(abouts, claims, evaluated, settings, predictions.class_names)
    variants = [
        _variant(about, each, own, settings, target, abstain_confidence, shown_as, y)
        for about, each, own, shown_as in zip(abouts, claims, measured, shown_rows, strict=True)
    ]
    decided = (
        None
        if predictions.are_pairs
        else decisions.build(predictions, distances=distances, confidence=settings.level, seed=seed)
    )
    shown = [mistake["row"] for variant in variants for mistake in variant["mistakes"]]
    shown += [] if decided is None else decided["samples"]
    shown += [int(row) for variant in variants for lines in variant["classes"]["mistakes"] for row, _ in lines]
    if pictures is not None or words is not None:  # all others while the budget lasts, wrong answers first
        shown += (p.argmax(dim=1) == y).to(torch.int8).argsort(stable=True).tolist()
    return {
        "format": "softkin report",
        "version": data.VERSION,
        "kind": "model",
        "softkin": __version__,
        "name": name or predictions.name or source or "A model",
        "source": source,
        "are_probabilities": predictions.are_probabilities,
        "num_samples": len(p),
        "num_classes": k,
        "class_names": names,
        "class_sizes": torch.bincount(y, minlength=k).tolist(),
        "level": settings.level,
        "quantile": NormalDist().inv_cdf((1 + settings.level) / 2),
        "class_quantile": NormalDist().inv_cdf(1 - (1 - settings.level) / (2 * k)),
        "resamples": resamples,
        "bins": sorted({*curves.BINS, n_bins}),
        "n_bins": n_bins,
        "abstain": {"target": target, "confidence": abstain_confidence, "asked": abstain is not None},
        "class_bins": CLASS_BINS,
        "pairs": predictions.are_pairs,
        "binary": _binary(variants[0], predictions, names),
        "metrics": [_metric(key, predictions) for key in measured[0]["metrics"]],
        "variants": variants,
        "calibrators": tried,
        "samples": mistakes.described(shown, y, sample_ids=predictions.known_as, images=pictures, texts=words),
        "rows": sample_rows.encoded(shown_rows, y, predictions.known_as),
        "ids_called": predictions.ids_called,
        "similarity": alike,
        "out_of_distribution": [in_memory.out_of_distribution(predictions, each) for each in unknown],
        "unknown": [_seen(each, variants[0]) for each in unknown],
        "groups": group_rows.shown(evaluated["groups"], predictions) if "groups" in evaluated else None,
        "sampled": None if population is None else _sampled(len(p), population, evaluated),
        "votes": by_votes,
        "calibrated_by": predictions.calibrated_by,
        "mutual_information": evaluated.get("mutual_information"),
        "decisions": decided,
    }


def of_one_person(predictions: Predictions, seed: int) -> Predictions:
    """Predictions whose labels are votes: each sample keeps one of its votes, drawn at random.

    The drawn labels are those of a person chosen at random, so what is measured, fitted or certified with them holds
    for the votes: a wrong answer is one that this person would not give.
    """
    assert predictions.votes is not None
    level = torch.from_numpy(randomness.generator(seed).random(len(predictions)))
    drawn = (predictions.votes.cumsum(dim=1) <= level[:, None]).sum(dim=1).clamp_(max=predictions.num_classes - 1)
    return replace(predictions, labels=drawn, votes=None)


ANOTHER = "another answer"


@dataclass(frozen=True)
class PairsShown:
    """Pairs as the page shows them: the groups of rows take the place of classes, and a wrong answer is another one."""

    names: list[str]
    group: Tensor
    """(N,) the group of each pair"""
    labels: Tensor
    """(N,) the group where the answer was right, else the number of groups"""

    @classmethod
    def of(cls, predictions: Predictions) -> "PairsShown":
        """The groups that the predictions have, or one of all answers."""
        given = predictions.groups or ["the answers"] * len(predictions)
        names = sorted(set(given))
        place = {name: k for k, name in enumerate(names)}
        group = torch.tensor([place[name] for name in given])
        right = predictions.known_labels == 1
        return cls(names, group, torch.where(right, group, len(names)))

    def shown(self, probabilities: Tensor) -> Tensor:
        """(N, groups + 1): the confidence of each pair in the column of its group, which thereby wins."""
        rows = torch.zeros(len(self.group), len(self.names) + 1, dtype=torch.float64)
        confidence = probabilities[:, 1:].to(torch.float64).clamp(min=1e-12)
        return rows.scatter_(1, self.group[:, None], confidence)


def _sampled(rows: int, population: int, evaluated: Evaluation) -> SampledRows:
    """How many rows there are, and of how many images if they are pixels."""
    images, _, what = evaluated["settings"]["resampled"].partition(" ")
    sampled: SampledRows = {"rows": rows, "of": population}
    if what == "images":
        sampled["images"] = int(images)
    return sampled


def _metric(key: str, predictions: Predictions) -> MetricData:
    """A metric as the page describes it; the Brier score of pairs has one term, so that its worst value is 1."""
    described = METRICS[key].described()
    if key == "brier" and predictions.are_pairs:
        described |= {"about": "0 is best, 1 is worst", "at_most": 1.0}
    if key == "ece_hist_output" and predictions.num_classes == 2:
        described["shown"].remove("card")  # twice that of the prediction, where two scores sum to 1
    if "class 1" in described["title"] and predictions.class_names is not None:
        name = name_of(predictions.class_names[1])
        for part in ("name", "title", "about"):
            described[part] = described[part].replace("class 1", name)
    return described


def suited_target(p: Tensor, y: Tensor) -> float | None:
    """The default error rate of the threshold: a round number, at most half of the model's own error rate."""
    wrong = float((p.argmax(dim=1) != y).to(torch.float64).mean())
    return next((rate for rate in ROUND_RATES if rate <= wrong / 2), None)


AIMS = (0.1, 0.05, 0.02, 0.01)
"""The error rates whose certified thresholds the page offers beside the least that one keeps"""
ROUND_RATES = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


class _Result(TypedDict):
    """The numbers of one variant."""

    verdict: Verdict
    metrics: dict[str, MeasuredData]
    against_raw: NotRequired[dict[str, Difference]]
    against_temperature: NotRequired[dict[str, Difference]]


def check_evaluated(evaluated: Evaluation, predictions: Predictions, settings: Settings) -> None:
    """Refuse numbers of other predictions, or by other settings, than those of the page."""
    if evaluated["digest"] != predictions.digest:
        raise ValueError("`evaluated` must be the result of evaluation.evaluate for these predictions, got another's.")
    for name in ("n_bins", "confidence", "resamples", "seed"):
        used, asked = evaluated["settings"][name], getattr(settings, name)
        if used != asked:
            raise ValueError(f"`evaluated` must have the page's {name}, {asked:g}, got {used:g}.")


def _measured(
    abouts: Sequence[About],
    claims: Sequence[Claims],
    evaluated: Evaluation,
    settings: Settings,
    class_names: Sequence[str] | None,
) -> list[_Result]:
    """The numbers of every variant: those of the evaluation for the model as it is, and new ones after calibrators.

    Differences are paired, with intervals; one that contains 0 favours neither.
    """
    k = claims[0].num_classes
    present = {key for key, one in evaluated["metrics"].items() if "absent" not in one}
    shown = [metric for metric in shown_metrics(k, ordered=evaluated["settings"]["ordered"]) if metric.key in present]
    compared = [metric for metric in catalogue.shown("compare", k) if metric.key in present]
    results: list[_Result] = [
        {"verdict": doubted(evaluated), "metrics": {each.key: evaluated["metrics"][each.key] for each in shown}}
    ]
    made = [statistics(claims[0], compared, settings)]
    for changed in claims[1:]:
        made.append(statistics(changed, [*shown, *(each for each in compared if each not in shown)], settings))
        own = measured({metric.key: made[-1][metric.key] for metric in shown}, settings)
        of_positive = in_memory.positive_class(changed, class_names, own)
        pool = changed.pool("prediction")
        verdict = in_memory.described(pool, own, settings, of_positive=of_positive)["verdict"]
        results.append({"verdict": verdict, "metrics": {key: one.to_dict() for key, one in own.items()}})
    for metric in compared if len(made) > 1 else ():
        last_first = [each[metric.key] for each in reversed(made)]
        pairs = all_compared(last_first, settings.level, settings.resamples, settings.seed)
        for (a, b), comparison in pairs.items():
            changed_place, other_place = len(made) - 1 - a, len(made) - 1 - b
            against = "against_raw" if abouts[other_place]["key"] == "raw" else "against_temperature"
            held = results[changed_place].setdefault(against, {})  # type: ignore[misc]
            held[metric.key] = difference(comparison)
    return results


def _variant(
    about: About,
    claims: Claims,
    measured: _Result,
    settings: Settings,
    target: float | None,
    abstain_confidence: float,
    p: Tensor,
    y: Tensor,
) -> Variant:
    """The page's data of one set of probabilities; ``p`` and ``y`` are its rows and labels as the page shows them."""
    answers = claims.pool("prediction")
    outputs = answers if claims.are_pairs else claims.pool("output")
    scores, hits = answers.scores, answers.is_hit[:, 0]
    certified = data.certified(scores, hits, AIMS, abstain_confidence)
    rules = [one["rule"] for one in certified]
    abstention: Abstention | None = None
    if target is not None:
        found = select(scores, hits, risk=target, confidence=abstain_confidence)
        abstention = {"rule": data.rule(found.chosen), "least": found.least, "text": str(found)}
        rules.append(abstention["rule"])
    n_bins, level, seed = settings.n_bins, settings.level, settings.seed
    return {
        **about,
        **measured,
        "prediction": curves.with_bins(answers, curves.of_pool(answers), n_bins, level, seed=seed),
        "output": curves.with_bins(outputs, curves.of_pool(outputs), n_bins, level, seed=seed),
        "risk_coverage": risk_coverage(scores, hits, keep=[rule["answered"] for rule in rules if rule is not None]),
        "abstention": abstention,
        "certified": certified,
        "positive": _positive(claims, measured["metrics"], settings, abstain_confidence),
        "classes": _classes(p, y),
        "mistakes": mistakes.most_confident(p, y),
    }


def _seen(unknown: Predictions, raw: Variant) -> UnknownSeen:
    """How sure the model is of samples of none of its classes, and how many it would answer."""
    winning = unknown.probabilities.amax(dim=1).to(torch.float64)
    counts = curves.of_pool(Pool(winning, torch.empty(0, dtype=torch.int64), len(winning), 1))["count"]
    rule = raw["abstention"]["rule"] if raw["abstention"] is not None else None
    answered = None if rule is None else int((winning > rule["threshold"]).sum())
    return {"name": unknown.name or "unknown samples", "num_samples": len(unknown), "count": counts,
            "answered": answered}  # fmt: skip


def _positive(
    claims: Claims, measured: Mapping[str, MeasuredData], settings: Settings, confidence: float
) -> Positive | None:
    """The view of the positive class, for two classes and for pairs."""
    if claims.are_pairs:
        return positive.build(claims, measured["ece_hist"], settings, confidence)
    if claims.num_classes != 2:
        return None
    return positive.build(claims.of_class_1(), measured["ece_positive"], settings, confidence)


def _binary(raw: Variant, predictions: Predictions, names: Sequence[str]) -> Binary | None:
    if raw["positive"] is None:
        return None
    negative, true = ("wrong", "right") if predictions.are_pairs else map(name_of, names)
    return {"positive": true, "negative": negative, "positives": int((predictions.known_labels == 1).sum())}


def shown_metrics(num_classes: int | None = None, *, ordered: bool = False) -> list[Metric]:
    """The metrics of a model's page, all of which an evaluation may have: those of the cards, then the others."""
    shown = catalogue.shown("evaluate", num_classes, ordered=ordered)
    return sorted(shown, key=lambda metric: "card" not in metric.shown)


def risk_coverage(scores: Tensor, hits: Tensor, *, keep: Sequence[int] = ()) -> RiskCoverage:
    """The numbers of answered and of wrong samples at each threshold, from the strictest to none.

    Samples with equal scores are accepted together. If there are more than 400 thresholds, 400 are kept, evenly spread
    over coverage, and besides them those at which exactly ``keep`` samples are answered.
    """
    values, group = torch.unique(scores, return_inverse=True)
    size = torch.bincount(group, minlength=len(values)).flip(0).cumsum(dim=0)
    right = torch.bincount(group, weights=hits, minlength=len(values)).flip(0).cumsum(dim=0)
    thresholds = values.flip(0)
    if len(thresholds) > MOST_POINTS:
        wanted = torch.linspace(0, len(scores), MOST_POINTS + 1, dtype=torch.float64)[1:]
        wanted = torch.cat([wanted, torch.tensor(keep, dtype=torch.float64)])
        chosen = torch.unique(torch.searchsorted(size.to(torch.float64), wanted).clamp_(max=len(size) - 1))
        thresholds, size, right = thresholds[chosen], size[chosen], right[chosen]
    return {
        "threshold": data.floats(thresholds),
        "answered": size.tolist(),
        "wrong": [int(total) - round(hit) for total, hit in zip(size.tolist(), right.tolist(), strict=True)],
    }


def _classes(p: Tensor, y: Tensor) -> ClassesOfModel:
    """Class by class: the answers, the class's own reliability, its confusions and its surest mistakes."""
    answered = binning.by_answer(p, y)
    own = binning.class_curves(p, y, binning.equal_width(CLASS_BINS))
    lines = []
    for count, score, hit in zip(*(sums.tolist() for sums in (own.count, own.score_sum, own.hit_sum)), strict=True):
        lines.append([[m, round(c), round(score[m], 6), round(hit[m])] for m, c in enumerate(count) if c])
    instead, truly = mistakes.confusions(p, y)
    return {
        "answered": data.whole(answered.count),
        "score_sum": data.floats(answered.score_sum, 6),
        "right": data.whole(answered.hit_sum),
        "ece": data.floats(own.error(), 8),
        "bins": lines,
        "instead": instead,
        "truly": truly,
        "mistakes": mistakes.by_class(p, y),
    }


def _calibrated(
    predictions: Predictions,
    candidates: Sequence[Calibrator] | None,
    n_bins: int,
    seed: int,
    progress: bool | None,
) -> tuple[list[TriedCalibrator], list[tuple[About, Tensor]]]:
    """The result of each candidate, and (name, cross-fitted probabilities) of temperature scaling and the winner."""
    are_probabilities = predictions.are_probabilities
    z = predictions.probabilities if are_probabilities else predictions.logits
    floor = calibrators.floor_of(z, predictions.known_labels).value if are_probabilities else None
    y = predictions.known_labels
    if len(z) < LEAST_TO_CALIBRATE or (candidates is not None and len(candidates) == 0):
        return [], []
    if candidates is None:
        candidates = calibrators.default_candidates(quick=z.numel() > MANY_SCORES)
    if not any(isinstance(candidate, TemperatureScaling) for candidate in candidates):
        candidates = [TemperatureScaling(), *candidates]
    tried: list[TriedCalibrator] = []
    kept: dict[str, tuple[float, Calibrator, Tensor]] = {}
    names = _told_apart(candidates)
    for place, candidate in enumerate(track(candidates, "calibrators", total=len(candidates), show=progress)):
        about: TriedCalibrator = {"name": names[place], "code": repr(candidate)}
        tried.append(about)
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                p = cross_fit(candidate, z, y, folds=2, from_probabilities=are_probabilities, floor=floor, seed=seed)
        except ValueError as error:  # some need every class, or more samples than half of this file has
            about["failed"] = str(error)
            continue
        about["warnings"] = sorted({str(warning.message) for warning in said})
        of = predictions.claims_of(p)
        shown = measure(of, catalogue.shown("compare", of.num_classes), replace(VALUES, n_bins=n_bins))
        about["metrics"] = {key: number(one.value) for key, one in shown.items() if one.absent is None}
        nll = shown["nll"].value
        if isinstance(candidate, TemperatureScaling) and "temperature" not in kept:
            kept["temperature"] = (nll, candidate, p)
        if "best" not in kept or nll < kept["best"][0]:
            kept["best"] = (nll, candidate, p)
    tried.sort(key=lambda row: from_number(row["metrics"]["nll"]) if "metrics" in row else math.inf)
    calibrated: list[tuple[About, Tensor]] = []
    for key, (_, candidate, p) in sorted(kept.items(), reverse=True):  # temperature first
        if key == "best" and "temperature" in kept and kept["temperature"][1] is candidate:
            continue
        note = FOLDED
        if len(tried) > 1 and kept["best"][1] is candidate:
            note += f" {len(tried)} were tried; this one had the lowest NLL."
        if isinstance(candidate, TemperatureScaling):
            fitted = candidate.unfitted().fit(z, y, from_probabilities=are_probabilities, floor=floor)
            note += f" Fitted on the whole file, T = {fitted.temperature_:.3f}."
        kind: Literal["temperature", "best"] = "best" if key == "best" else "temperature"
        told: About = {"key": kind, "name": names[candidates.index(candidate)], "code": repr(candidate), "note": note}
        if isinstance(candidate, TemperatureScaling):
            told["temperature"] = number(float(fitted.temperature_))
        calibrated.append((told, p))
    return tried, calibrated


FOLDED = (
    "Cross-fitted in two folds on this one file: each half is calibrated by a fit on the other half; softkin calibrate "
    "fit reports five folds, so its numbers differ a little."
)


def _told_apart(candidates: Sequence[Calibrator]) -> list[str]:
    """The names of calibrators for people: options only where two would have the same name."""
    whole = [in_words(candidate) for candidate in candidates]
    plain = [name.partition(" (")[0] for name in whole]
    return [name if plain.count(name) == 1 else long for name, long in zip(plain, whole, strict=True)]


def in_words(calibrator: Calibrator) -> str:
    """A calibrator's name in words: ``TemperatureScaling()`` is "Temperature scaling"."""
    code = repr(calibrator)
    if " | " in code:
        return code
    name, _, options = code.partition("(")
    words = re.sub(r"(?<!^)(?=[A-Z])", " ", name).capitalize()
    options = re.sub(r"='?([^',]+)'?", r" \1", options.rstrip(")"))
    return f"{words} ({options})" if options else words
