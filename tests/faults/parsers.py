"""Every parser of files behind one call: bytes → nothing, or SoftkinError. With a good file of each to begin from."""

import gzip
import io
import json
import os
import shutil
import tempfile
import warnings
from pathlib import Path

import damage
import numpy as np
from PIL import Image
from safetensors.torch import save

from softkin import SoftkinError, calibrators, decisions, distances
from softkin._io import bundles, files
from softkin.lab import study
from softkin.lab.data import archives, cifar, decoding, idx, labelled_tables, npz
from softkin.lab.study import records
from softkin.lab.training import checkpoints
from softkin.predictions import reading
from softkin.word_vectors import WordVectors

SHM = Path("/dev/shm")
FOLDER = Path(tempfile.mkdtemp(prefix="softkin-parsers-", dir=SHM if os.access(SHM, os.W_OK) else None))


def content_of(kind):
    """The bytes of a good file of one of ``damage``'s kinds."""
    with tempfile.TemporaryDirectory() as folder:
        return kind.make(Path(folder)).read_bytes()


def _written(content, name):
    path = FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def predictions(name):
    """Reads a file of predictions called ``name``."""

    def parse(content):
        reading.read(_written(content, name))

    if name.endswith(".npy"):
        np.save(FOLDER / "labels.npy", damage.LABELS)
    return parse


def matrix(name):
    """Reads a class matrix."""
    return lambda content: distances.read(_written(content, name))


def data_npz(content):
    """Reads arrays of samples."""
    for _ in npz._read(_written(content, "d.npz")).chunks:
        pass


def idx_file(suffix):
    """Reads the images of an idx data set."""

    def parse(content):
        labels = _written(bytes([0, 0, 8, 1, 0, 0, 0, 12, *[0, 1, 2] * 4]), "labels")
        for _ in idx._read(_written(content, f"images{suffix}"), labels).chunks:
            pass

    return parse


def cifar_pickle(content):
    """Reads a pickle of CIFAR."""
    path = _written(content, "train")
    cifar.read(path)
    cifar._read(_written(META, "meta"), "fine_label_names", [path], "fine_labels")


def image(content):
    """Decodes an image."""
    decoding._decode([("the image", content)], None, None)


def archive(name):
    """Unpacks an archive."""

    def parse(content):
        target = FOLDER / "unpacked"
        shutil.rmtree(target, ignore_errors=True)
        archives.unpack(_written(content, name), target)

    return parse


def table(name):
    """Reads a table of samples."""

    def parse(content):
        path = _written(content, name)
        for _ in labelled_tables._read({"all": [path]}, labelled_tables._columns(path), "all", [], None, False).chunks:
            pass

    return parse


def signed(name, read):
    """Reads JSON of one of ``damage``'s kinds, among the files beside it; its checksum is made to fit."""
    path = damage.FITTED[name].make(FOLDER / name)

    def parse(content):
        path.write_bytes(_signed(content))
        read(path)

    return parse, path.read_bytes()


def _signed(content):
    """The content with its checksum, as people who mean harm would write it; unchanged if it cannot have one."""
    try:
        about = json.loads(content)
        del about[bundles.CHECKSUM]
        return json.dumps(bundles.sealed(about)).encode()
    except (ValueError, TypeError, LookupError, RecursionError):
        return content


def described(name, read):
    """Reads a bundle of one of ``damage``'s kinds with another description; its checksums are made to fit."""
    path = damage.FITTED[name].make(FOLDER / name)
    about, tensors = bundles.read(path, name)

    def parse(content):
        try:
            changed = bundles.encoded(json.loads(content), tensors)
        except (ValueError, TypeError, RecursionError):
            changed = save(tensors, {bundles.ENTRY: content.decode("utf-8", "replace")})
        path.write_bytes(changed)
        read(path)

    return parse, json.dumps(about).encode()


def study_toml(content):
    """Reads a study that somebody has typed."""
    study.StudySpec.from_toml(_written(content, "study.toml"))


def taxonomy(name):
    """Reads a taxonomy and compares classes in it."""

    def parse(content):
        path, colon, column = name.partition(":")
        tree = distances.read_tree(f"{_written(content, path)}{colon}{column}")
        distances.from_taxonomy(tree, damage.NAMES)

    return parse


def word_vectors(name):
    """Reads word vectors."""
    return lambda content: WordVectors.load(_written(content, name))


def _image(form):
    content = io.BytesIO()
    Image.fromarray(damage.PIXELS[0]).save(content, form)
    return content.getvalue()


