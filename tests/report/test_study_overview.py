"""The first screen of a study: what recorded studies show, and never against the marks of their tables."""

import math
import re

import pytest

from results_records import EXPECTED, recorded
from softkin import cli
from softkin.cli import train
from softkin.lab.study import columns
from softkin.lab.study.tabulation import Row
from softkin.report import study_overview


def seen(study, **changes):
    rows = recorded(study, **changes)
    return rows, study_overview.of_rows(
        rows, seconds={"one-hot": 2.0, "mixup": 1.2}, data="some data", num_samples=5000
    )


@pytest.mark.parametrize("study", EXPECTED)
def test_it_agrees_with_the_story(study):
    _, shown = seen(study)
    kind, _, worth, use = EXPECTED[study]
    assert shown["kind"] == kind
    beginning = {"over": "claims", "under": "delivers", "fine": "is as right as"}[kind]
    assert shown["headline"].startswith(f"Trained the usual way, it {beginning}")
    assert columns.title(shown["chosen"]) == use
    titles = [choice["title"] for choice in shown["choices"]]
    assert ("Cannot retrain?" in titles) <= bool(worth)
    assert not (worth and "Can retrain?" in titles)
    assert [choice["kind"] for choice in shown["choices"]].count("recommended") == 1


def test_a_gap_beyond_the_error_of_its_rows_is_one_as_the_story_says():
    rows = recorded(next(study for study, (kind, *_) in EXPECTED.items() if kind == "over"))
    plain = next(row for row in rows if row.method == "one-hot")
    gap = abs(plain.cells["signed_gap"].value)
    shown = [
        study_overview.of_rows(rows, seconds={}, data="x", num_samples=1000, gap_error=error)["kind"]
        for error in (0.49 * gap, 0.51 * gap)
    ]
    assert shown == ["over", "fine"]


@pytest.mark.parametrize("study", EXPECTED)
def test_every_method_has_one_row_and_the_numbers_of_the_table(study):
    rows, shown = seen(study)
    drawn = {row["method"]: (group["title"], row) for group in shown["groups"] for row in group["rows"]}
    assert sorted(drawn) == sorted(row.method for row in rows)
    for row in rows:
        title, own = drawn[row.method]
        cells = row.cells
        assert own["right"] == cells["accuracy"].value
        assert own["sure"] - own["right"] == pytest.approx(cells["signed_gap"].value)
        assert own["dots"] == list(cells["ece_hist"].values)
        assert own["chance"] == cells["ece_hist"].chance
        base, calibrator = columns.parts(row.method)
        if calibrator is not None:
            assert title == (study_overview.AFTER if base == "one-hot" else study_overview.BOTH)
            assert own["cost"].endswith("+ s")
        if row.method == "one-hot":
            assert title == study_overview.NOT_CALIBRATED
    assert drawn.get("mixup", (None, {"cost": "0.6×"}))[1]["cost"] == "0.6×"


def test_repair_needs_proof_and_half_of_the_error():
    rows, shown = seen("cifar100-features-100")
    repaired = [row for row in rows if study_overview.repairs(row)]
    plain = next(row for row in rows if row.method == "one-hot")
    for row in repaired:
        difference = row.cells["ece_hist"].against["one-hot"]
        assert difference.p_value <= 0.05
        near = row.cells["ece_hist"].value <= row.cells["ece_hist"].chance + 0.01
        assert near or row.cells["ece_hist"].value <= plain.cells["ece_hist"].value / 2 + 1e-12
    off = any(shown_row(shown, row)["kind"] != "fine" for row in repaired)
    verb = "halve that, or more" if off else "repair that"
    assert f"{len(repaired)} of the {len(rows) - 1} other methods {verb}" in shown["detail"]


def shown_row(shown, row):
    return next(drawn for group in shown["groups"] for drawn in group["rows"] if drawn["method"] == row.method)


@pytest.mark.parametrize("study", EXPECTED)
def test_a_method_that_repairs_and_is_still_off_is_named(study):
    rows, shown = seen(study)
    drawn = {row["method"]: row for group in shown["groups"] for row in group["rows"]}
    others = [row for row in rows if row.method != "one-hot" and study_overview.repairs(row)]
    still = [drawn[row.method] for row in others if drawn[row.method]["kind"] != "fine"]
    most = max((abs(row["sure"] - row["right"]) for row in still), default=0.0)
    says = re.search(r" (\d+\.\d) points off", shown["detail"])
    assert (None if says is None else float(says[1])) == (round(100 * most, 1) if still else None)


