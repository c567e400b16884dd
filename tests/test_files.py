"""Files: whole or not at all, digests, numbers in JSON."""

import json
import math
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softkin import SoftkinError, files


def test_write_replaces_whole_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "new" / "file.txt"
    files.write(path, "first")
    files.write(path, b"second")
    assert path.read_bytes() == b"second"
    assert os.listdir(path.parent) == ["file.txt"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~files._umask()


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
    files.refuse_to_overwrite(link, force=True)
    files.refuse_to_overwrite(tmp_path / "absent")


@given(st.floats())
def test_numbers_survive_json(value):
    read = files.from_number(json.loads(json.dumps(files.number(value), allow_nan=False)))
    assert (math.isnan(value) and math.isnan(read)) or read == value or value >= files.LEGACY_INFINITY


def test_infinity_of_old_records_is_read():
    assert files.from_number(1.7e308) == math.inf


def test_json_digest_ignores_the_order_of_keys(tmp_path):
    assert files.sha256_of_json({"a": 1, "b": 2}) == files.sha256_of_json({"b": 2, "a": 1})
    files.write(tmp_path / "x", "abc")
    assert files.sha256_of_file(tmp_path / "x") == files.sha256(b"abc")
