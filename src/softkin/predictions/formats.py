"""Predictions from files of many formats: their parts are found by name and read in blocks.

Whether numbers are logits or probabilities is stated by the caller or follows from a name (``logits``, ``probs``). It
is never guessed from the values. Every format is read in blocks of rows, so that files may be larger than memory.
"""

import re
import sys
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from softkin import SoftkinError
from softkin._core import checks
from softkin._core.progress import track
from softkin._io import escape, files
from softkin.predictions import reading as reading_options
from softkin.predictions.predictions import Predictions
from softkin.predictions.reading import IDS, LABELS, NAMES, TEXTS, BinaryLabels, Reading, ScoreKind, named
from softkin.predictions.registry import FORMATS, by_suffix

__all__ = ["IDS", "LABELS", "NAMES", "NOTES", "TEXTS", "Block", "PredictionFile", "Reading", "ScoreKind", "named"]

NOTES = ("split_digest", "calibration")
SPREAD = ("mutual_information", "members")
"""The arrays that ``Predictions.save`` writes for an ensemble, of shapes (N,) and (N, M, K)."""
BLOCK = 2**21  # scores in a block: 16 MB in float64


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a file."""

    values: Tensor
    """(n, K) scores"""
    labels: Any = None
    """(n,) numbers or class names"""
    ids: Any = None
    texts: list[str] | None = None
    mutual_information: Any = None
    """(n,) disagreement among the members of an ensemble"""
    members: Any = None
    """(n, M, K) probabilities of the members"""


@dataclass(frozen=True)
class PredictionFile:
    """An opened file: its properties, known before its numbers are read, and the numbers in blocks."""

    name: str
    kind: ScoreKind
    num_classes: int
    num_rows: int | None
    """None if it is known only after reading the whole file"""
    blocks_of: Callable[[int], Iterator[Block]]
    class_names: list[str] | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    """Notes that softkin wrote beside the numbers"""
    title: str | None = None
    """The name that the writer of the file gave the samples"""
    columns_named: bool = False
    """Whether every score came with a class name, so that labels refer to those names even if they look like numbers"""
    renormalise: bool = False
    """Whether rows of probabilities are divided by their sums"""

    def __post_init__(self) -> None:
        files.within("classes", self.num_classes, self.name)
        try:
            if self.class_names is not None:
                checks.class_names(self.class_names, num_classes=self.num_classes)
        except (TypeError, ValueError) as error:
            raise SoftkinError(f"{self.name}: {error}") from error

    def blocks(self, *, progress: bool | None = None) -> Iterator[Block]:
        """All rows, a block at a time, with labels as class numbers; a bar is shown if reading takes long."""
        rows = max(1, BLOCK // self.num_classes)
        total = None if self.num_rows is None else -(-self.num_rows // rows)
        start = 0
        with files.reading(self.name, "predictions"):
            for block in track(self.blocks_of(rows), f"reading {self.name}", total=total, show=progress):
                labels = None if block.labels is None else self._numbers(block.labels, start)
                yield replace(block, values=self._rows(block.values, start), labels=labels)
                start += len(block.values)

    def _rows(self, values: Tensor, start: int) -> Tensor:
        """The scores, renormalised if requested, and refused if they need renormalising but that was not requested."""
        if self.kind == "probs" and self.renormalise:
            return reading_options.renormalised(values, self.name, start)
        if self.kind == "probs":
            reading_options.check_sums(values, self.name, start)
        return values

    def _numbers(self, labels: Any, start: int) -> Tensor:
        """Labels as class numbers; text labels are class names, or numbers written as text.

        Columns ``probs_1``, ``probs_10``, ``probs_2`` are not in numerical order: there, label 2 is the third column.
        """
        if isinstance(labels, Tensor):
            return labels
        names = self.class_names or []
        whole = {int(name): k for k, name in enumerate(names) if re.fullmatch(r"[0-9]+", name)}
        array = np.asarray(labels)
        if array.dtype.kind == "O" and all(isinstance(label, int) and not isinstance(label, bool) for label in labels):
            array = array.astype(np.int64)
        if array.dtype.kind == "f" and bool((array == np.floor(array)).all()):
            array = array.astype(np.int64)  # integers that became floats in a table with gaps
        if array.dtype.kind in "iu":
            if not (whole and self.columns_named):
                return checks.as_tensor(array, "labels")
            array = array.astype(str)
        if array.dtype.kind not in "USO" or not all(isinstance(label, str) for label in array.tolist()):
            raise SoftkinError(f"{self.name}: labels must be class numbers or class names, got {array[:1].tolist()}.")
        place = {name: k for k, name in enumerate(names)}
        numbers = []
        for row, text in enumerate(array.tolist(), start=start):
            k = place.get(text, place.get(escape.from_csv_cell(text)))
            if k is None and re.fullmatch(r"\d+(\.0*)?", text.strip()):
                number = int(text.strip().partition(".")[0])
                k = whole.get(number) if whole else number
            if k is None:
                known = f"one of the classes {', '.join(list(place)[:5])} …" if place else "a number"
                known = f"a number or {known}" if place and not whole else known
                hint = "" if place else "; name the classes in the order of the scores with --class-names"
                raise SoftkinError(f"{self.name}, row {row}: the label must be {known}, got {text!r}{hint}.")
            numbers.append(k)
        return torch.tensor(numbers, dtype=torch.int64)

    def read(self, *, progress: bool | None = None) -> Predictions:
        """All predictions at once."""
        return assemble(self, list(self.blocks(progress=progress)))


def assemble(source: PredictionFile, blocks: Sequence[Block]) -> Predictions:
    """Predictions from the blocks of a file."""
    if not blocks:
        raise SoftkinError(f"{source.name} must hold at least one row, it holds none.")
    values = torch.cat([block.values for block in blocks])
    labels = None if blocks[0].labels is None else torch.cat([block.labels for block in blocks])
    ids: Any = None
    if blocks[0].ids is not None:
        with files.reading(source.name, "predictions", hint="ids must be texts or whole numbers"):
            ids = [known_as for block in blocks for known_as in np.asarray(block.ids).tolist()]
    texts = None if blocks[0].texts is None else [text for block in blocks for text in block.texts or []]
    about = {
        "class_names": source.class_names,
        "sample_ids": ids,
        "texts": texts,
        "name": source.name,
        "split_digest": source.notes.get("split_digest"),
        **_spread(blocks),
    }
    try:
        if source.kind == "probs":
            return Predictions.from_probabilities(values, labels, **about)
        return Predictions(values, labels, **about)
    except (TypeError, ValueError) as error:
        raise SoftkinError(f"{source.name}: {error}") from error


def _spread(blocks: Sequence[Block]) -> dict[str, Tensor]:
    """The ensemble's fields, joined over all blocks."""
    parts = {name: [getattr(block, name) for block in blocks] for name in SPREAD}
    kept = {
        name: torch.cat([torch.as_tensor(np.asarray(part)) for part in of_blocks])
        for name, of_blocks in parts.items()
        if of_blocks[0] is not None
    }
    if "members" in kept:
        kept["members"] = kept["members"].transpose(0, 1)
    return kept


