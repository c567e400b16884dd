"""Truth in as many columns as there are classes."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softkin._io.arrow import table_of
from softkin.predictions import truth_columns

NAMES = st.lists(
    st.text("abcxyz", min_size=1, max_size=4) | st.sampled_from(["true cat", "prob", "hot dog", "dog", "y", "is"]),
    min_size=2, max_size=6, unique_by=lambda name: name.replace(" ", "_"),
)  # fmt: skip
AFFIXES = st.sampled_from(
    [("true_{}", "prob_{}"), ("{}", "p_{}"), ("is_{}", "{}"), ("{} (actual)", "{} (predicted)"), ("y_true_{}", "y_{}")]
)


def made(names, affixes, truth, scores, more=()):
    of_truth, of_scores = affixes
    columns = {of_truth.format(name): truth[:, k] for k, name in enumerate(names)}
    columns |= {of_scores.format(name): scores[:, k] for k, name in reversed([*enumerate(names)])}
    return table_of(pa.table({**dict(more), **columns}))


@given(NAMES, AFFIXES, st.integers(0, 2**32 - 1))
@settings(max_examples=150, deadline=None)
def test_each_score_finds_the_truth_of_its_class(names, affixes, seed):
    both = [affix.format(name) for affix in affixes for name in names]
    if len({name.lower().replace(" ", "_") for name in both}) < len(both):
        return
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(names), 30)
    labels[: len(names)] = range(len(names))
    truth, scores = np.eye(len(names))[labels], rng.dirichlet(np.ones(len(names)), 30)
    table = made(names, affixes, truth, scores)
    found = truth_columns.found(table, list(table.columns))
    assert found is not None
    assert found.kind == "classes"
    of_truth, of_scores = affixes
    assert found.columns == {of_scores.format(name): of_truth.format(name) for name in reversed(names)}
    assert found.names == names[::-1]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([[1, 0], [0, 1]], "classes"),
        ([[1, 1], [0, 0]], "several"),
        ([[2, 1], [0, 3]], "votes"),
        ([[2, 1], [0, 0]], None),
    ],
)
def test_the_numbers_show_what_is_true(cells, kind):
    truth, scores = np.array(cells * 15, float), np.full((30, 2), 0.4)
    table = made(["cat", "dog"], ("votes_{}" if kind in ("votes", None) else "true_{}", "prob_{}"), truth, scores)
    found = truth_columns.found(table, list(table.columns))
    assert (None if found is None else found.kind) == kind


def test_columns_that_are_called_alike_but_hold_no_truth():
    scores = np.random.default_rng(0).random((30, 2))
    other = made(["cat", "dog"], ("old_{}", "new_{}"), scores[::-1], scores)
    assert truth_columns.found(other, list(other.columns)) is None
    hard = made(["cat", "dog"], ("true_{}", "pred_{}"), np.eye(2)[[0, 1] * 15], np.eye(2)[[1, 1] * 15])
    assert truth_columns.found(hard, list(hard.columns)) is None
