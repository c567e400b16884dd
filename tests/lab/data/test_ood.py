"""Samples of no class."""

from dataclasses import replace

import numpy as np
import pytest

from softkin import SoftkinError
from softkin.lab import data


def test_noise():
    digits = data.load("digits")
    uniform = data.out_of_distribution("uniform", digits, rows=2000)
    assert uniform.values.shape == (2000, 8, 8, 1)
    assert uniform.values.dtype == np.uint8
    assert uniform.labels is None
    assert uniform.class_names == digits.class_names
    shares = np.bincount(uniform.values.ravel(), minlength=17) / uniform.values.size
    assert len(shares) == 17  # from 0 to 16, as the digits are
    assert np.allclose(shares, 1 / 17, atol=0.004)
    assert data.out_of_distribution("uniform", digits, rows=2000).digest == uniform.digest
    assert data.out_of_distribution("uniform", digits, rows=2000, seed=1).digest != uniform.digest
    gaussian = data.out_of_distribution("gaussian", digits, rows=2000)
    expected = np.random.Generator(np.random.PCG64(1)).normal(digits.values.mean(), digits.values.std(), 100_000)
    expected = np.rint(expected).clip(0, 16)
    assert abs(gaussian.values.mean() - expected.mean()) < 0.05
    assert abs(gaussian.values.std() - expected.std()) < 0.05
    features = replace(digits, values=digits.values.reshape(1797, -1).astype(np.float32), kind="features")
    samples = data.out_of_distribution("uniform", features, rows=50)
    assert (samples.values.shape, samples.values.dtype) == ((50, 64), np.float32)
    assert (samples.values <= features.values.max(axis=0)).all()
    assert samples.values[:, 0].max() == 0  # a pixel that is always empty
    assert data.out_of_distribution("gaussian", features, rows=50).values.dtype == np.float32
    with pytest.raises(ValueError, match="`rows` must be at least 1"):
        data.out_of_distribution("uniform", digits, rows=0)


def test_another_data_set_is_fitted(shared_data, tmp_path):
    digits = data.load("digits")
    path = shared_data / "tiny-imagenet" / "train-subset-00000-of-00001.parquet"
    tiny = data.out_of_distribution(path, digits, rows=40, progress=False)
    assert tiny.values.shape == (40, 8, 8, 1)
    assert tiny.values.max() <= 16
    assert tiny.labels is None
    assert len(set(tiny.ids.tolist())) == 40
    whole = data.load(path)
    from PIL import Image

    for row in range(3):  # grey, small, and from 0 to 16
        image = Image.fromarray(whole.values[tiny.ids[row]]).convert("L").resize((8, 8), Image.Resampling.BILINEAR)
        assert np.array_equal(tiny.values[row, ..., 0], np.rint(np.asarray(image) * (16 / 255)))
    back = data.out_of_distribution(digits, whole, rows=10)
    assert back.values.shape == (10, 64, 64, 3)
    assert back.values.max() > 200
    assert (back.values[..., 0] == back.values[..., 2]).all()
    np.savez(tmp_path / "f.npz", features=np.eye(3), labels=np.arange(3))
    with pytest.raises(SoftkinError, match="f.npz must hold images, as scikit-learn's digits does, but holds features"):
        data.out_of_distribution(tmp_path / "f.npz", digits)
    np.savez(tmp_path / "g.npz", features=np.eye(4), labels=np.arange(4))
    with pytest.raises(SoftkinError, match="f.npz must have 4 features, as .* has, got 3"):
        data.out_of_distribution(tmp_path / "f.npz", data.load(tmp_path / "g.npz"))


@pytest.mark.slow
def test_the_test_part_of_another_data_set(shared_data):
    split = data.split(shared_data / "cifar100", max_per_class=5, test=200, validation=300, progress=False)
    samples = data.out_of_distribution(shared_data / "cifar100", split.train, rows=100)
    assert samples.source == "cifar100, test"
    test = data.load(shared_data / "cifar100", split="test")
    assert np.array_equal(samples.values, test.values[samples.ids])


def test_out_of_scope_queries(shared_data):
    path = shared_data / "text" / "clinc150.parquet"
    train = data.load(path)
    outside = data.out_of_distribution(path, train)
    assert len(outside) == 1200
    assert outside.labels is None
    assert outside.source == "clinc150.parquet, out of scope"
    assert "who has the best record in the nfl" in outside.texts
    assert not set(outside.texts) & set(train.texts)
    assert outside.values.shape == (1200, 4096)
    assert outside.class_names == train.class_names
    with pytest.raises(ValueError, match="must be a data set of text .*, got 'uniform': text has no noise"):
        data.out_of_distribution("uniform", train)
