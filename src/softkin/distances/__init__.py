"""Distances between classes, from their samples, their names or a trained model.

Each function returns D, a (K, K) float64 tensor on the CPU. Row and column k are class k, and a larger distance means
less alike. ``similarity.from_distances`` turns D into a similarity; the units cancel there.

- from samples: ``from_images``, ``from_features``, ``from_autoencoder``, ``from_class_means``
- from names: ``from_words``, ``from_encoder``, ``from_taxonomy``, and from their order ``from_order``
- from a trained model: ``from_weights``, and ``from_similarity`` of ``similarity.from_outputs`` or ``from_confusion``
- from several of these: ``mixture``

``SOURCES`` lists the distance sources by name, and ``measure`` applies one of them to labelled data.
"""

from softkin._core.options import Option
from softkin._io.matrices import ClassMatrix, MatrixFiles
from softkin.distances.autoencoder import AutoencoderFit, from_autoencoder
from softkin.distances.class_means import from_class_means, from_weights
from softkin.distances.encoders import encoder_vectors, from_encoder
from softkin.distances.images import from_features, from_images
from softkin.distances.order import from_order
from softkin.distances.saving import from_similarity, mixture, read_file
from softkin.distances.sources import (
    SOURCES,
    ClassDistances,
    ClassNames,
    DistanceSource,
    default_source,
    measure,
    source,
)
from softkin.distances.taxonomy import from_taxonomy
from softkin.distances.tree_files import read_tree
from softkin.distances.trees import Hierarchy, Tree
from softkin.distances.words import from_words, name_vectors
from softkin.word_vectors import WordVectors

__all__ = [
    "SOURCES",
    "AutoencoderFit",
    "ClassDistances",
    "ClassMatrix",
    "ClassNames",
    "DistanceSource",
    "Hierarchy",
    "Option",
    "Tree",
    "WordVectors",
    "default_source",
    "encoder_vectors",
    "from_autoencoder",
    "from_class_means",
    "from_encoder",
    "from_features",
    "from_images",
    "from_order",
    "from_similarity",
    "from_taxonomy",
    "from_weights",
    "from_words",
    "load",
    "measure",
    "mixture",
    "name_vectors",
    "read",
    "read_file",
    "read_tree",
    "save",
    "source",
]

_files = MatrixFiles("distances")
save, load, read = _files.save, _files.load, _files.read
