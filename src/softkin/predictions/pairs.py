"""Files of pairs: a confidence, and whether it was right. Language models, judges, detections and forecasts have these.

A pair becomes two columns, wrong and right, so that calibrators and rules take it as they take a binary model. Metrics
get it back as one claim (``Predictions.claims``).
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softkin import SoftkinError
from softkin._core import checks
from softkin._core.names import spelling
from softkin._io import roles
from softkin._io.tables import Table, counted
from softkin.predictions import unlabelled
from softkin.predictions.blocks import Beside, Block, PredictionFile
from softkin.predictions.request import Reading

CLASS_NAMES = ["wrong", "right"]
WORDS = {
    "1": 1, "true": 1, "yes": 1, "y": 1, "t": 1, "right": 1, "correct": 1, "pass": 1, "passed": 1, "c": 1,
    "accept": 1,
    "0": 0, "false": 0, "no": 0, "n": 0, "f": 0, "wrong": 0, "incorrect": 0, "fail": 0, "failed": 0, "i": 0,
    "reject": 0,
}  # fmt: skip
"""What people write for an outcome"""
LOGARITHMS = ("logprob", "log_prob", "logprobability", "log_probability", "cumulative_logprob", "mean_logprob")
SCALE = 10  # the highest grade that people give: numbers up to it may be grades or percent
HEAD = 1000  # rows that show what an array holds
SCORES = ("prob", "probability", "p", "forecast", "risk", "propensity", "likelihood", *LOGARITHMS)
"""Names of confidences that count only beside outcomes"""

MISTAKE = frozenset(("wrong", "error", "incorrect", "mistake", "failure"))
"""Words in the name of a score that is about a wrong answer"""

_LATER = re.compile(r"top_?([2-9]|\d\d)_")  # the second answer and those after it, with their scores


@dataclass(frozen=True)
class Parts:
    """The parts of a file that make pairs."""

    score: str
    outcome: str
    prediction: str | None = None
    """The answers, where ``outcome`` holds the true ones, so that equal ones are right"""
    why: str | None = None
    """The sentence about what was assumed"""
    turned: bool = False
    """Whether ``outcome`` says that the answer was wrong"""

    @property
    def of_mistake(self) -> bool:
        """Whether the score is the probability that the answer is wrong, as its name says."""
        return not MISTAKE.isdisjoint(roles.plain(self.score).split("_"))


def found(
    columns: Sequence[str], head: Callable[[Sequence[str]], Mapping[str, Sequence[Any]]], name: str, reading: Reading
) -> Parts | None:
    """The parts of a file that are a confidence and its outcome; None if it is no file of pairs.

    Args:
        columns: The names of parts that hold one number or text a row.
        head: A function from parts to the cells of their first rows.
        name: The file's name, for messages.
        reading: The options.
    """
    if reading.score is not None or reading.outcome is not None:
        return _stated(columns, name, reading)
    if reading.positive_class is not None or reading.class_columns is not None or reading.label_column is not None:
        return None
    if (of_knime := _of_knime(columns)) is not None:
        return of_knime
    outcome = roles.find(columns, "outcome") or _judged(columns, head)
    mistakes = [column for column in columns if roles.plain(column) in roles.MISTAKES]
    is_alone = roles.find(columns, "label") is None or roles.find(columns, "confidence") is not None
    if outcome is None and is_alone and len(mistakes) == 1 and _are_outcomes(head(mistakes)[mistakes[0]]):
        outcome = mistakes[0]
    score = roles.find(columns, "confidence") or (score_of(columns) if outcome is not None else None)
    of_classes = [column for column in columns if roles.class_of(column)]
    if score is None and outcome is not None and len(of_classes) == 1 and roles.find(columns, "label") is None:
        score = of_classes.pop()  # such as answer_prob
    if score is None and outcome is not None:
        score = next((column for column in columns if roles.guessed_of(column) in SCORES), None)  # predicted_risk
    if score is None:
        return _answered(columns, head)
    if of_classes:
        return None
    overrules = "(--positive-class 1 reads it as the score of class 1 instead)"
    if outcome is not None and _are_outcomes(head([outcome])[outcome]):
        turned = outcome in mistakes
        says = f"`{score}` is read as the confidence of pairs, `{outcome}` as whether it was"
        return Parts(score, outcome, why=f"{says} {'wrong' if turned else 'right'}", turned=turned)
    if roles.find([score], "confidence") is None:
        return None
    answer, label = _answer_and_label(columns)
    if label is not None and answer is not None:
        why = f"`{score}` is read as the confidence of pairs, which are right where `{answer}` is `{label}`"
        return Parts(score, label, answer, why)
    if label is not None and _are_outcomes(head([label])[label]):
        return Parts(
            score,
            label,
            why=f"`{score}` is read as the confidence of pairs, `{label}` as whether it was right {overrules}",
        )
    return None


def _of_knime(columns: Sequence[str]) -> Parts | None:
    """A class, ``Prediction (class)`` and ``Prediction (class) (Confidence)``, as KNIME writes them alone."""
    for label in columns:
        answer = f"Prediction ({label})"
        score = f"{answer} (Confidence)"
        if answer in columns and score in columns and not any(f"P ({label}=" in column for column in columns):
            why = f"`{score}` is read as the confidence of pairs, which are right where `{answer}` is `{label}`"
            return Parts(score, label, answer, why)
    return None


def _answered(columns: Sequence[str], head: Callable[[Sequence[str]], Mapping[str, Sequence[Any]]]) -> Parts | None:
    """A label, an answer and one score that is the answer's: of more than two classes, or never below half."""
    answer, label = _answer_and_label(columns)
    score = score_of(columns)
    if (answer is None) != (label is None) and score is not None:
        other = _with_the_words(columns, answer or label or "", head)
        answer, label = answer or other, label or other
    if score is None and answer is not None:  # Weka calls the answer "predicted" and its probability "prediction"
        others = [column for column in columns if column != answer and roles.role_of(column) == "prediction"]
        if len(others) == 1 and all(_number(cell) is not None for cell in head([answer])[answer]):
            score, answer = answer, others[0]
    of_classes = [column for column in columns if roles.class_of(column) and not _LATER.match(roles.plain(column))]
    if score is None or answer is None or label is None or of_classes:
        return None
    cells = head([score, answer, label])
    numbers = [_number(cell) for cell in cells[score]]
    answers, labels = ({spelling(cell) for cell in cells[part] if cell is not None} for part in (answer, label))
    if roles.plain(score) in LOGARITHMS:
        numbers = [None if number is None else math.exp(min(number, 1.0)) for number in numbers]
    if not answers & labels or any(number is None or not 0 <= number <= 1 for number in numbers):
        return None
    if set(numbers) <= {0.0, 1.0, None}:
        return None  # marks for answers that were right
    least = min((number for number in numbers if number is not None), default=0.0)
    if len(answers | labels) < 3 and (least < 0.5 or len(answers) < 2):
        return None
    why = f"`{score}` is read as the confidence of pairs, which are right where `{answer}` is `{label}`"
    return Parts(score, label, answer, f"{why} (--positive-class reads it as the score of one class instead)")


