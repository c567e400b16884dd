"""Taxonomies: distances in trees and graphs, their files, and WordNet."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from softkin import SoftkinError, distances, similarity
from softkin.distances import taxonomy
from softkin.distances.taxonomy import MEASURES

TREE = [
    ("thing", "animal"),
    ("thing", "vehicle"),
    ("animal", "cat"),
    ("animal", "dog"),
    ("vehicle", "car"),
    ("vehicle", "van"),
]


def brute_force(edges, names, measure):
    """All paths of all pairs, from the definitions."""
    parents = {}
    for parent, child in edges:
        parents.setdefault(child, set()).add(parent)
        parents.setdefault(parent, set())

    def ways_up(node):  # all chains from a node to a root
        return [[node]] if not parents[node] else [[node, *way] for parent in parents[node] for way in ways_up(parent)]

    def steps(node):
        return {
            a: min(way.index(a) for way in ways_up(node) if a in way) for a in {a for way in ways_up(node) for a in way}
        }

    above = {name: steps(name) for name in names}
    kept = {a for name in names for a in above[name]}
    least, most = ({a: f(len(way) for way in ways_up(a)) for a in kept} for f in (min, max))
    height = {a: max(way.index(a) for name in names for way in ways_up(name) if a in way) for a in kept}
    D = np.zeros((len(names), len(names)))
    for i, j in itertools.permutations(range(len(names)), 2):
        first, two = above[names[i]], above[names[j]]
        common = set(first) & set(two)
        if measure == "lca":
            D[i, j] = min(height[a] for a in common) / max(height.values())
        elif measure == "path":
            D[i, j] = min(first[a] + two[a] for a in common)
        else:
            deepest = max(least[a] for a in common)
            D[i, j] = 1 - max(2 * most[a] / (first[a] + two[a] + 2 * most[a]) for a in common if least[a] == deepest)
    return torch.from_numpy(D)


@st.composite
def graphs(draw):
    """A graph with one root: each node has one to three parents among the earlier ones."""
    count = draw(st.integers(4, 12))
    edges = []
    for node in range(1, count):
        parents = draw(st.sets(st.integers(0, node - 1), min_size=1, max_size=3))
        edges += [(str(parent), str(node)) for parent in parents]
    names = draw(st.lists(st.sampled_from([str(n) for n in range(count)]), min_size=2, unique=True))
    return draw(st.permutations(edges)), names


@given(graphs(), st.sampled_from(MEASURES))
def test_distances_agree_with_brute_force(graph, measure):
    edges, names = graph
    D = distances.from_taxonomy(edges, names, measure)
    torch.testing.assert_close(D, brute_force(edges, names, measure))
    assert torch.equal(D, D.T)


def test_a_tree_by_hand():
    names = ["cat", "dog", "car"]
    assert distances.from_taxonomy(TREE, names).tolist() == [[0, 0.5, 1], [0.5, 0, 1], [1, 1, 0]]
    assert distances.from_taxonomy(TREE, names, "path").tolist() == [[0, 2, 4], [2, 0, 4], [4, 4, 0]]
    wu_palmer = distances.from_taxonomy(TREE, names, "wu-palmer")
    assert wu_palmer[0].tolist() == pytest.approx([0, 1 - 4 / 6, 1 - 2 / 6])


def test_rows_in_blocks_are_those_of_the_whole_matrix(monkeypatch):
    monkeypatch.setattr(similarity.vectors, "BLOCK", 8)
    rng = np.random.default_rng(0)
    edges = [(str(int(rng.integers(0, n))), str(n)) for n in range(1, 60)]
    names = [str(n) for n in range(20, 60)]
    for measure in MEASURES:
        S = similarity.from_distances(distances.from_taxonomy(edges, names, measure), 1.5)
        rows = taxonomy.rows(edges, names, measure)
        torch.testing.assert_close(similarity.from_blocks(40, rows, 1.5, top_m=39).dense(), S)
        sparse = similarity.from_blocks(40, rows, 1.5, top_m=5)
        torch.testing.assert_close(sparse.dense().sum(dim=1), torch.ones(40, dtype=torch.float64))
        torch.testing.assert_close(sparse.values, S.gather(1, sparse.indices))
        left_out = S.scatter(1, sparse.indices, 0)
        assert bool((sparse.values.amin(dim=1) >= left_out.amax(dim=1) - 1e-12).all())


@pytest.mark.parametrize(
    ("edges", "names", "words"),
    [
        (TREE, ["cat", "dgo"], "the taxonomy must reach every class, but 'dgo' is not in it; did you mean 'dog'?"),
        (TREE, ["cat", "zzz", "qqq"], "'zzz', 'qqq' are not in it: are these its class names?"),
        (
            [*TREE, ("plant", "rose")],
            ["cat", "rose"],
            "must have one root above all classes, but has 2: 'thing' above 'cat', 'plant' above 'rose'",
        ),
        (
            [("a", "b"), ("b", "c"), ("c", "a")],
            ["a", "b"],
            "must have no cycle, but 'a' is below 'c' is below 'b' is below 'a'.",
        ),
        ([("a", "a")], ["a", "a "], "must have no cycle, but 'a' is below 'a'."),
        ([], ["a", "b"], "must hold (parent, child) edges, and holds none."),
        ([("x", "big cat"), ("x", "big-dog")], ["big_cat", "big cat"], "but 'big_cat', 'big cat' share 'big cat'."),
    ],
)
def test_what_is_wrong_is_one_sentence(edges, names, words):
    with pytest.raises(SoftkinError) as error:
        distances.from_taxonomy(edges, names)
    assert words in str(error.value)
    assert str(error.value).count("\n") == 0


def test_a_long_chain_is_no_recursion():
    chain = [(str(n), str(n + 1)) for n in range(5000)]
    D = distances.from_taxonomy([*chain, ("0", "other")], ["5000", "other"], "path")
    assert float(D[0, 1]) == 5001
