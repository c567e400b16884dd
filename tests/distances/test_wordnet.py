"""WordNet's nouns, against nltk."""

import itertools
import shutil

import pytest

from softkin import SoftkinError, distances
from softkin.distances.wordnet import WordNet


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
