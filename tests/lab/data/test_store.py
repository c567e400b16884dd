"""The cache: decoded once, keyed by content, mapped, damage found, shared by processes, never larger than memory."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_files import png
from softkin import SoftkinError
from softkin._io import cache, files
from softkin.lab import data
from softkin.lab.data import decoding, labelled, store


@pytest.fixture(autouse=True)
def own(monkeypatch, tmp_path):
    """An empty cache for each test; files that were just written count as settled."""
    monkeypatch.setenv("SOFTKIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "SETTLED", -1)


@pytest.fixture
def table(cifar100, tmp_path):
    """A parquet file of 200 real images."""
    pictures, labels, _ = cifar100
    rows = {"image": [{"bytes": png(image), "path": None} for image in pictures[:200]], "label": labels[:200]}
    (tmp_path / "here").mkdir()
    pq.write_table(pa.table(rows), tmp_path / "here" / "t.parquet")
    return tmp_path / "here" / "t.parquet"


def entries():
    return [entry for entry in (cache.folder() / "decoded").iterdir() if entry.is_dir()]


def no_work(monkeypatch):
    """From here on nothing may be decoded, and no file of data read through."""

    def refuse(*_, **__):
        raise AssertionError("this should have come from the cache")

    monkeypatch.setattr(decoding, "_decode", refuse)
    monkeypatch.setattr(cache, "_file_digest", refuse)


def test_the_second_start_decodes_and_reads_nothing(table, monkeypatch, cifar100):
    first = data.load(table)
    no_work(monkeypatch)
    second = data.load(table)
    assert second.digest == first.digest
    assert isinstance(second.values, np.memmap)
    assert np.array_equal(second.values, cifar100[0][:200])
    assert second.labels.tolist() == first.labels.tolist()
    assert second.class_names == first.class_names
    second.values[0] = 0  # into memory of our own, not into the file
    assert np.array_equal(data.load(table).values, first.values)


def test_images_are_decoded_side_by_side(table, monkeypatch, cifar100):
    """After the first image, 199 come in four tasks; each waits until another is under way too."""
    meeting = threading.Barrier(2)

    def met(batch, size, expected, *, decode=decoding._decode):
        if len(batch) > 1:
            meeting.wait(20)
        return decode(batch, size, expected)

    monkeypatch.setattr(decoding, "_decode", met)
    assert np.array_equal(data.load(table).values, cifar100[0][:200])


def test_the_key_is_the_content(table, tmp_path, monkeypatch):
    first = data.load(table)
    other = tmp_path / "elsewhere.parquet"
    shutil.copy(table, other)
    assert data.load(other).digest == first.digest
    assert len(entries()) == 1
    # Other bytes under the same name, size and time of change.
    about, content = table.stat(), bytearray(table.read_bytes())
    place = content.index(b"IDAT")
    content[place + 20] ^= 1
    table.write_bytes(content)
    os.utime(table, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert table.stat().st_size == about.st_size
    try:
        assert data.load(table).digest != first.digest
    except SoftkinError as error:
        assert "image 0 could not be read" in str(error)  # noqa: PT017  either way it was read anew


def test_sizes_and_parts_have_entries_of_their_own(table):
    assert data.load(table).values.shape == (200, 32, 32, 3)
    assert data.load(table, size=8).values.shape == (200, 8, 8, 3)
    assert data.load(table).values.shape == (200, 32, 32, 3)
    assert len(entries()) == 2


def test_a_file_that_was_just_written_is_not_trusted_by_its_time(table, monkeypatch):
    monkeypatch.setattr(cache, "SETTLED", 60)
    data.load(table)
    reads = []
    monkeypatch.setattr(cache, "_file_digest", lambda path, read=cache._file_digest: reads.append(path) or read(path))
    data.load(table)
    assert reads


def flip(path, place=-1):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("file", ["values.npy", "about.safetensors"])
@pytest.mark.parametrize("harm", ["flip", "cut", "empty", "gone"])
def test_a_damaged_entry_is_found_and_made_again(table, file, harm, cifar100):
    first = data.load(table)
    (entry,) = entries()
    path = entry / file
    if harm == "flip":
        flip(path, -100)
    elif harm == "cut":
        path.write_bytes(path.read_bytes()[:-50])
    elif harm == "empty":
        path.write_bytes(b"")
    else:
        path.unlink()
    again = data.load(table)
    assert again.digest == first.digest
    assert np.array_equal(again.values, cifar100[0][:200])
    assert again.labels.tolist() == first.labels.tolist()
    assert [listed.name for listed in entries()] == [entry.name]


def test_a_changed_class_name_is_found(table):
    first = data.load(table)
    (entry,) = entries()
    about = (entry / "about.safetensors").read_bytes()
    assert b"class 7" in about
    (entry / "about.safetensors").write_bytes(about.replace(b"class 7", b"class X"))
    assert data.load(table).class_names == first.class_names


def test_a_damaged_text_is_found(tmp_path):
    (tmp_path / "t.csv").write_text("text,label\none two,a\nthree,b\n")
    first = data.load(tmp_path / "t.csv")
    (entry,) = entries()
    about = (entry / "about.safetensors").read_bytes()
    assert b'["one two", "three"]' in about
    (entry / "about.safetensors").write_bytes(about.replace(b"three", b"seven"))
    assert data.load(tmp_path / "t.csv").texts == first.texts == ["one two", "three"]


def test_an_entry_that_was_copied_is_checked_once_and_trusted(table, monkeypatch, tmp_path):
    first = data.load(table)
    shutil.copytree(tmp_path / "cache", tmp_path / "copy")
    monkeypatch.setenv("SOFTKIN_CACHE", str(tmp_path / "copy"))
    checked = []
    monkeypatch.setattr(store, "_pieces", lambda values, pieces=store._pieces: checked.append(1) or pieces(values))
    no_work(monkeypatch)
    assert data.load(table).digest == first.digest
    assert data.load(table).digest == first.digest
    assert checked == [1]


@pytest.mark.slow
def test_processes_at_once_decode_once_and_agree(table, tmp_path):
    log = tmp_path / "decoded"
    code = f"""
