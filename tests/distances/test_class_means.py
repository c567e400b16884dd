"""Class means and weights of a last layer, by hand."""

import math

import pytest
import torch

from softkin import distances


def test_class_means_and_weights_by_hand():
    x = torch.randn(40, 2, 3)
    y = torch.arange(40) % 4
    D = distances.from_class_means(x, y)
    means = torch.stack([x[y == k].double().mean(dim=0).flatten() for k in range(4)])
    for i in range(4):
        for j in range(4):
            assert float(D[i, j]) == pytest.approx(float((means[i] - means[j]).norm()), abs=1e-9)
    W = torch.randn(4, 6, requires_grad=True)
    D = distances.from_weights(W)
    u = W.detach().double() - W.detach().double().mean(dim=0)
    for i in range(4):
        for j in range(4):
            cosine = float(u[i] @ u[j] / u[i].norm() / u[j].norm())
            assert float(D[i, j]) == pytest.approx(math.sqrt(max(0, 2 - 2 * cosine)), abs=1e-6)
    torch.testing.assert_close(distances.from_weights(W.detach() + 3), D, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shape", [(3,), (1, 3), (2, 3, 4)])
def test_weights_of_a_layer_are_a_matrix_of_two_classes_or_more(shape):
    with pytest.raises(ValueError, match="`weight` must have shape .K, d. with at least 2 classes"):
        distances.from_weights(torch.ones(shape))
