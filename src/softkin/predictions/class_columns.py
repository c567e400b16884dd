"""Which columns of a table hold the scores of the classes: by their names, the labels, and the sums of rows."""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import torch

from softkin import SoftkinError
from softkin._core import checks
from softkin._core.named_labels import PAIRS
from softkin._core.names import spelling
from softkin._io import roles
from softkin._io.roles import ScoreKind
from softkin._io.tables import Table
from softkin.predictions.blocks import Beside
from softkin.predictions.columns import (
    FEW,
    LEAST,
    MANY,
    NO_CLASSES,
    Columns,
    are_fractions,
    class_name_in,
    counts_rows,
    forms_in,
    has_role,
    is_whole,
    left_out,
    matrix,
)
from softkin.predictions.inference import shown, sums_to_whole
from softkin.predictions.label_columns import agreeing_labels, flag_of_one
from softkin.predictions.one_score import binary_labels, one_score, single_scores
from softkin.predictions.request import Reading, kind_by_name
from softkin.predictions.two_classes import plain

ALIKE = 0.5  # correlation: two columns of scores that have more may be of one class
FAR = 10  # times as large as the numbers of known classes: a column of such numbers is no class


def columns_of(table: Table, columns: Sequence[str], beside: Beside, reading: Reading) -> Columns:
    """The columns of scores: the stated ones, those with a word as in ``probs_cat``, or those that can be classes."""
    if reading.class_columns is not None:
        stated = list(reading.class_columns)
        called = [class_name_in(column) for column in stated]
        return Columns(stated, called, _kind_of_columns(table.name, stated, reading))
    found = _columns_of(table, columns, beside, reading)
    _refuse_one_class(table, found, beside)
    return _positive_last(table, found)


def _positive_last(table: Table, found: Columns) -> Columns:
    """Columns such as ``prob_yes``, ``prob_no`` in the order no, yes, so that labels 0 and 1 mean these."""
    if found.class_names is None or len(found.scores) != 2:
        return found
    second, first = map(plain, found.class_names)
    if (first, second) not in PAIRS or first.lstrip("-").isdigit():
        return found
    said = (
        f"{table.name}: `{found.scores[0]}` is of the positive class, which labels call 1 (--class-columns overrules)."
    )
    return replace(found.turned(), assumed=[*found.assumed, said])


def _refuse_one_class(table: Table, found: Columns, beside: Beside) -> None:
    """Refuse two columns of logits that rise and fall together, and with labels 0 and 1: scores of the same class.

    Those of two classes differ where the label differs. Columns that labels or their own names show to be classes are
    taken at their word.
    """
    labels = found.labels or beside.labels
    forms = forms_in(table, labels)
    if len(found.scores) != 2 or found.class_names is None or len(forms) != 2 or found.kind == "probs":
        return
    called = {plain(name) for name in found.class_names}
    counted = all(re.fullmatch(r"(class|c|k)?[ _]?\d+", name) for name in called)
    if labels is None or counted or called & forms or any(called == set(pair) for pair in PAIRS):
        return
    head = table.head([*found.scores, labels])
    rows = [row for row in zip(*(head[column] for column in (*found.scores, labels)), strict=True) if None not in row]
    values = torch.tensor([[float(first), float(second)] for first, second, _ in rows], dtype=torch.float64)
    is_one = torch.tensor([plain(label) == max(forms) for _, _, label in rows])
    if len(rows) < FEW or float(values.min()) >= 0 or not bool(is_one.any()) or bool(is_one.all()):
        return
    rise = values[is_one].mean(dim=0) - values[~is_one].mean(dim=0)
    together = torch.corrcoef(values.T)[0, 1]
    if float(together) > ALIKE and bool((rise > 0).all() | (rise < 0).all()):
        first, second = found.scores
        raise SoftkinError(
            f"{table.name}: `{first}` and `{second}` rise and fall together, as scores of one class by two models do, "
            f"or features; take one with --class-columns {first}, or both as two classes with --class-columns "
            f"{first},{second}."
        )


