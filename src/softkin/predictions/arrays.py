"""Predictions in .npz files, .npy pairs and safetensors, read in blocks of rows and never unpickled."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from numpy.typing import NDArray

from softkin import SoftkinError
from softkin._core import checks
from softkin._io import bundles, files
from softkin._io.arrays import Archive, ArrayStream, size_of
from softkin.predictions import formats
from softkin.predictions.formats import Block, PredictionFile, Reading

ABOUT = ("class_names", *formats.NOTES, "name")


def open_npz(file: IO[bytes], name: str, reading: Reading) -> PredictionFile:
    """An .npz archive, compressed or not."""
    archive = Archive(file, name)
    keys = archive.keys
    shapes = {key: archive.array(key).shape for key in keys}
    labels, ids = reading.label_part(keys, name), formats.named(keys, formats.IDS)
    written = "texts_json" if "texts_json" in keys and reading.text_column is None else None
    textual = [key for key in keys if archive.array(key).dtype.kind in "US"]
    texts = written or reading.text_part(textual, name)
    least = 2 if reading.positive_class is None else 1
    beside = (labels, ids, texts, *ABOUT, *formats.SPREAD)
    others = [key for key in keys if key not in beside and len(shapes[key]) >= least]
    part, kind = formats.choose(keys, others, reading.kind, name)
    num_rows, num_classes = _dimensions(shapes, (labels, ids, None if written else texts), part, name, reading)
    spread = _spread(shapes, num_rows, num_classes, name)
    about = {key: archive.text(key) for key in ABOUT if key in keys}

    def blocks(rows: int) -> Iterator[Block]:
        streams = [None if key is None else archive.array(key) for key in (part, labels, ids, *spread)]
        own_texts = None if texts is None else _texts(archive, texts, num_rows, name)
        for start in range(0, num_rows, rows):
            count = min(rows, num_rows - start)
            values, own_labels, own_ids, *rest = (None if stream is None else stream.take(count) for stream in streams)
            chunk = None if own_texts is None else own_texts[start : start + count]
            yield Block(_tensor(values, part, name, reading), own_labels, own_ids, chunk, *rest)

    return PredictionFile(
        name, kind, num_classes, num_rows, blocks, about.get("class_names"), _notes(about), about.get("name")
    )


def _texts(archive: Archive, key: str, num_rows: int, name: str) -> list[str]:
    """The samples' texts, from an array of text or from the UTF-8 bytes of a JSON list, which softkin writes."""
    stream = archive.array(key)
    if key == "texts_json":
        content = files.parse_json(stream.all().tobytes(), f"{name}: `{key}`", "JSON")
    else:
        content = archive.text(key)
    if not isinstance(content, list) or len(content) != num_rows or not all(isinstance(text, str) for text in content):
        raise SoftkinError(f"{name}: `{key}` must hold {num_rows} texts, one for each row.")
    return content


def open_npy(file: IO[bytes], name: str, reading: Reading) -> PredictionFile:
    """An .npy file, whose name alone says what it holds."""
    size = size_of(file)
    shape = ArrayStream(file, size, name).shape
    kind = formats.kind_of_array(name, reading)
    num_rows, num_classes = _dimensions({"the array": shape}, (), "the array", name, reading)

    def blocks(rows: int) -> Iterator[Block]:
        file.seek(0)
        stream = ArrayStream(file, size, name)
        for start in range(0, num_rows, rows):
            yield Block(_tensor(stream.take(min(rows, num_rows - start)), "the array", name, reading))

    return PredictionFile(name, kind, num_classes, num_rows, blocks)


def open_safetensors(file: IO[bytes], name: str, reading: Reading) -> PredictionFile:
    """A safetensors file, with texts in its metadata."""
    on_disk = _on_disk(file)
    opened = bundles.Bundle(on_disk.name, "safetensors", name=name)
    keys, about = list(opened.shapes), opened.about
    labels, ids = reading.label_part(keys, name), formats.named(keys, formats.IDS)
    least = 2 if reading.positive_class is None else 1
    others = [key for key in keys if key not in (labels, ids, *formats.SPREAD) and len(opened.shapes[key]) >= least]
    part, kind = formats.choose(keys, others, reading.kind, name)
    num_rows, num_classes = _dimensions(opened.shapes, (labels, ids), part, name, reading)
    spread = _spread(opened.shapes, num_rows, num_classes, name)
    named_samples, texts = about.get("sample_ids"), about.get("texts")
    for key, beside in (("sample_ids", named_samples), ("texts", texts)):
        if beside is not None and (not isinstance(beside, list) or len(beside) != num_rows):
            raise SoftkinError(f"{name}: `{key}` must be a list of {num_rows} texts, one for each row of `{part}`.")

    def blocks(rows: int) -> Iterator[Block]:
        assert on_disk is not None  # a temporary file is deleted when its object is
        streams = [None if key is None else opened.rows(key, rows) for key in (part, labels, ids, *spread)]
        for start in range(0, num_rows, rows):
            values, own_labels, own_ids, *rest = (None if stream is None else next(stream) for stream in streams)
            names, chunk = (
                None if beside is None else beside[start : start + rows] for beside in (named_samples, texts)
            )
            known_as = names if own_ids is None else own_ids
            yield Block(_tensor(values, part, name, reading), own_labels, known_as, chunk, *rest)

    return PredictionFile(
        name, kind, num_classes, num_rows, blocks, about.get("class_names"), _notes(about), about.get("name")
    )


