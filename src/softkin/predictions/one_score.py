"""Which column of a table holds the single score of a binary model, and which one its labels."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from softkin import SoftkinError
from softkin._core.named_labels import PAIRS
from softkin._core.names import spelling
from softkin._io import roles
from softkin._io.tables import Table
from softkin.predictions.blocks import Beside
from softkin.predictions.columns import (
    LEAST,
    NO_CLASSES,
    Columns,
    are_fractions,
    forms_in,
    has_role,
    is_whole,
    left_out,
    matrix,
)
from softkin.predictions.inference import sums_to_whole
from softkin.predictions.request import Reading
from softkin.predictions.two_classes import plain

MOST_KINDS = 5  # of labels, of which a single score may be about one
SCORE_WORDS = frozenset((
    "chance", "forecast", "likelihood", "margin", "odds", "probability", "prob", "propensity", "rating", "risk",
    "score", "scores", "pred", "predicted", "prediction", "output", "logodds", "lp", "z",
))  # fmt: skip
"""Words in the name of a column that may be the single score of a binary model"""


def binary_labels(
    table: Table, columns: Sequence[str], numbers: Sequence[str], head: Mapping[str, Sequence[Any]], beside: Beside
) -> list[str]:
    """The columns that may be the labels of a binary model; none if labels are known.

    They are of 0 and 1, of yes and no, or of two words, one of which a score is called after: ``prob_bad``.
    """
    if beside.labels is not None or sums_to_whole(matrix(head, numbers)):
        return []
    texts = [column for column in columns if table.columns[column] == "text" and column not in beside]
    cells = {**{column: head[column] for column in numbers}, **(table.head(texts) if texts else {})}
    kinds = {column: {plain(cell) for cell in cells[column] if cell is not None} for column in cells}
    named = {spelling(parts[1]) for column in numbers if (parts := roles.class_of(column))}
    found = [
        column
        for column, forms in kinds.items()
        if not has_role(column, *(set(NO_CLASSES) - {"label"}))
        and (any(forms == set(pair) for pair in PAIRS) or (len(forms) == 2 and len(forms & named) == 1))
    ]
    return [column for column in found if roles.leaning(column) != "prediction"] or found


def one_score(
    table: Table,
    columns: Sequence[str],
    numbers: Sequence[str],
    head: Mapping[str, Sequence[Any]],
    beside: Beside,
    reading: Reading,
) -> Columns:
    """The single column of a binary model's scores; ``two_classes`` finds out which class they are of."""
    name = table.name
    answers = binary_labels(table, columns, numbers, head, beside)
    scores = single_scores(numbers, head, set(answers))
    if len(scores) == 1 and answers:
        rising = [answer for answer in answers if _rises(table, answer, head[scores[0]])]
        told = [answer for answer in rising if not _is_threshold(table, answer, head[scores[0]])]
        rising = told or rising  # such as predictions beside the truth
        if len(rising) == 1 and (told or len(answers) == 1 or not _is_threshold(table, rising[0], head[scores[0]])):
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
    elif labels is not None and plain(known) not in forms_in(table, labels):
        positive = _answered(table, columns, head[column], labels) or _by_letter(table, labels, known) or positive
    return Columns([column], [known], kind, positive, labels, [*why, *left_out(table, columns, [column], taken)])


def _by_letter(table: Table, labels: str, known: str) -> str | None:
    """The label that is the first letter of the class that a score is called after, if all labels are letters."""
    forms = forms_in(table, labels)
    letter = plain(known)[:1]
    return letter if letter in forms and all(len(form) == 1 and form.isalpha() for form in forms) else None


def _of_more(table: Table, columns: Sequence[str], scores: Sequence[str], beside: Beside) -> tuple[str, str] | None:
    """(column, label) of labels of three kinds or more, of which a score's name says one, such as H of ``home_win``."""
    if len(scores) != 1 or (parts := roles.class_of(scores[0])) is None:
        return None
    known = plain(parts[1])
    found = []
    for column in columns:
        if table.columns[column] != "text" or column in beside or has_role(column, "id", "text", "time", "prediction"):
            continue
        cells = {plain(cell): str(cell).strip() for cell in table.head([column])[column] if cell is not None}
        if 2 < len(cells) <= MOST_KINDS:
            letters = all(len(form) == 1 for form in cells)
            form = known if known in cells else known[:1] if letters else ""
            found += [(column, cells[form])] if form in cells else []
    return found[0] if len(found) == 1 else None


def _may_be_scores(table: Table, column: str, cells: Sequence[Any], reading: Reading) -> bool:
    """Whether a column may be taken for a score unasked: from 0 to 1, as log-odds are, or with a name that says so.

    Prices and lengths are none of these, though they may be from 0 to 100 as percent are.
    """
    stated = (reading.positive_class, reading.kind, roles.kind_in_words(Path(table.name).stem))
    if any(option is not None for option in stated) or are_fractions(cells) or not table.has_header:
        return True
    if any(cell is not None and float(cell) < 0 for cell in cells):
        return True
    words = set(roles.plain(column).split("_"))
    called = has_role(column, "score", "prediction", "confidence") or roles.class_of(column) is not None
    return called or roles.kind_in_words(column) is not None or bool(words & SCORE_WORDS)


def _of_two_words(table: Table, columns: Sequence[str], besides: str | None = None) -> list[str]:
    """The other columns of two texts, which may as well be labels."""
    texts = [column for column in columns if table.columns[column] == "text" and column != besides]
    return [
        column
        for column in texts
        if len(forms_in(table, column)) == 2
        and roles.leaning(column) != "prediction"
        and not has_role(column, *(set(NO_CLASSES) - {"label"}))
    ]


def _is_threshold(table: Table, column: str, scores: Sequence[Any]) -> bool:
    """Whether two kinds of cells are told apart by a threshold of the scores in every row, as predictions are."""
    by_kind: dict[str, list[float]] = {}
    for cell, score in zip(table.head([column])[column], scores, strict=False):
        if cell is not None and score is not None:
            by_kind.setdefault(plain(cell), []).append(float(score))
    if len(by_kind) != 2 or len(scores) < LEAST:
        return False
    first, second = sorted(by_kind.values(), key=min)
    return max(first) <= min(second)


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
    if answer is None or not are_fractions(scores):
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


def single_scores(numbers: Sequence[str], head: Mapping[str, Sequence[Any]], answers: Set[str]) -> list[str]:
    """The columns that may be the single score: those called scores, else predictions, else others, of fractions."""
    never = set(NO_CLASSES) - {"score", "prediction"}
    left = [column for column in numbers if column not in answers and not has_role(column, *never)]
    left = left or [c for c in numbers if c not in answers and has_role(c, "label") and are_fractions(head[c])]

    def is_score(column: str) -> bool:
        word = (roles.class_of(column) or ("",))[0]
        return has_role(column, "score") or roles.kind_in_words(column) is not None or bool(word)

    called = [column for column in left if is_score(column)]
    fractions = [column for column in left if column not in called and are_fractions(head[column])]
    predicted = [column for column in fractions if has_role(column, "prediction")]
    found = called or predicted or fractions
    if not left and [roles.plain(column) for column in numbers if column not in answers] == ["margin"]:
        return [column for column in numbers if column not in answers]  # of a binary model, if nothing else is there
    return found or ([column for column in left if not is_whole(head[column])] if len(left) == 1 else [])


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
