"""Files from people who mean harm: they run nothing, fill no memory, and never make a command wait.

Pickles of data sets and archives that lead out of their folder are in ``test_data_safety.py``.
"""

import contextlib
import gzip
import io
import json
import os
import pickle
import stat
import struct
import subprocess
import sys
import tarfile
import textwrap
import zipfile
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from command_line import run
from softkin import SoftkinError, distances
from softkin._io import arrow, bundles, files, tables
from softkin.cli import arguments as cli_arguments
from softkin.distances import tree_files
from softkin.lab import data
from softkin.lab.data import cifar
from softkin.lab.study import records
from softkin.predictions import blocks as prediction_blocks
from softkin.predictions import reading as prediction_files
from softkin.report import attach
from softkin.word_vectors import vector_files
from study_parts import run_record

pytestmark = pytest.mark.slow

MEBIBYTE = 2**20


# Pickles in arrays


class Canary:
    """Unpickled by an ordinary reader, this makes a file."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_object_arrays_are_never_unpickled(tmp_path, suffix):
    marker, path = tmp_path / "ran", tmp_path / f"logits{suffix}"
    objects = np.array([[Canary(marker), 1.0]], dtype=object)
    if suffix == ".npy":
        np.save(path, objects, allow_pickle=True)
        np.save(tmp_path / "labels.npy", [0])
    else:
        np.savez(path, logits=objects, labels=[0])
    with pytest.raises(SoftkinError, match="holds Python objects, which are never unpickled"):
        prediction_files.read(path)
    with pytest.raises(SoftkinError):
        data.load(path)
    assert not marker.exists()
    loaded = np.load(path, allow_pickle=True)
    loaded if suffix == ".npy" else loaded["logits"]
    assert marker.exists()  # the canary works


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".parquet", ".csv", ".jsonl", ".npy"])
def test_a_plain_pickle_under_any_name_runs_nothing(tmp_path, suffix):
    marker, path = tmp_path / "ran", tmp_path / f"logits{suffix}"
    path.write_bytes(pickle.dumps({"logits": Canary(marker)}))
    for read in (prediction_files.read, data.load, distances.read):
        with pytest.raises(SoftkinError):
            read(path)
    assert not marker.exists()
    pickle.loads(path.read_bytes())
    assert marker.exists()


def test_a_memo_of_billions_takes_no_memory(tmp_path):
    (tmp_path / "p").write_bytes(b"\x80\x02}r\xff\xff\xff\x7f.")  # in C this is a table of 32 GiB
    assert cifar.read(tmp_path / "p") == {}


# Images


def test_postscript_under_the_name_of_an_image_starts_nothing(tmp_path, monkeypatch):
    """PIL hands EPS to Ghostscript, which is a program that runs what the file says."""
    marker = tmp_path / "ran"
    ghostscript = tmp_path / "bin" / "gs"
    ghostscript.parent.mkdir()
    ghostscript.write_text(f"#!/bin/sh\ntouch {marker}\n")
    ghostscript.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ghostscript.parent}:{os.environ['PATH']}")
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)  # which may have been looked for already
    path = tmp_path / "images" / "cat" / "a.png"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n%%EndComments\nshowpage\n%%EOF\n")
    with pytest.raises(SoftkinError, match=r"a\.png could not be read as an image"):
        data.load(tmp_path / "images")
    assert not marker.exists()
    with contextlib.suppress(OSError), Image.open(path) as opened:
        opened.load()
    assert marker.exists()  # without a list of formats it would have run


# Bombs: refused by the size that they declare, in a process of their own whose memory is measured


def deflated(size, content=b"\0"):
    """A raw deflate stream of ``size`` equal bytes, without compressing them all."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    chunk = packer.compress(content * MEBIBYTE) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(content * MEBIBYTE) + packer.flush(zlib.Z_FULL_FLUSH)
    rest = packer.compress(content * (size % MEBIBYTE)) + packer.flush()
    return chunk + again * (size // MEBIBYTE - 1) + rest


def npz_bomb(path, key, dtype, shape, *, labels=None):
    """An .npz file whose array ``key`` unpacks to zeros of this shape; its checksum is nobody's business."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype, "fortran_order": False, "shape": shape})
    size = int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize
    start = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = start.compress(header.getvalue()) + start.flush(zlib.Z_FULL_FLUSH) + deflated(size)
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo(f"{key}.npy")
        info.compress_type = zipfile.ZIP_STORED
        archive.writestr(info, packed)
        info.compress_type, info.file_size = zipfile.ZIP_DEFLATED, len(header.getvalue()) + size
        for name, array in {"labels": labels, "logits": np.eye(3) if key == "class_names" else None}.items():
            if array is not None:
                content = io.BytesIO()
                np.save(content, array)
                archive.writestr(f"{name}.npy", content.getvalue())
    content = bytearray(path.read_bytes())  # the header before the entry still says stored
    struct.pack_into("<H", content, 8, zipfile.ZIP_DEFLATED)
    struct.pack_into("<L", content, 22, info.file_size)
    path.write_bytes(content)


def png(path, width, height):
    """A PNG file that says it has so many pixels, and holds the beginning of them."""
    chunks = {b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0), b"IDAT": zlib.compress(bytes(1000)), b"IEND": b""}  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + b"".join(
            struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
            for name, content in chunks.items()
        )
    )


def npy(path, shape, dtype="<f4"):
    """A numpy file that claims a shape and holds next to nothing of it."""
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
        file.write(bytes(100))
    np.save(path.with_name("labels.npy"), [0])


def bombs(folder):
    """(how to read it, its path, words of the refusal) of each."""
    npz_bomb(folder / "names.npz", "class_names", "<U10000000", (50,), labels=np.arange(3))
    yield "predictions", "names.npz", "`class_names` would have 2,000,000,128 bytes, more than the 134,217,728 allowed"
    npz_bomb(folder / "wide.npz", "logits", "<f4", (60, 8_000_000), labels=np.zeros(60, int))
    yield "predictions", "wide.npz", "would have 8,000,000 classes, more than the 131,072 allowed"
    npz_bomb(folder / "long.npz", "logits", "<f4", (80_000_000, 10))
    yield "predictions", "long.npz", "would have 3,200,000,128 bytes, more than the 2,147,483,648 allowed"
    npz_bomb(folder / "data.npz", "features", "<f4", (80_000_000, 10), labels=np.zeros(9, int))
    yield "data", "data.npz", "set SOFTKIN_MAX_BYTES=3200000128 and try again"
    for name, shape, words in (
        ("logits.npy", (10**13, 10), "was cut off: 100 of 400,000,000,000,000 bytes are there"),
        ("more-logits.npy", (10**30, 10**30), "was cut off: 100 of 4,000"),
        ("less-logits.npy", (-1, 10), r"is damaged: its shape is \(-1, 10\)"),
    ):
        npy(folder / name, shape)
        yield "predictions", name, words
    png(folder / "gigapixels" / "cat" / "a.png", 60_000, 60_000)
    yield "data", "gigapixels", "would have more than twice the [0-9,]+ pixels allowed; .*set SOFTKIN_MAX_PIXELS"
    png(folder / "many" / "cat" / "0.png", 13_000, 13_000)
    for row in range(1, 40):
        os.link(folder / "many" / "cat" / "0.png", folder / "many" / "cat" / f"{row}.png")
    yield (
        "data",
        "many",
        "would have 169,000,000 pixels, .*set SOFTKIN_MAX_PIXELS=169000000",
    )
    for label in (10**8, 2**62):
        np.savez(folder / f"label-{label}.npz", features=np.eye(3), labels=np.array([0, 1, label]))
        yield "data", f"label-{label}.npz", "classes, more than the 131,072 allowed; .*SOFTKIN_MAX_CLASSES"
    pq.write_table(pa.table({"text": ["a", "b"], "label": [0, 10**6]}), folder / "label.parquet")
    yield "data", "label.parquet", "by its `label`, would have 1,000,001 classes"
    columns = ",".join(f"logits_{k}" for k in range(1_000_000))
    (folder / "columns.csv").write_text(f"{columns},labels\n{'0,' * 1_000_000}0\n")
    yield "predictions", "columns.csv", "would have 1,000,001 classes"
    for place, images, labels, said in (
        ("idx", (2**32 - 1, 28, 28), 2**32 - 1, "would have 4,294,967,295 bytes"),
        ("idx-empty", (2**32 - 1, 0, 28), 10, "must hold images of at least one pixel, got 0×28"),
    ):
        (folder / place).mkdir()
        for name, sizes in (("images-idx3", images), ("labels-idx1", (labels,))):
            header = bytes([0, 0, 8, len(sizes)]) + struct.pack(f">{len(sizes)}I", *sizes)
            (folder / place / f"train-{name}-ubyte").write_bytes(header + bytes(10))
        yield "data", place, said
    with zipfile.ZipFile(folder / "x.zip", "w") as archive:
        archive.writestr("cat/a.png", b"x")
    content = bytearray((folder / "x.zip").read_bytes())
    struct.pack_into("<L", content, content.index(b"PK\x01\x02") + 24, 3 * 10**9)
    (folder / "x.zip").write_bytes(content)
    yield "data", "x.zip", "unpacked, would have 3,000,000,000 bytes"
    deep = "[" * 100_000 + "]" * 100_000
    (folder / "deep.jsonl").write_text(f'{{"text": "a", "label": {deep}}}\n')
    yield "data", "deep.jsonl", "nested too deeply"
    yield "predictions", "deep.jsonl", "nested too deeply"
    (folder / "deep.parquet").write_bytes(_with_metadata(deep))
    yield "predictions", "deep.parquet", None  # what Hugging Face's names would be is left out
    os.mkfifo(folder / "pipe.npz")
    for how in ("predictions", "data", "matrix"):
        yield how, "pipe.npz", "it is a pipe, not a file"
    (folder / "pipes" / "cat").mkdir(parents=True)
    os.mkfifo(folder / "pipes" / "cat" / "a.png")
    yield "data", "pipes", "a.png could not be read: it is a pipe, not a file"
    (folder / "zeros.csv").symlink_to("/dev/zero")
    for how in ("predictions", "data", "matrix"):
        yield how, "zeros.csv", "it is a device, not a file"


def _with_metadata(text):
    content = io.BytesIO()
    table = pa.table({"logits": [[0.0, 1.0]], "labels": [0]})
    pq.write_table(table.replace_schema_metadata({"huggingface": text}), content)
    return content.getvalue()


CHILD = """
import json, sys
from pathlib import Path
from softkin import SoftkinError, distances
from softkin.lab import data
from softkin.predictions import reading as prediction_files

READERS = {"predictions": prediction_files.read, "data": data.load, "matrix": distances.read}
for how, path in json.load(sys.stdin):
    try:
        READERS[how](path)
        words = None
    except SoftkinError as error:
        words = str(error)
    # Of this program alone: the peak that getrusage tells begins with that of the process which started this one.
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) // 1024
    print(json.dumps([words, peak]), flush=True)
