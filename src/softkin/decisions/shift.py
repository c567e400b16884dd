"""Adjust to changed class frequencies, and estimate accuracy without labels."""

import math
import warnings
from typing import Any

import torch
from torch import Tensor

from softkin._core import checks
from softkin._core.assumption import Assumption
from softkin._core.checks import Array
from softkin.metrics import Interval
from softkin.metrics.intervals import score_minus_share, wilson

LIMIT = 10_000
TOLERANCE = 1e-7  # maximum loss of mean log-likelihood against the best priors
RESAMPLES = 200
BLOCK = 10**6  # rows of resamples at a time


def _priors(values: Any, name: str, num_classes: int) -> Tensor:
    """(K,) class frequencies that sum to 1; uniform for None."""
    if values is None:
        return torch.full((num_classes,), 1 / num_classes, dtype=torch.float64)
    q = checks.as_tensor(values, name).to("cpu", torch.float64)
    if q.shape != (num_classes,):
        raise ValueError(f"`{name}` must have shape ({num_classes},), a share for each class, got {tuple(q.shape)}.")
    checks.finite(q, name)
    total = float(q.sum())
    if float(q.min()) >= 0 and total > 1 and (bool((q == q.round()).all()) or abs(total - 100) < 0.5):
        what = "percent" if abs(total - 100) < 0.5 else "counts"
        warnings.warn(f"`{name}` is read as {what}, divided by its sum {total:g}.", Assumption, stacklevel=4)
        q = q / total
    if float(q.min()) < 0 or abs(float(q.sum()) - 1) > 1e-3:
        raise ValueError(f"`{name}` must be shares that sum to 1, got a sum of {float(q.sum()):g}.")
    return q / q.sum()


def _ratio(new: Tensor, old: Tensor) -> Tensor:
    if bool(((old == 0) & (new > 0)).any()):
        k = int(((old == 0) & (new > 0)).nonzero()[0, 0])
        raise ValueError(f"`old` must be above 0 where `new` is, but class {k} was never seen.")
    return torch.where(old > 0, new / old.clamp(min=torch.finfo(old.dtype).tiny), 0.0)


@torch.no_grad()
def adjust_priors(probabilities: Array, *, new: Array, old: Array | None = None) -> Any:
    r"""Probabilities for a population with the class frequencies ``new``.

    .. math:: p'_k \propto p_k \, \pi^{new}_k / \pi^{old}_k

    This is exact if only the frequencies changed and each class looks as before (label shift).

    Args:
        probabilities: (N, K), calibrated for the old frequencies.
        new: (K,) new frequencies.
        old: (K,) frequencies of the data that the model or its calibrator was fitted on; None for equal frequencies.

    Returns:
        (N, K) float64, as the caller's type of array.

    Example:
        >>> adjust_priors(torch.tensor([[0.5, 0.5]]), new=torch.tensor([0.9, 0.1]))
        tensor([[0.9000, 0.1000]], dtype=torch.float64)
    """
    p = checks.probabilities(probabilities).cpu().double()
    weights = _ratio(_priors(new, "new", p.shape[1]), _priors(old, "old", p.shape[1]))
    changed = p * weights
    total = changed.sum(dim=1, keepdim=True)
    if bool((total <= 0).any()):
        row = int((total[:, 0] <= 0).nonzero()[0, 0])
        raise ValueError(f"`new` must leave every row a class, but row {row} has probability only where `new` is 0.")
    return checks.like(changed / total, probabilities)


@torch.no_grad()
def estimate_priors(
    probabilities: Array, *, old: Array | None = None, confidence: float | None = None, seed: int = 0
) -> Any:
    r"""The class frequencies of unlabelled rows, by maximum likelihood (expectation maximisation).

    .. math:: \pi_k \leftarrow \frac{1}{N} \sum_i \frac{p_{ik} \pi_k/\pi^{old}_k}{\sum_j p_{ij} \pi_j/\pi^{old}_j}

    The likelihood is concave. The iteration ends when no other frequencies can be better by more than 1e-7 per row.
    Like ``adjust_priors``, it assumes label shift and calibrated probabilities: for an over-confident network the
    result is close to the shares of its answers, mistakes included.

    Args:
        probabilities: (N, K), calibrated for the old frequencies.
        old: (K,) old frequencies; None for equal frequencies.
        confidence: A level such as 0.95 adds an interval for each share, from resampled rows, and never narrower than
            Wilson's for N rows with known classes: resamples of a class that hardly occurs all lack it.
        seed: Seed for the resampling.

    Returns:
        (K,) float64, as the caller's type of array; with ``confidence`` (3, K): the shares and their lower and upper
        ends.

    References:
        Saerens, Latinne and Decaestecker, Adjusting the Outputs of a Classifier to New a Priori Probabilities, 2002;
        Alexandari, Kundaje and Shrikumar, Maximum Likelihood with Bias-Corrected Calibration is Hard-To-Beat at Label
        Shift Adaptation, 2020.
    """
    p = checks.probabilities(probabilities).cpu().double()
    prior = _priors(old, "old", p.shape[1])
    weighted = p * _ratio(torch.ones_like(prior), torch.where(prior > 0, prior, 1.0)) * (prior > 0)
    if bool((weighted.sum(dim=1) <= 0).any()):
        raise ValueError("`old` must be above 0 for a class of each row that has probability.")
    n = len(p)
    priors = _maximum_likelihood(weighted, torch.ones(1, n, dtype=torch.float64), prior, TOLERANCE)[0]
    if confidence is None:
        return checks.like(priors, probabilities)
    level = checks.level(confidence)
    generator = torch.Generator().manual_seed(checks.count(seed, "seed", least=0, most=2**62))
    draws = []
    step = max(1, BLOCK // n)
    for first in range(0, RESAMPLES, step):
        rows = torch.stack([torch.randint(n, (n,), generator=generator) for _ in range(min(step, RESAMPLES - first))])
        times = torch.zeros(rows.shape, dtype=torch.float64)
        times.scatter_add_(1, rows, torch.ones_like(times))
        draws.append(_maximum_likelihood(weighted, times, priors.clamp(min=1e-6), max(1e-5, 0.01 / n)))
    ends = torch.cat(draws).quantile(torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64), dim=0)
    known = torch.tensor([wilson(share, n, level) for share in priors.tolist()], dtype=torch.float64)
    low, high = torch.minimum(ends[0], known[:, 0]), torch.maximum(ends[1], known[:, 1])
    return checks.like(torch.stack([priors, low, high]), probabilities)


