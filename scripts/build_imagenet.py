"""List what the classes of ImageNet's challenge (ILSVRC 2012) are called: ``python scripts/build_imagenet.py WNIDS``.

The 1,000 classes are numbered synsets of WordNet 3.0 (n01440764). This writes each with its lemmas, so that such names
are looked up without WordNet. A first lemma of two classes stands before that of the synset above it: "crane wading
bird", "crane lifting device". WNIDS is the file timm/data/_info/imagenet_synsets.txt of the Python package timm 1.0.31
(Apache-2.0), whose lines are in the order of the classes; the lemmas are from WordNet 3.0 (Debian's wordnet-base).
"""

import argparse
from collections import Counter
from pathlib import Path

from softkin._io.files import write
from softkin.distances.tree_files import WordNet
from softkin.word_vectors import IMAGENET


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wnids", type=Path, help="a file with one identifier per line")
    parser.add_argument("--wordnet", help="WordNet's folder")
    arguments = parser.parse_args()
    wordnet = WordNet(arguments.wordnet)
    wnids = arguments.wnids.read_text(encoding="utf-8").split()
    names = [[lemma.replace("_", " ") for lemma in wordnet.lemmas(wnid)] for wnid in wnids]
    counts = Counter(first.lower() for first, *_ in names)
    for wnid, own in zip(wnids, names, strict=True):
        if counts[own[0].lower()] > 1:
            own.insert(0, f"{own[0]} {wordnet.lemmas(wordnet.parents(wnid)[0])[0].replace('_', ' ')}")
    lines = ["\t".join([wnid, *own]) for wnid, own in zip(wnids, names, strict=True)]
    write(IMAGENET, "".join(f"{line}\n" for line in lines))
    print(f"Wrote {len(lines)} names to {IMAGENET}")


if __name__ == "__main__":
    main()
