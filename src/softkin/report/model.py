"""Predictions of one model → everything that its page shows, as plain data."""

import re
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor

from softkin import __version__, calibrators, metrics
from softkin._core import checks
from softkin._core.checks import Array
from softkin._core.progress import track
from softkin._io.files import number
from softkin.calibrators import Calibrator, TemperatureScaling
from softkin.calibrators.held_out import cross_fit
from softkin.decisions import select
from softkin.evaluation import ood, sentence, settings
from softkin.metrics import binning, catalogue, resampling, scopes
from softkin.metrics.catalogue import Metric
from softkin.predictions import Predictions
from softkin.report import curves, decisions, matrix, mistakes, plain, rows

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
) -> dict[str, Any]:
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

    Returns:
        Plain data (dictionaries, lists, texts, numbers), which ``report.write`` turns into the page.
    """
    y = predictions.known_labels
    level = checks.level(confidence)
    checks.count(n_bins, "n_bins")
    p, k = predictions.probabilities, predictions.num_classes
    names = mistakes.display_names(predictions.class_names, k)
    images = predictions.images if images is None else images
    texts = predictions.texts if texts is None else texts
    pictures = None if images is None else mistakes.checked_images(images, len(p))
    words = None if texts is None else mistakes.checked_texts(texts, len(p))
    alike = None
    if distances is not None:
        alike = matrix.encoded(distances, num_classes=k, source=None, alpha=alpha, beta=beta, asymmetric=asymmetric)
        alike["mistakes"] = matrix.near_mistakes(distances, p, y)
    target = suited_target(p, y) if abstain is None else abstain
    options: dict[str, Any] = {"n_bins": n_bins, "level": level, "resamples": resamples, "seed": seed}
    threshold: dict[str, Any] = {"target": target, "abstain_confidence": abstain_confidence}
    variants = [{"key": "raw", "name": "As it is", "note": None} | _variant(p, y, **options, **threshold)]
    tried, calibrated = _calibrated(predictions, candidates, n_bins, seed, progress)
    all_probabilities = [p, *(changed for _, changed in calibrated)]
    for about, changed in calibrated:
        against = {"against_raw": _against(changed, p, y, **options)}
        if about["key"] == "best" and len(calibrated) > 1:
            against["against_temperature"] = _against(changed, calibrated[0][1], y, **options)
        variants.append(about | _variant(changed, y, **options, **threshold) | against)
    shown = [mistake["row"] for variant in variants for mistake in variant["mistakes"]]
    shown += [row for variant in variants for lines in variant["classes"]["mistakes"] for row, _ in lines]
    if pictures is not None or words is not None:  # all others while the budget lasts, wrong answers first
        shown += (p.argmax(dim=1) == y).to(torch.int8).argsort(stable=True).tolist()
    return {
        "format": "softkin report",
        "version": plain.VERSION,
        "kind": "model",
        "softkin": __version__,
        "name": name or predictions.name or source or "A model",
        "source": source,
        "are_probabilities": predictions.are_probabilities,
        "num_samples": len(p),
        "num_classes": k,
        "class_names": names,
        "class_sizes": torch.bincount(y, minlength=k).tolist(),
        "level": level,
        "quantile": NormalDist().inv_cdf((1 + level) / 2),
        "resamples": resamples,
        "bins": sorted({*curves.BINS, n_bins}),
        "n_bins": n_bins,
        "abstain": {"target": target, "confidence": abstain_confidence, "asked": abstain is not None},
        "class_bins": CLASS_BINS,
        "metrics": [metric.described() for metric in shown_metrics(k)],
        "variants": variants,
        "calibrators": tried,
        "samples": mistakes.described(shown, y, sample_ids=predictions.sample_ids, images=pictures, texts=words),
        "rows": rows.encoded(all_probabilities, y, predictions.sample_ids),
        "similarity": alike,
        "out_of_distribution": [ood.out_of_distribution(predictions, each) for each in unknown],
        "mutual_information": ood.spread(predictions),
        "decisions": decisions.build(predictions, distances=distances, confidence=level, seed=seed),
    }


def suited_target(p: Tensor, y: Tensor) -> float | None:
    """The default error rate of the threshold: a round number, at most half of the model's own error rate."""
    wrong = float((p.argmax(dim=1) != y).to(torch.float64).mean())
    return next((rate for rate in ROUND_RATES if rate <= wrong / 2), None)


