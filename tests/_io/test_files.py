"""Files: whole or not at all, digests, numbers in JSON."""

import json
import math
import os
import stat
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softkin import SoftkinError
from softkin._io import files


def test_write_replaces_whole_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "new" / "file.txt"
    files.write(path, "first")
    files.write(path, b"second")
    assert path.read_bytes() == b"second"
    assert os.listdir(path.parent) == ["file.txt"]
    (path.parent / "other").touch()
    assert path.stat().st_mode == (path.parent / "other").stat().st_mode  # as the user's mask has it


def test_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file.txt"
    files.write(path, "old")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SoftkinError, match="file.txt could not be written: No space left on device.$"):
        files.write(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file.txt"]


def test_overwriting_needs_force_also_for_dangling_links(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(SoftkinError, match="link exists already; pass force=True"):
        files.refuse_to_overwrite(tmp_path / "absent", link)
    files.refuse_to_overwrite(tmp_path / "absent", None)
    files.write(link.with_name("file"), "old")
    files.refuse_to_overwrite(link.with_name("file"), force=True)


def test_link_to_nothing_is_never_written(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    for write in (lambda: files.write(link, "x"), lambda: files.refuse_to_overwrite(link, force=True)):
        with pytest.raises(SoftkinError, match=r"it is a link to .*nowhere, where there is no file; name that file"):
            write()
    assert sorted(os.listdir(tmp_path)) == ["link"]


def test_link_to_a_file_stays_a_link(tmp_path):
    target, link = tmp_path / "folder" / "file", tmp_path / "link"
    files.write(target, "old")
    link.symlink_to(target)
    files.write(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert os.listdir(target.parent) == ["file"]


def test_a_link_out_of_its_folder_is_never_written_through(tmp_path):
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    files.write(outside, "mine")
    folder.mkdir()
    (folder / "report.json").symlink_to("../outside")
    for write in (files.write, lambda path, _: files.refuse_to_overwrite(path, force=True)):
        with pytest.raises(
            SoftkinError, match=r"it is a link out of its folder, to .*outside; name that file, or delete"
        ):
            write(folder / "report.json", "new")
    with pytest.raises(SoftkinError, match="link out of its folder"):
        files.write_together({folder / "a": "new", folder / "report.json": "new"})
    assert outside.read_text() == "mine"
    assert os.listdir(folder) == ["report.json"]
    (tmp_path / "also").symlink_to(folder)  # a folder's own name may be a link: the user named it
    files.write(tmp_path / "also" / "a", "new")
    assert (folder / "a").read_text() == "new"


def test_folders_of_results_have_no_links_out(tmp_path):
    (tmp_path / "study" / "runs").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "study" / "inside").symlink_to("runs")
    files.refuse_links_out(tmp_path / "study")
    files.refuse_links_out(tmp_path / "absent")
    (tmp_path / "study" / "runs" / "a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(
        SoftkinError, match=r"study/runs/a must be a folder, but it is a link out of .*study, to .*elsewhere"
    ):
        files.refuse_links_out(tmp_path / "study")


def test_only_regular_files_are_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, words in ((pipe, "a pipe"), (tmp_path, "a folder"), ("/dev/null", "a device")):
        with pytest.raises(SoftkinError, match=f"could not be written: it is {words}, and only files are replaced.$"):
            files.write(path, "x")
        with pytest.raises(SoftkinError, match="only files are replaced"):
            files.refuse_to_overwrite(path, force=True)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_files_of_one_result_come_together_or_not_at_all(tmp_path, monkeypatch):
    files.write(tmp_path / "a", "old")
    synced = []
    sync = os.fsync

    def full_at_the_second(handle):
        synced.append(handle)
        if len(synced) == 2:
            raise OSError(28, "No space left on device")
        sync(handle)

    monkeypatch.setattr(os, "fsync", full_at_the_second)
    with pytest.raises(SoftkinError, match="b could not be written: No space left on device.$"):
        files.write_together({tmp_path / "a": "new", tmp_path / "b": "new"})
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "old"
    files.write_together({tmp_path / "a": "new", tmp_path / "b": b"new"})
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "new", "b": "new"}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (zlib.error("Error -3"), "f could not be read as numbers, or it is damaged: Error -3; make it again."),
        (KeyError("labels"), "f could not be read as numbers, or it is damaged: it lacks 'labels'; make it again."),
        (MemoryError(), "f could not be read as numbers: it needs more memory than there is; make it again."),
        (RecursionError("deep"), "f could not be read as numbers: it is nested too deeply; make it again."),
        (FileNotFoundError(2, "No"), "f could not be read: there is no such file; make it again."),
        (PermissionError(13, "Denied"), "f could not be read: Denied; make it again."),
        (AssertionError(), "f could not be read as numbers, or it is damaged: AssertionError; make it again."),
        (SoftkinError("as it is"), "as it is"),
        (ValueError("first.\nsecond"), "f could not be read as numbers, or it is damaged: first; make it again."),
        (ValueError("a" * 999), f"f could not be read as numbers, or it is damaged: {'a' * 499}…; make it again."),
        (ValueError("\x1b[2J"), "f could not be read as numbers, or it is damaged: �[2J; make it again."),
    ],
)  # fmt: skip
def test_border_says_one_line_whatever_a_parser_raises(error, words):
    with pytest.raises(SoftkinError) as raised, files.reading("f", "numbers", hint="make it again"):
        raise error
    assert str(raised.value) == words


