r"""Nonconformity scores of classes; their calibrated limit decides which classes are in a prediction set.

With p sorted in descending order, r(k) the rank of class k (1 for the winner; ties go to the lower class) and P(k) the
sum of p up to and including class k,

- ``lac``: :math:`s(k) = 1 - p_k` gives the smallest sets on average
- ``aps``: :math:`s(k) = P(k) - u\,p_k` gives larger sets for uncertain rows, so that coverage is more even
- ``raps``: :math:`s(k) = P(k) - u\,p_k + \lambda \max(0, r(k) - k_{reg})` is APS without its long tails
- ``ordinal``: APS for ordered classes, whose sets have no gaps. r(k) is the rank at which class k joins a run of
  neighbours that begins with the winner and always grows by the more probable of the two next to it (of equals, the
  lower)

u is one uniform number per row if sets are randomised, and otherwise 0. In the latter case APS counts all of the class
that crosses the limit, and the sets of a model that is seldom unsure become very large.

References:
    Sadinle, Lei and Wasserman, Least Ambiguous Set-Valued Classifiers With Bounded Error Levels, 2019; Romano, Sesia
    and Candès, Classification with Valid and Adaptive Coverage, 2020; Angelopoulos et al., Uncertainty Sets for Image
    Classifiers using Conformal Prediction, 2021; Lu, Angelopoulos and Pomerantz, Improving Trustworthiness of AI
    Disease Severity Rating in Medical Imaging with Ordinal Conformal Prediction Sets, 2022.

Similarity enters in two ways: penalties for unlike candidates, and groups of similar classes for rare classes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from softkin._core import checks
from softkin._core.checks import Array
from softkin._core.names import Registry
from softkin.similarity import SparseRows

LEAST = 1e-4  # share of a row's largest similarity below which a class counts as maximally unlike
WEIGHTS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5, 2.0)
"""Candidate weights of the penalty"""


def unlikeness(similarity: Array | SparseRows) -> Tensor:
    r"""(K, K) unlikeness of class k to class j: 0 for the nearest class and for j itself, at most 1.

    .. math:: v_{jk} = \ln\frac{\max_i s_{ji}}{s_{jk}} \Big/ \max_{j,k} \ln\frac{\max_i s_{ji}}{s_{jk}}

    s is a softmax of −β d, so this is each row's normalised distance beyond its nearest class, for any β.
    """
    s = checks.square(similarity.dense() if isinstance(similarity, SparseRows) else similarity, "similarity")
    s.fill_diagonal_(0)
    most = s.amax(dim=1, keepdim=True)
    if bool((most <= 0).any()):
        raise ValueError(
            f"`similarity` must have rows that sum to 1, but row {int((most <= 0).nonzero()[0, 0])} holds only zeros."
        )
    unlike = -(s / most).clamp(min=LEAST).log()
    unlike.fill_diagonal_(0)
    top = float(unlike.max())
    return unlike / top if top > 0 else unlike


def penalties(p: Tensor, unlike: Tensor) -> Tensor:
    """(n, K) Σ_j p_j v_jk: the mean unlikeness of each class to the row's probable classes."""
    return p @ unlike


def kin_groups(distances: Array, counts: Array, *, least: int) -> Tensor:
    """Groups of similar classes with at least ``least`` rows each, for ``conditional=`` with rare classes.

    The smallest group is joined with its nearest, by the mean distance of their classes, until all are large enough.
    The guarantee requires groups that were not chosen by the calibration rows: take ``counts`` from other rows, such as
    the training set's, scaled to the size of the calibration set.

    Args:
        distances: (K, K), such as those of ``softkin.distances``.
        counts: (K,) number of rows of each class.
        least: Rows per group: at least ``bounds.fewest_rows(coverage)``, and ten times as many for stable limits.

    Returns:
        (K,) group numbers 0 … G−1, numbered by their first class.

    Example:
        >>> D = torch.tensor([[0.0, 1, 9], [1, 0, 9], [9, 9, 0]])
        >>> kin_groups(D, torch.tensor([3, 40, 50]), least=20)
        tensor([0, 0, 1])
    """
    d = checks.square(distances, "distances", without_diagonal=True).numpy()
    n = checks.as_tensor(counts, "counts").cpu().numpy().astype(np.float64)
    if n.shape != (len(d),):
        raise ValueError(f"`counts` must have shape ({len(d)},), the rows of each class, got {n.shape}.")
    checks.count(least, "least")
    if n.sum() < least:
        raise ValueError(f"`counts` must sum to at least `least`, {least}, got {n.sum():g}.")
    groups = [[k] for k in range(len(d))]
    while True:
        sizes = [n[group].sum() for group in groups]
        smallest = int(np.argmin(sizes))
        if sizes[smallest] >= least:
            break
        small = groups.pop(smallest)
        gaps = [d[np.ix_(small, other)].mean() for other in groups]
        groups[int(np.argmin(gaps))] += small
    numbers = torch.empty(len(d), dtype=torch.int64)
    for place, group in enumerate(sorted(groups, key=min)):
        numbers[group] = place
    return numbers


