"""Batches: which rows come when, how they look, and that processes share what one would see."""

import numpy as np
import pytest
import torch

from softkin._core.randomness import key
from softkin.lab import data
from softkin.lab.data import Labelled
from softkin.lab.training import Method, Recipe, Standardisation
from softkin.lab.training.batches import Batches, Inputs, Mix, Window

CPU = torch.device("cpu")


def images(n=23, side=12, channels=3, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 256, (n, side, side, channels), dtype=np.uint8)
    return Labelled(values, rng.integers(0, 4, n), list("abcd"), "noise", "images", np.arange(n), "digest")


def batches(rows, *, rank=0, world=1, method="one-hot", **recipe):
    recipe = Recipe(**{"batch_size": 8, "augmentation": "crop-flip"} | recipe)
    return Batches(
        rows,
        Standardisation.of(rows),
        method=Method(method),
        recipe=recipe,
        seed=5,
        device=CPU,
        channels_last=True,
        rank=rank,
        world=world,
    )


def whole(loader, epoch, step):
    """A batch put together again from the parts of one process."""
    parts = list(loader.batch(loader.order(epoch), epoch, step))
    return torch.cat([part.inputs for part in parts]), torch.cat([part.targets for part in parts])


@pytest.mark.parametrize("method", ["one-hot", "mixup", "cutmix"])
@pytest.mark.parametrize(("world", "parts"), [(2, 1), (3, 2), (1, 4)])
def test_slices_of_all_processes_make_up_the_batch_of_one(method, world, parts):
    rows = images()
    first = batches(rows, method=method)
    for epoch, step in ((0, 0), (1, 2)):
        inputs, targets = whole(first, epoch, step)
        slices = [
            whole(batches(rows, rank=rank, world=world, method=method, gradient_accumulation=parts), epoch, step)
            for rank in range(world)
        ]
        torch.testing.assert_close(torch.cat([x for x, _ in slices]), inputs, rtol=0, atol=0)
        torch.testing.assert_close(torch.cat([t for _, t in slices]), targets, rtol=0, atol=0)


def test_an_epoch_has_every_row_once_in_batches_of_nearly_one_size():
    loader = batches(images(), augmentation="none")
    assert loader.steps == 3
    order = loader.order(4)
    sizes = [part.whole for step in range(3) for part in loader.batch(order, 4, step)]
    assert sorted(order) == list(range(23))
    assert sorted(sizes) == [7, 8, 8]


def test_the_order_is_the_seeds_and_the_epochs_alone():
    """Every method sees the same rows in the same places, however it mixes them."""
    first, second = batches(images()), batches(images(), method="cutmix", augmentation="none")
    assert (first.order(3) == second.order(3)).all()
    assert (first.order(3) != first.order(4)).any()
    assert key(0, "order", 1) != key(0, "order", 2) != key(1, "order", 2)


def test_inputs_are_standardised_by_exact_statistics():
    rows = images(200)
    how = Standardisation.of(rows)
    flat = rows.values.reshape(-1, 3).astype(np.float64)
    assert how.mean == pytest.approx(flat.mean(0))
    assert how.std == pytest.approx(flat.std(0))
    actual = Inputs(rows, how, device=CPU, channels_last=True).rows(np.array([3, 1]))
    expected = (rows.values[[3, 1]] - flat.mean(0)) / flat.std(0)
    np.testing.assert_allclose(actual.permute(0, 2, 3, 1).numpy(), expected, atol=1e-5)
    assert actual.is_contiguous(memory_format=torch.channels_last)
    planes = Inputs(rows, how, device=CPU, channels_last=False).rows(slice(1, 3))
    assert planes.is_contiguous()
    np.testing.assert_allclose(planes.numpy(), Inputs(rows, how, device=CPU, channels_last=True).rows(slice(1, 3)))


