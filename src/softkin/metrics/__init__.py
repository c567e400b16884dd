"""Calibration metrics, proper scores and semantic metrics, each with its uncertainty.

All take probabilities (N, K) and integer labels (N,), as torch tensors or numpy arrays, float16 to float64, on any
device (on MPS, which has no float64, they compute on the CPU). They also take the other shapes of claims that people
have: (N,) confidences and booleans, (N,) scores of a binary model and integers 0 and 1, (N, K) votes or soft labels,
(N, L) labels each for itself, and (N, K, …) pixels or tokens; ``sample_weight`` weighs rows, ``ignore_index`` leaves
some out. docs/kinds.md shows each. They return a Python float, a fraction and never a
percentage; with ``confidence=0.95`` an ``Interval``. Nothing is renormalised, clipped or taken for logits: invalid
input is refused.

- Calibration errors: ``ece_hist``, ``ece_positive`` of a binary model, ``ece_kde``, ``classwise_ece``, ``mce``,
  ``debiased_ece``, ``smooth_ece``, ``signed_gap``; their values under perfect calibration: ``when_calibrated``,
  ``kde_floor``
- Scores: ``nll``, ``brier``, ``brier_decomposition``, ``accuracy``, ``top_k_accuracy``
- Ranking: ``aurc``, ``confidence_auroc``, ``auc`` of a binary model, ``macro_auroc`` of several labels
- Known against unknown: ``auroc``, ``fpr_at_95``
- Classes that are alike: ``superclass``, ``superclass_ece``, ``neighbourhood_mass``, ``mistake_severity``,
  ``severity_curve``
- Uncertainty: ``interval``, ``compare``; streams and several processes: ``Accumulator``
"""

from collections.abc import Callable
from typing import Any

import torch

from softkin._core import checks, randomness, threads
from softkin._core.checks import Array
from softkin._core.named_labels import columns_of, labelled, names_of, numbered
from softkin.metrics import catalogue, resampling

# isort: off
# Metrics are declared in this order, in which lists and tables show them.
from softkin.metrics.scores import accuracy, brier, nll, rps, top_k_accuracy
from softkin.metrics.calibration import (
    classwise_ece,
    debiased_ece,
    ece_hist,
    ece_kde,
    ece_positive,
    kde_floor,
    mce,
    signed_gap,
    smooth_ece,
)
from softkin.metrics.ranking import auc, aurc, auroc, confidence_auroc, fpr_at_95, macro_auroc
from softkin.metrics.semantic import (
    SeverityCurve,
    mistake_severity,
    neighbourhood_mass,
    severity_curve,
    superclass,
    superclass_ece,
)

# isort: on
from softkin.metrics.decomposition import BrierParts, brier_decomposition
from softkin.metrics.resampling import TESTS, Comparison, Interval, Test
from softkin.metrics.scopes import Claims, Pool
from softkin.metrics.statistics import CalibrationError
from softkin.metrics.streaming import Accumulator

__all__ = [
    "Accumulator",
    "BrierParts",
    "Comparison",
    "Interval",
    "SeverityCurve",
    "accuracy",
    "auc",
    "aurc",
    "auroc",
    "brier",
    "brier_decomposition",
    "classwise_ece",
    "compare",
    "confidence_auroc",
    "debiased_ece",
    "ece_hist",
    "ece_kde",
    "ece_positive",
    "fpr_at_95",
    "interval",
    "kde_floor",
    "macro_auroc",
    "mce",
    "mistake_severity",
    "neighbourhood_mass",
    "nll",
    "rps",
    "severity_curve",
    "signed_gap",
    "smooth_ece",
    "superclass",
    "superclass_ece",
    "top_k_accuracy",
    "when_calibrated",
]


