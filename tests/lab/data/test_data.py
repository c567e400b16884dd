"""Labelled data from disk."""

import numpy as np
import pytest
from PIL import Image

from softkin import SoftkinError
from softkin.lab import data


def image(path, colour, size=(4, 3)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


def test_digits():
    digits = data.load("digits")
    assert digits.values.shape == (1797, 8, 8, 1)
    assert digits.values.dtype == np.uint8
    assert digits.class_names[3] == "three"
    assert sorted(set(digits.labels)) == list(range(10))


def test_a_folder_of_class_folders(tmp_path):
    image(tmp_path / "red" / "a.png", (255, 0, 0))
    image(tmp_path / "red" / "deep" / "b.PNG", (200, 0, 0))
    image(tmp_path / "blue" / "c.bmp", (0, 0, 255))
    (tmp_path / "blue" / "notes.txt").write_text("not an image")
    (tmp_path / ".hidden").mkdir()
    loaded = data.load(tmp_path)
    assert loaded.class_names == ["blue", "red"]
    assert loaded.labels.tolist() == [0, 1, 1]
    assert loaded.values.shape == (3, 3, 4, 3)
    assert loaded.values[0, 0, 0].tolist() == [0, 0, 255]


def test_images_of_several_sizes(tmp_path):
    image(tmp_path / "a" / "1.png", (9, 9, 9))
    image(tmp_path / "b" / "2.png", (9, 9, 9), size=(7, 5))
    with pytest.raises(SoftkinError, match=r"2\.png has 7×5 pixels and those before it 4×3; pass size="):
        data.load(tmp_path)
    assert data.load(tmp_path, size=6).values.shape == (2, 6, 6, 3)
    with pytest.raises(ValueError, match="`size` must be at most 4096 pixels, got 99999"):
        data.load(tmp_path, size=99999)


def test_broken_images_and_empty_folders(tmp_path):
    with pytest.raises(SoftkinError, match="one folder of images for each class, but no image was found"):
        data.load(tmp_path)
    image(tmp_path / "a" / "1.png", (9, 9, 9))
    (tmp_path / "a" / "2.png").write_bytes((tmp_path / "a" / "1.png").read_bytes()[:40])
    with pytest.raises(SoftkinError, match=r"2\.png could not be read as an image"):
        data.load(tmp_path)


def test_folder_of_npz_parts(tmp_path):
    names = np.array(["ant", "bee"])
    np.savez(tmp_path / "train.npz", features=np.eye(4), labels=[0, 1, 0, 1], class_names=names)
    np.savez(tmp_path / "val.npz", features=np.ones((2, 4)), labels=[0, 1], class_names=names)
    np.savez(tmp_path / "test.npz", features=np.zeros((1, 4)), labels=[1], class_names=names)
    split = data.split(tmp_path)
    assert [len(part) for part in (split.train, split.validation, split.test)] == [4, 2, 1]
    assert split.test.class_names == ["ant", "bee"]
    assert (split.validation.values == 1).all()
    np.savez(tmp_path / "test.npz", features=np.zeros((1, 4)), labels=[1], class_names=names[::-1])
    with pytest.raises(SoftkinError, match=r"test.npz must have the class names of train.npz, in the same order"):
        data.split(tmp_path)


def test_folder_of_npz_parts_without_class_names(tmp_path):
    np.savez(tmp_path / "train.npz", features=np.eye(3), labels=[0, 1, 2])
    np.savez(tmp_path / "test.npz", features=np.zeros((1, 3)), labels=[1])
    assert (
        data.load(tmp_path, split="test").class_names
        == data.load(tmp_path).class_names
        == ["class 0", "class 1", "class 2"]
    )


def test_npz(tmp_path):
    path = tmp_path / "d.npz"
    np.savez(path, images=np.zeros((3, 2, 2), dtype=np.uint8), labels=[0, 1, 1], class_names=["ant", "bee"])
    assert data.load(path).class_names == ["ant", "bee"]
    np.savez(path, features=np.zeros((3, 2)), labels=[0, 1, 1])
    assert data.load(path).class_names == ["class 0", "class 1"]
    for arrays, words in (
        ({"x": np.zeros(3)}, "must hold `images` or `features`, and `labels`; it holds x"),
        (
            {"images": np.zeros((2, 2)), "labels": np.full(2, 0.5)},
            r"`labels` must be integers of shape \(N,\), got float64",
        ),
        ({"images": np.zeros((2, 2)), "labels": np.array([{}, {}])}, "never unpickled"),
    ):
        np.savez(path, **arrays)
        with pytest.raises(SoftkinError, match=words):
            data.load(path)
    path.write_bytes(path.read_bytes()[:-30])
    np.savez(tmp_path / "b.npz", features=np.zeros((2, 2)), labels=[0, 1], class_names=np.array([b"ant", b"bee"]))
    assert data.load(tmp_path / "b.npz").class_names == ["ant", "bee"]
    with pytest.raises(SoftkinError, match="could not be read as .npz: it is another format, or it was cut off"):
        data.load(path)


def test_npz_as_people_save_it(tmp_path):
    random = np.random.default_rng(0)
    x, images = random.normal(size=(6, 3)).astype(np.float32), random.integers(0, 256, (6, 8, 7, 3), dtype=np.uint8)
    expected = [0, 1, 2, 0, 1, 2]
    for labels in (expected, np.array(expected, float), np.array(expected)[:, None]):
        np.savez(tmp_path / "d.npz", X=x, y=labels)
        found = data.load(tmp_path / "d.npz")
        assert np.array_equal(found.values, x)
        assert found.labels.tolist() == expected
        assert found.kind == "features"
    np.savez(tmp_path / "i.npz", data=images.transpose(0, 3, 1, 2), targets=expected)  # as torch has them
    found = data.load(tmp_path / "i.npz")
    assert found.kind == "images"
    assert np.array_equal(found.values, images)


def test_parquet(shared_data, tmp_path):
    tiny = data.load(shared_data / "tiny-imagenet" / "train-subset-00000-of-00001.parquet", size=8, progress=False)
    assert tiny.values.shape == (5000, 8, 8, 3)
    assert len(tiny.class_names) == 200
    assert np.bincount(tiny.labels).tolist() == [25] * 200
    text = data.load(shared_data / "text" / "banking77.parquet")
    assert text.values.shape == (10003, 4096)
    assert len(text.class_names) == 77
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(SoftkinError, match="could not be read as parquet"):
        data.load(tmp_path / "broken.parquet")
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet")
    with pytest.raises(SoftkinError, match="must have a column `label`"):
        data.load(tmp_path / "x.parquet")


def test_what_it_is_not(tmp_path):
    with pytest.raises(SoftkinError, match="no such file or folder, and no data set of that name"):
        data.load("cifar1000")
    (tmp_path / "a.doc").write_text("")
    with pytest.raises(SoftkinError, match="no known format"):
        data.load(tmp_path / "a.doc")
