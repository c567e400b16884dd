"""Predictions in tables: a column of lists, one column per class, or the single score of a binary model."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from softkin import SoftkinError
from softkin._core import checks
from softkin._core.names import spelling
from softkin._io import roles
from softkin._io.roles import Role, ScoreKind
from softkin._io.tables import Rows, Table
from softkin.predictions import harness, long_tables, multiple_choice, pairs, top_answers, truth_columns, unlabelled
from softkin.predictions.blocks import Beside, Block, PredictionFile
from softkin.predictions.inference import shown, sums_to_whole
from softkin.predictions.request import Reading
from softkin.predictions.truth_columns import Truth
from softkin.predictions.two_classes import PAIRS, plain

NO_CLASSES: tuple[Role, ...] = (
    "index", "id", "label", "prediction", "outcome", "score", "weight", "group", "time", "part", "measure",
)  # fmt: skip
"""Roles of columns that often stand beside the scores; such a column is a class only if labels or sums show it"""
FEW = 5  # rows: so few may sum to 1 by chance
LEAST = 20  # rows that show whether labels agree with scores
MANY = 2000  # columns: in more, no run of columns that sum to 1 is searched for
FAR = 10  # times as large as the numbers of known classes: a column of such numbers is no class


@dataclass(frozen=True)
class Columns:
    """The roles of the columns in a table with one column per class."""

    scores: list[str]
    class_names: list[str] | None
    kind: ScoreKind | None
    positive_class: str | None = None
    """The class that the name of a single column says it is of"""
    labels: str | None = None
    """The column of labels, where only the choice of the scores shows it"""
    assumed: list[str] = field(default_factory=list)


def from_table(table: Table, reading: Reading) -> PredictionFile:
    """The predictions in a table, whose columns get their roles by their names, the options, and their first cells."""
    notes = {}
    if roles.CALIBRATION in table.columns:
        said = next((cell for cell in table.head([roles.CALIBRATION])[roles.CALIBRATION] if cell is not None), None)
        notes = {} if said is None else {"calibration": str(said)}
        rest = {column: kind for column, kind in table.columns.items() if column != roles.CALIBRATION}
        table = replace(table, columns=rest)
    table = long_tables.widened(table, reading) or table
    calibrated = _calibrated(table, reading)
    if not calibrated:
        return replace(_around_names(table, reading) or _by_roles(table, reading), notes=notes)
    notes["calibrated_by"] = notes.get("calibration", "").partition(": ")[0] or "softkin"
    if calibrated == [roles.CALIBRATED_PAIR]:
        return replace(_by_roles(table, reading), notes=notes)
    found = _by_roles(table, replace(reading, class_columns=calibrated))
    names = [column.removeprefix(roles.CALIBRATED) for column in calibrated]
    return replace(found, notes=notes, class_names=names)


def _calibrated(table: Table, reading: Reading) -> list[str]:
    """The columns that ``softkin calibrate apply`` wrote, if the caller does not name others."""
    stated = (reading.class_columns, reading.positive_class, reading.score, reading.outcome)
    if any(option is not None for option in stated):
        return []
    if roles.CALIBRATED_PAIR in table.columns:
        return [roles.CALIBRATED_PAIR]
    numbers = [column for column in table.of_kind("number") if column not in reading.ignore_columns]
    found = [column for column in numbers if column.startswith(roles.CALIBRATED)]
    return found if len(found) > 1 and sums_to_whole(_matrix(table.head(found), found)) else []


def _around_names(table: Table, reading: Reading) -> PredictionFile | None:
    """The predictions of columns such as ``EST1_cat`` and ``EST1_dog`` beside texts such as "cat": names with more.

    None if the words of columns that are usual tell the classes, or the caller does.
    """
    stated = (reading.class_columns, reading.positive_class, reading.score, reading.outcome, reading.label_column)
    if any(option is not None for option in stated) or not table.has_header:
        return None
    columns = [column for column in table.columns if column not in reading.ignore_columns]
    numbers = [column for column in columns if table.columns[column] == "number"]
    usual = {spelling((roles.class_of(column) or ("", column))[1]) for column in numbers}
    found: dict[str, dict[str, str]] = {}
    for text in columns if len(numbers) <= MANY else ():
        if table.columns[text] != "text" or _has_role(text, "id", "text", "time", "part"):
            continue
        forms = {str(cell).strip().casefold() for cell in table.head([text])[text] if cell is not None}
        if len(forms) < 2 or {spelling(form) for form in forms} & usual:
            continue
        if called := _with_affix(numbers, forms):
            found[text] = called
    groups = {tuple(called) for called in found.values()}
    if len(groups) != 1:
        return None
    called = next(iter(found.values()))
    own = list(called)
    if roles.kind_in_words(own[0]) is None and not sums_to_whole(_matrix(table.head(own), own)):
        return None  # distances, ranks
    named = {column: spelling(name) for column, name in called.items()}
    labels = _whole_column(table, list(found), "label") or _the_true_one(table, list(found), named)
    if labels is None or reading.labels is not None:
        return None
    opened = _by_roles(table, replace(reading, class_columns=list(called), label_column=labels))
    names = list(called.values())
    why = f"its {len(names)} columns {shown(list(called))} are read as scores of the classes in `{labels}`"
    left = _left_out(table, columns, list(called), Beside(labels, _whole_column(table, columns, "id"), None))
    said = (f"{table.name}: {why}, {shown(names)} (--class-columns overrules).", *left)
    return replace(opened, class_names=names, assumed=(*opened.assumed, *said))


def _with_affix(columns: Sequence[str], forms: Set[str]) -> dict[str, str]:
    """The columns that hold a name of a class between the same letters, each with the name; all names must be there."""
    longest = max(forms, key=len)
    for column in columns:
        at = column.casefold().find(longest)
        before, after = column[:at].casefold(), column[at + len(longest) :].casefold()
        if at < 0 or not before + after:
            continue
        own = [
            other for other in columns
            if other.casefold().startswith(before) and other.casefold().endswith(after)
            and len(other) > len(before) + len(after)
        ]  # fmt: skip
        names = {other: other[len(before) : len(other) - len(after)].strip() for other in own}
        if forms <= {name.casefold() for name in names.values()} and len(names) <= 2 * len(forms) + 1:
            return names
    return {}


def _by_roles(table: Table, reading: Reading) -> PredictionFile:
    columns = [column for column in table.columns if column not in reading.ignore_columns]
    if harness.holds_samples(columns):
        return harness.from_table(table, reading)
    truth = _truth_in_columns(table, columns, reading)
    if truth is not None:
        return _of_truth(table, truth, columns, reading)
    single = [column for column in columns if table.columns[column] in ("number", "text")]
    parts = pairs.found(single, table.head, table.name, reading)
    if parts is not None and not (parts.why is not None and _has_classes(table, columns)):
        return pairs.from_table(table, parts, _whole_column(table, columns, "id"), reading)
    for option in ("class_columns", "ignore_columns"):
        for column in getattr(reading, option) or ():
            roles.chosen(list(table.columns), "label", column, option, table.name)
    labels, assumed = _label_column(table, columns, reading)
    ids = _whole_column(table, columns, "id")
    textual = [column for column in columns if table.columns[column] == "text" and column != labels]
    texts = reading.text_part(columns if reading.text_column else textual, table.name)
    beside = Beside(labels, ids, texts).among(columns, reading, table.name)
    table, beside = _labelled(table, beside, reading, columns)
    lists = [column for column in columns if table.columns[column] in ("list", "mapping") and column not in beside]
    named = _of_words(lists)
    if not named and reading.class_columns is None and not _prefixed(columns, beside):
        part = roles.find(lists, "answers")
        if part is not None:
            return top_answers.from_table(table, part, beside, reading)
        named = lists
    if named:
        vectors = _of_vectors(table, lists, beside, reading)
        return replace(vectors, assumed=(*vectors.assumed, *assumed))
    found = columns_of(table, columns, beside, reading)
    if beside.labels is None and found.labels is not None:
        table, beside = _labelled(table, replace(beside, labels=found.labels), reading, found.scores)
    if not reading.keep_unlabelled:
        table = unlabelled.left_out(table, found.scores, "score")

    def scores(rows: Rows) -> Tensor:
        return checks.as_tensor(rows.numbers(found.scores), "scores")

    table.claim(len(found.scores))
    blocks = _blocks(table, found.scores, beside, scores)
    is_single = len(found.scores) == 1
    return PredictionFile(
        table.name, found.kind, len(found.scores), table.num_rows, blocks, None if is_single else found.class_names,
        columns_named=found.class_names is not None, positive_class=found.positive_class,
        score_name=found.scores[0] if is_single else None, assumed=(*table.assumed, *assumed, *found.assumed),
        table=table, score_columns=tuple(found.scores),
    )  # fmt: skip


def _labelled(table: Table, beside: Beside, reading: Reading, columns: Sequence[str]) -> tuple[Table, Beside]:
    """The table without the rows that have no label; or, if all rows are to be kept, without labels."""
    if beside.labels is None:
        return table, beside
    numbers = [column for column in columns if table.columns[column] == "number" and column != beside.labels]
    names = [(roles.class_of(column) or ("", column))[1] for column in numbers]
    if len({spelling(name) for name in names} & set(_spelled(table, beside.labels))) < 2:
        names = []  # the columns are not called as the labels are
    if not reading.keep_unlabelled and reading.labels is None:
        return unlabelled.left_out(table, [beside.labels], "label", names, option=unlabelled.LABELS_ELSEWHERE), beside
    if not unlabelled.are_missing(table, beside.labels, names):
        return table, beside
    if reading.labels is not None:  # which are taken instead
        return table, replace(beside, labels=None)
    why = f"{table.name}: some rows have no label in `{beside.labels}`; all rows are kept, and nothing is measured."
    return replace(table, assumed=(*table.assumed, why)), replace(beside, labels=None)


def _has_classes(table: Table, columns: Sequence[str]) -> bool:
    """Whether there is a column for each class, beside a confidence and an outcome."""
    numbers = [c for c in columns if table.columns[c] == "number" and not _has_role(c, *NO_CLASSES, "confidence")]
    beside = Beside(_whole_column(table, columns, "label"), None, None)
    if len(numbers) < 2:
        return False
    if len(numbers) == _counted(table, beside) or _summing(table, numbers, table.head(numbers), beside)[0]:
        return True
    return len(_named_by_labels(table, numbers, beside, whole=False)[0]) > 1


def _truth_in_columns(table: Table, columns: list[str], reading: Reading) -> Truth | None:
    """The columns of truth, one for each class, if there is no column of labels and no option names one."""
    stated = (reading.label_column, reading.labels, reading.class_columns, reading.score, reading.outcome)
    if any(option is not None for option in (*stated, reading.positive_class)):
        return None
    called = _whole_column(table, columns, "label")
    truth = truth_columns.found(table, columns) if called is None else None
    if truth is None or truth.kind != "several":
        return truth
    if not truth.is_called:
        return None
    raise SoftkinError(
        f"{table.name}: {truth.why}; `softkin evaluate --multi-label` measures such files, and "
        "`calibrators.PerLabel` repairs such scores in Python."
    )


def _of_truth(table: Table, truth: Truth, columns: Sequence[str], reading: Reading) -> PredictionFile:
    """The predictions of a table with a column of truth for each class."""
    ids = _whole_column(table, [column for column in columns if column not in truth], "id")
    textual = [column for column in columns if table.columns[column] == "text" and column not in truth]
    beside = Beside(None, ids, reading.text_part(textual, table.name)).among(columns, reading, table.name)

    def blocks(count: int) -> Iterator[Block]:
        for rows in table.read(count, truth.scores, [*dict.fromkeys([*truth.truths, *beside.columns])]):
            scores = checks.as_tensor(rows.numbers(truth.scores), "scores")
            _, known, texts = beside.of(rows)
            yield Block(scores, truth.read(rows), known, texts, **beside.about(rows))

    left = _left_out(table, [column for column in columns if column not in truth.truths], truth.scores, beside)
    return PredictionFile(
        table.name, reading.kind or truth.kind_of_scores or kind_by_name(table.name, reading),
        len(truth.scores), table.num_rows, blocks, truth.names,
        assumed=(*table.assumed, f"{table.name}: {truth.why} (--label-column overrules).", *left),
        table=table, score_columns=tuple(truth.scores),
    )  # fmt: skip


def _of_words(columns: Sequence[str]) -> list[str]:
    """The columns that are called ``logits``, ``probs`` and so on."""
    return [column for column in columns if any(column.lower() in words for words in roles.KINDS.values())]


def _blocks(
    table: Table, numbers: Sequence[str], beside: Beside, scores: Callable[[Rows], Tensor]
) -> Callable[[int], Iterator[Block]]:
    """Blocks of a table; ``scores`` extracts the (n, K) scores of some rows."""

    def blocks(count: int) -> Iterator[Block]:
        for rows in table.read(count, numbers, beside.columns):
            yield Block(scores(rows), *beside.of(rows), **beside.about(rows))

    return blocks


# The columns beside the scores


def _label_column(table: Table, columns: list[str], reading: Reading) -> tuple[str | None, list[str]]:
    """The column of labels: the stated one, one of a usual name, or one whose texts are names of columns."""
    if reading.label_column is not None:
        return reading.label_part(columns, table.name), []
    if not table.has_header:
        return _label_by_its_cells(table, columns) if reading.labels is None else (None, [])
    called = _whole_column(table, columns, "label")
    if reading.labels is not None or (called is not None and table.columns[called] != "text"):
        return called, []
    classes = {spelling((roles.class_of(column) or ("", column))[1]) for column in columns}
    texts = [column for column in columns if table.columns[column] == "text"]
    if called is None and (other := _like_predictions(table, texts) or _of_outcomes(table, texts)) is not None:
        return other
    head = table.head(texts) if texts else {}
    found = []
    for column in texts:
        values = {spelling(cell) for cell in head[column] if isinstance(cell, str)}
        if values and values <= classes - {spelling(column)}:
            found.append(column)
    if called in found or not found:
        return called, []
    true = _the_true_one(table, found)
    if true is None:
        return called, []
    return true, [f"{table.name}: `{true}` is read as the labels, since it holds names of columns."]


def _like_predictions(table: Table, texts: Sequence[str]) -> tuple[str, list[str]] | None:
    """The column of texts with the same words as the column of predictions, and the sentence about it.

    Or the column that a column of predictions is called after: ``species`` beside ``predicted_species``.
    """
    named = {roles.plain(column): column for column in texts}
    for column in texts:
        own = named.get(roles.guessed_of(column) or "")
        if own is not None and roles.role_of(own) is None and _forms(table, column) <= _forms(table, own):
            why = f"`{own}` is read as the labels, since `{column}` is called after it (--label-column overrules)."
            return own, [f"{table.name}: {why}"]
    guessed = roles.find(texts, "prediction")
    if guessed is None or any(spelling(column) in _forms(table, guessed) for column in table.columns):
        return None
    forms = _forms(table, guessed)
    same = [column for column in texts if column != guessed and len(forms) > 1 and _forms(table, column) == forms]
    if len(same) != 1 or roles.role_of(same[0]) is not None:
        return None
    why = f"`{same[0]}` is read as the labels, since it holds the words of `{guessed}` (--label-column overrules)."
    return same[0], [f"{table.name}: {why}"]


def _of_outcomes(table: Table, texts: Sequence[str]) -> tuple[str, list[str]] | None:
    """The column called an outcome, if it holds two words, and the sentence about it."""
    found = roles.find(texts, "outcome")
    if found is None or len(_forms(table, found)) != 2:
        return None
    why = f"`{found}` is read as the labels, since it holds two values (--label-column overrules)."
    return found, [f"{table.name}: {why}"]


def _the_true_one(table: Table, columns: Sequence[str], called: Mapping[str, str] | None = None) -> str | None:
    """The column that holds the truth, of those whose cells are names of classes: predictions, readers' opinions.

    One that names the class of the highest score in every row is taken for predictions. None if all are predictions.
    ``called`` has the class of each column of scores, if its name does not tell.
    """
    name = table.name
    rest = [c for c in columns if roles.leaning(c) != "prediction" and not _has_role(c, "prediction")]
    if not rest:
        return None
    true = [column for column in rest if roles.leaning(column) == "label"] or rest
    if len(true) > 1:
        winning = _winners(table, called)
        true = [column for column in true if not winning or _spelled(table, column) != winning] or true
    if len(true) == 1:
        return true[0]
    options = " or ".join(f'--label-column "{column}"' for column in true[:3])
    raise SoftkinError(
        f"{name} has {len(true)} columns that hold names of classes; say which are the labels: {options}."
    )


def _spelled(table: Table, column: str) -> list[str]:
    return [spelling(cell) for cell in table.head([column])[column]]


def _winners(table: Table, called: Mapping[str, str] | None = None) -> list[str]:
    """The name of the class with the highest score in each of the first rows, if some column of texts names classes."""
    numbers = [column for column, kind in table.columns.items() if kind == "number"]
    usual = {column: spelling((roles.class_of(column) or ("", column))[1]) for column in numbers}
    called = usual if called is None else called
    numbers = [column for column in numbers if column in called]
    texts = {form for column, kind in table.columns.items() if kind == "text" for form in _spelled(table, column)}
    scores = [column for column in numbers if called[column] in texts]
    values = _matrix(table.head(scores), scores) if len(scores) > 1 else torch.empty(0, 0)
    if len(values) < LEAST or not bool(torch.isfinite(values).all()):
        return []
    return [called[scores[place]] for place in values.argmax(dim=1).tolist()]


def _label_by_its_cells(table: Table, columns: Sequence[str]) -> tuple[str | None, list[str]]:
    """The column of labels in a table without names: the only one of texts, or of whole numbers that do not count."""
    head = table.head(columns)
    texts = [column for column in columns if table.columns[column] == "text"]
    whole = [column for column in columns if table.columns[column] == "number" and _is_whole(head[column])]
    fractions = [column for column in columns if column not in texts and column not in whole]
    found = texts or [column for column in whole if not counts_rows(head[column])]
    if not fractions or not found:
        return None, []
    if len(found) > 1:  # ids and names of files are no labels
        found = [column for column in found if _may_be_labels(head[column], len(fractions))] or found
    if len(found) > 1:
        raise SoftkinError(
            f"{table.name} has no header, and {' and '.join(found[:3])} may be its labels; name one with "
            f'--label-column "{found[-1]}" and leave the others out with --ignore-columns "{found[0]}".'
        )
    what = "texts" if texts else "whole numbers"
    return found[0], [f"{table.name}: {found[0]} is read as the labels, since it alone holds {what}."]


def _may_be_labels(cells: Sequence[Any], num_classes: int) -> bool:
    """Whether there are no more kinds of cells than classes; numbers are from 0 or 1 on."""
    forms = {plain(cell) for cell in cells if cell is not None}
    return len(forms) <= num_classes and all(int(form) <= num_classes for form in forms if form.isdigit())


def counts_rows(cells: Sequence[Any]) -> bool:
    """Whether whole numbers count the rows, each one more than the last."""
    there = [float(cell) for cell in cells if cell is not None]
    return len(there) > 2 and all(b - a == 1 for a, b in pairwise(there))


def _whole_column(table: Table, columns: Sequence[str], role: Role) -> str | None:
    """The column that plays a role by its name, unless it holds fractions, as only scores do, or lists."""
    left = list(columns)
    while (column := roles.find(left, role)) is not None:
        kind = table.columns[column]
        if kind == "text" or (kind == "number" and _is_whole(table.head([column])[column])):
            return column
        left.remove(column)
    return None


def _is_whole(cells: Sequence[Any]) -> bool:
    return all(cell is None or float(cell).is_integer() for cell in cells)


# One column of lists


def _of_vectors(table: Table, lists: Sequence[str], beside: Beside, reading: Reading) -> PredictionFile:
    """A column of lists, or of numbers by class name."""
    if "" in lists:  # an array of rows, whose file's name alone may say what it holds
        part, kind = "", kind_by_name(table.name, reading)
    else:
        part, kind = choose(lists, lists, reading.kind, table.name)
    first = next(iter(table.head([part])[part]), None)
    if not isinstance(first, list | dict) or not first:
        raise SoftkinError(
            f"{table.name}: `{part}` must be a list of numbers, or numbers by class name, got {first!r:.50}."
        )
    names, width = list(first) if isinstance(first, dict) else None, len(first)
    if names is None and isinstance(first, list):
        ends = multiple_choice.widths(table, part)
        if ends[0] != ends[1]:
            return multiple_choice.from_table(table, part, kind, beside, reading, ends)
    table.claim(width)

    def scores(rows: Rows) -> Tensor:
        return checks.as_tensor(rows.vectors(part, names, width), part or "the array")

    blocks = _blocks(table, (), beside.with_scores(part), scores)
    class_names = None if width == 1 else names or table.names_of(beside.labels)
    return PredictionFile(
        table.name, kind, width, table.num_rows, blocks, class_names, columns_named=names is not None,
        score_name=part or None, assumed=table.assumed, table=table, score_columns=(part,),
    )  # fmt: skip


def choose(
    present: Sequence[str], others: Sequence[str], kind: ScoreKind | None, name: str
) -> tuple[str, ScoreKind | None]:
    """The part that holds the scores, and the kind of scores that its name or the caller states.

    Args:
        present: The names of all parts.
        others: The names of parts that could hold scores although their names do not say so.
        kind: The kind that the caller states.
        name: The file's name, for the error.
    """
    clear: list[tuple[str, ScoreKind]] = [
        (part, said) for said, names in roles.KINDS.items() for part in present if part.lower() in names
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
    if len(others) == 1:
        return others[0], kind
    held = ", ".join(present) or "nothing"
    raise SoftkinError(f"{name} must hold `logits` or `probs`, it holds {held}.")


def kind_by_name(name: str, reading: Reading) -> ScoreKind | None:
    """The kind of scores that the caller states, or else the file's name."""
    said = roles.kind_in_words(Path(name).stem)
    if reading.kind is not None and said not in (None, reading.kind):
        raise SoftkinError(f"{name} is said to hold {reading.kind} (--{reading.kind}), but its name says {said}.")
    return reading.kind or said