def test_features_are_standardised_by_column_and_word_counts_left_alone():
    rng = np.random.default_rng(0)
    features = rng.normal(3, 2, (50, 4)).astype(np.float32)
    features[:, 2] = 7
    rows = Labelled(features, np.zeros(50, np.int64), ["a", "b"], "noise", "features", np.arange(50), "")
    x = Inputs(rows, Standardisation.of(rows), device=CPU, channels_last=False).rows(slice(0, 50)).numpy()
    np.testing.assert_allclose(x.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(x.std(0), [1, 1, 0, 1], atol=1e-5)
    counts = rng.integers(0, 3, (9, 4096), dtype=np.uint8)
    rows = Labelled(counts, np.zeros(9, np.int64), ["a", "b"], "noise", "text", np.arange(9), "")
    x = Inputs(rows, Standardisation.of(rows), device=CPU, channels_last=False).rows(slice(2, 4))
    assert (x.numpy() == counts[2:4]).all()


def test_a_window_is_a_crop_of_the_padded_image_perhaps_mirrored():
    values = images(40, 6).values
    window = Window.draw("crop-flip", 40, np.random.default_rng(1))
    actual = window.of(torch.from_numpy(values)).numpy()
    for i, image in enumerate(values):
        padded = np.pad(image, ((4, 4), (4, 4), (0, 0)))
        crop = padded[window.top[i] : window.top[i] + 6, window.left[i] : window.left[i] + 6]
        assert (actual[i] == (crop[:, ::-1] if window.flip[i] else crop)).all()
    assert set(window.top) | set(window.left) == set(range(9))
    assert 5 < window.flip.sum() < 35
    assert Window.draw("none", 40, np.random.default_rng(1)) is None
    flips = Window.draw("flip", 40, np.random.default_rng(1))
    assert not flips.top.any()
    assert not flips.left.any()


def test_mixup_draws_from_its_beta_and_mixes():
    weights = [
        Mix.draw(Method("mixup", mixing=0.4), 4, (6, 6, 1), np.random.default_rng(s)).weight for s in range(4000)
    ]
    assert np.mean(weights) == pytest.approx(0.5, abs=0.02)
    assert np.var(weights) == pytest.approx(1 / (4 * (2 * 0.4 + 1)), abs=0.005)
    first, second = torch.rand(3, 2, 4, 4), torch.rand(3, 2, 4, 4)
    mixed = Mix(np.arange(3), 0.25).of(first.clone(), second)
    torch.testing.assert_close(mixed, 0.25 * first + 0.75 * second)


def test_cutmix_pastes_a_box_and_labels_by_its_area():
    for seed in range(200):
        mix = Mix.draw(Method("cutmix"), 2, (8, 10, 3), np.random.default_rng(seed))
        first, second = torch.zeros(2, 3, 8, 10), torch.ones(2, 3, 8, 10)
        assert float(mix.of(first, second).mean()) == pytest.approx(1 - mix.weight, abs=1e-6)


def test_a_memory_map_is_read_in_place(tmp_path):
    rows = images()
    np.save(tmp_path / "values.npy", rows.values)
    from dataclasses import replace

    mapped = replace(rows, values=np.load(tmp_path / "values.npy", mmap_mode="r"))
    torch.testing.assert_close(whole(batches(mapped), 0, 1)[0], whole(batches(rows), 0, 1)[0])


def test_a_batch_that_cannot_be_shared_is_refused():
    with pytest.raises(ValueError, match="a batch of 7 rows cannot be split into 8 parts, 4 processes × 2 parts"):
        batches(images(), world=4, gradient_accumulation=2)


def test_real_digits_come_out_standardised():
    split = data.split("digits", max_per_class=10)
    inputs, _ = whole(batches(split.train, batch_size=100, augmentation="none"), 0, 0)
    assert inputs.shape == (100, 1, 8, 8)
    assert float(inputs.mean()) == pytest.approx(0, abs=1e-5)
    assert float(inputs.std(correction=0)) == pytest.approx(1, abs=1e-5)
