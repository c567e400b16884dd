"""Distances from other matrices: a weighted sum of several distances, or the logarithm of a similarity."""

from collections.abc import Sequence

import torch
from torch import Tensor

from softkin._core import checks
from softkin._core.checks import Array
from softkin.similarity import normalised_rows


def mixture(matrices: Sequence[Array], weights: Sequence[float] | None = None) -> Tensor:
    r"""A weighted sum of distances, each normalised first so that its units do not matter.

    .. math:: d(k, k') = c_k + \sum_m w_m z_{m,k}(k')

    where :math:`z_m` is matrix m with rows at mean 0 and deviation 1 over the other classes, and :math:`c_k` makes the
    smallest distance of row k 0. ``similarity.from_distances`` normalises the sum once more; ``similarity.mixture``
    uses the sum as it is, with β in the weights.

    Args:
        matrices: At least one (K, K) matrix; matrices may be asymmetric.
        weights: One weight per matrix, at least 0, not all 0; equal by default.

    Returns:
        D, in general asymmetric, because each row is normalised separately.

    Example:
        >>> D = torch.tensor([[0.0, 1.0, 3.0], [1.0, 0.0, 2.0], [3.0, 2.0, 0.0]])
        >>> mixture([D, 100 * D])[0]
        tensor([0., 0., 2.], dtype=torch.float64)
    """
    copies = [
        checks.square(matrix, f"matrices[{place}]", without_diagonal=True) for place, matrix in enumerate(matrices)
    ]
    if not copies:
        raise ValueError("`matrices` must hold at least one matrix, got none.")
    if len({len(matrix) for matrix in copies}) > 1:
        raise ValueError(f"`matrices` must cover the same classes, got {', '.join(str(len(m)) for m in copies)}.")
    weights = [1.0] * len(copies) if weights is None else [checks.at_least_zero(w, "weights") for w in weights]
    if len(weights) != len(copies) or sum(weights) <= 0:
        raise ValueError(f"`weights` must be one for each of {len(copies)} matrices and not all 0, got {weights}.")
    own = torch.arange(len(copies[0]))
    total = torch.zeros_like(copies[0])
    for matrix, weight in zip(copies, weights, strict=True):
        total += normalised_rows(matrix, own, weight / sum(weights))
    return _from_zero(total)


def from_similarity(similarity: Array) -> Tensor:
    r"""The distances behind a similarity: :math:`d(k, k') = -\ln s_k(k')`, less the row's smallest.

    ``similarity.from_distances`` gives every row the same sharpness, that of β. A similarity that was made with one β
    is restored by the same β; for others, such as ``from_outputs``, only the order of the classes is preserved. An
    entry of 0 counts as half of the row's smallest positive entry.

    Args:
        similarity: (K, K) with rows that sum to 1; the diagonal is ignored.
    """
    s = checks.square(similarity, "similarity", without_diagonal=True)
    smallest = torch.where(s > 0, s, float("inf")).amin(dim=1, keepdim=True)
    if not bool(torch.isfinite(smallest).all()):
        row = int((~torch.isfinite(smallest[:, 0])).nonzero()[0, 0])
        raise ValueError(f"`similarity` must give other classes some mass, but row {row} gives them none.")
    return _from_zero(-torch.where(s > 0, s, smallest / 2).log())


def _from_zero(d: Tensor) -> Tensor:
    """Shift the rows so that their smallest distance to another class is 0."""
    others = d.fill_diagonal_(float("inf"))
    return (others - others.amin(dim=1, keepdim=True)).fill_diagonal_(0)
