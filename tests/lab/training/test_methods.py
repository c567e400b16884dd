"""Training methods: their losses against brute force, their gradients against the formulas, their names."""

import re

import numpy as np
import pytest
import torch

from softkin import similarity, smoothing
from softkin.lab.training import Method
from softkin.lab.training.methods import METHODS, in_words
from softkin.lab.training.objectives import objective

K = 5


def soft_labels(alpha=0.1):
    half = torch.rand(K, K, generator=torch.Generator().manual_seed(1))
    return smoothing.similarity_labels(similarity.from_distances(half + half.T, 2.0), alpha)


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
    assert Method("learned").effective_target(3).startswith("learned labels, α = 0.5: 0.5·one-hot + 0.5·mean")


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
        ({"name": "one-hot", "alpha": 0.1}, "`alpha` is for uniform and similarity and learned and ps-kd and distilled, and the method is 'one-hot'."),
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
    assert Method.from_distances(D, beta="auto").beta == Method.from_distances(D).beta == 2  # nothing to fit it to
    assert in_words({"alpha": "auto", "beta": 2.0}) == "α = auto, β = 2"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"name": "learned", "alpha": "auto"},
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
