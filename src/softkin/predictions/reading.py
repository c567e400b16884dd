"""Predictions from files of many formats: the parts of a file are found by name and read in blocks.

Every format is read in blocks of rows, so that files may be larger than memory. What a file does not say and the caller
does not state is inferred where it is obvious (``inference``).
"""

import re
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from softkin import SoftkinError
from softkin._core import checks
from softkin._io import files, roles
from softkin._io import tables as table_files
from softkin._io.arrow import table_of
from softkin._io.roles import ScoreKind
from softkin.predictions import arrays, formats, inference, label_files, score_tables, two_classes, unlabelled
from softkin.predictions.blocks import Block, PredictionFile
from softkin.predictions.container import Predictions
from softkin.predictions.request import Reading

FIRST = 1000  # rows from which the kind of scores is inferred


def read(path: str | Path, *, progress: bool | None = None, **options: Any) -> Predictions:
    """Read predictions from one file of any known format; ``options`` as for ``open_file``."""
    return read_all(open_file(path, **options), progress=progress)


def read_all(file: PredictionFile, *, progress: bool | None = None) -> Predictions:
    """All predictions of an opened file, after a line for each thing that was assumed about it."""
    inference.say(file.assumed, stacklevel=4)
    return file.read(progress=progress)


def open_file(path: str | Path, **options: Any) -> PredictionFile:
    """Open a file of predictions.

    - .npz, .safetensors: arrays ``logits`` or ``probs`` (N, K), ``labels`` (N,), perhaps ``class_names``,
      ``sample_ids`` and ``texts``
    - .npy: one array (N, K) whose file name says ``logits`` or ``probs``; its labels in a file whose name says
      ``labels`` instead
    - .pt, .pth: tensors of the same names, or one tensor as for .npy; nothing else in them is unpickled
    - tables (.parquet, .csv, .tsv, .xlsx, .feather …): one column for each class, named after it, perhaps as
      ``probs_cat``, and a column ``labels`` of class numbers or names; a parquet file may instead have a column of
      lists named ``logits`` or ``probs``. A column ``text`` holds the samples' texts. Other columns are left out
    - .jsonl, .json: objects with ``logits`` or ``probs``, a list or a mapping from class names, and ``label``; or with
      ``top_logprobs``, the k likeliest answers of a language model. A .json may also be an object of lists, or an array
      (N, K) whose file name says ``logits`` or ``probs``
    - the saved output of Hugging Face's ``Trainer.predict``, ``predictions`` and ``label_ids``, in any of these formats

    Args:
        path: The file, which may be packed by gzip (.csv.gz), or "-" for standard input.
        options: Options of ``Reading``, which state what the file itself does not.

    Raises:
        SoftkinError: There is no such file, it is damaged, or it does not say what it holds.
    """
    return open_as(path, Reading(**options))


def open_as(path: str | Path, reading: Reading) -> PredictionFile:
    """``open_file`` with all options in one ``Reading``."""
    file, name = table_files.open_stream(path, "predictions")
    labels, beside = reading.labels, replace(reading, label_column=None)
    try:
        if (
            labels is not None
            and reading.label_column is not None
            and label_files.has_column(labels, reading.label_column)
        ):
            beside, reading = reading, beside  # the option names the column there
        form = formats.form_of(path, reading.form, file, name)
        with files.reading(name, form):
            if form in formats.FORMATS:
                opened = formats.FORMATS[form].read(file, name, reading)
            else:
                opened = score_tables.from_table(table_files.opened_as(form, file, name), reading)
        if labels is None and form in ("npy", "pt") and opened.is_alone:
            labels = arrays.partner(Path(path))
        opened = _completed(opened, reading, None if labels is None else label_files.read(labels, opened, beside))
    except BaseException:
        file.close()
        raise
    weakref.finalize(opened, file.close)
    return opened


def _completed(opened: PredictionFile, reading: Reading, labels: label_files.LabelFile | None) -> PredictionFile:
    """The file with what its numbers and the caller's options say: kind, names, two classes, labels from elsewhere."""
    opened = replace(opened, renormalise=reading.renormalise)
    if labels is not None:
        opened = label_files.beside(opened, labels)
    opened = unlabelled.of_labelled(opened, keep=reading.keep_unlabelled)
    return _of_classes(_of_known_kind(opened, reading.kind), reading)


