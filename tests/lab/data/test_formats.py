"""Every form in which data comes, written from real images and read back."""

import gzip
import json
import subprocess
import sys
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from data_files import cifar100_folder, png, python2_pickle, rows, tar_of, tiny_imagenet_tree
from softkin import SoftkinError
from softkin._core.assumption import Assumption
from softkin.lab import data
from softkin.lab.data import labelled_tables

FASHION = Path("/usr/share/datasets/fashion-mnist")


@pytest.fixture(scope="module")
def few(cifar100):
    images, labels, names = cifar100
    return images[:300], labels[:300], names


def write_parquet(path, images, labels, names):
    about = {"info": {"features": {"img": {"_type": "Image"}, "fine_label": {"names": list(names)}}}}
    table = pa.table({"img": [{"bytes": png(image), "path": None} for image in images], "fine_label": labels})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(about)}), path, row_group_size=100)


def test_cifar100_in_its_official_folder_and_archive(few, tmp_path):
    images, labels, names = few
    folder = cifar100_folder(tmp_path / "cifar-100-python", images, labels, names)
    train, test = data.load(folder), data.load(folder, split="test")
    assert (train.source, train.kind, train.class_names) == ("CIFAR-100", "images", names)
    assert np.array_equal(train.values, images[:250])
    assert train.labels.tolist() == labels[:250].tolist()
    assert np.array_equal(test.values, images[250:])
    assert test.labels.tolist() == labels[250:].tolist()
    assert data.load(tmp_path).digest == train.digest  # the folder above it, as torchvision keeps it
    archive = tar_of(folder, tmp_path / "cifar-100-python.tar.gz")
    assert data.load(archive).digest == train.digest
    assert data.load(archive, split="test").digest == test.digest


def test_the_digest_is_that_of_the_content_in_whatever_form(few, tmp_path):
    images, labels, names = few
    folder = cifar100_folder(tmp_path / "cifar-100-python", images, labels, names)
    write_parquet(tmp_path / "hf" / "data" / "train-00000-of-00002.parquet", images[:100], labels[:100], names)
    write_parquet(tmp_path / "hf" / "data" / "train-00001-of-00002.parquet", images[100:250], labels[100:250], names)
    write_parquet(tmp_path / "hf" / "data" / "test-00000-of-00001.parquet", images[250:], labels[250:], names)
    for part in ("train", "test"):
        assert data.load(tmp_path / "hf", split=part).digest == data.load(folder, split=part).digest
    assert data.split(tmp_path / "hf").digest == data.split(folder).digest
    labels = labels.copy()
    labels[0] += 1
    write_parquet(tmp_path / "other" / "train.parquet", images[:250], labels[:250], names)
    assert data.load(tmp_path / "other").digest != data.load(folder).digest


def test_cifar10(few, tmp_path):
    images, labels, _ = few
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for k in range(5):
        content = {
            "labels": [int(label) % 10 for label in labels[40 * k : 40 * k + 40]],
            "data": rows(images[40 * k : 40 * k + 40]),
        }
        (folder / f"data_batch_{k + 1}").write_bytes(python2_pickle(content))
    (folder / "test_batch").write_bytes(python2_pickle({"labels": [1, 2], "data": rows(images[200:202])}))
    (folder / "batches.meta").write_bytes(
        python2_pickle({"label_names": [f"n{k}" for k in range(10)], "num_vis": 3072})
    )
    loaded = data.load(folder)
    assert loaded.source == "CIFAR-10"
    assert np.array_equal(loaded.values, images[:200])
    assert loaded.labels.tolist() == (labels[:200] % 10).tolist()
    assert data.load(folder, split="test").labels.tolist() == [1, 2]
    (folder / "data_batch_3").unlink()
    with pytest.raises(SoftkinError, match="all files of CIFAR-10, but data_batch_3 is missing"):
        data.load(folder)


