"""The choice between calibrators by held-out samples."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from softkin._core import threads
from softkin._core.checks import Array
from softkin._core.progress import track
from softkin.calibrators.calibrator import REGISTRY, Calibrator
from softkin.calibrators.held_out import cross_fit, labelled_logits

if TYPE_CHECKING:
    from softkin.metrics import Comparison


MOST_WORK = 5 * 10**8  # of n·K² times folds: above it, methods that search their penalty are not tried by default


@dataclass(frozen=True)
class Candidate:
    """An unfitted calibrator and its cross-fitted score."""

    calibrator: Calibrator
    score: float
    seconds: float = 0.0
    """The time of the cross-fitting"""


@dataclass(frozen=True)
class BestFit:
    """The result of ``fit_best``; ``print`` shows it as text."""

    calibrator: Calibrator
    """The winner, fitted on all the data"""
    metric: str
    uncalibrated: float
    """The metric of the uncalibrated probabilities"""
    candidates: list[Candidate]
    """All candidates, the best first"""
    comparison: Comparison | None
    """Winner minus runner-up on the same samples: difference, interval, p-value; None for a single candidate"""

    @property
    def is_significant(self) -> bool:
        """Whether the interval of the difference to the runner-up excludes 0."""
        c = self.comparison
        return c is not None and (c.low > 0 or c.high < 0)  # NaN, from infinite scores, shows nothing

    def __str__(self) -> str:
        lines = [f"{self.metric}, cross-fitted (uncalibrated {self.uncalibrated:.5f})"]
        lines += [f"  {c.score:.5f}  {c.calibrator!r}, {c.seconds:.1f} s" for c in self.candidates]
        if self.comparison is not None:
            c = self.comparison
            verdict = (
                "better than the runner-up" if self.is_significant else "not significantly better than the runner-up"
            )
            lines.append(f"the winner is {verdict}: difference {c.difference:.5f} [{c.low:.5f}, {c.high:.5f}]")
        return "\n".join(lines)


def affordable(num_samples: int, num_classes: int, *, folds: int = 1) -> bool:
    """Whether the searches of 30 to 60 fits with K² parameters, in each fold, end within about three minutes."""
    return folds * num_samples * num_classes**2 <= MOST_WORK


def default_candidates(*, quick: bool = False, searches: bool = False) -> list[Calibrator]:
    """The default candidates of ``fit_best``, as each class declares them.

    Args:
        quick: Only methods that are quick with many classes.
        searches: Also methods that search their own penalty, as matrix and Dirichlet do.
    """
    classes = [method for method in REGISTRY.values() if method.quick or not quick]
    return [
        method(**options)
        for method in classes
        for options in (*method.candidates, *(method.searches if searches else ()))
    ]


def _unfitted(candidate: Calibrator | str) -> Calibrator:
    """A calibrator, also by its name."""
    return REGISTRY[REGISTRY.canonical(candidate, "candidates")]() if isinstance(candidate, str) else candidate


def fit_best(
    logits: Array,
    labels: Array,
    candidates: Sequence[Calibrator | str] | None = None,
    *,
    metric: str | Callable[..., float] = "nll",
    larger_is_better: bool | None = None,
    folds: int = 5,
    from_probabilities: bool | None = None,
    floor: float | None = None,
    seed: int = 0,
    confidence: float = 0.95,
    resamples: int = 1000,
    progress: bool | None = None,
    patient: bool = True,
    **options: Any,
) -> BestFit:
    """Choose a calibrator by cross-fitting, fit it on all the data, and say how sure the choice is.

    Every candidate predicts each sample from a fit on the other folds, the same folds for all. The winner's advantage
    over the runner-up comes with a paired interval (``metrics.compare``): if it holds 0, the two do not differ
    significantly. A warning says when even the winner is worse than no calibration.

    Args:
        logits: (N, K).
        labels: (N,).
        candidates: Unfitted calibrators, or names such as "temperature". None: temperature, ensemble (both
            objectives), vector, structured, Platt, beta and pooled isotonic, and where folds·n·K² ≤ 5·10⁸ also matrix,
            Dirichlet and structured matrices, which search their penalty in every fold. These searches are most of
            the time: some seconds with 1,000 samples of 10 classes, one to three minutes with 5,000 of 100.
            ``Candidate.seconds`` says what each took.
        metric: A metric's name, such as "nll", "brier" or "ece_hist", or a function of (probabilities, labels).
        larger_is_better: None: known for the metrics of this library (a signed gap is best near 0), False for a
            function.
        folds: The number of folds.
        from_probabilities: Whether ``logits`` are probabilities; None: no, with a warning if they look so.
        floor: The value that replaces a probability of 0, as for ``Calibrator.fit``.
        seed: The seed of the folds and of the resampling.
        confidence: The level of the interval.
        resamples: The number of resamples for the interval.
        progress: Whether to show a bar over the candidates; by default on a terminal.
        patient: Whether all methods that search their penalty are tried by default. If not, only the method that is
            ahead without a search is searched, which takes about a quarter of the time.
        options: Options of the metric.
    """
    from softkin import metrics
    from softkin.metrics.scopes import Claims

    with threads.for_work(threads.numbers_in(logits)):
        if candidates is not None and not candidates:
            raise ValueError("`candidates` must hold at least 1 calibrator, got none.")
        z, y, floor = labelled_logits(logits, labels, from_probabilities, floor, least=2)
        if candidates is None:
            tried = default_candidates(searches=patient and affordable(*z.shape, folds=folds))
        else:
            tried = [_unfitted(candidate) for candidate in candidates]
        raw = torch.softmax(z, dim=1)
        from_probabilities = bool(from_probabilities)  # the candidates are not doubted again
        source = raw if from_probabilities else z
        known = metrics.catalogue.of(metric)
        name = known.key if known else getattr(metric, "__name__", "metric")

        def function(p: Tensor, labels: Tensor, **chosen: Any) -> float:
            if known:
                return known.statistic(Claims(p, labels), **chosen).value()
            return metric(p, labels, **chosen)  # type: ignore[operator]

        def cost(score: float) -> float:
            return known.cost(score) if known and larger_is_better is None else -score if larger_is_better else score

        def trial(candidate: Calibrator) -> tuple[Candidate, Tensor]:
            start = time.perf_counter()
            p = cross_fit(candidate, source, y, folds=folds, from_probabilities=from_probabilities, seed=seed)
            seconds = time.perf_counter() - start
            return Candidate(candidate, float(function(p, y, **options)), seconds), p

        trials = [trial(candidate) for candidate in track(tried, "calibrators", total=len(tried), show=progress)]
        trials.sort(key=lambda trial: cost(trial[0].score))
        if candidates is None and not patient and affordable(*z.shape, folds=folds):
            ahead = type(trials[0][0].calibrator)
            trials += [trial(ahead(**chosen)) for chosen in ahead.searches]
            trials.sort(key=lambda trial: cost(trial[0].score))
        (best, best_p), *others = trials
        comparison = None
        if others:
            comparison = metrics.compare(
                best_p, others[0][1], y, metric, confidence=confidence, resamples=resamples, seed=seed, **options
            )
        uncalibrated = float(function(raw, y, **options))
        if cost(best.score) > cost(uncalibrated):
            warnings.warn(
                f"even the best of {len(trials)} calibrators makes {name} worse on held-out samples: "
                f"{uncalibrated:.5f} → {best.score:.5f}.",
                stacklevel=2,
            )
        winner = best.calibrator.unfitted().fit(source, y, from_probabilities=from_probabilities, floor=floor)
        return BestFit(winner, name, uncalibrated, [candidate for candidate, _ in trials], comparison)
