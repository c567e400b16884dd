"""Predictions in .npz files, .npy pairs and safetensors, read in blocks of rows and never unpickled."""

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from numpy.typing import NDArray

from softkin import SoftkinError
from softkin._core import checks
from softkin._io import bundles, files, roles
from softkin._io.numpy_files import Archive, ArrayStream, size_of
from softkin._io.roles import ScoreKind
from softkin.predictions import pairs
from softkin.predictions.blocks import NOTES, SPREAD, Beside, Block, PredictionFile
from softkin.predictions.request import Reading, choose, kind_by_name

ABOUT = ("class_names", *NOTES, "name")
ALONE = "the array"
INPUTS = ("x", "x_test", "x_val", "x_train", "inputs", "input", "features", "embeddings", "images", "data")
"""Arrays of rows that are no scores, if there are others"""
_WORDS = ("predictions", *(name for names in roles.KINDS.values() for name in names))


@dataclass(frozen=True)
class Arrays:
    """The named arrays of a file."""

    name: str
    shapes: Mapping[str, tuple[int, ...]]
    rows: Callable[[str, int], Iterator[Any]]
    """A function from (array, rows in a block) to all its rows"""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Texts of the file: class names, notes, a title"""
    ids: list[str] | None = None
    texts: Callable[[], list[str]] | None = None


def open_npz(file: IO[bytes], name: str, reading: Reading) -> PredictionFile:
    """An .npz archive, compressed or not."""
    archive = Archive(file, name)
    keys = archive.keys
    textual = [key for key in keys if archive.array(key).dtype.kind in "US"]
    texts = "texts_json" if "texts_json" in keys and reading.text_column is None else reading.text_part(textual, name)
    arrays = Arrays(
        name,
        {key: archive.array(key).shape for key in keys if key != texts},
        lambda key, count: _rows(archive.array(key), count),
        {key: archive.text(key) for key in ABOUT if key in keys} | _class_names(archive, textual),
        texts=None if texts is None else lambda: _texts(archive, texts),
    )
    return predictions_in(arrays, reading)


def _class_names(archive: Archive, textual: Sequence[str]) -> dict[str, Any]:
    """The names of the classes, called so or otherwise."""
    key = next((key for key in roles.CLASS_NAMES if key in textual), None)
    return {} if key is None else {"class_names": archive.text(key)}


def _texts(archive: Archive, key: str) -> list[str]:
    """The samples' texts, from an array of text or from the UTF-8 bytes of a JSON list, which softkin writes."""
    if key != "texts_json":
        return list(archive.text(key))
    content = files.parse_json(archive.array(key).all().tobytes(), f"{archive.name}: `{key}`", "JSON")
    if not isinstance(content, list) or not all(isinstance(text, str) for text in content):
        raise SoftkinError(f"{archive.name}: `{key}` must hold texts, one for each row.")
    return content


def open_npy(file: IO[bytes], name: str, reading: Reading) -> PredictionFile:
    """An .npy file, whose name alone says what it holds."""
    size = size_of(file)

    def stream() -> ArrayStream:
        file.seek(0)
        return ArrayStream(file, size, name)

    arrays = Arrays(name, {ALONE: stream().shape}, lambda _, count: _rows(stream(), count))
    return predictions_in(arrays, reading, (ALONE, kind_by_name(name, reading)))


def _rows(stream: ArrayStream, count: int) -> Iterator[NDArray[Any]]:
    for start in range(0, stream.shape[0], count):
        yield stream.take(min(count, stream.shape[0] - start))