"""


def test_bombs_are_refused_by_what_they_declare(tmp_path):
    cases = list(bombs(tmp_path))
    paths = json.dumps([[how, str(tmp_path / name)] for how, name, _ in cases])
    done = subprocess.run(
        [sys.executable, "-c", CHILD], input=paths, capture_output=True, text=True, timeout=500, env=os.environ
    )
    assert done.returncode == 0, done.stderr[-2000:]
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == len(cases)
    import re

    for (how, name, words), (message, _) in zip(cases, results, strict=True):
        assert (message is None) == (words is None), f"{how} {name}: {message}"
        assert words is None or re.search(words, message), f"{how} {name}: {message}"
    assert results[-1][1] - results[0][1] < 400  # MiB at the highest point, beyond what the first refusal took
    assert results[0][1] < 1200


def test_archives_that_unpack_without_end(tmp_path, monkeypatch):
    """Nothing declares how long a packed stream is: it is counted while it is unpacked."""
    monkeypatch.setenv("SOFTKIN_MAX_BYTES", str(16 * MEBIBYTE))
    header = tarfile.TarInfo("cat/a.png")
    header.size = 64 * MEBIBYTE
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    start = packer.compress(header.tobuf()) + packer.flush(zlib.Z_FULL_FLUSH)
    (tmp_path / "x.tar.gz").write_bytes(start + deflated(64 * MEBIBYTE))
    with pytest.raises(SoftkinError, match="x.tar.gz, unpacked, would have .* bytes, more than the 16,777,216"):
        data.load(tmp_path / "x.tar.gz")
    assert not list((tmp_path).glob("*.unpacking*"))


def test_rows_without_end_in_parquet(tmp_path, monkeypatch):
    monkeypatch.setenv("SOFTKIN_MAX_BYTES", str(16 * MEBIBYTE))
    rows = 2_000_000
    table = pa.table({"probs_a": np.ones(rows), "probs_b": np.zeros(rows), "labels": np.zeros(rows, np.int8)})
    pq.write_table(table, tmp_path / "p.parquet")
    assert (tmp_path / "p.parquet").stat().st_size < 100_000
    with pytest.raises(SoftkinError, match="p.parquet would have 32,000,000 bytes, more than the 16,777,216"):
        prediction_files.read(tmp_path / "p.parquet")
    repeated = pa.table({"text": pa.array(["x" * 100_000] * 500), "label": [0, 1] * 250})
    pq.write_table(repeated, tmp_path / "d.parquet")
    with pytest.raises(SoftkinError, match="d.parquet: `text` would have .* bytes, more than the 16,777,216"):
        data.load(tmp_path / "d.parquet")


@pytest.mark.parametrize("nested", [False, True])
def test_lists_without_end_in_parquet(tmp_path, monkeypatch, nested):
    """Dictionary and run lengths hold millions of equal numbers in a few bytes; one cell may have them all."""
    monkeypatch.setenv("SOFTKIN_MAX_BYTES", str(16 * MEBIBYTE))
    numbers = 3_000_000
    cells = pa.ListArray.from_arrays([0, numbers, 2 * numbers], pa.array(np.zeros(2 * numbers)))
    cells = pa.ListArray.from_arrays([0, 1, 2], cells) if nested else cells
    for name, columns in (
        ("p", {"logits": cells, "labels": [0, 1]}),
        ("d", {"image": cells, "label": [0, 1]}),
        ("t", {"parent": ["a", "a"], "child": ["b", "c"], "more": cells}),
    ):
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
        assert (tmp_path / f"{name}.parquet").stat().st_size < 10_000
    said = r"parquet: `\w+` would have 48,000,000 bytes, more than the 16,777,216"
    for read, name in ((prediction_files.read, "p"), (data.load, "d"), (tree_files.read_tree, "t")):
        with pytest.raises(SoftkinError, match=said):
            read(tmp_path / f"{name}.parquet")
    table = tables.open_table(tmp_path / "p.parquet")
    for reading_all in (lambda: table.head(["logits"]), lambda: list(table.cells("logits"))):
        with pytest.raises(SoftkinError, match=said):
            reading_all()


def repeating(path, text, rows, **others):
    """A parquet file of a few kilobytes whose dictionary holds one long text, which every row repeats."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([text]))
    options = {"compression": "zstd", "store_schema": False, "dictionary_pagesize_limit": 2**30}
    pq.write_table(pa.table({"text": texts, **others}), path, **options)
    assert path.stat().st_size < 10_000
    return path


