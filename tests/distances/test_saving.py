"""Descriptions from files. Mixtures of distances, and distances from a similarity."""

import math
import re

import numpy as np
import pytest
import torch

from command_line import run
from softkin import SoftkinError, distances, similarity
from softkin.distances import ClassNames, saving
from softkin.losses import ClassSimilarityLoss


def letters(texts):
    """A toy encoder: how often each letter occurs."""
    return np.array([[text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts], dtype=float)


def test_descriptions_from_a_file(tmp_path):
    path = tmp_path / "descriptions.txt"
    path.write_text(
        "fox\ta red animal\n\ncar\ta thing with wheels\nfox\ta cousin of wolves\ntulip\ta flower\n", "utf-8"
    )
    names = ["car", "fox", "tulip"]
    measured = distances.measure("encoder", ClassNames(names, names), encoder=letters, descriptions=path)
    texts = [["a thing with wheels"], ["a red animal", "a cousin of wolves"], ["a flower"]]
    assert torch.equal(measured.matrix, distances.from_encoder(names, letters, descriptions=texts))
    assert measured.how == "class descriptions in descriptions.txt: L2 of the encoder letters"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("fox\ta\nfoks\tb\n", "line 2: 'foks' is not a class; did you mean 'fox'?"),
        ("fox a red animal\n", "line 1 must hold a class, a tab and a description, got 'fox a red animal'"),
        ("fox\t\n", "line 1 must hold a class, a tab and a description"),
        ("fox\ta red animal\n", "must describe all 2 classes, but 'car' has no description"),
    ],
)
def test_bad_descriptions(content, words, tmp_path):
    path = tmp_path / "descriptions.txt"
    path.write_text(content, "utf-8")
    with pytest.raises(SoftkinError, match=re.escape(words)):
        distances.measure("encoder", ClassNames(["fox", "car"], ["fox", "car"]), encoder=letters, descriptions=path)
    with pytest.raises(ValueError, match="`template` must be left out with `descriptions`"):
        distances.measure(
            "encoder", ClassNames(["fox", "car"], ["fox", "car"]), encoder=letters, descriptions=path, template="a {}"
        )


def random_distances(k, seed=0):
    x = torch.randn(k, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.cdist(x, x)


def test_a_mixture_knows_no_units_and_keeps_its_weights():
    a, b = random_distances(6, 1), random_distances(6, 2)
    D = distances.mixture([a, b], [0.7, 1.9])
    torch.testing.assert_close(
        similarity.from_distances(D, 1.3, asymmetric=True),
        similarity.from_distances(distances.mixture([10 * a, b + 5 - 5 * torch.eye(6)], [7, 19]), 1.3, asymmetric=True),
    )
    torch.testing.assert_close(
        similarity.from_distances(distances.mixture([a]), 1.3, asymmetric=True), similarity.from_distances(a, 1.3)
    )
    assert float(D.min()) == 0


def test_a_mixture_with_weights_from_the_command_line(capsys, tmp_path):
    names = ["fox", "wolf", "bear", "rose", "tulip", "oak"]
    (tmp_path / "names.txt").write_text("\n".join(names))
    kinds = [f"animal,{name}" for name in names[:3]] + [f"plant,{name}" for name in names[3:]]
    (tmp_path / "tree.csv").write_text("\n".join(["thing,animal", "thing,plant", *kinds]))
    mix = ("--mix", f"{tmp_path / 'tree.csv'}=0.5", "--beta", "1")
    code, _, errors = run(capsys, "similarity", tmp_path / "names.txt", *mix, "--output", tmp_path / "m")
    assert (code, errors) == (0, "")
    words, tree = distances.from_words(names), distances.from_taxonomy(tmp_path / "tree.csv", names)
    saved = distances.read(tmp_path / "m" / "distances.safetensors")
    torch.testing.assert_close(saved.values, distances.mixture([words, tree], [1, 0.5]))
    assert saved.source.startswith("1 × (class names: L2 of word vectors")
    assert saved.source.endswith(") + 0.5 × (tree.csv: taxonomy tree.csv: lca)")
    ClassSimilarityLoss.from_file(tmp_path / "m" / "distances.safetensors", names)
    for bad in ("tree.csv", "=1", "tree.csv=much", "tree.csv=-1"):
        code, _, errors = run(capsys, "similarity", tmp_path / "names.txt", "--mix", bad)
        assert code == 2
        assert "--mix" in errors


def test_a_similarity_gives_back_its_distances():
    S = similarity.from_distances(random_distances(7), 1.7)
    torch.testing.assert_close(similarity.from_distances(distances.from_similarity(S), 1.7, asymmetric=True), S)
    S[0, 1] = 0
    D = distances.from_similarity(S)
    assert float(D[0, 1]) == pytest.approx(float(D[0].topk(2).values[1]) + math.log(2))


@pytest.mark.parametrize("weights", [[0.0, 0.0], [1.0], [1.0, 2.0, 3.0]])
def test_weights_that_mix_nothing_are_refused(weights):
    with pytest.raises(ValueError, match="must be one for each of 2 matrices and not all 0"):
        distances.mixture([random_distances(4, 1), random_distances(4, 2)], weights)


def test_weights_of_a_last_layer_may_have_any_name_if_only_one_array_fits(tmp_path):
    W = np.random.default_rng(0).normal(size=(3, 4))
    np.savez(tmp_path / "w.npz", head=W, bias=np.zeros(3), images=np.zeros((3, 2, 2)))
    assert torch.equal(saving.read_weights(tmp_path / "w.npz", 3), torch.from_numpy(W))
