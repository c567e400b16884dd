"""WordNet's nouns, read from its own files: Debian's wordnet-base, or nltk's download."""

import mmap
import os
from collections import deque
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from softkin import SoftkinError
from softkin._core.names import near
from softkin._io import files
from softkin.distances.words import PLURALS, SENSE, WNID

FOLDERS = ("/usr/share/wordnet", "/usr/local/share/wordnet", "~/nltk_data/corpora/wordnet")


class WordNet:
    """Nouns and their hypernyms. A synset is identified by its wnid, "n" and eight digits, as in ImageNet.

    Args:
        folder: The folder of ``index.noun`` and ``data.noun``; None uses SOFTKIN_WORDNET, or Debian's or nltk's folder.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        named = folder or os.environ.get("SOFTKIN_WORDNET")
        candidates = [files.expanded(path) for path in ([named] if named else FOLDERS)]
        present = [path for path in candidates if (path / "data.noun").is_file() and (path / "index.noun").is_file()]
        if not present:
            raise SoftkinError(
                f"WordNet was not found in {', '.join(map(str, candidates))}: install wordnet-base (Debian), or set "
                "SOFTKIN_WORDNET to a folder with index.noun and data.noun."
            )
        self.folder = present[0]
        self._data = self._mapped("data.noun")

    def _mapped(self, name: str) -> mmap.mmap:
        with files.open_file(self.folder / name) as file, files.reading(self.folder / name, "WordNet"):
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    @cached_property
    def _senses(self) -> dict[str, str]:
        """Each lemma with its line of the index."""
        path = self.folder / "index.noun"
        with files.reading(path, "WordNet"):
            lines = files.read_bytes(path, "WordNet").decode("utf-8").splitlines()
        return {line.partition(" ")[0]: line for line in lines if not line.startswith(" ")}

    def senses(self, lemma: str) -> list[str]:
        """The wnids of a lemma, the most frequent first; empty if there is no such noun."""
        line = self._senses.get(lemma.strip().lower().replace(" ", "_").replace("-", "_")) or self._senses.get(
            lemma.strip().lower().replace(" ", "_")
        )
        return (
            [] if line is None else [f"n{offset}" for offset in line.split() if len(offset) == 8 and offset.isdigit()]
        )

    def synset(self, name: str) -> str | None:
        """The wnid for a wnid, a sense ("crane.n.05") or a lemma; None if there is none.

        For a lemma this is the first sense that is a kind of thing, not a single person or place (for "crane", not the
        poet). A plural is looked up as its singular.
        """
        if WNID.fullmatch(name):
            return name if self._line(name) is not None else None
        sense = SENSE.fullmatch(name)
        if sense is not None:
            wnids = self.senses(sense[1])
            place = int(sense[2])
            return wnids[place - 1] if 1 <= place <= len(wnids) else None
        for lemma in _singulars(name):
            wnids = self.senses(lemma)
            kinds = [wnid for wnid in wnids if not self._is_instance(wnid)]
            if wnids:
                return (kinds or wnids)[0]
        return None

    def lemmas(self, wnid: str) -> list[str]:
        """The words of a synset."""
        fields = self._fields(wnid)
        return [fields[4 + 2 * word] for word in range(int(fields[3], 16))]

    def parents(self, wnid: str) -> list[str]:
        """The synsets that this one is a kind or an instance of."""
        return [target for _, target in self._pointers(wnid)]

    def above(self, class_names: Sequence[str | Sequence[str]]) -> tuple[list[tuple[str, str]], list[str]]:
        """(parent, child) pairs of everything above the given classes, and the wnids of the classes."""
        nodes: list[str] = []
        missing: list[str] = []
        for entry in class_names:
            names = [entry] if isinstance(entry, str) else list(entry)
            wnid = next((known for name in names if (known := self.synset(name)) is not None), None)
            if wnid is None:
                missing.append(names[0])
            else:
                nodes.append(wnid)
        if missing:
            head = missing[0].lower().replace(" ", "_")
            close = [lemma for lemma in self._senses if lemma[:2] == head[:2] and abs(len(lemma) - len(head)) <= 2]
            last = head.rpartition("_")[2]
            guesses = ([last] if last != head and last in self._senses else []) or near(head, close)
            guess = f"{missing[0]}={guesses[0]}" if guesses else f"{missing[0]}=WORD"
            listed = ", ".join(map(repr, missing[:5])) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
            raise SoftkinError(
                f"WordNet has no noun {listed}: say what to look up with `aliases` (--alias {guess!r}): a word, a "
                'sense such as "crane.n.05", or a wnid.'
            )
        return list(self.edges(nodes)), nodes

    def edges(self, wnids: Sequence[str]) -> Iterator[tuple[str, str]]:
        """(parent, child) pairs for everything above the given synsets."""
        seen, queue = set(wnids), deque(wnids)
        while queue:
            wnid = queue.popleft()
            for parent in self.parents(wnid):
                yield parent, wnid
                if parent not in seen:
                    seen.add(parent)
                    queue.append(parent)

    def nouns(self) -> Iterator[str]:
        """All wnids, in the order of the file."""
        start = 0
        while (end := self._data.find(b"\n", start)) >= 0:
            if self._data[start : start + 1] != b" ":  # the licence is indented
                yield f"n{self._data[start : start + 8].decode('ascii')}"
            start = end + 1

    def _line(self, wnid: str) -> str | None:
        """The synset's line; the number of a synset is the offset of its line."""
        offset = int(wnid[1:])
        end = self._data.find(b"\n", offset)
        line = self._data[offset : end if end >= 0 else len(self._data)].decode("utf-8", "replace")
        return line if line.startswith(f"{wnid[1:]} ") else None

    def _fields(self, wnid: str) -> list[str]:
        line = self._line(wnid)
        if line is None:
            raise SoftkinError(
                f"{self.folder / 'data.noun'} has no synset {wnid}: is it of another version of WordNet?"
            )
        return line.partition(" | ")[0].split(" ")

    def _pointers(self, wnid: str) -> list[tuple[str, str]]:
        with files.reading(self.folder / "data.noun", "WordNet"):
            fields = self._fields(wnid)
            start = 4 + 2 * int(fields[3], 16)
            quads = [fields[start + 1 + 4 * place : start + 5 + 4 * place] for place in range(int(fields[start]))]
            return [(symbol, f"n{target}") for symbol, target, pos, _ in quads if symbol in ("@", "@i") and pos == "n"]

    def _is_instance(self, wnid: str) -> bool:
        return any(symbol == "@i" for symbol, _ in self._pointers(wnid))


def in_words(class_names: Sequence[Any]) -> list[Any]:
    """Class names; if all are identifiers of WordNet and it is installed, the names of their synsets instead."""
    names = list(class_names)
    if not names or not all(isinstance(name, str) and WNID.fullmatch(name) for name in names):
        return names
    try:
        net = WordNet()
    except SoftkinError:
        return names
    return [[lemma.replace("_", " ") for lemma in net.lemmas(name)] or name for name in names]


def _singulars(name: str) -> Iterator[str]:
    """The name itself, and the singulars that it may be the plural of."""
    yield name
    lower = name.lower()
    for ending, other in PLURALS:
        if lower.endswith(ending) and len(lower) > len(ending) + 2:
            yield lower[: -len(ending)] + other