def _judged(columns: Sequence[str], head: Callable[[Sequence[str]], Mapping[str, Sequence[Any]]]) -> str | None:
    """The column in which people accept or reject answers, as Prodigy writes it."""
    found = [column for column in columns if roles.plain(column) == "answer"]
    forms = {spelling(cell) for column in found for cell in head(found)[column] if cell is not None}
    return found[0] if found and forms & {"accept", "reject"} and forms <= {"accept", "reject", "ignore"} else None


def _with_the_words(
    columns: Sequence[str], known: str, head: Callable[[Sequence[str]], Mapping[str, Sequence[Any]]]
) -> str | None:
    """The only other column of the same words, of which there are several: of two such, one is the truth."""
    cells = head([column for column in columns if column == known or roles.role_of(column) is None])
    forms = {column: {spelling(cell) for cell in own if isinstance(cell, str)} for column, own in cells.items()}
    alike = [column for column in forms if column != known and len(forms[known]) > 1 and forms[column] == forms[known]]
    return alike[0] if len(alike) == 1 else None


def _answer_and_label(columns: Sequence[str]) -> tuple[str | None, str | None]:
    """The columns of answers and of true ones."""
    label = roles.find(columns, "label")
    others = [column for column in columns if column != label]
    return roles.find(others, "prediction") or roles.find(others, "label"), label  # pipelines call theirs `label`


def _stated(columns: Sequence[str], name: str, reading: Reading) -> Parts:
    """The parts that the caller names; the one that is not named is found by its name."""
    score = roles.chosen(columns, "confidence", reading.score, "score", name) or score_of(columns)
    outcome = roles.chosen(columns, "outcome", reading.outcome, "outcome", name) or roles.find(columns, "label")
    if score is None or outcome is None:
        lacking, option = ("confidences", "--score") if score is None else ("outcomes", "--outcome")
        raise SoftkinError(
            f"{name} must have a column of {lacking}, named by {option}; it has {', '.join(list(columns)[:10])}."
        )
    turned = roles.plain(outcome) in roles.MISTAKES
    why = [] if reading.score is not None else [f"`{score}` is taken for the confidence (--score names another)"]
    why += [f"`{outcome}` is read as whether the answer was wrong"] if turned else []
    return Parts(score, outcome, why="; ".join(why) or None, turned=turned)


