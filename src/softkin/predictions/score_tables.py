"""Predictions in tables: a column of lists, one column per class, or the single score of a binary model."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

import torch
from torch import Tensor

from softkin import SoftkinError
from softkin._core import checks
from softkin._core.names import spelling
from softkin._io import roles
from softkin._io.roles import ScoreKind
from softkin._io.tables import Rows, Table
from softkin.predictions import harness, long_tables, multiple_choice, pairs, top_answers, truth_columns, unlabelled
from softkin.predictions.blocks import Beside, Block, PredictionFile
from softkin.predictions.class_columns import (
    classes_counted,
    columns_of,
    named_by_labels,
    prefixed_columns,
    summing_to_whole,
)
from softkin.predictions.columns import (
    FEW,
    MANY,
    NO_CLASSES,
    class_name_in,
    column_in_role,
    has_role,
    ids_in,
    left_out,
    matrix,
    spelled,
)
from softkin.predictions.inference import shown, sums_to_whole
from softkin.predictions.label_columns import find_labels, the_true_one, truer
from softkin.predictions.request import Reading, choose, kind_by_name
from softkin.predictions.truth_columns import Truth


def from_table(table: Table, reading: Reading) -> PredictionFile:
    """The predictions in a table, whose columns get their roles by their names, the options, and their first cells."""
    notes = {}
    if roles.CALIBRATION in table.columns:
        said = next((cell for (cell,) in table.cells(roles.CALIBRATION) if cell is not None), None)
        notes = {} if said is None else {"calibration": str(said)}
        rest = {column: kind for column, kind in table.columns.items() if column != roles.CALIBRATION}
        table = replace(table, columns=rest)
    found = _with_roles(long_tables.widened(table, reading) or table, reading)
    wrote = [column for column in table.columns if column.startswith(roles.CALIBRATED)]
    if wrote and not (found.score_columns and set(found.score_columns) <= {*wrote}):
        return found  # the scores that were calibrated, not what came out
    if wrote or notes:
        by = notes.get("calibration", "").partition(": ")[0].partition(" [")[0]
        notes["calibrated_by"] = by or "softkin"
    return replace(found, notes=notes)


def _with_roles(table: Table, reading: Reading) -> PredictionFile:
    if (score := _alone(table, reading)) is not None:
        said = f"{table.name}: `{score}` is taken for the confidence (--score names another)."
        found = _by_roles(table, replace(reading, score=score))
        return replace(found, assumed=(said, *found.assumed))
    calibrated = _calibrated(table, reading)
    if not calibrated:
        return _around_names(table, reading) or _by_roles(table, reading)
    if calibrated == [roles.CALIBRATED_PAIR]:
        return _by_roles(table, reading)
    rest = {column: kind for column, kind in table.columns.items() if kind in ("number", "text")}  # no lists of scores
    found = _by_roles(replace(table, columns=rest), replace(reading, class_columns=calibrated))
    names = [column.removeprefix(roles.CALIBRATED) for column in calibrated]
    others = [column for column in table.columns if column not in calibrated and roles.role_of(column) is None]
    said = f"{table.name}: its columns {shown(calibrated)} are read, no other scores (--class-columns overrules)."
    return replace(found, class_names=names, assumed=(*([said] if others else []), *found.assumed))


def _calibrated(table: Table, reading: Reading) -> list[str]:
    """The columns that ``softkin calibrate apply`` wrote, if the caller does not name others."""
    stated = (reading.class_columns, reading.positive_class, reading.score, reading.outcome)
    if any(option is not None for option in stated):
        return []
    if roles.CALIBRATED_PAIR in table.columns:
        return [roles.CALIBRATED_PAIR]
    numbers = [column for column in table.of_kind("number") if column not in reading.ignore_columns]
    found = [column for column in numbers if column.startswith(roles.CALIBRATED)]
    return found if len(found) > 1 and sums_to_whole(matrix(table.head(found), found)) else []


def _alone(table: Table, reading: Reading) -> str | None:
    """The score of class 1, where an outcome is named without one: the calibrated one, or the table's only one."""
    if reading.outcome not in table.columns or reading.score is not None:
        return None
    rest = replace(reading, outcome=None)
    calibrated = _calibrated(table, rest)
    ones = [column for column in calibrated if pairs.WORDS.get(spelling(column.removeprefix(roles.CALIBRATED))) == 1]
    if len(calibrated) == 2 and len(ones) == 1:
        return ones[0]
    if pairs.score_of(list(table.columns)) is not None or roles.find(list(table.columns), "confidence") is not None:
        return None
    try:
        return _by_roles(table, replace(rest, label_column=reading.outcome)).score_name
    except (SoftkinError, ValueError, TypeError):
        return None