def interval(
    probabilities: Array,
    labels: Array,
    metric: str | Callable[..., float] = "ece_hist",
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    sample_weight: Array | None = None,
    ignore_index: int | None = None,
    **options: Any,
) -> Interval:
    r"""A metric with its confidence interval: what ``confidence=`` of each metric returns.

    Whole rows are resampled, also where a metric pools the K scores of a row, which depend on each other. By kind:

    - losses (``nll``, ``brier``, ``aurc``): Wilson's interval for losses, as wide as wrong answers that did not occur
      allow; other averages: percentiles of the resampled values;
    - shares (``accuracy``, ``top_k_accuracy``): Wilson's interval; ``signed_gap``: that and a t-interval of the mean
      score, combined;
    - calibration errors: the estimand is the error of the population over these same bins (or with this bandwidth).
      Chance inflates a measured error, and a resample inflates it once more, so percentiles nearly always miss a small
      true error. The ends are instead the true errors for which the measured one would be an upper or lower
      (1 − level)/2 quantile, cut at 0; the lower end is 0 unless labels redrawn from the scores reject calibration at
      that level.

    Every interval contains the value itself. docs/measurements/coverage.md shows how often each kind holds the truth.
    With weights the same rows are resampled, and formulas use the number of rows of equal weight that say as much,
    (Σw)²/Σw². Pixels of one image depend on each other, so whole images are resampled.

    Args:
        probabilities: (N, K), or another shape of claims.
        labels: (N,).
        metric: A metric of this module, or its name.
        confidence: The level.
        resamples: The number of resamples, at least 100.
        seed: The same seed gives the same interval.
        sample_weight: (N,) weights of the samples.
        ignore_index: A label of rows to leave out.
        options: Options of the metric.
    """
    with threads.for_work(threads.numbers_in(probabilities)):
        known = catalogue.named(metric)
        claims = Claims.of(probabilities, labels, sample_weight=sample_weight, ignore_index=ignore_index)
        return resampling.interval(known.statistic(claims, **options), confidence, resamples, seed)


def when_calibrated(
    probabilities: Array,
    metric: str | Callable[..., float] = "ece_hist",
    *,
    confidence: float = 0.95,
    draws: int = resampling.DRAWS,
    seed: int = 0,
    **options: Any,
) -> Interval:
    """The value of a calibration error on labels drawn from the probabilities themselves: the estimator's own bias.

    With such labels the model is perfectly calibrated, so the value is due to chance (and, for a KDE, to smoothing). An
    ECE is evidence of miscalibration only as far as it exceeds this value. Print it beside every ECE.

    Args:
        probabilities: (N, K), or (N,) confidences of pairs; labels are not needed.
        metric: A calibration error of this module, or its name.
        confidence: The share of draws between ``low`` and ``high``.
        draws: The number of sets of labels.
        seed: The same seed gives the same answer.
        options: Options of the metric.

    Returns:
        The mean over the draws, with their central range.

    Example:
        >>> P = torch.full((500, 2), 0.5)
        >>> 0.005 < when_calibrated(P, "ece_hist") < 0.03  # the mean of |share of hits − ½| for 500 coins is 0.018
        True
    """
    with threads.for_work(threads.numbers_in(probabilities)):
        known = catalogue.named(metric)
        level = checks.level(confidence)
        checks.count(draws, "draws")
        if getattr(probabilities, "ndim", 2) == 1:
            s = checks.unit_scores(checks.as_tensor(probabilities, "probabilities"))
            claimed = Pool(s, torch.empty(0), len(s), 1)
            right = next(claimed.redrawn(randomness.generator(seed), 1))[1][0]
            return _of_redrawn(known, Claims.of(s, right), level, draws, seed, options)
        p = checks.probabilities(probabilities)
        # Only a bandwidth that depends on the hits depends on these labels; for its sake they are drawn, too.
        scores = Pool(p.reshape(-1), torch.empty(0), *p.shape)
        start = next(scores.redrawn(randomness.generator(seed), 1))[0][0]
        return _of_redrawn(known, Claims(p, start), level, draws, seed, options)


def _of_redrawn(
    known: catalogue.Metric, claims: Claims, level: float, draws: int, seed: int, options: dict[str, Any]
) -> Interval:
    statistic = known.statistic(claims, **options)
    if not isinstance(statistic, CalibrationError):
        raise TypeError(f"labels can be redrawn from the scores for calibration errors only, got {known.key!r}.")
    return resampling.when_calibrated(statistic, level, draws, seed)


