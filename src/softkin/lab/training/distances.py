"""Training rows and the name of a distance source → class distances, for class-similarity labels."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from softkin import SoftkinError, distances, predictions, similarity
from softkin._core import checks
from softkin._core.checks import Array
from softkin.distances import name_doubts
from softkin.distances.saving import SUFFIXES as FILES
from softkin.similarity import Beta

if TYPE_CHECKING:
    from softkin.lab.data import Labelled

FILE = "file"  # the source that reads a distance, a similarity or a taxonomy
WORDS = "words"  # the source that looks up class names


def class_distances(train: "Labelled", distance: str | Path | Array, **options: Any) -> Tensor:
    """D, (K, K) float64, from training rows alone.

    Args:
        train: The training rows.
        distance: A name in ``distances.SOURCES``, such as "l1", "autoencoder" or "words". A file of distances,
            similarity or a taxonomy, whose classes are put in the order of ``train``. Or a matrix.
        options: Options of ``distances.measure``.
    """
    result = measured_distances(train, distance, **options)
    if result.autoencoder is not None and not result.autoencoder.beats_pca:
        warnings.warn(str(result.autoencoder), stacklevel=2)
    return result.matrix


def measured_distances(train: "Labelled", distance: str | Path | Array, **options: Any) -> distances.ClassDistances:
    """Like ``class_distances``, with a description of how they were measured, or the similarity of a file."""
    if not isinstance(distance, str | Path):
        matrix = checks.square(distance, "distance", without_diagonal=True)
        if len(matrix) != len(train.class_names):
            raise ValueError(
                f"`distance` covers {len(matrix)} classes but the data have {len(train.class_names)}; "
                "was it made for another data set?"
            )
        return distances.ClassDistances(matrix, "a matrix")
    name = known_distance(distance)
    if name == FILE and str(distance) != FILE:
        options = {**options, "matrix": distance}
    return distances.measure(name, train, **opened(options, train.class_names))


def label_doubts(
    train: "Labelled",
    distance: str,
    measured: distances.ClassDistances,
    beta: Beta,
    *,
    vectors: Any = None,
    aliases: Mapping[str, str] | None = None,
) -> list[str]:
    """Sentences about what looks wrong in the labels that distances give; names are doubted only for "words".

    Args:
        train: The training rows, for the names of their classes.
        distance: The name of the source.
        measured: Its distances; a finished similarity is not doubted.
        beta: β of the labels; one that data decide, "auto", is taken as the default for names.
        vectors: The word vectors of the source.
        aliases: The words that were looked up instead of others.
    """
    if measured.similarity is not None:
        return []
    s = similarity.from_distances(measured.matrix, beta, asymmetric=True)
    if distance == WORDS:
        return name_doubts.doubts(train.synonyms, s, beta, vectors=vectors, aliases=aliases)
    sharp = "" if isinstance(beta, str) else name_doubts.too_sharp(s, beta)
    return [sharp] if sharp else []


def opened(options: Mapping[str, Any], class_names: list[str]) -> dict[str, Any]:
    """The options of a source; if ``outputs`` names a file of predictions, it is read."""
    path = options.get("outputs")
    if not isinstance(path, str | Path):
        return dict(options)
    outputs = predictions.load(path)
    if outputs.num_classes != len(class_names) or outputs.class_names not in (None, list(class_names)):
        raise SoftkinError(f"{path} must have the classes of the data, in the same order, but they differ.")
    return {**options, "outputs": (outputs.probabilities, outputs.known_labels)}


def known_distance(distance: str | Path) -> str:
    """The canonical name of a distance; "file" for a path."""
    if Path(distance).suffix.lower() in FILES:
        return FILE
    return distances.SOURCES.canonical(str(distance), "distance", also=f"a {', '.join(FILES[:-1])} or {FILES[-1]} file")
