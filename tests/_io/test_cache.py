"""The cache folder, also for a user who has no home."""

import os
import pwd
import subprocess
import sys
import tempfile

import pytest

from softkin._io import cache, files

HOMELESS = """
import os, pwd, sys
import _multiprocessing
def nobody(*_):
    raise KeyError("no such user")
def no_shared_memory(*_, **__):
    raise FileNotFoundError(2, "No such file or directory")
pwd.getpwuid, _multiprocessing.SemLock = nobody, no_shared_memory
from softkin.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def homeless(tmp_path, monkeypatch):
    def nobody(*_):
        raise KeyError("no such user")

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    for name in ("HOME", "XDG_CACHE_HOME", "SOFTKIN_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    cache.without_home.cache_clear()
    yield tmp_path
    cache.without_home.cache_clear()


def test_without_a_home_the_cache_is_a_temporary_folder_of_the_user_alone(homeless):
    with pytest.warns(
        files.Assumption, match=r"there is no home folder, so the cache is .*; SOFTKIN_CACHE names another"
    ):
        path = cache.made("digests")
    assert path.parent.parent == homeless
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert cache.folder() == path.parent  # and said once
    cache.without_home.cache_clear()
    with pytest.warns(files.Assumption):
        assert cache.folder() == path.parent  # the same for the next process
    assert files.expanded("~/data").parts == ("~", "data")


@pytest.mark.parametrize("how", ["link", "open"])
def test_a_temporary_folder_that_others_may_write_to_is_not_used(homeless, how):
    prepared = homeless / f"softkin-{os.getuid()}"
    if how == "link":
        (homeless / "theirs").mkdir(mode=0o700)
        prepared.symlink_to(homeless / "theirs")
    else:
        prepared.mkdir()
        prepared.chmod(0o777)
    with pytest.warns(files.Assumption):
        path = cache.folder()
    assert path != prepared
    assert path.stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
def test_commands_go_on_without_a_home_and_without_shared_memory(tmp_path):
    gone = ("HOME", "XDG_CACHE_HOME", "SOFTKIN_CACHE", "JOBLIB_MULTIPROCESSING")
    environment = {name: value for name, value in os.environ.items() if name not in gone} | {"TMPDIR": str(tmp_path)}
    for argv, said in (
        (["data", "list"], 1),
        (["train", "digits", "--max-per-class", "10", "--epochs", "1", "--output", "run"], 0),
    ):
        done = subprocess.run(
            [sys.executable, "-c", HOMELESS, *argv],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert [line for line in done.stderr.splitlines() if "there is no home folder" not in line] == []
        assert done.stderr.count("there is no home folder") == said
