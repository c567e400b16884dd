"""The first screen of several models: accuracy, NLL and verdicts together, before and after a temperature."""

from dataclasses import replace

import pytest
import torch

from calibration_data import toy_predictions
from command_line import run
from softkin import calibrators, metrics, report
from softkin.calibrators.held_out import cross_fit
from softkin.evaluation.comparison import aligned
from softkin.predictions import Predictions
from softkin.report import overview


@pytest.fixture(scope="module")
def seen(several):
    return report.build_models(several, resamples=100)["overview"]


def test_rows_come_by_nll_with_values_after_scaling(several, seen):
    rows = seen["groups"][0]["rows"]
    assert [row["nll"] for row in rows] == sorted(row["nll"] for row in rows)
    for row in rows:
        model = aligned(several[0], several[int(row["method"][1:])])
        y = model.known_labels
        p = cross_fit(calibrators.TemperatureScaling(), model.logits, y, folds=2, from_probabilities=False, seed=0)
        assert row["after"]["nll"] == pytest.approx(metrics.nll(p, y))
        assert row["after"]["error"] == pytest.approx(metrics.ece_hist(p, y))
        assert row["after"]["sure"] == pytest.approx(float(p.amax(dim=1).mean()))
        assert row["right"] == pytest.approx(float((model.probabilities.argmax(1) == y).double().mean()))
        assert row["sure"] == pytest.approx(float(model.probabilities.amax(1).mean()))


def test_a_model_that_is_honest_but_useless_is_not_recommended():
    good = toy_predictions(n=1500, k=10, name="good")
    uniform = Predictions(torch.zeros(1500, 10), good.labels, name="a coin")  # calibrated, and right in a tenth
    seen = report.build_models([uniform, good], resamples=100)["overview"]
    assert seen["headline"].startswith("Use good")
    assert seen["chosen"] == "m1"
    last = seen["choices"][-1]
    assert (last["kind"], last["title"]) == ("avoid", "Do not use a coin")
    assert last["text"].startswith("Honest, but it is right in ")


def test_a_gap_counts_if_it_is_more_than_chance_and_more_than_a_point():
    assert overview.kind_of(0.05, 0.01) == "over"
    assert overview.kind_of(-0.05, 0.01) == "under"
    assert overview.kind_of(0.05, 0.03) == "fine"
    assert overview.kind_of(0.009, 0.0) == "fine"


def test_few_samples_have_no_values_after_scaling():
    few = [toy_predictions(n=40, name=name) for name in "ab"]
    seen = report.build_models(few, resamples=100)["overview"]
    assert all("after" not in row for row in seen["groups"][0]["rows"])


def binary(n=4000, share=0.1, sharp=1.0, seed=0, name="net", zeros=False, noise=1.0, more=0.0):
    """Scores of a rare class; the truth has the log odds of ``sharp`` = 1."""
    generator = torch.Generator().manual_seed(0)
    odds = 2 * torch.randn(n, generator=generator) + torch.logit(torch.tensor(share)) - 1
    y = (torch.rand(n, generator=generator) < odds.sigmoid()).long()
    own = odds + (noise - 1) * torch.randn(n, generator=torch.Generator().manual_seed(seed))
    p = (sharp * own + more).sigmoid().double()
    if zeros:
        p[y.nonzero()[0]] = 0.0
    return Predictions.from_probabilities(torch.stack([1 - p, p], 1), y, name=name, class_names=["no", "fraud"])


def test_binary_models_are_judged_by_their_surest_alarms():
    calm, loud = binary(name="calm"), binary(more=1.5, name="loud")
    seen = report.build_models([loud, calm], resamples=100)["overview"]
    rows = {row["method"]: row for row in seen["groups"][0]["rows"]}
    for key, model in (("m0", loud), ("m1", calm)):
        y, s = model.known_labels, model.probabilities[:, 1]
        first = s.argsort(descending=True)[: int(y.sum())]  # no ties here
        assert rows[key]["right"] == pytest.approx(float((y[first] == 1).double().mean()))
        assert rows[key]["sure"] == pytest.approx(float(s[first].mean()))
    assert (rows["m0"]["kind"], rows["m1"]["kind"]) == ("over", "fine")
    assert seen["words"]["rows"] == int(calm.known_labels.sum())
    assert "surest alarms (fraud)" in seen["detail"]


def test_an_error_that_cancels_out_is_said_as_well():
    seen = report.build_models([binary(sharp=3.0, name="steep"), binary(sharp=3.1, name="steeper")], resamples=100)
    assert {row["kind"] for row in seen["overview"]["groups"][0]["rows"]} == {"fine"}  # too high here, too low there
    assert "but the calibration error of steep and steeper is more than chance" in seen["overview"]["detail"]


def test_equal_scores_share_what_is_left():
    y = torch.tensor([1, 1, 0, 0, 0, 0])
    p = torch.tensor([0.9, 0.5, 0.5, 0.5, 0.1, 0.1], dtype=torch.float64)
    model = Predictions.from_probabilities(torch.stack([1 - p, p], 1), y)
    right, sure, rows = overview._surest(model, model.probabilities)
    assert (right, sure, rows) == (pytest.approx((1 + 1 / 3) / 2), pytest.approx(0.7), 2)


