"""Pages with numbers of studies: every marked table is the one that the records give."""

import importlib.util

import pytest

from places import ROOT

SPEC = importlib.util.spec_from_file_location("collect", ROOT / "results" / "collect.py")
collect = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(collect)


@pytest.mark.parametrize("page", collect.PAGES, ids=lambda path: path.name)
def test_every_table_is_that_of_the_records(page):
    text = page.read_text()
    assert collect.with_tables(text) == text, "run `python results/collect.py`"