# One column per class


def columns_of(table: Table, columns: Sequence[str], beside: Beside, reading: Reading) -> Columns:
    """The columns of scores: the stated ones, those with a word as in ``probs_cat``, or those that can be classes."""
    name = table.name
    if reading.class_columns is not None:
        stated = list(reading.class_columns)
        called = [(roles.class_of(column) or ("", column))[1] for column in stated]
        return Columns(stated, called, _kind_of_columns(name, stated, reading))
    numbers = [column for column in columns if table.columns[column] == "number" and column not in beside]
    head = table.head(numbers)
    if reading.positive_class is not None and len(_scores(numbers, head, set())) == 1:
        return _one_score(table, columns, numbers, head, beside, reading)
    if not table.has_header:
        whole = [column for column in numbers if _is_whole(head[column])]
        ids = [column for column in whole if counts_rows(head[column])]
        if len(whole) < len(numbers):
            ids += [column for column in whole if column not in ids and _is_odd(head[column], (), ())]
        scores = [column for column in numbers if column not in ids]
        return Columns(scores, None, kind_by_name(name, reading), assumed=_left_out(table, columns, scores, beside))
    kind, said = (reading.kind, []) if reading.kind is not None else _both_kinds(table, columns, beside)
    prefixed = _narrowed(table, _prefixed(columns, beside, kind, name), beside)
    answers = _answers(table, columns, numbers, head, beside)
    if len(prefixed) > 1 and _is_clear(table, prefixed, columns, beside):
        _refuse_several_models(table, prefixed, head, beside, answers)
        word = next(iter(prefixed.values()))[0]
        word_says = roles.kind_of_word(word)
        if reading.kind is not None and word_says not in (None, reading.kind):
            raise SoftkinError(
                f"{name} is said to hold {reading.kind} (--{reading.kind}), but its columns' names say {word_says}."
            )
        called = _by_number([known for _, known in prefixed.values()], _forms(table, beside.labels))
        return _with_labels(
            table, columns, Columns(list(prefixed), called, word_says or kind, assumed=said), beside, reading
        )
    candidates = [column for column in numbers if column not in answers]
    if _is_binary(table, candidates, head, beside, answers):
        return _one_score(table, columns, numbers, head, beside, reading)
    classes = _classes(table, candidates, head, beside)
    if len(classes) < 2:
        return _one_score(table, columns, numbers, head, beside, reading)
    return _with_labels(table, columns, Columns(classes, classes, kind_by_name(name, reading)), beside, reading)


