"""Labels of methods, by their gradients."""

import pytest
import torch
from torch.nn import functional as F

from softkin import distances, similarity, smoothing
from softkin.lab.training import Method
from softkin.lab.training.objectives import objective
from softkin.losses import ClassSimilarityLoss

K = 5


def some(n=7, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, K, generator=generator) * 3, torch.randint(0, K, (n,), generator=generator)


def soft_labels(alpha=0.1):
    half = torch.rand(K, K, generator=torch.Generator().manual_seed(1))
    return smoothing.similarity_labels(similarity.from_distances(half + half.T, 2.0), alpha)


def gradient(method, logits, targets):
    leaf = logits.clone().requires_grad_()
    objective(method, K)(leaf, targets).backward()
    return leaf.grad


@pytest.mark.parametrize("name", ["one-hot", "uniform", "similarity", "learned"])
def test_a_label_changes_the_gradient_as_the_formula_says(name):
    """Of a cross-entropy towards q the gradient of a sample is softmax(z) − q."""
    logits, labels = some()
    q = {
        "one-hot": torch.eye(K),
        "uniform": smoothing.uniform_labels(K, 0.1).float(),
        "similarity": soft_labels().float(),
        "learned": 0.5 * torch.eye(K) + 0.5 / K,  # the first epoch's
    }[name]
    method = Method(name, soft_labels=soft_labels() if name == "similarity" else None)
    torch.testing.assert_close(gradient(method, logits, labels), logits.softmax(1) - q[labels])


def test_learned_labels_are_the_mean_of_right_predictions():
    loss = objective(Method("learned", alpha=0.3), K)
    batches = [some(40, seed) for seed in (1, 2)]
    for logits, labels in batches:
        loss(logits, labels)
    loss.eval()
    loss(*some(40, 9))  # what is only looked at teaches nothing
    loss.end_epoch()
    logits, labels = (torch.cat(parts) for parts in zip(*batches, strict=True))
    p = logits.softmax(1)
    table = torch.stack([p[(labels == k) & (p.argmax(1) == k)].mean(0) for k in range(K)])
    q = 0.7 * torch.eye(K) + 0.3 * table
    logits, labels = some()
    torch.testing.assert_close(loss(logits, labels), -(q[labels] * logits.log_softmax(1)).sum())


def test_a_similarity_can_be_the_prior_of_learned_labels():
    s = similarity.from_distances(distances.from_order(K))
    method = Method.from_similarity(s, alpha="auto", prior_rows=4)
    assert (method.alpha, method.auto_alpha, method.prior_rows) == (0.5, None, 4)
    assert "learned labels" in method.effective_target(K)
    assert "as 4 samples" in method.effective_target(K)
    loss, expected = objective(method, K), ClassSimilarityLoss.learned(K, 0.5, prior=s, prior_rows=4, reduction="sum")
    for seed in (1, 2):
        torch.testing.assert_close(loss(*some(40, seed)), expected(*some(40, seed)))
        loss.end_epoch()
        expected.end_epoch()
    assert set(loss.learnt()) == {"soft_labels", "sums", "counts", "calls", "turned"}
    assert objective(Method.from_similarity(s, alpha=0.1), K).learnt() == {}


def test_a_class_that_was_never_right_keeps_its_row():
    loss = objective(Method("learned"), K)
    before = loss.smooth.soft_labels.clone()
    loss(-20 * F.one_hot(torch.arange(K), K).float(), torch.arange(K))  # all wrong
    loss.end_epoch()
    torch.testing.assert_close(loss.smooth.soft_labels, before)


@pytest.mark.parametrize("name", ["uniform", "similarity"])
def test_the_objective_follows_its_alpha(name):
    method = Method(name, alpha="auto", soft_labels=soft_labels(0.3) if name == "similarity" else None)
    logits, labels = some()
    loss = objective(method, K)
    assert loss.alpha == pytest.approx(0.02)
    gap = float(logits.softmax(1).amax(1).mean()) - float((logits.argmax(1) == labels).float().mean())
    loss.moving.adjust(logits, labels)
    assert loss.alpha == pytest.approx(min(0.5, max(0, 0.02 + 0.5 * gap)))
    assert 0.02 < loss.alpha < 0.5
    fixed = (
        Method(name, soft_labels=soft_labels(loss.alpha)) if name == "similarity" else Method(name, alpha=loss.alpha)
    )
    torch.testing.assert_close(loss(logits, labels), objective(fixed, K)(logits, labels))
    assert objective(method, K).alpha == pytest.approx(0.02)  # another training begins anew
    assert objective(fixed, K).moving is None
    assert objective(fixed, K).alpha is None
