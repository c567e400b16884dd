"""Class distances over samples: against brute force, in every form that samples come in."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from torch.utils.data import DataLoader

from softkin import distances
from softkin.distances import histograms
from softkin.distances import images as exact


def brute_force(samples, labels, p):
    """The definition: for each two classes the mean over all pairs, in float64."""
    rows = np.asarray(samples, dtype=np.float64).reshape(len(samples), -1)
    labels = np.asarray(labels)
    k = labels.max() + 1
    full = cdist(rows, rows, "cityblock" if p == 1 else "euclidean")
    return np.array([[full[np.ix_(labels == a, labels == b)].mean() for b in range(k)] for a in range(k)])


def bytes_and_labels(n=60, shape=(3, 4, 5), k=4, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    images = rng.integers(0, 256, (n, *shape), dtype=np.uint8)
    return images, rng.permutation(labels)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64, np.int32])
def test_every_type_agrees_with_brute_force(p, dtype):
    images, labels = bytes_and_labels()
    images = images.astype(dtype) if dtype != np.float16 else (images / 255).astype(dtype)
    expected = brute_force(images, labels, p)
    for given_images, given_labels in (
        (images, labels),
        (torch.from_numpy(images), torch.from_numpy(labels)),
        (torch.from_numpy(images), labels.tolist()),
        (images.tolist(), labels.astype(np.uint8)),
    ):
        matrix = distances.from_images(given_images, given_labels, p=p)
        assert matrix.dtype == torch.float64
        assert matrix.device.type == "cpu"
        np.testing.assert_allclose(matrix, expected, rtol=1e-12, atol=1e-12)
        assert torch.equal(matrix, matrix.T)


def test_floats_with_many_values_agree_with_brute_force():
    rng = np.random.default_rng(1)
    images, labels = rng.normal(size=(300, 20)) * 7 + 3, rng.integers(0, 5, 300)
    assert histograms.distinct(torch.from_numpy(images)) is None
    for p in (1, 2):
        np.testing.assert_allclose(
            distances.from_images(images, labels, p=p), brute_force(images, labels, p), rtol=1e-12
        )
    np.testing.assert_allclose(distances.from_features(images, labels), brute_force(images, labels, 2), rtol=1e-12)


def test_normalised_bytes_are_counted_not_paired():
    images, labels = bytes_and_labels(n=200)
    mean, sd = np.array([0.5, 0.4, 0.3]).reshape(3, 1, 1), np.array([0.2, 0.25, 0.3]).reshape(3, 1, 1)
    normalised = ((images / 255 - mean) / sd).astype(np.float32)
    assert histograms.distinct(torch.from_numpy(normalised).flatten(1)) is not None
    np.testing.assert_allclose(
        distances.from_images(normalised, labels, p=1), brute_force(normalised, labels, 1), rtol=1e-12
    )
    constant = np.full((6, 4), 0.5)
    assert float(distances.from_images(constant, [0, 1, 0, 1, 0, 1], p=1).abs().max()) == 0


def test_a_value_that_the_probe_did_not_see_still_counts():
    images = np.zeros((500, 8))
    images[313, 5] = 0.123456
    labels = np.arange(500) % 2
    np.testing.assert_allclose(distances.from_images(images, labels, p=1), brute_force(images, labels, 1), rtol=1e-12)


@given(st.data(), st.sampled_from([1, 2]), st.integers(2, 6), st.integers(1, 9))
def test_properties(data, p, k, width):
    n = data.draw(st.integers(k, 25))
    seed = data.draw(st.integers(0, 2**16))
    images, labels = bytes_and_labels(n=n, shape=(width,), k=k, seed=seed)
    matrix = distances.from_images(images, labels, p=p)
    np.testing.assert_allclose(matrix, brute_force(images, labels, p), rtol=1e-11, atol=1e-11)
    rng = np.random.default_rng(seed)
    order, rename = rng.permutation(n), rng.permutation(k)
    shuffled = distances.from_images(images[order], labels[order], p=p)
    np.testing.assert_allclose(shuffled, matrix, rtol=1e-12, atol=1e-11)
    renamed = distances.from_images(images, rename[labels], p=p)
    np.testing.assert_allclose(renamed[rename][:, rename], matrix, rtol=1e-12, atol=1e-11)
    twice = distances.from_images(np.concatenate([images, images]), np.concatenate([labels, labels]), p=p)
    np.testing.assert_allclose(twice, matrix, rtol=1e-12, atol=1e-11)


def test_layout_does_not_matter():
    images, labels = bytes_and_labels()
    for p in (1, 2):
        matrix = distances.from_images(images, labels, p=p)
        moved = torch.from_numpy(images).permute(0, 2, 3, 1)
        torch.testing.assert_close(distances.from_images(moved, labels, p=p), matrix, rtol=1e-13, atol=0)
        channels_last = torch.from_numpy(images).contiguous(memory_format=torch.channels_last)
        torch.testing.assert_close(distances.from_images(channels_last, labels, p=p), matrix, rtol=1e-13, atol=0)
        torch.testing.assert_close(distances.from_images(images[:, ::-1], labels, p=p), matrix, rtol=1e-13, atol=0)


@pytest.mark.slow
def test_real_images_agree_with_brute_force(cifar100):
    images, labels, _ = cifar100
    chosen = labels < 12
    images, labels = images[chosen], labels[chosen]
    for p in (1, 2):
        np.testing.assert_allclose(
            distances.from_images(images, labels, p=p), brute_force(images, labels, p), rtol=1e-10
        )


@pytest.mark.parametrize("p", [1, 2])
def test_float32_products_stay_within_a_millionth(cifar100, monkeypatch, p):
    """The path that large data takes, with several tiles."""
    images, labels, _ = cifar100
    chosen = labels < 12
    images, labels = (
        images[chosen].astype(np.float32) + np.float32(0.1) * labels[chosen, None, None, None],
        labels[chosen],
    )
    images += np.random.default_rng(0).random(images.shape, dtype=np.float32)
    monkeypatch.setattr(exact, "SMALL", 0)
    monkeypatch.setattr(exact, "TILE", 100)
    np.testing.assert_allclose(distances.from_images(images, labels, p=p), brute_force(images, labels, p), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_centring_alone_spares_a_common_offset(monkeypatch, dtype):
    monkeypatch.setattr(exact, "SMALL", 0)
    monkeypatch.setattr(exact, "CLOSE", {torch.float32: 0.0, torch.float64: 0.0})  # nothing is computed again
    features = (np.random.default_rng(0).normal(size=(60, 30)) + 3000).astype(dtype)
    labels = np.arange(60) % 3
    expected = brute_force(features, labels, 2)
    np.testing.assert_allclose(
        distances.from_features(features, labels), expected, rtol=1e-5 if dtype == np.float32 else 1e-12
    )


def test_sums_are_in_float64(monkeypatch):
    """One row far from all others: its large distances must not round the small ones away."""
    monkeypatch.setattr(exact, "SMALL", 0)
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(900, 20)).astype(np.float32), np.arange(900) % 3
    features[0] *= 2.5e4
    np.testing.assert_allclose(distances.from_features(features, labels), brute_force(features, labels, 2), rtol=5e-7)


@pytest.mark.parametrize("factor", [1e-250, 1e-170, 1e170, 1e250])
def test_any_scale(factor):
    features, labels = np.random.default_rng(0).normal(size=(60, 30)), np.arange(60) % 3
    np.testing.assert_allclose(
        distances.from_features(features * factor, labels), brute_force(features, labels, 2) * factor, rtol=1e-12
    )
    with pytest.raises(ValueError, match="exceed the range of float64; divide"):
        distances.from_features(features * 1e307, labels)


def test_a_training_loop_s_settings_do_not_reach_in(monkeypatch):
    monkeypatch.setattr(exact, "SMALL", 0)
    features, labels = torch.randn(90, 40), torch.arange(90) % 3
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            matrix = distances.from_features(features, labels)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
    np.testing.assert_allclose(matrix, brute_force(features, labels, 2), rtol=1e-6)


def test_errors_do_not_depend_on_tiles(monkeypatch):
    features, labels = torch.randn(90, 4), torch.arange(90) % 3
    whole = distances.from_features(features, labels, max_per_class=20, return_error=True)
    monkeypatch.setattr(exact, "TILE", 7)
    for first, other in zip(
        distances.from_features(features, labels, max_per_class=20, return_error=True), whole, strict=True
    ):
        torch.testing.assert_close(first, other, rtol=1e-12, atol=0)


def test_tight_clusters_and_outliers_stay_right_and_cheap(monkeypatch):
    """Many close pairs: a tile is done again as a whole, not pair by pair."""
    monkeypatch.setattr(exact, "SMALL", 0)
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 100)
    features = (rng.normal(size=(4, 50))[labels] + 0.01 * rng.normal(size=(400, 50))).astype(np.float32)
    calls = []
    real = exact._euclidean
    monkeypatch.setattr(exact, "_euclidean", lambda x, *a, **o: calls.append(x.dtype) or real(x, *a, **o))
    np.testing.assert_allclose(distances.from_features(features, labels), brute_force(features, labels, 2), rtol=1e-6)
    assert torch.float64 in calls
    features[0] = 1e5
    np.testing.assert_allclose(distances.from_features(features, labels), brute_force(features, labels, 2), rtol=1e-6)


def test_cancellation_does_not_show(monkeypatch):
    """Tight clusters far from each other and far from the origin: the distances within a cluster cancel."""
    monkeypatch.setattr(exact, "SMALL", 0)
    monkeypatch.setattr(exact, "TILE", 64)
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 40)
    centres = 1000 + 100 * rng.normal(size=(4, 50))
    features = (centres[labels] + 0.01 * rng.normal(size=(160, 50))).astype(np.float32)
    features[1] = features[0]  # twins
    np.testing.assert_allclose(distances.from_features(features, labels), brute_force(features, labels, 2), rtol=1e-5)


def test_many_pixels_go_in_chunks(monkeypatch):
    images, labels = bytes_and_labels()
    monkeypatch.setattr(histograms, "CHUNK_BYTES", 4 * 4 * 256 * 7)  # 7 pixels of 4 classes at a time
    monkeypatch.setattr(histograms, "ROWS", 11)
    np.testing.assert_allclose(distances.from_images(images, labels, p=1), brute_force(images, labels, 1), rtol=1e-13)


def test_uint16_images():
    images, labels = bytes_and_labels()
    wide = images.astype(np.uint16) * 200
    for given_images in (wide, torch.from_numpy(wide)):
        np.testing.assert_allclose(
            distances.from_images(given_images, labels), brute_force(wide, labels, 1), rtol=1e-12
        )


def test_few_samples_of_many_classes_are_paired():
    images, labels = bytes_and_labels(n=80, k=40)
    np.testing.assert_allclose(distances.from_images(images, labels), brute_force(images, labels, 1), rtol=1e-12)


def test_levels_round_to_the_nearest():
    images = np.array([[0.0], [0.74], [1.0]])  # 0.74 of three levels 0, 0.5, 1 is 0.5
    matrix = distances.from_images(images, [0, 1, 1], levels=3)
    assert float(matrix[0, 1]) == pytest.approx(0.75)
    assert float(distances.from_images(np.full((4, 2), 1e20), [0, 0, 1, 1], levels=4).max()) == 0


@pytest.mark.parametrize("levels", [2, 17, 256, 5000])
def test_levels_keep_their_error_bound(levels):
    rng = np.random.default_rng(2)
    images, labels = rng.random((80, 30)), np.arange(80) % 4
    exact = brute_force(images, labels, 1)
    matrix = distances.from_images(images, labels, p=1, levels=levels)
    step = (images.max() - images.min()) / (levels - 1)
    assert np.abs(matrix.numpy() - exact).max() <= 30 * step
    stated = distances.from_images(images, labels, p=1, levels=levels, value_range=(0, 1))
    assert np.abs(stated.numpy() - exact).max() <= 30 / (levels - 1)


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("kind", ["bytes", "floats"])
def test_standard_errors_are_right_by_simulation(p, kind):
    """Over 400 samples: the mean is unbiased, the diagonal too, and SE² is the variance."""
    rng = np.random.default_rng(3)
    sizes, m = (40, 25, 60), 15
    labels = np.repeat(np.arange(3), sizes)
    values = rng.normal(size=(125, 6)) * np.array([20, 35, 10])[labels, None] + np.array([100, 140, 128])[labels, None]
    images = values.clip(0, 255).astype(np.uint8) if kind == "bytes" else values
    truth = brute_force(images, labels, p)
    runs = [distances.from_images(images, labels, p=p, max_per_class=m, seed=s, return_error=True) for s in range(400)]
    estimates = np.stack([run[0] for run in runs])
    errors = np.stack([run[1] for run in runs])
    spread = estimates.std(axis=0)
    assert (np.abs(estimates.mean(axis=0) - truth) < 4 * spread / 20).all()
    ratio = (errors**2).mean(axis=0) / estimates.var(axis=0)
    assert ((ratio > 0.8) & (ratio < 1.35)).all(), ratio  # 400 runs pin a variance to ±7 %; s_a² is 1/m too large
    assert 0.9 < ratio.mean() < 1.2
    covered = (np.abs(estimates - truth) < 2 * errors).mean()
    assert 0.92 < covered < 0.99


def test_a_whole_class_has_no_error():
    images, labels = bytes_and_labels()
    exact = distances.from_images(images, labels)
    matrix, errors = distances.from_images(images, labels, max_per_class=1000, return_error=True)
    torch.testing.assert_close(matrix, exact, rtol=1e-13, atol=0)
    assert float(errors.max()) == 0
    matrix, errors = distances.from_images(images, labels, return_error=True)
    assert torch.equal(matrix, exact)
    assert float(errors.max()) == 0
    sizes = np.bincount(labels)
    k = int(sizes.argmin())
    matrix, errors = distances.from_images(images, labels, max_per_class=int(sizes.min()), return_error=True)
    assert float(errors[k, k]) == 0  # the smallest class is whole, the others are samples
    torch.testing.assert_close(matrix[k, k], exact[k, k], rtol=1e-13, atol=0)
    assert float(errors[0 if k else 1, k]) > 0


def test_a_single_pair_shows_no_spread():
    images, labels = bytes_and_labels()
    _, errors = distances.from_images(images, labels, max_per_class=2, return_error=True)
    assert errors.diagonal().isnan().all()
    assert (errors[~torch.eye(4, dtype=torch.bool)] > 0).all()
    matrix, errors = distances.from_images(images[:4], [0, 0, 1, 2], max_per_class=2, return_error=True)
    assert float(errors.max()) == 0  # whole classes
    assert float(matrix[1, 1]) == 0


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"p": 3}, ValueError, "`p` must be 1 or 2, got 3"),
        ({"labels": None}, TypeError, "`labels` must be given with an array of images"),
        ({"labels": [0, 1]}, ValueError, "must be as many as the samples: got 2 for 60"),
        ({"labels": np.zeros((60, 2), dtype=int)}, ValueError, r"must have shape \(N,\).*argmax"),
        ({"labels": np.full(60, 0.5)}, TypeError, "must be integers from 0 to K−1, got torch.float64"),
        ({"labels": np.array(["cat"] * 60)}, TypeError, "`labels` must hold numbers, got an array of <U3"),
        ({"labels": np.arange(60) % 4 - 1}, ValueError, "must be at least 0, got -1"),
        ({"num_classes": 3}, ValueError, "below the number of classes, 3, got 3; do the labels start at 1"),
        ({"num_classes": 6}, ValueError, "2 of 6 have none: class 4, 5"),
        ({"class_names": ["a", "b", "c", "d", "eel"]}, ValueError, r"class 4 \(eel\)"),
        ({"class_names": ["a", "b", "c", "c"]}, ValueError, "must differ, but 'c' appears at indices 2 and 3"),
        ({"class_names": ["a", "b", "c", " "]}, ValueError, "empty name, but the name at index 3 is empty"),
        ({"class_names": ["a", "b"], "num_classes": 4}, ValueError, "2 names for 4 classes"),
        ({"images": np.zeros(60)}, ValueError, r"shape \(N, …\) with at least two dimensions, got \(60,\)"),
        ({"images": np.zeros((60, 0))}, ValueError, "must hold values, got rows of length 0"),
        ({"images": object()}, TypeError, "`images` must hold numbers, got an array of object"),
        ({"images": np.zeros((0, 3)), "labels": np.zeros(0, dtype=int)}, ValueError, "must hold samples, got none"),
        ({"labels": np.zeros(60, dtype=int)}, ValueError, "at least 2 classes, got only class 0"),
        ({"max_per_class": 1}, ValueError, "`max_per_class` must be at least 2, got 1"),
        ({"max_per_class": 2.5}, TypeError, "`max_per_class` must be a whole number, got 2.5"),
        ({"levels": 1}, ValueError, "`levels` must be at least 2, got 1"),
        ({"levels": 2**17}, ValueError, "`levels` must be at most 65536"),
        ({"levels": 9, "p": 2}, ValueError, "`levels` must be left out for p=2"),
        ({"levels": 9}, ValueError, "`levels` must be left out for bytes"),
        ({"levels": 9, "value_range": (0, np.inf)}, ValueError, "must be finite"),
        (
            {"images": torch.zeros(60, 2, dtype=torch.complex64)},
            TypeError,
            "`images` must hold real numbers, got torch.complex64",
        ),
        (
            {"images": [[1, 2], [3]], "labels": [0, 1]},
            ValueError,
            "`images` must be one array, but its parts differ in shape",
        ),
        (
            {"images": [torch.zeros(2), torch.zeros(3)], "labels": [0, 1]},
            ValueError,
            "must be one array, but its parts differ",
        ),
        ({"labels": np.full(60, 10**12)}, ValueError, "from 0 to K−1, got 1000000000000; renumber ids"),
        ({"labels": np.arange(60) % 4 + 1}, ValueError, "have none: class 0; do the labels start at 1"),
        ({"images": DataLoader([1, 2])}, TypeError, "`labels` must be left out with a DataLoader"),
        ({"value_range": (0, 1)}, ValueError, "`value_range` must come with `levels`"),
        ({"levels": 9, "value_range": (1, 0)}, ValueError, "with low < high"),
    ],
)
def test_bad_input(change, error, words):
    images, labels = bytes_and_labels()
    arguments = {"images": images, "labels": labels} | change
    with pytest.raises(error, match=words):
        distances.from_images(arguments.pop("images"), arguments.pop("labels"), **arguments)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("p", [1, 2])
def test_numbers_that_are_none(bad, p):
    images, labels = np.random.default_rng(0).random((60, 5)), np.arange(60) % 4
    images[17, 2] = images[44, 0] = bad
    with pytest.raises(
        ValueError, match="`images` must be finite, but 2 rows hold NaN or infinity, the first is row 17"
    ):
        distances.from_images(images, labels, p=p)
    with pytest.raises(ValueError, match="`features` must be finite, .* the first is row 17"):
        distances.from_features([(images[:30], labels[:30]), (images[30:], labels[30:])])


def test_a_class_of_one_image_has_no_error_of_its_own():
    """The others are drawn, this one is complete: its distances have the other class's error alone."""
    rng = np.random.default_rng(3)
    labels = np.array([0] * 40 + [1])
    values = rng.normal(size=(41, 3)).astype(np.float64)
    _, error = distances.from_images(values, labels, p=2, max_per_class=8, return_error=True)
    assert bool(torch.isfinite(error[:, 1]).all())
    assert float(error[0, 1]) > 0
    assert float(error[1, 1]) == 0