def _by_number(called: list[str], labels: Set[str]) -> list[str]:
    """Classes that are called by a word and a number, beside numbered labels: the numbers, if places would mislead.

    ``churn1`` before ``churn0``, as SAS writes them, are classes 1 and 0.
    """
    parts = [re.fullmatch(r"(.*?)_?(\d+)", name) for name in called]
    if not all(label.isdigit() for label in labels) or not all(parts):
        return called
    words, numbers = ([part[place] for part in parts if part] for place in (1, 2))
    ordered = [[str(k + first) for k in range(len(called))] for first in (0, 1)]
    known = len(set(words)) == 1 and len(set(numbers)) == len(called) and numbers not in ordered
    return numbers if known and labels <= set(numbers) else called


def _refuse_several_models(
    table: Table, prefixed: Mapping[str, Any], head: Mapping[str, Sequence[Any]], beside: Beside, answers: Sequence[str]
) -> None:
    """Refuse columns such as ``v2_prob`` and ``v3_prob`` that are scores of the same class by several models."""
    if not all(column in head and _are_fractions(head[column]) for column in prefixed):
        return
    values = _matrix(head, list(prefixed))
    known = {spelling(class_name) for _, class_name in prefixed.values()}
    if len(values) < FEW or float((values.sum(dim=1) - 1).abs().max()) <= checks.MOST_ROUNDING:
        return
    labels = _forms(table, beside.labels or (answers[0] if len(answers) == 1 else None))
    if len(labels) == 2 and not labels & known and not all(name.isdigit() for name in known):
        options = " or ".join(f"--class-columns {column}" for column in list(prefixed)[:3])
        raise SoftkinError(
            f"{table.name} has labels of two kinds and {len(prefixed)} scores that do not sum to 1, as several models "
            f"have; take one with {options}."
        )


