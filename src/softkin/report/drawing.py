"""Small drawings of the first screen, as SVG that needs no script."""

from collections.abc import Callable

from softkin.metrics.binning import ReliabilityCurve
from softkin.report import curves
from softkin.report.data import Cells
from softkin.report.markup import escaped

FEW = 10  # scores in a bin; a bin with fewer is drawn as a point, not as a bar


def _drawn_over(curve: ReliabilityCurve, x: Callable[[float], float], y: Callable[[float], float]) -> list[str]:
    """The line of a calibrator, a diamond for each bin."""
    bins = zip(curve.count.tolist(), curve.confidence.tolist(), curve.likelihood.tolist(), strict=True)
    spots = [(x(claimed), y(share)) for count, claimed, share in bins if count >= FEW]
    line = " ".join(f"{at},{up}" for at, up in spots)
    diamonds = [f'<path class="after-mark" d="M{at} {round(up - 4, 2)}l4 4l-4 4l-4 -4Z"/>' for at, up in spots]
    return [f'<polyline class="after-line" points="{line}"/>', *diamonds]


def reliability_svg(cells: Cells, n_bins: int, name: str, axis: str = "confidence", after: Cells | None = None) -> str:
    """A reliability diagram, made from the cells; a bin with fewer than 10 scores is a point.

    With the cells of a calibrator, its curve is drawn over the bars.
    """
    width, height, left, base, top = 360, 262, 46, 226, 10
    curve = curves.of_cells(cells, n_bins)
    total = sum(cells["count"])

    def x(value: float) -> float:
        return round(left + value * (width - left - 14), 2)

    def y(value: float) -> float:
        return round(base - value * (base - top), 2)

    marks = []
    for m, count in enumerate(curve.count.tolist()):
        if not count:
            continue
        share, claimed = float(curve.likelihood[m]), float(curve.confidence[m])
        if count < FEW:
            marks.append(f'<circle class="few-point" cx="{x(claimed)}" cy="{y(share)}" r="2.4"/>')
            continue
        x0, span = x(m / n_bins), round(x((m + 1) / n_bins) - x(m / n_bins) - 0.8, 2)
        kind = "over" if claimed > share else "under"
        high, low = max(share, claimed), min(share, claimed)
        marks.append(
            f'<rect class="bar" x="{x0}" width="{span}" y="{y(share)}" height="{round(base - y(share), 2)}"/>'
            f'<rect class="gap {kind}" x="{x0}" width="{span}" y="{y(high)}" height="{round(y(low) - y(high), 2)}"/>'
        )
    marks += [] if after is None else _drawn_over(curves.of_cells(after, n_bins), x, y)
    ticks = "".join(
        f'<text x="{x(v)}" y="{base + 14}" text-anchor="middle">{100 * v:.0f}</text>'
        f'<text x="{left - 5}" y="{y(v) + 4}" text-anchor="end">{100 * v:.0f}</text>'
        for v in (0, 0.25, 0.5, 0.75, 1)
    )
    label = (
        f"Reliability of {total:,} answers, {name[0].lower()}{name[1:]}: share that comes true by {axis}, in percent"
    )
    return (
        f'<svg class="small-chart" viewBox="0 0 {width} {height}" role="img" aria-label="{escaped(label)}">'
        f'<line class="axis" x1="{left}" x2="{width - 14}" y1="{base}" y2="{base}"/>{"".join(marks)}'
        f'<line class="diagonal" x1="{x(0)}" y1="{y(0)}" x2="{x(1)}" y2="{y(1)}"/>{ticks}'
        f'<text class="title" x="{(left + width - 14) / 2}" y="{height - 2}" text-anchor="middle">'
        f"{escaped(axis, 28)}, %</text>"
        f'<text class="title" x="12" y="{(top + base) / 2}" text-anchor="middle" '
        f'transform="rotate(-90 9 {(top + base) / 2})">come true, %</text>'
        "</svg>"
    )


def share_bar(share: float) -> str:
    """A share as a bar."""
    return (
        '<svg class="share-bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="axis-ground" width="100" height="8"/>'
        f'<rect class="bar" width="{100 * share:.2f}" height="8"/></svg>'
    )