def read(path: str | Path, *, progress: bool | None = None, **options: Any) -> Predictions:
    """Read predictions from a file of any known format; ``options`` as for ``open_file``."""
    return open_file(path, **options).read(progress=progress)


def load(path: str | Path, **options: Any) -> Predictions:
    """Read a file of predictions; ``options``, those of ``Reading``, state what the file itself does not.

    Raises:
        SoftkinError: There is no such file, it is damaged, or it does not say what it holds.

    Example:
        >>> load("scores.csv", kind="probs", label_column="truth", renormalise=True)  # doctest: +SKIP
        Predictions(1200 samples, 4 classes)
    """
    file = open_file(path, **options)
    return replace(file.read(progress=False), name=file.title)


def open_file(path: str | Path, **options: Any) -> PredictionFile:
    """Open a file of predictions.

    - .npz, .safetensors: arrays ``logits`` or ``probs`` (N, K), ``labels`` (N,), perhaps ``class_names``,
      ``sample_ids`` and ``texts``
    - .npy: one array (N, K) whose file name says ``logits`` or ``probs``; its labels in a file whose name says
      ``labels`` instead
    - .parquet, .csv, .tsv: one column for each class, named after it, perhaps as ``probs_cat``, and a column ``labels``
      of class numbers or names; a parquet file may instead have a column of lists named ``logits`` or ``probs``.
      A column ``text`` holds the samples' texts. Values of a .csv may be separated by semicolons
    - .jsonl, .json: objects with ``logits`` or ``probs``, a list or a mapping from class names, and ``label``; or with
      ``top_logprobs``, the k likeliest answers of a language model. A .json may also be an object of lists, or an array
      (N, K) whose file name says ``logits`` or ``probs``
    - the saved output of Hugging Face's ``Trainer.predict``, ``predictions`` and ``label_ids``, in any of these formats

    Args:
        path: The file, or "-" for standard input.
        options: Options of ``Reading``, which state what the file itself does not.

    Raises:
        SoftkinError: There is no such file, it is damaged, or it does not say what it holds.
    """
    return open_as(path, Reading(**options))