def score_of(columns: Sequence[str]) -> str | None:
    """A column that beside outcomes must be their confidence, though elsewhere it may be the score of a class."""
    called = {roles.plain(column): column for column in columns}
    return roles.find(columns, "score") or next((called[name] for name in SCORES if name in called), None)


def _are_outcomes(cells: Sequence[Any]) -> bool:
    there = {spelling(cell) for cell in cells if cell is not None}
    return bool(there) and there <= set(WORDS)


def from_table(table: Table, parts: Parts, ids: str | None, reading: Reading) -> PredictionFile:
    """The pairs of a table."""
    columns = list(table.columns)
    if not reading.keep_unlabelled:
        table = unlabelled.left_out(table, [parts.outcome], "outcome" if parts.prediction is None else "label")
        table = unlabelled.left_out(table, [parts.score], "confidence")
    texts = reading.text_part([column for column in columns if table.columns[column] == "text"], table.name)
    beside = Beside(None, ids, texts).among(columns, reading, table.name)
    own = [parts.score, parts.outcome, *([] if parts.prediction is None else [parts.prediction])]
    unit, said = _unit(table.head([parts.score])[parts.score], parts.score, table.name)

    def blocks(count: int) -> Iterator[Block]:
        for rows in table.read(count, (), [*dict.fromkeys([*own, *beside.columns])]):
            cells = [rows.cells(column) for column in own]
            answers = cells[2] if parts.prediction is not None else None
            scores = _scores(cells[0], unit, parts.score, rows.where)
            scores = 1 - scores if parts.of_mistake else scores
            labels = outcomes(cells[1], answers, parts.outcome, rows.where)
            labels = 1 - labels if parts.turned else labels
            _, own_ids, own_texts = beside.of(rows)
            yield Block(two_columns(scores), labels, own_ids, own_texts, **beside.about(rows))

    file = opened(table.name, table.num_rows, blocks, (*table.assumed, *_about(parts, table.name), *said))
    return replace(file, table=table, score_columns=(parts.score,))


def in_arrays(
    shapes: Mapping[str, tuple[int, ...]], rows: Callable[[str, int], Iterator[Any]], name: str, reading: Reading
) -> PredictionFile | None:
    """The pairs in the named arrays of a file; None if it is no file of pairs."""
    lines = [key for key, shape in shapes.items() if len(shape) == 1 or (len(shape) == 2 and shape[1] == 1)]
    if any(len(shape) > 1 and shape[1] > 1 for shape in shapes.values()) and reading.score is None:
        return None

    def head(keys: Sequence[str]) -> dict[str, list[Any]]:
        return {key: _listed(next(rows(key, HEAD), ())) for key in keys}

    parts = found(lines, head, name, reading)
    if parts is None:
        return None
    ids = roles.find(lines, "id")
    beside = Beside(None, ids, None).among(list(shapes), reading, name)
    unit, said = _unit(head([parts.score])[parts.score], parts.score, name)
    num_rows = shapes[parts.score][0]
    own = [key for key in (parts.score, parts.outcome, parts.prediction, ids) if key is not None]
    for key in own:
        if shapes[key][0] != num_rows:
            raise SoftkinError(
                f"{name}: `{key}` must have {num_rows} rows as `{parts.score}` has, got {shapes[key][0]}."
            )

    def blocks(count: int) -> Iterator[Block]:
        start = 0
        for columns in zip(*(rows(key, count) for key in own), strict=True):
            cells = dict(zip(own, map(_listed, columns), strict=True))
            answers = None if parts.prediction is None else cells[parts.prediction]
            where = partial(_in_array, name, start)
            scores = _scores(cells[parts.score], unit, parts.score, where)
            scores = 1 - scores if parts.of_mistake else scores
            labels = _outcomes_or_none(cells[parts.outcome], answers, parts.outcome, where)
            labels = 1 - labels if parts.turned else labels
            more = beside.of_arrays(rows, start, count)
            yield Block(two_columns(scores), labels, None if ids is None else cells[ids], **more)
            start += len(scores)

    return opened(name, num_rows, blocks, (*_about(parts, name), *said))


def _about(parts: Parts, name: str) -> list[str]:
    """What was assumed about the parts of a file, a sentence each."""
    of_mistake = f"`{parts.score}` is taken for the probability that the answer is wrong; the confidence is 1 minus it"
    said = (parts.why, of_mistake if parts.of_mistake else None)
    return [f"{name}: {words}." for words in said if words is not None]