def test_damaged_cifar_files(few, tmp_path):
    images, labels, names = few
    folder = cifar100_folder(tmp_path / "cifar-100-python", images[:20], labels[:20], names, test=5)
    good = (folder / "train").read_bytes()
    for content, words in (
        (good[:3000], "train was refused as a pickle of arrays"),
        (python2_pickle([1]), "must hold a dictionary, as CIFAR's files do, got list"),
        (python2_pickle({"fine_labels": [1]}), "must hold `data` as rows of 3072 bytes"),
        (
            python2_pickle({"fine_labels": [1], "data": rows(images[:2])}),
            "one label for each of its 2 images as `fine_labels`",
        ),
        (
            python2_pickle({"fine_labels": [1, 100], "data": rows(images[:2])}),
            "`fine_labels` must be whole numbers from 0 to 99",
        ),
        (
            python2_pickle({"fine_labels": [1, "2"], "data": rows(images[:2])}),
            "`fine_labels` must be whole numbers from 0 to 99",
        ),
    ):
        (folder / "train").write_bytes(content)
        with pytest.raises(SoftkinError, match=words):
            data.load(folder)


@pytest.mark.slow
def test_tiny_imagenet_tree_zip_and_parquet(shared_data, tmp_path):
    there = shared_data / "tiny-imagenet"
    table = pq.read_table(there / "train-subset-00000-of-00001.parquet")
    folder = tmp_path / "tiny-imagenet-200"
    numbers = tiny_imagenet_tree(folder, table, there / "words.txt")
    train, test = data.load(folder), data.load(folder, split="test")
    assert train.values.shape == (8, 64, 64, 3)
    assert train.labels.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert train.class_names == [
        "Egyptian cat",
        "reel",
        "volleyball",
        "rocking chair, rocker",
    ]  # in the order of wnids.txt
    assert test.values.shape == (4, 64, 64, 3)
    assert test.labels.tolist() == [0, 1, 2, 3]  # of the annotations, not of the files' order
    with Image.open(folder / "train" / numbers[2] / "images" / f"{numbers[2]}_1.JPEG") as image:
        assert np.array_equal(train.values[5], np.asarray(image.convert("RGB")))
    with pytest.raises(SoftkinError, match="its validation set serves as its test set; pass split='test'"):
        data.load(folder, split="val")
    with zipfile.ZipFile(tmp_path / "tiny-imagenet-200.zip", "w") as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, file.relative_to(tmp_path))
    assert data.load(tmp_path / "tiny-imagenet-200.zip", split="test").digest == test.digest
    annotations = folder / "val" / "val_annotations.txt"
    annotations.write_text(annotations.read_text() + "../../x.JPEG\tn99999999\t0\n")
    with pytest.raises(
        SoftkinError, match=r"val_annotations.txt, line 5 must hold an image and its class, got '../../x"
    ):
        data.load(folder, split="test")
    # The same as a Hugging Face folder: classes by their synonyms too, and the validation set is the test set.
    whole = data.load(there, split="test", size=8, progress=False)
    assert len(whole) == 10_000
    assert whole.class_names[:4] == train.class_names
    assert len(set(whole.class_names)) == 200
    assert not any(name.startswith("n0") for name in whole.class_names)