def from_table(table: table_files.Table) -> PredictionFile:
    """The predictions in an opened table about which the caller states nothing."""
    return _completed(score_tables.from_table(table, Reading()), Reading(), None)


def from_dataframe(frame: Any, labels: Any = None, **options: Any) -> Predictions:
    """Predictions from a data frame of pandas, polars or pyarrow, read as a file with these columns would be.

    Args:
        frame: A column for each class, or one of a binary model's scores, and one of labels; other columns are left
            out, and a note says so.
        labels: (N,) labels, if the frame holds none.
        options: Options of ``Reading``: ``label_column``, ``class_columns``, ``kind``, ``positive_class`` …

    Example:
        >>> import pyarrow
        >>> frame = pyarrow.table({"probs_cat": [0.9, 0.2], "probs_dog": [0.1, 0.8], "label": ["cat", "dog"]})
        >>> from_dataframe(frame)
        Predictions(2 samples, 2 classes)
    """
    reading = Reading(**options)
    opened = score_tables.from_table(table_of(frame), reading)
    given = labels.to_pylist() if hasattr(labels, "to_pylist") else labels  # of pyarrow, whose cells are its own
    opened = _completed(opened, reading, None if given is None else label_files.LabelFile("`labels`", list(given)))
    inference.say(opened.assumed)
    return replace(opened.read(progress=False), name=None)


def _single_percent(source: PredictionFile, values: Tensor, stated: ScoreKind | None) -> PredictionFile | None:
    """The file with its single probabilities, of which some are above 1, divided by 100; None if they are not so.

    Raises:
        SoftkinError: The score is called percent, but its numbers may be shares.
    """
    low, high = (float(end) for end in torch.aminmax(values))
    score = source.score_name or "its score"
    if source.kind == "probs" and low >= 0 and 1 + checks.UNIT_ROUNDING < high <= 100:
        why = f"{source.name}: `{score}` is read as percent, going up to {high:g}."
        return replace(source, blocks_of=_divided_by_100(source), assumed=(*source.assumed, why))
    words = roles.plain(score).split("_")
    if stated is None and low >= 0 and high <= 1 and ("%" in score or {"pct", "percent", "percentage"} & {*words}):
        raise SoftkinError(
            f"{source.name}: `{score}` is called percent, but no number is above {high:g}; type --probs if 0.5 means "
            "50 %, and divide the column by 100 if it means half a percent."
        )
    return None


def _of_known_kind(source: PredictionFile, stated: ScoreKind | None) -> PredictionFile:
    """The file with the kind of scores that its first rows show, unless it is known; percent become shares."""
    is_single = source.num_classes == 1
    if source.kind == "logits" or source.are_pairs:
        return source
    with files.reading(source.name, "predictions"):
        first = next(source.blocks_of(FIRST), None)
    if first is None:
        raise SoftkinError(f"{source.name} must hold at least one row, it holds none.")
    names = source.class_names or []
    what = (
        f"its {len(names)} columns {inference.shown(names)}"
        if source.columns_named and len(names) > 1
        else "its numbers"
    )
    if is_single:
        found = _single_percent(source, first.values.double(), stated)
        if found is not None:
            return found
    are_percent = inference.are_percent if is_single else inference.sum_to_100
    if source.kind is not None and not are_percent(first.values):
        return source
    kind, divide, why = inference.kind_of(first.values, source.name, what)
    if divide and is_single:
        shares = _divided_by_100(source)
        return replace(source, kind=kind, blocks_of=shares, assumed=(*source.assumed, why))
    return replace(source, kind=kind, renormalise=source.renormalise or divide, assumed=(*source.assumed, why))


def _divided_by_100(source: PredictionFile) -> Callable[[int], Iterator[Block]]:
    def blocks(rows: int) -> Iterator[Block]:
        for block in source.blocks_of(rows):
            yield replace(block, values=block.values.double() / 100)

    return blocks


def _of_classes(source: PredictionFile, reading: Reading) -> PredictionFile:
    """The file with its classes: two for a single score, else those that the caller or the labels name."""
    if source.num_classes == 1:
        return two_classes.expanded(source, reading)
    positive = reading.positive_class
    if positive is not None and positive not in (source.class_names or ()):
        raise SoftkinError(
            f"{source.name} has {source.num_classes} scores for each sample; --positive-class is for files with one."
        )
    if reading.names is not None:
        return _named(source, reading.names)
    return _named_by_labels(source)


