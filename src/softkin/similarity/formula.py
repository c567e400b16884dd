"""Class similarity from distances: the one formula that turns far into unlike."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, overload

import torch
from torch import Tensor

from softkin._core import checks
from softkin._core.checks import Array

AUTO_BETA = 2.0  # value of beta="auto" without outputs: what losses and commands have by default
LARGEST_BETA = 50.0  # upper end for ``best_beta``: there the nearest class has all the mass
CONSTANT = 1e-9  # a row whose standard deviation is below this share of its largest distance counts as constant


@dataclass(frozen=True)
class SparseRows:
    """A (K, K) matrix whose rows are constant except in few places, stored in K·m numbers.

    Row k is ``own[k]`` at k, ``values[k, j]`` at ``indices[k, j]``, and ``rest[k]`` everywhere else.
    """

    own: Tensor
    """(K,) diagonal"""
    indices: Tensor
    """(K, m) int64, never k itself"""
    values: Tensor
    """(K, m) entries at ``indices``"""
    rest: Tensor
    """(K,) all other entries"""

    def __len__(self) -> int:
        return len(self.own)

    def dense(self) -> Tensor:
        """The (K, K) matrix."""
        full = self.rest[:, None].repeat(1, len(self))
        full.scatter_(1, self.indices, self.values)
        full.diagonal().copy_(self.own)
        return full


Beta: TypeAlias = float | Literal["auto"]
"""The sharpness of a similarity"""
Outputs: TypeAlias = tuple[Array, Array]
"""Probabilities (N, K) of a baseline on held-out rows, and the labels (N,) of those rows"""


@overload
def from_distances(
    distances: Array,
    beta: Beta = ...,
    *,
    asymmetric: bool = ...,
    top_m: None = ...,
    outputs: Outputs | None = ...,
) -> Tensor: ...
@overload
def from_distances(
    distances: Array,
    beta: Beta = ...,
    *,
    asymmetric: bool = ...,
    top_m: int,
    outputs: Outputs | None = ...,
) -> SparseRows: ...
@torch.no_grad()
def from_distances(
    distances: Array,
    beta: Beta = 2.0,
    *,
    asymmetric: bool = False,
    top_m: int | None = None,
    outputs: Outputs | None = None,
) -> Tensor | SparseRows:
    r"""Similarity of each class to the others: a softmax of minus β times the normalised distances.

    With :math:`\mu_k, \sigma_k` the mean and (population) standard deviation of row k over the K−1 other classes,

    .. math:: s_k(k') = \frac{\exp(-\beta (d_k(k') - \mu_k)/\sigma_k)}
                             {\sum_{i \ne k} \exp(-\beta (d_k(i) - \mu_k)/\sigma_k)}, \quad s_k(k) = 0

    The normalisation gives β the same meaning for distances in any units. β = 0 is uniform over the others; a large β
    puts all mass on the nearest class. A row whose distances are all equal (σ ≤ 1e-9 of the largest) becomes uniform.

    Args:
        distances: (K, K), finite and non-negative; the diagonal is ignored.
        beta: Sharpness, at least 0. The paper uses 0.5 to 6. "auto" uses ``best_beta`` of ``outputs``, and 2 without
            outputs: for distances between names, values from 0.75 to 2 predict people's confusions of CIFAR-100 best.
        asymmetric: Allow d(k, k') ≠ d(k', k); by default such a matrix is taken for a mistake.
        top_m: Keep the m most similar classes of each and spread the remaining mass over the others; see
            ``from_vectors``.
        outputs: (probabilities, labels) of a baseline on held-out rows, for ``beta="auto"``.

    Returns:
        S, (K, K) float64 on the CPU; rows sum to 1 and the diagonal is 0. With ``top_m``, S is a ``SparseRows``.

    Example:
        >>> from_distances(torch.tensor([[0., 1., 3.], [1., 0., 2.], [3., 2., 0.]]), beta=1.0)
        tensor([[0.0000, 0.8808, 0.1192],
                [0.8808, 0.0000, 0.1192],
                [0.1192, 0.8808, 0.0000]], dtype=torch.float64)

    References:
        Liu and JaJa, Class-Similarity Based Label Smoothing for Confidence Calibration, 2021, Sec. 5.4. The paper does
        not say whether the statistics include the class itself; here they do not, since it is discarded right after.
    """
    d = checks.square(distances, "distances", without_diagonal=True)
    if not asymmetric:
        checks.symmetric(d, "distances")
    beta = chosen_beta(beta, d, outputs)
    if top_m is None:
        return softmax_of_rows(d, torch.arange(len(d)), beta)
    k = len(d)
    m = min(checks.count(top_m, "top_m"), k - 1)
    near = smallest(d.clone().fill_diagonal_(float("inf")), m)  # by distance, as similarities underflow; never k itself
    similarity = softmax_of_rows(d, torch.arange(k), beta)
    rest = similarity.scatter(1, near, 0).sum(dim=1) / max(1, k - 1 - m)  # the others share what remains evenly
    return SparseRows(torch.zeros(k, dtype=torch.float64), near, similarity.gather(1, near), rest)


def smallest(d: Tensor, m: int) -> Tensor:
    """(r, m) indices of the m smallest entries of each row, ascending; the first of equal entries are taken."""
    values, places = d.topk(m, largest=False, sorted=True)
    last = values[:, -1:]
    ties = (d == last).sum(dim=1) > (values == last).sum(dim=1)  # topk left out equal entries
    for row in ties.nonzero()[:, 0].tolist():
        below = (d[row] < last[row]).nonzero()[:, 0]
        equal = (d[row] == last[row]).nonzero()[: m - len(below), 0]
        places[row] = torch.cat([below, equal])
    return places.sort(dim=1).values


@torch.no_grad()
def mixture(distances: Sequence[Array], weights: Sequence[float]) -> Tensor:
    r"""Similarity from several distances: a softmax of minus their weighted sum, each normalised first.

    With :math:`z_m` the distances m, whose rows are brought to mean 0 and deviation 1 over the other classes, and
    :math:`w_m` their weights,

    .. math:: s_k(k') \propto \exp\left(-\sum_m w_m z_{m,k}(k')\right), \quad s_k(k) = 0

    The weights include β: one distance of weight β gives ``from_distances`` at β. A class about which the distances
    disagree gets a flatter row. ``audition`` learns weights from observed confusions.

    Args:
        distances: At least one (K, K) matrix, possibly asymmetric; diagonals are ignored.
        weights: One weight per matrix, finite and at least 0.

    Example:
        >>> D = torch.tensor([[0.0, 1.0, 3.0], [1.0, 0.0, 2.0], [3.0, 2.0, 0.0]])
        >>> bool((mixture([D, D], [0.5, 1.5]) - from_distances(D, 2.0)).abs().max() < 1e-15)
        True
    """
    matrices = [checks.square(d, f"distances[{place}]", without_diagonal=True) for place, d in enumerate(distances)]
    if not matrices or len(weights) != len(matrices):
        raise ValueError(f"`weights` must be one for each of {len(matrices)} distances, got {len(weights)}.")
    if len({len(d) for d in matrices}) > 1:
        raise ValueError(f"`distances` must cover the same classes, got {', '.join(str(len(d)) for d in matrices)}.")
    own = torch.arange(len(matrices[0]))
    total = torch.zeros_like(matrices[0])
    for d, weight in zip(matrices, weights, strict=True):
        total -= normalised_rows(d, own, min(checks.at_least_zero(weight, "weights"), 1e150))
    return torch.softmax(total.fill_diagonal_(-float("inf")), dim=1)


def chosen_beta(beta: Beta, distances: Tensor | None, outputs: Outputs | None) -> float:
    """The numerical value of ``beta``; ``distances`` matter only if there are outputs."""
    if isinstance(beta, str) and beta == "auto":
        return AUTO_BETA if outputs is None or distances is None else best_beta(distances, *outputs)
    if outputs is not None:
        raise ValueError(f"`outputs` are for beta='auto', and beta is {beta!r}.")
    return checks.beta(beta)


@torch.no_grad()
def best_beta(distances: Array, probabilities: Array, labels: Array) -> float:
    r"""The β whose similarity best predicts a baseline's confusions on held-out rows.

    With :math:`c_k(j)` the share of class j in the probability that the baseline gives to wrong classes on rows of
    class k, the result minimises the cross-entropy of rows,

    .. math:: -\sum_k \sum_{j \ne k} c_k(j) \ln s_k(j; \beta)

    which is convex in β. Classes without rows add nothing, nor do classes for which the baseline gives wrong classes
    no probability. Distances that predict no better than equal similarities get 0.

    Args:
        distances: (K, K), as in ``from_distances``, possibly asymmetric.
        probabilities: (N, K) probabilities of the baseline on rows that it was not trained on.
        labels: (N,).

    Returns:
        β from 0 to 50.

    Example:
        >>> D = torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 2.0], [2.0, 2.0, 0.0]])
        >>> P = torch.tensor([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1]])  # the near class gets twice as much as the far one
        >>> round(best_beta(D, P, torch.tensor([0, 1])), 4)  # distances normalised to −1 and 1: ln 2 / 2
        0.3466
    """
    from scipy.optimize import brentq

    d = checks.square(distances, "distances", without_diagonal=True)
    wrong = wrong_mass(probabilities, labels, num_classes=len(d))
    mass = wrong.sum(dim=1)
    if not bool((mass > 0).any()):
        raise ValueError(
            "`probabilities` must give wrong classes some mass, got none: there are no confusions to predict."
        )
    kept = (mass > 0).nonzero().flatten()
    normalised, target = normalised_rows(d[kept], kept), wrong[kept] / mass[kept, None]
    observed = float((target * normalised).sum())
    own = torch.zeros_like(normalised)
    own[torch.arange(len(kept)), kept] = -float("inf")

    def slope(beta: float) -> float:
        """Derivative of the cross-entropy by β: the sum over rows of observed − predicted mean distance."""
        return observed - float((torch.softmax(own - beta * normalised, dim=1) * normalised).sum())

    if slope(0.0) >= 0:
        return 0.0
    return float(brentq(slope, 0.0, LARGEST_BETA)) if slope(LARGEST_BETA) > 0 else LARGEST_BETA


def wrong_mass(probabilities: Array, labels: Array, *, num_classes: int | None = None) -> Tensor:
    """(K, K) float64: row k is the sum of the probabilities over samples of class k, with 0 at k itself."""
    p = checks.probabilities(probabilities).to("cpu", torch.float64)
    k = p.shape[1]
    if num_classes not in (None, k):
        raise ValueError(f"`probabilities` must cover the {num_classes} classes of `distances`, got {k}.")
    y = checks.class_labels(labels, num_samples=len(p), num_classes=k).cpu()
    return torch.zeros(k, k, dtype=torch.float64).index_add_(0, y, p).fill_diagonal_(0)


def softmax_of_rows(d: Tensor, own: Tensor, beta: float) -> Tensor:
    """The formula of ``from_distances`` for rows (r, K) of distances of the classes ``own`` (r,); overwrites d."""
    rows = normalised_rows(d, own, -min(beta, 1e150))  # beyond 1e150 all mass is on the nearest class already
    rows[torch.arange(len(own), device=d.device), own] = -float("inf")
    return torch.softmax(rows, dim=1)


def normalised_rows(d: Tensor, own: Tensor, factor: float = 1.0) -> Tensor:
    """Rows with mean 0 and deviation ``factor`` over the other classes, and 0 at their own class; overwrites d."""
    line, others = torch.arange(len(d), device=d.device), d.shape[1] - 1
    d[line, own] = 0  # adds nothing to the sums below
    # In units of the row's largest distance, since squares of 1e200 would overflow and squares of 1e-200 vanish.
    d /= d.amax(dim=1, keepdim=True).clamp_(min=torch.finfo(d.dtype).tiny)
    d -= d.sum(dim=1, keepdim=True) / others
    d[line, own] = 0
    sigma = torch.linalg.vector_norm(d, dim=1, keepdim=True) / others**0.5
    d *= torch.where(sigma > CONSTANT, factor / sigma, 0.0)
    return d
