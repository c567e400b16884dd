"""Training rows and the name of a distance → how far apart the classes are, for class-similarity labels."""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from softkin import checks, distances
from softkin.checks import Array

if TYPE_CHECKING:
    from softkin.data import Labelled

DISTANCES = {"l1": "l1", "l2": "l2", "ae": "ae", "autoencoder": "ae", "we": "words", "words": "words"}
FILES = (".safetensors", ".csv")


def class_distances(
    train: "Labelled",
    distance: str | Path | Array,
    *,
    seed: int = 0,
    device: str | torch.device | None = None,
    vectors: Any = None,
    aliases: Mapping[str, str] | None = None,
    max_per_class: int | None = None,
    progress: bool | None = None,
    **autoencoder: Any,
) -> Tensor:
    """D, (K, K) float64, from training rows alone.

    Args:
        train: What the network is trained on.
        distance: "l1" or "l2": mean distance of all pairs of inputs. "ae": the same over an autoencoder's codes.
            "words" ("we"): between the words that name the classes. A .safetensors or .csv file of distances, whose
            classes are put in the order of ``train``. Or a matrix.
        seed: Of the autoencoder, and of the rows that ``max_per_class`` draws.
        device: Where inputs are compared and the autoencoder is trained; by default the CPU.
        vectors: Word vectors; see ``distances.from_words``.
        aliases: Words to look up for others; see there.
        max_per_class: At most so many rows of each class, for "l1" and "l2".
        progress: Show a bar; by default on a terminal.
        autoencoder: Options of ``distances.from_autoencoder``.
    """
    if not isinstance(distance, str | Path):
        matrix = checks.square(distance, "distance", without_diagonal=True)
        if len(matrix) != len(train.class_names):
            raise ValueError(
                f"`distance` covers {len(matrix)} classes but the data have {len(train.class_names)}; "
                "was it made for another data set?"
            )
        return matrix
    kind = known_distance(distance)
    if kind == "file":
        return distances.load(distance, class_names=train.class_names)
    if autoencoder and kind != "ae":
        raise TypeError(f"{', '.join(autoencoder)} must be left out: only the distance 'ae' has such options.")
    if kind == "words":
        return distances.from_words(train.synonyms, vectors, aliases=aliases)
    if kind == "ae":
        if train.kind == "text":
            raise ValueError("the distance 'ae' needs images or features, and `train` holds text; use l2 or words.")
        made: Tensor = distances.from_autoencoder(
            train.values, train.labels, seed=seed, device=device, progress=progress, **autoencoder
        )
        return made
    values = checks.as_tensor(train.values, "train").to(device or "cpu")
    return distances.from_images(
        values,
        train.labels,
        p=1 if kind == "l1" else 2,
        class_names=train.class_names,
        max_per_class=max_per_class,
        seed=seed,
        progress=progress,
    )


def known_distance(distance: str | Path) -> str:
    """Which distance a name means: "l1", "l2", "ae", "words" or "file"."""
    if Path(distance).suffix.lower() in FILES:
        return "file"
    if str(distance) not in DISTANCES:
        near = difflib.get_close_matches(str(distance), DISTANCES, 1)
        meant = f"; did you mean {near[0]!r}?" if near else "."
        raise ValueError(
            f"`distance` must be one of {', '.join(DISTANCES)}, or a {' or '.join(FILES)} file, got {distance!s}{meant}"
        )
    return DISTANCES[str(distance)]