def open_as(path: str | Path, reading: Reading) -> PredictionFile:
    """``open_file`` with all options in one ``Reading``."""
    if str(path) == "-":
        name, file = "standard input", _spooled(sys.stdin.buffer)
    else:
        name, file = str(path), files.open_file(path)
    labels = reading.labels
    try:
        form = reading.form
        form = FORMATS.canonical(form, "format") if form else by_suffix(Path(path).suffix) or _recognised(file, name)
        with files.reading(name, form):
            opened = FORMATS[form].read(file, name, reading)
        if labels is None and form == "npy":
            labels = _partner(path)
        opened = _named(opened, reading) if reading.positive_class is None else _two_classes(opened, reading)
        if labels is not None:
            opened = _with_labels(opened, label_array(labels))
        if reading.positive_class is not None:
            opened = _binary_labels(opened, reading)
    except BaseException:
        file.close()
        raise
    opened = replace(opened, renormalise=reading.renormalise)
    weakref.finalize(opened, file.close)
    return opened


def _named(source: PredictionFile, reading: Reading) -> PredictionFile:
    """The file with the class names that the caller stated."""
    names, own = reading.names, source.class_names
    if names is None or names == own:
        return source
    numbers = own is not None and all(re.fullmatch(r"[0-9]+", name) for name in own)
    if own is not None and not (numbers and sorted(map(int, own)) == list(range(len(names)))):
        raise SoftkinError(
            f"{source.name} has class names of its own, {', '.join(own[:3])}{' …' if len(own) > 3 else ''}; "
            "leave --class-names out."
        )
    if len(names) != source.num_classes:
        raise SoftkinError(f"{source.name} has {source.num_classes} classes, and --class-names names {len(names)}.")
    if own is None:
        return replace(source, class_names=names)
    order = sorted(range(len(own)), key=lambda j: int(own[j]))  # the columns in the order of their numbers

    def blocks(rows: int) -> Iterator[Block]:
        for block in source.blocks_of(rows):
            yield replace(block, values=block.values[:, order])

    return replace(source, class_names=names, columns_named=False, blocks_of=blocks)


def _two_classes(source: PredictionFile, reading: Reading) -> PredictionFile:
    """The file with a binary model's scores expanded to one column for each of the two classes."""
    names, place = reading_options.binary_names(reading)
    if source.num_classes != 1:
        raise SoftkinError(
            f"{source.name} has {source.num_classes} scores for each sample; --positive-class is for files with one."
        )

    def blocks(rows: int) -> Iterator[Block]:
        for block in source.blocks_of(rows):
            values = block.values if block.values.is_floating_point() else block.values.double()
            yield replace(block, values=reading_options.two_columns(values, source.kind, place))

    return replace(source, num_classes=2, class_names=names, blocks_of=blocks, columns_named=False)


def _binary_labels(source: PredictionFile, reading: Reading) -> PredictionFile:
    names, place = reading_options.binary_names(reading)

    def blocks(rows: int) -> Iterator[Block]:
        numbers = BinaryLabels(names, place, source.name)
        for block in source.blocks_of(rows):
            yield block if block.labels is None else replace(block, labels=numbers(block.labels))

    return replace(source, blocks_of=blocks)


def _partner(path: str | Path) -> Path:
    from softkin.predictions import arrays

    return arrays.partner(Path(path))


def label_array(path: str | Path) -> Any:
    """The labels alone, from an .npy file, a text file with one label per line, or any file with ``labels``."""
    from softkin.predictions import arrays

    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".npy":
        labels = arrays.whole_array(files.open_file(path), str(path))
    elif suffix == ".npz":
        labels = arrays.array_in(files.open_file(path), str(path), LABELS)
    elif suffix == ".txt":
        with files.reading(path, "text with one label per line"):
            text = files.read_bytes(path, "labels").decode("utf-8-sig")
        return [line.strip() for line in text.splitlines() if line.strip()]
    else:
        raise SoftkinError(f"{path} must hold labels as .npy, .npz or as .txt with one per line.")
    if labels.ndim != 1:
        raise SoftkinError(f"{path} must hold labels of shape (N,), one for each row, got {labels.shape}.")
    return labels


def _with_labels(source: PredictionFile, labels: Any) -> PredictionFile:
    """The file with labels from another source."""
    if source.num_rows is not None and source.num_rows != len(labels):
        raise SoftkinError(
            f"{source.name} has {source.num_rows:,} rows, and there are {len(labels):,} labels for them."
        )

    def blocks(rows: int) -> Iterator[Block]:
        start = 0
        for block in source.blocks_of(rows):
            end = start + len(block.values)
            if start == 0 and block.labels is not None:
                warnings.warn(f"{source.name} holds labels of its own; the given ones are taken instead.", stacklevel=2)
            yield replace(block, labels=labels[start:end])
            start = end
        if start != len(labels):
            raise SoftkinError(f"{source.name} has {start:,} rows, and there are {len(labels):,} labels for them.")

    return replace(source, blocks_of=blocks)


