"""Diagrams: what they draw is what the metrics say, and they leave matplotlib as it was."""

import subprocess
import sys

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy.stats import binomtest

from softkin import diagrams, metrics, similarity


@pytest.fixture
def two_models():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(600, 5)) * 2
    p = torch.from_numpy(logits).softmax(1)
    labels = torch.multinomial(torch.from_numpy(logits / 2).softmax(1), 1, generator=torch.Generator().manual_seed(0))[
        :, 0
    ]
    return p, torch.from_numpy(logits / 2).softmax(1), labels


def drawn(figure):
    """The picture's pixels; drawing it must raise no warning."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


def texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


HOSTILE = """
text.usetex: True
text.latex.preamble: \\\\input{/etc/passwd}
backend: module://evil
savefig.directory: /
axes.facecolor: red
svg.image_inline: False
"""

CHILD = """
import hashlib, io, sys, torch
from softkin import diagrams, sklearn
from softkin._core.figures import rendered
from softkin.audition import inspection
from softkin.report import inspector
torch.manual_seed(0)
p, y = torch.randn(200, 4).softmax(1), torch.randint(4, (200,))
s = torch.tensor([[0, .5, .3, .2], [.6, 0, .2, .2], [.2, .2, 0, .6], [.1, .2, .7, 0]])
names = ["cat", "dog", "car", "van"]
figures = [
    diagrams.reliability(p, y), diagrams.reliability({"a": p, "b": p}, y), diagrams.confidence_histogram({"a": p}),
    diagrams.class_calibration(p, y), diagrams.similarity_heatmap(s),
]
pictures = [rendered(figure) for figure in figures] + [inspector.picture(inspection.inspect(s, names))]
pictures += [figures[0]._repr_png_(), sklearn.ReliabilityDisplay.from_predictions(y.numpy(), p.numpy())._repr_png_()]
assert all(picture.startswith(bytes([137]) + b"PNG") for picture in pictures)
print([hashlib.sha256(picture).hexdigest() for picture in pictures], len(sys.argv) == 1 or sys.modules['matplotlib'].rcParams["text.usetex"])
"""


def test_a_matplotlibrc_in_the_current_folder_is_not_obeyed(tmp_path):
    printed = []
    for place, rc in (("plain", None), ("hostile", HOSTILE)):
        (tmp_path / place).mkdir()
        if rc is not None:
            (tmp_path / place / "matplotlibrc").write_text(rc)
        argv = [sys.executable, "-c", CHILD, *([place] if rc else [])]
        done = subprocess.run(argv, cwd=tmp_path / place, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    assert printed[0] == printed[1]
    assert printed[0].endswith("True\n")  # and the file would have been obeyed
    (tmp_path / "hostile" / "matplotlibrc").write_bytes(b"\xff\xfe\0")
    done = subprocess.run(argv, cwd=tmp_path / "hostile", capture_output=True, text=True, timeout=200)
    assert "SoftkinError: matplotlib could not be loaded: a file matplotlibrc is no text in UTF-8" in done.stderr


def test_a_style_of_the_program_itself_is_kept(two_models):
    p, _, labels = two_models
    with matplotlib.rc_context({"axes.facecolor": "#112233"}):
        figure = diagrams.reliability(p, labels)
        assert figure.axes[0].get_facecolor()[:3] == pytest.approx((17 / 255, 34 / 255, 51 / 255))
        assert matplotlib.rcParams["axes.facecolor"] == "#112233"


@pytest.mark.parametrize("scope", ["prediction", "output"])
@pytest.mark.parametrize("binning", ["width", "mass"])
def test_the_legend_is_the_metric(two_models, scope, binning):
    p, q, labels = two_models
    figure = diagrams.reliability(p, labels, scope=scope, n_bins=7, binning=binning, kde=True)
    assert isinstance(figure, Figure)
    ece = metrics.ece_hist(p, labels, scope=scope, n_bins=7, binning=binning)
    assert f"ECE {100 * ece:.2f} %" in texts(figure.axes[0])
    assert drawn(figure).std() > 10
    both = diagrams.reliability({"sharp": p, "flat": q}, labels, scope=scope, n_bins=7, binning=binning)
    assert f"sharp: ECE {100 * ece:.2f} %" in texts(both.axes[0])
    drawn(both)


@pytest.mark.slow
@pytest.mark.parametrize("count", [6, 8, 20])
def test_many_models_have_axes_each(two_models, count):
    p, q, labels = two_models
    models = {f"model {number}": q if number % 2 else p for number in range(count)}
    figure = diagrams.reliability(models, labels)
    assert [ax.get_title().partition("\n")[0] for ax in figure.axes] == list(models)
    for ax, values in zip(figure.axes, models.values(), strict=True):
        assert f"ECE {100 * metrics.ece_hist(values, labels):.2f} %" in ax.get_title()
        assert sum(line.get_color() == "#C8CCD2" for line in ax.lines) == count - 1  # the others, in grey
    drawn(figure)
    assert len(diagrams.reliability(models, labels, ax=Figure().add_subplot()).axes) == 1


def test_bars_and_bands_are_those_of_the_bins(two_models):
    p, _, labels = two_models
    figure = diagrams.reliability(p, labels, n_bins=5)
    ax = figure.axes[0]
    score, predicted = p.max(1)
    hit = (predicted == labels).numpy()
    in_last = (score > 0.8).numpy()
    bars = [patch for patch in ax.patches if patch.get_x() == pytest.approx(0.8) and patch.get_y() == 0]
    assert bars[0].get_height() == pytest.approx(hit[in_last].mean())
    interval = binomtest(int(hit[in_last].sum()), int(in_last.sum())).proportion_ci(0.95, "exact")
    segments = np.concatenate([line.get_segments() for line in ax.collections])
    last = segments[np.isclose(segments[:, 0, 0], 0.9)][0]
    np.testing.assert_allclose(sorted(last[:, 1]), [interval.low, interval.high], atol=1e-9)
    shares = [patch.get_height() for patch in figure.axes[1].patches]
    assert shares[-1] == pytest.approx(in_last.mean())


def test_output_bands_resample_rows(two_models):
    """Pooled scores of a row depend on each other: bands must not treat them as N·K samples."""
    p, _, labels = two_models
    first = diagrams.reliability({"a": p, "b": p}, labels, scope="output", seed=1)
    assert np.array_equal(drawn(first), drawn(diagrams.reliability({"a": p, "b": p}, labels, scope="output", seed=1)))
    diagrams.reliability(p, labels, scope="output", confidence=None)


def test_a_caller_s_axes_are_used_and_nothing_global_changes(two_models):
    p, q, labels = two_models
    before = {name: value for name, value in matplotlib.rcParams.items() if name != "backend"}  # found when first used
    figure = Figure(figsize=(6, 6), layout="constrained")
    axes = figure.subplots(2, 2)
    assert diagrams.reliability(p, labels, ax=axes[0, 0]) is figure
    assert diagrams.confidence_histogram({"p": p, "q": q}, ax=axes[0, 1], title="t") is figure
    assert diagrams.class_calibration(p, labels, ax=axes[1, 0]) is figure
    assert diagrams.similarity_heatmap(np.ones((4, 4)) - np.eye(4), ax=axes[1, 1]) is figure
    assert before == {name: value for name, value in matplotlib.rcParams.items() if name != "backend"}
    drawn(figure)


def test_confidence_histogram(two_models):
    p, q, _ = two_models
    figure = diagrams.confidence_histogram({"sharp": p, "flat": q})
    assert texts(figure.axes[0]) == [
        f"sharp: mean {float(p.max(1).values.mean()):.3f}",
        f"flat: mean {float(q.max(1).values.mean()):.3f}",
    ]
    assert texts(diagrams.confidence_histogram(p).axes[0]) == [f"mean {float(p.max(1).values.mean()):.3f}"]


def test_class_calibration(two_models):
    p, _, labels = two_models
    names = ["cat", "$x_1$", "<b>", "a" * 100, "owl"]
    figure = diagrams.class_calibration(p, labels, class_names=names, most=3)
    shown = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert len(shown) == 3
    drawn(diagrams.class_calibration(p, labels, class_names=names))  # a name is not mathematics
    predicted = p.argmax(1)
    gaps = [abs(float((p.max(1).values - (predicted == labels).double())[predicted == k].sum())) for k in range(5)]
    worst = names[int(np.argmax(gaps))]
    assert shown[0].startswith(worst.replace("$", r"\$")[:20])


def test_learned_similarity_has_a_line_for_each_pair_of_the_last_epoch():
    epochs = [[(0, 1, 0.2), (2, 3, 0.1)], [(1, 0, 0.3), (4, 2, 0.2)], [(4, 2, 0.5), (0, 1, 0.4)]]
    figure = diagrams.learned_similarity([{"similar": pairs} for pairs in epochs], class_names=list("abcde"), most=2)
    lines = {line.get_label(): line.get_ydata() for line in figure.axes[0].get_lines()}
    assert list(lines) == ["e → c", "a → b"]
    np.testing.assert_array_equal(lines["a → b"], [0.2, 0.3, 0.4])
    np.testing.assert_array_equal(lines["e → c"], [np.nan, 0.2, 0.5])  # not among the first epoch's
    drawn(diagrams.learned_similarity(epochs))
    with pytest.raises(ValueError, match="at least one epoch"):
        diagrams.learned_similarity([])


def test_similarity_heatmap_orders_alike_classes_together():
    groups = np.array([0, 1, 2] * 4)
    D = np.where(groups[:, None] == groups, 1.0, 5.0) + np.random.default_rng(0).random((12, 12)) * 0.01
    S = similarity.from_distances((D + D.T) / 2)
    figure = diagrams.similarity_heatmap(S, class_names=[f"c{i}" for i in range(12)])
    order = [int(tick.get_text()[1:]) for tick in figure.axes[0].get_xticklabels()]
    assert (np.diff(groups[order]) != 0).sum() == 2
    kept = diagrams.similarity_heatmap(S, cluster=False)
    assert [tick.get_text() for tick in kept.axes[0].get_xticklabels()] == [str(i) for i in range(12)]
    drawn(diagrams.similarity_heatmap([[0, 1], [1, 0]]))
    drawn(diagrams.similarity_heatmap(similarity.from_vectors(np.random.default_rng(0).normal(size=(200, 5)))))


def test_one_sample_all_equal_and_bad_input(two_models):
    p, _, labels = two_models
    drawn(diagrams.reliability(p[:1], labels[:1], kde=True))
    drawn(diagrams.reliability(torch.full((9, 4), 0.25), torch.zeros(9, dtype=torch.int64), kde=True))
    with pytest.raises(ValueError, match="at least one model, got an empty mapping"):
        diagrams.reliability({}, labels)
    with pytest.raises(ValueError, match="2 names for 5 classes"):
        diagrams.class_calibration(p, labels, class_names=["a", "b"])
    with pytest.raises(ValueError, match="`n_bins` must be at least 1, got 0"):
        diagrams.confidence_histogram(p, n_bins=0)
    with pytest.raises(ValueError, match="`scope` must be"):
        diagrams.reliability(p, labels, scope="everything")


def test_other_shapes_of_claims_are_drawn():
    rng = np.random.default_rng(0)
    s = rng.random(400)
    right = rng.random(400) < s

    def titles(figure):
        return figure.axes[-1].get_xlabel(), figure.axes[0].get_ylabel()

    pairs = diagrams.reliability(s, right)
    assert titles(pairs) == ("confidence", "accuracy")
    legend = pairs.axes[0].get_legend_handles_labels()[1]
    assert any(f"ECE {100 * metrics.ece_hist(s, right):.2f} %" in text for text in legend)
    binary = diagrams.reliability(s, right.astype(int))
    assert titles(binary) == ("score of class 1", "share of class 1")
    many = np.stack([s, 1 - s / 2], 1)
    assert titles(diagrams.reliability(many, rng.integers(0, 2, (400, 2)), kde=True))[0] == "score of any label"
    both = {"a": s, "b": 1 - s}
    diagrams.reliability(both, {"a": right, "b": ~right}, sample_weight=rng.random(400), kde=True)
    p = rng.dirichlet(np.ones(3), 200)
    diagrams.reliability(p, rng.multinomial(5, np.ones(3) / 3, 200), scope="output")
    diagrams.reliability(p.reshape(2, 100, 3).transpose(0, 2, 1), rng.integers(0, 3, (2, 100)), ignore_index=2)
