"""Changes of the data that must change no metric, or change it in a known way: hypothesis over the public functions."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softkin import metrics
from softkin.metrics.catalogue import METRICS
from softkin.metrics.scopes import Claims
from softkin.metrics.statistics import Mean

FUNCTIONS = {
    "accuracy": metrics.accuracy,
    "top_2": lambda p, y: metrics.top_k_accuracy(p, y, k=2),
    "nll": metrics.nll,
    "brier": metrics.brier,
    "aurc": metrics.aurc,
    "ece_hist": metrics.ece_hist,
    "ece_hist output": lambda p, y: metrics.ece_hist(p, y, scope="output"),
    "ece_hist mass": lambda p, y: metrics.ece_hist(p, y, binning="mass"),
    "ece_hist L2": lambda p, y: metrics.ece_hist(p, y, norm=2),
    "ece_kde": metrics.ece_kde,
    "ece_kde output": lambda p, y: metrics.ece_kde(p, y, scope="output"),
    "classwise_ece": metrics.classwise_ece,
    "classwise_ece mass": lambda p, y: metrics.classwise_ece(p, y, binning="mass"),
    "debiased_ece": metrics.debiased_ece,
    "mce": metrics.mce,
    "smooth_ece": metrics.smooth_ece,
    "smooth_ece output": lambda p, y: metrics.smooth_ece(p, y, scope="output"),
    "signed_gap": metrics.signed_gap,
    "confidence_auroc": metrics.confidence_auroc,
    "signed_gap over": lambda p, y: metrics.signed_gap(p, y, part="over"),
    **{
        f"brier {part}": (lambda p, y, part=part: getattr(metrics.brier_decomposition(p, y), part))
        for part in ("brier", "reliability", "resolution", "uncertainty", "within")
    },
}
OTHER_SHAPES = {"top_k_accuracy", "auc", "rps", "macro_auroc", "ece_positive"}
"""Of two or of ordered classes, of truth in several columns, or with an option: files of their own try them"""
ON_A_GRID = {"smooth_ece", "smooth_ece output", "ece_kde", "ece_kde output"}
"""Integrals over nodes: sums in another order end a rounding apart, which the smooth ECE's fixed point enlarges"""


@st.composite
def cases(draw, least=2, most=60):
    """(logits, labels): from vague to saturated, with ties in some."""
    seed = draw(st.integers(0, 2**32 - 1))
    n, k = draw(st.integers(least, most)), draw(st.integers(2, 7))
    spread = draw(st.sampled_from([0.0, 0.3, 2.0, 8.0, 60.0]))
    rng = np.random.default_rng(seed)
    logits = spread * rng.normal(size=(n, k))
    if draw(st.booleans()):
        logits = logits.round()
    skewed = draw(st.booleans())
    y = np.zeros(n, dtype=int) if skewed else rng.integers(0, k, n)
    return logits, y


def softmax(logits):
    return torch.softmax(torch.from_numpy(logits), dim=1).numpy()


def same(name, value, expected):
    __tracebackhide__ = True
    if math.isinf(expected) or math.isnan(expected):
        assert str(value) == str(expected), name
        return
    tolerance = 1e-5 if name in ON_A_GRID else 1e-9
    # A debiased error is a root of a difference: a rounding of 1e-16 in the square is one of 1e-8 in the root.
    assert value == pytest.approx(expected, rel=tolerance, abs=1e-7 if name == "debiased_ece" else tolerance), name


@settings(max_examples=15, deadline=None)
@given(cases(), st.integers(0, 2**31))
def test_the_order_of_samples_does_not_matter(case, seed):
    logits, y = case
    order = np.random.default_rng(seed).permutation(len(y))
    p = softmax(logits)
    for name, function in FUNCTIONS.items():
        same(name, function(p[order], y[order]), function(p, y))


def untied(logits):
    """No two scores of a row equal: of equal ones the first class wins, whatever it is called."""
    return logits + 1e-3 * np.arange(logits.shape[1])[None] * (1 + np.abs(logits).max() * 1e-3)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(cases(), st.integers(0, 2**31))
def test_the_names_of_classes_do_not_matter(case, seed):
    logits, y = case
    new_place = np.random.default_rng(seed).permutation(logits.shape[1])
    p = softmax(untied(logits))
    if any(len(set(row)) < len(row) for row in p):  # saturated to ties
        return
    renamed = np.empty_like(p)
    renamed[:, new_place] = p
    for name, function in FUNCTIONS.items():
        same(name, function(renamed, new_place[y]), function(p, y))


