"""Groups of rows on the page of one model: the numbers are those of the evaluation, and thresholds are shown as they are."""

import html
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from calibration_data import toy_predictions
from command_line import run
from softkin import evaluation, metrics, report
from softkin.evaluation.groups import evaluate_groups
from softkin.predictions import Predictions
from softkin.report import answers, first_screen, group_rows


def grouped(n=900, k=4):
    rows = toy_predictions(n=n, k=k, name="by site")
    names = [("north", "south", "west")[row % 3] for row in range(n)]
    return Predictions(rows.logits, rows.labels, groups=names, name="by site")


def build(rows, **options):
    known = evaluation.evaluate(rows, resamples=100)
    known["groups"] = evaluation.groups.evaluate_groups(rows, resamples=100, **options)
    return report.build(rows, evaluated=known, candidates=[], resamples=100)


def test_each_group_is_what_its_rows_alone_would_be():
    rows = grouped()
    page = build(rows)
    gaps = [abs(row["sure"] - row["right"]) for row in page["groups"]["rows"]]
    assert gaps == sorted(gaps, reverse=True)
    for row in page["groups"]["rows"]:
        mine = torch.tensor([name == row["name"] for name in rows.groups])
        p, y = rows.probabilities[mine], rows.known_labels[mine]
        assert row["right"] == pytest.approx(float((p.argmax(1) == y).double().mean()))
        assert row["sure"] == pytest.approx(float(p.amax(1).mean()))
        assert row["error"]["value"] == pytest.approx(metrics.ece_hist(p, y))
        assert sum(count for _, count, _, _ in row["bins"]) == int(mine.sum())
        assert sum(abs(score - hit) for _, _, score, hit in row["bins"]) / int(mine.sum()) == pytest.approx(
            metrics.ece_hist(p, y), abs=1e-6
        )


def test_the_first_screen_names_the_group_that_is_furthest_off():
    rows = grouped()
    south = torch.tensor([name == "south" for name in rows.groups])
    loud = Predictions(torch.where(south[:, None], 4 * rows.logits, rows.logits), rows.labels, groups=rows.groups)
    page = build(loud)
    assert page["groups"]["rows"][0]["name"] == "south"
    assert "south</bdi> is furthest off" in first_screen.first_screen(page)
    assert report.build(grouped(), candidates=[], resamples=100)["groups"] is None


def test_the_reliability_of_a_binary_model_is_that_of_its_positive_class():
    rows = grouped(k=2)
    page = build(rows)
    row = page["groups"]["rows"][0]
    mine = torch.tensor([name == row["name"] for name in rows.groups])
    assert sum(score for _, _, score, _ in row["bins"]) == pytest.approx(
        float(rows.probabilities[mine, 1].sum()), abs=1e-4
    )
    assert sum(hit for _, _, _, hit in row["bins"]) == int((rows.known_labels[mine] == 1).sum())


def test_a_group_without_a_certified_threshold_has_the_one_that_is_seen():
    page = build(grouped(n=300), risk=0.35)
    none = [row["threshold"] for row in page["groups"]["rows"] if row["threshold"]["chosen"] is None]
    assert none
    assert all(found["observed"] is None or found["observed"]["risk"] <= 0.35 for found in none)
    assert any(found["observed"] is not None for found in none)


def test_votes_have_no_groups_on_a_page():
    rows = grouped()
    known = evaluation.groups.evaluate_groups(rows, resamples=100)
    known["groups"][0]["metrics"]["accuracy"] = {"value": None, "absent": "votes"}
    assert group_rows.shown(known, rows) is None


@pytest.mark.filterwarnings("ignore")
def test_abstain_is_asked_of_each_group_and_of_all_rows(tmp_path, capsys):
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(900, generator=generator)
    scores[::50] = 0  # a score of 0 lies below every threshold but that of all answers
    right = torch.rand(900, generator=generator) < 0.5 + scores / 2
    lines = [
        f"{s:.4f},{int(r)},{'ab'[i % 2]}" for i, (s, r) in enumerate(zip(scores.tolist(), right.tolist(), strict=True))
    ]
    (tmp_path / "pairs.csv").write_text("confidence,correct,who\n" + "\n".join(lines) + "\n")
    code, output, errors = run(
        capsys, "evaluate", tmp_path / "pairs.csv", "--group", "who", "--abstain", 0.4, "--resamples", 100,
        "--report", tmp_path / "page.html",
    )  # fmt: skip
    assert (code, errors.count("JSON")) == (0, 0)
    assert "keeps 60 % right" in output
    assert "-inf" not in output
    assert (tmp_path / "page.html").is_file()


