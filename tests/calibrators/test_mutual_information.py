"""I-Max: the groups that keep the most information."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calibration_data import drawn
from softkin.calibrators import (
    MutualInformationBinning,
)
from softkin.calibrators.mutual_information import best_groups


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=8), st.integers(2, 4))
def test_groups_keep_the_most_information(pairs, n_bins):
    pairs = [(h, max(h + miss, 1)) for h, miss in pairs]
    hits, sizes = np.array([h for h, _ in pairs], float), np.array([s for _, s in pairs], float)

    def cost(cuts):
        total = 0.0
        for a, b in itertools.pairwise([0, *cuts, len(hits)]):
            h, n = hits[a:b].sum(), sizes[a:b].sum()
            total -= sum(v * math.log(v / n) for v in (h, n - h) if v > 0)
        return total

    choices = [cuts for g in range(n_bins) for cuts in itertools.combinations(range(1, len(hits)), g)]
    groups = best_groups(hits, sizes, n_bins)
    assert len(groups) < n_bins
    assert cost(groups) == pytest.approx(min(cost(cuts) for cuts in choices), abs=1e-9)


def test_i_max_bins_and_values():
    z, y = drawn(n=500)
    cal = MutualInformationBinning(n_bins=5).fit(z, y)
    assert len(cal.values_) == 5
    assert bool((cal.values_.diff() > 0).all())
    assert bool((cal.edges_.diff() > 0).all())
    assert float(cal.values_.min()) > 0
    assert cal.certificate_.argmax_changed == 0


def test_i_max_values_by_hand():
    z = torch.tensor([[3.0, 0.0], [3.0, 0.0], [0.0, 3.0], [0.0, 0.0]], dtype=torch.float64)
    cal = MutualInformationBinning().fit(z, torch.tensor([0, 0, 1, 0]))
    p = 1 / (1 + math.exp(-3))
    # Log-odds −3 (three, no hit), 0 (two, one hit), 3 (three, all hits): each a bin, with its mean score as one more.
    assert cal.values_.tolist() == pytest.approx([(1 - p) / 4, (1 + 0.5) / 3, (3 + p) / 4])
    assert cal.edges_.tolist() == pytest.approx([0, 3])


def test_more_bins_keep_more_information(network_logits):
    z, y = (part[:3000] for part in network_logits["resnet32-cifar100"])
    after = [MutualInformationBinning(n_bins=m).fit(z, y).certificate_.nll_after for m in (2, 5, 15)]
    assert after[0] > after[1] > after[2]
