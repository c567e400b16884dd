"""Files of word vectors of every kind, and the store that they are converted to."""

import bz2
import gzip
import os
import struct
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from softkin import SoftkinError, distances, word_vectors
from softkin._io import cache
from softkin.word_vectors import StoredWordVectors, WordVectors, converted

WORDS = ["the", "cat", "dog", "ENTITY/Sea_lion", "Katze\u00e9", "cat", '"', "NA"]
ROWS = np.random.default_rng(0).normal(size=(8, 5)).astype(np.float32)


def text(header=False, end="\n"):
    lines = [" ".join([word, *(repr(float(x)) for x in row)]) for word, row in zip(WORDS, ROWS, strict=True)]
    return ((f"8 5{end}" if header else "") + end.join(lines) + end).encode()


def binary(line_ends=True):
    end = b"\n" if line_ends else b""
    return b"8 5\n" + b"".join(
        word.encode() + b" " + row.tobytes() + end for word, row in zip(WORDS, ROWS, strict=True)
    )


FORMS = {
    "glove.txt": text(),
    "word2vec.txt": text(header=True),
    "fasttext.vec": text(header=True, end=" \n"),
    "windows.txt": text(end="\r\n"),
    "wikipedia2vec.txt.gz": gzip.compress(text(header=True)),
    "glove.txt.bz2": bz2.compress(text()),
    "glove.txt.zst": pa.compress(text(), codec="zstd", asbytes=True),
    "word2vec.bin": binary(),
    "word2vec.bin.gz": gzip.compress(binary(line_ends=False)),
}


@pytest.fixture(params=[0, 2**20], ids=["stored", "in memory"])
def small(request, monkeypatch):
    monkeypatch.setattr(word_vectors, "SMALL", request.param)


@pytest.mark.parametrize("name", FORMS)
def test_every_form_holds_the_same(tmp_path, name, small):
    path = tmp_path / name
    path.write_bytes(FORMS[name])
    vectors = WordVectors.load(path)
    assert list(vectors) == list(dict.fromkeys(WORDS))
    for word in dict.fromkeys(WORDS):
        np.testing.assert_array_equal(vectors[word], ROWS[WORDS.index(word)])  # of equal words the first
        assert word in vectors
    assert "mouse" not in vectors
    assert 3 not in vectors
    with pytest.raises(KeyError):
        vectors["mouse"]
    np.testing.assert_array_equal(vectors.rows(["dog", "the", "dog"]), ROWS[[2, 0, 2]].astype(np.float64))
    assert float(distances.from_words(["cat", "dog"], path)[0, 1]) == pytest.approx(
        float(np.linalg.norm(ROWS[1] - ROWS[2])), rel=1e-6
    )
    assert list(WordVectors.load(path, only=["dog"])) == ["dog"]
    assert len(WordVectors.load(path, most=2)) == 2


def test_blocks_of_any_size_are_read_alike(tmp_path, monkeypatch):
    from softkin.word_vectors import vector_files

    for name, content in FORMS.items():
        (tmp_path / name).write_bytes(content)
        for size in (150, 200, 333):  # the first line must fit into the first block
            monkeypatch.setattr(vector_files, "BLOCK", size)
            blocks = list(vector_files.read_blocks(tmp_path / name))
            assert len(blocks) > 1 or size == 333
            assert [word for words, _ in blocks for word in words] == WORDS
            np.testing.assert_array_equal(np.concatenate([rows for _, rows in blocks]), ROWS)


def test_a_store_is_made_once_and_found_again(tmp_path, monkeypatch):
    monkeypatch.setattr(word_vectors, "SMALL", 0)
    monkeypatch.setenv("SOFTKIN_CACHE", str(tmp_path / "cache"))
    (tmp_path / "v.txt").write_bytes(text())
    first = WordVectors.load(tmp_path / "v.txt")
    assert isinstance(first, StoredWordVectors)
    made = []
    monkeypatch.setattr(converted, "convert", lambda *a, **k: made.append(a))
    np.testing.assert_array_equal(WordVectors.load(tmp_path / "v.txt")["cat"], first["cat"])
    assert made == []
    assert [
        path.suffix for path in (tmp_path / "cache" / "word-vectors").iterdir() if not path.name.endswith("lock")
    ] == [".vectors"]


