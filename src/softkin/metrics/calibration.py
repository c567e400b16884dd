"""Calibration errors: binned, kernel, smooth, by class, signed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, TypeVar, Unpack

import torch
from torch import Tensor

from softkin._core import checks
from softkin._core.checks import Array
from softkin.metrics import binning as bins_of
from softkin.metrics import conventions, scopes
from softkin.metrics.binned import (
    BY_NORM,
    CLASSWISE_BY_NORM,
    Binned,
    Classwise,
    Debiased,
    LargestGap,
    Net,
    OverConfidence,
    UnderConfidence,
)
from softkin.metrics.binning import NORMS, Bins, Norm
from softkin.metrics.catalogue import Sureness, declare, metric
from softkin.metrics.density import BOUNDARIES, Boundary
from softkin.metrics.kernels import Kernel, Smooth
from softkin.metrics.scopes import PERS, Claims, NoMeaning, Per, Pool, Scope

Binning = Literal["width", "mass"]
Kind = TypeVar("Kind", bound=Binned)


def _pool(claims: Claims, scope: Scope, rule: str | None) -> Pool:
    is_binary = claims.exclusive and claims.num_classes == 2
    if rule in ("mix-n-match", "netcal") and is_binary:  # with two classes both use the score of class 1
        claims.classes()  # refuses votes
        return replace(claims.of_class_1().pool("prediction"), winners=False)
    return claims.pool(scope)


def _bins(scores: Tensor, n_bins: int, binning: Binning, rule: str | None) -> Bins:
    count = checks.count(n_bins, "n_bins")
    return bins_of.for_scores(scores, count, binning) if rule is None else conventions.bins(rule, scores, count)


@metric(
    title="ECE of the prediction",
    short="Hist P",
    chance=True,
    shown=["evaluate", "compare", "select", "record", "table", "paper", "card"],
    aliases=["ece_prediction"],
    about="calibration error: how far confidence is from accuracy, bin by bin; 0 is calibrated",
    winner="Best calibrated prediction",
)
def ece_hist(  # noqa: D417  the public function takes probabilities and labels
    claims: Claims,
    *,
    scope: Scope = "prediction",
    n_bins: int | None = None,
    per: Per | None = None,
    binning: Binning | None = None,
    norm: Norm = 1,
    convention: str | None = None,
    **_: Unpack[Sureness],
) -> Binned:
    r"""Expected calibration error over a histogram of scores.

    With :math:`B_m` the scores in bin m of M = ``n_bins``, lik their share of true classes and conf their mean,

    .. math:: \mathrm{ECE} = \Big(\sum_{m=1}^{M} \frac{|B_m|}{n}
              |\mathrm{lik}(B_m) - \mathrm{conf}(B_m)|^q\Big)^{1/q}, \quad q = \text{norm}

    Bin m is :math:`((m-1)/M, m/M]`; the first also holds 0. Scores are compared in float64 with the edges m/M: a
    float32 score of "0.2", which is 0.200000003, lies above 1/5. Of equal winning scores the first class wins.

    Args:
        probabilities: (N, K), rows that sum to 1.
        labels: (N,) true classes.
        scope: "prediction" for the N winning scores, "output" for all N·K, pooled over the classes.
        n_bins: M; 15 if not given. Results with different M are not comparable.
        per: "sample" (default) divides by N, "score" by the number of scores. They differ for output only, by the
            factor K (√K with ``norm=2``): the paper's tables are sums per sample, its equation a mean per score.
        binning: "width" (default), or "mass" for bins of about equally many scores; equal scores share a bin.
        norm: 1, 2 (the root of the mean square) or "max" (the largest gap, for which ``per`` has no meaning).
        convention: A preset that matches a source, see ``softkin.metrics.conventions``.
        confidence: A level such as 0.95 for an ``Interval``; see ``softkin.metrics.interval``.
        resamples: The number of resamples for the interval.
        seed: The seed of the resampling.

    Returns:
        A fraction, at least 0; with ``confidence`` an ``Interval``, which is a float too.

    Example:
        >>> P = torch.tensor([[0.95, 0.05], [1.0, 0.0]])  # both in the last bin, half of them right
        >>> round(ece_hist(P, torch.tensor([0, 1]), n_bins=10), 6)
        0.475

    References:
        Guo et al., On Calibration of Modern Neural Networks, 2017, Sec. 2; Liu and JaJa 2021, Sec. 3.2.
    """
    chosen = conventions.resolve(
        convention, "ece_hist", scope=scope, n_bins=n_bins, per=per, binning=binning, norm=norm
    )
    checks.option(chosen["norm"], "norm", NORMS)
    checks.option(chosen["per"], "per", PERS)
    pool = _pool(claims, chosen["scope"], chosen["rule"])
    bins = _bins(pool.scores, chosen["n_bins"], chosen["binning"], chosen["rule"])
    return BY_NORM[chosen["norm"]](pool, bins, per=chosen["per"])


declare(
    "ece_hist_output",
    ece_hist,
    {"scope": "output"},
    title="ECE of the output, per sample",
    short="Hist O",
    shown=["evaluate", "compare", "select", "record", "table", "paper", "card"],
    aliases=["ece_output"],
    about="the same over the scores of all classes; where a model is over-confident, two to three times that of the "
    "prediction",
    winner="Best calibrated output",
)


@metric(
    title="ECE of P(class 1)",
    short="ECE of class 1",
    chance=True,
    least_classes=2,
    most_classes=2,
    shown=["evaluate", "compare", "card"],
    about="how far the probability of class 1 is from its frequency, bin by bin; 0 is calibrated",
    winner="Best calibrated probability",
)
def ece_positive(
    claims: Claims,
    *,
    n_bins: int = 15,
    binning: Binning = "width",
    norm: Norm = 1,
    **_: Unpack[Sureness],
) -> Binned:
    """Expected calibration error of a binary model's probability of class 1, as ``ece_hist`` of that score.

    The winning score hides half of it: 75 % where 37 % come true look like 75 % and 63 % of confidence.

    Example:
        >>> round(ece_positive(torch.tensor([0.75, 0.75, 0.75, 0.25]), torch.tensor([1, 0, 0, 0])), 6)
        0.375
    """
    if not claims.exclusive or claims.num_classes != 2:
        there = f"there are {claims.num_classes}" if claims.exclusive else f"these are {claims.kind}"
        raise NoMeaning(f"it needs two classes, and {there}")
    checks.option(norm, "norm", NORMS)
    pool = replace(claims.of_class_1().pool("prediction"), winners=False)  # class 1 need not win
    return BY_NORM[norm](pool, _bins(pool.scores, n_bins, binning, None))


@metric(
    title="KDE ECE of the prediction",
    short="KDE P",
    chance=True,
    shown=["evaluate", "select", "record", "wide", "paper"],
    aliases=["kde_prediction"],
    about="with smooth curves instead of bins",
)
def ece_kde(  # noqa: D417  the public function takes probabilities and labels
    claims: Claims,
    *,
    scope: Scope = "prediction",
    per: Per | None = None,
    bandwidth: Literal["paper", "mix-n-match"] | float | None = None,
    boundary: Boundary | None = None,
    convention: str | None = None,
    **_: Unpack[Sureness],
) -> Kernel:
    r"""Expected calibration error over a kernel density of the scores.

    .. math:: \int_0^1 |p - c(p)| \, f(p) \, dp, \quad f(p) = \frac{1}{nh} \sum_i \phi\Big(\frac{p - p_i}{h}\Big),
              \quad c(p) = \frac{\sum_i y_i \phi((p - p_i)/h)}{\sum_i \phi((p - p_i)/h)}

    with the triweight kernel :math:`\phi(u) = \frac{35}{32}(1 - u^2)^3` on [−1, 1], so that h is its radius, and y = 1
    for scores of the true class. For output all N·K scores are pooled in one dimension.

    The integral is taken on nodes h/256 apart or closer, from cells that keep the number, the mean and the spread of
    their scores: within 1e-6 (per sample) of the exact one, in time linear in the number of scores. With
    ``boundary="reflect"`` each score is mirrored, at 0 if below ½, else at 1, so that no mass leaves [0, 1].

    Smoothing alone adds to the error: under perfect calibration it is not 0. For output, where nearly all scores are
    near 0, it is about K·h·35/128 per sample; ``kde_floor`` computes it, and belongs beside every KDE output ECE.

    Args:
        probabilities: (N, K), rows that sum to 1.
        labels: (N,) true classes.
        scope: "prediction" or "output".
        per: "sample" (default) or "score", as in ``ece_hist``.
        bandwidth: h: "paper" (default) for 1.06 σ n^(−1/5) with σ and n of the pooled scores, "mix-n-match" for
            σ₁ (2n)^(−1/5) with σ₁ of the hits alone, or a number up to 0.5. If all scores are equal the error is
            exactly \|p − lik\|.
        boundary: "reflect" (default), or "none" for the formula as written, which loses the mass outside [0, 1].
        convention: "paper" or "mix-n-match".
        confidence: A level such as 0.95 for an ``Interval``; the bandwidth is kept.
        resamples: The number of resamples for the interval.
        seed: The seed of the resampling.

    References:
        Zhang et al., Mix-n-Match, 2020, Sec. 4; Liu and JaJa 2021, Sec. 3.3 and 6.1.
    """
    chosen = conventions.resolve(convention, "ece_kde", scope=scope, per=per, bandwidth=bandwidth, boundary=boundary)
    checks.option(chosen["per"], "per", PERS)
    checks.option(chosen["boundary"], "boundary", BOUNDARIES)
    pool = _pool(claims, chosen["scope"], chosen["rule"])
    # KDEpy's bandwidth is the kernel's standard deviation, which for the triweight is a third of its radius.
    widened = 3.0 if chosen["rule"] == "mix-n-match" else 1.0
    return Kernel(pool, chosen["bandwidth"], chosen["boundary"], per=chosen["per"], widened=widened)


declare(
    "ece_kde_output",
    ece_kde,
    {"scope": "output"},
    title="KDE ECE of the output, per sample",
    short="KDE O",
    larger_is_better=None,
    floor=True,
    slow=True,
    shown=["evaluate", "record", "wide", "paper"],
    aliases=["kde_output"],
    about="with smooth curves instead of bins; no winner, as smoothing alone adds its floor",
)
for _key, _scope in (("ece_kde", "prediction"), ("ece_kde_output", "output")):
    # The paper's formula as written, which loses the mass outside [0, 1].
    declare(
        f"{_key}_unreflected",
        ece_kde,
        {"scope": _scope, "boundary": "none"},
        title=f"KDE ECE of the {_scope}, not reflected",
        short=f"KDE {_scope[0].upper()}, not reflected",
        larger_is_better=None if _scope == "output" else False,  # as above: no winner
        chance=False,
        shown=["record"],
    )


def kde_floor(
    probabilities: Array,
    *,
    scope: Scope = "output",
    per: Per = "sample",
    bandwidth: str | float = "paper",
    boundary: Boundary = "reflect",
) -> float:
    r"""The value of ``ece_kde`` if every score were exactly its own likelihood, with infinitely many samples.

    .. math:: \int_0^1 \Big| \frac{1}{nh} \sum_i (p - p_i) \, \phi\Big(\frac{p - p_i}{h}\Big) \Big| \, dp

    For a pile of scores at 0 this is h·35/128 per score with reflection, so about K·h·35/128 per sample. It needs
    no labels. With finite samples chance adds to it: ``when_calibrated`` gives both together.
    """
    p = checks.probabilities(probabilities)
    checks.option(per, "per", PERS)
    checks.option(boundary, "boundary", BOUNDARIES)
    if bandwidth == "mix-n-match":
        raise ValueError("`bandwidth` 'mix-n-match' depends on labels, which a floor does not have; pass the number h.")
    pool = scopes.pool(p, torch.zeros(len(p), dtype=torch.int64, device=p.device), scope)
    return Kernel(pool, bandwidth, boundary, per=per).floor()


@metric(
    title="confidence − accuracy",
    short="gap",
    larger_is_better=None,
    signed=True,
    shown=["evaluate", "record", "table", "card"],
    about="above 0: over-confident; below 0: under-confident",
)
def signed_gap(
    claims: Claims,
    *,
    part: Literal["net", "over", "under"] = "net",
    scope: Scope = "prediction",
    n_bins: int = 15,
    per: Per = "sample",
    binning: Binning = "width",
    **_: Unpack[Sureness],
) -> Binned:
    """Over- and under-confidence separately.

    "over" sums |B_m|/n · gap over the bins whose mean score exceeds their share of hits, "under" over the others.
    So over + under is ``ece_hist``, and over − under is "net": the mean score minus the share of hits, which needs no
    bins (and for output is 0, as both scores and hits of a row sum to 1).
    """
    checks.option(part, "part", ("net", "over", "under"))
    kinds: dict[str, Callable[..., Binned]] = {"net": Net, "over": OverConfidence, "under": UnderConfidence}
    return _plain_bins(kinds[part], claims, scope, n_bins, per, binning)


def _plain_bins(
    kind: Callable[..., Kind],
    claims: Claims,
    scope: Scope,
    n_bins: int,
    per: Per,
    binning: Binning,
) -> Kind:
    """A binned statistic without conventions."""
    checks.option(per, "per", PERS)
    pool = claims.pool(scope)
    return kind(pool, _bins(pool.scores, n_bins, binning, None), per=per)


for _part, _words in (("over", "over-confidence"), ("under", "under-confidence")):
    declare(_part, signed_gap, {"part": _part}, title=_words, short=_part, signed=False, shown=["record"])


@metric(
    title="class-wise ECE, mean of classes",
    short="class-wise",
    chance=True,
    shown=["evaluate", "record"],
)
def classwise_ece(  # noqa: D417  the public function takes probabilities and labels
    claims: Claims,
    *,
    reduction: Literal["mean", "sum"] | None = None,
    n_bins: int | None = None,
    binning: Binning | None = None,
    norm: Norm = 1,
    convention: str | None = None,
    **_: Unpack[Sureness],
) -> Classwise:
    r"""Calibration error of each class on its own, then averaged (or summed) over the classes.

    .. math:: \frac{1}{K} \sum_{k=1}^{K} \sum_{m=1}^{M} \frac{|B_{m,k}|}{N}
              |\mathrm{lik}(B_{m,k}) - \mathrm{conf}(B_{m,k})|

    A class that no label names still counts: its share of hits is 0. Of several labels per sample it is the macro mean.

    Args:
        probabilities: (N, K).
        labels: (N,).
        reduction: "mean" (default) or "sum": published tables hold both, a factor K apart.
        n_bins: M; 15 if not given.
        binning: "width" (default) or "mass", which gives each class bins of its own.
        norm: 1, 2 or "max", within each class.
        convention: "kull2019" or none.
        confidence: A level such as 0.95 for an ``Interval``.
        resamples: The number of resamples for the interval.
        seed: The seed of the resampling.
    """
    if claims.are_pairs:
        raise NoMeaning("it needs scores of all classes, and pairs have one score per row")
    p = claims.probabilities
    chosen = conventions.resolve(
        convention, "classwise_ece", reduction=reduction, n_bins=n_bins, binning=binning, norm=norm
    )
    checks.option(chosen["reduction"], "reduction", ("mean", "sum"))
    checks.option(chosen["norm"], "norm", NORMS)
    bins = _bins(p, chosen["n_bins"], chosen["binning"], chosen["rule"])
    kind = CLASSWISE_BY_NORM[chosen["norm"]]
    return kind(claims, bins, divide_by=p.shape[1] if chosen["reduction"] == "mean" else 1)


@metric(title="smooth ECE", short="smooth", chance=True, shown=["evaluate"])
def smooth_ece(
    claims: Claims,
    *,
    scope: Scope = "prediction",
    per: Per = "sample",
    **_: Unpack[Sureness],
) -> Smooth:
    r"""Smooth calibration error: no bins, and no bandwidth to choose.

    .. math:: \mathrm{smECE}_\sigma = \int_0^1 \Big| \frac{1}{n} \sum_i (p_i - y_i) K_\sigma(t, p_i) \Big| dt

    with the Gaussian K of standard deviation σ reflected at 0 and 1, at the σ that equals its own smECE. Scores
    of exactly 0 and 1 count fully. The relative error of the value is at most 3e-5.

    References:
        Błasiok and Nakkiran, Smooth ECE: Principled Reliability Diagrams via Kernel Smoothing, 2023.
    """
    checks.option(per, "per", PERS)
    return Smooth(claims.pool(scope), per=per)


@metric(title="root-mean-square error, debiased", short="debiased", chance=True, shown=["evaluate", "record"])
def debiased_ece(
    claims: Claims,
    *,
    scope: Scope = "prediction",
    n_bins: int = 15,
    binning: Binning = "width",
    per: Per = "sample",
    **_: Unpack[Sureness],
) -> Binned:
    r"""The L2 calibration error minus the part that chance adds to it.

    .. math:: \sqrt{\max\Big(0, \sum_m \frac{|B_m|}{n} \Big[ (\mathrm{lik}_m - \mathrm{conf}_m)^2
              - \frac{\mathrm{lik}_m (1 - \mathrm{lik}_m)}{|B_m| - 1} \Big]\Big)}

    The square is unbiased, its root nearly so. Bins with a single score add nothing. With weights, :math:`|B_m|` after
    the minus sign is the effective number of scores, :math:`(\sum w)^2 / \sum w^2`.

    References:
        Kumar et al., Verified Uncertainty Calibration, 2019, Sec. 5.
    """
    return _plain_bins(Debiased, claims, scope, n_bins, per, binning)


@metric(title="largest gap of a bin", short="MCE", chance=True, shown=["evaluate"])
def mce(
    claims: Claims,
    *,
    scope: Scope = "prediction",
    n_bins: int | None = None,
    binning: Binning | None = None,
    convention: str | None = None,
    **_: Unpack[Sureness],
) -> Binned:
    """Maximum calibration error: the largest gap of any bin that is not empty, ``ece_hist`` with ``norm="max"``.

    A bin with a single score has a gap as large as that score, so this number mostly describes the emptiest bin.
    A ``convention`` determines the bins.
    """
    chosen = conventions.resolve(convention, "mce", scope=scope, n_bins=n_bins, binning=binning)
    pool = _pool(claims, chosen["scope"], chosen["rule"])
    return LargestGap(pool, _bins(pool.scores, chosen["n_bins"], chosen["binning"], chosen["rule"]))