def test_class_folders_inside_parts(tmp_path):
    for part, count in (("train", 3), ("valid", 2), ("test", 1)):
        for name, colour in (("ant", 10), ("bee", 200)):
            for row in range(count):
                path = tmp_path / part / name / f"{row}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.new("RGB", (4, 4), (colour, row, 0)).save(path)
    (tmp_path / "train" / "labels.csv").write_text("a table,among the folders\n")
    (tmp_path / "devkit").mkdir()  # holds no images: no class
    (tmp_path / "train" / "ant" / "up").symlink_to(tmp_path / "train", target_is_directory=True)  # and no end
    assert data.load(tmp_path).labels.tolist() == [0, 0, 0, 1, 1, 1]
    (tmp_path / "train" / "ant" / "up").unlink()
    assert data.load(tmp_path, split="val").values[:, 0, 0].tolist() == [
        [10, 0, 0],
        [10, 1, 0],
        [200, 0, 0],
        [200, 1, 0],
    ]
    assert len(data.load(tmp_path, split="test")) == 2
    with pytest.raises(SoftkinError, match="has the parts train, validation, test, not 'tset'; did you mean 'test'"):
        data.load(tmp_path, split="tset")
    parted = data.split(tmp_path)
    assert [len(part) for part in (parted.train, parted.validation, parted.test)] == [6, 4, 2]
    (tmp_path / "test" / "cow").mkdir()
    with pytest.raises(SoftkinError, match="test holds the class 'cow', which .*train does not"):
        data.load(tmp_path)
    (tmp_path / "test" / "cow").rmdir()
    (tmp_path / "val").mkdir()
    with pytest.raises(SoftkinError, match="must hold each part once, but valid and another mean the same"):
        data.load(tmp_path)


@pytest.mark.parametrize("packed", [True, False])
def test_idx_files(few, tmp_path, packed):
    images, labels, _ = few
    grey, labels = images[..., 1], (labels % 10).astype(np.uint8)

    def write(name, array):
        content = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()
        (tmp_path / (name + ".gz" * packed)).write_bytes(gzip.compress(content) if packed else content)

    write("train-images-idx3-ubyte", grey[:250])
    write("train-labels-idx1-ubyte", labels[:250])
    write("t10k-images-idx3-ubyte", grey[250:])
    write("t10k-labels-idx1-ubyte", labels[250:])
    train, test = data.load(tmp_path), data.load(tmp_path, split="test")
    assert np.array_equal(train.values[..., 0], grey[:250])
    assert test.labels.tolist() == labels[250:].tolist()
    assert train.class_names == [f"class {k}" for k in range(10)]
    with pytest.warns(Assumption, match="one file of a data set; its folder is read"):
        named = data.load(tmp_path / ("train-images-idx3-ubyte" + ".gz" * packed))
    assert np.array_equal(named.values, train.values)
    write("train-images-idx3-ubyte", grey[:3])
    with pytest.raises(SoftkinError, match="a sample for each label, got 3 samples for 250 labels"):
        data.load(tmp_path)
    file = tmp_path / ("train-images-idx3-ubyte" + ".gz" * packed)
    write("train-images-idx3-ubyte", grey[:250])
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(
        SoftkinError, match="could not be read as idx" if packed else "was cut off: it must hold 250 rows"
    ):
        data.load(tmp_path)
    write("train-images-idx3-ubyte", labels)
    with pytest.raises(SoftkinError, match="must begin as an idx file of bytes with 3 dimensions"):
        data.load(tmp_path)
    file.unlink()
    with pytest.raises(SoftkinError, match="must hold images and labels of train, but one of the two files is missing"):
        data.load(tmp_path)


@pytest.mark.skipif(not FASHION.is_dir(), reason="needs Debian's dataset-fashion-mnist")
def test_debians_fashion_mnist():
    test = data.load("fashion-mnist", split="test")
    assert test.values.shape == (10_000, 28, 28, 1)
    assert np.bincount(test.labels).tolist() == [1000] * 10
    assert test.class_names[0] == "T-shirt/top"
    assert test.class_names[9] == "Ankle boot"
    assert data.load(FASHION, split="test").digest == test.digest


