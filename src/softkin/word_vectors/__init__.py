"""Word vectors: two sets that come with softkin, and files of others.

The sets that come with softkin, each with its licence:

- "minilm", the default: vectors of single words and of common multi-word names from the sentence encoder
  all-MiniLM-L6-v2, in 128 dimensions and of unit length (``scripts/build_vectors.py``; Apache-2.0, see
  ``NOTICE-MiniLM.txt``). Names that are no kind of their last word ("hot dog") are drawn towards their broader terms
  in WordNet, which ``broader.txt`` lists (``scripts/build_broader.py``).
- "glove": the 20,000 most frequent words of GloVe 6B and the words of common class lists, 100 dimensions, float16.
  Their plain L2 distances are the paper's kind (``scripts/build_glove.py``; public domain, see ``LICENSE-GloVe.txt``).
"""

import functools
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softkin import SoftkinError
from softkin._core.names import Registry, did_you_mean
from softkin._io import files
from softkin.word_vectors import converted
from softkin.word_vectors.vector_files import read_blocks

SENTENCES = Path(__file__).parent / "minilm-128d.safetensors"
GLOVE = Path(__file__).parent / "glove-6b-100d.safetensors"
BROADER = Path(__file__).parent / "broader.txt"
IMAGENET = Path(__file__).parent / "imagenet.txt"  # names of ImageNet's classes; scripts/build_imagenet.py
SHIPPED: Registry[Path] = Registry("set of word vectors")
SHIPPED.add("minilm", SENTENCES)
SHIPPED.add("glove", GLOVE)
DEFAULT = "minilm"
LONGEST = 8  # maximum words in an entry of "minilm"; counting them would take as long as reading them
HEAD, ABOVE = 0.5, 0.6  # of an entry's own vector and of its broader terms'; benchmarks/phrases.py, docs/labels.md
SMALL = 2**20  # bytes: smaller files are read faster than their digest is computed


