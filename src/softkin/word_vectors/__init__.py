"""Word vectors: the ones that come with softkin, and files of others.

Two sets come with softkin, each beside its licence:

- "minilm", the default: what the sentence encoder all-MiniLM-L6-v2 makes of single words and of usual names of several,
  in 128 dimensions and of unit length (``scripts/build_vectors.py``; Apache-2.0, see ``NOTICE-MiniLM.txt``).
- "glove": the 20,000 most frequent words of GloVe 6B and the words of usual class lists, 100 dimensions, float16. Their
  plain L2 distances are the paper's kind (``scripts/build_glove.py``; public domain, see ``LICENSE-GloVe.txt``).
"""

import bz2
import contextlib
import functools
import gzip
import warnings
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from softkin import SoftkinError, checks, files
from softkin.names import Registry, did_you_mean
from softkin.progress import track

SENTENCES = Path(__file__).parent / "minilm-128d.safetensors"
GLOVE = Path(__file__).parent / "glove-6b-100d.safetensors"
SHIPPED: Registry[Path] = Registry("set of word vectors")
SHIPPED.add("minilm", SENTENCES)
SHIPPED.add("glove", GLOVE)
DEFAULT = "minilm"
LONGEST = 8  # words of an entry of "minilm"; counting them would take as long as reading them

_LINES = 2000  # parsed at a time


class WordVectors(Mapping[str, NDArray[np.floating[Any]]]):
    """A mapping from words to vectors that keeps them as one array.

    Args:
        words: One for each row; of two that are equal the first counts.
        vectors: (n, d) numbers.
        source: Where they are from, in words.
        unit: Only directions count: every vector is brought to unit length when it is looked up, and so is the mean
            vector of a name of several words. Such vectors may be integers.
        longest: How many words an entry has at most, parted by single spaces. Names are looked up as entries of
            several words first.
        categories: (n,) integers, a bit for each kind of thing that a word may stand for; 0: not known.
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
        self._words = list(words)
        last = len(self._words) - 1
        # From the end, so that the first of twins wins.
        self._place = dict(zip(reversed(self._words), range(last, -1, -1), strict=True))

    def __getitem__(self, word: str) -> NDArray[np.floating[Any]]:
        row: NDArray[np.floating[Any]] = self.vectors[self._place[word]]
        return unit_length(row) if self.unit else row

    def __contains__(self, word: object) -> bool:
        return word in self._place

    def __iter__(self) -> Iterator[str]:
        return (word for place, word in enumerate(self._words) if self._place[word] == place)

    def __len__(self) -> int:
        return len(self._place)

    def __repr__(self) -> str:
        return f"WordVectors({len(self)} words, {self.vectors.shape[1]} dimensions, source={self.source!r})"

    def rows(self, words: Sequence[str]) -> NDArray[np.float64]:
        """The vectors of words that there are, one below the other."""
        matrix: NDArray[np.float64] = self.vectors[[self._place[word] for word in words]].astype(np.float64)
        return unit_length(matrix) if self.unit else matrix

    def categories(self, word: str) -> int:
        """The kinds of thing that a word may stand for, as bits; 0: not known."""
        place = self._place.get(word)
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
        """Read GloVe text, or word2vec text with its header line (Wikipedia2Vec), plain or .gz or .bz2.

        A line is a word and its numbers, separated by spaces; every line must have as many numbers as the first.

        Args:
            path: The file.
            only: Keep just these words (the others are read over, which is several times faster).
            most: Stop after this many words; the files are ordered by frequency.
            progress: Show a bar; by default on a terminal.

        Raises:
            SoftkinError: The file is missing, is not text of this form, or was cut off; with the line's number.
        """
        path = Path(path)
        if not path.exists():
            meant = did_you_mean(str(path), SHIPPED)
            raise SoftkinError(f"{path} could not be read: there is no such file{meant}")
        files.require_regular(path)
        words, rows = _read(path, only, most, progress)
        if not words:
            wanted = " of the words asked for" if only is not None else ""
            raise SoftkinError(f"{path} holds none{wanted}." if wanted else f"{path} holds no word vectors.")
        return WordVectors(words, np.concatenate(rows), source=path.name)


def unit_length(vectors: NDArray[Any]) -> NDArray[np.float64]:
    """The directions of vectors (…, d), float64; 0 stays 0."""
    length = np.linalg.norm(vectors.astype(np.float64), axis=-1, keepdims=True)
    directions: NDArray[np.float64] = vectors / np.where(length > 0, length, 1.0)
    return directions


def opened(vectors: WordVectors | Mapping[str, Any] | str | Path | None) -> WordVectors | Mapping[str, Any]:
    """What an argument ``vectors`` stands for: None and a shipped set's name, a file's path, or vectors themselves."""
    if vectors is None:
        return WordVectors.shipped()
    if isinstance(vectors, str) and vectors in SHIPPED:
        return WordVectors.shipped(vectors)
    return WordVectors.load(vectors) if isinstance(vectors, str | Path) else vectors


def file_of(vectors: str | Path | None) -> Path:
    """The file behind an argument ``vectors``: a shipped one, or the caller's."""
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
    return WordVectors(
        words,
        arrays["vectors"],
        source="all-MiniLM-L6-v2, 128 dimensions, shipped with softkin",
        unit=True,
        longest=LONGEST,
        categories=arrays["categories"],
    )