@pytest.mark.parametrize("text_of", [2 * MEBIBYTE, 32 * MEBIBYTE])
def test_a_huge_text_in_a_parquet_dictionary_is_refused_by_size(tmp_path, monkeypatch, text_of):
    """Decoded at once, 64 rows of it would take 128 MiB, or 2 GiB."""
    monkeypatch.setenv("SOFTKIN_MAX_BYTES", str(16 * MEBIBYTE))
    path = repeating(tmp_path / "d.parquet", "a" * text_of, 64, label=[0, 1] * 32)
    largest = pa.total_allocated_bytes()
    with pytest.raises(SoftkinError, match=r"d.parquet(: `text`)? would have .* bytes, more than the 16,777,216"):
        data.load(path)
    path = repeating(tmp_path / "p.parquet", "a" * text_of, 64, probs_a=[1.0] * 64, probs_b=[0.0] * 64, labels=[0] * 64)
    with pytest.raises(SoftkinError, match=r"p.parquet(: `text`)? would have .* bytes, more than the 16,777,216"):
        prediction_files.read(path)
    assert pa.total_allocated_bytes() - largest < 16 * MEBIBYTE


def test_columns_beside_the_predictions_are_refused_by_size_too(tmp_path, monkeypatch):
    monkeypatch.setenv("SOFTKIN_MAX_BYTES", str(16 * MEBIBYTE))
    path = repeating(tmp_path / "d.parquet", "a" * 2 * MEBIBYTE, 64, label=[0, 1] * 32)
    refused = pytest.raises(SoftkinError, match=r"d.parquet(: `text`)? would have .* bytes, more than the 16,777,216")
    with refused:
        tree_files.read_tree(f"{path}:text")
    with refused:
        attach.texts(path, None, 64)


