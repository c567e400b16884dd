"""Truth in as many columns as there are classes: ``true_cat``, ``true_dog`` beside ``prob_cat``, ``prob_dog``.

One 1 in each row says the class, other numbers are votes. Zeros and ones of any number in a row are several labels per
sample, which ``evaluation.many_labels`` measures.
"""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from softkin import SoftkinError
from softkin._io import roles
from softkin._io.roles import ScoreKind
from softkin._io.tables import Rows, Table
from softkin.predictions.inference import shown

Kind: TypeAlias = Literal["classes", "votes", "several"]
Affix: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""The words before and after the name of the class"""
VOTE_WORDS = frozenset(("annotator", "annotators", "count", "counts", "human", "humans", "people", "rater", "raters",
    "soft", "vote", "voted", "voters", "votes"))  # fmt: skip
"""Words of columns that hold the votes of people, or their shares"""
TRUTH_WORDS = roles.TRUE_WORDS | {"expected", "gt", "is", "has", "labels", "onehot", "targets", "y"}
BITS = {"0": 0.0, "1": 1.0, "false": 0.0, "true": 1.0}
LEADING, TRAILING = 3, 2  # words at most before and after the name of a class


@dataclass(frozen=True)
class Truth:
    """The columns that say which class is true, each with the column of its score."""

    columns: dict[str, str]
    """From a column of scores to that of its truth; a class that is never true may have none"""
    names: list[str]
    """The classes, in the order of the scores"""
    kind: Kind

    @property
    def scores(self) -> list[str]:
        """The columns of scores."""
        return list(self.columns)

    def read(self, rows: Rows) -> Tensor:
        """(n,) classes of some rows, or (n, K) votes or bits."""
        table = torch.zeros(len(rows), len(self.names), dtype=torch.float64)
        for k, column in enumerate(self.columns.values()):
            if column:
                cells = rows.cells(column)
                table[:, k] = torch.tensor([_number(cell) for cell in cells], dtype=torch.float64)
        if self.kind == "votes":
            return table
        wrong = ~((table == 0) | (table == 1)).all(dim=1)
        if self.kind == "classes":
            wrong |= table.sum(dim=1) != 1
        if bool(wrong.any()):
            row = int(wrong.nonzero()[0])
            what = "one 1 and else zeros" if self.kind == "classes" else "zeros and ones"
            raise SoftkinError(
                f"{rows.where(row)}: {shown(self.truths)} must hold {what}, as the first rows do, got "
                f"{[round(value, 6) for value in table[row, :5].tolist()]}."
            )
        return table.argmax(dim=1) if self.kind == "classes" else table

    def __contains__(self, column: object) -> bool:
        return column in self.columns or column in self.truths

    @property
    def is_called(self) -> bool:
        """Whether words say that the columns hold the truth, or that those beside them hold scores."""
        are_scores = all(roles.class_of(column) is not None for column in self.columns)
        return are_scores or all(_words(column) & TRUTH_WORDS for column in self.truths)

    @property
    def truths(self) -> list[str]:
        """The columns of truth."""
        return [column for column in self.columns.values() if column]

    @property
    def kind_of_scores(self) -> ScoreKind | None:
        """The kind of scores that the columns' names say."""
        said = {roles.kind_of_word(found[0]) for column in self.scores if (found := roles.class_of(column))}
        return said.pop() if len(said) == 1 else None

    @property
    def why(self) -> str:
        """What was assumed."""
        how = {"classes": "the true classes, since each row has one 1", "votes": "votes",
               "several": "the labels, several per sample"}[self.kind]  # fmt: skip
        return f"{shown(self.truths)} are read as {how}, beside the scores {shown(self.scores)}"


def _number(cell: Any) -> float:
    """A cell of truth; not a number where it says nothing."""
    if isinstance(cell, str):
        cell = BITS.get(cell.strip().lower(), cell)
    try:
        return float(cell)
    except (TypeError, ValueError):
        return float("nan")


