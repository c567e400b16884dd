"""The verdict says what the intervals allow."""

import pytest

from softkin import metrics
from softkin.evaluation import results


@pytest.mark.parametrize(
    ("gap", "ece", "kind", "words"),
    [
        ((0.14, 0.13, 0.15), (0.14, 0.13, 0.15), "over", "Over-confident by 14 points"),
        (
            (-0.05, -0.06, -0.04),
            (0.05, 0.04, 0.06),
            "under",
            "Under-confident by 5.0 points on average, but too sure at 90 %",
        ),
        (
            (0.01, -0.01, 0.03),
            (0.05, 0.04, 0.06),
            "mixed",
            "Right on average, but off by 5.0 points from one answer to the next",
        ),
        ((0.01, -0.01, 0.029), (0.02, 0.0, 0.04), "calibrated", "No sign that the confidences are wrong"),
        ((0.01, -0.031, 0.02), (0.02, 0.0, 0.04), "unknown", "No evidence either way"),
        ((0.0004, 0.0003, 0.0005), (0.0004, 0.0003, 0.0005), "calibrated", "No sign that the confidences are wrong"),
    ],
)
def test_the_sentence_says_what_the_intervals_allow(gap, ece, kind, words):
    cells = {"count": [0] * 300, "hit_sum": [0] * 300, "score_sum": [0.0] * 300}
    cells["count"][269], cells["hit_sum"][269], cells["score_sum"][269] = 100, 76, 90.0
    said = results.verdict(metrics.Interval(*gap, 0.95), metrics.Interval(*ece, 0.95), cells)
    assert (said["kind"], said["headline"]) == (kind, words)
    assert said["detail"].startswith(
        "On average 90.0 % sure and 76.0 % right: of the answers given at about 90 %, 76 % are right."
    )
    assert ("from −3.1 to +2.0 points" in said["detail"]) == (kind == "unknown")


def test_the_window_of_the_sentence_moves_to_where_answers_are():
    cells = {"count": [0] * 300, "hit_sum": [0] * 300}
    assert results.window(cells) is None
    cells["count"][284], cells["count"][285] = 29, 1000  # the last cell of the window around 90 %, the first beyond
    assert results.window(cells) is None
    cells["count"][284], cells["hit_sum"][284] = 30, 15
    assert results.window(cells) == (90, 0.5, 30)
    cells["count"][284], cells["count"][150] = 0, 40
    assert results.window(cells) == (50, 0.0, 40)


@pytest.mark.parametrize(
    ("gap", "trained", "named"), [(-0.13, True, True), (-0.13, False, False), (-0.01, True, False)]
)
def test_a_classifier_that_claims_too_little_hears_why(gap, trained, named):
    cells = {"count": [0] * 300, "hit_sum": [0] * 300, "score_sum": [0.0] * 300}
    cells["count"][269], cells["hit_sum"][269], cells["score_sum"][269] = 100, 95, 82.0
    near = metrics.Interval(gap, gap - 0.005, gap + 0.005, 0.95)
    said = results.verdict(near, metrics.Interval(0.13, 0.12, 0.14, 0.95), cells, trained=trained)
    assert said["kind"] == "under"
    assert ("do not smooth further" in said["detail"]) == named
    assert ("short training" in said["detail"]) == named  # few epochs leave a plain network under-confident too


@pytest.mark.parametrize(("hits", "more"), [(88, ""), (86, ""), (80, ""), (70, " on average, but too sure at 90 %")])
def test_the_headline_says_where_the_average_misleads(hits, more):
    """Only if the answers at 90 % are off in the other direction by three points and three standard errors."""
    cells = {"count": [0] * 300, "hit_sum": [0] * 300, "score_sum": [0.0] * 300}
    cells["count"][269], cells["hit_sum"][269], cells["score_sum"][269] = 100, hits, 90.0
    under = metrics.Interval(-0.1, -0.12, -0.08, 0.95), metrics.Interval(0.12, 0.1, 0.14, 0.95)
    assert results.verdict(*under, cells)["headline"] == f"Under-confident by 10 points{more}"
    over = metrics.Interval(0.1, 0.08, 0.12, 0.95), metrics.Interval(0.12, 0.1, 0.14, 0.95)
    assert results.verdict(*over, cells)["headline"] == "Over-confident by 10 points"
    cells["hit_sum"][269] = 99
    assert results.verdict(*over, cells)["headline"] == "Over-confident by 10 points on average, but too modest at 90 %"
