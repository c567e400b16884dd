"""Files with one score for each sample of a binary model: the class it is of, and the two columns it becomes."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softkin import SoftkinError
from softkin._core import checks
from softkin._core.named_labels import PAIRS
from softkin._core.names import spelling
from softkin._io import files
from softkin._io.roles import ScoreKind
from softkin.predictions.blocks import Block, PredictionFile
from softkin.predictions.request import Reading

NOT = re.compile(r"(?:not|non|no|un|never) ?(.+)")
MOST_KINDS = 100  # different labels that are kept to find the two classes
SCANNED = 2**14  # rows read at a time to see which labels there are


def expanded(source: PredictionFile, reading: Reading) -> PredictionFile:
    """The file with its single scores as one column for each of the two classes, and its labels as 0 and 1."""
    classes = _classes(source, reading)

    def blocks(rows: int) -> Iterator[Block]:
        for block in source.blocks_of(rows):
            values = block.values if block.values.is_floating_point() else block.values.double()
            labels = None if block.labels is None else classes.numbers(block.labels, source.name)
            yield replace(block, values=_two_columns(values, source.kind, classes.place), labels=labels)

    return replace(
        source, num_classes=2, class_names=classes.names, blocks_of=blocks, columns_named=False,
        assumed=(*source.assumed, *classes.assumed),
    )  # fmt: skip


def _two_columns(scores: Tensor, kind: ScoreKind | None, place: int) -> Tensor:
    """(n, 2) scores from (n, 1): s and 1 − s, or log-odds s and 0; s beyond 0 or 1 by a rounding is 0 or 1."""
    if kind == "probs":
        beyond = (scores - scores.clamp(0, 1)).abs() <= checks.UNIT_ROUNDING
        scores = torch.where(beyond, scores.clamp(0, 1), scores)
    other = 1 - scores if kind == "probs" else torch.zeros_like(scores)
    return torch.cat([scores, other] if place == 0 else [other, scores], dim=1)


@dataclass(frozen=True)
class Classes:
    """The two classes of a file."""

    names: list[str]
    place: int
    """The class that the score is of: 0 or 1"""
    known: dict[str, int]
    """The class of each label, in its plain form"""
    assumed: tuple[str, ...] = ()
    rest: bool = False
    """Whether all labels but that of the score are the other class"""

    def numbers(self, labels: Any, name: str) -> Tensor:
        """The labels of a block as 0 and 1."""
        texts = [plain(label) for label in _listed(labels)]
        if self.rest:
            return torch.tensor([self.known.get(text, 1 - self.place) for text in texts], dtype=torch.int64)
        other = next((text for text in texts if text not in self.known), None)
        if other is not None:
            raise SoftkinError(
                f"{name}: labels beside one score for each sample must be of two kinds, got "
                f"{', '.join(self.names)} and {other}; for more classes there must be a column of scores for each."
            )
        return torch.tensor([self.known[text] for text in texts], dtype=torch.int64)


def plain(label: Any) -> str:
    """A label in the form in which two spellings are compared."""
    text = str(label).strip()
    return str(int(float(text))) if re.fullmatch(r"[+-]?\d{1,15}(\.0*)?", text) else spelling(text)  # exact as floats


def _listed(labels: Any) -> list[Any]:
    return labels.tolist() if isinstance(labels, Tensor | np.ndarray) else list(labels)


def _classes(source: PredictionFile, reading: Reading) -> Classes:
    """The two classes, by what the caller states, what the score is called after, and the labels themselves."""
    stated, hinted = reading.positive_class, source.positive_class
    there = _labels_in(source)
    named = reading.names
    if named is not None:
        return _as_named(named, stated, source.name, there)
    one = next((plain(name) for name in (stated, hinted) if name is not None and plain(name) in there), None)
    if len(there) > 2 and one is not None:
        return _one_of_more(source, there, one)
    if len(there) > 2:
        raise SoftkinError(
            f"{source.name} has one score for each sample, but labels of more than two kinds, "
            f"{', '.join(list(there.values())[:4])} …; for more than two classes there must be a column for each."
        )
    if stated is not None and len(there) == 2 and plain(stated) not in there:
        both = " or ".join(sorted(there.values()))
        raise SoftkinError(f"{source.name}: --positive-class must be {both}, as the labels are, got {stated!r}.")
    forms = list(there)
    pair = _pair(forms)
    if stated is not None:
        positive = plain(stated)
    elif hinted is not None and plain(hinted) in (there or (plain(hinted),)):
        positive = plain(hinted)
    elif pair is not None:
        positive = pair[1]
    else:
        raise _unknown(source.name, list(there.values()))
    called = there | ({positive: stated} if stated is not None else {})
    if pair is not None and positive in pair:
        order = list(pair)
    else:
        order = [next((form for form in forms if form != positive), f"not {positive}"), positive]
    names = [called.get(form, _other(form, hinted)) for form in order]
    place = order.index(positive)
    why = f"{source.name}: `{source.score_name or 'its score'}` is read as the score of class {names[place]} "
    assumed = () if stated is not None else (f"{why}(--positive-class overrules).",)
    return Classes(names, place, {form: k for k, form in enumerate(order)}, assumed)


def _one_of_more(source: PredictionFile, there: dict[str, str], positive: str) -> Classes:
    """One class of three or more, and all others."""
    name, rest = there[positive], [called for form, called in there.items() if form != positive]
    why = f"{source.name}: `{source.score_name or 'its score'}` is read as the score of class {name}"
    others = f"other labels ({', '.join(rest[:3])}{' …' if len(rest) > 3 else ''}) count as not {name}"
    return Classes([f"not {name}", name], 1, {positive: 1}, (f"{why}; {others}.",), rest=True)


def _other(form: str, hinted: str | None) -> str:
    """The name of a class that no label has."""
    return hinted if hinted is not None and plain(hinted) == form else form


def _as_named(names: list[str], stated: str | None, name: str, there: dict[str, str]) -> Classes:
    """The two classes that the caller names; labels are those names, or 0 and 1."""
    if len(names) != 2 or stated not in (None, *names):
        of = "" if stated is None else f", one of them {stated!r} (--positive-class)"
        raise SoftkinError(f"{name}: --class-names must hold two names{of}, got {', '.join(names)}.")
    place = 1 if stated is None else names.index(stated)
    known = {plain(class_name): k for k, class_name in enumerate(names)}
    if not set(there) <= set(known):
        known |= {"0": 0, "1": 1, "false": 0, "true": 1}
        unnamed = [form for form in there if form not in known]
        if len(unnamed) == 1 and len(there) == 2 and plain(names[place]) in there:
            known[unnamed[0]] = 1 - place
    return Classes(names, place, known)


def _read(source: PredictionFile) -> Iterator[Block]:
    """The blocks of a file; what a library says about damage becomes a sentence."""
    with files.reading(source.name, "predictions"):
        yield from source.blocks_of(SCANNED)


def _labels_in(source: PredictionFile) -> dict[str, str]:
    """The different labels by their plain form; the rows that are read are those until two are found."""
    there: dict[str, str] = {}
    for block in _read(source):
        if block.labels is None:
            return {}
        for label in _listed(block.labels):
            if len(there) < MOST_KINDS:
                there.setdefault(plain(label), str(label).strip())
        if len(there) >= 2:
            break
    return {form: _shown(form, called) for form, called in there.items()}


def _shown(form: str, called: str) -> str:
    """The name of a class: a label as it is written, but whole numbers without a point."""
    return form if re.fullmatch(r"-?\d+", form) else called


def _pair(forms: Sequence[str]) -> tuple[str, str] | None:
    """(negative, positive) if that is plain from the labels, or if there are none."""
    if not forms:
        return "0", "1"
    for negative, positive in PAIRS:
        if set(forms) <= {negative, positive}:
            return negative, positive
    if len(forms) == 2:
        for negative, positive in (forms, forms[::-1]):
            match = NOT.fullmatch(negative)
            if match is not None and match[1] == positive:
                return negative, positive
    return None


def _unknown(name: str, labels: Sequence[str]) -> SoftkinError:
    if len(labels) < 2:
        return SoftkinError(
            f"{name} has one score for each sample and only labels {', '.join(labels)}; say with --positive-class "
            "which class the score is of."
        )
    options = " or ".join(f"--positive-class {label}" for label in sorted(labels))
    return SoftkinError(f"{name} does not say which class its scores are of; type {options}.")
