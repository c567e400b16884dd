"""Class distances from files: matrices, taxonomies, confusions, descriptions and weights; and from other matrices: a
weighted sum of several distances, or the logarithm of a similarity.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from softkin import SoftkinError
from softkin._core import checks
from softkin._core.checks import Array
from softkin._core.names import did_you_mean
from softkin._io import files, matrices, numpy_files, tables
from softkin._io.matrices import ClassMatrix, in_order_of
from softkin.distances.taxonomy import from_taxonomy
from softkin.distances.tree_files import NESTED, holds_tree
from softkin.similarity import from_confusion, normalised_rows

SUFFIXES = (".safetensors", ".csv", ".tsv", *NESTED)
"""The suffixes of files that hold distances, similarity or a tree"""


def read_file(path: str | Path, class_names: Sequence[str], synonyms: Sequence[str | Sequence[str]]) -> ClassMatrix:
    """Distances or similarity of exactly these classes, in this order, from any file that holds them.

    A folder that ``softkin similarity`` wrote stands for its distances.

    A taxonomy is measured by "lca". Smooth labels are converted to the similarity that they contain, and a confusion
    matrix to the similarity that ``similarity.from_confusion`` makes of it.
    """
    path = Path(path)
    if not path.is_dir():
        files.require_regular(path)
    if not path.is_dir() and holds_tree(path):
        values = from_taxonomy(path, synonyms)
        return ClassMatrix(values, list(class_names), "distances", f"taxonomy {path.name}: lca")
    matrix = matrices.read_any(path)
    values = in_order_of(matrix, class_names, path)
    if matrix.kind == "labels":
        values = _similarity_in(values, path)
    if matrix.kind == "confusion":
        try:
            values = from_confusion(values)
        except ValueError as error:
            raise SoftkinError(f"{path}: {error}") from error
    kind = "distances" if matrix.kind == "distances" else "similarity"
    return ClassMatrix(values, list(class_names), kind, matrix.source, matrix.about)


def _similarity_in(labels: Tensor, path: Path) -> Tensor:
    others = labels.clone().fill_diagonal_(0)
    mass = others.sum(dim=1, keepdim=True)
    if bool((mass <= 0).any()):
        raise SoftkinError(f"{path} must hold labels that give other classes some mass, but some give them none.")
    return others / mass


def read_confusion(path: str | Path, class_names: Sequence[str]) -> Tensor:
    """Counts (K, K) of exactly these classes, in this order, from a CSV with names or a file written by softkin."""
    matrix = matrices.read_any(Path(path), kind="confusion")
    if matrix.kind != "confusion":
        raise SoftkinError(f"{path} holds {matrix.kind}, not a confusion matrix.")
    return in_order_of(matrix, class_names, path)


def read_descriptions(path: str | Path, class_names: Sequence[str]) -> list[list[str]]:
    """The descriptions of exactly these classes, in this order: lines of a class, a tab and a text.

    A class may have several lines, whose texts count equally.
    """
    texts: dict[str, list[str]] = {name: [] for name in class_names}
    for number, line in tables.read_lines(path, "descriptions"):
        name, _, words = (part.strip() for part in line.partition("\t"))
        if not name or not words:
            raise SoftkinError(f"{path}, line {number} must hold a class, a tab and a description, got {line[:40]!r}.")
        if name not in texts:
            raise SoftkinError(f"{path}, line {number}: {name[:40]!r} is not a class{did_you_mean(name, texts)}")
        texts[name].append(words)
    without = [name for name, lines in texts.items() if not lines]
    if without:
        raise SoftkinError(f"{path} must describe all {len(texts)} classes, but {without[0]!r} has no description.")
    return list(texts.values())


def read_weights(path: str | Path, num_classes: int) -> Tensor:
    """The (K, d) weights of a last layer: the array `weight` or `weights`, or the only one of K rows."""
    what = f"weights ({num_classes}, d), one row per class"
    found = numpy_files.read(
        path, what, ("weight", "weights"), lambda shape: len(shape) == 2 and shape[0] == num_classes
    )
    return found.to(torch.float64)


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
