"""The features that come with softkin: their form, and that no row is in two parts."""

from collections import Counter

import numpy as np

from softkin import distances
from softkin.lab import data
from softkin.lab.data import loading, npz


def test_the_shipped_features_have_three_parts_that_share_no_row():
    parts = data.split("cifar100-features", progress=False)
    assert [len(part) for part in (parts.train, parts.validation, parts.test)] == [10_000, 5_000, 5_000]
    assert parts.train.input_shape == (64,)
    assert len(parts.train.class_names) == 100
    for part, each in ((parts.train, 100), (parts.validation, 50), (parts.test, 50)):
        assert (np.bincount(part.labels, minlength=100) == each).all()
        assert np.abs(part.values).max() <= 127
    assert parts.overlap == 0
    assert parts.train.source.startswith("CIFAR-100, frozen features of EfficientNet-lite0")


def test_they_are_about_a_megabyte_and_say_where_they_are_from():
    sizes = [path.stat().st_size for path in npz.FEATURES.glob("*.npz")]
    assert len(sizes) == 3
    assert sum(sizes) < 1.1e6
    notice = (npz.FEATURES / "NOTICE.txt").read_text()
    for words in ("Krizhevsky", "state no licence", "Apache License 2.0", "scripts/build_features.py"):
        assert words in notice


def test_they_have_the_super_classes_of_cifar_100():
    tree = loading.recognise("cifar100-features").tree
    lines = dict(line.split(",") for line in tree.read_text().splitlines()[1:])
    names = data.load("cifar100-features", progress=False).class_names
    assert list(lines) == names
    assert sorted(Counter(lines.values()).values()) == [5] * 20
    measured = distances.from_taxonomy(tree, names)
    place = names.index
    assert measured[place("wolf"), place("tiger")] < measured[place("wolf"), place("tulip")]
    assert "coarse labels" in (npz.FEATURES / "NOTICE.txt").read_text()
