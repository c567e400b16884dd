"""Diagrams: the numbers they show are the metrics', and nothing global is touched."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import metrics_twins as twins
from softkin import diagrams, metrics, similarity
from softkin.metrics import calibration, uncertainty

matplotlib = pytest.importorskip("matplotlib")

from matplotlib.figure import Figure  # noqa: E402


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.parametrize("scope", ["prediction", "output"])
@pytest.mark.parametrize("per", ["sample", "score"])
def test_the_legend_shows_the_very_ece(scope, per):
    p, y = twins.random_case(0, n=300)
    figure = diagrams.reliability(p, y, scope=scope, per=per, kde=True, resamples=100)
    expected = 100 * metrics.ece_hist(p, y, scope=scope, per=per)
    assert isinstance(figure, Figure)
    assert legend_of(figure.axes[0]) == [f"ECE {expected:.2f} %"]
    figure.canvas.draw()


def test_the_points_are_the_curve():
    p, y = twins.random_case(1, n=3000)
    figure = diagrams.reliability(p, y, bands=None)
    curve = calibration.binned(torch.from_numpy(p), torch.from_numpy(y)).curve()
    many = curve.count >= diagrams.FEW
    x, share = figure.axes[0].lines[1].get_data()
    np.testing.assert_allclose(x, curve.confidence[many])
    np.testing.assert_allclose(share, curve.likelihood[many])


def test_several_models_share_one_axes():
    p, y = twins.random_case(2, n=300)
    sharper = p**2 / (p**2).sum(1, keepdims=True)
    figure = diagrams.reliability({"plain": p, "sharp": sharper}, y, width=3)
    assert [line.split(":")[0] for line in legend_of(figure.axes[0])] == ["plain", "sharp"]
    figure.canvas.draw()
    with pytest.raises(ValueError, match="at most 7 models"):
        diagrams.reliability({str(i): p for i in range(8)}, y)
    with pytest.raises(ValueError, match="at least one model"):
        diagrams.reliability({}, y)


def test_an_axes_of_the_callers():
    p, y = twins.random_case(3, n=200)
    figure = Figure()
    left, right, below, last = figure.subplots(2, 2).flat
    assert diagrams.reliability(p, y, ax=left) is figure
    assert diagrams.confidence_histogram({"a": p.max(1)}, ax=right) is figure
    assert diagrams.class_calibration(p, y, ax=below) is figure
    assert diagrams.similarity_heatmap(similarity.from_vectors(torch.eye(4)), ax=last) is figure
    figure.canvas.draw()


def test_clopper_pearson_bands():
    p = np.array([[0.9, 0.1]] * 20 + [[0.6, 0.4]] * 5)
    y = np.array([0] * 15 + [1] * 5 + [1] * 5)
    statistic = calibration.binned(torch.from_numpy(p), torch.from_numpy(y), n_bins=10)
    low, high = uncertainty.likelihood_band(statistic, 0.95, 100, 0)
    assert low[8].item() == pytest.approx(0.5090, abs=1e-4)  # 15 of 20, from tables
    assert high[8].item() == pytest.approx(0.9134, abs=1e-4)
    assert (low[5].item(), high[5].item()) == (0, pytest.approx(1 - 0.025 ** (1 / 5), abs=1e-9))  # 0 of 5
    assert low[0].isnan()


def test_bands_of_output_hold_the_share():
    p, y = twins.random_case(4, n=400)
    statistic = calibration.binned(torch.from_numpy(p), torch.from_numpy(y), scope="output")
    low, high = uncertainty.likelihood_band(statistic, 0.95, 200, 0)
    share = statistic.curve().likelihood
    assert bool(((low <= share) & (share <= high)).all())


def test_histogram_of_confidences():
    figure = diagrams.confidence_histogram({"known": np.array([0.9, 1.0]), "unknown": np.array([0.1, 0.3])})
    assert legend_of(figure.axes[0]) == ["known (mean 0.95)", "unknown (mean 0.20)"]
    with pytest.raises(ValueError, match="must lie between 0 and 1"):
        diagrams.confidence_histogram({"logits": np.array([3.0])})


def test_classes_add_up_to_the_classwise_error():
    p, y = twins.random_case(5, n=200)
    figure = diagrams.class_calibration(p, y, class_names=list("abcde"), most=5)
    widths = sum(abs(bar.get_width()) for bar in figure.axes[0].patches)
    assert widths == pytest.approx(100 * metrics.classwise_ece(p, y, reduction="sum"), rel=1e-9)


def test_nothing_global_is_touched():
    before = dict(matplotlib.rcParams)
    p, y = twins.random_case(6, n=50)
    diagrams.reliability(p, y)
    diagrams.similarity_heatmap(np.ones((3, 3)), class_names=["a", "b", "c"])
    assert dict(matplotlib.rcParams) == before


def test_matplotlib_is_loaded_only_when_drawing():
    code = "import sys; import softkin.metrics, softkin.diagrams; print('matplotlib' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
