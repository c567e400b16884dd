"""The formats of prediction files: to add one, write its reader and declare it here.

This module imports nothing heavy, because the command line takes its choices from it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import IO, TYPE_CHECKING

from softkin._core.names import Registry

if TYPE_CHECKING:
    from softkin.predictions.formats import PredictionFile, Reading


@dataclass(frozen=True)
class Format:
    """How one file format is recognised and read."""

    suffixes: tuple[str, ...]
    """The suffixes of such files"""
    reader: str
    """module:function in this package; it takes the file, a name for messages, and the caller's ``Reading``"""
    signature: bytes | None = None
    """The signature at the beginning of such files, if they have one"""

    @property
    def read(self) -> "Callable[[IO[bytes], str, Reading], PredictionFile]":
        """The reader function."""
        module, _, function = self.reader.partition(":")
        reader: Callable[[IO[bytes], str, Reading], PredictionFile] = getattr(
            import_module(f"softkin.predictions.{module}"), function
        )
        return reader


FORMATS: Registry[Format] = Registry("format")
FORMATS.add("npz", Format((".npz",), "arrays:open_npz", b"PK\x03\x04"))
FORMATS.add("npy", Format((".npy",), "arrays:open_npy", b"\x93NUMPY"))
FORMATS.add("safetensors", Format((".safetensors",), "arrays:open_safetensors"))
FORMATS.add("parquet", Format((".parquet", ".pq"), "tables:open_parquet", b"PAR1"))
FORMATS.add("csv", Format((".csv",), "tables:open_csv"))
FORMATS.add("tsv", Format((".tsv",), "tables:open_tsv"))
FORMATS.add("jsonl", Format((".jsonl", ".ndjson"), "objects:open_jsonl"))
FORMATS.add("json", Format((".json",), "objects:open_json"))


def by_suffix(suffix: str) -> str | None:
    """The name of the format with this file suffix."""
    return next((name for name, format_ in FORMATS.items() if suffix.lower() in format_.suffixes), None)
