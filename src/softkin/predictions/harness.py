"""Multiple choice as lm-evaluation-harness logs it: ``samples_*.jsonl``, written with ``--log_samples``.

The logits of a row are the log-likelihoods of its options, as in the metric ``acc``; so softmax gives the probability
of each option among those offered. Rows may have different numbers of options: an option that a row lacks gets a logit
so low that its probability is 0, at any temperature that a calibrator would find.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from softkin import SoftkinError
from softkin._core import checks
from softkin._io import files
from softkin._io.tables import Table
from softkin.predictions.blocks import Block, PredictionFile
from softkin.predictions.request import Reading

RESPONSES, TARGET, ARGUMENTS, NUMBER = "filtered_resps", "target", "arguments", "doc_id"


def holds_samples(columns: Sequence[str]) -> bool:
    """Whether the columns are those of such a log."""
    return {RESPONSES, TARGET, NUMBER} <= set(columns)


def from_table(table: Table, reading: Reading) -> PredictionFile:
    """The predictions in such a log; the classes are the options, by their places."""
    beside = [column for column in (RESPONSES, TARGET, NUMBER, ARGUMENTS) if column in table.columns]
    fewest, most = 2**31, 0
    for row, (cell,) in enumerate(table.cells(RESPONSES)):
        count = len(_likelihoods(cell, partial(_where, table, row)))
        fewest, most = min(fewest, count), max(most, count)
        files.within("classes", most, table.name)
    names = reading.names or [f"option {k}" for k in range(1, most + 1)]
    if len(names) < most:
        raise SoftkinError(f"{table.name} has rows with {most} options, and --class-names names {len(names)}.")

    def blocks(count: int) -> Iterator[Block]:
        for rows in table.read(count, (), beside):
            options = [_likelihoods(cell, partial(rows.where, row)) for row, cell in enumerate(rows.cells(RESPONSES))]
            values = checks.padded(options, len(names), "logits")
            arguments = rows.cells(ARGUMENTS) if ARGUMENTS in beside else [None] * len(rows)
            labels = np.array(
                [
                    _target(cell, len(own), given, partial(rows.where, row))
                    for row, (cell, own, given) in enumerate(zip(rows.cells(TARGET), options, arguments, strict=True))
                ]
            )
            texts = [str(_argument(given, 0, 0) or "") for given in arguments]
            yield Block(checks.as_tensor(values, RESPONSES), labels, rows.filled(NUMBER), texts if any(texts) else None)

    lacking = (
        "" if fewest == most else f"; rows have {fewest} to {most} options, and one that is lacking has probability 0"
    )
    assumed = (
        f"{table.name} is read as samples of lm-evaluation-harness: the logits are the log-likelihoods of the options"
        f"{lacking}.",
    )
    return PredictionFile(table.name, "logits", len(names), table.num_rows, blocks, names, assumed=assumed)


def _where(table: Table, row: int) -> str:
    return f"{table.name}, {table.place(row)}"


def _likelihoods(cell: Any, where: Callable[[], str]) -> list[float]:
    """The log-likelihoods of a row's options, which newer versions write as texts."""
    try:
        numbers = [float(option[0]) for option in cell]
    except (TypeError, ValueError, IndexError, KeyError):
        numbers = []
    if len(numbers) < 2 or not np.isfinite(numbers).all():
        raise SoftkinError(
            f"{where()}: `{RESPONSES}` must hold a log-likelihood for each of at least 2 options, got {cell!r:.60}; "
            "tasks that generate text have none: measure pairs of confidence and outcome instead."
        )
    return numbers


def _target(cell: Any, count: int, arguments: Any, where: Callable[[], str]) -> int:
    """The place of the right option: a number, or the text of one of them."""
    text = str(cell).strip()
    if text.isdecimal() and int(text) < count:
        return int(text)
    texts = [str(_argument(arguments, k, 1) or "").strip() for k in range(count)]
    if text and texts.count(text) == 1:
        return texts.index(text)
    raise SoftkinError(f"{where()}: `{TARGET}` must be one of the {count} options, got {cell!r:.60}.")


def _argument(arguments: Any, option: int, place: int) -> Any:
    """A part of what an option was asked with; older versions write lists."""
    try:
        if isinstance(arguments, dict):
            return arguments[f"gen_args_{option}"][f"arg_{place}"]
        return arguments[option][place]
    except (KeyError, IndexError, TypeError):
        return None