def test_word_vectors_that_unpack_without_end(tmp_path, monkeypatch):
    monkeypatch.setenv("SOFTKIN_MAX_BYTES", str(16 * MEBIBYTE))
    with gzip.open(tmp_path / "v.txt.gz", "wb") as file:
        for _ in range(40):
            file.write(b"word" + b" 0" * (MEBIBYTE // 2) + b"\n")
    assert (tmp_path / "v.txt.gz").stat().st_size < MEBIBYTE // 16
    with pytest.raises(SoftkinError, match="v.txt.gz would have .* bytes, more than the 16,777,216"):
        list(vector_files.read_blocks(tmp_path / "v.txt.gz"))


def test_merge_keys_that_multiply_in_yaml_are_refused(tmp_path):
    levels = [
        f"a{level}: &a{level}\n  <<: [{', '.join([f'*a{level - 1}'] * 9)}]\n  k{level}: x" for level in range(1, 10)
    ]
    (tmp_path / "t.yaml").write_text("\n".join(["a0: &a0 {b: x}", *levels]))
    with pytest.raises(
        SoftkinError, match=r"t.yaml could not be read as YAML.*: line 3: merge keys \(<<\) have no meaning"
    ):
        tree_files.read_tree(tmp_path / "t.yaml")


def test_aliases_that_multiply_in_yaml_are_counted(tmp_path):
    levels = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
    (tmp_path / "t.yaml").write_text("\n".join(["a0: &a0 []", *levels]))
    with pytest.raises(SoftkinError, match="t.yaml could not be read as a taxonomy: it is nested too deeply, or too"):
        tree_files.read_tree(tmp_path / "t.yaml")


@pytest.mark.parametrize(
    "content", ['{"": ["a"]}', '{"b": {"": ["a"]}}', '{"name": "", "children": ["a"]}', '{"b": [" "]}']
)
def test_a_node_without_a_name_is_refused_with_the_files_name(tmp_path, content):
    (tmp_path / "t.json").write_text(content)
    with pytest.raises(SoftkinError, match="t.json: a node below .* has no name"):
        tree_files.read_tree(tmp_path / "t.json")


def test_a_record_without_metrics_and_ids_that_are_lists_are_damage(tmp_path):
    record = run_record("training", files={})
    del record["metrics"]
    files.write_json(tmp_path / "record.json", bundles.sealed(record))
    with pytest.raises(SoftkinError, match="record.json could not be read as the record of a run.*lacks 'metrics'"):
        records.read(tmp_path)
    (tmp_path / "p.json").write_text(
        '[{"probs": [1, 0], "label": 0, "id": "a"}, {"probs": [1, 0], "label": 1, "id": []}]'
    )
    with pytest.raises(SoftkinError, match="p.json could not be read .*ids must be texts or whole numbers"):
        prediction_files.read(tmp_path / "p.json")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "trainin"}, "lacks 'trainin'"),
        ({"kind": ["result"]}, "could not be read as the record of a run"),
        ({"metrics": []}, "has a field 'metrics' of another type than a record's"),
        ({"seed": None}, "has a field 'seed' of another type than a record's"),
        ({"found": [0.1]}, "has a field 'found' of another type than a record's"),
        ({"seconds": "long"}, "has a field 'seconds' of another type than a record's"),
        ({"chosen": "../../elsewhere"}, "must name runs of its own study, got '../../elsewhere'"),
    ],
)
def test_a_record_with_other_fields_than_its_kind_has_is_damage(changes, words, tmp_path):
    """Found by fuzzing: a record of an unknown kind that lacked its metrics."""
    record = run_record("result", files={})
    files.write_json(tmp_path / "record.json", bundles.sealed(record))
    assert records.read(tmp_path) == record
    record |= changes
    files.write_json(tmp_path / "record.json", bundles.sealed(record))
    with pytest.raises(SoftkinError, match=words):
        records.read(tmp_path)


