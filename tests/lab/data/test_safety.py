"""Files from strangers: pickles that would run something, archives that would write elsewhere."""

import io
import pickle
import tarfile
import zipfile

import numpy as np
import pytest

from data_files import python2_pickle
from softkin import SoftkinError
from softkin.lab import data
from softkin.lab.data import archives, cifar


class Runs:
    """Unpickled by the ordinary reader, this runs a command."""

    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


def hostile(marker):
    """Pickles that make ``marker`` when an ordinary reader opens them, by every opcode that can call something."""
    import os

    command = f"touch {marker}"
    text = f"open({str(marker)!r}, 'w').close()"
    yield "reduce", pickle.dumps({"data": Runs(os.system, command)}, protocol=2)
    yield "stack global", pickle.dumps({"data": Runs(exec, text)}, protocol=4)
    yield "inst", f"(S{command!r}\niposix\nsystem\n.".encode()
    yield "obj", f"(cposix\nsystem\nS{command!r}\no.".encode()
    yield (
        "through a builtin",
        pickle.dumps({"data": Runs(map, exec, [text])}, protocol=2)[:-1] + b"cbuiltins\nlist\n\x8c\x00R.",
    )
    yield "eval", b"cbuiltins\neval\n(S'" + f'__import__("os").system("{command}")'.encode() + b"'\ntR."


def test_the_hostile_pickles_are_hostile(tmp_path):
    """Otherwise the next test would prove nothing."""
    marker = tmp_path / "ran"
    ran = set()
    for name, content in hostile(marker):
        try:
            loaded = pickle.loads(content)
            list(loaded["data"] if isinstance(loaded, dict) and isinstance(loaded["data"], map) else [])
        except Exception:
            pass
        if marker.exists():
            ran.add(name)
            marker.unlink()
    assert {"reduce", "stack global", "inst", "obj", "eval"} <= ran


def test_a_hostile_pickle_executes_nothing(tmp_path):
    marker = tmp_path / "ran"
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    (folder / "meta").write_bytes(python2_pickle({"fine_label_names": ["a", "b"]}))
    (folder / "test").write_bytes(python2_pickle({}))
    for _, content in hostile(marker):
        (folder / "train").write_bytes(content)
        with pytest.raises(SoftkinError, match="train was refused as a pickle of arrays: it asks for"):
            data.load(folder)
        assert not marker.exists()


def test_only_arrays_of_numbers_and_plain_containers(tmp_path):
    path = tmp_path / "p"
    array = np.arange(6, dtype="<i4").reshape(2, 3)
    for protocol in (0, 1, 2, 3, 4):
        content = {
            "data": array,
            "big": array.astype(">f8").T,
            "fine_labels": [1, 2],
            b"raw": b"\xff\x00",
            "deep": [{"a": (1, None)}],
        }
        path.write_bytes(pickle.dumps(content, protocol=protocol))
        loaded = cifar.read(path)
        assert np.array_equal(loaded["data"], array)
        assert np.array_equal(loaded["big"], array.T)
        assert loaded["raw"] == b"\xff\x00"
        assert loaded["deep"] == [{"a": (1, None)}]
    for content in (
        {"data": np.array([{}, []], dtype=object)},
        {"data": np.zeros(2, dtype=[("a", "i4")])},
        {"data": np.datetime64("2020-01-01")},
        {"data": np.float64(1)},
        {"data": {1, 2}, "more": bytearray(b"x")},
        {"data": complex(1, 2)},
        {"data": np.ma.zeros(2)},
        {"data": range(3)},
    ):
        path.write_bytes(pickle.dumps(content, protocol=2))
        with pytest.raises(SoftkinError, match="was refused as a pickle of arrays"):
            cifar.read(path)


