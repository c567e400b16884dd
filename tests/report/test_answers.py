"""What the page of one model says: classes that are off beyond chance, advice, words of the kinds."""

import copy
import re

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from calibration_data import toy_predictions
from command_line import run
from softkin import evaluation, report
from softkin.predictions import Predictions
from softkin.report import answers, model, render


def static(page):
    """What of a page reads without its script, as text."""
    main = page.partition("<header")[2].partition("<footer")[0]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", main)).replace("\u202f", " ")


def test_worst_classes_stand_out_beyond_chance_only(answered):
    first, data = answered
    p, y = first.probabilities, first.known_labels
    score, answer = p.max(1)
    named = answers.worst_classes(data)
    for k in range(6):
        hits, sure = (y[answer == k] == k).sum().item(), float(score[answer == k].mean())
        interval = binomtest(hits, int((answer == k).sum())).proportion_ci(1 - 0.05 / 6, method="exact")
        assert (k in named) == (not interval.low <= sure <= interval.high) or len(named) == answers.WORST
    few = report.build(toy_predictions(n=30, sharp=1.0), candidates=[], resamples=100)
    assert answers.worst_classes(few) == []
    assert "No single class stands out from sampling noise" in static(render.page(few))


@pytest.mark.parametrize(("counts", "word"), [([[1, 30], [2, 20]], "mostly"), ([[1, 25], [2, 24]], "most often")])
def test_mostly_is_said_of_at_least_half_of_the_mistakes(answered, counts, word):
    data = copy.deepcopy(answered[1])
    classes = data["variants"][0]["classes"]
    for k in answers.worst_classes(data):
        classes["answered"][k], classes["right"][k], classes["score_sum"][k] = 300, 200, 290.0
        classes["truly"][k] = counts
    said = re.sub("<[^>]*>", "", answers.of_model(data))
    assert f"When wrong (100 of 300), {word} dog {counts[0][1]}×, " in said


def test_a_calibrated_model_of_high_confidence_has_no_worst_class():
    """At 99 % sure, a mistake or two in 20 answers is chance: in at most 5 % of calibrated models is any class named."""
    random, num_classes, models = np.random.default_rng(0), 100, 300
    false_alarms = 0
    for _ in range(models):
        right = random.binomial(20, 0.99, num_classes).tolist()
        classes = {"answered": [20] * num_classes, "right": right, "score_sum": [19.8] * num_classes}
        data = {"num_classes": num_classes, "level": 0.95, "variants": [{"classes": classes}]}
        false_alarms += bool(answers.worst_classes(data))
    assert binomtest(false_alarms, models, 0.05, alternative="greater").pvalue > 0.01


def test_the_test_of_a_class_is_two_sided():
    """Of 18 answers at 50 %, 5 right ones have a tail of 4.8 %, 4 of 1.5 %; each of both tails may have 2.5 %."""
    for right, named in ((5, []), (4, [0]), (13, []), (14, [0])):
        data = {"num_classes": 1, "level": 0.95, "variants": [{"classes": _class(18, right, 9.0)}]}
        assert answers.worst_classes(data) == named


def _class(answered, right, score_sum):
    return {"answered": [answered], "right": [right], "score_sum": [score_sum]}


def test_similarity_without_a_mistake_to_explain_is_not_called_unexamined(answered):
    _, data = answered
    alike = data["similarity"] | {"mistakes": {"nearest": 5, "wrong": 0, "near": 0, "chance": 1.0}}
    assert "was not examined" not in render.page(data | {"similarity": alike})
    assert "was not examined" in render.page(data | {"similarity": None})


def test_mistakes_among_the_nearest_classes_are_counted(answered):
    first, data = answered
    points = np.random.default_rng(0).normal(size=(6, 3))
    d = np.linalg.norm(points[:, None] - points[None], axis=2)
    answer, y = first.probabilities.argmax(1).numpy(), first.known_labels.numpy()
    wrong = [(t, a) for t, a in zip(y, answer, strict=True) if t != a]
    near = sum(a in sorted((j for j in range(6) if j != t), key=lambda j: d[t, j])[:2] for t, a in wrong)
    assert data["similarity"]["mistakes"] == {"nearest": 2, "wrong": len(wrong), "near": near, "chance": 0.4}


