"""Class similarity from the nearest neighbours of samples in a feature space."""

import importlib.util

import torch
from torch import Tensor
from torch.nn import functional as F

from softkin._core import checks
from softkin._core.checks import Array
from softkin._core.progress import track
from softkin.similarity.outputs import from_confusion
from softkin.similarity.vectors import nearest

SHARPNESS = 0.1  # of the weights softmax(cos / SHARPNESS)
EXACT = 100_000  # rows up to which neighbours are those of float64; beyond, faiss finds those of float32, if installed
BLOCK = 16_384  # rows that faiss searches at a time


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

    Neighbours are exact, without an N×N matrix. Time grows as N²·d; for more than 100,000 rows faiss is faster, and is
    used if it is installed, with cosines in float32.

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
    x = checks.as_tensor(features, "features")
    x = (x.cpu() if x.device.type == "mps" else x).to(torch.float64)  # MPS has no float64
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
    places, cosines = _nearest(x / length, min(k, len(x) - 1), progress)
    weights = F.softmax(cosines / SHARPNESS, dim=1)
    pairs = (y[:, None] * classes + y[places]).reshape(-1)
    sums = torch.bincount(pairs, weights=weights.reshape(-1), minlength=classes * classes).view(classes, classes)
    sums.fill_diagonal_(0)
    if not bool((sums > 0).any()):
        raise ValueError(f"the {k} nearest neighbours of every sample are of its own class; try a larger `k`.")
    return from_confusion(sums)


def _nearest(unit: Tensor, k: int, progress: bool | None) -> tuple[Tensor, Tensor]:
    """The k nearest other rows of each row of unit length, and their cosines."""
    if len(unit) > EXACT and importlib.util.find_spec("faiss") is not None:
        return _by_faiss(unit.cpu(), k, progress)
    places, gaps = nearest(unit, k, progress=progress)
    return places, 1 - gaps.square() / 2  # |a − b|² = 2 − 2·cos


def _by_faiss(unit: Tensor, k: int, progress: bool | None) -> tuple[Tensor, Tensor]:
    import faiss  # type: ignore[import-not-found,import-untyped,unused-ignore]

    rows = unit.to(torch.float32).contiguous().numpy()
    index = faiss.IndexFlatIP(rows.shape[1])
    index.add(rows)
    places, cosines = [], []
    for start in track(range(0, len(rows), BLOCK), "neighbours", total=-(-len(rows) // BLOCK), show=progress):
        near, found = index.search(rows[start : start + BLOCK], k + 1)
        own = torch.arange(start, start + len(near))
        # Among k + 1 a row finds itself, unless as many copies of it come first: then the last is left out.
        values, columns = torch.from_numpy(near).to(torch.float64), torch.from_numpy(found)
        itself = columns == own[:, None]
        itself[~itself.any(dim=1), -1] = True
        places.append(columns[~itself].view(-1, k))
        cosines.append(values[~itself].view(-1, k))
    return torch.cat(places), torch.cat(cosines)
