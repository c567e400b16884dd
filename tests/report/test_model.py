import json

import numpy as np
import pytest
import torch

from calibration_data import toy_predictions
from softkin import SoftkinError, calibrators, decisions, metrics, report
from softkin import predictions as predictions_module
from softkin.calibrators.held_out import folds_of
from softkin.predictions import Predictions
from softkin.report import render
from softkin.report.model import in_words, risk_coverage


@pytest.fixture(scope="module")
def predictions():
    return toy_predictions(
        class_names=[f"class {k}" for k in range(6)], sample_ids=[f"s{i}" for i in range(400)], name="toy"
    )


@pytest.fixture(scope="module")
def data(predictions):
    return report.build(predictions, resamples=200)


def test_the_numbers_are_the_librarys(predictions, data):
    p, y = predictions.probabilities, predictions.known_labels
    measured = data["variants"][0]["metrics"]
    expected = metrics.ece_hist(p, y, confidence=0.95, resamples=200)
    assert measured["ece_hist"]["value"] == expected
    assert (measured["ece_hist"]["low"], measured["ece_hist"]["high"]) == (expected.low, expected.high)
    assert measured["ece_hist_output"]["value"] == metrics.ece_hist(p, y, scope="output")
    assert measured["nll"]["value"] == metrics.nll(p, y)
    assert measured["ece_kde_output"]["floor"] == metrics.kde_floor(p)
    assert measured["aurc"]["value"] == metrics.aurc(p, y)


def test_data_are_plain_json_and_survive_it(data):
    assert json.loads(json.dumps(data, allow_nan=False)) == data


def test_calibrators_are_cross_fitted_in_two_folds(predictions):
    data = report.build(predictions, candidates=[calibrators.VectorScaling()], resamples=100)
    z, y = predictions.logits, predictions.known_labels
    actual = torch.empty(z.shape, dtype=torch.float64)
    first, two = folds_of(len(z), 2, 0)
    for held, rest in ((first, two), (two, first)):
        actual[held] = calibrators.TemperatureScaling().fit(z[rest], y[rest]).predict_proba(z[held].double())
    variant = next(v for v in data["variants"] if v["key"] == "temperature")
    assert variant["metrics"]["nll"]["value"] == pytest.approx(metrics.nll(actual, y), abs=1e-12)
    assert "two folds on this one file" in variant["note"]
    whole = calibrators.TemperatureScaling().fit(z, y).temperature_
    assert f"Fitted on the whole file, T = {whole:.3f}." in variant["note"]
    paired = metrics.compare(actual, predictions.probabilities, y, "ece_hist", scope="output", resamples=100)
    assert variant["against_raw"]["ece_hist_output"] == pytest.approx(
        {"difference": paired.difference, "low": paired.low, "high": paired.high}, abs=1e-9
    )
    assert {calibrator["name"] for calibrator in data["calibrators"]} == {"Temperature scaling", "Vector scaling"}
    nlls = [calibrator["metrics"]["nll"] for calibrator in data["calibrators"]]
    assert nlls == sorted(nlls)


def test_the_best_calibrator_is_shown_once():
    # A class that is answered too often: only a bias of its own can mend that.
    shifted = toy_predictions(n=600)
    logits = shifted.logits.clone()
    logits[:, 0] += 6
    data = report.build(Predictions(logits, shifted.labels), resamples=100)
    assert [v["key"] for v in data["variants"]] == ["raw", "temperature", "best"]
    assert data["variants"][2]["name"] == data["calibrators"][0]["name"] != "Temperature scaling"
    assert "lowest NLL" in data["variants"][2]["note"]


def test_without_candidates_or_with_few_samples_nothing_is_calibrated(predictions):
    assert [v["key"] for v in report.build(predictions, candidates=[], resamples=100)["variants"]] == ["raw"]
    assert report.build(toy_predictions(n=30), resamples=100)["calibrators"] == []


def test_a_calibrator_that_cannot_be_fitted_is_named_and_not_fatal(predictions, monkeypatch):
    def refuse(self, z, y):
        raise ValueError("cannot be fitted to this")

    monkeypatch.setattr(calibrators.PlattScaling, "fit_rows", refuse)
    data = report.build(predictions, candidates=[calibrators.PlattScaling()], resamples=100)
    assert data["calibrators"][-1] == {
        "name": "Platt scaling",
        "code": "PlattScaling()",
        "failed": "cannot be fitted to this",
    }


def test_probabilities_that_were_given_are_calibrated_as_such():
    p = toy_predictions().probabilities
    preds = Predictions.from_probabilities(p, toy_predictions().labels)
    a, b = (
        report.build(item, resamples=100)["variants"][1]["metrics"]["nll"]["value"]
        for item in (toy_predictions(), preds)
    )
    assert a == pytest.approx(b, abs=1e-6)


