"""Taxonomies: distances in trees and graphs, their files, and WordNet."""

import itertools
import json
import shutil

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from softkin import SoftkinError, distances, similarity
from softkin.distances import taxonomy
from softkin.distances.taxonomy import MEASURES
from softkin.distances.tree_files import read_tree
from softkin.distances.wordnet import WordNet

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


def test_files_of_all_forms_say_the_same(tmp_path):
    names = ["cat", "dog", "car", "van"]
    D = distances.from_taxonomy(TREE, names)
    lines = [("parent", "child"), *TREE]
    texts = {
        "t.csv": "\n".join(",".join(line) for line in lines),
        "turned.csv": "\n".join(",".join(line[::-1]) for line in lines),
        "root.csv": "\n".join(",".join(line) for line in [*lines, ("", "thing")]),
        "t.tsv": "\n".join("\t".join(line) for line in TREE),
        "t.txt": "\n".join(" ".join(line) for line in TREE),
        "t.json": json.dumps({"animal": ["cat", {"dog": None}], "vehicle": {"car": {}, "van": []}}),
        "d3.json": json.dumps(
            {
                "name": "thing",
                "children": [
                    {"name": "animal", "children": [{"name": "cat"}, {"name": "dog"}]},
                    {"name": "vehicle", "children": [{"name": "car"}, {"name": "van"}]},
                ],
            }
        ),
        "t.yaml": "animal: [cat, dog]\nvehicle:\n  - car\n  - van\n",
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        torch.testing.assert_close(distances.from_taxonomy(path, names), D, msg=name)
    assert sorted(read_tree(tmp_path / "t.yaml").leaves) == sorted(names)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("t.csv", "a,b\nc\n", "t.csv, line 2 must hold a parent and a child, got 'c'."),
        ("t.csv", "parent,child\na,\n", "t.csv, line 2: the child has no name."),
        ("t.csv", "", "t.csv must hold a parent and a child per line, and is empty."),
        ("t.json", '{"a": [true, ["b"', "t.json could not be read as a taxonomy"),
        ("t.json", "[" * 90 + "]" * 90, "must hold (parent, child) edges"),
        (
            "t.yaml",
            "a: &x [1, 2]\nb: [*x, !!python/object/apply:os.system ['true']]",
            "t.yaml could not be read as YAML",
        ),
        (
            "t.yaml",
            "a: &a [x, x]\n"
            + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(9)),
            "nested too deeply, or too large",
        ),
        ("t.xml", "<a/>", "t.xml has no known format for a taxonomy"),
    ],
)
def test_bad_files_are_named(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(SoftkinError) as error:
        distances.from_taxonomy(tmp_path / name, ["a", "b"])
    assert words in str(error.value)


def test_superclasses_from_a_column_of_the_data(shared_data):
    names = json.loads(
        (
            __import__("pyarrow.parquet")
            .parquet.read_schema(shared_data / "cifar100" / "test-00000-of-00001.parquet")
            .metadata
        )[b"huggingface"]
    )["info"]["features"]["fine_label"]["names"]
    path = f"{shared_data / 'cifar100' / 'test-00000-of-00001.parquet'}:coarse_label"
    D = distances.from_taxonomy(path, names)
    apple = names.index("apple")
    near = {names[j] for j in range(100) if j != apple and D[apple, j] < 1}
    assert near == {"mushroom", "orange", "pear", "sweet_pepper"}
    with pytest.raises(SoftkinError, match="must have the column 'coarse'"):
        distances.from_taxonomy(path.replace("coarse_label", "coarse"), names)


def test_superclasses_by_class():
    tree = distances.Tree.from_superclasses([0, 0, 1, 1], class_names=["cat", "dog", "rose", "oak"])
    assert distances.from_taxonomy(tree, ["cat", "dog", "rose"])[0].tolist() == [0, 0.5, 1]
    assert distances.from_taxonomy(tree, ["oak", "cat", "dog", "rose"])[1].tolist() == [1, 0, 0.5, 1]
    with pytest.raises(SoftkinError, match="the tree must reach every class, but 'car' is not in it"):
        distances.from_taxonomy(tree, ["cat", "car"])


# WordNet


@pytest.fixture(scope="module")
def wordnet():
    try:
        return WordNet()
    except SoftkinError as error:
        pytest.skip(str(error))


def test_wordnet_by_wnid_sense_and_lemma(wordnet):
    assert wordnet.lemmas("n02124075") == ["Egyptian_cat"]
    assert wordnet.synset("n02124075") == "n02124075"
    assert wordnet.synset("dog") == wordnet.synset("dogs") == wordnet.synset("dog.n.01") == "n02084071"
    assert wordnet.lemmas(wordnet.synset("crane.n.05")) == ["crane"]
    assert "writer" not in str(wordnet.lemmas(wordnet.parents(wordnet.synset("crane"))[0]))  # not Stephen Crane
    assert wordnet.synset("n99999999") is None
    assert wordnet.synset("zzzz") is None
    D = distances.from_taxonomy("wordnet", ["dog", "wolf", "car"])
    assert D[0, 1] < D[0, 2]
    birds = distances.from_taxonomy("wordnet", ["crane", "heron", "truck"], "path", aliases={"crane": "crane.n.05"})
    assert birds[0, 1] < birds[0, 2]
    with pytest.raises(SoftkinError, match="WordNet has no noun 'aquarium_fish': .*--alias 'aquarium_fish=fish'"):
        distances.from_taxonomy("wordnet", ["aquarium_fish", "dog"])
    with pytest.raises(SoftkinError, match="WordNet was not found in /nowhere"):
        distances.from_taxonomy("wordnet:/nowhere", ["cat", "dog"])


def test_wordnet_agrees_with_the_hypernyms_of_tiny_imagenet(wordnet, shared_data):
    edges = [
        tuple(line.split())
        for line in (shared_data / "taxonomy" / "tiny-imagenet-hypernyms.txt").read_text().splitlines()
    ]
    inner = {parent for parent, _ in edges}
    wnids = [child for _, child in edges if child not in inner]
    assert set(wordnet.edges(wnids)) == set(edges)


def test_wordnet_agrees_with_nltk(wordnet, tmp_path, monkeypatch):
    reader = pytest.importorskip("nltk.corpus.reader.wordnet")
    monkeypatch.setattr("nltk.data.path", [str(tmp_path)])
    tmp_path = tmp_path / "corpora" / "wordnet"
    tmp_path.mkdir(parents=True)
    for path in wordnet.folder.iterdir():
        if path.is_file():
            shutil.copy(path, tmp_path)
    if not (tmp_path / "lexnames").exists():  # nltk wants a file that Debian leaves out
        (tmp_path / "lexnames").write_text("".join(f"{n:02d}\tnoun.x\t1\n" for n in range(45)))
    (tmp_path / "index.sense").touch()
    with pytest.warns(UserWarning, match="multilingual"):
        peer = reader.WordNetCorpusReader(str(tmp_path), None)
    names = [
        "dog",
        "wolf",
        "cat",
        "trout",
        "rose",
        "oak",
        "truck",
        "bicycle",
        "chair",
        "house",
        "apple",
        "mouse",
        "sea",
        "king",
    ]
    synsets = [peer.synset(f"{name}.n.01") for name in names]
    wnids = [f"n{synset.offset():08d}" for synset in synsets]
    assert wnids == [wordnet.synset(f"{name}.n.01") for name in names]
    path = distances.from_taxonomy("wordnet", wnids, "path")
    wu_palmer = distances.from_taxonomy("wordnet", wnids, "wu-palmer")
    for i, j in itertools.combinations(range(len(names)), 2):
        assert int(path[i, j]) == synsets[i].shortest_path_distance(synsets[j])
        # nltk takes any of several deepest common nodes, we the one by which the two are most alike
        assert float(1 - wu_palmer[i, j]) >= synsets[i].wup_similarity(synsets[j]) - 1e-12
    assert float(1 - wu_palmer[0, 1]) == pytest.approx(synsets[0].wup_similarity(synsets[1]))
    same = [
        1 - float(wu_palmer[i, j]) == pytest.approx(synsets[i].wup_similarity(synsets[j]))
        for i, j in itertools.combinations(range(len(names)), 2)
    ]
    assert sum(same) > 0.9 * len(same)