def found(table: Table, columns: Sequence[str]) -> Truth | None:
    """The columns of truth of a table, if it has a column of truth and one of scores for each class."""
    if not table.has_header or len(columns) < 4:
        return None
    numbers = [column for column in columns if table.columns[column] == "number"]
    texts = [column for column in columns if table.columns[column] == "text"]
    head = table.head([*numbers, *texts])
    cells = {column: [_number(cell) for cell in head[column]] for column in (*numbers, *texts) if head[column]}
    bits = [column for column, own in cells.items() if set(own) <= {0.0, 1.0}]
    votes = [c for c in cells if c not in bits and _words(c) & VOTE_WORDS and min(cells[c]) >= 0]
    scores = [column for column in numbers if column in cells and column not in votes]
    fractions = {column for column in scores if column not in bits}
    for truths in (bits, votes + bits) if votes else (bits,):
        if len(truths) > 1 and (match := _matched(truths, scores, fractions)) is not None:
            return _judged(*match, cells, is_vote=truths is not bits)
    return None


def _judged(
    pairs: dict[str, str], names: list[str], cells: Mapping[str, Sequence[float]], *, is_vote: bool
) -> Truth | None:
    """The kind of truth that the first rows show; None if they show none."""
    own = torch.tensor([cells[column] for column in pairs.values() if column], dtype=torch.float64)
    ones = own.sum(dim=0)
    if is_vote:
        return Truth(pairs, names, "votes") if bool((ones > 0).all()) else None
    if bool((ones == 1).all()):
        return Truth(pairs, names, "classes")
    return Truth(pairs, names, "several") if all(pairs.values()) else None


def _words(column: str) -> set[str]:
    return set(_tokens(column))


def _tokens(column: str) -> tuple[str, ...]:
    """The words of a name; letters and the digits behind them are two: y0."""
    words: list[str] = []
    for word in roles.plain(column).split("_"):
        letters = word.rstrip("0123456789")
        words += [part for part in (letters, word[len(letters) :]) if part]
    return tuple(words)


def _by_affix(columns: Sequence[str]) -> dict[Affix, dict[tuple[str, ...], str]]:
    """For every way to take words off the ends of names: the columns by what is left."""
    found: dict[Affix, dict[tuple[str, ...], str]] = {}
    for column in columns:
        words = _tokens(column)
        for start in range(min(LEADING, len(words) - 1) + 1):
            for end in range(max(start + 1, len(words) - TRAILING), len(words) + 1):
                affix = words[:start], words[end:]
                found.setdefault(affix, {}).setdefault(words[start:end], column)
    return {affix: group for affix, group in found.items() if len(group) > 1}


def _matched(
    truths: Sequence[str], scores: Sequence[str], fractions: Set[str]
) -> tuple[dict[str, str], list[str]] | None:
    """(from each column of scores to the column of truth that is called after the same class, names of the classes).

    All columns of a kind share the words around the name of the class. The largest match counts; between equal ones,
    that with the fewest words around. Scores with words of their own must all have a truth, except one at most: what
    never occurs may have no column.
    """
    best: tuple[tuple[int, int], dict[str, str], list[str]] | None = None
    of_scores = _by_affix(scores)
    for affix, group in _by_affix(truths).items():
        for other, known in of_scores.items():
            both = group.keys() & known.keys()
            if affix == other or len(both) < 2:
                continue
            taken = {group[key] for key in both}
            named = {key: own for key, own in known.items() if (any(other) or key in both) and own not in taken}
            if len(both) < max(len(named) - 1, 2) or (any(affix) and len(both) < len(group)):
                continue
            if not fractions & set(named.values()):
                continue
            size = len(both), -sum(map(len, (*affix, *other)))
            if best is None or size > best[0]:
                pairs = {column: group.get(key, "") for key, column in named.items()}
                best = size, pairs, [_without(column, other) for column in pairs]
    return None if best is None else best[1:]


def _without(column: str, affix: Affix) -> str:
    """The name of a class, without the words around it."""
    before, after = ("".join(rf"[\W_]*{re.escape(word)}" for word in words) for words in affix)
    left = re.sub(rf"^{before}[\W_]*", "", column, flags=re.IGNORECASE) if before else column
    return re.sub(rf"[\W_]*{after}[\W_]*$", "", left, flags=re.IGNORECASE) if after else left