class _MadeWhenAsked(dict):
    """Parsers by name; functions stand for those whose good file takes a training to make."""

    def __getitem__(self, name):
        if callable(entry := super().__getitem__(name)):
            self[name] = entry = entry()
        return entry


META = damage.python2_pickle({"fine_label_names": ["ant", "bee"]})

PARSERS = _MadeWhenAsked()
PARSERS |= {
    "json": (lambda content: files.parse_json(content, "f.json", "JSON"), b'{"a": [1, 2.5, "\\u00e9", null], "b": {}}'),
    "toml": (lambda content: files.parse_toml(content, "f.toml", "TOML"), b'a = [1, "x"]\n[b.c]\nd = 1979-05-27\n'),
    "npz": (predictions("p.npz"), content_of(damage.PREDICTIONS["npz"])),
    "npz-compressed": (predictions("p.npz"), content_of(damage.PREDICTIONS["npz-compressed"])),
    "npy": (predictions("logits.npy"), content_of(damage.PREDICTIONS["npy"])),
    "safetensors": (predictions("p.safetensors"), content_of(damage.PREDICTIONS["safetensors"])),
    "parquet": (predictions("p.parquet"), content_of(damage.PREDICTIONS["parquet"])),
    "csv": (predictions("p.csv"), content_of(damage.PREDICTIONS["csv"])),
    "jsonl": (predictions("p.jsonl"), content_of(damage.PREDICTIONS["jsonl"])),
    "json-predictions": (predictions("p.json"), content_of(damage.PREDICTIONS["json"])),
    "json-columns": (predictions("p.json"), content_of(damage.PREDICTIONS["json-columns"])),
    "matrix": (matrix("m.safetensors"), content_of(damage.PREDICTIONS["matrix"])),
    "matrix-csv": (matrix("m.csv"), content_of(damage.PREDICTIONS["matrix-csv"])),
    "data-npz": (data_npz, content_of(damage.DATA["data-npz"])),
    "idx": (idx_file(""), content_of(damage.DATA["idx"])),
    "idx-gz": (idx_file(".gz"), content_of(damage.DATA["idx-gz"])),
    "cifar-pickle": (cifar_pickle, content_of(damage.DATA["cifar-pickle"])),
    **{f"image-{form.lower()}": (image, _image(form)) for form in decoding.FORMATS},
    "tar": (archive("x.tar"), content_of(damage.DATA["tar"])),
    "tar-gz": (archive("x.tar.gz"), content_of(damage.DATA["tar-gz"])),
    "tar-xz": (archive("x.tar.xz"), content_of(damage.DATA["tar-xz"])),
    "zip": (archive("x.zip"), content_of(damage.DATA["zip"])),
    "text-csv": (table("d.csv"), content_of(damage.DATA["text-csv"])),
    "text-jsonl": (table("d.jsonl"), content_of(damage.DATA["text-jsonl"])),
    "image-parquet": (table("d.parquet"), content_of(damage.DATA["image-parquet"])),
    "vectors": (word_vectors("v.txt"), b"2 3\ncat 1 0 0.5\ndog 0 1e-3 -2\n"),
    "vectors-gz": (word_vectors("v.txt.gz"), gzip.compress(b"cat 1 0 0.5\ndog 0 1e-3 -2\n")),
    "vectors-binary": (word_vectors("v.bin"), content_of(damage.CLASSES["vectors-binary"])),
    "taxonomy-csv": (taxonomy("t.csv"), content_of(damage.CLASSES["taxonomy-csv"])),
    "taxonomy-json": (taxonomy("t.json"), content_of(damage.CLASSES["taxonomy-json"])),
    "taxonomy-yaml": (taxonomy("t.yaml"), content_of(damage.CLASSES["taxonomy-yaml"])),
    "taxonomy-parquet": (taxonomy("t.parquet:coarse_label"), content_of(damage.CLASSES["taxonomy-parquet"])),
    "study-toml": (study_toml, content_of(damage.FITTED["study-toml"])),
    "calibrator": described("calibrator", lambda path: calibrators.load(path.parent)),
    "rule": described("rule", lambda path: decisions.load(path.parent)),
    "study": lambda: signed("study", lambda path: study.standing(path.parent)),
    "record": lambda: signed("record", lambda path: (records.read(path.parent), study.standing(path.parents[2]))),
    "checkpoint": lambda: described("checkpoint", checkpoints.read),
}


def accepts(name, content):
    """Whether the parser takes this content; whatever it raises but SoftkinError is raised."""
    parse, _ = PARSERS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            parse(content)
        except SoftkinError:
            return False
    return True