def test_damage_is_noticed_wherever_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("SOFTKIN_CACHE", str(tmp_path / "cache"))
    (tmp_path / "v.txt").write_bytes(text())
    kept = tmp_path / "x.vectors"
    converted.convert(tmp_path / "v.txt", kept)
    whole = kept.read_bytes()
    noticed = 0
    for place in [*range(110), *range(converted.HEADER, len(whole), 2)]:
        kept.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        try:
            vectors = StoredWordVectors(converted.VectorStore(kept), source="x")
            for word in WORDS:
                np.testing.assert_array_equal(vectors[word], ROWS[WORDS.index(word)])
            assert "mouse" not in vectors
        except SoftkinError:
            noticed += 1
    assert noticed > 200  # all but what nothing reads: padding, and the end of the header
    for size in (0, 10, len(whole) - 1):
        kept.write_bytes(whole[:size])
        with pytest.raises(SoftkinError, match="x.vectors"):
            converted.VectorStore(kept)
    # a damaged store in the cache is made again
    monkeypatch.setattr(word_vectors, "SMALL", 0)
    WordVectors.load(tmp_path / "v.txt")
    target = next((tmp_path / "cache" / "word-vectors").glob("*.vectors"))
    target.write_bytes(whole[:100])
    assert "cat" in WordVectors.load(tmp_path / "v.txt")


@pytest.mark.slow
def test_several_starts_at_once_and_a_full_disk(tmp_path):
    (tmp_path / "v.txt").write_bytes(text())
    script = (
        "import sys\nfrom softkin import word_vectors\nword_vectors.SMALL = 0\n"
        "print(len(word_vectors.WordVectors.load(sys.argv[1])))"
    )
    environment = {**os.environ, "SOFTKIN_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-c", script, str(tmp_path / "v.txt")]
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0] for process in running] == ["7\n"] * 3  # "cat" is there twice
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4200, 4200))\n" + script
    environment["SOFTKIN_CACHE"] = str(tmp_path / "other")
    done = subprocess.run(
        [sys.executable, "-c", limited, str(tmp_path / "v.txt")], env=environment, capture_output=True, text=True
    )
    assert "could not be written: File too large; set SOFTKIN_CACHE" in done.stderr
    assert list((tmp_path / "other" / "word-vectors").glob("*.vectors")) == []
    assert not [
        path
        for path in (tmp_path / "other" / "word-vectors").iterdir()
        if path.name.startswith(".") and path.suffix != ".lock"
    ]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("model.bin", struct.pack("<i", 793712314) + b"\0" * 50, "is a fastText model; give the .vec file"),
        ("cut.bin", binary()[:-30], "announces 8 vectors in its first line and holds 6"),
        ("nan.bin", b"1 1\na " + struct.pack("<f", float("nan")), "the vector of 'a' must hold finite numbers"),
        ("word.bin", b"1 1\n\xff\xfe " + struct.pack("<f", 1.25), "its word is not UTF-8 text"),
        ("v.txt.zst", b"no zstd", "v.txt.zst could not be read"),
        ("long.txt", b"9 9999999\nx 1\n", "none are so long"),
        ("latin.txt", "caf\u00e9 1 2\n".encode("latin-1"), "line 1: not UTF-8 text"),
    ],
)
def test_bad_files_are_named(tmp_path, name, content, words, small):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SoftkinError) as error:
        WordVectors.load(tmp_path / name)
    assert words in str(error.value)
    assert not list(cache.made("word-vectors").glob(".*"))