def _named_by_labels(source: PredictionFile) -> PredictionFile:
    """The file with its labels as class names in alphabetical order, if scores have no names and are as many."""
    own = source.class_names
    if own is not None and _counted(own) is None:
        return source
    with files.reading(source.name, "predictions"):
        first = next(source.blocks_of(FIRST), None)
        if first is None or not _are_words(first.labels):
            return source
        names = sorted({str(label).strip() for block in source.blocks_of(FIRST) for label in block.labels})
    if len(names) != source.num_classes:
        return source
    numbers = _numbers_of(names)
    if numbers is not None and own is not None and sorted(numbers) == sorted(_counted(own) or ()):
        if 0 not in numbers:
            return source  # label Class_1 is the class of column Class_1
        names = [name for _, name in sorted(zip(numbers, names, strict=True))]
    elif numbers is not None and numbers != sorted(numbers):
        raise SoftkinError(
            f"{source.name}: its scores may be in the order of the alphabet, {inference.shown(names)}, as scikit-learn "
            "has them, or in that of the numbers in its labels; name the classes in the order of the scores with "
            "--class-names FILE."
        )
    order = "alphabetical order" if numbers is None else "their order"
    why = f"{source.name}: its scores are taken to be of {inference.shown(names)}, the labels in {order}"
    return replace(_named(source, names), assumed=(*source.assumed, f"{why} (--class-names overrules)."))


def _numbers_of(names: Sequence[str]) -> list[int] | None:
    """The numbers at the end of names that are one word and a number; None if they are not."""
    parts = [re.fullmatch(r"(.*?\D)(\d{1,9})", name) for name in names]
    if not all(parts) or len({part[1] for part in parts if part}) > 1:
        return None
    return [int(part[2]) for part in parts if part]


def _counted(names: Sequence[str]) -> list[int] | None:
    """The numbers of names that only count classes, from 0 or 1: ``0``, ``1``, or ``LABEL_0``, ``LABEL_1``; or None."""
    numbers = [int(name) for name in names] if all(re.fullmatch(r"[0-9]{1,9}", name) for name in names) else None
    numbers = _numbers_of(names) if numbers is None else numbers
    return numbers if numbers and sorted(numbers) in ([*range(len(names))], [*range(1, len(names) + 1)]) else None


def _are_words(labels: Any) -> bool:
    """Whether labels are texts that are no numbers."""
    listed = labels.tolist() if hasattr(labels, "tolist") else labels
    return bool(listed) and all(isinstance(label, str) and not checks.is_number(label) for label in listed)


def _named(source: PredictionFile, names: list[str]) -> PredictionFile:
    """The file with the class names that the caller stated."""
    own = source.class_names
    if names == own:
        return source
    numbers = None if own is None else _counted(own)
    if own is not None and numbers is None:
        raise SoftkinError(
            f"{source.name} has class names of its own, {', '.join(own[:3])}{' …' if len(own) > 3 else ''}; "
            "leave --class-names out."
        )
    if len(names) != source.num_classes:
        raise SoftkinError(f"{source.name} has {source.num_classes} classes, and --class-names names {len(names)}.")
    if own is None:
        return replace(source, class_names=names)
    order = sorted(range(len(own)), key=(numbers or []).__getitem__)  # the columns in the order of their numbers

    def blocks(rows: int) -> Iterator[Block]:
        for block in source.blocks_of(rows):
            yield replace(block, values=block.values[:, order])

    return replace(source, class_names=names, columns_named=False, blocks_of=blocks)


def from_trainer(output: Any, *, kind: ScoreKind, class_names: Sequence[str] | None = None) -> Predictions:
    """Predictions from the output of Hugging Face's ``Trainer.predict``, which does not say what its numbers are.

    Args:
        output: An object with ``predictions`` and ``label_ids``; if ``predictions`` is a tuple, its first item is used.
        kind: "logits" unless the model or ``preprocess_logits_for_metrics`` converts them to probabilities.
        class_names: The names of the classes, in the order of the labels.
    """
    checks.option(kind, "kind", tuple(roles.KINDS))
    values = output.predictions[0] if isinstance(output.predictions, tuple) else output.predictions
    names = None if class_names is None else list(class_names)
    if kind == "probs":
        return Predictions.from_probabilities(values, output.label_ids, class_names=names)
    labels = None if output.label_ids is None else checks.as_tensor(output.label_ids, "labels")
    return Predictions(checks.as_tensor(values, "predictions"), labels, class_names=names)
