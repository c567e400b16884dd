"""Write what is inferred about files into docs/files.md, from the code that infers it."""

from pathlib import Path

from softkin._core import named_labels
from softkin._io import roles, tables
from softkin.predictions import formats, inference

PAGE = Path(__file__).parent.parent / "docs" / "files.md"
BEGIN, END = "<!-- inferred: scripts/files_page.py writes this -->", "<!-- /inferred -->"
SHOWN: tuple[tuple[roles.Role, str], ...] = (
    ("label", "labels"), ("id", "ids"), ("text", "texts"), ("score", "the single score of a binary model"),
    ("prediction", "predictions, which are left out"), ("outcome", "whether an answer was right"),
    ("weight", "weights"), ("part", "folds and splits"), ("index", "row numbers"),
)  # fmt: skip


def written() -> str:
    """The tables of formats, of what is inferred, and of names."""
    suffixes = {name: known.suffixes for name, known in (*formats.FORMATS.items(), *tables.FORMATS.items())}
    lines = ["| format | suffixes |", "| --- | --- |"]
    lines += [f"| {name} | {_listed(known)} |" for name, known in suffixes.items()]
    lines += ["", "| the file | what happens | the option |", "| --- | --- | --- |"]
    lines += [f"| {' | '.join(row)} |" for row in inference.INFERRED]
    lines += ["", "| columns, arrays and keys | are called |", "| --- | --- |"]
    lines += [f"| {what} | {_listed(name for name in roles.NAMES[role] if name)} |" for role, what in SHOWN]
    words = [*(word for known in roles.KINDS.values() for word in known), *roles.WEAK_WORDS]
    lines += [f"| scores of classes | the class with one of {_listed(words)} before or after it |"]
    lines += [f"| the names of all classes | {_listed(roles.CLASS_NAMES)} |"]
    pairs = ", ".join(f"`{positive}` of `{negative}`/`{positive}`" for negative, positive in named_labels.PAIRS)
    lines += [f"| the positive label | {pairs}, and `spam` of `not spam`/`spam` |"]
    return "\n".join(lines)


def _listed(names: object) -> str:
    return ", ".join(f"`{name}`" for name in names)  # type: ignore[attr-defined]


def page(text: str) -> str:
    """The page with the tables between their marks."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{written()}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"Wrote {PAGE}")
