"""The loss of several labels per sample, from its formula."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from softkin import distances, similarity
from softkin.losses import ClassSimilarityLoss, MultiLabelSimilarityLoss


def rows(n=20, k=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    y = (torch.rand(n, k, generator=generator) < 0.4).long()
    y[0] = 0
    return torch.randn(n, k, generator=generator, dtype=torch.float64), y


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_by_brute_force(alpha, reduction):
    S = similarity.from_distances(distances.from_order(4))
    z, y = rows()
    expected = np.zeros((20, 4))
    for i in range(20):
        own = [k for k in range(4) if y[i, k]]
        for k in range(4):
            t = (1 - alpha) * (k in own) + (alpha * sum(float(S[j, k]) for j in own) / len(own) if own else 0)
            p = 1 / (1 + np.exp(-float(z[i, k])))
            expected[i, k] = -t * np.log(p) - (1 - t) * np.log(1 - p)
    loss = MultiLabelSimilarityLoss(S, alpha, reduction=reduction)(z, y.double())
    of = {"mean": np.mean, "sum": np.sum, "none": np.asarray}[reduction]
    np.testing.assert_allclose(loss, of(expected), rtol=1e-10)


def test_without_smoothing_it_is_torchs():
    z, y = rows()
    S, weight = similarity.from_distances(distances.from_order(4)), torch.tensor([1.0, 2.0, 0.5, 3.0])
    own = MultiLabelSimilarityLoss(S, 0.0, pos_weight=weight)(z, y)
    assert float(own) == pytest.approx(float(F.binary_cross_entropy_with_logits(z, y.double(), pos_weight=weight)))


def test_one_label_a_sample_has_the_targets_of_class_similarity():
    S = similarity.from_distances(distances.from_order(4))
    one_hot = torch.eye(4, dtype=torch.float64)
    torch.testing.assert_close(
        MultiLabelSimilarityLoss(S, 0.2).targets(one_hot), ClassSimilarityLoss(S, 0.2).soft_labels
    )


def test_gradients_and_half_precision():
    z, y = rows()
    loss_fn = MultiLabelSimilarityLoss(similarity.from_distances(distances.from_order(4)))
    z = z.requires_grad_()
    loss_fn(z, y).backward()
    torch.testing.assert_close(z.grad, (z.detach().sigmoid() - loss_fn.targets(y.double())) / z.numel())
    assert loss_fn(z.detach().bfloat16(), y).dtype == torch.bfloat16


def test_bad_input():
    loss_fn = MultiLabelSimilarityLoss(similarity.from_distances(distances.from_order(4)))
    z, y = rows()
    with pytest.raises(ValueError, match=r"`logits` and `labels` must have one shape, got \(20, 4\) and \(20,\)"):
        loss_fn(z, y[:, 0])
    with pytest.raises(ValueError, match="`labels` must be zeros and ones"):
        loss_fn(z, y + 1)
    with pytest.raises(ValueError, match=r"`labels` must have shape \(N, 4\)"):
        loss_fn(z[:, :3], y[:, :3])