def test_a_record_leads_to_no_pipe_device_or_file_elsewhere(tmp_path):
    os.mkfifo(tmp_path / "test.safetensors")
    for name, said in (
        ("test.safetensors", "test.safetensors could not be read: it is a pipe"),
        ("/dev/zero", "record.json must name files of its own folder, got '/dev/zero'"),
        ("../x", "record.json must name files of its own folder, got '../x'"),
    ):
        record = run_record("distances", files={name: "0" * 64})
        files.write_json(tmp_path / "record.json", bundles.sealed(record))
        with pytest.raises(SoftkinError, match=said):
            records.read(tmp_path)


def test_an_image_that_every_row_repeats_is_decoded_for_few_rows_at_a_time(tmp_path, monkeypatch):
    """A dictionary inside a struct cannot stay encoded, so a batch must be small before its size is known."""
    monkeypatch.setenv("SOFTKIN_MAX_BYTES", str(16 * MEBIBYTE))
    monkeypatch.setattr(arrow, "BATCH_BYTES", 4 * MEBIBYTE)
    image = {"bytes": b"\0" * MEBIBYTE, "path": "a.png"}
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = pa.table({"img": pa.array([image] * 64, kind), "label": [0, 1] * 32})
    pq.write_table(rows, tmp_path / "i.parquet", compression="zstd", dictionary_pagesize_limit=2**30)
    assert (tmp_path / "i.parquet").stat().st_size < 10_000
    sizes = []

    def watched(column):
        sizes.append(column.nbytes)
        return cells(column)

    cells = arrow.cells_of
    monkeypatch.setattr(arrow, "cells_of", watched)
    with pytest.raises(SoftkinError, match="i.parquet: image 0 could not be read as an image"):
        data.load(tmp_path / "i.parquet")
    assert max(sizes) < 5 * MEBIBYTE


