"""Several files of predictions as one set: a folder of shards, or a pattern."""

import glob
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softkin import SoftkinError
from softkin._io import roles
from softkin.predictions.blocks import Block, LabelNumbers, PredictionFile
from softkin.predictions.container import Predictions
from softkin.predictions.formats import by_suffix
from softkin.predictions.reading import open_as, read_all
from softkin.predictions.request import Reading


def load(path: str | Path, **options: Any) -> Predictions:
    """Read a file of predictions, or a folder or pattern of files as one set.

    Args:
        path: The file, as for ``reading.open_file``; or a folder, or a pattern such as "shards/*.parquet".
        options: Options of ``Reading``, which state what the file itself does not.

    Raises:
        SoftkinError: There is no such file, it is damaged, or it does not say what it holds.

    Example:
        >>> load("scores.csv", kind="probs", label_column="truth", renormalise=True)  # doctest: +SKIP
        Predictions(1200 samples, 4 classes)
    """
    file = open_any(path, **options)
    return replace(read_all(file, progress=False), name=file.title)


def read(path: str | Path, *, progress: bool | None = None, **options: Any) -> Predictions:
    """``load`` with a bar where it takes long; the predictions have the name of the file."""
    return read_all(open_any(path, **options), progress=progress)


def open_any(path: str | Path, **options: Any) -> PredictionFile:
    """Open a file, or a folder or pattern of files as one set."""
    reading, paths = Reading(**options), expand(path)
    if paths is None:
        return open_as(path, reading)
    if reading.labels is not None:
        raise needs_one_file(path, len(paths))
    return joined(opened(paths, reading), str(path))


def needs_one_file(path: str | Path, count: int) -> SoftkinError:
    """The refusal of labels in a file of their own beside several files."""
    return SoftkinError(f"--labels needs a single file, but {path} stands for {count}; keep labels in each of them.")


def expand(path: str | Path) -> list[Path] | None:
    """The files that a folder or a pattern such as ``shards/*.parquet`` stands for, in the order of their names.

    It is None for one file, or standard input. Numbers in names are sorted as numbers: part-2 comes before part-10.

    Raises:
        SoftkinError: The folder or the pattern has no file of predictions, or files of several formats.
    """
    text = str(path)
    if text == "-" or Path(path).is_file():
        return None
    if Path(path).is_dir():
        inside = (file for file in Path(path).iterdir() if not file.name.startswith("."))
        matches = [file for file in inside if file.is_file() and by_suffix(file) is not None]
    elif glob.has_magic(text):
        matches = [Path(name) for name in glob.glob(text, recursive=True) if Path(name).is_file()]
    else:
        return None
    if Path(path).is_dir() and {file.suffix for file in matches} != {".json"}:
        matches = [
            file for file in matches if file.suffix != ".json"
        ]  # something about the others, such as their schema
    # An .npy file of labels belongs to one of scores.
    matches = [file for file in matches if file.suffix != ".npy" or roles.kind_in_words(file.stem) is not None]
    if not matches:
        raise SoftkinError(f"{text} must match files of predictions, but there is none.")
    kinds = sorted({by_suffix(file) or file.suffix for file in matches})
    if len(kinds) > 1:
        raise SoftkinError(f"{text} must match files of one format, but matches {' and '.join(kinds)}.")
    return sorted(matches, key=lambda file: [(piece.isdigit(), int(piece) if piece.isdigit() else 0, piece)
                                           for piece in re.split(r"(\d+)", str(file))])  # fmt: skip


def opened(paths: Sequence[Path], reading: Reading) -> list[PredictionFile]:
    """All files of a set, opened; they must agree on kind of scores and classes, whose order is that of the first."""
    first, *others = (open_as(path, reading) for path in paths)
    return [first, *(alike(other, first.kind, first.class_names, first.num_classes, first.name) for other in others)]


def alike(
    file: PredictionFile, kind: str | None, class_names: Sequence[str] | None, num_classes: int, name: str
) -> PredictionFile:
    """A file with its classes in the order of the first of its set, called ``name``; refused if it has others."""
    for what, a, b in (
        ("kind of scores", kind, file.kind),
        ("number of classes", num_classes, file.num_classes),
        ("class names", sorted(class_names or []), sorted(file.class_names or [])),
    ):
        if a != b:
            both = f": {a} and {b}" if what != "class names" else ""
            raise SoftkinError(
                f"the files of a set must have the same {what}, but {name} and {file.name} differ in it{both}."
            )
    names = None if class_names is None else list(class_names)
    if names is None or file.class_names is None or names == file.class_names:
        return file
    return _in_order(file, names, file.class_names)


def _in_order(file: PredictionFile, names: list[str], own: list[str]) -> PredictionFile:
    """The file with its classes in the order of ``names``."""
    order = [own.index(name) for name in names]
    place = torch.tensor([names.index(name) for name in own])

    def blocks(rows: int) -> Iterator[Block]:
        numbers, start = LabelNumbers(file), 0
        for block in file.blocks_of(rows):
            labels = block.labels
            if labels is not None:
                labels = place[_within(numbers(labels, start), len(own), file.name)]
            yield replace(block, values=block.values[:, order], labels=labels)
            start += len(block.values)

    why = f"{file.name} has the same classes in another order than the first file; they are matched by name."
    return replace(file, class_names=names, blocks_of=blocks, assumed=(*file.assumed, why))


def _within(labels: Tensor, num_classes: int, name: str) -> Tensor:
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < num_classes:
        raise SoftkinError(f"{name}: labels must be from 0 to {num_classes - 1}, got {int(labels.max())}.")
    return labels


def joined(files: Sequence[PredictionFile], name: str) -> PredictionFile:
    """The files of a set as one."""
    rows = [file.num_rows for file in files]

    def blocks(count: int) -> Iterator[Block]:
        for place, file in enumerate(files):
            start = 0
            for block in file.blocks_of(count):
                end = start + len(block.values)
                own = file.rows_of(np.arange(start, end))
                yield replace(block, rows=np.stack([np.full(len(own), place), own], axis=1))
                start = end

    turned = [sentence for file in files[1:] for sentence in file.assumed if "another order" in sentence]
    num_rows = None if None in rows else sum(map(int, rows))  # type: ignore[arg-type]
    assumed = (*files[0].assumed, *turned)
    return replace(
        files[0], name=name, blocks_of=blocks, num_rows=num_rows, assumed=assumed, table=None, row_of=None,
        parts=tuple(Path(file.name).name for file in files),
    )  # fmt: skip


def counted_from(file: PredictionFile, first: int) -> PredictionFile:
    """The file with labels that are counted from ``first``."""

    def blocks(rows: int) -> Iterator[Block]:  # holds the file, which is closed when it is forgotten
        yield from file.blocks_of(rows)

    return replace(file, first_label=first, blocks_of=blocks) if first else file


def first_label(files: Sequence[PredictionFile]) -> int:
    """1 if the labels of all files together count the classes from 1 to K, else 0; a label 0 ends the reading."""
    high = 0
    for file in files:
        for block in file.blocks(progress=False):
            if block.labels is None or not len(block.labels):
                return 0
            low, top = (int(end) for end in torch.aminmax(block.labels))
            if low < 1:
                return 0
            high = max(high, top)
    return int(high == files[0].num_classes)
