"""Predictions as the log-probabilities of the k likeliest answers of a language model."""

import math
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from softkin import SoftkinError
from softkin._core import checks
from softkin._io import files
from softkin._io.tables import BLOCK, Table
from softkin.predictions.blocks import Beside, Block, PredictionFile
from softkin.predictions.request import Reading


def from_table(table: Table, part: str, beside: Beside, reading: Reading) -> PredictionFile:
    """Rows with the log-probabilities of the k likeliest answers.

    The classes are ``class_names``, or all answers and labels of the file, sorted. Answers that are no class are
    dropped. Classes missing from a row's answers share the remaining probability equally, but none gets more than the
    least likely answer, since it would otherwise be among the answers. Each row is divided by its sum.
    """
    name = table.name
    if reading.kind == "logits":
        raise SoftkinError(f"{name} is said to hold logits (--logits), but its `{part}` are log-probabilities.")
    names = reading.names or _all_answers(table, part, beside.labels)
    if len(names) < 2:
        raise SoftkinError(f"{name} must have at least 2 classes in `{part}` and its labels, got {', '.join(names)}.")
    place = {class_name: k for k, class_name in enumerate(names)}

    def blocks(count: int) -> Iterator[Block]:
        total, incomplete, shared, dropped = 0, 0, 0.0, 0.0
        for rows in table.read(count, (), beside.with_scores(part).columns):
            values = np.zeros((len(rows), len(names)))
            for row, (p, cell) in enumerate(zip(values, rows.cells(part), strict=True)):
                answers = _answers(cell, partial(rows.where, row), part)
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
                    raise SoftkinError(
                        f"{rows.where(row)}: `{part}` must give a class some probability, it gives none."
                    )
                p /= p.sum()
            total += len(rows)
            labels, ids, texts = beside.of(rows)
            labels = None if labels is None else [text.strip() if isinstance(text, str) else text for text in labels]
            yield Block(checks.as_tensor(values, part), labels, ids, texts)
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

    return PredictionFile(
        name, "probs", len(names), table.num_rows, blocks, names,
        columns_named=True, assumed=table.assumed, table=table, score_columns=(part,),
    )  # fmt: skip


def _answers(content: Any, where: Callable[[], str], part: str) -> dict[str, float]:
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
                f"{where()}: `{part}` must give log-probabilities, at most 0, by answer, got {value!r:.40} for "
                f"{answer!r:.40}."
            )
        answers[answer.strip()] = answers.get(answer.strip(), 0.0) + math.exp(min(value, 0.0))
    if not answers:
        raise SoftkinError(f"{where()}: `{part}` must be log-probabilities by answer, got {content!r:.50}.")
    return answers


def _all_answers(table: Table, part: str, labels: str | None) -> list[str]:
    """All answers and labels of a file, sorted."""
    names: set[str] = set()
    for rows in table.read(BLOCK, (), [part] if labels is None else [part, labels]):
        for row, cell in enumerate(rows.cells(part)):
            names |= _answers(cell, partial(rows.where, row), part).keys()
        if labels is not None:
            names |= {label.strip() for label in rows.cells(labels) if isinstance(label, str)}
        files.within("classes", len(names), table.name)
    return sorted(names - {""})