def test_texts_that_repeat_are_read_as_they_are(tmp_path):
    path = repeating(tmp_path / "d.parquet", "long " * 1000, 60, label=[0, 1] * 30)
    assert len(data.load(path)) == 60
    path = repeating(tmp_path / "p.parquet", "cat", 4, probs_cat=[1.0] * 4, probs_dog=[0.0] * 4)
    table = pq.read_table(path).rename_columns(["labels", "probs_cat", "probs_dog"])
    pq.write_table(table, path)
    assert prediction_files.read(path).known_labels.tolist() == [0, 0, 0, 0]


def test_honest_files_beyond_the_limit_are_read(tmp_path, monkeypatch):
    """The limit is for what grows when it is unpacked; numbers hardly do."""
    monkeypatch.setenv("SOFTKIN_MAX_BYTES", str(MEBIBYTE))
    monkeypatch.setattr(prediction_blocks, "BLOCK", 2**14)
    logits = np.random.default_rng(0).normal(size=(40_000, 10)).astype(np.float32)
    labels = np.zeros(40_000, np.int64)
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "p.npz", logits=logits, labels=labels)
        assert prediction_files.read(tmp_path / "p.npz").scores.shape == (40_000, 10)


def test_a_limit_can_be_raised(tmp_path, monkeypatch):
    monkeypatch.setenv("SOFTKIN_MAX_CLASSES", "2")
    np.savez(tmp_path / "p.npz", logits=np.eye(3), labels=np.arange(3))
    with pytest.raises(SoftkinError, match="p.npz would have 3 classes, more than the 2 .*set SOFTKIN_MAX_CLASSES=3"):
        prediction_files.read(tmp_path / "p.npz")
    monkeypatch.setenv("SOFTKIN_MAX_CLASSES", "3")
    assert prediction_files.read(tmp_path / "p.npz").num_classes == 3


def test_standard_input_without_end(monkeypatch):
    monkeypatch.setenv("SOFTKIN_MAX_BYTES", str(MEBIBYTE))
    with open("/dev/zero", "rb") as zeros:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(zeros))
        with pytest.raises(SoftkinError, match="standard input would have 2,097,152 bytes"):
            prediction_files.read("-")


# Archives and names


