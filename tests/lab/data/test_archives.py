"""Downloads from a real server on the loopback address that cuts, lies, ignores ranges and changes its mind."""

import bz2
import contextlib
import gzip
import hashlib
import json
import signal
import subprocess
import sys
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest

from data_files import cifar100_folder, tar_of, tiny_imagenet_tree
from softkin import SoftkinError
from softkin._core import progress
from softkin._io import cache
from softkin.lab import data
from softkin.lab.data import archives, published
from softkin.lab.data.published import DataSet, PublishedFile
from softkin.word_vectors import WordVectors


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        site = self.server.site
        asked = self.headers.get("Range")
        site.requests.append((self.path, asked))
        content = site.files.get(self.path)
        if content is None or site.refuse:
            self.send_error(site.refuse or 404)
            return
        tag = f'"{hashlib.md5(content).hexdigest()}"'
        start = 0
        unchanged = self.headers.get("If-Range") in (None, tag)
        if asked and site.ranges and unchanged:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            if start >= len(content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start + site.shift}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        if site.tags:
            self.send_header("ETag", tag)
        if site.wait is not None:
            site.wait.wait(60)
        body = content[start:]
        if site.length:
            self.send_header("Content-Length", str(len(body)))
        else:
            self.send_header("Connection", "close")
        self.end_headers()
        if site.cuts:
            self.wfile.write(body[: site.cuts.pop(0)])
            self.wfile.flush()
            if site.hold is not None:
                site.held.set()
                site.hold.wait(30)
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(2)
            return
        self.wfile.write(body)
        if not site.length:
            self.close_connection = True