def open_safetensors(file: IO[bytes], name: str, reading: Reading) -> PredictionFile:
    """A safetensors file, with texts in its metadata."""
    on_disk = _on_disk(file)
    opened = bundles.Bundle(on_disk.name, "safetensors", name=name)

    def rows(key: str, count: int) -> Iterator[Any]:
        assert on_disk is not None  # a temporary file is deleted when its object is
        return opened.rows(key, count)

    lists = {key: opened.about.get(key) for key in ("sample_ids", "texts")}
    for key, texts in lists.items():
        if texts is not None and not isinstance(texts, list):
            raise SoftkinError(f"{name}: `{key}` must be a list of texts, one for each row.")
    known, texts = lists["sample_ids"], lists["texts"]
    arrays = Arrays(name, opened.shapes, rows, opened.about, known, None if texts is None else lambda: texts)
    return predictions_in(arrays, reading)


def predictions_in(
    arrays: Arrays, reading: Reading, scores: tuple[str, ScoreKind | None] | None = None
) -> PredictionFile:
    """The predictions in some arrays; ``scores`` names the array of scores and their kind, if that is known."""
    name, shapes, about = arrays.name, arrays.shapes, arrays.about
    pairs_of = pairs.in_arrays(shapes, arrays.rows, name, reading) if scores is None else None
    if pairs_of is not None:
        return pairs_of
    keys = [key for key in shapes if key not in roles.CLASS_NAMES]
    labels, ids = reading.label_part(keys, name), roles.find(keys, "id")
    beside = Beside(None, None, None).among(keys, reading, name)
    others = [key for key in keys if key not in (labels, ids, *beside.columns, *ABOUT, *SPREAD)]
    wide = [key for key in others if len(shapes[key]) > 1 and shapes[key][1:] != (1,)]
    wide = [key for key in wide if key.lower() not in INPUTS] or wide
    part, kind = scores or choose(keys, wide or others, reading.kind, name)
    assumed = []
    if labels is None and scores is None and reading.labels is None:
        rest = [key for key in others if key != part and shapes[key] in ((shapes[part][0],), (shapes[part][0], 1))]
        if len(rest) == 1:
            labels = rest[0]
            assumed.append(
                f"{name}: `{labels}` is read as the labels, being the only other array of {shapes[part][0]:,}."
            )
    num_rows, num_classes = _dimensions(shapes, (labels, ids), part, name)
    spread = _spread(shapes, num_rows, num_classes, name)

    def blocks(count: int) -> Iterator[Block]:
        streams = [None if key is None else arrays.rows(key, count) for key in (part, labels, ids, *spread)]
        lists = arrays.ids, None if arrays.texts is None else arrays.texts()
        if any(texts is not None and len(texts) != num_rows for texts in lists):
            raise SoftkinError(f"{name}: ids and texts must be lists of {num_rows}, one for each row of `{part}`.")
        for start in range(0, num_rows, count):
            values, own_labels, own_ids, *rest = (None if stream is None else next(stream) for stream in streams)
            known, texts = (None if texts is None else texts[start : start + count] for texts in lists)
            own_ids = known if own_ids is None else own_ids
            more = beside.of_arrays(arrays.rows, start, count)
            yield Block(_tensor(values, part, name), own_labels, own_ids, texts, *rest, **more)

    notes = {key: about[key] for key in NOTES if key in about}
    class_names = None if num_classes == 1 else about.get("class_names")
    return PredictionFile(
        name, kind, num_classes, num_rows, blocks, class_names, notes, about.get("name"),
        score_name=None if part == ALONE else part, is_alone=part == ALONE, assumed=tuple(assumed),
    )  # fmt: skip


def partner(path: Path) -> Path:
    """The labels file for a file of scores alone: the same name with "labels" or the like in it, or ``labels.npy``."""
    words = "|".join(("y_prob", "y_proba", "y_score", "y_pred", *_WORDS))
    kin = ("labels", "label_ids", "targets", "y_true", "y_test", "y", "truth", "label", "target")
    tried = [path.with_name(re.sub(words, word, path.name, count=1)) for word in kin]
    tried += [path.with_name(f"{word}{path.suffix}") for word in kin]
    labels = next((candidate for candidate in tried if candidate != path and candidate.is_file()), None)
    if labels is None:
        looked = list(dict.fromkeys(candidate.name for candidate in tried if candidate != path))
        raise SoftkinError(
            f"{path} needs its labels, and beside it there is none of {', '.join(looked[:4])} …; name them with "
            "--labels."
        )
    return labels


