"""One array from a file of arrays: .npy, .npz or .safetensors, without unpickling anything."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from softkin import SoftkinError
from softkin._io import bundles, files, numpy_files

SUFFIXES = (".npy", ".npz", ".safetensors")


def read(path: str | Path, what: str, names: tuple[str, ...], fits: Callable[[tuple[int, ...]], bool]) -> Tensor:
    """The array of one of these names, or the only one of a fitting shape.

    Args:
        path: The file.
        what: What it should hold, for messages: "features (N, d)".
        names: Names that the array may have.
        fits: Whether a shape is right.

    Raises:
        SoftkinError: No array fits, several do, or the file is damaged.
    """
    path = Path(path)
    files.require_regular(path)
    suffix = path.suffix.lower()
    if suffix == ".safetensors":
        bundle = bundles.Bundle(path, what)
        return bundle.whole(_chosen(bundle.shapes, path, what, names, fits))
    if suffix not in SUFFIXES:
        raise SoftkinError(f"{path} has no known format for {what}; those are .npy, .npz and .safetensors.")
    with files.open_file(path) as stream:
        if suffix == ".npz":
            archive = numpy_files.Archive(stream, str(path))
            shapes = {key: tuple(archive.array(key).shape) for key in archive.keys}
            array = archive.array(_chosen(shapes, path, what, names, fits)).all()
        else:
            whole = numpy_files.ArrayStream(stream, numpy_files.size_of(stream), str(path))
            _chosen({path.stem: tuple(whole.shape)}, path, what, names, fits)
            array = whole.all()
    if array.dtype.kind not in "biuf":
        raise SoftkinError(f"{path} must hold numbers as {what}, got {array.dtype}.")
    return torch.from_numpy(np.array(array))


def _chosen(
    shapes: dict[str, tuple[int, ...]],
    path: Path,
    what: str,
    names: tuple[str, ...],
    fits: Callable[[tuple[int, ...]], bool],
) -> str:
    called = [key for key in names if key in shapes][:1]
    fitting = [key for key in called or shapes if fits(shapes[key])]
    if len(fitting) != 1:
        there = ", ".join(f"`{key}` {shape}" for key, shape in shapes.items()) or "nothing"
        raise SoftkinError(f"{path} must hold {what}, one array called {' or '.join(names)}, and holds {there}.")
    return fitting[0]