def test_unknown_samples_exactly_at_the_threshold_are_not_answered_as_the_rule_has_it():
    generator = torch.Generator().manual_seed(3)
    sure = 0.5 + (torch.rand(800, generator=generator, dtype=torch.float64) * 10).floor() / 20  # ten scores
    labels = (torch.rand(800, generator=generator, dtype=torch.float64) > sure + 0.05).long()
    known = Predictions.from_probabilities(torch.stack([sure, 1 - sure], 1), labels)
    data = report.build(
        known, unknown=[Predictions.from_probabilities(known.probabilities)], candidates=[], resamples=100
    )
    rule = data["variants"][0]["abstention"]["rule"]
    assert (known.probabilities.amax(1) == rule["threshold"]).any()
    assert data["unknown"][0]["answered"] == rule["answered"] < 800


def test_risk_coverage_counts_by_brute_force():
    generator = torch.Generator().manual_seed(1)
    scores = (torch.rand(300, generator=generator, dtype=torch.float64) * 20).round() / 20  # many ties
    hits = (torch.rand(300, generator=generator) < scores).double()
    curve = risk_coverage(scores, hits)
    assert curve["threshold"] == sorted(set(scores.tolist()), reverse=True)
    for t, answered, wrong in zip(*curve.values(), strict=True):
        kept = scores >= t
        assert (answered, wrong) == (int(kept.sum()), int((kept & (hits == 0)).sum()))


def test_risk_coverage_of_many_thresholds_keeps_a_few_hundred_and_both_ends():
    scores = torch.linspace(0.2, 1, 5000, dtype=torch.float64)
    curve = risk_coverage(scores, torch.ones(5000))
    assert len(curve["threshold"]) == 400
    assert curve["answered"][-1] == 5000
    assert max(np.diff(curve["answered"])) <= 13


def test_classes_agree_with_counting(predictions, data):
    p, y = predictions.probabilities, predictions.known_labels
    answer = p.argmax(1)
    classes = data["variants"][0]["classes"]
    for k in range(6):
        assert classes["answered"][k] == int((answer == k).sum())
        assert classes["right"][k] == int(((answer == k) & (y == k)).sum())
        assert sum(count for _, count, _, _ in classes["bins"][k]) == len(p)
        wrong = torch.bincount(answer[(y == k) & (answer != k)], minlength=6)
        assert [n for _, n in classes["instead"][k]] == sorted(wrong[wrong > 0].tolist(), reverse=True)[:5]
        assert all(int(wrong[j]) == n for j, n in classes["instead"][k])
        truly = torch.bincount(y[(answer == k) & (y != k)], minlength=6)
        assert all(int(truly[j]) == n for j, n in classes["truly"][k])
    assert sum(classes["ece"]) / 6 == pytest.approx(metrics.classwise_ece(p, y), abs=1e-7)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"distances": np.ones((3, 3))}, ValueError, "`distances` must cover the 6 classes of the predictions, got 3."),
        ({"distances": np.arange(36.0).reshape(6, 6)}, ValueError, "`distances` must be symmetric"),
        (
            {"images": np.zeros((3, 4, 4), np.uint8)},
            ValueError,
            "`images` must be as many as the samples: got 3 for 400 samples.",
        ),
        (
            {"images": np.full((400, 4, 4), 3, np.float32)},
            SoftkinError,
            "`images` must hold whole numbers from 0 to 255 or fractions from 0 to 1, got float32 from 3 to 3",
        ),
        ({"images": np.zeros((400, 6, 4, 5), np.uint8)}, ValueError, "with C = 1, 3 or 4, got"),
        ({"texts": ["a"]}, ValueError, "`texts` must be as many as the samples: got 1 for 400 samples."),
        ({"texts": "abc"}, TypeError, "`texts` must be a list of texts"),
        ({"confidence": 95}, ValueError, "`confidence` must be between 0 and 1, such as 0.95, got 95."),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(predictions, options, error, words):
    with pytest.raises(error, match=words.replace("(", "\\(").replace(")", "\\)")):
        report.build(predictions, **options)


def test_predictions_without_labels_are_refused():
    with pytest.raises(ValueError, match="must have labels"):
        report.build(Predictions(torch.zeros(3, 2)))


def test_perfect_answers_and_infinite_losses_are_plain_too():
    perfect = Predictions.from_probabilities(torch.eye(3)[[0, 1, 2] * 30], torch.tensor([0, 1, 2] * 30))
    data = report.build(perfect, resamples=100)
    assert data["variants"][0]["mistakes"] == []
    wrong = Predictions.from_probabilities(torch.eye(3)[[1, 1, 2] * 30], torch.tensor([0, 1, 2] * 30))
    data = report.build(wrong, candidates=[], resamples=100)
    assert data["variants"][0]["metrics"]["nll"]["value"] == "Infinity"
    json.dumps(data, allow_nan=False)


def test_one_sample_is_enough():
    json.dumps(report.build(Predictions(torch.tensor([[1.0, 0.0]]), torch.tensor([0])), resamples=100), allow_nan=False)


def test_names_of_calibrators_read_well():
    assert in_words(calibrators.TemperatureScaling()) == "Temperature scaling"
    assert (
        in_words(calibrators.EnsembleTemperatureScaling(objective="nll"))
        == "Ensemble temperature scaling (objective nll)"
    )
    assert in_words(calibrators.IsotonicCalibration(classes="pooled")) == "Isotonic calibration (classes pooled)"
    both = calibrators.TemperatureScaling() | calibrators.IsotonicCalibration()
    assert in_words(both) == "TemperatureScaling() | IsotonicCalibration()"