def test_pairs_are_told_right_from_wrong():
    """Pairs without groups have no classes to list: their second answer is how well the confidence ranks."""
    generator = torch.Generator().manual_seed(0)
    confidence = torch.rand(1000, generator=generator, dtype=torch.float64)
    right = torch.rand(1000, generator=generator, dtype=torch.float64) < confidence
    both = torch.stack([1 - confidence, confidence], dim=1)
    page = report.build(Predictions.from_probabilities(both, right.long(), are_pairs=True), resamples=100)
    text = static(render.page(page))
    higher = (confidence[right][:, None] > confidence[~right]).double().mean()  # no two are equal
    assert f"In {100 * higher:.1f} % of pairs of a right and a wrong answer it is surer of the right one" in text
    sure = confidence >= 0.5
    assert f"From 50 % on {100 * right[sure].double().mean():.1f} % of its {sure.sum()} answers are right" in text
    assert "Where not?" not in text


BETTER, CHANCE = ({"difference": -0.03, "low": low, "high": high} for low, high in ((-0.04, -0.02), (-0.06, 0.01)))
WORSE = {"difference": 0.03, "low": 0.02, "high": 0.04}
FINITE_AT_LAST = {"difference": "-Infinity", "low": None, "high": None}


@pytest.mark.parametrize(
    ("nll", "ece", "before", "words"),
    [
        (CHANCE, CHANCE, 1.083, "(T = 1.419) makes no difference that 1,500 samples can show: NLL 1.083 → 1.052, "),
        (BETTER, CHANCE, 1.083, "Fit a temperature (1.42) : NLL 1.083 → 1.052, answers unchanged; calibration error "),
        (BETTER, WORSE, 1.083, "lowers the NLL, 1.083 → 1.052, but raises the calibration error (ECE), 5.9 → 3.6 %"),
        (
            BETTER,
            CHANCE,
            1.0519,
            "makes no difference that shows in three digits: NLL 1.052 → 1.052, calibration error ",
        ),
        (
            WORSE,
            CHANCE,
            1.02,
            "makes it worse: NLL 1.020 → 1.052, calibration error (ECE) 5.9 → 3.6 %, cross-fitted in two folds.",
        ),
        (FINITE_AT_LAST, CHANCE, "Infinity", "NLL ∞ (a true class had the probability 0) → 1.052, answers unchanged; "),
    ],
)
def test_a_temperature_is_judged_by_the_nll_too(answered, nll, ece, before, words):
    """A fall of the NLL beyond chance is no "no difference" because that of the calibration error may be chance."""
    data = copy.deepcopy(answered[1])
    raw, after = data["variants"] = data["variants"][:2]
    after["temperature"] = 1.4188
    after["against_raw"] |= {"nll": nll, "ece_hist": ece}
    for variant, value, error in ((raw, before, 0.0588), (after, 1.0515, 0.0362)):
        variant["metrics"]["nll"]["value"], variant["metrics"]["ece_hist"]["value"] = value, error
    assert words in static(render.page(data))


def test_a_calibrator_is_compared_with_the_temperature_by_name(answered):
    """A line "Ensemble does better: NLL 1.052 → 1.040" read as before and after; 1.052 was the temperature's."""
    data = copy.deepcopy(answered[1])
    raw, after = data["variants"][:2]
    best = copy.deepcopy(after) | {"key": "best", "name": "Ensemble temperature scaling", "code": "PlattScaling()"}
    data["variants"] = [raw, after, best]
    after["against_raw"] |= {"nll": BETTER, "ece_hist": CHANCE}
    best["against_temperature"] = {"nll": BETTER}
    after["metrics"]["nll"]["value"], best["metrics"]["nll"]["value"] = 1.0515, 1.0396
    said = static(render.page(data))
    assert "Fit ensemble temperature scaling : its NLL is 1.040, that of a temperature 1.052 (the best of" in said
    assert "Temperature scaling (T = " in said
    assert "Fit a temperature" not in said
    after["against_raw"]["ece_hist"] = BETTER
    said = static(render.page(data))
    assert "Ensemble temperature scaling does better still: its NLL is 1.040, that of a temperature 1.052 (" in said
    assert "Fit a temperature" in said


