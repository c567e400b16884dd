"""Training methods: their losses against brute force, their gradients against the formulas, their names."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from softkin import distances, similarity, smoothing
from softkin.lab import data
from softkin.lab.training import Method, class_distances
from softkin.lab.training.methods import METHODS, in_words
from softkin.lab.training.objectives import objective
from softkin.lab.training.objectives.mixing import mixed_targets
from softkin.lab.training.objectives.penalties import focal_loss

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


@pytest.mark.parametrize("name", ["one-hot", "uniform", "similarity", "online"])
def test_a_label_changes_the_gradient_as_the_formula_says(name):
    """Of a cross-entropy towards q the gradient of a sample is softmax(z) − q."""
    logits, labels = some()
    q = {
        "one-hot": torch.eye(K),
        "uniform": smoothing.uniform_labels(K, 0.1).float(),
        "similarity": soft_labels().float(),
        "online": 0.5 * torch.eye(K) + 0.5 / K,  # the first epoch's
    }[name]
    method = Method(name, soft_labels=soft_labels() if name == "similarity" else None)
    torch.testing.assert_close(gradient(method, logits, labels), logits.softmax(1) - q[labels])


@given(st.floats(0, 1), st.sampled_from(["one-hot", "uniform", "similarity", "focal", "online"]))
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


def test_the_focal_loss_is_its_formula():
    logits, labels = some()
    p = logits.double().softmax(1).numpy()
    brute = sum(-((1 - p[i, y]) ** 2.5) * np.log(p[i, y]) for i, y in enumerate(labels.tolist()))
    assert float(objective(Method("focal", gamma=2.5), K)(logits, labels)) == pytest.approx(brute, rel=1e-5)
    plain = F.cross_entropy(logits, labels, reduction="sum")
    torch.testing.assert_close(objective(Method("focal", gamma=0), K)(logits, labels), plain)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 3.0])
def test_the_focal_loss_of_a_certain_sample_has_a_gradient(gamma):
    z = torch.tensor([[200.0, 0.0, 0.0]], requires_grad=True)
    for targets in (torch.tensor([0]), torch.tensor([[1.0, 0.0, 0.0]])):
        loss = focal_loss(z, targets, gamma=gamma)
        (gradient,) = torch.autograd.grad(loss, z)
        assert torch.equal(gradient, torch.zeros(1, 3))
        assert loss.item() == 0


def test_the_margin_loss_is_its_formula():
    logits, labels = some()
    z = logits.double().numpy()
    excess = sum(np.mean([max(0.0, row.max() - value - 2.0) for value in row]) for row in z)
    plain = float(F.cross_entropy(logits.double(), labels, reduction="sum"))
    loss = objective(Method("margin", margin=2.0, penalty=0.3), K)(logits, labels)
    assert float(loss) == pytest.approx(plain + 0.3 * excess, rel=1e-5)
    wide = objective(Method("margin", margin=1e6), K)(logits, labels)
    assert float(wide) == pytest.approx(plain, rel=1e-5)


def test_the_online_table_is_the_mean_of_right_predictions():
    loss = objective(Method("online", alpha=0.3), K)
    batches = [some(40, seed) for seed in (1, 2)]
    for logits, labels in batches:
        loss(logits, labels)
    loss.eval()
    loss(*some(40, 9))  # what is only looked at teaches nothing
    loss.end_epoch()
    logits, labels = (torch.cat(parts) for parts in zip(*batches, strict=True))
    p = logits.softmax(1)
    for k in range(K):
        mine = p[(labels == k) & (p.argmax(1) == k)]
        torch.testing.assert_close(loss.table[k], mine.mean(0))
    logits, labels = some()
    q = 0.7 * torch.eye(K) + 0.3 * loss.table
    torch.testing.assert_close(loss(logits, labels), -(q[labels] * logits.log_softmax(1)).sum())


def test_a_class_that_was_never_right_keeps_its_row():
    loss = objective(Method("online"), K)
    loss(-20 * F.one_hot(torch.arange(K), K).float(), torch.arange(K))  # all wrong
    loss.end_epoch()
    torch.testing.assert_close(loss.table, torch.full((K, K), 1 / K))


def test_the_effective_target_is_stated():
    assert Method("one-hot").effective_target(10) == "one-hot labels"
    assert (
        Method("uniform+cutmix", alpha=0.2).effective_target(4)
        == "uniform smoothing, α = 0.2: 0.85 on the true class, 0.05 on each of the 3 others; a rectangle of a second "
        "sample pasted in, labels by area, area kept ~ Beta(1, 1)"
    )
    method = Method.from_distances(torch.rand(4, 4), alpha=0.1, beta=3, mix="mixup", distance="l1", asymmetric=True)
    assert method.name == "similarity+mixup"
    assert method.effective_target(4) == (
        "class-similarity smoothing, α = 0.1, β = 3, distance l1: 0.9 on the true class, 0.1 shared among the 3 others "
        "by similarity; two samples mixed, λ·first + (1−λ)·second, λ ~ Beta(0.2, 0.2)"
    )
    assert Method("focal").effective_target(3) == "one-hot labels, the loss of a sample times (1−p)^3"
    assert "plus 0.1·mean over classes of max(0, highest logit − logit − 10)" in Method("margin").effective_target(3)
    assert Method("online").effective_target(3).startswith("online smoothing, α = 0.5: 0.5·one-hot + 0.5·mean")


def test_the_record_says_what_is_set_and_no_more():
    assert Method("one-hot").to_dict() == {"name": "one-hot"}
    assert Method("mixup").to_dict() == {"name": "mixup", "mixing": 0.2}
    record = Method("similarity", soft_labels=soft_labels(), beta=2.0, distance="words").to_dict()
    assert record["alpha"] == pytest.approx(0.1)
    assert len(record["soft_labels"]) == 64
    other = Method("similarity", soft_labels=soft_labels(0.2)).to_dict()
    assert other["soft_labels"] != record["soft_labels"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "unifrom"}, "got 'unifrom'; did you mean 'uniform'?"),
        ({"name": "uniform+focal"}, "at most one way to label and one way to mix, got 'uniform+focal'."),
        ({"name": "one-hot", "alpha": 0.1}, "`alpha` is for uniform and similarity and online and distilled, and the method is 'one-hot'."),
        ({"name": "mixup", "alpha": 0.1}, "the method is 'mixup'; name it 'uniform+mixup' to smooth as well."),
        ({"name": "uniform", "gamma": 2.0}, "`gamma` is for focal and dual-focal, and the method is 'uniform'."),
        ({"name": "uniform", "alpha": 1.0}, "`alpha` must be at least 0 and below 1, got 1"),
        ({"name": "mixup", "mixing": 0.0}, "`mixing` must be above 0, got 0"),
        ({"name": "similarity"}, "the method 'similarity' needs `soft_labels` (K, K), as Method.from_distances makes them."),
        ({"name": "uniform", "soft_labels": torch.eye(3)}, "the method 'uniform' takes no `soft_labels`."),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(arguments, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        Method(**arguments)


def test_a_matrix_for_other_classes_is_refused():
    with pytest.raises(ValueError, match="`soft_labels` cover 5 classes but the data have 7; was the matrix made for"):
        objective(Method("similarity", soft_labels=soft_labels()), 7)


@pytest.fixture(scope="module")
def digits():
    return data.split("digits", max_per_class=10).train


def test_names_are_the_functions_of_distances(digits):
    images = torch.from_numpy(digits.values)
    for name, p in (("l1", 1), ("l2", 2)):
        expected = distances.from_images(images, digits.labels, p=p)
        torch.testing.assert_close(class_distances(digits, name), expected)
    for name in ("words", "we"):
        torch.testing.assert_close(class_distances(digits, name), distances.from_words(digits.class_names))


def test_a_file_is_put_in_the_order_of_the_data(digits, tmp_path):
    whole = class_distances(digits, "l2")
    order = torch.randperm(10)
    names = [digits.class_names[k] for k in order.tolist()]
    distances.save(tmp_path / "d.safetensors", whole[order][:, order], class_names=names, source="a test")
    torch.testing.assert_close(class_distances(digits, tmp_path / "d.safetensors"), whole)
    torch.testing.assert_close(class_distances(digits, whole), whole.clone().fill_diagonal_(0))


def test_synonyms_count_as_one_name(digits):
    names = ["tabby, tabby cat", "dog", "qqqzz, car"]
    named = replace(digits, class_names=names)
    expected = distances.from_words(["tabby", "dog", "car"])
    torch.testing.assert_close(class_distances(named, "words"), expected)


def test_unknown_distances_are_refused(digits):
    with pytest.raises(
        ValueError,
        match="`distance` must be one of l1, l2, autoencoder, words, .*, file, or a .safetensors, .csv, .tsv, .json, .yaml or .yml file, got 'word'; did you mean 'words'?",
    ):
        class_distances(digits, "word")
    with pytest.raises(ValueError, match="`distance` covers 3 classes but the data have 10"):
        class_distances(digits, torch.zeros(3, 3))
    with pytest.raises(
        TypeError, match="`latent_dim` must be left out for the distance 'l1': it is an option of autoencoder."
    ):
        class_distances(digits, "l1", latent_dim=3)


# α that moves, and the m most similar classes


def test_an_alpha_that_moves_is_stated_and_kept_as_such():
    uniform = Method("uniform+mixup", alpha="auto")
    assert uniform.to_dict() == {"name": "uniform+mixup", "alpha": "auto", "mixing": 0.2}
    assert repr(uniform) == "Method('uniform+mixup', alpha='auto', mixing=0.2)"
    assert uniform.effective_target(10).startswith(
        "uniform smoothing, α from 0.02 on, moved by 0.5·(mean confidence − accuracy) at each validation, shared among "
        "all 10 classes; two samples mixed"
    )
    D = np.abs(np.arange(5)[:, None] - np.arange(5)) + 0.0
    similar = Method.from_distances(D, alpha="auto", beta=3.0, top_m=2, distance="l2")
    assert {**similar.to_dict(), "soft_labels": None} == {
        "name": "similarity",
        "alpha": "auto",
        "beta": 3.0,
        "top_m": 2,
        "distance": "l2",
        "soft_labels": None,
    }
    assert similar.effective_target(5).startswith(
        "class-similarity smoothing, α = auto, β = 3, top-m = 2, distance l2: α "
    )
    sparse = similarity.from_distances(D, 3.0, top_m=2)
    torch.testing.assert_close(similar.soft_labels, smoothing.similarity_labels(sparse, 0.02).dense())
    assert Method.from_distances(D, beta="auto").beta == 1  # for names alone
    assert in_words({"alpha": "auto", "beta": 2.0}) == "α = auto, β = 2"


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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"name": "online", "alpha": "auto"},
            "`alpha` must be a number, or 'auto' for uniform and similarity, got 'auto'",
        ),
        (
            {"name": "uniform", "alpha": "best"},
            "`alpha` must be a number, or 'auto' for uniform and similarity, got 'best'",
        ),
        ({"name": "mixup", "mixing": "auto"}, "`mixing` must be a number, got 'auto'"),
        ({"name": "uniform", "top_m": 5}, "`top_m` is for similarity, and the method is 'uniform'"),
    ],
)
def test_what_cannot_move_is_refused(arguments, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        Method(**arguments)


def test_a_method_is_known_by_what_tables_call_it():
    assert METHODS.canonical("cals", "method") == "class-adaptive"
