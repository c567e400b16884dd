"""Predictions from the files that people have: what is in them by its name, block by block.

Whether numbers are logits or probabilities is stated by the caller or clear from a name (``logits``, ``probs``), and
never guessed from the values. Every form is read in blocks of rows, so that a file larger than memory can be measured.
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
from typing import IO, Any, Literal

import numpy as np
import torch
from torch import Tensor

from softkin import SoftkinError, checks, files
from softkin.predictions.predictions import Predictions
from softkin.predictions.registry import FORMATS, by_suffix
from softkin.progress import track

ScoreKind = Literal["logits", "probs"]

NAMES: dict[ScoreKind, tuple[str, ...]] = {
    "logits": ("logits", "logit"),
    "probs": ("probs", "prob", "probabilities", "probability", "proba"),
}
LABELS = ("labels", "label", "label_ids", "targets", "target", "y_true")
IDS = ("sample_ids", "sample_id", "ids", "id")
NOTES = ("split_digest", "calibration")
BLOCK = 2**21  # scores in a block: 16 MB in float64


@dataclass(frozen=True)
class Block:
    """Some rows of a file, in its order."""

    values: Tensor
    """(n, K)"""
    labels: Any = None
    """(n,) numbers or class names"""
    ids: Any = None


@dataclass(frozen=True)
class PredictionFile:
    """An opened file: what is known of it before its numbers are read, and the numbers in blocks."""

    name: str
    kind: ScoreKind
    num_classes: int
    num_rows: int | None
    """None where only reading to the end would tell"""
    blocks_of: Callable[[int], Iterator[Block]]
    class_names: list[str] | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    """What softkin wrote beside the numbers"""
    title: str | None = None
    """What whoever wrote the file called the samples"""
    columns_named: bool = False
    """Whether every score came with its class's name, so that labels mean those names, also where they are numbers"""

    def __post_init__(self) -> None:
        files.within("classes", self.num_classes, self.name)
        try:
            if self.class_names is not None:
                checks.class_names(self.class_names, num_classes=self.num_classes)
        except (TypeError, ValueError) as error:
            raise SoftkinError(f"{self.name}: {error}") from error

    def blocks(self, *, progress: bool | None = None) -> Iterator[Block]:
        """All rows, a block at a time, labels as numbers; with a bar where that takes long."""
        rows = max(1, BLOCK // self.num_classes)
        total = None if self.num_rows is None else -(-self.num_rows // rows)
        start = 0
        with files.reading(self.name, "predictions"):
            for block in track(self.blocks_of(rows), f"reading {self.name}", total=total, show=progress):
                labels = None if block.labels is None else self._numbers(block.labels, start)
                start += len(block.values)
                yield Block(block.values, labels, block.ids)

    def _numbers(self, labels: Any, start: int) -> Tensor:
        """Labels as class numbers; texts are class names, or numbers as text.

        Columns ``probs_1``, ``probs_10``, ``probs_2`` are in no order of numbers: the label 2 is the third of them.
        """
        if isinstance(labels, Tensor):
            return labels
        names = self.class_names or []
        whole = {int(name): k for k, name in enumerate(names) if re.fullmatch(r"[0-9]+", name)}
        array = np.asarray(labels)
        if array.dtype.kind == "O" and all(isinstance(label, int) and not isinstance(label, bool) for label in labels):
            array = array.astype(np.int64)
        if array.dtype.kind == "f" and bool((array == np.floor(array)).all()):
            array = array.astype(np.int64)  # whole numbers that went through a table with gaps
        if array.dtype.kind in "iu":
            if not (whole and self.columns_named):
                return checks.as_tensor(array, "labels")
            array = array.astype(str)
        if array.dtype.kind not in "USO" or not all(isinstance(label, str) for label in array.tolist()):
            raise SoftkinError(f"{self.name}: labels must be class numbers or class names, got {array[:1].tolist()}.")
        place = {name: k for k, name in enumerate(names)}
        numbers = []
        for row, text in enumerate(array.tolist(), start=start):
            k = place.get(text)
            if k is None and re.fullmatch(r"\d+(\.0*)?", text.strip()):
                number = int(text.strip().partition(".")[0])
                k = whole.get(number) if whole else number
            if k is None:
                known = f"one of the classes {', '.join(list(place)[:5])} …" if place else "a number"
                known = f"a number or {known}" if place and not whole else known
                raise SoftkinError(f"{self.name}, row {row}: the label must be {known}, got {text!r}.")
            numbers.append(k)
        return torch.tensor(numbers, dtype=torch.int64)

    def read(self, *, progress: bool | None = None) -> Predictions:
        """All of it at once."""
        return assemble(self, list(self.blocks(progress=progress)))


def assemble(source: PredictionFile, blocks: Sequence[Block]) -> Predictions:
    """Predictions of the blocks of a source."""
    if not blocks:
        raise SoftkinError(f"{source.name} must hold at least one row, it holds none.")
    values = torch.cat([block.values for block in blocks])
    labels = None if blocks[0].labels is None else torch.cat([block.labels for block in blocks])
    ids: Any = None
    if blocks[0].ids is not None:
        ids = [known_as for block in blocks for known_as in np.asarray(block.ids).tolist()]
    about = {
        "class_names": source.class_names,
        "sample_ids": ids,
        "name": source.name,
        "split_digest": source.notes.get("split_digest"),
    }
    try:
        if source.kind == "probs":
            return Predictions.from_probabilities(values, labels, **about)
        return Predictions(values, labels, **about)
    except (TypeError, ValueError) as error:
        raise SoftkinError(f"{source.name}: {error}") from error


def read(
    path: str | Path,
    *,
    kind: ScoreKind | None = None,
    labels: str | Path | None = None,
    form: str | None = None,
    progress: bool | None = None,
) -> Predictions:
    """Predictions from a file of any known format; arguments as for ``open_file``."""
    return open_file(path, kind=kind, labels=labels, form=form).read(progress=progress)


def load(path: str | Path) -> Predictions:
    """Read a file of predictions that says itself what it holds, as those that ``Predictions.save`` writes do.

    Raises:
        SoftkinError: There is no such file, it is damaged, or it does not say what it holds.
    """
    file = open_file(path)
    return replace(file.read(progress=False), name=file.title)


def open_file(
    path: str | Path, *, kind: ScoreKind | None = None, labels: str | Path | None = None, form: str | None = None
) -> PredictionFile:
    """Open a file of predictions.

    - .npz, .safetensors: arrays ``logits`` or ``probs`` (N, K), ``labels`` (N,), perhaps ``class_names`` and
      ``sample_ids``
    - .npy: one array (N, K) whose file name says ``logits`` or ``probs``; its labels in a file whose name says
      ``labels`` instead
    - .parquet, .csv, .tsv: one column for each class, named after it, perhaps as ``probs_cat``, and a column ``labels``
      of class numbers or names; a parquet file may instead have a column of lists named ``logits`` or ``probs``
    - .jsonl: objects with ``logits`` or ``probs``, a list or a mapping from class names, and ``label``
    - what is saved of Hugging Face's ``Trainer.predict``, ``predictions`` and ``label_ids``, in any of these

    Args:
        path: The file, or "-" for standard input.
        kind: "logits" or "probs", where no name says it.
        labels: A file that holds the labels, where the first does not.
        form: Which of the forms, where the file's name does not end in it.

    Raises:
        SoftkinError: There is no such file, it is damaged, or it does not say what it holds.
    """
    if kind is not None:
        checks.option(kind, "kind", tuple(NAMES))
    if str(path) == "-":
        name, file = "standard input", _spooled(sys.stdin.buffer)
    else:
        name, file = str(path), files.open_file(path)
    try:
        form = FORMATS.canonical(form, "format") if form else by_suffix(Path(path).suffix) or _recognised(file, name)
        with files.reading(name, form):
            opened = FORMATS[form].read(file, name, kind)
        if labels is None and form == "npy":
            labels = _partner(path)
    except BaseException:
        file.close()
        raise
    weakref.finalize(opened, file.close)
    return opened if labels is None else _with_labels(opened, label_array(labels))


def _partner(path: str | Path) -> Path:
    from softkin.predictions import arrays

    return arrays.partner(Path(path))


def label_array(path: str | Path) -> Any:
    """The labels alone, of an .npy file, a text file with one a line, or whatever holds ``labels``."""
    from softkin.predictions import arrays

    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".npy":
        labels = arrays.whole_array(files.open_file(path), str(path))
    elif suffix == ".npz":
        labels = arrays.array_in(files.open_file(path), str(path), LABELS)
    elif suffix == ".txt":
        with files.reading(path, "text with one label a line"):
            text = files.read_bytes(path, "labels").decode("utf-8-sig")
        return [line.strip() for line in text.splitlines() if line.strip()]
    else:
        raise SoftkinError(f"{path} must hold labels as .npy, .npz or as .txt with one a line.")
    if labels.ndim != 1:
        raise SoftkinError(f"{path} must hold labels of shape (N,), one for each row, got {labels.shape}.")
    return labels


def _with_labels(source: PredictionFile, labels: Any) -> PredictionFile:
    """The file with labels from elsewhere."""
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
            yield Block(block.values, labels[start:end], block.ids)
            start = end
        if start != len(labels):
            raise SoftkinError(f"{source.name} has {start:,} rows, and there are {len(labels):,} labels for them.")

    return replace(source, blocks_of=blocks)


def from_trainer(output: Any, *, kind: ScoreKind, class_names: Sequence[str] | None = None) -> Predictions:
    """Predictions from what Hugging Face's ``Trainer.predict`` returns, which does not say what its numbers are.

    Args:
        output: An object with ``predictions`` and ``label_ids``; of a tuple of predictions the first counts.
        kind: "logits" unless the model or ``preprocess_logits_for_metrics`` makes probabilities of them.
        class_names: In the order of the labels.
    """
    checks.option(kind, "kind", tuple(NAMES))
    values = output.predictions[0] if isinstance(output.predictions, tuple) else output.predictions
    names = None if class_names is None else list(class_names)
    if kind == "probs":
        return Predictions.from_probabilities(values, output.label_ids, class_names=names)
    labels = None if output.label_ids is None else checks.as_tensor(output.label_ids, "labels")
    return Predictions(checks.as_tensor(values, "predictions"), labels, class_names=names)


def choose(present: Sequence[str], others: Iterable[str], kind: ScoreKind | None, name: str) -> tuple[str, ScoreKind]:
    """(the part that holds the scores, what they are), by its name or by what the caller states.

    Args:
        present: All parts' names.
        others: Those among them that could hold scores though their names say nothing.
        kind: What the caller states.
        name: The file's, for the error.
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
    """What a file's or a column's name says: one of the words ``logits``, ``probs`` … in it."""
    words = set(re.split(r"[^a-z]+", text.lower()))
    said: list[ScoreKind] = [kind for kind, names in NAMES.items() if words & set(names)]
    return said[0] if len(said) == 1 else None


def named(present: Iterable[str], wanted: Sequence[str]) -> str | None:
    """The part with one of the wanted names, the first wanted first."""
    by_name = {part.lower(): part for part in present}
    return next((by_name[name] for name in wanted if name in by_name), None)


def _spooled(stream: IO[bytes]) -> IO[bytes]:
    """A stream as a file that can be searched, which most formats need; on disk if it is large."""
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
    """The format by how a file begins: that is a matter of signatures, not of guessing."""
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
        if "\t" in line:
            return "tsv"
        if "," in line:
            return "csv"
    raise SoftkinError(f"{name} is of no known format; those are {', '.join(FORMATS)}.")
