"""Names for WordNet's numbers: Tiny-ImageNet calls a class n02124075, and ``words.txt`` says what that is."""

import re
from collections.abc import Sequence
from pathlib import Path

from softkin import SoftkinError

_NUMBER = re.compile(r"n\d{8}")


def named(numbers: Sequence[str], words: Path) -> list[str]:
    """The synonyms of each number, as ``words.txt`` has them; other names, and unknown numbers, stay as they are."""
    if not all(_NUMBER.fullmatch(number) for number in numbers):
        return list(numbers)
    try:
        lines = words.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SoftkinError(f"{words} could not be read: {error}.") from error
    wanted = set(numbers)
    synonyms = {
        number: rest.strip()
        for number, tab, rest in (line.partition("\t") for line in lines)
        if tab and rest.strip() and number in wanted
    }
    names = [synonyms.get(number, number) for number in numbers]
    # Two classes may have the same synonyms (crane: a bird and a machine); their numbers keep them apart.
    return [
        name if names.count(name) == 1 else f"{name} ({number})" for name, number in zip(names, numbers, strict=True)
    ]
