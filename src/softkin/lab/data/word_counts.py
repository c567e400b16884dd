"""Text as hashed word counts.

Word w is counted at index crc32(w) mod 4096, so that no vocabulary has to be learnt, stored or shipped. Words with
the same index share a count. scikit-learn's ``HashingVectorizer`` has another hash, so that cached data and trained
networks would change, and gives sparse matrices of floats, which would have to be made dense here.
"""

import re
import zlib
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

PLACES = 4096
TOGETHER = 1024  # texts per chunk: 4 MiB

_WORD = re.compile(r"\w+(?:['’]\w+)?")


def words(text: str) -> list[str]:
    """The words of a text, lower-cased.

    >>> words("What's my balance, please?")
    ["what's", 'my', 'balance', 'please']
    """
    return _WORD.findall(text.lower().replace("’", "'"))


def counts(texts: Sequence[str]) -> NDArray[np.uint8]:
    """Word counts (N, 4096); a count above 255 is stored as 255."""
    result = np.zeros((len(texts), PLACES), dtype=np.uint8)
    for row, text in zip(result, texts, strict=True):
        for word in words(text):
            place = zlib.crc32(word.encode("utf-8", "surrogatepass")) % PLACES
            row[place] += row[place] < 255
    return result


def pieces(texts: Sequence[str]) -> Iterator[NDArray[np.uint8]]:
    """``counts`` in chunks."""
    for start in range(0, len(texts), TOGETHER):
        yield counts(texts[start : start + TOGETHER])
