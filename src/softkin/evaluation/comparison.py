"""Paired comparisons of models on the same samples."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from softkin import SoftkinError
from softkin._io.files import Assumption, number
from softkin._io.tables import counted
from softkin.calibrators import TemperatureScaling, floor_of
from softkin.calibrators.held_out import cross_fit
from softkin.evaluation.results import Compared, Difference
from softkin.metrics import catalogue, resampling
from softkin.metrics.measurement import Meaningless, Settings, statistics
from softkin.metrics.resampling import Comparison
from softkin.metrics.statistics import Statistic
from softkin.predictions import Predictions

MOST_RESAMPLES = 100_000  # unasked, for the comparisons of many models
LEAST_TO_SCALE = 50  # samples
PARTS = "Files that are parts of one set are named by their folder, or by a pattern in quotes."


def compare(models: Sequence[Predictions], **settings: Any) -> list[Compared]:
    """Paired comparisons of every two models; the samples are brought into one order by their ids, or refused.

    Args:
        models: At least two predictions of the same samples.
        settings: ``n_bins``, ``confidence``, ``resamples``, ``seed``, ``ordered``, as for ``evaluate``.
    """
    chosen = Settings(**settings)
    first, *others = models
    in_order = [first, *(aligned(first, other) for other in others)]
    metrics = catalogue.shown("compare", first.num_classes, ordered=chosen.ordered)
    claims = [model.claims for model in in_order]
    made = [
        {key: one for key, one in statistics(each, metrics, chosen).items() if not isinstance(one, Meaningless)}
        for each in claims
    ]
    return paired(made, _names(models), chosen)


@dataclass(frozen=True)
class Scaled:
    """Models of the same samples after temperature scaling, each cross-fitted in two folds."""

    probabilities: list[torch.Tensor | None]
    """Of each model, in the order of the first one's samples and classes; None where no temperature can be fitted"""
    pairs: list[Compared]
    """The paired differences in NLL, none where a temperature is missing"""
    nll: list[float] = field(default_factory=list)
    """The NLL of each model, none where a temperature is missing"""


def after_temperature(models: Sequence[Predictions], **settings: Any) -> Scaled:
    """Every model with its own temperature, and the paired differences in NLL.

    A network that claims too much loses NLL that a temperature restores, so only these differences say whether
    training it differently was worth it.
    """
    chosen = Settings(**settings)
    first, *others = models
    in_order = [first, *(aligned(first, other) for other in others)]
    if any(model.votes is not None or model.weights is not None for model in models):
        return Scaled([None] * len(in_order), [])
    scaled = [temperature_scaled(model, seed=chosen.seed) for model in in_order]
    made = [
        statistics(model.claims_of(p), ["nll"], chosen)
        for model, p in zip(in_order, scaled, strict=True)
        if p is not None
    ]
    if len(made) < len(models):
        return Scaled(scaled, [])
    return Scaled(scaled, paired(made, _names(models), chosen), [float(of["nll"].value()) for of in made])


def temperature_scaled(model: Predictions, *, seed: int) -> torch.Tensor | None:
    """The probabilities after temperature scaling, cross-fitted in two folds; None for too few samples."""
    if len(model) < LEAST_TO_SCALE:
        return None
    y, given = model.known_labels, model.are_probabilities
    z = model.probabilities if given else model.logits
    floor = floor_of(z, y).value if given else None
    try:
        return cross_fit(TemperatureScaling(), z, y, folds=2, from_probabilities=given, floor=floor, seed=seed)
    except ValueError:  # such as a fold with a single class
        return None


def _names(models: Sequence[Predictions]) -> list[str]:
    return [model.name or f"model {place}" for place, model in enumerate(models, start=1)]


def difference(comparison: Comparison) -> Difference:
    """A difference with its interval as plain data."""
    return {
        "difference": number(comparison.difference),
        "low": number(comparison.low),
        "high": number(comparison.high),
    }


