"""Random content for every parser: it is read or refused, nothing else. ``benchmarks/fuzz.py`` is the long form."""

import os

import parsers
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch, tmp_path_factory):
    """No waiting for the disk: archives are unpacked by the hundred."""
    monkeypatch.setattr(os, "sync", lambda: None)
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.mark.parametrize("name", parsers.PARSERS)
def test_a_good_file_is_read(name):
    assert parsers.accepts(name, parsers.PARSERS[name][1])


EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 8), st.binary(max_size=8)), max_size=4)


@pytest.mark.parametrize("name", parsers.PARSERS)
@given(edits=EDITS)
def test_edited_files_are_read_or_refused(name, edits):
    """Each edit replaces some bytes at a relative place by others."""
    content = parsers.PARSERS[name][1]
    for place, gone, new in edits:
        start = int(place * len(content))
        content = content[:start] + new + content[start + gone :]
    parsers.accepts(name, content)


@pytest.mark.parametrize("name", parsers.PARSERS)
@given(content=st.binary(max_size=200), kept=st.integers(0, 20))
def test_random_bytes_after_a_good_beginning_are_read_or_refused(name, content, kept):
    parsers.accepts(name, parsers.PARSERS[name][1][:kept] + content)
