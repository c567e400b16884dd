"""Similarity + α → the smooth label of each class: row k is the training target of class k."""

from typing import overload

import torch
from torch import Tensor

from softkin._core import checks
from softkin._core.checks import Array
from softkin._io.matrices import MatrixFiles
from softkin.similarity import SparseRows

_files = MatrixFiles("labels")
save, load, read = _files.save, _files.load, _files.read


@overload
def similarity_labels(similarity: Array, alpha: float = ...) -> Tensor: ...
@overload
def similarity_labels(similarity: SparseRows, alpha: float = ...) -> SparseRows: ...
@overload
def similarity_labels(similarity: Array | SparseRows, alpha: float = ...) -> Tensor | SparseRows: ...
def similarity_labels(similarity: Array | SparseRows, alpha: float = 0.1) -> Tensor | SparseRows:
    """Smooth labels (1−α)·e_k + α·s_k.

    α is exactly the mass on the other classes: 1−α stays on the true one.

    Args:
        similarity: (K, K) with rows that sum to 1 and a zero diagonal, or ``SparseRows`` of it.
        alpha: The smoothing factor, 0 ≤ α < 1.

    Returns:
        Q, (K, K) float64 on the CPU, or ``SparseRows`` for ``SparseRows``.

    Example:
        >>> similarity_labels(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), alpha=0.1)
        tensor([[0.9000, 0.1000],
                [0.1000, 0.9000]], dtype=torch.float64)

    References:
        Liu and JaJa, 2021, Sec. 5.4.
    """
    alpha = checks.alpha(alpha)
    s = checked_similarity(similarity)
    if isinstance(s, SparseRows):
        return SparseRows(1 - alpha + alpha * s.own, s.indices, alpha * s.values, alpha * s.rest)
    return (1 - alpha) * torch.eye(len(s), dtype=torch.float64) + alpha * s


@overload
def checked_similarity(similarity: Array) -> Tensor: ...
@overload
def checked_similarity(similarity: Array | SparseRows) -> Tensor | SparseRows: ...
def checked_similarity(similarity: Array | SparseRows) -> Tensor | SparseRows:
    """S, (K, K) float64 on the CPU, or ``SparseRows`` as they are; refused unless α is the mass on other classes."""
    if isinstance(similarity, SparseRows):
        return similarity
    dense = checks.square(similarity, "similarity")
    checks.rows_sum_to_one(dense, "similarity")
    if float(dense.diagonal().max()) > 1e-6:
        k = int(dense.diagonal().argmax())
        raise ValueError(
            f"`similarity` must have a zero diagonal, so that α is the mass on the other classes, but class {k} is "
            f"{float(dense[k, k]):g} like itself; similarity.from_distances makes such a matrix."
        )
    return dense


def uniform_labels(num_classes: int, alpha: float = 0.1) -> Tensor:
    """Uniform smooth labels (1−α)·e_k + α/K, equal to PyTorch's ``label_smoothing=α``.

    The classic convention: α is spread over all K classes, the true one included, so the mass on the other
    classes is α·(K−1)/K, a little less than in ``similarity_labels``.

    Args:
        num_classes: K, at least 2.
        alpha: The smoothing factor, 0 ≤ α < 1.

    Returns:
        Q, (K, K) float64 on the CPU.

    Example:
        >>> uniform_labels(2, alpha=0.1)
        tensor([[0.9500, 0.0500],
                [0.0500, 0.9500]], dtype=torch.float64)

    References:
        Szegedy et al., Rethinking the Inception Architecture, 2016, Sec. 7.
    """
    k, alpha = checks.count(num_classes, "num_classes", least=2), checks.alpha(alpha)
    return (1 - alpha) * torch.eye(k, dtype=torch.float64) + alpha / k
