"""A binary model by the probability of its positive class, against scikit-learn and against counting."""

import re

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, confusion_matrix, roc_auc_score

from calibration_data import rare
from places import EXAMPLES
from softkin import decisions, metrics, report
from softkin.metrics import Claims
from softkin.metrics.measurement import Settings
from softkin.predictions import Predictions, load
from softkin.report import answers, positive

N = 3000


@pytest.fixture(scope="module")
def predictions():
    return rare()


@pytest.fixture(scope="module")
def data(predictions):
    return report.build(predictions, resamples=100)


def test_it_agrees_with_scikit_learn(predictions, data):
    p, y = predictions.probabilities[:, 1].numpy(), predictions.known_labels.numpy()
    shown = data["variants"][0]["positive"]
    assert shown["auroc"] == pytest.approx(roc_auc_score(y, p))
    assert shown["average_precision"] == pytest.approx(average_precision_score(y, p))
    assert shown["error"]["value"] == pytest.approx(metrics.ece_hist(p, y == 1))
    for threshold, alarms, caught in zip(shown["threshold"], shown["alarms"], shown["caught"], strict=True):
        _, false, _, hit = confusion_matrix(y, p >= threshold).ravel()
        assert (alarms, caught) == (hit + false, hit)


def test_ties_count_once():
    scores, hits = torch.tensor([0.9, 0.5, 0.5, 0.5, 0.1]), torch.tensor([True, True, False, False, False])
    thresholds, alarms, caught = positive.counted(scores, hits)
    assert thresholds.tolist() == pytest.approx([0.9, 0.5, 0.1])
    assert (alarms.tolist(), caught.tolist()) == ([1, 4, 5], [1, 2, 2])


def test_certified_thresholds_keep_their_share_of_false_alarms(data):
    shown = data["variants"][0]["positive"]
    for one in shown["certified"]:
        if one["rule"] is not None:
            assert one["rule"]["bound"] <= one["target"]
            assert one["rule"]["answered"] in shown["alarms"]


def test_the_least_share_of_false_alarms_is_offered(data, predictions):
    p, y = predictions.probabilities[:, 1], predictions.known_labels
    kept = [rate / 100 for rate in range(1, 100) if decisions.select(p, y == 1, risk=rate / 100).chosen]
    certified = data["variants"][0]["positive"]["certified"]
    assert [one["target"] for one in certified] == sorted({*positive.FALSE_ALARMS, kept[0]}, reverse=True)
    assert [one["target"] for one in certified if one["is_least"]] == kept[:1]
    assert next(one["rule"] for one in certified if one["is_least"]) is not None


def test_more_classes_have_none_of_it_and_one_class_alone_no_auroc():
    from calibration_data import toy_predictions

    assert report.build(toy_predictions(n=100), resamples=100)["binary"] is None
    claims = Claims(torch.full((40, 2), 0.5), torch.zeros(40, dtype=torch.int64)).of_class_1()
    assert positive.build(claims, {"value": 0.5}, Settings(15, 0.95, 100, 0), 0.95)["auroc"] is None


@pytest.mark.slow
def test_threshold_counts_and_costs_follow(browser, data, predictions, tmp_path):
    p, y = predictions.probabilities[:, 1].numpy(), predictions.known_labels.numpy()
    browser.media()
    browser.resize(1280, 900)
    page = browser.open(report.write(tmp_path / "rare.html", data)[0])
    assert page.text("#headline").replace("\u202f", " ") == data["variants"][0]["verdict"]["headline"]
    page.set("cost-missed", 10)
    page.click("[data-key='cheapest']")
    shown = data["variants"][0]["positive"]
    costs = [
        10 * (int(y.sum()) - hit) + alarms - hit for alarms, hit in zip(shown["alarms"], shown["caught"], strict=True)
    ]
    assert page.number("positive-cost") == min(costs)
    threshold = shown["threshold"][costs.index(min(costs))]
    counts = page.run("return Array.from(document.querySelectorAll('[data-key=positive-counts] [data-value]'), (n) => +n.dataset.value)")  # fmt: skip
    spared, false, missed, hit = confusion_matrix(y, p >= threshold).ravel().tolist()
    assert counts == [hit, missed, false, spared]
    page.wait("location.hash.includes('cost-missed=10') && location.hash.includes('cut=')")
    assert page.console() == []


@pytest.mark.slow
def test_long_names_and_counts_fit_a_phone(browser, tmp_path):
    made = rare(n=20_000)
    names = ["paid in time or before it", "paid after the second reminder"]
    named = Predictions(made.logits, made.labels, class_names=names, name="rare")
    browser.resize(390, 844, mobile=True)
    page = browser.open(report.write(tmp_path / "page.html", report.build(named, resamples=100))[0])
    assert page.run("return document.documentElement.scrollWidth") <= 390
    hidden = (
        "const n = document.querySelector('[data-key=positive-counts] .scroll'); return n.scrollWidth - n.clientWidth"
    )
    assert page.run(hidden) <= 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is read as the confidence of pairs")
def test_pairs_have_it_too(browser, tmp_path):
    rng = np.random.default_rng(1)
    confidence = rng.random(800)
    right = rng.random(800) < confidence**2
    lines = [f"{c:.6f},{int(r)}" for c, r in zip(confidence, right, strict=True)]
    (tmp_path / "pairs.csv").write_text("confidence,correct\n" + "\n".join(lines) + "\n")
    data = report.build(load(tmp_path / "pairs.csv"), resamples=100)
    assert (data["binary"]["positive"], data["binary"]["positives"]) == ("right", int(right.sum()))
    shown = data["variants"][0]["positive"]
    assert shown["auroc"] == pytest.approx(roc_auc_score(right, np.round(confidence, 6)))
    page = browser.open(report.write(tmp_path / "pairs.html", data)[0])
    assert page.number("positive-auroc") == pytest.approx(shown["auroc"])
    assert page.console() == []


def plain(lines):
    """Without marks, as a reader sees them."""
    return [re.sub("<[^>]*>", "", line) for line in lines]


@pytest.mark.filterwarnings("ignore::softkin.predictions.Assumption")
def test_a_calibrator_that_halves_an_error_that_is_none_of_chance_is_advised():
    """The error of 9.1 % is less than twice what chance alone shows, 4.8 %, and yet no chance; 4.2 % are left."""
    data = report.build(load(EXAMPLES / "churn.csv"), resamples=200)
    (line, *_) = plain(answers._calibration_advice(data))
    assert re.search(r"Fit ensemble temperature scaling: calibration error 9\.1 .* of the probability of class 1", line)
    fine = {**data, "variants": [dict(variant) for variant in data["variants"]]}
    fine["variants"][0]["positive"] = {
        **fine["variants"][0]["positive"],
        "error": {"value": 0.02, "low": 0.0, "high": 0.05},
    }
    (line,) = plain(answers._calibration_advice(fine))
    assert line.startswith(
        "The probability of class 1 needs no calibrator, as far as 500 samples show: its error is 2.0"
    )
    worse = {
        **fine,
        "variants": [
            fine["variants"][0] | {"positive": {"error": {"value": 0.04, "low": 0.01}}},
            *fine["variants"][1:],
        ],
    }
    (line, *_) = plain(answers._calibration_advice(worse))
    assert line.startswith("No calibrator that was tried improves the probability of class 1: its error is 4.0")
