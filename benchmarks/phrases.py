"""Which vectors of class names of several words tell best what networks confuse? Nats per mistake above uniform labels.

For each list: of the mistakes of a trained network, the mean of ln((K−1)·S[true class, answer]) at the best β, for all
classes and for those whose names have several words. Uniform smoothing has 0.

    built_in  as softkin has them: an entry of the whole name, else the mean of its parts; names that are no kind of
              their last word (hot dog) with their broader terms (``word_vectors/broader.txt``)
    entries   the same without the broader terms
    words     the mean of the words' vectors, without entries of several words
    kinds     entries with 0.6 times the mean direction of what WordNet has above them, four levels up, in the sense of
              the kind that most senses have; and WordNet's kinds (animal, food …) as further axes of weight 0.3
    encoder   all-MiniLM-L6-v2 itself, which made the entries, on the bare names

python benchmarks/phrases.py --wordnet FOLDER --imagenet FOLDER    # timm's data/_info; see scripts/build_vectors.py
"""

import argparse
import copy
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from softkin import similarity
from softkin._io.files import parse_json
from softkin.distances.words import tokens
from softkin.word_vectors import WordVectors, unit_length

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
BETAS = (0.5, 0.75, 1.0, 1.5, 2.0)
FOOD = ("hot dog", "cheeseburger", "pizza", "golden retriever", "tabby cat", "sea lion", "tiger", "school bus")