def test_text_in_parquet_csv_and_jsonl(shared_data, tmp_path):
    table = pq.read_table(shared_data / "text" / "banking77.parquet")
    few = [row for row in table.to_pylist() if row["label"] in ("card_arrival", "exchange_rate")]
    cut = [row for row in few if row["split"] == "train"][::20] + [row for row in few if row["split"] == "test"][::20]
    pq.write_table(pa.Table.from_pylist(cut), tmp_path / "t.parquet")
    import csv

    with (tmp_path / "t.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["text", "label", "split"])
        writer.writeheader()
        writer.writerows(cut)
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in cut), encoding="utf-8")
    loaded = {form: data.load(tmp_path / f"t.{form}") for form in ("parquet", "csv", "jsonl")}
    train = loaded["parquet"]
    assert train.kind == "text"
    assert train.class_names == ["card_arrival", "exchange_rate"]
    assert train.texts == [row["text"] for row in cut if row["split"] == "train"]
    assert train.values.dtype == np.uint8
    assert np.array_equal(train.values, labelled_tables.counts(train.texts))
    assert len({value.digest for value in loaded.values()}) == 1
    assert len(data.load(tmp_path / "t.csv", split="test")) == sum(row["split"] == "test" for row in cut)
    # A folder of one file for each part, and labels that are numbers.
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "train.csv").write_text('text,category\n"two\nlines, one cell",1\nother,0\n')
    (tmp_path / "f" / "test.csv").write_text("text,category\nthird,2\n")
    train = data.load(tmp_path / "f")
    assert (train.texts, train.labels.tolist()) == (["two\nlines, one cell", "other"], [1, 0])
    assert data.load(tmp_path / "f", split="test").class_names == ["class 0", "class 1", "class 2"]
    (tmp_path / "x.csv").write_text("text,labell\na,b\n")
    with pytest.raises(SoftkinError, match="x.csv must have a column `label`.*it has text, labell"):
        data.load(tmp_path / "x.csv")
    (tmp_path / "y.csv").write_text("wording,label\na,b\n")
    with pytest.raises(SoftkinError, match="a column of images .* or of text .*it has wording, label"):
        data.load(tmp_path / "y.csv")
    (tmp_path / "z.jsonl").write_text('{"text": "a", "label"')
    with pytest.raises(SoftkinError, match="z.jsonl, line 1 could not be read as JSON"):
        data.load(tmp_path / "z.jsonl")
    (tmp_path / "i.jsonl").write_text('{"text": "a", "label": 99999999}\n')
    with pytest.raises(
        SoftkinError, match="by its `label`, would have 100,000,000 classes, .* set SOFTKIN_MAX_CLASSES"
    ):
        data.load(tmp_path / "i.jsonl")
    (tmp_path / "h.jsonl").write_text('{"text": "a", "label": -1}\n')
    with pytest.raises(
        SoftkinError, match="`label` must hold a class in every row, got -1; labels of −1 or nothing usually mean"
    ):
        data.load(tmp_path / "h.jsonl")


def test_a_label_is_the_same_class_in_every_file(tmp_path):
    # A column of numbers alone is read as numbers, one with a word in it as text.
    (tmp_path / "train.csv").write_text("text,label\n" + "".join(f"word {i},{i % 3}\n" for i in range(30)))
    (tmp_path / "test.csv").write_text("text,label\na,2\nb,1\nc,other\n")
    test = data.load(tmp_path, split="test")
    assert test.class_names == ["0", "1", "2", "other"] == data.load(tmp_path).class_names
    assert test.labels.tolist() == [2, 1, 3]
    assert np.bincount(data.load(tmp_path).labels).tolist() == [10, 10, 10]


def test_clincs_out_of_scope_is_not_a_class(shared_data, tmp_path):
    path = shared_data / "text" / "clinc150.parquet"
    sizes = {part: len(data.load(path, split=part)) for part in ("train", "val", "test")}
    assert sizes == {"train": 15_000, "val": 3_000, "test": 4_500}
    train = data.load(path)
    assert len(train.class_names) == 150
    assert "oos" not in train.class_names
    assert np.bincount(train.labels).tolist() == [100] * 150
    with pytest.raises(ValueError, match="a part with classes, got 'oos'; data.out_of_distribution gives those"):
        data.load(path, split="oos")
    # As the hub has it: numbers, with oos among the names.
    table = pa.table({"text": ["a", "b", "c", "d"], "intent": [0, 1, 2, 2]})
    about = {"info": {"features": {"intent": {"names": ["ant", "oos", "bee"]}}}}
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(about)}), tmp_path / "train.parquet")
    loaded = data.load(tmp_path)
    assert (loaded.class_names, loaded.labels.tolist(), loaded.texts) == (["ant", "bee"], [0, 1, 1], ["a", "c", "d"])
    assert data.out_of_distribution(tmp_path, loaded).texts == ["b"]