def _columns_of(table: Table, columns: Sequence[str], beside: Beside, reading: Reading) -> Columns:
    name = table.name
    numbers = [column for column in columns if table.columns[column] == "number" and column not in beside]
    head = table.head(numbers)
    if reading.positive_class is not None and len(single_scores(numbers, head, set())) == 1:
        return one_score(table, columns, numbers, head, beside, reading)
    if not table.has_header:
        whole = [column for column in numbers if is_whole(head[column])]
        ids = [column for column in whole if counts_rows(head[column])]
        if len(whole) < len(numbers):
            ids += [column for column in whole if column not in ids and _is_odd(head[column], (), ())]
        scores = [column for column in numbers if column not in ids]
        if len(scores) > 1 and _is_binary(table, scores, head, beside, ()):
            scores = single_scores(scores, head, set())  # the others are features
        return Columns(scores, None, kind_by_name(name, reading), assumed=left_out(table, columns, scores, beside))
    kind, said = (reading.kind, []) if reading.kind is not None else _both_kinds(table, columns, beside)
    prefixed = _narrowed(table, prefixed_columns(columns, beside, kind, name), beside)
    answers = binary_labels(table, columns, numbers, head, beside)
    if len(prefixed) > 1 and _is_clear(table, prefixed, columns, beside):
        _refuse_several_models(table, prefixed, head, beside, answers)
        word = next(iter(prefixed.values()))[0]
        word_says = roles.kind_of_word(word)
        if reading.kind is not None and word_says not in (None, reading.kind):
            raise SoftkinError(
                f"{name} is said to hold {reading.kind} (--{reading.kind}), but its columns' names say {word_says}."
            )
        called = _by_number([known for _, known in prefixed.values()], forms_in(table, beside.labels))
        return _with_labels(
            table, columns, Columns(list(prefixed), called, word_says or kind, assumed=said), beside, reading
        )
    candidates = [column for column in numbers if column not in answers]
    if _is_binary(table, candidates, head, beside, answers):
        return one_score(table, columns, numbers, head, beside, reading)
    classes = _classes(table, candidates, head, beside)
    if len(classes) < 2:
        return one_score(table, columns, numbers, head, beside, reading)
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
    if not all(column in head and are_fractions(head[column]) for column in prefixed):
        return
    values = matrix(head, list(prefixed))
    known = {spelling(class_name) for _, class_name in prefixed.values()}
    if len(values) < FEW or float((values.sum(dim=1) - 1).abs().max()) <= checks.MOST_ROUNDING:
        return
    labels = forms_in(table, beside.labels or (answers[0] if len(answers) == 1 else None))
    if len(labels) == 2 and not labels & known and not all(name.isdigit() for name in known):
        options = " or ".join(f"--class-columns {column}" for column in list(prefixed)[:3])
        raise SoftkinError(
            f"{table.name} has labels of two kinds and {len(prefixed)} scores that do not sum to 1, as several models "
            f"have; take one with {options}."
        )


def _is_binary(
    table: Table, numbers: Sequence[str], head: Mapping[str, Sequence[Any]], beside: Beside, answers: Sequence[str]
) -> bool:
    """Whether one column alone can be the score of a binary model, and the other numbers are features.

    Labels are then of two kinds, the score is from 0 to 1, and no columns sum to 1 or are called as the labels are.
    """
    scores = single_scores(numbers, head, set())
    if len(scores) != 1 or not are_fractions(head[scores[0]]):
        return False
    is_called = roles.role_of(scores[0]) == "score" or roles.class_of(scores[0]) is not None
    if len(head[scores[0]]) < LEAST and not is_called:
        return False
    whole = summing_to_whole(table, numbers, head, beside)[0]
    if whole and (scores[0] in whole or roles.role_of(scores[0]) != "score" or _of_the_highest(head, scores[0], whole)):
        return False
    if len(named_by_labels(table, numbers, beside, whole=False)[0]) > 1:
        return False
    return bool(answers) if beside.labels is None else len(forms_in(table, beside.labels)) == 2


def _of_the_highest(head: Mapping[str, Sequence[Any]], score: str, classes: Sequence[str]) -> bool:
    """Whether a score is the highest of the classes' in every row, up to rounding; else it is no score of theirs."""
    values = matrix(head, [score, *classes])
    return bool(((values[:, 0] - values[:, 1:].amax(dim=1)).abs() <= checks.MOST_ROUNDING).all())


def _with_labels(table: Table, columns: Sequence[str], found: Columns, beside: Beside, reading: Reading) -> Columns:
    """The columns of scores, with labels that agree with them if no column was named, and what is left out."""
    why: list[str] = []
    if beside.labels is None and reading.labels is None:
        flag = flag_of_one(table, columns, found)
        labels: str | None
        if flag is not None:
            labels, place = flag
            called = (found.class_names or ["", ""])[place]
            why = [f"{table.name}: `{labels}` is read as the labels, 1 for {called} (--label-column overrules)."]
            if place == 0:  # 1 is the second class
                found = found.turned()
        else:
            labels, why = agreeing_labels(table, columns, found, beside)
        found, beside = replace(found, labels=labels), replace(beside, labels=labels)
    return replace(found, assumed=[*found.assumed, *why, *left_out(table, columns, found.scores, beside)])


def _kind_of_columns(name: str, columns: Sequence[str], reading: Reading) -> ScoreKind | None:
    said = {roles.kind_of_word(found[0]) for column in columns if (found := roles.class_of(column))}
    return reading.kind or (said.pop() if len(said) == 1 else None) or kind_by_name(name, reading)


