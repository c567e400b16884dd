"""What notebooks show: small tables, and a number with its interval as a picture."""

from collections.abc import Iterable, Sequence
from html import escape

WIDTH, HEIGHT, EDGE = 160, 14, 6  # of the picture, in pixels


def table(rows: Iterable[Sequence[object]], *, head: Sequence[str] = (), title: str = "") -> str:
    """A table; cells that are ``Html`` stay as they are, all others are escaped."""
    lines = [f"<caption style='text-align:left'>{escape(title)}</caption>"] if title else []
    if head:
        lines.append(f"<tr>{''.join(f'<th>{escape(cell)}</th>' for cell in head)}</tr>")
    for row in rows:
        cells = (cell if isinstance(cell, Html) else escape(str(cell)) for cell in row)
        lines.append(f"<tr>{''.join(f'<td style=text-align:left>{cell}</td>' for cell in cells)}</tr>")
    return f"<table>{''.join(lines)}</table>"


class Html(str):
    """Text that is HTML already."""


def whisker(value: float, low: float, high: float) -> Html:
    """A dot with its interval on an axis that includes 0, which is marked; empty if a number is not finite."""
    span = max(high, value, 0.0) - min(low, value, 0.0)
    if not 0 < span < float("inf"):
        return Html("")
    start = min(low, value, 0.0)

    def place(number: float) -> float:
        return round(EDGE + (WIDTH - 2 * EDGE) * (number - start) / span, 1)

    middle = HEIGHT / 2
    return Html(
        f"<svg width={WIDTH} height={HEIGHT} role=img aria-label='{value:.4g}, {low:.4g} to {high:.4g}'>"
        f"<line x1={place(0)} x2={place(0)} y1=1 y2={HEIGHT - 1} stroke=currentColor opacity=.4 />"
        f"<line x1={place(low)} x2={place(high)} y1={middle} y2={middle} stroke=currentColor stroke-width=2 />"
        f"<circle cx={place(value)} cy={middle} r=4 fill=currentColor /></svg>"
    )
