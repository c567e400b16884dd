"""Mixed samples and their labels."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from softkin import similarity, smoothing
from softkin.lab.training import Method
from softkin.lab.training.objectives import objective
from softkin.lab.training.objectives.penalties import mixed_targets

K = 5


def some(n=7, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, K, generator=generator) * 3, torch.randint(0, K, (n,), generator=generator)


def soft_labels(alpha=0.1):
    half = torch.rand(K, K, generator=torch.Generator().manual_seed(1))
    return smoothing.similarity_labels(similarity.from_distances(half + half.T, 2.0), alpha)


@given(st.floats(0, 1), st.sampled_from(["one-hot", "uniform", "similarity", "focal", "learned"]))
def test_mixed_labels_mix_the_losses(weight, name):
    """Every one of these losses is linear in its target."""
    logits, first = some(seed=1)
    second = first.roll(1)
    method = Method(f"{name}+mixup", soft_labels=soft_labels() if name == "similarity" else None)
    loss = objective(method, K)
    mixed = loss(logits, mixed_targets(first, second, weight, K))
    torch.testing.assert_close(mixed, weight * loss(logits, first) + (1 - weight) * loss(logits, second))


def test_mixed_targets_add_up_where_both_are_one_class():
    rows = mixed_targets(torch.tensor([0, 2]), torch.tensor([1, 2]), 0.7, 3)
    torch.testing.assert_close(rows, torch.tensor([[0.7, 0.3, 0.0], [0.0, 0.0, 1.0]]))