def judges(*, alike=False):
    """Pairs of three judges: one claims far too much, one too little, and the confidence of the last sorts well."""
    generator = torch.Generator().manual_seed(1)
    said = torch.rand(1800, generator=generator, dtype=torch.float64)
    names = [("loud", "shy", "sharp")[row % 3] for row in range(1800)]
    true = {"loud": 0.4 * said, "shy": 0.5 + said / 2, "sharp": torch.where(said > 0.6, 0.99, 0.3 * said)}
    right = torch.stack([said if alike else true[name] for name in ("loud", "shy", "sharp")])
    chance = right[torch.arange(1800) % 3, torch.arange(1800)]
    labels = (torch.rand(1800, generator=generator) < chance).long()
    return Predictions.from_probabilities(torch.stack([1 - said, said], 1), labels, are_pairs=True, groups=names)


def test_pairs_whose_groups_differ_are_judged_and_advised_by_group():
    page = build(judges(), risk=0.1)
    assert page["groups"]["gaps_differ"] <= 0.05
    shown = {row["name"]: row for row in page["groups"]["rows"]}
    worst = page["groups"]["rows"][0]
    over = [row for row in shown.values() if row["gap"]["low"] > 0]
    under = [row for row in shown.values() if row["gap"]["high"] < 0]
    assert over
    assert under
    verdict = page["variants"][0]["verdict"]
    gap = f"{100 * abs(worst['sure'] - worst['right']):.0f} points"
    assert verdict["headline"] == (
        f"{len(over)} of 3 groups claim{'s' * (len(over) == 1)} too much, {len(under)} too little; "
        f"furthest off is {worst['name']}, by {gap}"
    )
    assert verdict["kind"] == "mixed"
    text = first_screen.first_screen(page)
    assert "Fit a temperature" not in text
    assert "After temperature scaling" not in text
    assert "one temperature for all" in text
    rule = shown["sharp"]["threshold"]["chosen"]
    assert rule is not None
    assert f"sharp</bdi> above {100 * rule['threshold']:.6g}\u202f%" in text
    assert "No threshold" not in text
    # Its code fits a calibrator to each group, and runs.
    code = html.unescape(re.search(r"In Python</summary><pre><code>(.*?)</code>", text, re.DOTALL)[1])
    confidence, correct, _ = (part if part is None else part.numpy() for part in judges().arrays())
    known = {"confidence": confidence, "correct": correct, "groups": np.array(judges().groups)}
    exec(code, known)
    assert sorted(known["cal"]) == sorted(shown)
    assert "In the shell" not in text


def test_pairs_whose_groups_do_not_differ_are_judged_together():
    page = build(judges(alike=True))
    assert page["groups"]["gaps_differ"] > 0.05
    assert "groups" not in page["variants"][0]["verdict"]["headline"]
    assert "one temperature for all" not in first_screen.first_screen(page)


def test_of_groups_the_one_that_the_headline_names_is_listed_first():
    generator = np.random.default_rng(0)
    parts = []
    for name, gap, rows in (("large", 0.12, 4000), ("small", 0.4, 400)):
        p = generator.uniform(0.6, 1, rows)
        parts.append((p, generator.random(rows) < p - gap, [name] * rows))
    p = torch.tensor(np.concatenate([part[0] for part in parts]))
    y = torch.tensor(np.concatenate([part[1] for part in parts]).astype(np.int64))
    made = Predictions.from_probabilities(torch.stack([1 - p, p], 1), y, are_pairs=True)
    made = replace(made, groups=[name for part in parts for name in part[2]])
    known = evaluation.evaluate(made, resamples=100)
    known["groups"] = evaluate_groups(made, resamples=100)
    page = answers.of_model(report.build(made, evaluated=known, resamples=100))
    assert "furthest off is small" in page
    where = page.partition("Where not?")[2]
    assert where.index(">small<") < where.index(">large<")
    assert "The furthest off comes first." in where
