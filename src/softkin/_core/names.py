"""Registries of named things: each is declared once; commands, tables, messages and completions read them.

A ``Registry`` holds what can be chosen by name: metrics, calibrators, distance sources, training methods, networks,
file formats. It knows the canonical names in the order of their declaration, and old or short spellings. Every
"did you mean" of softkin comes from ``did_you_mean``.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NoReturn, TypeVar

T = TypeVar("T")

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
"""The names of the digits: the classes of handwritten digits, and the words to look up for "0" … "9"."""

CUTOFF = 0.55  # of difflib's ratio: "evalute" and "evaluate" have 0.93, "ts" and "ets" 0.8


def near(word: str, known: Iterable[str], *, most: int = 1, cutoff: float = CUTOFF) -> list[str]:
    """The known words that look most like ``word``, the nearest first; case does not count."""
    import difflib  # here: help loads this module, and seldom has to guess

    by_lower: dict[str, str] = {}
    for candidate in known:
        by_lower.setdefault(candidate.lower(), candidate)
    return [by_lower[match] for match in difflib.get_close_matches(word.lower()[:200], by_lower, most, cutoff)]


def did_you_mean(
    word: str,
    known: Iterable[str],
    *,
    cutoff: float = CUTOFF,
    otherwise: str = ".",
    shown: Callable[[str], str] = repr,
) -> str:
    """The end of a sentence that refused ``word``: the nearest known word, or ``otherwise`` if none is near.

    Example:
        >>> "unknown metric 'acuracy'" + did_you_mean("acuracy", ["accuracy", "nll"])
        "unknown metric 'acuracy'; did you mean 'accuracy'?"
        >>> "unknown metric 'zzz'" + did_you_mean("zzz", ["accuracy", "nll"])
        "unknown metric 'zzz'."
    """
    matches = near(word, known, cutoff=cutoff)
    return f"; did you mean {shown(matches[0])}?" if matches else otherwise


def require(word: str, known: Iterable[str], what: str) -> str:
    """``word`` if it is in ``known``, a plain list; else raise an error with the nearest of them.

    Example:
        >>> require("rey", ["local", "ray"], "engine")
        Traceback (most recent call last):
        ValueError: engine 'rey' is not known; there are local, ray; did you mean 'ray'?
    """
    words = list(known)
    if word in words:
        return word
    raise ValueError(f"{what} {word!r} is not known; there are {', '.join(words)}{did_you_mean(str(word), words)}")


class Registry(Mapping[str, T], Generic[T]):
    """Named things of one kind, in the order of their declaration.

    Looking up an alias gives the thing itself; iterating gives canonical names only.

    Args:
        kind: The word for one of them in messages, such as "calibrator".
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._items: dict[str, T] = {}
        self._aliases: dict[str, str] = {}
        self._origins: dict[str, tuple[str, str]] = {}
        self.changes = 0
        """How often something was added or removed: what is made of a registry is made again when it differs"""

    def add(self, name: str, item: T, *, aliases: Iterable[str] = (), origin: Any = None) -> T:
        """Declare ``item`` under its canonical name and other accepted spellings; returns ``item``.

        ``origin`` is the class or function that ``item`` is declared by. If the same one declares the name again, as in
        a notebook cell that is run twice, the new declaration replaces the old one; anything else is refused.
        """
        aliases = tuple(aliases)
        home = None if origin is None else (origin.__module__, origin.__qualname__)
        if home is not None and self._origins.get(name) == home:
            self.remove(name)
        for spelling in (name, *aliases):
            if spelling in self:
                raise ValueError(f"there is already a {self.kind} called {spelling!r}.")
        self.changes += 1
        self._items[name] = item
        self._aliases.update(dict.fromkeys(aliases, name))
        if home is not None:
            self._origins[name] = home
        return item

    def add_class(self, item: T, name: str, title: str, aliases: Iterable[str]) -> T:
        """Declare a class under its name; its title and its own name in lower case are accepted spellings too."""
        made: Any = item
        spellings = dict.fromkeys([*aliases, title.lower(), made.__name__.lower()])
        return self.add(name, item, aliases=[spelling for spelling in spellings if spelling != name], origin=made)

    def remove(self, name: str) -> None:
        """Remove a declaration and its aliases; for tests and notebooks with their own declarations."""
        self.changes += 1
        del self._items[name]
        self._origins.pop(name, None)
        self._aliases = {alias: target for alias, target in self._aliases.items() if target != name}

    def without(self, names: Iterable[str]) -> "Registry[T]":
        """A copy that lacks some names, for a message that need not list them."""
        other = Registry[T](self.kind)
        left = set(names)
        other._items = {name: item for name, item in self._items.items() if name not in left}
        other._aliases = {alias: target for alias, target in self._aliases.items() if target not in left}
        return other

    def __getitem__(self, name: str) -> T:
        return self._items[self._aliases.get(name, name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, name: object) -> bool:
        return name in self._items or name in self._aliases

    @property
    def spellings(self) -> list[str]:
        """Every name and alias."""
        return [*self._items, *self._aliases]

    def canonical(self, name: Any, argument: str | None = None, *, also: str = "") -> str:
        """The canonical name of a spelling; an unknown one raises an error that lists the names and the nearest one.

        Case, hyphens, underscores and blanks do not count: "One_Hot" and "onehot" are "one-hot".

        Args:
            name: The spelling.
            argument: The argument or option that it belongs to, for the message; by default the kind.
            also: What else is allowed, for the message, such as "a .csv file".
        """
        if isinstance(name, str) and (found := self.find(name)) is not None:
            return found
        self.refuse(name, argument, also=also)

    def find(self, name: str) -> str | None:
        """The canonical name of a spelling, whatever its case and hyphens, if only one thing can be meant."""
        for spelling in (name, name.lower()):
            if spelling in self:
                return self._aliases.get(spelling, spelling)
        meant = {self._aliases.get(known, known) for known in self.spellings if _letters(known) == _letters(name)}
        return meant.pop() if len(meant) == 1 else None

    def refuse(self, name: Any, argument: str | None = None, *, also: str = "") -> NoReturn:
        """Raise the error for an unknown name."""
        what = f"`{argument}`" if argument else f"a {self.kind}"
        listed = ", ".join(self._items) + (f", or {also}" if also else "")
        if not isinstance(name, str):
            raise TypeError(f"{what} must be one of {listed}, got {name!r}.")
        raise ValueError(f"{what} must be one of {listed}, got {name!r}{did_you_mean(name, self.spellings)}")


def _letters(name: str) -> str:
    """A name without what people vary: case, and what stands between its words."""
    return re.sub(r"[\s_-]+", "", name).casefold()


def counted(number: int, thing: str) -> str:
    """A number of things in words.

    Example:
        >>> counted(1, "seed"), counted(3, "seed")
        ('1 seed', '3 seeds')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


SHORT = 24
"""The letters of a short name, as charts and narrow tables show it"""


BRIEF = 16
"""The number of letters above which words that all names share are left out"""


def short_names(names: Sequence[str], most: int = SHORT) -> list[str]:
    """Names for charts, of at most ``most`` letters, that still differ where the names do.

    If a name has more than 16 letters, the words that all names begin with and end with are left out, then the words
    that most names share, then the middle of names that are still too long. If only numbers
    differ, the word before them stays. Names that would then be equal get their number.

    Example:
        >>> short_names(["probs_netcal_lenet-5-cifar-100.npz", "probs_netcal_wideresnet-16-4-cifar-100.npz"])
        ['lenet-5', 'wideresnet-16-4']
        >>> short_names(["runs/resnet-50-seed-1.npz", "runs/resnet-50-seed-2.npz"])
        ['seed-1', 'seed-2']
        >>> short_names(["resnet32-cifar100-logits.npz", "densenet-bc-100-cifar100-probs.npz"])
        ['resnet32-logits', 'densenet-bc-100-probs']
    """
    if all(len(name) <= min(most, BRIEF) for name in names):
        return list(names)
    parts = [re.findall(r"[-_./ ]|[^-_./ ]+", name) or [name] for name in names]
    fewest = min(len(part) for part in parts) - 1 if len(parts) > 1 else 0
    first = next((i for i in range(fewest) if len({part[i] for part in parts}) > 1), fewest)
    left = fewest - first
    last = next((i for i in range(left) if len({part[-1 - i] for part in parts}) > 1), left)
    if all(re.fullmatch(r"(?:[-_./ ]|\d+[A-Za-z]?)*", "".join(part[first : len(part) - last])) for part in parts):
        first = max(0, first - 2)  # the last word that they share says what is numbered
    short = ["".join(part[first : len(part) - last]).strip("-_./ ") for part in parts]
    short = [kept or name for kept, name in zip(short, names, strict=True)]
    short = _without_shared_words(short, most)
    half = most // 2
    short = [name if len(name) <= most else f"{name[: half - 1]}…{name[half - most :]}" for name in short]
    return [
        name if short.count(name) == 1 else f"{place} {name[: most - 3]}" for place, name in enumerate(short, start=1)
    ]


def spelling(name: Any) -> str:
    """The name of a class without what people vary: case, and blanks, underscores or hyphens between words.

    Example:
        >>> spelling("Sweet_Pepper "), spelling(2.0), spelling("-1")
        ('sweet pepper', '2', '-1')
    """
    if number := re.fullmatch(r"\s*(-\d+)(?:\.0*)?\s*", str(name)):
        return number[1]  # a sign is no hyphen
    text = re.sub(r"[\s_-]+", " ", str(name)).strip().casefold()
    return text.removesuffix(".0") if re.fullmatch(r"\d+\.0", text) else text


def _without_shared_words(names: Sequence[str], most: int) -> list[str]:
    """Names without the words that most of them share, the most frequent first, until all fit; none becomes another."""
    parts = [re.findall(r"[-_./ ]?[^-_./ ]+", name) for name in names]

    def joined(dropped: set[str]) -> list[str]:
        return ["".join(part for part in each if part.strip("-_./ ") not in dropped).strip("-_./ ") for each in parts]

    words = [{part.strip("-_./ ") for part in each} for each in parts]
    counts = {word: sum(word in own for own in words) for own in words for word in own}
    left_out: set[str] = set()
    for word in sorted(
        (word for word, n in counts.items() if n > 1), key=lambda word: (-counts[word], -len(word), word)
    ):
        short = joined(left_out)
        if all(len(name) <= most for name in short):
            break
        tried = joined(left_out | {word})
        if all(tried) and len(set(tried)) == len(set(names)):
            left_out.add(word)
    return joined(left_out) if left_out and len(set(names)) > 1 else list(names)


def within(names: Sequence[str], wanted: Sequence[str]) -> list[str] | None:
    """What the names hold between the same letters, if these are the wanted ones: "cat" of ``est_cat_q3``."""
    longest = max(wanted, key=len, default="")
    if len(names) != len(wanted) or len(longest) < 2:
        return None
    for name in names:
        before, found, after = name.partition(longest)
        cut = [
            other[len(before) : len(other) - len(after)]
            for other in names
            if other.startswith(before) and other.endswith(after) and len(other) > len(before) + len(after)
        ]
        if found and len(cut) == len(names) and set(cut) == set(wanted):
            return cut
    return None
