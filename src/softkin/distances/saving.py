"""Class distances from files: matrices, taxonomies, confusions, descriptions and weights."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from softkin import SoftkinError
from softkin._core.names import did_you_mean
from softkin._io import array_files, files, matrices, tables
from softkin._io.matrices import ClassMatrix, in_order_of
from softkin.distances.taxonomy import from_taxonomy
from softkin.distances.tree_files import NESTED, holds_tree
from softkin.similarity import from_confusion

SUFFIXES = (".safetensors", ".csv", ".tsv", *NESTED)
"""The suffixes of files that hold distances, similarity or a tree"""


def read_file(path: str | Path, class_names: Sequence[str], synonyms: Sequence[str | Sequence[str]]) -> ClassMatrix:
    """Distances or similarity of exactly these classes, in this order, from any file that holds them.

    A taxonomy is measured by "lca". Smooth labels are converted to the similarity that they contain, and a confusion
    matrix to the similarity that ``similarity.from_confusion`` makes of it.
    """
    path = Path(path)
    files.require_regular(path)
    if holds_tree(path):
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
    found = array_files.read(
        path, what, ("weight", "weights"), lambda shape: len(shape) == 2 and shape[0] == num_classes
    )
    return found.to(torch.float64)
