"""Smooth labels as buffers: types, states, changes."""

import copy
import io

import numpy as np
import pytest
import torch
from torch import nn

from softkin import similarity, smoothing
from softkin.losses import ClassSimilarityLoss, SoftLabelCrossEntropy

K = 7


def some_labels(k=K, alpha=0.1, seed=0):
    D = np.random.default_rng(seed).random((k, k))
    return smoothing.similarity_labels(similarity.from_distances(D + D.T), alpha)


def sparse_labels(k=K, alpha=0.1, m=3, seed=0):
    V = np.random.default_rng(seed).normal(size=(k, 4))
    return smoothing.similarity_labels(similarity.from_vectors(V, top_m=m), alpha)


def test_casting_the_module_does_not_round_the_labels():
    Q = some_labels()
    loss_fn = SoftLabelCrossEntropy(Q, weight=torch.rand(K))
    for cast in (
        loss_fn.half(),
        loss_fn.bfloat16(),
        loss_fn.to(torch.float16),
        loss_fn.float(),
        nn.Sequential(loss_fn).half()[0],
    ):
        assert torch.equal(cast.soft_labels, Q)
        assert cast.weight.dtype == torch.float64
    assert loss_fn.to("meta").soft_labels.device.type == "meta"
    assert loss_fn.soft_labels.dtype == torch.float64


@pytest.mark.parametrize("make", [some_labels, sparse_labels])
def test_state_dict_and_copies(make):
    loss_fn = SoftLabelCrossEntropy(make(seed=1), weight=torch.rand(K), persistent=True)
    other = SoftLabelCrossEntropy(make(seed=2), weight=torch.rand(K), persistent=True)
    logits, targets = torch.randn(5, K), torch.arange(5)
    assert loss_fn(logits, targets) != other(logits, targets)
    buffer = io.BytesIO()
    torch.save(loss_fn.state_dict(), buffer)
    buffer.seek(0)
    other.load_state_dict(torch.load(buffer, weights_only=True))
    assert loss_fn(logits, targets) == other(logits, targets)
    assert copy.deepcopy(loss_fn)(logits, targets) == loss_fn(logits, targets)
    assert len(list(loss_fn.parameters())) == 0


@pytest.mark.parametrize("make", [some_labels, sparse_labels])
def test_checkpoints_load_strictly_with_and_without_the_labels(make):
    def model(loss_fn):
        return torch.nn.ModuleDict({"body": torch.nn.Linear(2, K), "loss": loss_fn})

    plain = model(torch.nn.CrossEntropyLoss())
    ours = model(SoftLabelCrossEntropy(make(seed=1)))
    kept = model(SoftLabelCrossEntropy(make(seed=2), persistent=True))
    assert ours.state_dict().keys() == plain.state_dict().keys() < kept.state_dict().keys()
    for loaded in (plain, ours, kept):
        for saved in (plain, ours):
            loaded.load_state_dict(saved.state_dict(), strict=True)
    logits, targets = torch.randn(5, K), torch.arange(5)
    assert ours["loss"](logits, targets) != kept["loss"](logits, targets)
    for strict in (True, False):
        ours = model(SoftLabelCrossEntropy(make(seed=1)))
        ours.load_state_dict(kept.state_dict(), strict=strict)  # as earlier versions wrote it
        assert ours["loss"](logits, targets) == kept["loss"](logits, targets)
    with pytest.raises(RuntimeError, match="Unexpected key"):
        ours.load_state_dict({**ours.state_dict(), "loss.other": torch.zeros(1)})
    with pytest.raises(RuntimeError, match="size mismatch for loss.*trained on other classes"):
        model(SoftLabelCrossEntropy(make(k=K + 1))).load_state_dict(kept.state_dict())
    weighted = SoftLabelCrossEntropy(make(), weight=torch.rand(K))
    assert weighted.state_dict().keys() == torch.nn.CrossEntropyLoss(weight=torch.rand(K)).state_dict().keys()


def test_labels_that_are_changed_are_used_and_the_caller_s_stay_apart():
    Q, other, weight = some_labels(seed=1), some_labels(seed=2), torch.rand(K, dtype=torch.float64)
    loss_fn = SoftLabelCrossEntropy(Q, weight=weight)
    logits, targets = torch.randn(5, K), torch.arange(5)
    first = loss_fn(logits, targets)
    Q.zero_()
    weight.mul_(5)
    assert loss_fn(logits, targets) == first
    loss_fn.soft_labels = other.clone()
    second = loss_fn(logits, targets)
    assert second == SoftLabelCrossEntropy(other, weight=weight / 5)(logits, targets)
    loss_fn.soft_labels.copy_(some_labels(seed=3))
    assert loss_fn(logits, targets) not in (first, second)
    for seed in range(20):  # a tensor between two calls may leave its place in memory to the next
        loss_fn.soft_labels = some_labels(seed=100 + seed)
        loss_fn.soft_labels = some_labels(seed=seed)
        assert loss_fn(logits, targets) == SoftLabelCrossEntropy(some_labels(seed=seed), weight=weight / 5)(
            logits, targets
        )
    smooth = ClassSimilarityLoss.from_distances(torch.ones(K, K), alpha=0.5)
    saved = ClassSimilarityLoss.from_distances(torch.ones(K, K), alpha=0.1, persistent=True).state_dict()
    smooth.load_state_dict(saved)
    assert smooth.alpha == pytest.approx(0.1)