def _forms(table: Table, column: str | None) -> set[str]:
    """The different cells of a column's first rows, in their plain form."""
    return set() if column is None else {plain(cell) for cell in table.head([column])[column] if cell is not None}


def _is_binary(
    table: Table, numbers: Sequence[str], head: Mapping[str, Sequence[Any]], beside: Beside, answers: Sequence[str]
) -> bool:
    """Whether one column alone can be the score of a binary model, and the other numbers are features.

    Labels are then of two kinds, the score is from 0 to 1, and no columns sum to 1 or are called as the labels are.
    """
    scores = _scores(numbers, head, set())
    if len(scores) != 1 or not _are_fractions(head[scores[0]]):
        return False
    is_called = roles.role_of(scores[0]) == "score" or roles.class_of(scores[0]) is not None
    if (len(head[scores[0]]) < LEAST and not is_called) or _summing(table, numbers, head, beside)[0]:
        return False
    if len(_named_by_labels(table, numbers, beside, whole=False)[0]) > 1:
        return False
    return bool(answers) if beside.labels is None else len(_forms(table, beside.labels)) == 2


def _with_labels(table: Table, columns: Sequence[str], found: Columns, beside: Beside, reading: Reading) -> Columns:
    """The columns of scores, with labels that agree with them if no column was named, and what is left out."""
    why: list[str] = []
    if beside.labels is None and reading.labels is None:
        labels, why = _agreeing(table, columns, found, beside)
        found, beside = replace(found, labels=labels), replace(beside, labels=labels)
    return replace(found, assumed=[*found.assumed, *why, *_left_out(table, columns, found.scores, beside)])


