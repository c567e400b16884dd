"""L1 distances by counting: one far value takes no digit from the others."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from softkin import distances
from softkin.distances.histograms import row_sums


def brute_force(values, labels):
    """Mean L1 over all pairs, in integers and fractions of Python: no rounding until the end."""
    from fractions import Fraction

    rows = [[Fraction(float(v)) for v in row] for row in values]
    classes = range(int(labels.max()) + 1)
    members = [[row for row, label in zip(rows, labels, strict=True) if label == k] for k in classes]
    return [
        [
            float(
                sum(abs(a - b) for x in members[k] for y in members[other] for a, b in zip(x, y, strict=True))
                / (len(members[k]) * len(members[other]))
            )
            for other in classes
        ]
        for k in classes
    ]


@pytest.mark.parametrize("far", [1e12, -3.4028234e38, 1e-12, 3e300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_constant_far_pixel_changes_nothing(far, dtype):
    if abs(far) > 1e39 and dtype == np.float32:
        pytest.skip("no float32")
    rng = np.random.default_rng(0)
    labels = np.arange(30) % 3
    near = (rng.integers(0, 5, size=(30, 4)) / 4 + labels[:, None]).astype(dtype)
    values = np.concatenate([near, np.full((30, 1), far, dtype)], axis=1)
    expected = brute_force(near, labels)
    for given_values in (near, values):
        found, error = distances.from_images(given_values, labels, p=1, return_error=True)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert float(error.max()) < 1
    stream = [(torch.from_numpy(values[i : i + 7]), torch.from_numpy(labels[i : i + 7])) for i in range(0, 30, 7)]
    np.testing.assert_allclose(distances.from_images(stream, p=1), expected, rtol=1e-12)


@given(
    st.lists(st.sampled_from([0.0, 1.0, 0.5, -2.0, 1e9, -1e12, 1e-9, 3.0]), min_size=18, max_size=18),
)
def test_any_few_values_are_the_brute_force(values):
    values, labels = np.array(values).reshape(9, 2), np.arange(9) % 3
    np.testing.assert_allclose(distances.from_images(values, labels, p=1), brute_force(values, labels), rtol=1e-12)


def test_row_sums_are_the_distances_from_each_row_to_each_class():
    """With and without gaps of different widths, in integers."""
    rng = np.random.default_rng(2)
    levels, width, labels = 5, 3, torch.tensor([0, 0, 0, 1, 1])
    codes = torch.from_numpy(rng.integers(0, levels, size=(5, width)))
    state = torch.zeros(2, width, levels, dtype=torch.int32)
    for row, label in zip(codes, labels, strict=True):
        state[label, torch.arange(width), row] += 1
    for gaps in (None, torch.tensor([1.0, 3.0, 0.5, 7.0], dtype=torch.float64)):
        places = torch.cat([torch.zeros(1), (torch.ones(levels - 1) if gaps is None else gaps).cumsum(0)]).double()
        values = places[codes]
        expected = [[float((row - values[labels == k]).abs().sum()) for k in (0, 1)] for row in values]
        assert row_sums(state, torch.tensor([3, 2]), gaps, codes).tolist() == expected
