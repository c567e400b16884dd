"""Reliability diagrams and related figures, with matplotlib.

This module only draws: bars, bands and the ECE in the legend all read the same ``ReliabilityCurve``. Figures are made
without pyplot, do not touch its settings, and ignore a ``matplotlibrc``; pass ``ax`` to draw on axes of your own.
Several models differ in colour, dash and marker, as on the report's page; the colours are those of Okabe
and Ito, dark enough to read on white.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, ParamSpec

import numpy as np
import torch
from torch import Tensor

from softkin._core import checks
from softkin._core.checks import Array
from softkin._io import escape
from softkin.metrics import density
from softkin.metrics.binned import MeanGap
from softkin.metrics.binning import ReliabilityCurve, by_answer, equal_width, for_scores
from softkin.metrics.binning import curve as curve_of
from softkin.metrics.resampling import likelihood_band
from softkin.metrics.scopes import Claims, Pool, Scope

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#C94F00", "#00805D", "#B0508A", "#1C1F24", "#9A6B00", "#767D87", "#6A4FA3")
MARKERS = "osD^vXP"
DASHES: tuple[Any, ...] = (
    "-",
    (0, (4, 1.5)),
    (0, (1, 1)),
    (0, (4, 1.5, 1, 1.5)),
    (0, (6, 2)),
    (0, (2, 2)),
    (0, (8, 1)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (2, 4)),
    (0, (6, 1, 2, 1)),
)
SMALL = 7  # points of the smallest text: readable when the figure is 3 inches wide
LINE = 0.2  # inches of height for each line of the legend
RESAMPLES = 200
FEW = 10  # scores; a bin with fewer is a hollow point
TOGETHER = 5  # models that share axes; more get axes each, with the others in grey
ACROSS = 4  # such axes side by side

Models = Array | Mapping[str, Array]
Options = ParamSpec("Options")


def _with_own_settings(draw: "Callable[Options, Figure]") -> "Callable[Options, Figure]":
    """Draw a new figure with settings of our own, and on the caller's axes with the caller's."""

    @functools.wraps(draw)
    def drawing(*args: Options.args, **options: Options.kwargs) -> "Figure":
        if options.get("ax") is not None:
            return draw(*args, **options)
        try:
            from softkin._core.figures import own_settings
        except ImportError as error:
            raise ImportError("softkin.diagrams needs matplotlib: pip install matplotlib") from error
        with own_settings():
            return draw(*args, **options)

    return drawing


def series(place: int) -> tuple[str, Any, str]:
    """Colour, dash and marker of one of several models, the same as on the report's page; the first 20 all differ.

    No two share both dash and marker, so nobody has to tell colours apart.

    Example:
        >>> len({series(place)[1:] for place in range(20)})
        20
    """
    turn = place // len(COLOURS)
    return (
        COLOURS[place % len(COLOURS)],
        DASHES[(place + 3 * turn) % len(DASHES)],
        MARKERS[(place + turn) % len(MARKERS)],
    )


@_with_own_settings
def reliability(
    probabilities: Models,
    labels: Models,
    *,
    scope: Scope = "prediction",
    n_bins: int = 15,
    binning: Literal["width", "mass"] = "width",
    per: Literal["sample", "score"] = "sample",
    confidence: float | None = 0.95,
    kde: bool = False,
    counts: bool = True,
    seed: int = 0,
    sample_weight: Array | None = None,
    ignore_index: int | None = None,
    ax: "Axes | None" = None,
) -> "Figure":
    """Reliability diagram: how often answers given with a confidence are right.

    Each bin of scores is drawn at its mean score (horizontal) and its share of hits (vertical). The two agree on the
    dashed diagonal; below it a network is over-confident. One model is drawn as bars, with the gap to the diagonal
    hatched; two to five models are drawn as lines. Of more, each has axes of its own, with the others in grey. Bins
    with fewer than 10 scores show little and are hollow points. A histogram below shows how many scores each bin holds,
    for up to five models. The legend stands above the axes; its ECE is over all bins.

    Args:
        probabilities: (N, K), or another shape that metrics take, or a mapping from models' names to theirs. The (N,)
            scores of a binary model are drawn as they are, against the share of class 1.
        labels: (N,) integers, or what fits the shape; a mapping where models have outcomes of their own.
        scope: "prediction" for the winning scores, "output" for all N·K.
        n_bins: Number of bins.
        binning: "width" for equal width, "mass" for equal counts.
        per: The scale of the legend's ECE, as in ``metrics.ece_hist``.
        confidence: Level of the bands; None draws no bands. The bands are Clopper–Pearson intervals for prediction,
            exact for independent samples. For output, whose scores come in dependent rows, they are percentiles over
            resampled rows.
        kde: Draw the kernel-density curve too, with the paper's bandwidth.
        counts: Draw the histogram beneath.
        seed: The seed of the resampling of rows.
        sample_weight: (N,) weights of the samples.
        ignore_index: A label of rows to leave out, such as 255 for pixels of no class.
        ax: Draw all models here instead of on a new figure.

    Returns:
        The figure, to show or to save with ``savefig``.
    """
    models = _models(probabilities)
    level = None if confidence is None else checks.level(confidence)
    apart = ax is None and len(models) > TOGETHER
    if apart:
        figure, axes = _small_axes(len(models))
        beneath = None
    else:
        figure, ax, beneath = _with_counts(ax) if counts else (*_canvas(ax, (3.4, 3.4)), None)
        axes = [ax] * len(models)
    curves = []
    for place, (name, values) in enumerate(models.items()):
        ax = axes[place]
        own = labels[name] if isinstance(labels, Mapping) else labels
        claims, titles = _claims(values, own, scope, sample_weight, ignore_index)
        scores = claims.pool(scope)
        statistic = MeanGap(scores, for_scores(scores.scores, n_bins, binning), per=per)
        curve = statistic.curve()
        ece = float(curve.error(samples=scores.denominator(per)))
        colour, _, _ = series(place)
        label = f"{_legend(name)}: " if name else ""
        label += f"ECE {100 * ece:.2f} %" + (" (per score)" if per == "score" and scope == "output" else "")
        low_high = None if level is None else likelihood_band(statistic, level, RESAMPLES, seed)
        if len(models) == 1:
            _bars(ax, curve, colour, label, low_high)
        else:
            _line(ax, curve, place, label, low_high)
        if kde:
            _smooth(ax, scores, colour)
        if beneath is not None:
            _counts(beneath, curve, colour, alone=len(models) == 1, log=scope == "output")
        if apart:
            ax.set_title(label.replace(": ECE", "\nECE"), fontsize=SMALL, color=colour)
        curves.append(curve)
    if apart:
        _dress_small(figure, axes, curves, titles)
    else:
        _dress(axes[0], titles, beneath)
    return figure


def _claims(
    values: Array, labels: Array, scope: Scope, sample_weight: Array | None, ignore_index: int | None
) -> tuple[Claims, tuple[str, str]]:
    """The claims to draw, and the titles of the axes."""
    shape = tuple(getattr(values, "shape", (0, 0)))
    outcome = checks.as_tensor(labels, "labels")
    is_single = len(shape) == 1 or (len(shape) == 2 and shape[1] == 1)
    if is_single and not outcome.is_floating_point() and outcome.dtype != torch.bool:
        checks.class_labels(outcome.reshape(-1), num_samples=shape[0], num_classes=2)
        claims = Claims.of(values, outcome == 1, sample_weight=sample_weight)
        return claims, ("score of class 1", "share of class 1")
    claims = Claims.of(values, labels, sample_weight=sample_weight, ignore_index=ignore_index)
    if not claims.exclusive and not claims.are_pairs:
        return claims, ("score of any label", "share of true labels")
    return claims, ("confidence", "accuracy") if scope == "prediction" else (
        "score of any class",
        "share of true classes",
    )


def _bars(ax: "Axes", curve: ReliabilityCurve, colour: str, label: str, band: Any) -> None:
    """Bars up to the share of hits; hatched from there to the mean score."""
    edges = curve.edges.numpy()
    full = (curve.count > 0).numpy()
    left, width = edges[:-1][full], np.diff(edges)[full]
    lik, conf = curve.likelihood.numpy()[full], curve.confidence.numpy()[full]
    many = curve.count.numpy()[full] >= FEW
    ax.bar(left[many], lik[many], width[many], align="edge", color=colour, alpha=0.75, edgecolor="white", linewidth=0.4)
    ax.bar(0, 0, 0, color=colour, alpha=0.75, label=label)  # an entry for the legend even if all bins are points
    ax.bar(
        left[many], (conf - lik)[many], width[many], bottom=lik[many], align="edge", facecolor="none",
        edgecolor=COLOURS[1], hatch="////", linewidth=0.5, label="gap to calibration",
    )  # fmt: skip
    ax.plot((left + width / 2)[~many], lik[~many], "o", color=colour, markersize=3, markerfacecolor="white")
    if band is not None:
        low, high = (end.numpy()[full] for end in band)
        centre = left + width / 2
        ax.errorbar(centre, lik, [np.maximum(lik - low, 0), np.maximum(high - lik, 0)], fmt="none", ecolor="black",
                    elinewidth=0.8, capsize=1.5, capthick=0.8)  # fmt: skip


def _line(ax: "Axes", curve: ReliabilityCurve, place: int, label: str, band: Any) -> None:
    """One of several models."""
    colour, dash, mark = series(place)
    full = (curve.count > 0).numpy()
    conf, lik = curve.confidence.numpy()[full], curve.likelihood.numpy()[full]
    style = {"color": colour, "marker": mark, "linestyle": dash}
    many = curve.count.numpy()[full] >= FEW
    ax.plot(conf[many], lik[many], label=label, markersize=3, linewidth=1.2, **style)
    ax.plot(conf[~many], lik[~many], mark, color=colour, markersize=3, markerfacecolor="white", alpha=0.5)
    if band is not None:
        low, high = (end.numpy()[full][many] for end in band)
        conf = conf[many]
        ax.fill_between(conf, low, high, color=colour, alpha=0.15, linewidth=0)


def _smooth(ax: "Axes", scores: Pool, colour: str) -> None:
    radius = density.bandwidth("paper", scores.scores, scores.hits, **scores.beside)
    if radius == 0:  # all scores are equal
        return
    curve = density.smooth_curve(scores.scores, scores.hits, radius, "reflect", 513, **scores.beside)
    seen = curve.density > 1e-3 * curve.density.max()  # elsewhere the curve is a ratio of two tiny numbers
    likelihood = torch.where(seen, curve.likelihood, torch.nan)
    ax.plot(curve.nodes, likelihood, color="white", linewidth=2.4, zorder=3)
    ax.plot(curve.nodes, likelihood, color=colour, linewidth=1.2, zorder=4)


def _counts(ax: "Axes", curve: ReliabilityCurve, colour: str, *, alone: bool, log: bool) -> None:
    share = (curve.count / curve.count.sum()).numpy()
    if alone:
        edges = curve.edges.numpy()
        ax.bar(
            edges[:-1], share, np.diff(edges), align="edge", color=colour, alpha=0.75, edgecolor="white", linewidth=0.4
        )
    else:
        ax.stairs(share, curve.edges.numpy(), color=colour, linewidth=1.0)
    if log:  # nearly all scores of the whole output are near 0
        ax.set_yscale("log")


@_with_own_settings
def confidence_histogram(
    probabilities: Models, *, n_bins: int = 20, title: str | None = None, ax: "Axes | None" = None
) -> "Figure":
    """How confident models are: the distribution of the winning score. No labels needed.

    A model should not be confident on data unlike its training data; the paper draws this for out-of-distribution
    images.

    Args:
        probabilities: (N, K), or a mapping from models' (or data sets') names to theirs.
        n_bins: Number of bins of equal width.
        title: Text above the axes.
        ax: Draw here instead of on a new figure.
    """
    figure, ax = _canvas(ax, (3.4, 2.6))
    bins = equal_width(checks.count(n_bins, "n_bins"))
    for place, (name, p) in enumerate(_models(probabilities).items()):
        winning = checks.probabilities(p).amax(dim=1)
        curve = curve_of(winning, torch.empty(0, dtype=torch.int64), bins)
        share = (curve.count / curve.count.sum()).numpy()
        mean = float(curve.score_sum.sum() / curve.count.sum())
        colour, dash, _ = series(place)
        style = {"color": colour, "linestyle": dash}
        label = f"{_legend(name)}: mean {mean:.3f}" if name else f"mean {mean:.3f}"
        ax.stairs(share, bins.edges.numpy(), label=label, linewidth=1.3, **style)
        ax.axvline(mean, linewidth=0.7, **style)
    ax.set_xlim(0, 1)
    ax.set_ylim(bottom=0)
    _words(ax, "confidence (winning score)", "share of samples", title)
    return figure


@_with_own_settings
def class_calibration(
    probabilities: Array,
    labels: Array,
    *,
    class_names: Sequence[str] | None = None,
    most: int = 20,
    ax: "Axes | None" = None,
) -> "Figure":
    """Class by class: the confidence of the answers "class k", and how often they are right.

    Each line is a class that the model answers. It runs from the accuracy of those answers (dot) to their mean
    confidence (tick), and its label gives their number. The class that adds most to the error is on top.

    Args:
        probabilities: (N, K).
        labels: (N,) integers.
        class_names: Labels of the lines; by default the class numbers.
        most: The number of classes to show.
        ax: Draw here instead of on a new figure.
    """
    p, y = Claims.of(probabilities, labels).classes()
    names = [str(k) for k in range(p.shape[1])]
    if class_names is not None:
        names = checks.class_names(class_names, num_classes=p.shape[1])
    curve = by_answer(p, y)
    # Sort by what a class adds to the error: its gap times how often it is answered.
    order = (curve.score_sum - curve.hit_sum).abs().argsort(descending=True, stable=True)
    order = order[curve.count[order] > 0][: checks.count(most, "most")]
    figure, ax = _canvas(ax, (3.4, 0.8 + 0.17 * len(order)))
    lines = np.arange(len(order))
    lik, conf = curve.likelihood[order].numpy(), curve.confidence[order].numpy()
    colours = np.where(conf >= lik, COLOURS[1], COLOURS[0])
    ax.hlines(lines, lik, conf, colors=colours.tolist(), linewidth=2)
    ax.plot(lik, lines, "o", color="black", markersize=3, label="accuracy")
    for over, word in ((True, "confidence (too high)"), (False, "confidence (too low)")):
        shown = (conf >= lik) == over
        if shown.any():
            ax.plot(conf[shown], lines[shown], "|", color=COLOURS[1 if over else 0], markersize=6, label=word)
    ax.set_yticks(lines, [f"{_short(names[k])} ({int(curve.count[k])})" for k in order.tolist()])
    ax.invert_yaxis()
    ax.set_xlim(0, 1)
    _words(ax, "accuracy and mean confidence of the answers", None, None, legend=False)
    ax.legend(fontsize=SMALL, frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, handletextpad=0.1)
    return figure


@_with_own_settings
def similarity_heatmap(
    similarity: Array,
    *,
    class_names: Sequence[str] | None = None,
    cluster: bool = True,
    title: str | None = None,
    ax: "Axes | None" = None,
) -> "Figure":
    """A similarity (or label) matrix as a heat map, with similar classes next to each other.

    Args:
        similarity: (K, K) from ``softkin.similarity`` or ``softkin.smoothing``.
        class_names: Labels of the axes; with more than 40 classes every n-th is shown.
        cluster: Order the classes by average-linkage clustering, so that groups are visible; False keeps their order.
        title: Text above the heat map.
        ax: Draw here instead of on a new figure.
    """
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm

    s = checks.square(similarity, "similarity")
    k = len(s)
    names = [str(i) for i in range(k)] if class_names is None else checks.class_names(class_names, num_classes=k)
    order = clustered(s) if cluster else list(range(k))
    picture = s[order][:, order].numpy().copy()
    np.fill_diagonal(picture, np.nan)  # the similarity of a class to itself is not shown
    size = min(7.0, 2.4 + 0.09 * k)
    figure, ax = _canvas(ax, (size, size))
    high = float(np.nanmax(picture))
    low = max(float(np.nanmin(picture)), high * 1e-4)  # values below a ten-thousandth of the largest share one colour
    norm = LogNorm(low, high) if high > low > 0 else None
    colours = colormaps["viridis"].with_extremes(bad="white")
    image = ax.imshow(np.maximum(picture, low) if norm else picture, cmap=colours, norm=norm, interpolation="nearest")
    step = -(-k // 40)
    ticks = np.arange(0, k, step)
    shown = [_short(names[order[i]]) for i in ticks]
    points = min(SMALL, max(4, 300 / k))
    ax.set_xticks(ticks, shown, rotation=90, fontsize=points)
    ax.set_yticks(ticks, shown, fontsize=points)
    ax.tick_params(length=2)
    bar = figure.colorbar(image, ax=ax, fraction=0.046, pad=0.03)
    bar.ax.tick_params(labelsize=SMALL)
    if title:
        ax.set_title(title, fontsize=SMALL + 1)
    return figure


@_with_own_settings
def learned_similarity(
    history: "Sequence[Mapping[str, Any] | Sequence[tuple[int, int, float]]]",
    *,
    class_names: Sequence[str] | None = None,
    most: int = 8,
    ax: "Axes | None" = None,
) -> "Figure":
    """What the network came to find similar, epoch by epoch: a line for each of the most similar pairs of classes.

    The pairs are those of the last epoch. A line is broken where its pair was not among those listed.

    Args:
        history: For each epoch the pairs (a, b, share) of ``LearnedSimilarityLoss.pairs()``, or the history of a
            training, whose entries hold them as ``similar``.
        class_names: The names of the classes; by default their numbers.
        most: The number of pairs.
        ax: Draw here instead of on a new figure.
    """
    epochs = [entry["similar"] if isinstance(entry, Mapping) else entry for entry in history]
    if not epochs or not epochs[-1]:
        raise ValueError("`history` must hold at least one epoch with pairs of similar classes.")
    shares = [{frozenset((int(a), int(b))): float(share) for a, b, share in pairs} for pairs in epochs]
    figure, ax = _canvas(ax, (4.6, 2.6))
    for place, (a, b, _) in enumerate(epochs[-1][: checks.count(most, "most")]):
        colour, dash, marker = series(place)
        line = [one.get(frozenset((int(a), int(b))), np.nan) for one in shares]
        names = [str(k) if class_names is None else _short(class_names[int(k)], 16) for k in (a, b)]
        ax.plot(
            range(1, len(line) + 1),
            line,
            color=colour,
            linestyle=dash,
            marker=marker,
            markersize=2.5,
            markevery=max(1, len(line) // 10),
            linewidth=1,
            label=" → ".join(names),
        )
    ax.set_ylim(bottom=0)
    ax.set_xlim(1, max(2, len(epochs)))
    ax.locator_params(axis="x", integer=True)
    _words(ax, "epoch", "share of what the labels\ngive to other classes", None, legend=False)
    ax.legend(fontsize=SMALL, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5), handlelength=2.6)
    return figure


def clustered(s: Tensor) -> list[int]:
    """The classes of a (K, K) similarity in an order that puts similar ones side by side."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    if len(s) < 3:
        return list(range(len(s)))
    alike = (s + s.T).numpy()
    apart = -np.log(np.maximum(alike, alike.max() * 1e-12))
    apart -= apart.min()
    np.fill_diagonal(apart, 0)
    order: list[int] = leaves_list(
        linkage(squareform(apart, checks=False), "average", optimal_ordering=len(s) <= 500)
    ).tolist()
    return order