def _agreeing(table: Table, columns: Sequence[str], found: Columns, beside: Beside) -> tuple[str | None, list[str]]:
    """The only column of class numbers or names that agrees with the highest scores more than by chance.

    One that agrees in every row may hold predictions, so it is not taken.
    """
    flag = _flag_of_second(table, columns, found)
    if flag is not None:
        why = f"`{flag}` is read as the labels, 1 for the second of the two classes (--label-column overrules)."
        return flag, [f"{table.name}: {why}"]
    values = _matrix(table.head(found.scores), found.scores)
    if len(values) < LEAST or not bool(torch.isfinite(values).all()):
        return None, []
    winning = values.argmax(dim=1).tolist()
    passed = {}
    for column in columns:
        usable = table.columns[column] in ("number", "text") and column not in found.scores and column not in beside
        if not usable or _has_role(column, *(set(NO_CLASSES) - {"label"})) or roles.leaning(column) == "prediction":
            continue
        if len(found.scores) > 2 and len(_forms(table, column)) < 3:
            continue  # a flag, or the truth of one class
        numbers = _as_numbers(table.head([column])[column], found.class_names, len(found.scores))
        same = sum(a == b for a, b in zip(numbers, winning, strict=False))
        if len(numbers) == len(winning) and same < len(winning) and same > _by_chance(numbers, winning):
            passed[column] = same
    if len(passed) > 1:
        which = " or ".join(f"`{column}`" for column in list(passed)[:3])
        return None, [f"{table.name}: {which} may be the labels: name one with --label-column."]
    if not passed:
        return None, []
    column, same = passed.popitem()
    return column, [
        f"{table.name}: `{column}` is read as the labels, since it is the class with the highest score in {same} of "
        f"the first {len(winning)} rows (--label-column overrules)."
    ]


def _flag_of_second(table: Table, columns: Sequence[str], found: Columns) -> str | None:
    """The column of zeros and ones that is called after the second of two classes, such as ``is_spam``."""
    if found.class_names is None or len(found.scores) != 2:
        return None
    second = roles.plain(found.class_names[1])
    flags = [
        c for c in columns if c not in found.scores and roles.plain(c) in (second, f"is_{second}", f"was_{second}")
    ]
    return flags[0] if len(flags) == 1 and _forms(table, flags[0]) == {"0", "1"} else None


def _as_numbers(cells: Sequence[Any], names: Sequence[str] | None, num_classes: int) -> list[int]:
    """Cells as the classes that they would be as labels; empty if they cannot be."""
    forms = [plain(cell) for cell in cells if cell is not None]
    kinds = set(forms)
    are_numbered = names is None or all(name.isdigit() for name in names)
    if all(form.isdigit() for form in forms):
        place = {name: k for k, name in enumerate(names or ())} if are_numbered else {}
        if not kinds <= set(place):
            first = int(not kinds & {"0"} and str(num_classes) in kinds)
            place = {str(k + first): k for k in range(num_classes)}
    else:
        place = {form: k for k, form in enumerate(sorted(kinds))} if are_numbered and len(kinds) == num_classes else {}
    return [place[form] for form in forms] if len(kinds) > 1 and kinds <= set(place) else []


def _by_chance(first: Sequence[int], second: Sequence[int]) -> float:
    """The largest number of rows in which two unrelated columns would agree: three standard deviations."""
    n = len(first)
    share = sum(first.count(k) * second.count(k) for k in set(first)) / n**2
    return n * share + 3 * math.sqrt(n * share * (1 - share))


def _answers(
    table: Table, columns: Sequence[str], numbers: Sequence[str], head: Mapping[str, Sequence[Any]], beside: Beside
) -> list[str]:
    """The columns that may be the labels of a binary model; none if labels are known.

    They are of 0 and 1, of yes and no, or of two words, one of which a score is called after: ``prob_bad``.
    """
    if beside.labels is not None or sums_to_whole(_matrix(head, numbers)):
        return []
    texts = [column for column in columns if table.columns[column] == "text" and column not in beside]
    cells = {**{column: head[column] for column in numbers}, **(table.head(texts) if texts else {})}
    kinds = {column: {plain(cell) for cell in cells[column] if cell is not None} for column in cells}
    named = {spelling(parts[1]) for column in numbers if (parts := roles.class_of(column))}
    found = [
        column
        for column, forms in kinds.items()
        if not _has_role(column, *(set(NO_CLASSES) - {"label"}))
        and (any(forms == set(pair) for pair in PAIRS) or (len(forms) == 2 and len(forms & named) == 1))
    ]
    return [column for column in found if roles.leaning(column) != "prediction"] or found