@pytest.fixture
def site(monkeypatch, tmp_path):
    """The server, its files, and how it misbehaves."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("SOFTKIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(archives, "PAUSE", 0)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    site = SimpleNamespace(files={}, requests=[], cuts=[], ranges=True, tags=True, length=True, refuse=None)
    site.shift, site.hold, site.held, site.wait = 0, None, threading.Event(), None
    site.url = f"http://127.0.0.1:{server.server_port}"
    server.site = site
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield site
    server.shutdown()
    server.server_close()


CONTENT = np.random.Generator(np.random.PCG64(0)).bytes(3_000_000)
MD5 = hashlib.md5(CONTENT).hexdigest()


def fetch(site, target, **options):
    archives.fetch(f"{site.url}/x.bin", target, **{"md5": MD5, "progress": False, **options})


def test_a_whole_file(site, tmp_path):
    site.files["/x.bin"] = CONTENT
    fetch(site, tmp_path / "x.bin", size=len(CONTENT))
    assert (tmp_path / "x.bin").read_bytes() == CONTENT
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["x.bin"]
    assert site.requests == [("/x.bin", None)]


def test_a_bar_counts_the_megabytes(site, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", -1)
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes what is captured for a terminal
    site.files["/x.bin"] = CONTENT
    fetch(site, tmp_path / "x.bin", progress=True)
    shown = capsys.readouterr().err
    assert "downloading x.bin (MiB)" in shown
    assert "3/3" in shown


def test_a_cut_connection_is_resumed_where_it_broke(site, tmp_path):
    site.files["/x.bin"], site.cuts = CONTENT, [1_000_000, 0, 1_500_000]
    fetch(site, tmp_path / "x.bin")
    assert (tmp_path / "x.bin").read_bytes() == CONTENT
    assert [asked for _, asked in site.requests] == [None, "bytes=1000000-", "bytes=1000000-", "bytes=2500000-"]


def test_a_server_that_ignores_ranges_sends_all_again(site, tmp_path):
    site.files["/x.bin"], site.cuts, site.ranges = CONTENT, [1_000_000, 2_000_000], False
    fetch(site, tmp_path / "x.bin")
    assert (tmp_path / "x.bin").read_bytes() == CONTENT
    assert len(site.requests) == 3


def test_a_file_that_changed_in_between_is_not_mixed(site, tmp_path):
    site.files["/x.bin"], site.cuts = bytes(len(CONTENT)), [1_000_000]

    def changed(path):
        site.files["/x.bin"] = CONTENT
        return original(path)

    original = archives._noted
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archives, "_noted", lambda path: changed(path) if len(site.requests) == 1 else original(path))
        fetch(site, tmp_path / "x.bin")
    assert (tmp_path / "x.bin").read_bytes() == CONTENT
    assert [asked for _, asked in site.requests] == [None, "bytes=1000000-"]


def test_a_wrong_file_is_refused_and_thrown_away(site, tmp_path):
    site.files["/x.bin"] = b"<html>please log in</html>"
    with pytest.raises(SoftkinError, match=f"sent another file: its MD5 must be {MD5}, got [0-9a-f]{{32}}"):
        fetch(site, tmp_path / "x.bin")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(SoftkinError, match="must have 3,000,000 bytes, but has 26"):
        fetch(site, tmp_path / "x.bin", size=len(CONTENT))
    assert list(tmp_path.iterdir()) == []


def test_a_beginning_of_another_file_is_found_out(site, tmp_path):
    site.files["/x.bin"] = CONTENT
    (tmp_path / "x.bin.part").write_bytes(b"garbage" * 1000)
    fetch(site, tmp_path / "x.bin", size=len(CONTENT))  # resumed, found wrong, and fetched from nothing
    assert (tmp_path / "x.bin").read_bytes() == CONTENT
    assert [asked for _, asked in site.requests] == ["bytes=7000-", None]
    site.requests.clear()
    (tmp_path / "x.bin.part").write_bytes(CONTENT + b"and more")
    fetch(site, tmp_path / "x.bin", size=len(CONTENT))
    assert (tmp_path / "x.bin").read_bytes() == CONTENT
    # Without a tag or a size nothing says that the rest belongs to what is there: all of it again.
    site.requests.clear()
    (tmp_path / "x.bin.part").write_bytes(CONTENT[:500])
    fetch(site, tmp_path / "x.bin")
    assert [asked for _, asked in site.requests] == [None]
    (tmp_path / "x.bin.part").write_bytes(CONTENT + b"and more")
    fetch(site, tmp_path / "x.bin", md5=None)
    assert (tmp_path / "x.bin").read_bytes() == CONTENT


def test_what_was_complete_is_only_checked(site, tmp_path):
    """As after a crash between the last byte and the renaming."""
    site.files["/x.bin"] = CONTENT
    (tmp_path / "x.bin.part").write_bytes(CONTENT)
    fetch(site, tmp_path / "x.bin", size=len(CONTENT))
    assert (tmp_path / "x.bin").read_bytes() == CONTENT
    assert site.requests == []
    # Where the size is not known the server says that nothing is missing.
    (tmp_path / "x.bin.part").write_bytes(CONTENT)
    (tmp_path / "x.bin.part.json").write_text(json.dumps({"version": f'"{MD5}"'}))
    fetch(site, tmp_path / "x.bin")
    assert [asked for _, asked in site.requests] == ["bytes=3000000-"]
    (tmp_path / "x.bin.part").write_bytes(CONTENT + b"more")
    (tmp_path / "x.bin.part.json").write_text(json.dumps({"version": f'"{MD5}"'}))
    fetch(site, tmp_path / "x.bin")
    assert (tmp_path / "x.bin").read_bytes() == CONTENT


def test_a_wrong_range_is_not_believed(site, tmp_path):
    site.files["/x.bin"], site.cuts, site.shift = CONTENT, [1_000_000], 7
    with pytest.raises(SoftkinError, match="the server sent another range than requested"):
        fetch(site, tmp_path / "x.bin")
    assert not (tmp_path / "x.bin").exists()


def test_no_length_no_tags(site, tmp_path):
    site.files["/x.bin"], site.length, site.tags = CONTENT, False, False
    fetch(site, tmp_path / "x.bin")
    assert (tmp_path / "x.bin").read_bytes() == CONTENT


def test_a_server_that_always_cuts_keeps_what_came(site, tmp_path):
    site.files["/x.bin"], site.cuts = CONTENT, [600_000] + [0] * 50
    with pytest.raises(
        SoftkinError, match="broke off after 600,000 bytes .*retrying brought nothing new; the part received is kept"
    ):
        fetch(site, tmp_path / "x.bin")
    assert not (tmp_path / "x.bin").exists()
    site.cuts.clear()
    site.requests.clear()
    fetch(site, tmp_path / "x.bin")
    assert (tmp_path / "x.bin").read_bytes() == CONTENT
    assert [asked for _, asked in site.requests] == ["bytes=600000-"]


def test_refusals_and_no_network(site, tmp_path):
    with pytest.raises(SoftkinError, match="x.bin could not be downloaded: HTTP 404 Not Found"):
        fetch(site, tmp_path / "x.bin")
    site.files["/x.bin"], site.refuse = CONTENT, 503
    with pytest.raises(SoftkinError, match="HTTP 503 Service Unavailable"):
        fetch(site, tmp_path / "x.bin")
    with pytest.raises(SoftkinError, match="could not be reached: .*refused"):
        archives.fetch("http://127.0.0.1:9/x.bin", tmp_path / "x.bin")


@pytest.mark.slow
def test_a_killed_download_goes_on(site, tmp_path):
    site.files["/x.bin"], site.cuts, site.hold = CONTENT, [2_200_000], threading.Event()
    code = "import sys; from pathlib import Path; from softkin.lab.data import archives; archives.fetch(sys.argv[1], Path(sys.argv[2]))"
    process = subprocess.Popen([sys.executable, "-c", code, f"{site.url}/x.bin", str(tmp_path / "x.bin")])
    assert site.held.wait(60)
    part = tmp_path / "x.bin.part"
    while not part.exists() or part.stat().st_size < 1_000_000:
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    site.hold.set()
    site.hold, had = None, part.stat().st_size
    fetch(site, tmp_path / "x.bin")
    assert (tmp_path / "x.bin").read_bytes() == CONTENT
    assert site.requests[-1] == ("/x.bin", f"bytes={had}-")


def offered(site, monkeypatch, name, content, file, **options):
    """An entry of the catalogue whose file our server has."""
    site.files[f"/{file}"] = content
    entry = DataSet(
        "for the test",
        (PublishedFile(f"{site.url}/{file}", hashlib.md5(content).hexdigest(), len(content)),),
        **options,
    )
    monkeypatch.setitem(published.DATA_SETS._items, name, entry)
    return entry


@pytest.fixture
def packed_cifar(cifar100, tmp_path):
    images, labels, names = cifar100
    folder = cifar100_folder(tmp_path / "made" / "cifar-100-python", images[:60], labels[:60], names, test=20)
    members = {file.name: hashlib.md5(file.read_bytes()).hexdigest() for file in folder.iterdir()}
    return tar_of(folder, tmp_path / "made" / "cifar-100-python.tar.gz").read_bytes(), members, images


def test_a_data_set_by_name_on_first_use(site, monkeypatch, packed_cifar):
    content, members, images = packed_cifar
    options = {"folder": "cifar-100-python", "members": members}
    offered(site, monkeypatch, "cifar100", content, "cifar-100-python.tar.gz", **options)
    site.cuts = [len(content) // 2]
    assert published.present("cifar100") is None
    train = data.load("cifar100", progress=False)
    assert np.array_equal(train.values, images[:40])
    assert train.source == "cifar100"
    assert [asked for _, asked in site.requests] == [None, f"bytes={len(content) // 2}-"]
    place = data.get("cifar100")
    assert place == cache.folder() / "data" / "cifar-100-python" == published.present("cifar100")
    assert sorted(file.name for file in place.iterdir()) == ["meta", "test", "train"]
    assert len(data.split("cifar100").test) == 20
    assert len(site.requests) == 2  # what is there is not fetched again
    assert data.get("cifar100", force=True) == place
    assert len(site.requests) == 3
    assert not [entry for entry in (cache.folder() / "data").iterdir() if entry != place]


def test_members_are_checked_before_anything_is_in_place(site, monkeypatch, packed_cifar):
    content, members, _ = packed_cifar
    options = {"folder": "cifar-100-python", "members": {**members, "train": "0" * 32}}
    offered(site, monkeypatch, "cifar100", content, "cifar-100-python.tar.gz", **options)
    with pytest.raises(
        SoftkinError, match="cifar-100-python.tar.gz does not hold the official train: its MD5 must be 0000"
    ):
        data.get("cifar100")
    assert list((cache.folder() / "data").iterdir()) == []


def test_by_hand_where_there_is_no_network(site, monkeypatch, packed_cifar):
    content, members, _ = packed_cifar
    entry = offered(
        site, monkeypatch, "cifar100", content, "cifar-100-python.tar.gz", folder="cifar-100-python", members=members
    )
    file = PublishedFile("http://127.0.0.1:9/cifar-100-python.tar.gz", entry.files[0].md5, len(content))
    monkeypatch.setitem(published.DATA_SETS._items, "cifar100", DataSet("", (file,), "cifar-100-python", members))
    place = cache.folder() / "downloads" / "cifar-100-python.tar.gz"
    with pytest.raises(SoftkinError) as caught:
        data.load("cifar100")
    assert "could not be reached" in str(caught.value)
    assert f"fetch that file elsewhere and put it at {place}, then try again" in str(caught.value)
    place.write_bytes(content[:-1])
    with pytest.raises(SoftkinError, match="tar.gz is not the official file: its MD5 must be .*, got .*; remove it"):
        data.load("cifar100")
    place.write_bytes(content)
    assert len(data.load("cifar100")) == 40


def test_tiny_imagenet_fashion_mnist_and_vectors(site, monkeypatch, shared_data, tmp_path):
    there = shared_data / "tiny-imagenet"
    folder = tmp_path / "made" / "tiny-imagenet-200"
    tiny_imagenet_tree(folder, pq.read_table(there / "train-subset-00000-of-00001.parquet"), there / "words.txt")
    with zipfile.ZipFile(tmp_path / "tiny.zip", "w") as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, file.relative_to(folder.parent))
    content = (tmp_path / "tiny.zip").read_bytes()
    offered(site, monkeypatch, "tiny-imagenet", content, "tiny-imagenet-200.zip", folder="tiny-imagenet-200")
    assert len(data.load("tiny-imagenet", split="test")) == 4

    files = []
    for name, array in (
        ("train-images-idx3-ubyte.gz", np.zeros((4, 5, 5), np.uint8)),
        ("train-labels-idx1-ubyte.gz", np.array([0, 1, 0, 1], np.uint8)),
        ("t10k-images-idx3-ubyte.gz", np.zeros((2, 5, 5), np.uint8)),
        ("t10k-labels-idx1-ubyte.gz", np.array([0, 1], np.uint8)),
    ):
        content = gzip.compress(bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes())
        site.files[f"/{name}"] = content
        files.append(PublishedFile(f"{site.url}/{name}", hashlib.md5(content).hexdigest()))
    monkeypatch.setitem(published.DATA_SETS._items, "fashion-mnist", DataSet("", tuple(files), "fashion-mnist"))
    assert len(data.load("fashion-mnist", split="test")) == 2

    vectors = bz2.compress(b"2 3\ncat 1 2 3\nENTITY/Cat 4 5 6\n")
    site.files["/enwiki_20180420_100d.txt.bz2"] = vectors
    monkeypatch.setitem(
        published.DATA_SETS._items,
        "wikipedia2vec",
        DataSet("", (PublishedFile(f"{site.url}/enwiki_20180420_100d.txt.bz2"),)),
    )
    assert WordVectors.load(data.get("wikipedia2vec"))["cat"].tolist() == [1, 2, 3]
    with pytest.raises(SoftkinError, match="wikipedia2vec holds word vectors, not samples; pass its file as vectors"):
        data.load("wikipedia2vec")


def test_the_published_addresses_and_checksums():
    """As the publishers state them: a typing mistake here would only show where there is a network."""
    entry = published.DATA_SETS["cifar100"]
    assert entry.files[0].url == "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
    assert entry.files[0].md5 == "eb9058c3a382ffc7106e4002c42a8d85"
    assert entry.members == {
        "train": "16019d7e3df5f24257cddd939b257f8d",
        "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
        "meta": "7973b15100ade9c7d40fb424638fde48",
    }
    tiny = published.DATA_SETS["tiny-imagenet"].files[0]
    assert (tiny.url, tiny.md5) == (
        "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        "90528d7ca1a48142e341f4ef8d21d0de",
    )
    assert published.DATA_SETS["wikipedia2vec"].files[0].url == (
        "http://wikipedia2vec.s3.amazonaws.com/models/en/2018-04-20/enwiki_20180420_100d.txt.bz2"
    )
    with pytest.raises(ValueError, match="got 'cifar-1000'; did you mean 'cifar-100'"):
        data.get("cifar-1000")
    assert published.DATA_SETS.canonical("CIFAR-100") == "cifar100"


@pytest.mark.slow
def test_two_processes_fetch_once(site, packed_cifar):
    content, members, _ = packed_cifar
    site.files["/cifar-100-python.tar.gz"] = content
    site.wait = threading.Event()
    code = f"""
from softkin.lab.data import published
from softkin.lab.data.published import DataSet, PublishedFile
file = PublishedFile("{site.url}/cifar-100-python.tar.gz", "{hashlib.md5(content).hexdigest()}", {len(content)})
published.DATA_SETS._items["cifar100"] = DataSet("", (file,), "cifar-100-python", {members!r})
print("ready", flush=True)
print(published.get("cifar100"))
"""
    processes = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * 2
    time.sleep(1)  # for the second to come to the lock while the first waits for the server
    site.wait.set()
    outputs = [process.communicate()[0].strip() for process in processes]
    assert outputs == [str(cache.folder() / "data" / "cifar-100-python")] * 2
    assert len(site.requests) == 1