class WordVectors(Mapping[str, NDArray[np.floating[Any]]]):
    """A mapping from words to vectors, stored as one array.

    Args:
        words: One word per row; of equal words the first counts.
        vectors: (n, d) numbers.
        source: A description of their origin.
        unit: Use directions only: every vector is scaled to unit length when it is looked up, and so is the mean vector
            of a multi-word name. Such vectors may be integers.
        longest: Maximum number of words in an entry, separated by single spaces. Names are first looked up as entries
            of several words.
        categories: (n,) integers with one bit for each kind of thing that a word may stand for; 0 means unknown.
        broader: Entries that are no kind of their last word, each with broader terms. The vector of such an entry is
            the direction of its own, without half of what it shares with its last word's, plus 0.6 times the direction
            of the sum of its broader terms'. Only with ``unit``.
    """

    def __init__(
        self,
        words: Collection[str],
        vectors: NDArray[Any],
        *,
        source: str = "",
        unit: bool = False,
        longest: int = 1,
        categories: NDArray[np.uint32] | None = None,
        broader: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        if vectors.ndim != 2 or len(words) != len(vectors):
            raise ValueError(
                f"`vectors` must be one row for each of {len(words)} words, got an array of shape {vectors.shape}."
            )
        self.vectors = vectors
        self.source = source
        self.unit = unit
        self.longest = longest
        self._categories = categories
        self.broader = broader or {}
        self._words = list(words)
        self._place = self._indexed()

    def _indexed(self) -> dict[str, int]:
        """The row of each word; in reverse order, so that the first of equal words wins."""
        last = len(self._words) - 1
        return dict(zip(reversed(self._words), range(last, -1, -1), strict=True))

    def row(self, word: str) -> int | None:
        """The row of a word in ``vectors``; None if it has none."""
        return self._place.get(word)

    def __getitem__(self, word: str) -> NDArray[np.floating[Any]]:
        vector: NDArray[np.floating[Any]] = self.rows([word])[0] if self.unit else self._taken([word])[0]
        return vector

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self.row(word) is not None

    def __iter__(self) -> Iterator[str]:
        return (word for place, word in enumerate(self._words) if self.row(word) == place)

    def __len__(self) -> int:
        return len(self._place)

    def __repr__(self) -> str:
        return f"WordVectors({len(self)} words, {self.vectors.shape[1]} dimensions, source={self.source!r})"

    def rows(self, words: Sequence[str]) -> NDArray[np.float64]:
        """The vectors of known words as rows."""
        matrix = self._taken(words).astype(np.float64)
        if not self.unit:
            return matrix
        matrix = unit_length(matrix)
        for place, word in enumerate(words):
            if word in self.broader:
                matrix[place] = self._drawn(word, matrix[place])
        return matrix

    def _drawn(self, word: str, own: NDArray[np.float64]) -> NDArray[np.float64]:
        """The vector of an entry between its own and those of its broader terms."""
        above = unit_length(self._taken(self.broader[word]).astype(np.float64)).sum(axis=0)
        last = word.rpartition(" ")[2]
        if self.row(last) is not None:
            head = unit_length(self._taken([last])[0].astype(np.float64))
            own = unit_length(own - HEAD * (own @ head) * head)
        return unit_length(own + ABOVE * unit_length(above))

    def _taken(self, words: Sequence[str]) -> NDArray[Any]:
        return self.vectors[self._rows(words)]

    def _rows(self, words: Sequence[str]) -> list[int]:
        """The rows of words, which must all be known."""
        places = [self.row(word) for word in words]
        known = [place for place in places if place is not None]
        if len(known) < len(places):
            raise KeyError(words[places.index(None)])
        return known

    def categories(self, word: str) -> int:
        """The kinds of thing that a word may stand for, as bits; 0 means unknown."""
        place = self.row(word)
        return 0 if self._categories is None or place is None else int(self._categories[place])

    @staticmethod
    def shipped(name: str = DEFAULT) -> "WordVectors":
        """Vectors that come with softkin: "minilm" or "glove"."""
        return _shipped(SHIPPED.canonical(name, "name"))

    @staticmethod
    def load(
        path: str | Path,
        *,
        only: Collection[str] | None = None,
        most: int | None = None,
        progress: bool | None = None,
    ) -> "WordVectors":
        """Read GloVe text, word2vec text or binary, fastText's .vec or Wikipedia2Vec, plain or .gz, .bz2 or .zst.

        A line of text is a word and its numbers, separated by spaces; every line must have as many numbers as the
        first. The first load of a file above 1 MiB converts it into the user's cache (``SOFTKIN_CACHE``). From then on
        it is memory-mapped, and the cost of looking up a word does not depend on its size.

        Args:
            path: The file.
            only: Keep only these words, in memory.
            most: Stop after this many words and keep them in memory; the files are ordered by frequency.
            progress: Show a bar; by default only on a terminal.

        Raises:
            SoftkinError: The file is missing, truncated or of no known format; the message has the line number.
        """
        path = Path(path)
        if not path.exists():
            meant = did_you_mean(str(path), SHIPPED)
            raise SoftkinError(f"{path} could not be read: there is no such file{meant}")
        if files.require_regular(path) > SMALL and only is None and most is None:
            return StoredWordVectors(converted.opened(path, progress=progress), source=path.name)
        words, rows = _selected(path, only, most, progress)
        if not words:
            wanted = " of the requested words" if only is not None else ""
            raise SoftkinError(f"{path} holds none{wanted}." if wanted else f"{path} holds no word vectors.")
        return WordVectors(words, np.concatenate(rows), source=path.name)


class SortedWordVectors(WordVectors):
    """Word vectors whose words are sorted and distinct: found by bisection, they need no index to be built."""

    def row(self, word: str) -> int | None:
        """The row of a word in ``vectors``; None if it has none."""
        place = bisect_left(self._words, word)
        return place if place < len(self._words) and self._words[place] == word else None

    def _indexed(self) -> dict[str, int]:
        return {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._words)

    def __len__(self) -> int:
        return len(self._words)


class StoredWordVectors(WordVectors):
    """Word vectors in a memory-mapped file of the cache, read only where words are looked up."""

    def __init__(self, stored: converted.VectorStore, *, source: str) -> None:
        self.stored, self.source = stored, source
        self.vectors, self.unit, self.longest = stored.vectors, False, 1
        self._categories, self.broader = None, {}

    def row(self, word: str) -> int | None:
        """The row of a word in ``vectors``; None if it has none."""
        return self.stored.row(word)

    def _taken(self, words: Sequence[str]) -> NDArray[Any]:
        return self.stored.take(self._rows(words))

    def __iter__(self) -> Iterator[str]:
        return self.stored.words()

    def __len__(self) -> int:
        return self.stored.count


def _selected(
    path: Path, only: Collection[str] | None, most: int | None, progress: bool | None
) -> tuple[list[str], list[NDArray[np.float32]]]:
    """The selected words of a file, and their vectors."""
    wanted = None if only is None else set(only)
    words: list[str] = []
    rows: list[NDArray[np.float32]] = []
    for block, vectors in read_blocks(path, progress=progress):
        kept = [place for place, word in enumerate(block) if wanted is None or word in wanted]
        kept = kept if most is None else kept[: most - len(words)]
        words += [block[place] for place in kept]
        rows.append(vectors[kept])
        if most is not None and len(words) >= most:
            break
    return words, rows


def unit_length(vectors: NDArray[Any]) -> NDArray[np.float64]:
    """The directions of vectors (…, d), float64; zero vectors stay zero."""
    length = np.linalg.norm(vectors.astype(np.float64), axis=-1, keepdims=True)
    directions: NDArray[np.float64] = vectors / np.where(length > 0, length, 1.0)
    return directions


def opened(vectors: WordVectors | Mapping[str, Any] | str | Path | None) -> WordVectors | Mapping[str, Any]:
    """The vectors that ``vectors`` stands for: None, the name of a shipped set, a path, or vectors themselves."""
    if vectors is None:
        return WordVectors.shipped()
    if isinstance(vectors, str) and vectors in SHIPPED:
        return WordVectors.shipped(vectors)
    return WordVectors.load(vectors) if isinstance(vectors, str | Path) else vectors


def file_of(vectors: str | Path | None) -> Path:
    """The file for an argument ``vectors``: a shipped file or the caller's."""
    name = DEFAULT if vectors is None else vectors
    return SHIPPED[name] if isinstance(name, str) and name in SHIPPED else Path(name)


@functools.cache
def _shipped(name: str) -> WordVectors:
    from safetensors.numpy import load_file

    arrays = load_file(SHIPPED[name])
    words = arrays["words"].tobytes().decode("utf-8").split("\n")
    if name == "glove":
        vectors = np.stack([arrays["low"], arrays["high"]], axis=-1).view("<f2")[..., 0]  # bytes of float16, kept apart
        return WordVectors(words, vectors, source="GloVe 6B, 100 dimensions, shipped with softkin")
    return SortedWordVectors(
        words,
        arrays["vectors"],
        source="all-MiniLM-L6-v2, 128 dimensions, shipped with softkin",
        unit=True,
        longest=LONGEST,
        categories=arrays["categories"],
        broader=_broader(),
    )


def _broader() -> dict[str, list[str]]:
    """The entries that are no kind of their last word, with their broader terms."""
    lines = BROADER.read_text(encoding="utf-8").splitlines() if BROADER.exists() else []
    return {entry: terms for entry, *terms in (line.split("\t") for line in lines)}
