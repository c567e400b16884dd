"""What must not change a calibrator's probabilities: the order of samples, the names of classes, a shift, a float width."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from calibration_data import BY_FOLDS, MAKERS

few = settings(max_examples=3, deadline=None)


@st.composite
def samples(draw):
    """Logits that float16 holds exactly, as do their sums with small whole numbers; labels drawn at a temperature."""
    k = draw(st.integers(2, 4))
    n = draw(st.integers(20, 60))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    z = torch.randn(n, k, generator=generator, dtype=torch.float64).mul(128).round().div(64)
    factor = draw(st.sampled_from([0.5, 1.0, 3.0]))
    y = torch.multinomial(torch.softmax(z / factor, dim=1), 1, generator=generator)[:, 0]
    return z, y, generator


def calibrated(make, z, y, at):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of 20 samples
        return torch.as_tensor(make().fit(z, y).predict_proba(at)).double()


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
@few
@given(samples())
def test_what_must_not_matter(name, sample):
    make = MAKERS[name]
    z, y, generator = sample
    n, k = z.shape
    if name == "spline":  # which calibrates the winner: of two equal ones that is the first
        assume(bool((z.topk(2, dim=1).values.diff(dim=1) != 0).all()))
    p = calibrated(make, z, y, z)
    classes = torch.randperm(k, generator=generator)
    renamed = calibrated(make, z[:, classes], torch.argsort(classes)[y], z[:, classes])
    torch.testing.assert_close(renamed, p[:, classes], atol=1e-5, rtol=0)
    if name not in BY_FOLDS:  # folds are by place
        order = torch.randperm(n, generator=generator)
        torch.testing.assert_close(calibrated(make, z[order], y[order], z), p, atol=1e-5, rtol=0)
    if make().is_shift_invariant():
        shift = torch.randint(-8, 9, (n, 1), generator=generator)
        torch.testing.assert_close(calibrated(make, z + shift, y, z - 5), p, atol=1e-5, rtol=0)
    for low in (z.half(), z.float(), z.numpy().astype(np.float32)):
        torch.testing.assert_close(calibrated(make, low, y, low), p, atol=1e-6, rtol=0)
