"""Trees of kinds of classes, by hand and from names."""

import csv

import pytest
import torch

from softkin import decisions, distances
from softkin.decisions import Tree

NAMES = ["cat", "dog", "rose", "oak", "car"]


EDGES = [
    ("thing", "living"), ("living", "animal"), ("animal", "mammal"), ("mammal", "cat"), ("mammal", "dog"),
    ("living", "plant"), ("plant", "rose"), ("plant", "oak"), ("thing", "machine"), ("machine", "car"),
    ("animal", "fish"), ("root", "thing"),
]  # fmt: skip


def test_a_taxonomy_by_hand():
    tree = Tree.from_edges(EDGES, NAMES)
    assert tree.names == (
        *NAMES,
        "mammal",
        "plant",
        "living",
        "thing",
    )  # animal = mammal, root = thing: the lower names
    assert tree.parents == (5, 5, 6, 6, 8, 7, 7, 8, -1)
    assert [tree.names[node] for node in tree.ancestors(0)] == ["mammal", "living", "thing"]
    assert tree.leaves.tolist() == [1, 1, 1, 1, 1, 2, 2, 4, 5]
    assert tree.heights.tolist() == [0, 0, 0, 0, 0, 1, 1, 2, 3]
    assert tree.paths.tolist() == [[0, 5, 7], [1, 5, 7], [2, 6, 7], [3, 6, 7], [4, 4, 4]]
    assert tree.members[7].tolist() == [True, True, True, True, False]


def test_a_class_that_others_lie_below_stays_a_class():
    tree = Tree.from_edges([("animal", "dog"), ("dog", "poodle"), ("animal", "cat")], ["dog", "poodle", "cat"])
    assert tree.names == ("dog", "poodle", "cat", "dog", "animal")
    assert tree.parents == (3, 3, 4, 4, -1)


def test_superclasses_by_number_and_by_name():
    by_number = Tree.from_superclasses([0, 0, 1, 1, 2], class_names=NAMES, names=["animal", "plant", "machine"])
    by_name = Tree.from_superclasses(
        {"cat": "animal", "dog": "animal", "rose": "plant", "oak": "plant", "car": "machine"}, class_names=NAMES
    )
    assert by_number.parents == by_name.parents == (5, 5, 6, 6, 7, 7, 7, -1)
    assert by_number.names == by_name.names == (*NAMES, "animal", "plant", "everything")
    assert Tree.from_superclasses([0, 0, 1]).names == ("0", "1", "2", "0 or 1", "everything")
    assert Tree.flat(3).parents == (3, 3, 3, -1)


def test_a_tree_from_names_alone():
    tree = Tree.from_distances(distances.from_words(NAMES), class_names=NAMES)
    assert len(tree) == 2 * 5 - 1
    assert "cat or dog" in tree.names
    assert "rose or oak" in tree.names
    d = torch.tensor([[0.0, 1, 5, 6], [1, 0, 5, 6], [5, 5, 0, 2], [6, 6, 2, 0]])
    assert Tree.from_distances(d).parents == (4, 4, 5, 5, 6, 6, -1)


def test_the_taxonomy_of_cifar_100(shared_data, cifar100):
    lines = list(csv.reader((shared_data / "taxonomy" / "cifar100-parent-child.csv").read_text().splitlines()))[1:]
    names = cifar100[2]
    tree = Tree.from_edges([(parent, child) for parent, child in lines], names)
    above = {child: parent for parent, child in lines}
    for k, name in enumerate(names):
        chain = []
        while name in above:
            name = above[name]
            chain.append(name)
        kept = [tree.names[node] for node in tree.ancestors(k)]
        assert [name for name in chain if name in kept] == kept
    for node in range(len(tree)):
        inside = {k for k in range(100) if node == k or node in tree.ancestors(k)}
        assert set(tree.members[node].nonzero()[:, 0].tolist()) == inside


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Tree.from_edges(EDGES, [*NAMES, "whale"]), "`edges` must reach every class, but 'whale' is not in it"),
        (lambda: Tree.from_edges([*EDGES, ("plant", "cat")], NAMES), "must give each node one parent, but 'cat' lies below 'mammal' and 'plant'"),
        (lambda: Tree.from_edges([("a", "b"), ("b", "a")], ["a", "b"]), "`edges` must have no cycle, but 'a' is below 'b' is below 'a'"),
        (lambda: Tree.from_edges(["ab"], ["a", "b"]), "`edges` must be \\(parent, child\\) pairs of names, got 'ab' at index 0"),
        (lambda: Tree.from_superclasses({"cat": "animal"}, class_names=NAMES), "`superclasses` must have every class, but 'dog' is not among them"),
        (lambda: Tree.from_superclasses([0, 2]), "must use every number from 0 to 2, but group 0 has no class|must use every number"),
        (lambda: Tree.from_superclasses([0, 1], names=["a"]), "`names` must name each of the 2 super-classes, got 1"),
        (lambda: Tree.from_distances([[0.0, 1.0], [2.0, 0.0]]), "`distances` must be symmetric"),
        (lambda: Tree((2, 2), ("a", "b"), 2), "a tree must have at least 2 classes, a root"),
        (lambda: decisions.Climb("animals"), "`tree` must be a Tree, such as Tree.from_superclasses"),
    ],
)  # fmt: skip
def test_trees_that_cannot_be(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


def test_two_classes_make_a_tree():
    tree = Tree((2, 2, -1), ("a", "b", "root"), 2)
    assert tree.num_classes == 2
