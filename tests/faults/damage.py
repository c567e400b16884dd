"""Small files of every kind that is read, how each is read, and ways to damage them."""

import csv
import gzip
import io
import json
import struct
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image
from safetensors.numpy import save_file

from data_files import python2_pickle
from softkin import SoftkinError, calibrators, decisions, distances
from softkin.lab import data, study, training
from softkin.lab.study import perform, records
from softkin.lab.training import checkpoints
from softkin.predictions import Predictions, reading
from softkin.word_vectors import WordVectors

NAMES = ["cat", "dog", "rose"]
LOGITS = np.random.default_rng(1).normal(size=(12, 3)).astype(np.float32)
PROBS = torch.softmax(torch.from_numpy(LOGITS).double(), 1).numpy()
LABELS = np.arange(12) % 3
IDS = [f"s{i}" for i in range(12)]
PIXELS = np.random.default_rng(2).integers(0, 256, size=(12, 8, 8, 3), dtype=np.uint8)
TEXTS = [f"what of number {i}, please?" for i in range(12)]


@dataclass(frozen=True)
class Kind:
    """One kind of file."""

    make: Callable[[Path], Path]
    """Writes it into a folder; returns the file that is to be damaged."""
    read: Callable[[Path], Any]
    """What the file's numbers come to, given the path that ``make`` returned."""
    checked: bool
    """Whether checksums or the format's own rules reveal every change of numbers or names."""


def _predictions(path):
    loaded = reading.read(path)
    ids = loaded.sample_ids.tolist() if isinstance(loaded.sample_ids, torch.Tensor) else loaded.sample_ids
    return loaded.scores.tolist(), None if loaded.labels is None else loaded.labels.tolist(), loaded.class_names, ids


def _labelled(path):
    loaded = data.load(path)
    return loaded.values.tolist(), loaded.labels.tolist(), loaded.class_names, loaded.texts


def _saved(name, save):
    def make(folder):
        save(folder / name)
        return folder / name

    return make


def _npz(path, save=np.savez, **arrays):
    save(path, **({"logits": LOGITS, "labels": LABELS, "class_names": NAMES, "sample_ids": IDS} | arrays))


def _npy(path):
    np.save(path, LOGITS)
    np.save(path.with_name("labels.npy"), LABELS)


def _parquet_lists(path):
    about = {"info": {"features": {"labels": {"names": NAMES}}}}
    table = pa.table({"probs": list(PROBS), "labels": LABELS, "sample_ids": IDS})
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(about)}), path, write_page_checksum=True)


def _parquet_wide(path):
    pq.write_table(pa.table({f"probs_{name}": PROBS[:, k] for k, name in enumerate(NAMES)} | {"labels": LABELS}), path)


def _separated(path):
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writerow(["id", *(f"probs_{name}" for name in NAMES), "labels"])
        writer.writerows([IDS[i], *map(repr, map(float, PROBS[i])), LABELS[i]] for i in range(12))