@pytest.mark.parametrize(
    ("source", "held_out", "applied", "calibrated"),
    [
        ("churn march.csv", ".csv", "&#x27;churn march.csv&#x27;", ".csv"),
        ("scores.tsv.gz", ".tsv", "scores.tsv.gz", ".tsv"),
        ("shards/*.parquet", ".parquet", "&#x27;shards/*.parquet&#x27;", ".csv"),
        ("logits.npy", ".npz", "logits.npy", ".npz"),
        ("a network", ".npz", "&#x27;a network&#x27;", ".npz"),
        (None, ".npz", "test.npz", ".npz"),
    ],
)
def test_the_code_has_files_of_the_kind_that_was_measured(answered, source, held_out, applied, calibrated):
    said = answers.of_model(answered[1] | {"source": source})
    assert f"predictions.load(&quot;validation{held_out}&quot;)" in said
    assert f"softkin calibrate fit validation{held_out} --output cal/" in said
    assert f"softkin calibrate apply cal/ {applied} --output calibrated{calibrated}" in said


def test_calibrators_have_names_for_people():
    data = report.build(toy_predictions(n=600), resamples=100)
    names = [each["name"] for each in data["calibrators"]]
    assert len(set(names)) == len(names)
    plain = [name.partition(" (")[0] for name in names]
    assert all(" (" not in name or plain.count(short) > 1 for name, short in zip(names, plain, strict=True))
    assert any("strength=" in each["code"] for each in data["calibrators"])  # what the name leaves out, the code has


def test_a_page_of_votes_takes_one_of_each_sample():
    """Headline and cards are those of all votes; charts take one vote of each sample, in proportion to the votes."""
    rows = toy_predictions(n=4000)
    shares = torch.zeros(4000, rows.num_classes, dtype=torch.float64)
    shares[torch.arange(4000), rows.known_labels] = 0.75
    shares[torch.arange(4000), (rows.known_labels + 1) % rows.num_classes] += 0.25
    voted = Predictions(rows.logits, shares)
    drawn = model.of_one_person(voted, 0)
    assert drawn.votes is None
    first = (drawn.known_labels == rows.known_labels).sum().item()
    assert binomtest(first, 4000, 0.75).pvalue > 0.001
    assert ((drawn.known_labels == rows.known_labels) | (drawn.known_labels == (rows.known_labels + 1) % 6)).all()
    page = report.build(voted, candidates=[], resamples=100)
    known = evaluation.evaluate(voted, resamples=100)
    assert page["variants"][0]["metrics"]["ece_hist"] == known["metrics"]["ece_hist"]
    assert page["variants"][0]["verdict"] == known["verdict"]
    assert sum(page["class_sizes"]) == 4000
    assert "The labels are votes." in static(render.page(page))
    with pytest.raises(ValueError, match="no room for weights"):
        report.build(Predictions(rows.logits, rows.labels, weights=torch.ones(4000)), resamples=100)


def test_a_model_that_is_mostly_wrong_is_called_so_first(tmp_path, capsys):
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(10, (800,), generator=generator)
    logits = torch.randn(800, 10, generator=generator)
    logits[torch.arange(800), labels] += 0.7
    rows = Predictions(2 * logits, labels, name="weak")
    right = float((logits.argmax(1) == labels).double().mean())
    assert right < 0.4
    rows.save(tmp_path / "weak.npz")
    assert f"Right in {100 * right:.0f} %; over-confident by " in run(capsys, "evaluate", tmp_path / "weak.npz")[1]
    page = answers.of_model(report.build(rows, resamples=100)).replace("\u202f", " ")
    assert f"Right in {100 * right:.0f} %; over-confident by " in page
    do = page.partition("What to do")[2]
    assert do.index("Improve its answers first") < do.index("Fit a temperature")
    assert page.count("Most of its answers are wrong") == 1