def _has_role(column: str, *wanted: Role) -> bool:
    return roles.role_of(column) in wanted


def _kind_of_columns(name: str, columns: Sequence[str], reading: Reading) -> ScoreKind | None:
    said = {roles.kind_of_word(found[0]) for column in columns if (found := roles.class_of(column))}
    return reading.kind or (said.pop() if len(said) == 1 else None) or kind_by_name(name, reading)


def _prefixed(
    columns: Sequence[str], beside: Beside, kind: ScoreKind | None = None, name: str | None = None
) -> dict[str, tuple[str, str]]:
    """The columns of scores with a prefix, each with (prefix, class name); all others are then ignored.

    ``name`` refuses columns of logits beside columns of probabilities, unless ``kind`` states which.
    """
    found = {
        column: parts for column in columns if column not in beside and (parts := roles.class_of(column)) is not None
    }
    strong: dict[ScoreKind, dict[str, tuple[str, str]]] = {"logits": {}, "probs": {}}
    weak: dict[str, dict[str, tuple[str, str]]] = {}
    for column, parts in found.items():
        said = None if roles.is_weak(parts[0]) else roles.kind_in_words(parts[0])
        group = weak.setdefault(parts[0], {}) if said is None else strong[said]
        group[column] = parts
    if all(strong.values()) and kind is None and name is not None:
        raise SoftkinError(f"{name} holds columns of logits and of probs; type --logits or --probs to say which.")
    if any(strong.values()):
        return strong[kind] if kind and strong[kind] else next(group for group in strong.values() if group)
    largest = max(weak.values(), key=len, default={})
    return largest if len(largest) > 1 else {}


def _both_kinds(table: Table, columns: Sequence[str], beside: Beside) -> tuple[ScoreKind | None, list[str]]:
    """Logits, if a table also has the probabilities that follow from them; neither if it does not have both."""
    by_kind = [_prefixed(columns, beside, kind) for kind in ("logits", "probs")]
    logits, probs = ({known: column for column, (_, known) in found.items()} for found in by_kind)
    if len(logits) < 2 or logits.keys() != probs.keys() or by_kind[0] == by_kind[1]:
        return None, []
    if any(table.columns[column] != "number" for found in by_kind for column in found):
        return None, []
    z, p = (_matrix(table.head(list(found.values())), list(found.values())) for found in (logits, probs))
    order = [list(probs).index(known) for known in logits]
    if not len(z) or not torch.allclose(z.softmax(dim=1), p[:, order], rtol=0, atol=0.005 + 1e-6):
        return None, []
    return "logits", [f"{table.name}: the logits are read, from which the probabilities follow (--probs overrules)."]


def _narrowed(table: Table, prefixed: dict[str, tuple[str, str]], beside: Beside) -> dict[str, tuple[str, str]]:
    """The columns with a word without those that no label names, if only then the rows sum to 1: ``max_prob``."""
    if len(prefixed) < 3 or beside.labels is None or any(table.columns[column] != "number" for column in prefixed):
        return prefixed
    head = table.head(list(prefixed))
    labels = {spelling(cell) for cell in table.head([beside.labels])[beside.labels] if cell is not None}
    named = {column: parts for column, parts in prefixed.items() if spelling(parts[1]) in labels}
    is_whole = len(named) > 1 and sums_to_whole(_matrix(head, list(named)))
    return named if is_whole and not sums_to_whole(_matrix(head, list(head))) else prefixed


def _is_clear(table: Table, prefixed: Mapping[str, tuple[str, str]], columns: Sequence[str], beside: Beside) -> bool:
    """Whether a prefix shows the classes: it says what scores are, or labels or the lack of other scores confirm it."""
    if not roles.is_weak(next(iter(prefixed.values()))[0]):
        return True
    if any(table.columns[column] != "number" for column in prefixed):
        return False
    if sums_to_whole(_matrix(table.head(list(prefixed)), list(prefixed))):
        return True
    rest = [column for column in columns if column not in prefixed and column not in beside]
    numbers = [column for column in rest if table.columns[column] == "number" and not _has_role(column, *NO_CLASSES)]
    if all(map(_is_whole, table.head(numbers).values())):
        return True
    labels = [] if beside.labels is None else table.head([beside.labels])[beside.labels]
    known = {spelling(class_name) for _, class_name in prefixed.values()}
    return bool(labels) and all(spelling(label) in known for label in labels)


def _classes(table: Table, numbers: Sequence[str], head: Mapping[str, Sequence[Any]], beside: Beside) -> list[str]:
    """The columns of numbers that can be classes, by the sums of rows, the labels, and what the numbers look like.

    Raises:
        SoftkinError: Some columns look unlike the others, and nothing shows whether they are classes.
    """
    classes, rest, odd, is_complete = _summing(table, numbers, head, beside)
    if classes:
        return classes
    if odd and not is_complete and len(rest) > 1:
        raise SoftkinError(
            f"{table.name} has columns that may be no classes, {shown(odd)}, beside {shown(rest)}; name the columns of "
            f"classes with --class-columns, or leave these out with --ignore-columns {','.join(odd[:3])}."
        )
    return rest


def _summing(
    table: Table, numbers: Sequence[str], head: Mapping[str, Sequence[Any]], beside: Beside
) -> tuple[list[str], list[str], list[str], bool]:
    """(columns whose rows sum to a whole, those that can be classes, those that look unlike them, if labels name all).

    A whole is 1 or 100; the first is empty if no columns do.
    """
    if sums_to_whole(_matrix(head, numbers)):
        return list(numbers), list(numbers), [], False
    suspects = [column for column in numbers if _has_role(column, *NO_CLASSES)]
    named, is_complete = _named_by_labels(table, numbers, beside, whole=bool(suspects))
    usual = [column for column in numbers if column not in suspects or column in named]
    odd = [
        c
        for c in usual
        if c not in named and _is_odd(head[c], [head[k] for k in named or usual if k != c], [head[k] for k in usual])
    ]
    odd = [] if len(odd) == len(usual) else odd
    if not odd and not named and _counted(table, beside) == len(usual) - 1:
        odd = _always_first(head, usual)
    rest = [column for column in usual if column not in odd]
    is_complete = is_complete or (bool(odd) and _counted(table, beside) == len(rest))
    for candidates in (usual, rest, named if is_complete else [], _run_of_one(head, rest)):
        if len(candidates) > 1 and sums_to_whole(_matrix(head, candidates)):
            return candidates, rest, odd, is_complete
    return [], rest, odd, is_complete


