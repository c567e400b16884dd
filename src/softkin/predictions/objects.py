"""Predictions as JSON objects: one per line (.jsonl), or in one array (.json).

An object holds its scores as a list, as a mapping from class names, as one number (binary models), under one key per
class, or as the log-probabilities of the k likeliest answers of a language model.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import IO, Any

import numpy as np

from softkin import SoftkinError, checks, files
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
    """An array of objects, or one object whose keys hold lists of the same length."""
    content = files.parse_json(file.read(), name, "JSON")
    if isinstance(content, dict) and content and all(isinstance(column, list) for column in content.values()):
        lengths = {key: len(column) for key, column in content.items()}
        rows = max(lengths.values())
        content = {key: column for key, column in content.items() if lengths[key] == rows}  # leaves out class names
        content = [dict(zip(content, cells, strict=True)) for cells in zip(*content.values(), strict=True)]
    if not isinstance(content, list):
        raise SoftkinError(
            f"{name} must hold an array of objects, or an object of lists, got {type(content).__name__}."
        )

    def objects() -> Iterator[tuple[str, Any]]:
        for place, row in enumerate(content):
            if not isinstance(row, dict):
                raise SoftkinError(f"{name}, entry {place} must be a JSON object, got {type(row).__name__}.")
            yield f"{name}, entry {place}", row

    return _opened(objects, name, reading, "entry")


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
        if incomplete:
            also = (
                f"; {100 * dropped / total:.2g} % were for answers that are no class" if dropped > 1e-9 * total else ""
            )
            warnings.warn(
                f"{name}: {incomplete:,} of {total:,} rows list fewer than the {len(names)} classes; the classes "
                f"missing there share what is left of 1, {100 * shared / incomplete:.2g} % on average{also}.",
                stacklevel=2,
            )

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
