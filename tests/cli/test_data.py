"""``softkin data``."""

import json

import pytest

from softkin._io import cache
from softkin.cli import main
from softkin.lab.data import published
from softkin.lab.data.published import DataSet, PublishedFile


@pytest.fixture(autouse=True)
def own(monkeypatch, tmp_path):
    monkeypatch.setenv("SOFTKIN_CACHE", str(tmp_path / "cache"))


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_list(capsys):
    code, output, _ = run(capsys, "data", "list")
    assert max(len(line) for line in output.splitlines() if not line.startswith("cache: ")) <= 80
    assert code == 0
    assert f"cache: {cache.folder()}" in output
    assert "not here yet, 169 MB to download: softkin data get cifar100" in output
    code, output, _ = run(capsys, "data", "list", "--json")
    assert [row["name"] for row in json.loads(output)["datasets"]] == list(published.DATA_SETS)


def test_show(capsys, shared_data):
    code, output, _ = run(capsys, "data", "show", "digits")
    assert code == 0
    assert "scikit-learn's digits: 1,797 rows of images, 8×8×1" in output
    assert "10 classes of 174 to 183 rows each:\nzero, one, two" in output
    path = shared_data / "text" / "banking77.parquet"
    code, output, _ = run(capsys, "data", "show", path, "--split", "test", "--json")
    about = json.loads(output)
    assert (about["rows"], about["part"], about["parts"], about["shape"]) == (3080, "test", ["train", "test"], [4096])
    assert about["classes"]["card_arrival"] == 40


def test_get(capsys, monkeypatch, tmp_path):
    file = PublishedFile("http://127.0.0.1:9/vectors.txt")
    monkeypatch.setitem(published.DATA_SETS._items, "vectors", DataSet("", (file,)))
    code, _, errors = run(capsys, "data", "get", "vectors")
    assert code == 1
    assert f"put it at {cache.folder() / 'downloads' / 'vectors.txt'}, then try again" in errors
    place = cache.folder() / "downloads" / "vectors.txt"
    place.write_text("cat 1 2\n")
    code, output, _ = run(capsys, "data", "get", "vectors")
    assert (code, output) == (0, f"vectors was there already: {place}\n")
    code, output, _ = run(capsys, "data", "get", "vectors", "--json")
    assert json.loads(output) == {"name": "vectors", "path": str(place), "downloaded": False}


def test_what_cannot_be(capsys):
    for arguments, code, words in (
        (["get", "cifar-1000"], 2, "`name` must be one of cifar10, cifar100, tiny-imagenet"),
        (["get", "cifar-1000"], 2, "did you mean 'cifar-100'?"),
        (["show", "digitz"], 1, "no such file or folder, and no data set of that name; did you mean 'digits'?"),
        (["show", "digits", "--size", 0], 2, "`--size` must be at least 1"),
        (["show", "digits", "--split", "test"], 2, "not divided into parts, but --split test was requested"),
    ):
        status, _, errors = run(capsys, "data", *arguments)
        assert (status, words in errors) == (code, True), errors
    with pytest.raises(SystemExit) as caught:
        main(["data"])
    assert caught.value.code == 2
