"""Class similarity from distances or from a model's confusions.

Each function returns S, (K, K) float64 on the CPU with rows that sum to 1 and a zero diagonal, or ``SparseRows`` if
only the most similar classes are kept.

- ``from_distances``, ``from_vectors``, ``from_blocks``: a softmax of minus β times normalised distances
- ``from_outputs``, ``from_confusion``: the classes that a trained model, or people, confuse with each class
- ``from_neighbours``: the classes of the nearest samples in a feature space
- ``mixture``: a weighted sum of several distances
"""

from softkin._io.matrices import MatrixFiles, read_together
from softkin.similarity.formula import (
    AUTO_BETA,
    Beta,
    Outputs,
    SparseRows,
    best_beta,
    from_distances,
    mixture,
    normalised_rows,
    wrong_mass,
)
from softkin.similarity.outputs import from_confusion, from_neighbours, from_outputs
from softkin.similarity.vectors import from_blocks, from_vectors, nearest

__all__ = [
    "AUTO_BETA",
    "Beta",
    "Outputs",
    "SparseRows",
    "best_beta",
    "from_blocks",
    "from_confusion",
    "from_distances",
    "from_neighbours",
    "from_outputs",
    "from_vectors",
    "load",
    "mixture",
    "nearest",
    "normalised_rows",
    "read",
    "read_together",
    "save",
    "wrong_mass",
]

_files = MatrixFiles("similarity")
save, load, read = _files.save, _files.load, _files.read