def prefixed_columns(
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
    by_kind = [prefixed_columns(columns, beside, kind) for kind in ("logits", "probs")]
    logits, probs = ({known: column for column, (_, known) in found.items()} for found in by_kind)
    if len(logits) < 2 or logits.keys() != probs.keys() or by_kind[0] == by_kind[1]:
        return None, []
    if any(table.columns[column] != "number" for found in by_kind for column in found):
        return None, []
    z, p = (matrix(table.head(list(found.values())), list(found.values())) for found in (logits, probs))
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
    is_whole = len(named) > 1 and sums_to_whole(matrix(head, list(named)))
    return named if is_whole and not sums_to_whole(matrix(head, list(head))) else prefixed


def _is_clear(table: Table, prefixed: Mapping[str, tuple[str, str]], columns: Sequence[str], beside: Beside) -> bool:
    """Whether a prefix shows the classes: it says what scores are, or labels or the lack of other scores confirm it."""
    if not roles.is_weak(next(iter(prefixed.values()))[0]):
        return True
    if any(table.columns[column] != "number" for column in prefixed):
        return False
    if sums_to_whole(matrix(table.head(list(prefixed)), list(prefixed))):
        return True
    rest = [column for column in columns if column not in prefixed and column not in beside]
    numbers = [column for column in rest if table.columns[column] == "number" and not has_role(column, *NO_CLASSES)]
    if all(map(is_whole, table.head(numbers).values())):
        return True
    labels = [] if beside.labels is None else table.head([beside.labels])[beside.labels]
    known = {spelling(class_name) for _, class_name in prefixed.values()}
    return bool(labels) and all(spelling(label) in known for label in labels)


def _classes(table: Table, numbers: Sequence[str], head: Mapping[str, Sequence[Any]], beside: Beside) -> list[str]:
    """The columns of numbers that can be classes, by the sums of rows, the labels, and what the numbers look like.

    Raises:
        SoftkinError: Some columns look unlike the others, and nothing shows whether they are classes.
    """
    classes, rest, odd, is_complete = summing_to_whole(table, numbers, head, beside)
    if classes:
        return classes
    if odd and not is_complete and len(rest) > 1:
        raise SoftkinError(
            f"{table.name} has columns that may be no classes, {shown(odd)}, beside {shown(rest)}; name the columns of "
            f"classes with --class-columns, or leave these out with --ignore-columns {','.join(odd[:3])}."
        )
    return rest


def summing_to_whole(
    table: Table, numbers: Sequence[str], head: Mapping[str, Sequence[Any]], beside: Beside
) -> tuple[list[str], list[str], list[str], bool]:
    """(columns whose rows sum to a whole, those that can be classes, those that look unlike them, if labels name all).

    A whole is 1 or 100; the first is empty if no columns do.
    """
    if sums_to_whole(matrix(head, numbers)):
        return list(numbers), list(numbers), [], False
    suspects = [column for column in numbers if has_role(column, *NO_CLASSES)]
    named, is_complete = named_by_labels(table, numbers, beside, whole=bool(suspects))
    usual = [column for column in numbers if column not in suspects or column in named]
    odd = [
        c
        for c in usual
        if c not in named and _is_odd(head[c], [head[k] for k in named or usual if k != c], [head[k] for k in usual])
    ]
    odd = [] if len(odd) == len(usual) else odd
    if not odd and not named and classes_counted(table, beside) == len(usual) - 1:
        odd = _always_first(head, usual)
    rest = [column for column in usual if column not in odd]
    is_complete = is_complete or (bool(odd) and classes_counted(table, beside) == len(rest))
    for candidates in (usual, rest, named if is_complete else [], _run_of_one(head, rest)):
        if len(candidates) > 1 and sums_to_whole(matrix(head, candidates)):
            return candidates, rest, odd, is_complete
    return [], rest, odd, is_complete


def _always_first(head: Mapping[str, Sequence[Any]], columns: Sequence[str]) -> list[str]:
    """The column whose number is the largest in every row, as that of an age is beside scores."""
    values = matrix(head, columns)
    if len(values) < LEAST or len(columns) < 3 or not bool(torch.isfinite(values).all()):
        return []
    first = values.argmax(dim=1)
    return [columns[int(first[0])]] if bool((first == first[0]).all()) else []


def classes_counted(table: Table, beside: Beside) -> int:
    """How many classes the first labels count, from 0 or, if all of them occur, from 1; 0 if they are no numbers."""
    forms = forms_in(table, beside.labels)
    if not forms or not all(form.isdigit() for form in forms):
        return 0
    found = {int(form) for form in forms}
    return max(found) + (min(found) != 1 or len(found) != max(found))


def _run_of_one(head: Mapping[str, Sequence[Any]], columns: Sequence[str]) -> list[str]:
    """The longest run of neighbouring columns whose rows sum to 1 or 100, if there is one; a few could by chance."""
    if not 2 < len(columns) <= MANY:
        return []
    values = matrix(head, columns)
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


def named_by_labels(table: Table, numbers: Sequence[str], beside: Beside, *, whole: bool) -> tuple[list[str], bool]:
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
    if is_whole(cells):
        return max(there) > 1 or sum(not is_whole(other) for other in others) > 1
    largest = max((abs(float(cell)) for other in known for cell in other if cell is not None), default=0.0)
    return 0 < FAR * largest < max(there) and max(there) > 1
