"""Predictions in arrays: .npz, .npy pairs, safetensors. Read in order, never unpickled, a block of rows at a time."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from numpy.typing import NDArray

from softkin import SoftkinError, checks, tensor_files
from softkin.array_files import Archive, ArrayStream, size_of
from softkin.predictions import formats
from softkin.predictions.formats import Block, PredictionFile, ScoreKind

TEXTS = ("class_names", *formats.NOTES, "name")


def open_npz(file: IO[bytes], name: str, kind: ScoreKind | None) -> PredictionFile:
    """An .npz archive, compressed or not."""
    archive = Archive(file, name)
    keys = archive.keys
    shapes = {key: archive.array(key).shape for key in keys}
    labels, ids = formats.named(keys, formats.LABELS), formats.named(keys, formats.IDS)
    others = [key for key in keys if key not in (labels, ids, *TEXTS) and len(shapes[key]) > 1]
    part, kind = formats.choose(keys, others, kind, name)
    num_rows, num_classes = _dimensions(shapes, (labels, ids), part, name)
    texts = {key: archive.text(key) for key in TEXTS if key in keys}

    def blocks(rows: int) -> Iterator[Block]:
        streams = [None if key is None else archive.array(key) for key in (part, labels, ids)]
        for start in range(0, num_rows, rows):
            count = min(rows, num_rows - start)
            values, own_labels, own_ids = (None if stream is None else stream.take(count) for stream in streams)
            yield Block(_tensor(values, part, name), own_labels, own_ids)

    return PredictionFile(
        name, kind, num_classes, num_rows, blocks, texts.get("class_names"), _notes(texts), texts.get("name")
    )


def open_npy(file: IO[bytes], name: str, kind: ScoreKind | None) -> PredictionFile:
    """An .npy file, whose own name is all that says what it holds."""
    size = size_of(file)
    shape = ArrayStream(file, size, name).shape
    said = formats.kind_in_words(Path(name).stem)
    if kind is not None and said not in (None, kind):
        raise SoftkinError(f"{name} is said to hold {kind} (--{kind}), but its name says {said}.")
    kind = kind or said
    if kind is None:
        raise formats.unknown_kind(name, "its numbers")
    num_rows, num_classes = _dimensions({"the array": shape}, (), "the array", name)

    def blocks(rows: int) -> Iterator[Block]:
        file.seek(0)
        stream = ArrayStream(file, size, name)
        for start in range(0, num_rows, rows):
            yield Block(_tensor(stream.take(min(rows, num_rows - start)), "the array", name))

    return PredictionFile(name, kind, num_classes, num_rows, blocks)


def open_safetensors(file: IO[bytes], name: str, kind: ScoreKind | None) -> PredictionFile:
    """A safetensors file; texts are in its metadata."""
    on_disk = _on_disk(file)
    opened = tensor_files.TensorFile(on_disk.name, "safetensors", name=name)
    keys, texts = list(opened.shapes), opened.texts
    labels, ids = formats.named(keys, formats.LABELS), formats.named(keys, formats.IDS)
    others = [key for key in keys if key not in (labels, ids) and len(opened.shapes[key]) > 1]
    part, kind = formats.choose(keys, others, kind, name)
    num_rows, num_classes = _dimensions(opened.shapes, (labels, ids), part, name)
    named_samples = texts.get("sample_ids")
    if named_samples is not None and (not isinstance(named_samples, list) or len(named_samples) != num_rows):
        raise SoftkinError(f"{name}: `sample_ids` must be a list of {num_rows} names, one for each row of `{part}`.")

    def blocks(rows: int) -> Iterator[Block]:
        assert on_disk is not None  # a temporary file lives as long as it is named
        streams = [None if key is None else opened.rows(key, rows) for key in (part, labels, ids)]
        for start in range(0, num_rows, rows):
            values, own_labels, own_ids = (None if stream is None else next(stream) for stream in streams)
            names = None if named_samples is None else named_samples[start : start + rows]
            yield Block(_tensor(values, part, name), own_labels, names if own_ids is None else own_ids)

    return PredictionFile(
        name, kind, num_classes, num_rows, blocks, texts.get("class_names"), _notes(texts), texts.get("name")
    )


def partner(path: Path) -> Path:
    """The .npy file of labels that belongs to one of scores: of that name with another word, or just ``labels.npy``."""
    words = "|".join(("predictions", *(name for names in formats.NAMES.values() for name in names)))
    tried = [path.with_name(re.sub(words, word, path.name, count=1)) for word in ("labels", "label_ids", "targets")] + [
        path.with_name(name) for name in ("labels.npy", "label_ids.npy")
    ]
    there = next((candidate for candidate in tried if candidate != path and candidate.is_file()), None)
    if there is None:
        looked = ", ".join(dict.fromkeys(candidate.name for candidate in tried if candidate != path))
        raise SoftkinError(
            f"{path} needs its labels, and beside it there is none of {looked}; name them with --labels."
        )
    return there


def whole_array(file: IO[bytes], name: str) -> NDArray[Any]:
    """The whole of an .npy file."""
    with file:
        return ArrayStream(file, size_of(file), name).all()


def array_in(file: IO[bytes], name: str, wanted: tuple[str, ...]) -> NDArray[Any]:
    """The array of an .npz file that has one of the wanted names."""
    with file:
        archive = Archive(file, name)
        key = formats.named(archive.keys, wanted)
        if key is None:
            raise SoftkinError(f"{name} must hold `{wanted[0]}`, it holds {', '.join(archive.keys) or 'nothing'}.")
        return archive.array(key).all()


def _on_disk(file: IO[bytes]) -> Any:
    """Something with a ``name`` that can be opened: the file itself, or a temporary copy of a stream."""
    if isinstance(getattr(file, "name", None), str):
        return file
    copy = tempfile.NamedTemporaryFile(suffix=".safetensors")  # noqa: SIM115  gone with the file of predictions
    shutil.copyfileobj(file, copy, 2**20)
    copy.flush()
    return copy


def _dimensions(
    shapes: dict[str, tuple[int, ...]], beside: tuple[str | None, ...], part: str, name: str
) -> tuple[int, int]:
    """(rows, classes) of the scores; labels and ids ``beside`` them must be one for each row."""
    shape = shapes[part]
    if len(shape) != 2:
        raise SoftkinError(f"{name}: {part} must have shape (N, K), a row for each sample, got {shape}.")
    if 0 in shape:
        raise SoftkinError(f"{name}: {part} must hold at least one row and class, got {shape}.")
    for key in beside:
        if key is not None and shapes[key] != (shape[0],):
            raise SoftkinError(
                f"{name}: `{key}` must have shape ({shape[0]},), one for each row of `{part}`, got {shapes[key]}."
            )
    return shape[0], shape[1]


def _tensor(values: Any, part: str, name: str) -> Any:
    try:
        return checks.as_tensor(values, part)
    except (TypeError, ValueError) as error:
        raise SoftkinError(f"{name}: {error}") from error


def _notes(texts: dict[str, Any]) -> dict[str, Any]:
    return {key: texts[key] for key in formats.NOTES if key in texts}
