"""What looks wrong in distances of names is said."""

import re

import numpy as np
import pytest
import torch

from places import ROOT
from softkin import distances, similarity
from softkin.distances import WordVectors
from softkin.distances.name_doubts import disagreement, doubts, too_sharp
from softkin.distances.words import known_names
from softkin.losses import ClassSimilarityLoss

TOY = {word: np.array(vector, dtype=float) for word, vector in {
    "cat": [0, 0], "dog": [3, 4], "sea": [0, 8], "lion": [6, 0], "gas": [1, 1], "mask": [3, 3], "s": [9, 9],
}.items()}  # fmt: skip


def test_numbered_classes_are_noticed():
    for names in (["class_0", "class_1", "class_2"], ["Group A", "Group B"]):
        for vectors in (None, "glove"):
            with pytest.warns(
                UserWarning, match="names differ only by numbers or letters .*say nothing about what the"
            ):
                distances.from_words(names, vectors)
    with pytest.warns(UserWarning, match="differ only by numbers"):
        ClassSimilarityLoss.from_names([f"class_{k}" for k in range(6)], beta=0.5)
    with pytest.warns(UserWarning, match="differ only by numbers"):  # how classes without a name are called
        distances.from_words(["0", "1", "2"])
    with pytest.warns(UserWarning, match="differ only by numbers or letters"):
        distances.from_words(["a", "b", "c"])
    distances.from_words(["a", "b"], {"a": np.zeros(2), "b": np.ones(2)})
    distances.from_words(["vehicles_1", "vehicles_2", "trees"])
    distances.from_words(["class_0", "class_1"], aliases={"class_0": "cat", "class_1": "dog"})


def test_names_that_share_a_vector_are_noticed():
    expected = r"3 of 5 class names share a vector \('cat dog', 'dog cat', 'cat-dog x'\), so nothing tells .*`aliases`"
    with pytest.warns(UserWarning, match=expected):
        distances.from_words(["cat dog", "sea", "dog cat", "cat-dog x", "gas"], TOY)
    with pytest.warns(UserWarning, match=r"2 of 3 .*'meeting_schedule', 'schedule_meeting'"):
        distances.from_words(["meeting_schedule", "schedule_meeting", "weather"], "glove")
    distances.from_words(["meeting_schedule", "schedule_meeting", "weather"])  # entries of their own


def test_few_classes_are_sharp_whatever_the_distances():
    for d in ([[0, 1, 2], [1, 0, 1.1], [2, 1.1, 0]], 1 - np.eye(4) + np.diag([0.01] * 3, 1) + np.diag([0.01] * 3, -1)):
        D = torch.as_tensor(d)
        sharp = too_sharp(similarity.from_distances(D, 2.0), 2.0)
        assert f"with {len(D)} classes normalised distances are always extreme: at beta=2 the nearest class" in sharp
        milder = float(re.search(r"; beta=(\S+) keeps", sharp)[1])
        S = similarity.from_distances(D, milder)
        assert float(torch.special.entr(S).sum(1).min()) >= 0.5 * np.log(len(D) - 1)
        assert too_sharp(S, milder) == ""
    assert too_sharp(similarity.from_distances(torch.rand(5, 5), 9.0, asymmetric=True), 9.0) == ""
    assert too_sharp(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), 2.0) == ""  # two classes: there is no choice
    with pytest.warns(UserWarning, match="with 3 classes normalised distances are always extreme"):
        ClassSimilarityLoss.from_names(["cat", "dog", "car"])
    rows = distances.name_vectors(["cat", "dog", "car", "bus"])
    sparse = similarity.from_vectors(rows, 2.0, top_m=2)
    assert "with 4 classes" in too_sharp(sparse, 2.0)


FLOWERS = ["dolphin", "seal", "rose", "tulip", "truck", "bus"]


def test_a_near_class_that_no_other_source_sees_is_noticed():
    glove = similarity.from_distances(distances.from_words(FLOWERS[:4], "glove"))
    expected = "is near neither in WordNet nor in other word vectors: 'seal' for 'rose', 'dolphin' for 'tulip'; if"
    assert expected in disagreement(FLOWERS[:4], glove, vectors="glove")
    six = similarity.from_distances(distances.from_words(FLOWERS, "glove"))
    assert expected in disagreement(FLOWERS, six, vectors="glove")  # of five others only the nearest counts as near
    assert doubts(FLOWERS, similarity.from_distances(distances.from_words(FLOWERS)), 2.0) == []
    # WordNet agrees: all of these are animals; it does not know the first of these: nobody is asked
    S = torch.tensor([[0, 1, 0], [1, 0, 0], [0.5, 0.5, 0]], dtype=torch.float64)
    assert disagreement(["dolphin", "spider", "wolf"], S) == ""
    assert disagreement(["qqqzz", "spider", "wolf"], S, vectors={}) == ""
    assert "'television' for 'wolf'" in disagreement(["wolf", "television", "fox"], S, vectors="glove")
    assert disagreement([["fox", "vulpes"], ["tv"], ["wolf"]], S, aliases={"tv": "wolf"}, vectors={}) == ""
    rows = similarity.from_vectors(torch.tensor([[0.0, 0], [0, 1], [3, 0], [9, 9]]), 4.0, top_m=2)
    assert "'television' for 'tulip'" in disagreement(["tulip", "television", "wolf", "rose"], rows, vectors="glove")


def test_a_tank_is_no_fish_to_other_sources():
    names = (ROOT / "examples" / "cifar100.txt").read_text().split()
    S = similarity.from_distances(distances.from_words(names))
    assert "vectors: 'aquarium_fish' for 'tank'; if" in disagreement(names, S)


def test_a_source_that_lacks_one_name_is_asked_about_the_others():
    names = ["book_flight", "flight_status", "401k", "weather", "calories", "timer"]
    S = torch.full((6, 6), 0.1).fill_diagonal_(0)
    S[[0, 1], [1, 0]] = 0.6  # no things of one kind in WordNet, but GloVe has the common word
    S[3:, 2] = 0.6
    assert known_names(names, WordVectors.shipped("glove")) == [0, 1, 3, 4, 5]
    sentence = disagreement(names, S)
    assert "'book_flight'" not in sentence
    assert known_names(names, WordVectors.shipped("glove"), aliases={"401K": "pension"}) == [0, 1, 2, 3, 4, 5]
