"""Class names → vectors of their words, and the distances between them."""

import difflib
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from softkin import checks
from softkin.names import DIGITS
from softkin.word_vectors import WordVectors

ENTITY = "ENTITY/"  # how Wikipedia2Vec marks the rows that stand for articles rather than words

_POSSESSIVE = re.compile(r"['’]s\b", re.IGNORECASE)
# camelCase and HTTPServer, but not iPod or eBook
_HUMP = re.compile(r"(?<=[a-z0-9]{2})(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BETWEEN = re.compile(r"[\W_]+")  # everything that is neither a letter nor a digit

Lookup = Callable[[str], Any]


def tokens(name: str) -> list[str]:
    """The words of a class name, lower-cased.

    >>> tokens("aquarium_fish"), tokens("T-shirt/top"), tokens("bird's nest"), tokens("pickupTruck")
    (['aquarium', 'fish'], ['t', 'shirt', 'top'], ['bird', 'nest'], ['pickup', 'truck'])
    """
    parted = _HUMP.sub(" ", _POSSESSIVE.sub(" ", name))
    return [token for token in _BETWEEN.split(parted.lower()) if token]


def from_words(
    class_names: Sequence[str | Sequence[str]],
    vectors: WordVectors | Mapping[str, Any] | str | Path | None = None,
    *,
    aliases: Mapping[str, str] | None = None,
    prefer: Literal["words", "entity"] = "words",
) -> Tensor:
    r"""L2 distance between the vectors of the class names: how far apart the words are in meaning.

    .. math:: d(k, k') = \|V(w_k) - V(w_{k'})\|_2

    with V of a name of several words the mean of their vectors. Names are split at ``_``, spaces, hyphens,
    ``/ , ? &`` and other punctuation, at the humps of camelCase and before a possessive 's, and lower-cased; a
    one-character token without a vector is left out if another token remains.

    Args:
        class_names: K names that differ; each a text, or a list of synonyms of which the first whose words all
            have vectors is taken.
        vectors: None for the GloVe vectors that come with softkin, a ``WordVectors``, a mapping from words to
            arrays, or the path of a file for ``WordVectors.load``.
        aliases: What to look up instead of a name or a word, such as {"gasmask": "gas mask"}.
        prefer: "entity" takes each class's whole-name entity vector (Wikipedia2Vec's ``ENTITY/…`` rows) if every
            class has one, and else warns and takes words for all: the two kinds never share a matrix.

    Returns:
        D, with zeros on the diagonal.

    Raises:
        ValueError: Words without a vector: all of them, the closest known words, and what to do.

    Example:
        >>> D = from_words(["dolphin", "whale", "rose"])
        >>> bool(D[0, 1] < D[0, 2])
        True

    References:
        Liu and JaJa, 2021, Sec. 5.3; Pennington et al., GloVe, 2014.
    """
    rows = name_vectors(class_names, vectors, aliases=aliases, prefer=prefer)
    return torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist")


def name_vectors(
    class_names: Sequence[str | Sequence[str]],
    vectors: WordVectors | Mapping[str, Any] | str | Path | None = None,
    *,
    aliases: Mapping[str, str] | None = None,
    prefer: Literal["words", "entity"] = "words",
) -> Tensor:
    """The vectors that ``from_words`` takes the distances of, (K, d) float64: for ``similarity.from_vectors``."""
    if prefer not in ("words", "entity"):
        raise ValueError(f"`prefer` must be 'words' or 'entity', got {prefer!r}.")
    synonyms = _synonyms(class_names)
    if len(synonyms) < 2:
        raise ValueError(f"`class_names` must name at least 2 classes, got {len(synonyms)}.")
    if vectors is None:
        vectors = WordVectors.shipped()
    elif isinstance(vectors, str | Path):
        vectors = WordVectors.load(vectors)
    aliases = {key.lower(): value for key, value in (aliases or {}).items()}
    rows = _whole_names(synonyms, vectors, aliases) if prefer == "entity" else None
    if rows is None:
        rows = _word_means(synonyms, vectors, aliases)
    lengths = {len(row) for row in rows}
    if len(lengths) > 1:
        raise ValueError(f"`vectors` must all have one length, got lengths {sorted(lengths)}.")
    result = torch.from_numpy(np.stack(rows))
    checks.finite(result, "vectors")
    return result


def _synonyms(class_names: Sequence[str | Sequence[str]]) -> list[list[str]]:
    """Each class's names, at least one; classes must differ by their first, unless they have others."""
    checks.in_order(class_names)
    synonyms: list[list[str]] = []
    for place, entry in enumerate(class_names):
        if not isinstance(entry, str | Sequence):
            raise TypeError(f"`class_names` must hold text or lists of text, got {entry!r} at place {place}.")
        names = [entry] if isinstance(entry, str) else list(entry)
        if not names:
            raise ValueError(f"`class_names` must not hold an empty name, but place {place} is an empty list.")
        for name in names:
            if not isinstance(name, str):
                raise TypeError(f"`class_names` must hold text or lists of text, got {name!r} at place {place}.")
            if not name.strip():
                raise ValueError(f"`class_names` must not hold an empty name, but place {place} is empty.")
        synonyms.append(names)
    seen: dict[tuple[str, ...], int] = {}
    for place, names in enumerate(synonyms):
        first = seen.setdefault(tuple(names), place)
        if first != place:
            raise ValueError(f"`class_names` must differ, but {names[0]!r} stands at places {first} and {place}.")
    return synonyms


def _lookup(vectors: WordVectors | Mapping[str, Any]) -> Lookup:
    """Word → 1-D float64 array, or None."""

    def find(word: str) -> Any:
        if word not in vectors:
            return None
        row = checks.as_tensor(vectors[word], "vectors").cpu().numpy().astype(np.float64)
        if row.ndim != 1:
            raise ValueError(f"`vectors` must map words to 1-D arrays, got shape {row.shape} for {word!r}.")
        return row

    return find


def _word_means(
    synonyms: list[list[str]], vectors: WordVectors | Mapping[str, Any], aliases: Mapping[str, str]
) -> list[Any]:
    """For each class the mean vector of the first synonym whose words all have one."""
    find = _lookup(vectors)
    rows: list[Any] = []
    unknown: dict[str, str] = {}  # word → the class name that it was in
    for names in synonyms:
        missing: list[dict[str, str]] = []
        for name in names:
            row, lacking = _mean(name, find, aliases)
            if row is not None:
                rows.append(row)
                break
            missing.append(dict.fromkeys(lacking, name))
        else:
            unknown |= missing[0]  # the first synonym is the one that a reader knows the class by
    if not unknown:
        return rows
    # A mapping may hold whole names as they are; only if it does so for all classes, and words would not do.
    whole = [next((find(name) for name in names if name in vectors), None) for names in synonyms]
    if all(row is not None for row in whole):
        return whole
    raise ValueError(_explain(unknown, vectors))


def _mean(name: str, find: Lookup, aliases: Mapping[str, str]) -> tuple[Any, list[str]]:
    """(mean vector of the name's words, []) or (None, the words without a vector)."""
    if name.lower() in aliases:
        words = tokens(aliases[name.lower()])  # not looked up among the aliases again: two may name each other
    else:
        words = [word for token in tokens(name) for word in (tokens(aliases[token]) if token in aliases else [token])]
    rows = {word: find(word) for word in words}
    found = [rows[word] for word in words if rows[word] is not None]
    lacking = [word for word in rows if rows[word] is None]
    needed = [word for word in lacking if len(word) > 1]
    if needed or not found:
        return None, needed or lacking or [name]
    return np.mean(found, axis=0), []


def _whole_names(
    synonyms: list[list[str]], vectors: WordVectors | Mapping[str, Any], aliases: Mapping[str, str]
) -> list[Any] | None:
    """Entity vectors of all classes, or None with a warning that names the classes without one."""
    find = _lookup(vectors)
    titles = [[key for name in names for key in _titles(aliases.get(name.lower(), name))] for names in synonyms]
    rows = [next((find(key) for key in keys if key in vectors), None) for keys in titles]
    without = [names[0] for names, row in zip(synonyms, rows, strict=True) if row is None]
    if not without:
        return rows
    shown = ", ".join(map(repr, without[:5])) + (f" and {len(without) - 5} more" if len(without) > 5 else "")
    warnings.warn(
        f"entity vectors are used only if every class has one, and {len(without)} of {len(rows)} have none ({shown}); "
        "words are used for all classes.",
        stacklevel=4,  # the caller of from_words
    )
    return None


def _titles(name: str) -> list[str]:
    """How an article named ``name`` may be titled: as written, with a capital, lower-cased with a capital."""
    plain = "_".join(name.replace("_", " ").split())
    lower = "_".join(tokens(name))
    titles = [
        plain,
        plain[:1].upper() + plain[1:],
        lower[:1].upper() + lower[1:],
        "_".join(map(str.capitalize, tokens(name))),
    ]
    return [ENTITY + title for title in dict.fromkeys(titles)]


def _explain(unknown: Mapping[str, str], vectors: WordVectors | Mapping[str, Any]) -> str:
    """The one sentence for all words without a vector."""
    known = list(vectors)
    parts: list[str] = []
    example: dict[str, str] = {}
    for word, name in unknown.items():
        close = closest(word, vectors, known)
        where = "" if name == word else f" in {name!r}"
        parts.append(f"{word!r}{where}" + (f" (close: {', '.join(close)})" if close else ""))
        # Only what is surely meant goes into the remedy: a digit, two words in one, a slip of the pen.
        if close and len(example) < 10 and (len(word) == 1 or _alike(word, close[0].replace(" ", "")) > 0.85):
            example[word] = close[0]
    word, other = next(iter(example.items()), (next(iter(unknown)), "…"))
    return (
        f"{len(unknown)} word{'s have' if len(unknown) > 1 else ' has'} no vector: {'; '.join(parts)}; pass "
        f"aliases={example or {word: other}} (--alias {f'{word}={other}'!r}) to look up a word that has one, "
        "or `vectors` that hold more words."
    )


def _alike(word: str, other: str) -> float:
    return difflib.SequenceMatcher(None, word, other).ratio()


def closest(word: str, vectors: Any, known: Sequence[str], *, most: int = 3) -> list[str]:
    """Known words that may be meant: a digit's name, two words written as one, then similar spelling."""
    if len(word) == 1 and word in "0123456789":
        return [DIGITS[int(word)]]
    joined = [
        f"{word[:cut]} {word[cut:]}"
        for cut in range(2, len(word) - 1)
        if word[:cut] in vectors and word[cut:] in vectors
    ]
    joined.sort(key=lambda pair: abs(pair.index(" ") - len(word) / 2))
    alike = [other for other in known if other[:1] == word[:1] and abs(len(other) - len(word)) <= 2]
    return [*joined[:1], *difflib.get_close_matches(word, alike, n=most, cutoff=0.76)][:most]