def compare(
    probabilities_a: Array,
    probabilities_b: Array,
    labels: Array | tuple[Array, Array],
    metric: str | Callable[..., float] = "ece_hist",
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    test: Test = "equal metric",
    seed: int = 0,
    sample_weight: Array | None = None,
    ignore_index: int | None = None,
    **options: Any,
) -> Comparison:
    """Compare two models on the same samples: the difference with a paired interval and a p-value.

    The interval resamples rows, the same for both models. The p-value answers one of two questions:

    - ``test="equal metric"`` (default): could the metric be the same for both in the population? It inverts the
      interval: p ≤ 1 − ``confidence`` exactly if the interval excludes 0.
    - ``test="exchangeable"``: could the two models' rows be exchanged within samples? Rows are swapped at random, and
      p is the share of swaps that differ at least as much, which is exact at any N. Models whose metric is equal but
      whose rows are unlike (one over-, one under-confident; one sharper than the other) are not exchangeable, so a
      small p does not say that the metric differs.

    Args:
        probabilities_a: (N, K) of model a, or another shape of claims.
        probabilities_b: The same of model b, for the same samples in the same order. Columns of two data frames are
            matched by name.
        labels: (N,). Pairs have outcomes of each model's own answers: pass both, as (outcomes_a, outcomes_b).
        metric: A metric of this module, its name, or any function of (probabilities, labels) that returns a float. A
            function is called twice for each resample, and twice for each swap.
        confidence: The level of the interval.
        resamples: The number of resamples, and of swaps; the smallest p-value is 2/(resamples + 1) of the first test,
            1/(resamples + 1) of the second.
        test: "equal metric" or "exchangeable".
        seed: The same seed gives the same answer.
        sample_weight: (N,) weights of the samples.
        ignore_index: A label of rows to leave out.
        options: Options of the metric.

    Returns:
        ``Comparison(difference, low, high, p_value)``; the difference is a minus b.
    """
    with threads.for_work(threads.numbers_in(probabilities_a)):
        if not isinstance(labels, tuple):
            labels, probabilities_a, probabilities_b, sample_weight = labelled(
                labels, probabilities_a, probabilities_b, sample_weight
            )
        p_a = checks.as_tensor(probabilities_a, "probabilities_a")
        p_b = checks.as_tensor(probabilities_b, "probabilities_b").to(p_a.device)
        if p_a.shape != p_b.shape:
            raise ValueError(
                f"both models must cover the same samples and classes, got {tuple(p_a.shape)} and {tuple(p_b.shape)}."
            )
        first = columns_of(probabilities_a)
        refused = "`probabilities_b` must have the classes of `probabilities_a`, in any order, but"
        order = checks.class_order(names_of(probabilities_b, first), first, refused)
        p_b = p_b if order is None else p_b[:, order]
        labels_a, labels_b = labels if isinstance(labels, tuple) else (numbered(labels, probabilities_a)[0],) * 2
        of_a, of_b = (
            Claims.of(p, y, sample_weight=sample_weight, ignore_index=ignore_index)
            for p, y in ((p_a, labels_a), (p_b, labels_b))
        )
        level = checks.level(confidence)
        checks.count(resamples, "resamples", least=100)
        checks.option(test, "test", TESTS)
        known = catalogue.of(metric)
        if known is not None:
            a, b = known.statistic(of_a, **options), known.statistic(of_b, **options)
            resolvable = a.no_resampling is None and b.no_resampling is None
            if resolvable and (test == "equal metric" or a.adds_up_with(b)):
                return resampling.compared(a, b, level, resamples, seed, test)
            return resampling.compared_by_calls(
                lambda claims: known.statistic(claims, **options).value(), of_a, of_b, level, resamples, seed, test
            )
        assert callable(metric)

        def call(claims: Claims) -> float:
            return float(metric(*claims.classes(), **options))

        return resampling.compared_by_calls(call, of_a, of_b, level, resamples, seed, test)
