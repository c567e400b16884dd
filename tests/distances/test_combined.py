"""Mixtures of distances, and distances from a similarity."""

import math

import pytest
import torch

from command_line import run
from softkin import distances, similarity
from softkin.losses import ClassSimilarityLoss


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
