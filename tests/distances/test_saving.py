"""Descriptions from files."""

import re

import numpy as np
import pytest
import torch

from softkin import SoftkinError, distances
from softkin.distances import ClassNames


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