def _objects(path):
    rows = [{"probs": list(map(float, PROBS[i])), "label": int(LABELS[i]), "id": IDS[i]} for i in range(12)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(lines if path.suffix == ".jsonl" else json.dumps(rows))


def _json_columns(path):
    columns = {"logits": LOGITS.tolist(), "labels": LABELS.tolist(), "sample_ids": IDS, "class_names": NAMES}
    path.write_text(json.dumps(columns))


def _matrix(path):
    matrix = np.abs(LOGITS[:3] @ LOGITS[:3].T)
    if path.suffix == ".csv":
        from softkin._io import matrices

        path.write_text(matrices.to_csv(torch.from_numpy(matrix), NAMES, kind="distances"))
    else:
        distances.save(path, matrix, class_names=NAMES, source="toy")


def _read_matrix(path):
    loaded = distances.read(path)
    return loaded.values.tolist(), loaded.class_names, loaded.source


def _idx(folder, suffix):
    opened = gzip.open if suffix else open
    for prefix in ("train", "t10k"):
        with opened(folder / f"{prefix}-images-idx3-ubyte{suffix}", "wb") as file:
            file.write(bytes([0, 0, 8, 3]) + struct.pack(">III", 12, 8, 8) + PIXELS[..., 0].tobytes())
        with opened(folder / f"{prefix}-labels-idx1-ubyte{suffix}", "wb") as file:
            file.write(bytes([0, 0, 8, 1]) + struct.pack(">I", 12) + LABELS.astype(np.uint8).tobytes())
    return folder / f"train-images-idx3-ubyte{suffix}"


def _cifar(folder):
    pixels = np.random.default_rng(3).integers(0, 256, size=(4, 3072), dtype=np.uint8)
    for name in ("train", "test"):
        content = {"fine_labels": [0, 1, 1, 0], "data": pixels}
        (folder / name).write_bytes(python2_pickle(content))
    (folder / "meta").write_bytes(python2_pickle({"fine_label_names": ["ant", "bee"]}))
    return folder / "train"


def _encoded(row, form):
    content = io.BytesIO()
    Image.fromarray(PIXELS[row]).save(content, form)
    return content.getvalue()


def _members(form="PNG"):
    return {f"data/{NAMES[LABELS[i]]}/{i}.{form.lower()}": _encoded(i, form) for i in range(4)}


def _copied(contents, folder):
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def _images(folder, form):
    _copied(_members(form), folder)
    return folder / f"data/{NAMES[LABELS[1]]}/1.{form.lower()}"


def _tar(path, mode):
    with tarfile.open(path, mode) as archive:
        for name, content in _members().items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def _zip(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _members().items():
            archive.writestr(name, content)


def _image_table(path):
    cells = [{"bytes": _encoded(i, "PNG"), "path": None} for i in range(4)]
    pq.write_table(pa.table({"image": cells, "label": LABELS[:4]}), path, write_page_checksum=True)


def _text_table(path):
    rows = [{"text": text, "label": NAMES[k]} for text, k in zip(TEXTS, LABELS, strict=True)]
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["text", "label"])
        writer.writeheader()
        writer.writerows(rows)


def _folder(path):
    return _labelled(path.parent)


def _tree(path):
    return _labelled(path.parents[1])


def _ours(path):
    Predictions(torch.from_numpy(LOGITS), torch.from_numpy(LABELS), NAMES, IDS).save(path)


def _foreign(path):
    save_file({"logits": LOGITS, "labels": LABELS}, path)


# What softkin fits


def _calibrator(folder):
    fitted = calibrators.VectorScaling().fit(torch.from_numpy(LOGITS), torch.from_numpy(LABELS), sample_ids=IDS)
    fitted.save(folder / "toy-calibrator")
    return folder / "toy-calibrator" / "calibrator.safetensors"


def _read_calibrator(path):
    loaded = calibrators.load(path.parent)
    return repr(loaded), loaded.certificate_, loaded.predict(torch.from_numpy(LOGITS)).tolist()


def _rule(folder):
    tree = decisions.Tree.from_superclasses([0, 0, 1], class_names=NAMES, names=["animal", "flower"])
    rule = decisions.Climb(tree, error=0.4, of="rows").fit(
        torch.from_numpy(LOGITS), torch.from_numpy(LABELS), sample_ids=IDS
    )
    rule.class_names_ = NAMES
    rule.save(folder / "toy-rule")
    return folder / "toy-rule" / "rule.safetensors"


def _read_rule(path):
    loaded = decisions.load(path.parent)
    answers = loaded.predict(torch.from_numpy(LOGITS)).tolist()
    return repr(loaded), loaded.guarantee(), loaded.class_names_, answers


def _beside(make, pattern):
    """Makes the same files, of which another one is to be damaged."""
    return lambda folder: next(make(folder).parent.glob(pattern))


# What softkin trains, made once: a study and a training of one epoch on a few digits


def _contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


SPEC = """\
name = "toy"
data = "digits"
methods = ["one-hot"]
seeds = [0]
alpha = [0.05, 0.1]
beta = [1.0, "auto"]
max_per_class = 2
validation = 20
test = 20
model = "mlp"
ood = ["uniform"]

[model_options]
hidden = 4

[recipe]
name = "small"
epochs = 1

[aliases]
one = "single"
"""


@cache
def _study_files():
    with tempfile.TemporaryDirectory() as folder:
        _toml(spec := Path(folder, "s.toml"))
        study.keep(Path(folder, "s"), perform.resolve(study.StudySpec.from_toml(spec)))
        study.work(Path(folder, "s"), device="cpu")
        return _contents(Path(folder, "s"))


@cache
def _training_files():
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    samples = data.split("digits", max_per_class=2, validation=20, test=20).train
    recipe = training.Recipe.named("small", epochs=1)
    with tempfile.TemporaryDirectory() as folder:
        training.fit(network, samples, method=training.Method("learned"), recipe=recipe, folder=folder, device="cpu")
        return _contents(Path(folder))


def _toml(path):
    path.write_text(SPEC)


def _read_toml(path):
    return study.StudySpec.from_toml(path).to_dict()


def _study(folder):
    _copied(_study_files(), folder / "toy-study")
    return folder / "toy-study" / "study.json"


def _read_study(path):
    kept, standing = study.kept_in(path.parent), study.standing(path.parent)
    return kept, [job.digest for job in standing.done]


def _record(folder):
    """The record of the study's training, beside the predictions that it names."""
    return next(_study(folder).parent.glob("runs/*/validation.safetensors")).with_name("record.json")


def _read_record(path):
    """The record. Where it is refused, ``softkin status`` must list the run as damaged, and refuse nothing."""
    try:
        return records.read(path.parent)
    except SoftkinError:
        assert _damaged_runs(path.parents[2]) == [path.parent.name]
        raise


def _damaged_runs(folder):
    try:
        return [job.digest for job in study.standing(folder).damaged]
    except SoftkinError as error:
        raise AssertionError(f"a damaged run made the study unreadable: {error}") from error


def _checkpoint(folder):
    _copied(_training_files(), folder / "toy-training")
    return next((folder / "toy-training").glob("step-*.safetensors"))


def _read_checkpoint(path):
    loaded = checkpoints.read(path)
    return loaded.state, {name: tensor.tolist() for name, tensor in loaded.tensors.items()}


def _claimed(path):
    """Nothing: the folder belongs to the training that wrote it, or is refused."""
    checkpoints.claim(path.parent, json.loads(_training_files()[Path("run.json")]))


# What is said about classes

TREE = {"thing": {"animal": ["cat", "dog"], "plant": {"flower": ["rose", "tulip"], "tree": ["oak"]}}}
YAML = "thing:\n  animal: [cat, dog]\n  plant:\n    flower:\n      - rose\n      - tulip\n    tree: [oak]\n"
PAIRS = "parent,child\nthing,animal\nanimal,cat\nanimal,dog\nthing,plant\nplant,flower\nflower,rose\nflower,tulip\n"
VECTORS = np.random.default_rng(4).normal(size=(6, 4)).astype(np.float32)
WORDS = ["cat", "dog", "rose", "tulip", "oak", "café"]


def _superclasses(path):
    features = {"label": {"names": NAMES}, "coarse_label": {"names": ["animal", "flower"]}}
    table = pa.table({"label": LABELS, "coarse_label": LABELS // 2})
    about = {"huggingface": json.dumps({"info": {"features": features}})}
    pq.write_table(table.replace_schema_metadata(about), path, write_page_checksum=True)


def _taxonomy(path):
    read = distances.read_tree(path)
    return read.parents, distances.from_taxonomy(read, NAMES).tolist()


def _superclass_column(path):
    return _taxonomy(f"{path}:coarse_label")


def _vector_lines():
    return "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, VECTORS.tolist(), strict=True))


def _binary_vectors(path):
    rows = (word.encode() + b" " + row.tobytes() + b"\n" for word, row in zip(WORDS, VECTORS, strict=True))
    path.write_bytes(b"6 4\n" + b"".join(rows))


def _vectors(path):
    loaded = WordVectors.load(path)
    return list(loaded), loaded.vectors.tolist()


PREDICTIONS = {
    "npz": Kind(_saved("p.npz", _npz), _predictions, True),
    "npz-compressed": Kind(_saved("p.npz", lambda path: _npz(path, np.savez_compressed)), _predictions, True),
    "npz-by-column": Kind(
        _saved("p.npz", lambda path: _npz(path, logits=np.asfortranarray(LOGITS))), _predictions, True
    ),
    "npy": Kind(_saved("logits.npy", _npy), _predictions, False),
    "safetensors": Kind(_saved("p.safetensors", _ours), _predictions, True),
    "safetensors-of-others": Kind(_saved("p.safetensors", _foreign), _predictions, False),
    "parquet": Kind(_saved("p.parquet", _parquet_lists), _predictions, False),
    "parquet-wide": Kind(_saved("p.parquet", _parquet_wide), _predictions, False),
    "csv": Kind(_saved("p.csv", _separated), _predictions, False),
    "tsv": Kind(_saved("p.tsv", _separated), _predictions, False),
    "jsonl": Kind(_saved("p.jsonl", _objects), _predictions, False),
    "json": Kind(_saved("p.json", _objects), _predictions, False),
    "json-columns": Kind(_saved("p.json", _json_columns), _predictions, False),
    "matrix": Kind(_saved("m.safetensors", _matrix), _read_matrix, True),
    "matrix-csv": Kind(_saved("m.csv", _matrix), _read_matrix, False),
}
DATA = {
    "data-npz": Kind(
        _saved("d.npz", lambda path: np.savez(path, images=PIXELS, labels=LABELS, class_names=NAMES)), _labelled, True
    ),
    "data-npz-compressed": Kind(
        _saved("d.npz", lambda path: np.savez_compressed(path, features=LOGITS, labels=LABELS)), _labelled, True
    ),
    "idx": Kind(lambda folder: _idx(folder, ""), _folder, False),
    "idx-gz": Kind(lambda folder: _idx(folder, ".gz"), _folder, True),
    "cifar-pickle": Kind(_cifar, _folder, False),
    "png-folder": Kind(lambda folder: _images(folder, "PNG"), _tree, True),
    "jpeg-folder": Kind(lambda folder: _images(folder, "JPEG"), _tree, False),
    "tar": Kind(_saved("x.tar", lambda path: _tar(path, "w")), _labelled, True),
    "tar-gz": Kind(_saved("x.tar.gz", lambda path: _tar(path, "w:gz")), _labelled, True),
    "tar-xz": Kind(_saved("x.tar.xz", lambda path: _tar(path, "w:xz")), _labelled, True),
    "zip": Kind(_saved("x.zip", _zip), _labelled, True),
    "image-parquet": Kind(_saved("d.parquet", _image_table), _labelled, False),
    "text-csv": Kind(_saved("d.csv", _text_table), _labelled, False),
    "text-jsonl": Kind(_saved("d.jsonl", _text_table), _labelled, False),
}
FITTED = {
    "calibrator": Kind(_calibrator, _read_calibrator, True),
    "rule": Kind(_rule, _read_rule, True),
    "study": Kind(_study, _read_study, True),
    "study-toml": Kind(_saved("study.toml", _toml), _read_toml, False),
    "record": Kind(_record, _read_record, True),
    "record-predictions": Kind(_beside(_record, "validation.safetensors"), _read_record, True),
    "checkpoint": Kind(_checkpoint, _read_checkpoint, True),
    "checkpoint-run": Kind(_beside(_checkpoint, "run.json"), _claimed, True),
}
CLASSES = {
    "taxonomy-csv": Kind(_saved("t.csv", lambda path: path.write_text(PAIRS)), _taxonomy, False),
    "taxonomy-json": Kind(_saved("t.json", lambda path: path.write_text(json.dumps(TREE))), _taxonomy, False),
    "taxonomy-yaml": Kind(_saved("t.yaml", lambda path: path.write_text(YAML)), _taxonomy, False),
    "taxonomy-parquet": Kind(_saved("t.parquet", _superclasses), _superclass_column, False),
    "vectors": Kind(_saved("v.txt", lambda path: path.write_text(_vector_lines(), "utf-8")), _vectors, False),
    "vectors-gz": Kind(
        _saved("v.txt.gz", lambda path: path.write_bytes(gzip.compress(_vector_lines().encode()))), _vectors, True
    ),
    "vectors-binary": Kind(_saved("v.bin", _binary_vectors), _vectors, False),
}


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """The content with one fault of those that disks, networks and people cause."""
    changed = bytearray(content)
    place = int(rng.integers(len(content)))
    run = int(rng.integers(1, 17))
    fault = rng.choice(["flip", "byte", "run", "zeros", "cut", "empty", "drop", "repeat"], p=[0.4, 0.1, 0.1, 0.1, 0.2, 0.01, 0.05, 0.04])  # fmt: skip
    if fault == "flip":
        changed[place] ^= 1 << int(rng.integers(8))
    elif fault == "byte":
        changed[place] = int(rng.integers(256))
    elif fault == "run":
        changed[place : place + run] = rng.bytes(len(changed[place : place + run]))
    elif fault == "zeros":
        changed[place : place + run] = bytes(len(changed[place : place + run]))
    elif fault == "cut":
        del changed[place:]
    elif fault == "empty":
        changed.clear()
    elif fault == "drop":
        del changed[place : place + run]
    else:
        changed[place:place] = changed[place : place + run]
    return bytes(changed)
