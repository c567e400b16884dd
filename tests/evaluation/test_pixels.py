"""Pixels in files: the numbers of the arrays themselves, images resampled, and bad files in one sentence."""

import json

import numpy as np
import pytest
import torch

from command_line import run
from softkin import SoftkinError, calibrators, evaluation, metrics, predictions
from softkin.evaluation import pixels


def segmentation(tmp_path, *, kind="logits", images=12, classes=4, dtype=np.float32):
    rng = np.random.default_rng(0)
    logits = (2 * rng.normal(size=(images, classes, 6, 7)) + rng.normal(size=(images, classes, 1, 1))).astype(dtype)
    p = torch.from_numpy(logits).float().softmax(1)
    labels = torch.distributions.Categorical(p.movedim(1, -1) ** 0.6 / (p.movedim(1, -1) ** 0.6).sum(-1, True)).sample()
    labels[rng.random(labels.shape) < 0.1] = 255
    labels[3] = 255  # nothing of this image counts
    path = tmp_path / "segmentation.npz"
    np.savez(path, **{kind: logits if kind == "logits" else p.numpy()}, labels=labels.numpy().astype(np.uint8))
    return path, p.numpy(), labels.numpy()


@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_numbers_are_those_of_the_arrays(tmp_path, kind):
    path, p, labels = segmentation(tmp_path, kind=kind)
    with pytest.warns(UserWarning, match="is read as 4 classes for each pixel or token"):
        data = evaluation.evaluate_file(path, ignore_index=255, resamples=200).data
    assert data["num_samples"] == int((labels != 255).sum())
    assert data["settings"]["resampled"] == "11 images"
    for key in ("accuracy", "nll", "brier", "ece_hist", "classwise_ece", "signed_gap", "debiased_ece", "smooth_ece"):
        expected = getattr(metrics, key)(p, labels, ignore_index=255)
        assert data["metrics"][key]["value"] == pytest.approx(expected, rel=1e-5), key
    output = metrics.ece_hist(p, labels, ignore_index=255, scope="output", confidence=0.95)
    measured = data["metrics"]["ece_hist_output"]
    assert measured["value"] == pytest.approx(float(output), rel=1e-5)
    assert measured["low"] <= measured["value"] <= measured["high"]
    # Intervals of whole images, as those of the arrays in memory.
    own = metrics.nll(p, labels, ignore_index=255, confidence=0.95)
    assert data["metrics"]["nll"]["low"] == pytest.approx(own.low, rel=0.1)
    assert data["metrics"]["nll"]["high"] == pytest.approx(own.high, rel=0.1)
    assert "an image at a time" in data["metrics"]["aurc"]["absent"]
    assert sum(data["reliability"]["count"]) == data["num_samples"]


@pytest.mark.filterwarnings("ignore:.*is read as:UserWarning")
def test_the_command_and_what_it_refuses(tmp_path, capsys):
    path, _, _ = segmentation(tmp_path, dtype=np.float16)
    code, output, errors = run(capsys, "evaluate", str(path), "--ignore-index", "255", "--json", "--resamples", "100")
    assert code == 0, errors
    assert json.loads(output)["models"][0]["metrics"]["accuracy"]["low"] > 0
    arrays = dict(np.load(path))
    arrays["labels"][arrays["labels"] == 255] = 77
    np.savez(tmp_path / "odd.npz", **arrays)
    code, _, errors = run(capsys, "evaluate", tmp_path / "odd.npz")
    assert code == 1
    assert "labels must be 0 to 3, got 77; pixels of no class are left out by --ignore-index 77" in errors
    code, _, errors = run(capsys, "evaluate", str(path), "--ignore-index", "255", "--abstain", "0.1")
    assert code == 1
    assert "holds pixels" in errors


def test_wrong_shapes_and_no_pixel(tmp_path):
    path = tmp_path / "p.npz"
    np.savez(path, logits=np.zeros((2, 3, 4, 5)), labels=np.zeros((2, 4), dtype=int))
    with pytest.raises(SoftkinError, match=r"the class of each pixel, \(2, 4, 5\), for `logits` of shape"):
        evaluation.evaluate_file(path)
    np.savez(path, logits=np.zeros((2, 3, 4)), labels=np.full((2, 4), 9))
    with (
        pytest.warns(UserWarning, match="is read as"),
        pytest.raises(SoftkinError, match="holds no pixel that counts: all labels are 9"),
    ):
        evaluation.evaluate_file(path, ignore_index=9)
    np.savez(path, logits=np.zeros((4, 3)), labels=np.zeros(4, dtype=int))
    with pytest.raises(SoftkinError, match="--ignore-index is for pixels"):
        evaluation.evaluate_file(path, ignore_index=9)


