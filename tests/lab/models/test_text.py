"""A network for word counts."""

import torch

from softkin.lab import models


def test_bag_of_words_learns_and_ignores_length():
    network = models.build("bag_of_words", num_classes=3, input_shape=(4096,), seed=0)
    counts = torch.zeros(2, 4096)
    counts[:, [5, 9]] = 1
    counts[1] = 1 - counts[1]
    out = network(counts)
    assert out.shape == (2, 3)
    assert 0.05 < float(out.detach().std()) < 5
    assert torch.isfinite(network(torch.zeros(1, 4096))).all(), "a text without a known word"
