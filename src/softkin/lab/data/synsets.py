"""Names for WordNet's numbers: Tiny-ImageNet calls a class n02124075, and ``words.txt`` gives its synonyms."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from softkin._io import files

_NUMBER = re.compile(r"n\d{8}")


def lines_of(path: Path) -> list[str]:
    """The lines of a text file."""
    with files.reading(path, "UTF-8 text"):
        return files.read_bytes(path, "text").decode("utf-8").splitlines()


def named(numbers: Sequence[str], words: Path) -> list[str]:
    """The synonyms of each number in ``words.txt``; other names and unknown numbers are returned unchanged."""
    if not all(_NUMBER.fullmatch(number) for number in numbers):
        return list(numbers)
    wanted = set(numbers)
    synonyms = {
        number: rest.strip()
        for number, tab, rest in (line.partition("\t") for line in lines_of(words))
        if tab and rest.strip() and number in wanted
    }
    names = [synonyms.get(number, number) for number in numbers]
    # Two classes may have the same synonyms (crane: a bird and a machine); their numbers then distinguish them.
    counts = Counter(names)
    return [name if counts[name] == 1 else f"{name} ({number})" for name, number in zip(names, numbers, strict=True)]