def partner(path: Path) -> Path:
    """The labels file for an .npy file of scores: the same name with "labels" or the like in it, or ``labels.npy``."""
    words = "|".join(("predictions", *(name for names in formats.NAMES.values() for name in names)))
    tried = [path.with_name(re.sub(words, word, path.name, count=1)) for word in ("labels", "label_ids", "targets")] + [
        path.with_name(name) for name in ("labels.npy", "label_ids.npy")
    ]
    labels = next((candidate for candidate in tried if candidate != path and candidate.is_file()), None)
    if labels is None:
        looked = ", ".join(dict.fromkeys(candidate.name for candidate in tried if candidate != path))
        raise SoftkinError(
            f"{path} needs its labels, and beside it there is none of {looked}; name them with --labels."
        )
    return labels


def whole_array(file: IO[bytes], name: str) -> NDArray[Any]:
    """The array of an .npy file, read completely."""
    with file:
        return ArrayStream(file, size_of(file), name).all()


def array_in(file: IO[bytes], name: str, wanted: tuple[str, ...]) -> NDArray[Any]:
    """The array of an .npz file under one of the wanted names."""
    with file:
        archive = Archive(file, name)
        key = formats.named(archive.keys, wanted)
        if key is None:
            raise SoftkinError(f"{name} must hold `{wanted[0]}`, it holds {', '.join(archive.keys) or 'nothing'}.")
        return archive.array(key).all()


def _on_disk(file: IO[bytes]) -> Any:
    """An object with a ``name`` that can be opened: the file itself, or a temporary copy of a stream."""
    if isinstance(getattr(file, "name", None), str):
        return file
    copy = tempfile.NamedTemporaryFile(suffix=".safetensors")  # noqa: SIM115  gone with the file of predictions
    shutil.copyfileobj(file, copy, 2**20)
    copy.flush()
    return copy


def _dimensions(
    shapes: dict[str, tuple[int, ...]], beside: tuple[str | None, ...], part: str, name: str, reading: Reading
) -> tuple[int, int]:
    """The numbers of rows and classes of the scores; labels, ids and texts ``beside`` them must have as many rows."""
    shape = shapes[part]
    called = part if " " in part else f"`{part}`"
    single = len(shape) == 1 or (len(shape) == 2 and shape[1] == 1)
    if single and reading.positive_class is not None:
        shape = (shape[0], 1)
    elif single:
        raise SoftkinError(
            f"{name}: {called} must have shape (N, K), a row for each sample, got {shape}; if it holds one score for "
            "each sample of a binary model, say what the score is for with --positive-class."
        )
    if len(shape) != 2:
        raise SoftkinError(f"{name}: {called} must have shape (N, K), a row for each sample, got {shape}.")
    if 0 in shape:
        raise SoftkinError(f"{name}: {part} must hold at least one row and class, got {shape}.")
    for key in beside:
        if key is not None and shapes[key] != (shape[0],):
            raise SoftkinError(
                f"{name}: `{key}` must have shape ({shape[0]},), one for each row of `{part}`, got {shapes[key]}."
            )
    return shape[0], shape[1]


def _spread(shapes: dict[str, tuple[int, ...]], rows: int, classes: int, name: str) -> list[str | None]:
    """The arrays of ``formats.SPREAD`` that the file holds; each must have one entry per row."""
    information, members = (shapes.get(key) for key in formats.SPREAD)
    if information not in (None, (rows,)):
        raise SoftkinError(f"{name}: `mutual_information` must have shape ({rows},), got {information}.")
    if members is not None and (len(members) != 3 or 0 in members or (members[0], members[2]) != (rows, classes)):
        raise SoftkinError(f"{name}: `members` must have shape ({rows}, M, {classes}), got {members}.")
    return [key if key in shapes else None for key in formats.SPREAD]


def _tensor(values: Any, part: str, name: str, reading: Reading) -> Any:
    try:
        tensor = checks.as_tensor(values, part)
    except (TypeError, ValueError) as error:
        raise SoftkinError(f"{name}: {error}") from error
    return tensor[:, None] if tensor.ndim == 1 and reading.positive_class is not None else tensor


def _notes(about: dict[str, Any]) -> dict[str, Any]:
    return {key: about[key] for key in formats.NOTES if key in about}
