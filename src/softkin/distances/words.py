"""Class names → vectors of their words, and the distances between them."""

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from softkin import checks
from softkin.names import DIGITS, near
from softkin.word_vectors import SHIPPED, WordVectors, opened, unit_length

ENTITY = "ENTITY/"  # how Wikipedia2Vec marks the rows that stand for articles rather than words

_POSSESSIVE = re.compile(r"['’]s\b", re.IGNORECASE)
# camelCase and HTTPServer, but not iPod or eBook
_HUMP = re.compile(r"(?<=[a-z0-9]{2})(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BETWEEN = re.compile(r"[\W_]+")  # everything that is neither a letter nor a digit
_COUNTER = re.compile(r"[0-9]+|[a-z]")  # what numbered classes differ by: class_0, group b

NEAR_LENGTH = 64  # a longer word is no slip of the pen: near words are not looked for
SHOWN = 20  # words without a vector that a message lists

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

    with V of a name the vector of its entry, if the vectors have one for it ("polar bear"), and else the mean of the
    vectors of its parts: from the left, the most words that have an entry of their own. The vectors that come with
    softkin have unit length, and their means are brought to unit length again (GloVe's are left as they are). Names are
    split at ``_``, spaces, hyphens, ``/ , ? &`` and other punctuation, at the humps of camelCase and before a
    possessive 's, and lower-cased; a one-character token without a vector is left out if another token remains. Names
    that words cannot tell apart (``class_0`` and ``class_1``, two names with one vector) get a warning.

    Args:
        class_names: K names that differ; each a text, or a list of synonyms of which the first whose words all
            have vectors is taken.
        vectors: None for the vectors that come with softkin (a sentence encoder's, of English words), "glove" for the
            other ones that do (the paper's kind, of raw length), a ``WordVectors``, a mapping from words to arrays, or
            the path of a file for ``WordVectors.load``.
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
        Liu and JaJa, 2021, Sec. 5.3; Reimers and Gurevych, Sentence-BERT, 2019; Pennington et al., GloVe, 2014.
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
    rows = class_vectors(class_names, vectors, aliases=aliases, prefer=prefer)
    sentence = _indistinct([name if isinstance(name, str) else name[0] for name in class_names], rows, aliases or {})
    if sentence:
        warnings.warn(sentence, stacklevel=3)  # the caller of from_words, or of from_names
    return rows


def class_vectors(
    class_names: Sequence[str | Sequence[str]],
    vectors: WordVectors | Mapping[str, Any] | str | Path | None = None,
    *,
    aliases: Mapping[str, str] | None = None,
    prefer: Literal["words", "entity"] = "words",
) -> Tensor:
    """``name_vectors`` without a word about names that share one."""
    if prefer not in ("words", "entity"):
        raise ValueError(f"`prefer` must be 'words' or 'entity', got {prefer!r}.")
    synonyms = _synonyms(class_names)
    if len(synonyms) < 2:
        raise ValueError(f"`class_names` must name at least 2 classes, got {len(synonyms)}.")
    vectors = opened(vectors)
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


def _indistinct(names: Sequence[str], rows: Tensor, aliases: Mapping[str, str]) -> str:
    """What is wrong with names that words cannot tell apart; nothing if they can."""
    plain = [[word for word in tokens(name) if not _COUNTER.fullmatch(word)] for name in names]
    if not aliases and plain[0] and all(words == plain[0] for words in plain):
        return (
            f"the class names differ only by numbers or letters ({_listed(names)}), which say nothing of what the "
            "classes are: pass names that do, or `aliases` (--alias), or take distances of images or features."
        )
    classes: dict[bytes, list[str]] = {}
    digits = rows / rows.abs().max().clamp(min=torch.finfo(rows.dtype).tiny)
    for name, row in zip(names, (digits.round(decimals=9) + 0.0).numpy(), strict=True):
        classes.setdefault(row.tobytes(), []).append(name)
    alike = next((group for group in classes.values() if len(group) > 1), None)
    if alike is None:
        return ""
    return (
        f"{len(names) - len(classes) + 1} of {len(names)} class names share a vector ({_listed(alike)}), so nothing "
        "tells these classes apart: pass `aliases` (--alias) with other words for all but one of them."
    )


def _listed(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(map(repr, names[:most])) + (" …" if len(names) > most else "")


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
    unit, longest = (vectors.unit, vectors.longest) if isinstance(vectors, WordVectors) else (False, 1)
    rows: list[Any] = []
    unknown: dict[str, str] = {}  # word → the class name that it was in
    for names in synonyms:
        missing: list[dict[str, str]] = []
        for name in names:
            row, lacking = _mean(name, find, aliases, longest)
            if row is not None:
                rows.append(unit_length(row) if unit else row)
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


def _mean(name: str, find: Lookup, aliases: Mapping[str, str], longest: int) -> tuple[Any, list[str]]:
    """(mean vector of the name's entries, []) or (None, the words without a vector)."""
    if name.lower() in aliases:
        words = tokens(aliases[name.lower()])  # not looked up among the aliases again: two may name each other
    else:
        words = [word for token in tokens(name) for word in (tokens(aliases[token]) if token in aliases else [token])]
    rows: list[Any] = []
    lacking: dict[str, None] = {}
    place = 0
    while place < len(words):
        # From the left, the most words that have an entry of their own.
        for count in range(min(longest, len(words) - place), 0, -1):
            row = find(" ".join(words[place : place + count]))
            if row is not None:
                rows.append(row)
                break
        else:
            lacking[words[place]] = None
        place += count
    needed = [word for word in lacking if len(word) > 1]
    if needed or not rows:
        return None, needed or list(lacking) or [name]
    return np.mean(rows, axis=0), []


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
        stacklevel=5,  # the caller of from_words
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
    for word, name in list(unknown.items())[:SHOWN]:
        close = closest(word, vectors, known)
        where = "" if name == word else f" in {shortened(name)!r}"
        parts.append(f"{shortened(word)!r}{where}" + (f" (close: {', '.join(close)})" if close else ""))
        # Only what is surely meant goes into the remedy: a digit, two words in one, a slip of the pen.
        if close and len(example) < 10 and (len(word) == 1 or near(word, [close[0].replace(" ", "")], cutoff=0.85)):
            example[word] = close[0]
    if len(unknown) > SHOWN:
        parts.append(f"and {len(unknown) - SHOWN} more")
    word, other = next(iter(example.items()), (shortened(next(iter(unknown))), "…"))
    ours = isinstance(vectors, WordVectors) and any(vectors is WordVectors.shipped(name) for name in SHIPPED)
    return (
        f"{len(unknown)} word{'s have' if len(unknown) > 1 else ' has'} no vector: {'; '.join(parts)}; pass "
        f"aliases={example or {word: other}} (--alias {f'{word}={other}'!r}) to look up a word that has one, "
        "or `vectors` that hold more words" + (" (those of softkin are English)." if ours else ".")
    )


def shortened(text: str, most: int = 40) -> str:
    """The start of a text that may be very long."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def closest(word: str, vectors: Any, known: Sequence[str], *, most: int = 3) -> list[str]:
    """Known words that may be meant: a digit's name, two words written as one, then similar spelling."""
    if len(word) > NEAR_LENGTH:
        return []
    if len(word) == 1 and word in "0123456789":
        return [DIGITS[int(word)]]
    joined = [
        f"{word[:cut]} {word[cut:]}"
        for cut in range(2, len(word) - 1)
        if word[:cut] in vectors and word[cut:] in vectors
    ]
    joined.sort(key=lambda pair: abs(pair.index(" ") - len(word) / 2))
    alike = [other for other in known if other[:1] == word[:1] and abs(len(other) - len(word)) <= 2]
    return [*joined[:1], *near(word, alike, most=most, cutoff=0.76)][:most]
