"""Class images, features or names → how far apart the classes are.

Each function returns D, a (K, K) float64 tensor on the CPU: row and column k are class k, and larger is less
alike. ``similarity.from_distances`` turns it into what the labels need; the units cancel there. ``SOURCES`` holds the
ways to measure by name, and ``measure`` takes one of them to labelled data.
"""

from softkin.distances.autoencoder import AutoencoderFit, from_autoencoder
from softkin.distances.inputs import from_features, from_images
from softkin.distances.sources import (
    SOURCES,
    ClassDistances,
    ClassNames,
    DistanceSource,
    default_source,
    measure,
    source,
)
from softkin.distances.words import from_words, name_vectors
from softkin.matrices import ClassMatrix, MatrixFiles
from softkin.word_vectors import WordVectors

__all__ = [
    "SOURCES",
    "AutoencoderFit",
    "ClassDistances",
    "ClassMatrix",
    "ClassNames",
    "DistanceSource",
    "WordVectors",
    "default_source",
    "from_autoencoder",
    "from_features",
    "from_images",
    "from_words",
    "load",
    "measure",
    "name_vectors",
    "read",
    "save",
    "source",
]

_files = MatrixFiles("distances")
save, load, read = _files.save, _files.load, _files.read
