"""Training rows and the name of a distance → how far apart the classes are, for class-similarity labels."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from softkin import checks, distances
from softkin.checks import Array

if TYPE_CHECKING:
    from softkin.data import Labelled

FILES = (".safetensors", ".csv")
FILE = "file"  # stands for a distance that is read


def class_distances(train: "Labelled", distance: str | Path | Array, **options: Any) -> Tensor:
    """D, (K, K) float64, from training rows alone.

    Args:
        train: What the network is trained on.
        distance: A name in ``distances.SOURCES``, such as "l1", "autoencoder" or "words". A .safetensors or .csv file
            of distances, whose classes are put in the order of ``train``. Or a matrix.
        options: Of ``distances.measure``.
    """
    result = measured_distances(train, distance, **options)
    if result.autoencoder is not None and not result.autoencoder.beats_pca:
        warnings.warn(str(result.autoencoder), stacklevel=2)
    return result.matrix


def measured_distances(train: "Labelled", distance: str | Path | Array, **options: Any) -> distances.ClassDistances:
    """Like ``class_distances``, with how the distances were measured."""
    if not isinstance(distance, str | Path):
        matrix = checks.square(distance, "distance", without_diagonal=True)
        if len(matrix) != len(train.class_names):
            raise ValueError(
                f"`distance` covers {len(matrix)} classes but the data have {len(train.class_names)}; "
                "was it made for another data set?"
            )
        return distances.ClassDistances(matrix, "a matrix")
    name = known_distance(distance)
    if name == FILE:
        return distances.ClassDistances(distances.load(distance, class_names=train.class_names), str(distance))
    return distances.measure(name, train, **options)


def known_distance(distance: str | Path) -> str:
    """The canonical name of a distance, or "file"."""
    if Path(distance).suffix.lower() in FILES:
        return FILE
    return distances.SOURCES.canonical(str(distance), "distance", also=f"a {' or '.join(FILES)} file")
