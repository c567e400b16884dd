"""The border of the library: what arrays may be."""

import numpy as np
import pytest
import torch

from softkin import distances, losses, metrics, similarity
from softkin._core import checks


def test_masked_values_are_refused():
    hidden = np.ma.masked_array(np.eye(3), mask=np.eye(3) > 0)
    words = "must hold a number everywhere, but 3 entries are masked; leave those rows out first."
    with pytest.raises(ValueError, match=f"`x` {words}"):
        checks.as_tensor(hidden, "x")
    with pytest.raises(ValueError, match=f"`distances` {words}"):
        similarity.from_distances(hidden)
    with pytest.raises(ValueError, match="masked"):
        metrics.accuracy(np.eye(3), np.ma.masked_array([0, 1, 2], mask=[True, False, False]))
    with pytest.raises(ValueError, match="masked"):
        distances.from_images(np.ma.masked_less(np.eye(3), 0.5), np.arange(3))
    with pytest.raises(ValueError, match="masked"):
        losses.SoftLabelCrossEntropy(hidden)
    unhidden = np.ma.masked_array(np.eye(3), mask=False)
    torch.testing.assert_close(checks.as_tensor(unhidden, "x"), torch.eye(3, dtype=torch.float64))
