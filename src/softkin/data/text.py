"""Text → counts of its words, each at the place that its hash names.

Word w counts at place crc32(w) mod 4096, so that no vocabulary has to be learnt, kept or shipped; words that share a
place share a count.
"""

import re
import zlib
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

PLACES = 4096
TOGETHER = 1024  # texts in one piece: 4 MiB

_WORD = re.compile(r"\w+(?:['’]\w+)?")


def words(text: str) -> list[str]:
    """The words of a text, lower-cased.

    >>> words("What's my balance, please?")
    ["what's", 'my', 'balance', 'please']
    """
    return _WORD.findall(text.lower().replace("’", "'"))


def counts(texts: Sequence[str]) -> NDArray[np.uint8]:
    """(N, 4096); a word that occurs more than 255 times counts 255."""
    result = np.zeros((len(texts), PLACES), dtype=np.uint8)
    for row, text in zip(result, texts, strict=True):
        for word in words(text):
            place = zlib.crc32(word.encode("utf-8", "surrogatepass")) % PLACES
            row[place] += row[place] < 255
    return result


def pieces(texts: Sequence[str]) -> Iterator[NDArray[np.uint8]]:
    """``counts`` piece by piece."""
    for start in range(0, len(texts), TOGETHER):
        yield counts(texts[start : start + TOGETHER])