def _read(
    path: Path, only: Collection[str] | None, most: int | None, progress: bool | None
) -> tuple[list[str], list[NDArray[np.float32]]]:
    wanted = None if only is None else set(only)
    words: list[str] = []
    rows: list[NDArray[np.float32]] = []
    texts: list[str] = []
    places: list[int] = []
    declared: int | None = None
    dimension = 0
    number, line = 0, "\n"

    def parse() -> None:
        if texts:
            rows.append(_numbers(path, texts, places, dimension))
            texts.clear()
            places.clear()

    try:
        with _open(path) as file:
            for number, line in enumerate(track(file, f"reading {path.name}", show=progress), start=1):
                text = line.rstrip("\r\n ")
                if number == 1:
                    head = text.split(" ")
                    if len(head) == 2 and all(part.isdecimal() for part in head):
                        declared, dimension = int(head[0]), int(head[1])
                        continue
                    dimension = len(head) - 1
                    if dimension < 1:
                        raise SoftkinError(
                            f"{path}, line 1: a word and its numbers are due, separated by spaces, got {text[:40]!r}."
                        )
                spaces = text.count(" ")
                word = text[: text.find(" ")] if spaces == dimension else text.rsplit(" ", dimension)[0].rstrip()
                # More spaces than numbers: some words hold spaces (GloVe 840B has ". . ."), but not numbers.
                if spaces < dimension or (spaces > dimension and checks.is_number(word.rsplit(" ", 1)[-1])):
                    raise SoftkinError(
                        f"{path}, line {number}: {dimension} numbers are due, got {spaces}; was the file cut off there?"
                    )
                if wanted is None or word in wanted:
                    words.append(word)
                    places.append(number)
                    texts.append(text[len(word) + 1 :])
                    if len(texts) == _LINES:
                        parse()
                if len(words) == most:
                    break
            else:
                _check_end(path, number - (declared is not None), declared, line)
            parse()
    except UnicodeDecodeError as error:
        raise SoftkinError(
            f"{path}, after line {number}: not UTF-8 text; binary word2vec files must be converted to text first."
        ) from error
    except EOFError as error:
        raise SoftkinError(f"{path} was cut off after line {number}: get the file again.") from error
    except (OSError, zlib.error) as error:  # gzip and bz2 report damage so
        raise SoftkinError(f"{path} could not be read: {error}.") from error
    return words, rows


def _open(path: Path) -> IO[str]:
    opener: Any = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix.lower(), open)
    file: IO[str] = opener(path, "rt", encoding="utf-8-sig", newline="\n")
    return file


def _numbers(path: Path, texts: list[str], places: list[int], dimension: int) -> NDArray[np.float32]:
    """Many lines' numbers at once; on a fault, line by line to name it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what cannot be read is a warning to numpy
        with contextlib.suppress(ValueError, DeprecationWarning, RuntimeWarning):
            values = np.fromstring(" ".join(texts), dtype=np.float32, sep=" ")
            if np.isfinite(values).all():
                return values.reshape(len(texts), dimension)
    for text, place in zip(texts, places, strict=True):
        for value in text.split(" "):
            if not checks.is_number(value) or not abs(float(value)) <= float(np.finfo(np.float32).max):
                raise SoftkinError(f"{path}, line {place}: finite numbers are due, got {value[:40]!r}.")
    raise SoftkinError(f"{path}, lines {places[0]} to {places[-1]}: finite numbers are due.")


def _check_end(path: Path, lines: int, declared: int | None, last: str) -> None:
    """Whether the file is whole, as far as it tells."""
    if declared is not None and lines != declared:
        raise SoftkinError(
            f"{path} announces {declared} vectors in its first line and holds {lines}: it was cut off, get it again."
        )
    if not last.endswith("\n"):
        warnings.warn(
            f"the last line of {path.name} does not end; if the file was cut off, the last vector is wrong.",
            stacklevel=4,
        )
