"""Distances in the page."""

import numpy as np
import torch

from softkin import diagrams, similarity, smoothing
from softkin.report import matrix


def test_distances_come_back_to_nine_digits_and_labels_to_1e_6():
    generator = torch.Generator().manual_seed(0)
    d = torch.rand(40, 40, dtype=torch.float64, generator=generator) * 1e3 + 5e4
    d = (d + d.T) / 2
    content = matrix.encoded(d, num_classes=40, source=None, alpha=0.1, beta=2.0, asymmetric=False)
    back = torch.from_numpy(matrix.decoded(content))
    labels = [
        smoothing.similarity_labels(similarity.from_distances(item, 10.0), 0.9) for item in (d, (back + back.T) / 2)
    ]
    assert float((labels[0] - labels[1]).abs().max()) < 1e-7
    assert sorted(content["order"]) == list(range(40))
    assert content["order"] == diagrams.clustered(similarity.from_distances(d, 2.0))


def test_equal_distances_are_encoded_too():
    content = matrix.encoded(torch.ones(4, 4), num_classes=4, source=None, alpha=0.1, beta=2.0, asymmetric=False)
    assert np.array_equal(matrix.decoded(content), 1 - np.eye(4))