@settings(max_examples=15, deadline=None)
@given(cases(), st.integers(2, 3))
def test_doubled_data_leave_all_but_what_depends_on_their_number(case, times):
    """The bandwidth falls with n, a bin's variance is divided by |B| − 1, and bins of equal mass may be cut elsewhere."""
    logits, y = case
    p = softmax(logits)
    many, labels = np.tile(p, (times, 1)), np.tile(y, times)
    for name, function in FUNCTIONS.items():
        if not name.startswith(("ece_kde", "debiased", "aurc")) and "mass" not in name:
            same(name, function(many, labels), function(p, y))
    # With |B| − 1 ever closer to |B| less and less is taken off; single scores, which add nothing, become pairs.
    assert metrics.debiased_ece(many, labels) <= metrics.ece_hist(many, labels, norm=2) + 1e-12


@settings(max_examples=15, deadline=None)
@given(cases(), st.floats(-50, 50))
def test_shifted_logits_are_the_same_probabilities(case, shift):
    logits, y = case
    p, moved = softmax(logits), softmax(logits + shift)
    if (np.abs(p - moved) > 1e-12).any() or not np.array_equal(p.argmax(1), moved.argmax(1)):
        return  # rounding turned a tie
    bins = [np.ceil(np.sort(q.ravel()) * 15) for q in (p, moved)]
    for name, function in FUNCTIONS.items():
        if name in ("nll", "brier", "accuracy", "signed_gap", "smooth_ece", "ece_kde"):
            value, expected = function(moved, y), function(p, y)
            assert value == pytest.approx(expected, rel=1e-5, abs=1e-5), name
        elif name in ("ece_hist", "ece_hist output", "mce", "classwise_ece") and np.array_equal(*bins):
            assert function(moved, y) == pytest.approx(function(p, y), abs=1e-9), name


@settings(max_examples=15, deadline=None)
@given(cases(least=20), st.sampled_from([np.float32, np.float16]))
def test_narrower_floats_change_no_more_than_their_rounding(case, dtype):
    """A narrow array means just the numbers that it holds: the same numbers in float64 give the same metric."""
    logits, y = case
    narrow = softmax(logits).astype(dtype)
    if np.abs(narrow.astype(np.float64).sum(1) - 1).max() > 1e-3:
        return  # refused: such rows do not sum to 1
    wide = narrow.astype(np.float64)
    for name, function in FUNCTIONS.items():
        value, expected = function(narrow, y), function(wide, y)
        if name in ON_A_GRID:
            assert value == pytest.approx(expected, abs=1e-4), name
        else:
            same(name, value, expected)
        tensor = function(torch.from_numpy(narrow), torch.from_numpy(y))
        assert str(tensor) == str(value), name


@settings(max_examples=20, deadline=None)
@given(cases(least=10))
def test_a_fourth_of_a_row_rounded_moves_proper_scores_by_as_much(case):
    """Scores rounded to 4 digits: averages of smooth functions move by no more than the rounding times the slope."""
    logits, y = case
    p = softmax(logits)
    rounded = p.round(4)
    if np.abs(rounded.sum(1) - 1).max() > 5e-4:
        return
    k = p.shape[1]
    assert metrics.brier(rounded, y) == pytest.approx(metrics.brier(p, y), abs=4 * k * 5e-5)
    if np.array_equal(p.argmax(1), rounded.argmax(1)):
        assert metrics.signed_gap(rounded, y) == pytest.approx(metrics.signed_gap(p, y), abs=5e-5 + 1e-12)
        assert metrics.accuracy(rounded, y) == metrics.accuracy(p, y)


@settings(max_examples=15, deadline=None)
@given(cases(least=5))
def test_identities(case):
    logits, y = case
    p = softmax(logits)
    parts = metrics.brier_decomposition(p, y)
    assert parts.brier == pytest.approx(metrics.brier(p, y))
    assert parts.brier == pytest.approx(parts.reliability - parts.resolution + parts.uncertainty + parts.within)
    over, under = (metrics.signed_gap(p, y, part=part) for part in ("over", "under"))
    assert over + under == pytest.approx(metrics.ece_hist(p, y))
    assert over - under == pytest.approx(metrics.signed_gap(p, y), abs=1e-12)
    assert metrics.ece_hist(p, y, scope="output") == pytest.approx(
        p.shape[1] * metrics.ece_hist(p, y, scope="output", per="score")
    )
    assert metrics.ece_hist(p, y) <= metrics.ece_hist(p, y, norm=2) + 1e-12 <= metrics.mce(p, y) + 2e-12
    assert abs(metrics.signed_gap(p, y)) <= metrics.ece_hist(p, y) + 1e-12
    assert metrics.classwise_ece(p, y, reduction="sum") >= metrics.ece_hist(p, y, scope="output") - 1e-9


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 30), st.integers(1, 30))
def test_known_against_unknown(seed, n, m):
    rng = np.random.default_rng(seed)
    known, unknown = rng.normal(size=n).round(1), rng.normal(size=m).round(1)
    area = metrics.auroc(known, unknown)
    assert metrics.auroc(unknown, known) == pytest.approx(1 - area)
    assert metrics.auroc(3 * known + 1, 3 * unknown + 1) == pytest.approx(area)
    assert metrics.auroc(np.tile(known, 2), np.tile(unknown, 3)) == pytest.approx(area)
    assert metrics.auroc(rng.permutation(known), unknown) == pytest.approx(area)
    assert metrics.fpr_at_95(np.exp(known), np.exp(unknown)) == metrics.fpr_at_95(known, unknown)


