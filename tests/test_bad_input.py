"""Whatever is wrong with a call or a file: one sentence that says what, the right exit code, and nothing written."""

import io
import shlex

import pytest

import bad_input
from command_line import run
from softkin import SoftkinError

pytestmark = pytest.mark.timeout(60)  # a pipe among the files, or a number without end, would wait for ever


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The wrong files."""
    place = tmp_path_factory.mktemp("wrong")
    bad_input.write_files(place)
    return place


def contents(folder):
    """All that is in a folder, and when it was last touched."""
    paths = [folder, *folder.rglob("*")]
    return {path: (path.lstat().st_mode, path.lstat().st_size, path.lstat().st_mtime_ns) for path in paths}


def touched(folder, before):
    """The names of files that are new, changed or gone."""
    after = contents(folder)
    return sorted(path.name for path in before.keys() | after.keys() if before.get(path) != after.get(path))


@pytest.mark.slow
@pytest.mark.parametrize(("code", "command", "words"), bad_input.COMMANDS, ids=[row[1] for row in bad_input.COMMANDS])
def test_a_wrong_command_is_one_sentence_and_writes_nothing(folder, capsys, monkeypatch, code, command, words):
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    before = contents(folder)
    result, output, errors = run(capsys, *shlex.split(command))
    assert touched(folder, before) == []
    # Cut: where an assertion fails, pytest compares texts letter by letter, which of a megabyte takes gigabytes.
    assert (result, output[:500]) == (int(code), "")
    assert errors[:7] == "softkin"
    assert errors[-2:] in (".\n", "?\n")
    assert errors.count("\n") == 1
    assert len(errors) < 5000
    assert words in errors
    for unwanted in ("Traceback", "a bug in softkin", "object at 0x"):
        assert unwanted not in errors


@pytest.mark.filterwarnings("ignore:`logits` look like probabilities")
@pytest.mark.parametrize(("call", "words"), bad_input.CALLS, ids=[row[1] for row in bad_input.CALLS])
def test_a_wrong_call_in_python_is_one_sentence(folder, monkeypatch, call, words):
    monkeypatch.chdir(folder)
    before = contents(folder)
    with pytest.raises((ValueError, TypeError, SoftkinError)) as caught:
        call()
    assert touched(folder, before) == []
    message = str(caught.value)
    assert words in message
    assert message.endswith((".", "?"))
    assert "\n" not in message


def test_the_tables_are_long_and_say_nothing_twice():
    commands = [row[1] for row in bad_input.COMMANDS]
    assert len(commands) >= 150
    assert len(bad_input.CALLS) >= 20
    assert len(set(commands)) == len(commands)