ROUND_RATES = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


def _variant(
    p: Tensor,
    y: Tensor,
    *,
    n_bins: int,
    level: float,
    resamples: int,
    seed: int,
    target: float | None,
    abstain_confidence: float,
) -> dict[str, Any]:
    """The page's data of one set of probabilities."""
    p, y = scopes.checked(p, y)
    answers, outputs = scopes.pool(p, y, "prediction"), scopes.pool(p, y, "output")
    how: dict[str, Any] = {"n_bins": n_bins, "confidence": level, "resamples": resamples, "seed": seed}
    values = {metric.key: _measured(metric, p, y, **how) for metric in shown_metrics(p.shape[1])}
    ece = metrics.interval(p, y, "ece_hist", **how)
    gap = metrics.interval(p, y, "signed_gap", confidence=level, resamples=resamples, seed=seed)
    cells = curves.of_pool(answers)
    certified, rule = None, None
    if target is not None:
        selection = select(answers.scores, answers.is_hit[:, 0], risk=target, confidence=abstain_confidence)
        rule = selection.chosen
        certified = {"rule": None if rule is None else asdict(rule), "text": str(selection)}
    return {
        "verdict": sentence.verdict(gap, ece, cells),
        "metrics": values,
        "prediction": curves.with_bins(answers, cells, n_bins, level, seed=seed),
        "output": curves.with_bins(outputs, curves.of_pool(outputs), n_bins, level, seed=seed),
        "risk_coverage": risk_coverage(
            answers.scores, answers.is_hit[:, 0], keep=() if rule is None else (rule.answered,)
        ),
        "abstention": certified,
        "classes": _classes(p, y),
        "mistakes": mistakes.most_confident(p, y),
    }


def shown_metrics(num_classes: int | None = None) -> list[Metric]:
    """The metrics of a model's page: those of the cards, then the others."""
    return [*catalogue.shown("card", num_classes), *catalogue.shown("page", num_classes)]


def _measured(metric: Metric, p: Tensor, y: Tensor, *, n_bins: int, **how: Any) -> dict[str, Any]:
    """A metric's value, its interval (on a card, or where it is cheap), and what chance or smoothing alone gives."""
    binned = metric.with_bins(n_bins)
    statistic = metric.statistic(p, y, **binned)
    if "card" not in metric.shown and statistic.kind != "share":
        measured = settings.plain(statistic.value())
    else:
        measured = settings.plain(resampling.interval(statistic, **how))
        if metric.chance:
            chance = metrics.when_calibrated(p, metric.key, confidence=how["confidence"], seed=how["seed"], **binned)
            measured["calibrated"] = settings.plain(chance)
    if metric.floor:
        measured["floor"] = number(statistic.floor())
    caveat = statistic.caveat()
    return measured if caveat is None else measured | {"caveat": caveat}


def _against(
    changed: Tensor, other: Tensor, y: Tensor, *, n_bins: int, level: float, resamples: int, seed: int
) -> dict[str, Any]:
    """``changed`` minus ``other`` on the same samples, with intervals; one that contains 0 favours neither."""
    differences = {}
    for metric in catalogue.shown("compare", other.shape[1]):
        how: dict[str, Any] = {"confidence": level, "resamples": resamples, "seed": seed, **metric.with_bins(n_bins)}
        c = metrics.compare(changed, other, y, metric.key, **how)
        differences[metric.key] = {part: number(getattr(c, part)) for part in ("difference", "low", "high")}
    return differences