def _always_first(head: Mapping[str, Sequence[Any]], columns: Sequence[str]) -> list[str]:
    """The column whose number is the largest in every row, as that of an age is beside scores."""
    values = _matrix(head, columns)
    if len(values) < LEAST or len(columns) < 3 or not bool(torch.isfinite(values).all()):
        return []
    first = values.argmax(dim=1)
    return [columns[int(first[0])]] if bool((first == first[0]).all()) else []


def _counted(table: Table, beside: Beside) -> int:
    """How many classes the first labels count, from 0 or, if all of them occur, from 1; 0 if they are no numbers."""
    forms = _forms(table, beside.labels)
    if not forms or not all(form.isdigit() for form in forms):
        return 0
    found = {int(form) for form in forms}
    return max(found) if found == set(range(1, max(found) + 1)) else max(found) + 1


def _run_of_one(head: Mapping[str, Sequence[Any]], columns: Sequence[str]) -> list[str]:
    """The longest run of neighbouring columns whose rows sum to 1 or 100, if there is one; a few could by chance."""
    if not 2 < len(columns) <= MANY:
        return []
    values = _matrix(head, columns)
    if len(values) < FEW or not bool(torch.isfinite(values).all()) or float(values.min()) < 0:
        return []
    sums = torch.cat([torch.zeros(len(values), 1, dtype=torch.float64), values.cumsum(dim=1)], dim=1)
    for length in range(len(columns) - 1, 1, -1):
        runs = sums[:, length:] - sums[:, :-length]
        off = torch.minimum((runs - 1).abs().amax(dim=0), (runs / 100 - 1).abs().amax(dim=0))
        starts = [start for start in (off <= checks.MOST_ROUNDING).nonzero().flatten().tolist()
                  if sums_to_whole(values[:, start : start + length])]  # fmt: skip
        if starts:
            return list(columns[starts[0] : starts[0] + length]) if len(starts) == 1 else []
    return []


def _matrix(head: Mapping[str, Sequence[Any]], columns: Sequence[str]) -> Tensor:
    cells = [[float("nan") if cell is None else float(cell) for cell in head[column]] for column in columns]
    values = torch.tensor(cells, dtype=torch.float64).T if cells else torch.empty(0, 0)
    return values[~values.isnan().all(dim=1)] if values.numel() else values  # a row without any score is left out


def _named_by_labels(table: Table, numbers: Sequence[str], beside: Beside, *, whole: bool) -> tuple[list[str], bool]:
    """The columns that are called as labels are, and whether every label has one; ``whole`` reads all labels."""
    if beside.labels is None:
        return [], False
    cells = (cell for (cell,) in table.cells(beside.labels)) if whole else table.head([beside.labels])[beside.labels]
    labels = {spelling(cell) for cell in cells if cell is not None}
    named = [column for column in numbers if spelling(column) in labels]
    return named, bool(named) and labels == {spelling(column) for column in named}


def _is_odd(cells: Sequence[Any], known: Sequence[Sequence[Any]], others: Sequence[Sequence[Any]]) -> bool:
    """Whether numbers look unlike scores.

    They do if all are whole, and beyond 0 and 1 or beside columns of fractions; or if they are far larger than those of
    known classes, or of the other columns where no class is known.
    """
    there = [abs(float(cell)) for cell in cells if cell is not None]
    if not there:
        return False
    if _is_whole(cells):
        return max(there) > 1 or sum(not _is_whole(other) for other in others) > 1
    largest = max((abs(float(cell)) for other in known for cell in other if cell is not None), default=0.0)
    return 0 < FAR * largest < max(there) and max(there) > 1


def _left_out(table: Table, columns: Sequence[str], classes: Sequence[str], beside: Beside) -> list[str]:
    """A sentence about the columns that play no role, if there are any."""
    taken = {*classes, *beside.columns}
    left = [column for column in columns if column not in taken and not _has_role(column, "index")]
    if not left:
        return []
    labels = "" if beside.labels else "; a column of labels is named by --label-column"
    read = f"{len(classes)} columns are read as classes, {shown(classes)}; " if len(classes) > 1 else ""
    return [f"{table.name}: {read}left out: {shown(left, 10)} (--class-columns overrules{labels})."]


# One score for each sample of a binary model


def _one_score(
    table: Table,
    columns: Sequence[str],
    numbers: Sequence[str],
    head: Mapping[str, Sequence[Any]],
    beside: Beside,
    reading: Reading,
) -> Columns:
    """The single column of a binary model's scores; ``two_classes`` finds out which class they are of."""
    name = table.name
    answers = _answers(table, columns, numbers, head, beside)
    scores = _scores(numbers, head, set(answers))
    if len(scores) == 1 and answers:
        rising = [answer for answer in answers if _rises(table, answer, head[scores[0]])]
        if len(rising) == 1:
            answers = rising
        elif len(answers) == 1:
            answers += _of_two_words(table, columns, answers[0])
    if len(scores) == 1 and not answers and beside.labels is None and reading.labels is None:
        told = [c for c in _of_two_words(table, columns) if _rises(table, c, head[scores[0]])]
        answers = told if len(told) == 1 else []
    labels = beside.labels or (answers[0] if len(answers) == 1 else None)
    one_of = _of_more(table, columns, scores, beside) if labels is None and not answers else None
    labels = labels if one_of is None else one_of[0]
    if len(scores) != 1 or (len(answers) > 1 and labels is None):
        raise _not_one(table, columns, scores, answers, reading)
    column = scores[0]
    if roles.plain(column) == "confidence" and reading.positive_class is None:
        raise _not_one(table, columns, scores, answers, reading)
    if not _may_be_scores(table, column, head[column], reading):
        raise SoftkinError(
            f"{name}: is `{column}` a score? Neither its name nor its numbers say so; if it is, type --positive-class, "
            "the class that it is the score of, with --logits or --probs."
        )
    word, known = roles.class_of(column) or ("", column)
    said = roles.kind_in_words(column) or roles.kind_of_word(word)
    if reading.kind is not None and said not in (None, reading.kind):
        raise SoftkinError(f"{name} is said to hold {reading.kind} (--{reading.kind}), but `{column}` says {said}.")
    kind = reading.kind or said or roles.kind_in_words(Path(name).stem)
    why = []
    if labels is not None and beside.labels is None:
        holds = "two values" if one_of is None else f"{one_of[1]}, which `{column}` is called after"
        why.append(f"{name}: `{labels}` is read as the labels, since it holds {holds} (--label-column overrules).")
    taken = replace(beside, labels=labels)
    positive = known if word or labels else None
    if one_of is not None:
        positive = one_of[1]
    elif labels is not None and plain(known) not in _forms(table, labels):
        positive = _answered(table, columns, head[column], labels) or _by_letter(table, labels, known) or positive
    return Columns([column], [known], kind, positive, labels, [*why, *_left_out(table, columns, [column], taken)])


