"""Trees in files of all forms. WordNet's nouns, against nltk."""

import itertools
import json
import shutil

import pytest
import torch

from softkin import SoftkinError, distances, losses
from softkin._core.assumption import Assumption
from softkin.distances.tree_files import (
    WordNet,
    _singulars,
    classes_in,
    holds_samples,
    holds_tree,
    imagenet,
    in_words,
    read_tree,
)
from softkin.evaluation.deciding import tree_of
from softkin.predictions import Predictions

TREE = [
    ("thing", "animal"),
    ("thing", "vehicle"),
    ("animal", "cat"),
    ("animal", "dog"),
    ("vehicle", "car"),
    ("vehicle", "van"),
]


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
    "text",
    [
        "cat,animal\ndog,animal\ncar,vehicle\nvan,vehicle\n",
        "cat,animal\ndog,animal\ncar,vehicle\nvan,vehicle\nanimal,thing\nvehicle,thing\n",
    ],
)
def test_columns_of_class_and_superclass_without_a_header_are_turned_round(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    names = ["van", "cat", "car", "dog"]
    with pytest.warns(Assumption, match=r"t\.csv is read with the child first: 'van' is below 'vehicle'"):
        turned = distances.from_taxonomy(tmp_path / "t.csv", names)
    pairs = {tuple(line.split(",")[::-1]) for line in text.split()} | {("thing", "animal"), ("thing", "vehicle")}
    torch.testing.assert_close(turned, distances.from_taxonomy(pairs, names))
    assert turned[0, 2] < turned[0, 1]


def test_kinds_of_the_classes_do_not_turn_a_tree_round(tmp_path):
    (tmp_path / "t.csv").write_text("cat,tabby\ncat,siamese\ndog,poodle\n")
    with pytest.raises(SoftkinError, match="must have one root above all classes"):
        distances.from_taxonomy(tmp_path / "t.csv", ["cat", "dog"])


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


def test_imagenet_names_are_those_of_wordnet(wordnet):
    for wnid, names in imagenet().items():
        lemmas = [lemma.replace("_", " ") for lemma in wordnet.lemmas(wnid)]
        assert names in (
            lemmas,
            [f"{lemmas[0]} {wordnet.lemmas(wordnet.parents(wnid)[0])[0].replace('_', ' ')}", *lemmas],
        )


@pytest.mark.filterwarnings("ignore")
def test_the_classes_of_imagenet_are_looked_up_without_wordnet(monkeypatch, tmp_path):
    monkeypatch.setenv("SOFTKIN_WORDNET", str(tmp_path / "nowhere"))
    known = imagenet()
    assert len(known) == 1000
    assert len({names[0].lower() for names in known.values()}) == 1000
    wnids = ["n01440764", "n01443537", "n02123045", "n02123159", "n02012849", "n03126707"]
    assert in_words(wnids)[0] == ["tench", "Tinca tinca"]
    loss = losses.ClassSimilarityLoss.from_names(wnids, alpha=0.1)
    assert loss.soft_labels[2].topk(2).indices.tolist() == [2, 3]  # a tabby and a tiger cat
    assert in_words([*wnids, "n99999999"]) == [*in_words(wnids), "n99999999"]
    assert in_words(["tabby cat", "n01440764", ("puma", "cougar")])[::2] == ["tabby cat", ("puma", "cougar")]
    assert in_words(["tabby cat", "n01440764"])[1] == ["tench", "Tinca tinca"]


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


@pytest.mark.parametrize(
    ("text", "is_tree"),
    [
        ("animal,cat\nanimal,dog\n", True),
        ("parent,child\n1,2\n", True),
        ("animal,cat\n", False),
        ("a,b,c\nanimal,cat,dog\nplant,rose,oak\n", False),
        ("0,1\n1,0\n", False),
    ],
)
def test_a_tree_has_lines_of_two_words(tmp_path, text, is_tree):
    path = tmp_path / "some.csv"
    path.write_text(text, "utf-8")
    assert holds_tree(path) is is_tree


@pytest.fixture
def three_nouns(tmp_path):
    """A WordNet of three synsets: a gas, and two senses of a pig."""
    data, index = "", []
    for lemma in ("gas", "pig", "pig"):
        index.append((lemma, f"{len(data):08d}"))
        data += f"{len(data):08d} 03 n 01 {lemma} 0 000 | a thing\n"
    (tmp_path / "data.noun").write_text(data, "utf-8")
    lines = {lemma: [offset for name, offset in index if name == lemma] for lemma, _ in index}
    text = "".join(f"{k} n {len(v)} 0 {len(v)} 0 {' '.join(v)}\n" for k, v in lines.items())
    (tmp_path / "index.noun").write_text(text, "utf-8")
    return WordNet(tmp_path), [f"n{offset}" for _, offset in index]


def test_senses_count_from_one(three_nouns):
    nouns, (gas, first, second) = three_nouns
    assert [nouns.synset(f"pig.n.{place:02d}") for place in range(4)] == [None, first, second, None]
    assert nouns.synset("gas") == gas


def test_a_short_name_is_no_plural(three_nouns):
    """Less than three letters are no singular."""
    assert list(_singulars("pigs"))[1:] == ["pig"]
    assert list(_singulars("gas")) == ["gas"]
    assert three_nouns[0].synset("pigs") == three_nouns[1][1]


def test_identifiers_are_put_into_words_beside_names_too(three_nouns, monkeypatch):
    nouns, (gas, pig, _) = three_nouns
    monkeypatch.setenv("SOFTKIN_WORDNET", str(nouns.folder))
    assert in_words([gas, pig]) == [["gas"], ["pig"]]
    assert in_words([gas, "pig"]) == [["gas"], "pig"]
    assert in_words(["gas", "pig"]) == ["gas", "pig"]
    assert in_words([]) == []


def test_kinds_without_a_common_root_get_one(tmp_path):
    (tmp_path / "t.csv").write_text("pets,cat\npets,dog\nvehicles,car\nvehicles,bus\n")
    names = ["bus", "cat", "car", "dog"]
    with pytest.warns(Assumption, match=r"t\.csv has 2 roots \(pets, vehicles\): they are taken as kinds below one"):
        found = distances.from_taxonomy(tmp_path / "t.csv", names)
    edges = [("all", "pets"), ("all", "vehicles"), ("pets", "cat"), ("pets", "dog")]
    torch.testing.assert_close(
        found, distances.from_taxonomy([*edges, ("vehicles", "car"), ("vehicles", "bus")], names)
    )
    with pytest.warns(Assumption, match="2 roots"):
        tree = tree_of(str(tmp_path / "t.csv"), Predictions(torch.zeros(2, 4), class_names=names))
    assert sorted(tree.names[4:-1]) == ["pets", "vehicles"]


@pytest.mark.filterwarnings("ignore:.*roots")
@pytest.mark.parametrize(("head", "turned"), [("kind,name", False), ("Category,Item", False), ("species,genus", True)])
def test_words_for_kinds_and_their_members_are_a_header(tmp_path, head, turned):
    pairs = [("pets", "cat"), ("pets", "dog"), ("vehicles", "car"), ("vehicles", "bus")]
    lines = [",".join(pair[::-1] if turned else pair) for pair in pairs]
    (tmp_path / "t.csv").write_text("\n".join([head, *lines]))
    assert set(read_tree(tmp_path / "t.csv").leaves) == {"cat", "dog", "car", "bus"}


def test_a_first_line_that_may_be_a_header_is_said_to_be_an_edge(tmp_path):
    (tmp_path / "t.csv").write_text("fish,shark\npets,cat\npets,dog\n")
    with pytest.warns(Assumption, match=r"its first line is read as an edge \('shark' is below 'fish'\)"):
        assert read_tree(tmp_path / "t.csv").leaves == ["shark", "cat", "dog"]
    (tmp_path / "t.csv").write_text("fish,shark\npets,cat\npets,dog\nall,fish\nall,pets\n")
    assert read_tree(tmp_path / "t.csv").leaves == ["shark", "cat", "dog"]


def test_labelled_texts_are_no_tree(tmp_path):
    (tmp_path / "t.csv").write_text("utterance,intent\npay my bill,pay\nlost my card,card\n")
    assert holds_samples(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text("parent,child\npets,cat\n")
    assert not holds_samples(tmp_path / "t.csv")


def test_classes_of_a_tree_that_nobody_named(tmp_path):
    (tmp_path / "t.csv").write_text("cat,animal\ndog,animal\ncar,vehicle\nvan,vehicle\n")
    assert classes_in(read_tree(tmp_path / "t.csv")) == ["cat", "dog", "car", "van"]
    (tmp_path / "t.csv").write_text("animal,cat\nanimal,dog\nvehicle,car\n")
    assert classes_in(read_tree(tmp_path / "t.csv")) == ["cat", "dog", "car"]


def test_a_root_above_one_class_each_says_nothing(tmp_path):
    (tmp_path / "t.csv").write_text("thing,cat\nplant,rose\n")
    with pytest.raises(SoftkinError, match="must have one root above all classes, but has 2"):
        distances.from_taxonomy(tmp_path / "t.csv", ["cat", "rose"])
