"""Distances between one vector per class from a model: mean features or last-layer weights."""

import torch
from torch import Tensor

from softkin._core import checks
from softkin._core.checks import Array


@torch.no_grad()
def from_class_means(features: Array, labels: Array, *, num_classes: int | None = None) -> Tensor:
    r"""L2 distance between the mean features of the classes.

    .. math:: d(k, k') = \|\mu_k - \mu_{k'}\|_2

    ``from_features`` averages the distances of all pairs instead, which also measures the spread inside the classes.

    Args:
        features: (N, …), flattened; images can serve as features.
        labels: (N,).
        num_classes: K; by default the largest label + 1.

    Returns:
        D, with zeros on the diagonal.

    Example:
        >>> from_class_means(torch.tensor([[0.0], [2.0], [5.0]]), torch.tensor([0, 0, 1]))
        tensor([[0., 4.],
                [4., 0.]], dtype=torch.float64)
    """
    rows = checks.as_tensor(features, "features")
    if rows.ndim < 2:
        raise ValueError(f"`features` must have shape (N, …) with at least two dimensions, got {tuple(rows.shape)}.")
    y = checks.class_labels(labels, num_samples=len(rows), num_classes=num_classes).cpu()
    k = num_classes or int(y.max()) + 1
    if k < 2:
        raise ValueError("`labels` must name at least 2 classes, got only class 0.")
    counts = torch.bincount(y, minlength=k)
    empty = (counts == 0).nonzero().flatten().tolist()
    if empty:
        raise ValueError(
            f"every class must have samples, but {len(empty)} of {k} have none: class {checks.in_words(empty, None)}."
        )
    flat = rows.reshape(len(rows), -1)
    sums = torch.zeros(k, flat.shape[1], dtype=torch.float64)
    step = max(1, 2**22 // flat.shape[1])  # converting all rows at once would copy the features as float64
    for start in range(0, len(flat), step):
        part = flat[start : start + step].to("cpu", torch.float64)
        checks.finite(part, "features", first_row=start)
        sums.index_add_(0, y[start : start + step], part)
    means = sums / counts[:, None]
    return torch.cdist(means, means, compute_mode="donot_use_mm_for_euclid_dist")


@torch.no_grad()
def from_weights(weight: Array) -> Tensor:
    r"""L2 distance between the directions of a last layer's rows: classes with similar weights are near.

    .. math:: d(k, k') = \|u_k - u_{k'}\|_2, \quad u_k = (w_k - \bar w) / \|w_k - \bar w\|

    The softmax ignores what all rows share, so their mean is subtracted first.

    Args:
        weight: (K, d), such as ``model.fc.weight``.

    Returns:
        D, with zeros on the diagonal.

    Example:
        >>> round(float(from_weights(torch.tensor([[2.0, 0.0], [-2.0, 0.0]]))[0, 1]), 6)
        2.0
    """
    rows = checks.as_tensor(weight, "weight").detach()
    if rows.ndim != 2 or len(rows) < 2:
        raise ValueError(f"`weight` must have shape (K, d) with at least 2 classes, got {tuple(rows.shape)}.")
    w = rows.to("cpu", torch.float64)
    checks.finite(w, "weight")
    units = torch.nn.functional.normalize(w - w.mean(dim=0), dim=1)
    return torch.cdist(units, units, compute_mode="donot_use_mm_for_euclid_dist")