@pytest.mark.filterwarnings("ignore::softkin.predictions.Assumption")
@pytest.mark.filterwarnings("default:.*are among those")
@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_pixels_are_calibrated(tmp_path, capsys, kind):
    path, p, labels = segmentation(tmp_path, kind=kind)
    options = ("--ignore-index", "255", "--json")
    code, output, errors = run(
        capsys, "calibrate", "fit", path, "--method", "temperature", "--output", tmp_path / "c", *options
    )
    assert code == 0, errors
    own = calibrators.TemperatureScaling().fit(p, labels, from_probabilities=True, ignore_index=255)
    found = calibrators.load(tmp_path / "c")
    assert found.temperature_ == pytest.approx(own.temperature_, rel=1e-4)  # all pixels of so few images
    code, output, errors = run(
        capsys, "calibrate", "apply", tmp_path / "c", path, "--output", tmp_path / "q.npz", *options
    )
    assert code == 0, errors
    data = json.loads(output)
    assert data["num_pixels"] == int((labels != 255).sum())
    with np.load(tmp_path / "q.npz") as saved:
        q = own.predict_proba(p, from_probabilities=True)
        np.testing.assert_allclose(saved["probs"], q, atol=1e-4)
        assert (saved["labels"] == labels).all()
    assert data["after"]["nll"] == pytest.approx(metrics.nll(q, labels, ignore_index=255), rel=1e-4)
    assert data["before"]["ece_hist"] == pytest.approx(metrics.ece_hist(p, labels, ignore_index=255), rel=1e-4)
    assert "are among those that the temperature calibrator was fitted on" in data["warnings"][0]
    code, _, errors = run(capsys, "calibrate", "apply", tmp_path / "c", path, "--output", tmp_path / "q.csv", *options)
    assert (code, "into an .npz file" in errors) == (2, True), errors


@pytest.mark.filterwarnings("ignore::softkin.predictions.Assumption")
def test_pixels_without_labels_are_calibrated(tmp_path, capsys):
    path, p, _ = segmentation(tmp_path)
    run(
        capsys, "calibrate", "fit", path, "--ignore-index", "255", "--method", "temperature", "--output", tmp_path / "c"
    )
    np.savez(tmp_path / "new.npz", probs=p)
    code, output, errors = run(
        capsys, "calibrate", "apply", tmp_path / "c", tmp_path / "new.npz", "--output", tmp_path / "q.npz"
    )
    assert code == 0, errors
    assert "NLL" not in output
    with np.load(tmp_path / "q.npz") as saved:
        assert list(saved) == ["probs"]


@pytest.mark.filterwarnings("ignore::softkin.predictions.Assumption")
def test_drawn_pixels_are_pixels_of_the_file(tmp_path):
    path, p, labels = segmentation(tmp_path, kind="probs")
    rows = pixels.drawn(path, predictions.Reading(), 255, most=36)
    assert len(rows) == 33  # three of each image that has any
    every, truth = np.moveaxis(p, 1, -1)[labels != 255], labels[labels != 255]
    for row, label in zip(rows.probabilities.numpy(), rows.known_labels.tolist(), strict=True):
        same = np.abs(every - row).max(axis=1) < 1e-6
        assert label in truth[same]


@pytest.mark.filterwarnings("ignore::softkin.predictions.Assumption")
def test_a_page_of_pixels_has_the_numbers_of_all(tmp_path, capsys):
    path, _, labels = segmentation(tmp_path)
    code, output, errors = run(
        capsys,
        "evaluate",
        path,
        "--ignore-index",
        "255",
        "--report",
        tmp_path / "page.html",
        "--json",
        "--resamples",
        "100",
    )
    assert code == 0, errors
    measured = json.loads(output)["models"][0]["metrics"]
    page = json.loads((tmp_path / "page.json").read_text())
    assert page["sampled"]["of"] == int((labels != 255).sum())
    shown = page["variants"][0]["metrics"]
    for key in ("nll", "ece_hist", "accuracy"):
        assert [shown[key][part] for part in ("value", "low")] == [measured[key][part] for part in ("value", "low")]


@pytest.mark.parametrize("void", [255, -1, -100])
@pytest.mark.filterwarnings("default")
def test_the_usual_label_of_no_class_is_left_out_and_said(tmp_path, capsys, void):
    path, _, _ = segmentation(tmp_path)
    arrays = dict(np.load(path))
    arrays["labels"] = np.where(arrays["labels"] == 255, void, arrays["labels"].astype(np.int64))
    np.savez(tmp_path / "void.npz", **arrays)
    options = ("--json", "--resamples", "100")
    code, output, said = run(capsys, "evaluate", tmp_path / "void.npz", *options)
    assert code == 0
    assert f"pixels of the label {void} are of no class, and left out" in said
    _, stated, _ = run(capsys, "evaluate", path, "--ignore-index", "255", *options)
    assert json.loads(output)["models"][0]["metrics"] == json.loads(stated)["models"][0]["metrics"]
