"""Averages over members, their files, and what every kind of posterior shares."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from bayes_parts import network, rows
from softkin import SoftkinError, bayes, predictions
from softkin.lab import models
from softkin.predictions import Predictions


@given(st.integers(1, 6), st.integers(1, 5), st.integers(2, 4), st.integers(0, 10**6))
def test_the_mean_and_the_mutual_information_are_their_formulas(m, n, k, seed):
    p = np.random.default_rng(seed).dirichlet(np.ones(k), size=(m, n))
    averaged = bayes.Averaged.over(iter(torch.from_numpy(p)), keep=True)
    for i in range(n):
        mean = [sum(p[a, i, c] for a in range(m)) / m for c in range(k)]
        entropy = -sum(q * math.log(q) for q in mean)
        own = -sum(p[a, i, c] * math.log(p[a, i, c]) for a in range(m) for c in range(k)) / m
        assert averaged.probabilities[i].tolist() == pytest.approx(mean)
        assert float(averaged.mutual_information[i]) == pytest.approx(entropy - own, abs=1e-12)
    assert torch.equal(averaged.members, torch.from_numpy(p))
    again = Predictions.from_probabilities(averaged.probabilities, members=averaged.members)
    torch.testing.assert_close(again.mutual_information, averaged.mutual_information)


def test_members_go_through_files(tmp_path):
    preds = bayes.mc_dropout(network(), rows(), passes=4, members=True, class_names=["a", "b", "c"])
    torch.testing.assert_close(preds.members.mean(0), preds.probabilities)
    for name in ("p.npz", "p.safetensors"):
        preds.save(tmp_path / name)
        again = predictions.load(tmp_path / name)
        assert torch.equal(again.members, preds.members)
        assert torch.equal(again.mutual_information, preds.mutual_information)
    few = preds.take(torch.tensor([3, 1]))
    assert torch.equal(few.members, preds.members[:, [3, 1]])
    assert torch.equal(few.mutual_information, preds.mutual_information[[3, 1]])
    np.savez(tmp_path / "bad.npz", probs=preds.probabilities.numpy(), members=np.zeros((3, 4, 5)))
    with pytest.raises(SoftkinError, match=r"`members` must have shape \(40, M, 3\), got \(3, 4, 5\)"):
        predictions.load(tmp_path / "bad.npz")


def test_refusals_say_what_to_do():
    with pytest.raises(ValueError, match="must have dropout layers with p above 0, but has none"):
        bayes.mc_dropout(network(dropout=0.0), rows())
    with pytest.raises(ValueError, match="`passes` must be"):
        bayes.mc_dropout(network(), rows(), passes=0)
    with pytest.raises(ValueError, match="must give its batches again for every member, but it has ended"):
        bayes.mc_dropout(network(), iter(rows()), passes=2)
    with pytest.raises(TypeError, match="`model` must be an nn.Module, got int"):
        bayes.Swag(3)
    with pytest.raises(ValueError, match="no weights were collected yet"):
        bayes.Swag(network()).predict(rows())
    with pytest.raises(ValueError, match="batch statistics, which each member needs of its own"):
        bayes.Swag(network(norm=True)).collect().predict(rows())
    with pytest.raises(ValueError, match="call `fit` with the training rows before predicting"):
        bayes.Laplace(network()).predict(rows())
    with pytest.raises(ValueError, match="must be the output of its last nn.Linear"):
        bayes.Laplace(nn.Sequential(nn.Linear(5, 3), nn.Tanh())).fit(rows())
    with pytest.raises(ValueError, match="must end in an nn.Linear"):
        bayes.Laplace(nn.Flatten())
    shuffled = iter([rows(seed=0), rows(seed=1)])

    class Shuffling:
        def __iter__(self):
            return iter(next(shuffled))

    with pytest.raises(ValueError, match="does it shuffle"):
        bayes.mc_dropout(network(), Shuffling(), passes=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("small", (1, 8, 8)),
        ("mlp", (12,)),
        ("bag_of_words", (12,)),
        ("wrn(units=1)", (3, 8, 8)),
        ("resnet18", (3, 8, 8)),
    ],
)
def test_all_of_them_take_every_kind_of_network(name, shape):
    generator = torch.Generator().manual_seed(0)
    loader = [(torch.rand(6, *shape, generator=generator), torch.arange(6) % 3)]
    model = models.build(name, num_classes=3, input_shape=shape, seed=0, dropout=0.2)
    plain = models.build(name, num_classes=3, input_shape=shape, seed=0)
    assert sum(w.numel() for w in model.parameters()) == sum(w.numel() for w in plain.parameters())
    swag = bayes.Swag(model, samples=2, rank=1).collect()
    for preds in (
        bayes.mc_dropout(model, loader, passes=2),
        swag.predict(loader, train_loader=loader),
        bayes.Laplace(model).fit(loader).predict(loader),
        bayes.Ensemble([model, plain]).predict(loader),
    ):
        assert preds.probabilities.shape == (6, 3)


def test_all_of_them_take_mappings_as_hugging_face_has_them():
    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.dropout, self.head = nn.Embedding(20, 6), nn.Dropout(0.3), nn.Linear(6, 3)

        def forward(self, input_ids, attention_mask):
            words = self.embedding(input_ids) * attention_mask[..., None]
            return SimpleNamespace(logits=self.head(self.dropout(words.mean(1))))

    torch.manual_seed(0)
    batch = {
        "input_ids": torch.randint(0, 20, (6, 4)),
        "attention_mask": torch.ones(6, 4),
        "labels": torch.arange(6) % 3,
    }
    model, loader = Classifier(), [batch, batch]
    for preds in (
        bayes.mc_dropout(model, loader, passes=2),
        bayes.Swag(model, samples=2).collect().predict(loader, train_loader=loader),
        bayes.Laplace(model).fit(loader).predict(loader),
        bayes.Ensemble([model, Classifier()]).predict(loader),
    ):
        assert preds.probabilities.shape == (12, 3)
        assert preds.labels.tolist() == [0, 1, 2] * 4