def _around_names(table: Table, reading: Reading) -> PredictionFile | None:
    """The predictions of columns such as ``EST1_cat`` and ``EST1_dog`` beside texts such as "cat": names with more.

    None if the words of columns that are usual tell the classes, or the caller does.
    """
    stated = (reading.class_columns, reading.positive_class, reading.score, reading.outcome, reading.label_column)
    if any(option is not None for option in stated) or not table.has_header:
        return None
    columns = [column for column in table.columns if column not in reading.ignore_columns]
    numbers = [column for column in columns if column.strip() and table.columns[column] == "number"]
    usual = {spelling(class_name_in(column)) for column in numbers}
    found: dict[str, dict[str, str]] = {}
    for text in columns if len(numbers) <= MANY else ():
        if table.columns[text] != "text" or has_role(text, "id", "text", "time", "part"):
            continue
        cells = [str(cell).strip() for cell in table.head([text])[text] if cell is not None]
        words = {cell.casefold(): cell for cell in cells}
        forms = set(words)
        if len(forms) < 2 or {spelling(form) for form in forms} & usual:
            continue
        if called := _with_affix(numbers, forms) or _in_longer(table, numbers, words):
            found[text] = called
    groups = {tuple(called) for called in found.values()}
    if len(groups) != 1:
        return None
    called = next(iter(found.values()))
    own = list(called)
    if roles.kind_in_words(own[0]) is None and not sums_to_whole(matrix(table.head(own), own)):
        return None  # distances, ranks
    named = {column: spelling(name) for column, name in called.items()}
    labels = column_in_role(table, list(found), "label") or the_true_one(table, list(found), named)
    if labels is None or reading.labels is not None:
        return None
    opened = _by_roles(table, replace(reading, class_columns=list(called), label_column=labels))
    names = list(called.values())
    why = f"its {len(names)} columns {shown(list(called))} are read as scores of the classes in `{labels}`"
    left = left_out(table, columns, list(called), Beside(labels, ids_in(table, columns, reading)[0], None), said=True)
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


def _in_longer(table: Table, columns: Sequence[str], words: Mapping[str, str]) -> dict[str, str]:
    """The columns whose names stand in the labels between the same letters: ``setosa`` in "Iris-setosa"."""
    longest = max(words, key=len)
    for column in filter(None, columns):  # an index has no name
        before, name, after = longest.rpartition(column.casefold())
        is_word = any(letter.isalpha() for letter in before + after)  # quotes and brackets are none
        if not name or not is_word or before[-1:].isalnum() or after[:1].isalnum():
            continue
        called = {other: f"{before}{other.casefold()}{after}" for other in columns}
        own = [other for other in columns if called[other] in words]
        if len(own) == len(words):
            whole = len(own) < len(columns) and sums_to_whole(matrix(table.head(columns), columns))
            return {other: words.get(called[other], called[other]) for other in (columns if whole else own)}
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
        ids, called = ids_in(table, columns, reading)
        opened = pairs.from_table(table, parts, ids, reading)
        return replace(opened, assumed=(*opened.assumed, *called))
    for option in ("class_columns", "ignore_columns"):
        for column in getattr(reading, option) or ():
            roles.chosen(list(table.columns), "label", column, option, table.name)
    labels, assumed = find_labels(table, columns, reading)
    stated = (labels, *(reading.class_columns or ()), reading.text_column)
    ids, said = ids_in(table, [column for column in columns if column not in stated], reading)
    assumed = [*assumed, *said]
    textual = [column for column in columns if table.columns[column] == "text" and column not in (labels, ids)]
    texts = reading.text_part(columns if reading.text_column else textual, table.name)
    beside = Beside(labels, ids, texts).among(columns, reading, table.name)
    whole = table
    table, beside = _labelled(table, beside, reading, columns)
    lists = [column for column in columns if table.columns[column] in ("list", "mapping") and column not in beside]
    named = _of_words(lists)
    if not named and reading.class_columns is None and not prefixed_columns(columns, beside):
        part = roles.find(lists, "answers")
        if part is not None:
            answers = top_answers.from_table(table, part, beside, reading)
            return replace(answers, assumed=(*answers.assumed, *said))
        named = lists
    if named:
        vectors = _of_vectors(table, lists, beside, reading)
        return replace(vectors, assumed=(*vectors.assumed, *assumed))
    found = columns_of(table, columns, beside, reading)
    usual = beside.labels if reading.label_column is None and len(found.scores) > 1 else None
    other = None if usual is None or found.class_names is None else truer(whole, columns, found, usual)
    if other is not None:
        opened = _by_roles(whole, replace(reading, label_column=other[0]))
        return replace(opened, assumed=(other[1], *opened.assumed))
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
        table=table, score_columns=tuple(found.scores), label_column=beside.labels, id_column=beside.ids,
    )  # fmt: skip


