"""The second head: its discriminant by hand, leave-one-out by leaving one out, its blend, its fallback, its file."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softkin import SoftkinError, distances, metrics, similarity
from softkin.calibrators import KinHead, TemperatureScaling, kin_head

K, D = 5, 4
S = similarity.from_distances(distances.from_order(K))


def drawn(n, seed, noise=1.0):
    """Features around centres on a line, the logits of a network that sees half of them, and labels."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(K, D, generator=torch.Generator().manual_seed(99), dtype=torch.float64)
    y = torch.cat([torch.arange(K), torch.randint(0, K, (n - K,), generator=generator)])
    x = 1.5 * centres[y] + noise * torch.randn(n, D, generator=generator, dtype=torch.float64)
    z = 3 * (x[:, :2] @ centres[:, :2].T)
    return x, z, y


@pytest.mark.parametrize("s", [None, S])
def test_the_discriminant_is_its_formula(s):
    x, _, y = drawn(60, 0)
    projection, bias = kin_head.discriminant(x, y, K, s, 0.3, 0.4)
    means = np.stack([x[y == k].mean(0) for k in range(K)])
    residual = x.numpy() - means[y]
    covariance = residual.T @ residual / (60 - K)
    shrunk = 0.7 * covariance + 0.3 * np.trace(covariance) / D * np.eye(D)
    leaning = means if s is None else 0.6 * means + 0.4 * s.numpy() @ means
    inverse = np.linalg.inv(shrunk)
    for row in x.numpy()[:5]:
        expected = [m @ inverse @ row - 0.5 * m @ inverse @ m for m in leaning]
        np.testing.assert_allclose(row @ projection.numpy() + bias.numpy(), expected, rtol=1e-9)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 99), ridge=st.sampled_from([0.1, 0.5, 1.0]), lean=st.sampled_from([0.0, 0.3]))
def test_leave_one_out_is_leaving_one_out(seed, ridge, lean):
    """With the variance of all rows, as the closed form has it."""
    x, _, y = drawn(25, seed)
    x, y = torch.cat([x, x[:1] + 9]), torch.cat([y, y[:1]])
    scores, labels = kin_head.left_out(x, y, K, S, ridge, lean)
    counts = torch.bincount(y)
    rows = [i for i in range(len(x)) if counts[y[i]] > 1]
    assert labels.tolist() == y[rows].tolist()
    *_, variance = kin_head._moments(x, y, K)
    for place, i in enumerate(rows):
        rest = torch.arange(len(x)) != i
        means = torch.stack([x[rest][y[rest] == k].mean(0) for k in range(K)])
        residual = x[rest] - means[y[rest]]
        covariance = (1 - ridge) * residual.T @ residual / (len(x) - 1 - K) + ridge * variance * torch.eye(D).double()
        leaning = (1 - lean) * means + lean * S @ means
        solved = torch.linalg.solve(covariance, leaning.T)
        expected = x[i] @ solved - 0.5 * (leaning * solved.T).sum(1)
        torch.testing.assert_close(scores[place], expected, rtol=1e-7, atol=1e-7)


def test_few_rows_gain_and_probabilities_are_the_formula():
    train, validation, test = (drawn(n, seed) for n, seed in ((100, 0), (300, 1), (2000, 2)))
    head = KinHead(S).fit(
        validation[1], validation[2], features=validation[0], train_features=train[0], train_labels=train[2]
    )
    assert not head.is_temperature
    assert head.gain_ > 0.05
    p = head.predict_proba(test[1], features=test[0])
    d = test[0] @ head.projection_ + head.bias_
    q = torch.softmax(head.sharpness_ * d, 1)
    mixed = 0.9 * q + 0.1 * q @ S + 0.001 / K
    torch.testing.assert_close(p, torch.softmax(head.own_ * test[1] + head.weight_ * mixed.log(), 1))
    scaled = TemperatureScaling().fit(validation[1], validation[2]).predict_proba(test[1])
    assert metrics.nll(p, test[2]) < metrics.nll(scaled, test[2]) - 0.05
    assert "ρ = " in repr(head)


def test_without_gain_it_is_a_temperature():
    _, z, y = drawn(300, 1)
    nothing = torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(50) % K
    noise = torch.randn(50, 3, generator=torch.Generator().manual_seed(1))
    head = KinHead().fit(z, y, features=nothing, train_features=noise, train_labels=labels)
    if not head.is_temperature:
        assert head.gain_ < 0.01
        head = KinHead().fit(
            z[:8], y[:8], features=nothing[:8], train_features=noise, train_labels=labels
        )  # too few to show a gain
    assert head.is_temperature
    rows = slice(None) if head.own_ == 1 / TemperatureScaling().fit(z, y).temperature_ else slice(0, 8)
    expected = TemperatureScaling().fit(z[rows], y[rows]).predict_proba(z)
    torch.testing.assert_close(head.predict_proba(z, features=nothing), expected)
    assert "no gain" in repr(head)


def test_numpy_and_files(tmp_path):
    train, validation = drawn(60, 0), drawn(100, 1)
    names = list("abcde")
    head = KinHead(S).fit(
        validation[1],
        validation[2],
        features=validation[0],
        train_features=train[0],
        train_labels=train[2],
        class_names=names,
    )
    head.save(tmp_path)
    loaded = KinHead.load(tmp_path)
    expected = head.predict_proba(validation[1].numpy(), features=validation[0].numpy())
    assert isinstance(expected, np.ndarray)
    again = loaded.predict_proba(validation[1].numpy(), features=validation[0])
    np.testing.assert_allclose(again, expected, rtol=1e-12)
    assert loaded.class_names_ == names
    assert repr(loaded) == repr(head)
    file = KinHead.file_in(tmp_path)
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(SoftkinError):
        KinHead.load(tmp_path)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x, z, y: KinHead(torch.eye(3) * 2), "rows that sum to 1"),
        (lambda x, z, y: KinHead(lean=0.3), "needs a `similarity`"),
        (lambda x, z, y: KinHead(ridge=2), "`ridge` must be from 0 to 1"),
        (lambda x, z, y: KinHead().predict_proba(z, features=x), "not fitted yet"),
        (
            lambda x, z, y: KinHead().fit(z, y, features=x[:3], train_features=x, train_labels=y),
            "`features` must have shape",
        ),
        (
            lambda x, z, y: KinHead().fit(z, y, features=x, train_features=x[:, :2], train_labels=y),
            "2 numbers in a row",
        ),
        (
            lambda x, z, y: KinHead().fit(z, y, features=x, train_features=x[y > 0], train_labels=y[y > 0]),
            "class 0 has no row",
        ),
        (
            lambda x, z, y: KinHead().fit(z, y, features=x, train_features=0 * x, train_labels=y),
            "must vary within classes",
        ),
        (
            lambda x, z, y: KinHead(S[:3, :3] / S[:3, :3].sum(1, True)).fit(
                z, y, features=x, train_features=x, train_labels=y
            ),
            "covers 3",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call(*drawn(30, 0))
