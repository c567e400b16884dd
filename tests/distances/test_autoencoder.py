import warnings

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from softkin import distances
from softkin.distances import autoencoder
from softkin.lab import models


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    return data.images[:600].astype(np.uint8), data.target[:600]


@pytest.fixture(scope="module")
def trained(digits):
    """Distances of digits and how the autoencoder came out; training is the slow part of these tests."""
    return distances.from_autoencoder(*digits, seed=3, max_epochs=16, return_details=True)


# the network


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 64, 64), (3, 9, 33), (50,)])
def test_shapes_of_codes_and_reconstructions(shape):
    network = models.autoencoder(16, shape)
    x = torch.randn(3, *shape)
    assert network.encode(x).shape == (3, 16)
    assert network(x).shape == x.shape
    network(x).square().mean().backward()


def test_convolutions_see_sixteen_pixels_of_larger_images():
    for size, block in ((8, 2), (28, 2), (32, 2), (33, 4), (64, 4)):
        assert models.autoencoder(16, (3, size, size)).g.block == block


def test_starts_at_principal_components():
    """With f = g = 0 the reconstruction is that of PCA, to rounding."""
    x = torch.randn(200, 48, generator=torch.Generator().manual_seed(0)) * torch.linspace(0.1, 3, 48)
    peer = PCA(6).fit(x.numpy())
    axes, mean = autoencoder.principal_axes(lambda most: x.split(64), 48, 6, seed=0)
    network = models.autoencoder(6, (48,))
    network.set_axes(axes.float(), mean.float())
    expected = peer.inverse_transform(peer.transform(x.numpy()))
    np.testing.assert_allclose(network(x).detach().numpy(), expected, atol=1e-4)


def test_iterated_axes_hold_nearly_the_variance_of_exact_ones(digits):
    x = torch.tensor(digits[0], dtype=torch.float32).flatten(1)

    def batches(most):
        return x[:most].split(100)

    exact, mean = autoencoder.principal_axes(batches, 64, 8, seed=0)
    actual = autoencoder._iterated(batches, mean, 8, seed=0)
    torch.testing.assert_close(actual @ actual.T, torch.eye(8, dtype=torch.float64), atol=1e-5, rtol=0)
    held = [float(((x.double() - mean) @ axes.T).square().sum()) for axes in (exact, actual)]
    assert held[0] * 0.999 < held[1] <= held[0] * (1 + 1e-6)


def test_fewer_rows_than_axes():
    axes, _ = autoencoder.principal_axes(lambda most: [torch.eye(5)], 5, 5, seed=0)
    assert axes.shape == (4, 5)


# training


def test_beats_pca_on_digits_and_says_both_errors(digits, trained):
    _, fit = trained
    assert fit.beats_pca
    assert fit.error < 0.9 * fit.pca_error
    assert fit.latent_dim == 8
    assert (fit.rows, fit.held_out) == (540, 60)
    assert str(fit).startswith("autoencoder with 8 latents: reconstruction error ")
    assert f"PCA's {100 * fit.pca_error:.2f} %" in str(fit)
    assert "does not beat" not in str(fit)
    assert min(fit.history) == pytest.approx(fit.error)


def test_pca_error_agrees_with_scikit_learn(digits, trained):
    images = digits[0].astype(np.float64)
    order = torch.randperm(600, generator=torch.Generator().manual_seed(3)).numpy()
    held_out, kept = images[order[:60]].reshape(60, -1), images[order[60:]].reshape(540, -1)
    peer = PCA(8).fit(kept)
    left = ((held_out - peer.inverse_transform(peer.transform(held_out))) ** 2).sum()
    assert trained[1].pca_error == pytest.approx(left / ((held_out - kept.mean(0)) ** 2).sum(), rel=1e-4)


def test_distances_are_those_of_the_codes(digits, trained):
    """Brute force over all pairs of classes, from the model that came back."""
    matrix, fit = trained
    x = (torch.tensor(digits[0], dtype=torch.float32)[:, None] - fit.mean) / fit.deviation
    with torch.no_grad():
        codes = fit.model.encode(x).double().numpy()
    labels = digits[1]
    for k, other in ((0, 1), (3, 8), (4, 4)):
        a, b = codes[labels == k], codes[labels == other]
        expected = np.sqrt(((a[:, None] - b[None]) ** 2).sum(-1)).mean()
        assert float(matrix[k, other]) == pytest.approx(expected, rel=1e-5)
    assert matrix.dtype == torch.float64
    assert torch.equal(matrix, matrix.T)