def main() -> None:
    """Print a line for each kind of vectors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wordnet", type=Path, required=True)
    parser.add_argument("--imagenet", type=Path, required=True)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    lists, vectors = mistakes(arguments.imagenet), Vectors(arguments.wordnet)
    for how in ("built_in", "entries", "words", "kinds", "encoder"):
        cells = []
        for name, (names, truth, answers) in lists.items():
            several = np.array([len(tokens(one[0])) > 1 for one in names])
            cells.append(f"{name} {scored(getattr(vectors, how)(names), truth, answers, several)}")
        distances = torch.cdist(*[torch.from_numpy(getattr(vectors, how)([[name] for name in FOOD]))] * 2)
        nearest = FOOD[int(distances[0, 1:].argmin()) + 1]
        print(f"{how}: {' | '.join(cells)} | hot dog → {nearest}", flush=True)


def scored(rows: Any, truth: Any, answers: Any, several: Any) -> str:
    """The score at the best β, of all classes and of those of several words."""
    wrong = truth != answers
    y, a = truth[wrong], answers[wrong]
    distances = torch.cdist(*[torch.from_numpy(rows)] * 2)
    best = (-np.inf, 0.0, 0.0)
    for beta in BETAS:
        s = similarity.from_distances(distances, beta=beta).numpy()
        gains = np.log(np.maximum(s[y, a], 1e-12) * (len(rows) - 1))
        best = max(best, (gains.mean(), gains[several[y]].mean(), beta))
    return f"{best[0]:.3f} ({best[1]:.3f}, {wrong.sum():,} mistakes, β {best[2]:g})"


def mistakes(imagenet: Path) -> dict[str, tuple[list[list[str]], Any, Any]]:
    """(names and synonyms, true classes, answers) of each list."""
    lines = (imagenet / "imagenet_synset_to_lemma.txt").read_text().splitlines()
    lemmas = dict(line.split("\t") for line in lines)
    ids = (imagenet / "imagenet_synsets.txt").read_text().split()
    kept = np.load(SHARED / "human/imagenet_val_predicted.npz")
    logits = np.load(SHARED / "logits/resnet32-cifar100-logits.npz")
    schema = pq.read_schema(SHARED / "cifar100/test-00000-of-00001.parquet").metadata[b"huggingface"]
    fine = parse_json(schema, "the schema", "JSON")["info"]["features"]["fine_label"]["names"]
    return {
        "ImageNet": ([lemmas[one].split(", ") for one in ids], kept["labels"], kept["predicted"]),
        "CIFAR-100": ([[name] for name in fine], logits["labels"], logits["logits"].argmax(1)),
        "CLINC150": texts("clinc150"),
        "banking77": texts("banking77"),
    }


def texts(name: str) -> tuple[list[list[str]], Any, Any]:
    """The answers of a logistic regression on 20 texts of each class."""
    table = pd.read_parquet(SHARED / "text" / f"{name}.parquet")
    train, test = (table[table.split == part] for part in ("train", "test"))
    some = train.groupby("label").sample(20, random_state=0)
    words = TfidfVectorizer()
    model = LogisticRegression(max_iter=300, C=5).fit(words.fit_transform(some.text), some.label)
    classes = [str(one) for one in model.classes_]
    place = {one: k for k, one in enumerate(classes)}
    answers = model.predict(words.transform(test.text))
    return [[one] for one in classes], np.array([place[k] for k in test.label]), np.array([place[k] for k in answers])


class Vectors:
    """(K, d) vectors of class names."""

    def __init__(self, wordnet: Path) -> None:
        self.shipped = WordVectors.shipped()
        self.known = copy.copy(self.shipped)
        self.known.broader = {}
        self.lemmas, self.above, self.kind, self.senses = dict[str, list[str]](), {}, {}, dict[str, list[str]]()
        for line in (wordnet / "data.noun").read_text().splitlines():
            if not line.startswith("  "):
                number, kind, _, count, *rest = line.split("|")[0].split()
                end = 2 * int(count, 16)
                pointers = rest[end + 1 :]
                self.lemmas[number] = [" ".join(tokens(lemma)) for lemma in rest[:end:2]]
                self.above[number] = [pointers[k + 1] for k in range(0, len(pointers), 4) if pointers[k][0] == "@"]
                self.kind[number] = int(kind)
        for line in (wordnet / "index.noun").read_text().splitlines():
            if not line.startswith("  "):
                fields = line.split()
                self.senses.setdefault(" ".join(tokens(fields[0])), []).extend(fields[-int(fields[2]) :])

    def built_in(self, names: list[list[str]]) -> Any:
        return np.array([unit_length(self.shipped.rows(self._parts(own)).sum(axis=0)) for own in names])

    def entries(self, names: list[list[str]]) -> Any:
        return np.array([unit_length(sum(map(self._own, self._parts(own)))) for own in names])

    def words(self, names: list[list[str]]) -> Any:
        return np.array([unit_length(sum(map(self._own, self._words(own)))) for own in names])

    def kinds(self, names: list[list[str]]) -> Any:
        rows = [unit_length(sum(map(self._with_above, self._parts(own)))) for own in names]
        bits = np.array(
            [[self.known.categories(self._parts(own)[-1]) >> b & 1 for b in range(32)] for own in names], float
        )
        has = bits.any(axis=1)
        bits[has] = unit_length(bits[has])
        bits[~has] = bits[has].mean(axis=0) if has.any() else 0
        return np.concatenate([np.array(rows), 0.3 * bits], axis=1)

    def encoder(self, names: list[list[str]]) -> Any:
        sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))
        from minilm import Encoder

        return Encoder()([" ".join(tokens(own[0])) for own in names]).double().numpy()

    def _own(self, entry: str) -> Any:
        return unit_length(self.known[entry].astype(float))

    def _words(self, own: list[str]) -> list[str]:
        return [word for word in tokens(own[0]) if word in self.known] or ["thing"]

    def _parts(self, own: list[str]) -> list[str]:
        """From the left, the longest runs of words with an entry, of the first name that has all words."""
        name = next((one for one in own if all(word in self.known for word in tokens(one))), own[0])
        words, parts, place = [word for word in tokens(name) if word in self.known] or ["thing"], [], 0
        while place < len(words):
            sizes = range(min(self.known.longest, len(words) - place), 0, -1)
            size = next(size for size in sizes if " ".join(words[place : place + size]) in self.known)
            parts.append(" ".join(words[place : place + size]))
            place += size
        return parts

    def _with_above(self, entry: str) -> Any:
        senses = self.senses.get(entry)
        if not senses:
            return self._own(entry)
        counts = Counter(self.kind[number] for number in senses)
        number = next(number for number in senses if counts[self.kind[number]] == max(counts.values()))
        found = []
        for _ in range(4):
            if not self.above[number]:
                break
            number = self.above[number][0]
            found += [self._own(lemma) for lemma in self.lemmas[number] if lemma in self.known][:1]
        return unit_length(self._own(entry) + 0.6 * unit_length(sum(found))) if found else self._own(entry)


if __name__ == "__main__":
    main()