def test_links_in_archives_and_twice_the_same_name(tmp_path):
    info = zipfile.ZipInfo("logits.npy")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    content = io.BytesIO()
    np.save(content, np.eye(3))
    with zipfile.ZipFile(tmp_path / "link.npz", "w") as archive:
        archive.writestr(info, "/etc/passwd")
        archive.writestr("labels.npy", content.getvalue())
    with pytest.raises(SoftkinError, match="`logits` could not be read as a numpy array"):
        prediction_files.read(tmp_path / "link.npz")
    with zipfile.ZipFile(tmp_path / "twice.npz", "w") as archive:
        archive.writestr("logits.npy", content.getvalue())
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("logits.npy", content.getvalue())
    with pytest.raises(SoftkinError, match="must hold each array once, but `logits` is there twice"):
        prediction_files.read(tmp_path / "twice.npz")


def test_names_in_files_do_not_steer_the_terminal(tmp_path, capsys):
    np.savez(tmp_path / "p.npz", **{"\x1b[2Jevil\nsecond": np.eye(3), "x": np.eye(3)})
    code, output, errors = run(capsys, "evaluate", tmp_path / "p.npz")
    assert (code, output) == (1, "")
    assert errors.count("\n") == 1
    assert "\x1b" not in errors


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["cat", "cat"], "`class_names` must differ, but 'cat' appears at indices 0 and 1"),
        (["cat", " "], "`class_names` must not hold an empty name"),
        (["cat", "do\udce9g"], "`class_names` must be Unicode text, but .* cannot be encoded"),
    ],
)
def test_class_names_are_checked_before_anything_is_decoded(tmp_path, names, words, monkeypatch):
    np.savez(tmp_path / "d.npz", features=np.eye(4), labels=[0, 1, 0, 1], class_names=names)
    monkeypatch.setattr("softkin.lab.data.store._write", None)  # decoding would call it
    with pytest.raises(SoftkinError, match=f"d.npz: {words}"):
        data.load(tmp_path / "d.npz")


def test_folders_whose_names_are_no_text(tmp_path):
    for name in (b"cat", b"do\xe9g"):
        os.mkdir(os.path.join(os.fsencode(tmp_path), name))
        with open(os.path.join(os.fsencode(tmp_path), name, b"a.png"), "wb") as file:
            Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(file, "PNG")
    with pytest.raises(SoftkinError, match="`class_names` must be Unicode text"):
        data.load(tmp_path)


def test_the_command_line_says_one_line(tmp_path, capsys):
    (tmp_path / "p.npz").write_bytes(b"PK\x03\x04" + os.urandom(100))
    for arguments in (["evaluate", tmp_path / "p.npz"], ["data", "show", tmp_path / "p.npz"]):
        code, _, errors = run(capsys, *arguments)
        assert code == 1
        assert errors.count("\n") == 1, textwrap.shorten(errors, 500)


@pytest.mark.filterwarnings("default")
def test_messages_are_cut_before_they_are_searched(tmp_path, capsys, monkeypatch):
    label = "=a" * 1_000_000  # each letter may begin an argument of the library
    scores = {"cat": [0.2, 0.7], "dog": [0.8, 0.3]}
    pq.write_table(pa.table({**scores, "label": [label, "dog"]}), tmp_path / "p.parquet", compression="zstd")
    assert (tmp_path / "p.parquet").stat().st_size < 10_000
    searched: list[int] = []

    def recorded(search):
        def recording(message, *others):
            searched.append(len(message))
            return search(message, *others)

        return recording

    for search in ("in_shell", "terminal"):
        monkeypatch.setattr(cli_arguments, search, recorded(getattr(cli_arguments, search)))
    for command in (["evaluate"], ["check", "--max", "nll=1"], ["calibrate", "fit", "--output", tmp_path / "c"]):
        searched.clear()
        code, _, errors = run(capsys, *command, tmp_path / "p.parquet")
        assert code == 1
        assert "the label must be a number or one of the classes cat, dog" in errors
        assert len(errors.splitlines()[-1]) <= cli_arguments.LONGEST + 100
        assert len(searched) >= 2
        assert max(searched) <= 4 * cli_arguments.LONGEST


def test_long_texts_that_are_no_message_are_not_cut():
    text = "pass force=True\n" + 5000 * "a line\n"
    assert cli_arguments.in_shell(text, {"--force"}) == text.replace("pass force=True", "add --force")