def from_trainer(output: Any, *, kind: ScoreKind, class_names: Sequence[str] | None = None) -> Predictions:
    """Predictions from the output of Hugging Face's ``Trainer.predict``, which does not say what its numbers are.

    Args:
        output: An object with ``predictions`` and ``label_ids``; if ``predictions`` is a tuple, its first item is used.
        kind: "logits" unless the model or ``preprocess_logits_for_metrics`` converts them to probabilities.
        class_names: The names of the classes, in the order of the labels.
    """
    checks.option(kind, "kind", tuple(NAMES))
    values = output.predictions[0] if isinstance(output.predictions, tuple) else output.predictions
    names = None if class_names is None else list(class_names)
    if kind == "probs":
        return Predictions.from_probabilities(values, output.label_ids, class_names=names)
    labels = None if output.label_ids is None else checks.as_tensor(output.label_ids, "labels")
    return Predictions(checks.as_tensor(values, "predictions"), labels, class_names=names)


def choose(present: Sequence[str], others: Iterable[str], kind: ScoreKind | None, name: str) -> tuple[str, ScoreKind]:
    """The part that holds the scores and the kind of scores, from the part's name or the caller's statement.

    Args:
        present: The names of all parts.
        others: The names of parts that could hold scores although their names do not say so.
        kind: The kind that the caller states.
        name: The file's name, for the error.
    """
    clear: list[tuple[str, ScoreKind]] = [
        (part, said) for said, names in NAMES.items() for part in present if part.lower() in names
    ]
    if kind is not None:
        clear = [(part, said) for part, said in clear if said == kind] or clear
    if len(clear) == 1:
        part, said = clear[0]
        if kind not in (None, said):
            raise SoftkinError(f"{name} is said to hold {kind} (--{kind}), but the name of its `{part}` says {said}.")
        return part, said
    if clear:
        held = " and ".join(f"`{part}`" for part, _ in clear)
        raise SoftkinError(f"{name} holds {held}; type --logits or --probs to say which to take.")
    unclear = list(others)
    if len(unclear) == 1 and kind is not None:
        return unclear[0], kind
    if len(unclear) == 1:
        raise unknown_kind(name, f"its `{unclear[0]}`")
    held = ", ".join(present) or "nothing"
    raise SoftkinError(f"{name} must hold `logits` or `probs`, it holds {held}.")


def unknown_kind(name: str, what: str) -> SoftkinError:
    """The error that shows the two options to type."""
    return SoftkinError(
        f"{name} does not say whether {what} are logits or probabilities, and that is never guessed; "
        "type --logits (any real numbers, before softmax) or --probs (rows that sum to 1)."
    )


def kind_in_words(text: str) -> ScoreKind | None:
    """The kind of scores that a file's or column's name states by one of the words ``logits``, ``probs`` and so on."""
    words = set(re.split(r"[^a-z]+", text.lower()))
    said: list[ScoreKind] = [kind for kind, names in NAMES.items() if words & set(names)]
    return said[0] if len(said) == 1 else None


def kind_of_array(name: str, reading: Reading) -> ScoreKind:
    """The kind of scores in a file that holds numbers alone, from its name or the caller's statement."""
    said = kind_in_words(Path(name).stem)
    if reading.kind is not None and said not in (None, reading.kind):
        raise SoftkinError(f"{name} is said to hold {reading.kind} (--{reading.kind}), but its name says {said}.")
    kind = reading.kind or said
    if kind is None:
        raise unknown_kind(name, "its numbers")
    return kind


def _spooled(stream: IO[bytes]) -> IO[bytes]:
    """A seekable copy of a stream, as most formats need; it is on disk if it is large."""
    file = tempfile.SpooledTemporaryFile(max_size=2**26)  # noqa: SIM115  closed when the predictions are forgotten
    try:
        with files.reading("standard input", "predictions"):
            while chunk := stream.read(2**20):
                file.write(chunk)
                files.within("bytes", file.tell(), "standard input")
        if file.tell() == 0:
            raise SoftkinError("standard input must hold predictions, it is empty.")
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file


def _recognised(file: IO[bytes], name: str) -> str:
    """The format, recognised by the signature at the beginning of the file."""
    start = file.read(4096)
    file.seek(0)
    for form, format_ in FORMATS.items():
        if format_.signature is not None and start.startswith(format_.signature):
            return form
    if start[8:9] == b"{":
        return "safetensors"
    with suppress(UnicodeDecodeError):
        head = start.decode("utf-8-sig", "ignore" if len(start) == 4096 else "strict")
        line = head.partition("\n")[0]
        if line.lstrip().startswith("{"):
            return "jsonl"
        if head.lstrip().startswith("["):
            return "json"
        if "\t" in line:
            return "tsv"
        if "," in line or ";" in line:
            return "csv"
    raise SoftkinError(f"{name} has no known format; those are {', '.join(FORMATS)}.")
