"""Predictions as JSON: one object per line (.jsonl), or an array of objects or of rows of numbers (.json).

An object holds its scores as a list, as a mapping from class names, as one number (binary models), under one key per
class, or as the log-probabilities of the k likeliest answers of a language model.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import IO, Any

import numpy as np

from softkin import SoftkinError
from softkin._core import checks
from softkin._io import files
from softkin.predictions import formats
from softkin.predictions.formats import Block, PredictionFile, Reading
from softkin.predictions.tables import LINE, columns_of

LOGPROBS = ("top_logprobs", "logprobs", "log_probs", "log_probabilities")
Objects = Callable[[], Iterator[tuple[str, Any]]]
"""A function that restarts at the first object on each call and yields (position for messages, object)."""


def open_jsonl(file: IO[bytes], name: str, reading: Reading) -> PredictionFile:
    """A file with one JSON object per line."""
    return _opened(lambda: _lines(file, name), name, reading, "line")


def open_json(file: IO[bytes], name: str, reading: Reading) -> PredictionFile:
    """An array of objects, an array of rows of numbers, or one object whose keys hold lists of the same length."""
    content = files.parse_json(file.read(), name, "JSON")
    class_names = None
    if isinstance(content, dict) and content and all(isinstance(column, list) for column in content.values()):
        class_names = content.pop("class_names", None)
        content = _transposed(content, name, reading)
    if not isinstance(content, list):
        raise SoftkinError(
            f"{name} must hold an array of objects or of rows, or an object of lists, got {type(content).__name__}."
        )
    if content and not isinstance(content[0], dict):
        return _of_rows(content, name, reading)

    def objects() -> Iterator[tuple[str, Any]]:
        for place, row in enumerate(content):
            if not isinstance(row, dict):
                raise SoftkinError(f"{name}, entry {place} must be a JSON object, got {type(row).__name__}.")
            yield f"{name}, entry {place}", row

    opened = _opened(objects, name, reading, "entry")
    return opened if class_names is None or opened.class_names else replace(opened, class_names=class_names)


def _transposed(columns: dict[str, list[Any]], name: str, reading: Reading) -> list[dict[str, Any]]:
    """The rows of an object of lists; shorter lists describe something else than rows and are left out."""
    num_rows = max(map(len, columns.values()), default=0)
    labels = reading.label_part(list(columns), name)
    if labels is not None and len(columns[labels]) != num_rows:
        raise SoftkinError(
            f"{name}: `{labels}` must have {num_rows:,} entries, one for each row, got {len(columns[labels]):,}."
        )
    whole = {key: column for key, column in columns.items() if len(column) == num_rows}
    return [dict(zip(whole, cells, strict=True)) for cells in zip(*whole.values(), strict=True)]


def _of_rows(content: list[Any], name: str, reading: Reading) -> PredictionFile:
    """An array of rows of numbers, whose file's name alone says what it holds; or one number for each sample."""
    kind = formats.kind_of_array(name, reading)
    rows = [entry if isinstance(entry, list) else [entry] for entry in content]
    width = len(rows[0])
    if width == 0:
        raise SoftkinError(f"{name}, entry 0 must hold at least one number.")
    if width == 1 and reading.positive_class is None:
        raise SoftkinError(
            f"{name} must hold a number for each class in each entry, got one number; one score for each sample of a "
            "binary model needs --positive-class."
        )
    for place, (entry, row) in enumerate(zip(content, rows, strict=True)):
        if isinstance(entry, list) != isinstance(content[0], list) or len(row) != width:
            raise SoftkinError(f"{name}, entry {place} must be a list of {width} numbers, as the first is.")

    def blocks(count: int) -> Iterator[Block]:
        for start in range(0, len(rows), count):
            try:
                values = np.array(rows[start : start + count], dtype=np.float64)
            except (TypeError, ValueError, OverflowError) as error:
                raise SoftkinError(f"{name} must hold numbers only: {files.cause(error)}.") from error
            yield Block(checks.as_tensor(values, "the array"))

    return PredictionFile(name, kind, width, len(rows), blocks)


