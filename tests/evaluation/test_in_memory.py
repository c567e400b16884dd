"""The numbers of an evaluation are those of the metrics. Scores that tell samples of no class apart."""

import json

import numpy as np
import pytest
import torch

from command_line import run
from softkin import evaluation, metrics
from softkin.metrics import catalogue
from softkin.predictions import Predictions


def test_scores_that_are_all_but_equal_only_lose_the_interval_of_the_kernel(monkeypatch):
    scores = 1 - 1e-9 * torch.rand(100, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    sure = Predictions.from_probabilities(torch.stack([1 - scores, scores], 1), torch.ones(100, dtype=torch.int64))
    evaluated = evaluation.evaluate(sure, resamples=100)["metrics"]
    assert evaluated["ece_kde"].keys() == {"value", "no_interval"}
    assert "a bandwidth of at least" in evaluated["ece_kde"]["no_interval"]
    assert evaluated["ece_kde"]["value"] == pytest.approx(0, abs=1e-8)
    assert evaluated["ece_hist"]["high"] < 0.05


VARIANTS = {
    "top_5_accuracy": ("top_k_accuracy", {"k": 5}),
    "ece_hist_output": ("ece_hist", {"scope": "output", "n_bins": 12}),
    "ece_kde_output": ("ece_kde", {"scope": "output"}),
}
"""What to call for the metrics that are others with options"""


def test_the_numbers_are_those_of_the_metrics(over_confident):
    evaluated = evaluation.evaluate(over_confident, n_bins=12, confidence=0.9, resamples=200, seed=5, kde_interval=True)
    shown_metrics = catalogue.shown("evaluate", over_confident.num_classes)
    assert list(evaluated["metrics"]) == [metric.key for metric in shown_metrics]
    p, y = over_confident.probabilities, over_confident.known_labels
    for metric in shown_metrics:
        key = metric.key
        name, options = VARIANTS.get(key, (key, metric.with_bins(12)))
        expected = getattr(metrics, name)(p, y, confidence=0.9, resamples=200, seed=5, **options)
        shown = evaluated["metrics"][key]
        assert shown["value"] == pytest.approx(expected.value, abs=1e-12), key
        assert (shown["low"], shown["high"]) == (expected.low, expected.high)
        if metric.chance:
            chance = metrics.when_calibrated(p, name, confidence=0.9, draws=400, **options)
            assert shown["when_calibrated"]["value"] == pytest.approx(chance, rel=0.1, abs=0.006), key
    assert evaluated["metrics"]["ece_kde_output"]["floor"] == pytest.approx(metrics.kde_floor(p))
    measured = evaluation.evaluate(over_confident.take(torch.arange(1)), resamples=100)["metrics"]
    assert measured["ece_hist"]["high"] == measured["mce"]["high"] <= 1
    assert evaluated["verdict"]["kind"] == "over"
    assert evaluated["num_samples"] == sum(evaluated["reliability"]["count"]) == 400
    json.dumps(evaluated, allow_nan=False)


def test_every_ece_has_what_calibration_would_show_beside_it(over_confident):
    evaluated = evaluation.evaluate(over_confident, resamples=100)["metrics"]
    for key, first in evaluated.items():
        if "ece" in key or "kde" in key or key == "mce":
            assert "when_calibrated" in first or "floor" in first, key
    assert "low" not in evaluated["ece_kde_output"]
    assert evaluated["signed_gap"]["value"] > 0


def test_a_probability_of_zero_that_came_true_is_infinite_and_still_json():
    data = Predictions.from_probabilities(np.array([[1.0, 0.0], [0.5, 0.5], [0.2, 0.8]]), np.array([1, 0, 1]))
    evaluated = evaluation.evaluate(data, resamples=100)
    assert evaluated["metrics"]["nll"]["value"] == "Infinity"
    json.dumps(evaluated, allow_nan=False)


def test_votes_are_measured_beside_the_model():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), 200)
    votes = rng.multinomial(5, np.ones(4) / 4, 200)
    votes[:50] = [5, 0, 0, 0]
    read = Predictions.from_probabilities(p, votes)
    data = evaluation.evaluate(read, resamples=100)
    q = votes / 5
    entropy = -(q * np.log(np.where(q > 0, q, 1))).sum(1)
    assert data["people"]["entropy"] == pytest.approx(entropy.mean())
    assert data["people"]["unanimous"] == pytest.approx((q.max(1) == 1).mean())
    assert data["metrics"]["nll"]["value"] == pytest.approx(metrics.nll(p, votes))
    assert "true or false" in data["metrics"]["debiased_ece"]["absent"]
    assert read.known_labels.tolist() == votes.argmax(1).tolist()


