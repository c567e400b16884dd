"""Class matrices on disk, always together with the names of their classes.

The classic silent error is a matrix in alphabetical order used with labels in the data set's order. A file of
ours (safetensors) holds the matrix, its class names, what it was made from and how; a CSV with the class names as
its header can be read too. Loading one requires the names of the wanted classes.
"""

import csv
import io
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from softkin import SoftkinError, __version__
from softkin._core import checks
from softkin._core.assumption import Assumption
from softkin._io import bundles, escape, files, turns

MatrixKind = Literal["distances", "similarity", "labels", "confusion"]
MODULES: dict[str, str] = {"distances": "distances", "similarity": "similarity", "labels": "smoothing"}
KINDS = (*MODULES, "confusion")
TOGETHER = tuple(MODULES)
"""The kinds that ``softkin similarity --output`` writes into one folder"""
TABLE = "labels.csv"
"""The labels in the same folder, for spreadsheets"""
RESERVED = ("kind", "class_names", "source", "version", "together")
TRIES = 20  # to read files of one writer where there are no locks


@dataclass(frozen=True)
class ClassMatrix:
    """A (K, K) matrix, the names of its classes in its order, and where it comes from."""

    values: Tensor
    class_names: list[str]
    kind: str
    source: str
    about: Mapping[str, Any] = field(default_factory=dict)
    """Further plain data of its maker: sources and their weights, β, a suggested α, corrections"""
    together: str = ""
    """The same for all files of a folder that were written together"""