def _maximum_likelihood(weighted: Tensor, times: Tensor, start: Tensor, tolerance: float) -> Tensor:
    """(R, K) frequencies π that maximise Σ_i t_i ln Σ_k w_ik π_k, for each row t of ``times`` (R, N).

    The gradient g_k = Σ_i t_i w_ik / Σ_j w_ij π_j / Σ_i t_i has Σ_k π_k g_k = 1, and by concavity no point of the
    simplex lies more than max_k g_k − 1 above π in mean log-likelihood.
    """
    priors = (start / start.sum()).repeat(len(times), 1)
    is_open = torch.arange(len(times))  # samples whose frequencies can still become better
    for _ in range(LIMIT):
        current, count = priors[is_open], times[is_open]
        likelihood = (current @ weighted.T).clamp(min=torch.finfo(weighted.dtype).tiny)
        slope = (count / likelihood) @ weighted / count.sum(dim=1, keepdim=True)
        gap = slope.amax(dim=1) - 1
        is_far = gap > tolerance
        is_open = is_open[is_far]
        if not len(is_open):
            return priors
        better = current[is_far] * slope[is_far]
        priors[is_open] = better / better.sum(dim=1, keepdim=True)
    if float(gap.max()) > 1e-3:
        warnings.warn(
            f"the class frequencies did not converge: others may be better by {float(gap.max()):.2g} per row.",
            stacklevel=3,
        )
    return priors


@torch.no_grad()
def expected_accuracy(
    probabilities: Array, *, held_out: tuple[Array, Array] | None = None, confidence: float = 0.95
) -> Interval:
    r"""The accuracy to expect on unlabelled rows: their mean winning probability.

    **Assumption:** a winning probability of p is right in p of the cases on these rows too. Calibrate on rows like
    these. If the inputs changed so that the model became wrong without becoming less confident, no method here can
    tell.

    Under the assumption, the accuracy of N rows is the mean confidence c̄ with standard deviation
    :math:`\sqrt{\sum_i c_i(1-c_i)}/N`. The calibration itself is known only as well as labelled rows show: with
    ``held_out`` rows, c̄ is corrected by their accuracy minus their mean confidence, and the interval of that difference
    (``metrics.signed_gap``) is added. It is wide where the held-out rows show few mistakes, however confident they are.

    Args:
        probabilities: (N, K), calibrated probabilities.
        held_out: (probabilities, labels) of other rows, preferably not those that the calibrator was fitted on.
        confidence: The level of the interval.

    References:
        Garg et al., Leveraging Unlabeled Data to Predict Out-of-Distribution Performance, 2022 (the average-confidence
        baseline); Guillory et al., Predicting with Confidence on Unseen Distributions, 2021 (differences of
        confidence).

    Example:
        >>> accuracy = expected_accuracy(torch.tensor([[0.9, 0.1], [0.3, 0.7]] * 50))
        >>> round(accuracy, 3), round(accuracy.low, 3), round(accuracy.high, 3)
        (0.8, 0.724, 0.876)
    """
    from statistics import NormalDist

    level = checks.level(confidence)
    z = NormalDist().inv_cdf((1 + level) / 2)
    p = checks.probabilities(probabilities).cpu().double()
    sure = p.amax(dim=1)
    gap = low = high = 0.0
    if held_out is not None:
        other = checks.probabilities(held_out[0], "held_out").cpu().double()
        y = checks.class_labels(held_out[1], num_samples=len(other), num_classes=other.shape[1]).cpu()
        if other.shape[1] != p.shape[1]:
            raise ValueError(f"`held_out` must have the {p.shape[1]} classes of the rows, got {other.shape[1]}.")
        if len(other) < 2:
            raise ValueError("`held_out` must hold at least 2 rows, got 1.")
        believed, is_right = other.amax(dim=1), other.argmax(dim=1) == y
        gap = float(is_right.double().mean() - believed.mean())
        low, high = (-end for end in reversed(score_minus_share(believed, is_right, level)))

    def reach(end: float) -> float:
        """How far the accuracy may lie from its estimate if the confidences are off by ``end`` rather than ``gap``."""
        c = (sure + end).clamp(0, 1)
        return math.hypot(gap - end, z * math.sqrt(float((c * (1 - c)).sum())) / len(c))

    value = min(max(float(sure.mean()) + gap, 0.0), 1.0)
    return Interval(value, max(0.0, value - reach(low)), min(1.0, value + reach(high)), level)
