"""Which column of a table holds the labels: by its name, by its words, or because it agrees with the scores."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from softkin import SoftkinError
from softkin._core.names import spelling
from softkin._io import roles
from softkin._io.tables import EMPTY, Table
from softkin.predictions.blocks import Beside
from softkin.predictions.columns import (
    LEAST,
    NO_CLASSES,
    Columns,
    class_name_in,
    column_in_role,
    counts_rows,
    forms_in,
    has_role,
    is_whole,
    matrix,
    spelled,
)
from softkin.predictions.inference import shown
from softkin.predictions.request import Reading
from softkin.predictions.two_classes import plain


def find_labels(table: Table, columns: list[str], reading: Reading) -> tuple[str | None, list[str]]:
    """The column of labels: the stated one, one of a usual name, or one whose texts are names of columns."""
    if reading.label_column is not None:
        return reading.label_part(columns, table.name), []
    if not table.has_header:
        return _label_by_its_cells(table, columns) if reading.labels is None else (None, [])
    called = column_in_role(table, columns, "label")
    if reading.labels is not None or (called is not None and table.columns[called] != "text"):
        return called, []
    classes = {spelling(class_name_in(column)) for column in columns}
    texts = [column for column in columns if table.columns[column] == "text"]
    if called is None and (other := _like_predictions(table, texts) or _of_outcomes(table, texts)) is not None:
        return other
    head = table.head(texts) if texts else {}
    found = []
    for column in texts:
        values = {spelling(cell) for cell in head[column] if isinstance(cell, str)} - (NOTHING - classes)
        if values and values <= classes - {spelling(column)}:
            found.append(column)
    found = found or ([] if called is not None else _of_numbered(table, columns))
    if called in found or not found:
        return called, []
    true = the_true_one(table, found)
    if true is None:
        return called, []
    return true, [f"{table.name}: `{true}` is read as the labels, since it holds names of columns."]


NOTHING = frozenset(spelling(word) for word in EMPTY)


def _of_numbered(table: Table, columns: Sequence[str]) -> list[str]:
    """The columns whose numbers are those that other columns are called by, such as years, which do not just count."""
    numbers = [column for column in columns if table.columns[column] == "number"]
    classes = {plain(name) for column in numbers if (name := class_name_in(column)).isdigit()}
    if len(classes) < 2 or max(map(int, classes)) <= len(classes):
        return []
    forms = {column: forms_in(table, column) for column in numbers if not class_name_in(column).isdigit()}
    return [column for column, own in forms.items() if len(own) > 1 and own <= classes]


def _like_predictions(table: Table, texts: Sequence[str]) -> tuple[str, list[str]] | None:
    """The column of texts with the same words as the column of predictions, and the sentence about it.

    Or the column that a column of predictions is called after: ``species`` beside ``predicted_species``.
    """
    named = {roles.plain(column): column for column in texts}
    for column in texts:
        own = named.get(roles.guessed_of(column) or "")
        if own is not None and roles.role_of(own) is None and forms_in(table, column) <= forms_in(table, own):
            why = f"`{own}` is read as the labels, since `{column}` is called after it (--label-column overrules)."
            return own, [f"{table.name}: {why}"]
    guessed = roles.find(texts, "prediction")
    if guessed is None or any(spelling(column) in forms_in(table, guessed) for column in table.columns):
        return None
    forms = forms_in(table, guessed)
    same = [column for column in texts if column != guessed and len(forms) > 1 and forms_in(table, column) == forms]
    if len(same) != 1 or roles.role_of(same[0]) is not None:
        return None
    why = f"`{same[0]}` is read as the labels, since it holds the words of `{guessed}` (--label-column overrules)."
    return same[0], [f"{table.name}: {why}"]


def _of_outcomes(table: Table, texts: Sequence[str]) -> tuple[str, list[str]] | None:
    """The column called an outcome, if it holds two words, and the sentence about it."""
    found = roles.find(texts, "outcome")
    if found is None or len(forms_in(table, found)) != 2:
        return None
    why = f"`{found}` is read as the labels, since it holds two values (--label-column overrules)."
    return found, [f"{table.name}: {why}"]


def the_true_one(table: Table, columns: Sequence[str], called: Mapping[str, str] | None = None) -> str | None:
    """The column that holds the truth, of those whose cells are names of classes: predictions, readers' opinions.

    One that names the class of the highest score in every row is taken for predictions. None if all are predictions.
    ``called`` has the class of each column of scores, if its name does not tell.
    """
    name = table.name
    rest = [c for c in columns if roles.leaning(c) != "prediction" and not has_role(c, "prediction")]
    if not rest:
        return None
    true = [column for column in rest if roles.leaning(column) == "label"] or rest
    if len(true) > 1:
        winning = _winners(table, called)
        true = [column for column in true if not winning or spelled(table, column) != winning] or true
    if len(true) == 1:
        return true[0]
    options = " or ".join(f'--label-column "{column}"' for column in true[:3])
    raise SoftkinError(
        f"{name} has {len(true)} columns that hold names of classes; say which are the labels: {options}."
    )


def _winners(table: Table, called: Mapping[str, str] | None = None) -> list[str]:
    """The name of the class with the highest score in each of the first rows, if some column of texts names classes."""
    numbers = [column for column, kind in table.columns.items() if kind == "number"]
    usual = {column: spelling(class_name_in(column)) for column in numbers}
    called = usual if called is None else called
    numbers = [column for column in numbers if column in called]
    texts = {form for column, kind in table.columns.items() if kind == "text" for form in spelled(table, column)}
    scores = [column for column in numbers if called[column] in texts]
    values = matrix(table.head(scores), scores) if len(scores) > 1 else torch.empty(0, 0)
    if len(values) < LEAST or not bool(torch.isfinite(values).all()):
        return []
    return [called[scores[place]] for place in values.argmax(dim=1).tolist()]


def _label_by_its_cells(table: Table, columns: Sequence[str]) -> tuple[str | None, list[str]]:
    """The column of labels in a table without names: the only one of texts, or of whole numbers that do not count."""
    head = table.head(columns)
    texts = [column for column in columns if table.columns[column] == "text"]
    whole = [column for column in columns if table.columns[column] == "number" and is_whole(head[column])]
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


def agreeing_labels(
    table: Table, columns: Sequence[str], found: Columns, beside: Beside
) -> tuple[str | None, list[str]]:
    """The only column of class numbers or names that agrees with the highest scores more than by chance.

    One that agrees in every row may hold predictions, so it is not taken.
    """
    values = matrix(table.head(found.scores), found.scores)
    if len(values) < LEAST or not bool(torch.isfinite(values).all()):
        return None, []
    winning = values.argmax(dim=1).tolist()
    passed = {}
    for column in columns:
        usable = table.columns[column] in ("number", "text") and column not in found.scores and column not in beside
        if not usable or has_role(column, *(set(NO_CLASSES) - {"label"})) or roles.leaning(column) == "prediction":
            continue
        if len(found.scores) > 2 and len(forms_in(table, column)) < 3:
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


def truer(table: Table, columns: Sequence[str], found: Columns, called: str) -> tuple[str, str] | None:
    """(column, sentence) of labels other than those of a usual name, where the cells of both show it.

    The names of classes whose numbers are not the places of their scores; or the truth, where the column of a usual
    name is the class with the highest score in every row.

    Raises:
        SoftkinError: The usual one is the class with the highest score in every row, and the other may be the truth.
    """
    names = found.class_names or []
    known = {spelling(name) for name in names}
    texts = [c for c in columns if table.columns[c] == "text" and _may_be_truth(c) and c != called]
    texts = [c for c in texts if forms_in(table, c) <= known]
    own = _classes_in(table, called, names)
    for column in texts if table.columns[called] == "number" else []:
        pairs = {(a, b) for a, b in zip(own, _classes_in(table, column, names), strict=True) if None not in (a, b)}
        is_one_to_one = len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs}) > 1
        if is_one_to_one and any(a != b for a, b in pairs):
            why = f"`{column}` is read as the labels, as its names show the order of the numbers in `{called}`"
            return column, f"{table.name}: {why} (--label-column overrules)."
    try:
        values = matrix(table.head(found.scores), found.scores)
    except ValueError:
        return None  # some cell is no number, which is refused with its place when the scores are read
    if len(values) != len(own) or not bool(torch.isfinite(values).all()):
        return None
    if TRUE_NAMES & {*roles.plain(called).split("_")}:
        return None
    winning = values.argmax(dim=1).tolist()
    if not any(place is not None for place in own) or _same(own, winning) != sum(p is not None for p in own):
        return None
    numbers = [c for c in columns if table.columns[c] == "number" and c not in found.scores and _may_be_truth(c)]
    numbers = [c for c in numbers if not has_role(c, *(set(NO_CLASSES) - {"label"})) and len(values) >= LEAST]
    others = {c: _classes_in(table, c, names) for c in [*texts, *numbers] if c != called}
    others = {
        c: cells for c, cells in others.items()
        if len(set(cells)) > 1 and None not in cells and 0 < _same(cells, winning) < len(winning)
        and (c in texts or _same(cells, winning) > _by_chance([p or 0 for p in cells], winning))
    }  # fmt: skip
    told = [c for c in others if has_role(c, "label") or roles.leaning(c) == "label"] or list(others)
    if not told:
        return None
    why = f"`{called}` is the class with the highest score in every row, as predictions are"
    if len(told) > 1 or _same(others[told[0]], winning) * len(names) <= len(winning):
        options = " or ".join(f'--label-column "{column}"' for column in [called, *told[:3]])
        raise SoftkinError(f"{table.name}: {why}, and {shown(told)} may be the truth; say which: {options}.")
    return told[0], f"{table.name}: `{told[0]}` is read as the labels, since {why} (--label-column overrules)."


TRUE_NAMES = frozenset(("actual", "correct", "expected", "gold", "true", "truth"))
"""Words that no column of predictions is called by"""


def _may_be_truth(column: str) -> bool:
    return not has_role(column, "prediction", "text", "id") and roles.leaning(column) != "prediction"


def _same(first: Sequence[int | None], second: Sequence[int]) -> int:
    return sum(a == b for a, b in zip(first, second, strict=True))


def _classes_in(table: Table, column: str, names: Sequence[str]) -> list[int | None]:
    """The class of each of the first cells; None where a cell is empty, or where the cells are no classes."""
    cells = table.head([column])[column]
    place = {spelling(name): k for k, name in enumerate(names)}
    if not all(cell is None or spelling(cell) in place for cell in cells):
        numbers = iter(_as_numbers(cells, names, len(names)))
        return [None if cell is None else next(numbers, None) for cell in cells]
    return [None if cell is None else place[spelling(cell)] for cell in cells]


def flag_of_one(table: Table, columns: Sequence[str], found: Columns) -> tuple[str, int] | None:
    """(column, place of the class) of zeros and ones that are called after one of two classes, such as ``is_spam``."""
    if found.class_names is None or len(found.scores) != 2:
        return None
    places = {form: k for k, name in enumerate(found.class_names) for form in _flags_of(roles.plain(name))}
    flags = [column for column in columns if column not in found.scores and roles.plain(column) in places]
    if len(flags) != 1 or forms_in(table, flags[0]) != {"0", "1"}:
        return None
    return flags[0], places[roles.plain(flags[0])]


def _flags_of(name: str) -> tuple[str, str, str]:
    return name, f"is_{name}", f"was_{name}"


def _as_numbers(cells: Sequence[Any], names: Sequence[str] | None, num_classes: int) -> list[int]:
    """Cells as the classes that they would be as labels; empty if they cannot be."""
    forms = [plain(cell) for cell in cells if cell is not None]
    kinds = set(forms)
    are_numbered = names is None or all(name.isdigit() for name in names)
    if all(form.isdigit() for form in forms):
        place = {plain(name): k for k, name in enumerate(names or ())} if are_numbered else {}
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