def _in_array(name: str, start: int, row: int) -> str:
    return f"{name}, {counted(start + row)}"


def _listed(array: Any) -> list[Any]:
    return [None if cell != cell else cell for cell in np.asarray(array).reshape(-1).tolist()]  # NaN is none


def _outcomes_or_none(
    cells: Sequence[Any], answers: Sequence[Any] | None, column: str, where: Callable[[int], str]
) -> Tensor:
    """``outcomes`` with NaN in rows that have none, which ``unlabelled`` leaves out."""
    there = [row for row, cell in enumerate(cells) if cell is not None]
    if len(there) == len(cells):
        return outcomes(cells, answers, column, where)
    found = torch.full((len(cells),), math.nan, dtype=torch.float64)
    given = None if answers is None else [answers[row] for row in there]
    known = outcomes([cells[row] for row in there], given, column, lambda row: where(there[row]))
    found[there] = known.double()
    return found


def opened(
    name: str, num_rows: int | None, blocks: Callable[[int], Iterator[Block]], assumed: Sequence[str]
) -> PredictionFile:
    """A file of pairs, from its blocks."""
    return PredictionFile(name, "probs", 2, num_rows, blocks, list(CLASS_NAMES), assumed=tuple(assumed), are_pairs=True)


def two_columns(scores: Tensor) -> Tensor:
    """(n, 2): wrong and right."""
    return torch.stack([1 - scores, scores], dim=1)


def _unit(cells: Sequence[Any], column: str, name: str) -> tuple[str, list[str]]:
    """Whether scores are probabilities, percent or logarithms, from the first of them, and the sentence about it."""
    numbers = [value for cell in cells if (value := _number(cell)) is not None]
    if not numbers:
        return "probability", []
    if roles.plain(column) in LOGARITHMS or (min(numbers) < -checks.UNIT_ROUNDING and max(numbers) <= 0):
        return "logarithm", [f"{name}: `{column}` is read as logarithms of probabilities, since none is above 0."]
    named = {"percent", "pct", "percentage"} & set(roles.plain(column).split("_")) or "%" in column
    if 1 + checks.UNIT_ROUNDING < max(numbers) <= SCALE and min(numbers) >= 0 and not named:
        raise SoftkinError(
            f"{name}: `{column}` goes up to {max(numbers):g}, as grades do, which are no probabilities; if it is a "
            "scale that ends at certainty, divide it by its highest grade, and if it is percent, by 100."
        )
    if 1 + checks.UNIT_ROUNDING < max(numbers) <= 100 and min(numbers) >= 0:
        return "percent", [f"{name}: `{column}` is read as percent, since it goes up to {max(numbers):g}."]
    return "probability", []


def _number(cell: Any) -> float | None:
    text = cell.strip().removeprefix("*") if isinstance(cell, str) else cell  # Weka's star
    is_percent = isinstance(text, str) and text.endswith("%")
    try:
        value = float(text[:-1]) / 100 if is_percent else float(text)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def _scores(cells: Sequence[Any], unit: str, column: str, where: Callable[[int], str]) -> Tensor:
    """(n,) confidences from 0 to 1."""
    values = []
    for row, cell in enumerate(cells):
        value = _number(cell)
        if value is None:
            raise SoftkinError(f"{where(row)}: `{column}` must hold a confidence in each row, got {cell!r}.")
        value = value / 100 if unit == "percent" else math.exp(min(value, 1.0)) if unit == "logarithm" else value
        if not -checks.UNIT_ROUNDING <= value <= 1 + checks.UNIT_ROUNDING:
            limits = {"percent": "from 0 to 100", "logarithm": "at most 0"}.get(unit, "from 0 to 1")
            raise SoftkinError(f"{where(row)}: `{column}` must be {limits}, got {cell}.")
        values.append(min(max(value, 0.0), 1.0))
    return torch.tensor(values, dtype=torch.float64)


def outcomes(cells: Sequence[Any], answers: Sequence[Any] | None, column: str, where: Callable[[int], str]) -> Tensor:
    """(n,) 1 where a pair is right; ``answers`` are right where they are the same as the cells."""
    if answers is not None:
        same = [spelling(cell) == spelling(answer) for cell, answer in zip(cells, answers, strict=True)]
        return torch.tensor(same, dtype=torch.int64)
    known = {cell: WORDS.get(spelling(cell)) for cell in set(cells)}
    found = [known[cell] for cell in cells]
    if None in found:
        place = found.index(None)
        raise SoftkinError(
            f"{where(place)}: `{column}` must say whether the answer was right, 0 or 1, got {cells[place]!r}."
        )
    return torch.tensor(found, dtype=torch.int64)