import sys, time
from pathlib import Path
from softkin.lab import data
from softkin.lab.data import store
build = store._build
def slow(*arguments):
    Path({str(log)!r}).open("a").write("x")
    while not Path({str(log)!r} + ".go").exists():
        time.sleep(0.01)
    build(*arguments)
store._build = slow
print("ready", flush=True)
print(data.load(sys.argv[1], progress=False).digest)
"""
    command = [sys.executable, "-c", code, str(table)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * 2
    time.sleep(1)  # for the second to come to the lock while the first is held up
    log.with_name("decoded.go").touch()
    digests = {process.communicate()[0].strip() for process in processes}
    assert digests == {data.load(table).digest}
    assert log.read_text() == "x"
    assert len(entries()) == 1


@pytest.mark.slow
def test_a_killed_decoding_leaves_no_half_entry(table):
    code = f"""
import os, signal
from softkin.lab.data import decoding
from softkin.lab import data
decode, count = decoding._decode, []
def slow(*arguments):
    count.append(1)
    if len(count) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return decode(*arguments)
decoding._decode = slow
data.load({str(table)!r}, progress=False)
"""
    done = subprocess.run([sys.executable, "-c", code])
    assert done.returncode == -signal.SIGKILL
    assert len(entries()) == 1  # what it was writing
    assert entries()[0].name.startswith(".building-")
    assert len(data.load(table)) == 200
    assert [entry.name.startswith(".") for entry in entries()] == [False]


def test_a_reader_that_fails_leaves_nothing(table):
    content = pq.read_table(table)
    rows = content.to_pylist()
    rows[150]["image"]["bytes"] = b"no image"
    pq.write_table(pa.Table.from_pylist(rows), table)
    with pytest.raises(SoftkinError, match="t.parquet: image 150 could not be read as an image"):
        data.load(table)
    assert entries() == []


def test_a_cache_that_cannot_be_written(monkeypatch, tmp_path, table):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SOFTKIN_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(
        SoftkinError, match="could not be written: Not a directory; set SOFTKIN_CACHE to a folder with room"
    ):
        data.load(table)
    assert len(data.load("digits")) == 1797  # needs none


def test_a_cache_that_others_filled(monkeypatch, table):
    """Read-only: what is there is used, though nothing can be remembered or locked."""
    first = data.load(table)

    def refuse(*_, **__):
        raise SoftkinError("this cache is read-only")

    shutil.rmtree(cache.folder() / "digests")
    monkeypatch.setattr(files, "write", refuse)
    monkeypatch.setattr(cache, "locked", refuse)
    assert data.load(table).digest == first.digest


def test_a_disk_that_is_too_small(monkeypatch, table):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 9, 9))
    with pytest.raises(SoftkinError, match=r"decoding needs 0.0 GiB in .*cache, where 0.0 GiB are free"):
        data.load(table)
    assert entries() == []


def test_where_the_cache_is(monkeypatch, tmp_path):
    assert cache.folder() == tmp_path / "cache"
    monkeypatch.delenv("SOFTKIN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache.folder() == tmp_path / "xdg" / "softkin"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.folder() == tmp_path / ".cache" / "softkin"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache.folder() == tmp_path / "Library" / "Caches" / "softkin"


PEAK = """
import sys
from pathlib import Path
from softkin.lab import data
images, features = sys.argv[1:]
data.load(images, size=8, progress=False)  # imports and thread pools
def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
for source, size in ((images, 960), (features, None)):
    Path("/proc/self/clear_refs").write_text("5")
    before = peak()
    found = data.load(source, size=size, progress=False)
    print(found.values.nbytes / 2**20, peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak of memory from /proc")
def test_decoding_streams(table, tmp_path):
    """Hundreds of MiB of values pass through far less memory."""
    features = tmp_path / "z.npz"
    np.savez_compressed(features, features=np.zeros((1000, 120_000), np.float32), labels=np.arange(1000) % 2)
    command = [sys.executable, "-c", PEAK, str(table), str(features)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        values, peak = map(float, line.split())
        assert values > 450
        assert peak < values / 2  # what is in hand at a time does not grow with the data: about 110 MiB


def test_large_selections_lie_in_a_file(table, monkeypatch):
    whole = data.load(table)
    rows = np.arange(0, 200, 2)
    small = whole.take(rows)
    monkeypatch.setattr(store, "IN_MEMORY", 1000)
    monkeypatch.setattr(store, "CHUNK", 10_000)
    large = whole.take(rows)
    assert type(small.values) is np.ndarray
    assert isinstance(large.values, np.memmap)
    assert not large.values.flags.writeable  # the kernel would not grant a private copy of what memory cannot hold
    assert np.array_equal(small.values, large.values)
    assert small.digest == large.digest
    assert large.ids.tolist() == rows.tolist()
    monkeypatch.setattr(store, "_build", None)
    assert np.array_equal(whole.take(rows).values, small.values)


def test_rows_that_follow_each_other_are_a_view(table):
    whole = data.load(table)
    assert np.shares_memory(whole.take(np.arange(10, 50)).values, whole.values)
    assert not np.shares_memory(whole.take([1, 3]).values, whole.values)
    assert whole.take([3, 1]).labels.tolist() == whole.labels[[3, 1]].tolist()
    assert len(whole.take([])) == 0
    for rows, words in (
        ([0, 200], "from 0 to 199, got 200"),
        ([-1], "from 0 to 199, got -1"),
        ([[0]], "a list of row numbers"),
    ):
        with pytest.raises(ValueError, match=words):
            whole.take(rows)


def test_decoding_shows_a_bar(table, capsys, monkeypatch):
    from softkin._core import progress

    monkeypatch.setattr(progress, "PATIENCE", -1)
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes what is captured for a terminal
    data.load(table, progress=True)
    assert "decoding 200 images" in capsys.readouterr().err
    data.load(table, size=9, progress=False)
    assert capsys.readouterr().err == ""


def test_a_source_that_grows_while_it_is_read(table, monkeypatch):
    def growing(path, read=cache._file_digest):
        digest = read(path)
        time.sleep(0.01)
        os.utime(path)
        return digest

    monkeypatch.setattr(cache, "_file_digest", growing)
    with pytest.raises(SoftkinError, match="was changed while it was read; try again when it is complete"):
        data.load(table)


def test_samples_know_themselves():
    assert labelled.Labelled.__mro__[1] is labelled.Samples
    digits = data.load("digits")
    assert len(digits) == 1797
    assert json.dumps(digits.class_names)
