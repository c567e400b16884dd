"""Labelled samples from streams."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from softkin import distances
from softkin.distances import histograms


def bytes_and_labels(n=60, shape=(3, 4, 5), k=4, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    images = rng.integers(0, 256, (n, *shape), dtype=np.uint8)
    return images, rng.permutation(labels)


def test_samples_are_stratified_and_repeatable():
    images, labels = bytes_and_labels(n=200)
    for p in (1, 2):
        matrix = distances.from_images(images, labels, p=p, max_per_class=5, seed=1)
        assert torch.equal(matrix, distances.from_images(images, labels, p=p, max_per_class=5, seed=1))
        assert not torch.equal(matrix, distances.from_images(images, labels, p=p, max_per_class=5, seed=2))


@pytest.mark.parametrize("p", [1, 2])
def test_streams_agree_with_arrays(p):
    images, labels = bytes_and_labels(n=130)
    expected = distances.from_images(images, labels, p=p)
    dataset = TensorDataset(torch.from_numpy(images), torch.from_numpy(labels))
    loader = DataLoader(dataset, batch_size=17, shuffle=True)
    torch.testing.assert_close(distances.from_images(loader, p=p), expected, rtol=1e-12, atol=0)
    parts = ((images[i : i + 10], labels[i : i + 10].tolist()) for i in range(0, 130, 10))  # read once, grows
    torch.testing.assert_close(distances.from_images(parts, p=p), expected, rtol=1e-12, atol=0)
    floats = [(images[i : i + 9] / 255, labels[i : i + 9]) for i in range(0, 130, 9)]
    torch.testing.assert_close(distances.from_images(floats, p=p) * 255, expected, rtol=1e-12, atol=0)


def test_a_stream_of_bytes_holds_no_images():
    """The batches are produced from nothing and never kept: memory stays that of the histograms."""
    import tracemalloc

    def batches():
        rng = np.random.default_rng(0)
        for _ in range(60):
            yield rng.integers(0, 256, (256, 32 * 32), dtype=np.uint8), rng.integers(0, 3, 256)

    tracemalloc.start()
    distances.from_images(batches(), p=1)
    peak = tracemalloc.get_traced_memory()[1]  # numpy's memory: the batches
    tracemalloc.stop()
    assert peak < 6 * 256 * 32 * 32


@pytest.mark.parametrize("p", [1, 2])
def test_makers_of_batches_may_reuse_their_memory(p):
    images, labels = bytes_and_labels(n=130)

    def batches(scale):
        part, of = np.empty((10, *images.shape[1:]), dtype=(images * scale).dtype), np.empty(10, dtype=int)
        for i in range(0, 130, 10):
            part[:], of[:] = images[i : i + 10] * scale, labels[i : i + 10]
            yield part, of

    for scale in (1, 0.5):
        matrix = distances.from_images(batches(scale), p=p)
        torch.testing.assert_close(matrix, distances.from_images(images * scale, labels, p=p), rtol=1e-12, atol=0)


def test_a_stream_of_floats_with_few_values_keeps_no_samples(monkeypatch):
    from softkin.distances import samples

    images, labels = bytes_and_labels(n=500, shape=(3, 40, 40))
    images[:400] //= 64  # the beginning shows 4 values, the rest brings more
    expected = distances.from_images(images, labels)
    monkeypatch.setattr(samples, "collect", None)
    batches = [(images[i : i + 50] / 255, labels[i : i + 50]) for i in range(0, 500, 50)]
    torch.testing.assert_close(distances.from_images(batches) * 255, expected, rtol=1e-10, atol=0)
    monkeypatch.setattr(histograms, "FEW", 100)
    with pytest.raises(ValueError, match="began with few distinct values and then brought more than 100"):
        distances.from_images(batches)


def test_a_stream_can_be_sampled_and_quantised():
    images, labels = bytes_and_labels(n=130)
    batches = [(images[i : i + 10], labels[i : i + 10]) for i in range(0, 130, 10)]
    matrix, errors = distances.from_images(batches, p=1, max_per_class=8, return_error=True)
    exact = distances.from_images(images, labels)
    assert float(((matrix - exact).abs() / errors).max()) < 5
    floats = [(part / 255, of) for part, of in batches]
    counted = distances.from_images(floats, p=1, levels=256, value_range=(0, 1))
    torch.testing.assert_close(counted * 255, exact, rtol=1e-9, atol=0)
    features = distances.from_features(batches)
    torch.testing.assert_close(features, distances.from_images(images, labels, p=2), rtol=1e-12, atol=0)


def test_a_loader_that_repeats_samples_is_refused():
    images, labels = bytes_and_labels()
    dataset = TensorDataset(torch.from_numpy(images), torch.from_numpy(labels))
    loader = DataLoader(dataset, sampler=[*range(60), 0, 1], batch_size=8)
    with pytest.raises(ValueError, match="brought 62 samples, but the data set has 60"):
        distances.from_images(loader)


def test_bad_streams():
    images, labels = bytes_and_labels()
    with pytest.raises(TypeError, match="must yield .images, labels. batches, got dict"):
        distances.from_images([{"image": images, "label": labels}])
    with pytest.raises(ValueError, match="must hold samples, got none"):
        distances.from_images([])
    with pytest.raises(ValueError, match="got 60 and then 30; resize"):
        distances.from_images(
            [(images, labels), (images[:, :, :2, :], labels)][:1] + [(images.reshape(120, 30), np.arange(120) % 4)]
        )
    with pytest.raises(ValueError, match="one type of number, got torch.uint8 and then torch.float64"):
        distances.from_images([(images, labels), (images / 255, labels)])
    with pytest.raises(TypeError, match="an iterable of batches, got int"):
        distances.from_images(3)
    with pytest.raises(ValueError, match="`value_range` must be given with `levels` for a stream"):
        distances.from_images([(images / 255, labels)], levels=9)
    with pytest.raises(ValueError, match="`value_range` must cover all images, but they run from 0 to 1"):
        distances.from_images([(images / 255, labels)], levels=9, value_range=(0.25, 1))
    with pytest.raises(
        ValueError, match=r"L1 histograms of 1000 classes, 150528 values per image and 256 levels exceed 4 GiB"
    ):
        distances.from_images([(np.zeros((1, 150528), dtype=np.uint8), [0])], num_classes=1000)
