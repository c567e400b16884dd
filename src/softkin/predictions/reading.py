"""Options that state what a file of predictions does not say itself.

Options are declared here once; ``formats.open_file``, ``evaluation.evaluate_file`` and the command line use them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from softkin import SoftkinError
from softkin._core import checks
from softkin._core.names import did_you_mean
from softkin._io import files

ScoreKind = Literal["logits", "probs"]

NAMES: dict[ScoreKind, tuple[str, ...]] = {
    "logits": ("logits", "logit"),
    "probs": ("probs", "prob", "probabilities", "probability", "proba"),
}
LABELS = ("labels", "label", "label_ids", "targets", "target", "y_true")
IDS = ("sample_ids", "sample_id", "ids", "id")
TEXTS = ("texts", "text", "sentence", "utterance", "query")
TOLERANCE = 1e-3  # for the sum of a row, as in ``checks.probabilities``; half precision is allowed ten times as much


@dataclass(frozen=True)
class Reading:
    """Reading options. Each may be left out if the file itself is clear."""

    kind: ScoreKind | None = None
    """"logits" or "probs", if no name in the file says it"""
    labels: str | Path | None = None
    """A file that holds the labels, if the first does not"""
    form: str | None = None
    """The name of the format, if the file's suffix does not tell"""
    label_column: str | None = None
    """The column, array or key that holds the labels, if its name is not a usual one"""
    text_column: str | None = None
    """The column, array or key of the samples' texts, if not ``text``, ``sentence``, ``utterance`` or ``query``"""
    class_names: str | Path | Sequence[str] | None = None
    """The names of the classes in order, or a text file with one name per line"""
    positive_class: str | None = None
    """The class, such as "spam" or "1", that the single score of a binary model's file stands for"""
    renormalise: bool = False
    """Divide each row of probabilities by its sum, if rounding made the sums differ from 1"""

    def __post_init__(self) -> None:
        if self.kind is not None:
            checks.option(self.kind, "kind", tuple(NAMES))
        if isinstance(self.class_names, str | Path):
            object.__setattr__(self, "class_names", names_in(self.class_names))
        elif self.class_names is not None:
            object.__setattr__(self, "class_names", checks.class_names(self.class_names))
        if self.positive_class is not None and not self.positive_class.strip():
            raise ValueError("`positive_class` must name a class, got an empty name.")

    @property
    def names(self) -> list[str] | None:
        """The class names that the caller stated."""
        assert not isinstance(self.class_names, str | Path)
        return None if self.class_names is None else list(self.class_names)

    def label_part(self, present: Sequence[str], name: str) -> str | None:
        """The part of a file that holds the labels."""
        return _part(self.label_column, present, LABELS, name, "label_column")

    def text_part(self, present: Sequence[str], name: str) -> str | None:
        """The part of a file that holds the samples' texts."""
        return _part(self.text_column, present, TEXTS, name, "text_column")


def names_in(path: str | Path) -> list[str]:
    """The class names in a text file, one per line in class order; anything after a tab is ignored."""
    with files.reading(path, "UTF-8 text", hint="save it in that encoding"):
        text = files.read_bytes(path, "class names").decode("utf-8-sig")
    names = [line.partition("\t")[0].strip() for line in text.splitlines() if line.strip()]
    try:
        return checks.class_names(names)
    except ValueError as error:
        raise SoftkinError(f"{path}: {error}") from error


def named(present: Sequence[str], wanted: Sequence[str]) -> str | None:
    """The part with one of the wanted names; earlier names take precedence."""
    by_name = {part.lower(): part for part in present}
    return next((by_name[name] for name in wanted if name in by_name), None)


def _part(stated: str | None, present: Sequence[str], wanted: Sequence[str], name: str, option: str) -> str | None:
    if stated is None:
        return named(present, wanted)
    if stated in present:
        return stated
    held = ", ".join(list(present)[:10]) or "nothing"
    raise SoftkinError(
        f"{name} has no `{stated}` (--{option.replace('_', '-')}); it has {held}{did_you_mean(stated, present)}"
    )


# Rows of probabilities


def renormalised(p: Tensor, name: str, start: int) -> Tensor:
    """Rows divided by their sums."""
    p = p.to(torch.float64)
    sums = p.sum(dim=1, keepdim=True)
    wrong = ((p < 0).any(dim=1) | ~torch.isfinite(sums[:, 0]) | (sums[:, 0] <= 0)).nonzero()[:, 0]
    if len(wrong):
        row = int(wrong[0])
        raise SoftkinError(
            f"{name}, row {start + row}: to be renormalised a row must hold numbers of at least 0 that are not all 0, "
            f"got {[round(value, 6) for value in p[row, :5].tolist()]}."
        )
    return p / sums


def check_sums(p: Tensor, name: str, start: int) -> None:
    """Refuse rows that do not sum to 1, with the option that helps if they were rounded."""
    half = p.dtype in (torch.float16, torch.bfloat16)
    sums = p.sum(dim=1, dtype=torch.float32 if half else torch.float64)
    off = (sums - 1).abs()
    if not len(off) or not bool(torch.isfinite(sums).all()) or float(p.min()) < 0:
        return  # invalid values have their own error
    row = int(off.argmax())
    if float(off[row]) > TOLERANCE * (10 if half else 1):
        raise SoftkinError(
            f"{name}: `probabilities` must have rows that sum to 1, but row {start + row} sums to "
            f"{float(p[row].sum(dtype=torch.float64)):g}; if they were rounded, --renormalise divides each row by its "
            "sum; if they are logits, type --logits."
        )


# One score for each sample of a binary model


def binary_names(reading: Reading) -> tuple[list[str], int]:
    """The names of the two classes, and the index of the class that the scores stand for."""
    positive = str(reading.positive_class)
    names = reading.names or (["0", "1"] if positive in ("0", "1") else [f"not {positive}", positive])
    if len(names) != 2 or positive not in names:
        raise SoftkinError(
            f"--class-names must hold two names, one of them {positive!r} (--positive-class), got {', '.join(names)}."
        )
    return names, names.index(positive)


def two_columns(scores: Tensor, kind: ScoreKind, place: int) -> Tensor:
    """(n, 2) scores from (n, 1): s and 1 − s, or log-odds s and 0."""
    other = 1 - scores if kind == "probs" else torch.zeros_like(scores)
    return torch.cat([scores, other] if place == 0 else [other, scores], dim=1)


class BinaryLabels:
    """Labels of a binary file as 0 and 1, from numbers, from the two names, or with one other text for the negative."""

    def __init__(self, names: list[str], place: int, name: str) -> None:
        self.places = {text: k for k, text in enumerate(names)}
        self.names, self.place, self.name = names, place, name
        self.other: str | None = None

    def __call__(self, labels: Any) -> Any:
        """The labels of a block as 0 and 1."""
        values = labels.tolist() if hasattr(labels, "tolist") else list(labels)
        if not any(isinstance(value, str) for value in values):
            return torch.tensor([int(value) for value in values]) if values else labels
        return torch.tensor([self._number(value) for value in values], dtype=torch.int64)

    def _number(self, label: Any) -> int:
        text = str(label).strip()
        if text in self.places:
            return self.places[text]
        plain = {"0": 0, "0.0": 0, "false": 0, "1": 1, "1.0": 1, "true": 1}.get(text.lower())
        if plain is not None:
            return plain
        if self.other not in (None, text):
            raise SoftkinError(
                f"{self.name}: labels of a binary model must be of two kinds, got {self.names[self.place]}, "
                f"{self.other} and {text}."
            )
        self.other = text
        return 1 - self.place
