"""Read CIFAR's pickles without running anything that a pickle asks for.

A pickle may name any function and have it called. This reader knows only the names that a numeric array needs, and
substitutes inert objects of its own for them. Nothing is imported, and nothing outside this file is called. The result
contains only numbers, text, lists, dictionaries and arrays.
"""

import io
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softkin import SoftkinError
from softkin._io import files

_NUMBERS = re.compile(r"[<>|]?[biuf][1248]")


class _Dtype:
    """Stands for a dtype while the pickle is read."""

    __slots__ = ("order", "text")

    def __init__(self, text: str) -> None:
        self.text, self.order = text, "|"

    def __setstate__(self, state: Any) -> None:
        if not (isinstance(state, tuple) and len(state) >= 2 and state[1] in ("<", ">", "|")):
            raise pickle.UnpicklingError("an invalid dtype")
        self.order = state[1]

    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.text).newbyteorder("<" if self.order in "<|" else ">")


class _Array:
    """Stands for an array while the pickle is read."""

    __slots__ = ("values",)

    def __setstate__(self, state: Any) -> None:
        if not (isinstance(state, tuple) and len(state) == 5):
            raise pickle.UnpicklingError("an invalid array")
        _, shape, dtype, fortran, content = state
        if isinstance(content, str):  # Python 2 wrote bytes as text
            content = content.encode("latin1")
        sizes = isinstance(shape, tuple) and all(type(size) is int and 0 <= size < 2**48 for size in shape)
        if not (sizes and isinstance(dtype, _Dtype) and isinstance(content, bytes)):
            raise pickle.UnpicklingError("an array of something other than numbers")
        values = np.frombuffer(content, dtype.dtype())
        self.values: NDArray[Any] = values.reshape(shape, order="F" if fortran else "C")


class _Named:
    """The object that stands for a permitted name in a pickle: either a callable or a mere marker."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("it would change what a name stands for")

    def __call__(self, *arguments: Any) -> Any:
        if self._name == "array" and arguments and isinstance(arguments[0], _Named):
            return _Array()
        if self._name == "dtype" and arguments and isinstance(arguments[0], str) and _NUMBERS.fullmatch(arguments[0]):
            return _Dtype(arguments[0])
        if self._name == "bytes" and isinstance(arguments[0], str) and arguments[1:] in (("latin1",), ("latin-1",)):
            return arguments[0].encode("latin1")
        raise pickle.UnpicklingError(f"a call of {self._name} with unusual arguments")


_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): _Named("array"),
    ("numpy._core.multiarray", "_reconstruct"): _Named("array"),
    ("numpy", "ndarray"): _Named("ndarray"),
    ("numpy", "dtype"): _Named("dtype"),
    ("_codecs", "encode"): _Named("bytes"),
}


class _Reader(pickle._Unpickler):
    """Based on the pure-Python unpickler, since five bytes make the C version allocate a memo table of 64 GiB."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no data set needs") from None


def read(path: Path) -> dict[str, Any]:
    """The pickled dictionary of numbers, text, lists and arrays."""
    content = files.read_bytes(path, "a pickle of arrays")
    try:
        unpickled = _Reader(io.BytesIO(content), encoding="latin1").load()
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise SoftkinError(f"{path} was refused as a pickle of arrays: {files.cause(error)}.") from error
    if not isinstance(unpickled, dict):
        raise SoftkinError(f"{path} must hold a dictionary, as CIFAR's files do, got {type(unpickled).__name__}.")
    return {
        key.decode("latin1") if isinstance(key, bytes) else str(key): value.values
        if isinstance(value, _Array)
        else value
        for key, value in unpickled.items()
        if isinstance(key, str | bytes)
    }
