"""The surest wrong answers, and their pictures."""

import base64
import io

import numpy as np
import pytest

from calibration_data import toy_predictions
from softkin import report
from softkin.report import mistakes


@pytest.fixture(scope="module")
def predictions():
    return toy_predictions(
        class_names=[f"class {k}" for k in range(6)], sample_ids=[f"s{i}" for i in range(400)], name="toy"
    )


@pytest.fixture(scope="module")
def data(predictions):
    return report.build(predictions, resamples=200)


def test_mistakes_are_the_surest_wrong_answers(predictions, data):
    p, y = predictions.probabilities, predictions.known_labels
    score, answer = p.max(1)
    order = sorted((row for row in range(len(p)) if answer[row] != y[row]), key=lambda row: -float(score[row]))
    listed = data["variants"][0]["mistakes"]
    assert [item["row"] for item in listed] == order[: mistakes.SHOWN]
    first = listed[0]
    assert first["truth"] == pytest.approx(float(p[first["row"], y[first["row"]]]), abs=1e-6)
    assert data["samples"][str(first["row"])] == {"label": int(y[first["row"]]), "id": f"s{first['row']}"}


def test_thumbnails_show_the_images(predictions):
    from PIL import Image

    images = np.random.default_rng(0).integers(0, 256, (400, 8, 8, 3), dtype=np.uint8)
    data = report.build(predictions, images=images, candidates=[], resamples=100)
    row = data["variants"][0]["mistakes"][0]["row"]
    kind, _, content = data["samples"][str(row)]["image"].partition(";base64,")
    assert kind == "data:image/png"
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(base64.b64decode(content)))), images[row])


def test_large_and_grey_images_become_small():
    from PIL import Image

    for image in (np.zeros((200, 300, 3), np.uint8), np.zeros((200, 100, 1), np.uint8), np.zeros((120, 120), np.uint8)):
        content = base64.b64decode(mistakes.thumbnail(image).partition(",")[2])
        assert max(Image.open(io.BytesIO(content)).size) == 96


def test_thumbnails_stop_at_their_budget(predictions, monkeypatch):
    monkeypatch.setattr(mistakes, "BUDGET", 1000)
    images = np.random.default_rng(0).integers(0, 256, (400, 16, 16, 3), dtype=np.uint8)
    data = report.build(predictions, images=images, candidates=[], resamples=100)
    total = sum(len(value.get("image", "")) for value in data["samples"].values())
    assert 1000 <= total < 3500


def test_pictures_may_be_fractions_and_have_their_channels_first():
    pictures = np.random.default_rng(0).integers(0, 256, (3, 6, 5, 3), dtype=np.uint8)
    for given in (pictures.transpose(0, 3, 1, 2), pictures / 255, pictures.astype(np.int64)):
        assert np.array_equal(mistakes.checked_images(given, 3), pictures)