KNOW_CLASSES = {
    "superclass_ece": lambda p, y, near, groups: metrics.superclass_ece(p, y, groups),
    "superclass_ece output": lambda p, y, near, groups: metrics.superclass_ece(p, y, groups, scope="output"),
    "neighbourhood_mass": lambda p, y, near, groups: metrics.neighbourhood_mass(p, y, near, k=1),
    "neighbourhood_mass rest": lambda p, y, near, groups: metrics.neighbourhood_mass(p, y, near, k=1, of="rest"),
    "mistake_severity": lambda p, y, near, groups: metrics.mistake_severity(p, y, 1 - near),
}
FUNCTIONS |= {
    metric.function.__name__: metric.function
    for metric in METRICS.values()
    if metric.function is not None
    and metric.function.__name__ not in OTHER_SHAPES | {name.split()[0] for name in (*FUNCTIONS, *KNOW_CLASSES)}
}


@settings(max_examples=15, deadline=None)
@given(cases(), st.integers(0, 2**31), st.integers(2, 3))
def test_metrics_that_know_classes_follow_their_classes_and_samples(case, seed, times):
    """Renamed classes with renamed matrices, other orders and copies of all samples change none of them."""
    logits, y = case
    rng = np.random.default_rng(seed)
    k = logits.shape[1]
    near = rng.random((k, k))
    near = (near + near.T) / 2 * (1 - np.eye(k))
    groups = np.arange(k) % 2
    p = softmax(untied(logits))
    if any(len(set(row)) < len(row) for row in p):
        return
    new_place, order = rng.permutation(k), rng.permutation(len(y))
    renamed = np.empty_like(p)
    renamed[:, new_place] = p
    old_place = np.argsort(new_place)
    for name, function in KNOW_CLASSES.items():
        expected = function(p, y, near, groups)
        same(name, function(p[order], y[order], near, groups), expected)
        same(name, function(np.tile(p, (times, 1)), np.tile(y, times), near, groups), expected)
        moved = near[np.ix_(old_place, old_place)]
        same(name, function(renamed, new_place[y], moved, groups[old_place]), expected)


@settings(max_examples=15, deadline=None)
@given(cases(), st.integers(0, 2**31))
def test_ordered_classes_may_be_counted_from_either_end(case, seed):
    logits, y = case
    p, k = softmax(logits), logits.shape[1]
    order = np.random.default_rng(seed).permutation(len(y))
    same("rps", metrics.rps(p[:, ::-1].copy(), k - 1 - y), metrics.rps(p, y))
    same("rps", metrics.rps(p[order], y[order]), metrics.rps(p, y))


def test_the_interval_of_a_mean_allows_for_wrong_answers_that_did_not_occur():
    """50 right answers of 50: one more may be wrong. A mean that this moves is a ``Loss`` or a ``Share``."""
    p = torch.full((50, 5), 0.005, dtype=torch.float64)
    p[:, 0] = 0.98
    right, one_wrong = torch.zeros(50, dtype=torch.int64), torch.zeros(50, dtype=torch.int64)
    one_wrong[0] = 1
    means = []
    for key, metric in METRICS.items():
        if key in OTHER_SHAPES - {"rps", "top_k_accuracy"} or not metric.shown:
            continue
        found = metric.statistic(Claims(p, right))
        if isinstance(found, Mean):
            means.append(key)
            assert found.ends(0.95) is not None, f"{key} needs an interval of its own, such as Loss.of_classes has"
            low, high = found.ends(0.95)
            assert low <= metric.statistic(Claims(p, one_wrong)).value() <= high, key
    assert {"accuracy", "nll", "brier", "rps"} <= set(means)