def test_better_answers_outweigh_what_a_temperature_repairs():
    worse, better = binary(noise=4.0, sharp=0.3, name="worse"), binary(zeros=True, name="better")
    seen = report.build_models([worse, better], resamples=100)["overview"]
    assert seen["headline"].startswith("Use better")
    titles = [choice["title"] for choice in seen["choices"]]
    assert not any(title.startswith("Do not use better") for title in titles)  # what is recommended is not warned of
    assert "NLL ∞ → " in seen["choices"][0]["text"]


def test_a_model_that_is_warned_of_is_not_an_option():
    """An infinite NLL rules a model out where no calibrator may follow, however small its calibration error is."""
    best, other = binary(sharp=2.0, name="best"), binary(noise=3.0, sharp=0.9, zeros=True, name="certain")
    seen = report.build_models([best, other], resamples=100)["overview"]
    options = [choice["text"] for choice in seen["choices"] if choice["kind"] == "option"]
    assert seen["choices"][-1]["title"] == "Do not use certain as it is"
    assert not any(text.startswith("certain: error") for text in options)


def test_a_temperature_is_advised_only_where_it_helps():
    def row(error, nll):
        return {"error": 0.01, "nll": 0.2, "after": {"error": error, "nll": nll}}

    assert not overview._helps(row(0.012, 0.19))
    assert overview._helps(row(0.005, 0.19))
    assert not overview._helps(row(0.005, 0.1999))  # nothing that three digits show


def test_what_is_best_with_a_temperature_is_recommended_with_one():
    """Both get the advice to fit one, so the model that is then behind must not be the recommended one."""
    generator = torch.Generator().manual_seed(0)
    z = 1.5 * torch.randn(3000, 5, generator=generator, dtype=torch.float64)
    y = torch.multinomial(z.softmax(1), 1, generator=generator)[:, 0]
    moody = z * torch.randn(3000, 1, generator=generator, dtype=torch.float64).mul(0.6).exp()  # the same answers
    models = [Predictions(0.8 * moody, y, name="modest"), Predictions(2.2 * z, y, name="loud")]
    seen = report.build_models(models, resamples=200)["overview"]
    rows = {row["method"]: row for row in seen["groups"][0]["rows"]}
    assert rows["m0"]["nll"] < rows["m1"]["nll"]
    assert rows["m0"]["after"]["nll"] > rows["m1"]["after"]["nll"]
    assert seen["chosen"] == "m1"
    assert seen["headline"].startswith("Use loud")
    assert seen["choices"][0]["title"] == "Use loud, and fit a temperature"
    assert "No calibrator in production?" in [choice["title"] for choice in seen["choices"]]
    assert not any(choice["title"] == "Every model gets a temperature?" for choice in seen["choices"])


def test_temperatures_are_fitted_once_for_terminal_and_page(tmp_path, capsys, monkeypatch):
    from softkin.calibrators import TemperatureScaling

    count, fit = [], TemperatureScaling.fit
    monkeypatch.setattr(
        TemperatureScaling, "fit", lambda self, *given, **more: count.append(1) or fit(self, *given, **more)
    )
    for name, sharp in (("a", 1.0), ("b", 2.0)):
        model = toy_predictions(n=300, name=name)
        Predictions(sharp * model.logits, model.labels).save(tmp_path / f"{name}.npz")
    files = [tmp_path / "a.npz", tmp_path / "b.npz"]
    code, _, errors = run(capsys, "evaluate", *files, "--resamples", 100, "--report", tmp_path / "page.html")
    assert code == 0, errors
    assert len(count) == 2 * 3  # for each model two folds, and all rows for the T that the page names


def test_a_finite_nll_is_not_called_significantly_ahead_of_an_infinite_one():
    p = torch.full((60, 3), 1 / 3, dtype=torch.float64)
    labels = torch.arange(60) % 3
    wrong = p.clone()
    wrong[0] = torch.tensor([0.0, 0.5, 0.5])
    models = [
        Predictions.from_probabilities(p, labels, name="a"),
        Predictions.from_probabilities(wrong, labels, name="b"),
    ]
    text = str(report.build_models(models, resamples=100))
    assert "that of b is infinite, as a true class got the probability 0" in text
    assert "significantly ahead" not in text


def test_a_calibrated_model_is_recommended_without_a_second_calibrator():
    """Even if a temperature would help on these samples: it says what calibrated it, and to fit that again."""
    sure = toy_predictions(n=1500, k=10, sharp=3.0, name="good")
    coin = Predictions(torch.zeros(1500, 10), sure.labels, name="a coin")
    plain = report.build_models([coin, sure], resamples=100)["overview"]
    assert "fit a temperature" in plain["choices"][0]["title"]
    seen = report.build_models([coin, replace(sure, calibrated_by="beta calibrator")], resamples=100)["overview"]
    assert seen["choices"][0]["title"] == "Use good"
    assert seen["choices"][0]["code"] is None
    assert (
        "Calibrated already, by the beta calibrator; to remove what is left, fit a new calibrator to" in seen["detail"]
    )
    assert "A temperature brings" not in seen["detail"]
    fitted = toy_predictions(n=1500, k=10, sharp=1.0, name="fitted")
    fine = report.build_models([coin, replace(fitted, calibrated_by="beta calibrator")], resamples=100)["overview"]
    assert "Calibrated already" not in fine["detail"]  # which says nothing about the comparison
    assert "With T" in plain["choices"][0]["text"]
    assert "With T" not in seen["choices"][0]["text"]
    assert "significantly ahead of the other" in seen["detail"]
