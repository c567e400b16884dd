"""The formats of prediction files: arrays, declared here, and every format of tables (``_io.tables.FORMATS``).

This module imports nothing heavy, because the command line takes its choices from it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING

from softkin import SoftkinError
from softkin._core.names import Registry
from softkin._io import files, tables

if TYPE_CHECKING:
    from softkin.predictions.blocks import PredictionFile
    from softkin.predictions.request import Reading


@dataclass(frozen=True)
class Format:
    """How one format of predictions that is not a table is recognised and read."""

    suffixes: tuple[str, ...]
    reader: str
    """module:function in this package; it takes the file, a name for messages, and the caller's ``Reading``"""
    signature: bytes | None = None
    """The signature at the beginning of such files, if they have one"""
    part: str | None = None
    """A regular expression of the name of a file inside, if such files are zip archives"""

    @property
    def read(self) -> "Callable[[IO[bytes], str, Reading], PredictionFile]":
        """The reader function."""
        module, _, function = self.reader.partition(":")
        reader: Callable[[IO[bytes], str, Reading], PredictionFile] = getattr(
            import_module(f"softkin.predictions.{module}"), function
        )
        return reader


FORMATS: Registry[Format] = Registry("format")
FORMATS.add("npz", Format((".npz",), "arrays:open_npz", part=r".*\.npy"))
FORMATS.add("eval", Format((".eval",), "inspect_logs:open_eval", part=r"header\.json|_journal/.*"))
FORMATS.add("npy", Format((".npy",), "arrays:open_npy", b"\x93NUMPY"))
FORMATS.add("safetensors", Format((".safetensors",), "arrays:open_safetensors"))
FORMATS.add("pt", Format((".pt", ".pth"), "torch_files:open_pt", part=r".*/data\.pkl"))
PICKLES = (".pkl", ".pickle", ".joblib")


def names() -> list[str]:
    """The names of all formats."""
    return [*FORMATS, *tables.FORMATS]


def by_suffix(path: str | Path) -> str | None:
    """The name of the format that a file's suffix says."""
    suffix = tables.suffix_of(path)
    own = next((name for name, known in FORMATS.items() if suffix in known.suffixes), None)
    return own or tables.form_of(path)


def form_of(path: str | Path, stated: str | None, file: IO[bytes], name: str) -> str:
    """The format of an open file: the stated one, that of its suffix, or that of its first bytes."""
    if stated is not None:
        return FORMATS.canonical(stated) if stated in FORMATS else _table_format(stated)
    form = by_suffix(path)
    if form is not None:
        return form
    if tables.suffix_of(path) in PICKLES:
        raise SoftkinError(
            f"{name} is a pickle, which is never read, because reading one runs the code in it; save the arrays with "
            "numpy.savez(file, logits=…, labels=…) or the table with to_csv or to_parquet."
        )
    start = tables.start_of(file)
    for known, format_ in FORMATS.items():
        if format_.signature is not None and start.startswith(format_.signature):
            return known
    if start.startswith(tables.ZIP):
        return _zipped(file, name)
    form = "safetensors" if start[8:9] == b"{" else tables.recognised(start)
    if form is None:
        raise SoftkinError(f"{name} has no known format; those are {', '.join(names())}.")
    return form


def _table_format(stated: str) -> str:
    known: Registry[object] = Registry("format")
    for name in names():
        known.add(name, None)
    return known.canonical(stated, "format")


def _zipped(file: IO[bytes], name: str) -> str:
    """The format of a zip archive, by the names of the files inside."""
    with files.reading(name, "zip"):
        inside = files.open_zip(file, name).namelist()
    file.seek(0)
    if "xl/workbook.xml" in inside:
        return "xlsx"
    for known, format_ in FORMATS.items():
        if format_.part is not None and any(re.fullmatch(format_.part, one) for one in inside):
            return known
    raise SoftkinError(f"{name} is a zip archive of no known format: it holds {', '.join(inside[:3]) or 'nothing'}.")