def test_without_plain_training_or_without_a_metric():
    rows = recorded("digits")
    others = [row for row in rows if row.method != "one-hot"]
    shown = study_overview.of_rows(others, seconds={}, data="x", num_samples=1000)
    assert shown["baseline"] is None
    assert shown["choices"] == []
    assert "has the lowest NLL" in shown["headline"]
    assert study_overview.of_rows([], seconds={}, data="x", num_samples=1000) is None


@pytest.mark.parametrize("study", EXPECTED)
def test_no_method_is_left_unexplained(study):
    rows, shown = seen(study)
    count = [row for row in rows if row.method != "one-hot"]
    repaired = [row for row in count if study_overview.repairs(row)]
    if not repaired or len(repaired) == len(count):
        return
    said = study_overview._not_repaired(
        count, repaired, {row["method"]: row for group in shown["groups"] for row in group["rows"]}, shown["kind"]
    )
    more = sum(int(number) for number in re.findall(r"and (\d+) more", said))
    left = [row.title for row in count if row not in repaired]
    assert sum(
        re.search(rf"(?<![\w+-]){re.escape(title)}(?![\w+-])", said) is not None for title in left
    ) + more == len(left)
    assert said in shown["detail"]


def test_the_star_is_explained_where_no_winner_can_be_named():
    for study in EXPECTED:
        _, shown = seen(study)
        if "cannot name a winner" in shown["detail"]:
            title = columns.title(shown["chosen"])
            assert f"★ {title} is chosen by" in shown["detail"] or "choose by accuracy" in shown["detail"]


def test_without_a_baseline_the_lowest_nll_is_the_lowest():
    """What is recommended need not have the lowest NLL: another training is worth it only from some nats on."""
    rows = [row for row in recorded("digits") if row.method != "one-hot"]
    lowest = min(rows, key=lambda row: row.cells["nll"].value)
    for chosen in (lowest, next(row for row in rows if row is not lowest)):
        headline, detail = study_overview._without_baseline(rows, chosen)
        assert f"{lowest.title} has the lowest NLL" in headline
        assert headline.startswith(f"Use {chosen.title}") == (chosen is not lowest)
        for row in (chosen, lowest):
            assert f"{row.title}: NLL {row.cells['nll'].value:.3f}" in detail


def test_an_infinite_nll_repairs_nothing():
    rows, _ = seen("fair-banking77")
    broken = [row for row in rows if not math.isfinite(row.cells["nll"].value)]
    assert [row.method for row in broken] == ["dir-odir"]
    assert not any(study_overview.repairs(row) for row in broken)


def test_what_not_to_use_says_whether_a_calibrator_repairs_it():
    rows, shown = seen("fair-scratch")
    without = [row for row in rows if row.method not in ("learned+ts", "ps-kd+ts", "we+ts", "uniform+ts")]
    title = shown["choices"][-1]["title"]
    assert title == "Do not use one-hot without a calibrator" or title.startswith("Do not use Learned")
    worst = next(row for row in rows if title.startswith(f"Do not use {row.title}"))
    repaired = study_overview._repaired(worst, rows)
    assert ("without a calibrator" in title) == (repaired is not None)
    if repaired is not None:
        assert f"{repaired.title} brings that to" in shown["choices"][-1]["text"]
    assert study_overview._repaired(next(row for row in rows if row.method == "learned"), without) is None


@pytest.mark.parametrize(
    ("method", "action", "command"),
    [
        ("learned+ts", "Train with learned labels (Learned), then fit a temperature", "--method learned --output run/"),
        (
            "learned-we+ts",
            "Train with learned labels (Learned-WE), then fit a temperature",
            "--distance we --prior-rows 1",
        ),
        ("we", "Train with class-similarity labels (WE)", "--method similarity --distance we --output run/"),
        ("mixup", "Train with mixup", "--method mixup --output run/"),
    ],
)
def test_the_line_of_code_is_a_command_that_trains_it(method, action, command):
    row = Row(method, columns.title(method), {})
    assert study_overview._action(row) == action
    first, *_ = study_overview._code(row, "digits").splitlines()
    assert command in first
    train._session(cli.parser().parse_args(first.split()[1:])).check()


def test_a_training_that_is_not_shown_to_be_worth_it_says_why():
    choices = seen("fair-scratch", without=["ensemble+ts"])[1]["choices"]
    text = next(choice["text"] for choice in choices if choice["title"] == "Can retrain?")
    assert text.startswith(
        "Not shown to be worth it: NLL −0.066 nats against TS, p = 0.061 corrected for 19 methods. Train with mixup"
    )