def whole_array(file: IO[bytes], name: str) -> NDArray[Any]:
    """The array of an .npy file, read completely."""
    with file:
        return ArrayStream(file, size_of(file), name).all()


def labels_in(file: IO[bytes], name: str) -> tuple[NDArray[Any], list[str] | None, list[Any] | None]:
    """(labels, class names, ids) of an .npz file; the last two only if it holds them."""
    with file:
        archive = Archive(file, name)
        key = roles.find(archive.keys, "label") or roles.find(archive.keys, "votes")
        if key is None:
            raise SoftkinError(f"{name} must hold `labels`, it holds {', '.join(archive.keys) or 'nothing'}.")
        textual = [other for other in archive.keys if archive.array(other).dtype.kind in "US"]
        names, ids = _class_names(archive, textual).get("class_names"), roles.find(archive.keys, "id")
        return archive.array(key).all(), names, None if ids is None else archive.array(ids).all().tolist()


def _on_disk(file: IO[bytes]) -> Any:
    """An object with a ``name`` that can be opened: the file itself, or a temporary copy of a stream."""
    if isinstance(getattr(file, "name", None), str):
        return file
    copy = tempfile.NamedTemporaryFile(suffix=".safetensors")  # noqa: SIM115  gone with the file of predictions
    shutil.copyfileobj(file, copy, 2**20)
    copy.flush()
    return copy


def _dimensions(
    shapes: Mapping[str, tuple[int, ...]], beside: tuple[str | None, ...], part: str, name: str
) -> tuple[int, int]:
    """The numbers of rows and classes of the scores; labels, ids and texts ``beside`` them must have as many rows."""
    shape = shapes[part]
    called = part if " " in part else f"`{part}`"
    if len(shape) == 1:  # the single score of a binary model
        shape = (shape[0], 1)
    if len(shape) != 2:
        pixels = "; pixels, (N, K, …), are for evaluate, check and calibrate fit and apply" if len(shape) > 2 else ""
        raise SoftkinError(f"{name}: {called} must have shape (N, K), a row for each sample, got {shape}{pixels}.")
    if 0 in shape:
        raise SoftkinError(f"{name}: {part} must hold at least one row and class, got {shape}.")
    votes, *_ = beside
    for key in beside:
        if key is not None and key == votes and shapes[key] == shape:
            continue  # people's votes for each class
        if key is not None and shapes[key] not in ((shape[0],), (shape[0], 1)):
            raise SoftkinError(
                f"{name}: `{key}` must have shape ({shape[0]},), one for each row of `{part}`, got {shapes[key]}."
            )
    return shape[0], shape[1]


def _spread(shapes: Mapping[str, tuple[int, ...]], rows: int, classes: int, name: str) -> list[str | None]:
    """The arrays of ``SPREAD`` that the file holds; each must have one entry per row."""
    information, members = (shapes.get(key) for key in SPREAD)
    if information not in (None, (rows,)):
        raise SoftkinError(f"{name}: `mutual_information` must have shape ({rows},), got {information}.")
    if members is not None and (len(members) != 3 or 0 in members or (members[0], members[2]) != (rows, classes)):
        raise SoftkinError(f"{name}: `members` must have shape ({rows}, M, {classes}), got {members}.")
    return [key if key in shapes else None for key in SPREAD]


def _tensor(values: Any, part: str, name: str) -> Any:
    try:
        tensor = checks.as_tensor(values, part)
    except (TypeError, ValueError) as error:
        raise SoftkinError(f"{name}: {error}") from error
    return tensor[:, None] if tensor.ndim == 1 else tensor