class Pairs(torch.utils.data.Dataset):
    def __init__(self, values, labels, classes=None):
        self.values, self.labels = values, labels
        if classes:
            self.classes = classes

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, row):
        return self.values[row], self.labels[row]


def test_map_style_data_sets(few):
    images, labels, names = few
    whole = Pairs([Image.fromarray(image) for image in images], labels.tolist(), names)
    loaded = data.load(whole)
    assert np.array_equal(loaded.values, images)
    assert loaded.class_names == names
    assert loaded.labels.tolist() == labels.tolist()
    # As torchvision's ToTensor gives them: channels first, from 0 to 1.
    tensors = torch.from_numpy(images).permute(0, 3, 1, 2)
    assert data.load(Pairs(tensors.float() / 255, torch.tensor(labels.tolist()), names)).digest == loaded.digest
    assert data.load(Pairs(tensors, labels, names)).digest == loaded.digest
    content = data.load(torch.utils.data.Subset(whole, [3, 5]))
    assert np.array_equal(content.values, images[[3, 5]])
    assert content.class_names == names
    parted = data.split(Pairs(images, labels % 3))
    assert parted.train.class_names == ["class 0", "class 1", "class 2"]
    assert len(parted.train) + len(parted.validation) + len(parted.test) == 300
    grey = data.load(Pairs(images[..., 0], labels % 3), size=16)
    assert grey.values.shape == (300, 16, 16, 1)
    features = data.load(Pairs(np.eye(3), [0, 1, 1]))
    assert (features.kind, features.values.dtype) == ("features", np.float32)
    rows = data.load([{"text": "one two", "label": 0}, {"text": "two", "label": 1}])
    assert (rows.kind, rows.texts) == ("text", ["one two", "two"])
    for dataset, error, words in (
        (iter([]), TypeError, "a data set with a length and items by number, got list_iterator"),
        (Pairs([], []), SoftkinError, "Pairs must hold samples, got none"),
        (
            Pairs(tensors.float() - 9, labels),
            SoftkinError,
            "fractions from 0 to 1, got float32 from -.*were they standardised",
        ),
        (Pairs(images, labels - 90), SoftkinError, "the label of sample 0 must be a whole number from 0 on, got"),
        (Pairs(images, labels, ["one", "two"]), SoftkinError, "must be a whole number from 0 to 1, got"),
        (Pairs([images[0], images[0][:9]], [0, 1]), SoftkinError, "must have one shape"),
        ([1, 2], SoftkinError, "sample 0 must be a pair of a value and its label, got int"),
    ):
        with pytest.raises(error, match=words):
            data.load(dataset)


def test_npz_pixels_sizes_and_wrong_ones(few, tmp_path):
    images, labels, _ = few
    path = tmp_path / "d.npz"
    np.savez_compressed(path, images=np.asfortranarray(images), labels=labels)
    assert np.array_equal(data.load(path).values, images)
    np.savez(path, images=images / 255, labels=labels)
    assert np.array_equal(data.load(path).values, images)
    small = data.load(path, size=8)
    assert small.values.shape == (300, 8, 8, 3)
    assert np.array_equal(
        small.values[0], np.asarray(Image.fromarray(images[0]).resize((8, 8), Image.Resampling.BILINEAR))
    )
    for arrays, words in (
        ({"images": np.zeros((len(labels), 9, 8, 7)), "labels": labels}, r"or \(N, C, H, W\) with at most 4 channels"),
        ({"images": images - 3.5, "labels": labels}, "fractions from 0 to 1, got float64 from -3.5"),
        ({"images": images, "labels": labels - 99}, "`labels` must be classes from 0 on, got -"),
        (
            {"images": images, "labels": labels, "class_names": ["one"]},
            "must be below 1, for which there are class names",
        ),
        ({"images": images[:9], "labels": labels}, "`images` must have a row for each of the 300 labels, got \\(9, "),
        ({"features": images, "labels": labels}, r"`features` must be numbers of shape \(N, D\), got uint8"),
    ):
        np.savez(path, **arrays)
        with pytest.raises(SoftkinError, match=words):
            data.load(path)
    np.savez(path, features=np.eye(3), labels=np.arange(3))
    with pytest.raises(ValueError, match="`size` must be left out, since the source holds features"):
        data.load(path, size=8)
    assert data.load("digits", size=16).values.max() == 16


