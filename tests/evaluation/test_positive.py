"""The verdict on a binary model speaks of its positive class, in terminal, JSON and page alike."""

import json
import re

import numpy as np
import pytest
import torch

from calibration_data import rare
from command_line import run
from places import EXAMPLES
from softkin import evaluation, report
from softkin.evaluation import positive, results
from softkin.evaluation.from_files import evaluate_file
from softkin.metrics import Claims
from softkin.metrics.measurement import Measured
from softkin.predictions import Predictions, load

N = 3000


def said_of(p, y, *, low=0.0):
    """Kind and headline of these probabilities; the error is given, as it has tests of its own."""
    pool = Claims(torch.tensor(np.stack([1 - p, p], axis=1)), torch.tensor(y)).of_class_1().pool("prediction")
    answers = {"doubts": [], "kind": "calibrated", "headline": "", "detail": "Fine.", "at": None}
    return positive.verdict(answers, positive.of(pool, ["no", "x"], Measured(0.02, low, 0.04, 0.95)), None)


def fraud_file(path):
    """A class of 7 %: where the model says about 75 %, far fewer are, and the answers look right on average."""
    rng = np.random.default_rng(1)
    y = rng.random(6000) < 0.07
    z = rng.normal(-1.9 + 3.0 * y, 1.2)
    p = 1 / (1 + np.exp(-(2.2 * z + 0.9)))
    lines = [f"{a:.5f},{'fraud' if b else 'fine'}" for a, b in zip(p, y, strict=True)]
    path.write_text("p_fraud,label\n" + "\n".join(lines) + "\n")
    return path


@pytest.mark.filterwarnings("ignore::softkin._io.files.Assumption")
def test_terminal_json_and_page_say_the_same(capsys, tmp_path):
    """The winning class alone would say "No sign that the confidences are wrong"."""
    source = fraud_file(tmp_path / "fraud.csv")
    page = tmp_path / "page.html"
    code, output, _ = run(capsys, "evaluate", source, "--resamples", 100, "--report", page)
    assert code == 0
    _, text, _ = run(capsys, "evaluate", source, "--resamples", 100, "--json")
    (model,) = json.loads(text)["models"]
    headline, detail = model["verdict"]["headline"], model["verdict"]["detail"]
    claimed, true = map(int, re.fullmatch(r"Where it says (\d+) %, (\d+) % are fraud", headline).groups())
    assert claimed > 2 * true
    assert f"{headline}. {detail}" in output
    shown = json.loads(page.with_suffix(".json").read_text())["variants"][0]
    assert shown["verdict"] == model["verdict"]
    hero = page.read_text()[page.read_text().index('id="headline"') :].replace("\u202f", " ")
    assert hero.startswith(f'id="headline" class="over">{headline}</h1>')
    assert model["positive"]["name"] == "fraud"
    assert f"{100 * model['positive']['expected']:.1f} % fraud" in detail
    assert model["metrics"]["ece_positive"] == shown["metrics"]["ece_positive"] == shown["positive"]["error"]
    assert "ECE of P(fraud)" in output
    assert "AUC of fraud" in output


@pytest.mark.filterwarnings("ignore::softkin._io.files.Assumption")
def test_two_models_are_compared_by_the_probability_too(capsys, tmp_path):
    """By their answers the worse one is ahead."""
    first = fraud_file(tmp_path / "first.csv")
    rows = [line.split(",") for line in first.read_text().splitlines()[1:]]
    halved = [f"{max(1e-5, float(p) ** 2):.6f},{label}" for p, label in rows]
    (tmp_path / "second.csv").write_text("p_fraud,label\n" + "\n".join(halved) + "\n")
    code, output, _ = run(capsys, "evaluate", first, tmp_path / "second.csv", "--resamples", 100)
    assert code == 0
    head, *_ = [line for line in output.splitlines() if "lowest NLL first" in line]
    assert "ECE of fraud" in head
    assert re.search(r"ECE of P\(fraud\) .*second\.csv$", output, re.MULTILINE)


def test_the_headline_quotes_a_bin_of_ten_points():
    predictions = rare()
    said = evaluation.evaluate(predictions, resamples=100)["verdict"]
    claimed, true = (int(part) / 100 for part in re.fullmatch(r"Where it says (\d+) %, (\d+) % are fraud", said["headline"]).groups())  # fmt: skip
    assert said["kind"] == ("over" if claimed > true else "under")
    p, y = predictions.probabilities[:, 1].numpy(), predictions.known_labels.numpy()
    ten = np.clip(np.ceil(10 * p) - 1, 0, 9)
    assert (claimed, true) in {(round(p[ten == m].mean(), 2), round(y[ten == m].mean(), 2)) for m in range(10)}
    fine = evaluation.evaluate(rare(power=1.0), resamples=100)["verdict"]
    assert fine["kind"] == "calibrated"
    assert fine["headline"].startswith("What it says of fraud comes true")


@pytest.mark.filterwarnings("ignore::softkin._io.files.Assumption")
def test_both_ends_of_a_small_file_are_in_the_headline():
    """500 rows: of 22 at about 95 % 15 come true, which is beyond chance although they are few."""
    said = evaluation.evaluate(load(EXAMPLES / "churn.csv"), resamples=100)["verdict"]
    assert said["headline"] == "Too extreme: where it says 4 %, 9 % are class 1, and where it says 95 %, 68 %"
    assert "As answers: on average 81.7 % sure and 73.6 % right" in said["detail"]