def _models(probabilities: Models) -> dict[str, Array]:
    """The models by name; the name of a single model is empty."""
    if isinstance(probabilities, Mapping):
        if not probabilities:
            raise ValueError("`probabilities` must hold at least one model, got an empty mapping.")
        return dict(probabilities)
    return {"": probabilities}


def _root(ax: "Axes") -> "Figure | None":
    """The whole figure of axes that may be in a subfigure; ``get_figure(root=True)`` needs matplotlib 3.10."""
    whole: Figure | None = None if ax.figure is None else ax.figure.figure
    return whole


def _canvas(ax: "Axes | None", size: tuple[float, float]) -> "tuple[Figure, Axes]":
    """The figure and the axes to draw on: the caller's, or new ones that are not registered with pyplot."""
    if ax is not None:
        figure = _root(ax)
        if figure is None:
            raise ValueError("`ax` must belong to a figure.")
        return figure, ax
    figure = _figure(size)
    return figure, figure.add_subplot()


def _figure(size: tuple[float, float]) -> "Figure":
    from softkin._core.figures import Figure

    return Figure(figsize=size, layout="constrained")


def _with_counts(ax: "Axes | None") -> "tuple[Figure, Axes, Axes]":
    """The figure and axes of ``_canvas``, and axes of the same width below them for the counts."""
    if ax is not None:
        figure, ax = _canvas(ax, (0, 0))
        return figure, ax, ax.inset_axes((0, -0.26, 1, 0.22), sharex=ax)
    figure = _figure((3.4, 4.2))
    ax, beneath = figure.subplots(2, 1, sharex=True, height_ratios=[1, 0.22])
    ax.set_box_aspect(1)
    beneath.set_box_aspect(0.22)
    return figure, ax, beneath


