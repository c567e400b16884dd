"""The first screen, the verdict, several models, and what the command line hands on to the page."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from calibration_data import toy_predictions
from command_line import run
from softkin import decisions, diagrams, distances, evaluation, metrics, report
from softkin.predictions import Predictions
from softkin.report import render


def static(page):
    """What of a page reads without its script, as text."""
    main = page.partition("<header")[2].partition("<footer")[0]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", main)).replace("\u202f", " ")


@pytest.fixture
def forty(tmp_path):
    """40 answers, 97.3 % sure, all right: by chance, or because the model is under-confident; nobody can tell."""
    p = torch.full((40, 4), 0.009, dtype=torch.float64)
    p[torch.arange(40), torch.arange(40) % 4] = 0.973
    path = tmp_path / "forty.npz"
    Predictions.from_probabilities(p, torch.arange(40) % 4).save(path)
    return path


def test_forty_right_answers_are_no_evidence_in_terminal_json_and_page(forty, tmp_path, capsys):
    page = tmp_path / "page.html"
    code, out, _ = run(capsys, "evaluate", forty, "--resamples", "100", "--report", page)
    assert code == 0
    assert "No evidence either way. On average 97.3 % sure and 100.0 % right" in out
    assert "nder-confident" not in out
    code, out, _ = run(capsys, "evaluate", forty, "--resamples", "100", "--json")
    assert json.loads(out)["models"][0]["verdict"]["kind"] == "unknown"
    text = static(page.read_text())
    assert "No evidence either way" in text
    assert "nder-confident" not in text
    assert "40 samples cannot tell: the gap may be anywhere from −2.7 to +" in text
    assert json.loads(page.with_suffix(".json").read_text())["variants"][0]["verdict"]["kind"] == "unknown"


@pytest.mark.parametrize("n", [40, 20_000])
def test_perfect_answers_are_never_under_confident(n):
    p = torch.full((n, 3), 0.00002)
    p[:, 0] = 0.99996
    verdict = evaluation.evaluate(Predictions.from_probabilities(p, torch.zeros(n, dtype=torch.int64)), resamples=100)
    assert verdict["verdict"]["kind"] == ("unknown" if n == 40 else "calibrated")


def test_the_page_shows_the_bins_and_the_threshold_that_were_asked_for(tmp_path, capsys):
    file, page = tmp_path / "p.npz", tmp_path / "page.html"
    many = toy_predictions(n=3000, k=3, sharp=1.5)
    many.save(file)
    options = ("--resamples", "100", "--abstain", "0.2", "--abstain-confidence", "0.9", "--n-bins", "30", "--json")
    code, out, _ = run(capsys, "evaluate", file, *options, "--report", page)
    assert code == 0
    said, shown = json.loads(out)["models"][0], json.loads(page.with_suffix(".json").read_text())
    chosen = said["abstention"]["chosen"]
    raw = shown["variants"][0]
    assert raw["abstention"]["rule"] == chosen
    assert raw["abstention"]["text"] == said["abstention"]["text"]
    assert chosen["answered"] in raw["risk_coverage"]["answered"]
    assert shown["abstain"] == {"target": 0.2, "confidence": 0.9, "asked": True}
    assert shown["n_bins"] == 30
    assert raw["metrics"]["ece_hist"]["value"] == said["metrics"]["ece_hist"]["value"]
    assert raw["metrics"]["ece_hist"]["value"] == metrics.ece_hist(many.probabilities, many.known_labels, n_bins=30)
    assert f"answer only above {100 * chosen['threshold']:.6g} %" in static(page.read_text())


def test_the_lead_is_not_cut():
    """With two classes, few wrong answers and a calibrator of a long name it is longest."""
    by, p = "structured-matrix (strength 1) calibrator", torch.linspace(0.001, 0.999, 900, dtype=torch.float64)
    y = torch.rand(900, generator=torch.Generator().manual_seed(0)) < 0.25 + 0.5 * p
    rows = Predictions.from_probabilities(torch.stack([1 - p, p], dim=1), y.long(), calibrated_by=by)
    data = report.build(rows, candidates=[], resamples=100)
    end = (
        f"by the {by}; to remove what is left, fit a new calibrator to more of the model's own scores, not a second one"
    )
    assert data["variants"][0]["verdict"]["detail"].endswith(f"{end} on top.")
    lead = render.page(data).partition('<p class="lead">')[2].partition("</p>")[0]
    assert lead.replace("&#x27;", "'").endswith(f"{end} on top.")


def test_a_number_of_bins_that_no_slider_offers_is_shown_too():
    preds = toy_predictions()
    data = report.build(preds, n_bins=17, candidates=[], resamples=100)
    cells = data["variants"][0]["prediction"]["exact"]["17"]
    error = sum(abs(s - h) for s, h in zip(cells["score_sum"], cells["hit_sum"], strict=True)) / len(preds)
    assert error == pytest.approx(metrics.ece_hist(preds.probabilities, preds.known_labels, n_bins=17), abs=1e-12)
    assert 17 in data["bins"]
    assert len(data["variants"][0]["prediction"]["bands"]["17"][0]) == 17


def test_a_threshold_is_certified_although_nobody_asked():
    preds = toy_predictions(n=2000, k=3)
    data = report.build(preds, candidates=[], resamples=100)
    score, answer = preds.probabilities.max(1)
    expected = decisions.select(score, answer == preds.known_labels, risk=data["abstain"]["target"])
    assert data["abstain"]["asked"] is False
    assert data["variants"][0]["abstention"]["text"] == str(expected)


def test_a_rate_that_no_threshold_keeps_is_answered_with_the_least_that_one_keeps():
    preds = toy_predictions(n=2000, k=3)
    data = report.build(preds, candidates=[], resamples=100, abstain=0.01)
    score, answer = preds.probabilities.max(1)
    least = decisions.select(score, answer == preds.known_labels, risk=0.01).least
    raw = data["variants"][0]
    assert (raw["abstention"]["rule"], raw["abstention"]["least"]) == (None, least)
    assert [one["target"] for one in raw["certified"] if one["is_least"]] == [least]
    assert f"The least whole percent that one keeps is {100 * least:g}\u202f%." in render.page(data)


def test_three_answers_read_without_a_script(answered):
    _, data = answered
    text = static(render.page(data))
    temperature = data["variants"][1]["temperature"]
    before, after = (data["variants"][place]["metrics"]["ece_hist"]["value"] for place in (0, 1))
    for words in (
        "Can I trust it?",
        "Where not?",
        "What to do",
        data["variants"][0]["verdict"]["headline"],
        f"Fit a temperature ({temperature:.2f}) : calibration error {100 * before:.1f} → {100 * after:.1f} %",
        f"Divide the logits by {temperature:.3f}.",
        "calibrators.TemperatureScaling()",
        "softkin calibrate apply cal/ &#x27;my file&#x27;&quot;&#x27;&quot;&#x27;s.npz&#x27;",
        "of the wrong answers are among the 2 classes most like the true one",
        "NLL (nats)",
    ):
        assert words in text, words
    assert "<i>fox" not in render.page(data)


def test_the_command_writes_one_page_of_several_files(several, tmp_path, capsys):
    files = [tmp_path / f"{model.name}.npz" for model in several]
    for first, file in zip(several, files, strict=True):
        first.save(file)
    page = tmp_path / "page.html"
    code, out, err = run(capsys, "evaluate", *files, "--resamples", "100", "--report", page)
    assert (code, err) == (0, "")
    assert f"Wrote {page}" in out
    text = static(page.read_text())
    for name in ("one.npz", "two.npz", "three.npz"):
        assert name in text


def test_images_texts_names_and_distances_come_from_the_command_line(tmp_path, capsys):
    from PIL import Image

    preds = toy_predictions(n=60, k=3, sample_ids=[f"s{row}" for row in range(60)])
    preds.save(tmp_path / "p.npz")
    folder = tmp_path / "pictures" / "deep"
    folder.mkdir(parents=True)
    for row in range(60):
        Image.fromarray(np.full((8, 8, 3), row, np.uint8)).save(folder / f"s{row}.png")
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": f"text {row}"}) + "\n" for row in range(60)))
    (tmp_path / "names.txt").write_text("cat\ndog\nowl\n")
    distances.save(
        tmp_path / "d.safetensors",
        1 - torch.eye(3, dtype=torch.float64),
        class_names=["owl", "cat", "dog"],
        source="toy",
    )
    page = tmp_path / "page.html"
    code, _, err = run(
        capsys, "evaluate", tmp_path / "p.npz", "--resamples", "100", "--report", page, "--images", tmp_path / "pictures",
        "--texts", tmp_path / "texts.jsonl", "--class-names", tmp_path / "names.txt", "--distances", tmp_path / "d.safetensors",
    )  # fmt: skip
    assert (code, err) == (0, "")
    data = json.loads(page.with_suffix(".json").read_text())
    assert data["class_names"] == ["cat", "dog", "owl"]
    assert data["similarity"] is not None
    assert len(data["samples"]) == 60
    assert data["samples"]["7"]["text"] == "text 7"
    assert data["samples"]["7"]["image"].startswith("data:image/png")
    code, _, err = run(capsys, "evaluate", tmp_path / "p.npz", "--texts", tmp_path / "texts.jsonl")
    assert (code, err.strip()) == (
        2,
        "softkin evaluate: --texts is for the page of one file: it needs --report and a single FILE.",
    )


def test_predictions_may_carry_images_and_texts():
    images = np.zeros((400, 4, 4), np.uint8)
    preds = toy_predictions(images=images, texts=[f"text {row}" for row in range(400)])
    data = report.build(preds, candidates=[], resamples=100)
    assert data["samples"]["3"]["text"] == "text 3"
    assert "image" in data["samples"]["3"]
    assert preds.take(torch.tensor([5, 7])).texts == ["text 5", "text 7"]


@pytest.mark.slow
def test_twenty_models_differ_and_the_legend_covers_none():
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(3, (300,), generator=generator)
    logits = torch.randn(300, 3, generator=generator)
    models = {f"model {place}": (logits * (0.3 + place / 5)).softmax(1) for place in range(20)}
    figure = diagrams.reliability(models, y, confidence=None)
    lines = [line for ax in figure.axes for line in ax.get_lines() if str(line.get_label()).startswith("model")]
    looks = {(line.get_color(), str(line._dash_pattern), line.get_marker()) for line in lines}
    assert len(lines) == len(looks) == 20
    for a in range(20):
        for b in range(a):
            assert diagrams.series(a)[1:] != diagrams.series(b)[1:]  # also for those who see no colours
            if diagrams.series(a)[0] == diagrams.series(b)[0]:
                assert diagrams.series(a)[1] != diagrams.series(b)[1]
                assert diagrams.series(a)[2] != diagrams.series(b)[2]
    style, script = (Path(report.__file__).with_name(name).read_text() for name in ("page.css", "charts.js"))
    page = re.findall(r"--m\d: (#\w+);", style.split("@media", 1)[0])
    assert [colour.lower() for colour in diagrams.COLOURS] == page
    assert f"{len(diagrams.COLOURS)}" == re.search(r"const COLOURS = (\d+);", script)[1]
    figure.draw_without_rendering()
    for ax in figure.axes:
        assert ax.get_legend() is None
        assert ax.title.get_window_extent().y0 >= ax.get_window_extent().y1
    figure = diagrams.reliability({name: models[name] for name in list(models)[:5]}, y, confidence=None)
    figure.draw_without_rendering()
    ax = figure.axes[0]
    legend, axes = ax.get_legend().get_window_extent(), ax.get_window_extent()
    assert legend.y0 >= axes.y1 - 1
    assert legend.y1 <= figure.bbox.y1 + 1


def test_nearly_empty_bins_are_points_and_no_bars():
    p = torch.tensor([[0.95, 0.05]] * 100 + [[0.65, 0.35]] * 3)
    figure = diagrams.reliability(p, torch.zeros(103, dtype=torch.int64), counts=False, confidence=None)
    tall = [bar for bar in figure.axes[0].patches if bar.get_height() > 0.5]
    assert len(tall) == 1