def test_votes_from_a_file_of_their_own(tmp_path):
    rng = np.random.default_rng(1)
    p, votes = rng.dirichlet(np.ones(3), 60), rng.multinomial(4, np.ones(3) / 3, 60)
    np.savez(tmp_path / "p.npz", probs=p)
    np.savez(tmp_path / "votes.npz", votes=votes)
    data = evaluation.evaluate_file(tmp_path / "p.npz", labels=tmp_path / "votes.npz", resamples=100).data
    assert data["metrics"]["brier"]["value"] == pytest.approx(metrics.brier(p, votes))


def test_scores_of_the_other_class_are_noticed():
    rng = np.random.default_rng(2)
    s = rng.random(300)
    y = (rng.random(300) < s).astype(int)
    two = np.stack([1 - s, s], 1)
    assert "warnings" not in evaluation.evaluate(Predictions.from_probabilities(two, y), resamples=100)
    turned = evaluation.evaluate(Predictions.from_probabilities(two, 1 - y), resamples=100)
    assert "are the scores those of the other class?" in turned["warnings"][0]


def test_scores_tell_samples_of_no_class_apart(tmp_path, capsys):
    """Members that agree about known samples and not about unknown ones: by hand, in the JSON and in words."""
    generator = torch.Generator().manual_seed(0)
    p = torch.rand(3, 40, 4, generator=generator).softmax(2).double()
    labels = p.mean(0).argmax(1)
    labels[:10] = (labels[:10] + 1) % 4
    agreeing = p[:1].expand(3, -1, -1) * torch.tensor([0.99, 1.0, 1.01])[:, None, None]
    known = Predictions(p[0].log(), labels, members=agreeing / agreeing.sum(2, keepdim=True))
    unknown = Predictions(p.mean(0).log(), members=p)
    known.save(tmp_path / "test.npz")
    unknown.save(tmp_path / "ood.npz")
    command = ("evaluate", tmp_path / "test.npz", "--ood", tmp_path / "ood.npz")
    (evaluated,) = json.loads(run(capsys, *command, "--json")[1])["models"]
    (messages,) = evaluated["out_of_distribution"]
    information = known.mutual_information, unknown.mutual_information
    pairs = [(a, b) for a in information[0].tolist() for b in information[1].tolist()]
    expected = sum((a < b) + 0.5 * (a == b) for a, b in pairs) / len(pairs)
    assert messages["num_samples"] == 40
    assert messages["scores"]["mutual_information"]["auroc"] == pytest.approx(expected)
    assert messages["scores"]["mutual_information"]["auroc"] > 0.9 > messages["scores"]["confidence"]["auroc"]
    assert evaluated["mutual_information"]["mean"] == pytest.approx(float(information[0].mean()))
    assert set(evaluated["mutual_information"]["auroc_of_errors"]) == {"confidence", "mutual_information"}
    assert "by the members' mutual information AUROC" in run(capsys, *command)[1]
    run(capsys, *command, "--report", tmp_path / "page.html")
    page = json.loads((tmp_path / "page.json").read_text())
    assert page["out_of_distribution"] == evaluated["out_of_distribution"]
    assert page["mutual_information"] == evaluated["mutual_information"]


def test_samples_of_no_class_go_with_one_model(tmp_path, capsys):
    Predictions(torch.zeros(3, 2), torch.tensor([0, 1, 0])).save(tmp_path / "a.npz")
    Predictions(torch.zeros(3, 4)).save(tmp_path / "b.npz")
    a, b = tmp_path / "a.npz", tmp_path / "b.npz"
    assert "--ood needs a single FILE, got 2" in run(capsys, "evaluate", a, a, "--ood", b)[2]
    words = "b.npz has 4 classes and a.npz has 2; they must be from the same model"
    assert words in run(capsys, "evaluate", a, "--ood", b)[2]