def test_held_out_rows_teach_nothing(digits):
    """Rows that are held out change neither the weights after an epoch nor PCA; the other rows do."""
    order = torch.randperm(600, generator=torch.Generator().manual_seed(0)).numpy()
    weights = []
    for row in (None, order[0], order[-1]):
        images = digits[0].copy()
        if row is not None:
            images[row] = 16 - images[row]
        rows = autoencoder.Rows(images, None, torch.device("cpu"))
        rows.standardise(torch.tensor(order[60:]))
        axes, _ = autoencoder.principal_axes(
            lambda most, rows=rows: (batch.flatten(1) for batch in rows.batches(torch.tensor(order[60:]), 100)),
            64,
            8,
            seed=0,
        )
        weights.append(axes)
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_same_seed_same_distances_and_no_trace_in_the_generator(digits):
    state = torch.get_rng_state()
    first, again, other = (
        distances.from_autoencoder(*digits, seed=seed, max_epochs=3, return_details=True)[0] for seed in (1, 1, 2)
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_layouts_give_the_same(digits):
    images, labels = digits[0][:100], digits[1][:100]

    def result(images, **options):
        return distances.from_autoencoder(images, labels, max_epochs=2, return_details=True, **options)[0]

    plain = result(images)
    assert torch.equal(plain, result(images[..., None]))
    assert torch.equal(plain, result(images[:, None]))
    assert torch.equal(plain, result(torch.tensor(images[:, None], dtype=torch.float32)))
    colour = np.repeat(images[..., None], 3, axis=-1)
    torch.testing.assert_close(result(colour, latent_dim=8), result(colour.transpose(0, 3, 1, 2), latent_dim=8))


def test_says_when_it_does_not_beat_pca():
    """White noise has nothing beyond linear structure to learn."""
    noise = np.random.default_rng(0).normal(size=(60, 30))
    labels = np.arange(60) % 3
    with pytest.warns(UserWarning, match="it does not beat PCA, so its codes say no more than linear ones"):
        matrix = distances.from_autoencoder(noise, labels, latent_dim=5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again, fit = distances.from_autoencoder(noise, labels, latent_dim=5, return_details=True)
    assert torch.equal(matrix, again)
    assert not fit.beats_pca
    assert fit.error == fit.pca_error, "the weights are those of the start"


def test_stops_when_the_error_has_stopped_falling():
    noise = np.random.default_rng(0).normal(size=(60, 30))
    _, fit = distances.from_autoencoder(noise, np.arange(60) % 3, latent_dim=5, patience=2, return_details=True)
    assert fit.epochs < 30
    assert fit.epochs == len(fit.history)


def test_vectors_with_structure_beat_pca():
    """Points on a curve: one number says where, PCA with one number does not."""
    generator = np.random.default_rng(0)
    t = generator.uniform(0, 2 * np.pi, 1000)
    curve = np.stack([t, np.sin(2 * t), np.cos(2 * t), np.sin(t), np.cos(t)], axis=1)
    labels = (t // 1.6).astype(int)
    _, fit = distances.from_autoencoder(curve, labels, latent_dim=1, max_epochs=20, return_details=True)
    assert fit.error < 0.7 * fit.pca_error


@pytest.mark.slow
def test_cifar_images_beat_pca(cifar100):
    images, labels, names = cifar100
    matrix, fit = distances.from_autoencoder(
        images[:1500, ::2, ::2], labels[:1500], latent_dim=64, class_names=names, max_epochs=3, return_details=True
    )
    assert matrix.shape == (100, 100)
    assert fit.beats_pca


def test_default_codes_are_the_papers():
    assert [autoencoder.default_latent_dim(shape) for shape in ((3, 32, 32), (3, 64, 64), (1, 8, 8), (4,))] == [
        256,
        1024,
        8,
        3,
    ]


# bad input


@pytest.mark.parametrize(
    ("shape", "options", "words"),
    [
        ((30, 7, 7), {}, "takes images of 8 to 64 pixels per side, got 7×7; resize them first."),
        ((30, 65, 65), {}, "takes images of 8 to 64 pixels per side, got 65×65"),
        ((30, 8, 8), {"latent_dim": 64}, "`latent_dim` must be below the 64 values of an input, got 64"),
        ((30, 8, 8), {"latent_dim": 0}, "`latent_dim` must be at least 1, got 0"),
        ((19, 8, 8), {}, "must hold at least 20 samples to train an autoencoder and test it, got 19"),
        ((30, 3, 8, 3), {}, '`channels` must be "first" or "last" for images of shape'),
        ((30, 8, 8, 5), {}, '`channels` must be "first" or "last" for images of shape'),
        ((30, 8, 8, 3), {"channels": "middle"}, "`channels` must be 'first' or 'last', got 'middle'"),
        ((30,), {}, "`images` must have shape"),
        ((30, 8, 8), {"patience": 0}, "`patience` must be at least 1, got 0"),
    ],
)
def test_bad_input_gets_one_sentence(shape, options, words):
    with pytest.raises(ValueError, match=words):
        distances.from_autoencoder(np.zeros(shape), np.arange(shape[0]) % 2, **options)


@pytest.mark.parametrize("colours", [1, 3, 4])
def test_one_three_or_four_channels_are_found(colours):
    assert autoencoder._layout((30, 8, 9, colours), None) == ("last", (colours, 8, 9))
    assert autoencoder._layout((30, colours, 8, 9), None) == ("first", (colours, 8, 9))


def test_nan_is_refused_with_its_row():
    images = np.zeros((30, 8, 8), dtype=np.float32)
    images[7, 0, 0] = np.nan
    with pytest.raises(
        ValueError, match="`images` must be finite, but 1 rows hold NaN or infinity, the first is row 7"
    ):
        distances.from_autoencoder(images, np.arange(30) % 2)


def test_constant_images_divide_nothing_by_zero():
    matrix, fit = distances.from_autoencoder(
        np.full((30, 8, 8), 7), np.arange(30) % 2, max_epochs=1, return_details=True
    )
    assert not fit.beats_pca
    assert float(matrix.abs().max()) == 0
