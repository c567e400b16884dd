"""The border of the library: what arrays may be."""

import numpy as np
import pytest
import torch

from softkin import distances, losses, similarity
from softkin._core import checks
from softkin._core.assumption import Assumption


def test_masked_values_are_refused():
    hidden = np.ma.masked_array(np.eye(3), mask=np.eye(3) > 0)
    words = "must hold a number everywhere, but 3 entries are masked; leave those rows out first."
    with pytest.raises(ValueError, match=f"`x` {words}"):
        checks.as_tensor(hidden, "x")
    with pytest.raises(ValueError, match=f"`distances` {words}"):
        similarity.from_distances(hidden)
    with pytest.raises(ValueError, match="masked"):
        checks.class_labels(np.ma.masked_array([0, 1, 2], mask=[True, False, False]), num_samples=3, num_classes=3)
    with pytest.raises(ValueError, match="masked"):
        distances.from_images(np.ma.masked_less(np.eye(3), 0.5), np.arange(3))
    with pytest.raises(ValueError, match="masked"):
        losses.SoftLabelCrossEntropy(hidden)
    unhidden = np.ma.masked_array(np.eye(3), mask=False)
    torch.testing.assert_close(checks.as_tensor(unhidden, "x"), torch.eye(3, dtype=torch.float64))


def test_names_of_a_mapping_and_of_numbers():
    assert checks.class_names({1: "dog", 0: "cat"}) == ["cat", "dog"]  # as id2label
    assert checks.class_names({"1": "dog", "0": "cat"}) == ["cat", "dog"]  # the same out of JSON
    assert checks.class_names({"dog": 1, "cat": 0}) == ["cat", "dog"]  # as label2id
    assert checks.class_names([0, 1, np.int64(2)]) == ["0", "1", "2"]
    with pytest.raises(TypeError, match="or a mapping from 0 … K−1 to names, got a dict"):
        checks.class_names({"cat": 1, "dog": 2})


def test_whole_floats_and_numbers_among_objects():
    assert checks.count(10.0, "n_bins") == 10
    with pytest.raises(TypeError, match="must be a whole number, got 10.5"):
        checks.count(10.5, "n_bins")
    mixed = np.array([[1, 0.5], [0, 0.5]], dtype=object)
    assert checks.as_tensor(mixed, "x").tolist() == [[1.0, 0.5], [0.0, 0.5]]
    with pytest.raises(TypeError, match="must hold numbers, got an array of object"):
        checks.as_tensor(np.array([1, "a"], dtype=object), "x")


def test_groups_may_have_names():
    assert checks.group_numbers(["pet", "wild", "pet"], 3, "groups").tolist() == [0, 1, 0]


def test_rounded_rows_are_divided_by_their_sums():
    rounded = torch.tensor([[0.33, 0.33, 0.33], [0.5, 0.25, 0.25]], dtype=torch.float64)
    with pytest.warns(
        Assumption, match="were rounded: rows are divided by their sums, such as row 0, which sums to 0.99"
    ):
        p = checks.probabilities(rounded)
    assert torch.allclose(p.sum(1), torch.ones(2, dtype=torch.float64))
    with pytest.raises(ValueError, match="must have rows that sum to 1, but row 0 sums to 0.9;"):
        checks.probabilities(torch.tensor([[0.3, 0.3, 0.3], [0.5, 0.25, 0.25]], dtype=torch.float64))