@pytest.mark.parametrize(
    "content",
    [
        b"cnumpy\ndtype\n(S'O8'\nI0\nI1\ntR.",  # objects
        b"c_codecs\nencode\n(S'x'\nS'rot13'\ntR.",  # a codec is a module that is imported
        b"cnumpy.core.multiarray\n_reconstruct\n(S'x'\ntR.",
        b"cnumpy\nndarray\n(I9999999999\ntR.",  # an array of its own making
        b"cnumpy\nndarray\n}S'a'\nI1\nsb.",  # changing what a name stands for
        b"cnumpy\nndarray\nN}S'_name'\nS'array'\ns\x86b.",
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\ntR(I1\n(I-1\ntcnumpy\ndtype\n(S'u1'\ntRI00\nS'x'\ntb.",
        b"\x82\x01.",  # an extension
        b"Pelsewhere\n.",  # a persistent id
        b"",
        b"\x80\x09.",
        b"(lp0\ng0\na.",  # a list that holds itself
    ],
)
def test_pickles_of_other_kinds_are_refused(tmp_path, content):
    path = tmp_path / "p"
    path.write_bytes(content)
    with pytest.raises(SoftkinError, match="p was refused as a pickle of arrays|must hold a dictionary"):
        cifar.read(path)
    assert cifar._ALLOWED["numpy", "ndarray"]._name == "ndarray"


def tar(path, *members):
    with tarfile.open(path, "w:gz") as archive:
        for member in members:
            info = tarfile.TarInfo(member) if isinstance(member, str) else member
            info.size = 4 if info.isreg() else 0
            archive.addfile(info, io.BytesIO(b"evil") if info.isreg() else None)
    return path


def special(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize(
    ("members", "words"),
    [
        (["good/a", "../evil"], r"'../evil' in it leads out of its folder"),
        (["good/../../evil"], "leads out of its folder"),
        (["/tmp/softkin-evil"], "leads out of its folder"),
        (["C:\\evil"], "leads out of its folder"),
        (["..\\evil"], "leads out of its folder"),
        ([special("link", tarfile.SYMTYPE, "/etc"), "link/evil"], "'link' in it is a link or a device"),
        ([special("hard", tarfile.LNKTYPE, "../evil")], "'hard' in it is a link or a device"),
        ([special("pipe", tarfile.FIFOTYPE)], "'pipe' in it is a link or a device"),
    ],
)
def test_tar_archives_cannot_write_outside(tmp_path, members, words):
    inner = tmp_path / "inner"
    inner.mkdir()
    path = tar(inner / "x.tar.gz", *members)
    with pytest.raises(SoftkinError, match=words):
        archives.unpack(path, inner / "out")
    assert [entry.name for entry in tmp_path.iterdir()] == ["inner"]
    assert [entry.name for entry in inner.iterdir()] == ["x.tar.gz"]  # nothing half unpacked either
    with pytest.raises(SoftkinError, match=words):
        data.load(path)


def test_zip_archives_cannot_write_outside(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    for name in ("../evil", "/evil", "a/../../evil", "..\\evil"):
        path = inner / "x.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("good", b"good")
            info = zipfile.ZipInfo("placeholder")
            info.filename = name
            archive.writestr(info, b"evil")
        with pytest.raises(SoftkinError, match="leads out of its folder"):
            archives.unpack(path, inner / "out")
        assert sorted(entry.name for entry in inner.iterdir()) == ["x.zip"]
        assert [entry.name for entry in tmp_path.iterdir()] == ["inner"]
    info = zipfile.ZipInfo("link")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(info, b"/etc")
    with pytest.raises(SoftkinError, match="'link' in it is a link"):
        archives.unpack(path, inner / "out")


def test_damaged_archives_leave_nothing(tmp_path):
    good = tar(tmp_path / "x.tar.gz", "a/b", "a/c").read_bytes()
    for name, content in (("x.tar.gz", good[: len(good) // 2]), ("x.tar.gz", b"no archive"), ("x.zip", b"PK\x03\x04")):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(SoftkinError, match="could not be read as an archive.*; is it complete?"):
            archives.unpack(path, tmp_path / "out")
        assert not (tmp_path / "out").exists()
        assert not list(tmp_path.glob(".unpacking*"))


def test_an_archive_larger_than_the_disk(tmp_path, monkeypatch):
    import shutil

    path = tar(tmp_path / "x.tar.gz", "a/b")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 9, 3))
    with pytest.raises(SoftkinError, match=r"needs 0.0 GiB unpacked or more, but .* has 0.0"):
        archives.unpack(path, tmp_path / "out")