def test_border_lets_interrupts_through_but_not_panics_of_rust():
    with pytest.raises(KeyboardInterrupt), files.reading("f", "numbers"):
        raise KeyboardInterrupt
    panic = type("PanicException", (BaseException,), {})
    with pytest.raises(SoftkinError, match="damaged: called unwrap.$"), files.reading("f", "numbers"):
        raise panic("called unwrap")


def test_a_folder_that_is_a_link_to_nowhere_is_named(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "absent")
    for refuse in (lambda path: files.write(path, "x"), files.refuse_to_overwrite):
        with pytest.raises(
            SoftkinError, match="link is a link to .*absent, where there is no folder; make that folder"
        ):
            refuse(tmp_path / "link" / "inner" / "a.json")


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, words in (
        (tmp_path / "pipe", "it is a pipe, not a file"),
        (tmp_path, "it is a folder, not a file"),
        ("/dev/zero", "it is a device, not a file"),
        (tmp_path / "absent", "there is no such file"),
        ("a\0b", "null byte"),
    ):
        readers = (files.open_file, files.sha256_of_file, files.require_regular)
        for read in (*readers, lambda path: files.read_json(path, "JSON")):
            with pytest.raises(SoftkinError, match=words):
                read(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 500 + b"1" + b"}" * 500, "nested too deeply"),
        (b'"' + b'\\"' * 100_000, "Unterminated string"),
        (b"9" * 5_000, "digits"),
        (b'{"a": 1', "delimiter"),
        (b"\xff", "codec can't decode"),
        (b"", "Expecting value"),
    ],
)  # fmt: skip
def test_hostile_json_is_refused_in_one_line(tmp_path, content, words):
    (tmp_path / "f.json").write_bytes(content)
    with pytest.raises(SoftkinError, match=f"f.json could not be read as a record.*{words}") as raised:
        files.read_json(tmp_path / "f.json", "a record")
    assert "\n" not in str(raised.value)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_honest_json_passes(data):
    assert files.parse_json(json.dumps(data), "f", "JSON") == data
    assert (
        files.parse_json(
            b"\xef\xbb\xbf" + json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogatepass"), "f", "x"
        )
        == data
    )


def test_brackets_in_texts_are_no_nesting():
    data = [{"text": "[" * 1000 + '\\"{{' * 1000}] * 3
    assert files.parse_json(json.dumps(data), "f", "JSON") == data


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a = " + b"[" * 50_000 + b"]" * 50_000, "nested too deeply"),
        (b"a" + b".a" * 500 + b" = 1", "nested too deeply"),
        (b"[" + b"a." * 500 + b"a]", "nested too deeply"),
        (b"\na" + b".a" * 1_000_000 + b" = 1", "line 2 has 1,000,000 dots, more than the 1,000 allowed"),
        (b"a = ", "Invalid value"),
        (b"\xff", "codec can't decode"),
    ],
)  # fmt: skip
def test_hostile_toml_is_refused_in_one_line(tmp_path, content, words):
    (tmp_path / "f.toml").write_bytes(content)
    with pytest.raises(SoftkinError, match=f"f.toml could not be read as a study.*{words}"):
        files.read_toml(tmp_path / "f.toml", "a study")
    assert files.parse_toml(b"[a.b]\nc = [[1]]", "f", "a study") == {"a": {"b": {"c": [[1]]}}}


def test_limits_name_the_variable_that_raises_them(monkeypatch):
    words = "f's matrix would have 200,000 classes, more than the 131,072 allowed; if that is right, set SOFTKIN_MAX_CLASSES=200000 and try again."
    with pytest.raises(SoftkinError) as raised:
        files.within("classes", 200_000, "f's matrix")
    assert str(raised.value) == words
    monkeypatch.setenv("SOFTKIN_MAX_CLASSES", "200000")
    files.within("classes", 200_000, "f's matrix")
    monkeypatch.setenv("SOFTKIN_MAX_CLASSES", "many")
    with pytest.raises(SoftkinError, match="SOFTKIN_MAX_CLASSES must be a whole number of classes, got 'many'"):
        files.limit("classes")


def test_what_unpacks_to_far_more_than_it_is_is_a_bomb():
    files.unpacked_within(10**9, 10**10, "f")  # numbers that shrank to a tenth
    files.unpacked_within(10**6, 10**9, "f")  # zeros, but few
    with pytest.raises(SoftkinError, match="SOFTKIN_MAX_BYTES=3200000000"):
        files.unpacked_within(3_200_000, 3_200_000_000, "f")


@given(st.floats())
def test_numbers_survive_json(value):
    read = files.from_number(json.loads(json.dumps(files.number(value), allow_nan=False)))
    assert (math.isnan(value) and math.isnan(read)) or read == value


def test_json_digest_ignores_the_order_of_keys(tmp_path):
    assert files.sha256_of_json({"a": 1, "b": 2}) == files.sha256_of_json({"b": 2, "a": 1})
    files.write(tmp_path / "x", "abc")
    assert files.sha256_of_file(tmp_path / "x") == files.sha256(b"abc")