def test_page_and_json_are_written_together(tmp_path, data):
    html, beside = report.write(tmp_path / "deep" / "report.html", data)
    assert json.loads(beside.read_text()) == data
    assert html.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert sorted(path.name for path in html.parent.iterdir()) == ["report.html", "report.json"]


def test_nothing_is_overwritten_unasked(tmp_path, data):
    (tmp_path / "report.json").write_text("mine")
    with pytest.raises(SoftkinError, match="report.json exists already; pass force=True to overwrite it."):
        report.write(tmp_path / "report.html", data)
    assert (tmp_path / "report.json").read_text() == "mine"
    assert not (tmp_path / "report.html").exists()
    report.write(tmp_path / "report.html", data, force=True)


def test_other_endings_and_other_data_are_refused(tmp_path, data):
    with pytest.raises(ValueError, match="`path` must end in .html, got 'report.pdf'."):
        report.write(tmp_path / "report.pdf", data)
    with pytest.raises(ValueError, match="`data` must come from report.build or report.build_comparison."):
        report.write(tmp_path / "report.html", {})


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path, data):
    (tmp_path / "file").write_text("")
    with pytest.raises(SoftkinError, match="could not be written"):
        report.write(tmp_path / "file" / "report.html", data)


def test_no_text_of_the_data_reaches_the_page_as_markup(data):
    hostile = data | {"name": "</script><script>alert(1)</script>{{script}}<!--\u2028&"}
    page = render.page(hostile)
    assert "alert(1)</script>" not in page
    assert page.count("<script") == 2
    assert page.count("</script>") == 2
    assert "<title>&lt;/script&gt;" in page
    embedded = page.partition('id="data">')[2].partition("</script>")[0]
    assert json.loads(embedded) == hostile
    assert not set(embedded) & set("<>&\u2028\u2029")


def test_a_lone_surrogate_does_not_stop_the_page(tmp_path, data):
    report.write(tmp_path / "report.html", data | {"name": "\ud800"})
    assert json.loads((tmp_path / "report.json").read_bytes())["name"] == "\ud800"


def test_the_page_names_no_address(data):
    page = render.page(data)
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    for forbidden in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "fetch(",
        "XMLHttp",
        "@import",
    ):
        assert forbidden not in page


def test_pairs_have_a_page_with_groups_in_the_place_of_classes():
    rng = np.random.default_rng(0)
    s = rng.random(600)
    right = rng.random(600) < s**1.5
    names = np.where(rng.random(600) < 0.5, "small", "large").tolist()
    read = Predictions.from_probabilities(
        np.stack([1 - s, s], 1), right.astype(int), are_pairs=True, groups=names, name="judge"
    )
    page = report.build(read, resamples=100, abstain=0.3)
    assert page["pairs"]
    assert page["class_names"] == ["large", "small", "another answer"]
    raw, *others = page["variants"]
    assert raw["metrics"]["ece_hist"]["value"] == pytest.approx(metrics.ece_hist(s, right))
    assert "ece_hist_output" not in raw["metrics"]
    assert sum(raw["prediction"]["count"]) == 600
    assert raw["classes"]["answered"] == [names.count("large"), names.count("small"), 0]
    for place, name in enumerate(("large", "small")):
        own = np.array(names) == name
        assert raw["classes"]["right"][place] == right[own].sum()
        assert raw["classes"]["score_sum"][place] == pytest.approx(s[own].sum(), abs=1e-5)
    assert others[-1]["metrics"]["nll"]["value"] < raw["metrics"]["nll"]["value"]
    chosen = decisions.select(s, right, risk=0.3).chosen
    assert raw["abstention"]["rule"]["threshold"] == chosen.threshold
    text = render.page(page)
    assert "600 pairs of a confidence and an outcome" in text
    assert "confidence, correct, _ = val.arrays()" in text
    with pytest.raises(ValueError, match="no room for weights"):
        report.build(Predictions.from_probabilities(np.stack([1 - s, s], 1), right.astype(int), weights=s + 1))


@pytest.mark.filterwarnings("ignore::softkin._core.assumption.Assumption")
def test_ids_are_called_as_in_the_file(tmp_path):
    path = tmp_path / "scored.csv"
    rows = [f"C{n},{'cat' if n % 3 else 'dog'},0.7,0.3" for n in range(40)]
    path.write_text("\n".join(["customer_id,label,cat,dog", *rows]))
    some = predictions_module.load(path)
    assert report.build(some, candidates=[], resamples=100)["ids_called"] == "customer_id"
    assert some.take(torch.tensor([1, 2])).ids_called == "customer_id"
    path.write_text("\n".join(["label,cat,dog", *(row.partition(",")[2] for row in rows)]))
    assert report.build(predictions_module.load(path), candidates=[], resamples=100)["ids_called"] is None