class MatrixFiles:
    """Files of one kind of class matrix: ``save``, ``load`` and ``read`` of the module that makes it."""

    def __init__(self, kind: MatrixKind) -> None:
        self.kind = kind

    def content(
        self, matrix: Any, *, class_names: Sequence[str], source: str, about: Mapping[str, Any] | None = None
    ) -> bytes:
        """The bytes that ``save`` writes."""
        if not source.strip():
            raise ValueError("`source` must say what the matrix was made from and how, got an empty text.")
        values = checks.square(matrix, self.kind)
        names = checks.class_names(class_names, num_classes=len(values))
        texts = {"kind": self.kind, "class_names": names, "source": source, "version": __version__}
        return bundles.encoded({**(about or {}), **texts}, {"matrix": values})

    def save(
        self,
        path: str | Path,
        matrix: Any,
        *,
        class_names: Sequence[str],
        source: str,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        """Write a matrix to ``path`` (.safetensors), atomically.

        ``source`` says what the matrix was made from and how; it is kept with the class names, and so is ``about``,
        plain data by name.
        """
        path = Path(path)
        if path.suffix != ".safetensors":
            raise ValueError(
                f"`path` must end in .safetensors, which keeps the class names with the matrix, got {path.name!r}."
            )
        files.write(path, self.content(matrix, class_names=class_names, source=source, about=about))

    def read(self, path: str | Path) -> ClassMatrix:
        """Read a matrix with its class names and its source, in the order of the file.

        A folder that ``softkin similarity`` wrote stands for its file of this kind.
        """
        matrix = read_any(path, kind=self.kind)
        if matrix.kind != self.kind:
            loader = f"; load it with softkin.{MODULES[matrix.kind]}.load" if matrix.kind in MODULES else ""
            raise SoftkinError(f"{path} holds {matrix.kind}, not {self.kind}{loader}.")
        return matrix

    def load(self, path: str | Path, *, class_names: Sequence[str]) -> Tensor:
        """Read the matrix of exactly these classes, in this order.

        A file for the same classes in another order is reordered by name; one for other classes is refused.
        """
        wanted = checks.class_names(class_names)
        return in_order_of(self.read(path), wanted, path)


def read_any(path: str | Path, *, kind: str = "distances") -> ClassMatrix:
    """Read a class matrix of any kind.

    ``kind`` is that of a CSV whose corner cell does not name it, and of the file that is read of a folder.
    """
    from softkin._io import tables  # only here: `import softkin.losses` loads few modules

    path = Path(path)
    if path.is_dir():
        return read_together(path)[kind]
    files.require_regular(path)
    raw = _read_csv(path, kind) if tables.form_of(path) in ("csv", "tsv") else _read_safetensors(path)
    try:
        checks.class_names(raw.class_names)
        values = checks.square(raw.values, "matrix")
        checks.class_names(raw.class_names, num_classes=len(values))
    except (TypeError, ValueError) as error:
        raise SoftkinError(f"{path} is not a class matrix: {error}") from error
    return ClassMatrix(values, raw.class_names, raw.kind, raw.source, raw.about, raw.together)


def file_name(kind: str) -> str:
    """The name of the file of a kind in a folder of matrices."""
    return f"{kind}.safetensors"


def together(parts: Mapping[MatrixKind, ClassMatrix]) -> dict[str, bytes]:
    """The contents of the files of one folder by name, each with the same mark of all; ``read_together`` checks it."""

    def contents(mark: Mapping[str, str]) -> dict[str, bytes]:
        return {
            file_name(kind): MatrixFiles(kind).content(
                part.values, class_names=part.class_names, source=part.source, about={**part.about, **mark}
            )
            for kind, part in parts.items()
        }

    mark = files.sha256(b"".join(contents({}).values()))[:16]  # short enough for a cell of a table
    labels = parts["labels"]
    table = to_csv(labels.values, labels.class_names, kind="labels", together=mark)
    return {**contents({"together": mark}), TABLE: table.encode()}


def read_together(folder: str | Path) -> dict[str, ClassMatrix]:
    """Distances, similarity and labels by kind, from a folder that ``softkin similarity --output`` wrote.

    If other processes write to the folder meanwhile, all three are from the same one, and so is the table of labels.
    Each file by itself is always whole, but files that are opened one after another may be from two writers.

    Raises:
        SoftkinError: A file is missing or damaged, or the files were not written together.
    """
    folder, first = Path(folder), TOGETHER[0]
    for left in reversed(range(TRIES)):
        with turns.unwritten(folder):
            missing = next((file_name(kind) for kind in TOGETHER if not (folder / file_name(kind)).exists()), None)
            if missing is not None:
                raise SoftkinError(f"{folder} could not be read: there is no {missing} in it.")
            read = {kind: read_any(folder / file_name(kind)) for kind in TOGETHER}
            in_table = _mark_of_table(folder / TABLE)
        mark = read[first].together
        others = [file_name(kind) for kind in TOGETHER if read[kind].together != mark]
        others += [TABLE] if in_table not in ("", mark) else []
        if not others:
            break
        if not left:
            raise SoftkinError(
                f"{folder} holds the files of two runs: {others[0]} was not written with {file_name(first)}; "
                "make them again, or name the file to read."
            )
        time.sleep(0.01)  # without locks, a writer may be between two files
    return read


def _mark_of_table(path: Path) -> str:
    """The mark in the corner of a table of labels; empty if there is none, as where a spreadsheet replaced it."""
    if not path.is_file():
        return ""
    with files.open_file(path) as file:
        kind, _, mark = file.read(64).partition(b",")[0].decode("utf-8", "replace").strip().partition(" ")
    return mark if kind == "labels" else ""


def in_order_of(matrix: ClassMatrix, class_names: Sequence[str], path: str | Path) -> Tensor:
    """The values of exactly these classes, in this order; ``path`` is the matrix's file, for messages."""
    try:
        refused = f"{path} was made for other classes:"
        order = checks.class_order(matrix.class_names, class_names, refused, numbers_are_names=True)
    except ValueError as error:
        raise SoftkinError(str(error)) from error
    return matrix.values if order is None else matrix.values[order][:, order]


def _read_safetensors(path: Path) -> ClassMatrix:
    what = "a class matrix that softkin wrote"
    texts, tensors = bundles.read(path, what)
    with files.reading(path, what, hint="make it again"):
        names, kind, source = (texts[key] for key in ("class_names", "kind", "source"))
        if not isinstance(names, list) or not isinstance(kind, str) or not isinstance(source, str):
            raise SoftkinError(f"{path} is not {what}: its class names must be a list, its kind and source texts.")
        about = {key: value for key, value in texts.items() if key not in RESERVED}
        return ClassMatrix(tensors["matrix"], names, kind, source, about, str(texts.get("together", "")))


def _read_csv(path: Path, kind: str) -> ClassMatrix:
    """A header of class names, then one row of numbers per class; the first column may repeat the names.

    The cell in the corner may say what kind of matrix it is, and which files were written together with it.
    """
    from softkin._io import tables

    numbered = tables.read_cells(path, "CSV")
    lines = [line for _, line in numbered]
    if len(lines) < 3:
        raise SoftkinError(
            f"{path} must hold a header of class names and a row for each class, got {len(lines)} lines."
        )
    header, body, mark = lines[0], lines[1:], ""
    if all(checks.is_number(cell) for cell in header):
        raise SoftkinError(f"{path} must begin with a header of class names, but its first line holds numbers.")
    if len(header) == len(body) + 1:  # a column of names
        corner, *header = header
        said, _, after = corner.partition(" ")
        if said in KINDS:
            kind, mark = said, after
        named = {line[0]: line for line in body}
        if set(named) != set(header) or len(named) < len(body):
            raise SoftkinError(f"{path} must name its rows and columns alike, but they differ.")
        if list(named) != header:
            words = f"{path}: its rows are in another order than its columns; they are matched by name."
            warnings.warn(words, Assumption, stacklevel=3)
        numbered = [numbered[0], *(numbered[1 + body.index(named[name])] for name in header)]
        body = [named[name][1:] for name in header]
    for (number, _), line in zip(numbered[1:], body, strict=True):
        if len(line) != len(header):
            raise SoftkinError(
                f"{path}, line {number} must hold {len(header)} numbers, one for each class, got {len(line)}."
            )
    try:
        values = torch.tensor([[float(cell) for cell in line] for line in body], dtype=torch.float64)
    except ValueError as error:
        raise SoftkinError(f"{path} must hold numbers below its header: {error}.") from error
    return ClassMatrix(values, header, kind, f"CSV file {path.name}", together=mark)


def to_csv(matrix: Tensor, class_names: Sequence[str], *, kind: MatrixKind, together: str = "") -> str:
    """The matrix as text that spreadsheets and ``read`` open: names on both sides.

    In the corner are the kind, and the mark of the files that were written together.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [escape.csv_cell(name) for name in class_names]
    writer.writerow([f"{kind} {together}".rstrip(), *names])
    for name, row in zip(names, matrix.tolist(), strict=True):
        writer.writerow([name, *(repr(value) for value in row)])
    return text.getvalue()
