"""Similarity in prediction sets: penalties for unlike candidates, and groups of similar classes for rare classes."""

import numpy as np
import torch
from torch import Tensor

from softkin._core import checks
from softkin._core.checks import Array
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