FIRST = 24  # ranks examined first: most sets are smaller, and the few larger ones are sorted completely
SLACK = 1e-12  # above a limit: summation order changes sums by 1e-16, and a set that is too large breaks no promise


@dataclass(frozen=True)
class SetScore:
    """A named score."""

    cumulates: bool
    """Whether it sums probabilities from the winner down, so that it can be randomised"""
    penalised: bool = False
    """Whether it takes RAPS's penalty"""
    ordinal: bool = False
    """Whether classes are ordered, and sets must have no gaps"""


SCORES: Registry[SetScore] = Registry("score")
SCORES.add("lac", SetScore(cumulates=False), aliases=["thr", "least-ambiguous"])
SCORES.add("aps", SetScore(cumulates=True), aliases=["adaptive"])
SCORES.add("raps", SetScore(cumulates=True, penalised=True), aliases=["regularised"])
SCORES.add("ordinal", SetScore(cumulates=True, ordinal=True), aliases=["ordered", "contiguous"])


@dataclass(frozen=True)
class Scoring:
    """A score with its parameters, applied to one class, to all classes, or compared with a limit."""

    score: SetScore
    penalty: float
    k_reg: int

    def own(self, p: Tensor, y: Tensor, u: Tensor | None) -> Tensor:
        """(n,) scores of the classes ``y``, computed without sorting."""
        own = p.gather(1, y[:, None])
        if not self.score.cumulates:
            return 1 - own[:, 0]
        if self.score.ordinal:
            return self.all(p, u).gather(1, y[:, None])[:, 0]
        before = p > own
        if int(torch.count_nonzero(p == own)) > len(p):  # equal probabilities: lower classes come first
            before |= (p == own) & (torch.arange(p.shape[1]) < y[:, None])
        total = torch.where(before, p, 0.0).sum(dim=1) + own[:, 0] * (1 if u is None else 1 - u)
        if self.score.penalised:
            ranks = before.sum(dim=1).to(p.dtype) + 1  # a number times whole numbers would be float32
            total += self.penalty * (ranks - self.k_reg).clamp(min=0)
        return total

    def all(self, p: Tensor, u: Tensor | None) -> Tensor:
        """(n, K) scores of all classes."""
        if not self.score.cumulates:
            return 1 - p
        ordered, classes = _grown(p) if self.score.ordinal else p.sort(dim=1, descending=True, stable=True)
        return torch.empty_like(p).scatter_(1, classes, self._ordered(ordered, u))

    def _ordered(self, ordered: Tensor, u: Tensor | None) -> Tensor:
        """(n, m) scores of the first m classes in sorted order."""
        total = ordered.cumsum(dim=1)
        if u is not None:
            total -= u[:, None] * ordered
        if self.score.penalised:
            ranks = torch.arange(1, ordered.shape[1] + 1, device=ordered.device, dtype=ordered.dtype)
            total += self.penalty * (ranks - self.k_reg).clamp(min=0)
        return total

    def within(self, p: Tensor, u: Tensor | None, limits: Tensor, extra: Tensor | None) -> Tensor:
        """(n, K) whether score + ``extra`` is at most the class's limit.

        A class at rank r scores at least the sum before it, P(r − 1). So ranks after that sum exceeds the largest limit
        are excluded, and for most rows it is enough to sort the first few classes.
        """
        limits = limits + SLACK
        if not self.score.cumulates:
            scores = 1 - p if extra is None else 1 - p + extra
            return scores <= limits
        if self.score.ordinal:
            scores = self.all(p, u)
            return (scores if extra is None else scores + extra) <= limits
        if extra is None and bool((limits == limits.flatten()[0]).all()):
            return self._within_one_limit(p, u, limits.flatten()[0])
        first = min(FIRST, p.shape[1])
        ordered, classes = p.topk(first, dim=1)
        reachable = ordered.cumsum(dim=1) - ordered <= limits.max()
        is_open = reachable[:, -1] if first < p.shape[1] else torch.zeros(len(p), dtype=torch.bool)
        # topk orders equal probabilities arbitrarily
        is_open |= ((ordered[:, 1:] == ordered[:, :-1]) & reachable[:, 1:]).any(dim=1)
        scores = self._ordered(ordered, u)
        if extra is not None:
            scores += extra.gather(1, classes)
        members = torch.zeros(p.shape, dtype=torch.bool)
        of_ranks = limits.expand(p.shape).gather(1, classes)
        members.scatter_(1, classes, scores <= of_ranks)
        if bool(is_open.any()):
            scores = self.all(p[is_open], None if u is None else u[is_open])
            members[is_open] = (scores if extra is None else scores + extra[is_open]) <= limits.expand(p.shape)[is_open]
        return members

    def _within_one_limit(self, p: Tensor, u: Tensor | None, limit: Tensor) -> Tensor:
        """``within`` for one limit: scores grow with the rank, so members are those at least as probable as the last.

        So only the values are sorted, not their classes, which numpy does many times faster than torch sorts both.
        """
        ordered = torch.from_numpy(np.sort((-p).numpy(), axis=1)).neg_()
        count = torch.searchsorted(self._ordered(ordered, u), limit.expand(len(p), 1).contiguous(), right=True)
        last = p.shape[1] - 1
        least = torch.where(count > 0, ordered.gather(1, (count - 1).clamp(min=0)), torch.inf)
        members = p >= least
        is_tied = ((count <= last) & (ordered.gather(1, count.clamp(max=last)) == least))[:, 0]
        if bool(is_tied.any()):  # of equally probable classes the lower ones come first
            members[is_tied] = self.all(p[is_tied], None if u is None else u[is_tied]) <= limit
        return members

    def formula(self, unlike: bool) -> Callable[..., Tensor]:
        """A function (p, limits (K,), [λ · unlikeness (K, K)], [u (n, 1)]) → members, as one graph."""
        score, penalty, k_reg = self.score, self.penalty, self.k_reg

        def members(p: Tensor, limits: Tensor, *rest: Tensor) -> Tensor:
            extra = p @ rest[0] if unlike else None
            if not score.cumulates:
                scores = 1 - p
            elif score.ordinal:
                ordered, classes = _grown(p)
                total = ordered.cumsum(dim=1)
                if len(rest) > unlike:
                    total = total - rest[-1] * ordered
                scores = torch.zeros_like(p).scatter(1, classes, total)
            else:
                if (
                    torch.onnx.is_in_onnx_export()
                ):  # ONNX's TopK puts the lower of equal classes first, torch's does not
                    ordered, classes = p.topk(p.shape[1], dim=1)
                else:
                    ordered, classes = p.sort(dim=1, descending=True, stable=True)
                total = ordered.cumsum(dim=1)
                if len(rest) > unlike:
                    total = total - rest[-1] * ordered
                if score.penalised:
                    ranks = torch.arange(1, p.shape[1] + 1, device=p.device)
                    total = total + penalty * (ranks - k_reg).clamp(min=0).to(p.dtype)
                scores = torch.zeros_like(p).scatter(1, classes, total)
            return (scores if extra is None else scores + extra) <= limits + SLACK

        return members


def _grown(p: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities and classes in the order in which they join a run of neighbours that begins with the winner."""
    n, k = p.shape
    outside = p.new_full((n, 1), -1.0)
    padded = torch.cat([outside, p, outside], dim=1)  # class j is in column j + 1
    first = last = p.argmax(dim=1, keepdim=True)
    classes = [first]
    for _ in range(k - 1):
        below, above = padded.gather(1, first), padded.gather(1, last + 2)
        down = below >= above
        classes.append(torch.where(down, first - 1, last + 1))
        first, last = torch.where(down, first - 1, first), torch.where(down, last, last + 1)
    joined = torch.cat(classes, dim=1)
    return p.gather(1, joined), joined