def aligned(first: Predictions, other: Predictions) -> Predictions:
    """``other`` in the order of ``first``: classes by name, samples by ids if both have them; labels must agree."""
    a, b = first.name or "the first model", other.name or "the second model"
    if first.num_classes != other.num_classes:
        raise SoftkinError(
            f"{a} has {first.num_classes} classes and {b} has {other.num_classes}; they cannot be compared."
        )
    matched = other.in_order(first.class_names, a)
    if matched is not other:
        warnings.warn(f"{b} has the classes of {a} in another order: matched by name.", Assumption, stacklevel=3)
    other = matched
    if first.sample_ids is not None and other.sample_ids is not None:
        other = other.take(_order(_listed(first.sample_ids), _listed(other.sample_ids), a, b))
    if first.are_pairs and other.are_pairs:  # each model's answers are right or wrong of their own
        if len(first) != len(other):
            raise SoftkinError(f"{a} has {len(first):,} pairs and {b} has {len(other):,}; a comparison needs the same.")
        return other
    same_samples(first.known_labels, other.known_labels, a, b)
    return other


def same_samples(first: torch.Tensor, other: torch.Tensor, a: str, b: str) -> None:
    """Refuse two files whose labels show that they hold different samples."""
    if len(first) != len(other):
        raise SoftkinError(
            f"{a} has {len(first):,} samples and {b} has {len(other):,}; a comparison needs the same ones. {PARTS}"
        )
    differ = (first != other).nonzero()[:, 0]
    if len(differ):
        raise SoftkinError(
            f"{a} and {b} must be of the same samples in the same order, but {len(differ):,} labels differ, the first "
            f"at {counted(int(differ[0]))}; with sample_ids in both files they are brought into one order. {PARTS}"
        )


def _listed(ids: Any) -> list[Any]:
    return list(ids.tolist() if isinstance(ids, torch.Tensor) else ids)


def _order(wanted: list[Any], present: list[Any], a: str, b: str) -> torch.Tensor:
    """The index of each wanted id among those present; two equal lists may name a sample twice."""
    if wanted == present:
        return torch.arange(len(wanted))
    place = {sample: row for row, sample in enumerate(present)}
    for ids, name in ((place, b), (set(wanted), a)):
        if len(ids) != len(present if name == b else wanted):
            raise SoftkinError(f"{name} must name each sample once in its sample_ids, but some appear twice.")
    missing = [sample for sample in wanted if sample not in place]
    if missing or len(wanted) != len(present):
        example = f"{missing[0]!r} is not in {b}" if missing else f"{b} has {len(present) - len(wanted):,} more"
        raise SoftkinError(
            f"{a} and {b} must be of the same samples: {len(wanted):,} and {len(present):,} sample_ids, {example}. "
            f"{PARTS}"
        )
    return torch.tensor([place[sample] for sample in wanted], dtype=torch.int64)


def resamples_for(num_models: int, settings: Settings) -> int:
    """The number of resamples for the comparisons of every two models.

    The smallest p-value of R resamples is 2 / (R + 1), and Holm's rule multiplies it by the number of pairs P. With
    R = 4 P / (1 − confidence) a difference is significant that at most one resample contradicts; with 1,000, no
    difference between eight models could be. That is enough for 20 models at 99 %; more than 100,000 must be requested.
    """
    pairs = num_models * (num_models - 1) // 2
    needed = math.ceil(4 * pairs / (1 - settings.level) - 1e-6)  # 1 − 0.95 is a little more than 0.05
    return max(settings.resamples, min(needed, MOST_RESAMPLES))


def paired(models: Sequence[Mapping[str, Statistic]], names: Sequence[str], settings: Settings) -> list[Compared]:
    """Compare every two models in every common metric: difference with interval, p-value and significance.

    ``significant`` holds after as many comparisons as there are pairs (Holm's rule, within each metric), and only where
    the interval agrees. Many pairs are resampled more often than ``settings`` say, see ``resamples_for``.
    """
    level, times = settings.level, resamples_for(len(models), settings)
    lines: list[Compared] = []
    for key in (key for key in models[0] if all(key in model for model in models)):
        own: list[Compared] = []
        compared = resampling.all_compared([model[key] for model in models], level, times, settings.seed)
        for (a, b), comparison in compared.items():
            apart = comparison.low > 0 or comparison.high < 0
            own.append(
                {
                    "metric": key,
                    "a": names[a],
                    "b": names[b],
                    **difference(comparison),
                    "p_value": comparison.p_value,
                    "significant": apart,
                }
            )
        holds = True
        for rank, line in enumerate(sorted(own, key=lambda line: line["p_value"])):
            holds = holds and line["p_value"] * (len(own) - rank) <= 1 - level
            line["significant"] = line["significant"] and holds
        lines += own
    return lines