def _lines(file: IO[bytes], name: str) -> Iterator[tuple[str, Any]]:
    """The object on each non-empty line."""
    file.seek(0)
    for number, line in enumerate(iter(lambda: file.readline(LINE), b""), start=1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        if len(line) == LINE:
            raise SoftkinError(f"{where} must be shorter than {LINE:,} bytes.")
        content = files.parse_json(line, where, "JSON")
        if not isinstance(content, dict):
            raise SoftkinError(f"{where} must be a JSON object, got {type(content).__name__}.")
        yield where, content


def _opened(objects: Objects, name: str, reading: Reading, unit: str) -> PredictionFile:
    _, first = next(objects(), ("", None))
    if first is None:
        raise SoftkinError(f"{name} must hold at least one {unit}, it holds none.")
    keys = list(first)
    labels, ids = reading.label_part(keys, name), formats.named(keys, formats.IDS)
    texts = reading.text_part([key for key in keys if isinstance(first[key], str) and key != labels], name)
    beside = (labels, ids, texts)
    others = [key for key in keys if isinstance(first[key], list | dict) and key not in beside]
    answers = formats.named(others, LOGPROBS)
    if (
        answers is not None
        and formats.named(others, [word for words in formats.NAMES.values() for word in words]) is None
    ):
        return _of_answers(objects, answers, beside, name, reading)
    numbers = [key for key in keys if isinstance(first[key], int | float) and key not in beside]
    if not others and (len(numbers) > 1 or reading.positive_class is not None):
        return _of_keys(objects, first, name, reading, unit)
    part, kind = formats.choose(keys, others, reading.kind, name)
    scores = first[part]
    if not isinstance(scores, list | dict) or not scores:
        hint = "" if isinstance(scores, list | dict) else "; one score of a binary model needs --positive-class"
        raise SoftkinError(
            f"{name}: `{part}` must be a list of numbers, or numbers by class name, got {scores!r:.50}{hint}."
        )
    names = list(scores) if isinstance(scores, dict) else None
    known = set(scores) if isinstance(scores, dict) else set()

    def row(where: str, content: Mapping[str, Any]) -> list[Any]:
        values = content.get(part)
        if names is not None and isinstance(values, dict) and values.keys() == known:
            return [values[class_name] for class_name in names]
        if names is None and isinstance(values, list) and len(values) == len(scores):
            return values
        raise SoftkinError(f"{where}: `{part}` must have the {len(scores)} classes of the first {unit}.")

    blocks = _blocks(objects, row, part, beside, name, unit)
    return PredictionFile(name, kind, len(scores), None, blocks, names, columns_named=names is not None)


def _of_keys(objects: Objects, first: Mapping[str, Any], name: str, reading: Reading, unit: str) -> PredictionFile:
    """Objects with one key per class, as pandas writes a table to JSON, or with the single score of a binary model."""
    columns = columns_of(
        [str(key) for key in first], reading, name, textual=[key for key in first if isinstance(first[key], str)]
    )

    def row(where: str, content: Mapping[str, Any]) -> list[Any]:
        return [content[key] for key in columns.scores]

    beside = (columns.labels, columns.ids, columns.texts)
    blocks = _blocks(objects, row, ", ".join(columns.scores[:3]), beside, name, unit)
    return PredictionFile(
        name, columns.kind, len(columns.scores), None, blocks, columns.class_names, columns_named=True
    )


def _blocks(
    objects: Objects,
    row: Callable[[str, Mapping[str, Any]], list[Any]],
    part: str,
    beside: tuple[str | None, str | None, str | None],
    name: str,
    unit: str,
) -> Callable[[int], Iterator[Block]]:
    """Blocks of objects; ``row`` extracts the scores of one object."""
    labels, ids, texts = beside

    def blocks(rows: int) -> Iterator[Block]:
        left = objects()
        while chunk := list(islice(left, rows)):
            try:
                values = np.array([row(where, content) for where, content in chunk], dtype=np.float64)
                own_labels, own_ids = (
                    None if key is None else [content[key] for _, content in chunk] for key in (labels, ids)
                )
            except KeyError as error:
                raise SoftkinError(f"{name}: every {unit} must have {error}, as the first has.") from None
            except (TypeError, ValueError, OverflowError) as error:
                raise SoftkinError(f"{name}: `{part}` must hold numbers only: {files.cause(error)}.") from error
            own = None if texts is None else [str(content.get(texts) or "") for _, content in chunk]
            yield Block(checks.as_tensor(values, part), own_labels, own_ids, own)

    return blocks


# The likeliest answers of a language model


def _of_answers(
    objects: Objects, part: str, beside: tuple[str | None, str | None, str | None], name: str, reading: Reading
) -> PredictionFile:
    """Objects with the log-probabilities of the k likeliest answers.

    The classes are ``class_names``, or all answers and labels of the file, sorted. Answers that are no class are
    dropped. Classes missing from an object's answers share the remaining probability equally, but none gets more than
    the least likely answer, since it would otherwise be among the answers. Each row is divided by its sum.
    """
    if reading.kind == "logits":
        raise SoftkinError(f"{name} is said to hold logits (--logits), but its `{part}` are log-probabilities.")
    labels, ids, _ = beside
    names = reading.names or _all_answers(objects, part, labels, name)
    if len(names) < 2:
        raise SoftkinError(f"{name} must have at least 2 classes in `{part}` and its labels, got {', '.join(names)}.")
    place = {class_name: k for k, class_name in enumerate(names)}

    def blocks(rows: int) -> Iterator[Block]:
        left = objects()
        total, incomplete, shared, dropped = 0, 0, 0.0, 0.0
        while chunk := list(islice(left, rows)):
            values = np.zeros((len(chunk), len(names)))
            for p, (where, content) in zip(values, chunk, strict=True):
                answers = _answers(content.get(part), where, part)
                least = min(answers.values())
                for answer, probability in answers.items():
                    if answer in place:
                        p[place[answer]] += probability
                missing = [k for answer, k in place.items() if answer not in answers]
                listed = sum(answers.values())
                rest = max(0.0, 1.0 - listed)
                if missing:
                    incomplete, shared = incomplete + 1, shared + rest
                    p[missing] = min(rest / len(missing), least)
                dropped += listed - float(p.sum() - p[missing].sum())
                if not p.sum() > 0:
                    raise SoftkinError(f"{where}: `{part}` must give a class some probability, it gives none.")
                p /= p.sum()
            total += len(chunk)
            own_labels = None if labels is None else [_label(content, labels, where) for where, content in chunk]
            own_ids = None if ids is None else [content.get(ids) for _, content in chunk]
            texts = None if beside[2] is None else [str(content.get(beside[2]) or "") for _, content in chunk]
            yield Block(checks.as_tensor(values, part), own_labels, own_ids, texts)
        said = []
        if incomplete:
            said.append(
                f"{incomplete:,} of {total:,} rows list fewer than the {len(names)} classes; the classes missing there "
                f"share what is left of 1, {100 * shared / incomplete:.2g} % on average"
            )
        if dropped > 1e-9 * total:
            said.append(f"{100 * dropped / total:.2g} % of the probability was for answers that are no class")
        if said:
            warnings.warn(f"{name}: {'; '.join(said)}.", stacklevel=2)

    return PredictionFile(name, "probs", len(names), None, blocks, names, columns_named=True)


def _answers(content: Any, where: str, part: str) -> dict[str, float]:
    """Answers with their probabilities, from the formats of common APIs; surrounding spaces are ignored."""
    if isinstance(content, dict) and isinstance(content.get("content"), list) and content["content"]:
        content = content["content"][0]  # the first token of a chat reply
    if isinstance(content, dict) and isinstance(content.get("top_logprobs"), list):
        content = content["top_logprobs"]
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict) and "token" not in content[0]:
        content = content[0]
    if isinstance(content, dict):
        pairs = list(content.items())
    elif isinstance(content, list) and all(isinstance(entry, dict) for entry in content):
        pairs = [(entry.get("token"), entry.get("logprob")) for entry in content]
    else:
        pairs = []
    answers: dict[str, float] = {}
    for answer, value in pairs:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not isinstance(answer, str) or not number or math.isnan(value) or value > 1e-3:
            raise SoftkinError(
                f"{where}: `{part}` must give log-probabilities, at most 0, by answer, got {value!r:.40} for "
                f"{answer!r:.40}."
            )
        answers[answer.strip()] = answers.get(answer.strip(), 0.0) + math.exp(min(value, 0.0))
    if not answers:
        raise SoftkinError(f"{where}: `{part}` must be log-probabilities by answer, got {content!r:.50}.")
    return answers


def _label(content: Mapping[str, Any], labels: str, where: str) -> Any:
    label = content.get(labels)
    if label is None:
        raise SoftkinError(f"{where}: there is no `{labels}`, which the first object has.")
    return label.strip() if isinstance(label, str) else label


def _all_answers(objects: Objects, part: str, labels: str | None, name: str) -> list[str]:
    """All answers and labels of a file, sorted."""
    names: set[str] = set()
    for where, content in objects():
        names |= _answers(content.get(part), where, part).keys()
        if labels is not None and isinstance(content.get(labels), str):
            names.add(content[labels].strip())
        files.within("classes", len(names), name)
    return sorted(names - {""})
