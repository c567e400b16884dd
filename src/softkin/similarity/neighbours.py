"""Class similarity from the nearest neighbours of samples in a feature space."""

import torch
from torch import Tensor
from torch.nn import functional as F

from softkin._core import checks
from softkin._core.checks import Array
from softkin.similarity.outputs import from_confusion
from softkin.similarity.vectors import nearest

SHARPNESS = 0.1  # of the weights softmax(cos / SHARPNESS)


@torch.no_grad()
def from_neighbours(
    features: Array,
    labels: Array,
    *,
    k: int = 20,
    num_classes: int | None = None,
    progress: bool | None = None,
) -> Tensor:
    r"""Similarity from the classes of each sample's nearest neighbours, other than itself.

    The k nearest other samples of sample i by cosine get the weights :math:`w_{ij} \propto \exp(\cos_{ij} / 0.1)`,
    which sum to 1. With :math:`W_c(c')` the weight that samples of class c give to neighbours of class c', summed, S is
    ``from_confusion(W)``: what a nearest-neighbour classifier would confuse.

    Args:
        features: (N, d), such as a frozen network's; the training rows.
        labels: (N,).
        k: The number of neighbours.
        num_classes: K; by default the largest label + 1.
        progress: Show a bar; by default only on a terminal, for work longer than a second.

    Returns:
        S, (K, K) float64 with rows that sum to 1 and a zero diagonal, possibly asymmetric.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.9, 0.2], [0.8, 0.5], [0.7, 0.6], [0.0, 1.0], [0.1, 1.0]])
        >>> S = from_neighbours(x, torch.tensor([0, 0, 1, 1, 2, 2]), k=2)
        >>> S.argmax(1)[:2]  # the first class lies next to the second, and so does the third
        tensor([1, 0])
    """
    x = checks.as_tensor(features, "features").to(torch.float64)
    if x.ndim != 2:
        raise ValueError(f"`features` must have shape (N, d), got {tuple(x.shape)}; flatten them first.")
    checks.finite(x, "features")
    y = checks.class_labels(labels, num_samples=len(x), num_classes=num_classes).cpu()
    classes = int(y.max()) + 1 if num_classes is None else num_classes
    checks.count(k, "k")
    if len(x) < 2:
        raise ValueError(f"`features` must hold at least 2 samples, got {len(x)}.")
    length = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    if bool((length == 0).any()):
        raise ValueError(f"`features` must not be all 0, as in row {int((length == 0).nonzero()[0, 0])}: no cosine.")
    places, gaps = nearest(x / length, k, progress=progress)
    weights = F.softmax((1 - gaps.square() / 2) / SHARPNESS, dim=1)  # |a − b|² = 2 − 2·cos for unit vectors
    pairs = (y[:, None] * classes + y[places]).reshape(-1)
    sums = torch.bincount(pairs, weights=weights.reshape(-1), minlength=classes * classes).view(classes, classes)
    sums.fill_diagonal_(0)
    if not bool((sums > 0).any()):
        raise ValueError(f"the {k} nearest neighbours of every sample are of its own class; try a larger `k`.")
    return from_confusion(sums)
