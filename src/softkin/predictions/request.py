"""Options that state what a file of predictions does not say itself.

Options are declared here once; ``reading.open_file``, ``evaluation.evaluate_file`` and the command line use them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from softkin import SoftkinError
from softkin._core import checks
from softkin._io import roles, tables
from softkin._io.roles import ScoreKind


@dataclass(frozen=True)
class Reading:
    """Reading options. Each may be left out if the file itself is clear."""

    kind: ScoreKind | None = None
    """"logits" or "probs", if neither a name in the file nor the numbers themselves say it"""
    labels: str | Path | None = None
    """A file that holds the labels, if the first does not"""
    form: str | None = None
    """The name of the format, if the file's suffix does not tell"""
    label_column: str | None = None
    """The column, array or key that holds the labels, if its name is not a usual one"""
    text_column: str | None = None
    """The column, array or key of the samples' texts, if its name is not a usual one"""
    class_columns: Sequence[str] | None = None
    """The columns that hold the scores of the classes, if their names and numbers do not tell"""
    ignore_columns: Sequence[str] = ()
    """Columns to leave out"""
    class_names: str | Path | Sequence[str] | None = None
    """The names of the classes in order, or a text file with one name per line"""
    positive_class: str | None = None
    """The class, such as "spam" or "1", that the single score of a binary model's file stands for"""
    score: str | None = None
    """The column of confidences, in a file of pairs of a confidence and its outcome"""
    outcome: str | None = None
    """The column that says whether each was right"""
    group: str | None = None
    """The column that says which group a row belongs to"""
    weight: str | None = None
    """The column of the rows' weights"""
    keep_unlabelled: bool = False
    """Keep rows without a label, and read no labels at all if one is missing; else such rows are left out"""
    renormalise: bool = False
    """Divide each row of probabilities by its sum, however far from 1 it is"""

    def __post_init__(self) -> None:
        if self.kind is not None:
            checks.option(self.kind, "kind", tuple(roles.KINDS))
        if isinstance(self.class_names, str | Path):
            object.__setattr__(self, "class_names", names_in(self.class_names))
        elif self.class_names is not None:
            object.__setattr__(self, "class_names", checks.class_names(self.class_names))
        if self.positive_class is not None and not self.positive_class.strip():
            raise ValueError("`positive_class` must name a class, got an empty name.")
        for option in ("class_columns", "ignore_columns"):
            stated = getattr(self, option)
            if isinstance(stated, str):  # as the command line separates them
                object.__setattr__(self, option, [name.strip() for name in stated.split(",") if name.strip()])

    @property
    def names(self) -> list[str] | None:
        """The class names that the caller stated."""
        assert not isinstance(self.class_names, str | Path)
        return None if self.class_names is None else list(self.class_names)

    def label_part(self, present: Sequence[str], name: str) -> str | None:
        """The part of a file that holds the labels."""
        return roles.chosen(present, "label", self.label_column, "label_column", name)

    def text_part(self, present: Sequence[str], name: str) -> str | None:
        """The part of a file that holds the samples' texts."""
        return roles.chosen(present, "text", self.text_column, "text_column", name)


def names_in(path: str | Path) -> list[str]:
    """The class names in a text file, one per line in class order; anything after a tab is ignored."""
    names = [line.partition("\t")[0].strip() for _, line in tables.read_lines(path, "class names")]
    try:
        return checks.class_names(names)
    except ValueError as error:
        raise SoftkinError(f"{path}: {error}") from error


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