def _labelled(table: Table, beside: Beside, reading: Reading, columns: Sequence[str]) -> tuple[Table, Beside]:
    """The table without the rows that have no label; or, if all rows are to be kept, without labels."""
    if beside.labels is None:
        return table, beside
    numbers = [column for column in columns if table.columns[column] == "number" and column != beside.labels]
    names = [class_name_in(column) for column in numbers]
    if len({spelling(name) for name in names} & set(spelled(table, beside.labels))) < 2:
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
    numbers = [c for c in columns if table.columns[c] == "number" and not has_role(c, *NO_CLASSES, "confidence")]
    beside = Beside(column_in_role(table, columns, "label"), None, None)
    if len(numbers) < 2:
        return False
    if (
        len(numbers) == classes_counted(table, beside)
        or summing_to_whole(table, numbers, table.head(numbers), beside)[0]
    ):
        return True
    return len(named_by_labels(table, numbers, beside, whole=False)[0]) > 1


def _truth_in_columns(table: Table, columns: list[str], reading: Reading) -> Truth | None:
    """The columns of truth, one for each class, if there is no column of labels and no option names one."""
    stated = (reading.label_column, reading.labels, reading.class_columns, reading.score, reading.outcome)
    if any(option is not None for option in (*stated, reading.positive_class)):
        return None
    called = column_in_role(table, columns, "label")
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
    ids, called = ids_in(table, [column for column in columns if column not in truth], reading)
    textual = [column for column in columns if table.columns[column] == "text" and column not in truth]
    beside = Beside(None, ids, reading.text_part(textual, table.name)).among(columns, reading, table.name)

    def blocks(count: int) -> Iterator[Block]:
        for rows in table.read(count, truth.scores, [*dict.fromkeys([*truth.truths, *beside.columns])]):
            scores = checks.as_tensor(rows.numbers(truth.scores), "scores")
            _, known, texts = beside.of(rows)
            yield Block(scores, truth.read(rows), known, texts, **beside.about(rows))

    left = left_out(table, [column for column in columns if column not in truth.truths], truth.scores, beside)
    return PredictionFile(
        table.name, reading.kind or truth.kind_of_scores or kind_by_name(table.name, reading),
        len(truth.scores), table.num_rows, blocks, truth.names,
        assumed=(*table.assumed, f"{table.name}: {truth.why} (--label-column overrules).", *called, *left),
        table=table, score_columns=tuple(truth.scores), id_column=beside.ids,
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


def _ranks(table: Table, part: str, lists: Sequence[str]) -> tuple[str, list[int]] | None:
    """(column, numbers) of lists of the classes that falling scores are of; None if the scores do not fall.

    Raises:
        SoftkinError: The rows list different classes.
    """
    head = table.head(lists)
    scores = head[part]
    if len(scores) < FEW or any(list(row) != sorted(row, reverse=True) for row in scores):
        return None
    for column in lists:
        rows = head[column]
        are_numbers = all(float(k).is_integer() for row in rows if row for k in row if not isinstance(k, str | dict))
        if column == part or any(not row or isinstance(row[0], str | dict) for row in rows) or not are_numbers:
            continue
        if any(len(row) != len(own) or len(set(row)) != len(row) for row, own in zip(rows, scores, strict=True)):
            continue
        known = {frozenset(map(int, row)) for row in rows}
        if len(known) > 1:
            raise SoftkinError(
                f"{table.name}: `{part}` has the scores of the likeliest classes alone, those in `{column}`; save the "
                "scores of all classes, in the same order in each row."
            )
        return column, sorted(known.pop())
    return None


def _of_ranked(
    table: Table, part: str, kind: ScoreKind | None, beside: Beside, ranks: str, classes: Sequence[int]
) -> PredictionFile:
    """The lists of falling scores, each in the order of the classes that another list names."""

    def blocks(count: int) -> Iterator[Block]:
        for rows in table.read(count, (), [*beside.with_scores(part).columns, ranks]):
            values, order = (torch.as_tensor(rows.vectors(column, None, len(classes))) for column in (part, ranks))
            order, places = order.sort(dim=1)
            if bool((order != torch.tensor(classes)).any()):
                raise SoftkinError(f"{table.name}: `{ranks}` must list the same {len(classes)} classes in each row.")
            yield Block(values.gather(1, places), *beside.of(rows), **beside.about(rows))

    why = f"{table.name}: the scores in `{part}` are read as those of the classes that `{ranks}` lists."
    return PredictionFile(
        table.name, kind, len(classes), table.num_rows, blocks, [str(k) for k in classes],
        columns_named=True, assumed=(*table.assumed, why), table=table, score_columns=(part,),
        id_column=beside.ids,
    )  # fmt: skip


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
    ranks = _ranks(table, part, lists) if names is None else None
    if ranks is not None:
        return _of_ranked(table, part, kind, beside, *ranks)

    def scores(rows: Rows) -> Tensor:
        return checks.as_tensor(rows.vectors(part, names, width), part or "the array")

    blocks = _blocks(table, (), beside.with_scores(part), scores)
    class_names = None if width == 1 else names or table.names_of(beside.labels)
    return PredictionFile(
        table.name, kind, width, table.num_rows, blocks, class_names, columns_named=names is not None,
        score_name=part or None, assumed=table.assumed, table=table, score_columns=(part,), id_column=beside.ids,
    )  # fmt: skip