def _by_letter(table: Table, labels: str, known: str) -> str | None:
    """The label that is the first letter of the class that a score is called after, if all labels are letters."""
    forms = _forms(table, labels)
    letter = plain(known)[:1]
    return letter if letter in forms and all(len(form) == 1 and form.isalpha() for form in forms) else None


def _of_more(table: Table, columns: Sequence[str], scores: Sequence[str], beside: Beside) -> tuple[str, str] | None:
    """(column, label) of labels of three kinds or more, of which a score's name says one, such as H of ``home_win``."""
    if len(scores) != 1 or (parts := roles.class_of(scores[0])) is None:
        return None
    known = plain(parts[1])
    found = []
    for column in columns:
        if table.columns[column] != "text" or column in beside or _has_role(column, "id", "text", "time", "prediction"):
            continue
        cells = {plain(cell): str(cell).strip() for cell in table.head([column])[column] if cell is not None}
        if 2 < len(cells) <= FEW:
            letters = all(len(form) == 1 for form in cells)
            form = known if known in cells else known[:1] if letters else ""
            found += [(column, cells[form])] if form in cells else []
    return found[0] if len(found) == 1 else None


def _may_be_scores(table: Table, column: str, cells: Sequence[Any], reading: Reading) -> bool:
    """Whether a column may be taken for a score unasked: from 0 to 1, as log-odds are, or with a name that says so.

    Prices and lengths are none of these, though they may be from 0 to 100 as percent are.
    """
    stated = (reading.positive_class, reading.kind, roles.kind_in_words(Path(table.name).stem))
    if any(option is not None for option in stated) or _are_fractions(cells) or not table.has_header:
        return True
    if any(cell is not None and float(cell) < 0 for cell in cells):
        return True
    words = set(roles.plain(column).split("_"))
    called = _has_role(column, "score", "prediction", "confidence") or roles.class_of(column) is not None
    return called or roles.kind_in_words(column) is not None or bool(words & SCORE_WORDS)


SCORE_WORDS = frozenset((
    "chance", "forecast", "likelihood", "margin", "odds", "probability", "prob", "propensity", "rating", "risk",
    "score", "scores", "pred", "predicted", "prediction", "output", "logodds", "lp", "z",
))  # fmt: skip
"""Words in the name of a column that may be the single score of a binary model"""


def _of_two_words(table: Table, columns: Sequence[str], besides: str | None = None) -> list[str]:
    """The other columns of two texts, which may as well be labels."""
    texts = [column for column in columns if table.columns[column] == "text" and column != besides]
    return [
        column
        for column in texts
        if len(_forms(table, column)) == 2
        and roles.leaning(column) != "prediction"
        and not _has_role(column, *(set(NO_CLASSES) - {"label"}))
    ]


def _rises(table: Table, labels: str, scores: Sequence[Any]) -> bool:
    """Whether scores differ between the two kinds of labels by three standard errors: whether they are about them."""
    cells = table.head([labels])[labels]
    by_kind: dict[str, list[float]] = {}
    for cell, score in zip(cells, scores, strict=False):
        if cell is not None and score is not None:
            by_kind.setdefault(plain(cell), []).append(float(score))
    if len(by_kind) != 2 or min(map(len, by_kind.values())) < 2:
        return False
    first, second = (torch.tensor(part, dtype=torch.float64) for part in by_kind.values())
    error = (first.var() / len(first) + second.var() / len(second)).sqrt()
    return bool((first.mean() - second.mean()).abs() >= 3 * error)


def _answered(table: Table, columns: Sequence[str], scores: Sequence[Any], labels: str) -> str | None:
    """The class that a column of predictions shows to be the score's: it is predicted where the score is above half."""
    answer = roles.find([column for column in columns if table.columns[column] == "text"], "prediction")
    if answer is None or not _are_fractions(scores):
        return None
    forms = [plain(cell) for cell in table.head([answer])[answer] if cell is not None]
    if len(forms) != len(scores) or len(set(forms)) != 2:
        return None
    for cell in dict.fromkeys(table.head([labels])[labels]):
        if all(
            score == 0.5 or (score > 0.5) == (form == plain(cell)) for score, form in zip(scores, forms, strict=True)
        ):
            return str(cell)
    return None


def _scores(numbers: Sequence[str], head: Mapping[str, Sequence[Any]], answers: Set[str]) -> list[str]:
    """The columns that may be the single score: those called scores, else predictions, else others, of fractions."""
    never = set(NO_CLASSES) - {"score", "prediction"}
    left = [column for column in numbers if column not in answers and not _has_role(column, *never)]
    left = left or [c for c in numbers if c not in answers and _has_role(c, "label") and _are_fractions(head[c])]

    def is_score(column: str) -> bool:
        word = (roles.class_of(column) or ("",))[0]
        return _has_role(column, "score") or roles.kind_in_words(column) is not None or bool(word)

    called = [column for column in left if is_score(column)]
    fractions = [column for column in left if column not in called and _are_fractions(head[column])]
    predicted = [column for column in fractions if _has_role(column, "prediction")]
    found = called or predicted or fractions
    if not left and [roles.plain(column) for column in numbers if column not in answers] == ["margin"]:
        return [column for column in numbers if column not in answers]  # of a binary model, if nothing else is there
    return found or ([column for column in left if not _is_whole(head[column])] if len(left) == 1 else [])


def _are_fractions(cells: Sequence[Any]) -> bool:
    return not _is_whole(cells) and all(
        cell is None or -checks.UNIT_ROUNDING <= float(cell) <= 1 + checks.UNIT_ROUNDING for cell in cells
    )


def _not_one(
    table: Table, columns: Sequence[str], scores: Sequence[str], answers: Sequence[str], reading: Reading
) -> SoftkinError:
    """The refusal of a table that has neither a column for each class nor a single score."""
    if reading.positive_class is not None:
        held = ", ".join(scores[:10] or columns[:10]) or "none"
        return SoftkinError(
            f"{table.name} must have one column of scores beside its labels for --positive-class, got {held}; name it "
            "with --class-columns."
        )
    if len(answers) > 1 and scores:
        return SoftkinError(
            f"{table.name} may have its labels in {' or '.join(answers[:3])}; name the column with --label-column."
        )
    hint = "; one score for each sample of a binary model needs --positive-class" if scores else ""
    return SoftkinError(
        f"{table.name} must have a column for each class, or one of lists named `logits` or `probs`; "
        f"it has {', '.join(list(table.columns)[:10])}{hint}."
    )