def test_a_folder_of_several_data_sets(few, tmp_path):
    images, labels, names = few
    for name in ("one", "two"):
        write_parquet(tmp_path / name / "train.parquet", images[:5], labels[:5], names)
    with pytest.raises(SoftkinError, match="holds several data sets: one, two; give one of these folders"):
        data.load(tmp_path)


HUB = """
import sys
from softkin import SoftkinError
from softkin.lab import data
for name in sys.argv[1:]:
    try:
        found = data.split(name)
        print(len(found.train), len(found.validation), len(found.test), found.train.class_names[:2], found.train.source)
    except SoftkinError as error:
        print(error)
"""


@pytest.fixture
def hub(few, tmp_path):
    """A server that answers as the Hugging Face hub does, for one data set."""
    images, labels, names = few
    files = {}
    for part, cut in (("train", slice(0, 250)), ("test", slice(250, None))):
        write_parquet(tmp_path / "made" / f"{part}.parquet", images[cut], labels[cut], names)
        files[f"cifar100/{part}-00000-of-00001.parquet"] = (tmp_path / "made" / f"{part}.parquet").read_bytes()
    files["README.md"] = b"# about"
    commit = "a" * 40

    class Hub(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_HEAD(self):
            self.answer(body=False)

        def do_GET(self):
            self.answer(body=True)

        def answer(self, *, body):
            path = self.path.partition("?")[0]
            headers, content, code = {"X-Repo-Commit": commit}, b"", 404
            if path.startswith("/api/datasets/someone/cifar100/tree/"):
                rows = [{"type": "file", "path": name, "size": len(files[name]), "oid": "1" * 40} for name in files]
                content, code = json.dumps(rows).encode(), 200
            elif path.startswith("/api/datasets/someone/cifar100"):
                rows = [{"rfilename": name} for name in files]
                content, code = json.dumps({"id": "someone/cifar100", "sha": commit, "siblings": rows}).encode(), 200
            elif path.startswith(f"/datasets/someone/cifar100/resolve/{commit}/"):
                name = path.partition(f"/{commit}/")[2]
                content, code = files[name], 200
                headers["ETag"] = f'"{len(content):040x}"'
            else:
                headers["X-Error-Code"] = "RepoNotFound"
            self.send_response(code)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if body:
                self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_a_name_of_the_hub(hub, tmp_path):
    import os

    def ask(endpoint, *names):
        environment = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path / "hf"), "NO_PROXY": "127.0.0.1"}
        environment |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        done = subprocess.run([sys.executable, "-c", HUB, *names], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    there, unknown = ask(hub, "someone/cifar100", "someone/else")
    assert there == "225 25 50 ['apple', 'aquarium_fish'] someone/cifar100, train"
    assert "the Hugging Face hub knows no public data set of that name" in unknown
    assert "the Hugging Face hub could not be reached" in ask("http://127.0.0.1:9", "no/network")[0]


def test_a_csv_of_a_million_columns_is_refused_before_it_is_parsed(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"c{i}" for i in range(200_000)) + ",labels\n" + ",".join("0" * 200_000) + ",0\n")
    with pytest.raises(SoftkinError, match="wide.csv, with a column for each class, would have 200,001 classes"):
        data.load(path)
