"""Reliability curves → matplotlib figures: draws numbers of ``softkin.metrics``, and shows the very same in legends.

Every function returns a ``matplotlib.figure.Figure``, or draws on an ``ax`` of yours. Figures are made without
pyplot, so no global state and no style is touched; show them in a notebook, or ``figure.savefig("reliability.svg")``.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from softkin import binning as bins_of
from softkin import checks, density
from softkin.checks import Array
from softkin.metrics import calibration, scopes, uncertainty
from softkin.metrics.scopes import Per, Scope

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, told apart by nearly everyone; the dashes and markers do it in grey as well.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
MARKERS = "os^Dv<>"
SMALL = 8  # points, readable on a figure 3 inches wide
FEW = 10  # scores in a bin
MAX_TICKS = 40  # class names along an axis; more would overlap


def _figure(width: float, height: float) -> "Figure":
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("`softkin.diagrams` needs matplotlib: pip install matplotlib.") from error
    return Figure(figsize=(width, height), layout="constrained")


def _own(ax: "Axes") -> "Figure":
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def _models(probabilities: Any) -> dict[str, Any]:
    """One model or several, by name."""
    if isinstance(probabilities, Mapping):
        if not probabilities:
            raise ValueError("`probabilities` must name at least one model, got an empty mapping.")
        if len(probabilities) > len(COLOURS):
            raise ValueError(f"at most {len(COLOURS)} models fit one diagram, got {len(probabilities)}.")
        return {str(name): p for name, p in probabilities.items()}
    return {"": probabilities}


def _tidy(ax: "Axes") -> None:
    ax.tick_params(labelsize=SMALL)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _legend(ax: "Axes") -> None:
    """Above the axes, where it covers nothing."""
    ax.legend(
        fontsize=SMALL, frameon=False, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2, handlelength=2.5
    )


def reliability(
    probabilities: Array | Mapping[str, Array],
    labels: Array,
    *,
    scope: Scope = "prediction",
    n_bins: int = 15,
    per: Per = "sample",
    bands: float | None = 0.95,
    kde: bool = False,
    resamples: int = 500,
    seed: int = 0,
    width: float = 4.0,
    ax: "Axes | None" = None,
) -> "Figure":
    """Reliability diagram: the share of hits against the score, bin by bin, with the ECE in the legend.

    For one model bars show the gap between score and share of hits: hatched towards the diagonal. Several models are
    lines on one axes. Bands are Clopper–Pearson intervals for prediction; for output, whose scores depend on each other
    within a row, percentiles over resampled rows. Bins of fewer than 10 scores are hollow points off the line. Beneath
    stands how many scores each bin holds, in logarithmic scale for output.

    Args:
        probabilities: (N, K), or a mapping from models' names to theirs.
        labels: (N,).
        scope: "prediction" or "output".
        n_bins: M equal-width bins.
        per: The scale of the ECE shown, "sample" or "score".
        bands: Level of the bands; None for none.
        kde: Also draw the kernel estimate c(p), where there are scores.
        resamples: For the bands of output.
        seed: Of those.
        width: Of the figure, in inches.
        ax: Draw here, without the counts beneath.
    """
    models = _models(probabilities)
    figure = _figure(width, 0.95 * width + 0.15 * len(models)) if ax is None else _own(ax)
    below = None
    if ax is None:
        ax, below = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    ax.plot([0, 1], [0, 1], color="#888888", linewidth=0.8, zorder=1)
    for place, (name, p_any) in enumerate(models.items()):
        p, y = scopes.checked(p_any, labels)
        statistic = calibration.binned(p, y, scope=scope, n_bins=n_bins, per=per)
        curve = statistic.curve()
        colour, dash, marker = COLOURS[place], DASHES[place], MARKERS[place]
        full = (curve.count > 0).numpy()
        x, share = curve.confidence.numpy()[full], curve.likelihood.numpy()[full]
        label = f"{name + ': ' if name else ''}ECE {100 * statistic.value():.2f} %"
        if len(models) == 1:
            edges = curve.edges.numpy()
            left, size = edges[:-1][full], np.diff(edges)[full]
            ax.bar(left, share, size, align="edge", color=colour, alpha=0.35, edgecolor=colour, linewidth=0.6)
            gap = x - share
            ax.bar(
                left,
                gap,
                size,
                bottom=share,
                align="edge",
                fill=False,
                edgecolor="#d55e00",
                hatch="////",
                linewidth=0.6,
            )
        # A line through bins of a few scores would show chance: those are hollow points beside it.
        many = curve.count.numpy()[full] >= FEW
        look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 3, "zorder": 3}
        ax.plot(x[many], share[many], linestyle=dash, linewidth=1.2, label=label, **look)
        ax.plot(x[~many], share[~many], linestyle="none", markerfacecolor="white", **look)
        if bands is not None:
            low, high = uncertainty.likelihood_band(statistic, checks.level(bands), resamples, seed)
            reach = np.stack([share - low.numpy()[full], high.numpy()[full] - share]).clip(min=0)
            ax.errorbar(x, share, reach, fmt="none", ecolor=colour, elinewidth=0.8, capsize=1.5, zorder=3)
        if kde:
            pool = statistic.pool
            radius = density.bandwidth("paper", pool.scores, pool.hits)
            if radius > 0:
                smooth = density.smooth_curve(pool.scores, pool.hits, radius, "reflect")
                ax.plot(
                    smooth.nodes.numpy(), smooth.likelihood.numpy(), color=colour, linewidth=0.8, alpha=0.8, zorder=2
                )
        if below is not None:
            outline = np.repeat(curve.count.numpy(), 2)
            below.plot(np.repeat(curve.edges.numpy(), 2)[1:-1], outline, linestyle=dash, color=colour, linewidth=1)
            if len(models) == 1:
                below.fill_between(np.repeat(curve.edges.numpy(), 2)[1:-1], outline, color=colour, alpha=0.35)
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.set_ylabel("accuracy" if scope == "prediction" else "share of true classes", fontsize=SMALL)
    _legend(ax)
    lowest = below if below is not None else ax
    lowest.set_xlabel("confidence" if scope == "prediction" else f"score, all classes (ECE per {per})", fontsize=SMALL)
    _tidy(ax)
    if below is not None:
        below.set_ylabel("scores", fontsize=SMALL)
        if scope == "output":
            below.set_yscale("log")
        else:
            below.set_ylim(bottom=0)
            below.locator_params(axis="y", nbins=3)
        _tidy(below)
    return figure


def confidence_histogram(
    scores: Mapping[str, Array], *, n_bins: int = 20, width: float = 4.0, ax: "Axes | None" = None
) -> "Figure":
    """How confident a model is on several sets of samples: known and unknown ones, right and wrong ones.

    Args:
        scores: From the sets' names to their (N,) winning scores, such as ``P.max(1)``.
        n_bins: Equal-width bins of [0, 1].
        width: Of the figure, in inches.
        ax: Draw here.
    """
    figure = _figure(width, 0.65 * width) if ax is None else _own(ax)
    if ax is None:
        ax = figure.subplots()
    bins = bins_of.equal_width(checks.count(n_bins, "n_bins"))
    for place, (name, values) in enumerate(_models(scores).items()):
        s = checks.scores(values, f"scores[{name!r}]").cpu()
        if bool((s < 0).any()) or bool((s > 1).any()):
            raise ValueError(f"`scores[{name!r}]` must lie between 0 and 1.")
        share = torch.bincount(bins_of.assign(s, bins), minlength=n_bins).numpy() / len(s)
        x, outline = np.repeat(bins.edges.numpy(), 2)[1:-1], np.repeat(share, 2)
        ax.fill_between(x, outline, color=COLOURS[place], alpha=0.25)
        label = f"{name} (mean {float(s.mean()):.2f})"
        ax.plot(x, outline, linestyle=DASHES[place], color=COLOURS[place], linewidth=1.2, label=label)
    ax.set(xlim=(0, 1))
    ax.set_ylim(bottom=0)
    ax.set_xlabel("confidence", fontsize=SMALL)
    ax.set_ylabel("share of samples", fontsize=SMALL)
    _legend(ax)
    _tidy(ax)
    return figure


def class_calibration(
    probabilities: Array,
    labels: Array,
    *,
    class_names: Sequence[str] | None = None,
    n_bins: int = 15,
    most: int = 20,
    width: float = 4.0,
    ax: "Axes | None" = None,
) -> "Figure":
    """Which classes the model claims too often, and which too seldom: class-wise ECE, split by sign.

    To the right what a class's scores claim too much, to the left what they claim too little, in % of all samples; the
    two add up to the class's ECE. The ``most`` worst classes are shown.
    """
    p, y = scopes.checked(probabilities, labels)
    names = None if class_names is None else checks.class_names(class_names, num_classes=p.shape[1])
    curves = bins_of.class_curves(p, y, bins_of.equal_width(checks.count(n_bins, "n_bins")))
    difference = 100 * (curves.score_sum - curves.hit_sum) / len(p)
    over, under = difference.clamp(min=0).sum(dim=1), -difference.clamp(max=0).sum(dim=1)
    worst = (over + under).argsort(descending=True)[: checks.count(most, "most")].flip(0)
    figure = _figure(width, 0.6 + 0.17 * len(worst)) if ax is None else _own(ax)
    if ax is None:
        ax = figure.subplots()
    lines = np.arange(len(worst))
    ax.barh(lines, over[worst].numpy(), color=COLOURS[1], label="claimed too much")
    ax.barh(lines, -under[worst].numpy(), color=COLOURS[0], hatch="///", edgecolor="white", label="claimed too little")
    ax.set_yticks(lines, [names[k] if names else str(k) for k in worst.tolist()])
    ax.axvline(0, color="#444444", linewidth=0.8)
    ax.set_xlabel("class-wise error, % of all samples", fontsize=SMALL)
    _legend(ax)
    _tidy(ax)
    return figure


def similarity_heatmap(
    similarity: Array, *, class_names: Sequence[str] | None = None, width: float = 4.5, ax: "Axes | None" = None
) -> "Figure":
    """A (K, K) similarity, distance or label matrix: row = true class, column = other class; white is 0."""
    s = checks.square(similarity, "similarity")
    names = None if class_names is None else checks.class_names(class_names, num_classes=len(s))
    figure = _figure(width, width) if ax is None else _own(ax)
    if ax is None:
        ax = figure.subplots()
    image = ax.imshow(s.numpy(), cmap="Greys", vmin=0, interpolation="nearest")
    bar = figure.colorbar(image, ax=ax, shrink=0.8)
    bar.ax.tick_params(labelsize=SMALL)
    if names is not None and len(s) <= MAX_TICKS:
        ax.set_xticks(range(len(s)), names, rotation=90)
        ax.set_yticks(range(len(s)), names)
    ax.set_ylabel("true class", fontsize=SMALL)
    ax.set_xlabel("other class", fontsize=SMALL)
    ax.tick_params(labelsize=SMALL if len(s) <= 20 else 5)
    return figure
