"""Damaged files of every kind: noticed and named in one line, and never another number where a checksum can tell.

``SOFTKIN_FAULTS=2000`` damages each kind 2,000 times; the default is 500.
"""

import os
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path

import damage
import numpy as np
import pytest

from softkin import SoftkinError

pytestmark = pytest.mark.slow

TIMES = int(os.environ.get("SOFTKIN_FAULTS", "500"))


@pytest.fixture(autouse=True)
def in_memory(monkeypatch, tmp_path):
    """A cache on a file system in memory where there is one, and no waiting for the disk: thousands are decoded."""
    shm = Path("/dev/shm")
    place = tmp_path if not os.access(shm, os.W_OK) else shm / f"softkin-{os.getpid()}"
    monkeypatch.setenv("SOFTKIN_CACHE", str(place))
    monkeypatch.setattr(os, "sync", lambda: None)
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    yield
    if place != tmp_path:
        import shutil

        shutil.rmtree(place, ignore_errors=True)


def run(kind, folder, times, seed=0):
    """How often damage was refused, without effect, or unnoticed; anything but SoftkinError is raised."""
    path = kind.make(folder)
    content, expected = path.read_bytes(), kind.read(path)
    rng = np.random.default_rng(seed)
    counts = Counter()
    for case in range(times):
        changed = damage.damaged(content, rng)
        if changed == content:
            continue
        path.write_bytes(changed)
        os.utime(path, ns=(case, case))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of numpy about headers of Python 2, of PIL about odd metadata
                loaded = kind.read(path)
        except SoftkinError as error:
            message = str(error)
            known = (path.name, path.parent.name)
            assert any(name in message for name in known), f"case {case} names no file: {message}"
            assert "\n" not in message, f"case {case} has several lines: {message}"
            assert len(message) < 1000
            counts["refused"] += 1
        except Exception as error:
            (folder / "case").write_bytes(changed)
            raise AssertionError(f"case {case}: {type(error).__name__}: {error}, see {folder / 'case'}") from error
        else:
            if loaded == expected:
                counts["without effect"] += 1
            else:
                counts["unnoticed"] += 1
                assert not kind.checked, f"case {case} changed what was read, and nobody noticed"
    return counts


@pytest.mark.parametrize("name", damage.PREDICTIONS)
def test_damaged_predictions_and_matrices(name, tmp_path):
    counts = run(damage.PREDICTIONS[name], tmp_path, TIMES)
    assert counts["refused"] > 0.2 * counts.total()


@pytest.mark.parametrize("name", damage.DATA)
def test_damaged_data(name, tmp_path):
    counts = run(damage.DATA[name], tmp_path, TIMES)
    assert counts["refused"] > 0.1 * counts.total()


@pytest.mark.parametrize("name", damage.FITTED)
def test_damaged_calibrators_rules_studies_and_checkpoints(name, tmp_path):
    counts = run(damage.FITTED[name], tmp_path, TIMES)
    assert counts["refused"] > 0.3 * counts.total()


@pytest.mark.parametrize("name", damage.CLASSES)
def test_damaged_taxonomies_and_word_vectors(name, tmp_path):
    counts = run(damage.CLASSES[name], tmp_path, TIMES)
    assert counts["refused"] > 0.2 * counts.total()


def test_harness_notices_a_reader_that_is_wrong(tmp_path):
    """Otherwise the tests above would prove nothing."""
    kind = damage.Kind(damage.PREDICTIONS["npy"].make, damage.PREDICTIONS["npy"].read, checked=True)
    with pytest.raises(AssertionError, match="changed what was read, and nobody noticed"):
        run(kind, tmp_path, 500)

    def crashes(path):
        return np.load(path).tolist()

    with pytest.raises(AssertionError, match=r"case \d+: "):
        run(damage.Kind(damage.PREDICTIONS["npy"].make, crashes, checked=False), tmp_path, 500)


def test_an_archive_whose_directory_lists_nothing(tmp_path):
    """Found by 2,000 cases: a run of zeros over the end of a zip file."""
    path = damage.DATA["zip"].make(tmp_path)
    content = bytearray(path.read_bytes())
    place = content.rindex(b"PK\x05\x06")
    content[place + 8 : place + 20] = bytes(12)
    path.write_bytes(content)
    with pytest.raises(SoftkinError, match="x.zip must hold files, it holds none; is it complete?"):
        damage.DATA["zip"].read(path)


EACH_THIRD_BYTE = """
import sys
from pathlib import Path
from softkin import SoftkinError
from softkin.lab import data
from softkin.predictions import reading

for kind, read in (("p", reading.read), ("d", data.load)):
    path = Path(sys.argv[1], kind + ".parquet")
    content = path.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    for place in range(len(content) - footer, len(content), 3):
        damaged = bytearray(content)
        damaged[place] ^= 0x55
        path.write_bytes(damaged)
        try:
            read(path)
        except SoftkinError:
            pass
print("read all")
"""


def test_no_damage_of_a_parquet_footer_ends_the_process(tmp_path):
    """Pyarrow aborts, which nothing can catch, where the metadata of a damaged column are asked for."""
    damage.PREDICTIONS["parquet-wide"].make(tmp_path)
    damage.DATA["image-parquet"].make(tmp_path)
    command = [sys.executable, "-W", "ignore", "-c", EACH_THIRD_BYTE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "read all\n"), done.stderr[-500:]


@pytest.mark.parametrize(
    ("kind", "rows"), [(damage.DATA["image-parquet"], 4), (damage.PREDICTIONS["parquet"], len(damage.LABELS))]
)
def test_a_column_of_parquet_that_ends_before_the_others_is_noticed(tmp_path, kind, rows):
    """A page's header declares its number of values, and no checksum covers it. Found by fuzzing."""
    path = kind.make(tmp_path)
    content = bytearray(path.read_bytes())
    at = content.rindex(bytes([0x1C, 0x15, 2 * rows, 0x15])) + 2  # a page's first field, as a zigzag varint
    content[at] -= 2
    path.write_bytes(content)
    with pytest.raises(SoftkinError, match=f"declares {rows} rows, but {rows - 1} could be read|could not be read as"):
        kind.read(path)