def test_a_calibrated_model_is_rarely_accused():
    """The headline chooses among ten bins, so each test has a tenth of the 5 %."""
    rng = np.random.default_rng(0)
    accused = 0
    for _ in range(200):
        p = rng.beta(0.6, 1.2, 1500)
        accused += said_of(p, (rng.random(1500) < p).astype(np.int64))["kind"] in ("over", "under")
    assert accused <= 15  # 10 on average at most; with bands that are not corrected, about 60


@pytest.mark.parametrize(("power", "says", "kind"), [(2.0, "Too extreme", "over"), (0.5, "Too cautious", "under")])
def test_a_model_that_errs_at_both_ends_is_called_too_extreme_or_too_cautious(power, says, kind):
    rng = np.random.default_rng(0)
    p = rng.beta(0.8, 0.8, 20_000)
    y = (rng.random(len(p)) < p).astype(np.int64)
    said = said_of(p**power / (p**power + (1 - p) ** power), y)
    found = re.fullmatch(
        rf"{says}: where it says (\d+) %, (\d+) % are x, and where it says (\d+) %, (\d+) %", said["headline"]
    )
    low, its_share, high, share = (int(part) for part in found.groups())
    assert low < 50 < high
    assert (low < its_share) == (high > share) == (power > 1)
    assert said["kind"] == kind


def test_an_error_of_many_small_parts_and_too_few_samples_are_no_calibration():
    """No bin is beyond chance by itself, or none has enough samples: the headline says which."""
    rng = np.random.default_rng(2)
    p = rng.random(400)
    y = (rng.random(400) < p).astype(np.int64)
    off = said_of(p, y, low=0.01)
    assert (off["kind"], off["headline"]) == ("mixed", "Its probability of x is off by 2.0 points on average")
    few = said_of(p[:40], y[:40])
    assert few["kind"] == "unknown"
    gap, chance = p[:40].mean() - y[:40].mean(), 1.96 * np.sqrt((p[:40] * (1 - p[:40])).sum()) / 40
    ends = [results.signed_points(gap - chance), results.signed_points(gap + chance)]
    low, high = re.search(r"may be off by (\S+) to (\S+) points", few["headline"]).groups()
    for end, found in zip(ends, (low, high), strict=True):
        assert float(found.replace("−", "-")) == pytest.approx(float(end.replace("−", "-")), abs=0.11)


def test_weights_count_as_the_rows_that_they_are_worth():
    """One row of a thousand with nearly all weight is one sample, not a thousand."""
    pair = torch.tensor([[0.1, 0.9]] * 1000, dtype=torch.float64)
    y = torch.zeros(1000, dtype=torch.int64)
    y[1:] = 1
    weight = torch.ones(1000)
    weight[0] = 1e6
    pool = Claims.of(pair, y, sample_weight=weight).of_class_1().pool("prediction")
    assert positive._off(positive.of(pool, None, Measured(0.9, 0.0, 1.0, 0.95))) == {}
    even = Claims.of(pair, 1 - y).of_class_1().pool("prediction")
    assert set(positive._off(positive.of(even, None, Measured(0.9, 0.0, 1.0, 0.95)))) == {8}


@pytest.mark.filterwarnings("ignore::softkin._io.files.Assumption")
def test_a_stream_says_what_memory_says(tmp_path, monkeypatch):
    from softkin.evaluation import from_files

    source = fraud_file(tmp_path / "fraud.csv")
    whole = evaluate_file(source, resamples=200).data
    monkeypatch.setattr(from_files, "ROWS", 1000)
    streamed = evaluate_file(source, resamples=200).data
    assert streamed["digest"] is None
    assert streamed["verdict"]["headline"] == whole["verdict"]["headline"]
    assert streamed["positive"] == pytest.approx(whole["positive"])
    a, b = (data["metrics"]["ece_positive"] for data in (streamed, whole))
    assert a["value"] == pytest.approx(b["value"], abs=1e-12)
    for end in ("low", "high"):
        assert a[end] == pytest.approx(b[end], abs=0.15 * (b["high"] - b["low"]))
    assert a["when_calibrated"]["value"] == pytest.approx(b["when_calibrated"]["value"], rel=0.3)


def test_more_classes_and_pairs_keep_their_verdict(tmp_path):
    from calibration_data import toy_predictions

    assert "positive" not in evaluation.evaluate(toy_predictions(n=100), resamples=100)
    assert report.build(toy_predictions(n=100), resamples=100)["binary"] is None
    assert [positive.name_of(name) for name in ("1", "-2.5", "fraud", "1st")] == [
        "class 1",
        "class -2.5",
        "fraud",
        "1st",
    ]


@pytest.mark.parametrize(("shift", "power", "named"), [(1.2, 1, False), (0, 0.4, True)])
def test_a_rare_class_that_is_claimed_too_often_is_no_work_of_smoothing(shift, power, named):
    """Such answers are under-confident, but a temperature does not mend them; those of a flat model it does."""
    generator = torch.Generator().manual_seed(0)
    z = 1.3 * torch.randn(3000, generator=generator, dtype=torch.float64) - (3.1 if shift else 0)
    labels = (torch.rand(3000, generator=generator, dtype=torch.float64) < z.sigmoid()).long()
    p = (power * z + shift).sigmoid()
    said = evaluation.evaluate(Predictions.from_probabilities(torch.stack([1 - p, p], 1), labels), resamples=100)
    detail = said["verdict"]["detail"]
    assert ("fit a temperature" in detail) == named
    assert " are right." in detail