def risk_coverage(scores: Tensor, hits: Tensor, *, keep: Sequence[int] = ()) -> dict[str, Any]:
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
        "threshold": plain.numbers(thresholds.to(torch.float64)),
        "answered": size.tolist(),
        "wrong": [int(total) - round(hit) for total, hit in zip(size.tolist(), right.tolist(), strict=True)],
    }


def _classes(p: Tensor, y: Tensor) -> dict[str, Any]:
    """Class by class: the answers, the class's own reliability, its confusions and its surest mistakes."""
    answered = binning.by_answer(p, y)
    own = binning.class_curves(p, y, binning.equal_width(CLASS_BINS))
    lines = []
    for count, score, hit in zip(*(sums.tolist() for sums in (own.count, own.score_sum, own.hit_sum)), strict=True):
        lines.append([[m, round(c), number(score[m], 6), round(hit[m])] for m, c in enumerate(count) if c])
    instead, truly = mistakes.confusions(p, y)
    return {
        "answered": plain.whole(answered.count),
        "score_sum": plain.numbers(answered.score_sum, 6),
        "right": plain.whole(answered.hit_sum),
        "ece": plain.numbers(own.error(), 8),
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
) -> tuple[list[dict[str, Any]], list[tuple[dict[str, Any], Tensor]]]:
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
    tried: list[dict[str, Any]] = []
    kept: dict[str, tuple[float, Calibrator, Tensor]] = {}
    for candidate in track(candidates, "calibrators", total=len(candidates), show=progress):
        about: dict[str, Any] = {"name": in_words(candidate), "code": repr(candidate)}
        tried.append(about)
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                p = cross_fit(candidate, z, y, folds=2, from_probabilities=are_probabilities, floor=floor, seed=seed)
        except ValueError as error:  # some need every class, or more samples than half of this file has
            about["failed"] = str(error)
            continue
        about["warnings"] = sorted({str(warning.message) for warning in said})
        nll = metrics.nll(p, y)
        shown = catalogue.shown("compare", p.shape[1])
        about |= {metric.key: number(metric.statistic(p, y, **metric.with_bins(n_bins)).value()) for metric in shown}
        if isinstance(candidate, TemperatureScaling) and "temperature" not in kept:
            kept["temperature"] = (nll, candidate, p)
        if "best" not in kept or nll < kept["best"][0]:
            kept["best"] = (nll, candidate, p)
    tried.sort(key=lambda row: float(row.get("nll", "inf")))
    calibrated = []
    for key, (_, candidate, p) in sorted(kept.items(), reverse=True):  # temperature first
        if key == "best" and "temperature" in kept and kept["temperature"][1] is candidate:
            continue
        note = FOLDED
        if len(tried) > 1 and kept["best"][1] is candidate:
            note += f" {len(tried)} were tried; this one had the lowest NLL."
        if isinstance(candidate, TemperatureScaling):
            fitted = candidate.unfitted().fit(z, y, from_probabilities=are_probabilities, floor=floor)
            note += f" Fitted on the whole file, T = {fitted.temperature_:.3f}."
        about = {"key": key, "name": in_words(candidate), "code": repr(candidate), "note": note}
        if isinstance(candidate, TemperatureScaling):
            about["temperature"] = number(float(fitted.temperature_))
        calibrated.append((about, p))
    return tried, calibrated


FOLDED = "Cross-fitted in two folds on this one file: each half is calibrated by a fit on the other half."


def in_words(calibrator: Calibrator) -> str:
    """A calibrator's name in words: ``TemperatureScaling()`` is "Temperature scaling"."""
    code = repr(calibrator)
    if " | " in code:
        return code
    name, _, options = code.partition("(")
    words = re.sub(r"(?<!^)(?=[A-Z])", " ", name).capitalize()
    options = options.rstrip(")")
    return f"{words} ({options})" if options else words