def _small_axes(count: int) -> "tuple[Figure, list[Axes]]":
    """A figure with ``count`` small square axes in rows of four."""
    rows = -(-count // ACROSS)
    figure = _figure((1.6 * ACROSS, 1.75 * rows))
    grid = figure.subplots(rows, ACROSS, sharex=True, sharey=True).ravel()
    for ax in grid[count:]:
        ax.remove()
    for above in grid[max(0, count - ACROSS) : count]:  # the lowest of each column, also where the last row is short
        above.tick_params(labelbottom=True)
    return figure, list(grid[:count])


def _dress_small(
    figure: "Figure", axes: "Sequence[Axes]", curves: Sequence[ReliabilityCurve], titles: tuple[str, str]
) -> None:
    """Add to each of several axes the other models in grey, the diagonal and the limits."""
    for place, ax in enumerate(axes):
        for other in (curve for number, curve in enumerate(curves) if number != place):
            many = (other.count >= FEW).numpy()
            ax.plot(
                other.confidence.numpy()[many], other.likelihood.numpy()[many], color="#C8CCD2", linewidth=0.6, zorder=1
            )
        ax.plot([0, 1], [0, 1], color="black", linestyle=(0, (3, 2)), linewidth=0.9, zorder=2)
        ax.set(xlim=(0, 1), ylim=(0, 1), box_aspect=1)
        _words(ax, None, None, None, legend=False)
    across, up = titles
    figure.supxlabel(across, fontsize=SMALL + 1)
    figure.supylabel(up, fontsize=SMALL + 1)


def _dress(ax: "Axes", titles: tuple[str, str], beneath: "Axes | None") -> None:
    """Add the diagonal, limits and labels of a reliability diagram."""
    ax.plot([0, 1], [0, 1], color="black", linestyle=(0, (3, 2)), linewidth=0.9, label="calibrated", zorder=2)
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    across, up = titles
    _words(ax, None if beneath is not None else across, up, None)
    if beneath is not None:
        ax.tick_params(labelbottom=False)
        _words(beneath, across, "share", None, legend=False)


def _words(ax: "Axes", across: str | None, up: str | None, title: str | None, *, legend: bool = True) -> None:
    ax.tick_params(labelsize=SMALL, length=2)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if across:
        ax.set_xlabel(across, fontsize=SMALL + 1)
    if up:
        ax.set_ylabel(up, fontsize=SMALL + 1)
    if title:
        ax.set_title(title, fontsize=SMALL + 1)
    if legend:
        _legend_above(ax, title)


def _legend_above(ax: "Axes", title: str | None) -> None:
    """Put the legend above the axes, where it covers nothing; a figure made here grows to fit it."""
    entries = len(ax.get_legend_handles_labels()[1])
    figure = _root(ax)
    if figure is not None and figure.get_layout_engine() is not None and len(figure.axes) <= 2:
        width, height = figure.get_size_inches()
        figure.set_size_inches(width, height + LINE * entries)
    ax.legend(
        fontsize=SMALL, frameon=False, handlelength=2.6, borderaxespad=0,
        loc="lower left", bbox_to_anchor=(0, 1.02 if title is None else 1.1),
    )  # fmt: skip


def _legend(name: str) -> str:
    """A model's name for the legend; matplotlib would omit one that begins with "_", so that gets a space."""
    return f" {_short(name, 40)}" if name.startswith("_") else _short(name, 40)


def _short(name: str, most: int = 24) -> str:
    """A name that matplotlib does not parse as mathematics, shortened if it is long."""
    return escape.mathtext(name if len(name) <= most else name[: most - 1] + "…")
